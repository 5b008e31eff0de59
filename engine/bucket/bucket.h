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
/* A name and value of the CONFIG PG as a bucket. -EBADMSG: they are none. */
int eng_bucket_decode(const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len, struct eng_bucket *out);
/* This loop's copy has it from now on. -ENOMEM. */
int eng_config_take(struct eng_loop *el, const struct eng_bucket *bucket);
/* The queue of changes, once. -ENOMEM. */
int eng_config_begin(struct eng_store *store);
void eng_config_free(struct eng_loop *el);
/* The store is being closed and the loops have stopped: what waits for a bucket is let go. */
void eng_config_stop(struct eng_loop *el);

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

#endif
