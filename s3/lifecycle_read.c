/*
 * Reading LifecycleConfiguration into the compiled form: its schema, and the text of its elements.
 * What S3 checks beyond that is in lifecycle_check.c. Called by the walk of docs.c, on a table
 * bounded by S3's own limit of rules.
 */
#include <errno.h>
#include <stdlib.h>

#include "lifecycle.h"

static const struct s3_element lifecycle_elements[LC_ELEMENTS] = {
        [LC_ROOT] = {.name = "LifecycleConfiguration"},
        [LC_RULE] = {"Rule", LC_ROOT, .many = true},
        [LC_ID] = {"ID", LC_RULE, .text = true},
        [LC_STATUS] = {"Status", LC_RULE, .text = true},
        [LC_PREFIX] = {"Prefix", LC_RULE, .text = true},
        [LC_FILTER] = {.name = "Filter", .parent = LC_RULE},
        [LC_FILTER_PREFIX] = {"Prefix", LC_FILTER, .text = true},
        [LC_FILTER_GREATER] = {"ObjectSizeGreaterThan", LC_FILTER, .text = true},
        [LC_FILTER_LESS] = {"ObjectSizeLessThan", LC_FILTER, .text = true},
        [LC_FILTER_TAG] = {.name = "Tag", .parent = LC_FILTER},
        [LC_FILTER_TAG_KEY] = {"Key", LC_FILTER_TAG, .text = true},
        [LC_FILTER_TAG_VALUE] = {"Value", LC_FILTER_TAG, .text = true},
        [LC_AND] = {.name = "And", .parent = LC_FILTER},
        [LC_AND_PREFIX] = {"Prefix", LC_AND, .text = true},
        [LC_AND_GREATER] = {"ObjectSizeGreaterThan", LC_AND, .text = true},
        [LC_AND_LESS] = {"ObjectSizeLessThan", LC_AND, .text = true},
        [LC_AND_TAG] = {"Tag", LC_AND, .many = true},
        [LC_AND_TAG_KEY] = {"Key", LC_AND_TAG, .text = true},
        [LC_AND_TAG_VALUE] = {"Value", LC_AND_TAG, .text = true},
        [LC_EXPIRATION] = {.name = "Expiration", .parent = LC_RULE},
        [LC_EXPIRATION_DAYS] = {"Days", LC_EXPIRATION, .text = true},
        [LC_EXPIRATION_DATE] = {"Date", LC_EXPIRATION, .text = true},
        [LC_EXPIRATION_MARKER] = {"ExpiredObjectDeleteMarker", LC_EXPIRATION, .text = true},
        [LC_NONCURRENT] = {.name = "NoncurrentVersionExpiration", .parent = LC_RULE},
        [LC_NONCURRENT_DAYS] = {"NoncurrentDays", LC_NONCURRENT, .text = true},
        [LC_NONCURRENT_NEWER] = {"NewerNoncurrentVersions", LC_NONCURRENT, .text = true},
        [LC_ABORT] = {.name = "AbortIncompleteMultipartUpload", .parent = LC_RULE},
        [LC_ABORT_DAYS] = {"DaysAfterInitiation", LC_ABORT, .text = true},
        [LC_TRANSITION] = {"Transition", LC_RULE, .many = true},
        [LC_TRANSITION_DAYS] = {"Days", LC_TRANSITION, .text = true},
        [LC_TRANSITION_DATE] = {"Date", LC_TRANSITION, .text = true},
        [LC_TRANSITION_CLASS] = {"StorageClass", LC_TRANSITION, .text = true},
        [LC_MOVE] = {"NoncurrentVersionTransition", LC_RULE, .many = true},
        [LC_MOVE_DAYS] = {"NoncurrentDays", LC_MOVE, .text = true},
        [LC_MOVE_NEWER] = {"NewerNoncurrentVersions", LC_MOVE, .text = true},
        [LC_MOVE_CLASS] = {"StorageClass", LC_MOVE, .text = true},
};
_Static_assert(LC_ELEMENTS <= S3_ELEMENTS_MAX, "a set of elements is a word");

/* ---- values ---------------------------------------------------------------------------------- */

static enum s3_error lifecycle_text(struct s3_doc *doc, struct s3_str text, struct s3_str *out)
{
        return s3_arena_keep_str(&doc->lifecycle->priv->arena, text, out);
}

static enum s3_error lifecycle_id(struct s3_doc *doc, struct s3_str text)
{
        if (s3_utf16_len(text) > S3_LIFECYCLE_ID_MAX)
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, "ID length should not exceed allowed limit of 255");
        return lifecycle_text(doc, text, &doc->lifecycle->priv->rule.id);
}

static enum s3_error lifecycle_prefix(struct s3_doc *doc, struct s3_str text)
{
        if (text.len > S3_KEY_MAX)
                return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST, "The maximum size of a prefix is 1024");
        return lifecycle_text(doc, text, &doc->lifecycle->priv->rule.prefix);
}

static enum s3_error lifecycle_status(struct s3_doc *doc, struct s3_str text)
{
        struct s3_lifecycle_rule *rule = &doc->lifecycle->priv->rule;

        rule->enabled = s3_doc_word(text, "Enabled");
        return rule->enabled || s3_doc_word(text, "Disabled") ? S3_OK : S3_ERR_MALFORMED_XML;
}

/* A number from 1 on, kept as it is. */
static enum s3_error lifecycle_days(struct s3_doc *doc, struct s3_str text, uint32_t *out, const char *message)
{
        int64_t number;

        if (s3_doc_int(text, &number) != S3_OK)
                return S3_ERR_MALFORMED_XML;
        if (number <= 0)
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, message);
        *out = (uint32_t)number;
        return S3_OK;
}

static enum s3_error lifecycle_newer(struct s3_doc *doc, struct s3_str text, uint32_t *out)
{
        enum s3_error error = lifecycle_days(doc, text, out, "'NewerNoncurrentVersions' must be a positive integer");

        if (error == S3_OK && *out > S3_LIFECYCLE_NEWER_MAX)
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, "'NewerNoncurrentVersions' must not exceed 100");
        return error;
}

static enum s3_error lifecycle_date(struct s3_doc *doc, struct s3_str text, int64_t *out)
{
        if (s3_date_parse_iso(s3_xml_trim(text), out) != 0)
                return S3_ERR_MALFORMED_XML;
        if (*out % (S3_SECONDS_PER_DAY * 1000ll) != 0)
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, "'Date' must be at midnight GMT");
        return S3_OK;
}

static enum s3_error lifecycle_size(struct s3_doc *doc, struct s3_str text, uint64_t min, uint64_t *out,
                                    const char *message)
{
        struct s3_str digits = s3_xml_trim(text);
        bool negative = digits.len > 1 && digits.data[0] == '-';

        if (negative) {
                digits.data++;
                digits.len--;
        }
        switch (s3_parse_uint(digits, S3_LIFECYCLE_SIZE_MAX, out)) {
        case 0:
                if (*out >= min && (!negative || *out == 0))
                        return S3_OK;
                break;
        case -ERANGE:
                break;
        default:
                return S3_ERR_MALFORMED_XML;
        }
        return s3_doc_refuse(doc, S3_ERR_INVALID_REQUEST, message);
}

static enum s3_error lifecycle_marker(struct s3_doc *doc, struct s3_str text)
{
        struct s3_lifecycle_rule *rule = &doc->lifecycle->priv->rule;

        rule->has_marker = true;
        rule->marker = s3_doc_word(text, "true") || s3_doc_word(text, "1");
        return rule->marker || s3_doc_word(text, "false") || s3_doc_word(text, "0") ? S3_OK : S3_ERR_MALFORMED_XML;
}

/* ---- transitions ----------------------------------------------------------------------------- */

/* They are checked and not kept: a mistake in one is answered before what is not implemented. */

static enum s3_error transition_class(struct s3_doc *doc, struct s3_str text)
{
        static const char *const classes[] = {"STANDARD_IA", "INTELLIGENT_TIERING", "ONEZONE_IA", "GLACIER_IR",
                                              "GLACIER",     "DEEP_ARCHIVE"};

        for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++)
                if (s3_doc_word(text, classes[i]))
                        return S3_OK;
        if (s3_doc_word(text, "STANDARD") || s3_doc_word(text, "REDUCED_REDUNDANCY"))
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT,
                                     "Invalid target Storage class for Transition action");
        return S3_ERR_MALFORMED_XML;
}

static enum s3_error transition_days(struct s3_doc *doc, struct s3_str text, const char *message)
{
        int64_t number;

        if (s3_doc_int(text, &number) != S3_OK)
                return S3_ERR_MALFORMED_XML;
        return number >= 0 ? S3_OK : s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, message);
}

static enum s3_error transition_text(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        uint32_t newer = 0;
        int64_t date = 0;

        switch (number) {
        case LC_TRANSITION_DAYS:
                return transition_days(doc, text, "'Days' in Transition action must be nonnegative");
        case LC_MOVE_DAYS:
                return transition_days(doc, text,
                                       "'NoncurrentDays' in NoncurrentVersionTransition action must be nonnegative");
        case LC_TRANSITION_DATE:
                return lifecycle_date(doc, text, &date);
        case LC_MOVE_NEWER:
                return lifecycle_newer(doc, text, &newer);
        default:
                return transition_class(doc, text);
        }
}

static enum s3_error transition_end(struct s3_doc *doc, unsigned number)
{
        bool whole =
                number == LC_TRANSITION
                        ? s3_doc_saw(doc, LC_TRANSITION_CLASS) &&
                                  s3_doc_saw_of(doc, S3_SEEN(LC_TRANSITION_DAYS) | S3_SEEN(LC_TRANSITION_DATE)) == 1
                        : s3_doc_saw(doc, LC_MOVE_CLASS) && s3_doc_saw(doc, LC_MOVE_DAYS);

        doc->lifecycle->priv->rule.transition = true;
        return whole ? S3_OK : S3_ERR_MALFORMED_XML;
}

/* ---- rules ----------------------------------------------------------------------------------- */

static enum s3_error lifecycle_begin(struct s3_doc *doc)
{
        doc->lifecycle = calloc(1, sizeof(*doc->lifecycle));
        if (doc->lifecycle == NULL)
                return S3_ERR_INTERNAL_ERROR;
        doc->lifecycle->priv = calloc(1, sizeof(*doc->lifecycle->priv));
        return doc->lifecycle->priv != NULL ? S3_OK : S3_ERR_INTERNAL_ERROR;
}

/* Room for one more rule. */
static enum s3_error rules_grow(struct s3_lifecycle *lifecycle)
{
        struct s3_lifecycle_private *priv = lifecycle->priv;
        unsigned capacity = priv->capacity == 0 ? 4 : 2 * priv->capacity;
        struct s3_lifecycle_rule *grown;

        if (lifecycle->rule_count < priv->capacity)
                return S3_OK;
        grown = realloc(lifecycle->rules, capacity * sizeof(*grown));
        if (grown == NULL)
                return S3_ERR_INTERNAL_ERROR;
        lifecycle->rules = grown;
        priv->capacity = capacity;
        return S3_OK;
}

/* The rule's own copy of its tags. */
static enum s3_error keep_tags(struct s3_lifecycle_private *priv)
{
        void *kept;

        priv->rule.tag_count = priv->tag_count;
        if (priv->tag_count == 0)
                return S3_OK;
        kept = s3_arena_keep_aligned(&priv->arena, priv->tags, priv->tag_count * sizeof(priv->tags[0]));
        priv->rule.tags = kept;
        return kept != NULL ? S3_OK : S3_ERR_INTERNAL_ERROR;
}

static enum s3_error rule_begin(struct s3_doc *doc)
{
        struct s3_lifecycle_private *priv = doc->lifecycle->priv;

        priv->rule = (struct s3_lifecycle_rule){0};
        priv->tag_count = priv->predicates = 0;
        return doc->lifecycle->rule_count < S3_LIFECYCLE_RULES_MAX ? S3_OK : S3_ERR_MALFORMED_XML;
}

static enum s3_error rule_end(struct s3_doc *doc)
{
        struct s3_lifecycle *lifecycle = doc->lifecycle;
        enum s3_error error = s3_lifecycle_check_rule(doc);

        if (error == S3_OK)
                error = rules_grow(lifecycle);
        if (error == S3_OK)
                error = keep_tags(lifecycle->priv);
        if (error == S3_OK)
                lifecycle->rules[lifecycle->rule_count++] = lifecycle->priv->rule;
        lifecycle->transition = lifecycle->transition || lifecycle->priv->rule.transition;
        return error;
}

static enum s3_error tag_begin(struct s3_lifecycle_private *priv)
{
        if (priv->tag_count == S3_OBJECT_TAGS_MAX)
                return S3_ERR_MALFORMED_XML; /* more than any object has */
        priv->tags[priv->tag_count] = (struct s3_tag){{NULL, 0}, {NULL, 0}};
        return S3_OK;
}

/* ---- events ---------------------------------------------------------------------------------- */

static enum s3_error lifecycle_open(struct s3_doc *doc, unsigned number)
{
        switch (number) {
        case LC_ROOT:
                return lifecycle_begin(doc);
        case LC_RULE:
                return rule_begin(doc);
        case LC_FILTER_TAG:
        case LC_AND_TAG:
                return tag_begin(doc->lifecycle->priv);
        default:
                return S3_OK;
        }
}

/* An element of a filter, or the rule's own prefix. */
static enum s3_error filter_text(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        struct s3_lifecycle_private *priv = doc->lifecycle->priv;
        struct s3_tag *tag = &priv->tags[priv->tag_count < S3_OBJECT_TAGS_MAX ? priv->tag_count : 0];

        switch (number) {
        case LC_FILTER_GREATER:
        case LC_AND_GREATER:
                priv->rule.has_greater = true;
                return lifecycle_size(doc, text, 0, &priv->rule.greater,
                                      "'ObjectSizeGreaterThan' should be between 0 and 1099511627776000.");
        case LC_FILTER_LESS:
        case LC_AND_LESS:
                priv->rule.has_less = true;
                return lifecycle_size(doc, text, 1, &priv->rule.less,
                                      "'ObjectSizeLessThan' should be between 1 and 1099511627776000.");
        case LC_FILTER_TAG_KEY:
        case LC_AND_TAG_KEY:
                return lifecycle_text(doc, text, &tag->key);
        case LC_FILTER_TAG_VALUE:
        case LC_AND_TAG_VALUE:
                return lifecycle_text(doc, text, &tag->value);
        default:
                return lifecycle_prefix(doc, text);
        }
}

/* An element of an action. */
static enum s3_error action_text(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        struct s3_lifecycle_rule *rule = &doc->lifecycle->priv->rule;

        switch (number) {
        case LC_EXPIRATION_DAYS:
                return lifecycle_days(doc, text, &rule->days,
                                      "'Days' for Expiration action must be a positive integer");
        case LC_EXPIRATION_DATE:
                rule->has_date = true;
                return lifecycle_date(doc, text, &rule->date_ms);
        case LC_EXPIRATION_MARKER:
                return lifecycle_marker(doc, text);
        case LC_NONCURRENT_DAYS:
                return lifecycle_days(
                        doc, text, &rule->noncurrent_days,
                        "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer");
        case LC_NONCURRENT_NEWER:
                return lifecycle_newer(doc, text, &rule->newer_versions);
        case LC_ABORT_DAYS:
                return lifecycle_days(doc, text, &rule->abort_days,
                                      "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a "
                                      "positive integer");
        default:
                return transition_text(doc, number, text);
        }
}

/* An element that has children. */
static enum s3_error lifecycle_end(struct s3_doc *doc, unsigned number)
{
        switch (number) {
        case LC_ROOT:
                return s3_lifecycle_compile(doc);
        case LC_RULE:
                return rule_end(doc);
        case LC_FILTER:
                return s3_lifecycle_check_filter(doc);
        case LC_AND:
                return s3_lifecycle_check_and(doc);
        case LC_FILTER_TAG:
                return s3_lifecycle_check_tag(
                        doc, s3_doc_saw_of(doc, S3_SEEN(LC_FILTER_TAG_KEY) | S3_SEEN(LC_FILTER_TAG_VALUE)) == 2);
        case LC_AND_TAG:
                return s3_lifecycle_check_tag(
                        doc, s3_doc_saw_of(doc, S3_SEEN(LC_AND_TAG_KEY) | S3_SEEN(LC_AND_TAG_VALUE)) == 2);
        case LC_EXPIRATION:
                return s3_lifecycle_check_expiration(doc);
        case LC_NONCURRENT:
                return s3_doc_saw(doc, LC_NONCURRENT_DAYS) ? S3_OK : S3_ERR_MALFORMED_XML;
        case LC_ABORT:
                return s3_doc_saw(doc, LC_ABORT_DAYS) ? S3_OK : S3_ERR_MALFORMED_XML;
        default:
                return transition_end(doc, number);
        }
}

static enum s3_error lifecycle_close(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        if (!lifecycle_elements[number].text)
                return lifecycle_end(doc, number);
        if (number == LC_ID)
                return lifecycle_id(doc, text);
        if (number == LC_STATUS)
                return lifecycle_status(doc, text);
        return number < LC_EXPIRATION ? filter_text(doc, number, text) : action_text(doc, number, text);
}

S3_SCHEMA(s3_lifecycle_schema, lifecycle_elements, S3_LIFECYCLE_BODY_MAX, lifecycle_open, lifecycle_close);

void s3_lifecycle_free(struct s3_lifecycle *lifecycle)
{
        if (lifecycle == NULL)
                return;
        if (lifecycle->priv != NULL) {
                s3_arena_free(&lifecycle->priv->arena);
                free(lifecycle->priv->by_prefix);
                free(lifecycle->priv->ends);
        }
        free(lifecycle->priv);
        free(lifecycle->rules);
        free(lifecycle->prefixes);
        free(lifecycle);
}
