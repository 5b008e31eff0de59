/*
 * replay.h - how replay.c and replay_file.c read the log back. Blocking; the thread that opens the
 * drive.
 */
#ifndef MILLRACE_ENGINE_DRIVE_REPLAY_H
#define MILLRACE_ENGINE_DRIVE_REPLAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/drive/rec.h"

/*
 * Behind a break one whole batch may be torn; the first record of the one after it lies inside
 * this.
 */
#define ENG_REPLAY_REST_BYTES (2 * (ENG_BATCH_BYTES + FMT_BLOCK))

/* A window over a file, moving forward. */
struct eng_log_window {
        int fd;
        uint64_t size; /* of the file */
        uint8_t *bytes;
        uint64_t start; /* of bytes in the file */
        size_t len;
        bool hasty; /* ends before the first block that the drive cannot read; else such a block is zeroes */
        uint64_t unreadable; /* end of the last block met that the drive could not read, and that is zeroes in bytes; 0: none */
};

/* A file as the folder lists it. */
struct eng_replay_file {
        uint64_t number, size;
        bool begun; /* its header is right, or it is known */
        bool known; /* its header was not read (generation 0): the index covers all of it */
        bool salvaged; /* it is not: generation is that of records in it, what came before it is not known */
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
 * The record at *position, or at the next block if there is none. prev_crc: chain. 1: rec and body
 * (valid until the next call), *position is its own; 0: the chain ends here; negative errno.
 */
int eng_replay_next(struct eng_log_window *window, const struct eng_log_ident *ident, uint64_t *position,
                    uint32_t prev_crc, struct fmt_record *rec, const uint8_t **body);
/*
 * Looks at what follows the end of the chain at position. any_generation: the header is gone, so
 * the file's generation is not known.
 */
int eng_replay_rest(struct eng_log_window *window, const struct eng_log_ident *ident, bool any_generation,
                    uint64_t position, struct eng_log_rest *out);

/*
 * Whether a file holds the log up to where the index covers it: the record that ends there, or the
 * one that follows. 1, 0 or a negative errno.
 */
int eng_replay_reaches(int dir_fd, const uint8_t drive_id[FMT_ID], const struct eng_replay_file *file,
                       const struct fmt_index_covered *covered);
/* Told of a record whose header is right and whose body is not. */
typedef void (*eng_replay_lost)(void *arg, const struct fmt_record *rec);
/*
 * Behind damage: the first whole record at or behind *position, and before end, in this file,
 * whatever it chains to. 1: rec, *position is its own; 0: none; negative errno. lost may be NULL.
 */
int eng_replay_resume(struct eng_log_window *window, const struct eng_log_ident *ident, uint64_t *position, uint64_t end,
                      struct fmt_record *rec, eng_replay_lost lost, void *arg);
/*
 * The generation of a file whose header is gone, from the first record in it that begins before
 * end. -ENOENT: there is none.
 */
int eng_replay_generation(struct eng_log_window *window, const struct eng_log_ident *ident, uint64_t end, uint64_t *out);

/*
 * Reads the header of file->number. 0: begun says whether it is right. -EPROTONOSUPPORT; -EBADMSG:
 * it is another drive's; -EIO ...
 */
int eng_replay_header(int dir_fd, const uint8_t drive_id[FMT_ID], struct eng_replay_file *file);

/*
 * Log files that need not be read at a start, ascending: the index covers all of each, and has a
 * row for it.
 */
struct eng_replay_known {
        uint64_t *numbers;
        size_t count, size;
};

/*
 * Lists log/, ascending; removes half-made files. Of known ones only the length is looked at. *out
 * is to be freed. -EPROTONOSUPPORT, -EBADMSG (a header of another drive) name the file.
 */
int eng_replay_list(int dir_fd, const uint8_t drive_id[FMT_ID], const struct eng_replay_known *known,
                    struct eng_replay_file **out, size_t *count, uint64_t *bad_number);

#endif
