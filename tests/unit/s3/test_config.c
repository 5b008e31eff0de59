/*
 * test_config.c - s3/config.c, s3/config_bucket.c, s3/config_lists.c: documents that are kept as
 * they were read. test_cors.c and test_website.c have the other two.
 */
#include "tests/unit/s3/doc_fixture.h"

static void expect_reads(enum s3_doc_kind kind, const char *given, const char *wanted)
{
        struct s3_xml xml;
        char *text;
        size_t len;

        assert_int_equal(read_doc(kind, given), S3_OK);
        s3_xml_init(&xml, 1u << 20);
        s3_config_write(&xml, doc->config, true);
        assert_int_equal(s3_xml_take(&xml, &text, &len), 0);
        expect_str((struct s3_str){text, len}, wanted);
        free(text);
}

static void expect_same(enum s3_doc_kind kind, const char *text)
{
        expect_reads(kind, text, text);
}

#define LOGGING(inside) "<BucketLoggingStatus>" inside "</BucketLoggingStatus>"
#define ENABLED(more)                                                                                                  \
        LOGGING("<LoggingEnabled><TargetBucket>logs</TargetBucket><TargetPrefix>a/</TargetPrefix>" more                \
                "</LoggingEnabled>")

static void test_logging(void **state)
{
        expect_same(S3_DOC_LOGGING, LOGGING(""));
        expect_same(S3_DOC_LOGGING, ENABLED(""));
        expect_same(S3_DOC_LOGGING,
                    ENABLED("<TargetObjectKeyFormat><SimplePrefix></SimplePrefix></TargetObjectKeyFormat>"));
        expect_same(
                S3_DOC_LOGGING,
                ENABLED("<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource>"
                        "</PartitionedPrefix></TargetObjectKeyFormat>"));
        expect_reads(S3_DOC_LOGGING,
                     ENABLED("<TargetGrants><Grant><Grantee xmlns:xsi='http://www.w3.org/2001/XMLSchema-instance' "
                             "xsi:type='Group'><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee>"
                             "<Permission>READ</Permission></Grant></TargetGrants>"),
                     ENABLED("<TargetGrants><Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                             "xsi:type=\"Group\"><URI>http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee>"
                             "<Permission>READ</Permission></Grant></TargetGrants>"));
        expect_refused(S3_DOC_LOGGING, LOGGING("<LoggingEnabled><TargetBucket>b</TargetBucket></LoggingEnabled>"),
                       S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_LOGGING, ENABLED("<TargetObjectKeyFormat/>"), S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_LOGGING,
                       ENABLED("<TargetGrants><Grant><Grantee/><Permission>READ</Permission></Grant></TargetGrants>"),
                       S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_LOGGING, ENABLED("<Other/>"), S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_LOGGING, "", S3_ERR_MISSING_REQUEST_BODY, NULL);
}

#define PUBLIC(inside) "<PublicAccessBlockConfiguration>" inside "</PublicAccessBlockConfiguration>"
#define OWNED(inside)  "<OwnershipControls>" inside "</OwnershipControls>"
#define RULE(word)     "<Rule><ObjectOwnership>" word "</ObjectOwnership></Rule>"

static void test_small(void **state)
{
        static const struct {
                enum s3_doc_kind kind;
                const char *text;
        } malformed[] = {
                {S3_DOC_OWNERSHIP, OWNED("")},
                {S3_DOC_OWNERSHIP, OWNED(RULE("Mine"))},
                {S3_DOC_OWNERSHIP, OWNED(RULE("ObjectWriter") RULE("ObjectWriter"))},
                {S3_DOC_OWNERSHIP, OWNED("<Rule/>")},
                {S3_DOC_OWNERSHIP, PUBLIC("")},
                {S3_DOC_PUBLIC_ACCESS, PUBLIC("<BlockPublicAcls>yes</BlockPublicAcls>")},
                {S3_DOC_PUBLIC_ACCESS,
                 PUBLIC("<BlockPublicAcls>true</BlockPublicAcls><BlockPublicAcls>true</BlockPublicAcls>")},
                {S3_DOC_REQUEST_PAYMENT, "<RequestPaymentConfiguration/>"},
                {S3_DOC_REQUEST_PAYMENT,
                 "<RequestPaymentConfiguration><Payer>Nobody</Payer></RequestPaymentConfiguration>"},
                {S3_DOC_ACCELERATE, "<AccelerateConfiguration/>"},
                {S3_DOC_ACCELERATE, "<AccelerateConfiguration><Status>On</Status></AccelerateConfiguration>"},
                {S3_DOC_NOTIFICATION, "<NotificationConfiguration><Other/></NotificationConfiguration>"},
        };

        expect_same(S3_DOC_OWNERSHIP, OWNED(RULE("ObjectWriter")));
        expect_reads(S3_DOC_PUBLIC_ACCESS, PUBLIC("<BlockPublicAcls> TRUE </BlockPublicAcls>"),
                     PUBLIC("<BlockPublicAcls>true</BlockPublicAcls>"));
        expect_same(S3_DOC_PUBLIC_ACCESS, PUBLIC(""));
        expect_same(S3_DOC_REQUEST_PAYMENT,
                    "<RequestPaymentConfiguration><Payer>Requester</Payer></RequestPaymentConfiguration>");
        expect_same(S3_DOC_ACCELERATE, "<AccelerateConfiguration><Status>Suspended</Status></AccelerateConfiguration>");
        expect_same(S3_DOC_NOTIFICATION, "<NotificationConfiguration></NotificationConfiguration>");
        for (size_t i = 0; i < COUNT(malformed); i++)
                expect_refused(malformed[i].kind, malformed[i].text, S3_ERR_MALFORMED_XML, NULL);
        expect_refused(S3_DOC_NOTIFICATION,
                       "<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>",
                       S3_ERR_NOT_IMPLEMENTED, "Notifications are not implemented.");
}

#define METRICS(inside)  "<MetricsConfiguration>" inside "</MetricsConfiguration>"
#define TAG(key)         "<Tag><Key>" key "</Key><Value>v</Value></Tag>"
#define FILTERED(inside) METRICS("<Id>x</Id><Filter>" inside "</Filter>")
#define TIERING(inside)  "<IntelligentTieringConfiguration>" inside "</IntelligentTieringConfiguration>"
#define TIER(days, tier) "<Tiering><Days>" days "</Days><AccessTier>" tier "</AccessTier></Tiering>"
#define INVENTORY(id, arn)                                                                                             \
        "<InventoryConfiguration><Id>" id                                                                              \
        "</Id><IsEnabled>true</IsEnabled><IncludedObjectVersions>All</IncludedObjectVersions>"                         \
        "<Schedule><Frequency>Daily</Frequency></Schedule><OptionalFields><Field>Size</Field></"                       \
        "OptionalFields><Destination>"                                                                                 \
        "<S3BucketDestination><Bucket>" arn "</Bucket><Format>CSV</Format></S3BucketDestination></Destination>"        \
        "</InventoryConfiguration>"
#define ANALYTICS(inside) "<AnalyticsConfiguration><Id>a</Id>" inside "</AnalyticsConfiguration>"
#define EXPORT(arn)                                                                                                    \
        "<StorageClassAnalysis><DataExport><OutputSchemaVersion>V_1</"                                                 \
        "OutputSchemaVersion><Destination><S3BucketDestination>"                                                       \
        "<Format>CSV</Format><Bucket>" arn                                                                             \
        "</Bucket></S3BucketDestination></Destination></DataExport></StorageClassAnalysis>"

static void test_lists(void **state)
{
        static const struct {
                enum s3_doc_kind kind;
                const char *text;
        } malformed[] = {
                {S3_DOC_METRICS, METRICS("")},
                {S3_DOC_METRICS, FILTERED("")},
                {S3_DOC_METRICS, FILTERED("<Prefix>a</Prefix>" TAG("k"))},
                {S3_DOC_METRICS, FILTERED("<And>" TAG("k") "</And>")},
                {S3_DOC_METRICS, FILTERED("<Tag><Key>k</Key></Tag>")},
                {S3_DOC_ANALYTICS, ANALYTICS("")},
                {S3_DOC_TIERING, TIERING("<Id>x</Id><Status>Enabled</Status>")},
                {S3_DOC_TIERING, TIERING("<Id>x</Id><Status>Enabled</Status>" TIER("90", "ARCHIVE_ACCESS")
                                                 TIER("91", "ARCHIVE_ACCESS"))},
                {S3_DOC_TIERING, TIERING("<Id>x</Id><Status>Enabled</Status>" TIER("many", "ARCHIVE_ACCESS"))},
        };

        expect_same(S3_DOC_METRICS, METRICS("<Id>whole-bucket</Id>"));
        expect_same(S3_DOC_METRICS, FILTERED("<And><Prefix>a</Prefix>" TAG("k") TAG("l") "</And>"));
        expect_same(S3_DOC_INVENTORY, INVENTORY("a.b_c-1", "arn:aws:s3:::reports"));
        expect_same(S3_DOC_ANALYTICS, ANALYTICS("<StorageClassAnalysis></StorageClassAnalysis>"));
        expect_same(S3_DOC_ANALYTICS, ANALYTICS(EXPORT("arn:aws:s3:::reports")));
        expect_same(S3_DOC_TIERING, TIERING("<Id>x</Id><Status>Enabled</Status>" TIER("90", "ARCHIVE_ACCESS")
                                                    TIER("180", "DEEP_ARCHIVE_ACCESS")));
        for (size_t i = 0; i < COUNT(malformed); i++)
                expect_refused(malformed[i].kind, malformed[i].text, S3_ERR_MALFORMED_XML, NULL);
        assert_int_equal(read_doc(S3_DOC_INVENTORY, INVENTORY("a b", "arn:aws:s3:::reports")), S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(read_doc(S3_DOC_INVENTORY, INVENTORY("", "arn:aws:s3:::reports")), S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(read_doc(S3_DOC_INVENTORY, INVENTORY("a", "reports")), S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(read_doc(S3_DOC_ANALYTICS, ANALYTICS(EXPORT("arn:aws:s3:::"))), S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(read_doc(S3_DOC_TIERING,
                                  TIERING("<Id>x</Id><Status>Enabled</Status>" TIER("179", "DEEP_ARCHIVE_ACCESS"))),
                         S3_ERR_INVALID_ARGUMENT);
        assert_int_equal(
                read_doc(S3_DOC_TIERING, TIERING("<Id>x</Id><Status>Enabled</Status>" TIER("731", "ARCHIVE_ACCESS"))),
                S3_ERR_INVALID_ARGUMENT);
}

/* Ids become lines of a store, and parts of them: nothing else may pass. */
static void test_ids(void **state)
{
        char longest[S3_CONFIG_ID_MAX + 2];

        memset(longest, 'a', sizeof(longest));
        assert_true(s3_config_id_valid(S3_STR("Az09-_.")));
        assert_true(s3_config_id_valid((struct s3_str){longest, S3_CONFIG_ID_MAX}));
        assert_false(s3_config_id_valid((struct s3_str){longest, S3_CONFIG_ID_MAX + 1}));
        assert_false(s3_config_id_valid(S3_STR("")));
        assert_false(s3_config_id_valid(S3_STR("a\nb")));
        assert_false(s3_config_id_valid(S3_STR("a/b")));
}

static void test_asking(void **state)
{
        uint32_t filter, and, tag;

        assert_int_equal(read_doc(S3_DOC_METRICS, FILTERED("<And><Prefix>a</Prefix>" TAG("k") TAG("l") "</And>")),
                         S3_OK);
        filter = s3_config_first(doc->config, 0, "Filter");
        and = s3_config_first(doc->config, filter, "And");
        tag = s3_config_first(doc->config, and, "Tag");
        assert_true(s3_str_eq(s3_config_text_of(doc->config, tag, "Key"), S3_STR("k")));
        tag = s3_config_next(doc->config, and, tag, "Tag");
        assert_true(s3_str_eq(s3_config_text_of(doc->config, tag, "Key"), S3_STR("l")));
        assert_int_equal(s3_config_next(doc->config, and, tag, "Tag"), S3_CONFIG_NONE);
        assert_int_equal(s3_config_first(doc->config, 0, "Tag"), S3_CONFIG_NONE); /* only what is directly within */
        assert_null(s3_config_text_of(doc->config, 0, "Other").data);
}

/* A list keeps a configuration in a line: one whose text had line feeds would hide those behind it. */
static void test_one_line(void **state)
{
        static const char with[] = "<MetricsConfiguration><Id>a</Id><Filter><Prefix>\nb &lt;/x&gt;\n\n</Prefix></Filter>"
                                   "</MetricsConfiguration>",
                          in_one[] = "<MetricsConfiguration><Id>a</Id><Filter><Prefix>&#10;b &lt;/x&gt;&#10;&#10;</Prefix>"
                                     "</Filter></MetricsConfiguration>";

        expect_reads(S3_DOC_METRICS, with, in_one);
        expect_same(S3_DOC_METRICS, in_one);
}

static void test_too_large(void **state)
{
        char *text = malloc(128u << 10), *p = stpcpy(text, "<AccelerateConfiguration>");

        while (p - text < 65 << 10)
                p = stpcpy(p, "<!-- -->");
        assert_int_equal(read_doc(S3_DOC_ACCELERATE, text), S3_ERR_MAX_MESSAGE_LENGTH);
        free(text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_logging), cmocka_unit_test(test_small),  cmocka_unit_test(test_lists),
                cmocka_unit_test(test_ids),     cmocka_unit_test(test_asking), cmocka_unit_test(test_one_line),
                cmocka_unit_test(test_too_large),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
