/*
 * minio_health.h - the health checks of MinIO, which its client (`mc ready`) and tools wait for.
 */
#ifndef GATEWAY_S3_MINIO_HEALTH_H
#define GATEWAY_S3_MINIO_HEALTH_H

#include "gateway/http/http_request.h"

/* In no table of routes. */
extern const struct gw_op gw_health_op;

/*
 * Whether this was one, which is answered then: an unsigned GET or HEAD of /minio/health/live, ready, cluster or
 * cluster/read, by path, where there is no bucket called "minio".
 */
bool gw_minio_health(struct gw_request *req);

#endif
