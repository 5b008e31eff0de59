/*
 * batch_write.c - one frozen generation into one transaction of the index.
 *
 * Runs on the index worker (at opening and closing: on that thread). Names go in order, which LMDB
 * rewards. The old value of every name is looked at first: an older record never replaces a newer
 * one, and what is replaced and has shards is listed, to be told to the store once the transaction
 * is durable (I6). Touches nothing but the batch and the index.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define OWNERS_NAMES 20000u /* names whose owners are made in one transaction */

/* ---- lists ----------------------------------------------------------------------------------- */

static int batch_add_dead(struct eng_batch *batch, const uint8_t *value, size_t len)
{
        struct eng_buf *buf = eng_buf_new(len);

        if (buf == NULL)
                return -ENOMEM;
        memcpy(buf->data, value, len);
        ((struct fmt_value *)buf->data)->crc = 0;
        return eng_buf_list_add(&batch->dead, buf);
}

static int add_gone(struct eng_location_list *list, const struct eng_location *location)
{
        struct eng_location *items;
        unsigned size;

        if (list->count == list->size) {
                size = list->size == 0 ? 64 : 2 * list->size;
                items = realloc(list->items, size * sizeof(*items));
                if (items == NULL)
                        return -ENOMEM;
                list->items = items;
                list->size = size;
        }
        list->items[list->count++] = *location;
        return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * What the index has under this name. 1: it stays, being newer; 0: it may go (and was listed if it
 * has shards that do not live on).
 */
static int look_at_old(struct eng_index_txn *txn, struct eng_batch *batch, const struct eng_memtable_name *entry)
{
        struct eng_index_entry old;
        struct fmt_value head;
        int rv;

        rv = eng_index_get(txn, entry->name, entry->name_len, &old);
        if (rv == -ENOENT || rv == -EBADMSG) /* damaged: replaced, its shards stay as lost space until a rebuild */
                return 0;
        if (rv != 0)
                return rv;
        memcpy(&head, old.value, sizeof(head));
        if (head.seq > entry->seq)
                return 1;
        if (!eng_value_has_shards(&head) || entry->copied || eng_memtable_only_forgets(entry->kind, entry->name) ||
            (entry->kind == ENG_MEMTABLE_PUT &&
             eng_value_same_shards(old.value, old.value_len, entry->value->data, entry->value->len)))
                return 0;
        return batch_add_dead(batch, old.value, old.value_len);
}

struct range {
        struct eng_batch *batch;
        const struct eng_buf *ids;
        int rv;
};

static void part_gone(void *arg, const struct eng_index_entry *entry)
{
        struct range *range = arg;
        struct fmt_value head;

        if (entry->value == NULL || range->rv != 0)
                return;
        memcpy(&head, entry->value, sizeof(head));
        if (eng_value_has_shards(&head) && !eng_value_in_ids(&head, range->ids->data, range->ids->len))
                range->rv = batch_add_dead(range->batch, entry->value, entry->value_len);
}

static int write_range(struct eng_index_txn *txn, struct eng_batch *batch, const struct eng_memtable_name *entry)
{
        struct range range = {.batch = batch, .ids = entry->value};
        int rv;

        assert(entry->value->len % FMT_ID == 0);
        rv = eng_index_delete_prefix(txn, entry->name, entry->name_len, part_gone, &range);
        return rv != 0 ? rv : range.rv;
}

static int write_name(struct eng_index_txn *txn, struct eng_batch *batch, const struct eng_memtable_name *entry)
{
        int rv;

        assert((entry->kind == ENG_MEMTABLE_GONE) == (entry->value == NULL));
        if (entry->kind == ENG_MEMTABLE_RANGE)
                return write_range(txn, batch, entry);
        rv = look_at_old(txn, batch, entry);
        if (rv != 0)
                return rv == 1 ? 0 : rv;
        if (entry->kind == ENG_MEMTABLE_PUT)
                return eng_index_put(txn, entry->name, entry->name_len, entry->value->data, entry->value->len);
        rv = eng_index_delete(txn, entry->name, entry->name_len);
        return rv == -ENOENT ? 0 : rv;
}

static int write_names(struct eng_index_txn *txn, struct eng_batch *batch)
{
        const struct eng_memtable_name *entry;
        int rv = 0;

        entry = eng_memtable_seek(batch->tail, (const uint8_t *)"", 0, false);
        for (; entry != NULL && rv == 0; entry = eng_memtable_next(entry))
                rv = write_name(txn, batch, entry);
        return rv;
}

/* ---- places ---------------------------------------------------------------------------------- */

struct discard {
        struct eng_batch *batch;
        int rv;
};

static void batch_location_gone(void *arg, const struct eng_location *location)
{
        struct discard *discard = arg;

        if (discard->rv == 0)
                discard->rv = add_gone(&discard->batch->gone, location);
}

static bool same_location(const struct eng_location *a, const struct eng_location *b)
{
        return a->segment == b->segment && a->offset == b->offset;
}

static int write_object(struct eng_index_txn *txn, struct eng_batch *batch, const struct eng_memtable_object *object)
{
        struct discard discard = {.batch = batch};
        const struct eng_memtable_location *at;
        struct eng_location old;
        int rv = 0;

        if (object->discarded)
                rv = eng_index_location_discard(txn, object->id, batch_location_gone, &discard);
        if (rv != 0 || discard.rv != 0)
                return rv != 0 ? rv : discard.rv;
        for (at = object->locations; at != NULL; at = at->next) {
                assert(at->location.stripe == at->key.stripe && at->location.shard == at->key.shard);
                rv = eng_index_location_put(txn, object->id, &at->location, &old);
                if (rv == 1 && !same_location(&old, &at->location))
                        rv = add_gone(&batch->gone, &old);
                if (rv < 0)
                        return rv;
        }
        return 0;
}

static int write_locations(struct eng_index_txn *txn, struct eng_batch *batch)
{
        struct eng_memtable_object *object;
        int rv = 0;

        for (object = batch->tail->objects; object != NULL && rv == 0; object = object->hh.next)
                rv = write_object(txn, batch, object);
        return rv;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int write_rows(struct eng_index_txn *txn, struct eng_batch *batch)
{
        unsigned i;
        int rv = 0;

        for (i = 0; i < batch->segment_count && rv == 0; i++)
                rv = eng_index_segment_put(txn, &batch->segments[i]);
        for (i = 0; i < batch->segment_gone_count && rv == 0; i++)
                rv = eng_index_segment_delete(txn, batch->segments_gone[i]);
        for (i = 0; i < batch->log_count && rv == 0; i++)
                rv = eng_index_log_put(txn, &batch->logs[i]);
        for (i = 0; i < batch->log_gone_count && rv == 0; i++)
                rv = eng_index_log_delete(txn, batch->logs_gone[i]);
        for (i = 0; i < batch->pg_count && rv == 0; i++)
                rv = eng_index_pg_put(txn, &batch->pgs[i]);
        return rv;
}

static int write_meta(struct eng_index_txn *txn, struct eng_batch *batch)
{
        int rv = 0;

        if (batch->epoch != NULL)
                rv = eng_index_meta_put(txn, ENG_INDEX_EPOCH, batch->epoch->data, batch->epoch->len);
        if (rv == 0 && batch->history != NULL)
                rv = eng_index_meta_put(txn, ENG_INDEX_HISTORY, batch->history->data, batch->history->len);
        if (rv == 0 && batch->has_term)
                rv = eng_index_meta_put(txn, ENG_INDEX_TERM, &batch->term, sizeof(batch->term));
        if (rv == 0 && batch->scrub != NULL)
                rv = eng_index_meta_put(txn, ENG_INDEX_SCRUB, batch->scrub->data, batch->scrub->len);
        if (rv == 0)
                rv = eng_index_meta_put(txn, ENG_INDEX_REACH, &batch->reach, sizeof(batch->reach));
        if (rv == 0)
                rv = eng_index_meta_put(txn, ENG_INDEX_COVERED, &batch->covered, sizeof(batch->covered));
        return rv;
}

static int keep_row(void *arg, const struct fmt_index_log *row)
{
        struct eng_batch *batch = arg;
        struct fmt_index_log *rows;
        unsigned size;

        if (batch->row_count == batch->row_size) {
                size = batch->row_size == 0 ? 64 : 2 * batch->row_size;
                rows = realloc(batch->rows, size * sizeof(*rows));
                if (rows == NULL)
                        return -ENOMEM;
                batch->rows = rows;
                batch->row_size = size;
        }
        batch->rows[batch->row_count++] = *row;
        return 0;
}

/*
 * LMDB uses pages again that a transaction freed once another one has been committed after it.
 * Names in no order touch most pages of an index, so without a small transaction between two
 * batches there would be room for three of each page, not for two. The batch is durable already:
 * that there is no room or memory for this one is no harm. In an index of layout 1 it makes some of
 * the owners.
 */
static int let_pages_go(struct eng_index *index, struct eng_batch *batch)
{
        struct eng_index_txn *txn;
        int rv = eng_index_write_begin(index, &txn), made = batch->owners_complete;

        if (rv == 0) {
                rv = eng_index_meta_put(txn, ENG_INDEX_COVERED, &batch->covered, sizeof(batch->covered));
                if (rv == 0 && !made)
                        rv = made = eng_index_owners_make(txn, OWNERS_NAMES);
                if (rv >= 0)
                        rv = eng_index_write_commit(txn);
                else
                        eng_index_write_abort(txn);
                batch->owners_moved = rv == 0 && !batch->owners_complete;
                batch->owners_complete = rv == 0 && made == 1;
        }
        return rv == -EIO || rv == -EBADMSG ? rv : 0; /* I8 */
}

int eng_batch_write(struct eng_index *index, struct eng_batch *batch)
{
        struct eng_index_txn *txn;
        int rv;

        assert(batch->tail != NULL && batch->covered.file != 0);
        eng_buf_list_clear(&batch->dead); /* of an attempt before this one */
        batch->gone.count = 0;
        batch->row_count = 0;
        rv = eng_index_write_begin(index, &txn);
        if (rv != 0)
                return rv;
        rv = write_names(txn, batch);
        if (rv == 0)
                rv = write_locations(txn, batch);
        if (rv == 0)
                rv = write_rows(txn, batch);
        if (rv == 0)
                rv = write_meta(txn, batch);
        if (rv == 0)
                rv = eng_index_each_changed_log(txn, keep_row, batch);
        if (rv == 0)
                rv = eng_index_unknown_owners(txn, &batch->unknown_owners);
        if (rv != 0) {
                eng_index_write_abort(txn);
                return rv;
        }
        rv = eng_index_write_commit(txn);
        if (rv == 0)
                rv = let_pages_go(index, batch);
        if (rv == 0 && eng_index_used(index, &batch->index_bytes) != 0)
                batch->index_bytes = 0;
        return rv;
}
