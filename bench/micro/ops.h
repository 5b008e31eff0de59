/* ops.h - what a run can do over and over: each a begin() of struct rig_run. On loops. */
#ifndef BENCH_MICRO_OPS_H
#define BENCH_MICRO_OPS_H

#include "bench/micro/rig.h"

void op_put(struct rig_op *op);       /* key first + index, run->size bytes */
void op_overwrite(struct rig_op *op); /* a random one of run->keys */
void op_read(struct rig_op *op);      /* the whole of one of run->keys, in an order that has each once */
void op_lookup(struct rig_op *op);    /* opens and closes a random one of run->keys */
void op_list(struct rig_op *op);      /* run->max names behind a random one of run->keys */

#endif
