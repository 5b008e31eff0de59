/*
 * The x-amz-copy-source header. Its value is URL-encoded, so "+" is a space as AWS reads it;
 * clients that mean a plus send %2B. Called by the gateway; pure.
 */
#include <errno.h>

#include "s3_internal.h"

/*
 * Takes "?versionId=..." off the end. Any other "?" belongs to the key: some clients do not encode
 * it.
 */
static bool cut_version(struct s3_str *value, struct s3_copy_source *out)
{
        struct s3_str mark = S3_STR("?versionId="), version;
        int n;

        for (size_t i = value->len; i-- > 0;) {
                if (value->data[i] != '?')
                        continue;
                if (!s3_str_starts((struct s3_str){value->data + i, value->len - i}, mark))
                        return true;
                version = (struct s3_str){value->data + i + mark.len, value->len - i - mark.len};
                n = s3_percent_decode(version, false, out->version, S3_VERSION_ID_MAX);
                if (n <= 0)
                        return false;
                out->version[n] = '\0';
                out->version_len = (size_t)n;
                out->has_version = true;
                value->len = i;
                return true;
        }
        return true;
}

static enum s3_error fill_address(struct s3_str decoded, struct s3_address *address)
{
        struct s3_str key, bucket = s3_str_cut(decoded, '/', &key);

        if (bucket.len == 0 || key.len == 0)
                return S3_ERR_INVALID_ARGUMENT;
        if (s3_str_starts(bucket, S3_STR("arn:")))
                return S3_ERR_INVALID_REQUEST;
        if (bucket.len > S3_BUCKET_ONCE_MAX)
                return S3_ERR_INVALID_BUCKET_NAME;
        if (key.len > S3_KEY_MAX)
                return S3_ERR_KEY_TOO_LONG;
        memcpy(address->bucket, bucket.data, bucket.len);
        address->bucket[bucket.len] = '\0';
        address->bucket_len = bucket.len;
        memcpy(address->key, key.data, key.len);
        address->key[key.len] = '\0';
        address->key_len = key.len;
        return S3_OK;
}

enum s3_error s3_copy_source_parse(struct s3_str value, struct s3_copy_source *out)
{
        char buf[S3_BUCKET_ONCE_MAX + S3_KEY_MAX + 512]; /* room for an ARN or a bucket name that is too long, to say so */
        struct s3_str decoded;
        int n;

        out->has_version = false;
        out->version_len = 0;
        out->version[0] = '\0';
        out->address = (struct s3_address){0};
        value = s3_str_trim(value);
        if (!cut_version(&value, out))
                return S3_ERR_INVALID_ARGUMENT;
        n = s3_percent_decode(value, true, buf, sizeof(buf));
        if (n == -ENOBUFS)
                return S3_ERR_KEY_TOO_LONG;
        if (n < 0)
                return S3_ERR_INVALID_ARGUMENT;
        decoded = (struct s3_str){buf, (size_t)n};
        if (!s3_utf8_valid(decoded))
                return S3_ERR_INVALID_ARGUMENT;
        if (decoded.len > 0 && decoded.data[0] == '/') {
                decoded.data++;
                decoded.len--;
        }
        return fill_address(decoded, &out->address);
}
