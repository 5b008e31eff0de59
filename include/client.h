/*
 * client.h - what the program `millrace` takes from the client library beside millrace.h, whose
 * rules hold here, too: settings from a file, transfers between objects and descriptors, uploads
 * left behind, the admin listener. Linked statically; not installed.
 *
 * Every call blocks until it is done, and any thread may make it.
 */
#ifndef MILLRACE_CLIENT_H
#define MILLRACE_CLIENT_H

#include "millrace.h"

/* ---- settings -------------------------------------------------------------------------------- */

struct mr_settings {
        char endpoint[2048]; /* http[s]://host[:port], no path; several of one store: commas between them */
        char admin[512];     /* the daemon's admin listener: one URL */
        char region[64];
        char access_key[129], secret_key[129], session_token[8193];
        char ca_file[1024]; /* PEM bundle that TLS trusts; "": the system's */
        enum mr_sign_body sign_body;
        enum mr_checksum checksum;
        enum mr_transport transport;
        unsigned parallel;          /* requests at once, 1..64 */
        unsigned attempts;          /* per request, 1..20 */
        unsigned connect_timeout_s; /* 1..300 */
        unsigned stall_timeout_s;   /* no byte moves for this long: the attempt has failed; 1..3,600 */
        uint64_t part_size;         /* bytes, 5 MiB..5 GiB; 0: chosen by the object's size, 8-64 MiB */
        unsigned rdma_rights;       /* as in struct mr_options */
        char test_rdma_driver
                [1024]; /* a transport without hardware, loaded in place of verbs: for tests and measurements; "": verbs */
};

void mr_settings_default(struct mr_settings *settings);

/*
 * Sets one setting by its name in the configuration file, e.g. "parallel". -ENOENT: no such name;
 * -EINVAL: bad value. why (may be NULL) gets one line that names the setting and what it takes.
 */
int mr_settings_set(struct mr_settings *settings, const char *name, const char *value, char *why, size_t why_size);

/*
 * Fills settings from, each overriding the one before: defaults; the file (NULL: $MILLRACE_CONFIG,
 * else $XDG_CONFIG_HOME/millrace/config, else ~/.config/millrace/config, and then it need not
 * exist); the environment. Errors as mr_settings_set(), or of opening the file; why names the file
 * and line, or the variable.
 */
int mr_settings_load(const char *path, struct mr_settings *settings, char *why, size_t why_size);

/* One row per setting, for help texts; NULL past the last. */
struct mr_setting_info {
        const char *name, *environment,
                *help; /* environment: variables, the first that is set wins; separated by spaces */
};
const struct mr_setting_info *mr_setting_info(unsigned index);

/* ---- a client -------------------------------------------------------------------------------- */

/*
 * Copies settings. -EINVAL where endpoint or admin is not a URL of the form above, or a number is
 * out of its range.
 */
int mr_client_new(const struct mr_settings *settings, struct mr_client **out);
/*
 * Progress of a transfer: delta bytes more, or, when an attempt is repeated, less. Called by any
 * thread, several at once.
 */
typedef void (*mr_progress_fn)(void *arg, int64_t delta);

/* ---- objects --------------------------------------------------------------------------------- */

struct mr_put_fd {
        const char *bucket, *key;
        int fd;                           /* a regular file is read by offset, in parallel; anything else as a stream */
        const char *content_type;         /* NULL: not sent */
        const struct mr_header *metadata; /* x-amz-meta-NAME: value */
        unsigned metadata_count;
        bool if_none_match; /* only where the key does not exist, else -EEXIST */
        mr_progress_fn progress;
        void *progress_arg;
};

struct mr_put_fd_result {
        uint64_t size;
        unsigned parts; /* 0: one PUT */
        char etag[96];
};

/*
 * Stores a whole file or stream: one PUT, or, where it is large, parts in parallel; a failed upload
 * in parts is aborted. A regular file that changes meanwhile is refused by its checksum (-EBADMSG)
 * or, when it shrinks, with -ESTALE. Buffers: none for a regular file; for a stream at most 128 MiB
 * or one part, whichever is more.
 */
int mr_put_fd(struct mr_client *client, const struct mr_put_fd *put, struct mr_put_fd_result *out,
              struct mr_error *err);

struct mr_get_fd {
        const char *bucket, *key;
        const char *version_id; /* NULL: the current one */
        int64_t size;           /* known from a listing, with etag; -1: asked for first */
        const char *etag;       /* NULL: not known */
        mr_progress_fn progress;
        void *progress_arg;
};

struct mr_get_fd_result {
        uint64_t size;
        int64_t mtime_s;
        bool verified; /* the object had a checksum of its bytes, and it was compared */
};

/*
 * Into a regular file, by ranges in parallel, from its offset 0; the file must be empty. What a
 * failure leaves in it is not to be used.
 */
int mr_get_file(struct mr_client *client, const struct mr_get_fd *get, int fd, struct mr_get_fd_result *out,
                struct mr_error *err);
/*
 * Into a stream, in order, by ranges in parallel (at most 64 MiB of them buffered). Bytes are
 * written as they come; a checksum that turns out wrong at the end is -EBADMSG after they were
 * written.
 */
int mr_get_stream(struct mr_client *client, const struct mr_get_fd *get, int fd, struct mr_get_fd_result *out,
                  struct mr_error *err);

/* ---- listings -------------------------------------------------------------------------------- */

/* Strings are valid during the call. A result other than 0 ends the listing, and is its result. */
typedef int (*mr_entry_fn)(void *arg, const struct mr_entry *entry);
int mr_list(struct mr_client *client, const struct mr_list *list, mr_entry_fn entry, void *arg, struct mr_error *err);

struct mr_upload {
        const char *key, *upload_id;
        int64_t initiated_s;
};
typedef int (*mr_upload_fn)(void *arg, const struct mr_upload *upload);
int mr_uploads(struct mr_client *client, const char *bucket, const char *prefix, mr_upload_fn upload, void *arg,
               struct mr_error *err);
int mr_upload_abort(struct mr_client *client, const char *bucket, const char *key, const char *upload_id,
                    struct mr_error *err);

/* ---- the daemon ------------------------------------------------------------------------------ */

struct mr_reply {
        int status;
        int64_t date_s; /* the answer's Date header, seconds since 1970; 0: none */
        size_t body_len;
        char *body; /* NUL-terminated; owner: this struct, see mr_reply_free() */
};
void mr_reply_free(struct mr_reply *reply);

/*
 * One signed request to the admin listener, e.g. "GET", "/admin/v1/info". query: names and values
 * by turns, at most MR_ADMIN_QUERY_MAX pairs, ended by a NULL; NULL: none. 0 for any answer,
 * whatever its status.
 */
#define MR_ADMIN_QUERY_MAX 8
int mr_admin(struct mr_client *client, const char *method, const char *path, const char *const query[],
             struct mr_reply *out, struct mr_error *err);
/* The same as a POST with a body, which is referenced until it returns. */
int mr_admin_send(struct mr_client *client, const char *path, const char *const query[], const char *body, size_t len,
                  struct mr_reply *out, struct mr_error *err);
/*
 * One action of IAM or STS (service: "iam", "sts") at the endpoint, tried once. pairs: names and values of its form by
 * turns, ended by a NULL. 0 for any answer, whatever its status.
 */
int mr_iam(struct mr_client *client, const char *service, const char *const pairs[], struct mr_reply *out,
           struct mr_error *err);
/*
 * One unsigned GET, tried once: of the endpoint's root, or of a path of the admin listener. 0 for
 * any answer.
 */
int mr_probe_endpoint(struct mr_client *client, struct mr_reply *out, struct mr_error *err);
/* How RDMA would carry this client's bytes: opens a session, if there is none. Else why not. */
struct mr_rdma_report {
        char device[64], link[24]; /* of this machine */
        char address[64];          /* of the endpoint */
        uint16_t port;
        char rights[16];   /* "window2", "window1", "region" */
        unsigned requests; /* at once */
};
int mr_probe_rdma(struct mr_client *client, struct mr_rdma_report *out, struct mr_error *err);
/* GETs and PUTs whose bytes were copied, as their own memory was not registered. Any thread. */
uint64_t mr_client_bounced(const struct mr_client *client);
/*
 * Whether auto tries RDMA first for all bytes of an object in registered memory: of a PUT, or a GET
 * that is one of so many in a batch (1: of none). Where TCP carried some of those nevertheless, it
 * fell back.
 */
bool mr_prefers_rdma(const struct mr_client *client, bool put, uint64_t len, size_t batch);
int mr_probe_admin(struct mr_client *client, const char *path, struct mr_reply *out, struct mr_error *err);

#endif
