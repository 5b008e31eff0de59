/*
 * redact.c - takes signatures, tokens and keys out of texts that are about to be logged.
 *
 * Called by the access log on the loops, for each line: a look at one byte rules nearly all places
 * out. A name is matched wherever it stands, also within a path or a key: a client that encodes a
 * URL twice sends its signature there, and it is as valid in the log as where it belongs. Taking
 * out too much costs nothing.
 */
#include "server/redact.h"

#include <ctype.h>
#include <string.h>

/* In lower case. "signature" is also the end of "x-amz-signature". */
static const char *const secrets[] = {
        "signature",        "x-amz-security-token",
        "x-amz-rdma-token", "x-amz-server-side-encryption-customer-key",
        "authorization",    "x-amz-copy-source-server-side-encryption-customer-key",
};

static int hex_value(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c = (char)tolower((unsigned char)c);
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/*
 * The byte that stands at text, decoded however often it was encoded, in lower case; *len: how many
 * bytes it takes there, 0 at the end.
 */
static char byte_at(const char *text, size_t *len)
{
        size_t skip = 0;
        int high, low;

        *len = *text != '\0';
        if (*text != '%')
                return (char)tolower((unsigned char)*text);
        while (strncmp(text + skip + 1, "25", 2) == 0) /* "%2541" is an encoded "%41" */
                skip += 2;
        high = hex_value(text[skip + 1]);
        low = high >= 0 ? hex_value(text[skip + 2]) : -1;
        if (low < 0) {
                *len = skip + 1;
                return '%';
        }
        *len = skip + 3;
        return (char)tolower(high << 4 | low);
}

/* Length of "name=" or "name:" at text, or 0. */
static size_t name_len(const char *text, const char *name)
{
        size_t at = 0, n;

        for (; *name != '\0'; name++, at += n)
                if (byte_at(text + at, &n) != *name || n == 0)
                        return 0;
        switch (byte_at(text + at, &n)) {
        case '=':
        case ':':
                return at + n;
        default:
                return 0;
        }
}

static size_t secret_at(const char *text)
{
        size_t len = 0;

        if (*text != '%' && strchr("sSxXaA", *text) == NULL)
                return 0;
        for (size_t i = 0; len == 0 && i < sizeof(secrets) / sizeof(secrets[0]); i++)
                len = name_len(text, secrets[i]);
        return len;
}

const char *srv_redact(const char *text, char *out, size_t size)
{
        size_t len = 0, n;

        while (*text != '\0' && len + 1 < size) {
                n = secret_at(text);
                if (n == 0) {
                        out[len++] = *text++;
                        continue;
                }
                if (n + 2 > size - len)
                        break;
                memcpy(out + len, text, n);
                len += n;
                out[len++] = '*';
                text += n;
                text += strcspn(text, "&?#\"");
        }
        out[len] = '\0';
        return out;
}
