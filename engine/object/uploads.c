/*
 * uploads.c - multipart uploads: begin, look at, abort. (Parts are put by objects.c, listed by
 * list.c, joined by complete.c.)
 */
#include "engine/object/home_calls.h"
#include "engine/object/version.h"
#include "engine/txn/txn.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void upload_create_prepare(struct eng_txn *txn);
static void abort_prepare(struct eng_txn *txn);

/* ---- create ---------------------------------------------------------------------------------- */

struct create_txn {
        struct eng_txn txn;
        uint8_t upload_id[FMT_ID];
        uint8_t tag[8];
        eng_upload_done done;
        void *arg;
        struct eng_fields fields;      /* of the extras that the object is to have */
        uint32_t state;
        size_t attrs_len;
        uint8_t attrs[];
};

/* Time first, so that uploads of a key sort by their beginning. */
static void new_upload_id(uint8_t id[FMT_ID])
{
        uint64_t ms = htobe64((uint64_t)lp_wall_ms());

        memcpy(id, &ms, 8);
        lp_random(id + 8, FMT_ID - 8);
}

static void upload_create_prepare(struct eng_txn *txn)
{
        struct create_txn *create = (struct create_txn *)txn;
        struct eng_value_spec spec = {
                .space = FMT_SPACE_UPLOAD,
                .pg = txn->pg,
                .mtime_ms = lp_wall_ms(),
                .id = create->upload_id,
                .upload_id = create->upload_id,
                .tag = create->tag,
                .state = create->state,
                .attrs = create->attrs,
                .attrs_len = create->attrs_len,
                .fields = create->fields.data,
                .fields_len = create->fields.len,
        };
        struct eng_bucket_rules rules;
        struct eng_buf *value = NULL;
        int rv = eng_txn_rules(txn, &rules);

        if (rv == 0) {
                value = eng_value_new(&spec);
                rv = value == NULL ? -ENOMEM : 0;
        }
        if (rv == 0 && !rules.lock && eng_value_is_protected(value))
                rv = -ENOLCK;
        eng_name_upload(&txn->name, txn->bucket, txn->key, txn->key_len, create->upload_id);
        eng_txn_put_value(txn, value, rv);
}

static void create_answered(struct eng_txn *txn)
{
        struct create_txn *create = (struct create_txn *)txn;

        assert(txn->prepare == upload_create_prepare);
        create->done(create->arg, txn->result, create->upload_id);
        free(create->fields.data);
        free(create);
}

/* The caller fills in what is its own. */
static struct create_txn *create_new(const struct eng_upload_params *params, int *rv)
{
        struct create_txn *create = calloc(1, sizeof(*create) + params->attrs_len);

        *rv = -ENOMEM;
        if (create != NULL)
                *rv = eng_extras_encode(&params->extras, &create->fields, &create->state);
        if (*rv != 0) {
                free(create);
                return NULL;
        }
        memcpy(create->tag, params->tag, 8);
        if (params->attrs_len != 0)
                memcpy(create->attrs, params->attrs, params->attrs_len);
        create->attrs_len = params->attrs_len;
        return create;
}

void eng_upload_create(struct eng_store *store, const struct eng_upload_params *params, eng_upload_done done, void *arg)
{
        int rv = params->key.len <= ENG_KEY_MAX && params->attrs_len <= ENG_ATTRS_MAX ? 0 : -EINVAL;
        struct create_txn *create;

        if (eng_is_home(store)) {
                eng_home_upload_create(store, params, done, arg);
                return;
        }
        create = rv == 0 ? create_new(params, &rv) : NULL;
        if (create == NULL) {
                eng_early(store, (struct eng_early){.upload = done, .arg = arg, .rv = rv});
                return;
        }
        eng_txn_init(&create->txn, store, params->bucket, params->key.data, params->key.len);
        new_upload_id(create->upload_id);
        create->txn.prepare = upload_create_prepare;
        create->txn.done = create_answered;
        create->done = done;
        create->arg = arg;
        eng_txn_submit_with(&create->txn, create->fields.len > 0 || create->state != 0 ? FMT_FEATURE_VERSIONS : 0);
}

/* ---- get ------------------------------------------------------------------------------------- */

struct upload_get {
        struct eng_lookup lookup;
        eng_object_done done;
        void *arg;
};

static void upload_got(struct eng_lookup *lookup)
{
        struct upload_get *get = (struct upload_get *)lookup;
        struct eng_object object;

        if (lookup->result == 0)
                eng_value_object(lookup->value, NULL, &object);
        get->done(get->arg, lookup->result, lookup->result == 0 ? &object : NULL);
        eng_buf_unref(lookup->value);
        free(get);
}

void eng_upload_get(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                    eng_object_done done, void *arg)
{
        struct upload_get *get = key.len > ENG_KEY_MAX ? NULL : calloc(1, sizeof(*get));

        if (get == NULL) {
                eng_early(store, (struct eng_early){.object = done, .arg = arg,
                                                    .rv = key.len > ENG_KEY_MAX ? -EINVAL : -ENOMEM});
                return;
        }
        get->lookup.store = store;
        get->lookup.pg = eng_pg_of_key(store->pg_count, bucket, key.data, key.len);
        get->lookup.done = upload_got;
        eng_name_upload(&get->lookup.name, bucket, key.data, key.len, upload_id);
        get->done = done;
        get->arg = arg;
        eng_lookup_start(&get->lookup);
}

/* ---- abort ----------------------------------------------------------------------------------- */

struct abort_txn {
        struct eng_txn txn;
        uint8_t upload_id[FMT_ID];
        eng_done done;
        void *arg;
};

static void abort_looked_up(struct eng_txn *txn, int rv)
{
        if (rv == 0)
                rv = eng_body_begin(&txn->body, eng_body_need(txn->name.len, 0, 0));
        if (rv != 0) {
                eng_txn_finish(txn, rv);
                return;
        }
        eng_txn_take_seq(txn);
        eng_body_end_upload(&txn->body, &txn->name, NULL, 0);
        eng_txn_append(txn);
}

static void abort_prepare(struct eng_txn *txn)
{
        struct abort_txn *ab = (struct abort_txn *)txn;

        eng_name_upload(&txn->name, txn->bucket, txn->key, txn->key_len, ab->upload_id);
        eng_txn_lookup(txn, 0, abort_looked_up);
}

static void abort_answered(struct eng_txn *txn)
{
        struct abort_txn *ab = (struct abort_txn *)txn;

        assert(txn->prepare == abort_prepare);
        ab->done(ab->arg, txn->result);
        eng_txn_drop(txn);
        free(ab);
}

static void start_abort(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                        bool internal, eng_done done, void *arg)
{
        struct abort_txn *ab = key.len > ENG_KEY_MAX ? NULL : calloc(1, sizeof(*ab));

        if (ab == NULL) {
                eng_early(store, (struct eng_early){.plain = done, .arg = arg,
                                                    .rv = key.len > ENG_KEY_MAX ? -EINVAL : -ENOMEM});
                return;
        }
        eng_txn_init(&ab->txn, store, bucket, key.data, key.len);
        memcpy(ab->upload_id, upload_id, FMT_ID);
        ab->txn.internal = internal;
        ab->txn.prepare = abort_prepare;
        ab->txn.done = abort_answered;
        ab->done = done;
        ab->arg = arg;
        eng_txn_submit(&ab->txn);
}

void eng_upload_abort(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                      eng_done done, void *arg)
{
        if (eng_is_home(store))
                eng_home_upload_abort(store, bucket, key, upload_id, done, arg);
        else
                start_abort(store, bucket, key, upload_id, false, done, arg);
}

void eng_upload_abort_dead(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                           eng_done done, void *arg)
{
        start_abort(store, bucket, key, upload_id, true, done, arg);
}
