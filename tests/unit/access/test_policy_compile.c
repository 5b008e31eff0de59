/*
 * test_policy_compile.c - access/compile*.c: which policies are refused, and why; rules A1, A4, A9,
 * A10, A19, A20, A25.
 */
#include "tests/unit/access/access_fixture.h"

#include "access/builder.h"

#define IAM_SYNTAX "Syntax errors in policy."
#define S3_OBJECT  "'Resource':'arn:aws:s3:::bucket/*'"
#define GET        "'Effect':'Allow','Action':'s3:GetObject'"
#define PUBLIC_GET GET ",'Principal':'*'," S3_OBJECT

static void accept(enum acc_kind kind, const char *text)
{
        acc_policy_free(compiled(kind, text));
}

static void test_documents(void **state)
{
        static const char *const bad_iam[] = {
                "This is not JSON",
                "",
                "[]",
                "{",
                "{'Version':'2012-10-17'}",
                "{'Version':'2013-10-17','Statement':[]}",
                "{'Version':'2012-10-17','Statement':[]}",
                "{'Version':'2012-10-17','Statement':['a']}",
                "{'Version':'2012-10-17','Statement':'a'}",
                "{'Version':'2012-10-17','Extra':1,'Statement':{}}",
                "{'Id':['x'],'Statement':{" GET ",'Resource':'*'}}",
                "{'Id':{},'Statement':{" GET ",'Resource':'*'}}",
                STATEMENT(GET ",'Resource':'*'"), /* no braces */
                STATEMENT("{" GET "}") "x",
        };

        for (size_t i = 0; i < COUNT(bad_iam); i++)
                expect_refusal(ACC_MANAGED, bad_iam[i], IAM_SYNTAX, NULL);
        accept(ACC_MANAGED, " \n{'Id':'x','Statement':{" GET ",'Resource':'*'}}\n");
        accept(ACC_BUCKET, "{'Version':'2008-10-17','Id':'a b','Statement':{'Sid':'a b','Effect':'Deny','Action':'*',"
                           "'NotPrincipal':{'AWS':'" ACCOUNT "'},'NotResource':'arn:aws:s3:::bucket'}}");
        expect_refusal(ACC_BUCKET, " {}", "Policies must be valid JSON and the first byte must be '{'", "");
        expect_refusal(ACC_BUCKET, "{", "This policy contains invalid Json", "");
        expect_refusal(ACC_BUCKET, "{}", "Missing required field Statement", "Statement");
        expect_refusal(ACC_BUCKET, "{'Statement':[]}", "Could not parse the policy: Statement is empty!", "Statement");
        expect_refusal(ACC_BUCKET, "{'Version':'2015-10-17','Statement':[]}",
                       "The policy must contain a valid version string", "Version");
        expect_refusal(ACC_BUCKET, "{'Foo':1}", "Unknown field Foo", "Foo");
        /* Duplicate names, and texts that are no UTF-8 or hold NUL. */
        expect_refusal(ACC_MANAGED, "{'Statement':{'Effect':'Deny'," GET ",'Resource':'*'}}", IAM_SYNTAX, NULL);
        expect_refusal(ACC_MANAGED, "{'Id':'\xff','Statement':{" GET ",'Resource':'*'}}", IAM_SYNTAX, NULL);
        expect_refusal(ACC_MANAGED, "{'Id':'\\u0000','Statement':{" GET ",'Resource':'*'}}", IAM_SYNTAX, NULL);
}

static void test_bombs(void **state)
{
        static char text[120000];
        struct acc_policy *policy;
        struct acc_error error;

        memset(text, '[', sizeof(text));
        assert_int_equal(
                acc_policy_compile((struct s3_str){text, sizeof(text)}, ACC_MANAGED, S3_STR(""), &policy, &error),
                -E2BIG);
        assert_int_equal(acc_policy_compile((struct s3_str){text, 6000}, ACC_MANAGED, S3_STR(""), &policy, &error),
                         -EINVAL);
        memset(text, ' ', sizeof(text)); /* white space does not count, but has a bound */
        memcpy(text, "{\"Statement\":{\"Effect\":\"Allow\",\"Action\":\"*\",\"Resource\":\"*\"}}", 60);
        assert_int_equal(
                acc_policy_compile((struct s3_str){text, sizeof(text)}, ACC_MANAGED, S3_STR(""), &policy, &error), 0);
        acc_policy_free(policy);
        assert_int_equal(acc_json_depth(S3_STR("{\"[[[\\\"[[\":[{}]}")), 3);
        assert_int_equal(acc_json_depth(S3_STR("\"\\")), 0);
}

static void expect_limit(enum acc_kind kind, size_t limit, bool spaces, const char *message)
{
        static char text[40000];
        struct acc_policy *policy;
        struct acc_error error;
        const char *resource = kind == ACC_TRUST ? "" : ",'Resource':'*'";
        const char *who = kind == ACC_BUCKET || kind == ACC_TRUST ? ",'Principal':'*'" : "";
        size_t used;

        for (size_t over = 0; over < 2; over++) {
                snprintf(text, sizeof(text), "{'Statement':{'Effect':'Deny','Action':'%s'%s%s},'Id':'",
                         kind == ACC_TRUST ? "sts:*" : "*", resource, who);
                for (used = 0; text[used] != '\0'; used++)
                        text[used] = text[used] == '\'' ? '"' : text[used];
                memset(text + used, 'x', limit + over - used - 2);
                memcpy(text + limit + over - 2, "\"}", 2);
                assert_int_equal(acc_policy_compile((struct s3_str){text, limit + over}, kind, S3_STR("bucket"),
                                                    &policy, &error),
                                 over ? -E2BIG : 0);
                if (over)
                        assert_string_equal(error.message, message);
                else
                        acc_policy_free(policy);
        }
        /* One character more, which is white space. */
        memcpy(text + limit - 2, "\" }", 3);
        assert_int_equal(acc_policy_compile((struct s3_str){text, limit + 1}, kind, S3_STR("bucket"), &policy, &error),
                         spaces ? -E2BIG : 0);
        if (!spaces)
                acc_policy_free(policy);
}

static void test_lengths(void **state)
{
        expect_limit(ACC_BUCKET, 20480, true, "Policy exceeds the maximum allowed document size.");
        expect_limit(ACC_MANAGED, 6144, false, "Maximum policy size of 6144 bytes exceeded");
        expect_limit(ACC_INLINE_USER, 2048, false, "Maximum policy size of 2048 bytes exceeded");
        expect_limit(ACC_INLINE_GROUP, 5120, false, "Maximum policy size of 5120 bytes exceeded");
        expect_limit(ACC_INLINE_ROLE, 10240, false, "Maximum policy size of 10240 bytes exceeded");
        expect_limit(ACC_TRUST, 2048, false, "Maximum policy size of 2048 bytes exceeded");
        expect_limit(ACC_SESSION, 2048, true, "Maximum policy size of 2048 bytes exceeded");
}

static void test_elements(void **state)
{
        expect_refusal(ACC_MANAGED, STATEMENT("{'Action':'*','Resource':'*'}"), IAM_SYNTAX, "Statement[0].Effect");
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'Resource':'*'},{'Effect':'denY','Action':'*','Resource':'*'}"),
                       IAM_SYNTAX, "Statement[1].Effect");
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'Resource':'*','Extra':1}"), IAM_SYNTAX, "Statement[0].Extra");
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET "}"), "Policy statement must contain resources.",
                       "Statement[0].Resource");
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'Resource':[]}"), "Policy statement must contain resources.",
                       NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{'Effect':'Allow','Resource':'*'}"),
                       "Policy statement must contain actions.", "Statement[0].Action");
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'NotAction':'s3:*','Resource':'*'}"), IAM_SYNTAX, NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'NotResource':[],'Resource':'*'}"), IAM_SYNTAX, NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{" PUBLIC_GET "}"), "Policy document should not specify a principal.",
                       NULL);
        expect_refusal(ACC_SESSION, STATEMENT("{" GET ",'NotPrincipal':'*','Resource':'*'}"),
                       "Policy document should not specify a principal.", NULL);
        expect_refusal(ACC_BUCKET, STATEMENT("{" GET "," S3_OBJECT "}"), "Missing required field Principal", NULL);
        expect_refusal(ACC_BUCKET, STATEMENT("{'Effect':'Allow','Principal':'*'," S3_OBJECT "}"),
                       "Missing required field Action", NULL);
        expect_refusal(ACC_BUCKET, STATEMENT("{" GET ",'Principal':'*'}"), "Missing required field Resource", NULL);
        expect_refusal(ACC_BUCKET, STATEMENT("{'Effect':'allow','Principal':'*','Action':'*'," S3_OBJECT "}"),
                       "Invalid effect: allow", NULL);
        expect_refusal(ACC_BUCKET, STATEMENT("{" PUBLIC_GET ",'A\\u0001':1}"), "Unknown field A?", "Statement[0].A?");
        expect_refusal(ACC_BUCKET, STATEMENT("{" PUBLIC_GET ",'NotPrincipal':'*'}"),
                       "Statement has both an element and its Not form", NULL);
}

static void test_sids(void **state)
{
        expect_refusal(ACC_MANAGED, STATEMENT("{'Sid':'a b'," GET ",'Resource':'*'}"),
                       "Statement IDs (SID) should be alpha-numeric. Check that the input satisfies the regular "
                       "expression [0-9A-Za-z]*",
                       NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{'Sid':[]," GET ",'Resource':'*'}"), IAM_SYNTAX, NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{'Sid':'a'," GET ",'Resource':'*'},{'Sid':'a'," GET ",'Resource':'*'}"),
                       "Statement IDs (SID) in a single policy must be unique.", "Statement[1].Sid");
        accept(ACC_MANAGED, STATEMENT("{'Sid':''," GET ",'Resource':'*'},{'Sid':''," GET ",'Resource':'*'}"));
        accept(ACC_BUCKET, STATEMENT("{'Sid':'Deny it - now'," PUBLIC_GET "}"));
}

static void test_actions(void **state)
{
        static const char *const refused_by_s3[] = {
                "iam:*", "s3:Foo", "s3:Foo*", "s3", "s3:", "s3:Get:Object", "", "?", "s*:GetObject"};
        char text[300];

        expect_refusal(ACC_MANAGED, STATEMENT("{'Effect':'Allow','Action':'invalid','Resource':'*'}"),
                       "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.", NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{'Effect':'Allow','NotAction':'','Resource':'*'}"),
                       "Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.",
                       "Statement[0].NotAction");
        expect_refusal(ACC_MANAGED, STATEMENT("{'Effect':'Allow','Action':'a a:ListBucket','Resource':'*'}"),
                       "Vendor a a is not valid", NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{'Effect':'Allow','Action':'s3:List:Bucket','Resource':'*'}"),
                       "Actions/Condition can contain only one colon.", NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{'Effect':'Allow','Action':[[]],'Resource':'*'}"), IAM_SYNTAX, NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{'Effect':'Allow','Action':{},'Resource':'*'}"), IAM_SYNTAX, NULL);
        for (size_t i = 0; i < COUNT(refused_by_s3); i++) {
                snprintf(text, sizeof(text),
                         "{'Statement':{'Effect':'Allow','Principal':'*','Action':'%s'," S3_OBJECT "}}",
                         refused_by_s3[i]);
                expect_refusal(ACC_BUCKET, text, "Policy has invalid action", "Statement[0].Action");
        }
        expect_refusal(ACC_TRUST, STATEMENT("{'Effect':'Allow','Principal':'*','Action':'s3:GetObject'}"),
                       "AssumeRole policy may only specify STS AssumeRole actions.", NULL);
        expect_refusal(ACC_TRUST, STATEMENT("{'Effect':'Allow','Principal':'*','Action':'*'}"),
                       "AssumeRole policy may only specify STS AssumeRole actions.", NULL);
        expect_refusal(ACC_TRUST,
                       STATEMENT("{'Effect':'Allow','Principal':'*','Action':'sts:AssumeRole','Resource':'*'}"),
                       "Has prohibited field Resource", NULL);
        accept(ACC_TRUST, STATEMENT("{'Effect':'Allow','Principal':{'Federated':'accounts.google.com','Service':'ec2."
                                    "amazonaws.com'},"
                                    "'Action':['sts:AssumeRole','sts:TagSession']}"));
}

/* Each action of a bucket policy must apply to a resource of its statement. */
static void test_actions_apply(void **state)
{
        static const struct {
                const char *action, *resource;
                bool applies;
        } rows[] = {
                {"s3:GetObject", "arn:aws:s3:::bucket/*", true},
                {"s3:GetObject", "arn:aws:s3:::bucket", false},
                {"s3:ListBucket", "arn:aws:s3:::bucket", true},
                {"s3:ListBucket", "arn:aws:s3:::bucket/*", false},
                {"S3:getobject", "arn:aws:s3:::bucket/a", true},
                {"s3:*", "arn:aws:s3:::bucket", true},
                {"s3:Get*", "arn:aws:s3:::bucket", true},
                {"s3:GetObject*", "arn:aws:s3:::bucket", false},
                {"s3:ListAllMyBuckets", "arn:aws:s3:::*", false},
                {"s3:GetObject", "arn:aws:s3:::buck*", true},
                {"s3:ListBucket", "arn:aws:s3:::buck*", true},
                {"s3:ListBucket", "*", true},
                {"s3:GetObject", "arn:aws:s3:::*/x", true},
                {"s3:ListBucket", "arn:aws:s3:::*/x", false},
                {"s3:ListBucket", "arn:aws:s3:::${aws:username}", true},
                {"s3:GetObject", "arn:aws:s3:::bucket/", false},
                {"s3:ListBucket", "arn:aws:s3:*:*:b?????", true},
        };
        char text[300];

        for (size_t i = 0; i < COUNT(rows); i++) {
                snprintf(text, sizeof(text),
                         STATEMENT("{'Effect':'Allow','Principal':'*','Action':'%s','Resource':'%s'}"), rows[i].action,
                         rows[i].resource);
                if (rows[i].applies)
                        accept(ACC_BUCKET, text);
                else
                        expect_refusal(ACC_BUCKET, text,
                                       strcmp(rows[i].resource, "arn:aws:s3:::bucket/") == 0
                                               ? "Policy has invalid resource"
                                               : "Action does not apply to any resource(s) in statement",
                                       NULL);
        }
}

static void test_resources(void **state)
{
        static const char *const elsewhere[] = {
                "arn:aws:s3:::other/*",
                "arn:aws:s3:::bucket2",
                "arn:aws:s3:::bucke",
                "arn:aws:s3:::b?cke/*",
                "arn:aws:iam:::bucket",
                "arn:aws:s3:us-east-1::bucket",
                "arn:aws:s3::" ACCOUNT ":bucket",
                "bucket",
                "arn:aws:s3",
                "arn:aws-cn:s3:::bucket",
                "arn:${aws:username}:s3:::bucket",
                "arn:aws:s3:::bucket/${x",
                "",

                "arn:aws:s3:::bucket2*",
        };
        char text[300];

        for (size_t i = 0; i < COUNT(elsewhere); i++) {
                snprintf(text, sizeof(text),
                         STATEMENT("{'Effect':'Allow','Principal':'*','Action':'s3:*','Resource':'%s'}"), elsewhere[i]);
                expect_refusal(ACC_BUCKET, text, "Policy has invalid resource", "Statement[0].Resource");
        }
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'Resource':'invalid resource'}"),
                       "Resource invalid resource must be in ARN format or \"*\".", NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'Resource':''}"), "Resource  must be in ARN format or \"*\".",
                       NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'Resource':'arn:error:s3:::b'}"),
                       "Partition \"error\" is not valid", NULL);
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'Resource':{'a':'*'}}"), IAM_SYNTAX, NULL);
        accept(ACC_MANAGED, STATEMENT("{" GET ",'Resource':['arn:aws:s3:::a','*','arn:aws:fdsasf','arn:*:s3:::x']}"));
        /* Before 2012-10-17, a variable is text. */
        accept(ACC_MANAGED, "{'Statement':{" GET ",'Resource':'arn:aws:s3:::b/${x'}}");
}

static void test_principals(void **state)
{
        static const char *const refused[] = {
                "'x'",
                "''",
                "1",
                "[]",
                "['*']",
                "{}",
                "{'AWS':[]}",
                "{'AWS':''}",
                "{'AWS':'12345678901'}",
                "{'AWS':'1234567890123'}",
                "{'AWS':1}",
                "{'AWS':'arn:aws:iam::" ACCOUNT ":user/*'}",
                "{'AWS':'arn:aws:iam::*:root'}",
                "{'AWS':'arn:aws:iam::" ACCOUNT ":group/a'}",
                "{'AWS':'arn:aws:iam::" ACCOUNT ":user/'}",
                "{'AWS':'arn:aws:iam::" ACCOUNT ":user/a/'}",
                "{'AWS':'arn:aws:s3::" ACCOUNT ":user/a'}",
                "{'AWS':'arn:aws:sts::" ACCOUNT ":assumed-role/r'}",
                "{'AWS':'arn:aws:sts::" ACCOUNT ":assumed-role/r/'}",
                "{'AWS':'arn:aws:sts::" ACCOUNT ":assumed-role//s'}",
                "{'AWS':'arn:aws:iam::" ACCOUNT ":user/${aws:username}'}",
                "{'AWS':'AIDAEXAMPLE'}",
                "{'CanonicalUser':'79a5'}",
                "{'CanonicalUser':'*'}",
                "{'Service':'*'}",
                "{'Federated':''}",
                "{'Robot':'x'}",
                "{'AWS':['*',{}]}",
        };
        char text[400];

        for (size_t i = 0; i < COUNT(refused); i++) {
                snprintf(text, sizeof(text), STATEMENT("{" GET ",'Principal':%s," S3_OBJECT "}"), refused[i]);
                expect_refusal(ACC_BUCKET, text, "Invalid principal in policy", NULL);
        }
        expect_refusal(
                ACC_TRUST,
                STATEMENT("{'Effect':'Allow','Action':'sts:AssumeRole','Principal':{'CanonicalUser':'" CANONICAL_1
                          "'}}"),
                "Invalid principal in policy: " CANONICAL_1, "Statement[0].Principal.CanonicalUser");
}

static bool note_name(void *context, enum acc_name_kind kind, struct s3_str name)
{
        char *out = context;
        size_t used = strlen(out);

        snprintf(out + used, 600 - used, "%d=%.*s;", (int)kind, (int)name.len, name.data);
        return strstr(out, "stop") == NULL;
}

static void test_principals_listed(void **state)
{
        struct acc_policy *policy = compiled(
                ACC_BUCKET, STATEMENT("{" GET ",'Principal':{'AWS':['*','" ACCOUNT "','arn:aws:iam::" OTHER
                                      ":root','arn:aws:iam::" OTHER ":user/p/u'],"
                                      "'Service':'logging.s3.amazonaws.com','CanonicalUser':'"
                                      "79A59DF900B949E55D96A1E698FBACEDFD6E09D98EACF8F8D5218E7CD47EF2BE'}," S3_OBJECT
                                      "},{" GET ",'NotPrincipal':{'Federated':['stop','more']}," S3_OBJECT "}"));
        char names[600] = "";

        assert_false(acc_policy_principals(policy, note_name, names));
        assert_string_equal(names, "1=*;2=" ACCOUNT ";2=" OTHER ";3=arn:aws:iam::" OTHER
                                   ":user/p/u;6=logging.s3.amazonaws.com;4=" CANONICAL_1 ";5=stop;");
        assert_int_equal(acc_policy_statements(policy), 2);
        assert_in_range(acc_policy_bytes(policy), 500, 8000);
        acc_policy_free(policy);
        acc_policy_free(NULL);
}

static void test_conditions_refused(void **state)
{
        static const struct {
                const char *condition, *message;
        } rows[] = {
                {"[]", "Invalid policy syntax."},
                {"'a'", "Invalid policy syntax."},
                {"{'StringEquals':'b'}", "Invalid policy syntax."},
                {"{'StringEquals':{'aws:SourceIp':{}}}", "Invalid policy syntax."},
                {"{'StringEquals':{'aws:SourceIp':[null]}}", "Invalid policy syntax."},
                {"{'StringIs':{'aws:SourceIp':'a'}}", "Invalid Condition type : StringIs"},
                {"{'StringIs':{}}", "Invalid Condition type : StringIs"},
                {"{'stringequals':{'aws:SourceIp':'a'}}", "Invalid Condition type : stringequals"},
                {"{'NullIfExists':{'aws:SourceIp':'true'}}", "Invalid Condition type : NullIfExists"},
                {"{'ForAnyValue:Null':{'aws:SourceIp':'true'}}", "Invalid Condition type : ForAnyValue:Null"},
                {"{'ForAnyValue::StringEquals':{'aws:TagKeys':'a'}}",
                 "Invalid Condition type : ForAnyValue::StringEquals"},
                {"{'IfExists':{'aws:SourceIp':'true'}}", "Invalid Condition type : IfExists"},
                {"{'StringEquals':{'s3:nosuch':'a'}}", "Policy has an invalid condition key"},
                {"{'StringEquals':{'S3:nosuch':'a'}}", "Policy has an invalid condition key"},
                {"{'StringEquals':{'aws:nosuch':'a'}}", "Policy has an invalid condition key"},
                {"{'StringEquals':{'s3:ExistingObjectTag/':'a'}}", "Policy has an invalid condition key"},
                {"{'StringEquals':{'nosuch':'a'}}", "Policy has an invalid condition key"},
                {"{'StringEquals':{'':'a'}}", "Policy has an invalid condition key"},
                {"{'Bool':{'aws:SecureTransport':'yes'}}", "Invalid policy syntax."},
                {"{'Null':{'aws:SourceIp':'1'}}", "Invalid policy syntax."},
                {"{'NumericEquals':{'s3:max-keys':'ten'}}", "Invalid policy syntax."},
                {"{'NumericEquals':{'s3:max-keys':'1e3'}}", "Invalid policy syntax."},
                {"{'NumericEquals':{'s3:max-keys':'1.'}}", "Invalid policy syntax."},
                {"{'NumericEquals':{'s3:max-keys':'1000000000000000000'}}", "Invalid policy syntax."},
                {"{'NumericEquals':{'s3:max-keys':'0.1234567891'}}", "Invalid policy syntax."},
                {"{'DateEquals':{'aws:CurrentTime':'yesterday'}}", "Invalid policy syntax."},
                {"{'DateEquals':{'aws:CurrentTime':'234-13'}}", "Invalid policy syntax."},
                {"{'DateEquals':{'aws:CurrentTime':'9223372036854775808'}}", "Invalid policy syntax."},
                {"{'IpAddress':{'aws:SourceIp':'1.2.3'}}", "Invalid policy syntax."},
                {"{'IpAddress':{'aws:SourceIp':'1.2.3.4/33'}}", "Invalid policy syntax."},
                {"{'IpAddress':{'aws:SourceIp':'1.2.3.4/'}}", "Invalid policy syntax."},
                {"{'IpAddress':{'aws:SourceIp':'::1/129'}}", "Invalid policy syntax."},
                {"{'IpAddress':{'aws:SourceIp':''}}", "Invalid policy syntax."},
                {"{'ArnLike':{'aws:PrincipalArn':'arn:aws:iam'}}", "Invalid policy syntax."},
                {"{'BinaryEquals':{'aws:Referer':'QUI'}}", "Invalid policy syntax."},
                {"{'BinaryEquals':{'aws:Referer':'!!!!'}}", "Invalid policy syntax."},
                {"{'StringLike':{'aws:Referer':'${aws:username'}}", "Invalid policy syntax."},
        };
        char text[500];

        for (size_t i = 0; i < COUNT(rows); i++) {
                snprintf(text, sizeof(text), STATEMENT("{" PUBLIC_GET ",'Condition':%s}"), rows[i].condition);
                expect_refusal(ACC_BUCKET, text, rows[i].message, NULL);
        }
        expect_refusal(ACC_MANAGED, STATEMENT("{" GET ",'Resource':'*','Condition':{'DateLessThan':{'a':'sdf'}}}"),
                       "The policy failed legacy parsing", "Statement[0].Condition.DateLessThan");
        accept(ACC_MANAGED,
               STATEMENT("{" GET ",'Resource':'*','Condition':{'StringEquals':{'s3:nosuch':'a','b':[]}}}"));
        accept(ACC_BUCKET,
               STATEMENT("{" PUBLIC_GET
                         ",'Condition':{'StringEquals':{'accounts.google.com:aud':'a'},'DateLessThan':{}}}"));
}

/*
 * Every prefix of a policy with everything in it is refused, and so is what a changed byte breaks.
 */
static void test_cut(void **state)
{
        static const char whole[] =
                "{'Version':'2012-10-17','Id':'x','Statement':[{'Sid':'a','Effect':'Allow','Principal':{'AWS':["
                "'" ACCOUNT "','*'],"
                "'Service':'a.b'},'Action':['s3:Get*','s3:ListBucket'],'Resource':['arn:aws:s3:::bucket','arn:aws:s3:::"
                "bucket/${aws:username, `a`}/*?x'],"
                "'Condition':{'ForAllValues:StringLikeIfExists':{'aws:TagKeys':['a*','${*}']},'IpAddress':{'aws:"
                "SourceIp':['::/0','10.0.0.0/8']},"
                "'NumericLessThan':{'s3:max-keys':10.5},'Bool':{'aws:SecureTransport':true},'DateGreaterThan':{'aws:"
                "CurrentTime':'2020-01-01'},"
                "'ArnLike':{'aws:PrincipalArn':'arn:aws:iam::*:user/*'},'BinaryEquals':{'aws:Referer':'QUI='}}}]}";
        struct s3_str json = test_json(whole);
        struct acc_policy *policy;
        struct acc_error error;

        accept(ACC_BUCKET, whole);
        for (size_t len = 0; len < json.len; len++) {
                struct s3_str cut = heap_copy(json.data, len);

                assert_int_equal(acc_policy_compile(cut, ACC_BUCKET, S3_STR("bucket"), &policy, &error), -EINVAL);
                heap_free(cut);
        }
        for (unsigned round = 0; round < 20000; round++) {
                struct s3_str changed = heap_copy(json.data, json.len);

                for (unsigned times = 1 + random_next() % 3; times > 0; times--)
                        ((char *)(uintptr_t)changed.data)[random_next() % json.len] =
                                "{}[]\",:*?$a1 "[random_next() % 13];
                if (acc_policy_compile(changed, ACC_BUCKET, S3_STR("bucket"), &policy, &error) == 0)
                        acc_policy_free(policy);
                else
                        assert_true(error.message[0] != '\0');
                heap_free(changed);
        }
        heap_free(json);
}

static bool applies(const char *action, const char *condition)
{
        char text[600];
        struct acc_policy *policy;
        bool all;

        snprintf(text, sizeof(text),
                 "{'Statement':{'Effect':'Deny','Principal':'*','Resource':['arn:aws:s3:::bucket','arn:aws:s3:::bucket/"
                 "*'],"
                 "%s,'Condition':{'StringEquals':{%s}}}}",
                 action, condition);
        policy = compiled(ACC_BUCKET, text); /* what is kept goes on to count */
        all = acc_policy_conditions_apply(policy);
        acc_policy_free(policy);
        return all;
}

static void test_conditions_apply(void **state)
{
        static const struct {
                const char *action, *condition;
                bool all;
        } cases[] = {
                {"'Action':'s3:ListBucket'", "'s3:prefix':'a'", true},
                {"'Action':['s3:ListBucket','s3:ListBucketVersions']", "'S3:Prefix':'a','s3:delimiter':'/'", true},
                {"'Action':'s3:ListBucketMultipartUploads'", "'s3:prefix':'a'", false},
                {"'Action':['s3:ListBucket','s3:GetObject']", "'s3:prefix':'a'", false},
                {"'Action':'s3:GetObject'", "'aws:SourceAccount':'1','s3:x-amz-acl':'private'", false},
                {"'Action':'s3:PutObject'", "'s3:x-amz-acl':'private','s3:x-amz-grant-read':'id=1'", true},
                {"'Action':'S3:PutBucketACL'", "'s3:x-amz-acl':'private'", true},
                {"'Action':'s3:GetObject'", "'s3:VersionId':'v'", false},
                {"'Action':['s3:GetObjectVersion','s3:PutObjectRetention']", "'s3:versionid':'v'", true},
                {"'Action':'s3:*'", "'s3:x-amz-acl':'private'", true},
                {"'Action':['s3:Get*','s3:ListBucket']", "'s3:prefix':'a'", true},
                {"'NotAction':'s3:GetObject'", "'s3:prefix':'a'", true},
                {"'Action':'s3:GetObject'", "'aws:userid':'x','s3:authType':'POST','s3:ExistingObjectTag/k':'v'", true},
        };

        for (size_t i = 0; i < COUNT(cases); i++)
                if (applies(cases[i].action, cases[i].condition) != cases[i].all)
                        fail_msg("%s %s", cases[i].action, cases[i].condition);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_documents),
                cmocka_unit_test(test_bombs),
                cmocka_unit_test(test_lengths),
                cmocka_unit_test(test_elements),
                cmocka_unit_test(test_sids),
                cmocka_unit_test(test_actions),
                cmocka_unit_test(test_actions_apply),
                cmocka_unit_test(test_resources),
                cmocka_unit_test(test_principals),
                cmocka_unit_test(test_principals_listed),
                cmocka_unit_test(test_conditions_refused),
                cmocka_unit_test(test_conditions_apply),
                cmocka_unit_test(test_cut),
        };

        random_seed();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
