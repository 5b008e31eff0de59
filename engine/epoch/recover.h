/*
 * recover.h - recovery's own (recover.c, reconcile.c). owner: coordinator
 */
#ifndef MILLRACE_ENGINE_RECOVER_H
#define MILLRACE_ENGINE_RECOVER_H

#include "engine/base/store.h"

/* One drive being opened. owner: its thread until the message */
struct opening {
        struct lp_msg msg;
        struct eng_store *store;
        struct eng_member own;         /* what the thread fills */
        struct eng_member *member;     /* of store->unplaced: owner: coordinator */
        pthread_t thread;
        struct lp_timer again;         /* coordinator: while nothing runs, what was lacking for the moment may be there soon */
        bool running;                  /* coordinator: the thread was begun, and has not been waited for */
        bool joined;                   /* coordinator: it has come back, for good */
        unsigned times;                /* coordinator: that it was tried again */
        bool late;                     /* too late for recovery: waits to be handed over as drives are that come while the store serves */
        int result;
        struct eng_error error;
};

/* What one drive's log holds of one PG. */
struct pg_tail {
        uint64_t high;                 /* newest seq on the drive */
        uint64_t committed;
        uint32_t first, count;         /* its pending entries in the drive's TAIL answer */
        bool copied;                   /* was given records it lacked */
};

struct reconcile;                         /* reconcile.c */
struct lost_find;                      /* lost.c */

enum eng_lost {
        ENG_LOST_LOG,                  /* its log ends before what its index covers */
        ENG_LOST_EPOCH,                /* an epoch that it was in */
        ENG_LOST_RECORDS,              /* records of that epoch */
        ENG_LOST_PENDING,              /* a record that waits to be settled, and that no other member can give */
        ENG_LOST_CATCH_UP                  /* the epoch that was to make it a member, if that was ever in force */
};

#define ENG_REFUSALS_MOST 100u         /* then they have failed */

struct recovery {
        unsigned opening_left;
        bool waited;                   /* long enough (drive_wait_ms): those that are here go on, if they can */
        bool may_lose;                 /* and longer: in a cluster, groups may be lost */
        struct lp_timer lose_timer;
        eng_mask members;              /* of the chosen epoch */
        bool chosen;                   /* they have: what is opened later is none of recovery's business, as long as it comes to an end */
        struct lp_timer wait_timer;
        unsigned refusals;             /* attempts that drives ended which lacked something for the moment (-EAGAIN) */
        struct opening opening[ENG_DRIVES_MAX];
        uint8_t begun[FMT_ID];         /* id of the epoch that is being made durable */
        uint8_t mapped[FMT_ID];        /* the epoch that drive map and placement were taken from */
        uint8_t judged[FMT_ID];        /* the chosen epoch for which it is known who lost writes */
        bool chosen_in_force;          /* that epoch surely was */
        struct reconcile *reconcile;
        struct lost_find *lost;
};

/*
 * Finds the members among those present that lost writes which they had acknowledged: adds them to
 * coord->lost, and sets coord->in_force. done(): it is known (recovery->judged), or a drive failed
 * meanwhile.
 */
void eng_lost_find(struct eng_store *store, const struct eng_member *chosen, eng_mask present,
                   void (*done)(struct eng_store *store));
void eng_lost_free(struct eng_store *store);
/* Of coord->lost, those that the chosen epoch was to take in: they are no members. */
eng_mask eng_lost_catching_up(const struct eng_store *store);
/* Why a drive of coord->lost is there. */
const char *eng_lost_text(const struct eng_store *store, unsigned slot);
/*
 * The tail of the newest epoch a drive held when it was opened; false, and all zeroes: that has
 * none.
 */
bool eng_epoch_tail(const struct eng_member *m, struct fmt_epoch_tail *out);
/* Whether it held that epoch, or a later one, when it was opened. */
bool eng_member_has_epoch(const struct eng_member *m, uint64_t number, const uint8_t id[FMT_ID]);

/*
 * Compares the tails of coord->view.up, makes them equal, makes everything visible, goes on to the
 * buckets and opens the store. again(): a drive failed meanwhile.
 */
void eng_reconcile(struct eng_store *store, void (*again)(struct eng_store *store));
void eng_reconcile_free(struct eng_store *store);
/* The store can't be opened: health says what for. */
void eng_recover_wait(struct eng_store *store, const char *text);
/* The same, for want of these drives. */
void eng_recover_wait_for(struct eng_store *store, eng_mask missing, const char *why);
/*
 * Once more from the choice of an epoch on, with the drives that are open. No loop's view says
 * ready.
 */
void eng_recover_again(struct eng_store *store);

#endif
