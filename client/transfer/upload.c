/*
 * upload.c - an upload in parts, whoever supplies them: create, upload each, complete or drop.
 * put_object.c, put_fd.c and multipart.c drive it. Each step is a request; what ends one runs on
 * its loop. The parts' results meet in struct mr_upload_steps, under its lock. A completion that
 * fails is followed by an abort, so that nothing holds space; the abort is made even after a
 * cancellation.
 */
#include "client/transfer/upload.h"

#include "client/base/xml_answer.h"
#include "client/http/object_info.h"
#include "client/http/retry.h"
#include "client/transfer/plan.h"

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

int mr_put_headers(const struct mr_put_head *head, struct mr_request *request, char names[MR_META_NAMES])
{
        size_t used = 0;

        if (head->metadata_count > MR_HEADERS_MAX / 2)
                return -E2BIG;
        if (head->content_type != NULL)
                mr_request_header(request, "content-type", head->content_type);
        for (unsigned i = 0; i < head->metadata_count; i++) {
                int n = snprintf(names + used, MR_META_NAMES - used, "x-amz-meta-%s", head->metadata[i].name);

                if (n < 0 || (size_t)n >= MR_META_NAMES - used)
                        return -E2BIG;
                mr_request_header(request, names + used, head->metadata[i].value);
                used += (size_t)n + 1;
        }
        return 0;
}

void mr_put_conditions(const struct mr_put_head *head, struct mr_request *request, char quoted[100])
{
        if (head->if_none_match)
                mr_request_header(request, "if-none-match", "*");
        if (head->if_match == NULL)
                return;
        mr_etag_quote(quoted, head->if_match);
        mr_request_header(request, "if-match", quoted);
}

void mr_upload_init(struct mr_upload_steps *steps, struct mr_client *client, const struct mr_put_head *head)
{
        memset(steps, 0, sizeof(*steps));
        steps->magic = mr_upload_steps_magic;
        steps->client = client;
        steps->head = head;
        steps->has_checksum = mr_put_checksum(client, &steps->checksum);
        pthread_mutex_init(&steps->lock, NULL);
}

void mr_upload_free(struct mr_upload_steps *steps)
{
        free(steps->names);
        free(steps->body);
        free(steps->part);
        pthread_mutex_destroy(&steps->lock);
}

/* Begins the step that steps->request is. */
static int upload_step(struct mr_upload_steps *steps, const char *method,
                       void (*ended)(void *arg, struct mr_request *request, int rv))
{
        int rv;

        steps->request.method = method;
        steps->request.bucket = steps->head->bucket;
        steps->request.key = steps->head->key;
        steps->request.done = ended;
        steps->request.done_arg = steps;
        rv = mr_request_start(steps->client, &steps->request);
        if (rv != 0)
                steps->error = steps->request.error;
        return rv;
}

/* ---- create ---------------------------------------------------------------------------------- */

static int take_upload_id(void *arg, const struct mr_record *record)
{
        const char *id = mr_record_get(record, "UploadId");

        if (id[0] == '\0' || strlen(id) >= MR_UPLOAD_ID_MAX)
                return -EPROTO;
        memcpy(arg, id, strlen(id) + 1);
        return 0;
}

static void upload_created(void *arg, struct mr_request *request, int rv)
{
        struct mr_upload_steps *steps = MR_CAST(mr_upload_steps, arg);

        steps->error = request->error;
        if (rv == 0) {
                rv = mr_answer_read(request->response.body != NULL ? request->response.body : "",
                                    request->response.body_len, "InitiateMultipartUploadResult", 1, take_upload_id,
                                    steps->id);
                if (rv != 0)
                        mr_failure(&steps->error, rv, "the answer to a new upload has no UploadId");
        }
        mr_response_free(&request->response);
        steps->done(steps->done_arg, rv);
}

int mr_upload_create(struct mr_upload_steps *steps, void (*done)(void *arg, int rv), void *arg)
{
        struct mr_request *request = &steps->request;
        int rv = -ENOMEM;

        memset(request, 0, sizeof(*request));
        steps->done = done;
        steps->done_arg = arg;
        if (steps->names == NULL)
                steps->names = malloc(MR_META_NAMES);
        if (steps->names != NULL)
                rv = mr_put_headers(steps->head, request, steps->names);
        if (rv != 0)
                return mr_failure_errno(&steps->error, rv);
        request->stop = &steps->stop;
        request->canceled = steps->canceled;
        mr_request_query(request, "uploads", NULL);
        if (steps->has_checksum) {
                mr_request_header(request, "x-amz-checksum-algorithm", s3_checksum_info(steps->checksum)->algorithm);
                mr_request_header(request, "x-amz-checksum-type", s3_checksum_type_name(S3_FULL_OBJECT));
        }
        return upload_step(steps, "POST", upload_created);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static int note_part(struct mr_upload_steps *steps, uint32_t number, const struct mr_part *part)
{
        uint32_t cap;
        int rv = 0;

        pthread_mutex_lock(&steps->lock);
        if (number > steps->parts_cap) {
                struct mr_part *grown;

                cap = number * 2 < 64 ? 64 : number * 2;
                grown = realloc(steps->part, cap * sizeof(*grown));
                if (grown == NULL) {
                        rv = -ENOMEM;
                } else {
                        memset(grown + steps->parts_cap, 0, (cap - steps->parts_cap) * sizeof(*grown));
                        steps->part = grown;
                        steps->parts_cap = cap;
                }
        }
        if (rv == 0) {
                steps->part[number - 1] = *part;
                if (number > steps->parts)
                        steps->parts = number;
        }
        pthread_mutex_unlock(&steps->lock);
        return rv;
}

static void upload_part_done(void *arg, struct mr_request *request, int rv)
{
        struct mr_part_upload *part = MR_CAST(mr_part_upload, arg);
        struct mr_part found = {.len = request->len};
        const char *etag = mr_response_header(&request->response, "etag");

        part->error = request->error;
        if (rv == 0 && (etag == NULL || etag[0] == '\0' || strlen(etag) >= sizeof(found.etag)))
                rv = mr_failure(&part->error, -EPROTO, "the answer to a part has no ETag");
        if (rv == 0) {
                snprintf(found.etag, sizeof(found.etag), "%s", etag);
                memcpy(found.sum, request->sum, sizeof(found.sum));
                rv = note_part(part->steps, part->number, &found);
                if (rv != 0)
                        mr_failure_errno(&part->error, rv);
        }
        mr_response_free(&request->response);
        part->done(part->done_arg, part, rv);
}

int mr_part_start(struct mr_part_upload *part)
{
        struct mr_upload_steps *steps = part->steps;
        struct mr_request *request = &part->request;
        int rv;

        part->magic = mr_part_upload_magic;
        MR_CHECK(mr_upload_steps, steps);
        snprintf(part->number_text, sizeof(part->number_text), "%u", part->number);
        request->method = "PUT";
        request->bucket = steps->head->bucket;
        request->key = steps->head->key;
        request->stop = &steps->stop;
        if (request->canceled == NULL)
                request->canceled = steps->canceled;
        request->has_checksum = steps->has_checksum;
        request->checksum = steps->checksum;
        request->done = upload_part_done;
        request->done_arg = part;
        mr_request_query(request, "partNumber", part->number_text);
        mr_request_query(request, "uploadId", steps->id);
        part->send.request = request;
        rv = mr_send_start(steps->client, &part->send);
        if (rv != 0)
                part->error = request->error;
        return rv;
}

/* ---- the end --------------------------------------------------------------------------------- */

static int complete_document(const struct mr_upload_steps *steps, char **text, size_t *len)
{
        char sum[S3_CHECKSUM_TEXT];
        struct s3_xml xml;

        s3_xml_init(&xml, S3_XML_BODY_MAX);
        s3_xml_root(&xml, "CompleteMultipartUpload");
        for (uint32_t i = 0; i < steps->parts; i++) {
                s3_xml_open(&xml, "Part");
                if (steps->has_checksum) {
                        s3_checksum_format(steps->checksum, steps->part[i].sum, 0, sum);
                        s3_xml_textz(&xml, s3_checksum_info(steps->checksum)->element, sum);
                }
                s3_xml_textz(&xml, "ETag", steps->part[i].etag);
                s3_xml_uint(&xml, "PartNumber", i + 1);
                s3_xml_close(&xml, "Part");
        }
        s3_xml_close(&xml, "CompleteMultipartUpload");
        return s3_xml_take(&xml, text, len);
}

/* The checksum of all bytes, from those of the parts. */
static int sum_of_parts(const struct mr_upload_steps *steps, char out[S3_CHECKSUM_TEXT])
{
        uint8_t value[S3_CHECKSUM_MAX];
        struct s3_parts_sum *sum;
        int rv = s3_parts_sum_new(steps->checksum, S3_FULL_OBJECT, &sum);

        if (rv != 0)
                return rv;
        for (uint32_t i = 0; i < steps->parts; i++)
                s3_parts_sum_add(sum, steps->part[i].sum, steps->part[i].len);
        s3_parts_sum_final(sum, value);
        s3_parts_sum_free(sum);
        s3_checksum_format(steps->checksum, value, 0, out);
        return 0;
}

static int take_etag(void *arg, const struct mr_record *record)
{
        struct mr_put_done *out = arg;

        mr_etag_copy(out->etag, sizeof(out->etag), mr_record_get(record, "ETag"));
        return 0;
}

/*
 * A 200 here may hold an error: the endpoint had to answer before it knew. Blanks that kept the
 * connection alive come first. -EAGAIN: an error that may pass.
 */
static int check_completion(void *arg, const struct mr_response *response, struct mr_error *err)
{
        struct mr_upload_steps *steps = MR_CAST(mr_upload_steps, arg);
        struct mr_response trimmed = *response;
        const char *body = response->body != NULL ? response->body : "";
        size_t blanks = strspn(body, " \t\r\n");

        if (mr_answer_read(body + blanks, response->body_len - blanks, "CompleteMultipartUploadResult", 1, take_etag,
                           &steps->result) == 0)
                return 0;
        trimmed.body = response->body != NULL ? response->body + blanks : NULL;
        trimmed.body_len = response->body_len - blanks;
        mr_failure_of_answer(&trimmed, err);
        if (err->s3_code[0] == '\0')
                return mr_failure(err, -EPROTO, "the answer to the completion of an upload is not one");
        return mr_retry_class(CURLE_OK, 200, err->s3_code) != MR_RETRY_NO ? -EAGAIN : err->code;
}

static void upload_aborted(void *arg, struct mr_request *request, int rv)
{
        struct mr_upload_steps *steps = MR_CAST(mr_upload_steps, arg);

        /*
         * what the abort answers changes nothing for whoever completes: the upload has failed, and
         * why is known
         */
        if (steps->rv == 0) {
                steps->rv = rv;
                steps->error = request->error;
        }
        steps->id[0] = '\0';
        mr_response_free(&request->response);
        steps->done(steps->done_arg, steps->rv);
}

static int send_abort(struct mr_upload_steps *steps)
{
        struct mr_request *request = &steps->request;

        memset(request, 0, sizeof(*request));
        request->urgent = true;
        mr_request_query(request, "uploadId", steps->id);
        return upload_step(steps, "DELETE", upload_aborted);
}

int mr_upload_drop(struct mr_upload_steps *steps, void (*done)(void *arg, int rv), void *arg)
{
        if (steps->id[0] == '\0')
                return -EALREADY;
        steps->rv = 0;
        steps->done = done;
        steps->done_arg = arg;
        return send_abort(steps);
}

static void upload_completed(void *arg, struct mr_request *request, int rv)
{
        struct mr_upload_steps *steps = MR_CAST(mr_upload_steps, arg);
        const char *version = mr_response_header(&request->response, "x-amz-version-id");
        struct mr_error why = request->error;

        free(steps->body);
        steps->body = NULL;
        if (rv == 0 && version != NULL)
                snprintf(steps->result.version_id, sizeof(steps->result.version_id), "%.127s", version);
        mr_response_free(&request->response);
        if (rv == 0) {
                steps->id[0] = '\0';
                steps->done(steps->done_arg, 0);
                return;
        }
        steps->rv = why.code;
        steps->error = why; /* upload_aborted() leaves both */
        if (send_abort(steps) == 0)
                return;
        steps->error = why;
        steps->done(steps->done_arg, steps->rv);
}

/* Every part is there, the document and the sum of all are made. */
static int prepare_completion(struct mr_upload_steps *steps)
{
        struct mr_request *request = &steps->request;
        size_t len = 0;
        int rv = 0;

        memset(&steps->result, 0, sizeof(steps->result));
        steps->result.parts = steps->parts;
        for (uint32_t i = 0; i < steps->parts && rv == 0; i++) {
                steps->result.size += steps->part[i].len;
                if (steps->part[i].etag[0] == '\0')
                        rv = mr_failure(&steps->error, -EINVAL, "part %u of the upload is missing", i + 1);
        }
        if (rv == 0 && (rv = complete_document(steps, &steps->body, &len)) != 0)
                mr_failure_errno(&steps->error, rv);
        if (rv == 0 && steps->has_checksum && (rv = sum_of_parts(steps, steps->sum_text)) != 0)
                mr_failure_errno(&steps->error, rv);
        request->data = steps->body;
        request->len = len;
        return rv;
}

int mr_upload_complete(struct mr_upload_steps *steps, void (*done)(void *arg, int rv), void *arg)
{
        struct mr_request *request = &steps->request;
        int rv;

        steps->done = done;
        steps->done_arg = arg;
        memset(request, 0, sizeof(*request));
        rv = prepare_completion(steps);
        if (rv != 0)
                return rv;
        snprintf(steps->size_text, sizeof(steps->size_text), "%llu", (unsigned long long)steps->result.size);
        request->stop = &steps->stop;
        request->canceled = steps->canceled;
        request->check = check_completion;
        request->sink_arg = steps;
        mr_request_query(request, "uploadId", steps->id);
        mr_request_header(request, "content-type", "application/xml");
        mr_request_header(request, "x-amz-mp-object-size", steps->size_text);
        if (steps->has_checksum) {
                mr_request_header(request, s3_checksum_info(steps->checksum)->header, steps->sum_text);
                mr_request_header(request, "x-amz-checksum-type", s3_checksum_type_name(S3_FULL_OBJECT));
        }
        mr_put_conditions(steps->head, request, steps->if_match);
        return upload_step(steps, "POST", upload_completed);
}
