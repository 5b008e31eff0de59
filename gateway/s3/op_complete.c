/*
 * op_complete.c - CompleteMultipartUpload. On the request's loop.
 *
 * The upload is looked up, then its parts page by page beside the client's list; what was checked
 * is named to the engine by its id, so that a part that changes meanwhile ends in InvalidPart and
 * not in another object. An upload that is gone may have been completed by an earlier try of the
 * same client: if a version of the key was made by it, the same answer is given again. No data
 * is copied.
 */
#include <errno.h>

#include "ec.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/completed.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/version_ids.h"

#define PART_MIN (5u << 20)
#define PAGE     1000u
#define DOC_MAX  (64u << 10)

/* owner: its request */
struct complete {
        unsigned magic; /* gw_check.h */
        const struct s3_doc *doc;
        uint8_t upload_id[ENG_ID_LEN];
        struct eng_condition condition;
        struct gw_meta meta;            /* of the upload: slices of a copy of its attrs */
        struct gw_checksum sum;         /* as the object will have it */
        struct s3_parts_sum *parts_sum; /* running; NULL: a part had no checksum */
        struct eng_complete_part *parts;
        uint8_t (*md5)[16]; /* of the parts */
        unsigned checked;   /* parts found to be as the client says */
        unsigned unsummed;  /* number of a part whose checksum the client must name and does not */
        unsigned alien;     /* number of a part of which the client names a checksum that the upload does not have, */
        enum s3_checksum alien_kind; /* and that checksum */
        unsigned small;     /* index + 1 of the first that is too small, if it is not the last */
        uint64_t small_size, size;
        enum s3_error gone; /* the answer, unless another try of this client has completed the upload */
        struct gw_completed earlier;
};

static void complete_release(struct gw_request *req)
{
        struct complete *c = GW_CAST(complete, req->work);

        s3_parts_sum_free(c->parts_sum);
        c->parts_sum = NULL;
}

void gw_begin_complete(struct gw_request *req)
{
        if (gw_write_headers_check(req))
                gw_begin_document(req, S3_DOC_COMPLETE_UPLOAD);
}

/* ---- the answer ------------------------------------------------------------------------------ */

/* Where the object is to be had: as the client addressed it. */
static char *location_of(struct gw_request *req)
{
        struct s3_str host = gw_header(req, "Host"), path = req->cut.path;

        if (host.len == 0)
                return gw_copy(req, path);
        return gw_printf(req, "%s://%.*s%.*s", req->conn->listener->tls ? "https" : "http", (int)host.len, host.data,
                         (int)path.len, path.data);
}

static void reply_complete(struct gw_request *req, const struct eng_object *object)
{
        char etag[S3_ETAG_SIZE], *location = location_of(req);
        struct gw_checksum sum;
        struct s3_xml xml;

        if (location == NULL || gw_meta_decode_checksum(object->attrs, &sum) != 0) {
                gw_reply_errno(req, location == NULL ? -ENOMEM : -EIO, GW_ABOUT_COMPLETE);
                return;
        }
        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "CompleteMultipartUploadResult");
        s3_xml_textz(&xml, "Location", location);
        s3_xml_text(&xml, "Bucket", req->bucket);
        s3_xml_text(&xml, "Key", req->key);
        s3_xml_text(&xml, "ETag", (struct s3_str){etag, s3_etag_format(object->etag, object->etag_parts, etag)});
        gw_checksum_xml(&xml, &sum);
        if (sum.has)
                s3_xml_textz(&xml, "ChecksumType", s3_checksum_type_name(sum.type));
        s3_xml_close(&xml, "CompleteMultipartUploadResult");
        gw_expiration_header(req, object);
        gw_version_header(req, &object->version);
        gw_reply_xml(req, 200, &xml);
}

static void upload_completed(void *arg, int rv, const struct eng_object *object)
{
        struct gw_request *req = arg;
        const struct complete *c;

        if (!gw_back(req))
                return;
        c = GW_CAST(complete, req->work);
        if (rv == 0)
                reply_complete(req, object);
        else if (rv == -ENOENT && (c->condition.if_etag || c->condition.if_present))
                gw_reply_error(req, S3_ERR_NO_SUCH_KEY, NULL);
        else if (rv == -E2BIG)
                gw_reply_error(req, S3_ERR_ENTITY_TOO_LARGE,
                               "The object would have too many parts for their size. The upload and its parts are kept: upload "
                               "fewer or smaller ones, or abort it.");
        else
                gw_reply_errno(req, rv, GW_ABOUT_COMPLETE);
}

/* No checksum that the client names for a part differs from the one it has. */
static bool same_sum(const struct s3_complete_part *named, const struct gw_checksum *stored)
{
        const uint8_t *value = named->checksum[stored->kind];

        return !stored->has || value == NULL || memcmp(value, stored->value, s3_checksum_info(stored->kind)->len) == 0;
}

static struct s3_str without_quotes(struct s3_str etag)
{
        if (etag.len >= 2 && etag.data[0] == '"' && etag.data[etag.len - 1] == '"')
                return (struct s3_str){etag.data + 1, etag.len - 2};
        return etag;
}

static void reply_invalid_part(struct gw_request *req)
{
        const struct complete *c = GW_CAST(complete, req->work);
        const struct s3_complete_part *part = &c->doc->parts[c->checked];
        char text[S3_ETAG_SIZE], id[GW_UPLOAD_ID_TEXT];
        struct s3_str etag = part->etag;
        struct s3_xml xml;

        if (part->etag_known)
                etag = (struct s3_str){text, s3_etag_format(part->md5, 0, text)};
        gw_upload_id_text(c->upload_id, id);
        s3_xml_init(&xml, DOC_MAX);
        s3_xml_textz(&xml, "UploadId", id);
        s3_xml_uint(&xml, "PartNumber", part->number);
        s3_xml_text(&xml, "ETag", without_quotes(etag));
        gw_reply_error_extra(req, S3_ERR_INVALID_PART, NULL, gw_detail_xml(req, &xml));
}

/*
 * Does the client name the very parts that the object was made of? Else it expects another object.
 */
static bool names_parts_of(struct complete *c, const struct eng_get *get)
{
        struct eng_part_view view;
        unsigned i;

        for (i = 0; i < c->doc->part_count && eng_get_part(get, i, &view) == 0; i++) {
                const struct s3_complete_part *named = &c->doc->parts[i];
                struct gw_checksum stored;

                c->checked = i;
                if (view.number != named->number || !named->etag_known || memcmp(view.etag, named->md5, 16) != 0 ||
                    gw_meta_decode_checksum(view.attrs, &stored) != 0 || !same_sum(named, &stored))
                        return false;
        }
        return i == c->doc->part_count && i == eng_get_object(get)->part_count;
}

/* Has an earlier try made a version of the upload? */
static void earlier_found(struct gw_request *req, int rv, struct eng_get *get)
{
        struct complete *c = GW_CAST(complete, req->work);

        if (rv == 0)
                req->get = get; /* closed with the request */
        if (rv == 0 && names_parts_of(c, get))
                reply_complete(req, eng_get_object(get));
        else if (rv != 0 && rv != -ENOENT)
                gw_reply_errno(req, rv, GW_ABOUT_COMPLETE);
        else if (rv == 0 || c->gone == S3_ERR_INVALID_PART)
                reply_invalid_part(req);
        else
                gw_reply_error(req, c->gone, NULL);
}

/*
 * The upload, or a part of it, is not there. Perhaps another try was faster; else the error stands.
 */
static void look_for_earlier(struct gw_request *req, enum s3_error gone)
{
        struct complete *c = GW_CAST(complete, req->work);

        c->gone = gone;
        c->earlier.req = req;
        c->earlier.found = earlier_found;
        memcpy(c->earlier.upload_id, c->upload_id, ENG_ID_LEN);
        gw_completed_find(&c->earlier);
}

/* ---- what the headers say of the whole ------------------------------------------------------- */

/* A checksum of the whole that the client named must be ours. False: answered. */
static bool check_header_sum(struct gw_request *req, const struct complete *c, enum s3_checksum kind)
{
        struct s3_str text = gw_header(req, s3_checksum_info(kind)->header);
        uint8_t value[S3_CHECKSUM_MAX];
        unsigned parts;

        if (text.data == NULL)
                return true;
        if (kind != c->sum.kind) {
                gw_reply_error(
                        req, S3_ERR_INVALID_REQUEST,
                        gw_printf(
                                req,
                                "Checksum Type mismatch occurred, expected checksum Type: %s, actual checksum Type: %s",
                                gw_algorithm_text(req, c->sum.kind), gw_algorithm_text(req, kind)));
                return false;
        }
        if (s3_checksum_parse_composite(kind, text, value, &parts) != 0) {
                gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                               gw_printf(req, "Value for %s header is invalid.", s3_checksum_info(kind)->header));
                return false;
        }
        if (c->sum.has && memcmp(value, c->sum.value, s3_checksum_info(kind)->len) == 0 &&
            (parts == 0 || (c->sum.type == S3_COMPOSITE && parts == c->sum.parts)))
                return true;
        gw_reply_error(req, S3_ERR_BAD_DIGEST,
                       gw_printf(req, "The %s you specified did not match the calculated checksum.",
                                 s3_checksum_info(kind)->algorithm));
        return false;
}

/* The size of the whole, where the client says it. False: answered. */
static bool check_header_size(struct gw_request *req, const struct complete *c)
{
        struct s3_str size = gw_header(req, "x-amz-mp-object-size");
        const char *message;
        uint64_t want;
        int rv;

        if (size.data == NULL)
                return true;
        rv = s3_parse_uint(size, INT64_MAX, &want);
        if (rv == 0 && want == c->size)
                return true;
        if (rv == 0 || rv == -ERANGE)
                message = gw_printf(req,
                                    "The provided 'x-amz-mp-object-size' header does not match what was computed: %llu",
                                    (unsigned long long)c->size);
        else
                message = gw_printf(req, "Value for x-amz-mp-object-size header is %s: '%.*s'",
                                    s3_str_starts(size, S3_STR("-")) ? "less than zero" : "invalid", (int)size.len,
                                    size.data);
        gw_reply_error(req, S3_ERR_INVALID_REQUEST, message);
        return false;
}

static bool check_headers(struct gw_request *req, const struct complete *c)
{
        struct s3_str type = gw_header(req, "x-amz-checksum-type");
        enum s3_checksum_type wanted;

        if (!check_header_size(req, c))
                return false;
        if (type.data != NULL && s3_checksum_type_parse(type, &wanted) != 0) {
                gw_reply_error(req, S3_ERR_INVALID_REQUEST, "Value for x-amz-checksum-type header is invalid.");
                return false;
        }
        if (type.data != NULL && wanted != c->sum.type) {
                gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                               gw_printf(req,
                                         "The upload was created using the %s checksum mode. The complete request "
                                         "must use the same checksum mode.",
                                         s3_checksum_type_name(c->sum.type)));
                return false;
        }
        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++) {
                if (!check_header_sum(req, c, (enum s3_checksum)kind))
                        return false;
        }
        return true;
}

static void reply_unsummed(struct gw_request *req, const struct complete *c)
{
        gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                       gw_printf(req,
                                 "The upload was created using a %s checksum. The complete request must include the "
                                 "checksum for each part. It was missing for part %u in the request.",
                                 gw_algorithm_text(req, c->sum.kind), c->unsummed));
}

/* ---- making the object ----------------------------------------------------------------------- */

static void make_object(struct gw_request *req)
{
        struct complete *c = GW_CAST(complete, req->work);
        struct eng_complete_params params = {
                .bucket = req->bucket_id, .key = gw_eng_str(req->key), .parts = c->parts, .count = c->checked};
        uint8_t attrs[ENG_ATTRS_MAX], md5[ERA_DIGEST_MAX];
        ssize_t len;

        if (c->unsummed != 0) {
                reply_unsummed(req, c);
                return;
        }
        if (c->small != 0) {
                gw_reply_error_extra(req, S3_ERR_ENTITY_TOO_SMALL, NULL,
                                     gw_printf(req,
                                               "<ProposedSize>%llu</ProposedSize><MinSizeAllowed>%u</MinSizeAllowed>"
                                               "<PartNumber>%u</PartNumber>",
                                               (unsigned long long)c->small_size, PART_MIN,
                                               c->doc->parts[c->small - 1].number));
                return;
        }
        c->sum.has = c->parts_sum != NULL;
        if (c->sum.has)
                s3_parts_sum_final(c->parts_sum, c->sum.value);
        c->sum.parts = c->sum.type == S3_COMPOSITE ? c->checked : 0;
        if (!check_headers(req, c))
                return;
        c->meta.sum = c->sum;
        len = gw_meta_encode(&c->meta, attrs, sizeof(attrs));
        if (len < 0) {
                gw_reply_error(req, S3_ERR_METADATA_TOO_LARGE, NULL);
                return;
        }
        memcpy(params.upload_id, c->upload_id, ENG_ID_LEN);
        params.commit.attrs = attrs;
        params.commit.attrs_len = (size_t)len;
        params.commit.condition = c->condition;
        era_digest_of(ERA_MD5, c->md5, 16 * (size_t)c->checked, md5);
        memcpy(params.commit.etag, md5, 16);
        gw_tag_make(&c->meta, params.commit.tag);
        eng_complete(req->store, &params, upload_completed, req);
}

/* ---- the parts ------------------------------------------------------------------------------- */

/*
 * Checksums the client names for a part. Where the upload has no kind of its own, only the ETag
 * counts.
 */
static bool part_sums_match(struct complete *c, const struct s3_complete_part *named, const struct gw_checksum *stored)
{
        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++) {
                if (named->checksum[kind] == NULL || (!c->meta.sum.has_kind && kind != stored->kind))
                        continue;
                if (stored->has && kind != stored->kind) {
                        c->alien = named->number;
                        c->alien_kind = (enum s3_checksum)kind;
                        return false;
                }
                if (!stored->has ||
                    memcmp(named->checksum[kind], stored->value, s3_checksum_info(stored->kind)->len) != 0)
                        return false;
        }
        return true;
}

static void add_sum(struct complete *c, const struct gw_checksum *stored, uint64_t size)
{
        if (c->parts_sum == NULL)
                return;
        if (stored->has && stored->kind == c->sum.kind) {
                s3_parts_sum_add(c->parts_sum, stored->value, size);
                return;
        }
        s3_parts_sum_free(c->parts_sum);
        c->parts_sum = NULL;
}

/* The stored part of the number the client names next. False: it is not what the client says. */
static bool take_stored_part(struct complete *c, const struct eng_part_entry *part)
{
        const struct s3_complete_part *named = &c->doc->parts[c->checked];
        const struct eng_object *object = &part->object;
        struct gw_checksum stored;

        if (part->number != named->number || !named->etag_known || memcmp(named->md5, object->etag, 16) != 0 ||
            gw_meta_decode_checksum(object->attrs, &stored) != 0 || !part_sums_match(c, named, &stored))
                return false;
        if (c->sum.type == S3_COMPOSITE && named->checksum[c->sum.kind] == NULL && c->unsummed == 0)
                c->unsummed = part->number;
        add_sum(c, &stored, object->size);
        if (object->size < PART_MIN && c->small == 0 && c->checked + 1 < c->doc->part_count) {
                c->small = c->checked + 1;
                c->small_size = object->size;
        }
        c->size += object->size;
        c->parts[c->checked].number = part->number;
        memcpy(c->parts[c->checked].id, object->id, ENG_ID_LEN);
        memcpy(c->md5[c->checked], object->etag, 16);
        c->checked++;
        return true;
}

/* A part is not what the client says. */
static void refuse_part(struct gw_request *req)
{
        const struct complete *c = GW_CAST(complete, req->work);

        if (c->alien == 0)
                reply_invalid_part(req);
        else
                gw_reply_error(req, S3_ERR_BAD_DIGEST,
                               gw_printf(req, "The %s you specified for part %u did not match what we received.",
                                         gw_algorithm_text(req, c->alien_kind), c->alien));
}

static void complete_next_page(struct gw_request *req);

static void complete_parts_listed(void *arg, int rv, const struct eng_part_entry *parts, unsigned count, bool more)
{
        struct gw_request *req = arg;
        struct complete *c;
        bool fine = true;

        if (!gw_back(req))
                return;
        c = GW_CAST(complete, req->work);
        if (rv == -ENOENT) {
                look_for_earlier(req, S3_ERR_NO_SUCH_UPLOAD);
                return;
        }
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_COMPLETE);
                return;
        }
        for (unsigned i = 0; fine && i < count && c->checked < c->doc->part_count; i++) {
                if (parts[i].number >= c->doc->parts[c->checked].number)
                        fine = take_stored_part(c, &parts[i]);
        }
        if (fine && c->checked == c->doc->part_count)
                make_object(req);
        else if (fine && more)
                complete_next_page(req);
        else if (fine)
                look_for_earlier(req, S3_ERR_INVALID_PART);
        else
                refuse_part(req);
}

static void complete_next_page(struct gw_request *req)
{
        const struct complete *c = GW_CAST(complete, req->work);
        unsigned left = c->doc->part_count - c->checked;

        eng_part_list(req->store, req->bucket_id, gw_eng_str(req->key), c->upload_id,
                      c->doc->parts[c->checked].number - 1u, left < PAGE ? left : PAGE, complete_parts_listed, req);
}

/* ---- beginning ------------------------------------------------------------------------------- */

/* What is needed of the upload. -ENOMEM, -EIO. */
static int take_upload(struct gw_request *req, struct complete *c, const struct eng_object *upload)
{
        char *attrs = gw_copy(req, gw_s3_str(upload->attrs));

        c->parts = gw_alloc(req, c->doc->part_count * sizeof(c->parts[0]));
        c->md5 = gw_alloc(req, c->doc->part_count * sizeof(c->md5[0]));
        if (attrs == NULL || c->parts == NULL || c->md5 == NULL)
                return -ENOMEM;
        if (gw_meta_decode((struct eng_str){attrs, upload->attrs.len}, &c->meta) != 0)
                return -EIO;
        c->sum = c->meta.sum;
        if (!c->sum.has_kind) {
                c->sum.has_kind = true;
                c->sum.kind = S3_CRC64NVME;
                c->sum.type = S3_FULL_OBJECT;
        }
        return s3_parts_sum_new(c->sum.kind, c->sum.type, &c->parts_sum) == 0 ? 0 : -ENOMEM;
}

static void complete_upload_found(void *arg, int rv, const struct eng_object *upload)
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        if (rv == -ENOENT) {
                look_for_earlier(req, S3_ERR_NO_SUCH_UPLOAD);
                return;
        }
        if (rv == 0)
                rv = take_upload(req, GW_CAST(complete, req->work), upload);
        if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_COMPLETE);
        else
                complete_next_page(req);
}

/* The object has one checksum. False: answered. */
static bool one_sum(struct gw_request *req)
{
        unsigned count = 0;

        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++)
                count += gw_header(req, s3_checksum_info((enum s3_checksum)kind)->header).data != NULL;
        if (count <= 1)
                return true;
        gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                       "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.");
        return false;
}

void gw_run_complete(struct gw_request *req)
{
        struct complete *c = gw_alloc(req, sizeof(*c));
        bool never;

        if (c == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        c->doc = req->body->doc;
        c->magic = complete_magic;
        req->work = c;
        req->release = complete_release;
        if (!one_sum(req) || !gw_upload_id_of(req, c->upload_id) || !gw_condition_read(req, &c->condition, &never))
                return;
        eng_upload_get(req->store, req->bucket_id, gw_eng_str(req->key), c->upload_id, complete_upload_found,
                       req);
}
