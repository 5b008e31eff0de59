/*
 * etcd_client.h - the real client of etcd: what its thread owns.
 */
#ifndef MILLRACE_CLUSTER_ETCD_CLIENT_H
#define MILLRACE_CLUSTER_ETCD_CLIENT_H

#include <curl/curl.h>
#include <pthread.h>

#include "cluster/etcd_read.h"
#include "cluster/etcd_write.h"
#include "cluster_etcd.h"

#define ETCD_RUNNING_MAX 32u         /* HTTP requests at once */
#define ETCD_BODY_MAX    (16u << 20) /* of a page, or of a transaction's answer */
#define ETCD_SMALL_MAX   (64u << 10) /* of other answers */
#define ETCD_URL_MAX     300u
#define ETCD_RESTARTS    3u /* of a range whose revision was compacted between two pages */
#define ETCD_RENEWALS    2u /* of the token, for one request */

struct etcd_client;

/* One HTTP request. owner: the client's thread, as all below that is not said to be another's */
struct etcd_attempt {
        CURL *curl; /* NULL: none runs */
        struct curl_slist *lines;
        char *body;
        char *in;
        size_t in_len, in_room, in_max;
        bool once; /* it changes something */
        bool sent; /* a byte of it may have left: libcurl had a connection, and was about to send */
        bool too_large;
        char url[ETCD_URL_MAX];
        char text[CURL_ERROR_SIZE];
};

enum etcd_call_state {
        CALL_READY,   /* waits for its turn */
        CALL_RUNNING, /* an attempt is under way */
        CALL_PAUSED,  /* waits for `due` */
        CALL_LOGIN    /* waits for a token */
};

struct etcd_call {
        struct etcd_call *next, *prev;
        struct etcd_client *client;
        struct cl_request *request; /* NULL: a login */
        bool changes;
        enum etcd_call_state state;
        uint64_t deadline, due; /* lp_clock() scale */
        unsigned tries, renewals, restarts, endpoint;
        uint64_t token_serial;
        struct cl_seen floor; /* what was known when the attempt began: an answer shows no less */
        struct etcd_attempt attempt;
        /* of the last attempt that failed */
        int error;
        char text[CL_TEXT_MAX];
        /* RANGE */
        struct cl_answer *answer;
        struct etcd_page page;
};

struct etcd_client {
        struct cl_etcd base;

        /* constant */
        char *endpoints[CL_ENDPOINTS_MAX];
        unsigned endpoint_count;
        char *ca_file, *cert_file, *key_file, *user, *password;
        uint64_t timeout_ns;
        long connect_ms;
        void (*violated)(void *arg, enum cl_verdict verdict);
        void *arg;
        CURLM *multi;
        pthread_t thread;

        atomic_uint queued; /* any thread: requests that are not answered */

        /* guarded by lock */
        pthread_mutex_t lock;
        struct etcd_call *inbox_first, *inbox_last;
        bool ending;
        struct cl_seen seen;
        enum cl_verdict verdict; /* but FINE: for good */

        /* owner: the client's thread */
        struct etcd_call *first, *last;
        unsigned running;
        unsigned current; /* the endpoint that is asked first */
        char token[ETCD_TOKEN_MAX];
        uint64_t token_serial; /* 0: there is no token */
        uint64_t token_next;
        bool login_runs;
};

/* ---- etcd_attempt.c -------------------------------------------------------------------------- */

/*
 * Begins an HTTP request to call->endpoint; `body` becomes the attempt's. 0, -ENOMEM, or -EINVAL: the
 * certificates or the address cannot be used. It ends with etcd_call_over().
 */
int etcd_attempt_begin(struct etcd_call *call, const char *path, char *body, size_t len, size_t answer_max,
                       uint64_t limit_ns);
/* Ends it, if it runs: nothing is left of it but `sent`, `too_large` and `text`. */
void etcd_attempt_end(struct etcd_call *call);

/* ---- etcd_call.c ----------------------------------------------------------------------------- */

/* Looks at what the call waits for, and goes on with it. May free the call. */
void etcd_call_look(struct etcd_call *call, uint64_t now);
/* libcurl has finished the attempt. May free the call, and others that waited for the token. */
void etcd_call_over(struct etcd_call *call, CURLcode code);
/* The client ends: answers the call, and frees it. */
void etcd_call_cancel(struct etcd_call *call);

/* ---- etcd_client.c --------------------------------------------------------------------------- */

void etcd_client_add(struct etcd_client *client, struct etcd_call *call);
void etcd_client_remove(struct etcd_client *client, struct etcd_call *call);
/* What is known now. */
enum cl_verdict etcd_client_verdict(struct etcd_client *client, struct cl_seen *seen);
/* Judges an answer's header (R2), and remembers what it shows. */
enum cl_verdict etcd_client_judge(struct etcd_client *client, const struct cl_seen *floor,
                                  const struct etcd_header *header);

#endif
