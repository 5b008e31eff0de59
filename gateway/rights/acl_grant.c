/*
 * acl_grant.c - permissions of ACLs as rights of policies, by the table of S3's user guide ("Mapping
 * of ACL permissions and access policy permissions"). On the loop of whoever asks.
 */
#include "gateway/rights/acl_grant.h"

#include <string.h>

#include "gateway/http/operation.h"
#include "gateway/rights/owners.h"

/* No permission of an ACL grants it, but the object's owner decides. */
#define GRANTS_NOTHING ((enum s3_acl_permission)0)

static const struct acl_right {
        const char *permission;
        enum s3_acl_permission by;
        bool of_object; /* of the object's ACL; else the bucket's */
} acl_rights[] = {
        {"s3:ListBucket", S3_ACL_READ, false},
        {"s3:ListBucketVersions", S3_ACL_READ, false},
        {"s3:ListBucketMultipartUploads", S3_ACL_READ, false},
        {"s3:PutObject", S3_ACL_WRITE, false},
        {"s3:GetBucketAcl", S3_ACL_READ_ACP, false},
        {"s3:PutBucketAcl", S3_ACL_WRITE_ACP, false},
        {"s3:GetObject", S3_ACL_READ, true},
        {"s3:GetObjectVersion", S3_ACL_READ, true},
        {"s3:GetObjectAcl", S3_ACL_READ_ACP, true},
        {"s3:GetObjectVersionAcl", S3_ACL_READ_ACP, true},
        {"s3:GetObjectAttributes", GRANTS_NOTHING, true},
        {"s3:GetObjectVersionAttributes", GRANTS_NOTHING, true},
        {"s3:PutObjectAcl", S3_ACL_WRITE_ACP, true},
        {"s3:PutObjectVersionAcl", S3_ACL_WRITE_ACP, true},
};

/* The ACL that a write gives its new object is the writer's to give. */
static bool acl_of_new_object(const struct gw_ask *ask)
{
        return ask->req != NULL && strcmp(ask->permission, "s3:PutObjectAcl") == 0 &&
               strcmp(ask->req->op->permission, "s3:PutObject") == 0;
}

static const struct acl_right *acl_right_of(const char *permission)
{
        for (size_t i = 0; i < sizeof(acl_rights) / sizeof(acl_rights[0]); i++)
                if (strcmp(acl_rights[i].permission, permission) == 0)
                        return &acl_rights[i];
        return NULL;
}

bool gw_acl_is_of_object(const char *permission)
{
        const struct acl_right *right = acl_right_of(permission);

        return right != NULL && right->of_object;
}

static enum acc_grant acl_grant_of(const struct s3_acl *acl, enum s3_acl_permission wanted, bool ignore_public,
                                   const struct acc_principal *principal)
{
        struct s3_acl_permissions has = s3_acl_look(acl, principal->canonical_id);

        if (!ignore_public && (has.by_all & wanted) != 0)
                return ACC_GRANT_DIRECT;
        if (principal->kind == ACC_ANONYMOUS)
                return ACC_GRANT_NONE;
        if ((has.by_id & wanted) != 0 || (!ignore_public && (has.by_known & wanted) != 0))
                return ACC_GRANT_ACCOUNT;
        return ACC_GRANT_NONE;
}

enum acc_grant gw_acl_grant(const struct gw_ask *ask, const struct eng_bucket *bucket,
                            const struct acc_principal *principal, const struct s3_acl *object)
{
        const struct gw_service *service = ask->loop->gw->service;
        const struct acl_right *right = acl_right_of(acl_of_new_object(ask) ? "s3:PutObject" : ask->permission);
        bool ignore = service->ignores_public_acls == NULL || service->ignores_public_acls(bucket->store, bucket->id);
        const struct s3_acl *acl = object;

        if (right == NULL)
                return ACC_GRANT_NONE;
        if (!right->of_object && gw_bucket_acl_find(bucket->store, bucket->id, &acl) != 0)
                return ACC_GRANT_NONE;
        return acl != NULL ? acl_grant_of(acl, right->by, ignore, principal) : ACC_GRANT_NONE;
}
