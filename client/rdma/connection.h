/*
 * connection.h - one RDMA session with one endpoint at a time, the thread that owns it, and grants:
 * rights of single requests to slices of buffers. Private to client/.
 *
 *   mr_grant_ask ──> waiting ──> granted() ──> the request goes out, by HTTP or mr_grant_batch() ──> mr_grant_over() ──> ended()
 *                       └─ granted(rv): it was not to be had, nothing else comes
 *
 * A client has a connection with each endpoint that a grant went to, and sessions with several at
 * once; what breaks one ends the grants of that one alone. A grant gets its endpoint when it is asked
 * for, as the attempts of requests do (docs/design/endpoints.md), and its request goes there.
 *
 * The connection opens a session when the first grant asks for one, opens another before it expires
 * or when credentials were refreshed (grants wait meanwhile, nothing else is seen of it), and gives
 * up for a time where there is no use. All callbacks run on the connection's thread: they must not
 * wait. They may ask for grants and begin requests.
 */
#ifndef CLIENT_CONNECTION_H
#define CLIENT_CONNECTION_H

#include "client/http/client_request.h"
#include "rdma_client.h"
#include "client/base/object_check.h"

/*
 * Connections for memory of this host, with the narrowest rights that the device has; others for
 * dma-bufs, which know only rights to whole regions.
 */
enum mr_connection_kind { MR_CONNECTION_HOST, MR_CONNECTION_DMABUF, MR_CONNECTIONS };

struct mr_connection;
struct mr_buffer;

/* What is known of a request when it is over. */
enum mr_grant_end {
        MR_LEASE_QUIET, /* nothing was posted for it, or nothing is any more, and no notice comes: the answer says so, or it was never sent */
        MR_LEASE_NOTICED, /* the answer names a notice, which is waited for */
        MR_LEASE_DOUBT,   /* nobody knows: all of the session is fenced */
        MR_LEASE_UNWANTED /* the same, since the caller gave it up: the session's end is no fault of anybody */
};

/*
 * One request's right to bytes [offset, offset + len) of a buffer. owner: the caller until
 * mr_grant_ask() has answered 0, and again from ended(), or granted() with a failure, on; between,
 * the connection. Zeroed by the caller; the same one may be asked for again then, and goes where it
 * has not been, if it can.
 */
struct mr_grant {
        unsigned magic;           /* object_check.h */
        struct mr_buffer *buffer; /* in use by the caller (mr_place_take()) until the grant has ended */
        uint64_t offset, len;     /* len > 0 */
        bool read;                /* the server reads (PUT), else it writes */
        bool insist; /* also while the connection has given up for a time; else such a grant is refused at once */
        unsigned
                replies; /* of a BATCH message: how many RESULT messages may come, 1..RDX_REPLIES_MOST; 0: for a request over HTTP */
        uint32_t delay_ms; /* to be granted no sooner */
        const atomic_bool *stop,
                *canceled; /* as in struct mr_request; may be NULL. Heeded while it waits, and by a BATCH */

        /*
         * rv 0: place, number and key are set, and may be used until ended(). Else: -EOPNOTSUPP no
         * RDMA here or there, -ECANCELED, -EACCES, and what else opening a session, registering
         * memory or the network may say; error has words.
         */
        void (*granted)(void *arg, struct mr_grant *grant, int rv);
        /*
         * A RESULT message of a BATCH; result is valid during the call. Bytes may be used only
         * after ended(0).
         */
        void (*result)(void *arg, struct mr_grant *grant, const struct rdx_client_result *result);
        /*
         * Nobody touches the memory any more, whatever rv. 0: what was said by mr_grant_over() is
         * so, and the notice is here; of a BATCH: its LAST result is here. -ENOTCONN, -ETIMEDOUT,
         * -ECANCELED: the session is over, and what is in the memory is not known.
         */
        void (*ended)(void *arg, struct mr_grant *grant, int rv);
        void *arg;

        /* from granted() on */
        struct rdx_window_span place;
        uint64_t number;
        struct mr_session_key key;
        struct mr_error error;

        /* private to rdma_context.c */
        struct mr_endpoint_use use; /* taken until it was refused or has ended */
        unsigned tried;             /* mask of the endpoints that it was asked of */

        /* private to grants.c */
        struct mr_connection *connection;
        struct mr_grant *next, *prev;
        struct rdx_window_binding binding;
        int64_t due_ms;
        enum mr_grant_end how;
        bool bound, over, noticed;
};

/* Any thread. 0: granted() will be called; else nothing was begun: -ENOMEM, -EAGAIN, -ECHILD. */
int mr_grant_ask(struct mr_client *client, struct mr_grant *grant);
/*
 * After granted(rv), which was a failure: whether the same may be granted if it is asked for again.
 * What one endpoint lacks another may have, and there may be room to register memory there.
 */
bool mr_grant_may_pass(struct mr_client *client, const struct mr_grant *grant, int rv);

/*
 * The request of a granted grant is over, or was never sent. Any thread, once; ended() will be
 * called. Not for a BATCH that was sent: that is over by its LAST result, by a session's end, by 30
 * s without a result, or by being stopped, and ended() is called by itself.
 */
void mr_grant_over(struct mr_grant *grant, enum mr_grant_end how);

/*
 * In granted() of a grant with replies, once: sends a BATCH message of entries as many as fit, at
 * most 256 and at most 64 for each reply; *sent says how many. The rest is for another grant:
 * several messages of one batch have the same batch number, and `first` counted on. Each place of
 * an entry counts from the grant's beginning. -EINVAL: an entry the format has no room for, or a
 * place outside; -EAGAIN, -ENOTCONN: nothing was sent. After any failure:
 * mr_grant_over(MR_LEASE_QUIET).
 */
int mr_grant_batch(struct mr_grant *grant, const struct rdx_client_batch *batch, const struct rdx_entry *entries,
                   unsigned count, unsigned *sent);

/* In granted(): what has granted it. */
void mr_grant_describe(const struct mr_grant *grant, struct mr_rdma_report *out);

/* ---- for rdma_context.c ---------------------------------------------------------------------- */

int mr_connection_new(struct mr_client *client, enum mr_connection_kind kind, unsigned endpoint,
                      struct mr_connection **out);
/* Tells the thread to end the session, and itself. */
void mr_connection_end(struct mr_connection *connection);
/* Waits for that. */
void mr_connection_free(struct mr_connection *connection);
void mr_connection_wake(struct mr_connection *connection); /* also in signal handlers */
/* 0, or why a grant would be refused now, one that insists or one that does not. Any thread. */
int mr_connection_refused(struct mr_connection *connection, bool insist, struct mr_error *err);

#endif
