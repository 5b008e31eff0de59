/*
 * The operations over an engine that is slow, full, or fails in the middle: gateway/op_bucket.c, op_list.c, op_list_uploads.c, op_delete.c, copy.c,
 * op_copy.c, op_multipart.c, op_complete.c. What goes well is tested against the real engine, over S3.
 */
#include "gateway/meta.h"
#include "tests/unit/gateway/gateway_fixture.h"

#define ID "00000000000000000000000000000000"

/* Sends a signed request; body NULL: none. */
static void ask(int fd, const char *method, const char *target, const struct s3_header *amz, unsigned amz_count,
                const char *more, const char *body)
{
        char head[8192], lines[1024];

        snprintf(lines, sizeof(lines), "Content-Length: %zu\r\n%s", body != NULL ? strlen(body) : 0,
                 more != NULL ? more : "");
        send_all(fd, head, signed_head(head, sizeof(head), method, target, amz, amz_count, lines));
        if (body != NULL)
                send_text(fd, body);
}

/* Asks and checks status and code. */
static void refused(int fd, const char *method, const char *target, const char *body, unsigned status, const char *code)
{
        ask(fd, method, target, NULL, 0, NULL, body);
        expect(fd, status, code);
}

static void has(const struct answer *a, const char *text)
{
        if (a->body == NULL || strstr(a->body, text) == NULL)
                fail_msg("no %s in %s", text, a->body != NULL ? a->body : a->head);
}

static void has_not(const struct answer *a, const char *text)
{
        assert_non_null(a->body);
        if (strstr(a->body, text) != NULL)
                fail_msg("%s in %s", text, a->body);
}

/* What the engine may say at any time, and how it must look. */
static const struct {
        int rv;
        unsigned status;
        const char *code;
} failures[] = {
        {-EAGAIN, 503, "SlowDown"},
        {-EROFS, 503, "SlowDown"},
        {-ETIMEDOUT, 503, "SlowDown"},
        {-ENOMEM, 503, "SlowDown"},
        {-EHOSTDOWN, 503, "ServiceUnavailable"},
        {-ENOSPC, 507, "InsufficientStorage"},
        {-EIO, 500, "InternalError"},
        {-EPROTO, 500, "InternalError"}, /* never promised: must not look like an answer about the data */
};

#define FAILURES (sizeof(failures) / sizeof(failures[0]))

/* ---- buckets ------------------------------------------------------------------------------------------ */

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
                {S3_STR("x-amz-bucket-object-lock-enabled"), S3_STR("true")},
                {S3_STR("x-amz-object-ownership"), S3_STR("ObjectWriter")},
                {S3_STR("x-amz-acl"), S3_STR("public-read")},
        };
        int fd = dial();

        for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
                ask(fd, "PUT", "/another", &headers[i], 1, NULL, NULL);
                expect(fd, 501, "NotImplemented");
        }
        assert_int_equal(fake.bucket_count, 1);
        close(fd);
}

/* ---- listings ----------------------------------------------------------------------------------------- */

static void set_entry(unsigned i, const char *name, bool is_prefix, uint8_t kind)
{
        fake.entries[i] = (struct eng_list_entry){.name = {name, strlen(name)}, .is_prefix = is_prefix};
        fake.entries[i].object = (struct eng_object){.size = 1234567890123ull, .mtime_ms = 1700000000007 + 1000 * (int64_t)i,
                                                     .etag = {0xab}, .etag_parts = (uint16_t)(i == 1 ? 3 : 0)};
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

        fake.uploads[0] = (struct eng_upload_entry){.key = {"k", 1}, .upload_id = {1}, .object = {.mtime_ms = 1700000000000}};
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
        answer_free(&a);
        refused(fd, "GET", "/bucket?uploads&key-marker=k&upload-id-marker=x", NULL, 400, "InvalidArgument");
        refused(fd, "GET", "/bucket?uploads&encoding-type=x", NULL, 400, "InvalidArgument");
        ask(fd, "GET", "/bucket?uploads&upload-id-marker=x&max-uploads=0", NULL, 0, NULL, NULL);
        expect(fd, 200, NULL);
        close(fd);
}

/* ---- multipart ---------------------------------------------------------------------------------------- */

static uint8_t part_attrs[4][128];

/* Attrs that hold a checksum (its value only if has). */
static size_t sum_attrs(uint8_t *out, size_t cap, enum s3_checksum kind, enum s3_checksum_type type, bool has_value)
{
        static struct gw_meta meta;
        ssize_t len;

        memset(&meta, 0, sizeof(meta));
        meta.sum = (struct gw_checksum){.has = has_value, .has_kind = true, .kind = kind, .type = type, .value = {7}};
        len = gw_meta_encode(&meta, out, cap);
        assert_true(len > 0);
        return (size_t)len;
}

/* An upload with parts 1.. of 5 MiB, each with a CRC-32; parts come one a page. */
static void set_upload(unsigned part_count)
{
        fake.upload_rv = 0;
        fake.upload = (struct eng_object){.mtime_ms = 1700000000000, .etag = {1}};
        fake.upload.attrs = (struct eng_str){(const char *)fake.upload_attrs,
                                             sum_attrs(fake.upload_attrs, sizeof(fake.upload_attrs), S3_CRC32, S3_COMPOSITE,
                                                       false)};
        fake.part_count = part_count;
        for (unsigned i = 0; i < part_count; i++) {
                fake.parts[i] = (struct eng_part_entry){.number = i + 1, .object = {.size = 5u << 20, .etag = {(uint8_t)i},
                                                                                   .id = {(uint8_t)i}}};
                fake.parts[i].object.attrs = (struct eng_str){
                        (const char *)part_attrs[i],
                        sum_attrs(part_attrs[i], sizeof(part_attrs[i]), S3_CRC32, S3_FULL_OBJECT, true)};
        }
}

#define PART(n, etag) "<Part><PartNumber>" #n "</PartNumber><ETag>" etag "</ETag></Part>"
#define COMPLETE(parts) "<CompleteMultipartUpload>" parts "</CompleteMultipartUpload>"
#define TWO COMPLETE(PART(1, "00000000000000000000000000000000") PART(2, "01000000000000000000000000000000"))

static const char target[] = "/bucket/key?uploadId=" ID;

static void a_complete_names_what_was_checked(void **state)
{
        struct answer a;
        int fd = dial();

        set_upload(2);
        ask(fd, "POST", target, NULL, 0, NULL, TWO);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        has(&a, "<Location>http://localhost/bucket/key</Location><Bucket>bucket</Bucket><Key>key</Key>");
        assert_int_equal(fake.completed.count, 2);
        answer_free(&a);
        close(fd);
}

static void completes_that_fail(void **state)
{
        int fd = dial();

        set_upload(2);
        for (size_t i = 0; i < FAILURES; i++) {
                fake.upload_rv = failures[i].rv;
                refused(fd, "POST", target, TWO, failures[i].status, failures[i].code);
                fake.upload_rv = 0;
                fake.parts_rv = failures[i].rv;
                refused(fd, "POST", target, TWO, failures[i].status, failures[i].code);
                fake.parts_rv = 0;
                fake.complete_rv = failures[i].rv;
                refused(fd, "POST", target, TWO, failures[i].status, failures[i].code);
                fake.complete_rv = 0;
        }
        fake.complete_rv = -EINVAL;
        refused(fd, "POST", target, TWO, 400, "InvalidPart");
        fake.complete_rv = -EEXIST;
        refused(fd, "POST", target, TWO, 412, "PreconditionFailed");
        fake.complete_rv = -ENOENT;
        refused(fd, "POST", target, TWO, 404, "NoSuchUpload");
        ask(fd, "POST", target, NULL, 0, "If-Match: *\r\n", TWO);
        expect(fd, 404, "NoSuchKey");
        ask(fd, "POST", target, NULL, 0, "If-None-Match: x\r\n", TWO);
        expect(fd, 501, "NotImplemented");
        close(fd);
}

/* The upload goes away between the look at it and the look at its parts. */
static void an_upload_that_ends_meanwhile(void **state)
{
        int fd = dial();

        set_upload(2);
        fake.parts_rv = -ENOENT;
        refused(fd, "POST", target, TWO, 404, "NoSuchUpload");
        fake.get_rv = -EAGAIN; /* perhaps it was completed: the key must be asked for, and cannot */
        refused(fd, "POST", target, TWO, 503, "SlowDown");
        fake.get_rv = 0;
        fake.parts_rv = 0;
        fake.part_count = 0;
        refused(fd, "POST", target, TWO, 400, "InvalidPart");
        /* It was: the object of that key bears its id (noughts, like every simple object of the fake). */
        send_put(fd, "/bucket/key", "x", 1);
        expect(fd, 200, NULL);
        ask(fd, "POST", target, NULL, 0, NULL, TWO);
        expect(fd, 200, NULL);
        fake.upload_rv = -ENOENT;
        ask(fd, "POST", target, NULL, 0, NULL, TWO);
        expect(fd, 200, NULL);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0);
        close(fd);
}

static void completes_that_say_something_else(void **state)
{
        static const struct {
                const char *name, *value;
                unsigned status;
                const char *code;
        } cases[] = {
                {"x-amz-mp-object-size", "10485760", 200, NULL},
                {"x-amz-mp-object-size", "10485761", 400, "InvalidRequest"},
                {"x-amz-mp-object-size", "x", 400, "InvalidRequest"},
                {"x-amz-checksum-type", "COMPOSITE", 200, NULL},
                {"x-amz-checksum-type", "FULL_OBJECT", 400, "InvalidRequest"},
                {"x-amz-checksum-type", "x", 400, "InvalidRequest"},
                {"x-amz-checksum-crc32", "AAAAAA==", 400, "BadDigest"},
                {"x-amz-checksum-crc32", "AAAAAA==-2", 400, "BadDigest"},
                {"x-amz-checksum-crc32", "no base64", 400, "InvalidRequest"},
                {"x-amz-checksum-sha1", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", 400, "InvalidRequest"},
        };
        int fd = dial();

        set_upload(2);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct s3_header header = {s3_str_of(cases[i].name), s3_str_of(cases[i].value)};

                ask(fd, "POST", target, &header, 1, NULL, TWO);
                expect(fd, cases[i].status, cases[i].code);
        }
        close(fd);
}

static void parts_that_are_not_what_was_named(void **state)
{
        int fd = dial();

        set_upload(3);
        refused(fd, "POST", target, COMPLETE(PART(1, "ff000000000000000000000000000000")), 400, "InvalidPart");
        refused(fd, "POST", target, COMPLETE(PART(1, "no etag")), 400, "InvalidPart");
        refused(fd, "POST", target, COMPLETE(PART(4, "00000000000000000000000000000000")), 400, "InvalidPart");
        refused(fd, "POST", target, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" ID
                "</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>", 400, "InvalidPart");
        refused(fd, "POST", target, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" ID
                "</ETag><ChecksumCRC32C>BwAAAA==</ChecksumCRC32C></Part></CompleteMultipartUpload>", 400, "InvalidPart");
        ask(fd, "POST", target, NULL, 0, NULL, "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" ID
            "</ETag><ChecksumCRC32>BwAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>");
        expect(fd, 200, NULL);
        fake.parts[0].object.size = (5u << 20) - 1;
        refused(fd, "POST", target, TWO, 400, "EntityTooSmall");
        fake.parts[0].object.attrs.len = 1; /* a part without a checksum: the object has none */
        fake.parts[0].object.size = 5u << 20;
        ask(fd, "POST", target, NULL, 0, NULL, TWO);
        expect(fd, 200, NULL);
        fake.parts[0].object.attrs.len = 2; /* stored attrs that nobody wrote */
        refused(fd, "POST", target, TWO, 400, "InvalidPart");
        fake.upload_attrs[0] = 99;
        refused(fd, "POST", target, TWO, 500, "InternalError");
        refused(fd, "PUT", "/bucket/key?partNumber=1&uploadId=" ID, "x", 500, "InternalError");
        close(fd);
}

static void uploads_that_fail(void **state)
{
        static const struct s3_header refusals[] = {
                {S3_STR("x-amz-checksum-algorithm"), S3_STR("MD4")},
                {S3_STR("x-amz-checksum-type"), S3_STR("COMPOSITE")},
        };
        const struct s3_header initiated = {S3_STR("x-amz-if-match-initiated-time"), S3_STR("Fri, 24 May 2013 00:00:00 GMT")};
        int fd = dial();

        for (size_t i = 0; i < FAILURES; i++) {
                fake.upload_rv = failures[i].rv;
                refused(fd, "POST", "/bucket/key?uploads", NULL, failures[i].status, failures[i].code);
                refused(fd, "DELETE", target, NULL, failures[i].status, failures[i].code);
                refused(fd, "GET", target, NULL, failures[i].status, failures[i].code);
        }
        for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                ask(fd, "POST", "/bucket/key?uploads", &refusals[i], 1, NULL, NULL);
                expect(fd, 400, "InvalidRequest");
        }
        ask(fd, "DELETE", target, &initiated, 1, NULL, NULL);
        expect(fd, 501, "NotImplemented");
        fake.upload_rv = 0;
        fake.parts_rv = -ENOENT;
        refused(fd, "GET", target, NULL, 404, "NoSuchUpload");
        refused(fd, "GET", "/bucket/key?uploadId=x", NULL, 404, "NoSuchUpload");
        close(fd);
}

/* ---- deletes ------------------------------------------------------------------------------------------ */

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
        ask_delete(fd, "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key><VersionId>v</VersionId></Object></Delete>");
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        has(&a, "<Error><Key>a</Key><Code>SlowDown</Code>");
        has(&a, "<Error><Key>b</Key><VersionId>v</VersionId><Code>NoSuchVersion</Code>");
        has_not(&a, "<Deleted>");
        answer_free(&a);
        fake.delete_rv = 0;
        ask_delete(fd, "<Delete><Object><Key>a</Key><VersionId>null</VersionId></Object><Object><Key>b</Key><ETag>x</ETag></Object>"
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

/* ---- copies ------------------------------------------------------------------------------------------- */

#define SOURCE_LEN 200000

static const struct s3_header from_source = {S3_STR("x-amz-copy-source"), S3_STR("/bucket/source")};

static void put_source(int fd)
{
        char *bytes = malloc(SOURCE_LEN);

        for (size_t i = 0; i < SOURCE_LEN; i++)
                bytes[i] = (char)(i * 131 >> 3);
        send_put(fd, "/bucket/source", bytes, SOURCE_LEN);
        expect(fd, 200, NULL);
        free(bytes);
}

static void ask_copy(int fd, const char *to, const char *name, const char *value)
{
        struct s3_header headers[2] = {from_source, {s3_str_of(name), s3_str_of(value)}};

        ask(fd, "PUT", to, headers, name != NULL ? 2 : 1, NULL, NULL);
}

static void a_copy_waits_for_both_ends(void **state)
{
        struct answer source, copy;
        char a[512], b[512];
        int fd = dial();

        put_source(fd);
        fake.span = 3000;
        fake.room = 700;
        fake.slow_reads = true;
        ask_copy(fd, "/bucket/copy", "x-amz-checksum-algorithm", "SHA1"); /* the bytes must be looked at */
        expect(fd, 200, NULL);
        fake.slow_reads = false;
        send_signed(fd, "GET", "/bucket/source", NULL);
        read_answer(fd, &source, false);
        send_signed(fd, "GET", "/bucket/copy", NULL);
        read_answer(fd, &copy, false);
        assert_int_equal(copy.status, 200);
        assert_int_equal(copy.body_len, SOURCE_LEN);
        assert_memory_equal(copy.body, source.body, SOURCE_LEN);
        assert_string_equal(answer_header(&copy, "ETag", a), answer_header(&source, "ETag", b));
        answer_free(&source);
        answer_free(&copy);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0 && fake_figure(&fake.puts_open) == 0);
        close(fd);
}

static void copies_that_fail(void **state)
{
        int fd = dial();

        put_source(fd);
        fake.span = 3000;
        fake.break_at = 100000;
        ask_copy(fd, "/bucket/copy", NULL, NULL);
        expect(fd, 500, "InternalError");
        EVENTUALLY(fake_figure(&fake.aborts) == 1 && fake_figure(&fake.gets_open) == 0);
        fake.break_at = 0;
        for (size_t i = 0; i < FAILURES; i++) {
                fake.open_rv = failures[i].rv;
                ask_copy(fd, "/bucket/copy", NULL, NULL);
                expect(fd, failures[i].status, failures[i].code);
                fake.open_rv = 0;
                fake.commit_rv = failures[i].rv;
                ask_copy(fd, "/bucket/copy", NULL, NULL);
                expect(fd, failures[i].status, failures[i].code);
                fake.commit_rv = 0;
                fake.get_rv = failures[i].rv;
                ask_copy(fd, "/bucket/copy", NULL, NULL);
                expect(fd, failures[i].status, failures[i].code);
                fake.get_rv = 0;
        }
        refused(fd, "GET", "/bucket/copy", NULL, 404, "NoSuchKey");
        EVENTUALLY(fake_figure(&fake.gets_open) == 0 && fake_figure(&fake.puts_open) == 0);
        close(fd);
}

static void copies_that_are_refused(void **state)
{
        static const struct {
                const char *name, *value;
                unsigned status;
                const char *code;
        } cases[] = {
                {"x-amz-metadata-directive", "MOVE", 400, "InvalidArgument"},
                {"x-amz-tagging-directive", "MOVE", 400, "InvalidArgument"},
                {"x-amz-copy-source-range", "bytes=0-1", 501, "NotImplemented"},
                {"x-amz-checksum-algorithm", "MD4", 400, "InvalidRequest"},
                {"x-amz-tagging", "a=b", 501, "NotImplemented"},
                {"x-amz-copy-source-if-match", "\"0\"", 412, "PreconditionFailed"},
                {"x-amz-storage-class", "GLACIER", 400, "InvalidStorageClass"},
                {"x-amz-tagging-directive", "REPLACE", 200, NULL},
        };
        int fd = dial();

        put_source(fd);
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                ask_copy(fd, "/bucket/copy", cases[i].name, cases[i].value);
                expect(fd, cases[i].status, cases[i].code);
        }
        close(fd);
}

/* Only what is kept beside the bytes changes; another writer between the look and the change is found out. */
static void copies_onto_themselves(void **state)
{
        unsigned commits;
        int fd = dial();

        put_source(fd);
        commits = fake_figure(&fake.commits);
        set_upload(0); /* what eng_update gives back */
        ask_copy(fd, "/bucket/source", NULL, NULL);
        expect(fd, 400, "InvalidRequest");
        ask_copy(fd, "/bucket/source", "x-amz-metadata-directive", "REPLACE");
        expect(fd, 200, NULL);
        fake.update_rv = -ESTALE;
        ask_copy(fd, "/bucket/source", "x-amz-metadata-directive", "REPLACE");
        expect(fd, 409, "ConditionalRequestConflict");
        fake.update_rv = -ENOENT;
        ask_copy(fd, "/bucket/source", "x-amz-storage-class", "REDUCED_REDUNDANCY");
        expect(fd, 409, "ConditionalRequestConflict");
        fake.update_rv = -EROFS;
        ask_copy(fd, "/bucket/source", "x-amz-metadata-directive", "REPLACE");
        expect(fd, 503, "SlowDown");
        assert_int_equal(fake_figure(&fake.commits), commits);
        ask_copy(fd, "/bucket/source", "x-amz-checksum-algorithm", "SHA256"); /* read and written anew */
        expect(fd, 200, NULL);
        assert_int_equal(fake_figure(&fake.commits), commits + 1);
        close(fd);
}

static void a_client_that_leaves_its_copy(void **state)
{
        int fd = dial(), other = dial();

        put_source(other);
        fake.span = 1000;
        fake.slow_reads = fake.stall_reads = true;
        ask_copy(fd, "/bucket/copy", NULL, NULL);
        EVENTUALLY(fake_held() == 1);
        close(fd);
        sleep_ms(1800);
        fake.stall_reads = false;
        fake_release();
        EVENTUALLY(fake_figure(&fake.puts_open) == 0 && fake_figure(&fake.gets_open) == 0);
        fake.slow_reads = false;
        refused(other, "GET", "/bucket/copy", NULL, 404, "NoSuchKey");
        close(other);
}

static void copies_of_parts(void **state)
{
        static const char part[] = "/bucket/key?partNumber=1&uploadId=" ID;
        static const char *const ranges[] = {"bytes=5-", "bytes=-5", "bytes=5-4", "bytes=0-200000", "x"};
        int fd = dial();

        put_source(fd);
        ask_copy(fd, part, NULL, NULL);
        expect(fd, 404, "NoSuchUpload");
        set_upload(0);
        for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
                ask_copy(fd, part, "x-amz-copy-source-range", ranges[i]);
                expect(fd, 400, "InvalidArgument");
        }
        ask_copy(fd, "/bucket/key?partNumber=0&uploadId=" ID, NULL, NULL);
        expect(fd, 400, "InvalidArgument");
        ask_copy(fd, "/bucket/key?partNumber=1&uploadId=x", NULL, NULL);
        expect(fd, 404, "NoSuchUpload");
        ask_copy(fd, part, "x-amz-copy-source-range", "bytes=0-199999");
        expect(fd, 200, NULL);
        fake.commit_rv = -ENOENT; /* aborted meanwhile */
        ask_copy(fd, part, NULL, NULL);
        expect(fd, 404, "NoSuchUpload");
        fake.upload_attrs[0] = 99;
        ask_copy(fd, part, NULL, NULL);
        expect(fd, 500, "InternalError");
        close(fd);
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, site_setup, site_teardown)
        const struct CMUnitTest tests[] = {
                ONE(an_engine_that_is_not_ready_does_not_look_empty),
                ONE(headers_that_would_make_another_bucket),
                ONE(pages_of_objects),
                ONE(listings_that_fail),
                ONE(overlong_places),
                ONE(pages_of_uploads),
                ONE(a_complete_names_what_was_checked),
                ONE(completes_that_fail),
                ONE(an_upload_that_ends_meanwhile),
                ONE(completes_that_say_something_else),
                ONE(parts_that_are_not_what_was_named),
                ONE(uploads_that_fail),
                ONE(each_key_of_a_delete_stands_for_itself),
                ONE(so_many_deletes_at_once),
                ONE(a_client_that_leaves_its_delete),
                ONE(deletes_that_fail),
                ONE(a_copy_waits_for_both_ends),
                ONE(copies_that_fail),
                ONE(copies_that_are_refused),
                ONE(copies_onto_themselves),
                ONE(a_client_that_leaves_its_copy),
                ONE(copies_of_parts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
