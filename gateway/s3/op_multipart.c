/*
 * op_multipart.c - CreateMultipartUpload and AbortMultipartUpload. On the request's loop.
 */
#include <errno.h>

#include "gateway/s3/handlers.h"

/* ---- CreateMultipartUpload ------------------------------------------------------------------- */

static bool multipart_refuse(struct gw_request *req, enum s3_error error, const char *message)
{
        gw_reply_error(req, error, message);
        return false;
}

/*
 * Algorithm and type of the checksum, where the client names one; else what AWS does now is done
 * without telling.
 */
static bool read_upload_checksum(struct gw_request *req, struct gw_checksum *sum)
{
        struct s3_str algorithm = gw_header(req, "x-amz-checksum-algorithm"),
                      type = gw_header(req, "x-amz-checksum-type");

        if (type.data != NULL && s3_checksum_type_parse(type, &sum->type) != 0)
                return multipart_refuse(req, S3_ERR_INVALID_REQUEST,
                                        "Value for x-amz-checksum-type header is invalid.");
        if (algorithm.data == NULL) {
                if (type.data != NULL)
                        return multipart_refuse(req, S3_ERR_INVALID_REQUEST,
                                                "The x-amz-checksum-type header can only be used with the "
                                                "x-amz-checksum-algorithm header.");
                return true;
        }
        if (s3_checksum_by_algorithm(algorithm, &sum->kind) != 0)
                return gw_refuse_algorithm(req);
        sum->has_kind = true;
        if (type.data == NULL)
                sum->type = s3_checksum_type_default(sum->kind);
        if (!s3_checksum_type_allowed(sum->kind, sum->type))
                return multipart_refuse(req, S3_ERR_INVALID_REQUEST,
                                        gw_printf(req,
                                                  "The %s checksum type cannot be used with the %s checksum algorithm.",
                                                  s3_checksum_type_name(sum->type), gw_algorithm_text(req, sum->kind)));
        return true;
}

static void reply_upload_created(struct gw_request *req, const uint8_t id[ENG_ID_LEN])
{
        const struct gw_checksum *sum = req->work;
        char text[GW_UPLOAD_ID_TEXT];
        struct s3_xml xml;

        if (sum->has_kind) {
                gw_reply_header(req, "x-amz-checksum-algorithm", s3_checksum_info(sum->kind)->algorithm);
                gw_reply_header(req, "x-amz-checksum-type", s3_checksum_type_name(sum->type));
        }
        gw_upload_id_text(id, text);
        s3_xml_init(&xml, 64u << 10);
        s3_xml_declaration(&xml);
        s3_xml_root(&xml, "InitiateMultipartUploadResult");
        s3_xml_text(&xml, "Bucket", req->bucket);
        s3_xml_key(&xml, "Key", req->key, s3_str_eq_nocase(gw_query(req, "encoding-type"), S3_STR("url")));
        s3_xml_textz(&xml, "UploadId", text);
        s3_xml_close(&xml, "InitiateMultipartUploadResult");
        gw_reply_xml(req, 200, &xml);
}

static void upload_created(void *arg, int rv, const uint8_t id[ENG_ID_LEN])
{
        struct gw_request *req = arg;

        if (!gw_back(req))
                return;
        if (rv != 0)
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
        else
                reply_upload_created(req, id);
}

void gw_run_upload_create(struct gw_request *req)
{
        struct gw_checksum *sum = gw_alloc(req, sizeof(*sum));
        uint8_t attrs[ENG_ATTRS_MAX];
        struct eng_upload_params params = {.bucket = req->bucket_id, .key = gw_eng_str(req->key), .attrs = attrs};
        struct gw_meta meta;
        enum s3_error error;
        ssize_t len;

        if (sum == NULL) {
                gw_reply_no_memory(req);
                return;
        }
        req->work = sum;
        if (!gw_write_headers_check(req) || !gw_extras_read(req, &params.extras) || !read_upload_checksum(req, sum))
                return;
        error = gw_meta_of_headers(req->headers, req->header_count, &meta);
        if (error != S3_OK) {
                gw_reply_error(req, error, NULL);
                return;
        }
        meta.sum = *sum;
        len = gw_meta_encode(&meta, attrs, sizeof(attrs));
        if (len < 0) {
                gw_reply_error(req, S3_ERR_METADATA_TOO_LARGE, NULL);
                return;
        }
        gw_tag_make(&meta, params.tag);
        params.attrs_len = (size_t)len;
        eng_upload_create(req->store, &params, upload_created, req);
}

/* ---- AbortMultipartUpload -------------------------------------------------------------------- */

static void upload_aborted(void *arg, int rv)
{
        gw_reply_deleted(arg, rv, GW_ABOUT_UPLOAD);
}

void gw_run_upload_abort(struct gw_request *req)
{
        uint8_t id[ENG_ID_LEN];

        if (gw_header(req, "x-amz-if-match-initiated-time").data != NULL) {
                gw_refuse_header(req, "x-amz-if-match-initiated-time");
                return;
        }
        if (gw_upload_id_of(req, id))
                eng_upload_abort(req->store, req->bucket_id, gw_eng_str(req->key), id, upload_aborted, req);
}
