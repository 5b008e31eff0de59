/*
 * iam_simulate.c - SimulatePrincipalPolicy and SimulateCustomPolicy: what policies would say to actions on
 * resources. Nothing is asked of the store, and nothing waits: a page is decided at once, on the request's loop.
 *
 * A page has at most MaxItems decisions, and ends after SIM_PAGE_NS, with one decision at least: thousands of patterns
 * times a thousand decisions would hold up all clients of the loop. Policies of the directory are taken as compiled
 * for requests.
 */
#include "gateway/iam/call.h"
#include "gateway/rights/owners.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define SIM_POLICIES_MAX 512u /* more than quotas allow for one user, and a form can pass */
#define SIM_MISSING_MAX  64u
#define SIM_PAGE_NS      50000000ull /* of the processor's time */

struct sim_policy {
        const char *id, *type, *text;
        const struct acc_policy *policy;
        struct acc_policy *made; /* to be freed; NULL: it is the directory's */
};

struct sim_context {
        struct acc_key key;
        unsigned count;
        struct s3_str *values;
};

struct sim {
        struct iam_call *call;
        unsigned policies, actions, resources, contexts, missing;
        bool bounded; /* by `boundary`, even where nobody has such a policy */
        struct sim_policy boundary, resource_policy;
        struct acc_principal principal;
        struct s3_str owner; /* of the resources: an account */
        const char **action, **resource;
        struct sim_context *context;
        struct s3_str missed[SIM_MISSING_MAX];
        const struct acc_policy *identity[SIM_POLICIES_MAX];
        struct sim_policy policy[SIM_POLICIES_MAX];
};

/* ---- lists of the form ----------------------------------------------------------------------- */

static const char *sim_member(const struct iam_call *call, const char *list, unsigned number, const char *rest)
{
        char name[96];

        snprintf(name, sizeof(name), "%s.member.%u%s", list, number, rest);
        return iam_form_value(&call->form, name);
}

static unsigned sim_members(const struct iam_call *call, const char *list, const char *rest)
{
        unsigned count = 0;

        while (sim_member(call, list, count + 1, rest) != NULL)
                count++;
        return count;
}

static const char **sim_list(struct iam_call *call, const char *list, unsigned *count)
{
        const char **out;

        *count = sim_members(call, list, "");
        out = gw_alloc(call->req, (*count + 1) * sizeof(*out));
        for (unsigned i = 0; out != NULL && i < *count; i++)
                out[i] = sim_member(call, list, i + 1, "");
        return out;
}

/* Each value of each key; of a type that is a list or not, which AWS does not compare with the condition either. */
static bool sim_take_context(struct sim *sim, unsigned i, unsigned *seen)
{
        static const char types[] = " string stringList numeric numericList boolean booleanList ip ipList binary binaryList "
                                    "date dateList ";
        struct iam_call *call = sim->call;
        struct sim_context *context = &sim->context[i];
        const char *name = sim_member(call, "ContextEntries", i + 1, ".ContextKeyName"),
                   *type = sim_member(call, "ContextEntries", i + 1, ".ContextKeyType");
        char list[64], word[32];

        snprintf(word, sizeof(word), " %.16s ", type != NULL ? type : "-");
        if (name == NULL || strlen(name) < 5 || strlen(name) > 256 || strstr(types, word) == NULL)
                return false;
        snprintf(list, sizeof(list), "ContextEntries.member.%u.ContextKeyValues", i + 1);
        context->key = acc_key_find(s3_str_of(name));
        context->count = sim_members(call, list, "");
        context->values = gw_alloc(call->req, (context->count + 1) * sizeof(context->values[0]));
        for (unsigned v = 0; context->values != NULL && v < context->count; v++)
                context->values[v] = s3_str_of(sim_member(call, list, v + 1, ""));
        *seen += 2 + context->count;
        return context->values != NULL;
}

/* False: refused. What is not numbered from 1 on would be ignored. */
static bool sim_take_lists(struct sim *sim)
{
        struct iam_call *call = sim->call;
        unsigned seen = 0, all = 0;

        sim->action = sim_list(call, "ActionNames", &sim->actions);
        sim->resource = sim_list(call, "ResourceArns", &sim->resources);
        sim->contexts = sim_members(call, "ContextEntries", ".ContextKeyName");
        sim->context = gw_alloc(call->req, (sim->contexts + 1) * sizeof(sim->context[0]));
        if (sim->action == NULL || sim->resource == NULL || sim->context == NULL) {
                iam_refuse(call, -ENOMEM);
                return false;
        }
        for (unsigned i = 0; i < sim->contexts; i++)
                if (!sim_take_context(sim, i, &seen)) {
                        iam_fail(call, "ValidationError", "A member of ContextEntries is not valid.");
                        return false;
                }
        for (unsigned i = 0; i < call->form.count; i++)
                all += strstr(call->form.pair[i].name, ".member.") != NULL;
        seen += sim->actions + sim->resources + sim_members(call, "PolicyInputList", "") +
                sim_members(call, "PermissionsBoundaryPolicyInputList", "");
        if (seen != all || sim->actions == 0) {
                iam_fail(call, "ValidationError",
                         sim->actions == 0 ? "1 validation error detected: Value null at 'actionNames' failed to satisfy "
                                             "constraint: Member must not be null"
                                           : "Members of lists must be numbered from 1.");
                return false;
        }
        for (unsigned i = 0; i < sim->actions; i++)
                if (strchr(sim->action[i], ':') == NULL || strpbrk(sim->action[i], "*? ") != NULL ||
                    strlen(sim->action[i]) > ACC_ACTION_MAX) {
                        iam_fail(call, "InvalidInput", gw_printf(call->req, "Invalid Action: %.128s", sim->action[i]));
                        return false;
                }
        return true;
}

/* ---- policies -------------------------------------------------------------------------------- */

/* False: refused. */
static bool sim_compile(struct sim *sim, const char *text, enum acc_kind kind, struct s3_str bucket,
                        struct sim_policy *out)
{
        struct acc_error error = {.message = ""};
        int rv = acc_policy_compile(s3_str_of(text), kind, bucket, &out->made, &error);

        out->text = text;
        out->policy = out->made;
        if (rv == -ENOMEM)
                iam_refuse(sim->call, rv);
        else if (rv != 0)
                iam_fail(sim->call, "InvalidInput",
                         gw_printf(sim->call->req, "%s",
                                   error.message[0] != '\0' ? error.message : "Syntax errors in policy."));
        return rv == 0;
}

static bool sim_add(struct sim *sim, const char *id, const char *type, const char *text, const struct acc_policy *policy)
{
        struct sim_policy *added = &sim->policy[sim->policies];

        if (sim->policies == SIM_POLICIES_MAX) {
                iam_refuse(sim->call, -E2BIG);
                return false;
        }
        *added = (struct sim_policy){.id = id, .type = type, .text = text, .policy = policy};
        if (policy == NULL && !sim_compile(sim, text, ACC_MANAGED, (struct s3_str){NULL, 0}, added))
                return false;
        sim->identity[sim->policies++] = added->policy;
        return true;
}

static bool sim_unreadable(struct sim *sim)
{
        iam_fail(sim->call, "ServiceFailure", "A policy that counts here cannot be read: nothing is permitted.");
        return false;
}

/* A managed policy by its ARN, in its version in force. False: refused. */
static bool sim_managed(struct sim *sim, const char *arn, struct sim_policy *out)
{
        const struct gw_entity *policy = iam_canned_find(arn);
        const struct gw_policies *compiled = NULL;
        const struct gw_pair *version;

        *out = (struct sim_policy){.type = policy != NULL ? "aws-managed" : "user-managed"};
        if (policy == NULL && (gw_people_find_arn(sim->call->req->loop, arn, &policy, NULL) != 0 ||
                               gw_people_managed(sim->call->req->loop, arn, &compiled) != 0 || compiled->broken))
                return sim_unreadable(sim);
        version = iam_pair_find(&policy->sets[GW_SET_VERSIONS], policy->version);
        if (version == NULL)
                return sim_unreadable(sim);
        out->id = policy->who.name;
        out->text = version->text;
        out->policy = compiled != NULL ? compiled->list[0] : NULL;
        return true;
}

static bool sim_add_entity(struct sim *sim, const struct gw_entity_name *who, const struct gw_entity **out)
{
        static const char *const types[] = {"user", "", "group", "role"};
        const struct gw_policies *own;
        const struct gw_entity *entity;
        struct sim_policy managed;

        if (gw_people_policies(sim->call->req->loop, who, &entity, &own) != 0 || own->broken)
                return sim_unreadable(sim);
        *out = entity;
        for (unsigned i = 0; i < own->count; i++)
                if (!sim_add(sim,
                             gw_printf(sim->call->req, "%s_%s_%s", types[who->kind - GW_USER], entity->who.name,
                                       entity->sets[GW_SET_INLINE].list[i].name),
                             types[who->kind - GW_USER], entity->sets[GW_SET_INLINE].list[i].text, own->list[i]))
                        return false;
        for (unsigned i = 0; i < entity->sets[GW_SET_ATTACHED].count; i++)
                if (!sim_managed(sim, entity->sets[GW_SET_ATTACHED].list[i].name, &managed) ||
                    !sim_add(sim, managed.id, managed.type, managed.text, managed.policy))
                        return false;
        return true;
}

/* PolicySourceArn: its policies, those of its groups, and its boundary. False: refused. */
static bool sim_take_source(struct sim *sim, const char *arn)
{
        struct gw_loop *loop = sim->call->req->loop;
        struct gw_entity_name who, group;
        const struct gw_entity *entity, *found;
        int rv = gw_entity_of_arn(arn, &who);

        if (rv != 0 || (who.kind != GW_USER && who.kind != GW_GROUP && who.kind != GW_ROLE)) {
                iam_fail(sim->call, "InvalidInput", "PolicySourceArn must be the ARN of a user, group or role.");
                return false;
        }
        if (strcmp(who.account, sim->call->account) != 0 || gw_people_find_arn(loop, arn, &entity, NULL) != 0) {
                iam_fail(sim->call, "NoSuchEntity", gw_printf(sim->call->req, "%s cannot be found.", arn));
                return false;
        }
        if (!sim_add_entity(sim, &who, &entity))
                return false;
        for (unsigned i = 0; i < entity->sets[GW_SET_GROUPS].count; i++) {
                group = iam_who(sim->call, GW_GROUP, entity->sets[GW_SET_GROUPS].list[i].name);
                if (!sim_add_entity(sim, &group, &found))
                        return false;
        }
        sim->principal.user_id = s3_str_of(entity->id);
        if (*entity->boundary == '\0')
                return true;
        sim->bounded = true;
        return sim_managed(sim, entity->boundary, &sim->boundary) &&
               (sim->boundary.policy != NULL ||
                sim_compile(sim, sim->boundary.text, ACC_MANAGED, (struct s3_str){NULL, 0}, &sim->boundary));
}

static bool sim_take_policies(struct sim *sim)
{
        struct iam_call *call = sim->call;
        const char *bounds = sim_member(call, "PermissionsBoundaryPolicyInputList", 1, "");
        const char *source = call->in.value[IAM_P_SOURCE];
        unsigned passed = sim_members(call, "PolicyInputList", "");

        if (source == NULL && passed == 0) {
                iam_fail(call, "ValidationError",
                         "1 validation error detected: Value null at 'policyInputList' failed to satisfy constraint: "
                         "Member must not be null");
                return false;
        }
        if (source != NULL && !sim_take_source(sim, source))
                return false;
        for (unsigned i = 0; i < passed; i++)
                if (!sim_add(sim, gw_printf(call->req, "PolicyInputList.%u", i + 1), "none",
                             sim_member(call, "PolicyInputList", i + 1, ""), NULL))
                        return false;
        if (bounds == NULL)
                return true;
        if (sim_members(call, "PermissionsBoundaryPolicyInputList", "") > 1) {
                iam_fail(call, "InvalidInput", "There can be one permissions boundary.");
                return false;
        }
        acc_policy_free(sim->boundary.made);
        sim->boundary = (struct sim_policy){.id = "PermissionsBoundaryPolicyInputList.1", .type = "none"};
        sim->bounded = true;
        return sim_compile(sim, bounds, ACC_MANAGED, (struct s3_str){NULL, 0}, &sim->boundary);
}

/* ---- whose request it would be --------------------------------------------------------------- */

static bool sim_take_caller(struct sim *sim)
{
        struct iam_call *call = sim->call;
        const char *caller = call->in.value[IAM_P_CALLER], *source = call->in.value[IAM_P_SOURCE],
                   *owner = call->in.value[IAM_P_RESOURCE_OWNER];
        const char *arn = caller != NULL ? caller : source;
        struct gw_entity_name who = {.kind = GW_USER};

        if (call->in.value[IAM_P_RESOURCE_POLICY] != NULL && (arn == NULL || sim->resources == 0)) {
                iam_fail(call, "InvalidInput", "With ResourcePolicy there must be CallerArn and ResourceArns.");
                return false;
        }
        if (caller != NULL && (gw_entity_of_arn(caller, &who) != 0 || who.kind != GW_USER)) {
                iam_fail(call, "InvalidInput", "CallerArn must be the ARN of a user.");
                return false;
        }
        if (arn == NULL)
                arn = gw_printf(call->req, "arn:aws:iam::%s:user/simulated", call->account);
        sim->principal.kind = ACC_USER;
        sim->principal.bounded = sim->bounded;
        sim->principal.arn = s3_str_of(arn);
        sim->principal.account =
                s3_str_of(*who.account != '\0' ? gw_copy(call->req, s3_str_of(who.account)) : call->account);
        sim->owner = s3_str_of(call->account);
        if (owner == NULL)
                return true;
        if (gw_entity_of_arn(owner, &who) == 0 && who.kind == GW_ACCOUNT)
                owner = gw_copy(call->req, s3_str_of(who.name));
        sim->owner = s3_str_of(owner != NULL ? owner : "");
        return true;
}

static bool sim_lookup(void *arg, const struct acc_key *key, struct acc_values *out)
{
        struct sim *sim = arg;

        for (unsigned i = 0; i < sim->contexts; i++)
                if (s3_str_eq_nocase(sim->context[i].key.name, key->name)) {
                        *out = (struct acc_values){.values = sim->context[i].values, .count = sim->context[i].count};
                        return true;
                }
        for (unsigned i = 0; i < sim->missing; i++)
                if (s3_str_eq_nocase(sim->missed[i], key->name))
                        return false;
        if (sim->missing < SIM_MISSING_MAX)
                sim->missed[sim->missing++] = key->name;
        return false;
}

/* ---- the answer ------------------------------------------------------------------------------ */

static const char *sim_skip_string(const char *at)
{
        for (at++; *at != '\0' && *at != '"'; at++)
                if (*at == '\\' && at[1] != '\0')
                        at++;
        return at;
}

/* Behind the object or array that begins here. */
static const char *sim_skip_value(const char *at)
{
        unsigned depth = 0;

        for (; *at != '\0'; at++) {
                if (*at == '"')
                        at = sim_skip_string(at);
                if (*at == '\0')
                        break;
                depth += *at == '{' || *at == '[';
                if ((*at == '}' || *at == ']') && --depth == 0)
                        return at + 1;
        }
        return at;
}

static const char *sim_skip_space(const char *at)
{
        return at + strspn(at, " \t\r\n");
}

/* The text of a statement of a policy that compiled. False: its text is not found, as where the key is escaped. */
bool iam_statement_span(const char *text, size_t number, const char **from, const char **to)
{
        const char *at = sim_skip_space(text), *end;

        if (*at++ != '{')
                return false;
        for (; *at != '\0'; at = end + 1) { /* at each of its members */
                at = sim_skip_space(at);
                if (*at != '"')
                        return false;
                end = sim_skip_string(at);
                if (*end == '\0')
                        return false;
                bool found = strncmp(at, "\"Statement\"", (size_t)(end + 1 - at)) == 0 && end - at == 10;
                at = sim_skip_space(end + 1);
                if (*at != ':')
                        return false;
                at = sim_skip_space(at + 1);
                if (found)
                        break;
                end = *at == '{' || *at == '[' ? sim_skip_value(at) : *at == '"' ? sim_skip_string(at) : at;
                end += *end == '"';
                end += strcspn(end, ",}");
                if (*end != ',')
                        return false;
        }
        if (*at == '[')
                at = sim_skip_space(at + 1);
        for (; *at == '{'; at = sim_skip_space(at)) {
                *from = at;
                *to = at = sim_skip_value(at);
                if (number-- == 0)
                        return true;
                at = sim_skip_space(at);
                at += *at == ',';
        }
        return false;
}

static void show_position(struct s3_xml *xml, const char *element, const char *text, const char *at)
{
        uint64_t line = 1;
        const char *start = text;

        for (; text < at; text++)
                if (*text == '\n') {
                        line++;
                        start = text + 1;
                }
        s3_xml_open(xml, element);
        s3_xml_uint(xml, "Line", line);
        s3_xml_uint(xml, "Column", (uint64_t)(at - start) + 1);
        s3_xml_close(xml, element);
}

/* The policy has decided so: by which statement. */
static void show_matched(struct s3_xml *xml, const struct sim_policy *policy, const struct acc_request *request,
                         enum acc_effect effect)
{
        const char *from, *to;
        struct acc_result result;

        if (policy->policy == NULL)
                return;
        result = acc_evaluate(policy->policy, request);
        if (result.effect != effect)
                return;
        s3_xml_open(xml, "member");
        s3_xml_textz(xml, "SourcePolicyId", policy->id != NULL ? policy->id : "");
        s3_xml_textz(xml, "SourcePolicyType", policy->type);
        if (result.statement != ACC_NO_STATEMENT && iam_statement_span(policy->text, result.statement, &from, &to)) {
                show_position(xml, "StartPosition", policy->text, from);
                show_position(xml, "EndPosition", policy->text, to);
        }
        s3_xml_close(xml, "member");
}

static void show_decision(struct sim *sim, struct s3_xml *xml, const char *action, const char *resource)
{
        struct acc_request request = {.principal = &sim->principal,
                                      .action = s3_str_of(action),
                                      .resource = s3_str_of(resource),
                                      .lookup = sim_lookup,
                                      .context = sim};
        struct acc_policies all = {.identity = sim->identity,
                                   .identities = sim->policies,
                                   .boundary = sim->boundary.policy,
                                   .resource = sim->resource_policy.policy,
                                   .resource_account = sim->owner};
        struct acc_verdict verdict;

        sim->missing = 0;
        verdict = acc_decide(&all, &request);
        s3_xml_open(xml, "member");
        s3_xml_textz(xml, "EvalActionName", action);
        s3_xml_textz(xml, "EvalResourceName", resource);
        s3_xml_textz(xml, "EvalDecision",
                     verdict.allowed         ? "allowed"
                     : verdict.explicit_deny ? "explicitDeny"
                                             : "implicitDeny");
        s3_xml_open(xml, "MatchedStatements");
        if (verdict.allowed || verdict.explicit_deny) {
                enum acc_effect effect = verdict.allowed ? ACC_ALLOW : ACC_DENY;

                for (unsigned i = 0; i < sim->policies; i++)
                        show_matched(xml, &sim->policy[i], &request, effect);
                show_matched(xml, &sim->resource_policy, &request, effect);
                if (effect == ACC_DENY)
                        show_matched(xml, &sim->boundary, &request, effect);
        }
        s3_xml_close(xml, "MatchedStatements");
        s3_xml_open(xml, "MissingContextValues");
        for (unsigned i = 0; i < sim->missing; i++)
                s3_xml_text(xml, "member", sim->missed[i]);
        s3_xml_close(xml, "MissingContextValues");
        if (sim->bounded) {
                s3_xml_open(xml, "PermissionsBoundaryDecisionDetail");
                s3_xml_bool(xml, "AllowedByPermissionsBoundary",
                            acc_evaluate(sim->boundary.policy, &request).effect == ACC_ALLOW);
                s3_xml_close(xml, "PermissionsBoundaryDecisionDetail");
        }
        s3_xml_close(xml, "member");
}

/* A bucket's policy may speak of that bucket alone. False: refused. */
static bool sim_take_resource_policy(struct sim *sim, const char *resource)
{
        const char *text = sim->call->in.value[IAM_P_RESOURCE_POLICY], *name;
        struct s3_str bucket;

        if (text == NULL)
                return true;
        acc_policy_free(sim->resource_policy.made);
        sim->resource_policy = (struct sim_policy){.id = "ResourcePolicy", .type = "resource"};
        if (strncmp(resource, "arn:aws:s3:::", 13) != 0) {
                iam_fail(sim->call, "InvalidInput", "ResourcePolicy is that of a bucket, and ResourceArns are in it.");
                return false;
        }
        name = resource + 13;
        bucket = (struct s3_str){name, strcspn(name, "/")};
        return sim_compile(sim, text, ACC_BUCKET, bucket, &sim->resource_policy);
}

/* How long this thread has run. */
static uint64_t sim_clock_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Decisions are numbered: action by action, of each its resources. call->show is not used: it may have to refuse. */
static void sim_answer(struct sim *sim)
{
        struct iam_call *call = sim->call;
        const char *marker = call->in.value[IAM_P_MARKER], *any = "*";
        uint64_t from = marker != NULL ? strtoull(marker, NULL, 10) : 0, resources = sim->resources > 0 ? sim->resources : 1,
                 all = sim->actions * resources, i;
        const char *const *resource = sim->resources > 0 ? sim->resource : &any;
        uint64_t until = sim_clock_ns() + SIM_PAGE_NS;
        unsigned most = iam_max_items(call);
        char next[24];
        struct s3_xml xml;

        iam_answer_begin(call, &xml, true);
        s3_xml_open(&xml, "EvaluationResults");
        for (i = from; i < all && i - from < most && xml.len < IAM_PAGE_BYTES && (i == from || sim_clock_ns() < until); i++) {
                if (!sim_take_resource_policy(sim, resource[i % resources])) {
                        s3_xml_free(&xml);
                        return;
                }
                show_decision(sim, &xml, sim->action[i / resources], resource[i % resources]);
        }
        s3_xml_close(&xml, "EvaluationResults");
        snprintf(next, sizeof(next), "%llu", (unsigned long long)i);
        iam_show_page(&xml, i < all, next);
        iam_answer_end(call, &xml, true);
}

void iam_run_simulate(struct iam_call *call)
{
        struct sim *sim = calloc(1, sizeof(*sim));

        if (sim == NULL) {
                iam_refuse(call, -ENOMEM);
                return;
        }
        sim->call = call;
        sim->principal.canonical_id = gw_canonical_id(call->req->loop, call->account);
        if (sim_take_lists(sim) && sim_take_policies(sim) && sim_take_caller(sim))
                sim_answer(sim);
        for (unsigned i = 0; i <= sim->policies && i < SIM_POLICIES_MAX; i++)
                acc_policy_free(sim->policy[i].made);
        acc_policy_free(sim->boundary.made);
        acc_policy_free(sim->resource_policy.made);
        free(sim);
}
