/*
 * What one policy says about a request. Called for each request; pure; rules A1 to A9.
 */
#include "compiled.h"

void acc_eval_init(struct acc_eval *eval, const struct acc_request *request)
{
        size_t len = request->action.len;

        eval->request = request;
        eval->action = (struct s3_str){NULL, 0}; /* too long: acc_eval_policy() denies it */
        if (len <= sizeof(eval->lower)) {
                for (size_t i = 0; i < len; i++)
                        eval->lower[i] = acc_lower(request->action.data[i]);
                eval->action = (struct s3_str){eval->lower, len};
        }
        eval->is_arn = acc_arn_split(request->resource, eval->resource);
}

static bool about_action(const struct acc_eval *eval, const struct acc_statement *statement)
{
        for (size_t i = 0; i < statement->actions; i++)
                if (acc_pattern_match(NULL, &statement->action[i], eval->action, false) == ACC_MATCH_YES)
                        return !statement->not_action;
        return statement->not_action;
}

static bool about_resource(const struct acc_eval *eval, const struct acc_statement *statement)
{
        enum acc_unknown of_key = ACC_KNOWN;
        bool unknown = false;

        if (statement->resources == 0)
                return true;
        for (size_t i = 0; i < statement->resources; i++) {
                const struct acc_arn *arn = &statement->resource[i];
                enum acc_match match = ACC_MATCH_NO;
                enum acc_unknown state = acc_arn_unknown(eval->request, arn);

                if (state != ACC_KNOWN) {
                        of_key = of_key == ACC_UNKNOWN ? of_key : state;
                        continue;
                }
                if (arn->any || eval->is_arn)
                        match = acc_arn_match(eval->request, arn, eval->resource);
                if (match == ACC_MATCH_YES)
                        return !statement->not_resource;
                unknown |= match == ACC_MATCH_UNKNOWN;
        }
        if (of_key != ACC_KNOWN) /* a variable that is not known to the caller (A22) */
                return statement->deny == (of_key == ACC_UNKNOWN);
        /* A variable without value in NotResource: nothing is allowed, everything denied (A8). */
        return statement->not_resource && (!unknown || statement->deny);
}

static bool all_conditions_hold(const struct acc_eval *eval, const struct acc_statement *statement)
{
        for (size_t i = 0; i < statement->conditions; i++)
                if (!acc_condition_holds(eval->request, &statement->condition[i], statement->deny))
                        return false;
        return true;
}

/* How a statement applies to the request. The cheap tests come first. */
/*
 * A statement about one resource whose name begins with plain text, and the request's begins otherwise: most
 * statements of most policies are left here, before anything else of them is looked at.
 */
static bool about_another_resource(const struct acc_eval *eval, const struct acc_statement *statement)
{
        const struct acc_arn *arn = statement->resource;
        const struct acc_pattern *name;
        struct s3_str begins, asked;

        if (statement->resources != 1 || statement->not_resource || arn->any || arn->whole != NULL || !eval->is_arn)
                return false;
        name = &arn->parts[ACC_ARN_PARTS - 1];
        if (arn->head.data == NULL || name->variables || name->count == 0 || name->pieces[0].kind != ACC_PIECE_TEXT)
                return false; /* variables of which nothing is known can make it apply (A22) */
        begins = name->pieces[0].text;
        asked = eval->resource[ACC_ARN_PARTS - 1];
        return asked.len < begins.len || memcmp(asked.data, begins.data, begins.len) != 0;
}

static enum acc_grant statement_applies(const struct acc_eval *eval, const struct acc_policy *policy,
                                        const struct acc_statement *statement)
{
        enum acc_grant grant = ACC_GRANT_DIRECT;

        if (about_another_resource(eval, statement) || !about_action(eval, statement))
                return ACC_GRANT_NONE;
        if (acc_kind_has_principals(policy->kind))
                grant = acc_names_match(statement, eval->request->principal);
        if (grant == ACC_GRANT_NONE || !about_resource(eval, statement) || !all_conditions_hold(eval, statement))
                return ACC_GRANT_NONE;
        return grant;
}

struct acc_result acc_eval_policy(const struct acc_eval *eval, const struct acc_policy *policy)
{
        struct acc_result result = {ACC_NO_OPINION, ACC_GRANT_NONE, ACC_NO_STATEMENT};

        if (eval->action.len == 0) {
                result.effect = ACC_DENY;
                return result;
        }
        for (size_t i = 0; i < policy->count; i++) {
                const struct acc_statement *statement = &policy->statements[i];
                enum acc_grant grant;

                if (!statement->deny && result.grant == ACC_GRANT_DIRECT)
                        continue; /* it is allowed; only a Deny can say more */
                grant = statement_applies(eval, policy, statement);
                if (grant == ACC_GRANT_NONE)
                        continue;
                if (statement->deny)
                        return (struct acc_result){ACC_DENY, ACC_GRANT_NONE, i};
                if (grant > result.grant)
                        result = (struct acc_result){ACC_ALLOW, grant, i};
        }
        return result;
}

struct acc_result acc_evaluate(const struct acc_policy *policy, const struct acc_request *request)
{
        struct acc_eval eval;

        acc_eval_init(&eval, request);
        return acc_eval_policy(&eval, policy);
}

size_t acc_policy_bytes(const struct acc_policy *policy)
{
        return policy->bytes;
}

size_t acc_policy_statements(const struct acc_policy *policy)
{
        return policy->count;
}

struct s3_str acc_policy_sid(const struct acc_policy *policy, size_t statement)
{
        return statement < policy->count ? policy->statements[statement].sid : (struct s3_str){"", 0};
}

bool acc_policy_is_public(const struct acc_policy *policy)
{
        return policy->is_public;
}

bool acc_policy_principals(const struct acc_policy *policy, acc_principal_visit *visit, void *context)
{
        for (size_t i = 0; i < policy->count; i++)
                for (size_t name = 0; name < policy->statements[i].names; name++)
                        if (!visit(context, policy->statements[i].name[name].kind,
                                   policy->statements[i].name[name].text))
                                return false;
        return true;
}
