/*
 * Condition keys that some actions of S3 have and others lack, as the Service Authorization Reference
 * lists them. Called when somebody sets a bucket policy; pure; rule A25.
 */
#include "compiled.h"

static const char *const listings[] = {"s3:listbucket", "s3:listbucketversions", NULL};
static const char *const acl_puts[] = {"s3:createbucket", "s3:putbucketacl",        "s3:putobject",
                                       "s3:putobjectacl", "s3:putobjectversionacl", NULL};
/* Those of versions, and those of a retention, hold or state that any version may be named for. */
static const char *const of_versions[] = {
        "s3:bypassgovernanceretention",
        "s3:deleteobjectversion",
        "s3:deleteobjectversiontagging",
        "s3:getobjectlegalhold",
        "s3:getobjectretention",
        "s3:getobjectversion",
        "s3:getobjectversionacl",
        "s3:getobjectversionattributes",
        "s3:getobjectversionforreplication",
        "s3:getobjectversiontagging",
        "s3:getobjectversiontorrent",
        "s3:putobjectlegalhold",
        "s3:putobjectretention",
        "s3:putobjectversionacl",
        "s3:putobjectversiontagging",
        "s3:restoreobject",
        "s3:updateobjectencryption",
        NULL,
};

/* Every other key is taken for one that all actions have. */
static const struct {
        enum acc_key_id key;
        const char *const *actions; /* in lower case, up to NULL */
} keys_of_some[] = {
        {ACC_KEY_S3_PREFIX, listings},
        {ACC_KEY_S3_DELIMITER, listings},
        {ACC_KEY_S3_MAX_KEYS, listings},
        {ACC_KEY_S3_ACL, acl_puts},
        {ACC_KEY_S3_GRANT_READ, acl_puts},
        {ACC_KEY_S3_GRANT_WRITE, acl_puts},
        {ACC_KEY_S3_GRANT_READ_ACP, acl_puts},
        {ACC_KEY_S3_GRANT_WRITE_ACP, acl_puts},
        {ACC_KEY_S3_GRANT_FULL_CONTROL, acl_puts},
        {ACC_KEY_S3_VERSION_ID, of_versions},
};

static bool lists_action(const char *const *actions, struct s3_str action)
{
        for (; *actions != NULL; actions++)
                if (s3_str_eq(action, s3_str_of(*actions)))
                        return true;
        return false;
}

/* An action with a wildcard may be any. */
static bool action_has_key(const struct acc_pattern *action, enum acc_key_id key)
{
        if (action->count != 1 || action->pieces[0].kind != ACC_PIECE_TEXT)
                return true;
        for (size_t i = 0; i < LENGTH(keys_of_some); i++)
                if (keys_of_some[i].key == key)
                        return lists_action(keys_of_some[i].actions, action->pieces[0].text);
        return true;
}

static bool conditions_apply(const struct acc_statement *statement)
{
        for (unsigned i = 0; i < statement->conditions; i++)
                for (unsigned n = 0; n < statement->actions; n++)
                        if (!action_has_key(&statement->action[n], statement->condition[i].key.id))
                                return false;
        return true;
}

bool acc_policy_conditions_apply(const struct acc_policy *policy)
{
        for (unsigned i = 0; i < policy->count; i++)
                if (!policy->statements[i].not_action && !conditions_apply(&policy->statements[i]))
                        return false;
        return true;
}
