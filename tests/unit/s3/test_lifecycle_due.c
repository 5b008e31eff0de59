/*
 * test_lifecycle_due.c - s3/lifecycle_due.c: what lifecycle rules make due, when, and how
 * x-amz-expiration says it.
 */
#include "tests/unit/s3/doc_fixture.h"

#define DAY_MS           86400000ll
#define RULE(id, inside) "<Rule><ID>" id "</ID><Status>Enabled</Status>" inside "</Rule>"
#define ALL              "<Filter/>"
#define UNDER(prefix)    "<Filter><Prefix>" prefix "</Prefix></Filter>"
#define DAYS(n)          "<Expiration><Days>" n "</Days></Expiration>"
#define DATE(text)       "<Expiration><Date>" text "</Date></Expiration>"
#define MARKER(text)     "<Expiration><ExpiredObjectDeleteMarker>" text "</ExpiredObjectDeleteMarker></Expiration>"
#define NONCURRENT(n)                                                                                                  \
        "<NoncurrentVersionExpiration><NoncurrentDays>" n "</NoncurrentDays></NoncurrentVersionExpiration>"
#define NEWER(n, newer)                                                                                                \
        "<NoncurrentVersionExpiration><NoncurrentDays>" n "</NoncurrentDays><NewerNoncurrentVersions>" newer           \
        "</NewerNoncurrentVersions></NoncurrentVersionExpiration>"
#define ABORT(n)                                                                                                       \
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>" n                                                      \
        "</DaysAfterInitiation></AbortIncompleteMultipartUpload>"

static void read_rules(const char *rules)
{
        char text[8192];

        assert_true((size_t)snprintf(text, sizeof(text), "<LifecycleConfiguration>%s</LifecycleConfiguration>", rules) <
                    sizeof(text));
        if (read_doc(S3_DOC_LIFECYCLE, text) != S3_OK)
                fail_msg("%s: %s", text, doc->message);
}

static int64_t at(const char *text)
{
        int64_t ms = 0;

        assert_int_equal(s3_date_parse_iso(s3_str_of(text), &ms), 0);
        return ms;
}

static void check_due(struct s3_lifecycle_due due, enum s3_lifecycle_action action, const char *when, const char *rule)
{
        char text[S3_DATE_ISO_SIZE];

        s3_date_format_iso(due.at_ms, text);
        assert_int_equal(due.action, action);
        assert_string_equal(text, when);
        expect_str(due.rule->id, rule);
}

static void expect_due(const struct s3_lifecycle_version *version, enum s3_lifecycle_action action, const char *when,
                       const char *rule)
{
        check_due(s3_lifecycle_evaluate(doc->lifecycle, version, S3_SECONDS_PER_DAY), action, when, rule);
}

static void expect_nothing(const struct s3_lifecycle_version *version)
{
        struct s3_lifecycle_due due = s3_lifecycle_evaluate(doc->lifecycle, version, S3_SECONDS_PER_DAY);

        assert_int_equal(due.action, S3_LIFECYCLE_NOTHING);
        assert_true(due.at_ms == 0 && due.rule == NULL);
}

static struct s3_lifecycle_version latest(const char *key, const char *mtime)
{
        return (struct s3_lifecycle_version){
                .key = s3_str_of(key), .size = 100, .mtime_ms = at(mtime), .latest = true, .only = true};
}

static struct s3_lifecycle_version noncurrent(const char *successor, unsigned newer)
{
        return (struct s3_lifecycle_version){.key = S3_STR("k"),
                                             .size = 100,
                                             .mtime_ms = at("2014-01-01T10:30:00Z"),
                                             .successor_ms = at(successor),
                                             .newer_noncurrent = newer};
}

/* ---- days ------------------------------------------------------------------------------------ */

/* AWS's example, and the edges of a day. */
static void test_days(void **state)
{
        struct s3_lifecycle_version version = latest("k", "2014-01-15T10:30:00Z");

        read_rules(RULE("r", ALL DAYS("3")));
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2014-01-19T00:00:00.000Z", "r");
        version.mtime_ms = at("2014-01-15T23:59:59.999Z");
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2014-01-19T00:00:00.000Z", "r");
        version.mtime_ms = at("2014-01-16T00:00:00.000Z");
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2014-01-20T00:00:00.000Z", "r");
        version.mtime_ms = -5;
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "1970-01-05T00:00:00.000Z", "r");
        read_rules(RULE("r", ALL DAYS("2147483647")));
        version.mtime_ms = at("2014-01-15T10:30:00Z");
        assert_true(s3_lifecycle_evaluate(doc->lifecycle, &version, S3_SECONDS_PER_DAY).at_ms ==
                    at("2014-01-16T00:00:00Z") + INT32_MAX * DAY_MS);
}

static void test_date(void **state)
{
        struct s3_lifecycle_version version = latest("k", "2029-01-15T10:30:00Z");

        read_rules(RULE("r", ALL DATE("2030-01-01T00:00:00Z")));
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2030-01-01T00:00:00.000Z", "r");
        version.mtime_ms = at("2031-01-15T10:30:00Z"); /* written since: due at once */
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2030-01-01T00:00:00.000Z", "r");
}

static void test_short_days(void **state)
{
        struct s3_lifecycle_version version = latest("k", "2014-01-15T10:30:05.500Z");
        struct s3_lifecycle_due due;

        read_rules(RULE("r", ALL DAYS("3")));
        due = s3_lifecycle_evaluate(doc->lifecycle, &version, 10);
        check_due(due, S3_LIFECYCLE_EXPIRE, "2014-01-15T10:30:40.000Z", "r");
        version.mtime_ms = at("2014-01-15T10:30:10.000Z");
        due = s3_lifecycle_evaluate(doc->lifecycle, &version, 1);
        check_due(due, S3_LIFECYCLE_EXPIRE, "2014-01-15T10:30:14.000Z", "r");
        read_rules(RULE("r", ALL DATE("2030-01-01T00:00:00Z")));
        due = s3_lifecycle_evaluate(doc->lifecycle, &version, 1);
        check_due(due, S3_LIFECYCLE_EXPIRE, "2030-01-01T00:00:00.000Z", "r");
}

/* ---- which rule ------------------------------------------------------------------------------ */

static void test_earliest(void **state)
{
        struct s3_lifecycle_version version = latest("logs/a", "2014-01-15T10:30:00Z");

        read_rules(RULE("long", ALL DAYS("365")) RULE("short", UNDER("logs/") DAYS("14")) RULE("same", ALL DAYS("14"))
                           RULE("other", UNDER("tmp/") DAYS("1")) RULE("old", ALL NONCURRENT("1")));
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2014-01-30T00:00:00.000Z", "short");
        version.key = S3_STR("log");
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2014-01-30T00:00:00.000Z", "same");
        version.key = S3_STR("tmp/");
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2014-01-17T00:00:00.000Z", "other");
}

static void test_disabled(void **state)
{
        struct s3_lifecycle_version version = latest("k", "2014-01-15T10:30:00Z");

        read_rules("<Rule><Status>Disabled</Status><Filter/>" DAYS("1")
                           ABORT("1") "</Rule>" RULE("r", ALL NONCURRENT("1")));
        expect_nothing(&version);
        assert_int_equal(s3_lifecycle_evaluate_upload(doc->lifecycle, S3_STR("k"), 0, S3_SECONDS_PER_DAY).action,
                         S3_LIFECYCLE_NOTHING);
}

static void test_filters(void **state)
{
        const struct s3_tags tags = {
                .count = 3, .tag = {{S3_STR("a"), S3_STR("1")}, {S3_STR("b"), S3_STR("2")}, {S3_STR("c"), S3_STR("")}}};
        struct s3_lifecycle_version version = latest("p/k", "2014-01-15T10:30:00Z");

        read_rules(RULE("r", "<Filter><And><Prefix>p/</Prefix><Tag><Key>b</Key><Value>2</Value></Tag><Tag><Key>c</Key>"
                             "<Value/></Tag><ObjectSizeGreaterThan>10</ObjectSizeGreaterThan><ObjectSizeLessThan>20"
                             "</ObjectSizeLessThan></And></Filter>" DAYS("1")));
        version.size = 15;
        expect_nothing(&version);
        version.tags = &tags;
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2014-01-17T00:00:00.000Z", "r");
        for (version.size = 8; version.size < 23; version.size++) {
                if (version.size > 10 && version.size < 20)
                        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2014-01-17T00:00:00.000Z", "r");
                else
                        expect_nothing(&version);
        }
        version.size = 15;
        version.key = S3_STR("q/k");
        expect_nothing(&version);
}

/* ---- versions -------------------------------------------------------------------------------- */

static void test_noncurrent(void **state)
{
        struct s3_lifecycle_version version = noncurrent("2014-01-15T10:30:00Z", 0);

        read_rules(RULE("r", ALL NONCURRENT("3") DAYS("1")));
        expect_due(&version, S3_LIFECYCLE_DELETE_VERSION, "2014-01-19T00:00:00.000Z", "r");
        version.marker = true;
        expect_due(&version, S3_LIFECYCLE_DELETE_VERSION, "2014-01-19T00:00:00.000Z", "r");
        read_rules(RULE("r", ALL DAYS("1")) RULE("m", ALL MARKER("true")));
        expect_nothing(&version);
}

static void test_newer(void **state)
{
        struct s3_lifecycle_version version = noncurrent("2014-01-15T10:30:00Z", 1);

        read_rules(RULE("keep", ALL NEWER("3", "2")) RULE("all", ALL NONCURRENT("10")));
        expect_due(&version, S3_LIFECYCLE_DELETE_VERSION, "2014-01-26T00:00:00.000Z", "all");
        version.newer_noncurrent = 2;
        expect_due(&version, S3_LIFECYCLE_DELETE_VERSION, "2014-01-19T00:00:00.000Z", "keep");
        version.newer_noncurrent = 5;
        expect_due(&version, S3_LIFECYCLE_DELETE_VERSION, "2014-01-19T00:00:00.000Z", "keep");
}

static void test_markers(void **state)
{
        struct s3_lifecycle_version version = latest("k", "2014-01-15T10:30:00Z");

        read_rules(RULE("m", ALL MARKER("true")) RULE("d", ALL DAYS("3")));
        expect_due(&version, S3_LIFECYCLE_EXPIRE, "2014-01-19T00:00:00.000Z", "d");
        version.marker = true;
        version.size = 0;
        expect_due(&version, S3_LIFECYCLE_DELETE_MARKER, "2014-01-15T10:30:00.000Z", "m");
        version.only = false;
        expect_nothing(&version);
        version.only = true;
        read_rules(RULE("m", ALL MARKER("false")));
        expect_nothing(&version);
        read_rules(RULE("d", ALL DAYS("3")));
        expect_due(&version, S3_LIFECYCLE_DELETE_MARKER, "2014-01-19T00:00:00.000Z", "d");
        read_rules(RULE("d", ALL DATE("2030-01-01T00:00:00Z")));
        expect_due(&version, S3_LIFECYCLE_DELETE_MARKER, "2030-01-01T00:00:00.000Z", "d");
        read_rules(RULE("s", "<Filter><ObjectSizeLessThan>10</ObjectSizeLessThan></Filter>" DAYS("3") NONCURRENT("1"))
                           RULE("t", "<Filter><Tag><Key>a</Key><Value/></Tag></Filter>" DAYS("3") NONCURRENT("1")));
        expect_nothing(&version);
        version.latest = false;
        expect_nothing(&version);
}

static void test_uploads(void **state)
{
        struct s3_lifecycle_due due;
        int64_t begun = at("2014-01-15T10:30:00Z");

        read_rules(RULE("a", ALL ABORT("7")) RULE("b", UNDER("b/") ABORT("1") DAYS("1")) RULE("d", ALL DAYS("1")));
        due = s3_lifecycle_evaluate_upload(doc->lifecycle, S3_STR("k"), begun, S3_SECONDS_PER_DAY);
        check_due(due, S3_LIFECYCLE_ABORT, "2014-01-23T00:00:00.000Z", "a");
        due = s3_lifecycle_evaluate_upload(doc->lifecycle, S3_STR("b/k"), begun, S3_SECONDS_PER_DAY);
        check_due(due, S3_LIFECYCLE_ABORT, "2014-01-17T00:00:00.000Z", "b");
        due = s3_lifecycle_evaluate_upload(doc->lifecycle, S3_STR("b/k"), begun, 60);
        check_due(due, S3_LIFECYCLE_ABORT, "2014-01-15T10:32:00.000Z", "b");
}

/* ---- properties ------------------------------------------------------------------------------ */

/* Of rules with days alone: the one that is due first, found by looking at all of them. */
static const struct s3_lifecycle_rule *first_rule_for(struct s3_str key)
{
        const struct s3_lifecycle_rule *first = NULL;

        for (unsigned i = 0; i < doc->lifecycle->rule_count; i++) {
                const struct s3_lifecycle_rule *rule = &doc->lifecycle->rules[i];

                if (rule->enabled && s3_str_starts(key, rule->prefix) && (first == NULL || rule->days < first->days))
                        first = rule;
        }
        return first;
}

/*
 * With random rules: what is due is by the rule that comes first, never before its days have passed,
 * nor later than a day after; and the key that something is due for lies below a prefix of the walk.
 */
static void test_random(void **state)
{
        static const char *const prefixes[] = {"", "a", "ab", "abd", "b/", "b/c", "c", "d"};
        static const char *const keys[] = {"a", "abc", "abe", "b/", "b/cd", "b", "d", "A"};
        unsigned covered = 0, due_count = 0;

        for (unsigned round = 0; round < 500; round++) {
                char text[4096];
                size_t used = 0;
                unsigned days[6], rules = 1 + random_next() % COUNT(days);

                for (unsigned i = 0; i < rules; i++) {
                        days[i] = 1 + random_next() % 9;
                        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                                 "<Rule><ID>%u</ID><Status>%s</Status>" UNDER("%s")
                                                         DAYS("%u") "</Rule>",
                                                 i, random_next() % 4 != 0 ? "Enabled" : "Disabled",
                                                 prefixes[random_next() % COUNT(prefixes)], days[i]);
                }
                read_rules(text);
                for (size_t k = 0; k < COUNT(keys); k++) {
                        struct s3_lifecycle_version version = latest(keys[k], "2020-01-01T00:00:00Z");
                        struct s3_lifecycle_due due;
                        unsigned below = 0;

                        version.mtime_ms += (int64_t)(random_next() % (10 * DAY_MS));
                        due = s3_lifecycle_evaluate(doc->lifecycle, &version, S3_SECONDS_PER_DAY);
                        assert_ptr_equal(due.rule, first_rule_for(version.key));
                        for (unsigned i = 0; i < doc->lifecycle->prefix_count; i++)
                                below += s3_str_starts(version.key, doc->lifecycle->prefixes[i]);
                        assert_int_equal(below, due.action != S3_LIFECYCLE_NOTHING);
                        covered += below;
                        if (due.action == S3_LIFECYCLE_NOTHING)
                                continue;
                        due_count++;
                        assert_true(due.at_ms % DAY_MS == 0 && due.at_ms > version.mtime_ms + due.rule->days * DAY_MS &&
                                    due.at_ms <= version.mtime_ms + (due.rule->days + 1) * DAY_MS);
                }
        }
        assert_true(covered > 100 && due_count > 100);
}

/* ---- x-amz-expiration ------------------------------------------------------------------------ */

static void test_expiration(void **state)
{
        struct s3_lifecycle_rule rule = {.id = S3_STR("a rule/\"1\"")};
        struct s3_lifecycle_due due = {.action = S3_LIFECYCLE_EXPIRE, .at_ms = 1356048000000, .rule = &rule};
        char out[S3_LIFECYCLE_EXPIRATION_SIZE], id[3 * S3_LIFECYCLE_ID_MAX];
        size_t len;

        len = s3_lifecycle_expiration(&due, out);
        assert_int_equal(len, strlen(out));
        assert_string_equal(out, "expiry-date=\"Fri, 21 Dec 2012 00:00:00 GMT\", rule-id=\"a%20rule%2F%221%22\"");
        for (size_t i = 0; i < sizeof(id); i++)
                id[i] = "\xe4\xbd\xa0"[i % 3];
        rule.id = (struct s3_str){id, sizeof(id)};
        len = s3_lifecycle_expiration(&due, out);
        assert_int_equal(len, strlen(out));
        assert_int_equal(len, 13 + 29 + 12 + 3 * sizeof(id) + 1);
        assert_string_equal(out + len - 4, "%A0\"");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_days),       cmocka_unit_test(test_date),     cmocka_unit_test(test_short_days),
                cmocka_unit_test(test_earliest),   cmocka_unit_test(test_disabled), cmocka_unit_test(test_filters),
                cmocka_unit_test(test_noncurrent), cmocka_unit_test(test_newer),    cmocka_unit_test(test_markers),
                cmocka_unit_test(test_uploads),    cmocka_unit_test(test_random),   cmocka_unit_test(test_expiration),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
