/*
 * test_fetch.c - fetch.c and download.c: what an answer says of its bytes counts, and those that
 * were not asked for are not taken.
 */
#include "tests/unit/client/fake_store.h"

#include <errno.h>

#include "millrace.h"

#define LARGE (12u << 20) /* more than one part */

static struct store store;
static char *place;

static int set_up(void **state)
{
        store_make(&store, LARGE);
        place = calloc(1, LARGE);
        return place != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
        store_free(&store);
        free(place);
        return 0;
}

/* A GET of `len` bytes from offset, or of the last ones. */
static int get(uint64_t offset, uint64_t len, uint64_t last, struct mr_result *result)
{
        struct mr_get what = {.bucket = "bkt",
                              .key = "obj",
                              .place = {.memory = place, .len = LARGE},
                              .offset = offset,
                              .len = len,
                              .last = last};
        struct mr_client *client;
        struct fake_s3 fake;
        int rv;

        fake_start(&fake, store_serve, &store);
        client = store_client(&fake, 5);
        rv = mr_get(client, &what, result);
        mr_client_free(client);
        fake_stop(&fake);
        return rv;
}

/* Fewer bytes than were asked for and are there would be taken for all of them. */
static void ranges_that_lack_bytes(void **state)
{
        struct mr_result result;

        store.len = 1000;
        assert_int_equal(get(0, 500, 0, &result), 0);
        assert_int_equal(get(900, 500, 0, &result), 0); /* there are no more */
        assert_int_equal(result.bytes, 100);
        assert_int_equal(get(0, 0, 2000, &result), 0);
        assert_int_equal(result.bytes, 1000);
        store.range_less = true;
        assert_int_equal(get(0, 500, 0, &result), -EPROTO);
        assert_int_equal(get(900, 500, 0, &result), -EPROTO);
        assert_int_equal(get(10, 0, 0, &result), -EPROTO);
        assert_int_equal(get(0, 0, 500, &result), -EPROTO);
}

static void ranges_from_another_place(void **state)
{
        struct mr_result result;

        store.len = 1000;
        store.range_early = 1;
        assert_int_equal(get(10, 500, 0, &result), -EPROTO);
        assert_int_equal(get(0, 0, 500, &result), -EPROTO);
}

/* One that goes on where another broke off: no checksum would tell. */
static void ranges_that_do_not_go_on(void **state)
{
        struct mr_result result;

        store.len = 100000;
        store.no_crc = store.no_sum = true;
        store.cut_from = store.cut_to = 1;
        assert_int_equal(get(0, 0, 0, &result), 0);
        assert_int_equal(store.gets, 2);
        assert_true(store_is(&store, place, 0, 100000, 1));
        store.cut_from = store.cut_to = 3;
        store.range_early = 4;
        assert_int_equal(get(0, 0, 0, &result), -EPROTO);
        store.cut_from = store.cut_to = store.gets + 1;
        store.range_early = 0;
        store.range_less = true;
        assert_int_equal(get(0, 0, 0, &result), -EPROTO);
}

/*
 * As a proxy makes them that has changed the answer. If-Match never matches: the object is read by
 * one GET.
 */
static void a_weak_etag(void **state)
{
        struct mr_result result;

        store.weak_etag = true;
        assert_int_equal(get(0, 0, 0, &result), 0);
        assert_int_equal(result.bytes, LARGE);
        assert_int_equal(store.gets, 1);
        assert_int_equal(store.with_match, 0);
        assert_true(store_is(&store, place, 0, LARGE, 1));
        store.cut_from = store.cut_to = 2; /* nothing says that what follows is of the same version */
        assert_int_equal(get(0, 0, 0, &result), 0);
        assert_int_equal(store.gets, 3);
        assert_int_equal(store.with_match, 0);
        assert_true(store_is(&store, place, 0, LARGE, 1));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(ranges_that_lack_bytes, set_up, tear_down),
                cmocka_unit_test_setup_teardown(ranges_from_another_place, set_up, tear_down),
                cmocka_unit_test_setup_teardown(ranges_that_do_not_go_on, set_up, tear_down),
                cmocka_unit_test_setup_teardown(a_weak_etag, set_up, tear_down),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
