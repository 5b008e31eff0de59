/*
 * error.c - the only place that turns results of the engine into S3 errors. Pure; any thread.
 *
 * What the table does not know is an InternalError: an errno the engine's header does not promise
 * is a bug, and must not look like an answer about the data.
 */
#include "gateway/http/error.h"

#include <errno.h>

#define ANY GW_ABOUT_ABOUTS

static const struct {
        int rv;
        enum gw_about about; /* ANY: all that no earlier row names */
        enum s3_error error;
} table[] = {
        {-ENOENT, GW_ABOUT_BUCKET, S3_ERR_NO_SUCH_BUCKET},
        {-ENOENT, GW_ABOUT_BUCKET_NEW, S3_ERR_NO_SUCH_BUCKET},
        {-ENOENT, GW_ABOUT_KEY, S3_ERR_NO_SUCH_KEY},
        {-ENOENT, GW_ABOUT_WRITE, S3_ERR_NO_SUCH_KEY}, /* If-Match on a key that is not there */
        {-ENOENT, GW_ABOUT_UPLOAD, S3_ERR_NO_SUCH_UPLOAD},
        {-ENOENT, GW_ABOUT_COMPLETE, S3_ERR_NO_SUCH_UPLOAD},
        {-EIDRM, ANY, S3_ERR_NO_SUCH_BUCKET},
        {-EEXIST, GW_ABOUT_BUCKET_NEW, S3_ERR_BUCKET_ALREADY_OWNED},
        {-EEXIST, ANY, S3_ERR_PRECONDITION_FAILED},
        {-ESTALE, ANY, S3_ERR_PRECONDITION_FAILED},
        {-EBUSY, GW_ABOUT_BUCKET, S3_ERR_BUCKET_NOT_EMPTY},
        {-EBUSY, GW_ABOUT_BUCKET_NEW, S3_ERR_OPERATION_ABORTED},
        {-EBUSY, ANY, S3_ERR_SLOW_DOWN}, /* ENG_GET_BUSY */
        {-EINVAL, GW_ABOUT_COMPLETE, S3_ERR_INVALID_PART},
        {-E2BIG, GW_ABOUT_COMPLETE, S3_ERR_ENTITY_TOO_LARGE},
        {-E2BIG, ANY, S3_ERR_ENTITY_TOO_LARGE}, /* tags do not fit beside the parts of a large object */
        {-EAGAIN, ANY, S3_ERR_SLOW_DOWN},
        {-EROFS, ANY, S3_ERR_SLOW_DOWN},
        {-ENOMEM, ANY, S3_ERR_SLOW_DOWN},
        {-ETIMEDOUT, ANY, S3_ERR_SLOW_DOWN},
        {-ENOSPC, ANY, S3_ERR_INSUFFICIENT_STORAGE},
        {-EHOSTDOWN, ANY, S3_ERR_SERVICE_UNAVAILABLE},
        {-EACCES, ANY, S3_ERR_ACCESS_DENIED}, /* retention or a legal hold protects it */
        {-ENODATA, ANY, S3_ERR_METHOD_NOT_ALLOWED}, /* of a delete marker */
        {-ENOLCK, ANY, S3_ERR_INVALID_REQUEST}, /* the bucket has no object lock */
        {-EIO, ANY, S3_ERR_INTERNAL_ERROR},
};

enum s3_error gw_error_of(int rv, enum gw_about about)
{
        if (rv == 0)
                return S3_OK;
        for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
                if (table[i].rv == rv && (table[i].about == about || table[i].about == ANY))
                        return table[i].error;
        }
        return S3_ERR_INTERNAL_ERROR;
}
