/*
 * session_batch.c - BATCH messages of RDMA sessions. Each entry is declined: the client reads it over HTTP, with a window or without. On the session's loop.
 */
#include "session.h"

void gw_rdma_batch(struct gw_gateway *gw, struct rdx_batch *batch)
{
        unsigned i, count = rdx_batch_message(batch)->count;
        struct rdx_result result = {.status = (uint16_t)rdx_code_status(RDX_CODE_DECLINED), .code = RDX_CODE_DECLINED};

        for (i = 0; i < count; i++)
                rdx_batch_result(batch, i, &result);
}
