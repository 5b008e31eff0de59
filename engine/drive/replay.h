/*
 * replay.h - how replay.c and replay_file.c read the log back. Blocking; the thread that opens the drive.
 */
#ifndef MILLRACE_ENGINE_DRIVE_REPLAY_H
#define MILLRACE_ENGINE_DRIVE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/drive/rec.h"

/* A window over a file, moving forward. */
struct eng_log_window {
        int fd;
        uint64_t size; /* of the file */
        uint8_t *bytes;
        uint64_t start; /* of bytes in the file */
        size_t len;
};

/* A file as the folder lists it. */
struct eng_replay_file {
        uint64_t number, size;
        bool begun; /* its header is right */
        struct fmt_log_header header;
};

/* What stands behind the last record of the chain in a file. */
struct eng_log_rest {
        bool records;    /* something that looks like a record of this file */
        uint64_t damage; /* position of one from a later batch than the one a tear may be in; 0: none */
};

int eng_log_window_open(struct eng_log_window *window, int dir_fd, uint64_t number);
void eng_log_window_close(struct eng_log_window *window);
/* need bytes at position, *out NULL if the file ends before. Errors: -EIO ... */
int eng_log_window_at(struct eng_log_window *window, uint64_t position, size_t need, const uint8_t **out);

/*
 * The record at *position, or at the next block if there is none. prev_crc: chain. 1: rec and body (valid until the next call), *position is its
 * own; 0: the chain ends here; negative errno.
 */
int eng_replay_next(struct eng_log_window *window, const struct eng_log_ident *ident, uint64_t *position,
                    uint32_t prev_crc, struct fmt_record *rec, const uint8_t **body);
/* Looks at what follows the end of the chain at position. any_generation: the header is gone, so the file's generation is not known. */
int eng_replay_rest(struct eng_log_window *window, const struct eng_log_ident *ident, bool any_generation,
                    uint64_t position, struct eng_log_rest *out);

/* Lists log/, ascending; removes half-made files. *out is to be freed. -EPROTONOSUPPORT, -EBADMSG (a header of another drive) name the file. */
int eng_replay_list(int dir_fd, const uint8_t drive_id[FMT_ID], struct eng_replay_file **out, size_t *count,
                    uint64_t *bad_number);

#endif
