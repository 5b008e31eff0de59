/*
 * iam_actions.c - the table of actions of IAM and STS: what each is about, its parameters, its function.
 * Pure; any thread.
 */
#include "gateway/iam/call.h"

#include <string.h>

#define B(id)  IAM_BIT(id)
#define B_PAGE (B(MARKER) | B(MAX_ITEMS))
#define B_LIST (B_PAGE | B(PREFIX))

/* name, kind, parameters that must be there, parameters that may be, function */
const struct iam_action iam_actions[] = {
        {"CreateUser", GW_USER, B(USER), B(PATH) | B(BOUNDARY) | IAM_TAGS, iam_run_create_user},
        {"GetUser", GW_USER, 0, B(USER), iam_run_get},
        {"ListUsers", GW_USER, 0, B_LIST, iam_run_list},
        {"UpdateUser", GW_USER, B(USER), B(NEW_USER) | B(NEW_PATH), iam_run_update_user},
        {"DeleteUser", GW_USER, B(USER), 0, iam_run_delete},

        {"CreateAccessKey", GW_USER, 0, B(USER), iam_run_create_key},
        {"ListAccessKeys", GW_USER, 0, B(USER) | B_PAGE, iam_run_list_keys},
        {"UpdateAccessKey", GW_USER, B(KEY) | B(STATUS), B(USER), iam_run_update_key},
        {"DeleteAccessKey", GW_USER, B(KEY), B(USER), iam_run_delete_key},
        {"GetAccessKeyLastUsed", GW_USER, B(KEY), 0, iam_run_key_used},

        {"CreateGroup", GW_GROUP, B(GROUP), B(PATH), iam_run_create_group},
        {"GetGroup", GW_GROUP, B(GROUP), B_PAGE, iam_run_get_group},
        {"ListGroups", GW_GROUP, 0, B_LIST, iam_run_list},
        {"UpdateGroup", GW_GROUP, B(GROUP), B(NEW_GROUP) | B(NEW_PATH), iam_run_update_group},
        {"DeleteGroup", GW_GROUP, B(GROUP), 0, iam_run_delete},
        {"AddUserToGroup", GW_USER, B(GROUP) | B(USER), 0, iam_run_join},
        {"RemoveUserFromGroup", GW_USER, B(GROUP) | B(USER), 0, iam_run_leave},
        {"ListGroupsForUser", GW_USER, B(USER), B_PAGE, iam_run_groups_of},

        {"CreatePolicy", GW_POLICY, B(POLICY) | B(DOCUMENT), B(PATH) | B(DESCRIPTION) | IAM_TAGS,
         iam_run_create_policy},
        {"GetPolicy", GW_POLICY, B(ARN), 0, iam_run_get},
        {"ListPolicies", GW_POLICY, 0, B_LIST | B(SCOPE), iam_run_list_policies},
        {"DeletePolicy", GW_POLICY, B(ARN), 0, iam_run_delete},
        {"GetPolicyVersion", GW_POLICY, B(ARN) | B(VERSION), 0, iam_run_get_version},
        {"CreatePolicyVersion", GW_POLICY, B(ARN) | B(DOCUMENT), B(AS_DEFAULT), iam_run_create_version},
        {"SetDefaultPolicyVersion", GW_POLICY, B(ARN) | B(VERSION), 0, iam_run_default_version},
        {"DeletePolicyVersion", GW_POLICY, B(ARN) | B(VERSION), 0, iam_run_delete_version},
        {"ListPolicyVersions", GW_POLICY, B(ARN), B_PAGE, iam_run_list_versions},
        {"ListEntitiesForPolicy", GW_POLICY, B(ARN), B_PAGE | B(FILTER) | B(USAGE), iam_run_entities_of},

        {"AttachUserPolicy", GW_USER, B(USER) | B(ARN), 0, iam_run_attach},
        {"AttachGroupPolicy", GW_GROUP, B(GROUP) | B(ARN), 0, iam_run_attach},
        {"AttachRolePolicy", GW_ROLE, B(ROLE) | B(ARN), 0, iam_run_attach},
        {"DetachUserPolicy", GW_USER, B(USER) | B(ARN), 0, iam_run_detach},
        {"DetachGroupPolicy", GW_GROUP, B(GROUP) | B(ARN), 0, iam_run_detach},
        {"DetachRolePolicy", GW_ROLE, B(ROLE) | B(ARN), 0, iam_run_detach},
        {"ListAttachedUserPolicies", GW_USER, B(USER), B_LIST, iam_run_list_attached},
        {"ListAttachedGroupPolicies", GW_GROUP, B(GROUP), B_LIST, iam_run_list_attached},
        {"ListAttachedRolePolicies", GW_ROLE, B(ROLE), B_LIST, iam_run_list_attached},

        {"PutUserPolicy", GW_USER, B(USER) | B(POLICY) | B(DOCUMENT), 0, iam_run_put_inline},
        {"PutGroupPolicy", GW_GROUP, B(GROUP) | B(POLICY) | B(DOCUMENT), 0, iam_run_put_inline},
        {"PutRolePolicy", GW_ROLE, B(ROLE) | B(POLICY) | B(DOCUMENT), 0, iam_run_put_inline},
        {"GetUserPolicy", GW_USER, B(USER) | B(POLICY), 0, iam_run_get_inline},
        {"GetGroupPolicy", GW_GROUP, B(GROUP) | B(POLICY), 0, iam_run_get_inline},
        {"GetRolePolicy", GW_ROLE, B(ROLE) | B(POLICY), 0, iam_run_get_inline},
        {"DeleteUserPolicy", GW_USER, B(USER) | B(POLICY), 0, iam_run_delete_inline},
        {"DeleteGroupPolicy", GW_GROUP, B(GROUP) | B(POLICY), 0, iam_run_delete_inline},
        {"DeleteRolePolicy", GW_ROLE, B(ROLE) | B(POLICY), 0, iam_run_delete_inline},
        {"ListUserPolicies", GW_USER, B(USER), B_PAGE, iam_run_list_inline},
        {"ListGroupPolicies", GW_GROUP, B(GROUP), B_PAGE, iam_run_list_inline},
        {"ListRolePolicies", GW_ROLE, B(ROLE), B_PAGE, iam_run_list_inline},

        {"CreateRole", GW_ROLE, B(ROLE) | B(TRUST), B(PATH) | B(DESCRIPTION) | B(SESSION) | B(BOUNDARY) | IAM_TAGS,
         iam_run_create_role},
        {"GetRole", GW_ROLE, B(ROLE), 0, iam_run_get},
        {"ListRoles", GW_ROLE, 0, B_LIST, iam_run_list},
        {"DeleteRole", GW_ROLE, B(ROLE), 0, iam_run_delete},
        {"UpdateRole", GW_ROLE, B(ROLE), B(DESCRIPTION) | B(SESSION), iam_run_update_role},
        {"UpdateAssumeRolePolicy", GW_ROLE, B(ROLE) | B(DOCUMENT), 0, iam_run_update_trust},

        {"SimulatePrincipalPolicy", 0, B(SOURCE), B_PAGE | B(CALLER) | B(RESOURCE_POLICY) | B(RESOURCE_OWNER) | IAM_SIM_LISTS,
         iam_run_simulate},
        {"SimulateCustomPolicy", 0, 0, B_PAGE | B(CALLER) | B(RESOURCE_POLICY) | B(RESOURCE_OWNER) | IAM_SIM_LISTS,
         iam_run_simulate},
        {"GetAccountSummary", 0, 0, 0, iam_run_summary},
        {"GetAccountAuthorizationDetails", 0, 0, B_PAGE | IAM_FILTER_LIST, iam_run_details},
        {"ListAccountAliases", 0, 0, B_PAGE, iam_run_aliases},

        {"PutUserPermissionsBoundary", GW_USER, B(USER) | B(BOUNDARY), 0, iam_run_put_boundary},
        {"PutRolePermissionsBoundary", GW_ROLE, B(ROLE) | B(BOUNDARY), 0, iam_run_put_boundary},
        {"DeleteUserPermissionsBoundary", GW_USER, B(USER), 0, iam_run_drop_boundary},
        {"DeleteRolePermissionsBoundary", GW_ROLE, B(ROLE), 0, iam_run_drop_boundary},

        {"TagUser", GW_USER, B(USER) | IAM_TAGS, 0, iam_run_tag},
        {"TagRole", GW_ROLE, B(ROLE) | IAM_TAGS, 0, iam_run_tag},
        {"TagPolicy", GW_POLICY, B(ARN) | IAM_TAGS, 0, iam_run_tag},
        {"UntagUser", GW_USER, B(USER) | IAM_TAG_KEYS, 0, iam_run_untag},
        {"UntagRole", GW_ROLE, B(ROLE) | IAM_TAG_KEYS, 0, iam_run_untag},
        {"UntagPolicy", GW_POLICY, B(ARN) | IAM_TAG_KEYS, 0, iam_run_untag},
        {"ListUserTags", GW_USER, B(USER), B_PAGE, iam_run_list_tags},
        {"ListRoleTags", GW_ROLE, B(ROLE), B_PAGE, iam_run_list_tags},
        {"ListPolicyTags", GW_POLICY, B(ARN), B_PAGE, iam_run_list_tags},

        {"CreateOpenIDConnectProvider", GW_PROVIDER, B(URL), IAM_CLIENTS | IAM_THUMBPRINTS | IAM_TAGS | IAM_TAGS_EXACT,
         iam_run_create_provider},
        {"GetOpenIDConnectProvider", GW_PROVIDER, B(PROVIDER), 0, iam_run_get_provider},
        {"ListOpenIDConnectProviders", GW_PROVIDER, 0, 0, iam_run_list_providers},
        {"DeleteOpenIDConnectProvider", GW_PROVIDER, B(PROVIDER), 0, iam_run_delete},
        {"AddClientIDToOpenIDConnectProvider", GW_PROVIDER, B(PROVIDER) | B(CLIENT), 0, iam_run_add_client},
        {"RemoveClientIDFromOpenIDConnectProvider", GW_PROVIDER, B(PROVIDER) | B(CLIENT), 0, iam_run_remove_client},
        {"UpdateOpenIDConnectProviderThumbprint", GW_PROVIDER, B(PROVIDER), IAM_THUMBPRINTS, iam_run_thumbprints},
        {"TagOpenIDConnectProvider", GW_PROVIDER, B(PROVIDER) | IAM_TAGS, IAM_TAGS_EXACT, iam_run_tag},
        {"UntagOpenIDConnectProvider", GW_PROVIDER, B(PROVIDER) | IAM_TAG_KEYS, 0, iam_run_untag},
        {"ListOpenIDConnectProviderTags", GW_PROVIDER, B(PROVIDER), B_PAGE, iam_run_list_tags},
};
const unsigned iam_action_count = sizeof(iam_actions) / sizeof(iam_actions[0]);

static const struct iam_action sts_actions[] = {
        {"AssumeRole", 0, B(ROLE_ARN) | B(SESSION_NAME),
         B(DURATION) | B(SESSION_POLICY) | B(EXTERNAL_ID) | B(SOURCE_IDENTITY) | IAM_TAGS | IAM_STS_LISTS,
         iam_run_assume_role},
        {"AssumeRoleWithWebIdentity", 0, B(ROLE_ARN) | B(SESSION_NAME) | B(WEB_TOKEN),
         B(DURATION) | B(SESSION_POLICY) | IAM_STS_LISTS, iam_run_web_identity},
        {"GetCallerIdentity", 0, 0, 0, iam_run_identity},
        {"GetSessionToken", 0, 0, B(DURATION), iam_run_session_token},
};

static const struct iam_action *action_among(const struct iam_action *actions, unsigned count, const char *name)
{
        for (unsigned i = 0; i < count; i++)
                if (strcmp(actions[i].name, name) == 0)
                        return &actions[i];
        return NULL;
}

const struct iam_action *iam_action_find(const char *name, bool sts)
{
        if (sts)
                return action_among(sts_actions, sizeof(sts_actions) / sizeof(sts_actions[0]), name);
        return action_among(iam_actions, iam_action_count, name);
}
