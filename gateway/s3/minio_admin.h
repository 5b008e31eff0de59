/*
 * minio_admin.h - of MinIO's admin API the one call that its client (`mc admin info`) and dashboards begin with:
 * GET /minio/admin/v3/info, which says how the server and its drives are, and changes nothing.
 *
 * madmin signs for S3 and for no region. Whoever may do admin:ServerInfo in the first account is answered; errors are
 * JSON, as madmin reads them first, but those of signatures, which are S3's.
 */
#ifndef GATEWAY_S3_MINIO_ADMIN_H
#define GATEWAY_S3_MINIO_ADMIN_H

#include "gateway/http/http_request.h"

/* In no table of routes. */
extern const struct gw_op gw_minio_admin_op;

/* A path below /minio/admin/v3/, where there is no bucket called "minio". */
bool gw_minio_admin_is(const struct gw_request *req);
/*
 * Whose signature was checked: may they ask? False: answered. Calls but that one are NotImplemented, once it is known
 * that they may.
 */
bool gw_minio_admin_permit(struct gw_request *req);

#endif
