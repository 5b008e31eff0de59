/*
 * gateway/s3/op_bucket.c, op_list.c, op_list_uploads.c and op_delete.c over an engine that is slow
 * or fails. What goes well is tested against the real engine, over S3.
 */
#include "gateway/s3/meta.h"
#include "tests/unit/gateway/ops_fixture.h"

/* ---- buckets --------------------------------------------------------------------------------- */

static void an_engine_that_is_not_ready_does_not_look_empty(void **state)
{
        int fd = dial();

        fake.bucket_rv = -EHOSTDOWN;
        refused(fd, "GET", "/", NULL, 503, "ServiceUnavailable");
        refused(fd, "GET", "/bucket", NULL, 503, "ServiceUnavailable");
        refused(fd, "GET", "/bucket/key", NULL, 503, "ServiceUnavailable");
        fake.bucket_rv = 0;
        refused(fd, "GET", "/nobucket", NULL, 404, "NoSuchBucket");
        refused(fd, "DELETE", "/bucket", NULL, 409, "BucketNotEmpty");
        ask(fd, "PUT", "/bucket", NULL, 0, NULL, NULL);
        expect(fd, 200, NULL); /* its owner, in us-east-1 */
        close(fd);
}

static void headers_that_would_make_another_bucket(void **state)
{
        static const struct s3_header headers[] = {
                {S3_STR("x-amz-acl"), S3_STR("log-delivery-write")},
                {S3_STR("x-amz-acl"), S3_STR("public-read")},
        };
        int fd = dial();

        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
                ask(fd, "PUT", "/another", &headers[i], 1, NULL, NULL);
                expect(fd, 400, "InvalidBucketAclWithObjectOwnership");
        }
        assert_int_equal(fake.bucket_count, 1);
        close(fd);
}

/* A bucket that has the name by then may be somebody else's: the one that the gate let in is meant, or the one that was made. */
static void buckets_are_deleted_by_their_ids(void **state)
{
        static const struct s3_header writer = {S3_STR("x-amz-object-ownership"), S3_STR("ObjectWriter")};
        int fd = dial();

        fake.buckets[0].id = 77;
        refused(fd, "DELETE", "/bucket", NULL, 409, "BucketNotEmpty");
        assert_int_equal(fake.bucket_deleted, 77);
        fake.update_rv = -EIDRM; /* somebody has deleted it before it got its ownership */
        ask(fd, "PUT", "/another", &writer, 1, NULL, NULL);
        expect(fd, 404, "NoSuchBucket");
        assert_int_equal(fake.bucket_deleted, 2);
        close(fd);
}

#define LOCATION(region) "<CreateBucketConfiguration><LocationConstraint>" region "</LocationConstraint></CreateBucketConfiguration>"

/* Only us-east-1 lets its owner create a bucket again, and only it has no name. */
static void a_region_that_has_a_name(void **state)
{
        struct answer a;
        int fd;

        site_region = "eu-west-3";
        site_open(NULL);
        fd = dial();
        refused(fd, "PUT", "/bucket", LOCATION("eu-west-3"), 409, "BucketAlreadyOwnedByYou");
        refused(fd, "PUT", "/another", LOCATION("us-west-1"), 400, "IllegalLocationConstraintException");
        refused(fd, "PUT", "/another", NULL, 400, "IllegalLocationConstraintException");
        refused(fd, "PUT", "/another", LOCATION("EU"), 400, "IllegalLocationConstraintException");
        refused(fd, "PUT", "/another", LOCATION(""), 400, "InvalidLocationConstraint");
        ask(fd, "PUT", "/another", NULL, 0, NULL, LOCATION("eu-west-3"));
        expect(fd, 200, NULL);
        ask(fd, "GET", "/bucket?location", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        has(&a, ">eu-west-3</LocationConstraint>");
        answer_free(&a);
        refused(fd, "GET", "/?continuation-token=x", NULL, 400, "InvalidArgument");
        refused(fd, "GET", "/?max-buckets=0", NULL, 400, "InvalidArgument");
        ask(fd, "GET", "/?bucket-region=us-east-1", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        has(&a, "<Buckets></Buckets>");
        answer_free(&a);
        close(fd);
        site_close();
        site_region = "us-east-1";
}

/* ---- listings -------------------------------------------------------------------------------- */

static void set_entry(unsigned i, const char *name, bool is_prefix, uint8_t kind)
{
        fake.entries[i] = (struct eng_list_entry){.name = {name, strlen(name)}, .is_prefix = is_prefix};
        fake.entries[i].object = (struct eng_object){.size = 1234567890123ull,
                                                     .mtime_ms = 1700000000007 + 1000 * (int64_t)i,
                                                     .etag = {0xab},
                                                     .etag_parts = (uint16_t)(i == 1 ? 3 : 0)};
        fake.entries[i].object.tag[0] = kind;
}

static void pages_of_objects(void **state)
{
        struct answer a;
        int fd = dial();

        set_entry(0, "a&\x01", false, 0);
        set_entry(1, "b", false, 1 + S3_SHA256);
        fake.entries[1].object.tag[1] = S3_COMPOSITE;
        set_entry(2, "c/", true, 0);
        fake.entry_count = 3;
        fake.more = true;
        ask(fd, "GET", "/bucket?list-type=2&delimiter=/&fetch-owner=true", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        has(&a, "<KeyCount>3</KeyCount><MaxKeys>1000</MaxKeys><Delimiter>/</Delimiter><IsTruncated>true</IsTruncated>");
        has(&a, "<Contents><Key>a&amp;&#x1;</Key><LastModified>2023-11-14T22:13:20.007Z</LastModified>"
                "<ETag>&quot;ab000000000000000000000000000000&quot;</ETag><Size>1234567890123</Size><Owner><ID>");
        has(&a, "<Key>b</Key><LastModified>2023-11-14T22:13:21.007Z</LastModified><ETag>&quot;ab00");
        has(&a, "-3&quot;</ETag><ChecksumAlgorithm>SHA256</ChecksumAlgorithm><ChecksumType>COMPOSITE</ChecksumType>");
        has(&a, "<CommonPrefixes><Prefix>c/</Prefix></CommonPrefixes></ListBucketResult>");
        has(&a, "<NextContinuationToken>");
        answer_free(&a);

        ask(fd, "GET", "/bucket?delimiter=/&encoding-type=url", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        has(&a, "<NextMarker>c/</NextMarker>");
        has(&a, "<Key>a%26%01</Key>");
        answer_free(&a);

        /* A time before 1970 cannot have been written, but must not break the page. */
        fake.entries[1].object.mtime_ms = -5;
        ask(fd, "GET", "/bucket?versions", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        has(&a, "<NextKeyMarker>c/</NextKeyMarker><MaxKeys>");
        has(&a, "<LastModified>1970-01-01T00:00:00.000Z</LastModified>");
        has(&a, "<VersionId>null</VersionId><IsLatest>true</IsLatest>");
        has_not(&a, "NextVersionIdMarker");
        answer_free(&a);
        close(fd);
}

static void listings_that_fail(void **state)
{
        static const char *const targets[] = {"/bucket", "/bucket?list-type=2", "/bucket?versions", "/bucket?uploads"};
        int fd = dial();

        for (size_t t = 0; t < sizeof(targets) / sizeof(targets[0]); t++) {
                for (size_t i = 0; i < FAILURES; i++) {
                        fake.list_rv = failures[i].rv;
                        refused(fd, "GET", targets[t], NULL, failures[i].status, failures[i].code);
                }
                fake.list_rv = -ENOENT; /* deleted meanwhile */
                refused(fd, "GET", targets[t], NULL, 404, "NoSuchBucket");
        }
        close(fd);
}

/* Longer than any name: nothing has such a prefix, everything may lie behind such a place. */
static void overlong_places(void **state)
{
        char target[4096], *at;
        struct answer a;
        int fd = dial();

        set_entry(0, "key", false, 0);
        fake.entry_count = 1;
        for (unsigned i = 0; i < 4; i++) {
                static const char *const names[] = {"prefix", "delimiter", "start-after", "key-marker"};
                static const bool empty[] = {true, false, false, false};

                at = target + sprintf(target, "/bucket?%s&%s=", i == 3 ? "versions" : "list-type=2", names[i]);
                memset(at, 'x', 1500);
                at[1500] = '\0';
                ask(fd, "GET", target, NULL, 0, NULL, NULL);
                read_answer(fd, &a, false);
                assert_int_equal(a.status, 200);
                if (empty[i])
                        has_not(&a, "<Key>");
                else
                        has(&a, "<Key>key</Key>");
                answer_free(&a);
        }
        at = target + sprintf(target, "/bucket?uploads&key-marker=");
        memset(at, 'x', 1500);
        at[1500] = '\0';
        refused(fd, "GET", target, NULL, 400, "KeyTooLongError");
        close(fd);
}

static void pages_of_uploads(void **state)
{
        struct answer a;
        int fd = dial();

        fake.uploads[0] =
                (struct eng_upload_entry){.key = {"k", 1}, .upload_id = {1}, .object = {.mtime_ms = 1700000000000}};
        fake.uploads[0].object.tag[0] = 1 + S3_CRC32;
        fake.uploads[0].object.tag[2] = GW_REDUCED_REDUNDANCY;
        fake.uploads[1] = (struct eng_upload_entry){.key = {"p/", 2}, .is_prefix = true};
        fake.entry_count = 2;
        fake.more = true;
        ask(fd, "GET", "/bucket?uploads&delimiter=/", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        has(&a, "<NextKeyMarker>p/</NextKeyMarker><NextUploadIdMarker></NextUploadIdMarker>");
        has(&a, "<Key>k</Key><UploadId>01000000000000000000000000000000</UploadId>");
        has(&a, "<StorageClass>REDUCED_REDUNDANCY</StorageClass><Initiated>2023-11-14T22:13:20.000Z</Initiated>"
                "<ChecksumAlgorithm>CRC32</ChecksumAlgorithm>");
        answer_free(&a);
        fake.entry_count = 1;
        ask(fd, "GET", "/bucket?uploads", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        has(&a, "<NextUploadIdMarker>01000000000000000000000000000000</NextUploadIdMarker>");
        has(&a, "<IsTruncated>true</IsTruncated>");
        answer_free(&a);
        fake.more = false;
        ask(fd, "GET", "/bucket?uploads", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        has(&a, "<NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>01000000000000000000000000000000</NextUploadIdMarker>");
        has(&a, "<IsTruncated>false</IsTruncated>");
        answer_free(&a);
        refused(fd, "GET", "/bucket?uploads&key-marker=k&upload-id-marker=x", NULL, 400, "InvalidArgument");
        refused(fd, "GET", "/bucket?uploads&encoding-type=x", NULL, 400, "InvalidArgument");
        refused(fd, "GET", "/bucket?uploads&max-uploads=x", NULL, 400, "InvalidArgument");
        ask(fd, "GET", "/bucket?uploads&upload-id-marker=x&max-uploads=0", NULL, 0, NULL, NULL);
        expect(fd, 200, NULL);
        ask(fd, "GET", "/bucket?uploads&max-uploads=5000&encoding-type=url", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        has(&a, "<EncodingType>url</EncodingType><MaxUploads>1000</MaxUploads>");
        answer_free(&a);
        close(fd);
}

/* ---- deletes --------------------------------------------------------------------------------- */

/* Sends DeleteObjects with its Content-MD5. */
static void ask_delete(int fd, const char *body)
{
        uint8_t md5[ERA_DIGEST_MAX];
        char text[S3_BASE64_SIZE(16)], more[64];

        era_digest_of(ERA_MD5, body, strlen(body), md5);
        s3_base64_encode(md5, 16, text);
        snprintf(more, sizeof(more), "Content-MD5: %s\r\n", text);
        ask(fd, "POST", "/bucket?delete", NULL, 0, more, body);
}

static void each_key_of_a_delete_stands_for_itself(void **state)
{
        struct answer a;
        int fd = dial();

        fake.delete_rv = -EROFS;
        ask_delete(
                fd,
                "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key><VersionId>v</VersionId></Object></Delete>");
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        has(&a, "<Error><Key>a</Key><Code>SlowDown</Code>");
        has(&a, "<Error><Key>b</Key><VersionId>v</VersionId><Code>NoSuchVersion</Code>");
        has_not(&a, "<Deleted>");
        answer_free(&a);
        fake.delete_rv = 0;
        ask_delete(fd, "<Delete><Object><Key>a</Key><VersionId>null</VersionId></Object><Object><Key>b</Key><ETag>x</"
                       "ETag></Object>"
                       "<Object><Key>c</Key><ETag>*</ETag></Object></Delete>");
        read_answer(fd, &a, false);
        has(&a, "<Deleted><Key>a</Key><VersionId>null</VersionId></Deleted>");
        has(&a, "<Error><Key>b</Key><Code>NoSuchKey</Code>");
        has(&a, "<Error><Key>c</Key><Code>NoSuchKey</Code>");
        answer_free(&a);
        close(fd);
}

static void so_many_deletes_at_once(void **state)
{
        char body[16384];
        size_t len = (size_t)sprintf(body, "<Delete><Quiet>true</Quiet>");
        struct answer a;
        int fd = dial();

        for (unsigned i = 0; i < 100; i++)
                len += (size_t)sprintf(body + len, "<Object><Key>k%u</Key></Object>", i);
        sprintf(body + len, "</Delete>");
        fake_set_hold();
        ask_delete(fd, body);
        EVENTUALLY(fake_held() == 32);
        sleep_ms(30);
        assert_int_equal(fake_held(), 32);
        fake_release();
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        has_not(&a, "<Error>");
        has_not(&a, "<Deleted>");
        answer_free(&a);
        close(fd);
}

/* Whoever asked is gone: keys not yet begun stay. */
static void a_client_that_leaves_its_delete(void **state)
{
        char body[16384];
        size_t len = (size_t)sprintf(body, "<Delete>");
        int fd = dial();

        for (unsigned i = 0; i < 50; i++)
                len += (size_t)sprintf(body + len, "<Object><Key>k%u</Key></Object>", i);
        sprintf(body + len, "</Delete>");
        fake_set_hold();
        ask_delete(fd, body);
        EVENTUALLY(fake_held() == 32);
        close(fd);
        sleep_ms(1800);
        fake_release();
        EVENTUALLY(connections_open() == 0);
}

static void deletes_that_fail(void **state)
{
        static const struct s3_header headers[] = {
                {S3_STR("x-amz-mfa"), S3_STR("123 456")},
                {S3_STR("x-amz-if-match-size"), S3_STR("x")},
                {S3_STR("x-amz-if-match-last-modified-time"), S3_STR("yesterday")},
        };
        int fd = dial();

        for (size_t i = 0; i < FAILURES; i++) {
                fake.delete_rv = failures[i].rv;
                refused(fd, "DELETE", "/bucket/key", NULL, failures[i].status, failures[i].code);
        }
        fake.delete_rv = 0;
        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
                ask(fd, "DELETE", "/bucket/key", &headers[i], 1, NULL, NULL);
                expect(fd, i == 0 ? 501 : 400, i == 0 ? "NotImplemented" : "InvalidArgument");
        }
        ask(fd, "DELETE", "/bucket/key", NULL, 0, "If-None-Match: *\r\n", NULL);
        expect(fd, 501, "NotImplemented");
        refused(fd, "DELETE", "/bucket/key?versionId=", NULL, 400, "InvalidArgument");
        close(fd);
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, site_setup, site_teardown)
        const struct CMUnitTest tests[] = {
                ONE(an_engine_that_is_not_ready_does_not_look_empty),
                ONE(headers_that_would_make_another_bucket),
                ONE(buckets_are_deleted_by_their_ids),
                cmocka_unit_test(a_region_that_has_a_name),
                ONE(pages_of_objects),
                ONE(listings_that_fail),
                ONE(overlong_places),
                ONE(pages_of_uploads),
                ONE(each_key_of_a_delete_stands_for_itself),
                ONE(so_many_deletes_at_once),
                ONE(a_client_that_leaves_its_delete),
                ONE(deletes_that_fail),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
