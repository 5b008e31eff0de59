/*
 * fuzz_index_value.c - libFuzzer: bytes that claim to be a value of the index (fmt_value, attrs,
 * parts). What passes the check must be safe to walk.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/drive.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use_part(const uint8_t *data, size_t size, const struct eng_part *part)
{
        unsigned shards = (unsigned)part->head.k + part->head.m;
        uint32_t stripes = eng_part_stripes(&part->head);

        if (part->attrs < data || part->attrs + part->head.attrs_len > data + size)
                abort();
        if (part->drives < data || part->drives + part->width * (size_t)part->head.runs * shards > data + size)
                abort();
        if (stripes == 0)
                return;
        /* The last stripe's places are there, and no unit is larger than a slot. */
        eng_part_drive(part, stripes - 1, shards - 1);
        if (eng_part_drive(part, 0, shards) != 0xffff)
                abort();
        for (uint32_t i = 0; i < 2 && i < stripes; i++)
                if (eng_part_unit(&part->head, i == 0 ? 0 : stripes - 1) > FMT_UNIT_MAX)
                        abort();
}

/* Fields of a value that passed: each is read, and lies before the parts. */
static void use_fields(const uint8_t *data, size_t size)
{
        struct fmt_value head;
        struct fmt_field field;
        const uint8_t *bytes;
        size_t pos = 0, before, sum = 0;
        int rv;

        memcpy(&head, data, sizeof(head));
        do {
                before = pos;
                rv = eng_value_next_field(data, size, &pos, &field, &bytes);
                if (rv == 1 && (pos <= before || bytes < data + sizeof(head) + head.attrs_len ||
                                bytes + field.len > data + eng_value_parts_at(&head)))
                        abort();
                for (size_t i = 0; rv == 1 && i < field.len; i++)
                        sum += bytes[i];
        } while (rv == 1);
        if (rv != 0 || sum == SIZE_MAX)
                abort(); /* a value with fields that make no sense does not pass */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct eng_part part;
        size_t pos = 0, before;
        int rv, whole;

        whole = eng_value_check(data, size);
        if (whole == 0)
                use_fields(data, size);
        if (size < sizeof(struct fmt_value) && whole == 0)
                abort();
        /* Walking is bounded by itself, checked or not. */
        do {
                before = pos;
                rv = eng_value_next_part(data, size, &pos, &part);
                if (rv == 1 && pos <= before)
                        abort();
                if (rv == 1)
                        use_part(data, size, &part);
        } while (rv == 1);
        if (whole == 0 && rv != 0)
                abort();
        return 0;
}
