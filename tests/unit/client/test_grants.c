/*
 * test_grants.c - grants.c and connection.c: in each state a grant can be in, what ends it, and
 * that it ends once and never while somebody may touch its memory (want_ended() in
 * connection_world.h looks each time).
 */
#include "tests/unit/client/connection_world.h"

#include <stdlib.h>
#include <time.h>

#define MANY    200u
#define THREADS 4u

static struct want one, two, three;

static void three_wants(void)
{
        want_init(&one);
        want_init(&two);
        want_init(&three);
}

/* ---- the way it should go -------------------------------------------------------------------- */

static void one_session_serves_many(void **state)
{
        for (unsigned i = 0; i < 3; i++) {
                want_init(&one);
                want_granted_now(&one);
                assert_int_equal(one.grant.place.address, (uint64_t)(uintptr_t)mr_buffer_memory(world.buffer) + 4096);
                assert_int_equal(one.grant.place.length, 1000);
                assert_int_equal(one.grant.number, i + 1);
                assert_string_equal(one.grant.key.secret, "session-secret");
                assert_string_equal(one.grant.key.access_key, "session-key");
                mr_grant_over(&one.grant, MR_LEASE_QUIET);
                assert_int_equal(want_end(&one), 0);
        }
        assert_int_equal(world_count(&world.opens), 1);
        assert_int_equal(world_count(&world.registrations), 1);
        assert_int_equal(world_count(&world.fences), 0);
}

static void a_notice_is_waited_for(void **state)
{
        three_wants();
        want_granted_now(&one);
        mr_grant_over(&one.grant, MR_LEASE_NOTICED);
        connection_turn();
        assert_int_equal(one.ends, 0);
        assert_true(world_notice(&one.grant));
        assert_int_equal(want_end(&one), 0);

        want_granted_now(&two); /* before the answer is */
        assert_true(world_notice(&two.grant));
        connection_turn();
        assert_int_equal(two.ends, 0);
        mr_grant_over(&two.grant, MR_LEASE_NOTICED);
        assert_int_equal(want_end(&two), 0);
        assert_int_equal(world_count(&world.fences), 0);
}

static void more_than_the_session_takes(void **state)
{
        static struct want want[7];

        for (unsigned i = 0; i < 7; i++) {
                want_init(&want[i]);
                want_ask(&want[i]);
        }
        for (unsigned i = 0; i < 4; i++)
                assert_int_equal(want_answer(&want[i]), 0);
        connection_turn();
        for (unsigned i = 4; i < 7; i++)
                assert_int_equal(want[i].grants, 0);
        for (unsigned i = 0; i < 7; i++) { /* in the order of asking */
                mr_grant_over(&want[i].grant, MR_LEASE_QUIET);
                assert_int_equal(want_end(&want[i]), 0);
                if (i + 4 < 7)
                        assert_int_equal(want_answer(&want[i + 4]), 0);
                if (i + 5 < 7)
                        assert_int_equal(want[i + 5].grants, 0);
        }
        assert_int_equal(world_count(&world.opens), 1);
}

static void a_grant_for_later(void **state)
{
        three_wants();
        one.grant.delay_ms = 500;
        want_ask(&one);
        want_granted_now(&two); /* is no reason to wait for others */
        world_advance(499);
        assert_int_equal(one.grants, 0);
        world_advance(1);
        assert_int_equal(want_answer(&one), 0);
        mr_grant_over(&one.grant, MR_LEASE_QUIET);
        mr_grant_over(&two.grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(&one) + want_end(&two), 0);
}

static void the_end_of_one_asks_for_another(void **state)
{
        three_wants();
        one.over = two.over = true;
        one.another = &two;
        want_ask(&one);
        assert_int_equal(want_end(&one), 0);
        assert_int_equal(want_end(&two), 0);
}

/* ---- the fence ------------------------------------------------------------------------------- */

/*
 * Nobody knows of one: all rights of the session end before anybody hears of it; others are told
 * when their own requests are over.
 */
static void doubt_fences_all(void **state)
{
        static const enum mr_grant_end hows[] = {MR_LEASE_QUIET, MR_LEASE_NOTICED, MR_LEASE_DOUBT, MR_LEASE_UNWANTED};
        static const int results[] = {0, -ENOTCONN, -ENOTCONN, -ECANCELED};

        for (unsigned i = 0; i < 4; i++) {
                unsigned fences = world_count(&world.fences);

                three_wants();
                want_granted_now(&one);
                want_granted_now(&two);
                want_granted_now(&three);
                assert_true(world_notice(&three.grant));
                connection_turn();
                mr_grant_over(&one.grant, MR_LEASE_DOUBT);
                assert_int_equal(want_end(&one), -ENOTCONN);
                assert_int_equal(world_count(&world.fences), fences + 1);
                assert_int_equal(world_count(&world.clients_open), 0);
                connection_turn();
                assert_int_equal(two.ends + three.ends, 0);
                mr_grant_over(&two.grant, hows[i]);
                assert_int_equal(want_end(&two), results[i]);
                mr_grant_over(&three.grant, MR_LEASE_NOTICED); /* all of it was there before the fence */
                assert_int_equal(want_end(&three), 0);
                world_advance(61000);
        }
}

/*
 * A retry of the same memory is granted by another session, and only when the first one's queue
 * pair is gone.
 */
static void a_retry_comes_behind_the_fence(void **state)
{
        three_wants();
        one.another = &two;
        want_granted_now(&one);
        mr_grant_over(&one.grant, MR_LEASE_DOUBT);
        assert_int_equal(want_end(&one), -ENOTCONN);
        assert_int_equal(want_answer(&two), 0);
        assert_int_equal(world_count(&world.fences), 1);
        assert_int_equal(world_count(&world.opens), 2);
        assert_int_equal(world_count(&world.links), 1);
        assert_int_equal(world_count(&world.registrations), 1); /* memory stays registered */
        assert_int_equal(two.grant.place.address, one.grant.place.address);
        mr_grant_over(&two.grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(&two), 0);
}

static void a_notice_that_does_not_come(void **state)
{
        three_wants();
        want_granted_now(&one);
        mr_grant_over(&one.grant, MR_LEASE_NOTICED);
        connection_turn();
        world_advance(29999);
        assert_int_equal(one.ends, 0);
        assert_int_equal(world_count(&world.fences), 0);
        world_advance(1);
        assert_int_equal(want_end(&one), -ENOTCONN);
        assert_int_equal(world_count(&world.fences), 1);
}

/*
 * As long as its request is out, a grant without a session stays: the program's memory is named in
 * it.
 */
static void a_session_that_ends(void **state)
{
        three_wants();
        want_granted_now(&one);
        world_down();
        connection_turn();
        assert_int_equal(world_count(&world.clients_open), 0);
        assert_int_equal(world_count(&world.fences), 1);
        assert_int_equal(one.ends, 0);
        mr_grant_over(&one.grant, MR_LEASE_NOTICED);
        assert_int_equal(want_end(&one), -ENOTCONN);
}

static void a_right_that_cannot_be_ended(void **state)
{
        three_wants();
        want_granted_now(&one);
        want_granted_now(&two);
        world_locked();
        world.close_rv = -ETIMEDOUT;
        world_unlocked();
        mr_grant_over(&one.grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(&one), -ETIMEDOUT);
        assert_int_equal(world_count(&world.fences), 1);
        mr_grant_over(&two.grant, MR_LEASE_NOTICED);
        assert_int_equal(want_end(&two), -ENOTCONN);
}

/* What the program gave up is no failure of the endpoint. */
static void what_is_unwanted_is_no_failure(void **state)
{
        for (unsigned i = 0; i < 6; i++) {
                want_init(&one);
                want_granted_now(&one);
                mr_grant_over(&one.grant, MR_LEASE_UNWANTED);
                assert_int_equal(want_end(&one), -ECANCELED);
                assert_int_equal(world_count(&world.fences), i + 1);
        }
}

/* ---- what is not to be had ------------------------------------------------------------------- */

static void longer_than_any_window(void **state)
{
        three_wants();
        world.window_bytes = 999;
        want_ask(&one);
        assert_int_equal(want_answer(&one), -EOPNOTSUPP);
        two.grant.len = 999;
        two.over = true;
        want_ask(&two);
        assert_int_equal(want_end(&two), 0);
}

static void memory_that_cannot_be_registered(void **state)
{
        static const int causes[] = {-ENOMEM, -EFAULT, -EOPNOTSUPP};

        for (unsigned i = 0; i < 3; i++) {
                three_wants();
                world_locked();
                world.memory_rv = causes[i];
                world_unlocked();
                want_ask(&one);
                assert_int_equal(want_answer(&one), causes[i]);
                assert_non_null(strstr(one.grant.error.message, "cannot be registered"));
        }
        world_locked();
        world.memory_rv = 0; /* it was the memory's fault, not the session's */
        world_unlocked();
        two.over = true;
        want_ask(&two);
        assert_int_equal(want_end(&two), 0);
        assert_int_equal(world_count(&world.opens), 1);
}

static void a_right_that_cannot_begin(void **state)
{
        three_wants();
        world.fail_binding = 2;
        world.binding_rv = -EIO;
        want_granted_now(&one);
        want_granted_now(&two); /* by another session */
        assert_int_equal(world_count(&world.fences), 1);
        assert_int_equal(world_count(&world.opens), 2);
        mr_grant_over(&one.grant, MR_LEASE_NOTICED);
        assert_int_equal(want_end(&one), -ENOTCONN);
        mr_grant_over(&two.grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(&two), 0);
}

/* ---- cancellation ---------------------------------------------------------------------------- */

static void stopped_while_it_waits(void **state)
{
        static struct want want[4];

        for (unsigned i = 0; i < 4; i++) {
                want_init(&want[i]);
                want_granted_now(&want[i]);
        }
        three_wants();
        want_ask(&one); /* for room */
        two.grant.delay_ms = 1000;
        want_ask(&two); /* for its time */
        connection_turn();
        atomic_store(&one.stop, true);
        atomic_store(&two.stop, true);
        mr_core_wake(world.client);
        assert_int_equal(want_answer(&one), -ECANCELED);
        assert_int_equal(want_answer(&two), -ECANCELED);
        for (unsigned i = 0; i < 4; i++) {
                assert_int_equal(want[i].ends, 0);
                mr_grant_over(&want[i].grant, MR_LEASE_QUIET);
                assert_int_equal(want_end(&want[i]), 0);
        }
}

static void stopped_while_a_session_is_opened(void **state)
{
        three_wants();
        world.slow = true;
        want_ask(&one);
        want_ask(&two);
        sem_wait(&world.opening);
        want_ask(&three);
        atomic_store(&one.stop, true);
        mr_core_wake(world.client);
        assert_int_equal(want_answer(&one), -ECANCELED);
        assert_int_equal(two.grants + three.grants, 0);
        atomic_store(&world.letting, true);
        mr_core_wake(world.client);
        assert_int_equal(want_answer(&two), 0);
        assert_int_equal(want_answer(&three), 0);
        mr_grant_over(&two.grant, MR_LEASE_QUIET);
        mr_grant_over(&three.grant, MR_LEASE_QUIET);
        assert_int_equal(want_end(&two) + want_end(&three), 0);
}

/* What is over does not wait for an endpoint that is slow to open another session. */
static void of_a_lost_session_while_another_is_opened(void **state)
{
        static const enum mr_grant_end hows[] = {MR_LEASE_QUIET, MR_LEASE_DOUBT, MR_LEASE_UNWANTED};
        static const int results[] = {0, -ENOTCONN, -ECANCELED};

        world.slow = true;
        for (unsigned i = 0; i < 3; i++) {
                three_wants();
                atomic_store(&world.letting, true);
                want_granted_now(&one);
                want_granted_now(&two);
                atomic_store(&world.letting, false);
                while (sem_trywait(&world.opening) == 0)
                        continue;
                mr_grant_over(&two.grant, MR_LEASE_DOUBT);
                assert_int_equal(want_end(&two), -ENOTCONN);
                want_ask(&three);
                sem_wait(&world.opening);
                mr_grant_over(&one.grant, hows[i]);
                assert_int_equal(want_end(&one), results[i]);
                assert_int_equal(three.grants, 0);
                atomic_store(&world.letting, true);
                mr_core_wake(world.client);
                assert_int_equal(want_answer(&three), 0);
                mr_grant_over(&three.grant, MR_LEASE_QUIET);
                assert_int_equal(want_end(&three), 0);
                world_advance(61000);
        }
}

/* Requests that are out end by themselves: the program's memory is theirs until then. */
static void the_client_is_canceled(void **state)
{
        three_wants();
        want_granted_now(&one);
        want_batch(&two);
        mr_client_cancel(world.client);
        assert_int_equal(want_end(&two), -ECANCELED);
        want_ask(&three);
        assert_int_equal(want_answer(&three), -ECANCELED);
        assert_int_equal(one.ends, 0);
        mr_grant_over(&one.grant, MR_LEASE_UNWANTED);
        assert_int_equal(want_end(&one), -ECANCELED);
}

static void the_client_is_canceled_while_a_session_is_opened(void **state)
{
        three_wants();
        world.slow = true;
        want_ask(&one);
        sem_wait(&world.opening);
        mr_client_cancel(world.client);
        assert_int_equal(want_answer(&one), -ECANCELED);
}

/* ---- all at once ----------------------------------------------------------------------------- */

static struct want many[THREADS][MANY];
static unsigned seed;

static void *ask_for_many(void *arg)
{
        struct want(*want)[MANY] = arg;
        unsigned mine = seed + (unsigned)(want - many);

        for (unsigned i = 0; i < MANY; i++) {
                struct want *this = &(*want)[i];
                unsigned how = (unsigned)rand_r(&mine) % 20;

                want_init(this);
                this->grant.insist = true;
                this->grant.replies = how % 4 == 0;
                this->send = how % 4 == 0;
                this->grant.offset = (unsigned)rand_r(&mine) % 4096;
                atomic_store(&this->stop, how == 19);
                MUST(mr_grant_ask(world.client, &this->grant) == 0);
                if (how == 18)
                        atomic_store(&this->stop, true);
                sem_wait(&this->granted);
                if (this->granted_rv != 0)
                        continue;
                if (how == 17) /* so seldom that the connection does not give up */
                        atomic_fetch_add(&world.clock_ms, 61000);
                if (this->send && !world_notice(&this->grant))
                        mr_core_wake(world.client);
                else if (!this->send && how % 4 == 1)
                        (void)world_notice(&this->grant);
                if (!this->send)
                        mr_grant_over(&this->grant, how == 17      ? MR_LEASE_DOUBT
                                                    : how % 4 == 1 ? MR_LEASE_NOTICED
                                                                   : MR_LEASE_QUIET);
                sem_wait(&this->ended);
        }
        return NULL;
}

static void many_at_once(void **state)
{
        const char *given = getenv("SEED");
        pthread_t thread[THREADS];
        unsigned good = 0;

        seed = given != NULL ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
        printf("SEED=%u\n", seed);
        for (unsigned i = 0; i < THREADS; i++)
                assert_int_equal(pthread_create(&thread[i], NULL, ask_for_many, &many[i]), 0);
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(thread[i], NULL);
        for (unsigned i = 0; i < THREADS * MANY; i++) {
                const struct want *want = &many[i / MANY][i % MANY];

                assert_int_equal(want->grants, 1);
                assert_int_equal(want->ends, want->granted_rv == 0);
                good += want->ends == 1 && want->ended_rv == 0;
        }
        assert_true(good > THREADS * MANY / 4);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                IN_A_WORLD(one_session_serves_many),
                IN_A_WORLD(a_notice_is_waited_for),
                IN_A_WORLD(more_than_the_session_takes),
                IN_A_WORLD(a_grant_for_later),
                IN_A_WORLD(the_end_of_one_asks_for_another),
                IN_A_WORLD(doubt_fences_all),
                IN_A_WORLD(a_retry_comes_behind_the_fence),
                IN_A_WORLD(a_notice_that_does_not_come),
                IN_A_WORLD(a_session_that_ends),
                IN_A_WORLD(a_right_that_cannot_be_ended),
                IN_A_WORLD(what_is_unwanted_is_no_failure),
                IN_A_WORLD(longer_than_any_window),
                IN_A_WORLD(memory_that_cannot_be_registered),
                IN_A_WORLD(a_right_that_cannot_begin),
                IN_A_WORLD(stopped_while_it_waits),
                IN_A_WORLD(stopped_while_a_session_is_opened),
                IN_A_WORLD(of_a_lost_session_while_another_is_opened),
                IN_A_WORLD(the_client_is_canceled),
                IN_A_WORLD(the_client_is_canceled_while_a_session_is_opened),
                IN_A_WORLD(many_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
