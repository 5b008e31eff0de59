/*
 * test_checksum.c - s3/codec.c, s3/checksum.c, s3/parts_sum.c, s3/etag.c: text forms, running sums,
 * sums of parts.
 */
#include "tests/unit/s3/s3_fixture.h"

/* ---- codecs ---------------------------------------------------------------------------------- */

static void test_base64(void **state)
{
        static const char *const texts[][2] = {{"", ""},
                                               {"f", "Zg=="},
                                               {"fo", "Zm8="},
                                               {"foo", "Zm9v"},
                                               {"foob", "Zm9vYg=="},
                                               {"fooba", "Zm9vYmE="},
                                               {"foobar", "Zm9vYmFy"},
                                               {"\xfb\xff\xfe", "+//+"}};
        static const char *const bad4[] = {
                "",         "Zm9v",       "Zm9vYg=",  "Zm9vYg",   "Zm9vYh==", "Zm9vYg=a", "Zm9vYga=",
                " Zm9vYg=", "Zm9vYg==\n", "Zm9-Yg==", "Zm9_Yg==", "====Yg==", "Zm9vYg==="};
        char out[32];
        uint8_t bytes[16];

        for (size_t i = 0; i < COUNT(texts); i++) {
                size_t len = strlen(texts[i][0]);
                struct s3_str copy = heap_copy(texts[i][1], strlen(texts[i][1]));

                assert_int_equal(s3_base64_encode(texts[i][0], len, out), copy.len);
                assert_string_equal(out, texts[i][1]);
                assert_int_equal(s3_base64_decode(copy, bytes, len), 0);
                assert_memory_equal(bytes, texts[i][0], len);
                heap_free(copy);
        }
        for (size_t i = 0; i < COUNT(bad4); i++)
                if (s3_base64_decode(s3_str_of(bad4[i]), bytes, 4) != -EINVAL)
                        fail_msg("taken: %s", bad4[i]);
        assert_int_equal(s3_base64_decode(S3_STR("Zm8="), bytes, 2), 0);
        assert_int_equal(s3_base64_decode(S3_STR("Zm9="), bytes, 2), -EINVAL); /* spare bits */
}

static void test_hex(void **state)
{
        char out[9], text[81], wanted[513];
        uint8_t bytes[4], all[256];

        s3_hex_encode("\x00\x9f\xab\xff", 4, out);
        assert_string_equal(out, "009fabff");
        for (size_t i = 0; i < sizeof(all); i++) {
                all[i] = (uint8_t)i;
                snprintf(wanted + 2 * i, 3, "%02x", (unsigned)i);
        }
        for (size_t at = 0; at < sizeof(all); at++)
                for (size_t len = 0; len <= sizeof(all) - at && len < 40; len++) {
                        s3_hex_encode(all + at, len, text);
                        assert_int_equal(strlen(text), 2 * len);
                        assert_memory_equal(text, wanted + 2 * at, 2 * len);
                }
        assert_int_equal(s3_hex_decode(S3_STR("009FaBff"), bytes, 4), 0);
        assert_memory_equal(bytes, "\x00\x9f\xab\xff", 4);
        assert_int_equal(s3_hex_decode(S3_STR("009FaBf"), bytes, 4), -EINVAL);
        assert_int_equal(s3_hex_decode(S3_STR("009FaBffa"), bytes, 4), -EINVAL);
        assert_int_equal(s3_hex_decode(S3_STR("009FaBfg"), bytes, 4), -EINVAL);
        assert_int_equal(s3_hex_decode(S3_STR(""), bytes, 0), 0);
}

static void test_content_md5(void **state)
{
        uint8_t md5[16];

        assert_int_equal(s3_content_md5_parse(S3_STR(" XUFAKrxLKna5cZ2REBfFkg== "), md5), 0);
        assert_memory_equal(md5, "\x5d\x41\x40\x2a\xbc\x4b\x2a\x76\xb9\x71\x9d\x91\x10\x17\xc5\x92", 16);
        assert_int_equal(s3_content_md5_parse(S3_STR("5d41402abc4b2a76b9719d911017c592"), md5), -EINVAL);
        assert_int_equal(s3_content_md5_parse(S3_STR(""), md5), -EINVAL);
        assert_int_equal(s3_content_md5_parse(S3_STR("XUFAKrxLKna5cZ2REBfF"), md5), -EINVAL);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void test_names(void **state)
{
        enum s3_checksum kind;
        enum s3_checksum_type type;

        for (unsigned i = 0; i < S3_CHECKSUM_KINDS; i++) {
                const struct s3_checksum_info *info = s3_checksum_info((enum s3_checksum)i);

                assert_int_equal(s3_checksum_by_algorithm(s3_str_of(info->algorithm), &kind), 0);
                assert_int_equal(kind, i);
                assert_int_equal(s3_checksum_by_header(s3_str_of(info->header), &kind), 0);
                assert_int_equal(kind, i);
                assert_int_equal(s3_checksum_by_element(s3_str_of(info->element), &kind), 0);
                assert_int_equal(kind, i);
                assert_true(s3_checksum_type_allowed(kind, s3_checksum_type_default(kind)));
        }
        assert_int_equal(s3_checksum_by_algorithm(S3_STR("crc64NVME"), &kind), 0);
        assert_int_equal(kind, S3_CRC64NVME);
        assert_int_equal(s3_checksum_by_header(S3_STR("X-Amz-Checksum-SHA1"), &kind), 0);
        assert_int_equal(s3_checksum_by_algorithm(S3_STR("MD4"), &kind), -ENOENT);
        assert_int_equal(s3_checksum_by_header(S3_STR("x-amz-checksum-algorithm"), &kind), -ENOENT);
        assert_int_equal(s3_checksum_by_element(S3_STR("checksumcrc32"), &kind), -ENOENT);
        assert_int_equal(s3_checksum_type_parse(S3_STR("FULL_OBJECT"), &type), 0);
        assert_string_equal(s3_checksum_type_name(type), "FULL_OBJECT");
        assert_int_equal(s3_checksum_type_parse(S3_STR("composite"), &type), 0);
        assert_string_equal(s3_checksum_type_name(type), "COMPOSITE");
        assert_int_equal(s3_checksum_type_parse(S3_STR("HALF"), &type), -ENOENT);
        assert_false(s3_checksum_type_allowed(S3_SHA1, S3_FULL_OBJECT));
        assert_false(s3_checksum_type_allowed(S3_CRC64NVME, S3_COMPOSITE));
        for (kind = S3_SHA1; kind < S3_CHECKSUM_KINDS; kind++) {
                assert_false(s3_checksum_type_allowed(kind, S3_FULL_OBJECT));
                assert_true(s3_checksum_type_allowed(kind, S3_COMPOSITE));
        }
        assert_true(s3_checksum_type_allowed(S3_CRC32C, S3_FULL_OBJECT));
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Of "123456789". */
static const char *const check_values[S3_CHECKSUM_KINDS] = {
        "y/Q5Jg==", "4waSgw==", "rosUhgp5mIg=", "98O8HYCOBHMq32eZZczDTKeuNEE=",
        "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=",
        "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ==",
        "JfnnlDI7RTiF9RgfG2JNCw==", "jLhB20DmroM=", "ctyxi2ehff8=", "MxGUd+3l3NXpcWQnaB1YYA=="};

static void test_text_values(void **state)
{
        uint8_t value[S3_CHECKSUM_MAX];
        char text[S3_CHECKSUM_TEXT], composite[S3_CHECKSUM_TEXT];
        unsigned parts;

        for (unsigned i = 0; i < S3_CHECKSUM_KINDS; i++) {
                enum s3_checksum kind = (enum s3_checksum)i;

                assert_int_equal(s3_checksum_parse(kind, s3_str_of(check_values[i]), value), 0);
                assert_int_equal(s3_checksum_format(kind, value, 0, text), strlen(check_values[i]));
                assert_string_equal(text, check_values[i]);
                assert_int_equal(s3_checksum_parse(kind, S3_STR("AAA="), value), -EINVAL);
                s3_checksum_format(kind, value, 10000, composite);
                assert_int_equal(s3_checksum_parse(kind, s3_str_of(composite), value), -EINVAL);
                assert_int_equal(s3_checksum_parse_composite(kind, s3_str_of(composite), value, &parts), 0);
                assert_int_equal(parts, 10000);
                assert_int_equal(s3_checksum_parse_composite(kind, s3_str_of(check_values[i]), value, &parts), 0);
                assert_int_equal(parts, 0);
        }
        assert_int_equal(s3_checksum_parse_composite(S3_CRC32, S3_STR("y/Q5Jg==-"), value, &parts), -EINVAL);
        assert_int_equal(s3_checksum_parse_composite(S3_CRC32, S3_STR("y/Q5Jg==-0"), value, &parts), -EINVAL);
        assert_int_equal(s3_checksum_parse_composite(S3_CRC32, S3_STR("y/Q5Jg==-10001"), value, &parts), -EINVAL);
        assert_int_equal(s3_checksum_parse_composite(S3_CRC32, S3_STR("y/Q5Jg==-x"), value, &parts), -EINVAL);
        s3_checksum_from_crc(S3_CRC32, 0x01020304, value);
        assert_memory_equal(value, "\x01\x02\x03\x04", 4);
        assert_true(s3_checksum_to_crc(S3_CRC32, value) == 0x01020304);
        s3_checksum_from_crc(S3_CRC64NVME, 0x0102030405060708, value);
        assert_true(s3_checksum_to_crc(S3_CRC64NVME, value) == 0x0102030405060708);
}

static void test_running(void **state)
{
        const unsigned all = S3_CHECKSUM_BIT(S3_CHECKSUM_KINDS) - 1;
        struct s3_sums *sums;
        char text[S3_CHECKSUM_TEXT];

        for (unsigned mask = 0; mask <= all; mask++) {
                assert_int_equal(s3_sums_new(mask, &sums), 0);
                assert_int_equal(s3_sums_mask(sums), mask);
                for (unsigned again = 0; again < 2; again++) {
                        s3_sums_update(sums, "1234", 4);
                        s3_sums_update(sums, "", 0);
                        s3_sums_update(sums, "56789", 5);
                        s3_sums_final(sums);
                        for (unsigned i = 0; i < S3_CHECKSUM_KINDS; i++) {
                                if ((mask & S3_CHECKSUM_BIT(i)) == 0)
                                        continue;
                                s3_checksum_format((enum s3_checksum)i, s3_sums_value(sums, (enum s3_checksum)i), 0,
                                                   text);
                                assert_string_equal(text, check_values[i]);
                        }
                        s3_sums_reset(sums);
                }
                s3_sums_free(sums);
        }
        assert_int_equal(s3_sums_new(all + 1, &sums), -EINVAL);
        s3_sums_free(NULL);
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void sum_of(enum s3_checksum kind, const void *data, size_t len, uint8_t out[S3_CHECKSUM_MAX])
{
        struct s3_sums *sums;

        assert_int_equal(s3_sums_new(S3_CHECKSUM_BIT(kind), &sums), 0);
        s3_sums_update(sums, data, len);
        s3_sums_final(sums);
        memcpy(out, s3_sums_value(sums, kind), s3_checksum_info(kind)->len);
        s3_sums_free(sums);
}

static void test_full_object(void **state)
{
        static const enum s3_checksum kinds[] = {S3_CRC32, S3_CRC32C, S3_CRC64NVME};
        static char data[50000];

        for (size_t i = 0; i < sizeof(data); i++)
                data[i] = (char)random_next();
        for (unsigned round = 0; round < 60; round++) {
                enum s3_checksum kind = kinds[round % 3];
                size_t total = random_next() % sizeof(data), len;
                uint8_t whole[S3_CHECKSUM_MAX], value[S3_CHECKSUM_MAX], combined[S3_CHECKSUM_MAX];
                struct s3_parts_sum *sum;

                assert_int_equal(s3_parts_sum_new(kind, S3_FULL_OBJECT, &sum), 0);
                for (size_t at = 0; at < total; at += len) {
                        len = 1 + random_next() % 20000;
                        len = len < total - at ? len : total - at;
                        sum_of(kind, data + at, len, value);
                        s3_parts_sum_add(sum, value, len);
                }
                s3_parts_sum_final(sum, combined);
                sum_of(kind, data, total, whole);
                assert_memory_equal(combined, whole, s3_checksum_info(kind)->len);
                s3_parts_sum_free(sum);
        }
}

static void test_composite(void **state)
{
        for (unsigned i = 0; i < S3_CHECKSUM_KINDS; i++) {
                enum s3_checksum kind = (enum s3_checksum)i;
                size_t len = s3_checksum_info(kind)->len;
                uint8_t values[2 * S3_CHECKSUM_MAX], wanted[S3_CHECKSUM_MAX], got[S3_CHECKSUM_MAX];
                struct s3_parts_sum *sum;

                if (kind == S3_CRC64NVME) {
                        assert_int_equal(s3_parts_sum_new(kind, S3_COMPOSITE, &sum), -EINVAL);
                        continue;
                }
                assert_int_equal(s3_parts_sum_new(kind, S3_COMPOSITE, &sum), 0);
                sum_of(kind, "hello", 5, values);
                sum_of(kind, "world", 5, values + len);
                s3_parts_sum_add(sum, values, 5);
                s3_parts_sum_add(sum, values + len, 5);
                s3_parts_sum_final(sum, got);
                sum_of(kind, values, 2 * len, wanted);
                assert_memory_equal(got, wanted, len);
                s3_parts_sum_free(sum);
        }
        s3_parts_sum_free(NULL);
}

static void test_refused_parts(void **state)
{
        struct s3_parts_sum *sum;

        assert_int_equal(s3_parts_sum_new(S3_SHA256, S3_FULL_OBJECT, &sum), -EINVAL);
        assert_int_equal(s3_parts_sum_new(S3_CHECKSUM_KINDS, S3_COMPOSITE, &sum), -EINVAL);
}

/* ---- ETags ----------------------------------------------------------------------------------- */

static void test_etags(void **state)
{
        static const uint8_t md5[16] = {0x5d, 0x41, 0x40, 0x2a, 0xbc, 0x4b, 0x2a, 0x76,
                                        0xb9, 0x71, 0x9d, 0x91, 0x10, 0x17, 0xc5, 0x92};
        static const char *const bad[] = {"",
                                          "\"\"",
                                          "abc",
                                          "5d41402abc4b2a76b9719d911017c59",
                                          "5d41402abc4b2a76b9719d911017c592-",
                                          "5d41402abc4b2a76b9719d911017c592-0",
                                          "5d41402abc4b2a76b9719d911017c592-10001",
                                          "5d41402abc4b2a76b9719d911017c592-1x",
                                          "W/\"5d41402abc4b2a76b9719d911017c592\"",
                                          "\"5d41402abc4b2a76b9719d911017c592"};
        char text[S3_ETAG_SIZE];
        uint8_t back[16];
        unsigned parts;

        assert_int_equal(s3_etag_format(md5, 0, text), 34);
        assert_string_equal(text, "\"5d41402abc4b2a76b9719d911017c592\"");
        assert_int_equal(s3_etag_parse(s3_str_of(text), back, &parts), 0);
        assert_memory_equal(back, md5, 16);
        assert_int_equal(parts, 0);
        assert_int_equal(s3_etag_format(md5, 10000, text), 40);
        assert_string_equal(text, "\"5d41402abc4b2a76b9719d911017c592-10000\"");
        assert_int_equal(s3_etag_parse(s3_str_of(text), back, &parts), 0);
        assert_int_equal(parts, 10000);
        assert_int_equal(s3_etag_parse(S3_STR(" 5D41402ABC4B2A76B9719D911017C592-2 "), back, &parts), 0);
        assert_int_equal(parts, 2);
        for (size_t i = 0; i < COUNT(bad); i++)
                if (s3_etag_parse(s3_str_of(bad[i]), back, &parts) != -EINVAL)
                        fail_msg("taken: %s", bad[i]);
}

static void test_etag_lists(void **state)
{
        assert_true(s3_etag_in_list(S3_STR("\"a\""), S3_STR("a")));
        assert_true(s3_etag_in_list(S3_STR("a"), S3_STR("\"a\"")));
        assert_true(s3_etag_in_list(S3_STR("*"), S3_STR("a")));
        assert_true(s3_etag_in_list(S3_STR("\"x\", \"b,c\" ,\"a\""), S3_STR("a")));
        assert_true(s3_etag_in_list(S3_STR("\"x\",\"b,c\""), S3_STR("b,c")));
        assert_true(s3_etag_in_list(S3_STR("x,*"), S3_STR("a")));
        assert_false(s3_etag_in_list(S3_STR("\"x\",\"b,c\""), S3_STR("c")));
        assert_false(s3_etag_in_list(S3_STR("W/\"a\""), S3_STR("a")));
        assert_false(s3_etag_in_list(S3_STR(""), S3_STR("a")));
        assert_false(s3_etag_in_list(S3_STR("\"a"), S3_STR("a")));
        assert_false(s3_etag_in_list(S3_STR(",,,"), S3_STR("a")));
        assert_false(s3_etag_in_list(S3_STR("\"A\""), S3_STR("a")));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_base64),        cmocka_unit_test(test_hex),
                cmocka_unit_test(test_content_md5),   cmocka_unit_test(test_names),
                cmocka_unit_test(test_text_values),   cmocka_unit_test(test_running),
                cmocka_unit_test(test_full_object),   cmocka_unit_test(test_composite),
                cmocka_unit_test(test_refused_parts), cmocka_unit_test(test_etags),
                cmocka_unit_test(test_etag_lists),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
