/*
 * fields.c - the optional fields of a value (format.h, enum fmt_field_kind): found, and put
 * together for a new value; and what a value says of its object. Pure functions, any thread.
 */
#include "engine/record/value.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define FIELD_ALIGN 4u

const uint8_t *eng_value_field(const void *value, size_t len, enum fmt_field_kind kind, size_t *field_len)
{
        struct fmt_field field;
        const uint8_t *data;
        size_t pos = 0;

        while (eng_value_next_field(value, len, &pos, &field, &data) == 1)
                if (field.kind == kind) {
                        *field_len = field.len;
                        return data;
                }
        return NULL;
}

bool eng_value_head_field(const void *value, size_t len, struct fmt_head *out)
{
        struct fmt_value head;
        const uint8_t *data;
        size_t field_len;

        memcpy(&head, value, sizeof(head)); /* in a record it is not aligned */
        if ((head.state & FMT_STATE_HEAD) == 0)
                return false;
        data = eng_value_field(value, len, FMT_FIELD_HEAD, &field_len);
        if (data == NULL || field_len != sizeof(*out))
                return false;
        memcpy(out, data, sizeof(*out));
        return true;
}

void eng_fields_add(struct eng_fields *fields, enum fmt_field_kind kind, const void *data, size_t len)
{
        struct fmt_field head = {.kind = (uint16_t)kind, .len = (uint16_t)len};
        size_t padded = (len + FIELD_ALIGN - 1) / FIELD_ALIGN * FIELD_ALIGN;

        assert(len <= UINT16_MAX && fields->len + sizeof(head) + padded <= fields->size);
        memcpy(fields->data + fields->len, &head, sizeof(head));
        memcpy(fields->data + fields->len + sizeof(head), data, len);
        memset(fields->data + fields->len + sizeof(head) + len, 0, padded - len);
        fields->len += sizeof(head) + padded;
}

size_t eng_field_size(size_t len)
{
        return sizeof(struct fmt_field) + (len + FIELD_ALIGN - 1) / FIELD_ALIGN * FIELD_ALIGN;
}

/* ---- rules of a bucket ----------------------------------------------------------------------- */

#define DAYS_MAX  36500u
#define YEARS_MAX 100u

static const uint8_t stored_versioning[] = {
        [ENG_VERSIONING_NEVER] = FMT_VERSIONING_NEVER,
        [ENG_VERSIONING_ENABLED] = FMT_VERSIONING_ENABLED,
        [ENG_VERSIONING_SUSPENDED] = FMT_VERSIONING_SUSPENDED,
};
static const uint8_t stored_mode[] = {
        [ENG_RETENTION_NONE] = 0,
        [ENG_RETENTION_GOVERNANCE] = FMT_RETENTION_GOVERNANCE,
        [ENG_RETENTION_COMPLIANCE] = FMT_RETENTION_COMPLIANCE,
};

bool eng_rules_make_sense(const struct eng_bucket_rules *rules)
{
        if ((unsigned)rules->versioning >= sizeof(stored_versioning) || (unsigned)rules->default_mode >= sizeof(stored_mode))
                return false;
        if (rules->lock && rules->versioning != ENG_VERSIONING_ENABLED)
                return false;
        if (rules->default_mode == ENG_RETENTION_NONE)
                return rules->default_period == 0 && !rules->default_years;
        return rules->lock && rules->default_period > 0 && rules->default_period <= (rules->default_years ? YEARS_MAX : DAYS_MAX);
}

bool eng_rules_same(const struct eng_bucket_rules *a, const struct eng_bucket_rules *b)
{
        return a->versioning == b->versioning && a->lock == b->lock && a->default_mode == b->default_mode &&
               a->default_years == b->default_years && a->default_period == b->default_period;
}

struct fmt_bucket_rules eng_rules_encode(const struct eng_bucket_rules *rules)
{
        assert(eng_rules_make_sense(rules));
        return (struct fmt_bucket_rules){
                .generation = rules->generation,
                .versioning = stored_versioning[rules->versioning],
                .lock = rules->lock,
                .retention_mode = stored_mode[rules->default_mode],
                .retention_unit = rules->default_years ? FMT_RETENTION_YEARS : FMT_RETENTION_DAYS,
                .retention = rules->default_period,
        };
}

/* Where a stored number stands in its table; the table's size: nowhere. */
static unsigned rules_find(const uint8_t *table, unsigned size, uint8_t stored)
{
        unsigned i;

        for (i = 0; i < size && table[i] != stored; i++)
                ;
        return i;
}

int eng_rules_decode(const uint8_t *data, size_t len, struct eng_bucket_rules *out)
{
        struct fmt_bucket_rules r;

        if (len != sizeof(r))
                return -EBADMSG;
        memcpy(&r, data, sizeof(r));
        if (r.generation == 0 || r.lock > 1 || r.retention_unit > FMT_RETENTION_YEARS)
                return -EBADMSG;
        *out = (struct eng_bucket_rules){
                .generation = r.generation,
                .versioning = (enum eng_versioning)rules_find(stored_versioning, sizeof(stored_versioning), r.versioning),
                .lock = r.lock != 0,
                .default_mode = (enum eng_retention_mode)rules_find(stored_mode, sizeof(stored_mode), r.retention_mode),
                .default_years = r.retention_unit == FMT_RETENTION_YEARS,
                .default_period = r.retention,
        };
        return eng_rules_make_sense(out) ? 0 : -EBADMSG;
}

/* ---- what a value says of its object --------------------------------------------------------- */

/* What cannot be understood protects: for good, if it does not say until when. */
static void take_retention(const uint8_t *data, size_t len, struct eng_retention *out)
{
        struct fmt_retention r;

        *out = (struct eng_retention){.mode = ENG_RETENTION_COMPLIANCE, .until_ms = INT64_MAX};
        if (len != sizeof(r))
                return;
        memcpy(&r, data, sizeof(r));
        if (r.mode == FMT_RETENTION_GOVERNANCE)
                out->mode = ENG_RETENTION_GOVERNANCE;
        out->until_ms = r.until_ms;
}

static void take_fields(const uint8_t *value, size_t len, struct eng_object *out)
{
        struct fmt_field field;
        const uint8_t *data;
        size_t pos = 0;

        while (eng_value_next_field(value, len, &pos, &field, &data) == 1) {
                switch (field.kind) {
                case FMT_FIELD_RETENTION:
                        take_retention(data, field.len, &out->retention);
                        break;
                case FMT_FIELD_TAGS:
                        out->tags = (struct eng_str){(const char *)data, field.len};
                        break;
                case FMT_FIELD_ACL:
                        out->acl = (struct eng_str){(const char *)data, field.len};
                        break;
                case FMT_FIELD_HOLD:
                        out->hold_known = true;
                        break;
                case FMT_FIELD_VERSION:
                        if (field.len == sizeof(out->version.random))
                                memcpy(out->version.random, data, sizeof(out->version.random));
                        break;
                default:
                        break;
                }
        }
}

void eng_encoded_object(const uint8_t *value, size_t len, struct eng_object *out)
{
        struct fmt_value v;

        memset(out, 0, sizeof(*out));
        memcpy(&v, value, sizeof(v));
        out->size = v.size;
        out->mtime_ms = v.mtime_ms;
        memcpy(out->id, v.id, FMT_ID);
        memcpy(out->etag, v.etag, 16);
        out->etag_parts = v.etag_parts;
        out->part_count = v.etag_parts != 0 ? v.parts : 0;
        out->inline_value = (v.flags & FMT_VALUE_INLINE) != 0;
        memcpy(out->upload_id, v.upload_id, FMT_ID);
        memcpy(out->tag, v.tag, 8);
        out->marker = (v.state & FMT_STATE_MARKER) != 0;
        out->hold = out->hold_known = (v.state & FMT_STATE_HOLD) != 0;
        if (len >= sizeof(v) + v.attrs_len) {
                out->attrs.data = (const char *)value + sizeof(v);
                out->attrs.len = v.attrs_len;
        }
        if (v.fields_len != 0 && len >= eng_value_parts_at(&v))
                take_fields(value, len, out);
}

void eng_listed_of(const uint8_t *value, struct eng_listed *out)
{
        struct fmt_value v;

        memcpy(&v, value, sizeof(v));
        *out = (struct eng_listed){.size = v.size, .mtime_ms = v.mtime_ms, .etag_parts = v.etag_parts, .state = (uint16_t)v.state};
        memcpy(out->etag, v.etag, sizeof(out->etag));
        memcpy(out->tag, v.tag, sizeof(out->tag));
}

void eng_listed_object(const uint8_t *listed, struct eng_object *out)
{
        struct eng_listed l;

        memset(out, 0, sizeof(*out));
        memcpy(&l, listed, sizeof(l));
        out->size = l.size;
        out->mtime_ms = l.mtime_ms;
        memcpy(out->etag, l.etag, sizeof(out->etag));
        out->etag_parts = l.etag_parts;
        memcpy(out->tag, l.tag, sizeof(out->tag));
        out->marker = (l.state & FMT_STATE_MARKER) != 0;
        out->hold = out->hold_known = (l.state & FMT_STATE_HOLD) != 0;
}

void eng_value_object(const struct eng_buf *value, const struct eng_name *name, struct eng_object *out)
{
        eng_encoded_object(value->data, value->len, out);
        if (name != NULL && name->data[0] == FMT_SPACE_VERSION && (eng_value_head(value->data)->state & FMT_STATE_NULL) == 0)
                out->version.number = eng_name_version_number(name->data, name->len);
}
