/*
 * drive.h - a drive as the rest of the engine sees it: asynchronous operations, and nothing else.
 *
 * This table is the only seam between one machine and many. Local drives (engine/drive/), filters
 * that fail, delay, corrupt, serialise, duplicate or drop operations, later remote drives and a
 * simulator implement it.
 *
 * Rules
 * - An operation is submitted on any loop and completes by op->done() on the loop it was submitted
 *   from (op->home), never from inside submit(). It belongs to the drive until then.
 * - Operations are safe to repeat: a repeated APPEND of a (pg, seq) the drive has already is
 *   answered 0, and so on.
 * - Answers are values: nothing in them points into the drive. Result buffers are struct eng_buf,
 *   released by the caller.
 * - Every operation carries the epoch of its sender. A drive refuses APPEND, COMMIT, WRITE and DISCARD of
 *   an epoch older than the newest it has durably seen with -ESTALE; and, from the moment it takes a
 *   VOID record on until it is closed, of one older than that record's.
 * - A drive that a leader has OPENed takes operations of that term alone, from the moment it takes
 *   OPEN on: of an older one -ESTALE, with op->deposed; of a newer one, or before the OPEN that
 *   follows an opening of the drive, -ENOTCONN. READ, WRITE, SYNC and HELD without a term are
 *   a gateway's, and are taken always. A drive that never was OPENed takes those without a term.
 * - Operations for one pg from one loop arrive in order.
 * - result: 0 or a negative errno. -ENOENT (LOOKUP, READ, RECORD: nothing of that name), -EIO (the
 *   drive has failed, or failed now: every later operation answers -EIO too, I8), -EBADMSG (READ,
 *   LOOKUP, RECORD: the bytes fail their checksum or cannot be read: damage of that shard or record
 *   only), -ENOSPC (full: WRITE and APPEND without ENG_OP_RESERVE refused; the drive has not
 *   failed), -EAGAIN (a bounded queue is full), -ESTALE, -EHOSTUNREACH (the drive cannot be reached:
 *   what was asked may be done, now or later, or not. It has not failed. Never from a local drive).
 */
#ifndef MILLRACE_ENGINE_DRIVE_H
#define MILLRACE_ENGINE_DRIVE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "engine.h"
#include "engine_term.h"
#include "engine/format.h"
#include "engine_folder.h"
#include "engine/placement/place.h"
#include "engine/record/value.h"
#include "loop.h"
#include "loop_times.h"
#include "loop_trace.h"

enum eng_op_kind {
        ENG_OP_APPEND,   /* make a record durable in the log; its mutations stay pending (invisible) until COMMIT */
        ENG_OP_COMMIT,   /* make all pending records of pg with seq <= op.seq visible to LOOKUP and SCAN, in seq order; then they may be indexed */
        ENG_OP_LOOKUP,   /* newest visible value of a name */
        ENG_OP_SCAN,     /* visible names in order */
        ENG_OP_WRITE,    /* one frame into a segment; durable only after SYNC */
        ENG_OP_SYNC,     /* everything WRITTEN (completed) before this was submitted, by anyone, becomes durable */
        ENG_OP_READ,     /* bytes of one shard, verified */
        ENG_OP_DISCARD,  /* forget all shards of an object id; their space is freed once nothing living is left in the segment */
        ENG_OP_TAIL,     /* recovery: what stands in the log but is not known committed */
        ENG_OP_RECORD,   /* recovery: body of a pending record */
        ENG_OP_HELD,     /* which of some shards of an object id the drive holds, as far as it knows; nothing of them is read */
        ENG_OP_IDS,      /* object ids of which the drive holds shards, in order */
        ENG_OP_OWNED,    /* which of some object ids are named here. -EAGAIN: what the mark stands for is not in the index yet, or owners are still being made */
        ENG_OP_SCRUB,    /* a stretch of the drive's segments, in physical order, checked by its own checksums */
        ENG_OP_FEATURES, /* adds bits to FORMAT's line 'features', durably. -EAGAIN: another one is under way */
        ENG_OP_OPEN,     /* op.term is the leader's from here on, durably: answered behind all appends that were taken on before. -ESTALE: a newer term
                            is known; -EXDEV: the newest TERM record is another cluster's, and not of an older generation; -EAGAIN: no memory, or FEATURES is
                            under way: it takes no older term any more all the same */
        ENG_OP_KINDS
};

#define ENG_OP_RESERVE 1u      /* flags: may use the space reserve (deletes, epochs, recovery) */
#define ENG_OP_WANT_INLINE 2u  /* LOOKUP: give inline bytes too */
#define ENG_OP_WANT_ATTRS 4u   /* SCAN: give attrs too */
#define ENG_OP_WANT_PARTS 8u   /* SCAN: give fmt_parts too (verification) */
#define ENG_OP_WANT_CRC 16u    /* READ: give their CRC32C too */
#define ENG_OP_CACHE 32u       /* APPEND: inline bytes go to the cache once committed: reads are sent to this drive first */

#define ENG_OP_VERSIONS 128u   /* SCAN of names of versions: plain objects, too, each by the name of the version that it is; values without attrs, and with no field but VERSION */
#define ENG_OP_NO_MARKERS 256u /* SCAN: delete markers, and heads of keys whose newest version is one, are left out */
#define ENG_OP_ANEW 512u       /* the sender has given up all that it asked of the drive before, answered or not: from here on a remote drive whose
                                  node has begun anew, or which has lost something on its way, takes operations again */
#define ENG_OP_OTHERS 1024u    /* LOOKUP, SCAN, READ: others can be asked instead. A remote drive whose node says nothing answers -EAGAIN soon */
#define ENG_OP_LISTED 2048u    /* SCAN: of values what a listing shows, struct eng_listed. Not with ENG_OP_WANT_ATTRS, _PARTS, ENG_OP_VERSIONS */
#define ENG_OP_WANT_RECORD 64u /* LOOKUP: -EBADMSG also where just its record in the log is known to be damaged */

/* A SCAN gives values short, or says more of them. */
static inline bool eng_flags_agree(unsigned flags)
{
        return (flags & ENG_OP_LISTED) == 0 || (flags & (ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS | ENG_OP_VERSIONS)) == 0;
}

#define ENG_HELD_MAX 256u
#define ENG_IDS_MAX  4096u
#define ENG_OWNED_MAX 1024u

#define ENG_SCRUB_STRETCH (4u << 20) /* the most that one SCRUB is asked to read */
#define ENG_SCRUB_REMEMBERED 1024u   /* the most places that a drive remembers: for more it forgets others */

enum eng_scrub_what {
        ENG_SCRUB_LOAD,  /* answers the state that the drive remembers; zeroes: none */
        ENG_SCRUB_KEEP,  /* the drive remembers the state */
        ENG_SCRUB_COMPARED, /* all names were walked since the last gap was told: none is owed any more */
        ENG_SCRUB_READ   /* reads a stretch from where the state is, and remembers the state that it answers */
};

/* One entry of an IDS answer. */
struct eng_held_id {
        uint8_t id[FMT_ID];
        uint64_t key_hash;      /* as the frames have it; 0: not known */
};

/* What a local drive's time goes to, beside each kind of operation: continues enum eng_op_kind. */
enum eng_drive_step {
        ENG_DRIVE_LOG_WAIT = ENG_OP_KINDS, /* an APPEND waits until its group is written */
        ENG_DRIVE_LOG_WRITE,               /* a group is written, durably */
        ENG_DRIVE_DATA_FLUSH,              /* a segment is flushed */
        ENG_DRIVE_CHECKSUM,                /* a frame is given its checksums, or what was read is checked by them */
        ENG_DRIVE_STEPS_END
};
_Static_assert(ENG_DRIVE_STEPS_END == ENG_DRIVE_STEPS, "engine.h");
/* Of kinds of operations, too. */
extern const char *const eng_drive_step_names[ENG_DRIVE_STEPS];

/* owner: one loop, which counts what it submits to or does for one drive; any thread reads */
struct eng_drive_times {
        struct lp_times step[ENG_DRIVE_STEPS];
};

struct eng_drive;

struct eng_op {
        /* owner: the caller until submit, then the drive until done */
        enum eng_op_kind kind;
        unsigned flags;
        uint64_t epoch;
        struct eng_term term;          /* of the leader that asks; none: no leader, or no cluster */
        void (*done)(struct eng_op *op);
        int result;
        bool deposed;                  /* answer, with -ESTALE: it is the term that is older */
        bool of_home;                  /* of a gateway, which has no term: it may READ, WRITE, SYNC, HELD without one. Not from the wire: who asks says it by what is known of it */
        uint64_t incarnation;          /* WRITE, answer: of the process that took it; SYNC: that alone is asked (-ESTALE). 0: none is known, or meant */
        uint64_t submitted;            /* lp_clock(); 0: never, it is the drive's own */
        uint64_t request;              /* that it was submitted for (loop_trace.h) */

        union {
                struct { /* APPEND, RECORD (body is the answer; record fields filled) */
                        struct eng_buf *body;     /* APPEND: caller's reference, held until done; RECORD: answer, caller releases */
                        uint32_t pg;
                        uint32_t body_crc;        /* CRC32C of body, computed once by the caller */
                        uint32_t inline_len;
                        uint16_t type;            /* enum fmt_record_type */
                        uint64_t seq, committed, time_ms;
                        uint64_t record_epoch;    /* epoch the record was first written under (a copy keeps it) */
                } append;
                struct {
                        uint32_t pg;
                        uint64_t seq;
                } commit;
                struct { /* LOOKUP */
                        const uint8_t *name;      /* caller's, valid until done */
                        uint16_t name_len;
                        struct eng_buf *value;    /* answer: fmt_value, attrs, parts (checksum verified) */
                        struct eng_buf *bytes;    /* answer with ENG_OP_WANT_INLINE when the value is inline and not empty: verified bytes */
                } lookup;
                struct { /* SCAN: names in [from, to) (from exclusive if after), at most max entries + prefixes */
                        const uint8_t *from, *to; /* caller's, valid until done; full index names */
                        uint16_t from_len, to_len;
                        bool after;
                        uint16_t prefix_len;      /* with a delimiter: bytes of every name that belong to bucket and prefix */
                        const uint8_t *delimiter; /* after prefix_len bytes; NULL: none */
                        uint16_t delimiter_len;
                        uint32_t max;
                        uint32_t most;            /* an answer of so many bytes is not added to; 0: some MiB */
                        const uint64_t *pgs;      /* bitmap of the placement groups wanted; NULL: all */
                        uint32_t pg_words;        /* its length in words; groups beyond are not wanted. 0: not said, long enough for all groups */
                        struct eng_buf *entries;  /* answer: packed struct eng_scan_entry */
                        uint32_t count;           /* answer */
                        bool more;                /* answer: stopped at max, or at most; continue after the last entry's name */
                } scan;
                struct { /* WRITE: slot holds LP_SLOT_HEADER bytes for the frame header, then payload_len bytes of payload */
                        uint8_t object_id[FMT_ID];
                        uint32_t stripe;
                        uint8_t shard, k, m;
                        uint32_t payload_len;     /* multiple of 4 KiB */
                        uint64_t key_hash;        /* eng_hash_of_key(); 0: not known */
                        void *slot;               /* caller's, a slot of the home loop; header part is written by the drive */
                        const uint8_t *payload;   /* == slot + LP_SLOT_HEADER */
                } write;
                struct { /* READ of payload bytes [offset, offset+len): lands at slot + LP_SLOT_HEADER + offset; the drive may use all the
                            rest of the slot as scratch (it reads whole CRC blocks). left not NULL: where the drive fails, or is asked no more
                            (ENG_OP_OTHERS), before its I/O is back, the op is answered at once (-EIO, -EAGAIN; slot NULL), and left() gives the
                            slot back on the home loop when the I/O has ended (I7) */
                        uint8_t object_id[FMT_ID];
                        uint32_t stripe;
                        uint8_t shard;
                        uint32_t offset, len;
                        uint32_t payload_len;     /* expected payload length of the frame; other: -EBADMSG */
                        uint32_t crc;             /* answer with ENG_OP_WANT_CRC: of the len bytes */
                        void *slot;
                        void (*left)(struct lp_loop *home, void *slot);
                } read;
                struct {
                        uint8_t object_id[FMT_ID];
                } discard;
                struct { /* TAIL */
                        struct eng_buf *entries;  /* answer: array of struct eng_memtable_entry, ordered by pg, seq */
                        uint32_t count;
                } tail;
                struct { /* HELD: shard number `shard` of stripes [stripe, stripe + count), count <= ENG_HELD_MAX */
                        uint8_t object_id[FMT_ID];
                        uint32_t stripe, count;
                        uint8_t shard;
                        uint64_t bits[ENG_HELD_MAX / 64]; /* answer: bit i: stripe + i */
                } held;
                struct { /* IDS: those after `after`, at most max (1..ENG_IDS_MAX). What was written a moment ago may be left out */
                        uint8_t after[FMT_ID];
                        uint32_t max, count;      /* count: answer; fewer than max: there are no more */
                        struct eng_buf *ids;      /* answer: struct eng_held_id, ascending; NULL when there is none */
                } ids;
                struct { /* OWNED: which of these ids some name here has a part of. count 0: asks for the mark alone */
                        const uint8_t (*ids)[FMT_ID]; /* caller's, valid until done; count <= ENG_OWNED_MAX */
                        uint32_t count;
                        uint64_t mark;            /* count 0: answer. Else: of such an answer; what was visible when that was given counts */
                        struct eng_buf *bits;     /* answer: bit i: ids[i]; ENG_OWNED_MAX / 8 bytes */
                } owned;
                struct { /* SCRUB of segments, then of closed log files: submitted on the drive's own loop, one at a time. A state of segment 0 begins a round: the drive sets
                            last and total. The stretch ends at the end of a frame, behind `most` bytes or a slot later, or behind the
                            first shard found damaged. Damage of what nothing names any more is none. The drive remembers damaged shards: HELD
                            does not count them any more. What a state says is durable about a minute later */
                        struct fmt_drive_scrub state; /* and answer: where it is now, and what was counted */
                        enum eng_scrub_what what;
                        uint32_t most;            /* bytes, 1..ENG_SCRUB_STRETCH */
                        bool yield;               /* -EAGAIN while anybody else reads from the drive */
                        bool ended;               /* answer: the round is over */
                        bool damaged;             /* answer: the shard that these name is damaged; or, with names, the record of those names' values */
                        bool gap;                 /* answer: places were found damaged of which nobody can tell all that stands there: names are to be compared.
                                                     READ: since the last answer; LOAD: COMPARED has not come since. Remembered over restarts */
                        bool more;                /* answer: of those places some are not remembered; the next round finds them again */
                        uint32_t gaps;            /* answer: such places that are remembered */
                        uint64_t gaps_dropped;    /* answer: and those that were not, since the drive was opened */
                        struct eng_buf *names;    /* answer: | length u16 | name | of each; NULL: none */
                        uint8_t object_id[FMT_ID];
                        uint32_t stripe;
                        uint8_t shard;
                        uint64_t key_hash;        /* 0: not known */
                        uint32_t remembered;      /* answer: shards known to be damaged, and not written anew yet */
                        void *slot;               /* scratch, a slot of the drive's loop; READ only. left: as for READ */
                        void (*left)(struct lp_loop *home, void *slot);
                } scrub;
                struct {
                        uint64_t bits;            /* enum fmt_feature */
                } features;
                struct { /* OPEN */
                        uint8_t cluster[FMT_ID];  /* whose term it is */
                        struct eng_term newest;   /* answer, with -ESTALE and -EXDEV: what the drive knows */
                } open;
        };

        /* private to the drive (or filter) that holds the op */
        struct lp_loop *home;
        struct eng_drive *drive;
        struct lp_msg msg;
        struct lp_io io[2];
        struct eng_op *next;
        uint64_t priv[8];
};

/* The whole of a LOOKUP, to be submitted; the name stays the caller's, as it is, until done. */
static inline void eng_op_lookup(struct eng_op *op, const struct eng_name *name, unsigned flags, uint64_t epoch,
                                 void (*done)(struct eng_op *op))
{
        *op = (struct eng_op){
                .kind = ENG_OP_LOOKUP,
                .flags = flags,
                .epoch = epoch,
                .done = done,
                .lookup = {.name = name->data, .name_len = name->len},
        };
}

/*
 * One entry of a SCAN answer: header, then name, then value (fmt_value [+ attrs [+ parts]], or
 * eng_listed); value_len 0 for a common prefix. Each entry starts at a multiple of 8 bytes.
 */
struct eng_scan_entry {
        uint32_t size;          /* of the whole entry, padded */
        uint16_t name_len;
        uint16_t flags;         /* 1: common prefix */
        uint32_t value_len;
        uint32_t pad;
};

/* Name and value of an entry; neither is aligned. */
static inline const uint8_t *eng_entry_name(const struct eng_scan_entry *e)
{
        return (const uint8_t *)(e + 1);
}
static inline const uint8_t *eng_entry_value(const struct eng_scan_entry *e)
{
        return eng_entry_name(e) + e->name_len;
}
/* It stands for a common prefix. */
static inline bool eng_entry_is_prefix(const struct eng_scan_entry *e)
{
        return (e->flags & 1) != 0;
}

struct eng_memtable_entry {
        uint32_t pg;
        uint32_t pad;
        uint64_t seq;           /* newest pending entries; with pending 0: highest seq the drive has durably applied or seen */
        uint64_t committed;     /* highest 'committed' seen for this pg */
        uint64_t epoch;
        uint32_t pending;       /* 1: a record that waits for COMMIT; 0: one entry per pg known to the drive, its high-water mark */
        uint32_t body_len;
        uint64_t applied;       /* with pending 0: highest seq that is visible here, and the epoch of its record */
        uint64_t applied_epoch;
};

#define ENG_EPOCH_HISTORY 64u
struct eng_epoch_history {
        unsigned count;
        struct {
                uint64_t number;
                uint8_t id[FMT_ID], parent[FMT_ID];
        } past[ENG_EPOCH_HISTORY];
};

/*
 * What every implementation of a drive has. Operations on its data go through submit(); the rest is
 * what the store asks when it opens or closes a drive, or shows its state. A filter hands those to
 * the drive below it.
 */
struct eng_drive_ops {
        /* Any loop. */
        void (*submit)(struct eng_drive *drive, struct eng_op *op);
        /*
         * After the loops have stopped (or never ran): index covers the log, descriptors closed,
         * memory freed.
         */
        void (*close)(struct eng_drive *drive);
        /*
         * Newest EPOCH record body the drive holds (copied into out, at most cap bytes; *len its
         * length), and the ids of the epochs before it, newest first. On the thread that opened it,
         * before any operation, or on the owner loop. -ENOBUFS: cap is too small.
         */
        int (*epoch)(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history);
        /*
         * When it was opened, its log ended before what its index knew of it: it lost writes that
         * it had acknowledged. The index was built anew from what is left. True until a later epoch
         * that the drive has had it as a member; damage() has the text.
         */
        bool (*log_lost)(struct eng_drive *drive);
        /*
         * On the owner loop: a drive that the store has given up (it fails now, if it had not) lets
         * go of its index and its lock, so that its folder can be opened again while this process
         * lives. False: some of its I/O or work has not come back yet. It goes on answering -EIO,
         * and is closed as any other.
         */
        bool (*let_go)(struct eng_drive *drive);
        /*
         * Before it is closed, after the loops: the threads of a drive that has failed end within
         * that time, each. False: one is stuck with the drive, which is not to be closed: nothing
         * of it may be freed. A drive that has not failed takes the time it needs.
         */
        bool (*ends)(struct eng_drive *drive, unsigned seconds);
        /*
         * Somebody waits for a file that one of its workers is opening or making, which needs no
         * loop to come to its end, or for a page of its index that the kernel is reading. The loops
         * have stopped.
         */
        bool (*awaits_file)(struct eng_drive *drive);
        /*
         * It may be opened again as soon as it can be: its folder was not found any more where it
         * was opened, or its index is damaged, which opening builds anew. Any thread, once it has
         * failed.
         */
        bool (*vanished)(struct eng_drive *drive);
        /*
         * It serves what it can of a damaged index, and is to be opened again once the store can do
         * without it. Any thread.
         */
        bool (*index_damaged)(struct eng_drive *drive);
        /*
         * Its log had damage when its index was built from it: names may be missing, or be back,
         * until they have been compared with those of other members (an epoch that has it as a
         * member again says so). NULL: none; else what is known of it. Any thread, once it is open.
         */
        const char *(*damage)(struct eng_drive *drive);
        /* Statistics for health and metrics. Any thread. */
        void (*info)(struct eng_drive *drive, struct eng_drive_info *out);
        /*
         * The newest TERM record that it holds, and the cluster that it names; none: it has none. As
         * epoch(). NULL: a drive without terms.
         */
        void (*term)(struct eng_drive *drive, struct eng_term *out, uint8_t cluster[FMT_ID]);
};

/* Common head of every implementation. */
struct eng_drive {
        const struct eng_drive_ops *ops;
        unsigned slot;          /* number in the store's drive map: the u16 in fmt_part.drives */
        uint8_t id[FMT_ID];     /* of the drive */
        struct lp_loop *owner;  /* loop that owns the drive's state (a hint: LOOKUPs from it need no message) */
        const atomic_bool *exhausted;  /* its log has no room, changes that it is to take would wait; as the next */
        const atomic_bool *unreliable; /* many places of it cannot be read; lives as long as the drive. NULL: never */
        const atomic_bool *mute;       /* its node says nothing at the moment; as the last */
        bool far;               /* bytes of it go through a network */
        uint16_t node;          /* that has it; 0: it is not far */
        const atomic_bool *stalled;    /* it can take little more until it is opened again, for which others must be back first; as the two before */
};

/* No client's change is to be begun on it. Any loop. */
static inline bool eng_drive_stalled(const struct eng_drive *drive)
{
        return drive->stalled != NULL && atomic_load_explicit(drive->stalled, memory_order_relaxed);
}

/* It takes no changes, not even deletes: refuse them before they have a number. Any loop. */
static inline bool eng_drive_exhausted(const struct eng_drive *drive)
{
        return drive->exhausted != NULL && atomic_load_explicit(drive->exhausted, memory_order_relaxed);
}

static inline bool eng_drive_unreliable(const struct eng_drive *drive)
{
        return drive->unreliable != NULL && atomic_load_explicit(drive->unreliable, memory_order_relaxed);
}

/* Others should be read first. Any loop. */
static inline bool eng_drive_is_last(const struct eng_drive *drive)
{
        return eng_drive_unreliable(drive) || (drive->mute != NULL && atomic_load_explicit(drive->mute, memory_order_relaxed));
}

/* The first word of trace records of operations. */
#define ENG_TRACE_OP(kind, slot) ((uint64_t)(kind) | (uint64_t)(slot) << 8)

static inline void eng_drive_submit(struct eng_drive *drive, struct eng_op *op)
{
        op->submitted = lp_clock();
        op->request = lp_trace_request();
        lp_trace_at(op->submitted, LP_TRACE_OP_SUBMIT, ENG_TRACE_OP(op->kind, drive->slot), 0);
        drive->ops->submit(drive, op);
}

/* The other operations, for short. */
static inline int eng_drive_epoch(struct eng_drive *drive, void *out, size_t cap, size_t *len, struct eng_epoch_history *history)
{
        return drive->ops->epoch(drive, out, cap, len, history);
}
static inline bool eng_drive_log_lost(struct eng_drive *drive)
{
        return drive->ops->log_lost(drive);
}
static inline bool eng_drive_let_go(struct eng_drive *drive)
{
        return drive->ops->let_go(drive);
}
static inline bool eng_drive_ends(struct eng_drive *drive, unsigned seconds)
{
        return drive->ops->ends(drive, seconds);
}
static inline bool eng_drive_awaits_file(struct eng_drive *drive)
{
        return drive->ops->awaits_file(drive);
}
static inline bool eng_drive_vanished(struct eng_drive *drive)
{
        return drive->ops->vanished(drive);
}
static inline bool eng_drive_index_damaged(struct eng_drive *drive)
{
        return drive->ops->index_damaged(drive);
}
static inline const char *eng_drive_damage(struct eng_drive *drive)
{
        return drive->ops->damage(drive);
}
static inline void eng_drive_info(struct eng_drive *drive, struct eng_drive_info *out)
{
        drive->ops->info(drive, out);
}
static inline void eng_drive_term(struct eng_drive *drive, struct eng_term *out, uint8_t cluster[FMT_ID])
{
        *out = (struct eng_term){0};
        memset(cluster, 0, FMT_ID);
        if (drive->ops->term != NULL)
                drive->ops->term(drive, out, cluster);
}

/* ---- local drives: engine_folder.h has what they are given ------------------------------------- */

/*
 * Opens a formatted folder: takes LOCK, opens the index (rebuilding it when it is gone or damaged),
 * replays the log from the index's position into the tail, scans open segments. Blocking; called on
 * a thread of its own (drives are opened in parallel), before any operation. Fails with -EBUSY
 * (locked), -EBADMSG (damage: the log's chain breaks with valid records behind it), -EIO ...; error
 * has the text.
 */
int eng_local_open(const struct eng_local_options *options, struct eng_drive **out, struct eng_error *error);
/*
 * How drives are found and opened that are no folders of this machine (remote.h). Both are blocking, for
 * some seconds at most, on a thread that is no loop. -EAGAIN: their node does not answer now.
 */
struct eng_drive_opener {
        bool (*is_remote)(const char *path);
        int (*probe)(const struct eng_drive_opener *opener, const char *path, enum eng_folder_state *state,
                     struct eng_identity *identity, struct eng_error *error);
        int (*open)(const struct eng_drive_opener *opener, const struct eng_local_options *options, struct eng_drive **out,
                    struct eng_error *error);
};
/* opener NULL: all are folders. */
static inline bool eng_drive_is_remote(const struct eng_drive_opener *opener, const char *path)
{
        return opener != NULL && opener->is_remote(path);
}
static inline int eng_drive_probe(const struct eng_drive_opener *opener, const char *path, enum eng_folder_state *state,
                                  struct eng_identity *identity, struct eng_error *error)
{
        return eng_drive_is_remote(opener, path) ? opener->probe(opener, path, state, identity, error)
                                                 : eng_folder_probe(path, state, identity, error);
}
static inline int eng_drive_open(const struct eng_drive_opener *opener, const struct eng_local_options *options, struct eng_drive **out,
                                 struct eng_error *error)
{
        return eng_drive_is_remote(opener, options->path) ? opener->open(opener, options, out, error) : eng_local_open(options, out, error);
}
/* Joins a thread that ends within that time. */
bool eng_thread_ends(pthread_t thread, unsigned seconds);

/* ---- filters --------------------------------------------------------------------------------- */

/*
 * Wraps a drive in the filters a text names, e.g. "fail:op=append,after=100;delay:op=read,ms=50"
 * (grammar in drive/filter.c); NULL or "": the drive itself. The text applies to drive number slot
 * only where it says slot=N. For tests; a daemon takes it only from the hidden setting test_faults.
 */
int eng_filter_stack(struct eng_drive *inner, const char *text, struct eng_drive **out, struct eng_error *error);

/* What an error of a call or an I/O means (drive/unreliable.c). */
/*
 * True: the drive could not give the bytes. False for success, and for what concerns the machine
 * and may go better the next time.
 */
bool eng_io_unreadable(int res);
/* No room, by the file system or a limit: full is not failed. */
bool eng_io_full(int res);
/*
 * Descriptors or memory of the machine have run out: to be tried again, nothing is wrong with the
 * drive.
 */
bool eng_io_again(int res);

#endif
