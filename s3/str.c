/*
 * Strings with a length: comparing, trimming, numbers, UTF-8. Called by everything in s3/ and by
 * its users; pure.
 */
#include <errno.h>

#include "s3_internal.h"

#define EVERYWHERE (S3_CLASS_UNRESERVED | S3_CLASS_PATH | S3_CLASS_LIST | S3_CLASS_XML)

const uint8_t s3_classes[256] = {
        [' '] = S3_CLASS_XML,
        ['!'] = S3_CLASS_XML,
        ['#' ... '%'] = S3_CLASS_XML,
        ['\'' ... ')'] = S3_CLASS_XML,
        ['*'] = S3_CLASS_XML | S3_CLASS_LIST,
        ['+' ... ','] = S3_CLASS_XML,
        ['-' ... '.'] = EVERYWHERE,
        ['/'] = S3_CLASS_XML | S3_CLASS_LIST | S3_CLASS_PATH,
        ['0' ... '9'] = EVERYWHERE,
        [':' ... ';'] = S3_CLASS_XML,
        ['='] = S3_CLASS_XML,
        ['?' ... '@'] = S3_CLASS_XML,
        ['A' ... 'Z'] = EVERYWHERE,
        ['[' ... '^'] = S3_CLASS_XML,
        ['_'] = EVERYWHERE,
        ['`'] = S3_CLASS_XML,
        ['a' ... 'z'] = EVERYWHERE,
        ['{' ... '}'] = S3_CLASS_XML,
        ['~'] = EVERYWHERE & ~S3_CLASS_LIST,
        [0x7f] = S3_CLASS_XML,
        ['\t'] = S3_CLASS_XML,
        ['\n'] = S3_CLASS_XML,
};

bool s3_str_eq_nocase(struct s3_str a, struct s3_str b)
{
        return a.len == b.len && s3_str_starts_nocase(a, b);
}

bool s3_str_starts(struct s3_str s, struct s3_str prefix)
{
        return s.len >= prefix.len && (prefix.len == 0 || memcmp(s.data, prefix.data, prefix.len) == 0);
}

bool s3_str_starts_nocase(struct s3_str s, struct s3_str prefix)
{
        if (s.len < prefix.len)
                return false;
        for (size_t i = 0; i < prefix.len; i++)
                if (s3_lower(s.data[i]) != s3_lower(prefix.data[i]))
                        return false;
        return true;
}

struct s3_str s3_str_trim(struct s3_str s)
{
        while (s.len > 0 && (s.data[0] == ' ' || s.data[0] == '\t')) {
                s.data++;
                s.len--;
        }
        while (s.len > 0 && (s.data[s.len - 1] == ' ' || s.data[s.len - 1] == '\t'))
                s.len--;
        return s;
}

bool s3_list_has(struct s3_str list, struct s3_str token)
{
        while (list.len > 0)
                if (s3_str_eq_nocase(s3_str_trim(s3_str_cut(list, ',', &list)), token))
                        return true;
        return false;
}

struct s3_str s3_str_cut(struct s3_str s, char c, struct s3_str *rest)
{
        const char *at = s.len > 0 ? memchr(s.data, c, s.len) : NULL;

        if (at == NULL) {
                *rest = (struct s3_str){NULL, 0};
                return s;
        }
        *rest = (struct s3_str){at + 1, s.len - (size_t)(at - s.data) - 1};
        return (struct s3_str){s.data, (size_t)(at - s.data)};
}

int s3_parse_uint(struct s3_str s, uint64_t max, uint64_t *out)
{
        uint64_t value = 0;
        bool over = false;

        if (s.len == 0)
                return -EINVAL;
        for (size_t i = 0; i < s.len; i++) {
                if (!s3_is_digit(s.data[i]))
                        return -EINVAL;
                over = over || __builtin_mul_overflow(value, 10, &value) ||
                       __builtin_add_overflow(value, (uint64_t)(s.data[i] - '0'), &value);
        }
        if (over || value > max)
                return -ERANGE;
        *out = value;
        return 0;
}

size_t s3_utf8_sequence(struct s3_str s)
{
        const unsigned char *p = (const unsigned char *)s.data;
        unsigned char low = 0x80,
                      high = 0xbf; /* bounds of the second byte: they exclude overlong forms and surrogates */
        size_t need;

        if (p[0] < 0x80)
                return 1;
        if (p[0] >= 0xc2 && p[0] <= 0xdf)
                need = 2;
        else if (p[0] >= 0xe0 && p[0] <= 0xef)
                need = 3;
        else if (p[0] >= 0xf0 && p[0] <= 0xf4)
                need = 4;
        else
                return 0;
        if (p[0] == 0xe0)
                low = 0xa0;
        else if (p[0] == 0xed)
                high = 0x9f;
        else if (p[0] == 0xf0)
                low = 0x90;
        else if (p[0] == 0xf4)
                high = 0x8f;
        if (s.len < need || p[1] < low || p[1] > high)
                return 0;
        for (size_t i = 2; i < need; i++)
                if (p[i] < 0x80 || p[i] > 0xbf)
                        return 0;
        return need;
}

bool s3_utf8_valid(struct s3_str s)
{
        while (s.len > 0) {
                uint64_t eight;

                if (s.len >= sizeof(eight)) {
                        memcpy(&eight, s.data, sizeof(eight));
                        if ((eight & 0x8080808080808080u) == 0) { /* ASCII, as most text is */
                                s.data += sizeof(eight);
                                s.len -= sizeof(eight);
                                continue;
                        }
                }
                size_t n = s3_utf8_sequence(s);

                if (n == 0)
                        return false;
                s.data += n;
                s.len -= n;
        }
        return true;
}
