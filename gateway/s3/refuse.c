/*
 * refuse.c - answers to requests for what is not there: an operation, or what a header means. On
 * the request's loop.
 */
#include "gateway/s3/refuse.h"

#include "gateway/s3/head.h"
#include "gateway/s3/route.h"
#include "gateway/s3/sub_resource.h"

void gw_refuse_header(struct gw_request *req, const char *name)
{
        req->refused_header = name;
        gw_reply_error(req, S3_ERR_NOT_IMPLEMENTED, "A header you provided implies functionality that is not implemented.");
}

/* RFC 9110 wants Allow with 405. */
static void allow_header(struct gw_request *req)
{
        char methods[GW_ALLOW_SIZE];

        gw_route_allowed(req->method, gw_scope_of(req), req->query, req->key, methods);
        if (methods[0] != '\0')
                gw_reply_header(req, "Allow", gw_copy(req, s3_str_of(methods)));
}

void gw_refuse_route(struct gw_request *req, enum s3_error error)
{
        struct s3_str source = gw_header(req, "x-amz-copy-source"), part = gw_query(req, "partNumber");

        if (error == S3_ERR_METHOD_NOT_ALLOWED)
                allow_header(req);

        if (error == S3_ERR_INVALID_REQUEST)
                gw_reply_error(req, error,
                               gw_printf(req, "Key is not expected for the GET method ?%s subresource",
                                         gw_query_has(req, "uploads") ? "uploads" : "versions"));
        else if (error == S3_ERR_INVALID_ARGUMENT && source.data != NULL && !s3_str_eq(req->method, S3_STR("PUT")))
                gw_reply_argument(req, "x-amz-copy-source", source,
                                  "You can only specify a copy source header for copy requests.");
        else if (error == S3_ERR_INVALID_ARGUMENT && part.data != NULL && !gw_query_has(req, "uploadId"))
                gw_reply_argument(req, "partNumber", part,
                                  "This operation does not accept partNumber without uploadId");
        else {
                if (error == S3_ERR_NOT_IMPLEMENTED)
                        req->refused_query = gw_sub_name(req->query);
                gw_reply_error(req, error, NULL);
        }
}
