/*
 * verify.h - a verification or a scrub's walk of all names, under way (private to verify.c,
 * verify_copies.c and verify_value.c).
 *
 * It goes in steps, one after the other: verify.c takes the next name, verify_copies.c looks at all
 * members' copies of it, verify_value.c looks for the shards of its value. Each step ends by
 * calling the next; nothing else of it is under way then.
 */
#ifndef MILLRACE_ENGINE_VERIFY_H
#define MILLRACE_ENGINE_VERIFY_H

#include "engine/resync/resync.h"
#include "engine/upkeep/rebuild.h"
#include "engine/walk/walk.h"

#define ENG_VERIFY_AGAIN_NS (100ull * 1000 * 1000) /* before a drive that could not look is asked again */

/* What is asked of one drive. value: the answer; NULL: none */
struct eng_verify_copy {
        struct eng_op op;              /* first */
        struct eng_verify *v;
        struct eng_buf *value;
        int result;
};

/* owner: coordinator; ops: the drives while out */
struct eng_verify {
        struct eng_store *store;
        struct lp_msg msg;
        struct eng_verify_report report, *out; /* out: where it is published, under health_lock */
        bool held_only;                /* a scrub's: shards are asked for, not read */
        void (*ended)(void *arg);
        void *arg;
        /* when it goes on */
        struct lp_timer timer;
        void (*then)(struct eng_verify *v);
        struct eng_pacer_share share;
        uint8_t turned_away[ENG_DRIVES_MAX]; /* times that a drive could not look, one after the other */
        /* the walk */
        struct eng_walk *walk;
        struct eng_name name, place;   /* under way; the last that is through, len 0: none */
        bool taking, through;          /* next_name() begins with the name; nothing of it is left to be waited for */
        uint64_t epoch;                /* in which the walk asks, and whom */
        eng_mask drives;
        eng_mask unscanned;            /* of these, those whose names could not be read: till the drives change */
        /* copies of the name */
        struct eng_verify_copy copies[ENG_DRIVES_MAX];
        uint32_t pg;
        unsigned out_copies;           /* being asked for */
        unsigned round;                /* behind repairs they are looked up anew */
        eng_mask asked, have, absent, damaged, unread, again; /* again: could not look, and are asked once more */
        eng_mask to_resync;               /* were damaged, and have not been found whole since */
        struct eng_resync resync;
        struct eng_agree agree;
        /* the value whose shards are looked for */
        struct eng_buf *value;
        eng_mask same;                 /* members that have it */
        size_t part_pos;
        struct eng_part part;
        bool has_part;
        uint32_t stripe;
        unsigned shard, good;          /* of the stripe */
        unsigned unread_here;          /* of the stripe: shards of which nobody knows, since their drives could not look */
        bool unreadable;
        uint64_t damaged_here, missing_here; /* of this value */
        unsigned reading;              /* drive */
        struct eng_op op;
        struct lp_reserve reserve;
        void *slot;
        struct eng_rebuild_bad *bad;
        unsigned bad_count;
        struct eng_rebuild *rebuild;
};

/* ---- verify.c -------------------------------------------------------------------------------- */

/* The drive is a member and answers. */
bool eng_verify_usable(const struct eng_verify *v, unsigned drive);
/* then() comes after so long, unless the store is closed. */
void eng_verify_later(struct eng_verify *v, uint64_t ns, void (*then)(struct eng_verify *v));
/* True: it is ahead of its rate, and then() comes later. */
bool eng_verify_waits(struct eng_verify *v, void (*then)(struct eng_verify *v));
/* So many bytes were read. */
void eng_verify_spend(struct eng_verify *v, uint64_t bytes);
/*
 * The drive lacks memory or buffers, or has failed: nothing is known of what was asked for. True:
 * it is to be asked again after ENG_VERIFY_AGAIN_NS. One that stays so for long is asked once for
 * each name and shard, until it answers again.
 */
bool eng_verify_asks_again(struct eng_verify *v, unsigned drive);
/* The name is through. */
void eng_verify_next(struct eng_verify *v);

/* ---- verify_copies.c ------------------------------------------------------------------------- */

/* Looks at all copies of v->name; then comes eng_verify_value(), or eng_verify_next(). */
void eng_verify_copies(struct eng_verify *v);
/*
 * Asks one member for its copy: v->copies[slot] is the answer when done() comes, its value with
 * eng_verify_take_copy().
 */
void eng_verify_ask_copy(struct eng_verify *v, unsigned slot, unsigned flags, void (*done)(struct eng_op *op));
/* Takes an answer into its copy. */
struct eng_verify_copy *eng_verify_take_copy(struct eng_op *op);
void eng_verify_drop_copies(struct eng_verify *v);

/* ---- verify_value.c -------------------------------------------------------------------------- */

/* Looks for the shards of v->value, a reference of its own; then comes eng_verify_next(). */
void eng_verify_value(struct eng_verify *v);
void eng_verify_drop_value(struct eng_verify *v);
/* The most shards that are noted to be repaired of one object. */
#define ENG_VERIFY_BAD_MAX 256u

#endif
