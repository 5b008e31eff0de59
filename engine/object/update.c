/*
 * update.c - changes of what an object or version has beside its bytes: attrs, tags, retention,
 * legal hold. Its bytes stay where they are, but inline ones are recorded again with the value.
 *
 * Each is a txn (txn.c): prepare() runs on the key's primary loop with the key locked, done() on
 * the home loop.
 */
#include "engine/object/home_calls.h"
#include "engine/object/object.h"
#include "engine/object/version.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void update_prepare(struct eng_txn *txn);
static void extras_prepare(struct eng_txn *txn);

/* Appends the record that puts the value under txn->name, with the inline bytes that were found. */
static void update_append(struct eng_txn *txn, const struct eng_buf *value)
{
        size_t inline_len = txn->old_bytes == NULL ? 0 : txn->old_bytes->len;
        int rv = value->len > FMT_VALUE_MAX ? -E2BIG : eng_body_begin(&txn->body, eng_body_need(txn->name.len, value->len, inline_len));

        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_body_put(&txn->body, &txn->name, value, eng_txn_take_seq(txn), inline_len == 0 ? NULL : txn->old_bytes->data, inline_len);
        txn->inline_len = (uint32_t)inline_len;
        eng_txn_append(txn);
}

/* ---- rewriting attrs ------------------------------------------------------------------------- */

struct update_txn {
        struct eng_txn txn;
        struct eng_condition condition;
        struct eng_bucket_rules rules; /* owner: the primary loop */
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
                .state = v->state,
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

/* A plain object that is the null version, and stays it. */
static bool may_rewrite(const struct update_txn *up)
{
        return eng_key_rows_of(&up->txn, 0).state == ENG_KEY_PLAIN && up->rules.versioning != ENG_VERSIONING_ENABLED;
}

static void update_looked_up(struct eng_txn *txn, int rv)
{
        struct update_txn *up = (struct update_txn *)txn;

        assert(txn->prepare == update_prepare && up->value == NULL);
        if (rv == 0 && !may_rewrite(up))
                rv = -EOPNOTSUPP;
        if (rv == 0)
                rv = eng_condition_check(&up->condition, txn->old);
        if (rv == 0) {
                up->value = updated_value(up);
                rv = up->value == NULL ? -ENOMEM : 0;
        }
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                update_append(txn, up->value);
}

static void update_prepare(struct eng_txn *txn)
{
        struct update_txn *up = (struct update_txn *)txn;
        int rv = eng_txn_rules(txn, &up->rules);

        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else if (up->rules.versioning == ENG_VERSIONING_NEVER)
                eng_txn_lookup(txn, ENG_OP_WANT_INLINE, update_looked_up);
        else
                eng_txn_lookup_newest(txn, ENG_OP_WANT_INLINE, update_looked_up);
}

static void update_answered(struct eng_txn *txn)
{
        struct update_txn *up = (struct update_txn *)txn;
        struct eng_object object;

        assert(txn->prepare == update_prepare && (txn->result != 0 || up->value != NULL));
        if (txn->result == 0)
                eng_value_object(up->value, &txn->name, &object);
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

        if (eng_is_home(store)) {
                eng_home_update(store, bucket, key, condition, attrs, attrs_len, tag, done, arg);
                return;
        }
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

/* ---- tags, retention, legal hold ------------------------------------------------------------- */

struct extras_txn {
        struct eng_txn txn;
        bool by_version, lock;         /* lock: the bucket's, once prepared */
        struct eng_version version;
        struct eng_extras_change change; /* its tags, ACL and tags_seen are the bytes behind */
        struct eng_buf *value;
        eng_put_done done;
        void *arg;
        char bytes[];
};

static struct extras_txn *extras_of(struct eng_txn *txn)
{
        assert(txn->prepare == extras_prepare);
        return (struct extras_txn *)txn;
}

/* Retention that has not ended only grows, unless it is of GOVERNANCE and may be bypassed. */
static int check_retention(const struct extras_txn *ex, const struct eng_retention *now)
{
        const struct eng_retention *next = &ex->change.extras.retention;

        if (now->mode == ENG_RETENTION_NONE || now->until_ms <= eng_lock_now(ex->txn.store))
                return 0;
        if (next->mode == now->mode && next->until_ms >= now->until_ms)
                return 0;
        return now->mode == ENG_RETENTION_GOVERNANCE && ex->change.bypass_governance ? 0 : -EACCES;
}

/* The fields to be set; those that go have no bytes. In fields->data, which has room for them. */
static void changed_fields(const struct eng_extras_change *change, struct eng_fields *fields)
{
        struct fmt_retention r = {
                .until_ms = change->extras.retention.until_ms,
                .mode = change->extras.retention.mode == ENG_RETENTION_COMPLIANCE ? FMT_RETENTION_COMPLIANCE : FMT_RETENTION_GOVERNANCE,
        };

        if (change->set_tags)
                eng_fields_add(fields, FMT_FIELD_TAGS, change->extras.tags.data, change->extras.tags.len);
        if (change->set_acl)
                eng_fields_add(fields, FMT_FIELD_ACL, change->extras.acl.data, change->extras.acl.len);
        if (change->set_hold)
                eng_fields_add(fields, FMT_FIELD_HOLD, "", 1);
        if (change->set_retention)
                eng_fields_add(fields, FMT_FIELD_RETENTION, &r, change->extras.retention.mode == ENG_RETENTION_NONE ? 0 : sizeof(r));
}

static int extras_value(struct extras_txn *ex)
{
        uint8_t bytes[ENG_TAGS_MAX + ENG_ACL_MAX + 64];
        struct eng_fields fields = {.data = bytes, .size = sizeof(bytes)};
        struct fmt_value *head;

        changed_fields(&ex->change, &fields);
        ex->value = eng_value_refield(ex->txn.old, &fields);
        if (ex->value == NULL)
                return -ENOMEM;
        head = (struct fmt_value *)ex->value->data;
        if (ex->change.set_hold)
                head->state = (head->state & ~(uint32_t)FMT_STATE_HOLD) | (ex->change.extras.hold ? FMT_STATE_HOLD : 0);
        return 0;
}

/* It was changed since somebody looked at it, who decided by what there was. */
static bool extras_are_other(const struct eng_extras_change *change, const struct eng_object *found)
{
        if (change->if_id && memcmp(change->id, found->id, ENG_ID_LEN) != 0)
                return true;
        return change->if_tags &&
               (change->tags_seen.len != found->tags.len ||
                (found->tags.len > 0 && memcmp(change->tags_seen.data, found->tags.data, found->tags.len) != 0));
}

/* txn->old is the value to be changed, under txn->name. */
static void extras_row_found(struct eng_txn *txn, int rv)
{
        struct extras_txn *ex = extras_of(txn);
        struct eng_object found;

        if (rv == 0 && ex->lock && eng_txn_may_be_newer(txn))
                rv = -EHOSTDOWN;
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_value_object(txn->old, &txn->name, &found);
        if (ex->by_version && ex->version.number != 0 && memcmp(ex->version.random, found.version.random, ENG_VERSION_RANDOM) != 0)
                rv = -ENOENT;
        else if (found.marker)
                rv = -ENODATA;
        else if (extras_are_other(&ex->change, &found))
                rv = -ESTALE;
        else if (ex->change.set_retention)
                rv = check_retention(ex, &found.retention);
        if (rv == 0)
                rv = extras_value(ex);
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                update_append(txn, ex->value);
}

static void extras_key_found(struct eng_txn *txn, int rv)
{
        struct extras_txn *ex = extras_of(txn);
        struct eng_key_rows rows;
        uint64_t number;

        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        rows = eng_key_rows_of(txn, 0);
        number = !ex->by_version ? rows.versions.newest : ex->version.number != 0 ? ex->version.number : rows.versions.null_number;
        if (rows.state == ENG_KEY_PLAIN && number == 0) {
                extras_row_found(txn, 0);
        } else if (rows.state == ENG_KEY_PLAIN || number == 0) {
                eng_txn_finish(txn, -ENOENT);
        } else {
                eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, number);
                eng_txn_lookup_all(txn, ENG_OP_WANT_INLINE, extras_row_found); /* one of them may know of a retention */
        }
}

static void extras_prepare(struct eng_txn *txn)
{
        struct extras_txn *ex = extras_of(txn);
        struct eng_bucket_rules rules;
        int rv = eng_txn_rules(txn, &rules);

        if (rv == 0 && (ex->change.set_retention || ex->change.set_hold) && !rules.lock)
                rv = -ENOLCK;
        if (rv == 0)
                rv = eng_txn_grows(txn);
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        ex->lock = rules.lock;
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        if (rules.lock)
                eng_txn_lookup_all(txn, ENG_OP_WANT_INLINE, extras_key_found);
        else
                eng_txn_lookup_newest(txn, ENG_OP_WANT_INLINE, extras_key_found);
}

static void extras_answered(struct eng_txn *txn)
{
        struct extras_txn *ex = extras_of(txn);
        struct eng_object object;

        if (txn->result == 0)
                eng_value_object(ex->value, &txn->name, &object);
        ex->done(ex->arg, txn->result, txn->result == 0 ? &object : NULL);
        eng_buf_unref(ex->value);
        eng_txn_drop(txn);
        free(ex);
}

void eng_extras_set(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version,
                    const struct eng_extras_change *change, eng_put_done done, void *arg)
{
        size_t tags_len = change->set_tags ? change->extras.tags.len : 0;
        size_t acl_len = change->set_acl ? change->extras.acl.len : 0;
        size_t seen_len = change->if_tags ? change->tags_seen.len : 0;
        bool fit = key.len <= ENG_KEY_MAX && tags_len <= ENG_TAGS_MAX && acl_len <= ENG_ACL_MAX && seen_len <= ENG_TAGS_MAX;
        struct extras_txn *ex;

        if (eng_is_home(store)) {
                eng_home_extras(store, bucket, key, version, change, done, arg);
                return;
        }
        ex = fit ? calloc(1, sizeof(*ex) + tags_len + acl_len + seen_len) : NULL;
        if (ex == NULL) {
                eng_early(store, (struct eng_early){.put = done, .arg = arg, .rv = fit ? -ENOMEM : -EINVAL});
                return;
        }
        eng_txn_init(&ex->txn, store, bucket, key.data, key.len);
        ex->by_version = version != NULL;
        if (version != NULL)
                ex->version = *version;
        ex->change = *change;
        if (tags_len != 0)
                memcpy(ex->bytes, change->extras.tags.data, tags_len);
        if (acl_len != 0)
                memcpy(ex->bytes + tags_len, change->extras.acl.data, acl_len);
        if (seen_len != 0)
                memcpy(ex->bytes + tags_len + acl_len, change->tags_seen.data, seen_len);
        ex->change.extras.tags = (struct eng_str){ex->bytes, tags_len};
        ex->change.extras.acl = (struct eng_str){ex->bytes + tags_len, acl_len};
        ex->change.tags_seen = (struct eng_str){ex->bytes + tags_len + acl_len, seen_len};
        ex->txn.prepare = extras_prepare;
        ex->txn.done = extras_answered;
        ex->done = done;
        ex->arg = arg;
        eng_txn_submit_with(&ex->txn, FMT_FEATURE_VERSIONS);
}
