/* test_grant_batch.c - grants.c: those of BATCH messages, which end by themselves. */
#include "tests/unit/client/connection_world.h"

static struct want one, two, three;

static void a_batch_ends_by_its_last_result(void **state)
{
        want_batch(&one);
        world_result(one.grant.number);
        world_result(one.grant.number + 99); /* nobody's */
        connection_turn();
        assert_int_equal(one.results, 1);
        assert_int_equal(one.ends, 0);
        assert_true(world_notice(&one.grant));
        assert_int_equal(want_end(&one), 0);
        assert_int_equal(world_count(&world.batches), 1);
}

static void a_batch_that_gets_no_result(void **state)
{
        want_batch(&one);
        world_advance(20000);
        world_result(one.grant.number); /* begins its time anew */
        connection_turn();
        world_advance(29999);
        assert_int_equal(one.ends, 0);
        world_advance(1);
        assert_int_equal(want_end(&one), -ETIMEDOUT);
        assert_int_equal(world_count(&world.fences), 1);
}

static void a_batch_that_is_stopped(void **state)
{
        want_batch(&one);
        want_batch(&two);
        assert_true(world_notice(&two.grant)); /* had come before the other was fenced */
        assert_int_equal(want_end(&two), 0);
        atomic_store(&one.stop, true);
        connection_turn();
        assert_int_equal(want_end(&one), -ECANCELED);
        assert_int_equal(world_count(&world.fences), 1);
        want_batch(&three);
        world_down();
        assert_int_equal(want_end(&three), -ENOTCONN);
}

static void a_batch_that_was_not_sent(void **state)
{
        want_init(&one);
        one.grant.replies = 1;
        one.over = true;
        want_ask(&one);
        assert_int_equal(want_end(&one), 0);
        assert_int_equal(world_count(&world.fences), 0);
}

/*
 * Each session counts from 1: a batch that was lost with the last one gets nothing of this one's.
 */
static void results_of_another_session(void **state)
{
        world.fail_binding = 2;
        world.binding_rv = -EIO;
        want_batch(&one);
        want_batch(&two); /* loses the session in the midst of its beginning, and gets another */
        assert_int_equal(one.grant.number, two.grant.number);
        world_result(two.grant.number);
        assert_int_equal(want_end(&one), -ENOTCONN);
        assert_true(world_notice(&two.grant));
        assert_int_equal(want_end(&two), 0);
        assert_int_equal(one.results, 0);
        assert_int_equal(two.results, 1);
}

/* A session that takes none of a kind would keep it waiting for ever, and others behind it. */
static void a_session_without_batches(void **state)
{
        want_init(&one);
        want_init(&two);
        world.messages = 0;
        one.grant.replies = 1;
        want_ask(&one);
        want_granted_now(&two);
        assert_int_equal(want_answer(&one), -EOPNOTSUPP);
        mr_grant_over(&two.grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(&two), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                IN_A_WORLD(a_session_without_batches),   IN_A_WORLD(a_batch_ends_by_its_last_result),
                IN_A_WORLD(a_batch_that_gets_no_result), IN_A_WORLD(a_batch_that_is_stopped),
                IN_A_WORLD(a_batch_that_was_not_sent),   IN_A_WORLD(results_of_another_session),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
