/*
 * request_rights.h - what a request's user must be allowed, by the row of its operation. On the
 * request's loop.
 */
#ifndef GATEWAY_S3_REQUEST_RIGHTS_H
#define GATEWAY_S3_REQUEST_RIGHTS_H

#include "gateway/http/http_request.h"

/* May the user do this to that key, or to a version of it? What headers ask for is asked as well. */
bool gw_rights_permit(struct gw_request *req, struct s3_str key, bool version);
/*
 * The same of what the request's path names. Of a reserved path, which is in no bucket, handlers ask
 * for each thing that they reach; and so they do for each key of a body.
 */
bool gw_rights_permit_request(struct gw_request *req);

#endif
