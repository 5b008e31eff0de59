/*
 * canned.h - managed policies that are always there (private to the module).
 */
#ifndef GATEWAY_RIGHTS_CANNED_H
#define GATEWAY_RIGHTS_CANNED_H

#include "gateway/rights/rights.h"

/* NULL: there is none of this ARN. */
const struct acc_policy *gw_canned_policy(const struct gw_gateway *gw, const char *arn);

#endif
