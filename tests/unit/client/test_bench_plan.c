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

        assert_int_equal(bench_plan_all(&none, phases, &n), 0);
        for (unsigned i = 0; i < n; i++)
                seen[phases[i].kind] = true;
        for (unsigned kind = LOAD_PUT; kind < LOAD_PHASES; kind++)
                assert_true(seen[kind]);
        assert_int_equal(bench_plan_all(&small, phases, &fewer), 0);
        assert_int_equal(fewer, n - 1);
}

/* ---- by way of libmillrace ------------------------------------------------------------------- */

static void batches(void **state)
{
        struct cli_bench_options none = {.library = true};

        assert_int_equal(add("batch-7-10k", none), 0);
        assert_string_equal(phases[0].name, "batch-7-10k");
        assert_int_equal(phases[0].kind, LOAD_GET);
        assert_int_equal(phases[0].batch, 7);
        assert_int_equal(phases[0].size, 10 * K);
        assert_int_equal(phases[0].connections, 4);
        assert_int_equal(bench_plan_place(&phases[0]), 70 * K);
        assert_int_equal(bench_plan_objects(&phases[0], &none), 1000);
        assert_int_equal(add("batch-1024", none), 0);
        assert_int_equal(phases[0].batch, 1024);
        assert_int_equal(phases[0].size, 64 * K);
        assert_int_equal(add("batch", none), 0);
        assert_int_equal(count, 2);
        assert_string_equal(phases[1].name, "batch-64-64k");
        assert_int_equal(add("get-4k", none), 0);
        assert_int_equal(phases[0].batch, 0);
}

static void batches_of_nothing(void **state)
{
        static const char *const words[] = {"batch-",        "batch-0",
                                            "batch-1025",    "batch-x",
                                            "batch-4k",      "batch-4-",
                                            "batch-4-0",     "batch--4",
                                            "batch-4-4k-4k", "batch4",
                                            "batch-4-6G",    "batch-4 4k",
                                            "batch-4-x",     "batch-99999999999999999999"};
        struct cli_bench_options none = {.library = true};

        for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
                assert_int_equal(add(words[i], none), -EINVAL);
                assert_int_equal(count, 0);
        }
}

/* What one way does not have is not done the other way. */
static void each_way_has_its_phases(void **state)
{
        static const char *const others[] = {"multipart", "list", "list-40", "head", "delete"};
        struct cli_bench_options library = {.library = true}, none = {0};

        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
                assert_int_equal(add(others[i], library), -EOPNOTSUPP);
        assert_int_equal(add("batch", none), -EOPNOTSUPP);
        assert_int_equal(add("batch-4-4k", none), -EOPNOTSUPP);
        assert_int_equal(count, 0);
        assert_int_equal(bench_plan_all(&library, phases, &count), 0);
        assert_int_equal(count, 4 + 4 + 2 + 1 + 1);
        for (unsigned i = 0; i < count; i++) {
                enum load_phase kind = phases[i].kind;

                assert_true(kind == LOAD_PUT || kind == LOAD_GET || kind == LOAD_RANGE || kind == LOAD_MIXED);
                assert_true(phases[i].connections >= 1 && phases[i].connections <= BENCH_FLIGHT_MAX);
                assert_true(bench_plan_place(&phases[i]) * phases[i].connections <= BENCH_MEMORY_MAX);
        }
}

static void memory_is_bounded(void **state)
{
        static const struct {
                const char *word;
                unsigned connections;
                int rv;
                unsigned flying;
        } cases[] = {
                {"get-1g", 0, 0, 1},        {"get-300m", 0, 0, 3},           {"get-1025m", 0, -EFBIG, 0},
                {"get-300m", 4, -EFBIG, 0}, {"get-16m", 64, 0, 64},          {"get-4k", 65, -EFBIG, 0},
                {"put-1g", 4, 0, 4},        {"put-2g", 1, -EFBIG, 0},        {"put-4k", 65, -EFBIG, 0},
                {"batch-1024-1m", 0, 0, 1}, {"batch-1024-1m", 2, -EFBIG, 0}, {"batch-1000-2m", 0, -EFBIG, 0},
                {"mixed-600m", 0, 0, 1},    {"range-64k", 64, 0, 64},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct cli_bench_options options = {.library = true, .connections = cases[i].connections};

                assert_int_equal(add(cases[i].word, options), cases[i].rv);
                assert_int_equal(count, cases[i].rv == 0);
                if (cases[i].rv == 0)
                        assert_int_equal(phases[0].connections, cases[i].flying);
        }
}

/* Not left out, as if there were none. */
static void usual_phases_that_do_not_fit(void **state)
{
        struct cli_bench_options many = {.library = true, .connections = 65},
                                 large = {.library = true, .range_of = 2048 * M};

        count = 0;
        assert_int_equal(bench_plan_all(&many, phases, &count), -EFBIG);
        assert_int_equal(bench_plan_all(&large, phases, &count), -EFBIG);
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
                cmocka_unit_test(batches),
                cmocka_unit_test(batches_of_nothing),
                cmocka_unit_test(each_way_has_its_phases),
                cmocka_unit_test(memory_is_bounded),
                cmocka_unit_test(usual_phases_that_do_not_fit),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
