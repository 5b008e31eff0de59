/*
 * put_value.c - the value that an upload's record carries: what is stored, and where.
 *
 * Home loop; functions over an upload whose bytes are durable.
 */
#include "engine/record/value.h"
#include "engine/object/put.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The fmt_part of a striped upload, with its drives; NULL: no memory. */
static uint8_t *encode_part(struct eng_put *put, size_t *len)
{
        size_t attrs_len = put->params.is_part ? put->commit.attrs_len : 0;
        size_t drives_len = (size_t)put->runs * eng_put_shards(put), i; /* a byte each */
        struct fmt_part part = {
                .number = (uint16_t)(put->params.part_number | FMT_PART_NARROW),
                .k = (uint8_t)put->k,
                .m = (uint8_t)put->m,
                .attrs_len = (uint16_t)attrs_len,
                .runs = (uint16_t)put->runs,
                .unit = put->unit,
                .last_unit = put->last_unit,
                .size = put->taken,
        };
        uint8_t *out = malloc(sizeof(part) + attrs_len + drives_len);

        if (out == NULL)
                return NULL;
        memcpy(part.id, put->id, FMT_ID);
        memcpy(part.etag, put->commit.etag, 16);
        memcpy(out, &part, sizeof(part));
        if (attrs_len != 0)
                memcpy(out + sizeof(part), put->commit_attrs, attrs_len);
        for (i = 0; i < drives_len; i++)
                eng_part_slot_set(out + sizeof(part) + attrs_len, 1, i, put->drives[i]);
        *len = sizeof(part) + attrs_len + drives_len;
        return out;
}

struct eng_buf *eng_put_value(struct eng_put *put, uint32_t pg)
{
        struct eng_value_spec spec = {
                .space = put->params.is_part ? FMT_SPACE_PART : FMT_SPACE_OBJECT,
                .inline_value = !put->striped,
                .pg = pg,
                .inline_len = put->striped ? 0 : (uint32_t)put->head_len,
                .size = put->taken,
                .mtime_ms = put->commit.mtime_ms != 0 ? put->commit.mtime_ms : lp_wall_ms(),
                .id = put->id,
                .etag = put->commit.etag,
                .upload_id = put->params.is_part ? put->params.upload_id : NULL,
                .tag = put->commit.tag,
                .state = put->commit_state,
                .attrs = put->commit_attrs,
                .attrs_len = put->commit.attrs_len,
                .fields = put->commit_fields.data,
                .fields_len = put->commit_fields.len,
        };
        struct eng_buf *value;
        uint8_t *part = NULL;

        assert(put->in_flight == 0 && (put->striped ? put->runs > 0 : put->head_len == put->taken));
        if (put->striped) {
                part = encode_part(put, &spec.parts_len);
                if (part == NULL)
                        return NULL;
                spec.parts = part;
                spec.part_count = 1;
        }
        value = eng_value_new(&spec);
        free(part);
        return value;
}
