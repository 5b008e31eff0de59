/* test_bench_plan.c - phases of `millrace bench` by name, and what they need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "cli/bench.h"

#define K (1ull << 10)
#define M (1ull << 20)

static struct bench_phase phases[BENCH_PHASES_MAX];
static unsigned count;

static int add(const char *word, struct cli_bench_options options)
{
        count = 0;
        return bench_plan_add(word, &options, phases, &count);
}

static void names(void **state)
{
        struct cli_bench_options none = {0};

        assert_int_equal(add("put-64K", none), 0);
        assert_int_equal(count, 1);
        assert_string_equal(phases[0].name, "put-64K");
        assert_int_equal(phases[0].kind, LOAD_PUT);
        assert_int_equal(phases[0].size, 64 * K);
        assert_int_equal(phases[0].connections, 32);
        assert_int_equal(add("list-40", none), 0);
        assert_int_equal(phases[0].kind, LOAD_LIST);
        assert_int_equal(phases[0].max_keys, 40);
        assert_int_equal(add("range-1m", none), 0);
        assert_int_equal(phases[0].range, 1 * M);
        assert_int_equal(phases[0].size, 64 * M);
        assert_int_equal(add("multipart", none), 0);
        assert_int_equal(phases[0].size, 1024 * M);
        assert_int_equal(add("get", none), 0);
        assert_int_equal(count, 4);
        assert_string_equal(phases[3].name, "get-16m");
        assert_int_equal(phases[3].connections, 4);
}

static void names_of_nothing(void **state)
{
        static const char *const words[] = {"",        "putt",         "put-",
                                            "put-x",   "put-0",        "put-6G",
                                            "put--1",  "list-0",       "list-1001",
                                            "head-4",  "multipart-1m", "get4k",
                                            "delete-", "range-65M",    "get-000000000000000000000000001"};
        struct cli_bench_options none = {0};

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                assert_int_equal(add(words[i], none), -EINVAL);
                assert_int_equal(count, 0);
        }
}

static void options_are_heeded(void **state)
{
        struct cli_bench_options options = {.connections = 7, .size = 10 * M, .range_of = 1 * M};

        assert_int_equal(add("multipart", options), 0);
        assert_int_equal(phases[0].size, 10 * M);
        assert_int_equal(phases[0].connections, 7);
        assert_int_equal(add("range-1m", options), 0);
        assert_int_equal(phases[0].size, 1 * M);
        assert_int_equal(add("range-2m", options), -EINVAL);
}

static void no_more_than_fit(void **state)
{
        struct cli_bench_options none = {0};
        unsigned n = 0;

        for (unsigned i = 0; i < BENCH_PHASES_MAX; i++)
                assert_int_equal(bench_plan_add("head", &none, phases, &n), 0);
        assert_int_equal(bench_plan_add("head", &none, phases, &n), -E2BIG);
        assert_int_equal(n, BENCH_PHASES_MAX);
}

static void all_that_is_usual(void **state)
{
        struct cli_bench_options none = {0}, small = {.range_of = 4 * K};
        bool seen[LOAD_PHASES] = {false};
        unsigned n = 0, fewer = 0;

        bench_plan_all(&none, phases, &n);
        for (unsigned i = 0; i < n; i++)
                seen[phases[i].kind] = true;
        for (unsigned kind = LOAD_PUT; kind < LOAD_PHASES; kind++)
                assert_true(seen[kind]);
        bench_plan_all(&small, phases, &fewer);
        assert_int_equal(fewer, n - 1);
}

static void objects_that_are_needed(void **state)
{
        struct cli_bench_options none = {0}, five = {.objects = 5};
        struct bench_phase put = {.kind = LOAD_PUT, .size = 4 * K}, get = {.kind = LOAD_GET, .size = 4 * K};
        struct bench_phase large = {.kind = LOAD_GET, .size = 1024 * M},
                           list = {.kind = LOAD_LIST, .size = 4 * K, .max_keys = 40};

        assert_int_equal(bench_plan_objects(&put, &none), 0);
        assert_int_equal(bench_plan_objects(&get, &none), 1000);
        assert_int_equal(bench_plan_objects(&get, &five), 5);
        assert_int_equal(bench_plan_objects(&large, &none), 4);
        assert_int_equal(bench_plan_objects(&list, &five), 40); /* a page has to be full */
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(names),
                cmocka_unit_test(names_of_nothing),
                cmocka_unit_test(options_are_heeded),
                cmocka_unit_test(no_more_than_fit),
                cmocka_unit_test(all_that_is_usual),
                cmocka_unit_test(objects_that_are_needed),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
