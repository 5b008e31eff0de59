/*
 * new_bucket_tags.h - tags that CreateBucket gives the bucket it makes. On the request's loop, once its document is in.
 */
#ifndef GATEWAY_S3_NEW_BUCKET_TAGS_H
#define GATEWAY_S3_NEW_BUCKET_TAGS_H

#include "gateway/http/http_request.h"

/*
 * Tags need s3:TagResource beside s3:CreateBucket, and conditions of both may be on them: aws:RequestTag, aws:TagKeys.
 * False: answered.
 */
bool gw_new_bucket_tags_permit(struct gw_request *req);
/* What is kept of them, in the arena; of length 0: there are none. -ENOMEM, -ENOBUFS. */
int gw_new_bucket_tags_text(struct gw_request *req, struct eng_str *out);

#endif
