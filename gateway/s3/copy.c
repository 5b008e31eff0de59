/*
 * copy.c - what CopyObject and UploadPartCopy have in common: finding the source, and pumping its
 * bytes into a new object.
 *
 * Called by op_copy.c. The pump runs on the request's loop whenever the source has bytes or the
 * target has room; it holds one span of the source at a time (I9). ETag and checksum are computed
 * only where the source's own do not hold for the copy.
 */
#include "gateway/s3/copy.h"

#include "gateway/rights/owners.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/request_rights.h"

#include <errno.h>

#define DOC_MAX 4096u

static const struct gw_checksum *source_sum(const struct gw_request *req, struct gw_checksum *out)
{
        return gw_meta_decode_checksum(eng_get_object(req->get)->attrs, out) == 0 ? out : NULL;
}

/* ---- the source ------------------------------------------------------------------------------ */

static void copy_release(struct gw_request *req)
{
        struct gw_copying *copy = GW_CAST(gw_copying, req->work);

        era_digest_free(copy->md5);
        s3_sums_free(copy->sums);
        copy->md5 = NULL;
        copy->sums = NULL;
}

/* What is wrong with a source that names no object, in AWS's words. */
static const char *source_fault(struct gw_request *req, struct s3_str value)
{
        const struct s3_str no_id = S3_STR("?versionId=");
        char *scratch = gw_alloc(req, value.len + 1);
        int n = scratch != NULL ? s3_percent_decode(value, true, scratch, value.len + 1) : 0;
        struct s3_str text = {scratch, n > 0 ? (size_t)n : 0};

        if (n < 0 || !s3_utf8_valid(text))
                return "Invalid copy source encoding";
        if (s3_str_starts(text, S3_STR("/")))
                text = (struct s3_str){text.data + 1, text.len - 1};
        if (text.len == 0 || text.data[0] == '/' || text.data[0] == '?')
                return "Invalid copy source bucket name";
        if (text.len >= no_id.len && s3_str_eq((struct s3_str){text.data + text.len - no_id.len, no_id.len}, no_id))
                return "Version id cannot be the empty string";
        return "Invalid copy source object key";
}

static void refuse_source(struct gw_request *req, enum s3_error error)
{
        struct s3_str value = gw_header(req, "x-amz-copy-source");

        if (error == S3_ERR_INVALID_BUCKET_NAME)
                gw_reply_argument(req, "x-amz-copy-source", value, "Invalid copy source bucket name");
        else if (error == S3_ERR_INVALID_ARGUMENT)
                gw_reply_argument(req, "x-amz-copy-source", value, source_fault(req, s3_str_trim(value)));
        else
                gw_reply_error(req, error, NULL);
}

bool gw_copy_begin(struct gw_request *req, void (*opened)(struct gw_request *req))
{
        struct gw_copying *copy = gw_alloc(req, sizeof(*copy));
        const char *message = NULL;
        struct s3_str version;
        enum s3_error error;

        if (copy == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        copy->magic = gw_copying_magic;
        req->work = copy;
        req->release = copy_release;
        copy->opened = opened;
        if (!gw_write_headers_check(req))
                return false;
        error = s3_copy_source_parse(gw_header(req, "x-amz-copy-source"), &copy->source);
        if (error == S3_OK && (copy->source.address.bucket_len == 0 || copy->source.address.key_len == 0))
                error = S3_ERR_INVALID_ARGUMENT;
        if (error == S3_OK && !s3_bucket_name_valid(s3_address_bucket(&copy->source.address)))
                error = S3_ERR_INVALID_BUCKET_NAME;
        if (error != S3_OK) {
                refuse_source(req, error);
                return false;
        }
        if (!copy->source.has_version)
                return true;
        version = (struct s3_str){copy->source.version, copy->source.version_len};
        if (gw_version_parse(version, &copy->version, &message) == S3_OK)
                return true;
        gw_reply_argument(req, "x-amz-copy-source", version, message);
        return false;
}

static enum s3_error check_conditions(const struct gw_request *req, const struct eng_object *object)
{
        struct s3_conditions conditions = {
                .if_match = gw_header(req, "x-amz-copy-source-if-match"),
                .if_none_match = gw_header(req, "x-amz-copy-source-if-none-match"),
                .if_modified_since = gw_header(req, "x-amz-copy-source-if-modified-since"),
                .if_unmodified_since = gw_header(req, "x-amz-copy-source-if-unmodified-since"),
        };
        char etag[S3_ETAG_SIZE];
        size_t len = s3_etag_format(object->etag, object->etag_parts, etag);

        return s3_conditions_check(&conditions, (struct s3_str){etag, len}, object->mtime_ms, lp_wall_ms(), true);
}

/* Not the target is missing, but the source. */
static void refuse_missing(struct gw_request *req, enum s3_error error, const char *element, struct s3_str name)
{
        gw_reply_error_extra(req, error, NULL, gw_detail(req, element, name, NULL, (struct s3_str){NULL, 0}));
}

static void source_opened(void *arg, int rv, struct eng_get *get)
{
        struct gw_request *req = arg;
        struct gw_copying *copy;
        enum s3_error error;

        if (!gw_back(req)) {
                if (rv == 0)
                        eng_get_close(get);
                return;
        }
        copy = GW_CAST(gw_copying, req->work);
        if (rv == 0)
                req->get = get;
        if ((rv == 0 || rv == -ENOENT) && copy->source_decides &&
            !gw_copy_permits(req, rv == 0 ? eng_get_object(get) : NULL, "s3:GetObject", "s3:GetObjectVersion"))
                return;
        if (rv == 0 && eng_get_object(get)->marker && copy->version.given) {
                gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                               "The source of a copy request may not specifically refer to a delete marker by version id.");
                return;
        }
        if (rv == -ENOENT || (rv == 0 && eng_get_object(get)->marker)) {
                refuse_missing(req,
                               gw_rights_missing(req, s3_address_bucket(&copy->source.address),
                                                 copy->version.given ? S3_ERR_NO_SUCH_VERSION : S3_ERR_NO_SUCH_KEY),
                               "Key", s3_address_key(&copy->source.address));
                return;
        }
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_KEY);
                return;
        }
        if (!gw_plain_check(req, "x-amz-copy-source-server-side-encryption"))
                return;
        error = check_conditions(req, eng_get_object(get));
        if (error != S3_OK)
                gw_reply_error(req, error, NULL);
        else
                copy->opened(req);
}

/* A question about the source. */
static struct gw_ask source_ask(struct gw_request *req, const char *permission, const char *of_version)
{
        const struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        struct gw_ask ask = {.loop = req->loop,
                             .access_key = req->access_key,
                             .req = req,
                             .permission = copy->version.given ? of_version : permission,
                             .bucket = s3_address_bucket(&copy->source.address),
                             .key = s3_address_key(&copy->source.address),
                             .implied = true};

        if (copy->version.given)
                ask.version_id = (struct s3_str){copy->source.version, copy->source.version_len};
        return ask;
}

bool gw_copy_permits(struct gw_request *req, const struct eng_object *source, const char *permission,
                     const char *of_version)
{
        const struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        struct gw_ask ask = source_ask(req, permission, of_version);
        char why[GW_WHY_MAX];

        gw_ask_found(&ask, copy->source_bucket, source, copy->version.given);
        if (gw_permit(&ask, why))
                return true;
        gw_reply_error(req, S3_ERR_ACCESS_DENIED, why[0] != '\0' ? why : NULL);
        return false;
}

void gw_copy_open(struct gw_request *req)
{
        struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        struct s3_str source = s3_address_bucket(&copy->source.address), key = s3_address_key(&copy->source.address);
        struct s3_str expected = gw_header(req, "x-amz-source-expected-bucket-owner");
        struct gw_ask ask = source_ask(req, "s3:GetObject", "s3:GetObjectVersion");
        char owner[GW_ACCOUNT_ID_LEN + 1], why[GW_WHY_MAX];
        const struct eng_bucket *bucket = NULL;
        int rv = gw_bucket_get(req->loop->gw, source, &bucket, &req->also);
        enum gw_permitted permitted;

        req->undecided |= rv == -EHOSTDOWN && !gw_pool_alone(req->loop->gw);
        ask.found = rv == 0 ? bucket : NULL;
        ask.bucket_sought = true;
        permitted = gw_permit_early(&ask, why);
        copy->source_decides = permitted == GW_PERMITTED_IF;
        if (permitted == GW_REFUSED) {
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, why[0] != '\0' ? why : NULL);
                return;
        }
        if (rv == -ENOENT) {
                refuse_missing(req, S3_ERR_NO_SUCH_BUCKET, "BucketName", source);
                return;
        }
        if (rv != 0) {
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
                return;
        }
        gw_bucket_account(bucket, owner);
        if (expected.len > 0 && !s3_str_eq(expected, s3_str_of(owner))) {
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL);
                return;
        }
        copy->source_bucket = bucket->id;
        copy->source_store = bucket->store;
        copy->source_versioned = bucket->rules.versioning != ENG_VERSIONING_NEVER;
        eng_get_open(bucket->store, bucket->id, gw_eng_str(key), gw_version_asked(&copy->version), source_opened, req);
}

/* ---- ending ---------------------------------------------------------------------------------- */

void gw_copy_reply(struct gw_request *req, const char *root, const struct eng_object *object)
{
        const struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        char etag[S3_ETAG_SIZE], version[S3_VERSION_TEXT];
        struct s3_xml xml;

        s3_xml_init(&xml, DOC_MAX);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, root);
        s3_xml_date(&xml, "LastModified", object->mtime_ms);
        s3_xml_text(&xml, "ETag", (struct s3_str){etag, s3_etag_format(object->etag, object->etag_parts, etag)});
        /* One that the upload was not begun with is our own affair. */
        if (!copy->is_part || copy->has_kind)
                gw_checksum_xml(&xml, &copy->meta.sum);
        if (copy->meta.sum.has && !copy->is_part)
                s3_xml_textz(&xml, "ChecksumType", s3_checksum_type_name(copy->meta.sum.type));
        s3_xml_close(&xml, root);
        if (copy->source_versioned)
                gw_reply_header_str(req, "x-amz-copy-source-version-id",
                                    (struct s3_str){version, gw_version_text(&eng_get_object(req->get)->version, version)});
        if (!copy->is_part)
                gw_version_header(req, &object->version);
        gw_reply_xml(req, 200, &xml);
}

static void copy_stored(void *arg, int rv, const struct eng_object *object)
{
        struct gw_request *req = arg;
        const struct gw_copying *copy;

        if (!gw_back(req))
                return;
        copy = GW_CAST(gw_copying, req->work);
        if (rv != 0)
                gw_reply_errno(req, rv, copy->is_part ? GW_ABOUT_UPLOAD : GW_ABOUT_WRITE);
        else
                gw_copy_reply(req, copy->is_part ? "CopyPartResult" : "CopyObjectResult", object);
}

/* All bytes are in the target. */
static void copy_commit(struct gw_request *req)
{
        struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        struct eng_put_commit c = {.condition = copy->condition, .extras = copy->extras};
        uint8_t attrs[ENG_ATTRS_MAX], md5[ERA_DIGEST_MAX];
        struct eng_put *put = req->put;
        ssize_t len;

        if (copy->md5 != NULL) {
                era_digest_final(copy->md5, md5);
                memcpy(copy->md5_value, md5, 16);
        }
        if (copy->sums != NULL) {
                s3_sums_final(copy->sums);
                memcpy(copy->meta.sum.value, s3_sums_value(copy->sums, copy->meta.sum.kind),
                       s3_checksum_info(copy->meta.sum.kind)->len);
        }
        len = gw_meta_encode(&copy->meta, attrs, sizeof(attrs));
        if (len < 0) {
                gw_reply_error(req, S3_ERR_METADATA_TOO_LARGE, NULL);
                return;
        }
        c.attrs = attrs;
        c.attrs_len = (size_t)len;
        memcpy(c.etag, copy->md5_value, 16);
        gw_tag_make(&copy->meta, c.tag);
        copy->committing = true;
        req->put = NULL;
        eng_put_commit(put, &c, copy_stored, req);
}

/* ---- the pump -------------------------------------------------------------------------------- */

static void copy_take(struct gw_copying *copy, size_t len)
{
        if (copy->md5 != NULL)
                era_digest_update(copy->md5, copy->span, len);
        if (copy->sums != NULL)
                s3_sums_update(copy->sums, copy->span, len);
        copy->span += len;
        copy->span_len -= len;
}

/* 0: the span is the target's; -EAGAIN: it has no room now. */
static int drain_span(struct gw_request *req, struct gw_copying *copy)
{
        ssize_t taken = eng_put_write(req->put, copy->span, copy->span_len);

        if (taken < 0)
                return (int)taken;
        copy_take(copy, (size_t)taken);
        return copy->span_len == 0 ? 0 : -EAGAIN;
}

static void copy_pump(void *arg)
{
        struct gw_request *req = arg;
        struct gw_copying *copy;
        bool reading = false;
        int rv = 0;

        if (!gw_back(req) || gw_answered(req))
                return;
        copy = GW_CAST(gw_copying, req->work);
        if (copy->committing)
                return;
        if (req->peer_gone) {
                gw_reply_error(req, S3_ERR_REQUEST_TIMEOUT, NULL);
                return;
        }
        while (rv == 0) {
                reading = copy->span_len == 0;
                if (reading)
                        rv = copy->len > 0 ? eng_get_next(req->get, &copy->span, &copy->span_len) : -ENODATA;
                else
                        rv = drain_span(req, copy);
        }
        if (reading && rv == -ENODATA)
                copy_commit(req);
        else if (rv != -EAGAIN)
                gw_reply_errno(req, rv, reading ? GW_ABOUT_KEY : GW_ABOUT_WRITE);
}

/* What must be computed on the way, and what the source already knows. -ENOMEM. */
static int prepare_sums(struct gw_request *req, struct gw_copying *copy)
{
        const struct eng_object *source = eng_get_object(req->get);
        struct gw_checksum buf;
        const struct gw_checksum *known = source_sum(req, &buf);
        bool whole = copy->len == source->size;
        struct gw_checksum *sum = &copy->meta.sum;

        *sum = (struct gw_checksum){.has = true, .has_kind = true, .kind = S3_CRC64NVME, .type = S3_FULL_OBJECT};
        if (copy->has_kind)
                sum->kind = copy->kind;
        else if (!copy->is_part && known != NULL && known->has)
                sum->kind = known->kind;
        if (whole && known != NULL && known->has && known->kind == sum->kind && known->type == S3_FULL_OBJECT)
                *sum = *known;
        else if (s3_sums_new(S3_CHECKSUM_BIT(sum->kind), &copy->sums) != 0)
                return -ENOMEM;
        memcpy(copy->md5_value, source->etag, 16);
        return whole && source->etag_parts == 0 ? 0 : era_digest_new(ERA_MD5, &copy->md5);
}

void gw_copy_run(struct gw_request *req)
{
        struct gw_copying *copy = GW_CAST(gw_copying, req->work);
        struct eng_put_params params = {.bucket = req->bucket_id,
                                        .key = gw_eng_str(req->key),
                                        .size = copy->len,
                                        .is_part = copy->is_part,
                                        .part_number = copy->part_number,
                                        .wake = copy_pump,
                                        .arg = req};
        int rv;

        if (copy->len > GW_OBJECT_MAX) {
                gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                               "The specified copy source is larger than the maximum allowable size for a copy source: "
                               "5368709120");
                return;
        }
        memcpy(params.upload_id, copy->upload_id, ENG_ID_LEN);
        rv = prepare_sums(req, copy);
        if (rv == 0)
                rv = eng_put_open(req->store, &params, &req->put);
        if (rv == 0 && copy->len > 0)
                rv = eng_get_start(req->get, copy->offset, copy->len, copy_pump, req);
        if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_WRITE);
        else
                copy_pump(req);
}
