/*
 * route.h - the table of S3 operations, and which of them a request names.
 */
#ifndef GATEWAY_S3_ROUTE_H
#define GATEWAY_S3_ROUTE_H

#include "gateway/http/operation.h"

#define GW_RESERVED_NAME "_millrace"

extern const struct gw_op gw_ops[];
extern const unsigned gw_op_count;

/*
 * The operation of a request, or why there is none: METHOD_NOT_ALLOWED, NOT_IMPLEMENTED,
 * INVALID_ARGUMENT (two sub-resources).
 */
enum s3_error gw_route(struct s3_str method, enum gw_scope scope, const struct s3_query *query,
                       const struct s3_header *headers, unsigned header_count, const struct gw_op **out);
/*
 * The operation of a reserved path: METHOD_NOT_ALLOWED where it has others; INVALID_BUCKET_NAME
 * where there is none.
 */
enum s3_error gw_route_reserved(struct s3_str method, struct s3_str path, const struct gw_op **out);

#define GW_ALLOW_SIZE 32 /* all methods, commas and NUL */

/*
 * Writes the methods other than this one by which a request has an operation, for the header Allow;
 * "" if there are none. path: of GW_RESERVED, as for gw_route_reserved().
 */
void gw_route_allowed(struct s3_str method, enum gw_scope scope, const struct s3_query *query, struct s3_str path,
                      char out[GW_ALLOW_SIZE]);

#endif
