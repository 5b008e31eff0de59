/*
 * doubt.c - what a failure is worth when an earlier attempt of the same request may have been
 * carried out: "it exists" may speak of what that attempt has made, and then the outcome is not
 * known. client_request.c asks after each attempt that failed; operation_small.c asks about an error
 * in a 200 answer, send_rdma.c when RDMA has ended without one. Pure.
 */
#include "client/http/client_request.h"

#include <errno.h>
#include <string.h>

/* Answers to a repetition of what was done. */
static const char *const doubt_codes[] = {
        "PreconditionFailed",  "ConditionalRequestConflict", "BucketAlreadyExists", "BucketAlreadyOwnedByYou",
        "RDMARequestRepeated",
};

static bool doubt_changes(const struct mr_request *request)
{
        return strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0;
}

/* What a DELETE may have deleted, and the completion of an upload completed. */
static bool doubt_of_absence(const struct mr_request *request, const struct mr_error *err)
{
        if (strcmp(request->method, "POST") == 0)
                return strcmp(err->s3_code, "NoSuchUpload") == 0;
        if (strcmp(request->method, "DELETE") != 0 || err->http_status != 404)
                return false;
        /* the bucket of a key is not what the request deletes */
        return strcmp(err->s3_code, "NoSuchBucket") != 0 || (request->key == NULL && request->query_count == 0);
}

static bool doubt_explains(const struct mr_request *request, const struct mr_error *err)
{
        for (size_t i = 0; i < sizeof(doubt_codes) / sizeof(doubt_codes[0]); i++)
                if (strcmp(doubt_codes[i], err->s3_code) == 0)
                        return true;
        return err->http_status == 412 || doubt_of_absence(request, err);
}

/* It would be read as "nothing was done". */
static bool doubt_denied(const struct mr_error *err)
{
        return err->http_status == 0 && (err->code == -ECONNREFUSED || err->code == -EOPNOTSUPP);
}

bool mr_request_doubt(const struct mr_request *request, struct mr_error *err)
{
        static const char words[] = "; an earlier attempt, whose outcome is unknown, may have done it";
        size_t len = strlen(err->message), most = sizeof(err->message) - sizeof(words);

        if (!request->in_doubt || !doubt_changes(request) || (!doubt_explains(request, err) && !doubt_denied(err)))
                return false;
        if (err->code == -EIO) /* asked before */
                return true;
        err->code = -EIO;
        memcpy(err->message + (len < most ? len : most), words, sizeof(words));
        return true;
}
