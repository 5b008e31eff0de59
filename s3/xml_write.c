/*
 * Writing XML answers into one growing, bounded buffer. The gateway makes every XML body with it, clients the bodies they
 * send. Errors stick, so that a page of a thousand entries is written without a check per line.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

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
static char *reserve(struct s3_xml *xml, size_t len)
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
        char *at = reserve(xml, markup.len);

        if (at == NULL || markup.len == 0)
                return;
        memcpy(at, markup.data, markup.len);
        xml->len += markup.len;
}

static void put(struct s3_xml *xml, const char *text)
{
        s3_xml_raw(xml, s3_str_of(text));
}

/* ---- escaping ------------------------------------------------------------------------------------ */

/* Replacement of a byte, or NULL if it stands for itself. buf holds a numeric reference. */
static const char *replacement(unsigned char c, char buf[8])
{
        switch (c) {
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
        if (c >= 0x20 || c == '\t' || c == '\n')
                return NULL;
        /* A bare CR would be read as LF; the other controls have no form in XML 1.0, and AWS writes this one. */
        snprintf(buf, 8, "&#x%x;", c);
        return buf;
}

void s3_xml_escaped(struct s3_xml *xml, struct s3_str text)
{
        size_t start = 0;
        char buf[8];

        for (size_t i = 0; i < text.len;) {
                unsigned char c = (unsigned char)text.data[i];
                size_t n = c < 0x80 ? 1 : s3_utf8_sequence((struct s3_str){text.data + i, text.len - i});
                const char *instead = c < 0x80 ? replacement(c, buf) : NULL;

                if (n == 0) {
                        instead = "\xef\xbf\xbd"; /* U+FFFD */
                        n = 1;
                } else if (n == 3 && memcmp(text.data + i, "\xef\xbf", 2) == 0 && (text.data[i + 2] & 0x3e) == 0x3e) {
                        instead = text.data[i + 2] & 1 ? "&#xffff;" : "&#xfffe;";
                }
                if (instead != NULL) {
                        s3_xml_raw(xml, (struct s3_str){text.data + start, i - start});
                        put(xml, instead);
                        start = i + n;
                }
                i += n;
        }
        s3_xml_raw(xml, (struct s3_str){text.data + start, text.len - start});
}

/* ---- elements ------------------------------------------------------------------------------------ */

void s3_xml_declaration(struct s3_xml *xml)
{
        put(xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
}

void s3_xml_root(struct s3_xml *xml, const char *name)
{
        put(xml, "<");
        put(xml, name);
        put(xml, " xmlns=\"" S3_XML_NAMESPACE "\">");
}

void s3_xml_open(struct s3_xml *xml, const char *name)
{
        put(xml, "<");
        put(xml, name);
        put(xml, ">");
}

void s3_xml_close(struct s3_xml *xml, const char *name)
{
        put(xml, "</");
        put(xml, name);
        put(xml, ">");
}

void s3_xml_text(struct s3_xml *xml, const char *name, struct s3_str text)
{
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
        char digits[24];

        snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
        s3_xml_textz(xml, name, digits);
}

void s3_xml_bool(struct s3_xml *xml, const char *name, bool value)
{
        s3_xml_textz(xml, name, value ? "true" : "false");
}

void s3_xml_date(struct s3_xml *xml, const char *name, int64_t ms)
{
        char text[S3_DATE_ISO_SIZE];

        s3_date_format_iso(ms, text);
        s3_xml_textz(xml, name, text);
}

void s3_xml_key(struct s3_xml *xml, const char *name, struct s3_str key, bool url_encoded)
{
        char *at;
        int n;

        if (!url_encoded) {
                s3_xml_text(xml, name, key);
                return;
        }
        s3_xml_open(xml, name);
        /* What the encoding leaves as it is needs no escaping. Most keys hardly grow: only if they do is more reserved. */
        at = reserve(xml, key.len);
        n = at != NULL ? s3_percent_encode(key, S3_ENCODE_LIST, at, key.len) : 0;
        if (n == -ENOBUFS) {
                at = reserve(xml, 3 * key.len);
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
