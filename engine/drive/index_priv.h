/*
 * index_priv.h - what the files of the index share. Nothing else includes it.
 */
#ifndef MILLRACE_ENGINE_DRIVE_INDEX_PRIV_H
#define MILLRACE_ENGINE_DRIVE_INDEX_PRIV_H

#include <assert.h>
#include <bsd/sys/tree.h>
#include <endian.h>
#include <errno.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/drive/index.h"
#include "engine/drive/index_guard.h"

#define INDEX_DBS(X)                                                                                                   \
        X(NAMES, "names")                                                                                              \
        X(TAILS, "tails") X(PLACES, "places") X(SEGMENTS, "segments") X(LOGS, "logs") X(PGS, "pgs") X(META, "meta")    \
        X(OWNERS, "owners") /* the last: an index of layout 1 has none */
enum index_db {
#define INDEX_DB_ENUM(id, name) INDEX_##id,
        INDEX_DBS(INDEX_DB_ENUM)
#undef INDEX_DB_ENUM
                INDEX_DB_COUNT
};

#define INDEX_META_IDENTITY FMT_INDEX_META_IDENTITY
#define INDEX_ROW_MAX       64u /* bytes of a segment, log or pg row; of a place and its key */
#define INDEX_KEY_MAX       FMT_INDEX_PIECE_FIRST

/* Immutable after opening, but for broken and the map's size. Any thread. */
struct eng_index {
        MDB_env *env;
        MDB_dbi dbi[INDEX_DB_COUNT];
        bool no_owners;   /* an index of layout 1 on a full file system: there was no room to add that database */
        MDB_txn *opening; /* while opening and making; here, so that a caught fault does not lose it */
        int dir_fd, read_fd; /* read_fd: data.mdb, for reading pages that are not in memory */
        uint8_t drive_id[FMT_ID];
        pthread_mutex_t
                writing; /* held while a write transaction is open; LMDB's own is let go before we look at the file */
        _Atomic int broken; /* what a guard caught; every call answers it from then on */
};

/* What the transaction adds to a row of segments or logs; owner: the write transaction's thread. */
struct index_count {
        enum index_db db; /* INDEX_SEGMENTS or INDEX_LOGS */
        uint64_t id;
        int64_t items, bytes;
        RB_ENTRY(index_count) by_row;
};
RB_HEAD(index_counts, index_count);

/* One level of the cursor: level 0 walks names, the others tails below one piece. */
struct index_level {
        MDB_cursor *cursor;
        bool renewed; /* usable in the present snapshot */
        uint64_t piece;
        size_t key_len; /* bytes of the name this level stands on */
};

/* owner: the thread that uses the transaction. */
struct eng_index_txn {
        struct eng_index *index;
        MDB_txn *mdb;
        bool write;
        bool begun;
        int failed; /* write: the first error of a change; commit refuses with it */

        struct index_level level[FMT_INDEX_LEVELS];
        unsigned depth; /* level the cursor stands on */
        bool placed;
        int cursor_end; /* what next answers while not placed */
        uint8_t name[FMT_INDEX_PIECE_FIRST + (FMT_INDEX_LEVELS - 1) * FMT_INDEX_PIECE_NEXT];
        uint8_t *value; /* copy of the value last answered */
        size_t value_cap;
        bool lazily;    /* eng_index_lazily() */
        MDB_val unread; /* then: the value under way, in the map */

        MDB_cursor *walk;    /* of one step over places or rows; here, so that a caught fault does not lose it */
        MDB_cursor *edit[2]; /* write: on names, on tails; sorted changes stay on one page */
        uint64_t next_piece; /* write: 0: not read yet */
        struct index_counts counts; /* of all rows that it changed; those with nothing left to add are saved */
        bool counts_open;           /* some have something to add */
};

/* index.c */
int index_error(int mdb_rv); /* LMDB's or errno's number as our negative errno */
uint32_t index_crc(const void *key, size_t key_len, const void *value,
                   size_t len); /* of key, then of value behind its first 4 bytes */
int index_sync_folder(int dir_fd);
int index_cursor_open(struct eng_index_txn *txn, enum index_db db, MDB_cursor **out);

/* ---- names (index_names.c, index_change.c) ---- */

struct index_key {
        uint8_t bytes[INDEX_KEY_MAX];
        size_t len;
};

static inline size_t index_piece_len(unsigned level)
{
        return level == 0 ? FMT_INDEX_PIECE_FIRST : FMT_INDEX_PIECE_NEXT;
}

/* Where a level's bytes begin in the name; where they begin in its key. */
static inline size_t index_level_base(unsigned level)
{
        return level == 0 ? 0 : FMT_INDEX_PIECE_FIRST + (level - 1) * FMT_INDEX_PIECE_NEXT;
}

static inline size_t index_level_head(unsigned level)
{
        return level == 0 ? 0 : sizeof(uint64_t);
}

/* Level on which a name of this length ends: full pieces lead on. */
static inline unsigned index_name_level(size_t len)
{
        return len < FMT_INDEX_PIECE_FIRST ? 0 : 1 + (unsigned)((len - FMT_INDEX_PIECE_FIRST) / FMT_INDEX_PIECE_NEXT);
}

static inline int index_name_check(const void *name, size_t len)
{
        return name != NULL && len > 0 && len <= FMT_NAME_MAX ? 0 : -EINVAL;
}

static inline void index_key_make(struct index_key *key, unsigned level, uint64_t piece, const uint8_t *bytes,
                                  size_t len)
{
        uint64_t be = htobe64(piece);
        size_t head = index_level_head(level);

        assert(head + len <= sizeof(key->bytes));
        memcpy(key->bytes, &be, head);
        if (len > 0)
                memcpy(key->bytes + head, bytes, len);
        key->len = head + len;
}

int index_edit_open(struct eng_index_txn *txn);
int index_level_get(struct eng_index_txn *txn, unsigned level, const struct index_key *key, MDB_val *data);
int index_name_walk(struct eng_index_txn *txn, const uint8_t *name, size_t len, uint64_t pieces[], unsigned *level,
                    struct index_key *key);
int index_names_seek(struct eng_index_txn *txn, const uint8_t *name, size_t len, bool after,
                     struct eng_index_entry *out);
int index_piece_read(const MDB_val *key, const MDB_val *data, uint64_t *id);
int index_value_check(const uint8_t *name, size_t name_len, const MDB_val *data, struct fmt_value *head);
void index_cursor_forget(struct eng_index_txn *txn); /* the snapshot goes: cursors are not usable until renewed */
void index_cursor_close(struct eng_index_txn *txn);
void index_walk_close(struct eng_index_txn *txn);
int index_pieces_save(struct eng_index_txn *txn); /* before commit */

/* index_rows.c */
int index_count(struct eng_index_txn *txn, enum index_db db, uint64_t id, int64_t items, int64_t bytes);
int index_counts_save(struct eng_index_txn *txn); /* before commit and before rows are read */
void index_counts_drop(struct eng_index_txn *txn);
int index_meta_read(struct eng_index_txn *txn, unsigned kind, void *out, size_t cap, size_t *len);
int index_meta_write(struct eng_index_txn *txn, unsigned kind, const void *bytes, size_t len);

/* index_owners.c. old: what the name had (LMDB's memory), or NULL; value: what it gets, or NULL. */
int index_owners_change(struct eng_index_txn *txn, const uint8_t *name, size_t name_len, const MDB_val *old,
                        const uint8_t *value, size_t value_len);
int index_owners_begin(struct eng_index_txn *txn); /* of a new index: there is nothing to be made */

/* Notes the first error of a change, so that commit refuses; passes it on. */
static inline int index_changed(struct eng_index_txn *txn, int rv)
{
        if (rv < 0 && rv != -ENOENT && rv != -EINVAL && txn->failed == 0)
                txn->failed = rv;
        return rv;
}

#endif
