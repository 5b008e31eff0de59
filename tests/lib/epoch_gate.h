/*
 * epoch_gate.h - ends the epochs of a store that serves with one that takes in a drive and is
 * written on chosen drives alone.
 *
 * A drive of the test's own stands before each of the store's and looks at the records of epochs.
 * Set up and taken down by the test thread.
 */
#ifndef MILLRACE_TESTS_EPOCH_GATE_H
#define MILLRACE_TESTS_EPOCH_GATE_H

#include "tests/lib/store_fixture.h"

/* owner: loop 0, which alone makes epochs; drive, inner, and what the test sets: constant */
struct epoch_gate {
        struct sf *sf;
        unsigned takes;                /* slot: the epoch that has this drive as a member */
        uint64_t reaches;              /* slots: that epoch is written there. Elsewhere, as all epochs behind it, it fails */
        bool without_tail;             /* it is written as builds did that knew of no fmt_epoch_tail */
        struct epoch_gate_drive {
                struct eng_drive drive; /* first */
                struct eng_drive *inner;
                struct epoch_gate *gate;
                unsigned slot;
                struct eng_op *refused;
                struct lp_msg msg;
        } drives[SF_DRIVES_MAX];
        bool came;
        uint8_t id[FMT_ID];            /* of that epoch, once it came */
        struct eng_buf *cut;
};

/*
 * gate: sf, takes, reaches and without_tail set, the rest zeroes. Before those drives of the store
 * that are open and have no gate yet.
 */
void epoch_gate_put(struct epoch_gate *gate);
/* After the store was closed. */
void epoch_gate_free(struct epoch_gate *gate);

#endif
