/*
 * fuzz_uri.c - any request target, Host header, copy source, range, date and ETag list. The input
 * is cut at its first two line ends: target, host, and a value that goes through every parser of
 * values. What comes out keeps its bounds, and what encodes decodes to the same.
 */
#include <assert.h>
#include <stdlib.h>

#include "s3.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct s3_str domains[] = {{"s3.example.com", 14}, {"localhost", 9}};

static struct s3_str take_line(struct s3_str *rest)
{
        const char *end = rest->len > 0 ? memchr(rest->data, '\n', rest->len) : NULL;
        struct s3_str line = {rest->data, end != NULL ? (size_t)(end - rest->data) : rest->len};
        size_t used = line.len + (end != NULL);

        rest->data += used;
        rest->len -= used;
        return line;
}

/* The key, encoded as a client would, names the same key. */
static void check_address(const struct s3_address *address, struct s3_str host)
{
        char path[3 * S3_KEY_MAX + 1] = "/";
        struct s3_address again;
        int n;

        assert(address->bucket_len <= S3_BUCKET_ONCE_MAX && address->key_len <= S3_KEY_MAX);
        assert(s3_utf8_valid(s3_address_key(address)));
        if (!address->virtual_host || address->key_len == 0)
                return;
        n = s3_percent_encode(s3_address_key(address), S3_ENCODE_PATH, path + 1, sizeof(path) - 1);
        assert(n >= 0);
        assert(s3_address_parse((struct s3_str){path, (size_t)n + 1}, host, domains, 2, &again) == S3_OK);
        assert(s3_str_eq(s3_address_key(&again), s3_address_key(address)));
}

static void check_target(struct s3_str raw, struct s3_str host)
{
        static char buf[S3_TARGET_MAX];
        static struct s3_query query;
        struct s3_target target;
        struct s3_address address;
        struct s3_header header = {S3_STR("Host"), host};
        struct s3_authority authority, again;
        const char *message = NULL;

        if (s3_target_split(raw, &target) != S3_OK)
                return;
        if (s3_authority_of_request(&target, &header, 1, false, &authority, &message) != S3_OK)
                authority.host = (struct s3_str){NULL, 0};
        else
                assert(s3_authority_parse(s3_str_trim(host), &again) && s3_authority_equal(&authority, &again));
        if (s3_address_parse(target.path, authority.host, domains, 2, &address) == S3_OK)
                check_address(&address, authority.host);
        if (s3_query_parse(target.query, buf, target.query.len, &query) == S3_OK)
                for (unsigned i = 0; i < query.count; i++)
                        assert(s3_utf8_valid(query.param[i].name) && s3_utf8_valid(query.param[i].value));
}

static void check_range(struct s3_str value)
{
        struct s3_range range = s3_range_parse(value);
        uint64_t offset, len, size = 1000;

        if (s3_range_resolve(&range, size, &offset, &len) == S3_OK)
                assert(offset <= size && len <= size - offset && (len > 0 || range.form == S3_RANGE_NONE));
        if (s3_copy_range_parse(value, &range) == S3_OK && s3_copy_range_resolve(&range, size, &offset, &len) == S3_OK)
                assert(len > 0 && offset < size && len <= size - offset);
}

static void check_dates(struct s3_str value)
{
        char text[S3_DATE_HTTP_SIZE];
        int64_t ms, again;

        if (s3_date_parse_http(value, &ms) == 0 && ms >= 0) {
                s3_date_format_http(ms, text);
                assert(s3_date_parse_http(s3_str_of(text), &again) == 0 && again == ms);
        }
        if (s3_date_parse_iso(value, &ms) == 0 || s3_date_parse_amz(value, &ms) == 0)
                s3_date_format_http(ms, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static struct s3_copy_source source;
        struct s3_str rest = {(const char *)data, size};
        struct s3_str target = take_line(&rest), host = take_line(&rest);
        uint8_t value[S3_CHECKSUM_MAX];
        unsigned parts;

        check_target(target, host);
        if (s3_copy_source_parse(rest, &source) == S3_OK)
                assert(source.address.bucket_len > 0 && source.address.key_len > 0);
        check_range(rest);
        check_dates(rest);
        s3_etag_in_list(rest, S3_STR("\"a\""));
        s3_etag_parse(rest, value, &parts);
        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++)
                s3_checksum_parse_composite((enum s3_checksum)kind, rest, value, &parts);
        s3_bucket_name_valid(rest);
        return 0;
}
