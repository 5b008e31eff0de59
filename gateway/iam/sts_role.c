/*
 * sts_role.c - AssumeRole, and what it shares with AssumeRoleWithWebIdentity: the role, its trust policy, session
 * policies and tags (rules T18 to T21 in docs/design/sts.md). On the request's loop; nothing waits.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "gateway/iam/sts.h"

#define CHAINED_S 3600

/* ---- what the form says ---------------------------------------------------------------------- */

/* "PREFIX.member.N" and rest; N from 1, 0 if it is none. */
static unsigned sts_member(const char *name, const char *prefix, const char *rest)
{
        size_t len = strlen(prefix);
        unsigned long n;
        char *end;

        if (strncmp(name, prefix, len) != 0 || name[len] < '1' || name[len] > '9')
                return 0;
        n = strtoul(name + len, &end, 10);
        return strcmp(end, rest) == 0 && n <= GW_SESSION_TAGS ? (unsigned)n : 0;
}

static bool take_arns(struct iam_call *call, struct gw_temporary *what)
{
        for (unsigned i = 0; i < call->form.count; i++) {
                const struct iam_pair *pair = &call->form.pair[i];
                unsigned n = sts_member(pair->name, "PolicyArns.member.", ".arn");

                if (n == 0 && strncmp(pair->name, "PolicyArns.", 11) == 0)
                        n = GW_SESSION_ARNS + 1;
                if (n == 0)
                        continue;
                if (n > GW_SESSION_ARNS) {
                        iam_fail(call, "ValidationError", "PolicyArns has at most 10 members, each with an arn.");
                        return false;
                }
                if (iam_find_policy_of(call, what->account, pair->value) == NULL)
                        return false;
                what->arn[what->arn_count++] = pair->value;
        }
        return true;
}

static struct gw_session_tag *session_tag_of(struct gw_temporary *what, const char *name)
{
        for (unsigned i = 0; i < what->tag_count; i++)
                if (strcasecmp(what->tag[i].name, name) == 0)
                        return &what->tag[i];
        return NULL;
}

/* Transitive tags of the session that asks come first, and nothing takes their place. */
static bool take_session_tags(struct iam_call *call, struct gw_temporary *what)
{
        const struct gw_temporary *from = call->req->temporary;

        for (unsigned i = 0; from != NULL && i < from->tag_count; i++)
                if (from->tag[i].transitive)
                        what->tag[what->tag_count++] = from->tag[i];
        for (unsigned i = 0; i < call->in.tag_count; i++) {
                const struct gw_pair *tag = &call->in.tags[i];

                if (session_tag_of(what, tag->name) != NULL || what->tag_count == GW_SESSION_TAGS) {
                        iam_fail(call, "ValidationError", "Transitive session tags cannot be replaced, and a session has "
                                                          "at most 50 tags.");
                        return false;
                }
                what->tag[what->tag_count++] = (struct gw_session_tag){.name = tag->name, .text = tag->text};
        }
        return true;
}

static bool take_transitive(struct iam_call *call, struct gw_temporary *what)
{
        for (unsigned i = 0; i < call->form.count; i++) {
                const struct iam_pair *pair = &call->form.pair[i];
                struct gw_session_tag *tag;

                if (strncmp(pair->name, "TransitiveTagKeys.", 18) != 0)
                        continue;
                tag = sts_member(pair->name, "TransitiveTagKeys.member.", "") > 0 ? session_tag_of(what, pair->value)
                                                                                 : NULL;
                if (tag == NULL) {
                        iam_fail(call, "ValidationError", "TransitiveTagKeys must name tags of the session.");
                        return false;
                }
                tag->transitive = true;
        }
        return true;
}

static bool take_source(struct iam_call *call, struct gw_temporary *what)
{
        const char *given = call->in.value[IAM_P_SOURCE_IDENTITY];
        const struct gw_temporary *from = call->req->temporary;

        what->source = given;
        if (from == NULL || *from->source == '\0')
                return true;
        what->source = from->source;
        if (given == NULL || strcmp(given, from->source) == 0)
                return true;
        iam_fail(call, "AccessDenied", "The source identity of a session cannot be changed.");
        return false;
}

static bool take_policy(struct iam_call *call, struct gw_temporary *what)
{
        const char *text = call->in.value[IAM_P_SESSION_POLICY];

        what->policy_text = text;
        return text == NULL || iam_check_document(call, text, ACC_SESSION, 2048);
}

/* NULL: none that anybody could assume. */
static const struct gw_entity *role_of_arn(struct iam_call *call, const char *arn)
{
        const struct gw_entity *role;
        struct gw_entity_name who;

        if (gw_entity_of_arn(arn, &who) != 0 || who.kind != GW_ROLE ||
            gw_people_find_arn(call->req->loop, arn, &role, NULL) != 0)
                return NULL;
        return role;
}

static void deny_role(struct iam_call *call, const char *action)
{
        iam_fail(call, "AccessDenied",
                 gw_printf(call->req, "Not authorized to perform %s on resource: %s", action,
                           call->in.value[IAM_P_ROLE_ARN]));
}

/* What is wrong with the form is told first: it says nothing of roles and policies that there are. */
struct sts_making *sts_making_new(struct iam_call *call)
{
        struct sts_making *making = gw_alloc(call->req, sizeof(*making));
        const struct gw_entity *role;
        struct gw_temporary *what;

        if (making == NULL) {
                iam_refuse(call, -ENOMEM);
                return NULL;
        }
        what = &making->what;
        if (!take_policy(call, what) || !take_session_tags(call, what) || !take_transitive(call, what) ||
            !take_source(call, what))
                return NULL;
        role = role_of_arn(call, call->in.value[IAM_P_ROLE_ARN]);
        if (role == NULL || !gw_entity_arn(role, making->role_arn, sizeof(making->role_arn))) {
                deny_role(call, gw_printf(call->req, "sts:%s", call->action->name));
                return NULL;
        }
        making->role = role;
        what->kind = GW_SESSION_OF_ROLE;
        what->account = role->who.account;
        what->role = role->who.name;
        what->role_id = role->id;
        what->session = call->in.value[IAM_P_SESSION_NAME];
        return making;
}

/* ---- may they? ------------------------------------------------------------------------------- */

/* What conditions know of the request, beside what they know of any. */
struct sts_keys {
        struct iam_call *call;
        const struct sts_making *making;
        struct s3_str room[8], tag_keys[IAM_TAGS_MAX], transitive[GW_SESSION_TAGS];
        char duration[24];
};

static bool keys_say(struct sts_keys *keys, unsigned slot, const char *text, struct acc_values *out)
{
        if (text == NULL)
                return false;
        keys->room[slot] = s3_str_of(text);
        *out = (struct acc_values){&keys->room[slot], 1, false};
        return true;
}

static bool keys_request_tag(struct sts_keys *keys, const struct acc_key *key, struct acc_values *out)
{
        const struct iam_params *in = &keys->call->in;

        for (unsigned i = 0; i < in->tag_count; i++)
                if (s3_str_eq_nocase(s3_str_of(in->tags[i].name), key->tag)) {
                        keys->tag_keys[i] = s3_str_of(in->tags[i].text);
                        *out = (struct acc_values){&keys->tag_keys[i], 1, false};
                        return true;
                }
        return false;
}

static bool keys_tag_names(struct sts_keys *keys, bool transitive, struct acc_values *out)
{
        const struct gw_temporary *what = &keys->making->what;
        size_t count = 0;

        for (unsigned i = 0; i < what->tag_count; i++)
                if (!transitive || what->tag[i].transitive)
                        keys->transitive[count++] = s3_str_of(what->tag[i].name);
        *out = (struct acc_values){keys->transitive, count, false};
        return count > 0;
}

static bool sts_keys_lookup(void *context, const struct acc_key *key, struct acc_values *out)
{
        struct sts_keys *keys = context;
        const struct sts_making *making = keys->making;
        struct iam_call *call = keys->call;

        switch (key->id) {
        case ACC_KEY_STS_EXTERNAL_ID:
                return keys_say(keys, 0, call->in.value[IAM_P_EXTERNAL_ID], out);
        case ACC_KEY_STS_SESSION_NAME:
                return keys_say(keys, 1, making->what.session, out);
        case ACC_KEY_STS_SOURCE_IDENTITY:
                return keys_say(keys, 2, making->what.source, out);
        case ACC_KEY_STS_DURATION:
                snprintf(keys->duration, sizeof(keys->duration), "%lld", (long long)sts_seconds(call, 3600));
                return keys_say(keys, 3, keys->duration, out);
        case ACC_KEY_AWS_REQUEST_TAG:
                return keys_request_tag(keys, key, out);
        case ACC_KEY_AWS_TAG_KEYS:
        case ACC_KEY_STS_TRANSITIVE_TAGS:
                return keys_tag_names(keys, key->id == ACC_KEY_STS_TRANSITIVE_TAGS, out);
        default:
                return making->claims != NULL && making->claims(making->claims_context, key, out);
        }
}

static bool trust_permits(struct iam_call *call, const struct gw_trust *trust, const struct sts_making *making,
                          const char *permission)
{
        struct gw_request *req = call->req;
        struct gw_ask ask = {.loop = req->loop,
                             .access_key = req->access_key,
                             .req = req,
                             .permission = permission,
                             .resource = s3_str_of(making->role_arn)};
        char why[GW_WHY_MAX];

        if (gw_rights_trust(&ask, trust, why))
                return true;
        if (why[0] != '\0')
                iam_fail(call, "AccessDenied", gw_copy(req, s3_str_of(why)));
        else
                deny_role(call, permission);
        return false;
}

/* One permission for the role, and one for each of what else it is to carry, transitive tags of the session included. */
static bool may_assume(struct iam_call *call, const struct sts_making *making, const struct acc_policy *policy,
                       const char *permission)
{
        struct sts_keys *keys = gw_alloc(call->req, sizeof(*keys));
        struct gw_trust trust = {.policy = policy,
                                 .account = s3_str_of(making->what.account),
                                 .provider = s3_str_of(making->provider),
                                 .more = sts_keys_lookup,
                                 .more_context = keys};

        if (keys == NULL) {
                iam_refuse(call, -ENOMEM);
                return false;
        }
        keys->call = call;
        keys->making = making;
        return trust_permits(call, &trust, making, permission) &&
               (making->what.tag_count == 0 || trust_permits(call, &trust, making, "sts:TagSession")) &&
               (making->what.source == NULL || trust_permits(call, &trust, making, "sts:SetSourceIdentity"));
}

/* How long it may last. False: refused. */
static bool role_seconds(struct iam_call *call, const struct gw_entity *role, int64_t *out)
{
        int64_t most = role->session_seconds > 0 ? role->session_seconds : 3600;
        bool chained = call->role_session;

        *out = sts_seconds(call, 3600);
        if (*out > most) {
                iam_fail(call, "ValidationError",
                         "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.");
                return false;
        }
        if (chained && *out > CHAINED_S) {
                iam_fail(call, "ValidationError", "The requested DurationSeconds exceeds the 1 hour session limit for "
                                                  "roles assumed by role chaining.");
                return false;
        }
        return true;
}

void sts_assume(struct iam_call *call, struct sts_making *making, const char *permission)
{
        struct acc_policy *policy = NULL;
        struct acc_error error;
        int64_t seconds;
        int rv = acc_policy_compile(s3_str_of(making->role->trust), ACC_TRUST, (struct s3_str){NULL, 0}, &policy, &error);

        if (rv == -ENOMEM)
                iam_refuse(call, rv);
        else if (rv != 0)
                deny_role(call, permission); /* it may have denied this */
        else if (may_assume(call, making, policy, permission) && take_arns(call, &making->what) &&
                 role_seconds(call, making->role, &seconds))
                sts_make(call, making, seconds);
        acc_policy_free(policy);
}

void iam_run_assume_role(struct iam_call *call)
{
        struct sts_making *making = sts_making_new(call);

        if (making != NULL)
                sts_assume(call, making, "sts:AssumeRole");
}
