/*
 * rdma_internal.h - the server's side of rdma/: what its files share. Nobody else includes it.
 *
 *   server ── endpoint[]: device, domain, listener, channel          set up before the loops run; read by all
 *      │  └── record[]: who may connect, under server->lock           registry.c
 *      └── home[] (one a loop) ── slot[]: a session                   owner: that loop
 *
 *   jobs of a session wait in one line, in the order they were given ─> its turn among the sessions of its device ─> ring of what is posted ─> over
 *
 * A session goes LIVE ─> FAILING (something went wrong; nothing more is posted) ─> DRAINING (pair in the error state; what is posted comes back flushed) ─> CLOSED
 * (the pair is gone: no buffer is the device's) ─> its slot is free when no batch refers to it. Whatever ends a session goes by rdx_registry_end().
 */
#ifndef RDX_RDMA_INTERNAL_H
#define RDX_RDMA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "rdma.h"

#define RDX_NS_PER_MS    1000000ull
#define RDX_PAIR_SENDS   64u                  /* work requests posted on a pair at a time; a power of two */
#define RDX_RING_MOST    (RDX_PAIR_SENDS - 1) /* of them by jobs: one is left for the marker */
#define RDX_TURN_JOBS    8u                   /* posted at one turn of a session, of which the last is signalled */
#define RDX_TURN_BYTES   (1u << 20)
#define RDX_MESSAGES_MAX 64u
#define RDX_DRAIN_NS     (2000 * RDX_NS_PER_MS) /* flushed completions that have not come by then never will */
/*
 * A right client asks behind its last word of the connection, which comes another way and may be
 * slower than the request.
 */
#define RDX_ESTABLISH_NS (1000 * RDX_NS_PER_MS)
#define RDX_TICK_NS      (250 * RDX_NS_PER_MS)

enum rdx_job_kind { RDX_JOB_WRITE, RDX_JOB_NOTICE, RDX_JOB_RESULT };

/* ---- registry: owner: server->lock ----------------------------------------------------------- */

enum rdx_record_state {
        RDX_RECORD_FREE,
        RDX_RECORD_OPEN,  /* nobody has connected */
        RDX_RECORD_TAKEN, /* a queue pair connects, or has: never again */
};

struct rdx_record {
        enum rdx_record_state state;
        bool ended; /* nobody finds it; the message is posted, or it was never taken */
        enum rdx_end end;
        uint16_t generation;
        unsigned home, endpoint;
        enum rdx_rights rights;
        uint8_t id[RDX_ID_LEN];
        struct rdx_keys keys;
        char owner[RDX_OWNER_MAX + 1];
        uint64_t expires, connect_by; /* lp_now() scale */
        struct rdx_server *server;
        /* handed to the session's loop with the message */
        struct lp_msg connect_msg, end_msg;
        struct rdx_arrival *arrival;
        struct rdx_party peer;
        bool connected;
        atomic_bool established; /* the client has said so; set on loop 0 */
        /* owner: the session's loop */
        struct rdx_session *session;
};

/* ---- one session: owner: its loop ------------------------------------------------------------ */

enum rdx_session_state { RDX_SLOT_FREE, RDX_LIVE, RDX_FAILING, RDX_DRAINING, RDX_CLOSED };

struct rdx_posted {
        struct rdx_job *job;
        uint64_t at;
};

/* A RESULT message on its way. */
struct rdx_send_buffer {
        struct rdx_job job;
        struct rdx_batch *batch;
        uint8_t *data;
        uint32_t len;
        bool last;
        struct rdx_send_buffer *next;
};

struct rdx_session {
        struct rdx_home *home;
        struct rdx_record *record;
        enum rdx_session_state state;
        uint16_t index, generation; /* of the slot; in every tag */
        unsigned endpoint;
        enum rdx_rights rights;
        struct rdx_pair *pair;
        struct rdx_numbers numbers;
        struct rdx_job *first, **last; /* the line */
        bool in_turn;
        struct rdx_session *next_turn;
        struct rdx_posted ring[RDX_PAIR_SENDS];
        uint32_t posted, over; /* counts; their difference is in the ring */
        uint64_t progress;     /* when something last completed, or the ring began to fill */
        uint64_t turned;       /* lp_clock(): when the ring was last filled, or emptied */
        uint64_t drain_by;
        struct rdx_flow *flows;
        bool established;            /* before that nothing is posted */
        struct rdx_request *waiting; /* for that; they count as requests */
        unsigned requests;
        struct rdx_batch *batches; /* in order of arrival */
        struct rdx_send_buffer *idle;
        /* the slot's own, kept from session to session */
        uint8_t *memory;
        struct rdx_region *region[RDX_ENDPOINTS_MAX];
        struct rdx_send_buffer buffer[RDX_MESSAGES_MAX];
};

/* ---- a loop's part --------------------------------------------------------------------------- */

struct rdx_counters {
        _Atomic uint64_t requests, batches, entries, writes, reads, bytes_written, bytes_read, notices, results,
                in_flight, starved, connected, tokens, token_resets, bytes_copied, busy_ns, gap_ns;
        _Atomic uint64_t declined[RDX_DECLINE_KINDS];
        _Atomic uint64_t latency[RDX_STAGE_KINDS][RDX_LATENCY_BUCKETS], latency_ns[RDX_STAGE_KINDS];
};

struct rdx_home;

/* A device as one loop uses it. */
struct rdx_connection {
        struct lp_watch watch;
        struct rdx_home *home;
        unsigned endpoint;
        struct rdx_queue *queue;
        unsigned in_flight;
        struct rdx_session *first, **last; /* whose turn it is */
        struct rdx_dialer *dialer;         /* of requests by a token; NULL: none */
        bool dialer_next;                  /* it has the next turn */
};

struct rdx_home {
        struct rdx_server *server;
        struct lp_loop *loop;
        unsigned index;
        unsigned share; /* work requests in flight per device */
        struct rdx_connection connection[RDX_ENDPOINTS_MAX];
        struct rdx_session *slot; /* slot_count of them */
        unsigned slot_count;
        struct lp_timer timer;
        struct lp_hook hook; /* posts what the round brought */
        struct lp_msg established_msg; /* some of its sessions are established */
        atomic_bool established_sent;
        struct rdx_counters counters;
};

struct rdx_endpoint {
        struct rdx_server *server;
        struct rdx_device *device;
        struct rdx_domain *domain;
        struct rdx_channel *channel;
        struct rdx_listener *listener;
        struct lp_watch watch; /* of the channel, on loop 0 */
        char address[64];
        uint16_t port;
        struct rdx_device_info info;
        _Atomic bool gone;
        struct rdx_region *region[RDX_ARENAS_MAX];
};

struct rdx_arena {
        char *base;
        size_t len;
};

struct rdx_server {
        const struct rdx_transport *transport;
        bool tokens;
        uint64_t token_key;
        struct rdx_asker *asker; /* a thread that finds ways, where that may block; NULL: none */
        struct rdx_limits limits;
        void (*batch)(void *arg, struct rdx_batch *batch);
        void *arg;
        uint8_t boot[RDX_BOOT_LEN];
        struct rdx_endpoint endpoint[RDX_ENDPOINTS_MAX];
        unsigned endpoint_count;
        struct rdx_arena arena[RDX_ARENAS_MAX];
        unsigned arena_count;
        struct rdx_home *home;
        unsigned home_count;
        _Atomic bool stopped;
        pthread_mutex_t lock; /* held for a look through records, never across a call that may wait */
        struct rdx_record *record;
        unsigned record_count;
        unsigned next_endpoint;
        uint64_t sessions, opened, rejected, ended[RDX_END_KINDS]; /* under the lock */
};

/* Whether this is the thread that owns the sessions of home. */
static inline bool rdx_on_loop(const struct rdx_home *home)
{
        return lp_self() == home->loop;
}

static inline void rdx_count(_Atomic uint64_t *counter, uint64_t by)
{
        atomic_fetch_add_explicit(counter, by, memory_order_relaxed);
}

/* registry.c */
int rdx_registry_new(struct rdx_server *server);
void rdx_registry_free(struct rdx_server *server);
/*
 * A queue pair wants to connect: hands the arrival to the session's loop, or answers why not. On
 * loop 0.
 */
int rdx_registry_take(struct rdx_server *server, unsigned endpoint, const struct rdx_event *event);
/* Once: marks it, and tells its loop. */
void rdx_registry_end(struct rdx_record *record, enum rdx_end end);
/* By what the transport knows of it; harmless when that session is over. */
void rdx_registry_down(struct rdx_server *server, uintptr_t handle, enum rdx_end end);
/* The client says that its pair is connected: tells the session's loop. */
void rdx_registry_established(struct rdx_server *server, uintptr_t handle);
void rdx_registry_device_gone(struct rdx_server *server, unsigned endpoint);
void rdx_registry_stop(struct rdx_server *server);
uintptr_t rdx_registry_handle(const struct rdx_record *record);
/* The session's loop has nothing of it any more. */
void rdx_registry_release(struct rdx_record *record);
/* Those of a loop that have expired, or were not connected in time. */
void rdx_registry_expire(struct rdx_home *home, uint64_t now);
/* Which loop; -ENOENT. */
int rdx_registry_home(struct rdx_server *server, const uint8_t id[RDX_ID_LEN], unsigned *home);
void rdx_registry_connected(struct rdx_record *record);

/* session.c */
void rdx_session_connect(struct lp_msg *msg); /* record's connect_msg */
void rdx_session_over(struct lp_msg *msg);    /* record's end_msg */
/* From here on nothing is posted; the rest follows by message. */
void rdx_session_fail(struct rdx_session *session, enum rdx_end end);
/* If nothing of it is posted, or never will come back: closes the pair. */
void rdx_session_check(struct rdx_session *session, bool now);
void rdx_session_established(struct rdx_session *session);
void rdx_home_established(struct lp_msg *msg); /* home's established_msg */
void rdx_home_tick(struct lp_timer *timer);
void rdx_home_stop(struct rdx_home *home);
uint8_t *rdx_session_receive_buffer(const struct rdx_session *session, unsigned i);
uint8_t *rdx_session_notice_buffer(const struct rdx_session *session, uint32_t seq);
int rdx_session_post_receive(struct rdx_session *session, unsigned i);

/* transfer_engine.c */
void rdx_job_over(struct rdx_job *job, int result);
struct rdx_write *rdx_write_of(struct rdx_job *job);
void rdx_in_flight(struct rdx_connection *connection, int by);
/* What WRITE or READ this is: everything but the tag, and for a target the way there. */
void rdx_make_write(struct rdx_home *home, unsigned endpoint, struct rdx_job *job, struct rdx_work *work);
/* -1: not registered. */
int rdx_arena_of(const struct rdx_server *server, const void *buf, size_t len);
void rdx_job_give(struct rdx_session *session, struct rdx_job *job);
/* What of the flow is not posted leaves the line. */
void rdx_jobs_drop(struct rdx_session *session, const struct rdx_flow *flow, int result);
/* The same of any line of jobs: those of the flow, or all, are over with that result. */
void rdx_line_drop(struct rdx_job **first, struct rdx_job ***last, const struct rdx_flow *flow, int result);
/* All that is in the ring, with this result: when its device is gone for certain. */
void rdx_ring_drop(struct rdx_session *session, int result);
void rdx_post_marker(struct rdx_session *session);
void rdx_pump(struct rdx_connection *connection);
void rdx_connection_poll(struct rdx_connection *connection);
void rdx_latency(struct rdx_home *home, enum rdx_stage stage, uint64_t since);

/* server_request.c */
/*
 * Those that wait for their session to be established: all go on, or end with result; or those
 * alone that have waited too long.
 */
void rdx_requests_go(struct rdx_session *session, int result);
void rdx_requests_give_up(struct rdx_session *session, uint64_t now);
void rdx_request_begun(struct rdx_request *request, int result);
void rdx_request_job_over(struct rdx_request *request, int result);
void rdx_write_over(struct rdx_write *write, int result);
void rdx_flow_lost(struct rdx_flow *flow);
void rdx_flow_join(struct rdx_session *session, struct rdx_flow *flow);
void rdx_flow_leave(struct rdx_flow *flow);

/* server_batch.c */
void rdx_batch_arrived(struct rdx_session *session, unsigned buffer, uint32_t len);
void rdx_batch_write_over(struct rdx_write *write);
void rdx_result_over(struct rdx_send_buffer *buffer, int result);
void rdx_batches_lost(struct rdx_session *session);
void rdx_batches_emit(struct rdx_session *session);

#endif
