/*
 * history.h - what clients asked and were told, and whether one register per name explains it.
 *
 * Times are numbers of events: an operation takes effect at some instant between being asked and
 * being answered. One that got an error, or no answer because the process ended, may have taken
 * effect or not, until the store has next become writable after a restart: then it is settled for
 * good.
 */
#ifndef MILLRACE_TESTS_SIM_HISTORY_H
#define MILLRACE_TESTS_SIM_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

/* A register's value: what was written, and the tag it was last given. 0: nothing there. */
#define H_VALUE(content, tag) ((uint64_t)(content) << 32 | (uint32_t)(tag))
#define H_CONTENT(value)      ((uint32_t)((value) >> 32))
#define H_SEALED              UINT64_MAX /* its bucket is gone for good */

enum history_kind {
        H_READ,    /* found value */
        H_WRITE,   /* value is there now */
        H_DELETE,  /* something was there, and is gone */
        H_ABSENT,  /* nothing was there */
        H_PRESENT, /* something was there */
        H_OTHER,   /* something was there, with another content than value's */
        H_UPDATE,  /* the content is value's (0: whatever it was), its tag is value's from now on */
        H_SEAL,    /* nothing was there, and nothing will be */
        /* Of a key with versions, whose value is all of them (history_versions.h): */
        H_ADD,     /* this version is the newest now; as the null version it took the place of another */
        H_CUT,     /* the version was there, not locked, and is gone */
        H_TAG,     /* the version was there, and has value's tag from now on */
        H_HOLD,    /* the same of its hold */
        H_RETAIN,  /* the same of its retention, which was not weakened while it lasted */
        H_HAS,     /* the version was there, as value says */
        H_HELD,    /* the version was there, locked */
        H_KEPT,    /* the version was there, with a retention that may not be changed so */
        H_ELSEWHERE, /* the version was not there, or in another place among those of its key */
        H_LACKS,   /* the version was not there */
        H_NEWEST,  /* the version was the newest; what tag and hold it had, nobody looked */
        H_CURRENT, /* the newest was an object: value's, if it has a content */
        H_ANOTHER, /* the newest was an object, of another content than value's */
        H_NONE,    /* there was none, or the newest was a delete marker */
        H_EMPTY,   /* there was none */
        H_LIST     /* exactly those of a list were there: value is its number */
};

enum history_need { NEED_NOTHING, NEED_ABSENT, NEED_PRESENT, NEED_CONTENT, NEED_VERSION /* `of` is the newest */ };

struct history_op {
        uint64_t asked, answered; /* answered 0: not (yet) */
        uint64_t value;
        uint64_t version; /* of kinds from H_ADD on: its number, H_NULL, or H_UNNUMBERED */
        uint64_t of;      /* NEED_VERSION, H_ELSEWHERE: its number; its content is `content` */
        uint64_t retain;  /* a version's retention, H_RETENTION */
        int64_t lock_lo, lock_hi; /* what the lock clock may have shown when it was decided */
        uint32_t content; /* NEED_CONTENT, NEED_VERSION */
        uint16_t name;    /* register */
        uint8_t kind, need;
        uint8_t place;    /* enum eng_place: where the version must be among those of its key */
        bool bypass;      /* retention of GOVERNANCE does not count */
        bool maybe;   /* whether it took effect is not known */
        bool told;     /* an answer told which change made the delete marker of this number */
        bool by_state; /* what it does depends on the versioning of its bucket, which is not known yet */
        bool dropped; /* it surely did not, and says nothing */
        bool at_home; /* asked of a home store: until it is answered, it may be sent to a later leader */
        bool given_up; /* its home has answered that nobody knows: from then on no leader begins it */
        uint8_t client;
};

void history_begin(void);
uint64_t history_now(void); /* a new instant */
/* A register; text for messages. */
unsigned history_name(const char *text);
const char *history_text(unsigned name);
void history_show(unsigned name); /* prints its operations */
/* Pointers hold until the next call. */
struct history_op *history_add(unsigned name, enum history_kind kind, uint64_t asked);
unsigned history_count(void);
struct history_op *history_at(unsigned i);
/* The operations of one register, in the order in which they were added: HISTORY_END if there are no more. */
#define HISTORY_END UINT32_MAX
unsigned history_first(unsigned name);
unsigned history_next(unsigned i);
#define HISTORY_EACH(i, name) ((i) = history_first(name); (i) != HISTORY_END; (i) = history_next(i))
/*
 * The store serves writes again after a restart: nothing asked before the last end of the process
 * and not settled takes effect from now on.
 */
void history_settled(void);

/*
 * Checks all registers; fails the history if one cannot be explained. Returns how many were too
 * hard to decide.
 */
unsigned history_check(void);

/* The last instant at which it can have taken effect. */
uint64_t history_latest(const struct history_op *op);

/*
 * Whether a register may have had this value (0: nothing) at some time between asked and answered,
 * as far as operations that were answered tell. For what is not read through the key's primary:
 * listings.
 */
bool history_possible(unsigned name, uint64_t value, uint64_t asked, uint64_t answered);
/* The same for any value but nothing. */
bool history_possibly_there(unsigned name, uint64_t asked, uint64_t answered);

#endif
