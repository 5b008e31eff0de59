/*
 * op_list.c - ListObjects, ListObjectsV2 and ListObjectVersions. On the request's loop.
 *
 * Two listings of the engine, three forms of document. What an entry says beside its key is put
 * together in one small buffer: a page has a thousand of them, and listing is measured in pages per
 * second. I9: an answer is bounded by LIST_LIMIT.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/http/budget.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/version_ids.h"

#define PAGE_MAX       1000u
#define KEYS_ASKED_MAX 2147483647u
#define LIST_LIMIT     (16u << 20)
/* Of an entry, at most, in the engine, until the answer is made: a version has its key in two forms. */
#define OBJECT_MEMORY  (ENG_KEY_MAX + 256u)
#define VERSION_MEMORY (2 * ENG_KEY_MAX + 512u)
#define TAIL_MAX       768u /* an entry without its key */

enum form { V1, V2, VERSIONS };

static const struct {
        const char *root, *marker;
        unsigned memory;
} forms[] = {
        [V1] = {"ListBucketResult", "marker", OBJECT_MEMORY},
        [V2] = {"ListBucketResult", "start-after", OBJECT_MEMORY},
        [VERSIONS] = {"ListVersionsResult", "key-marker", VERSION_MEMORY},
};

/* One listing under way. owner: its request */
struct list {
        unsigned magic; /* gw_check.h */
        enum form form;
        struct s3_str prefix, delimiter, marker;
        struct s3_str token; /* V2: as given */
        struct s3_str after; /* where it begins */
        struct gw_version after_version; /* VERSIONS: inside that key */
        uint64_t max;
        bool url, owner;
        char owner_xml[1024];
        size_t owner_len;
        int64_t second; /* what second_text is of */
        char second_text[S3_DATE_ISO_SIZE];
        struct gw_tag sum_tag; /* what sum_text is of */
        size_t sum_len;
        char sum_text[128];
};

/* ---- parameters ------------------------------------------------------------------------------ */

/* For what is wrong with a query parameter. */
static bool list_refuse(struct gw_request *req, const char *name, const char *message)
{
        gw_reply_argument(req, name, gw_query(req, name), message);
        return false;
}

static bool read_list_token(struct gw_request *req, struct list *list)
{
        char *name;

        list->token = gw_query(req, "continuation-token");
        if (list->token.data == NULL)
                return true;
        name = gw_alloc(req, ENG_KEY_MAX);
        if (name == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        list->after.data = name;
        return gw_token_read(list->token, name, &list->after.len) == 0 || gw_token_refuse(req);
}

static bool read_version_marker(struct gw_request *req, struct list *list)
{
        struct s3_str version = gw_query(req, "version-id-marker");
        const char *message = NULL;

        if (version.data == NULL)
                return true;
        if (list->marker.data == NULL)
                return list_refuse(req, "version-id-marker",
                                   "A version-id marker cannot be specified without a key marker.");
        if (version.len == 0)
                return list_refuse(req, "version-id-marker", "A version-id marker cannot be empty.");
        return gw_version_parse(version, &list->after_version, &message) == S3_OK ||
               list_refuse(req, "version-id-marker", message);
}

static bool read_list(struct gw_request *req, struct list *list)
{
        struct s3_str encoding = gw_query(req, "encoding-type");

        list->prefix = gw_query(req, "prefix");
        list->delimiter = gw_query(req, "delimiter");
        list->marker = list->after = gw_query(req, forms[list->form].marker);
        list->owner = list->form != V2 || s3_str_eq(gw_query(req, "fetch-owner"), S3_STR("true"));
        list->url = encoding.data != NULL;
        if (list->url && !s3_str_eq_nocase(encoding, S3_STR("url")))
                return list_refuse(req, "encoding-type", "Invalid Encoding Method specified in Request");
        if (!gw_query_uint(req, "max-keys", KEYS_ASKED_MAX, PAGE_MAX, &list->max))
                return false;
        if (list->max > PAGE_MAX)
                list->max = PAGE_MAX;
        if (list->form == V2)
                return read_list_token(req, list);
        return list->form != VERSIONS || read_version_marker(req, list);
}

/* ---- one entry ------------------------------------------------------------------------------- */

/* What the engine gave: one of the two. */
struct page {
        const struct eng_list_entry *objects;
        const struct eng_version_entry *versions;
        unsigned count;
        bool more;
};

struct row {
        struct s3_str name;
        bool is_prefix, latest;
        const struct eng_object *object;
};

static struct row row_of(const struct page *page, unsigned i)
{
        const struct eng_version_entry *version = &page->versions[i];
        const struct eng_list_entry *entry = &page->objects[i];

        assert(i < page->count);
        return page->versions != NULL
                       ? (struct row){gw_s3_str(version->key), version->is_prefix, version->latest, &version->object}
                       : (struct row){gw_s3_str(entry->name), entry->is_prefix, true, &entry->object};
}

#define PUT(p, literal) (memcpy((p), (literal), sizeof(literal) - 1), (p) + sizeof(literal) - 1)

static char *put_element_text(char *p, const char *text)
{
        return stpcpy(p, text);
}

static char *put_uint(char *p, uint64_t value)
{
        char digits[20];
        unsigned at = sizeof(digits);

        do {
                digits[--at] = (char)('0' + value % 10);
                value /= 10;
        } while (value != 0);
        memcpy(p, digits + at, sizeof(digits) - at);
        return p + sizeof(digits) - at;
}

/* Neighbours in a listing were often written within one second: only its milliseconds differ. */
static char *put_time(struct list *list, char *p, int64_t ms)
{
        int64_t second = ms / 1000;
        unsigned rest = (unsigned)(ms - second * 1000);

        if (ms < 0) {
                s3_date_format_iso(ms, list->second_text);
                list->second = -1;
                return put_element_text(p, list->second_text);
        }
        if (second != list->second) {
                s3_date_format_iso(second * 1000, list->second_text);
                list->second = second;
        }
        memcpy(p, list->second_text, S3_DATE_ISO_SIZE - 1);
        p[20] = (char)('0' + rest / 100);
        p[21] = (char)('0' + rest / 10 % 10);
        p[22] = (char)('0' + rest % 10);
        return p + S3_DATE_ISO_SIZE - 1;
}

static char *put_etag(char *p, const struct eng_object *object)
{
        char etag[S3_ETAG_SIZE];
        size_t len = s3_etag_format(object->etag, object->etag_parts, etag);

        p = PUT(p, "<ETag>&quot;");
        memcpy(p, etag + 1, len - 2);
        p += len - 2;
        return PUT(p, "&quot;</ETag>");
}

/* The text is made once for neighbours whose checksums are alike. */
static char *put_checksum_elements(struct list *list, char *p, const struct gw_tag *tag)
{
        if (!tag->has_checksum)
                return p;
        if (list->sum_len == 0 || list->sum_tag.kind != tag->kind || list->sum_tag.type != tag->type) {
                char *q = PUT(list->sum_text, "<ChecksumAlgorithm>");

                q = put_element_text(q, s3_checksum_info(tag->kind)->algorithm);
                q = PUT(q, "</ChecksumAlgorithm><ChecksumType>");
                q = put_element_text(q, s3_checksum_type_name(tag->type));
                q = PUT(q, "</ChecksumType>");
                list->sum_len = (size_t)(q - list->sum_text);
                list->sum_tag = *tag;
        }
        memcpy(p, list->sum_text, list->sum_len);
        return p + list->sum_len;
}

static char *put_version_id(char *p, const struct row *row)
{
        char text[S3_VERSION_TEXT];
        size_t len = gw_version_text(&row->object->version, text);

        p = PUT(p, "<VersionId>");
        memcpy(p, text, len);
        p += len;
        return row->latest ? PUT(p, "</VersionId><IsLatest>true</IsLatest>") : PUT(p, "</VersionId><IsLatest>false</IsLatest>");
}

static void put_marker(struct list *list, struct s3_xml *xml, const struct row *row)
{
        char tail[TAIL_MAX], *p = put_version_id(tail, row);

        p = PUT(p, "<LastModified>");
        p = put_time(list, p, row->object->mtime_ms);
        p = PUT(p, "</LastModified>");
        memcpy(p, list->owner_xml, list->owner_len);
        p += list->owner_len;
        p = PUT(p, "</DeleteMarker>");
        s3_xml_raw(xml, (struct s3_str){tail, (size_t)(p - tail)});
}

static void put_tail(struct list *list, struct s3_xml *xml, const struct row *row)
{
        const struct eng_object *object = row->object;
        char tail[TAIL_MAX], *p = tail;
        struct gw_tag tag;

        gw_tag_read(object->tag, &tag);
        if (list->form == VERSIONS)
                p = put_version_id(p, row);
        p = PUT(p, "<LastModified>");
        p = put_time(list, p, object->mtime_ms);
        p = PUT(p, "</LastModified>");
        p = put_etag(p, object);
        p = put_checksum_elements(list, p, &tag);
        p = PUT(p, "<Size>");
        p = put_uint(p, object->size);
        p = PUT(p, "</Size>");
        if (list->owner) {
                memcpy(p, list->owner_xml, list->owner_len);
                p += list->owner_len;
        }
        p = PUT(p, "<StorageClass>");
        p = put_element_text(p, gw_storage_name(tag.storage));
        p = list->form == VERSIONS ? PUT(p, "</StorageClass></Version>") : PUT(p, "</StorageClass></Contents>");
        s3_xml_raw(xml, (struct s3_str){tail, (size_t)(p - tail)});
}

static void put_entries(struct list *list, struct s3_xml *xml, const struct page *page)
{
        unsigned prefixes = 0;

        for (unsigned i = 0; i < page->count; i++) {
                struct row row = row_of(page, i);

                if (row.is_prefix) {
                        prefixes++;
                        continue;
                }
                if (row.object->marker)
                        s3_xml_raw(xml, S3_STR("<DeleteMarker>"));
                else
                        s3_xml_raw(xml, list->form == VERSIONS ? S3_STR("<Version>") : S3_STR("<Contents>"));
                s3_xml_key(xml, "Key", row.name, list->url);
                if (row.object->marker)
                        put_marker(list, xml, &row);
                else
                        put_tail(list, xml, &row);
        }
        for (unsigned i = 0; prefixes > 0 && i < page->count; i++) {
                struct row row = row_of(page, i);

                if (!row.is_prefix)
                        continue;
                s3_xml_open(xml, "CommonPrefixes");
                s3_xml_key(xml, "Prefix", row.name, list->url);
                s3_xml_close(xml, "CommonPrefixes");
        }
}

/* ---- the document ---------------------------------------------------------------------------- */

static void put_place_v1(struct list *list, struct s3_xml *xml, struct s3_str next)
{
        s3_xml_key(xml, "Marker", list->marker, list->url);
        if (next.data != NULL && list->delimiter.len > 0)
                s3_xml_key(xml, "NextMarker", next, list->url);
}

static void put_place_v2(struct gw_request *req, struct list *list, struct s3_xml *xml, struct s3_str next,
                         unsigned count)
{
        char *token = next.data != NULL ? gw_token_make(req, next) : NULL;

        if (next.data != NULL && token == NULL)
                xml->error = -ENOMEM;
        if (list->marker.data != NULL)
                s3_xml_key(xml, "StartAfter", list->marker, list->url);
        if (list->token.data != NULL)
                s3_xml_text(xml, "ContinuationToken", list->token);
        if (token != NULL)
                s3_xml_textz(xml, "NextContinuationToken", token);
        s3_xml_uint(xml, "KeyCount", count);
}

static void put_place_versions(struct gw_request *req, struct list *list, struct s3_xml *xml, const struct row *last)
{
        char text[S3_VERSION_TEXT];

        s3_xml_key(xml, "KeyMarker", list->marker, list->url);
        s3_xml_text(xml, "VersionIdMarker", gw_query(req, "version-id-marker"));
        if (last == NULL)
                return;
        s3_xml_key(xml, "NextKeyMarker", last->name, list->url);
        if (!last->is_prefix)
                s3_xml_text(xml, "NextVersionIdMarker",
                            (struct s3_str){text, gw_version_text(&last->object->version, text)});
}

static void reply_list(struct gw_request *req, const struct page *page)
{
        struct list *list = GW_CAST(list, req->work);
        bool more = page->more && page->count > 0;
        struct row last = more ? row_of(page, page->count - 1) : (struct row){.is_prefix = false};
        struct s3_str next = last.name;
        struct s3_xml xml;

        s3_xml_init(&xml, LIST_LIMIT);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, forms[list->form].root);
        s3_xml_text(&xml, "Name", req->bucket);
        s3_xml_key(&xml, "Prefix", list->prefix, list->url);
        if (list->form == V1)
                put_place_v1(list, &xml, next);
        else if (list->form == V2)
                put_place_v2(req, list, &xml, next, page->count);
        else
                put_place_versions(req, list, &xml, more ? &last : NULL);
        s3_xml_uint(&xml, "MaxKeys", list->max);
        if (list->delimiter.len > 0)
                s3_xml_key(&xml, "Delimiter", list->delimiter, list->url);
        if (list->url)
                s3_xml_textz(&xml, "EncodingType", "url");
        s3_xml_bool(&xml, "IsTruncated", next.data != NULL);
        put_entries(list, &xml, page);
        s3_xml_close(&xml, forms[list->form].root);
        gw_reply_xml(req, 200, &xml);
}

/* ---- running --------------------------------------------------------------------------------- */

static void reply_listed(struct gw_request *req, int rv, const struct page *page)
{
        if (!gw_request_told(req))
                return;
        if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        else
                reply_list(req, page);
}

static void reply_objects_listed(void *arg, int rv, const struct eng_list_entry *entries, unsigned count, bool more)
{
        reply_listed(arg, rv, &(struct page){.objects = entries, .count = count, .more = more});
}

static void reply_versions_listed(void *arg, int rv, const struct eng_version_entry *entries, unsigned count, bool more)
{
        reply_listed(arg, rv, &(struct page){.versions = entries, .count = count, .more = more});
}

/* Names are bounded: what lies beyond the bound of a longer place decides nothing. */
static struct eng_str bounded(struct s3_str s)
{
        if (s.len > ENG_KEY_MAX)
                s.len = ENG_KEY_MAX;
        return gw_eng_str(s);
}

static void ask_engine(struct gw_request *req)
{
        const struct list *list = GW_CAST(list, req->work);
        struct eng_list_params params = {.bucket = req->bucket_id, .prefix = gw_eng_str(list->prefix)};

        /* A delimiter longer than any key divides none. */
        params.delimiter = list->delimiter.len <= ENG_KEY_MAX ? gw_eng_str(list->delimiter) : (struct eng_str){"", 0};
        params.after = bounded(list->after);
        params.hide_markers = true;
        params.max = (unsigned)list->max;
        if (!req->suspended) /* it has not waited for memory */
                gw_request_ask(req);
        if (list->form == VERSIONS)
                eng_version_list(req->store, &params, gw_version_asked(&list->after_version),
                                 reply_versions_listed, req);
        else
                eng_list(req->store, &params, reply_objects_listed, req);
}

/* Each entry is shown as the bucket owner's: a listing does not know the owners of single objects. False: answered. */
static bool list_owner(struct gw_request *req, struct list *list)
{
        struct s3_xml xml;
        size_t len;
        char *text;

        s3_xml_init(&xml, sizeof(list->owner_xml));
        gw_owner_xml(req, &xml, "Owner");
        if (s3_xml_take(&xml, &text, &len) != 0) {
                s3_xml_free(&xml);
                gw_reply_no_memory(req);
                return false;
        }
        memcpy(list->owner_xml, text, len);
        list->owner_len = len;
        free(text);
        return true;
}

static void run_list(struct gw_request *req, enum form form)
{
        struct list *list = gw_alloc(req, sizeof(*list));

        if (list == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        list->magic = list_magic;
        req->work = list;
        list->form = form;
        list->second = -1;
        if (form != VERSIONS) /* undocumented, but clients learn the region from it */
                gw_reply_header(req, "x-amz-bucket-region", req->loop->gw->region);
        if (!read_list(req, list))
                return;
        if (!list_owner(req, list))
                return;
        if (list->max == 0 || list->prefix.len > ENG_KEY_MAX) {
                reply_list(req, &(struct page){.count = 0});
                return;
        }
        gw_answer_reserve(req, list->max * forms[form].memory, ask_engine);
}

void gw_run_list_objects(struct gw_request *req)
{
        run_list(req, V1);
}

void gw_run_list_objects_v2(struct gw_request *req)
{
        run_list(req, V2);
}

void gw_run_list_versions(struct gw_request *req)
{
        run_list(req, VERSIONS);
}
