/*
 * rebuild_parts.h - between rebuild.c, rebuild_plan.c, rebuild_write.c and rebuild_record.c: one
 * repair under way.
 */
#ifndef MILLRACE_ENGINE_REBUILD_PARTS_H
#define MILLRACE_ENGINE_REBUILD_PARTS_H

#include <stddef.h>

#include "engine/txn/txn.h"
#include "engine/upkeep/rebuild.h"
#include "engine/base/pacer.h"

#define NO_STRIPE UINT32_MAX

/*
 * One part that lacks shards, or is written anew. targets[run * (k+m) + shard]: the drive that is to
 * have a shard for which the record names none, else ENG_NO_DRIVE. held: of shards on drives that
 * are being filled, those that are there already: words bits for each run and shard. part points
 * into rebuild->value.
 */
struct eng_rebuild_plan {
        STAILQ_ENTRY(eng_rebuild_plan) link;
        struct eng_part part;
        uint64_t offset;               /* of the part in the object */
        bool wanted;                   /* something is to be written */
        uint8_t id[FMT_ID];            /* of what is written: the part's; a new one if it is written anew */
        unsigned words;
        uint64_t *held;                /* NULL: it names no drive that is being filled */
        uint16_t targets[];
};
STAILQ_HEAD(eng_rebuild_plans, eng_rebuild_plan);

struct eng_rebuild_op {
        struct eng_op op;              /* first */
        struct eng_rebuild *rebuild;
        unsigned target;               /* of a shard */
};

/* owner: the primary loop of its key, from when its message has come; ops: the drives while out */
struct eng_rebuild {
        struct eng_store *store;
        struct eng_loop *el, *home;    /* home: the loop it was started on, where done comes */
        struct lp_msg msg;             /* there and back, where these are two */
        struct eng_rebuild *next_late;    /* see eng_rebuild_free_late() */
        TAILQ_ENTRY(eng_rebuild) link;    /* el->leader.rebuilds, while listed */
        bool listed, ended;
        int result;                    /* once ended */
        struct eng_name name;
        bool waits;                    /* another repair of the same object is under way */
        eng_rebuild_done done;
        void *arg;
        struct eng_get *get;
        struct eng_buf *value, *patched;
        const struct eng_rebuild_bad *bad; /* caller's */
        unsigned bad_count;
        eng_mask filling;              /* drives that may lack shards which records name on them */
        eng_mask homeless;             /* drives that are leaving or gone: shards on them are to be named elsewhere */
        struct eng_rebuild_plans plans;
        struct eng_op ask;             /* HELD; of a stripe that is lost, READ */
        unsigned ask_run, ask_shard;
        uint32_t ask_stripe;           /* in the run */
        struct eng_digest *digests;    /* by drive, the caller's; added to as shards are written */
        bool named_new;                /* a drive was found for a shard that had none: the record is to say so */
        bool anew;                     /* the whole object is written once more, elsewhere, as another upload of the same bytes would be */
        uint8_t id[FMT_ID];            /* of the value then; made before all others */
        struct eng_rebuild_plan *plan;    /* being written */
        struct era_code *code;         /* of that part */
        struct eng_rebuild_written written;
        uint64_t epoch;                /* in which it began */
        struct lp_timer timer;
        struct lp_reserve reserve;
        bool queued, granted, stripe_begun; /* queued: in line for slots */
        struct eng_pacer_turn turn;    /* of the next stripe */
        bool has_turn, awaits_turn;    /* it has been taken; the timer runs until it begins */
        void *unit, *parity[ERA_MAX_M];
        uint32_t stripe, unit_len, fill;
        unsigned unit_no, in_flight;
        uint64_t stripe_left;          /* data bytes of the stripe that have not come */
        const uint8_t *span;           /* from the get, not copied yet */
        size_t span_len;
        uint32_t lost_stripe;          /* of the part: beyond repair, and not passed yet; NO_STRIPE: none is known */
        bool restart;                  /* the get is to go on with another range */
        unsigned copied;               /* shards of that stripe that were looked at */
        uint64_t lost;                 /* stripes beyond repair so far */
        uint8_t lost_id[FMT_ID];       /* of the part that the last of them is in */
        bool kept;                     /* one of them may have a shard on a drive that leaves and does not answer: the record goes on naming it there */
        bool durable;                  /* all that was written is */
        eng_mask touched;
        int error;
        struct eng_txn txn;
        /* owner: the key's primary loop, while the txn is there */
        bool over;                     /* the name does not have these parts any more, or names drives for all their shards */
        bool replaced;                 /* the name has another value, or none */
        struct eng_rebuild_plan *discarding; /* the next plan whose shards are looked at for the discard */
        atomic_uint discards_out;
        struct eng_rebuild_op ops[ENG_DRIVES_MAX];
};

static inline unsigned eng_rebuild_shards_of(const struct eng_part *part)
{
        return part->head.k + part->head.m;
}

/* The drive that the record names for a shard; ENG_NO_DRIVE or more: none. */
static inline unsigned eng_rebuild_named(const struct eng_part *part, unsigned run, unsigned shard)
{
        return eng_part_slot(part, (size_t)run * eng_rebuild_shards_of(part) + shard);
}

/* ---- rebuild.c ------------------------------------------------------------------------------- */

/* Lets go of all it has, and tells its caller. The rebuild may be freed when this returns. */
void eng_rebuild_finish(struct eng_rebuild *rebuild, int rv);
/* One that no client has asked for: the pacer does not take it for an upload. */
void eng_rebuild_new_id(const struct eng_rebuild *rebuild, uint8_t id[FMT_ID]);
/* A drive that was written to has come anew since: what it had taken may be lost. */
bool eng_rebuild_touched_anew(const struct eng_rebuild *rebuild, const struct eng_view *view);

/* ---- rebuild_plan.c -------------------------------------------------------------------------- */

/*
 * A plan for each part of rebuild->value that lacks something; for each part of an object that lacks
 * nothing, and would lie better elsewhere.
 */
int eng_rebuild_make_plans(struct eng_rebuild *rebuild);
/*
 * Asks the drives that are being filled what they hold, drops plans of which nothing is to be
 * written, and begins to write.
 */
void eng_rebuild_ask_held(struct eng_rebuild *rebuild);
void eng_rebuild_free_plan(struct eng_rebuild_plan *plan);
/* No drive is named that is to keep it. */
bool eng_rebuild_is_homeless(const struct eng_rebuild *rebuild, const struct eng_part *part, unsigned run, unsigned shard);
/* plan->words words: which stripes of the run the drive said that it holds. */
uint64_t *eng_rebuild_held_bits(const struct eng_rebuild_plan *plan, unsigned run, unsigned shard);
/* The drive that is being filled on which the record names this shard, or ENG_NO_DRIVE. */
unsigned eng_rebuild_filling_drive(const struct eng_rebuild *rebuild, const struct eng_rebuild_plan *plan, unsigned run, unsigned shard);
/* A data unit without a byte of the part is not stored anywhere. */
bool eng_rebuild_is_stored(const struct eng_part *part, uint32_t stripe, unsigned shard);

/* ---- rebuild_write.c ------------------------------------------------------------------------- */

/* Reads, encodes and writes what the plans say, makes it durable, and has it recorded. */
void eng_rebuild_begin_writing(struct eng_rebuild *rebuild);
/*
 * No operation of it is out. Ends with this error as soon as what it has written is flushed; may be
 * freed when this returns.
 */
void eng_rebuild_give_up(struct eng_rebuild *rebuild, int rv);

/* ---- rebuild_record.c ------------------------------------------------------------------------ */

/*
 * All is durable: the record is made to name the drives written to. Discards what it finds to be
 * written in vain.
 */
void eng_rebuild_record(struct eng_rebuild *rebuild);

#endif
