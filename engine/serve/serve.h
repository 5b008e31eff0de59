/*
 * serve.h - a store does what a home store of another process asks of it (engine/call/leader_call.h,
 * docs/design/any-gateway.md).
 */
#ifndef MILLRACE_ENGINE_SERVE_SERVE_H
#define MILLRACE_ENGINE_SERVE_SERVE_H

#include "engine/call/leader_call.h"
#include "engine/txn/txn.h"

/* Whose call it is. */
struct eng_served_home {
        uint16_t node;
        uint32_t boot;
        unsigned loops;
        const _Atomic uint64_t *bounds; /* of each loop: the home has told that it names no id below it; NULL: nothing was told */
};

/*
 * One call that is being done. Zero it and fill in the first part; what it points to stays until
 * done(). owner: the caller until eng_serve_call(), the loop that it picks from then on, done() included
 */
struct eng_serving {
        struct eng_store *store;
        const uint8_t *body;
        size_t len;
        struct eng_buf *bulk;          /* of the call; NULL: none. A reference of the caller's, who gives it back */
        size_t room;                   /* for the answer's bulk */
        const _Atomic uint64_t *until; /* when it is this time, on the loop that is to do it, it is refused; NULL: never */
        uint64_t (*clock_ns)(void);    /* by which; NULL: CLOCK_BOOTTIME */
        void (*done)(struct eng_serving *serving);
        void *arg;

        /*
         * The answer, until done() returns: its body, and where its bulk is. A LOOKUP that has pinned: the
         * pin is the caller's, who gives it back by eng_serve_unpin(), and its number for the home; else NULL.
         */
        bool refused;                  /* it came too late: nothing was done, and there is no answer */
        uint8_t *answer;
        size_t answer_len;
        struct eng_call_bulk answer_bulk;
        struct eng_buf *page;          /* not NULL: all of that bulk, which stays as long as it has a reference */
        struct eng_lookup *pin;
        uint64_t pin_number;

        /* private */
        struct lp_msg msg;
        struct eng_loop *at;
        uint32_t pg;                   /* of a LOOKUP */
        struct eng_call call;
        struct eng_call_answer result;
};
/*
 * Any thread. What this home store may not say is refused (-EPERM): an id in a PUT that is another's, or one that it said
 * it would not name any more; a DISCARD of another's id. done() comes once, on a loop of the store, never from inside.
 * -EBADMSG: it is no call, and done() does not come.
 */
int eng_serve_call(struct eng_serving *serving, const struct eng_served_home *home);
/* Any thread. */
void eng_serve_unpin(struct eng_lookup *pin);

#endif
