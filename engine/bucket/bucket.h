/*
 * bucket.h - buckets: the configuration that all drives hold and every loop has a copy of.
 */
#ifndef MILLRACE_ENGINE_BUCKET_H
#define MILLRACE_ENGINE_BUCKET_H

#include "engine/txn/txn.h"

/* ---- configuration (bucket.c) ---------------------------------------------------------------- */

/*
 * Coordinator, in recovery (config_load.c): reads the buckets from members of the CONFIG PG and
 * gives them to all loops. What the members say differently is settled. -EIO: no member could be
 * read; -ENOMEM. The coordinator begins anew after an error.
 */
void eng_config_load(struct eng_store *store, void (*done)(struct eng_store *store, int rv));
/* The store is open: what members lacked then is repaired there. */
void eng_config_repair(struct eng_store *store);
void eng_config_load_free(struct eng_store *store);
/* Texts of buckets (text_load.c), for config_load.c. */
struct eng_texts_loading *eng_texts_new(struct eng_store *store, void (*done)(void *arg, int rv), void *arg); /* NULL: no memory */
/* Reads them from members; done() with 0, -EIO (nobody could be read) or -ENOMEM, maybe from inside. */
void eng_texts_load(struct eng_texts_loading *load);
void eng_texts_load_free(struct eng_texts_loading *load);
/* Coordinator, before loops are given them. -ENOMEM. */
int eng_texts_settle(struct eng_texts_loading *load);
/* This loop's buckets have them from now on. -ENOMEM. */
int eng_texts_give(struct eng_loop *el, const struct eng_texts_loading *load);
/* Members have some differently. */
bool eng_texts_differ(const struct eng_texts_loading *load);
/* The next such text is made the same: 0, and done() tells; -ENOENT: there is none; -ENOMEM. */
int eng_texts_repair(struct eng_texts_loading *load, eng_done done, void *arg);
void eng_texts_repaired(struct eng_texts_loading *load);
/* This loop's copy has it from now on. -ENOMEM. */
int eng_config_take(struct eng_loop *el, const struct eng_bucket *bucket);
/* It has none of this id any more. */
void eng_config_drop(struct eng_loop *el, uint64_t id);
/* The queue of changes (bucket_queue.c), once. -ENOMEM. */
int eng_config_begin(struct eng_store *store);
void eng_config_free(struct eng_loop *el);
/* The store is being closed and the loops have stopped: what waits for a bucket is let go. */
void eng_config_stop(struct eng_loop *el);
/* Likewise, once: deletions that wait for a timer are answered. */
void eng_deletions_stop(struct eng_store *store);

/* Entries of the store (entries.c): before the store is started, false: no memory; after the loops have stopped. */
bool eng_entries_make(struct eng_store *store);
void eng_entries_free(struct eng_store *store);

/* The rules of a bucket (bucket_rules.c). */
/*
 * Whether S3 allows a bucket of the rules `now` to get those wanted, which a lock completes by
 * versioning. -EPERM, -EINVAL.
 */
int eng_rules_complete(const struct eng_bucket_rules *now, struct eng_bucket_rules *wanted);
/* prepare() of a txn with the lock of its name: the record that puts a bucket's row, or the txn's end. */
void eng_bucket_put_row(struct eng_txn *txn, const struct eng_bucket *bucket);
/*
 * Coordinator: members have a bucket's row differently: it is written to all of them, as the loops
 * have it. -ENOMEM; else done() tells. A bucket that is gone: 0.
 */
int eng_bucket_rewrite(struct eng_store *store, uint64_t bucket, eng_done done, void *arg);

/* ---- features of the store (features.c) ------------------------------------------------------ */

/*
 * Coordinator, while the store serves: every drive that has a slot and has not failed gets these bits
 * in its FORMAT, durably, and every drive that comes later before it gets its slot. done() may come
 * from inside. An error: some drive could not, or -ETIMEDOUT; nothing that needs them may be written.
 */
void eng_features_set(struct eng_store *store, uint64_t bits, void (*done)(void *arg, int rv), void *arg);

/* ---- the mark of the lock clock (lock_mark.c) ------------------------------------------------ */

/* Coordinator, in recovery: reads it from the members, and begins the clock. loaded() may come from inside. */
void eng_lock_load(struct eng_store *store, eng_done loaded, void *arg);
/* The store is open: it is written from time to time. */
void eng_lock_start(struct eng_store *store);
/* The head of the queue of changes: writes it; sees to it that it has been written. */
void eng_lock_mark(struct eng_store *store, void (*done)(void *arg, int rv), void *arg);
void eng_lock_require(struct eng_store *store, void (*done)(void *arg, int rv), void *arg);
void eng_lock_free(struct eng_store *store);

/* ---- what a deleted bucket leaves (bucket_drop.c) -------------------------------------------- */

/*
 * Before the store is started: what a round needs is there, however little memory is left later.
 * False: no memory.
 */
bool eng_drop_make(struct eng_store *store);
/*
 * Coordinator: begins to drop what deleted buckets have left, if there is something and it is not
 * under way. Harmless at any time.
 */
void eng_drop_consider(struct eng_store *store);
bool eng_drop_running(const struct eng_store *store);
void eng_drop_free(struct eng_store *store);

/*
 * Is a row there that some members have named, and others, which were read to the end, have not? Unless
 * most say otherwise. A member that could be read in part speaks for the rows that were read, and says of
 * no other that it is not there.
 */
static inline bool eng_row_is_there(eng_mask named, eng_mask answered)
{
        return __builtin_popcountll(named) >= __builtin_popcountll(answered & ~named);
}

#endif
