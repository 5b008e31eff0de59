/*
 * store.h - the state that the modules of the engine share: views, loops, members, the store; and
 * how they tell one another.
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
 * A PG belongs to one loop for the life of the process (primary). Configuration (buckets, epochs)
 * belongs to one of them, the coordinator; every loop has its own copy, changed by message.
 */
#ifndef MILLRACE_ENGINE_STORE_H
#define MILLRACE_ENGINE_STORE_H

#include <assert.h>
#include <bsd/sys/queue.h>
#include <pthread.h>
#include <stdatomic.h>
#include <uthash.h>

#include "ec.h"
#include "engine.h"
#include "engine/base/read_times.h"
#include "engine/base/hasher.h"
#include "engine/base/hints.h"
#include "engine/base/pacer.h"
#include "engine/drive/drive.h"
#include "engine/placement/place.h"
#include "engine/record/value.h"
#include "loop.h"

#define ENG_PG_COUNT 4096u             /* of new stores; the number of the CONFIG PG is the count itself */
#define ENG_TXNS_PER_LOOP 1024u        /* changes in flight per primary loop; beyond: -EAGAIN (I9) */
#define ENG_KEY_WAITERS 64u            /* changes waiting for one key; beyond: -EAGAIN */
#define ENG_HEAL_RATE (64ull << 20)     /* the least where options.heal_rate says none */
#define ENG_PARKED_MAX 256u            /* changes of one loop waiting for a bucket that is being closed; beyond: -EAGAIN */

#define ENG_DECIDED_OWN 128u
#define ENG_HOT_ADD_REPORTS 16u         /* remembered */
#define ENG_LOST_SAID 64u /* of objects found to be lost the last so many: the log says them */
#define ENG_HOT_ADD_MAX 64u             /* drives opened while the store serves, from one start to the next (I9): what they took the place of stays in memory */

/* ---- maps (placement.c) ---------------------------------------------------------------------- */

/* Constant once made. Freed when the store closes. */
struct eng_placement {
        unsigned drives;               /* slots there were when it was made */
        eng_mask all;                  /* those in use: without gone */
        eng_mask adding, leaving;      /* the drive that is being added or removed */
        eng_mask gone;                 /* removed for good */
        uint16_t *orders;              /* pg_count x drives: each PG's slots by their hash (eng_place_order()) */
        const struct eng_domains *domains; /* of those in `all`; NULL: all on one node */
        struct eng_domains domains_made;
        unsigned may_fail;             /* nodes that the placement is to survive the loss of; 0: without domains */
        bool by_groups;                /* a cluster's pool: groups say who may go on, not the number of drives */
        bool decided;                  /* and etcd says which of two epochs counts: no majority is asked for */
        unsigned group_count;          /* pg_count + 1 */
        struct eng_group *groups;
        eng_mask gaining, losing;      /* drives that come to some group by the change; drives that go from one */
        struct eng_placement *next;    /* the one before it */
};
/* What it is made of. */
struct eng_placement_slots {
        unsigned count, pg_count, replicas; /* replicas: of a group's metadata */
        uint8_t ids[ENG_DRIVES_MAX][FMT_ID]; /* place ids */
        struct eng_site sites[ENG_DRIVES_MAX];
        eng_mask adding, leaving, gone;
        bool decided;
};
struct eng_store;
/* NULL: no memory. */
struct eng_placement *eng_placement_make(const struct eng_placement_slots *slots);
/* Of the slots there are now. */
struct eng_placement *eng_placement_new(const struct eng_store *store, eng_mask adding, eng_mask leaving, eng_mask gone);
/*
 * The one rule by which `next` may go on as the epoch behind one of `prev`. gone: of the slots that
 * are leaving, those that are gone by that epoch.
 */
bool eng_placement_can_form(const struct eng_placement *map, eng_mask next, eng_mask prev, eng_mask gone, unsigned k, unsigned m);
/* Whether an epoch of these takes clients' changes; by groups, whether each group could. */
bool eng_placement_can_write(const struct eng_placement *map, eng_mask in, unsigned k, unsigned m);
void eng_placement_free(struct eng_placement *map);
/* All slots by a PG's hash: what eng_place_next() and others choose from, with the map's domains. */
static inline const uint16_t *eng_placement_order(const struct eng_placement *map, uint32_t pg)
{
        return map->orders + (size_t)pg * map->drives;
}
/* Drives that are to keep nothing: shards named on them are to be named elsewhere. */
static inline eng_mask eng_placement_homeless(const struct eng_placement *map)
{
        return map->leaving | map->gone;
}

/* ---- views ----------------------------------------------------------------------------------- */

/* What a loop believes about the membership. Copied to every loop by message. */
struct eng_view {
        uint64_t epoch;                /* in force */
        const struct eng_placement *map; /* its placement */
        eng_mask in;                   /* members of the epoch */
        eng_mask joining;              /* written to as members are, but nothing is asked of them: they catch up (catch_up.c) */
        eng_mask up;                   /* drives that answer: reads use in & up */
        bool ready;                    /* recovery is over */
        bool in_doubt;                 /* some group is: no listing can be complete */
        bool writable;                 /* the write quorum is held */
        bool paused;                   /* an epoch change is under way: appends wait */
        eng_mask back;                 /* of joining: it speaks for lost groups whose truth it is (docs/design/lost-groups.md) */
        unsigned lost;                 /* groups of which no member is in; without a cluster always 0, as back and left */
        uint64_t left[ENG_DRIVES_MAX]; /* as the epoch's record has it */
        uint64_t drive_key[ENG_DRIVES_MAX]; /* of the slot's drive: the first bytes of its id, which are random */
        uint64_t since[ENG_DRIVES_MAX]; /* first epoch in which the slot's drive, as it is open now, can have had a part; 0: opened at the start */
};

struct eng_txn;
TAILQ_HEAD(eng_txn_list, eng_txn);

struct eng_config_bucket {             /* owner: the loop whose copy it is */
        struct eng_bucket bucket;
        struct eng_bucket_text *texts; /* by kind (bucket/bucket_text.h) */
        bool closing;                  /* being deleted: changes wait until it is gone, or open again */
        struct eng_txn_list parked;    /* those; their lock_link */
        unsigned parked_count;
        UT_hash_handle hh;             /* by bucket.id */
};

/* ---- placement groups ------------------------------------------------------------------------ */

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

/* ---- per loop -------------------------------------------------------------------------------- */

struct eng_deferred;
STAILQ_HEAD(eng_deferred_list, eng_deferred);
TAILQ_HEAD(eng_puts, eng_put);
TAILQ_HEAD(eng_gets, eng_get);
TAILQ_HEAD(eng_lookups, eng_lookup);

/*
 * A loop has three parts. The leader's holds what decides about changes: locks, numbers,
 * transactions, deferred deletes, repairs of the groups whose primary it is. The home part holds
 * the requests that came in on this loop: uploads, reads, listings. What both have a copy of is the
 * loop's own. A request reaches a leader by message alone, so that the leader can one day be in
 * another process; tools/layers.py keeps engine/object/ from the leader's part.
 */

/* owner: the loop */
struct eng_leader_part {
        struct eng_key_lock *locks;        /* uthash */
        struct eng_pin *pins;              /* uthash */
        unsigned txns;
        uint64_t append_bytes;             /* of bodies in flight */
        struct eng_txn_list appended;      /* all txns with appends or commits in flight, oldest first */
        uint64_t append_count;             /* begun: the number of the last */
        struct eng_lookups lookups;        /* of readers, under way at this primary; oldest first */
        uint64_t lookup_count;             /* begun: the number of the last */
        _Atomic uint64_t homes_calls;      /* done for home stores; read by anybody */
        uint64_t lookups_upto;             /* as home.readers_upto */
        struct lp_msg *quiet;              /* to be posted to the coordinator when no append to a drive that is up is in flight */
        struct eng_deferred_list deferred;        /* discards that wait for those who may still read what is dead */
        struct eng_deferred *deferred_by_id;      /* uthash: those of deferred deletes */
        struct eng_deferred_list early_deferred;  /* reports that came before the store was ready */
        unsigned deferred_count;
        uint64_t deferred_bytes;               /* of their values */
        struct lp_timer deferred_timer;
        TAILQ_HEAD(eng_rebuilds, eng_rebuild) rebuilds; /* rebuild.c's own: of this loop's objects, under way, and those that wait for one of the same object */
        struct lost_object *lost_objects;  /* uthash, by value id; lost_objects.c's own */
};

/* owner: the loop */
struct eng_home_part {
        uint64_t id_counter;
        TAILQ_HEAD(, eng_merge) retrying;  /* merges that wait for their timer */
        bool merges_stopped;               /* at the end: none is tried again */
        struct eng_puts puts;              /* under way, oldest first */
        TAILQ_HEAD(, put_write) stale_writes; /* of those, shards that wait for the next view */
        struct eng_hasher hasher;          /* of small uploads */
        struct eng_hasher *bulk_hasher;    /* of others; never changes */
        struct eng_gets gets;              /* open, oldest first */
        struct eng_read_times read_times;  /* of shards */
        LIST_HEAD(, get_stripe) left_stripes; /* whose reads are still out, and nobody's (object/get_hedge.c) */
        struct eng_gets spare_gets;        /* memory of some that were: more than malloc() keeps at hand */
        unsigned spare_get_count;
        uint64_t get_count;                /* begun: the number of the last */
        uint64_t own_gets;                 /* of those, the store's own */
        uint64_t own_ids;                  /* of id_counter, the same */
        uint64_t clients_seen;             /* pacer.c's own */
        uint64_t readers_upto;             /* of those, the last that was begun when no record named the drive that leaves any more (rebalance.c) */
        eng_mask cover_in, cover_back;     /* the view the cover below was made for */
        const struct eng_placement *cover_map; /* and of its map */
        bool cover_valid;
        unsigned cover_count;
        uint16_t cover_drive[ENG_DRIVES_MAX];
        uint16_t cover_share[ENG_DRIVES_MAX]; /* groups it stands for */
        uint64_t *cover_pgs;               /* cover_count bitmaps of pg_words words */
};

/* owner: the loop */
struct eng_loop {
        struct eng_store *store;
        struct lp_loop *loop;
        unsigned index;
        struct eng_view view;
        struct eng_config_bucket **buckets;     /* sorted by name */
        unsigned bucket_count, bucket_cap;
        struct eng_config_bucket *buckets_by_id; /* uthash */
        struct lp_times steps[ENG_STEPS];  /* any thread reads */
        uint64_t pins_given;               /* numbers, of a home store's */
        struct eng_leader_part leader;
        struct eng_home_part home;
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

/* ---- the store ------------------------------------------------------------------------------- */

struct eng_member {
        uint8_t id[FMT_ID];
        uint8_t place_id[FMT_ID];      /* what placement hashes: see fmt_epoch */
        struct eng_site site;          /* of its slot */
        char path[ENG_PATH_MAX];         /* "" while missing */
        struct eng_drive *_Atomic drive; /* outermost of the stack of filters, or NULL; changed by the coordinator while no loop's view has it up */
        struct eng_drive *_Atomic local;
        enum eng_drive_state state;    /* owner: coordinator; read under health_lock */
        char reason[160];
        struct eng_identity identity;
        atomic_uint turn, failed;      /* turn: of the slot; a drive that takes it, or is back in it, begins the next. failed: eng_member_failed() */
        uint8_t *epoch;                /* newest epoch body it held when opened */
        size_t epoch_len;
        struct eng_epoch_history history;
        bool log_lost;                 /* its log ended before what its index covered */
};

/* The slot's drive has failed, or does not answer, in this turn: the coordinator was told. Any thread. */
static inline bool eng_member_failed(const struct eng_member *m)
{
        return atomic_load(&m->failed) == atomic_load(&m->turn) + 1;
}
/*
 * Coordinator, behind the change of m->drive if there is one. An error of the drive before that comes
 * late is of an earlier turn, and says nothing of this one.
 */
static inline void eng_member_new_turn(struct eng_member *m)
{
        atomic_fetch_add(&m->turn, 1);
}

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
        eng_mask adding;               /* FMT_EPOCH_ADDING: all of them become members by one epoch */
        eng_mask leaving;              /* FMT_EPOCH_LEAVING */
        eng_mask gone;                 /* FMT_EPOCH_GONE */
        eng_mask dropping_migrated;             /* FMT_EPOCH_DROPPING_MIGRATED */
};

enum eng_phase {
        ENG_PHASE_NEW,
        ENG_PHASE_OPENING,   /* threads open the drives */
        ENG_PHASE_EPOCH,     /* the first epoch of this run goes to its members */
        ENG_PHASE_RECONCILE,    /* tails are compared and made equal */
        ENG_PHASE_CONFIG,    /* buckets are read */
        ENG_PHASE_OPEN,      /* serving */
        ENG_PHASE_WAITING,   /* can't open: health says what for */
        ENG_PHASES
};

/* owner: coordinator (store->coord_loop) */
struct eng_coord {
        struct eng_store *store;
        enum eng_phase phase;
        struct eng_view view;          /* as last spread, or being spread */
        eng_mask present;              /* opened and not stale */
        uint8_t epoch_id[FMT_ID];
        eng_mask base;                 /* of the epoch in force: members of the last one before it that was surely in force */
        eng_mask added;                /* FMT_EPOCH_ADDED: goes with the next epoch that is in force */
        uint64_t in_force;             /* number and id of the last epoch that surely was; 0: not known */
        uint8_t in_force_id[FMT_ID];
        uint64_t strangers_pins_ns;    /* from when the store is open: nothing is discarded by proof (deferred_delete.c) */
        bool changing;                 /* an epoch change is under way */
        bool again;                    /* and another is needed after it */
        bool postponed;                /* one is needed, and etcd does not answer now (decided.c) */
        bool read_only;                /* too few drives for an epoch at the start: no new one was made */
        eng_mask next_in, next_joining; /* of the epoch that is being made */
        eng_mask next_back;            /* as the next one: lost_groups.c's own */
        uint64_t next_left[ENG_DRIVES_MAX];
        uint64_t next_number;
        struct eng_member *decided;    /* has the epoch that etcd has (decided.c); NULL: no cluster's */
        struct eng_decision *decision; /* decided.c's own; NULL: nothing is proposed */
        struct eng_feed *feed;         /* config_feed.c's own */
        struct eng_digests *digests;   /* config_digest.c's own */
        const struct eng_homes *homes; /* NULL: there are none */
        struct eng_home_copy *copy;    /* home_copy.c's own, of a home store */
        struct eng_buf *body, *next_body; /* of the epoch in force; of the one that is made: of a cluster's store, else NULL */
        struct eng_decided_own {
                uint64_t number;
                uint8_t id[FMT_ID];
        } found, own[ENG_DECIDED_OWN]; /* the epoch that etcd had at the start; those of this run, by number */
        struct lp_timer epoch_timer;   /* there was no memory to make it */
        struct epoch_append *append;   /* epoch_append.c's own: the record of an epoch is on its way; NULL: none */
        struct lp_timer append_timer;
        struct eng_shape shape, next_shape; /* of the epoch in force, and of that one */
        struct {
                eng_mask adding, leaving, gone;
                eng_mask migrated_drop;         /* shedding no more */
        } wish;                        /* what the next epoch is to say of these drives */
        eng_mask caught_up;            /* joining, and have caught up: they wait for the others that are being added */
        eng_mask gained;               /* drives that have all of the groups that come to them while a drive leaves */
        bool drained;                  /* no record names shards on the one that leaves, nor does anybody read by one that did */
        bool asking_readers;           /* whether somebody does */
        bool readers_counted;          /* loops know whom they had then (readers_upto) */
        atomic_bool read_from;         /* somebody does, or may */
        uint64_t leaving_since;        /* epoch; 0: from before this run */
        struct eng_placement *next_map; /* of next_shape; NULL: as it is */
        struct eng_placement *maps;    /* all that were made, the newest first */
        struct eng_catch_up *catch_up;         /* catch_up.c's own; NULL: no drive catches up */
        struct lp_timer catch_up_timer;
        struct eng_heal *heal;         /* heal.c's own */
        struct eng_head_check *head_check;   /* heads.c's own */
        struct eng_rebuild *late_rebuilds;   /* rebuild.c's own: dropped while drives had operations of them */
        struct eng_hot_add *hot_add;     /* hot_add.c's own; NULL: no drive is being opened */
        struct lp_timer hot_add_timer;
        struct eng_grow *grow;         /* grow.c's own; NULL: nothing is asked for */
        struct lp_timer grow_timer;
        struct eng_migrated_drop *migrated_drop;         /* migrated_drop.c's own; NULL: none under way */
        struct lp_timer migrated_drop_timer;
        struct eng_orphans *orphans;       /* orphans.c's own; NULL: none under way */
        struct lp_timer orphans_timer;   /* the last one was not done to its end */
        unsigned orphans_tries;          /* so many, one after the other */
        struct eng_verify *verify;     /* that an operator asked for; NULL: none under way */
        struct eng_scrub *scrub;       /* scrub.c's own; NULL: none */
        struct eng_scrub_drives *scrub_drives; /* scrub_drive.c's own; NULL: none */
        struct eng_drop *drop;         /* bucket_drop.c's own */
        uint64_t features;             /* bits that every drive with a slot is to have (bucket/features.c): only ever added to */
        eng_mask filling;              /* FMT_EPOCH_FILLING */
        eng_mask given_up;             /* FMT_EPOCH_GIVEN_UP */
        eng_mask lost_writes;          /* FMT_EPOCH_LOST_WRITES, while filling */
        eng_mask down;                 /* do not answer, and have not failed (down.c) */
        struct eng_down *down_looks;   /* down.c's own; NULL: none yet */
        struct eng_return {            /* down.c's own, of a cluster's slots: when one that fell out may come back; lp_now() */
                uint64_t calm_from;    /* a slot that falls out before that flaps */
                uint64_t pause, at;    /* the last pause; it is over at that time */
                uint64_t asked;        /* one that failed was asked whether it is another now */
                bool out;              /* it fell out, and has not been back since */
        } returns[ENG_DRIVES_MAX];
        eng_mask lost;                 /* found to have lost writes in this run, and not a member again yet (lost.c) */
        uint8_t lost_why[ENG_DRIVES_MAX];
        bool lost_forced;              /* the operator's word for lost groups waits for its epoch (lost_force.c) */
        eng_mask said_gone;            /* removed by an epoch that was decided and did not come into force: their nodes have let go of them */
        eng_mask believed;             /* no truths that are truths by the operator's word, until they are in (lost_groups.c) */
        bool forcing;                  /* recovery goes on without given_up by the operator's word, until it is over */
        eng_mask awaited;              /* drives without which recovery could not tell whether what is here is current, or not go on; 0: none */
        char waits_for[200];
        unsigned attempts;
        struct lp_timer health_timer;
        struct lp_msg start_msg;
        void *recovery;                /* recover.c's own */
        struct eng_config *config;     /* bucket_queue.c's own */
        struct eng_config_loading *config_loading; /* config_load.c's own; NULL: nothing to do */
};
/* The coordinator's: sets the phase, and traces it. */
void eng_phase_set(struct eng_coord *c, enum eng_phase phase);

struct eng_loop;
struct eng_store;

/*
 * What modules tell those above them, which they do not know. All are set before the loops run; a
 * test that has less than a store sets those that it comes to.
 */
struct eng_events {
        /* Coordinator: eng_drive_failed() was called for this drive, once. */
        void (*drive_failed)(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text);
        /* The same of eng_drive_erred(), for a drive that cannot be reached. */
        void (*drive_unreachable)(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text);
        /* Coordinator: eng_slot_silent() was called for another slot. */
        void (*slot_silent)(struct eng_store *store);
        /* A loop has taken a view. */
        void (*view_changed)(struct eng_loop *el);
        /*
         * Primary loop of its key: a member reported that no name has this value any more; its
         * shards are discarded, or left to the orphan collection.
         */
        void (*value_gone)(struct eng_loop *el, const uint8_t id[FMT_ID]);
        /* Any loop: eng_upkeep_group(). */
        void (*look_at_group)(struct eng_store *store, uint32_t group);
        /* Any loop: eng_upkeep_version(). */
        void (*look_at_version)(struct eng_store *store, const struct eng_name *name);
        /*
         * Coordinator: an epoch came into force, or a drive has caught up: there may be more to
         * rebuild, or less.
         */
        void (*work_changed)(struct eng_store *store);
        /* Coordinator: the store serves. Said again from time to time. */
        void (*serving)(struct eng_store *store);
};

/* The lock clock (lock_clock.c). owner: any thread, under lock */
struct eng_lock_clock {
        pthread_mutex_t lock;
        bool begun, frozen;
        int64_t frozen_ms;             /* the wall clock when it was frozen */
        int64_t confirmed_ms, before_ms; /* see struct eng_lock_state */
        int64_t mark_ms;               /* the highest time shown */
        int64_t anchor_ms;             /* it is not ahead of this and what the monotonic clock has advanced since anchor_ns */
        int64_t budget_ms;             /* at anchor_ns: it has grown since */
        uint64_t anchor_ns;
        int64_t gain_ms;               /* of this start: it is ahead by so much once the drives have taken it from the budget */
};

/* What a write of the mark keeps. */
struct eng_lock_point {
        struct fmt_lock_clock kept;
        uint64_t at_ns;                /* monotonic, when it was so */
        bool moves, confirmed;         /* moves: the lock clock shows it only when it is durable */
};

struct eng_store {
        /* set before the loops run, constant then */
        const struct eng_events *events;
        struct eng_options options;
        uint8_t store_id[FMT_ID];
        unsigned k, m;
        _Atomic uint64_t silent;       /* slots whose nodes did not answer some time: the start does not wait for them */
        unsigned pg_count, pg_words;   /* words of a bitmap of pg_count + 1 bits */
        unsigned meta_replicas;        /* m + 1 */
        uint32_t inline_max;           /* new objects up to this lie in their record */
        struct eng_member *members;    /* by slot */
        struct era_code *code;
        uint16_t *pg_loop;             /* primary loop of each PG (and CONFIG) */
        struct eng_pg *pgs;            /* pg_count + 1; each owned by its loop */
        uint32_t *pg_names;            /* coordinator: names of each, as the last whole walk of upkeep has met them; NULL: none has ended yet */
        struct eng_loop *loops;
        struct eng_loop *coord_loop;   /* the coordinator's: one of them */
        struct eng_hints hints;        /* of homes: that it has sent, or that have come */
        struct eng_entries *entries;   /* of the store (bucket/entries.c) */
        struct eng_hasher *hashers;        /* of the hash loops */
        unsigned hasher_count;
        unsigned loop_count;
        struct eng_drive_times *drive_times; /* ENG_DRIVES_MAX x loop_count: of each slot, each loop's */
        bool formatted;
        char first_path[256];
        atomic_uint drive_count;       /* slots of the drive map; the coordinator adds one, whose member is set before */

        struct eng_pacer pacer;        /* of the upkeep */
        struct eng_coord *coord;
        struct eng_home *home;         /* home/'s own; NULL: this store decides */
        struct eng_member unplaced[ENG_DRIVES_MAX + ENG_HOT_ADD_MAX]; /* all that were opened: those given, in that order, then those attached */
        unsigned unplaced_count;
        char empty_paths[512];         /* folders that are not drives, or cannot be told to be, for health */
        bool hangs[ENG_DRIVES_MAX];    /* of options.drives: it did not answer when it was looked at. Set before the loops run, constant then */
        bool stopping;                 /* the loops have stopped: what still comes back begins nothing new */
        bool left_behind;              /* at the end: a thread that opens a drive, or works for one that failed, has not come back, and may use all this */

        uint64_t first_epoch;          /* of this run */
        atomic_bool unsettled;         /* a change was given up while its record was on its way: it may count after the next start */
        atomic_bool unsettled_lost;    /* the same, where all members of its group fell silent: until all slots are in (lost_groups.c) */
        _Atomic uint64_t discards_from; /* lp_now(): what records have named is discarded from then on (deferred_delete.c); 0: the store is not open */
        atomic_bool head_checked;      /* heads.c: one is under way */
        atomic_bool full;              /* some drive is below its reserve */
        atomic_bool stalled;           /* a drive in use can take little more until another is back (eng_drive_stalled()) */
        atomic_uint_fast64_t degraded_reads, repaired_reads, reconciled_records;
        atomic_uint_fast64_t hedged_reads, hedges_won; /* extra reads of shards; stripes that were ready by them */
        atomic_uint_fast64_t features; /* bits that every drive with a slot has, durably: what needs them may be written */
        struct eng_lock_clock lock_clock;
        pthread_mutex_t health_lock;
        struct eng_health health;      /* under health_lock */
        struct eng_verify_report verify; /* under health_lock, like the next */
        struct eng_verify_report scrub, last_scrub; /* under way or halted; the last that came to its end */
        atomic_uint_fast64_t walks_begun; /* by scrub, of all names, from the first on: their number in this run; any thread, as the next */
        atomic_uint merges;            /* of homes: each on the next loop */
        atomic_uint_fast64_t walks_ended; /* number of the last of these that came to its end */
        struct eng_scrub_progress scrub_progress[ENG_DRIVES_MAX]; /* under health_lock, by slot */
        struct eng_heal_report heal, last_heal; /* under health_lock */
        struct eng_hot_add_report attached[ENG_HOT_ADD_REPORTS]; /* under health_lock, like the next; by number */
        uint64_t hot_add_number;
        struct eng_lost_object lost_said[ENG_LOST_SAID]; /* under health_lock, like the next; by number */
        uint64_t lost_number;
        struct eng_outlook outlook;    /* under health_lock, like the next */
        struct eng_force_report forced;
};

/* Of each loop. */
static inline struct eng_drive_times *eng_drive_times_of(const struct eng_store *store, unsigned slot)
{
        return store->drive_times + (size_t)slot * store->loop_count;
}
/* Of the store's own loops: the caller's. */
static inline struct eng_loop *eng_here(struct eng_store *store)
{
        struct lp_loop *self = lp_self();
        struct eng_loop *el = &store->loops[lp_index(self)];

        assert(lp_index(self) < store->loop_count && el->loop == self); /* a hash loop has a number, too */
        return el;
}
/* What decides is in another process (docs/design/any-gateway.md). */
static inline bool eng_is_home(const struct eng_store *store)
{
        return store->options.leader != NULL;
}
/* For asserts: the caller is on this loop; on the coordinator's. */
static inline bool eng_on_loop(const struct eng_loop *el)
{
        return lp_self() == el->loop;
}
static inline bool eng_on_coordinator(const struct eng_store *store)
{
        return eng_on_loop(store->coord_loop);
}
static inline struct eng_loop *eng_primary(struct eng_store *store, uint32_t pg)
{
        assert(pg <= store->pg_count); /* CONFIG is the last */
        return &store->loops[store->pg_loop[pg]];
}

/*
 * Metadata members of a group in a view: what its records go to, and which of those speak for it.
 */
static inline eng_mask eng_writers(const struct eng_view *view, uint32_t pg)
{
        return (view->map->groups[pg].before | view->map->groups[pg].after) & (view->in | view->joining);
}
static inline eng_mask eng_speakers(const struct eng_view *view, uint32_t pg)
{
        const eng_mask members = view->map->groups[pg].before;

        if ((members & view->in) != 0 || view->back == 0)
                return members & view->in;
        return eng_truth_of(members, view->left) & view->back;
}
/* Those that are asked about names: each speaks for some group. */
static inline eng_mask eng_all_speakers(const struct eng_view *view)
{
        return (view->in | view->back) & view->up;
}

/*
 * Whether a drive's answer that it has no such name, or not some among others, counts: it still
 * speaks for the group. One that was asked before the group went from it may have forgotten the
 * name when it answers (migrated_drop.c, which begins when all loops have the new map).
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

/*
 * Whether `next` may go on as the epoch behind one of `prev`, by the store's code and the
 * coordinator's view of its drives.
 */
static inline bool eng_could_form(const struct eng_store *store, eng_mask next, eng_mask prev)
{
        return eng_placement_can_form(store->coord->view.map, next, prev, 0, store->k, store->m);
}

/*
 * Clients' changes are taken. A forced epoch may be of too few drives for them: until others have
 * joined, it is writable for what brings these in. Where groups go by themselves, those that have
 * too few members refuse (txn.c).
 */
static inline bool eng_takes_changes(const struct eng_store *store, const struct eng_view *view)
{
        return view->writable && (view->map->by_groups || eng_epoch_can_write(view->in, eng_counted(view), store->k, store->m));
}

/* And so are objects with shards: enough of these could be placed. */
static inline bool eng_takes_shards(const struct eng_store *store, const struct eng_view *view)
{
        return __builtin_popcountll(view->in) >= (int)(store->m == 0 ? store->k : store->k + 1);
}

/* Epochs that have such a slot must be understood: all drives have FMT_FEATURE_SITES before them. */
static inline bool eng_site_given(const struct eng_site *site)
{
        return site->node != 0 || site->rack != 0;
}

/* A new object id, unique for ever: epoch, loop, node, counter (object_id.c). */
void eng_new_id(struct eng_loop *el, uint8_t id[FMT_ID]);
#define ENG_MAKER_HOMES (63u << 10) /* from here on makers are homes; below they are leaders of pools, or nodes that were */
/* Whom ids made here name as their maker. */
static inline uint16_t eng_maker(const struct eng_store *store)
{
        return store->options.maker != 0 ? store->options.maker : store->options.site.node;
}
/* The counter that stands in an id. */
uint64_t eng_id_counter(uint16_t node, uint32_t boot, uint64_t count);
/* When an object id was made: one loop of one node makes them in order of run, then count. */
struct eng_made {
        uint16_t node, loop;
        uint64_t run;                  /* the node's boot; of node 0, the epoch */
        uint64_t count;
};
void eng_id_made(const uint8_t id[FMT_ID], struct eng_made *out);
/* No id that the loop makes from now on was made before this. */
void eng_id_next(const struct eng_loop *el, struct eng_made *out);
/* Of one loop of one node. */
bool eng_made_before(const struct eng_made *a, const struct eng_made *b);
/*
 * By an earlier run of this node, or of the one machine that the store was on; once the store is
 * open. False: by this run, or by another node, of whose runs nothing is known.
 */
bool eng_made_before_run(const struct eng_store *store, const struct eng_made *made);
/*
 * A loop's copy of the configuration (bucket_copy.c): the bucket of an id, of a name, or NULL;
 * where the first is whose name is not below s.
 */
struct eng_config_bucket *eng_bucket_by_id(const struct eng_loop *el, uint64_t id);
struct eng_config_bucket *eng_bucket_find(const struct eng_loop *el, struct eng_str name);
unsigned eng_bucket_position(const struct eng_loop *el, struct eng_str s);

/*
 * Whether these features of the store are set, so that what needs them may be written; if not, sets
 * them (bucket/features.c): any loop, and done() comes there. A change that needs one asks before it
 * is submitted.
 */
static inline bool eng_features_are(const struct eng_store *store, uint64_t bits)
{
        return (bits & ~atomic_load(&store->features)) == 0;
}
void eng_features_want(struct eng_store *store, uint64_t bits, eng_done done, void *arg);

/* The wall clock as the lock clock sees it. */
int64_t eng_lock_wall(const struct eng_store *store);
/* A start: what the drives have kept; NULL: there was no lock clock yet. Nothing the second time. */
void eng_lock_begin(struct eng_store *store, const struct fmt_lock_clock *kept);
/*
 * What the drives are to keep now: where it is, and what it gains by the start. confirmed_ms: the time
 * that the operator has confirmed, instead; 0: none.
 */
void eng_lock_point(struct eng_store *store, int64_t confirmed_ms, struct eng_lock_point *out);
/* The drives have it. */
void eng_lock_reach(struct eng_store *store, const struct eng_lock_point *point);

/* ---- all loops (broadcast.c) ---- */

/*
 * Runs something on every loop and tells the coordinator when all have done it. run() gives true
 * when done, or false after it has kept ack to post it to the coordinator later. owner:
 * coordinator; run on each loop
 */
struct eng_broadcast {
        struct eng_store *store;
        bool (*run)(struct eng_loop *el, void *arg, struct lp_msg *ack);
        void (*done)(struct eng_store *store, void *arg);
        void *arg;
        unsigned left;
        struct eng_broadcast_msg {
                struct lp_msg msg;
                struct eng_broadcast *broadcast;
                struct eng_loop *to;
        } msgs[];                      /* one per loop */
};
/* Coordinator. -ENOMEM. */
int eng_broadcast(struct eng_store *store, bool (*run)(struct eng_loop *el, void *arg, struct lp_msg *ack),
             void (*done)(struct eng_store *store, void *arg), void *arg);

/*
 * Any loop: the drive that is in this slot failed; text says why. Told to the coordinator once.
 * drive: whose word it is, as in members[].drive or .local: one that another has taken the place of
 * meanwhile changes nothing.
 */
void eng_drive_failed(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text);
/*
 * Any loop: the drive answered with this error what it has to do, so that nothing goes on with it.
 * It has failed; or, -EHOSTUNREACH, it is down: nobody knows what it did of what was asked, and it
 * may come back (down.c). Told to the coordinator once, whichever was first.
 */
void eng_drive_erred(struct eng_store *store, unsigned slot, const struct eng_drive *drive, int rv, const char *text);
/* Any loop, of a cluster's store: this process does not lead any more. In the product it does not return. */
void eng_cluster_ended(struct eng_store *store, const char *why);

/* Coordinator: gives every loop this view; done when all have taken it. */
void eng_view_spread(struct eng_store *store, const struct eng_view *view, void (*done)(struct eng_store *store, void *arg));

/*
 * Any loop: damage was found that concerns this placement group. Its members' names are compared,
 * and its objects' shards looked for, before those of other groups. A group that is not one of the
 * store's is ignored. The request is lost if there is no memory for it, or the store closes: the
 * next walk of all groups comes to it.
 */
void eng_upkeep_group(struct eng_store *store, uint32_t group);
/*
 * The key's head names this version, and no member has it: if that is so, the head is written anew. One at a
 * time is looked at; others are met again by who asks for them again.
 */
void eng_upkeep_version(struct eng_store *store, const struct eng_name *name);

#endif
