/* upload.h - one upload in parts. Private to client/. */
#ifndef CLIENT_UPLOAD_H
#define CLIENT_UPLOAD_H

#include "client/http/client_request.h"
#include "client/transfer/send.h"
#include "client/base/object_check.h"

#define MR_UPLOAD_ID_MAX 2048
#define MR_META_NAMES    (16u << 10)

/*
 * What a PUT, or an upload in parts, says of the object beside its bytes. Strings are referenced.
 */
struct mr_put_head {
        const char *bucket, *key;
        const char *content_type;         /* NULL: not sent */
        const struct mr_header *metadata; /* x-amz-meta-NAME: value */
        unsigned metadata_count;
        bool if_none_match;
        const char *if_match; /* NULL: none */
};

struct mr_put_done {
        uint64_t size;
        unsigned parts; /* 0: one PUT */
        char etag[96], version_id[128];
        enum mr_transport carried; /* RDMA: all of its bytes */
};

/*
 * Sets the headers of a PUT or of a new upload. names is the buffer their names lie in; it lives as
 * long as the request. -E2BIG.
 */
int mr_put_headers(const struct mr_put_head *head, struct mr_request *request, char names[MR_META_NAMES]);
/* The conditions, of what makes the object visible. */
void mr_put_conditions(const struct mr_put_head *head, struct mr_request *request, char quoted[100]);
/* The checksum that settings ask for; false: none. */
bool mr_put_checksum(const struct mr_client *client, enum s3_checksum *out);

/* What completing needs to know of a part. */
struct mr_part {
        char etag[96]; /* as answered, with quotes; "": not there */
        uint64_t len;
        uint8_t sum[S3_CHECKSUM_MAX];
};

/* owner: its maker; functions may be called by any thread */
struct mr_upload_steps {
        unsigned magic; /* object_check.h */
        /* constant once it was created */
        struct mr_client *client;
        const struct mr_put_head *head;
        char id[MR_UPLOAD_ID_MAX]; /* "": it does not exist at the endpoint */
        bool has_checksum;
        enum s3_checksum checksum;

        const atomic_bool *canceled; /* as in struct mr_request: ends what is under way, but not the abort */
        atomic_bool stop;            /* any thread: a part has failed */

        /* guarded by lock */
        pthread_mutex_t lock;
        struct mr_part *part; /* [0] is part number 1 */
        uint32_t parts, parts_cap;

        /* owner: the one request of creation, completion, abort that is under way */
        struct mr_request request;
        char *names, *body, size_text[24], sum_text[S3_CHECKSUM_TEXT], if_match[100];
        struct mr_put_done result;
        struct mr_error error; /* of the step; of the completion, where an abort followed it */
        int rv;
        void (*done)(void *arg, int rv);
        void *done_arg;
};

void mr_upload_init(struct mr_upload_steps *steps, struct mr_client *client, const struct mr_put_head *head);
void mr_upload_free(struct mr_upload_steps *steps);

/*
 * The steps, one at a time. 0: done() will be called, on a loop or worker, perhaps before this
 * returns; else nothing was begun and error is filled. create: an upload that is created must be
 * completed or dropped. complete: where it fails the upload has been aborted. drop: the abort, also
 * after a cancellation; nothing to do is -EALREADY.
 */
int mr_upload_create(struct mr_upload_steps *steps, void (*done)(void *arg, int rv), void *arg);
int mr_upload_complete(struct mr_upload_steps *steps, void (*done)(void *arg, int rv), void *arg);
int mr_upload_drop(struct mr_upload_steps *steps, void (*done)(void *arg, int rv), void *arg);

/* One part under way. owner: the caller; request's body is set by it, everything else zeroed */
struct mr_part_upload {
        unsigned magic; /* object_check.h */
        struct mr_upload_steps *steps;
        uint32_t number;           /* from 1 */
        struct mr_request request; /* its canceled, where it is set, is the part's own */
        struct mr_send send;       /* its transport and buffer are set with the body */
        char number_text[16];
        struct mr_error error;
        void (*done)(void *arg, struct mr_part_upload *part, int rv);
        void *done_arg;
};

/*
 * Uploads a part and notes the result. 0: done() will be called; else nothing was begun and error
 * is filled.
 */
int mr_part_start(struct mr_part_upload *part);

#endif
