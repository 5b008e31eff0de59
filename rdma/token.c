/*
 * token.c - the de-facto header protocol's x-amz-rdma-token, in both forms that are about. Outside
 * data; pure. What is not exactly one of the forms is malformed: a token says where to write.
 *
 * The short form describes a registered buffer. The long one appends the place in it that this
 * request is about.
 */
#include "rdma_wire.h"

#include "rdma/text.h"

#include <errno.h>
#include <string.h>

#define TOKEN_LEN   81u  /* ADDRESS(16):SIZE(8):RKEY(8):LID(4):DCTN(6):HAS_GID(1):GID(32) */
#define LONG_LEN    115u /* the same and :ADDRESS(16):SIZE(16) */
#define SUFFIX_MOST 256u /* of what may stand behind a semicolon */

/* Takes a field of so many digits; a colon must come before it unless it is the first. */
static bool token_take(const char **at, const char *begin, unsigned digits, uint64_t *out)
{
        if (*at != begin && *(*at)++ != ':')
                return false;
        if (!rdx_hex_number(*at, digits, out))
                return false;
        *at += digits;
        return true;
}

static bool is_printable(const char *text, size_t len)
{
        size_t i;

        for (i = 0; i < len; i++)
                if (text[i] < 0x20 || text[i] > 0x7e)
                        return false;
        return true;
}

static int parse_first(const char *text, struct rdx_token *out)
{
        static const uint8_t none[RDX_GID_LEN];
        uint64_t rkey, lid, dct, has_gid;
        const char *at = text;

        if (!token_take(&at, text, 16, &out->address) || !token_take(&at, text, 8, &out->size) ||
            !token_take(&at, text, 8, &rkey) || !token_take(&at, text, 4, &lid) || !token_take(&at, text, 6, &dct) ||
            !token_take(&at, text, 1, &has_gid))
                return -EBADMSG;
        if (has_gid > 1 || *at != ':' || !rdx_unhex(at + 1, 2 * RDX_GID_LEN, out->gid, RDX_GID_LEN))
                return -EBADMSG;
        if (has_gid == 0 && memcmp(out->gid, none, RDX_GID_LEN) != 0)
                return -EBADMSG;
        out->rkey = (uint32_t)rkey;
        out->lid = (uint16_t)lid;
        out->dct = (uint32_t)dct;
        out->has_gid = has_gid == 1;
        return 0;
}

/*
 * The appended place lies in the buffer; of one of 4 GiB and more, whose size has no room in the
 * short form, it is the whole.
 */
static int parse_appended(const char *text, struct rdx_token *out)
{
        struct rdx_window_span buffer = {.length = out->size};
        uint64_t address, size;

        if (text[0] != ':' || !rdx_hex_number(text + 1, 16, &address) || text[17] != ':' ||
            !rdx_hex_number(text + 18, 16, &size))
                return -EBADMSG;
        if (address < out->address)
                return -EBADMSG;
        if (!(address == out->address && (uint32_t)size == out->size) &&
            !rdx_window_span_holds(&buffer, address - out->address, size))
                return -EBADMSG;
        out->address = address;
        out->size = size;
        return 0;
}

/* Behind a semicolon anything may stand, for other servers to read. */
static bool is_suffix(const char *text, size_t len)
{
        return len == 0 || (text[0] == ';' && len - 1 <= SUFFIX_MOST && is_printable(text, len));
}

int rdx_token_parse(const char *text, size_t len, struct rdx_token *out)
{
        size_t used = TOKEN_LEN;
        int rv;

        memset(out, 0, sizeof(*out));
        if (len < TOKEN_LEN)
                return -EBADMSG;
        rv = parse_first(text, out);
        if (rv != 0)
                return rv;
        if (len >= LONG_LEN && text[TOKEN_LEN] == ':') {
                rv = parse_appended(text + TOKEN_LEN, out);
                used = LONG_LEN;
        }
        if (rv == 0 && (!is_suffix(text + used, len - used) || out->size == 0 || out->size > UINT64_MAX - out->address))
                rv = -EBADMSG;
        return rv;
}
