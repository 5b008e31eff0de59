/*
 * walk_worker.h - one loop's share of the upkeep: a walk over the names of the groups whose primary
 * it is (private to heal.c and walk_worker.c).
 */
#ifndef MILLRACE_ENGINE_WALK_WORKER_H
#define MILLRACE_ENGINE_WALK_WORKER_H

#include "engine/resync/resync.h"
#include "engine/upkeep/rebuild.h"
#include "engine/walk/walk.h"

#define ENG_WALK_WORKER_REBUILDS 8u              /* objects being repaired at the same time */
#define ENG_WALK_WORKER_AGREES 16u            /* names being made equal */

/*
 * What all workers are to look for. owner: coordinator; constant while workers walk all groups, and
 * then alone for them to read
 */
struct eng_walk_worker_order {
        eng_mask filling;              /* drives that may lack shards which records name on them */
        eng_mask homeless;             /* and those that were leaving, or are gone: what records name on them goes to others */
        struct eng_name from;          /* objects before this name lack nothing: it goes on from there */
        struct eng_name start;         /* a plain object's: nothing is known of those before it, but they come behind the others; len 0: the
                                          first name. Not both */
};

/* What has come since it was last told. */
struct eng_walk_worker_counts {
        uint64_t looked_at, todo_objects, todo_bytes, done_objects, done_bytes, failed_objects, waiting_parts, too_close, moved_apart;
        uint64_t differing_names, repaired_names, undecided_names;
        uint64_t rebuilt_objects, rebuilt_bytes, written; /* written: of the walk alone */
        int64_t lacking[ENG_LACKS];    /* objects, as struct eng_heal_report's */
};

/* A walk over all groups of the worker, or over some that somebody has asked for. */
struct eng_walk_worker_tour {
        bool under_way;
        enum fmt_space space;          /* OBJECT: of plain objects, and then of versions: an object becomes a version, never the other way (V7) */
        bool versions;                 /* those */
        bool failed;                   /* a repair was, and is to be tried again */
        bool first;                    /* nothing was left out yet: the objects are gone through for the first time */
        unsigned level;                /* objects that lack so many shards are being repaired: the most that was met, then fewer; 0: moved apart */
        struct eng_name at, to;        /* where it is, while another tour goes first */
        bool after;
        bool round;                    /* objects before the order's start are being walked */
        struct eng_name left[ERA_MAX_M + 1]; /* by level: the first object that was left for later; len 0: none */
        struct eng_name lacking;       /* the first object that is left as it is; len 0: none */
};

struct eng_walk_worker;
struct eng_walk_worker_rebuild {
        struct eng_walk_worker *worker;
        struct eng_rebuild *rebuild;         /* NULL: free */
        struct eng_name name;
        uint64_t bytes;                /* of the shards it lacks */
        bool all;                      /* of the walk over all groups */
        uint32_t pg;                   /* that it was met in */
        uint64_t apart;                /* shards that lie too close, and will not */
        unsigned lacks, stays;         /* shards that it lacks now, and when it has been repaired, by the drives that are out */
        bool first;                    /* begun when the object was met for the first time */
        unsigned tries;                /* how often it may be begun anew, what it knew having been overtaken */
};

struct eng_walk_worker_agree {
        struct eng_agree agree;        /* first */
        struct eng_walk_worker *worker;
        bool out;
};

/* owner: its loop */
struct eng_walk_worker {
        struct eng_store *store;
        struct eng_loop *el;
        const struct eng_walk_worker_order *order;
        uint32_t *names;               /* by group: names met by the walk over all groups; of its groups alone, while that is under way */
        struct eng_walk *walk;
        struct eng_walk_worker_tour all, some; /* some: of the groups in wanted */
        struct eng_walk_worker_tour *now;     /* whose names are being walked; NULL: neither */
        uint64_t *wanted;              /* groups that somebody found damage in; NULL: none yet */
        bool is_wanted;                /* some were added and are not being walked */
        uint64_t *missed;              /* of those that were walked: an object could not be repaired, so that they are wanted again when missed_timer expires */
        bool missed_waits;             /* there are some */
        bool owes;                     /* there were some, and since then nothing that was asked for has come to an end */
        struct lp_timer missed_timer;
        uint64_t missed_pause;         /* until then; grows while the same is missed again */
        uint64_t some_began, all_until; /* lp_now(): the walk of those did; all groups' turn lasts at least till then ... */
        unsigned all_rows;             /* ... and for so many names more */
        bool may;                      /* the first walk has begun: there is a view */
        bool begun;                    /* the walk over all groups; its end has not been told */
        bool stop;                     /* the coordinator waits for that */
        bool stepping, waiting, posted; /* in eng_walk_worker_step(); for the pacer; for its turn among the loop's messages */
        struct eng_pacer_turn paid;    /* the last turn that the pacer gave ... */
        unsigned paid_rows;            /* ... and names of it that have not been taken */
        bool skips;                    /* what is to be told as skipped */
        bool blind;                    /* names of some group could not be read: what is counted is not all */
        uint64_t began, took;          /* lp_now() when this walk did; nanoseconds of the last one that came to its end */
        int64_t lacking[ENG_LACKS], stays[ENG_LACKS]; /* objects of this walk that lack shards, and those that will when it is over */
        bool has_row, compared;        /* the row under way; it has been compared */
        struct eng_walk_row row;
        struct eng_walk_worker_rebuild rebuilds[ENG_WALK_WORKER_REBUILDS];
        struct eng_walk_worker_agree agrees[ENG_WALK_WORKER_AGREES];
        unsigned out;                  /* of those, without what some has begun of the first kind */
        struct eng_digest digest[ENG_DRIVES_MAX]; /* of what was written and not told yet */
        struct eng_walk_worker_counts counts;
        struct lp_timer timer;
        struct lp_msg turn, over;
        void (*ended)(struct eng_walk_worker *worker); /* coordinator; as order, constant */
        struct eng_name place;         /* under health_lock: objects that the walk comes to before it lack nothing */
        bool surveyed;                 /* likewise: all objects have been looked at */
        bool skipped;                  /* likewise: one that could be given back what it lacks was not: drives were too few */
        bool asked;                    /* likewise: a repair that somebody asked for has failed, and is tried again, or will be */
};

/* Nothing runs yet; order and ended are set. -ENOMEM; to be freed in any case. */
int eng_walk_worker_make(struct eng_walk_worker *worker, struct eng_loop *el);
/* On its loop. Begins to walk all groups; over is posted to the coordinator when that has ended. */
void eng_walk_worker_begin(struct eng_walk_worker *worker);
/* On its loop: what it has begun is cut off, and it ends. Harmless when it is not under way. */
void eng_walk_worker_stop(struct eng_walk_worker *worker);
/* On its loop: this group goes first. */
void eng_walk_worker_look(struct eng_walk_worker *worker, uint32_t group);
/* The loops have stopped: drops what is under way. */
void eng_walk_worker_drop(struct eng_walk_worker *worker);
/* All drives are closed. */
void eng_walk_worker_free(struct eng_walk_worker *worker);

/* ---- between walk_worker.c and walk_worker_look.c -------------------------------------------- */

/* An object of this group, which somebody asked for, could not be repaired: it is looked at again, after a while. */
void eng_walk_worker_missed(struct eng_walk_worker *worker, uint32_t group);
/* Goes on, if something can be done. Harmless at any time. */
void eng_walk_worker_step(struct eng_walk_worker *worker);
/*
 * Compares the row under way, and looks for what it lacks. False: too many repairs are under way,
 * it has to be called again.
 */
bool eng_walk_worker_look_at_row(struct eng_walk_worker *worker);
/* Adds what has come to the store's report. */
void eng_walk_worker_tell(struct eng_walk_worker *worker);
/* Order of two names. */
int eng_walk_worker_compare(const struct eng_name *a, const struct eng_name *b);
/*
 * Order in which a walk comes to two names that begins at start: of plain objects those before it
 * come last, then come versions.
 */
int eng_walk_worker_compare_from(const struct eng_name *start, const struct eng_name *a, const struct eng_name *b);
/* Of two names the first; an empty one is none. */
void eng_walk_worker_earlier(struct eng_name *of, const struct eng_name *name);

#endif
