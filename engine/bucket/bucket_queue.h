/*
 * bucket_queue.h - the coordinator's queue of changes of buckets (private to the module).
 */
#ifndef MILLRACE_ENGINE_BUCKET_QUEUE_H
#define MILLRACE_ENGINE_BUCKET_QUEUE_H

#include "engine/bucket/config_feed.h"
#include "engine/txn/txn.h"

/*
 * One change. The head of the queue is being done; it ends by eng_change_finish(). owner: home until
 * sent, then the coordinator until answered
 */
struct eng_change {
        struct lp_msg msg;             /* first */
        STAILQ_ENTRY(eng_change) link;
        struct eng_store *store;
        struct eng_loop *home;
        void (*look)(struct eng_change *change);  /* before it waits for its turn, which eng_change_line_up() makes it do; NULL: nothing */
        void (*begin)(struct eng_change *change); /* it is its turn, and the store takes changes */
        void (*drop)(struct eng_change *change);  /* home: frees it, after the answer */
        struct eng_txn txn;
        struct eng_row_key touched;    /* the row that it changed, once all loops have it; what 0: none */
        struct eng_feed_wait wait;
        int result;
        eng_done done;
        void *arg;
};
STAILQ_HEAD(eng_change_list, eng_change);

/* The mark of the lock clock (lock_mark.c). owner: coordinator; op: the drive while out */
struct eng_lock_mark {
        struct eng_store *store;       /* NULL: not loaded yet */
        struct lp_timer timer;
        bool kept;                     /* a drive had it at the start, or it was written since */
        bool found, unread;            /* at the start: by some member; some could not be read */
        uint64_t seq;
        struct fmt_lock_clock found_last; /* of the highest seq */
        struct eng_op op;              /* LOOKUP */
        struct eng_name name;
        eng_mask asked;
        eng_done loaded;
        void *arg;
        struct eng_txn txn;            /* under way while busy */
        bool busy, waiting;            /* waiting: to be written again */
        struct eng_lock_point point;   /* what it writes */
        int64_t confirmed_ms;          /* what is to be written instead of the time; 0: nothing */
        void (*done)(void *arg, int rv);
        void *done_arg;
};

/* owner: coordinator */
struct eng_config {
        struct eng_change_list queue;
        unsigned count;                /* of changes, those that look first included */
        uint64_t text_bytes;           /* of all texts of buckets */
        struct eng_lock_mark mark;
        LIST_HEAD(, eng_bucket_look) resting; /* looks that wait for their next round */
        struct lp_timer *draining;     /* of a deletion that waits for changes of its bucket */
};
static inline struct eng_config *eng_config_of(struct eng_store *store)
{
        return store->coord->config;
}

/* Home loop: to the coordinator. The rest of change is set. */
void eng_change_send(struct eng_change *change, struct eng_store *store, eng_done done, void *arg);
/* Coordinator, instead of eng_change_send(): one of the store's own. */
void eng_change_own(struct eng_change *change, struct eng_store *store, eng_done done, void *arg);
/* look() has found that it may be done. */
void eng_change_line_up(struct eng_change *change);
/* look() has found that it may not. */
void eng_change_refuse(struct eng_change *change, int rv);
/* Answers the head, and begins the next. */
void eng_change_finish(struct eng_change *change, int rv);
/*
 * The same of one whose record counts: what the store has in memory goes by it, and the client is told what the transaction
 * came to, which is an error where one drive alone has the record.
 */
static inline void eng_change_recorded(struct eng_change *change)
{
        eng_change_finish(change, change->txn.result);
}
/* A change of the CONFIG group, with the lock of this key. */
void eng_change_submit(struct eng_change *change, const void *key, size_t key_len, void (*prepare)(struct eng_txn *txn),
                       void (*done)(struct eng_txn *txn));
static inline struct eng_change *eng_change_of(struct eng_txn *txn)
{
        return container_of(txn, struct eng_change, txn);
}

#endif
