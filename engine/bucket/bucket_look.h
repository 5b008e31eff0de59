/*
 * bucket_look.h - whether anything is in a bucket (private to the module).
 */
#ifndef MILLRACE_ENGINE_BUCKET_LOOK_H
#define MILLRACE_ENGINE_BUCKET_LOOK_H

#include "engine/base/store.h"

/*
 * An object, a version or a delete marker keeps a bucket from being deleted, and what is in a
 * deleted bucket is discarded. So all drives are asked, and one that has something is believed (I6);
 * where others lack it, members are compared. owner: coordinator; ops: the drives while out
 */
struct eng_bucket_look {
        struct eng_store *store;
        uint64_t bucket;
        /* 0: it is empty; -EBUSY; -EAGAIN: too few members of some group could answer; -ENOMEM. May come from inside */
        void (*done)(struct eng_bucket_look *look, int rv);
        /* private */
        struct eng_name from[2], to[2]; /* objects; versions */
        uint64_t *spoken;              /* by slot: the groups that it spoke for when it was asked */
        eng_mask empty;                /* drives that have nothing */
        unsigned out, rounds;
        uint32_t group;                /* of what was found */
        bool found;
        struct lp_timer timer;
        LIST_ENTRY(eng_bucket_look) link; /* while it rests */
        struct eng_look_op {
                struct eng_op op;
                struct eng_bucket_look *look;
                unsigned slot, space;
                bool other;            /* it has something, or could not answer */
        } ops[ENG_DRIVES_MAX];
};
/* store, bucket and done are set. */
void eng_bucket_look(struct eng_bucket_look *look);
void eng_bucket_look_free(struct eng_bucket_look *look);
/* The store is closed: those that wait for their next round are done, -EHOSTDOWN. */
void eng_bucket_looks_stop(struct eng_store *store);

#endif
