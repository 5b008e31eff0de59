/* upload.h - one upload in parts. Private to this folder. */
#ifndef CLIENT_UPLOAD_H
#define CLIENT_UPLOAD_H

#include "request.h"

#define MR_UPLOAD_ID_MAX 2048

/* What completing needs to know of a part. */
struct mr_part {
        char etag[96]; /* as answered, with quotes */
        uint64_t len;
        uint8_t sum[S3_CHECKSUM_MAX];
        bool done;
};

struct mr_upload_run {
        /* constant while parts are uploaded */
        struct mr_client *client;
        const struct mr_put_fd *put;
        char id[MR_UPLOAD_ID_MAX];
        bool has_checksum;
        enum s3_checksum checksum;

        atomic_bool failed; /* any thread */

        /* guarded by lock */
        pthread_mutex_t lock;
        pthread_cond_t room;  /* the source waits for memory */
        struct mr_part *part; /* [0] is part number 1 */
        uint32_t parts, parts_cap;
        uint64_t memory;       /* of a stream's buffers under way */
        struct mr_error error; /* the first one */
};

/* Sets the headers of a PUT or of a new upload that the caller of mr_put_fd() chose. names is the buffer their names lie
 * in. */
#define MR_META_NAMES (16u << 10)
int mr_put_headers(const struct mr_put_fd *put, struct mr_request *request, char names[MR_META_NAMES]);
/* The checksum that settings ask for; false: none. */
bool mr_put_checksum(const struct mr_client *client, enum s3_checksum *out);

/* Begins an upload; it must be completed or aborted, and then freed. */
int mr_upload_begin(struct mr_client *client, const struct mr_put_fd *put, struct mr_upload_run *run,
                    struct mr_error *err);
/* Any thread, many at once. Uploads part number (1-based) whose body the request holds already, and notes the result.
 * On failure run->failed is set, which ends the other parts. */
void mr_upload_part(struct mr_upload_run *run, uint32_t number, struct mr_request *request);
/* Notes a failure that happened outside a request. */
void mr_upload_fail(struct mr_upload_run *run, int code, const char *text);
/* After all parts: completes the upload where none failed, else aborts it; frees run's memory. The result of the
 * whole upload. */
int mr_upload_end(struct mr_upload_run *run, struct mr_put_fd_result *out, struct mr_error *err);

#endif
