/*
 * op_attributes.c - GetObjectAttributes: ETag, checksum, parts, size and class of an object as an
 * XML document.
 */
#include <errno.h>

#include "gateway/s3/handlers.h"
#include "gateway/s3/version_ids.h"

#define DOC_MAX (4u << 20)
#define PARTS_PAGE 1000u

/* What was asked for. owner: the request (arena) */
struct attributes {
        unsigned magic; /* gw_check.h */
        struct gw_version version;
        bool etag, checksum, parts, storage, size;
        uint64_t max_parts, marker;
};

/* x-amz-object-attributes: names parted by commas; the header may come more than once. */
static bool take_attribute_names(struct gw_request *req, struct attributes *a)
{
        const struct {
                struct s3_str name;
                bool *wanted;
        } known[] = {
                {S3_STR("ETag"), &a->etag},           {S3_STR("Checksum"), &a->checksum},
                {S3_STR("ObjectParts"), &a->parts},   {S3_STR("StorageClass"), &a->storage},
                {S3_STR("ObjectSize"), &a->size},
        };
        bool any = false;
        unsigned i, k;

        for (i = 0; i < req->header_count; i++) {
                struct s3_str rest = req->headers[i].value;

                if (!s3_str_eq_nocase(req->headers[i].name, S3_STR("x-amz-object-attributes")))
                        continue;
                while (rest.len > 0) {
                        const char *comma = memchr(rest.data, ',', rest.len);
                        size_t n = comma != NULL ? (size_t)(comma - rest.data) : rest.len;
                        struct s3_str name = s3_str_trim((struct s3_str){rest.data, n});

                        for (k = 0; k < sizeof(known) / sizeof(known[0]); k++)
                                if (s3_str_eq(name, known[k].name))
                                        break;
                        if (k == sizeof(known) / sizeof(known[0]))
                                return false;
                        any = *known[k].wanted = true;
                        n += comma != NULL;
                        rest.data += n;
                        rest.len -= n;
                }
        }
        return any;
}

/* A number of a header. False: answered. */
static bool take_header_number(struct gw_request *req, const char *name, uint64_t fallback, uint64_t *out)
{
        struct s3_str text = gw_header(req, name);

        *out = fallback;
        if (text.data == NULL || s3_parse_uint(text, INT32_MAX, out) == 0)
                return true;
        gw_reply_argument(req, name, text, gw_printf(req, "Provided %s not an integer or within integer range", name));
        return false;
}

static void write_part(struct s3_xml *xml, const struct eng_part_view *view)
{
        struct gw_checksum sum;

        s3_xml_open(xml, "Part");
        s3_xml_uint(xml, "PartNumber", view->number);
        s3_xml_uint(xml, "Size", view->size);
        if (gw_meta_decode_checksum(view->attrs, &sum) == 0 && sum.has)
                gw_checksum_xml(xml, &sum);
        s3_xml_close(xml, "Part");
}

static void write_parts(struct gw_request *req, struct s3_xml *xml, const struct attributes *a)
{
        unsigned count = eng_get_object(req->get)->part_count, i, given = 0, last = (unsigned)a->marker;
        struct eng_part_view view;
        bool more = false, none = a->max_parts == 0; /* no page comes after one that may hold nothing: it would never end */

        if (count == 0)
                return;
        s3_xml_open(xml, "ObjectParts");
        s3_xml_uint(xml, "PartsCount", count); /* TotalPartsCount in the SDKs */
        s3_xml_uint(xml, "PartNumberMarker", a->marker);
        s3_xml_uint(xml, "MaxParts", a->max_parts);
        for (i = 0; i < count && !none && !more && eng_get_part(req->get, i, &view) == 0; i++) {
                if (view.number <= a->marker)
                        continue;
                more = given == a->max_parts;
                if (more)
                        break;
                write_part(xml, &view);
                given++;
                last = view.number;
        }
        s3_xml_bool(xml, "IsTruncated", more);
        s3_xml_uint(xml, "NextPartNumberMarker", last);
        s3_xml_close(xml, "ObjectParts");
}

static void attributes_answer(struct gw_request *req, const struct gw_meta *meta)
{
        const struct eng_object *object = eng_get_object(req->get);
        const struct attributes *a = GW_CAST(attributes, req->work);
        char date[S3_DATE_HTTP_SIZE], etag[S3_ETAG_SIZE];
        struct gw_checksum sum = meta->sum;
        struct s3_xml xml;
        size_t len;

        sum.parts = 0; /* only here a checksum of checksums goes without the number of parts behind it, as with AWS */
        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "GetObjectAttributesResponse");
        if (a->etag) { /* without quotes here */
                len = s3_etag_format(object->etag, object->etag_parts, etag);
                s3_xml_text(&xml, "ETag", (struct s3_str){etag + 1, len - 2});
        }
        if (a->checksum && sum.has) {
                s3_xml_open(&xml, "Checksum");
                gw_checksum_xml(&xml, &sum);
                s3_xml_textz(&xml, "ChecksumType", s3_checksum_type_name(sum.type));
                s3_xml_close(&xml, "Checksum");
        }
        if (a->parts)
                write_parts(req, &xml, a);
        if (a->storage)
                s3_xml_textz(&xml, "StorageClass", gw_storage_name(meta->storage));
        if (a->size)
                s3_xml_uint(&xml, "ObjectSize", object->size);
        s3_xml_close(&xml, "GetObjectAttributesResponse");
        len = s3_date_format_http(object->mtime_ms, date);
        gw_reply_header_str(req, "Last-Modified", (struct s3_str){date, len});
        gw_version_header(req, &object->version);
        gw_reply_xml(req, 200, &xml);
}

static void attributes_opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_request *req = arg;
        struct gw_meta *meta;

        if (!gw_back(req)) {
                if (rv == 0)
                        eng_get_close(get);
                return;
        }
        if (!gw_version_found(req, &GW_CAST(attributes, req->work)->version, rv, get))
                return;
        meta = gw_alloc(req, sizeof(*meta));
        if (meta == NULL)
                gw_reply_no_memory(req);
        else if (gw_meta_decode(eng_get_object(get)->attrs, meta) != 0)
                gw_reply_errno(req, -EIO, GW_ABOUT_KEY);
        else if (gw_plain_check(req, "x-amz-server-side-encryption"))
                attributes_answer(req, meta);
}

void gw_run_attributes(struct gw_request *req)
{
        struct attributes *a = gw_alloc(req, sizeof(*a));

        if (a == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        a->magic = attributes_magic;
        req->work = a;
        if (!gw_version_of(req, &a->version))
                return;
        if (gw_header(req, "x-amz-object-attributes").len == 0)
                gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                               "The x-amz-object-attributes header specifying the attributes to be retrieved is either "
                               "missing or empty");
        else if (!take_attribute_names(req, a))
                gw_reply_argument(req, "x-amz-object-attributes", gw_header(req, "x-amz-object-attributes"),
                                  "Invalid attribute name specified.");
        else if (take_header_number(req, "x-amz-max-parts", PARTS_PAGE, &a->max_parts) &&
                 take_header_number(req, "x-amz-part-number-marker", 0, &a->marker)) {
                if (a->max_parts > PARTS_PAGE)
                        a->max_parts = PARTS_PAGE;
                eng_get_metadata(req->store, req->bucket_id, gw_eng_str(req->key), gw_version_asked(&a->version), attributes_opened, req);
        }
}
