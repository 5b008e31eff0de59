/*
 * remote_drive.h - what the files of remote drives share with one another; nobody else includes it
 * (its tests do).
 *
 *   remote_open.c    clients, paths, the question of an opening
 *   remote_drive.c   struct eng_drive_ops: submitting, closing, what the engine asks beside operations
 *   remote_call.c    one operation on its way: sent, sent again, answered
 *   remote_watch.c   WATCH: statistics, superseded values, failure
 *   remote_term.c    OPEN, PING, RELEASE, STATE: what leaders and candidates ask; who is deposed
 *   near_drive.c     a drive of the own process: without a connection
 */
#ifndef MILLRACE_REMOTE_REMOTE_DRIVE_H
#define MILLRACE_REMOTE_REMOTE_DRIVE_H

#include <bsd/sys/queue.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "remote/remote_wire.h"

#define REM_BUSY_NS      (2ull * 1000 * 1000) /* before the first time that it is sent again; doubles ... */
#define REM_BUSY_DOUBLE  5u                   /* ... so many times */
#define REM_BUSY_MOST    (10ull * 1000 * 1000 * 1000)
#define REM_PIECES_AGAIN 4u /* beginnings of an answer that changes from piece to piece */
#define REM_ROOM_MOST    NET_BULK_MAX
#define REM_LANES        (NET_LANES / 2u)
#define REM_ASKED_MOST                                                                                                 \
        1000u /* questions under way to a drive: with the others less than a lane of its own may have wait (net.h), so a COMMIT can */
#define REM_OTHERS_MOST 500u        /* operations of other kinds, but COMMIT; more wait here */
#define REM_MUTE_NS      (200ull * 1000 * 1000) /* without any answer: others are asked instead */
#define REM_MUTE_LOOK_NS (50ull * 1000 * 1000)
#define REM_ASKED_BYTES (64u << 20) /* that their answers may have */

enum rem_counter {
#define REM_COUNTER_ENUM(name, help) REM_COUNT_##name,
        REM_COUNTERS(REM_COUNTER_ENUM)
#undef REM_COUNTER_ENUM
                REM_COUNTS
};

struct rem_client {
        struct net *net;
        struct lp_loop *loop;
        uint64_t wait_ns;
        struct rem_client_options options; /* constant */
        const struct eng_drive_opener *opener;
        atomic_bool deposed; /* its owner was told */
        pthread_mutex_t lock;
        LIST_HEAD(, remote_drive) drives; /* under lock */
        /* any thread */
        _Atomic uint64_t counts[REM_COUNTS];
};

/* Where a drive is. */
struct rem_place {
        uint16_t node, slot;
        uint32_t pool;
};
/* The lanes that are its own where no other pool's drive on the node has them. */
static inline unsigned rem_place_lane(const struct rem_place *place)
{
        return (place->pool * ENG_DRIVES_MAX + place->slot) % REM_LANES;
}
/* "remote:NODE/POOL/SLOT". */
bool rem_place_read(const char *path, struct rem_place *out);

/* The question of an opening. Zero it, fill the first part; on client->loop. */
struct rem_opening {
        struct rem_client *client;
        struct rem_place place;
        uint8_t drive_id[FMT_ID]; /* zeroes: any */
        bool begin;
        uint64_t session, features;
        void (*done)(struct rem_opening *opening); /* once, there; never inside rem_opening_ask() */
        /* the answer: 0; -EAGAIN: it does not answer, or has no memory; -ENODEV: the drive is not there; -EPROTONOSUPPORT; -EACCES; -EBADMSG;
           -ESTALE: it serves a newer leader; -EAGAIN: or has to be OPENed anew */
        int rv;
        struct rem_facts facts;
        struct rem_prefix prefix;
        /* private */
        struct net_call call;
        uint8_t body[sizeof(struct rem_head) + sizeof(uint64_t)];
        struct lp_msg msg;
        sem_t ended;
};
void rem_opening_ask(struct rem_opening *opening);
/* Any thread. The number of a session: above all that this process, of whatever client, has given before. */
uint64_t remote_session_new(struct rem_client *client);

/* One operation on its way. owner: the owner loop of its drive */
struct remote_call {
        struct net_call call; /* first */
        struct remote_drive *drive;
        struct eng_op *op; /* NULL: it was answered, and the call goes on for itself */
        LIST_ENTRY(remote_call) link;
        struct lp_timer again;
        uint64_t until;                       /* lp_now(): it is sent again; 0: it never was */
        unsigned tries, afresh;               /* afresh: beginnings of an answer in pieces */
        uint64_t session, begun, incarnation; /* of the drive when it was sent */
        bool begins;
        struct eng_buf *room;  /* where the answer's bulk goes; NULL: the caller's slot, or none */
        struct eng_buf *whole; /* of an answer in pieces */
        uint32_t have, whole_crc;
        uint32_t asks; /* bytes of the drive's asked_bytes; 0: no question */
        uint64_t sent; /* lp_now(), of what has ENG_OP_OTHERS */
        /* Of a READ that others were asked for instead: its slot, which goes back once no bytes can come into it (I7); NULL: none */
        void *slot;
        void (*left)(struct lp_loop *home, void *slot);
        struct lp_loop *home;
        struct lp_msg msg;
        bool other;    /* one of the drive's others */
        TAILQ_ENTRY(remote_call) line;
        uint8_t body[]; /* a head, and the operation */
};

struct remote_drive {
        struct eng_drive drive; /* first */
        struct rem_client *client;
        struct net_peer *peer;
        struct rem_place place;
        unsigned lane;
        LIST_ENTRY(remote_drive) link; /* of the client */
        uint8_t drive_id[FMT_ID];
        struct eng_local_options options; /* whom it tells; times */
        const struct rem_facts *facts;    /* of its opening */
        /* any thread */
        atomic_bool exhausted, unreliable, mute, stalled, vanished, index_damaged, lacks, lost_end, failed, given_up;
        atomic_uint calls;  /* operations that are not answered yet */
        atomic_uint in_net; /* calls of net/ that have not ended */
        bool closed;        /* with such calls: nothing of them is told any more */
        pthread_mutex_t lock;
        struct eng_drive_info info; /* under lock */
        /* owner */
        _Atomic uint64_t incarnation; /* any thread reads it */
        uint64_t session, commits;
        uint64_t begun; /* the last session whose begin was answered */
        uint64_t told;  /* the one of those that the store was told is of no more use */
        bool failed_told, full_told, watching;
        LIST_HEAD(, remote_call) out;
        unsigned asked; /* of them questions */
        size_t asked_bytes;
        unsigned others;                 /* of them what may wait here: it is sent, and not answered yet */
        TAILQ_HEAD(, remote_call) waits; /* of that what is not sent yet */
        struct lp_timer mute_look;       /* while something with ENG_OP_OTHERS is out, each REM_MUTE_LOOK_NS */
        uint64_t mute_due, heard;        /* lp_now() when that is due; of the last answer */
        bool mute_looks;
        struct lp_msg start_msg;
        struct net_call watch;
        uint64_t watch_begun; /* as it was sent */
        struct lp_timer watch_again;
        uint64_t next_value; /* the number of the first superseded value that has not come */
        uint8_t *watch_room;
        uint8_t watch_body[sizeof(struct rem_head) + sizeof(uint64_t)];
        uint8_t scratch[ENG_WIRE_BODY_MAX];
};

static inline struct remote_drive *remote_of(struct eng_drive *drive)
{
        return (struct remote_drive *)drive;
}

static inline void remote_count(struct rem_client *client, enum rem_counter counter)
{
        atomic_fetch_add_explicit(&client->counts[counter], 1, memory_order_relaxed);
}

/* remote_drive.c: a drive of what an opening was told (in use from then on), whose WATCH begins on its owner loop. -ENOMEM. */
int remote_drive_new(const struct rem_opening *opening, const struct eng_local_options *options,
                     struct eng_drive **out);
void remote_head(struct remote_drive *d, struct rem_head *out);
/* net_call(), which ends by remote_net_ended(): false: the drive was closed. */
void remote_net_call(struct remote_drive *d, struct net_call *call);
bool remote_net_ended(struct remote_drive *d);
/* Owner: its node has said something. */
void remote_heard(struct remote_drive *d);
/* Owner: what every answer has. */
void remote_take_prefix(struct remote_drive *d, const struct rem_prefix *prefix);
/* Owner: the operation ends. */
void remote_answer(struct remote_drive *d, struct eng_op *op, int rv);
/*
 * Owner: the drive server refuses what was sent when this session was the last begun: nothing goes to it before the
 * store begins another. If one has been begun since, it says nothing of that.
 */
void remote_refused(struct remote_drive *d, uint64_t begun, enum rem_status status);
/* Owner: it has failed. */
void remote_has_failed(struct remote_drive *d, const char *text);

/* remote_term.c: any loop. Some server knows a newer term than the client's; by: NULL: it did not say which. */
void remote_deposed(struct rem_client *client, const struct eng_term *by);
/* By the body of a refusal. */
void remote_deposed_by(struct rem_client *client, const struct net_call *call);

/* remote_call.c: owner */
void remote_call_submit(struct remote_drive *d, struct eng_op *op);
void remote_call_free(struct remote_call *c);
/* True: a prefix, and what follows it. */
bool remote_prefix_read(const struct net_call *call, struct rem_prefix *out);

/* near_drive.c: any thread */
static inline bool near_is_own(const struct rem_client *client, const struct rem_place *place)
{
        return client->options.home && client->options.near.server != NULL && client->options.near.node == place->node;
}
/* -EAGAIN: it is not served, or another drive is; -ENOMEM. */
int near_drive_open(struct rem_client *client, const struct rem_place *place, const struct eng_local_options *options,
                    struct eng_drive **out);

/* remote_watch.c: owner */
void remote_watch_send(struct remote_drive *d);

#endif
