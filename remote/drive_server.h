/*
 * drive_server.h - what the files of a drive server share with one another; nobody else includes it
 * (its tests do).
 *
 *   connection's loop           owner loop of the drive                   connection's loop
 *   drive_server.c: which  ──>  served_op.c: may it? ──> drive ──> answer ──> net_reply()
 *   drive, which run; memory    served_watch.c: INFO, WATCH
 *                               served_term.c: OPEN; and PING, RELEASE, STATE, PREPARE on the connection's loop
 *
 * READ and WRITE stay on the connection's loop, whose slots they use. Nothing here calls another
 * node (R12).
 */
#ifndef MILLRACE_REMOTE_DRIVE_SERVER_H
#define MILLRACE_REMOTE_DRIVE_SERVER_H

#include <bsd/sys/queue.h>
#include <pthread.h>
#include <stdatomic.h>

#include "remote/grant.h"
#include "remote/remote_wire.h"

#define REM_LOOPS_MAX    1024u       /* numbers of loops, below */
#define REM_REPORT_BYTES (4u << 20)  /* of superseded values that wait for WATCH */
#define REM_APPEND_BYTES (16u << 20) /* of bodies that wait for the drive: of two connections */
#define REM_REQUESTS_MAX 8192u       /* unanswered */
#define REM_WATCH_NS     (1000ull * 1000 * 1000)
#define REM_SMALL_ANSWER 512u /* bytes of the body of an operation's answer */

/*
 * What the drives of a pool share: they belong to several loops, and connections ask on theirs. So it is under
 * a lock, which nobody holds for longer than it takes to look at some numbers. It stays until the server is freed.
 */
struct rem_pool {
        struct rem_pool *next; /* constant once it is in the list */
        uint32_t pool;
        pthread_mutex_t lock;
        struct rem_grant grant; /* under lock, as the next */
        bool prepared;          /* this node has a process that waits to lead it */
};

struct rem_server {
        struct rem_server_options options; /* constant once a drive is made */
        struct rem_pool *_Atomic pools;    /* added to under lock */
        struct rem_served *_Atomic served[REM_DRIVES_MAX];
        pthread_mutex_t lock;       /* drives are published one at a time */
        struct rem_served *retired; /* under lock: freed with the server, since a loop may still look at one */
        atomic_bool stopped, distrusts;
        atomic_uint note;
};

/* A superseded value that waits. owner: as its list */
struct rem_report {
        STAILQ_ENTRY(rem_report) link;
        struct eng_buf *value;
};

struct rem_served {
        struct rem_server *server;
        struct rem_served *next; /* retired */
        uint32_t pool;
        unsigned slot;
        struct lp_loop *owner;
        struct rem_pool *in;
        uint64_t incarnation;
        /* under in->lock */
        struct rem_before durable; /* its newest TERM record */
        struct eng_term serves;    /* that it has been OPENed by since it is served; none: not yet */
        /* constant once it is published */
        struct eng_drive *drive;
        struct eng_identity identity; /* features: owner's */
        /* any thread */
        atomic_uint refs;           /* one while it is served, one for each request; 0: gone */
        atomic_size_t append_bytes; /* that the bodies of APPENDs have */
        void (*gone)(void *arg);
        void *gone_arg;
        struct lp_msg gone_msg, stop_msg;
        /* each by its loop */
        unsigned slots[REM_LOOPS_MAX]; /* peer slots that it has, or waits for */
        /* owner: the loop */
        struct eng_term admitted; /* of the newest OPEN that went to the drive, or its newest TERM record */
        bool is_open;             /* such an OPEN has come */
        struct net_peer *holder;  /* whose session it is */
        uint64_t holder_boot, session, commits;
        struct served_request *watch;
        bool watch_timed;
        struct lp_timer watch_timer;
        STAILQ_HEAD(, rem_report) reports;
        uint64_t report_first; /* its number */
        size_t report_bytes;
        void *scratch; /* of SCRUB */
        bool scratch_out;
};

/* One request. owner: the connection's loop, then the drive's and the drive itself, then the connection's */
struct served_request {
        struct eng_op op; /* first */
        struct rem_served *served;
        struct net_request *request;
        struct lp_loop *at;
        struct rem_head head;
        struct lp_msg msg;
        /* at */
        void *slot;           /* of LP_SHARE_PEER; NULL: none */
        struct eng_buf *body; /* of an APPEND */
        /* what is answered */
        enum rem_status status;
        bool answers; /* the op has an answer, whose buffers are to be given back */
        struct eng_buf *values;
        uint8_t *more; /* a body longer than small; NULL: none */
        struct net_answer answer;
        uint8_t small[REM_SMALL_ANSWER];
};

/* drive_server.c */
/* On the owner loop: the answer is ready, or refused. */
void served_answer(struct served_request *r);
void served_refuse(struct served_request *r, enum rem_status status);
/* Any thread. It may be withdrawn meanwhile, and gone: served_get() tells. NULL: none. */
struct rem_served *server_find(struct rem_server *server, uint32_t pool, unsigned slot);
/* Any loop: the prefix of an answer, as the drive is now. */
void served_prefix(const struct rem_served *served, struct rem_prefix *out);
/* Owner. begins: an operation that begins a session. */
enum rem_status served_admit(struct rem_served *served, const struct served_request *r, bool begins);

/* Owner: whether what asks is the leader that the drive serves; REM_DONE, REM_DEPOSED, REM_NOT_OPEN. */
enum rem_status served_term_allows(const struct rem_served *served, const struct eng_term *term);
/* Any loop: the term is none, or of the node and boot that the connection is of. */
bool server_knows_term(const struct net_request *request, const struct eng_term *term);
/* Answers that a newer term is known; r->answer has nothing yet. */
void served_refuse_term(struct served_request *r, enum rem_status status, const struct eng_term *newest,
                        uint64_t left_ns);
uint64_t server_now(const struct rem_server *server);

/* served_term.c */
/* Owner. */
void served_open(struct lp_msg *msg);
/* On the connection's loop: PING, RELEASE, STATE. */
void server_pool_request(struct rem_server *server, struct net_request *request);
/* The pool, made if need be. NULL: no memory. */
struct rem_pool *server_pool(struct rem_server *server, uint32_t pool);
void server_pools_free(struct rem_server *server);
/* Any thread; under the server's lock. The drive is served from now on; not any more. */
void served_bind(struct rem_served *served);
void served_unbind(struct rem_served *served);
/* drive_server.c: any thread */
bool served_get(struct rem_served *served);
void served_put(struct rem_served *served);

/* served_op.c */
/* On the connection's loop: memory for the bulk of an APPEND or WRITE. */
enum net_bulk served_op_bulk(struct served_request *r, enum rem_status *refused);
void served_op(struct served_request *r);
void served_op_end(struct served_request *r); /* gives its memory back */

/* served_watch.c: owner */
/* Answers with what is known of the drive, behind `before` if that is not NULL. */
void served_facts_say(struct served_request *r, const struct rem_before *before);
void served_info(struct lp_msg *msg);
void served_watch(struct lp_msg *msg);
/* Answers what waits. */
void served_watch_kick(struct rem_served *served);
void served_watch_end(struct rem_served *served, enum rem_status status);
void served_reports_free(struct rem_served *served);

#endif
