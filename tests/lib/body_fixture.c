/*
 * body_fixture.c - see body_fixture.h.
 */
#include "tests/lib/body_fixture.h"

#include <string.h>

#include "tests/lib/must.h"

void fx_id(uint8_t out[FMT_ID], uint64_t id)
{
        memset(out, 0, FMT_ID);
        out[0] = (uint8_t)(id >> 24);
        out[1] = (uint8_t)(id >> 16);
        out[2] = (uint8_t)(id >> 8);
        out[3] = (uint8_t)id;
}

static void add(struct fx_body *body, const void *bytes, size_t len)
{
        MUST(body->len + len <= sizeof(body->bytes));
        if (len > 0)
                memcpy(body->bytes + body->len, bytes, len);
        body->len += len;
}

static void add_head(struct fx_body *body, enum fmt_mutation_kind kind, const void *name, size_t name_len,
                     size_t value_len)
{
        struct fmt_mutation head = {
                .kind = (uint8_t)kind, .name_len = (uint16_t)name_len, .value_len = (uint32_t)value_len};

        add(body, &head, sizeof(head));
        add(body, name, name_len);
}

void fx_body_put(struct fx_body *body, const void *name, size_t name_len, uint64_t id, uint32_t pg, const void *bytes,
                 size_t len)
{
        struct fmt_value value = {.space = *(const uint8_t *)name,
                                  .flags = FMT_VALUE_INLINE,
                                  .pg = pg,
                                  .size = len,
                                  .inline_len = (uint32_t)len};

        fx_id(value.id, id);
        add_head(body, FMT_MUT_PUT, name, name_len, sizeof(value));
        add(body, &value, sizeof(value));
        add(body, bytes, len);
        body->inline_len = len;
}

void fx_body_put_parts(struct fx_body *body, const void *name, size_t name_len, uint64_t id, const uint64_t *part_ids,
                       unsigned count, uint32_t pg)
{
        struct fmt_value value = {.space = *(const uint8_t *)name, .pg = pg, .size = 5000ull * count, .parts = count};
        struct fmt_part part = {.k = 1, .m = 0, .runs = 1, .unit = 8192, .last_unit = 8192, .size = 5000};
        const uint8_t drives[2] = {0, 0};
        unsigned i;

        fx_id(value.id, id);
        add_head(body, FMT_MUT_PUT, name, name_len, sizeof(value) + count * (sizeof(part) + sizeof(drives)));
        add(body, &value, sizeof(value));
        for (i = 0; i < count; i++) {
                fx_id(part.id, part_ids[i]);
                add(body, &part, sizeof(part));
                add(body, drives, sizeof(drives));
        }
}

void fx_body_put_part(struct fx_body *body, const void *name, size_t name_len, uint64_t id, uint64_t part_id,
                      uint32_t pg)
{
        fx_body_put_parts(body, name, name_len, id, &part_id, 1, pg);
}

void fx_body_delete(struct fx_body *body, const void *name, size_t name_len)
{
        add_head(body, FMT_MUT_DELETE, name, name_len, 0);
}

void fx_body_end_upload(struct fx_body *body, const void *name, size_t name_len, const uint64_t *ids, size_t count)
{
        uint8_t id[FMT_ID];
        size_t i;

        add_head(body, FMT_MUT_END_UPLOAD, name, name_len, count * FMT_ID);
        for (i = 0; i < count; i++) {
                fx_id(id, ids[i]);
                add(body, id, sizeof(id));
        }
}

struct eng_buf *fx_body_buf(const struct fx_body *body)
{
        struct eng_buf *buf = eng_buf_new(body->len);

        MUST(buf != NULL);
        memcpy(buf->data, body->bytes, body->len);
        return buf;
}

size_t fx_name(uint8_t *out, const char *key)
{
        static const uint8_t head[9] = {FMT_SPACE_OBJECT, 0, 0, 0, 0, 0, 0, 0, 1};
        size_t len = strlen(key);

        memcpy(out, head, sizeof(head));
        memcpy(out + sizeof(head), key, len);
        return sizeof(head) + len;
}
