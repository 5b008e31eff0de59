/*
 * test_json.c - JSON lines: any bytes in, one valid line out, at any size of the buffer.
 */
#include "server/json.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *parse_line(const char *buf, size_t len)
{
        json_error_t error;
        json_t *json;

        assert_true(len > 0 && buf[len - 1] == '\n');
        assert_null(memchr(buf, '\n', len - 1));
        json = json_loadb(buf, len, JSON_REJECT_DUPLICATES, &error);
        if (json == NULL)
                fail_msg("%.*s: %s", (int)len, buf, error.text);
        return json;
}

/* What a value reads as after it was written and parsed. */
static void reads_as(const char *value, const char *expected)
{
        struct srv_json json;
        char buf[1024];
        json_t *parsed;
        size_t len;

        srv_json_begin(&json, buf, sizeof(buf));
        srv_json_string(&json, "v", value, sizeof(buf));
        len = srv_json_end(&json);
        parsed = parse_line(buf, len);
        assert_string_equal(json_string_value(json_object_get(parsed, "v")), expected);
        json_decref(parsed);
}

static void test_values(void **state)
{
        reads_as("", "");
        reads_as("plain", "plain");
        reads_as("\"quotes\" and \\ and /", "\"quotes\" and \\ and /");
        reads_as("\n\r\t\x01\x1f\x7f", "\n\r\t\x01\x1f\x7f");
        reads_as("h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "h\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
        /* Not UTF-8: a lone continuation, overlong forms, a surrogate, too large, cut short. */
        reads_as("a\x80z", "a\xef\xbf\xbdz");
        reads_as("\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd");
        reads_as("\xe0\x80\xaf", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
        reads_as("\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
        reads_as("\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
        reads_as("\xf5z", "\xef\xbf\xbdz");
        reads_as("\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd");
        reads_as("\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd");
}

static void test_every_byte(void **state)
{
        char value[2] = {0, 0};
        struct srv_json json;
        char buf[64];
        int c;

        for (c = 1; c < 256; c++) {
                value[0] = (char)c;
                srv_json_begin(&json, buf, sizeof(buf));
                srv_json_string(&json, "v", value, 32);
                json_decref(parse_line(buf, srv_json_end(&json)));
        }
}

static void test_fields(void **state)
{
        struct srv_json json;
        char buf[256];
        json_t *parsed;

        srv_json_begin(&json, buf, sizeof(buf));
        srv_json_string(&json, "a", "x", 10);
        srv_json_string(&json, "left out", NULL, 10);
        srv_json_uint(&json, "n", UINT64_C(9007199254740993));
        srv_json_string(&json, "cut", "abc\"def", 5);
        parsed = parse_line(buf, srv_json_end(&json));
        assert_int_equal(json_object_size(parsed), 3);
        assert_int_equal(json_integer_value(json_object_get(parsed, "n")), INT64_C(9007199254740993));
        assert_string_equal(json_string_value(json_object_get(parsed, "cut")), "abc\""); /* \" is two bytes */
        json_decref(parsed);

        srv_json_begin(&json, buf, sizeof(buf));
        assert_string_equal("{}\n", (buf[srv_json_end(&json)] = '\0', buf));
}

/* A cut never falls inside an escape or a character, and never writes beyond the size. */
static void test_every_size(void **state)
{
        char *buf;
        struct srv_json json;
        size_t size, len;

        for (size = 0; size < 120; size++) {
                buf = malloc(size + 1);
                buf[size] = 'E';
                srv_json_begin(&json, buf, size);
                srv_json_string(&json, "first", "\xe2\x82\xac\x01\"\xff", 1000);
                srv_json_uint(&json, "second", 1234567890123);
                srv_json_string(&json, "third", "\n\n\n\n\n\n", 1000);
                len = srv_json_end(&json);
                assert_true(len <= size);
                assert_int_equal(buf[size], 'E');
                if (size >= 3)
                        json_decref(parse_line(buf, len));
                else
                        assert_int_equal(len, 0);
                free(buf);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_values),
                cmocka_unit_test(test_every_byte),
                cmocka_unit_test(test_fields),
                cmocka_unit_test(test_every_size),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
