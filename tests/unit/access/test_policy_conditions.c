/*
 * test_policy_conditions.c - access/condition_match.c, operand_read.c: every operator, absent keys,
 * sets; rules A14 to A19.
 */
#include "tests/unit/access/access_fixture.h"

/* Does `{condition}` hold for these keys, in an identity policy? */
static bool holds(const char *condition, const struct test_key *keys)
{
        char text[2048];

        snprintf(text, sizeof(text), STATEMENT("{'Effect':'Allow','Action':'*','Resource':'*','Condition':{%s}}"),
                 condition);
        return asked(ACC_MANAGED, text, keys) == ACC_ALLOW;
}

#define WITH(name, ...) ((const struct test_key[]){{name, {__VA_ARGS__}}, {NULL, {NULL}}})
#define NONE            ((const struct test_key[]){{NULL, {NULL}}})

/* One operator with one value of the policy, for the key "k". */
static bool one(const char *operator, const char * value, const char *given)
{
        char condition[512];

        snprintf(condition, sizeof(condition), "'%s':{'k':'%s'}", operator, value);
        return holds(condition, given != NULL ? WITH("k", given) : NONE);
}

struct row {
        const char *operator, * value, *given;
        bool match;
};

static void expect_rows(const struct row *rows, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (one(rows[i].operator, rows[i].value, rows[i].given) != rows[i].match)
                        fail_msg("%s %s: %s", rows[i].operator, rows[i].value, rows[i].given);
}

static void test_strings(void **state)
{
        static const struct row rows[] = {
                {"StringEquals", "a", "a", true},
                {"StringEquals", "a", "A", false},
                {"StringEquals", "a*", "ab", false},
                {"StringEquals", "a*", "a*", true},
                {"StringEquals", "", "", true},
                {"StringNotEquals", "a", "a", false},
                {"StringNotEquals", "a", "b", true},
                {"StringEqualsIgnoreCase", "aB", "Ab", true},
                {"StringEqualsIgnoreCase", "a", "b", false},
                {"StringNotEqualsIgnoreCase", "aB", "Ab", false},
                {"StringLike", "a?c*", "abcd", true},
                {"StringLike", "a?c*", "Abcd", false},
                {"StringNotLike", "a*", "ab", false},
                {"StringNotLike", "a*", "b", true},
                {"StringEquals", "${aws:username}", "alice", true},
                {"StringLike", "${aws:username}/*", "alice/x", true},
                {"StringNotEquals", "${aws:PrincipalTag/none}", "x", true}, /* null equals nothing */
                {"StringEquals", "${aws:PrincipalTag/none}", "", false},
        };

        expect_rows(rows, COUNT(rows));
}

static void test_numbers(void **state)
{
        static const struct row rows[] = {
                {"NumericEquals", "10", "10.0", true},
                {"NumericEquals", "10", "10.000000001", false},
                {"NumericEquals", "-1", "-1", true},
                {"NumericNotEquals", "1", "2", true},
                {"NumericNotEquals", "1", "1.0", false},
                {"NumericLessThan", "10", "9", true},
                {"NumericLessThan", "10", "10", false},
                {"NumericLessThanEquals", "10", "10", true},
                {"NumericLessThanEquals", "10", "11", false},
                {"NumericGreaterThan", "0.5", "0.6", true},
                {"NumericGreaterThan", "9", "10", true},
                {"NumericGreaterThanEquals", "10", "9", false},
                {"NumericEquals", "999999999999999999", "999999999999999998", false},
                {"NumericEquals", "1", "one", false},
                {"NumericNotEquals", "1", "one", true},
                {"NumericLessThan", "1", "", false},
                {"NumericEquals", "1", " 1", false},
        };

        expect_rows(rows, COUNT(rows));
        assert_true(holds("'NumericEquals':{'k':[1,10]}", WITH("k", "10")));
        assert_true(holds("'NumericEquals':{'k':0.1}", WITH("k", "0.1")));
}

static void test_dates(void **state)
{
        static const struct row rows[] = {
                {"DateEquals", "2026-11-26T10:00:00Z", "2026-11-26T11:00:00+01:00", true},
                {"DateNotEquals", "2026-11-26T10:00:00Z", "2026-11-26T10:00:01Z", true},
                {"DateLessThan", "2026-11-26T10:00:00Z", "2026-11-26T09:59:59.999Z", true},
                {"DateLessThan", "2026-11-26T10:00:00Z", "2026-11-26T10:00:00Z", false},
                {"DateLessThanEquals", "2026-11-26T10:00:00Z", "2026-11-26T10:00:00Z", true},
                {"DateGreaterThan", "2026-11-26", "2026-11-26T00:00:01Z", true},
                {"DateGreaterThanEquals", "2026", "2026-01-01T00:00:00Z", true},
                {"DateGreaterThan", "2026-11", "2026-10-31T23:59:59Z", false},
                {"DateEquals", "2026-11-26T10:00Z", "2026-11-26T10:00:00Z", true},
                {"DateEquals", "1000000000", "2001-09-09T01:46:40Z", true},
                {"DateEquals", "2001-09-09T01:46:40Z", "1000000000", true},
                {"DateEquals", "2026-11-26", "today", false},
        };

        expect_rows(rows, COUNT(rows));
}

static void test_bool_binary_null(void **state)
{
        static const struct row rows[] = {
                {"Bool", "true", "true", true},        {"Bool", "TRUE", "true", true},
                {"Bool", "false", "true", false},      {"Bool", "false", "maybe", false},
                {"Bool", "false", NULL, false},        {"BinaryEquals", "QUI=", "AB", true},
                {"BinaryEquals", "QUI=", "ab", false}, {"Null", "true", NULL, true},
                {"Null", "true", "x", false},          {"Null", "false", "x", true},
                {"Null", "false", NULL, false},        {"Null", "false", "", true},
        };

        expect_rows(rows, COUNT(rows));
        assert_true(holds("'Bool':{'k':true}", WITH("k", "true")));
        assert_true(holds("'Null':{'k':true}", WITH("k", NULL))); /* there, with no values */
}

static void test_addresses(void **state)
{
        static const struct row rows[] = {
                {"IpAddress", "203.0.113.0/24", "203.0.113.255", true},
                {"IpAddress", "203.0.113.0/24", "203.0.114.0", false},
                {"IpAddress", "203.0.113.77/24", "203.0.113.1", true}, /* what is behind the bits does not count */
                {"IpAddress", "203.0.113.7", "203.0.113.7", true},
                {"IpAddress", "203.0.113.7", "203.0.113.8", false},
                {"IpAddress", "0.0.0.0/0", "8.8.8.8", true},
                {"IpAddress", "0.0.0.0/0", "2001:db8::1", false},
                {"IpAddress", "10.0.0.0/9", "10.127.255.255", true},
                {"IpAddress", "10.0.0.0/9", "10.128.0.0", false},
                {"IpAddress", "2001:DB8:1234:5678::/64", "2001:db8:1234:5678:ffff::1", true},
                {"IpAddress", "2001:DB8:1234:5678::/64", "2001:db8:1234:5679::1", false},
                {"IpAddress", "::1", "0:0:0:0:0:0:0:1", true},
                {"IpAddress", "203.0.113.0/24", "::ffff:203.0.113.9", true},
                {"IpAddress", "203.0.113.0/24", "nonsense", false},
                {"NotIpAddress", "203.0.113.0/24", "203.0.113.9", false},
                {"NotIpAddress", "203.0.113.0/24", "1.2.3.4", true},
                {"NotIpAddress", "203.0.113.0/24", "nonsense", true},
        };

        expect_rows(rows, COUNT(rows));
}

static void test_arns(void **state)
{
        static const struct row rows[] = {
                {"ArnEquals", "arn:aws:iam::*:role/*", "arn:aws:iam::123456789012:role/Admin", true},
                {"ArnLike", "arn:aws:iam::*:role/*", "arn:aws:iam::123456789012:user/Admin", false},
                {"ArnNotEquals", "arn:aws:iam::1:role/*", "arn:aws:iam::2:role/a", true},
                {"ArnNotLike", "arn:aws:iam::1:role/*", "arn:aws:iam::1:role/a", false},
                {"ArnLike", "arn:aws:iam::1:user/${aws:username}", "arn:aws:iam::1:user/alice", true},
                {"ArnLike", "*", "arn:aws:iam::1:user/alice", true},
                {"ArnLike", "arn:*:*:*:*:*", "not an arn", false},
                {"ArnNotLike", "arn:*:*:*:*:*", "not an arn", true},
        };

        expect_rows(rows, COUNT(rows));
}

static void test_absent(void **state)
{
        static const struct row rows[] = {
                {"StringEquals", "a", NULL, false},
                {"StringNotEquals", "a", NULL, true},
                {"StringLike", "*", NULL, false},
                {"StringNotLike", "*", NULL, true},
                {"NumericNotEquals", "1", NULL, true},
                {"NumericLessThan", "1", NULL, false},
                {"DateNotEquals", "2026", NULL, true},
                {"NotIpAddress", "1.2.3.4", NULL, true},
                {"IpAddress", "0.0.0.0/0", NULL, false},
                {"ArnNotLike", "*", NULL, true},
                {"ArnLike", "*", NULL, false},
                {"BinaryEquals", "", NULL, false},
                {"StringEqualsIfExists", "a", NULL, true},
                {"StringEqualsIfExists", "a", "b", false},
                {"StringEqualsIfExists", "a", "a", true},
                {"StringNotEqualsIfExists", "a", NULL, true},
                {"BoolIfExists", "true", NULL, true},
                {"BoolIfExists", "true", "false", false},
                {"NumericLessThanIfExists", "1", NULL, true},
                {"IpAddressIfExists", "1.2.3.4", NULL, true},
                {"ForAllValues:StringEquals", "a", NULL, true},
                {"ForAnyValue:StringEquals", "a", NULL, false},
                {"ForAllValues:StringNotEquals", "a", NULL, true},
                {"ForAnyValue:StringNotEquals", "a", NULL, false},
                {"ForAnyValue:StringEqualsIfExists", "a", NULL, true},
                {"ForAllValues:StringEquals", "a", "", true},
                {"ForAnyValue:StringEquals", "a", "", false},
        };

        expect_rows(rows, COUNT(rows));
}

static void test_sets(void **state)
{
        const struct test_key *both = WITH("k", "a", "b");

        assert_true(holds("'ForAllValues:StringEquals':{'k':['a','b','c']}", both));
        assert_false(holds("'ForAllValues:StringEquals':{'k':['a','c']}", both));
        assert_true(holds("'ForAnyValue:StringEquals':{'k':['c','b']}", both));
        assert_false(holds("'ForAnyValue:StringEquals':{'k':['c','d']}", both));
        assert_true(holds("'ForAllValues:StringNotEquals':{'k':['c','d']}", both));
        assert_false(holds("'ForAllValues:StringNotEquals':{'k':['c','b']}", both));
        assert_true(holds("'ForAnyValue:StringNotEquals':{'k':['a']}", both));
        assert_false(holds("'ForAnyValue:StringNotEquals':{'k':['a','b']}", both));
        /* Several values without a set operator: any may match, but none for a negated one. */
        assert_true(holds("'StringEquals':{'k':'b'}", both));
        assert_false(holds("'StringNotEquals':{'k':'b'}", both));
        assert_true(holds("'StringNotEquals':{'k':'c'}", both));
        /* No values in the policy. */
        assert_false(holds("'StringEquals':{'k':[]}", both));
        assert_true(holds("'StringNotEquals':{'k':[]}", both));
}

static void test_all_must_hold(void **state)
{
        const struct test_key keys[] = {{"k", {"a"}}, {"n", {"5"}}, {NULL, {NULL}}};

        assert_true(holds("'StringEquals':{'k':'a','n':'5'},'NumericLessThan':{'n':'6'}", keys));
        assert_false(holds("'StringEquals':{'k':'a','n':'6'},'NumericLessThan':{'n':'6'}", keys));
        assert_false(holds("'StringEquals':{'k':'a'},'NumericLessThan':{'n':'5'}", keys));
        assert_true(holds("'StringEquals':{}", keys));
        assert_true(holds("", keys));
}

static void test_principal_keys(void **state)
{
        assert_true(holds("'StringEquals':{'AWS:UserName':'alice','aws:PrincipalType':'User','aws:userid':'AIDAALICE',"
                          "'aws:PrincipalAccount':'" ACCOUNT
                          "'},'ArnLike':{'aws:PrincipalArn':'arn:aws:iam::*:user/team/*'}",
                          NONE));
        /* The caller is not asked for them. */
        assert_false(holds("'StringEquals':{'aws:username':'bob'}", WITH("aws:username", "bob")));
        /* Key names have no case, and neither has the tag's. */
        assert_true(holds("'StringEquals':{'AWS:principaltag/TEAM':'x'}", WITH("aws:PrincipalTag/team", "x")));
}

static void test_known_keys(void **state)
{
        struct acc_key key = acc_key_find(S3_STR("S3:existingobjecttag/Colour/x"));

        assert_int_equal(key.id, ACC_KEY_S3_EXISTING_OBJECT_TAG);
        expect_str(key.tag, "Colour/x");
        expect_str(acc_key_name(key.id), "s3:ExistingObjectTag/");
        assert_int_equal(acc_key_find(S3_STR("s3:ExistingObjectTag/")).id, ACC_KEY_OTHER);
        assert_int_equal(acc_key_find(S3_STR("s3:ExistingObjectTag")).id, ACC_KEY_OTHER);
        assert_int_equal(acc_key_find(S3_STR("")).id, ACC_KEY_OTHER);
        for (int id = ACC_KEY_OTHER + 1; id < ACC_KEY_COUNT; id++) {
                struct s3_str name = acc_key_name((enum acc_key_id)id);
                char text[128];

                snprintf(text, sizeof(text), "%.*s%s", (int)name.len, name.data,
                         name.data[name.len - 1] == '/' ? "t" : "");
                assert_int_equal(acc_key_find(s3_str_of(text)).id, id);
        }
        assert_null(acc_key_name(ACC_KEY_COUNT).data);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_strings),       cmocka_unit_test(test_numbers),
                cmocka_unit_test(test_dates),         cmocka_unit_test(test_bool_binary_null),
                cmocka_unit_test(test_addresses),     cmocka_unit_test(test_arns),
                cmocka_unit_test(test_absent),        cmocka_unit_test(test_sets),
                cmocka_unit_test(test_all_must_hold), cmocka_unit_test(test_principal_keys),
                cmocka_unit_test(test_known_keys),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
