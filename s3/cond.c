/*
 * Conditions of requests with S3's precedence. The gateway asks with the ETag and time of the
 * version it is about to serve or copy; conditions of writes are only parsed here, since the engine
 * decides them in one place.
 */
#include "s3_internal.h"

/* A date that counts: it parses and does not lie in the future. */
static bool cond_date_of(struct s3_str value, int64_t now_ms, int64_t *out)
{
        if (value.data == NULL)
                return false;
        value = s3_str_trim(value);
        if (s3_date_parse_http(value, out) != 0 && s3_date_parse_iso(value, out) != 0)
                return false;
        return *out <= now_ms;
}

enum s3_error s3_conditions_check(const struct s3_conditions *conditions, struct s3_str etag, int64_t mtime_ms,
                                  int64_t now_ms, bool copy)
{
        enum s3_error unmodified = copy ? S3_ERR_PRECONDITION_FAILED : S3_ERR_NOT_MODIFIED;
        int64_t mtime = mtime_ms - mtime_ms % 1000, date; /* HTTP dates have whole seconds */

        if (conditions->if_match.data != NULL) {
                if (!s3_etag_in_list(conditions->if_match, etag))
                        return S3_ERR_PRECONDITION_FAILED;
        } else if (cond_date_of(conditions->if_unmodified_since, now_ms, &date) && mtime > date) {
                return S3_ERR_PRECONDITION_FAILED;
        }
        if (conditions->if_none_match.data != NULL) {
                if (s3_etag_in_list(conditions->if_none_match, etag))
                        return unmodified;
        } else if (cond_date_of(conditions->if_modified_since, now_ms, &date) && mtime <= date) {
                return unmodified;
        }
        return S3_OK;
}

enum s3_error s3_put_condition_parse(struct s3_str if_match, struct s3_str if_none_match, enum s3_put_condition *out,
                                     struct s3_str *etag)
{
        *out = S3_PUT_ALWAYS;
        *etag = (struct s3_str){NULL, 0};
        if (if_match.data != NULL && if_none_match.data != NULL)
                return S3_ERR_NOT_IMPLEMENTED;
        if (if_none_match.data != NULL) {
                if (!s3_str_eq(s3_str_trim(if_none_match), S3_STR("*")))
                        return S3_ERR_NOT_IMPLEMENTED;
                *out = S3_PUT_IF_ABSENT;
        }
        if (if_match.data != NULL) {
                if_match = s3_str_trim(if_match);
                if (if_match.len >= 2 && if_match.data[0] == '"' && if_match.data[if_match.len - 1] == '"') {
                        if_match.data++;
                        if_match.len -= 2;
                }
                *out = S3_PUT_IF_MATCH;
                *etag = if_match;
        }
        return S3_OK;
}
