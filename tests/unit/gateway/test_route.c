/*
 * gateway/s3/route.c: which operation a request is, and that none falls through to a plainer one
 * which would store or delete.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "gateway/s3/handlers.h"
#include "gateway/s3/route.h"

static const struct s3_header copy_header = {{"X-Amz-Copy-Source", 17}, {"/b/k", 4}};

/* The operation of a request, or NULL and why in *error. */
static const struct gw_op *route(const char *method, enum gw_scope scope, const char *query_text, bool copies,
                                 enum s3_error *error)
{
        static struct s3_query query;
        static char text[1024];
        const struct gw_op *op = NULL;

        query.count = 0;
        assert_int_equal(s3_query_parse(s3_str_of(query_text), text, sizeof(text), &query), S3_OK);
        *error = gw_route(s3_str_of(method), scope, &query, &copy_header, copies ? 1 : 0, &op);
        return *error == S3_OK ? op : NULL;
}

static void each_operation_is_found(void **state)
{
        static const struct {
                const char *method;
                enum gw_scope scope;
                const char *query;
                bool copies;
                const char *name;
        } cases[] = {
                {"GET", GW_SERVICE, "", false, "ListBuckets"},
                {"GET", GW_SERVICE, "max-buckets=3&x-id=ListBuckets", false, "ListBuckets"},
                {"GET", GW_BUCKET, "", false, "ListObjects"},
                {"GET", GW_BUCKET, "prefix=uploads&delimiter=/", false, "ListObjects"},
                {"GET", GW_BUCKET, "list-type=2&prefix=a", false, "ListObjectsV2"},
                {"GET", GW_BUCKET, "versions", false, "ListObjectVersions"},
                {"GET", GW_BUCKET, "versions=&prefix=a", false, "ListObjectVersions"},
                {"GET", GW_BUCKET, "uploads", false, "ListMultipartUploads"},
                {"GET", GW_BUCKET, "location", false, "GetBucketLocation"},
                {"GET", GW_BUCKET, "policy", false, "GetBucketPolicy"},
                {"GET", GW_BUCKET, "inventory&id=x", false, "GetBucketInventoryConfiguration"},
                {"HEAD", GW_BUCKET, "", false, "HeadBucket"},
                {"PUT", GW_BUCKET, "", false, "CreateBucket"},
                {"PUT", GW_BUCKET, "", true, "CreateBucket"},
                {"DELETE", GW_BUCKET, "", false, "DeleteBucket"},
                {"DELETE", GW_BUCKET, "policy", false, "DeleteBucketPolicy"},
                {"POST", GW_BUCKET, "delete", false, "DeleteObjects"},
                {"POST", GW_BUCKET, "", false, "PostObject"},
                {"POST", GW_BUCKET, "delete=&x-id=DeleteObjects", false, "DeleteObjects"},
                {"GET", GW_OBJECT, "", false, "GetObject"},
                {"GET", GW_OBJECT, "partNumber=1", false, "GetObject"},
                {"GET", GW_OBJECT, "versionId=null&response-content-type=a", false, "GetObject"},
                {"GET", GW_OBJECT, "uploadId=x", false, "ListParts"},
                {"GET", GW_OBJECT, "attributes", false, "GetObjectAttributes"},
                {"GET", GW_OBJECT, "acl", false, "GetObjectAcl"},
                {"HEAD", GW_OBJECT, "", false, "HeadObject"},
                {"PUT", GW_OBJECT, "", false, "PutObject"},
                {"PUT", GW_OBJECT, "x-id=PutObject", false, "PutObject"},
                {"PUT", GW_OBJECT, "", true, "CopyObject"},
                {"PUT", GW_OBJECT, "partNumber=1&uploadId=x", false, "UploadPart"},
                {"PUT", GW_OBJECT, "uploadId=x&partNumber=1", true, "UploadPartCopy"},
                {"POST", GW_OBJECT, "uploads", false, "CreateMultipartUpload"},
                {"POST", GW_OBJECT, "uploadId=x", false, "CompleteMultipartUpload"},
                {"DELETE", GW_OBJECT, "uploadId=x", false, "AbortMultipartUpload"},
                {"DELETE", GW_OBJECT, "tagging", false, "DeleteObjectTagging"},
                {"DELETE", GW_OBJECT, "versionId=null", false, "DeleteObject"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                enum s3_error error;
                const struct gw_op *op =
                        route(cases[i].method, cases[i].scope, cases[i].query, cases[i].copies, &error);

                if (op == NULL)
                        fail_msg("%s ?%s: %s", cases[i].method, cases[i].query, s3_error_info(error)->code);
                assert_string_equal(op->name, cases[i].name);
        }
}

static void what_is_none_says_why(void **state)
{
        static const struct {
                const char *method;
                enum gw_scope scope;
                const char *query;
                enum s3_error error;
        } cases[] = {
                {"OPTIONS", GW_OBJECT, "", S3_ERR_CORS_FORBIDDEN},
                {"PATCH", GW_OBJECT, "", S3_ERR_METHOD_NOT_ALLOWED},
                {"TRACE", GW_BUCKET, "acl", S3_ERR_METHOD_NOT_ALLOWED},
                {"get", GW_OBJECT, "", S3_ERR_METHOD_NOT_ALLOWED},
                {"PUT", GW_SERVICE, "", S3_ERR_METHOD_NOT_ALLOWED},
                {"DELETE", GW_SERVICE, "", S3_ERR_METHOD_NOT_ALLOWED},
                {"POST", GW_OBJECT, "", S3_ERR_METHOD_NOT_ALLOWED},
                {"HEAD", GW_OBJECT, "acl", S3_ERR_METHOD_NOT_ALLOWED},
                {"GET", GW_OBJECT, "uploads", S3_ERR_INVALID_REQUEST},
                {"GET", GW_OBJECT, "versions", S3_ERR_INVALID_REQUEST},
                {"GET", GW_OBJECT, "policy", S3_ERR_NOT_IMPLEMENTED},
                {"PUT", GW_OBJECT, "uploadId=x", S3_ERR_METHOD_NOT_ALLOWED},
                {"PUT", GW_OBJECT, "partNumber=1", S3_ERR_INVALID_ARGUMENT},
                {"PUT", GW_OBJECT, "partNumber=1&acl", S3_ERR_INVALID_ARGUMENT},
                {"GET", GW_BUCKET, "list-type=1", S3_ERR_INVALID_ARGUMENT},
                {"GET", GW_BUCKET, "list-type", S3_ERR_INVALID_ARGUMENT},
                {"GET", GW_BUCKET, "acl&policy", S3_ERR_INVALID_ARGUMENT},
                {"DELETE", GW_OBJECT, "tagging&uploadId=x", S3_ERR_INVALID_ARGUMENT},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                enum s3_error error;

                if (route(cases[i].method, cases[i].scope, cases[i].query, false, &error) != NULL ||
                    error != cases[i].error)
                        fail_msg("%s ?%s: %s", cases[i].method, cases[i].query, s3_error_info(error)->code);
        }
}

static void which_methods_there_are(void **state)
{
        static const struct {
                const char *method;
                enum gw_scope scope;
                const char *query, *path, *allowed;
        } cases[] = {
                {"PATCH", GW_SERVICE, "", "", "GET"},
                {"PATCH", GW_BUCKET, "", "", "DELETE, POST, GET, HEAD, PUT"},
                {"PATCH", GW_OBJECT, "", "", "DELETE, GET, HEAD, PUT"},
                {"HEAD", GW_OBJECT, "acl", "", "GET, PUT"},
                {"PUT", GW_OBJECT, "uploadId=x", "", "DELETE, POST, GET"},
                {"TRACE", GW_BUCKET, "torrent", "", ""},
                {"GET", GW_RESERVED, "", "v1/batch", "POST"},
                {"GET", GW_RESERVED, "", "rdma/v1/sessions/x", "DELETE"},
        };

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                static struct s3_query query;
                char text[64], allowed[GW_ALLOW_SIZE];

                query.count = 0;
                assert_int_equal(s3_query_parse(s3_str_of(cases[i].query), text, sizeof(text), &query), S3_OK);
                gw_route_allowed(s3_str_of(cases[i].method), cases[i].scope, &query, s3_str_of(cases[i].path), allowed);
                assert_string_equal(allowed, cases[i].allowed);
        }
}

/*
 * With a sub-resource, a request is what says so by name, or nothing: never the plain PUT, POST or
 * DELETE.
 */
static void sub_resources_never_fall_through(void **state)
{
        static const char *const subs[] = {
                "abac",
                "accelerate",
                "acl",
                "analytics",
                "attributes",
                "cors",
                "delete",
                "encryption",
                "intelligent-tiering",
                "inventory",
                "legal-hold",
                "lifecycle",
                "location",
                "logging",
                "metadataConfiguration",
                "metadataInventoryTable",
                "metadataJournalTable",
                "metadataTable",
                "metrics",
                "notification",
                "object-lock",
                "ownershipControls",
                "policy",
                "policyStatus",
                "publicAccessBlock",
                "renameObject",
                "replication",
                "requestPayment",
                "restore",
                "retention",
                "select",
                "session",
                "tagging",
                "torrent",
                "uploads",
                "versioning",
                "versions",
                "website",
        };
        static const char *const methods[] = {"GET", "PUT", "POST", "DELETE"};

        for (size_t s = 0; s < sizeof(subs) / sizeof(subs[0]); s++) {
                for (size_t m = 0; m < sizeof(methods) / sizeof(methods[0]); m++) {
                        for (enum gw_scope scope = GW_SERVICE; scope <= GW_OBJECT; scope++) {
                                enum s3_error error;
                                const struct gw_op *op = route(methods[m], scope, subs[s], false, &error);

                                if (op != NULL)
                                        assert_string_equal(op->sub, subs[s]);
                                else
                                        assert_true(error == S3_ERR_NOT_IMPLEMENTED || error == S3_ERR_INVALID_REQUEST);
                        }
                }
        }
}

/*
 * Counters and metrics are told apart by number and by name; rows without a sub-resource must not
 * hide others.
 */
static void the_table_is_sound(void **state)
{
        const struct gw_service service = {.ops = gw_ops, .op_count = &gw_op_count};

        assert_true(gw_op_count < GW_STATS_OPS);
        assert_int_equal(gw_op_index(&service, &gw_op_none), gw_op_count);
        assert_ptr_equal(gw_op_at(&service, gw_op_count), &gw_op_none);
        for (unsigned i = 0; i < gw_op_count; i++) {
                const struct gw_op *op = &gw_ops[i];

                assert_int_equal(gw_op_index(&service, op), i);
                assert_ptr_equal(gw_op_at(&service, i), op);
                assert_non_null(op->run);
                assert_non_null(op->permission);
                assert_true(op->body == GW_BODY_NONE || op->begin != NULL || op->fields != NULL);
                assert_int_equal(op->body == GW_BODY_FORM, op->fields != NULL);
                for (unsigned j = i + 1; j < gw_op_count; j++)
                        assert_string_not_equal(op->name, gw_ops[j].name);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(each_operation_is_found), cmocka_unit_test(what_is_none_says_why),
                cmocka_unit_test(which_methods_there_are), cmocka_unit_test(sub_resources_never_fall_through),
                cmocka_unit_test(the_table_is_sound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
