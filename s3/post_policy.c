/*
 * Policies of browsers' forms. Called by the gateway once the policy's signature is verified; still
 * the text is bounded in length, depth and number of conditions before anything walks it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "s3_checksum.h"
#include "s3_date.h"
#include "s3_form.h"
#include "s3_internal.h"
#include "s3_json.h"
#include "s3_post_policy.h"

/* One judgement. */
struct post_judge {
        const struct s3_post_form *form;
        struct s3_post_range *range;
        char *message;
        bool bucket_named;
        bool named[S3_FORM_FIELDS_MAX]; /* fields that a condition is about */
};

static enum s3_error policy_invalid(struct post_judge *judge, const char *what)
{
        snprintf(judge->message, S3_POST_MESSAGE, "Invalid Policy: %s", what);
        return S3_ERR_INVALID_POLICY_DOCUMENT;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* NULL: malformed (*len 0) or no memory (*len 1). */
static char *policy_decode(struct s3_str text, size_t *len)
{
        size_t n = text.len / 4 * 3;
        char *out;

        *len = 0;
        if (text.len == 0 || text.len > S3_FORM_BYTES_MAX || text.len % 4 != 0)
                return NULL;
        for (size_t i = text.len; i > text.len - 2 && text.data[i - 1] == '='; i--)
                n--;
        out = malloc(n + 1);
        if (out == NULL) {
                *len = 1;
                return NULL;
        }
        if (s3_base64_decode(text, out, n) != 0) {
                free(out);
                return NULL;
        }
        *len = n;
        return out;
}

/*
 * AWS's policies know two escapes that JSON lacks: \$ is a dollar, and \v a vertical tab, which no
 * field can hold and JSON then refuses. In place. False: nested too deep.
 */
static bool policy_to_json(char *text, size_t *len)
{
        size_t used = 0, depth = 0;
        bool quoted = false;

        for (size_t i = 0; i < *len; i++) {
                char c = text[i];

                if (quoted && c == '\\' && i + 1 < *len) {
                        if (text[++i] != '$')
                                text[used++] = c;
                        text[used++] = text[i];
                        continue;
                }
                if (c == '"')
                        quoted = !quoted;
                else if (!quoted && (c == '{' || c == '[') && ++depth > S3_POST_DEPTH_MAX)
                        return false;
                else if (!quoted && (c == '}' || c == ']') && depth > 0)
                        depth--;
                text[used++] = c;
        }
        *len = used;
        return true;
}

/* ---- conditions ------------------------------------------------------------------------------ */

static struct s3_str json_text(const json_t *value)
{
        return (struct s3_str){json_string_value(value), json_string_length(value)};
}

/* Value of the field of that name, which a condition names thereby; empty if the form lacks it. */
static struct s3_str judged_field(struct post_judge *judge, struct s3_str name)
{
        struct s3_str found = S3_STR("");

        if (s3_str_eq_nocase(name, S3_STR("bucket"))) {
                judge->bucket_named = true;
                found = judge->form->bucket;
        }
        for (size_t i = 0; i < judge->form->count; i++) {
                if (!s3_str_eq_nocase(judge->form->fields[i].name, name))
                        continue;
                judge->named[i] = true;
                if (!s3_str_eq_nocase(name, S3_STR("bucket")))
                        found = judge->form->fields[i].value;
        }
        return found;
}

/* A list of content types is allowed if each of them is. */
static bool all_start(struct s3_str list, struct s3_str prefix)
{
        while (list.data != NULL)
                if (!s3_str_starts(s3_str_trim(s3_str_cut(list, ',', &list)), prefix))
                        return false;
        return true;
}

static enum s3_error judge_match(struct post_judge *judge, bool exact, struct s3_str name, struct s3_str wanted)
{
        struct s3_str value = judged_field(judge, name);
        bool fits;

        if (exact)
                fits = s3_str_eq(value, wanted);
        else if (s3_str_eq_nocase(name, S3_STR("Content-Type")))
                fits = all_start(value, wanted);
        else
                fits = s3_str_starts(value, wanted);
        if (fits)
                return S3_OK;
        snprintf(judge->message, S3_POST_MESSAGE,
                 "Invalid according to Policy: Policy Condition failed: [\"%s\", \"$%.*s\", \"%.*s\"]",
                 exact ? "eq" : "starts-with", (int)name.len, name.data, (int)wanted.len, wanted.data);
        return S3_ERR_ACCESS_DENIED;
}

/* A whole number, or text of one. */
static bool json_size(const json_t *value, uint64_t *out)
{
        if (json_is_string(value))
                return s3_parse_uint(json_text(value), INT64_MAX, out) == 0;
        if (!json_is_integer(value) || json_integer_value(value) < 0)
                return false;
        *out = (uint64_t)json_integer_value(value);
        return true;
}

static enum s3_error judge_range(struct post_judge *judge, const json_t *condition)
{
        uint64_t min, max;

        if (json_array_size(condition) != 3 || !json_size(json_array_get(condition, 1), &min) ||
            !json_size(json_array_get(condition, 2), &max) || min > max)
                return policy_invalid(judge, "Invalid content-length-range.");
        if (min > judge->range->min)
                judge->range->min = min;
        if (max < judge->range->max)
                judge->range->max = max;
        return S3_OK;
}

/* ["eq", "$name", "value"] and the like. */
static enum s3_error judge_array(struct post_judge *judge, const json_t *condition)
{
        const json_t *of = json_array_get(condition, 1), *wanted = json_array_get(condition, 2);
        struct s3_str kind, name;
        bool exact;

        if (!json_is_string(json_array_get(condition, 0)))
                return policy_invalid(judge, "Invalid Condition: the kind of a condition must be a string.");
        kind = json_text(json_array_get(condition, 0));
        if (s3_str_eq_nocase(kind, S3_STR("content-length-range")))
                return judge_range(judge, condition);
        exact = s3_str_eq_nocase(kind, S3_STR("eq"));
        if (!exact && !s3_str_eq_nocase(kind, S3_STR("starts-with")))
                return policy_invalid(judge, "Invalid Condition: unknown operation.");
        if (json_array_size(condition) != 3 || !json_is_string(of) || !json_is_string(wanted))
                return policy_invalid(judge, "Invalid Condition: wrong number or type of arguments.");
        name = json_text(of);
        if (name.len < 2 || name.data[0] != '$')
                return policy_invalid(judge, "Invalid Condition: the name of a field must start with '$'.");
        name.data++;
        name.len--;
        return judge_match(judge, exact, name, json_text(wanted));
}

/* {"name": "value"} */
static enum s3_error judge_object(struct post_judge *judge, json_t *condition)
{
        void *at = json_object_iter(condition);
        const json_t *value;

        if (json_object_size(condition) != 1)
                return policy_invalid(judge, "Invalid Simple-Condition: Simple-Conditions must have exactly one "
                                             "property specified.");
        value = json_object_iter_value(at);
        if (!json_is_string(value))
                return policy_invalid(judge, "Invalid Simple-Condition: value must be a string.");
        return judge_match(judge, true, s3_str_of(json_object_iter_key(at)), json_text(value));
}

static enum s3_error judge_conditions(struct post_judge *judge, const json_t *conditions)
{
        enum s3_error error = S3_OK;
        json_t *condition;
        size_t i;

        if (json_array_size(conditions) > S3_POST_CONDITIONS_MAX)
                return policy_invalid(judge, "Too many conditions.");
        json_array_foreach(conditions, i, condition)
        {
                if (json_is_array(condition))
                        error = judge_array(judge, condition);
                else if (json_is_object(condition))
                        error = judge_object(judge, condition);
                else
                        error = policy_invalid(judge, "Invalid Condition: must be an object or an array.");
                if (error != S3_OK)
                        return error;
        }
        return S3_OK;
}

/* ---- fields that no condition names ---------------------------------------------------------- */

static bool needs_no_condition(struct s3_str name)
{
        static const char *const exempt[] = {"x-amz-signature", "signature", "AWSAccessKeyId", "policy", "file"};

        for (unsigned i = 0; i < sizeof(exempt) / sizeof(exempt[0]); i++)
                if (s3_str_eq_nocase(name, s3_str_of(exempt[i])))
                        return true;
        return s3_str_starts_nocase(name, S3_STR("x-ignore-"));
}

static enum s3_error refuse_extra(struct post_judge *judge, struct s3_str name)
{
        snprintf(judge->message, S3_POST_MESSAGE, "Invalid according to Policy: Extra input fields: %.*s",
                 (int)name.len, name.data);
        return S3_ERR_ACCESS_DENIED;
}

static enum s3_error judge_rest(struct post_judge *judge)
{
        if (!judge->bucket_named)
                return refuse_extra(judge, S3_STR("bucket"));
        for (size_t i = 0; i < judge->form->count; i++)
                if (!judge->named[i] && !needs_no_condition(judge->form->fields[i].name))
                        return refuse_extra(judge, judge->form->fields[i].name);
        return S3_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static enum s3_error judge_document(struct post_judge *judge, const json_t *root, int64_t now_ms)
{
        const json_t *expiration = json_object_get(root, "expiration");
        const json_t *conditions = json_object_get(root, "conditions");
        enum s3_error error;
        int64_t until;

        if (!json_is_object(root))
                return policy_invalid(judge, "Invalid JSON.");
        if (expiration == NULL)
                return policy_invalid(judge, "Policy missing expiration.");
        if (!json_is_string(expiration) || s3_date_parse_iso(json_text(expiration), &until) != 0)
                return policy_invalid(judge, "Invalid 'expiration' value.");
        if (conditions == NULL)
                return policy_invalid(judge, "Policy missing conditions.");
        if (!json_is_array(conditions))
                return policy_invalid(judge, "Invalid 'conditions' value: must be a List.");
        if (now_ms >= until) {
                snprintf(judge->message, S3_POST_MESSAGE, "Invalid according to Policy: Policy expired.");
                return S3_ERR_ACCESS_DENIED;
        }
        error = judge_conditions(judge, conditions);
        return error == S3_OK ? judge_rest(judge) : error;
}

enum s3_error s3_post_policy_check(struct s3_str policy, const struct s3_post_form *form, int64_t now_ms,
                                   struct s3_post_range *range, char message[S3_POST_MESSAGE])
{
        struct post_judge judge = {.form = form, .range = range, .message = message};
        enum s3_error error;
        json_t *root = NULL;
        size_t len;
        char *text = policy_decode(policy, &len);

        *range = (struct s3_post_range){.min = 0, .max = UINT64_MAX};
        message[0] = '\0';
        if (text == NULL && len != 0)
                return S3_ERR_INTERNAL_ERROR;
        if (text == NULL)
                return policy_invalid(&judge, "Invalid Base64 encoding.");
        if (form->count > S3_FORM_FIELDS_MAX)
                error = S3_ERR_INTERNAL_ERROR;
        else if (!policy_to_json(text, &len))
                error = policy_invalid(&judge, "Invalid JSON.");
        else if ((root = s3_json_load((struct s3_str){text, len}, JSON_REJECT_DUPLICATES, NULL)) != NULL)
                error = judge_document(&judge, root, now_ms);
        else if (errno == ENOMEM)
                error = S3_ERR_INTERNAL_ERROR;
        else
                error = policy_invalid(&judge, "Invalid JSON.");
        json_decref(root);
        free(text);
        return error;
}

int s3_post_key(struct s3_str key, struct s3_str filename, char *out, size_t cap)
{
        const struct s3_str variable = S3_STR("${filename}");
        size_t used = 0;

        while (key.len > 0) {
                bool found = s3_str_starts(key, variable);
                struct s3_str piece = found ? filename : (struct s3_str){key.data, 1};
                size_t n = found ? variable.len : 1;

                if (cap - used < piece.len)
                        return -ENOBUFS;
                if (piece.len > 0)
                        memcpy(out + used, piece.data, piece.len);
                used += piece.len;
                key.data += n;
                key.len -= n;
        }
        return (int)used;
}
