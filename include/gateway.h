/*
 * gateway.h - S3 over HTTP on the loops.
 *
 * The server makes one gateway, gives it a listening socket per loop (SO_REUSEPORT), and takes
 * figures from it. The gateway calls the engine and nothing calls the gateway.
 */
#ifndef MILLRACE_GATEWAY_H
#define MILLRACE_GATEWAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"
#include "loop_times.h"
#include "loop_trace.h"

struct eng_store;
struct gw_gateway;
struct rdx_batch;
struct rdx_server;

/* An access key and its secret: root's, or a user's of the directory (gateway/people/). */
struct gw_credential {
        char access_key[129];
        char secret_key[129];
};

/*
 * Seals the secrets of users, which the gateway keeps in the store; the server's. `about` names what
 * the secret belongs to, and nothing else opens it. Any thread.
 */
#define GW_SECRET_MAX 128u
#define GW_SEALED_MAX 512u /* text, with its NUL */
struct gw_sealer {
        void *arg;
        /* Into out, as printable text without quotes. -ENOKEY: there is no key; -EINVAL: too long. */
        int (*seal)(void *arg, const char *about, const char *secret, char *out, size_t size);
        /* -ENOKEY: its key is not there; -EBADMSG: it was not sealed about this. */
        int (*open)(void *arg, const char *about, const char *sealed, char *secret, size_t size);
        /* Its key is there. */
        bool (*knows)(void *arg, const char *sealed);
        /*
         * The same for tokens of temporary credentials: bytes, of which there may be any number without a nonce
         * being used twice. out: len + GW_TOKEN_MORE bytes. NULL: there are none.
         */
        int (*seal_token)(void *arg, const char *about, const void *bytes, size_t len, uint8_t *out);
        /* len: of all; out: len - GW_TOKEN_MORE bytes. */
        int (*open_token)(void *arg, const char *about, const uint8_t *sealed, size_t len, void *out);
        bool (*knows_token)(void *arg, const uint8_t *sealed, size_t len);
};
#define GW_TOKEN_MORE 41u /* format, key id, salt, tag */

/*
 * Whose memory requests by the header protocol (x-amz-rdma-token) may name on a listener: the GIDs
 * of clients. Nobody's: the protocol is off there. A signed request makes the server write where
 * its token says, so somebody must have named the places.
 */
#define GW_TARGETS_MAX 1024u
struct gw_targets {
        unsigned count;
        uint8_t gid[GW_TARGETS_MAX][16];
};

/* Networks of addresses; IPv4 as ::ffff:a.b.c.d, and bits counted accordingly. */
#define GW_NETWORKS_MAX 256u
#define GW_GUESTS_LEAST 16u
struct gw_network {
        uint8_t address[16];
        unsigned bits;
};
struct gw_networks {
        unsigned count;
        struct gw_network list[GW_NETWORKS_MAX];
};

/* Issuers of web identities (OpenID Connect), and the audiences that their tokens may be made for. Strings: the caller's. */
#define GW_ISSUERS_MAX   16u
#define GW_AUDIENCES_MAX 64u
struct gw_oidc_issuer {
        const char *url, *keys_url; /* NULL: the issuer says where its keys are */
};
struct gw_oidc {
        unsigned issuer_count, audience_count;
        struct gw_oidc_issuer issuer[GW_ISSUERS_MAX];
        const char *audience[GW_AUDIENCES_MAX];
        const char *ca_file; /* NULL or "": the system's authorities */
};

/* https, or http to a loopback address; without user, query and fragment. Pure. */
bool gw_oidc_url_valid(const char *url);

struct gw_limits {
        unsigned connections;          /* per loop; default 5,000 */
        unsigned guests;               /* connections without a valid signature from one address (IPv6: /64), on all loops; default a quarter of all, >= 16 */
        uint64_t idle_ms;              /* no byte moves in either direction: connection closed; default 60,000 */
        uint64_t request_ms;           /* total time for head of a request; default 30,000 */
        uint64_t min_rate;             /* bytes/s that must move either way while others wait for the memory a request holds; default 16 KiB */
        uint64_t upload_memory;        /* bytes all loops may hold in small uploads and XML bodies; default 256 MiB */
        uint64_t answer_memory;        /* bytes all loops may hold in answers that are being sent; default 64 MiB */
};

/*
 * One line of the access log, called on the loop that served the request when the last byte has
 * left. Must not block: the server queues it to a writer thread. Strings are valid during the call;
 * NULL where not known.
 */
struct gw_access {
        int64_t time_ms;
        const char *request_id, *remote, *method, *target, *operation, *bucket, *key, *error_code, *access_key,
                *user_agent;
        const char *trace_id, *parent_id; /* of the client's traceparent header: hexadecimal digits, which nobody vouches for */
        unsigned status;
        uint64_t bytes_in, bytes_out;  /* body bytes */
        uint64_t total_us, first_byte_us;
};

/*
 * What a TLS handshake may agree on, as a priority string of GnuTLS: TLS 1.2 and 1.3, keys by
 * elliptic-curve Diffie-Hellman (forward secrecy), and ciphers that authenticate what they encrypt.
 */
#define GW_TLS_PRIORITIES                                                                                              \
        "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:-CIPHER-ALL:+AES-128-GCM:"         \
        "+AES-256-GCM:+CHACHA20-POLY1305:-MAC-ALL:+AEAD:-SIGN-RSA-SHA1:-SIGN-ECDSA-SHA1:%SERVER_PRECEDENCE"

/*
 * A cluster can have several pools, each a store of its own (docs/design/pools.md). A bucket lies whole in one of them.
 * The pool of the lowest number, the first, is also the directory: users, policies, and where buckets of other pools are.
 */
#define GW_POOLS_MAX 64u               /* numbers are 1 .. GW_POOLS_MAX - 1 */

struct gw_options {
        struct eng_store *store;       /* the first pool's; on one machine the only one */
        unsigned pool;                 /* its number; 0: this is no cluster, and has no other pools */
        struct lp_loop *const *loops;
        unsigned loop_count;
        const char *region;            /* default us-east-1 */
        const char *domains;           /* comma-separated suffixes for virtual-host addressing; may be "" */
        const char *website_domains;   /* comma-separated: BUCKET.DOMAIN is the bucket's website; NULL: none */
        const char *website_hosts;     /* comma-separated hosts, or ".suffix": the website of the bucket with the host's name; NULL: none */
        bool presign_v2;               /* URLs presigned with Signature Version 2 are taken, too */
        struct gw_limits limits;       /* 0 in a field: its default */
        const struct gw_networks *proxies; /* limits.guests does not count what comes from there; stays as long as the gateway; NULL: none */
        const char *tls_priorities;    /* default GW_TLS_PRIORITIES; stays as long as the gateway */
        struct gw_sealer sealer;       /* all NULL: no secret can be kept, and nobody but root signs */
        const struct gw_oidc *oidc;    /* NULL: none; copied */
        struct rdx_server *rdma;       /* its loops are these; NULL: no RDMA. Stopped before gw_free(), freed after it */
        void (*access)(void *arg, const struct gw_access *line); /* NULL: no log */
        void *access_arg;
};

/* -ENOMEM; -EINVAL: hosts of websites are too many, or are among domains, too. */
int gw_new(const struct gw_options *options, struct gw_gateway **out);
/*
 * Any thread, once for each other pool: its store, open, on the same loops. It is there until gw_free(). Requests for a
 * bucket of a pool that was not added are answered 503, as is a list of buckets where such buckets are known of.
 * -EINVAL: the number, or the first pool has none; -EEXIST: that pool is there.
 */
int gw_pool_add(struct gw_gateway *gw, unsigned pool, struct eng_store *store);
/* Root's. Any thread; copies. Requests in flight keep what they were checked with. */
int gw_credentials_set(struct gw_gateway *gw, const struct gw_credential *list, unsigned count);
/*
 * Any thread; PEM texts, copied. Before the first gw_listen() with tls, and again at any time (new
 * handshakes use the new pair). -EINVAL if they don't parse or don't match.
 */
int gw_tls_set(struct gw_gateway *gw, const char *cert_pem, const char *key_pem);
/*
 * Any thread. 0, or -EINVAL where it is no priority string of GnuTLS; *where is then the part of
 * text that is at fault.
 */
int gw_tls_check_priorities(const char *text, const char **where);
/*
 * For a listener that is not the gateway's: MHD_OPTION_HTTPS_CERT_CALLBACK. Its thread says before
 * each handshake whose pair it is.
 */
void *gw_tls_callback(void);
void gw_tls_serve(struct gw_gateway *gw);
/*
 * Before the loops run. Takes over a bound, listening, non-blocking socket if it answers 0. May be
 * called more than once per loop (several listeners). targets: stays as long as the gateway; NULL:
 * none.
 */
int gw_listen(struct gw_gateway *gw, unsigned loop, int fd, bool tls, const struct gw_targets *targets);
/* On one of the loops: executes a batch of a session's; see rdma.h. */
void gw_rdma_batch(struct gw_gateway *gw, struct rdx_batch *batch);
/* Any thread: stop accepting, answer what runs with Connection: close. */
void gw_drain(struct gw_gateway *gw);
/*
 * Any thread: from now on, requests that would change anything are refused with AccessDenied (403),
 * which clients do not send again; or no longer. Those that were let in before end as they would
 * have: gw_changing().
 */
void gw_read_only(struct gw_gateway *gw, bool on);
/*
 * Any thread: requests under way that may change something. 0 after gw_read_only(gw, true): none
 * will, until that is taken back.
 */
unsigned gw_changing(const struct gw_gateway *gw);
/*
 * Any thread: from now on each answer ends its connection, and idle ones are closed, so that
 * clients come anew, where a balancer sends them; or no longer.
 */
void gw_shed(struct gw_gateway *gw, bool on);
/*
 * Any thread: the directory of users is whole, so that IAM answers all it is asked; or it could not be made whole
 * within GW_PEOPLE_WAIT_MS of the store's being open. Once true, always.
 */
#define GW_PEOPLE_WAIT_MS 60000u
bool gw_people_known(const struct gw_gateway *gw);
/*
 * The directory of users, for operators. Any thread but a loop's: each waits for the first loop, 10 s at most
 * (-ETIMEDOUT: a change may be made yet). -EAGAIN: it is not whole yet; -ENOMEM.
 */
/*
 * Entries of one kind as they are kept, each with its NUL, to be given back with free(). *position: 0 at first, then
 * left alone; *more false: that were all. What changes meanwhile may be left out.
 */
int gw_people_texts(const struct gw_gateway *gw, unsigned kind, uint32_t *position, bool *more, char **texts,
                    size_t *len);
/*
 * Makes an entry of such a text where there is none of its name; look_only: only says how it is. *opens: its secret is
 * sealed with a key that is there. Errors: -EINVAL (no entry), and those of changes (people.h).
 *
 * In front of the text a line can say whom the entry means by the names that are in it (D25): a JSON object whose
 * members are first lines of texts, with the ids. If one of these names is somebody else's: -EREMCHG.
 */
enum gw_people_put {
        GW_PEOPLE_NEW,
        GW_PEOPLE_SAME,
        GW_PEOPLE_DIFFERS,
        GW_PEOPLE_ANOTHER /* it differs, and by its id: the name is somebody else's */
};
int gw_people_put(const struct gw_gateway *gw, const char *text, size_t len, bool look_only, enum gw_people_put *result,
                  bool *opens);
/* A new account, and a key of its root. -ENOKEY: nothing can be sealed. The caller wipes *out. */
#define GW_ACCOUNT_TITLE_MAX 50u
struct gw_account_made {
        char id[13], canonical_id[65], title[GW_ACCOUNT_TITLE_MAX + 1], access_key[21], secret_key[41];
};
int gw_account_create(const struct gw_gateway *gw, const char *title, struct gw_account_made *out);
/* With the keys of its root. -ENOENT; -EBUSY: something else is in it; -EPERM: the first account. */
int gw_account_delete(const struct gw_gateway *gw, const char *id);
/* Whether a secret may be sent there: TLS, or the same machine. Pure. */
struct sockaddr;
bool gw_may_tell_secret(bool tls, const struct sockaddr *peer);

/* Any thread: requests being served now, connections open now. */
unsigned gw_active(const struct gw_gateway *gw);
/*
 * Before the loops run: from now on, what lifecycle rules make due is done, in passes on the first
 * loop. day_seconds: 86,400; less lets days pass faster, for tests. -ENOMEM.
 */
int gw_lifecycle_start(struct gw_gateway *gw, unsigned day_seconds);
/*
 * Before the loops run: from now on, inventory reports are written, in passes on the first loop.
 * day_seconds: as above. -ENOMEM.
 */
int gw_inventory_start(struct gw_gateway *gw, unsigned day_seconds);
/*
 * Before the loops run: from now on, requests to buckets with a logging configuration are logged, and
 * delivered when they are that old. -ENOMEM.
 */
int gw_logs_start(struct gw_gateway *gw, uint64_t interval_ms);
/*
 * Any thread, once: all access logs of buckets are delivered now. gw_logs_pending() is 0 once that is
 * done; what cannot be written is dropped after a while.
 */
void gw_logs_flush(struct gw_gateway *gw);
unsigned gw_logs_pending(const struct gw_gateway *gw);
/* After the loops have stopped. */
void gw_free(struct gw_gateway *gw);

/* ---- figures --------------------------------------------------------------------------------- */

/* What a request's time goes to, one after the other: they add up to its whole time. */
enum gw_stage {
        GW_STAGE_HEAD,                 /* its head is received */
        GW_STAGE_PARSE,                /* and cut into what it says */
        GW_STAGE_AUTHENTICATE,         /* its signature is checked, its bucket found */
        GW_STAGE_LOOK,                 /* the engine is asked what must be known before the body */
        GW_STAGE_BODY,                 /* the body is received, hashed, encoded and written to drives */
        GW_STAGE_WORK,                 /* the engine works: lookups, records, flushes */
        GW_STAGE_SEND,                 /* the answer is sent; of a large object, it is read meanwhile */
        GW_STAGES
};
const char *gw_stage_name(enum gw_stage stage);

/*
 * What the gateway's hashing of a body takes, within GW_STAGE_BODY: one time for each piece that is
 * hashed.
 */
enum gw_step {
        GW_STEP_CHECKSUMS,             /* SHA-256 and CRCs of an upload, the MD5 of a document */
        GW_STEP_CHUNKS,                /* aws-chunked framing, signatures of chunks included */
        GW_STEPS
};
const char *gw_step_name(enum gw_step step);

/* What lifecycle rules have come to since the start. */
struct gw_lifecycle_stats {
        bool running;                  /* a pass is under way */
        uint64_t passes;               /* that ended */
        uint64_t resumed;              /* passes that went on where one was cut off, by the end of the process or a switch to read-only */
        uint64_t looked_at;            /* versions and uploads */
        uint64_t expired, versions, markers, uploads; /* objects expired; versions and markers deleted; uploads aborted */
        uint64_t protected;            /* were due, and stay: object lock */
        uint64_t failed;               /* pages and changes */
        uint64_t skipped;              /* listings of a prefix that failed again and again: what was left of them is for the next pass */
};
/* Any thread. */
void gw_lifecycle_read(const struct gw_gateway *gw, struct gw_lifecycle_stats *out);

/* What inventory configurations have come to since the start. */
struct gw_inventory_stats {
        bool running;                  /* a pass is under way */
        uint64_t passes;               /* that ended */
        uint64_t reports;              /* that were written */
        uint64_t listed;               /* objects and versions, also of reports that were given up */
        uint64_t failed;               /* reports that could not be written; the next pass begins them anew */
        uint64_t refused;              /* whose destination does not let reports in */
        uint64_t skipped;              /* configurations that ask for what is not written */
};
/* Any thread. */
void gw_inventory_read(const struct gw_gateway *gw, struct gw_inventory_stats *out);

/* Records of buckets' access logs since the start. */
struct gw_logs_stats {
        uint64_t delivered;            /* records in objects of target buckets */
        uint64_t objects;              /* these objects */
        uint64_t dropped;              /* records that had no room, or could not be written */
        uint64_t refused;              /* records whose target is gone, has object lock, or does not let log delivery in */
};
/* Any thread. */
void gw_logs_read(const struct gw_gateway *gw, struct gw_logs_stats *out);

/* How the entries of a batch were asked for. */
enum gw_entry_way { GW_ENTRY_HTTP, GW_ENTRY_RDMA, GW_ENTRY_WAYS };
const char *gw_entry_way_name(enum gw_entry_way way);
#define GW_ENTRY_CODES 15u             /* those of docs/rdma-protocol.md */

#define GW_OPERATIONS_MAX 128u
struct gw_op_stats {
        const char *operation;         /* S3 name, e.g. "GetObject" */
        uint64_t by_status[6];         /* 1xx (unused), 2xx .. 5xx at [2]..[5]; [0] requests in all */
        uint64_t bytes_in, bytes_out;
        struct lp_histogram latency;
};
struct gw_stats {
        uint64_t connections_open, connections_total, connections_evicted, requests_active, requests_total, changes_active, upload_memory_used, answer_memory_used;
        unsigned operations;           /* entries used below */
        struct gw_op_stats op[GW_OPERATIONS_MAX];
        struct lp_histogram stage[GW_STAGES];
        struct lp_histogram step[GW_STEPS];
        uint64_t entries[GW_ENTRY_WAYS][GW_ENTRY_CODES]; /* of batches, by the code of their result */
};
/* Any thread; summed over loops. */
void gw_stats_read(const struct gw_gateway *gw, struct gw_stats *out);

/* ---- traces (loop_trace.h) ------------------------------------------------------------------- */

/*
 * Any thread. Writes the name of what word 0 or 1 of such a record stands for; false: it is a
 * number, and out is as it was.
 */
bool gw_trace_word(enum lp_trace_event event, unsigned word, uint64_t value, char out[LP_TRACE_WORD]);

#endif
