/*
 * index_owners.c - which names have a part of an object id: what makes "does anything name these
 * shards?" a lookup.
 *
 * A row for each name and each id among its parts, put and deleted in the transaction that puts and
 * deletes the name, as the counts of log files are. The name's hash is in the key, so a part and
 * the object that is made of it have a row each while both are there. An index made by layout 1 has
 * no rows: they are made beside the names, some in each transaction, and until the last of them is
 * the index does not answer.
 *
 * A value whose parts cannot be decoded may name any shards. Neither a record nor a copy of one
 * gets past eng_rec_check_body(), but an index must not be what fails a drive, or discards data,
 * where one is there all the same. So the index counts such names, and while there is one it says
 * that every id is owned: no orphan is looked for until that name has been overwritten or deleted.
 */
#include <stdlib.h>

#include "engine/drive/index_priv.h"
#include "engine/drive/rec.h"
#include "engine/drive/drive.h"

#define OWNER_KEY (FMT_ID + sizeof(uint64_t))

static void owner_key(uint8_t key[OWNER_KEY], const uint8_t id[FMT_ID], uint64_t name_hash)
{
        uint64_t be = htobe64(name_hash);

        memcpy(key, id, FMT_ID);
        memcpy(key + FMT_ID, &be, sizeof(be));
}

static int owner_put(struct eng_index_txn *txn, const uint8_t key[OWNER_KEY], uint32_t pg)
{
        struct fmt_index_owner row = {.pg = pg};
        MDB_val mkey = {.mv_size = OWNER_KEY, .mv_data = (void *)key}, data = {.mv_size = sizeof(row), .mv_data = &row};

        row.crc = index_crc(key, OWNER_KEY, &row, sizeof(row));
        return index_error(mdb_put(txn->mdb, txn->index->dbi[INDEX_OWNERS], &mkey, &data, 0));
}

static int owner_delete(struct eng_index_txn *txn, const uint8_t key[OWNER_KEY])
{
        MDB_val mkey = {.mv_size = OWNER_KEY, .mv_data = (void *)key};
        int rv = index_error(mdb_del(txn->mdb, txn->index->dbi[INDEX_OWNERS], &mkey, NULL));

        return rv == -ENOENT ? 0 : rv; /* not made yet */
}

/*
 * Of all parts of a value. 1: some of them make no sense; those before them were taken. An error is
 * the index's.
 */
static int owners_each(struct eng_index_txn *txn, const uint8_t *name, size_t name_len, const uint8_t *value, size_t len,
                       bool there)
{
        uint64_t hash = eng_hash(name, name_len, 0);
        struct fmt_value head;
        uint8_t key[OWNER_KEY];
        struct eng_part part;
        size_t pos = 0;
        int rv;

        memcpy(&head, value, sizeof(head));
        while ((rv = eng_value_next_part(value, len, &pos, &part)) == 1) {
                owner_key(key, part.head.id, hash);
                rv = there ? owner_put(txn, key, head.pg) : owner_delete(txn, key);
                if (rv != 0)
                        return rv;
        }
        return rv == -EBADMSG ? 1 : rv;
}

static int unknown_read(struct eng_index_txn *txn, uint64_t *count)
{
        size_t len;
        int rv = index_meta_read(txn, ENG_INDEX_UNKNOWN_OWNERS, count, sizeof(*count), &len);

        if (rv == -ENOENT)
                *count = 0;
        else if (rv == -ENOBUFS || (rv == 0 && len != sizeof(*count)))
                rv = -EBADMSG;
        return rv == -ENOENT ? 0 : rv;
}

/* One more name whose shards nobody can tell, or one less. */
static int unknown_add(struct eng_index_txn *txn, bool there)
{
        uint64_t count;
        int rv = unknown_read(txn, &count);

        if (rv != 0)
                return rv;
        if (there)
                count++;
        else if (count > 0)
                count--;
        return index_meta_write(txn, ENG_INDEX_UNKNOWN_OWNERS, &count, sizeof(count));
}

int eng_index_unknown_owners(struct eng_index_txn *txn, uint64_t *count)
{
        ENG_GUARDED(&txn->index->broken, unknown_read(txn, count));
}

static bool has_parts(const uint8_t *value)
{
        struct fmt_value head;

        memcpy(&head, value, sizeof(head));
        return head.parts > 0;
}

static bool same_ids(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
        struct eng_part x, y;
        size_t x_pos = 0, y_pos = 0;
        int rv;

        do {
                rv = eng_value_next_part(a, a_len, &x_pos, &x);
                if (rv != eng_value_next_part(b, b_len, &y_pos, &y))
                        return false;
                if (rv == 1 && memcmp(x.head.id, y.head.id, FMT_ID) != 0)
                        return false;
        } while (rv == 1);
        return rv == 0;
}

static int making_read(struct eng_index_txn *txn, struct fmt_index_owners_made *making, size_t *from_len);

/*
 * The rows of a name that are put, or deleted. Those of a name that the making has not come to are
 * not counted yet: it counts them then.
 */
static int owners_change(struct eng_index_txn *txn, const uint8_t *name, size_t name_len, const uint8_t *value, size_t len, bool there)
{
        struct fmt_index_owners_made making;
        size_t from_len;
        int rv = owners_each(txn, name, name_len, value, len, there);

        if (rv != 1)
                return rv;
        rv = making_read(txn, &making, &from_len);
        if (rv != 0 || (!making.complete && eng_name_compare(name, name_len, making.from, from_len) > 0))
                return rv;
        return unknown_add(txn, there);
}

int index_owners_change(struct eng_index_txn *txn, const uint8_t *name, size_t name_len, const MDB_val *old,
                        const uint8_t *value, size_t value_len)
{
        uint8_t *copy = NULL;
        int rv = 0;

        assert(txn->write && (value == NULL || value_len >= sizeof(struct fmt_value)));
        if (txn->index->no_owners)
                return 0;
        if (old != NULL && has_parts(old->mv_data)) {
                if (value != NULL && same_ids(old->mv_data, old->mv_size, value, value_len))
                        return 0;
                copy = malloc(old->mv_size); /* LMDB's own does not outlive the next change */
                if (copy == NULL)
                        return -ENOMEM;
                memcpy(copy, old->mv_data, old->mv_size);
                rv = owners_change(txn, name, name_len, copy, old->mv_size, false);
                free(copy);
        }
        if (rv == 0 && value != NULL && has_parts(value))
                rv = owners_change(txn, name, name_len, value, value_len, true);
        return rv;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static int owners_owned(struct eng_index_txn *txn, const uint8_t *id)
{
        MDB_val mkey = {.mv_size = FMT_ID, .mv_data = (void *)id}, data;
        uint64_t unknown;
        int rv;

        if (txn->index->no_owners)
                return -EAGAIN;
        rv = unknown_read(txn, &unknown);
        if (rv != 0 || unknown > 0)
                return rv != 0 ? rv : 1;
        rv = index_cursor_open(txn, INDEX_OWNERS, &txn->walk);
        if (rv != 0)
                return rv;
        rv = index_error(mdb_cursor_get(txn->walk, &mkey, &data, MDB_SET_RANGE));
        if (rv == 0)
                rv = mkey.mv_size == OWNER_KEY && memcmp(mkey.mv_data, id, FMT_ID) == 0 ? 1 : 0;
        index_walk_close(txn);
        return rv == -ENOENT ? 0 : rv;
}

int eng_index_owned(struct eng_index_txn *txn, const uint8_t id[FMT_ID])
{
        ENG_GUARDED(&txn->index->broken, owners_owned(txn, id));
}

/* ---- making them ----------------------------------------------------------------------------- */

static int making_read(struct eng_index_txn *txn, struct fmt_index_owners_made *making, size_t *from_len)
{
        size_t len;
        int rv = index_meta_read(txn, ENG_INDEX_OWNERS, making, sizeof(*making), &len);

        *from_len = 0;
        if (rv == -ENOENT) {
                making->complete = 0;
                return 0;
        }
        if (rv == 0 && (len < 1 || len > sizeof(*making)))
                rv = -EBADMSG;
        if (rv == 0)
                *from_len = len - 1;
        return rv;
}

static int complete(struct eng_index_txn *txn)
{
        struct fmt_index_owners_made making;
        size_t from_len;
        int rv;

        if (txn->index->no_owners)
                return 0;
        rv = making_read(txn, &making, &from_len);
        return rv == 0 ? making.complete : rv;
}

int eng_index_owners_complete(struct eng_index_txn *txn)
{
        ENG_GUARDED(&txn->index->broken, complete(txn));
}

int index_owners_begin(struct eng_index_txn *txn)
{
        uint8_t whole = 1;

        return index_meta_write(txn, ENG_INDEX_OWNERS, &whole, 1);
}

/* The rows of the names after *making, so many of them. 1: there are no more. */
static int make_some(struct eng_index_txn *txn, struct fmt_index_owners_made *making, size_t *from_len, unsigned names)
{
        struct eng_index_entry entry;
        int rv = 0;

        while (names-- > 0) {
                rv = index_names_seek(txn, making->from, *from_len, *from_len > 0, &entry);
                if (rv == -ENOENT)
                        return 1;
                if (rv != 0 && (rv != -EBADMSG || entry.name_len == 0))
                        return rv;
                assert(entry.name_len <= sizeof(making->from));
                memcpy(making->from, entry.name, entry.name_len);
                *from_len = entry.name_len;
                if (rv == 0 && has_parts(entry.value)) /* the entry is the transaction's own copy */
                        rv = owners_each(txn, making->from, *from_len, entry.value, entry.value_len, true);
                if (rv == 1)
                        rv = unknown_add(txn, true);
                else if (rv == -EBADMSG && entry.value == NULL) /* its checksum is wrong: its name is compared with others' by upkeep */
                        rv = 0;
                if (rv != 0)
                        return rv;
        }
        return 0;
}

static int owners_make(struct eng_index_txn *txn, unsigned names)
{
        struct fmt_index_owners_made making;
        size_t from_len;
        int rv;

        if (txn->index->no_owners)
                return 1; /* there was no room for the database at the opening: perhaps at the next */
        rv = making_read(txn, &making, &from_len);
        if (rv == 0 && !making.complete) {
                rv = make_some(txn, &making, &from_len, names);
                if (rv == 1) {
                        making.complete = 1;
                        from_len = 0;
                }
                if (rv >= 0)
                        rv = index_meta_write(txn, ENG_INDEX_OWNERS, &making, 1 + from_len);
        }
        return rv != 0 ? rv : making.complete;
}

static int owners_make_guarded(struct eng_index_txn *txn, unsigned names)
{
        ENG_GUARDED(&txn->index->broken, owners_make(txn, names));
}

int eng_index_owners_make(struct eng_index_txn *txn, unsigned names)
{
        assert(txn->write);
        return index_changed(txn, owners_make_guarded(txn, names));
}
