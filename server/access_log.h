/*
 * access_log.h - one JSON line a request, written by a thread of its own.
 */
#ifndef MILLRACE_SERVER_ACCESS_LOG_H
#define MILLRACE_SERVER_ACCESS_LOG_H

#include "gateway.h"
#include "server/settings.h"

#define SRV_ACCESS_RING (1u << 20) /* bytes of lines waiting, for each loop */

struct srv_access_log;

struct srv_access_stats {
        uint64_t lines;   /* taken */
        uint64_t dropped; /* not taken: the loop's ring was full */
        uint64_t failed;  /* taken, but the file refused them */
};

/*
 * path "-": standard error. Opens the file and starts the writer. rings: one for each loop. 0 or a
 * negative errno with a line in *error.
 */
int srv_access_log_open(const char *path, unsigned rings, struct srv_access_log **out, struct srv_error *error);

/*
 * One line into a ring, on the thread that owns that ring. Never blocks and never waits: without
 * room the line is counted and gone.
 */
void srv_access_log_add(struct srv_access_log *log, unsigned ring, const struct gw_access *line);

/* The same as a callback of the gateway: the ring is that of the calling loop. */
void srv_access_log_callback(void *log, const struct gw_access *line);

/*
 * Any thread: the writer opens the path again before its next line (after the file was renamed
 * away).
 */
void srv_access_log_reopen(struct srv_access_log *log);

/* Any thread. */
void srv_access_log_stats(const struct srv_access_log *log, struct srv_access_stats *out);

/*
 * Writes what waits, and ends the writer; waits at most five seconds for a file that blocks. No one
 * may add lines any more. NULL is allowed.
 */
void srv_access_log_close(struct srv_access_log *log);

#endif
