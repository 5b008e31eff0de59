/*
 * remote_home.h - sessions of home stores with the leader of their pool, over net.h: what carries calls,
 * states and rows between them (docs/design/any-gateway.md).
 *
 * Errors are negative errno values.
 */
#ifndef MILLRACE_REMOTE_HOME_H
#define MILLRACE_REMOTE_HOME_H

#include <stdatomic.h>
#include <sys/types.h>

#include "engine.h"
#include "engine_home.h"
#include "engine_term.h"
#include "net.h"

/* Operations of requests (struct net_request) from here on are of sessions, so many. */
#define REM_HOME_OPERATIONS       0x200u
#define REM_HOME_OPERATIONS_COUNT 5u
static inline bool rem_is_home_operation(uint32_t operation)
{
        return operation - REM_HOME_OPERATIONS < REM_HOME_OPERATIONS_COUNT;
}

#define REM_HOME_FIRST (63u << 10) /* of numbers of parties that may have sessions ... */
#define REM_HOME_NODES 1024u       /* ... so many */

/* ---- the leader's side ----------------------------------------------------------------------- */

struct rem_home_server;

#define REM_ASK_MAX (512u << 10) /* bytes of a question ... */
#define REM_ASK_ROOM (2u << 20)  /* ... and of its answer, at most */

/* A question of an operator that came in at a home's node: bytes, which nothing here looks into. */
struct rem_home_asked {
        const uint8_t *bytes;
        size_t len;
        /* filled in by who answers: from malloc(), and taken over; none: it cannot be asked now, and nothing was done */
        uint8_t *answer;
        size_t answer_len;
};
/* Any thread, once for each question. An answer beyond REM_ASK_ROOM is none. */
void rem_home_asked_answer(struct rem_home_asked *asked);

struct rem_home_server_options {
        struct eng_store *store;       /* that leads; opened, not started */
        struct lp_loop *coordinator;   /* its loop */
        uint32_t pool;
        struct eng_term term;
        const _Atomic uint64_t *lease_end; /* of the leader; NULL: it is always one */
        uint64_t (*now)(void);         /* the clock of that; NULL: CLOCK_BOOTTIME */
        uint64_t memory;               /* bytes for calls of all homes that are under way, a quarter of it for lookups [256 MiB] */
        /* On the loop of a connection, of any home of the pool, in a session or not. NULL: nothing is answered. */
        void (*ask)(void *arg, struct rem_home_asked *asked);
        void *ask_arg;
};
/* Any thread. -ENOMEM. */
int rem_home_server_new(const struct rem_home_server_options *options, struct rem_home_server **out);
/*
 * For struct net_handler, with the server as the argument, as those of remote.h. On the loop of the
 * connection. NULL: the leader has no store yet, and says so.
 */
enum net_bulk rem_home_server_bulk(void *server, struct net_request *request);
void rem_home_server_request(void *server, struct net_request *request);
void rem_home_server_lost(void *server, struct net_request *request);
/* Bytes of that which are in use. Never more, but for one call alone of each kind. Any thread. */
uint64_t rem_home_server_bytes(struct rem_home_server *server);
/* Bytes of values that are pinned for homes: of one that many have pinned, once. Any thread. */
uint64_t rem_home_server_pinned(struct rem_home_server *server);
/* Sessions that there are now. Any thread. */
unsigned rem_home_server_sessions(struct rem_home_server *server);
/*
 * Any thread. generation: of the switches that say that clients change nothing; 0: they may. From then on a home that has
 * told this generation, and that none of its clients' changes is under way, changes nothing; nor does one that joins,
 * before it has. What the others have let in ends as it would have.
 */
void rem_home_server_read_only(struct rem_home_server *server, uint64_t generation);
/*
 * Any thread: changes of homes that are being done; while clients change nothing, also homes that may still change
 * something. 0 after rem_home_server_read_only(): there will be no change until that is taken back.
 */
unsigned rem_home_server_changing(struct rem_home_server *server);
/*
 * Any thread: no call is let in any more, nor a session, and those that there are end: homes keep what they ask for the next
 * leader. Calls that are under way end as they would have. For a leader that is about to hand over, and ends then.
 */
void rem_home_server_close(struct rem_home_server *server);
/* Any thread: calls under way, until their answers have left. */
unsigned rem_home_server_calls(struct rem_home_server *server);
/* Coordinator: all sessions end, and none begins any more: before the store's loops stop. */
void rem_home_server_stop(struct rem_home_server *server);
/* When net and the store's loops have stopped, and before the store is closed. NULL is allowed. */
void rem_home_server_free(struct rem_home_server *server);

/* ---- the home's side ------------------------------------------------------------------------- */

struct rem_home_link;

struct rem_home_link_options {
        struct net *net;
        uint32_t pool;
        uint8_t store_id[16];
        unsigned loop_count;           /* of the home store */
        uint64_t (*now)(void);         /* of leases; NULL: CLOCK_BOOTTIME */
};
/* Any thread. -ENOMEM. */
int rem_home_link_new(const struct rem_home_link_options *options, struct rem_home_link **out);
/* For eng_options.leader of the home store. Lives as long as the link. */
const struct eng_leader_link *rem_home_link_engine(struct rem_home_link *link);
/* What a home tells of its switches. read() is called on the coordinator's loop, and does not wait. */
struct rem_home_switches {
        /* The generation that is in force; then, read behind it, how many changes of clients are under way. */
        void (*read)(void *arg, uint64_t *generation, uint64_t *changing);
        void *arg;
};
/* Before rem_home_link_start(); without it generation 0 is told. */
void rem_home_link_switches(struct rem_home_link *link, const struct rem_home_switches *switches);
/* Any thread, once, when the store was opened and its loops run. */
void rem_home_link_start(struct rem_home_link *link, struct eng_store *home);
/* Any thread: this party of net/ leads the pool, as far as is known; 0: nobody. */
void rem_home_link_leader(struct rem_home_link *link, uint16_t party);
/*
 * Asks the leader something (struct rem_home_asked), and waits for the answer, some seconds at most: its length. Any thread
 * that may block, before rem_home_link_stop(). -EHOSTDOWN: nobody leads, or who leads cannot be asked now: nothing was
 * done. -ETIMEDOUT: it may have been done. -EMSGSIZE: the question, or its answer, is too long.
 */
ssize_t rem_home_link_ask(struct rem_home_link *link, const uint8_t *bytes, size_t len, uint8_t room[REM_ASK_ROOM]);
/* The store's loops have stopped, and it is to be closed: what waits for a session has none. */
void rem_home_link_stop(struct rem_home_link *link);
/* After the store was closed. NULL is allowed. */
void rem_home_link_free(struct rem_home_link *link);

#endif
