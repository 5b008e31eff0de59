/*
 * name.c - builds index names (see format.h, "names"). Pure functions, any thread.
 */
#include "engine/record/value.h"

#include <assert.h>
#include <endian.h>
#include <string.h>

void eng_name_space(struct eng_name *out, enum fmt_space space, uint64_t bucket)
{
        uint64_t id = htobe64(bucket);

        out->data[0] = (uint8_t)space;
        memcpy(out->data + 1, &id, 8);
        out->len = 9;
}

static void name_add(struct eng_name *out, const void *bytes, size_t len)
{
        assert(out->len + len <= sizeof(out->data));
        if (len != 0)
                memcpy(out->data + out->len, bytes, len);
        out->len = (uint16_t)(out->len + len);
}

void eng_name_object(struct eng_name *out, uint64_t bucket, const void *key, size_t len)
{
        eng_name_space(out, FMT_SPACE_OBJECT, bucket);
        name_add(out, key, len);
}

void eng_name_bucket(struct eng_name *out, const char *bucket)
{
        eng_name_space(out, FMT_SPACE_CONFIG, 0);
        name_add(out, "b", 1);
        name_add(out, bucket, strlen(bucket));
}

void eng_name_dead_bucket(struct eng_name *out, const char *bucket, uint64_t id)
{
        eng_name_space(out, FMT_SPACE_CONFIG, 0);
        name_add(out, "d", 1);
        name_add(out, bucket, strlen(bucket) + 1);
        name_add(out, &id, sizeof(id));
}

size_t eng_dead_bucket_name_len(const struct eng_name *name)
{
        const size_t head = 10, tail = 1 + sizeof(uint64_t);
        size_t len;

        if (name->len <= head + tail || name->data[0] != FMT_SPACE_CONFIG || name->data[9] != 'd')
                return 0;
        len = name->len - head - tail;
        return len <= ENG_BUCKET_NAME_MAX && name->data[head + len] == 0 ? len : 0;
}

static void escaped(struct eng_name *out, enum fmt_space space, uint64_t bucket, const void *key, size_t len)
{
        assert(len <= ENG_KEY_MAX);
        eng_name_space(out, space, bucket);
        out->len = (uint16_t)(out->len + eng_name_escape(out->data + out->len, key, len));
        name_add(out, "\0\1", 2);
}

void eng_name_upload(struct eng_name *out, uint64_t bucket, const void *key, size_t len, const uint8_t id[FMT_ID])
{
        escaped(out, FMT_SPACE_UPLOAD, bucket, key, len);
        name_add(out, id, FMT_ID);
}

void eng_name_part(struct eng_name *out, uint64_t bucket, const void *key, size_t len, const uint8_t id[FMT_ID],
                   unsigned part)
{
        uint16_t number = htobe16((uint16_t)part);

        assert(part <= UINT16_MAX);
        escaped(out, FMT_SPACE_PART, bucket, key, len);
        name_add(out, id, FMT_ID);
        if (part != 0)
                name_add(out, &number, 2);
}

bool eng_name_successor(struct eng_name *name)
{
        while (name->len > 0 && name->data[name->len - 1] == 0xff)
                name->len--;
        if (name->len == 0)
                return false;
        name->data[name->len - 1]++;
        return true;
}
