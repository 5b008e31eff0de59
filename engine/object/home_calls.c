/*
 * home_calls.c - see home_calls.h.
 */
#include "engine/object/home_calls.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/call/call_send.h"
#include "engine/txn/txn_util.h"

/* Whom a change is answered to: exactly one callback is set. */
struct home_change {
        eng_done plain;
        eng_delete_done deleted;
        eng_put_done put;
        eng_upload_done upload;
        void *arg;
};

static void home_changed(void *arg, const struct eng_call_answer *answer)
{
        struct home_change *change = arg;
        int rv = answer->rv;

        if (change->plain != NULL)
                change->plain(change->arg, rv);
        else if (change->deleted != NULL)
                change->deleted(change->arg, rv, &answer->deleted);
        else if (change->put != NULL)
                change->put(change->arg, rv, rv == 0 ? &answer->object : NULL);
        else
                change->upload(change->arg, rv, rv == 0 ? answer->upload_id : NULL);
        free(change);
}

/* rv: an error that it cannot begin for. */
static void home_send(struct eng_store *store, const struct eng_call *call, struct home_change whom, int rv)
{
        struct home_change *change = rv == 0 ? malloc(sizeof(*change)) : NULL;

        if (rv == 0 && !eng_here(store)->view.ready)
                rv = -EHOSTDOWN;
        else if (rv == 0 && change == NULL)
                rv = -ENOMEM;
        if (rv == 0) {
                *change = whom;
                rv = eng_call_send(store, call, 0, home_changed, change);
        }
        if (rv == 0)
                return;
        free(change);
        eng_early(store, (struct eng_early){.plain = whom.plain, .deleted = whom.deleted, .put = whom.put, .upload = whom.upload, .arg = whom.arg, .rv = rv});
}

/* ---- PUT ------------------------------------------------------------------------------------- */

static void home_put_answered(void *arg, const struct eng_call_answer *answer)
{
        struct eng_txn_put *put = arg;

        put->txn.result = answer->rv;
        put->txn.appended = answer->recorded;
        put->home_done(put, answer->rv == 0 ? &answer->object : NULL);
}

static void home_put_refused(struct lp_msg *msg)
{
        struct eng_txn_put *put = container_of(msg, struct eng_txn_put, txn.msg);

        put->home_done(put, NULL);
}

void eng_home_put(struct eng_txn_put *put, const struct eng_call_proof *proofs, unsigned count,
                  void (*done)(struct eng_txn_put *put, const struct eng_object *stored))
{
        struct eng_call call = {
                .kind = ENG_CALL_PUT,
                .bucket = put->txn.bucket,
                .key = {(const char *)put->txn.key, put->txn.key_len},
                .put = {.condition = put->condition, .is_part = put->is_part, .part_number = put->is_part ? put->part_number : 0,
                        .now = put->now, .proof_count = count, .proofs = (const uint8_t *)proofs, .value = {(const char *)put->value->data, put->value->len}},
        };

        if (put->bytes != NULL)
                call.put.bytes = (struct eng_str){(const char *)put->bytes->data, put->bytes->len};
        if (put->is_part)
                memcpy(call.put.upload_id, put->upload_id, FMT_ID);
        put->txn.home = eng_here(put->txn.store);
        put->home_done = done;
        put->txn.appended = false;
        put->txn.result = put->txn.home->view.ready ? eng_call_send(put->txn.store, &call, 0, home_put_answered, put) : -EHOSTDOWN;
        if (put->txn.result == 0)
                return;
        put->txn.msg.run = home_put_refused;
        lp_post(put->txn.home->loop, &put->txn.msg);
}

/* ---- the others ------------------------------------------------------------------------------ */

void eng_home_delete(struct eng_store *store, const struct eng_delete_params *params, eng_delete_done done, void *arg)
{
        struct eng_call call = {
                .kind = ENG_CALL_DELETE,
                .bucket = params->bucket,
                .key = params->key,
                .del = {.by_version = params->version != NULL, .condition = params->condition, .place = params->place,
                        .object = params->object, .bypass_governance = params->bypass_governance},
        };

        if (params->version != NULL)
                call.del.version = *params->version;
        home_send(store, &call, (struct home_change){.deleted = done, .arg = arg}, params->key.len <= ENG_KEY_MAX ? 0 : -EINVAL);
}

void eng_home_update(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_condition *condition,
                     const void *attrs, size_t attrs_len, const uint8_t tag[8], eng_put_done done, void *arg)
{
        struct eng_call call = {.kind = ENG_CALL_UPDATE, .bucket = bucket, .key = key, .update.attrs = {attrs, attrs_len}};

        if (condition != NULL)
                call.update.condition = *condition;
        memcpy(call.update.tag, tag, sizeof(call.update.tag));
        home_send(store, &call, (struct home_change){.put = done, .arg = arg},
                  key.len <= ENG_KEY_MAX && attrs_len <= ENG_ATTRS_MAX ? 0 : -EINVAL);
}

void eng_home_extras(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version,
                     const struct eng_extras_change *change, eng_put_done done, void *arg)
{
        struct eng_call call = {.kind = ENG_CALL_EXTRAS, .bucket = bucket, .key = key, .extras = {.by_version = version != NULL, .change = *change}};
        struct eng_extras_change *sent = &call.extras.change;

        if (version != NULL)
                call.extras.version = *version;
        if (!change->set_tags)
                sent->extras.tags = (struct eng_str){NULL, 0};
        if (!change->set_acl)
                sent->extras.acl = (struct eng_str){NULL, 0};
        if (!change->if_tags)
                sent->tags_seen = (struct eng_str){NULL, 0};
        home_send(store, &call, (struct home_change){.put = done, .arg = arg},
                  key.len <= ENG_KEY_MAX && sent->extras.tags.len <= ENG_TAGS_MAX && sent->extras.acl.len <= ENG_ACL_MAX &&
                                  sent->tags_seen.len <= ENG_TAGS_MAX
                          ? 0
                          : -EINVAL);
}

void eng_home_upload_create(struct eng_store *store, const struct eng_upload_params *params, eng_upload_done done, void *arg)
{
        struct eng_call call = {.kind = ENG_CALL_UPLOAD_CREATE, .bucket = params->bucket, .key = params->key,
                                .create = {.attrs = {params->attrs, params->attrs_len}, .extras = params->extras}};
        bool fit = params->key.len <= ENG_KEY_MAX && params->attrs_len <= ENG_ATTRS_MAX && params->extras.tags.len <= ENG_TAGS_MAX &&
                   params->extras.acl.len <= ENG_ACL_MAX;

        memcpy(call.create.tag, params->tag, sizeof(call.create.tag));
        home_send(store, &call, (struct home_change){.upload = done, .arg = arg}, fit ? 0 : -EINVAL);
}

void eng_home_upload_abort(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                           eng_done done, void *arg)
{
        struct eng_call call = {.kind = ENG_CALL_UPLOAD_ABORT, .bucket = bucket, .key = key};

        memcpy(call.abort.upload_id, upload_id, FMT_ID);
        home_send(store, &call, (struct home_change){.plain = done, .arg = arg}, key.len <= ENG_KEY_MAX ? 0 : -EINVAL);
}

void eng_home_complete(struct eng_store *store, const struct eng_complete_params *params, eng_put_done done, void *arg)
{
        bool fit = params->count >= 1 && params->count <= ENG_PARTS_MAX && params->key.len <= ENG_KEY_MAX &&
                   params->commit.attrs_len <= ENG_ATTRS_MAX;
        struct eng_call call = {
                .kind = ENG_CALL_COMPLETE,
                .bucket = params->bucket,
                .key = params->key,
                .complete = {.attrs = {params->commit.attrs, params->commit.attrs_len}, .condition = params->commit.condition,
                             .mtime_ms = params->commit.mtime_ms, .count = params->count, .parts = params->parts},
        };

        memcpy(call.complete.upload_id, params->upload_id, FMT_ID);
        memcpy(call.complete.etag, params->commit.etag, sizeof(call.complete.etag));
        memcpy(call.complete.tag, params->commit.tag, sizeof(call.complete.tag));
        home_send(store, &call, (struct home_change){.put = done, .arg = arg}, fit ? 0 : -EINVAL);
}
