/*
 * rdma_context.h - what a client has of RDMA: the transport, its connections, and whether there is
 * any use in asking. Private to client/.
 */
#ifndef CLIENT_RDMA_CONTEXT_H
#define CLIENT_RDMA_CONTEXT_H

#include "client/rdma/connection.h"

/* Of it; connections come with the first grant. Any thread. */
struct mr_rdma_context {
        struct mr_client *client; /* constant */
        _Atomic(struct mr_connection *)
                connection[MR_CONNECTIONS]; /* written once, under the client's lock; read by signal handlers */

        pthread_mutex_t memory_lock; /* guards registrations: those of buffers, and the connections' lists of them */
        pthread_cond_t memory_quiet; /* closing became 0 */
        unsigned closing;            /* registrations that are being given up outside the lock */

        struct mr_bounce *bounce; /* has a lock of its own */
};

int mr_rdma_context_new(struct mr_client *client, struct mr_rdma_context **out);
/*
 * Ends the connections' threads: sessions are told to end. Nothing may be leased or waiting. While
 * loops still run.
 */
void mr_rdma_context_stop(struct mr_rdma_context *context);
void mr_rdma_context_free(struct mr_rdma_context *context); /* NULL is allowed */
/* Connections look at what was stopped. Also in signal handlers. */
void mr_rdma_context_wake(struct mr_rdma_context *context);

/*
 * 0, or why a grant that does not insist would be refused now (err, may be NULL, says it in words).
 * Does not wait.
 */
int mr_rdma_context_refused(struct mr_client *client, enum mr_connection_kind kind, struct mr_error *err);

/*
 * driver.c. Blocking, at first. The transport: verbs, or the settings' driver. -EOPNOTSUPP with
 * words: no libraries, no device.
 */
int mr_rdma_driver(struct mr_client *client, const struct rdx_transport **out, struct mr_error *err);

#endif
