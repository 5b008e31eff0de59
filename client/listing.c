/*
 * listing.c - pages through what S3 lists: objects, buckets, uploads. A page is read whole, put in order, and handed
 * out entry by entry on the caller's thread; memory is that of one page. A page that leads nowhere new ends the
 * listing with -EPROTO (I9).
 */
#include "answer.h"
#include "object.h"
#include "request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_MAX 8192

/* One entry of a page. Strings are the page's. */
struct listed {
        char *key;
        char *upload_id; /* of uploads */
        bool is_prefix;
        uint64_t size;
        int64_t mtime_s;
        char etag[96];
};

/* One page being read. owner: one call of a listing */
struct page {
        struct listed *entry;
        size_t count, cap;
        bool truncated, encoded;
        char token[TOKEN_MAX], token2[TOKEN_MAX]; /* where the next page begins; uploads have two markers */
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
        if (page == NULL)
                return;
        page_clear(page);
        free(page->entry);
        free(page);
}

/*
 * We ask for percent-encoded names, because XML cannot carry every byte they may hold. An endpoint that does encode
 * says so, at any place of the document: hence decoding comes after reading. In place. A NUL would not be a name C
 * code could use.
 */
static int decode(char *text)
{
        size_t len = strlen(text);
        int n = s3_percent_decode((struct s3_str){text, len}, true, text, len);

        if (n < 0 || memchr(text, '\0', (size_t)n) != NULL)
                return -EPROTO;
        text[n] = '\0';
        return 0;
}

static int page_decode(struct page *page)
{
        int rv = 0;

        if (!page->encoded)
                return 0;
        for (size_t i = 0; i < page->count && rv == 0; i++)
                rv = decode(page->entry[i].key);
        return rv;
}

static int page_add(struct page *page, const char *key, struct listed **out)
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
        *out = &page->entry[page->count];
        memset(*out, 0, sizeof(**out));
        (*out)->key = strdup(key);
        if ((*out)->key == NULL)
                return -ENOMEM;
        page->count++;
        return 0;
}

static int64_t seconds_of(const char *iso)
{
        int64_t ms;

        return s3_date_parse_iso(s3_str_of(iso), &ms) == 0 ? ms / 1000 : 0;
}

static int copy_token(char out[TOKEN_MAX], const char *text)
{
        return snprintf(out, TOKEN_MAX, "%s", text) < TOKEN_MAX ? 0 : -EPROTO;
}

static int by_key(const void *a, const void *b)
{
        const struct listed *left = a, *right = b;

        return strcmp(left->key, right->key);
}

/* ---- objects ------------------------------------------------------------------------------------- */

/* What the root says of its page. */
static void take_root(struct page *page, const struct mr_record *record)
{
        page->truncated = strcmp(mr_record_get(record, "IsTruncated"), "true") == 0;
        page->encoded = strcmp(mr_record_get(record, "EncodingType"), "url") == 0;
}

static int take_object(void *arg, const struct mr_record *record)
{
        struct page *page = arg;
        struct listed *entry;
        int rv;

        if (strcmp(record->name, "ListBucketResult") == 0) {
                take_root(page, record);
                return copy_token(page->token, mr_record_get(record, "NextContinuationToken"));
        }
        if (strcmp(record->name, "CommonPrefixes") == 0) {
                rv = page_add(page, mr_record_get(record, "Prefix"), &entry);
                if (rv == 0)
                        entry->is_prefix = true;
                return rv;
        }
        if (strcmp(record->name, "Contents") != 0)
                return 0;
        rv = page_add(page, mr_record_get(record, "Key"), &entry);
        if (rv != 0)
                return rv;
        if (s3_parse_uint(s3_str_of(mr_record_get(record, "Size")), INT64_MAX, &entry->size) != 0)
                return -EPROTO;
        entry->mtime_s = seconds_of(mr_record_get(record, "LastModified"));
        mr_etag_copy(entry->etag, sizeof(entry->etag), mr_record_get(record, "ETag"));
        return 0;
}

/* Runs one request of a listing into the page. */
static int page_read(struct mr_client *client, struct mr_request *request, const char *root, mr_record_fn take,
                     struct page *page, struct mr_error *err)
{
        struct mr_response response;
        int rv;

        page_clear(page);
        rv = mr_request_run(client, request, &response, err);
        if (rv == 0) {
                rv = mr_answer_read(response.body != NULL ? response.body : "", response.body_len, root, 1, take, page);
                if (rv == 0)
                        rv = page_decode(page);
                if (rv != 0)
                        mr_failure(err, rv, "the answer to a listing is not a %s", root);
        }
        mr_response_free(&response);
        return rv;
}

static int hand_out_objects(const struct page *page, mr_entry_fn entry, void *arg)
{
        int rv = 0;

        for (size_t i = 0; i < page->count && rv == 0; i++) {
                const struct listed *listed = &page->entry[i];

                rv = entry(arg, &(struct mr_entry){
                                        .key = listed->key,
                                        .is_prefix = listed->is_prefix,
                                        .size = listed->size,
                                        .mtime_s = listed->mtime_s,
                                        .etag = listed->etag,
                                });
        }
        return rv;
}

static void list_request(const struct mr_list *list, const char *max_keys, const char *token, struct mr_request *out)
{
        *out = (struct mr_request){.method = "GET", .bucket = list->bucket};
        mr_request_query(out, "list-type", "2");
        mr_request_query(out, "encoding-type", "url");
        if (list->prefix != NULL && list->prefix[0] != '\0')
                mr_request_query(out, "prefix", list->prefix);
        if (list->delimiter != NULL && list->delimiter[0] != '\0')
                mr_request_query(out, "delimiter", list->delimiter);
        if (list->page != 0)
                mr_request_query(out, "max-keys", max_keys);
        if (token[0] != '\0')
                mr_request_query(out, "continuation-token", token);
        else if (list->start_after != NULL && list->start_after[0] != '\0')
                mr_request_query(out, "start-after", list->start_after);
}

int mr_list(struct mr_client *client, const struct mr_list *list, mr_entry_fn entry, void *arg, struct mr_error *err)
{
        char token[TOKEN_MAX] = "", max_keys[16];
        struct page *page = calloc(1, sizeof(*page));
        int rv = 0;

        if (page == NULL)
                return mr_failure(err, -ENOMEM, "%s", strerror(ENOMEM));
        snprintf(max_keys, sizeof(max_keys), "%u", list->page);
        while (rv == 0) {
                struct mr_request request;

                list_request(list, max_keys, token, &request);
                rv = page_read(client, &request, "ListBucketResult", take_object, page, err);
                if (rv != 0)
                        break;
                if (page->count > 1)
                        qsort(page->entry, page->count, sizeof(page->entry[0]), by_key);
                rv = hand_out_objects(page, entry, arg);
                if (rv != 0 || !page->truncated)
                        break;
                if (page->token[0] == '\0' || strcmp(page->token, token) == 0)
                        rv = mr_failure(err, -EPROTO, "a truncated listing does not say where it goes on");
                memcpy(token, page->token, sizeof(token));
        }
        page_free(page);
        return rv;
}

/* ---- buckets ------------------------------------------------------------------------------------- */

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
                                                      .created_s = seconds_of(mr_record_get(record, "CreationDate")),
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

/* ---- uploads ------------------------------------------------------------------------------------- */

static int take_upload(void *arg, const struct mr_record *record)
{
        struct page *page = arg;
        struct listed *entry;
        int rv;

        if (strcmp(record->name, "ListMultipartUploadsResult") == 0) {
                take_root(page, record);
                rv = copy_token(page->token, mr_record_get(record, "NextKeyMarker"));
                return rv != 0 ? rv : copy_token(page->token2, mr_record_get(record, "NextUploadIdMarker"));
        }
        if (strcmp(record->name, "Upload") != 0)
                return 0;
        rv = page_add(page, mr_record_get(record, "Key"), &entry);
        if (rv != 0)
                return rv;
        entry->mtime_s = seconds_of(mr_record_get(record, "Initiated"));
        entry->upload_id = strdup(mr_record_get(record, "UploadId"));
        return entry->upload_id != NULL ? 0 : -ENOMEM;
}

static int uploads_page(struct mr_client *client, const char *bucket, const char *prefix, const char *key_marker,
                        const char *id_marker, struct page *page, struct mr_error *err)
{
        struct mr_request request = {.method = "GET", .bucket = bucket};
        int rv;

        mr_request_query(&request, "uploads", NULL);
        mr_request_query(&request, "encoding-type", "url");
        if (prefix != NULL && prefix[0] != '\0')
                mr_request_query(&request, "prefix", prefix);
        if (key_marker[0] != '\0') {
                mr_request_query(&request, "key-marker", key_marker);
                mr_request_query(&request, "upload-id-marker", id_marker);
        }
        rv = page_read(client, &request, "ListMultipartUploadsResult", take_upload, page, err);
        if (rv == 0 && page->encoded) /* unlike a continuation token, a key marker is a name */
                rv = decode(page->token);
        return rv;
}

static int hand_out_uploads(const struct page *page, mr_upload_fn upload, void *arg)
{
        int rv = 0;

        for (size_t i = 0; i < page->count && rv == 0; i++)
                rv = upload(arg, &(struct mr_upload){
                                         .key = page->entry[i].key,
                                         .upload_id = page->entry[i].upload_id,
                                         .initiated_s = page->entry[i].mtime_s,
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
