/*
 * config_lists.c - configurations of which a bucket may have many, each with an id: inventory,
 * metrics, analytics, intelligent-tiering. Called by docs.c; pure.
 */
#include "config.h"
#include "s3_xml.h"

#define LISTED_MAX      (64u << 10) /* bytes of a document */
#define PREFIX_MAX      1024u
#define TAG_KEY_MAX     (4 * 128)
#define TAG_VALUE_MAX   (4 * 256)
#define FILTER_TAGS_MAX 10u

bool s3_config_id_valid(struct s3_str id)
{
        if (id.len == 0 || id.len > S3_CONFIG_ID_MAX)
                return false;
        for (size_t i = 0; i < id.len; i++) {
                char c = id.data[i];

                if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || s3_is_digit(c) || c == '-' || c == '_' ||
                      c == '.'))
                        return false;
        }
        return true;
}

static enum s3_error id_end(struct s3_doc *doc)
{
        if (s3_config_id_valid(s3_config_text_of(doc->config, 0, "Id")))
                return S3_OK;
        return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT,
                             "The Id must have 1 to 64 letters, digits, '-', '_' and '.'");
}

/* The text of an element; else the error for a bucket that is not named by its ARN. */
static enum s3_error arn_check(struct s3_doc *doc, struct s3_str arn)
{
        struct s3_str start = S3_STR("arn:aws:s3:::");

        if (s3_str_starts(arn, start) &&
            s3_bucket_name_valid((struct s3_str){arn.data + start.len, arn.len - start.len}))
                return S3_OK;
        return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, "The destination is not the ARN of a bucket.");
}

/* ---- filters --------------------------------------------------------------------------------- */

/* The rows of a Filter, which three kinds have in common: they begin at the row `at`. */
enum {
        FILTER,
        FILTER_PREFIX,
        FILTER_TAG,
        TAG_KEY,
        TAG_VALUE,
        AND,
        AND_PREFIX,
        AND_TAG,
        AND_KEY,
        AND_VALUE,
        FILTER_ROWS
};

#define FILTER_ELEMENTS(at)                                                                                            \
        [(at) + FILTER] = S3_GROUP("Filter", 0, 0, 1),                                                                 \
                [(at) + FILTER_PREFIX] = S3_TEXT("Prefix", (at) + FILTER, 0, 1, 0, PREFIX_MAX),                        \
                [(at) + FILTER_TAG] = S3_GROUP("Tag", (at) + FILTER, 0, 1),                                            \
                [(at) + TAG_KEY] = S3_TEXT("Key", (at) + FILTER_TAG, 1, 1, 1, TAG_KEY_MAX),                            \
                [(at) + TAG_VALUE] = S3_TEXT("Value", (at) + FILTER_TAG, 1, 1, 0, TAG_VALUE_MAX),                      \
                [(at) + AND] = S3_GROUP("And", (at) + FILTER, 0, 1),                                                   \
                [(at) + AND_PREFIX] = S3_TEXT("Prefix", (at) + AND, 0, 1, 0, PREFIX_MAX),                              \
                [(at) + AND_TAG] = S3_GROUP("Tag", (at) + AND, 1, FILTER_TAGS_MAX),                                    \
                [(at) + AND_KEY] = S3_TEXT("Key", (at) + AND_TAG, 1, 1, 1, TAG_KEY_MAX),                               \
                [(at) + AND_VALUE] = S3_TEXT("Value", (at) + AND_TAG, 1, 1, 0, TAG_VALUE_MAX)

/* A filter has one condition, and And, two or more. */
static enum s3_error filter_end(struct s3_doc *doc, unsigned at)
{
        uint32_t filter = s3_config_first(doc->config, 0, "Filter"), and;
        uint64_t all = S3_SEEN(at + FILTER_PREFIX) | S3_SEEN(at + FILTER_TAG) | S3_SEEN(at + AND);

        if (filter == S3_CONFIG_NONE)
                return S3_OK;
        if (s3_config_count_of(doc->config, filter, all) != 1)
                return S3_ERR_MALFORMED_XML;
        and = s3_config_first(doc->config, filter, "And");
        if (and != S3_CONFIG_NONE &&
            s3_config_count_of(doc->config, and, S3_SEEN(at + AND_PREFIX) | S3_SEEN(at + AND_TAG)) < 2)
                return S3_ERR_MALFORMED_XML;
        return S3_OK;
}

/* ---- inventory ------------------------------------------------------------------------------- */

enum {
        INVENTORY,
        INVENTORY_ID,
        INVENTORY_ENABLED,
        INVENTORY_VERSIONS,
        INVENTORY_FILTER,
        INVENTORY_PREFIX,
        INVENTORY_SCHEDULE,
        INVENTORY_FREQUENCY,
        INVENTORY_FIELDS,
        INVENTORY_FIELD,
        INVENTORY_DESTINATION,
        INVENTORY_BUCKET,
        INVENTORY_ARN,
        INVENTORY_ACCOUNT,
        INVENTORY_FORMAT,
        INVENTORY_TO_PREFIX
};

static const struct s3_element inventory_elements[] = {
        [INVENTORY] = S3_GROUP("InventoryConfiguration", 0, 1, 1),
        [INVENTORY_ID] = S3_TEXT("Id", INVENTORY, 1, 1, 0, PREFIX_MAX),
        [INVENTORY_ENABLED] = S3_FLAG("IsEnabled", INVENTORY, 1, 1),
        [INVENTORY_VERSIONS] = S3_WORDS("IncludedObjectVersions", INVENTORY, 1, 1, "All|Current"),
        [INVENTORY_FILTER] = S3_GROUP("Filter", INVENTORY, 0, 1),
        [INVENTORY_PREFIX] = S3_TEXT("Prefix", INVENTORY_FILTER, 1, 1, 0, PREFIX_MAX),
        [INVENTORY_SCHEDULE] = S3_GROUP("Schedule", INVENTORY, 1, 1),
        [INVENTORY_FREQUENCY] = S3_WORDS("Frequency", INVENTORY_SCHEDULE, 1, 1, "Daily|Weekly"),
        [INVENTORY_FIELDS] = S3_GROUP("OptionalFields", INVENTORY, 0, 1),
        [INVENTORY_FIELD] =
                S3_WORDS("Field", INVENTORY_FIELDS, 0, 32,
                         "Size|LastModifiedDate|StorageClass|ETag|IsMultipartUploaded|ReplicationStatus|"
                         "EncryptionStatus|ObjectLockRetainUntilDate|ObjectLockMode|ObjectLockLegalHoldStatus|"
                         "IntelligentTieringAccessTier|BucketKeyStatus|ChecksumAlgorithm|"
                         "ObjectAccessControlList|ObjectOwner|LifecycleExpirationDate"),
        [INVENTORY_DESTINATION] = S3_GROUP("Destination", INVENTORY, 1, 1),
        [INVENTORY_BUCKET] = S3_GROUP("S3BucketDestination", INVENTORY_DESTINATION, 1, 1),
        [INVENTORY_ARN] = S3_TEXT("Bucket", INVENTORY_BUCKET, 1, 1, 1, 255),
        [INVENTORY_ACCOUNT] = S3_TEXT("AccountId", INVENTORY_BUCKET, 0, 1, 1, 64),
        [INVENTORY_FORMAT] = S3_WORDS("Format", INVENTORY_BUCKET, 1, 1, "CSV|ORC|Parquet"),
        [INVENTORY_TO_PREFIX] = S3_TEXT("Prefix", INVENTORY_BUCKET, 0, 1, 0, PREFIX_MAX),
};

static enum s3_error inventory_end(struct s3_doc *doc)
{
        uint32_t bucket =
                s3_config_first(doc->config, s3_config_first(doc->config, 0, "Destination"), "S3BucketDestination");
        enum s3_error error = id_end(doc);

        return error != S3_OK ? error : arn_check(doc, s3_config_text_of(doc->config, bucket, "Bucket"));
}

S3_CONFIG_SCHEMA(s3_inventory_schema, inventory_elements, LISTED_MAX, inventory_end);

/* ---- metrics --------------------------------------------------------------------------------- */

enum { METRICS, METRICS_ID, METRICS_FILTER };

static const struct s3_element metrics_elements[] = {
        [METRICS] = S3_GROUP("MetricsConfiguration", 0, 1, 1),
        [METRICS_ID] = S3_TEXT("Id", METRICS, 1, 1, 0, PREFIX_MAX),
        FILTER_ELEMENTS(METRICS_FILTER),
};

static enum s3_error metrics_end(struct s3_doc *doc)
{
        enum s3_error error = id_end(doc);

        return error != S3_OK ? error : filter_end(doc, METRICS_FILTER);
}

S3_CONFIG_SCHEMA(s3_metrics_schema, metrics_elements, LISTED_MAX, metrics_end);

/* ---- analytics ------------------------------------------------------------------------------- */

enum {
        ANALYTICS,
        ANALYTICS_ID,
        ANALYTICS_FILTER,
        ANALYSIS = ANALYTICS_FILTER + FILTER_ROWS,
        DATA_EXPORT,
        EXPORT_VERSION,
        EXPORT_DESTINATION,
        EXPORT_BUCKET,
        EXPORT_FORMAT,
        EXPORT_ACCOUNT,
        EXPORT_ARN,
        EXPORT_PREFIX
};

static const struct s3_element analytics_elements[] = {
        [ANALYTICS] = S3_GROUP("AnalyticsConfiguration", 0, 1, 1),
        [ANALYTICS_ID] = S3_TEXT("Id", ANALYTICS, 1, 1, 0, PREFIX_MAX),
        FILTER_ELEMENTS(ANALYTICS_FILTER),
        [ANALYSIS] = S3_GROUP("StorageClassAnalysis", ANALYTICS, 1, 1),
        [DATA_EXPORT] = S3_GROUP("DataExport", ANALYSIS, 0, 1),
        [EXPORT_VERSION] = S3_WORDS("OutputSchemaVersion", DATA_EXPORT, 1, 1, "V_1"),
        [EXPORT_DESTINATION] = S3_GROUP("Destination", DATA_EXPORT, 1, 1),
        [EXPORT_BUCKET] = S3_GROUP("S3BucketDestination", EXPORT_DESTINATION, 1, 1),
        [EXPORT_FORMAT] = S3_WORDS("Format", EXPORT_BUCKET, 1, 1, "CSV"),
        [EXPORT_ACCOUNT] = S3_TEXT("BucketAccountId", EXPORT_BUCKET, 0, 1, 1, 64),
        [EXPORT_ARN] = S3_TEXT("Bucket", EXPORT_BUCKET, 1, 1, 1, 255),
        [EXPORT_PREFIX] = S3_TEXT("Prefix", EXPORT_BUCKET, 0, 1, 0, PREFIX_MAX),
};

static enum s3_error analytics_end(struct s3_doc *doc)
{
        enum s3_error error = id_end(doc);

        if (error == S3_OK)
                error = filter_end(doc, ANALYTICS_FILTER);
        for (uint32_t at = 0; error == S3_OK && at < s3_config_count(doc->config); at++)
                if (s3_config_row(doc->config, at) == EXPORT_ARN)
                        error = arn_check(doc, s3_config_text(doc->config, at));
        return error;
}

S3_CONFIG_SCHEMA(s3_analytics_schema, analytics_elements, LISTED_MAX, analytics_end);

/* ---- intelligent-tiering --------------------------------------------------------------------- */

#define TIER_DAYS_MAX    730
#define ARCHIVE_DAYS_MIN 90
#define DEEP_DAYS_MIN    180

enum {
        TIERING,
        TIERING_ID,
        TIERING_FILTER,
        TIERING_STATUS = TIERING_FILTER + FILTER_ROWS,
        TIER,
        TIER_DAYS,
        TIER_ACCESS
};

static const struct s3_element tiering_elements[] = {
        [TIERING] = S3_GROUP("IntelligentTieringConfiguration", 0, 1, 1),
        [TIERING_ID] = S3_TEXT("Id", TIERING, 1, 1, 0, PREFIX_MAX),
        FILTER_ELEMENTS(TIERING_FILTER),
        [TIERING_STATUS] = S3_WORDS("Status", TIERING, 1, 1, "Enabled|Disabled"),
        [TIER] = S3_GROUP("Tiering", TIERING, 1, 2),
        [TIER_DAYS] = S3_INT("Days", TIER, 1, 1, INT32_MIN, INT32_MAX),
        [TIER_ACCESS] = S3_WORDS("AccessTier", TIER, 1, 1, "ARCHIVE_ACCESS|DEEP_ARCHIVE_ACCESS"),
};

static enum s3_error tier_check(struct s3_doc *doc, uint32_t tier, bool *deep)
{
        int64_t days = 0;

        *deep = s3_doc_word(s3_config_text_of(doc->config, tier, "AccessTier"), "DEEP_ARCHIVE_ACCESS");
        s3_doc_int(s3_config_text_of(doc->config, tier, "Days"), &days);
        if (days >= (*deep ? DEEP_DAYS_MIN : ARCHIVE_DAYS_MIN) && days <= TIER_DAYS_MAX)
                return S3_OK;
        return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT,
                             "Days must be 90 to 730 for ARCHIVE_ACCESS and 180 to 730 for DEEP_ARCHIVE_ACCESS");
}

static enum s3_error tiering_end(struct s3_doc *doc)
{
        uint32_t tier = s3_config_first(doc->config, 0, "Tiering");
        unsigned met[2] = {0, 0};
        enum s3_error error = id_end(doc);

        if (error == S3_OK)
                error = filter_end(doc, TIERING_FILTER);
        for (; error == S3_OK && tier != S3_CONFIG_NONE; tier = s3_config_next(doc->config, 0, tier, "Tiering")) {
                bool deep = false;

                error = tier_check(doc, tier, &deep);
                if (error == S3_OK && met[deep]++ > 0)
                        error = S3_ERR_MALFORMED_XML;
        }
        return error;
}

S3_CONFIG_SCHEMA(s3_tiering_schema, tiering_elements, LISTED_MAX, tiering_end);
