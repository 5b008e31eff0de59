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

#include <signal.h>

enum srv_exit { SRV_EXIT_DRAINED = 0, SRV_EXIT_FAILED = 1, SRV_EXIT_NOT_STARTED = 2 };

/*
 * A node's gateway: the store is a home of the pool's, sockets are the node process's, and all that runs
 * once for a pool (drives, lifecycle, inventory) is its leader's, which is asked.
 */
struct srv_daemon_home {
        const struct eng_leader_link *leader;
        const struct eng_drive_opener *opener;
        unsigned pool;              /* whose these are: the first one */
        uint16_t node, party;       /* party: of net/, which its ids name as their maker */
        uint32_t boot;
        int s3, plain, admin;       /* plain -1: none */
        struct srv_link *link;      /* of the node process */
        ssize_t (*ask_leader)(void *arg, unsigned pool, const uint8_t *bytes, size_t len, uint8_t *room); /* see struct srv_admin_options */
        bool (*stopped)(void *arg); /* the loops have stopped. False: as srv_daemon_close() */
        void (*quiet)(void *arg);   /* returns when no other thread is in the middle of a post to them; they are freed next */
        void *arg;
};

/* owner: the main thread */
struct srv_daemon {
        const struct srv_settings *settings;
        struct srv_listener listener, plain_listener, admin_listener;
        struct srv_loops loops;
        struct srv_lead *lead; /* NULL: not a leader process */
        const struct srv_daemon_home *home; /* NULL: not a node's gateway. Both NULL: a store of one machine */
        struct eng_store *store;
        struct srv_pool_sources pools; /* this store, and those of srv_daemon_add_pool() */
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

/* The same in steps, for a node process: all is open, and serves. What was opened is to be closed after an error, too. */
int srv_daemon_open(struct srv_daemon *daemon, struct srv_error *error);
/*
 * A node's gateway, which is open, gets a home store of one more pool, on its loops; gw_pool_add() gives it to clients. The caller
 * starts what it asks its leader by. Negative errno: nothing was opened.
 */
int srv_daemon_add_pool(struct srv_daemon *daemon, unsigned number, const struct eng_leader_link *leader, const struct eng_drive_opener *opener, struct eng_store **out,
                        struct srv_error *error);
/* False: a thread may still use what is left; the process is to end at once. */
bool srv_daemon_close(struct srv_daemon *daemon);
/* serve.c: on SIGHUP; at the end, before srv_daemon_close(). */
void srv_daemon_reload(struct srv_daemon *daemon);
/* waits: for requests that run, for drain_timeout. The signal by which that has ended, or 0. */
int srv_daemon_drain(struct srv_daemon *daemon, bool waits);

/* As many descriptors, and as much locked memory, as the process may have. */
void srv_raise_limits(void);
/* Main thread. 0 or -ENOMEM. */
int srv_gateway_credentials_set(struct gw_gateway *gateway, const struct srv_credentials *credentials);

/* ---- serve.c ---- */

/*
 * The signals that the daemon waits for: TERM, INT, HUP and CHLD. main() blocks them before anything else, so that one that
 * comes while it starts waits for srv_signals_open(). Any thread, also between fork() and exec().
 */
void srv_signals(sigset_t *out);
/*
 * A descriptor from which these come; blocks them in this thread and those made by it. Negative errno.
 */
int srv_signals_open(void);
/* From the first request to the last: waits for signals, watches health, reloads, and drains. */
enum srv_exit srv_serve(struct srv_daemon *daemon);

#endif
