/*
 * Groups without a current member: who left last, who may join, what an epoch may lose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/format.h"
#include "engine/placement/place.h"

#define NO_TRUTH FMT_EPOCH_NO_TRUTH

#define A 1u
#define B 2u
#define C 4u
#define D 8u

static uint64_t left[ENG_DRIVES_MAX];

static void leave(uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
        memset(left, 0, sizeof(left));
        left[0] = a;
        left[1] = b;
        left[2] = c;
        left[3] = d;
}

static void test_who_left_last(void **state)
{
        leave(5, 9, 9, 0);
        assert_int_equal(eng_truth_of(A | B, left), B);
        assert_int_equal(eng_truth_of(A | B | C, left), B | C);
        assert_int_equal(eng_truth_of(A | D, left), A);
        assert_int_equal(eng_truth_of(D, left), 0);
        assert_int_equal(eng_truth_of(0, left), 0);
        assert_int_equal(eng_left_last(A | B | C | D, left), B | C);
        assert_int_equal(eng_left_last(D, left), 0);
        left[ENG_DRIVES_MAX - 1] = UINT32_MAX;
        assert_int_equal(eng_truth_of(~(eng_mask)0, left), (eng_mask)1 << (ENG_DRIVES_MAX - 1));
}

/* What the last one knew is not known to who left before it. */
static void test_no_truth(void **state)
{
        const struct eng_group groups[] = {{A | B, A | B}, {B | C, B | C}};

        leave(5, 9 | NO_TRUTH, 9, NO_TRUTH);
        assert_int_equal(eng_truth_of(A | B, left), 0);
        assert_int_equal(eng_truth_of(B | C, left), C);
        assert_int_equal(eng_truth_of(A | D, left), A);
        assert_int_equal(eng_truth_of(A | B | C | D, left), C);
        assert_false(eng_may_join(groups, 2, D, left, 0) || eng_may_join(groups, 2, D, left, 1));
        assert_false(eng_is_truth(groups, 2, D, left, 0) || eng_is_truth(groups, 2, D, left, 1));
        assert_true(eng_may_join(groups, 2, D, left, 2) && eng_is_truth(groups, 2, D, left, 2));
        leave(9, 9 | NO_TRUTH, 9 | NO_TRUTH, 0);
        assert_int_equal(eng_truth_of(A | B, left), A);
        assert_int_equal(eng_truth_of(B | C, left), 0);
        leave(9 | NO_TRUTH, 5, 0, 0);
        assert_int_equal(eng_truth_of(A | B, left), 0);
}

static void test_who_may_join(void **state)
{
        const struct eng_group groups[] = {{A | B, A | B}, {B | C, B | C}, {A | C | D, A | C | D}, {A | B | C | D, A | B | C | D}};

        leave(5, 9, 7, 0);
        assert_int_equal(eng_groups_lost(groups, 4, D), 2);
        assert_false(eng_may_join(groups, 4, D, left, 0)); /* AB is B's */
        assert_true(eng_may_join(groups, 4, D, left, 1));
        assert_false(eng_may_join(groups, 4, D, left, 2));
        assert_true(eng_is_truth(groups, 4, D, left, 1));
        assert_false(eng_is_truth(groups, 4, D, left, 0) || eng_is_truth(groups, 4, D, left, 2));
        assert_true(eng_may_join(groups, 4, D | B, left, 0) && eng_may_join(groups, 4, D | B, left, 2));
        assert_false(eng_is_truth(groups, 4, D | B, left, 0));
        leave(9, 9, 7, 0); /* together */
        assert_true(eng_may_join(groups, 4, D, left, 0) && eng_is_truth(groups, 4, D, left, 0));
        leave(0, 0, 0, 0); /* nobody knows: the operator has to say */
        assert_false(eng_may_join(groups, 4, D, left, 0) || eng_may_join(groups, 4, D, left, 1));
}

/* What is yet to come to a slot does not keep it out: A is to speak for DB, and D for AC, when C and B have gone. */
static void test_yet_to_come(void **state)
{
        const struct eng_group groups[] = {{A | C, A | D}, {D | B, D | A}};

        leave(9, 3, 3, 9);
        assert_true(eng_may_join(groups, 2, 0, left, 0) && eng_is_truth(groups, 2, 0, left, 0));
        assert_true(eng_may_join(groups, 2, 0, left, 3) && eng_is_truth(groups, 2, 0, left, 3));
        assert_false(eng_may_join(groups, 2, 0, left, 1) || eng_may_join(groups, 2, 0, left, 2));
}

/* Whatever left whenever: of the slots that are out, those that left last may join. */
static void test_no_circle(void **state)
{
        struct eng_group groups[40];
        uint64_t seed = 4711;
        unsigned round, i;

        for (round = 0; round < 2000; round++) {
                eng_mask in = 0, last;

                memset(left, 0, sizeof(left));
                for (i = 0; i < 10; i++) {
                        seed = eng_hash(&seed, sizeof(seed), round);
                        if (seed % 3 == 0)
                                in |= eng_bit(i);
                        else
                                left[i] = (1 + seed % 6) | (seed / 64 % 4 == 0 ? NO_TRUTH : 0);
                }
                for (i = 0; i < 40; i++) {
                        seed = eng_hash(&seed, sizeof(seed), i);
                        groups[i].before = eng_bit(seed % 10) | eng_bit(seed / 16 % 10) | eng_bit(seed / 256 % 10);
                        groups[i].after = eng_bit(seed / 16 % 10) | eng_bit(seed / 256 % 10) | eng_bit(seed / 4096 % 10);
                }
                last = eng_truth_of(eng_all_slots(10) & ~in, left);
                for (; last != 0; last &= last - 1)
                        assert_true(eng_may_join(groups, 40, in, left, (unsigned)__builtin_ctzll(last)));
        }
}

static void test_what_may_be_lost(void **state)
{
        const struct eng_group groups[] = {{A | B, A | B}, {C | D, C | D}, {A | B | C | D, A | B | C | D}};

        assert_true(eng_groups_kept(groups, 3, false, A | C, A | B | C | D));
        assert_false(eng_groups_kept(groups, 3, false, A | B, A | B | C | D));
        assert_true(eng_groups_kept(groups, 3, false, A, A | B)); /* CD was lost already */
        assert_false(eng_groups_kept(groups, 3, false, 0, A | B));
        assert_true(eng_groups_may_lose(A | B | C, A | B | C | D));
        assert_false(eng_groups_may_lose(A, A | B | C)); /* however few were in before */
        assert_false(eng_groups_may_lose(A | B, A | B | C | D)); /* the other half may go on */
        assert_false(eng_groups_may_lose(0, 0));
}

static void test_handed_over(void **state)
{
        const struct eng_group from[] = {{A | B, B | C}, {C | D, C | D}}, to[] = {{B | C, B | C}, {C | D, C | D}};

        assert_true(eng_groups_handed_over(from, to, 2, A | B | C | D));
        assert_true(eng_groups_handed_over(from, to, 2, A | C));
        assert_false(eng_groups_handed_over(from, to, 2, A | D)); /* C has not caught up */
        assert_true(eng_groups_handed_over(from, to, 2, D));      /* lost before */
        assert_true(eng_groups_lost_stay(from, from, 2, 0));
        assert_true(eng_groups_lost_stay(from, to, 2, A));        /* CD is, and stays as it is */
        assert_false(eng_groups_lost_stay(from, to, 2, C | D));   /* AB is */
}

/* Those that say that one lost writes: two members of each of its groups. Others' groups, lost ones too, do not matter. */
static void test_witnesses(void **state)
{
        const struct eng_group groups[] = {{A | B | C, A | B | C}, {B | C | D, B | C | D}, {D, D}};

        assert_true(eng_groups_witnessed(groups, 3, A, B | C));
        assert_false(eng_groups_witnessed(groups, 3, A, B | D));
        assert_false(eng_groups_witnessed(groups, 3, D, A | B | C)); /* alone in its group */
        assert_true(eng_groups_witnessed(groups, 3, 0, 0));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_who_left_last),
                cmocka_unit_test(test_witnesses), cmocka_unit_test(test_no_truth),
                cmocka_unit_test(test_who_may_join), cmocka_unit_test(test_yet_to_come),
                cmocka_unit_test(test_no_circle),
                cmocka_unit_test(test_what_may_be_lost),
                cmocka_unit_test(test_handed_over),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
