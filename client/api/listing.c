/*
 * listing.c - pages through buckets and uploads. A page is read whole and handed out entry by entry
 * on the caller's thread; memory is that of one page. A page that leads nowhere new ends the
 * listing with -EPROTO (I9).
 */
#include "client/base/xml_answer.h"
#include "client/http/client_request.h"
#include "client/http/object_info.h"
#include "client/operations/page.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_MAX 8192

static int copy_token(char out[TOKEN_MAX], const char *text)
{
        return snprintf(out, TOKEN_MAX, "%s", text) < TOKEN_MAX ? 0 : -EPROTO;
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* owner: one call of mr_buckets() */
struct bucket_reading {
        mr_bucket_fn bucket;
        void *arg;
        int rv;
        char token[TOKEN_MAX];
};

static int take_bucket(void *arg, const struct mr_record *record)
{
        struct bucket_reading *reading = arg;

        if (strcmp(record->name, "ListAllMyBucketsResult") == 0)
                return copy_token(reading->token, mr_record_get(record, "ContinuationToken"));
        if (strcmp(record->name, "Bucket") == 0)
                reading->rv = reading->bucket(reading->arg,
                                              &(struct mr_bucket){
                                                      .name = mr_record_get(record, "Name"),
                                                      .created_s = mr_seconds_of(mr_record_get(record, "CreationDate")),
                                              });
        return reading->rv;
}

int mr_buckets(struct mr_client *client, mr_bucket_fn bucket, void *arg, struct mr_error *err)
{
        struct bucket_reading reading = {.bucket = bucket, .arg = arg};
        char token[TOKEN_MAX] = "";
        int rv;

        for (;;) {
                struct mr_request request = {.method = "GET"};
                struct mr_response response;

                if (token[0] != '\0')
                        mr_request_query(&request, "continuation-token", token);
                rv = mr_request_run(client, &request, &response, err);
                if (rv == 0) {
                        rv = mr_answer_read(response.body != NULL ? response.body : "", response.body_len,
                                            "ListAllMyBucketsResult", 2, take_bucket, &reading);
                        if (rv != 0 && reading.rv == 0)
                                mr_failure(err, rv, "the answer is not a list of buckets");
                }
                mr_response_free(&response);
                if (rv != 0 || reading.token[0] == '\0')
                        return rv;
                if (strcmp(reading.token, token) == 0)
                        return mr_failure(err, -EPROTO, "a truncated listing does not say where it goes on");
                memcpy(token, reading.token, sizeof(token));
        }
}

/* ---- uploads --------------------------------------------------------------------------------- */

/* Strings are the page's. */
struct listed {
        char *key, *upload_id;
        int64_t initiated_s;
};

/* One page being read. owner: one call of mr_uploads() */
struct page {
        struct listed *entry;
        size_t count, cap;
        bool truncated, encoded;
        char token[TOKEN_MAX], token2[TOKEN_MAX]; /* where the next page begins: two markers */
};

static void page_clear(struct page *page)
{
        for (size_t i = 0; i < page->count; i++) {
                free(page->entry[i].key);
                free(page->entry[i].upload_id);
        }
        page->count = 0;
        page->truncated = false;
        page->encoded = false;
        page->token[0] = '\0';
        page->token2[0] = '\0';
}

static void page_free(struct page *page)
{
        page_clear(page);
        free(page->entry);
        free(page);
}

static int page_decode(struct page *page)
{
        int rv = 0;

        for (size_t i = 0; i < page->count && rv == 0 && page->encoded; i++)
                rv = mr_name_decode(page->entry[i].key);
        /* unlike a continuation token, a key marker is a name */
        return rv == 0 && page->encoded ? mr_name_decode(page->token) : rv;
}

static int listing_page_add(struct page *page, struct listed **out)
{
        struct listed *grown;
        size_t cap;

        if (page->count == page->cap) {
                cap = page->cap == 0 ? 1024 : page->cap * 2;
                grown = realloc(page->entry, cap * sizeof(*grown));
                if (grown == NULL)
                        return -ENOMEM;
                page->entry = grown;
                page->cap = cap;
        }
        *out = &page->entry[page->count++];
        memset(*out, 0, sizeof(**out));
        return 0;
}

static int listing_take_upload(void *arg, const struct mr_record *record)
{
        struct page *page = arg;
        struct listed *entry;
        int rv;

        if (strcmp(record->name, "ListMultipartUploadsResult") == 0) {
                page->truncated = strcmp(mr_record_get(record, "IsTruncated"), "true") == 0;
                page->encoded = strcmp(mr_record_get(record, "EncodingType"), "url") == 0;
                rv = copy_token(page->token, mr_record_get(record, "NextKeyMarker"));
                return rv != 0 ? rv : copy_token(page->token2, mr_record_get(record, "NextUploadIdMarker"));
        }
        if (strcmp(record->name, "Upload") != 0)
                return 0;
        rv = listing_page_add(page, &entry);
        if (rv != 0)
                return rv;
        entry->initiated_s = mr_seconds_of(mr_record_get(record, "Initiated"));
        entry->key = strdup(mr_record_get(record, "Key"));
        entry->upload_id = strdup(mr_record_get(record, "UploadId"));
        return entry->key != NULL && entry->upload_id != NULL ? 0 : -ENOMEM;
}

static int uploads_page(struct mr_client *client, const char *bucket, const char *prefix, const char *key_marker,
                        const char *id_marker, struct page *page, struct mr_error *err)
{
        struct mr_request request = {.method = "GET", .bucket = bucket};
        struct mr_response response;
        int rv;

        mr_request_query(&request, "uploads", NULL);
        mr_request_query(&request, "encoding-type", "url");
        if (prefix != NULL && prefix[0] != '\0')
                mr_request_query(&request, "prefix", prefix);
        if (key_marker[0] != '\0') {
                mr_request_query(&request, "key-marker", key_marker);
                mr_request_query(&request, "upload-id-marker", id_marker);
        }
        page_clear(page);
        rv = mr_request_run(client, &request, &response, err);
        if (rv == 0) {
                rv = mr_answer_read(response.body != NULL ? response.body : "", response.body_len,
                                    "ListMultipartUploadsResult", 1, listing_take_upload, page);
                if (rv == 0)
                        rv = page_decode(page);
                if (rv != 0)
                        mr_failure(err, rv, "the answer is not a list of uploads");
        }
        mr_response_free(&response);
        return rv;
}

static int hand_out_uploads(const struct page *page, mr_upload_fn upload, void *arg)
{
        int rv = 0;

        for (size_t i = 0; i < page->count && rv == 0; i++)
                rv = upload(arg, &(struct mr_upload){
                                         .key = page->entry[i].key,
                                         .upload_id = page->entry[i].upload_id,
                                         .initiated_s = page->entry[i].initiated_s,
                                 });
        return rv;
}

int mr_uploads(struct mr_client *client, const char *bucket, const char *prefix, mr_upload_fn upload, void *arg,
               struct mr_error *err)
{
        char key[TOKEN_MAX] = "", id[TOKEN_MAX] = "";
        struct page *page = calloc(1, sizeof(*page));
        int rv = 0;

        if (page == NULL)
                return mr_failure(err, -ENOMEM, "%s", strerror(ENOMEM));
        while (rv == 0) {
                rv = uploads_page(client, bucket, prefix, key, id, page, err);
                if (rv == 0)
                        rv = hand_out_uploads(page, upload, arg);
                if (rv != 0 || !page->truncated)
                        break;
                if (page->token[0] == '\0' || (strcmp(page->token, key) == 0 && strcmp(page->token2, id) == 0))
                        rv = mr_failure(err, -EPROTO, "a truncated listing does not say where it goes on");
                memcpy(key, page->token, sizeof(key));
                memcpy(id, page->token2, sizeof(id));
        }
        page_free(page);
        return rv;
}
