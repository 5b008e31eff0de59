/*
 * acl_request.c - see acl_request.h.
 */
#include "gateway/s3/acl_request.h"

#include <errno.h>

#include "gateway/http/permit.h"
#include "gateway/rights/owners.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/public_access.h"

static const struct {
        const char *header;
        enum s3_acl_permission permission;
} grant_headers[] = {
        {"x-amz-grant-read", S3_ACL_READ},
        {"x-amz-grant-write", S3_ACL_WRITE},
        {"x-amz-grant-read-acp", S3_ACL_READ_ACP},
        {"x-amz-grant-write-acp", S3_ACL_WRITE_ACP},
        {"x-amz-grant-full-control", S3_ACL_FULL_CONTROL},
};
#define GRANT_HEADERS (sizeof(grant_headers) / sizeof(grant_headers[0]))

/* ---- ownership ------------------------------------------------------------------------------- */

enum gw_ownership gw_ownership_of(struct eng_store *store, uint64_t bucket)
{
        const struct s3_config *config;
        struct s3_str mode;
        int rv = gw_config_find(store, bucket, GW_TEXT_OWNERSHIP, &config);

        if (rv != 0)
                return rv == -ENODATA ? GW_OBJECT_WRITER : GW_BUCKET_OWNER_ENFORCED;
        mode = s3_config_text_of(config, s3_config_first(config, 0, "Rule"), "ObjectOwnership");
        if (s3_str_eq(mode, S3_STR("ObjectWriter")))
                return GW_OBJECT_WRITER;
        return s3_str_eq(mode, S3_STR("BucketOwnerPreferred")) ? GW_BUCKET_OWNER_PREFERRED : GW_BUCKET_OWNER_ENFORCED;
}

bool gw_takes_acls(struct eng_store *store, uint64_t bucket)
{
        return gw_ownership_of(store, bucket) != GW_BUCKET_OWNER_ENFORCED;
}

bool gw_ignores_public_acls(struct eng_store *store, uint64_t bucket)
{
        return gw_public_access_is(store, bucket, "IgnorePublicAcls");
}

bool gw_blocks_public_acls(struct eng_store *store, uint64_t bucket)
{
        return gw_public_access_is(store, bucket, "BlockPublicAcls");
}

/* ---- accounts -------------------------------------------------------------------------------- */

static bool writer_of(struct gw_request *req, char account[GW_ACCOUNT_ID_LEN + 1])
{
        return gw_account_of(&(struct gw_ask){.loop = req->loop, .access_key = req->access_key, .req = req}, account);
}

void gw_request_owner(struct gw_request *req, char account[GW_ACCOUNT_ID_LEN + 1])
{
        const struct eng_bucket *bucket;

        if (req->bucket.len > 0 && gw_bucket_get(req->loop->gw, req->bucket, &bucket, NULL) == 0)
                gw_bucket_account(bucket, account);
        else
                writer_of(req, account);
}

/* ---- headers --------------------------------------------------------------------------------- */

static bool grants_given(const struct gw_request *req)
{
        for (size_t i = 0; i < GRANT_HEADERS; i++)
                if (gw_header(req, grant_headers[i].header).len > 0)
                        return true;
        return false;
}

bool gw_acl_headers_given(const struct gw_request *req)
{
        return gw_header(req, "x-amz-acl").len > 0 || grants_given(req);
}

static bool acl_refuse(struct gw_request *req, enum s3_error error, const char *message)
{
        gw_reply_error(req, error, message);
        return false;
}

static bool acl_of_grants(struct gw_request *req, struct s3_acl *acl)
{
        struct s3_acl_fault fault = {.message = NULL};

        acl->count = 0;
        for (size_t i = 0; i < GRANT_HEADERS; i++) {
                struct s3_str value = gw_header(req, grant_headers[i].header);
                enum s3_error error = S3_OK;

                if (value.len > 0)
                        error = s3_acl_header(grant_headers[i].header, value, grant_headers[i].permission, acl, &fault);
                if (error == S3_ERR_INVALID_ARGUMENT)
                        gw_reply_argument(req, fault.argument, fault.value, fault.message);
                else if (error != S3_OK)
                        gw_reply_error(req, error, NULL);
                if (error != S3_OK)
                        return false;
        }
        return true;
}

bool gw_acl_of_headers(struct gw_request *req, bool of_bucket, struct s3_acl *acl)
{
        struct s3_str canned = gw_header(req, "x-amz-acl");
        char owner[GW_ACCOUNT_ID_LEN + 1];
        struct s3_acl_owners owners = {.of_bucket = of_bucket};

        if (canned.len > 0 && grants_given(req))
                return acl_refuse(req, S3_ERR_INVALID_REQUEST,
                                  "Specifying both Canned ACLs and Header Grants is not allowed");
        if (canned.len == 0 && grants_given(req))
                return acl_of_grants(req, acl);
        gw_request_owner(req, owner);
        owners.owner = gw_canonical_id(req->loop, acl->owner);
        owners.bucket_owner = of_bucket ? owners.owner : gw_canonical_id(req->loop, owner);
        if (s3_acl_canned(canned.len > 0 ? canned : S3_STR("private"), &owners, acl) == S3_OK)
                return true;
        gw_reply_argument(req, "x-amz-acl", canned, NULL);
        return false;
}

/* ---- a new object ---------------------------------------------------------------------------- */

/* Where the bucket's owner owns all: an ACL may only say so. False: answered. */
static bool acl_says_nothing(struct gw_request *req, const struct s3_acl *acl, const char *owner)
{
        struct s3_str canned = gw_header(req, "x-amz-acl");

        if (canned.len > 0)
                return s3_str_eq(canned, S3_STR("bucket-owner-full-control")) || s3_str_eq(canned, S3_STR("private")) ||
                       acl_refuse(req, S3_ERR_ACL_NOT_SUPPORTED, NULL);
        return s3_acl_is_private(acl, gw_canonical_id(req->loop, owner)) || acl_refuse(req, S3_ERR_ACL_NOT_SUPPORTED, NULL);
}

/* Who owns what this request writes. */
static void owner_of_write(struct gw_request *req, enum gw_ownership mode, char account[GW_ACCOUNT_ID_LEN + 1])
{
        bool gives = s3_str_eq(gw_header(req, "x-amz-acl"), S3_STR("bucket-owner-full-control"));

        if (mode == GW_BUCKET_OWNER_ENFORCED || (mode == GW_BUCKET_OWNER_PREFERRED && gives) || !writer_of(req, account))
                gw_request_owner(req, account);
}

static bool acl_keep(struct gw_request *req, const struct s3_acl *acl, struct eng_str *out)
{
        uint8_t bytes[S3_ACL_BYTES_MAX];
        size_t len = s3_acl_encode(acl, bytes);
        char *kept = gw_copy(req, (struct s3_str){(const char *)bytes, len});

        if (kept == NULL)
                gw_reply_no_memory(req);
        *out = (struct eng_str){kept, len};
        return kept != NULL;
}

bool gw_acl_of_write(struct gw_request *req, struct eng_str *out)
{
        enum gw_ownership mode = gw_ownership_of(req->store, req->bucket_id);
        char bucket_owner[GW_ACCOUNT_ID_LEN + 1];
        struct s3_acl acl;

        *out = (struct eng_str){"", 0};
        if (mode == GW_BUCKET_OWNER_ENFORCED && !gw_acl_headers_given(req))
                return true;
        gw_request_owner(req, bucket_owner);
        acl.owner[0] = '\0';
        owner_of_write(req, mode, acl.owner);
        if (*acl.owner == '\0')
                return acl_refuse(req, S3_ERR_ACCESS_DENIED, NULL);
        if (!gw_acl_of_headers(req, false, &acl))
                return false;
        if (mode == GW_BUCKET_OWNER_ENFORCED)
                return acl_says_nothing(req, &acl, bucket_owner);
        if (s3_acl_is_public(&acl) && gw_blocks_public_acls(req->store, req->bucket_id))
                return acl_refuse(req, S3_ERR_ACCESS_DENIED,
                                  "Access Denied: public ACLs are prevented by the BlockPublicAcls setting in S3 Block "
                                  "Public Access.");
        if (strcmp(acl.owner, bucket_owner) == 0 && s3_acl_is_private(&acl, gw_canonical_id(req->loop, acl.owner)))
                return true;
        return acl_keep(req, &acl, out);
}
