/*
 * test_lifecycle_json.c - lifecycle rules from JSON to XML and back: nothing is lost on the way,
 * and what is no rule is named.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/lifecycle_json.h"

static int to_xml(const char *json, char **xml, char why[256])
{
        json_t *rules = json_loads(json, 0, NULL);
        struct s3_xml writer;
        size_t len;
        int rv;

        assert_non_null(rules);
        *xml = NULL;
        why[0] = '\0';
        s3_xml_init(&writer, S3_LIFECYCLE_BODY_MAX);
        rv = cli_lifecycle_json_write(rules, &writer, why, 256);
        if (rv == 0) {
                s3_xml_raw(&writer, (struct s3_str){"", 1}); /* ends it with a NUL */
                assert_int_equal(s3_xml_take(&writer, xml, &len), 0);
        }
        s3_xml_free(&writer);
        json_decref(rules);
        return rv;
}

static void rules_go_and_come_back(void **state)
{
        static const char json[] =
                "{\"Rules\": [{\"ID\": \"a & b\", \"Status\": \"Enabled\", \"Filter\": {\"And\": {\"Prefix\": \"p/\", "
                "\"ObjectSizeGreaterThan\": 5, \"ObjectSizeLessThan\": 1000000000000, \"Tags\": [{\"Key\": \"k\", "
                "\"Value\": \"v\"}, {\"Key\": \"l\", \"Value\": \"\"}]}}, \"Expiration\": {\"Days\": 7}, "
                "\"NoncurrentVersionExpiration\": {\"NoncurrentDays\": 30, \"NewerNoncurrentVersions\": 3}}, "
                "{\"Status\": \"Disabled\", \"Filter\": {\"Tag\": {\"Key\": \"k\", \"Value\": \"v\"}}, "
                "\"Expiration\": {\"Date\": \"2027-01-31T00:00:00.000Z\"}}, {\"Status\": \"Enabled\", \"Filter\": {}, "
                "\"Expiration\": {\"ExpiredObjectDeleteMarker\": true}, \"Transitions\": [{\"Days\": 1, "
                "\"StorageClass\": \"GLACIER\"}], \"NoncurrentVersionTransitions\": [{\"NoncurrentDays\": 1, "
                "\"StorageClass\": \"GLACIER\"}], \"AbortIncompleteMultipartUpload\": {\"DaysAfterInitiation\": 2}}]}";
        json_t *expected = json_loads(json, 0, NULL), *back;
        char *xml, why[256];

        assert_int_equal(to_xml(json, &xml, why), 0);
        assert_non_null(strstr(xml, "<Rule><ID>a &amp; b</ID><Status>Enabled</Status><Filter><And>"));
        assert_non_null(
                strstr(xml, "<Tag><Key>k</Key><Value>v</Value></Tag><Tag><Key>l</Key><Value></Value></Tag></And>"));
        assert_int_equal(cli_lifecycle_json_read(xml, strlen(xml), &back), 0);
        assert_true(json_equal(expected, back));
        json_decref(back);
        json_decref(expected);
        free(xml);
}

static void dates_are_made_whole(void **state)
{
        static const char form[] = "{\"Rules\": [{\"Expiration\": {\"Date\": \"%s\"}}]}";
        static const char *const good[] = {"2027-01-31", "2027-01-31T00:00:00Z", "2027-01-31T02:00:00+02:00"};
        static const char *const bad[] = {"", "2027-13-31", "soon", "2027-01-31T"};
        char json[128], *xml, why[256];

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
                snprintf(json, sizeof(json), form, good[i]);
                assert_int_equal(to_xml(json, &xml, why), 0);
                assert_non_null(strstr(xml, "<Date>2027-01-31T00:00:00.000Z</Date>"));
                free(xml);
        }
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                snprintf(json, sizeof(json), form, bad[i]);
                assert_int_equal(to_xml(json, &xml, why), -EINVAL);
                assert_non_null(strstr(why, "Date: "));
        }
}

static void what_is_no_rule_is_named(void **state)
{
        static const struct {
                const char *json, *why;
        } cases[] = {
                {"[]", "Rules: "},
                {"{}", "Rules: "},
                {"{\"Rules\": {}}", "Rules: "},
                {"{\"Rules\": [], \"More\": 1}", "Rules: "},
                {"{\"Rules\": [1]}", "Rules: takes {"},
                {"{\"Rules\": [{\"Id\": \"x\"}]}", "Id: there is no such member"},
                {"{\"Rules\": [{\"ID\": 1}]}", "ID: takes a text"},
                {"{\"Rules\": [{\"Filter\": \"p\"}]}", "Filter: takes {"},
                {"{\"Rules\": [{\"Transitions\": {}}]}", "Transitions: takes ["},
                {"{\"Rules\": [{\"Expiration\": {\"Days\": \"1\"}}]}", "Days: takes a whole number"},
                {"{\"Rules\": [{\"Expiration\": {\"Days\": -1}}]}", "Days: takes a whole number"},
                {"{\"Rules\": [{\"Expiration\": {\"ExpiredObjectDeleteMarker\": 1}}]}", "takes true or false"},
                {"{\"Rules\": [{\"And\": {\"And\": {\"And\": {\"And\": {\"And\": {\"And\": {\"And\": {\"And\": "
                 "{\"And\": "
                 "{\"And\": {\"And\": {\"And\": {\"And\": {\"And\": {\"And\": {}}}}}}}}}}}}}}}}]}",
                 "And: "},
        };
        char *xml, why[256];

        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(to_xml(cases[i].json, &xml, why), -EINVAL);
                assert_non_null(strstr(why, cases[i].why));
        }
}

static void answers_that_are_none_are_refused(void **state)
{
        static const char *const texts[] = {
                "",
                "{}",
                "<Other/>",
                "<LifecycleConfiguration>",
                "<LifecycleConfiguration><Rule><New>1</New></Rule></LifecycleConfiguration>",
                "<LifecycleConfiguration><Rule><ID><Key>k</Key></ID></Rule></LifecycleConfiguration>",
                "<LifecycleConfiguration><Rule><Expiration><Days>x</Days></Expiration></Rule></LifecycleConfiguration>",
                "<LifecycleConfiguration><Rule><Expiration><ExpiredObjectDeleteMarker>1</ExpiredObjectDeleteMarker>"
                "</Expiration></Rule></LifecycleConfiguration>",
        };
        json_t *rules;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
                assert_int_equal(cli_lifecycle_json_read(texts[i], strlen(texts[i]), &rules), -EPROTO);
                assert_null(rules);
        }
        assert_int_equal(cli_lifecycle_json_read("<LifecycleConfiguration/>", 25, &rules), 0); /* no rule at all */
        assert_int_equal(json_object_size(rules), 0);
        json_decref(rules);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(rules_go_and_come_back),
                cmocka_unit_test(dates_are_made_whole),
                cmocka_unit_test(what_is_no_rule_is_named),
                cmocka_unit_test(answers_that_are_none_are_refused),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
