/*
 * key_rows.c - looks up which rows a key has, for a change, and whether the change may replace what
 * it would.
 *
 * A record is built from the key's OBJECT row: so two members are asked for it where two speak, and
 * where no member can read it, VERSION rows decide. The primary loop of the key, with the key locked.
 */
#include "engine/object/key_rows.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct eng_key_rows eng_key_rows_of(const struct eng_txn *txn, int rv)
{
        struct eng_key_rows rows = {.state = ENG_KEY_NONE};

        assert(rv == 0 || rv == -ENOENT);
        if (rv != 0)
                return rows;
        rows.state = ENG_KEY_PLAIN;
        if (eng_value_head_field(txn->old->data, txn->old->len, &rows.versions)) {
                rows.state = ENG_KEY_VERSIONS;
                rows.marker = (eng_value_head(txn->old->data)->state & FMT_STATE_MARKER) != 0;
        }
        return rows;
}

int eng_txn_rules(const struct eng_txn *txn, struct eng_bucket_rules *out)
{
        const struct eng_config_bucket *bucket = eng_bucket_by_id(txn->at, txn->bucket);

        if (bucket == NULL)
                return -EIDRM;
        *out = bucket->bucket.rules;
        if (out->lock)
                out->versioning = ENG_VERSIONING_ENABLED;
        return 0;
}

int eng_txn_grows(const struct eng_txn *txn)
{
        return atomic_load(&txn->store->full) ? -ENOSPC : 0;
}

/* ---- protection ------------------------------------------------------------------------------ */

bool eng_value_is_protected(const struct eng_buf *value)
{
        size_t len;

        return (eng_value_head(value->data)->state & FMT_STATE_HOLD) != 0 ||
               eng_value_field(value->data, value->len, FMT_FIELD_RETENTION, &len) != NULL;
}

int eng_version_unprotected(struct eng_store *store, const struct eng_buf *value, bool bypass_governance)
{
        struct eng_object object;

        eng_value_object(value, NULL, &object);
        if (object.hold)
                return -EACCES;
        if (object.retention.mode == ENG_RETENTION_NONE || object.retention.until_ms <= eng_lock_now(store))
                return 0;
        return object.retention.mode == ENG_RETENTION_GOVERNANCE && bypass_governance ? 0 : -EACCES;
}

/* What cannot be read may be protected where the bucket has object lock. */
static int unread_unprotected(const struct eng_txn *txn, const struct eng_key_look *look)
{
        if (txn->unread != NULL)
                return eng_version_unprotected(txn->store, txn->unread, false);
        return look->rules.lock ? -EIO : 0;
}

/* ---- the lookup ------------------------------------------------------------------------------ */

/* VERSION rows of a key whose OBJECT row cannot be read. */
static void look_scanned(struct eng_key_scan *scan, int rv)
{
        struct eng_key_look *look = container_of(scan, struct eng_key_look, scan);
        struct eng_txn *txn = look->txn;

        if (rv == 0) {
                look->rows = (struct eng_key_rows){.state = ENG_KEY_VERSIONS, .versions = scan->head};
                look->rows.marker = (eng_value_head(scan->value->data)->state & FMT_STATE_MARKER) != 0;
                eng_buf_unref(txn->old);
                txn->old = scan->value;
                scan->value = NULL;
        } else if (rv == -ENOENT) {
                look->rows = (struct eng_key_rows){.state = ENG_KEY_PLAIN, .unread = true};
        }
        look->done(txn, rv == 0 || rv == -ENOENT ? 0 : look->result);
}

static void look_unread(struct eng_key_look *look)
{
        const struct eng_buf *value = look->txn->unread; /* known, its inline bytes damaged */

        if (value != NULL && (eng_value_head(value->data)->state & FMT_STATE_HEAD) == 0) {
                look->rows = (struct eng_key_rows){.state = ENG_KEY_PLAIN, .unread = true};
                look->done(look->txn, 0);
                return;
        }
        memset(&look->scan, 0, sizeof(look->scan));
        look->scan.what = ENG_SCAN_HEAD;
        look->scan.done = look_scanned;
        eng_key_scan_start(&look->scan, look->txn);
}

static void look_found(struct eng_txn *txn, int rv)
{
        struct eng_key_look *look = txn->look;

        assert(look != NULL && look->txn == txn);
        if (rv == 0 || rv == -ENOENT) {
                look->rows = eng_key_rows_of(txn, rv);
                look->done(txn, 0);
        } else if (rv == -EIO && look->rules.versioning != ENG_VERSIONING_NEVER) {
                look->result = rv;
                look_unread(look);
        } else {
                look->done(txn, rv);
        }
}

void eng_key_look(struct eng_key_look *look, struct eng_txn *txn, unsigned flags,
                  void (*done)(struct eng_txn *txn, int rv))
{
        look->txn = txn;
        look->done = done;
        txn->look = look;
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        if (look->rules.lock)
                eng_txn_lookup_all(txn, flags, look_found); /* it may be an object that is protected */
        else if (look->rules.versioning == ENG_VERSIONING_NEVER)
                eng_txn_lookup(txn, flags, look_found);
        else
                eng_txn_lookup_newest(txn, flags, look_found);
}

bool eng_key_is_present(const struct eng_key_rows *rows)
{
        return rows->state != ENG_KEY_NONE && !rows->marker;
}

int eng_key_condition(const struct eng_key_look *look, const struct eng_condition *condition)
{
        const struct eng_buf *value = look->rows.unread ? look->txn->unread : look->txn->old;

        if (!eng_condition_asks(condition))
                return 0;
        if (look->rows.unread && value == NULL)
                return -EIO;
        return eng_condition_check(condition, eng_key_is_present(&look->rows) ? value : NULL);
}

/* ---- what would die -------------------------------------------------------------------------- */

static void replaced_found(struct eng_txn *txn, int rv)
{
        struct eng_key_look *look = txn->look;

        if (rv == 0 && look->rules.lock && eng_txn_may_be_newer(txn))
                rv = -EHOSTDOWN;
        else if (rv == 0)
                rv = eng_version_unprotected(txn->store, txn->old, false);
        else if (rv == -ENOENT)
                rv = 0;
        else if (rv == -EIO)
                rv = unread_unprotected(txn, look);
        look->done(txn, rv);
}

void eng_key_may_replace(struct eng_key_look *look, void (*done)(struct eng_txn *txn, int rv))
{
        struct eng_txn *txn = look->txn;
        struct eng_key_rows *rows = &look->rows;
        int rv = 0;

        if (rows->state == ENG_KEY_PLAIN && rows->unread) {
                rv = unread_unprotected(txn, look);
                rows->state = ENG_KEY_NONE;
        } else if (rows->state == ENG_KEY_PLAIN && look->rules.versioning != ENG_VERSIONING_ENABLED) {
                rv = eng_version_unprotected(txn->store, txn->old, false);
        } else if (rows->versions.null_number != 0 && look->rules.versioning != ENG_VERSIONING_ENABLED) {
                look->done = done;
                eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, rows->versions.null_number);
                eng_txn_lookup_all(txn, 0, replaced_found);
                return;
        }
        done(txn, rv);
}
