/*
 * test_docs.c - s3/docs.c: CompleteMultipartUpload, Delete, CreateBucketConfiguration.
 */
#include "tests/unit/s3/doc_fixture.h"

#include <pthread.h>

static void expect_error(enum s3_doc_kind kind, const char *text, enum s3_error wanted)
{
        enum s3_error error = read_doc(kind, text);

        if (error != wanted)
                fail_msg("%s: %s, wanted %s", text, s3_error_info(error)->code, s3_error_info(wanted)->code);
}

/* ---- CompleteMultipartUpload ----------------------------------------------------------------- */

#define ETAG               "5d41402abc4b2a76b9719d911017c592"
#define PART(number, rest) "<Part><PartNumber>" number "</PartNumber>" rest "</Part>"
#define GOOD(number)       PART(number, "<ETag>" ETAG "</ETag>")
#define COMPLETE(inside)   "<CompleteMultipartUpload>" inside "</CompleteMultipartUpload>"

static void test_complete(void **state)
{
        assert_int_equal(
                read_doc(S3_DOC_COMPLETE_UPLOAD,
                         "<?xml version=\"1.0\"?>\n<CompleteMultipartUpload xmlns=\"" S3_XML_NAMESPACE "\">\n"
                         " <Part>\n  <ETag>&quot;" ETAG "&quot;</ETag>\n  <PartNumber> 2 </PartNumber>\n"
                         "  <ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>\n </Part>\n"
                         " <Part><PartNumber>5</PartNumber><ETag>\n\"" ETAG "\"\n</ETag>"
                         "<ChecksumSHA256>FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=</ChecksumSHA256></Part>" GOOD(
                                 "10000") "</CompleteMultipartUpload>"),
                S3_OK);
        assert_int_equal(doc->part_count, 3);
        assert_int_equal(doc->parts[0].number, 2);
        assert_true(doc->parts[0].etag_known);
        assert_memory_equal(doc->parts[0].md5, "\x5d\x41\x40\x2a\xbc\x4b\x2a\x76\xb9\x71\x9d\x91\x10\x17\xc5\x92", 16);
        assert_int_equal(doc->parts[0].checksum_mask, S3_CHECKSUM_BIT(S3_CRC32));
        assert_memory_equal(doc->parts[0].checksum[S3_CRC32], "\xcb\xf4\x39\x26", 4);
        assert_int_equal(doc->parts[1].number, 5);
        assert_int_equal(doc->parts[1].checksum_mask, S3_CHECKSUM_BIT(S3_SHA256));
        assert_int_equal(doc->parts[1].checksum[S3_SHA256][31], 0x25);
        assert_int_equal(doc->parts[2].number, 10000);
        assert_int_equal(doc->parts[2].checksum_mask, 0);
}

static void test_complete_etags(void **state)
{
        assert_int_equal(read_doc(S3_DOC_COMPLETE_UPLOAD, COMPLETE(PART("1", "<ETag> &quot;nonsense&quot; </ETag>"))),
                         S3_OK);
        assert_false(doc->parts[0].etag_known);
        expect_str(doc->parts[0].etag, "\"nonsense\"");
        assert_int_equal(read_doc(S3_DOC_COMPLETE_UPLOAD, COMPLETE(PART("1", "<ETag>" ETAG "</ETag>"))), S3_OK);
        assert_true(doc->parts[0].etag_known);
        assert_null(doc->parts[0].etag.data);
        assert_int_equal(read_doc(S3_DOC_COMPLETE_UPLOAD, COMPLETE(PART("1", "<ETag/>"))), S3_OK);
        assert_false(doc->parts[0].etag_known);
        assert_int_equal(read_doc(S3_DOC_COMPLETE_UPLOAD, COMPLETE(PART("1", "<ETag>" ETAG "-2</ETag>"))), S3_OK);
        assert_false(doc->parts[0].etag_known);
}

static void test_complete_refused(void **state)
{
        static const struct {
                const char *text;
                enum s3_error error;
        } cases[] = {
                {"", S3_ERR_MALFORMED_XML},
                {COMPLETE(""), S3_ERR_MALFORMED_XML},
                {"<Other/>", S3_ERR_MALFORMED_XML},
                {"<Delete>" GOOD("1") "</Delete>", S3_ERR_MALFORMED_XML},
                {COMPLETE(GOOD("2") GOOD("1")), S3_ERR_INVALID_PART_ORDER},
                {COMPLETE(GOOD("2") GOOD("2")), S3_ERR_INVALID_PART_ORDER},
                {COMPLETE(GOOD("0")), S3_ERR_INVALID_ARGUMENT},
                {COMPLETE(GOOD("-1")), S3_ERR_INVALID_ARGUMENT},
                {COMPLETE(GOOD("-99999999999999999999999")), S3_ERR_INVALID_ARGUMENT},
                {COMPLETE(GOOD("10001")), S3_ERR_INVALID_ARGUMENT},
                {COMPLETE(GOOD("99999999999999999999999")), S3_ERR_INVALID_ARGUMENT},
                {COMPLETE(GOOD("one")), S3_ERR_MALFORMED_XML},
                {COMPLETE(GOOD("-")), S3_ERR_MALFORMED_XML},
                {COMPLETE(GOOD("")), S3_ERR_MALFORMED_XML},
                {COMPLETE(GOOD("1.0")), S3_ERR_MALFORMED_XML},
                {COMPLETE(GOOD("<x>1</x>")), S3_ERR_MALFORMED_XML},
                {COMPLETE("<Part/>"), S3_ERR_MALFORMED_XML},
                {COMPLETE(PART("1", "")), S3_ERR_MALFORMED_XML},
                {COMPLETE("<Part><ETag>" ETAG "</ETag></Part>"), S3_ERR_MALFORMED_XML},
                {COMPLETE(PART("1", "<PartNumber>2</PartNumber><ETag>" ETAG "</ETag>")), S3_ERR_MALFORMED_XML},
                {COMPLETE(PART("1", "<ETag>" ETAG "</ETag><ETag>" ETAG "</ETag>")), S3_ERR_MALFORMED_XML},
                {COMPLETE(PART("1", "<ETag>" ETAG "</ETag><Size>5</Size>")), S3_ERR_MALFORMED_XML},
                {COMPLETE("<Extra/>" GOOD("1")), S3_ERR_MALFORMED_XML},
                {COMPLETE(PART("1", "<ETag>" ETAG "</ETag><ChecksumCRC32>AAAA</ChecksumCRC32>")),
                 S3_ERR_INVALID_ARGUMENT},
                {COMPLETE(PART("1", "<ETag>" ETAG "</ETag><ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>"
                                    "<ChecksumCRC32C>y/Q5Jg==</ChecksumCRC32C>")),
                 S3_ERR_INVALID_ARGUMENT},
                {COMPLETE(PART("1", "<ETag>" ETAG "</ETag><ChecksumMD4>AAAA</ChecksumMD4>")),
                 S3_ERR_NOT_IMPLEMENTED},
                {COMPLETE(GOOD("1")) "x", S3_ERR_MALFORMED_XML},
                {"<CompleteMultipartUpload>" GOOD("1"), S3_ERR_MALFORMED_XML},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_error(S3_DOC_COMPLETE_UPLOAD, cases[i].text, cases[i].error);
        expect_error(S3_DOC_COMPLETE_UPLOAD, COMPLETE(""), S3_ERR_MALFORMED_XML);
}

static void test_ten_thousand_parts(void **state)
{
        size_t cap = 4u << 20, used = 0;
        char *text = malloc(cap);

        assert_non_null(text);
        used += (size_t)snprintf(text, cap, "<CompleteMultipartUpload>");
        for (unsigned i = 1; i <= S3_PARTS_MAX; i++)
                used += (size_t)snprintf(text + used, cap - used,
                                         "<Part><PartNumber>%u</PartNumber><ETag>\"%032x\"</ETag><ChecksumSHA256>"
                                         "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=</ChecksumSHA256></Part>\n",
                                         i, i);
        snprintf(text + used, cap - used, "</CompleteMultipartUpload>");
        assert_int_equal(read_doc(S3_DOC_COMPLETE_UPLOAD, text), S3_OK);
        assert_int_equal(doc->part_count, S3_PARTS_MAX);
        for (unsigned i = 0; i < S3_PARTS_MAX; i++) {
                assert_int_equal(doc->parts[i].number, i + 1);
                assert_int_equal(doc->parts[i].md5[15] + 256 * doc->parts[i].md5[14], i + 1);
                assert_int_equal(doc->parts[i].checksum[S3_SHA256][0], 0x15);
        }
        free(text);
}

/* ---- Delete ---------------------------------------------------------------------------------- */

#define DELETE(inside) "<Delete>" inside "</Delete>"
#define OBJECT(inside) "<Object>" inside "</Object>"

static void test_delete(void **state)
{
        struct s3_delete_object *o;

        assert_int_equal(read_doc(S3_DOC_DELETE,
                                  "<Delete xmlns='" S3_XML_NAMESPACE
                                  "'><Quiet> True </Quiet>" OBJECT("<Key> a&amp;b&#xD;&#xA;\t &lt;\xc3\xbc> </Key>")
                                          OBJECT("<Key>k</Key><VersionId> null </VersionId><ETag>\"e\"</ETag>"
                                                 "<LastModifiedTime>Tue, 14 Nov 2023 22:13:20 GMT</LastModifiedTime>"
                                                 "<Size>4</Size>")
                                                  OBJECT("<Key>i</Key><LastModifiedTime>2023-11-14T22:13:20.500Z</"
                                                         "LastModifiedTime>") "</Delete>"),
                         S3_OK);
        assert_true(doc->quiet);
        assert_int_equal(doc->object_count, 3);
        o = doc->objects;
        expect_str(o[0].key, " a&b\r\n\t <\xc3\xbc> ");
        assert_null(o[0].version_id.data);
        assert_null(o[0].etag.data);
        assert_false(o[0].has_time || o[0].has_size);
        expect_str(o[1].key, "k");
        expect_str(o[1].version_id, "null");
        expect_str(o[1].etag, "\"e\"");
        assert_true(o[1].has_time && o[1].has_size);
        assert_true(o[1].time_ms == 1700000000000 && o[1].size == 4);
        assert_true(o[2].has_time && o[2].time_ms == 1700000000500);
        assert_int_equal(read_doc(S3_DOC_DELETE, DELETE(OBJECT("<Key>a</Key>") "<Quiet>false</Quiet>")), S3_OK);
        assert_false(doc->quiet);
}

static void test_delete_refused(void **state)
{
        static const struct {
                const char *text;
                enum s3_error error;
        } cases[] = {
                {"", S3_ERR_MALFORMED_XML},
                {"<Delete/>", S3_ERR_MALFORMED_XML},
                {DELETE("<Quiet>true</Quiet>"), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key/>")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key>a</Key><Key>b</Key>")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<VersionId>a</VersionId>")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key>a</Key><VersionId>1</VersionId><VersionId>1</VersionId>")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key>a</Key><ETag>1</ETag><ETag>1</ETag>")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key>a</Key><Size>1</Size><Size>1</Size>")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key>a</Key><Size>many</Size>")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key>a</Key><LastModifiedTime>now</LastModifiedTime>")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key>a</Key><LastModifiedTime>2023-11-14T22:13:20Z</LastModifiedTime>"
                               "<LastModifiedTime>2023-11-14T22:13:20Z</LastModifiedTime>")),
                 S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key>a</Key><Unknown>x</Unknown>")), S3_ERR_MALFORMED_XML},
                {DELETE(OBJECT("<Key>a<b/></Key>")), S3_ERR_MALFORMED_XML},
                {DELETE("<Quiet>maybe</Quiet>" OBJECT("<Key>a</Key>")), S3_ERR_MALFORMED_XML},
                {DELETE("<Quiet>true</Quiet><Quiet>true</Quiet>" OBJECT("<Key>a</Key>")), S3_ERR_MALFORMED_XML},
                {DELETE("<Quiet>true</Quiet>" OBJECT("<Key>a</Key>") "<Quiet>true</Quiet>"), S3_ERR_MALFORMED_XML},
                {DELETE("<Quiet><Key>a</Key></Quiet>" OBJECT("<Key>a</Key>")), S3_ERR_MALFORMED_XML},
                {DELETE("<Thing>" OBJECT("<Key>a</Key>") "</Thing>"), S3_ERR_MALFORMED_XML},
                {DELETE("<Key>a</Key>"), S3_ERR_MALFORMED_XML},
                {"<!DOCTYPE d [<!ENTITY x 'k'>]>" DELETE(OBJECT("<Key>&x;</Key>")), S3_ERR_MALFORMED_XML},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_error(S3_DOC_DELETE, cases[i].text, cases[i].error);
}

/* A thousand of the longest keys, each byte an entity; one more key or one more byte is refused. */
static void test_thousand_keys(void **state)
{
        size_t cap = S3_XML_BODY_MAX, used = 0;
        char *text = malloc(cap);

        assert_non_null(text);
        used += (size_t)snprintf(text, cap, "<Delete>");
        for (unsigned i = 0; i < S3_DELETE_MAX; i++) {
                used += (size_t)snprintf(text + used, cap - used, "<Object><Key>%04u", i);
                for (unsigned j = 4; j < S3_KEY_MAX; j++) {
                        memcpy(text + used, "&amp;", 5);
                        used += 5;
                }
                used += (size_t)snprintf(text + used, cap - used, "</Key></Object>");
        }
        snprintf(text + used, cap - used, "</Delete>");
        assert_int_equal(read_doc(S3_DOC_DELETE, text), S3_OK);
        assert_int_equal(doc->object_count, S3_DELETE_MAX);
        assert_int_equal(doc->objects[999].key.len, S3_KEY_MAX);
        assert_memory_equal(doc->objects[999].key.data, "0999&&", 6);
        snprintf(text + used, cap - used, "<Object><Key>k</Key></Object></Delete>");
        assert_int_equal(read_doc(S3_DOC_DELETE, text), S3_ERR_MALFORMED_XML);
        used = (size_t)snprintf(text, cap, "<Delete><Object><Key>");
        memset(text + used, 'k', S3_KEY_MAX + 1);
        snprintf(text + used + S3_KEY_MAX + 1, 100, "</Key></Object></Delete>");
        assert_int_equal(read_doc(S3_DOC_DELETE, text), S3_ERR_KEY_TOO_LONG);
        free(text);
}

/* ---- CreateBucketConfiguration --------------------------------------------------------------- */

#define CREATE(inside) "<CreateBucketConfiguration>" inside "</CreateBucketConfiguration>"

static void test_create_bucket(void **state)
{
        assert_int_equal(read_doc(S3_DOC_CREATE_BUCKET, ""), S3_OK);
        assert_null(doc->location.data);
        assert_int_equal(read_doc(S3_DOC_CREATE_BUCKET, CREATE("")), S3_OK);
        assert_null(doc->location.data);
        assert_int_equal(read_doc(S3_DOC_CREATE_BUCKET,
                                  "<CreateBucketConfiguration xmlns=\"" S3_XML_NAMESPACE "\">\n<LocationConstraint>\n"
                                  "eu-west-1 </LocationConstraint></CreateBucketConfiguration>"),
                         S3_OK);
        expect_str(doc->location, "eu-west-1");
        assert_int_equal(read_doc(S3_DOC_CREATE_BUCKET, CREATE("<LocationConstraint/>")), S3_OK);
        assert_non_null(doc->location.data);
        assert_int_equal(doc->location.len, 0);
        expect_error(S3_DOC_CREATE_BUCKET, "<Other/>", S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET, " ", S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Else/>"), S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<LocationConstraint><a/></LocationConstraint>"),
                     S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET,
                     CREATE("<LocationConstraint>a</LocationConstraint><LocationConstraint>a"
                            "</LocationConstraint>"),
                     S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Location><Name>x</Name></Location>"), S3_ERR_NOT_IMPLEMENTED);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Bucket><Type>Directory</Type></Bucket>"), S3_ERR_NOT_IMPLEMENTED);
}

#define NEW_TAG(key, value) "<Tag><Key>" key "</Key><Value>" value "</Value></Tag>"

static void test_create_bucket_tags(void **state)
{
        char many[51 * 64] = "";

        assert_int_equal(read_doc(S3_DOC_CREATE_BUCKET, CREATE("<Tags>" NEW_TAG("a", "1") NEW_TAG(" b ", "") "</Tags>"
                                                               "<LocationConstraint>eu-west-1</LocationConstraint>")),
                         S3_OK);
        expect_str(doc->location, "eu-west-1");
        assert_int_equal(doc->tags.count, 2);
        expect_str(doc->tags.tag[0].key, "a");
        expect_str(doc->tags.tag[0].value, "1");
        expect_str(doc->tags.tag[1].key, " b ");
        assert_int_equal(doc->tags.tag[1].value.len, 0);
        assert_int_equal(read_doc(S3_DOC_CREATE_BUCKET, CREATE("<Tags/>")), S3_OK);
        assert_int_equal(doc->tags.count, 0);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Tags><Tag/></Tags>"), S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Tags><Tag><Key>a</Key></Tag></Tags>"), S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Tags><Else/></Tags>"), S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Tags/><Tags/>"), S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Tag><Key>a</Key><Value>b</Value></Tag>"), S3_ERR_MALFORMED_XML);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Tags>" NEW_TAG("a", "1") NEW_TAG("a", "2") "</Tags>"), S3_ERR_INVALID_TAG);
        expect_error(S3_DOC_CREATE_BUCKET, CREATE("<Tags>" NEW_TAG("aws:a", "1") "</Tags>"), S3_ERR_INVALID_TAG);
        strcpy(many, "<CreateBucketConfiguration><Tags>");
        for (unsigned i = 0; i < S3_TAGS_MAX; i++)
                sprintf(many + strlen(many), NEW_TAG("%u", ""), i);
        strcat(many, "</Tags></CreateBucketConfiguration>");
        assert_int_equal(read_doc(S3_DOC_CREATE_BUCKET, many), S3_OK);
        assert_int_equal(doc->tags.count, S3_TAGS_MAX);
        strcpy(strstr(many, "</Tags>"), NEW_TAG("more", "") "</Tags></CreateBucketConfiguration>");
        expect_error(S3_DOC_CREATE_BUCKET, many, S3_ERR_BAD_REQUEST);
}

/* Loops read their first documents at the same time. */
static void *read_many(void *arg)
{
        static const char text[] = "<Delete><Object><Key>k&amp;</Key></Object><Quiet>true</Quiet></Delete>";

        for (unsigned i = 0; i < 200; i++) {
                struct s3_doc *mine;

                if (s3_doc_new(S3_DOC_DELETE, &mine) != 0 || s3_doc_feed(mine, text, sizeof(text) - 1) != S3_OK ||
                    s3_doc_finish(mine) != S3_OK || mine->object_count != 1)
                        return arg;
                s3_doc_free(mine);
        }
        return NULL;
}

static char failed_mark[] = "failed";

static void test_threads(void **state)
{
        pthread_t threads[4];
        void *failed;

        for (size_t i = 0; i < COUNT(threads); i++)
                assert_int_equal(pthread_create(&threads[i], NULL, read_many, failed_mark), 0);
        for (size_t i = 0; i < COUNT(threads); i++) {
                assert_int_equal(pthread_join(threads[i], &failed), 0);
                assert_null(failed);
        }
}

/* Any configuration: what has text is kept, up to a bound, and everything is counted. */
static void test_config(void **state)
{
        static char many[4096];
        size_t used = (size_t)snprintf(many, sizeof(many), "<a>");

        assert_int_equal(read_doc(S3_DOC_CONFIG, ""), S3_OK);
        assert_true(doc->empty);
        assert_int_equal(read_doc(S3_DOC_CONFIG, "<a xmlns='n'> <b>\n<c> x&amp;y </c><d/></b>text</a>"), S3_OK);
        assert_false(doc->empty);
        assert_int_equal(doc->elements, 3);
        assert_int_equal(doc->leaf_count, 1);
        expect_str(doc->leaf[0].name, "c");
        expect_str(doc->leaf[0].value, "x&y");
        for (unsigned i = 0; i < 2 * S3_DOC_LEAVES_MAX; i++)
                used += (size_t)snprintf(many + used, sizeof(many) - used, "<l>%u</l>", i);
        snprintf(many + used, sizeof(many) - used, "</a>");
        assert_int_equal(read_doc(S3_DOC_CONFIG, many), S3_OK);
        assert_int_equal(doc->elements, 2 * S3_DOC_LEAVES_MAX);
        assert_int_equal(doc->leaf_count, S3_DOC_LEAVES_MAX);
        assert_int_equal(read_doc(S3_DOC_CONFIG, "<a><b></a>"), S3_ERR_MALFORMED_XML);
        assert_int_equal(read_doc(S3_DOC_CONFIG, "x"), S3_ERR_MALFORMED_XML);
}

static void test_too_long(void **state)
{
        size_t len = S3_XML_BODY_MAX + 1;
        char *text = malloc(len + 1);

        assert_non_null(text);
        memset(text, ' ', len);
        memcpy(text, "<Delete><Object><Key>k</Key></Object>", 37);
        text[len] = '\0';
        assert_int_equal(read_doc(S3_DOC_DELETE, text), S3_ERR_MAX_MESSAGE_LENGTH);
        memcpy(text + len - 1 - 9, "</Delete>", 10);
        assert_int_equal(read_doc(S3_DOC_DELETE, text), S3_OK);
        free(text);
        s3_doc_free(NULL);
}

/* In one piece; a kind with a schema has its own bound, and refuses an empty body. */
static void test_read(void **state)
{
        static char spaces[20 << 10];
        struct s3_doc *read;

        assert_int_equal(s3_doc_read(S3_DOC_DELETE, S3_STR("<Delete><Object><Key>k</Key></Object></Delete>"), &read),
                         S3_OK);
        expect_str(read->objects[0].key, "k");
        assert_null(s3_doc_take_lifecycle(read));
        s3_doc_free(read);
        assert_int_equal(s3_doc_read(S3_DOC_DELETE, S3_STR("<Delete>"), &read), S3_ERR_MALFORMED_XML);
        s3_doc_free(read);
        assert_int_equal(s3_doc_read(S3_DOC_RETENTION, S3_STR(""), &read), S3_ERR_MISSING_REQUEST_BODY);
        s3_doc_free(read);
        memset(spaces, ' ', sizeof(spaces));
        assert_int_equal(s3_doc_read(S3_DOC_RETENTION, (struct s3_str){spaces, sizeof(spaces)}, &read),
                         S3_ERR_MAX_MESSAGE_LENGTH);
        s3_doc_free(read);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_threads), /* first: nobody has used the parser yet */
                cmocka_unit_test(test_complete),
                cmocka_unit_test(test_complete_etags),
                cmocka_unit_test(test_complete_refused),
                cmocka_unit_test(test_ten_thousand_parts),
                cmocka_unit_test(test_delete),
                cmocka_unit_test(test_delete_refused),
                cmocka_unit_test(test_thousand_keys),
                cmocka_unit_test(test_create_bucket),
                cmocka_unit_test(test_create_bucket_tags),
                cmocka_unit_test(test_config),
                cmocka_unit_test(test_too_long),
                cmocka_unit_test(test_read),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, teardown);
}
