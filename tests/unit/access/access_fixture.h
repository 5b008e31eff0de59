/*
 * access_fixture.h - what the tests of access/ share: policies written with ' for " and ` for ',
 * and requests whose keys are a table.
 */
#ifndef MILLRACE_TEST_ACCESS_FIXTURE_H
#define MILLRACE_TEST_ACCESS_FIXTURE_H

#include "tests/unit/s3/s3_fixture.h"

#include "access/compiled.h"

#define KEYS_MAX   8
#define VALUES_MAX 4

/* A key with its values, up to the first NULL. No values: it is there with none. */
struct test_key {
        const char *name;
        const char *values[VALUES_MAX];
};

struct test_keys {
        const struct test_key *keys;
        struct s3_str values[KEYS_MAX][VALUES_MAX];
};

/* An unused function of a test is no mistake. */
#define FIXTURE static inline __attribute__((unused))

FIXTURE bool test_lookup(void *context, const struct acc_key *key, struct acc_values *out)
{
        struct test_keys *keys = context;

        for (size_t i = 0; i < KEYS_MAX && keys->keys[i].name != NULL; i++) {
                if (!s3_str_eq_nocase(s3_str_of(keys->keys[i].name), key->name))
                        continue;
                *out = (struct acc_values){keys->values[i], 0, false};
                while (out->count < VALUES_MAX && keys->keys[i].values[out->count] != NULL) {
                        keys->values[i][out->count] = s3_str_of(keys->keys[i].values[out->count]);
                        out->count++;
                }
                return true;
        }
        return false;
}

/* The policy's text on the heap, so that AddressSanitizer sees a read past its end. */
FIXTURE struct s3_str test_json(const char *text)
{
        struct s3_str json = heap_copy(text, strlen(text));

        for (size_t i = 0; i < json.len; i++) {
                char *c = (char *)(uintptr_t)json.data + i;

                *c = (char)(*c == '\'' ? '"' : *c == '`' ? '\'' : *c);
        }
        return json;
}

FIXTURE struct acc_policy *compiled(enum acc_kind kind, const char *text)
{
        struct s3_str json = test_json(text);
        struct acc_policy *policy;
        struct acc_error error;
        int rv = acc_policy_compile(json, kind, S3_STR("bucket"), &policy, &error);

        if (rv != 0)
                fail_msg("%s\nis refused: %d %s (%s)", text, rv, error.message, error.where);
        heap_free(json);
        return policy;
}

FIXTURE void expect_refusal(enum acc_kind kind, const char *text, const char *message, const char *where)
{
        struct s3_str json = test_json(text);
        struct acc_policy *policy;
        struct acc_error error;

        if (acc_policy_compile(json, kind, S3_STR("bucket"), &policy, &error) != -EINVAL)
                fail_msg("%s\nis not refused", text);
        assert_null(policy);
        if (strcmp(error.message, message) != 0 || (where != NULL && strcmp(error.where, where) != 0))
                fail_msg("%s\nis refused with \"%s\" (%s), not \"%s\" (%s)", text, error.message, error.where, message,
                         where != NULL ? where : "anywhere");
        heap_free(json);
}

#define ACCOUNT     "111122223333"
#define OTHER       "444455556666"
#define CANONICAL_1 "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be"

FIXTURE struct acc_principal user_alice(void)
{
        return (struct acc_principal){
                .kind = ACC_USER,
                .account = S3_STR(ACCOUNT),
                .canonical_id = S3_STR(CANONICAL_1),
                .arn = S3_STR("arn:aws:iam::" ACCOUNT ":user/team/alice"),
                .user_id = S3_STR("AIDAALICE"),
        };
}

FIXTURE struct acc_principal session_of_role(void)
{
        return (struct acc_principal){
                .kind = ACC_ASSUMED_ROLE,
                .account = S3_STR(ACCOUNT),
                .canonical_id = S3_STR(CANONICAL_1),
                .arn = S3_STR("arn:aws:sts::" ACCOUNT ":assumed-role/reader/job-1"),
                .parent_arn = S3_STR("arn:aws:iam::" ACCOUNT ":role/reader"),
                .user_id = S3_STR("AROAREADER:job-1"),
        };
}

FIXTURE struct acc_principal root_user(void)
{
        return (struct acc_principal){
                .kind = ACC_ROOT,
                .account = S3_STR(ACCOUNT),
                .canonical_id = S3_STR(CANONICAL_1),
                .arn = S3_STR("arn:aws:iam::" ACCOUNT ":root"),
                .user_id = S3_STR(ACCOUNT),
        };
}

#define STATEMENT(text) "{'Version':'2012-10-17','Statement':[" text "]}"
#define ALLOW_ALL       STATEMENT("{'Effect':'Allow','Action':'*','Resource':'*'}")
#define DENY_ALL        STATEMENT("{'Effect':'Deny','Action':'*','Resource':'*'}")

/* What a policy says about a GET of bucket/key by alice, with these keys. */
FIXTURE enum acc_effect asked(enum acc_kind kind, const char *text, const struct test_key *table)
{
        struct acc_policy *policy = compiled(kind, text);
        struct acc_principal alice = user_alice();
        struct test_keys keys = {.keys = table};
        struct acc_request request = {
                .principal = &alice,
                .action = S3_STR("s3:GetObject"),
                .resource = S3_STR("arn:aws:s3:::bucket/key"),
                .lookup = table != NULL ? test_lookup : NULL,
                .context = &keys,
        };
        enum acc_effect effect = acc_evaluate(policy, &request).effect;

        acc_policy_free(policy);
        return effect;
}

#endif
