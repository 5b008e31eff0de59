/*
 * gateway/s3/meta.c: what is kept of headers and checksums comes back as it was; what is too much
 * is refused; bytes that are not ours are an error and never read beyond their end.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gateway/s3/meta.h"

static struct s3_header header(const char *name, const char *value)
{
        return (struct s3_header){s3_str_of(name), s3_str_of(value)};
}

static void assert_text(struct s3_str s, const char *expected)
{
        assert_int_equal(s.len, strlen(expected));
        assert_memory_equal(s.data, expected, s.len);
}

static struct eng_str encode(const struct gw_meta *meta, uint8_t out[ENG_ATTRS_MAX])
{
        ssize_t len = gw_meta_encode(meta, out, ENG_ATTRS_MAX);

        assert_true(len > 0);
        return (struct eng_str){(const char *)out, (size_t)len};
}

static void all_fields_come_back(void **state)
{
        const struct s3_header headers[] = {
                header("content-type", "text/plain; charset=utf-8"),
                header("Content-Encoding", "gzip"),
                header("Content-Disposition", "attachment; filename=\"a b\""),
                header("Content-Language", "de"),
                header("CACHE-CONTROL", "no-cache"),
                header("Expires", "not even a date"),
                header("X-Amz-Storage-Class", "REDUCED_REDUNDANCY"),
                header("x-amz-meta-Colour", " gr\xc3\xbcn "),
                header("x-amz-meta-empty", ""),
                header("Host", "ignored"),
        };
        uint8_t bytes[ENG_ATTRS_MAX];
        struct gw_meta in, out;

        assert_int_equal(gw_meta_of_headers(headers, 10, &in), S3_OK);
        assert_int_equal(gw_meta_decode(encode(&in, bytes), &out), 0);
        assert_text(out.field[GW_META_CONTENT_TYPE], "text/plain; charset=utf-8");
        assert_text(out.field[GW_META_CONTENT_ENCODING], "gzip");
        assert_text(out.field[GW_META_CONTENT_DISPOSITION], "attachment; filename=\"a b\"");
        assert_text(out.field[GW_META_CONTENT_LANGUAGE], "de");
        assert_text(out.field[GW_META_CACHE_CONTROL], "no-cache");
        assert_text(out.field[GW_META_EXPIRES], "not even a date");
        assert_int_equal(out.storage, GW_REDUCED_REDUNDANCY);
        assert_int_equal(out.user_count, 2);
        assert_text(out.user[0].name, "colour");
        assert_text(out.user[0].value, "gr\xc3\xbcn");
        assert_text(out.user[1].name, "empty");
        assert_int_equal(out.user[1].value.len, 0);
        assert_false(out.sum.has || out.sum.has_kind);
}

static void no_content_type_is_binary(void **state)
{
        const struct s3_header headers[] = {header("Content-Type", "")};
        struct gw_meta meta;

        assert_int_equal(gw_meta_of_headers(NULL, 0, &meta), S3_OK);
        assert_text(meta.field[GW_META_CONTENT_TYPE], "binary/octet-stream");
        assert_int_equal(gw_meta_of_headers(headers, 1, &meta), S3_OK);
        assert_text(meta.field[GW_META_CONTENT_TYPE], "binary/octet-stream");
}

static void aws_chunked_is_not_kept(void **state)
{
        static const struct {
                const char *sent, *kept;
        } cases[] = {
                {"aws-chunked", ""},
                {"aws-chunked,gzip", "gzip"},
                {"gzip, AWS-Chunked", "gzip"},
                {"gzip,aws-chunked , br", "gzip, br"},
                {",", ","},
                {"gzip , br", "gzip , br"},
        };

        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct s3_header h = header("Content-Encoding", cases[i].sent);
                uint8_t bytes[ENG_ATTRS_MAX];
                struct gw_meta in, out;

                assert_int_equal(gw_meta_of_headers(&h, 1, &in), S3_OK);
                assert_int_equal(gw_meta_decode(encode(&in, bytes), &out), 0);
                assert_int_equal(out.field[GW_META_CONTENT_ENCODING].len, strlen(cases[i].kept));
                if (cases[i].kept[0] != '\0')
                        assert_text(out.field[GW_META_CONTENT_ENCODING], cases[i].kept);
        }
}

static void repeated_user_metadata_is_joined(void **state)
{
        const struct s3_header headers[] = {
                header("x-amz-meta-a", "1"),
                header("x-amz-meta-b", "2"),
                header("X-AMZ-META-A", "3"),
        };
        uint8_t bytes[ENG_ATTRS_MAX];
        struct gw_meta in, out;

        assert_int_equal(gw_meta_of_headers(headers, 3, &in), S3_OK);
        assert_int_equal(gw_meta_decode(encode(&in, bytes), &out), 0);
        assert_int_equal(out.user_count, 2);
        assert_text(out.user[0].name, "a");
        assert_text(out.user[0].value, "1,3");
        assert_text(out.user[1].value, "2");
}

static void user_metadata_is_limited(void **state)
{
        char name[64], value[GW_META_USER_BYTES + 2];
        struct s3_header h;
        struct gw_meta meta;

        snprintf(name, sizeof(name), "x-amz-meta-key");
        memset(value, 'v', sizeof(value));
        value[GW_META_USER_BYTES - 3] = '\0';
        h = header(name, value);
        assert_int_equal(gw_meta_of_headers(&h, 1, &meta), S3_OK);
        value[GW_META_USER_BYTES - 3] = 'v';
        value[GW_META_USER_BYTES - 2] = '\0';
        h = header(name, value);
        assert_int_equal(gw_meta_of_headers(&h, 1, &meta), S3_ERR_METADATA_TOO_LARGE);
}

static void long_names_are_kept(void **state)
{
        char name[600] = "x-amz-meta-";
        uint8_t bytes[ENG_ATTRS_MAX];
        struct gw_meta in, out;
        struct s3_header h;

        memset(name + strlen(name), 'n', 500);
        h = header(name, "value");
        assert_int_equal(gw_meta_of_headers(&h, 1, &in), S3_OK);
        assert_int_equal(gw_meta_decode(encode(&in, bytes), &out), 0);
        assert_text(out.user[0].name, name + strlen("x-amz-meta-"));
        assert_text(out.user[0].value, "value");
}

static void redirects_lead_somewhere(void **state)
{
        static const struct {
                const char *location;
                enum s3_error error;
        } cases[] = {
                {"/other", S3_OK},
                {"http://example.org/", S3_OK},
                {"https://example.org/", S3_OK},
                {"", S3_ERR_INVALID_REDIRECT},
                {"other", S3_ERR_INVALID_REDIRECT},
                {"ftp://example.org/", S3_ERR_INVALID_REDIRECT},
        };

        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                struct s3_header h = header("x-amz-website-redirect-location", cases[i].location);
                struct gw_meta meta;

                assert_int_equal(gw_meta_of_headers(&h, 1, &meta), cases[i].error);
        }
}

static void storage_classes_not_kept_are_refused(void **state)
{
        struct s3_header h = header("x-amz-storage-class", "GLACIER");
        enum gw_storage_class storage;
        struct gw_meta meta;

        assert_int_equal(gw_meta_of_headers(&h, 1, &meta), S3_ERR_INVALID_STORAGE_CLASS);
        assert_int_equal(gw_storage_parse(S3_STR("standard"), &storage), -EINVAL);
        assert_int_equal(gw_storage_parse(S3_STR("STANDARD"), &storage), 0);
        assert_string_equal(gw_storage_name(storage), "STANDARD");
}

static void checksums_come_back(void **state)
{
        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++) {
                struct gw_meta in, out;
                struct gw_checksum alone;
                uint8_t bytes[ENG_ATTRS_MAX];
                size_t len = s3_checksum_info((enum s3_checksum)kind)->len;

                assert_int_equal(gw_meta_of_headers(NULL, 0, &in), S3_OK);
                in.sum = (struct gw_checksum){true, true, (enum s3_checksum)kind, S3_COMPOSITE, 10000, {1, 2, 3, 4}};
                assert_int_equal(gw_meta_decode(encode(&in, bytes), &out), 0);
                assert_true(out.sum.has && out.sum.has_kind);
                assert_int_equal(out.sum.kind, kind);
                assert_int_equal(out.sum.type, S3_COMPOSITE);
                assert_int_equal(out.sum.parts, 10000);
                assert_memory_equal(out.sum.value, in.sum.value, len);
                assert_int_equal(gw_meta_decode_checksum(encode(&in, bytes), &alone), 0);
                assert_int_equal(alone.kind, kind);
                in.sum.has = false;
                assert_int_equal(gw_meta_decode(encode(&in, bytes), &out), 0);
                assert_true(out.sum.has_kind && !out.sum.has);
        }
}

/*
 * What stands on drives, byte by byte: however the program orders its own enumerations, these
 * numbers stay. Written out here and not taken from gateway/s3/attrs_format.h, which may not change
 * them either.
 */
static void stored_numbers_stay(void **state)
{
        static const struct {
                enum s3_checksum kind;
                uint8_t number;
        } kinds[] = {{S3_CRC32, 0}, {S3_CRC32C, 1}, {S3_CRC64NVME, 2}, {S3_SHA1, 3}, {S3_SHA256, 4},
                     {S3_SHA512, 5}, {S3_MD5, 6}, {S3_XXHASH64, 7}, {S3_XXHASH3, 8}, {S3_XXHASH128, 9}};
        static const struct {
                enum s3_checksum_type type;
                uint8_t number;
        } types[] = {{S3_FULL_OBJECT, 0}, {S3_COMPOSITE, 1}};
        static const struct {
                enum gw_storage_class storage;
                uint8_t number;
        } storages[] = {{GW_STANDARD, 0},   {GW_REDUCED_REDUNDANCY, 1},  {GW_STANDARD_IA, 2},
                        {GW_ONEZONE_IA, 3}, {GW_INTELLIGENT_TIERING, 4}, {GW_GLACIER_IR, 5}};

        assert_int_equal(sizeof(kinds) / sizeof(kinds[0]), S3_CHECKSUM_KINDS);
        assert_int_equal(sizeof(storages) / sizeof(storages[0]), GW_STORAGE_CLASSES);
        for (unsigned i = 0; i < 10 * 2 * 6; i++) {
                const uint8_t kind = kinds[i % 10].number, type = types[i / 10 % 2].number,
                              storage = storages[i / 20].number;
                const uint8_t attrs[] = {1, 0x10, 5, 0, kind, type, 0, 0x34, 0x12, 0x11, 1, 0, storage};
                const uint8_t tag[8] = {(uint8_t)(1 + kind), type, storage};
                struct gw_meta meta = {.storage = storages[i / 20].storage}, read;
                uint8_t bytes[ENG_ATTRS_MAX], made[8];
                struct gw_tag listed;
                struct eng_str out;

                meta.sum = (struct gw_checksum){
                        .has_kind = true, .kind = kinds[i % 10].kind, .type = types[i / 10 % 2].type, .parts = 0x1234};
                out = encode(&meta, bytes);
                assert_int_equal(out.len, storage != 0 ? sizeof(attrs) : sizeof(attrs) - 4);
                assert_memory_equal(bytes, attrs, out.len);
                assert_int_equal(gw_meta_decode((struct eng_str){(const char *)attrs, sizeof(attrs)}, &read), 0);
                assert_int_equal(read.sum.kind, kinds[i % 10].kind);
                assert_int_equal(read.sum.type, types[i / 10 % 2].type);
                assert_int_equal(read.storage, storages[i / 20].storage);
                gw_tag_make(&meta, made);
                assert_memory_equal(made, tag, sizeof(tag));
                gw_tag_read(tag, &listed);
                assert_true(listed.has_checksum);
                assert_int_equal(listed.kind, kinds[i % 10].kind);
                assert_int_equal(listed.type, types[i / 10 % 2].type);
                assert_int_equal(listed.storage, storages[i / 20].storage);
        }
}

static void stored_headers_stay(void **state)
{
        static const uint8_t tags[GW_META_FIELD_COUNT] = {
                [GW_META_CONTENT_TYPE] = 1,     [GW_META_CONTENT_ENCODING] = 2, [GW_META_CONTENT_DISPOSITION] = 3,
                [GW_META_CONTENT_LANGUAGE] = 4, [GW_META_CACHE_CONTROL] = 5,    [GW_META_EXPIRES] = 6,
                [GW_META_REDIRECT] = 7,
        };
        static const uint8_t user[] = {1, 0x20, 5, 0, 2, 0, 'a', 'b', 'c'};
        uint8_t bytes[ENG_ATTRS_MAX];
        struct gw_meta meta = {.user_count = 1};

        meta.user[0] = header("Ab", "c");
        assert_int_equal(encode(&meta, bytes).len, sizeof(user));
        assert_memory_equal(bytes, user, sizeof(user));
        for (unsigned f = 0; f < GW_META_FIELD_COUNT; f++) {
                const uint8_t expected[] = {1, tags[f], 3, 0, 'x', 'y', 'z'};
                struct gw_meta one = {.user_count = 0};

                one.field[f] = S3_STR("xyz");
                assert_int_equal(encode(&one, bytes).len, sizeof(expected));
                assert_memory_equal(bytes, expected, sizeof(expected));
        }
}

/* Numbers that nobody has given yet. */
static void unknown_numbers_are_refused(void **state)
{
        static const uint8_t bad[][9] = {
                {1, 0x10, 5, 0, 10, 0, 0, 0, 0}, {1, 0x10, 5, 0, 0, 2, 0, 0, 0},
                {1, 0x10, 5, 0, 0, 0, 2, 0, 0}, {1, 0x11, 1, 0, 6},
                {1, 0x08, 1, 0, 'x'},           {1, 0x12, 1, 0, 0},
        };
        static const size_t lens[] = {9, 9, 9, 5, 5, 5};
        static const uint8_t tags[][8] = {{11}, {1, 2}, {0, 0, 6}};
        struct gw_meta meta;
        struct gw_tag tag;

        for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                assert_int_equal(gw_meta_decode((struct eng_str){(const char *)bad[i], lens[i]}, &meta), -EINVAL);
        for (unsigned i = 0; i < sizeof(tags) / sizeof(tags[0]); i++) {
                gw_tag_read(tags[i], &tag);
                assert_false(tag.has_checksum);
                assert_int_equal(tag.storage, GW_STANDARD);
        }
}

static void too_much_is_refused(void **state)
{
        static char large[ENG_ATTRS_MAX];
        uint8_t bytes[ENG_ATTRS_MAX];
        struct gw_meta meta;

        memset(large, 'x', sizeof(large) - 1);
        assert_int_equal(gw_meta_of_headers(NULL, 0, &meta), S3_OK);
        meta.field[GW_META_EXPIRES] = s3_str_of(large);
        assert_int_equal(gw_meta_encode(&meta, bytes, sizeof(bytes)), -ENOBUFS);
        meta.field[GW_META_EXPIRES] = (struct s3_str){NULL, 0};
        meta.field[GW_META_CONTENT_ENCODING] = s3_str_of(large);
        assert_int_equal(gw_meta_encode(&meta, bytes, sizeof(bytes)), -ENOBUFS);
}

/*
 * Every prefix, and every byte set to every value: an answer or -EINVAL, and nothing read beyond
 * the end (the address sanitiser looks).
 */
static void strange_bytes_are_survived(void **state)
{
        const struct s3_header headers[] = {header("x-amz-meta-a", "bc"), header("Expires", "x"),
                                            header("x-amz-storage-class", "REDUCED_REDUNDANCY")};
        uint8_t bytes[ENG_ATTRS_MAX];
        struct gw_checksum sum;
        struct gw_meta in, out;
        struct eng_str attrs;

        assert_int_equal(gw_meta_of_headers(headers, 3, &in), S3_OK);
        in.sum = (struct gw_checksum){true, true, S3_CRC32, S3_FULL_OBJECT, 0, {9, 8, 7, 6}};
        attrs = encode(&in, bytes);
        for (size_t cut = 0; cut < attrs.len; cut++) {
                char *copy = malloc(cut + 1);
                int rv;

                memcpy(copy, attrs.data, cut);
                rv = gw_meta_decode((struct eng_str){copy, cut}, &out);
                assert_true(rv == 0 || rv == -EINVAL);
                gw_meta_decode_checksum((struct eng_str){copy, cut}, &sum);
                free(copy);
        }
        for (size_t at = 0; at < attrs.len; at++) {
                for (unsigned value = 0; value < 256; value++) {
                        char *copy = malloc(attrs.len);
                        int rv;

                        memcpy(copy, attrs.data, attrs.len);
                        copy[at] = (char)value;
                        rv = gw_meta_decode((struct eng_str){copy, attrs.len}, &out);
                        assert_true(rv == 0 || rv == -EINVAL);
                        gw_meta_decode_checksum((struct eng_str){copy, attrs.len}, &sum);
                        free(copy);
                }
        }
        bytes[0] = 2;
        assert_int_equal(gw_meta_decode(attrs, &out), -EINVAL);
        assert_int_equal(gw_meta_decode((struct eng_str){NULL, 0}, &out), -EINVAL);
}

static void tags_come_back(void **state)
{
        uint8_t tag[8];
        struct gw_meta meta;
        struct gw_tag out;

        assert_int_equal(gw_meta_of_headers(NULL, 0, &meta), S3_OK);
        gw_tag_make(&meta, tag);
        gw_tag_read(tag, &out);
        assert_false(out.has_checksum);
        assert_int_equal(out.storage, GW_STANDARD);
        meta.sum.has_kind = true;
        meta.sum.kind = S3_SHA256;
        meta.sum.type = S3_COMPOSITE;
        meta.storage = GW_REDUCED_REDUNDANCY;
        gw_tag_make(&meta, tag);
        gw_tag_read(tag, &out);
        assert_true(out.has_checksum);
        assert_int_equal(out.kind, S3_SHA256);
        assert_int_equal(out.type, S3_COMPOSITE);
        assert_int_equal(out.storage, GW_REDUCED_REDUNDANCY);
        memset(tag, 0xff, sizeof(tag));
        gw_tag_read(tag, &out);
        assert_false(out.has_checksum);
        assert_int_equal(out.storage, GW_STANDARD);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(all_fields_come_back),     cmocka_unit_test(no_content_type_is_binary),
                cmocka_unit_test(aws_chunked_is_not_kept),  cmocka_unit_test(repeated_user_metadata_is_joined),
                cmocka_unit_test(user_metadata_is_limited), cmocka_unit_test(long_names_are_kept),
                cmocka_unit_test(redirects_lead_somewhere), cmocka_unit_test(storage_classes_not_kept_are_refused),
                cmocka_unit_test(checksums_come_back),      cmocka_unit_test(stored_numbers_stay),
                cmocka_unit_test(stored_headers_stay),      cmocka_unit_test(unknown_numbers_are_refused),
                cmocka_unit_test(too_much_is_refused),      cmocka_unit_test(strange_bytes_are_survived),
                cmocka_unit_test(tags_come_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
