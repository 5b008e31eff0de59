/*
 * text_rows.c - the table of sub-resources of buckets that are kept as texts, and what single ones
 * of them have beside their document. On the request's loop.
 *
 * A sub-resource is a row here, a table of elements in s3/, and its rows in route.c.
 */
#include <errno.h>

#include "gateway/rights/owners.h"
#include "gateway/s3/acl_request.h"
#include "gateway/s3/bucket_texts.h"
#include "gateway/s3/handlers.h"
#include "gateway/s3/log_grants.h"
#include "s3_inventory.h"

/* ---- tags ------------------------------------------------------------------------------------ */

static void tagging_write(struct s3_xml *xml, const struct s3_doc *doc)
{
        s3_tags_write(xml, &doc->tags);
}

/* ---- lifecycle rules ------------------------------------------------------------------------- */

/*
 * The least size of what transitions. There are no transitions, so nothing depends on it; but clients
 * wait until it is as they have set it. It is always what AWS takes by default.
 */
static const char minimum_size_name[] = "x-amz-transition-default-minimum-object-size";
static const char minimum_size_value[] = "all_storage_classes_128K";
#define NO_TRANSITIONS "Objects are not moved between storage classes: rules cannot have transitions."

static void minimum_size_header(struct gw_request *req)
{
        gw_reply_header(req, minimum_size_name, minimum_size_value);
}

static bool minimum_size_is_known(struct gw_request *req)
{
        struct s3_str given = gw_header(req, minimum_size_name);

        if (given.len == 0 || s3_str_eq(given, s3_str_of(minimum_size_value)))
                return true;
        if (s3_str_eq(given, S3_STR("varies_by_storage_class")))
                gw_reply_error(req, S3_ERR_NOT_IMPLEMENTED, NO_TRANSITIONS);
        else
                gw_reply_error(req, S3_ERR_INVALID_ARGUMENT, NULL);
        return false;
}

static bool lifecycle_check(struct gw_request *req, const struct s3_doc *doc)
{
        if (!doc->lifecycle->transition)
                return true;
        gw_reply_error(req, S3_ERR_NOT_IMPLEMENTED, NO_TRANSITIONS);
        return false;
}

static void lifecycle_write(struct s3_xml *xml, const struct s3_doc *doc)
{
        s3_lifecycle_write(xml, doc->lifecycle);
}

/* ---- logging --------------------------------------------------------------------------------- */

static bool logging_is_none(const struct s3_doc *doc)
{
        return s3_config_first(doc->config, 0, "LoggingEnabled") == S3_CONFIG_NONE;
}

/* The bucket that the logs go to is there, has the same owner and no object lock, as AWS wants it. */
static bool logging_check(struct gw_request *req, const struct s3_doc *doc)
{
        uint32_t enabled = s3_config_first(doc->config, 0, "LoggingEnabled");
        const struct eng_bucket *target;
        struct s3_str name;
        int rv;

        if (enabled == S3_CONFIG_NONE)
                return true;
        name = s3_config_text_of(doc->config, enabled, "TargetBucket");
        rv = gw_bucket_get(req->loop->gw, name, &target, NULL);
        if (rv == -EHOSTDOWN) {
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
                return false;
        }
        if (rv != 0 || target->rules.lock ||
            !gw_same_owner(req->loop, target, req->bucket)) {
                gw_reply_error_extra(req, S3_ERR_INVALID_TARGET_BUCKET, NULL,
                                     gw_detail(req, "TargetBucket", name, NULL, (struct s3_str){NULL, 0}));
                return false;
        }
        return gw_log_grants_check(req, doc->config, target);
}

/* ---- accelerate ------------------------------------------------------------------------------ */

static bool accelerate_check(struct gw_request *req, const struct s3_doc *doc)
{
        if (memchr(req->bucket.data, '.', req->bucket.len) == NULL)
                return true;
        gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                       "S3 Transfer Acceleration is not supported for buckets with periods (.) in their names");
        return false;
}

/* ---- ownership ------------------------------------------------------------------------------- */

/* The bucket's ACL is the owner's alone before it counts for nothing. */
static bool ownership_check(struct gw_request *req, const struct s3_doc *doc)
{
        struct s3_str mode = s3_config_text_of(doc->config, s3_config_first(doc->config, 0, "Rule"), "ObjectOwnership");
        const struct s3_acl *acl;

        if (!s3_str_eq(mode, S3_STR("BucketOwnerEnforced")) ||
            gw_bucket_acl_find(req->store, req->bucket_id, &acl) == -ENOENT)
                return true;
        gw_reply_error(req, S3_ERR_INVALID_BUCKET_ACL, NULL);
        return false;
}

/* ---- inventory ------------------------------------------------------------------------------- */

/*
 * A pool's leader writes the reports of the pool's buckets, and reaches no other pool. That the destination is elsewhere is told
 * when it is there already; what is made later is counted as refused.
 */
static bool inventory_pool_check(struct gw_request *req, const struct s3_inventory *inventory)
{
        const struct eng_bucket *destination;
        int rv = gw_bucket_get(req->loop->gw, inventory->bucket, &destination, NULL);

        if (rv == -EHOSTDOWN) {
                gw_reply_errno(req, rv, GW_ABOUT_BUCKET);
                return false;
        }
        if (rv != 0 || destination->store == req->store)
                return true;
        gw_reply_error(req, S3_ERR_INVALID_REQUEST,
                       "The destination bucket is in another pool of this cluster than the bucket that is listed. Name a bucket "
                       "of the same pool, for example the listed bucket itself.");
        return false;
}

static bool inventory_check(struct gw_request *req, const struct s3_doc *doc)
{
        struct s3_inventory inventory;

        if (s3_inventory_read(doc->config, &inventory) == 0)
                return inventory_pool_check(req, &inventory);
        gw_reply_error(req, S3_ERR_NOT_IMPLEMENTED,
                       "Inventory reports are written as CSV, without ObjectAccessControlList and LifecycleExpirationDate.");
        return false;
}

/* ---- the table ------------------------------------------------------------------------------- */

static const struct gw_text_row text_rows[] = {
        {.sub = "tagging",
         .kind = GW_TEXT_TAGGING,
         .doc = S3_DOC_BUCKET_TAGGING,
         .absent = S3_ERR_NO_SUCH_TAG_SET,
         .status = 204,
         .write = tagging_write},
        {.sub = "lifecycle",
         .kind = GW_TEXT_LIFECYCLE,
         .doc = S3_DOC_LIFECYCLE,
         .absent = S3_ERR_NO_SUCH_LIFECYCLE,
         .status = 200,
         .summed = true,
         .begin = minimum_size_is_known,
         .check = lifecycle_check,
         .write = lifecycle_write,
         .headers = minimum_size_header},
        {.sub = "cors",
         .kind = GW_TEXT_CORS,
         .doc = S3_DOC_CORS,
         .absent = S3_ERR_NO_SUCH_CORS,
         .status = 200,
         .summed = true},
        {.sub = "website",
         .kind = GW_TEXT_WEBSITE,
         .doc = S3_DOC_WEBSITE,
         .absent = S3_ERR_NO_SUCH_WEBSITE,
         .status = 200},
        {.sub = "logging",
         .kind = GW_TEXT_LOGGING,
         .doc = S3_DOC_LOGGING,
         .root = "BucketLoggingStatus",
         .content = "",
         .status = 200,
         .check = logging_check,
         .is_none = logging_is_none},
        /* As every new bucket of S3: the owner owns all, and ACLs count for nothing. */
        {.sub = "ownershipControls",
         .kind = GW_TEXT_OWNERSHIP,
         .doc = S3_DOC_OWNERSHIP,
         .absent = S3_ERR_NO_SUCH_OWNERSHIP,
         .root = "OwnershipControls",
         .content = "<Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule>",
         .status = 200,
         .says_gone = true,
         .check = ownership_check},
        {.sub = "publicAccessBlock",
         .kind = GW_TEXT_PUBLIC_ACCESS,
         .doc = S3_DOC_PUBLIC_ACCESS,
         .absent = S3_ERR_NO_SUCH_PUBLIC_ACCESS_BLOCK,
         .root = "PublicAccessBlockConfiguration",
         .content = "<BlockPublicAcls>true</BlockPublicAcls><IgnorePublicAcls>true</IgnorePublicAcls>"
                    "<BlockPublicPolicy>true</BlockPublicPolicy><RestrictPublicBuckets>true</RestrictPublicBuckets>",
         .status = 200,
         .says_gone = true},
        {.sub = "requestPayment",
         .kind = GW_TEXT_REQUEST_PAYMENT,
         .doc = S3_DOC_REQUEST_PAYMENT,
         .root = "RequestPaymentConfiguration",
         .content = "<Payer>BucketOwner</Payer>",
         .status = 200},
        {.sub = "accelerate",
         .kind = GW_TEXT_ACCELERATE,
         .doc = S3_DOC_ACCELERATE,
         .root = "AccelerateConfiguration",
         .content = "",
         .status = 200,
         .check = accelerate_check},
        {.sub = "notification",
         .kind = GW_TEXT_NONE,
         .doc = S3_DOC_NOTIFICATION,
         .root = "NotificationConfiguration",
         .content = "",
         .status = 200},
        {.sub = "inventory",
         .kind = GW_TEXT_INVENTORY,
         .doc = S3_DOC_INVENTORY,
         .absent = S3_ERR_NO_SUCH_CONFIGURATION,
         .root = "ListInventoryConfigurationsResult",
         .config = "InventoryConfiguration",
         .status = 204,
         .check = inventory_check},
        {.sub = "metrics",
         .kind = GW_TEXT_METRICS,
         .doc = S3_DOC_METRICS,
         .absent = S3_ERR_NO_SUCH_CONFIGURATION,
         .root = "ListMetricsConfigurationsResult",
         .config = "MetricsConfiguration",
         .status = 204},
        {.sub = "analytics",
         .kind = GW_TEXT_ANALYTICS,
         .doc = S3_DOC_ANALYTICS,
         .absent = S3_ERR_NO_SUCH_CONFIGURATION,
         .root = "ListBucketAnalyticsConfigurationsResult",
         .config = "AnalyticsConfiguration",
         .status = 204},
        {.sub = "intelligent-tiering",
         .kind = GW_TEXT_TIERING,
         .doc = S3_DOC_TIERING,
         .absent = S3_ERR_NO_SUCH_CONFIGURATION,
         .root = "ListBucketIntelligentTieringConfigurationsOutput",
         .config = "IntelligentTieringConfiguration",
         .status = 204},
};

const struct gw_text_row *gw_text_row_of(const struct gw_request *req)
{
        unsigned i = 0;

        while (strcmp(text_rows[i].sub, req->op->sub) != 0) {
                i++;
                assert(i < sizeof(text_rows) / sizeof(text_rows[0])); /* route.c names no other */
        }
        return &text_rows[i];
}
