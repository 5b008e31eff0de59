/*
 * run.h - one run of the load generator: its connections and what they are about to say. Private to
 * this folder; everything is the running thread's.
 */
#ifndef LOAD_RUN_H
#define LOAD_RUN_H

#include <netdb.h>
#include <sys/types.h>

#include "load.h"
#include "load/parser.h"
#include "load/target.h"

#define LOAD_ETAG_SIZE 80u

struct load_tls; /* load_tls.h */
struct ssl_st;

enum load_conn_state { LOAD_CLOSED, LOAD_CONNECTING, LOAD_SHAKING_HANDS, LOAD_SENDING, LOAD_RECEIVING };

/* One connection and the operation on it. */
struct load_conn {
        int fd;
        unsigned server;    /* of the settings, for good */
        struct ssl_st *ssl; /* NULL: http */
        enum load_conn_state state;
        enum load_phase op;               /* what its operation is */
        bool busy, reused;                /* has an operation; has answered before */
        bool paused;                      /* its upload's next part is not due yet */
        uint64_t key, since_ns;           /* of the operation; a latency counts from then */
        uint64_t alive_ns;                /* when its request began, or last lost bytes to the server */
        char head[LOAD_TARGET_MAX + 512]; /* of the request; then text of a small answer */
        size_t head_len, text_len;
        const char *body;              /* a document; NULL: the object's bytes from `from` on */
        uint64_t from, body_len, sent; /* sent: of head and body together */
        struct load_parser parser;
        uint64_t entries; /* of a list */
        unsigned matched; /* bytes of "<Contents>" just seen */
        /* multipart */
        uint64_t step, parts; /* 0: create; 1..parts; parts + 1: complete */
        char upload_id[512];
        char (*etags)[LOAD_ETAG_SIZE];
        char *document;
};

/* The whole run. */
struct load_run {
        const struct load_settings *settings;
        const struct load_watch *watch;
        struct load_signer signer;
        struct load_result *result;
        struct addrinfo *addresses[LOAD_SERVERS_MAX], *address[LOAD_SERVERS_MAX]; /* all of each host, and the one used */
        struct load_tls *tls;                 /* NULL: http */
        struct load_conn *conns;
        struct load_conn **idle; /* connections without an operation */
        unsigned idle_count, busy_count;
        struct load_conn **paused; /* a ring of uploads, the one that waits longest first */
        unsigned paused_first, paused_count;
        uint64_t paced; /* bytes in requests that have begun */
        char **ready;   /* targets made before the clock started, each for all servers in turn */
        uint64_t ready_count;
        char *pattern, *receive;
        int epoll_fd;
        uint64_t issued, start_ns, end_ns, last_ns;
        uint64_t second_ns, moment_ns; /* when timeouts, and the watch, have their next turn */
        unsigned told;                 /* failures explained */
        bool over;                     /* no more operations begin */
};

#define LOAD_RECEIVE (256u << 10) /* bytes of run->receive */

/* ---- conn.c ---------------------------------------------------------------------------------- */

/* A line for whoever looks on. */
void load_tell(const struct load_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Makes and sends an operation's next request; an upload's steps behind the first have a number. */
void load_send_request(struct load_run *run, struct load_conn *conn, bool first);
/* What epoll has to say of a connection. */
void load_conn_event(struct load_run *run, struct load_conn *conn, uint32_t events);
/* The operation ends, and the connection with it, which is idle then. */
void load_fail(struct load_run *run, struct load_conn *conn, enum load_failure kind, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
void load_conn_close(struct load_conn *conn);

/* ---- load_request.c -------------------------------------------------------------------------- */

/*
 * Prepares an operation's first request; the next one of a multipart upload, by conn->step. 0 or a
 * negative errno.
 */
int load_first_request(struct load_run *run, struct load_conn *conn, uint64_t index);
int load_multipart_request(struct load_run *run, struct load_conn *conn);
/*
 * Takes from a multipart answer what the next step needs. 1: the upload is whole; 0: there is a
 * next step; -EPROTO.
 */
int load_multipart_advance(struct load_conn *conn);
/* Signs what can be foreseen. 0 or a negative errno. */
int load_make_ready(struct load_run *run);

/* ---- answer.c -------------------------------------------------------------------------------- */

/* Counts "<Contents>" in conn->entries, however it is cut. */
void load_count_entries(struct load_conn *conn, const char *data, size_t len);

/* owner: one call of load_parser_feed() */
struct load_receiving {
        const struct load_run *run;
        struct load_conn *conn;
};
/* A load_body_fn: takes from a body what is to be had of it. -EBADMSG: not the object's bytes. */
int load_take_body(void *receiving, uint64_t offset, const char *data, size_t len);
/* NULL, or what is wrong with the length of an answer. */
const char *load_wrong_length(const struct load_settings *settings, const struct load_conn *conn);

#endif
