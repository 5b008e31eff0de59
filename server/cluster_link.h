/*
 * cluster_link.h - what each process of a cluster's node has of the cluster: a client of etcd, loops for the
 * network, connections to other nodes, and a view of what etcd has that is a second old at most.
 *
 * owner: the main thread, but for what is under the lock.
 */
#ifndef MILLRACE_SERVER_CLUSTER_LINK_H
#define MILLRACE_SERVER_CLUSTER_LINK_H

#include <pthread.h>
#include <semaphore.h>

#include "cluster_node.h"
#include "server/loops.h"

#define SRV_LINK_LINES 64u

struct srv_link {
        const struct srv_settings *settings;
        bool unjudged; /* set before srv_link_look(): the view is whatever etcd has */
        char name[CL_NAME_MAX], address[280];
        struct srv_loops loops; /* of net/, and of all that is asked of etcd; the first one is that of all here */
        struct cl_etcd *etcd;
        struct cl_directory *directory;
        struct net_transport *transport;
        struct net *net, *home_net; /* home_net: of the node's gateway, another party; NULL: there is none */
        struct rem_client *client;
        uint16_t party, home_party;
        int wake; /* an eventfd: written when there is something to look at */
        pthread_mutex_t lock;
        /* under lock */
        struct cl_view view;  /* the newest; revision 0: nothing was read yet */
        uint64_t view_answered; /* lp_clock() when etcd last answered; at first, when it was first to be asked */
        int view_error;       /* why nothing newer was read; 0: it was */
        char view_text[CL_TEXT_MAX];
        bool view_fresh;      /* its nodes were not made known to net/ yet */
        char lines[SRV_LINK_LINES][256]; /* of loops, to be logged */
        unsigned line_count, lines_lost;
        /* of the main thread */
        uint64_t peers_seen[CL_MEMBERS_MAX]; /* mod_revision that the peers of a member are of, in the order of members; */
        uint32_t peers_pools[CL_MEMBERS_MAX]; /* and its pools, a bit for each number */
        int told_error;
        uint8_t cluster_id[CL_ID];
        uint8_t secrets_told[CL_NODE_LAST + 1]; /* enum net_secrets_verdict, by node, as was last said */
        uint64_t secrets_looked, secrets_anew;  /* lp_clock(): when they were looked at, and are all said anew */
};

/* Until it is posted. */
void srv_link_wait(sem_t *done);
/* Functions of loops that the main thread waits for. */
void srv_link_call(struct srv_link *link, void (*func)(void *arg), void *arg);
/* Returns when each of its loops has ended what it was in: what they had posted to other loops by now, they have posted to the end. */
void srv_link_quiet(struct srv_link *link);

/* Loops that run, and a client of etcd; nobody is asked yet. looks: the view is kept up to date from now on. */
int srv_link_open(struct srv_link *link, const struct srv_settings *settings, unsigned loops, unsigned peer_slots, const struct cl_seen *seen,
                  struct srv_error *error);
/* From here on the view is read each second. */
int srv_link_look(struct srv_link *link, void (*looked)(void *arg, const struct cl_view *view), void *arg, struct srv_error *error);
/*
 * Connections as a party of net/, in the cluster's name. handler: of requests. A node process listens on
 * cluster_listen; the process that leads a pool on the port so many further.
 */
struct srv_link_party {
        uint16_t party;
        unsigned pool;  /* that it leads; 0: it is a node process, and gets a client of drive servers that has no term */
        uint64_t boot;
        const struct cl_format *format;
        const struct net_handler *handler;
        void *handler_arg;
};
/*
 * What connections need can be used: the certificate, its key, and who has signed it; and other nodes would take it:
 * it is for this node's name, and valid now.
 */
int srv_link_check_files(const struct srv_settings *settings, struct srv_error *error);
int srv_link_connect(struct srv_link *link, const struct srv_link_party *party, struct srv_error *error);
/* A further party of this process, which nobody connects to: link->home_net. */
int srv_link_connect_home(struct srv_link *link, const struct srv_link_party *party, struct srv_error *error);
/* Connections to all nodes are opened, which else the first questions would wait for. */
void srv_link_warm(struct srv_link *link);
/* SIGHUP: key_file and root credentials are read again; connections from now on are judged by them. */
void srv_link_reload(struct srv_link *link);
/* Other nodes, as the view has them now; and what loops had to say. Each time that `wake` is readable, or a second has gone. */
void srv_link_keep(struct srv_link *link);
/* A copy of the view; revision 0: nothing was read yet. *error: why nothing newer was read, 0: it was. */
int srv_link_view(struct srv_link *link, struct cl_view *out, int *error, char text[CL_TEXT_MAX]);
/*
 * A text of the cluster's in etcd, under its prefix; any thread but a loop, each a second or two at most. Reading: its
 * length, 0: there is none. Writing: if the first pool's leader key is of that revision yet. -EMSGSIZE, -EPERM: it is not, or
 * what etcd's client says.
 */
int srv_link_get(struct srv_link *link, const char *name, char *out, size_t size);
int srv_link_put(struct srv_link *link, const char *name, const char *text, int64_t leader_revision);
/* The same, of a reseed's report: if the request is of that revision yet. */
int srv_link_report(struct srv_link *link, const char *name, const char *text, size_t len, int64_t request_revision);
/* A member has no rights any more, for good: 0, -EPERM: its entry is another by now, -ENOMEM, or what etcd's client says. */
int srv_link_remove(struct srv_link *link, const struct cl_member *member);
/* A line for the log, from any thread. */
void srv_link_say(struct srv_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));
void srv_link_wake(struct srv_link *link);
/* Nothing is asked any more, all that was has ended, and the loops have stopped; they are there yet. */
void srv_link_end(struct srv_link *link);
/* That, and all is freed. */
void srv_link_close(struct srv_link *link);

#endif
