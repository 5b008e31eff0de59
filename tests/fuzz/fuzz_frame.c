/*
 * fuzz_frame.c - libFuzzer: 4 KiB that claim to be a frame's header, and a payload that claims to
 * be its. What passes the check must be safe to use.
 *
 * The first byte chooses: as it is, or with the checksum made right (so that the fields behind it
 * are reached).
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/drive/frame.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct fmt_frame *frame, const uint8_t *payload)
{
        uint32_t offset, len, first, covered;
        unsigned bad;

        if (frame->payload_len == 0 || frame->payload_len > FMT_UNIT_MAX || frame->payload_len % FMT_BLOCK != 0)
                abort();
        offset = frame->stripe % frame->payload_len;
        len = 1 + frame->epoch % (frame->payload_len - offset);
        covered = eng_frame_cover(frame->payload_len, offset, len, &first);
        if (first > offset || first + covered < offset + len || first + covered > frame->payload_len)
                abort();
        if (eng_frame_verify(frame, payload + first, first, covered, &bad) != 0 && bad >= FMT_UNIT_MAX / FMT_CRC_BLOCK)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static uint8_t payload[FMT_UNIT_MAX];
        struct eng_frame_where where;
        struct fmt_frame frame;

        if (size < 1)
                return 0;
        memset(&frame, 0, sizeof(frame));
        memcpy(&frame, data + 1, size - 1 < sizeof(frame) ? size - 1 : sizeof(frame));
        memcpy(where.drive_id, frame.drive_id, FMT_ID);
        where.segment = frame.segment;
        where.generation = frame.generation;
        where.position = frame.position;
        if (data[0] & 1)
                frame.magic = FMT_FRAME_MAGIC;
        if (data[0] & 2)
                eng_frame_locate(&frame, &where);
        if (eng_frame_check(&frame, &where) == 0)
                use(&frame, payload);
        where.position += FMT_BLOCK;
        if (eng_frame_check(&frame, &where) == 0)
                abort(); /* it says where it stands: nowhere else is it right */
        return 0;
}
