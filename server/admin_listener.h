/*
 * admin_listener.h - the admin listener: health, metrics, and signed calls, over plain HTTP on an
 * address of its own.
 */
#ifndef MILLRACE_SERVER_ADMIN_LISTENER_H
#define MILLRACE_SERVER_ADMIN_LISTENER_H

#include "server/credentials.h"
#include "server/metrics.h"

#include <sys/types.h>

struct rem_home_asked;
struct srv_link;
struct srv_admin;

struct srv_admin_options {
        struct srv_statistics_source source;
        const char *region; /* that requests are signed for */
        int fd;             /* bound, listening; taken over when starting succeeds. -1: it listens nowhere, and is asked by srv_admin_ask() */
        /* Of a node: answers what a pool's leader is to answer (rem_home_link_ask()). NULL: all is answered here. */
        struct srv_link *link; /* of a cluster's process; NULL: a store of one machine */
        unsigned (*sessions)(void *arg); /* of a leader process: gateways that are in a session with it. Any thread */
        void *sessions_arg;
        unsigned pool; /* of a leader process: its pool's number */
        ssize_t (*ask_leader)(void *arg, unsigned pool, const uint8_t *bytes, size_t len, uint8_t *room);
        void *ask_arg;
        const struct srv_list *hosts; /* that calls may name beside the listener's addresses; stays */
        struct gw_gateway *tls; /* TLS with this one's pair; NULL: plain HTTP */
        const char *tls_priorities;
        const struct srv_settings *settings; /* for support bundles; stays */
};

/* Starts a thread that serves. 0 or a negative errno. */
int srv_admin_start(const struct srv_admin_options *options, const struct srv_credentials *credentials,
                    struct srv_admin **out);
/* Any thread: who may sign from now on. */
void srv_admin_credentials_set(struct srv_admin *admin, const struct srv_credentials *credentials);
/* Of a leader process: what came to some node's listener, and was authorised there. Any thread; it is answered on a thread of its own. */
void srv_admin_ask(struct srv_admin *admin, struct rem_home_asked *asked);
/* Any thread: pools whose leader process is this node's, for who asks, a bit for each number. */
void srv_admin_leads(struct srv_admin *admin, uint32_t leads);
/* Any thread: from now on /health/ready answers 503. */
void srv_admin_draining(struct srv_admin *admin);
/* Ends the thread. Loops may still hold messages of it. */
void srv_admin_stop(struct srv_admin *admin);
/* After srv_admin_stop(), and after the loops were freed. NULL is allowed. */
void srv_admin_free(struct srv_admin *admin);

#endif
