/*
 * grant.h - whom a node's drives of one pool are bound to: a state machine over values, without a
 * clock or a lock (docs/design/remote-drives.md, "Terms and grants").
 *
 * A drive server has one for each pool that it has slots of, under a lock: the drives of a pool may
 * belong to several loops. Times are of one clock that goes on while the machine sleeps.
 */
#ifndef MILLRACE_REMOTE_GRANT_H
#define MILLRACE_REMOTE_GRANT_H

#include <stdbool.h>
#include <stdint.h>

#include "engine_term.h"
#include "remote.h"

enum rem_grant_says {
        REM_GRANT_YES,
        REM_GRANT_WAIT,    /* another term has a grant, or may have one since before this process began */
        REM_GRANT_DEPOSED, /* a newer term is known, or one of this order that is another's */
        REM_GRANT_NOT_OPEN /* nothing here was OPENed by this term, or it was released */
};

/* A slot of the pool. */
struct rem_grant_slot {
        bool served;
        struct eng_term durable; /* of its newest TERM record when it was opened */
        uint64_t bound; /* until then that term may have a grant from before the slot was opened here; 0: it has none */
};

struct rem_grant {
        uint64_t grant_ns;
        struct eng_term seen;    /* the newest that was heard of: nothing is renewed for an older one */
        struct eng_term opened;  /* the newest that a slot was OPENed by, since the process began */
        struct eng_term granted; /* to this one, until `until` */
        uint64_t until, heard;
        bool released; /* `seen` has given its grant back */
        bool any;      /* something came of a leader since the process began */
        struct rem_grant_slot slots[REM_SLOTS_MAX];
};

void rem_grant_init(struct rem_grant *g, unsigned term_ms, uint64_t now);
/* A folder was opened, and is served from now on. */
void rem_grant_serve(struct rem_grant *g, unsigned slot, const struct eng_term *durable, uint64_t now);
void rem_grant_withdraw(struct rem_grant *g, unsigned slot);

/*
 * OPEN has come for a slot. YES: the drive is asked. Whatever is said but DEPOSED, no ping of an older term
 * renews anything from here on: so there is no moment between this and the drive's own fence. by: the newest term that
 * is known; of WAIT the one that the slot is bound to, for left more.
 */
enum rem_grant_says rem_grant_open(struct rem_grant *g, unsigned slot, const struct eng_term *term, uint64_t now,
                                   uint64_t *left, struct eng_term *by);
/* The drive has answered: the term is durable there. */
void rem_grant_opened(struct rem_grant *g, unsigned slot, const struct eng_term *term);
/* YES: granted for 1.25 T from now, which is not before the ping was received. */
enum rem_grant_says rem_grant_ping(struct rem_grant *g, const struct eng_term *term, uint64_t now);
/* YES: nothing is granted to this term any more; or nothing was. */
enum rem_grant_says rem_grant_release(struct rem_grant *g, const struct eng_term *term, uint64_t now);
/* To whom something is granted now; returns how long yet, 0: to nobody. */
uint64_t rem_grant_left(const struct rem_grant *g, uint64_t now, struct eng_term *to);

#endif
