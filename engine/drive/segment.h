/*
 * segment.h - one drive's data files: append-only segments of frames (format.h), their descriptors,
 * counts and life.
 *
 * A segment is prepared (file made ahead, on a background thread), active (frames are allocated in
 * it), sealed (never appended to again), and unlinked once nothing living, pinned or unsynced is
 * left in it. Bytes written never change (I3).
 *
 * Threads: the set and every struct eng_segment belong to the owner loop. Jobs (struct
 * eng_segment_job) belong to the loop until handed to another thread for *_run(), and to that
 * thread until handed back; *_run() touches nothing but its job. Open and scan are blocking and
 * come before the loop uses the set. No function here does I/O itself except open, scan, the
 * *_run() ones, and close.
 */
#ifndef MILLRACE_ENGINE_DRIVE_SEGMENT_H
#define MILLRACE_ENGINE_DRIVE_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>

#include "engine.h"
#include "engine/drive/fds.h"
#include "engine/format.h"

#define ENG_SEGMENT_BYTES_DEFAULT (256ull << 20)
#define ENG_SEGMENT_BYTES_MIN     (4ull << 20)

/*
 * owner: the loop. Callers read id, generation, the descriptors and the counts; only functions of
 * this file change them.
 */
struct eng_segment {
        uint64_t id, generation;
        struct eng_fd fd;    /* for reading */
        int write_fd;        /* O_DIRECT where the file system has it; -1 once sealed, written and synced */
        uint64_t end;        /* next free byte; sealed: end of what was written */
        uint64_t file_bytes; /* length of the file */
        uint64_t indexed_to; /* every frame below is in the index, as the index's row says */
        uint64_t whole_to;   /* nothing below is being written; while writing is 0 that is end */
        uint64_t live_frames, live_bytes; /* frames (header included) whose object was not discarded */
        unsigned pins;                    /* reads, writes and flushes under way */
        unsigned writing;                 /* frames reserved and not yet reported by eng_segment_written() */
        bool sealed;
        bool damaged;  /* its header block is bad, or its counts are: readable, never unlinked by us (I6) */
        bool unsynced; /* has completed writes no later flush covers */
        bool kept;     /* reclaim has been through it and had to leave living frames: not to be tried again */
        /* private */
        bool scanned, trimmed, quiet;
        bool stale;      /* its row in the index is behind, or soon will be */
        bool row_sealed; /* as the row says */
        TAILQ_ENTRY(eng_segment) unsynced_link, quiet_link, stale_link;
        RB_ENTRY(eng_segment) by_id;
};

struct eng_segments;

struct eng_segments_options {
        const char *path; /* the folder data/ */
        uint8_t drive_id[FMT_ID];
        uint64_t segment_bytes; /* 0: default; multiple of 4 KiB, at least ENG_SEGMENT_BYTES_MIN (-EINVAL) */
};

/* ---- opening (blocking) ---------------------------------------------------------------------- */

/*
 * Takes in every segment of data/, all of them sealed (what was active at a crash included);
 * half-made files (*.new) are removed. A file whose row says that it is sealed and that all of it
 * is indexed is not touched: its header is checked when it is first opened to be read. The others
 * are opened and looked at, one after the other; no descriptor stays open. rows are the index's
 * segment rows in ascending order (none after a rebuild): generation, indexed_to and live counts
 * are taken from them; a file without a row has indexed_to = 0 (-ESTALE: a row has another
 * generation than the file: it is not the index of these files and is to be rebuilt). A row whose
 * file is gone and that has live frames is damage: counted in *missing and named in error, not a
 * failure; the caller deletes such rows. A file with a bad header takes its generation from the
 * row, or else from its first whole frame, and is 'damaged'. A header of another drive: -EBADMSG.
 * Other errors: -EIO, -EMFILE, -ENOMEM; error says which file.
 */
int eng_segments_open(const struct eng_segments_options *options, const struct fmt_index_segment *rows,
                      size_t row_count, struct eng_segments **out, unsigned *missing, struct eng_error *error);

/*
 * A whole frame that a scan met. Only the header was checked: block CRCs are checked when the
 * payload is read. Nonzero stops the scan.
 */
typedef int (*eng_segment_found)(void *arg, struct eng_segment *segment, const struct fmt_frame *frame);
/*
 * Reads the frames of every segment from its indexed_to on and reports each one whose header is
 * right (CRC, drive id, segment, generation, own position) and whose payload lies inside the file;
 * torn frames, garbage and holes are stepped over. A block the drive cannot read is stepped over
 * too and makes the segment 'damaged'. Sets end and indexed_to of each segment to the end of what
 * was written (the caller writes that into the index's rows with the places). segment_done (may be
 * NULL) is called after each segment that had something to read, so that the caller may commit a
 * batch. It returns 1 if the index does not have them yet: indexed_to is then as it was.
 */
int eng_segments_scan(struct eng_segments *set, eng_segment_found found,
                      int (*segment_done)(void *arg, struct eng_segment *segment), void *arg, struct eng_error *error);
/* After a scan: the counts as the index's rows now have them. Unknown id: ignored. */
void eng_segments_set_live(struct eng_segments *set, uint64_t id, uint64_t live_frames, uint64_t live_bytes);
/* After that: a frame found whose place no row counts yet. */
void eng_segment_found_living(struct eng_segments *set, struct eng_segment *segment, uint64_t bytes);

/*
 * The loop has stopped, nothing is pinned by I/O. Descriptors are closed, unsynced ones are not
 * flushed: the caller has. NULL is allowed.
 */
void eng_segments_close(struct eng_segments *set);

/* ---- jobs for another thread ----------------------------------------------------------------- */

/* One piece of blocking work. Zeroed by *_begin(); memory is the caller's. */
struct eng_segment_job {
        int result; /* set by the run: 0 or negative errno */
        /* private */
        struct eng_segments *set;
        int dir_fd;
        uint64_t id, generation, bytes, end;
        bool look; /* its header has not been seen */
        int read_fd, direct_fd, write_fd;
        uint8_t drive_id[FMT_ID];
};

/*
 * True if the next segment should be prepared now: none is, none is being. Ask after every reserve
 * and after prepare_end.
 */
bool eng_segments_want_next(const struct eng_segments *set);
/* Loop: takes the next number. Only when want_next. */
void eng_segment_prepare_begin(struct eng_segments *set, struct eng_segment_job *job);
/* Loop, before the run: the file is to be this long; rounded to what is possible. */
void eng_segment_prepare_size(struct eng_segment_job *job, uint64_t bytes);
uint64_t eng_segments_size(const struct eng_segments *set); /* the length asked for at opening */
/*
 * Any thread, blocking: makes the file (fallocate, header, fsync, rename, fsync of the folder); a
 * shorter one when there is no room for it.
 */
void eng_segment_prepare_run(struct eng_segment_job *job);
/*
 * Loop: 0: the segment is at hand. Else job->result (-ENOSPC: full, not failed; nothing is left
 * behind) or -ENOMEM; want_next is true again.
 */
int eng_segment_prepare_end(struct eng_segments *set, struct eng_segment_job *job);

/*
 * Loop: picks a segment that is sealed, with nothing living, pinned, or unsynced, takes it out of
 * the set and fills job. False: none.
 */
bool eng_segment_unlink_begin(struct eng_segments *set, struct eng_segment_job *job);
/*
 * Any thread, blocking: closes and unlinks it and syncs the folder. The caller deletes the index's
 * row (job->id) afterwards, never before: a file without a row would be scanned and its frames come
 * back. -EBADMSG: its header, which nobody had looked at, is damaged or another's: the file stays,
 * and so must the row.
 */
void eng_segment_unlink_run(struct eng_segment_job *job);
uint64_t eng_segment_job_id(const struct eng_segment_job *job);
uint64_t eng_segment_job_bytes(const struct eng_segment_job *job); /* length of its file */

/*
 * Loop: picks a segment that is sealed, written and synced, and whose unused tail was not yet given
 * back. It stays pinned until trim_end. A job that fails costs space until the next start. False:
 * none.
 */
bool eng_segment_trim_begin(struct eng_segments *set, struct eng_segment_job *job);
/* Any thread, blocking: truncates to the end, closes the write descriptor. */
void eng_segment_trim_run(struct eng_segment_job *job);
void eng_segment_trim_end(struct eng_segments *set, struct eng_segment_job *job);

/* ---- writing (loop) -------------------------------------------------------------------------- */

/*
 * Takes bytes (4 KiB header + payload, a multiple of 4 KiB, at most FMT_BLOCK + FMT_UNIT_MAX) at
 * the end of the active segment, which is pinned until eng_segment_written(). Rolls over to the
 * prepared segment when the active one has no room. -EAGAIN: none is prepared yet: wait for
 * prepare_end and ask again (in order).
 */
int eng_segment_reserve(struct eng_segments *set, uint32_t bytes, struct eng_segment **out, uint64_t *offset);
/* True if the active segment has room for so many bytes: the next reserve takes them there. */
bool eng_segment_fits(const struct eng_segments *set, uint32_t bytes);
/* Bytes that may be reserved without a further segment. */
uint64_t eng_segments_room(const struct eng_segments *set);
/*
 * Closes the active segment to further frames if more than half of what it holds is dead, so that
 * it can be reclaimed or unlinked.
 */
void eng_segments_seal_dead(struct eng_segments *set);
/*
 * The write of a reserved frame has ended. ok: it counts as live and waits for a flush. Not ok: its
 * bytes are lost space (and the drive, I8).
 */
void eng_segment_written(struct eng_segments *set, struct eng_segment *segment, uint32_t bytes, bool ok);

/*
 * Flushing: takes up to max segments with completed writes that no flush covers; each is pinned and
 * no longer unsynced (a write that completes from now on makes it so again). The caller runs
 * fdatasync on write_fd of each and then calls eng_segment_synced(). The caller forms groups: a
 * SYNC that arrives while a flush runs waits for that one to end and then takes again. A failed
 * flush is I8: the set is not used for writing again.
 */
unsigned eng_segments_take_unsynced(struct eng_segments *set, struct eng_segment **out, unsigned max);
void eng_segment_synced(struct eng_segments *set, struct eng_segment *segment, bool asked); /* asked: the kernel was */
/* Some have completed writes that no flush covers. */
bool eng_segments_unsynced(const struct eng_segments *set);
/* The loop has stopped: flushes them, blocking. 0 or the error of a flush. */
int eng_segments_flush(struct eng_segments *set);

/* A frame of the segment is dead (its place is durably gone from the index, or was never in it). */
void eng_segment_dead(struct eng_segments *set, struct eng_segment *segment, uint64_t bytes);
/* The index durably has every frame below row->indexed_to, and this row. */
void eng_segment_set_indexed(struct eng_segments *set, struct eng_segment *segment, const struct fmt_index_segment *row);
/*
 * Those whose row is behind, or soon will be: the active one, and those sealed a short while ago.
 * after NULL: the first; NULL at the end.
 */
struct eng_segment *eng_segments_each_stale(struct eng_segments *set, struct eng_segment *after);
unsigned eng_segments_stale(const struct eng_segments *set);

/* ---- reading and looking (loop) -------------------------------------------------------------- */

/* This number is given to no new segment any more. */
void eng_segments_beyond(struct eng_segments *set, uint64_t id);
/* NULL: no such segment. Pinned segments are not unlinked. */
struct eng_segment *eng_segment_find(struct eng_segments *set, uint64_t id);
/* The first of this number or a higher one. NULL: none. */
struct eng_segment *eng_segment_from(struct eng_segments *set, uint64_t id);
void eng_segment_pin(struct eng_segment *segment);
/*
 * Blocking: whether the file has the header of this segment. 0; -EBADMSG: it is damaged or
 * another's; -EIO ...
 */
int eng_segment_look(int fd, const uint8_t drive_id[FMT_ID], uint64_t id, uint64_t generation);
int eng_segments_folder(const struct eng_segments *set); /* its descriptor; the set's */
void eng_segment_file_name(uint64_t id, char *out, size_t cap);
/*
 * It was opened to be read for the first time; the file is that long, and eng_segment_look() said
 * so.
 */
void eng_segment_seen(struct eng_segments *set, struct eng_segment *segment, uint64_t file_bytes, int looked);
void eng_segment_unpin(struct eng_segments *set, struct eng_segment *segment);

/*
 * The row to put into the index in one transaction with the places of all frames whose write has
 * completed up to now: taken in the same round of the loop as those places. indexed_to is then
 * 'end' if no frame is being written at this moment, and stays as it was otherwise (after a crash
 * the headers from there on are read again). After the commit: eng_segment_set_indexed(). 'sealed'
 * is said only when nothing is to be done with the file any more (its tail was given back, its
 * header is right): the next opening then leaves it alone.
 */
void eng_segment_row(const struct eng_segment *segment, struct fmt_index_segment *out);
/* NULL: the first; ascending ids; NULL at the end. */
struct eng_segment *eng_segments_each(struct eng_segments *set, struct eng_segment *after);

/* ---- moving living frames (segment_copy.c) --------------------------------------------------- */

#define ENG_COPY_FRAMES 128u
#define ENG_COPY_BYTES  (4u * (FMT_BLOCK + FMT_UNIT_MAX))

/* One frame of the segment that is being emptied. */
struct eng_copy_frame {
        uint8_t object_id[FMT_ID];
        uint64_t position; /* in that segment */
        uint32_t payload_len, stripe;
        uint8_t shard;
        uint64_t key_hash;
        bool wanted;                      /* the caller: it lives */
        bool good;                        /* load: it is in the buffer, every byte verified */
        bool unreadable;                  /* load: the drive could not give it */
        uint32_t at;                      /* load: where in the buffer */
        uint64_t to_segment, to_position; /* the caller's */
};

/*
 * Owner: the loop, until handed to another thread for one of the functions marked blocking, and
 * again afterwards.
 */
struct eng_segment_copy {
        uint8_t *buffer; /* ENG_COPY_BYTES */
        int fd;          /* a descriptor of its own, past the page cache where that can be; -1: not open */
        int dir_fd;
        uint8_t drive_id[FMT_ID];
        uint64_t segment, generation, end;
        uint64_t at; /* headers below were looked at */
        struct eng_copy_frame frames[ENG_COPY_FRAMES];
        unsigned count, loaded_from, loaded_to;
        uint64_t damaged; /* frames wanted that could not be read whole */
        int result;
};

/* Loop: pins nothing; the caller does. -ENOMEM. */
int eng_segment_copy_begin(const struct eng_segments *set, const struct eng_segment *segment,
                           struct eng_segment_copy *copy);
/*
 * Blocking: fills frames with the next ones whose headers are right. count 0: the end was reached.
 * result: -EMFILE ...
 */
void eng_segment_copy_headers(struct eng_segment_copy *copy);
/*
 * Blocking: reads wanted frames from number loaded_to on into the buffer as far as there is room;
 * loaded_from..loaded_to says which it has been through.
 */
void eng_segment_copy_load(struct eng_segment_copy *copy);
void eng_segment_copy_end(struct eng_segment_copy *copy);

/*
 * Blocking, in a found() of eng_segments_scan() for a frame of that segment: every payload byte is
 * as its header says, both read anew. 0; -EBADMSG; -EIO ...
 */
int eng_segment_verify(const struct eng_segment *segment, const struct fmt_frame *frame);

struct eng_segments_info {
        uint64_t segments, bytes, live_frames, live_bytes; /* bytes: what files take, the active one whole */
        unsigned damaged;
};
/* Costs nothing, however many there are. */
void eng_segments_info(const struct eng_segments *set, struct eng_segments_info *out);

#endif
