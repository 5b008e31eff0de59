/*
 * Verifying a parsed signature: scope, dates, which headers had to be signed, and the signature
 * itself in constant time. Called by the gateway on its loops; keeps no state.
 */
#include "sigv4_internal.h"

static bool sigv4_header_is_signed(const struct s3_auth *auth, struct s3_str name)
{
        struct s3_str rest = s3_str_of(auth->signed_headers);

        while (rest.data != NULL)
                if (s3_str_eq_nocase(s3_str_cut(rest, ';', &rest), name))
                        return true;
        return false;
}

/*
 * An x-amz- header that a man in the middle added would change what is stored: all of them must be
 * signed, and host.
 */
static bool must_be_signed(struct s3_str name)
{
        return s3_str_starts_nocase(name, S3_STR("x-amz-")) || s3_str_eq_nocase(name, S3_STR("host"));
}

static bool all_needed_headers_signed(const struct s3_request *request, const struct s3_auth *auth)
{
        if (!sigv4_header_is_signed(auth, S3_STR("host")))
                return false;
        for (size_t i = 0; i < request->header_count; i++) {
                struct s3_str name = request->headers[i].name;

                if (must_be_signed(name) && !sigv4_header_is_signed(auth, name))
                        return false;
        }
        return true;
}

void s3_auth_unsigned(const struct s3_request *request, const struct s3_auth *auth, char *out, size_t cap)
{
        size_t used = 0;

        out[0] = '\0';
        for (size_t i = 0; i < request->header_count; i++) {
                struct s3_str name = request->headers[i].name;
                size_t comma = used > 0 ? 2 : 0;

                if (!must_be_signed(name) || sigv4_header_is_signed(auth, name))
                        continue;
                if (used + comma + name.len >= cap)
                        return;
                memcpy(out + used, ", ", comma);
                used += comma;
                for (size_t k = 0; k < name.len; k++)
                        out[used++] = (char)s3_lower(name.data[k]);
                out[used] = '\0';
        }
}

static enum s3_auth_reason check_query_time(const struct s3_auth *auth, int64_t now_ms)
{
        if (auth->time_ms > now_ms + S3_SKEW_MS)
                return S3_AUTH_Q_NOT_YET;
        if (now_ms >= auth->time_ms + (int64_t)auth->expires_s * 1000)
                return S3_AUTH_Q_EXPIRED;
        return S3_AUTH_OK;
}

enum s3_auth_reason s3_auth_check(const struct s3_request *request, const struct s3_auth *auth, const char *region,
                                  int64_t now_ms)
{
        bool query = auth->kind == S3_AUTH_QUERY;
        enum s3_auth_reason reason = S3_AUTH_OK;

        if (auth->kind == S3_AUTH_QUERY_V2)
                return S3_AUTH_UNSUPPORTED_VERSION;
        if (strcmp(auth->region, region) != 0)
                return query ? S3_AUTH_Q_WRONG_REGION : S3_AUTH_WRONG_REGION;
        if (memcmp(auth->scope_date, auth->amz_date, 8) != 0)
                return query ? S3_AUTH_Q_WRONG_SCOPE_DATE : S3_AUTH_WRONG_SCOPE_DATE;
        if (query)
                reason = check_query_time(auth, now_ms);
        else if (auth->time_ms > now_ms + S3_SKEW_MS || auth->time_ms < now_ms - S3_SKEW_MS)
                reason = S3_AUTH_SKEWED;
        if (reason != S3_AUTH_OK)
                return reason;
        if (!all_needed_headers_signed(request, auth))
                return S3_AUTH_UNSIGNED_HEADERS;
        return auth->has_token && !auth->takes_token ? S3_AUTH_TOKEN : S3_AUTH_OK;
}

enum s3_auth_reason s3_auth_verify(const struct s3_request *request, const struct s3_auth *auth,
                                   const struct s3_signing_key *key, const char *region, int64_t now_ms)
{
        char expected[S3_SIGNATURE_LEN + 1];
        enum s3_auth_reason reason;

        if (auth->kind == S3_AUTH_ANONYMOUS)
                return S3_AUTH_MISMATCH;
        reason = s3_auth_check(request, auth, region, now_ms);
        if (reason != S3_AUTH_OK)
                return reason;
        if (s3_auth_signature(request, auth, key, expected) != 0)
                return S3_AUTH_BAD_URI;
        /* A malformed signature was left empty: NUL bytes, which no hex text equals. */
        return s3_equal_secret(expected, auth->signature, S3_SIGNATURE_LEN) ? S3_AUTH_OK : S3_AUTH_MISMATCH;
}
