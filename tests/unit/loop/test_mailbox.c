/*
 * test_mailbox.c - order of messages from many threads, posts from loops, sleep and wake.
 */
#include "tests/unit/loop/loop_fixture.h"

/* ---- order from many threads ----------------------------------------------------------------- */

#define SENDERS    4
#define PER_SENDER 20000

struct numbered {
        struct lp_msg msg;
        unsigned sender, number;
};

static struct {
        struct numbered messages[SENDERS][PER_SENDER];
        unsigned next[SENDERS], wrong, total; /* owner: loop */
        struct lp_loop *loop;
        sem_t done;
} order;

static void run_numbered(struct lp_msg *msg)
{
        struct numbered *m = (struct numbered *)msg;

        if (m->number != order.next[m->sender]++)
                order.wrong++;
        if (++order.total == SENDERS * PER_SENDER)
                sem_post(&order.done);
}

static void *send_numbered(void *arg)
{
        unsigned sender = (unsigned)(uintptr_t)arg, i;

        for (i = 0; i < PER_SENDER; i++) {
                order.messages[sender][i] = (struct numbered){{.run = run_numbered}, sender, i};
                lp_post(order.loop, &order.messages[sender][i].msg);
                if (i % 1000 == 0)
                        usleep(200); /* so that the loop also sleeps in between */
        }
        return NULL;
}

static void test_order_from_many_threads(void **state)
{
        pthread_t threads[SENDERS];
        struct fixture f;
        uintptr_t i;

        fixture_start(&f, 0, 0);
        order.loop = f.loop;
        sem_init(&order.done, 0, 0);
        for (i = 0; i < SENDERS; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, send_numbered, (void *)i), 0);
        for (i = 0; i < SENDERS; i++)
                pthread_join(threads[i], NULL);
        fixture_wait(&order.done, 60);
        fixture_stop(&f);
        assert_int_equal(order.wrong, 0);
        assert_int_equal(order.total, SENDERS * PER_SENDER);
}

/* ---- causal order over a third loop ---------------------------------------------------------- */

#define CHAINS 5000

/*
 * The test thread posts `direct` to b, then `detour` to a, which posts `relayed` to b: direct must
 * run first.
 */
static struct chain {
        struct lp_msg direct, detour, relayed;
        struct lp_loop *b;
        bool direct_ran;
} chains[CHAINS];
static unsigned chains_wrong, chains_done;
static sem_t chains_end;

#define chain_of(msg, member) (container_of((msg), struct chain, member))

static void run_direct(struct lp_msg *msg)
{
        chain_of(msg, direct)->direct_ran = true;
}

static void run_relayed(struct lp_msg *msg)
{
        chains_wrong += !chain_of(msg, relayed)->direct_ran;
        if (++chains_done == CHAINS)
                sem_post(&chains_end);
}

static void run_detour(struct lp_msg *msg)
{
        struct chain *chain = chain_of(msg, detour);

        lp_post(chain->b, &chain->relayed);
}

static void test_causal_order(void **state)
{
        struct fixture a, b;
        unsigned i;

        fixture_start(&a, 0, 0);
        fixture_start(&b, 0, 0);
        sem_init(&chains_end, 0, 0);
        for (i = 0; i < CHAINS; i++) {
                chains[i] =
                        (struct chain){{.run = run_direct}, {.run = run_detour}, {.run = run_relayed}, b.loop, false};
                lp_post(b.loop, &chains[i].direct);
                lp_post(a.loop, &chains[i].detour);
        }
        fixture_wait(&chains_end, 60);
        fixture_stop(&a);
        fixture_stop(&b);
        assert_int_equal(chains_wrong, 0);
}

/* ---- a message that posts itself does not starve timers -------------------------------------- */

static struct {
        struct lp_msg msg;
        struct lp_timer timer;
        uint64_t posts;
        bool enough;
        sem_t done;
} again;

static void run_again(struct lp_msg *msg)
{
        again.posts++;
        if (!again.enough)
                lp_post(lp_self(), msg);
        else
                sem_post(&again.done);
}

static void end_again(struct lp_timer *timer)
{
        again.enough = true;
}

static void start_again(struct lp_loop *loop, void *arg)
{
        lp_timer_start(loop, &again.timer, 5 * MS);
        lp_post(loop, &again.msg);
        assert_int_equal(again.posts, 0); /* never run from inside lp_post() */
}

static void test_posting_to_itself_starves_nothing(void **state)
{
        struct fixture f;

        fixture_start(&f, 0, 0);
        again.msg.run = run_again;
        again.timer.expired = end_again;
        sem_init(&again.done, 0, 0);
        fixture_call(&f, start_again, NULL);
        fixture_wait(&again.done, 60);
        fixture_stop(&f);
        assert_true(again.posts > 1);
}

/* ---- sleep and wake -------------------------------------------------------------------------- */

#define PINGS 20000

/* Two loops throw one message to and fro: each throw meets a loop that sleeps, or is about to. */
static struct {
        struct lp_msg msg;
        struct lp_loop *loops[2];
        unsigned left;
        sem_t done;
} ping;

static void run_ping(struct lp_msg *msg)
{
        if (--ping.left == 0)
                sem_post(&ping.done);
        else
                lp_post(ping.loops[ping.left % 2], msg);
}

static void test_ping_pong_never_sleeps_through(void **state)
{
        struct fixture a, b;

        fixture_start(&a, 0, 0);
        fixture_start(&b, 0, 0);
        ping.loops[0] = a.loop;
        ping.loops[1] = b.loop;
        ping.left = PINGS;
        ping.msg.run = run_ping;
        sem_init(&ping.done, 0, 0);
        lp_post(a.loop, &ping.msg);
        fixture_wait(&ping.done, 60);
        fixture_stop(&a);
        fixture_stop(&b);
        assert_int_equal(ping.left, 0);
}

static void count_call(struct lp_loop *loop, void *arg)
{
        ++*(unsigned *)arg;
}

/*
 * Threads that post at random moments and wait for the answer: a lost wake-up would hang one for
 * good.
 */
static void *call_many(void *arg)
{
        unsigned i, seed = (unsigned)(uintptr_t)pthread_self(), mine = 0;

        for (i = 0; i < 2000; i++) {
                fixture_call(arg, count_call, &mine);
                if (rand_r(&seed) % 8 == 0)
                        usleep((unsigned)rand_r(&seed) % 50);
        }
        return (void *)(uintptr_t)mine;
}

static void test_wake_races(void **state)
{
        pthread_t threads[3];
        struct fixture f;
        void *count;
        unsigned i;

        fixture_start(&f, 0, 0);
        for (i = 0; i < 3; i++)
                assert_int_equal(pthread_create(&threads[i], NULL, call_many, &f), 0);
        for (i = 0; i < 3; i++) {
                pthread_join(threads[i], &count);
                assert_int_equal((uintptr_t)count, 2000);
        }
        fixture_stop(&f);
}

static void test_idle_loop_sleeps(void **state)
{
        struct lp_stats before, after;
        struct fixture f;
        unsigned none = 0;

        fixture_start(&f, 0, 0);
        fixture_call(&f, count_call, &none);
        usleep(20000);
        lp_stats_read(f.loop, &before);
        usleep(50000);
        lp_stats_read(f.loop, &after);
        assert_int_equal(after.rounds, before.rounds);
        assert_int_equal(after.messages, 1);
        fixture_stop(&f);
}

/* ---- messages left when the loop ends -------------------------------------------------------- */

static struct {
        struct lp_msg first, second;
        struct lp_loop *loop;
        unsigned ran;
} left;

static void run_left_second(struct lp_msg *msg)
{
        left.ran++;
}

static void run_left_first(struct lp_msg *msg)
{
        assert_ptr_equal(lp_self(), left.loop);
        left.ran++;
        lp_post(lp_self(), &left.second);
}

static void test_free_runs_what_is_left(void **state)
{
        struct fixture f;

        fixture_start(&f, 0, 0);
        lp_loop_stop(f.loop);
        fixture_join(&f);
        left.loop = f.loop;
        left.first.run = run_left_first;
        left.second.run = run_left_second;
        lp_post(f.loop, &left.first);
        assert_int_equal(left.ran, 0);
        lp_loop_free(f.loop);
        assert_int_equal(left.ran, 2);
        assert_null(lp_self());
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_order_from_many_threads),
                cmocka_unit_test(test_causal_order),
                cmocka_unit_test(test_posting_to_itself_starves_nothing),
                cmocka_unit_test(test_ping_pong_never_sleeps_through),
                cmocka_unit_test(test_wake_races),
                cmocka_unit_test(test_idle_loop_sleeps),
                cmocka_unit_test(test_free_runs_what_is_left),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
