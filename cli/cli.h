/*
 * cli.h - one run of the program `millrace`: what was asked for, and the commands that answer.
 * Private to this folder.
 */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>

#include "client.h"
#include "path.h"
#include "progress.h"

/* Exit statuses. */
#define CLI_OK     0
#define CLI_FAILED 1
#define CLI_USAGE  2

#define CLI_META_MAX   16
#define CLI_DRIVES_MAX 64

/*
 * Options: id, letter ("" for none), long name, name of its argument ("" for none), help. A command
 * names those it takes by id.
 */
#define CLI_OPTIONS(X)                                                                                                 \
        X(RECURSIVE, "r", "recursive", "", "folders and everything below a prefix")                                    \
        X(QUIET, "q", "quiet", "", "print nothing but errors")                                                         \
        X(PROGRESS, "", "progress", "", "show progress, as plain lines where standard error is no terminal")           \
        X(NO_PROGRESS, "", "no-progress", "", "show no progress on a terminal either")                                 \
        X(CONTENT_TYPE, "", "content-type", "TYPE", "media type to store (default: by the name's ending)")             \
        X(META, "m", "meta", "NAME=VALUE", "user metadata to store; may be given several times")                       \
        X(NO_CLOBBER, "n", "no-clobber", "", "do not replace what is there")                                           \
        X(HUMAN, "H", "human", "", "sizes in KiB, MiB, ...")                                                           \
        X(FORCE, "f", "force", "", "delete what the bucket holds first")                                               \
        X(JSON, "", "json", "", "print JSON: the daemon's answer as it is, or all figures")                            \
        X(FORCE_WITHOUT, "", "force-without", "SLOT,...", "go on without these drives for good: slots, or drive ids")  \
        X(YES, "", "yes", "", "do it, instead of saying what it would mean")                                           \
        X(CONFIRM, "", "confirm", "TIME", "the time that it is: 2026-01-31T12:00:00Z; without Z it is local")          \
        X(REQUEST, "", "request", "ID", "only this request: the x-amz-request-id of its answer")                       \
        X(OLDER, "", "older", "HOURS", "only uploads begun more than HOURS ago")                                       \
        X(VERSIONS, "", "versions", "", "all versions and delete markers, with their ids")                             \
        X(VERSION_ID, "", "version-id", "ID", "this version, instead of the newest")                                   \
        X(BYPASS_GOVERNANCE, "", "bypass-governance", "", "also what retention in the mode GOVERNANCE protects")       \
        X(DRY_RUN, "", "dry-run", "", "say what would be done, and do nothing")                                        \
        X(MERGE, "", "merge", "", "keep what is there and differs, and make what is missing")                          \
        X(NODES, "", "nodes", "NAME,...", "names of the nodes that a cluster is made of")                              \
        X(EC, "", "ec", "K+M", "erasure code: K shards of data and M of parity (default: by nodes and drives)")        \
        X(POOL, "", "pool", "N", "which pool of a cluster that has several")                                           \
        X(POOLS, "", "pools", "N", "number of pools to make (default 1)")                                              \
        X(WATCH, "", "watch", "", "show it again every two seconds, until interrupted")                                \
        X(FROM, "", "from", "TIME", "the earlier of two times: 2026-01-31, 2026-01-31T12:00:00Z, or 3d (ago)")         \
        X(TO, "", "to", "TIME", "the later of two times (default: now)")                                               \
        X(DRIVE, "d", "drive", "DIR", "a drive folder to examine; may be given several times")                         \
        X(SETTINGS, "", "settings", "FILE", "millraced's settings on this machine: addresses and credentials, where none are given")  \
        X(BUCKET, "b", "bucket", "NAME", "a bucket that is there, instead of one made for this")                       \
        X(PREFIX, "", "prefix", "TEXT", "what the names of all objects begin with")                                    \
        X(CONNECTIONS, "C", "connections", "N", "connections, or operations in flight (default: by phase, 2 to 64)")   \
        X(SECONDS, "s", "seconds", "S", "seconds of each phase (default 5)")                                           \
        X(OBJECTS, "", "objects", "N",                                                                                 \
          "objects stored for those who read, list or delete (default: by size, 4 to 1,000)")                          \
        X(SIZE, "", "size", "SIZE", "of an object uploaded in parts (default 1G)")                                     \
        X(RANGE_OF, "", "range-of", "SIZE", "of the objects that ranges are read from (default 64M)")                  \
        X(RATE, "", "rate", "N",                                                                                       \
          "begin N requests a second, however long answers take (default: as fast as they come)")                      \
        X(VERIFY, "", "verify", "", "compare every byte that is read, and read what was stored")                       \
        X(PARALLEL, "j", "parallel", "N", "requests at once (default 8)")                                              \
        X(PART_SIZE, "", "part-size", "SIZE", "size of parts and ranges, e.g. 16M")                                    \
        X(CHECKSUM, "", "checksum", "KIND", "checksum of uploads: crc64nvme, crc32c, crc32 or none")                   \
        X(TRANSPORT, "", "transport", "KIND", "how bytes travel: auto, tcp or rdma (default auto)")                    \
        X(ENDPOINT, "e", "endpoint", "URL", "S3 endpoint, or several of a cluster: URL,URL (default http://127.0.0.1:9000)") \
        X(ADMIN, "a", "admin", "URL", "admin listener (default http://127.0.0.1:9001)")                                \
        X(REGION, "", "region", "NAME", "region that requests are signed for (default us-east-1)")                     \
        X(CA_FILE, "", "ca-file", "FILE", "PEM file of the authorities that TLS trusts")                               \
        X(CONFIG, "c", "config", "FILE", "configuration file (default ~/.config/millrace/config)")                     \
        X(HELP, "h", "help", "", "print this help")                                                                    \
        X(VERSION, "", "version", "", "print the version")

enum cli_option_id {
#define CLI_OPTION_ID(id, letter, name, argument, help) CLI_OPT_##id,
        CLI_OPTIONS(CLI_OPTION_ID)
#undef CLI_OPTION_ID
                CLI_OPTION_COUNT
};

#define CLI_HAS(id) (UINT64_C(1) << CLI_OPT_##id)
/* What every command takes that talks to an endpoint. */
#define CLI_HAS_ENDPOINT                                                                                               \
        (CLI_HAS(ENDPOINT) | CLI_HAS(REGION) | CLI_HAS(CA_FILE) | CLI_HAS(CONFIG) | CLI_HAS(PARALLEL) | CLI_HAS(HELP))
#define CLI_HAS_TRANSFER                                                                                               \
        (CLI_HAS_ENDPOINT | CLI_HAS(RECURSIVE) | CLI_HAS(QUIET) | CLI_HAS(PROGRESS) | CLI_HAS(NO_PROGRESS) |           \
         CLI_HAS(PART_SIZE) | CLI_HAS(TRANSPORT))

struct cli_call;

struct cli_command {
        const char *name;       /* "put", "admin info" */
        const char *arguments;  /* "FILE... s3://BUCKET[/KEY]" */
        const char *summary;    /* half a line */
        const char *details;    /* paragraphs for --help, each line ending in \n */
        uint64_t options;       /* of CLI_HAS() */
        int min_args, max_args; /* max_args -1: any number */
        int (*run)(struct cli_call *call);
};

/* What `bench` alone takes. 0, NULL, false: not said. */
struct cli_bench_options {
        const char *bucket, *prefix;
        unsigned connections;
        uint64_t objects, size, range_of;
        double seconds, rate;
        bool verify;
        bool library; /* --transport was given: phases go by way of libmillrace */
};

/* One run of a command. owner: the main thread; commands give their worker threads const access */
struct cli_call {
        const struct cli_command *command;
        struct mr_settings settings;
        struct mr_client *client;
        int argc; /* what is left after the options */
        char **argv;
        bool recursive, quiet, progress, no_progress, no_clobber, human, force, json, help, version, yes;
        bool versions, bypass_governance, dry_run, watch, merge;
        const char *content_type, *force_without, *confirm, *request, *version_id, *from, *to, *nodes, *ec, *pool, *pools, *settings_file;
        struct mr_header meta[CLI_META_MAX];
        unsigned meta_count;
        const char *drives[CLI_DRIVES_MAX];
        unsigned drive_count;
        unsigned older_hours;
        const char *config;
        struct cli_bench_options bench;
};

extern const struct cli_command cli_commands[]; /* ends with a name of NULL */

/*
 * Finds the command, reads options into call (zeroed by the callee) and loads settings. -1: go on;
 * else the exit status to end with, everything having been said.
 */
int cli_call_parse(int argc, char **argv, struct cli_call *call);
/* Options of CLI_HAS() that it takes: those of its row, and --settings where it asks a daemon as its operator. */
uint64_t cli_command_options(const struct cli_command *command);
/*
 * Takes endpoint, admin address, region and credentials of a daemon's settings file for those of `settings` that are at their
 * defaults. quiet: what is amiss with the file is not said. 0 or CLI_USAGE. Main thread.
 */
int cli_settings_of_daemon(struct mr_settings *settings, const char *file, bool quiet);
void cli_help(FILE *out, const struct cli_command *command); /* NULL: of the program */

/*
 * Main thread. Signals: an interrupt cancels the client, a second one ends the process. Called
 * once.
 */
void cli_interrupt(struct mr_client *client);
/* One more that an interrupt cancels; NULL: none, which is said before that one is freed. */
void cli_interrupt_also(struct mr_client *client);

/* One line on standard error, "millrace: ...". Any thread. */
void cli_error(const char *format, ...) __attribute__((format(printf, 1, 2)));
/*
 * The same for a failed request: what it was about, what went wrong. Any thread. Returns
 * CLI_FAILED.
 */
int cli_failed(const char *what, const struct mr_error *err);
/* A usage error: the line, and where help is. Returns CLI_USAGE. */
int cli_usage(const struct cli_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));
/*
 * Parses an argument as s3://; says what is wrong with it. with_key: a key must be there. 0 or
 * CLI_USAGE.
 */
int cli_path_arg(const struct cli_call *call, const char *text, bool with_key, struct cli_path *out);

enum cli_progress_style cli_progress_wanted(const struct cli_call *call);

/* Control bytes of a name become "?" where it goes to a terminal. Returns out. */
const char *cli_printable(FILE *to, const char *name, char *out, size_t size);
/* "2026-01-31 12:00:00", local time; blanks for 0. */
void cli_format_when(char *out, size_t size, int64_t seconds);

/*
 * Deletes what lies below the path's key, all of the bucket if it is empty, and ends uploads there;
 * *found counts both. An exit status; what went wrong has been said.
 */
int cli_empty(struct cli_call *call, struct cli_path *path, uint64_t *found);

int cli_put(struct cli_call *call);
int cli_get(struct cli_call *call);
int cli_cat(struct cli_call *call);
int cli_ls(struct cli_call *call);
int cli_stat(struct cli_call *call);
int cli_rm(struct cli_call *call);
int cli_cp(struct cli_call *call);
int cli_undo(struct cli_call *call);
int cli_diff(struct cli_call *call);
int cli_tag_get(struct cli_call *call);
int cli_tag_set(struct cli_call *call);
int cli_tag_remove(struct cli_call *call);
int cli_lock_status(struct cli_call *call);
int cli_lock_retain(struct cli_call *call);
int cli_lock_hold(struct cli_call *call);
int cli_lifecycle_get(struct cli_call *call);
int cli_lifecycle_set(struct cli_call *call);
int cli_lifecycle_remove(struct cli_call *call);
int cli_mb(struct cli_call *call);
int cli_rb(struct cli_call *call);
int cli_admin_info(struct cli_call *call);
int cli_admin_verify(struct cli_call *call);
int cli_admin_drive_status(struct cli_call *call);
int cli_admin_drive_add(struct cli_call *call);
int cli_admin_drive_remove(struct cli_call *call);
int cli_admin_drive_replace(struct cli_call *call);
int cli_admin_drive_return(struct cli_call *call);
int cli_admin_start(struct cli_call *call);
int cli_admin_pool_force(struct cli_call *call);
int cli_admin_heal_status(struct cli_call *call);
int cli_admin_scrub_status(struct cli_call *call);
int cli_admin_scrub_start(struct cli_call *call);
/* "admin read-only on", "admin maintenance status" ... */
int cli_admin_switch(struct cli_call *call);
int cli_admin_lock_clock(struct cli_call *call);
int cli_admin_support_bundle(struct cli_call *call);
int cli_admin_trace(struct cli_call *call);
int cli_admin_account_list(struct cli_call *call);
int cli_admin_account_create(struct cli_call *call);
int cli_admin_account_delete(struct cli_call *call);
int cli_admin_config_export(struct cli_call *call);
int cli_admin_config_import(struct cli_call *call);
int cli_admin_people(struct cli_call *call); /* user, group, role, policy, key */
int cli_admin_uploads_ls(struct cli_call *call);
int cli_admin_uploads_abort(struct cli_call *call);
int cli_admin_cluster_init(struct cli_call *call);
int cli_admin_cluster_pool_add(struct cli_call *call);
int cli_admin_cluster_status(struct cli_call *call);
int cli_admin_cluster_reseed(struct cli_call *call);
int cli_admin_cluster_adopt(struct cli_call *call);
int cli_admin_node_status(struct cli_call *call);
int cli_admin_node_add(struct cli_call *call);
int cli_admin_node_drain(struct cli_call *call);
int cli_admin_node_remove(struct cli_call *call);
int cli_cluster_cert_ca(struct cli_call *call);
int cli_cluster_secrets(struct cli_call *call);
int cli_cluster_cert_node(struct cli_call *call);
int cli_doctor(struct cli_call *call);
int cli_bench(struct cli_call *call);

#endif
