/*
 * Tags: AWS's rules, Tagging documents, x-amz-tagging, and the form in which they are stored.
 * Called by the gateway for requests and by lifecycle rules; pure.
 */
#include <errno.h>

#include "docs_internal.h"

/* ---- rules ----------------------------------------------------------------------------------- */

/* The code point of a well-formed sequence. */
static int code_point(const unsigned char *p, size_t len)
{
        switch (len) {
        case 1:
                return p[0];
        case 2:
                return (p[0] & 0x1f) << 6 | (p[1] & 0x3f);
        case 3:
                return (p[0] & 0x0f) << 12 | (p[1] & 0x3f) << 6 | (p[2] & 0x3f);
        default:
                return (p[0] & 0x07) << 18 | (p[1] & 0x3f) << 12 | (p[2] & 0x3f) << 6 | (p[3] & 0x3f);
        }
}

static const struct {
        int first, last;
} tag_ranges[] = {
#include "tag_ranges.h"
};

/* A letter, number or separator beyond ASCII. */
static bool in_tag_ranges(int c)
{
        size_t low = 0, high = sizeof(tag_ranges) / sizeof(tag_ranges[0]);

        while (low < high) {
                size_t middle = (low + high) / 2;

                if (c > tag_ranges[middle].last)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < sizeof(tag_ranges) / sizeof(tag_ranges[0]) && c >= tag_ranges[low].first;
}

/* AWS: [\p{L}\p{Z}\p{N}_.:/=+\-@]. */
static bool tag_allows(int c)
{
        if (c < 0x80)
                return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || s3_is_digit((char)c) ||
                       (c != 0 && strchr(" _.:/=+-@", c) != NULL);
        return in_tag_ranges(c);
}

size_t s3_utf16_len(struct s3_str s)
{
        size_t units = 0;

        for (size_t i = 0; i < s.len; i++) {
                unsigned char c = (unsigned char)s.data[i];

                units += ((c & 0xc0) != 0x80) + (c >= 0xf0);
        }
        return units;
}

bool s3_tag_text_valid(struct s3_str s, size_t max)
{
        if (s3_utf16_len(s) > max)
                return false;
        while (s.len > 0) {
                size_t n = s3_utf8_sequence(s);

                if (n == 0 || !tag_allows(code_point((const unsigned char *)s.data, n)))
                        return false;
                s.data += n;
                s.len -= n;
        }
        return true;
}

static enum s3_error tags_refuse(enum s3_error error, const char *text, const char **message)
{
        *message = text;
        return error;
}

static enum s3_error tag_check(const struct s3_tag *tag, unsigned max, const char **message)
{
        if (tag->key.len == 0 || !s3_tag_text_valid(tag->key, S3_TAG_KEY_MAX))
                return tags_refuse(S3_ERR_INVALID_TAG, "The TagKey you have provided is invalid", message);
        if (!s3_tag_text_valid(tag->value, S3_TAG_VALUE_MAX))
                return tags_refuse(S3_ERR_INVALID_TAG, "The TagValue you have provided is invalid", message);
        if (s3_str_starts_nocase(tag->key, S3_STR("aws:")))
                return tags_refuse(S3_ERR_INVALID_TAG,
                                   max > S3_OBJECT_TAGS_MAX ? "System tags cannot be added/updated by requester"
                                                            : "Your TagKey cannot be prefixed with aws:",
                                   message);
        return S3_OK;
}

static enum s3_error tags_too_many(unsigned max, const char **message)
{
        return tags_refuse(S3_ERR_BAD_REQUEST,
                           max > S3_OBJECT_TAGS_MAX ? "Bucket tag count cannot be greater than 50"
                                                    : "Object tags cannot be greater than 10",
                           message);
}

/* Has the tag at index a key that one before it has? */
static bool tag_repeated(const struct s3_tags *tags, unsigned index)
{
        for (unsigned i = 0; i < index; i++)
                if (s3_str_eq(tags->tag[i].key, tags->tag[index].key))
                        return true;
        return false;
}

enum s3_error s3_tags_check(const struct s3_tags *tags, unsigned max, const char **message)
{
        enum s3_error error;

        if (tags->count > max)
                return tags_too_many(max, message);
        for (unsigned i = 0; i < tags->count; i++) {
                error = tag_check(&tags->tag[i], max, message);
                if (error != S3_OK)
                        return error;
                if (tag_repeated(tags, i))
                        return tags_refuse(S3_ERR_INVALID_TAG, "Cannot provide multiple Tags with the same key",
                                           message);
        }
        return S3_OK;
}

bool s3_tags_have(const struct s3_tags *tags, const struct s3_tag *tag)
{
        for (unsigned i = 0; i < tags->count; i++)
                if (s3_str_eq(tags->tag[i].key, tag->key))
                        return s3_str_eq(tags->tag[i].value, tag->value);
        return false;
}

/* ---- headers --------------------------------------------------------------------------------- */

/* Decodes "key=value" behind what buf holds already. False: no valid text, or no key. */
static bool tag_decode(struct s3_str piece, char *buf, size_t cap, size_t *used, struct s3_tag *out)
{
        struct s3_str value, key = s3_str_cut(piece, '=', &value);

        return s3_query_decode(key, buf, cap, used, &out->key) && out->key.len > 0 &&
               s3_query_decode(value, buf, cap, used, &out->value);
}

enum s3_error s3_tags_header_parse(struct s3_str value, char *buf, size_t cap, struct s3_tags *out,
                                   const char **message)
{
        size_t used = 0;

        out->count = 0;
        while (value.len > 0) {
                struct s3_str piece = s3_str_cut(value, '&', &value);

                if (piece.len == 0)
                        continue;
                if (out->count == S3_OBJECT_TAGS_MAX)
                        return tags_too_many(S3_OBJECT_TAGS_MAX, message);
                if (!tag_decode(piece, buf, cap, &used, &out->tag[out->count]) || tag_repeated(out, out->count))
                        return tags_refuse(S3_ERR_INVALID_ARGUMENT,
                                           "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL "
                                           "query parameters without tag name duplicates.",
                                           message);
                out->count++;
        }
        return s3_tags_check(out, S3_OBJECT_TAGS_MAX, message);
}

enum s3_error s3_tagging_directive_parse(struct s3_str value, bool *replace, const char **message)
{
        *replace = s3_str_eq(value, S3_STR("REPLACE"));
        if (*replace || value.data == NULL || s3_str_eq(value, S3_STR("COPY")))
                return S3_OK;
        return tags_refuse(S3_ERR_INVALID_ARGUMENT, "Unknown tagging directive.", message);
}

/* ---- stored ---------------------------------------------------------------------------------- */

static uint8_t *put_u16(uint8_t *p, size_t value)
{
        p[0] = (uint8_t)value;
        p[1] = (uint8_t)(value >> 8);
        return p + 2;
}

static size_t take_u16(const uint8_t *p)
{
        return (size_t)p[0] | (size_t)p[1] << 8;
}

static uint8_t *put_bytes(uint8_t *p, struct s3_str s)
{
        if (s.len > 0)
                memcpy(p, s.data, s.len);
        return p + s.len;
}

ssize_t s3_tags_encode(const struct s3_tags *tags, void *out, size_t cap)
{
        uint8_t *p = out;
        size_t left = cap;

        if (left < 1)
                return -ENOBUFS;
        *p++ = (uint8_t)tags->count;
        left--;
        for (unsigned i = 0; i < tags->count; i++) {
                const struct s3_tag *tag = &tags->tag[i];

                if (left < 4 + tag->key.len + tag->value.len)
                        return -ENOBUFS;
                left -= 4 + tag->key.len + tag->value.len;
                p = put_u16(p, tag->key.len);
                p = put_u16(p, tag->value.len);
                p = put_bytes(p, tag->key);
                p = put_bytes(p, tag->value);
        }
        return (ssize_t)(cap - left);
}

int s3_tags_decode(const void *data, size_t len, struct s3_tags *out)
{
        const uint8_t *p = data;

        out->count = 0;
        if (len < 1 || p[0] > S3_TAGS_MAX)
                return -EINVAL;
        out->count = *p++;
        len--;
        for (unsigned i = 0; i < out->count; i++) {
                size_t key_len = len < 4 ? 0 : take_u16(p), value_len = len < 4 ? 0 : take_u16(p + 2);

                if (key_len == 0 || key_len > S3_TAG_KEY_BYTES || value_len > S3_TAG_VALUE_BYTES ||
                    len - 4 < key_len + value_len)
                        return -EINVAL;
                out->tag[i].key = (struct s3_str){(const char *)p + 4, key_len};
                out->tag[i].value = (struct s3_str){(const char *)p + 4 + key_len, value_len};
                p += 4 + key_len + value_len;
                len -= 4 + key_len + value_len;
        }
        return len == 0 ? 0 : -EINVAL;
}

/* ---- Tagging --------------------------------------------------------------------------------- */

enum { TAGGING, TAG_SET, TAG, KEY, VALUE };

static const struct s3_element tagging_elements[] = {
        [TAGGING] = {.name = "Tagging"},        [TAG_SET] = {.name = "TagSet", .parent = TAGGING},
        [TAG] = {"Tag", TAG_SET, .many = true}, [KEY] = {"Key", TAG, .text = true},
        [VALUE] = {"Value", TAG, .text = true},
};

static unsigned tags_max(const struct s3_doc *doc)
{
        return doc->kind == S3_DOC_BUCKET_TAGGING ? S3_TAGS_MAX : S3_OBJECT_TAGS_MAX;
}

enum s3_error s3_doc_tag_begin(struct s3_doc *doc, unsigned max)
{
        return doc->tags.count == max ? tags_too_many(max, &doc->message) : S3_OK;
}

enum s3_error s3_doc_tag_part(struct s3_doc *doc, struct s3_str text, bool value)
{
        struct s3_tag *tag = &doc->tags.tag[doc->tags.count]; /* there is room while one is open */

        return s3_arena_keep_str(&doc->priv->arena, text, value ? &tag->value : &tag->key);
}

enum s3_error s3_doc_tag_end(struct s3_doc *doc, bool whole)
{
        doc->tags.count += whole;
        return whole ? S3_OK : S3_ERR_MALFORMED_XML;
}

static enum s3_error tagging_open(struct s3_doc *doc, unsigned number)
{
        return number == TAG ? s3_doc_tag_begin(doc, tags_max(doc)) : S3_OK;
}

static enum s3_error tagging_close(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        switch (number) {
        case KEY:
        case VALUE:
                return s3_doc_tag_part(doc, text, number == VALUE);
        case TAG:
                return s3_doc_tag_end(doc, s3_doc_saw_of(doc, S3_SEEN(KEY) | S3_SEEN(VALUE)) == 2);
        case TAGGING:
                if (!s3_doc_saw(doc, TAG_SET))
                        return S3_ERR_MALFORMED_XML;
                return s3_tags_check(&doc->tags, tags_max(doc), &doc->message);
        default:
                return S3_OK;
        }
}

S3_SCHEMA(s3_object_tagging_schema, tagging_elements, 1u << 20, tagging_open, tagging_close);
S3_SCHEMA(s3_bucket_tagging_schema, tagging_elements, 1u << 20, tagging_open, tagging_close);

void s3_tag_list_write(struct s3_xml *xml, const struct s3_tag *tags, unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                s3_xml_open(xml, "Tag");
                s3_xml_text(xml, "Key", tags[i].key);
                s3_xml_text(xml, "Value", tags[i].value);
                s3_xml_close(xml, "Tag");
        }
}

void s3_tags_write(struct s3_xml *xml, const struct s3_tags *tags)
{
        s3_xml_root(xml, "Tagging");
        s3_xml_open(xml, "TagSet");
        s3_tag_list_write(xml, tags->tag, tags->count);
        s3_xml_close(xml, "TagSet");
        s3_xml_close(xml, "Tagging");
}
