/*
 * json.c - JSON text without allocation.
 *
 * Called on loops (access log). Where a value comes from a client it may hold any bytes at all: the
 * line must stay one line, and JSON.
 */
#include "server/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define END_LEN 2 /* "}\n" */

/*
 * Bytes of the UTF-8 character at p (RFC 3629: no overlong forms, no surrogates), 0 if there is
 * none.
 */
static size_t utf8_len(const unsigned char *p, size_t left)
{
        size_t len, i;

        if (p[0] < 0x80)
                return 1;
        if (p[0] < 0xc2 || p[0] > 0xf4)
                return 0;
        len = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
        if (len > left)
                return 0;
        for (i = 1; i < len; i++)
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) || (p[0] == 0xf0 && p[1] < 0x90) ||
            (p[0] == 0xf4 && p[1] > 0x8f))
                return 0;
        return len;
}

/*
 * The escaped form of the character at p into out (room for 8); *taken is what it took of the
 * input.
 */
static size_t escape_char(const unsigned char *p, size_t left, char *out, size_t *taken)
{
        static const char hex[] = "0123456789abcdef";

        *taken = utf8_len(p, left);
        if (*taken == 0) {
                *taken = 1;
                memcpy(out, "\\ufffd", 6);
                return 6;
        }
        if (*p == '"' || *p == '\\') {
                out[0] = '\\';
                out[1] = (char)*p;
                return 2;
        }
        if (*p < 0x20 || *p == 0x7f) {
                memcpy(out, "\\u00", 4);
                out[4] = hex[*p >> 4];
                out[5] = hex[*p & 15];
                return 6;
        }
        memcpy(out, p, *taken);
        return *taken;
}

size_t srv_json_escape(const char *value, size_t value_len, char *out, size_t size)
{
        const unsigned char *p = (const unsigned char *)value;
        size_t len = 0, taken, n, i;
        char one[8];

        for (i = 0; i < value_len; i += taken) {
                n = escape_char(p + i, value_len - i, one, &taken);
                if (len + n > size)
                        break;
                memcpy(out + len, one, n);
                len += n;
        }
        return len;
}

void srv_json_begin(struct srv_json *json, char *buf, size_t size)
{
        json->buf = buf;
        json->size = size;
        json->len = 0;
        if (size >= 1 + END_LEN)
                json->buf[json->len++] = '{';
}

static size_t json_room(const struct srv_json *json)
{
        return json->size > json->len + END_LEN ? json->size - json->len - END_LEN : 0;
}

/* Writes `,"name":` if it fits with `more` bytes behind it. */
static int begin_field(struct srv_json *json, const char *name, size_t more)
{
        size_t name_len = strlen(name), comma = json->len > 1;

        if (json->len == 0 || comma + name_len + 3 + more > json_room(json))
                return -1;
        if (comma)
                json->buf[json->len++] = ',';
        json->buf[json->len++] = '"';
        memcpy(json->buf + json->len, name, name_len);
        json->len += name_len;
        json->buf[json->len++] = '"';
        json->buf[json->len++] = ':';
        return 0;
}

void srv_json_string(struct srv_json *json, const char *name, const char *value, size_t most)
{
        size_t left;

        if (value == NULL || begin_field(json, name, 2) != 0)
                return;
        json->buf[json->len++] = '"';
        left = json_room(json) - 1;
        json->len += srv_json_escape(value, strlen(value), json->buf + json->len, left < most ? left : most);
        json->buf[json->len++] = '"';
}

void srv_json_uint(struct srv_json *json, const char *name, uint64_t value)
{
        char digits[24];
        size_t len = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, value);

        if (begin_field(json, name, len) != 0)
                return;
        memcpy(json->buf + json->len, digits, len);
        json->len += len;
}

size_t srv_json_end(struct srv_json *json)
{
        if (json->len == 0)
                return 0;
        memcpy(json->buf + json->len, "}\n", END_LEN);
        json->len += END_LEN;
        return json->len;
}
