/*
 * error_detail.c - what S3 adds to an error document beside code and message: the thing that was
 * missing, the argument that was wrong.
 *
 * Called by reply.c and by the operations, on the request's loop. Texts are in the request's arena.
 */
#include "gateway/http/http_request.h"

#include <stdlib.h>

#define DETAIL_MAX (64u << 10)

const char *gw_detail_xml(struct gw_request *req, struct s3_xml *xml)
{
        char *text, *copy;
        size_t len;

        if (s3_xml_take(xml, &text, &len) != 0) {
                s3_xml_free(xml);
                return NULL;
        }
        copy = gw_copy(req, (struct s3_str){text, len});
        free(text);
        return copy;
}

const char *gw_detail(struct gw_request *req, const char *name, struct s3_str value, const char *name2,
                      struct s3_str value2)
{
        struct s3_xml xml;

        s3_xml_init(&xml, DETAIL_MAX);
        s3_xml_text(&xml, name, value);
        if (name2 != NULL)
                s3_xml_text(&xml, name2, value2);
        return gw_detail_xml(req, &xml);
}

/* What a method was not allowed on. */
static struct s3_str resource_type(const struct gw_request *req)
{
        if (req->key.len > 0)
                return gw_query_has(req, "uploadId") ? S3_STR("UPLOAD") : S3_STR("OBJECT");
        return req->bucket.len > 0 ? S3_STR("BUCKET") : S3_STR("SERVICE");
}

/*
 * The condition that failed, where the request has just one: which of several it was is not known
 * here.
 */
static const char *condition_of(const struct gw_request *req)
{
        static const char *const names[] = {
                "If-Match",
                "If-Unmodified-Since",
                "If-None-Match",
                "If-Modified-Since",
                "x-amz-copy-source-If-Match",
                "x-amz-copy-source-If-Unmodified-Since",
                "x-amz-copy-source-If-None-Match",
                "x-amz-copy-source-If-Modified-Since",
                "x-amz-if-match-last-modified-time",
                "x-amz-if-match-size",
        };
        const char *found = NULL;

        for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (gw_header(req, names[i]).data == NULL)
                        continue;
                if (found != NULL)
                        return NULL;
                found = names[i];
        }
        return found;
}

const char *gw_detail_of(struct gw_request *req, enum s3_error error)
{
        const struct s3_str none = {NULL, 0};
        const char *condition;

        switch (error) {
        case S3_ERR_NO_SUCH_BUCKET:
        case S3_ERR_INVALID_BUCKET_NAME:
        case S3_ERR_BUCKET_NOT_EMPTY:
        case S3_ERR_BUCKET_ALREADY_OWNED:
                return gw_detail(req, "BucketName", req->bucket, NULL, none);
        case S3_ERR_NO_SUCH_KEY:
                return gw_detail(req, "Key", req->key, NULL, none);
        case S3_ERR_NO_SUCH_UPLOAD:
                return gw_detail(req, "UploadId", gw_query(req, "uploadId"), NULL, none);
        case S3_ERR_INVALID_DIGEST:
                return gw_detail(req, "Content-MD5", gw_header(req, "Content-MD5"), NULL, none);
        case S3_ERR_NOT_IMPLEMENTED:
                return req->refused_header != NULL ? gw_detail(req, "Header", s3_str_of(req->refused_header), NULL, none) : NULL;
        case S3_ERR_METHOD_NOT_ALLOWED:
                return gw_detail(req, "Method", req->method, "ResourceType", resource_type(req));
        case S3_ERR_PRECONDITION_FAILED:
                condition = condition_of(req);
                return condition != NULL ? gw_detail(req, "Condition", s3_str_of(condition), NULL, none) : NULL;
        default:
                return NULL;
        }
}

void gw_reply_argument(struct gw_request *req, const char *name, struct s3_str value, const char *message)
{
        gw_reply_error_extra(req, S3_ERR_INVALID_ARGUMENT, message,
                             gw_detail(req, "ArgumentName", s3_str_of(name), "ArgumentValue", value));
}
