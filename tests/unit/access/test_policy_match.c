/*
 * test_policy_match.c - access/pattern_read.c, pattern_match.c, block_find.c: wildcards, variables,
 * ARNs; rules A5 to A8.
 */
#include "tests/unit/access/access_fixture.h"

static const struct test_key *table;

static enum acc_match match_text(const char *pattern_text, struct s3_str text, bool like, bool variables, bool nocase)
{
        struct acc_policy *policy = calloc(1, sizeof(*policy));
        struct acc_principal alice = user_alice();
        struct test_keys keys = {.keys = table};
        struct acc_request request = {
                .principal = &alice, .lookup = table != NULL ? test_lookup : NULL, .context = &keys};
        struct acc_pattern pattern;
        enum acc_match match;

        assert_non_null(policy);
        assert_int_equal(acc_pattern_read(policy, s3_str_of(pattern_text), like, variables, &pattern), 0);
        match = acc_pattern_match(&request, &pattern, text, nocase);
        acc_policy_free(policy);
        return match;
}

static bool like(const char *pattern, const char *text)
{
        struct s3_str copy = heap_copy(text, strlen(text));
        enum acc_match match = match_text(pattern, copy, true, true, false);

        heap_free(copy);
        assert_int_not_equal(match, ACC_MATCH_UNKNOWN);
        return match == ACC_MATCH_YES;
}

static void test_wildcards(void **state)
{
        static const struct {
                const char *pattern, *text;
                bool match;
        } rows[] = {
                {"", "", true},
                {"", "a", false},
                {"a", "", false},
                {"*", "", true},
                {"*", "a/b", true},
                {"**", "", true},
                {"?", "", false},
                {"?", "a", true},
                {"?", "ab", false},
                {"??", "ab", true},
                {"???", "ab", false},
                {"a*", "a", true},
                {"a*", "ba", false},
                {"*a", "ba", true},
                {"*a", "ab", false},
                {"a*a", "a", false},
                {"a*a", "aa", true},
                {"a*b*c", "abc", true},
                {"a*b*c", "acb", false},
                {"*b*", "abc", true},
                {"*b*", "ac", false},
                {"a*?", "a", false},
                {"a*?", "ab", true},
                {"?*?", "a", false},
                {"?*?", "ab", true},
                {"*?*", "", false},
                {"*a?c*", "xxabcx", true},
                {"*a?c*", "xxabx", false},
                {"*a?c*d", "aacd", true},
                {"*ab*ab*", "ab", false},
                {"*ab*ab*", "abab", true},
                {"*?a*b", "ab", false},
                {"ab*ba", "aba", false},
                {"ab*ba", "abba", true},
                {"A", "a", false},
                {"a*", "A", false},
                {"home/*/x?", "home//xy", true},
                {"*.jpg", "a.jpg.png", false},
                {"*.jpg", ".jpg", true},
        };

        for (size_t i = 0; i < COUNT(rows); i++)
                if (like(rows[i].pattern, rows[i].text) != rows[i].match)
                        fail_msg("\"%s\" and \"%s\"", rows[i].pattern, rows[i].text);
}

static void test_characters(void **state)
{
        assert_true(like("?", "é"));
        assert_true(like("??", "é€"));
        assert_false(like("?", "é€"));
        assert_false(like("??", "é"));
        assert_true(like("*?x?*", "aéx😀b"));
        assert_true(like("*a?c*", "…a€c…"));
        assert_false(like("*a?c*", "…a€€c…"));
        assert_true(like("*é??z*", "aé€yz"));
        assert_true(like("?*?", "é€"));
        assert_false(like("?*?", "€"));
}

/* The simplest matcher that there is: a table of which prefixes match. ASCII. */
static bool reference(const char *pattern, const char *text)
{
        size_t m = strlen(pattern), n = strlen(text);
        bool now[512] = {true}, next[512];

        for (size_t i = 0; i < m; i++) {
                next[0] = now[0] && pattern[i] == '*';
                for (size_t t = 1; t <= n; t++)
                        next[t] = pattern[i] == '*' ? now[t] || next[t - 1]
                                                    : now[t - 1] && (pattern[i] == '?' || pattern[i] == text[t - 1]);
                memcpy(now, next, sizeof(now));
        }
        return now[n];
}

static void random_word(char *out, size_t len, const char *letters, size_t count)
{
        for (size_t i = 0; i < len; i++)
                out[i] = letters[random_next() % count];
        out[len] = '\0';
}

static void test_random(void **state)
{
        char pattern[300], text[500];
        unsigned matches = 0;

        for (unsigned round = 0; round < 60000; round++) {
                bool longer = round % 50 == 0; /* blocks of several columns */
                size_t m = random_next() % (longer ? 200 : 12), n = random_next() % (longer ? 400 : 14);

                random_word(pattern, m, longer ? "aaaaaaaaaaaa?????b*" : "ab?*", longer ? 19 : 4);
                random_word(text, n, longer ? "aaaaaaaaaaaaaaaaaaab" : "ab", longer ? 20 : 2);
                if (like(pattern, text) != reference(pattern, text))
                        fail_msg("\"%s\" and \"%s\"", pattern, text);
                matches += reference(pattern, text);
        }
        assert_in_range(matches, 1000, 59000);
}

/* Matching that goes back and forth would take 10^10 steps here. */
static void test_linear(void **state)
{
        static char pattern[16000], text[ACC_TEXT_MAX + 2];

        memset(text, 'a', sizeof(text) - 1);
        for (size_t i = 0; i + 2 < sizeof(pattern); i += 2)
                memcpy(pattern + i, "a?", 2);
        pattern[0] = '*';
        memcpy(pattern + sizeof(pattern) - 4, "b*", 3);
        assert_false(like(pattern, text + 1));
        for (size_t i = 0; i + 3 < sizeof(pattern); i += 2)
                memcpy(pattern + i, "a*", 2);
        memcpy(pattern + sizeof(pattern) - 3, "b", 2);
        assert_false(like(pattern, text + 1));
        /* Longer texts match no block with a question mark in it, but whole texts and ends. */
        assert_true(like("*a?a*", text + 1));
        assert_false(like("*a?a*", text));
        assert_true(like("a*a", text));
}

static void test_variables(void **state)
{
        static const struct test_key keys[] = {
                {"aws:PrincipalTag/team", {"red*"}},
                {"aws:PrincipalTag/empty", {""}},
                {"aws:TagKeys", {"a", "b"}},
                {"s3:prefix", {"${aws:username}"}},
                {NULL, {NULL}},
        };

        table = keys;
        assert_true(like("home/${aws:username}/*", "home/alice/x"));
        assert_false(like("home/${aws:username}/*", "home/bob/x"));
        assert_true(like("${AWS:UserName}", "alice"));
        /* A value is text: no wildcard, no variable. */
        assert_true(like("${aws:PrincipalTag/team}", "red*"));
        assert_false(like("${aws:PrincipalTag/team}", "redder"));
        assert_true(like("*${aws:PrincipalTag/team}?*", "a red*x"));
        assert_false(like("*${aws:PrincipalTag/team}?*", "a redxx"));
        assert_true(like("${s3:prefix}", "${aws:username}"));
        assert_true(like("<${aws:PrincipalTag/empty}>", "<>"));
        assert_true(like("*a${aws:PrincipalTag/empty}b*", "xaby"));
        /* Defaults. */
        assert_true(like("${aws:PrincipalTag/none, 'a}*b'}", "a}*b"));
        assert_false(like("${aws:PrincipalTag/none, 'a*'}", "ab"));
        assert_true(like("${aws:PrincipalTag/none,''}", ""));
        assert_true(like("${ aws:PrincipalTag/team , 'x' }", "red*"));
        /* Escapes. */
        assert_true(like("${*}${?}${$}", "*?$"));
        assert_false(like("${*}", "a"));
        assert_true(like("a$b$", "a$b$"));
        /* No single value. */
        assert_int_equal(match_text("x${aws:PrincipalTag/none}", S3_STR("x"), true, true, false), ACC_MATCH_UNKNOWN);
        assert_int_equal(match_text("${aws:TagKeys}", S3_STR("a"), true, true, false), ACC_MATCH_UNKNOWN);
        assert_int_equal(match_text("${aws:TagKeys, 'a'}", S3_STR("a"), true, true, false), ACC_MATCH_UNKNOWN);
        /* Without variables, and without wildcards, all is text. */
        assert_int_equal(match_text("${aws:username}", S3_STR("${aws:username}"), true, false, false), ACC_MATCH_YES);
        assert_int_equal(match_text("a*?", S3_STR("a*?"), false, true, false), ACC_MATCH_YES);
        assert_int_equal(match_text("a*?", S3_STR("abc"), false, true, false), ACC_MATCH_NO);
        assert_int_equal(match_text("${aws:username}X", S3_STR("ALICEx"), false, true, true), ACC_MATCH_YES);
        table = NULL;
}

static void test_variables_refused(void **state)
{
        static const char *const texts[] = {
                "${", "a${aws:username", "${}", "${ }", "${,'x'}", "${a,x}", "${a,'x}", "${a,'x'", "${a,'x'y}", "${a,",
        };
        struct acc_policy *policy = calloc(1, sizeof(*policy));
        struct acc_pattern pattern;

        assert_non_null(policy);
        for (size_t i = 0; i < COUNT(texts); i++) {
                struct s3_str copy = heap_copy(texts[i], strlen(texts[i]));

                assert_int_equal(acc_pattern_read(policy, copy, true, true, &pattern), -EINVAL);
                heap_free(copy);
        }
        acc_policy_free(policy);
}

static bool arn_like(const char *pattern, const char *text)
{
        struct acc_policy *policy = calloc(1, sizeof(*policy));
        struct s3_str parts[ACC_ARN_PARTS];
        struct acc_arn arn;
        bool match;

        assert_non_null(policy);
        assert_int_equal(acc_arn_read(policy, s3_str_of(pattern), true, true, &arn), 0);
        match = acc_arn_split(s3_str_of(text), parts) && acc_arn_match(NULL, &arn, parts) == ACC_MATCH_YES;
        acc_policy_free(policy);
        return match;
}

static void test_arns(void **state)
{
        const char *finance = "arn:aws:someservice:us-east-2:999999999999:store/abc:111122223333:finance/document.txt";

        assert_true(arn_like("*", "arn:aws:s3:::a"));
        assert_true(arn_like("arn:aws:s3:::*", "arn:aws:s3:::bucket/a:b/c"));
        assert_true(arn_like("arn:aws:s3:*:*:bucket/*", "arn:aws:s3:::bucket/"));
        assert_false(arn_like("arn:aws:s3:::bucket/*", "arn:aws:s3:::bucket"));
        assert_false(arn_like("arn:aws:s3:::bucket", "arn:aws:s3:::Bucket"));
        /* AWS's example: a star does not reach into the next part. */
        assert_false(arn_like("arn:aws:someservice:*:111122223333:finance/*", finance));
        assert_true(arn_like("arn:aws:someservice:*:999999999999:store/*", finance));
        assert_true(arn_like("arn:aws:${*}::a:b", "arn:aws:*::a:b"));
        assert_false(arn_like("arn:aws:${*}::a:b", "arn:aws:${*}::a:b"));
        /* Missing parts of a resource are stars. */
        assert_true(arn_like("arn:aws:s3", "arn:aws:s3:::a"));
        assert_false(arn_like("arn:aws:s3", "arn:aws:iam::1:user/a"));
        assert_true(arn_like("arn:aws:s3:*:bucket/*", "arn:aws:s3:::bucket/a")); /* a star for several parts (A5) */
        assert_true(arn_like("arn:aws:*:bucket/a", "arn:aws:s3:::bucket/a"));
        assert_true(arn_like("arn:*", "arn:aws:s3:::bucket/a"));
        assert_false(arn_like("arn:aws:s3:*:bucket/*", "arn:aws:s3:::other/a"));
        assert_false(arn_like("arn:aws:*:bucket/b", "arn:aws:s3:::bucket/a"));
        assert_false(arn_like("arn:aws:*:*:*:bucket", "arn:aws:s3:::a:b:bucket")); /* six parts are matched one by one */
        assert_true(arn_like("arn:aws:s3:::${s3:prefix, 'a:b'}", "arn:aws:s3:::a:b"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_wildcards), cmocka_unit_test(test_characters),
                cmocka_unit_test(test_random),    cmocka_unit_test(test_linear),
                cmocka_unit_test(test_variables), cmocka_unit_test(test_variables_refused),
                cmocka_unit_test(test_arns),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
