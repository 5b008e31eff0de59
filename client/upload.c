/*
 * upload.c - an upload in parts, whoever supplies them: begin, upload each, complete or abort. put.c drives it. Parts
 * run on several threads; their results meet in the run, under its lock. A failed upload is always aborted, so that
 * it holds no space; the abort is made even after a cancellation.
 */
#include "upload.h"

#include "answer.h"
#include "plan.h"
#include "retry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool mr_put_checksum(const struct mr_client *client, enum s3_checksum *out)
{
        switch (client->settings.checksum) {
        case MR_CRC64NVME:
                *out = S3_CRC64NVME;
                return true;
        case MR_CRC32C:
                *out = S3_CRC32C;
                return true;
        case MR_CRC32:
                *out = S3_CRC32;
                return true;
        case MR_CHECKSUM_NONE:
                break;
        }
        return false;
}

int mr_put_headers(const struct mr_put_fd *put, struct mr_request *request, char names[MR_META_NAMES])
{
        size_t used = 0;

        if (put->metadata_count > MR_HEADERS_MAX / 2)
                return -E2BIG;
        if (put->content_type != NULL)
                mr_request_header(request, "content-type", put->content_type);
        for (unsigned i = 0; i < put->metadata_count; i++) {
                int n = snprintf(names + used, MR_META_NAMES - used, "x-amz-meta-%s", put->metadata[i].name);

                if (n < 0 || (size_t)n >= MR_META_NAMES - used)
                        return -E2BIG;
                mr_request_header(request, names + used, put->metadata[i].value);
                used += (size_t)n + 1;
        }
        return 0;
}

/* ---- begin --------------------------------------------------------------------------------------- */

static int take_upload_id(void *arg, const struct mr_record *record)
{
        const char *id = mr_record_get(record, "UploadId");

        if (id[0] == '\0' || strlen(id) >= MR_UPLOAD_ID_MAX)
                return -EPROTO;
        memcpy(arg, id, strlen(id) + 1);
        return 0;
}

static int create(struct mr_upload_run *run, struct mr_error *err)
{
        struct mr_request request = {.method = "POST", .bucket = run->put->bucket, .key = run->put->key};
        struct mr_response response;
        char *names = malloc(MR_META_NAMES);
        int rv = names != NULL ? mr_put_headers(run->put, &request, names) : -ENOMEM;

        if (rv != 0) {
                free(names);
                return mr_failure(err, rv, "%s", strerror(-rv));
        }
        mr_request_query(&request, "uploads", NULL);
        if (run->has_checksum) {
                mr_request_header(&request, "x-amz-checksum-algorithm", s3_checksum_info(run->checksum)->algorithm);
                mr_request_header(&request, "x-amz-checksum-type", s3_checksum_type_name(S3_FULL_OBJECT));
        }
        rv = mr_request_run(run->client, &request, &response, err);
        if (rv == 0) {
                rv = mr_answer_read(response.body != NULL ? response.body : "", response.body_len,
                                    "InitiateMultipartUploadResult", 1, take_upload_id, run->id);
                if (rv != 0)
                        mr_failure(err, rv, "the answer to a new upload has no UploadId");
        }
        mr_response_free(&response);
        free(names);
        return rv;
}

int mr_upload_begin(struct mr_client *client, const struct mr_put_fd *put, struct mr_upload_run *run, struct mr_error *err)
{
        int rv;

        memset(run, 0, sizeof(*run));
        run->client = client;
        run->put = put;
        run->has_checksum = mr_put_checksum(client, &run->checksum);
        atomic_init(&run->failed, false);
        rv = create(run, err);
        if (rv != 0)
                return rv;
        pthread_mutex_init(&run->lock, NULL);
        pthread_cond_init(&run->room, NULL);
        return 0;
}

/* ---- parts --------------------------------------------------------------------------------------- */

static void note_failure(struct mr_upload_run *run, const struct mr_error *err)
{
        pthread_mutex_lock(&run->lock);
        if (!atomic_exchange(&run->failed, true)) /* later ones are mostly the stop of the first */
                run->error = *err;
        pthread_cond_broadcast(&run->room);
        pthread_mutex_unlock(&run->lock);
}

void mr_upload_fail(struct mr_upload_run *run, int code, const char *text)
{
        struct mr_error err;

        mr_failure(&err, code, "%s", text);
        note_failure(run, &err);
}

static int note_part(struct mr_upload_run *run, uint32_t number, const struct mr_part *part)
{
        uint32_t cap;
        int rv = 0;

        pthread_mutex_lock(&run->lock);
        if (number > run->parts_cap) {
                struct mr_part *grown;

                cap = number * 2 < 64 ? 64 : number * 2;
                grown = realloc(run->part, cap * sizeof(*grown));
                if (grown == NULL) {
                        rv = -ENOMEM;
                } else {
                        memset(grown + run->parts_cap, 0, (cap - run->parts_cap) * sizeof(*grown));
                        run->part = grown;
                        run->parts_cap = cap;
                }
        }
        if (rv == 0) {
                run->part[number - 1] = *part;
                if (number > run->parts)
                        run->parts = number;
        }
        pthread_mutex_unlock(&run->lock);
        return rv;
}

void mr_upload_part(struct mr_upload_run *run, uint32_t number, struct mr_request *request)
{
        struct mr_part part = {.len = request->len, .done = true};
        struct mr_response response;
        struct mr_error err;
        const char *etag;
        char text[16];
        int rv;

        snprintf(text, sizeof(text), "%u", number);
        request->method = "PUT";
        request->bucket = run->put->bucket;
        request->key = run->put->key;
        request->stop = &run->failed;
        request->has_checksum = run->has_checksum;
        request->checksum = run->checksum;
        request->progress = run->put->progress;
        request->progress_arg = run->put->progress_arg;
        mr_request_query(request, "partNumber", text);
        mr_request_query(request, "uploadId", run->id);
        rv = mr_request_run(run->client, request, &response, &err);
        if (rv == 0) {
                etag = mr_response_header(&response, "etag");
                if (etag == NULL || strlen(etag) >= sizeof(part.etag)) {
                        rv = mr_failure(&err, -EPROTO, "the answer to a part has no ETag");
                } else {
                        snprintf(part.etag, sizeof(part.etag), "%s", etag);
                        memcpy(part.sum, request->sum, sizeof(part.sum));
                        rv = note_part(run, number, &part);
                        if (rv != 0)
                                mr_failure(&err, rv, "%s", strerror(-rv));
                }
        }
        if (rv != 0)
                note_failure(run, &err);
        mr_response_free(&response);
}

/* ---- the end ------------------------------------------------------------------------------------- */

static int complete_document(const struct mr_upload_run *run, char **text, size_t *len)
{
        char sum[S3_CHECKSUM_TEXT];
        struct s3_xml xml;

        s3_xml_init(&xml, S3_XML_BODY_MAX);
        s3_xml_root(&xml, "CompleteMultipartUpload");
        for (uint32_t i = 0; i < run->parts; i++) {
                s3_xml_open(&xml, "Part");
                if (run->has_checksum) {
                        s3_checksum_format(run->checksum, run->part[i].sum, 0, sum);
                        s3_xml_textz(&xml, s3_checksum_info(run->checksum)->element, sum);
                }
                s3_xml_textz(&xml, "ETag", run->part[i].etag);
                s3_xml_uint(&xml, "PartNumber", i + 1);
                s3_xml_close(&xml, "Part");
        }
        s3_xml_close(&xml, "CompleteMultipartUpload");
        return s3_xml_take(&xml, text, len);
}

/* The checksum of all bytes, from those of the parts. */
static int sum_of_parts(const struct mr_upload_run *run, char out[S3_CHECKSUM_TEXT])
{
        uint8_t value[S3_CHECKSUM_MAX];
        struct s3_parts_sum *sum;
        int rv = s3_parts_sum_new(run->checksum, S3_FULL_OBJECT, &sum);

        if (rv != 0)
                return rv;
        for (uint32_t i = 0; i < run->parts; i++)
                s3_parts_sum_add(sum, run->part[i].sum, run->part[i].len);
        s3_parts_sum_final(sum, value);
        s3_parts_sum_free(sum);
        s3_checksum_format(run->checksum, value, 0, out);
        return 0;
}

static int take_etag(void *arg, const struct mr_record *record)
{
        struct mr_put_fd_result *out = arg;
        const char *etag = mr_record_get(record, "ETag");

        snprintf(out->etag, sizeof(out->etag), "%.*s", (int)strcspn(etag + strspn(etag, "\""), "\""),
                 etag + strspn(etag, "\""));
        return 0;
}

/* A 200 here may hold an error: the endpoint had to answer before it knew. Blanks that kept the connection alive come
 * first. */
static int read_completion(const struct mr_response *response, struct mr_put_fd_result *out, struct mr_error *err)
{
        struct mr_response trimmed = *response;
        const char *body = response->body != NULL ? response->body : "";
        size_t blanks = strspn(body, " \t\r\n");

        if (mr_answer_read(body + blanks, response->body_len - blanks, "CompleteMultipartUploadResult", 1, take_etag,
                           out) == 0)
                return 0;
        trimmed.body = response->body != NULL ? response->body + blanks : NULL;
        trimmed.body_len = response->body_len - blanks;
        mr_failure_of_answer(&trimmed, err);
        if (err->s3_code[0] == '\0')
                return mr_failure(err, -EPROTO, "the answer to the completion of an upload is not one");
        return err->code;
}

static int complete_with(struct mr_upload_run *run, struct mr_request *request, struct mr_put_fd_result *out,
                         struct mr_error *err)
{
        struct mr_client *client = run->client;
        int rv;

        for (unsigned number = 1;; number++) {
                struct mr_response response;
                enum mr_retry class = MR_RETRY_NO;

                rv = mr_request_run(client, request, &response, err);
                if (rv == 0) {
                        rv = read_completion(&response, out, err);
                        class = rv != 0 ? mr_retry_class(CURLE_OK, 200, err->s3_code) : MR_RETRY_NO;
                }
                mr_response_free(&response);
                if (rv == 0 || class == MR_RETRY_NO || number >= client->settings.attempts)
                        return rv;
                if (mr_core_sleep(client, mr_retry_delay_ms(class, number + 1, mr_core_random(), 0), false) != 0)
                        return mr_failure(err, -ECANCELED, "canceled");
        }
}

static int complete(struct mr_upload_run *run, struct mr_put_fd_result *out, struct mr_error *err)
{
        struct mr_request request = {.method = "POST", .bucket = run->put->bucket, .key = run->put->key};
        char sum[S3_CHECKSUM_TEXT], size[24];
        char *text = NULL;
        size_t len = 0;
        int rv = complete_document(run, &text, &len);

        if (rv == 0 && run->has_checksum)
                rv = sum_of_parts(run, sum);
        if (rv != 0) {
                free(text);
                return mr_failure(err, rv, "%s", strerror(-rv));
        }
        out->size = 0;
        out->parts = run->parts;
        for (uint32_t i = 0; i < run->parts; i++)
                out->size += run->part[i].len;
        snprintf(size, sizeof(size), "%llu", (unsigned long long)out->size);
        mr_request_query(&request, "uploadId", run->id);
        mr_request_header(&request, "content-type", "application/xml");
        mr_request_header(&request, "x-amz-mp-object-size", size);
        if (run->has_checksum) {
                mr_request_header(&request, s3_checksum_info(run->checksum)->header, sum);
                mr_request_header(&request, "x-amz-checksum-type", s3_checksum_type_name(S3_FULL_OBJECT));
        }
        if (run->put->if_none_match)
                mr_request_header(&request, "if-none-match", "*");
        request.data = text;
        request.len = len;
        rv = complete_with(run, &request, out, err);
        free(text);
        return rv;
}

int mr_upload_end(struct mr_upload_run *run, struct mr_put_fd_result *out, struct mr_error *err)
{
        struct mr_error first = run->error;
        int rv = atomic_load(&run->failed) ? first.code : 0;

        if (rv == 0)
                rv = complete(run, out, &first);
        if (rv != 0) {
                /* what the abort answers changes nothing for the caller: the upload has failed, and why is known */
                (void)mr_upload_abort(run->client, run->put->bucket, run->put->key, run->id, NULL);
                if (err != NULL)
                        *err = first;
        }
        pthread_cond_destroy(&run->room);
        pthread_mutex_destroy(&run->lock);
        free(run->part);
        return rv;
}
