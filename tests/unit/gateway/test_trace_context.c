/*
 * test_trace_context.c - gateway/http/trace_context.c: which traceparent headers are taken, and
 * which are as good as none.
 */
#include "gateway/http/trace_context.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#define TRACE  "4bf92f3577b34da6a3ce929d0e0e4736"
#define PARENT "00f067aa0ba902b7"
#define GOOD   "00-" TRACE "-" PARENT "-01"

/*
 * The value lies at the end of its memory: a byte read behind it is seen by the address sanitizer.
 */
static bool taken(const char *value, struct gw_trace_context *out)
{
        size_t len = strlen(value);
        char *copy = malloc(len + (len == 0));
        struct s3_header header = {S3_STR("TraceParent"), {copy, len}};
        bool found;

        assert_non_null(copy);
        for (size_t i = 0; i < len; i++)
                copy[i] = value[i];
        found = gw_trace_context_of(&header, 1, out);
        free(copy);
        return found;
}

static void test_taken(void **state)
{
        static const char *const good[] = {
                GOOD,
                " " GOOD "\t",
                "00-" TRACE "-" PARENT "-ff",
                "01-" TRACE "-" PARENT "-00",
                "fe-" TRACE "-" PARENT "-00-what-comes-later",
        };

        for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                struct gw_trace_context context;

                assert_true(taken(good[i], &context));
                assert_string_equal(context.trace_id, TRACE);
                assert_string_equal(context.parent_id, PARENT);
        }
}

static void test_not_taken(void **state)
{
        static const char *const bad[] = {
                "",
                "00",
                "00-" TRACE,
                "00-" TRACE "-" PARENT,
                "00-" TRACE "-" PARENT "-0",
                "00-" TRACE "-" PARENT "-01-",
                "00-" TRACE "-" PARENT "-01-more",
                "00-" TRACE "-" PARENT "-0g",
                "01-" TRACE "-" PARENT "-01more",
                "ff-" TRACE "-" PARENT "-01",
                "0x-" TRACE "-" PARENT "-01",
                "00_" TRACE "-" PARENT "-01",
                "00-" TRACE "_" PARENT "-01",
                "00-" TRACE "-" PARENT "_01",
                "00-4BF92F3577B34DA6A3CE929D0E0E4736-" PARENT "-01",
                "00-4bf92f3577b34da6a3ce929d0e0e473\"-" PARENT "-01",
                "00-" TRACE "-00f067aa0ba902b\n-01",
                "00-00000000000000000000000000000000-" PARENT "-01",
                "00-" TRACE "-0000000000000000-01",
                GOOD ", " GOOD,
        };
        struct gw_trace_context context;

        for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (taken(bad[i], &context))
                        fail_msg("taken: %s", bad[i]);
}

static void test_one_header(void **state)
{
        const struct s3_header headers[] = {
                {S3_STR("host"), S3_STR("x")}, {S3_STR("traceparent"), S3_STR(GOOD)}, {S3_STR("traceparent"), S3_STR(GOOD)}};
        struct gw_trace_context context;

        assert_false(gw_trace_context_of(headers, 1, &context));
        assert_true(gw_trace_context_of(headers, 2, &context));
        assert_false(gw_trace_context_of(headers, 3, &context));
        assert_false(gw_trace_context_of(NULL, 0, &context));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_taken),
                cmocka_unit_test(test_not_taken),
                cmocka_unit_test(test_one_header),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
