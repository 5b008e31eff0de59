/*
 * Metadata beyond ASCII in headers of answers: encoded words of RFC 2047. Called by the gateway;
 * pure.
 *
 * What is stored are the bytes that the client sent. Most clients send UTF-8; those that send
 * ISO-8859-1, as HTTP once had it, are understood, too, since their bytes are hardly ever UTF-8 by
 * chance.
 */
#include <errno.h>
#include <stdlib.h>

#include "s3_internal.h"

#define WORD_MAX  75u /* RFC 2047, 2 */
#define HEAD      "=?UTF-8?Q?"
#define TAIL      "?="
#define ROOM      (WORD_MAX - (sizeof(HEAD) - 1) - (sizeof(TAIL) - 1)) /* characters of text in a word */
#define B_BYTES   (ROOM / 4 * 3)
#define CHARACTER 4u /* bytes of UTF-8, at most */

bool s3_ascii(struct s3_str s)
{
        for (size_t i = 0; i < s.len; i++)
                if ((unsigned char)s.data[i] >= 0x80)
                        return false;
        return true;
}

/* What is being read: characters of UTF-8, whatever the value's own encoding. */
struct source {
        struct s3_str rest;
        bool utf8;
};

/* The next character; its length, 0 at the end. */
static size_t next_character(struct source *source, char out[CHARACTER])
{
        unsigned char c;
        size_t n;

        if (source->rest.len == 0)
                return 0;
        c = (unsigned char)source->rest.data[0];
        n = source->utf8 ? s3_utf8_sequence(source->rest) : 1;
        if (source->utf8 || c < 0x80) {
                memcpy(out, source->rest.data, n);
        } else {
                out[0] = (char)(0xc0 | c >> 6);
                out[1] = (char)(0x80 | (c & 0x3f));
        }
        source->rest.data += n;
        source->rest.len -= n;
        return source->utf8 || c < 0x80 ? n : 2;
}

static bool mostly_ascii(struct source source)
{
        char character[CHARACTER];
        size_t ascii = 0, others = 0;
        size_t n;

        while ((n = next_character(&source, character)) > 0) {
                if (n == 1)
                        ascii++;
                else
                        others++;
        }
        return ascii >= others;
}

/* Characters that stand for themselves in a "Q" word, wherever it is. */
static bool stands(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || s3_is_digit(c) ||
               (c != '\0' && strchr("!*+-/.,:;'()&%$#@~", c) != NULL);
}

static size_t encode_q(const char *character, size_t n, char *out)
{
        static const char digits[] = "0123456789ABCDEF";
        size_t used = 0;

        if (n == 1 && character[0] == ' ') {
                out[0] = '_';
                return 1;
        }
        if (n == 1 && stands(character[0])) {
                out[0] = character[0];
                return 1;
        }
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char)character[i];

                out[used++] = '=';
                out[used++] = digits[c >> 4];
                out[used++] = digits[c & 15];
        }
        return used;
}

struct words {
        char *out;
        size_t used, cap;
        bool q, full;
        size_t held; /* of the word under way: characters of text (Q), bytes not yet encoded (B) */
        char text[ROOM];
};

static void words_put(struct words *w, const char *text, size_t len)
{
        if (w->full || w->cap - w->used < len) {
                w->full = true;
                return;
        }
        memcpy(w->out + w->used, text, len);
        w->used += len;
}

static void end_word(struct words *w)
{
        char base64[ROOM + 1];
        size_t len;

        if (w->held == 0)
                return;
        if (w->used > 0)
                words_put(w, " ", 1);
        if (w->q) {
                words_put(w, HEAD, sizeof(HEAD) - 1);
                words_put(w, w->text, w->held);
        } else {
                len = s3_base64_encode(w->text, w->held, base64);
                words_put(w, "=?UTF-8?B?", sizeof(HEAD) - 1);
                words_put(w, base64, len);
        }
        words_put(w, TAIL, sizeof(TAIL) - 1);
        w->held = 0;
}

static void words_append(struct words *w, const char *character, size_t n)
{
        char q[3 * CHARACTER];

        if (w->q) {
                n = encode_q(character, n, q);
                character = q;
        }
        if (w->held + n > (w->q ? ROOM : B_BYTES))
                end_word(w);
        memcpy(w->text + w->held, character, n);
        w->held += n;
}

ssize_t s3_words_encode(struct s3_str value, char *out, size_t cap)
{
        struct source source = {value, s3_utf8_valid(value)};
        struct words w = {.out = out, .cap = cap, .q = mostly_ascii(source)};
        char character[CHARACTER];
        size_t n;

        while ((n = next_character(&source, character)) > 0)
                words_append(&w, character, n);
        end_word(&w);
        return w.full ? -ENOBUFS : (ssize_t)w.used;
}

/* ---- back ------------------------------------------------------------------------------------ */

/* The text of the word at the front of *rest, which is moved behind it; *q: how it is encoded. */
static int cut_word(struct s3_str *rest, struct s3_str *text, bool *q)
{
        size_t head = sizeof(HEAD) - 1, end;

        if (rest->len < head || (!s3_str_starts_nocase(*rest, S3_STR("=?UTF-8?Q?")) && !s3_str_starts_nocase(*rest, S3_STR("=?UTF-8?B?"))))
                return -EINVAL;
        *q = s3_lower(rest->data[head - 2]) == 'q';
        for (end = head; end < rest->len && rest->data[end] != '?' && rest->data[end] != ' '; end++)
                ;
        if (rest->len - end < sizeof(TAIL) - 1 || memcmp(rest->data + end, TAIL, sizeof(TAIL) - 1) != 0)
                return -EINVAL;
        *text = (struct s3_str){rest->data + head, end - head};
        rest->data += end + sizeof(TAIL) - 1;
        rest->len -= end + sizeof(TAIL) - 1;
        return 0;
}

static ssize_t decode_q(struct s3_str text, char *out)
{
        size_t used = 0;

        for (size_t i = 0; i < text.len; i++) {
                int high, low;

                if (text.data[i] != '=') {
                        out[used++] = text.data[i] == '_' ? ' ' : text.data[i];
                        continue;
                }
                high = i + 2 < text.len ? s3_hex_value(text.data[i + 1]) : -1;
                low = i + 2 < text.len ? s3_hex_value(text.data[i + 2]) : -1;
                if (high < 0 || low < 0)
                        return -EINVAL;
                out[used++] = (char)(high << 4 | low);
                i += 2;
        }
        return (ssize_t)used;
}

static ssize_t decode_b(struct s3_str text, char *out)
{
        char bytes[WORD_MAX];
        size_t len = text.len / 4 * 3;

        for (size_t i = text.len; i > 0 && len > 0 && text.data[i - 1] == '='; i--)
                len--;
        if (len > sizeof(bytes) || s3_base64_decode(text, bytes, len) != 0)
                return -EINVAL;
        memcpy(out, bytes, len);
        return (ssize_t)len;
}

static bool is_header_text(struct s3_str text)
{
        for (size_t i = 0; i < text.len; i++) {
                unsigned char c = (unsigned char)text.data[i];

                if ((c < ' ' && c != '\t') || c == 0x7f)
                        return false;
        }
        return s3_utf8_valid(text);
}

/* Decoded aside first: value may be where out is, and stays as it is if it is something else. */
ssize_t s3_words_decode(struct s3_str value, char *out)
{
        char *decoded = value.len > 0 ? calloc(1, value.len) : NULL;
        struct s3_str text;
        size_t used = 0;
        ssize_t n = decoded != NULL ? 0 : -EINVAL;
        bool q;

        while (n >= 0 && value.len > 0) {
                n = cut_word(&value, &text, &q);
                if (n == 0)
                        n = q ? decode_q(text, decoded + used) : decode_b(text, decoded + used);
                if (n >= 0)
                        used += (size_t)n;
                while (n >= 0 && value.len > 0 && value.data[0] == ' ') {
                        value.data++;
                        value.len--;
                }
        }
        if (n >= 0 && !is_header_text((struct s3_str){decoded, used}))
                n = -EINVAL;
        if (n >= 0)
                memcpy(out, decoded, used);
        free(decoded);
        return n < 0 ? n : (ssize_t)used;
}
