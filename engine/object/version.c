/*
 * version.c - records of keys with versions: the head and the version in one record, and the record
 * that makes a plain object a version.
 *
 * Each record leaves its key as docs/design/versions.md says: a plain object and no version, or a
 * head and at least one version. The version is the last mutation of its record, because its inline
 * bytes end the record (V5). What dies by a record is decided by the drives, from the rows alone
 * (V9). Everything here runs on the primary loop, with the key locked.
 */
#include "engine/object/version.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DAY_MS (24ll * 3600 * 1000)
#define YEAR_DAYS 365

/* ---- values ---------------------------------------------------------------------------------- */

static bool has_field(const struct eng_fields *fields, unsigned kind)
{
        struct fmt_field field;
        size_t at;

        for (at = 0; at < fields->len; at += eng_field_size(field.len)) {
                memcpy(&field, fields->data + at, sizeof(field));
                if (field.kind == kind)
                        return true;
        }
        return false;
}

/* Adds the fields that are not to be removed; returns the bytes added. */
static size_t copy_fields(uint8_t *to, const struct eng_fields *fields)
{
        struct fmt_field field;
        size_t at, len = 0;

        for (at = 0; at < fields->len; at += eng_field_size(field.len)) {
                memcpy(&field, fields->data + at, sizeof(field));
                if (field.len == 0)
                        continue;
                memcpy(to + len, fields->data + at, eng_field_size(field.len));
                len += eng_field_size(field.len);
        }
        return len;
}

struct eng_buf *eng_value_refield(const struct eng_buf *value, const struct eng_fields *more)
{
        const struct fmt_value *old = eng_value_head(value->data);
        size_t fields_at = sizeof(*old) + old->attrs_len, parts_at = eng_value_parts_at(old), len = fields_at, pos = 0, at = fields_at;
        struct eng_buf *out = eng_buf_new(value->len + more->len);
        struct fmt_value *head;
        struct fmt_field field;
        const uint8_t *data;

        if (out == NULL)
                return NULL;
        memcpy(out->data, value->data, fields_at);
        while (eng_value_next_field(value->data, value->len, &pos, &field, &data) == 1) {
                if (!has_field(more, field.kind)) {
                        memcpy(out->data + len, value->data + at, pos - at);
                        len += pos - at;
                }
                at = pos;
        }
        len += copy_fields(out->data + len, more);
        assert(len - fields_at <= FMT_FIELDS_MAX);
        head = (struct fmt_value *)out->data;
        head->fields_len = (uint16_t)(len - fields_at);
        head->crc = 0; /* of where the old one stands */
        head->log_file = head->log_position = 0;
        memcpy(out->data + len, value->data + parts_at, value->len - parts_at);
        out->len = (uint32_t)(len + value->len - parts_at);
        return out;
}

static void add_retention(struct eng_fields *fields, const struct eng_retention *retention)
{
        struct fmt_retention r = {
                .until_ms = retention->until_ms,
                .mode = retention->mode == ENG_RETENTION_COMPLIANCE ? FMT_RETENTION_COMPLIANCE : FMT_RETENTION_GOVERNANCE,
        };

        if (retention->mode != ENG_RETENTION_NONE)
                eng_fields_add(fields, FMT_FIELD_RETENTION, &r, sizeof(r));
}

int eng_extras_encode(const struct eng_extras *extras, struct eng_fields *fields, uint32_t *state)
{
        bool any = extras->tags.len != 0 || extras->acl.len != 0 || extras->retention.mode != ENG_RETENTION_NONE ||
                   extras->no_hold;

        memset(fields, 0, sizeof(*fields));
        *state = extras->hold ? FMT_STATE_HOLD : 0;
        if (extras->tags.len > ENG_TAGS_MAX || extras->acl.len > ENG_ACL_MAX)
                return -EINVAL;
        if (!any)
                return 0;
        fields->size = eng_field_size(extras->tags.len) + eng_field_size(extras->acl.len) +
                       eng_field_size(sizeof(struct fmt_retention)) + eng_field_size(1);
        fields->data = malloc(fields->size);
        if (fields->data == NULL)
                return -ENOMEM;
        if (extras->tags.len != 0)
                eng_fields_add(fields, FMT_FIELD_TAGS, extras->tags.data, extras->tags.len);
        if (extras->acl.len != 0)
                eng_fields_add(fields, FMT_FIELD_ACL, extras->acl.data, extras->acl.len);
        add_retention(fields, &extras->retention);
        if (extras->no_hold)
                eng_fields_add(fields, FMT_FIELD_HOLD, "", 1);
        return 0;
}

/* The head of a key: about its newest version, for listings and conditions, it says what that says. */
static struct eng_buf *head_value(struct eng_txn *txn, const struct eng_buf *newest, const struct fmt_head *versions)
{
        const struct fmt_value *v = eng_value_head(newest->data);
        uint8_t bytes[sizeof(struct fmt_field) + sizeof(*versions)], id[FMT_ID];
        struct eng_fields fields = {.data = bytes, .size = sizeof(bytes)};
        struct eng_value_spec spec = {
                .space = FMT_SPACE_OBJECT,
                .pg = txn->pg,
                .size = v->size,
                .mtime_ms = v->mtime_ms,
                .id = id,
                .etag = v->etag,
                .upload_id = v->upload_id,
                .tag = v->tag,
                .etag_parts = v->etag_parts,
                .state = FMT_STATE_HEAD | (v->state & (FMT_STATE_MARKER | FMT_STATE_NULL)),
                .fields = bytes,
                .fields_len = sizeof(bytes),
        };

        eng_new_id(txn->at, id); /* of no version: what is said of a version by its id is not said of the head */
        eng_fields_add(&fields, FMT_FIELD_HEAD, versions, sizeof(*versions));
        return eng_value_new(&spec);
}

int eng_version_head(struct eng_txn *txn, const struct eng_buf *newest, const struct fmt_head *versions)
{
        struct eng_buf *head = head_value(txn, newest, versions);
        struct eng_name name;

        if (head == NULL)
                return -ENOMEM;
        eng_name_object(&name, txn->bucket, txn->key, txn->key_len);
        eng_body_put(&txn->body, &name, head, txn->seq, NULL, 0);
        eng_buf_unref(head);
        return 0;
}

size_t eng_version_head_need(const struct eng_txn *txn)
{
        return eng_body_need(9u + txn->key_len, sizeof(struct fmt_value) + eng_field_size(sizeof(struct fmt_head)), 0);
}

/* ---- a plain object becomes a version -------------------------------------------------------- */

/* The plain object's value as that of the null version. */
static struct eng_buf *null_version(const struct eng_buf *plain)
{
        struct eng_buf *value = eng_value_refield(plain, &(struct eng_fields){.len = 0});
        struct fmt_value *head;

        if (value == NULL)
                return NULL;
        head = (struct fmt_value *)value->data;
        head->space = FMT_SPACE_VERSION;
        head->state |= FMT_STATE_NULL;
        return value;
}

static int convert_build(struct eng_txn *txn, const struct fmt_head *versions)
{
        size_t inline_len = txn->old_bytes == NULL ? 0 : txn->old_bytes->len;
        struct eng_buf *value = null_version(txn->old);
        int rv = value == NULL ? -ENOMEM : 0;

        eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, versions->newest);
        if (rv == 0)
                rv = eng_body_begin(&txn->body, eng_version_head_need(txn) + eng_body_need(txn->name.len, value->len, inline_len));
        if (rv == 0) {
                eng_txn_take_seq(txn);
                rv = eng_version_head(txn, value, versions);
        }
        if (rv == 0)
                eng_body_put(&txn->body, &txn->name, value, txn->seq, inline_len == 0 ? NULL : txn->old_bytes->data, inline_len);
        txn->inline_len = (uint32_t)inline_len;
        eng_buf_unref(value);
        return rv;
}

void eng_version_convert(struct eng_txn *txn, struct eng_key_rows *rows, void (*then)(struct eng_txn *txn))
{
        const struct fmt_value *plain = eng_value_head(txn->old->data);
        int rv;

        assert(rows->state == ENG_KEY_PLAIN && (plain->inline_len == 0 || txn->old_bytes != NULL));
        rows->state = ENG_KEY_VERSIONS;
        rows->versions = (struct fmt_head){.newest = plain->seq, .null_number = plain->seq};
        memcpy(rows->versions.null_id, plain->id, FMT_ID);
        rv = eng_txn_grows(txn);
        if (rv == 0)
                rv = convert_build(txn, &rows->versions);
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        txn->then = then;
        eng_txn_append(txn);
}

/* ---- a new version --------------------------------------------------------------------------- */

/* It begins by the clock that is ahead: a clock that was set does not shorten it. */
static void default_retention(struct eng_store *store, const struct eng_bucket_rules *rules, struct eng_fields *fields)
{
        int64_t days = (int64_t)rules->default_period * (rules->default_years ? YEAR_DAYS : 1);
        int64_t now = eng_lock_now(store), wall = lp_wall_ms();
        struct eng_retention retention = {.mode = rules->default_mode, .until_ms = (now > wall ? now : wall) + days * DAY_MS};

        add_retention(fields, &retention);
}

static struct eng_buf *marker_value(struct eng_txn *txn)
{
        uint8_t id[FMT_ID];
        struct eng_value_spec spec = {
                .space = FMT_SPACE_OBJECT, .pg = txn->pg, .mtime_ms = lp_wall_ms(), .id = id, .state = FMT_STATE_MARKER};

        eng_new_id(txn->at, id);
        return eng_value_new(&spec);
}

/* The value of a version's row. */
static struct eng_buf *version_value(struct eng_store *store, const struct eng_bucket_rules *rules, const struct eng_buf *value, bool null)
{
        uint8_t bytes[128], random[ENG_VERSION_RANDOM];
        struct eng_fields fields = {.data = bytes, .size = sizeof(bytes)};
        struct eng_buf *out;
        struct fmt_value *head;
        size_t len;

        if (!null) {
                lp_random(random, sizeof(random));
                eng_fields_add(&fields, FMT_FIELD_VERSION, random, sizeof(random));
        }
        if (rules->lock && rules->default_mode != ENG_RETENTION_NONE && (eng_value_head(value->data)->state & FMT_STATE_MARKER) == 0 &&
            eng_value_field(value->data, value->len, FMT_FIELD_RETENTION, &len) == NULL)
                default_retention(store, rules, &fields);
        out = eng_value_refield(value, &fields);
        if (out == NULL)
                return NULL;
        head = (struct fmt_value *)out->data;
        head->space = FMT_SPACE_VERSION;
        head->state |= null ? FMT_STATE_NULL : 0;
        return out;
}

/* It takes the place of the null version. */
static bool is_null_version(const struct eng_new_version *version)
{
        return version->rules->versioning != ENG_VERSIONING_ENABLED;
}

/* All mutations, once there is room for them. */
static int put_mutations(struct eng_txn *txn, const struct eng_new_version *version, const struct eng_buf *value)
{
        struct fmt_head *versions = &version->rows->versions;
        struct eng_name old;
        int rv;

        if (is_null_version(version) && versions->null_number != 0) {
                eng_name_version(&old, txn->bucket, txn->key, txn->key_len, versions->null_number);
                eng_body_delete(&txn->body, &old);
        }
        versions->newest = txn->seq;
        if (is_null_version(version)) {
                versions->null_number = txn->seq;
                memcpy(versions->null_id, eng_value_head(value->data)->id, FMT_ID);
        }
        rv = eng_version_head(txn, value, versions);
        if (rv == 0 && version->upload != NULL)
                eng_body_end_upload(&txn->body, version->upload, version->ids, version->id_count);
        if (rv == 0)
                eng_body_put(&txn->body, &txn->name, value, txn->seq, version->bytes, version->inline_len);
        txn->inline_len = (uint32_t)version->inline_len;
        return rv;
}

int eng_version_build(struct eng_txn *txn, const struct eng_new_version *version, struct eng_buf **out)
{
        struct eng_buf *given = version->marker ? marker_value(txn) : version->value;
        struct eng_buf *value = given == NULL ? NULL : version_value(txn->store, version->rules, given, is_null_version(version));
        size_t need;
        int rv = value == NULL ? -ENOMEM : value->len > FMT_VALUE_MAX ? -E2BIG : 0;

        assert(version->marker == (version->value == NULL));
        if (version->marker)
                eng_buf_unref(given);
        if (rv == 0) {
                eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, 0);
                need = eng_version_head_need(txn) + 2 * eng_body_need(txn->name.len, 0, 0) + value->len + version->inline_len;
                if (version->upload != NULL)
                        need += eng_body_need(version->upload->len, version->id_count * FMT_ID, 0);
                rv = need > FMT_BODY_MAX ? -E2BIG : eng_body_begin(&txn->body, need);
        }
        if (rv == 0) {
                eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, eng_txn_take_seq(txn));
                rv = put_mutations(txn, version, value);
        }
        if (rv == 0)
                *out = value;
        else
                eng_buf_unref(value);
        return rv;
}

/* ---- a version goes -------------------------------------------------------------------------- */

/* Two mutations, beside the head: there is always room for them. */
int eng_version_build_delete(struct eng_txn *txn, const struct eng_gone_version *gone)
{
        struct fmt_head versions = gone->versions;
        bool newest = versions.newest == gone->number, null = versions.null_number == gone->number;
        const struct eng_buf *now = newest ? gone->next->value : gone->head;
        struct eng_name name;
        int rv;

        if (null) {
                versions.null_number = 0;
                memset(versions.null_id, 0, sizeof(versions.null_id));
        }
        if (newest)
                versions.newest = gone->next->head.newest;
        eng_name_object(&name, txn->bucket, txn->key, txn->key_len);
        eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, gone->number);
        rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, 0, 0) + eng_version_head_need(txn));
        if (rv != 0)
                return rv;
        eng_txn_take_seq(txn);
        eng_body_delete(&txn->body, &txn->name);
        if (newest && now == NULL)
                eng_body_delete(&txn->body, &name);
        else if (newest || null)
                rv = eng_version_head(txn, now, &versions);
        return rv;
}
