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

/* Strings are malloc'ed. order: where the document had it. owner: the page */
struct page_row {
        struct mr_entry entry;
        size_t order;
};

/* owner: whoever has the page */
struct mr_page {
        unsigned magic; /* object_check.h */
        struct page_row *row;
        size_t count, cap;
        bool truncated, encoded, versions;
        char *token;
        char *key_marker; /* versions: the token's parts while it is read, else NULL */
};

void mr_page_free(struct mr_page *page)
{
        if (page == NULL)
                return;
        for (size_t i = 0; i < page->count; i++) {
                free((char *)page->row[i].entry.key);
                free((char *)page->row[i].entry.etag);
                free((char *)page->row[i].entry.version_id);
        }
        free(page->row);
        free(page->token);
        free(page->key_marker);
        free(page);
}

size_t mr_page_count(const struct mr_page *page)
{
        return page->count;
}

const struct mr_entry *mr_page_entry(const struct mr_page *page, size_t index)
{
        return index < page->count ? &page->row[index].entry : NULL;
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

static int64_t page_ms_of(const char *iso)
{
        int64_t ms;

        return s3_date_parse_iso(s3_str_of(iso), &ms) == 0 ? ms : 0;
}

int64_t mr_seconds_of(const char *iso)
{
        return page_ms_of(iso) / 1000;
}

static int page_append(struct mr_page *page, const char *key, const struct mr_record *record, struct mr_entry **out)
{
        struct page_row *grown;
        char quoteless[96];
        size_t cap;

        if (page->count == page->cap) {
                cap = page->cap == 0 ? 1024 : page->cap * 2;
                grown = realloc(page->row, cap * sizeof(*grown));
                if (grown == NULL)
                        return -ENOMEM;
                page->row = grown;
                page->cap = cap;
        }
        mr_etag_copy(quoteless, sizeof(quoteless), mr_record_get(record, "ETag"));
        *out = &page->row[page->count].entry;
        **out = (struct mr_entry){
                .key = strdup(key),
                .etag = strdup(quoteless),
                .version_id = strdup(mr_record_get(record, "VersionId")),
        };
        page->row[page->count].order = page->count;
        page->count++;
        return (*out)->key != NULL && (*out)->etag != NULL && (*out)->version_id != NULL ? 0 : -ENOMEM;
}

static int take_root(struct mr_page *page, const struct mr_record *record)
{
        page->truncated = strcmp(mr_record_get(record, "IsTruncated"), "true") == 0;
        page->encoded = strcmp(mr_record_get(record, "EncodingType"), "url") == 0;
        page->token = strdup(mr_record_get(record, page->versions ? "NextVersionIdMarker" : "NextContinuationToken"));
        if (page->versions)
                page->key_marker = strdup(mr_record_get(record, "NextKeyMarker"));
        return page->token != NULL && (!page->versions || page->key_marker != NULL) ? 0 : -ENOMEM;
}

static int take_dates_and_size(struct mr_entry *entry, const struct mr_record *record)
{
        if (!entry->marker && s3_parse_uint(s3_str_of(mr_record_get(record, "Size")), INT64_MAX, &entry->size) != 0)
                return -EPROTO;
        entry->mtime_ms = page_ms_of(mr_record_get(record, "LastModified"));
        entry->mtime_s = entry->mtime_ms / 1000;
        return 0;
}

static int take_object(void *arg, const struct mr_record *record)
{
        struct mr_page *page = MR_CAST(mr_page, arg);
        bool marker = page->versions && strcmp(record->name, "DeleteMarker") == 0;
        struct mr_entry *entry;
        int rv;

        if (strcmp(record->name, page->versions ? "ListVersionsResult" : "ListBucketResult") == 0)
                return take_root(page, record);
        if (strcmp(record->name, "CommonPrefixes") == 0) {
                rv = page_append(page, mr_record_get(record, "Prefix"), record, &entry);
                if (rv == 0)
                        entry->is_prefix = true;
                return rv;
        }
        if (!marker && strcmp(record->name, page->versions ? "Version" : "Contents") != 0)
                return 0;
        rv = page_append(page, mr_record_get(record, "Key"), record, &entry);
        if (rv != 0)
                return rv;
        entry->marker = marker;
        entry->latest = strcmp(mr_record_get(record, "IsLatest"), "true") == 0;
        return take_dates_and_size(entry, record);
}

/* Versions of one key stay as they came: the newest first. */
static int by_key(const void *a, const void *b)
{
        const struct page_row *left = a, *right = b;
        int order = strcmp(left->entry.key, right->entry.key);

        return order != 0 ? order : (left->order > right->order) - (left->order < right->order);
}

/* The token of a listing of versions; see mr_page_markers(). */
static int page_join_markers(struct mr_page *page)
{
        size_t id = strlen(page->token), key;
        char *token;

        if (page->encoded && mr_name_decode(page->key_marker) != 0)
                return -EPROTO;
        key = strlen(page->key_marker);
        if (id >= MR_VERSION_ID_MAX || strchr(page->token, ' ') != NULL)
                return -EPROTO;
        if (key == 0)
                return page->truncated ? -ENODATA : 0;
        token = malloc(id + key + 2);
        if (token == NULL)
                return -ENOMEM;
        memcpy(token, page->token, id);
        token[id] = ' ';
        memcpy(token + id + 1, page->key_marker, key + 1);
        free(page->token);
        page->token = token;
        return 0;
}

int mr_page_markers(const char *token, char id[MR_VERSION_ID_MAX], const char **key)
{
        const char *space = strchr(token, ' ');

        if (space == NULL || space - token >= MR_VERSION_ID_MAX || space[1] == '\0')
                return -EINVAL;
        memcpy(id, token, (size_t)(space - token));
        id[space - token] = '\0';
        *key = space + 1;
        return 0;
}

int mr_page_read(const char *body, size_t len, bool versions, struct mr_page **out)
{
        struct mr_page *page = calloc(1, sizeof(*page));
        int rv;

        if (page == NULL)
                return -ENOMEM;
        page->magic = mr_page_magic;
        page->versions = versions;
        rv = mr_answer_read(body, len, versions ? "ListVersionsResult" : "ListBucketResult", 1, take_object, page);
        for (size_t i = 0; i < page->count && rv == 0 && page->encoded; i++)
                rv = mr_name_decode((char *)page->row[i].entry.key);
        if (rv == 0 && versions)
                rv = page_join_markers(page);
        if (rv == 0 && page->truncated && page->token[0] == '\0')
                rv = -ENODATA;
        if (rv != 0) {
                mr_page_free(page);
                return rv;
        }
        if (page->count > 1)
                qsort(page->row, page->count, sizeof(page->row[0]), by_key);
        *out = page;
        return 0;
}
