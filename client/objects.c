/*
 * objects.c - what answers say of objects; and the small requests that are only awaited: buckets, many deletes, aborts, the admin listener.
 */
#include "answer.h"
#include "object.h"
#include "request.h"

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

/* ---- info ---------------------------------------------------------------------------------------- */

void mr_etag_copy(char *out, size_t size, const char *etag)
{
        size_t len;

        if (etag == NULL)
                etag = "";
        if (etag[0] == '"')
                etag++;
        len = strlen(etag);
        if (len > 0 && etag[len - 1] == '"')
                len--;
        snprintf(out, size, "%.*s", (int)len, etag);
}

void mr_etag_quote(char out[100], const char *etag)
{
        snprintf(out, 100, etag[0] == '"' || etag[0] == '\0' ? "%s" : "\"%s\"", etag);
}

void mr_checksum_of_answer(const struct mr_response *response, struct mr_object_info *out)
{
        const char *type = mr_response_header(response, "x-amz-checksum-type");

        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++) {
                const struct s3_checksum_info *info = s3_checksum_info((enum s3_checksum)kind);
                const char *value = mr_response_header(response, info->header);

                if (value == NULL)
                        continue;
                snprintf(out->checksum_kind, sizeof(out->checksum_kind), "%s", info->algorithm);
                snprintf(out->checksum, sizeof(out->checksum), "%s", value);
                /* endpoints that know no types mark the checksum of checksums by its "-parts" alone */
                out->checksum_composite =
                        strchr(value, '-') != NULL || (type != NULL && strcmp(type, "COMPOSITE") == 0);
                return;
        }
}

int mr_info_of_answer(const struct mr_response *response, struct mr_object_info *out)
{
        const char *length = mr_response_header(response, "content-length");
        const char *modified = mr_response_header(response, "last-modified");
        const char *version = mr_response_header(response, "x-amz-version-id");
        int64_t ms;

        memset(out, 0, sizeof(*out));
        if (length == NULL || s3_parse_uint(s3_str_of(length), INT64_MAX, &out->size) != 0)
                return -EPROTO;
        if (modified != NULL && s3_date_parse_http(s3_str_of(modified), &ms) == 0)
                out->mtime_s = ms / 1000;
        mr_etag_copy(out->etag, sizeof(out->etag), mr_response_header(response, "etag"));
        if (version != NULL)
                snprintf(out->version_id, sizeof(out->version_id), "%.127s", version);
        mr_checksum_of_answer(response, out);
        return 0;
}

void mr_object_info_free(struct mr_object_info *info)
{
        for (unsigned i = 0; i < info->header_count; i++) {
                free(info->headers[i].name);
                free(info->headers[i].value);
        }
        free(info->headers);
        memset(info, 0, sizeof(*info));
}

/* ---- buckets and deletes ------------------------------------------------------------------------- */

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

static int delete_document(const char *const keys[], size_t count, char **text, size_t *len)
{
        struct s3_xml xml;

        s3_xml_init(&xml, S3_XML_BODY_MAX);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "Delete");
        for (size_t i = 0; i < count; i++) {
                s3_xml_open(&xml, "Object");
                s3_xml_textz(&xml, "Key", keys[i]);
                s3_xml_close(&xml, "Object");
        }
        s3_xml_textz(&xml, "Quiet", "true");
        s3_xml_close(&xml, "Delete");
        return s3_xml_take(&xml, text, len);
}

static int delete_batch(struct mr_client *client, const char *bucket, const char *const keys[], size_t count,
                        struct delete_failures *failures, struct mr_error *err)
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
        int rv = delete_document(keys, count, &text, &len);

        if (rv != 0)
                return mr_failure(err, rv, "%s", strerror(-rv));
        mr_request_query(&request, "delete", NULL);
        mr_request_header(&request, "content-type", "application/xml");
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

        for (size_t at = 0; at < count && rv == 0; at += DELETE_BATCH)
                rv = delete_batch(client, bucket, keys + at, count - at < DELETE_BATCH ? count - at : DELETE_BATCH,
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

/* ---- the daemon ---------------------------------------------------------------------------------- */

static int64_t date_of(const struct mr_response *response)
{
        const char *date = mr_response_header(response, "date");
        int64_t ms;

        return date != NULL && s3_date_parse_http(s3_str_of(date), &ms) == 0 ? ms / 1000 : 0;
}

/* Takes over the body. */
static int take_reply(struct mr_response *response, struct mr_reply *out, struct mr_error *err)
{
        out->status = response->status;
        out->date_s = date_of(response);
        out->body = response->body != NULL ? response->body : calloc(1, 1);
        out->body_len = response->body_len;
        response->body = NULL;
        return out->body != NULL ? 0 : mr_failure(err, -ENOMEM, "%s", strerror(ENOMEM));
}

static int reply_of(struct mr_client *client, struct mr_request *request, struct mr_reply *out, struct mr_error *err)
{
        struct mr_response response;
        int rv;

        memset(out, 0, sizeof(*out));
        request->once = true;
        rv = mr_request_run(client, request, &response, err);
        if (rv == 0)
                rv = take_reply(&response, out, err);
        mr_response_free(&response);
        return rv;
}

#define ADMIN_START    "x-millrace-start"
#define ADMIN_ATTEMPTS 3u

/* Remembers how the listener calls its start. True: the call was refused and had named another one, or none. */
static bool meant_for_another_start(struct mr_client *client, const struct mr_response *response, const char *named)
{
        const char *start = mr_response_header(response, ADMIN_START);

        if (start == NULL || *start == '\0' || strlen(start) >= MR_ADMIN_START_MAX)
                return false;
        pthread_mutex_lock(&client->lock);
        snprintf(client->admin_start, sizeof(client->admin_start), "%s", start);
        pthread_mutex_unlock(&client->lock);
        return response->status == 403 && strcmp(start, named) != 0;
}

/* One attempt of an admin call. *again: it was refused for the start that it named, or did not name, and did nothing. */
static int admin_once(struct mr_client *client, struct mr_request request, struct mr_reply *out, struct mr_error *err, bool *again)
{
        char named[MR_ADMIN_START_MAX];
        struct mr_response response;
        int rv;

        memset(out, 0, sizeof(*out));
        pthread_mutex_lock(&client->lock);
        memcpy(named, client->admin_start, sizeof(named));
        pthread_mutex_unlock(&client->lock);
        if (named[0] != '\0')
                mr_request_header(&request, ADMIN_START, named);
        request.once = true;
        rv = mr_request_run(client, &request, &response, err);
        *again = rv == 0 && meant_for_another_start(client, &response, named);
        if (rv == 0 && !*again)
                rv = take_reply(&response, out, err);
        mr_response_free(&response);
        return rv;
}

int mr_admin(struct mr_client *client, const char *method, const char *path, const char *const query[],
             struct mr_reply *out, struct mr_error *err)
{
        struct mr_request request = {.method = method, .admin_path = path};
        bool again = true;
        unsigned i;
        int rv = 0;

        for (i = 0; query != NULL && query[i] != NULL && i < 2 * MR_ADMIN_QUERY_MAX; i += 2)
                mr_request_query(&request, query[i], query[i + 1]);
        /* The first call of a client is refused, and so is the first after a restart, which may come between two attempts. */
        for (i = 0; again && rv == 0 && i < ADMIN_ATTEMPTS; i++)
                rv = admin_once(client, request, out, err, &again);
        if (rv == 0 && again)
                rv = mr_failure(err, -EAGAIN, "the daemon has started anew several times meanwhile");
        return rv;
}

int mr_probe_endpoint(struct mr_client *client, struct mr_reply *out, struct mr_error *err)
{
        struct mr_request request = {.method = "GET", .unsigned_request = true};

        return reply_of(client, &request, out, err);
}

int mr_probe_admin(struct mr_client *client, const char *path, struct mr_reply *out, struct mr_error *err)
{
        struct mr_request request = {.method = "GET", .admin_path = path, .unsigned_request = true};

        return reply_of(client, &request, out, err);
}

void mr_reply_free(struct mr_reply *reply)
{
        free(reply->body);
        memset(reply, 0, sizeof(*reply));
}
