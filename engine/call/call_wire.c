/*
 * call_wire.c - see leader_call.h. Each kind of call has one function that goes through its fields, whether
 * they are written or read: so both agree.
 */
#include "engine/call/leader_call.h"

#include "engine/drive/drive.h"
#include "engine/drive/wire_fields.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

_Static_assert(sizeof(struct eng_complete_part) == 20, "parts of COMPLETE go as they are");

#define MERGE_FLAGS (ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS | ENG_OP_VERSIONS | ENG_OP_NO_MARKERS | ENG_OP_LISTED)

/* ---- fields ---------------------------------------------------------------------------------- */

static void call_str(struct eng_wire *w, struct eng_str *s, size_t most)
{
        uint32_t len = (uint32_t)s->len;
        const uint8_t *data = (const uint8_t *)s->data;

        eng_wire_u32(w, &len);
        eng_wire_check(w, len <= most);
        if (!w->bad)
                eng_wire_in_place(w, &data, len);
        *s = (struct eng_str){(const char *)data, len};
}

static void call_i64(struct eng_wire *w, int64_t *n)
{
        eng_wire_bytes(w, n, sizeof(*n));
}

/* A number of an enum, up to `last`. */
static unsigned call_enum(struct eng_wire *w, unsigned value, unsigned last)
{
        uint8_t n = (uint8_t)value;

        eng_wire_u8(w, &n);
        eng_wire_check(w, n <= last);
        return w->bad ? 0 : n;
}

static void call_name(struct eng_wire *w, struct eng_name *name)
{
        eng_wire_u16(w, &name->len);
        eng_wire_check(w, name->len <= FMT_NAME_MAX);
        if (!w->bad)
                eng_wire_bytes(w, name->data, name->len);
}

static void call_version(struct eng_wire *w, bool *given, struct eng_version *version)
{
        eng_wire_bool(w, given);
        eng_wire_u64(w, &version->number);
        eng_wire_bytes(w, version->random, sizeof(version->random));
}

static void call_condition(struct eng_wire *w, struct eng_condition *c)
{
        eng_wire_bool(w, &c->if_absent);
        eng_wire_bool(w, &c->if_etag);
        eng_wire_bool(w, &c->if_present);
        eng_wire_bytes(w, c->etag, sizeof(c->etag));
        eng_wire_u16(w, &c->etag_parts);
        eng_wire_bool(w, &c->if_mtime);
        eng_wire_bool(w, &c->if_size);
        call_i64(w, &c->mtime_s);
        eng_wire_u64(w, &c->size);
}

static void call_extras(struct eng_wire *w, struct eng_extras *extras)
{
        call_str(w, &extras->tags, ENG_TAGS_MAX);
        call_str(w, &extras->acl, ENG_ACL_MAX);
        extras->retention.mode = (enum eng_retention_mode)call_enum(w, extras->retention.mode, ENG_RETENTION_COMPLIANCE);
        call_i64(w, &extras->retention.until_ms);
        eng_wire_bool(w, &extras->hold);
        eng_wire_bool(w, &extras->no_hold);
}

static void call_rules(struct eng_wire *w, struct eng_bucket_rules *rules)
{
        eng_wire_u64(w, &rules->generation);
        rules->versioning = (enum eng_versioning)call_enum(w, rules->versioning, ENG_VERSIONING_SUSPENDED);
        eng_wire_bool(w, &rules->lock);
        rules->default_mode = (enum eng_retention_mode)call_enum(w, rules->default_mode, ENG_RETENTION_COMPLIANCE);
        eng_wire_bool(w, &rules->default_years);
        eng_wire_u32(w, &rules->default_period);
}

/* The length of a piece of bulk, which is taken from what there is. */
static void wire_piece(struct eng_wire *w, struct eng_str *s, size_t most, struct eng_str *bulk)
{
        uint32_t len = (uint32_t)s->len;

        eng_wire_u32(w, &len);
        eng_wire_check(w, len <= most);
        if (w->out != NULL || w->bad)
                return;
        if (bulk->len < len) { /* its length alone is asked for, or it makes no sense */
                w->bad |= bulk->data != NULL;
                *s = (struct eng_str){NULL, len};
                return;
        }
        *s = (struct eng_str){bulk->data, len};
        bulk->data += len;
        bulk->len -= len;
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void call_put_fields(struct eng_wire *w, struct eng_call *call, struct eng_str *bulk)
{
        eng_wire_u64(w, &call->bucket);
        call_str(w, &call->key, ENG_KEY_MAX);
        call_condition(w, &call->put.condition);
        eng_wire_bool(w, &call->put.is_part);
        eng_wire_bytes(w, call->put.upload_id, FMT_ID);
        eng_wire_u32(w, &call->put.part_number);
        eng_wire_check(w, call->put.is_part ? call->put.part_number >= 1 && call->put.part_number <= ENG_PARTS_MAX : call->put.part_number == 0);
        eng_wire_bool(w, &call->put.now);
        eng_wire_u32(w, &call->put.proof_count);
        eng_wire_check(w, call->put.proof_count <= ENG_DRIVES_MAX);
        if (!w->bad)
                eng_wire_in_place(w, &call->put.proofs, call->put.proof_count * sizeof(struct eng_call_proof));
        wire_piece(w, &call->put.value, FMT_VALUE_MAX, bulk);
        wire_piece(w, &call->put.bytes, FMT_INLINE_MAX, bulk);
}

static void call_delete_fields(struct eng_wire *w, struct eng_call *call)
{
        eng_wire_u64(w, &call->bucket);
        call_str(w, &call->key, ENG_KEY_MAX);
        call_version(w, &call->del.by_version, &call->del.version);
        call_condition(w, &call->del.condition);
        call->del.place = (enum eng_place)call_enum(w, call->del.place, ENG_PLACE_ALONE);
        eng_wire_bool(w, &call->del.object);
        eng_wire_bool(w, &call->del.bypass_governance);
        eng_wire_check(w, call->del.by_version || (call->del.place == ENG_PLACE_ANY && !call->del.object));
        eng_wire_check(w, !call->del.object || call->del.place == ENG_PLACE_NEWEST);
}

static void call_extras_fields(struct eng_wire *w, struct eng_call *call)
{
        struct eng_extras_change *change = &call->extras.change;

        eng_wire_u64(w, &call->bucket);
        call_str(w, &call->key, ENG_KEY_MAX);
        call_version(w, &call->extras.by_version, &call->extras.version);
        eng_wire_bool(w, &change->set_tags);
        eng_wire_bool(w, &change->set_retention);
        eng_wire_bool(w, &change->set_hold);
        eng_wire_bool(w, &change->set_acl);
        eng_wire_bool(w, &change->if_id);
        eng_wire_bool(w, &change->if_tags);
        eng_wire_bytes(w, change->id, sizeof(change->id));
        call_str(w, &change->tags_seen, ENG_TAGS_MAX);
        call_extras(w, &change->extras);
        eng_wire_bool(w, &change->bypass_governance);
}

static void call_complete_fields(struct eng_wire *w, struct eng_call *call, struct eng_str *bulk)
{
        struct eng_str parts = {(const char *)call->complete.parts, call->complete.count * sizeof(struct eng_complete_part)};
        unsigned i;

        eng_wire_u64(w, &call->bucket);
        call_str(w, &call->key, ENG_KEY_MAX);
        eng_wire_bytes(w, call->complete.upload_id, FMT_ID);
        eng_wire_bytes(w, call->complete.etag, sizeof(call->complete.etag));
        eng_wire_bytes(w, call->complete.tag, sizeof(call->complete.tag));
        call_str(w, &call->complete.attrs, ENG_ATTRS_MAX);
        call_condition(w, &call->complete.condition);
        call_i64(w, &call->complete.mtime_ms);
        wire_piece(w, &parts, ENG_PARTS_MAX * sizeof(struct eng_complete_part), bulk);
        eng_wire_check(w, parts.len > 0 && parts.len % sizeof(struct eng_complete_part) == 0);
        if (w->out != NULL || w->bad)
                return;
        call->complete.count = (unsigned)(parts.len / sizeof(struct eng_complete_part));
        call->complete.parts = (const struct eng_complete_part *)(const void *)parts.data;
        for (i = 1; parts.data != NULL && i < call->complete.count; i++)
                eng_wire_check(w, call->complete.parts[i - 1].number < call->complete.parts[i].number);
}

static void call_merge_fields(struct eng_wire *w, struct eng_call *call)
{
        call_name(w, &call->merge.from);
        call_name(w, &call->merge.to);
        eng_wire_bool(w, &call->merge.after);
        eng_wire_u16(w, &call->merge.prefix_len);
        eng_wire_check(w, call->merge.prefix_len <= FMT_NAME_MAX);
        call_str(w, &call->merge.delimiter, 2 * ENG_KEY_MAX); /* as names have it: escaped */
        eng_wire_u32(w, &call->merge.flags);
        eng_wire_check(w, (call->merge.flags & ~MERGE_FLAGS) == 0 && eng_flags_agree(call->merge.flags));
        eng_wire_u32(w, &call->merge.max);
        eng_wire_check(w, call->merge.max >= 1);
}

static void call_lookup_fields(struct eng_wire *w, struct eng_call *call)
{
        call->lookup.which = (uint8_t)call_enum(w, call->lookup.which, ENG_CALL_WHICH_MAX);
        eng_wire_u64(w, &call->lookup.pin);
        eng_wire_u32(w, &call->lookup.flags);
        eng_wire_check(w, (call->lookup.flags & ~ENG_OP_WANT_INLINE) == 0);
        eng_wire_bytes(w, call->lookup.random, sizeof(call->lookup.random));
        call_name(w, &call->lookup.name);
}

static void call_bucket_fields(struct eng_wire *w, struct eng_call *call)
{
        if (call->kind != ENG_CALL_BUCKET_CREATE)
                eng_wire_u64(w, &call->bucket);
        if (call->kind != ENG_CALL_RULES_SET) {
                call_str(w, &call->key, ENG_BUCKET_NAME_MAX);
                eng_wire_check(w, call->key.len > 0);
        }
        if (call->kind == ENG_CALL_BUCKET_DELETE)
                return;
        eng_wire_bool(w, &call->rules.has_rules);
        eng_wire_check(w, call->rules.has_rules || call->kind == ENG_CALL_BUCKET_CREATE);
        call_rules(w, &call->rules.rules);
        if (call->kind == ENG_CALL_BUCKET_CREATE)
                call_str(w, &call->rules.attrs, sizeof(((struct eng_bucket *)NULL)->attrs));
}

static void call_text_fields(struct eng_wire *w, struct eng_call *call, struct eng_str *bulk)
{
        eng_wire_u64(w, &call->bucket);
        eng_wire_u8(w, &call->text.kind);
        eng_wire_u64(w, &call->text.expected);
        eng_wire_bool(w, &call->text.decided);
        if (call->text.decided) {
                eng_wire_u64(w, &call->text.seen.rows);
                eng_wire_u64(w, &call->text.seen.sum[0]);
                eng_wire_u64(w, &call->text.seen.sum[1]);
                eng_wire_check(w, call->text.kind >= ENG_ENTRY_KINDS);
        }
        if (call->kind == ENG_CALL_TEXT_SET)
                wire_piece(w, &call->text.bytes, ENG_TEXT_MAX, bulk);
}

/* bulk: of what is read; data NULL: only its length is wanted. */
static void call_fields(struct eng_wire *w, struct eng_call *call, struct eng_str *bulk)
{
        call->kind = (enum eng_call_kind)call_enum(w, call->kind, ENG_CALL_KINDS - 1);
        switch (call->kind) {
        case ENG_CALL_PUT:
                call_put_fields(w, call, bulk);
                break;
        case ENG_CALL_DELETE:
                call_delete_fields(w, call);
                break;
        case ENG_CALL_UPDATE:
                eng_wire_u64(w, &call->bucket);
                call_str(w, &call->key, ENG_KEY_MAX);
                call_condition(w, &call->update.condition);
                eng_wire_bytes(w, call->update.tag, sizeof(call->update.tag));
                call_str(w, &call->update.attrs, ENG_ATTRS_MAX);
                break;
        case ENG_CALL_EXTRAS:
                call_extras_fields(w, call);
                break;
        case ENG_CALL_UPLOAD_CREATE:
                eng_wire_u64(w, &call->bucket);
                call_str(w, &call->key, ENG_KEY_MAX);
                eng_wire_bytes(w, call->create.tag, sizeof(call->create.tag));
                call_str(w, &call->create.attrs, ENG_ATTRS_MAX);
                call_extras(w, &call->create.extras);
                break;
        case ENG_CALL_UPLOAD_ABORT:
                eng_wire_u64(w, &call->bucket);
                call_str(w, &call->key, ENG_KEY_MAX);
                eng_wire_bytes(w, call->abort.upload_id, FMT_ID);
                break;
        case ENG_CALL_COMPLETE:
                call_complete_fields(w, call, bulk);
                break;
        case ENG_CALL_LOOKUP:
                call_lookup_fields(w, call);
                break;
        case ENG_CALL_MERGE:
                call_merge_fields(w, call);
                break;
        case ENG_CALL_BUCKET_CREATE:
        case ENG_CALL_RULES_SET:
        case ENG_CALL_BUCKET_DELETE:
                call_bucket_fields(w, call);
                break;
        case ENG_CALL_TEXT_SET:
        case ENG_CALL_TEXT_DELETE:
                call_text_fields(w, call, bulk);
                break;
        case ENG_CALL_LOCK_CONFIRM:
                call_i64(w, &call->wall_ms);
                break;
        case ENG_CALL_HINT:
                eng_wire_u32(w, &call->group);
                break;
        case ENG_CALL_DISCARD:
                eng_wire_bytes(w, call->discard.id, FMT_ID);
                eng_wire_u64(w, &call->discard.drives);
                break;
        default:
                w->bad = true;
                break;
        }
}

/* Strings that go as bulk. */
static void call_bulk(const struct eng_call *call, struct eng_call_bulk *out)
{
        struct eng_str first = {NULL, 0}, second = {NULL, 0};

        if (call->kind == ENG_CALL_PUT) {
                first = call->put.value;
                second = call->put.bytes;
        } else if (call->kind == ENG_CALL_COMPLETE) {
                first = (struct eng_str){(const char *)call->complete.parts, call->complete.count * sizeof(struct eng_complete_part)};
        } else if (call->kind == ENG_CALL_TEXT_SET) {
                first = call->text.bytes;
        }
        out->count = 0;
        if (first.len > 0) {
                out->piece[out->count].bytes = (const uint8_t *)first.data;
                out->piece[out->count++].len = first.len;
        }
        if (second.len > 0) {
                out->piece[out->count].bytes = (const uint8_t *)second.data;
                out->piece[out->count++].len = second.len;
        }
}

int eng_call_put(const struct eng_call *call, uint8_t body[ENG_CALL_BODY_MAX], struct eng_call_bulk *bulk)
{
        struct eng_wire w = {.out = body, .len = ENG_CALL_BODY_MAX};
        struct eng_call copy = *call;
        struct eng_str none = {NULL, 0};

        call_fields(&w, &copy, &none);
        call_bulk(call, bulk);
        return w.bad ? -EMSGSIZE : (int)w.at;
}

/* What a value of an upload's record must be, beside well formed. */
static bool is_uploads(const struct eng_call *call)
{
        struct fmt_value head;

        if (call->put.value.len < sizeof(head) || eng_value_check(call->put.value.data, call->put.value.len) != 0)
                return false;
        memcpy(&head, call->put.value.data, sizeof(head));
        if (head.space != (call->put.is_part ? FMT_SPACE_PART : FMT_SPACE_OBJECT) || (head.state & (FMT_STATE_HEAD | FMT_STATE_MARKER)) != 0)
                return false;
        return ((head.flags & FMT_VALUE_INLINE) != 0 ? head.inline_len : 0) == call->put.bytes.len;
}

static int wire_read_call(const uint8_t *body, size_t len, struct eng_str *bulk, struct eng_call *call)
{
        struct eng_wire w = {.in = body, .len = len};

        memset(call, 0, sizeof(*call));
        call_fields(&w, call, bulk);
        return w.bad || w.at != len ? -EBADMSG : 0;
}

int64_t eng_call_bulk_len(const uint8_t *body, size_t len)
{
        struct eng_str none = {NULL, 0};
        struct eng_call call;
        int rv = wire_read_call(body, len, &none, &call);

        if (rv != 0)
                return rv;
        if (call.kind == ENG_CALL_PUT)
                return (int64_t)(call.put.value.len + call.put.bytes.len);
        if (call.kind == ENG_CALL_COMPLETE)
                return (int64_t)(call.complete.count * sizeof(struct eng_complete_part));
        return call.kind == ENG_CALL_TEXT_SET ? (int64_t)call.text.bytes.len : 0;
}

bool eng_call_changes(const uint8_t *body, size_t len)
{
        switch (len == 0 ? 0 : body[0]) {
        case ENG_CALL_PUT:
        case ENG_CALL_DELETE:
        case ENG_CALL_UPDATE:
        case ENG_CALL_EXTRAS:
        case ENG_CALL_UPLOAD_CREATE:
        case ENG_CALL_UPLOAD_ABORT:
        case ENG_CALL_COMPLETE:
        case ENG_CALL_BUCKET_CREATE:
        case ENG_CALL_RULES_SET:
        case ENG_CALL_BUCKET_DELETE:
        case ENG_CALL_TEXT_SET:
        case ENG_CALL_TEXT_DELETE:
                return true;
        default:
                return false;
        }
}

int eng_call_get(const uint8_t *body, size_t len, const uint8_t *bulk, size_t bulk_len, struct eng_call *call)
{
        static const char nothing[8];
        struct eng_str rest = {bulk == NULL ? nothing : (const char *)bulk, bulk_len};
        int rv = wire_read_call(body, len, &rest, call);

        if (rv == 0 && (rest.len != 0 || (call->kind == ENG_CALL_PUT && !is_uploads(call))))
                rv = -EBADMSG;
        return rv;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer_deleted(struct eng_wire *w, struct eng_deleted *deleted)
{
        eng_wire_bool(w, &deleted->existed);
        eng_wire_bool(w, &deleted->versioned);
        eng_wire_bool(w, &deleted->marker);
        eng_wire_u64(w, &deleted->version.number);
        eng_wire_bytes(w, deleted->version.random, sizeof(deleted->version.random));
}

static void answer_lookup(struct eng_wire *w, struct eng_call_answer *answer, struct eng_str *bulk)
{
        bool there = answer->bytes.data != NULL;

        call_name(w, &answer->name);
        eng_wire_bool(w, &answer->pinned);
        wire_piece(w, &answer->value, FMT_BODY_MAX, bulk);
        eng_wire_bool(w, &there);
        eng_wire_check(w, there || answer->bytes.len == 0);
        if (there)
                wire_piece(w, &answer->bytes, FMT_INLINE_MAX, bulk);
}

static void wire_object(struct eng_wire *w, struct eng_object *object)
{
        eng_wire_u64(w, &object->size);
        call_i64(w, &object->mtime_ms);
        eng_wire_bytes(w, object->id, ENG_ID_LEN);
        eng_wire_bytes(w, object->etag, sizeof(object->etag));
        eng_wire_u16(w, &object->etag_parts);
        eng_wire_u32(w, &object->part_count);
        eng_wire_bool(w, &object->inline_value);
        eng_wire_bytes(w, object->upload_id, ENG_ID_LEN);
        eng_wire_bytes(w, object->tag, sizeof(object->tag));
        eng_wire_u64(w, &object->version.number);
        eng_wire_bytes(w, object->version.random, sizeof(object->version.random));
        eng_wire_bool(w, &object->marker);
        eng_wire_bool(w, &object->hold);
        eng_wire_bool(w, &object->hold_known);
        object->retention.mode = (enum eng_retention_mode)call_enum(w, object->retention.mode, ENG_RETENTION_COMPLIANCE);
        call_i64(w, &object->retention.until_ms);
        call_str(w, &object->attrs, ENG_ATTRS_MAX);
        call_str(w, &object->tags, ENG_TAGS_MAX);
        call_str(w, &object->acl, ENG_ACL_MAX);
}

/* A change whose answer says what was stored. */
static bool stores_object(enum eng_call_kind kind)
{
        return kind == ENG_CALL_PUT || kind == ENG_CALL_UPDATE || kind == ENG_CALL_EXTRAS || kind == ENG_CALL_COMPLETE;
}

static void answer_fields(struct eng_wire *w, enum eng_call_kind kind, struct eng_call_answer *answer, struct eng_str *bulk)
{
        int32_t rv = answer->rv;

        eng_wire_bytes(w, &rv, sizeof(rv));
        answer->rv = rv;
        eng_wire_check(w, rv <= 0);
        eng_wire_bool(w, &answer->recorded);
        if (w->bad)
                return;
        if (kind == ENG_CALL_DELETE) {
                answer_deleted(w, &answer->deleted);
        } else if (kind == ENG_CALL_UPLOAD_CREATE) {
                eng_wire_bytes(w, answer->upload_id, FMT_ID);
        } else if (kind == ENG_CALL_LOOKUP && rv == -EMSGSIZE) {
                eng_wire_u32(w, &answer->needs);
                eng_wire_check(w, answer->needs <= ENG_CALL_BULK_MAX);
        } else if (rv != 0) {
                return;
        } else if (stores_object(kind)) {
                wire_object(w, &answer->object);
        } else if (kind == ENG_CALL_LOOKUP) {
                answer_lookup(w, answer, bulk);
        } else if (kind == ENG_CALL_MERGE) {
                eng_wire_bool(w, &answer->more);
                eng_wire_u32(w, &answer->count);
                eng_wire_check(w, answer->count <= ENG_CALL_ENTRIES_MAX);
                wire_piece(w, &answer->entries, ENG_CALL_BULK_MAX, bulk);
        }
}

int eng_call_put_answer(enum eng_call_kind kind, const struct eng_call_answer *answer, uint8_t body[ENG_CALL_BODY_MAX],
                        struct eng_call_bulk *bulk)
{
        struct eng_wire w = {.out = body, .len = ENG_CALL_BODY_MAX};
        struct eng_call_answer copy = *answer;
        struct eng_str none = {NULL, 0}, first = {NULL, 0}, second = {NULL, 0};

        answer_fields(&w, kind, &copy, &none);
        if (answer->rv == 0 && kind == ENG_CALL_LOOKUP) {
                first = answer->value;
                second = answer->bytes;
        } else if (answer->rv == 0 && kind == ENG_CALL_MERGE) {
                first = answer->entries;
        }
        bulk->count = 0;
        if (first.len > 0) {
                bulk->piece[bulk->count].bytes = (const uint8_t *)first.data;
                bulk->piece[bulk->count++].len = first.len;
        }
        if (second.len > 0) {
                bulk->piece[bulk->count].bytes = (const uint8_t *)second.data;
                bulk->piece[bulk->count++].len = second.len;
        }
        return w.bad ? -EMSGSIZE : (int)w.at;
}

int eng_call_get_answer(enum eng_call_kind kind, const uint8_t *body, size_t len, const uint8_t *bulk, size_t bulk_len,
                        struct eng_call_answer *answer)
{
        static const char nothing[8];
        struct eng_str rest = {bulk == NULL ? nothing : (const char *)bulk, bulk_len};
        struct eng_wire w = {.in = body, .len = len};
        bool fine = true;

        memset(answer, 0, sizeof(*answer));
        answer_fields(&w, kind, answer, &rest);
        if (w.bad || w.at != len || rest.len != 0)
                return -EBADMSG;
        if (answer->rv != 0)
                return 0;
        if (kind == ENG_CALL_LOOKUP)
                fine = eng_value_check(answer->value.data, answer->value.len) == 0;
        return fine ? 0 : -EBADMSG;
}
