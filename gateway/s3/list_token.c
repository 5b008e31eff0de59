/*
 * list_token.c - places in listings as opaque text, and numbers of listings' parameters. Called by
 * the listings, on their loops.
 *
 * A token is hex: it survives every client's idea of escaping. The check in front of it is against
 * mistakes, not against attackers: a forged token is no more than a name to start after, which any
 * client may ask for anyway.
 */
#include <errno.h>

#include "ec.h"
#include "gateway/s3/handlers.h"

#define CHECK 4u

static void put_check(const char *name, size_t len, uint8_t out[CHECK])
{
        uint32_t crc = era_crc32c(0, name, len);

        for (unsigned i = 0; i < CHECK; i++)
                out[i] = (uint8_t)(crc >> (8 * i));
}

char *gw_token_make(struct gw_request *req, struct s3_str name)
{
        char *text = gw_alloc(req, 2 * (CHECK + name.len) + 1);
        uint8_t check[CHECK];

        if (text == NULL)
                return NULL;
        put_check(name.data, name.len, check);
        s3_hex_encode(check, CHECK, text);
        s3_hex_encode(name.data, name.len, text + 2 * CHECK);
        return text;
}

int gw_token_read(struct s3_str token, char *out, size_t *len)
{
        uint8_t check[CHECK], want[CHECK];

        if (token.len % 2 != 0 || token.len < 2 * (CHECK + 1) || token.len > 2 * (CHECK + ENG_KEY_MAX))
                return -EINVAL;
        *len = token.len / 2 - CHECK;
        if (s3_hex_decode((struct s3_str){token.data, 2 * CHECK}, check, CHECK) != 0 ||
            s3_hex_decode((struct s3_str){token.data + 2 * CHECK, 2 * *len}, out, *len) != 0)
                return -EINVAL;
        put_check(out, *len, want);
        return memcmp(check, want, CHECK) == 0 ? 0 : -EINVAL;
}

bool gw_token_refuse(struct gw_request *req)
{
        const struct s3_str none = {NULL, 0};

        gw_reply_error_extra(req, S3_ERR_INVALID_ARGUMENT, "The continuation token provided is incorrect",
                             gw_detail(req, "ArgumentName", S3_STR("continuation-token"), NULL, none));
        return false;
}

bool gw_query_uint(struct gw_request *req, const char *name, uint64_t max, uint64_t fallback, uint64_t *out)
{
        struct s3_str text = gw_query(req, name);

        *out = fallback;
        if (text.len == 0 || s3_parse_uint(text, max, out) == 0)
                return true;
        if (text.data[0] == '-' && s3_parse_uint((struct s3_str){text.data + 1, text.len - 1}, max, out) == 0)
                gw_reply_argument(req, name, text,
                                  gw_printf(req, "Argument %s must be an integer between 0 and %llu", name,
                                            (unsigned long long)max));
        else
                gw_reply_argument(req, name, text,
                                  gw_printf(req, "Provided %s not an integer or within integer range", name));
        return false;
}
