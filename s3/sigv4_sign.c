/*
 * Signing requests and URLs: the client library, the command line and the benchmarks call this.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "sigv4_internal.h"

#define SIGNED_HEADERS_MAX 64u

void s3_signer_init(struct s3_signer *signer, struct s3_str access_key, struct s3_str secret, const char *region,
                    int64_t time_ms)
{
        char date[S3_DATE_AMZ_SIZE];

        s3_date_format_amz(time_ms, date);
        date[8] = '\0';
        signer->access_key = access_key;
        signer->region = region;
        signer->service = "s3";
        s3_signing_key_derive(secret, date, region, signer->service, &signer->key);
}

static int sigv4_sign_compare_names(const void *a, const void *b)
{
        const struct s3_str *x = a, *y = b;
        size_t n = x->len < y->len ? x->len : y->len;

        for (size_t i = 0; i < n; i++)
                if (s3_lower(x->data[i]) != s3_lower(y->data[i]))
                        return (unsigned char)s3_lower(x->data[i]) - (unsigned char)s3_lower(y->data[i]);
        return x->len == y->len ? 0 : x->len < y->len ? -1 : 1;
}

/* All header names of the request, lower case, sorted, each once, joined by ";". */
static int list_headers(const struct s3_request *request, struct s3_auth *auth)
{
        struct s3_str names[SIGNED_HEADERS_MAX];
        size_t used = 0;

        if (request->header_count == 0 || request->header_count > SIGNED_HEADERS_MAX)
                return -EINVAL;
        for (size_t i = 0; i < request->header_count; i++)
                names[i] = request->headers[i].name;
        qsort(names, request->header_count, sizeof(names[0]), sigv4_sign_compare_names);
        for (size_t i = 0; i < request->header_count; i++) {
                if (i > 0 && s3_str_eq_nocase(names[i], names[i - 1]))
                        continue;
                if (used + names[i].len + 2 > sizeof(auth->signed_headers))
                        return -EINVAL;
                if (used > 0)
                        auth->signed_headers[used++] = ';';
                for (size_t j = 0; j < names[i].len; j++)
                        auth->signed_headers[used++] = s3_lower(names[i].data[j]);
        }
        auth->signed_headers[used] = '\0';
        return 0;
}

/* Fills what a server would read from the request. */
static int sigv4_sign_describe(const struct s3_request *request, const struct s3_signer *signer, int64_t time_ms,
                               struct s3_auth *auth)
{
        size_t region_len = strlen(signer->region), service_len = strlen(signer->service);

        *auth = (struct s3_auth){.payload = S3_PAYLOAD_UNSIGNED, .time_ms = time_ms};
        if (region_len >= sizeof(auth->region) || service_len >= sizeof(auth->service) ||
            s3_request_header(request, "host").data == NULL)
                return -EINVAL;
        s3_date_format_amz(time_ms, auth->amz_date);
        memcpy(auth->scope_date, auth->amz_date, 8);
        memcpy(auth->region, signer->region, region_len);
        memcpy(auth->service, signer->service, service_len);
        return list_headers(request, auth);
}

int s3_sign_headers(const struct s3_request *request, const struct s3_signer *signer, char *out, size_t cap,
                    char signature[S3_SIGNATURE_LEN + 1])
{
        char scope[S3_SCOPE_SIZE], hex[S3_SIGNATURE_LEN + 1];
        struct s3_auth auth;
        int64_t time_ms;
        int n, rv;

        if (s3_date_parse_amz(s3_str_trim(s3_request_header(request, "x-amz-date")), &time_ms) != 0 ||
            s3_request_header(request, "x-amz-content-sha256").data == NULL)
                return -EINVAL;
        rv = sigv4_sign_describe(request, signer, time_ms, &auth);
        if (rv != 0)
                return rv;
        auth.kind = S3_AUTH_HEADER;
        rv = s3_auth_signature(request, &auth, &signer->key, hex);
        if (rv != 0)
                return rv;
        s3_scope_format(&auth, scope);
        n = snprintf(out, cap, "AWS4-HMAC-SHA256 Credential=%.*s/%s, SignedHeaders=%s, Signature=%s",
                     (int)signer->access_key.len, signer->access_key.data, scope, auth.signed_headers, hex);
        if (n < 0 || (size_t)n >= cap)
                return -ENOBUFS;
        if (signature != NULL)
                memcpy(signature, hex, sizeof(hex));
        return n;
}

/* ---- presigned URLs -------------------------------------------------------------------------- */

/*
 * Text being written into a buffer of the caller's; once it did not fit, nothing more is written.
 */
struct target_text {
        char *out;
        size_t cap, len;
        bool full;
};

static void sigv4_sign_append(struct target_text *text, struct s3_str s)
{
        if (text->full || text->cap - text->len <= s.len) {
                text->full = true;
                return;
        }
        if (s.len > 0)
                memcpy(text->out + text->len, s.data, s.len);
        text->len += s.len;
}

static void add_param(struct target_text *text, const char *name, struct s3_str value)
{
        int n;

        sigv4_sign_append(text, s3_str_of(name));
        sigv4_sign_append(text, S3_STR("="));
        if (text->full)
                return;
        n = s3_percent_encode(value, S3_ENCODE_QUERY, text->out + text->len, text->cap - text->len - 1);
        if (n < 0)
                text->full = true;
        else
                text->len += (size_t)n;
}

static void add_auth_params(struct target_text *text, const struct s3_signer *signer, const struct s3_auth *auth,
                            struct s3_str token)
{
        char scope[S3_SCOPE_SIZE], credential[S3_ACCESS_KEY_MAX + 1 + S3_SCOPE_SIZE], expires[16];

        s3_scope_format(auth, scope);
        snprintf(credential, sizeof(credential), "%.*s/%s", (int)signer->access_key.len, signer->access_key.data,
                 scope);
        snprintf(expires, sizeof(expires), "%u", (unsigned)auth->expires_s);
        sigv4_sign_append(text, S3_STR("X-Amz-Algorithm=AWS4-HMAC-SHA256"));
        add_param(text, "&X-Amz-Credential", s3_str_of(credential));
        add_param(text, "&X-Amz-Date", s3_str_of(auth->amz_date));
        add_param(text, "&X-Amz-Expires", s3_str_of(expires));
        if (token.data != NULL)
                add_param(text, "&X-Amz-Security-Token", token);
        add_param(text, "&X-Amz-SignedHeaders", s3_str_of(auth->signed_headers));
}

int s3_presign(const struct s3_request *request, const struct s3_signer *signer, int64_t time_ms, uint32_t expires_s,
               struct s3_str token, char *out, size_t cap)
{
        struct target_text text = {.out = out, .cap = cap};
        struct s3_request signed_request = *request;
        char hex[S3_SIGNATURE_LEN + 1];
        struct s3_auth auth;
        int rv;

        if (cap == 0 || expires_s == 0 || expires_s > S3_EXPIRES_MAX || signer->access_key.len > S3_ACCESS_KEY_MAX)
                return -EINVAL;
        rv = sigv4_sign_describe(request, signer, time_ms, &auth);
        if (rv != 0)
                return rv;
        auth.kind = S3_AUTH_QUERY;
        auth.expires_s = expires_s;
        sigv4_sign_append(&text, request->path);
        sigv4_sign_append(&text, S3_STR("?"));
        sigv4_sign_append(&text, request->query);
        if (request->query.len > 0)
                sigv4_sign_append(&text, S3_STR("&"));
        add_auth_params(&text, signer, &auth, token);
        if (text.full)
                return -ENOBUFS;
        signed_request.query = (struct s3_str){out + request->path.len + 1, text.len - request->path.len - 1};
        rv = s3_auth_signature(&signed_request, &auth, &signer->key, hex);
        if (rv != 0)
                return rv;
        add_param(&text, "&X-Amz-Signature", s3_str_of(hex));
        if (text.full)
                return -ENOBUFS;
        out[text.len] = '\0';
        return (int)text.len;
}
