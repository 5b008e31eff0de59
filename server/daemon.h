/*
 * daemon.h - the whole process: everything opened in order, served, and closed in the opposite
 * order.
 */
#ifndef MILLRACE_SERVER_DAEMON_H
#define MILLRACE_SERVER_DAEMON_H

#include "server/access_log.h"
#include "server/admin_listener.h"
#include "server/credentials.h"
#include "server/descriptors.h"
#include "server/lead.h"
#include "server/listeners.h"
#include "server/loops.h"
#include "server/rdma_server.h"
#include "server/sealer.h"
#include "server/switches.h"

enum srv_exit { SRV_EXIT_DRAINED = 0, SRV_EXIT_FAILED = 1, SRV_EXIT_NOT_STARTED = 2 };

/* owner: the main thread */
struct srv_daemon {
        const struct srv_settings *settings;
        struct srv_listener listener, plain_listener, admin_listener;
        struct srv_loops loops;
        struct srv_lead *lead; /* NULL: a store of one machine */
        struct eng_store *store;
        struct srv_credentials credentials;
        struct srv_sealer sealer;
        bool sealer_open;
        struct srv_access_log *access_log; /* NULL: none */
        char few_connections[SRV_DESCRIPTORS_WARNING]; /* to be told when it serves; or "" */
        struct rdx_server *rdma; /* NULL: none */
        struct gw_networks proxies;
        struct gw_targets targets, plain_targets; /* that tokens may name on the two listeners */
        struct gw_gateway *gateway;
        struct srv_switches *switches;
        struct srv_forecast *forecast;
        struct srv_admin *admin;
        int signal_fd;
        int64_t started_ms;
};

/*
 * Opens, serves until told to end, closes. Returns the exit status; what went wrong has been said.
 */
enum srv_exit srv_daemon_run(const struct srv_settings *settings);

/* As many descriptors, and as much locked memory, as the process may have. */
void srv_raise_limits(void);
/* Main thread. 0 or -ENOMEM. */
int srv_gateway_credentials_set(struct gw_gateway *gateway, const struct srv_credentials *credentials);

/* ---- serve.c ---- */

/*
 * A descriptor from which the signals come that the daemon waits for; blocks them in this thread
 * and those made by it. Negative errno.
 */
int srv_signals_open(void);
/* From the first request to the last: waits for signals, watches health, reloads, and drains. */
enum srv_exit srv_serve(struct srv_daemon *daemon);

#endif
