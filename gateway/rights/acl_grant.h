/*
 * acl_grant.h - what ACLs grant of a question to the gate (private to the module).
 */
#ifndef GATEWAY_RIGHTS_ACL_GRANT_H
#define GATEWAY_RIGHTS_ACL_GRANT_H

#include "gateway/rights/rights.h"

/*
 * What the ACL of the bucket, and of the object if it is known, grant to the principal (P13, P14).
 * ACLs count in the bucket.
 */
enum acc_grant gw_acl_grant(const struct gw_ask *ask, const struct eng_bucket *bucket,
                            const struct acc_principal *principal, const struct s3_acl *object);
/* Is the permission one that an object's owner and ACL decide? */
bool gw_acl_is_of_object(const char *permission);

#endif
