/*
 * test_home_rules.c - what a session promises, over TCP and TLS: a lock clock that is confirmed, clients that
 * change nothing any more, and how often a home that is idle asks.
 */
#include "tests/unit/remote/session_fixture.h"

#define SECOND_MS 1000

/* The clock of both processes: the machine's, and so much. */
static _Atomic int64_t ahead;

static int64_t wall(void)
{
        return lp_wall_ms() + atomic_load(&ahead);
}

/* Nothing happens: a WATCH is asked twice a second, and whenever the leader looks at its drives. */
static void test_idle(void **state)
{
        unsigned before = atomic_load(&watches);

        usleep(2000000);
        assert_in_range(atomic_load(&watches) - before, 1, 12);
}

/* ---- the lock clock -------------------------------------------------------------------------- */

struct confirming {
        struct lp_msg msg;
        struct sf *sf;
        int64_t wall_ms;
        sem_t done;
        int rv;
};

static void confirm_done(void *arg, int rv)
{
        struct confirming *c = arg;

        c->rv = rv;
        sem_post(&c->done);
}

static void confirm_begin(struct lp_msg *msg)
{
        struct confirming *c = container_of(msg, struct confirming, msg);

        eng_lock_confirm(c->sf->store, c->wall_ms, confirm_done, c);
}

static int confirm(struct sf *sf, int64_t wall_ms)
{
        struct confirming c = {.msg = {.run = confirm_begin}, .sf = sf, .wall_ms = wall_ms};

        sem_init(&c.done, 0, 0);
        lp_post(sf->loops[0], &c.msg);
        while (sem_wait(&c.done) != 0)
                ;
        sem_destroy(&c.done);
        return c.rv;
}

static bool about(int64_t one_ms, int64_t other_ms)
{
        return llabs(one_ms - other_ms) < 60ll * SECOND_MS;
}

static int begin_with_clocks(void **state)
{
        atomic_store(&ahead, 0);
        leader_wall = wall;
        return begin(state);
}

static int end_with_clocks(void **state)
{
        leader_wall = NULL;
        return end(state);
}

/* The home shows what the leader's lock clock does, and when a confirmation is answered nobody shows another. */
static void test_lock_clock(void **state)
{
        int64_t day = 24ll * 3600 * SECOND_MS;

        assert_int_equal(sf_text_set(&leader, 0, bucket, 9, 0, "x", 1), 0); /* a store whose lock clock counts */
        atomic_store(&ahead, 100 * day);
        assert_true(about(eng_lock_now(leader.store), lp_wall_ms()));
        assert_int_equal(confirm(&hf.home, wall()), 0);
        assert_true(about(eng_lock_now(hf.home.store), wall()));
        atomic_store(&ahead, 200 * day);
        assert_int_equal(confirm(&leader, wall()), 0);
        assert_true(about(eng_lock_now(hf.home.store), wall()));
        lose_it();
        atomic_store(&ahead, 300 * day);
        assert_int_equal(confirm(&leader, wall()), 0);
        assert_false(eng_is_current(hf.home.store)); /* it does not know, and nobody goes by what it has */
        meet_again();
        assert_true(about(eng_lock_now(hf.home.store), wall()));
        assert_int_equal(confirm(&leader, lp_wall_ms()), -ESTALE);
}

/* ---- clients that change nothing ------------------------------------------------------------- */

static bool changes_end(void)
{
        WAIT_UNTIL(rem_home_server_changing(server) == 0);
        return rem_home_server_changing(server) == 0;
}

static void refuses_changes(void)
{
        struct eng_text *text;
        bool existed;
        uint64_t id;

        assert_int_equal(sf_put(&hf.home, 0, bucket, "small", 2, SMALL, true, NULL), -EHOSTDOWN);
        assert_int_equal(sf_put(&hf.home, 1, bucket, "large", 2, LARGE, true, NULL), -EHOSTDOWN);
        assert_int_equal(sf_delete(&hf.home, 0, bucket, "small", &existed), -EHOSTDOWN);
        assert_int_equal(sf_bucket(&hf.home, "another", &id), -EHOSTDOWN);
        assert_int_equal(sf_bucket_delete(&hf.home, "bucket"), -EHOSTDOWN);
        assert_int_equal(sf_text_set(&hf.home, 0, bucket, 9, ENG_TEXT_ANY, "x", 1), -EHOSTDOWN);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "small", 1, SMALL), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "small", 1, SMALL), 0);
        assert_int_equal(sf_text(&hf.home, 0, bucket, 9, &text), -ENOENT);
        assert_int_equal(rem_home_server_changing(server), 0);
}

static void test_read_only(void **state)
{
        atomic_store(&told_switches, 0);
        atomic_store(&told_changing, 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "small", 1, SMALL, true, NULL), 0);
        assert_true(changes_end());
        rem_home_server_read_only(server, 7);
        usleep(1500000);
        assert_int_equal(rem_home_server_changing(server), 1); /* the home has not heard of it */
        assert_int_equal(sf_put(&hf.home, 0, bucket, "late", 1, SMALL, true, NULL), 0);
        atomic_store(&told_changing, 1);
        atomic_store(&told_switches, 7);
        usleep(1500000);
        assert_true(rem_home_server_changing(server) > 0);
        assert_int_equal(sf_put(&hf.home, 1, bucket, "later", 1, LARGE, true, NULL), 0); /* what was let in ends */
        atomic_store(&told_changing, 0);
        assert_true(changes_end());
        refuses_changes();
        atomic_store(&told_switches, 6);
        lose_it();
        meet_again(); /* a home that has forgotten is not believed */
        refuses_changes();
        rem_home_server_read_only(server, 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "small", 3, SMALL, true, NULL), 0);
        rem_home_server_read_only(server, 9);
        assert_true(rem_home_server_changing(server) > 0); /* nothing of before counts */
        lose_it();
        assert_int_equal(sf_put(&leader, 0, bucket, "own", 3, SMALL, true, NULL), 0); /* the leader's own are not its matter */
        WAIT_UNTIL(rem_home_server_sessions(server) == 0);
        assert_true(changes_end()); /* a home that is gone changes nothing */
        meet_again();
        assert_int_equal(rem_home_server_changing(server), 0);
        atomic_store(&told_switches, 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_idle, begin, end),
                cmocka_unit_test_setup_teardown(test_lock_clock, begin_with_clocks, end_with_clocks),
                cmocka_unit_test_setup_teardown(test_read_only, begin, end),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
