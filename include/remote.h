/*
 * remote.h - drives of other nodes, over net.h: a drive server that serves local drives to peers,
 * and remote drives, which the engine uses as any other. docs/design/remote-drives.md has the
 * reasons, and what each rule prevents.
 *
 * Errors are negative errno values.
 */
#ifndef MILLRACE_REMOTE_H
#define MILLRACE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "engine_term.h"
#include "loop.h"
#include "net.h"

struct eng_buf;
struct eng_drive;
struct eng_drive_opener;
struct eng_identity;
struct eng_local_options;

#define REM_DRIVES_MAX 256u /* that a node serves */
#define REM_SLOTS_MAX  64u  /* of a pool: below ENG_DRIVES_MAX */

/* Operations of requests (struct net_request) from here on are the drive server's, so many. */
#define REM_OPERATIONS       0x100u
#define REM_OPERATIONS_COUNT 8u
static inline bool rem_is_operation(uint32_t operation)
{
        return operation - REM_OPERATIONS < REM_OPERATIONS_COUNT;
}

/* ---- the drive server ------------------------------------------------------------------------ */

struct rem_server;
struct rem_served;

/* Any thread. -ENOMEM. */
int rem_server_new(struct rem_server **out);

/* How far a node is with a process that may lead a pool in a moment. */
enum rem_prepared { REM_PREPARED_NO, REM_PREPARED_SOON, REM_PREPARED_YES };

#define REM_TERM_MS 3000u /* T: how long a leader may answer reads after the pings that all members answered */

struct rem_server_options {
        unsigned term_ms; /* T; 0: REM_TERM_MS. All nodes of a cluster have the same. A grant is 1.25 T */
        /* Ns of a clock that goes on while the machine sleeps, and never back. Any thread. NULL: CLOCK_BOOTTIME. */
        uint64_t (*now)(void *arg);
        void *now_arg;
        /* A leader has given back what was granted to it here. On any loop; NULL: nobody wants to know. */
        void (*released)(void *arg);
        void *released_arg;
        /* A drive here is the first to serve a newer term: who leads is another by now. As the one before. */
        void (*opened)(void *arg);
        void *opened_arg;
        /*
         * This node is asked to be ready to lead a pool, since its leader is about to hand over; again and again, as long as that
         * is wanted. On any loop; NULL: it never is.
         */
        enum rem_prepared (*prepare)(void *arg, uint32_t pool);
        void *prepare_arg;
};
/* Any thread, before its first drive is published. */
void rem_server_set(struct rem_server *server, const struct rem_server_options *options);
#define REM_NOTE_ETCD     1u /* the node reaches etcd */
#define REM_NOTE_PREPARED 2u /* it has a process that waits to lead this pool: rem_server_prepared() */
/* What the node says with each answer to PING and STATE, of all pools; 16 bits. Any thread. */
void rem_server_note(struct rem_server *server, unsigned note);
/* Any thread. Whether the node says REM_NOTE_PREPARED of that pool. -ENOMEM. */
int rem_server_prepared(struct rem_server *server, uint32_t pool, bool prepared);
/* Any thread. Rule R2: it takes no OPEN any more, and says REM_SAID_OTHER. Nothing takes this back but a new process. */
void rem_server_distrust(struct rem_server *server);
/*
 * How its requests are served: for struct net_handler, with the server as the argument, or for who
 * hands it those that rem_is_operation() says are its own. On the loop of the connection.
 */
enum net_bulk rem_server_bulk(void *server, struct net_request *request);
void rem_server_request(void *server, struct net_request *request);
void rem_server_lost(void *server, struct net_request *request);
/* Any thread, before net_stop(): what waits for something to say is answered, now and from now on. */
void rem_server_stop(struct rem_server *server);
/* Any thread, after net_stop() has stopped, when all drives were freed. NULL is allowed. */
void rem_server_free(struct rem_server *server);

/*
 * A drive to be served, as a slot of a pool; nobody is served yet. owner: the loop of the drive. Any
 * thread. -ENOMEM, -EINVAL.
 */
int rem_served_new(struct rem_server *server, uint32_t pool, unsigned slot, struct lp_loop *owner,
                   struct rem_served **out);
/*
 * Opens a folder and serves it from then on. Its callbacks are filled in here, its slot and owner,
 * too. As eng_local_open(): blocking. -EEXIST: the slot of the pool is served already; -ENOSPC:
 * REM_DRIVES_MAX.
 */
int rem_served_open(struct rem_served *served, const struct eng_local_options *options, struct eng_error *error);
/*
 * The same of a drive that is open. Its `superseded` and `failed` are to call the two functions below
 * with `served`, on its owner loop. Any thread.
 */
int rem_served_publish(struct rem_served *served, struct eng_drive *drive, const struct eng_identity *identity);
void rem_served_superseded(void *served, struct eng_drive *drive, struct eng_buf *const values[], unsigned n);
void rem_served_failed(void *served, struct eng_drive *drive, const char *text);
/*
 * Any thread, once: no more is taken on for it. gone() is called on the owner loop when all that is
 * under way was answered: then rem_served_free() is allowed, and closing the drive.
 */
void rem_served_withdraw(struct rem_served *served, void (*gone)(void *arg), void *arg);
/*
 * Of a drive that was withdrawn and has gone, was never published, or whose loops have stopped with
 * net_free() behind. The drive itself is the caller's to close. NULL is allowed.
 */
void rem_served_free(struct rem_served *served);
/* Closes its drive, if it was opened: when rem_served_free() is allowed, before that. Blocking. */
void rem_served_close(struct rem_served *served);
/* NULL: not open. */
struct eng_drive *rem_served_drive(const struct rem_served *served);

/* ---- a drive that nobody serves -------------------------------------------------------------- */

#define REM_PAST_MAX 64u

/* What a drive knows of its pool's epochs and terms. */
struct rem_known {
        uint64_t epoch; /* number of its newest EPOCH record; 0: it was in none yet */
        uint8_t epoch_id[16];
        struct eng_term term; /* its newest TERM record before the question; none: it had none */
        uint8_t cluster[NET_CLUSTER_LEN]; /* of that */
        size_t body_len;
        uint8_t body[4096]; /* of the EPOCH record */
        unsigned past_count;
        struct {
                uint64_t number;
                uint8_t id[16];
        } past[REM_PAST_MAX]; /* epochs that it has had, the newest one included */
};

/*
 * Opens a folder that nothing serves, asks what it knows, and closes it. fence: it is OPENed with the term that this
 * gives, by what it knows, so that it takes nothing of an older one any more, whoever opens it later; on any thread.
 * NULL: it is not. `options.owner` and callbacks are
 * filled in here. Blocking, for as long as the drive takes. -ESTALE: the drive knows a newer term; -EXDEV: one of another
 * cluster; both with *out. Others: as eng_local_open().
 */
typedef struct eng_term (*rem_fence)(const struct rem_known *known, const void *arg);
int rem_drive_ask(const struct eng_local_options *options, rem_fence fence, const void *arg, const uint8_t cluster[NET_CLUSTER_LEN], struct rem_known *out,
                  struct eng_error *error);

/* ---- remote drives --------------------------------------------------------------------------- */

struct rem_client;

/*
 * Drives that this very process serves: a home store asks them without a connection, on the loop that
 * asks, by the rules that the drive server has for requests without a term.
 */
struct rem_near {
        struct rem_server *server; /* NULL: there is none. It stays until the client was freed, as do its drives' loops */
        uint16_t node;             /* whose drives these are, in paths */
        uint16_t maker;            /* who makes the ids of uploads here, and in which boot: WRITE is refused of others */
        uint32_t boot;
        struct lp_loop *const *loops; /* all that own drives of the server. They run until the client's drives were closed */
        unsigned loop_count;
};

struct rem_client_options {
        struct net *net;
        struct lp_loop *loop; /* runs while drives are opened: questions of openings are asked on it */
        unsigned wait_ms;     /* that an opening waits for an answer; 0: 5,000 */
        /* Of the leader whose drives these are. Zeroes: none, for drives that no leader has OPENed. */
        struct eng_term term;
        uint8_t cluster[NET_CLUSTER_LEN]; /* that etcd has: TERM records name it (R2) */
        /*
         * Some drive server refused what this client sent, since it knows a newer term: `by`, or none
         * where it did not say. Once, on any loop. What was under way then has an unknown outcome (R6).
         */
        void (*deposed)(void *arg, const struct eng_term *by);
        void *deposed_arg;
        /* Of a home store: no term, and no sessions; READ, WRITE, SYNC and HELD are all that it asks. */
        bool home;
        struct rem_near near; /* of a home store: drives of its own process */
        uint64_t (*now)(void *arg); /* as struct rem_server_options: when pings were sent */
        void *now_arg;
};

/* Any thread. -ENOMEM. */
int rem_client_new(const struct rem_client_options *options, struct rem_client **out);
/* After all its drives were closed. NULL is allowed. */
void rem_client_free(struct rem_client *client);
/*
 * For eng_options.opener: drives whose paths are "remote:NODE/POOL/SLOT", of nodes that net_peer_set()
 * has made known. Lives as long as the client. A drive is closed when the loops of the store have
 * stopped, and those of the net go on, or net_stop() has stopped; loops that the net's still run beside
 * are freed when each of these has had a turn since. An opening fails with -EAGAIN while its node does
 * not answer, or does not serve the drive, which it may be opening yet.
 */
const struct eng_drive_opener *rem_client_opener(struct rem_client *client);

/* ---- terms: what a leader, or a candidate, asks drive servers --------------------------------- */

/*
 * Each of these is zeroed, its first part filled in, and asked for on any loop, where done() is called
 * once, never inside the asking; all of it stays until then. The term is the client's, but for STATE,
 * which needs none; its node and boot are those that the client's net shows, or nothing of it is
 * taken. The client is freed after all of them were answered.
 */

enum rem_said {
        REM_SAID_DONE, /* OPEN: it serves this term; PING: granted; RELEASE: nothing is granted to it any more */
        REM_SAID_GRANTED,  /* OPEN: another term has a grant for left_ns more, or may have; nobody renews it any more */
        REM_SAID_DEPOSED,  /* a newer term is known there: `newest`; or one of this order that is another's (R2) */
        REM_SAID_NOT_OPEN, /* PING: no drive of the pool serves this term */
        REM_SAID_ABSENT,   /* no such drive, or nothing of the pool, is served there */
        REM_SAID_OTHER,    /* OPEN: its newest TERM is another cluster's, of this generation or a newer one (R2) */
        REM_SAID_AGAIN,    /* OPEN: it has no memory, or no room yet; it takes no older term any more */
        REM_SAID_FAILED,   /* OPEN: the drive has failed */
        REM_SAID_REFUSED,  /* it makes no sense there, or the answer does not here */
        REM_SAID_UNREACHABLE, /* nobody knows whether it was done, is done later, or never */
};

/* Private. */
struct rem_question {
        struct net_call call;
        struct lp_msg msg;
};

/* One drive is to serve the client's term, and no older one from then on. */
struct rem_open {
        struct rem_client *client;
        uint32_t pool;
        uint16_t node, slot;
        uint8_t drive_id[16]; /* zeroes: any */
        unsigned wait_ms;     /* 0: the client's */
        void (*done)(struct rem_open *open);
        void *arg;
        /* the answer */
        enum rem_said said;
        uint64_t left_ns;
        struct eng_term newest; /* that is known there; of REM_SAID_GRANTED to whom it is granted; none: not said */
        /* of REM_SAID_DONE; its log holds all appends that it took of older terms, and gets no more of them */
        uint64_t incarnation, features, epoch; /* epoch: number of its newest EPOCH record */
        uint8_t store_id[16], found_id[16], epoch_id[16];
        bool log_lost;
        struct eng_term before; /* its newest TERM before this one, of `before_cluster`; none: it had none */
        uint8_t before_cluster[NET_CLUSTER_LEN];
        const uint8_t *epoch_body; /* until done() returns */
        size_t epoch_len;
        /* private */
        struct rem_question question;
        uint8_t body[192];
};
void rem_open_ask(struct rem_open *open);

#define REM_SLOT_FAILED 1u
#define REM_SLOT_FULL   2u /* it has no room for changes */
#define REM_SLOT_OPENED 4u /* it serves the newest term that its node knows */

/* A slot that a node serves. */
struct rem_slot {
        uint8_t drive_id[16];
        uint64_t incarnation;
        uint32_t slot, flags;
        struct eng_term durable; /* its newest TERM record; none: it has none */
        uint8_t cluster[NET_CLUSTER_LEN];
};

/* To all drives of a pool on a node: they take no other term for 1.25 T. */
struct rem_ping {
        struct rem_client *client;
        uint32_t pool;
        uint16_t node;
        unsigned wait_ms; /* 0: the client's */
        void (*done)(struct rem_ping *ping);
        void *arg;
        /* the answer */
        enum rem_said said;
        uint64_t sent; /* by the client's clock, before it was: what a lease begins with */
        struct eng_term newest;
        unsigned note;  /* rem_server_note() */
        unsigned count; /* of REM_SAID_DONE: all slots of the pool that the node serves */
        struct rem_slot slots[REM_SLOTS_MAX];
        /* private */
        struct rem_question question;
        uint8_t body[128];
};
void rem_ping_ask(struct rem_ping *ping);
/* The leader gives its grant back, which ends now: its lease is over on all loops, and it pings nobody any more. */
void rem_release_ask(struct rem_ping *release);

/* What a candidate wants to know of a pool on a node. */
struct rem_pool_state {
        struct rem_client *client;
        uint32_t pool;
        uint16_t node;
        unsigned wait_ms; /* 0: the client's */
        void (*done)(struct rem_pool_state *state);
        void *arg;
        /* the answer */
        enum rem_said said;     /* REM_SAID_DONE, ABSENT, REFUSED, UNREACHABLE */
        struct eng_term newest; /* the newest that the node knows, whether it was OPENed or refused */
        struct eng_term opened; /* the newest that a drive has been OPENed by since the node's process began */
        struct eng_term granted; /* who has a grant, or may have one from before the process began; none: nobody */
        uint64_t left_ns;        /* of that grant */
        uint64_t heard_ns;       /* since anything came of the newest term's leader, or the process began */
        bool released;           /* that leader has given its grant back since */
        bool heard;              /* something came of some leader since the process began */
        unsigned note;           /* rem_server_note() */
        unsigned count;
        struct rem_slot slots[REM_SLOTS_MAX];
        /* private */
        struct rem_question question;
        uint8_t body[128];
};
void rem_pool_state_ask(struct rem_pool_state *state);
/* The same of this process's own server, at once: the answer's fields. Any thread. */
void rem_server_pool_state(struct rem_server *server, uint32_t pool, struct rem_pool_state *out);

/* Asks a node to be ready to lead a pool in a moment. It gets no right by that. No term is needed. */
struct rem_prepare {
        struct rem_client *client;
        uint32_t pool;
        uint16_t node;
        unsigned wait_ms; /* 0: the client's */
        void (*done)(struct rem_prepare *prepare);
        void *arg;
        /* The answer: REM_SAID_DONE: it is; AGAIN: it will be; UNREACHABLE; others: it can not be, or does not know the question. */
        enum rem_said said;
        /* private */
        struct rem_question question;
        uint8_t body[128];
};
void rem_prepare_ask(struct rem_prepare *prepare);

/* Any thread. Of the drive that is open there: what its session speaks to, or did when it was last begun. 0: none is open. */
uint64_t rem_client_incarnation(struct rem_client *client, uint16_t node, uint32_t pool, unsigned slot);

/* Name, help: counts of all drives of a client. Any thread; each number by itself. */
#define REM_COUNTERS(X)                                                                                                \
        X(unreachable, "Operations that were answered with EHOSTUNREACH.")                                             \
        X(refused, "Operations that a drive server refused: another incarnation, an old session, a lost COMMIT.")      \
        X(lies, "Answers of drive servers that made no sense.")                                                        \
        X(busy, "Operations that a drive server had no buffer for; they were sent again.")                             \
        X(pieces, "Answers that came in more than one piece.")                                                         \
        X(mute, "Questions that were given up since the node said nothing; others were asked instead.")                \
        X(begins, "Sessions that were begun.")

struct rem_stats {
#define REM_COUNTER_FIELD(name, help) uint64_t name;
        REM_COUNTERS(REM_COUNTER_FIELD)
#undef REM_COUNTER_FIELD
};
void rem_stats_read(const struct rem_client *client, struct rem_stats *out);

/* ---- the lease of a leader ------------------------------------------------------------------- */

/* A slot without which there is no lease, on its node, as OPEN has answered. */
struct rem_lease_member {
        uint64_t incarnation;
        uint16_t node, slot;
};

/*
 * How long a leader may answer reads: arithmetic, no clock of its own. One for each term, of whoever
 * pings; others are told when it ends.
 */
struct rem_lease {
        uint64_t term_ns;
        unsigned members, nodes;
        struct rem_lease_member member[2 * REM_SLOTS_MAX]; /* of two configurations while an epoch is undecided */
        struct {
                uint64_t sent; /* the newest answered ping that renews */
                uint16_t node;
                bool renewed;
        } node[2 * REM_SLOTS_MAX];
};

/* term_ms: T; 0: REM_TERM_MS. No member: no lease. */
void rem_lease_init(struct rem_lease *lease, unsigned term_ms);
/*
 * These are the members from now on. Of a node that has a member which it did not have before, or
 * with another incarnation, earlier pings count for nothing.
 */
void rem_lease_need(struct rem_lease *lease, const struct rem_lease_member *members, unsigned count);
/*
 * A ping that was answered with REM_SAID_DONE. One that lacks a member slot of its node, or shows
 * another incarnation of one, renews nothing, nor does one that was sent before the newest that does.
 */
void rem_lease_renew(struct rem_lease *lease, uint16_t node, uint64_t sent, const struct rem_slot *slots,
                     unsigned count);
/*
 * When it ends, by the clock that `sent` is of: T after the oldest of the nodes' newest renewals; 0:
 * there is none. A value is answered if the clock is before that after it was read.
 */
uint64_t rem_lease_end(const struct rem_lease *lease);

#endif
