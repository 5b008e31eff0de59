/*
 * node_process.h - a node of a cluster: serves its drives, and starts a leader process when it is to lead
 * (docs/design/leaders.md). And the making of a cluster.
 */
#ifndef MILLRACE_SERVER_NODE_PROCESS_H
#define MILLRACE_SERVER_NODE_PROCESS_H

#include "server/daemon.h"

/* Serves until told to end. argv: this process's, by which a leader process is started. */
enum srv_exit srv_node_run(const struct srv_settings *settings, char *const argv[]);

/* --init-cluster: waits until the nodes are there, and makes their folders a pool. Exit status. */
int srv_cluster_init(const struct srv_settings *settings);

/* --adopt-store: a store of one machine becomes the first pool of a new cluster. Exit status. */
int srv_cluster_adopt(const struct srv_settings *settings);

#endif
