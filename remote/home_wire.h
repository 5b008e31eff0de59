/*
 * home_wire.h - what a home store and its leader say to one another, beside calls themselves
 * (engine/call/leader_call.h). JOIN on the control link, all else on the log link: bulk links may be plain TCP.
 * Little-endian; as struct, no padding.
 *
 *   JOIN   home_join                              -> home_joined
 *   WATCH  home_watch, u64 of each loop           -> home_seen, the pool's state   bulk: rows (room: ENG_HOME_ROWS_MAX)
 *   CALL   home_call, body of the call   bulk: its own -> body of the answer       bulk: its own
 *   UNPIN  home_call, numbers of pins, u64 each   -> nothing
 *   ASK    nothing                bulk: a question -> nothing                       bulk: its answer
 */
#ifndef MILLRACE_REMOTE_HOME_WIRE_H
#define MILLRACE_REMOTE_HOME_WIRE_H

#include "remote_home.h"

struct rem_home_server_options;

/* Calls have bounds by class: what is looked up does not wait for what is changed. */
enum home_class { HOME_CALLS, HOME_LOOKUPS, HOME_CLASSES };

enum home_operation {
        HOME_JOIN = REM_HOME_OPERATIONS,
        HOME_WATCH,
        HOME_CALL,
        HOME_UNPIN,
        HOME_ASK,
        HOME_END
};
_Static_assert(HOME_END - REM_HOME_OPERATIONS == REM_HOME_OPERATIONS_COUNT, "remote_home.h");

enum home_status {
        HOME_DONE,
        HOME_BAD,        /* it makes no sense */
        HOME_NO_SESSION, /* it is over, or was never: nothing was done */
        HOME_NOT_NOW,    /* the leader does not serve yet, or has no memory, or the home has sent too much: nothing was done */
        HOME_OTHER_POOL,
        HOME_READ_ONLY   /* clients change nothing: nothing was done */
};

struct home_join {
        uint32_t pool, loops;
        struct eng_term term; /* whose version is told; none: none */
        uint64_t version;     /* of the configuration that it has */
        struct eng_rows_digest digest; /* of its rows; none changes until it has joined */
};
_Static_assert(sizeof(struct home_join) == 72, "join");

/* Bytes that calls of the home under way may have, of each class (home_call_cost()); one alone may have more. */
struct home_credit {
        uint64_t bytes[HOME_CLASSES];
};

struct home_joined {
        uint64_t session;
        struct eng_term term;
        struct home_credit credit;
};
_Static_assert(sizeof(struct home_joined) == 56, "joined");

struct home_watch {
        uint64_t session;
        uint64_t version;   /* that all loops of the home have */
        uint64_t state_sum; /* CRC32C of the state that they have; UINT64_MAX: none */
        uint64_t switches;  /* generation of those in force; 0: none */
        uint64_t changing;  /* changes of its clients under way, counted behind that */
};
_Static_assert(sizeof(struct home_watch) == 40, "watch");

/* Behind it, of each loop of the home: from which count on its uploads may still come to be named. */
#define HOME_LOOPS_MAX 256u

#define HOME_FIRST 1u /* the rows are the first of all */
#define HOME_LAST  2u /* the last */
#define HOME_ROWS  4u /* there are some, or none are left: they are to be taken */
#define HOME_SAME  8u /* there are none, and the home has them all */
#define HOME_MORE  16u /* the home does not have all changes with this answer, which gives it no lease */

struct home_seen {
        uint64_t version;   /* with these rows; while all are read, the one before */
        uint64_t state_sum;
        uint32_t state_len; /* 0: as it was */
        uint32_t flags;
        int64_t lock_now_ms;/* what the lock clock shows */
        struct home_credit credit; /* from now on */
};
_Static_assert(sizeof(struct home_seen) == 48, "seen");

struct home_call {
        uint64_t session;
};

/* Of a call whose own body this is. */
enum home_class home_class_of(const uint8_t *body, size_t len);
/* What the leader may need to do it: body, bulk, and the bulk of its answer. */
static inline uint64_t home_call_cost(size_t body_len, uint64_t bulk_len, uint64_t room)
{
        return body_len + bulk_len + room;
}

#define HOME_LEASE_NS   (4000ull * 1000 * 1000) /* from when WATCH was sent */
#define HOME_GRANT_NS   (5000ull * 1000 * 1000) /* from when it was answered: the same, and the drift of clocks */
#define HOME_SILENT_NS  (10000ull * 1000 * 1000)
#define HOME_PINS_NS    (60000ull * 1000 * 1000) /* of a session that has ended */
#define HOME_WATCH_NS   (500ull * 1000 * 1000)
#define HOME_UNPINS     64u                     /* numbers in one UNPIN */

/* home_ask.c: ASK at the leader. As those of struct net_handler. */
enum net_bulk home_ask_bulk(struct net_request *request);
void home_ask_request(const struct rem_home_server_options *options, struct net_request *request);
void home_ask_lost(struct net_request *request);

#endif
