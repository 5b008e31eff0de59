/*
 * operation_small.c - operations that are one request each: head, list (one page), copy, delete.
 * The program's thread begins, the client's threads end; an answer that takes time to read is read
 * by a worker.
 */
#include "client/base/xml_answer.h"
#include "client/http/client_request.h"
#include "client/http/object_info.h"
#include "client/operations/client_operation.h"
#include "client/operations/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct small_op {
        struct mr_op op;
        unsigned magic; /* object_check.h */
        struct mr_request request;
        int rv;
        int (*finish)(struct small_op *small); /* reads a 2xx answer into the result; fills its error */
        struct mr_job job;
        char max_keys[16];
        char *source;  /* of a copy */
        bool versions; /* of a list */
};

static void small_free(struct mr_op *op)
{
        struct small_op *small = (struct small_op *)op;

        MR_CHECK(small_op, small);
        mr_response_free(&small->request.response);
        free(small->source);
}

static void small_finish(void *arg)
{
        struct small_op *small = MR_CAST(small_op, arg);
        int rv = small->rv;

        small->op.result.error = small->request.error;
        if (rv == 0)
                rv = small->finish(small);
        mr_op_end(&small->op, rv);
}

static void small_answered(void *arg, struct mr_request *request, int rv)
{
        struct small_op *small = MR_CAST(small_op, arg);

        small->rv = rv;
        if (request->response.body_len > 4096) {
                small->job = (struct mr_job){.run = small_finish, .arg = small};
                mr_work(small->op.client, &small->job);
        } else {
                small_finish(small);
        }
}

static int small_new(struct mr_client *client, const struct mr_target *target, const char *method, const char *bucket,
                     const char *key, int (*finish_fn)(struct small_op *small), struct small_op **out)
{
        struct mr_op *op;
        int rv;

        if (bucket == NULL || bucket[0] == '\0')
                return -EINVAL;
        rv = mr_op_new(client, sizeof(struct small_op), 1, target, &op);
        if (rv != 0)
                return rv;
        *out = (struct small_op *)op;
        (*out)->magic = small_op_magic;
        op->free = small_free;
        (*out)->finish = finish_fn;
        (*out)->request.method = method;
        (*out)->request.bucket = mr_op_text(op, bucket);
        (*out)->request.key = mr_op_text(op, key);
        (*out)->request.canceled = &op->canceled;
        (*out)->request.done = small_answered;
        (*out)->request.done_arg = *out;
        return 0;
}

static int small_send(struct small_op *small)
{
        int rv;

        if (small->op.no_memory) {
                mr_op_abandon(&small->op, 1);
                return -ENOMEM;
        }
        rv = mr_request_start(small->op.client, &small->request);
        if (rv != 0) {
                small->op.result.error = small->request.error;
                mr_op_end(&small->op, rv);
        }
        return 0;
}

static bool has_key(const char *key)
{
        return key != NULL && key[0] != '\0';
}

/* ---- head ------------------------------------------------------------------------------------ */

static int head_finish(struct small_op *small)
{
        struct mr_response *response = &small->request.response;
        struct mr_object_info *info = &small->op.result.object;
        int rv = mr_info_of_answer(response, info);

        if (rv != 0)
                return mr_failure(&small->op.result.error, rv, "the endpoint answered without a Content-Length");
        info->headers = malloc(sizeof(response->header));
        if (info->headers == NULL)
                return mr_failure_errno(&small->op.result.error, -ENOMEM);
        memcpy(info->headers, response->header, sizeof(response->header)); /* the headers change owner */
        info->header_count = response->header_count;
        response->header_count = 0;
        return 0;
}

static int head_begin(struct mr_client *client, const void *what, const struct mr_target *target)
{
        const struct mr_head *head = what;
        struct small_op *small;
        int rv;

        if (!has_key(head->key))
                return -EINVAL;
        rv = small_new(client, target, "HEAD", head->bucket, head->key, head_finish, &small);
        if (rv != 0)
                return rv;
        mr_request_header(&small->request, "x-amz-checksum-mode", "ENABLED");
        if (head->version_id != NULL)
                mr_request_query(&small->request, "versionId", mr_op_text(&small->op, head->version_id));
        return small_send(small);
}

int mr_head_start(struct mr_client *client, const struct mr_head *head, struct mr_queue *queue, void *tag, uint64_t *op)
{
        return head_begin(client, head, &(struct mr_target){.queue = queue, .tag = tag, .op = op});
}

int mr_head(struct mr_client *client, const char *bucket, const char *key, struct mr_object_info *out,
            struct mr_error *err)
{
        return mr_head_version(client, &(struct mr_head){.bucket = bucket, .key = key}, out, err);
}

int mr_head_version(struct mr_client *client, const struct mr_head *head, struct mr_object_info *out,
                    struct mr_error *err)
{
        struct mr_result result;
        int rv = mr_op_await(client, head_begin, head, &result);

        *out = result.object;
        if (err != NULL)
                *err = result.error;
        return rv;
}

/* ---- list ------------------------------------------------------------------------------------ */

static int list_finish(struct small_op *small)
{
        const struct mr_response *response = &small->request.response;
        int rv = mr_page_read(response->body != NULL ? response->body : "", response->body_len, small->versions,
                              &small->op.result.page);

        if (rv == -ENODATA)
                return mr_failure(&small->op.result.error, -EPROTO,
                                  "a truncated listing does not say where it goes on");
        return rv == 0 ? 0
                       : mr_failure(&small->op.result.error, rv, "the answer to a listing is not a %s",
                                    small->versions ? "ListVersionsResult" : "ListBucketResult");
}

static void small_add(struct small_op *small, const char *name, const char *value)
{
        if (value != NULL && value[0] != '\0')
                mr_request_query(&small->request, name, mr_op_text(&small->op, value));
}

int mr_list_begin(struct mr_client *client, const void *what, const struct mr_target *target)
{
        const struct mr_list *list = what;
        const char *key_marker = list->start_after;
        char id_marker[MR_VERSION_ID_MAX] = "";
        struct small_op *small;
        int rv;

        if (list->versions && list->token != NULL && mr_page_markers(list->token, id_marker, &key_marker) != 0)
                return -EINVAL;
        rv = small_new(client, target, "GET", list->bucket, NULL, list_finish, &small);
        if (rv != 0)
                return rv;
        small->versions = list->versions;
        if (list->versions)
                mr_request_query(&small->request, "versions", NULL);
        else
                mr_request_query(&small->request, "list-type", "2");
        mr_request_query(&small->request, "encoding-type", "url");
        small_add(small, "prefix", list->prefix);
        small_add(small, "delimiter", list->delimiter);
        snprintf(small->max_keys, sizeof(small->max_keys), "%u", list->page);
        if (list->page != 0)
                mr_request_query(&small->request, "max-keys", small->max_keys);
        if (list->versions) {
                small_add(small, "key-marker", key_marker);
                small_add(small, "version-id-marker", id_marker);
        } else if (list->token != NULL) {
                small_add(small, "continuation-token", list->token);
        } else {
                small_add(small, "start-after", list->start_after);
        }
        return small_send(small);
}

int mr_list_start(struct mr_client *client, const struct mr_list *list, struct mr_queue *queue, void *tag, uint64_t *op)
{
        return mr_list_begin(client, list, &(struct mr_target){.queue = queue, .tag = tag, .op = op});
}

/* ---- copy ------------------------------------------------------------------------------------ */

static int take_copied(void *arg, const struct mr_record *record)
{
        struct small_op *small = MR_CAST(small_op, arg);

        if (strcmp(record->name, "CopyObjectResult") == 0)
                mr_etag_copy(small->op.result.object.etag, sizeof(small->op.result.object.etag),
                             mr_record_get(record, "ETag"));
        return 0;
}

/* A 200 here may hold an error: the endpoint had to answer before it knew. */
static int copy_finish(struct small_op *small)
{
        const struct mr_response *response = &small->request.response;
        const char *body = response->body != NULL ? response->body : "";
        struct mr_error *err = &small->op.result.error;

        if (mr_answer_read(body, response->body_len, "CopyObjectResult", 1, take_copied, small) == 0)
                return 0;
        mr_failure_of_answer(response, err);
        (void)mr_request_doubt(&small->request, err);
        return err->s3_code[0] != '\0' ? err->code
                                       : mr_failure(err, -EPROTO, "the answer to a copy is not a CopyObjectResult");
}

/* /bucket/key[?versionId=id], each part escaped. */
static char *copy_source(const struct mr_copy *copy)
{
        const char *part[] = {copy->source_bucket, copy->source_key, copy->source_version_id};
        static const char *const before[] = {"/", "/", "?versionId="};
        size_t size = sizeof("//?versionId="), at = 0;
        char *out;
        int n;

        for (unsigned i = 0; i < 3; i++)
                size += part[i] != NULL ? 3 * strlen(part[i]) : 0;
        out = malloc(size);
        for (unsigned i = 0; i < 3 && out != NULL && part[i] != NULL; i++) {
                memcpy(out + at, before[i], strlen(before[i]));
                at += strlen(before[i]);
                n = s3_percent_encode(s3_str_of(part[i]), i < 2 ? S3_ENCODE_PATH : S3_ENCODE_QUERY, out + at,
                                      size - at - 1);
                if (n < 0) {
                        free(out);
                        return NULL;
                }
                at += (size_t)n;
                out[at] = '\0';
        }
        return out;
}

static int copy_begin(struct mr_client *client, const void *what, const struct mr_target *target)
{
        const struct mr_copy *copy = what;
        struct small_op *small;
        int rv;

        if (!has_key(copy->key) || !has_key(copy->source_key) || copy->source_bucket == NULL)
                return -EINVAL;
        rv = small_new(client, target, "PUT", copy->bucket, copy->key, copy_finish, &small);
        if (rv != 0)
                return rv;
        small->source = copy_source(copy);
        if (small->source == NULL)
                small->op.no_memory = true;
        mr_request_header(&small->request, "x-amz-copy-source", small->source);
        if (copy->if_none_match)
                mr_request_header(&small->request, "if-none-match", "*");
        return small_send(small);
}

int mr_copy_start(struct mr_client *client, const struct mr_copy *copy, struct mr_queue *queue, void *tag, uint64_t *op)
{
        return copy_begin(client, copy, &(struct mr_target){.queue = queue, .tag = tag, .op = op});
}

int mr_copy(struct mr_client *client, const struct mr_copy *copy, struct mr_error *err)
{
        struct mr_result result;
        int rv = mr_op_await(client, copy_begin, copy, &result);

        if (err != NULL)
                *err = result.error;
        return rv;
}

/* ---- delete ---------------------------------------------------------------------------------- */

static int delete_finish(struct small_op *small)
{
        return 0;
}

static int delete_begin(struct mr_client *client, const void *what, const struct mr_target *target)
{
        const struct mr_delete *del = what;
        struct small_op *small;
        int rv;

        if (!has_key(del->key))
                return -EINVAL;
        rv = small_new(client, target, "DELETE", del->bucket, del->key, delete_finish, &small);
        if (rv != 0)
                return rv;
        if (del->version_id != NULL)
                mr_request_query(&small->request, "versionId", mr_op_text(&small->op, del->version_id));
        if (del->bypass_governance)
                mr_request_header(&small->request, "x-amz-bypass-governance-retention", "true");
        return small_send(small);
}

int mr_delete_start(struct mr_client *client, const struct mr_delete *del, struct mr_queue *queue, void *tag,
                    uint64_t *op)
{
        return delete_begin(client, del, &(struct mr_target){.queue = queue, .tag = tag, .op = op});
}

int mr_delete(struct mr_client *client, const char *bucket, const char *key, struct mr_error *err)
{
        return mr_delete_version(client, &(struct mr_delete){.bucket = bucket, .key = key}, err);
}

int mr_delete_version(struct mr_client *client, const struct mr_delete *del, struct mr_error *err)
{
        struct mr_result result;
        int rv = mr_op_await(client, delete_begin, del, &result);

        if (err != NULL)
                *err = result.error;
        return rv;
}
