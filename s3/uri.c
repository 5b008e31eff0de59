/*
 * Request targets: from the raw bytes of the request line to path, query, bucket and key. The
 * gateway calls this first for every request, on the loop that received it. Nothing is normalised:
 * S3 keys may hold "//", ".." and any UTF-8.
 */
#include <errno.h>

#include "s3_internal.h"

/* ---- targets --------------------------------------------------------------------------------- */

static bool target_bytes_allowed(struct s3_str raw)
{
        for (size_t i = 0; i < raw.len; i++) {
                unsigned char c = (unsigned char)raw.data[i];

                if (s3_is(raw.data[i], S3_CLASS_UNRESERVED))
                        continue;
                if (c <= ' ' || c == 0x7f || c == '#')
                        return false;
        }
        return true;
}

/* Takes "http://authority" off an absolute-form target. */
static bool cut_authority(struct s3_str raw, struct s3_str *host, struct s3_str *rest)
{
        size_t skip, end;

        if (s3_str_starts_nocase(raw, S3_STR("http://")))
                skip = 7;
        else if (s3_str_starts_nocase(raw, S3_STR("https://")))
                skip = 8;
        else
                return false;
        for (end = skip; end < raw.len && raw.data[end] != '/' && raw.data[end] != '?'; end++)
                continue;
        *host = (struct s3_str){raw.data + skip, end - skip};
        *rest = (struct s3_str){raw.data + end, raw.len - end};
        return host->len > 0;
}

enum s3_error s3_target_split(struct s3_str raw, struct s3_target *out)
{
        struct s3_str rest = raw;

        *out = (struct s3_target){0};
        if (raw.len > S3_TARGET_MAX)
                return S3_ERR_URI_TOO_LONG;
        if (raw.len == 0 || !target_bytes_allowed(raw))
                return S3_ERR_INVALID_URI;
        if (raw.data[0] != '/') {
                if (s3_str_eq(raw, S3_STR("*"))) {
                        out->path = raw;
                        return S3_OK;
                }
                if (!cut_authority(raw, &out->host, &rest))
                        return S3_ERR_INVALID_URI;
        }
        out->path = s3_str_cut(rest, '?', &out->query);
        if (out->path.len == 0)
                out->path = S3_STR("/");
        return S3_OK;
}

/* ---- addresses ------------------------------------------------------------------------------- */

/*
 * Length of the bucket's part of "bucket.domain" for the longest domain that fits, or 0:
 * path-style.
 */
static size_t virtual_bucket_len(struct s3_str name, const struct s3_str *domains, size_t domain_count)
{
        size_t best = 0, bucket_len = 0;

        for (size_t i = 0; i < domain_count; i++) {
                struct s3_str d = domains[i];

                if (d.len == 0 || d.len <= best || name.len < d.len)
                        continue;
                if (!s3_str_eq_nocase((struct s3_str){name.data + name.len - d.len, d.len}, d))
                        continue;
                if (name.len == d.len) {
                        best = d.len;
                        bucket_len = 0;
                } else if (name.data[name.len - d.len - 1] == '.') {
                        best = d.len;
                        bucket_len = name.len - d.len - 1;
                }
        }
        return bucket_len;
}

static enum s3_error decode_bucket(struct s3_str raw, struct s3_address *out)
{
        int n = s3_percent_decode(raw, false, out->bucket, S3_BUCKET_ONCE_MAX);

        if (n == -ENOBUFS)
                return S3_ERR_INVALID_BUCKET_NAME;
        if (n < 0 || !s3_utf8_valid((struct s3_str){out->bucket, (size_t)n}))
                return S3_ERR_INVALID_URI;
        out->bucket[n] = '\0';
        out->bucket_len = (size_t)n;
        return S3_OK;
}

static enum s3_error decode_key(struct s3_str raw, struct s3_address *out)
{
        int n = s3_percent_decode(raw, false, out->key, S3_KEY_MAX);

        if (n == -ENOBUFS)
                return S3_ERR_KEY_TOO_LONG;
        if (n < 0 || !s3_utf8_valid((struct s3_str){out->key, (size_t)n}))
                return S3_ERR_INVALID_URI;
        out->key[n] = '\0';
        out->key_len = (size_t)n;
        return S3_OK;
}

static enum s3_error address_virtual(struct s3_str bucket, struct s3_str key, struct s3_address *out)
{
        if (bucket.len > S3_BUCKET_ONCE_MAX)
                return S3_ERR_INVALID_BUCKET_NAME;
        for (size_t i = 0; i < bucket.len; i++)
                out->bucket[i] = s3_lower(bucket.data[i]);
        out->bucket[bucket.len] = '\0';
        out->bucket_len = bucket.len;
        out->virtual_host = true;
        return decode_key(key, out);
}

enum s3_error s3_address_parse(struct s3_str path, struct s3_str host, const struct s3_str *domains,
                               size_t domain_count, struct s3_address *out)
{
        struct s3_str rest, bucket, key;
        size_t bucket_len;
        enum s3_error error;

        out->bucket_len = out->key_len = 0;
        out->virtual_host = false;
        out->bucket[0] = out->key[0] = '\0';
        if (path.len == 0 || path.data[0] != '/')
                return S3_ERR_INVALID_URI;
        rest = (struct s3_str){path.data + 1, path.len - 1};
        bucket_len = virtual_bucket_len(host, domains, domain_count);
        if (bucket_len > 0)
                return address_virtual((struct s3_str){host.data, bucket_len}, rest, out);
        bucket = s3_str_cut(rest, '/', &key);
        if (bucket.len == 0)
                return key.data == NULL ? S3_OK : S3_ERR_INVALID_BUCKET_NAME;
        error = decode_bucket(bucket, out);
        if (error != S3_OK)
                return error;
        return decode_key(key, out);
}
