/*
 * post.h - forms that browsers post. On the request's loop.
 */
#ifndef GATEWAY_S3_POST_H
#define GATEWAY_S3_POST_H

#include "gateway/http/http_request.h"

/*
 * Its head names a bucket and no other operation: makes the body of a form that proves in its fields
 * who made it. False: answered (refused).
 */
bool gw_post_accept(struct gw_request *req);
/* The request is signed as others are: no form is. Answers. */
void gw_post_refuse_signed(struct gw_request *req);
/* All fields are in: who, what, may he; opens the upload. False: answered (refused). */
bool gw_post_fields(struct gw_request *req);

#endif
