/*
 * who_session.c - the principal of temporary credentials, from their opened token and from what there is of their
 * role or user now (rules T8 to T16 in docs/design/sts.md). On the loop of whoever asks; nothing here waits.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "gateway/rights/conditions.h"
#include "gateway/rights/owners.h"

/* False: a policy that may have denied something is not there. */
static bool session_policies(struct gw_loop *loop, struct gw_who *who)
{
        const struct gw_temporary *t = who->temporary;

        assert((t->policy != NULL) == (*t->policy_text != '\0')); /* a policy that limits is never lost on the way */
        assert(who->sessions == 0 && 1 + t->arn_count <= sizeof(who->session) / sizeof(who->session[0]));
        if (t->policy != NULL)
                who->session[who->sessions++] = t->policy;
        for (unsigned i = 0; i < t->arn_count; i++) {
                const struct acc_policy *policy = gw_who_managed(loop, t->arn[i]);

                if (policy == NULL)
                        return false;
                who->session[who->sessions++] = policy;
        }
        return true;
}

static bool who_is_role(struct gw_loop *loop, struct gw_who *who)
{
        const struct gw_temporary *t = who->temporary;
        struct s3_str canonical_id = gw_canonical_id(loop, t->account);
        struct gw_entity_name name = {.kind = GW_ROLE};
        const struct gw_policies *own;

        if (canonical_id.len == 0)
                return false;
        strcpy(name.account, t->account);
        strcpy(name.name, t->role);
        if (gw_people_policies(loop, &name, &who->user, &own) != 0 || strcmp(who->user->id, t->role_id) != 0 ||
            !gw_entity_arn(who->user, who->role_arn, sizeof(who->role_arn)))
                return false;
        snprintf(who->arn, sizeof(who->arn), "arn:aws:sts::%s:assumed-role/%s/%s", t->account, who->user->who.name,
                 t->session);
        snprintf(who->session_id, sizeof(who->session_id), "%s:%s", t->role_id, t->session);
        who->principal = (struct acc_principal){.kind = ACC_ASSUMED_ROLE,
                                                .bounded = *who->user->boundary != '\0',
                                                .account = s3_str_of(t->account),
                                                .canonical_id = canonical_id,
                                                .arn = s3_str_of(who->arn),
                                                .parent_arn = s3_str_of(who->role_arn),
                                                .user_id = s3_str_of(who->session_id)};
        if (who->principal.bounded && (who->boundary = gw_who_managed(loop, who->user->boundary)) == NULL)
                return false;
        return gw_who_take_policies(loop, who, own) && session_policies(loop, who);
}

bool gw_who_of_session(struct gw_loop *loop, struct gw_who *out)
{
        const struct gw_temporary *t = out->temporary;

        assert(t->kind == GW_SESSION_OF_KEY || t->kind == GW_SESSION_OF_ROLE);
        if (!gw_temporary_alive(loop, t))
                return false;
        if (t->kind == GW_SESSION_OF_ROLE)
                return who_is_role(loop, out);
        return gw_who_of_key(loop, t->issuer, gw_credentials_find(loop, t->issuer) != NULL, out);
}

static bool session_says(struct gw_conditions *c, const struct acc_key *key, const char *text, struct acc_values *out)
{
        if (*text == '\0')
                return false;
        c->value[key->id] = s3_str_of(text);
        *out = (struct acc_values){&c->value[key->id], 1, false};
        return true;
}

static bool session_tag(struct gw_conditions *c, const struct acc_key *key, struct acc_values *out)
{
        const struct gw_temporary *t = c->who->temporary;

        for (unsigned i = 0; i < t->tag_count; i++)
                if (s3_str_eq_nocase(s3_str_of(t->tag[i].name), key->tag)) {
                        c->session_tag[i] = s3_str_of(t->tag[i].text);
                        *out = (struct acc_values){&c->session_tag[i], 1, false};
                        return true;
                }
        return false;
}

bool gw_who_session_key(struct gw_conditions *c, const struct acc_key *key, struct acc_values *out)
{
        const struct gw_temporary *t = c->who->temporary;

        assert(t != NULL);
        switch (key->id) {
        case ACC_KEY_AWS_TOKEN_ISSUE_TIME:
                s3_date_format_iso(t->issued_ms, c->issued);
                return session_says(c, key, c->issued, out);
        case ACC_KEY_AWS_SOURCE_IDENTITY:
                return session_says(c, key, t->source, out);
        case ACC_KEY_AWS_FEDERATED_PROVIDER:
                return session_says(c, key, t->provider, out);
        case ACC_KEY_AWS_MFA_PRESENT:
                return session_says(c, key, "false", out);
        case ACC_KEY_AWS_PRINCIPAL_TAG:
                return session_tag(c, key, out);
        default:
                return false;
        }
}
