/*
 * engine.h - the store: buckets, objects and uploads over drives, with erasure code, quorums and
 * recovery.
 *
 * Every asynchronous call is made on one of the store's loops ("home") and its callback comes on
 * the same loop, never from inside the call. Results are 0 or a negative errno:
 *   -ENOENT       no such bucket, key or upload        -EEXIST       If-None-Match: * (or bucket) met something
 *   -ESTALE       If-Match did not match               -EAGAIN       overloaded, a queue is full (503 SlowDown)
 *   -ENOSPC       the store is full (507)              -EROFS        too few drives for the write quorum (503)
 *   -EHOSTDOWN    not ready, or too few drives to read -EIO          damage beyond repair
 *   -EBUSY        bucket not empty                     -ETIMEDOUT    took longer than its deadline
 *   -EIDRM        a change of a bucket, by its id, that was deleted meanwhile
 *   -ENOMEM, -EINVAL (a limit of this header exceeded)
 * The engine knows nothing of HTTP or XML. "attrs" are bytes of the caller's own, kept and given back.
 */
#ifndef MILLRACE_ENGINE_H
#define MILLRACE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "loop.h"
#include "loop_times.h"
#include "loop_trace.h"

#define ENG_KEY_MAX 1024u            /* bytes of an object key */
#define ENG_PATH_MAX 256u            /* bytes of a drive's path with its 0 */
#define ENG_BUCKET_NAME_MAX 63u
#define ENG_INLINE_MAX (128u << 10)  /* the most that eng_options.inline_max can be */
#define ENG_INLINE_NONE UINT32_MAX
#define ENG_ATTRS_MAX (8u << 10)     /* attrs of one object, upload or part */
#define ENG_PARTS_MAX 10000u
#define ENG_DRIVES_MAX 64u
#define ENG_ID_LEN 16u
#define ENG_DRIVE_WAIT_MS 15000u

struct eng_store;
struct eng_drive_opener;

/* A string that need not end in NUL; owned by whoever the context says. */
struct eng_str {
        const char *data;
        size_t len;
};

/* ---- opening --------------------------------------------------------------------------------- */

#define ENG_BOOT_MAX ((1u << 24) - 1)

/*
 * Where a drive is, in a cluster: its node, and the rack that the node stands in. All zeroes: this
 * machine, in a store that is no cluster's.
 */
struct eng_site {
        uint16_t node, rack;
};

/*
 * What a store has whose epochs a configuration service decides: one that is the leader of a pool of a
 * cluster (docs/design/leaders.md). The functions, and what is pointed to, live as long as the store.
 */
struct eng_cluster {
        uint8_t store_id[16];
        const void *epoch;            /* that the service has: body of an EPOCH record, which eng_epoch_read() takes */
        size_t epoch_len;
        const char *const *paths;     /* of each of its slots: where its drive is reached; "": nowhere */
        bool may_lose;                /* groups without a current member are given up for a while, and the others go on (docs/design/lost-groups.md) */
        /*
         * Coordinator: is the epoch of this body to come behind the one before? decided(p) comes on the
         * coordinator, later, once it surely is; never, if it is not: then the process ends. Nor after
         * the store was closed. body: copied.
         */
        void (*propose)(void *arg, const void *body, size_t len, void (*decided)(void *p), void *p);
        /*
         * Coordinator: the service has answered a moment ago. While it does not, only epochs that take a
         * drive out are proposed, since changes wait until one is decided. NULL: always.
         */
        bool (*answers)(void *arg);
        /* Coordinator: where the drive of a slot on this node is reached, for the opener. NULL: drives are neither added nor replaced. */
        void (*path)(void *arg, unsigned slot, uint16_t node, char out[ENG_PATH_MAX]);
        /*
         * Any loop. The store cannot go on, or must not: the process ends at once. Where it does not
         * (a simulator's), the store answers nothing more that it is asked.
         */
        void (*ended)(void *arg, const char *why);
        void *arg;
        uint64_t (*clock_ns)(void);   /* goes on while the machine sleeps; NULL: CLOCK_BOOTTIME */
        const _Atomic uint64_t *lease_end; /* by that clock: until then what is read here is current */
};

/* What the body of an EPOCH record says of the drives. */
struct eng_epoch_info {
        uint64_t number;
        uint8_t id[16], parent[16];
        unsigned k, m, groups, slots;
        uint64_t in, joining, gone;   /* slots: a bit each. A lease needs those that are in or joining, and no others */
        uint64_t adding, leaving;     /* slots that groups are about to come to, or to go from, for good */
        uint64_t filling;             /* slots whose drive took the place of another: no record of the pool counts on what it held before */
        uint64_t given_up;            /* by the operator's word */
        uint64_t back;                /* of joining: those that answer for groups which were lost (docs/design/lost-groups.md) */
        uint64_t features;            /* that FORMAT of a drive with it must name: struct eng_identity */
        struct {
                uint8_t drive_id[16];
                struct eng_site site;
        } slot[ENG_DRIVES_MAX];
};
/* Any bytes. -EBADMSG: they are no such body. */
int eng_epoch_read(const void *body, size_t len, struct eng_epoch_info *out);
/* Whether each group that is not lost has a current member among these slots. -EBADMSG, -ENOMEM; 1: yes, 0: no. */
int eng_epoch_serves(const void *body, size_t len, uint64_t slots);

/* What became of a call. */
enum eng_leader_outcome {
        ENG_LEADER_ANSWERED,
        ENG_LEADER_NOT_SENT,          /* the leader has not seen it, and will not */
        ENG_LEADER_UNKNOWN            /* it may have been done; if not it will not be done any more */
};
/* A call of a home store (engine/call/leader_call.h). All that it points to stays until done(). */
struct eng_leader_call {
        const void *body;
        uint32_t body_len;
        unsigned bulk_count;
        struct iovec bulk[2];
        void *room;                   /* for the answer's bulk */
        size_t room_len;
        bool reads;                   /* it changes nothing: it may be sent again, to whoever leads then */
        uint64_t key_hash;            /* calls of the same one need not overtake one another */
        void (*done)(struct eng_leader_call *call); /* once, on the loop that called, never from inside */
        /* the answer: until done() returns */
        enum eng_leader_outcome outcome;
        const uint8_t *answer;
        uint32_t answer_len;
        size_t answer_bulk;           /* bytes in room */
        void *user[4];                /* the link's */
};
/*
 * How a store without a leader's part reaches the leader of its pool, which is in another process
 * (docs/design/any-gateway.md). Any loop of the store.
 */
struct eng_leader_link {
        void (*call)(void *arg, struct eng_leader_call *call);
        void (*unpin)(void *arg, uint64_t pin);
        bool (*awaits)(void *arg);    /* calls have not come back; the store is closed when they have. Any thread */
        /* Where the drive of a slot, on this node, is reached: a path for options.opener. False: not now. Coordinator. */
        bool (*path)(void *arg, unsigned slot, uint16_t node, char out[ENG_PATH_MAX]);
        const _Atomic uint64_t *lease_end; /* until then what the leader has said is current */
        uint64_t (*clock_ns)(void);   /* by which; NULL: CLOCK_BOOTTIME */
        uint8_t store_id[16];
        void *arg;
};

struct eng_options {
        const struct eng_leader_link *leader; /* NULL: this store decides by itself; else the leader of its pool does */
        const struct eng_cluster *cluster; /* NULL: the drives themselves say which epoch counts */
        const char *const *drives;    /* folders; or what opener knows. With a cluster: none */
        const struct eng_drive_opener *opener; /* of drives of other nodes (remote.h), until the store is closed; NULL: there are none */
        unsigned drive_count;
        bool format;                  /* make a new store if all folders are empty */
        bool one_machine;             /* drives of a cluster's pool are refused: they are not this process's to open */
        bool upgrade;                 /* a store of an older layout becomes one of this build's, for good (docs/format.md); else it is refused */
        unsigned ec_k, ec_m;          /* used when formatting; 0+0: default by number of drives */
        const struct eng_site *sites; /* used when formatting: of each drive; NULL: all are at `site` */
        uint16_t maker;               /* that ids made here name; 0: the node of `site`. In a cluster leaders have other ones than homes */
        struct eng_site site;         /* of this node: drives that are added later lie there. Node 0: a store that is no cluster's */
        uint32_t boot;                /* of this node: higher than in any run of it before, up to ENG_BOOT_MAX; 0 on node 0 */
        struct lp_loop *const *loops; /* made, not yet running */
        unsigned loop_count;
        unsigned coord_loop;          /* the one that decides about epochs and buckets: a process that leads several stores spreads these */
        struct lp_loop *const *hash_loops; /* made, not yet running: they hash large uploads, and need no slots. None: each loop does */
        unsigned hash_loop_count;
        uint32_t inline_max;          /* new objects up to this lie inside their log record, larger ones in shards; 0: ENG_INLINE_MAX;
                                         ENG_INLINE_NONE: empty ones alone */
        uint64_t cache_bytes;         /* read cache of small objects, all loops together */
        uint64_t log_file_bytes;      /* 0: 64 MiB */
        uint64_t segment_bytes;       /* 0: by the size of the drive: 256 MiB to 4 GiB */
        uint64_t memtable_bytes;          /* per drive, bound of the in-memory tail; 0: 32 MiB */
        uint64_t heal_rate;           /* bytes/s of upkeep while clients use the store; more when they do not; 0: by what drives hold, at least 64 MiB */
        uint64_t heal_keep_ms;        /* between records of how far a walk of upkeep, or a scrub's of names, has come; 0: a minute */
        uint64_t heal_again_ms;       /* before what a walk could not help is looked at again; 0: half a minute */
        uint64_t scrub_rate;          /* the most bytes/s that a scrub reads of each drive; 0: no scrub */
        uint64_t scrub_interval_ms;   /* from the start of one walk of all names to the next, if it is over by then */
        uint64_t scrub_period_ms;     /* in which all data of each drive is read once; 0: it is not read */
        unsigned open_files;          /* of each drive, kept open for reading by two descriptors each; 0: 1,024 */
        uint64_t reclaim_rate;        /* bytes/s read and written to get dead space back while there is enough of it; 0: 64 MiB */
        uint64_t full_reserve_bytes;  /* PUTs are refused when a file system has less than this free; 0: 1 GiB or 5 %, the smaller; more for large drives */
        uint64_t drive_wait_ms;       /* how long a start waits for drives it can do without; 0: ENG_DRIVE_WAIT_MS */
        int64_t (*wall_ms)(void);     /* the wall clock as the lock clock sees it, for tests; NULL: lp_wall_ms() */
        uint64_t (*clock_ns)(void);   /* the monotonic clock, likewise; NULL: lp_clock() */
        uint32_t home_rows_bytes;     /* that homes are told at a time of the configuration, for tests: one row at least; 0: as much as an answer has room for */
        const char *faults;           /* test filters to stack on drives, see engine/drive/filter.h; NULL: none */
};

struct eng_error {
        char text[512]; /* one line, names what is at fault */
};

/*
 * Recognises (or formats) the drives: reads FORMAT files, takes locks, and opens what can be
 * opened. Blocking; called before the loops run, but for a home store (options->leader), which may
 * be opened while they do. A drive that is missing or unusable by itself is reported in health, not
 * here, as long as the store can be identified: one with a damaged FORMAT, other content, or a
 * device that does not answer (within drive_wait_ms) is as one that is missing.
 * Two stores, a lock held elsewhere, a newer layout, or no drive at all is an error with a text.
 */
int eng_store_open(const struct eng_options *options, struct eng_store **out, struct eng_error *error);
/* True if this opening formatted the store (credentials are made then). */
bool eng_store_formatted(const struct eng_store *store);
/*
 * Starts recovery (replay, epoch, settling); asynchronous, to be called once the loops run or are
 * about to. Any thread.
 */
void eng_store_start(struct eng_store *store);
/*
 * Any thread, after something was read from the store, or from what it has in memory: that is current, or
 * was when it was read. False: another process may lead the pool and know better, so the client is told
 * nothing of it. Objects, listings and conditions are judged so already (-EHOSTDOWN). Without a cluster
 * always true.
 */
bool eng_is_current(const struct eng_store *store);
/*
 * Any thread. The node of a slot does not answer: what the store asked of the drive may be done or not. It
 * goes on without the drive, and takes it in again when that answers; a start does not wait for it.
 */
void eng_slot_silent(struct eng_store *store, unsigned slot, const char *why);
/* Folders given that are no drives, or did not answer, and why; "": none. */
const char *eng_store_unused(const struct eng_store *store);
/*
 * Stops background work and makes the index cover the log. Blocking; called after the loops were
 * stopped. False: a thread that opens a drive or a file of one has not come back within some
 * seconds. The store and the loops stay as they are then, and the process is to end: the next start
 * does what is left.
 */
bool eng_store_close(struct eng_store *store);
/*
 * The same of several stores on the same loops. They stop before one of them is taken apart: none goes on with what it has
 * under way while the loops are drained for another. NULL is allowed. False: as above, of one of them; the others may be freed.
 */
bool eng_stores_close(struct eng_store *const *stores, unsigned count);

/* ---- state ----------------------------------------------------------------------------------- */

/*
 * JOINING: was stale or is new, is written to, and is being brought up to date; counts for nothing
 * yet.
 */
/* REMOVED: belongs to the store no more. */
enum eng_drive_state { ENG_DRIVE_IN, ENG_DRIVE_MISSING, ENG_DRIVE_STALE, ENG_DRIVE_FAILED, ENG_DRIVE_JOINING, ENG_DRIVE_REMOVED };
#define ENG_DRIVE_STATES 6u

/* The scrub of one drive's data. */
struct eng_scrub_progress {
        bool running;              /* a round is under way */
        bool late;                 /* it has taken longer than the period */
        uint64_t bytes, total;     /* of the round: gone through; of the drive's segments when it began */
        int64_t started_ms;        /* of the round; 0: none is under way */
        int64_t last_ended_ms;     /* of the last complete round; 0: none yet */
        uint64_t last_bytes, last_damaged; /* of that */
        uint64_t damaged;          /* shards found damaged since the drive was opened */
        uint64_t unrepaired;       /* shards known to be damaged now, and not written anew yet */
        uint64_t gaps;             /* places where nothing that is right was found, and nobody can tell what stood there */
        bool owed;                 /* names are to be compared for what was found, and have not been yet */
        uint64_t gaps_dropped;     /* such places that the drive could not remember, since it was opened: another round finds them */
        uint64_t rate;             /* bytes/s that the round is to be read at; 0: none is under way */
};

/*
 * A drive that is brought up to date, before it counts or before it counts for groups that come to
 * it: all names it is to have are compared with those of others.
 */
struct eng_catch_up_progress {
        bool running;
        uint64_t compared, copied; /* names */
        uint64_t total;            /* about so many are to be compared, as the last walk of all names has counted them; 0: none has ended in this run */
        uint64_t rate;             /* names/s compared so far */
        uint64_t seconds_left;     /* at that; 0: not known */
};

struct eng_drive_info {
        enum eng_drive_state state;
        char path[ENG_PATH_MAX];   /* "" when missing */
        char id[33];               /* hex */
        char reason[160];          /* why it is not in, else "" */
        bool adding;               /* new: on its way in, or waiting for it */
        bool dropping_migrated;             /* groups went from it when another was added: it may still hold names of them */
        bool leaving;              /* being removed: what it holds goes to the others */
        bool filling;              /* it took another's place and may not hold all shards yet that it should */
        bool starved;              /* the file system has no room for another log file */
        bool unreliable;           /* many places of it could not be read: it is read last, and should be replaced */
        uint64_t reserve_bytes;    /* PUTs are refused when less than this is free */
        uint64_t total_bytes, free_bytes, log_bytes, data_bytes, index_bytes;
        uint64_t ops, errors, queue, memtable_bytes, appends, batches, syncs, read_bytes, written_bytes;
        uint64_t cache_bytes, cache_hits, cache_misses; /* cache of inline bytes */
        uint64_t log_live_bytes, data_live_bytes;       /* of log_bytes and data_bytes: what is still referred to */
        uint64_t reclaim_copied;   /* bytes moved out of mostly dead files */
        uint64_t reclaim_freed;    /* bytes of log files and segments unlinked */
        uint64_t index_reads;      /* pages of the index that were not in memory when a lookup needed them */
        uint64_t reclaim_damaged;  /* frames and values found damaged on the way, and left where they are */
        uint64_t read_errors;      /* reads that the drive could not do */
        uint64_t unknown_owners;   /* names whose records do not say which shards they have: no orphan is discarded while there is one */
        struct eng_scrub_progress scrub;
        struct eng_catch_up_progress catch_up;
};

/*
 * What a set of shards comes to: object id, stripe, shard number, length and CRC32C of each, summed
 * in any order.
 */
struct eng_digest {
        uint64_t shards, payload;  /* bytes */
        uint8_t bytes[32];
};

/* Numbers of missing shards by which objects are counted: 1 to m, and more than m. m is 8 at most. */
#define ENG_LACKS 9u

/* What looking for missing shards and giving them back has come to. */
struct eng_heal_report {
        bool running;
        bool surveyed;             /* all objects have been looked at; till then below, todo and waiting_parts count what was met so far */
        unsigned level;            /* objects that lack so many shards are being rebuilt; 0: none yet */
        uint64_t looked_at;        /* objects; by a walk that goes on where the last one failed: from there on */
        uint64_t below;            /* objects that lack shards, as of this or the last look: the sum of lacking */
        uint64_t lacking[ENG_LACKS]; /* of those: by the number of shards that the worst place lacks, less one; [m]: more than m */
        uint64_t todo_objects, todo_bytes; /* that can be rebuilt; bytes of shards */
        uint64_t done_objects, done_bytes; /* of those; shards found in place count */
        uint64_t failed_objects;   /* tried in vain; tried again later */
        uint64_t waiting_parts;    /* parts of unfinished uploads that lack shards: given them when completed */
        uint64_t too_close;        /* shards on nodes that hold more of their run than may be lost with them; of objects, as looked_at */
        uint64_t written;          /* bytes of shards */
        uint64_t differing_names, repaired_names; /* since the start: members had them differently; made equal */
        uint64_t undecided_names;  /* that could not be made equal; looked at again by the next walk */
        int64_t started_ms, ended_ms; /* wall clock; 0: never */
        struct eng_digest digest[ENG_DRIVES_MAX]; /* of the shards written on each drive */
};

/* The clock by which retention ends. */
struct eng_lock_state {
        bool begun;                /* the start has come so far as to know it; else nothing below means anything */
        bool in_use;               /* some bucket has, or had, versions: there may be locks */
        bool frozen;               /* the wall clock was ahead at the start by more than the budget: it is not followed until eng_lock_confirm() */
        int64_t now_ms;            /* what it shows */
        int64_t wall_ms;           /* what the wall clock shows */
        int64_t frozen_ms;         /* the wall clock at that start; 0: not frozen */
        int64_t budget_ms;         /* by so much the next start may advance it */
        int64_t confirmed_ms, before_ms; /* what it was last set to in this run by eng_lock_confirm(), and showed before; 0: never */
};

struct eng_health {
        bool ready;                /* reads answered */
        bool waits;                /* not ready, and nothing goes on, for want of drives or of the operator's word */
        bool writable;             /* write quorum held and not full */
        bool full;
        char reason[200];          /* why not ready or not writable, else "" */
        char store_id[33];
        unsigned ec_k, ec_m, drive_count, drives_in, drives_removed; /* drive_count: slots, those of removed drives included */
        uint64_t epoch;
        uint64_t buckets;
        struct eng_lock_state lock;
        uint64_t cache_bytes, cache_hits, cache_misses, reconciled_records;
        uint64_t degraded_reads;   /* ranges read of which something was reconstructed: a shard was missing, damaged, or on a drive that is not asked */
        uint64_t hedged_reads;     /* extra reads of shards, since others were late */
        uint64_t hedges_won;       /* stripes that were there by them before what was late */
        uint64_t repaired_reads;   /* shards that reads found damaged, reconstructed and wrote anew */
        bool healing;              /* objects are being looked at for missing shards, or given them back; or a repair that failed is to be tried again soon */
        uint64_t objects_below;    /* that lack shards, as of the last look at all objects */
        uint64_t objects_lacking[ENG_LACKS]; /* of those, as eng_heal_report's */
        uint64_t undecided_names;  /* that members have differently and that could not be made equal, likewise */
        uint64_t lost_objects;     /* met in this run, and there still: more than m shards of a stripe are gone. All their other stripes can be read */
        uint64_t heal_bytes_left;  /* of shards that are known to be missing and can be given back */
        uint64_t heal_pace;        /* bytes/s of shards that the rebuild under way has given back so far; 0: none */
        uint64_t heal_seconds_left; /* at the pace so far; 0: nothing left, or not known yet */
        uint64_t heal_rate;        /* bytes/s of upkeep that are allowed now: more while no client works, less while one waits for buffers */
        uint64_t rebuilt_objects, rebuilt_bytes; /* since the start: given missing shards back */
        bool dropping;             /* unfinished uploads of deleted buckets are being dropped */
        bool collecting_orphans;             /* drives are being searched for shards that no record names */
        uint64_t orphan_ids;        /* since the start: object ids of which a drive had such, and has given up */
        struct eng_drive_info drives[ENG_DRIVES_MAX];
};

/*
 * now: the heal under way, or the last look at all objects. last: the last heal that ended and
 * wrote anything, or failed to. Any thread.
 */
void eng_heal_read(struct eng_store *store, struct eng_heal_report *now, struct eng_heal_report *last);
/*
 * An object that was found to have a stripe beyond repair. Each repair that meets one finds it
 * anew.
 */
struct eng_lost_object {
        uint64_t number;           /* of the finding: from 1 on */
        char bucket[ENG_BUCKET_NAME_MAX + 1]; /* "": it is gone */
        uint16_t key_len;
        char key[ENG_KEY_MAX];
};
/*
 * The finding behind *number, which is changed to its number; of many the last few. False: there is
 * none. Any thread.
 */
bool eng_lost_object_next(struct eng_store *store, uint64_t *number, struct eng_lost_object *out);
/* Any thread; a consistent copy at most a second old. */
void eng_health_read(struct eng_store *store, struct eng_health *out);

/* ---- where time goes ------------------------------------------------------------------------- */

/*
 * What requests wait for, and what their bytes cost. One time for each such step: a request takes
 * some of them often, some never. What healing reads and changes counts, too.
 */
enum eng_step {
        ENG_STEP_BUFFERS,          /* queue: a GET or PUT of a large object waits for its buffers (0 when they are there) */
        ENG_STEP_ROOM,             /* queue: an upload waits until some of its own buffers are written and hashed */
        ENG_STEP_KEY,              /* queue: a change waits for earlier ones of its key (0 when there are none) */
        ENG_STEP_LOOKUP,           /* drive: a name is looked up */
        ENG_STEP_READ,             /* drive: the units wanted of a stripe are read; a stripe ahead of what is sent */
        ENG_STEP_WRITE,            /* drive: after the last byte of an upload, until its shards are written */
        ENG_STEP_SYNC,             /* drive: and until they are durable */
        ENG_STEP_RECORD,           /* drive: the record of a change becomes durable and visible on all its drives */
        ENG_STEP_MD5,              /* hash: a run over pieces of uploads side by side */
        ENG_STEP_PARITY,           /* encode: one unit is added to its stripe's parity */
        ENG_STEP_REBUILD,          /* encode: the missing units of a stripe are computed */
        ENG_STEPS
};
/* "queue", "drive", "hash" or "encode"; and which of them. */
const char *eng_step_stage(enum eng_step step);
const char *eng_step_name(enum eng_step step);
/* Since the start, all loops together. Any thread. */
void eng_steps_read(const struct eng_store *store, struct lp_histogram out[ENG_STEPS]);

/* Operations of a drive, from their submission until the drive answers, and what it does within. */
#define ENG_DRIVE_STEPS 20u
const char *eng_drive_step_name(unsigned step);
/* Since the start, of all drives that were in this slot. Any thread. */
void eng_drive_steps_read(const struct eng_store *store, unsigned slot, struct lp_histogram out[ENG_DRIVE_STEPS]);

/* ---- buckets --------------------------------------------------------------------------------- */

enum eng_versioning { ENG_VERSIONING_NEVER, ENG_VERSIONING_ENABLED, ENG_VERSIONING_SUSPENDED };

/* WORM protection of a version. */
enum eng_retention_mode { ENG_RETENTION_NONE, ENG_RETENTION_GOVERNANCE, ENG_RETENTION_COMPLIANCE };
struct eng_retention {
        enum eng_retention_mode mode;
        int64_t until_ms;          /* wall clock */
};

/* What changes of a bucket's objects are decided by. */
struct eng_bucket_rules {
        uint64_t generation;       /* one more with each change; 0: none yet */
        enum eng_versioning versioning;
        bool lock;                 /* object lock: versions can be protected. Versioning is enabled, for good */
        enum eng_retention_mode default_mode; /* of new versions that come without one */
        bool default_years;        /* else days */
        uint32_t default_period;
};

struct eng_bucket {
        uint64_t id;               /* new at each creation */
        struct eng_store *store;   /* that has it: of eng_bucket_get() and eng_bucket_list() */
        struct eng_bucket_rules rules;
        int64_t created_ms;
        char name[ENG_BUCKET_NAME_MAX + 1];
        uint16_t attrs_len;        /* caller's own (region, owner, ...) */
        uint8_t attrs[512];
};

/*
 * From this loop's own copy of the configuration: immediate. -ENOENT; -EHOSTDOWN before recovery.
 * The pointer holds until the caller returns to the loop.
 */
int eng_bucket_get(struct eng_store *store, struct eng_str name, const struct eng_bucket **out);
/*
 * Buckets in order of name, at most max, those with name >= from (from.len 0: all). Returns their
 * number. Immediate.
 */
unsigned eng_bucket_list(struct eng_store *store, struct eng_str from, unsigned max, const struct eng_bucket **out);

typedef void (*eng_done)(void *arg, int rv);
/*
 * rules: what it begins with, their generation aside; NULL: no versioning, no lock. -EEXIST if there is
 * one of that name; -EREMOTE another pool was said to have it (eng_bucket_pool_set()); -ENOSPC there are 100,000; -EPERM,
 * -EINVAL and errors of drives as for eng_bucket_rules_set().
 */
void eng_bucket_create(struct eng_store *store, struct eng_str name, const struct eng_bucket_rules *rules, const void *attrs,
                       size_t attrs_len, eng_done done, void *arg);
/*
 * Changes the rules of a bucket, by its id. rules->generation is that of the rules that the caller has
 * read: if others are in force by now, nothing changes. A lock enables versioning in a bucket that never
 * had it. Answered when every loop decides by the new rules; what began before may be decided by the old
 * ones. Rules that say the same as those in force change nothing, the generation neither.
 *   -EIDRM    the bucket was deleted
 *   -ESTALE   they were changed meanwhile: read them again
 *   -EPERM    S3 does not allow it: a bucket with lock is suspended, the lock is taken off, or a bucket
 *             that has, or had, versioning is to be as if it never had
 *   -EINVAL   no bucket can have them: a default retention without lock, or of no length, or of more than
 *             36,500 days or 100 years
 *   -EIO, -ETIMEDOUT, -EAGAIN and others: a drive in use could not be marked as one that builds without
 *             versions refuse; nothing has changed
 */
void eng_bucket_rules_set(struct eng_store *store, uint64_t bucket, const struct eng_bucket_rules *rules, eng_done done, void *arg);
/*
 * -EBUSY if it holds an object. Unfinished uploads do not keep it: they are ended with it, as AWS
 * does. id: the one that is meant. Another one that has the name by then is left alone (-ENOENT); 0: whichever has it.
 */
void eng_bucket_delete(struct eng_store *store, struct eng_str name, uint64_t id, eng_done done, void *arg);

/* ---- texts of buckets ------------------------------------------------------------------------ */

/*
 * What is kept with a bucket beside its rules: policies, lifecycle rules and the like, one text of each
 * kind. Kinds are the caller's own numbers, and are stored. All loops share one copy of a text, which
 * never changes, and what its caller has made of it.
 */
#define ENG_TEXT_MAX (256u << 10)     /* bytes; all texts of the store: 1 GiB */
#define ENG_TEXT_KINDS 128u           /* of a bucket; above them: entries of the store */
#define ENG_TEXT_ANY UINT64_MAX       /* whatever generation */
struct eng_text;

/*
 * From this loop's own copy: immediate. -ENOENT; -EIDRM no such bucket; -EHOSTDOWN before recovery; -EIO
 * there is one, and no drive has it whole: it is to be set again, or deleted. The pointer holds until the
 * caller returns to the loop, or lets go of a reference.
 */
int eng_text_get(struct eng_store *store, uint64_t bucket, unsigned kind, struct eng_text **out);
/* Kinds of which the bucket has a text, in ascending order; returns their number. Immediate. */
unsigned eng_text_list(struct eng_store *store, uint64_t bucket, uint8_t kinds[ENG_TEXT_KINDS]);
/* Any thread. */
struct eng_text *eng_text_ref(struct eng_text *text);
void eng_text_unref(struct eng_text *text); /* NULL is allowed */
struct eng_str eng_text_bytes(const struct eng_text *text);
/* Higher than that of any text of this bucket and kind before it; never 0. */
uint64_t eng_text_generation(const struct eng_text *text);
/*
 * What make() made of the text when it was first asked for: parsed rules, for example. Any thread; where
 * two ask at once, both may make it, and one is destroyed. It lives as long as the text, for which
 * make and destroy are always the same. NULL: make() said so, or no memory; asked again, it is tried again.
 */
void *eng_text_form(struct eng_text *text, void *(*make)(struct eng_str bytes, void *arg), void *arg, void (*destroy)(void *form));
/*
 * Sets a text (copied), or deletes it, for good: answered when every loop has it so. expected: the
 * generation that it is to take the place of, 0: none, or ENG_TEXT_ANY.
 *   -EIDRM    the bucket was deleted             -ESTALE   another generation is there
 *   -EDQUOT   there would be more than 1 GiB     -ENOENT   there is none to be deleted
 *   -EINVAL   empty, too long, or no such kind   errors of drives as for eng_bucket_rules_set()
 */
void eng_text_set(struct eng_store *store, uint64_t bucket, unsigned kind, uint64_t expected, struct eng_str bytes, eng_done done,
                  void *arg);
void eng_text_delete(struct eng_store *store, uint64_t bucket, unsigned kind, uint64_t expected, eng_done done, void *arg);

/* ---- entries of the store -------------------------------------------------------------------- */

/*
 * A text of a kind from ENG_ENTRY_KINDS to ENG_TEXTS_KINDS - 1 belongs to no bucket: it is an entry of
 * the store, and `bucket` in the calls above is any number of the caller's. All else is as for texts of
 * buckets; -ENOSPC: there are ENG_ENTRIES_MAX of them. A look-up costs the same however many there are.
 */
#define ENG_ENTRY_KINDS 128u
#define ENG_TEXTS_KINDS 256u
#define ENG_ENTRIES_MAX (1u << 20)

/*
 * changed() is called on each loop (its number) once that loop finds an entry changed, and before the
 * change is answered. Set before the store is started. What recovery reads is not told.
 */
void eng_entries_watch(struct eng_store *store, void (*changed)(void *arg, unsigned loop, uint64_t id, unsigned kind),
                       void *arg);
/*
 * Goes through all entries, some `most` of them in one call, in no order. *position: 0 at first, then left
 * alone; false: that were all. An entry that is set meanwhile may be left out, so watch first. text is
 * NULL where no drive has it whole. On a loop, once the store is open.
 */
bool eng_entries_walk(struct eng_store *store, uint32_t *position, unsigned most,
                      void (*each)(void *arg, uint64_t id, unsigned kind, struct eng_text *text), void *arg);

/* Of rows: the same where they are the same. */
struct eng_rows_digest {
        uint64_t rows, sum[2];
};
/*
 * All entries as the loop of the coordinator, which calls, was last told of them; but for those of pools of buckets, by which nobody
 * decides about others.
 */
void eng_entries_seen(struct eng_store *store, struct eng_rows_digest *out);
/*
 * As eng_text_set(), or, where bytes.data is NULL, eng_text_delete(): of an entry, by somebody who has decided by what
 * other entries say. -ERESTART: those are not as in `seen` any more, since another process has changed some, and nothing
 * was done. That is to be decided again, a few milliseconds later.
 */
void eng_entry_set(struct eng_store *store, uint64_t id, unsigned kind, uint64_t expected, const struct eng_rows_digest *seen, struct eng_str bytes,
                   eng_done done, void *arg);

/* ---- pools of buckets ------------------------------------------------------------------------ */

/*
 * A cluster of several pools keeps in one of them, the first, which buckets are in which other one (docs/design/pools.md): an
 * entry of kind ENG_ENTRY_BUCKET_POOL for each name. An entry is never changed, nor deleted, also when the bucket is. No
 * store has a bucket and an entry of one name.
 */
#define ENG_ENTRY_BUCKET_POOL (ENG_TEXTS_KINDS - 1)
#define ENG_POOLS_MAX 64u             /* numbers are 1 .. ENG_POOLS_MAX - 1 */
#define ENG_BUCKET_POOLS_MAX (ENG_ENTRIES_MAX / 2)

/*
 * The pool that a bucket of this name is in, or is to be in. From this loop's own copy: immediate. -ENOENT: nothing was
 * said; -EHOSTDOWN before recovery; -EIO: no drive has the entry whole.
 */
int eng_bucket_pool_get(struct eng_store *store, struct eng_str name, unsigned *pool);
/*
 * Says so, for good: answered when every loop, and every home, has it.
 *   -EEXIST   there is a bucket of that name here
 *   -ESTALE   it was said already: eng_bucket_pool_get() knows, or will soon
 *   -ENOTUNIQ the entry would be another name's: a bucket of this one can only be made here
 *   -ENOSPC   there are ENG_BUCKET_POOLS_MAX, or ENG_ENTRIES_MAX of all, -EDQUOT as for eng_text_set(): likewise
 *   -EIO      an entry of this number is there, and cannot be read: its name, which may be this one, is nobody's
 *   -EINVAL   no such name or pool        other errors of eng_text_set()
 */
void eng_bucket_pool_set(struct eng_store *store, struct eng_str name, unsigned pool, eng_done done, void *arg);
/* Any thread. Pools that entries name: a bit each. */
uint64_t eng_bucket_pools(const struct eng_store *store);

/* ---- the lock clock -------------------------------------------------------------------------- */

/*
 * The time by which retention ends, ms since 1970: it never goes back, and not ahead faster than time
 * passes, whatever the wall clock is set to (docs/design/bucket-rules.md). A retention that begins now
 * counts from the later of it and the wall clock. Any thread, like the next.
 */
int64_t eng_lock_now(struct eng_store *store);
void eng_lock_read(struct eng_store *store, struct eng_lock_state *out);
/*
 * The operator's word that the wall clock is right: the lock clock shows it from now on, durably, also
 * where it was ahead, and has its full budget. wall_ms: the time that the operator means. Any loop.
 *   -ESTALE   the wall clock is more than a minute from it
 *   -ENODATA  no bucket has or had versions: there is no lock clock to be set
 *   -EINVAL   it is before 1970      errors of the store and of drives as for eng_bucket_rules_set()
 */
void eng_lock_confirm(struct eng_store *store, int64_t wall_ms, eng_done done, void *arg);
/*
 * How far it has come is written to the drives, as is done every ten minutes: for a clean end, while the
 * loops run. 0 also where there can be no lock.
 */
void eng_lock_keep(struct eng_store *store, eng_done done, void *arg);

/* ---- objects --------------------------------------------------------------------------------- */

/*
 * Identifies a version of an object. number 0: the null version, which has no other identity.
 * Numbers of one key's versions ascend in the order in which these were made; a number alone finds
 * nothing.
 */
#define ENG_VERSION_RANDOM 16u
struct eng_version {
        uint64_t number;
        uint8_t random[ENG_VERSION_RANDOM];
};

/* What an object or version is given beside its bytes and attrs. */
struct eng_extras {
        struct eng_str tags;            /* encoded as FMT_FIELD_TAGS; empty: none */
        struct eng_str acl;             /* the caller's own bytes: owner and grants; empty: none */
        struct eng_retention retention; /* mode NONE: the bucket's default */
        bool hold;                      /* legal hold */
        bool no_hold;                   /* there is none, and it is to be known that somebody said so */
};
#define ENG_TAGS_MAX (16u << 10)
#define ENG_ACL_MAX (4u << 10)

/* What is known of one stored thing. Memory belongs to the call that gives it. */
struct eng_object {
        uint64_t size;
        int64_t mtime_ms;
        uint8_t id[ENG_ID_LEN];         /* unique per write */
        uint8_t etag[16];               /* MD5, or MD5 of MD5s */
        uint16_t etag_parts;            /* 0: "md5"; else "md5-N" */
        uint32_t part_count;            /* parts it was completed from, 0 for a simple PUT */
        bool inline_value;              /* its bytes lie in its log record: reading them takes no buffers of the loop */
        uint8_t upload_id[ENG_ID_LEN];  /* of the multipart upload that made it, else zeroes */
        uint8_t tag[8];                 /* caller's own small field, given in listings too (e.g. checksum kind) */
        struct eng_version version;     /* number 0 for a plain object, too, which is the null version of its key */
        bool marker;                    /* a delete marker: there are no bytes */
        bool hold;                      /* legal hold */
        bool hold_known;                /* one was set at some time, on or off */
        struct eng_retention retention;
        struct eng_str attrs;
        struct eng_str tags;            /* encoded as FMT_FIELD_TAGS; empty: none */
        struct eng_str acl;             /* as eng_extras has it */
};

/*
 * Conditions on the present object of a key, checked atomically with the change by the key's
 * primary.
 */
struct eng_condition {
        bool if_absent;                 /* If-None-Match: * -> -EEXIST */
        bool if_etag;                   /* If-Match: etag -> -ESTALE, or -ENOENT if there is none */
        bool if_present;                /* If-Match: * -> -ENOENT */
        uint8_t etag[16];
        uint16_t etag_parts;
        bool if_mtime, if_size;         /* DeleteObject's x-amz-if-match-last-modified-time / -size -> -ESTALE */
        int64_t mtime_s;                /* seconds */
        uint64_t size;
};

/* -- reading -- */

struct eng_get; /* one open object: pins its bytes until closed. Owner: home loop */

typedef void (*eng_get_opened)(void *arg, int rv, struct eng_get *get);
/*
 * Looks a key up: its newest version, or the one given. On 0 the caller owns get and must close it.
 * A delete marker is opened like a version: eng_get_object() says that it is one.
 */
void eng_get_open(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version, eng_get_opened opened,
                  void *arg);
/*
 * The same for the object's metadata alone: no byte of it is read, and eng_get_start() refuses with
 * -EINVAL.
 */
void eng_get_metadata(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version, eng_get_opened opened,
                      void *arg);
const struct eng_object *eng_get_object(const struct eng_get *get);
/*
 * Part i (0-based, < part_count): its number, offset and size in the object, and stored attrs.
 * -ENOENT beyond.
 */
struct eng_part_view {
        unsigned number;
        uint64_t offset, size;
        uint8_t etag[16];
        struct eng_str attrs;
};
int eng_get_part(const struct eng_get *get, unsigned i, struct eng_part_view *out);

/*
 * Reading a range: start once (again after the last byte, for another range), then take spans in
 * order. Every byte was verified against its checksum (I5). eng_get_next: 0 and a span of at least
 * 1 byte, which stays valid until the next call on this get; -EAGAIN: none yet, wake(arg) will be
 * called once when it is worth asking again (also on error); -ENODATA: range done; else the error.
 * Never wakes from inside a call. Start may wait for buffers: the first eng_get_next just says
 * -EAGAIN. It answers ENG_GET_BUSY when the waiting line is full, -ENOMEM, -EINVAL for what is not
 * in the object.
 */
#define ENG_GET_BUSY (-EBUSY)
int eng_get_start(struct eng_get *get, uint64_t offset, uint64_t len, void (*wake)(void *arg), void *arg);
int eng_get_next(struct eng_get *get, const uint8_t **data, size_t *len);
/*
 * CRC32C of exactly the bytes handed out since start, made of the checksums they were verified by,
 * so that it tells of what happens to a byte afterwards; computed only if eng_get_sum() was called
 * before it.
 */
void eng_get_sum(struct eng_get *get);
uint32_t eng_get_crc32c(const struct eng_get *get);
/*
 * Behind eng_get_start(): keeps the bytes of the range where they are until eng_kept_release(),
 * also after eng_get_close(). eng_get_next() gives all of them as one span then. NULL: these can't
 * stay; only those of small objects can, which are in memory anyway. Release: any thread; NULL is
 * allowed.
 */
void *eng_get_keep(struct eng_get *get);
void eng_kept_release(void *kept);
/*
 * For who hands spans on without copying them. After eng_get_hold(), called before eng_get_start(),
 * each span stays as it is until eng_get_let_go() is called with its first byte, once for each, in
 * any order; the engine reads on in the buffers that are left, and eng_get_next() is worth asking
 * again behind each eng_get_let_go(). All must be let go before the next eng_get_start() and before
 * eng_get_close() (I7).
 */
void eng_get_hold(struct eng_get *get);
void eng_get_let_go(struct eng_get *get, const uint8_t *data);
/* Any state, also in the middle of reading; frees when the last I/O has come back (I7). */
void eng_get_close(struct eng_get *get);

/* -- writing -- */

struct eng_put; /* one upload of an object or part in progress. Owner: home loop */

struct eng_put_params {
        uint64_t bucket;
        struct eng_str key;             /* copied */
        bool is_part;                   /* a part of upload_id, with part_number */
        uint8_t upload_id[ENG_ID_LEN];
        unsigned part_number;           /* 1..10,000 */
        uint64_t size;                  /* exact size, or ENG_SIZE_UNKNOWN */
        bool md5;                       /* eng_put_md5() will be called */
        void (*wake)(void *arg);        /* room again after eng_put_write took less than offered; or the put has failed */
        void *arg;
};
#define ENG_SIZE_UNKNOWN UINT64_MAX

/*
 * The most bytes of an upload that lie in memory of its own, before it has buffers of the loop. Any
 * thread.
 */
uint64_t eng_put_held_max(const struct eng_store *store);
/* Immediate. -EAGAIN when too many wait for buffers; -ENOSPC, -EROFS, -EHOSTDOWN, -ENOMEM. */
int eng_put_open(struct eng_store *store, const struct eng_put_params *params, struct eng_put **out);
/*
 * Takes up to len bytes (copied). Returns how many were taken (0..len; fewer: wait for wake), or a
 * negative errno that ends the put (still to be aborted by the caller).
 */
ssize_t eng_put_write(struct eng_put *put, const void *data, size_t len);
/*
 * Instead of eng_put_write(), for who has bytes brought to where they are to lie (RDMA READ), and
 * knows params.size: lends the place of the next ones, in a slot of the loop. Returns its length
 * (at most LP_SLOT_UNIT; not beyond params.size), 0: none now (ask again behind eng_put_filled(),
 * or when wake was called), or a negative errno that ends the put. Several may be lent at a time.
 * Until eng_put_filled(), which says that the bytes are there, they are the caller's to look at;
 * places are given back in the order in which they were lent, all of them before the commit.
 * eng_put_abort() takes the others back: nobody may write there any more (I7).
 */
ssize_t eng_put_buffer(struct eng_put *put, void **place);
void eng_put_filled(struct eng_put *put, void *place);
/*
 * When nothing more is to be written. False: wake will be called. To wait for it saves time:
 * uploads are hashed side by side.
 */
bool eng_put_md5_ready(struct eng_put *put);
/* Once it was true, or where nothing was written: MD5 of all that was. */
void eng_put_md5(struct eng_put *put, uint8_t out[16]);

struct eng_put_commit {
        uint8_t etag[16];               /* MD5 of the bytes */
        uint8_t tag[8];
        const void *attrs;              /* copied; at most ENG_ATTRS_MAX */
        size_t attrs_len;
        struct eng_condition condition;
        int64_t mtime_ms;               /* 0: now */
        struct eng_extras extras;       /* copied; not of a part. Retention and hold: -ENOLCK where the bucket has no object lock */
};
/*
 * done's object is valid during the callback: what was stored (mtime, id). After the callback the
 * put is gone. Once called, the put can't be aborted.
 */
typedef void (*eng_put_done)(void *arg, int rv, const struct eng_object *object);
void eng_put_commit(struct eng_put *put, const struct eng_put_commit *commit, eng_put_done done, void *arg);
/* Leaves nothing visible. Frees put when its I/O has come back. Not after commit. */
void eng_put_abort(struct eng_put *put);

struct eng_deleted {
        bool existed;                   /* there was an object, or that version (S3 answers 204 either way) */
        bool versioned;                 /* the bucket's versions have ids, or had */
        bool marker;                    /* version is a delete marker: made, or deleted */
        struct eng_version version;     /* that was made, or deleted */
};
typedef void (*eng_delete_done)(void *arg, int rv, const struct eng_deleted *deleted);
/* Where a version must be among those of its key, or it is not deleted. */
enum eng_place {
        ENG_PLACE_ANY,
        ENG_PLACE_NEWEST,
        ENG_PLACE_OLDER,                /* there is a newer one */
        ENG_PLACE_ALONE                 /* there is no other */
};
struct eng_delete_params {
        uint64_t bucket;
        struct eng_str key;             /* copied */
        const struct eng_version *version; /* NULL: the key's object; a bucket with versioning then gets a delete marker */
        struct eng_condition condition; /* on the newest version; on the given one, if there is one */
        enum eng_place place;           /* of the given version: -ESTALE */
        /*
         * The version is given for its place and condition alone, NEWEST: what is deleted is the key's
         * object, as if none were given.
         */
        bool object;
        bool bypass_governance;
};
/* -EACCES: the version is protected by retention or a legal hold. */
void eng_delete(struct eng_store *store, const struct eng_delete_params *params, eng_delete_done done, void *arg);

/* A change of what a version has beside its bytes. Its mtime stays. */
struct eng_extras_change {
        bool set_tags, set_retention, set_hold, set_acl;
        bool if_id;                     /* only of this write: -ESTALE */
        bool if_tags;                   /* only while it has these tags: -ESTALE */
        uint8_t id[ENG_ID_LEN];
        struct eng_str tags_seen;       /* as eng_get_object() gave them */
        struct eng_extras extras;       /* retention NONE removes it; so does an empty acl */
        bool bypass_governance;
};
/*
 * Of the newest version (NULL), or the given one. -ENODATA: it is a delete marker; -ENOLCK: retention
 * or hold without object lock; -EACCES: retention would be shortened or weakened.
 */
void eng_extras_set(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_version *version,
                    const struct eng_extras_change *change, eng_put_done done, void *arg);

/*
 * Rewrites attrs, tag and mtime of a plain object in place, its bytes untouched (CopyObject onto
 * itself). -EOPNOTSUPP: a new version has to be written instead.
 */
void eng_update(struct eng_store *store, uint64_t bucket, struct eng_str key, const struct eng_condition *condition,
                const void *attrs, size_t attrs_len, const uint8_t tag[8], eng_put_done done, void *arg);

/* -- listing -- */

struct eng_list_params {
        uint64_t bucket;
        struct eng_str prefix, delimiter; /* copied; may be empty */
        struct eng_str after;             /* names > after (exclusive); with after_inclusive: >= */
        bool after_inclusive;
        bool want_attrs;
        bool hide_markers;                /* keys whose newest version is a delete marker are left out, as clients see a bucket */
        unsigned max;                     /* entries + common prefixes, 1..1,001 */
};

struct eng_list_entry {
        struct eng_str name;              /* key; of a common prefix: the prefix with its delimiter */
        bool is_prefix;
        struct eng_object object;         /* without want_attrs: size, mtime_ms, etag, etag_parts, tag, marker and hold alone */
};
/* entries in bytewise order, valid during the callback; more: there are further ones. */
typedef void (*eng_list_done)(void *arg, int rv, const struct eng_list_entry *entries, unsigned count, bool more);
/*
 * Without hide_markers it says what there is: of a bucket (no prefix, delimiter, or after) without a
 * single object it lists keys of versions, should there be some that no object stands for.
 *
 * A common prefix that is <= after (or equal to it) is not given again: a caller that continues
 * after a common prefix passes that prefix as after and gets neither it nor what lies under it.
 */
void eng_list(struct eng_store *store, const struct eng_list_params *params, eng_list_done done, void *arg);

struct eng_version_entry {
        struct eng_str key;               /* of a common prefix: the prefix with its delimiter */
        bool is_prefix;
        bool latest;                      /* the newest version of its key */
        struct eng_object object;         /* without attrs and tags */
};
typedef void (*eng_versions_done)(void *arg, int rv, const struct eng_version_entry *entries, unsigned count, bool more);
/*
 * Versions and delete markers, in order of key, the newest of a key first. after_version continues
 * inside the key named by params->after; NULL: behind that key. If the version with the id null was
 * given and is gone, the key's versions are listed from the first one on.
 */
void eng_version_list(struct eng_store *store, const struct eng_list_params *params, const struct eng_version *after_version,
                      eng_versions_done done, void *arg);

/* -- multipart -- */

typedef void (*eng_upload_done)(void *arg, int rv, const uint8_t upload_id[ENG_ID_LEN]);
struct eng_upload_params {
        uint64_t bucket;
        struct eng_str key;
        const void *attrs;
        size_t attrs_len;
        uint8_t tag[8];
        struct eng_extras extras;       /* that the completed object will have. -ENOLCK as for a put */
};
/* All of params is copied. */
void eng_upload_create(struct eng_store *store, const struct eng_upload_params *params, eng_upload_done done, void *arg);
/* The upload's attrs, tag, extras and mtime. object is valid during the callback. */
typedef void (*eng_object_done)(void *arg, int rv, const struct eng_object *object);
void eng_upload_get(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                    eng_object_done done, void *arg);
void eng_upload_abort(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                      eng_done done, void *arg);

struct eng_upload_entry {
        struct eng_str key;
        bool is_prefix;
        uint8_t upload_id[ENG_ID_LEN];
        struct eng_object object;         /* as above */
};
typedef void (*eng_uploads_done)(void *arg, int rv, const struct eng_upload_entry *entries, unsigned count, bool more);
/*
 * Order: key, then creation. after_upload (NULL: none) continues inside the key named by
 * params->after.
 */
void eng_upload_list(struct eng_store *store, const struct eng_list_params *params, const uint8_t *after_upload,
                     eng_uploads_done done, void *arg);

struct eng_part_entry {
        unsigned number;
        struct eng_object object;       /* size, etag, mtime, tag, attrs */
};
typedef void (*eng_parts_done)(void *arg, int rv, const struct eng_part_entry *parts, unsigned count, bool more);
/*
 * Parts with number > after, at most max (<= 10,000), with their attrs. -ENOENT if there is no such
 * upload.
 */
void eng_part_list(struct eng_store *store, uint64_t bucket, struct eng_str key, const uint8_t upload_id[ENG_ID_LEN],
                   unsigned after, unsigned max, eng_parts_done done, void *arg);

struct eng_complete_part {
        unsigned number;
        uint8_t id[ENG_ID_LEN];         /* object id of the part as eng_part_list gave it: pins what the caller checked */
};
struct eng_complete_params {
        uint64_t bucket;
        struct eng_str key;
        uint8_t upload_id[ENG_ID_LEN];
        const struct eng_complete_part *parts; /* ascending numbers; copied */
        unsigned count;
        struct eng_put_commit commit;   /* etag: MD5 of MD5s; the count of parts becomes etag_parts */
};
/*
 * Makes the object of the named parts: one record, no data copied; what else the upload held is
 * dead by it. -ENOENT: no such upload and the key's object was not made by it (if it was, of the
 * same parts: 0 with that object, so a repeated Complete gets the same answer). -EINVAL: a named
 * part is not there with that id. -E2BIG: the record would be longer than one may be, and nothing
 * has changed: 10,000 parts of 5 TiB together fit with up to 20 shards, fewer where parts or shards
 * are more or their attrs longer.
 */
void eng_complete(struct eng_store *store, const struct eng_complete_params *params, eng_put_done done, void *arg);

/* ---- drives that come while the store serves ------------------------------------------------- */

/*
 * Takes a drive in for a slot whose drive is not in use. replace false: the slot's own drive, which
 * failed or was missing; path: where it is now (NULL: where it was). replace true: an empty folder
 * is formatted and takes the slot's place for good; what the lost drive held comes from the others.
 * Any thread. -ENAMETOOLONG, -ENOMEM; else 0 and the number under which eng_hot_add_read() tells
 * how it went.
 */
int eng_drive_hot_add(struct eng_store *store, unsigned slot, const char *path, bool replace, uint64_t *number);
/*
 * Formats an empty folder as one more drive of the store. The slot it gets stands in the report. As
 * above.
 */
int eng_drive_add(struct eng_store *store, const char *path, uint64_t *number);
/*
 * Removes a drive from the store for good. The report says whether that was begun; then it is
 * leaving until no object needs it any more, and then REMOVED. Any thread. -ENOMEM; else 0.
 */
int eng_drive_remove(struct eng_store *store, unsigned slot, uint64_t *number);

/* A folder of a cluster's node: announced, and neither formatted nor known to the pool. */
struct eng_new_drive {
        uint8_t id[ENG_ID_LEN];
        struct eng_site site;
};
/*
 * Of a cluster's store: these drives become slots of the pool, or one of them takes the place of a lost drive of
 * the same node (docs/design/growing.md). The epoch comes first: it names them while they are out, then their nodes format
 * what it names, and the store opens and catches them up. Groups come to new slots when all of them have caught up. The
 * report ends when the epoch is in force, and has the first slot. Any thread. -EINVAL, -ENOMEM; else 0.
 */
int eng_drives_add(struct eng_store *store, const struct eng_new_drive *drives, unsigned count, uint64_t *number);
int eng_drive_exchange(struct eng_store *store, unsigned slot, const struct eng_new_drive *drive, uint64_t *number);
/* As eng_drive_remove(), several at once: none of their data goes to another of them. */
int eng_drives_remove(struct eng_store *store, uint64_t slots, uint64_t *number);

struct eng_hot_add_report {
        uint64_t number;
        unsigned slot;
        bool replace, running;
        /*
         * Once it has ended: 0, the drive is in its slot and about to be brought up to date (see
         * health). -EINVAL no such slot; -EEXIST it is in use; -EROFS too few drives are in; -EBUSY
         * another is on its way in, or the drive's last operations have not come back; -ENOENT,
         * -ENOTEMPTY the folder; -EXDEV another history; -EMFILE too many since the start; others
         * of the folder.
         */
        int rv;
        char text[200];            /* why not */
};
/* Any thread. -ENOENT: no such number, or many came after it. */
int eng_hot_add_read(struct eng_store *store, uint64_t number, struct eng_hot_add_report *out);

/* ---- going on without drives ----------------------------------------------------------------- */

/*
 * What it would mean for a store that waits for drives, or since its start only reads for want of
 * them, to go on without them. Metadata is kept in `groups` by the hash of bucket and key; shards
 * are placed in as many.
 */
struct eng_outlook {
        uint64_t missed;           /* the drives it waits for, a bit for each slot; 0: none */
        uint64_t open;             /* drives that are here, stale ones included */
        uint64_t epoch;            /* the newest that a drive here knows: those missed were in use in it, or in the one before */
        unsigned left, least;      /* drives that would go on; needed for any object with shards to be read */
        unsigned groups;
        unsigned doubtful;         /* groups of which those missed alone know the last changes */
        unsigned lost, alone;      /* groups of which no copy is here; of which one is, where there should be more: they take no changes */
        unsigned unreadable;       /* groups whose shards would be too few */
        bool buckets_doubtful;     /* so is the list of buckets */
        bool writable;             /* they would be enough for changes */
        /*
         * The store is open, and serves without its lost groups (docs/design/lost-groups.md): missed are the slots that
         * were the last to have them and do not come by themselves. Some of them may be named.
         */
        bool losing;
        uint64_t doubted;          /* of missed: they are here, and lost writes. They are believed then, not given up */
        unsigned nobody;           /* lost groups of which no slot that was not given up knows anything */
        unsigned waits[ENG_DRIVES_MAX], last[ENG_DRIVES_MAX]; /* lost groups that wait for this slot; of which no other knows anything */
        char refusal[200];         /* why it can't go on without those missed, else "" */
};
/* Any thread; at most a second old. */
void eng_outlook_read(struct eng_store *store, struct eng_outlook *out);
/* Why these slots can't be gone on without: one line into text, or "" when they can. */
void eng_outlook_refuse(const struct eng_outlook *outlook, uint64_t slots, char text[200]);

/*
 * Goes on without the drives of these slots for good, which must be exactly those missed, or some of them where it
 * serves without lost groups: a new epoch of those that are here, what they hold is the truth, and the drives given up are no drives
 * of this store any more. By the operator's word alone. Any thread. -ENOMEM, -EALREADY (one is
 * under way); else 0 and the number under which eng_force_read() tells how it went.
 */
int eng_force(struct eng_store *store, uint64_t slots, uint64_t *number);

struct eng_force_report {
        uint64_t number;
        bool running;
        int rv;                    /* once it has ended: 0, the store is open; -EINVAL it was refused; -EHOSTDOWN it waits again */
        char text[200];            /* why not */
};
/* Any thread. -ENOENT: no such number, or one came after it. */
int eng_force_read(struct eng_store *store, uint64_t number, struct eng_force_report *out);

/* ---- verification ---------------------------------------------------------------------------- */

struct eng_verify_report {
        uint64_t objects, bytes, shards, damaged_shards, repaired_shards, unreadable_objects, missing_shards;
        uint64_t unread_shards;    /* of which nothing is known, copies of names included: their drives could not look */
        uint64_t differing_names, repaired_names; /* of which members had different copies, or some none; of these, those made the same */
        bool running;
        int64_t started_ms, ended_ms;
        struct eng_digest digest[ENG_DRIVES_MAX]; /* of the good shards found on each drive */
};
/*
 * Starts reading everything: all copies of all names, and all shards of all objects, one name at a
 * time. -EALREADY if one runs. Any loop.
 */
int eng_verify_start(struct eng_store *store);
void eng_verify_read(struct eng_store *store, struct eng_verify_report *out); /* any thread */

/*
 * A scrub reads each drive's data in the order in which it lies there, once in
 * options.scrub_period_ms (eng_drive_info.scrub); and beside it walks all names every
 * options.scrub_interval_ms: it compares their copies, reads small objects, and asks drives for the
 * shards they should hold. What is damaged or missing is written anew. Both remember over restarts
 * where they were. The reports are of the walk. now: under way (running), or to be gone on with
 * when the store opens; last: the last one that came to its end (ended_ms 0: none). Any thread.
 */
void eng_scrub_read(struct eng_store *store, struct eng_verify_report *now, struct eng_verify_report *last);
/* Begins both now, where they are not under way. Any thread. -EOPNOTSUPP: the rate is 0. */
int eng_scrub_start(struct eng_store *store);

/* ---- traces (loop_trace.h) ------------------------------------------------------------------- */

/*
 * Any thread. Writes the name of what word 0 or 1 of such a record stands for; false: it is a
 * number, and out is as it was.
 */
bool eng_trace_word(enum lp_trace_event event, unsigned word, uint64_t value, char out[LP_TRACE_WORD]);

#endif
