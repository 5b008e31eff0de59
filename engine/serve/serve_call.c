/*
 * serve_call.c - one call of a home store: the engine's own call, made on a loop of this store, and
 * its result as bytes.
 */
#include "engine/serve/serve.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/object/object.h"
#include "engine/txn/txn_util.h"

#define PAGE_BYTES (1u << 20) /* of a merge; at least one entry */

/* ---- the answer ------------------------------------------------------------------------------ */

static void serving_end(struct eng_serving *s)
{
        uint8_t body[ENG_CALL_BODY_MAX];
        struct eng_buf *page = s->page;
        int len;

        assert(eng_on_loop(s->at));
        if (s->result.rv > 0)
                s->result.rv = -EIO;
        len = eng_call_put_answer(s->call.kind, &s->result, body, &s->answer_bulk);
        assert(len > 0); /* attrs, tags and ACL have bounds that leave room */
        s->answer = body;
        s->answer_len = (size_t)len;
        s->done(s); /* and it may be gone */
        eng_buf_unref(page);
}

static void serving_fail(struct eng_serving *s, int rv)
{
        s->result = (struct eng_call_answer){.rv = rv};
        serving_end(s);
}

static void served_plain(void *arg, int rv)
{
        struct eng_serving *s = arg;

        s->result.rv = rv;
        serving_end(s);
}

static void served_object(void *arg, int rv, const struct eng_object *object)
{
        struct eng_serving *s = arg;

        s->result.rv = rv;
        s->result.recorded = true; /* nothing of a change but PUT is discarded by whoever asked */
        if (rv == 0)
                s->result.object = *object;
        serving_end(s);
}

static void served_deleted(void *arg, int rv, const struct eng_deleted *deleted)
{
        struct eng_serving *s = arg;

        s->result.rv = rv;
        s->result.deleted = *deleted;
        serving_end(s);
}

static void served_upload(void *arg, int rv, const uint8_t upload_id[ENG_ID_LEN])
{
        struct eng_serving *s = arg;

        s->result.rv = rv;
        if (rv == 0)
                memcpy(s->result.upload_id, upload_id, FMT_ID);
        serving_end(s);
}

/* ---- PUT ------------------------------------------------------------------------------------- */

static void served_put(struct eng_txn *txn)
{
        struct eng_txn_put *put = (struct eng_txn_put *)txn;
        struct eng_serving *s = put->arg;

        /* Its home does not reach all drives, or they changed under it: no walk may come by today. */
        if (txn->result == 0 && eng_value_lacks_shards(put->value->data, put->value->len))
                eng_upkeep_group(s->store, txn->pg);
        s->result.rv = txn->result;
        s->result.recorded = txn->result == 0 || txn->appended;
        if (txn->result == 0)
                eng_value_object(put->value, &txn->name, &s->result.object);
        serving_end(s);
        eng_txn_put_free(put);
}

/* Bytes of the call's bulk, which stay with the record. */
static struct eng_buf *serving_bytes(const struct eng_serving *s, struct eng_str bytes)
{
        return eng_buf_slice(s->bulk, (size_t)((const uint8_t *)bytes.data - s->bulk->data), bytes.len);
}

static void serve_put(struct eng_serving *s)
{
        const struct eng_call *call = &s->call;
        struct eng_txn_put *put = eng_txn_put_new(s->store, call->bucket, call->key.data, call->key.len);
        struct fmt_value head;

        memcpy(&head, call->put.value.data, sizeof(head));
        if (put != NULL) {
                put->value = eng_buf_new(call->put.value.len);
                if (put->value != NULL)
                        memcpy(put->value->data, call->put.value.data, call->put.value.len);
                put->bytes = call->put.bytes.len == 0 ? NULL : serving_bytes(s, call->put.bytes);
        }
        if (put == NULL || put->value == NULL || (call->put.bytes.len != 0 && put->bytes == NULL)) {
                if (put != NULL)
                        eng_txn_put_free(put);
                serving_fail(s, -ENOMEM);
                return;
        }
        put->condition = call->put.condition;
        put->is_part = call->put.is_part;
        memcpy(put->upload_id, call->put.upload_id, FMT_ID);
        put->part_number = call->put.part_number;
        put->proofs = call->put.proofs;
        put->proof_count = call->put.proof_count;
        put->now = call->put.now;
        put->arg = s;
        put->txn.done = served_put;
        eng_txn_submit_with(&put->txn, head.fields_len > 0 || head.state != 0 ? FMT_FEATURE_VERSIONS : 0);
}

/* ---- lookups --------------------------------------------------------------------------------- */

static void lookup_let_go(struct eng_lookup *lookup)
{
        eng_buf_unref(lookup->value);
        free(lookup);
}

static void lookup_free(struct eng_lookup *lookup)
{
        eng_buf_unref(lookup->bytes);
        lookup->bytes = NULL;
        if (lookup->pinned)
                eng_unpin(lookup, lookup_let_go);
        else
                lookup_let_go(lookup);
}

/* Its serving is what comes behind the lookup. */
struct serving_lookup {
        struct eng_lookup lookup; /* first */
        struct eng_serving *serving;
        struct lp_msg unpinning;
};

static void served_lookup(struct eng_lookup *lookup)
{
        struct eng_serving *s = ((struct serving_lookup *)lookup)->serving;
        size_t size;
        bool keep;

        s->result.rv = lookup->result;
        if (lookup->result == 0) {
                size = lookup->value->len + (lookup->bytes == NULL ? 0 : (size_t)lookup->bytes->len);
                s->result.value = (struct eng_str){(const char *)lookup->value->data, lookup->value->len};
                if (lookup->bytes != NULL)
                        s->result.bytes = (struct eng_str){(const char *)lookup->bytes->data, lookup->bytes->len};
                s->result.name = lookup->name;
                s->result.pinned = lookup->pinned;
                if (size > s->room) {
                        s->result.rv = -EMSGSIZE;
                        s->result.needs = (uint32_t)size;
                }
        }
        keep = s->result.rv == 0 && lookup->pinned;
        s->pin = keep ? lookup : NULL;
        s->pin_number = s->call.lookup.pin;
        serving_end(s);
        if (!keep)
                lookup_free(lookup);
}

static void serve_lookup(struct eng_serving *s)
{
        struct serving_lookup *l = calloc(1, sizeof(*l));

        if (l == NULL) {
                serving_fail(s, -ENOMEM);
                return;
        }
        l->serving = s;
        l->lookup.store = s->store;
        l->lookup.flags = s->call.lookup.flags;
        l->lookup.pin = s->call.lookup.pin != 0;
        l->lookup.which = (enum eng_lookup_which)s->call.lookup.which;
        memcpy(l->lookup.random, s->call.lookup.random, ENG_VERSION_RANDOM);
        l->lookup.name = s->call.lookup.name;
        l->lookup.pg = s->pg;
        l->lookup.done = served_lookup;
        eng_lookup_start(&l->lookup);
}

/* ---- pages ----------------------------------------------------------------------------------- */

/* How many of the entries fit into the page, and their bytes. */
static unsigned page_fits(const struct eng_serving *s, const struct eng_scan_entry *const *entries, unsigned count, size_t *bytes)
{
        size_t room = s->room < PAGE_BYTES ? s->room : PAGE_BYTES;
        unsigned i;

        *bytes = 0;
        for (i = 0; i < count && entries[i]->size <= room - *bytes; i++)
                *bytes += entries[i]->size;
        return i;
}

static void served_merge(void *arg, int rv, const struct eng_scan_entry *const *entries, unsigned count, bool more)
{
        struct eng_serving *s = arg;
        size_t size = 0, at = 0;
        unsigned fit = rv == 0 ? page_fits(s, entries, count, &size) : 0, i;

        if (rv == 0 && fit == 0 && count > 0)
                rv = -EMSGSIZE;
        if (rv == 0) {
                s->page = eng_buf_new(size);
                rv = s->page == NULL ? -ENOMEM : 0;
        }
        s->result.rv = rv;
        for (i = 0; rv == 0 && i < fit; at += entries[i++]->size)
                memcpy(s->page->data + at, entries[i], entries[i]->size);
        if (rv == 0) {
                s->result.more = more || fit < count;
                s->result.count = fit;
                s->result.entries = (struct eng_str){(const char *)s->page->data, size};
        }
        serving_end(s);
}

static void serve_merge(struct eng_serving *s)
{
        const struct eng_call *call = &s->call;
        struct eng_merge_params params = {
                .from = &call->merge.from,
                .to = &call->merge.to,
                .after = call->merge.after,
                .prefix_len = call->merge.prefix_len,
                .delimiter = call->merge.delimiter.data,
                .delimiter_len = call->merge.delimiter.len,
                .flags = call->merge.flags,
                .max = call->merge.max < ENG_CALL_ENTRIES_MAX ? call->merge.max : ENG_CALL_ENTRIES_MAX,
        };

        eng_merge_start(s->at, &params, served_merge, s);
}

/* ---- the others ------------------------------------------------------------------------------ */

static void serve_delete(struct eng_serving *s)
{
        const struct eng_call *call = &s->call;
        struct eng_delete_params params = {
                .bucket = call->bucket,
                .key = call->key,
                .version = call->del.by_version ? &call->del.version : NULL,
                .condition = call->del.condition,
                .place = call->del.place,
                .object = call->del.object,
                .bypass_governance = call->del.bypass_governance,
        };

        eng_delete(s->store, &params, served_deleted, s);
}

static void serve_extras(struct eng_serving *s)
{
        const struct eng_call *call = &s->call;

        eng_extras_set(s->store, call->bucket, call->key, call->extras.by_version ? &call->extras.version : NULL, &call->extras.change,
                       served_object, s);
}

static void serve_create(struct eng_serving *s)
{
        const struct eng_call *call = &s->call;
        struct eng_upload_params params = {.bucket = call->bucket, .key = call->key, .attrs = call->create.attrs.data,
                                           .attrs_len = call->create.attrs.len, .extras = call->create.extras};

        memcpy(params.tag, call->create.tag, sizeof(params.tag));
        eng_upload_create(s->store, &params, served_upload, s);
}

static void serve_complete(struct eng_serving *s)
{
        const struct eng_call *call = &s->call;
        struct eng_complete_params params = {
                .bucket = call->bucket,
                .key = call->key,
                .parts = call->complete.parts,
                .count = call->complete.count,
                .commit = {.attrs = call->complete.attrs.data, .attrs_len = call->complete.attrs.len,
                           .condition = call->complete.condition, .mtime_ms = call->complete.mtime_ms},
        };

        memcpy(params.upload_id, call->complete.upload_id, FMT_ID);
        memcpy(params.commit.etag, call->complete.etag, sizeof(params.commit.etag));
        memcpy(params.commit.tag, call->complete.tag, sizeof(params.commit.tag));
        eng_complete(s->store, &params, served_object, s);
}

static void serve_text(struct eng_serving *s)
{
        const struct eng_call *call = &s->call;
        bool sets = call->kind == ENG_CALL_TEXT_SET;
        struct eng_str bytes = sets ? call->text.bytes : (struct eng_str){NULL, 0};

        if (call->text.decided)
                eng_entry_set(s->store, call->bucket, call->text.kind, call->text.expected, &call->text.seen, bytes, served_plain, s);
        else if (sets)
                eng_text_set(s->store, call->bucket, call->text.kind, call->text.expected, bytes, served_plain, s);
        else
                eng_text_delete(s->store, call->bucket, call->text.kind, call->text.expected, served_plain, s);
}

static void serving_begin(struct lp_msg *msg)
{
        struct eng_serving *s = container_of(msg, struct eng_serving, msg);
        const struct eng_call *call = &s->call;

        if (s->until != NULL && (s->clock_ns != NULL ? s->clock_ns() : lp_boot_clock()) >= atomic_load(s->until)) {
                s->refused = true;
                s->done(s);
                return;
        }
        atomic_fetch_add_explicit(&s->at->leader.homes_calls, 1, memory_order_relaxed);
        switch (call->kind) {
        case ENG_CALL_PUT:
                serve_put(s);
                break;
        case ENG_CALL_DELETE:
                serve_delete(s);
                break;
        case ENG_CALL_UPDATE:
                eng_update(s->store, call->bucket, call->key, &call->update.condition, call->update.attrs.data, call->update.attrs.len,
                           call->update.tag, served_object, s);
                break;
        case ENG_CALL_EXTRAS:
                serve_extras(s);
                break;
        case ENG_CALL_UPLOAD_CREATE:
                serve_create(s);
                break;
        case ENG_CALL_UPLOAD_ABORT:
                eng_upload_abort(s->store, call->bucket, call->key, call->abort.upload_id, served_plain, s);
                break;
        case ENG_CALL_COMPLETE:
                serve_complete(s);
                break;
        case ENG_CALL_LOOKUP:
                serve_lookup(s);
                break;
        case ENG_CALL_MERGE:
                serve_merge(s);
                break;
        case ENG_CALL_BUCKET_CREATE:
                eng_bucket_create(s->store, call->key, call->rules.has_rules ? &call->rules.rules : NULL, call->rules.attrs.data,
                                  call->rules.attrs.len, served_plain, s);
                break;
        case ENG_CALL_RULES_SET:
                eng_bucket_rules_set(s->store, call->bucket, &call->rules.rules, served_plain, s);
                break;
        case ENG_CALL_BUCKET_DELETE:
                eng_bucket_delete(s->store, call->key, call->bucket, served_plain, s);
                break;
        case ENG_CALL_TEXT_SET:
        case ENG_CALL_TEXT_DELETE:
                serve_text(s);
                break;
        case ENG_CALL_HINT:
                if (eng_hint_is_due(&s->store->hints, call->group, lp_now(s->at->loop)))
                        eng_upkeep_group(s->store, call->group);
                served_plain(s, 0);
                break;
        case ENG_CALL_DISCARD:
                eng_discard(s->store, call->discard.id, call->discard.drives);
                served_plain(s, 0);
                break;
        case ENG_CALL_LOCK_CONFIRM:
                eng_lock_confirm(s->store, call->wall_ms, served_plain, s);
                break;
        default:
                serving_fail(s, -EOPNOTSUPP);
                break;
        }
}

/* ---- what may be asked ----------------------------------------------------------------------- */

/* Each shard of a run on a slot of its own. Whether they are enough is seen when it is their turn. */
static bool runs_are_whole(const struct eng_store *store, const struct eng_part *part)
{
        unsigned shards = store->k + store->m, run, i;

        if (part->head.k != store->k || part->head.m != store->m)
                return false;
        for (run = 0; run < part->head.runs; run++) {
                eng_mask met = 0;

                for (i = 0; i < shards; i++) {
                        unsigned slot = eng_part_slot(part, (size_t)run * shards + i);

                        if (slot == ENG_NO_DRIVE)
                                continue;
                        if (slot >= ENG_DRIVES_MAX || (met & eng_bit(slot)) != 0)
                                return false;
                        met |= eng_bit(slot);
                }
        }
        return true;
}

/* Its home has made it: the id is of an upload of its own, as is the id of its part. */
static bool is_homes_own(const uint8_t id[FMT_ID], const struct eng_served_home *home, struct eng_made *made)
{
        eng_id_made(id, made);
        return made->node == home->node && made->run == home->boot && made->loop < home->loops;
}

/* Such a one that it may come to name: what it has told that it won't is orphan collection's. */
static bool may_be_named(const uint8_t id[FMT_ID], const struct eng_served_home *home)
{
        struct eng_made made;

        return is_homes_own(id, home, &made) && (home->bounds == NULL || made.count >= atomic_load(&home->bounds[made.loop]));
}

/*
 * Bytes of fields that a PUT may have: the tags, the ACL and the small ones that a home makes. A
 * leader adds as much at most, then or later, and all have room in a value.
 */
#define PUT_FIELDS_MAX (FMT_FIELDS_MAX / 2)
_Static_assert(ENG_TAGS_MAX + ENG_ACL_MAX + 1024 <= PUT_FIELDS_MAX, "engine.h");

/* None longer than who reads it takes. */
static bool fields_fit(const struct eng_str value, const struct fmt_value *head)
{
        struct fmt_field field;
        const uint8_t *data;
        size_t pos = 0;

        while (eng_value_next_field(value.data, value.len, &pos, &field, &data) == 1)
                if ((field.kind == FMT_FIELD_TAGS && field.len > ENG_TAGS_MAX) || (field.kind == FMT_FIELD_ACL && field.len > ENG_ACL_MAX))
                        return false;
        return head->fields_len <= PUT_FIELDS_MAX;
}

static int check_record(const struct eng_serving *s, const struct eng_served_home *home)
{
        const struct eng_str value = s->call.put.value;
        struct fmt_value head;
        struct eng_part part;
        size_t pos = 0;

        memcpy(&head, value.data, sizeof(head));
        if (!may_be_named(head.id, home))
                return -EPERM;
        if (head.pg != eng_pg_of_key(s->store->pg_count, s->call.bucket, s->call.key.data, s->call.key.len))
                return -EINVAL;
        if (!fields_fit(value, &head))
                return -EINVAL;
        if (head.parts > 1 || (head.flags & FMT_VALUE_INLINE) != 0 ? head.parts != 0 : head.parts != 1)
                return -EINVAL;
        while (eng_value_next_part(value.data, value.len, &pos, &part) == 1)
                if (memcmp(part.head.id, head.id, FMT_ID) != 0 || !runs_are_whole(s->store, &part))
                        return -EINVAL;
        return 0;
}

/* Rows of the objects, versions, uploads or parts of one bucket: bytes up to its id are the same in both names. */
static bool is_of_bucket(const struct eng_call *call)
{
        const struct eng_name *from = &call->merge.from, *to = &call->merge.to;
        struct eng_name bucket, behind;
        uint64_t id;

        if (from->len < 9 || from->data[0] == FMT_SPACE_CONFIG || to->len == 0)
                return false;
        memcpy(&id, from->data + 1, sizeof(id));
        eng_name_space(&bucket, (enum fmt_space)from->data[0], be64toh(id));
        behind = bucket;
        return memcmp(from->data, bucket.data, bucket.len) == 0 && eng_name_successor(&behind) &&
               (to->len >= bucket.len && memcmp(to->data, bucket.data, bucket.len) == 0
                        ? true
                        : to->len == behind.len && memcmp(to->data, behind.data, behind.len) == 0);
}

/* The loop on which it is done: the primary of what is changed or looked up, so that it goes to no other. */
static int pick_loop(struct eng_serving *s)
{
        uint8_t key[FMT_NAME_MAX];
        uint64_t bucket;
        size_t len;

        if (s->call.kind <= ENG_CALL_COMPLETE) {
                s->at = eng_primary(s->store, eng_pg_of_key(s->store->pg_count, s->call.bucket, s->call.key.data, s->call.key.len));
        } else if (s->call.kind == ENG_CALL_LOOKUP) {
                if (s->call.lookup.name.len == 0 || s->call.lookup.name.data[0] == FMT_SPACE_CONFIG ||
                    eng_name_key(&s->call.lookup.name, &bucket, key, &len) != 0 || len > ENG_KEY_MAX)
                        return -EINVAL;
                s->pg = eng_pg_of_key(s->store->pg_count, bucket, key, len);
                s->at = eng_primary(s->store, s->pg);
        } else if (s->call.kind == ENG_CALL_MERGE) {
                if (!is_of_bucket(&s->call))
                        return -EPERM;
                s->at = &s->store->loops[atomic_fetch_add_explicit(&s->store->merges, 1, memory_order_relaxed) % s->store->loop_count];
        } else {
                s->at = s->store->coord_loop;
        }
        return 0;
}

static void serving_refused(struct lp_msg *msg)
{
        struct eng_serving *s = container_of(msg, struct eng_serving, msg);

        serving_fail(s, s->result.rv);
}

int eng_serve_call(struct eng_serving *s, const struct eng_served_home *home)
{
        int rv = eng_call_get(s->body, s->len, s->bulk == NULL ? NULL : s->bulk->data, s->bulk == NULL ? 0 : s->bulk->len, &s->call);
        struct eng_made made;

        if (rv != 0)
                return rv;
        s->result = (struct eng_call_answer){0};
        rv = pick_loop(s);
        if (rv == 0 && s->call.kind == ENG_CALL_PUT)
                rv = check_record(s, home);
        if (rv == 0 && s->call.kind == ENG_CALL_DISCARD && !is_homes_own(s->call.discard.id, home, &made))
                rv = -EPERM;
        if (rv != 0) {
                s->at = s->store->coord_loop;
                s->result.rv = rv;
        }
        s->msg.run = rv == 0 ? serving_begin : serving_refused;
        lp_post(s->at->loop, &s->msg);
        return 0;
}

/* ---- pins ------------------------------------------------------------------------------------ */

static void unpin_there(struct lp_msg *msg)
{
        lookup_free(&container_of(msg, struct serving_lookup, unpinning)->lookup);
}

void eng_serve_unpin(struct eng_lookup *pin)
{
        struct serving_lookup *l = (struct serving_lookup *)pin;

        l->unpinning.run = unpin_there;
        lp_post(pin->home->loop, &l->unpinning);
}
