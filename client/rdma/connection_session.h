/*
 * connection_session.h - the session of a connection: the way to the endpoint, one session on it
 * after another, and when there is no use in opening one. Private to the connection: connection.c,
 * grants.c and connection_session.c. All of it is the connection's thread's, but for what is said
 * to be any thread's.
 */
#ifndef CLIENT_CONNECTION_SESSION_H
#define CLIENT_CONNECTION_SESSION_H

#include "client/rdma/session_request.h"

#define MR_SESSION_ENDS 3u /* so many within a minute, and there is no RDMA for a minute */

struct mr_registrations;

/* How the connection waits, and what it wants to hear. */
struct mr_connection_hooks {
        void (*pause)(void *arg);                            /* as in struct mr_session_wait */
        void (*wake)(void *arg);                             /* the same */
        int (*wait)(void *arg, int fd, unsigned timeout_ms); /* as in struct rdx_client_events */
        void (*noticed)(void *arg, uint64_t number);
        void (*result)(void *arg, const struct rdx_client_result *result);
        void *arg;
};

struct mr_connection_session {
        /* constant */
        struct mr_client *client;
        struct mr_registrations *memory;
        struct mr_connection_hooks hooks;

        /* owner: the connection's thread */
        struct rdx_client_domain *domain;
        char address[64]; /* that the domain leads to */
        uint16_t port;
        struct rdx_client *rdx; /* NULL: there is no session */
        struct mr_session opened;
        struct mr_session_key key;
        int64_t renew_ms; /* monotonic */
        bool used;        /* since it was opened */
        int64_t ended_ms[MR_SESSION_ENDS];
        unsigned ends, failures; /* failures: one after another, of opening */

        /* guarded by lock: any thread may look */
        pthread_mutex_t lock;
        int64_t refused_until_ms;
        bool lasting; /* not even those that insist */
        struct mr_error refusal;
};

void mr_connection_session_init(struct mr_connection_session *session, struct mr_client *client,
                                struct mr_registrations *memory, const struct mr_connection_hooks *hooks);
/* 0, or why none is opened for the time being, even for one who insists. Any thread. */
int mr_connection_session_refused(struct mr_connection_session *session, bool insist, struct mr_error *err);

/*
 * Blocking. Nothing may be leased. err says why not. -EBUSY also: as many endpoints as may be have
 * sessions.
 */
int mr_connection_session_open(struct mr_connection_session *session, struct mr_error *err);
/*
 * It should not be used for anything new: it is about to expire, or the credentials are others by
 * now.
 */
bool mr_connection_session_old(const struct mr_connection_session *session);
/* When it will be; INT64_MAX: there is none. */
int64_t mr_connection_session_due(const struct mr_connection_session *session);
/* Ends it and, where it was used, opens another. Nothing may be leased. */
void mr_connection_session_renew(struct mr_connection_session *session);
/* It was fenced, and no right of it is open. our_will: no failure that counts. */
void mr_connection_session_lost(struct mr_connection_session *session, bool our_will);
/* While there is one. */
void mr_connection_session_describe(const struct mr_connection_session *session, struct mr_rdma_report *out);
/* At the connection's end. */
void mr_connection_session_close(struct mr_connection_session *session);

#endif
