/*
 * doctor_cluster.h - `millraced --doctor-cluster`, which `millrace doctor --settings` runs: looks at all that a node of a cluster
 * needs and says what to mend. Nothing is changed, and a node that runs is not disturbed: nothing here takes its place.
 *
 * owner: the main thread. Everything blocks, for some seconds at most.
 */
#ifndef MILLRACE_SERVER_DOCTOR_CLUSTER_H
#define MILLRACE_SERVER_DOCTOR_CLUSTER_H

#include "cluster_node.h"
#include "server/settings.h"

enum srv_finding { SRV_FOUND_GOOD, SRV_FOUND_NOTE, SRV_FOUND_MEND };

/* Prints one finding: what was looked at, what was found, and what to do about it (NULL: nothing). As `millrace doctor` does. */
void srv_find(enum srv_finding finding, const char *what, const char *mend, const char *format, ...) __attribute__((format(printf, 4, 5)));
/* `--doctor-cluster`: the exit status of the process. Of a store of one machine it looks at files and keys alone. */
int srv_doctor_cluster(const struct srv_settings *settings);
/* Of all so far. */
unsigned srv_find_mends(void);

/* doctor_files.c: whether the user whose the folders are can read what the settings name. */
void srv_doctor_files(const struct srv_settings *settings);

/* doctor_tls.c: the node's own certificate. */
void srv_doctor_certificate(const struct srv_settings *settings);
/* A node at its address: whether it is reached, how fast, by whose certificate, and in packets of what size. */
void srv_doctor_node(const struct srv_settings *settings, const struct cl_member *member);

/* doctor_etcd.c: each member of etcd: its health, its clock, how fast its disk is. */
void srv_doctor_etcd(const struct srv_settings *settings);
/* The clock and version of a node, by its admin address. */
void srv_doctor_clock(const struct srv_settings *settings, const struct cl_member *member);

#endif
