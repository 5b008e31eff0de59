/*
 * mend.h - one object being given back the shards it lacks (private to mend.c and heal.c).
 */
#ifndef MILLRACE_ENGINE_MEND_H
#define MILLRACE_ENGINE_MEND_H

#include <endian.h>

#include "engine/store.h"

#define ENG_MEND_SLACK_NS (5ull * 1000 * 1000) /* it may be this far ahead of its rate */

/* One part that lacks shards, and where they go: targets[run * (k+m) + shard] is a drive slot, or ENG_NO_DRIVE. part points into mend->value. */
struct eng_mend_plan {
        STAILQ_ENTRY(eng_mend_plan) link;
        struct eng_part part;
        uint64_t offset;               /* of the part in the object */
        uint16_t targets[];
};
STAILQ_HEAD(eng_mend_plans, eng_mend_plan);

struct eng_mend_op {
        struct eng_op op;              /* first */
        struct eng_mend *mend;
};

/* owner: the loop it was started on; ops: the drives while out */
struct eng_mend {
        struct eng_store *store;
        struct eng_loop *el;
        void (*done)(void *arg, int rv, uint64_t bytes);
        void *arg;
        struct eng_get *get;
        struct eng_buf *value, *patched;
        struct eng_mend_plans plans;
        struct eng_mend_plan *plan;    /* being written */
        struct era_code *code;         /* of that part */
        uint64_t rate, written, started;
        struct lp_timer timer;
        struct lp_reserve reserve;
        bool granted, stripe_begun;
        void *unit, *parity[ERA_MAX_M];
        uint32_t stripe, unit_len, fill;
        unsigned unit_no, in_flight;
        uint64_t stripe_left;          /* data bytes of the stripe that have not come */
        const uint8_t *span;           /* from the get, not copied yet */
        size_t span_len;
        eng_mask touched;
        int error;
        struct eng_txn txn;
        struct eng_mend_op ops[ENG_DRIVES_MAX];
};

/* Whether a part names no drive for some shard. */
bool eng_mend_lacks(const struct eng_part *part);
/* Whether a part names one of these drives. */
bool eng_mend_relies_on(const struct eng_part *part, eng_mask drives);
/*
 * Mends one object, named by its OBJECT name, writing at most rate bytes/s. done comes later, on this loop: 0 when nothing is left that could be
 * done (also if the object is gone, or no drive is fit to take what it lacks), and how many bytes were written. NULL: no memory, not begun.
 */
struct eng_mend *eng_mend_start(struct eng_store *store, const struct eng_name *name, uint64_t rate,
                                void (*done)(void *arg, int rv, uint64_t bytes), void *arg);
/* The loops have stopped around it. */
void eng_mend_drop(struct eng_mend *mend);

#endif
