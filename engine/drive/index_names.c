/*
 * index_names.c - names of any length in LMDB's keys of 511 bytes: lookup, the ordered cursor, and
 * changes.
 *
 * A name is cut into pieces (format.h): level 0 stands in the database names, deeper levels in
 * tails, each under the id of the piece above. A key shorter than its level's full length ends a
 * name; one of full length leads on. The common name is short and costs one descent. A piece is
 * removed with the last name under it, so nothing empty is left for scans to step over.
 *
 * What LMDB hands out is copied and checked before it is answered. Pages of an older build have no
 * checksum, so the cursor also insists that names ascend: a page that leads backwards ends in
 * -EBADMSG, not in an endless scan.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/index_priv.h"

/* ---- values ---------------------------------------------------------------------------------- */

int index_piece_read(const MDB_val *key, const MDB_val *data, uint64_t *id)
{
        struct fmt_index_piece piece;

        if (data->mv_size != sizeof(piece))
                return -EBADMSG;
        memcpy(&piece, data->mv_data, sizeof(piece));
        if (piece.crc != index_crc(key->mv_data, key->mv_size, &piece, sizeof(piece)) || piece.id == 0)
                return -EBADMSG;
        *id = piece.id;
        return 0;
}

int index_value_check(const uint8_t *name, size_t name_len, const MDB_val *data, struct fmt_value *head)
{
        if (data->mv_size < sizeof(*head) || data->mv_size > ENG_INDEX_VALUE_MAX)
                return -EBADMSG;
        memcpy(head, data->mv_data, sizeof(*head));
        return head->crc == index_crc(name, name_len, data->mv_data, data->mv_size) ? 0 : -EBADMSG;
}

/* Copies first: what is checked is what is given. */
static int value_take(struct eng_index_txn *txn, const uint8_t *name, size_t name_len, const MDB_val *data,
                      struct eng_index_entry *out)
{
        uint8_t *grown;
        uint32_t crc;

        *out = (struct eng_index_entry){.name = name, .name_len = name_len};
        if (data->mv_size < sizeof(struct fmt_value) || data->mv_size > ENG_INDEX_VALUE_MAX)
                return -EBADMSG;
        if (data->mv_size > txn->value_cap) {
                grown = realloc(txn->value, data->mv_size + data->mv_size / 2);
                if (grown == NULL)
                        return -ENOMEM;
                txn->value = grown;
                txn->value_cap = data->mv_size + data->mv_size / 2;
        }
        memcpy(txn->value, data->mv_data, data->mv_size);
        memcpy(&crc, txn->value + offsetof(struct fmt_value, crc), sizeof(crc));
        if (crc != index_crc(name, name_len, txn->value, data->mv_size))
                return -EBADMSG;
        out->value = txn->value;
        out->value_len = data->mv_size;
        return 0;
}

static int entry_take(struct eng_index_txn *txn, size_t name_len, const MDB_val *data, struct eng_index_entry *out)
{
        if (!txn->lazily)
                return value_take(txn, txn->name, name_len, data, out);
        *out = (struct eng_index_entry){.name = txn->name, .name_len = name_len};
        if (data->mv_size < sizeof(struct fmt_value))
                return -EBADMSG;
        memcpy(&out->state, (const uint8_t *)data->mv_data + offsetof(struct fmt_value, state), sizeof(out->state));
        txn->unread = *data;
        return 0;
}

/* ---- lookup ---------------------------------------------------------------------------------- */

int index_level_get(struct eng_index_txn *txn, unsigned level, const struct index_key *key, MDB_val *data)
{
        MDB_val mkey = {.mv_size = key->len, .mv_data = (void *)key->bytes};
        MDB_dbi dbi = txn->index->dbi[level == 0 ? INDEX_NAMES : INDEX_TAILS];

        /*
         * A write transaction works in sorted order: its cursors look at the page they are on
         * first.
         */
        assert(!txn->write || txn->edit[level > 0] != NULL);
        if (txn->write)
                return index_error(mdb_cursor_get(txn->edit[level > 0], &mkey, data, MDB_SET));
        return index_error(mdb_get(txn->mdb, dbi, &mkey, data));
}

int index_edit_open(struct eng_index_txn *txn)
{
        int rv = 0;

        for (unsigned i = 0; i < 2 && rv == 0; i++)
                if (txn->edit[i] == NULL)
                        rv = index_cursor_open(txn, i == 0 ? INDEX_NAMES : INDEX_TAILS, &txn->edit[i]);
        return rv;
}

/*
 * Follows the pieces of a name. pieces[level] is the id its level stands under; the key of its end
 * is made in *key. -ENOENT at a missing piece, with *level where it is missing.
 */
int index_name_walk(struct eng_index_txn *txn, const uint8_t *name, size_t len, uint64_t pieces[], unsigned *level,
                    struct index_key *key)
{
        unsigned last = index_name_level(len);
        MDB_val mkey, data;
        int rv;

        assert(last < FMT_INDEX_LEVELS);
        pieces[0] = 0;
        for (unsigned i = 0; i < last; i++) {
                *level = i;
                index_key_make(key, i, pieces[i], name + index_level_base(i), index_piece_len(i));
                rv = index_level_get(txn, i, key, &data);
                if (rv != 0)
                        return rv;
                mkey.mv_data = key->bytes;
                mkey.mv_size = key->len;
                rv = index_piece_read(&mkey, &data, &pieces[i + 1]);
                if (rv != 0)
                        return rv;
        }
        *level = last;
        index_key_make(key, last, pieces[last], name + index_level_base(last), len - index_level_base(last));
        return 0;
}

static int names_get(struct eng_index_txn *txn, const uint8_t *name, size_t len, struct eng_index_entry *out)
{
        uint64_t pieces[FMT_INDEX_LEVELS];
        struct index_key key;
        unsigned level;
        MDB_val data;
        int rv;

        assert(txn->begun);
        *out = (struct eng_index_entry){0};
        rv = index_name_check(name, len);
        if (rv == 0 && txn->write)
                rv = index_edit_open(txn);
        if (rv == 0)
                rv = index_name_walk(txn, name, len, pieces, &level, &key);
        if (rv == 0)
                rv = index_level_get(txn, level, &key, &data);
        if (rv != 0)
                return rv;
        return value_take(txn, name, len, &data, out);
}

int eng_index_get(struct eng_index_txn *txn, const void *name, size_t len, struct eng_index_entry *out)
{
        ENG_GUARDED(&txn->index->broken, names_get(txn, name, len, out));
}

/* ---- cursor ---------------------------------------------------------------------------------- */

void index_cursor_forget(struct eng_index_txn *txn)
{
        for (unsigned i = 0; i < FMT_INDEX_LEVELS; i++)
                txn->level[i].renewed = false;
        txn->placed = false;
}

void index_walk_close(struct eng_index_txn *txn)
{
        if (txn->walk != NULL)
                mdb_cursor_close(txn->walk);
        txn->walk = NULL;
}

void index_cursor_close(struct eng_index_txn *txn)
{
        index_walk_close(txn);
        for (unsigned i = 0; i < FMT_INDEX_LEVELS; i++) {
                if (txn->level[i].cursor != NULL)
                        mdb_cursor_close(txn->level[i].cursor);
                txn->level[i].cursor = NULL;
        }
        for (unsigned i = 0; i < 2; i++) {
                if (txn->edit[i] != NULL)
                        mdb_cursor_close(txn->edit[i]);
                txn->edit[i] = NULL;
        }
        index_cursor_forget(txn);
}

static int level_ready(struct eng_index_txn *txn, unsigned level)
{
        struct index_level *at = &txn->level[level];
        int rv;

        assert(txn->begun && level < FMT_INDEX_LEVELS);
        if (at->cursor == NULL)
                rv = index_cursor_open(txn, level == 0 ? INDEX_NAMES : INDEX_TAILS, &at->cursor);
        else if (!at->renewed && !txn->write)
                rv = index_error(mdb_cursor_renew(txn->mdb, at->cursor));
        else
                rv = 0;
        at->renewed = rv == 0;
        return rv;
}

static int bytes_compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
        int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

        if (order != 0)
                return order;
        return (a_len > b_len) - (a_len < b_len);
}

/*
 * Takes the key a level's cursor has come to into txn->name. -ENOENT: it lies behind the piece.
 * ascend: it must be greater than the one before.
 */
static int level_take(struct eng_index_txn *txn, unsigned level, const MDB_val *key, bool ascend)
{
        struct index_level *at = &txn->level[level];
        size_t head = index_level_head(level), len;
        uint8_t *bytes = txn->name + index_level_base(level);
        uint64_t piece;

        if (key->mv_size < head || key->mv_size > head + index_piece_len(level))
                return -EBADMSG;
        if (head > 0) {
                memcpy(&piece, key->mv_data, sizeof(piece));
                piece = be64toh(piece);
                if (piece != at->piece)
                        return piece > at->piece ? -ENOENT : -EBADMSG;
        }
        len = key->mv_size - head;
        if (ascend && bytes_compare((const uint8_t *)key->mv_data + head, len, bytes, at->key_len) <= 0)
                return -EBADMSG;
        memcpy(bytes, (const uint8_t *)key->mv_data + head, len);
        at->key_len = len;
        return 0;
}

static int level_next(struct eng_index_txn *txn, unsigned level, MDB_val *data)
{
        MDB_val key;
        int rv;

        rv = index_error(mdb_cursor_get(txn->level[level].cursor, &key, data, MDB_NEXT));
        if (rv != 0)
                return rv;
        return level_take(txn, level, &key, true);
}

/* First key at level, under piece, that is >= bytes. */
static int level_seek(struct eng_index_txn *txn, unsigned level, uint64_t piece, const uint8_t *bytes, size_t len,
                      MDB_val *data)
{
        struct index_key want;
        MDB_val key;
        int rv;

        rv = level_ready(txn, level);
        if (rv != 0)
                return rv;
        txn->depth = level;
        txn->level[level].piece = piece;
        index_key_make(&want, level, piece, bytes, len);
        key.mv_data = want.bytes;
        key.mv_size = want.len;
        if (want.len == 0) /* LMDB knows no empty key */
                rv = index_error(mdb_cursor_get(txn->level[level].cursor, &key, data, MDB_FIRST));
        else
                rv = index_error(mdb_cursor_get(txn->level[level].cursor, &key, data, MDB_SET_RANGE));
        if (rv != 0)
                return rv;
        if (bytes_compare(key.mv_data, key.mv_size, want.bytes, want.len) < 0)
                return -EBADMSG;
        return level_take(txn, level, &key, false);
}

/* The id of the piece the cursor stands on. */
static int cursor_piece(struct eng_index_txn *txn, const MDB_val *data, uint64_t *id)
{
        struct index_level *at = &txn->level[txn->depth];
        struct index_key key;
        MDB_val mkey;

        index_key_make(&key, txn->depth, at->piece, txn->name + index_level_base(txn->depth), at->key_len);
        mkey.mv_data = key.bytes;
        mkey.mv_size = key.len;
        return index_piece_read(&mkey, data, id);
}

/*
 * rv and data are what the last step at txn->depth gave: goes down through pieces and up from ends
 * until a name is found.
 */
static int cursor_descend(struct eng_index_txn *txn, int rv, MDB_val *data, struct eng_index_entry *out)
{
        uint64_t piece;
        size_t len;

        for (;;) {
                if (rv == -ENOENT && txn->depth > 0) {
                        txn->depth--;
                        rv = level_next(txn, txn->depth, data);
                        continue;
                }
                if (rv != 0)
                        return rv;
                if (txn->level[txn->depth].key_len < index_piece_len(txn->depth))
                        break;
                if (txn->depth + 1 == FMT_INDEX_LEVELS)
                        return -EBADMSG;
                rv = cursor_piece(txn, data, &piece);
                if (rv != 0)
                        return rv;
                rv = level_seek(txn, txn->depth + 1, piece, NULL, 0, data);
        }
        len = index_level_base(txn->depth) + txn->level[txn->depth].key_len;
        if (len > FMT_NAME_MAX)
                return -EBADMSG;
        txn->placed = true;
        return entry_take(txn, len, data, out);
}

static int cursor_settle(struct eng_index_txn *txn, int rv, MDB_val *data, struct eng_index_entry *out)
{
        rv = cursor_descend(txn, rv, data, out);
        /* A cursor that lost its way says so again: damage must not look like the end. */
        txn->cursor_end = rv;
        return rv;
}

/* Goes to the first key >= name at each level, down as long as the name's own pieces are there. */
int index_names_seek(struct eng_index_txn *txn, const uint8_t *name, size_t len, bool after,
                     struct eng_index_entry *out)
{
        unsigned last = index_name_level(len);
        uint64_t piece = 0;
        MDB_val data;
        size_t part;
        int rv;

        *out = (struct eng_index_entry){0};
        txn->placed = false;
        if (len > FMT_NAME_MAX)
                return -EINVAL;
        for (unsigned i = 0;; i++) {
                const uint8_t *bytes = len > 0 ? name + index_level_base(i) : NULL;

                part = i < last ? index_piece_len(i) : len - index_level_base(i);
                rv = level_seek(txn, i, piece, bytes, part, &data);
                if (rv != 0 || txn->level[i].key_len != part ||
                    (part > 0 && memcmp(txn->name + index_level_base(i), bytes, part) != 0))
                        break; /* a name that is greater */
                if (i == last) {
                        if (after && len > 0)
                                rv = level_next(txn, i, &data);
                        break;
                }
                rv = cursor_piece(txn, &data, &piece);
                if (rv != 0)
                        break;
        }
        return cursor_settle(txn, rv, &data, out);
}

static int names_next(struct eng_index_txn *txn, struct eng_index_entry *out)
{
        MDB_val data;

        *out = (struct eng_index_entry){0};
        assert(txn->begun);
        if (!txn->placed)
                return txn->cursor_end;
        txn->placed = false;
        return cursor_settle(txn, level_next(txn, txn->depth, &data), &data, out);
}

int eng_index_seek(struct eng_index_txn *txn, const void *name, size_t len, bool after, struct eng_index_entry *out)
{
        ENG_GUARDED(&txn->index->broken, index_names_seek(txn, name, len, after, out));
}

int eng_index_next(struct eng_index_txn *txn, struct eng_index_entry *out)
{
        ENG_GUARDED(&txn->index->broken, names_next(txn, out));
}

void eng_index_lazily(struct eng_index_txn *txn, bool lazily)
{
        assert(!txn->write);
        txn->lazily = lazily;
}

int eng_index_value(struct eng_index_txn *txn, struct eng_index_entry *entry)
{
        assert(txn->lazily && entry->value == NULL && entry->name == txn->name);
        ENG_GUARDED(&txn->index->broken, value_take(txn, entry->name, entry->name_len, &txn->unread, entry));
}
