/* client_request.h - one S3 request with its retries. Private to client/. */
#ifndef CLIENT_REQUEST_H
#define CLIENT_REQUEST_H

#include <curl/curl.h>

#include "client/base/core.h"
#include "client/base/failure.h"
#include "client/base/workers.h"
#include "rdma_wire.h"
#include "s3.h"
#include "client/base/object_check.h"

#define MR_QUERY_MAX   8
#define MR_HEADERS_MAX 48
#define MR_ANSWER_MAX  (16u << 20) /* bytes of an answer that is kept in memory */

struct mr_pair {
        const char *name, *value; /* a query parameter's value may be NULL: "?uploads" */
};

/* owner: whoever has the request */
struct mr_response {
        int status;
        unsigned header_count;
        struct mr_header header[MR_HEADERS_MAX]; /* names in lower case */
        size_t body_len, body_cap;
        char *body; /* NUL-terminated, or NULL if there was none */
};

struct mr_attempt;
struct mr_request;

/* What a loop tells a request that it sends, on its thread. */
struct mr_request_events {
        /* Its turn has come, perhaps long after it was prepared. An errno ends the attempt. */
        int (*begin)(struct mr_request *request);
        /* The attempt ended with code: done, or another one after a pause. */
        void (*over)(struct mr_request *request, struct mr_loop *loop, CURLcode code);
        void (*ready_again)(struct mr_request *request); /* the pause is over */
        void (*canceled)(struct mr_request *request);
};

/* What requests of an RDMA session are signed with and name. */
struct mr_session_key {
        char id[2 * RDX_ID_LEN + 1]; /* x-millrace-rdma-session */
        char access_key[RDX_ACCESS_KEY_LEN + 1];
        char secret[RDX_SECRET_LEN + 1];
        unsigned endpoint; /* that has the session */
};

/* What a request was signed with. owner: the request's */
struct mr_signed {
        struct s3_signing_key key; /* secret */
        uint64_t generation;       /* of the credentials */
        int64_t expires_s;         /* theirs; 0: never */
};

/*
 * owner: the caller until mr_request_start(), and again from done() on; between, one thread of the
 * client at a time: the one that begins it, a worker that prepares it, the loop that sends it.
 * Strings are referenced until done().
 */
struct mr_request {
        unsigned magic; /* object_check.h */
        const char *method;
        const char *bucket, *key; /* NULL: none; not escaped */
        struct mr_pair query[MR_QUERY_MAX];
        unsigned query_count;
        struct mr_pair header[MR_HEADERS_MAX];
        unsigned header_count;

        const char *admin_path;               /* instead of bucket and key: a path of the admin listener */
        bool unsigned_request, once;          /* no signature; no retries, and any answer will do */
        bool single;                          /* no retries: the caller does that */
        bool reads;                           /* a POST that changes nothing */
        bool fresh; /* over a new connection: what goes over a kept one is sent twice by curl where that has died */
        unsigned limit_ms;                    /* of an attempt as a whole; 0: none */
        const struct mr_session_key *session; /* signed by its key, sent to its endpoint; may be NULL */
        const unsigned *only;                 /* the endpoint that it goes to; NULL: one is chosen for each attempt */
        struct mr_signed *signed_by;          /* gets what signed it; may be NULL */
        unsigned shunned;                     /* mask of endpoints to be used only where no other is up */
        const char *service;                  /* that it is signed for; NULL: s3 */
        bool signed_body;                     /* whatever the settings say */
        bool urgent;                          /* also when the client was canceled */
        const atomic_bool *stop,
                *canceled; /* set by others, who then call mr_core_wake(): end the request with -ECANCELED; may be NULL. stop: by
                                               something that failed beside it; canceled: by the program */

        /* body: len bytes, from memory or, where data is NULL, from a file at offset */
        const char *data;
        int fd;
        uint64_t offset, len;
        bool by_window;    /* data is summed, but not sent: the server reads it by RDMA */
        bool has_checksum; /* computed and sent along, into sum below */
        enum s3_checksum checksum;
        uint8_t sum[S3_CHECKSUM_MAX];

        /*
         * What a 2xx answer's body goes to; NULL: into the response. A negative errno ends the
         * request with it. At the end of a 2xx answer check() is asked (may be NULL): -EAGAIN and
         * -EBADMSG are failures to be tried again. Before each attempt but the first again() is
         * asked (may be NULL): it may change headers; an errno ends the request. All of them on a
         * loop: they must not wait.
         */
        int (*sink)(void *arg, const struct mr_response *response, const void *data, size_t len);
        int (*check)(void *arg, const struct mr_response *response, struct mr_error *err);
        int (*again)(void *arg, struct mr_request *request);
        void *sink_arg;
        uint32_t piece; /* bytes that curl takes of the answer at a time; 0: many, as large answers want */

        mr_progress_fn progress; /* of the body sent */
        void *progress_arg;

        /* The end: on a loop or a worker, the last that touches the request; must not wait. */
        void (*done)(void *arg, struct mr_request *request, int rv);
        void *done_arg;

        /*
         * what came of it; the response is whole only on success and, with `once`, for any answer
         */
        struct mr_response response;
        struct mr_error error;
        bool went_out; /* an attempt of it was begun */
        /*
         * An attempt of it was sent, and its outcome is not known. Stays when the request is started
         * again, by whatever transport; zeroed by the caller.
         */
        bool in_doubt;
        unsigned sends; /* times that the latest attempt was sent: curl repeats it where a kept connection has died */
        bool may_pass; /* of a failure: it may be another at the next attempt */
        struct mr_endpoint_use use; /* its index: the endpoint of the latest attempt */

        /* private to client_request.c and curl_loop.c; zeroed by the caller */
        struct mr_client *client;
        const struct mr_request_events *events;
        struct mr_attempt *attempt;
        struct mr_job job;
        struct mr_request *next, *prev;
        CURL *curl;
        int64_t due_ms;
        unsigned number; /* of the attempt */
        unsigned tried;  /* mask of the endpoints at which an attempt failed */
        bool hashed, renewed;
        char payload[2 * S3_SHA256_LEN + 1];
        uint64_t key_generation; /* of the credentials that signed it */
};

void mr_request_query(struct mr_request *request, const char *name, const char *value);
void mr_request_header(struct mr_request *request, const char *name, const char *value);

/*
 * Makes the request until it is answered by a 2xx, the failure is a lasting one, or attempts run
 * out. 0: done() will be called, perhaps before this returns, by another thread; else nothing was
 * begun and error is filled. The response must be freed in every case.
 */
int mr_request_start(struct mr_client *client, struct mr_request *request);
/* The same, and waits. err may be NULL. Not on a thread of the client's. */
int mr_request_run(struct mr_client *client, struct mr_request *request, struct mr_response *response,
                   struct mr_error *err);

void mr_response_free(struct mr_response *response);
void mr_response_clear(struct mr_response *response); /* for another answer */
int mr_response_add_line(struct mr_response *response, const char *data, size_t len);
int mr_response_add_body(struct mr_response *response, const void *data, size_t len);
const char *mr_response_header(const struct mr_response *response, const char *name); /* lower case; NULL: none */
/* What an answer that is no success means: fills err from status and body, returns err->code. */
int mr_failure_of_answer(const struct mr_response *response, struct mr_error *err);

/*
 * After a failure that err describes: true where it would be read as "nothing was done", and an
 * attempt in doubt may have done it. err is -EIO then, and says so.
 */
bool mr_request_doubt(const struct mr_request *request, struct mr_error *err);

/* ---- for attempt.c, curl_loop.c and request_queue.c ------------------------------------------ */

/* Somebody wants it to end. */
bool mr_request_stopped(const struct mr_request *request);
/* Sets a handle up for an attempt. */
void mr_request_set(struct mr_request *request, CURL *curl);

#endif
