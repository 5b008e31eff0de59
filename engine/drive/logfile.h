/*
 * logfile.h - the files of one drive's log: names, making them ahead, descriptors, what still lives
 * in each.
 */
#ifndef MILLRACE_ENGINE_DRIVE_LOGFILE_H
#define MILLRACE_ENGINE_DRIVE_LOGFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <bsd/sys/queue.h>
#include <uthash.h>

#include "engine/drive/fds.h"
#include "engine/drive/rec.h"
#include "engine/format.h"

#define ENG_LOGFILE_FIRST_NAME "0000000000000001.log"
#define ENG_LOGFILE_NAME_MAX   32u
#define ENG_LOGFILE_LAST       (1ull << 62) /* no drive comes that far: a file of a higher number is none of ours, and behind it there might be none */
#define ENG_LOG_BYTES_DEFAULT  (64ull << 20)
#define ENG_LOG_BYTES_MIN      (4ull << 20) /* a batch always fits */

/* One file of the log that has been begun. owner: the loop */
struct eng_log_file {
        uint64_t number;
        uint64_t generation; /* 0: not known yet: learned when the file is first opened to be read */
        uint64_t bytes;      /* where the next batch goes; once closed: where it ended */
        uint64_t capacity;   /* batches go in below this */
        uint64_t live_names, live_bytes; /* values in the index that name this file, as of the last index batch */
        uint64_t tombstones; /* records that say that something is gone, and must outlive what they hide */
        unsigned epochs;     /* EPOCH records that the history needs, and the newest TERM record */
        unsigned pins;       /* reads under way */
        struct eng_fd fd;    /* for reading */
        uint32_t end_crc;    /* checksum of its last record, told before the file behind it goes; 0: not known */
        uint64_t end;        /* and where it ended; 0: not known */
        bool headless;       /* its header does not say how the file before it ended: it stays as long as that one */
        bool freeing;        /* a FREED record that names it is on its way */
        bool freed;          /* that record is durable: to be unlinked */
        bool going;          /* it is being unlinked: nobody pins it any more */
        bool moving;         /* they are being copied */
        uint64_t not_before; /* reclaim met groups that stayed busy: not to be tried again before (lp_now() scale) */
        bool kept;           /* reclaim has been through it and had to leave living values: not to be tried again */
        bool dirty;          /* tombstones differ from the row in the index */
        TAILQ_ENTRY(eng_log_file) order, dirty_link;
        UT_hash_handle by_number;
};
TAILQ_HEAD(eng_log_file_list, eng_log_file);

/* owner: the loop */
struct eng_log_files {
        int dir_fd; /* the folder log/ */
        uint8_t drive_id[FMT_ID];
        struct eng_log_file_list list; /* ascending */
        struct eng_log_file_list dirty; /* a batch is to write their rows */
        unsigned count, dirty_count;
        uint64_t live_bytes; /* of all */
        bool no_direct; /* the file system refuses direct reads of whole blocks */
        struct eng_log_file *by_number; /* uthash */
        uint64_t bytes;
};

void eng_logfile_name(char name[ENG_LOGFILE_NAME_MAX], uint64_t number);
/* False: not the name of a log file. */
bool eng_logfile_number(const char *name, uint64_t *number);

/*
 * Blocking, any thread. The first file of a new drive: header and one EPOCH record, synced, and the
 * folder too.
 */
int eng_logfile_make_first(int dir_fd, const uint8_t drive_id[FMT_ID], const void *epoch_body, size_t epoch_len);
/*
 * Blocking, any thread. Makes file number of bytes, which has its blocks, synced, the folder too.
 * written: its blocks are written with zeroes, so that each append to it is durable sooner (the
 * file system has nothing to note), at the price of writing everything twice. Left from a crash:
 * made anew. -ENOSPC: nothing is left behind.
 */
int eng_logfile_prepare(int dir_fd, uint64_t number, uint64_t bytes, bool written);
/* O_DIRECT where the file system has it. Returns the descriptor or a negative errno. */
int eng_logfile_open_write(int dir_fd, uint64_t number);
void eng_logfile_header(struct fmt_log_header *out, const struct eng_log_ident *ident, uint64_t prev_file,
                        uint32_t prev_crc, uint64_t prev_end);

/* Adds a file, in any order. NULL: no memory. */
struct eng_log_file *eng_log_files_add(struct eng_log_files *files, uint64_t number, uint64_t generation);
struct eng_log_file *eng_log_files_find(struct eng_log_files *files, uint64_t number);
/* Forgets it; closes its descriptor. */
void eng_log_files_remove(struct eng_log_files *files, struct eng_log_file *file);
/*
 * Blocking, any thread. Whether the file has the header of this log file; fills *generation if that
 * is 0, from its records if the header is damaged. 0; -EBADMSG: the header is damaged or another's
 * (*generation 0: nothing can be read of the file); -EIO ...
 */
int eng_logfile_look(int dir_fd, const uint8_t drive_id[FMT_ID], uint64_t number, uint64_t *generation);
/* tombstones have changed. */
void eng_log_file_touch(struct eng_log_files *files, struct eng_log_file *file);
/* What was touched is being written. */
void eng_log_files_clean(struct eng_log_files *files);
void eng_log_file_set_live(struct eng_log_files *files, struct eng_log_file *file, uint64_t names, uint64_t bytes);
void eng_log_files_init(struct eng_log_files *files);
void eng_log_files_close(struct eng_log_files *files);

#endif
