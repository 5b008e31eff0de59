/*
 * net.h - links between the nodes of a cluster: calls with a reply, over connections that are
 * opened when they are needed, and what is known of the other nodes. docs/cluster-wire.md has the
 * bytes and the reasons.
 *
 * A node opens connections to a peer for its own calls: one for control, one for the log, two for
 * bulk. Replies come back on the connection of the call; calls of the peer come on connections that
 * the peer opened. Each connection belongs to one loop of the process, by node and link.
 *
 * Unless a function says "any thread", it is called on a loop that was given to net_new().
 * Errors are negative errno values.
 */
#ifndef MILLRACE_NET_H
#define MILLRACE_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "loop.h"
#include "net_transport.h"

#define NET_CLUSTER_LEN 16u
#define NET_TRACE_LEN   16u
#define NET_NAME_MAX    256u /* with the final 0 */
#define NET_ADDRESS_MAX 280u
#define NET_PEERS_MAX   1024u /* nodes that a process meets in its life: their numbers are not used again */
#define NET_LANES       256u
#define NET_PIECES      8u
#define NET_BODY_MAX    (64u << 10)
#define NET_BULK_MAX    (2u << 20)

struct net;
struct net_peer;

/* The connections to a peer. */
enum net_link_number { NET_CONTROL, NET_LOG, NET_BULK_0, NET_BULK_1, NET_LINKS };

/* Why a connection was refused: name, and its line with what of the refusal's two numbers belongs to it. */
#define NET_REASONS(X)                                                                                                 \
        X(NONE, "nothing")                                                                                             \
        X(UNKNOWN_NODE, "node %llu is not known", theirs)                                                              \
        X(CERTIFICATE, "the certificate is not for the name of node %llu", theirs)                                     \
        X(CLUSTER, "it belongs to another cluster")                                                                    \
        X(GENERATION, "it has generation %llu of the cluster's state, and the other end %llu", theirs, ours)           \
        X(WRONG_NODE, "node %llu was asked for, and this is node %llu", theirs, ours)                                  \
        X(DUPLICATE, "the node runs twice, or an old process of it still runs: its boot %llu is older than boot %llu", \
          theirs, ours)                                                                                                \
        X(CLOCK, "the clocks differ by %llu s; %llu s are allowed", theirs, ours)                                      \
        X(VERSION, "its %s version of the protocol is %llu; the %s that the other end speaks is %llu",                 \
          theirs < ours ? "newest" : "oldest", theirs, theirs < ours ? "oldest" : "newest", ours)                      \
        X(SECRET, "a plain connection has no proof of an authenticated control connection")                            \
        X(PLAIN, "only TLS is allowed here")                                                                           \
        X(OLDER, "connection %llu is older than connection %llu", theirs, ours)                                        \
        X(KEYS, "one end's key_file lacks the key that the other end seals with")

enum net_reason {
#define NET_REASON_ENUM(name, ...) NET_REASON_##name,
        NET_REASONS(NET_REASON_ENUM)
#undef NET_REASON_ENUM
                NET_REASONS_END
};

/* ---- secrets that all nodes share ------------------------------------------------------------ */

#define NET_SECRETS_MAX 16u
#define NET_DIGEST_LEN  8u

/*
 * Digests of the secrets that all nodes of a cluster must have alike: of each key, the first being the one
 * that seals, and of the root credentials by each key. They go into HELLO over TLS, and nowhere else.
 */
struct net_secrets {
        uint32_t count, zero; /* keys; 0: nothing is compared */
        uint8_t key[NET_SECRETS_MAX][NET_DIGEST_LEN], root[NET_SECRETS_MAX][NET_DIGEST_LEN];
};

/* What a peer's secrets are to ours. */
enum net_secrets_verdict {
        NET_SECRETS_UNKNOWN,      /* either end has none to compare, or nothing was compared yet */
        NET_SECRETS_SAME,
        NET_SECRETS_FIRST_DIFFERS, /* they seal with different keys, and each end has the other's */
        NET_SECRETS_ROOT_DIFFERS,  /* the root credentials are not the same */
        NET_SECRETS_APART          /* one end cannot open what the other seals: such a peer is refused */
};
/* Any thread; nothing is kept. */
enum net_secrets_verdict net_secrets_compare(const struct net_secrets *ours, const struct net_secrets *theirs);

/* ---- requests of others ---------------------------------------------------------------------- */

/* What becomes of a request's bulk. */
enum net_bulk {
        NET_BULK_TAKE,   /* bulk[] and bulk_count say where it goes */
        NET_BULK_WAIT,   /* the connection is not read from until net_request_resume() */
        NET_BULK_DISCARD /* it is read and thrown away: request() follows with discarded set */
};

struct net_answer {
        int32_t status;
        const void *body; /* at most NET_BODY_MAX */
        uint32_t body_len;
        struct iovec bulk[NET_PIECES]; /* its lengths together at most the request's room */
        unsigned bulk_count;
        /* bulk_crc is the CRC32C of all of bulk, as it is in memory now: a wrong one ends the connection at the other end. */
        bool crc_known;
        uint32_t bulk_crc;
};

/* A frame that waits to be sent. Private. */
struct net_out {
        struct net_out *next, *prev;
        uint8_t head[72];
        const void *body;
        const struct iovec *bulk;
        uint32_t body_len, bulk_len;
        unsigned bulk_count;
        bool queued, begun;
        void (*gone)(struct net_out *out, bool sent); /* its memory is not needed any more */
};

/* owner: the loop of its connection, on which all its functions are called */
struct net_request {
        struct net_peer *peer;
        enum net_link_number link;
        uint64_t boot; /* of the peer */
        uint32_t operation, tenant;
        uint8_t class;
        uint16_t lane;
        uint8_t trace[NET_TRACE_LEN];
        uint64_t deadline; /* lp_now() scale; 0: none */
        const uint8_t *body;
        uint32_t body_len, bulk_len, room;
        bool discarded;
        /* the handler's */
        struct iovec bulk[NET_PIECES]; /* set by bulk() when it says TAKE; lengths together bulk_len */
        unsigned bulk_count;
        void *user;
        /* May be set until net_reply(): the answer's memory is free again. */
        void (*answered)(struct net_request *request);
        /* private */
        struct net_conn *conn;
        uint64_t id;
        uint32_t cost;
        struct net_answer answer;
        struct net_out out;
        struct lp_msg msg;
};

/*
 * How requests are served, on the loop of their connection. After bulk() exactly one of request()
 * and lost() follows for a request.
 */
struct net_handler {
        /* A request with bulk has come, and its body is there: where is the bulk to go? May be asked again after NET_BULK_WAIT. */
        enum net_bulk (*bulk)(void *arg, struct net_request *request);
        /* All of it is there, and its checksums are right. It is answered once, by net_reply(), at any time. */
        void (*request)(void *arg, struct net_request *request);
        /* The connection ended, or its bytes were wrong, before the bulk was there: its memory is the handler's again. */
        void (*lost)(void *arg, struct net_request *request);
};

/* bulk() had said NET_BULK_WAIT: it is asked again. */
void net_request_resume(struct net_request *request);
/*
 * Answers. What the answer points to stays as it is until request->answered(), which is the last
 * that is heard of the request; it is never called inside net_reply(). Without answered() it must be
 * memory that stays. If the connection is gone, the answer is dropped.
 */
void net_reply(struct net_request *request, const struct net_answer *answer);

/* ---- life ------------------------------------------------------------------------------------ */

struct net_generation {
        uint64_t number, random;
};

/* Limits; 0 anywhere: the default in brackets. */
struct net_limits {
        unsigned guests;            /* connections that have not shown who they are [64] */
        unsigned guests_of_address; /* of them from one address [16] */
        unsigned requests;          /* unanswered on one connection; half are the lanes' own, in equal parts [1024] */
        unsigned calls;             /* that wait for one link, beyond those on their way; half are the lanes' own [2^20] */
        uint32_t lane_bytes;        /* unanswered on one lane of a connection: bodies, bulk and room [8 MiB] */
        uint64_t body_bytes;        /* for bodies of requests; of a connection as much as is free, and always one [256 MiB] */
        unsigned handshake_ms;      /* from connecting to WELCOME [5,000] */
        unsigned frame_ms;          /* from a frame's first byte to its last, either way [10,000] */
        unsigned silence_ms;        /* nothing is heard: the connection is lost [5,000] */
        unsigned clock_s;           /* that wall clocks may differ by [300] */
        unsigned backoff_ms;        /* the longest rest between two attempts; the first is 1/64 of it [4,096] */
};

struct net_options {
        uint8_t cluster[NET_CLUSTER_LEN];
        struct net_generation generation;
        uint16_t node;
        char name[NET_NAME_MAX]; /* the name in its certificate. A peer that uses this node's number is told that the node runs twice if its certificate has this name; "": never */
        uint64_t boot;
        struct lp_loop *const *loops; /* all stay until net_free() */
        unsigned loop_count;
        struct net_transport *transport;
        bool plain_bulk; /* cluster_tls = control: bulk connections are plain TCP, ours and those that are accepted */
        char listen[NET_ADDRESS_MAX]; /* "HOST:PORT", on the first loop; "": nobody can connect */
        struct net_handler handler;
        void *handler_arg;
        void (*log)(void *arg, const char *line); /* any loop; NULL: no lines */
        void *log_arg;
        struct net_limits limits;
        struct net_secrets secrets;
};

/* Any thread. The loops may run already. -ENOMEM, -EINVAL. */
int net_new(const struct net_options *options, struct net **out);
/*
 * Any thread, once. Begins to listen. listening(), on the first loop, tells how that went: 0 or a negative errno, and the
 * address with its port. NULL is allowed.
 */
void net_start(struct net *net, void (*listening)(void *arg, int result, const char *address), void *arg);
/*
 * Any thread, once. Nothing is listened to any more, all connections end, and all calls are answered, then and later
 * (unreachable or unknown). stopped() is called on the first loop when every request was answered with net_reply(): then, and when the last
 * done() has returned, net_free() is allowed.
 */
void net_stop(struct net *net, void (*stopped)(void *arg), void *arg);
/* Any thread. Secrets that connections are judged by which come from now on; those that are open stay. */
void net_secrets_set(struct net *net, const struct net_secrets *secrets);
/* Any thread; after stopped(), or when nothing was called since net_new(). NULL is allowed. */
void net_free(struct net *net);

/* ---- peers ----------------------------------------------------------------------------------- */

struct net_peer_options {
        uint16_t node;
        char name[NET_NAME_MAX];       /* that its certificate must be for */
        char address[NET_ADDRESS_MAX]; /* "192.0.2.7:7000", "[2001:db8::7]:7000": names are for the caller to resolve */
};

/*
 * Any thread, one at a time. Makes a peer known, or changes what is known; connections stay. The
 * pointer stays good until net_free(). -EINVAL: this node itself, a text is empty or too long, or the
 * name begins with a dot.
 * -ENOSPC: NET_PEERS_MAX. -ENOMEM.
 */
int net_peer_set(struct net *net, const struct net_peer_options *options, struct net_peer **out);
/* Any thread, one at a time. Its connections end, and it is refused until it is set again. -ENOMEM. */
int net_peer_remove(struct net_peer *peer);
/*
 * Any thread, before net_stop(). Opens the connections to it for control and log, and all that rest after a failure, as the first
 * calls would when the rests are over: it is known to be there now.
 */
void net_peer_connect(struct net_peer *peer);
/* Any thread. NULL: never set. */
struct net_peer *net_peer_find(struct net *net, uint16_t node);
uint16_t net_peer_node(const struct net_peer *peer);

struct net_peer_state {
        bool up;                     /* something was heard of it within silence_ms, on a connection that is open */
        uint64_t heard;              /* lp_clock() scale; 0: never */
        uint64_t round_trip_ns;      /* of the last ping; 0: none yet */
        uint64_t boot;               /* the highest that it has shown; 0: none */
        uint64_t features;           /* it said it knows */
        unsigned open, opened_by_it; /* connections */
        enum net_reason refused;     /* why it last refused us, since a connection to it was last open */
        enum net_secrets_verdict secrets; /* as of the last connection that it opened */
        int64_t clock_ahead_ms;      /* its clock, as it said when it last connected, and the way here; INT64_MIN: it has not yet */
};
/* Any thread; each number by itself. */
void net_peer_state_read(const struct net_peer *peer, struct net_peer_state *out);
/* The same, of its `heard` alone: when bytes of it came last, on whichever connection. */
uint64_t net_peer_heard(const struct net_peer *peer);

/* ---- calls ----------------------------------------------------------------------------------- */

enum net_outcome {
        NET_ANSWERED,    /* status, answer, answer_len, bulk_len are the peer's */
        NET_UNREACHABLE, /* no byte of it was sent. status: -EBUSY: too many calls wait; else -ENOTCONN */
        NET_UNKNOWN,     /* it was sent, at least in part, and the connection ended */
        NET_TIMED_OUT,   /* the deadline came first. `sent` tells whether a byte was sent */
        NET_OUTCOMES
};

/* Zero it, fill in the first part. All it points to stays as it is until done(). */
struct net_call {
        struct net_peer *peer;
        enum net_link_number link;
        uint32_t operation, tenant;
        uint8_t class;
        uint16_t lane; /* below NET_LANES: what is slow by itself at the peer, such as one drive */
        uint8_t trace[NET_TRACE_LEN];
        uint64_t deadline; /* lp_now() scale; 0: none */
        const void *body;
        uint32_t body_len;
        struct iovec bulk[NET_PIECES];
        unsigned bulk_count;
        bool crc_known; /* bulk_crc is the CRC32C of all of bulk, as above: it is not computed again */
        uint32_t bulk_crc;
        struct iovec room[NET_PIECES]; /* where bulk of the answer goes */
        unsigned room_count;
        void (*done)(struct net_call *call); /* once, on the loop that called, never inside net_call() */

        /* the answer */
        enum net_outcome outcome;
        bool sent;
        int32_t status;
        const uint8_t *answer;            /* until done() returns */
        uint32_t answer_len, answer_bulk; /* answer_bulk: bytes in room, whose CRC32C is answer_crc and was right */
        uint32_t answer_crc;
        uint64_t boot; /* of the peer that answered */

        /* private */
        struct lp_loop *home;
        struct lp_msg msg;
        struct lp_timer timer;
        struct net_call *next, *prev;
        struct net_out out;
        uint8_t *answer_memory;
        uint32_t bulk_len, room_len, cost;
        unsigned state, entry;
};

/*
 * Any loop, one of those of net_new() or not. Sends a request to a peer, and opens the link for it if that is closed. While a link rests after
 * a failure its calls are unreachable at once. A call whose deadline comes while it is half sent,
 * or its answer is half there, ends when that has ended, frame_ms later at most. Late answers are dropped.
 */
void net_call(struct net_call *call);

/* ---- counters -------------------------------------------------------------------------------- */

/* Name, whether it only grows, help: rows for the table of metrics. */
#define NET_COUNTERS(X)                                                                                                \
        X(opened, true, "Connections to peers that were opened.")                                                      \
        X(accepted, true, "Connections of peers that were accepted, after they had shown who they are.")               \
        X(lost, true, "Connections that ended, on either side.")                                                       \
        X(failed, true, "Attempts to open a connection that failed.")                                                  \
        X(refused, true, "Connections of others that were refused, or did not show who they are.")                     \
        X(bad_frames, true, "Frames that were wrong; each ended its connection.")                                      \
        X(frames_in, true, "Frames received.")                                                                         \
        X(frames_out, true, "Frames sent.")                                                                            \
        X(bytes_in, true, "Bytes received from peers.")                                                                \
        X(bytes_out, true, "Bytes sent to peers.")                                                                     \
        X(requests, true, "Requests of peers.")                                                                        \
        X(waits, true, "Times that a connection was not read from for want of memory.")                                \
        X(late, true, "Answers that came after their call had timed out.")                                             \
        X(answered, true, "Calls that were answered.")                                                                 \
        X(unreachable, true, "Calls of which nothing was sent.")                                                       \
        X(unknown, true, "Calls whose connection ended before an answer.")                                             \
        X(timed_out, true, "Calls whose deadline came first.")                                                         \
        X(guests, false, "Connections that have not shown who they are yet.")                                          \
        X(calls_out, false, "Calls that are not answered yet.")                                                        \
        X(requests_in, false, "Requests of peers that are not answered yet.")                                          \
        X(body_memory, false, "Bytes of bodies of requests in memory.")

struct net_stats {
#define NET_COUNTER_FIELD(name, grows, help) uint64_t name;
        NET_COUNTERS(NET_COUNTER_FIELD)
#undef NET_COUNTER_FIELD
};
/* Any thread; each number by itself. */
void net_stats_read(const struct net *net, struct net_stats *out);

#endif
