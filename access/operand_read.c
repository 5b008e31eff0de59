/*
 * Condition operators, and the values that they compare: numbers, dates, addresses. Policies and
 * requests are read by the same functions. Pure; rules A14 to A17.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "compiled.h"
#include "s3_date.h"

#define NEGATED true
#define OPERATOR(text, operand, relation, negated)                                                                     \
        {                                                                                                              \
                {text, sizeof(text) - 1}, ACC_OPERAND_##operand, ACC_##relation, negated                               \
        }

static const struct acc_operator operators[] = {
        OPERATOR("StringEquals", STRING, EQUAL, false),
        OPERATOR("StringNotEquals", STRING, EQUAL, NEGATED),
        OPERATOR("StringEqualsIgnoreCase", NOCASE, EQUAL, false),
        OPERATOR("StringNotEqualsIgnoreCase", NOCASE, EQUAL, NEGATED),
        OPERATOR("StringLike", LIKE, EQUAL, false),
        OPERATOR("StringNotLike", LIKE, EQUAL, NEGATED),
        OPERATOR("ArnEquals", ARN, EQUAL, false),
        OPERATOR("ArnNotEquals", ARN, EQUAL, NEGATED),
        OPERATOR("ArnLike", ARN, EQUAL, false),
        OPERATOR("ArnNotLike", ARN, EQUAL, NEGATED),
        OPERATOR("NumericEquals", NUMBER, EQUAL, false),
        OPERATOR("NumericNotEquals", NUMBER, EQUAL, NEGATED),
        OPERATOR("NumericLessThan", NUMBER, LESS, false),
        OPERATOR("NumericLessThanEquals", NUMBER, LESS_EQUAL, false),
        OPERATOR("NumericGreaterThan", NUMBER, GREATER, false),
        OPERATOR("NumericGreaterThanEquals", NUMBER, GREATER_EQUAL, false),
        OPERATOR("DateEquals", DATE, EQUAL, false),
        OPERATOR("DateNotEquals", DATE, EQUAL, NEGATED),
        OPERATOR("DateLessThan", DATE, LESS, false),
        OPERATOR("DateLessThanEquals", DATE, LESS_EQUAL, false),
        OPERATOR("DateGreaterThan", DATE, GREATER, false),
        OPERATOR("DateGreaterThanEquals", DATE, GREATER_EQUAL, false),
        OPERATOR("Bool", BOOL, EQUAL, false),
        OPERATOR("BinaryEquals", BINARY, EQUAL, false),
        OPERATOR("IpAddress", NET, EQUAL, false),
        OPERATOR("NotIpAddress", NET, EQUAL, NEGATED),
        OPERATOR("Null", NULL, EQUAL, false),
};

const struct acc_operator *acc_operator_find(struct s3_str name)
{
        for (size_t i = 0; i < LENGTH(operators); i++)
                if (s3_str_eq(operators[i].name, name))
                        return &operators[i];
        return NULL;
}

static bool is_digit(char c)
{
        return c >= '0' && c <= '9';
}

#define WHOLE_DIGITS    18u
#define FRACTION_DIGITS 9u

int acc_number_read(struct s3_str text, acc_number *out)
{
        bool minus = text.len > 0 && text.data[0] == '-';
        unsigned whole = 0, fraction = 0;
        acc_number number = 0;
        size_t at = minus;

        for (; at < text.len && is_digit(text.data[at]); at++, whole++) {
                if (whole == WHOLE_DIGITS)
                        return -ERANGE;
                number = number * 10 + (text.data[at] - '0');
        }
        if (at < text.len && text.data[at] == '.') {
                for (at++; at < text.len && is_digit(text.data[at]); at++, fraction++) {
                        if (fraction == FRACTION_DIGITS)
                                return -ERANGE;
                        number = number * 10 + (text.data[at] - '0');
                }
                if (fraction == 0)
                        return -EINVAL;
        }
        if (whole == 0 || at < text.len)
                return -EINVAL;
        for (; fraction < FRACTION_DIGITS; fraction++)
                number *= 10;
        *out = minus ? -number : number;
        return 0;
}

/*
 * A shorter form of W3C's dates, made a whole one: "2026", "2026-11", "2026-11-26",
 * "2026-11-26T10:00Z".
 */
static int date_short(struct s3_str text, int64_t *out)
{
        static const char rest[] = "0000-01-01T00:00:00Z";
        char whole[sizeof("0000-00-00T00:00:00+00:00")];
        size_t zone = text.len > 16 ? text.len - 16 : 0;

        if (text.len == 4 || text.len == 7 || text.len == 10) {
                memcpy(whole, rest, sizeof(rest));
                memcpy(whole, text.data, text.len);
                return s3_date_parse_iso((struct s3_str){whole, sizeof(rest) - 1}, out);
        }
        if (text.data[10] != 'T' || (zone != 1 && zone != 6))
                return -EINVAL;
        memcpy(whole, text.data, 16);
        memcpy(whole + 16, ":00", 3);
        memcpy(whole + 19, text.data + 16, zone);
        return s3_date_parse_iso((struct s3_str){whole, 19 + zone}, out);
}

int acc_date_read(struct s3_str text, int64_t *out)
{
        uint64_t seconds;

        if (text.len != 4 && s3_parse_uint(text, INT64_MAX / 1000, &seconds) == 0) {
                *out = (int64_t)seconds * 1000;
                return 0;
        }
        if (s3_date_parse_iso(text, out) == 0)
                return 0;
        return text.len == 4 || text.len == 7 || text.len == 10 || text.len == 17 || text.len == 22
                       ? date_short(text, out)
                       : -EINVAL;
}

int acc_bool_read(struct s3_str text, bool *out)
{
        *out = s3_str_eq_nocase(text, S3_STR("true"));
        return *out || s3_str_eq_nocase(text, S3_STR("false")) ? 0 : -EINVAL;
}

#define V4_BITS   96u /* of a mapped address, before the IPv4 address */
#define V4_MAPPED "\0\0\0\0\0\0\0\0\0\0\xff\xff"

/* Clears what is behind the bits that count. */
static void net_mask(struct acc_net *net)
{
        for (unsigned i = 0; i < sizeof(net->address); i++) {
                if (8 * i >= net->bits)
                        net->address[i] = 0;
                else if (8 * (i + 1) > net->bits)
                        net->address[i] &= (uint8_t)(0xff << (8 * (i + 1) - net->bits));
        }
}

int acc_net_read(struct s3_str text, struct acc_net *out)
{
        const char *slash = text.len > 0 ? memchr(text.data, '/', text.len) : NULL;
        size_t len = slash != NULL ? (size_t)(slash - text.data) : text.len;
        char address[INET6_ADDRSTRLEN];
        uint64_t bits;
        bool v4;

        if (len >= sizeof(address) || len == 0 || memchr(text.data, '\0', len) != NULL)
                return -EINVAL;
        memcpy(address, text.data, len);
        address[len] = '\0';
        v4 = inet_pton(AF_INET, address, out->address + 12) == 1;
        if (v4)
                memcpy(out->address, V4_MAPPED, 12);
        else if (inet_pton(AF_INET6, address, out->address) != 1)
                return -EINVAL;
        bits = v4 ? 32 : 128;
        if (slash != NULL && s3_parse_uint((struct s3_str){slash + 1, text.len - len - 1}, bits, &bits) != 0)
                return -EINVAL;
        out->bits = (uint8_t)(bits + (v4 ? V4_BITS : 0));
        net_mask(out);
        return 0;
}
