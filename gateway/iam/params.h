/*
 * params.h - parameters of IAM's actions, with AWS's limits. Pure; any thread.
 */
#ifndef GATEWAY_IAM_PARAMS_H
#define GATEWAY_IAM_PARAMS_H

#include <stdint.h>

#include "gateway/iam/iam_form.h"
#include "gateway/people/entity.h"

/* Parameters: name, least and greatest length, which characters (enum iam_pattern). */
#define IAM_PARAMS(X)                                                                                                  \
        X(USER, "UserName", 1, 128, NAME)                                                                              \
        X(NEW_USER, "NewUserName", 1, 64, NAME)                                                                        \
        X(GROUP, "GroupName", 1, 128, NAME)                                                                            \
        X(NEW_GROUP, "NewGroupName", 1, 128, NAME)                                                                     \
        X(ROLE, "RoleName", 1, 64, NAME)                                                                               \
        X(POLICY, "PolicyName", 1, 128, NAME)                                                                          \
        X(ARN, "PolicyArn", 20, 2048, ANY)                                                                             \
        X(BOUNDARY, "PermissionsBoundary", 20, 2048, ANY)                                                              \
        X(PATH, "Path", 1, 512, PATH)                                                                                  \
        X(NEW_PATH, "NewPath", 1, 512, PATH)                                                                           \
        X(PREFIX, "PathPrefix", 1, 512, PREFIX)                                                                        \
        X(DOCUMENT, "PolicyDocument", 1, 131072, LATIN)                                                                \
        X(TRUST, "AssumeRolePolicyDocument", 1, 131072, LATIN)                                                         \
        X(DESCRIPTION, "Description", 0, 1000, LATIN)                                                                  \
        X(KEY, "AccessKeyId", 16, 128, WORD)                                                                           \
        X(STATUS, "Status", 1, 8, STATUS)                                                                              \
        X(VERSION, "VersionId", 2, 16, VERSION)                                                                        \
        X(AS_DEFAULT, "SetAsDefault", 4, 5, BOOL)                                                                      \
        X(SESSION, "MaxSessionDuration", 1, 5, SESSION)                                                                \
        X(SCOPE, "Scope", 1, 5, SCOPE)                                                                                 \
        X(FILTER, "EntityFilter", 1, 18, FILTER)                                                                       \
        X(USAGE, "PolicyUsageFilter", 1, 19, USAGE)                                                                    \
        X(SOURCE, "PolicySourceArn", 20, 2048, ANY)                                                                    \
        X(CALLER, "CallerArn", 1, 2048, ANY)                                                                           \
        X(RESOURCE_POLICY, "ResourcePolicy", 1, 131072, TEXT)                                                          \
        X(RESOURCE_OWNER, "ResourceOwner", 1, 2048, ANY)                                                               \
        X(MARKER, "Marker", 1, 2048, ANY)                                                                              \
        X(MAX_ITEMS, "MaxItems", 1, 4, ITEMS)                                                                          \
        X(DURATION, "DurationSeconds", 1, 6, DURATION)                                                                 \
        X(ROLE_ARN, "RoleArn", 20, 2048, ANY)                                                                          \
        X(SESSION_NAME, "RoleSessionName", 2, 64, NAME)                                                                \
        X(SESSION_POLICY, "Policy", 1, 2048, TEXT)                                                                     \
        X(EXTERNAL_ID, "ExternalId", 2, 1224, EXTERNAL)                                                                \
        X(SOURCE_IDENTITY, "SourceIdentity", 2, 64, NAME)                                                              \
        X(WEB_TOKEN, "WebIdentityToken", 4, 20000, ANY)                                                                \
        X(URL, "Url", 1, 255, ANY)                                                                                     \
        X(PROVIDER, "OpenIDConnectProviderArn", 20, 2048, ANY)                                                         \
        X(CLIENT, "ClientID", 1, 255, TEXT)

enum iam_param {
#define IAM_PARAM_ENUM(id, name, least, most, pattern) IAM_P_##id,
        IAM_PARAMS(IAM_PARAM_ENUM)
#undef IAM_PARAM_ENUM
                IAM_PARAM_COUNT
};
#define IAM_BIT(id) (UINT64_C(1) << IAM_P_##id)
/* Tags.member.N.Key and .Value; TagKeys.member.N */
#define IAM_TAGS     (UINT64_C(1) << IAM_PARAM_COUNT)
#define IAM_TAG_KEYS (UINT64_C(2) << IAM_PARAM_COUNT)
/*
 * Lists that the action itself reads from the form: of the simulations; of GetAccountAuthorizationDetails; of STS; of
 * providers.
 */
#define IAM_SIM_LISTS   (UINT64_C(4) << IAM_PARAM_COUNT)
#define IAM_FILTER_LIST (UINT64_C(8) << IAM_PARAM_COUNT)
#define IAM_STS_LISTS   (UINT64_C(16) << IAM_PARAM_COUNT)
#define IAM_CLIENTS     (UINT64_C(32) << IAM_PARAM_COUNT)
#define IAM_THUMBPRINTS (UINT64_C(64) << IAM_PARAM_COUNT)
/* Keys of its tags differ by case. */
#define IAM_TAGS_EXACT  (UINT64_C(128) << IAM_PARAM_COUNT)
#define IAM_TAGS_MAX     50u
#define IAM_MESSAGE_SIZE 512u /* room for each message of iam_params_take() */

struct iam_params {
        const char *value[IAM_PARAM_COUNT]; /* NULL: not given */
        struct gw_pair tags[IAM_TAGS_MAX];
        const char *tag_keys[IAM_TAGS_MAX];
        unsigned tag_count, tag_key_count;
};

/*
 * Takes what an action has from a form: parameters in `needs` must be there, those in `may` can be. What the action
 * does not know is refused, since it would be ignored otherwise. 0; or why not, with a message: -EINVAL
 * (ValidationError), -EBADMSG (MalformedInput: no number), -EEXIST (InvalidInput: tags that cannot be together).
 */
int iam_params_take(const struct iam_form *form, uint64_t needs, uint64_t may, struct iam_params *out, char *message,
                    size_t size);

/* One value by the table: 0, -EINVAL or -EBADMSG as above. */
int iam_param_check(enum iam_param param, const char *value, char *message, size_t size);

#endif
