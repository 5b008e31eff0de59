/*
 * What S3 checks of lifecycle rules beyond the text of each element, and the last step of compiling
 * them: ids for rules that have none, and the prefixes that a walk has to look at. Called by
 * lifecycle_read.c; pure.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lifecycle.h"

/* ---- filters --------------------------------------------------------------------------------- */

static enum s3_error check_sizes(struct s3_doc *doc)
{
        const struct s3_lifecycle_rule *rule = &doc->lifecycle->priv->rule;

        if (rule->has_greater && rule->has_less && rule->greater >= rule->less)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST,
                                     "'ObjectSizeLessThan' has to be a value greater than 'ObjectSizeGreaterThan'.");
        return S3_OK;
}

enum s3_error s3_lifecycle_check_filter(struct s3_doc *doc)
{
        const uint64_t conditions = S3_SEEN(LC_FILTER_PREFIX) | S3_SEEN(LC_FILTER_GREATER) | S3_SEEN(LC_FILTER_LESS) |
                                    S3_SEEN(LC_FILTER_TAG) | S3_SEEN(LC_AND);

        doc->lifecycle->priv->rule.filter = s3_doc_saw(doc, LC_AND) ? S3_FILTER_AND : S3_FILTER_ONE;
        return s3_doc_saw_of(doc, conditions) <= 1 ? S3_OK : S3_ERR_MALFORMED_XML;
}

enum s3_error s3_lifecycle_check_and(struct s3_doc *doc)
{
        const uint64_t others = S3_SEEN(LC_AND_PREFIX) | S3_SEEN(LC_AND_GREATER) | S3_SEEN(LC_AND_LESS);

        if (s3_doc_saw_of(doc, others) + doc->lifecycle->priv->tag_count < 2)
                return S3_ERR_MALFORMED_XML;
        return check_sizes(doc);
}

enum s3_error s3_lifecycle_check_tag(struct s3_doc *doc, bool has_both)
{
        struct s3_lifecycle_private *priv = doc->lifecycle->priv;
        const struct s3_tag *tag = &priv->tags[priv->tag_count];

        if (!has_both)
                return S3_ERR_MALFORMED_XML;
        if (tag->key.len == 0 || s3_utf16_len(tag->key) > S3_TAG_KEY_MAX)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST, "A Tag's Key must be a length between 1 and 128.");
        if (s3_utf16_len(tag->value) > S3_TAG_VALUE_MAX)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST, "A Tag's Value must be a length between 0 and 256.");
        for (unsigned i = 0; i < priv->tag_count; i++)
                if (s3_str_eq(priv->tags[i].key, tag->key))
                        return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST, "Duplicate Tag Keys are not allowed.");
        priv->tag_count++;
        return S3_OK;
}

/* ---- rules ----------------------------------------------------------------------------------- */

enum s3_error s3_lifecycle_check_expiration(struct s3_doc *doc)
{
        const uint64_t forms =
                S3_SEEN(LC_EXPIRATION_DAYS) | S3_SEEN(LC_EXPIRATION_DATE) | S3_SEEN(LC_EXPIRATION_MARKER);

        return s3_doc_saw_of(doc, forms) == 1 ? S3_OK : S3_ERR_MALFORMED_XML;
}

/* Delete markers and uploads have neither tags nor a size. */
static enum s3_error check_unfiltered(struct s3_doc *doc)
{
        const struct s3_lifecycle_private *priv = doc->lifecycle->priv;
        bool tags = priv->tag_count > 0, size = priv->rule.has_greater || priv->rule.has_less;

        if (priv->rule.has_marker && (tags || size))
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST,
                                     tags ? "ExpiredObjectDeleteMarker cannot be specified with Tags."
                                          : "ExpiredObjectDeleteMarker cannot be specified with Object Size.");
        if (priv->rule.abort_days > 0 && (tags || size))
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST,
                                     tags ? "AbortIncompleteMultipartUpload cannot be specified with Tags."
                                          : "AbortIncompleteMultipartUpload cannot be specified with Object Size.");
        return S3_OK;
}

/* A rule has a Prefix, as in the first version of the API, or a Filter; and all of them alike. */
static enum s3_error check_form(struct s3_doc *doc)
{
        struct s3_lifecycle_private *priv = doc->lifecycle->priv;

        if (s3_doc_saw_of(doc, S3_SEEN(LC_PREFIX) | S3_SEEN(LC_FILTER)) != 1)
                return S3_ERR_MALFORMED_XML;
        priv->legacy = priv->legacy || s3_doc_saw(doc, LC_PREFIX);
        priv->modern = priv->modern || s3_doc_saw(doc, LC_FILTER);
        if (priv->legacy && priv->modern)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST, "Filter element can only be used in Lifecycle V2.");
        if (s3_doc_saw(doc, LC_PREFIX) && priv->rule.newer_versions > 0)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST,
                                     "NewerNoncurrentVersions element can only be used in Lifecycle V2.");
        return S3_OK;
}

enum s3_error s3_lifecycle_check_rule(struct s3_doc *doc)
{
        const uint64_t actions = S3_SEEN(LC_EXPIRATION) | S3_SEEN(LC_NONCURRENT) | S3_SEEN(LC_ABORT) |
                                 S3_SEEN(LC_TRANSITION) | S3_SEEN(LC_MOVE);
        enum s3_error error;

        if (!s3_doc_saw(doc, LC_STATUS))
                return S3_ERR_MALFORMED_XML;
        error = check_form(doc);
        if (error != S3_OK)
                return error;
        if (s3_doc_saw_of(doc, actions) == 0)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST,
                                     "At least one action needs to be specified in a rule");
        return check_unfiltered(doc);
}

/* ---- the whole ------------------------------------------------------------------------------- */

int s3_lifecycle_compare(struct s3_str a, struct s3_str b)
{
        size_t len = a.len < b.len ? a.len : b.len;
        int order = len > 0 ? memcmp(a.data, b.data, len) : 0;

        return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_strs(const void *a, const void *b)
{
        return s3_lifecycle_compare(*(const struct s3_str *)a, *(const struct s3_str *)b);
}

static int compare_prefixes(const void *a, const void *b)
{
        const struct s3_lifecycle_rule *x = *(const struct s3_lifecycle_rule *const *)a;
        const struct s3_lifecycle_rule *y = *(const struct s3_lifecycle_rule *const *)b;

        return s3_lifecycle_compare(x->prefix, y->prefix);
}

/* Gives the rule an id that no rule of the document has; ids: the sorted ones that it has. */
static enum s3_error rule_make_id(struct s3_lifecycle *lifecycle, struct s3_lifecycle_rule *rule,
                                  const struct s3_str *ids, unsigned count, unsigned *next)
{
        char text[32];
        struct s3_str id = {text, 0};

        do
                id.len = (size_t)snprintf(text, sizeof(text), "rule-%u", (*next)++);
        while (count > 0 && bsearch(&id, ids, count, sizeof(ids[0]), compare_strs) != NULL);
        return s3_arena_keep_str(&lifecycle->priv->arena, id, &rule->id);
}

/* table: room for a string of each rule. */
static enum s3_error settle_ids(struct s3_doc *doc, struct s3_str *table)
{
        struct s3_lifecycle *lifecycle = doc->lifecycle;
        unsigned count = 0, next = 1;
        enum s3_error error = S3_OK;

        for (unsigned i = 0; i < lifecycle->rule_count; i++)
                if (lifecycle->rules[i].id.len > 0)
                        table[count++] = lifecycle->rules[i].id;
        qsort(table, count, sizeof(table[0]), compare_strs);
        for (unsigned i = 1; i < count; i++)
                if (s3_str_eq(table[i - 1], table[i]))
                        return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT,
                                             "Rule ID must be unique. Found same ID for more than one rule");
        for (unsigned i = 0; i < lifecycle->rule_count && error == S3_OK; i++)
                if (lifecycle->rules[i].id.len == 0)
                        error = rule_make_id(lifecycle, &lifecycle->rules[i], table, count, &next);
        return error;
}

/*
 * Two ranges of prefixes are apart or one contains the other; sorted, the one that contains comes
 * first.
 */
static void collect_prefixes(struct s3_lifecycle *lifecycle)
{
        const struct s3_lifecycle_rule **rules = lifecycle->priv->by_prefix;
        unsigned count = 0, kept = 0;

        for (unsigned i = 0; i < lifecycle->rule_count; i++)
                if (lifecycle->rules[i].enabled)
                        rules[count++] = &lifecycle->rules[i];
        qsort(rules, count, sizeof(rules[0]), compare_prefixes);
        for (unsigned i = 0; i < count; i++) {
                struct s3_str prefix = rules[i]->prefix.data != NULL ? rules[i]->prefix : S3_STR("");

                if (kept == 0 || !s3_str_starts(prefix, lifecycle->prefixes[kept - 1]))
                        lifecycle->prefixes[kept++] = prefix;
                lifecycle->priv->ends[kept - 1] = i + 1;
        }
        lifecycle->prefix_count = kept;
}

enum s3_error s3_lifecycle_compile(struct s3_doc *doc)
{
        struct s3_lifecycle *lifecycle = doc->lifecycle;
        enum s3_error error;

        if (lifecycle->rule_count == 0)
                return S3_ERR_MALFORMED_XML;
        lifecycle->prefixes = calloc(lifecycle->rule_count, sizeof(lifecycle->prefixes[0]));
        lifecycle->priv->by_prefix = calloc(lifecycle->rule_count, sizeof(lifecycle->priv->by_prefix[0]));
        lifecycle->priv->ends = calloc(lifecycle->rule_count, sizeof(lifecycle->priv->ends[0]));
        if (lifecycle->prefixes == NULL || lifecycle->priv->by_prefix == NULL || lifecycle->priv->ends == NULL)
                return S3_ERR_INTERNAL_ERROR;
        error = settle_ids(doc, lifecycle->prefixes); /* the table serves both */
        if (error == S3_OK)
                collect_prefixes(lifecycle);
        return error;
}
