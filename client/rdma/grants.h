/*
 * grants.h - what a connection is made of, and what its thread does with grants. Private to
 * connection.c and grants.c. All of it is the connection's thread's, but for what struct
 * mr_connection says to be others'.
 */
#ifndef CLIENT_GRANTS_H
#define CLIENT_GRANTS_H

#include "client/rdma/connection_session.h"
#include "client/rdma/memory.h"
#include "client/base/object_check.h"

/* Linked by next and prev. */
struct grant_list {
        struct mr_grant *first, *last;
};

struct mr_connection {
        unsigned magic; /* object_check.h */
        /* constant */
        struct mr_client *client;
        int wake_fd;
        pthread_t thread;

        /* guarded by lock */
        pthread_mutex_t lock;
        struct grant_list asked;
        bool ending;

        struct mr_registrations memory;

        /* owner: the connection's thread */
        struct grant_list waiting, granted;
        unsigned granted_count;
        bool woken; /* something came while the thread waited for something else: it is to look at everything again */
        struct mr_connection_session session;
};

/* A grant that is new goes to the inbox. Any thread. */
void mr_grants_add(struct mr_connection *connection, struct mr_grant *grant);
/* From the inbox to those that wait. */
void mr_grants_take(struct mr_connection *connection);
/* Those that were stopped while they waited. */
void mr_grants_sweep(struct mr_connection *connection);
/* Ends those whose time has come. */
void mr_grants_look(struct mr_connection *connection);
/* Grants what may be granted now; opens the session for it, which blocks. */
void mr_grants_give(struct mr_connection *connection);
/* A RESULT message has come. */
void mr_grants_result(struct mr_connection *connection, const struct rdx_client_result *result);
/*
 * The session's end, at once: nobody writes to anything any more, every right is over. our_will: no
 * failure that counts. Harmless twice.
 */
void mr_grants_lose(struct mr_connection *connection, bool our_will);
/* When the next of them has to be looked at; INT64_MAX: at no certain time. */
int64_t mr_grants_due(const struct mr_connection *connection, int64_t now);

#endif
