/*
 * session_request.h - RDMA sessions over HTTP: opening them, and telling the endpoint that they
 * have ended. Private to client/rdma/.
 */
#ifndef CLIENT_SESSION_REQUEST_H
#define CLIENT_SESSION_REQUEST_H

#include "client/rdma/connection.h"

#define MR_SESSION_RECEIVES 128u /* of 16 KiB each */

/* What the endpoint answered. Holds keys: to be wiped. owner: the connection */
struct mr_session {
        struct rdx_grant grant; /* address refers to the text below */
        char address[64];
        char id[2 * RDX_ID_LEN + 1];
        int64_t expires_ms;    /* monotonic; never after the credentials' end */
        uint64_t generation;   /* of the credentials */
        uint64_t window_bytes; /* the longest window */
};

/* How its caller waits for an answer. */
struct mr_session_wait {
        void (*pause)(void *arg); /* until wake() was called, or a while */
        void (*wake)(void *arg);  /* any thread */
        void *arg;
};

/*
 * Asks an endpoint of the client's, by its index, for a session with one of these rights (mask of
 * enum rdx_rights), once, for at most 10 s. -EOPNOTSUPP: it has no such thing; -ENOTSUP: none of
 * these rights; -EACCES; -EBUSY: too many sessions; -EPROTO; others: of the way to it. err says it
 * in words.
 */
int mr_session_open(struct mr_client *client, unsigned endpoint, unsigned rights, const struct mr_session_wait *wait,
                    struct mr_session *out, struct mr_error *err);
/* Forgets its keys. */
void mr_session_wipe(struct mr_session *session);
/* By the session's own key, once, at most 2 s; whatever is answered. */
void mr_session_delete(struct mr_client *client, const struct mr_session_key *key, const struct mr_session_wait *wait);

#endif
