/*
 * complete.c - CompleteMultipartUpload: one bounded record that makes an object of parts without
 * touching their data.
 *
 * Runs as a txn on the key's primary: upload there? (if not: was the key's object made by it?),
 * condition, walk the parts in pages and take those that are named, then one record: put the
 * object, end the upload. Parts not named are dead by that record.
 */
#include "engine/object/home_calls.h"
#include "engine/object/version.h"
#include "engine/txn/txn.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 500u /* parts per scan */

struct complete_txn {
        struct eng_txn txn;
        uint8_t upload_id[FMT_ID];
        struct eng_condition condition;
        uint8_t etag[16], tag[8], id[FMT_ID];
        int64_t mtime_ms;
        unsigned count, taken;         /* parts named; found so far */
        struct eng_complete_part *parts;
        uint8_t *encoded;              /* fmt_parts of those taken */
        size_t encoded_len, encoded_cap;
        uint64_t size;
        struct eng_name from, to;
        struct eng_op scan;
        eng_mask scan_tried;
        unsigned scan_slot;            /* that was asked last */
        struct eng_words words;        /* of members that lack a part that is named */
        struct eng_key_look look;
        struct eng_key_scan versions;  /* for the one that the upload made */
        struct eng_buf *upload;        /* the upload's value: it has the object's tags, retention and hold */
        struct eng_buf *value;         /* the object: made, or found made before */
        eng_put_done done;
        void *arg;
        size_t attrs_len;
        uint8_t attrs[];
};

static void complete_prepare(struct eng_txn *txn);

static struct complete_txn *complete_of(struct eng_txn *txn)
{
        assert(txn->prepare == complete_prepare);
        return (struct complete_txn *)txn;
}

/* ---- building the object --------------------------------------------------------------------- */

static struct eng_buf *object_value(struct complete_txn *c)
{
        const struct fmt_value *upload = eng_value_head(c->upload->data);
        struct eng_value_spec spec = {
                .space = FMT_SPACE_OBJECT,
                .pg = c->txn.pg,
                .size = c->size,
                .mtime_ms = c->mtime_ms != 0 ? c->mtime_ms : lp_wall_ms(),
                .id = c->id,
                .etag = c->etag,
                .upload_id = c->upload_id,
                .tag = c->tag,
                .etag_parts = (uint16_t)c->count,
                .state = upload->state & FMT_STATE_HOLD,
                .attrs = c->attrs,
                .attrs_len = c->attrs_len,
                .fields = c->upload->data + sizeof(*upload) + upload->attrs_len,
                .fields_len = upload->fields_len,
                .parts = c->encoded,
                .parts_len = c->encoded_len,
                .part_count = c->count,
        };

        return eng_value_new(&spec);
}

static int complete_by_id(const void *a, const void *b)
{
        return memcmp(a, b, FMT_ID);
}

/* The record of an object that has no versions. */
static int complete_build_plain(struct complete_txn *c, const struct eng_name *upload, const uint8_t (*ids)[FMT_ID])
{
        struct eng_txn *txn = &c->txn;
        size_t need;
        int rv;

        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        need = eng_body_need(txn->name.len, c->value->len, 0) + eng_body_need(upload->len, (size_t)c->count * FMT_ID, 0);
        rv = need > FMT_BODY_MAX || c->value->len > FMT_VALUE_MAX ? -E2BIG : eng_body_begin(&txn->body, need);
        if (rv != 0)
                return rv;
        eng_body_put(&txn->body, &txn->name, c->value, eng_txn_take_seq(txn), NULL, 0);
        eng_body_end_upload(&txn->body, upload, ids, c->count);
        return 0;
}

static int complete_build_version(struct complete_txn *c, const struct eng_name *upload, const uint8_t (*ids)[FMT_ID])
{
        struct eng_new_version version = {
                .rows = &c->look.rows,
                .rules = &c->look.rules,
                .value = c->value,
                .upload = upload,
                .ids = ids,
                .id_count = c->count,
        };
        struct eng_buf *value;
        int rv = eng_version_build(&c->txn, &version, &value);

        if (rv != 0)
                return rv;
        eng_buf_unref(c->value);
        c->value = value;
        return 0;
}

static int complete_build(struct complete_txn *c)
{
        struct eng_txn *txn = &c->txn;
        uint8_t(*ids)[FMT_ID] = malloc((size_t)c->count * FMT_ID);
        struct eng_name upload;
        unsigned i;
        int rv;

        assert(c->taken == c->count && c->value == NULL);
        if (ids == NULL)
                return -ENOMEM;
        for (i = 0; i < c->count; i++)
                memcpy(ids[i], c->parts[i].id, FMT_ID);
        qsort(ids, c->count, FMT_ID, complete_by_id);
        eng_name_upload(&upload, txn->bucket, txn->key, txn->key_len, c->upload_id);
        c->value = object_value(c);
        if (c->value == NULL)
                rv = -ENOMEM;
        else if (eng_key_makes_version(&c->look))
                rv = complete_build_version(c, &upload, (const uint8_t(*)[FMT_ID])ids);
        else
                rv = complete_build_plain(c, &upload, (const uint8_t(*)[FMT_ID])ids);
        free(ids);
        return rv;
}

static void complete_append(struct eng_txn *txn)
{
        struct complete_txn *c = complete_of(txn);
        int rv = complete_build(c);

        if (rv == 0)
                eng_txn_append(txn);
        else
                eng_txn_finish(txn, rv);
}

static void scan_parts(struct complete_txn *c);

/* From the first part on, with the parts taken so far forgotten. */
static void begin_parts(struct complete_txn *c)
{
        struct eng_txn *txn = &c->txn;

        eng_name_part(&c->from, txn->bucket, txn->key, txn->key_len, c->upload_id, 0);
        c->to = c->from;
        eng_name_successor(&c->to);
        c->taken = 0;
        c->size = 0;
        c->encoded_len = 0;
        c->scan_tried = 0;
        scan_parts(c);
}

/* A member lacks a part that is named, or has another: it isn't there if most members say so. */
static void part_lacks(struct complete_txn *c)
{
        struct eng_txn *txn = &c->txn;

        c->words.slot = c->scan_slot;
        c->words.asked |= eng_bit(c->scan_slot);
        eng_words_take(&c->words, &txn->at->view, txn->pg, -ENOENT);
        if (eng_words_absent(&c->words, &txn->at->view, txn->pg))
                eng_txn_finish(txn, -EINVAL);
        else
                begin_parts(c);
}

static void finish_or_append(struct complete_txn *c, int rv)
{
        if (rv != 0)
                eng_txn_finish(&c->txn, rv);
        else if (c->look.rules.versioning == ENG_VERSIONING_ENABLED && c->look.rows.state == ENG_KEY_PLAIN)
                eng_version_convert(&c->txn, &c->look.rows, complete_append);
        else
                complete_append(&c->txn);
}

/* ---- walking the parts ----------------------------------------------------------------------- */

static int keep_part(struct complete_txn *c, const uint8_t *encoded, size_t len)
{
        assert(c->encoded_len <= c->encoded_cap);
        if (c->encoded_len + len > c->encoded_cap) {
                size_t cap = (c->encoded_cap + len) * 2;
                uint8_t *grown;

                if (cap > 2 * (size_t)FMT_BODY_MAX)
                        return -E2BIG;
                grown = realloc(c->encoded, cap);
                if (grown == NULL)
                        return -ENOMEM;
                c->encoded = grown;
                c->encoded_cap = cap;
        }
        memcpy(c->encoded + c->encoded_len, encoded, len);
        c->encoded_len += len;
        return 0;
}

/* One stored part: kept if it is the next one named. Stored parts and named ones both ascend. */
static int take_part(struct complete_txn *c, const struct eng_scan_entry *e)
{
        const uint8_t *name = eng_entry_name(e), *value = name + e->name_len;
        const struct fmt_value *v;
        struct eng_part part;
        struct fmt_value head;
        size_t pos = 0;
        unsigned number;

        assert(c->taken <= c->count);
        if (e->name_len < 2 || e->value_len < sizeof(head))
                return -EIO;
        number = (unsigned)name[e->name_len - 2] << 8 | name[e->name_len - 1];
        if (c->taken == c->count || number < c->parts[c->taken].number)
                return 0;
        if (number > c->parts[c->taken].number)
                return -EINVAL;
        memcpy(&head, value, sizeof(head));
        v = &head;
        if (memcmp(v->id, c->parts[c->taken].id, FMT_ID) != 0)
                return -EINVAL;
        if (eng_value_next_part(value, e->value_len, &pos, &part) != 1)
                return -EIO;
        c->size += v->size;
        c->taken++;
        return keep_part(c, value + eng_value_parts_at(&head), e->value_len - eng_value_parts_at(&head));
}

static void complete_parts_scanned(struct eng_op *op)
{
        struct complete_txn *c = container_of(op, struct complete_txn, scan);
        const struct eng_scan_entry *e = NULL;
        struct eng_buf *entries = op->scan.entries;
        const uint8_t *p;
        unsigned i;
        int rv = 0;

        assert(c->txn.state == ENG_TXN_PREPARE);
        if (op->result != 0 || !eng_may_say_absent(&c->txn.at->view, c->txn.pg, c->scan_slot)) {
                if (op->result == 0)
                        eng_buf_unref(entries);
                scan_parts(c);
                return;
        }
        p = entries == NULL ? NULL : entries->data;
        for (i = 0; i < op->scan.count && rv == 0; i++) {
                e = (const struct eng_scan_entry *)p;
                rv = take_part(c, e);
                p += e->size;
        }
        if (rv == 0 && op->scan.more && e != NULL) {
                c->from.len = e->name_len;
                memcpy(c->from.data, eng_entry_name(e), e->name_len);
                c->scan_tried = 0;
                eng_buf_unref(entries);
                scan_parts(c);
                return;
        }
        eng_buf_unref(entries);
        if (rv == -EINVAL || (rv == 0 && c->taken != c->count))
                part_lacks(c);
        else
                finish_or_append(c, rv);
}

static void scan_parts(struct complete_txn *c)
{
        int slot = eng_pg_reader(c->txn.at, c->txn.pg, c->scan_tried | c->words.asked);
        struct eng_op *op = &c->scan;

        if (slot < 0) {
                eng_txn_finish(&c->txn, -EHOSTDOWN);
                return;
        }
        c->scan_slot = (unsigned)slot;
        c->scan_tried |= eng_bit((unsigned)slot);
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->flags = ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS;
        op->epoch = c->txn.at->view.epoch;
        op->done = complete_parts_scanned;
        op->scan.from = c->from.data;
        op->scan.from_len = c->from.len;
        op->scan.after = true;
        op->scan.to = c->to.data;
        op->scan.to_len = c->to.len;
        op->scan.max = PAGE;
        eng_drive_submit(c->txn.store->members[slot].drive, op);
}

/* ---- the conditions -------------------------------------------------------------------------- */

/*
 * What is to die may die. The object's bytes, if they are to be recorded again, stay where the lookup
 * left them: a lookup of the null version follows only where there is nothing to convert.
 */
static void complete_may_replace(struct eng_txn *txn, int rv)
{
        struct complete_txn *c = complete_of(txn);

        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_words_begin(&c->words, &txn->at->view, txn->pg);
        begin_parts(c);
}

static void object_checked(struct eng_txn *txn, int rv)
{
        struct complete_txn *c = complete_of(txn);

        if (rv == 0)
                rv = eng_key_condition(&c->look, &c->condition);
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                eng_key_may_replace(&c->look, complete_may_replace);
}

/* 0: the object was made of these very parts. */
static int made_of(const struct complete_txn *c, const struct eng_buf *value)
{
        struct eng_part part;
        size_t pos = 0;
        unsigned i;

        for (i = 0; eng_value_next_part(value->data, value->len, &pos, &part) == 1; i++)
                if (i == c->count || part.head.number != c->parts[i].number ||
                    memcmp(part.head.id, c->parts[i].id, FMT_ID) != 0)
                        return -EINVAL;
        return i == c->count ? 0 : -EINVAL;
}

/* A row of the key that may be what the upload made. */
static void complete_repeated(struct eng_txn *txn, int rv)
{
        struct complete_txn *c = complete_of(txn);

        if (rv == 0 && memcmp(eng_value_head(txn->old->data)->upload_id, c->upload_id, FMT_ID) != 0)
                rv = -ENOENT;
        if (rv == 0)
                rv = made_of(c, txn->old);
        if (rv == 0)
                c->value = eng_buf_ref(txn->old);
        eng_txn_finish(txn, rv);
}

static void complete_version_found(struct eng_key_scan *scan, int rv)
{
        struct complete_txn *c = container_of(scan, struct complete_txn, versions);
        struct eng_txn *txn = &c->txn;

        eng_buf_unref(scan->value);
        scan->value = NULL;
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, scan->head.newest);
        eng_txn_lookup(txn, 0, complete_repeated);
}

/*
 * The upload is gone: the answer is the same as before if it made the object, or one of the key's
 * versions, of the same parts.
 */
static void repeated_key_found(struct eng_txn *txn, int rv)
{
        struct complete_txn *c = complete_of(txn);
        struct fmt_head versions;

        if (rv != 0 || !eng_value_head_field(txn->old->data, txn->old->len, &versions)) {
                complete_repeated(txn, rv);
                return;
        }
        c->versions.what = ENG_SCAN_UPLOAD;
        c->versions.done = complete_version_found;
        memcpy(c->versions.upload_id, c->upload_id, FMT_ID);
        eng_key_scan_start(&c->versions, txn);
}

static void upload_checked(struct eng_txn *txn, int rv)
{
        struct complete_txn *c = complete_of(txn);
        bool converts = c->look.rules.versioning == ENG_VERSIONING_ENABLED;

        if (rv == 0) {
                c->upload = eng_buf_ref(txn->old);
                eng_key_look(&c->look, txn, converts ? ENG_OP_WANT_INLINE : 0, object_checked);
        } else if (rv == -ENOENT) {
                eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
                eng_txn_lookup(txn, 0, repeated_key_found);
        } else {
                eng_txn_finish(txn, rv);
        }
}

static void complete_prepare(struct eng_txn *txn)
{
        struct complete_txn *c = complete_of(txn);
        int rv = eng_txn_rules(txn, &c->look.rules);

        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_new_id(txn->at, c->id);
        eng_name_upload(&txn->name, txn->bucket, txn->key, txn->key_len, c->upload_id);
        eng_txn_lookup(txn, 0, upload_checked);
}

static void complete_answered(struct eng_txn *txn)
{
        struct complete_txn *c = complete_of(txn);
        struct eng_object object;

        assert(txn->result != 0 || c->value != NULL);
        if (txn->result == 0)
                eng_value_object(c->value, &txn->name, &object);
        /* No part is repaired before this, and the walk that came with a drive may have passed one that was on its way. */
        if (txn->result == 0 && eng_value_lacks_shards(c->value->data, c->value->len))
                eng_upkeep_group(txn->store, txn->pg);
        c->done(c->arg, txn->result, txn->result == 0 ? &object : NULL);
        eng_buf_unref(c->value);
        eng_buf_unref(c->upload);
        eng_txn_drop(txn);
        free(c->parts);
        free(c->encoded);
        free(c);
}

static struct complete_txn *complete_new(const struct eng_complete_params *params)
{
        struct complete_txn *c = calloc(1, sizeof(*c) + params->commit.attrs_len);

        if (c == NULL)
                return NULL;
        c->parts = malloc(params->count * sizeof(c->parts[0]));
        if (c->parts == NULL) {
                free(c);
                return NULL;
        }
        memcpy(c->parts, params->parts, params->count * sizeof(c->parts[0]));
        c->count = params->count;
        c->condition = params->commit.condition;
        c->mtime_ms = params->commit.mtime_ms;
        memcpy(c->upload_id, params->upload_id, FMT_ID);
        memcpy(c->etag, params->commit.etag, 16);
        memcpy(c->tag, params->commit.tag, 8);
        memcpy(c->attrs, params->commit.attrs, params->commit.attrs_len);
        c->attrs_len = params->commit.attrs_len;
        return c;
}

void eng_complete(struct eng_store *store, const struct eng_complete_params *params, eng_put_done done, void *arg)
{
        bool valid = params->count >= 1 && params->count <= ENG_PARTS_MAX && params->key.len <= ENG_KEY_MAX &&
                     params->commit.attrs_len <= ENG_ATTRS_MAX;
        struct complete_txn *c;

        if (eng_is_home(store)) {
                eng_home_complete(store, params, done, arg);
                return;
        }
        c = valid ? complete_new(params) : NULL;
        if (c == NULL) {
                eng_early(store, (struct eng_early){.put = done, .arg = arg, .rv = valid ? -ENOMEM : -EINVAL});
                return;
        }
        eng_txn_init(&c->txn, store, params->bucket, params->key.data, params->key.len);
        c->txn.prepare = complete_prepare;
        c->txn.done = complete_answered;
        c->done = done;
        c->arg = arg;
        eng_txn_submit(&c->txn);
}
