/*
 * node_folders.h - the folders of a cluster's node: whose they are, formatting them as the pools have them,
 * and serving them to the pools' leaders. Each is a slot of one pool at most.
 *
 * owner: the main thread, which waits for no folder: what may hang with a drive is done by a thread of
 * that folder's own, one thing at a time.
 */
#ifndef MILLRACE_SERVER_NODE_FOLDERS_H
#define MILLRACE_SERVER_NODE_FOLDERS_H

#include <stdatomic.h>

#include "cluster_node.h"
#include "server/loops.h"

enum srv_folder_job { SRV_FOLDER_IDLE, SRV_FOLDER_WORKS, SRV_FOLDER_DONE };

/* owner: while its job works, the job's thread; else the main thread */
struct srv_folder {
        const char *path;
        int dir;                      /* as it was found: what is mounted there later is another folder. -1: none */
        enum eng_folder_state state;
        struct eng_identity identity; /* of a drive */
        struct cl_node_file file;     /* what NODE says, or is to say */
        uint64_t room;                /* bytes of its file system, when it was found empty */
        struct rem_served *served;    /* NULL: not served */
        bool withdrawn;               /* its pool has another drive in its slot, or none any more: served is closed in the end */
        char said[200];               /* what was last said to be amiss with it */
        uint64_t tried;               /* lp_clock() when it was last tried to look, format or open; 0: never */
        atomic_int job;               /* enum srv_folder_job */
};

struct srv_folders {
        const struct srv_settings *settings;
        unsigned count;
        struct srv_folder at[SRV_LIST_MAX];
        struct cl_seen seen; /* the newest of all */
        struct cl_generation fence; /* of a reseed that has asked, and has not ended as far as they know; 0: none */
        uint16_t number;     /* of the node that those which are drives belong to; 0: none is */
        bool drained_told;
        uint64_t unheld[CL_POOLS_MAX + 1]; /* slots of this node that no folder holds, as was last said, of each pool */
};

/*
 * Looks at them all at once, and gives an empty one an id, where settings allow formatting. One with which something is amiss is
 * left out, with a line; so is one that has not answered within 3 s, until it does. -EINVAL and the like, with a line: none is left, or one is another cluster's, another node's, or of a
 * store of one machine.
 */
int srv_folders_look(struct srv_folders *folders, const struct srv_settings *settings, struct srv_error *error);
/* The node's name has this number: folders that do not say so are told, and say it from the next write on. */
void srv_folders_own(struct srv_folders *folders, uint16_t number);
/* One at least is a drive. */
bool srv_folders_hold(const struct srv_folders *folders);
/* Ids of those that are no drives yet. */
void srv_folders_announce(const struct srv_folders *folders, struct cl_node *node);
/* False: pools have slots of this node, and none of them is here. */
bool srv_folders_belong(const struct srv_folders *folders, const struct cl_view *view);
/*
 * All slots that pools have had on this node were removed: its number is used no more. False while it has a drive of a pool
 * of which etcd says nothing, or a folder that is being looked at.
 */
bool srv_folders_drained(const struct srv_folders *folders, const struct cl_view *view);
/*
 * What is to be done now and then: looks again at those that are missing, formats those that a pool has as slots of this node,
 * and opens and serves drives. Does not wait; link is woken when something was done.
 */
struct srv_link;
void srv_folders_work(struct srv_folders *folders, struct rem_server *server, struct srv_link *link, const struct cl_view *view);
/* Keeps on them what was seen, if that has changed. Does not wait. False: one is worked on, and is to be asked again. */
bool srv_folders_keep(struct srv_folders *folders, const struct cl_seen *seen, uint64_t boot, unsigned pools, const char *switches);
/* Waits for what is being done, so long. False: something is under way yet. */
bool srv_folders_settle(struct srv_folders *folders, unsigned most_ms);
/* After the loops have stopped: closes them. */
void srv_folders_close(struct srv_folders *folders);

#endif
