/*
 * What lifecycle rules make due, and when: a function over the rules and what a walker knows about
 * one version. Called by the walk of a bucket, and by the gateway for x-amz-expiration. Pure.
 */
#include <stdio.h>

#include "lifecycle.h"

/*
 * The moment so many days after from, moved on to the next midnight: AWS's example has 3 days from
 * January 15, 10:30 end on January 19, 00:00.
 */
static int64_t due_after(int64_t from_ms, uint32_t days, unsigned seconds_per_day)
{
        int64_t day_ms = (int64_t)seconds_per_day * 1000;

        if (from_ms < 0)
                from_ms = 0;
        return (from_ms / day_ms + days + 1) * day_ms;
}

static bool has_tags(const struct s3_lifecycle_rule *rule, const struct s3_tags *tags)
{
        for (unsigned i = 0; i < rule->tag_count; i++)
                if (tags == NULL || !s3_tags_have(tags, &rule->tags[i]))
                        return false;
        return true;
}

/* The enabled rules that may be for a key: those under the prefix that it begins with, if it does with one. */
struct rules_of_key {
        const struct s3_lifecycle_rule **rule;
        unsigned count;
};

/* No prefix begins with another: the one looked for is the last that does not sort behind the key. */
static struct rules_of_key find_rules(const struct s3_lifecycle *lifecycle, struct s3_str key)
{
        const struct s3_lifecycle_private *priv = lifecycle->priv;
        unsigned low = 0, high = lifecycle->prefix_count, begin;

        while (low < high) {
                unsigned middle = (low + high) / 2;

                if (s3_lifecycle_compare(lifecycle->prefixes[middle], key) <= 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == 0 || !s3_str_starts(key, lifecycle->prefixes[low - 1]))
                return (struct rules_of_key){.count = 0};
        begin = low > 1 ? priv->ends[low - 2] : 0;
        return (struct rules_of_key){&priv->by_prefix[begin], priv->ends[low - 1] - begin};
}

static bool rule_matches(const struct s3_lifecycle_rule *rule, const struct s3_lifecycle_version *version)
{
        if (!s3_str_starts(version->key, rule->prefix))
                return false;
        if (version->marker)
                return rule->tag_count == 0 && !rule->has_greater && !rule->has_less;
        if ((rule->has_greater && version->size <= rule->greater) || (rule->has_less && version->size >= rule->less))
                return false;
        return has_tags(rule, version->tags);
}

/* A latest version: an object, or a marker with nothing behind it. */
static struct s3_lifecycle_due due_latest(const struct s3_lifecycle_rule *rule,
                                          const struct s3_lifecycle_version *version, unsigned seconds_per_day)
{
        struct s3_lifecycle_due due = {.action = version->marker ? S3_LIFECYCLE_DELETE_MARKER : S3_LIFECYCLE_EXPIRE,
                                       .rule = rule};

        if (version->marker && !version->only)
                return (struct s3_lifecycle_due){0};
        if (rule->days > 0)
                due.at_ms = due_after(version->mtime_ms, rule->days, seconds_per_day);
        else if (rule->has_date)
                due.at_ms = rule->date_ms;
        else if (rule->marker && version->marker)
                due.at_ms = version->mtime_ms;
        else
                return (struct s3_lifecycle_due){0};
        return due;
}

static struct s3_lifecycle_due due_noncurrent(const struct s3_lifecycle_rule *rule,
                                              const struct s3_lifecycle_version *version, unsigned seconds_per_day)
{
        if (rule->noncurrent_days == 0 || version->newer_noncurrent < rule->newer_versions)
                return (struct s3_lifecycle_due){0};
        return (struct s3_lifecycle_due){
                .action = S3_LIFECYCLE_DELETE_VERSION,
                .at_ms = due_after(version->successor_ms, rule->noncurrent_days, seconds_per_day),
                .rule = rule};
}

/* Of two at the same time that of the rule which comes first in the document. */
static void take_earlier(struct s3_lifecycle_due *first, struct s3_lifecycle_due due)
{
        if (due.action != S3_LIFECYCLE_NOTHING &&
            (first->action == S3_LIFECYCLE_NOTHING || due.at_ms < first->at_ms ||
             (due.at_ms == first->at_ms && due.rule < first->rule)))
                *first = due;
}

struct s3_lifecycle_due s3_lifecycle_evaluate(const struct s3_lifecycle *lifecycle,
                                              const struct s3_lifecycle_version *version, unsigned seconds_per_day)
{
        struct rules_of_key rules = find_rules(lifecycle, version->key);
        struct s3_lifecycle_due first = {0};

        for (unsigned i = 0; i < rules.count; i++) {
                const struct s3_lifecycle_rule *rule = rules.rule[i];

                if (rule_matches(rule, version))
                        take_earlier(&first, version->latest ? due_latest(rule, version, seconds_per_day)
                                                             : due_noncurrent(rule, version, seconds_per_day));
        }
        return first;
}

struct s3_lifecycle_due s3_lifecycle_evaluate_upload(const struct s3_lifecycle *lifecycle, struct s3_str key,
                                                     int64_t initiated_ms, unsigned seconds_per_day)
{
        struct rules_of_key rules = find_rules(lifecycle, key);
        struct s3_lifecycle_due first = {0};

        for (unsigned i = 0; i < rules.count; i++) {
                const struct s3_lifecycle_rule *rule = rules.rule[i];

                if (rule->abort_days > 0 && s3_str_starts(key, rule->prefix))
                        take_earlier(&first,
                                     (struct s3_lifecycle_due){
                                             .action = S3_LIFECYCLE_ABORT,
                                             .at_ms = due_after(initiated_ms, rule->abort_days, seconds_per_day),
                                             .rule = rule});
        }
        return first;
}

size_t s3_lifecycle_expiration(const struct s3_lifecycle_due *due, char out[S3_LIFECYCLE_EXPIRATION_SIZE])
{
        char date[S3_DATE_HTTP_SIZE];
        size_t len;
        int n;

        s3_date_format_http(due->at_ms, date);
        len = (size_t)snprintf(out, S3_LIFECYCLE_EXPIRATION_SIZE, "expiry-date=\"%s\", rule-id=\"", date);
        n = s3_percent_encode(due->rule->id, S3_ENCODE_QUERY, out + len, S3_LIFECYCLE_EXPIRATION_SIZE - len - 2);
        len += n > 0 ? (size_t)n : 0; /* an id of the greatest length has room */
        out[len++] = '"';
        out[len] = '\0';
        return len;
}
