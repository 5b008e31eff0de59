/*
 * doubt.c - what a failure is worth when an earlier attempt of the same request may have been
 * carried out: "it exists" may speak of what that attempt has made, and "access denied" says nothing
 * of it. client_request.c asks at the end of each attempt that failed; operation_small.c asks about
 * an error in a 200 answer, send_rdma.c when RDMA has ended without an answer. Pure.
 */
#include "client/http/client_request.h"

#include <errno.h>
#include <string.h>

static bool doubt_changes(const struct mr_request *request)
{
        return !request->reads && strcmp(request->method, "GET") != 0 && strcmp(request->method, "HEAD") != 0;
}

/* Codes that leave it open by themselves (millrace.h). */
static bool doubt_is_said(int code)
{
        return code == -EIO || code == -ETIMEDOUT || code == -EBUSY || code == -EREMOTEIO || code == -ECANCELED;
}

/* A bucket that is not there has no object that an attempt has made, or left. */
static bool doubt_is_void(const struct mr_request *request, const struct mr_error *err)
{
        return request->key != NULL && strcmp(err->s3_code, "NoSuchBucket") == 0;
}

bool mr_request_doubt(const struct mr_request *request, struct mr_error *err)
{
        static const char words[] = "; an earlier attempt, whose outcome is unknown, may have done it";
        size_t len = strlen(err->message), most = sizeof(err->message) - sizeof(words);

        if (!request->in_doubt || !doubt_changes(request) || doubt_is_said(err->code) || doubt_is_void(request, err))
                return false;
        err->code = -EIO;
        memcpy(err->message + (len < most ? len : most), words, sizeof(words));
        return true;
}
