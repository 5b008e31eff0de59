/*
 * op_copy.c - CopyObject and UploadPartCopy: what they make of the source; copy.c moves the bytes.
 * On the request's loop.
 *
 * A copy onto itself only changes what is kept beside the bytes, and touches none of them.
 */
#include "gateway/s3/copy.h"

#include "gateway/http/permit.h"
#include "gateway/s3/acl_request.h"

#include <errno.h>

static bool copy_refuse(struct gw_request *req, enum s3_error error, const char *message)
{
        gw_reply_error(req, error, message);
        return false;
}

static bool refuse_argument(struct gw_request *req, const char *header, const char *message)
{
        gw_reply_argument(req, header, gw_header(req, header), message);
        return false;
}

/* ---- CopyObject ------------------------------------------------------------------------------ */

/* A directive: COPY (or nothing) or REPLACE. False: answered. */
static bool read_directive(struct gw_request *req, const char *header, bool *replace, const char *message)
{
        struct s3_str value = gw_header(req, header);

        *replace = s3_str_eq(value, S3_STR("REPLACE"));
        return value.data == NULL || *replace || s3_str_eq(value, S3_STR("COPY")) ||
               refuse_argument(req, header, message);
}

static bool read_algorithm(struct gw_request *req, struct gw_copying *copy)
{
        struct s3_str algorithm = gw_header(req, "x-amz-checksum-algorithm");

        copy->has_kind = algorithm.data != NULL;
        return !copy->has_kind || s3_checksum_by_algorithm(algorithm, &copy->kind) == 0 ||
               gw_refuse_algorithm(req);
}

/*
 * Metadata of the target: the source's or the request's; storage class and redirect are always the
 * request's. False: answered.
 */
static bool read_meta(struct gw_request *req, struct gw_copying *copy, bool replace)
{
        enum gw_storage_class storage;
        struct s3_str redirect;
        enum s3_error error = gw_meta_of_headers(req->headers, req->header_count, &copy->meta);

        if (error != S3_OK)
                return copy_refuse(req, error, NULL);
        if (replace)
                return true;
        storage = copy->meta.storage;
        redirect = copy->meta.field[GW_META_REDIRECT];
        if (gw_meta_decode(eng_get_object(req->get)->attrs, &copy->meta) != 0) {
                gw_reply_errno(req, -EIO, GW_ABOUT_KEY);
                return false;
        }
        copy->meta.storage = storage;
        copy->meta.field[GW_META_REDIRECT] = redirect;
        return true;
}

static void updated(void *arg, int rv, const struct eng_object *object)
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        if (rv == -EOPNOTSUPP) /* the bucket has got versioning meanwhile: a new one is written */
                gw_copy_run(req);
        else if (rv == -ESTALE || rv == -ENOENT) /* written or deleted between our look and the change */
                gw_reply_error(req, S3_ERR_CONDITIONAL_CONFLICT, NULL);
        else if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_WRITE);
        else
                gw_copy_reply(req, "CopyObjectResult", object);
}

/* The client's condition on the target, which is the source. */
static bool condition_holds(const struct eng_condition *condition, const struct eng_object *object)
{
        if (condition->if_absent)
                return false;
        return !condition->if_etag ||
               (condition->etag_parts == object->etag_parts && memcmp(condition->etag, object->etag, 16) == 0);
}

static void update_self(struct gw_request *req)
{
        struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        const struct eng_object *object = eng_get_object(req->get);
        struct eng_condition same = {.if_etag = true, .etag_parts = object->etag_parts};
        uint8_t attrs[ENG_ATTRS_MAX], tag[8];
        ssize_t len;

        if (!condition_holds(&copy->condition, object)) {
                gw_reply_error(req, S3_ERR_PRECONDITION_FAILED, NULL);
                return;
        }
        len = gw_meta_encode(&copy->meta, attrs, sizeof(attrs));
        if (len < 0) {
                gw_reply_error(req, S3_ERR_METADATA_TOO_LARGE, NULL);
                return;
        }
        memcpy(same.etag, object->etag, 16);
        gw_tag_make(&copy->meta, tag);
        eng_update(req->store, req->bucket_id, gw_eng_str(req->key), &same, attrs, (size_t)len, tag, updated,
                   req);
}

/* Source and target are one. */
static void copy_self(struct gw_request *req, bool replace)
{
        struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        struct gw_checksum sum;
        struct gw_tag tag;

        if (gw_meta_decode_checksum(eng_get_object(req->get)->attrs, &sum) != 0) {
                gw_reply_errno(req, -EIO, GW_ABOUT_KEY);
                return;
        }
        gw_tag_read(eng_get_object(req->get)->tag, &tag);
        if (!replace && !copy->replace_tags && !gw_acl_headers_given(req) && copy->meta.storage == tag.storage && !copy->has_kind &&
            copy->meta.field[GW_META_REDIRECT].len == 0) {
                gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                               "This copy request is illegal because it is trying to copy an object to itself without "
                               "changing the object's metadata, storage class, website redirect location or encryption "
                               "attributes.");
                return;
        }
        copy->meta.sum = sum;
        if ((copy->has_kind && (!sum.has || sum.kind != copy->kind)) || req->versioned || copy->replace_tags ||
            copy->extras.acl.len > 0 || eng_get_object(req->get)->acl.len > 0)
                gw_copy_run(req); /* another checksum, or a new version: the bytes must be read */
        else
                update_self(req);
}

/* Tags of the source are read and written like others. False: answered. */
static bool may_copy_tags(struct gw_request *req)
{
        struct gw_ask ask = {.loop = req->loop,
                             .access_key = req->access_key,
                             .req = req,
                             .permission = "s3:PutObjectTagging",
                             .bucket = req->bucket,
                             .bucket_id = req->bucket_id,
                             .key = req->key,
                             .implied = true};

        return gw_copy_permits(req, eng_get_object(req->get), "s3:GetObjectTagging", "s3:GetObjectVersionTagging") &&
               (gw_permit(&ask, NULL) || copy_refuse(req, S3_ERR_ACCESS_DENIED, NULL));
}

static void copy_object_opened(struct gw_request *req)
{
        struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        bool replace = s3_str_eq(gw_header(req, "x-amz-metadata-directive"), S3_STR("REPLACE"));

        if (!read_meta(req, copy, replace))
                return;
        copy->len = eng_get_object(req->get)->size;
        if (!copy->replace_tags)
                copy->extras.tags = eng_get_object(req->get)->tags; /* lives as long as the source is open */
        if (!copy->replace_tags && copy->extras.tags.len > 0 && !may_copy_tags(req))
                return;
        if (copy->source_store == req->store && copy->source_bucket == req->bucket_id && s3_str_eq(s3_address_key(&copy->source.address), req->key) &&
            !copy->version.given)
                copy_self(req, replace);
        else
                gw_copy_run(req);
}

void gw_run_copy(struct gw_request *req)
{
        struct gw_copying *copy;
        bool replace, never;

        if (!gw_copy_begin(req, copy_object_opened))
                return;
        copy = GW_CAST(gw_copying, req->work);
        if (gw_header(req, "x-amz-copy-source-range").data != NULL) {
                gw_refuse_header(req, "x-amz-copy-source-range");
                return;
        }
        if (read_directive(req, "x-amz-metadata-directive", &replace, "Unknown metadata directive.") &&
            read_directive(req, "x-amz-tagging-directive", &copy->replace_tags, "Unknown tagging directive.") &&
            gw_extras_read(req, &copy->extras) && read_algorithm(req, copy) && gw_condition_read(req, &copy->condition, &never))
                gw_copy_open(req);
}

/* ---- UploadPartCopy -------------------------------------------------------------------------- */

static void part_opened(struct gw_request *req)
{
        struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        uint64_t size = eng_get_object(req->get)->size;
        enum s3_error error = S3_OK;

        copy->len = size;
        if (copy->range.form != S3_RANGE_NONE)
                error = s3_copy_range_resolve(&copy->range, size, &copy->offset, &copy->len);
        if (error != S3_OK)
                refuse_argument(req, "x-amz-copy-source-range",
                                gw_printf(req, "Range specified is not valid for source object of size: %llu",
                                          (unsigned long long)size));
        else
                gw_copy_run(req);
}

static void copy_upload_found(void *arg, int rv, const struct eng_object *upload)
{
        struct gw_request *req = arg;
        struct gw_copying *copy;
        struct gw_checksum sum = {0};

        if (!gw_back(req))
                return;
        copy = GW_CAST(gw_copying, req->work);
        if (rv == 0 && gw_meta_decode_checksum(upload->attrs, &sum) != 0)
                rv = -EIO;
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_UPLOAD);
                return;
        }
        copy->has_kind = sum.has_kind;
        copy->kind = sum.kind;
        gw_copy_open(req);
}

void gw_run_part_copy(struct gw_request *req)
{
        struct s3_str range = gw_header(req, "x-amz-copy-source-range");
        struct gw_copying *copy;

        if (!gw_copy_begin(req, part_opened))
                return;
        copy = GW_CAST(gw_copying, req->work);
        copy->is_part = true;
        if (!gw_part_number_of(req, &copy->part_number) || !gw_upload_id_of(req, copy->upload_id))
                return;
        if (range.data != NULL && s3_copy_range_parse(range, &copy->range) != S3_OK) {
                refuse_argument(
                        req, "x-amz-copy-source-range",
                        "The x-amz-copy-source-range value must be of the form bytes=first-last where first and "
                        "last are the zero-based offsets of the first and last bytes to copy");
                return;
        }
        eng_upload_get(req->store, req->bucket_id, gw_eng_str(req->key), copy->upload_id, copy_upload_found,
                       req);
}
