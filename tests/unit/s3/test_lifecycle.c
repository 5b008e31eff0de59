/*
 * test_lifecycle.c - s3/lifecycle_read.c, lifecycle_check.c and lifecycle_write.c: lifecycle rules
 * read, refused, compiled and written back.
 */
#include "tests/unit/s3/doc_fixture.h"

#define LIFECYCLE(inside)  "<LifecycleConfiguration>" inside "</LifecycleConfiguration>"
#define ON                 "<Status>Enabled</Status>"
#define ALL                "<Filter/>"
#define EXPIRE             "<Expiration><Days>1</Days></Expiration>"
#define RULE(inside)       LIFECYCLE("<Rule>" inside "</Rule>")
#define FILTERED(inside)   RULE(ON EXPIRE "<Filter>" inside "</Filter>")
#define ACTION(inside)     RULE(ON ALL inside)
#define TAG(key, value)    "<Tag><Key>" key "</Key><Value>" value "</Value></Tag>"
#define GREATER(n)         "<ObjectSizeGreaterThan>" n "</ObjectSizeGreaterThan>"
#define LESS(n)            "<ObjectSizeLessThan>" n "</ObjectSizeLessThan>"
#define PREFIX(text)       "<Prefix>" text "</Prefix>"
#define NONCURRENT(inside) "<NoncurrentVersionExpiration>" inside "</NoncurrentVersionExpiration>"
#define DAYS(n)            "<NoncurrentDays>" n "</NoncurrentDays>"
#define NEWER(n)           "<NewerNoncurrentVersions>" n "</NewerNoncurrentVersions>"
#define ABORT(n)                                                                                                       \
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>" n                                                      \
        "</DaysAfterInitiation></AbortIncompleteMultipartUpload>"
#define MARKER(text)     "<Expiration><ExpiredObjectDeleteMarker>" text "</ExpiredObjectDeleteMarker></Expiration>"
#define MOVE(inside)     ACTION("<Transition>" inside "</Transition>")
#define MOVE_OLD(inside) ACTION("<NoncurrentVersionTransition>" inside "</NoncurrentVersionTransition>")
#define GLACIER          "<StorageClass>GLACIER</StorageClass>"

static const struct s3_lifecycle_rule *read_rule(const char *text)
{
        enum s3_error error = read_doc(S3_DOC_LIFECYCLE, text);

        if (error != S3_OK)
                fail_msg("%s: %s %s", text, s3_error_info(error)->code, doc->message != NULL ? doc->message : "");
        return &doc->lifecycle->rules[0];
}

/* ---- what is read ---------------------------------------------------------------------------- */

static void test_whole(void **state)
{
        const struct s3_lifecycle_rule *rule = read_rule(
                "<?xml version='1.0'?>\n<LifecycleConfiguration xmlns='" S3_XML_NAMESPACE "'>\n<Rule>\n<ID> a b </ID>"
                "<Filter><And>" PREFIX(" logs/&amp;") TAG("k", "v") TAG("l", "") GREATER(" 0 ") LESS(
                        "1099511627776000") "</And></Filter>" ON
                                            "<Expiration>\n<Days> 365 </Days></Expiration>" NONCURRENT(
                                                    NEWER("100") DAYS(
                                                            "7")) "</Rule><Rule>" ALL
                                                                  "<Status> Disabled </Status>" ABORT("2147483647")
                                                                          MARKER("true") "</Rule>\n"
                                                                                         "</LifecycleConfiguration>");

        assert_int_equal(doc->lifecycle->rule_count, 2);
        assert_false(doc->lifecycle->transition);
        expect_str(rule->id, " a b ");
        assert_true(rule->enabled && rule->filter == S3_FILTER_AND);
        expect_str(rule->prefix, " logs/&");
        assert_int_equal(rule->tag_count, 2);
        expect_str(rule->tags[0].key, "k");
        expect_str(rule->tags[0].value, "v");
        expect_str(rule->tags[1].key, "l");
        expect_str(rule->tags[1].value, "");
        assert_true(rule->has_greater && rule->greater == 0);
        assert_true(rule->has_less && rule->less == S3_LIFECYCLE_SIZE_MAX);
        assert_int_equal(rule->days, 365);
        assert_false(rule->has_date || rule->has_marker);
        assert_int_equal(rule->noncurrent_days, 7);
        assert_int_equal(rule->newer_versions, 100);
        rule++;
        assert_false(rule->enabled);
        assert_true(rule->filter == S3_FILTER_ONE && rule->prefix.data == NULL && rule->tag_count == 0);
        assert_int_equal(rule->abort_days, INT32_MAX);
        assert_true(rule->has_marker && rule->marker);
        expect_str(rule->id, "rule-1");
}

static void test_filters(void **state)
{
        const struct s3_lifecycle_rule *rule = read_rule(RULE(PREFIX("") ON EXPIRE));

        assert_true(rule->filter == S3_FILTER_LEGACY && rule->prefix.data != NULL && rule->prefix.len == 0);
        rule = read_rule(FILTERED(PREFIX("a")));
        assert_int_equal(rule->filter, S3_FILTER_ONE);
        expect_str(rule->prefix, "a");
        rule = read_rule(FILTERED(TAG("k", "v")));
        assert_int_equal(rule->tag_count, 1);
        rule = read_rule(FILTERED(GREATER("5")));
        assert_true(rule->has_greater && rule->greater == 5 && !rule->has_less);
        rule = read_rule(FILTERED(LESS("1")));
        assert_true(rule->has_less && rule->less == 1 && !rule->has_greater);
        rule = read_rule(FILTERED("<And>" TAG("a", "1") TAG("b", "1") "</And>"));
        assert_true(rule->filter == S3_FILTER_AND && rule->tag_count == 2 && rule->prefix.data == NULL);
        rule = read_rule(FILTERED("<And>" GREATER("1") LESS("2") "</And>"));
        assert_true(rule->has_greater && rule->has_less);
}

static void test_actions(void **state)
{
        const struct s3_lifecycle_rule *rule =
                read_rule(ACTION("<Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration>"));

        assert_true(rule->has_date && rule->date_ms == 1893456000000 && rule->days == 0);
        rule = read_rule(ACTION("<Expiration><Date>2030-01-01T02:00:00+02:00</Date></Expiration>"));
        assert_true(rule->date_ms == 1893456000000);
        rule = read_rule(ACTION(MARKER("false")));
        assert_true(rule->has_marker && !rule->marker);
        rule = read_rule(ACTION(NONCURRENT(DAYS("1"))));
        assert_true(rule->noncurrent_days == 1 && rule->newer_versions == 0);
}

/* Read, so that the caller can tell what it does not implement from what is wrong. */
static void test_transitions(void **state)
{
        static const char *const good[] = {
                MOVE("<Days>0</Days>" GLACIER),
                MOVE("<Date>2030-01-01T00:00:00Z</Date><StorageClass>DEEP_ARCHIVE</StorageClass>"),
                ACTION("<Transition><Days>30</Days><StorageClass>STANDARD_IA</StorageClass></Transition>"
                       "<Transition><Days>90</Days>" GLACIER "</Transition>" EXPIRE),
                MOVE_OLD(DAYS("0") GLACIER),
                MOVE_OLD(DAYS("1") NEWER("1") GLACIER),
        };

        for (size_t i = 0; i < COUNT(good); i++) {
                assert_true(read_rule(good[i])->transition);
                assert_true(doc->lifecycle->transition);
        }
        assert_false(read_rule(ACTION(EXPIRE))->transition);
}

/* The rules outlive their document. */
static void test_take(void **state)
{
        struct s3_lifecycle *lifecycle;

        read_rule(RULE("<ID>mine</ID>" ON EXPIRE "<Filter>" TAG("k", "v") "</Filter>"));
        lifecycle = s3_doc_take_lifecycle(doc);
        assert_null(s3_doc_take_lifecycle(doc));
        s3_doc_free(doc);
        doc = NULL;
        expect_str(lifecycle->rules[0].id, "mine");
        expect_str(lifecycle->rules[0].tags[0].value, "v");
        s3_lifecycle_free(lifecycle);
        s3_lifecycle_free(NULL);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void test_malformed(void **state)
{
        static const char *const malformed[] = {
                "<LifecycleConfiguration/>",
                "<Lifecycle/>",
                LIFECYCLE("<Rule/>"),
                RULE(ON EXPIRE),
                RULE(ALL EXPIRE),
                RULE("<Status>enabled</Status>" ALL EXPIRE),
                RULE(ON ON ALL EXPIRE),
                RULE(ON ALL PREFIX("a") EXPIRE),
                RULE(ON ALL EXPIRE EXPIRE),
                RULE(ON ALL EXPIRE "<Other/>"),
                RULE("<ID>a</ID><ID>b</ID>" ON ALL EXPIRE),
                RULE(ON EXPIRE "<Filter>text</Filter>"),
                FILTERED(PREFIX("a") TAG("k", "v")),
                FILTERED(GREATER("1") LESS("5")),
                FILTERED(TAG("k", "v") TAG("l", "v")),
                FILTERED(PREFIX("a") "<And>" TAG("k", "v") GREATER("1") "</And>"),
                FILTERED("<And/>"),
                FILTERED("<And>" PREFIX("a") "</And>"),
                FILTERED("<And>" TAG("k", "v") "</And>"),
                FILTERED("<And>" PREFIX("a") PREFIX("b") "</And>"),
                FILTERED("<Tag><Key>a</Key></Tag>"),
                FILTERED("<And>" TAG("a", "1") "<Tag><Value>a</Value></Tag></And>"),
                FILTERED("<And>" TAG("0", "") TAG("1", "") TAG("2", "") TAG("3", "") TAG("4", "") TAG("5", "")
                                 TAG("6", "") TAG("7", "") TAG("8", "") TAG("9", "") TAG("10", "") "</And>"),
                FILTERED(GREATER("many")),
                FILTERED(GREATER("")),
                FILTERED(GREATER("-")),
                ACTION("<Expiration/>"),
                ACTION("<Expiration><Days>1</Days><Date>2030-01-01T00:00:00Z</Date></Expiration>"),
                ACTION("<Expiration><Days>1</Days><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker>"
                       "</Expiration>"),
                ACTION("<Expiration><Days>soon</Days></Expiration>"),
                ACTION("<Expiration><Days>2147483648</Days></Expiration>"),
                ACTION("<Expiration><Date>20300101</Date></Expiration>"),
                ACTION("<Expiration><Date/></Expiration>"),
                ACTION(MARKER("maybe")),
                ACTION("<NoncurrentVersionExpiration/>"),
                ACTION(NONCURRENT(NEWER("1"))),
                ACTION(NONCURRENT(DAYS("x"))),
                ACTION("<AbortIncompleteMultipartUpload/>"),
                MOVE(""),
                MOVE("<Days>1</Days>"),
                MOVE(GLACIER),
                MOVE("<Days>1</Days><Date>2030-01-01T00:00:00Z</Date>" GLACIER),
                MOVE("<Days>x</Days>" GLACIER),
                MOVE("<Days>1</Days><StorageClass>ICE</StorageClass>"),
                ACTION("<Transition><Days>1</Days>" GLACIER "</Transition><Transition><Days>1</Days></Transition>"),
                MOVE_OLD(GLACIER),
                MOVE_OLD(DAYS("1")),
        };

        for (size_t i = 0; i < COUNT(malformed); i++)
                expect_refused(S3_DOC_LIFECYCLE, malformed[i], S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_LIFECYCLE, "", S3_ERR_MISSING_REQUEST_BODY, NULL);
}

static void test_arguments(void **state)
{
        static const struct {
                const char *text, *message;
        } cases[] = {
                {ACTION("<Expiration><Days>0</Days></Expiration>"),
                 "'Days' for Expiration action must be a positive integer"},
                {ACTION("<Expiration><Days>-3</Days></Expiration>"),
                 "'Days' for Expiration action must be a positive integer"},
                {ACTION("<Expiration><Date>2030-01-01T00:00:01Z</Date></Expiration>"),
                 "'Date' must be at midnight GMT"},
                {ACTION(NONCURRENT(DAYS("0"))),
                 "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer"},
                {ACTION(NONCURRENT(DAYS("1") NEWER("0"))), "'NewerNoncurrentVersions' must be a positive integer"},
                {ACTION(NONCURRENT(DAYS("1") NEWER("101"))), "'NewerNoncurrentVersions' must not exceed 100"},
                {ACTION(ABORT("0")),
                 "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer"},
                {MOVE("<Days>-1</Days>" GLACIER), "'Days' in Transition action must be nonnegative"},
                {MOVE("<Date>2030-01-01T12:00:00Z</Date>" GLACIER), "'Date' must be at midnight GMT"},
                {MOVE("<Days>1</Days><StorageClass>STANDARD</StorageClass>"),
                 "Invalid target Storage class for Transition action"},
                {MOVE_OLD(DAYS("-1") GLACIER),
                 "'NoncurrentDays' in NoncurrentVersionTransition action must be nonnegative"},
                {MOVE_OLD(DAYS("1") NEWER("101") GLACIER), "'NewerNoncurrentVersions' must not exceed 100"},
                {LIFECYCLE("<Rule><ID>a</ID>" ON ALL EXPIRE "</Rule><Rule><ID>b</ID>" ON ALL EXPIRE
                           "</Rule><Rule><ID>a</ID>" ON ALL EXPIRE "</Rule>"),
                 "Rule ID must be unique. Found same ID for more than one rule"},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_refused(S3_DOC_LIFECYCLE, cases[i].text, S3_ERR_INVALID_ARGUMENT, cases[i].message);
}

static void test_requests(void **state)
{
        static const char greater[] = "'ObjectSizeGreaterThan' should be between 0 and 1099511627776000.",
                          less[] = "'ObjectSizeLessThan' should be between 1 and 1099511627776000.",
                          order[] = "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.";
        static const struct {
                const char *text, *message;
        } cases[] = {
                {RULE(ON ALL), "At least one action needs to be specified in a rule"},
                {FILTERED(GREATER("-1")), greater},
                {FILTERED(GREATER("1099511627776001")), greater},
                {FILTERED(GREATER("99999999999999999999999")), greater},
                {FILTERED(LESS("0")), less},
                {FILTERED("<And>" GREATER("5") LESS("5") "</And>"), order},
                {FILTERED(TAG("", "v")), "A Tag's Key must be a length between 1 and 128."},
                {FILTERED("<And>" TAG("a", "1") TAG("a", "2") "</And>"), "Duplicate Tag Keys are not allowed."},
                {RULE(ON MARKER("true") "<Filter>" TAG("k", "v") "</Filter>"),
                 "ExpiredObjectDeleteMarker cannot be specified with Tags."},
                {RULE(ON MARKER("true") "<Filter>" LESS("1") "</Filter>"),
                 "ExpiredObjectDeleteMarker cannot be specified with Object Size."},
                {RULE(ON ABORT("1") "<Filter>" TAG("k", "v") "</Filter>"),
                 "AbortIncompleteMultipartUpload cannot be specified with Tags."},
                {RULE("<Filter>" GREATER("1") "</Filter>" ON ABORT("1")),
                 "AbortIncompleteMultipartUpload cannot be specified with Object Size."},
                {LIFECYCLE("<Rule>" ON ALL EXPIRE "</Rule><Rule>" ON PREFIX("a") EXPIRE "</Rule>"),
                 "Filter element can only be used in Lifecycle V2."},
                {RULE(ON PREFIX("a") NONCURRENT(DAYS("1") NEWER("1"))),
                 "NewerNoncurrentVersions element can only be used in Lifecycle V2."},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_refused(S3_DOC_LIFECYCLE, cases[i].text, S3_ERR_INVALID_REQUEST, cases[i].message);
}

/* A rule in which a text of that many letters stands between the two parts. */
static enum s3_error read_long(const char *before, unsigned letters, const char *after)
{
        char text[4096];

        assert_true((size_t)snprintf(text, sizeof(text), "%s%0*u%s", before, (int)letters, 7u, after) < sizeof(text));
        return read_doc(S3_DOC_LIFECYCLE, text);
}

static void test_lengths(void **state)
{
        static const char after_id[] = "</ID>" ON ALL EXPIRE "</Rule></LifecycleConfiguration>",
                          after_prefix[] = "</Prefix>" ON EXPIRE "</Rule></LifecycleConfiguration>",
                          after_key[] = "</Key><Value/></Tag></Filter>" ON EXPIRE "</Rule></LifecycleConfiguration>",
                          after_value[] = "</Value></Tag></Filter>" ON EXPIRE "</Rule></LifecycleConfiguration>";

        assert_int_equal(read_long("<LifecycleConfiguration><Rule><ID>", 255, after_id), S3_OK);
        assert_int_equal(read_long("<LifecycleConfiguration><Rule><ID>", 256, after_id), S3_ERR_INVALID_ARGUMENT);
        assert_string_equal(doc->message, "ID length should not exceed allowed limit of 255");
        assert_int_equal(read_long("<LifecycleConfiguration><Rule><Prefix>", 1024, after_prefix), S3_OK);
        assert_int_equal(read_long("<LifecycleConfiguration><Rule><Prefix>", 1025, after_prefix),
                         S3_ERR_INVALID_REQUEST);
        assert_string_equal(doc->message, "The maximum size of a prefix is 1024");
        assert_int_equal(read_long("<LifecycleConfiguration><Rule><Filter><Tag><Key>", 128, after_key), S3_OK);
        assert_int_equal(read_long("<LifecycleConfiguration><Rule><Filter><Tag><Key>", 129, after_key),
                         S3_ERR_INVALID_REQUEST);
        assert_int_equal(read_long("<LifecycleConfiguration><Rule><Filter><Tag><Key>k</Key><Value>", 256, after_value),
                         S3_OK);
        assert_int_equal(read_long("<LifecycleConfiguration><Rule><Filter><Tag><Key>k</Key><Value>", 257, after_value),
                         S3_ERR_INVALID_REQUEST);
        assert_string_equal(doc->message, "A Tag's Value must be a length between 0 and 256.");
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* A rule without an id gets one that no other has, and the same whenever the text is read. */
static void test_ids(void **state)
{
        read_rule(LIFECYCLE("<Rule>" ON ALL EXPIRE "</Rule><Rule><ID>rule-2</ID>" ON ALL EXPIRE
                            "</Rule><Rule><ID/>" ON ALL EXPIRE "</Rule><Rule><ID>rule-1</ID>" ON ALL EXPIRE "</Rule>"));
        expect_str(doc->lifecycle->rules[0].id, "rule-3");
        expect_str(doc->lifecycle->rules[1].id, "rule-2");
        expect_str(doc->lifecycle->rules[2].id, "rule-4");
        expect_str(doc->lifecycle->rules[3].id, "rule-1");
}

#define PREFIXED(status, prefix)                                                                                       \
        "<Rule><Status>" status "</Status><Filter><Prefix>" prefix "</Prefix></Filter>" EXPIRE "</Rule>"

static void test_prefixes(void **state)
{
        const struct s3_lifecycle *lifecycle;

        read_rule(LIFECYCLE(PREFIXED("Enabled", "logs/b/") PREFIXED("Enabled", "a") PREFIXED("Enabled", "logs/")
                                    PREFIXED("Disabled", "") PREFIXED("Enabled", "logs0") PREFIXED("Enabled", "logs/")
                                            PREFIXED("Enabled", "logs/a/x") PREFIXED("Enabled", "ab")
                                                    PREFIXED("Enabled", "\xc3\xa9")));
        lifecycle = doc->lifecycle;
        assert_int_equal(lifecycle->prefix_count, 4);
        expect_str(lifecycle->prefixes[0], "a");
        expect_str(lifecycle->prefixes[1], "logs/");
        expect_str(lifecycle->prefixes[2], "logs0");
        expect_str(lifecycle->prefixes[3], "\xc3\xa9");
        read_rule(LIFECYCLE(PREFIXED("Enabled", "a") "<Rule>" ON ALL EXPIRE "</Rule>"));
        assert_int_equal(doc->lifecycle->prefix_count, 1);
        assert_int_equal(doc->lifecycle->prefixes[0].len, 0);
        read_rule(LIFECYCLE(PREFIXED("Disabled", "a")));
        assert_int_equal(doc->lifecycle->prefix_count, 0);
}

static void test_thousand_rules(void **state)
{
        size_t cap = S3_LIFECYCLE_BODY_MAX, used = 0;
        char *text = malloc(cap);

        assert_non_null(text);
        used += (size_t)snprintf(text, cap, "<LifecycleConfiguration>");
        for (unsigned i = 0; i < S3_LIFECYCLE_RULES_MAX; i++)
                used += (size_t)snprintf(text + used, cap - used,
                                         "<Rule>" ON "<Filter><And>" PREFIX("%01000u/")
                                                 TAG("k", "%u") "</And></Filter>" EXPIRE "</Rule>",
                                         i, i);
        snprintf(text + used, cap - used, "</LifecycleConfiguration>");
        read_rule(text);
        assert_int_equal(doc->lifecycle->rule_count, S3_LIFECYCLE_RULES_MAX);
        assert_int_equal(doc->lifecycle->prefix_count, S3_LIFECYCLE_RULES_MAX);
        expect_str(doc->lifecycle->rules[999].id, "rule-1000");
        expect_str(doc->lifecycle->rules[999].tags[0].value, "999");
        snprintf(text + used, cap - used, "<Rule/></LifecycleConfiguration>");
        assert_int_equal(read_doc(S3_DOC_LIFECYCLE, text), S3_ERR_MALFORMED_XML);
        free(text);
}

/* ---- written --------------------------------------------------------------------------------- */

#define FIRST                                                                                                          \
        "<Rule><ID>a&amp;b</ID><Filter><And>" PREFIX("p/") TAG("k", "v") TAG("l", "") GREATER("1")                     \
                LESS("9") "</And></Filter>" ON                                                                         \
                          "<Expiration><Date>2030-01-01T00:00:00.000Z</Date></Expiration>" NONCURRENT(                 \
                                  DAYS("3") NEWER("2")) "</Rule>"
#define SECOND                                                                                                         \
        "<Rule><ID>rule-1</ID><Filter></Filter>"                                                                       \
        "<Status>Disabled</Status>" MARKER("false") ABORT("7") "</Rule>"
#define THIRD "<Rule><ID>t</ID><Filter>" PREFIX("") "</Filter>" ON EXPIRE NONCURRENT(DAYS("1")) "</Rule>"

static void test_written(void **state)
{
        struct s3_xml xml;

        read_rule(LIFECYCLE(FIRST "<Rule>" ALL "<Status>Disabled</Status>" ABORT("7") MARKER("false") "</Rule>" THIRD));
        s3_xml_init(&xml, S3_LIFECYCLE_BODY_MAX);
        s3_lifecycle_write(&xml, doc->lifecycle);
        expect_written(&xml, "LifecycleConfiguration", FIRST SECOND THIRD);
        read_rule(RULE("<ID>n</ID>" ON "<Filter>" PREFIX("y") "</Filter>" NONCURRENT(DAYS("1"))));
        s3_xml_init(&xml, S3_LIFECYCLE_BODY_MAX);
        s3_lifecycle_write(&xml, doc->lifecycle);
        expect_written(&xml, "LifecycleConfiguration",
                       "<Rule><ID>n</ID><Filter>" PREFIX("y") "</Filter>" ON NONCURRENT(DAYS("1")) "</Rule>");
        read_rule(RULE("<ID>old</ID>" PREFIX("x/") ON EXPIRE));
        s3_xml_init(&xml, S3_LIFECYCLE_BODY_MAX);
        s3_lifecycle_write(&xml, doc->lifecycle);
        expect_written(&xml, "LifecycleConfiguration", "<Rule><ID>old</ID>" PREFIX("x/") ON EXPIRE "</Rule>");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole),     cmocka_unit_test(test_filters),
                cmocka_unit_test(test_actions),   cmocka_unit_test(test_transitions),
                cmocka_unit_test(test_take),      cmocka_unit_test(test_malformed),
                cmocka_unit_test(test_arguments), cmocka_unit_test(test_requests),
                cmocka_unit_test(test_lengths),   cmocka_unit_test(test_ids),
                cmocka_unit_test(test_prefixes),  cmocka_unit_test(test_thousand_rules),
                cmocka_unit_test(test_written),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
