/*
 * Decides whether a statement with Principal or NotPrincipal is about a principal. Called for each
 * request; pure; rules A10 to A13.
 */
#include "compiled.h"

/* A bound name means who has its id: a user, or sessions of a role. Of a federated user only the ARN is known. */
static enum acc_grant bound_level(const struct acc_name *name, const struct acc_principal *principal)
{
        struct s3_str id = principal->user_id;

        if (principal->kind == ACC_USER)
                return s3_str_eq(id, name->id) ? ACC_GRANT_DIRECT : ACC_GRANT_NONE;
        if (principal->kind == ACC_ASSUMED_ROLE)
                return s3_str_starts(id, name->id) && id.len > name->id.len && id.data[name->id.len] == ':'
                               ? ACC_GRANT_PARENT
                               : ACC_GRANT_NONE;
        return principal->kind == ACC_FEDERATED_USER && principal->parent_arn.len > 0 &&
                               s3_str_eq(name->text, principal->parent_arn)
                       ? ACC_GRANT_PARENT
                       : ACC_GRANT_NONE;
}

/* How a name means the principal: the levels at which it can be named. */
static enum acc_grant name_level(const struct acc_name *name, const struct acc_principal *principal)
{
        switch (name->kind) {
        case ACC_NAME_EVERYONE:
                return ACC_GRANT_DIRECT;
        case ACC_NAME_ANY_AWS:
                return principal->kind != ACC_SERVICE && principal->kind != ACC_WEB_IDENTITY ? ACC_GRANT_DIRECT
                                                                                             : ACC_GRANT_NONE;
        case ACC_NAME_ACCOUNT:
                return principal->account.len > 0 && s3_str_eq(name->text, principal->account) ? ACC_GRANT_ACCOUNT
                                                                                               : ACC_GRANT_NONE;
        case ACC_NAME_CANONICAL:
                return principal->canonical_id.len > 0 && s3_str_eq(name->text, principal->canonical_id)
                               ? ACC_GRANT_ACCOUNT
                               : ACC_GRANT_NONE;
        case ACC_NAME_ARN:
                if (name->id.len > 0)
                        return bound_level(name, principal);
                if (principal->arn.len > 0 && s3_str_eq(name->text, principal->arn))
                        return ACC_GRANT_DIRECT;
                return principal->parent_arn.len > 0 && s3_str_eq(name->text, principal->parent_arn) ? ACC_GRANT_PARENT
                                                                                                     : ACC_GRANT_NONE;
        case ACC_NAME_FEDERATED:
                return principal->kind == ACC_WEB_IDENTITY && s3_str_eq(name->text, principal->name) ? ACC_GRANT_DIRECT
                                                                                                     : ACC_GRANT_NONE;
        case ACC_NAME_SERVICE:
                return principal->kind == ACC_SERVICE && s3_str_eq(name->text, principal->name) ? ACC_GRANT_DIRECT
                                                                                                : ACC_GRANT_NONE;
        }
        return ACC_GRANT_NONE;
}

/* The levels that a principal has, as bits by enum acc_grant. */
static unsigned principal_levels(const struct acc_principal *principal)
{
        switch (principal->kind) {
        case ACC_ROOT:
                return 1u << ACC_GRANT_ACCOUNT;
        case ACC_USER:
                return 1u << ACC_GRANT_ACCOUNT | 1u << ACC_GRANT_DIRECT;
        case ACC_ASSUMED_ROLE:
        case ACC_FEDERATED_USER:
                return 1u << ACC_GRANT_ACCOUNT | 1u << ACC_GRANT_PARENT | 1u << ACC_GRANT_DIRECT;
        default:
                return 1u << ACC_GRANT_DIRECT;
        }
}

/*
 * A NotPrincipal that denies spares only those whose every level it lists, and nobody who has a
 * permissions boundary; one that allows leaves out whoever is listed at any level (A12).
 */
static bool spared(const struct acc_statement *statement, const struct acc_principal *principal, unsigned listed,
                   bool everyone)
{
        unsigned levels = principal_levels(principal);

        if (everyone)
                return true;
        if (!statement->deny)
                return listed != 0;
        return !principal->bounded && (listed & levels) == levels;
}

enum acc_grant acc_names_match(const struct acc_statement *statement, const struct acc_principal *principal)
{
        enum acc_grant strongest = ACC_GRANT_NONE;
        bool everyone = false;
        unsigned listed = 0;

        for (size_t i = 0; i < statement->names; i++) {
                enum acc_grant level = name_level(&statement->name[i], principal);

                if (level == ACC_GRANT_NONE)
                        continue;
                everyone |= statement->name[i].kind <= ACC_NAME_ANY_AWS;
                listed |= 1u << level;
                strongest = level > strongest ? level : strongest;
        }
        if (!statement->not_principal)
                return strongest;
        return spared(statement, principal, listed, everyone) ? ACC_GRANT_NONE : ACC_GRANT_DIRECT;
}
