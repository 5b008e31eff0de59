/*
 * test_key_uses.c - gateway/sts/key_uses.c: uses are found again, and the oldest is forgotten where there is no room.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "gateway/sts/key_uses.h"

static const struct gw_op get = {.permission = "s3:GetObject"}, iam = {.permission = "iam:*"},
                          sts = {.permission = "sts:*"}, plain = {.permission = NULL};
static struct gw_gateway gw;

static int uses_setup(void **state)
{
        return gw_key_uses_start(&gw);
}

static int uses_teardown(void **state)
{
        gw_key_uses_free(&gw);
        return 0;
}

static void expect_use(const char *key, const char *service, int64_t ms)
{
        struct gw_key_use use;

        assert_true(gw_key_last_used(&gw, key, &use));
        assert_string_equal(use.service, service);
        assert_int_equal(use.ms, ms);
}

static void test_the_last_use(void **state)
{
        struct gw_key_use use;

        assert_false(gw_key_last_used(&gw, "AKIAONE", &use));
        gw_key_used(&gw, "AKIAONE", &get, 1767225600999);
        expect_use("AKIAONE", "s3", 1767225600000);
        assert_false(gw_key_last_used(&gw, "AKIATWO", &use));
        gw_key_used(&gw, "AKIATWO", &iam, 1767225601000);
        gw_key_used(&gw, "AKIAONE", &sts, 1767225602000);
        expect_use("AKIAONE", "sts", 1767225602000);
        expect_use("AKIATWO", "iam", 1767225601000);
        gw_key_used(&gw, "AKIAONE", &plain, 1767225603000);
        expect_use("AKIAONE", "s3", 1767225603000);
        gw_key_used(&gw, "AKIAONE", &get, 1767225000000); /* the clock was set back */
        expect_use("AKIAONE", "s3", 1767225000000);
}

/* Many more keys than there is room for: those of the last seconds are there, and none is taken for another. */
static void test_the_oldest_is_forgotten(void **state)
{
        struct gw_key_use use;
        unsigned known = 0;
        char key[32];

        for (unsigned i = 0; i < 200000; i++) {
                snprintf(key, sizeof(key), "AKIA%016u", i);
                gw_key_used(&gw, key, &get, 1767225600000 + (int64_t)i * 1000);
        }
        for (unsigned i = 0; i < 200000; i++) {
                snprintf(key, sizeof(key), "AKIA%016u", i);
                if (!gw_key_last_used(&gw, key, &use))
                        continue;
                assert_int_equal(use.ms, 1767225600000 + (int64_t)i * 1000);
                known += i >= 180000;
        }
        assert_true(known > 19000); /* of 20,000 */
}

static void test_a_gateway_that_notes_nothing(void **state)
{
        static struct gw_gateway other;
        struct gw_key_use use;

        gw_key_used(&other, "AKIAONE", &get, 1000);
        assert_false(gw_key_last_used(&other, "AKIAONE", &use));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_the_last_use, uses_setup, uses_teardown),
                cmocka_unit_test_setup_teardown(test_the_oldest_is_forgotten, uses_setup, uses_teardown),
                cmocka_unit_test(test_a_gateway_that_notes_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
