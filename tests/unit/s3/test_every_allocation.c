/*
 * test_every_allocation.c - every allocation of s3/ failed once in turn: the answer is an error,
 * nothing leaks, nothing is half done.
 */
#include "tests/unit/s3/s3_fixture.h"

#include <errno.h>

#include <libxml/parser.h>
#include <openssl/err.h>

#include "s3_json.h"

/*
 * Sanitizers bring their own malloc() and need it before main(): under them everything succeeds,
 * and what is left of this test is that the work itself is clean.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CAN_FAIL false
#else
#define CAN_FAIL true
#endif

/* The allocation number fail_at, counted from 1, fails. live: allocations not yet freed. */
static unsigned fail_at, allocations;
static long live;

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
static bool fails(void)
{
        return fail_at != 0 && ++allocations == fail_at;
}

/* glibc's own functions, behind the names that the functions below take. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *old, size_t size);
void __libc_free(void *ptr);

void *malloc(size_t size)
{
        void *ptr = fails() ? NULL : __libc_malloc(size);

        live += ptr != NULL;
        return ptr;
}

void *calloc(size_t count, size_t size)
{
        void *ptr = fails() ? NULL : __libc_calloc(count, size);

        live += ptr != NULL;
        return ptr;
}

void *realloc(void *old, size_t size)
{
        void *ptr = fails() ? NULL : __libc_realloc(old, size);

        live += ptr != NULL && old == NULL;
        return ptr;
}

void free(void *ptr)
{
        live -= ptr != NULL;
        __libc_free(ptr);
}
#endif

/*
 * libxml2 2.9 does not survive every failed allocation of its own (it writes through a buffer it
 * could not grow), so these succeed while it parses. Those of making a parser may fail.
 */
static bool xml_parsing;

static void *xml_malloc(size_t size)
{
        unsigned was = fail_at;
        void *ptr;

        fail_at = xml_parsing ? 0 : was;
        ptr = malloc(size);
        fail_at = was;
        return ptr;
}

static void *xml_realloc(void *old, size_t size)
{
        unsigned was = fail_at;
        void *ptr;

        fail_at = xml_parsing ? 0 : was;
        ptr = realloc(old, size);
        fail_at = was;
        return ptr;
}

static char *xml_strdup(const char *text)
{
        size_t size = strlen(text) + 1;
        char *copy = xml_malloc(size);

        return copy != NULL ? memcpy(copy, text, size) : NULL;
}

static void xml_free(void *ptr)
{
        free(ptr);
}

/* ---- the sweep ------------------------------------------------------------------------------- */

static bool xml_allocates; /* the work reads XML */

/*
 * Runs work with the first, second, ... allocation failing until it needs no more of them. It
 * returns 0 when it succeeded, -ENOMEM when it reported the failure.
 */
static void sweep(int (*work)(void))
{
        unsigned failed = 0;
        long before;
        int rv;

        assert_int_equal(work(), 0); /* what libraries allocate once is there afterwards */
        for (unsigned n = 1;; n++) {
                /*
                 * Twice: libraries keep something about the first failure of a kind, and no more
                 * about the second.
                 */
                for (unsigned again = 0; again < 2; again++) {
                        allocations = 0;
                        before = live;
                        fail_at = n;
                        rv = work();
                        fail_at = 0;
                        ERR_clear_error(); /* OpenSSL queues what went wrong */
                }
                assert_int_equal(live, before);
                if (allocations < n)
                        break;
                if (rv != 0) {
                        /*
                         * libxml2 calls some of its own failed allocations a malformed document:
                         * refused all the same
                         */
                        assert_true(rv == -ENOMEM || (xml_allocates && rv == -EINVAL));
                        failed++;
                }
        }
        assert_int_equal(rv, 0);
        assert_true(failed > 0 || !CAN_FAIL);
}

static int errno_of(enum s3_error error)
{
        return error == S3_OK ? 0 : error == S3_ERR_INTERNAL_ERROR ? -ENOMEM : -EINVAL;
}

static int work_sums(void)
{
        struct s3_sums *sums;
        int rv = s3_sums_new(S3_CHECKSUM_BIT(S3_CHECKSUM_KINDS) - 1, &sums);

        if (rv == 0)
                s3_sums_free(sums);
        return rv;
}

static int work_parts(void)
{
        struct s3_parts_sum *sum;
        int rv = s3_parts_sum_new(S3_SHA256, S3_COMPOSITE, &sum);

        if (rv == 0)
                s3_parts_sum_free(sum);
        return rv;
}

static int work_chunked(void)
{
        struct s3_chunked_params params = {
                .form = S3_PAYLOAD_UNSIGNED_TRAILER, .decoded_length = 5, .trailers = S3_STR("x-amz-checksum-crc32")};
        struct s3_str in = S3_STR("5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n"), data;
        struct s3_chunked *dec;
        enum s3_error error = s3_chunked_new(&params, &dec);

        if (error != S3_OK)
                return errno_of(error);
        while (error == S3_OK && in.len > 0)
                error = s3_chunked_next(dec, &in, &data);
        if (error == S3_OK)
                error = s3_chunked_finish(dec);
        else
                assert_int_equal(s3_chunked_next(dec, &in, &data), error);
        s3_chunked_free(dec);
        return errno_of(error);
}

static int work_doc(enum s3_doc_kind kind, const char *text, unsigned count)
{
        xml_allocates = true;

        struct s3_doc *doc;
        int rv;

        rv = s3_doc_new(kind, &doc);
        if (rv != 0)
                return rv;
        xml_parsing = true;
        rv = errno_of(s3_doc_feed(doc, text, strlen(text)));
        if (rv == 0)
                rv = errno_of(s3_doc_finish(doc));
        xml_parsing = false;
        if (rv == 0)
                assert_int_equal(doc->object_count + doc->part_count, count);
        s3_doc_free(doc);
        return rv;
}

static char long_text[200 << 10];

static int work_delete(void)
{
        return work_doc(S3_DOC_DELETE, long_text, 200);
}

static int work_complete(void)
{
        return work_doc(S3_DOC_COMPLETE_UPLOAD,
                        "<CompleteMultipartUpload xmlns='" S3_XML_NAMESPACE "'><Part>"
                        "<PartNumber>1</PartNumber><ETag>5d41402abc4b2a76b9719d911017c592</ETag>"
                        "<ChecksumCRC32>NhCmhg==</ChecksumCRC32></Part></CompleteMultipartUpload>",
                        1);
}

static int work_create(void)
{
        return work_doc(S3_DOC_CREATE_BUCKET,
                        "<CreateBucketConfiguration><LocationConstraint>x</LocationConstraint>"
                        "<Tags><Tag><Key>a</Key><Value>b</Value></Tag></Tags></CreateBucketConfiguration>",
                        0);
}

static int work_read(void)
{
        struct s3_doc *doc;
        enum s3_error error;

        xml_allocates = true;
        error = s3_doc_read(S3_DOC_LEGAL_HOLD, S3_STR(""), &doc);
        s3_doc_free(doc);
        return error == S3_ERR_MISSING_REQUEST_BODY ? 0 : errno_of(error);
}

static int work_tagging(void)
{
        return work_doc(S3_DOC_BUCKET_TAGGING,
                        "<Tagging><TagSet><Tag><Key>a</Key><Value>1</Value></Tag></TagSet></Tagging>", 0);
}

/* Many rules, with and without ids and tags, so that every table grows. */
static int work_lifecycle(void)
{
        return work_doc(S3_DOC_LIFECYCLE, long_text, 0);
}

/* More elements than the first table has room for, a message, and what was read written again. */
static int work_config(void)
{
        char text[4096], *p = stpcpy(text, "<CORSConfiguration>");
        struct s3_xml xml;
        struct s3_doc *doc;
        int rv;

        for (unsigned i = 0; i < 20; i++)
                p = stpcpy(p, "<CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin></CORSRule>");
        strcpy(p, "</CORSConfiguration>");
        rv = work_doc(S3_DOC_CORS, text, 0);
        if (rv != 0 || s3_doc_new(S3_DOC_CORS, &doc) != 0)
                return rv != 0 ? rv : -ENOMEM;
        xml_parsing = true;
        rv = errno_of(s3_doc_feed(doc, text, strlen(text)));
        if (rv == 0)
                rv = errno_of(s3_doc_finish(doc));
        xml_parsing = false;
        s3_xml_init(&xml, 1 << 20);
        if (rv == 0) {
                s3_config_write(&xml, doc->config, false);
                rv = xml.error;
        }
        s3_xml_free(&xml);
        s3_doc_free(doc);
        return rv;
}

static int work_writer(void)
{
        struct s3_xml xml;
        char *text;
        size_t len;
        int rv;

        s3_xml_init(&xml, 1 << 20);
        for (unsigned i = 0; i < 10; i++)
                s3_xml_textz(&xml, "Key", "value");
        s3_xml_text(&xml, "Long", (struct s3_str){long_text, 100 << 10});
        s3_xml_key(&xml, "Key", S3_STR("\xc3\xa9\xc3\xa9"), true);
        rv = s3_xml_take(&xml, &text, &len);
        if (rv == 0)
                free(text);
        s3_xml_free(&xml);
        return rv;
}

static void test_sums(void **state)
{
        sweep(work_sums);
        sweep(work_parts);
}

static void test_chunked(void **state)
{
        sweep(work_chunked);
}

static void test_documents(void **state)
{
        size_t used = (size_t)snprintf(long_text, sizeof(long_text), "<Delete>");

        for (unsigned i = 0; i < 200; i++)
                used += (size_t)snprintf(long_text + used, sizeof(long_text) - used,
                                         "<Object><Key>%0500u</Key><VersionId>v</VersionId></Object>", i);
        snprintf(long_text + used, sizeof(long_text) - used, "</Delete>");
        sweep(work_delete);
        sweep(work_complete);
        sweep(work_create);
        sweep(work_config);
}

static void test_configurations(void **state)
{
        size_t used = (size_t)snprintf(long_text, sizeof(long_text), "<LifecycleConfiguration>");

        for (unsigned i = 0; i < 100; i++)
                used += (size_t)snprintf(
                        long_text + used, sizeof(long_text) - used,
                        "<Rule><ID>%.*u</ID><Status>Enabled</Status><Filter><And><Prefix>%0200u</Prefix><Tag>"
                        "<Key>k</Key><Value>v</Value></Tag></And></Filter>"
                        "<Expiration><Days>1</Days></Expiration></Rule>",
                        i % 2 == 0 ? 0 : 3, i % 2 == 0 ? 0 : i, i);
        snprintf(long_text + used, sizeof(long_text) - used, "</LifecycleConfiguration>");
        sweep(work_read);
        sweep(work_tagging);
        sweep(work_lifecycle);
}

/* Long strings are collected in pieces of memory: each of their bytes is there, or there is no document. */
static int work_json(void)
{
        static const char text[] = "{\"resource-of-the-policy-as-it-is-called\": "
                                   "\"arn:aws:s3:::bucket/private/logs/*\", "
                                   "\"number\": 123456789012345678}";
        json_t *json = s3_json_load(s3_str_of(text), JSON_REJECT_DUPLICATES, NULL);
        int rv = json != NULL ? 0 : -errno;

        if (json != NULL) {
                assert_string_equal(
                        json_string_value(json_object_get(json, "resource-of-the-policy-as-it-is-called")),
                        "arn:aws:s3:::bucket/private/logs/*");
                assert_int_equal(json_integer_value(json_object_get(json, "number")), 123456789012345678);
        }
        json_decref(json);
        return rv;
}

static void test_json(void **state)
{
        sweep(work_json);
        assert_null(s3_json_load(S3_STR("{\"a\": "), 0, NULL));
        assert_int_equal(errno, EBADMSG);
        assert_null(s3_json_load((struct s3_str){NULL, 0}, 0, NULL));
        assert_int_equal(errno, EBADMSG);
}

static void test_writer(void **state)
{
        sweep(work_writer);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sums),           cmocka_unit_test(test_chunked), cmocka_unit_test(test_documents),
                cmocka_unit_test(test_configurations), cmocka_unit_test(test_writer),
                cmocka_unit_test(test_json),
        };

        assert_int_equal(xmlMemSetup(xml_free, xml_malloc, xml_realloc, xml_strdup), 0);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
