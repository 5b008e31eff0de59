/*
 * text.c - hexadecimal as headers, JSON and tokens carry it: lower case, all leading zeros. Pure;
 * outside data.
 */
#include "rdma/text.h"

#include "rdma_wire.h"

#include <errno.h>
#include <stdio.h>

int rdx_hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        return -1;
}

bool rdx_hex_number(const char *text, unsigned digits, uint64_t *out)
{
        uint64_t value = 0;
        unsigned i;

        for (i = 0; i < digits; i++) {
                int digit = rdx_hex_digit(text[i]);

                if (digit < 0)
                        return false;
                value = value << 4 | (unsigned)digit;
        }
        *out = value;
        return true;
}

void rdx_hex(const uint8_t *bytes, size_t len, char *text)
{
        static const char digits[] = "0123456789abcdef";
        size_t i;

        for (i = 0; i < len; i++) {
                text[2 * i] = digits[bytes[i] >> 4];
                text[2 * i + 1] = digits[bytes[i] & 15];
        }
        text[2 * len] = '\0';
}

bool rdx_unhex(const char *text, size_t text_len, uint8_t *bytes, size_t len)
{
        uint64_t value;
        size_t i;

        if (text_len != 2 * len)
                return false;
        for (i = 0; i < len; i++) {
                if (!rdx_hex_number(text + 2 * i, 2, &value))
                        return false;
                bytes[i] = (uint8_t)value;
        }
        return true;
}

/* ---- places ---------------------------------------------------------------------------------- */

bool rdx_window_span_holds(const struct rdx_window_span *place, uint64_t offset, uint64_t length)
{
        return length <= place->length && offset <= place->length - length;
}

/* ADDRESS(16):RKEY(8):LENGTH(16) */
int rdx_window_span_parse(const char *text, size_t len, struct rdx_window_span *out)
{
        uint64_t rkey;

        if (len != RDX_PLACE_TEXT || text[16] != ':' || text[25] != ':')
                return -EBADMSG;
        if (!rdx_hex_number(text, 16, &out->address) || !rdx_hex_number(text + 17, 8, &rkey) ||
            !rdx_hex_number(text + 26, 16, &out->length))
                return -EBADMSG;
        out->rkey = (uint32_t)rkey;
        return out->length > UINT64_MAX - out->address ? -EBADMSG : 0;
}

void rdx_window_span_print(const struct rdx_window_span *place, char out[RDX_PLACE_TEXT + 1])
{
        snprintf(out, RDX_PLACE_TEXT + 1, "%016llx:%08x:%016llx", (unsigned long long)place->address, place->rkey,
                 (unsigned long long)place->length);
}
