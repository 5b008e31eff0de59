/*
 * replay_end.c - whether the log still reaches as far as the index covers it.
 *
 * The index covers a record only when that is durable. If the record before the covered position is
 * gone all the same, and nothing follows it, the drive has lost writes that it had acknowledged.
 * Blocking; the thread that opens the drive.
 */
#include "engine/drive/replay.h"

#include <string.h>

#include "engine/drive/local.h"

#define RECORD_BYTES_MAX (sizeof(struct fmt_record) + FMT_BODY_MAX + FMT_RECORD_ALIGN)

/*
 * Whether the record that stands here has this checksum, and ends at `end`. Its body is not looked
 * at: bytes of it that went bad are damage of that record, to be found when it is read, and not the
 * end of the log. 1, 0 or an errno.
 */
static int ends_at(struct eng_log_window *window, const struct eng_log_ident *ident, uint64_t position, uint32_t crc,
                   uint64_t end)
{
        const uint8_t *bytes;
        struct fmt_record rec;
        int rv = eng_log_window_at(window, position, sizeof(rec), &bytes);

        if (rv != 0 || bytes == NULL)
                return rv;
        memcpy(&rec, bytes, sizeof(rec));
        return rec.magic == FMT_RECORD_MAGIC && rec.header_crc == crc && eng_rec_ok(&rec, ident, position) &&
               position + eng_rec_size(rec.body_len) == end;
}

static int replay_end_is_before(struct eng_log_window *window, const struct eng_log_ident *ident,
                     const struct fmt_index_covered *covered)
{
        uint64_t least = covered->position > FMT_BLOCK + RECORD_BYTES_MAX ? covered->position - RECORD_BYTES_MAX : FMT_BLOCK;
        uint64_t at = least / FMT_RECORD_ALIGN * FMT_RECORD_ALIGN;
        int rv;

        for (; at < covered->position; at += FMT_RECORD_ALIGN) {
                rv = ends_at(window, ident, at, covered->prev_crc, covered->position);
                if (rv != 0)
                        return rv;
        }
        return 0;
}

int eng_replay_reaches(int dir_fd, const uint8_t drive_id[FMT_ID], const struct eng_replay_file *file,
                       const struct fmt_index_covered *covered)
{
        struct eng_log_ident ident = {.file = file->number, .generation = file->header.generation};
        uint64_t position = covered->position;
        struct eng_log_window window;
        struct fmt_record rec;
        const uint8_t *body;
        int rv;

        if (position == FMT_BLOCK && file->header.prev_crc == covered->prev_crc)
                return 1;
        memcpy(ident.drive_id, drive_id, FMT_ID);
        rv = eng_log_window_open(&window, dir_fd, file->number);
        if (rv != 0)
                return rv;
        rv = eng_replay_next(&window, &ident, &position, covered->prev_crc, &rec, &body);
        if (rv == 0)
                rv = replay_end_is_before(&window, &ident, covered);
        eng_log_window_close(&window);
        return rv;
}
