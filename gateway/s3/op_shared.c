/*
 * op_shared.c - small pieces that several operations' answers have in common. On the request's
 * loop.
 */
#include <ctype.h>
#include <errno.h>

#include "gateway/rights/owners.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/handlers.h"

/* ---- checksums ------------------------------------------------------------------------------- */

bool gw_refuse_algorithm(struct gw_request *req)
{
        gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                       "Checksum algorithm provided is unsupported. Please try again with any of the valid types: "
                       "[CRC32, CRC32C, CRC64NVME, MD5, SHA1, SHA256, SHA512, XXHASH128, XXHASH3, XXHASH64]");
        return false;
}

const char *gw_algorithm_text(struct gw_request *req, enum s3_checksum kind)
{
        char *text = gw_copy(req, s3_str_of(s3_checksum_info(kind)->algorithm));

        for (char *p = text; p != NULL && *p != '\0'; p++)
                *p = (char)tolower(*p);
        return text != NULL ? text : "";
}

void gw_checksum_header(struct gw_request *req, const struct gw_checksum *sum)
{
        char text[S3_CHECKSUM_TEXT];
        size_t len;

        if (!sum->has)
                return;
        len = s3_checksum_format(sum->kind, sum->value, sum->type == S3_COMPOSITE ? sum->parts : 0, text);
        gw_reply_header_str(req, s3_checksum_info(sum->kind)->header, (struct s3_str){text, len});
}

void gw_checksum_headers(struct gw_request *req, const struct gw_checksum *sum)
{
        gw_checksum_header(req, sum);
        if (sum->has)
                gw_reply_header(req, "x-amz-checksum-type", s3_checksum_type_name(sum->type));
}

void gw_checksum_xml(struct s3_xml *xml, const struct gw_checksum *sum)
{
        char text[S3_CHECKSUM_TEXT];
        size_t len;

        if (!sum->has)
                return;
        len = s3_checksum_format(sum->kind, sum->value, sum->type == S3_COMPOSITE ? sum->parts : 0, text);
        s3_xml_text(xml, s3_checksum_info(sum->kind)->element, (struct s3_str){text, len});
}

/* ---- encryption ------------------------------------------------------------------------------ */

bool gw_plain_check(struct gw_request *req, const char *prefix)
{
        struct s3_str all = s3_str_of(prefix);

        for (unsigned i = 0; i < req->header_count; i++) {
                struct s3_str name = req->headers[i].name;

                if (!s3_str_starts_nocase(name, all))
                        continue;
                if (s3_str_starts_nocase((struct s3_str){name.data + all.len, name.len - all.len}, S3_STR("-customer-"))) {
                        gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                                       "The encryption parameters are not applicable to this object.");
                        return false;
                }
                if (name.len == all.len) {
                        gw_reply_argument(req, prefix, s3_str_trim(req->headers[i].value),
                                          gw_printf(req, "%s header is not supported for this operation.", prefix));
                        return false;
                }
        }
        return true;
}

/* ---- who and which --------------------------------------------------------------------------- */

void gw_owner_xml(struct gw_request *req, struct s3_xml *xml, const char *element)
{
        char account[GW_ACCOUNT_ID_LEN + 1];
        const char *title;

        gw_request_owner(req, account);
        title = gw_account_title(req->loop, account);
        s3_xml_open(xml, element);
        s3_xml_text(xml, "ID", gw_canonical_id(req->loop, account));
        if (title != NULL)
                s3_xml_textz(xml, "DisplayName", title);
        s3_xml_close(xml, element);
}

char *gw_etag_text(struct gw_request *req, const uint8_t md5[16], unsigned parts)
{
        char text[S3_ETAG_SIZE];
        size_t len = s3_etag_format(md5, parts, text);

        return gw_copy(req, (struct s3_str){text, len});
}

/* ---- bodies ---------------------------------------------------------------------------------- */

void gw_begin_document(struct gw_request *req, enum s3_doc_kind kind)
{
        if (s3_doc_new(kind, &req->body->doc) != 0)
                gw_reply_no_memory(req);
        else if (req->body->expected != S3_LENGTH_UNKNOWN && req->body->expected > s3_doc_bytes_max(req->body->doc))
                gw_reply_error(req, S3_ERR_MAX_MESSAGE_LENGTH, NULL);
        else
                gw_begin_done(req);
}

/* ---- answers --------------------------------------------------------------------------------- */

void gw_reply_deleted(struct gw_request *req, int rv, enum gw_about about)
{
        if (!gw_back(req))
                return;
        if (rv == 0)
                gw_reply_empty(req, 204);
        else
                gw_reply_errno(req, rv, about);
}

/* ---- upload ids and part numbers ------------------------------------------------------------- */

void gw_upload_id_text(const uint8_t id[ENG_ID_LEN], char out[GW_UPLOAD_ID_TEXT])
{
        s3_hex_encode(id, ENG_ID_LEN, out);
}

int gw_upload_id_parse(struct s3_str text, uint8_t id[ENG_ID_LEN])
{
        return text.len == GW_UPLOAD_ID_TEXT - 1 ? s3_hex_decode(text, id, ENG_ID_LEN) : -EINVAL;
}

bool gw_upload_id_of(struct gw_request *req, uint8_t id[ENG_ID_LEN])
{
        if (gw_upload_id_parse(gw_query(req, "uploadId"), id) == 0)
                return true;
        gw_reply_error(req, S3_ERR_NO_SUCH_UPLOAD, NULL);
        return false;
}

bool gw_part_number_of(struct gw_request *req, unsigned *out)
{
        struct s3_str text = gw_query(req, "partNumber");
        uint64_t number;

        if (s3_parse_uint(text, ENG_PARTS_MAX, &number) == 0 && number > 0) {
                *out = (unsigned)number;
                return true;
        }
        gw_reply_argument(req, "partNumber", text, "Part number must be an integer between 1 and 10000, inclusive");
        return false;
}
