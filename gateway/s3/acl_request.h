/*
 * acl_request.h - ACLs in requests, and what the ownership of a bucket makes of them. On the
 * request's loop; nothing here waits.
 */
#ifndef GATEWAY_S3_ACL_REQUEST_H
#define GATEWAY_S3_ACL_REQUEST_H

#include "gateway/http/http_request.h"
#include "gateway/people/entity.h"

enum gw_ownership { GW_BUCKET_OWNER_ENFORCED, GW_BUCKET_OWNER_PREFERRED, GW_OBJECT_WRITER };

/* What was never set is ENFORCED; what was deleted is OBJECT_WRITER. What cannot be read is ENFORCED. */
enum gw_ownership gw_ownership_of(struct eng_store *store, uint64_t bucket);
/* struct gw_service: takes_acls, ignores_public_acls. */
bool gw_takes_acls(struct eng_store *store, uint64_t bucket);
bool gw_ignores_public_acls(struct eng_store *store, uint64_t bucket);
/* BlockPublicAcls is on for the bucket. */
bool gw_blocks_public_acls(struct eng_store *store, uint64_t bucket);

/* The account that owns the request's bucket; of none: whoever asks. "": nobody. */
void gw_request_owner(struct gw_request *req, char account[GW_ACCOUNT_ID_LEN + 1]);

/* The request has x-amz-acl or x-amz-grant-*. */
bool gw_acl_headers_given(const struct gw_request *req);
/*
 * The ACL that the headers ask for, of something that acl->owner owns. Without any: private. False:
 * answered.
 */
bool gw_acl_of_headers(struct gw_request *req, bool of_bucket, struct s3_acl *acl);
/*
 * The ACL of a new object, encoded, in the request's arena: by its headers, by who writes it, and by
 * the bucket's ownership. Empty: it is the bucket owner's alone. False: answered.
 */
bool gw_acl_of_write(struct gw_request *req, struct eng_str *out);

#endif
