/* doctor.h - findings of `millrace doctor`. Private to this folder; main thread only. */
#ifndef CLI_DOCTOR_H
#define CLI_DOCTOR_H

#include "cli.h"

enum cli_finding { CLI_GOOD, CLI_NOTE, CLI_MEND };

/* What was looked at so far. */
struct cli_report {
        unsigned notes, mends;
};

/*
 * Prints one finding: what was looked at, what was found, and what to do about it (NULL where
 * nothing is to be done).
 */
void cli_find(struct cli_report *report, enum cli_finding finding, const char *what, const char *mend,
              const char *format, ...) __attribute__((format(printf, 5, 6)));

void cli_doctor_kernel(struct cli_report *report);                         /* version, io_uring */
void cli_doctor_limits(struct cli_report *report);                         /* memory locking, descriptors */
void cli_doctor_rdma(struct cli_report *report, const char *class_folder); /* NULL: /sys/class/infiniband */
void cli_doctor_verbs(struct cli_report *report);                          /* devices as the daemon would find them */
bool cli_doctor_node(struct cli_report *report, const char *settings); /* what millraced looks at; true: they are a cluster's node's */
void cli_doctor_leader(struct cli_report *report, struct mr_client *client); /* how a running node reaches its leader */
void cli_doctor_clock(struct cli_report *report);
void cli_doctor_drive(struct cli_report *report, const char *folder);
bool cli_doctor_endpoint(struct cli_report *report, struct mr_client *client, const struct mr_settings *settings); /* false: it serves nothing yet */

#endif
