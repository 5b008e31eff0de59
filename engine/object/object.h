/*
 * object.h - what puts, gets and listings give to other modules of the engine (the public interface
 * is include/engine.h). The loop of the request.
 */
#ifndef MILLRACE_ENGINE_OBJECT_H
#define MILLRACE_ENGINE_OBJECT_H

#include "engine/object/version.h"
#include "engine/txn/txn.h"

/* ---- writing ---- */

/* The record of an upload (objects.c). */
struct eng_txn_put {
        struct eng_txn txn;
        struct eng_condition condition;
        bool is_part;
        uint8_t upload_id[FMT_ID];
        unsigned part_number;
        uint64_t epoch;                /* in which its upload began; of a home's PUT: not known */
        unsigned proof_count;          /* of a home's PUT: what took its shards */
        const uint8_t *proofs;         /* struct eng_call_proof, not aligned; NULL: it is no home's */
        bool now;                      /* its mtime is to be that of the record */
        struct eng_key_look look;      /* owner: the primary loop */
        struct eng_buf *value;         /* owned; when the txn is done, the one that was recorded, under txn.name */
        struct eng_buf *bytes;         /* inline bytes or NULL; owned */
        void *arg;
        void (*home_done)(struct eng_txn_put *put, const struct eng_object *stored); /* home_calls.c's own */
};
struct eng_txn_put *eng_txn_put_new(struct eng_store *store, uint64_t bucket, const void *key, size_t key_len);
void eng_txn_put_free(struct eng_txn_put *put);

/*
 * put.c: the oldest upload under way on this loop: its object id, and the epoch in which it began.
 * False: there is none.
 */
bool eng_put_oldest(const struct eng_loop *el, uint8_t id[FMT_ID], uint64_t *epoch);
/* On this loop: its view is another. Shards that a drive refused, since it had a newer epoch, are written anew. */
void eng_puts_view_changed(struct eng_loop *el);
/*
 * get.c: calls each() for each part of each open object of this loop. False: one of the first upto
 * objects that were opened is still being looked up, and what it will be is not known.
 */
bool eng_get_each_part(const struct eng_loop *el, uint64_t upto, void (*each)(void *arg, const struct eng_part *part), void *arg);


/* ---- reading ---- */

/* get.c: of the loop, which does not run any more. */
void eng_get_free_spares(struct eng_loop *el);
/* Opens the row of this name, whatever its key's newest version is. */
void eng_get_open_name(struct eng_store *store, const struct eng_name *name, eng_get_opened opened, void *arg);
/* Encoded value of an open object; lives as long as get. */
struct eng_buf *eng_get_value(const struct eng_get *get);
/*
 * After eng_get_next() has failed: whether that was a stripe beyond repair, one of which more than
 * m shards are gone: they are damaged or not there on drives that are in, or no drive is named for
 * them that the store still has. offset: where the stripe begins in the object.
 */
bool eng_get_lost(const struct eng_get *get, uint64_t *offset);
/*
 * As eng_get_start(), also behind a range that has failed. -EAGAIN: not yet, something of the last
 * range is under way; it is woken.
 */
int eng_get_restart(struct eng_get *get, uint64_t offset, uint64_t len, void (*wake)(void *arg), void *arg);

/* ---- listing (list.c) ------------------------------------------------------------------------ */

/*
 * The smallest set of drives that covers all PGs in this loop's view, without those to be avoided;
 * 0 or -EHOSTDOWN.
 */
int eng_cover(struct eng_loop *el, eng_mask avoid);

/*
 * A merged scan over the cover: entries come in order, as pointers into answers that live until the
 * scan is freed.
 */
/* Bytewise order of the names of two entries. */
int eng_scan_compare(const struct eng_scan_entry *a, const struct eng_scan_entry *b);
struct eng_merge;
struct eng_merge_params {
        const struct eng_name *from, *to; /* copied */
        bool after;
        unsigned prefix_len;           /* see eng_op.scan */
        const void *delimiter;         /* copied */
        size_t delimiter_len;
        unsigned flags;                /* of the SCANs: what is given of values, and whether markers are */
        unsigned max;                  /* answers more = true if there are further ones */
};
typedef void (*eng_merge_done)(void *arg, int rv, const struct eng_scan_entry *const *entries, unsigned count, bool more);
/* done comes once, on this loop, never from inside. */
void eng_merge_start(struct eng_loop *el, const struct eng_merge_params *params, eng_merge_done done, void *arg);
/* merge_home.c: the same in a home store. */
void eng_home_merge(struct eng_loop *el, const struct eng_merge_params *params, eng_merge_done done, void *arg);
/*
 * The loops have stopped, and no timer runs any more: merges that wait to be tried again fail, and
 * no others do.
 */
void eng_merges_stop(struct eng_loop *el);

#endif
