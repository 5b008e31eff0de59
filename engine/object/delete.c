/*
 * delete.c - deletes of objects, of versions, and what takes their place: delete markers, the next
 * newest version.
 *
 * A txn (txn.c): prepare() runs on the key's primary loop with the key locked, done() on the home
 * loop. Which record it is: docs/design/versions.md, "Changes".
 *
 * When the newest version is deleted, the key's head must name the next one. Two members are asked
 * for it where two speak for the group, and the newer of their answers counts: a row that one
 * member lost must not make an older version the current one (V8).
 */
#include "engine/object/object.h"
#include "engine/object/version.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct delete_txn {
        struct eng_txn txn;
        struct eng_condition condition;
        bool by_version, bypass_governance;
        struct eng_version version;    /* wanted */
        struct eng_deleted deleted;    /* answer */
        eng_delete_done done;
        void *arg;
        /* owner: primary loop */
        struct eng_bucket_rules rules;
        struct eng_key_rows rows;
        struct eng_buf *head;          /* of the key, while one of its versions is deleted */
        uint64_t number;               /* of that version */
        struct eng_op scan;            /* for the next newest */
        struct eng_name from, to;
        unsigned slot;                 /* that was asked last */
        eng_mask asked;
        unsigned answers;
        uint64_t next;                 /* 0: none so far */
        struct eng_buf *next_value;
};

static void object_delete_prepare(struct eng_txn *txn);

static struct delete_txn *delete_of(struct eng_txn *txn)
{
        assert(txn->prepare == object_delete_prepare);
        return (struct delete_txn *)txn;
}

/* ---- delete markers -------------------------------------------------------------------------- */

static void delete_put_marker(struct eng_txn *txn)
{
        struct delete_txn *del = delete_of(txn);
        struct eng_new_version version = {
                .rows = &del->rows, .null = del->rules.versioning != ENG_VERSIONING_ENABLED, .marker = true};
        struct eng_object object;
        struct eng_buf *value;
        int rv = eng_version_build(txn, &version, &value);

        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_value_object(value, &txn->name, &object);
        eng_buf_unref(value);
        del->deleted.marker = true;
        del->deleted.version = object.version;
        eng_txn_append(txn);
}

static void delete_object(struct delete_txn *del)
{
        struct eng_txn *txn = &del->txn;

        if (del->rules.versioning == ENG_VERSIONING_NEVER && del->rows.state != ENG_KEY_VERSIONS) {
                if (del->deleted.existed)
                        eng_txn_delete_name(txn);
                else
                        eng_txn_finish(txn, 0);
        } else if (del->rules.versioning == ENG_VERSIONING_ENABLED && del->rows.state == ENG_KEY_PLAIN) {
                eng_version_convert(txn, &del->rows, delete_put_marker);
        } else {
                delete_put_marker(txn);
        }
}

/* ---- a version ------------------------------------------------------------------------------- */

/* Two mutations at most, beside the head: there is always room for them. */
static void delete_append_version(struct delete_txn *del)
{
        struct eng_txn *txn = &del->txn;
        struct fmt_head versions = del->rows.versions;
        bool newest = versions.newest == del->number, null = versions.null_number == del->number;
        const struct eng_buf *now = newest ? del->next_value : del->head;
        struct eng_name name;
        int rv;

        if (null)
                versions.null_number = 0;
        if (null)
                memset(versions.null_id, 0, sizeof(versions.null_id));
        if (newest)
                versions.newest = del->next;
        eng_name_object(&name, txn->bucket, txn->key, txn->key_len);
        rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, 0, 0) + eng_version_head_need(txn));
        if (rv == 0) {
                eng_txn_take_seq(txn);
                eng_body_delete(&txn->body, &txn->name);
                if (newest && now == NULL)
                        eng_body_delete(&txn->body, &name);
                else if (newest || null)
                        rv = eng_version_head(txn, now, &versions);
        }
        if (rv == 0)
                eng_txn_append(txn);
        else
                eng_txn_finish(txn, rv);
}

static void delete_find_next(struct delete_txn *del);

static int delete_keep_next(struct delete_txn *del, const struct eng_scan_entry *e)
{
        const uint8_t *name = (const uint8_t *)(e + 1);
        uint64_t number;
        struct eng_buf *value;

        if (e->name_len <= sizeof(number) || name[0] != FMT_SPACE_VERSION || e->value_len < sizeof(struct fmt_value))
                return -EIO;
        number = eng_name_version_number(name, e->name_len);
        if (number <= del->next)
                return 0;
        value = eng_buf_new(sizeof(struct fmt_value));
        if (value == NULL)
                return -ENOMEM;
        memcpy(value->data, name + e->name_len, sizeof(struct fmt_value));
        eng_buf_unref(del->next_value);
        del->next_value = value;
        del->next = number;
        return 0;
}

static void delete_next_found(struct eng_op *op)
{
        struct delete_txn *del = container_of(op, struct delete_txn, scan);
        int rv = 0;

        assert(del->txn.state == ENG_TXN_PREPARE);
        if (op->result == 0) {
                if (eng_may_say_absent(&del->txn.at->view, del->txn.pg, del->slot))
                        del->answers++;
                if (op->scan.count > 0)
                        rv = delete_keep_next(del, (const struct eng_scan_entry *)op->scan.entries->data);
                eng_buf_unref(op->scan.entries);
        }
        if (rv != 0)
                eng_txn_finish(&del->txn, rv);
        else
                delete_find_next(del);
}

static void delete_find_next(struct delete_txn *del)
{
        struct eng_txn *txn = &del->txn;
        struct eng_op *op = &del->scan;
        int slot = del->answers >= ENG_ABSENT_SURE ? -1 : eng_pg_reader(txn->at, txn->pg, del->asked);

        if (slot < 0) {
                if (del->answers == 0)
                        eng_txn_finish(txn, -EHOSTDOWN);
                else
                        delete_append_version(del);
                return;
        }
        del->slot = (unsigned)slot;
        del->asked |= eng_bit(del->slot);
        del->from = del->to = txn->name;
        del->to.len = (uint16_t)(del->to.len - sizeof(uint64_t)); /* all versions of the key */
        eng_name_successor(&del->to);
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->epoch = txn->at->view.epoch;
        op->done = delete_next_found;
        op->scan.from = del->from.data;
        op->scan.from_len = del->from.len;
        op->scan.after = true;
        op->scan.to = del->to.data;
        op->scan.to_len = del->to.len;
        op->scan.max = 1;
        eng_drive_submit(txn->store->members[slot].drive, op);
}

static bool is_wanted_version(const struct delete_txn *del, const struct eng_object *found)
{
        return del->version.number == 0 || memcmp(del->version.random, found->version.random, ENG_VERSION_RANDOM) == 0;
}

/* The version's row was looked for: a condition is about it. */
static void delete_version_found(struct eng_txn *txn, int rv)
{
        struct delete_txn *del = delete_of(txn);
        bool asks = eng_condition_asks(&del->condition);
        struct eng_object found;

        if (rv == 0) {
                eng_value_object(txn->old, &txn->name, &found);
                if (!is_wanted_version(del, &found))
                        rv = -ENOENT;
        }
        if (rv == 0)
                rv = eng_condition_check(&del->condition, txn->old);
        if (rv == 0)
                rv = eng_version_unprotected(txn->old, del->bypass_governance);
        if (rv != 0) {
                eng_txn_finish(txn, rv == -ENOENT && !asks ? 0 : rv);
                return;
        }
        del->deleted.existed = true;
        del->deleted.marker = found.marker;
        if (del->rows.state == ENG_KEY_PLAIN)
                eng_txn_delete_name(txn);
        else if (del->rows.versions.newest == del->number)
                delete_find_next(del);
        else
                delete_append_version(del);
}

static void delete_version(struct delete_txn *del)
{
        struct eng_txn *txn = &del->txn;
        bool null = del->version.number == 0;

        del->deleted.version = del->version;
        del->number = null ? del->rows.versions.null_number : del->version.number;
        if (del->rows.state == ENG_KEY_PLAIN && null) {
                delete_version_found(txn, 0);
                return;
        }
        if (del->rows.state != ENG_KEY_VERSIONS || del->number == 0) {
                eng_txn_finish(txn, eng_condition_asks(&del->condition) ? -ENOENT : 0);
                return;
        }
        del->head = eng_buf_ref(txn->old);
        eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, del->number);
        eng_txn_lookup(txn, 0, delete_version_found);
}

/* ---- the key --------------------------------------------------------------------------------- */

/*
 * The key's row cannot be read. Where it can only be a plain object it goes, whatever it is, as by an
 * overwrite.
 */
static bool goes_unread(const struct delete_txn *del)
{
        return del->txn.words.damaged != 0 && del->rules.versioning == ENG_VERSIONING_NEVER && !eng_condition_asks(&del->condition);
}

static void delete_looked_up(struct eng_txn *txn, int rv)
{
        struct delete_txn *del = delete_of(txn);

        if (rv != 0 && rv != -ENOENT) {
                if (!goes_unread(del)) {
                        eng_txn_finish(txn, rv);
                        return;
                }
                del->deleted.existed = true;
                eng_txn_delete_name(txn);
                return;
        }
        del->rows = eng_key_rows_of(txn, rv);
        del->deleted.versioned = del->rules.versioning != ENG_VERSIONING_NEVER;
        if (del->by_version) {
                delete_version(del);
                return;
        }
        del->deleted.existed = eng_key_present(txn, &del->rows) != NULL;
        rv = eng_condition_asks(&del->condition) ? eng_condition_check(&del->condition, eng_key_present(txn, &del->rows)) : 0;
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                delete_object(del);
}

static void object_delete_prepare(struct eng_txn *txn)
{
        struct delete_txn *del = delete_of(txn);
        bool converts;

        del->rules = eng_txn_rules(txn);
        converts = !del->by_version && del->rules.versioning == ENG_VERSIONING_ENABLED;
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        eng_txn_lookup(txn, converts ? ENG_OP_WANT_INLINE : 0, delete_looked_up);
}

static void delete_answered(struct eng_txn *txn)
{
        struct delete_txn *del = delete_of(txn);

        del->done(del->arg, txn->result, &del->deleted);
        eng_buf_unref(del->head);
        eng_buf_unref(del->next_value);
        eng_txn_drop(txn);
        free(del);
}

void eng_delete(struct eng_store *store, const struct eng_delete_params *params, eng_delete_done done, void *arg)
{
        bool fit = params->key.len <= ENG_KEY_MAX;
        struct delete_txn *del = fit ? calloc(1, sizeof(*del)) : NULL;

        if (del == NULL) {
                eng_early(store, (struct eng_early){.deleted = done, .arg = arg, .rv = fit ? -ENOMEM : -EINVAL});
                return;
        }
        eng_txn_init(&del->txn, store, params->bucket, params->key.data, params->key.len);
        del->condition = params->condition;
        del->bypass_governance = params->bypass_governance;
        del->by_version = params->version != NULL;
        if (del->by_version)
                del->version = *params->version;
        del->txn.prepare = object_delete_prepare;
        del->txn.done = delete_answered;
        del->done = done;
        del->arg = arg;
        eng_txn_submit(&del->txn);
}
