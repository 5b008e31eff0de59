/*
 * cluster_etcd.h - etcd, the configuration service of a cluster: reads, transactions, and a
 * compare-and-set that finds out what became of it. docs/design/etcd.md has the reasons.
 *
 * A request is an object of the caller. It is submitted from any loop, and answered once, by done()
 * on that loop, never inside the call that submitted it. A table of functions stands in front, so
 * that a simulator's etcd can take the place of the real client.
 *
 * Unless a function says "any thread", it is called on a loop. Errors are negative errno.
 */
#ifndef MILLRACE_CLUSTER_ETCD_H
#define MILLRACE_CLUSTER_ETCD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"

#define CL_KEY_MAX       1024u
#define CL_VALUE_MAX     (1u << 20)
#define CL_TXN_BYTES_MAX (1u << 20) /* keys and values of a transaction; etcd takes 1.5 MiB */
#define CL_COMPARES_MAX  32u
#define CL_OPS_MAX       96u /* of one branch of a transaction; etcd takes 128 */
#define CL_PAGE_KEYS     1000u
#define CL_ANSWER_MAX    (64u << 20) /* keys and values of an answer, each with CL_KEY_COST more */
#define CL_KEY_COST      128u
#define CL_QUEUE_MAX     1024u /* requests of one client that are not answered yet */
#define CL_ENDPOINTS_MAX 16u
#define CL_TIMEOUT_MS    5000u
#define CL_TEXT_MAX      256u

struct cl_bytes {
        const void *data;
        size_t len;
};

/* ---- what a node has seen (rule R2) ---------------------------------------------------------- */

struct cl_generation {
        uint64_t number, random;
};

/* What a node keeps on its folders. 0 anywhere: nothing is known. */
struct cl_seen {
        uint64_t cluster_id; /* etcd's */
        struct cl_generation generation;
        int64_t revision; /* the highest */
};

/* Name, and its line for people. */
#define CL_VERDICTS(X)                                                                                                 \
        X(FINE, "etcd is the one that this node knows")                                                                \
        X(OTHER_CLUSTER, "etcd has another cluster id than this node has seen: it was restored or replaced")           \
        X(OTHER_GENERATION, "the cluster's state in etcd has another generation than this node has seen")              \
        X(LOWER_REVISION, "etcd has a lower revision than this node has seen: it was restored from a backup")

enum cl_verdict {
#define CL_VERDICT_ENUM(name, text) CL_SEEN_##name,
        CL_VERDICTS(CL_VERDICT_ENUM)
#undef CL_VERDICT_ENUM
                CL_VERDICTS_END
};

/* Any thread, as all of this part. Judges the header of an answer to a linearizable request that began after `seen` was so. */
enum cl_verdict cl_seen_judge(const struct cl_seen *seen, uint64_t cluster_id, int64_t revision);
/* The same of a generation that was read from etcd. */
enum cl_verdict cl_generation_judge(const struct cl_seen *seen, const struct cl_generation *found);
/* After a header was judged fine: adds it. True: `seen` has changed. */
bool cl_seen_add(struct cl_seen *seen, uint64_t cluster_id, int64_t revision);
const char *cl_verdict_text(enum cl_verdict verdict);

/* ---- answers --------------------------------------------------------------------------------- */

/* mod_revision is 0 where there is no such key. */
struct cl_key {
        struct cl_bytes key, value;
        int64_t mod_revision, create_revision, version;
};

/* In the order of keys. */
struct cl_keys {
        struct cl_key *at;
        size_t count, room;
};

struct cl_status {
        char version[32];
        uint64_t leader; /* member id; 0: none */
        int64_t db_size;
};

struct cl_answer {
        uint64_t cluster_id, member_id, raft_term;
        /*
         * RANGE: the revision that all of it was read at. TXN: etcd's revision after it; what a
         * transaction has put has it as its mod_revision.
         */
        int64_t revision;
        bool succeeded;         /* TXN */
        struct cl_keys *ranges; /* RANGE: one. TXN: one for each CL_OP_RANGE of the branch that was taken */
        unsigned range_count;
        struct cl_status status; /* STATUS */
        size_t bytes;            /* of CL_ANSWER_MAX */
        atomic_uint holders;
};

/* Any thread, as all four. NULL: no memory. */
struct cl_answer *cl_answer_new(unsigned range_count);
/* Copies a key behind the others of a range. -ENOMEM, -EMSGSIZE: CL_ANSWER_MAX. */
int cl_answer_add(struct cl_answer *answer, unsigned range, const struct cl_key *key);
/* One more holder of it, who calls cl_answer_free(). */
void cl_answer_hold(struct cl_answer *answer);
/* Frees it when its last holder does. NULL is allowed. */
void cl_answer_free(struct cl_answer *answer);

/* ---- requests -------------------------------------------------------------------------------- */

enum cl_kind {
        CL_RANGE, /* a key, or all that begin with it, at one revision; linearizable */
        CL_TXN,   /* compares, then all of `success` or all of `failure`; linearizable */
        CL_STATUS /* of one member, as that sees it: its revision may lag */
};

enum cl_compare_kind {
        CL_COMPARE_MOD,     /* mod_revision == number; 0: there is no such key */
        CL_COMPARE_VERSION, /* version == number */
        CL_COMPARE_VALUE    /* there is such a key, and its value == value */
};

struct cl_compare {
        enum cl_compare_kind kind;
        struct cl_bytes key, value;
        int64_t number;
};

enum cl_op_kind { CL_OP_PUT, CL_OP_DELETE, CL_OP_RANGE };

/* prefix: DELETE and RANGE mean all keys that begin with key. A RANGE is not paged: CL_PAGE_KEYS at most, or the answer is wrong. */
struct cl_op {
        enum cl_op_kind kind;
        struct cl_bytes key, value;
        bool prefix;
};

enum cl_outcome {
        CL_DONE,        /* `answer` is etcd's */
        CL_FAILED_SURE, /* it was not carried out, and never will be */
        CL_UNKNOWN      /* a TXN with puts or deletes may have been carried out, or may be later */
};

/* Zero it, fill in the first part. All it points to stays as it is until done(). */
struct cl_request {
        enum cl_kind kind;
        /* RANGE */
        struct cl_bytes key;
        bool prefix;
        int64_t min_mod_revision; /* keys that were changed in this revision or later; 0: all */
        int64_t at_revision;      /* what it was then; 0: now */
        /* TXN */
        const struct cl_compare *compares;
        const struct cl_op *success, *failure;
        unsigned compare_count, success_count, failure_count;
        /* STATUS */
        unsigned member; /* of the n-th endpoint, from 1; 0: of any */

        uint64_t deadline; /* lp_now() scale; 0: the client's default from now on */
        void (*done)(struct cl_request *request);

        /* the answer */
        enum cl_outcome outcome;
        /*
         * Not DONE: -EBUSY: too many requests. -EINVAL: what was asked is wrong or too large. -ETIMEDOUT.
         * -ESTALE: at_revision was compacted. -EREMCHG: rule R2. -EACCES: etcd refuses this user.
         * -EHOSTUNREACH: no endpoint, or none that has a leader. -EMSGSIZE: more than CL_ANSWER_MAX. -EBADMSG: the
         * answer makes no sense. -EREMOTEIO: etcd refuses with another reason. -ENOSPC: etcd's database is full. -ECANCELED. -ENOMEM.
         */
        int error;
        char text[CL_TEXT_MAX];   /* why, for people; "" if DONE */
        struct cl_answer *answer; /* DONE, else NULL; until done() returns, or longer by cl_answer_hold() */

        /* private */
        struct lp_loop *home;
        struct lp_msg msg;
};

/* Any thread. It has a put or a delete: it is sent once at most, and its outcome may be UNKNOWN. */
bool cl_request_changes(const struct cl_request *request);
/* Any thread. 0, or -EINVAL: it keeps its bounds. */
int cl_request_check(const struct cl_request *request);
/*
 * Any thread; for those that implement the table below. Ends a request: posts it to its home, where
 * done() is called. `answer` (DONE) becomes the request's. The format makes its text.
 */
void cl_request_end(struct cl_request *request, enum cl_outcome outcome, int error, struct cl_answer *answer,
                    const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- the service ----------------------------------------------------------------------------- */

struct cl_etcd;
struct cl_etcd_ops {
        void (*submit)(struct cl_etcd *etcd, struct cl_request *request);
        void (*seen)(struct cl_etcd *etcd, struct cl_seen *out);
        void (*distrust)(struct cl_etcd *etcd, enum cl_verdict verdict);
        void (*free)(struct cl_etcd *etcd);
};
struct cl_etcd {
        const struct cl_etcd_ops *ops;
};

/* Any loop. */
void cl_etcd_submit(struct cl_etcd *etcd, struct cl_request *request);
/* Any thread. What is known now, to be kept on the folders. */
void cl_etcd_seen(struct cl_etcd *etcd, struct cl_seen *out);
/*
 * Any thread. The caller has found another sign of R2: all later requests are FAILED_SURE, -EREMCHG,
 * as if the client itself had found it. Nothing takes this back but a new client.
 */
void cl_etcd_distrust(struct cl_etcd *etcd, enum cl_verdict verdict);
/*
 * Any thread, once; nothing is submitted any more. What is unanswered ends with -ECANCELED, FAILED_SURE or UNKNOWN; the loops
 * may call done() after this has returned. Waits for a name that is being resolved. NULL is allowed.
 */
void cl_etcd_free(struct cl_etcd *etcd);

struct cl_etcd_options {
        const char *const *endpoints; /* "https://192.0.2.7:2379" */
        unsigned endpoint_count;
        const char *ca_file, *cert_file, *key_file; /* PEM; NULL: the system's CAs, no certificate */
        const char *user, *password;                /* NULL: no login. Only over TLS, or to loopback */
        struct cl_seen seen;                        /* of the node's folders */
        /* The client's thread, once: R2 is violated. May be NULL. */
        void (*violated)(void *arg, enum cl_verdict verdict);
        void *arg;
        unsigned timeout_ms; /* 0: CL_TIMEOUT_MS */
        unsigned connect_ms; /* to connect, TLS included; 0: 1,000 */
};

/*
 * Any thread. Makes the real client and starts its thread; nothing is connected to yet. Everything is copied. -EINVAL, and why as
 * text: the options are wrong. -ENOMEM, -EAGAIN.
 */
int cl_etcd_new(const struct cl_etcd_options *options, struct cl_etcd **out, char *why, size_t why_size);

/* ---- compare and set (rule R1) --------------------------------------------------------------- */

enum cl_cas_outcome {
        CL_CAS_WON,       /* it was carried out, in `revision` */
        CL_CAS_LOST,      /* it was not carried out, and never will be */
        CL_CAS_OVERTAKEN, /* it will never be carried out any more; it may have been, before what is in `now` */
        CL_CAS_FAILED,    /* LOST, since nothing was sent or etcd refused it: `error` and `text` say why; -ENOSPC: its database is full */
        CL_CAS_UNKNOWN    /* it may have been carried out, or may be later */
};

/*
 * Puts `value` if the key's mod_revision is as given and the other compares hold. Zero it, fill in
 * the first part. All it points to stays as it is until done().
 *
 * The value must be one that nobody else, and no other attempt, ever puts there: a random number in
 * it will do. A key that is compared with 0 (absent) must not be deleted while such a request can be under way.
 */
struct cl_cas {
        struct cl_etcd *etcd;
        struct cl_bytes key, value;
        int64_t mod_revision; /* 0: there is no such key */
        const struct cl_compare *others;
        unsigned other_count; /* < CL_COMPARES_MAX */
        uint64_t deadline;    /* lp_now() scale; 0: 2 * CL_TIMEOUT_MS from now on */
        void (*done)(struct cl_cas *cas);

        /* the answer */
        enum cl_cas_outcome outcome;
        int error;
        char text[CL_TEXT_MAX];
        int64_t revision; /* WON: the mod_revision of the own value */
        struct cl_key
                now; /* but WON and FAILED: the key as it was last read, until done() returns; mod_revision -1: never */

        /* private */
        struct lp_loop *home;
        struct lp_msg msg;
        struct cl_request request;
        struct cl_compare compares[CL_COMPARES_MAX];
        struct cl_op ops[CL_COMPARES_MAX + 1];
        struct cl_answer *kept;
        struct lp_timer timer;
        uint64_t pause_ns;
        int64_t step;
        unsigned steps, state;
        bool full; /* etcd has answered that its database is */
};

void cl_cas(struct cl_cas *cas);

/* What an answer shows of a CAS that was not answered. */
enum cl_cas_sight {
        CL_SIGHT_OWN,       /* the own value is there */
        CL_SIGHT_DEAD,      /* it was not carried out, and never will be */
        CL_SIGHT_OVERTAKEN, /* it will never be carried out any more */
        CL_SIGHT_PAST,      /* the same, and an earlier revision of the key can tell whether it was */
        CL_SIGHT_UNDECIDED, /* it may still be carried out */
        CL_SIGHT_BACKWARDS  /* the key is older than what was compared: etcd was restored */
};
/* Any thread. now[0] is the CAS's key, now[1 + i] that of others[i], all at one revision. */
enum cl_cas_sight cl_cas_judge(const struct cl_cas *cas, const struct cl_key *now);

#endif
