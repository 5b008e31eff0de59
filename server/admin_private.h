/*
 * admin_private.h - what the files of the admin listener share.
 */
#ifndef MILLRACE_SERVER_ADMIN_PRIVATE_H
#define MILLRACE_SERVER_ADMIN_PRIVATE_H

#include "server/admin_listener.h"

#include "cluster_node.h"
#include "s3.h"

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <bsd/sys/queue.h>

#define ADMIN_BODY_MAX    (256u << 10) /* an entry of the directory fits */
#define ADMIN_HEADERS_MAX 64u
#define ADMIN_START_LEN   32u
#define ADMIN_JSON_TYPE    "application/json"
#define ADMIN_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* owner: the daemon until posted, the loop until pending is false again */
struct admin_ping {
        struct lp_msg msg;
        uint64_t since_ns; /* monotonic; owner: the admin thread */
        _Atomic bool pending;
};

/* One call of eng_verify_start(), which wants a loop. */
struct admin_verify_call {
        struct lp_msg msg;
        struct eng_store *store;
        pthread_mutex_t lock; /* over the members below */
        pthread_cond_t answered;
        bool pending; /* posted and not yet run; msg is the loop's */
        int rv;
};

/*
 * Signatures of calls that were answered, until their date is too old to be taken again: a
 * signature is random, so its first bytes choose the bucket. owner: the admin thread
 */
#define ADMIN_SEEN_BUCKETS 4096u
#define ADMIN_SEEN_DEPTH   16u
struct admin_seen {
        int64_t until_ms; /* free from then on */
        char signature[S3_SIGNATURE_LEN];
};

/* One connection. owner: the admin thread */
struct admin_conn {
        TAILQ_ENTRY(admin_conn) entry;
        int fd;
        bool cut; /* it has left the list */
};

struct srv_admin {
        TAILQ_HEAD(, admin_conn) conns; /* the oldest first. owner: the admin thread */
        unsigned conn_count;
        const struct srv_list *hosts;                           /* names of this listener, beside its addresses */
        const struct srv_settings *settings;
        struct admin_seen (*seen)[ADMIN_SEEN_DEPTH];            /* ADMIN_SEEN_BUCKETS of them */
        struct srv_statistics_source source;
        struct srv_link *link; /* see struct srv_admin_options */
        unsigned pool;         /* likewise */
        uint64_t since;        /* lp_clock() of its start */
        struct gw_gateway *tls; /* whose pair TLS takes; NULL: plain HTTP */
        char region[S3_REGION_MAX + 1];
        char start[ADMIN_START_LEN + 1]; /* names this start of the daemon: random, in hex digits */
        struct MHD_Daemon *daemon; /* NULL: it is asked by srv_admin_ask() */
        struct admin_far *far;     /* NULL: it is not */
        ssize_t (*ask_leader)(void *arg, unsigned pool, const uint8_t *bytes, size_t len, uint8_t *room);
        void *ask_arg;
        unsigned (*sessions)(void *arg);
        void *sessions_arg;
        _Atomic bool draining;
        _Atomic uint32_t leads; /* pools, a bit for each number */
        pthread_mutex_t lock; /* over credentials */
        struct srv_credentials credentials;
        struct admin_verify_call verify;
        struct admin_ping *pings; /* one for each loop */
};

/* One request as it was received. owner: the admin thread */
struct admin_request {
        struct srv_admin *admin;
        char *target;          /* raw */
        const char *target_at; /* the library's text that it was copied from: only to be compared */
        const char *method;
        struct s3_target parts; /* slices of target */
        struct s3_header headers[ADMIN_HEADERS_MAX];
        size_t header_count;
        int fd; /* its connection's, to ask for the address it came to */
        bool started; /* the first call of MHD's handler has been */
        char *body;   /* ADMIN_BODY_MAX bytes once some came */
        size_t body_len, discarded;
};

/* body is from malloc(); NULL: out of memory, or what status alone says. */
struct admin_answer {
        unsigned status;
        const char *type;
        char *body;
        size_t len;
        const char *allow; /* of 405, else NULL */
};

/* ---- admin_api.c: the calls. All on the admin thread. ---- */
struct admin_answer srv_admin_answer(struct admin_request *request);
struct admin_answer srv_admin_error(unsigned status, const char *code, const char *message);
/* Takes over json, which may be NULL. */
struct admin_answer srv_admin_json(unsigned status, json_t *json);
/* A string that may hold any bytes (a path does): JSON wants UTF-8. */
json_t *srv_admin_text(const char *value);
json_t *srv_admin_number(uint64_t value);
void srv_admin_verify_init(struct admin_verify_call *call, struct eng_store *store);

/* Of a request that was authorised at a node: a call of the pool's. */
struct admin_answer srv_admin_answer_of_pool(struct admin_request *request);

/* ---- admin_forward.c: from a node's listener to the pool's leader ---- */

struct admin_answer srv_admin_forward(const struct admin_request *request, unsigned pool);
/* The leader's side: a thread. 0 or a negative errno. */
int srv_admin_far_start(struct srv_admin *admin);
/* What waits is told that it cannot be answered. NULL is allowed. */
void srv_admin_far_stop(struct admin_far *far);

/* ---- admin_pools.c: the pool that a call is for ---- */

struct admin_answer srv_admin_ask_pool(const struct admin_request *request);
/* A call about a switch, which all pools heed. */
struct admin_answer srv_admin_ask_switch(const struct admin_request *request);

/* ---- admin_parameters.c ---- */

/* owner: the caller; text: what the slices of query point into */
struct admin_parameters {
        struct s3_query query;
        char text[S3_TARGET_MAX];
};

/*
 * The parameters of a call, to be freed with free(). NULL: they are malformed, or there is no
 * memory.
 */
struct admin_parameters *srv_admin_parameters(const struct admin_request *request);
/*
 * The value of one. False if it is not there exactly once, is longer than cap - 1 bytes, or has a 0
 * in it.
 */
bool srv_admin_parameter(const struct admin_parameters *p, const char *name, char *out, size_t cap);
/* The same of a decimal number. */
bool srv_admin_parameter_number(const struct admin_parameters *p, const char *name, uint64_t *out);

/* ---- admin_drives.c ---- */

struct admin_answer srv_admin_get_drives(struct admin_request *request);
struct admin_answer srv_admin_post_drives(struct admin_request *request);
struct admin_answer srv_admin_get_heal(struct admin_request *request);
struct admin_answer srv_admin_get_start(struct admin_request *request);
struct admin_answer srv_admin_post_start(struct admin_request *request);
/* Shards, bytes and digest of each drive that has any, by slot. */
json_t *srv_admin_digests(const struct eng_digest digests[ENG_DRIVES_MAX]);
/* {"1": objects that lack one shard, ..., "more": that lack more than m}. */
json_t *srv_admin_lacking(const uint64_t lacking[ENG_LACKS], unsigned m);

/* ---- admin_ready.c ---- */

/*
 * Whether a call of /health/ready wants the drives of this process to be in use, and they are not: 1, with the reason; 0; -EINVAL:
 * its parameters make no sense; -ENOMEM.
 */
int srv_admin_awaits_drives(const struct admin_request *request, const struct eng_health *health, char *why, size_t size);

/* ---- admin_cluster.c ---- */

struct admin_answer srv_admin_get_cluster(struct admin_request *request);
struct admin_answer srv_admin_get_pool(struct admin_request *request);
struct admin_answer srv_admin_get_probe(struct admin_request *request);

/* ---- admin_nodes.c ---- */

struct admin_answer srv_admin_get_nodes(struct admin_request *request);
struct admin_answer srv_admin_post_nodes(struct admin_request *request);
/* In a cluster: new folders of a node become slots (node=N[&id=ID]), or one of them takes the place of a lost drive (slot=N[&id=ID]). */
struct admin_answer srv_admin_add_folders(struct admin_request *request, const struct admin_parameters *p);
struct admin_answer srv_admin_exchange_drive(struct admin_request *request, const struct admin_parameters *p);

/* ---- admin_switches.c ---- */

struct admin_answer srv_admin_get_read_only(struct admin_request *request);
struct admin_answer srv_admin_post_read_only(struct admin_request *request);
struct admin_answer srv_admin_get_maintenance(struct admin_request *request);
struct admin_answer srv_admin_post_maintenance(struct admin_request *request);

/* ---- admin_people.c ---- */

struct admin_answer srv_admin_get_people(struct admin_request *request);
struct admin_answer srv_admin_post_people(struct admin_request *request);
struct admin_answer srv_admin_post_accounts(struct admin_request *request);

/* ---- admin_lock.c ---- */

struct admin_answer srv_admin_get_lock_clock(struct admin_request *request);
struct admin_answer srv_admin_post_lock_clock(struct admin_request *request);

/* ---- admin_support.c ---- */

struct admin_answer srv_admin_get_support(struct admin_request *request);

/* ---- admin_trace.c ---- */

struct admin_answer srv_admin_get_trace(struct admin_request *request);

/* ---- admin_auth.c ---- */

#define ADMIN_NONCE "x-millrace-nonce"
#define ADMIN_START "x-millrace-start" /* in every answer, too */

/*
 * Signed with root credentials, in headers, for this listener (Host) and this start of the daemon,
 * body and x-millrace-nonce included, and for the first time. Else why not, *code for the answer.
 */
bool srv_admin_authorised(struct admin_request *request, const char **code, const char **message);

#endif
