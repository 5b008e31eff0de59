/*
 * policy_driver.c - decides requests that it reads as lines of JSON, so that another evaluator can
 * judge access/. It prints a line of JSON for each line. usage: policy_driver < lines
 *
 * A line:
 *   {"policies": [{"role": "identity" | "boundary" | "session" | "resource",
 *                  "kind": "managed" | "user" | "group" | "role" | "session" | "bucket" | "trust",
 *                  "policy": the policy as an object, or as a text}, ...],
 *    "bucket": the name for policies of kind bucket,
 *    "context": {"principal": {"kind": "anonymous" | "root" | "user" | "assumed-role" |
 *                                      "federated-user" | "web-identity" | "service",
 *                              "account", "canonical_id", "arn", "parent_arn", "user_id", "name"},
 *                "action": "s3:GetObject", "resource": its ARN,
 *                "resource_account": the owner's 12 digits, "acl": 0 to 3 (enum acc_grant),
 *                "restrict_public": true or false,
 *                "keys": {"aws:SourceIp": "1.2.3.4", "aws:TagKeys": ["a", "b"], ...}}}
 * What is missing is absent; `kind` is by default "managed", or "bucket" for a resource policy.
 *
 * The answer:
 *   {"decision": "allow" | "explicit-deny" | "implicit-deny", "source": "resource" and so on,
 *    "policy": number in its role, "statement": number or -1,
 *    "public": true or false (of the resource policy),
 *    "results": [{"effect": "allow" | "deny" | "none", "statement": number or -1,
 *                 "grant": 0 to 3}, ...]}
 * or, if a policy is refused: {"refused": its number, "message": text, "where": element}
 * or {"error": "bad line"}. Strings of the line may not contain NUL.
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#include "access.h"

#define POLICIES_MAX 64u
#define KEYS_MAX     256u
#define VALUES_MAX   1024u

struct driven_key {
        struct s3_str name;
        struct acc_values values;
};

/* One line, compiled. */
struct driven {
        struct acc_policy *all[POLICIES_MAX];
        const struct acc_policy *identity[POLICIES_MAX], *session[POLICIES_MAX];
        size_t count;
        struct acc_policies policies;
        struct acc_principal principal;
        struct driven_key keys[KEYS_MAX];
        size_t keys_count;
        struct s3_str values[VALUES_MAX];
};

static struct s3_str member(const json_t *object, const char *name)
{
        const json_t *value = json_object_get(object, name);

        return (struct s3_str){json_string_value(value), json_string_length(value)};
}

/*
 * The place of a text in a list of names that ends with NULL; the first one if it is absent or
 * unknown.
 */
static int chosen(struct s3_str text, const char *const *names)
{
        for (int i = 0; names[i] != NULL; i++)
                if (s3_str_eq(text, s3_str_of(names[i])))
                        return i;
        return 0;
}

static bool driven_lookup(void *context, const struct acc_key *key, struct acc_values *out)
{
        const struct driven *driven = context;

        for (size_t i = 0; i < driven->keys_count; i++)
                if (s3_str_eq_nocase(driven->keys[i].name, key->name)) {
                        *out = driven->keys[i].values;
                        return true;
                }
        return false;
}

/* Takes the keys of the line. Those for which there is no room are absent. */
static void driven_keys(struct driven *driven, json_t *keys)
{
        size_t used = 0;
        const char *name;
        json_t *value;

        json_object_foreach(keys, name, value)
        {
                size_t count = json_is_array(value) ? json_array_size(value) : 1;

                if (driven->keys_count == KEYS_MAX || count > VALUES_MAX - used)
                        return;
                driven->keys[driven->keys_count++] =
                        (struct driven_key){s3_str_of(name), {driven->values + used, count, false}};
                for (size_t i = 0; i < count; i++) {
                        const json_t *one = json_is_array(value) ? json_array_get(value, i) : value;

                        driven->values[used++] = (struct s3_str){json_string_value(one), json_string_length(one)};
                }
        }
}

/*
 * Compiles one policy of the line and puts it where it belongs. Returns what to answer, NULL: go
 * on.
 */
static json_t *driven_policy(struct driven *driven, const json_t *entry, struct s3_str bucket)
{
        static const char *const roles[] = {"identity", "boundary", "session", "resource", NULL};
        static const char *const kinds[] = {"bucket", "managed", "user", "group", "role", "trust", "session", NULL};
        json_t *policy = json_object_get(entry, "policy");
        int role = chosen(member(entry, "role"), roles);
        enum acc_kind kind = role == 3 ? ACC_BUCKET : ACC_MANAGED;
        struct acc_error error;
        struct s3_str text;
        char *dump = NULL;
        int rv;

        if (member(entry, "kind").len > 0)
                kind = (enum acc_kind)chosen(member(entry, "kind"), kinds);
        text = (struct s3_str){json_string_value(policy), json_string_length(policy)};
        if (!json_is_string(policy)) {
                dump = json_dumps(policy, JSON_COMPACT | JSON_ENCODE_ANY);
                text = s3_str_of(dump);
        }
        rv = acc_policy_compile(text, kind, bucket, &driven->all[driven->count], &error);
        free(dump);
        if (rv != 0)
                return json_pack("{sI ss ss}", "refused", (json_int_t)driven->count, "message", error.message, "where",
                                 error.where);
        if (role == 0)
                driven->identity[driven->policies.identities++] = driven->all[driven->count];
        else if (role == 2)
                driven->session[driven->policies.sessions++] = driven->all[driven->count];
        else if (role == 1)
                driven->policies.boundary = driven->all[driven->count];
        else
                driven->policies.resource = driven->all[driven->count];
        driven->count++;
        return NULL;
}

static void driven_principal(struct driven *driven, const json_t *json)
{
        static const char *const kinds[] = {"anonymous",      "root",         "user",    "assumed-role",
                                            "federated-user", "web-identity", "service", NULL};

        driven->principal = (struct acc_principal){
                .kind = (enum acc_principal_kind)chosen(member(json, "kind"), kinds),
                .bounded = driven->policies.boundary != NULL,
                .account = member(json, "account"),
                .canonical_id = member(json, "canonical_id"),
                .arn = member(json, "arn"),
                .parent_arn = member(json, "parent_arn"),
                .user_id = member(json, "user_id"),
                .name = member(json, "name"),
        };
}

static json_int_t shown(size_t statement)
{
        return statement == ACC_NO_STATEMENT ? -1 : (json_int_t)statement;
}

static json_t *driven_answer(struct driven *driven, const json_t *context)
{
        static const char *const effects[] = {"none", "allow", "deny"};
        static const char *const sources[] = {"nobody", "resource", "identity", "boundary", "session", "root", "acl"};
        struct acc_request request = {
                .principal = &driven->principal,
                .action = member(context, "action"),
                .resource = member(context, "resource"),
                .lookup = driven_lookup,
                .context = driven,
        };
        struct acc_verdict verdict = acc_decide(&driven->policies, &request);
        json_t *results = json_array();

        for (size_t i = 0; i < driven->count; i++) {
                struct acc_result result = acc_evaluate(driven->all[i], &request);

                json_array_append_new(results, json_pack("{ss sI si}", "effect", effects[result.effect], "statement",
                                                         shown(result.statement), "grant", (int)result.grant));
        }
        return json_pack("{ss ss sI sI sb so}", "decision",
                         verdict.allowed         ? "allow"
                         : verdict.explicit_deny ? "explicit-deny"
                                                 : "implicit-deny",
                         "source", sources[verdict.source], "policy", (json_int_t)verdict.policy, "statement",
                         shown(verdict.statement), "public",
                         driven->policies.resource != NULL && acc_policy_is_public(driven->policies.resource),
                         "results", results);
}

/* Answers a line; NULL: it is none. */
static json_t *drive(const json_t *line)
{
        json_t *list = json_object_get(line, "policies"), *context = json_object_get(line, "context"), *answer = NULL;
        struct driven *driven = calloc(1, sizeof(*driven));

        if (driven == NULL || json_array_size(list) > POLICIES_MAX) {
                free(driven);
                return NULL;
        }
        for (size_t i = 0; answer == NULL && i < json_array_size(list); i++)
                answer = driven_policy(driven, json_array_get(list, i), member(line, "bucket"));
        driven->policies.identity = driven->identity;
        driven->policies.session = driven->session;
        driven->policies.resource_account = member(context, "resource_account");
        driven->policies.acl = (enum acc_grant)(json_integer_value(json_object_get(context, "acl")) & 3);
        driven->policies.restrict_public = json_is_true(json_object_get(context, "restrict_public"));
        driven_keys(driven, json_object_get(context, "keys"));
        driven_principal(driven, json_object_get(context, "principal"));
        if (answer == NULL)
                answer = driven_answer(driven, context);
        for (size_t i = 0; i < driven->count; i++)
                acc_policy_free(driven->all[i]);
        free(driven);
        return answer;
}

int main(void)
{
        char *text = NULL;
        size_t size = 0;
        ssize_t len;

        while ((len = getline(&text, &size, stdin)) > 0) {
                json_t *line = json_loadb(text, (size_t)len, 0, NULL), *answer = line != NULL ? drive(line) : NULL;

                if (answer == NULL)
                        answer = json_pack("{ss}", "error", "bad line");
                json_dumpf(answer, stdout, JSON_COMPACT | JSON_PRESERVE_ORDER);
                putchar('\n');
                fflush(stdout);
                json_decref(answer);
                json_decref(line);
        }
        free(text);
        return 0;
}
