/*
 * op_list_uploads.c - ListMultipartUploads and ListParts. On the request's loop. I9: answers are
 * bounded by LIST_LIMIT.
 */
#include "gateway/s3/handlers.h"

#define PAGE_MAX   1000u
#define ASKED_MAX  2147483647u
#define LIST_LIMIT (24u << 20)

/* ---- ListMultipartUploads -------------------------------------------------------------------- */

/* owner: its request */
struct uploads {
        unsigned magic; /* gw_check.h */
        struct s3_str prefix, delimiter, key_marker, upload_marker;
        uint8_t after_upload[ENG_ID_LEN];
        bool has_after_upload, url;
        uint64_t max;
};

static bool read_uploads(struct gw_request *req, struct uploads *list)
{
        struct s3_str encoding = gw_query(req, "encoding-type");

        list->prefix = gw_query(req, "prefix");
        list->delimiter = gw_query(req, "delimiter");
        list->key_marker = gw_query(req, "key-marker");
        list->upload_marker = gw_query(req, "upload-id-marker");
        list->url = encoding.data != NULL;
        if (list->url && !s3_str_eq_nocase(encoding, S3_STR("url"))) {
                gw_reply_argument(req, "encoding-type", encoding, "Invalid Encoding Method specified in Request");
                return false;
        }
        if (!gw_query_uint(req, "max-uploads", ASKED_MAX, PAGE_MAX, &list->max))
                return false;
        if (list->max > PAGE_MAX)
                list->max = PAGE_MAX;
        /* Without a key it means nothing, and S3 ignores it. */
        list->has_after_upload = list->upload_marker.len > 0 && list->key_marker.len > 0;
        if (list->has_after_upload && gw_upload_id_parse(list->upload_marker, list->after_upload) != 0) {
                gw_reply_argument(req, "upload-id-marker", list->upload_marker, "Invalid uploadId marker");
                return false;
        }
        return true;
}

static void put_upload(struct gw_request *req, const struct uploads *list, struct s3_xml *xml,
                       const struct eng_upload_entry *entry)
{
        char id[GW_UPLOAD_ID_TEXT];
        struct gw_tag tag;

        gw_upload_id_text(entry->upload_id, id);
        gw_tag_read(entry->object.tag, &tag);
        s3_xml_open(xml, "Upload");
        s3_xml_key(xml, "Key", gw_s3_str(entry->key), list->url);
        s3_xml_textz(xml, "UploadId", id);
        gw_owner_xml(req, xml, "Initiator");
        gw_owner_xml(req, xml, "Owner");
        s3_xml_textz(xml, "StorageClass", gw_storage_name(tag.storage));
        s3_xml_date(xml, "Initiated", entry->object.mtime_ms);
        if (tag.has_checksum) {
                s3_xml_textz(xml, "ChecksumAlgorithm", s3_checksum_info(tag.kind)->algorithm);
                s3_xml_textz(xml, "ChecksumType", s3_checksum_type_name(tag.type));
        }
        s3_xml_close(xml, "Upload");
}

/* The place of the last entry is told on the last page, too: AWS does, unlike in listings of objects. */
static void put_uploads_head(struct gw_request *req, const struct uploads *list, struct s3_xml *xml,
                             const struct eng_upload_entry *last, bool more)
{
        char id[GW_UPLOAD_ID_TEXT] = "";

        s3_xml_text(xml, "Bucket", req->bucket);
        s3_xml_key(xml, "KeyMarker", list->key_marker, list->url);
        s3_xml_text(xml, "UploadIdMarker", list->upload_marker);
        if (last != NULL) {
                if (!last->is_prefix)
                        gw_upload_id_text(last->upload_id, id);
                s3_xml_key(xml, "NextKeyMarker", gw_s3_str(last->key), list->url);
                s3_xml_textz(xml, "NextUploadIdMarker", id);
        }
        if (list->prefix.data != NULL)
                s3_xml_key(xml, "Prefix", list->prefix, list->url);
        if (list->delimiter.len > 0)
                s3_xml_key(xml, "Delimiter", list->delimiter, list->url);
        if (list->url)
                s3_xml_textz(xml, "EncodingType", "url");
        s3_xml_uint(xml, "MaxUploads", list->max);
        s3_xml_bool(xml, "IsTruncated", more && last != NULL);
}

static void reply_uploads(struct gw_request *req, const struct eng_upload_entry *entries, unsigned count, bool more)
{
        const struct uploads *list = GW_CAST(uploads, req->work);
        struct s3_xml xml;

        s3_xml_init(&xml, LIST_LIMIT);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "ListMultipartUploadsResult");
        put_uploads_head(req, list, &xml, count > 0 ? &entries[count - 1] : NULL, more);
        for (unsigned i = 0; i < count; i++) {
                if (!entries[i].is_prefix)
                        put_upload(req, list, &xml, &entries[i]);
        }
        for (unsigned i = 0; i < count; i++) {
                if (!entries[i].is_prefix)
                        continue;
                s3_xml_open(&xml, "CommonPrefixes");
                s3_xml_key(&xml, "Prefix", gw_s3_str(entries[i].key), list->url);
                s3_xml_close(&xml, "CommonPrefixes");
        }
        s3_xml_close(&xml, "ListMultipartUploadsResult");
        gw_reply_xml(req, 200, &xml);
}

static void reply_uploads_listed(void *arg, int rv, const struct eng_upload_entry *entries, unsigned count, bool more)
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        else
                reply_uploads(req, entries, count, more);
}

void gw_run_list_uploads(struct gw_request *req)
{
        struct uploads *list = gw_alloc(req, sizeof(*list));
        struct eng_list_params params = {.bucket = req->bucket_id};

        if (list == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        list->magic = uploads_magic;
        req->work = list;
        if (!read_uploads(req, list))
                return;
        if (list->max == 0 || list->prefix.len > ENG_KEY_MAX || list->key_marker.len > ENG_KEY_MAX) {
                if (list->key_marker.len > ENG_KEY_MAX)
                        gw_reply_error(req, S3_ERR_KEY_TOO_LONG, NULL);
                else
                        reply_uploads(req, NULL, 0, false);
                return;
        }
        params.prefix = gw_eng_str(list->prefix);
        params.delimiter = list->delimiter.len <= ENG_KEY_MAX ? gw_eng_str(list->delimiter) : (struct eng_str){"", 0};
        params.after = gw_eng_str(list->key_marker);
        params.max = (unsigned)list->max;
        eng_upload_list(req->store, &params, list->has_after_upload ? list->after_upload : NULL,
                        reply_uploads_listed, req);
}

/* ---- ListParts ------------------------------------------------------------------------------- */

/* owner: its request */
struct parts {
        unsigned magic; /* gw_check.h */
        uint8_t upload_id[ENG_ID_LEN];
        uint64_t max, after;
        struct gw_tag tag; /* of the upload */
};

static void put_part(struct s3_xml *xml, const struct parts *list, const struct eng_part_entry *part)
{
        struct gw_checksum sum;
        char etag[S3_ETAG_SIZE];

        s3_xml_open(xml, "Part");
        s3_xml_uint(xml, "PartNumber", part->number);
        s3_xml_date(xml, "LastModified", part->object.mtime_ms);
        s3_xml_text(xml, "ETag", (struct s3_str){etag, s3_etag_format(part->object.etag, 0, etag)});
        s3_xml_uint(xml, "Size", part->object.size);
        /* One that the client did not ask for is our own affair. */
        if (list->tag.has_checksum && gw_meta_decode_checksum(part->object.attrs, &sum) == 0)
                gw_checksum_xml(xml, &sum);
        s3_xml_close(xml, "Part");
}

static void put_parts_head(struct gw_request *req, const struct parts *list, struct s3_xml *xml, unsigned next)
{
        char id[GW_UPLOAD_ID_TEXT];

        gw_upload_id_text(list->upload_id, id);
        s3_xml_text(xml, "Bucket", req->bucket);
        s3_xml_key(xml, "Key", req->key, s3_str_eq_nocase(gw_query(req, "encoding-type"), S3_STR("url")));
        s3_xml_textz(xml, "UploadId", id);
        gw_owner_xml(req, xml, "Initiator");
        gw_owner_xml(req, xml, "Owner");
        s3_xml_textz(xml, "StorageClass", gw_storage_name(list->tag.storage));
        s3_xml_uint(xml, "PartNumberMarker", list->after);
        s3_xml_uint(xml, "NextPartNumberMarker", next);
        s3_xml_uint(xml, "MaxParts", list->max);
        if (list->tag.has_checksum) {
                s3_xml_textz(xml, "ChecksumAlgorithm", s3_checksum_info(list->tag.kind)->algorithm);
                s3_xml_textz(xml, "ChecksumType", s3_checksum_type_name(list->tag.type));
        }
}

static void reply_parts(struct gw_request *req, const struct eng_part_entry *parts, unsigned count, bool more)
{
        const struct parts *list = GW_CAST(parts, req->work);
        struct s3_xml xml;

        s3_xml_init(&xml, LIST_LIMIT);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "ListPartsResult");
        put_parts_head(req, list, &xml, count > 0 ? parts[count - 1].number : 0);
        s3_xml_bool(&xml, "IsTruncated", more);
        for (unsigned i = 0; i < count; i++)
                put_part(&xml, list, &parts[i]);
        s3_xml_close(&xml, "ListPartsResult");
        gw_reply_xml(req, 200, &xml);
}

static void reply_parts_listed(void *arg, int rv, const struct eng_part_entry *parts, unsigned count, bool more)
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_UPLOAD);
        else
                reply_parts(req, parts, count, more);
}

static void list_parts_upload_found(void *arg, int rv, const struct eng_object *upload)
{
        struct gw_request *req = arg;
        struct parts *list;

        if (!gw_back(req))
                return;
        list = GW_CAST(parts, req->work);
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_UPLOAD);
                return;
        }
        gw_tag_read(upload->tag, &list->tag);
        if (list->max == 0 || list->after >= ENG_PARTS_MAX)
                reply_parts(req, NULL, 0, false);
        else
                eng_part_list(req->store, req->bucket_id, gw_eng_str(req->key), list->upload_id,
                              (unsigned)list->after, (unsigned)list->max, reply_parts_listed, req);
}

void gw_run_list_parts(struct gw_request *req)
{
        struct parts *list = gw_alloc(req, sizeof(*list));

        if (list == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        list->magic = parts_magic;
        req->work = list;
        if (!gw_plain_check(req, "x-amz-server-side-encryption") || !gw_upload_id_of(req, list->upload_id) ||
            !gw_query_uint(req, "max-parts", ASKED_MAX, PAGE_MAX, &list->max) ||
            !gw_query_uint(req, "part-number-marker", ASKED_MAX, 0, &list->after))
                return;
        if (list->max > PAGE_MAX)
                list->max = PAGE_MAX;
        eng_upload_get(req->store, req->bucket_id, gw_eng_str(req->key), list->upload_id,
                       list_parts_upload_found, req);
}
