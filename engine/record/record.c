/*
 * record.c - encodes values and the bodies of records (see format.h). Pure functions, any thread.
 */
#include "engine/record/value.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

struct eng_buf *eng_value_new(const struct eng_value_spec *spec)
{
        struct eng_buf *buf =
                eng_buf_new(sizeof(struct fmt_value) + spec->attrs_len + spec->fields_len + spec->parts_len);
        struct fmt_value *v;

        if (buf == NULL)
                return NULL;
        v = (struct fmt_value *)buf->data;
        memset(v, 0, sizeof(*v));
        v->space = (uint8_t)spec->space;
        v->flags = spec->inline_value ? FMT_VALUE_INLINE : 0;
        assert(spec->attrs_len <= UINT16_MAX && spec->fields_len <= UINT16_MAX);
        v->attrs_len = (uint16_t)spec->attrs_len;
        v->fields_len = (uint16_t)spec->fields_len;
        v->pg = spec->pg;
        v->parts = spec->part_count;
        v->size = spec->size;
        v->mtime_ms = spec->mtime_ms;
        v->inline_len = spec->inline_len;
        v->etag_parts = spec->etag_parts;
        v->state = spec->state;
        if (spec->id != NULL)
                memcpy(v->id, spec->id, FMT_ID);
        if (spec->etag != NULL)
                memcpy(v->etag, spec->etag, 16);
        if (spec->upload_id != NULL)
                memcpy(v->upload_id, spec->upload_id, FMT_ID);
        if (spec->tag != NULL)
                memcpy(v->tag, spec->tag, 8);
        if (spec->attrs_len != 0)
                memcpy(buf->data + sizeof(*v), spec->attrs, spec->attrs_len);
        if (spec->fields_len != 0)
                memcpy(buf->data + sizeof(*v) + spec->attrs_len, spec->fields, spec->fields_len);
        if (spec->parts_len != 0)
                memcpy(buf->data + eng_value_parts_at(v), spec->parts, spec->parts_len);
        return buf;
}

int eng_body_begin(struct eng_body *body, size_t capacity)
{
        if (capacity > FMT_BODY_MAX)
                return -EINVAL;
        body->buf = eng_buf_new(capacity);
        body->len = 0;
        return body->buf == NULL ? -ENOMEM : 0;
}

size_t eng_body_need(size_t name_len, size_t value_len, size_t inline_len)
{
        return sizeof(struct fmt_mutation) + name_len + value_len + inline_len;
}

static void record_add(struct eng_body *body, const void *bytes, size_t len)
{
        assert(body->len + len <= body->buf->len);
        memcpy(body->buf->data + body->len, bytes, len);
        body->len += len;
}

static void add_mutation(struct eng_body *body, enum fmt_mutation_kind kind, const struct eng_name *name,
                         size_t value_len)
{
        struct fmt_mutation m = {.kind = (uint8_t)kind, .name_len = name->len, .value_len = (uint32_t)value_len};

        record_add(body, &m, sizeof(m));
        record_add(body, name->data, name->len);
}

void eng_body_put(struct eng_body *body, const struct eng_name *name, const struct eng_buf *value, uint64_t seq,
                  const void *inline_bytes, size_t inline_len)
{
        struct fmt_value head;

        add_mutation(body, FMT_MUT_PUT, name, value->len);
        memcpy(&head, value->data, sizeof(head));
        head.seq = seq;
        record_add(body, &head, sizeof(head));
        record_add(body, value->data + sizeof(head), value->len - sizeof(head));
        if (inline_len != 0)
                record_add(body, inline_bytes, inline_len);
}

void eng_body_delete(struct eng_body *body, const struct eng_name *name)
{
        add_mutation(body, FMT_MUT_DELETE, name, 0);
}

void eng_body_end_upload(struct eng_body *body, const struct eng_name *upload, const uint8_t (*ids)[FMT_ID], size_t count)
{
        add_mutation(body, FMT_MUT_END_UPLOAD, upload, count * FMT_ID);
        if (count != 0)
                record_add(body, ids, count * FMT_ID);
}
