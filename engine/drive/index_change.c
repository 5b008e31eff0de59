/*
 * index_change.c - changes of names in a write transaction of the index: put, delete, delete under
 * a prefix.
 *
 * Called by the drive's background thread with sorted batches. Makes pieces of long names as they
 * are needed, removes them with the last name under them, and counts along what the rows of the log
 * files say (index_rows.c): a log file may be freed by what its row says (I6), so the row changes
 * in the same transaction as the names it counts.
 */
#include <stdlib.h>

#include "engine/drive/index_priv.h"

/* ---- pieces ---------------------------------------------------------------------------------- */

static int pieces_load(struct eng_index_txn *txn, struct fmt_index_identity *identity)
{
        size_t len;
        int rv;

        rv = index_meta_read(txn, INDEX_META_IDENTITY, identity, sizeof(*identity), &len);
        if (rv == -ENOENT || rv == -ENOBUFS || (rv == 0 && (len != sizeof(*identity) || identity->next_piece == 0)))
                return -EBADMSG;
        return rv;
}

int index_pieces_save(struct eng_index_txn *txn)
{
        struct fmt_index_identity identity;
        int rv;

        if (txn->next_piece == 0)
                return 0;
        rv = pieces_load(txn, &identity);
        if (rv != 0)
                return rv;
        identity.next_piece = txn->next_piece;
        return index_meta_write(txn, INDEX_META_IDENTITY, &identity, sizeof(identity));
}

static int piece_make(struct eng_index_txn *txn, unsigned level, const struct index_key *key, uint64_t *id)
{
        struct fmt_index_piece piece = {0};
        struct fmt_index_identity identity;
        MDB_val mkey = {.mv_size = key->len, .mv_data = (void *)key->bytes};
        MDB_val data = {.mv_size = sizeof(piece), .mv_data = &piece};
        int rv;

        if (txn->next_piece == 0) {
                rv = pieces_load(txn, &identity);
                if (rv != 0)
                        return rv;
                txn->next_piece = identity.next_piece;
        }
        assert(txn->next_piece != 0); /* 0 means no piece */
        piece.id = txn->next_piece++;
        piece.crc = index_crc(key->bytes, key->len, &piece, sizeof(piece));
        *id = piece.id;
        return index_error(mdb_cursor_put(txn->edit[level > 0], &mkey, &data, 0));
}

/* As index_name_walk, making what is missing. */
static int pieces_ensure(struct eng_index_txn *txn, const uint8_t *name, size_t len, unsigned *level,
                         struct index_key *key)
{
        uint64_t pieces[FMT_INDEX_LEVELS];
        unsigned last = index_name_level(len);
        int rv;

        rv = index_name_walk(txn, name, len, pieces, level, key);
        if (rv != -ENOENT)
                return rv;
        for (unsigned i = *level; i < last; i++) {
                index_key_make(key, i, pieces[i], name + index_level_base(i), index_piece_len(i));
                rv = piece_make(txn, i, key, &pieces[i + 1]);
                if (rv != 0)
                        return rv;
        }
        *level = last;
        index_key_make(key, last, pieces[last], name + index_level_base(last), len - index_level_base(last));
        return 0;
}

/* 1: nothing stands under the piece. */
static int piece_empty(struct eng_index_txn *txn, uint64_t piece)
{
        struct index_key key;
        MDB_val mkey, data;
        int rv;

        index_key_make(&key, 1, piece, NULL, 0);
        mkey.mv_data = key.bytes;
        mkey.mv_size = key.len;
        rv = index_error(mdb_cursor_get(txn->edit[1], &mkey, &data, MDB_SET_RANGE));
        if (rv == -ENOENT)
                return 1;
        if (rv != 0)
                return rv;
        return mkey.mv_size < key.len || memcmp(mkey.mv_data, key.bytes, key.len) != 0;
}

/* After a name's end was deleted: removes the pieces that led to nothing else. */
static int pieces_drop(struct eng_index_txn *txn, const uint8_t *name, const uint64_t pieces[], unsigned level)
{
        struct index_key key;
        MDB_val data;
        int rv;

        for (; level > 0; level--) {
                rv = piece_empty(txn, pieces[level]);
                if (rv <= 0)
                        return rv;
                index_key_make(&key, level - 1, pieces[level - 1], name + index_level_base(level - 1),
                               index_piece_len(level - 1));
                rv = index_level_get(txn, level - 1, &key, &data);
                if (rv == 0)
                        rv = index_error(mdb_cursor_del(txn->edit[level - 1 > 0], 0));
                if (rv != 0)
                        return rv;
        }
        return 0;
}

/* ---- put and delete -------------------------------------------------------------------------- */

static int count_name(struct eng_index_txn *txn, const struct fmt_value *head, size_t name_len, size_t value_len,
                      int sign)
{
        int64_t bytes = (int64_t)(name_len + value_len + head->inline_len);

        return index_count(txn, INDEX_LOGS, head->log_file, sign, sign * bytes);
}

/* The name is about to go. Damaged: its counts and owners cannot be known and stay. */
static int count_gone(struct eng_index_txn *txn, const uint8_t *name, size_t len, const MDB_val *data)
{
        struct fmt_value head;
        int rv;

        if (index_value_check(name, len, data, &head) != 0)
                return 0;
        rv = count_name(txn, &head, len, data->mv_size, -1);
        return rv != 0 ? rv : index_owners_change(txn, name, len, data, NULL, 0);
}

static int names_put(struct eng_index_txn *txn, const uint8_t *name, size_t len, const uint8_t *value, size_t value_len)
{
        struct index_key key;
        struct fmt_value head;
        MDB_val mkey, data;
        unsigned level;
        uint32_t crc;
        bool had;
        int rv;

        rv = index_name_check(name, len);
        if (rv != 0 || value_len < sizeof(head) || value_len > ENG_INDEX_VALUE_MAX)
                return -EINVAL;
        rv = index_edit_open(txn);
        if (rv == 0)
                rv = pieces_ensure(txn, name, len, &level, &key);
        if (rv != 0)
                return rv == -ENOENT ? -EBADMSG : rv;
        rv = index_level_get(txn, level, &key, &data);
        if (rv != 0 && rv != -ENOENT)
                return rv;
        had = rv == 0 && index_value_check(name, len, &data, &head) == 0;
        rv = had ? count_name(txn, &head, len, data.mv_size, -1) : 0; /* damaged: its counts and owners cannot be known, and stay */
        if (rv == 0)
                rv = index_owners_change(txn, name, len, had ? &data : NULL, value, value_len);
        if (rv != 0)
                return rv;
        memcpy(&head, value, sizeof(head));
        rv = count_name(txn, &head, len, value_len, 1);
        if (rv != 0)
                return rv;
        mkey.mv_data = key.bytes;
        mkey.mv_size = key.len;
        data.mv_size = value_len;
        rv = index_error(mdb_cursor_put(txn->edit[level > 0], &mkey, &data, MDB_RESERVE));
        if (rv != 0)
                return rv;
        crc = index_crc(name, len, value, value_len);
        memcpy(data.mv_data, &crc, sizeof(crc));
        memcpy((uint8_t *)data.mv_data + sizeof(crc), value + sizeof(crc), value_len - sizeof(crc));
        return 0;
}

static int names_delete(struct eng_index_txn *txn, const uint8_t *name, size_t len)
{
        uint64_t pieces[FMT_INDEX_LEVELS];
        struct index_key key;
        unsigned level;
        MDB_val data;
        int rv;

        rv = index_name_check(name, len);
        if (rv == 0)
                rv = index_edit_open(txn);
        if (rv == 0)
                rv = index_name_walk(txn, name, len, pieces, &level, &key);
        if (rv == 0)
                rv = index_level_get(txn, level, &key, &data);
        if (rv == 0)
                rv = count_gone(txn, name, len, &data);
        if (rv == 0)
                rv = index_error(mdb_cursor_del(txn->edit[level > 0], 0));
        if (rv != 0)
                return rv;
        rv = pieces_drop(txn, name, pieces, level);
        return rv == -ENOENT ? -EBADMSG : rv;
}

static int put_guarded(struct eng_index_txn *txn, const void *name, size_t len, const void *value, size_t value_len)
{
        ENG_GUARDED(&txn->index->broken, names_put(txn, name, len, value, value_len));
}

static int delete_guarded(struct eng_index_txn *txn, const void *name, size_t len)
{
        ENG_GUARDED(&txn->index->broken, names_delete(txn, name, len));
}

int eng_index_put(struct eng_index_txn *txn, const void *name, size_t len, const void *value, size_t value_len)
{
        assert(txn->write);
        return index_changed(txn, put_guarded(txn, name, len, value, value_len));
}

int eng_index_delete(struct eng_index_txn *txn, const void *name, size_t len)
{
        assert(txn->write);
        return index_changed(txn, delete_guarded(txn, name, len));
}

/* ---- everything under a prefix --------------------------------------------------------------- */

/*
 * Deletes the first name under prefix and gives it in *out, which stays valid: the copies are the
 * transaction's.
 */
static int prefix_step(struct eng_index_txn *txn, const uint8_t *prefix, size_t len, struct eng_index_entry *out)
{
        int rv = index_names_seek(txn, prefix, len, false, out);

        if (rv == -EBADMSG && out->name_len > 0)
                rv = 0; /* damaged, but its name is known: it goes like the others */
        if (rv != 0)
                return rv;
        if (out->name_len < len || memcmp(out->name, prefix, len) != 0)
                return -ENOENT;
        rv = names_delete(txn, out->name, out->name_len);
        return rv == -ENOENT ? -EBADMSG : rv;
}

static int prefix_step_guarded(struct eng_index_txn *txn, const uint8_t *prefix, size_t len,
                               struct eng_index_entry *out)
{
        ENG_GUARDED(&txn->index->broken, prefix_step(txn, prefix, len, out));
}

int eng_index_delete_prefix(struct eng_index_txn *txn, const void *prefix, size_t len, eng_index_gone gone, void *arg)
{
        struct eng_index_entry entry;
        int rv = index_name_check(prefix, len);

        assert(txn->write);
        while (rv == 0) {
                rv = prefix_step_guarded(txn, prefix, len, &entry);
                if (rv == 0 && gone != NULL)
                        gone(arg, &entry);
        }
        return rv == -ENOENT ? 0 : index_changed(txn, rv);
}
