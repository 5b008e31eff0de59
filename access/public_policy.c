/*
 * Whether a statement of a bucket policy grants something to the public, as S3 defines it ("The
 * meaning of public" in its user guide). Called when a bucket policy is compiled; pure; rule A21.
 */
#include "compiled.h"

/* Keys whose fixed values make a grant one for somebody. */
static const enum acc_key_id limiting_keys[] = {
        ACC_KEY_AWS_PRINCIPAL_ACCOUNT, ACC_KEY_AWS_PRINCIPAL_ARN,       ACC_KEY_AWS_PRINCIPAL_ORG_ID,
        ACC_KEY_AWS_PRINCIPAL_SERVICE, ACC_KEY_AWS_SOURCE_ACCOUNT,      ACC_KEY_AWS_SOURCE_ARN,
        ACC_KEY_AWS_SOURCE_OWNER,      ACC_KEY_AWS_SOURCE_VPC,          ACC_KEY_AWS_SOURCE_VPCE,
        ACC_KEY_AWS_USER_ID,           ACC_KEY_S3_ACCESS_POINT_ACCOUNT, ACC_KEY_S3_ACCESS_POINT_ARN,
        ACC_KEY_S3_SSE_KMS_KEY,
};

static bool is_limiting_key(enum acc_key_id id)
{
        for (size_t i = 0; i < LENGTH(limiting_keys); i++)
                if (limiting_keys[i] == id)
                        return true;
        return false;
}

/* Has it no wildcard and no variable? */
static bool is_fixed(const struct acc_pattern *pattern)
{
        for (size_t i = 0; i < pattern->count; i++)
                if (pattern->pieces[i].kind != ACC_PIECE_TEXT)
                        return false;
        return pattern->count > 0;
}

/* An access point's ARN may have a wildcard in its name if the account is fixed. */
static bool has_fixed_account(const struct acc_pattern *pattern)
{
        struct s3_str parts[ACC_ARN_PARTS];

        return pattern->count > 0 && pattern->pieces[0].kind == ACC_PIECE_TEXT &&
               acc_arn_split(pattern->pieces[0].text, parts) && parts[4].len > 0;
}

static bool arn_is_fixed(const struct acc_arn *arn, enum acc_key_id id)
{
        if (arn->any)
                return false;
        if (id == ACC_KEY_S3_ACCESS_POINT_ARN)
                return is_fixed(&arn->parts[4]);
        for (unsigned part = 0; part < ACC_ARN_PARTS; part++)
                if (arn->parts[part].count > 0 && !is_fixed(&arn->parts[part]))
                        return false;
        return true;
}

#define V4_WIDEST 8u /* a wider range of addresses is the public */
#define V6_WIDEST 32u

static bool net_is_wide(const struct acc_net *net)
{
        static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
        unsigned bits = net->bits < 96 ? net->bits : 96;
        struct acc_net all_v4 = {.bits = 96};

        memcpy(all_v4.address, mapped, sizeof(mapped));
        if (memcmp(net->address, mapped, sizeof(mapped)) == 0 && net->bits >= 96)
                return net->bits - 96u < V4_WIDEST;
        for (unsigned i = bits; i < 96; i++) /* does it cover all of IPv4? */
                all_v4.address[i / 8] &= (uint8_t) ~(0x80u >> (i % 8));
        return net->bits < V6_WIDEST || (net->bits < 96 && memcmp(net->address, all_v4.address, 12) == 0);
}

static bool value_is_fixed(const struct acc_condition *condition, const union acc_value *value)
{
        switch (condition->op->operand) {
        case ACC_OPERAND_NET:
                return condition->key.id == ACC_KEY_AWS_SOURCE_IP && !net_is_wide(&value->net);
        case ACC_OPERAND_ARN:
                return arn_is_fixed(value->arn, condition->key.id);
        case ACC_OPERAND_STRING:
        case ACC_OPERAND_NOCASE:
        case ACC_OPERAND_LIKE:
                return is_fixed(&value->pattern) ||
                       (condition->key.id == ACC_KEY_S3_ACCESS_POINT_ARN && has_fixed_account(&value->pattern));
        default:
                return false;
        }
}

/* Does the condition let only fixed values pass, and never an absent one? */
static bool condition_limits(const struct acc_condition *condition)
{
        bool net = condition->op->operand == ACC_OPERAND_NET;

        if (condition->op->negated || condition->if_exists || condition->set == ACC_SET_ALL)
                return false;
        if (!net && !is_limiting_key(condition->key.id))
                return false;
        for (size_t i = 0; i < condition->count; i++)
                if (!value_is_fixed(condition, &condition->values[i]))
                        return false;
        return true;
}

bool acc_statement_is_public(const struct acc_statement *statement)
{
        bool fixed = !statement->not_principal;

        if (statement->deny)
                return false;
        for (size_t i = 0; i < statement->names; i++)
                fixed &= statement->name[i].kind != ACC_NAME_EVERYONE && statement->name[i].kind != ACC_NAME_ANY_AWS &&
                         statement->name[i].kind != ACC_NAME_FEDERATED;
        for (size_t i = 0; !fixed && i < statement->conditions; i++)
                fixed = condition_limits(&statement->condition[i]);
        return !fixed;
}
