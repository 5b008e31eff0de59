/*
 * test_encoded_words.c - s3/encoded_words.c: metadata beyond ASCII as encoded words.
 */
#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "tests/unit/s3/s3_fixture.h"

static void expect_words(struct s3_str value, const char *want)
{
        char out[S3_WORDS_SIZE(256)];
        ssize_t len = s3_words_encode(value, out, sizeof(out));

        assert_true(len >= 0);
        expect_str(((struct s3_str){out, (size_t)len}), want);
}

static void test_words(void **state)
{
        static const struct {
                const char *value, *want;
        } cases[] = {
                {"", ""},
                {"Mini\xc3\xb6", "=?UTF-8?Q?Mini=C3=B6?="},
                {"\xc3\xb6", "=?UTF-8?B?w7Y=?="},
                {"\xe6\x97\xa5\xe6\x9c\xac", "=?UTF-8?B?5pel5pys?="},
                {"a=b?c_d \xc3\xa9", "=?UTF-8?Q?a=3Db=3Fc=5Fd_=C3=A9?="},
                {"a\tb\xc3\xa9", "=?UTF-8?Q?a=09b=C3=A9?="},
                {"caf\xe9", "=?UTF-8?Q?caf=C3=A9?="},               /* ISO-8859-1 */
                {"\xff\xc3", "=?UTF-8?B?w7/Dgw==?="},              /* a sequence that is cut off is none */
                {"\xed\xa0\x80zzz", "=?UTF-8?Q?=C3=AD=C2=A0=C2=80zzz?="}, /* nor is a surrogate */
                {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\xc3\xa9",
                 "=?UTF-8?Q?xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx?= =?UTF-8?Q?=C3=A9?="},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                expect_words(s3_str_of(cases[i].value), cases[i].want);
        expect_words((struct s3_str){"a\0b\xc3\xa9", 5}, "=?UTF-8?Q?a=00b=C3=A9?=");
        assert_true(s3_ascii(S3_STR("=?~\t")));
        assert_false(s3_ascii(S3_STR("a\x80")));
}

/*
 * The room that is promised to be enough is, for the bytes that take most of it; less is told, and
 * never gone beyond.
 */
static void test_room(void **state)
{
        static const unsigned char dear[] = {0xff, '=', 0xc3, 0xa9, '?', ' ', 0xe9, 'a'};
        char value[200], out[S3_WORDS_SIZE(sizeof(value)) + 1];

        for (unsigned a = 0; a < sizeof(dear); a++) {
                for (unsigned b = 0; b < sizeof(dear); b++) {
                        for (size_t len = 1; len <= sizeof(value); len++) {
                                size_t cap = S3_WORDS_SIZE(len);
                                ssize_t used;

                                value[len - 1] = (char)(len % 2 != 0 ? dear[a] : dear[b]);
                                out[cap] = '!';
                                used = s3_words_encode((struct s3_str){value, len}, out, cap);
                                assert_true(used > 0 && out[cap] == '!');
                                out[used - 1] = '!';
                                assert_int_equal(s3_words_encode((struct s3_str){value, len}, out, (size_t)used - 1),
                                                 -ENOBUFS);
                                assert_true(out[used - 1] == '!');
                        }
                }
        }
}

/*
 * What was encoded comes back; one byte in three is beyond ASCII, characters have one to four of
 * them.
 */
static void test_back(void **state)
{
        static const char *const characters[] = {"a", "=", "?", "_", " ", "\t", "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x8e\x88"};
        unsigned seed = (unsigned)time(NULL);

        print_message("seed %u\n", seed);
        srand(seed);
        for (unsigned round = 0; round < 2000; round++) {
                char value[300], words[S3_WORDS_SIZE(sizeof(value))];
                size_t len = 0;
                ssize_t n;

                for (int i = rand() % 70; i >= 0; i--) {
                        const char *c = characters[(size_t)rand() % COUNT(characters)];

                        while (*c != '\0')
                                value[len++] = *c++;
                }
                n = s3_words_encode((struct s3_str){value, len}, words, sizeof(words));
                assert_true(n > 0);
                n = s3_words_decode((struct s3_str){words, (size_t)n}, words);
                assert_int_equal(n, len);
                assert_memory_equal(words, value, len);
        }
}

static void test_no_words(void **state)
{
        static const char *const bad[] = {
                "",
                "plain",
                "=?",
                "=?UTF-8?Q?a",
                "=?UTF-8?Q?a?",
                "=?UTF-8?X?a?=",
                "=?ISO-8859-1?Q?a?=",
                "=?UTF-8?Q?a?= b",
                "b =?UTF-8?Q?a?=",
                "=?UTF-8?Q?=4?=",
                "=?UTF-8?Q?=0A?=",
                "=?UTF-8?Q?=C3?=",
                "=?UTF-8?Q?=00?=",
                "=?UTF-8?B?w7Y?=",
                "=?UTF-8?B?w7Y==?=",
                "=?UTF-8?B?DQo=?=",
                "=?UTF-8?B?aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa?=",
        };
        char out[256];

        for (size_t i = 0; i < COUNT(bad); i++)
                if (s3_words_decode(s3_str_of(bad[i]), out) != -EINVAL)
                        fail_msg("taken: %s", bad[i]);
        assert_int_equal(s3_words_decode(S3_STR("=?utf-8?q?a_=C3=A9?=   =?Utf-8?b?w7Y=?="), out), 6);
        assert_memory_equal(out, "a \xc3\xa9\xc3\xb6", 6);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_words),
                cmocka_unit_test(test_room),
                cmocka_unit_test(test_back),
                cmocka_unit_test(test_no_words),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
