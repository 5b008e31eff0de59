/*
 * test_object_lock.c - s3/object_lock.c: ObjectLockConfiguration, Retention, LegalHold, headers.
 */
#include "tests/unit/s3/doc_fixture.h"

#define CONFIG(inside)  "<ObjectLockConfiguration>" inside "</ObjectLockConfiguration>"
#define ENABLED         "<ObjectLockEnabled>Enabled</ObjectLockEnabled>"
#define DEFAULT(inside) CONFIG(ENABLED "<Rule><DefaultRetention>" inside "</DefaultRetention></Rule>")
#define GOVERNANCE      "<Mode>GOVERNANCE</Mode>"
#define NOT_POSITIVE    "Default retention period must be a positive integer value."
#define TOO_LARGE       "Default retention period is too large."

/* ---- ObjectLockConfiguration ----------------------------------------------------------------- */

static void expect_config(const char *text, enum s3_lock_mode mode, unsigned days, unsigned years)
{
        assert_int_equal(read_doc(S3_DOC_LOCK_CONFIG, text), S3_OK);
        assert_int_equal(doc->lock_config.mode, mode);
        assert_int_equal(doc->lock_config.days, days);
        assert_int_equal(doc->lock_config.years, years);
}

static void test_config(void **state)
{
        expect_config(CONFIG(ENABLED), S3_LOCK_NONE, 0, 0);
        expect_config(DEFAULT(GOVERNANCE "<Days> 1 </Days>"), S3_LOCK_GOVERNANCE, 1, 0);
        expect_config(DEFAULT("<Days>36500</Days><Mode>COMPLIANCE</Mode>"), S3_LOCK_COMPLIANCE, 36500, 0);
        expect_config(DEFAULT(GOVERNANCE "<Years>100</Years>"), S3_LOCK_GOVERNANCE, 0, 100);
        expect_config("<ObjectLockConfiguration xmlns='" S3_XML_NAMESPACE "'>\n<Rule><DefaultRetention>" GOVERNANCE
                      "<Years>1</Years></DefaultRetention></Rule>" ENABLED "</ObjectLockConfiguration>",
                      S3_LOCK_GOVERNANCE, 0, 1);
}

static void test_config_refused(void **state)
{
        static const char *const malformed[] = {
                CONFIG(""),
                CONFIG("<ObjectLockEnabled>Disabled</ObjectLockEnabled>"),
                CONFIG("<ObjectLockEnabled/>"),
                CONFIG(ENABLED ENABLED),
                CONFIG(ENABLED "<Rule/>"),
                CONFIG(ENABLED "<Rule/><Rule/>"),
                CONFIG("<Rule><DefaultRetention>" GOVERNANCE "<Days>1</Days></DefaultRetention></Rule>"),
                DEFAULT(""),
                DEFAULT(GOVERNANCE),
                DEFAULT("<Days>1</Days>"),
                DEFAULT(GOVERNANCE "<Days>1</Days><Years>1</Years>"),
                DEFAULT("<Mode>governance</Mode><Days>1</Days>"),
                DEFAULT("<Mode/><Days>1</Days>"),
                DEFAULT(GOVERNANCE "<Days>one</Days>"),
                DEFAULT(GOVERNANCE "<Days>1.5</Days>"),
                DEFAULT(GOVERNANCE "<Days>2147483648</Days>"),
                DEFAULT(GOVERNANCE "<Days/>"),
                DEFAULT(GOVERNANCE "<Days>1</Days><Weeks>1</Weeks>"),
        };

        for (size_t i = 0; i < COUNT(malformed); i++)
                expect_refused(S3_DOC_LOCK_CONFIG, malformed[i], S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_LOCK_CONFIG, "", S3_ERR_MISSING_REQUEST_BODY, NULL);
        expect_refused(S3_DOC_LOCK_CONFIG, DEFAULT(GOVERNANCE "<Days>0</Days>"), S3_ERR_INVALID_ARGUMENT, NOT_POSITIVE);
        expect_refused(S3_DOC_LOCK_CONFIG, DEFAULT(GOVERNANCE "<Years>-1</Years>"), S3_ERR_INVALID_ARGUMENT,
                       NOT_POSITIVE);
        expect_refused(S3_DOC_LOCK_CONFIG, DEFAULT(GOVERNANCE "<Days>36501</Days>"), S3_ERR_INVALID_ARGUMENT,
                       TOO_LARGE);
        expect_refused(S3_DOC_LOCK_CONFIG, DEFAULT(GOVERNANCE "<Years>101</Years>"), S3_ERR_INVALID_ARGUMENT,
                       TOO_LARGE);
}

static void test_config_written(void **state)
{
        static const struct {
                struct s3_lock_config config;
                const char *inside;
        } cases[] = {
                {{S3_LOCK_NONE, 0, 0}, ENABLED},
                {{S3_LOCK_GOVERNANCE, 30, 0},
                 ENABLED "<Rule><DefaultRetention>" GOVERNANCE "<Days>30</Days></DefaultRetention></Rule>"},
                {{S3_LOCK_COMPLIANCE, 0, 7},
                 ENABLED "<Rule><DefaultRetention><Mode>COMPLIANCE</Mode><Years>7</Years></DefaultRetention></Rule>"},
        };

        for (size_t i = 0; i < COUNT(cases); i++) {
                struct s3_xml xml;

                s3_xml_init(&xml, 4096);
                s3_lock_config_write(&xml, &cases[i].config);
                expect_written(&xml, "ObjectLockConfiguration", cases[i].inside);
        }
}

/* ---- the default of a bucket ----------------------------------------------------------------- */

static void expect_default(struct s3_lock_config config, const char *from, const char *until)
{
        struct s3_retention retention;
        char text[S3_DATE_ISO_SIZE];
        int64_t ms;

        assert_int_equal(s3_date_parse_iso(s3_str_of(from), &ms), 0);
        retention = s3_lock_default(&config, ms);
        assert_int_equal(retention.mode, config.mode);
        s3_date_format_iso(retention.until_ms, text);
        assert_string_equal(text, until);
}

static void test_default(void **state)
{
        const struct s3_lock_config days = {S3_LOCK_GOVERNANCE, 2, 0}, years = {S3_LOCK_COMPLIANCE, 0, 1},
                                    many = {S3_LOCK_COMPLIANCE, 0, 100}, none = {S3_LOCK_NONE, 0, 0};

        expect_default(days, "2024-02-28T10:11:12.345Z", "2024-03-01T10:11:12.345Z");
        expect_default(years, "2023-03-01T10:11:12.345Z", "2024-03-01T10:11:12.345Z");
        expect_default(years, "2024-02-29T00:00:00.000Z", "2025-03-01T00:00:00.000Z");
        expect_default(many, "2000-02-29T00:00:00.001Z", "2100-03-01T00:00:00.001Z");
        expect_default(many, "9950-01-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z");
        assert_int_equal(s3_lock_default(&none, 1700000000000).mode, S3_LOCK_NONE);
}

/* ---- Retention ------------------------------------------------------------------------------- */

#define RETENTION(inside) "<Retention>" inside "</Retention>"
#define UNTIL             "<RetainUntilDate>2030-01-02T03:04:05.678912Z</RetainUntilDate>"

static void test_retention(void **state)
{
        struct s3_xml xml;

        assert_int_equal(read_doc(S3_DOC_RETENTION, RETENTION(GOVERNANCE UNTIL)), S3_OK);
        assert_int_equal(doc->retention.mode, S3_LOCK_GOVERNANCE);
        assert_true(doc->retention.until_ms == 1893553445678);
        s3_xml_init(&xml, 4096);
        s3_retention_write(&xml, &doc->retention);
        expect_written(&xml, "Retention", GOVERNANCE "<RetainUntilDate>2030-01-02T03:04:05.678Z</RetainUntilDate>");
        assert_int_equal(read_doc(S3_DOC_RETENTION, RETENTION("<RetainUntilDate>\n2030-01-02T05:04:05+02:00\n"
                                                              "</RetainUntilDate><Mode> COMPLIANCE </Mode>")),
                         S3_OK);
        assert_int_equal(doc->retention.mode, S3_LOCK_COMPLIANCE);
        assert_true(doc->retention.until_ms == 1893553445000);
        assert_int_equal(read_doc(S3_DOC_RETENTION, "<Retention/>"), S3_OK);
        assert_int_equal(doc->retention.mode, S3_LOCK_NONE);
        s3_xml_init(&xml, 4096);
        s3_retention_write(&xml, &doc->retention);
        expect_written(&xml, "Retention", "");
}

static void test_retention_refused(void **state)
{
        static const char *const malformed[] = {
                RETENTION(GOVERNANCE),
                RETENTION(UNTIL),
                RETENTION("<Mode>Governance</Mode>" UNTIL),
                RETENTION("<Mode/>" UNTIL),
                RETENTION(GOVERNANCE "<RetainUntilDate/>"),
                RETENTION(GOVERNANCE "<RetainUntilDate>Wed, 02 Jan 2030 03:04:05 GMT</RetainUntilDate>"),
                RETENTION(GOVERNANCE "<RetainUntilDate>2030-02-30T00:00:00Z</RetainUntilDate>"),
                RETENTION(GOVERNANCE UNTIL UNTIL),
                RETENTION(GOVERNANCE GOVERNANCE UNTIL),
                RETENTION(GOVERNANCE UNTIL "<Days>1</Days>"),
                "<LegalHold/>",
        };

        for (size_t i = 0; i < COUNT(malformed); i++)
                expect_refused(S3_DOC_RETENTION, malformed[i], S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_RETENTION, "", S3_ERR_MISSING_REQUEST_BODY, NULL);
}

/* ---- LegalHold ------------------------------------------------------------------------------- */

static void test_hold(void **state)
{
        static const char *const malformed[] = {
                "<LegalHold/>",
                "<LegalHold><Status/></LegalHold>",
                "<LegalHold><Status>on</Status></LegalHold>",
                "<LegalHold><Status>ON</Status><Status>ON</Status></LegalHold>",
                "<LegalHold><Mode>ON</Mode></LegalHold>",
                "<LegalHold>ON</LegalHold>",
        };
        struct s3_xml xml;

        assert_int_equal(read_doc(S3_DOC_LEGAL_HOLD, "<LegalHold><Status> ON </Status></LegalHold>"), S3_OK);
        assert_true(doc->legal_hold);
        assert_int_equal(read_doc(S3_DOC_LEGAL_HOLD, "<LegalHold><Status>OFF</Status></LegalHold>"), S3_OK);
        assert_false(doc->legal_hold);
        for (size_t i = 0; i < COUNT(malformed); i++)
                expect_refused(S3_DOC_LEGAL_HOLD, malformed[i], S3_ERR_MALFORMED_XML, NULL);
        for (unsigned on = 0; on < 2; on++) {
                s3_xml_init(&xml, 4096);
                s3_legal_hold_write(&xml, on);
                expect_written(&xml, "LegalHold", on ? "<Status>ON</Status>" : "<Status>OFF</Status>");
        }
}

/* ---- headers --------------------------------------------------------------------------------- */

static enum s3_error read_headers(const char *mode, const char *until, const char *hold, struct s3_lock_headers *out,
                                  const char **message)
{
        *message = NULL;
        return s3_lock_headers_parse(s3_str_of(mode), s3_str_of(until), s3_str_of(hold), out, message);
}

static void test_headers(void **state)
{
        struct s3_lock_headers headers;
        const char *message;

        assert_int_equal(read_headers(NULL, NULL, NULL, &headers, &message), S3_OK);
        assert_int_equal(headers.retention.mode, S3_LOCK_NONE);
        assert_false(headers.has_hold || headers.hold);
        assert_int_equal(read_headers("GOVERNANCE", "2030-01-02T03:04:05.678Z", "OFF", &headers, &message), S3_OK);
        assert_int_equal(headers.retention.mode, S3_LOCK_GOVERNANCE);
        assert_true(headers.retention.until_ms == 1893553445678);
        assert_true(headers.has_hold && !headers.hold);
        assert_int_equal(read_headers("COMPLIANCE", "2030-01-02T03:04:05Z", "ON", &headers, &message), S3_OK);
        assert_int_equal(headers.retention.mode, S3_LOCK_COMPLIANCE);
        assert_true(headers.has_hold && headers.hold);
        assert_null(message);
}

static void test_headers_refused(void **state)
{
        static const char both[] =
                "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied";
        static const char unknown[] = "Unknown wormMode directive.",
                          no_date[] = "The retain until date must be provided in ISO 8601 format";
        static const struct {
                const char *mode, *until, *hold, *message, *wrong;
        } cases[] = {
                {"GOVERNANCE", NULL, NULL, both, NULL},
                {NULL, "2030-01-02T03:04:05Z", "ON", both, NULL},
                {"governance", "2030-01-02T03:04:05Z", NULL, unknown, "x-amz-object-lock-mode"},
                {"", "2030-01-02T03:04:05Z", NULL, unknown, "x-amz-object-lock-mode"},
                {"GOVERNANCE", "tomorrow", NULL, no_date, "x-amz-object-lock-retain-until-date"},
                {"GOVERNANCE", "", NULL, no_date, "x-amz-object-lock-retain-until-date"},
                {NULL, NULL, "on", "Legal Hold must be either of 'ON' or 'OFF'", "x-amz-object-lock-legal-hold"},
                {NULL, NULL, "", "Legal Hold must be either of 'ON' or 'OFF'", "x-amz-object-lock-legal-hold"},
        };
        struct s3_lock_headers headers;
        const char *message;

        for (size_t i = 0; i < COUNT(cases); i++) {
                assert_int_equal(read_headers(cases[i].mode, cases[i].until, cases[i].hold, &headers, &message),
                                 S3_ERR_INVALID_ARGUMENT);
                assert_string_equal(message, cases[i].message);
                if (cases[i].wrong == NULL)
                        assert_null(headers.wrong);
                else
                        assert_string_equal(headers.wrong, cases[i].wrong);
        }
}

static void test_flags(void **state)
{
        bool on = true;

        assert_int_equal(s3_lock_flag_parse((struct s3_str){NULL, 0}, &on), S3_OK);
        assert_false(on);
        assert_int_equal(s3_lock_flag_parse(S3_STR("True"), &on), S3_OK);
        assert_true(on);
        assert_int_equal(s3_lock_flag_parse(S3_STR("false"), &on), S3_OK);
        assert_false(on);
        assert_int_equal(s3_lock_flag_parse(S3_STR("1"), &on), S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(s3_lock_flag_parse(S3_STR(""), &on), S3_ERR_INVALID_ARGUMENT);
        assert_false(on);
        assert_string_equal(s3_lock_mode_name(S3_LOCK_NONE), "");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_config),
                cmocka_unit_test(test_config_refused),
                cmocka_unit_test(test_config_written),
                cmocka_unit_test(test_default),
                cmocka_unit_test(test_retention),
                cmocka_unit_test(test_retention_refused),
                cmocka_unit_test(test_hold),
                cmocka_unit_test(test_headers),
                cmocka_unit_test(test_headers_refused),
                cmocka_unit_test(test_flags),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
