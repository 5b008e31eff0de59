/*
 * iam.h - IAM and STS on the same endpoint as S3: POST of a form to "/", as AWS's tools send it, or
 * GET of "/" with the same parameters in the URL. docs/users.md says what is offered.
 */
#ifndef GATEWAY_IAM_IAM_H
#define GATEWAY_IAM_IAM_H

#include "gateway/http/http_request.h"

/* Not in the table of S3's operations: no route leads to them. Which action it is, the access log does not say. */
extern const struct gw_op gw_iam_op, gw_sts_op;

/* Whether the head is that of such a request: it is no request of S3 then. */
bool gw_iam_is(const struct gw_request *req);
/*
 * In place of S3's authentication: the signature covers the hash of the body, so the body is read first,
 * within IAM_FORM_MAX, and nothing of it is looked at before the signature is checked.
 */
void gw_iam_accept(struct gw_request *req);

#endif
