/*
 * test_hints.c - what is said of a group, once a minute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/hints.h"

#define SECOND 1000000000ull

static void test_once_a_minute(void **state)
{
        static struct eng_hints hints;

        assert_true(eng_hint_is_due(&hints, 0, 0));
        assert_false(eng_hint_is_due(&hints, 0, 0));
        assert_true(eng_hint_is_due(&hints, 1, 5 * SECOND));
        assert_false(eng_hint_is_due(&hints, 0, 59 * SECOND));
        assert_true(eng_hint_is_due(&hints, 0, 60 * SECOND));
        assert_false(eng_hint_is_due(&hints, 1, 64 * SECOND));
        assert_true(eng_hint_is_due(&hints, 1, 65 * SECOND));
        assert_true(eng_hint_is_due(&hints, UINT32_MAX, 66 * SECOND));
        assert_false(eng_hint_is_due(&hints, UINT32_MAX, 67 * SECOND));
}

/* Groups at one place keep nobody from being said. */
static void test_one_place(void **state)
{
        static struct eng_hints hints;

        assert_true(eng_hint_is_due(&hints, 7, SECOND));
        assert_true(eng_hint_is_due(&hints, 7 + ENG_HINTS, SECOND));
        assert_true(eng_hint_is_due(&hints, 7, SECOND));
        assert_false(eng_hint_is_due(&hints, 7, 2 * SECOND));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_once_a_minute),
                cmocka_unit_test(test_one_place),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
