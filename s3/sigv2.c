/*
 * URLs presigned with signature version 2 (HMAC-SHA1 over method, a few headers, the path and the sub-resources). boto3 and
 * aws cli 1 make them by default for endpoints that are not AWS's, so a server that wants `aws s3 presign` to work
 * takes them; the gateway decides. The signature covers only the parameters in the table below: every other one is refused,
 * so that nothing can be added to a URL that was handed out.
 */
#include "sigv4_internal.h" /* first: it includes OpenSSL its own way */

#include <errno.h>
#include <stdlib.h>

#include <openssl/evp.h>
#include <openssl/hmac.h>

#define SHA1_LEN        20u
#define SIGNATURE_TEXT  S3_BASE64_SIZE(SHA1_LEN)
#define AMZ_HEADERS_MAX 64u
#define TEXT_MAX        (S3_TARGET_MAX + (32u << 10)) /* a string to sign: target and headers fit */

/* ---- parsing ------------------------------------------------------------------------------------- */

enum v2_field { V2_KEY_ID, V2_SIGNATURE, V2_EXPIRES, V2_FIELDS };

static const char *const v2_names[V2_FIELDS] = {"AWSAccessKeyId", "Signature", "Expires"};

static bool decode_text(struct s3_str raw, char *out, size_t cap)
{
        int n = s3_percent_decode(raw, true, out, cap - 1);

        if (n < 0 || memchr(out, '\0', (size_t)n) != NULL)
                return false;
        out[n] = '\0';
        return true;
}

static enum s3_auth_reason parse_fields(const struct s3_str raw[V2_FIELDS], struct s3_auth *out)
{
        char expires[32];
        uint64_t seconds;

        for (unsigned i = 0; i < V2_FIELDS; i++)
                if (raw[i].len == 0)
                        return S3_AUTH_V2_MISSING;
        /* What does not decode or fit names no key and matches no signature: the field stays empty. */
        if (!decode_text(raw[V2_KEY_ID], out->access_key, sizeof(out->access_key)))
                out->access_key[0] = '\0';
        if (!decode_text(raw[V2_SIGNATURE], out->signature, sizeof(out->signature)))
                out->signature[0] = '\0';
        if (!decode_text(raw[V2_EXPIRES], expires, sizeof(expires)) ||
            s3_parse_uint(s3_str_of(expires), INT64_MAX / 1000, &seconds) != 0)
                return S3_AUTH_V2_EXPIRES;
        out->time_ms = (int64_t)seconds * 1000;
        return S3_AUTH_OK;
}

bool s3_auth_parse_v2(struct s3_str query, struct s3_auth *out, enum s3_auth_reason *reason)
{
        struct s3_str raw[V2_FIELDS] = {{NULL, 0}};
        bool duplicate = false;

        while (query.len > 0) {
                struct s3_str value, name = s3_str_cut(s3_str_cut(query, '&', &query), '=', &value);

                for (unsigned i = 0; i < V2_FIELDS; i++) {
                        if (!s3_str_eq(name, s3_str_of(v2_names[i])))
                                continue;
                        duplicate = duplicate || raw[i].data != NULL;
                        raw[i] = value.data != NULL ? value : S3_STR("");
                }
        }
        if (raw[V2_KEY_ID].data == NULL)
                return false;
        out->kind = S3_AUTH_QUERY_V2;
        *reason = duplicate ? S3_AUTH_V2_MISSING : parse_fields(raw, out);
        return true;
}

/* ---- the string to sign -------------------------------------------------------------------------- */

/* Parameters the signature covers. */
static const char *const covered[] = {
        "accelerate",
        "acl",
        "analytics",
        "cors",
        "defaultObjectAcl",
        "delete",
        "inventory",
        "lifecycle",
        "location",
        "logging",
        "metrics",
        "notification",
        "object-lock",
        "partNumber",
        "policy",
        "replication",
        "requestPayment",
        "response-cache-control",
        "response-content-disposition",
        "response-content-encoding",
        "response-content-language",
        "response-content-type",
        "response-expires",
        "restore",
        "select",
        "select-type",
        "storageClass",
        "tagging",
        "torrent",
        "uploadId",
        "uploads",
        "versionId",
        "versioning",
        "versions",
        "website",
};

static bool is_one_of(struct s3_str name, const char *const *names, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (s3_str_eq(name, s3_str_of(names[i])))
                        return true;
        return false;
}

/* A bounded text; once it did not fit nothing more is added. */
struct text {
        char *out;
        size_t len;
        bool full;
};

static void add(struct text *text, struct s3_str s)
{
        if (text->full || TEXT_MAX - text->len < s.len) {
                text->full = true;
                return;
        }
        if (s.len > 0)
                memcpy(text->out + text->len, s.data, s.len);
        text->len += s.len;
}

static int compare_str(struct s3_str a, struct s3_str b)
{
        size_t n = a.len < b.len ? a.len : b.len;
        int order = n > 0 ? memcmp(a.data, b.data, n) : 0;

        return order != 0 ? order : a.len < b.len ? -1 : a.len > b.len;
}

static int compare_params(const void *a, const void *b)
{
        const struct s3_header *x = a, *y = b;

        return compare_str(x->name, y->name);
}

/* "?acl&versionId=decoded": false if there is a parameter that is not covered, or one that does not decode. */
static bool add_params(struct text *text, struct s3_str query)
{
        struct s3_header params[S3_QUERY_PARAMS_MAX];
        size_t count = 0;

        while (query.len > 0) {
                struct s3_str value, piece = s3_str_cut(query, '&', &query), name = s3_str_cut(piece, '=', &value);

                if (piece.len == 0 || is_one_of(name, v2_names, V2_FIELDS))
                        continue;
                if (count == S3_QUERY_PARAMS_MAX || !is_one_of(name, covered, sizeof(covered) / sizeof(covered[0])))
                        return false;
                params[count++] = (struct s3_header){name, value};
        }
        if (count > 1)
                qsort(params, count, sizeof(params[0]), compare_params);
        for (size_t i = 0; i < count && !text->full; i++) {
                int n;

                add(text, i == 0 ? S3_STR("?") : S3_STR("&"));
                add(text, params[i].name);
                if (params[i].value.data == NULL)
                        continue;
                add(text, S3_STR("="));
                n = s3_percent_decode(params[i].value, false, text->out + text->len, TEXT_MAX - text->len);
                if (n < 0)
                        return false;
                text->len += (size_t)n;
        }
        return true;
}

static int compare_names(const void *a, const void *b)
{
        const struct s3_header *const *x = a, *const *y = b;
        size_t n = (*x)->name.len < (*y)->name.len ? (*x)->name.len : (*y)->name.len;

        for (size_t i = 0; i < n; i++)
                if (s3_lower((*x)->name.data[i]) != s3_lower((*y)->name.data[i]))
                        return s3_lower((*x)->name.data[i]) - s3_lower((*y)->name.data[i]);
        if ((*x)->name.len != (*y)->name.len)
                return (*x)->name.len < (*y)->name.len ? -1 : 1;
        return *x < *y ? -1 : *x > *y; /* fields of one name in the order received */
}

/* "x-amz-name:value,value\n" of all x-amz- headers, sorted. False: too many. */
static bool add_amz_headers(struct text *text, const struct s3_request *request)
{
        const struct s3_header *sorted[AMZ_HEADERS_MAX];
        size_t count = 0;

        for (size_t i = 0; i < request->header_count; i++) {
                if (!s3_str_starts_nocase(request->headers[i].name, S3_STR("x-amz-")))
                        continue;
                if (count == AMZ_HEADERS_MAX)
                        return false;
                sorted[count++] = &request->headers[i];
        }
        if (count > 1)
                qsort(sorted, count, sizeof(sorted[0]), compare_names);
        for (size_t i = 0; i < count; i++) {
                if (i > 0 && s3_str_eq_nocase(sorted[i]->name, sorted[i - 1]->name)) {
                        text->len--; /* continue the line before */
                        add(text, S3_STR(","));
                } else {
                        for (size_t j = 0; j < sorted[i]->name.len; j++) {
                                char c = s3_lower(sorted[i]->name.data[j]);

                                add(text, (struct s3_str){&c, 1});
                        }
                        add(text, S3_STR(":"));
                }
                add(text, s3_str_trim(sorted[i]->value));
                add(text, S3_STR("\n"));
        }
        return true;
}

/* Value of Expires as it stands in the URL: digits, which need no decoding. */
static struct s3_str raw_expires(struct s3_str query)
{
        while (query.len > 0) {
                struct s3_str value, name = s3_str_cut(s3_str_cut(query, '&', &query), '=', &value);

                if (s3_str_eq(name, s3_str_of(v2_names[V2_EXPIRES])))
                        return value;
        }
        return (struct s3_str){NULL, 0};
}

static enum s3_auth_reason write_text(struct text *text, const struct s3_request *request, struct s3_str bucket)
{
        add(text, request->method);
        add(text, S3_STR("\n"));
        add(text, s3_str_trim(s3_request_header(request, "content-md5")));
        add(text, S3_STR("\n"));
        add(text, s3_str_trim(s3_request_header(request, "content-type")));
        add(text, S3_STR("\n"));
        add(text, raw_expires(request->query));
        add(text, S3_STR("\n"));
        if (!add_amz_headers(text, request))
                return S3_AUTH_TOO_LARGE;
        if (bucket.len > 0) {
                add(text, S3_STR("/"));
                add(text, bucket);
        }
        add(text, request->path);
        if (!add_params(text, request->query))
                return S3_AUTH_UNSUPPORTED_VERSION;
        return text->full ? S3_AUTH_TOO_LARGE : S3_AUTH_OK;
}

/* ---- verifying ----------------------------------------------------------------------------------- */

enum s3_auth_reason s3_auth_verify_v2(const struct s3_request *request, const struct s3_auth *auth,
                                      struct s3_str secret, struct s3_str bucket, int64_t now_ms)
{
        struct text text = {.out = malloc(TEXT_MAX)};
        uint8_t mac[EVP_MAX_MD_SIZE];
        char expected[SIGNATURE_TEXT] = "";
        unsigned mac_len = 0;
        enum s3_auth_reason reason;

        if (text.out == NULL)
                return S3_AUTH_TOO_LARGE;
        reason = auth->kind == S3_AUTH_QUERY_V2 ? write_text(&text, request, bucket) : S3_AUTH_UNSUPPORTED_VERSION;
        if (reason == S3_AUTH_OK && now_ms >= auth->time_ms)
                reason = S3_AUTH_Q_EXPIRED;
        if (reason == S3_AUTH_OK && HMAC(EVP_sha1(), secret.data, (int)secret.len, (const unsigned char *)text.out,
                                         text.len, mac, &mac_len) != NULL)
                s3_base64_encode(mac, mac_len, expected);
        free(text.out);
        if (reason != S3_AUTH_OK)
                return reason;
        if (expected[0] == '\0' || strlen(auth->signature) != sizeof(expected) - 1 ||
            !s3_equal_secret(expected, auth->signature, sizeof(expected) - 1))
                return S3_AUTH_MISMATCH;
        return S3_AUTH_OK;
}
