/*
 * log_delivery.h - access logs of buckets: records are gathered by loop and written as objects of the
 * target bucket. docs/design/access-logs.md has the rules.
 */
#ifndef GATEWAY_S3_LOG_DELIVERY_H
#define GATEWAY_S3_LOG_DELIVERY_H

#include "gateway/http/http_request.h"
#include "s3_log.h"

struct gw_logs;

/* struct gw_service: ended. owner: loop */
void gw_logs_ended(struct gw_request *req, const struct gw_ended *end);
/* After the loops have stopped. NULL is allowed. */
void gw_logs_free(struct gw_logs *logs);

/* The record of a request (log_facts.c). Its length; -ENOBUFS. */
ssize_t gw_log_record_of(struct gw_request *req, const struct eng_bucket *bucket, const struct gw_ended *end, char *out,
                         size_t cap);

#endif
