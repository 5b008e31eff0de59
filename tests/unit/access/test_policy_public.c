/*
 * test_policy_public.c - access/public_policy.c: S3's meaning of public; rule A21.
 */
#include "tests/unit/access/access_fixture.h"

static bool is_public(const char *who, const char *condition)
{
        struct acc_policy *policy;
        char text[600];
        bool everyone;

        snprintf(text, sizeof(text),
                 STATEMENT("{'Effect':'Allow',%s,'Action':'s3:PutObject','Resource':'*','Condition':{%s}}"), who,
                 condition);
        policy = compiled(ACC_BUCKET, text);
        everyone = acc_policy_is_public(policy);
        acc_policy_free(policy);
        return everyone;
}

static void test_principals(void **state)
{
        assert_true(is_public("'Principal':'*'", ""));
        assert_true(is_public("'Principal':{'AWS':'*'}", ""));
        assert_true(is_public("'Principal':{'AWS':['" ACCOUNT "','*']}", ""));
        assert_true(is_public("'Principal':{'Federated':'graph.facebook.com'}", ""));
        assert_true(is_public("'NotPrincipal':{'AWS':'" ACCOUNT "'}", ""));
        assert_false(is_public("'Principal':{'AWS':'" ACCOUNT "'}", ""));
        assert_false(is_public("'Principal':{'AWS':'arn:aws:iam::" ACCOUNT ":user/a','CanonicalUser':'" CANONICAL_1
                               "','Service':'a.b'}",
                               ""));
}

static void test_conditions(void **state)
{
        static const struct {
                const char *condition;
                bool everyone;
        } rows[] = {
                {"'StringLike':{'aws:SourceVpc':'vpc-*'}", true},
                {"'StringEquals':{'aws:SourceVpc':'vpc-91237329'}", false},
                {"'StringLike':{'aws:SourceVpc':'vpc-91237329'}", false},
                {"'StringEquals':{'aws:SourceVpc':['vpc-1','${aws:username}']}", true},
                {"'StringEquals':{'aws:SourceVpc':''}", true},
                {"'StringEqualsIfExists':{'aws:SourceVpc':'vpc-1'}", true},
                {"'ForAllValues:StringEquals':{'aws:SourceVpc':'vpc-1'}", true},
                {"'ForAnyValue:StringEquals':{'aws:SourceVpc':'vpc-1'}", false},
                {"'StringNotEquals':{'aws:SourceVpc':'vpc-1'}", true},
                {"'StringEquals':{'aws:Referer':'x'}", true},
                {"'StringEquals':{'aws:Referer':'x','aws:PrincipalOrgID':'o-1'}", false},
                {"'Null':{'aws:SourceVpc':'false'}", true},
                {"'StringEquals':{'aws:userid':'AIDAX'}", false},
                {"'StringLike':{'aws:userid':'AROAX:*'}", true},
                {"'ArnLike':{'aws:PrincipalArn':'arn:aws:iam::" ACCOUNT ":role/r'}", false},
                {"'ArnLike':{'aws:PrincipalArn':'arn:aws:iam::" ACCOUNT ":role/*'}", true},
                {"'ArnLike':{'aws:SourceArn':'*'}", true},
                {"'ArnEquals':{'aws:SourceArn':'arn:aws:s3:::b'}", false},
                {"'ArnLike':{'s3:DataAccessPointArn':'arn:aws:s3:us-west-2:" ACCOUNT ":accesspoint/*'}", false},
                {"'ArnLike':{'s3:DataAccessPointArn':'arn:aws:s3:us-west-2:*:accesspoint/a'}", true},
                {"'StringLike':{'s3:DataAccessPointArn':'arn:aws:s3:us-west-2:" ACCOUNT ":accesspoint/*'}", false},
                {"'StringLike':{'s3:DataAccessPointArn':'arn:aws:s3:*'}", true},
                {"'StringEquals':{'s3:x-amz-server-side-encryption-aws-kms-key-id':'k'}", false},
                {"'IpAddress':{'aws:SourceIp':'203.0.113.0/24'}", false},
                {"'IpAddress':{'aws:SourceIp':'10.0.0.0/8'}", false},
                {"'IpAddress':{'aws:SourceIp':'0.0.0.0/1'}", true},
                {"'IpAddress':{'aws:SourceIp':'8.0.0.0/7'}", true},
                {"'IpAddress':{'aws:SourceIp':['203.0.113.0/24','0.0.0.0/0']}", true},
                {"'IpAddress':{'aws:SourceIp':'2001:db8::/32'}", false},
                {"'IpAddress':{'aws:SourceIp':'2001:db8::/31'}", true},
                {"'IpAddress':{'aws:SourceIp':'::/32'}", true}, /* all of IPv4 is in it */
                {"'IpAddress':{'aws:SourceIp':'::ffff:0:0/96'}", true},
                {"'NotIpAddress':{'aws:SourceIp':'203.0.113.0/24'}", true},
                {"'IpAddress':{'aws:VpcSourceIp':'203.0.113.0/24'}", true},
        };

        for (size_t i = 0; i < COUNT(rows); i++)
                if (is_public("'Principal':'*'", rows[i].condition) != rows[i].everyone)
                        fail_msg("%s", rows[i].condition);
}

static void test_statements(void **state)
{
        struct acc_policy *policy =
                compiled(ACC_BUCKET,
                         STATEMENT("{'Effect':'Deny','Principal':'*','Action':'*','Resource':'*'},"
                                   "{'Effect':'Allow','Principal':{'AWS':'" ACCOUNT "'},'Action':'*','Resource':'*'}"));

        assert_false(acc_policy_is_public(policy));
        acc_policy_free(policy);
        policy = compiled(
                ACC_BUCKET,
                STATEMENT("{'Effect':'Allow','Principal':{'AWS':'" ACCOUNT "'},'Action':'*','Resource':'*'},"
                          "{'Effect':'Allow','Principal':'*','Action':'s3:GetBucketLocation','Resource':'*'}"));
        assert_true(acc_policy_is_public(policy));
        acc_policy_free(policy);
        policy = compiled(ACC_MANAGED, ALLOW_ALL);
        assert_false(acc_policy_is_public(policy));
        acc_policy_free(policy);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_principals),
                cmocka_unit_test(test_conditions),
                cmocka_unit_test(test_statements),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
