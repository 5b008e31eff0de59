/*
 * node_folders.h - the folders of a cluster's node: whose they are, formatting them as the pool has them,
 * and serving them to the pool's leader.
 *
 * owner: the main thread. Everything blocks.
 */
#ifndef MILLRACE_SERVER_NODE_FOLDERS_H
#define MILLRACE_SERVER_NODE_FOLDERS_H

#include "cluster_node.h"
#include "server/loops.h"

struct srv_folder {
        const char *path;
        enum eng_folder_state state;
        struct eng_identity identity; /* of a drive */
        struct cl_node_file file;     /* what NODE says, or is to say */
        struct rem_served *served;    /* NULL: not served */
        bool told;                    /* why it is not served was said */
};

struct srv_folders {
        unsigned count;
        struct srv_folder at[SRV_LIST_MAX];
        struct cl_seen seen; /* the newest of all */
};

/*
 * Looks at them all, and gives an empty one an id, where settings allow formatting. -EINVAL and the like, with a
 * line: another cluster's or node's, of a store of one machine, empty and not to be formatted.
 */
int srv_folders_look(struct srv_folders *folders, const struct srv_settings *settings, struct srv_error *error);
/* A folder of a store of one machine is none of a cluster's. For a daemon without one. */
int srv_folders_refuse_cluster(const struct srv_settings *settings, struct srv_error *error);
/* What their files say was seen of etcd: the newest. For a leader process, which uses no folders. */
int srv_folders_seen(const struct srv_settings *settings, struct cl_seen *out, struct srv_error *error);
/* Ids of those that are no drives yet. */
void srv_folders_announce(const struct srv_folders *folders, struct cl_node *node);
/* Formats those that the pool has as slots of this node. An error is of the folder, and is said. */
void srv_folders_format(struct srv_folders *folders, const struct srv_settings *settings, const struct cl_view *view);
/* Opens and serves those that are not yet: each on a thread of its own. What cannot be opened is said once, and tried again the next time. */
void srv_folders_serve(struct srv_folders *folders, const struct srv_settings *settings, struct rem_server *server, const struct srv_loops *loops,
                       const struct cl_view *view);
/* Keeps on them what was seen, if that has changed. */
void srv_folders_keep(struct srv_folders *folders, const struct cl_seen *seen);
/* After the loops have stopped: closes them. */
void srv_folders_close(struct srv_folders *folders);

#endif
