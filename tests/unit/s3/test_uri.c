/*
 * test_uri.c - s3/uri.c, s3/query.c, s3/percent.c: from the raw request target to bucket, key and
 * parameters.
 */
#include "tests/unit/s3/s3_fixture.h"

static const struct s3_str domains[] = {{"s3.example.com", 14}, {"example.com", 11}, {"localhost", 9}};

/* ---- targets --------------------------------------------------------------------------------- */

static void expect_target(const char *raw, const char *host, const char *path, const char *query)
{
        struct s3_str copy = heap_copy(raw, strlen(raw));
        struct s3_target target;

        assert_int_equal(s3_target_split(copy, &target), S3_OK);
        expect_str(target.host, host != NULL ? host : "");
        expect_str(target.path, path);
        assert_int_equal(target.query.data != NULL, query != NULL);
        expect_str(target.query, query != NULL ? query : "");
        heap_free(copy);
}

static void test_targets(void **state)
{
        expect_target("/", NULL, "/", NULL);
        expect_target("/b/k?acl", NULL, "/b/k", "acl");
        expect_target("/b/k?", NULL, "/b/k", "");
        expect_target("/b/k?a=b?c", NULL, "/b/k", "a=b?c");
        expect_target("//double//slash", NULL, "//double//slash", NULL);
        expect_target("/b/../%2e%2E/k+%zz", NULL, "/b/../%2e%2E/k+%zz", NULL);
        expect_target("http://host:9000/b/k?x=1", "host:9000", "/b/k", "x=1");
        expect_target("HTTPS://Host/b", "Host", "/b", NULL);
        expect_target("http://host", "host", "/", NULL);
        expect_target("http://host?list-type=2", "host", "/", "list-type=2");
        expect_target("*", NULL, "*", NULL);
        expect_target("/b/\xc3\xa9", NULL, "/b/\xc3\xa9", NULL);
}

static void test_bad_targets(void **state)
{
        static const char *const bad[] = {"",       "b/k",   "ftp://h/b", "http:///b", "http://",   "/a b", "/a\tb",
                                          "/a\x7f", "/a\nb", "/a#f",      "**",        "http:/h/b", "?a=b"};
        struct s3_target target;
        char *longest = malloc(S3_TARGET_MAX + 1);

        for (size_t i = 0; i < COUNT(bad); i++)
                if (s3_target_split(s3_str_of(bad[i]), &target) != S3_ERR_INVALID_URI)
                        fail_msg("taken: %s", bad[i]);
        assert_int_equal(s3_target_split((struct s3_str){"/a\0b", 4}, &target), S3_ERR_INVALID_URI);
        assert_non_null(longest);
        memset(longest, '/', S3_TARGET_MAX + 1);
        assert_int_equal(s3_target_split((struct s3_str){longest, S3_TARGET_MAX}, &target), S3_OK);
        assert_int_equal(s3_target_split((struct s3_str){longest, S3_TARGET_MAX + 1}, &target), S3_ERR_URI_TOO_LONG);
        free(longest);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static struct s3_address address;

static enum s3_error parse_at(const char *path, const char *host)
{
        struct s3_str copy = heap_copy(path, strlen(path));
        struct s3_authority authority = {0};
        enum s3_error error;

        assert_true(host == NULL || s3_authority_parse(s3_str_of(host), &authority));
        error = s3_address_parse(copy, authority.host, domains, COUNT(domains), &address);
        heap_free(copy);
        return error;
}

static void expect_address(const char *path, const char *host, const char *bucket, const char *key)
{
        enum s3_error error = parse_at(path, host);

        if (error != S3_OK)
                fail_msg("%s at %s: %s", path, host, s3_error_info(error)->code);
        expect_str(s3_address_bucket(&address), bucket);
        expect_str(s3_address_key(&address), key);
        assert_string_equal(address.bucket, bucket);
        assert_string_equal(address.key, key);
}

static void test_path_style(void **state)
{
        expect_address("/", "10.0.0.1:9000", "", "");
        expect_address("/bucket", "10.0.0.1:9000", "bucket", "");
        expect_address("/bucket/", "h", "bucket", "");
        expect_address("/bucket/key", NULL, "bucket", "key");
        expect_address("/bucket//key", "h", "bucket", "/key");
        expect_address("/bucket///", "h", "bucket", "//");
        expect_address("/bucket/a//b", "h", "bucket", "a//b");
        expect_address("/bucket/../..", "h", "bucket", "../..");
        expect_address("/bucket/./a", "h", "bucket", "./a");
        expect_address("/bucket/a+b", "h", "bucket", "a+b");
        expect_address("/bucket/a%2Bb%20c", "h", "bucket", "a+b c");
        expect_address("/bucket/%2Fabs", "h", "bucket", "/abs");
        expect_address("/bucket/100%25", "h", "bucket", "100%");
        expect_address("/bucket/%e2%82%AC", "h", "bucket", "\xe2\x82\xac");
        expect_address("/bucket/\xe2\x82\xac", "h", "bucket", "\xe2\x82\xac");
        expect_address("/buc%6Bet/%25zz", "h", "bucket", "%zz");
        expect_address("/bucket/a;b:c@d&e=f$g,h!i'j(k)*~", "h", "bucket", "a;b:c@d&e=f$g,h!i'j(k)*~");
        assert_false(address.virtual_host);
        assert_int_equal(parse_at("/bucket/a%00b", "h"), S3_OK);
        assert_int_equal(address.key_len, 3);
        assert_memory_equal(address.key, "a\0b", 4);
}

static void test_virtual_host(void **state)
{
        expect_address("/key", "bucket.s3.example.com", "bucket", "key");
        assert_true(address.virtual_host);
        expect_address("/key", "bucket.s3.example.com:9000", "bucket", "key");
        expect_address("/", "bucket.s3.example.com", "bucket", "");
        expect_address("//key", "bucket.example.com", "bucket", "/key");
        expect_address("/a/b", "my.dotted.bucket.s3.example.com", "my.dotted.bucket", "a/b");
        expect_address("/a/b", "BUCKET.S3.Example.COM:443", "bucket", "a/b");
        expect_address("/a", "bucket.localhost.", "bucket", "a");
        expect_address("/a", "bucket.localhost.:80", "bucket", "a");
        /* The bare domain, other hosts, addresses: path-style. */
        expect_address("/bucket/a", "s3.example.com", "bucket", "a");
        expect_address("/bucket/a", "s3.example.com:9000", "bucket", "a");
        expect_address("/bucket/a", "Localhost", "bucket", "a");
        expect_address("/bucket/a", "xlocalhost", "bucket", "a");
        expect_address("/bucket/a", "other.org", "bucket", "a");
        expect_address("/bucket/a", "[::1]:9000", "bucket", "a");
        expect_address("/bucket/a", "[::1]", "bucket", "a");
        expect_address("/bucket/a", "127.0.0.1", "bucket", "a");
        assert_false(address.virtual_host);
        /* The longest domain wins over one that is its suffix. */
        expect_address("/bucket/a", "s3.example.com", "bucket", "a");
        expect_address("/a", "s4.example.com", "s4", "a");
}

static void test_bad_addresses(void **state)
{
        static const char *const bad[] = {"",       "x",      "*",       "/b/%",   "/b/%4",        "/b/%4g",
                                          "/b/%g4", "/b/%-1", "/b/\xff", "/b/%ff", "/b/%ed%a0%80", "/b/%c0%80",
                                          "/%",     "/%ff/k", "/b/k%"};
        char path[4 + 3 * (S3_KEY_MAX + 1) + 1];

        for (size_t i = 0; i < COUNT(bad); i++)
                if (parse_at(bad[i], "h") != S3_ERR_INVALID_URI)
                        fail_msg("taken: %s", bad[i]);
        assert_int_equal(parse_at("//", "h"), S3_ERR_INVALID_BUCKET_NAME);
        assert_int_equal(parse_at("//key", "h"), S3_ERR_INVALID_BUCKET_NAME);
        memset(path, 'b', sizeof(path));
        path[0] = '/';
        path[1 + S3_BUCKET_ONCE_MAX] = '\0';
        assert_int_equal(parse_at(path, "h"), S3_OK);
        path[1 + S3_BUCKET_ONCE_MAX] = 'b';
        path[2 + S3_BUCKET_ONCE_MAX] = '\0';
        assert_int_equal(parse_at(path, "h"), S3_ERR_INVALID_BUCKET_NAME);
}

/* ---- whom a request is sent to --------------------------------------------------------------- */

static void test_authority(void **state)
{
        static const struct {
                const char *text, *host; /* NULL: refused */
                int port;                /* -1: none */
        } table[] = {
                {"h", "h", -1},
                {"h:", "h", -1},
                {"h:0", "h", 0},
                {"h:65535", "h", 65535},
                {"h:00080", "h", 80},
                {"h:65536", NULL, 0},
                {"h:000080", NULL, 0},
                {"h:+80", NULL, 0},
                {"h:80:80", NULL, 0},
                {"h:80 ", NULL, 0},
                {"Bucket.S3.Example.COM:9000", "Bucket.S3.Example.COM", 9000},
                {"a_b-c~d.example.com", "a_b-c~d.example.com", -1},
                {"h.", "h", -1},
                {"h.:80", "h", 80},
                {"h..", NULL, 0},
                {".", NULL, 0},
                {".h", NULL, 0},
                {"a..b", NULL, 0},
                {"", NULL, 0},
                {":", NULL, 0},
                {":80", NULL, 0},
                {"127.0.0.1:9000", "127.0.0.1", 9000},
                {"[::1]", "[::1]", -1},
                {"[::1]:9000", "[::1]", 9000},
                {"[::1]:", "[::1]", -1},
                {"[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.1]", 1},
                {"[::1", NULL, 0},
                {"[::1]x", NULL, 0},
                {"[::1]80", NULL, 0},
                {"[::1%25eth0]", NULL, 0},
                {"[fe80::1%eth0]", NULL, 0},
                {"[]", NULL, 0},
                {"[h]", NULL, 0},
                {"[1.2.3.4]", NULL, 0},
                {"::1", NULL, 0},
                {"user@h", NULL, 0},
                {"user:word@h", NULL, 0},
                {"user@[::1]", NULL, 0},
                {"h/b", NULL, 0},
                {"h?x", NULL, 0},
                {"h#x", NULL, 0},
                {"a b", NULL, 0},
                {"a,b", NULL, 0},
                {"%61", NULL, 0},
                {"a%2eb", NULL, 0},
                {"b\xc3\xbc", NULL, 0},
                {"h\t", NULL, 0},
                {"h\\b", NULL, 0},
        };
        struct s3_authority got;
        char longest[258];

        for (size_t i = 0; i < COUNT(table); i++) {
                struct s3_str copy = heap_copy(table[i].text, strlen(table[i].text));
                bool taken = s3_authority_parse(copy, &got);

                if (taken != (table[i].host != NULL))
                        fail_msg("%s: %s", table[i].text, taken ? "taken" : "refused");
                if (taken) {
                        expect_str(got.host, table[i].host);
                        assert_int_equal(got.has_port ? got.port : -1, table[i].port);
                }
                heap_free(copy);
        }
        assert_false(s3_authority_parse((struct s3_str){"a\0b", 3}, &got));
        assert_false(s3_authority_parse((struct s3_str){"[::1\0]", 6}, &got));
        memset(longest, 'a', sizeof(longest));
        longest[255] = '\0';
        assert_true(s3_authority_parse(s3_str_of(longest), &got));
        longest[255] = 'a';
        longest[256] = '\0';
        assert_false(s3_authority_parse(s3_str_of(longest), &got));
}

/* The Host header decides, and the target must agree with it. */
static void test_authority_of_requests(void **state)
{
        static const struct {
                const char *target;
                const char *host[2];
                bool http10;
                const char *named; /* "": nobody; NULL: refused */
        } table[] = {
                {"/b/k", {"h"}, false, "h"},
                {"/b/k", {NULL}, false, NULL},
                {"/b/k", {NULL}, true, ""},
                {"/b/k", {"h"}, true, "h"},
                {"/b/k", {"h", "h"}, false, NULL},
                {"/b/k", {"h", "i"}, false, NULL},
                {"/b/k", {"h", ""}, true, NULL},
                {"/b/k", {""}, false, NULL},
                {"/b/k", {"  h\t"}, false, "h"},
                {"//h/k", {"i"}, false, "i"},
                {"*", {"h"}, false, "h"},
                {"http://h/b/k", {"h"}, false, "h"},
                {"HTTPS://H:1/b/k", {"h:1"}, false, "h"},
                {"http://h./b", {"h"}, false, "h"},
                {"http://bbb.example.com/k", {"aaa.example.com"}, false, NULL},
                {"http://example.com/bbb/k", {"aaa.example.com"}, false, NULL},
                {"http://bbb.example.com/k", {"127.0.0.1:9000"}, false, NULL},
                {"http://h:9000/b", {"h"}, false, NULL},
                {"http://h:80/b", {"h"}, false, NULL},
                {"http://h/b", {"h:80"}, false, NULL},
                {"http://u@h/b", {"h"}, false, NULL},
                {"http://u@h/b", {"u@h"}, false, NULL},
                {"http://h/b", {NULL}, false, NULL},
                {"http://h/b", {NULL}, true, NULL},
                {"http://h/b", {""}, false, NULL},
                {"http://[::1]:1/b", {"[::1]:1"}, false, "[::1]"},
                {"http://[::1]:1/b", {"[::1]"}, false, NULL},
                {"http://[::1]/b", {"[0:0:0:0:0:0:0:1]"}, false, NULL},
                {"http://h%2e/b", {"h"}, false, NULL},
        };

        for (size_t i = 0; i < COUNT(table); i++) {
                struct s3_header headers[3] = {{S3_STR("x-host"), S3_STR("other")}};
                size_t count = 1;
                struct s3_target target;
                struct s3_authority got;
                const char *message = NULL;
                enum s3_error error;

                for (size_t j = 0; j < 2 && table[i].host[j] != NULL; j++)
                        headers[count++] = (struct s3_header){j == 0 ? S3_STR("hOST") : S3_STR("Host"), s3_str_of(table[i].host[j])};
                assert_int_equal(s3_target_split(s3_str_of(table[i].target), &target), S3_OK);
                error = s3_authority_of_request(&target, headers, count, table[i].http10, &got, &message);
                if ((error == S3_OK) != (table[i].named != NULL))
                        fail_msg("%s, %s: %s", table[i].target, table[i].host[0] != NULL ? table[i].host[0] : "no host",
                                 error == S3_OK ? "taken" : "refused");
                if (error == S3_OK) {
                        expect_str(got.host, table[i].named);
                } else {
                        assert_int_equal(error, S3_ERR_BAD_REQUEST);
                        assert_non_null(message);
                }
        }
}

static void test_once_valid_names(void **state)
{
        char longest[S3_BUCKET_ONCE_MAX + 2];

        assert_true(s3_bucket_name_once_valid(S3_STR("My_Bucket")));
        assert_true(s3_bucket_name_once_valid(S3_STR("a..b-")));
        assert_true(s3_bucket_name_once_valid(S3_STR("192.168.0.1")));
        assert_false(s3_bucket_name_once_valid(S3_STR("ab")));
        assert_false(s3_bucket_name_once_valid(S3_STR("a/b")));
        assert_false(s3_bucket_name_once_valid(S3_STR("a b")));
        assert_false(s3_bucket_name_once_valid((struct s3_str){"ab\0c", 4}));
        memset(longest, 'A', sizeof(longest));
        assert_true(s3_bucket_name_once_valid((struct s3_str){longest, S3_BUCKET_ONCE_MAX}));
        assert_false(s3_bucket_name_once_valid((struct s3_str){longest, S3_BUCKET_ONCE_MAX + 1}));
}

static void test_key_length(void **state)
{
        char path[3 + 3 * (S3_KEY_MAX + 1) + 1] = "/b/";
        size_t encoded;

        for (encoded = 0; encoded < 2; encoded++) {
                size_t step = encoded ? 3 : 1;

                for (size_t i = 0; i <= S3_KEY_MAX; i++)
                        memcpy(path + 3 + i * step, encoded ? "%41" : "A", step);
                path[3 + S3_KEY_MAX * step] = '\0';
                assert_int_equal(parse_at(path, "h"), S3_OK);
                assert_int_equal(address.key_len, S3_KEY_MAX);
                memcpy(path + 3 + S3_KEY_MAX * step, encoded ? "%41" : "A", step);
                path[3 + (S3_KEY_MAX + 1) * step] = '\0';
                assert_int_equal(parse_at(path, "h"), S3_ERR_KEY_TOO_LONG);
        }
}

/* ---- queries --------------------------------------------------------------------------------- */

static struct s3_query query;
static char query_buf[S3_TARGET_MAX];

static enum s3_error parse_query(const char *raw)
{
        struct s3_str copy = heap_copy(raw, strlen(raw));
        enum s3_error error = s3_query_parse(copy, query_buf, copy.len, &query);

        heap_free(copy);
        return error;
}

static void test_queries(void **state)
{
        assert_int_equal(parse_query(""), S3_OK);
        assert_int_equal(query.count, 0);
        assert_int_equal(parse_query("acl"), S3_OK);
        assert_int_equal(query.count, 1);
        assert_non_null(s3_query_find(&query, "acl"));
        assert_false(s3_query_find(&query, "acl")->has_value);
        assert_int_equal(s3_query_find(&query, "acl")->value.len, 0);
        assert_null(s3_query_find(&query, "ACL"));
        assert_int_equal(parse_query("delete="), S3_OK);
        assert_true(s3_query_find(&query, "delete")->has_value);
        assert_int_equal(parse_query("&&prefix=a+b%2Bc%2F&marker=x=y&&list%2Dtype=2&"), S3_OK);
        assert_int_equal(query.count, 3);
        expect_str(s3_query_find(&query, "prefix")->value, "a b+c/");
        expect_str(s3_query_find(&query, "marker")->value, "x=y");
        expect_str(s3_query_find(&query, "list-type")->value, "2");
        assert_null(s3_query_find(&query, "list"));
        assert_int_equal(parse_query("a=1&a=2&b&a"), S3_OK);
        assert_int_equal(s3_query_count(&query, "a"), 3);
        assert_int_equal(s3_query_count(&query, "c"), 0);
        expect_str(s3_query_find(&query, "a")->value, "1");
        assert_int_equal(parse_query("=v"), S3_OK);
        assert_int_equal(query.param[0].name.len, 0);
        assert_int_equal(parse_query("k=%00"), S3_OK);
        assert_int_equal(query.param[0].value.len, 1);
}

static void test_bad_queries(void **state)
{
        static const char *const bad[] = {"a=%", "a=%4", "%zz=1", "a=%ff", "a=\x80", "ok=1&a=%c3"};
        char many[2 * (S3_QUERY_PARAMS_MAX + 1) + 1];

        for (size_t i = 0; i < COUNT(bad); i++)
                assert_int_equal(parse_query(bad[i]), S3_ERR_INVALID_URI);
        for (size_t i = 0; i <= S3_QUERY_PARAMS_MAX; i++)
                memcpy(many + 2 * i, "a&", 2);
        many[2 * S3_QUERY_PARAMS_MAX] = '\0';
        assert_int_equal(parse_query(many), S3_OK);
        assert_int_equal(query.count, S3_QUERY_PARAMS_MAX);
        many[2 * S3_QUERY_PARAMS_MAX] = 'a';
        many[2 * S3_QUERY_PARAMS_MAX + 1] = '\0';
        assert_int_equal(parse_query(many), S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(s3_query_parse(S3_STR("abc=def"), query_buf, 5, &query), S3_ERR_INVALID_URI);
}

/* As aws-sdk-js presigns a PUT with metadata. */
static void test_query_headers(void **state)
{
        struct s3_header headers[2];

        assert_int_equal(
                parse_query("X-Amz-Algorithm=a&X-Amz-Content-Sha256=UNSIGNED-PAYLOAD&X-Amz-Credential=c&X-Amz-Date=d"
                            "&X-Amz-Expires=1&X-Amz-Signature=s&X-Amz-SignedHeaders=host&x-amz-checksum-crc32=A"
                            "&x-amz-meta-a=b%20c&x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject"
                            "&X-Amz-ACL=private&X-Amz-Security-Token=t&X-Amz-User-Agent=u&x-amz-tagging=k%3Dv"),
                S3_OK);
        assert_int_equal(s3_query_headers(&query, headers, COUNT(headers)), 3);
        expect_str(headers[0].name, "x-amz-meta-a");
        expect_str(headers[0].value, "b c");
        expect_str(headers[1].name, "X-Amz-ACL");
        expect_str(headers[1].value, "private");
        assert_int_equal(s3_query_headers(&query, NULL, 0), 3);
}

/* ---- percent-encoding ------------------------------------------------------------------------ */

static void expect_encoded(const char *in, enum s3_encode mode, const char *wanted)
{
        char out[256];
        int n = s3_percent_encode(s3_str_of(in), mode, out, sizeof(out));

        assert_true(n >= 0);
        expect_str((struct s3_str){out, (size_t)n}, wanted);
        assert_int_equal(s3_percent_encode(s3_str_of(in), mode, out, (size_t)n), n);
        if (n > 0)
                assert_int_equal(s3_percent_encode(s3_str_of(in), mode, out, (size_t)n - 1), -ENOBUFS);
}

static void test_encoding(void **state)
{
        char out[16];

        expect_encoded("a/b c~+*(\xc3\xa9)", S3_ENCODE_PATH, "a/b%20c~%2B%2A%28%C3%A9%29");
        expect_encoded("a/b c~+*", S3_ENCODE_QUERY, "a%2Fb%20c~%2B%2A");
        expect_encoded("a/b c~+*(3).png\n", S3_ENCODE_LIST, "a/b+c%7E%2B*%283%29.png%0A");
        expect_encoded("", S3_ENCODE_PATH, "");
        assert_int_equal(s3_percent_decode(S3_STR("%41+%62"), true, out, sizeof(out)), 3);
        assert_memory_equal(out, "A b", 3);
        assert_int_equal(s3_percent_decode(S3_STR("abc"), false, out, 2), -ENOBUFS);
        assert_int_equal(s3_percent_decode(S3_STR("%4"), false, out, sizeof(out)), -EINVAL);
}

/* Every byte string survives encoding and decoding in each mode. */
static void test_round_trip(void **state)
{
        char in[256], encoded[768], decoded[768];

        for (int round = 0; round < 2000; round++) {
                size_t len = random_next() % sizeof(in);
                enum s3_encode mode = (enum s3_encode)(random_next() % 3);
                int n, m;

                for (size_t i = 0; i < len; i++)
                        in[i] = (char)random_next();
                n = s3_percent_encode((struct s3_str){in, len}, mode, encoded, sizeof(encoded));
                assert_true(n >= 0);
                m = s3_percent_decode((struct s3_str){encoded, (size_t)n}, mode == S3_ENCODE_LIST, decoded,
                                      sizeof(decoded));
                assert_int_equal(m, (int)len);
                assert_memory_equal(decoded, in, len);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_targets),       cmocka_unit_test(test_bad_targets),
                cmocka_unit_test(test_path_style),    cmocka_unit_test(test_virtual_host),
                cmocka_unit_test(test_authority),     cmocka_unit_test(test_authority_of_requests),
                cmocka_unit_test(test_once_valid_names),
                cmocka_unit_test(test_bad_addresses), cmocka_unit_test(test_key_length),
                cmocka_unit_test(test_queries),       cmocka_unit_test(test_bad_queries),
                cmocka_unit_test(test_query_headers), cmocka_unit_test(test_encoding),
                cmocka_unit_test(test_round_trip),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
