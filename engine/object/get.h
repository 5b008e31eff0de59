/*
 * get.h - one object being read (private to get.c and get_stripe.c). All on its home loop.
 */
#ifndef MILLRACE_ENGINE_GET_H
#define MILLRACE_ENGINE_GET_H

#include "engine/txn/txn.h"
#include "engine/record/stripe.h"

enum get_stripe_state {
        STRIPE_FREE,
        STRIPE_READING,
        STRIPE_READY /* all units of the range are in their slots */
};

enum get_shard_state { SHARD_NONE, SHARD_READING, SHARD_GOOD };

struct get_read {
        struct eng_op op;
        struct get_stripe *stripe;
};

/*
 * One stripe on its way out. owner: home loop; read[].op: the drive while out. get NULL: nobody waits for it any
 * more; it goes with the last read.
 */
struct get_stripe {
        struct eng_get *get;           /* NULL: its reads are nobody's; it is one of el->home.left_stripes */
        LIST_ENTRY(get_stripe) left_link;
        enum get_stripe_state state;
        struct eng_part part;
        uint32_t stripe, unit;
        uint64_t lo, hi, at;           /* wanted bytes of the stripe; handed out up to at */
        uint64_t next;                 /* object offset behind hi */
        unsigned first, last;          /* data units of [lo, hi) */
        bool degraded, near;           /* read as get_near.c has it */
        bool hedged;                   /* what is late was asked for elsewhere once, or could not be */
        struct get_stripe *hedge;      /* that is under way; NULL: none */
        unsigned asked, good;          /* shards in all; what has come */
        /* of a hedge */
        struct get_stripe *of;         /* NULL: it is none */
        uint32_t from, to;             /* bytes of each shard */
        unsigned reserved;             /* slots that it has reserved */
        unsigned pending, repairs;
        unsigned held;                 /* spans handed out and not let go */
        uint32_t bad, damaged;         /* shards not to be asked (again); those of them to be written anew */
        uint32_t silent;               /* that were asked for, while others could be instead, and did not come: the next time they are waited for */
        bool lost;                     /* a drive that failed has kept a slot: the reservation is short of it */
        uint32_t summed;               /* units read together with the CRC of what is wanted of them */
        uint8_t state_of[ERA_MAX_SHARDS];
        uint64_t began;                /* lp_clock() */
        void *slot[ERA_MAX_SHARDS];
        struct get_read read[ERA_MAX_SHARDS];
};

/* owner: home loop */
struct eng_get {
        struct eng_lookup lookup;      /* first: value, inline bytes, pin */
        struct eng_store *store;
        struct eng_loop *el;
        TAILQ_ENTRY(eng_get) link;     /* el->home.gets */
        bool looked_up;                /* the lookup has come back */
        uint64_t request;              /* that it is of (loop_trace.h) */
        uint64_t number;
        struct eng_object object;
        uint64_t key_hash;             /* eng_hash_of_key() */
        eng_get_opened opened;
        void *arg;
        struct {
                size_t pos;            /* of the fmt_part in the value */
                uint64_t offset;       /* of its first byte in the object */
        } *parts;                      /* part_count + 1 */
        unsigned part_count;           /* 0: inline */

        uint64_t pos, ahead, end;      /* handed out up to; read up to; wanted up to */
        void (*wake)(void *arg);
        void *wake_arg;
        bool waiting, degrading;
        bool rebuilt;                  /* something of the range was, and is counted */
        bool summing;                  /* crc is wanted */
        bool holding;                  /* spans stay until they are let go */
        bool closed;                   /* by the caller */
        bool closing;                  /* the message of that has run: ends with the last I/O */
        struct lp_msg close_msg;
        int error;
        bool lost;                     /* error is of the stripe that begins at lost_at, of which more than m shards are gone */
        uint64_t lost_at;
        uint32_t crc;
        struct lp_reserve reserve;
        bool granted, reserving;
        unsigned used, in_flight, widest;
        uint32_t keep_bad, keep_damaged, keep_silent; /* what was learnt of the stripe that ends at keep_next before it was begun again */
        uint64_t keep_next;
        unsigned current;
        struct get_stripe *stripes[2]; /* once bytes are read from shards */
        struct lp_timer late_timer;    /* stripes that are being read are looked at */
        bool late_armed;
};

/* ---- get_stripe.c ---------------------------------------------------------------------------- */

/* A shard's slot is given back. */
void eng_get_drop_unit(struct eng_get *get, struct get_stripe *s, unsigned shard);
/* Give their slots back. */
void eng_get_drop_stripe(struct eng_get *get, struct get_stripe *s);
void eng_get_drop_stripes(struct eng_get *get);

void eng_get_part_at(const struct eng_get *get, unsigned i, struct eng_part *out);
/* Number of the part that holds byte `offset` of the object. */
unsigned eng_get_part_of(const struct eng_get *get, uint64_t offset);
/*
 * Describes the stripe that holds byte `offset` of the object and how much of it the range wants.
 */
void eng_get_locate(struct eng_get *get, struct get_stripe *s, uint64_t offset);
/* What the range wants of a data unit between first and last. */
void eng_get_wanted(const struct get_stripe *s, unsigned unit, uint32_t *offset, uint32_t *len);
unsigned eng_get_shards(const struct get_stripe *s);
/* Units a plain read of this stripe takes. */
unsigned eng_get_plain_units(const struct get_stripe *s);
/* Shards of the widest stripe from pos to end. */
unsigned eng_get_widest(const struct eng_get *get);
/* Slots for two stripes of the range, or as many units as there are. */
unsigned eng_get_units_wanted(struct eng_get *get);

/*
 * The healthy way: just the data units the range touches. False if one of them can't be asked for.
 */
bool eng_get_read_plain(struct eng_get *get, struct get_stripe *s);
/* Reads whole units until k are in hand; data first. -EIO or -EHOSTDOWN when that can't be. */
int eng_get_read_any(struct eng_get *get, struct get_stripe *s);
/* After that: more than m shards are gone, whatever drives come back. */
bool eng_get_stripe_lost(const struct eng_get *get, const struct get_stripe *s);
/*
 * Computes the units of the range that were not read, and has those written anew that a living
 * drive gave damage for.
 */
int eng_get_rebuild(struct eng_get *get, struct get_stripe *s);

/* Drive of a shard if it can be asked, else -1. */
int eng_get_drive_of(const struct eng_get *get, const struct get_stripe *s, unsigned shard);
/* Nothing of the object is in it, and nothing was written. */
bool eng_get_is_zero_unit(const struct get_stripe *s, unsigned shard);
/* Asks for bytes of a shard: a slot of the reservation is taken for it. */
void eng_get_read_shard(struct eng_get *get, struct get_stripe *s, unsigned shard, int drive, uint32_t offset, uint32_t len);
/* The code of a part. made: it is to be freed. */
int eng_get_code_for(struct eng_get *get, const struct fmt_part *part, struct era_code **out, bool *made);

/* ---- get_near.c ------------------------------------------------------------------------------ */

/*
 * A whole stripe with parity of drives that are near in the place of data that is far. It takes as many slots
 * as the data does. False: nothing is spared, or some data has to be done without anyway.
 */
bool eng_get_read_near(struct eng_get *get, struct get_stripe *s);
/* All is back: computes the data. -EAGAIN: some did not come. */
int eng_get_near_end(struct eng_get *get, struct get_stripe *s);

/* ---- get_hedge.c ----------------------------------------------------------------------------- */

/* A stripe is being read: what is late of it will be asked for elsewhere. */
void eng_get_watch_stripe(struct eng_get *get);
/* The get ends: nothing is looked at any more. */
void eng_get_watch_end(struct eng_get *get);
/* All of a hedge is back: if it is good, the stripe that it is of has ended. */
void eng_get_hedge_back(struct eng_get *get, struct get_stripe *hedge);
/* The stripe has all that it asked for: its hedge is of no use any more. */
void eng_get_hedge_lost(struct eng_get *get, struct get_stripe *s);
/* A read of a stripe that nobody waits for. */
void eng_get_left_read(struct get_stripe *s, struct eng_op *op);

/* ---- get_compute.c --------------------------------------------------------------------------- */

struct get_sources {
        void *slot[ERA_MAX_SHARDS];   /* NULL: zeroes, or not there */
        bool present[ERA_MAX_SHARDS]; /* k of them */
};
/*
 * Data units from `begin` to `end`, each of them into a slot, which may be one of the sources': n of both. shards: of the
 * code. -ENOMEM.
 */
int eng_get_compute(const struct era_code *code, unsigned shards, const struct get_sources *from, uint32_t begin, uint32_t end,
                    const uint8_t *missing, void *const *to, unsigned n);

/* ---- get.c, for them --------------------------------------------------------------------------- */

/* All reads of a stripe are back. */
void eng_get_stripe_done(struct eng_get *get, struct get_stripe *s);
/* Something of a stripe is free again: its caller may want to know. */
void eng_get_wake(struct eng_get *get);
/* Called whenever something came back: ends what waits for the last of it. */
void eng_get_proceed(struct eng_get *get);

#endif
