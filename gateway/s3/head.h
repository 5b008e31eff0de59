/*
 * head.h - accepting the head of a request.
 */
#ifndef GATEWAY_S3_HEAD_H
#define GATEWAY_S3_HEAD_H

#include "gateway/http/http_request.h"

/*
 * The head is in. Leaves the request with its operation and body, or with an answer ready
 * (refused).
 */
void gw_head_accept(struct gw_request *req, const char *method, const char *version);
/* May its user do that? Looks its bucket up, and counts a change that may begin. False: answered. */
bool gw_head_permit(struct gw_request *req);
/* Instead of permit(), where each object is asked for later. */
void gw_head_anybody(struct gw_request *req);
/* After either: is the bucket there, and of the owner that it expects? False: answered. */
bool gw_head_bucket(struct gw_request *req);
/* What the path names, once the address is known. */
enum gw_scope gw_scope_of(const struct gw_request *req);

#endif
