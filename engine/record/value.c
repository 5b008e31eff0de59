/*
 * value.c - reading what format.h calls a value: the metadata of one object, upload, part or
 * bucket.
 *
 * Called by drives (replay, index) and by the engine (reads, listings), on any thread; nothing is
 * kept. A value comes from disk or from another machine, so its lengths are checked before anything
 * in it is believed; a checksum says that bytes are what was written, not that they make sense.
 */
#include "engine/record/value.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "ec.h"

_Static_assert(ENG_INLINE_MAX <= FMT_INLINE_MAX, "what a setting allows can be read back");

/* ---- geometry of a part ---------------------------------------------------------------------- */

static uint64_t stripe_bytes(const struct fmt_part *part)
{
        return (uint64_t)part->k * part->unit;
}

uint32_t eng_part_stripes(const struct fmt_part *part)
{
        uint64_t stripe = stripe_bytes(part);

        if (part->size == 0 || stripe == 0)
                return 0;
        return (uint32_t)((part->size + stripe - 1) / stripe);
}

uint32_t eng_part_unit(const struct fmt_part *part, uint32_t stripe)
{
        return stripe + 1 == eng_part_stripes(part) ? part->last_unit : part->unit;
}

static uint32_t stripes_per_run(const struct fmt_part *part)
{
        uint64_t stripe = stripe_bytes(part);

        if (stripe == 0 || stripe > FMT_RUN_BYTES)
                return 1;
        return (uint32_t)(FMT_RUN_BYTES / stripe);
}

unsigned eng_part_drive(const struct eng_part *part, uint32_t stripe, unsigned shard)
{
        unsigned shards = (unsigned)part->head.k + part->head.m;
        uint32_t run = stripe / stripes_per_run(&part->head);

        if (run >= part->head.runs || shard >= shards)
                return ENG_NO_DRIVE;
        return eng_part_slot(part, (size_t)run * shards + shard);
}

unsigned eng_part_slot(const struct eng_part *part, size_t i)
{
        const uint8_t *at = part->drives + part->width * i;

        assert(i < (size_t)part->head.runs * ((size_t)part->head.k + part->head.m));
        if (part->width == 1)
                return at[0] == 0xff ? ENG_NO_DRIVE : at[0];
        return (unsigned)at[0] | (unsigned)at[1] << 8;
}

void eng_part_slot_set(uint8_t *drives, unsigned width, size_t i, unsigned slot)
{
        assert(slot < ENG_DRIVES_MAX || slot == ENG_NO_DRIVE);
        drives[width * i] = (uint8_t)slot;
        if (width == 2)
                drives[width * i + 1] = (uint8_t)(slot >> 8);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static bool unit_ok(uint32_t unit)
{
        return unit > 0 && unit <= FMT_UNIT_MAX && unit % FMT_BLOCK == 0;
}

static bool part_ok(const struct fmt_part *part)
{
        uint64_t stripes, before, per_run;

        if (part->k < 1 || part->k > ERA_MAX_K || part->m > ERA_MAX_M || part->attrs_len > ENG_ATTRS_MAX ||
            part->runs < 1 || (part->number & FMT_PART_NUMBER) > ENG_PARTS_MAX)
                return false;
        if (part->size == 0)
                return part->runs == 1;
        if (!unit_ok(part->unit) || !unit_ok(part->last_unit) || part->last_unit > part->unit)
                return false;
        stripes = (part->size - 1) / stripe_bytes(part) + 1;
        per_run = stripes_per_run(part);
        if (stripes > UINT32_MAX || (stripes + per_run - 1) / per_run != part->runs)
                return false;
        before = (stripes - 1) * stripe_bytes(part);
        return part->size - before <= (uint64_t)part->k * part->last_unit;
}

int eng_value_next_part(const void *buf, size_t len, size_t *pos, struct eng_part *out)
{
        const uint8_t *bytes = buf;
        struct fmt_value value;
        size_t left, drives;

        if (*pos == 0) {
                if (len < sizeof(value))
                        return -EBADMSG;
                memcpy(&value, bytes, sizeof(value));
                *pos = eng_value_parts_at(&value);
        }
        if (*pos == len)
                return 0;
        if (*pos > len || len - *pos < sizeof(out->head))
                return -EBADMSG;
        memcpy(&out->head, bytes + *pos, sizeof(out->head));
        if (!part_ok(&out->head))
                return -EBADMSG;
        out->width = (out->head.number & FMT_PART_NARROW) != 0 ? 1 : 2;
        out->head.number &= FMT_PART_NUMBER;
        left = len - *pos - sizeof(out->head);
        drives = out->width * (size_t)out->head.runs * ((size_t)out->head.k + out->head.m);
        if (left < out->head.attrs_len + drives)
                return -EBADMSG;
        out->attrs = bytes + *pos + sizeof(out->head);
        out->drives = out->attrs + out->head.attrs_len;
        *pos += sizeof(out->head) + out->head.attrs_len + drives;
        assert(*pos <= len);
        return 1;
}

bool eng_value_lacks_shards(const void *buf, size_t len)
{
        struct eng_part part;
        size_t pos = 0, i;

        while (eng_value_next_part(buf, len, &pos, &part) == 1)
                for (i = 0; i < (size_t)part.head.runs * (part.head.k + part.head.m); i++)
                        if (eng_part_slot(&part, i) == ENG_NO_DRIVE)
                                return true;
        return false;
}

int eng_value_next_field(const void *buf, size_t len, size_t *pos, struct fmt_field *out, const uint8_t **data)
{
        struct fmt_value value;
        size_t end;

        if (len < sizeof(value))
                return -EBADMSG;
        memcpy(&value, buf, sizeof(value));
        end = eng_value_parts_at(&value);
        if (*pos == 0)
                *pos = sizeof(value) + value.attrs_len;
        if (*pos == end)
                return 0;
        if (end > len || *pos > end || end - *pos < sizeof(*out))
                return -EBADMSG;
        memcpy(out, (const uint8_t *)buf + *pos, sizeof(*out));
        if (out->kind == 0 || end - *pos - sizeof(*out) < (out->len + 3u) / 4 * 4)
                return -EBADMSG;
        *data = (const uint8_t *)buf + *pos + sizeof(*out);
        *pos += sizeof(*out) + (out->len + 3u) / 4 * 4;
        assert(*pos <= end);
        return 1;
}

static bool head_ok(const struct fmt_value *value)
{
        if (value->space < FMT_SPACE_CONFIG || value->space > FMT_SPACE_LAST || value->attrs_len > ENG_ATTRS_MAX ||
            value->fields_len > FMT_FIELDS_MAX || value->fields_len % 4 != 0 || value->parts > ENG_PARTS_MAX)
                return false;
        if ((value->state & ~FMT_STATE_KNOWN) != 0)
                return false;
        if ((value->state & (FMT_STATE_HEAD | FMT_STATE_MARKER)) != 0 && (value->parts != 0 || (value->flags & FMT_VALUE_INLINE) != 0))
                return false;
        if ((value->flags & FMT_VALUE_INLINE) == 0)
                return value->inline_len == 0;
        return value->parts == 0 && value->inline_len <= FMT_INLINE_MAX && value->inline_len == value->size;
}

int eng_value_check_head(const void *buf, size_t len)
{
        struct fmt_value value;
        struct fmt_head versions;
        const uint8_t *data;
        struct fmt_field field;
        size_t pos = 0;
        int rv;

        if (len < sizeof(value))
                return -EBADMSG;
        memcpy(&value, buf, sizeof(value));
        if (!head_ok(&value) || eng_value_parts_at(&value) > len)
                return -EBADMSG;
        while ((rv = eng_value_next_field(buf, len, &pos, &field, &data)) == 1)
                ;
        if (rv == 0 && (value.state & FMT_STATE_HEAD) != 0 &&
            (value.space != FMT_SPACE_OBJECT || !eng_value_head_field(buf, len, &versions) || versions.newest == 0))
                return -EBADMSG;
        return rv;
}

int eng_value_check(const void *buf, size_t len)
{
        struct fmt_value value;
        struct eng_part part;
        uint64_t size = 0;
        uint32_t parts = 0;
        size_t pos = 0;
        int rv = eng_value_check_head(buf, len);

        if (rv != 0)
                return rv;
        memcpy(&value, buf, sizeof(value));
        while ((rv = eng_value_next_part(buf, len, &pos, &part)) == 1) {
                if (part.head.size > UINT64_MAX - size)
                        return -EBADMSG;
                size += part.head.size;
                parts++;
        }
        if (rv != 0 || parts != value.parts || (parts > 0 && size != value.size))
                return -EBADMSG;
        return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

size_t eng_name_escape(uint8_t *dst, const void *src, size_t len)
{
        const uint8_t *from = src;
        size_t i, n = 0;

        for (i = 0; i < len; i++) {
                dst[n++] = from[i];
                if (from[i] == 0)
                        dst[n++] = 0xff;
        }
        return n;
}

size_t eng_name_unescape(uint8_t *dst, const void *src, size_t len, size_t *consumed)
{
        const uint8_t *from = src;
        size_t i = 0, n = 0;

        while (i < len) {
                if (from[i] != 0) {
                        dst[n++] = from[i++];
                        continue;
                }
                if (i + 1 >= len)
                        break;
                if (from[i + 1] == 0x01) {
                        *consumed = i + 2;
                        return n;
                }
                if (from[i + 1] != 0xff)
                        break;
                dst[n++] = 0;
                i += 2;
        }
        return (size_t)-1;
}

bool eng_value_alike(const void *a, size_t a_len, const void *b, size_t b_len)
{
        struct fmt_value x, y;

        if (a_len != b_len)
                return false;
        memcpy(&x, a, sizeof(x));
        memcpy(&y, b, sizeof(y));
        x.crc = y.crc = 0;
        x.seq = y.seq = 0;
        x.log_file = y.log_file = 0;
        x.log_position = y.log_position = 0;
        return memcmp(&x, &y, sizeof(x)) == 0 &&
               memcmp((const uint8_t *)a + sizeof(x), (const uint8_t *)b + sizeof(y), a_len - sizeof(x)) == 0;
}
