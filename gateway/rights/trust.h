/*
 * trust.h - may somebody assume a role? By its trust policy and the caller's own policies (rules T18 and T20 in
 * docs/design/sts.md).
 */
#ifndef GATEWAY_RIGHTS_TRUST_H
#define GATEWAY_RIGHTS_TRUST_H

#include "gateway/rights/rights.h"

/* owner: whoever asks */
struct gw_trust {
        const struct acc_policy *policy; /* the role's */
        struct s3_str account;           /* of the role */
        struct s3_str provider;          /* a web identity asks, of this one; absent: whoever signed */
        acc_lookup *more;                /* keys of conditions that the request has beside others */
        void *more_context;
};
/* ask: permission, and the role's ARN as resource. why: as for gw_permit(). owner: loop */
bool gw_rights_trust(const struct gw_ask *ask, const struct gw_trust *trust, char *why);

#endif
