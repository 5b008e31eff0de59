/*
 * recover.h - recovery's own (recover.c, settle.c). owner: coordinator
 */
#ifndef MILLRACE_ENGINE_RECOVER_H
#define MILLRACE_ENGINE_RECOVER_H

#include "engine/store.h"

/* One drive being opened. owner: its thread until the message */
struct opening {
        struct lp_msg msg;
        struct eng_store *store;
        struct eng_member *member;
        pthread_t thread;
        bool joined;
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

struct settle;                         /* settle.c */

struct recovery {
        unsigned opening_left;
        struct opening opening[ENG_DRIVES_MAX];
        uint8_t begun[FMT_ID];         /* id of the epoch that is being made durable */
        struct settle *settle;
};

/* Compares the tails of coord->view.up, makes them equal, makes everything visible, goes on to the buckets and opens the store. again(): a drive failed
 * meanwhile. */
void eng_settle(struct eng_store *store, void (*again)(struct eng_store *store));
void eng_settle_free(struct eng_store *store);
/* The store can't be opened: health says what for. */
void eng_recover_wait(struct eng_store *store, const char *text);
/* The same, for want of these drives. */
void eng_recover_wait_for(struct eng_store *store, eng_mask missing, const char *why);
/* Once more from the choice of an epoch on, with the drives that are open. No loop's view says ready. */
void eng_recover_again(struct eng_store *store);

#endif
