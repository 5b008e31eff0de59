/*
 * iam_resource.c - which resource an action is about, as policies name it. On the request's loop.
 *
 * An entity that is not there yet, or any more, has the ARN that it would have: what a policy says
 * about a name holds before there is anybody of that name.
 */
#include "gateway/iam/call.h"

#include <stdio.h>
#include <string.h>

/* Of two names in a form the group's counts: who is in it is the group's affair. */
static unsigned resource_kind(const struct iam_call *call)
{
        const uint64_t both = IAM_BIT(USER) | IAM_BIT(GROUP);

        return (call->action->needs & both) == both ? GW_GROUP : call->action->kind;
}

/*
 * NULL: it is about all entities of the kind. A key without a user's name is one of whoever asks, but where no name
 * can be given: then it is its user's.
 */
static const char *resource_name(struct iam_call *call, unsigned kind)
{
        const uint64_t named = kind == GW_USER    ? IAM_BIT(USER) | IAM_BIT(KEY)
                               : kind == GW_GROUP ? IAM_BIT(GROUP)
                               : kind == GW_ROLE  ? IAM_BIT(ROLE)
                                                  : IAM_BIT(POLICY);
        const struct gw_entity *key;

        if (((call->action->needs | call->action->may) & named) == 0)
                return NULL;
        if (kind == GW_USER && (call->action->may & IAM_BIT(USER)) == 0 && call->in.value[IAM_P_KEY] != NULL &&
            gw_people_find_key(call->req->loop, call->in.value[IAM_P_KEY], &key) == 0 &&
            strcmp(key->owner, call->account) == 0)
                return key->who.of;
        return iam_name(call, kind);
}

static const char *resource_word(unsigned kind)
{
        return kind == GW_USER     ? "user"
               : kind == GW_GROUP  ? "group"
               : kind == GW_ROLE   ? "role"
               : kind == GW_POLICY ? "policy"
                                   : "oidc-provider";
}

/* As its entity spells it: an ARN in other letters finds it, too, and a Deny of a policy is to hold all the same. */
bool iam_spelled_arn(struct iam_call *call, const char *arn, char out[IAM_RESOURCE_SIZE])
{
        const struct gw_entity *found;

        if (iam_look_arn(call, arn, &found) == 0 && gw_entity_arn(found, out, IAM_RESOURCE_SIZE))
                return true;
        return snprintf(out, IAM_RESOURCE_SIZE, "%s", arn) < (int)IAM_RESOURCE_SIZE;
}

bool iam_resource(struct iam_call *call, char out[IAM_RESOURCE_SIZE])
{
        unsigned kind = resource_kind(call);
        const struct gw_entity *found = NULL;
        struct gw_entity entity = {.path = "/"};
        const char *name;

        if (kind == 0) /* the whole account, or what the action says */
                return iam_spelled_arn(call, call->in.value[IAM_P_SOURCE] != NULL ? call->in.value[IAM_P_SOURCE] : "*",
                                       out);
        if (kind == GW_POLICY && call->in.value[IAM_P_ARN] != NULL)
                return iam_spelled_arn(call, call->in.value[IAM_P_ARN], out);
        if (kind == GW_PROVIDER && call->in.value[IAM_P_PROVIDER] != NULL)
                return iam_spelled_arn(call, call->in.value[IAM_P_PROVIDER], out);
        if (kind == GW_PROVIDER && call->in.value[IAM_P_URL] != NULL) {
                snprintf(out, IAM_RESOURCE_SIZE, "arn:aws:iam::%s:oidc-provider/%s", call->account,
                         gw_provider_place(call->in.value[IAM_P_URL]));
                return true;
        }
        name = kind != GW_PROVIDER ? resource_name(call, kind) : NULL;
        if (name == NULL) {
                snprintf(out, IAM_RESOURCE_SIZE, "arn:aws:iam::%s:%s/", call->account, resource_word(kind));
                return true;
        }
        if (*name == '\0') {
                snprintf(out, IAM_RESOURCE_SIZE, "arn:aws:iam::%s:root", call->account);
                return true;
        }
        entity.who = iam_who(call, kind, name);
        if (iam_look(call, &entity.who, &found) != 0) {
                found = NULL;
                entity.path = call->in.value[IAM_P_PATH] != NULL ? call->in.value[IAM_P_PATH] : "/";
        }
        return gw_entity_arn(found != NULL ? found : &entity, out, IAM_RESOURCE_SIZE);
}

bool iam_new_resource(struct iam_call *call, char out[IAM_RESOURCE_SIZE])
{
        const char *path = call->in.value[IAM_P_NEW_PATH],
                   *name = call->in.value[call->action->kind == GW_USER ? IAM_P_NEW_USER : IAM_P_NEW_GROUP];
        struct gw_entity entity = {.who = iam_who(call, call->action->kind, iam_name(call, call->action->kind)),
                                   .path = "/"};
        const struct gw_entity *found;

        if (iam_look(call, &entity.who, &found) == 0)
                entity.path = found->path;
        if (name != NULL)
                snprintf(entity.who.name, sizeof(entity.who.name), "%s", name);
        if (path != NULL)
                entity.path = path;
        return gw_entity_arn(&entity, out, IAM_RESOURCE_SIZE);
}
