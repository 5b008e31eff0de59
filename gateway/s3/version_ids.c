/*
 * version_ids.c - see version_ids.h.
 */
#include "gateway/s3/version_ids.h"

#include <errno.h>

_Static_assert(ENG_VERSION_RANDOM == sizeof(((struct s3_version *)NULL)->random), "an id has all of it");

enum s3_error gw_version_parse(struct s3_str text, struct gw_version *out, const char **message)
{
        struct s3_version version;
        enum s3_error error;

        *out = (struct gw_version){.given = text.data != NULL};
        if (!out->given)
                return S3_OK;
        error = s3_version_parse(text, &version, message);
        if (error != S3_OK)
                return error;
        out->id.number = version.number; /* 0: the null version */
        memcpy(out->id.random, version.random, ENG_VERSION_RANDOM);
        return S3_OK;
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

size_t gw_version_text(const struct eng_version *id, char out[S3_VERSION_TEXT])
{
        struct s3_version version = {.null = id->number == 0, .number = id->number};

        if (!version.null)
                memcpy(version.random, id->random, ENG_VERSION_RANDOM);
        return s3_version_format(&version, out);
}

void gw_version_header(struct gw_request *req, const struct eng_version *id)
{
        char text[S3_VERSION_TEXT];

        if (req->versioned)
                gw_reply_header_str(req, "x-amz-version-id", (struct s3_str){text, gw_version_text(id, text)});
}

/* A marker that is the newest is like no object; one that is named is there, and cannot be read. */
static void reply_marker(struct gw_request *req, const struct gw_version *version, const struct eng_object *marker)
{
        char date[S3_DATE_HTTP_SIZE];
        size_t len;

        gw_reply_header(req, "x-amz-delete-marker", "true");
        gw_version_header(req, &marker->version);
        if (!version->given) {
                gw_reply_error(req, S3_ERR_NO_SUCH_KEY, NULL);
                return;
        }
        len = s3_date_format_http(marker->mtime_ms, date);
        gw_reply_header_str(req, "Last-Modified", (struct s3_str){date, len});
        gw_reply_header(req, "Allow", "DELETE");
        gw_reply_error(req, S3_ERR_METHOD_NOT_ALLOWED, NULL);
}

bool gw_version_found(struct gw_request *req, const struct gw_version *version, int rv, struct eng_get *get)
{
        if (rv == 0) {
                req->get = get;
                if (!eng_get_object(get)->marker)
                        return true;
                reply_marker(req, version, eng_get_object(get));
        } else if (rv == -ENOENT && version->given) {
                gw_reply_error_extra(req, S3_ERR_NO_SUCH_VERSION, NULL,
                                     gw_detail(req, "Key", req->key, "VersionId", gw_query(req, "versionId")));
        } else {
                gw_reply_errno(req, rv, GW_ABOUT_KEY);
        }
        return false;
}
