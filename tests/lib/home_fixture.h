/*
 * home_fixture.h - a home store beside the store of store_fixture.h that leads it, in one process: calls,
 * states, rows and operations of drives are copied from one to the other by messages between their loops,
 * as a network would. Test thread only.
 */
#ifndef MILLRACE_TESTS_HOME_FIXTURE_H
#define MILLRACE_TESTS_HOME_FIXTURE_H

#include <semaphore.h>
#include <stdatomic.h>

#include "tests/lib/store_fixture.h"

struct hf {
        struct sf *leader;
        struct sf home;                 /* sf_put() and others work with it */
        struct eng_leader_link link;
        struct eng_drive_opener opener;
        _Atomic uint64_t lease_end;
        /* any thread: what becomes of calls */
        atomic_bool cut;                /* calls are not sent */
        atomic_bool lose_answers;       /* they are done, and nobody hears of it */
        void (*spoil)(uint8_t *bulk, size_t len); /* of the leader's answers, before they arrive; NULL: they stay as they are. Set while none is out */
        atomic_uint out;                /* calls and operations that have not come back */
        atomic_uint writes;             /* shards that its drives were sent */
        atomic_uint calls, pins;        /* calls that the leader did; pins that it keeps */
        _Atomic uint64_t unreached;     /* slots whose drives answer this home -EHOSTUNREACH */
        _Atomic uint64_t incarnation;   /* of all drives */
        struct eng_home_reading *reading;
};

/* The leader is open and serves, and goes on until hf_close(). node: of the home. */
void hf_open(struct hf *hf, struct sf *leader, unsigned loops);
/* A second home, of another leader, on the loops of the store `first`, whose sf_close() closes it; then comes hf_free(). */
void hf_open_beside(struct hf *hf, struct sf *leader, struct sf *first);
void hf_free(struct hf *hf);
/* Instead of hf_open(), for a home that has another link: drives of the leader, which are opened by any path. */
const struct eng_drive_opener *hf_drives(struct hf *hf, struct sf *leader);
/* Runs it on a loop, and waits. */
void hf_run(struct lp_loop *loop, void (*run)(void *arg), void *arg);
/* State and rows as the leader has them now: the home has them when it returns. */
void hf_follow(struct hf *hf);
/* The lease goes on for an hour; or it is over. */
void hf_lease(struct hf *hf, bool lasts);
void hf_close(struct hf *hf);

/* An upload of key "open", bytes of seed 4, that stays open between steps. Set size; commits or aborts for the last step. */
struct hf_upload {
        struct lp_msg msg;
        struct hf *hf;
        uint64_t bucket;
        struct eng_put *put;
        size_t at, upto, size;
        bool commits, aborts;
        bool follows;                   /* the home follows the leader's epochs meanwhile, ... */
        unsigned follows_after_ms;      /* ... not sooner */
        int rv;
        sem_t done;
};
/* On loop 0 of the home, up to so many of its bytes. */
int hf_upload_go(struct hf *hf, uint64_t bucket, struct hf_upload *u, size_t upto);

#endif
