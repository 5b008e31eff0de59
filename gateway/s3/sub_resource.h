/*
 * sub_resource.h - which of a query's parameters names another thing than the object or bucket
 * itself.
 */
#ifndef GATEWAY_S3_SUB_RESOURCE_H
#define GATEWAY_S3_SUB_RESOURCE_H

#include "s3.h"

/* The sub-resource of a query, or NULL; INVALID_ARGUMENT if there are two. */
enum s3_error gw_sub_find(const struct s3_query *query, const struct s3_query_param **out);
/* Its name; absent if there is none. */
struct s3_str gw_sub_name(const struct s3_query *query);

#endif
