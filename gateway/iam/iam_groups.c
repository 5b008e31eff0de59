/*
 * iam_groups.c - IAM's actions about groups and their members. On the request's loop.
 */
#include "gateway/iam/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void iam_run_create_group(struct iam_call *call)
{
        struct gw_entity group = {.created_ms = lp_wall_ms()};

        iam_create_named(call, &group, GW_GROUP, "AGPA");
}

void iam_run_update_group(struct iam_call *call)
{
        const struct gw_entity *group = iam_find(call, GW_GROUP, call->in.value[IAM_P_GROUP]);

        if (group != NULL)
                iam_replace_named(call, group, call->in.value[IAM_P_NEW_GROUP], call->in.value[IAM_P_NEW_PATH]);
}

/* Members are listed as "user/NAME". */
static void member_each(struct iam_call *call, struct s3_xml *xml, const char *name)
{
        const char *slash = strchr(name, '/');
        struct gw_entity_name who = iam_who(call, GW_USER, slash != NULL ? slash + 1 : name);
        const struct gw_entity *user;

        if (gw_people_find(call->req->loop, &who, &user, NULL) == 0)
                iam_show_user(xml, user, "member");
}

void iam_run_get_group(struct iam_call *call)
{
        struct gw_people_query query = {.kind = GW_LIST_MEMBERS};
        const struct gw_entity *group = iam_find(call, GW_GROUP, call->in.value[IAM_P_GROUP]);

        if (group == NULL)
                return;
        snprintf(query.of, sizeof(query.of), "%s", group->who.name);
        call->show = iam_show_who;
        iam_list(call, &query, "Users", member_each);
}

/* The user, to be changed, and the group. NULL: refused. */
static struct gw_entity *edit_member(struct iam_call *call, const struct gw_entity **group)
{
        *group = iam_find(call, GW_GROUP, call->in.value[IAM_P_GROUP]);
        return *group != NULL ? iam_find_edit(call, GW_USER, call->in.value[IAM_P_USER]) : NULL;
}

void iam_run_join(struct iam_call *call)
{
        const struct gw_entity *group;
        struct gw_entity *user = edit_member(call, &group);

        if (user == NULL)
                return;
        if (iam_pair_find(&user->sets[GW_SET_GROUPS], group->who.name) != NULL) {
                iam_answer(call, NULL);
                return;
        }
        iam_pair_put(&user->sets[GW_SET_GROUPS], group->who.name, "", 0);
        iam_replace(call, user, NULL);
}

void iam_run_leave(struct iam_call *call)
{
        const struct gw_entity *group;
        struct gw_entity *user = edit_member(call, &group);
        struct gw_pair *pair = user != NULL ? iam_pair_find(&user->sets[GW_SET_GROUPS], group->who.name) : NULL;

        if (user == NULL)
                return;
        if (pair == NULL) {
                iam_refuse(call, -ENOENT);
                return;
        }
        iam_pair_drop(&user->sets[GW_SET_GROUPS], pair);
        iam_replace(call, user, NULL);
}

static void group_each(struct iam_call *call, struct s3_xml *xml, const struct gw_pair *pair)
{
        struct gw_entity_name who = iam_who(call, GW_GROUP, pair->name);
        const struct gw_entity *group;

        if (gw_people_find(call->req->loop, &who, &group, NULL) == 0)
                iam_show_group(xml, group, "member");
}

static int show_groups_of(struct iam_call *call, struct s3_xml *xml)
{
        const struct gw_entity *user;
        int rv = gw_people_find(call->req->loop, &call->who, &user, NULL);

        if (rv == 0)
                iam_show_set(call, xml, &user->sets[GW_SET_GROUPS], "Groups", group_each);
        return rv;
}

void iam_run_groups_of(struct iam_call *call)
{
        if (iam_find(call, GW_USER, call->in.value[IAM_P_USER]) != NULL)
                iam_answer(call, show_groups_of);
}
