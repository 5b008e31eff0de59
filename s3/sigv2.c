/*
 * URLs presigned with signature version 2 (HMAC-SHA1 over method, a few headers, the path and the
 * sub-resources). boto3 and aws cli 1 make them by default for endpoints that are not AWS's; the
 * gateway takes them where a setting says so. They may live as long as those of version 4. The
 * signature covers only the parameters in the table below: every other one is refused, so that
 * nothing can be added to a URL that was handed out.
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

/* ---- parsing --------------------------------------------------------------------------------- */

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
        /*
         * What does not decode or fit names no key and matches no signature: the field stays empty.
         */
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

/* ---- the string to sign ---------------------------------------------------------------------- */

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

static bool sigv2_has_header(const struct s3_request *request, struct s3_str name)
{
        for (size_t i = 0; i < request->header_count; i++)
                if (s3_str_eq_nocase(request->headers[i].name, name))
                        return true;
        return false;
}

/*
 * botocore signs headers and moves them into the URL. Such a parameter is signed as the header it
 * was; where there is a header of that name too, the header counts and the parameter means nothing.
 */
static bool was_header(struct s3_str name)
{
        return s3_str_eq(name, S3_STR("content-type")) || s3_str_eq(name, S3_STR("content-md5")) ||
               (s3_str_starts(name, S3_STR("x-amz-")) && memchr(name.data, '%', name.len) == NULL &&
                memchr(name.data, '+', name.len) == NULL);
}

/* A bounded text; once it did not fit nothing more is added. */
struct text {
        char *out;
        size_t len;
        bool full;
};

static void sigv2_append(struct text *text, struct s3_str s)
{
        if (text->full || TEXT_MAX - text->len < s.len) {
                text->full = true;
                return;
        }
        if (s.len > 0)
                memcpy(text->out + text->len, s.data, s.len);
        text->len += s.len;
}

/* Adds what a parameter means. False: it does not decode. */
static bool add_decoded(struct text *text, struct s3_str raw, bool plus)
{
        int n = text->full ? 0 : s3_percent_decode(raw, plus, text->out + text->len, TEXT_MAX - text->len);

        if (n == -ENOBUFS)
                text->full = true;
        else if (n < 0)
                return false;
        else
                text->len += (size_t)n;
        return true;
}

/*
 * The same for one that was a header. False also where it could not have been: a line's end in it
 * would be another line.
 */
static bool add_moved(struct text *text, struct s3_str raw)
{
        size_t from = text->len;

        if (!add_decoded(text, raw, true))
                return false;
        for (; from < text->len; from++)
                if ((unsigned char)text->out[from] < ' ')
                        return false;
        return true;
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

/*
 * "?acl&versionId=decoded": false if there is a parameter that is not covered, or one that does not
 * decode.
 */
static bool add_params(struct text *text, struct s3_str query)
{
        struct s3_header params[S3_QUERY_PARAMS_MAX];
        size_t count = 0;

        while (query.len > 0) {
                struct s3_str value, piece = s3_str_cut(query, '&', &query), name = s3_str_cut(piece, '=', &value);

                if (piece.len == 0 || is_one_of(name, v2_names, V2_FIELDS) || was_header(name))
                        continue;
                if (count == S3_QUERY_PARAMS_MAX || !is_one_of(name, covered, sizeof(covered) / sizeof(covered[0])))
                        return false;
                params[count++] = (struct s3_header){name, value};
        }
        if (count > 1)
                qsort(params, count, sizeof(params[0]), compare_params);
        for (size_t i = 0; i < count; i++) {
                sigv2_append(text, i == 0 ? S3_STR("?") : S3_STR("&"));
                sigv2_append(text, params[i].name);
                if (params[i].value.data == NULL)
                        continue;
                sigv2_append(text, S3_STR("="));
                if (!add_decoded(text, params[i].value, false))
                        return false;
        }
        return true;
}

/* An x-amz- header, or a parameter that was one. */
struct amz {
        struct s3_str name, value;
        bool encoded;
};

static int sigv2_compare_names(const void *a, const void *b)
{
        const struct amz *x = a, *y = b;
        size_t n = x->name.len < y->name.len ? x->name.len : y->name.len;

        for (size_t i = 0; i < n; i++)
                if (s3_lower(x->name.data[i]) != s3_lower(y->name.data[i]))
                        return s3_lower(x->name.data[i]) - s3_lower(y->name.data[i]);
        if (x->name.len != y->name.len)
                return x->name.len < y->name.len ? -1 : 1;
        return x->value.data < y->value.data ? -1 : x->value.data > y->value.data; /* in the order received */
}

/* Number of them, or -1: too many. */
static int collect_amz(const struct s3_request *request, struct amz all[AMZ_HEADERS_MAX])
{
        struct s3_str query = request->query;
        int count = 0;

        for (size_t i = 0; i < request->header_count; i++) {
                if (!s3_str_starts_nocase(request->headers[i].name, S3_STR("x-amz-")))
                        continue;
                if (count == AMZ_HEADERS_MAX)
                        return -1;
                all[count++] = (struct amz){request->headers[i].name, s3_str_trim(request->headers[i].value), false};
        }
        while (query.len > 0) {
                struct s3_str value, name = s3_str_cut(s3_str_cut(query, '&', &query), '=', &value);

                if (!s3_str_starts(name, S3_STR("x-amz-")) || !was_header(name) || sigv2_has_header(request, name))
                        continue;
                if (count == AMZ_HEADERS_MAX)
                        return -1;
                all[count++] = (struct amz){name, value, true};
        }
        return count;
}

/* "x-amz-name:value,value\n" of all x-amz- headers, sorted. */
static enum s3_auth_reason add_amz_headers(struct text *text, const struct s3_request *request)
{
        struct amz all[AMZ_HEADERS_MAX];
        int count = collect_amz(request, all);

        if (count < 0)
                return S3_AUTH_TOO_LARGE;
        if (count > 1)
                qsort(all, (size_t)count, sizeof(all[0]), sigv2_compare_names);
        for (int i = 0; i < count; i++) {
                if (i > 0 && s3_str_eq_nocase(all[i].name, all[i - 1].name)) {
                        text->len--; /* continue the line before */
                        sigv2_append(text, S3_STR(","));
                } else {
                        for (size_t j = 0; j < all[i].name.len; j++) {
                                char c = s3_lower(all[i].name.data[j]);

                                sigv2_append(text, (struct s3_str){&c, 1});
                        }
                        sigv2_append(text, S3_STR(":"));
                }
                if (!all[i].encoded)
                        sigv2_append(text, all[i].value);
                else if (!add_moved(text, all[i].value))
                        return S3_AUTH_UNSUPPORTED_VERSION;
                sigv2_append(text, S3_STR("\n"));
        }
        return S3_AUTH_OK;
}

/* Value of the first parameter of that name as it stands in the URL. */
static struct s3_str raw_param(struct s3_str query, struct s3_str wanted)
{
        while (query.len > 0) {
                struct s3_str value, name = s3_str_cut(s3_str_cut(query, '&', &query), '=', &value);

                if (s3_str_eq(name, wanted))
                        return value;
        }
        return (struct s3_str){NULL, 0};
}

/* One of the two headers that have a line of their own. */
static bool sigv2_add_header(struct text *text, const struct s3_request *request, const char *name)
{
        bool fine = true;

        if (sigv2_has_header(request, s3_str_of(name)))
                sigv2_append(text, s3_str_trim(s3_request_header(request, name)));
        else
                fine = add_moved(text, raw_param(request->query, s3_str_of(name)));
        sigv2_append(text, S3_STR("\n"));
        return fine;
}

static enum s3_auth_reason write_text(struct text *text, const struct s3_request *request, struct s3_str bucket)
{
        enum s3_auth_reason reason;

        sigv2_append(text, request->method);
        sigv2_append(text, S3_STR("\n"));
        if (!sigv2_add_header(text, request, "content-md5") || !sigv2_add_header(text, request, "content-type"))
                return S3_AUTH_UNSUPPORTED_VERSION;
        sigv2_append(text,
                     raw_param(request->query, s3_str_of(v2_names[V2_EXPIRES]))); /* digits, which need no decoding */
        sigv2_append(text, S3_STR("\n"));
        reason = add_amz_headers(text, request);
        if (reason != S3_AUTH_OK)
                return reason;
        if (bucket.len > 0) {
                sigv2_append(text, S3_STR("/"));
                sigv2_append(text, bucket);
        }
        sigv2_append(text, request->path);
        if (!add_params(text, request->query))
                return S3_AUTH_UNSUPPORTED_VERSION;
        return text->full ? S3_AUTH_TOO_LARGE : S3_AUTH_OK;
}

/* ---- verifying ------------------------------------------------------------------------------- */

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
        if (reason == S3_AUTH_OK && auth->time_ms - now_ms > S3_EXPIRES_MAX * 1000ll)
                reason = S3_AUTH_V2_EXPIRES_MAX;
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
