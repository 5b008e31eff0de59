/*
 * Writing lifecycle rules as GetBucketLifecycleConfiguration answers them and a store keeps them.
 * Called by the gateway; pure.
 */
#include "lifecycle.h"

static void write_filter(struct s3_xml *xml, const struct s3_lifecycle_rule *rule)
{
        if (rule->filter == S3_FILTER_LEGACY) {
                s3_xml_text(xml, "Prefix", rule->prefix);
                return;
        }
        s3_xml_open(xml, "Filter");
        if (rule->filter == S3_FILTER_AND)
                s3_xml_open(xml, "And");
        if (rule->prefix.data != NULL)
                s3_xml_text(xml, "Prefix", rule->prefix);
        s3_tag_list_write(xml, rule->tags, rule->tag_count);
        if (rule->has_greater)
                s3_xml_uint(xml, "ObjectSizeGreaterThan", rule->greater);
        if (rule->has_less)
                s3_xml_uint(xml, "ObjectSizeLessThan", rule->less);
        if (rule->filter == S3_FILTER_AND)
                s3_xml_close(xml, "And");
        s3_xml_close(xml, "Filter");
}

static void write_expiration(struct s3_xml *xml, const struct s3_lifecycle_rule *rule)
{
        if (rule->days == 0 && !rule->has_date && !rule->has_marker)
                return;
        s3_xml_open(xml, "Expiration");
        if (rule->days > 0)
                s3_xml_uint(xml, "Days", rule->days);
        if (rule->has_date)
                s3_xml_date(xml, "Date", rule->date_ms);
        if (rule->has_marker)
                s3_xml_bool(xml, "ExpiredObjectDeleteMarker", rule->marker);
        s3_xml_close(xml, "Expiration");
}

static void write_actions(struct s3_xml *xml, const struct s3_lifecycle_rule *rule)
{
        write_expiration(xml, rule);
        if (rule->noncurrent_days > 0) {
                s3_xml_open(xml, "NoncurrentVersionExpiration");
                s3_xml_uint(xml, "NoncurrentDays", rule->noncurrent_days);
                if (rule->newer_versions > 0)
                        s3_xml_uint(xml, "NewerNoncurrentVersions", rule->newer_versions);
                s3_xml_close(xml, "NoncurrentVersionExpiration");
        }
        if (rule->abort_days > 0) {
                s3_xml_open(xml, "AbortIncompleteMultipartUpload");
                s3_xml_uint(xml, "DaysAfterInitiation", rule->abort_days);
                s3_xml_close(xml, "AbortIncompleteMultipartUpload");
        }
}

void s3_lifecycle_write(struct s3_xml *xml, const struct s3_lifecycle *lifecycle)
{
        s3_xml_root(xml, "LifecycleConfiguration");
        for (unsigned i = 0; i < lifecycle->rule_count; i++) {
                const struct s3_lifecycle_rule *rule = &lifecycle->rules[i];

                s3_xml_open(xml, "Rule");
                s3_xml_text(xml, "ID", rule->id);
                write_filter(xml, rule);
                s3_xml_textz(xml, "Status", rule->enabled ? "Enabled" : "Disabled");
                write_actions(xml, rule);
                s3_xml_close(xml, "Rule");
        }
        s3_xml_close(xml, "LifecycleConfiguration");
}
