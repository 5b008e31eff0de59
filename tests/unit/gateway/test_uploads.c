/*
 * gateway/s3/op_multipart.c, op_complete.c, op_copy.c and copy.c over an engine that is slow, full,
 * or fails in the middle. What goes well is tested against the real engine, over S3.
 */
#include "gateway/s3/meta.h"
#include "tests/unit/gateway/ops_fixture.h"

/* ---- multipart ------------------------------------------------------------------------------- */

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
static void set_upload(unsigned part_count, enum s3_checksum_type type)
{
        fake.upload_rv = 0;
        fake.upload = (struct eng_object){.mtime_ms = 1700000000000, .etag = {1}};
        fake.upload.attrs =
                (struct eng_str){(const char *)fake.upload_attrs,
                                 sum_attrs(fake.upload_attrs, sizeof(fake.upload_attrs), S3_CRC32, type, false)};
        fake.part_count = part_count;
        for (unsigned i = 0; i < part_count; i++) {
                fake.parts[i] = (struct eng_part_entry){
                        .number = i + 1, .object = {.size = 5u << 20, .etag = {(uint8_t)i}, .id = {(uint8_t)i}}};
                fake.parts[i].object.attrs =
                        (struct eng_str){(const char *)part_attrs[i], sum_attrs(part_attrs[i], sizeof(part_attrs[i]),
                                                                                S3_CRC32, S3_FULL_OBJECT, true)};
        }
}

#define PART(n, etag)   "<Part><PartNumber>" #n "</PartNumber><ETag>" etag "</ETag></Part>"
#define COMPLETE(parts) "<CompleteMultipartUpload>" parts "</CompleteMultipartUpload>"
#define TWO COMPLETE(PART(1, "00000000000000000000000000000000") PART(2, "01000000000000000000000000000000"))

static const char target[] = "/bucket/key?uploadId=" ID;

static void a_complete_names_what_was_checked(void **state)
{
        struct answer a;
        int fd = dial();

        set_upload(2, S3_FULL_OBJECT);
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

        set_upload(2, S3_FULL_OBJECT);
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
        fake.complete_rv = -E2BIG;
        refused(fd, "POST", target, TWO, 400, "EntityTooLarge");
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

        set_upload(2, S3_FULL_OBJECT);
        fake.parts_rv = -ENOENT;
        refused(fd, "POST", target, TWO, 404, "NoSuchUpload");
        fake.get_rv = -EAGAIN; /* perhaps it was completed: the key must be asked for, and cannot */
        refused(fd, "POST", target, TWO, 503, "SlowDown");
        fake.get_rv = 0;
        fake.parts_rv = 0;
        fake.part_count = 0;
        refused(fd, "POST", target, TWO, 400, "InvalidPart");
        /*
         * It was: the object of that key bears its id (noughts, like every simple object of the
         * fake).
         */
        send_put(fd, "/bucket/key", "x", 1);
        expect(fd, 200, NULL);
        fake.object_parts = 2;
        ask(fd, "POST", target, NULL, 0, NULL, TWO);
        expect(fd, 200, NULL);
        fake.upload_rv = -ENOENT;
        ask(fd, "POST", target, NULL, 0, NULL, TWO);
        expect(fd, 200, NULL);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0);
        close(fd);
}

/* Only who names the same parts is told again that it is done. */
static void a_complete_that_is_repeated_with_other_parts(void **state)
{
        static const char *const others[] = {
                COMPLETE(PART(1, "00000000000000000000000000000000")),
                COMPLETE(PART(2, "01000000000000000000000000000000")),
                COMPLETE(PART(1, "00000000000000000000000000000000") PART(3, "01000000000000000000000000000000")),
                COMPLETE(PART(1, "00000000000000000000000000000000") PART(2, "02000000000000000000000000000000")),
                COMPLETE(PART(1, "00000000000000000000000000000000") PART(2, "no ETag")),
                COMPLETE(PART(1, "00000000000000000000000000000000") PART(2, "01000000000000000000000000000000")
                                 PART(3, "02000000000000000000000000000000")),
        };
        int fd = dial();

        set_upload(2, S3_FULL_OBJECT);
        fake.upload_rv = -ENOENT;
        fake.object_parts = 2;
        send_put(fd, "/bucket/key", "x", 1);
        expect(fd, 200, NULL);
        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
                refused(fd, "POST", target, others[i], 400, "InvalidPart");
        ask(fd, "POST", target, NULL, 0, NULL, TWO);
        expect(fd, 200, NULL);
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
                {"x-amz-checksum-type", "FULL_OBJECT", 200, NULL},
                {"x-amz-checksum-type", "COMPOSITE", 400, "InvalidRequest"},
                {"x-amz-checksum-type", "x", 400, "InvalidRequest"},
                {"x-amz-checksum-crc32", "AAAAAA==", 400, "BadDigest"},
                {"x-amz-checksum-crc32", "AAAAAA==-2", 400, "BadDigest"},
                {"x-amz-checksum-crc32", "no base64", 400, "InvalidRequest"},
                {"x-amz-checksum-sha1", "AAAAAAAAAAAAAAAAAAAAAAAAAAA=", 400, "InvalidRequest"},
        };
        int fd = dial();

        set_upload(2, S3_FULL_OBJECT);
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

        set_upload(3, S3_FULL_OBJECT);
        refused(fd, "POST", target, COMPLETE(PART(1, "ff000000000000000000000000000000")), 400, "InvalidPart");
        refused(fd, "POST", target, COMPLETE(PART(1, "no etag")), 400, "InvalidPart");
        refused(fd, "POST", target, COMPLETE(PART(4, "00000000000000000000000000000000")), 400, "InvalidPart");
        refused(fd, "POST", target,
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" ID
                "</ETag><ChecksumCRC32>AAAAAA==</ChecksumCRC32></Part></CompleteMultipartUpload>",
                400, "InvalidPart");
        refused(fd, "POST", target,
                "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" ID
                "</ETag><ChecksumCRC32C>BwAAAA==</ChecksumCRC32C></Part></CompleteMultipartUpload>",
                400, "BadDigest");
        ask(fd, "POST", target, NULL, 0, NULL,
            "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" ID
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

#define SUMMED(n, etag)                                                                                                \
        "<Part><PartNumber>" #n "</PartNumber><ETag>" etag "</ETag><ChecksumCRC32>BwAAAA==</ChecksumCRC32></Part>"

/* The checksum of checksums: the client must say what it means each part to be. */
static void a_composite_upload_is_completed_with_the_sums_of_its_parts(void **state)
{
        static const char both[] =
                COMPLETE(SUMMED(1, "00000000000000000000000000000000") SUMMED(2, "01000000000000000000000000000000"));
        struct s3_header sum = {S3_STR("x-amz-checksum-crc32"), S3_STR("AAAAAA==")};
        const uint8_t crcs[8] = {7, 0, 0, 0, 7};
        char text[S3_CHECKSUM_TEXT];
        uint8_t value[S3_CHECKSUM_MAX];
        int fd = dial();

        set_upload(2, S3_COMPOSITE);
        refused(fd, "POST", target, TWO, 400, "InvalidRequest");
        ask(fd, "POST", target, NULL, 0, NULL, both);
        expect(fd, 200, NULL);
        ask(fd, "POST", target, &sum, 1, NULL, both);
        expect(fd, 400, "BadDigest");
        s3_checksum_from_crc(S3_CRC32, era_crc32(0, crcs, sizeof(crcs)), value);
        sum.value = (struct s3_str){text, s3_checksum_format(S3_CRC32, value, 2, text)};
        ask(fd, "POST", target, &sum, 1, NULL, both);
        expect(fd, 200, NULL);
        sum.value = (struct s3_str){text, s3_checksum_format(S3_CRC32, value, 3, text)};
        ask(fd, "POST", target, &sum, 1, NULL, both);
        expect(fd, 400, "BadDigest");
        close(fd);
}

static void uploads_that_fail(void **state)
{
        static const struct s3_header refusals[] = {
                {S3_STR("x-amz-checksum-algorithm"), S3_STR("MD4")},
                {S3_STR("x-amz-checksum-type"), S3_STR("COMPOSITE")},
        };
        static const struct s3_header bad_type[] = {
                {S3_STR("x-amz-checksum-algorithm"), S3_STR("CRC32")},
                {S3_STR("x-amz-checksum-type"), S3_STR("HALF_OBJECT")},
        };
        const struct s3_header storage = {S3_STR("x-amz-storage-class"), S3_STR("GLACIER")};
        const struct s3_header initiated = {S3_STR("x-amz-if-match-initiated-time"),
                                            S3_STR("Fri, 24 May 2013 00:00:00 GMT")};
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
        ask(fd, "POST", "/bucket/key?uploads", bad_type, 2, NULL, NULL);
        expect(fd, 400, "InvalidRequest");
        ask(fd, "POST", "/bucket/key?uploads", &storage, 1, NULL, NULL);
        expect(fd, 400, "InvalidStorageClass");
        ask(fd, "DELETE", target, &initiated, 1, NULL, NULL);
        expect(fd, 501, "NotImplemented");
        fake.upload_rv = 0;
        fake.parts_rv = -ENOENT;
        refused(fd, "GET", target, NULL, 404, "NoSuchUpload");
        refused(fd, "GET", "/bucket/key?uploadId=x", NULL, 404, "NoSuchUpload");
        close(fd);
}

static void pages_of_parts(void **state)
{
        struct answer a;
        int fd = dial();

        set_upload(2, S3_FULL_OBJECT);
        fake.upload.tag[0] = 1 + S3_CRC32;
        fake.parts[0].object.attrs.len = 2; /* stored attrs that nobody wrote */
        ask(fd, "GET", "/bucket/key?uploadId=" ID "&max-parts=5000", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        has(&a, "<NextPartNumberMarker>1</NextPartNumberMarker><MaxParts>1000</MaxParts>");
        has(&a, "<IsTruncated>true</IsTruncated>");
        has_not(&a, "<ChecksumCRC32>");
        answer_free(&a);
        ask(fd, "GET", "/bucket/key?uploadId=" ID "&part-number-marker=1", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        has(&a, "<PartNumber>2</PartNumber>");
        has(&a, "<ChecksumCRC32>BwAAAA==</ChecksumCRC32>");
        answer_free(&a);
        ask(fd, "GET", "/bucket/key?uploadId=" ID "&part-number-marker=10000", NULL, 0, NULL, NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        has_not(&a, "<Part>");
        answer_free(&a);
        refused(fd, "GET", "/bucket/key?uploadId=" ID "&max-parts=x", NULL, 400, "InvalidArgument");
        close(fd);
}

/* ---- copies ---------------------------------------------------------------------------------- */

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
                {"x-amz-object-lock-mode", "GOVERNANCE", 400, "InvalidArgument"}, /* without a date */
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

/*
 * Only what is kept beside the bytes changes; another writer between the look and the change is
 * found out.
 */
static void copies_onto_themselves(void **state)
{
        unsigned commits;
        int fd = dial();

        put_source(fd);
        commits = fake_figure(&fake.commits);
        set_upload(0, S3_FULL_OBJECT); /* what eng_update gives back */
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

static void sources_that_are_not_what_they_should_be(void **state)
{
        struct s3_header headers[2] = {from_source, {S3_STR("x-amz-metadata-directive"), S3_STR("REPLACE")}};
        int fd = dial();

        put_source(fd);
        /* Conditions on the target, which is the source. */
        ask(fd, "PUT", "/bucket/source", headers, 2, "If-None-Match: *\r\n", NULL);
        expect(fd, 412, "PreconditionFailed");
        ask(fd, "PUT", "/bucket/source", headers, 2, "If-Match: \"" ID "\"\r\n", NULL);
        expect(fd, 412, "PreconditionFailed");
        fake.span = 3000;
        fake.write_rv = -EIO;
        ask_copy(fd, "/bucket/copy", NULL, NULL);
        expect(fd, 500, "InternalError");
        fake.write_rv = 0;
        fake.claimed_size = (5ull << 30) + 1;
        ask_copy(fd, "/bucket/copy", NULL, NULL);
        expect(fd, 400, "InvalidRequest");
        fake.claimed_size = 0;
        fake.objects[0].attrs[0] = 99; /* stored attrs that nobody wrote */
        ask_copy(fd, "/bucket/copy", NULL, NULL);
        expect(fd, 500, "InternalError");
        ask(fd, "PUT", "/bucket/source", headers, 2, NULL, NULL);
        expect(fd, 500, "InternalError");
        EVENTUALLY(fake_figure(&fake.gets_open) == 0 && fake_figure(&fake.puts_open) == 0);
        refused(fd, "GET", "/bucket/copy", NULL, 404, "NoSuchKey");
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
        set_upload(0, S3_FULL_OBJECT);
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
                ONE(a_complete_names_what_was_checked),
                ONE(completes_that_fail),
                ONE(an_upload_that_ends_meanwhile),
                ONE(a_complete_that_is_repeated_with_other_parts),
                ONE(completes_that_say_something_else),
                ONE(parts_that_are_not_what_was_named),
                ONE(a_composite_upload_is_completed_with_the_sums_of_its_parts),
                ONE(uploads_that_fail),
                ONE(pages_of_parts),
                ONE(a_copy_waits_for_both_ends),
                ONE(copies_that_fail),
                ONE(copies_that_are_refused),
                ONE(copies_onto_themselves),
                ONE(sources_that_are_not_what_they_should_be),
                ONE(a_client_that_leaves_its_copy),
                ONE(copies_of_parts),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
