/*
 * admin_listener.h - the admin listener: health, metrics, and signed calls, over plain HTTP on an
 * address of its own.
 */
#ifndef MILLRACE_SERVER_ADMIN_LISTENER_H
#define MILLRACE_SERVER_ADMIN_LISTENER_H

#include "server/credentials.h"
#include "server/metrics.h"

struct srv_admin;

struct srv_admin_options {
        struct srv_statistics_source source;
        const char *region; /* that requests are signed for */
        int fd;             /* bound, listening; taken over when starting succeeds */
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
/* Any thread: from now on /health/ready answers 503. */
void srv_admin_draining(struct srv_admin *admin);
/* Ends the thread. Loops may still hold messages of it. */
void srv_admin_stop(struct srv_admin *admin);
/* After srv_admin_stop(), and after the loops were freed. NULL is allowed. */
void srv_admin_free(struct srv_admin *admin);

#endif
