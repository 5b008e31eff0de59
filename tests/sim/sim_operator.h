/*
 * sim_operator.h - the operator of the store: in every third history drives are lost for good and
 * others take their place, absent ones are brought back while the store serves, some are added,
 * some removed.
 *
 * What he has begun he goes on asking for, life after life, until it is done. Only one drive is
 * lost at a time: the next when the store has made good for it.
 */
#ifndef MILLRACE_TESTS_SIM_OPERATOR_H
#define MILLRACE_TESTS_SIM_OPERATOR_H

#include <stdbool.h>
#include <stdint.h>

struct operator_figures {
        uint64_t lost, replaced, returned, added, removed, forced, refused; /* drives; starts; requests */
};
extern struct operator_figures operator_figures;

/*
 * A new history. may_lose: what a drive held may be gone for good, as far as the store's code makes
 * good for it.
 */
void operator_begin(bool may_lose);
/* A process has been started: he looks at it now and then, until it is gone. */
void operator_start(void);
/* One drive is lost and will be replaced, or is removed. False: not now. */
bool operator_changes_one(void);
/* He has begun something in this history. */
bool operator_worked(void);
/* No change of the drives is under way, and all that there are have what they should. */
bool operator_sees_whole(void);
/* Nothing that he began is left to be done. */
bool operator_idle(void);

#endif
