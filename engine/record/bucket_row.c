/*
 * bucket_row.c - the row of a bucket, as every drive has it: its id and what the caller keeps with it
 * in attrs, its rules in a field. Pure functions, any thread.
 */
#include "engine/record/value.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define ROW_HEAD 10u /* bytes before the bucket's name: space, bucket 0, 'b' */
#define ROW_ID   8u  /* bytes of attrs before the caller's */

struct eng_buf *eng_bucket_value(uint32_t pg, const struct eng_bucket *bucket)
{
        uint8_t attrs[ROW_ID + sizeof(bucket->attrs)], bytes[sizeof(struct fmt_field) + sizeof(struct fmt_bucket_rules)];
        struct eng_fields fields = {.data = bytes, .size = sizeof(bytes)};
        struct fmt_bucket_rules rules;
        struct eng_value_spec spec = {
                .space = FMT_SPACE_CONFIG,
                .pg = pg,
                .mtime_ms = bucket->created_ms,
                .attrs = attrs,
                .attrs_len = ROW_ID + bucket->attrs_len,
        };

        memcpy(attrs, &bucket->id, ROW_ID);
        memcpy(attrs + ROW_ID, bucket->attrs, bucket->attrs_len);
        if (bucket->rules.generation != 0) {
                rules = eng_rules_encode(&bucket->rules);
                eng_fields_add(&fields, FMT_FIELD_BUCKET, &rules, sizeof(rules));
                spec.fields = bytes;
                spec.fields_len = fields.len;
        }
        return eng_value_new(&spec);
}

static int row_rules(const uint8_t *value, size_t value_len, struct eng_bucket_rules *out)
{
        struct fmt_field field;
        const uint8_t *data;
        size_t pos = 0;
        int rv;

        while ((rv = eng_value_next_field(value, value_len, &pos, &field, &data)) == 1)
                if (field.kind == FMT_FIELD_BUCKET && (out->generation != 0 || eng_rules_decode(data, field.len, out) != 0))
                        return -EBADMSG;
        return rv;
}

int eng_bucket_decode(const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len, struct eng_bucket *out)
{
        struct fmt_value v;

        memset(out, 0, sizeof(*out));
        if (name_len <= ROW_HEAD || name_len - ROW_HEAD > ENG_BUCKET_NAME_MAX || name[0] != FMT_SPACE_CONFIG ||
            name[ROW_HEAD - 1] != 'b' || value_len < sizeof(v))
                return -EBADMSG;
        memcpy(&v, value, sizeof(v));
        if (v.attrs_len < ROW_ID || v.attrs_len - ROW_ID > sizeof(out->attrs) || value_len < eng_value_parts_at(&v))
                return -EBADMSG;
        memcpy(out->name, name + ROW_HEAD, name_len - ROW_HEAD);
        memcpy(&out->id, value + sizeof(v), ROW_ID);
        out->attrs_len = (uint16_t)(v.attrs_len - ROW_ID);
        memcpy(out->attrs, value + sizeof(v) + ROW_ID, out->attrs_len);
        out->created_ms = v.mtime_ms;
        return row_rules(value, value_len, &out->rules);
}

bool eng_bucket_same(const struct eng_bucket *a, const struct eng_bucket *b)
{
        return a->id == b->id && a->created_ms == b->created_ms && a->rules.generation == b->rules.generation &&
               eng_rules_same(&a->rules, &b->rules) && a->attrs_len == b->attrs_len && memcmp(a->attrs, b->attrs, a->attrs_len) == 0;
}
