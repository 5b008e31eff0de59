/*
 * Decides a request by all policies that apply to it, in the order that access.h gives. Called for
 * each request; pure; rules A2, A3, A11, A13.
 */
#include <stdio.h>

#include "compiled.h"

/* The policies of a request, and what they have said so far. */
struct decision {
        const struct acc_policies *policies;
        const struct acc_principal *principal;
        struct acc_eval eval;
        bool same_account;
        struct acc_result resource; /* ACL included */
        bool by_acl;
        bool identity, boundary, session; /* each: allows, or (but for identity) is not there */
        size_t identity_policy, identity_statement;
};

static struct acc_verdict verdict_deny(enum acc_source source)
{
        return (struct acc_verdict){.source = source, .statement = ACC_NO_STATEMENT};
}

static struct acc_verdict verdict_allow(enum acc_source source, size_t policy, size_t statement)
{
        return (struct acc_verdict){.allowed = true, .source = source, .policy = policy, .statement = statement};
}

static struct acc_verdict verdict_explicit(enum acc_source source, size_t policy, size_t statement)
{
        return (struct acc_verdict){.explicit_deny = true, .source = source, .policy = policy, .statement = statement};
}

static bool is_account_member(enum acc_principal_kind kind)
{
        return kind == ACC_USER || kind == ACC_ASSUMED_ROLE || kind == ACC_FEDERATED_USER;
}

/* Step 1: root cannot lock itself out of the policy of its bucket. */
static bool root_keeps_policy(const struct decision *d)
{
        static const struct s3_str actions[] = {S3_STR("s3:getbucketpolicy"), S3_STR("s3:putbucketpolicy"),
                                                S3_STR("s3:deletebucketpolicy")};

        if (d->principal->kind != ACC_ROOT || !d->same_account)
                return false;
        for (size_t i = 0; i < LENGTH(actions); i++)
                if (s3_str_eq(d->eval.action, actions[i]))
                        return true;
        return false;
}

/* A public policy under RestrictPublicBuckets grants the owner's account and services alone. */
static bool public_is_restricted(const struct decision *d)
{
        const struct acc_policies *p = d->policies;

        return p->restrict_public && p->resource != NULL && p->resource->is_public && !d->same_account &&
               d->principal->kind != ACC_SERVICE;
}

/* Evaluates the resource policy. True: it denies. */
static bool ask_resource(struct decision *d, struct acc_verdict *out)
{
        const struct acc_policies *p = d->policies;

        d->resource = (struct acc_result){ACC_NO_OPINION, ACC_GRANT_NONE, ACC_NO_STATEMENT};
        if (p->resource != NULL)
                d->resource = acc_eval_policy(&d->eval, p->resource);
        if (d->resource.effect == ACC_DENY) {
                *out = verdict_explicit(ACC_BY_RESOURCE, 0, d->resource.statement);
                return true;
        }
        if (public_is_restricted(d) || p->denies_only)
                d->resource = (struct acc_result){ACC_NO_OPINION, ACC_GRANT_NONE, ACC_NO_STATEMENT};
        d->by_acl = p->acl > d->resource.grant;
        if (d->by_acl)
                d->resource = (struct acc_result){ACC_ALLOW, p->acl, ACC_NO_STATEMENT};
        return false;
}

/* Evaluates policies of which one must allow. True: one denies. */
static bool ask_each(struct decision *d, const struct acc_policy *const *policies, size_t count, enum acc_source source,
                     struct acc_verdict *out, bool *allows)
{
        *allows = false;
        for (size_t i = 0; i < count; i++) {
                struct acc_result result = acc_eval_policy(&d->eval, policies[i]);

                if (result.effect == ACC_DENY) {
                        *out = verdict_explicit(source, i, result.statement);
                        return true;
                }
                if (result.effect != ACC_ALLOW || *allows)
                        continue;
                *allows = true;
                if (source == ACC_BY_IDENTITY) {
                        d->identity_policy = i;
                        d->identity_statement = result.statement;
                }
        }
        return false;
}

/* Evaluates what the principal's own account says. True: it denies. */
static bool ask_own(struct decision *d, struct acc_verdict *out)
{
        const struct acc_policies *p = d->policies;

        if (ask_each(d, p->identity, p->identities, ACC_BY_IDENTITY, out, &d->identity) ||
            ask_each(d, &p->boundary, p->boundary != NULL, ACC_BY_BOUNDARY, out, &d->boundary) ||
            ask_each(d, p->session, p->sessions, ACC_BY_SESSION, out, &d->session))
                return true;
        d->boundary |= p->boundary == NULL;
        d->session |= p->sessions == 0 && d->principal->kind != ACC_FEDERATED_USER;
        return false;
}

static struct acc_verdict resource_allows(const struct decision *d)
{
        return verdict_allow(d->by_acl ? ACC_BY_ACL : ACC_BY_RESOURCE, 0, d->resource.statement);
}

/* What limits a user or a session: boundary and session policies. NOBODY: nothing. */
static enum acc_source limited_by(const struct decision *d)
{
        if (!d->boundary)
                return ACC_BY_BOUNDARY;
        return d->session ? ACC_BY_NOBODY : ACC_BY_SESSION;
}

/* Step 4d: identity policies, within boundary and session policies. */
static struct acc_verdict own_verdict(const struct decision *d)
{
        enum acc_source limit = limited_by(d);

        if (!d->identity)
                return verdict_deny(ACC_BY_IDENTITY);
        if (limit != ACC_BY_NOBODY)
                return verdict_deny(limit);
        return verdict_allow(ACC_BY_IDENTITY, d->identity_policy, d->identity_statement);
}

static struct acc_verdict same_account_verdict(const struct decision *d)
{
        bool trust = d->policies->resource != NULL && d->policies->resource->kind == ACC_TRUST;
        enum acc_grant grant = d->resource.grant;

        if (d->principal->kind == ACC_ROOT)
                return trust ? verdict_deny(ACC_BY_RESOURCE) : verdict_allow(ACC_BY_ROOT, 0, ACC_NO_STATEMENT);
        if (grant == ACC_GRANT_DIRECT)
                return resource_allows(d);
        if (grant == ACC_GRANT_PARENT && limited_by(d) == ACC_BY_NOBODY)
                return resource_allows(d);
        if (trust && grant == ACC_GRANT_NONE)
                return verdict_deny(ACC_BY_RESOURCE);
        return own_verdict(d);
}

static struct acc_verdict other_account_verdict(const struct decision *d)
{
        struct acc_verdict own;

        if (d->resource.grant == ACC_GRANT_NONE)
                return verdict_deny(ACC_BY_RESOURCE);
        if (d->principal->kind == ACC_ROOT)
                return d->policies->resource != NULL && d->policies->resource->kind == ACC_TRUST
                               ? verdict_deny(ACC_BY_RESOURCE)
                               : resource_allows(d);
        own = own_verdict(d);
        return own.allowed ? resource_allows(d) : own;
}

struct acc_verdict acc_decide(const struct acc_policies *policies, const struct acc_request *request)
{
        struct decision d = {.policies = policies, .principal = request->principal};
        struct acc_verdict verdict;

        acc_eval_init(&d.eval, request);
        d.same_account = d.principal->account.len > 0 && s3_str_eq(d.principal->account, policies->resource_account);
        if (root_keeps_policy(&d))
                return verdict_allow(ACC_BY_ROOT, 0, ACC_NO_STATEMENT);
        if (ask_resource(&d, &verdict))
                return verdict;
        if (d.principal->kind == ACC_ROOT)
                return d.same_account ? same_account_verdict(&d) : other_account_verdict(&d);
        if (!is_account_member(d.principal->kind))
                return d.resource.grant != ACC_GRANT_NONE ? resource_allows(&d) : verdict_deny(ACC_BY_RESOURCE);
        if (ask_own(&d, &verdict))
                return verdict;
        return d.same_account ? same_account_verdict(&d) : other_account_verdict(&d);
}

static const char *source_name(enum acc_source source)
{
        switch (source) {
        case ACC_BY_RESOURCE:
                return "resource-based policy";
        case ACC_BY_BOUNDARY:
                return "permissions boundary";
        case ACC_BY_SESSION:
                return "session policy";
        default:
                return "identity-based policy";
        }
}

void acc_verdict_message(const struct acc_verdict *verdict, const struct acc_request *request, char *out, size_t size)
{
        struct s3_str user = request->principal->arn.len > 0 ? request->principal->arn : S3_STR("anonymous");
        struct s3_str action = request->action, resource = request->resource;
        const char *source = source_name(verdict->source);
        size_t used;

        if (size == 0)
                return;
        snprintf(out, size, "User: %.*s is not authorized to perform: %.*s on resource: \"%.*s\"",
                 (int)(user.len & INT32_MAX), user.data, (int)(action.len & INT32_MAX),
                 action.data != NULL ? action.data : "", (int)(resource.len & INT32_MAX),
                 resource.data != NULL ? resource.data : "");
        used = strlen(out);
        if (verdict->explicit_deny)
                snprintf(out + used, size - used, " with an explicit deny in %s %s",
                         verdict->source == ACC_BY_IDENTITY ? "an" : "a", source);
        else
                snprintf(out + used, size - used, " because no %s allows the %.*s action", source,
                         (int)(action.len & INT32_MAX), action.data != NULL ? action.data : "");
}
