/*
 * session_batch.c - the entry of BATCH messages on RDMA sessions, on the session's loop. executor.c
 * runs them.
 */
#include "gateway/rdma/entry.h"
#include "gateway/rdma/executor.h"
#include "gateway/rdma/rdma_session.h"

void gw_rdma_batch(struct gw_gateway *gw, struct rdx_batch *batch)
{
        unsigned i, count = rdx_batch_message(batch)->count;
        struct gw_loop *loop = &gw->loops[lp_index(lp_self())];
        struct gw_entry entry = {.loop = loop};

        if (gw_executor_run(loop, batch) == 0)
                return;
        gw_entry_refuse(&entry, RDX_CODE_SLOW_DOWN);
        for (i = 0; i < count; i++) {
                gw_entry_count(&entry, GW_ENTRY_RDMA);
                rdx_batch_result(batch, i, &entry.result);
        }
}
