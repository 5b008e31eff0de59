/*
 * test_pgs.c - groups of a drive: found by any number, in order; pending records go in and out by
 * seq.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "engine/drive/pgs.h"

/* On both sides of where numbers are found at once, up to the last that a record can say. */
static const uint32_t numbers[] = {UINT32_MAX, 0, ENG_PGS_NEAR, 7, ENG_PGS_NEAR - 1, 4096, ENG_PGS_NEAR + 1};
#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

static void test_any_number(void **state)
{
        static struct eng_pgs pgs;
        struct eng_log_pg *made[NUMBERS], *pg = NULL;
        unsigned i, seen = 0;
        uint32_t last = 0;

        eng_pgs_init(&pgs);
        for (i = 0; i < NUMBERS; i++) {
                assert_null(eng_pgs_find(&pgs, numbers[i]));
                made[i] = eng_pgs_get(&pgs, numbers[i]);
                assert_non_null(made[i]);
                assert_int_equal(made[i]->pg, numbers[i]);
        }
        for (i = 0; i < NUMBERS; i++) {
                assert_ptr_equal(eng_pgs_find(&pgs, numbers[i]), made[i]);
                assert_ptr_equal(eng_pgs_get(&pgs, numbers[i]), made[i]);
        }
        assert_null(eng_pgs_find(&pgs, 8));
        assert_null(eng_pgs_find(&pgs, ENG_PGS_NEAR + 2));
        assert_int_equal(pgs.count, NUMBERS);
        while ((pg = eng_pgs_next(&pgs, pg)) != NULL) {
                assert_true(seen == 0 || pg->pg > last);
                last = pg->pg;
                seen++;
        }
        assert_int_equal(seen, NUMBERS);
        eng_pgs_clear(&pgs);
        for (i = 0; i < NUMBERS; i++)
                assert_null(eng_pgs_find(&pgs, numbers[i]));
        assert_int_equal(pgs.count, 0);
}

static void add(struct eng_pgs *pgs, uint32_t number, uint64_t seq, bool taken)
{
        struct eng_append *append = calloc(1, sizeof(*append));

        assert_non_null(append);
        append->rec.pg = number;
        append->rec.seq = seq;
        assert_int_equal(eng_pgs_add(pgs, eng_pgs_get(pgs, number), append), taken);
        if (!taken)
                eng_append_free(append);
}

static void test_pending(void **state)
{
        static struct eng_pgs pgs;
        struct eng_append *append;
        struct eng_log_pg *pg;
        uint64_t seq;

        eng_pgs_init(&pgs);
        add(&pgs, ENG_PGS_NEAR, 2, true);
        add(&pgs, 3, 2, true);
        add(&pgs, 3, 4, true);
        add(&pgs, 3, 1, true);
        add(&pgs, 3, 2, false);
        pg = eng_pgs_find(&pgs, 3);
        assert_int_equal(pgs.pending_count, 4);
        assert_non_null(eng_pgs_find_pending(pg, 4));
        assert_null(eng_pgs_find_pending(pg, 3));
        for (seq = 1; seq <= 2; seq++) {
                append = eng_pgs_take(&pgs, pg, 3);
                assert_non_null(append);
                assert_int_equal(append->rec.seq, seq);
                eng_append_free(append);
                assert_true(eng_pgs_applied_lately(pg, seq));
        }
        assert_null(eng_pgs_take(&pgs, pg, 3));
        assert_int_equal(pg->applied, 2);
        assert_int_equal(pgs.pending_count, 2);
        eng_pgs_clear(&pgs); /* with what is pending */
        assert_int_equal(pgs.pending_count, 0);
}

/*
 * A number that was given says nothing of its record; a mark says that what does not wait was
 * applied.
 */
static void test_numbers_that_were_given(void **state)
{
        static struct eng_pgs pgs;
        struct eng_log_pg *pg;

        eng_pgs_init(&pgs);
        pg = eng_pgs_get(&pgs, 3);
        assert_non_null(pg);
        eng_pgs_see(pg, 9, 5);
        eng_pgs_see(pg, 8, 6);
        assert_int_equal(pg->seen, 9);
        assert_int_equal(pg->epoch, 5);
        assert_int_equal(pg->applied, 0);
        eng_pgs_mark(pg, 7, 5);
        assert_int_equal(pg->seen, 9);
        assert_int_equal(pg->applied, 7);
        assert_int_equal(pg->applied_epoch, 5);
        eng_pgs_clear(&pgs);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_any_number),
                cmocka_unit_test(test_pending),
                cmocka_unit_test(test_numbers_that_were_given),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
