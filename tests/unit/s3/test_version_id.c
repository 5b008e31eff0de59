/*
 * test_version_id.c - s3/version_id.c: VersioningConfiguration, version ids, DeleteResult.
 */
#include "tests/unit/s3/doc_fixture.h"

#define VERSIONING(inside) "<VersioningConfiguration>" inside "</VersioningConfiguration>"
#define MFA_MESSAGE        "The element MfaDelete implies functionality that is not implemented."

static void test_versioning_read(void **state)
{
        assert_int_equal(read_doc(S3_DOC_VERSIONING,
                                  "<?xml version='1.0'?>\n<VersioningConfiguration xmlns='" S3_XML_NAMESPACE
                                  "'>\n <Status> Enabled </Status></VersioningConfiguration>\n"),
                         S3_OK);
        assert_int_equal(doc->versioning, S3_VERSIONING_ENABLED);
        assert_int_equal(
                read_doc(S3_DOC_VERSIONING, VERSIONING("<MfaDelete>Disabled</MfaDelete><Status>Suspended</Status>")),
                S3_OK);
        assert_int_equal(doc->versioning, S3_VERSIONING_SUSPENDED);
}

static void test_versioning_refused(void **state)
{
        static const char *const malformed[] = {
                "<Versioning/>",
                "<VersioningConfiguration>",
                VERSIONING("<Status>enabled</Status>"),
                VERSIONING("<Status/>"),
                VERSIONING("<Status>Disabled</Status>"),
                VERSIONING("<Status>Enabled</Status><Status>Enabled</Status>"),
                VERSIONING("<Status><a/></Status>"),
                VERSIONING("<Status>Enabled</Status><Other/>"),
                VERSIONING("<Status>Enabled</Status><MfaDelete>maybe</MfaDelete>"),
        };

        for (size_t i = 0; i < COUNT(malformed); i++)
                expect_refused(S3_DOC_VERSIONING, malformed[i], S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_VERSIONING, VERSIONING("text"), S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_VERSIONING, "", S3_ERR_MISSING_REQUEST_BODY, NULL);
        expect_refused(S3_DOC_VERSIONING, VERSIONING(""), S3_ERR_ILLEGAL_VERSIONING,
                       "The Versioning element must be specified");
        expect_refused(S3_DOC_VERSIONING, VERSIONING("<MfaDelete>Disabled</MfaDelete>"), S3_ERR_ILLEGAL_VERSIONING,
                       "The Versioning element must be specified");
        expect_refused(S3_DOC_VERSIONING, VERSIONING("<Status>Enabled</Status><MfaDelete>Enabled</MfaDelete>"),
                       S3_ERR_NOT_IMPLEMENTED, MFA_MESSAGE);
}

static void test_versioning_written(void **state)
{
        static const char *const inside[] = {
                [S3_VERSIONING_NEVER] = "",
                [S3_VERSIONING_ENABLED] = "<Status>Enabled</Status>",
                [S3_VERSIONING_SUSPENDED] = "<Status>Suspended</Status>",
        };

        for (unsigned i = 0; i < COUNT(inside); i++) {
                struct s3_xml xml;

                s3_xml_init(&xml, 4096);
                s3_versioning_write(&xml, (enum s3_versioning)i);
                expect_written(&xml, "VersioningConfiguration", inside[i]);
        }
}

/* ---- ids ------------------------------------------------------------------------------------- */

static void expect_no_id(const char *text, const char *wanted)
{
        struct s3_str copy = heap_copy(text, strlen(text));
        const char *message = NULL;
        struct s3_version version;

        assert_int_equal(s3_version_parse(copy, &version, &message), S3_ERR_INVALID_ARGUMENT);
        assert_string_equal(message, wanted);
        heap_free(copy);
}

static void test_id_null(void **state)
{
        const struct s3_version null = {.null = true};
        char text[S3_VERSION_TEXT];
        struct s3_version version;
        const char *message;

        assert_int_equal(s3_version_format(&null, text), 4);
        assert_string_equal(text, "null");
        assert_int_equal(s3_version_parse(S3_STR("null"), &version, &message), S3_OK);
        assert_true(version.null && version.number == 0);
}

static void test_id_text(void **state)
{
        struct s3_version version = {.number = 0xfbff0123456789abu}, read;
        char text[S3_VERSION_TEXT];
        const char *message;

        memset(version.random, 0xff, sizeof(version.random));
        assert_int_equal(s3_version_format(&version, text), 32);
        assert_string_equal(text, "-_8BI0Vniav_____________________"); /* the number is in front, big-endian */
        assert_null(strpbrk(text, "+/="));
        assert_int_equal(s3_version_parse(s3_str_of(text), &read, &message), S3_OK);
        assert_memory_equal(&read, &version, sizeof(read));
}

/* What would name the null version by another id. */
static void test_id_of_number_0(void **state)
{
        struct s3_version version = {.number = 0}, read;
        char text[S3_VERSION_TEXT];
        const char *message = NULL;

        memset(version.random, 0x55, sizeof(version.random));
        assert_int_equal(s3_version_format(&version, text), S3_VERSION_TEXT - 1);
        assert_int_equal(s3_version_parse(s3_str_of(text), &read, &message), S3_ERR_INVALID_ARGUMENT);
        assert_string_equal(message, "Invalid version id specified");
}

static void test_id_random(void **state)
{
        for (unsigned i = 0; i < 10000; i++) {
                struct s3_version version = {.number = random_next() >> random_next() % 64 | 1}, read;
                char text[S3_VERSION_TEXT];
                const char *message;

                for (size_t j = 0; j < sizeof(version.random); j++)
                        version.random[j] = (uint8_t)random_next();
                assert_int_equal(s3_version_format(&version, text), S3_VERSION_TEXT - 1);
                assert_int_equal(s3_version_parse(s3_str_of(text), &read, &message), S3_OK);
                assert_false(read.null);
                assert_true(read.number == version.number);
                assert_memory_equal(read.random, version.random, sizeof(version.random));
        }
}

static void test_id_refused(void **state)
{
        static const char *const bad[] = {
                "Null",
                "null ",
                "3",
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA+",
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/",
                "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA ",
                "3sL4kqtJlcpXroDTDmJ+rmSpXd3dIbrHY+MTRCxf3vjVBH40Nr8X8gdRQBpUMLUo",
        };

        for (size_t i = 0; i < COUNT(bad); i++)
                expect_no_id(bad[i], "Invalid version id specified");
        expect_no_id("", "Version id cannot be the empty string");
}

/* ---- DeleteResult ---------------------------------------------------------------------------- */

static void test_deleted(void **state)
{
        static const struct {
                struct s3_deleted deleted;
                const char *inside;
        } cases[] = {
                {{.key = {"a&b", 3}}, "<Deleted><Key>a&amp;b</Key></Deleted>"},
                {{.key = {"k", 1}, .version_id = {"null", 4}},
                 "<Deleted><Key>k</Key><VersionId>null</VersionId></Deleted>"},
                {{.key = {"k", 1}, .marker = true, .marker_version_id = {"m", 1}},
                 "<Deleted><Key>k</Key><DeleteMarker>true</DeleteMarker>"
                 "<DeleteMarkerVersionId>m</DeleteMarkerVersionId></Deleted>"},
                {{.key = {"k", 1}, .version_id = {"m", 1}, .marker = true, .marker_version_id = {"m", 1}},
                 "<Deleted><Key>k</Key><VersionId>m</VersionId><DeleteMarker>true</DeleteMarker>"
                 "<DeleteMarkerVersionId>m</DeleteMarkerVersionId></Deleted>"},
        };

        for (size_t i = 0; i < COUNT(cases); i++) {
                struct s3_xml xml;

                s3_xml_init(&xml, 4096);
                s3_xml_root(&xml, "DeleteResult");
                s3_deleted_write(&xml, &cases[i].deleted);
                s3_xml_close(&xml, "DeleteResult");
                expect_written(&xml, "DeleteResult", cases[i].inside);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_versioning_read),
                cmocka_unit_test(test_versioning_refused),
                cmocka_unit_test(test_versioning_written),
                cmocka_unit_test(test_id_null),
                cmocka_unit_test(test_id_text),
                cmocka_unit_test(test_id_random),
                cmocka_unit_test(test_id_of_number_0),
                cmocka_unit_test(test_id_refused),
                cmocka_unit_test(test_deleted),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
