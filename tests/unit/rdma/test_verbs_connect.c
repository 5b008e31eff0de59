/*
 * test_verbs_connect.c - what of rdma/verbs_connect.c needs no device: how many READs a connection
 * may have outstanding.
 */
#include "tests/unit/rdma/rdma_fixture.h"

#include "rdma/verbs.h"

static void what_all_three_allow(void **state)
{
        assert_int_equal(rdx_verbs_depth(128, 16), 16);
        assert_int_equal(rdx_verbs_depth(128, 255), 16); /* the protocol's bound */
        assert_int_equal(rdx_verbs_depth(4, 16), 4);
        assert_int_equal(rdx_verbs_depth(128, 1), 1);
        assert_int_equal(rdx_verbs_depth(128, 0), 0);
        assert_int_equal(rdx_verbs_depth(0, 16), 0);
        assert_int_equal(rdx_verbs_depth(-1, 16), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(what_all_three_allow),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
