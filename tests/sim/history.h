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
        H_SEAL     /* nothing was there, and nothing will be */
};

enum history_need { NEED_NOTHING, NEED_ABSENT, NEED_PRESENT, NEED_CONTENT };

struct history_op {
        uint64_t asked, answered; /* answered 0: not (yet) */
        uint64_t value;
        uint32_t content; /* NEED_CONTENT */
        uint16_t name;    /* register */
        uint8_t kind, need;
        bool maybe;   /* whether it took effect is not known */
        bool dropped; /* it surely did not, and says nothing */
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

/*
 * Whether a register may have had this value (0: nothing) at some time between asked and answered,
 * as far as operations that were answered tell. For what is not read through the key's primary:
 * listings.
 */
bool history_possible(unsigned name, uint64_t value, uint64_t asked, uint64_t answered);
/* The same for any value but nothing. */
bool history_possibly_there(unsigned name, uint64_t asked, uint64_t answered);

#endif
