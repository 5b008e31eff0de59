/*
 * loop.c - the life of a loop and its rounds.
 *
 * The process (server/, client/, tests) makes a loop, a thread of its own runs it, and everything
 * else here is called on that thread unless it says otherwise. A round does a bounded amount of
 * each kind of work (the events that fit the batch, the messages that were there and for a while
 * those that they post, the timers that were due), so nothing starves anything else; it never waits
 * but in lp_poll_wait() (a wait anywhere else would hold up every request of this core).
 *
 * A thread may run two loops, a host and its guest (lp_loop_join()): each step of a round is the
 * host's first, then the guest's, and they sleep in the host's epoll set, in which the guest's is.
 */
#include "loop/loop_internal.h"

#include "loop_trace.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S    1000000000ull
#define FREE_ROUNDS 1000000u /* messages that go on posting while the loop is freed are a bug of their owner */
#define PASSES      6u       /* over the messages of a round at most: they wait for the next one then */
#define PASSES_NS   500000u  /* of a round that took so long there is no other pass, either */
#define GUEST_NS    1000000u /* of a guest's events in a round: the rest waits for the next one, since the host's peers may wait for it */
#define LEAVING_NS  1000000u /* between two looks at what the kernel has of a guest that is stopping */

static _Thread_local struct lp_loop *self;

/* ---- clocks and chance ----------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t clock)
{
        struct timespec t;

        clock_gettime(clock, &t);
        return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t lp_clock(void)
{
        return clock_ns(CLOCK_MONOTONIC);
}

uint64_t lp_boot_clock(void)
{
        return clock_ns(CLOCK_BOOTTIME);
}

uint64_t lp_now(const struct lp_loop *loop)
{
        return loop->running ? loop->now : lp_clock();
}

int64_t lp_wall_ms(void)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void lp_random(void *buf, size_t len)
{
        char *at = buf;
        ssize_t n;

        while (len > 0) {
                n = getrandom(at, len, 0);
                if (n < 0 && errno != EINTR)
                        abort();
                if (n > 0) {
                        at += n;
                        len -= (size_t)n;
                }
        }
}

/* ---- life ------------------------------------------------------------------------------------ */

int lp_loop_new_mode(const struct lp_config *config, enum lp_ring_mode mode, struct lp_loop **out)
{
        struct lp_loop *loop;
        int rv;

        loop = aligned_alloc(LP_CACHE_LINE, sizeof(*loop));
        if (loop == NULL)
                return -ENOMEM;
        memset(loop, 0, sizeof(*loop));
        loop->index = config->index;
        loop->gives_way = config->gives_way;
        loop->last_end = &loop->last_first;
        loop->name = config->name != NULL ? config->name : "loop";
        rv = lp_mailbox_open(&loop->mailbox);
        if (rv != 0)
                goto err_free;
        rv = lp_poll_open(&loop->poll, loop->mailbox.wake_fd);
        if (rv != 0)
                goto err_mailbox;
        rv = lp_arena_open(&loop->arena, config->slots, config->peer_slots);
        if (rv != 0)
                goto err_poll;
        rv = lp_ring_open(&loop->ring, config->ring_entries, mode, loop->mailbox.wake_fd);
        if (rv != 0)
                goto err_arena;
        lp_ring_register(&loop->ring, &loop->arena);
        *out = loop;
        return 0;

err_arena:
        lp_arena_close(&loop->arena);
err_poll:
        lp_poll_close(&loop->poll);
err_mailbox:
        lp_mailbox_close(&loop->mailbox);
err_free:
        free(loop);
        return rv;
}

int lp_loop_new(const struct lp_config *config, struct lp_loop **out)
{
        return lp_loop_new_mode(config, LP_RING_DEFERRED, out);
}

void lp_post_last(struct lp_loop *loop, struct lp_msg *msg)
{
        assert(self == loop);
        msg->request = lp_trace_request();
        msg->next = NULL;
        *loop->last_end = msg;
        loop->last_end = &msg->next;
}

/* Those that are there; what they post again is the next round's. Returns how many. */
static uint64_t run_last(struct lp_loop *loop)
{
        struct lp_msg *msg = loop->last_first, *next;
        uint64_t count = 0;

        loop->last_first = NULL;
        loop->last_end = &loop->last_first;
        for (; msg != NULL; msg = next) {
                next = msg->next;
                lp_trace_set_request(msg->request);
                msg->run(msg);
                count++;
        }
        lp_trace_set_request(0);
        return count;
}

/*
 * What messages and cancelled operations start is run or cancelled too: nothing is left that waits
 * for an answer.
 */
static void loop_finish(struct lp_loop *loop)
{
        unsigned rounds = 0;
        uint64_t done;

        do {
                done = lp_mailbox_run(&loop->mailbox) + run_last(loop) + lp_ring_cancel(loop);
                rounds++;
                assert(rounds < FREE_ROUNDS);
        } while (done > 0);
}

uint64_t lp_loop_drain(struct lp_loop *loop)
{
        struct lp_loop *outer = self;
        uint64_t done;

        self = loop;
        done = lp_mailbox_run(&loop->mailbox) + run_last(loop) + lp_ring_cancel(loop);
        self = outer;
        return done;
}

void lp_loop_free(struct lp_loop *loop)
{
        struct lp_loop *outer = self;

        if (loop == NULL)
                return;
        self = loop;
        loop_finish(loop);
        self = outer == loop ? NULL : outer;
        if (loop->ring.in_flight > 0)
                return; /* the kernel may still write to its buffers (I7) */
        lp_ring_close(&loop->ring);
        lp_arena_close(&loop->arena);
        lp_poll_close(&loop->poll);
        lp_mailbox_close(&loop->mailbox);
        free(loop);
}

struct lp_loop *lp_self(void)
{
        return self;
}

struct lp_loop *lp_become(struct lp_loop *loop)
{
        struct lp_loop *before = self;

        self = loop;
        return before;
}

unsigned lp_index(const struct lp_loop *loop)
{
        return loop->index;
}

void lp_hook_add(struct lp_loop *loop, struct lp_hook *hook)
{
        struct lp_hook **end = &loop->hooks;

        while (*end != NULL)
                end = &(*end)->next;
        hook->next = NULL;
        *end = hook;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static bool is_stopping(const struct lp_loop *loop)
{
        return atomic_load_explicit(&loop->stopping, memory_order_acquire);
}

static uint64_t run_hooks(struct lp_loop *loop)
{
        uint64_t longest = UINT64_MAX, asked;
        struct lp_hook *hook;

        for (hook = loop->hooks; hook != NULL; hook = hook->next) {
                lp_trace_set_request(0);
                asked = hook->before_sleep(hook);
                longest = asked < longest ? asked : longest;
        }
        return longest;
}

/*
 * How long the loop may sleep: `longest` from the hooks, the next timer, and not at all if there is
 * work.
 */
static uint64_t sleep_time(const struct lp_loop *loop, uint64_t longest)
{
        uint64_t deadline = lp_timers_next(&loop->timers);
        uint64_t now;

        if (longest == 0 || loop->last_first != NULL || lp_arena_grant_due(loop) || loop->poll.next < loop->poll.count)
                return 0;
        if (deadline == UINT64_MAX)
                return longest;
        now = lp_clock(); /* the round took time */
        if (deadline <= now)
                return 0;
        return deadline - now < longest ? deadline - now : longest;
}

static int look_up(struct lp_loop *loop, uint64_t timeout)
{
        int rv = lp_poll_wait(&loop->poll, timeout);

        loop->now = lp_clock();
        if (loop->guest != NULL)
                loop->guest->now = loop->now;
        return rv;
}

/* False: there is something to do. */
static bool fall_asleep(struct lp_loop *loop)
{
        return lp_ring_sleep(&loop->ring) && lp_mailbox_sleep(&loop->mailbox);
}

static void wake_up(struct lp_loop *loop)
{
        lp_mailbox_awake(&loop->mailbox);
        lp_ring_awake(&loop->ring);
}

static int sleep_and_wake(struct lp_loop *loop, uint64_t timeout)
{
        struct lp_loop *guest = loop->guest;
        int rv;

        if (timeout == 0) {
                if (loop->gives_way)
                        sched_yield();
                return look_up(loop, 0);
        }
        if (guest != NULL && guest->as_guest.until != 0)
                guest = NULL; /* it is stopping: it is looked at again before long */
        if (!fall_asleep(loop) || (guest != NULL && !fall_asleep(guest)))
                timeout = 0;
        rv = look_up(loop, timeout);
        wake_up(loop);
        if (guest != NULL)
                wake_up(guest);
        return rv;
}

/* What follows is one step of a round each, of a host and of its guest. */
static void round_events(struct lp_loop *loop, uint64_t until)
{
        self = loop;
        lp_counter_add(&loop->figures.rounds, 1);
        lp_poll_dispatch(&loop->poll, until);
        lp_ring_complete(loop);
        lp_timers_expire(&loop->timers, loop->now);
}

static uint64_t round_messages(struct lp_loop *loop)
{
        uint64_t count;

        self = loop;
        count = lp_mailbox_run(&loop->mailbox);
        lp_counter_add(&loop->figures.messages, count);
        return count;
}

static uint64_t round_last(struct lp_loop *loop)
{
        self = loop;
        lp_arena_grant(loop);
        run_last(loop);
        return run_hooks(loop);
}

/* The events of its epoll set, where the host's has said that there are any. */
static int guest_events(struct lp_loop *loop)
{
        struct lp_loop *guest = loop->guest;
        int rv = 0;

        if (loop->poll.guest_due && guest->poll.next == guest->poll.count)
                rv = lp_poll_wait(&guest->poll, 0);
        loop->poll.guest_due = false;
        if (rv == 0)
                round_events(guest, lp_clock() + GUEST_NS);
        return rv;
}

/*
 * What messages post is done in the same round, so that what a round sends and writes leaves together; but a few times
 * only, and not in a long round: others are not kept waiting (I9).
 */
static void all_messages(struct lp_loop *loop)
{
        unsigned pass = 0;
        uint64_t count;

        do {
                count = round_messages(loop);
                if (loop->guest != NULL && !is_stopping(loop->guest))
                        count += round_messages(loop->guest);
        } while (count > 0 && ++pass < PASSES && !loop->gives_way && lp_clock() - loop->now < PASSES_NS);
}

/* ---- guests ---------------------------------------------------------------------------------- */

/* It is as a loop that has run, and its owner's: the last that is done with it here. */
static void guest_left(struct lp_loop *guest, int result)
{
        void (*left)(void *arg, int result) = guest->as_guest.left;
        void *arg = guest->as_guest.arg;

        lp_timers_end(&guest->timers);
        guest->running = false;
        left(arg, result);
}

/* It was told to stop. The host goes on: what the kernel has of the guest's is looked for in each round. */
static void guest_leaves(struct lp_loop *loop)
{
        struct lp_loop *guest = loop->guest;
        uint64_t now = lp_clock();
        bool over;

        self = guest;
        if (guest->as_guest.until == 0) {
                guest->as_guest.until = now + guest->ring.drain_ns;
                lp_poll_part(&loop->poll, &guest->poll); /* what is in it would end each sleep */
        }
        over = lp_ring_drain_step(guest);
        if (over || now >= guest->as_guest.until) {
                loop->guest = NULL;
                guest_left(guest, over ? 0 : -ETIMEDOUT);
        }
        self = loop;
}

/* On the host. */
static void guest_arrives(struct lp_msg *msg)
{
        struct lp_loop *guest = container_of(msg, struct lp_loop, as_guest.arrives), *loop = guest->as_guest.host;
        int rv = loop->running ? lp_ring_enable(&guest->ring) : 0;

        assert(self == loop && loop->guest == NULL);
        if (rv == 0 && loop->running)
                rv = lp_poll_join(&loop->poll, &guest->poll);
        if (rv != 0 || !loop->running) { /* the latter: its host has ended */
                lp_ring_drain(guest); /* it is no thread's */
                guest_left(guest, rv);
                return;
        }
        guest->now = loop->now;
        guest->running = true;
        loop->guest = guest;
}

void lp_loop_join(struct lp_loop *host, struct lp_loop *guest, void (*left)(void *arg, int result), void *arg)
{
        assert(guest->as_guest.host == NULL && !guest->running && guest->guest == NULL);
        guest->as_guest.host = host;
        guest->as_guest.left = left;
        guest->as_guest.arg = arg;
        guest->as_guest.arrives.run = guest_arrives;
        lp_post(host, &guest->as_guest.arrives);
}

/* Its part of the end of a round. *longest: how long it lets the host sleep, but for its timers. */
static int guest_round_ends(struct lp_loop *loop, uint64_t *longest)
{
        struct lp_loop *guest = loop->guest;

        if (is_stopping(guest)) {
                guest_leaves(loop);
                *longest = LEAVING_NS;
                return 0;
        }
        *longest = round_last(guest);
        return lp_ring_submit(guest);
}

/* Behind all that the round does. */
static uint64_t whole_sleep_time(const struct lp_loop *loop, uint64_t longest, uint64_t of_guest)
{
        const struct lp_loop *guest = loop->guest;
        uint64_t timeout = sleep_time(loop, longest);

        if (guest == NULL)
                return timeout;
        if (!is_stopping(guest))
                of_guest = sleep_time(guest, of_guest);
        return of_guest < timeout ? of_guest : timeout;
}

/* ---- the whole round ------------------------------------------------------------------------- */

static int run_round(struct lp_loop *loop)
{
        struct lp_loop *guest = loop->guest;
        uint64_t longest, of_guest = UINT64_MAX;
        int rv = 0, submitted;

        round_events(loop, UINT64_MAX);
        if (guest != NULL && !is_stopping(guest))
                rv = guest_events(loop);
        all_messages(loop);
        longest = round_last(loop);
        submitted = lp_ring_submit(loop);
        if (guest != NULL && rv == 0)
                rv = guest_round_ends(loop, &of_guest);
        rv = submitted != 0 ? submitted : rv;
        if (rv != 0 || is_stopping(loop))
                return rv;
        if (guest == NULL && loop->guest != NULL)
                of_guest = 0; /* one that came takes part in the next round */
        return sleep_and_wake(loop, whole_sleep_time(loop, longest, of_guest));
}

/* Only threads of their own are named: the first thread's name is that of the process. */
static void name_thread(const struct lp_loop *loop)
{
        char name[16];

        if (gettid() == getpid())
                return;
        snprintf(name, sizeof(name), "%s-%u", loop->name, loop->index);
        pthread_setname_np(pthread_self(), name);
}

int lp_loop_run(struct lp_loop *loop)
{
        struct lp_loop *guest;
        int rv, drained;

        rv = lp_ring_enable(&loop->ring);
        if (rv != 0)
                return rv;
        self = loop;
        name_thread(loop);
        lp_trace_begin(loop->name, loop->index);
        loop->now = lp_clock();
        loop->running = true;
        do
                rv = run_round(loop);
        while (rv == 0 && !is_stopping(loop));
        guest = loop->guest;
        if (guest != NULL) {
                self = guest;
                drained = lp_ring_drain(guest);
                loop->guest = NULL;
                guest_left(guest, rv != 0 ? rv : drained);
        }
        self = loop;
        drained = lp_ring_drain(loop);
        lp_timers_end(&loop->timers);
        loop->running = false;
        self = NULL;
        lp_trace_end();
        return rv != 0 ? rv : drained;
}

void lp_loop_stop(struct lp_loop *loop)
{
        atomic_store_explicit(&loop->stopping, true, memory_order_release);
        lp_mailbox_wake(&loop->mailbox); /* of a guest: it is in the host's epoll set */
}

/* ---- figures --------------------------------------------------------------------------------- */

void lp_stats_read(const struct lp_loop *loop, struct lp_stats *out)
{
        unsigned share;

        out->rounds = lp_counter_get(&loop->figures.rounds);
        out->messages = lp_counter_get(&loop->figures.messages);
        out->io_submitted = lp_counter_get(&loop->figures.io_submitted);
        out->io_completed = lp_counter_get(&loop->figures.io_completed);
        out->io_waiting = lp_counter_get(&loop->figures.io_waiting);
        out->slots = loop->arena.slots; /* never changes */
        out->slots_used = lp_counter_get(&loop->figures.slots_used);
        for (share = 0; share < LP_SHARES; share++) {
                out->reserved[share] = lp_counter_get(&loop->figures.reserved[share]);
                out->reserve_waiting[share] = lp_counter_get(&loop->figures.reserve_waiting[share]);
        }
}
