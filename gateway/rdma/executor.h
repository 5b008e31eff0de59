/*
 * executor.h - runs the entries of BATCH messages on the loop of their sessions: a bounded number
 * at once, sessions in turn.
 */
#ifndef GATEWAY_RDMA_EXECUTOR_H
#define GATEWAY_RDMA_EXECUTOR_H

#include "gateway/http/gw.h"
#include "rdma.h"

#define GW_EXECUTOR_TASKS 256u /* entries under way on a loop */
#define GW_EXECUTOR_EACH  64u  /* of one session */
#define GW_EXECUTOR_FEW   16u  /* no more are begun for it before no more than so many are left of them */
#define GW_EXECUTOR_READS 8u   /* of these, objects being read that are not in a record */
#define GW_EXECUTOR_TURN  8u   /* begun for one session before it is the next one's turn */

/* A message whose client has not said how long it waits: later nobody waits any more. */
#define GW_EXECUTOR_LIMIT_NS (30ull * 1000 * 1000 * 1000)

/*
 * On the session's loop. Each entry gets its result, now or later. -ENOMEM: none has one, nothing
 * was begun.
 */
int gw_executor_run(struct gw_loop *loop, struct rdx_batch *batch);
/*
 * After the loops have stopped and what they had was run: all sessions are over. What the engine
 * still looks up comes back to nobody. NULL is allowed.
 */
void gw_executor_end(struct gw_executor *ex);

#endif
