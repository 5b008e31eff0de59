/*
 * objects.c - the changes of one object: put, delete, rewriting of attrs; and the put of a part.
 *
 * Each is a txn (txn.c): prepare() runs on the key's primary loop with the key locked, done() on
 * the home loop.
 */
#include "engine/object/object.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool wants_present(const struct eng_condition *c)
{
        return c->if_absent || c->if_etag || c->if_present || c->if_mtime || c->if_size;
}

static void put_prepare(struct eng_txn *txn);
static void object_delete_prepare(struct eng_txn *txn);
static void update_prepare(struct eng_txn *txn);

/* ---- put ------------------------------------------------------------------------------------- */

/*
 * A drive that holds some of its shards was replaced, or opened anew, since its upload began: a
 * change may wait long for its turn. The walk that fills the drive may be over, so a record that
 * named them would lack them until a scrub.
 */
static bool lost_shards(const struct eng_txn_put *put)
{
        const struct eng_view *view = &put->txn.at->view;
        struct eng_part part;
        size_t pos = 0;
        unsigned slot;

        while (eng_value_next_part(put->value->data, put->value->len, &pos, &part) == 1)
                for (slot = 0; slot < view->map->drives; slot++)
                        if ((eng_part_drives(&part) & eng_bit(slot)) && view->since[slot] > put->epoch)
                                return true;
        return false;
}

static void object_put_append(struct eng_txn *txn)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;
        size_t inline_len = put->bytes == NULL ? 0 : put->bytes->len;
        int rv;

        assert(txn->prepare == put_prepare && put->value != NULL);
        if (lost_shards(put)) {
                eng_txn_finish(txn, -EBUSY);
                return;
        }
        if (put->is_part)
                eng_name_part(&txn->name, txn->bucket, txn->key, txn->key_len, put->upload_id, put->part_number);
        else
                eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, put->value->len, inline_len));
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_body_put(&txn->body, &txn->name, put->value, eng_txn_take_seq(txn),
                     put->bytes == NULL ? NULL : put->bytes->data, inline_len);
        txn->inline_len = (uint32_t)inline_len;
        eng_txn_append(txn);
}

static void put_checked(struct eng_txn *txn, int rv)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;

        assert(txn->prepare == put_prepare);
        if (rv != 0 && (rv != -ENOENT || put->is_part)) {
                eng_txn_finish(txn, rv);
                return;
        }
        if (!put->is_part)
                rv = eng_condition_check(&put->condition, rv == 0 ? txn->old : NULL);
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                object_put_append(txn);
}

static void put_prepare(struct eng_txn *txn)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;

        if (put->is_part)
                eng_name_upload(&txn->name, txn->bucket, txn->key, txn->key_len, put->upload_id);
        else if (wants_present(&put->condition))
                eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        else {
                object_put_append(txn);
                return;
        }
        eng_txn_lookup(txn, 0, put_checked);
}

struct eng_txn_put *eng_txn_put_new(struct eng_store *store, uint64_t bucket, const void *key, size_t key_len)
{
        struct eng_txn_put *put = calloc(1, sizeof(*put));

        if (put == NULL)
                return NULL;
        eng_txn_init(&put->txn, store, bucket, key, key_len);
        put->txn.prepare = put_prepare;
        return put;
}

void eng_txn_put_free(struct eng_txn_put *put)
{
        eng_txn_drop(&put->txn);
        eng_buf_unref(put->value);
        eng_buf_unref(put->bytes);
        free(put);
}

/* ---- delete ---------------------------------------------------------------------------------- */

struct delete_txn {
        struct eng_txn txn;
        struct eng_condition condition;
        bool existed;
        eng_delete_done done;
        void *arg;
};

static void delete_looked_up(struct eng_txn *txn, int rv)
{
        struct delete_txn *del = (struct delete_txn *)txn;

        assert(txn->prepare == object_delete_prepare);
        del->existed = rv == 0;
        if (rv == -ENOENT)
                rv = wants_present(&del->condition) ? -ENOENT : 0;
        else if (rv == 0)
                rv = eng_condition_check(&del->condition, txn->old);
        else if (txn->words.damaged != 0 && !wants_present(&del->condition)) {
                del->existed = true; /* unreadable: it goes, whatever it is, as by an overwrite */
                rv = 0;
        }
        if (rv != 0 || !del->existed) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_txn_delete_name(txn);
}

static void object_delete_prepare(struct eng_txn *txn)
{
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        eng_txn_lookup(txn, 0, delete_looked_up);
}

static void delete_answered(struct eng_txn *txn)
{
        struct delete_txn *del = (struct delete_txn *)txn;

        assert(txn->prepare == object_delete_prepare);
        del->done(del->arg, txn->result, del->existed);
        eng_txn_drop(txn);
        free(del);
}

void eng_delete(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_condition *condition,
                eng_delete_done done, void *arg)
{
        struct delete_txn *del = key.len > ENG_KEY_MAX ? NULL : calloc(1, sizeof(*del));

        if (del == NULL) {
                eng_early(store, (struct eng_early){.deleted = done, .arg = arg,
                                                    .rv = key.len > ENG_KEY_MAX ? -EINVAL : -ENOMEM});
                return;
        }
        eng_txn_init(&del->txn, store, bucket, key.data, key.len);
        if (condition != NULL)
                del->condition = *condition;
        del->txn.prepare = object_delete_prepare;
        del->txn.done = delete_answered;
        del->done = done;
        del->arg = arg;
        eng_txn_submit(&del->txn);
}

/* ---- rewriting attrs ------------------------------------------------------------------------- */

struct update_txn {
        struct eng_txn txn;
        struct eng_condition condition;
        struct eng_buf *value;
        uint8_t tag[8];
        eng_put_done done;
        void *arg;
        size_t attrs_len;
        uint8_t attrs[];
};

/* The old value with new attrs. It keeps its id: the same bytes, so nothing is superseded. */
static struct eng_buf *updated_value(struct update_txn *up)
{
        const struct eng_buf *old = up->txn.old;
        const struct fmt_value *v = eng_value_head(old->data);
        size_t fields = sizeof(*v) + v->attrs_len, parts = eng_value_parts_at(v);
        struct eng_value_spec spec = {
                .space = FMT_SPACE_OBJECT,
                .inline_value = (v->flags & FMT_VALUE_INLINE) != 0,
                .pg = up->txn.pg,
                .inline_len = v->inline_len,
                .size = v->size,
                .mtime_ms = lp_wall_ms(),
                .id = v->id,
                .etag = v->etag,
                .upload_id = v->upload_id,
                .tag = up->tag,
                .etag_parts = v->etag_parts,
                .attrs = up->attrs,
                .attrs_len = up->attrs_len,
                .fields = old->data + fields,
                .fields_len = v->fields_len,
                .parts = old->data + parts,
                .parts_len = old->len - parts,
                .part_count = v->parts,
        };

        return eng_value_new(&spec);
}

static void update_looked_up(struct eng_txn *txn, int rv)
{
        struct update_txn *up = (struct update_txn *)txn;
        size_t inline_len = txn->old_bytes == NULL ? 0 : txn->old_bytes->len;

        assert(txn->prepare == update_prepare && up->value == NULL);
        if (rv == 0)
                rv = eng_condition_check(&up->condition, txn->old);
        if (rv == 0) {
                up->value = updated_value(up);
                rv = up->value == NULL ? -ENOMEM : 0;
        }
        if (rv == 0)
                rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, up->value->len, inline_len));
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_body_put(&txn->body, &txn->name, up->value, eng_txn_take_seq(txn),
                     inline_len == 0 ? NULL : txn->old_bytes->data, inline_len);
        txn->inline_len = (uint32_t)inline_len;
        eng_txn_append(txn);
}

static void update_prepare(struct eng_txn *txn)
{
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        eng_txn_lookup(txn, ENG_OP_WANT_INLINE, update_looked_up);
}

static void update_answered(struct eng_txn *txn)
{
        struct update_txn *up = (struct update_txn *)txn;
        struct eng_object object;

        assert(txn->prepare == update_prepare && (txn->result != 0 || up->value != NULL));
        if (txn->result == 0)
                eng_value_object(up->value, &object);
        up->done(up->arg, txn->result, txn->result == 0 ? &object : NULL);
        eng_buf_unref(up->value);
        eng_txn_drop(txn);
        free(up);
}

void eng_update(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_condition *condition,
                const void *attrs, size_t attrs_len, const uint8_t tag[8], eng_put_done done, void *arg)
{
        struct update_txn *up = NULL;
        bool valid = key.len <= ENG_KEY_MAX && attrs_len <= ENG_ATTRS_MAX;

        if (valid)
                up = calloc(1, sizeof(*up) + attrs_len);
        if (up == NULL) {
                eng_early(store, (struct eng_early){.put = done, .arg = arg, .rv = valid ? -ENOMEM : -EINVAL});
                return;
        }
        eng_txn_init(&up->txn, store, bucket, key.data, key.len);
        if (condition != NULL)
                up->condition = *condition;
        memcpy(up->attrs, attrs, attrs_len);
        up->attrs_len = attrs_len;
        memcpy(up->tag, tag, 8);
        up->txn.prepare = update_prepare;
        up->txn.done = update_answered;
        up->done = done;
        up->arg = arg;
        eng_txn_submit(&up->txn);
}
