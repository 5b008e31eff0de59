/*
 * log_grants.c - see log_grants.h.
 */
#include "gateway/s3/log_grants.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/rights/owners.h"
#include "gateway/s3/acl_request.h"
#include "s3_acl.h"

static uint32_t target_grants(const struct s3_config *config)
{
        return s3_config_first(config, s3_config_first(config, 0, "LoggingEnabled"), "TargetGrants");
}

/* FULL_CONTROL for the target's owner, and what is granted. */
static enum s3_error log_acl(struct gw_loop *loop, const struct s3_config *config, const struct eng_bucket *target,
                             struct s3_acl *acl, struct s3_acl_fault *fault)
{
        gw_bucket_account(target, acl->owner);
        s3_acl_private(gw_canonical_id_of_bucket(loop, s3_str_of(target->name)), acl);
        return s3_acl_grants_of_config(config, target_grants(config), acl, fault);
}

bool gw_log_grants_check(struct gw_request *req, const struct s3_config *config, const struct eng_bucket *target)
{
        struct s3_acl_fault fault = {.message = NULL};
        enum s3_error error;
        struct s3_acl acl;

        if (target_grants(config) == S3_CONFIG_NONE)
                return true;
        if (!gw_takes_acls(target->store, target->id)) {
                gw_reply_error(req, S3_ERR_ACL_NOT_SUPPORTED,
                               "Target grants not allowed for bucket owner enforced buckets");
                return false;
        }
        error = log_acl(req->loop, config, target, &acl, &fault);
        if (error == S3_ERR_INVALID_ARGUMENT)
                gw_reply_argument(req, fault.argument, fault.value, fault.message);
        else if (error != S3_OK)
                gw_reply_error(req, error, fault.message);
        return error == S3_OK;
}

/* Grants to everybody, which BlockPublicAcls of the target forbids. */
static void drop_public_grants(struct s3_acl *acl)
{
        unsigned kept = 0;

        for (unsigned i = 0; i < acl->count; i++)
                if (acl->grant[i].grantee != S3_ACL_ALL_USERS && acl->grant[i].grantee != S3_ACL_AUTHENTICATED)
                        acl->grant[kept++] = acl->grant[i];
        acl->count = kept;
}

int gw_log_grants(struct gw_loop *loop, const struct s3_config *config, const struct eng_bucket *target, uint8_t **out,
                  size_t *len)
{
        struct s3_acl_fault fault;
        struct s3_acl acl;

        *out = NULL;
        *len = 0;
        if (target_grants(config) == S3_CONFIG_NONE || !gw_takes_acls(target->store, target->id))
                return 0;
        if (log_acl(loop, config, target, &acl, &fault) != S3_OK)
                return -EINVAL;
        if (gw_blocks_public_acls(target->store, target->id))
                drop_public_grants(&acl);
        *out = malloc(S3_ACL_BYTES_MAX);
        if (*out == NULL)
                return -ENOMEM;
        *len = s3_acl_encode(&acl, *out);
        return 0;
}
