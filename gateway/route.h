/*
 * route.h - the table of S3 operations.
 */
#ifndef GATEWAY_ROUTE_H
#define GATEWAY_ROUTE_H

#include <stdbool.h>

#include "s3.h"

struct gw_request;

enum gw_scope {
        GW_SERVICE,
        GW_BUCKET,
        GW_OBJECT,
        GW_RESERVED     /* a path below /_millrace/, which no bucket can have */
};
#define GW_RESERVED_NAME "_millrace"
enum gw_body_kind {
        GW_BODY_NONE,   /* what comes is checked and dropped */
        GW_BODY_XML,
        GW_BODY_DATA,   /* an object's bytes */
        GW_BODY_KEPT    /* kept as it is, up to GW_KEPT_MAX */
};

/* One S3 operation. */
struct gw_op {
        const char *name;
        const char *method;
        enum gw_scope scope;
        const char *sub;                /* query parameter that selects it, or NULL */
        const char *path;               /* GW_RESERVED: behind the reserved name, all below it if it ends in a slash; else NULL */
        const char *header;             /* header that selects it, or NULL */
        enum gw_body_kind body;
        bool no_bucket;                 /* the bucket need not exist */
        bool versions;                  /* of an object: it takes versionId */
        const char *permission;         /* the right it needs, as IAM names it */
        void (*begin)(struct gw_request *req); /* before the body is read; may answer (refuse); may be NULL */
        void (*run)(struct gw_request *req);   /* all is in: answers, now or later */
        enum s3_error arg;              /* what the answer of a never-set configuration is; S3_OK: see the handler */
};

extern const struct gw_op gw_ops[];
extern const unsigned gw_op_count;
/* Counted for requests that never came to an operation. */
extern const struct gw_op gw_op_none;

/* The operation of a request, or why there is none: METHOD_NOT_ALLOWED, NOT_IMPLEMENTED, INVALID_ARGUMENT (two sub-resources). */
enum s3_error gw_route(struct s3_str method, enum gw_scope scope, const struct s3_query *query,
                       const struct s3_header *headers, unsigned header_count, const struct gw_op **out);
/* Name of the sub-resource of a query; absent if there is none. */
struct s3_str gw_route_sub(const struct s3_query *query);
/* The operation of a reserved path: METHOD_NOT_ALLOWED where it has others; INVALID_BUCKET_NAME where there is none. */
enum s3_error gw_route_reserved(struct s3_str method, struct s3_str path, const struct gw_op **out);
unsigned gw_op_index(const struct gw_op *op);

#endif
