/*
 * rights.h - what policies say to the questions of the gate (gateway/http/permit.h).
 * docs/design/rights.md has the rules.
 */
#ifndef GATEWAY_RIGHTS_RIGHTS_H
#define GATEWAY_RIGHTS_RIGHTS_H

#include "access.h"
#include "gateway/http/permit.h"

/* AWS's own managed policies are known from now on. Before the loops run. -ENOMEM. */
int gw_rights_start(struct gw_gateway *gw);
/* After the loops have stopped. */
void gw_rights_free(struct gw_gateway *gw);

/* struct gw_service: permits. owner: loop */
bool gw_rights_decide(const struct gw_ask *ask, bool root, char *why);
/* Would it be permitted if this were the bucket's policy? owner: loop */
bool gw_rights_decide_under(const struct gw_ask *ask, const struct acc_policy *bucket_policy);

/*
 * May that service ("logging.s3.amazonaws.com") put an object of that key into the bucket, on behalf of the bucket
 * `source`? Only the bucket's policy can say so. owner: loop
 */
bool gw_rights_service(struct gw_loop *loop, const char *service, const struct eng_bucket *bucket, struct s3_str key,
                       struct s3_str source);
/*
 * Who asks, as logs name them: the canonical id of an account, or the ARN of a user or session. Returns its
 * length; 0: nobody, or it does not fit. owner: loop
 */
size_t gw_rights_requester(struct gw_request *req, char *out, size_t size);

/* A managed policy that is always there. */
struct gw_canned {
        const char *arn, *id, *text; /* id: that of AWS, where the policy is AWS's */
};
/* NULL: there are no more. */
const struct gw_canned *gw_canned_at(unsigned index);

#endif
