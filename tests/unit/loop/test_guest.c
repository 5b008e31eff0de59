/*
 * test_guest.c - a loop that the thread of another one runs: who runs what, sleep and wake, and the end of either; and
 * messages for the end of a round.
 */
#include "tests/unit/loop/loop_fixture.h"

#include <sys/eventfd.h>

struct pair {
        struct fixture host, guest; /* guest: without a thread */
        sem_t left;
        int result;
};

static void pair_left(void *arg, int result)
{
        struct pair *p = arg;

        p->result = result;
        sem_post(&p->left);
}

static void pair_start(struct pair *p)
{
        memset(p, 0, sizeof(*p));
        sem_init(&p->left, 0, 0);
        fixture_start(&p->host, 8, 0);
        fixture_make(&p->guest, 8, 0, LP_RING_DEFERRED);
        lp_loop_join(p->host.loop, p->guest.loop, pair_left, p);
}

static void pair_guest_ends(struct pair *p, int result)
{
        lp_loop_stop(p->guest.loop);
        fixture_wait(&p->left, 30);
        assert_int_equal(p->result, result);
}

static void pair_stop(struct pair *p)
{
        pair_guest_ends(p, 0);
        fixture_stop(&p->host);
        lp_loop_free(p->guest.loop);
}

static void note_thread(struct lp_loop *loop, void *arg)
{
        assert_ptr_equal(lp_self(), loop);
        *(pthread_t *)arg = pthread_self();
}

/* ---- who runs what --------------------------------------------------------------------------- */

static void test_one_thread(void **state)
{
        pthread_t of_host, of_guest;
        struct pair p;

        pair_start(&p);
        fixture_call(&p.host, note_thread, &of_host);
        fixture_call(&p.guest, note_thread, &of_guest);
        assert_true(pthread_equal(of_host, of_guest));
        pair_stop(&p);
}

#define ROUND_TRIPS 100000u

static struct {
        struct lp_msg there, back;
        struct pair *pair;
        unsigned count, wrong;
        sem_t done;
} ball;

static void ball_there(struct lp_msg *msg)
{
        ball.wrong += lp_self() != ball.pair->guest.loop;
        lp_post(ball.pair->host.loop, &ball.back);
}

static void ball_back(struct lp_msg *msg)
{
        ball.wrong += lp_self() != ball.pair->host.loop;
        if (++ball.count == ROUND_TRIPS)
                sem_post(&ball.done);
        else
                lp_post(ball.pair->guest.loop, &ball.there);
}

static void ball_begin(struct lp_loop *loop, void *arg)
{
        lp_post(ball.pair->guest.loop, &ball.there);
}

/* Messages between the two, which wake nobody; meanwhile a third thread has both do something. */
static void test_messages_to_and_fro(void **state)
{
        struct pair p;
        pthread_t thread;
        unsigned i;

        pair_start(&p);
        memset(&ball, 0, sizeof(ball));
        ball.there.run = ball_there;
        ball.back.run = ball_back;
        ball.pair = &p;
        sem_init(&ball.done, 0, 0);
        fixture_call(&p.host, ball_begin, NULL);
        for (i = 0; i < 200; i++)
                fixture_call(i % 2 == 0 ? &p.host : &p.guest, note_thread, &thread);
        fixture_wait(&ball.done, 60);
        assert_int_equal(ball.wrong, 0);
        pair_stop(&p);
}

/* ---- sleep and wake -------------------------------------------------------------------------- */

static struct {
        struct lp_watch watch;
        struct lp_timer timer;
        struct lp_io io;
        struct lp_loop *on; /* that all of it is expected on */
        unsigned wrong;
        char byte;
        int res;
        sem_t done;
} event;

static void event_watched(struct lp_watch *watch, uint32_t events)
{
        event.wrong += lp_self() != event.on;
        lp_watch_remove(lp_self(), watch);
        sem_post(&event.done);
}

static void event_expired(struct lp_timer *timer)
{
        event.wrong += lp_self() != event.on;
        sem_post(&event.done);
}

static void event_io_done(struct lp_io *io, int res)
{
        event.wrong += lp_self() != event.on;
        event.res = res;
        sem_post(&event.done);
}

static void event_watch(struct lp_loop *loop, void *arg)
{
        event.watch.ready = event_watched;
        assert_int_equal(lp_watch_add(loop, &event.watch, EPOLLIN), 0);
}

static void event_arm(struct lp_loop *loop, void *arg)
{
        event.timer.expired = event_expired;
        lp_timer_start(loop, &event.timer, 3 * MS);
}

static void event_read(struct lp_loop *loop, void *arg)
{
        event.io = (struct lp_io){.done = event_io_done};
        lp_read(loop, &event.io, *(int *)arg, &event.byte, 1, 0);
}

static void events_on(struct fixture *f)
{
        const uint64_t one = 1;
        int pipe_fds[2], fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

        assert_int_equal(pipe(pipe_fds), 0);
        memset(&event, 0, sizeof(event));
        event.on = f->loop;
        event.watch.fd = fd;
        sem_init(&event.done, 0, 0);
        fixture_call(f, event_watch, NULL);
        usleep(2000); /* it sleeps */
        assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
        fixture_wait(&event.done, 30);
        fixture_call(f, event_arm, NULL);
        fixture_wait(&event.done, 30);
        fixture_call(f, event_read, &pipe_fds[0]);
        usleep(2000);
        assert_int_equal(write(pipe_fds[1], "x", 1), 1);
        fixture_wait(&event.done, 30);
        assert_int_equal(event.res, 1);
        assert_int_equal(event.byte, 'x');
        assert_int_equal(event.wrong, 0);
        close(fd);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

/* Descriptors, timers and I/O of each, while both sleep. */
static void test_events(void **state)
{
        struct pair p;
        unsigned i;

        pair_start(&p);
        for (i = 0; i < 20; i++)
                events_on(i % 2 == 0 ? &p.guest : &p.host);
        pair_stop(&p);
}

/* Neither goes round and round while there is nothing to do, nor after the guest has gone. */
static void test_rest(void **state)
{
        struct lp_stats before, after;
        pthread_t thread;
        struct pair p;

        pair_start(&p);
        fixture_call(&p.guest, note_thread, &thread);
        usleep(20000);
        lp_stats_read(p.host.loop, &before);
        usleep(100000);
        lp_stats_read(p.host.loop, &after);
        assert_true(after.rounds - before.rounds <= 2);
        pair_guest_ends(&p, 0);
        usleep(20000);
        lp_stats_read(p.host.loop, &before);
        usleep(100000);
        lp_stats_read(p.host.loop, &after);
        assert_true(after.rounds - before.rounds <= 2);
        fixture_stop(&p.host);
        lp_loop_free(p.guest.loop);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* A read that the kernel has, and has nothing for. */
static void read_begins(struct fixture *f, int *fd)
{
        struct lp_stats stats;
        unsigned tries;

        memset(&event, 0, sizeof(event));
        event.on = f->loop;
        sem_init(&event.done, 0, 0);
        fixture_call(f, event_read, fd);
        for (tries = 0; tries < 5000; tries++) {
                lp_stats_read(f->loop, &stats);
                if (stats.io_submitted == 1)
                        break;
                usleep(1000);
        }
        assert_int_equal(stats.io_submitted, 1);
        usleep(5000); /* it is handed over at the end of that round */
}

/* Its I/O is in the kernel yet: it is waited for, and the host goes on meanwhile. */
static void test_guest_ends_with_io(void **state)
{
        pthread_t thread;
        int pipe_fds[2];
        struct pair p;
        unsigned i;

        pair_start(&p);
        assert_int_equal(pipe(pipe_fds), 0);
        read_begins(&p.guest, &pipe_fds[0]);
        lp_loop_stop(p.guest.loop);
        for (i = 0; i < 50; i++)
                fixture_call(&p.host, note_thread, &thread);
        usleep(20000);
        assert_int_equal(sem_trywait(&p.left), -1);
        assert_int_equal(write(pipe_fds[1], "x", 1), 1);
        fixture_wait(&p.left, 30);
        assert_int_equal(p.result, 0);
        assert_int_equal(event.res, 1);
        lp_loop_free(p.guest.loop);
        fixture_call(&p.host, note_thread, &thread);
        fixture_stop(&p.host);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

/* It does not come back: the guest is given up, and the host is not. */
static void test_guest_ends_without_io(void **state)
{
        pthread_t thread;
        int pipe_fds[2];
        struct pair p;

        pair_start(&p);
        assert_int_equal(pipe(pipe_fds), 0);
        p.guest.loop->ring.drain_ns = 20 * MS;
        read_begins(&p.guest, &pipe_fds[0]);
        pair_guest_ends(&p, -ETIMEDOUT);
        fixture_call(&p.host, note_thread, &thread);
        assert_int_equal(write(pipe_fds[1], "x", 1), 1); /* so that the kernel is done with it */
        lp_loop_free(p.guest.loop);                      /* stays: the kernel had it (I7) */
        fixture_stop(&p.host);
        close(pipe_fds[0]);
        close(pipe_fds[1]);
}

static void test_host_ends(void **state)
{
        pthread_t thread;
        struct pair p;

        pair_start(&p);
        fixture_call(&p.guest, note_thread, &thread);
        fixture_stop(&p.host);
        fixture_wait(&p.left, 30);
        assert_int_equal(p.result, 0);
        lp_loop_free(p.guest.loop);
}

/* The host was told to stop before the guest came. */
static void test_host_has_ended(void **state)
{
        struct pair p = {0};

        sem_init(&p.left, 0, 0);
        fixture_make(&p.host, 8, 0, LP_RING_DEFERRED);
        fixture_make(&p.guest, 8, 0, LP_RING_DEFERRED);
        lp_loop_stop(p.host.loop);
        fixture_run(&p.host);
        fixture_join(&p.host);
        lp_loop_join(p.host.loop, p.guest.loop, pair_left, &p);
        lp_loop_free(p.host.loop);
        fixture_wait(&p.left, 30);
        assert_int_equal(p.result, 0);
        lp_loop_free(p.guest.loop);
}

/* The stop meets the guest on its way, at work, or asleep; another one may come then. */
static void test_stop_races(void **state)
{
        struct fixture guest;
        struct pair p;
        unsigned i;

        pair_start(&p);
        for (i = 0; i < 300; i++) {
                if (i % 3 != 0)
                        usleep(i);
                pair_guest_ends(&p, 0);
                lp_loop_free(p.guest.loop);
                fixture_make(&guest, 8, 0, i % 2 == 0 ? LP_RING_DEFERRED : LP_RING_PLAIN);
                p.guest.loop = guest.loop;
                lp_loop_join(p.host.loop, p.guest.loop, pair_left, &p);
        }
        pair_stop(&p);
}

/* ---- the end of a round ---------------------------------------------------------------------- */

#define CHAIN       3u
#define ROUND_TRIES 20u

static struct {
        struct lp_msg message, last[2];
        struct lp_timer timer;
        unsigned messages, lasts, wrong, until;
        sem_t done;
} gather;

static void gather_message(struct lp_msg *msg)
{
        if (++gather.messages < gather.until)
                lp_post(lp_self(), msg);
}

/* What was posted before is over, and both run in their order; the second posts the first once more, for the next round. */
static void gather_last(struct lp_msg *msg)
{
        gather.wrong += gather.messages != CHAIN;
        gather.wrong += msg != &gather.last[gather.lasts % 2];
        if (++gather.lasts == 2)
                lp_post_last(lp_self(), &gather.last[0]);
        else if (gather.lasts == 3)
                sem_post(&gather.done);
}

static void gather_begin(struct lp_loop *loop, void *arg)
{
        lp_post_last(loop, &gather.last[0]);
        lp_post_last(loop, &gather.last[1]);
        lp_post(loop, &gather.message);
}

static void gather_make(unsigned until, void (*last)(struct lp_msg *msg))
{
        memset(&gather, 0, sizeof(gather));
        gather.message.run = gather_message;
        gather.last[0].run = gather.last[1].run = last;
        gather.until = until;
        sem_init(&gather.done, 0, 0);
}

static void test_last_of_a_round(void **state)
{
        unsigned tries = 0;
        struct fixture f;

        do { /* a round that another process interrupts for long ends early */
                gather_make(CHAIN, gather_last);
                fixture_start(&f, 0, 0);
                fixture_call(&f, gather_begin, NULL);
                fixture_wait(&gather.done, 30);
                fixture_stop(&f);
        } while (gather.wrong != 0 && ++tries < ROUND_TRIES);
        assert_int_equal(gather.wrong, 0);
}

static void count_last(struct lp_msg *msg)
{
        gather.lasts++;
}

static void gather_expired(struct lp_timer *timer)
{
        gather.until = 0; /* the message ends */
        sem_post(&gather.done);
}

static void endless_begin(struct lp_loop *loop, void *arg)
{
        gather.timer.expired = gather_expired;
        lp_timer_start(loop, &gather.timer, 5 * MS);
        gather_begin(loop, arg);
}

/* A message that posts itself again and again keeps nothing else waiting. */
static void test_endless_messages(void **state)
{
        struct fixture f;

        gather_make(UINT32_MAX, count_last);
        fixture_start(&f, 0, 0);
        fixture_call(&f, endless_begin, NULL);
        fixture_wait(&gather.done, 30);
        fixture_stop(&f);
        assert_int_equal(gather.lasts, 2);
}

/* What waits for the end of a round runs where the loop is freed, too. */
static void test_last_of_a_loop_that_ends(void **state)
{
        struct fixture f;

        gather_make(0, count_last);
        fixture_make(&f, 0, 0, LP_RING_DEFERRED);
        lp_become(f.loop);
        lp_post_last(f.loop, &gather.last[0]);
        lp_become(NULL);
        assert_int_equal(lp_loop_drain(f.loop), 1);
        assert_int_equal(gather.lasts, 1);
        lp_loop_free(f.loop);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_thread),
                cmocka_unit_test(test_messages_to_and_fro),
                cmocka_unit_test(test_events),
                cmocka_unit_test(test_rest),
                cmocka_unit_test(test_guest_ends_with_io),
                cmocka_unit_test(test_guest_ends_without_io),
                cmocka_unit_test(test_host_ends),
                cmocka_unit_test(test_host_has_ended),
                cmocka_unit_test(test_stop_races),
                cmocka_unit_test(test_last_of_a_round),
                cmocka_unit_test(test_endless_messages),
                cmocka_unit_test(test_last_of_a_loop_that_ends),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
