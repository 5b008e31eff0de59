/*
 * node.h - what a node process has, and how its parts ask each other: node_process.c (life), node_join.c (until it has a
 * number, and its pool), node_elections.c (who leads). Private to them.
 */
#ifndef MILLRACE_SERVER_NODE_H
#define MILLRACE_SERVER_NODE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "server/cluster_link.h"
#include "server/daemon.h"
#include "server/node_folders.h"
#include "server/node_gateway.h"
#include "server/node_hand_over.h"
#include "server/node_leader.h"
#include "server/standby.h"

#define NS_A_SECOND         1000000000ull
#define NODE_POLL_MS        1000
#define NODE_LEAVE_EXTRA_MS 15000u /* that a leader process has to end, behind the time of a drain */

/* A pool of the cluster. owner: the main thread, but for what is under the lock */
struct node_pool {
        struct node *node;
        unsigned number;
        struct cl_elector *elector; /* NULL: it is not known of yet */
        bool elects;                /* of the loop: it uses the elector */
        bool bad;                   /* what etcd has of it makes no sense, which was said */
        struct srv_node_leader leader;
        uint64_t since;  /* lp_clock(): since when another node goes before this one, which leads; 0: none does */
        uint64_t pause;  /* before it is handed over once more */
        uint64_t handed; /* lp_clock(): when it was handed over; 0: never */
        struct srv_hand_over hand_over; /* while another node is got ready to lead */
        uint64_t idle_until; /* lp_clock(): no process is started that waits to lead */
        bool has_idle, says_prepared; /* at the last look: a process waits to lead; others were told so */
        /* under the node's lock: what the elector has said last */
        bool wanted, whole_stop;
        uint64_t silent;
        int64_t wanted_revision;
        unsigned before; /* nodes that go before this one */
        uint64_t asked;  /* lp_clock(): when this node was asked last to be ready to lead; 0: never */
        enum rem_prepared prepared; /* what is said to who asks */
        char waits[160];
};

/* owner: the main thread, but for what is under the lock */
struct node {
        const struct srv_settings *settings; /* own */
        struct srv_settings own;             /* a copy, which gets the number when it is known */
        const char *program;
        int signal_fd;
        int signo; /* that it ends by; 0: none yet */
        bool hurried; /* by another one: it waits for nothing and nobody any more, but for a moment */
        struct srv_listener s3, plain, admin;
        struct srv_standby *standby; /* while there is no gateway */
        struct srv_node_gateway *gateway;            /* NULL: not yet */
        struct srv_folders folders;
        struct srv_link link;
        struct rem_server *server;
        bool elects; /* of the loop: it uses the server and the electors */
        struct node_pool pools[CL_POOLS_MAX]; /* by number, from CL_POOL on */
        uint64_t handed; /* lp_clock(): when a pool was last handed over to whose turn it is; 0: none was */
        struct cl_view view;
        int view_error; /* why nothing newer was read; 0: it was */
        char view_text[CL_TEXT_MAX];
        bool waits_told, ready, distrusts, has_drives;
        uint64_t kept; /* lp_clock() */
        char kept_switches[CL_SWITCHES_MAX];
        unsigned kept_pools;
        struct cl_name_take name;
        struct cl_join join;
        uint64_t boot; /* the highest that this process has taken */
        sem_t joined;
        struct lp_msg hurry_msg;
        atomic_bool hurry_posted;
        bool prepares; /* under lock: it serves, and may be asked to be ready to lead */
        pthread_mutex_t lock;
};

/* ---- node_process.c. The main thread --------------------------------------------------------- */

/* What clients are told while there is no gateway. leader: an address; NULL: none is known. */
void srv_node_says(struct node *n, const char *text, const char *leader);
/* Sleeps until a signal comes, a loop has something to look at, or so much time is over; takes the signals. */
void srv_node_wait(struct node *n, int timeout_ms);
/* Takes what the directory has read since the last look. True: there is something new, or it could not be read. */
bool srv_node_take_view(struct node *n);

/* ---- node_join.c. The main thread ------------------------------------------------------------ */

/* Gets a number and a boot number, as often as it takes. -ECANCELED: the node was told to end meanwhile. */
int srv_node_join(struct node *n, struct srv_error *error);
/* Serves nothing, and waits until the cluster has a pool. */
int srv_node_wait_for_pool(struct node *n, struct srv_error *error);
/* `cluster node remove` has marked its entry. */
bool srv_node_is_removed(const struct node *n);
/* Another process has taken its number since. */
bool srv_node_is_replaced(const struct node *n);
/* Says so in `error`, and returns it. */
int srv_node_fail_replaced(const struct node *n, struct srv_error *error);

/* ---- node_elections.c ------------------------------------------------------------------------ */

/* The main thread: electors for pools that have come to be known. Negative errno. */
int srv_node_meet_pools(struct node *n, struct srv_error *error);
/* The main thread, each second: starts, ends and hands over leader processes, as electors have said. */
void srv_node_look_at_leaders(struct node *n);
/* The main thread: tells others whether a process of this pool waits to lead. */
void srv_node_say_prepared(struct node *n, struct node_pool *pool);
/* The main thread: pools that are led here, as bits by number. asked: that serve, and may be asked. */
uint32_t srv_node_led_here(const struct node *n, bool asked);
/* The main thread: what clients are told of who leads. */
void srv_node_say_who_leads(struct node *n);
/* The main thread: what it has seen of etcd; and keeps that in its folders. */
void srv_node_seen(struct node *n, struct cl_seen *out);
void srv_node_keep_seen(struct node *n);
/* The link's loop. arg: the node. */
void srv_node_begin_elections(void *arg);
/* The link's loop, events of the directory and the drive server. arg: the node. */
void srv_node_looked(void *arg, const struct cl_view *view);
void srv_node_released(void *arg);
enum rem_prepared srv_node_prepare(void *arg, uint32_t number);

#endif
