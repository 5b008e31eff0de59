/*
 * request_rights.h - what a request's user must be allowed, by the row of its operation. On the
 * request's loop.
 */
#ifndef GATEWAY_S3_REQUEST_RIGHTS_H
#define GATEWAY_S3_REQUEST_RIGHTS_H

#include "gateway/http/permit.h"

/*
 * May the user do this to that key, or to that version of it, if one is named? What headers ask for is
 * asked as well.
 */
bool gw_rights_permit(struct gw_request *req, struct s3_str key, struct s3_str version_id);
/* May the user learn what of it fits a condition, as its ETag (P23)? */
bool gw_rights_permit_match(struct gw_request *req, struct s3_str key, struct s3_str version_id);
/*
 * The same of what the request's path names. Of a reserved path, which is in no bucket, handlers ask
 * for each thing that they reach; and so they do for each key of a body. bucket: that of the path, NULL where there
 * is none. False: req->refusal is set.
 */
bool gw_rights_permit_request(struct gw_request *req, const struct eng_bucket *bucket);
/*
 * The same of a request that was let in on condition (req->object_decides), when the object has been looked for: now
 * its owner, ACL and tags count. NULL: nothing was found. False: req->refusal is set.
 */
bool gw_rights_permit_object(struct gw_request *req, const struct eng_object *object);
/*
 * What is missing may be told only to those who may list the bucket: this error, or ACCESS_DENIED in its
 * place.
 */
enum s3_error gw_rights_missing(struct gw_request *req, struct s3_str bucket, enum s3_error error);

#endif
