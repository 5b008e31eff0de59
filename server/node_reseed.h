/*
 * node_reseed.h - a node before it joins: while etcd is not the one that it knows, it serves nothing, reports what its
 * drives hold, and waits for `millrace admin cluster reseed` (docs/design/reseed.md). And that command's work.
 */
#ifndef MILLRACE_SERVER_NODE_RESEED_H
#define MILLRACE_SERVER_NODE_RESEED_H

#include "server/node_folders.h"
#include "server/standby.h"

/*
 * Returns when the node may join: 0, with what it is to go by on its folders and in `folders`. -EINTR: it was told to end
 * (*signo). Others, with a line. Main thread.
 */
int srv_reseed_gate(const struct srv_settings *settings, struct srv_folders *folders, struct srv_standby *standby, int signal_fd, int *signo, struct srv_error *error);

/* --reseed-cluster. Exit status. */
int srv_cluster_reseed(const struct srv_settings *settings);

#endif
