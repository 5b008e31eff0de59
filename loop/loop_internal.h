/*
 * loop_internal.h - what the files of loop/ share with one another; nobody else includes it (its
 * tests do).
 *
 * Drawing of one round, on the loop's thread:
 *
 *   epoll_pwait2 -> watches -> completions -> timers -> messages -> grants -> last -> hooks -> submit --+
 *        ^                                                                                             |
 *        +---- sleeps only if no completion, message or grant is due, until the next timer or hook ----+
 *
 * Messages that messages post are run in the same round, a few times over. A guest goes through each step behind its host.
 *
 * Owner: everything belongs to the loop's thread, except the mailbox, `stopping` and the counters
 * (atomics).
 */
#ifndef MILLRACE_LOOP_INTERNAL_H
#define MILLRACE_LOOP_INTERNAL_H

#include "loop.h"

#include <assert.h>
#include <liburing.h>
#include <stdatomic.h>
#include <sys/epoll.h>

#define LP_CACHE_LINE 64

/* ---- counters: written by the loop's thread, read by any ------------------------------------- */

typedef _Atomic uint64_t lp_counter;

/* One writer: a plain load and store is enough and needs no locked instruction. */
static inline void lp_counter_add(lp_counter *counter, uint64_t n)
{
        atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n, memory_order_relaxed);
}

static inline void lp_counter_set(lp_counter *counter, uint64_t n)
{
        atomic_store_explicit(counter, n, memory_order_relaxed);
}

static inline uint64_t lp_counter_get(const lp_counter *counter)
{
        return atomic_load_explicit(counter, memory_order_relaxed);
}

/* ---- mailbox.c ------------------------------------------------------------------------------- */

/*
 * Any thread pushes; the loop's thread takes. The head says all: empty, asleep, or the newest
 * message of a stack.
 */
struct lp_mailbox {
        _Alignas(LP_CACHE_LINE) _Atomic(struct lp_msg *) head;
        int wake_fd; /* eventfd, the io_uring's too; immutable */
};

int lp_mailbox_open(struct lp_mailbox *mailbox);
void lp_mailbox_close(struct lp_mailbox *mailbox);
void lp_mailbox_wake(struct lp_mailbox *mailbox); /* any thread: makes epoll_wait return once */
/* True: the mailbox is empty and the next post will write wake_fd. False: there are messages. */
bool lp_mailbox_sleep(struct lp_mailbox *mailbox);
void lp_mailbox_awake(struct lp_mailbox *mailbox);
/*
 * Runs the messages that are there now, oldest first; those posted meanwhile stay. Returns how
 * many.
 */
uint64_t lp_mailbox_run(struct lp_mailbox *mailbox);

/* ---- timer.c --------------------------------------------------------------------------------- */

struct lp_timers {
        struct lp_timer *first; /* to expire */
        uint64_t started;
        bool ended;             /* the loop has: none expires any more, and what is armed may be freed already */
};

/* Runs what is due at now; timers started meanwhile wait for the next round. */
void lp_timers_expire(struct lp_timers *timers, uint64_t now);
/* Deadline of the first timer, or UINT64_MAX. */
uint64_t lp_timers_next(const struct lp_timers *timers);
/* The loop has ended. */
void lp_timers_end(struct lp_timers *timers);

/* ---- arena.c --------------------------------------------------------------------------------- */

#define LP_LINE_MAX    1024u /* reservations in line per share (I9) */
#define LP_GET_PERCENT 45u   /* of the slots; at least one */
#define LP_PUT_PERCENT 45u   /* the same; the rest, at least one, is LP_SHARE_INTERNAL's; LP_SHARE_PEER's are apart */

/* Slots to one registered buffer: the kernel takes at most 1 GiB in each. */
#define LP_GROUP_SLOTS ((unsigned)((1ull << 30) / LP_SLOT_SIZE))
#define LP_GROUP_SIZE  ((size_t)LP_GROUP_SLOTS * LP_SLOT_SIZE)

struct lp_share_line {
        unsigned slots, reserved, waiting;
        struct lp_reserve *first, *last;
};

struct lp_arena {
        char *base;
        size_t size;
        unsigned slots, used;
        void **idle; /* stack of slots - used pointers: the slot put back last is drawn next, it is warm */
        bool *drawn; /* by slot number */
        struct lp_share_line shares[LP_SHARES];
};

int lp_arena_open(struct lp_arena *arena, unsigned slots, unsigned peer_slots);
void lp_arena_close(struct lp_arena *arena);
/* Calls granted() of those whose turn has come. */
void lp_arena_grant(struct lp_loop *loop);
bool lp_arena_grant_due(const struct lp_loop *loop);
/* Number of the registered buffer that holds all of [buf, buf + len), or -1. */
int lp_arena_group(const struct lp_arena *arena, const void *buf, size_t len);

/* ---- ring.c ---------------------------------------------------------------------------------- */

enum lp_ring_mode {
        LP_RING_DEFERRED, /* single issuer, deferred task work; Linux 6.1 */
        LP_RING_PLAIN,    /* older kernels */
};

struct lp_ring {
        struct io_uring uring;
        enum lp_ring_mode mode;
        bool fixed;                   /* the arena is registered */
        bool known;                   /* to the kernel as a ring of this thread, by a number instead of a descriptor */
        unsigned capacity, in_flight; /* never more in flight than the completion queue holds */
        uint64_t drain_ns;            /* how long lp_ring_drain() may take */
        struct lp_io *first, *last;   /* started, not yet in the ring */
        uint64_t waiting;
};

/* Tries mode, then the plain one. The kernel tells of completions by wake_fd, an eventfd. */
int lp_ring_open(struct lp_ring *ring, unsigned entries, enum lp_ring_mode mode, int wake_fd);
void lp_ring_close(struct lp_ring *ring);
/*
 * Registers the arena's groups; without it (RLIMIT_MEMLOCK) plain operations do the same work more
 * slowly.
 */
void lp_ring_register(struct lp_ring *ring, const struct lp_arena *arena);
/* Ties the ring to the calling thread; only that thread uses it from now on. */
int lp_ring_enable(struct lp_ring *ring);
/*
 * Moves what waits into the ring and hands it to the kernel. 0, or an errno after which the ring is
 * of no use.
 */
int lp_ring_submit(struct lp_loop *loop);
/* Calls done() of the completions that are there. */
void lp_ring_complete(struct lp_loop *loop);
/*
 * True: nothing is there to do, and wake_fd will tell when there is. False: another round is due.
 * Then awake() follows.
 */
bool lp_ring_sleep(struct lp_ring *ring);
void lp_ring_awake(struct lp_ring *ring);
/*
 * Ends the ring's life on its thread: waits for what is in flight (I7), cancels what is not.
 * -ETIMEDOUT: some has not come back, or callbacks begin more without end. What is still in flight
 * then has its buffers for ever.
 */
int lp_ring_drain(struct lp_loop *loop);
/* The same without waiting, again and again. True: the ring is at its end. */
bool lp_ring_drain_step(struct lp_loop *loop);
/* Ends operations that never reached the kernel with -ECANCELED. Returns how many. */
uint64_t lp_ring_cancel(struct lp_loop *loop);

/* ---- poll.c ---------------------------------------------------------------------------------- */

#define LP_EVENTS 128

struct lp_poll {
        int epoll_fd;
        int count, next; /* events of this round; next not handled yet */
        bool guest_due;  /* the epoll set of the guest has events, too */
        struct epoll_event events[LP_EVENTS];
};

int lp_poll_open(struct lp_poll *poll, int wake_fd);
void lp_poll_close(struct lp_poll *poll);
/* Sleeps at most timeout_ns (UINT64_MAX: for ever). 0 or an errno. */
int lp_poll_wait(struct lp_poll *poll, uint64_t timeout_ns);
/* Calls the watches that are ready, the rest of them when it is called again if that takes until then (lp_clock()). */
void lp_poll_dispatch(struct lp_poll *poll, uint64_t until);
/* From now on lp_poll_dispatch() says in guest_due whether this one has events. 0 or an errno. */
int lp_poll_join(struct lp_poll *poll, const struct lp_poll *guest);
void lp_poll_part(struct lp_poll *poll, const struct lp_poll *guest);

/* ---- loop.c ---------------------------------------------------------------------------------- */

struct lp_loop {
        struct lp_mailbox mailbox; /* any thread */
        _Atomic bool stopping;     /* any thread */

        /* owner: the loop's thread */
        _Alignas(LP_CACHE_LINE) uint64_t now; /* of this round, while running */
        bool running, gives_way;
        unsigned index;
        const char *name;
        struct lp_msg *last_first, **last_end; /* for the end of the round: lp_post_last() */
        struct lp_loop *guest; /* that this thread runs, too */
        struct {
                struct lp_loop *host; /* NULL: it is nobody's */
                struct lp_msg arrives;
                uint64_t until; /* it is stopping, and is waited for so long; 0: not */
                void (*left)(void *arg, int result);
                void *arg;
        } as_guest;
        struct lp_hook *hooks;
        struct lp_timers timers;
        struct lp_arena arena;
        struct lp_ring ring;
        struct lp_poll poll;

        /* written by the loop's thread, read by any */
        struct {
                lp_counter rounds, messages, io_submitted, io_completed, io_waiting;
                lp_counter slots_used, reserved[LP_SHARES], reserve_waiting[LP_SHARES];
        } figures;
};

/* lp_loop_new() with the choice of where lp_ring_open() begins. */
int lp_loop_new_mode(const struct lp_config *config, enum lp_ring_mode mode, struct lp_loop **out);

#endif
