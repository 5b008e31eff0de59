/*
 * bucket_policy.h - the policy of a bucket: a text of it, as it was sent, compiled once.
 */
#ifndef GATEWAY_RIGHTS_BUCKET_POLICY_H
#define GATEWAY_RIGHTS_BUCKET_POLICY_H

#include "access.h"
#include "gateway/http/gw.h"

#define GW_BUCKET_POLICY 4u /* the kind of text: stored */

/*
 * Immediate; *out holds until the caller returns to the loop. -ENOENT: the bucket has none; -EBADMSG: it has
 * one that cannot be read; -ENOMEM; errors of eng_text_get().
 */
int gw_bucket_policy_find(struct eng_store *store, uint64_t bucket, struct s3_str name, const struct acc_policy **out);
/*
 * This text was set, and compiled when it was checked: unless another one is there already, the compiled form is
 * the one that all loops use. Takes it over.
 */
void gw_bucket_policy_keep(struct eng_store *store, uint64_t bucket, struct s3_str name, struct s3_str text,
                           struct acc_policy *compiled);

#endif
