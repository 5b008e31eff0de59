/*
 * frame.c - building and checking the frames of segments.
 *
 * A frame says itself what it holds and where it stands, and has a CRC for each 16 KiB of its
 * payload, so that a crash leaves a whole frame or one that recovery drops, and no byte leaves a
 * drive unverified (I5). Called by the local drive on its loops and at opening; pure functions.
 */
#include "engine/drive/frame.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "ec.h"

static uint32_t block_bytes(uint32_t payload_len, uint32_t at)
{
        return payload_len - at < FMT_CRC_BLOCK ? payload_len - at : FMT_CRC_BLOCK;
}

static bool length_is_right(uint32_t payload_len)
{
        return payload_len > 0 && payload_len <= FMT_UNIT_MAX && payload_len % FMT_BLOCK == 0;
}

/* With header_crc taken as zero. */
static uint32_t frame_header_crc(const struct fmt_frame *frame)
{
        static const uint32_t zero;
        const size_t after = offsetof(struct fmt_frame, header_crc) + sizeof(frame->header_crc);
        uint32_t crc;

        crc = era_crc32c(0, frame, offsetof(struct fmt_frame, header_crc));
        crc = era_crc32c(crc, &zero, sizeof(zero));
        return era_crc32c(crc, (const uint8_t *)frame + after, sizeof(*frame) - after);
}

void eng_frame_fill(struct fmt_frame *frame, const struct eng_frame_what *what, const uint8_t *payload)
{
        assert(length_is_right(what->payload_len));
        memset(frame, 0, sizeof(*frame));
        frame->magic = FMT_FRAME_MAGIC;
        memcpy(frame->object_id, what->object_id, FMT_ID);
        frame->stripe = what->stripe;
        frame->shard = what->shard;
        frame->k = what->k;
        frame->m = what->m;
        frame->payload_len = what->payload_len;
        frame->epoch = what->epoch;
        frame->key_hash = what->key_hash;
        frame->flags = what->key_hash != 0 ? FMT_FRAME_KEYED : 0;
        for (uint32_t at = 0; at < what->payload_len; at += FMT_CRC_BLOCK)
                frame->block_crc[at / FMT_CRC_BLOCK] = era_crc32c(0, payload + at, block_bytes(what->payload_len, at));
}

void eng_frame_locate(struct fmt_frame *frame, const struct eng_frame_where *where)
{
        memcpy(frame->drive_id, where->drive_id, FMT_ID);
        frame->segment = where->segment;
        frame->generation = where->generation;
        frame->position = where->position;
        frame->header_crc = frame_header_crc(frame);
}

int eng_frame_check(const struct fmt_frame *frame, const struct eng_frame_where *where)
{
        /* The cheap questions first: a scan asks them of every block of garbage. */
        if (frame->magic != FMT_FRAME_MAGIC || frame->segment != where->segment || frame->position != where->position ||
            frame->generation != where->generation)
                return -EBADMSG;
        if (memcmp(frame->drive_id, where->drive_id, FMT_ID) != 0 || !length_is_right(frame->payload_len))
                return -EBADMSG;
        return frame_header_crc(frame) == frame->header_crc ? 0 : -EBADMSG;
}

uint64_t eng_frame_key(const struct fmt_frame *frame)
{
        return (frame->flags & FMT_FRAME_KEYED) != 0 ? frame->key_hash : 0;
}

bool eng_frame_is(const struct fmt_frame *frame, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                  uint32_t payload_len)
{
        return memcmp(frame->object_id, object_id, FMT_ID) == 0 && frame->stripe == stripe && frame->shard == shard &&
               frame->payload_len == payload_len;
}

uint32_t eng_frame_cover(uint32_t payload_len, uint32_t offset, uint32_t len, uint32_t *first)
{
        uint32_t last = (offset + len - 1) / FMT_CRC_BLOCK * FMT_CRC_BLOCK;

        assert(len > 0 && offset < payload_len && len <= payload_len - offset);
        *first = offset / FMT_CRC_BLOCK * FMT_CRC_BLOCK;
        return last + block_bytes(payload_len, last) - *first;
}

int eng_frame_verify(const struct fmt_frame *frame, const uint8_t *bytes, uint32_t first, uint32_t len, unsigned *bad)
{
        uint32_t end = first + len, part;

        assert(first % FMT_CRC_BLOCK == 0 && end <= frame->payload_len);
        assert(end % FMT_CRC_BLOCK == 0 || end == frame->payload_len);
        for (uint32_t at = first; at < end; at += part) {
                part = block_bytes(frame->payload_len, at);
                if (era_crc32c(0, bytes + (at - first), part) == frame->block_crc[at / FMT_CRC_BLOCK])
                        continue;
                if (bad != NULL)
                        *bad = at / FMT_CRC_BLOCK;
                return -EBADMSG;
        }
        return 0;
}

/* CRC of bytes [from, to) of a block; false: the whole block's is not the one expected. */
static bool sum_block(const uint8_t *block, uint32_t len, uint32_t from, uint32_t to, uint32_t expected, uint32_t *sum)
{
        uint32_t whole;

        *sum = whole = era_crc32c(0, block + from, to - from);
        if (from > 0)
                whole = era_crc32c_combine(era_crc32c(0, block, from), whole, to - from);
        return era_crc32c(whole, block + to, len - to) == expected;
}

int eng_frame_sum(const struct fmt_frame *frame, const uint8_t *payload, uint32_t offset, uint32_t len, uint32_t *sum)
{
        uint32_t end = offset + len, crc, part;

        assert(len > 0 && offset < frame->payload_len && len <= frame->payload_len - offset);
        *sum = 0;
        for (uint32_t at = offset / FMT_CRC_BLOCK * FMT_CRC_BLOCK; at < end; at += part) {
                uint32_t from = offset > at ? offset - at : 0, to;

                part = block_bytes(frame->payload_len, at);
                to = end - at < part ? end - at : part;
                if (!sum_block(payload + at, part, from, to, frame->block_crc[at / FMT_CRC_BLOCK], &crc))
                        return -EBADMSG;
                *sum = era_crc32c_combine(*sum, crc, to - from);
        }
        return 0;
}
