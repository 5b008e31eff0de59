/*
 * mend.h - one object being given back the shards it lacks (private to the upkeep and verification).
 */
#ifndef MILLRACE_ENGINE_MEND_H
#define MILLRACE_ENGINE_MEND_H

#include <endian.h>

#include "engine/pacer.h"
#include "engine/store.h"

/*
 * One part that lacks shards. targets[run * (k+m) + shard]: the drive that is to have a shard for which the record names none, else
 * ENG_NO_DRIVE. held: of shards on drives that are being filled, those that are there already: words bits for each run and shard. part
 * points into mend->value.
 */
struct eng_mend_plan {
        STAILQ_ENTRY(eng_mend_plan) link;
        struct eng_part part;
        uint64_t offset;               /* of the part in the object */
        bool wanted;                   /* something is to be written */
        unsigned words;
        uint64_t *held;                /* NULL: it names no drive that is being filled */
        uint16_t targets[];
};
STAILQ_HEAD(eng_mend_plans, eng_mend_plan);

/* A shard that was found damaged or missing on the drive that a record names for it. */
struct eng_mend_bad {
        uint8_t id[FMT_ID];            /* of the part */
        uint32_t stripe;
        uint8_t shard;
};

typedef void (*eng_mend_done)(void *arg, int rv, uint64_t bytes);

struct eng_mend_op {
        struct eng_op op;              /* first */
        struct eng_mend *mend;
        unsigned target;               /* of a shard */
};

/* owner: the primary loop of its key, from when its message has come; ops: the drives while out */
struct eng_mend {
        struct eng_store *store;
        struct eng_loop *el, *home;    /* home: the loop it was started on, where done comes */
        struct lp_msg msg;             /* there and back, where these are two */
        struct eng_mend *next_late;    /* see eng_mend_free_late() */
        TAILQ_ENTRY(eng_mend) link;    /* el->mends, while listed */
        bool listed, ended;
        int result;                    /* once ended */
        struct eng_name name;
        bool waits;                    /* another repair of the same object is under way */
        eng_mend_done done;
        void *arg;
        struct eng_get *get;
        struct eng_buf *value, *patched;
        const struct eng_mend_bad *bad; /* caller's */
        unsigned bad_count;
        eng_mask filling;              /* drives that may lack shards which records name on them */
        eng_mask homeless;             /* drives that are leaving or gone: shards on them are to be named elsewhere */
        struct eng_mend_plans plans;
        struct eng_op ask;             /* HELD */
        unsigned ask_run, ask_shard;
        uint32_t ask_stripe;           /* in the run */
        struct eng_digest *digests;    /* by drive, the caller's; added to as shards are written */
        bool named_new;                /* a drive was found for a shard that had none: the record is to say so */
        struct eng_mend_plan *plan;    /* being written */
        struct era_code *code;         /* of that part */
        uint64_t written;
        uint64_t epoch;                /* in which it began */
        struct lp_timer timer;
        struct lp_reserve reserve;
        bool queued, granted, stripe_begun; /* queued: in line for slots */
        bool paid;                     /* of the stripe under way: something was written */
        void *unit, *parity[ERA_MAX_M];
        uint32_t stripe, unit_len, fill;
        unsigned unit_no, in_flight;
        uint64_t stripe_left;          /* data bytes of the stripe that have not come */
        const uint8_t *span;           /* from the get, not copied yet */
        size_t span_len;
        eng_mask touched;
        int error;
        struct eng_txn txn;
        /* owner: the key's primary loop, while the txn is there */
        bool over;                     /* the name does not have these parts any more, or names drives for all their shards */
        struct eng_mend_plan *discarding; /* the next plan whose shards are looked at for the discard */
        atomic_uint discards_out;
        struct eng_mend_op ops[ENG_DRIVES_MAX];
};

/* The most shards that any run of a part lacks: no drive is named, or one of these. */
unsigned eng_mend_lack(const struct eng_part *part, eng_mask drives);
/* Bytes of the shards that it lacks in that sense. */
uint64_t eng_mend_lack_bytes(const struct eng_part *part, eng_mask drives);
/*
 * Mends one object, named by its OBJECT name, on the primary loop of its key. done comes later, on the loop it was started on: 0 when nothing is left that could be
 * done (also if the object is gone, or no drive is fit to take what it lacks), and how many bytes were written. digests: one for each drive, to
 * which what is written is added (what a failure leaves of no use included); only where it was started on the primary loop. bad: shards to be written anew, as
 * far as they are still the object's; valid until done. filling: drives that may lack shards which records name on them, and are asked. What is written
 * is paid for at store->pacer. NULL: no memory, not begun.
 *
 * One object is repaired by one mend at a time: another one begins when the first has ended, and reads the value anew.
 */
struct eng_mend_order {
        const struct eng_name *name;
        eng_mask filling;
        struct eng_digest *digests;
        const struct eng_mend_bad *bad;
        unsigned bad_count;
};
struct eng_mend *eng_mend_start(struct eng_store *store, const struct eng_mend_order *order, eng_mend_done done, void *arg);
/* On its own loop, where it was started: it ends soon, with -ECANCELED, unless all is written. done may come from inside. */
void eng_mend_cancel(struct eng_mend *mend);
/* The loops have stopped around it. What drives still have of it lives until eng_mend_free_late(), when they are closed. */
void eng_mend_drop(struct eng_mend *mend);

#endif
