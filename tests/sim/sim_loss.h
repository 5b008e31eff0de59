/*
 * sim_loss.h - stripes beyond repair: in every third history with faults, more than m shards of one
 * stripe are made to be gone at once, on drives that all answer. Nothing can bring such a stripe
 * back; all else must go on.
 *
 * Beside them, shards that can be given back are made to be gone: of other stripes of the same
 * object; and m of one stripe, while a drive that has another of its shards is away. Such a stripe
 * is unreadable till the drive is back, and never lost.
 */
#ifndef MILLRACE_TESTS_SIM_LOSS_H
#define MILLRACE_TESTS_SIM_LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/format.h"

#define LOSSES_MAX 8u

struct loss_figures {
        uint64_t stripes, of_several, overwritten, nearly, shards, changed, counted; /* of_several: of objects with more than one stripe; changed: with a drive lost or removed behind that; counted: seen in health, in the end */
};
extern struct loss_figures loss_figures;

/* A stripe that is beyond repair. */
struct sim_loss {
        uint8_t id[FMT_ID];            /* of the part */
        uint8_t key[24];
        uint32_t stripe, gone;         /* gone: the shards that were taken, a bit for each */
        uint32_t content;              /* the part's own */
        uint64_t from, to;             /* its bytes of that */
        uint64_t others;               /* what else may have taken shards, counted: taken_by_others() */
};

struct loss_range {
        uint64_t from, to;
};

/* A new history. */
void loss_begin(bool faults, int rotten);
bool loss_planned(void);
/* A process has been started: stripes are lost while it serves. */
void loss_start(void);
/* All is whole, and nothing else goes on: one or two are lost now, if there are objects. */
void loss_at_rest(void);

/* Likewise: one drive is lost and will be replaced, or is removed. False: none. */
bool loss_changes_drive(void);

unsigned loss_count(void);
const struct sim_loss *loss_of(const uint8_t id[FMT_ID], uint32_t stripe);
/* Shards of it that were not taken may be gone, too: a drive lost what it had. */
bool loss_may_have_grown(const struct sim_loss *loss);
/* What of a content is lost, in ascending order; returns how many ranges. */
unsigned loss_ranges(uint32_t content, struct loss_range out[LOSSES_MAX]);
bool loss_meets(uint32_t content, uint64_t from, uint64_t to);
/*
 * Shards are gone that can be given back, and have not been yet: no drive may go for good before
 * that.
 */
bool loss_pending(void);

/* At any time: the store counts none that are not lost, and names none. */
void loss_watch(void);

#endif
