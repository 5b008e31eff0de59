/*
 * test_endpoints.c - the list of a client's endpoints, the choice among them, pauses and probes,
 * with a clock and random numbers of the test's own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "client/base/endpoints.h"

#define THREE "http://a:1,http://b:2,http://c:3"

static struct mr_endpoints parsed(const char *text)
{
        struct mr_endpoints endpoints;

        assert_int_equal(mr_endpoints_parse(text, &endpoints), 0);
        return endpoints;
}

static void lists_are_taken_apart(void **state)
{
        struct mr_endpoints list = parsed(" http://a:1/ ,\thttp://b:80,http://[::1]:9000 ");

        assert_int_equal(list.count, 3);
        assert_false(list.tls);
        assert_string_equal(list.at[0].url, "http://a:1");
        assert_string_equal(list.at[0].host, "a:1");
        assert_string_equal(list.at[1].url, "http://b:80");
        assert_string_equal(list.at[1].host, "b");
        assert_string_equal(list.at[2].host, "[::1]:9000");
        list = parsed("https://a,https://b:443,https://c:9000");
        assert_int_equal(list.count, 3);
        assert_true(list.tls);
        assert_string_equal(list.at[1].host, "b");
}

static void one_named_twice_counts_once(void **state)
{
        struct mr_endpoints list = parsed("http://a,http://A:80/,http://b,http://a");

        assert_int_equal(list.count, 2);
        assert_string_equal(list.at[0].url, "http://a");
        assert_string_equal(list.at[1].url, "http://b");
}

static void bad_lists_are_refused(void **state)
{
        static const char *const bad[] = {
                "",
                " ",
                ",",
                "http://a,",
                ",http://a",
                "http://a,,http://b",
                "http://a http://b",
                "http://a,https://b",
                "https://a,http://b",
                "http://a,ftp://b",
                "http://a,b:9000",
                "http://a,http://b/path",
                "http://a,http://b c",
                "http://a\nhttp://b",
        };
        struct mr_endpoints list;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(mr_endpoints_parse(bad[i], &list), -EINVAL);
}

static void lists_are_bounded(void **state)
{
        char text[1024], lengthy[MR_ENDPOINT_URL_MAX + 1];
        struct mr_endpoints list;
        size_t len = 0;

        for (unsigned i = 0; i < MR_ENDPOINTS_MAX; i++)
                len += (size_t)snprintf(text + len, sizeof(text) - len, "%shttp://h%u", i == 0 ? "" : ",", i);
        assert_int_equal(parsed(text).count, MR_ENDPOINTS_MAX);
        snprintf(text + len, sizeof(text) - len, ",http://h3");
        assert_int_equal(parsed(text).count, MR_ENDPOINTS_MAX);
        snprintf(text + len, sizeof(text) - len, ",http://more");
        assert_int_equal(mr_endpoints_parse(text, &list), -EINVAL);

        memset(lengthy, 'a', sizeof(lengthy));
        memcpy(lengthy, "http://", 7);
        lengthy[MR_ENDPOINT_URL_MAX] = '\0';
        assert_int_equal(mr_endpoints_parse(lengthy, &list), -EINVAL);
        lengthy[MR_ENDPOINT_URL_MAX - 1] = '\0';
        assert_int_equal(mr_endpoints_parse(lengthy, &list), 0);
}

static uint32_t next_random(uint64_t *seed)
{
        *seed = *seed * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(*seed >> 32);
}

/* Attempts that never end: the loads stay within a few of one another. */
static void load_is_spread(void **state)
{
        struct mr_endpoints list = parsed(THREE);
        uint64_t seed = 1;

        for (unsigned i = 0; i < 300; i++)
                assert_true(mr_endpoints_take(&list, 0, 0, next_random(&seed)).taken);
        for (unsigned i = 0; i < 3; i++)
                assert_in_range(list.at[i].load, 96, 104);
}

/* One is slow: it keeps what it has, and the others get nearly all that comes. */
static void a_slow_one_gets_less(void **state)
{
        struct mr_endpoints list = parsed(THREE);
        unsigned slow = 0;
        uint64_t seed = 2;

        for (unsigned i = 0; i < 3000; i++) {
                struct mr_endpoint_use use = mr_endpoints_take(&list, 0, 0, next_random(&seed));

                if (use.index == 1)
                        slow++;
                else
                        mr_endpoints_give(&list, &use, MR_ENDPOINT_WORKS, 0, 0);
        }
        assert_in_range(slow, 1, 10);
}

static void retries_go_elsewhere(void **state)
{
        struct mr_endpoints list = parsed(THREE);
        uint64_t seed = 3;

        for (unsigned i = 0; i < 200; i++) {
                struct mr_endpoint_use use = mr_endpoints_take(&list, 5, 0, next_random(&seed));

                assert_int_equal(use.index, 1);
                mr_endpoints_give(&list, &use, MR_ENDPOINT_WORKS, 0, 0);
        }
        /* all were tried, and all are up: any of them */
        assert_in_range(mr_endpoints_take(&list, 7, 0, next_random(&seed)).index, 0, 2);
}

static void fails_at(struct mr_endpoints *list, unsigned index, int64_t now_ms, uint32_t random)
{
        mr_endpoints_note(list, index, MR_ENDPOINT_FAILED, now_ms, random);
}

static void pauses_grow_to_a_bound(void **state)
{
        struct mr_endpoints list = parsed("http://a,http://b");
        int64_t now = 5000, least[] = {500, 1000, 2000, 4000, 8000, 15000, 15000, 15000};

        for (size_t i = 0; i < sizeof(least) / sizeof(least[0]); i++) {
                int64_t until;

                fails_at(&list, 0, now, 0);
                until = list.at[0].avoided_until;
                assert_int_equal(until - now, least[i]);
                assert_true(mr_endpoint_avoided(&list.at[0], until - 1));
                assert_false(mr_endpoint_avoided(&list.at[0], until));
                now = until;
        }
        list = parsed("http://a");
        fails_at(&list, 0, now, UINT32_MAX);
        assert_int_equal(list.at[0].avoided_until - now, 999);
}

static void many_failures_at_once_count_as_one(void **state)
{
        struct mr_endpoints list = parsed("http://a,http://b");

        for (unsigned i = 0; i < 16; i++)
                fails_at(&list, 0, 1000 + i, 0);
        assert_int_equal(list.at[0].failures, 1);
        assert_int_equal(list.at[0].avoided_until, 1500);
}

static void an_avoided_one_is_not_taken(void **state)
{
        struct mr_endpoints list = parsed(THREE);
        uint64_t seed = 4;

        fails_at(&list, 2, 1000, UINT32_MAX);
        for (unsigned i = 0; i < 300; i++)
                assert_int_not_equal(mr_endpoints_take(&list, 0, 1998, next_random(&seed)).index, 2);
        /* not even rather than one that was tried and is up */
        assert_int_not_equal(mr_endpoints_take(&list, 3, 1998, 0).index, 2);
}

static void one_attempt_at_a_time_probes(void **state)
{
        struct mr_endpoints list = parsed("http://a,http://b");
        struct mr_endpoint_use probe, other;

        fails_at(&list, 0, 0, 0);
        probe = mr_endpoints_take(&list, 2, 500, 0);
        assert_int_equal(probe.index, 0);
        assert_true(probe.probe);
        for (unsigned i = 0; i < 8; i++) {
                other = mr_endpoints_take(&list, 2, 500, i << 16 | i);
                assert_int_equal(other.index, 1);
                assert_false(other.probe);
        }
        /* it fails: avoided for longer; then another probe, which succeeds */
        mr_endpoints_give(&list, &probe, MR_ENDPOINT_FAILED, 600, 0);
        assert_int_equal(list.at[0].avoided_until, 1600);
        assert_int_equal(mr_endpoints_take(&list, 2, 1599, 0).index, 1);
        probe = mr_endpoints_take(&list, 2, 1600, 0);
        assert_true(probe.probe);
        mr_endpoints_give(&list, &probe, MR_ENDPOINT_WORKS, 1700, 0);
        assert_int_equal(list.at[0].failures, 0);
        for (unsigned i = 0; i < 4; i++) {
                other = mr_endpoints_take(&list, 2, 1700, i);
                assert_int_equal(other.index, 0);
                assert_false(other.probe);
        }
}

static void a_canceled_probe_makes_room(void **state)
{
        struct mr_endpoints list = parsed("http://a,http://b");
        struct mr_endpoint_use probe;

        fails_at(&list, 0, 0, 0);
        probe = mr_endpoints_take(&list, 2, 500, 0);
        assert_true(probe.probe);
        mr_endpoints_give(&list, &probe, MR_ENDPOINT_UNKNOWN, 550, 0);
        assert_int_equal(list.at[0].failures, 1);
        probe = mr_endpoints_take(&list, 2, 550, 0);
        assert_int_equal(probe.index, 0);
        assert_true(probe.probe);
}

/* An attempt that began before the failure ends while another one probes. */
static void an_older_attempt_ends_no_probe(void **state)
{
        struct mr_endpoints list = parsed("http://a,http://b");
        struct mr_endpoint_use old = mr_endpoints_take_among(&list, 1, 0, 0, 0), probe;

        fails_at(&list, 0, 0, 0);
        probe = mr_endpoints_take(&list, 2, 500, 0);
        assert_true(probe.probe);
        mr_endpoints_give(&list, &old, MR_ENDPOINT_UNKNOWN, 510, 0);
        assert_int_equal(mr_endpoints_take(&list, 2, 510, 0).index, 1);
}

static void where_all_are_down_one_is_tried(void **state)
{
        struct mr_endpoints list = parsed(THREE);

        fails_at(&list, 0, 1000, UINT32_MAX);
        fails_at(&list, 1, 1000, 0);
        fails_at(&list, 2, 1000, UINT32_MAX / 2);
        assert_int_equal(mr_endpoints_take(&list, 0, 1100, 0).index, 1);
        assert_int_equal(mr_endpoints_take(&list, 2, 1100, 0).index, 2);
        assert_int_equal(mr_endpoints_take(&list, 6, 1100, 0).index, 0);
        assert_int_equal(mr_endpoints_take(&list, 7, 1100, 0).index, 1);
}

static void one_endpoint_is_always_taken(void **state)
{
        struct mr_endpoints list = parsed("http://a");

        for (unsigned i = 0; i < 5; i++) {
                assert_int_equal(mr_endpoints_take(&list, 0, 0, i).index, 0);
                assert_int_equal(mr_endpoints_take(&list, 1, 0, i).index, 0);
                fails_at(&list, 0, 0, 0);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(lists_are_taken_apart),
                cmocka_unit_test(one_named_twice_counts_once),
                cmocka_unit_test(bad_lists_are_refused),
                cmocka_unit_test(lists_are_bounded),
                cmocka_unit_test(load_is_spread),
                cmocka_unit_test(a_slow_one_gets_less),
                cmocka_unit_test(retries_go_elsewhere),
                cmocka_unit_test(pauses_grow_to_a_bound),
                cmocka_unit_test(many_failures_at_once_count_as_one),
                cmocka_unit_test(an_avoided_one_is_not_taken),
                cmocka_unit_test(one_attempt_at_a_time_probes),
                cmocka_unit_test(a_canceled_probe_makes_room),
                cmocka_unit_test(an_older_attempt_ends_no_probe),
                cmocka_unit_test(where_all_are_down_one_is_tried),
                cmocka_unit_test(one_endpoint_is_always_taken),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
