/*
 * name.c - builds index names (see format.h, "names"), and takes them apart. Pure functions, any
 * thread.
 */
#include "engine/record/value.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>

#define KEY_MARK 2u /* 00 01, behind an escaped key */

static const struct {
        enum eng_name_form form;
        uint8_t tail_min, tail_max;
} name_spaces[FMT_SPACE_LAST + 1] = {
#define ENG_SPACE(symbol, form, tail_min, tail_max) [FMT_SPACE_##symbol] = {form, tail_min, tail_max},
#include "engine/record/spaces.def"
#undef ENG_SPACE
};

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

#define TEXT_KIND 18u /* where the kind stands in the name of a text's piece, whose number follows */

void eng_text_key(uint8_t key[ENG_TEXT_KEY], uint64_t bucket, unsigned kind)
{
        uint64_t id = htobe64(bucket);

        assert(kind <= UINT8_MAX);
        key[0] = 'c';
        memcpy(key + 1, &id, sizeof(id));
        key[ENG_TEXT_KEY - 1] = (uint8_t)kind;
}

void eng_name_texts(struct eng_name *out, uint64_t bucket)
{
        uint8_t key[ENG_TEXT_KEY];

        eng_text_key(key, bucket, 0);
        eng_name_space(out, FMT_SPACE_CONFIG, 0);
        name_add(out, key, ENG_TEXT_KEY - 1);
}

void eng_name_text(struct eng_name *out, uint64_t bucket, unsigned kind, unsigned piece)
{
        const uint8_t rest[] = {(uint8_t)kind, (uint8_t)piece};

        assert(kind <= UINT8_MAX && piece <= UINT8_MAX);
        eng_name_texts(out, bucket);
        name_add(out, rest, sizeof(rest));
}

bool eng_text_name(const uint8_t *name, size_t len, uint64_t *bucket, unsigned *kind, unsigned *piece)
{
        if (len != TEXT_KIND + 2 || name[0] != FMT_SPACE_CONFIG || name[9] != 'c')
                return false;
        memcpy(bucket, name + 10, sizeof(*bucket));
        *bucket = be64toh(*bucket);
        *kind = name[TEXT_KIND];
        *piece = name[TEXT_KIND + 1];
        return true;
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

void eng_name_versions(struct eng_name *out, uint64_t bucket, const void *key, size_t len)
{
        escaped(out, FMT_SPACE_VERSION, bucket, key, len);
}

void eng_name_version(struct eng_name *out, uint64_t bucket, const void *key, size_t len, uint64_t number)
{
        uint64_t complement = htobe64(~number);

        eng_name_versions(out, bucket, key, len);
        name_add(out, &complement, sizeof(complement));
}

uint64_t eng_name_version_number(const uint8_t *name, size_t len)
{
        uint64_t complement;

        assert(name[0] == FMT_SPACE_VERSION && len > sizeof(complement));
        memcpy(&complement, name + len - sizeof(complement), sizeof(complement));
        return ~be64toh(complement);
}

size_t eng_space_tail(enum fmt_space space)
{
        assert(space <= FMT_SPACE_LAST);
        return name_spaces[space].form == ENG_FORM_ESCAPED ? KEY_MARK + (size_t)name_spaces[space].tail_max : 0;
}

/* As bucket.c, text_set.c, bucket_drop.c and kept.c lock them: what is kept has a name of one letter. */
static int config_key(const struct eng_name *name, uint8_t key[FMT_NAME_MAX], size_t *len)
{
        const uint8_t *from = name->data + 10;

        *len = name->len - 10u;
        if (name->len == 10) {
                from = name->data + 9;
                *len = 1;
        } else if (name->data[9] == 'c' && name->len == TEXT_KIND + 2) {
                from = name->data + 9;
                *len = ENG_TEXT_KEY;
        } else if (name->data[9] == 'd') {
                *len = eng_dead_bucket_name_len(name);
                if (*len == 0)
                        return -EBADMSG;
        }
        memcpy(key, from, *len);
        return 0;
}

static int escaped_key(const struct eng_name *name, uint8_t key[FMT_NAME_MAX], size_t *len)
{
        size_t used = 0, tail;

        *len = eng_name_unescape(key, name->data + 9, name->len - 9u, &used);
        if (*len == (size_t)-1)
                return -EBADMSG;
        tail = name->len - 9u - used;
        return tail >= name_spaces[name->data[0]].tail_min && tail <= name_spaces[name->data[0]].tail_max ? 0 : -EBADMSG;
}

int eng_name_key(const struct eng_name *name, uint64_t *bucket, uint8_t key[FMT_NAME_MAX], size_t *len)
{
        if (name->len < 10 || name->data[0] < FMT_SPACE_CONFIG || name->data[0] > FMT_SPACE_LAST)
                return -EBADMSG;
        memcpy(bucket, name->data + 1, 8);
        *bucket = be64toh(*bucket);
        switch (name_spaces[name->data[0]].form) {
        case ENG_FORM_CONFIG:
                return config_key(name, key, len);
        case ENG_FORM_RAW:
                *len = name->len - 9u;
                memcpy(key, name->data + 9, *len);
                return 0;
        case ENG_FORM_ESCAPED:
                return escaped_key(name, key, len);
        }
        return -EBADMSG;
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
