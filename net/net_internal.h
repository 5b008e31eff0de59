/*
 * net_internal.h - what the files of net/ share with one another; nobody else includes it (its
 * tests do).
 *
 *   admission.c     a stranger connects, says HELLO, is judged, and moves to the loop of its link   (inbound)
 *   link.c          one connection to a peer: opened, greeted, kept, opened again                   (outbound)
 *   link_conn.c     frames over one stream, either way, for both
 *   peer_call.c     calls on a link: lanes, deadlines, outcomes
 *   peer_request.c  requests on an inbound connection, and their answers
 *   peer.c          what is known of the other nodes
 *   net.c           life, the tour of all loops, the tick
 *
 * Owner: a struct belongs to one loop where its comment says so; what several threads read is
 * atomic. Everything that must hold on all loops is done by a tour, a message that visits them in
 * order from the first on. So two tours meet all loops in the same order.
 */
#ifndef MILLRACE_NET_INTERNAL_H
#define MILLRACE_NET_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "net.h"
#include "net/wire_frame.h"

#define NET_MS        1000000ull
#define NET_TICK_NS   (100 * NET_MS)
#define NET_BEAT_NS   (1000 * NET_MS) /* a side that has sent nothing for so long sends a beat */
#define NET_IN_BUFFER 16384u
#define NET_DEAF      3u /* an inbound connection is given up after so many times silence_ms: its opener sooner */

struct net_conn;
struct net_loop;

/* ---- counters: written by one loop, read by any ---------------------------------------------- */

enum net_counter {
#define NET_COUNTER_ENUM(name, grows, help) NET_COUNT_##name,
        NET_COUNTERS(NET_COUNTER_ENUM)
#undef NET_COUNTER_ENUM
                NET_COUNTS
};

/* ---- log: net.c ------------------------------------------------------------------------------ */

/* Lines about one thing: at most one a second, and the same one again once a minute. owner: its loop */
struct net_quiet {
        uint64_t said; /* 0: never */
        uint32_t line; /* checksum of that one */
        unsigned left_out;
};

/* ---- tours: net.c ---------------------------------------------------------------------------- */

struct net_tour {
        struct lp_msg msg;
        struct net *net;
        unsigned next;
        void (*visit)(struct net_tour *tour, struct net_loop *at);
        void (*end)(struct net_tour *tour, struct net_loop *last); /* on the last loop, after its visit */
};

/* Any thread. */
void net_tour_begin(struct net *net, struct net_tour *tour);

/* ---- connections: link_conn.c --------------------------------------------------------------------- */

enum net_conn_state {
        NET_CONN_SHAKING,   /* connecting, TLS */
        NET_CONN_GREETING,  /* HELLO is awaited, or its answer */
        NET_CONN_ADMISSION, /* inbound: on its way through the loops; not read from */
        NET_CONN_OPEN,
        NET_CONN_LEAVING, /* REFUSED is being sent; what comes is thrown away */
        NET_CONN_CLOSED
};

enum net_rx { NET_RX_HEAD, NET_RX_ADMIT, NET_RX_BODY, NET_RX_CHOOSE, NET_RX_BULK };

/* What differs between strangers, inbound and outbound connections. 0, -EAGAIN: not now (net_conn_resume()), or why it ends. */
struct net_role {
        int (*shaken)(struct net_conn *conn); /* the handshake is over */
        int (*head)(struct net_conn *conn);   /* conn->head is right: gives conn->body room, if it has a body */
        /* The body is right: gives conn->bulk, or leaves it empty to throw it away. */
        int (*bulk)(struct net_conn *conn);
        int (*frame)(struct net_conn *conn); /* all of it is there and right; the body is the callee's */
        /* After its memory was taken from all frames; inside another one, maybe. */
        void (*closed)(struct net_conn *conn, const char *why);
};
extern const struct net_role net_role_guest, net_role_inbound, net_role_outbound;

/* A call that was given to the connection; without one: it timed out, its credit is out still. */
struct net_entry {
        uint64_t id; /* 0: free */
        struct net_call *call;
        uint32_t cost;
        uint16_t lane;
        uint16_t next_free;
};

/* owner: the loop `at`; nobody's but the message's while it moves */
struct net_conn {
        struct net_loop *at;
        struct net_stream *stream;
        const struct net_role *role;
        struct net_peer *peer; /* NULL: a stranger */
        enum net_link_number link;
        enum net_conn_state state;
        unsigned refs; /* its list, each message on its way, each request */
        struct net_conn *next, *prev;
        uint16_t version;
        uint64_t boot, sequence; /* boot: the peer's */
        char remote[NET_REMOTE_MAX];
        bool has_secret;
        uint8_t secret[NET_SECRET_LEN];
        uint64_t began, heard, said;
        struct lp_msg again, flush;
        bool again_posted, flush_posted, asks_to_send, in_callback;

        /* receiving */
        enum net_rx rx;
        bool stalled;
        uint64_t frame_since; /* 0: no frame is under way */
        struct net_wire_head head;
        uint8_t *body;
        uint32_t body_at, bulk_at, bulk_crc;
        struct iovec bulk[NET_PIECES];
        unsigned bulk_count; /* 0: thrown away */
        unsigned in_at, in_len;

        /* sending */
        struct net_out *out_first, *out_last;
        uint64_t out_at;    /* bytes of the first that were sent */
        uint64_t out_since; /* when its first byte was; or when its call became late */
        struct net_out beat, greeting;
        uint64_t ping;
        uint8_t greeting_bytes[NET_HELLO_MOST];

        union {
                struct { /* outbound */
                        struct net_entry *entries;
                        unsigned entry_count, free_entry, outstanding;
                        uint64_t ids;
                        uint32_t lane_bytes, body_max;
                        struct net_call *receiving; /* whose answer's bulk comes now */
                        uint8_t nonce[16];
                } to;
                struct { /* inbound */
                        unsigned requests;
                        uint64_t bytes; /* of memory of its requests */
                        uint32_t lanes[NET_LANES];
                        struct net_request *request; /* being received */
                        bool asked;                  /* bulk() was called for it */
                        bool short_of_memory;        /* stalled for want of body memory: the tick looks again */
                } from;
        };
        /* being admitted */
        struct net_tour tour;
        unsigned removals; /* of its peer, when it was judged */
        struct net_wire_hello hello;
        uint8_t hello_mac[NET_MAC_LEN];
        uint8_t *hello_body;
        uint32_t hello_len;
        struct net_wire_refused refusal;

        uint8_t in[NET_IN_BUFFER];
};

_Static_assert(NET_WELCOME_SIZE <= NET_HELLO_SIZE && NET_REFUSED_SIZE <= NET_HELLO_SIZE, "greeting_bytes");

/* A connection on this loop; the stream is its. NULL: no memory, and the stream is closed. */
struct net_conn *net_conn_new(struct net_loop *at, struct net_stream *stream, const struct net_role *role);
/* Sends a frame behind those that wait. */
void net_conn_send(struct net_conn *conn, struct net_out *out);
/* Takes a frame back of which nothing was sent. */
void net_conn_unsend(struct net_conn *conn, struct net_out *out);
void net_conn_greet(struct net_conn *conn, size_t len); /* greeting_bytes */
void net_conn_resume(struct net_conn *conn);
/* Ends it, for this reason in the log. Inside its own callbacks, too. */
void net_conn_close(struct net_conn *conn, const char *why);
void net_conn_hold(struct net_conn *conn);
void net_conn_drop(struct net_conn *conn); /* the last one frees it */
/* Off the loop; and onto another one, where it is listed. join: 0, or it was closed. */
void net_conn_leave(struct net_conn *conn);
int net_conn_join(struct net_conn *conn, struct net_loop *at);
void net_conn_tick(struct net_conn *conn, uint64_t now);
/* Fills `head` of a frame, with the CRC of its bulk. */
void net_out_fill(struct net_out *out, struct net_wire_head *head, const void *body, const struct iovec *bulk,
                  unsigned bulk_count, const uint32_t *crc_known);
uint32_t net_pieces_len(const struct iovec *pieces, unsigned count);

/* ---- links: link.c, peer_call.c ------------------------------------------------------------------- */

enum net_link_state {
        NET_LINK_IDLE,    /* not wanted yet */
        NET_LINK_ASKING,  /* for the secret of the control link */
        NET_LINK_OPENING, /* has a connection, which is not open yet */
        NET_LINK_OPEN,
        NET_LINK_RESTING /* until the next attempt */
};

struct net_lane {
        uint32_t bytes;          /* unanswered */
        unsigned calls, waiting; /* unanswered; and not sent yet */
        struct net_call *first, *last;
        struct net_lane *next_active;
        bool active; /* in the list of those with calls that wait */
};

/* owner: the loop of the link */
struct net_link {
        struct net_peer *peer;
        enum net_link_number number;
        enum net_link_state state;
        struct net_conn *conn;
        uint64_t sequence; /* of its connections */
        uint64_t backoff_ns, opened;
        struct net_quiet quiet;
        struct lp_timer rest;
        unsigned waiting;                      /* of all lanes */
        unsigned calls_shared, waiting_shared; /* of them, what is beyond each lane's own */
        struct net_lane lanes[NET_LANES];
        struct net_lane *active_first, *active_last;
        /* the others ask the control link's loop, before each connection */
        struct lp_msg ask;
        struct net_link *asking; /* control: those that wait; each: the next */
        bool ask_out;            /* the message is on its way */
        bool secret_known, same_node; /* what it said of the control connection */
        uint8_t secret[NET_SECRET_LEN];
        uint64_t control_sequence;
        bool plain;     /* the connection that is being opened, or is open */
        bool needs_tls; /* a plain one was refused, though it is within the node */
        struct lp_msg connect;   /* net_peer_connect() */
        atomic_bool connect_out; /* it is on its way */
};

void net_link_init(struct net_link *link, struct net_peer *peer, enum net_link_number number);
void net_link_open(struct net_link *link);                      /* where it is idle */
void net_link_connect(struct net_link *link);                   /* any thread: where it is idle or rests, soon */
void net_link_end(struct net_link *link, const char *why);      /* for good, until it is wanted again */
void net_link_newer_boot(struct net_link *link, uint64_t boot); /* ends a connection to an older process */
void net_calls_submit(struct net_link *link, struct net_call *call);
void net_calls_pump(struct net_link *link);
/* All that wait in lanes end so. */
void net_calls_fail(struct net_link *link, int status);
/* The connection is gone. */
void net_calls_lost(struct net_link *link, struct net_conn *conn);
int net_calls_reply_head(struct net_conn *conn);
int net_calls_reply_bulk(struct net_conn *conn);
int net_calls_reply(struct net_conn *conn);
bool net_call_is_late(const struct net_out *out);

/* ---- peers: peer.c --------------------------------------------------------------------------- */

/* What one loop knows of a peer. owner: that loop */
struct net_part {
        const struct net_peer_options *known; /* NULL: removed */
        uint64_t boot;                        /* the highest of its connections */
        unsigned removals;                    /* so often it was removed */
        struct net_quiet quiet;
};

/* owner of an inbound link: the loop of the link */
struct net_inbound {
        struct net_conn *conn;
        uint64_t seen; /* the highest sequence of part->boot's connections */
        struct net_quiet quiet;
};

struct net_peer {
        struct net *net;
        uint16_t node;
        struct net_part *parts; /* by loop */
        struct net_link links[NET_LINKS];
        struct net_inbound inbound[NET_LINKS];
        /* any thread reads */
        _Atomic uint64_t heard, round_trip, boot, features;
        _Atomic unsigned open, opened_by_it, refused, secrets; /* secrets: enum net_secrets_verdict */
        _Atomic int64_t clock_ahead_ms; /* INT64_MIN: not known */
};

struct net_loop *net_owner(const struct net_peer *peer, enum net_link_number link);
static inline void net_peer_raise_boot(struct net_peer *peer, uint64_t boot)
{
        uint64_t old = atomic_load(&peer->boot);

        while (old < boot && !atomic_compare_exchange_weak(&peer->boot, &old, boot))
                ;
}
struct net_part *net_part_of(const struct net_peer *peer, const struct net_loop *at);
const char *net_link_name(enum net_link_number link);

/* ---- the whole: net.c ------------------------------------------------------------------------ */

/* owner: its loop */
struct net_loop {
        struct net *net;
        struct lp_loop *lp;
        unsigned index;
        bool stopped;
        struct lp_timer tick;
        struct net_conn *conns; /* all that are on this loop */
        struct net_quiet strangers;
        uint8_t *scratch; /* NET_SCRATCH: what is thrown away goes there */
        _Atomic uint64_t counts[NET_COUNTS];
};
#define NET_SCRATCH 65536u

struct net {
        struct net_options options; /* with all limits filled in; does not change */
        struct net_self self;
        pthread_mutex_t secrets_lock;
        struct net_secrets secrets; /* under its lock */
        struct net_loop *loops;
        struct net_listener listener; /* the first loop's */
        bool listening;
        void (*listening_done)(void *arg, int result, const char *address);
        void *listening_arg;
        struct net_tour start_tour, stop_tour;
        struct lp_timer stop_poll;
        void (*stopped)(void *arg);
        void *stopped_arg;
        _Atomic uint64_t body_used, alive; /* alive: connections that are not freed, calls and requests not answered */
        _Atomic unsigned guests;
        _Atomic unsigned peer_count;
        struct net_peer *_Atomic peers[NET_PEERS_MAX];
};

/* A copy. Any thread. */
void net_secrets_read(struct net *net, struct net_secrets *out);

static inline void net_count(struct net_loop *at, enum net_counter counter, int64_t n)
{
        _Atomic uint64_t *count = &at->counts[counter];

        atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + (uint64_t)n,
                              memory_order_relaxed);
}
/* quiet NULL: always. */
void net_log(struct net_loop *at, struct net_quiet *quiet, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* admission.c */
void net_accepted(struct net_listener *listener, struct net_stream *stream);
/* The connection of an inbound link has ended; and all of a peer's here. */
void net_inbound_closed(struct net_conn *conn);
void net_inbound_end(struct net_peer *peer, struct net_loop *at, const char *why);

/* peer_request.c */
int net_serve_head(struct net_conn *conn);
int net_serve_bulk(struct net_conn *conn);
int net_serve_frame(struct net_conn *conn);
void net_serve_closed(struct net_conn *conn);

#endif
