/*
 * refuse.h - requests for what is not there.
 */
#ifndef GATEWAY_S3_REFUSE_H
#define GATEWAY_S3_REFUSE_H

#include "gateway/http/http_request.h"

/* NOT_IMPLEMENTED, and which header it was. */
void gw_refuse_header(struct gw_request *req, const char *name);
/* Says why a request has no operation (an error of gw_route()). */
void gw_refuse_route(struct gw_request *req, enum s3_error error);

#endif
