/*
 * reclaim.h - getting dead space back: living frames are moved out of mostly dead segments, living
 * values out of mostly dead log files.
 *
 *   reclaim.c          when, which one, how fast; one victim at a time
 *   reclaim_segment.c  one segment: its living frames into the segment being appended to
 *   reclaim_log.c      one log file: its living values as COPY records at the log's end
 *
 * The victim itself is unlinked by file.c, by the same rule as ever: when the durable index names
 * nothing in it and nobody uses it. So a crash at any point leaves either the old place in force,
 * or the new one.
 */
#ifndef MILLRACE_ENGINE_DRIVE_RECLAIM_H
#define MILLRACE_ENGINE_DRIVE_RECLAIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/drive/drive.h"
#include "engine/drive/logfile.h"
#include "engine/drive/replay.h"
#include "engine/drive/segment.h"
#include "engine/drive/worker.h"

#define ENG_RECLAIM_RATE_DEFAULT (64ull << 20)
#define ENG_RECLAIM_BUSY_BITS    4096u

struct eng_local;

/* ---- one log file (reclaim_log.c) ------------------------------------------------------------ */

#define ENG_MOVE_RECORDS 256u
#define ENG_MOVE_BYTES   (2u << 20) /* any record fits */

/* Owner: the loop, until handed to the worker. */
struct eng_log_move {
        struct eng_log_window window; /* open from the first step on */
        bool open;
        int dir_fd;
        struct eng_log_ident ident;
        uint64_t position;
        uint32_t crc; /* chain */
        uint8_t *buffer;
        struct {
                struct fmt_record rec;
                uint32_t at; /* of its body in buffer */
        } records[ENG_MOVE_RECORDS];
        unsigned count;
        bool ended; /* of the file */
        uint64_t end; /* of what was written to it */
        uint64_t unreadable; /* as the window's, and told */
        int result;
};
/* Blocking: the next records that may hold living values. */
void eng_log_move_read(struct eng_log_move *move);
void eng_log_move_end(struct eng_log_move *move);

/* ---- the whole ------------------------------------------------------------------------------- */

enum eng_reclaim_state {
        ENG_RECLAIM_IDLE,
        ENG_RECLAIM_HEADERS, /* worker: which frames are in the segment */
        ENG_RECLAIM_LOAD,    /* worker: reading and verifying frames */
        ENG_RECLAIM_ROOM,    /* waits for the next segment to be made */
        ENG_RECLAIM_WRITE,   /* frames on their way to the drive */
        ENG_RECLAIM_FLUSH,   /* SYNC of what was written */
        ENG_RECLAIM_RECORDS, /* worker: reading records */
        ENG_RECLAIM_APPEND,  /* copies on their way to the log */
        ENG_RECLAIM_PAUSE,   /* the rate says so */
        ENG_RECLAIM_SETTLE   /* waits for the index batch after which the victim is to be empty */
};

/* owner: the loop */
struct eng_reclaim {
        enum eng_reclaim_state state;
        struct eng_worker worker;
        struct eng_job job;
        struct lp_timer timer;
        void (*after_pause)(struct eng_local *l);
        uint64_t rate;         /* bytes/s at leisure; UINT64_MAX: no bound */
        unsigned dead_percent; /* a victim is at least so dead; 0: by what is free */
        bool off;
        bool look; /* through all files for a victim: once a second, and when one is done with; not in each batch */
        uint64_t refilled; /* lp_now() scale */
        int64_t tokens;    /* bytes */
        uint64_t retry_at; /* lp_now() scale: not before */
        uint64_t settle_batch;
        bool incomplete; /* something living was left on purpose: the victim is to be tried again */

        /* a segment */
        struct eng_segment *segment; /* pinned; NULL: none */
        uint64_t segment_id;         /* of the victim, also once it is unpinned; 0: none */
        struct eng_segment_copy copy;
        unsigned cursor; /* frames before it are written or given up */
        unsigned run_first, run_end;
        uint32_t run_bytes;
        struct eng_segment *run_to; /* where the run in flight goes */
        struct lp_io io;
        struct eng_watch watch;
        struct eng_op sync;
        struct eng_page_wait wait; /* also of a log file */

        /* a log file */
        struct eng_log_file *file; /* pinned; NULL: none */
        uint64_t file_number;
        struct eng_log_move move;
        unsigned out; /* copies not yet durable, and the page that is waited for */
        bool absent;  /* such a page was needed: these records are to be gone through again */
        uint64_t read_from;
        uint64_t step_bytes; /* read and appended since the rate was last asked */
        unsigned met_busy,
                again; /* living values of busy groups in these records; times they were gone through again */
        uint64_t busy[ENG_RECLAIM_BUSY_BITS / 64]; /* groups, by number modulo, that have a record on its way */
};

/* ---- reclaim.c */
int eng_reclaim_open(struct eng_local *l);
void eng_reclaim_stop(struct eng_local *l); /* closing: no loop runs any more */
void eng_reclaim_free(struct eng_local *l); /* with the last hold */
/* Begins with a victim if there is one and nothing is under way; goes on with what waits. */
void eng_reclaim_tick(struct eng_local *l);
/* bytes were read or written for the victim: calls step now or when the rate allows. */
void eng_reclaim_pace(struct eng_local *l, uint64_t bytes, void (*step)(struct eng_local *l));
/* Calls step a little later. */
void eng_reclaim_wait(struct eng_local *l, uint64_t ns, void (*step)(struct eng_local *l));
/* The pass over the victim is over; incomplete as above. */
void eng_reclaim_passed(struct eng_local *l);
/* An index batch is durable. */
void eng_reclaim_settled(struct eng_local *l);

/* ---- reclaim_segment.c */
int eng_reclaim_segment(struct eng_local *l, struct eng_segment *victim);
/* A segment is at hand, or will not be (rv). */
void eng_reclaim_room(struct eng_local *l, int rv);

/* ---- reclaim_log.c */
int eng_reclaim_log(struct eng_local *l, struct eng_log_file *victim);

#endif
