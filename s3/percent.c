/*
 * Percent-encoding in the three dialects S3 uses, and decoding. Pure; called by everything that
 * handles paths and queries.
 */
#include <errno.h>

#include "s3_internal.h"

static const unsigned kept_class[] = {
        [S3_ENCODE_PATH] = S3_CLASS_PATH,
        [S3_ENCODE_QUERY] = S3_CLASS_UNRESERVED,
        [S3_ENCODE_LIST] = S3_CLASS_LIST,
};

int s3_percent_encode(struct s3_str in, enum s3_encode mode, char *out, size_t cap)
{
        static const char digits[] = "0123456789ABCDEF";
        const unsigned class = kept_class[mode];
        size_t used = 0;

        while (in.len > 0) {
                size_t n = s3_span(in, class);
                bool plus = n == 0 && mode == S3_ENCODE_LIST && in.data[0] == ' ';
                unsigned char c = (unsigned char)in.data[0];

                if (cap - used < (plus ? 1 : n > 0 ? n : 3))
                        return -ENOBUFS;
                if (n > 0) {
                        memcpy(out + used, in.data, n);
                        used += n;
                } else if (plus) {
                        out[used++] = '+';
                } else {
                        out[used++] = '%';
                        out[used++] = digits[c >> 4];
                        out[used++] = digits[c & 15];
                }
                n += n == 0;
                in.data += n;
                in.len -= n;
        }
        return (int)used;
}

#define ONES    0x0101010101010101u
#define HIGHEST 0x8080808080808080u

/* Not 0 if one of the eight bytes is c. */
static inline uint64_t among(uint64_t eight, char c)
{
        uint64_t zero_where = eight ^ (ONES * (unsigned char)c);

        return (zero_where - ONES) & ~zero_where & HIGHEST;
}

int s3_percent_decode(struct s3_str in, bool plus, char *out, size_t cap)
{
        size_t used = 0;

        for (size_t i = 0; i < in.len; i++) {
                char c;

                while (in.len - i > sizeof(uint64_t) &&
                       cap - used >= sizeof(uint64_t)) { /* most bytes stand for themselves */
                        uint64_t eight;

                        memcpy(&eight, in.data + i, sizeof(eight));
                        if ((among(eight, '%') | among(eight, '+')) != 0)
                                break;
                        memcpy(out + used, &eight, sizeof(eight));
                        i += sizeof(eight);
                        used += sizeof(eight);
                }
                c = in.data[i];

                if (c == '%') {
                        int high = i + 2 < in.len ? s3_hex_value(in.data[i + 1]) : -1;
                        int low = i + 2 < in.len ? s3_hex_value(in.data[i + 2]) : -1;

                        if (high < 0 || low < 0)
                                return -EINVAL;
                        c = (char)(high << 4 | low);
                        i += 2;
                } else if (plus && c == '+') {
                        c = ' ';
                }
                if (used == cap)
                        return -ENOBUFS;
                out[used++] = c;
        }
        return (int)used;
}
