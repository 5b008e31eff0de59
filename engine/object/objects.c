/*
 * objects.c - the record of an upload: of an object, a version of one, or a part.
 *
 * It is a txn (txn.c): prepare() runs on the key's primary loop with the key locked, done() on the
 * home loop. What the record is depends on the bucket's versioning (version.h).
 */
#include "engine/call/leader_call.h"
#include "engine/object/object.h"
#include "engine/object/version.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void put_prepare(struct eng_txn *txn);

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

/* The drive that has the slot now has taken the shards that are named on it. */
static bool is_proven(const struct eng_txn_put *put, unsigned slot)
{
        const struct eng_view *view = &put->txn.at->view;
        struct eng_call_proof proof;
        unsigned i;

        if (slot >= view->map->drives || (view->map->all & ~view->map->leaving & eng_bit(slot)) == 0)
                return false;
        for (i = 0; i < put->proof_count; i++) {
                memcpy(&proof, put->proofs + i * sizeof(proof), sizeof(proof));
                if (proof.slot == slot)
                        return proof.drive_key == view->drive_key[slot];
        }
        return false;
}

/*
 * Of a home's PUT: shards that nothing proves are named nowhere. False: enough of each run are left. The
 * value is the txn's own.
 */
static bool strip_shards(struct eng_txn_put *put)
{
        const struct eng_store *store = put->txn.store;
        unsigned shards = store->k + store->m, need = store->m == 0 ? store->k : store->k + 1, there, run, i;
        struct eng_part part;
        size_t pos = 0;

        while (eng_value_next_part(put->value->data, put->value->len, &pos, &part) == 1)
                for (run = 0; run < part.head.runs; run++) {
                        for (there = i = 0; i < shards; i++) {
                                size_t at = (size_t)run * shards + i;
                                unsigned slot = eng_part_slot(&part, at);

                                if (slot != ENG_NO_DRIVE && !is_proven(put, slot))
                                        eng_part_slot_set((uint8_t *)(uintptr_t)part.drives, part.width, at, ENG_NO_DRIVE);
                                else if (slot != ENG_NO_DRIVE)
                                        there++;
                        }
                        if (there < need)
                                return true;
                }
        return false;
}

static bool lacks_proof(struct eng_txn_put *put)
{
        return put->proofs != NULL ? strip_shards(put) : lost_shards(put);
}

/* The time of a home's clock orders nothing. */
static void set_mtime(struct eng_txn_put *put)
{
        if (put->now)
                ((struct fmt_value *)put->value->data)->mtime_ms = lp_wall_ms();
}

static void object_put_append(struct eng_txn *txn)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;
        size_t inline_len = put->bytes == NULL ? 0 : put->bytes->len;
        int rv;

        assert(txn->prepare == put_prepare && put->value != NULL);
        if (lacks_proof(put)) {
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

/* The upload of a part. */
static void part_upload_found(struct eng_txn *txn, int rv)
{
        assert(txn->prepare == put_prepare);
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                object_put_append(txn);
}

/* ---- where the bucket has versioning --------------------------------------------------------- */

static void put_version(struct eng_txn *txn)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;
        struct eng_new_version version = {
                .rows = &put->look.rows,
                .rules = &put->look.rules,
                .value = put->value,
                .bytes = put->bytes == NULL ? NULL : put->bytes->data,
                .inline_len = put->bytes == NULL ? 0 : put->bytes->len,
        };
        struct eng_buf *value;
        int rv = lacks_proof(put) ? -EBUSY : eng_version_build(txn, &version, &value);

        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_buf_unref(put->value);
        put->value = value;
        eng_txn_append(txn);
}

static void put_may_replace(struct eng_txn *txn, int rv)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;

        assert(txn->prepare == put_prepare && !put->is_part);
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else if (put->look.rules.versioning == ENG_VERSIONING_ENABLED && put->look.rows.state == ENG_KEY_PLAIN)
                eng_version_convert(txn, &put->look.rows, put_version);
        else if (eng_key_makes_version(&put->look))
                put_version(txn);
        else
                object_put_append(txn); /* suspended, or never: the null version is the only one, or will be */
}

static void put_rows_found(struct eng_txn *txn, int rv)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;

        if (rv == 0)
                rv = eng_key_condition(&put->look, &put->condition);
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else
                eng_key_may_replace(&put->look, put_may_replace);
}

static void put_object_prepare(struct eng_txn *txn)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;
        struct eng_bucket_rules *rules = &put->look.rules;
        int rv = eng_txn_rules(txn, rules);

        if (rv == 0 && !rules->lock && eng_value_is_protected(put->value))
                rv = -ENOLCK;
        if (rv != 0)
                eng_txn_finish(txn, rv);
        else if (rules->versioning != ENG_VERSIONING_NEVER || eng_condition_asks(&put->condition))
                eng_key_look(&put->look, txn, rules->versioning == ENG_VERSIONING_ENABLED ? ENG_OP_WANT_INLINE : 0, put_rows_found);
        else
                object_put_append(txn);
}

static void put_prepare(struct eng_txn *txn)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;

        set_mtime(put);
        if (!put->is_part) {
                put_object_prepare(txn);
                return;
        }
        eng_name_upload(&txn->name, txn->bucket, txn->key, txn->key_len, put->upload_id);
        eng_txn_lookup(txn, 0, part_upload_found);
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
