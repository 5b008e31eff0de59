/*
 * index_rows.c - what the index holds beside names: places of shards, rows of segments, log files
 * and placement groups, and meta.
 *
 * Places and names are what the counts of segments and log files are about, and files are freed by
 * those counts (I6). So the counts are kept here, in the same transaction, and not by callers:
 * changes are gathered in memory (txn->counts) and added to the rows before a commit and before
 * rows are read. A count that would fall below zero is damage.
 */
#include <stdlib.h>

#include "engine/drive/index_priv.h"

#define PLACE_KEY (FMT_ID + sizeof(uint32_t) + 1)

static int db_get(struct eng_index_txn *txn, enum index_db db, const void *key, size_t key_len, MDB_val *data)
{
        MDB_val mkey = {.mv_size = key_len, .mv_data = (void *)key};

        return index_error(mdb_get(txn->mdb, txn->index->dbi[db], &mkey, data));
}

/* Fixed-length values whose first four bytes are the checksum of key and rest. */
static int row_check(const void *key, size_t key_len, const MDB_val *data, void *row, size_t len)
{
        uint32_t crc;

        if (data->mv_size != len)
                return -EBADMSG;
        memcpy(row, data->mv_data, len);
        memcpy(&crc, row, sizeof(crc));
        return crc == index_crc(key, key_len, row, len) ? 0 : -EBADMSG;
}

static int row_get(struct eng_index_txn *txn, enum index_db db, const void *key, size_t key_len, void *row, size_t len)
{
        MDB_val data;
        int rv = db_get(txn, db, key, key_len, &data);

        return rv != 0 ? rv : row_check(key, key_len, &data, row, len);
}

static int row_put(struct eng_index_txn *txn, enum index_db db, const void *key, size_t key_len, const void *row,
                   size_t len)
{
        MDB_val mkey = {.mv_size = key_len, .mv_data = (void *)key};
        MDB_val data = {.mv_size = len};
        uint32_t crc = index_crc(key, key_len, row, len);
        int rv;

        rv = index_error(mdb_put(txn->mdb, txn->index->dbi[db], &mkey, &data, MDB_RESERVE));
        if (rv != 0)
                return rv;
        memcpy(data.mv_data, row, len);
        memcpy(data.mv_data, &crc, sizeof(crc));
        return 0;
}

static int row_delete(struct eng_index_txn *txn, enum index_db db, const void *key, size_t key_len)
{
        MDB_val mkey = {.mv_size = key_len, .mv_data = (void *)key};

        return index_error(mdb_del(txn->mdb, txn->index->dbi[db], &mkey, NULL));
}

/* ---- counts ---------------------------------------------------------------------------------- */

static int count_order(const struct index_count *a, const struct index_count *b)
{
        if (a->db != b->db)
                return a->db < b->db ? -1 : 1;
        return (a->id > b->id) - (a->id < b->id);
}

RB_PROTOTYPE(index_counts, index_count, by_row, count_order)
RB_GENERATE(index_counts, index_count, by_row, count_order)

int index_count(struct eng_index_txn *txn, enum index_db db, uint64_t id, int64_t items, int64_t bytes)
{
        struct index_count key = {.db = db, .id = id}, *count;

        assert(txn->write && (db == INDEX_SEGMENTS || db == INDEX_LOGS));
        count = RB_FIND(index_counts, &txn->counts, &key);
        if (count == NULL) {
                count = calloc(1, sizeof(*count));
                if (count == NULL)
                        return -ENOMEM;
                count->db = db;
                count->id = id;
                RB_INSERT(index_counts, &txn->counts, count);
        }
        count->items += items;
        count->bytes += bytes;
        txn->counts_open = true;
        return 0;
}

void index_counts_drop(struct eng_index_txn *txn)
{
        struct index_count *count;

        while ((count = RB_ROOT(&txn->counts)) != NULL) {
                RB_REMOVE(index_counts, &txn->counts, count);
                free(count);
        }
}

static int count_add(uint64_t *value, int64_t delta)
{
        if (delta < 0 && *value < (uint64_t)-delta)
                return -EBADMSG;
        *value += (uint64_t)delta;
        return 0;
}

static int count_save_segment(struct eng_index_txn *txn, const struct index_count *count)
{
        struct fmt_index_segment row = {0};
        uint64_t key = htobe64(count->id);
        int rv;

        rv = row_get(txn, INDEX_SEGMENTS, &key, sizeof(key), &row, sizeof(row));
        if (rv == -ENOENT) {
                /*
                 * A row deleted because its file is lost: places that still name it go without
                 * being counted.
                 */
                if (count->items <= 0)
                        return 0;
                memset(&row, 0, sizeof(row));
                row.segment = count->id;
                rv = 0;
        }
        if (rv == 0)
                rv = count_add(&row.live_frames, count->items);
        if (rv == 0)
                rv = count_add(&row.live_bytes, count->bytes);
        return rv != 0 ? rv : row_put(txn, INDEX_SEGMENTS, &key, sizeof(key), &row, sizeof(row));
}

static int count_save_log(struct eng_index_txn *txn, const struct index_count *count)
{
        struct fmt_index_log row = {0};
        uint64_t key = htobe64(count->id);
        int rv;

        rv = row_get(txn, INDEX_LOGS, &key, sizeof(key), &row, sizeof(row));
        if (rv == -ENOENT) {
                if (count->items <= 0)
                        return 0;
                memset(&row, 0, sizeof(row));
                row.file = count->id;
                rv = 0;
        }
        if (rv == 0)
                rv = count_add(&row.live_names, count->items);
        if (rv == 0)
                rv = count_add(&row.live_bytes, count->bytes);
        return rv != 0 ? rv : row_put(txn, INDEX_LOGS, &key, sizeof(key), &row, sizeof(row));
}

int index_counts_save(struct eng_index_txn *txn)
{
        struct index_count *count;
        int rv;

        if (!txn->counts_open)
                return 0;
        RB_FOREACH (count, index_counts, &txn->counts) {
                if (count->items == 0 && count->bytes == 0)
                        continue;
                rv = count->db == INDEX_SEGMENTS ? count_save_segment(txn, count) : count_save_log(txn, count);
                if (rv != 0)
                        return rv;
                count->items = count->bytes = 0;
        }
        txn->counts_open = false;
        return 0;
}

/* ---- places ---------------------------------------------------------------------------------- */

static void location_key(uint8_t key[PLACE_KEY], const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard)
{
        uint32_t be = htobe32(stripe);

        memcpy(key, object_id, FMT_ID);
        memcpy(key + FMT_ID, &be, sizeof(be));
        key[FMT_ID + sizeof(be)] = shard;
}

/* Rows of layout 1 have no hash of the key. */
static int location_row_check(const void *key, const MDB_val *data, struct fmt_index_location *row)
{
        memset(row, 0, sizeof(*row));
        return row_check(key, PLACE_KEY, data, row, data->mv_size == FMT_INDEX_PLACE1 ? FMT_INDEX_PLACE1 : sizeof(*row));
}

static int location_row_get(struct eng_index_txn *txn, const uint8_t key[PLACE_KEY], struct fmt_index_location *row)
{
        MDB_val data;
        int rv = db_get(txn, INDEX_PLACES, key, PLACE_KEY, &data);

        return rv != 0 ? rv : location_row_check(key, &data, row);
}

static void row_location(const uint8_t key[PLACE_KEY], const struct fmt_index_location *row, struct eng_location *out)
{
        uint32_t be;

        memcpy(&be, key + FMT_ID, sizeof(be));
        out->segment = row->segment;
        out->offset = row->offset;
        out->payload_len = row->payload_len;
        out->stripe = be32toh(be);
        out->shard = key[FMT_ID + sizeof(be)];
        out->key_hash = row->key_hash;
}

static int location_get(struct eng_index_txn *txn, const uint8_t *object_id, uint32_t stripe, uint8_t shard,
                     struct eng_location *out)
{
        uint8_t key[PLACE_KEY];
        struct fmt_index_location row;
        int rv;

        location_key(key, object_id, stripe, shard);
        rv = location_row_get(txn, key, &row);
        if (rv == 0)
                row_location(key, &row, out);
        return rv;
}

int eng_index_location_get(struct eng_index_txn *txn, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                        struct eng_location *out)
{
        ENG_GUARDED(&txn->index->broken, location_get(txn, object_id, stripe, shard, out));
}

static int location_next(struct eng_index_txn *txn, const uint8_t *after, uint8_t *out, uint64_t *key_hash)
{
        struct fmt_index_location row;
        uint8_t key[PLACE_KEY];
        MDB_val mkey = {.mv_size = sizeof(key), .mv_data = key}, data;
        int rv;

        location_key(key, after, UINT32_MAX, UINT8_MAX);
        rv = index_cursor_open(txn, INDEX_PLACES, &txn->walk);
        if (rv != 0)
                return rv;
        rv = index_error(mdb_cursor_get(txn->walk, &mkey, &data, MDB_SET_RANGE));
        if (rv == 0 && mkey.mv_size == PLACE_KEY && memcmp(mkey.mv_data, after, FMT_ID) == 0) /* that very shard is there */
                rv = index_error(mdb_cursor_get(txn->walk, &mkey, &data, MDB_NEXT));
        if (rv == 0 && (mkey.mv_size != PLACE_KEY || memcmp(mkey.mv_data, after, FMT_ID) <= 0))
                rv = -EBADMSG;
        if (rv == 0) {
                memcpy(out, mkey.mv_data, FMT_ID);
                *key_hash = location_row_check(mkey.mv_data, &data, &row) == 0 ? row.key_hash : 0;
        }
        index_walk_close(txn);
        return rv;
}

int eng_index_location_next(struct eng_index_txn *txn, const uint8_t after[FMT_ID], uint8_t out[FMT_ID], uint64_t *key_hash)
{
        ENG_GUARDED(&txn->index->broken, location_next(txn, after, out, key_hash));
}

static int location_count(struct eng_index_txn *txn, const struct eng_location *location, int sign)
{
        return index_count(txn, INDEX_SEGMENTS, location->segment, sign, sign * (int64_t)eng_location_bytes(location));
}

static int location_put(struct eng_index_txn *txn, const uint8_t *object_id, const struct eng_location *location,
                     struct eng_location *old)
{
        struct fmt_index_location row;
        struct eng_location before;
        uint8_t key[PLACE_KEY];
        bool had;
        int rv;

        location_key(key, object_id, location->stripe, location->shard);
        rv = location_row_get(txn, key, &row);
        had = rv == 0;
        if (had) {
                row_location(key, &row, &before);
                rv = location_count(txn, &before, -1);
        } else if (rv == -ENOENT || rv == -EBADMSG) {
                rv = 0; /* a damaged place is replaced; its segment's count stays too high */
        }
        if (rv == 0)
                rv = location_count(txn, location, 1);
        row = (struct fmt_index_location){
                .payload_len = location->payload_len,
                .segment = location->segment,
                .offset = location->offset,
                .key_hash = location->key_hash};
        if (rv == 0)
                rv = row_put(txn, INDEX_PLACES, key, sizeof(key), &row, sizeof(row));
        if (rv != 0)
                return rv;
        if (had && old != NULL)
                *old = before;
        return had;
}

static int location_put_guarded(struct eng_index_txn *txn, const uint8_t *object_id, const struct eng_location *location,
                             struct eng_location *old)
{
        ENG_GUARDED(&txn->index->broken, location_put(txn, object_id, location, old));
}

int eng_index_location_put(struct eng_index_txn *txn, const uint8_t object_id[FMT_ID], const struct eng_location *location,
                        struct eng_location *old)
{
        assert(txn->write);
        return index_changed(txn, location_put_guarded(txn, object_id, location, old));
}

/* Removes the first place of an object id and gives it. 1: it was damaged: gone, but not known. */
static int discard_step(struct eng_index_txn *txn, const uint8_t *object_id, struct eng_location *out)
{
        struct fmt_index_location row;
        uint8_t key[PLACE_KEY];
        MDB_val mkey = {.mv_size = FMT_ID, .mv_data = (void *)object_id}, data;
        bool damaged;
        int rv;

        rv = index_cursor_open(txn, INDEX_PLACES, &txn->walk);
        if (rv != 0)
                return rv;
        rv = index_error(mdb_cursor_get(txn->walk, &mkey, &data, MDB_SET_RANGE));
        if (rv != 0)
                goto out;
        rv = mkey.mv_size < FMT_ID || memcmp(mkey.mv_data, object_id, FMT_ID) != 0 ? -ENOENT : 0;
        if (rv == 0 && mkey.mv_size != sizeof(key))
                rv = -EBADMSG;
        if (rv != 0)
                goto out;
        memcpy(key, mkey.mv_data, sizeof(key));
        damaged = location_row_check(key, &data, &row) != 0;
        if (!damaged) {
                row_location(key, &row, out);
                rv = location_count(txn, out, -1);
        }
        if (rv == 0)
                rv = index_error(mdb_cursor_del(txn->walk, 0));
        if (rv == 0)
                rv = damaged;
out:
        index_walk_close(txn);
        return rv;
}

static int discard_step_guarded(struct eng_index_txn *txn, const uint8_t *object_id, struct eng_location *out)
{
        ENG_GUARDED(&txn->index->broken, discard_step(txn, object_id, out));
}

int eng_index_location_discard(struct eng_index_txn *txn, const uint8_t object_id[FMT_ID], eng_index_location_gone gone,
                            void *arg)
{
        struct eng_location location;
        int rv;

        assert(txn->write);
        do {
                rv = discard_step_guarded(txn, object_id, &location);
                if (rv == 0 && gone != NULL)
                        gone(arg, &location);
        } while (rv >= 0);
        return rv == -ENOENT ? 0 : index_changed(txn, rv);
}

/* ---- rows ------------------------------------------------------------------------------------ */

/*
 * Copies the first row whose key is >= *number (> if after) and sets *number to its key, whose
 * length in bytes is width. A cursor of its own each time: the caller's callback then runs outside
 * the guard.
 */
static int rows_step(struct eng_index_txn *txn, enum index_db db, size_t width, uint64_t *number, void *row, size_t len)
{
        uint64_t be = htobe64(*number);
        MDB_val mkey = {.mv_size = width, .mv_data = (uint8_t *)&be + sizeof(be) - width}, data;
        uint64_t got = 0;
        int rv;

        assert(width <= sizeof(be));
        rv = index_counts_save(txn);
        if (rv == 0)
                rv = index_cursor_open(txn, db, &txn->walk);
        if (rv != 0)
                return rv;
        rv = index_error(mdb_cursor_get(txn->walk, &mkey, &data, MDB_SET_RANGE));
        if (rv == 0 && mkey.mv_size != width)
                rv = -EBADMSG;
        if (rv == 0)
                rv = row_check(mkey.mv_data, width, &data, row, len);
        if (rv == 0) {
                memcpy((uint8_t *)&got + sizeof(got) - width, mkey.mv_data, width);
                got = be64toh(got);
                rv = got < *number ? -EBADMSG : 0;
                *number = got;
        }
        index_walk_close(txn);
        return rv;
}

static int rows_step_guarded(struct eng_index_txn *txn, enum index_db db, size_t width, uint64_t *number, void *row,
                             size_t len)
{
        ENG_GUARDED(&txn->index->broken, rows_step(txn, db, width, number, row, len));
}

int eng_index_each_segment(struct eng_index_txn *txn, eng_index_segment_fn each, void *arg)
{
        struct fmt_index_segment row;
        uint64_t number = 0;
        int rv;

        do {
                rv = rows_step_guarded(txn, INDEX_SEGMENTS, sizeof(uint64_t), &number, &row, sizeof(row));
                if (rv == 0 && row.segment != number)
                        rv = -EBADMSG;
                if (rv == 0)
                        rv = each(arg, &row);
        } while (rv == 0 && number++ != UINT64_MAX);
        return rv == -ENOENT ? 0 : rv;
}

int eng_index_each_log(struct eng_index_txn *txn, eng_index_log_fn each, void *arg)
{
        struct fmt_index_log row;
        uint64_t number = 0;
        int rv;

        do {
                rv = rows_step_guarded(txn, INDEX_LOGS, sizeof(uint64_t), &number, &row, sizeof(row));
                if (rv == 0 && row.file != number)
                        rv = -EBADMSG;
                if (rv == 0)
                        rv = each(arg, &row);
        } while (rv == 0 && number++ != UINT64_MAX);
        return rv == -ENOENT ? 0 : rv;
}

static int log_row(struct eng_index_txn *txn, uint64_t file, struct fmt_index_log *row)
{
        uint64_t key = htobe64(file);
        int rv = index_counts_save(txn);

        return rv != 0 ? rv : row_get(txn, INDEX_LOGS, &key, sizeof(key), row, sizeof(*row));
}

static int log_row_guarded(struct eng_index_txn *txn, uint64_t file, struct fmt_index_log *row)
{
        ENG_GUARDED(&txn->index->broken, log_row(txn, file, row));
}

int eng_index_each_changed_log(struct eng_index_txn *txn, eng_index_log_fn each, void *arg)
{
        struct index_count *count;
        struct fmt_index_log row;
        int rv = 0;

        assert(txn->write);
        RB_FOREACH (count, index_counts, &txn->counts) {
                if (count->db != INDEX_LOGS)
                        continue;
                rv = log_row_guarded(txn, count->id, &row);
                if (rv == 0 && row.file != count->id)
                        rv = -EBADMSG;
                if (rv == 0)
                        rv = each(arg, &row);
                if (rv != 0 && rv != -ENOENT) /* a row that went meanwhile has nothing to say */
                        return rv;
        }
        return 0;
}

int eng_index_each_pg(struct eng_index_txn *txn, eng_index_pg_fn each, void *arg)
{
        struct fmt_index_pg row;
        uint64_t number = 0;
        int rv;

        do {
                rv = rows_step_guarded(txn, INDEX_PGS, sizeof(uint32_t), &number, &row, sizeof(row));
                if (rv == 0 && row.pg != number)
                        rv = -EBADMSG;
                if (rv == 0)
                        rv = each(arg, &row);
        } while (rv == 0 && number++ < UINT32_MAX);
        return rv == -ENOENT ? 0 : rv;
}

static int segment_put(struct eng_index_txn *txn, const struct fmt_index_segment *given)
{
        struct fmt_index_segment row = *given, now;
        uint64_t key = htobe64(given->segment);
        int rv;

        rv = row_get(txn, INDEX_SEGMENTS, &key, sizeof(key), &now, sizeof(now));
        if (rv != 0 && rv != -ENOENT)
                return rv;
        row.live_frames = rv == 0 ? now.live_frames : 0;
        row.live_bytes = rv == 0 ? now.live_bytes : 0;
        return row_put(txn, INDEX_SEGMENTS, &key, sizeof(key), &row, sizeof(row));
}

static int log_put(struct eng_index_txn *txn, const struct fmt_index_log *given)
{
        struct fmt_index_log row = *given, now;
        uint64_t key = htobe64(given->file);
        int rv;

        rv = row_get(txn, INDEX_LOGS, &key, sizeof(key), &now, sizeof(now));
        if (rv != 0 && rv != -ENOENT)
                return rv;
        row.live_names = rv == 0 ? now.live_names : 0;
        row.live_bytes = rv == 0 ? now.live_bytes : 0;
        return row_put(txn, INDEX_LOGS, &key, sizeof(key), &row, sizeof(row));
}

static int pg_put(struct eng_index_txn *txn, const struct fmt_index_pg *row)
{
        uint32_t key = htobe32(row->pg);

        return row_put(txn, INDEX_PGS, &key, sizeof(key), row, sizeof(*row));
}

/* What this transaction has yet to add to the row is added first, so that it is not made again. */
static int number_delete(struct eng_index_txn *txn, enum index_db db, uint64_t number)
{
        uint64_t key = htobe64(number);
        int rv = index_counts_save(txn);

        if (rv == 0)
                rv = row_delete(txn, db, &key, sizeof(key));
        return rv == -ENOENT ? 0 : rv;
}

static int segment_put_guarded(struct eng_index_txn *txn, const struct fmt_index_segment *row)
{
        ENG_GUARDED(&txn->index->broken, segment_put(txn, row));
}

static int log_put_guarded(struct eng_index_txn *txn, const struct fmt_index_log *row)
{
        ENG_GUARDED(&txn->index->broken, log_put(txn, row));
}

static int pg_put_guarded(struct eng_index_txn *txn, const struct fmt_index_pg *row)
{
        ENG_GUARDED(&txn->index->broken, pg_put(txn, row));
}

static int number_delete_guarded(struct eng_index_txn *txn, enum index_db db, uint64_t number)
{
        ENG_GUARDED(&txn->index->broken, number_delete(txn, db, number));
}

int eng_index_segment_put(struct eng_index_txn *txn, const struct fmt_index_segment *row)
{
        assert(txn->write);
        return index_changed(txn, segment_put_guarded(txn, row));
}

int eng_index_segment_delete(struct eng_index_txn *txn, uint64_t segment)
{
        assert(txn->write);
        return index_changed(txn, number_delete_guarded(txn, INDEX_SEGMENTS, segment));
}

int eng_index_log_put(struct eng_index_txn *txn, const struct fmt_index_log *row)
{
        assert(txn->write);
        return index_changed(txn, log_put_guarded(txn, row));
}

int eng_index_log_delete(struct eng_index_txn *txn, uint64_t file)
{
        assert(txn->write);
        return index_changed(txn, number_delete_guarded(txn, INDEX_LOGS, file));
}

int eng_index_pg_put(struct eng_index_txn *txn, const struct fmt_index_pg *row)
{
        assert(txn->write);
        return index_changed(txn, pg_put_guarded(txn, row));
}

/* ---- meta ------------------------------------------------------------------------------------ */

int index_meta_read(struct eng_index_txn *txn, unsigned kind, void *out, size_t cap, size_t *len)
{
        uint8_t key = (uint8_t)kind;
        uint32_t crc;
        MDB_val data;
        int rv;

        *len = 0;
        rv = db_get(txn, INDEX_META, &key, sizeof(key), &data);
        if (rv != 0)
                return rv;
        if (data.mv_size < sizeof(crc) || data.mv_size > sizeof(crc) + ENG_INDEX_META_MAX)
                return -EBADMSG;
        *len = data.mv_size - sizeof(crc);
        if (*len > cap)
                return -ENOBUFS;
        memcpy(&crc, data.mv_data, sizeof(crc));
        if (crc != index_crc(&key, sizeof(key), data.mv_data, data.mv_size))
                return -EBADMSG;
        memcpy(out, (const uint8_t *)data.mv_data + sizeof(crc), *len);
        return 0;
}

int index_meta_write(struct eng_index_txn *txn, unsigned kind, const void *bytes, size_t len)
{
        uint8_t key = (uint8_t)kind;
        MDB_val mkey = {.mv_size = sizeof(key), .mv_data = &key};
        MDB_val data = {.mv_size = sizeof(uint32_t) + len};
        uint32_t crc;
        int rv;

        if (len > ENG_INDEX_META_MAX)
                return -EINVAL;
        rv = index_error(mdb_put(txn->mdb, txn->index->dbi[INDEX_META], &mkey, &data, MDB_RESERVE));
        if (rv != 0)
                return rv;
        if (len > 0)
                memcpy((uint8_t *)data.mv_data + sizeof(crc), bytes, len);
        crc = index_crc(&key, sizeof(key), data.mv_data, data.mv_size);
        memcpy(data.mv_data, &crc, sizeof(crc));
        return 0;
}

int eng_index_meta_get(struct eng_index_txn *txn, enum eng_index_meta kind, void *out, size_t cap, size_t *len)
{
        ENG_GUARDED(&txn->index->broken, index_meta_read(txn, kind, out, cap, len));
}

static int get_position(struct eng_index_txn *txn, enum eng_index_meta kind, struct fmt_index_covered *out)
{
        size_t len = 0;
        int rv = eng_index_meta_get(txn, kind, out, sizeof(*out), &len);

        return rv == 0 && len != sizeof(*out) ? -EBADMSG : rv;
}

int eng_index_covered(struct eng_index_txn *txn, struct fmt_index_covered *out)
{
        return get_position(txn, ENG_INDEX_COVERED, out);
}

int eng_index_reach(struct eng_index_txn *txn, struct fmt_index_covered *out)
{
        return get_position(txn, ENG_INDEX_REACH, out);
}

static int meta_put_guarded(struct eng_index_txn *txn, enum eng_index_meta kind, const void *bytes, size_t len)
{
        ENG_GUARDED(&txn->index->broken, index_meta_write(txn, kind, bytes, len));
}

int eng_index_meta_put(struct eng_index_txn *txn, enum eng_index_meta kind, const void *bytes, size_t len)
{
        assert(txn->write && kind >= ENG_INDEX_COVERED && kind < ENG_INDEX_META_KINDS);
        return index_changed(txn, meta_put_guarded(txn, kind, bytes, len));
}
