/*
 * command_admin.h - what the files of `millrace admin …` share (command_admin.c,
 * command_admin_drives.c, command_admin_start.c).
 */
#ifndef CLI_COMMAND_ADMIN_H
#define CLI_COMMAND_ADMIN_H

#include "cli.h"

#include <jansson.h>
#include <sys/types.h>
#include <stdio.h>

/* Members of what a daemon sent; one that is missing or of another type reads as empty. */
const char *cli_json_text(const json_t *object, const char *name);
uint64_t cli_json_number(const json_t *object, const char *name);
bool cli_json_true(const json_t *object, const char *name);
void cli_json_print(const json_t *value);

/* Shards, bytes and digest of each drive in a report. */
void cli_admin_show_digests(const json_t *report);

/*
 * One request (query: see mr_admin()); what it answered, as JSON (the caller's), if its status is
 * one of those wanted. While the pool has no leader it is asked again, for half a minute, unless 503 is wanted. An exit status.
 */
int cli_admin_ask(struct cli_call *call, const char *method, const char *path, const char *const query[], int wanted, int also_wanted,
                  json_t **out);
/*
 * Asks about what the daemon began under this number until it is over; its report is the caller's.
 * forgotten: set, and nothing is said, where nobody knows the number any more, since another process leads; NULL: that is an
 * error as others are. An exit status.
 */
int cli_admin_wait(struct cli_call *call, const char *path, uint64_t number, bool *forgotten, json_t **out);

/* What a node answered about the cluster, as text. CLI_OK: all is as it should be; else CLI_FAILED. */
int cli_admin_show_cluster(const json_t *answer, FILE *out);

/* The daemon that lies beside this program; else that of the PATH. */
void cli_find_daemon(char *out, size_t size);
/* What becomes of what a daemon that is started says on its standard error: into the pipe, on ours, nowhere. */
enum cli_daemon_says { CLI_DAEMON_SAYS, CLI_DAEMON_SAYS_HERE, CLI_DAEMON_IS_QUIET };
/* Starts it with these settings for one action; what it writes comes out of *out, the caller's. -1: it cannot be started. */
pid_t cli_start_daemon(const char *settings, const char *action, enum cli_daemon_says says, int *out);
/* Becomes the program that args[0] names. Returns CLI_FAILED, and has said why, if it cannot. */
int cli_run_daemon(char *const args[]);

#endif
