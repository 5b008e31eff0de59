/*
 * delete.c - deletes of objects, of versions, and what takes their place: delete markers, the next
 * newest version.
 *
 * A txn (txn.c): prepare() runs on the key's primary loop with the key locked, done() on the home
 * loop. Which record it is: docs/design/versions.md, "Changes".
 *
 * When the newest version is deleted, the key's head must name the next one, which is searched for
 * (V8). A head that names a version whose row is gone is put right by a delete of that version.
 */
#include "engine/object/home_calls.h"
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
        enum eng_place place;          /* of the wanted version */
        struct eng_version version;    /* wanted */
        struct eng_deleted deleted;    /* answer */
        eng_delete_done done;
        void *arg;
        /* owner: primary loop */
        struct eng_key_look look;
        struct eng_buf *head;          /* of the key, while one of its versions is deleted */
        uint64_t number;               /* of that version */
        struct eng_key_scan next;      /* for the next newest */
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
        struct eng_new_version version = {.rows = &del->look.rows, .rules = &del->look.rules, .marker = true};
        struct eng_object object;
        struct eng_buf *value;
        int rv = eng_txn_grows(txn);

        if (rv == 0)
                rv = eng_version_build(txn, &version, &value);
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

static void delete_may_replace(struct eng_txn *txn, int rv)
{
        struct delete_txn *del = delete_of(txn);

        if (rv != 0)
                eng_txn_finish(txn, rv);
        else if (del->look.rules.versioning == ENG_VERSIONING_ENABLED && del->look.rows.state == ENG_KEY_PLAIN)
                eng_version_convert(txn, &del->look.rows, delete_put_marker);
        else
                delete_put_marker(txn);
}

static void delete_object(struct delete_txn *del)
{
        struct eng_txn *txn = &del->txn;
        int rv;

        if (del->look.rules.versioning != ENG_VERSIONING_NEVER || del->look.rows.state == ENG_KEY_VERSIONS) {
                eng_key_may_replace(&del->look, delete_may_replace);
                return;
        }
        rv = del->deleted.existed ? eng_version_unprotected(del->txn.store, txn->old, del->bypass_governance) : 0;
        if (rv == 0 && del->deleted.existed)
                eng_txn_delete_name(txn);
        else
                eng_txn_finish(txn, rv);
}

/* ---- its place among the versions of its key ------------------------------------------------- */

/* By what the key's row says; whether there is an older one is known once it was searched for. */
static int delete_check_place(const struct delete_txn *del)
{
        const struct eng_key_rows *rows = &del->look.rows;
        uint64_t number = del->version.number != 0 ? del->version.number : rows->versions.null_number;
        bool newest = rows->state == ENG_KEY_PLAIN ? del->version.number == 0
                                                   : rows->state == ENG_KEY_VERSIONS && number != 0 && rows->versions.newest == number;

        return del->place == ENG_PLACE_ANY || newest == (del->place != ENG_PLACE_OLDER) ? 0 : -ESTALE;
}

/* ---- a version ------------------------------------------------------------------------------- */

static void delete_append_version(struct delete_txn *del)
{
        struct eng_gone_version gone = {
                .number = del->number, .versions = del->look.rows.versions, .head = del->head, .next = &del->next};
        int rv = eng_version_build_delete(&del->txn, &gone);

        if (rv == 0)
                eng_txn_append(&del->txn);
        else
                eng_txn_finish(&del->txn, rv);
}

static void delete_next_found(struct eng_key_scan *scan, int rv)
{
        struct delete_txn *del = container_of(scan, struct delete_txn, next);

        if (rv == 0 && del->place == ENG_PLACE_ALONE)
                rv = -ESTALE;
        if (rv != 0 && rv != -ENOENT)
                eng_txn_finish(&del->txn, rv);
        else
                delete_append_version(del);
}

/* The version's row goes, or is gone already and leaves its head behind. */
static void delete_row(struct delete_txn *del)
{
        if (del->look.rows.versions.newest != del->number) {
                delete_append_version(del);
                return;
        }
        del->next.what = ENG_SCAN_NEWEST;
        del->next.skip = del->number;
        del->next.done = delete_next_found;
        eng_key_scan_start(&del->next, &del->txn);
}

static bool head_names(const struct delete_txn *del)
{
        const struct fmt_head *versions = &del->look.rows.versions;

        return del->look.rows.state == ENG_KEY_VERSIONS && (versions->newest == del->number || versions->null_number == del->number);
}

static bool delete_wants(const struct delete_txn *del, const struct eng_object *found)
{
        return del->version.number == 0 || memcmp(del->version.random, found->version.random, ENG_VERSION_RANDOM) == 0;
}

/* 0: it is the one that is to be deleted, and may be. */
static int check_version(const struct delete_txn *del, const struct eng_buf *value, struct eng_object *found)
{
        int rv;

        eng_value_object(value, NULL, found);
        if (!delete_wants(del, found))
                return -ENOENT;
        rv = delete_check_place(del);
        if (rv == 0)
                rv = eng_condition_check(&del->condition, value);
        return rv != 0 ? rv : eng_version_unprotected(del->txn.store, value, del->bypass_governance);
}

/* The version's row was looked for: a condition is about it. */
static void delete_version_found(struct eng_txn *txn, int rv)
{
        struct delete_txn *del = delete_of(txn);
        struct eng_object found;

        if (rv == -ENOENT && head_names(del) && !eng_condition_asks(&del->condition) && del->place == ENG_PLACE_ANY) {
                delete_row(del);
                return;
        }
        if (rv == 0 && del->look.rules.lock && eng_txn_may_be_newer(txn))
                rv = -EHOSTDOWN;
        if (rv == 0)
                rv = check_version(del, txn->old, &found);
        if (rv != 0) {
                eng_txn_finish(txn, rv == -ENOENT && !eng_condition_asks(&del->condition) ? 0 : rv);
                return;
        }
        del->deleted.existed = true;
        del->deleted.marker = found.marker;
        if (del->look.rows.state == ENG_KEY_PLAIN)
                eng_txn_delete_name(txn);
        else
                delete_row(del);
}

/* A plain object that cannot be read, but is no version: it goes unless it may be protected. */
static void delete_unread(struct eng_txn *txn, int rv)
{
        struct delete_txn *del = delete_of(txn);

        del->deleted.existed = true;
        eng_name_object(&txn->name, txn->bucket, txn->key, txn->key_len);
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                eng_txn_delete_name(txn);
}

static void delete_version(struct delete_txn *del)
{
        struct eng_txn *txn = &del->txn;
        const struct eng_key_rows *rows = &del->look.rows;
        bool null = del->version.number == 0;

        del->deleted.version = del->version;
        del->number = null ? rows->versions.null_number : del->version.number;
        if (rows->state == ENG_KEY_PLAIN && null) {
                if (rows->unread)
                        eng_key_may_replace(&del->look, delete_unread);
                else
                        delete_version_found(txn, 0);
                return;
        }
        if (rows->state != ENG_KEY_VERSIONS || del->number == 0) {
                eng_txn_finish(txn, eng_condition_asks(&del->condition) ? -ENOENT : 0);
                return;
        }
        del->head = eng_buf_ref(txn->old);
        eng_name_version(&txn->name, txn->bucket, txn->key, txn->key_len, del->number);
        eng_txn_lookup_all(txn, 0, delete_version_found); /* one of them may know of a hold */
}

/* ---- the key --------------------------------------------------------------------------------- */

/*
 * The key's row cannot be read. Where it can only be a plain object it goes, whatever it is, as by an
 * overwrite.
 */
static bool goes_unread(const struct delete_txn *del)
{
        return del->txn.words.damaged != 0 && del->look.rules.versioning == ENG_VERSIONING_NEVER && !eng_condition_asks(&del->condition);
}

static void delete_looked_up(struct eng_txn *txn, int rv)
{
        struct delete_txn *del = delete_of(txn);

        if (rv != 0) {
                if (!goes_unread(del)) {
                        eng_txn_finish(txn, rv);
                        return;
                }
                del->deleted.existed = true;
                eng_txn_delete_name(txn);
                return;
        }
        del->deleted.versioned = del->look.rules.versioning != ENG_VERSIONING_NEVER;
        if (del->by_version) {
                delete_version(del);
                return;
        }
        del->deleted.existed = eng_key_is_present(&del->look.rows);
        rv = eng_key_condition(&del->look, &del->condition);
        if (rv == 0)
                rv = delete_check_place(del);
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                delete_object(del);
}

static void object_delete_prepare(struct eng_txn *txn)
{
        struct delete_txn *del = delete_of(txn);
        int rv = eng_txn_rules(txn, &del->look.rules);
        bool converts = !del->by_version && del->look.rules.versioning == ENG_VERSIONING_ENABLED;

        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                eng_key_look(&del->look, txn, converts ? ENG_OP_WANT_INLINE : 0, delete_looked_up);
}

static void delete_answered(struct eng_txn *txn)
{
        struct delete_txn *del = delete_of(txn);

        del->done(del->arg, txn->result, &del->deleted);
        eng_buf_unref(del->head);
        eng_buf_unref(del->next.value);
        eng_txn_drop(txn);
        free(del);
}

void eng_delete(struct eng_store *store, const struct eng_delete_params *params, eng_delete_done done, void *arg)
{
        bool fit = params->key.len <= ENG_KEY_MAX;
        struct delete_txn *del;

        if (eng_is_home(store)) {
                eng_home_delete(store, params, done, arg);
                return;
        }
        del = fit ? calloc(1, sizeof(*del)) : NULL;
        if (del == NULL) {
                eng_early(store, (struct eng_early){.deleted = done, .arg = arg, .rv = fit ? -ENOMEM : -EINVAL});
                return;
        }
        eng_txn_init(&del->txn, store, params->bucket, params->key.data, params->key.len);
        del->condition = params->condition;
        del->bypass_governance = params->bypass_governance;
        assert(params->version != NULL || (params->place == ENG_PLACE_ANY && !params->object));
        assert(!params->object || params->place == ENG_PLACE_NEWEST);
        del->by_version = params->version != NULL && !params->object;
        del->place = params->place;
        if (params->version != NULL)
                del->version = *params->version;
        del->txn.prepare = object_delete_prepare;
        del->txn.done = delete_answered;
        del->done = done;
        del->arg = arg;
        eng_txn_submit(&del->txn);
}
