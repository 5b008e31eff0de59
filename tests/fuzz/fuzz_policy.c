/*
 * fuzz_policy.c - any text as a policy of each kind, and a request decided by it. The first byte
 * chooses the kind and the principal, the second the length of a value that every key has, which
 * follows; the rest is the policy. A policy that was compiled decides twice the same, and whatever
 * a Deny says, nothing is allowed against it.
 */
#include <assert.h>
#include <stdlib.h>

#include "access.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct s3_str values[2];

static bool fuzz_lookup(void *context, const struct acc_key *key, struct acc_values *out)
{
        assert(key->name.data != NULL || key->name.len == 0);
        *out = (struct acc_values){values, key->name.len % 3, key->name.len % 7 == 0};
        return key->name.len % 5 != 4;
}

static void check_verdict(const struct acc_policy *policy, enum acc_kind kind, const struct acc_request *request)
{
        struct acc_result result = acc_evaluate(policy, request), again = acc_evaluate(policy, request);
        struct acc_policies policies = {
                .identity = &policy, .identities = 1, .resource_account = S3_STR("111122223333")};
        struct acc_verdict verdict;
        char message[400];

        assert(result.effect == again.effect && result.statement == again.statement && result.grant == again.grant);
        assert((result.effect == ACC_ALLOW) == (result.grant != ACC_GRANT_NONE));
        if (kind == ACC_BUCKET || kind == ACC_TRUST)
                policies = (struct acc_policies){.resource = policy, .resource_account = S3_STR("444455556666")};
        verdict = acc_decide(&policies, request);
        assert(!verdict.allowed || !verdict.explicit_deny);
        if (verdict.allowed && verdict.source != ACC_BY_ROOT)
                assert(result.effect == ACC_ALLOW);
        acc_verdict_message(&verdict, request, message, sizeof(message));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct acc_principal principal = {
                .account = S3_STR("111122223333"),
                .arn = S3_STR("arn:aws:iam::111122223333:user/a"),
                .parent_arn = S3_STR("arn:aws:iam::111122223333:role/r"),
                .user_id = S3_STR("AIDA"),
        };
        struct acc_request request = {.principal = &principal, .action = S3_STR("s3:GetObject"), .lookup = fuzz_lookup};
        struct acc_policy *policy;
        struct acc_error error;
        enum acc_kind kind;
        size_t value;

        if (size < 2)
                return 0;
        kind = (enum acc_kind)(data[0] % 7);
        principal.kind = (enum acc_principal_kind)(data[0] / 7 % 7);
        value = data[1] < size - 2 ? data[1] : size - 2;
        values[0] = values[1] = (struct s3_str){(const char *)data + 2, value};
        request.resource = data[0] % 2 ? values[0] : S3_STR("arn:aws:s3:::bucket/key");
        if (acc_policy_compile((struct s3_str){(const char *)data + 2 + value, size - 2 - value}, kind,
                               S3_STR("bucket"), &policy, &error) != 0) {
                assert(memchr(error.message, '\0', sizeof(error.message)) != NULL);
                return 0;
        }
        check_verdict(policy, kind, &request);
        acc_policy_free(policy);
        return 0;
}
