/*
 * Decides a condition of a statement. Called for each request; pure; rules A14 to A19.
 */
#include "compiled.h"

/* The last part of a user's ARN is its name: arn:aws:iam::<account>:user/<path>/<name>. */
static bool principal_username(const struct acc_principal *principal, struct s3_str *out)
{
        const char *slash;

        if (principal->kind != ACC_USER || principal->arn.len == 0)
                return false;
        slash = memrchr(principal->arn.data, '/', principal->arn.len);
        if (slash == NULL)
                return false;
        out->data = slash + 1;
        out->len = principal->arn.len - (size_t)(out->data - principal->arn.data);
        return true;
}

static struct s3_str principal_type(enum acc_principal_kind kind)
{
        switch (kind) {
        case ACC_ROOT:
                return S3_STR("Account");
        case ACC_USER:
                return S3_STR("User");
        case ACC_ASSUMED_ROLE:
                return S3_STR("AssumedRole");
        case ACC_FEDERATED_USER:
                return S3_STR("FederatedUser");
        case ACC_SERVICE:
                return S3_STR("Service");
        case ACC_WEB_IDENTITY:
        case ACC_ANONYMOUS:
                break;
        }
        return S3_STR("Anonymous");
}

/* What the principal says about a key. False: it has no such key. */
static bool principal_value(const struct acc_principal *principal, enum acc_key_id id, struct s3_str *out)
{
        switch (id) {
        case ACC_KEY_AWS_PRINCIPAL_ARN:
                *out = principal->kind == ACC_ASSUMED_ROLE ? principal->parent_arn : principal->arn;
                break;
        case ACC_KEY_AWS_PRINCIPAL_ACCOUNT:
                *out = principal->account;
                break;
        case ACC_KEY_AWS_PRINCIPAL_TYPE:
                *out = principal_type(principal->kind);
                break;
        case ACC_KEY_AWS_USER_ID:
                *out = principal->kind == ACC_ANONYMOUS ? S3_STR("anonymous") : principal->user_id;
                break;
        default:
                return principal_username(principal, out);
        }
        return out->data != NULL;
}

bool acc_key_values(const struct acc_request *request, const struct acc_key *key, struct s3_str *room,
                    struct acc_values *out)
{
        *out = (struct acc_values){NULL, 0, ACC_KNOWN};
        switch (key->id) {
        case ACC_KEY_AWS_PRINCIPAL_ARN:
        case ACC_KEY_AWS_PRINCIPAL_ACCOUNT:
        case ACC_KEY_AWS_PRINCIPAL_TYPE:
        case ACC_KEY_AWS_USER_ID:
        case ACC_KEY_AWS_USER_NAME:
                if (!principal_value(request->principal, key->id, room))
                        return false;
                *out = (struct acc_values){room, 1, ACC_KNOWN};
                return true;
        default:
                return request->lookup != NULL && request->lookup(request->context, key, out) && out->count > 0;
        }
}

static bool relation_holds(enum acc_relation relation, int order)
{
        switch (relation) {
        case ACC_LESS:
                return order < 0;
        case ACC_LESS_EQUAL:
                return order <= 0;
        case ACC_GREATER:
                return order > 0;
        case ACC_GREATER_EQUAL:
                return order >= 0;
        case ACC_EQUAL:
                break;
        }
        return order == 0;
}

static bool net_holds(const struct acc_net *net, const struct acc_net *address)
{
        unsigned whole = net->bits / 8, rest = net->bits % 8;

        if (memcmp(net->address, address->address, whole) != 0)
                return false;
        return rest == 0 || ((net->address[whole] ^ address->address[whole]) >> (8 - rest)) == 0;
}

/* A value of the request, read as the operator's operand. */
struct operand {
        struct s3_str text;
        acc_number number;
        int64_t date;
        bool truth;
        struct acc_net net;
        struct s3_str arn[ACC_ARN_PARTS];
};

/* False: it is none of that kind, and equals nothing. */
static bool operand_read(enum acc_operand kind, struct s3_str text, struct operand *out)
{
        out->text = text;
        switch (kind) {
        case ACC_OPERAND_NUMBER:
                return acc_number_read(text, &out->number) == 0;
        case ACC_OPERAND_DATE:
                return acc_date_read(text, &out->date) == 0;
        case ACC_OPERAND_BOOL:
                return acc_bool_read(text, &out->truth) == 0;
        case ACC_OPERAND_NET:
                return acc_net_read(text, &out->net) == 0;
        case ACC_OPERAND_ARN:
                return acc_arn_split(text, out->arn);
        default:
                return true;
        }
}

/* Does a value of the request match one of the policy? Negation is the caller's. */
static bool operand_matches(const struct acc_request *request, const struct acc_operator *op,
                            const union acc_value *value, const struct operand *operand)
{
        switch (op->operand) {
        case ACC_OPERAND_STRING:
        case ACC_OPERAND_NOCASE:
        case ACC_OPERAND_LIKE:
                return acc_pattern_match(request, &value->pattern, operand->text, op->operand == ACC_OPERAND_NOCASE) ==
                       ACC_MATCH_YES;
        case ACC_OPERAND_ARN:
                return acc_arn_match(request, value->arn, operand->arn) == ACC_MATCH_YES;
        case ACC_OPERAND_NUMBER:
                return relation_holds(op->relation,
                                      (operand->number > value->number) - (operand->number < value->number));
        case ACC_OPERAND_DATE:
                return relation_holds(op->relation, (operand->date > value->date) - (operand->date < value->date));
        case ACC_OPERAND_BOOL:
                return operand->truth == value->truth;
        case ACC_OPERAND_BINARY:
                return s3_str_eq(operand->text, value->bytes);
        case ACC_OPERAND_NET:
                return net_holds(&value->net, &operand->net);
        case ACC_OPERAND_NULL:
                break;
        }
        return false;
}

/* Does one value of the request match any of the policy's? */
static bool matches_any(const struct acc_request *request, const struct acc_condition *condition, struct s3_str text)
{
        struct operand operand;

        if (!operand_read(condition->op->operand, text, &operand))
                return false;
        for (size_t i = 0; i < condition->count; i++)
                if (operand_matches(request, condition->op, &condition->values[i], &operand))
                        return true;
        return false;
}

static bool null_holds(const struct acc_condition *condition, bool present)
{
        for (size_t i = 0; i < condition->count; i++)
                if (condition->values[i].truth != present)
                        return true;
        return false;
}

/* The answer for a key that the request does not have (A18). */
static bool absent_holds(const struct acc_condition *condition)
{
        if (condition->if_exists || condition->set == ACC_SET_ALL)
                return true;
        return condition->set == ACC_SET_NONE && condition->op->negated;
}

/* Is there a variable among the policy's values that the caller does not know? */
static enum acc_unknown values_unknown(const struct acc_request *request, const struct acc_condition *condition)
{
        enum acc_operand operand = condition->op->operand;
        bool patterns = operand == ACC_OPERAND_STRING || operand == ACC_OPERAND_NOCASE || operand == ACC_OPERAND_LIKE;
        enum acc_unknown state = ACC_KNOWN;

        for (size_t i = 0; (patterns || operand == ACC_OPERAND_ARN) && i < condition->count && state != ACC_UNKNOWN; i++) {
                const union acc_value *value = &condition->values[i];
                enum acc_unknown one = patterns ? acc_pattern_unknown(request, &value->pattern)
                                                : acc_arn_unknown(request, value->arn);

                if (one != ACC_KNOWN)
                        state = one;
        }
        return state;
}

/* Of a key that is present. */
static bool present_holds(const struct acc_request *request, const struct acc_condition *condition,
                          const struct acc_values *values)
{
        bool negated = condition->op->negated;
        /* Without a set operator: any value matches, or if negated, none does. */
        bool every = condition->set == ACC_SET_ALL || (condition->set == ACC_SET_NONE && negated);

        for (size_t i = 0; i < values->count; i++)
                if ((matches_any(request, condition, values->values[i]) != negated) != every)
                        return !every;
        return every;
}

bool acc_condition_holds(const struct acc_request *request, const struct acc_condition *condition, bool deny)
{
        enum acc_unknown unknown;
        struct acc_values values;
        struct s3_str room;
        bool present = acc_key_values(request, &condition->key, &room, &values);

        if (values.unknown != ACC_KNOWN)
                return deny == (values.unknown == ACC_UNKNOWN);
        if (condition->op->operand == ACC_OPERAND_NULL)
                return null_holds(condition, present);
        if (present && condition->set != ACC_SET_NONE && values.count == 1 && values.values[0].len == 0)
                present = false; /* for the set operators, an empty text is an empty set */
        if (!present)
                return absent_holds(condition);
        unknown = values_unknown(request, condition);
        return unknown == ACC_KNOWN ? present_holds(request, condition, &values) : deny == (unknown == ACC_UNKNOWN);
}
