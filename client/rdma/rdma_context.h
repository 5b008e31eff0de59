/*
 * rdma_context.h - what a client has of RDMA: the transport, its connections, and whether there is
 * any use in asking. Private to client/.
 */
#ifndef CLIENT_RDMA_CONTEXT_H
#define CLIENT_RDMA_CONTEXT_H

#include "client/rdma/connection.h"

/*
 * Endpoints with which there may be sessions and registered memory at once, for each kind of memory.
 * A session has 2 MiB of receive buffers.
 */
#define MR_RDMA_ENDPOINTS 8u

/* Of it; connections come with the first grant that goes to their endpoint. Any thread. */
struct mr_rdma_context {
        struct mr_client *client; /* constant */
        /* by endpoint; written once, under the client's lock; read by signal handlers */
        _Atomic(struct mr_connection *) connection[MR_CONNECTIONS][MR_ENDPOINTS_MAX];
        /* masks of the endpoints that have a place, at most MR_RDMA_ENDPOINTS; guarded by the client's lock */
        unsigned held[MR_CONNECTIONS];

        pthread_mutex_t memory_lock; /* guards registrations: those of buffers, and the connections' lists of them */
        pthread_cond_t memory_quiet; /* closing became 0 */
        unsigned closing;            /* registrations that are being given up outside the lock */

        struct mr_bounce *bounce; /* has a lock of its own */
};

int mr_rdma_context_new(struct mr_client *client, struct mr_rdma_context **out);
/*
 * Ends the connections' threads, all at once: sessions are told to end. Nothing may be leased or waiting. While
 * loops still run.
 */
void mr_rdma_context_stop(struct mr_rdma_context *context);
void mr_rdma_context_free(struct mr_rdma_context *context); /* NULL is allowed */
/* Connections look at what was stopped. Also in signal handlers. */
void mr_rdma_context_wake(struct mr_rdma_context *context);

/*
 * 0, or why a grant that does not insist would be refused now, whatever endpoint it went to (err, may
 * be NULL, says it in words). Does not wait.
 */
int mr_rdma_context_refused(struct mr_client *client, enum mr_connection_kind kind, struct mr_error *err);

/* ---- for connections ------------------------------------------------------------------------- */

/* Whether the endpoint has, or gets, one of the places for sessions. */
bool mr_rdma_context_hold(struct mr_client *client, enum mr_connection_kind kind, unsigned endpoint);
/* Its place is free: there is neither a session nor memory. Harmless twice. */
void mr_rdma_context_release(struct mr_client *client, enum mr_connection_kind kind, unsigned endpoint);
/* A grant is over: what goes to its endpoint is one less. */
void mr_rdma_context_give_endpoint(struct mr_client *client, struct mr_grant *grant);

/*
 * driver.c. Blocking, at first. The transport: verbs, or the settings' driver. -EOPNOTSUPP with
 * words: no libraries, no device.
 */
int mr_rdma_driver(struct mr_client *client, const struct rdx_transport **out, struct mr_error *err);

#endif
