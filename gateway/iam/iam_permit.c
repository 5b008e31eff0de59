/*
 * iam_permit.c - whether whoever asks may do what an action of IAM is about, with the keys of conditions that are
 * IAM's own: tags of what is there, and tags that the request has. On the request's loop; nothing here waits.
 *
 *   aws:ResourceTag/KEY, iam:ResourceTag/KEY   of the user, role, policy or provider that the action is about; what the
 *                                              action makes has none yet
 *   aws:RequestTag/KEY, aws:TagKeys            that a Create... or Tag... gives; of Untag... the keys
 *   iam:PolicyARN                              of the policy that is attached or detached
 *   iam:PermissionsBoundary                    that a Create... or Put...PermissionsBoundary gives; of what else changes
 *                                              policies of a user or role, the one that it has
 */
#include "gateway/iam/call.h"

#include <errno.h>
#include <string.h>

#include "gateway/http/users.h"
#include "gateway/rights/trust.h"

/* In the request's arena: values stay until the decision is made. */
struct iam_keys {
        struct iam_call *call;
        const struct gw_entity *about; /* NULL: it has no tags */
        struct s3_str request_tag[IAM_TAGS_MAX], tag_key[IAM_TAGS_MAX], resource_tag[GW_ENTITY_SET_MAX], one[2];
        char arn[2][IAM_RESOURCE_SIZE];
};

/* What an action makes is not there yet, whoever has the name. */
static bool iam_makes_something(const struct iam_action *action)
{
        return (action->may & IAM_TAGS) != 0;
}

/* What it is now, also where the resource in question is what an Update... makes of it. */
static const struct gw_entity *keys_about(struct iam_call *call)
{
        const struct gw_entity *found;
        char resource[IAM_RESOURCE_SIZE];
        struct gw_entity_name who;

        if (iam_makes_something(call->action) || !iam_resource(call, resource) ||
            gw_entity_of_arn(resource, &who) != 0 || strcmp(who.account, call->account) != 0 ||
            iam_look(call, &who, &found) != 0)
                return NULL;
        return found;
}

/* Always answers: a tag that is not there is absent, not unknown. */
static bool keys_tag_of(const struct gw_pair *tags, unsigned count, struct s3_str name, struct s3_str *room,
                        struct acc_values *out)
{
        *out = (struct acc_values){NULL, 0, ACC_KNOWN};
        for (unsigned i = 0; i < count; i++)
                if (s3_str_eq_nocase(s3_str_of(tags[i].name), name)) {
                        room[i] = s3_str_of(tags[i].text);
                        *out = (struct acc_values){&room[i], 1, ACC_KNOWN};
                        break;
                }
        return true;
}

static bool keys_names(struct iam_keys *keys, struct acc_values *out)
{
        const struct iam_params *in = &keys->call->in;
        unsigned count = 0;

        for (unsigned i = 0; i < in->tag_count; i++)
                keys->tag_key[count++] = s3_str_of(in->tags[i].name);
        for (unsigned i = 0; i < in->tag_key_count && count < IAM_TAGS_MAX; i++)
                keys->tag_key[count++] = s3_str_of(in->tag_keys[i]);
        *out = (struct acc_values){keys->tag_key, count, ACC_KNOWN};
        return true;
}

/* A policy's ARN as it spells itself. "" and NULL: absent. */
static bool keys_arn(struct iam_keys *keys, unsigned place, const char *arn, struct acc_values *out)
{
        *out = (struct acc_values){NULL, 0, ACC_KNOWN};
        if (arn == NULL || *arn == '\0' || !iam_spelled_arn(keys->call, arn, keys->arn[place]))
                return true;
        keys->one[place] = s3_str_of(keys->arn[place]);
        *out = (struct acc_values){&keys->one[place], 1, ACC_KNOWN};
        return true;
}

/* The actions for which AWS lists iam:PolicyARN. */
static bool keys_attaches(const struct iam_action *action)
{
        return action->run == iam_run_attach || action->run == iam_run_detach;
}

/* Those, beside the ones that give a boundary, for which AWS lists iam:PermissionsBoundary. */
static bool keys_bounded(const struct iam_action *action)
{
        return (action->kind == GW_USER || action->kind == GW_ROLE) &&
               (keys_attaches(action) || action->run == iam_run_put_inline || action->run == iam_run_delete_inline ||
                action->run == iam_run_drop_boundary);
}

static bool keys_boundary(struct iam_keys *keys, struct acc_values *out)
{
        const struct iam_call *call = keys->call;
        const char *arn = call->in.value[IAM_P_BOUNDARY];

        if (keys_bounded(call->action))
                arn = keys->about != NULL ? keys->about->boundary : NULL;
        return keys_arn(keys, 1, arn, out);
}

static bool iam_keys_lookup(void *context, const struct acc_key *key, struct acc_values *out)
{
        struct iam_keys *keys = context;
        const struct iam_params *in = &keys->call->in;
        const struct gw_pairs none = {0, NULL}, *tags = keys->about != NULL ? &keys->about->sets[GW_SET_TAGS] : &none;

        switch (key->id) {
        case ACC_KEY_AWS_RESOURCE_TAG:
        case ACC_KEY_IAM_RESOURCE_TAG:
                return keys_tag_of(tags->list, tags->count < GW_ENTITY_SET_MAX ? tags->count : GW_ENTITY_SET_MAX,
                                   key->tag, keys->resource_tag, out);
        case ACC_KEY_AWS_REQUEST_TAG:
                return keys_tag_of(in->tags, in->tag_count, key->tag, keys->request_tag, out);
        case ACC_KEY_AWS_TAG_KEYS:
                return keys_names(keys, out);
        case ACC_KEY_IAM_POLICY_ARN:
                return keys_arn(keys, 0, keys_attaches(keys->call->action) ? in->value[IAM_P_ARN] : NULL, out);
        case ACC_KEY_IAM_PERMISSIONS_BOUNDARY:
                return keys_boundary(keys, out);
        default:
                return false;
        }
}

/* Root of the settings, and a store that is read-only, are the gate's to answer. */
static bool is_the_gates(const struct gw_ask *ask)
{
        return gw_credentials_find(ask->loop, ask->access_key) != NULL ||
               (atomic_load(&ask->loop->gw->read_only) && gw_changes(ask->permission));
}

int iam_permitted(struct iam_call *call, const char *permission, const char *resource, char *why)
{
        struct gw_request *req = call->req;
        struct gw_ask ask = {.loop = req->loop,
                             .access_key = req->access_key,
                             .req = req,
                             .permission = permission,
                             .resource = s3_str_of(resource)};
        struct iam_keys *keys;
        struct gw_trust trust;

        if (is_the_gates(&ask))
                return gw_permit(&ask, why) ? 0 : -EACCES;
        keys = gw_alloc(req, sizeof(*keys));
        if (keys == NULL)
                return -ENOMEM;
        keys->call = call;
        keys->about = keys_about(call);
        trust = (struct gw_trust){.account = s3_str_of(call->account), .more = iam_keys_lookup, .more_context = keys};
        return gw_rights_trust(&ask, &trust, why) ? 0 : -EACCES;
}
