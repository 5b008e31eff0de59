/*
 * loop.h - one event loop per core: messages, timers, descriptors, file I/O and buffers.
 *
 * A loop is a thread that never blocks. It owns an epoll set, an io_uring, a timer heap, a mailbox
 * and an arena of I/O buffers. Everything above (engine, gateway, server) reaches another thread
 * only by lp_post(). A test or simulator may link another implementation of this header: time,
 * randomness, messages and I/O all come from here.
 *
 * Unless a function says "any thread", it is called on the loop's own thread only.
 * Errors are negative errno values.
 */
#ifndef MILLRACE_LOOP_H
#define MILLRACE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct lp_loop;

/*
 * The struct of type that has *pointer as its member: what a message, timer or watch belongs to. A
 * pointer to something else does not compile.
 */
#define container_of(pointer, type, member) ((type *)((char *)(true ? (pointer) : &((type *)NULL)->member) - offsetof(type, member)))

/* ---- life ------------------------------------------------------------------------------------ */

struct lp_config {
        unsigned index;         /* number of this loop, 0-based; shown in names and figures */
        const char *name;       /* of its thread, before the number; NULL: "loop"; it stays */
        unsigned ring_entries;  /* submission entries of the io_uring; 0: 512 */
        unsigned slots;         /* arena slots of LP_SLOT_SIZE bytes; 0: none; else at least one for each share but LP_SHARE_PEER */
        unsigned peer_slots;    /* and of LP_SHARE_PEER, beside them; 0: not in a cluster */
        bool gives_way;         /* between two rounds without sleep other threads of its processor go first: for long work */
};

/* Makes a loop. No thread is started: the caller makes one that calls lp_loop_run(). */
int lp_loop_new(const struct lp_config *config, struct lp_loop **out);

/*
 * Runs until lp_loop_stop(). Sets lp_self() for the calling thread. 0, or the errno that ended it.
 * -ETIMEDOUT: it was stopped, and half a minute later some of its I/O was still in the kernel:
 * whatever that was given stays the kernel's, so nothing of it may be freed (I7).
 */
int lp_loop_run(struct lp_loop *loop);

/*
 * Any thread. The loop returns from lp_loop_run() after its present round, once the kernel has
 * finished the I/O it has (I7); operations that did not reach the kernel yet, and later ones, end
 * with -ECANCELED. A loop runs once.
 */
void lp_loop_stop(struct lp_loop *loop);

/*
 * Any thread. The thread that runs `host` runs `guest`, too, which was not run yet: their rounds are one, and messages
 * between the two wake nobody. On each lp_self() is the loop that something is for, as always. For loops that do a
 * little for one another again and again, of which neither holds up the other. A host has one guest, and a guest none.
 *
 * Nobody calls lp_loop_run(guest): left() is called once, on the thread of the host, with what that would have returned,
 * when the guest was told to stop, or the host has ended. From then on the guest is as a loop that has run.
 */
void lp_loop_join(struct lp_loop *host, struct lp_loop *guest, void (*left)(void *arg, int result), void *arg);

/*
 * After lp_loop_run() has returned: frees it, unless the kernel still has I/O of it. Messages still
 * in the mailbox are run first. NULL is allowed.
 */
void lp_loop_free(struct lp_loop *loop);

/*
 * After lp_loop_run() has returned (on all loops that post to each other), before lp_loop_free():
 * runs the messages that wait, and ends I/O that was not started with -ECANCELED. Returns how many
 * there were. Whoever owns what the messages point to calls this on all loops until all say 0, and
 * frees it then.
 */
uint64_t lp_loop_drain(struct lp_loop *loop);

/* The loop run by this thread, or NULL on a thread that runs none. */
struct lp_loop *lp_self(void);
/*
 * After lp_loop_run() has returned: the calling thread is on this loop (NULL: on none), as whatever
 * is taken apart there counts on. Returns the one it was on before, which it becomes again
 * afterwards.
 */
struct lp_loop *lp_become(struct lp_loop *loop);
unsigned lp_index(const struct lp_loop *loop);

/*
 * Monotonic nanoseconds, read once per round of the loop; wall clock in milliseconds since 1970
 * (read fresh).
 */
uint64_t lp_now(const struct lp_loop *loop);
int64_t lp_wall_ms(void);
/* Any thread. The scale of lp_now(), read fresh (about 25 ns): for times shorter than a round. */
uint64_t lp_clock(void);
/* Any thread. Nanoseconds of a clock that goes on while the machine sleeps, read fresh: for leases. */
uint64_t lp_boot_clock(void);

/* Any thread. Cryptographically random bytes; never fails (aborts if the kernel has none). */
void lp_random(void *buf, size_t len);

/* ---- messages -------------------------------------------------------------------------------- */

/*
 * A message is a member of the structure it is about, so posting allocates nothing and cannot fail;
 * the number of messages is bounded by the number of operations that exist (I9). It belongs to the
 * receiver from lp_post() until run() is called. Messages from one thread to one loop arrive in
 * order; and if post A happens before post B in any causal order, A to the same loop runs before B.
 */
struct lp_msg {
        struct lp_msg *next;                 /* owner: the mailbox while posted */
        void (*run)(struct lp_msg *msg);     /* on the receiving loop */
        uint64_t request;                    /* private: that it is posted for (loop_trace.h) */
};

/* Any thread. */
void lp_post(struct lp_loop *to, struct lp_msg *msg);
/*
 * Runs the message at the end of this round, behind all others that the round runs: for what gathers what they do. Of
 * several those that were posted first run first. While the loop is taken apart they run like other messages.
 */
void lp_post_last(struct lp_loop *loop, struct lp_msg *msg);

/* ---- timers ---------------------------------------------------------------------------------- */

struct lp_timer {
        uint64_t deadline;                        /* lp_now() scale; owner: the loop while armed */
        void (*expired)(struct lp_timer *timer);
        struct lp_timer *child, *next, *prev;     /* private, as all that follows; zeroed to begin with */
        uint64_t number;                          /* counts starts: timers of one deadline expire in the order they were started */
        uint64_t armed;                           /* 0: not */
};

/*
 * Arms or re-arms a zeroed or earlier used timer; expired() runs once, at the earliest after
 * delay_ns.
 */
void lp_timer_start(struct lp_loop *loop, struct lp_timer *timer, uint64_t delay_ns);
void lp_timer_stop(struct lp_loop *loop, struct lp_timer *timer); /* harmless when not armed */
/*
 * Once lp_loop_run() has returned no timer expires, and both do nothing. So the memory of a timer that is armed may be freed then,
 * and whoever is taken apart after that comes to no harm by it.
 */

/* ---- descriptors ----------------------------------------------------------------------------- */

struct lp_watch {
        int fd;
        void (*ready)(struct lp_watch *watch, uint32_t epoll_events);
};

/* Watches a descriptor for EPOLL* events (level-triggered) until removed. */
int lp_watch_add(struct lp_loop *loop, struct lp_watch *watch, uint32_t epoll_events);
void lp_watch_remove(struct lp_loop *loop, struct lp_watch *watch);

/*
 * A hook runs once in every round, after events and messages, before the loop sleeps. It returns
 * the longest time in nanoseconds the loop may sleep as far as it is concerned (UINT64_MAX: any; 0:
 * do not sleep).
 */
struct lp_hook {
        uint64_t (*before_sleep)(struct lp_hook *hook);
        struct lp_hook *next;
};
void lp_hook_add(struct lp_loop *loop, struct lp_hook *hook);

/* ---- file I/O -------------------------------------------------------------------------------- */

/*
 * One asynchronous operation on a file. Zero it, set done, and start it once; done() comes exactly
 * once, never from inside the starting call, with the byte count or a negative errno. The buffer
 * belongs to the kernel until then (I7): there is no cancel. Short reads and writes are given as
 * they are. When the ring is full the operation waits in a list of the loop; how many wait is
 * bounded by the slots and requests that exist (I9).
 */
struct lp_io {
        void (*done)(struct lp_io *io, int res);
        /* private */
        struct lp_io *next;
        void *buf;
        uint64_t offset;
        uint32_t len;
        int fd;
        int rw_flags;
        uint8_t op;
        uint64_t request; /* that it was started for (loop_trace.h) */
};

void lp_read(struct lp_loop *loop, struct lp_io *io, int fd, void *buf, uint32_t len, uint64_t offset);
/* rw_flags: 0 or RWF_DSYNC */
void lp_write(struct lp_loop *loop, struct lp_io *io, int fd, const void *buf, uint32_t len, uint64_t offset,
              int rw_flags);
void lp_fdatasync(struct lp_loop *loop, struct lp_io *io, int fd);

/* ---- the arena ------------------------------------------------------------------------------- */

/*
 * Slots of LP_SLOT_SIZE bytes: one frame header (4 KiB) and one unit of data (1 MiB), page-aligned,
 * registered with the io_uring once (lp_read/lp_write on memory inside a slot use the fixed-buffer
 * form by themselves). Who needs slots reserves them first: a reservation that was granted can
 * always be drawn, so an admitted request always finishes. A slot is used on the loop that owns it
 * and given back there.
 */
#define LP_SLOT_HEADER 4096u
#define LP_SLOT_UNIT (1u << 20)
#define LP_SLOT_SIZE (LP_SLOT_HEADER + LP_SLOT_UNIT)

/*
 * Shares of the arena: a class never takes more than its share, so that none starves the others.
 * LP_SHARE_PEER is for what other nodes read and write here: whoever holds a slot of it waits for a
 * local drive or for a socket that has a time limit, never for another node's answer, so that nodes
 * cannot wait for one another in a ring.
 */
enum lp_share { LP_SHARE_GET, LP_SHARE_PUT, LP_SHARE_INTERNAL, LP_SHARE_PEER, LP_SHARES };

struct lp_reserve {
        unsigned count;                           /* slots wanted; at most lp_share_slots() of the share */
        enum lp_share share;
        void (*granted)(struct lp_reserve *r);    /* later, when slots become free; never inside lp_reserve() */
        void (*expired)(struct lp_reserve *r);    /* it waited for LP_LINE_LONGEST_NS and has left the line. NULL: it waits on */
        uint64_t since;                           /* granted later: lp_now() when it began to wait */
        /* private */
        struct lp_reserve *next, *prev;
        bool waiting;
};
#define LP_LINE_LONGEST_NS  (50ull * 1000 * 1000 * 1000)
#define LP_LINE_STANDING_NS (1000ull * 1000 * 1000)

/*
 * 0: granted at once. -EAGAIN: waits in line, granted() will be called. -EBUSY: the line is full
 * (1,024 per share), nothing was queued. -EINVAL: count can never be granted. First come first
 * served; but when the first has waited for LP_LINE_STANDING_NS, more is asked for than there is:
 * from then on the last to come is served first, so that some are served well instead of all badly,
 * and those who can't be get to know it. Not so for LP_SHARE_INTERNAL and LP_SHARE_PEER: no client
 * gives up waiting there, and what was begun first is to end first.
 */
int lp_reserve(struct lp_loop *loop, struct lp_reserve *r);
/* Leaves the line; harmless when not waiting. */
void lp_reserve_cancel(struct lp_loop *loop, struct lp_reserve *r);
/*
 * Gives count reserved slots of a share back; the slots themselves must have been put back first.
 */
void lp_unreserve(struct lp_loop *loop, enum lp_share share, unsigned count);
/* Others wait in line for this share now. */
bool lp_reserve_contended(const struct lp_loop *loop, enum lp_share share);
/* Somebody has waited for LP_LINE_STANDING_NS. */
bool lp_reserve_standing(const struct lp_loop *loop, enum lp_share share);
unsigned lp_share_slots(const struct lp_loop *loop, enum lp_share share);
/* Of those, what nobody has reserved now. */
unsigned lp_share_free(const struct lp_loop *loop, enum lp_share share);
/*
 * Any thread. The memory that all slots lie in, for who registers it elsewhere too; it stays from
 * lp_loop_new() to lp_loop_free(). No slots: NULL and 0.
 */
void lp_arena_memory(const struct lp_loop *loop, void **base, size_t *len);

/*
 * Draws a slot from an earlier reservation (never NULL if the caller keeps to its reservation),
 * gives one back.
 */
void *lp_slot_get(struct lp_loop *loop);
void lp_slot_put(struct lp_loop *loop, void *slot);

/* ---- figures --------------------------------------------------------------------------------- */

struct lp_stats {
        uint64_t rounds, messages, io_submitted, io_completed, io_waiting;
        uint64_t slots, slots_used, reserved[LP_SHARES], reserve_waiting[LP_SHARES];
};
/* Any thread; each number is read atomically, the set is not a snapshot. */
void lp_stats_read(const struct lp_loop *loop, struct lp_stats *out);

#endif
