/*
 * ETags as S3 writes them (an MD5 in hex, for multipart objects with "-parts") and lists of them in
 * conditions.
 */
#include <errno.h>
#include <stdio.h>

#include "s3_internal.h"

size_t s3_etag_format(const uint8_t md5[16], unsigned parts, char out[S3_ETAG_SIZE])
{
        size_t len = 1 + 32;

        out[0] = '"';
        s3_hex_encode(md5, 16, out + 1);
        if (parts > 0)
                len += (size_t)snprintf(out + len, S3_ETAG_SIZE - len - 1, "-%u", parts);
        out[len++] = '"';
        out[len] = '\0';
        return len;
}

static struct s3_str unquoted(struct s3_str s)
{
        if (s.len >= 2 && s.data[0] == '"' && s.data[s.len - 1] == '"')
                return (struct s3_str){s.data + 1, s.len - 2};
        return s;
}

int s3_etag_parse(struct s3_str text, uint8_t md5[16], unsigned *parts)
{
        struct s3_str count, hex = s3_str_cut(unquoted(s3_str_trim(text)), '-', &count);
        uint64_t number = 0;

        if (count.data != NULL && (s3_parse_uint(count, S3_PARTS_MAX, &number) != 0 || number == 0))
                return -EINVAL;
        if (s3_hex_decode(hex, md5, 16) != 0)
                return -EINVAL;
        *parts = (unsigned)number;
        return 0;
}

/* Next element of a list; a comma inside quotes does not separate. */
static struct s3_str next_element(struct s3_str *list)
{
        struct s3_str element;
        bool quoted = false;
        size_t i;

        for (i = 0; i < list->len && (quoted || list->data[i] != ','); i++)
                if (list->data[i] == '"')
                        quoted = !quoted;
        element = (struct s3_str){list->data, i};
        i += i < list->len;
        list->data += i;
        list->len -= i;
        return s3_str_trim(element);
}

bool s3_etag_in_list(struct s3_str list, struct s3_str etag)
{
        etag = unquoted(s3_str_trim(etag));
        while (list.len > 0) {
                struct s3_str element = next_element(&list);

                if (s3_str_eq(element, S3_STR("*")) || s3_str_eq(unquoted(element), etag))
                        return true;
        }
        return false;
}
