/*
 * config_bucket.c - small configurations of buckets: logging, ownership controls, public access
 * block, request payment, accelerate, notification. Called by docs.c; pure.
 */
#include "config.h"
#include "s3_xml.h"

#define SMALL_MAX  (64u << 10) /* bytes of a document */
#define PREFIX_MAX 1024u
#define GRANTS_MAX 100u

/* ---- logging --------------------------------------------------------------------------------- */

enum {
        LOGGING,
        LOGGING_ENABLED,
        TARGET_BUCKET,
        TARGET_PREFIX,
        TARGET_GRANTS,
        GRANT,
        GRANTEE,
        GRANTEE_NAME,
        GRANTEE_MAIL,
        GRANTEE_ID,
        GRANTEE_URI,
        PERMISSION,
        KEY_FORMAT,
        SIMPLE_PREFIX,
        PARTITIONED_PREFIX,
        DATE_SOURCE
};

static const struct s3_element logging_elements[] = {
        [LOGGING] = S3_GROUP("BucketLoggingStatus", LOGGING, 1, 1),
        [LOGGING_ENABLED] = S3_GROUP("LoggingEnabled", LOGGING, 0, 1),
        [TARGET_BUCKET] = S3_TEXT("TargetBucket", LOGGING_ENABLED, 1, 1, 1, 255),
        [TARGET_PREFIX] = S3_TEXT("TargetPrefix", LOGGING_ENABLED, 1, 1, 0, PREFIX_MAX),
        [TARGET_GRANTS] = S3_GROUP("TargetGrants", LOGGING_ENABLED, 0, 1),
        [GRANT] = S3_GROUP("Grant", TARGET_GRANTS, 0, GRANTS_MAX),
        [GRANTEE] = S3_GROUP("Grantee", GRANT, 1, 1),
        [GRANTEE_NAME] = S3_TEXT("DisplayName", GRANTEE, 0, 1, 0, 1024),
        [GRANTEE_MAIL] = S3_TEXT("EmailAddress", GRANTEE, 0, 1, 1, 1024),
        [GRANTEE_ID] = S3_TEXT("ID", GRANTEE, 0, 1, 1, 1024),
        [GRANTEE_URI] = S3_TEXT("URI", GRANTEE, 0, 1, 1, 1024),
        [PERMISSION] = S3_WORDS("Permission", GRANT, 1, 1, "FULL_CONTROL|READ|WRITE"),
        [KEY_FORMAT] = S3_GROUP("TargetObjectKeyFormat", LOGGING_ENABLED, 0, 1),
        [SIMPLE_PREFIX] = S3_GROUP("SimplePrefix", KEY_FORMAT, 0, 1),
        [PARTITIONED_PREFIX] = S3_GROUP("PartitionedPrefix", KEY_FORMAT, 0, 1),
        [DATE_SOURCE] = S3_WORDS("PartitionDateSource", PARTITIONED_PREFIX, 1, 1, "EventTime|DeliveryTime"),
};

/* A choice in the schema has one of its elements. */
static enum s3_error logging_end(struct s3_doc *doc)
{
        for (uint32_t at = 0; at < s3_config_count(doc->config); at++) {
                unsigned row = s3_config_row(doc->config, at);

                if (row == KEY_FORMAT &&
                    s3_config_count_of(doc->config, at, S3_SEEN(SIMPLE_PREFIX) | S3_SEEN(PARTITIONED_PREFIX)) != 1)
                        return S3_ERR_MALFORMED_XML;
                if (row == GRANTEE &&
                    s3_config_count_of(doc->config, at,
                                       S3_SEEN(GRANTEE_MAIL) | S3_SEEN(GRANTEE_ID) | S3_SEEN(GRANTEE_URI)) != 1)
                        return S3_ERR_MALFORMED_XML;
        }
        return S3_OK;
}

S3_CONFIG_SCHEMA(s3_logging_schema, logging_elements, SMALL_MAX, logging_end);

/* ---- one word, or a few flags ---------------------------------------------------------------- */

static const struct s3_element ownership_elements[] = {
        S3_GROUP("OwnershipControls", 0, 1, 1),
        S3_GROUP("Rule", 0, 1, 1),
        S3_WORDS("ObjectOwnership", 1, 1, 1, "BucketOwnerPreferred|ObjectWriter|BucketOwnerEnforced"),
};

static const struct s3_element public_access_elements[] = {
        S3_GROUP("PublicAccessBlockConfiguration", 0, 1, 1),
        S3_FLAG("BlockPublicAcls", 0, 0, 1),
        S3_FLAG("IgnorePublicAcls", 0, 0, 1),
        S3_FLAG("BlockPublicPolicy", 0, 0, 1),
        S3_FLAG("RestrictPublicBuckets", 0, 0, 1),
};

static const struct s3_element request_payment_elements[] = {
        S3_GROUP("RequestPaymentConfiguration", 0, 1, 1),
        S3_WORDS("Payer", 0, 1, 1, "Requester|BucketOwner"),
};

static const struct s3_element accelerate_elements[] = {
        S3_GROUP("AccelerateConfiguration", 0, 1, 1),
        S3_WORDS("Status", 0, 1, 1, "Enabled|Suspended"),
};

S3_CONFIG_SCHEMA(s3_ownership_schema, ownership_elements, SMALL_MAX, NULL);
S3_CONFIG_SCHEMA(s3_public_access_schema, public_access_elements, SMALL_MAX, NULL);
S3_CONFIG_SCHEMA(s3_request_payment_schema, request_payment_elements, SMALL_MAX, NULL);
S3_CONFIG_SCHEMA(s3_accelerate_schema, accelerate_elements, SMALL_MAX, NULL);

/* ---- notification ---------------------------------------------------------------------------- */

static const struct s3_element notification_elements[] = {
        S3_GROUP("NotificationConfiguration", 0, 1, 1), S3_GROUP("TopicConfiguration", 0, 0, S3_MANY),
        S3_GROUP("QueueConfiguration", 0, 0, S3_MANY),  S3_GROUP("CloudFunctionConfiguration", 0, 0, S3_MANY),
        S3_GROUP("EventBridgeConfiguration", 0, 0, 1),
};

/* None are sent: the one configuration that can be kept is the empty one. */
static enum s3_error notification_open(struct s3_doc *doc, unsigned number)
{
        if (number > 0)
                return s3_doc_refuse(doc, S3_ERR_NOT_IMPLEMENTED, "Notifications are not implemented.");
        return s3_config_open(doc, number);
}

S3_SCHEMA(s3_notification_schema, notification_elements, SMALL_MAX, notification_open, s3_config_close);
