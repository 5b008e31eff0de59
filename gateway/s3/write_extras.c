/*
 * write_extras.c - tags, retention and legal hold of an object: from the headers of a write, and
 * as headers of an answer. On the request's loop.
 */
#include "gateway/s3/acl_request.h"
#include "gateway/s3/handlers.h"

/* ---- of a write ------------------------------------------------------------------------------ */

bool gw_tags_keep(struct gw_request *req, const struct s3_tags *tags, struct eng_str *out)
{
        static _Thread_local uint8_t encoded[S3_TAGS_SIZE(S3_OBJECT_TAGS_MAX)];
        ssize_t len = s3_tags_encode(tags, encoded, sizeof(encoded));
        char *kept;

        assert(len > 0 && tags->count <= S3_OBJECT_TAGS_MAX);
        if (tags->count == 0) {
                *out = (struct eng_str){"", 0};
                return true;
        }
        kept = gw_copy(req, (struct s3_str){(const char *)encoded, (size_t)len});
        if (kept == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        *out = (struct eng_str){kept, (size_t)len};
        return true;
}

static bool extras_read_tags(struct gw_request *req, struct eng_str *out)
{
        struct s3_str value = s3_str_trim(gw_header(req, "x-amz-tagging"));
        const char *message = NULL;
        struct s3_tags tags;
        enum s3_error error;
        char *text;

        if (value.len == 0)
                return true;
        text = gw_alloc(req, value.len);
        if (text == NULL) {
                gw_reply_no_memory(req);
                return false;
        }
        error = s3_tags_header_parse(value, text, value.len, &tags, &message);
        if (error == S3_ERR_INVALID_ARGUMENT)
                gw_reply_argument(req, "x-amz-tagging", value, message);
        else if (error != S3_OK)
                gw_reply_error(req, error, message);
        return error == S3_OK && gw_tags_keep(req, &tags, out);
}

bool gw_retention_ahead(struct gw_request *req, int64_t until_ms)
{
        if (until_ms > lp_wall_ms() && until_ms > eng_lock_now(req->store))
                return true;
        gw_reply_error(req, S3_ERR_INVALID_ARGUMENT, S3_LOCK_PAST_MESSAGE);
        return false;
}

static bool extras_read_lock(struct gw_request *req, struct eng_extras *out)
{
        struct s3_str mode = gw_header(req, "x-amz-object-lock-mode"),
                      until = gw_header(req, "x-amz-object-lock-retain-until-date"),
                      hold = gw_header(req, "x-amz-object-lock-legal-hold");
        const char *message = NULL;
        struct s3_lock_headers lock;
        enum s3_error error;

        if (mode.data == NULL && until.data == NULL && hold.data == NULL)
                return true;
        /* What no bucket could take is told first, as AWS does. */
        error = s3_lock_headers_parse(mode, until, hold, &lock, &message);
        if (error != S3_OK) {
                if (lock.wrong != NULL)
                        gw_reply_argument(req, lock.wrong, gw_header(req, lock.wrong), message);
                else
                        gw_reply_error(req, error, message);
                return false;
        }
        if (lock.retention.mode != S3_LOCK_NONE && !gw_retention_ahead(req, lock.retention.until_ms))
                return false;
        if (!req->lockable) {
                gw_reply_error(req, S3_ERR_INVALID_REQUEST, "Bucket is missing Object Lock Configuration");
                return false;
        }
        out->retention.mode = (enum eng_retention_mode)lock.retention.mode;
        out->retention.until_ms = lock.retention.until_ms;
        out->hold = lock.has_hold && lock.hold;
        out->no_hold = lock.has_hold && !lock.hold;
        return true;
}

bool gw_extras_read(struct gw_request *req, struct eng_extras *out)
{
        _Static_assert((int)ENG_RETENTION_GOVERNANCE == (int)S3_LOCK_GOVERNANCE &&
                               (int)ENG_RETENTION_COMPLIANCE == (int)S3_LOCK_COMPLIANCE,
                       "the engine numbers modes as s3 does");
        *out = (struct eng_extras){.hold = false};
        return extras_read_tags(req, &out->tags) && extras_read_lock(req, out) && gw_acl_of_write(req, &out->acl);
}

bool gw_document_summed(struct gw_request *req)
{
        if (req->body->check_md5 || req->body->has_kind)
                return true;
        gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                       "Missing required header for this request: Content-MD5 OR x-amz-checksum-*");
        return false;
}

bool gw_bypass_read(struct gw_request *req, bool *out)
{
        struct s3_str value = gw_header(req, "x-amz-bypass-governance-retention");

        if (s3_lock_flag_parse(value, out) == S3_OK)
                return true;
        gw_reply_argument(req, "x-amz-bypass-governance-retention", value, NULL);
        return false;
}

/* ---- of an answer ---------------------------------------------------------------------------- */

void gw_extras_headers(struct gw_request *req, const struct eng_object *object)
{
        char date[S3_DATE_ISO_SIZE];
        struct s3_tags tags;

        if (object->tags.len > 0 && s3_tags_decode(object->tags.data, object->tags.len, &tags) == 0 && tags.count > 0)
                gw_reply_header_uint(req, "x-amz-tagging-count", tags.count);
        if (object->retention.mode != ENG_RETENTION_NONE) {
                size_t len = s3_date_format_iso(object->retention.until_ms, date);

                gw_reply_header(req, "x-amz-object-lock-mode", s3_lock_mode_name((enum s3_lock_mode)object->retention.mode));
                gw_reply_header_str(req, "x-amz-object-lock-retain-until-date", (struct s3_str){date, len});
        }
        if (object->hold_known)
                gw_reply_header(req, "x-amz-object-lock-legal-hold", object->hold ? "ON" : "OFF");
}
