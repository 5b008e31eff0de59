/*
 * history_versions.h - keys with versions, as history.c judges them (private to it and to
 * sim_versions.c).
 *
 * The value of such a key is all of its versions, the newest first, with the rules of
 * docs/design/versions.md: the search of history.c sees one number for each such list. An operation
 * names a version by its number, or H_NULL, and its content; 0: a delete marker.
 */
#ifndef MILLRACE_TESTS_SIM_HISTORY_VERSIONS_H
#define MILLRACE_TESTS_SIM_HISTORY_VERSIONS_H

#include "tests/sim/history.h"

#define H_NULL       0u
#define H_UNNUMBERED UINT64_MAX /* it has a number, which no answer told */

/* What a version has beside its content: a value's tag. */
#define H_EXTRA(tag, hold) ((uint32_t)(tag) << 1 | (uint32_t)(hold))

/* Its retention; 0: none. */
#define H_RETENTION(mode, until_ms) ((mode) == 0 ? 0 : (uint64_t)(until_ms) << 2 | (uint64_t)(mode))

struct version_item { /* no bytes between its members: lists of them are compared as bytes */
        uint64_t version;
        uint32_t content, extra;
        uint64_t retain;
};

void versions_begin(void); /* a new history */
/* Before the values of this key are looked at; those of the last one are forgotten. */
void versions_prepare(unsigned name);
/* The value behind op, or false if it cannot have happened with this one. */
bool versions_step(const struct history_op *op, uint64_t state, uint64_t *after);
/* Some answer speaks of what this change, which may not have taken effect, would have left. */
bool versions_observed(const struct history_op *change);
void versions_print(const struct history_op *op);
/* For H_LIST: its tags are not compared. */
uint64_t versions_list(const struct version_item *items, unsigned count);

/*
 * For listings while changes go on: whether this version may have been there at some time between
 * asked and answered.
 */
bool versions_possible(unsigned name, const struct version_item *item, uint64_t asked, uint64_t answered);
/* The next version, behind `after` (NULL: the first), that surely was there all that time. */
const struct history_op *versions_surely_there(unsigned name, const struct history_op *after, uint64_t asked, uint64_t answered);

#endif
