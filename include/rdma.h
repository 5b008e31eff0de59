/*
 * rdma.h - the server's side of RDMA: sessions, and the transfer engine that writes verified bytes
 * into clients' memory.
 *
 * It knows nothing of S3 or HTTP. The gateway opens a session for a signed request, looks up a
 * session's secret to verify what is signed with it, and then drives one struct rdx_request per GET
 * or PUT (below), or executes the batches that arrive on control queue pairs. docs/rdma-protocol.md
 * is what both ends agree on; include/rdma_wire.h its code; include/rdma_client.h the other end;
 * include/rdma_transport.h what carries the bytes.
 *
 *   gateway's loop (home)                          the session's loop
 *   rdx_request_begin ──────────────────────────>  number new? session live? room?
 *   begun() <────────────────────────────────────
 *   rdx_request_write(buffer, offset) ──────────>  queue of the session, WRITE when it is its turn
 *   done(buffer) <───────────────────────────────  its completion
 *   rdx_request_finish ─────────────────────────>  the notice, behind all WRITEs
 *   ended(0) <───────────────────────────────────  completion of the notice: all that was posted is over
 *
 * Everything of a session happens on one loop: queue pair, completions, batches. Callbacks come on
 * the loop that made the call, never from inside it. Invariants: a buffer given to a write is the
 * device's until done() (I7); every queue here has a bound (I9).
 */
#ifndef MILLRACE_RDMA_H
#define MILLRACE_RDMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"
#include "rdma_transport.h"
#include "rdma_wire.h"

struct rdx_server;
struct rdx_batch;
struct rdx_session;

/* ---- making ---------------------------------------------------------------------------------- */

#define RDX_ENDPOINTS_MAX 8u
#define RDX_ARENAS_MAX    256u
#define RDX_WRITE_MAX     (1u << 20)
#define RDX_OWNER_MAX     128u /* bytes of an access key */

/* 0 in a field: its default. */
struct rdx_limits {
        unsigned sessions;         /* of the server; 256 */
        unsigned sessions_per_key; /* 64 */
        unsigned requests;         /* outstanding per session; 64 */
        unsigned messages;         /* BATCH messages outstanding per session; 8 */
        unsigned writes;           /* in flight per device; 256. Each loop has its share of it */
        uint64_t window_bytes;     /* 5 GiB */
        uint64_t life_ms;          /* 1 hour */
        uint64_t connect_ms;       /* 10,000 */
        uint64_t stall_ms;         /* without a completion, while something is posted; 10,000 */
};

struct rdx_endpoint_options {
        const char *address; /* of one of the host's interfaces with RDMA */
        uint16_t port;       /* 0: any */
};

struct rdx_server_options {
        const struct rdx_transport *transport;
        struct lp_loop *const *loops; /* made, not yet running */
        unsigned loop_count;
        const struct rdx_endpoint_options *endpoints;
        unsigned endpoint_count;
        struct rdx_limits limits;
        /*
         * The header protocol is on: requests by a token are served by an initiator per device and
         * loop, where transport and device have DC. The key is that of the clients' targets; a
         * token does not carry it.
         */
        bool tokens;
        uint64_t token_key;
        /* On the session's loop: execute this batch (see below). */
        void (*batch)(void *arg, struct rdx_batch *batch);
        void *arg;
};

/*
 * Blocking; before the loops run. Opens the devices and listens on their addresses. -ENODEV,
 * -ENOSYS: no device there, or no verbs: the server works without RDMA, and why is a line for its
 * log.
 */
int rdx_server_new(const struct rdx_server_options *options, struct rdx_server **out, char *why, size_t why_len);
/*
 * Blocking (pins); before rdx_server_start(). Registers an arena with all devices: what lies in it
 * can be written from.
 */
int rdx_server_memory(struct rdx_server *server, void *base, size_t len);
/* Before the loops run: from here on connections are taken. */
int rdx_server_start(struct rdx_server *server);
/* Any thread: [buf, buf + len) lies in one arena. */
bool rdx_server_registered(const struct rdx_server *server, const void *buf, size_t len);
/*
 * Blocking; after the loops have stopped, before lp_loop_drain(): moves all queue pairs to the
 * error state and closes them. Callbacks that are owed are posted to their loops, with -ESHUTDOWN.
 */
void rdx_server_stop(struct rdx_server *server);
void rdx_server_free(struct rdx_server *server); /* after the drain. NULL is allowed */

/* The devices that endpoints are on. */
void rdx_server_device(const struct rdx_server *server, unsigned endpoint, struct rdx_device_info *out);

/* Requests by a token can be served on this endpoint's device. */
bool rdx_server_tokens(const struct rdx_server *server, unsigned endpoint);

/* ---- sessions -------------------------------------------------------------------------------- */

struct rdx_open {
        uint8_t signing_key[RDX_KEY_LEN]; /* SigV4's, of the request that opens it */
        uint8_t client_nonce[RDX_NONCE_LEN];
        const char *owner; /* access key of the caller */
        unsigned rights;   /* mask of enum rdx_rights that the client has */
        unsigned queue_pairs, receives;
        uint64_t credentials_ms; /* until the credentials end; 0: they don't */
};

struct rdx_opened_endpoint {
        unsigned endpoint;
        const char *address; /* owner: the server */
        uint16_t port;
        uint8_t boot[RDX_BOOT_LEN];
        unsigned queue_pairs;
        bool control;
};

struct rdx_opened {
        uint8_t session[RDX_ID_LEN], server_nonce[RDX_NONCE_LEN];
        enum rdx_rights rights;
        uint64_t expires_ms, connect_ms;
        struct rdx_opened_endpoint endpoint[RDX_ENDPOINTS_MAX];
        unsigned endpoint_count;
        struct rdx_limits limits; /* as they are, no zeros */
};

/*
 * On one of the server's loops. -EBUSY: too many sessions; -EDQUOT: of this owner; -ENOTSUP: no
 * scheme in common; -EINVAL; -ENODEV: every device is gone.
 */
int rdx_session_open(struct rdx_server *server, const struct rdx_open *open, struct rdx_opened *out);

struct rdx_session_info {
        char owner[RDX_OWNER_MAX + 1];
        char secret[RDX_SECRET_LEN + 1];
        bool connected;
};
/* Any thread. -ENOENT: no such session (any more). */
int rdx_session_find(struct rdx_server *server, const uint8_t session[RDX_ID_LEN], struct rdx_session_info *out);

#define RDX_ENDS(X)                                                                                                    \
        X(REQUEST, "request") /* the client asked for it */                                                            \
        X(EXPIRED, "expired")                                                                                          \
        X(UNCONNECTED, "unconnected") /* nobody connected in time */                                                   \
        X(DISCONNECT, "disconnect")   /* the client left, or died */                                                   \
        X(REVOKED, "revoked")         /* its credentials */                                                            \
        X(BROKE_RULE, "broke-rule")   /* a message that no right client sends */                                       \
        X(RIGHTS, "rights")           /* the client's device refused a WRITE or READ */                                \
        X(TIMEOUT, "timeout")         /* the client's device did not answer */                                         \
        X(STALLED, "stalled")         /* no completion for too long */                                                 \
        X(DEVICE, "device")           /* the device failed or is gone */                                               \
        X(FAILED, "failed")           /* could not be set up */                                                        \
        X(SHUTDOWN, "shutdown")

enum rdx_end {
#define RDX_END_ENUM(name, text) RDX_END_##name,
        RDX_ENDS(RDX_END_ENUM)
#undef RDX_END_ENUM
                RDX_END_KINDS
};
const char *rdx_end_name(enum rdx_end end);

/* Any thread. No request finds it from here on; what runs ends with an error. -ENOENT. */
int rdx_session_end(struct rdx_server *server, const uint8_t session[RDX_ID_LEN]);
/* Any thread. All sessions of an access key; how many. */
unsigned rdx_sessions_revoke(struct rdx_server *server, const char *owner);
/* Any thread. The access key of each session that is not over; each() is called under a lock, and calls nothing here. */
void rdx_sessions_each(struct rdx_server *server, void (*each)(void *arg, const char *owner), void *arg);

/* ---- one request ----------------------------------------------------------------------------- */

/* What waits to be posted on a session, or is. */
struct rdx_job {
        struct rdx_job *next;
        struct rdx_flow *flow;
        uint8_t kind;
        bool taken; /* posted */
};

/*
 * The session's side of a request or batch. owner: the session's loop (by a token: the request's)
 */
struct rdx_flow {
        struct rdx_session *session;   /* NULL: none, or it is over */
        struct rdx_dialer *dialer;     /* by a token: what posts it */
        struct rdx_way *way;           /* and how the target is reached */
        struct rdx_flow *next, **link; /* of the session's */
        struct rdx_window_span window;
        uint64_t number;
        unsigned jobs; /* not over */
        bool posted;   /* any WRITE or READ, ever */
        bool read;
        bool more;  /* of a request that has not been finished or abandoned: more may be given */
        int result; /* why no more can be posted */
        uint64_t bytes;
};

struct rdx_request;

/* One WRITE from, or READ into, registered memory. */
struct rdx_write {
        void *buf;
        uint32_t len;    /* 1 .. RDX_WRITE_MAX */
        uint64_t offset; /* in the window */
        /*
         * 0: its completion is here; the bytes are at the client's device (visible to it only
         * behind the notice), or were read. Else nothing of it was posted (-ECANCELED: given up;
         * -EFAULT: not registered; -EINVAL: outside the window), or the session is over, or (by a
         * token) the target refused it or did not answer.
         */
        void (*done)(struct rdx_write *write, int result);
        bool copied; /* for figures: its bytes had to be copied into registered memory first */
        /* private */
        struct lp_msg msg;
        struct rdx_job job;
        struct rdx_request *request;
        struct rdx_batch *batch;
        int result;
        uint64_t asked;
};

/*
 * From begin to ended(). Zero it, fill in what is asked for, and begin once. begun(0) obliges the
 * caller to call finish or abandon exactly once; after a begun() with an error it is over. Then
 * ended() comes after the last done().
 */
struct rdx_request {
        const struct rdx_token
                *token; /* not NULL: of no session, but into (from) this target's memory; read by begin only */
        uint8_t session[RDX_ID_LEN];
        uint64_t number;
        struct rdx_window_span window;
        bool read; /* a PUT: the client's memory is read */
        /*
         * 0; -ENOENT: no such session, or not connected; -EEXIST: the number was accepted before;
         * -ERANGE: it is out of range; -EAGAIN: too many requests outstanding; -EINVAL: the window
         * is larger than the limit; -ENOTCONN: the client has not said that its queue pair is
         * connected; -EOPNOTSUPP: it takes no READs, and this is a PUT. By a token, anything but 0:
         * not over RDMA now, for no fault of the request's.
         */
        void (*begun)(struct rdx_request *request, int result);
        /*
         * 0: all is written, notice included (or: all is read). -ECANCELED: given up by abandon().
         * Else the session is over, or the target failed this request. Nothing of this request is
         * posted any more. A body may answer only if posted is false. By a token there is no
         * notice.
         */
        void (*ended)(struct rdx_request *request, int result);
        bool posted; /* from ended() on */
        uint64_t bytes;
        bool notice;       /* queue pair 0 of the endpoint sent one */
        unsigned endpoint; /* from begun() on */
        /* private */
        struct rdx_server *server;
        struct lp_loop *home;
        struct lp_msg msg;
        struct rdx_job job;
        struct rdx_flow flow;
        unsigned owner; /* index of the session's loop */
        int result;
        uint64_t asked;
        bool closing, by_token;
        struct rdx_port port; /* of the token */
        uint32_t target;
        struct rdx_request *waits; /* the next that waits for the same way, or session */
        uint64_t waits_since;
};

void rdx_request_begin(struct rdx_server *server, struct rdx_request *request);
/* After begun(0), before finish or abandon. As many as the caller has buffers for. */
void rdx_request_write(struct rdx_request *request, struct rdx_write *write);
/* No more writes come; those given are posted first. */
void rdx_request_finish(struct rdx_request *request);
/* What is not posted yet never will be. */
void rdx_request_abandon(struct rdx_request *request);

/* ---- batches --------------------------------------------------------------------------------- */

/*
 * One BATCH message, given to options.batch on the session's loop, which is also where everything
 * below is called. It stays until the last entry has its result and the last write is done; entries
 * and their strings until the last result. For each entry: any number of writes into its place,
 * then one result, which need not wait for the writes' done(): it travels behind them, and not at
 * all if one fails.
 */
const struct rdx_message *rdx_batch_message(const struct rdx_batch *batch);
const struct rdx_entry *rdx_batch_entry(const struct rdx_batch *batch, unsigned i); /* i < message->count */
const char *rdx_batch_owner(const struct rdx_batch *batch); /* access key of the session's user */
uint64_t rdx_batch_deadline(const struct rdx_batch *batch); /* lp_now() scale; UINT64_MAX: none */
/* The same for all batches of a session; nothing but that may be made of it. */
const void *rdx_batch_session(const struct rdx_batch *batch);
/* The session is over: results go nowhere. */
bool rdx_batch_dead(const struct rdx_batch *batch);

/* offset: in the place of entry i. */
void rdx_batch_write(struct rdx_batch *batch, unsigned i, struct rdx_write *write);
/* index is set here. Strings are copied. Call it once per entry. */
void rdx_batch_result(struct rdx_batch *batch, unsigned i, const struct rdx_result *result);

/* ---- figures --------------------------------------------------------------------------------- */

#define RDX_DECLINES(X)                                                                                                \
        X(OFF, "off")                                                                                                  \
        X(DEVICE, "device")                                                                                            \
        X(POLICY, "policy")                                                                                            \
        X(SSE_C, "sse-c")                                                                                              \
        X(QUEUE_PAIRS, "queue-pairs")                                                                                  \
        X(TARGET, "target") /* a token names one that is not permitted on this listener */                             \
        X(READS, "reads")   /* the client's queue pair takes no READs: no uploads */

enum rdx_decline {
#define RDX_DECLINE_ENUM(name, text) RDX_DECLINE_##name,
        RDX_DECLINES(RDX_DECLINE_ENUM)
#undef RDX_DECLINE_ENUM
                RDX_DECLINE_KINDS
};
const char *rdx_decline_name(enum rdx_decline decline);
/* Counts an answer over TCP to a request that asked for RDMA. On a loop of the server's. */
void rdx_count_decline(struct rdx_server *server, enum rdx_decline decline);

#define RDX_STAGES(X)                                                                                                  \
        X(QUEUED, "queued") /* from the call to the post */                                                            \
        X(WIRE, "wire")     /* from the post to its completion */                                                      \
        X(NOTICE, "notice") /* from finish to ended */

enum rdx_stage {
#define RDX_STAGE_ENUM(name, text) RDX_STAGE_##name,
        RDX_STAGES(RDX_STAGE_ENUM)
#undef RDX_STAGE_ENUM
                RDX_STAGE_KINDS
};
const char *rdx_stage_name(enum rdx_stage stage);

#define RDX_LATENCY_BUCKETS 24u /* bucket i: below 2^i us; the last: no bound */

struct rdx_stats {
        uint64_t sessions, opened, connected, rejected; /* now; ever */
        uint64_t ended[RDX_END_KINDS];
        uint64_t requests, batches, entries, writes, reads, bytes_written, bytes_read, notices, results;
        uint64_t bytes_copied; /* of those written: into registered memory first */
        /*
         * Send queues of sessions, as their loops see them. busy: something is posted and has not
         * completed. gap: nothing is, though a request has had its first WRITE (READ) and waits for
         * more.
         */
        uint64_t busy_ns, gap_ns;
        uint64_t in_flight, starved;   /* now; how often a loop had work and no room left on its device */
        uint64_t tokens, token_resets; /* requests by a token; initiators made ready again after an error */
        uint64_t declined[RDX_DECLINE_KINDS];
        uint64_t latency[RDX_STAGE_KINDS][RDX_LATENCY_BUCKETS], latency_ns[RDX_STAGE_KINDS];
};
/* Any thread; summed over loops, each number read atomically. */
void rdx_stats_read(const struct rdx_server *server, struct rdx_stats *out);

#endif
