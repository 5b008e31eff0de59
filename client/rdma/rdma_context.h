/* rdma_context.h - what a client has of RDMA: the transport, its lanes, and whether there is any use in asking. Private to client/. */
#ifndef CLIENT_RDMA_CONTEXT_H
#define CLIENT_RDMA_CONTEXT_H

#include "client/rdma/connection.h"

/* Of it; lanes come with the first lease. Any thread. */
struct mr_fabric {
        struct mr_client *client;                 /* constant */
        _Atomic(struct mr_lane *) lane[MR_LANES]; /* written once, under the client's lock; read by signal handlers */

        pthread_mutex_t memory_lock; /* guards registrations: those of buffers, and the lanes' lists of them */
        pthread_cond_t memory_quiet; /* closing became 0 */
        unsigned closing;            /* registrations that are being given up outside the lock */

        struct mr_bounce *bounce; /* has a lock of its own */
};

int mr_fabric_new(struct mr_client *client, struct mr_fabric **out);
/* Ends the lanes' threads: sessions are told to end. Nothing may be leased or waiting. While loops still run. */
void mr_fabric_stop(struct mr_fabric *fabric);
void mr_fabric_free(struct mr_fabric *fabric); /* NULL is allowed */
/* Lanes look at what was stopped. Also in signal handlers. */
void mr_fabric_wake(struct mr_fabric *fabric);

/* The lane of that kind, begun if need be. -ENOMEM, -EAGAIN. */
int mr_fabric_lane(struct mr_client *client, enum mr_lane_kind kind, struct mr_lane **out);
/* 0, or why a lease that does not insist would be refused now (err, may be NULL, says it in words). Does not wait. */
int mr_fabric_refused(struct mr_client *client, enum mr_lane_kind kind, struct mr_error *err);

/* Blocking, at first. The transport: verbs, or the settings' driver. -EOPNOTSUPP with words: no libraries, no device. */
int mr_fabric_transport(struct mr_client *client, const struct rdx_transport **out, struct mr_error *err);

#endif
