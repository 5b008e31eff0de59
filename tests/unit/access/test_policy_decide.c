/*
 * test_policy_decide.c - access/evaluate.c, names_match.c, decide.c: who is named, and all policies
 * of a request together; rules A1 to A3, A8, A11 to A13.
 */
#include "tests/unit/access/access_fixture.h"

#define GET_BY(effect, who)                                                                                            \
        STATEMENT("{'Effect':'" effect "','Principal':" who                                                            \
                  ",'Action':'s3:GetObject','Resource':'arn:aws:s3:::bucket/*'}")
#define USER_ARN    "{'AWS':'arn:aws:iam::" ACCOUNT ":user/team/alice'}"
#define ROLE_ARN    "{'AWS':'arn:aws:iam::" ACCOUNT ":role/reader'}"
#define SESSION_ARN "{'AWS':'arn:aws:sts::" ACCOUNT ":assumed-role/reader/job-1'}"
#define BY_ACCOUNT  "{'AWS':'" ACCOUNT "'}"
#define NO_MATCH    STATEMENT("{'Effect':'Allow','Action':'s3:PutObject','Resource':'*'}")

/* The policies of a case, as texts. owner: NULL is the account of the principal. */
struct world {
        const char *identity, *boundary, *session, *resource, *owner;
        enum acc_kind kind; /* of the resource policy */
        enum acc_grant acl;
        bool restrict_public;
};

static struct acc_verdict decide_action(const struct world *world, struct acc_principal principal, const char *action,
                                        char *message)
{
        struct acc_policy *identity = world->identity != NULL ? compiled(ACC_MANAGED, world->identity) : NULL;
        struct acc_policy *session = world->session != NULL ? compiled(ACC_SESSION, world->session) : NULL;
        struct acc_policies policies = {
                .identity = (const struct acc_policy *const *)&identity,
                .identities = identity != NULL,
                .session = (const struct acc_policy *const *)&session,
                .sessions = session != NULL,
                .boundary = world->boundary != NULL ? compiled(ACC_MANAGED, world->boundary) : NULL,
                .resource = world->resource != NULL ? compiled(world->kind, world->resource) : NULL,
                .resource_account = s3_str_of(world->owner != NULL ? world->owner : ACCOUNT),
                .acl = world->acl,
                .restrict_public = world->restrict_public,
        };
        struct acc_request request = {
                .principal = &principal, .action = s3_str_of(action), .resource = S3_STR("arn:aws:s3:::bucket/key")};
        struct acc_verdict verdict;

        principal.bounded = world->boundary != NULL;
        verdict = acc_decide(&policies, &request);
        if (message != NULL)
                acc_verdict_message(&verdict, &request, message, 300);
        acc_policy_free(identity);
        acc_policy_free(session);
        acc_policy_free((struct acc_policy *)(uintptr_t)policies.boundary);
        acc_policy_free((struct acc_policy *)(uintptr_t)policies.resource);
        return verdict;
}

static void expect(struct world world, struct acc_principal principal, bool allowed, enum acc_source source)
{
        struct acc_verdict verdict = decide_action(&world, principal, "s3:GetObject", NULL);

        assert_int_equal(verdict.allowed, allowed);
        assert_int_equal(verdict.source, source);
        if (verdict.explicit_deny)
                assert_false(verdict.allowed);
}

static void denied_explicitly(struct world world, struct acc_principal principal, enum acc_source source)
{
        struct acc_verdict verdict = decide_action(&world, principal, "s3:GetObject", NULL);

        assert_true(verdict.explicit_deny);
        assert_int_equal(verdict.source, source);
        expect(world, principal, false, source);
}

static void test_user_of_the_account(void **state)
{
        struct acc_principal alice = user_alice();

        expect((struct world){NULL}, alice, false, ACC_BY_IDENTITY);
        expect((struct world){.identity = ALLOW_ALL}, alice, true, ACC_BY_IDENTITY);
        expect((struct world){.identity = NO_MATCH}, alice, false, ACC_BY_IDENTITY);
        expect((struct world){.resource = GET_BY("Allow", USER_ARN)}, alice, true, ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "'*'")}, alice, true, ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "{'AWS':'*'}")}, alice, true, ACC_BY_RESOURCE);
        /* The account only passes it on. */
        expect((struct world){.resource = GET_BY("Allow", BY_ACCOUNT)}, alice, false, ACC_BY_IDENTITY);
        expect((struct world){.resource = GET_BY("Allow", "{'CanonicalUser':'" CANONICAL_1 "'}")}, alice, false,
               ACC_BY_IDENTITY);
        expect((struct world){.resource = GET_BY("Allow", "{'AWS':'arn:aws:iam::" ACCOUNT ":user/alice'}")}, alice,
               false, ACC_BY_IDENTITY);
        /* Boundaries limit identity policies, not a resource policy that names the user. */
        expect((struct world){.identity = ALLOW_ALL, .boundary = NO_MATCH}, alice, false, ACC_BY_BOUNDARY);
        expect((struct world){.identity = ALLOW_ALL, .boundary = ALLOW_ALL}, alice, true, ACC_BY_IDENTITY);
        expect((struct world){.boundary = ALLOW_ALL}, alice, false, ACC_BY_IDENTITY);
        expect((struct world){.boundary = NO_MATCH, .resource = GET_BY("Allow", USER_ARN)}, alice, true,
               ACC_BY_RESOURCE);
        expect((struct world){.identity = ALLOW_ALL, .session = NO_MATCH}, alice, false, ACC_BY_SESSION);
}

static void test_explicit_denies(void **state)
{
        struct acc_principal alice = user_alice();

        denied_explicitly((struct world){.identity = DENY_ALL, .resource = GET_BY("Allow", USER_ARN)}, alice,
                          ACC_BY_IDENTITY);
        denied_explicitly((struct world){.identity = ALLOW_ALL, .resource = GET_BY("Deny", "'*'")}, alice,
                          ACC_BY_RESOURCE);
        denied_explicitly((struct world){.identity = ALLOW_ALL, .resource = GET_BY("Deny", BY_ACCOUNT)}, alice,
                          ACC_BY_RESOURCE);
        denied_explicitly((struct world){.boundary = DENY_ALL, .resource = GET_BY("Allow", USER_ARN)}, alice,
                          ACC_BY_BOUNDARY);
        denied_explicitly((struct world){.session = DENY_ALL, .resource = GET_BY("Allow", USER_ARN)}, alice,
                          ACC_BY_SESSION);
        denied_explicitly((struct world){.resource = GET_BY("Deny", ROLE_ARN)}, session_of_role(), ACC_BY_RESOURCE);
        expect((struct world){.identity = ALLOW_ALL, .resource = GET_BY("Deny", ROLE_ARN)}, alice, true,
               ACC_BY_IDENTITY);
}

static void test_sessions(void **state)
{
        struct acc_principal session = session_of_role();

        expect((struct world){.identity = ALLOW_ALL}, session, true, ACC_BY_IDENTITY);
        expect((struct world){.identity = ALLOW_ALL, .session = NO_MATCH}, session, false, ACC_BY_SESSION);
        /* A role's ARN grants without identity policy, within boundary and session policies. */
        expect((struct world){.resource = GET_BY("Allow", ROLE_ARN)}, session, true, ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", ROLE_ARN), .boundary = NO_MATCH}, session, false,
               ACC_BY_IDENTITY);
        expect((struct world){.resource = GET_BY("Allow", ROLE_ARN), .session = NO_MATCH}, session, false,
               ACC_BY_IDENTITY);
        expect((struct world){.resource = GET_BY("Allow", ROLE_ARN), .session = ALLOW_ALL, .boundary = ALLOW_ALL},
               session, true, ACC_BY_RESOURCE);
        /* A session's ARN, and "*", grant directly. */
        expect((struct world){.resource = GET_BY("Allow", SESSION_ARN), .session = NO_MATCH, .boundary = NO_MATCH},
               session, true, ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "'*'"), .session = NO_MATCH, .boundary = NO_MATCH}, session,
               true, ACC_BY_RESOURCE);
        /* A federated user without session policies has no rights of the user. */
        session.kind = ACC_FEDERATED_USER;
        session.arn = S3_STR("arn:aws:sts::" ACCOUNT ":federated-user/guest");
        session.parent_arn = user_alice().arn;
        expect((struct world){.identity = ALLOW_ALL}, session, false, ACC_BY_SESSION);
        expect((struct world){.identity = ALLOW_ALL, .session = ALLOW_ALL}, session, true, ACC_BY_IDENTITY);
        expect((struct world){.resource = GET_BY("Allow", USER_ARN)}, session, false, ACC_BY_IDENTITY);
        expect((struct world){.resource = GET_BY("Allow", USER_ARN), .session = ALLOW_ALL}, session, true,
               ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "{'AWS':'arn:aws:sts::" ACCOUNT ":federated-user/guest'}")},
               session, true, ACC_BY_RESOURCE);
}

static void test_other_account(void **state)
{
        struct acc_principal alice = user_alice(), root = root_user();

        expect((struct world){.owner = OTHER, .identity = ALLOW_ALL}, alice, false, ACC_BY_RESOURCE);
        expect((struct world){.owner = OTHER, .resource = GET_BY("Allow", USER_ARN)}, alice, false, ACC_BY_IDENTITY);
        expect((struct world){.owner = OTHER, .identity = ALLOW_ALL, .resource = GET_BY("Allow", USER_ARN)}, alice,
               true, ACC_BY_RESOURCE);
        expect((struct world){.owner = OTHER, .identity = ALLOW_ALL, .resource = GET_BY("Allow", BY_ACCOUNT)}, alice,
               true, ACC_BY_RESOURCE);
        expect((struct world){.owner = OTHER, .identity = ALLOW_ALL, .resource = GET_BY("Allow", "'*'")}, alice, true,
               ACC_BY_RESOURCE);
        expect((struct world){.owner = OTHER, .resource = GET_BY("Allow", "'*'")}, alice, false, ACC_BY_IDENTITY);
        expect((struct world){.owner = OTHER,
                              .identity = ALLOW_ALL,
                              .boundary = NO_MATCH,
                              .resource = GET_BY("Allow", USER_ARN)},
               alice, false, ACC_BY_BOUNDARY);
        expect((struct world){.owner = OTHER}, root, false, ACC_BY_RESOURCE);
        expect((struct world){.owner = OTHER, .resource = GET_BY("Allow", BY_ACCOUNT)}, root, true, ACC_BY_RESOURCE);
        expect((struct world){.owner = OTHER, .resource = GET_BY("Allow", USER_ARN)}, root, false, ACC_BY_RESOURCE);
}

static void test_root(void **state)
{
        static const char everything[] = STATEMENT("{'Effect':'Deny','Principal':'*','Action':'*','Resource':'*'}");
        static const char *const kept[] = {"s3:GetBucketPolicy", "s3:PutBucketPolicy", "s3:DeleteBucketPolicy"};
        struct acc_principal root = root_user();

        expect((struct world){.identity = DENY_ALL, .boundary = DENY_ALL}, root, true, ACC_BY_ROOT);
        denied_explicitly((struct world){.resource = GET_BY("Deny", "'*'")}, root, ACC_BY_RESOURCE);
        for (size_t i = 0; i < COUNT(kept); i++) {
                assert_true(decide_action(&(struct world){.resource = everything}, root, kept[i], NULL).allowed);
                assert_false(
                        decide_action(&(struct world){.resource = everything}, user_alice(), kept[i], NULL).allowed);
                assert_false(decide_action(&(struct world){.resource = everything, .owner = OTHER}, root, kept[i], NULL)
                                     .allowed);
        }
        assert_false(decide_action(&(struct world){.resource = everything}, root, "s3:PutBucketAcl", NULL).allowed);
}

static void test_without_account(void **state)
{
        struct acc_principal nobody = {.kind = ACC_ANONYMOUS};
        struct acc_principal logging = {.kind = ACC_SERVICE, .name = S3_STR("logging.s3.amazonaws.com")};

        expect((struct world){NULL}, nobody, false, ACC_BY_RESOURCE);
        expect((struct world){.identity = ALLOW_ALL}, nobody, false, ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "'*'")}, nobody, true, ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "{'AWS':'*'}")}, nobody, true, ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", BY_ACCOUNT)}, nobody, false, ACC_BY_RESOURCE);
        denied_explicitly((struct world){.resource = GET_BY("Deny", "'*'")}, nobody, ACC_BY_RESOURCE);
        expect((struct world){.acl = ACC_GRANT_DIRECT}, nobody, true, ACC_BY_ACL);
        denied_explicitly((struct world){.acl = ACC_GRANT_DIRECT, .resource = GET_BY("Deny", "'*'")}, nobody,
                          ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "{'Service':'logging.s3.amazonaws.com'}")}, logging, true,
               ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "{'Service':'other.amazonaws.com'}")}, logging, false,
               ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "{'AWS':'*'}")}, logging, false, ACC_BY_RESOURCE);
        /* An owner without an id, and nobody, are not the same account. */
        expect((struct world){.owner = ""}, nobody, false, ACC_BY_RESOURCE);
}

static void test_restricted_public(void **state)
{
        static const char mixed[] = STATEMENT(
                "{'Effect':'Allow','Principal':'*','Action':'s3:GetObject','Resource':'arn:aws:s3:::bucket/public'},"
                "{'Effect':'Allow','Principal':{'AWS':'" ACCOUNT "','Service':'cloudtrail.amazonaws.com'},"
                "'Action':'s3:GetObject','Resource':'arn:aws:s3:::bucket/*'}");
        struct acc_principal trail = {.kind = ACC_SERVICE, .name = S3_STR("cloudtrail.amazonaws.com")};

        expect((struct world){.owner = OTHER, .identity = ALLOW_ALL, .resource = mixed}, user_alice(), true,
               ACC_BY_RESOURCE);
        expect((struct world){.owner = OTHER, .identity = ALLOW_ALL, .resource = mixed, .restrict_public = true},
               user_alice(), false, ACC_BY_RESOURCE);
        expect((struct world){.resource = mixed, .restrict_public = true}, trail, true, ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "'*'"), .restrict_public = true}, user_alice(), true,
               ACC_BY_RESOURCE);
        expect((struct world){.resource = GET_BY("Allow", "'*'"), .restrict_public = true},
               (struct acc_principal){.kind = ACC_ANONYMOUS}, false, ACC_BY_RESOURCE);
}

static void test_not_principal(void **state)
{
#define DENY_BUT(who) STATEMENT("{'Effect':'Deny','NotPrincipal':{'AWS':[" who "]},'Action':'*','Resource':'*'}")
#define A_USER        "'arn:aws:iam::" ACCOUNT ":user/team/alice'"
#define A_SESSION     "'arn:aws:sts::" ACCOUNT ":assumed-role/reader/job-1'"
#define A_ROLE        "'arn:aws:iam::" ACCOUNT ":role/reader'"
#define A_ACCOUNT     "'arn:aws:iam::" ACCOUNT ":root'"
        struct world deny = {.identity = ALLOW_ALL};

        deny.resource = DENY_BUT(A_USER "," A_ACCOUNT);
        expect(deny, user_alice(), true, ACC_BY_IDENTITY);
        denied_explicitly(deny, session_of_role(), ACC_BY_RESOURCE);
        expect(deny, root_user(), true, ACC_BY_ROOT);
        denied_explicitly(deny, (struct acc_principal){.kind = ACC_ANONYMOUS}, ACC_BY_RESOURCE);
        deny.resource = DENY_BUT(A_USER); /* the account is denied, and the user with it */
        denied_explicitly(deny, user_alice(), ACC_BY_RESOURCE);
        deny.resource = DENY_BUT(A_ACCOUNT);
        denied_explicitly(deny, user_alice(), ACC_BY_RESOURCE);
        deny.resource = DENY_BUT(A_SESSION "," A_ROLE "," A_ACCOUNT);
        expect(deny, session_of_role(), true, ACC_BY_IDENTITY);
        deny.boundary = ALLOW_ALL; /* denies whoever has a boundary */
        denied_explicitly(deny, session_of_role(), ACC_BY_RESOURCE);
        deny.boundary = NULL;
        deny.resource = DENY_BUT(A_SESSION "," A_ACCOUNT);
        denied_explicitly(deny, session_of_role(), ACC_BY_RESOURCE);
        deny.resource = DENY_BUT("'*'");
        expect(deny, user_alice(), true, ACC_BY_IDENTITY);
        /* With Allow, whoever is listed at any level is left out. */
        deny = (struct world){.resource = STATEMENT("{'Effect':'Allow','NotPrincipal':{'AWS':" A_ACCOUNT
                                                    "},'Action':'*','Resource':'*'}")};
        expect(deny, user_alice(), false, ACC_BY_IDENTITY);
        expect(deny, (struct acc_principal){.kind = ACC_ANONYMOUS}, true, ACC_BY_RESOURCE);
}

#define TRUSTS(who) STATEMENT("{'Effect':'Allow','Principal':" who ",'Action':'sts:AssumeRole*'}")

static bool may_assume(struct world world, struct acc_principal principal)
{
        world.kind = ACC_TRUST;
        return decide_action(&world, principal,
                             principal.kind == ACC_WEB_IDENTITY ? "sts:AssumeRoleWithWebIdentity" : "sts:AssumeRole",
                             NULL)
                .allowed;
}

static void test_trust(void **state)
{
        struct acc_principal web = {.kind = ACC_WEB_IDENTITY, .name = S3_STR("accounts.google.com")};

        assert_false(may_assume((struct world){.identity = ALLOW_ALL, .resource = TRUSTS("{'AWS':'" OTHER "'}")},
                                user_alice()));
        assert_true(may_assume((struct world){.identity = ALLOW_ALL, .resource = TRUSTS(BY_ACCOUNT)}, user_alice()));
        assert_false(may_assume((struct world){.resource = TRUSTS(BY_ACCOUNT)}, user_alice()));
        assert_true(may_assume((struct world){.resource = TRUSTS(USER_ARN)}, user_alice()));
        assert_false(may_assume((struct world){.resource = TRUSTS(USER_ARN), .owner = OTHER}, user_alice()));
        assert_true(may_assume((struct world){.resource = TRUSTS(USER_ARN), .owner = OTHER, .identity = ALLOW_ALL},
                               user_alice()));
        assert_false(may_assume((struct world){.resource = TRUSTS("'*'")}, root_user()));
        assert_false(may_assume((struct world){.resource = TRUSTS("'*'"), .owner = OTHER}, root_user()));
        assert_true(may_assume((struct world){.resource = TRUSTS("{'Federated':'accounts.google.com'}")}, web));
        assert_false(may_assume((struct world){.resource = TRUSTS("{'Federated':'www.amazon.com'}")}, web));
        assert_false(may_assume((struct world){.resource = TRUSTS("{'AWS':'*'}")}, web));
}

static void test_statements(void **state)
{
        struct acc_policy *policy = compiled(
                ACC_BUCKET,
                STATEMENT("{'Sid':'account','Effect':'Allow','Principal':" BY_ACCOUNT
                          ",'Action':'s3:Get*','Resource':'*'},"
                          "{'Sid':'user','Effect':'Allow','Principal':" USER_ARN
                          ",'Action':'S3:getOBJECT','Resource':'*'},"
                          "{'Sid':'put','Effect':'Deny','Principal':'*','NotAction':'s3:Get*','Resource':'*'}"));
        struct acc_principal alice = user_alice();
        struct acc_request request = {
                .principal = &alice, .action = S3_STR("s3:GetObject"), .resource = S3_STR("arn:aws:s3:::bucket/a")};
        struct acc_result result = acc_evaluate(policy, &request);
        char longest[ACC_ACTION_MAX + 1];

        assert_int_equal(result.effect, ACC_ALLOW);
        assert_int_equal(result.grant, ACC_GRANT_DIRECT);
        expect_str(acc_policy_sid(policy, result.statement), "user");
        expect_str(acc_policy_sid(policy, ACC_NO_STATEMENT), "");
        request.action = S3_STR("s3:PutObject");
        result = acc_evaluate(policy, &request);
        assert_int_equal(result.effect, ACC_DENY);
        expect_str(acc_policy_sid(policy, result.statement), "put");
        memset(longest, 'a', sizeof(longest));
        request.action = (struct s3_str){longest, sizeof(longest)};
        assert_int_equal(acc_evaluate(policy, &request).effect, ACC_DENY);
        request.action = (struct s3_str){NULL, 0};
        assert_int_equal(acc_evaluate(policy, &request).effect, ACC_DENY);
        acc_policy_free(policy);
}

static void test_resources(void **state)
{
#define ON(effect, element, text) STATEMENT("{'Effect':'" effect "','Action':'*','" element "':" text "}")
        assert_int_equal(asked(ACC_MANAGED, ON("Allow", "Resource", "'arn:aws:s3:::bucket/k*'"), NULL), ACC_ALLOW);
        assert_int_equal(asked(ACC_MANAGED, ON("Allow", "Resource", "'arn:aws:s3:::bucket/K*'"), NULL), ACC_NO_OPINION);
        assert_int_equal(asked(ACC_MANAGED, ON("Allow", "NotResource", "'arn:aws:s3:::bucket/k*'"), NULL),
                         ACC_NO_OPINION);
        assert_int_equal(asked(ACC_MANAGED, ON("Allow", "NotResource", "'arn:aws:s3:::other/*'"), NULL), ACC_ALLOW);
        assert_int_equal(
                asked(ACC_MANAGED, ON("Deny", "NotResource", "['arn:aws:s3:::other/*','arn:aws:s3:::bucket/*']"), NULL),
                ACC_NO_OPINION);
        /* A variable without value: it means nothing, and for NotResource the safe side. */
        assert_int_equal(asked(ACC_MANAGED, ON("Allow", "Resource", "'arn:aws:s3:::bucket/${s3:prefix}*'"), NULL),
                         ACC_NO_OPINION);
        assert_int_equal(asked(ACC_MANAGED, ON("Allow", "NotResource", "'arn:aws:s3:::bucket/${s3:prefix}'"), NULL),
                         ACC_NO_OPINION);
        assert_int_equal(asked(ACC_MANAGED, ON("Deny", "NotResource", "'arn:aws:s3:::bucket/${s3:prefix}'"), NULL),
                         ACC_DENY);
}

#define BOUND_ID "AIDAABCDEFGHIJKLMNOPQ"
#define BOUND_BY(effect, arn)                                                                                          \
        "{'Version':'2012-10-17','Statement':[{'Effect':'" effect "','Principal':{'AWS':'" arn "'},"                   \
        "'Action':'s3:GetObject','Resource':'arn:aws:s3:::bucket/*'}]}" ACC_BOUND_MARK "X other\n" BOUND_ID " " arn "\n"

static enum acc_grant bound_grant(const char *text, struct acc_principal principal)
{
        struct acc_policy *policy = compiled(ACC_BUCKET, text);
        struct acc_request request = {
                .principal = &principal, .action = S3_STR("s3:GetObject"), .resource = S3_STR("arn:aws:s3:::bucket/k")};
        struct acc_result result = acc_evaluate(policy, &request);

        acc_policy_free(policy);
        return result.grant;
}

/* Rule A24: a bound name is an id. Who is made later under the same name is somebody else. */
static void test_bound_principals(void **state)
{
        const char *user = BOUND_BY("Allow", "arn:aws:iam::" ACCOUNT ":user/team/alice");
        const char *role = BOUND_BY("Allow", "arn:aws:iam::" ACCOUNT ":role/robot");
        struct acc_principal alice = user_alice(), session = {.kind = ACC_ASSUMED_ROLE,
                                                              .account = S3_STR(ACCOUNT),
                                                              .arn = S3_STR("arn:aws:sts::" ACCOUNT ":assumed-role/robot/s"),
                                                              .parent_arn = S3_STR("arn:aws:iam::" ACCOUNT ":role/robot")};
        struct s3_str bindings, text;

        alice.user_id = S3_STR(BOUND_ID);
        assert_int_equal(bound_grant(user, alice), ACC_GRANT_DIRECT);
        alice.arn = S3_STR("arn:aws:iam::" ACCOUNT ":user/moved/alice");
        assert_int_equal(bound_grant(user, alice), ACC_GRANT_DIRECT);
        alice = user_alice();
        alice.user_id = S3_STR("AIDAANOTHERONEOFTHATN");
        assert_int_equal(bound_grant(user, alice), ACC_GRANT_NONE);
        alice.user_id = S3_STR("");
        assert_int_equal(bound_grant(user, alice), ACC_GRANT_NONE);
        session.user_id = S3_STR(BOUND_ID ":s");
        assert_int_equal(bound_grant(role, session), ACC_GRANT_PARENT);
        session.user_id = S3_STR(BOUND_ID);
        assert_int_equal(bound_grant(role, session), ACC_GRANT_NONE);
        session.user_id = S3_STR(BOUND_ID "X:s");
        assert_int_equal(bound_grant(role, session), ACC_GRANT_NONE);
        text = acc_bound_cut(s3_str_of(user), &bindings);
        assert_int_equal(text.data[text.len - 1], '}');
        assert_true(s3_str_eq(acc_bound_id(bindings, S3_STR("other")), S3_STR("X")));
        assert_int_equal(acc_bound_id(bindings, S3_STR("arn")).len, 0);
        assert_int_equal(acc_bound_id(S3_STR("no line"), S3_STR("lin")).len, 0);
        acc_bound_cut(S3_STR("{}"), &bindings);
        assert_null(bindings.data);
        expect_refusal(ACC_BUCKET, "{'Version':'2012-10-17'" ACC_BOUND_MARK "}", "This policy contains invalid Json", NULL);
        expect_refusal(ACC_MANAGED, "{'Version':'2012-10-17','Statement':{'Effect':'Allow','Action':'*','Resource':'*'}}" ACC_BOUND_MARK, "Syntax errors in policy.", NULL);
}

static void test_messages(void **state)
{
        char message[300];

        decide_action(&(struct world){NULL}, user_alice(), "s3:GetObject", message);
        assert_string_equal(
                message, "User: arn:aws:iam::" ACCOUNT
                         ":user/team/alice is not authorized to perform: s3:GetObject on resource: "
                         "\"arn:aws:s3:::bucket/key\" because no identity-based policy allows the s3:GetObject action");
        decide_action(&(struct world){.identity = DENY_ALL}, user_alice(), "s3:GetObject", message);
        assert_non_null(strstr(message, "\" with an explicit deny in an identity-based policy"));
        decide_action(&(struct world){.resource = GET_BY("Deny", "'*'")}, (struct acc_principal){.kind = ACC_ANONYMOUS},
                      "s3:GetObject", message);
        assert_string_equal(message, "User: anonymous is not authorized to perform: s3:GetObject on resource: "
                                     "\"arn:aws:s3:::bucket/key\" with an "
                                     "explicit deny in a resource-based policy");
        decide_action(&(struct world){.identity = ALLOW_ALL, .boundary = NO_MATCH}, user_alice(), "s3:GetObject",
                      message);
        assert_non_null(strstr(message, "because no permissions boundary allows"));
        decide_action(&(struct world){.identity = ALLOW_ALL, .session = NO_MATCH}, user_alice(), "s3:GetObject",
                      message);
        assert_non_null(strstr(message, "because no session policy allows"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_user_of_the_account),
                cmocka_unit_test(test_explicit_denies),
                cmocka_unit_test(test_sessions),
                cmocka_unit_test(test_other_account),
                cmocka_unit_test(test_root),
                cmocka_unit_test(test_without_account),
                cmocka_unit_test(test_restricted_public),
                cmocka_unit_test(test_not_principal),
                cmocka_unit_test(test_trust),
                cmocka_unit_test(test_statements),
                cmocka_unit_test(test_resources),
                cmocka_unit_test(test_messages),
                cmocka_unit_test(test_bound_principals),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
