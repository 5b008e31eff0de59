/*
 * base64url.c - see base64url.h.
 */
#include "gateway/sts/base64url.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>

static int base64url_value(char c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '-' ? 62 : c == '_' ? 63 : -1;
}

int gw_base64url_decode(struct s3_str in, void *out, size_t cap)
{
        uint8_t *bytes = out;
        uint32_t bits = 0;
        unsigned count = 0;
        size_t used = 0;

        if (in.len % 4 == 1)
                return -EINVAL;
        if (in.len / 4 * 3 > INT_MAX - 3u)
                return -ENOBUFS;
        for (size_t i = 0; i < in.len; i++) {
                int value = base64url_value(in.data[i]);

                if (value < 0)
                        return -EINVAL;
                bits = bits << 6 | (uint32_t)value;
                count += 6;
                if (count < 8)
                        continue;
                count -= 8;
                if (used == cap)
                        return -ENOBUFS;
                bytes[used++] = (uint8_t)(bits >> count);
        }
        return (bits & ((1u << count) - 1)) == 0 ? (int)used : -EINVAL;
}
