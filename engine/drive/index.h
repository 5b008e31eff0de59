/*
 * index.h - one drive's index: LMDB in DRIVE/index/. Derived from log/ and data/ (I4); what stands
 * in it is in format.h.
 *
 * Threads: a reader belongs to one thread at a time (the owner loop has its own; more may exist). A
 * write transaction is begun, used and ended on one thread (the drive's background thread), one at
 * a time. Readers and the writer do not wait for each other.
 *
 * Errors common to all functions:
 *   -EBADMSG  bytes that fail their checksum, or an LMDB structure that makes no sense. From get and next it concerns
 *             that one name (the cursor can go on); anywhere else, or if it comes again and again, the index is to be
 *             condemned and rebuilt
 *   -EIO      the drive fails to read or write (SIGBUS inside the map and a truncated file included)
 *   -ENOSPC   the file system is full: the transaction is lost, the index is as before it
 *   -EFBIG    the map is full: abort, end all readers, eng_index_grow(), repeat the transaction
 *   -E2BIG    the transaction has grown too large: abort, make it smaller
 *   -ENOMEM
 *   ENG_INDEX_ABSENT  a page that is needed is not in memory: only from a reader that was told to ask (eng_index_reader_ask)
 * What LMDB could not survive (SIGBUS, an assertion of its own, a wild pointer) is caught, and the index answers that
 * error from then on. After any error but -ENOENT and -EINVAL a write transaction can only be aborted.
 */
#ifndef MILLRACE_ENGINE_DRIVE_INDEX_H
#define MILLRACE_ENGINE_DRIVE_INDEX_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/format.h"

#define ENG_INDEX_ABSENT (-EINPROGRESS)

struct eng_index;
struct eng_index_txn; /* a reader or a write transaction; every reading function takes either */

#define ENG_INDEX_DATA_FILE   "data.mdb" /* LMDB's name for it, in the index's folder */
#define ENG_INDEX_MAP_DEFAULT (64ull << 30)
#define ENG_INDEX_VALUE_MAX   (4u << 20) /* bytes of one encoded value; put refuses more with -EINVAL */

struct eng_index_options {
        const char *path; /* the folder index/; exists */
        uint8_t drive_id[FMT_ID];
        uint64_t map_bytes; /* 0: ENG_INDEX_MAP_DEFAULT. Address space, not memory; raised to what the file needs */
};

/* ---- life (blocking; any thread, alone) ------------------------------------------------------ */

/*
 * Opens an index that is there. -ENOENT: none; -EBADMSG: damaged, shorter than it says, or
 * condemned; -ESTALE: of another drive or of another layout. In these three cases the caller
 * removes it, creates a new one and rebuilds. Else: the drive's own trouble.
 */
int eng_index_open(const struct eng_index_options *options, struct eng_index **out);
/* Makes an empty one (durable when this returns). -EEXIST: there is one. */
int eng_index_create(const struct eng_index_options *options, struct eng_index **out);
/*
 * Deletes what eng_index_create made, in whatever state; 0 also when nothing is there. The index is
 * not open.
 */
int eng_index_remove(const char *path);
/* All transactions have ended and readers are freed. NULL is allowed. */
void eng_index_close(struct eng_index *index);
/*
 * Leaves a durable mark: the next eng_index_open() answers -EBADMSG. Any thread; what is open stays
 * usable.
 */
int eng_index_condemn(struct eng_index *index);
/* A page of it could not be read (not: written). Any thread. */
bool eng_index_unreadable(const struct eng_index *index);
/*
 * Somebody else has found that a page of it cannot be read: every call answers -EIO from now on.
 * Any thread.
 */
void eng_index_lost(struct eng_index *index);
/* Of its file, for reading pages into memory. Any thread; closed with the index. */
int eng_index_fd(const struct eng_index *index);
/* Bytes of its file that are in use. Of the thread that writes. */
int eng_index_used(struct eng_index *index, uint64_t *bytes);
/*
 * Doubles the map. No transaction is open anywhere in the process (readers are ended, not
 * necessarily freed).
 */
int eng_index_grow(struct eng_index *index);

/* ---- transactions ---------------------------------------------------------------------------- */

/*
 * A reader is made once and begun and ended often: begin takes a snapshot, end lets go of it. A
 * snapshot held long makes the file grow: never hold one across rounds of a loop.
 */
int eng_index_reader_new(struct eng_index *index, struct eng_index_txn **out);
void eng_index_reader_free(struct eng_index_txn *txn); /* ends it if need be; NULL is allowed */
/*
 * From now on the reader touches no page of the map before ask() has answered 0 for it: `count`
 * pages from number `page` on, which stand at `at`. What else ask() answers, MDB_ABSENT
 * (ENG_INDEX_ABSENT here) or MDB_CORRUPTED, ends the call, begin included; the reader is to be
 * ended, and begun again later. Blocking, while it is not begun.
 */
int eng_index_reader_ask(struct eng_index_txn *txn, int (*ask)(void *arg, const void *at, size_t page, size_t count),
                         void *arg);
int eng_index_read_begin(struct eng_index_txn *txn);
void eng_index_read_end(struct eng_index_txn *txn); /* harmless when not begun */

/* Blocks while another write transaction is open. */
int eng_index_write_begin(struct eng_index *index, struct eng_index_txn **out);
/* Durable when it returns 0. Frees txn in every case. */
int eng_index_write_commit(struct eng_index_txn *txn);
void eng_index_write_abort(struct eng_index_txn *txn); /* NULL is allowed */

struct eng_index_info {
        uint64_t map_bytes, used_bytes; /* used: up to the last page, free pages inside included */
        uint64_t keys;                  /* names, and pieces of long ones */
};

int eng_index_info(struct eng_index_txn *txn, struct eng_index_info *out);

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * Memory of the transaction, not of the map: valid until the next call with the same txn. The value
 * is fmt_value, attrs, parts; its checksum over name and value was verified and its length is at
 * least sizeof(struct fmt_value); eng_value_check() is the caller's.
 */
struct eng_index_entry {
        const uint8_t *name;
        size_t name_len;
        const uint8_t *value;
        size_t value_len;
        uint32_t state; /* with eng_index_lazily(): fmt_value.state as the row says it, not checked */
};

/* -ENOENT. A name longer than FMT_NAME_MAX or empty: -EINVAL. Leaves the cursor where it is. */
int eng_index_get(struct eng_index_txn *txn, const void *name, size_t len, struct eng_index_entry *out);

/*
 * Each txn has one cursor over the names in bytewise order, long names in their places. seek: first
 * name >= the given (> if after). -ENOENT: there is none. len 0: the first of all. A change of
 * names in a write transaction leaves the cursor undefined until the next seek. On -EBADMSG out has
 * the name (no value) if it could be read (name_len > 0), and eng_index_next() goes on behind it.
 */
int eng_index_seek(struct eng_index_txn *txn, const void *name, size_t len, bool after, struct eng_index_entry *out);
int eng_index_next(struct eng_index_txn *txn, struct eng_index_entry *out);
/*
 * Read transactions: while it is so, seek and next give names without values (value NULL), and only
 * eng_index_value() copies and checks that of the name under way. Off when a transaction begins.
 */
void eng_index_lazily(struct eng_index_txn *txn, bool lazily);
/* The value of the entry that seek or next gave last. */
int eng_index_value(struct eng_index_txn *txn, struct eng_index_entry *entry);

/*
 * Write transactions. name := value (crc is computed here, the caller's is ignored). Sorted calls
 * are ~40x faster than random ones. The row of the log file that the value names, and that of the
 * value it replaces, are counted along (see fmt_index_log); a damaged old value is replaced without
 * a change to its counts, which then stay too high (space is lost until a rebuild, never data).
 */
int eng_index_put(struct eng_index_txn *txn, const void *name, size_t len, const void *value, size_t value_len);
int eng_index_delete(struct eng_index_txn *txn, const void *name, size_t len); /* -ENOENT */

/*
 * Called for each name that goes; the entry is valid during the call, which must not use txn. value
 * NULL: damaged.
 */
typedef void (*eng_index_gone)(void *arg, const struct eng_index_entry *entry);
/* Deletes every name that begins with prefix (len >= 1). gone may be NULL. */
int eng_index_delete_prefix(struct eng_index_txn *txn, const void *prefix, size_t len, eng_index_gone gone, void *arg);

/* ---- places of shards ------------------------------------------------------------------------ */

struct eng_location {
        uint64_t segment, offset; /* of the frame's header */
        uint32_t payload_len;
        uint32_t stripe;
        uint8_t shard;
        uint64_t key_hash; /* of the frame; 0: not known */
};
/* Bytes a frame takes in its segment. */
static inline uint64_t eng_location_bytes(const struct eng_location *location)
{
        return FMT_BLOCK + (uint64_t)location->payload_len;
}

/* -ENOENT. */
int eng_index_location_get(struct eng_index_txn *txn, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                        struct eng_location *out);
/*
 * The first object id greater than `after` that has places, and the key's hash of one of them (0:
 * not known). -ENOENT: there is none.
 */
int eng_index_location_next(struct eng_index_txn *txn, const uint8_t after[FMT_ID], uint8_t out[FMT_ID],
                         uint64_t *key_hash);
/*
 * Write transactions. Sets the place of (object id, place->stripe, place->shard). 0: new; 1: there
 * was one, copied to *old (old may be NULL) and replaced; the same place again changes nothing.
 * live_frames and live_bytes of the rows of the segments concerned follow; a row that is not there
 * yet is made.
 */
int eng_index_location_put(struct eng_index_txn *txn, const uint8_t object_id[FMT_ID], const struct eng_location *location,
                        struct eng_location *old);
typedef void (*eng_index_location_gone)(void *arg, const struct eng_location *location);
/*
 * Removes all places of an object id, telling each (gone may be NULL); 0 also when there are none.
 * Segment rows follow.
 */
int eng_index_location_discard(struct eng_index_txn *txn, const uint8_t object_id[FMT_ID], eng_index_location_gone gone,
                            void *arg);

/* ---- owners: which names have parts of an object id ------------------------------------------ */

/*
 * 1: a name has a part of this id, or it is not known of some name what it has; 0: none has. Only
 * to be believed while the owners are complete. -EAGAIN: there are none in this index.
 */
int eng_index_owned(struct eng_index_txn *txn, const uint8_t id[FMT_ID]);
/* Names whose parts cannot be decoded. While there is one every id is owned. */
int eng_index_unknown_owners(struct eng_index_txn *txn, uint64_t *count);
/* 1 or 0. Those of an index of layout 1 are not until eng_index_owners_make() has said so. */
int eng_index_owners_complete(struct eng_index_txn *txn);
/*
 * Write transaction: makes those of the next so many names. 1: they are complete, or cannot be made
 * before the next opening; 0: call again.
 */
int eng_index_owners_make(struct eng_index_txn *txn, unsigned names);

/* ---- rows: segments, log files, placement groups --------------------------------------------- */

/*
 * Each returns nonzero to stop, which the walk returns. It must not use txn. Rows come in ascending
 * order.
 */
typedef int (*eng_index_segment_fn)(void *arg, const struct fmt_index_segment *row);
typedef int (*eng_index_log_fn)(void *arg, const struct fmt_index_log *row);
typedef int (*eng_index_pg_fn)(void *arg, const struct fmt_index_pg *row);
int eng_index_each_segment(struct eng_index_txn *txn, eng_index_segment_fn each, void *arg);
int eng_index_each_log(struct eng_index_txn *txn, eng_index_log_fn each, void *arg);
int eng_index_each_pg(struct eng_index_txn *txn, eng_index_pg_fn each, void *arg);
/* Write transaction: only the rows whose live counts it has changed. */
int eng_index_each_changed_log(struct eng_index_txn *txn, eng_index_log_fn each, void *arg);

/*
 * Write transactions. put of a segment or log row keeps the counts that follow places and names
 * (live_*) as they are in the index: those of the given row are ignored. delete: 0 also when there
 * is none. crc fields are filled here.
 */
int eng_index_segment_put(struct eng_index_txn *txn, const struct fmt_index_segment *row);
int eng_index_segment_delete(struct eng_index_txn *txn, uint64_t segment);
int eng_index_log_put(struct eng_index_txn *txn, const struct fmt_index_log *row);
int eng_index_log_delete(struct eng_index_txn *txn, uint64_t file);
int eng_index_pg_put(struct eng_index_txn *txn, const struct fmt_index_pg *row);

/* ---- meta ------------------------------------------------------------------------------------ */

/* The kinds of format.h that callers put and get; the others are the index's own. */
enum eng_index_meta {
        ENG_INDEX_COVERED = FMT_INDEX_META_COVERED, /* log position up to which this index holds everything */
        ENG_INDEX_EPOCH = FMT_INDEX_META_EPOCH,
        ENG_INDEX_HISTORY = FMT_INDEX_META_HISTORY,
        ENG_INDEX_DAMAGE = FMT_INDEX_META_DAMAGE, /* damage.c */
        ENG_INDEX_OWNERS = FMT_INDEX_META_OWNERS, /* index_owners.c's own, as the next */
        ENG_INDEX_UNKNOWN_OWNERS = FMT_INDEX_META_UNKNOWN_OWNERS,
        ENG_INDEX_SCRUB = FMT_INDEX_META_SCRUB, /* rot.c */
        ENG_INDEX_REACH = FMT_INDEX_META_REACH, /* the end of the log when it took from it last */
        ENG_INDEX_TERM = FMT_INDEX_META_TERM, /* term.c */
        ENG_INDEX_META_KINDS
};
#define ENG_INDEX_META_MAX (64u << 10)
/*
 * Copies at most cap bytes into out; *len is the whole length. -ENOENT: never put; -ENOBUFS: cap is
 * too small (*len is set).
 */
int eng_index_meta_get(struct eng_index_txn *txn, enum eng_index_meta kind, void *out, size_t cap, size_t *len);
/* ENG_INDEX_COVERED. -ENOENT: the index is new; -EBADMSG: the row is too short. */
int eng_index_covered(struct eng_index_txn *txn, struct fmt_index_covered *out);
/*
 * ENG_INDEX_REACH, likewise. -ENOENT: the index is new, or of a build that did not write the row.
 */
int eng_index_reach(struct eng_index_txn *txn, struct fmt_index_covered *out);
/* -EINVAL: longer than ENG_INDEX_META_MAX. */
int eng_index_meta_put(struct eng_index_txn *txn, enum eng_index_meta kind, const void *bytes, size_t len);

#endif
