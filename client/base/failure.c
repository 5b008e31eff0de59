/*
 * failure.c - the only place that turns answers of failure into errno values and lines for people.
 * Called by client_request.c and by whoever finds an error inside a 200 answer. Pure but for the
 * caller's struct.
 */
#include "client/base/failure.h"

#include "client/base/xml_answer.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct {
        const char *s3_code;
        int code;
} by_code[] = {
        {"NoSuchKey", -ENOENT},
        {"NoSuchBucket", -ENOENT},
        {"NoSuchUpload", -ENOENT},
        {"NoSuchVersion", -ENOENT},
        {"BucketAlreadyExists", -EEXIST},
        {"BucketAlreadyOwnedByYou", -EEXIST},
        {"PreconditionFailed", -EEXIST},
        {"BucketNotEmpty", -ENOTEMPTY},
        {"BadDigest", -EBADMSG},
        {"XAmzContentSHA256Mismatch", -EBADMSG},
        {"XAmzContentChecksumMismatch", -EBADMSG},
        {"SlowDown", -EBUSY},
        {"ServiceUnavailable", -EBUSY},
        {"TooManyRequests", -EBUSY},
        {"RequestTimeout", -ETIMEDOUT},
        {"InsufficientStorage", -ENOSPC},
        {"XMinioStorageFull", -ENOSPC},
        {"RequestTimeTooSkewed", -EACCES},
        {"ExpiredToken", -EACCES},
        {"InvalidToken", -EACCES},
        {"NotImplemented", -EREMOTEIO},
};

/* For answers without a document: HEAD, proxies. */
static const struct {
        int status;
        int code;
        const char *text;
} by_status[] = {
        {301, -EREMOTEIO, "the endpoint redirects; give the address it redirects to"},
        {307, -EREMOTEIO, "the endpoint redirects; give the address it redirects to"},
        {400, -EINVAL, "the request was refused as malformed"},
        {401, -EACCES, "not authorised"},
        {403, -EACCES, "access denied: check the access key, the secret key and the clock"},
        {404, -ENOENT, "not found"},
        {408, -ETIMEDOUT, "the endpoint waited too long for the request"},
        {412, -EEXIST, "a condition does not hold"},
        {416, -ESTALE, "the object is shorter than the range asked for"},
        {429, -EBUSY, "the endpoint asks for fewer requests"},
        {501, -EREMOTEIO, "not implemented by this endpoint"},
        {503, -EBUSY, "the endpoint is not ready or asks for fewer requests"},
        {507, -ENOSPC, "the store is full"},
};

static int failure_code(int status, const char *s3_code)
{
        for (size_t i = 0; i < sizeof(by_code) / sizeof(by_code[0]); i++)
                if (strcmp(by_code[i].s3_code, s3_code) == 0)
                        return by_code[i].code;
        for (size_t i = 0; i < sizeof(by_status) / sizeof(by_status[0]); i++)
                if (by_status[i].status == status)
                        return by_status[i].code;
        return status >= 400 && status < 500 ? -EINVAL : -EREMOTEIO;
}

static const char *text_of(int status)
{
        for (size_t i = 0; i < sizeof(by_status) / sizeof(by_status[0]); i++)
                if (by_status[i].status == status)
                        return by_status[i].text;
        return "the endpoint failed";
}

/* An answer's text goes to terminals and logs: one line, no control bytes. */
static void copy_line(char *out, size_t size, const char *text)
{
        size_t n = 0;

        for (; *text != '\0' && n + 1 < size; text++)
                out[n++] = (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text;
        out[n] = '\0';
}

static int take_error(void *arg, const struct mr_record *record)
{
        struct mr_error *err = arg;

        copy_line(err->s3_code, sizeof(err->s3_code), mr_record_get(record, "Code"));
        copy_line(err->message, sizeof(err->message), mr_record_get(record, "Message"));
        copy_line(err->request_id, sizeof(err->request_id), mr_record_get(record, "RequestId"));
        return 0;
}

int mr_failure_of_document(int status, const char *body, size_t len, const char *request_id, struct mr_error *err)
{
        struct mr_error found = {.http_status = status};

        if (len > 0)
                (void)mr_answer_read(body, len, "Error", 1, take_error, &found);
        found.code = failure_code(status, found.s3_code);
        if (found.message[0] == '\0')
                snprintf(found.message, sizeof(found.message), "%s (HTTP %d)", text_of(status), status);
        if (found.request_id[0] == '\0' && request_id != NULL)
                copy_line(found.request_id, sizeof(found.request_id), request_id);
        *err = found;
        return found.code;
}

int mr_failure_of_code(int status, const char *s3_code, struct mr_error *err)
{
        memset(err, 0, sizeof(*err));
        err->http_status = status;
        err->code = failure_code(status, s3_code);
        copy_line(err->s3_code, sizeof(err->s3_code), s3_code);
        snprintf(err->message, sizeof(err->message), "%s (HTTP %d)", text_of(status), status);
        return err->code;
}

int mr_failure(struct mr_error *err, int code, const char *format, ...)
{
        va_list args;

        if (err == NULL)
                return code;
        memset(err, 0, sizeof(*err));
        err->code = code;
        va_start(args, format);
        vsnprintf(err->message, sizeof(err->message), format, args);
        va_end(args);
        return code;
}

int mr_failure_errno(struct mr_error *err, int code)
{
        return mr_failure(err, code, "%s", code == -ECANCELED ? "canceled" : strerror(-code));
}
