/*
 * test_request_numbers.c - a request number counts once, in any order within the window; compared
 * with a model that remembers all.
 */
#include "tests/unit/rdma/rdma_fixture.h"

static struct rdx_numbers numbers;

static int setup(void **state)
{
        memset(&numbers, 0, sizeof(numbers));
        return 0;
}

static void test_in_order_and_again(void **state)
{
        uint64_t n;

        for (n = 1; n <= 5000; n++)
                assert_int_equal(rdx_number_accept(&numbers, n), 0);
        for (n = 1; n <= 5000; n++)
                assert_int_equal(rdx_number_accept(&numbers, n), -EEXIST);
        assert_int_equal(rdx_number_accept(&numbers, 0), -ERANGE);
}

static void test_the_edges_of_the_window(void **state)
{
        assert_int_equal(rdx_number_accept(&numbers, 2 * RDX_NUMBER_WINDOW), 0);
        assert_int_equal(rdx_number_accept(&numbers, RDX_NUMBER_WINDOW), -EEXIST); /* nobody knows */
        assert_int_equal(rdx_number_accept(&numbers, RDX_NUMBER_WINDOW + 1), 0);   /* the oldest that is known */
        assert_int_equal(rdx_number_accept(&numbers, RDX_NUMBER_WINDOW + 1), -EEXIST);
        assert_int_equal(rdx_number_accept(&numbers, 2 * RDX_NUMBER_WINDOW + 1), 0); /* takes its bit */
        assert_int_equal(rdx_number_accept(&numbers, RDX_NUMBER_WINDOW + 1), -EEXIST);
        assert_int_equal(rdx_number_accept(&numbers, 2 * RDX_NUMBER_WINDOW - 1), 0);
}

static void test_jumps(void **state)
{
        assert_int_equal(rdx_number_accept(&numbers, RDX_NUMBER_JUMP + 1), -ERANGE);
        assert_int_equal(rdx_number_accept(&numbers, UINT64_MAX), -ERANGE);
        assert_int_equal(rdx_number_accept(&numbers, RDX_NUMBER_JUMP), 0);
        assert_int_equal(rdx_number_accept(&numbers, 1), -EEXIST);
        assert_int_equal(rdx_number_accept(&numbers, RDX_NUMBER_JUMP - 1), 0);
        assert_int_equal(rdx_number_accept(&numbers, 2 * RDX_NUMBER_JUMP), 0);
        assert_int_equal(rdx_number_accept(&numbers, 2 * RDX_NUMBER_JUMP + 1), 0);
}

static void test_the_last_numbers_there_are(void **state)
{
        numbers.highest = UINT64_MAX - 2;
        assert_int_equal(rdx_number_accept(&numbers, UINT64_MAX), 0);
        assert_int_equal(rdx_number_accept(&numbers, UINT64_MAX), -EEXIST);
        assert_int_equal(rdx_number_accept(&numbers, UINT64_MAX - 1), 0);
        assert_int_equal(rdx_number_accept(&numbers, UINT64_MAX - 1), -EEXIST);
}

#define MODEL 40000u

static void test_against_a_model(void **state)
{
        static bool seen[MODEL];
        uint64_t highest = 0;
        unsigned i, seed = test_seed();

        memset(seen, 0, sizeof(seen));
        for (i = 0; i < 200000; i++) {
                uint64_t back = (uint64_t)(rand_r(&seed) % 3000),
                         ahead = (uint64_t)(rand_r(&seed) % (i % 97 == 0 ? 2500 : 4));
                uint64_t n = highest + ahead > back ? highest + ahead - back : 0;
                int expected = 0;

                if (n >= MODEL)
                        break;
                if (n == 0)
                        expected = -ERANGE;
                else if (seen[n] || n + RDX_NUMBER_WINDOW <= highest)
                        expected = -EEXIST;
                assert_int_equal(rdx_number_accept(&numbers, n), expected);
                if (expected == 0)
                        seen[n] = true;
                if (expected == 0 && n > highest)
                        highest = n;
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_in_order_and_again, setup),
                cmocka_unit_test_setup(test_the_edges_of_the_window, setup),
                cmocka_unit_test_setup(test_jumps, setup),
                cmocka_unit_test_setup(test_the_last_numbers_there_are, setup),
                cmocka_unit_test_setup(test_against_a_model, setup),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
