/*
 * Base64 and hexadecimal, strict: a checksum or signature has exactly one spelling. Pure; any
 * thread.
 */
#include <endian.h>
#include <errno.h>

#include "s3_internal.h"

static const char base64_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char base64url_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static size_t encode_digits(const char digits[static 65], bool padded, const uint8_t *p, size_t len, char *out)
{
        size_t whole = len - len % 3, left = len % 3, used = 0;

        for (size_t i = 0; i < whole; i += 3, used += 4) {
                uint32_t group = (uint32_t)p[i] << 16 | (uint32_t)p[i + 1] << 8 | p[i + 2];

                out[used] = digits[group >> 18];
                out[used + 1] = digits[group >> 12 & 63];
                out[used + 2] = digits[group >> 6 & 63];
                out[used + 3] = digits[group & 63];
        }
        if (left > 0) {
                uint32_t group = (uint32_t)p[whole] << 16 | (left == 2 ? (uint32_t)p[whole + 1] << 8 : 0);

                out[used++] = digits[group >> 18];
                out[used++] = digits[group >> 12 & 63];
                if (left == 2)
                        out[used++] = digits[group >> 6 & 63];
                for (size_t i = left; padded && i < 3; i++)
                        out[used++] = '=';
        }
        out[used] = '\0';
        return used;
}

size_t s3_base64_encode(const void *in, size_t len, char *out)
{
        return encode_digits(base64_digits, true, in, len, out);
}

size_t s3_base64url_encode(const void *in, size_t len, char *out)
{
        return encode_digits(base64url_digits, false, in, len, out);
}

static int base64_value(char c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (s3_is_digit(c))
                return c - '0' + 52;
        return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int s3_base64_decode(struct s3_str in, void *out, size_t len)
{
        uint8_t *p = out;
        size_t padding = (3 - len % 3) % 3;
        uint32_t bits = 0;
        size_t at = 0;

        if (in.len != (len + 2) / 3 * 4)
                return -EINVAL;
        for (size_t i = 0; i < in.len - padding; i++) {
                int value = base64_value(in.data[i]);

                if (value < 0)
                        return -EINVAL;
                bits = bits << 6 | (uint32_t)value;
                if (i % 4 != 0)
                        p[at++] = (uint8_t)(bits >> (6 - 2 * (i % 4)));
        }
        /* With padding the last digit has spare bits, which must be zero. */
        if (padding > 0 && (bits & ((1u << (2 * padding)) - 1)) != 0)
                return -EINVAL;
        for (size_t i = in.len - padding; i < in.len; i++)
                if (in.data[i] != '=')
                        return -EINVAL;
        return 0;
}

/* Eight digits at once, a byte of the word each: a listing has 32,000 of them. */
static void hex_four(const uint8_t *p, char *out)
{
        const uint64_t ones = 0x0101010101010101u;
        uint64_t x = p[0] | (uint64_t)p[1] << 16 | (uint64_t)p[2] << 32 | (uint64_t)p[3] << 48;
        uint64_t letters;

        x = (x >> 4 & 0x0f * ones) | ((x & 0x000f000f000f000fu) << 8);
        x &= 0x0f * ones;
        letters = (x + 6 * ones) >> 4 & ones; /* 1 where the digit is above 9 */
        x = htole64(x + '0' * ones + letters * ('a' - '0' - 10));
        memcpy(out, &x, sizeof(x));
}

void s3_hex_encode(const void *in, size_t len, char *out)
{
        static const char digits[] = "0123456789abcdef";
        const uint8_t *p = in;
        size_t i;

        for (i = 0; i + 4 <= len; i += 4)
                hex_four(p + i, out + 2 * i);
        for (; i < len; i++) {
                out[2 * i] = digits[p[i] >> 4];
                out[2 * i + 1] = digits[p[i] & 15];
        }
        out[2 * len] = '\0';
}

/* clang-format off */
const int8_t s3_hex_values[256] = {
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
         0,  1,  2,  3,  4,  5,  6,  7,  8,  9, -1, -1, -1, -1, -1, -1,
        -1, 10, 11, 12, 13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, 10, 11, 12, 13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
};
/* clang-format on */

int s3_hex_decode(struct s3_str in, void *out, size_t len)
{
        uint8_t *p = out;

        if (in.len != 2 * len)
                return -EINVAL;
        for (size_t i = 0; i < len; i++) {
                int high = s3_hex_value(in.data[2 * i]), low = s3_hex_value(in.data[2 * i + 1]);

                if (high < 0 || low < 0)
                        return -EINVAL;
                p[i] = (uint8_t)(high << 4 | low);
        }
        return 0;
}

int s3_content_md5_parse(struct s3_str value, uint8_t md5[16])
{
        return s3_base64_decode(s3_str_trim(value), md5, 16);
}
