/*
 * loop.c - the life of a loop and its rounds.
 *
 * The process (server/, client/, tests) makes a loop, a thread of its own runs it, and everything
 * else here is called on that thread unless it says otherwise. A round does a bounded amount of
 * each kind of work (the events that fit the batch, the messages that were there, the timers that
 * were due), so nothing starves anything else; it never waits but in lp_poll_wait() (a wait
 * anywhere else would hold up every request of this core).
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

/*
 * What messages and cancelled operations start is run or cancelled too: nothing is left that waits
 * for an answer.
 */
static void loop_finish(struct lp_loop *loop)
{
        unsigned rounds = 0;
        uint64_t done;

        do {
                done = lp_mailbox_run(&loop->mailbox) + lp_ring_cancel(loop);
                rounds++;
                assert(rounds < FREE_ROUNDS);
        } while (done > 0);
}

uint64_t lp_loop_drain(struct lp_loop *loop)
{
        struct lp_loop *outer = self;
        uint64_t done;

        self = loop;
        done = lp_mailbox_run(&loop->mailbox) + lp_ring_cancel(loop);
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

        if (longest == 0 || lp_arena_grant_due(loop))
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
        return rv;
}

static int sleep_and_wake(struct lp_loop *loop, uint64_t longest)
{
        uint64_t timeout = sleep_time(loop, longest);
        int rv;

        if (timeout == 0) {
                if (loop->gives_way)
                        sched_yield();
                return look_up(loop, 0);
        }
        if (!lp_ring_sleep(&loop->ring) || !lp_mailbox_sleep(&loop->mailbox))
                timeout = 0;
        rv = look_up(loop, timeout);
        lp_mailbox_awake(&loop->mailbox);
        lp_ring_awake(&loop->ring);
        return rv;
}

static int run_round(struct lp_loop *loop)
{
        uint64_t longest;
        int rv;

        lp_counter_add(&loop->figures.rounds, 1);
        lp_poll_dispatch(&loop->poll);
        lp_ring_complete(loop);
        lp_timers_expire(&loop->timers, loop->now);
        lp_counter_add(&loop->figures.messages, lp_mailbox_run(&loop->mailbox));
        lp_arena_grant(loop);
        longest = run_hooks(loop);
        rv = lp_ring_submit(loop);
        if (rv != 0 || atomic_load_explicit(&loop->stopping, memory_order_acquire))
                return rv;
        return sleep_and_wake(loop, longest);
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
        while (rv == 0 && !atomic_load_explicit(&loop->stopping, memory_order_acquire));
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
        lp_mailbox_wake(&loop->mailbox);
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
