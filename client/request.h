/* request.h - one S3 request with its retries. Private to this folder. */
#ifndef CLIENT_REQUEST_H
#define CLIENT_REQUEST_H

#include "core.h"
#include "s3.h"

#define MR_QUERY_MAX   8
#define MR_HEADERS_MAX 48
#define MR_ANSWER_MAX  (16u << 20) /* bytes of an answer that is kept in memory */

struct mr_pair {
        const char *name, *value; /* a query parameter's value may be NULL: "?uploads" */
};

struct mr_response;

/* owner: the thread that makes the request. Strings are referenced until mr_request_run() returns. */
struct mr_request {
        const char *method;
        const char *bucket, *key; /* NULL: none; not escaped */
        struct mr_pair query[MR_QUERY_MAX];
        unsigned query_count;
        struct mr_pair header[MR_HEADERS_MAX];
        unsigned header_count;

        const char *admin_path;      /* instead of bucket and key: a path of the admin listener */
        bool unsigned_request, once; /* no signature; no retries */
        bool urgent;                 /* also when the client was canceled */
        const atomic_bool *stop;     /* set by others: ends the request with -ECANCELED; may be NULL */

        /* body: len bytes, from memory or, where data is NULL, from a file at offset */
        const char *data;
        int fd;
        uint64_t offset, len;
        bool has_checksum; /* computed before each attempt and sent along, into sum below */
        enum s3_checksum checksum;
        uint8_t sum[S3_CHECKSUM_MAX];

        /*
         * What a 2xx answer's body goes to; NULL: into the response. Negative errno ends the request with it. Before
         * each attempt but the first again() is asked: it may change headers; an errno ends the request.
         */
        int (*sink)(void *arg, const struct mr_response *response, const void *data, size_t len);
        int (*again)(void *arg, struct mr_request *request);
        void *sink_arg;

        mr_progress_fn progress; /* of the body sent */
        void *progress_arg;
};

/* owner: the thread that makes the request */
struct mr_response {
        int status;
        unsigned header_count;
        struct mr_header header[MR_HEADERS_MAX]; /* names in lower case */
        size_t body_len, body_cap;
        char *body; /* NUL-terminated, or NULL if there was none */
};

void mr_request_query(struct mr_request *request, const char *name, const char *value);
void mr_request_header(struct mr_request *request, const char *name, const char *value);

/*
 * Makes the request until it is answered by a 2xx, the failure is a lasting one, or attempts run out. The response is
 * whole only on success and, with `once`, for any answer; it must be freed in every case.
 */
int mr_request_run(struct mr_client *client, struct mr_request *request, struct mr_response *response,
                   struct mr_error *err);
void mr_response_free(struct mr_response *response);
const char *mr_response_header(const struct mr_response *response, const char *name); /* lower case; NULL: none */

/* ---- failures (failure.c) ------------------------------------------------------------------------ */

/* What an answer that is no success means: fills err from status and body, returns err->code. */
int mr_failure_of_answer(const struct mr_response *response, struct mr_error *err);
/* Fills err for a failure without an answer; returns code. */
int mr_failure(struct mr_error *err, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
