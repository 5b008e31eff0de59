/*
 * version_ids.c - see version_ids.h.
 */
#include "gateway/s3/version_ids.h"

#include "gateway/s3/auth.h"
#include "gateway/s3/request_rights.h"

#include <errno.h>

enum s3_error gw_version_parse(struct s3_str text, struct gw_version *out, const char **message)
{
        *out = (struct gw_version){.given = text.data != NULL};
        return out->given ? gw_version_read(text, &out->id, message) : S3_OK;
}

bool gw_version_of(struct gw_request *req, struct gw_version *out)
{
        struct s3_str text = gw_query(req, "versionId");
        const char *message = NULL;

        if (gw_version_parse(text, out, &message) == S3_OK)
                return true;
        gw_reply_argument(req, "versionId", text, message);
        return false;
}

void gw_version_header(struct gw_request *req, const struct eng_version *id)
{
        char text[S3_VERSION_TEXT];

        if (req->versioned)
                gw_reply_header_str(req, "x-amz-version-id", (struct s3_str){text, gw_version_text(id, text)});
}

void gw_version_refuse_marker(struct gw_request *req)
{
        gw_reply_header(req, "x-amz-delete-marker", "true");
        gw_reply_header(req, "Allow", "DELETE");
        gw_reply_error(req, S3_ERR_METHOD_NOT_ALLOWED, NULL);
}

/* A marker that is the newest is like no object; one that is named is there, and cannot be read. */
static void reply_marker(struct gw_request *req, const struct gw_version *version, const struct eng_object *marker)
{
        char date[S3_DATE_HTTP_SIZE];
        size_t len;

        if (!version->given && gw_rights_missing(req, req->bucket, S3_ERR_NO_SUCH_KEY) != S3_ERR_NO_SUCH_KEY) {
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL);
                return;
        }
        gw_version_header(req, &marker->version);
        if (!version->given) {
                gw_reply_header(req, "x-amz-delete-marker", "true");
                gw_reply_error(req, S3_ERR_NO_SUCH_KEY, NULL);
                return;
        }
        len = s3_date_format_http(marker->mtime_ms, date);
        gw_reply_header_str(req, "Last-Modified", (struct s3_str){date, len});
        gw_version_refuse_marker(req);
}

void gw_version_fail(struct gw_request *req, const struct gw_version *version, int rv)
{
        if (rv == -ENOENT && gw_rights_missing(req, req->bucket, S3_OK) != S3_OK)
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, NULL);
        else if (rv == -ENOENT && version->given)
                gw_reply_error_extra(req, S3_ERR_NO_SUCH_VERSION, NULL,
                                     gw_detail(req, "Key", req->key, "VersionId", gw_query(req, "versionId")));
        else
                gw_reply_errno(req, rv, GW_ABOUT_KEY);
}

bool gw_back_opened(const struct gw_request *req, int rv, struct eng_get *get)
{
        if (gw_back(req))
                return true;
        if (rv == 0)
                eng_get_close(get);
        return false;
}

/* False: answered, with nothing of the object (P15, P20). */
static bool object_permits(struct gw_request *req, int rv, struct eng_get *get)
{
        if ((rv != 0 && rv != -ENOENT) || gw_rights_permit_object(req, rv == 0 ? eng_get_object(get) : NULL))
                return true;
        if (rv == 0)
                req->get = get;
        if (req->access_key == NULL)
                gw_auth_stranger_refuse(req);
        else
                gw_reply_error(req, S3_ERR_ACCESS_DENIED, req->refusal);
        return false;
}

void gw_change_as_seen(const struct gw_request *req, struct eng_extras_change *change)
{
        const struct eng_object *object = eng_get_object(req->get);

        change->if_id = true;
        memcpy(change->id, object->id, ENG_ID_LEN);
        change->if_tags = req->object_decides;
        change->tags_seen = object->tags;
}

bool gw_version_found(struct gw_request *req, const struct gw_version *version, int rv, struct eng_get *get)
{
        if (!object_permits(req, rv, get))
                return false;
        if (rv != 0) {
                gw_version_fail(req, version, rv);
                return false;
        }
        req->get = get;
        if (eng_get_object(get)->marker)
                reply_marker(req, version, eng_get_object(get));
        return !gw_answered(req);
}
