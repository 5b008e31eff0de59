/*
 * test_log_record.c - s3/log_record.c: records of access logs, and names of their objects.
 */
#include "tests/unit/s3/s3_fixture.h"

#include <errno.h>

static char out[S3_LOG_RECORD_MAX];

static const char *record(const struct s3_log_facts *facts)
{
        ssize_t len = s3_log_record(facts, out, sizeof(out) - 1);

        assert_true(len > 0);
        out[len] = '\0';
        return out;
}

/* AWS's own example, in its order. */
static void test_a_record_of_all_fields(void **state)
{
        struct s3_log_facts facts = {
                .owner = S3_STR("79a5"), .bucket = S3_STR("bucket"), .time_ms = 1549411238000, .remote = S3_STR("192.0.2.3"),
                .requester = S3_STR("arn:aws:iam::1:user/a"), .request_id = S3_STR("3E57"),
                .operation = S3_STR("REST.GET.OBJECT"), .key = S3_STR("a/b c"), .method = S3_STR("GET"),
                .target = S3_STR("/bucket/a/b%20c?x=1"), .status = 206, .bytes_sent = 113, .has_size = true, .object_size = 0,
                .total_ms = 7, .turn_ms = 3, .referer = S3_STR("http://r/"), .user_agent = S3_STR("S3 Console/0.4"),
                .version_id = S3_STR("v1"), .host_id = S3_STR("s9lz="), .signature = S3_STR("SigV4"),
                .cipher = S3_STR("TLS_A"), .auth_type = S3_STR("AuthHeader"), .host = S3_STR("h:9000"),
                .tls = S3_STR("TLSv1.3"), .acl_required = true};

        assert_string_equal(record(&facts),
                            "79a5 bucket [06/Feb/2019:00:00:38 +0000] 192.0.2.3 arn:aws:iam::1:user/a 3E57 REST.GET.OBJECT "
                            "a/b%20c \"GET /bucket/a/b%20c?x=1 HTTP/1.1\" 206 - 113 0 7 3 \"http://r/\" \"S3 Console/0.4\" v1 "
                            "s9lz= SigV4 TLS_A AuthHeader h:9000 TLSv1.3 - Yes\n");
}

static void test_what_is_absent(void **state)
{
        struct s3_log_facts facts = {.http10 = true};

        assert_string_equal(record(&facts), "- - [01/Jan/1970:00:00:00 +0000] - - - - - \"  HTTP/1.0\" - - - - 0 0 \"-\" \"-\" "
                                            "- - - - - - - - -\n");
}

/* Nobody ends a field or a line early. */
static void test_what_clients_choose(void **state)
{
        struct s3_log_facts facts = {.key = S3_STR("a\n\" \x7f\xc3"), .target = S3_STR("/\"\r\n x"), .user_agent = S3_STR("a\" b\n"),
                                     .host = S3_STR("a b\"")};
        const char *text = record(&facts);
        unsigned lines = 0, quotes = 0;

        for (const char *p = text; *p != '\0'; p++) {
                lines += *p == '\n';
                quotes += *p == '"';
        }
        assert_int_equal(lines, 1);
        assert_int_equal(quotes, 6);
        assert_non_null(strstr(text, " a%0A%22%20%7F%C3 "));
        assert_non_null(strstr(text, "/%22%0D%0A x HTTP"));
        assert_non_null(strstr(text, "\"a%22 b%0A\""));
        assert_non_null(strstr(text, " a%20b%22 "));
}

/* The longest of all fields fits; less room does not overflow. */
static void test_log_bounds(void **state)
{
        static char longest[20000];
        struct s3_log_facts facts = {.key = {longest, 1024}, .target = {longest, sizeof(longest)}, .referer = {longest, sizeof(longest)},
                                     .user_agent = {longest, sizeof(longest)}};

        memset(longest, '"', sizeof(longest));
        assert_true(s3_log_record(&facts, out, sizeof(out)) > 0);
        for (size_t cap = 0; cap < 3000; cap += 7)
                assert_int_equal(s3_log_record(&facts, out, cap), -ENOBUFS);
}

static void test_names(void **state)
{
        struct s3_log_name name = {.prefix = S3_STR("p/"), .account = S3_STR("000000000001"), .region = S3_STR("r"), .bucket = S3_STR("b"),
                                   .event_ms = 1549411238000 - 86400000, .delivery_ms = 1549411238000, .unique = 0xabc};
        char text[S3_LOG_NAME_SIZE];

        assert_int_equal(s3_log_name(&name, text, sizeof(text)), strlen("p/2019-02-06-00-00-38-0000000000000ABC"));
        assert_string_equal(text, "p/2019-02-06-00-00-38-0000000000000ABC");
        name.partitioned = true;
        assert_true(s3_log_name(&name, text, sizeof(text)) > 0);
        assert_string_equal(text, "p/000000000001/r/b/2019/02/06/2019-02-06-00-00-38-0000000000000ABC");
        name.by_event = true;
        assert_true(s3_log_name(&name, text, sizeof(text)) > 0);
        assert_string_equal(text, "p/000000000001/r/b/2019/02/05/2019-02-05-00-00-00-0000000000000ABC");
        assert_int_equal(s3_log_name(&name, text, 20), -ENOBUFS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_record_of_all_fields), cmocka_unit_test(test_what_is_absent),
                cmocka_unit_test(test_what_clients_choose),    cmocka_unit_test(test_log_bounds),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
