/*
 * Percent-encoding in the three dialects S3 uses, and decoding. Pure; called by everything that handles paths and queries.
 */
#include <errno.h>

#include "internal.h"

static bool kept(char c, enum s3_encode mode)
{
        switch (mode) {
        case S3_ENCODE_PATH:
                return s3_is_unreserved(c) || c == '/';
        case S3_ENCODE_QUERY:
                return s3_is_unreserved(c);
        case S3_ENCODE_LIST:
                return (s3_is_unreserved(c) && c != '~') || c == '/' || c == '*';
        }
        return false;
}

int s3_percent_encode(struct s3_str in, enum s3_encode mode, char *out, size_t cap)
{
        static const char digits[] = "0123456789ABCDEF";
        size_t used = 0;

        for (size_t i = 0; i < in.len; i++) {
                unsigned char c = (unsigned char)in.data[i];
                bool plus = mode == S3_ENCODE_LIST && c == ' ';
                bool single = plus || kept((char)c, mode);

                if (cap - used < (single ? 1u : 3u))
                        return -ENOBUFS;
                if (single) {
                        out[used++] = plus ? '+' : (char)c;
                        continue;
                }
                out[used++] = '%';
                out[used++] = digits[c >> 4];
                out[used++] = digits[c & 15];
        }
        return (int)used;
}

int s3_percent_decode(struct s3_str in, bool plus, char *out, size_t cap)
{
        size_t used = 0;

        for (size_t i = 0; i < in.len; i++) {
                char c = in.data[i];

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
