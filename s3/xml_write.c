/*
 * Writing XML answers into one growing, bounded buffer. The gateway makes every XML body with it,
 * clients the bodies they send. Errors stick, so that a page of a thousand entries is written
 * without a check per line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "s3_internal.h"

#define FIRST_CAP 1024u

void s3_xml_init(struct s3_xml *xml, size_t limit)
{
        *xml = (struct s3_xml){.limit = limit};
}

void s3_xml_free(struct s3_xml *xml)
{
        free(xml->buf);
        *xml = (struct s3_xml){.limit = xml->limit};
}

/* Room for len more bytes, or an error that sticks. */
static char *xml_reserve(struct s3_xml *xml, size_t len)
{
        size_t cap = xml->cap > 0 ? xml->cap : FIRST_CAP;
        char *grown;

        if (xml->error != 0)
                return NULL;
        if (len > xml->limit - xml->len) {
                xml->error = -ENOBUFS;
                return NULL;
        }
        if (xml->buf != NULL && len <= xml->cap - xml->len)
                return xml->buf + xml->len;
        while (cap - xml->len < len)
                cap *= 2;
        if (cap > xml->limit)
                cap = xml->limit;
        grown = realloc(xml->buf, cap > 0 ? cap : 1);
        if (grown == NULL) {
                xml->error = -ENOMEM;
                return NULL;
        }
        xml->buf = grown;
        xml->cap = cap;
        return xml->buf + xml->len;
}

void s3_xml_raw(struct s3_xml *xml, struct s3_str markup)
{
        char *at = xml_reserve(xml, markup.len);

        if (at == NULL || markup.len == 0)
                return;
        memcpy(at, markup.data, markup.len);
        xml->len += markup.len;
}

static void xml_put(struct s3_xml *xml, const char *text)
{
        s3_xml_raw(xml, s3_str_of(text));
}

/* ---- escaping -------------------------------------------------------------------------------- */

/*
 * What stands for the character at the front of text, whose length goes to *len; NULL: itself. buf
 * holds a numeric reference. A bare CR would be read as LF; the other controls have no form in XML
 * 1.0, and AWS writes this one.
 */
static const char *replacement(struct s3_str text, size_t *len, char buf[8])
{
        const unsigned char *p = (const unsigned char *)text.data;

        *len = 1;
        switch (*p) {
        case '&':
                return "&amp;";
        case '<':
                return "&lt;";
        case '>':
                return "&gt;";
        case '"':
                return "&quot;";
        default:
                break;
        }
        if (*p < 0x20) {
                snprintf(buf, 8, "&#x%x;", *p);
                return buf;
        }
        *len = s3_utf8_sequence(text);
        if (*len == 0) {
                *len = 1;
                return "\xef\xbf\xbd"; /* U+FFFD */
        }
        if (*len == 3 && p[0] == 0xef && p[1] == 0xbf && p[2] >= 0xbe)
                return p[2] == 0xbe ? "&#xfffe;" : "&#xffff;";
        return NULL;
}

void s3_xml_escaped(struct s3_xml *xml, struct s3_str text)
{
        char buf[8];

        while (text.len > 0) {
                size_t n = s3_span(text, S3_CLASS_XML), len = 0;
                const char *instead = NULL;

                /* A run of bytes that stand for themselves, characters beyond ASCII included. */
                while (n < text.len && instead == NULL) {
                        instead = replacement((struct s3_str){text.data + n, text.len - n}, &len, buf);
                        if (instead == NULL) {
                                n += len;
                                n += s3_span((struct s3_str){text.data + n, text.len - n}, S3_CLASS_XML);
                        }
                }
                s3_xml_raw(xml, (struct s3_str){text.data, n});
                if (instead != NULL) {
                        xml_put(xml, instead);
                        n += len;
                }
                text.data += n;
                text.len -= n;
        }
}

/* ---- elements -------------------------------------------------------------------------------- */

void s3_xml_declaration(struct s3_xml *xml)
{
        xml_put(xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
}

void s3_xml_root(struct s3_xml *xml, const char *name)
{
        xml_put(xml, "<");
        xml_put(xml, name);
        xml_put(xml, " xmlns=\"" S3_XML_NAMESPACE "\">");
}

static char *xml_append(char *at, const char *bytes, size_t len)
{
        memcpy(at, bytes, len);
        return at + len;
}

void s3_xml_open(struct s3_xml *xml, const char *name)
{
        size_t len = strlen(name);
        char *at = xml_reserve(xml, len + 2);

        if (at == NULL)
                return;
        *at++ = '<';
        at = xml_append(at, name, len);
        *at = '>';
        xml->len += len + 2;
}

void s3_xml_close(struct s3_xml *xml, const char *name)
{
        size_t len = strlen(name);
        char *at = xml_reserve(xml, len + 3);

        if (at == NULL)
                return;
        *at++ = '<';
        *at++ = '/';
        at = xml_append(at, name, len);
        *at = '>';
        xml->len += len + 3;
}

/* <name>text</name> in one go, for text that needs no escaping: most of a listing. */
static void plain_element(struct s3_xml *xml, const char *name, struct s3_str text)
{
        size_t len = strlen(name), all = 2 * len + 5 + text.len;
        char *at = xml_reserve(xml, all);

        if (at == NULL)
                return;
        *at++ = '<';
        at = xml_append(at, name, len);
        *at++ = '>';
        if (text.len > 0)
                at = xml_append(at, text.data, text.len);
        *at++ = '<';
        *at++ = '/';
        at = xml_append(at, name, len);
        *at = '>';
        xml->len += all;
}

void s3_xml_text(struct s3_xml *xml, const char *name, struct s3_str text)
{
        if (s3_span(text, S3_CLASS_XML) == text.len) {
                plain_element(xml, name, text);
                return;
        }
        s3_xml_open(xml, name);
        s3_xml_escaped(xml, text);
        s3_xml_close(xml, name);
}

void s3_xml_textz(struct s3_xml *xml, const char *name, const char *text)
{
        s3_xml_text(xml, name, s3_str_of(text));
}

void s3_xml_uint(struct s3_xml *xml, const char *name, uint64_t value)
{
        char digits[20], *p = digits + sizeof(digits);

        do {
                *--p = (char)('0' + value % 10);
                value /= 10;
        } while (value > 0);
        plain_element(xml, name, (struct s3_str){p, (size_t)(digits + sizeof(digits) - p)});
}

void s3_xml_bool(struct s3_xml *xml, const char *name, bool value)
{
        plain_element(xml, name, value ? S3_STR("true") : S3_STR("false"));
}

void s3_xml_date(struct s3_xml *xml, const char *name, int64_t ms)
{
        char text[S3_DATE_ISO_SIZE];

        plain_element(xml, name, (struct s3_str){text, s3_date_format_iso(ms, text)});
}

void s3_xml_key(struct s3_xml *xml, const char *name, struct s3_str key, bool url_encoded)
{
        char *at;
        int n;

        if (!url_encoded) {
                s3_xml_text(xml, name, key);
                return;
        }
        if (s3_span(key, S3_CLASS_LIST) == key.len) {
                plain_element(xml, name, key);
                return;
        }
        s3_xml_open(xml, name);
        /*
         * What the encoding leaves as it is needs no escaping. Most keys hardly grow: only if they
         * do is more reserved.
         */
        at = xml_reserve(xml, key.len);
        n = at != NULL ? s3_percent_encode(key, S3_ENCODE_LIST, at, key.len) : 0;
        if (n == -ENOBUFS) {
                at = xml_reserve(xml, 3 * key.len);
                n = at != NULL ? s3_percent_encode(key, S3_ENCODE_LIST, at, 3 * key.len) : 0;
        }
        if (n > 0)
                xml->len += (size_t)n;
        s3_xml_close(xml, name);
}

int s3_xml_take(struct s3_xml *xml, char **text, size_t *len)
{
        if (xml->error != 0)
                return xml->error;
        *text = xml->buf;
        *len = xml->len;
        xml->buf = NULL;
        s3_xml_free(xml);
        return 0;
}

void s3_xml_error(struct s3_xml *xml, enum s3_error error, const char *message, struct s3_str resource,
                  const char *request_id, struct s3_str extra)
{
        const struct s3_error_info *info = s3_error_info(error);

        s3_xml_declaration(xml);
        s3_xml_open(xml, "Error");
        s3_xml_textz(xml, "Code", info->code);
        s3_xml_textz(xml, "Message", message != NULL ? message : info->message);
        s3_xml_raw(xml, extra);
        if (resource.data != NULL)
                s3_xml_text(xml, "Resource", resource);
        if (request_id != NULL)
                s3_xml_textz(xml, "RequestId", request_id);
        s3_xml_close(xml, "Error");
}
