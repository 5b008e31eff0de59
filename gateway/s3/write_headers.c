/*
 * write_headers.c - headers that every write may have: what is refused, and on which condition it
 * is done. On the request's loop.
 */
#include <string.h>

#include "gateway/s3/handlers.h"

/* Headers that would change what is stored in a way that is not done here. */
static const char *const refused[] = {
        "x-amz-server-side-encryption", "x-amz-write-offset-bytes", "x-amz-copy-source-server-side-encryption",
        "x-amz-object-lock-event-hold", "x-amz-object-annotation-directive",
};

/* A checksum of a kind not computed here: taking it would say that it was compared. */
static bool is_unknown_checksum(struct s3_str name)
{
        static const char *const known[] = {"x-amz-checksum-algorithm", "x-amz-checksum-mode", "x-amz-checksum-type"};
        enum s3_checksum kind;

        if (!s3_str_starts_nocase(name, S3_STR("x-amz-checksum-")) || s3_checksum_by_header(name, &kind) == 0)
                return false;
        for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                if (s3_str_eq_nocase(name, s3_str_of(known[i])))
                        return false;
        }
        return true;
}

/* What says in so many words that nothing is wanted: no key of a bucket's. */
static bool means_nothing(struct s3_str name, struct s3_str value)
{
        return s3_str_eq_nocase(name, S3_STR("x-amz-server-side-encryption-bucket-key-enabled")) &&
               s3_str_eq_nocase(value, S3_STR("false"));
}

static bool is_refused(const struct gw_request *req, const struct s3_header *header)
{
        struct s3_str name = header->name;

        if (means_nothing(name, s3_str_trim(header->value)))
                return false;
        /* Of a source: told when it has been found. */
        if (req->op->header != NULL && s3_str_starts_nocase(name, S3_STR("x-amz-copy-source-server-side-encryption")))
                return false;
        for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++)
                if (s3_str_starts_nocase(name, s3_str_of(refused[i])))
                        return true;
        return is_unknown_checksum(name);
}

bool gw_write_headers_check(struct gw_request *req)
{
        for (unsigned i = 0; i < req->header_count; i++)
                if (is_refused(req, &req->headers[i])) {
                        gw_refuse_header(req, gw_copy(req, req->headers[i].name));
                        return false;
                }
        return true;
}

bool gw_condition_read(struct gw_request *req, struct eng_condition *out, bool *never)
{
        enum s3_put_condition kind;
        struct s3_str etag;
        unsigned parts = 0;
        enum s3_error error = s3_put_condition_parse(gw_header(req, "If-Match"), gw_header(req, "If-None-Match"), &kind,
                                                     &etag);

        *never = false;
        memset(out, 0, sizeof(*out));
        if (error != S3_OK) { /* both, or more than "*" */
                gw_refuse_header(req, "If-None-Match");
                return false;
        }
        if (kind == S3_PUT_IF_ABSENT) {
                out->if_absent = true;
        } else if (kind == S3_PUT_IF_MATCH && s3_str_eq(etag, S3_STR("*"))) {
                out->if_present = true;
        } else if (kind == S3_PUT_IF_MATCH) {
                out->if_etag = true;
                *never = s3_etag_parse(etag, out->etag, &parts) != 0;
                out->etag_parts = *never ? UINT16_MAX : (uint16_t)parts; /* more parts than any object has */
        }
        return true;
}
