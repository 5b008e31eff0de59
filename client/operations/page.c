/*
 * page.c - listings of objects: one page as the endpoint answered it, put in order. Any thread.
 */
#include "client/operations/page.h"

#include "client/base/xml_answer.h"
#include "client/http/client_request.h"
#include "client/http/object_info.h"
#include "client/base/object_check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* owner: whoever has the page */
struct mr_page {
        unsigned magic;         /* object_check.h */
        struct mr_entry *entry; /* strings are malloc'ed */
        size_t count, cap;
        bool truncated, encoded;
        char *token;
};

void mr_page_free(struct mr_page *page)
{
        if (page == NULL)
                return;
        for (size_t i = 0; i < page->count; i++) {
                free((char *)page->entry[i].key);
                free((char *)page->entry[i].etag);
        }
        free(page->entry);
        free(page->token);
        free(page);
}

size_t mr_page_count(const struct mr_page *page)
{
        return page->count;
}

const struct mr_entry *mr_page_entry(const struct mr_page *page, size_t index)
{
        return index < page->count ? &page->entry[index] : NULL;
}

const char *mr_page_token(const struct mr_page *page)
{
        return page->truncated ? page->token : NULL;
}

/* ---- reading --------------------------------------------------------------------------------- */

/*
 * We ask for percent-encoded names, because XML cannot carry every byte they may hold. An endpoint
 * that does encode says so, at any place of the document: hence decoding comes after reading. In
 * place. A NUL would not be a name C code could use.
 */
int mr_name_decode(char *text)
{
        size_t len = strlen(text);
        int n = s3_percent_decode((struct s3_str){text, len}, true, text, len);

        if (n < 0 || memchr(text, '\0', (size_t)n) != NULL)
                return -EPROTO;
        text[n] = '\0';
        return 0;
}

int64_t mr_seconds_of(const char *iso)
{
        int64_t ms;

        return s3_date_parse_iso(s3_str_of(iso), &ms) == 0 ? ms / 1000 : 0;
}

static int page_append(struct mr_page *page, const char *key, const char *etag, struct mr_entry **out)
{
        struct mr_entry *grown;
        char quoteless[96];
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
        mr_etag_copy(quoteless, sizeof(quoteless), etag);
        **out = (struct mr_entry){.key = strdup(key), .etag = strdup(quoteless)};
        page->count++;
        return (*out)->key != NULL && (*out)->etag != NULL ? 0 : -ENOMEM;
}

static int take_root(struct mr_page *page, const struct mr_record *record)
{
        page->truncated = strcmp(mr_record_get(record, "IsTruncated"), "true") == 0;
        page->encoded = strcmp(mr_record_get(record, "EncodingType"), "url") == 0;
        page->token = strdup(mr_record_get(record, "NextContinuationToken"));
        return page->token != NULL ? 0 : -ENOMEM;
}

static int take_object(void *arg, const struct mr_record *record)
{
        struct mr_page *page = MR_CAST(mr_page, arg);
        struct mr_entry *entry;
        int rv;

        if (strcmp(record->name, "ListBucketResult") == 0)
                return take_root(page, record);
        if (strcmp(record->name, "CommonPrefixes") == 0) {
                rv = page_append(page, mr_record_get(record, "Prefix"), "", &entry);
                if (rv == 0)
                        entry->is_prefix = true;
                return rv;
        }
        if (strcmp(record->name, "Contents") != 0)
                return 0;
        rv = page_append(page, mr_record_get(record, "Key"), mr_record_get(record, "ETag"), &entry);
        if (rv != 0)
                return rv;
        if (s3_parse_uint(s3_str_of(mr_record_get(record, "Size")), INT64_MAX, &entry->size) != 0)
                return -EPROTO;
        entry->mtime_s = mr_seconds_of(mr_record_get(record, "LastModified"));
        return 0;
}

static int by_key(const void *a, const void *b)
{
        const struct mr_entry *left = a, *right = b;

        return strcmp(left->key, right->key);
}

int mr_page_read(const char *body, size_t len, struct mr_page **out)
{
        struct mr_page *page = calloc(1, sizeof(*page));
        int rv;

        if (page == NULL)
                return -ENOMEM;
        page->magic = mr_page_magic;
        rv = mr_answer_read(body, len, "ListBucketResult", 1, take_object, page);
        for (size_t i = 0; i < page->count && rv == 0 && page->encoded; i++)
                rv = mr_name_decode((char *)page->entry[i].key);
        if (rv == 0 && page->truncated && page->token[0] == '\0')
                rv = -ENODATA;
        if (rv != 0) {
                mr_page_free(page);
                return rv;
        }
        if (page->count > 1)
                qsort(page->entry, page->count, sizeof(page->entry[0]), by_key);
        *out = page;
        return 0;
}
