/*
 * fuzz_tags.c - any bytes as tags in a header, as tags that were stored, as a version id, and as
 * the headers of object lock. What is accepted keeps the rules, and can be written and read again.
 */
#include <assert.h>
#include <stdlib.h>

#include "s3.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool tags_equal(const struct s3_tags *a, const struct s3_tags *b)
{
        bool equal = a->count == b->count;

        for (unsigned i = 0; i < a->count && equal; i++)
                equal = s3_str_eq(a->tag[i].key, b->tag[i].key) && s3_str_eq(a->tag[i].value, b->tag[i].value);
        return equal;
}

static void check_header(struct s3_str text)
{
        uint8_t stored[S3_TAGS_SIZE(S3_OBJECT_TAGS_MAX)];
        struct s3_tags tags, again;
        const char *message = NULL;
        char *buf = malloc(text.len + 1);
        ssize_t len;

        if (buf == NULL)
                abort();
        if (s3_tags_header_parse(text, buf, text.len, &tags, &message) == S3_OK) {
                assert(tags.count <= S3_OBJECT_TAGS_MAX);
                len = s3_tags_encode(&tags, stored, sizeof(stored));
                assert(len > 0 && s3_tags_decode(stored, (size_t)len, &again) == 0 && tags_equal(&tags, &again));
        } else {
                assert(message != NULL);
        }
        free(buf);
}

static void check_stored(const uint8_t *data, size_t size)
{
        struct s3_tags tags;
        uint8_t *again = malloc(size + 1);

        if (again == NULL)
                abort();
        if (s3_tags_decode(data, size, &tags) == 0)
                assert(s3_tags_encode(&tags, again, size) == (ssize_t)size && memcmp(again, data, size) == 0);
        free(again);
}

static void check_version(struct s3_str text)
{
        char again[S3_VERSION_TEXT];
        struct s3_version version;
        const char *message = NULL;

        if (s3_version_parse(text, &version, &message) == S3_OK)
                assert(s3_str_eq((struct s3_str){again, s3_version_format(&version, again)}, text));
        else
                assert(message != NULL);
}

static void check_lock(struct s3_str text)
{
        struct s3_lock_headers headers;
        const char *message = NULL;
        bool on;

        if (s3_lock_headers_parse(S3_STR("COMPLIANCE"), text, S3_STR("ON"), &headers, &message) != S3_OK)
                assert(message != NULL);
        s3_lock_headers_parse(text, S3_STR("2030-01-01T00:00:00Z"), text, &headers, &message);
        s3_lock_flag_parse(text, &on);
        s3_tagging_directive_parse(text, &on, &message);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct s3_str text = {(const char *)data, size};

        check_header(text);
        check_stored(data, size);
        check_version(text);
        check_lock(text);
        return 0;
}
