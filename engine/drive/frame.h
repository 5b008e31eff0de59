/*
 * frame.h - building and checking frames (struct fmt_frame). Pure functions over memory; any
 * thread.
 */
#ifndef MILLRACE_ENGINE_DRIVE_FRAME_H
#define MILLRACE_ENGINE_DRIVE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/format.h"

/* What a frame holds. */
struct eng_frame_what {
        uint8_t object_id[FMT_ID];
        uint32_t stripe;
        uint8_t shard, k, m;
        uint32_t payload_len; /* 1..FMT_UNIT_MAX, multiple of 4 KiB */
        uint32_t epoch;
        uint64_t key_hash;    /* 0: not known */
};

/* Where a frame stands. */
struct eng_frame_where {
        uint8_t drive_id[FMT_ID];
        uint64_t segment, generation, position;
};

/*
 * Building takes two steps, so that the loop that has the payload in its cache may sum it, and the
 * drive's loop, which alone knows the place, has little to do. fill: clears the 4 KiB at frame,
 * sets what and the block CRCs of payload. place: sets where and the header's CRC; may be repeated.
 */
void eng_frame_fill(struct fmt_frame *frame, const struct eng_frame_what *what, const uint8_t *payload);
void eng_frame_locate(struct fmt_frame *frame, const struct eng_frame_where *where);

/*
 * Checks 4 KiB read from a drive: magic, CRC, limits of its fields, and that it stands where it
 * says. -EBADMSG.
 */
int eng_frame_check(const struct fmt_frame *frame, const struct eng_frame_where *where);
/*
 * Hash of the key whose bytes these are, after eng_frame_check. 0: not known (frames of layout 1).
 */
uint64_t eng_frame_key(const struct fmt_frame *frame);
/*
 * After eng_frame_check: is it the shard that was looked for, of the length expected? (epoch, k and
 * m are not compared.)
 */
bool eng_frame_is(const struct fmt_frame *frame, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                  uint32_t payload_len);

/*
 * The whole CRC blocks of the payload that cover [offset, offset+len): *first is where they begin,
 * the result their length in bytes. offset + len <= payload_len, len > 0.
 */
uint32_t eng_frame_cover(uint32_t payload_len, uint32_t offset, uint32_t len, uint32_t *first);

/*
 * Verifies payload bytes against the block CRCs of a checked frame. bytes is where payload byte
 * 'first' stands in memory; first and len are as eng_frame_cover() gave them (whole blocks; the
 * last one as long as the payload has it). -EBADMSG, with the number of the first bad block in *bad
 * (may be NULL).
 */
int eng_frame_verify(const struct fmt_frame *frame, const uint8_t *bytes, uint32_t first, uint32_t len, unsigned *bad);
/*
 * Verifies the blocks that cover [offset, offset+len) and gives CRC32C of just these bytes, made of
 * what verifying them takes: no byte is hashed twice. payload is where payload byte 0 would stand;
 * offset and len as for eng_frame_cover(). -EBADMSG.
 */
int eng_frame_sum(const struct fmt_frame *frame, const uint8_t *payload, uint32_t offset, uint32_t len, uint32_t *sum);

#endif
