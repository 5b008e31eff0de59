/*
 * route.c - the one table of S3 operations, and the choice among them. Pure; any thread.
 *
 * A request names its operation by method, by what its path names, by at most one sub-resource
 * among its query parameters, and by at most one header. A sub-resource that S3 knows never falls
 * through to the plain operation: DELETE with an unknown meaning must not delete.
 */
#include "gateway/s3/route.h"

#include <stddef.h>

#include "gateway/s3/handlers.h"
#include "gateway/s3/post.h"
#include "gateway/rdma/rdma_session.h"
#include "gateway/http/stats.h"
#include "gateway/s3/sub_resource.h"

/* One row: the members that every operation has, then what it has beside, by name. */
#define OP(op_name, of_method, of_scope, query, right, does, ...)                                                      \
        {                                                                                                              \
                .name = (op_name), .method = (of_method), .scope = (of_scope), .sub = (query), .permission = (right),  \
                .run = (does), __VA_ARGS__                                                                             \
        }
#define GET_CONFIG(op_name, query, right, error)                                                                       \
        OP(op_name, "GET", GW_BUCKET, query, right, gw_run_config, .arg = (error))
#define GET_TEXT(op_name, query, right)    OP(op_name, "GET", GW_BUCKET, query, right, gw_run_text)
#define DELETE_TEXT(op_name, query, right) OP(op_name, "DELETE", GW_BUCKET, query, right, gw_run_text_delete)
#define DELETE_CONFIG(op_name, query, right) OP(op_name, "DELETE", GW_BUCKET, query, right, gw_run_config_delete)
/* gw_begin_does_put and gw_run_does_put. */
#define PUT_DOC(op_name, of, query, right, does, ...)                                                                  \
        OP(op_name, "PUT", of, query, right, gw_run_##does##_put, .begin = gw_begin_##does##_put, .body = GW_BODY_XML, \
           __VA_ARGS__)
#define GET_EXTRA(op_name, query, of_a_version, does, ...)                                                             \
        OP(op_name, "GET", GW_OBJECT, query, "s3:" op_name, does, .of_version = (of_a_version), __VA_ARGS__)

#define RIGHT(of_header, right, ...) {.header = (of_header), .permission = (right), __VA_ARGS__}

/* Whether it is done tells what is there (P23). */
#define RIGHTS_OF_MATCH RIGHT("If-Match", "s3:GetObject", .of_version = "s3:GetObjectVersion", .any = true)

/* Rights for what headers of a write ask, as AWS lists them. */
static const struct gw_right rights_of_write[] = {
        RIGHTS_OF_MATCH,
        RIGHT("x-amz-tagging", "s3:PutObjectTagging"),
        RIGHT("x-amz-object-lock-mode", "s3:PutObjectRetention"),
        RIGHT("x-amz-object-lock-retain-until-date", "s3:PutObjectRetention"),
        RIGHT("x-amz-object-lock-legal-hold", "s3:PutObjectLegalHold"),
        RIGHT("x-amz-acl", "s3:PutObjectAcl"),
        RIGHT("x-amz-grant-read", "s3:PutObjectAcl"),
        RIGHT("x-amz-grant-write", "s3:PutObjectAcl"),
        RIGHT("x-amz-grant-read-acp", "s3:PutObjectAcl"),
        RIGHT("x-amz-grant-write-acp", "s3:PutObjectAcl"),
        RIGHT("x-amz-grant-full-control", "s3:PutObjectAcl"),
        RIGHT(NULL, NULL),
};
static const struct gw_right rights_of_bucket[] = {
        RIGHT("x-amz-bucket-object-lock-enabled", "s3:PutBucketObjectLockConfiguration", .flag = true),
        RIGHT("x-amz-bucket-object-lock-enabled", "s3:PutBucketVersioning", .flag = true),
        RIGHT("x-amz-acl", "s3:PutBucketAcl"),
        RIGHT("x-amz-grant-read", "s3:PutBucketAcl"),
        RIGHT("x-amz-grant-write", "s3:PutBucketAcl"),
        RIGHT("x-amz-grant-read-acp", "s3:PutBucketAcl"),
        RIGHT("x-amz-grant-write-acp", "s3:PutBucketAcl"),
        RIGHT("x-amz-grant-full-control", "s3:PutBucketAcl"),
        RIGHT("x-amz-object-ownership", "s3:PutBucketOwnershipControls"),
        RIGHT(NULL, NULL),
};
static const struct gw_right rights_of_bypass[] = {
        RIGHT("x-amz-bypass-governance-retention", "s3:BypassGovernanceRetention", .flag = true),
        RIGHT(NULL, NULL),
};
static const struct gw_right rights_of_delete[] = {
        RIGHTS_OF_MATCH,
        RIGHT("x-amz-if-match-last-modified-time", "s3:GetObject", .of_version = "s3:GetObjectVersion"),
        RIGHT("x-amz-if-match-size", "s3:GetObject", .of_version = "s3:GetObjectVersion"),
        RIGHT("x-amz-bypass-governance-retention", "s3:BypassGovernanceRetention", .flag = true),
        RIGHT(NULL, NULL),
};
static const struct gw_right rights_of_complete[] = {
        RIGHTS_OF_MATCH,
        RIGHT(NULL, NULL),
};
static const struct gw_right rights_of_attributes[] = {
        RIGHT(NULL, "s3:GetObject", .of_version = "s3:GetObjectVersion"),
        RIGHT(NULL, NULL),
};

/* Of one method and scope: rows with a sub-resource or header before those without. */
const struct gw_op gw_ops[] = {
        OP("ListBuckets", "GET", GW_SERVICE, NULL, "s3:ListAllMyBuckets", gw_run_list_buckets, .no_bucket = true),

        OP("ListObjectVersions", "GET", GW_BUCKET, "versions", "s3:ListBucketVersions", gw_run_list_versions),
        OP("ListMultipartUploads", "GET", GW_BUCKET, "uploads", "s3:ListBucketMultipartUploads", gw_run_list_uploads),
        OP("GetBucketLocation", "GET", GW_BUCKET, "location", "s3:GetBucketLocation", gw_run_bucket_location),
        OP("GetBucketAcl", "GET", GW_BUCKET, "acl", "s3:GetBucketAcl", gw_run_acl),
        OP("GetBucketPolicy", "GET", GW_BUCKET, "policy", "s3:GetBucketPolicy", gw_run_policy),
        OP("GetBucketPolicyStatus", "GET", GW_BUCKET, "policyStatus", "s3:GetBucketPolicyStatus", gw_run_policy_status),
        GET_TEXT("GetBucketLifecycleConfiguration", "lifecycle", "s3:GetLifecycleConfiguration"),
        GET_TEXT("GetBucketCors", "cors", "s3:GetBucketCORS"),
        GET_TEXT("GetBucketTagging", "tagging", "s3:GetBucketTagging"),
        GET_TEXT("GetBucketWebsite", "website", "s3:GetBucketWebsite"),
        GET_CONFIG("GetBucketEncryption", "encryption", "s3:GetEncryptionConfiguration", S3_ERR_NO_SUCH_ENCRYPTION),
        OP("GetObjectLockConfiguration", "GET", GW_BUCKET, "object-lock", "s3:GetBucketObjectLockConfiguration",
           gw_run_lock_config),
        GET_CONFIG("GetBucketReplication", "replication", "s3:GetReplicationConfiguration", S3_ERR_NO_SUCH_REPLICATION),
        GET_TEXT("GetPublicAccessBlock", "publicAccessBlock", "s3:GetBucketPublicAccessBlock"),
        GET_TEXT("GetBucketOwnershipControls", "ownershipControls", "s3:GetBucketOwnershipControls"),
        GET_CONFIG("GetBucketMetadataConfiguration", "metadataConfiguration", "s3:GetBucketMetadataTableConfiguration",
                   S3_ERR_NO_SUCH_METADATA_CONFIG),
        GET_CONFIG("GetBucketMetadataTableConfiguration", "metadataTable", "s3:GetBucketMetadataTableConfiguration",
                   S3_ERR_NO_SUCH_METADATA_CONFIG),
        GET_TEXT("GetBucketInventoryConfiguration", "inventory", "s3:GetInventoryConfiguration"),
        GET_TEXT("GetBucketAnalyticsConfiguration", "analytics", "s3:GetAnalyticsConfiguration"),
        GET_TEXT("GetBucketMetricsConfiguration", "metrics", "s3:GetMetricsConfiguration"),
        GET_TEXT("GetBucketIntelligentTieringConfiguration", "intelligent-tiering", "s3:GetIntelligentTieringConfiguration"),
        OP("GetBucketVersioning", "GET", GW_BUCKET, "versioning", "s3:GetBucketVersioning", gw_run_versioning),
        GET_TEXT("GetBucketNotificationConfiguration", "notification", "s3:GetBucketNotification"),
        GET_TEXT("GetBucketLogging", "logging", "s3:GetBucketLogging"),
        GET_TEXT("GetBucketAccelerateConfiguration", "accelerate", "s3:GetAccelerateConfiguration"),
        GET_TEXT("GetBucketRequestPayment", "requestPayment", "s3:GetBucketRequestPayment"),
        OP("ListObjectsV2", "GET", GW_BUCKET, "list-type", "s3:ListBucket", gw_run_list_objects_v2),
        OP("ListObjects", "GET", GW_BUCKET, NULL, "s3:ListBucket", gw_run_list_objects),
        OP("HeadBucket", "HEAD", GW_BUCKET, NULL, "s3:ListBucket", gw_run_bucket_head),
        OP("CreateBucket", "PUT", GW_BUCKET, NULL, "s3:CreateBucket", gw_run_bucket_create,
           .begin = gw_begin_bucket_create, .body = GW_BODY_XML, .no_bucket = true, .more = rights_of_bucket),
        PUT_DOC("PutBucketVersioning", GW_BUCKET, "versioning", "s3:PutBucketVersioning", versioning),
        PUT_DOC("PutObjectLockConfiguration", GW_BUCKET, "object-lock", "s3:PutBucketObjectLockConfiguration", lock_config),
        OP("PutBucketPolicy", "PUT", GW_BUCKET, "policy", "s3:PutBucketPolicy", gw_run_policy_put,
           .begin = gw_begin_policy_put, .body = GW_BODY_KEPT),
        PUT_DOC("PutBucketTagging", GW_BUCKET, "tagging", "s3:PutBucketTagging", text),
        PUT_DOC("PutBucketLifecycleConfiguration", GW_BUCKET, "lifecycle", "s3:PutLifecycleConfiguration", text),
        PUT_DOC("PutPublicAccessBlock", GW_BUCKET, "publicAccessBlock", "s3:PutBucketPublicAccessBlock", text),
        PUT_DOC("PutBucketOwnershipControls", GW_BUCKET, "ownershipControls", "s3:PutBucketOwnershipControls", text),
        PUT_DOC("PutBucketRequestPayment", GW_BUCKET, "requestPayment", "s3:PutBucketRequestPayment", text),
        PUT_DOC("PutBucketCors", GW_BUCKET, "cors", "s3:PutBucketCORS", text),
        PUT_DOC("PutBucketWebsite", GW_BUCKET, "website", "s3:PutBucketWebsite", text),
        PUT_DOC("PutBucketLogging", GW_BUCKET, "logging", "s3:PutBucketLogging", text),
        PUT_DOC("PutBucketAccelerateConfiguration", GW_BUCKET, "accelerate", "s3:PutAccelerateConfiguration", text),
        PUT_DOC("PutBucketNotificationConfiguration", GW_BUCKET, "notification", "s3:PutBucketNotification", text),
        PUT_DOC("PutBucketInventoryConfiguration", GW_BUCKET, "inventory", "s3:PutInventoryConfiguration", text),
        PUT_DOC("PutBucketMetricsConfiguration", GW_BUCKET, "metrics", "s3:PutMetricsConfiguration", text),
        PUT_DOC("PutBucketAnalyticsConfiguration", GW_BUCKET, "analytics", "s3:PutAnalyticsConfiguration", text),
        PUT_DOC("PutBucketIntelligentTieringConfiguration", GW_BUCKET, "intelligent-tiering",
                "s3:PutIntelligentTieringConfiguration", text),
        PUT_DOC("PutBucketAcl", GW_BUCKET, "acl", "s3:PutBucketAcl", acl),
        OP("DeleteBucketPolicy", "DELETE", GW_BUCKET, "policy", "s3:DeleteBucketPolicy", gw_run_policy_delete),
        DELETE_TEXT("DeleteBucketLifecycle", "lifecycle", "s3:PutLifecycleConfiguration"),
        DELETE_TEXT("DeleteBucketCors", "cors", "s3:PutBucketCORS"),
        DELETE_TEXT("DeleteBucketTagging", "tagging", "s3:PutBucketTagging"),
        DELETE_TEXT("DeleteBucketWebsite", "website", "s3:DeleteBucketWebsite"),
        DELETE_CONFIG("DeleteBucketEncryption", "encryption", "s3:PutEncryptionConfiguration"),
        DELETE_CONFIG("DeleteBucketReplication", "replication", "s3:PutReplicationConfiguration"),
        DELETE_TEXT("DeletePublicAccessBlock", "publicAccessBlock", "s3:PutBucketPublicAccessBlock"),
        DELETE_TEXT("DeleteBucketOwnershipControls", "ownershipControls", "s3:PutBucketOwnershipControls"),
        DELETE_TEXT("DeleteBucketInventoryConfiguration", "inventory", "s3:PutInventoryConfiguration"),
        DELETE_TEXT("DeleteBucketMetricsConfiguration", "metrics", "s3:PutMetricsConfiguration"),
        DELETE_TEXT("DeleteBucketAnalyticsConfiguration", "analytics", "s3:PutAnalyticsConfiguration"),
        DELETE_TEXT("DeleteBucketIntelligentTieringConfiguration", "intelligent-tiering",
                    "s3:PutIntelligentTieringConfiguration"),
        OP("DeleteBucket", "DELETE", GW_BUCKET, NULL, "s3:DeleteBucket", gw_run_bucket_delete),
        OP("DeleteObjects", "POST", GW_BUCKET, "delete", "s3:DeleteObject", gw_run_delete_many,
           .begin = gw_begin_delete_many, .body = GW_BODY_XML, .of_version = "s3:DeleteObjectVersion",
           .more = rights_of_bypass),
        OP("PostObject", "POST", GW_BUCKET, NULL, "s3:PutObject", gw_run_put, .fields = gw_post_fields,
           .body = GW_BODY_FORM, .more = rights_of_write),

        OP("ListParts", "GET", GW_OBJECT, "uploadId", "s3:ListMultipartUploadParts", gw_run_list_parts),
        OP("GetObjectAttributes", "GET", GW_OBJECT, "attributes", "s3:GetObjectAttributes", gw_run_attributes,
           .of_version = "s3:GetObjectVersionAttributes", .more = rights_of_attributes, .object_decides = true),
        OP("GetObjectAcl", "GET", GW_OBJECT, "acl", "s3:GetObjectAcl", gw_run_acl, .of_version = "s3:GetObjectVersionAcl",
           .object_decides = true),
        PUT_DOC("PutObjectAcl", GW_OBJECT, "acl", "s3:PutObjectAcl", acl, .of_version = "s3:PutObjectVersionAcl",
                .object_decides = true),
        PUT_DOC("PutObjectTagging", GW_OBJECT, "tagging", "s3:PutObjectTagging", object_tagging,
                .of_version = "s3:PutObjectVersionTagging", .object_decides = true),
        PUT_DOC("PutObjectRetention", GW_OBJECT, "retention", "s3:PutObjectRetention", retention,
                .of_version = "s3:PutObjectRetention", .more = rights_of_bypass),
        PUT_DOC("PutObjectLegalHold", GW_OBJECT, "legal-hold", "s3:PutObjectLegalHold", legal_hold,
                .of_version = "s3:PutObjectLegalHold"),
        GET_EXTRA("GetObjectTagging", "tagging", "s3:GetObjectVersionTagging", gw_run_object_tagging,
                  .object_decides = true),
        GET_EXTRA("GetObjectLegalHold", "legal-hold", "s3:GetObjectLegalHold", gw_run_legal_hold),
        GET_EXTRA("GetObjectRetention", "retention", "s3:GetObjectRetention", gw_run_retention),
        OP("GetObject", "GET", GW_OBJECT, NULL, "s3:GetObject", gw_run_get, .begin = gw_begin_get,
           .of_version = "s3:GetObjectVersion", .sends_object = true, .object_decides = true),
        OP("HeadObject", "HEAD", GW_OBJECT, NULL, "s3:GetObject", gw_run_get, .begin = gw_begin_get,
           .of_version = "s3:GetObjectVersion", .sends_object = true, .object_decides = true),
        OP("UploadPartCopy", "PUT", GW_OBJECT, "uploadId", "s3:PutObject", gw_run_part_copy,
           .header = "x-amz-copy-source"),
        OP("UploadPart", "PUT", GW_OBJECT, "uploadId", "s3:PutObject", gw_run_part, .begin = gw_begin_part,
           .body = GW_BODY_DATA),
        OP("CopyObject", "PUT", GW_OBJECT, NULL, "s3:PutObject", gw_run_copy, .header = "x-amz-copy-source",
           .more = rights_of_write),
        OP("PutObject", "PUT", GW_OBJECT, NULL, "s3:PutObject", gw_run_put, .begin = gw_begin_put,
           .body = GW_BODY_DATA, .more = rights_of_write),
        OP("CreateMultipartUpload", "POST", GW_OBJECT, "uploads", "s3:PutObject", gw_run_upload_create,
           .more = rights_of_write),
        OP("CompleteMultipartUpload", "POST", GW_OBJECT, "uploadId", "s3:PutObject", gw_run_complete,
           .begin = gw_begin_complete, .body = GW_BODY_XML, .sums_of_result = true, .more = rights_of_complete),
        OP("AbortMultipartUpload", "DELETE", GW_OBJECT, "uploadId", "s3:AbortMultipartUpload", gw_run_upload_abort),
        OP("DeleteObjectTagging", "DELETE", GW_OBJECT, "tagging", "s3:DeleteObjectTagging", gw_run_object_tagging_delete,
           .of_version = "s3:DeleteObjectVersionTagging", .object_decides = true),
        OP("DeleteObject", "DELETE", GW_OBJECT, NULL, "s3:DeleteObject", gw_run_delete,
           .of_version = "s3:DeleteObjectVersion", .more = rights_of_delete),

        /* The permission is that of each entry, and of each request on the session. */
        OP("GetBatch", "POST", GW_RESERVED, NULL, "s3:GetObject", gw_run_batch, .path = "v1/batch",
           .begin = gw_begin_batch, .body = GW_BODY_KEPT, .no_bucket = true),
        OP("OpenRDMASession", "POST", GW_RESERVED, NULL, "s3:GetObject", gw_run_session_open,
           .path = "rdma/v1/sessions", .begin = gw_begin_session_open, .body = GW_BODY_KEPT, .no_bucket = true),
        OP("EndRDMASession", "DELETE", GW_RESERVED, NULL, "s3:GetObject", gw_run_session_end,
           .path = "rdma/v1/sessions/", .no_bucket = true, .ends_session = true),
};

const unsigned gw_op_count = sizeof(gw_ops) / sizeof(gw_ops[0]);

_Static_assert(sizeof(gw_ops) / sizeof(gw_ops[0]) + 4 <= GW_STATS_OPS,
               "each operation has its counters, and so have IAM, STS, health checks, and none");

static bool head_has(const struct s3_header *headers, unsigned count, const char *name)
{
        for (unsigned i = 0; i < count; i++) {
                if (s3_str_eq_nocase(headers[i].name, s3_str_of(name)))
                        return true;
        }
        return false;
}

/* list-type chooses only where no sub-resource does; it has one value. */
static enum s3_error find_selector(struct s3_str method, enum gw_scope scope, const struct s3_query *query,
                                   const struct s3_query_param **out)
{
        enum s3_error error = gw_sub_find(query, out);

        if (error != S3_OK || *out != NULL || scope != GW_BUCKET || !s3_str_eq(method, S3_STR("GET")))
                return error;
        *out = s3_query_find(query, "list-type");
        if (*out != NULL && !s3_str_eq((*out)->value, S3_STR("2")))
                return S3_ERR_INVALID_ARGUMENT;
        return S3_OK;
}

static bool op_fits(const struct gw_op *op, struct s3_str method, enum gw_scope scope, const struct s3_query_param *sub,
                    const struct s3_header *headers, unsigned header_count)
{
        if (op->scope != scope || !s3_str_eq(method, s3_str_of(op->method)))
                return false;
        if (op->sub == NULL ? sub != NULL : sub == NULL || !s3_str_eq(sub->name, s3_str_of(op->sub)))
                return false;
        return op->header == NULL || head_has(headers, header_count, op->header);
}

static bool is_method(struct s3_str method)
{
        return s3_str_eq(method, S3_STR("GET")) || s3_str_eq(method, S3_STR("HEAD")) ||
               s3_str_eq(method, S3_STR("PUT")) || s3_str_eq(method, S3_STR("POST")) ||
               s3_str_eq(method, S3_STR("DELETE"));
}

/* Why a request has no operation. */
static enum s3_error no_op(struct s3_str method, enum gw_scope scope, const struct s3_query_param *sub)
{
        if (s3_str_eq(method, S3_STR("OPTIONS")))
                return S3_ERR_CORS_FORBIDDEN;
        if (!is_method(method))
                return S3_ERR_METHOD_NOT_ALLOWED;
        if (scope == GW_OBJECT && s3_str_eq(method, S3_STR("GET")) && sub != NULL &&
            (s3_str_eq(sub->name, S3_STR("uploads")) || s3_str_eq(sub->name, S3_STR("versions"))))
                return S3_ERR_INVALID_REQUEST; /* of a bucket */
        if (sub != NULL && !s3_str_eq(method, S3_STR("HEAD")))
                return S3_ERR_NOT_IMPLEMENTED;
        return S3_ERR_METHOD_NOT_ALLOWED;
}

enum s3_error gw_route(struct s3_str method, enum gw_scope scope, const struct s3_query *query,
                       const struct s3_header *headers, unsigned header_count, const struct gw_op **out)
{
        const struct s3_query_param *sub;
        bool put_object = scope == GW_OBJECT && s3_str_eq(method, S3_STR("PUT"));
        enum s3_error error = find_selector(method, scope, query, &sub);

        if (error != S3_OK)
                return error;
        if (!s3_str_eq(method, S3_STR("PUT")) && head_has(headers, header_count, "x-amz-copy-source"))
                return S3_ERR_INVALID_ARGUMENT;
        /* Half of a part's address must not be taken for a whole object. */
        if (put_object && (s3_query_find(query, "uploadId") != NULL) != (s3_query_find(query, "partNumber") != NULL))
                return s3_query_find(query, "partNumber") != NULL ? S3_ERR_INVALID_ARGUMENT : S3_ERR_METHOD_NOT_ALLOWED;
        for (unsigned i = 0; i < gw_op_count; i++) {
                if (op_fits(&gw_ops[i], method, scope, sub, headers, header_count)) {
                        *out = &gw_ops[i];
                        return S3_OK;
                }
        }
        return no_op(method, scope, sub);
}

/* A path that ends in a slash is that of all below it. */
static bool path_fits(const char *wanted, struct s3_str path)
{
        size_t len = strlen(wanted);

        if (wanted[len - 1] != '/')
                return s3_str_eq(path, s3_str_of(wanted));
        return path.len > len && memcmp(path.data, wanted, len) == 0;
}

enum s3_error gw_route_reserved(struct s3_str method, struct s3_str path, const struct gw_op **out)
{
        enum s3_error error = S3_ERR_INVALID_BUCKET_NAME;

        for (unsigned i = 0; i < gw_op_count; i++) {
                const struct gw_op *op = &gw_ops[i];

                if (op->scope != GW_RESERVED || !path_fits(op->path, path))
                        continue;
                error = S3_ERR_METHOD_NOT_ALLOWED;
                if (s3_str_eq(method, s3_str_of(op->method))) {
                        *out = op;
                        return S3_OK;
                }
        }
        return error;
}

static bool has_op(const char *method, enum gw_scope scope, struct s3_str sub, struct s3_str path)
{
        for (unsigned i = 0; i < gw_op_count; i++) {
                const struct gw_op *op = &gw_ops[i];

                if (op->scope != scope || strcmp(op->method, method) != 0)
                        continue;
                if (scope == GW_RESERVED && path_fits(op->path, path))
                        return true;
                if (scope != GW_RESERVED && (op->sub == NULL ? sub.data == NULL : s3_str_eq(sub, s3_str_of(op->sub))))
                        return true;
        }
        return false;
}

void gw_route_allowed(struct s3_str method, enum gw_scope scope, const struct s3_query *query, struct s3_str path,
                      char out[GW_ALLOW_SIZE])
{
        static const char *const methods[] = {"DELETE", "POST", "GET", "HEAD", "PUT"};
        struct s3_str sub = gw_sub_name(query);
        char *p = out;

        *p = '\0';
        for (unsigned i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
                if (s3_str_eq(method, s3_str_of(methods[i])) || !has_op(methods[i], scope, sub, path))
                        continue;
                p = stpcpy(p, p == out ? "" : ", ");
                p = stpcpy(p, methods[i]);
        }
}
