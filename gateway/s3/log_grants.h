/*
 * log_grants.h - TargetGrants of a logging configuration: whom the objects of an access log let in, beside the owner of
 * the target bucket. Rule G11 of docs/design/access-logs.md. owner: the loop of whoever asks
 */
#ifndef GATEWAY_S3_LOG_GRANTS_H
#define GATEWAY_S3_LOG_GRANTS_H

#include "gateway/http/http_request.h"
#include "s3_config.h"

/* May they be set, by this request? False: answered. */
bool gw_log_grants_check(struct gw_request *req, const struct s3_config *config, const struct eng_bucket *target);
/*
 * The ACL of an object of the log, to be given back with free(); *len 0 and *out NULL: it has none. -ENOMEM; -EINVAL:
 * grants that could not be set today.
 */
int gw_log_grants(struct gw_loop *loop, const struct s3_config *config, const struct eng_bucket *target, uint8_t **out,
                  size_t *len);

#endif
