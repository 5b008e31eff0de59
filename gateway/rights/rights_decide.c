/*
 * rights_decide.c - the decision: who asks, what their policies and the bucket's say (rules P1 to P5). On the loop of
 * whoever asks; nothing here waits.
 */
#include "gateway/rights/rights.h"

#include <errno.h>
#include <string.h>

#include "gateway/http/operation.h"
#include "gateway/http/users.h"
#include "gateway/rights/acl_grant.h"
#include "gateway/rights/bucket_policy.h"
#include "gateway/rights/conditions.h"
#include "gateway/rights/owners.h"

#define RESOURCE_MAX 2048u /* the ARN of the longest key there can be */

/* A question, and all that it takes to answer it. */
struct rights_case {
        const struct gw_ask *ask;
        struct gw_who who;
        struct gw_conditions conditions;
        struct acc_policies policies;
        bool unreadable; /* the bucket has a policy that cannot be read, or the object an ACL */
        bool acls;       /* ACLs count in the bucket */
        char owner[GW_ACCOUNT_ID_LEN + 1]; /* of the resource: an account; "": nobody */
        struct s3_acl object;              /* of the object, if it is known */
        size_t resource_len;
        char resource[RESOURCE_MAX];
};

static bool rights_action_is(const struct gw_ask *ask, const char *action)
{
        return strcmp(ask->permission, action) == 0;
}

/* The resource in question. False: no object can have such a name. */
static bool rights_name(const struct gw_ask *ask, char out[RESOURCE_MAX], size_t *out_len)
{
        const struct s3_str start = S3_STR("arn:aws:s3:::"), slash = S3_STR("/"), none = {NULL, 0};
        const bool other = ask->resource.len > 0; /* nothing of S3 */
        const struct s3_str part[] = {other ? ask->resource : start,
                                      other                 ? none
                                      : ask->bucket.len > 0 ? ask->bucket
                                                            : S3_STR("*"),
                                      ask->key.len > 0 ? slash : none, ask->key};
        size_t len = 0;

        for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
                if (part[i].len > RESOURCE_MAX - len)
                        return false;
                if (part[i].len > 0)
                        memcpy(out + len, part[i].data, part[i].len); /* whatever bytes it has */
                len += part[i].len;
        }
        *out_len = len;
        return true;
}

/*
 * The bucket whose policy counts. NULL: none does. A bucket that is to be made has none, whoever has one of this
 * name.
 */
static const struct eng_bucket *rights_bucket_of(const struct gw_ask *ask)
{
        return rights_action_is(ask, "s3:CreateBucket") ? NULL : ask->found;
}

/* An object of another account than the bucket's: its owner decides, and the bucket's policy only denies. */
static void rights_object(struct rights_case *c)
{
        const struct gw_ask *ask = c->ask;
        struct eng_str acl;

        if (ask->look != GW_LOOK_FOUND || !c->acls || !gw_acl_is_of_object(ask->permission))
                return;
        acl = ask->object->acl;
        if (acl.len > 0 && s3_acl_decode(acl.data, acl.len, &c->object) != 0) {
                c->unreadable = true;
                return;
        }
        if (acl.len == 0 || strcmp(c->object.owner, c->owner) == 0)
                return;
        strcpy(c->owner, c->object.owner);
        c->policies.denies_only = true;
}

static void rights_bucket(struct rights_case *c)
{
        const struct gw_ask *ask = c->ask;
        const struct gw_service *service = ask->loop->gw->service;
        const struct eng_bucket *bucket = rights_bucket_of(ask);
        int rv;

        if (bucket == NULL)
                return;
        gw_bucket_account(bucket, c->owner);
        rv = gw_bucket_policy_find(bucket->store, bucket->id, ask->bucket, &c->policies.resource);
        c->unreadable = rv != 0 && rv != -ENOENT;
        c->policies.restrict_public =
                service->restricts_public == NULL || service->restricts_public(bucket->store, bucket->id);
        c->acls = service->takes_acls != NULL && service->takes_acls(bucket->store, bucket->id);
        rights_object(c);
        if (c->acls && !c->unreadable)
                c->policies.acl = gw_acl_grant(ask, bucket, &c->who.principal, ask->look == GW_LOOK_FOUND ? &c->object : NULL);
}

/* Root of the bucket's account can still set the policy that cannot be read, or take it away. */
static bool rights_unreadable(const struct rights_case *c)
{
        const struct acc_principal *who = &c->who.principal;

        return who->kind == ACC_ROOT && s3_str_eq(who->account, s3_str_of(c->owner)) &&
               (rights_action_is(c->ask, "s3:PutBucketPolicy") || rights_action_is(c->ask, "s3:GetBucketPolicy") ||
                rights_action_is(c->ask, "s3:DeleteBucketPolicy"));
}

static void rights_explain(const struct rights_case *c, const struct acc_verdict *verdict,
                           const struct acc_request *request, char *why)
{
        if (why != NULL && c->ask->access_key != NULL)
                acc_verdict_message(verdict, request, why, GW_WHY_MAX);
}

/* An ACL of the object could allow it, which is found later, or is not there: then they are told no more than listings tell. */
static bool rights_acl_might(const struct rights_case *c)
{
        return c->acls && (c->ask->look == GW_LOOK_LATER || c->ask->look == GW_LOOK_NOTHING) &&
               gw_acl_is_of_object(c->ask->permission);
}

static bool rights_verdict(struct rights_case *c, char *why)
{
        struct acc_request request = {.principal = &c->who.principal,
                                      .action = s3_str_of(c->ask->permission),
                                      .resource = {c->resource, c->resource_len},
                                      .lookup = gw_conditions_lookup,
                                      .context = &c->conditions};
        struct acc_verdict verdict;

        gw_conditions_init(&c->conditions, c->ask, &c->who);
        c->policies.identity = c->who.policy;
        c->policies.identities = c->who.policies;
        c->policies.boundary = c->who.boundary;
        c->policies.session = c->who.session;
        c->policies.sessions = c->who.sessions;
        c->policies.resource_account = c->ask->resource.len > 0 ? c->who.principal.account : s3_str_of(c->owner);
        verdict = acc_decide(&c->policies, &request);
        if (!verdict.allowed && !verdict.explicit_deny && rights_acl_might(c))
                return true;
        if (!verdict.allowed)
                rights_explain(c, &verdict, &request, why);
        return verdict.allowed;
}

/*
 * What is asked for one by one later lets in whoever may get something: anybody who is known, and of the
 * anonymous those who come to a bucket with a policy.
 */
static bool rights_later(const struct rights_case *c)
{
        return c->ask->access_key != NULL || c->policies.resource != NULL || c->acls;
}

/* No policy is about root but a bucket's, if its account owns the bucket: most requests are decided here. */
static bool rights_free_of_policy(const struct gw_ask *ask)
{
        const struct eng_bucket *bucket = rights_bucket_of(ask);
        struct eng_text *text;

        if (bucket == NULL)
                return true;
        return bucket->attrs_len == 0 && (ask->object == NULL || ask->object->acl.len == 0) &&
               eng_text_get(bucket->store, bucket->id, GW_BUCKET_POLICY, &text) == -ENOENT;
}

/*
 * A bucket that is not there, or is to be made, is as one of whoever asks: so is none at all, where a user
 * needs the own account's policy alone.
 */
static void rights_case_begin(struct rights_case *c, const struct gw_ask *ask)
{
        c->ask = ask;
        c->policies = (struct acc_policies){.resource = NULL};
        c->unreadable = c->acls = false;
        c->object.owner[0] = '\0';
        c->object.count = 0;
        c->owner[0] = '\0';
}

static void rights_own(struct rights_case *c)
{
        const struct s3_str account = c->who.principal.account;

        if (rights_bucket_of(c->ask) == NULL && account.len == GW_ACCOUNT_ID_LEN) {
                memcpy(c->owner, account.data, account.len);
                c->owner[account.len] = '\0';
        }
}

/* It is known who asks. */
static bool rights_case_permits(struct rights_case *c, bool root, char *why)
{
        if (!rights_name(c->ask, c->resource, &c->resource_len))
                return root; /* it is told what is wrong with the name */
        rights_own(c);
        rights_bucket(c);
        if (c->unreadable)
                return rights_unreadable(c);
        return c->ask->later ? rights_later(c) : rights_verdict(c, why);
}

bool gw_rights_decide(const struct gw_ask *ask, bool root, char *why)
{
        struct rights_case c;
        bool permitted;

        if (root && rights_free_of_policy(ask))
                return true;
        rights_case_begin(&c, ask);
        permitted = gw_who_find(ask, root, &c.who) && rights_case_permits(&c, root, why);
        gw_who_put(&c.who);
        return permitted;
}

bool gw_rights_decide_under(const struct gw_ask *asked, const struct acc_policy *bucket_policy)
{
        struct rights_case c;
        struct gw_ask ask = *asked;
        bool root = ask.access_key != NULL && gw_credentials_find(ask.loop, ask.access_key) != NULL, permitted;

        gw_ask_bucket(&ask);
        rights_case_begin(&c, &ask);
        c.policies.resource = bucket_policy;
        if (rights_bucket_of(&ask) != NULL)
                gw_bucket_account(ask.found, c.owner);
        permitted = gw_who_find(&ask, root, &c.who) && rights_name(&ask, c.resource, &c.resource_len) &&
                    rights_verdict(&c, NULL);
        gw_who_put(&c.who);
        return permitted;
}
