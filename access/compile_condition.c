/*
 * Compiles Condition: an entry for each operator and key. Called by compile_statement.c; rules A14
 * to A20.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "builder.h"
#include "s3_checksum.h"

#define KEY_MAX_BYTES 512u

static struct s3_str cut_front(struct s3_str text, size_t len)
{
        return (struct s3_str){text.data + len, text.len - len};
}

/* "ForAnyValue:StringLikeIfExists": the operator, and what is before and behind its name. */
static bool operator_read(struct s3_str name, struct acc_condition *out)
{
        struct s3_str all = S3_STR("ForAllValues:"), any = S3_STR("ForAnyValue:"), exists = S3_STR("IfExists");

        if (s3_str_starts(name, all)) {
                out->set = ACC_SET_ALL;
                name = cut_front(name, all.len);
        } else if (s3_str_starts(name, any)) {
                out->set = ACC_SET_ANY;
                name = cut_front(name, any.len);
        }
        if (name.len > exists.len && s3_str_eq(cut_front(name, name.len - exists.len), exists)) {
                out->if_exists = true;
                name.len -= exists.len;
        }
        out->op = acc_operator_find(name);
        return out->op != NULL &&
               (out->op->operand != ACC_OPERAND_NULL || (!out->if_exists && out->set == ACC_SET_NONE));
}

/* A key of a bucket policy that begins with aws: or s3: must be a known one. */
static bool key_allowed(enum acc_kind kind, const struct acc_key *key)
{
        if (key->name.len == 0 || key->name.len > KEY_MAX_BYTES)
                return false;
        if (kind != ACC_BUCKET || key->id != ACC_KEY_OTHER)
                return true;
        return memchr(key->name.data, ':', key->name.len) != NULL && !s3_str_starts_nocase(key->name, S3_STR("aws:")) &&
               !s3_str_starts_nocase(key->name, S3_STR("s3:"));
}

/* The text of a value, which JSON may give as a number or a boolean, too. */
static bool value_text(const json_t *json, char room[32], struct s3_str *out)
{
        if (json_is_string(json)) {
                *out = acc_json_text(json);
                return true;
        }
        if (json_is_boolean(json)) {
                *out = json_is_true(json) ? S3_STR("true") : S3_STR("false");
                return true;
        }
        if (json_is_integer(json))
                snprintf(room, 32, "%" JSON_INTEGER_FORMAT, json_integer_value(json));
        else if (json_is_real(json))
                snprintf(room, 32, "%.15g", json_real_value(json));
        else
                return false;
        *out = s3_str_of(room);
        return true;
}

/* Bytes that a text in base64 stands for; SIZE_MAX: its length is none. */
static size_t base64_length(struct s3_str text)
{
        if (text.len % 4 != 0)
                return SIZE_MAX;
        if (text.len == 0)
                return 0;
        return text.len / 4 * 3 - (text.data[text.len - 1] == '=') - (text.data[text.len - 2] == '=');
}

static int binary_read(struct acc_policy *policy, struct s3_str text, struct s3_str *out)
{
        size_t len = base64_length(text);
        char *bytes;

        if (len == SIZE_MAX)
                return -EINVAL;
        bytes = acc_room(policy, len, 1);
        if (bytes == NULL)
                return -ENOMEM;
        *out = (struct s3_str){bytes, len};
        return s3_base64_decode(text, bytes, len);
}

static int operand_build(struct acc_builder *builder, enum acc_operand operand, struct s3_str text,
                         union acc_value *out)
{
        struct acc_policy *policy = builder->policy;

        switch (operand) {
        case ACC_OPERAND_STRING:
        case ACC_OPERAND_NOCASE:
        case ACC_OPERAND_LIKE:
                return acc_pattern_read(policy, text, operand == ACC_OPERAND_LIKE, builder->variables, &out->pattern);
        case ACC_OPERAND_ARN:
                out->arn = acc_room(policy, 1, sizeof(*out->arn));
                return out->arn != NULL ? acc_arn_read(policy, text, builder->variables, false, out->arn) : -ENOMEM;
        case ACC_OPERAND_NUMBER:
                return acc_number_read(text, &out->number);
        case ACC_OPERAND_DATE:
                return acc_date_read(text, &out->date);
        case ACC_OPERAND_BOOL:
        case ACC_OPERAND_NULL:
                return acc_bool_read(text, &out->truth);
        case ACC_OPERAND_BINARY:
                return binary_read(policy, text, &out->bytes);
        case ACC_OPERAND_NET:
                return acc_net_read(text, &out->net);
        }
        return -EINVAL;
}

static int build_values(struct acc_builder *builder, json_t *json, struct acc_condition *out)
{
        size_t count = acc_list_count(json);
        union acc_value *values = acc_room(builder->policy, count, sizeof(*values));

        if (values == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < count; i++) {
                struct s3_str text;
                char room[32];
                int rv;

                if (!value_text(acc_list_at(json, i), room, &text))
                        return acc_refuse(builder, ACC_REFUSE_TYPE, S3_STR(""));
                rv = operand_build(builder, out->op->operand, text, &values[i]);
                if (rv == -ENOMEM)
                        return rv;
                if (rv != 0)
                        return acc_refuse(builder, ACC_REFUSE_CONDITION_VALUE, text);
        }
        out->values = values;
        out->count = count;
        return 0;
}

static int build_condition(struct acc_builder *builder, struct s3_str operator, const char * key, json_t *values,
                           struct acc_condition *out)
{
        struct s3_str name;

        if (!operator_read(operator, out))
                return acc_refuse(builder, ACC_REFUSE_CONDITION, operator);
        if (!acc_keep(builder->policy, s3_str_of(key), &name))
                return -ENOMEM;
        out->key = acc_key_find(name);
        if (!key_allowed(builder->policy->kind, &out->key))
                return acc_refuse(builder, ACC_REFUSE_CONDITION_KEY, name);
        return build_values(builder, values, out);
}

/* The keys of all operators, counted. False: an operator's value is no object. */
static bool conditions_count(json_t *json, size_t *count)
{
        const char *operator;
        json_t *keys;

        *count = 0;
        json_object_foreach(json, operator, keys)
        {
                if (!json_is_object(keys))
                        return false;
                *count += json_object_size(keys);
        }
        return true;
}

int acc_build_conditions(struct acc_builder *builder, json_t *json, struct acc_statement *out)
{
        struct acc_condition *conditions;
        const char *operator, * key;
        json_t *keys, *values;
        size_t count, at = 0;

        builder->element = "Condition";
        if (!json_is_object(json) || !conditions_count(json, &count))
                return acc_refuse(builder, ACC_REFUSE_TYPE, S3_STR(""));
        conditions = count <= UINT16_MAX ? acc_room(builder->policy, count, sizeof(*conditions)) : NULL;
        if (conditions == NULL)
                return -ENOMEM;
        json_object_foreach(json, operator, keys)
        {
                builder->part = operator;
                if (json_object_size(keys) == 0 &&
                    !operator_read(s3_str_of(operator), &(struct acc_condition){.op = NULL}))
                        return acc_refuse(builder, ACC_REFUSE_CONDITION, s3_str_of(operator));
                json_object_foreach(keys, key, values)
                {
                        int rv = build_condition(builder, s3_str_of(operator), key, values, &conditions[at++]);

                        if (rv != 0)
                                return rv;
                }
        }
        builder->part = NULL;
        out->condition = conditions;
        out->conditions = (uint16_t)count;
        return 0;
}
