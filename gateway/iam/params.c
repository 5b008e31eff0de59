/*
 * params.c - checks parameters against the table of params.h. Called for each request, after its
 * signature has been checked.
 */
#include "gateway/iam/params.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"

enum iam_pattern { NAME, ANY, PATH, PREFIX, TEXT, LATIN, WORD, STATUS, VERSION, BOOL, SESSION, SCOPE, FILTER, USAGE, ITEMS, DURATION, EXTERNAL };

static const struct {
        const char *name;
        size_t least, most; /* characters */
        enum iam_pattern pattern;
} params[IAM_PARAM_COUNT] = {
#define IAM_PARAM_ROW(id, name, least, most, pattern) {name, least, most, pattern},
        IAM_PARAMS(IAM_PARAM_ROW)
#undef IAM_PARAM_ROW
};

/* Of patterns that are a choice: the words, each with a blank on both sides. */
static const char *const choices[] = {
        [STATUS] = " Active Inactive ",
        [BOOL] = " true false ",
        [SCOPE] = " All AWS Local ",
        [FILTER] = " User Role Group LocalManagedPolicy AWSManagedPolicy ",
        [USAGE] = " PermissionsPolicy PermissionsBoundary ",
        [EXTERNAL] = NULL,
};

static size_t param_chars(const char *text)
{
        size_t count = 0;

        for (; *text != '\0'; text++)
                count += ((unsigned char)*text & 0xc0) != 0x80;
        return count;
}

static bool is_all(const char *text, char first, char last)
{
        for (; *text != '\0'; text++)
                if (*text < first || *text > last)
                        return false;
        return true;
}

static bool is_number(const char *text, uint64_t least, uint64_t most)
{
        uint64_t value;

        return s3_parse_uint(s3_str_of(text), most, &value) == 0 && value >= least;
}

static bool is_choice(const char *text, const char *words)
{
        char word[32];
        int n = snprintf(word, sizeof(word), " %s ", text);

        return strchr(text, ' ') == NULL && (size_t)n < sizeof(word) && strstr(words, word) != NULL;
}

/* IAM's text: tab, line ends, and what is printable. XML could not carry other control characters. */
static bool is_plain_text(const char *text)
{
        for (; *text != '\0'; text++)
                if (((unsigned char)*text < ' ' && strchr("\t\n\r", *text) == NULL) || *text == 0x7f)
                        return false;
        return true;
}

/* The same of Latin-1, which is the range that AWS documents for policies and descriptions. */
static bool is_latin_text(const char *text)
{
        for (const char *p = text; *p != '\0'; p++)
                if ((unsigned char)*p > 0xc3) /* U+0100 and above */
                        return false;
        return is_plain_text(text);
}

static bool param_fits(enum iam_pattern pattern, const char *text)
{
        size_t len = strlen(text);

        switch (pattern) {
        case NAME:
                return strspn(text, LETTERS "+=,.@-") == len;
        case WORD:
                return strspn(text, LETTERS) == len;
        case ANY:
                return is_all(text, '!', '~');
        case PATH:
                return text[0] == '/' && text[len - 1] == '/' && is_all(text, '!', '~');
        case PREFIX:
                return text[0] == '/' && is_all(text, '!', '~');
        case TEXT:
                return is_plain_text(text);
        case LATIN:
                return is_latin_text(text);
        case VERSION:
                return text[0] == 'v' && text[1] != '0' && strspn(text + 1, "0123456789") == len - 1;
        case SESSION:
                return is_number(text, 3600, 43200);
        case ITEMS:
                return is_number(text, 1, 1000);
        case DURATION:
                return is_number(text, 900, 129600);
        case EXTERNAL:
                return strspn(text, LETTERS "+=,.@:/-") == len;
        default:
                return is_choice(text, choices[pattern]);
        }
}

/* Of a parameter: what AWS calls it in messages begins with a small letter. */
static int refuse_param(const char *name, const char *constraint, size_t limit, char *message, size_t size)
{
        snprintf(message, size, "1 validation error detected: Value at '%c%s' failed to satisfy constraint: %s",
                 tolower((unsigned char)*name), name + 1, constraint);
        if (limit > 0)
                snprintf(message + strlen(message), size - strlen(message), "%zu", limit);
        return -EINVAL;
}

static bool is_numeric(enum iam_pattern pattern)
{
        return pattern == SESSION || pattern == ITEMS || pattern == DURATION;
}

/* Of a number as of a text: digits, with a sign or none. */
static bool has_form_of_number(const char *text)
{
        text += *text == '-' || *text == '+';
        return *text != '\0' && is_all(text, '0', '9');
}

int iam_param_check(enum iam_param i, const char *value, char *message, size_t size)
{
        size_t chars = param_chars(value);
        const char *name = params[i].name;

        if (is_numeric(params[i].pattern) && !has_form_of_number(value)) {
                snprintf(message, size, "%s is not a number.", name);
                return -EBADMSG;
        }
        if (chars > params[i].most && !is_numeric(params[i].pattern))
                return refuse_param(name, "Member must have length less than or equal to ", params[i].most, message,
                                    size);
        if (chars < params[i].least)
                return refuse_param(name, "Member must have length greater than or equal to ", params[i].least, message,
                                    size);
        if (param_fits(params[i].pattern, value))
                return 0;
        snprintf(message, size, "The specified value for %c%s is invalid.", tolower((unsigned char)*name), name + 1);
        return -EINVAL;
}

/* ---- tags ------------------------------------------------------------------------------------ */

/* "N" or "N.rest" of "PREFIX.member.N...": N from 1, or 0 if it is none. */
static unsigned member_number(const char *name, const char *prefix, const char **rest)
{
        size_t len = strlen(prefix);
        char *end;
        unsigned long n;

        if (strncmp(name, prefix, len) != 0 || strncmp(name + len, ".member.", 8) != 0)
                return 0;
        name += len + 8;
        if (*name < '1' || *name > '9')
                return 0;
        n = strtoul(name, &end, 10);
        *rest = end;
        return n <= IAM_TAGS_MAX ? (unsigned)n : IAM_TAGS_MAX + 1;
}

static bool take_tag(struct iam_params *out, const struct iam_pair *pair, uint64_t known)
{
        const char *rest = "";
        unsigned n = (known & IAM_TAGS) != 0 ? member_number(pair->name, "Tags", &rest) : 0;
        unsigned k = (known & IAM_TAG_KEYS) != 0 ? member_number(pair->name, "TagKeys", &rest) : 0;

        if (n > IAM_TAGS_MAX || k > IAM_TAGS_MAX)
                return false;
        if (k > 0 && *rest == '\0') {
                out->tag_keys[k - 1] = pair->value;
                out->tag_key_count += 1;
                return true;
        }
        if (n == 0)
                return false;
        if (strcmp(rest, ".Key") == 0) {
                out->tags[n - 1].name = pair->value;
                out->tag_count += 1;
                return true;
        }
        if (strcmp(rest, ".Value") != 0)
                return false;
        out->tags[n - 1].text = pair->value;
        return true;
}

#define TAG_KEY_CHARS   128u
#define TAG_VALUE_CHARS 256u
#define TAG_PATTERN     "[\\p{L}\\p{Z}\\p{N}_.:/=+\\-@]"

/* One part of tag n, as "tags.N.member.key". */
static int check_tag_part(unsigned n, const char *part, const char *text, size_t most, char *message, size_t size)
{
        const bool key = most == TAG_KEY_CHARS;
        char name[48];

        snprintf(name, sizeof(name), "tags.%u.member.%s", n, part);
        if (text == NULL)
                return refuse_param(name, "Member must not be null", 0, message, size);
        if (key && *text == '\0')
                return refuse_param(name, "Member must have length greater than or equal to ", 1, message, size);
        if (param_chars(text) > most)
                return refuse_param(name, "Member must have length less than or equal to ", most, message, size);
        if (!s3_tag_text_valid(s3_str_of(text), most))
                return refuse_param(name,
                                    key ? "Member must satisfy regular expression pattern: " TAG_PATTERN "+"
                                        : "Member must satisfy regular expression pattern: " TAG_PATTERN "*",
                                    0, message, size);
        return 0;
}

static int check_tag(const struct iam_params *out, unsigned i, bool exact, char *message, size_t size)
{
        const struct gw_pair *tag = &out->tags[i];
        int rv = check_tag_part(i + 1, "key", tag->name, TAG_KEY_CHARS, message, size);

        if (rv == 0)
                rv = check_tag_part(i + 1, "value", tag->text, TAG_VALUE_CHARS, message, size);
        if (rv != 0)
                return rv;
        if (strncasecmp(tag->name, "aws:", 4) == 0) {
                snprintf(message, size, "Tag keys that begin with aws: are reserved for system use.");
                return -EEXIST;
        }
        for (unsigned j = 0; j < i; j++)
                if ((exact ? strcmp : strcasecmp)(out->tags[j].name, tag->name) == 0) {
                        snprintf(message, size, "Duplicate tag keys found.%s",
                                 exact ? "" : " Please note that Tag keys are case insensitive.");
                        return -EEXIST;
                }
        return 0;
}

/* Each key is there, differs from the others (without regard to case, or exact), and has AWS's characters and length. */
static int check_tags(const struct iam_params *out, bool exact, char *message, size_t size)
{
        int rv = 0;

        for (unsigned i = 0; i < out->tag_key_count; i++)
                if (out->tag_keys[i] == NULL || *out->tag_keys[i] == '\0' ||
                    !s3_tag_text_valid(s3_str_of(out->tag_keys[i]), TAG_KEY_CHARS))
                        return refuse_param("tagKeys",
                                            "Member must satisfy constraint: [Member must have length less than or "
                                            "equal to 128, Member must have length greater than or equal to 1, Member "
                                            "must satisfy regular expression pattern: " TAG_PATTERN
                                            "+, Member must not be null]",
                                            0, message, size);
        for (unsigned i = 0; rv == 0 && i < IAM_TAGS_MAX; i++)
                if (i < out->tag_count || out->tags[i].name != NULL || out->tags[i].text != NULL)
                        rv = check_tag(out, i, exact, message, size);
        return rv;
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* "LIST.member." and more, of a list that the action reads. */
static bool is_of_list(const char *name, uint64_t known)
{
        static const struct {
                uint64_t bit;
                const char *start;
        } lists[] = {
                {IAM_SIM_LISTS, "ActionNames.member."},
                {IAM_SIM_LISTS, "ContextEntries.member."},
                {IAM_SIM_LISTS, "PermissionsBoundaryPolicyInputList.member."},
                {IAM_SIM_LISTS, "PolicyInputList.member."},
                {IAM_SIM_LISTS, "ResourceArns.member."},
                {IAM_FILTER_LIST, "Filter.member."},
                {IAM_STS_LISTS, "PolicyArns.member."},
                {IAM_STS_LISTS, "TransitiveTagKeys.member."},
                {IAM_CLIENTS, "ClientIDList"}, /* an empty one has this name alone */
                {IAM_THUMBPRINTS, "ThumbprintList"},
        };

        for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
                if ((known & lists[i].bit) != 0 && strncmp(name, lists[i].start, strlen(lists[i].start)) == 0)
                        return true;
        return false;
}

static bool is_of_every_call(const char *name)
{
        return strcmp(name, "Action") == 0 || strcmp(name, "Version") == 0;
}

static int params_take_one(const struct iam_pair *pair, uint64_t known, struct iam_params *out, char *message,
                           size_t size)
{
        unsigned i;

        for (i = 0; i < IAM_PARAM_COUNT; i++)
                if ((known >> i & 1) != 0 && strcmp(params[i].name, pair->name) == 0) {
                        out->value[i] = pair->value;
                        return iam_param_check(i, pair->value, message, size);
                }
        if (is_of_every_call(pair->name) || is_of_list(pair->name, known) || take_tag(out, pair, known))
                return 0;
        snprintf(message, size, "The parameter %.64s is not supported for this action.", pair->name);
        return -EINVAL;
}

/* Also one of which a part is missing, that check_tags() names. */
static bool names_tags(const struct iam_params *out)
{
        for (unsigned i = 0; i < IAM_TAGS_MAX; i++)
                if (out->tags[i].name != NULL || out->tags[i].text != NULL)
                        return true;
        return false;
}

int iam_params_take(const struct iam_form *form, uint64_t needs, uint64_t may, struct iam_params *out, char *message,
                    size_t size)
{
        int rv = 0;
        unsigned i;

        memset(out, 0, sizeof(*out));
        for (i = 0; rv == 0 && i < form->count; i++)
                rv = params_take_one(&form->pair[i], needs | may, out, message, size);
        for (i = 0; rv == 0 && i < IAM_PARAM_COUNT; i++)
                if ((needs >> i & 1) != 0 && out->value[i] == NULL)
                        rv = refuse_param(params[i].name, "Member must not be null", 0, message, size);
        if (rv == 0 && (needs & IAM_TAGS) != 0 && !names_tags(out))
                rv = refuse_param("tags", "Member must not be null", 0, message, size);
        if (rv == 0 && (needs & IAM_TAG_KEYS) != 0 && out->tag_key_count == 0)
                rv = refuse_param("tagKeys", "Member must not be null", 0, message, size);
        return rv == 0 ? check_tags(out, (may & IAM_TAGS_EXACT) != 0, message, size) : rv;
}
