/*
 * buckets.c - requests that are only awaited: buckets, many deletes, aborts of uploads. On the
 * caller's thread.
 */
#include "client.h"

#include "client/base/xml_answer.h"
#include "client/http/client_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DELETE_BATCH 1000u

/* A request whose answer has no body that matters. */
static int simple(struct mr_client *client, const char *method, const char *bucket, const char *key,
                  struct mr_error *err)
{
        struct mr_request request = {.method = method, .bucket = bucket, .key = key};
        struct mr_response response;
        int rv = mr_request_run(client, &request, &response, err);

        mr_response_free(&response);
        return rv;
}

int mr_bucket_create(struct mr_client *client, const char *bucket, struct mr_error *err)
{
        char body[256];
        struct mr_request request = {.method = "PUT", .bucket = bucket};
        struct mr_response response;
        int rv;

        if (strcmp(client->settings.region, "us-east-1") != 0) {
                snprintf(body, sizeof(body),
                         "<CreateBucketConfiguration xmlns=\"" S3_XML_NAMESPACE "\"><LocationConstraint>%s"
                         "</LocationConstraint></CreateBucketConfiguration>",
                         client->settings.region);
                request.data = body;
                request.len = strlen(body);
        }
        rv = mr_request_run(client, &request, &response, err);
        mr_response_free(&response);
        return rv;
}

int mr_bucket_delete(struct mr_client *client, const char *bucket, struct mr_error *err)
{
        return simple(client, "DELETE", bucket, NULL, err);
}

int mr_bucket_head(struct mr_client *client, const char *bucket, struct mr_error *err)
{
        return simple(client, "HEAD", bucket, NULL, err);
}

/* owner: one call of mr_delete_many() */
struct delete_failures {
        mr_delete_failed_fn failed;
        void *arg;
};

static int take_delete_failure(void *arg, const struct mr_record *record)
{
        const struct delete_failures *failures = arg;

        if (strcmp(record->name, "Error") == 0 && failures->failed != NULL)
                failures->failed(failures->arg, mr_record_get(record, "Key"), mr_record_get(record, "Code"),
                                 mr_record_get(record, "Message"));
        return 0;
}

static int delete_document(const struct mr_key_version versions[], size_t count, char **text, size_t *len)
{
        struct s3_xml xml;

        s3_xml_init(&xml, S3_XML_BODY_MAX);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "Delete");
        for (size_t i = 0; i < count; i++) {
                s3_xml_open(&xml, "Object");
                s3_xml_textz(&xml, "Key", versions[i].key);
                if (versions[i].version_id != NULL)
                        s3_xml_textz(&xml, "VersionId", versions[i].version_id);
                s3_xml_close(&xml, "Object");
        }
        s3_xml_textz(&xml, "Quiet", "true");
        s3_xml_close(&xml, "Delete");
        return s3_xml_take(&xml, text, len);
}

static int buckets_delete_batch(struct mr_client *client, const char *bucket, const struct mr_key_version versions[],
                                size_t count, bool bypass_governance, struct delete_failures *failures,
                                struct mr_error *err)
{
        struct mr_request request = {
                .method = "POST",
                .bucket = bucket,
                .has_checksum = true, /* S3 asks for one here, whatever the settings say */
                .checksum = S3_CRC32,
        };
        struct mr_response response;
        char *text = NULL;
        size_t len = 0;
        int rv = delete_document(versions, count, &text, &len);

        if (rv != 0)
                return mr_failure(err, rv, "%s", strerror(-rv));
        mr_request_query(&request, "delete", NULL);
        mr_request_header(&request, "content-type", "application/xml");
        if (bypass_governance)
                mr_request_header(&request, "x-amz-bypass-governance-retention", "true");
        request.data = text;
        request.len = len;
        rv = mr_request_run(client, &request, &response, err);
        if (rv == 0) {
                rv = mr_answer_read(response.body, response.body_len, "DeleteResult", 1, take_delete_failure, failures);
                if (rv != 0)
                        mr_failure(err, rv, "the answer to a delete is not a DeleteResult");
        }
        mr_response_free(&response);
        free(text);
        return rv;
}

int mr_delete_many(struct mr_client *client, const char *bucket, const char *const keys[], size_t count,
                   mr_delete_failed_fn failed, void *arg, struct mr_error *err)
{
        struct delete_failures failures = {failed, arg};
        int rv = 0;

        for (size_t at = 0; at < count && rv == 0; at += DELETE_BATCH) {
                struct mr_key_version versions[DELETE_BATCH];
                size_t n = count - at < DELETE_BATCH ? count - at : DELETE_BATCH;

                for (size_t i = 0; i < n; i++)
                        versions[i] = (struct mr_key_version){.key = keys[at + i]};
                rv = buckets_delete_batch(client, bucket, versions, n, false, &failures, err);
        }
        return rv;
}

int mr_delete_many_versions(struct mr_client *client, const char *bucket, const struct mr_key_version versions[],
                            size_t count, bool bypass_governance, mr_delete_failed_fn failed, void *arg,
                            struct mr_error *err)
{
        struct delete_failures failures = {failed, arg};
        int rv = 0;

        for (size_t at = 0; at < count && rv == 0; at += DELETE_BATCH)
                rv = buckets_delete_batch(client, bucket, versions + at,
                                          count - at < DELETE_BATCH ? count - at : DELETE_BATCH, bypass_governance,
                                          &failures, err);
        return rv;
}

int mr_upload_abort(struct mr_client *client, const char *bucket, const char *key, const char *upload_id,
                    struct mr_error *err)
{
        struct mr_request request = {.method = "DELETE", .bucket = bucket, .key = key, .urgent = true};
        struct mr_response response;
        int rv;

        mr_request_query(&request, "uploadId", upload_id);
        rv = mr_request_run(client, &request, &response, err);
        mr_response_free(&response);
        return rv;
}
