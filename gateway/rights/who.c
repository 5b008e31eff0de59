/*
 * who.c - the principal of an access key, and the policies of that principal, from the directory. On the loop of
 * whoever asks; nothing here waits.
 *
 * What cannot be found or read may have denied anything, so then nothing is permitted.
 */
#include "gateway/rights/who.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "gateway/rights/canned.h"
#include "gateway/rights/owners.h"

static bool who_add(struct gw_who *who, const struct gw_policies *policies)
{
        if (policies->broken || policies->count > GW_IDENTITY_MAX - who->policies)
                return false;
        memcpy(&who->policy[who->policies], policies->list, policies->count * sizeof(policies->list[0]));
        who->policies += policies->count;
        return true;
}

/* A managed policy: one that is always there, or one of the directory. NULL: none, or it cannot be read. */
const struct acc_policy *gw_who_managed(struct gw_loop *loop, const char *arn)
{
        const struct acc_policy *canned = gw_canned_policy(loop->gw, arn);
        const struct gw_policies *found;

        if (canned != NULL)
                return canned;
        return gw_people_managed(loop, arn, &found) == 0 && !found->broken ? found->list[0] : NULL;
}

static bool who_add_attached(struct gw_loop *loop, struct gw_who *who, const struct gw_entity *entity)
{
        const struct gw_pairs *attached = &entity->sets[GW_SET_ATTACHED];

        for (unsigned i = 0; i < attached->count; i++) {
                const struct acc_policy *policy = gw_who_managed(loop, attached->list[i].name);

                if (policy == NULL || who->policies == GW_IDENTITY_MAX)
                        return false;
                who->policy[who->policies++] = policy;
        }
        return true;
}

static bool who_add_groups(struct gw_loop *loop, struct gw_who *who)
{
        const struct gw_pairs *groups = &who->user->sets[GW_SET_GROUPS];

        for (unsigned i = 0; i < groups->count; i++) {
                struct gw_entity_name name = {.kind = GW_GROUP};
                const struct gw_policies *policies;
                const struct gw_entity *group;

                strcpy(name.account, who->user->who.account);
                if (strlen(groups->list[i].name) > GW_ENTITY_NAME_MAX)
                        return false;
                strcpy(name.name, groups->list[i].name);
                if (gw_people_policies(loop, &name, &group, &policies) != 0 || !who_add(who, policies) ||
                    !who_add_attached(loop, who, group))
                        return false;
        }
        return true;
}

static bool who_is_root(struct gw_who *who, const char *account, struct s3_str canonical_id)
{
        snprintf(who->arn, sizeof(who->arn), "arn:aws:iam::%s:root", account);
        who->principal = (struct acc_principal){.kind = ACC_ROOT,
                                                .account = s3_str_of(account),
                                                .canonical_id = canonical_id,
                                                .arn = s3_str_of(who->arn),
                                                .user_id = s3_str_of(account)};
        return true;
}

static bool who_is_user(struct gw_loop *loop, struct gw_who *who, const struct gw_entity *key, struct s3_str canonical_id)
{
        struct gw_entity_name name = {.kind = GW_USER};
        const struct gw_policies *own;

        assert(key->who.kind == GW_ACCESS_KEY && key->active);
        strcpy(name.account, key->owner);
        strcpy(name.name, key->who.of);
        if (gw_people_policies(loop, &name, &who->user, &own) != 0 ||
            !gw_entity_arn(who->user, who->arn, sizeof(who->arn)))
                return false;
        who->principal = (struct acc_principal){.kind = ACC_USER,
                                                .bounded = *who->user->boundary != '\0',
                                                .account = s3_str_of(key->owner),
                                                .canonical_id = canonical_id,
                                                .arn = s3_str_of(who->arn),
                                                .user_id = s3_str_of(who->user->id)};
        if (who->principal.bounded && (who->boundary = gw_who_managed(loop, who->user->boundary)) == NULL)
                return false;
        return gw_who_take_policies(loop, who, own) && who_add_groups(loop, who);
}

bool gw_who_take_policies(struct gw_loop *loop, struct gw_who *who, const struct gw_policies *own)
{
        return who_add(who, own) && who_add_attached(loop, who, who->user);
}

bool gw_who_of_key(struct gw_loop *loop, const char *access_key, bool root, struct gw_who *out)
{
        const struct gw_entity *key;
        struct s3_str canonical_id;

        if (root)
                return who_is_root(out, GW_FIRST_ACCOUNT, s3_str_of(loop->gw->owner_id));
        if (gw_people_find_key(loop, access_key, &key) != 0 || !key->active || strcmp(key->who.name, access_key) != 0)
                return false;
        canonical_id = gw_canonical_id(loop, key->owner);
        if (canonical_id.len == 0)
                return false;
        if (key->who.of[0] != '\0')
                return who_is_user(loop, out, key, canonical_id);
        return strcmp(key->owner, GW_FIRST_ACCOUNT) != 0 && who_is_root(out, key->owner, canonical_id);
}

bool gw_who_find(const struct gw_ask *ask, bool root, struct gw_who *out)
{
        assert(ask->loop->lp == lp_self()); /* what is found belongs to the loop */
        out->user = NULL;
        out->policies = 0;
        out->boundary = NULL;
        out->sessions = 0;
        out->temporary = root ? NULL : gw_temporary_of(ask->loop, ask->req, ask->access_key);
        if (ask->access_key == NULL) {
                out->principal = (struct acc_principal){.kind = ACC_ANONYMOUS};
                return true;
        }
        if (out->temporary != NULL)
                return gw_who_of_session(ask->loop, out);
        return gw_who_of_key(ask->loop, ask->access_key, root, out);
}

void gw_who_put(struct gw_who *who)
{
        gw_temporary_put(who->temporary);
}
