/*
 * test_ghost_table.c - what was read not long ago is known, what was not read is not, and the table
 * has a bound.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/drive/ghost_table.h"

#include <setjmp.h>
#include <cmocka.h>

#define LEAST 1024u /* marks, however little memory one stands for */

static void test_known_the_second_time(void **state)
{
        struct eng_ghosts ghosts = {.memory_each = 64 << 10, .most = 1u << 16};
        uint64_t file, position;

        for (file = 1; file <= 4; file++)
                for (position = 0; position < 64; position++)
                        assert_false(eng_ghosts_touch(&ghosts, file, position * 64));
        for (file = 1; file <= 4; file++)
                for (position = 0; position < 64; position++)
                        assert_true(eng_ghosts_touch(&ghosts, file, position * 64));
        eng_ghosts_clear(&ghosts);
        assert_false(eng_ghosts_touch(&ghosts, 1, 0));
        assert_true(eng_ghosts_touch(&ghosts, 1, 0));
        eng_ghosts_clear(&ghosts);
        eng_ghosts_clear(&ghosts);
}

static void test_bounded(void **state)
{
        struct eng_ghosts few = {.memory_each = UINT64_MAX, .most = 1u << 16};
        struct eng_ghosts most = {.memory_each = 1, .most = 4096};

        assert_false(eng_ghosts_touch(&few, 1, 1));
        assert_int_equal(few.sets, LEAST / ENG_GHOSTS_SET);
        assert_false(eng_ghosts_touch(&most, 1, 1));
        assert_int_equal(most.sets, 4096 / ENG_GHOSTS_SET);
        eng_ghosts_clear(&few);
        eng_ghosts_clear(&most);
}

/*
 * One pass over far more than there are marks leaves none of its beginning, and nearly all of its
 * end.
 */
static void test_the_oldest_go(void **state)
{
        struct eng_ghosts ghosts = {.memory_each = UINT64_MAX, .most = LEAST};
        unsigned i, kept = 0;

        for (i = 0; i < 64 * LEAST; i++)
                assert_false(eng_ghosts_touch(&ghosts, 7, i * 4096ull));
        for (i = 64 * LEAST - LEAST / 4; i < 64 * LEAST; i++)
                kept += eng_ghosts_touch(&ghosts, 7, i * 4096ull);
        assert_true(kept > LEAST / 4 * 9 / 10);
        for (i = 0; i < LEAST / 4; i++)
                assert_false(eng_ghosts_touch(&ghosts, 7, i * 4096ull));
        eng_ghosts_clear(&ghosts);
}

/* What is asked for again and again among what is asked for once keeps its mark. */
static void test_what_is_asked_for_stays(void **state)
{
        struct eng_ghosts ghosts = {.memory_each = UINT64_MAX, .most = LEAST};
        unsigned i;

        assert_false(eng_ghosts_touch(&ghosts, 3, 64));
        for (i = 1; i < 32 * LEAST; i++) {
                eng_ghosts_touch(&ghosts, 9, i * 4096ull);
                if (i % ENG_GHOSTS_SET == 0)
                        assert_true(eng_ghosts_touch(&ghosts, 3, 64));
        }
        eng_ghosts_clear(&ghosts);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_known_the_second_time),
                cmocka_unit_test(test_bounded),
                cmocka_unit_test(test_the_oldest_go),
                cmocka_unit_test(test_what_is_asked_for_stays),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
