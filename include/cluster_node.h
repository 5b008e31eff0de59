/*
 * cluster_node.h - a node process of a cluster: what it keeps on its folders, how it joins, what it knows of
 * the others, and when it tries to lead (docs/design/leaders.md). Making a new cluster, too.
 *
 *   cl_directory   what etcd has of the cluster, read twice a second  -> struct cl_view
 *   cl_name_take   the number of the node's name
 *   cl_join        boot number, and the node's own entry
 *   cl_elector     asks drive servers, and says when to lead
 *   cl_hand_over   finds a node that is ready to lead next
 *   cl_create      the pools of a new cluster, or further ones
 *
 * Each on one loop, but where it says any thread. They take time and chance from the loop.
 */
#ifndef MILLRACE_CLUSTER_NODE_H
#define MILLRACE_CLUSTER_NODE_H

#include "cluster_etcd.h"
#include "cluster_keys.h"
#include "engine.h"
#include "engine_folder.h"
#include "remote.h"

#define CL_POOL       1u /* the first one, which each cluster has */
#define CL_POOLS_MAX  16u /* of a cluster: pools 1 to this one */
#define CL_MEMBERS_MAX 256u
#define CL_LOOK_MS    500u
#define CL_HURRY_MS   50u
#define CL_ABSENT_NS  (1000ull * 1000 * 1000) /* a node that has answered nothing for so long is not waited for by a start */

/* ---- the file NODE on each folder ------------------------------------------------------------ */

/* What a node keeps on each of its folders: whose they are, and what it has seen (rule R2). */
struct cl_node_file {
        char cluster[CL_NAME_MAX];
        uint16_t node; /* its number; 0: it was not known yet, of a folder that is not made */
        char name[CL_NAME_MAX]; /* of the node; "": a build before did not write it */
        uint8_t drive[CL_ID]; /* of the folder: the drive's, or the one that it is to become */
        bool made;            /* it has become that, or was about to: if it is empty, what it held is lost */
        uint64_t boot;        /* the highest boot number of the node that was known when this was written */
        unsigned pools;       /* the highest number of a pool likewise; 0, 1: the cluster has one, or was not made yet */
        struct cl_generation fence; /* a reseed has asked what the drive holds: it serves no older generation any more. 0: none has */
        char switches[CL_SWITCHES_MAX]; /* of the cluster, as etcd had them */
        struct cl_seen seen;
};
/* Blocking; any thread. 0; -ENOENT: there is none; -EBADMSG: it is damaged; others of the file system. */
int cl_node_file_read(const char *folder, struct cl_node_file *out);
/* In one step, and on stable storage when it returns. dir: the folder, open. */
int cl_node_file_write(int dir, const struct cl_node_file *file);

/* ---- what etcd has --------------------------------------------------------------------------- */

struct cl_member {
        uint16_t number;
        int64_t revision; /* of its key */
        struct cl_node node;
};

/* What etcd has of a pool. Zeroes: what is not there. */
struct cl_pool {
        unsigned number;
        bool has_config, is_led;
        bool bad; /* one of its keys makes no sense: nothing is known of it, and nobody tries to lead it */
        struct cl_config config;
        struct eng_epoch_info epoch; /* of config */
        struct cl_owner leader;
        int64_t config_revision, leader_revision;
};

/* All of one revision. Fields that are not there are zeroes. */
struct cl_view {
        int64_t revision;
        bool has_format;
        struct cl_format format;
        unsigned pool_count;
        struct cl_pool *pools; /* by number */
        int64_t request_revision;
        bool has_request; /* a reseed is under way: `request` is the format that it is to end with */
        struct cl_format request;
        uint8_t reported[(CL_NODE_LAST + 1) / 8]; /* a bit for each node that has a report there */
        uint64_t boots[CL_NODE_LAST + 1]; /* boots/N; 0: there is none */
        char switches[CL_SWITCHES_MAX];
        struct cl_names names;
        int64_t names_revision; /* 0: there is none */
        bool names_bad; /* they make no sense: nobody can be added */
        unsigned count;
        struct cl_member *members; /* by number */
};
/* Any thread. NULL: there is no such node. */
const struct cl_member *cl_view_member(const struct cl_view *view, uint16_t number);
/* Any thread. Never NULL: of a pool that is not there, one that has nothing. */
const struct cl_pool *cl_view_pool(const struct cl_view *view, unsigned number);
/* Any thread. NULL: there is no configuration of a pool of that store. */
const struct cl_pool *cl_view_pool_of_store(const struct cl_view *view, const uint8_t store_id[CL_ID]);
/* Any thread. One that is bad, or that is led and has no configuration; NULL: none is. */
const struct cl_pool *cl_view_bad_pool(const struct cl_view *view);
/* Copies what it holds. -ENOMEM. Any thread. */
int cl_view_copy(struct cl_view *to, const struct cl_view *from);
void cl_view_free(struct cl_view *view);

struct cl_directory;
struct cl_directory_options {
        struct cl_etcd *etcd;
        const char *cluster;
        bool unjudged; /* whatever etcd has is taken, but no pool that is bad: for who judges it (cluster_reseed.h) */
        /*
         * Twice a second, on the loop: what there is; or NULL and why: -EREMCHG: rule R2; -EBADMSG: it makes no sense;
         * others: etcd does not answer.
         */
        void (*looked)(void *arg, const struct cl_view *view, int error, const char *text);
        void *arg;
};
/* -ENOMEM. */
int cl_directory_new(const struct cl_directory_options *options, struct cl_directory **out);
/* On its loop, once. */
void cl_directory_start(struct cl_directory *directory);
/* On its loop: for this second it looks more often. */
void cl_directory_hurry(struct cl_directory *directory);
/* On its loop, once: stopped() comes when nothing is asked any more; then it is freed, by any thread. */
void cl_directory_stop(struct cl_directory *directory, void (*stopped)(void *arg), void *arg);
void cl_directory_free(struct cl_directory *directory); /* NULL is allowed */

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * The number that a new node gets (docs/design/node-names.md): what its name ends in, or the smallest, of those that were never
 * used. 0: none is left. Any thread.
 */
uint16_t cl_names_choose(const struct cl_view *view, const char *name);

/* Finds the number of a node by its name, or gives it one for good. Zero it, fill in the first part. */
struct cl_name_take {
        struct cl_etcd *etcd;
        const char *cluster, *name;
        uint16_t bound;             /* the number that drives of the node have; 0: it has none */
        const struct cl_view *view; /* just read; stays as it is until done() */
        void (*done)(struct cl_name_take *take);
        void *arg;
        /* the answer: 0; -EEXIST: the number is another's, or the name has another; -EAGAIN; -ENOSPC; -EBADMSG; -EOVERFLOW */
        int rv;
        char text[CL_TEXT_MAX];
        uint16_t number;
        /* private */
        struct cl_cas cas;
        struct cl_names names;
        char key[CL_KEY_NAME_MAX], value[CL_JSON_MAX];
};
void cl_name_take(struct cl_name_take *take);

/* ---- boot numbers ---------------------------------------------------------------------------- */

/* Takes the next boot number of a node. Zero it, fill in the first part. */
struct cl_boot_take {
        struct cl_etcd *etcd;
        const char *cluster;
        uint16_t node;
        void (*done)(struct cl_boot_take *take);
        void *arg;
        /* the answer: 0, -EAGAIN: etcd does not answer, -ENOSPC: its database is full, -EBADMSG, -EOVERFLOW: none is left */
        int rv;
        char text[CL_TEXT_MAX];
        uint64_t boot;
        /* private */
        unsigned tries;
        struct cl_request request;
        struct cl_cas cas;
        char key[CL_KEY_NAME_MAX], value[CL_JSON_MAX];
};
void cl_boot_take(struct cl_boot_take *take);

/* ---- joining --------------------------------------------------------------------------------- */

/* Enters the node. Zero it, fill in the first part. All it points to stays as it is until done(). */
struct cl_join {
        struct cl_etcd *etcd;
        const char *cluster;
        uint16_t number;
        const struct cl_node *node; /* what it announces; its state is kept, if it was there */
        const struct cl_view *view; /* just read */
        void (*done)(struct cl_join *join);
        void *arg;
        /* the answer: 0; -EEXIST: number, name or drive are another node's; -EAGAIN; -ENOSPC; -EBADMSG; -EOVERFLOW */
        int rv;
        char text[CL_TEXT_MAX];
        uint64_t boot;
        /* private */
        struct cl_boot_take take;
        struct cl_cas cas;
        char key[CL_KEY_NAME_MAX], value[CL_JSON_MAX];
};
void cl_join(struct cl_join *join);

/* ---- who leads ------------------------------------------------------------------------------- */

struct cl_elector;
struct cl_elector_options {
        uint16_t node;
        unsigned pool;
        struct rem_client *client; /* without a term */
        struct rem_server *server; /* of this node */
        /*
         * This node should lead the pool now. leader_revision: of the leader key that this was judged by. whole_stop:
         * no drive server has heard of a leader since it began, so drives may be on their way yet. silent: slots whose
         * nodes have answered nothing for CL_ABSENT_NS.
         */
        void (*lead)(void *arg, int64_t leader_revision, bool whole_stop, uint64_t silent);
        /* It may have to lead soon: cl_directory_hurry(). */
        void (*hurry)(void *arg);
        /* What keeps it from leading, whenever that changes; "": another node does. */
        void (*waits)(void *arg, const char *why);
        /* After each round: so many nodes that could lead go before this one, where the cluster has several pools. NULL: nobody wants to know. */
        void (*before)(void *arg, unsigned nodes);
        void *arg;
};
/* -ENOMEM. */
int cl_elector_new(const struct cl_elector_options *options, struct cl_elector **out);
/*
 * Something was read just now: a round of questions begins, unless the one before is not over yet. A round waits for
 * all nodes but those that did not answer the last time.
 */
void cl_elector_look(struct cl_elector *elector, const struct cl_view *view);
/* As cl_directory_stop(). */
void cl_elector_stop(struct cl_elector *elector, void (*stopped)(void *arg), void *arg);
void cl_elector_free(struct cl_elector *elector); /* NULL is allowed */
/* How long a node rests whose leader process has ended `times` times, one after the other, before it served. Any thread. */
uint64_t cl_elector_rest(unsigned times);

/* ---- handing over ---------------------------------------------------------------------------- */

#define CL_PREPARE_MS 2500u /* that a leader which is to end waits for another node to be ready */
#define CL_KEEP_MS    3000u /* a node that was asked to be ready, and is not asked any more, is so for so long */

/*
 * Asks nodes to be ready to lead a pool, one after the other, until one is: it is kept ready until cl_hand_over_stop(). Zero it,
 * fill in the first part. On one loop.
 */
struct cl_hand_over {
        struct rem_client *client; /* without a term */
        unsigned pool;
        uint16_t nodes[ENG_DRIVES_MAX]; /* in the order in which they are asked */
        unsigned count;
        void (*done)(struct cl_hand_over *hand_over); /* once, CL_PREPARE_MS after the start at the latest, or half a second more */
        void *arg;
        /* the answer */
        uint16_t ready; /* 0: nobody */
        /* private */
        struct lp_loop *loop;
        struct rem_prepare prepare;
        struct lp_timer timer;
        unsigned at;
        uint64_t until;
        bool out;
        void (*stopped)(void *arg);
        void *stopped_arg;
};
/* Nodes that may lead the pool in place of this one, in their order; before: those alone that go before it. Returns how many. Any thread. */
unsigned cl_hand_over_nodes(const struct cl_pool *pool, uint16_t node, bool before, uint16_t out[ENG_DRIVES_MAX]);
void cl_hand_over_start(struct cl_hand_over *hand_over);
/* Once, not from inside done(). stopped() comes when nothing is asked any more, maybe at once. */
void cl_hand_over_stop(struct cl_hand_over *hand_over, void (*stopped)(void *arg), void *arg);

/* ---- a new cluster --------------------------------------------------------------------------- */

/*
 * Makes pools of the drives that these nodes announce, and then the cluster. Nothing is done if there is one. The drives of each
 * node are dealt in turn, beginning with another pool at each node, so pools are alike. Zero it, fill in the first part.
 */
struct cl_create {
        struct cl_etcd *etcd;
        const char *cluster;
        const struct cl_view *view; /* just read; has all these nodes */
        const uint16_t *nodes;
        unsigned node_count;
        unsigned k, m;  /* of each pool. 0+0: by the number of its nodes and drives */
        unsigned pools; /* 0: one, or as many as were begun before it was cut off */
        bool more;      /* there is a cluster, which gets these pools of drives that are in none */
        bool dry;       /* nothing is written: config is what would be */
        void (*done)(struct cl_create *create);
        void *arg;
        /* the answer: 0; -EEXIST: there is a cluster of this name; -EINVAL: no pool can be made of them; -EAGAIN; -ENOMEM */
        int rv;
        char text[CL_TEXT_MAX];
        unsigned first, last;    /* numbers of the pools */
        struct cl_config config[CL_POOLS_MAX + 1]; /* by number */
        /* private */
        bool there[CL_POOLS_MAX + 1]; /* it is in etcd */
        unsigned now;
        struct cl_cas cas;
        char key[CL_KEY_NAME_MAX], value[CL_JSON_MAX];
};
void cl_create(struct cl_create *create);

#endif
