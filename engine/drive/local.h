/*
 * local.h - the inside of a local drive: what its owner loop holds, and how the files of drive/
 * call each other.
 *
 *   submit (any loop) -> local.c dispatch (owner) -+-> append.c   APPEND COMMIT TAIL RECORD  -> log.c   one batch in flight
 *                                                  +-> lookup_name.c LOOKUP                   -> recread.c  on the home loop
 *                                                  +-> scan.c     SCAN
 *                                                  +-> write.c    WRITE SYNC DISCARD
 *                                                  +-> read.c     READ                       -> on the home loop
 *                                                  +-> holds.c    HELD IDS OWNED
 *                                                  +-> term.c     OPEN                       -> log.c
 *   fds.c: the descriptors that lookup_name.c and read.c read by
 *   what these need of the index and is not in memory: pages.c, then the same again
 *   workers: files (file.c: log and segment files made ahead, unlinked, free space)   index (batch.c)   reclaim (reclaim*.c)
 *
 * All state belongs to the owner loop, unless a comment says otherwise. There are no locks: the
 * workers touch only the job they hold.
 */
#ifndef MILLRACE_ENGINE_DRIVE_LOCAL_H
#define MILLRACE_ENGINE_DRIVE_LOCAL_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "engine/drive/drive.h"
#include "engine/drive/cache.h"
#include "engine/drive/fds.h"
#include "engine/drive/index.h"
#include "engine/drive/logfile.h"
#include "engine/drive/ghost_table.h"
#include "engine/drive/pages.h"
#include "engine/drive/pgs.h"
#include "engine/drive/rec.h"
#include "engine/drive/segment.h"
#include "engine/drive/space.h"
#include "engine/drive/memtable.h"
#include "engine/drive/worker.h"

#define ENG_BATCH_BYTES         (2u << 20)    /* of one write to the log */
#define ENG_LOG_PLAIN_BYTES     (4ull << 20)  /* a log file that was not made ahead is used up to here */
#define ENG_APPEND_QUEUE_BYTES  (64ull << 20) /* queued and pending; beyond: -EAGAIN, RESERVE ones at twice that */
#define ENG_MEMTABLE_BYTES_DEFAULT  (32ull << 20)
#define ENG_CACHE_BYTES_DEFAULT (32ull << 20)
#define ENG_WRITES_MAX          4096u  /* WRITEs under way or waiting for a segment */
#define ENG_FREEZE_NAMES        32768u /* the active generation is frozen at so many names ... */
#define ENG_FREEZE_BYTES_SHARE  4u     /* ... or this share of memtable_bytes, or after a tick */
/*
 * The same of one whose damaged index takes nothing any more. From the first on it is stalled: no
 * client's change of its groups is begun, since what it holds goes to no disk before another drive
 * is back and the store can do without this one.
 */
#define ENG_ROT_TAILS           4u
#define ENG_FULL_TAILS          8u /* times memtable_bytes of memory while a drive is opened whose index has no room to grow */
#define ENG_TICK_NS             1000000000ull
#define ENG_IO_LIMIT_NS         (10 * 1000000000ull) /* a write or flush that takes longer fails the drive; a read is given up */
#define ENG_IO_PATIENCE         6u                   /* limits that reads for which nobody waits may take before they fail an idle drive */
#define ENG_SYNC_SEGMENTS       16u                  /* flushed at the same time */
#define ENG_GHOSTS_MAX           (1u << 20)           /* of what was read not long ago; four bytes each */
#define ENG_UNIT_MEMORY         (4ull << 20)         /* of memory for one mark: a unit on each of four drives */
#define ENG_RECORD_MEMORY       (64ull << 10)        /* some blocks on each of four drives, and as much again for what else fills memory */
#define ENG_DEAD_REPLAYED_MAX   65536u               /* superseded values remembered from a replay */
#define ENG_READ_ERROR_BUDGET   32u                  /* places that cannot be read: as many in one window make a drive unreliable */
#define ENG_READ_ERROR_WINDOW_NS (3600 * 1000000000ull)
#define ENG_READ_LATE_COST      8u                   /* of these for each read that is late: somebody has waited for it for io_limit_ns */

struct eng_local;

struct eng_flight;
struct eng_probe;

/*
 * An I/O under way, so that one that takes too long is seen. Kept in order of start. owner: the
 * loop
 */
struct eng_watch {
        uint64_t started; /* lp_now() scale */
        bool read;        /* of bytes that others may have, too: being late is no failure of the drive as long as other I/O of it ends */
        struct eng_flight *waits; /* a read: whose op is to be answered when it is late; NULL: nobody's, or it was */
        uint64_t file, position;  /* of a read that somebody waits for, set before it begins: see eng_local_read_error() */
        bool late;                /* that place was counted as unreadable */
        bool under_way;           /* in the list */
        TAILQ_ENTRY(eng_watch) link;
};
TAILQ_HEAD(eng_watch_list, eng_watch);

/* An I/O on the home loop of its op (flight.c). owner: the loop, but for what give_up does */
struct eng_flight {
        struct lp_loop *owner, *home;
        void (*give_up)(struct eng_flight *flight); /* home: the drive has failed; answers the op if that was not done */
        void (*gone)(struct eng_flight *flight);    /* owner: frees it */
        bool asked, ended;
        struct lp_msg msg;
        TAILQ_ENTRY(eng_flight) link;
};
TAILQ_HEAD(eng_flight_list, eng_flight);

void eng_flight_begin(struct eng_local *l, struct eng_flight *flight, struct lp_loop *home,
                      void (*give_up)(struct eng_flight *flight), void (*gone)(struct eng_flight *flight));
/* The I/O is back on the owner loop; the drive is open. */
void eng_flight_leave(struct eng_local *l, struct eng_flight *flight);
/* Nothing of the flight is used any more; the drive may be gone. */
void eng_flight_end(struct eng_flight *flight);
/* The drive has failed: all ops in flight are answered. */
void eng_flights_fail(struct eng_local *l);
/* Owner loop, once: its op is answered; the I/O goes on. */
void eng_flight_give_up(struct eng_flight *flight);

#include "engine/drive/reclaim.h" /* has an eng_watch */

void eng_watch_begin(struct eng_local *l, struct eng_watch *watch);
/* waits: NULL: a read of upkeep, for which no client waits. */
void eng_watch_begin_read(struct eng_local *l, struct eng_watch *watch, struct eng_flight *waits);
void eng_watch_end(struct eng_local *l, struct eng_watch *watch);
/* What the probe of a quiet drive reads by. Opening and closing threads. */
void eng_probe_open(struct eng_local *l);
void eng_probe_close(struct eng_local *l);

/* ---- fds.c ----------------------------------------------------------------------------------- */

/* A file that is being opened. Owner: the loop, while job is IDLE; else the worker. */
struct eng_fd_opening {
        enum eng_fd_kind kind;
        int dir_fd;
        char name[ENG_LOGFILE_NAME_MAX];
        uint8_t drive_id[FMT_ID];
        uint64_t number;
        uint64_t generation; /* a log's: 0: not known; also a result */
        bool look;           /* at its header, and its length */
        /* results */
        int read_fd, direct_fd;
        uint32_t direct_block;
        uint64_t bytes;
        int looked; /* 0; what is wrong with its header */
        int result;
};

struct eng_fds {
        struct eng_worker worker;
        struct eng_job job;
        struct eng_fd_opening opening;
        struct eng_fd *now; /* what is being opened; NULL: nothing */
        bool taken;         /* what the worker opened is closed already */
        struct eng_watch watch;
        struct eng_fd_list idle;  /* open, used by nobody; first the one that was used longest ago */
        struct eng_fd_list queue; /* to be opened */
        unsigned open, most;      /* files */
        atomic_uint_fast64_t pretend_ms; /* eng_fds_pretend() */
};

void eng_fds_init(struct eng_local *l, unsigned most); /* 0: the default */
int eng_fds_start(struct eng_local *l);
/* For tests: each opening takes so long. Any thread. */
void eng_fds_pretend(struct eng_drive *drive, uint64_t ms);
void eng_fds_stop(struct eng_local *l);
/* Nobody reads any more: who still waits is told -ECANCELED. */
void eng_fds_free(struct eng_local *l);
/* Answers all who wait. */
void eng_fds_fail(struct eng_local *l, int rv);
/*
 * 0: the descriptors are good until eng_fd_put(). 1: want->have() says so later, or why not. The
 * caller has the file pinned until then.
 */
int eng_fd_get(struct eng_local *l, struct eng_fd *fd, struct eng_want *want);
void eng_fd_put(struct eng_local *l, struct eng_fd *fd);

/* ---- log.c ----------------------------------------------------------------------------------- */

enum eng_log_next { ENG_LOG_NEXT_NONE, ENG_LOG_NEXT_MAKING, ENG_LOG_NEXT_READY };

struct eng_log_position {
        uint64_t file, generation, position;
        uint32_t prev_crc; /* header_crc of the record before it */
};

struct eng_log {
        struct eng_append_list queue, batch; /* batch: in the write that is in flight, or was written and is being taken in */
        uint64_t queue_bytes;
        bool writing; /* there is such a batch */
        uint8_t *buffer; /* FMT_BLOCK for a file's header, then ENG_BATCH_BYTES; the kernel's while writing (I7) */
        struct lp_io io;
        uint32_t write_len;
        bool write_header;     /* a file's header goes with it */
        uint32_t crc_before;   /* of the chain, without that batch */
        bool header_due;       /* of the current file: the write that was to bring it met a full file system */
        unsigned short_writes; /* one after the other */
        uint64_t retry_at;     /* lp_now() scale: not before; the last write met a full file system, or no memory */
        uint64_t short_since;  /* the same scale; writes meet no memory; 0: they do not */
        uint64_t write_began; /* lp_clock() */
        struct eng_watch watch;
        struct eng_log_file *current;
        int fd;                      /* of current, for writing; -1: the next append begins a new file */
        struct eng_log_position end; /* of what is durable and taken in */
        uint32_t crc;                /* chain: header_crc of the last record built */
        enum eng_log_next next;
        uint64_t next_number, next_bytes, claimed;
        bool next_written;            /* with zeroes */
        uint64_t file_began;          /* lp_now() when the current file was begun; 0: before this process */
        struct eng_job make_next;
        int make_result;
};

int eng_log_open(struct eng_local *l); /* buffers; blocking */
void eng_log_free(struct eng_local *l);
/* Queues it. Not bounded here: append.c refuses. */
void eng_log_append(struct eng_local *l, struct eng_append *append);
/* Queues a TERM record: behind what was asked for, and ahead of the drive's own records. */
void eng_log_append_term(struct eng_local *l, struct eng_append *append);
/* Refuses what of older terms waits and was in no write yet. */
void eng_log_depose(struct eng_local *l, const struct eng_term *term);
/* Starts a batch if none is in flight, something waits, and the tail and the files have room. */
void eng_log_kick(struct eng_local *l);
/*
 * What waits for the index has as much memory as it may: nothing is appended till a batch is
 * written.
 */
bool eng_log_memtable_full(const struct eng_local *l);
/*
 * The record is durable and taken in, as is all before it: an index batch from now on may say that
 * it covers it.
 */
void eng_log_ends_after(struct eng_local *l, const struct fmt_record *rec);
/*
 * Answers everything that waits with rv. -ENOSPC: only what may not use the reserve; the rest waits
 * for room, for a record that others have must not be refused here.
 */
void eng_log_fail_queue(struct eng_local *l, int rv);
/* The drive has failed: answers what waits, and what is being written. */
void eng_log_fail(struct eng_local *l);

/* ---- epochs (epoch.c) ------------------------------------------------------------------------ */

struct eng_epochs {
        struct eng_buf *newest;      /* body; NULL: none yet */
        atomic_uint_fast64_t number; /* of the newest; read by any loop */
        atomic_uint_fast64_t fence;  /* read by any loop: of the sender of the last VOID record that was taken on; 0: none was, since the drive was opened */
        unsigned count;              /* of known, newest first, the newest itself included */
        struct fmt_index_epoch known[ENG_EPOCH_HISTORY + 1]; /* as the index has it */
        bool dirty; /* differs from the index */
};
/* What senders of older epochs ask is refused. Any loop. */
uint64_t eng_epochs_fence(const struct eng_local *l);
/* A durable EPOCH record, or a copy of one. Takes a reference of its own. */
int eng_epochs_add(struct eng_local *l, struct eng_buf *body, uint64_t file);
/* From and to the index's meta. load: 0 also when there is nothing. */
int eng_epochs_load(struct eng_local *l, struct eng_index_txn *txn);
/* Appends copies of the EPOCH records that a log file holds, so that it can be freed. */
int eng_epochs_move(struct eng_local *l, const struct eng_log_file *file);
size_t eng_epochs_encode(const struct eng_epochs *epochs, void *out, size_t cap);
/* One EPOCH or TERM record of this log file is needed, or not any more: a file that holds such is not freed. */
void eng_log_file_needed(struct eng_local *l, uint64_t number, int change);

/* ---- terms (term.c) -------------------------------------------------------------------------- */

struct eng_terms {
        struct eng_term admitted, durable; /* of the last OPEN that was taken on, and of the newest TERM record; none: never any */
        uint8_t admitted_cluster[FMT_ID], cluster[FMT_ID];
        uint64_t file;                     /* log file that holds that record; 0: none */
        bool opened;                       /* OPEN has come since the drive was opened */
        bool guarded;                      /* FORMAT says that there may be TERM records */
        bool dirty;                        /* differs from the index */
        struct eng_op *waiting, *running;  /* OPENs, chained by op.next: for the next record; for the one on its way */
};
/* 0, -ESTALE or -ENOTCONN: whether an operation is of the term that the drive serves. */
int eng_terms_check(const struct eng_terms *terms, struct eng_op *op);
void eng_open_op(struct eng_local *l, struct eng_op *op);
/* A durable TERM record, or a copy of one. take: -EBADMSG. */
void eng_terms_add(struct eng_local *l, const struct fmt_term *term, uint64_t file);
int eng_terms_take(struct eng_local *l, const uint8_t *body, size_t len, uint64_t file);
/* From and to the index's meta. load: 0 also when there is nothing. */
int eng_terms_load(struct eng_local *l, struct eng_index_txn *txn);
void eng_terms_snapshot(const struct eng_local *l, struct fmt_index_term *out);
/* Appends a copy of the TERM record if this log file holds the newest, so that it can be freed. */
int eng_terms_move(struct eng_local *l, const struct eng_log_file *file);
/* Takes the next step for OPENs that wait. */
void eng_terms_go_on(struct eng_local *l);
void eng_terms_guarded(struct eng_local *l, int rv); /* eng_features_guard() has ended */
/* The drive has failed. */
void eng_terms_fail(struct eng_local *l);

/* ---- batch.c --------------------------------------------------------------------------------- */

struct eng_location_list {
        struct eng_location *items;
        unsigned count, size;
};

/*
 * What the index worker writes in one transaction, and what came of it. Owner: the loop, while job
 * is IDLE; else the worker.
 */
struct eng_batch {
        struct eng_job job;
        struct eng_memtable *tail; /* the frozen generation */
        struct fmt_index_covered covered, reach;
        struct fmt_index_pg *pgs;
        struct fmt_index_log *logs;
        struct fmt_index_segment *segments;
        uint64_t *logs_gone, *segments_gone;
        unsigned pg_count, log_count, segment_count, log_gone_count, segment_gone_count;
        struct eng_buf *epoch, *history, *scrub; /* NULL: as they are */
        struct fmt_index_term term;
        bool has_term;              /* else it is as it is */
        bool owners_complete;       /* also a result: of the index */
        /* results */
        bool owners_moved;          /* some were made: it is worth going on at once */
        uint64_t unknown_owners;    /* names whose parts cannot be decoded */
        int result;
        uint64_t index_bytes;       /* in use; 0: not known */
        struct eng_buf_list dead;   /* values with shards that died by it */
        struct eng_location_list gone; /* frames that died by it */
        struct fmt_index_log *rows; /* of the log files whose counts it changed, as they are now */
        unsigned row_count, row_size;
};
/*
 * Freezes the active generation and hands it to the index worker, if that is free and there is
 * something new.
 */
void eng_batch_start(struct eng_local *l);
/*
 * The same on the calling thread: open and close. Nobody is told of shards that died by it when
 * closing: an orphan collection finds them.
 */
int eng_batch_now(struct eng_local *l);
/* Retries a batch that met a full disk. */
void eng_batch_tick(struct eng_local *l);
void eng_batch_free(struct eng_batch *batch);
void eng_batch_stop(struct eng_local *l); /* closing: takes back what it waits for */
/* The active generation has reached one of its bounds. */
bool eng_batch_due(const struct eng_local *l);
int eng_batch_write(struct eng_index *index, struct eng_batch *batch); /* the worker's part */

/* ---- file.c ---------------------------------------------------------------------------------- */

#define ENG_FREE_AT_ONCE 16u
#define ENG_HEADS_AT_ONCE 4u /* one that is slow to read holds up the making of files */

struct eng_file_work {
        struct eng_job tick_job; /* free space, and whether the folder is still the one that was opened */
        int tick_result;
        struct eng_job free_job; /* unlinks */
        struct eng_log_file *logs[ENG_FREE_AT_ONCE];
        unsigned log_count;
        struct eng_log_head {
                struct eng_log_file *file; /* owner: the loop; the next two are of it when the worker was asked */
                uint64_t number, generation; /* generation 0: not known */
                uint32_t crc;                /* results */
                uint64_t end;
                int result;
        } heads[ENG_HEADS_AT_ONCE];        /* headers to be read: they say how the files before theirs ended */
        unsigned head_count;
        uint64_t free_bytes;  /* of the files in logs and unlinks */
        unsigned freed_in_flight; /* ENDS and FREED records on their way */
        bool freed_short;         /* for one of them there was no memory */
        unsigned freed_most;      /* gaps in one record; 0: as many as fit. For tests */
        bool marks_in_flight; /* a MARKS record is */
        uint64_t marks_from,
                marks_file; /* a MARKS record knows all records of the files before this: the one on its way; the last, 0: none */
        int free_result;
        struct eng_segment_job unlinks[ENG_FREE_AT_ONCE];
        unsigned unlink_count;
        unsigned unlink_again; /* the first of them are to be tried again */
        struct eng_job make_job; /* next segment */
        uint64_t make_bytes;     /* claimed for it */
        struct eng_segment_job segment;
        struct eng_job trim_job;
        struct eng_segment_job trim;
};
void eng_file_tick(struct eng_local *l);
/* After an index batch: unlinks log files and segments in which nothing lives. */
void eng_file_free_dead(struct eng_local *l);
void eng_file_make_segment(struct eng_local *l);
/* Closing: a segment that was made, and whose message has not been and will not be taken. */
void eng_file_drop_made(struct eng_local *l);
/* A MARKS record in the log: how far each group was applied. 0 or -EBADMSG. */
int eng_file_take_marks(struct eng_local *l, const uint8_t *body, size_t len);
/* Blocking: reads free space; checks that path/FORMAT is the file that was opened. */
int eng_file_look(struct eng_local *l);

/* ---- write.c --------------------------------------------------------------------------------- */

TAILQ_HEAD(eng_write_list, eng_write);
struct eng_writes {
        struct eng_write_list waiting;              /* for a segment */
        struct eng_write_list flying;               /* reserved, not yet written */
        unsigned count;                             /* of both */
        struct eng_op *sync_waiting, *sync_running; /* chained by op.next */
        unsigned flushing;                          /* fdatasyncs in flight */
        bool sync_more;                             /* the running group has segments left to flush */
        struct eng_flush *flushes;
};
void eng_write_prepare(struct eng_op *op); /* home loop, in submit */
void eng_write_op(struct eng_local *l, struct eng_op *op);
void eng_sync_op(struct eng_local *l, struct eng_op *op);
/* A SYNC of the drive's own, with a hold that its done gives back. */
void eng_sync_own(struct eng_local *l, struct eng_op *op, void (*done)(struct eng_op *op));
/* Takes one back, and its hold. False: it was answered. */
bool eng_sync_forget(struct eng_local *l, struct eng_op *op);
void eng_discard_op(struct eng_local *l, struct eng_op *op);
/* A segment is at hand, or will not be (rv). */
void eng_write_retry(struct eng_local *l, int rv);
/* Lowest offset in the segment that is reserved and not yet written, or its end. */
uint64_t eng_write_floor(struct eng_local *l, const struct eng_segment *segment);
void eng_write_fail(struct eng_local *l);
/*
 * The file system is at its watermark: answers those that may not use the reserve. True: others
 * wait.
 */
bool eng_write_refuse(struct eng_local *l);
void eng_write_drop_waiting(struct eng_local *l);

/* ---- read.c ---------------------------------------------------------------------------------- */

/*
 * A drive that hangs keeps the slots of reads in flight until they are back, so one drive may have
 * only a share of a loop's slots in flight.
 */
#define ENG_READ_SHARE     3u /* parts of what a loop has for reads */
#define ENG_READS_LEAST    4u
#define ENG_READ_LOOPS_MAX 256u

TAILQ_HEAD(eng_read_list, eng_reading);
struct eng_reads {
        unsigned flying[2][ENG_READ_LOOPS_MAX]; /* by what the home loop is for, and its number, modulo */
        struct eng_read_list waiting;
};

/* ---- recread.c ------------------------------------------------------------------------------- */

struct eng_rec_reading;
/* Memory of reads of records that have ended, for those to come. */
struct eng_rec_spares {
        struct eng_rec_reading *first;
        unsigned count;
};

/* ---- unreliable.c ---------------------------------------------------------------------------- */

/* The places that could not be read last, in a ring. */
struct eng_unreadable {
        struct {
                uint64_t file, position, at; /* at: lp_now() scale; 0: free */
        } seen[ENG_READ_ERROR_BUDGET];
        unsigned next;
};
#define ENG_UNREADABLE_LOG (1ull << 63) /* in `file`, and in segments of fmt_rot and fmt_drive_scrub: it is a log file's number, not a segment's */

/* ---- rot.c ----------------------------------------------------------------------------------- */

#define ENG_ROT_MAX     ENG_SCRUB_REMEMBERED
#define ENG_ROT_GAPS    512u                  /* of these */
#define ENG_ROT_KEEP_NS (60 * 1000000000ull)  /* between two times that the index is told */

/* What the scrub knows: how far it is, and what is damaged. */
struct eng_rot {
        struct fmt_drive_scrub state;
        struct fmt_rot *items; /* ENG_ROT_MAX; NULL: never any */
        unsigned count, shards, gaps;
        unsigned looked;   /* the next one to be looked at: does it still count? */
        unsigned ousted;   /* the next one that makes room */
        bool dirty, urgent; /* the index does not know; and is to be told at once */
        bool fresh;        /* a gap is known that no op has told yet */
        bool more;         /* gaps were found for which there was no room; until the next round begins */
        uint64_t dropped;  /* such gaps, since the drive was opened */
        uint64_t kept_at;  /* lp_now() scale */
        bool scrubbing;    /* a SCRUB is under way */
};

/*
 * Places of the log that could not be read back (damage.c). owner: the opening thread; constant
 * afterwards
 */
#define ENG_DAMAGE_GROUPS 16u
#define ENG_DAMAGE_TEXT   sizeof(((struct fmt_index_damage *)0)->text)
struct eng_log_damage {
        bool there;            /* what the drive says may lack what those places held, until its names were compared with others' */
        unsigned locations;       /* met by this replay */
        uint64_t file, position; /* of the first */
        uint32_t groups[ENG_DAMAGE_GROUPS];
        unsigned group_count;
        bool any_group; /* what was there is not known, or is more than groups can hold */
        char text[ENG_DAMAGE_TEXT];
};

/* ---- the drive ------------------------------------------------------------------------------- */

struct eng_local {
        struct eng_drive drive; /* first */

        /* set at opening, constant then */
        struct eng_local_options options;
        char path[256], id_text[33];
        int dir_fd, lock_fd;
        struct stat format; /* of FORMAT as opened */
        uint64_t log_file_bytes, memtable_bytes, reserve_bytes, io_limit_ns;
        struct eng_space *space; /* the file system's, shared */

        /* any thread */
        atomic_bool failed, vanished;
        atomic_bool exhausted;  /* records wait for room in the log, and there is none */
        atomic_bool unreliable; /* many places cannot be read: others are asked first */
        atomic_bool index_damaged; /* and condemned: the next opening builds it anew */
        atomic_bool stalled;       /* and its memory is full: for good, as long as it is open */
        char reason[160]; /* written once, before failed is set */
        struct {
                atomic_uint_fast64_t log_bytes, data_bytes, index_bytes, log_live_bytes, data_live_bytes;
                atomic_uint_fast64_t reclaim_copied, reclaim_freed, reclaim_damaged, read_errors, unknown_owners, index_reads;
                atomic_uint_fast64_t ops, errors, queue, memtable_bytes, appends, batches, syncs, read_bytes, written_bytes;
                atomic_uint_fast64_t cache_bytes, cache_hits, cache_misses;
                atomic_bool starved; /* of space for the next log file */
        } statistics;

        /* owner: the loop (eng_local_open's thread before that, eng_local_close's after) */
        unsigned holds; /* open, and each job, message or I/O under way; the last one frees the memory */
        bool opened, closed;
        bool log_lost; /* see eng_local_log_lost() */
        bool cut_off;  /* failed only since its loop has ended: what it has taken in is as good as ever */
        bool emptied; /* it is being closed, or failed and let go of all it had: what still comes is answered -EIO */
        struct eng_log log;
        struct eng_log_files files;
        struct eng_pgs pgs;
        struct eng_memtable *active, *frozen;
        struct eng_batch batch;
        struct eng_op batch_sync; /* of the frames that batch names, before the worker has it */
        bool batch_flushing;      /* it is on its way */
        uint64_t batches_begun, batches_ended; /* generations frozen; those of them that are in the index */
        bool owners_complete;                  /* the index answers OWNED; else each batch makes some (index_owners.c) */
        struct fmt_index_covered covered;      /* as durably written */
        struct fmt_index_covered reach;        /* of the index as it was found, until replay has come there; else file is 0 */
        struct eng_epochs epochs;
        struct eng_terms terms;
        struct eng_cache *cache;
        struct eng_index *index;
        struct eng_index_txn *reader; /* asks before it touches a page: pages.c; as the next */
        struct eng_index_txn *second_reader; /* of scans that need two */
        struct eng_pages pages;
        bool index_condemned;
        struct eng_job condemn_job; /* leaves the mark */
        struct {
                struct eng_job job;
                bool busy;
                struct eng_op *op;           /* NULL: OPEN needs it */
                uint64_t bits;
                int result;
        } features;                          /* format_file.c */
        struct eng_segments *segments;
        struct eng_fds fds;
        struct eng_writes writes;
        struct eng_file_work file;
        struct eng_buf_list dead;            /* to be told to the store: found while opening */
        uint64_t *logs_gone, *segments_gone; /* rows to be deleted by the next batch */
        unsigned log_gone_count, log_gone_size, segment_gone_count, segment_gone_size;
        struct eng_read_headers *headers; /* read.c: verified frame headers */
        struct eng_unreadable unreadable;
        struct eng_rot rot;
        struct eng_ghosts unit_ghosts, record_ghosts; /* read.c, recread.c: what was read not long ago */
        struct eng_rec_spares spares;              /* recread.c */
        struct eng_watch_list watches;
        uint64_t ended_at; /* the last of them that ended: lp_now() scale */
        int probe_fd;      /* -1: a quiet drive cannot be asked */
        struct eng_probe *probe; /* under way; NULL: none (watch.c) */
        struct eng_flight_list flights;
        struct eng_reads reads;
        struct lp_timer tick;
        struct lp_msg start_msg, fail_msg;
        struct eng_worker index_worker, file_worker;
        struct eng_reclaim reclaim;
        struct eng_log_damage damage;
};

static inline struct eng_local *eng_local_of(struct eng_drive *drive)
{
        return (struct eng_local *)drive;
}
static inline bool eng_local_failed(struct eng_local *l)
{
        return atomic_load_explicit(&l->failed, memory_order_acquire);
}
/* The calling thread is the owner loop, or no loop: as those that open and close the drive. */
static inline bool eng_local_on_loop(const struct eng_local *l)
{
        const struct lp_loop *self = lp_self();

        return self == l->drive.owner || self == NULL;
}
static inline void eng_count(atomic_uint_fast64_t *statistic, uint64_t n)
{
        atomic_fetch_add_explicit(statistic, n, memory_order_relaxed);
}

/* On a loop, else nothing is counted. */
static inline void eng_local_time(struct eng_local *l, unsigned step, uint64_t ns)
{
        struct lp_loop *self = lp_self();

        if (l->options.times != NULL && self != NULL)
                lp_times_add(&l->options.times[lp_index(self)].step[step], ns);
}

extern const struct eng_drive_ops eng_local_ops;
/* Frees everything; memory under I/O goes with its last hold. */
void eng_local_teardown(struct eng_local *l);
/* The drive fails, once (I8). text is completed by rv's meaning unless rv is 0. */
void eng_local_fail(struct eng_local *l, int rv, const char *format, ...) __attribute__((format(printf, 3, 4)));
/*
 * Fails the drive if an I/O takes too long; true if it did. What it holds stays the kernel's (I7).
 */
bool eng_local_check_watches(struct eng_local *l);
/* Answers an op. Any loop; on the home loop done() comes in a later message. */
void eng_local_answer(struct eng_op *op, int rv);
static inline void eng_local_hold(struct eng_local *l)
{
        assert(l->holds > 0); /* the last one has freed the drive */
        l->holds++;
}
/*
 * Gives a hold back. False: the drive was closed meanwhile (and may be gone now): nothing is left
 * to be done.
 */
bool eng_local_release(struct eng_local *l);
/* Hands a job to a worker, with a hold that the job's done gives back. */
void eng_local_give(struct eng_local *l, struct eng_worker *worker, struct eng_job *job, void (*run)(struct eng_job *),
                    void (*done)(struct eng_job *));
/* True if free space of the file system is below the reserve and the op may not use it. */
bool eng_local_full(struct eng_local *l, unsigned flags);

/*
 * A read of a frame (file: its segment) or a record (its log file | ENG_UNREADABLE_LOG) failed. Owner loop.
 */
void eng_local_read_error(struct eng_local *l, uint64_t file, uint64_t position);
void eng_local_read_late(struct eng_local *l, uint64_t file, uint64_t position); /* it may never end */

/* ---- append.c -------------------------------------------------------------------------------- */

void eng_append_op(struct eng_local *l, struct eng_op *op);
void eng_commit_op(struct eng_local *l, struct eng_op *op);
void eng_tail_op(struct eng_local *l, struct eng_op *op);
void eng_record_op(struct eng_local *l, struct eng_op *op);
/* A record of the drive's own (EPOCH copies, ENDS, FREED, MARKS). */
int eng_append_own(struct eng_local *l, enum fmt_record_type type, struct eng_buf *body, uint64_t epoch,
                   void (*durable)(void *arg, struct eng_append *append));
void eng_append_epoch_durable(void *arg, struct eng_append *append);
/*
 * A COPY record: applied now. A VOID record: what it names goes, what else is pending was applied
 * before it. Neither takes append over.
 */
int eng_apply_copy(struct eng_local *l, const struct eng_append *append);
int eng_apply_void(struct eng_local *l, const struct eng_append *append);
/* Applies all pending records of pg up to a seq. */
int eng_apply_up_to(struct eng_local *l, struct eng_log_pg *pg, uint64_t seq);
/* Position from which replay would have to begin if the index held all that is applied now. */
void eng_append_covered(const struct eng_local *l, struct fmt_index_covered *out);
/*
 * The end of the log that was written and taken in: the next batch holds nothing of what is behind
 * it.
 */
void eng_append_reach(const struct eng_local *l, struct fmt_index_covered *out);

/* ---- lookup_name.c, recread.c, scan.c, read.c ------------------------------------------------ */

void eng_lookup_op(struct eng_local *l, struct eng_op *op);
/*
 * The newest visible value of a name: a reference in *out. -ENOENT, ENG_INDEX_ABSENT (see pages.h)
 * ...
 */
int eng_lookup_value(struct eng_local *l, const uint8_t *name, size_t len, struct eng_buf **out);
/*
 * Reads a record's bytes back on the op's home loop and answers the op: LOOKUP (its value is set)
 * gets its inline bytes, RECORD its body. expect: bytes of the record, as far as is known.
 */
void eng_rec_read(struct eng_local *l, struct eng_op *op, uint64_t file, uint64_t position, size_t expect);
/* Memory of reads to come. */
void eng_rec_read_free(struct eng_local *l);
void eng_scan_op(struct eng_local *l, struct eng_op *op);
void eng_read_op(struct eng_local *l, struct eng_op *op);
/* Where a shard stands: newest of tail and index. -ENOENT, -EBADMSG, -EIO, ENG_INDEX_ABSENT. */
int eng_location_find(struct eng_local *l, const uint8_t object_id[FMT_ID], uint32_t stripe, uint8_t shard,
                   struct eng_location *location);
void eng_read_free(struct eng_local *l);
/* The drive has failed: answers what waits. */
void eng_read_fail(struct eng_local *l);
/* Answers (-EAGAIN) what has waited for its turn longer than an I/O may take. */
void eng_read_late(struct eng_local *l);
void eng_held_op(struct eng_local *l, struct eng_op *op);
void eng_ids_op(struct eng_local *l, struct eng_op *op);
void eng_owned_op(struct eng_local *l, struct eng_op *op);

/* ---- scrub_segment.c, scrub_log.c, rot.c (owner loop) ---------------------------------------- */

void eng_scrub_op(struct eng_local *l, struct eng_op *op);
void eng_features_op(struct eng_local *l, struct eng_op *op);
/* Gives FORMAT the feature TERMS, now or when what is under way has ended; then eng_terms_guarded(). */
void eng_features_guard(struct eng_local *l);
/*
 * A stretch of the closed log files, in which the op's state is: its segment is a log file's number | ENG_UNREADABLE_LOG.
 */
void eng_scrub_log(struct eng_local *l, struct eng_op *op);
/* Begins with the first of them. False: there is none. */
bool eng_scrub_log_first(struct eng_local *l, struct fmt_drive_scrub *state);
uint64_t eng_scrub_log_bytes(struct eng_local *l);
/*
 * A stretch is over: what the op answers of what is remembered, and what the drive remembers of the
 * op.
 */
void eng_rot_answer(struct eng_local *l, struct eng_op *op);
/* The record of a value is damaged, as far as is known. */
bool eng_rot_in_log(const struct eng_local *l, uint64_t file, uint64_t position);
void eng_rot_state(struct eng_local *l, const struct fmt_drive_scrub *state);
/*
 * The shard at this place is damaged. A place known already is not remembered twice; of more than
 * ENG_ROT_MAX one that was known before is forgotten.
 */
void eng_rot_found(struct eng_local *l, const uint8_t object_id[FMT_ID], const struct eng_location *location);
/*
 * No frame was found there; or, of a log file (| ENG_UNREADABLE_LOG), no record that is right. told: all that stood there is known, and is written anew at
 * once: nobody is asked to compare names for it, unless the drive is opened anew before they were. Of more than ENG_ROT_GAPS one goes that names were compared for; there being none, this one is only counted.
 */
void eng_rot_add_gap(struct eng_local *l, uint64_t segment, uint64_t from, uint64_t to, bool told);
/* Names were compared since the last gap was told. */
void eng_rot_compared(struct eng_local *l);
bool eng_rot_owed(const struct eng_local *l);
/* A round begins: what there was no room for is found again. */
void eng_rot_round(struct eng_local *l);
/* Fills what every SCRUB says of what is remembered. */
void eng_rot_tell(const struct eng_local *l, struct eng_op *op);
/* The shard has been written anew at this place; NULL: all of the id were discarded. */
void eng_rot_replaced(struct eng_local *l, const uint8_t object_id[FMT_ID], const struct eng_location *location);
/* A whole frame was found there: a read had failed that does not any more. */
void eng_rot_sound(struct eng_local *l, uint64_t segment, uint64_t offset);
/* The shard at this place is damaged, as far as is known. */
bool eng_rot_at(struct eng_local *l, const uint8_t object_id[FMT_ID], const struct eng_location *location);
/* Looks at some of what is remembered, and forgets what the index does not name any more. */
void eng_rot_prune(struct eng_local *l);
/*
 * The index: from it, and to it with a batch. load: 0 also for a row that makes no sense, which is
 * as none.
 */
int eng_rot_load(struct eng_local *l, struct eng_index_txn *txn);
bool eng_rot_due(const struct eng_local *l, bool running);
int eng_rot_snapshot(struct eng_local *l, struct eng_buf **out);
void eng_rot_kept(struct eng_local *l);
void eng_rot_free(struct eng_local *l);

/*
 * The index could not be read: -EBADMSG and -EIO condemn it, so that the next start rebuilds it;
 * -EIO also fails the drive. Other rv: nothing.
 */
void eng_local_index_error(struct eng_local *l, int rv);

/* ---- damage.c (the thread that opens the drive) ---------------------------------------------- */

/*
 * One place of the log can't be read back. The index remembers it before it holds anything that
 * comes behind. 0 or negative errno.
 */
int eng_damage_found(struct eng_local *l, uint64_t file, uint64_t position);
/* A record of this group was there; NULL: nobody knows what was. */
void eng_damage_lost(struct eng_local *l, const struct fmt_record *rec);
/* What the index remembers, before replay. 0 or negative errno. */
int eng_damage_load(struct eng_local *l, struct eng_index_txn *txn);
/*
 * The log lost its end, and the index knew it up to there. Leaves a mark; where that fails, whoever
 * opens the drive once more has it from eng_local.log_lost.
 */
void eng_damage_mark_lost(struct eng_local *l, const struct fmt_index_covered *known);
/* Remembers durably that the log lost its end, if it did (eng_local.log_lost, or the mark). */
int eng_damage_log_lost(struct eng_local *l);
/* After replay: is it still so, and since which epoch? 0 or negative errno. */
int eng_damage_end(struct eng_local *l);

/* ---- replay.c -------------------------------------------------------------------------------- */

/*
 * Reads the log from where the index ends (or all there is), applies what is known committed,
 * leaves the rest pending; sets the log's end. Blocking.
 */
int eng_replay(struct eng_local *l, struct eng_error *error);
/*
 * open.c, called back once the log files are known: takes over what the index knows of them, of
 * groups and of epochs.
 */
int eng_open_load(struct eng_local *l, struct eng_error *error);

/* ---- operations of struct eng_drive_ops beside submit and close ------------------------------ */

int eng_local_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history);
bool eng_local_log_lost(struct eng_drive *drive);
bool eng_local_let_go(struct eng_drive *drive);
bool eng_local_ends(struct eng_drive *drive, unsigned seconds);
bool eng_local_awaits_file(struct eng_drive *drive);
bool eng_local_vanished(struct eng_drive *drive);
bool eng_local_index_damaged(struct eng_drive *drive);
const char *eng_local_damage(struct eng_drive *drive);
void eng_local_info(struct eng_drive *drive, struct eng_drive_info *out);
void eng_local_term(struct eng_drive *drive, struct eng_term *out, uint8_t cluster[FMT_ID]);

#endif
