/*
 * test_date.c - s3/date.c: every format forth and back, beside libc's calendar.
 */
#include "tests/unit/s3/s3_fixture.h"

static void test_format(void **state)
{
        char amz[S3_DATE_AMZ_SIZE], iso[S3_DATE_ISO_SIZE], http[S3_DATE_HTTP_SIZE];
        char seconds[S3_DATE_SECONDS_SIZE];

        assert_int_equal(s3_date_format_amz(1369353600000, amz), 16);
        assert_string_equal(amz, "20130524T000000Z");
        assert_int_equal(s3_date_format_iso(1369353600123, iso), 24);
        assert_string_equal(iso, "2013-05-24T00:00:00.123Z");
        assert_int_equal(s3_date_format_seconds(1369353600999, seconds), 20);
        assert_string_equal(seconds, "2013-05-24T00:00:00Z");
        s3_date_format_seconds(INT64_MAX, seconds);
        assert_string_equal(seconds, "9999-12-31T23:59:59Z");
        assert_int_equal(s3_date_format_http(1369353600999, http), 29);
        assert_string_equal(http, "Fri, 24 May 2013 00:00:00 GMT");
        s3_date_format_http(0, http);
        assert_string_equal(http, "Thu, 01 Jan 1970 00:00:00 GMT");
        s3_date_format_iso(-5, iso);
        assert_string_equal(iso, "1970-01-01T00:00:00.000Z");
        s3_date_format_iso(INT64_MAX, iso);
        assert_string_equal(iso, "9999-12-31T23:59:59.999Z");
        s3_date_format_iso(951782400000, iso);
        assert_string_equal(iso, "2000-02-29T00:00:00.000Z");
}

/* Random moments through all formats, and against gmtime_r(). */
static void test_round_trips(void **state)
{
        char amz[S3_DATE_AMZ_SIZE], iso[S3_DATE_ISO_SIZE], http[S3_DATE_HTTP_SIZE], wanted[64];

        for (int i = 0; i < 20000; i++) {
                int64_t ms = (int64_t)(random_next() % 253402300800000u), back;
                time_t seconds = (time_t)(ms / 1000);
                struct tm tm;

                assert_non_null(gmtime_r(&seconds, &tm));
                s3_date_format_http(ms, http);
                strftime(wanted, sizeof(wanted), "%a, %d %b %Y %H:%M:%S GMT", &tm);
                assert_string_equal(http, wanted);
                assert_int_equal(s3_date_parse_http(s3_str_of(http), &back), 0);
                assert_int_equal(back, ms - ms % 1000);
                s3_date_format_amz(ms, amz);
                assert_int_equal(s3_date_parse_amz(s3_str_of(amz), &back), 0);
                assert_int_equal(back, ms - ms % 1000);
                s3_date_format_iso(ms, iso);
                assert_int_equal(s3_date_parse_iso(s3_str_of(iso), &back), 0);
                assert_int_equal(back, ms);
        }
}

static void test_http_forms(void **state)
{
        static const char *const good[] = {
                "Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT",
                "Sun Nov  6 08:49:37 1994",      "sun, 06 nov 1994 08:49:37 gmt",
                "Sun, 6 Nov 1994 08:49:37 GMT",  "Sun, 06 Nov 1994 08:49:37 +0000",
                "Sun, 06 Nov 1994 08:49:37 UTC", " Sun, 06 Nov 1994 08:49:37 GMT ",
                "Sun Nov 06 08:49:37 1994",      "Sunday, 06-Nov-1994 08:49:37 GMT",
        };
        static const char *const bad[] = {
                "",
                "Sun",
                "Sun,",
                "06 Nov 1994 08:49:37 GMT",
                "Sun, 06 Nov 1994 08:49:37",
                "Sun, 06 Nov 1994 08:49 GMT",
                "Sun, 31 Feb 1994 08:49:37 GMT",
                "Sun, 00 Nov 1994 08:49:37 GMT",
                "Sun, 06 Foo 1994 08:49:37 GMT",
                "Sun, 06 Nov 1994 24:49:37 GMT",
                "Sun, 06 Nov 1994 08:60:37 GMT",
                "Sun, 06 Nov 1994 08:49:61 GMT",
                "Sun, 06 Nov 1994 08:49:37 GMTx",
                "Sun, 06 Nov 1994 08:49:37 EST",
                "Sun, 06-Nov-9 08:49:37 GMT",
                "Sun Nov  6 08:49:37 94",
                "Fri, 29 Feb 2013 00:00:00 GMT",
                "1994-11-06T08:49:37Z",
                "784111777",
        };
        int64_t ms;

        for (size_t i = 0; i < COUNT(good); i++) {
                struct s3_str s = heap_copy(good[i], strlen(good[i]));

                if (s3_date_parse_http(s, &ms) != 0 || ms != 784111777000)
                        fail_msg("%s", good[i]);
                heap_free(s);
        }
        for (size_t i = 0; i < COUNT(bad); i++) {
                struct s3_str s = heap_copy(bad[i], strlen(bad[i]));

                if (s3_date_parse_http(s, &ms) == 0)
                        fail_msg("%s", bad[i]);
                heap_free(s);
        }
        assert_int_equal(s3_date_parse_http(S3_STR("Tuesday, 01-Jan-69 00:00:00 GMT"), &ms), 0);
        assert_int_equal(ms, 3124224000000); /* 2069 */
        assert_int_equal(s3_date_parse_http(S3_STR("Thursday, 01-Jan-70 00:00:00 GMT"), &ms), 0);
        assert_int_equal(ms, 0);
}

static void test_iso_forms(void **state)
{
        static const struct {
                const char *text;
                int64_t ms;
        } good[] = {
                {"2013-05-24T00:00:00Z", 1369353600000},      {"2013-05-24T00:00:00", 1369353600000},
                {"2013-05-24T00:00:00.5Z", 1369353600500},    {"2013-05-24T00:00:00.123456789Z", 1369353600123},
                {"2013-05-24T02:00:00+02:00", 1369353600000}, {"2013-05-23T19:30:00-0430", 1369353600000},
                {"2016-12-31T23:59:60Z", 1483228800000},
        };
        static const char *const bad[] = {"",
                                          "2013-05-24",
                                          "2013-05-24 00:00:00Z",
                                          "2013-13-24T00:00:00Z",
                                          "2013-05-24T00:00:00.Z",
                                          "2013-05-24T00:00:00.1234567890Z",
                                          "2013-05-24T00:00:00+2",
                                          "2013-05-24T00:00:00Zx",
                                          "2013-05-24T00:00:00+24:00",
                                          "2013-5-24T00:00:00Z",
                                          "0000-01-01T00:00:00Z"};
        int64_t ms;

        for (size_t i = 0; i < COUNT(good); i++)
                if (s3_date_parse_iso(s3_str_of(good[i].text), &ms) != 0 || ms != good[i].ms)
                        fail_msg("%s: %lld", good[i].text, (long long)ms);
        for (size_t i = 0; i < COUNT(bad); i++)
                if (s3_date_parse_iso(s3_str_of(bad[i]), &ms) == 0)
                        fail_msg("%s", bad[i]);
}

static void test_amz_forms(void **state)
{
        static const char *const bad[] = {"",
                                          "20130524",
                                          "20130524T000000",
                                          "20130524T000000ZZ",
                                          "20130524t000000Z",
                                          "20130524T000000z",
                                          "20131324T000000Z",
                                          "20130532T000000Z",
                                          "20130524T240000Z",
                                          "2013-05-24T00:00",
                                          "xxxxxxxxTxxxxxxZ",
                                          "20130524T0000 0Z"};
        int64_t ms;

        for (size_t i = 0; i < COUNT(bad); i++)
                if (s3_date_parse_amz(s3_str_of(bad[i]), &ms) == 0)
                        fail_msg("%s", bad[i]);
        assert_int_equal(s3_date_parse_amz(S3_STR("16010101T000000Z"), &ms), 0);
        assert_int_equal(ms, -11644473600000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_format),    cmocka_unit_test(test_round_trips), cmocka_unit_test(test_http_forms),
                cmocka_unit_test(test_iso_forms), cmocka_unit_test(test_amz_forms),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
