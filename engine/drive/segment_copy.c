/*
 * segment_copy.c - reading the living frames of a segment that is to be emptied.
 *
 * The blocking half of segment reclaim: reclaim_segment.c on the owner loop says which frames live,
 * this reads them on the reclaim worker and verifies every byte, so that what is written anew is
 * known to be right (I5). A frame that fails is left where it is and counted: never copied as good,
 * and its segment is never unlinked while the index names it (I6). Nothing here writes (I3), and
 * nothing touches the set.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/frame.h"
#include "engine/drive/segment_priv.h"

#define HEADERS_LOOKED 1024u /* blocks looked at in one go, so that a job stays short */

int eng_segment_copy_begin(const struct eng_segments *set, const struct eng_segment *segment,
                           struct eng_segment_copy *copy)
{
        assert(segment->sealed); /* its end stays where it is */
        memset(copy, 0, sizeof(*copy));
        copy->fd = -1;
        copy->buffer = aligned_alloc(FMT_BLOCK, ENG_COPY_BYTES);
        if (copy->buffer == NULL)
                return -ENOMEM;
        copy->dir_fd = set->dir_fd;
        memcpy(copy->drive_id, set->drive_id, FMT_ID);
        copy->segment = segment->id;
        copy->generation = segment->generation;
        copy->end = segment->end;
        copy->at = SEGMENT_FIRST_FRAME;
        return 0;
}

void eng_segment_copy_end(struct eng_segment_copy *copy)
{
        if (copy->buffer != NULL && copy->fd >= 0)
                close(copy->fd);
        free(copy->buffer);
        copy->buffer = NULL;
        copy->fd = -1;
}

static int copy_open(struct eng_segment_copy *copy)
{
        char name[SEGMENT_NAME_MAX];

        if (copy->fd >= 0)
                return 0;
        segment_name(copy->segment, SEGMENT_WHOLE, name);
        copy->fd = openat(copy->dir_fd, name, O_RDONLY | O_DIRECT | O_CLOEXEC);
        if (copy->fd < 0 && errno == EINVAL) /* a file system without it (tmpfs) */
                copy->fd = openat(copy->dir_fd, name, O_RDONLY | O_CLOEXEC);
        return copy->fd < 0 ? -errno : 0;
}

/* Whether bytes are a frame that stands at position. */
static bool frame_right(const struct eng_segment_copy *copy, const uint8_t *bytes, uint64_t position)
{
        struct eng_frame_where where = {.segment = copy->segment, .generation = copy->generation, .position = position};
        const struct fmt_frame *frame = (const struct fmt_frame *)bytes;

        memcpy(where.drive_id, copy->drive_id, FMT_ID);
        return eng_frame_check(frame, &where) == 0 && position + FMT_BLOCK + frame->payload_len <= copy->end;
}

void eng_segment_copy_headers(struct eng_segment_copy *copy)
{
        const struct fmt_frame *frame = (const struct fmt_frame *)copy->buffer;
        struct eng_copy_frame *to;
        unsigned looked;

        copy->count = copy->loaded_from = copy->loaded_to = 0;
        copy->result = copy_open(copy);
        if (copy->result != 0)
                return;
        for (looked = 0; copy->at + FMT_BLOCK <= copy->end; looked++) {
                if (copy->count == ENG_COPY_FRAMES || (looked >= HEADERS_LOOKED && copy->count > 0))
                        return;
                /*
                 * what cannot be read or is no header is stepped over: if the index names it, its
                 * segment stays
                 */
                if (segment_read(copy->fd, copy->buffer, FMT_BLOCK, copy->at) != 0 ||
                    !frame_right(copy, copy->buffer, copy->at)) {
                        copy->at += FMT_BLOCK;
                        continue;
                }
                to = &copy->frames[copy->count++];
                memset(to, 0, sizeof(*to));
                memcpy(to->object_id, frame->object_id, FMT_ID);
                to->position = copy->at;
                to->payload_len = frame->payload_len;
                to->stripe = frame->stripe;
                to->shard = frame->shard;
                to->key_hash = eng_frame_key(frame);
                copy->at += FMT_BLOCK + frame->payload_len;
        }
}

static bool load_one(const struct eng_segment_copy *copy, struct eng_copy_frame *wanted)
{
        uint8_t *bytes = copy->buffer + wanted->at;
        const struct fmt_frame *frame = (const struct fmt_frame *)bytes;
        int rv = segment_read(copy->fd, bytes, FMT_BLOCK + wanted->payload_len, wanted->position);

        wanted->unreadable = rv != 0 && rv != -ENODATA;
        return rv == 0 && frame_right(copy, bytes, wanted->position) &&
               eng_frame_is(frame, wanted->object_id, wanted->stripe, wanted->shard, wanted->payload_len) &&
               eng_frame_verify(frame, bytes + FMT_BLOCK, 0, wanted->payload_len, NULL) == 0;
}

void eng_segment_copy_load(struct eng_segment_copy *copy)
{
        struct eng_copy_frame *frame;
        uint32_t used = 0, need;

        assert(copy->fd >= 0 && copy->loaded_to < copy->count);
        copy->loaded_from = copy->loaded_to;
        for (; copy->loaded_to < copy->count; copy->loaded_to++) {
                frame = &copy->frames[copy->loaded_to];
                need = FMT_BLOCK + frame->payload_len;
                if (!frame->wanted)
                        continue;
                assert(need <= ENG_COPY_BYTES);
                if (used + need > ENG_COPY_BYTES)
                        return;
                frame->at = used;
                frame->good = load_one(copy, frame);
                if (frame->good)
                        used += need;
                else
                        copy->damaged++;
        }
}

int eng_segment_verify(const struct eng_segment *segment, const struct fmt_frame *frame)
{
        uint8_t *bytes = malloc(frame->payload_len);
        int rv;

        if (bytes == NULL)
                return -ENOMEM;
        rv = segment_read(segment->fd.read_fd, bytes, frame->payload_len, frame->position + FMT_BLOCK);
        if (rv == 0)
                rv = eng_frame_verify(frame, bytes, 0, frame->payload_len, NULL);
        free(bytes);
        return rv == -ENODATA ? -EBADMSG : rv;
}
