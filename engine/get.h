/*
 * get.h - one object being read (private to get.c).
 */
#ifndef MILLRACE_ENGINE_GET_H
#define MILLRACE_ENGINE_GET_H

#include "engine/store.h"
#include "engine/stripe.h"

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

/* One stripe on its way out. owner: home loop; read[].op: the drive while out */
struct get_stripe {
        struct eng_get *get;
        enum get_stripe_state state;
        struct eng_part part;
        uint32_t stripe, unit;
        uint64_t lo, hi, at;           /* wanted bytes of the stripe; handed out up to at */
        uint64_t next;                 /* object offset behind hi */
        unsigned first, last;          /* data units of [lo, hi) */
        bool degraded;
        unsigned pending, repairs;
        unsigned held;                 /* spans handed out and not let go */
        uint32_t bad, damaged;         /* shards not to be asked (again); those of them to be written anew */
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
        TAILQ_ENTRY(eng_get) link;     /* el->gets */
        bool looked_up;                /* the lookup has come back */
        uint64_t number;
        struct eng_object object;
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
        bool summing;                  /* crc is wanted */
        bool holding;                  /* spans stay until they are let go */
        bool closed;                   /* by the caller */
        bool closing;                  /* the message of that has run: ends with the last I/O */
        struct lp_msg close_msg;
        int error;
        uint32_t crc;
        struct lp_reserve reserve;
        bool granted, reserving;
        unsigned used, in_flight, widest;
        uint32_t keep_bad, keep_damaged; /* what was learnt of the stripe that ends at keep_next before it was begun again */
        uint64_t keep_next;
        unsigned current;
        struct get_stripe *stripes;    /* 2, once bytes are read from shards */
};

#endif
