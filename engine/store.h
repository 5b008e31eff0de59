/*
 * store.h - the inside of the store: what the loops own and how the files of engine/ call each other.
 *
 *   home loop (a request)          primary loop (of the key's PG)              drives (owner loops)
 *   eng_put_*  ---- frames --------------------------------------------------> WRITE, SYNC
 *      | eng_txn ----------------> lock key, check conditions, number it ----> APPEND to every member
 *      |                            all stable: COMMIT ----------------------> visible
 *      <---- result --------------- unlock key
 *   eng_get_*  ---- lookup ------> LOOKUP one member, pin the object id
 *      |  <---- value ------------
 *      `---------- units -----------------------------------------------------> READ
 *   eng_list   ---- smallest set of drives that covers all PGs --------------> SCAN, merged at home
 *
 * A PG belongs to one loop for the life of the process (primary). Configuration (buckets, epochs) belongs to loop 0, the coordinator;
 * every loop has its own copy, changed by message.
 */
#ifndef MILLRACE_ENGINE_STORE_H
#define MILLRACE_ENGINE_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <bsd/sys/queue.h>
#include <uthash.h>

#include "drive.h"
#include "ec.h"
#include "engine.h"
#include "format.h"
#include "hasher.h"
#include "loop.h"
#include "pacer.h"

#define ENG_PG_COUNT 4096u             /* of new stores; the number of the CONFIG PG is the count itself */
#define ENG_TXNS_PER_LOOP 1024u        /* changes in flight per primary loop; beyond: -EAGAIN (I9) */
#define ENG_KEY_WAITERS 64u            /* changes waiting for one key; beyond: -EAGAIN */
#define ENG_HEAL_RATE (64ull << 20)     /* the least where options.heal_rate says none */
#define ENG_PARKED_MAX 256u            /* changes of one loop waiting for a bucket that is being closed; beyond: -EAGAIN */

#define ENG_ATTACH_REPORTS 16u         /* remembered */
#define ENG_LOST_SAID 64u /* of objects found to be lost the last so many: the log says them */
#define ENG_ATTACH_MAX 64u             /* drives opened while the store serves, from one start to the next (I9): what they took the place of stays in memory */

/* Members that must say that a name is not there before something that is found damaged, or was
 * written in vain, goes for it. */
#define ENG_ABSENT_SURE 2u

typedef uint64_t eng_mask;             /* a set of drive slots */

static inline eng_mask eng_bit(unsigned slot)
{
        return (eng_mask)1 << slot;
}
static inline eng_mask eng_all_slots(unsigned count)
{
        return count == 64 ? ~(eng_mask)0 : eng_bit(count) - 1;
}

/* ---- placement (place.c): functions over values --------------------------------------------------- */

/* Of a bucket's id and a key: what frames carry, and what the key's PG follows from. One key in 2^64 has 0, which a frame takes for 'not known'. */
uint64_t eng_hash_of_key(uint64_t bucket, const void *key, size_t len);
uint32_t eng_pg_of_hash(uint32_t pg_count, uint64_t key_hash);
/* PG of everything that belongs to one key of one bucket. */
uint32_t eng_pg_of_key(uint32_t pg_count, uint64_t bucket, const void *key, size_t len);
/* PG that places one run of an object id's stripes. */
uint32_t eng_pg_of_run(uint32_t pg_count, const uint8_t id[FMT_ID], uint32_t run);
/* All drives in the order in which they are preferred for a PG (rendezvous hashing). order has count entries. */
void eng_place_order(uint32_t pg, const uint8_t (*drive_ids)[FMT_ID], unsigned count, uint16_t *order);
/* Drives for the shards of a run: the first k+m of order that are in the mask; where there are fewer, the last shards are ENG_NO_DRIVE. Returns how
 * many shards have a drive. */
unsigned eng_place_shards(const uint16_t *order, unsigned count, eng_mask in, unsigned shards, uint16_t *out);
bool eng_is_majority(eng_mask part, eng_mask all);
/*
 * Whether an epoch of these members takes clients' changes. At most m of all drives are left out: were it more, some group could be left without a
 * current replica, and nobody could bring those that left up to date again. Only a forced epoch (force.c) may be of fewer.
 */
bool eng_epoch_can_write(eng_mask in, unsigned drives, unsigned k, unsigned m);
/* Whether the drives of `next` may go on alone as successors of epoch members `prev` (see docs/design/membership.md): always where nobody leaves. */
bool eng_epoch_can_form(eng_mask next, eng_mask prev, unsigned drives, unsigned k, unsigned m);

/* ---- maps (placement.c) ----------------------------------------------------------------------------- */

/* Slots of a group's metadata: before and after the change under way; the same if there is none. */
struct eng_group {
        eng_mask before, after;
};

/* Constant once made. Freed when the store closes. */
struct eng_placement {
        unsigned drives;               /* slots there were when it was made */
        eng_mask all;                  /* those in use: without gone */
        eng_mask adding, leaving;      /* the drive that is being added or removed */
        eng_mask gone;                 /* removed for good */
        uint16_t *orders;              /* pg_count x drives: placement order of each PG, all slots */
        struct eng_group *groups;      /* pg_count + 1 */
        eng_mask gaining, losing;      /* drives that come to some group by the change; drives that go from one */
        struct eng_placement *next;    /* the one before it */
};
struct eng_store;
/* Of the slots there are now. NULL: no memory. */
struct eng_placement *eng_placement_new(const struct eng_store *store, eng_mask adding, eng_mask leaving, eng_mask gone);
void eng_placement_free(struct eng_placement *map);
/* All slots in the order in which a PG prefers them. */
static inline const uint16_t *eng_placement_order(const struct eng_placement *map, uint32_t pg)
{
        return map->orders + (size_t)pg * map->drives;
}
/* Drives that are to keep nothing: shards named on them are to be named elsewhere. */
static inline eng_mask eng_placement_homeless(const struct eng_placement *map)
{
        return map->leaving | map->gone;
}
/* The most preferred of the group's members that are up and speak for it, or -1. */
int eng_placement_first(const struct eng_placement *map, uint32_t pg, eng_mask up);

/* ---- views ------------------------------------------------------------------------------------------ */

/* What a loop believes about the membership. Copied to every loop by message. */
struct eng_view {
        uint64_t epoch;                /* in force */
        const struct eng_placement *map; /* its placement */
        eng_mask in;                   /* members of the epoch */
        eng_mask joining;              /* written to as members are, but nothing is asked of them: they catch up (join.c) */
        eng_mask up;                   /* drives that answer: reads use in & up */
        bool ready;                    /* recovery is over */
        bool in_doubt;                 /* some group is: no listing can be complete */
        bool writable;                 /* the write quorum is held */
        bool paused;                   /* an epoch change is under way: appends wait */
        uint64_t since[ENG_DRIVES_MAX]; /* first epoch in which the slot's drive, as it is open now, can have had a part; 0: opened at the start */
};

struct eng_txn;
TAILQ_HEAD(eng_txn_list, eng_txn);

struct eng_config_bucket {             /* owner: the loop whose copy it is */
        struct eng_bucket bucket;
        bool closing;                  /* being deleted: changes wait until it is gone, or open again */
        struct eng_txn_list parked;    /* those; their lock_link */
        unsigned parked_count;
        UT_hash_handle hh;             /* by bucket.id */
};

/* ---- placement groups -------------------------------------------------------------------------------- */

/* owner: its primary loop */
struct eng_pg {
        uint32_t number;
        uint64_t next_seq;
        uint64_t committed;
        bool in_doubt;                 /* opened for reading without members that alone can tell whether its last records count. Constant once ready */
        struct eng_txn_list inflight;  /* appended, in seq order */
};

/* One key with changes under way; they run one after the other. owner: primary loop */
struct eng_key_lock {
        UT_hash_handle hh;
        struct eng_txn_list waiting;   /* the head holds the lock */
        unsigned count;
        uint16_t name_len;
        uint8_t name[];                /* pg-key: bucket id and key */
};

struct eng_pin {                       /* owner: primary loop of the PG of the name it was looked up by */
        UT_hash_handle hh;
        uint8_t id[FMT_ID];
        unsigned count;
};

/* ---- per loop ------------------------------------------------------------------------------------------ */

struct eng_reap;
STAILQ_HEAD(eng_reap_list, eng_reap);
TAILQ_HEAD(eng_puts, eng_put);
TAILQ_HEAD(eng_gets, eng_get);
TAILQ_HEAD(eng_lookups, eng_lookup);

/* owner: the loop */
struct eng_loop {
        struct eng_store *store;
        struct lp_loop *loop;
        unsigned index;
        struct eng_view view;
        uint64_t id_counter;
        struct eng_config_bucket **buckets;     /* sorted by name */
        unsigned bucket_count, bucket_cap;
        struct eng_config_bucket *buckets_by_id; /* uthash */
        struct eng_key_lock *locks;        /* uthash */
        struct eng_pin *pins;              /* uthash */
        unsigned txns;
        uint64_t append_bytes;             /* of bodies in flight */
        struct eng_txn_list appended;      /* all txns with appends or commits in flight, oldest first */
        uint64_t append_count;             /* begun: the number of the last */
        struct eng_lookups lookups;        /* of readers, under way at this primary; oldest first */
        TAILQ_HEAD(, eng_merge) retrying;  /* merges that wait for their timer */
        bool merges_stopped;               /* at the end: none is tried again */
        uint64_t lookup_count;             /* begun: the number of the last */
        struct lp_msg *quiet;              /* to be posted to the coordinator when no append to a drive that is up is in flight */
        struct eng_reap_list reaps;        /* discards that wait for those who may still read what is dead */
        struct eng_reap *reaps_by_id;      /* uthash: those of reaps */
        struct eng_reap_list early_reaps;  /* reports that came before the store was ready */
        unsigned reap_count;
        uint64_t reap_bytes;               /* of their values */
        struct lp_timer reap_timer;
        struct eng_puts puts;              /* under way, oldest first */
        struct eng_hasher hasher;          /* of small uploads */
        struct eng_hasher *bulk_hasher;    /* of others; never changes */
        struct eng_gets gets;              /* open, oldest first */
        struct eng_gets spare_gets;        /* memory of some that were: more than malloc() keeps at hand */
        unsigned spare_get_count;
        uint64_t get_count;                /* begun: the number of the last */
        uint64_t own_gets;                 /* of those, the store's own */
        uint64_t clients_seen;             /* pacer.c's own */
        TAILQ_HEAD(eng_mends, eng_mend) mends; /* mend.c's own: of this loop's objects, under way, and those that wait for one of the same object */
        struct lost_object *lost_objects;  /* uthash, by value id; lost_objects.c's own */
        uint64_t readers_upto;             /* of those, the last that was begun when no record named the drive that leaves any more (reshape.c) */
        eng_mask cover_in;                 /* the view the cover below was made for */
        const struct eng_placement *cover_map; /* and of its map */
        bool cover_valid;
        unsigned cover_count;
        uint16_t cover_drive[ENG_DRIVES_MAX];
        uint16_t cover_share[ENG_DRIVES_MAX]; /* groups it stands for */
        uint64_t *cover_pgs;               /* cover_count bitmaps of pg_words words */
        struct lp_times steps[ENG_STEPS];  /* any thread reads */
};

/* One such step took so long. */
static inline void eng_step(struct eng_loop *el, enum eng_step step, uint64_t ns)
{
        lp_times_add(&el->steps[step], ns);
}
/* It began at this lp_clock(), and ends now. */
static inline void eng_step_ends(struct eng_loop *el, enum eng_step step, uint64_t began)
{
        eng_step(el, step, lp_clock() - began);
}

/* ---- the store ----------------------------------------------------------------------------------------- */

struct eng_member {
        uint8_t id[FMT_ID];
        uint8_t place_id[FMT_ID];      /* what placement hashes: see fmt_epoch */
        char path[ENG_PATH_MAX];         /* "" while missing */
        struct eng_drive *_Atomic drive; /* outermost of the stack of filters, or NULL; changed by the coordinator while no loop's view has it up */
        struct eng_drive *_Atomic local;
        enum eng_drive_state state;    /* owner: coordinator; read under health_lock */
        char reason[160];
        struct eng_identity identity;
        atomic_bool failed;            /* told to the coordinator */
        uint8_t *epoch;                /* newest epoch body it held when opened */
        size_t epoch_len;
        struct eng_epoch_history history;
        bool log_lost;                 /* its log ended before what its index covered */
};

/* Of a drive that was opened: the newest epoch it holds, and what that says of each slot. */
static inline const struct fmt_epoch *eng_epoch_of(const struct eng_member *m)
{
        return (const struct fmt_epoch *)m->epoch;
}
static inline const struct fmt_epoch_drive *eng_epoch_drives(const struct eng_member *m)
{
        return (const struct fmt_epoch_drive *)(m->epoch + sizeof(struct fmt_epoch));
}

/* What an epoch says of the set of drives, beside who is in (format.h has the flags). */
struct eng_shape {
        eng_mask adding;               /* FMT_EPOCH_ADDING: at most one, like leaving */
        eng_mask leaving;              /* FMT_EPOCH_LEAVING */
        eng_mask gone;                 /* FMT_EPOCH_GONE */
        eng_mask shedding;             /* FMT_EPOCH_SHEDDING */
};

enum eng_phase {
        ENG_PHASE_NEW,
        ENG_PHASE_OPENING,   /* threads open the drives */
        ENG_PHASE_EPOCH,     /* the first epoch of this run goes to its members */
        ENG_PHASE_SETTLE,    /* tails are compared and made equal */
        ENG_PHASE_CONFIG,    /* buckets are read */
        ENG_PHASE_OPEN,      /* serving */
        ENG_PHASE_WAITING    /* can't open: health says what for */
};

/* owner: coordinator (loop 0) */
struct eng_coord {
        struct eng_store *store;
        enum eng_phase phase;
        struct eng_view view;          /* as last spread, or being spread */
        eng_mask present;              /* opened and not stale */
        uint8_t epoch_id[FMT_ID];
        eng_mask base;                 /* of the epoch in force: members of the last one before it that was surely in force */
        uint64_t in_force;             /* number and id of the last epoch that surely was; 0: not known */
        uint8_t in_force_id[FMT_ID];
        bool changing;                 /* an epoch change is under way */
        bool again;                    /* and another is needed after it */
        bool read_only;                /* too few drives for an epoch at the start: no new one was made */
        eng_mask next_in, next_joining; /* of the epoch that is being made */
        struct lp_timer epoch_timer;   /* there was no memory to make it */
        struct epoch_append *append_later; /* waits for append_timer: a drive refused its record for the moment; NULL: none */
        struct lp_timer append_timer;
        struct eng_shape shape, next_shape; /* of the epoch in force, and of that one */
        struct {
                eng_mask adding, leaving, gone;
                eng_mask shed;         /* shedding no more */
        } wish;                        /* what the next epoch is to say of these drives */
        eng_mask gained;               /* drives that have all of the groups that come to them while a drive leaves */
        bool drained;                  /* no record names shards on the one that leaves, nor does anybody read by one that did */
        bool asking_readers;           /* whether somebody does */
        bool readers_counted;          /* loops know whom they had then (readers_upto) */
        atomic_bool read_from;         /* somebody does, or may */
        uint64_t leaving_since;        /* epoch; 0: from before this run */
        struct eng_placement *next_map; /* of next_shape; NULL: as it is */
        struct eng_placement *maps;    /* all that were made, the newest first */
        bool stopping;                 /* the loops have stopped: what still comes back begins nothing new */
        struct eng_join *join;         /* join.c's own; NULL: no drive catches up */
        struct lp_timer join_timer;
        struct eng_heal *heal;         /* heal.c's own */
        struct eng_mend *late_mends;   /* mend.c's own: dropped while drives had operations of them */
        struct eng_attach *attach;     /* attach.c's own; NULL: no drive is being opened */
        struct lp_timer attach_timer;
        struct eng_shed *shed;         /* shed.c's own; NULL: none under way */
        struct lp_timer shed_timer;
        struct eng_sweep *sweep;       /* sweep.c's own; NULL: none under way */
        struct lp_timer sweep_timer;   /* the last one was not done to its end */
        unsigned sweep_tries;          /* so many, one after the other */
        struct eng_verify *verify;     /* that an operator asked for; NULL: none under way */
        struct eng_scrub *scrub;       /* scrub.c's own; NULL: none */
        struct eng_scrub_drives *scrub_drives; /* scrub_drive.c's own; NULL: none */
        struct eng_drop *drop;         /* bucket_drop.c's own */
        eng_mask filling;              /* FMT_EPOCH_FILLING */
        eng_mask given_up;             /* FMT_EPOCH_GIVEN_UP */
        eng_mask lost_writes;          /* FMT_EPOCH_LOST_WRITES, while filling */
        eng_mask lost;                 /* found to have lost writes in this run, and not a member again yet (lost.c) */
        uint8_t lost_why[ENG_DRIVES_MAX];
        bool forcing;                  /* recovery goes on without given_up by the operator's word, until it is over */
        eng_mask awaited;              /* drives without which recovery could not tell whether what is here is current, or not go on; 0: none */
        char waits_for[200];
        unsigned attempts;
        struct lp_timer health_timer;
        struct lp_msg start_msg;
        void *recovery;                /* recover.c's own */
        void *config;                  /* bucket.c's own */
        struct eng_config_loading *config_loading; /* config_load.c's own; NULL: nothing to do */
};

struct eng_store {
        /* set before the loops run, constant then */
        struct eng_options options;
        uint8_t store_id[FMT_ID];
        unsigned k, m;
        unsigned pg_count, pg_words;   /* words of a bitmap of pg_count + 1 bits */
        unsigned meta_replicas;        /* m + 1 */
        uint32_t inline_max;           /* new objects up to this lie in their record */
        struct eng_member *members;    /* by slot */
        struct era_code *code;
        uint16_t *pg_loop;             /* primary loop of each PG (and CONFIG) */
        struct eng_pg *pgs;            /* pg_count + 1; each owned by its loop */
        struct eng_loop *loops;
        struct eng_hasher *hashers;        /* of the hash loops */
        unsigned hasher_count;
        unsigned loop_count;
        struct eng_drive_times *drive_times; /* ENG_DRIVES_MAX x loop_count: of each slot, each loop's */
        bool formatted;
        char first_path[256];
        atomic_uint drive_count;       /* slots of the drive map; the coordinator adds one, whose member is set before */

        struct eng_pacer pacer;        /* of the upkeep */
        struct eng_coord *coord;
        struct eng_member unplaced[ENG_DRIVES_MAX + ENG_ATTACH_MAX]; /* all that were opened: those given, in that order, then those attached */
        unsigned unplaced_count;
        char empty_paths[512];         /* folders that are not drives, or cannot be told to be, for health */
        bool hangs[ENG_DRIVES_MAX];    /* of options.drives: it did not answer when it was looked at. Set before the loops run, constant then */
        bool left_behind;              /* at the end: a thread that opens a drive, or works for one that failed, has not come back, and may use all this */

        uint64_t first_epoch;          /* of this run */
        atomic_bool unsettled;         /* a change was given up while its record was on its way: it may count after the next start */
        atomic_bool full;              /* some drive is below its reserve */
        atomic_bool stalled;           /* a drive in use can take little more until another is back (eng_drive_stalled()) */
        atomic_uint_fast64_t degraded_reads, repaired_reads, settled_records;
        pthread_mutex_t health_lock;
        struct eng_health health;      /* under health_lock */
        struct eng_verify_report verify; /* under health_lock, like the next */
        struct eng_verify_report scrub, last_scrub; /* under way or halted; the last that came to its end */
        atomic_uint_fast64_t walks_begun; /* by scrub, of all names, from the first on: their number in this run; any thread, as the next */
        atomic_uint_fast64_t walks_ended; /* number of the last of these that came to its end */
        struct eng_scrub_progress scrub_progress[ENG_DRIVES_MAX]; /* under health_lock, by slot */
        struct eng_heal_report heal, last_heal; /* under health_lock */
        struct eng_attach_report attached[ENG_ATTACH_REPORTS]; /* under health_lock, like the next; by number */
        uint64_t attach_number;
        struct eng_lost_object lost_said[ENG_LOST_SAID]; /* under health_lock, like the next; by number */
        uint64_t lost_number;
        struct eng_outlook outlook;    /* under health_lock, like the next */
        struct eng_force_report forced;
};

static inline struct eng_loop *eng_loop_of(struct eng_store *store, struct lp_loop *loop)
{
        return &store->loops[lp_index(loop)];
}
/* Of each loop. */
static inline struct eng_drive_times *eng_drive_times_of(const struct eng_store *store, unsigned slot)
{
        return store->drive_times + (size_t)slot * store->loop_count;
}
static inline struct eng_loop *eng_here(struct eng_store *store)
{
        return &store->loops[lp_index(lp_self())];
}
static inline struct eng_loop *eng_primary(struct eng_store *store, uint32_t pg)
{
        return &store->loops[store->pg_loop[pg]];
}

/* Metadata members of a group in a view: what its records go to, and which of those speak for it. */
static inline eng_mask eng_writers(const struct eng_view *view, uint32_t pg)
{
        return (view->map->groups[pg].before | view->map->groups[pg].after) & (view->in | view->joining);
}
static inline eng_mask eng_speakers(const struct eng_view *view, uint32_t pg)
{
        return view->map->groups[pg].before & view->in;
}

/*
 * Whether a drive's answer that it has no such name, or not some among others, counts: it still speaks for the group. One that was asked before the group went
 * from it may have forgotten the name when it answers (shed.c, which begins when all loops have the new map).
 */
static inline bool eng_may_say_absent(const struct eng_view *view, uint32_t pg, unsigned slot)
{
        return (eng_speakers(view, pg) & eng_bit(slot)) != 0;
}

/* Sets the bits of groups, CONFIG included, that a drive speaks for. */
void eng_groups_spoken_for(const struct eng_view *view, unsigned pg_count, unsigned slot, uint64_t *bits);

/* Drives that count towards what an epoch may leave out. */
static inline unsigned eng_counted(const struct eng_view *view)
{
        return (unsigned)__builtin_popcountll(view->map->all & ~view->map->adding);
}

/* Whether `next` may go on as the epoch behind one of `prev`, by the store's code and the coordinator's view of its drives. */
static inline bool eng_could_form(const struct eng_store *store, eng_mask next, eng_mask prev)
{
        return eng_epoch_can_form(next, prev, eng_counted(&store->coord->view), store->k, store->m);
}

/* Clients' changes are taken. A forced epoch may be of too few drives for them: until others have joined, it is writable for what brings these in. */
static inline bool eng_takes_changes(const struct eng_store *store, const struct eng_view *view)
{
        return view->writable && eng_epoch_can_write(view->in, eng_counted(view), store->k, store->m);
}

/* A new object id, unique for ever: epoch, loop, counter. */
void eng_new_id(struct eng_loop *el, uint8_t id[FMT_ID]);
/* Bucket of an id on this loop, or NULL. */
struct eng_config_bucket *eng_bucket_by_id(const struct eng_loop *el, uint64_t id);

/* ---- names (name.c) --------------------------------------------------------------------------------------- */

struct eng_name {
        uint16_t len;
        uint8_t data[FMT_NAME_MAX];
};
void eng_name_object(struct eng_name *out, uint64_t bucket, const void *key, size_t len);
void eng_name_bucket(struct eng_name *out, const char *bucket);
void eng_name_upload(struct eng_name *out, uint64_t bucket, const void *key, size_t len, const uint8_t id[FMT_ID]);
/* part 0: the prefix of all parts */
void eng_name_part(struct eng_name *out, uint64_t bucket, const void *key, size_t len, const uint8_t id[FMT_ID],
                   unsigned part);
/* The least name greater than every name that begins with this one; false if there is none. */
bool eng_name_successor(struct eng_name *name);
/* Space, bucket and the start of names of one bucket. */
void eng_name_space(struct eng_name *out, enum fmt_space space, uint64_t bucket);

/* ---- values and record bodies (record.c) -------------------------------------------------------------------- */

/* What a new value says; encoded by eng_value_new(). */
struct eng_value_spec {
        enum fmt_space space;
        bool inline_value;
        uint32_t pg, inline_len;
        uint64_t size;
        int64_t mtime_ms;
        const uint8_t *id, *etag, *upload_id, *tag; /* NULL: zeroes */
        uint16_t etag_parts;
        const void *attrs;
        size_t attrs_len;
        const void *fields;            /* encoded fmt_fields, each padded */
        size_t fields_len;
        const void *parts;             /* encoded fmt_parts */
        size_t parts_len;
        uint32_t part_count;
};
struct eng_buf *eng_value_new(const struct eng_value_spec *spec);
/* Fills object from an encoded value; attrs point into it. */
void eng_value_object(const struct eng_buf *value, struct eng_object *out);
static inline const struct fmt_value *eng_value_head(const void *encoded)
{
        return encoded;
}

/* Appends mutations to a body under construction. */
struct eng_body {
        struct eng_buf *buf;
        size_t len;
};
int eng_body_begin(struct eng_body *body, size_t capacity);
void eng_body_put(struct eng_body *body, const struct eng_name *name, const struct eng_buf *value, uint64_t seq,
                  const void *inline_bytes, size_t inline_len);
void eng_body_delete(struct eng_body *body, const struct eng_name *name);
void eng_body_end_upload(struct eng_body *body, const struct eng_name *upload, const uint8_t (*ids)[FMT_ID], size_t count);
size_t eng_body_need(size_t name_len, size_t value_len, size_t inline_len);

/* ---- what members say of a name (agree.c) --------------------------------------------------- */

/* Members of its group that were asked for a name, and have not given it. owner: primary loop */
struct eng_words {
        unsigned slot;                 /* asked last */
        eng_mask members;              /* that spoke and were up when it began */
        eng_mask asked;
        eng_mask absent;               /* of those: it is not there */
        eng_mask damaged;              /* what is there cannot be read */
};
/* Nobody was asked yet. */
void eng_words_begin(struct eng_words *words, const struct eng_view *view, uint32_t pg);
/* The member asked last answers rv, an error. */
void eng_words_take(struct eng_words *words, const struct eng_view *view, uint32_t pg, int rv);
/*
 * Whether members without a name outvote those that have it, or may: the one rule by which it is
 * not there. In a tie it is, since nothing is deleted on one member's word (I6).
 */
bool eng_outvoted(eng_mask have, eng_mask absent);
/*
 * Whether that is so by what has been said, whatever all others have that speak and are up, or did
 * when it began: one that failed meanwhile may have had it.
 */
bool eng_words_absent(const struct eng_words *words, const struct eng_view *view, uint32_t pg);
/* Whether more than one member says that it is absent. */
static inline bool eng_words_sure(const struct eng_words *words)
{
        return __builtin_popcountll(words->absent) >= (int)ENG_ABSENT_SURE;
}
/*
 * The answer when nobody is left to be asked, and the name is not absent: -EIO if none of them can
 * be read, else -EHOSTDOWN. Members that contradict each other are compared by the upkeep.
 */
int eng_words_unsure(struct eng_loop *el, uint32_t pg, const struct eng_words *words);

/* ---- transactions (txn.c) ------------------------------------------------------------------------------------- */

enum eng_txn_state {
        ENG_TXN_POSTED,  /* on its way to the primary loop */
        ENG_TXN_PARKED,  /* waits for its bucket, which is being closed */
        ENG_TXN_LOCKING, /* waits for its key */
        ENG_TXN_PREPARE, /* reads what it depends on, then builds the record */
        ENG_TXN_APPEND,  /* record on its way to stable storage on every member */
        ENG_TXN_COMMIT,  /* stable: being made visible on every member */
        ENG_TXN_ANSWER   /* result on its way home */
};

/*
 * The operations of one txn on all members: first its appends, then its commits. Freed when the last has come back, which may be after
 * the txn was answered (a drive that hangs). owner: primary loop
 */
struct eng_fan {
        struct eng_loop *at;
        struct eng_txn *txn;           /* NULL once the txn went on without it */
        struct eng_buf *body;
        unsigned out, members;
        struct eng_fan_op {
                struct eng_op op;
                struct eng_fan *fan;
                struct eng_drive *drive; /* it was sent to: that of the slot then */
                unsigned slot;
        } ops[];                       /* 2 * members */
};

/*
 * One atomic change of one key, run by the key's primary. The home loop fills the upper part and calls eng_txn_submit(); done() comes
 * on the home loop. prepare() runs on the primary loop with the key locked; it may submit lookups (eng_txn_lookup) and ends in exactly one of
 * eng_txn_append() or eng_txn_finish().
 */
struct eng_txn {
        /* owner: home, until submit and from done */
        struct eng_store *store;
        struct eng_loop *home;
        uint32_t pg;
        uint64_t bucket;
        bool internal;                 /* the store's own: of a bucket that is closing, or gone, too */
        bool moves;                    /* says nothing new but where shards are: as many members are enough as have what it takes the place of */
        void (*prepare)(struct eng_txn *txn);
        void (*done)(struct eng_txn *txn);
        int result;
        bool appended;                 /* the record may have reached a log: its shards must not be discarded */
        uint16_t key_len;
        uint8_t key[ENG_KEY_MAX];

        /* owner: primary loop */
        enum eng_txn_state state;
        uint64_t request;              /* that it is of (loop_trace.h) */
        struct lp_msg msg;
        struct eng_loop *at;
        struct eng_key_lock *lock;
        TAILQ_ENTRY(eng_txn) lock_link, pg_link, loop_link; /* loop_link: while in el->appended */
        struct eng_body body;
        uint16_t record_type;
        uint32_t inline_len, body_crc;
        uint64_t seq, started, append_began; /* lp_now() when it arrived; lp_clock() */
        uint64_t append_number;        /* among those of its loop */
        bool held;                     /* numbered, but appends wait for the end of an epoch change */
        eng_mask sent, waiting;        /* drives the record was sent to; those that have not answered */
        struct eng_fan *fan;
        struct eng_op lookup;
        struct eng_words words;        /* of the last lookup */
        struct eng_name name;
        void (*looked_up)(struct eng_txn *txn, int rv);
        struct eng_buf *unread;        /* value the last lookup found, its bytes damaged; or NULL */
        struct eng_buf *old;           /* answer of the last lookup */
        struct eng_buf *old_bytes;
};
void eng_txn_submit(struct eng_txn *txn);
/* On its loop: changes that waited for this bucket are admitted, or refused, by what is known of it now. */
void eng_txn_unpark(struct eng_config_bucket *bucket);
/* Looks txn->name up on members, one after the other; looked_up() gets 0 (txn->old set), -ENOENT or
 * what eng_words_unsure() says. */
void eng_txn_lookup(struct eng_txn *txn, unsigned flags, void (*looked_up)(struct eng_txn *txn, int rv));
void eng_txn_append(struct eng_txn *txn);
/* The loops have stopped around it: frees what it has in flight. */
void eng_txn_abandon(struct eng_txn *txn);
void eng_txn_finish(struct eng_txn *txn, int result);
/* The sequence number the record will have; valid in prepare (the key's PG may number others meanwhile, so: take, then append at once). */
uint64_t eng_txn_take_seq(struct eng_txn *txn);
/* A drive has failed or an epoch came into force: looks at what waits for it. On each loop. */
void eng_txn_view_changed(struct eng_loop *el);
/* Checks a condition against the value present (NULL: none). */
int eng_condition_check(const struct eng_condition *condition, const struct eng_buf *present);
/* Any member of a PG fit for reading, not in tried, the one owned by this loop first; -1: none. */
int eng_pg_reader(struct eng_loop *el, uint32_t pg, eng_mask tried);

/* The changes there are (objects.c, uploads.c, complete.c). Each is a txn with its own fields. */
struct eng_txn_put {
        struct eng_txn txn;
        struct eng_condition condition;
        bool is_part;
        uint8_t upload_id[FMT_ID];
        unsigned part_number;
        struct eng_buf *value;         /* owned */
        struct eng_buf *bytes;         /* inline bytes or NULL; owned */
        void *arg;
};
struct eng_txn_put *eng_txn_put_new(struct eng_store *store, uint64_t bucket, const void *key, size_t key_len);
void eng_txn_put_free(struct eng_txn_put *put);

/* ---- lookups with a pin (lookup.c) ----------------------------------------------------------------------------- */

struct eng_lookup {
        /* owner: home */
        struct eng_store *store;
        struct eng_loop *home;
        uint32_t pg;
        unsigned flags;                /* ENG_OP_WANT_INLINE */
        bool pin;                      /* pin objects with shards until eng_unpin */
        struct eng_name name;
        void (*done)(struct eng_lookup *lookup);
        int result;
        struct eng_buf *value, *bytes; /* owned by the receiver of done */
        bool pinned;
        /* owner: primary loop */
        struct lp_msg msg;
        struct eng_loop *at;
        struct eng_op op;
        struct eng_words words;
        TAILQ_ENTRY(eng_lookup) link;  /* at->lookups, while counted */
        uint64_t number;               /* among those of its primary */
        bool counted;
};
void eng_lookup_start(struct eng_lookup *lookup);
/* Home loop: lets go of the pin a lookup took. lookup is used as the message and freed by free_it(lookup) on the primary loop. */
void eng_unpin(struct eng_lookup *lookup, void (*free_it)(struct eng_lookup *lookup));

/* get.c: of the loop, which does not run any more. */
void eng_get_free_spares(struct eng_loop *el);

/* ---- discards (reap.c) ------------------------------------------------------------------------------------------ */

/* Those that are named for its shards. */
eng_mask eng_part_drives(const struct eng_part *part);

/* From a drive, on its owner loop: values that died. */
void eng_reap_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n);
/* Home loop: the shards of an object id that was never named by a record, on these drives. */
void eng_discard(struct eng_store *store, const uint8_t id[FMT_ID], eng_mask drives);
/* The loop's view says ready: reports that came before are taken. */
void eng_reap_ready(struct eng_loop *el);
void eng_reap_tick(struct lp_timer *timer);
/* The primary loop of its group, with the key locked: members that had reported this value dead are given it back. What they said counts no more. */
void eng_reap_keep(struct eng_loop *el, const uint8_t id[FMT_ID]);
void eng_reap_free(struct eng_loop *el);

/* ---- configuration (bucket.c) ------------------------------------------------------------------------------------- */

/*
 * Coordinator, in recovery (config_load.c): reads the buckets from members of the CONFIG PG and gives them to all loops. What the members say
 * differently is settled. -EIO: no member could be read; -ENOMEM. The coordinator begins anew after an error.
 */
void eng_config_load(struct eng_store *store, void (*done)(struct eng_store *store, int rv));
/* The store is open: what members lacked then is repaired there. */
void eng_config_repair(struct eng_store *store);
void eng_config_load_free(struct eng_store *store);
/* A name and value of the CONFIG PG as a bucket. -EBADMSG: they are none. */
int eng_bucket_decode(const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len, struct eng_bucket *out);
/* This loop's copy has it from now on. -ENOMEM. */
int eng_config_take(struct eng_loop *el, const struct eng_bucket *bucket);
/* The queue of changes, once. -ENOMEM. */
int eng_config_begin(struct eng_store *store);
void eng_config_free(struct eng_loop *el);
/* The store is being closed and the loops have stopped: what waits for a bucket is let go. */
void eng_config_stop(struct eng_loop *el);

/* ---- what a deleted bucket leaves (bucket_drop.c) ------------------------------------------------------------------ */

/*
 * The name of the record that says that the bucket of this name and id was deleted, and that unfinished uploads may be left of it. Written by the
 * change that deletes the bucket, removed when nothing is left. Changed with the lock of the bucket's name held.
 */
void eng_name_dead_bucket(struct eng_name *out, const char *bucket, uint64_t id);
/* Length of the bucket's name in such a name, which begins at data[10]; 0: it is none. */
size_t eng_dead_bucket_name_len(const struct eng_name *name);
/* Before the store is started: what a round needs is there, however little memory is left later. False: no memory. */
bool eng_drop_make(struct eng_store *store);
/* Coordinator: begins to drop what deleted buckets have left, if there is something and it is not under way. Harmless at any time. */
void eng_drop_consider(struct eng_store *store);
bool eng_drop_running(const struct eng_store *store);
void eng_drop_free(struct eng_store *store);

/* ---- membership (cast.c, coord.c, recover.c) ------------------------------------------------------------------------ */

/*
 * Runs something on every loop and tells the coordinator when all have done it. run() gives true when done, or false after it has kept ack to
 * post it to the coordinator later. owner: coordinator; run on each loop
 */
struct eng_cast {
        struct eng_store *store;
        bool (*run)(struct eng_loop *el, void *arg, struct lp_msg *ack);
        void (*done)(struct eng_store *store, void *arg);
        void *arg;
        unsigned left;
        struct eng_cast_msg {
                struct lp_msg msg;
                struct eng_cast *cast;
                struct eng_loop *to;
        } msgs[];                      /* one per loop */
};
/* Coordinator. -ENOMEM. */
int eng_cast(struct eng_store *store, bool (*run)(struct eng_loop *el, void *arg, struct lp_msg *ack),
             void (*done)(struct eng_store *store, void *arg), void *arg);

/*
 * Any loop: the drive that is in this slot failed; text says why. Told to the coordinator once. drive: whose word it is, as in
 * members[].drive or .local: one that another has taken the place of meanwhile changes nothing.
 */
void eng_drive_failed(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text);

/* Recovery from the beginning (recover.c). Coordinator. */
void eng_recover(struct eng_store *store);
/*
 * After the loops: waits for threads that still open drives, for some seconds; what they say is not acted on. One that has not come back by then is left
 * behind, with all that it may use (store->left_behind).
 */
void eng_recover_stop(struct eng_store *store);
void eng_recover_free(struct eng_store *store);
/* A drive that was opened when recovery had gone on without it, for attach.c to hand over; NULL: none. */
struct eng_member *eng_recover_take_late(struct eng_store *store);
/* Encodes an epoch record body of these members. NULL: no memory. */
struct eng_buf *eng_epoch_body(struct eng_store *store, uint64_t number, const uint8_t id[FMT_ID],
                               const uint8_t parent[FMT_ID], eng_mask in, eng_mask joining, eng_mask base);
/* Coordinator: makes an epoch of what lives now, with what join.c wants (eng_join_wants). */
void eng_epoch_change(struct eng_store *store);
/* Appends an epoch record on all drives of the mask, for some seconds on those that answer -EAGAIN; done(arg, failed) with the drives that did not take it. -ENOMEM. */
int eng_epoch_append(struct eng_store *store, uint64_t number, struct eng_buf *body, eng_mask to,
                     void (*done)(struct eng_store *store, eng_mask failed));
/* The store is closed: what waits to be asked for again is not. */
void eng_epoch_append_free(struct eng_store *store);
/* Coordinator: gives every loop coord->view; done when all have taken it. */
void eng_view_spread(struct eng_store *store, void (*done)(struct eng_store *store, void *arg));
/* Recovery is over: serve. */
void eng_coord_open(struct eng_store *store);
void eng_health_refresh(struct eng_store *store);
void eng_health_start(struct eng_store *store);
void eng_member_state(struct eng_store *store, unsigned slot, enum eng_drive_state state, const char *reason);

/* ---- going on without drives (force.c) -------------------------------------------------------------------------- */

/* Coordinator: what going on without the drives that are missed would mean. */
void eng_outlook_take(const struct eng_store *store, struct eng_outlook *out);
/* Recovery is over, with the store open (0) or not; nothing, if it was not forced. */
void eng_force_ended(struct eng_store *store, int rv, const char *text);

/* ---- drives that come while the store serves (attach.c) ---------------------------------------------------------------- */

/* Opens one folder as a drive. Blocking; any thread. member: path and identity set; the rest is filled. */
int eng_member_open(struct eng_store *store, struct eng_member *member, struct eng_error *error);
/* Coordinator: a drive was opened that recovery has not waited for. Harmless at any time. */
void eng_attach_late(struct eng_store *store);
/* Coordinator: looks from time to time whether a drive that is missing or vanished is back. */
void eng_attach_start(struct eng_store *store);
/* After the loops: waits for the thread that opens a drive; then, with nothing under way any more, frees what is left. */
void eng_attach_stop(struct eng_store *store);
void eng_attach_free(struct eng_store *store);
/* Reports of what an operator asked for, as eng_attach_read() gives them; number 0: nobody wants to know. */
uint64_t eng_attach_new_report(struct eng_store *store, unsigned slot, bool replace);
void eng_attach_report(struct eng_store *store, uint64_t number, int rv, const char *text);

/* ---- drives that are added or removed (reshape.c, shed.c) -------------------------------------------------------------- */

/* Coordinator: what the next epoch says, given that these become members: coord->next_shape. */
void eng_reshape_next(struct eng_store *store, eng_mask promoted);
/* Recovery: these members are here and lack the newest epoch. They may have names again that they had forgotten. */
void eng_reshape_behind(struct eng_store *store, eng_mask behind);
/* Coordinator: makes the placement for coord->next_shape, if it is another than the one in force: coord->next_map. -ENOMEM. */
int eng_shape_map(struct eng_store *store);
/* An epoch came into force. */
void eng_reshape_epoch(struct eng_store *store);
/* A drive that is to catch up with groups that come to it, or -1; it has; no record names the drive that leaves any more (said again until it is gone). */
int eng_reshape_gainer(const struct eng_store *store);
void eng_reshape_gained(struct eng_store *store, unsigned slot);
void eng_reshape_drained(struct eng_store *store);
/* Goes on, if all that a step waits for is there. Harmless at any time. */
void eng_reshape_consider(struct eng_store *store);
/* Coordinator: has drives forget names of groups that went from them. Harmless at any time. */
void eng_shed_consider(struct eng_store *store);
void eng_shed_free(struct eng_store *store);

/* ---- catching up (join.c, fix.c) ------------------------------------------------------------------------------------ */

/* Coordinator: begins to bring a stale drive back, if there is one and nothing else is under way. Harmless at any time. */
void eng_join_consider(struct eng_store *store);
/* Which drives the next epoch is to have as joining, given that these live, and which of them as members. */
void eng_join_wants(const struct eng_store *store, eng_mask *joining, eng_mask *promoted);
/* An epoch came into force, or was given up. */
void eng_join_epoch(struct eng_store *store);
void eng_join_free(struct eng_store *store);

/*
 * Makes one name on a drive that catches up (or, to repair it, on a member) equal to what current members have, with the name's key locked. result: 0 (copied says whether
 * anything had to be written), or what kept it from being done: it may be tried again.
 */
struct eng_fix {
        /* owner: coordinator, until eng_fix_start and from done */
        struct eng_txn txn;
        unsigned slot;
        struct eng_name name;
        bool repair;                   /* the drive is a member whose copy is damaged: it is copied if it is found so, its bytes included */
        bool copied;
        void (*done)(struct eng_fix *fix);
        void *arg;
        /* owner: primary loop */
        struct eng_op op;
};
/* -EBADMSG: no name of ours. */
int eng_fix_start(struct eng_store *store, struct eng_fix *fix);
/* Bucket and key of an index name: what its changes are locked by. -EBADMSG: no name of ours. */
int eng_name_key(const struct eng_name *name, uint64_t *bucket, uint8_t key[FMT_NAME_MAX], size_t *len);

/*
 * Makes a name say the same on all members that speak for its group, with its key locked (agree.c). txn.result: 0, or what kept it from being done: it
 * may be tried again.
 */
struct eng_agree {
        /* owner: coordinator, until eng_agree_start and from done */
        struct eng_txn txn;
        struct eng_name name;
        void (*done)(struct eng_agree *agree);
        bool differed;                 /* answers */
        unsigned repaired;             /* copies written */
        /* owner: primary loop */
        struct eng_op op;
        unsigned slot;                 /* being asked */
        eng_mask asked, same, other, absent, damaged, change;
        bool keep;                     /* the name is to be there */
        uint64_t seq;                  /* of the value */
        struct eng_buf *value, *bytes; /* that counts, and its inline bytes */
};
/* When done: what members have could not be made equal, or nobody can tell yet whether the name is there. */
static inline bool eng_agree_left(const struct eng_agree *agree)
{
        return agree->txn.result != 0 || (agree->repaired == 0 && (agree->differed || agree->damaged != 0));
}
/* -EBADMSG: no name of ours. */
int eng_agree_start(struct eng_store *store, struct eng_agree *agree);
/* The loops have stopped around it. */
void eng_agree_drop(struct eng_agree *agree);
/* Whether two encoded values say the same, wherever they stand. */
bool eng_fix_same(const void *a, size_t a_len, const void *b, size_t b_len);

/* ---- digests of shards (digest.c) ------------------------------------------------------------------------------------ */

void eng_digest_add(struct eng_digest *digest, const uint8_t object_id[FMT_ID], uint32_t stripe, unsigned shard,
                    const void *payload, size_t len);
/* Of what is in either, and not in both. */
void eng_digest_merge(struct eng_digest *digest, const struct eng_digest *more);

/* ---- shards that are missing (heal.c, lane.c, mend.c) ------------------------------------------------------------------------ */

/* All drives are closed. */
void eng_mend_free_late(struct eng_store *store);
/* Encoded value of an open object; lives as long as get. */
struct eng_buf *eng_get_value(const struct eng_get *get);
/*
 * After eng_get_next() has failed: whether that was a stripe beyond repair, one of which more than m shards are gone: they are damaged or not there on
 * drives that are in, or no drive is named for them that the store still has. offset: where the stripe begins in the object.
 */
bool eng_get_lost(const struct eng_get *get, uint64_t *offset);
/* As eng_get_start(), also behind a range that has failed. -EAGAIN: not yet, something of the last range is under way; it is woken. */
int eng_get_restart(struct eng_get *get, uint64_t offset, uint64_t len, void (*wake)(void *arg), void *arg);
/* As eng_drop_make(). */
bool eng_heal_make(struct eng_store *store);
/* Coordinator: membership has changed; looks (again) for objects that lack shards, and mends those it can. Harmless at any time. */
void eng_heal_consider(struct eng_store *store);
/* Coordinator: where nobody has set the rate of the upkeep, drives that are being filled, emptied or caught up with are done within a day, whatever their size. */
void eng_heal_choose_rate(struct eng_store *store);
/* store->heal has changed: health follows. With health_lock held. */
void eng_heal_publish(struct eng_store *store);
void eng_heal_free(struct eng_store *store);
/* All drives are closed. */
void eng_heal_free_late(struct eng_store *store);

/* ---- shards that no record names (sweep.c) ------------------------------------------------------------------------------ */

/* Coordinator: begins a sweep, if all drives are in and none is under way. Harmless at any time. */
void eng_sweep_consider(struct eng_store *store);
void eng_sweep_free(struct eng_store *store);
/* put.c: if an upload is under way on this loop, epoch and counter of the oldest one's object id. */
void eng_put_oldest(const struct eng_loop *el, uint32_t *epoch, uint64_t *counter);
/*
 * get.c: calls each() for each part of each open object of this loop. False: one of the first upto objects that were opened is still being looked
 * up, and what it will be is not known.
 */
bool eng_get_each_part(const struct eng_loop *el, uint64_t upto, void (*each)(void *arg, const struct eng_part *part), void *arg);

/* ---- verification (verify.c) --------------------------------------------------------------------------------------------- */

struct eng_verify;
/*
 * Coordinator: reads on behind a name (len 0: from the first on) at no more than rate bytes/s, adding to what the report says; published as store->scrub.
 * ended: later, when it has come to the end. NULL: no memory.
 */
struct eng_verify *eng_verify_scrub(struct eng_store *store, const struct eng_name *place, const struct eng_verify_report *so_far, uint64_t rate,
                                    void (*ended)(void *arg), void *arg);
/* The last name that is through, and what was counted. */
void eng_verify_where(const struct eng_verify *v, struct eng_name *place, struct eng_verify_report *so_far);
/* The loops have stopped around it. */
void eng_verify_drop(struct eng_verify *v);
void eng_verify_free(struct eng_store *store);

/* ---- scrub (scrub.c) ----------------------------------------------------------------------------------------------------- */

/* Coordinator, while the store is open: reads how far the last run came, and goes on. Harmless once it has begun. */
void eng_scrub_begin(struct eng_store *store);
void eng_scrub_free(struct eng_store *store);
/* Any loop: shards were found damaged: names are walked soon, from the first on, which repairs what they name. */
void eng_scrub_names_soon(struct eng_store *store);
/*
 * Any loop: names are to be compared, for damage of which nobody can tell what stood there, or that stays. Requests are one: the first has names walked at once, those
 * that come behind its beginning once it has ended and nine times as long as it took is over, or, of longer walks, a day or as long as it took.
 */
void eng_scrub_names_owed(struct eng_store *store);

/* ---- scrub of the drives' data (scrub_drive.c) ------------------------------------------------------------------------ */

/* Coordinator, likewise. Each drive is read by a scrubber on its own loop, whenever it is a member. */
void eng_scrub_drives_begin(struct eng_store *store);
/* Coordinator: rounds begin now where none is under way, and go on as fast as they may. */
void eng_scrub_drives_start(struct eng_store *store);
/* The loops have stopped; drives may still have operations of it: nothing is begun any more. */
void eng_scrub_drives_stop(struct eng_store *store);
/* The drives are closed. */
void eng_scrub_drives_free(struct eng_store *store);

/* ---- listing (list.c) ---------------------------------------------------------------------------------------------- */

/* The smallest set of drives that covers all PGs in this loop's view, without those to be avoided; 0 or -EHOSTDOWN. */
int eng_cover(struct eng_loop *el, eng_mask avoid);

/* A merged scan over the cover: entries come in order, as pointers into answers that live until the scan is freed. */
/* Bytewise order of the names of two entries. */
int eng_scan_compare(const struct eng_scan_entry *a, const struct eng_scan_entry *b);
struct eng_merge;
struct eng_merge_params {
        const struct eng_name *from, *to; /* copied */
        bool after;
        unsigned prefix_len;           /* see eng_op.scan */
        const void *delimiter;         /* copied */
        size_t delimiter_len;
        unsigned flags;                /* ENG_OP_WANT_* */
        unsigned max;                  /* answers more = true if there are further ones */
};
struct eng_merge_entry {
        const uint8_t *name;
        uint16_t name_len;
        bool is_prefix;
        const uint8_t *value;          /* fmt_value [+ attrs [+ parts]], not aligned: copy the head out */
        uint32_t value_len;
};
typedef void (*eng_merge_done)(void *arg, int rv, const struct eng_merge_entry *entries, unsigned count, bool more);
/* done comes once, on this loop, never from inside. */
void eng_merge_start(struct eng_loop *el, const struct eng_merge_params *params, eng_merge_done done, void *arg);
/* The loops have stopped, and no timer runs any more: merges that wait to be tried again fail, and no others do. */
void eng_merges_stop(struct eng_loop *el);

#endif
