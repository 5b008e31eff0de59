/*
 * lane.h - one loop's share of the upkeep: a walk over the names of the groups whose primary it is (private to heal.c and lane.c).
 */
#ifndef MILLRACE_ENGINE_LANE_H
#define MILLRACE_ENGINE_LANE_H

#include "engine/resync/resync.h"
#include "engine/upkeep/mend.h"
#include "engine/walk/walk.h"

#define ENG_LANE_MENDS 8u              /* objects being repaired at the same time */
#define ENG_LANE_AGREES 16u            /* names being made equal */

/* What all lanes are to look for. owner: coordinator; constant while lanes walk all groups, and then alone for them to read */
struct eng_lane_order {
        eng_mask filling;              /* drives that may lack shards which records name on them */
        eng_mask homeless;             /* and those that were leaving, or are gone: what records name on them goes to others */
        struct eng_name from;          /* objects before this name lack nothing: it goes on from there */
        struct eng_name start;         /* nothing is known of those before it, but they come last; len 0: the first name. Not both */
};

/* What has come since it was last told. */
struct eng_lane_counts {
        uint64_t looked_at, todo_objects, todo_bytes, done_objects, done_bytes, failed_objects, waiting_parts;
        uint64_t differing_names, repaired_names, undecided_names;
        uint64_t mended_objects, mended_bytes, written; /* written: of the walk alone */
        int64_t below;
};

/* A walk over all groups of the lane, or over some that somebody has asked for. */
struct eng_lane_tour {
        bool under_way;
        enum fmt_space space;
        bool first;                    /* nothing was left out yet: the objects are gone through for the first time */
        unsigned level;                /* objects that lack so many shards are being repaired: the most that was met, then fewer */
        struct eng_name at, to;        /* where it is, while another tour goes first */
        bool after;
        bool round;                    /* objects before the order's start are being walked */
        struct eng_name left[ERA_MAX_M + 1]; /* by level: the first object that was left for later; len 0: none */
        struct eng_name lacking;       /* the first object that is left as it is; len 0: none */
};

struct eng_lane;
struct eng_lane_mend {
        struct eng_lane *lane;
        struct eng_mend *mend;         /* NULL: free */
        struct eng_name name;
        uint64_t bytes;                /* of the shards it lacks */
        bool all;                      /* of the walk over all groups */
        bool heals;                    /* it lacks shards now, and nothing afterwards */
        bool first;                    /* begun when the object was met for the first time */
        unsigned tries;                /* how often it may be begun anew, what it knew having been overtaken */
};

struct eng_lane_agree {
        struct eng_agree agree;        /* first */
        struct eng_lane *lane;
        bool out;
};

/* owner: its loop */
struct eng_lane {
        struct eng_store *store;
        struct eng_loop *el;
        const struct eng_lane_order *order;
        struct eng_walk *walk;
        struct eng_lane_tour all, some; /* some: of the groups in wanted */
        struct eng_lane_tour *now;     /* whose names are being walked; NULL: neither */
        uint64_t *wanted;              /* groups that somebody found damage in; NULL: none yet */
        bool is_wanted;                /* some were added and are not being walked */
        uint64_t some_began, all_until; /* lp_now(): the walk of those did; all groups' turn lasts at least till then ... */
        unsigned all_rows;             /* ... and for so many names more */
        bool may;                      /* the first walk has begun: there is a view */
        bool begun;                    /* the walk over all groups; its end has not been told */
        bool stop;                     /* the coordinator waits for that */
        bool stepping, waiting, posted; /* in lane_step(); for the pacer; for its turn among the loop's messages */
        struct eng_pacer_turn paid;    /* the last turn that the pacer gave ... */
        unsigned paid_rows;            /* ... and names of it that have not been taken */
        bool skips;                    /* what is to be told as skipped */
        bool blind;                    /* names of some group could not be read: what is counted is not all */
        uint64_t began, took;          /* lp_now() when this walk did; nanoseconds of the last one that came to its end */
        int64_t below, stays;          /* objects of this walk that lack shards, and those of them that will when it is over */
        bool has_row, compared;        /* the row under way; it has been compared */
        struct eng_walk_row row;
        struct eng_lane_mend mends[ENG_LANE_MENDS];
        struct eng_lane_agree agrees[ENG_LANE_AGREES];
        unsigned out;                  /* of those, without what some has begun of the first kind */
        struct eng_digest digest[ENG_DRIVES_MAX]; /* of what was written and not told yet */
        struct eng_lane_counts counts;
        struct lp_timer timer;
        struct lp_msg turn, over;
        void (*ended)(struct eng_lane *lane); /* coordinator; as order, constant */
        struct eng_name place;         /* under health_lock: objects that the walk comes to before it lack nothing */
        bool surveyed;                 /* likewise: all objects have been looked at */
        bool skipped;                  /* likewise: one that could be given back what it lacks was not: drives were too few */
};

/* Nothing runs yet; order and ended are set. -ENOMEM; to be freed in any case. */
int eng_lane_make(struct eng_lane *lane, struct eng_loop *el);
/* On its loop. Begins to walk all groups; over is posted to the coordinator when that has ended. */
void eng_lane_begin(struct eng_lane *lane);
/* On its loop: what it has begun is cut off, and it ends. Harmless when it is not under way. */
void eng_lane_stop(struct eng_lane *lane);
/* On its loop: this group goes first. */
void eng_lane_look(struct eng_lane *lane, uint32_t group);
/* The loops have stopped: drops what is under way. */
void eng_lane_drop(struct eng_lane *lane);
/* All drives are closed. */
void eng_lane_free(struct eng_lane *lane);

/* ---- between lane.c and lane_look.c ------------------------------------------------------------------------------- */

/* Goes on, if something can be done. Harmless at any time. */
void eng_lane_step(struct eng_lane *lane);
/* Compares the row under way, and looks for what it lacks. False: too many repairs are under way, it has to be called again. */
bool eng_lane_look_at_row(struct eng_lane *lane);
/* Adds what has come to the store's report. */
void eng_lane_tell(struct eng_lane *lane);
/* Order of two names. */
int eng_lane_compare(const struct eng_name *a, const struct eng_name *b);
/* Order in which a walk comes to two names that begins at start: those before it come last. */
int eng_lane_compare_from(const struct eng_name *start, const struct eng_name *a, const struct eng_name *b);
/* Of two names the first; an empty one is none. */
void eng_lane_earlier(struct eng_name *of, const struct eng_name *name);

#endif
