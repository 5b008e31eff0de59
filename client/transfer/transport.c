/*
 * transport.c - chooses the transport of a fetch. Each takes it, keeps the promises of fetch.h, and
 * calls done(). (Of what is sent: send_rdma.c.)
 */
#include "client/transfer/fetch.h"

int mr_fetch_start(struct mr_client *client, struct mr_fetch *fetch)
{
        fetch->magic = mr_fetch_magic;
        fetch->want = UINT64_MAX;
        if (fetch->transport == MR_TRANSPORT_RDMA || mr_fetch_suits_rdma(client, fetch))
                return mr_fetch_rdma(client, fetch);
        return mr_fetch_tcp(client, fetch);
}
