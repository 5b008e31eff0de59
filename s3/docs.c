/*
 * The XML documents clients send: CompleteMultipartUpload, Delete, CreateBucketConfiguration, and
 * the walk through configurations that have a schema, each in a file of its own. Read as they
 * arrive, into tables bounded by S3's own limits; what an element of ours does not know is refused
 * rather than ignored, since it may be a condition. Called by the gateway for the request that owns
 * the document.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "docs_internal.h"

enum field {
        FIELD_NUMBER = 1u << 0,
        FIELD_ETAG = 1u << 1,
        FIELD_CHECKSUM = 1u << 2,
        FIELD_KEY = 1u << 3,
        FIELD_VERSION = 1u << 4,
        FIELD_TIME = 1u << 5,
        FIELD_SIZE = 1u << 6,
        FIELD_QUIET = 1u << 7,
};

/* ---- memory ---------------------------------------------------------------------------------- */

static void *docs_keep(struct s3_doc *doc, const void *bytes, size_t len)
{
        return s3_arena_keep(&doc->priv->arena, bytes, len);
}

static enum s3_error keep_str(struct s3_doc *doc, struct s3_str text, struct s3_str *out)
{
        return s3_arena_keep_str(&doc->priv->arena, text, out);
}

/* Makes room for one more item in a table of at most max. */
static enum s3_error docs_grow(struct s3_doc *doc, void **table, unsigned count, size_t item_size, unsigned max)
{
        unsigned capacity = doc->priv->capacity;
        void *grown;

        if (count == max)
                return S3_ERR_MALFORMED_XML;
        if (count < capacity)
                return S3_OK;
        capacity = capacity == 0 ? 16 : capacity * 2 < max ? capacity * 2 : max;
        grown = realloc(*table, capacity * item_size);
        if (grown == NULL)
                return S3_ERR_INTERNAL_ERROR;
        *table = grown;
        doc->priv->capacity = capacity;
        return S3_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

struct s3_str s3_xml_trim(struct s3_str text)
{
        while (text.len > 0 && strchr(" \t\r\n", text.data[0]) != NULL) {
                text.data++;
                text.len--;
        }
        while (text.len > 0 && strchr(" \t\r\n", text.data[text.len - 1]) != NULL)
                text.len--;
        return text;
}

enum s3_error s3_doc_int(struct s3_str text, int64_t *out)
{
        bool negative;
        uint64_t number;

        text = s3_xml_trim(text);
        negative = text.len > 0 && text.data[0] == '-';
        if (negative || (text.len > 0 && text.data[0] == '+')) {
                text.data++;
                text.len--;
        }
        if (s3_parse_uint(text, negative ? (uint64_t)INT32_MAX + 1 : INT32_MAX, &number) != 0)
                return S3_ERR_MALFORMED_XML;
        *out = negative ? -(int64_t)number : (int64_t)number;
        return S3_OK;
}

bool s3_doc_word(struct s3_str text, const char *word)
{
        return s3_str_eq(s3_xml_trim(text), s3_str_of(word));
}

/* An element that S3 knows and that means more than is done here. */
enum s3_error s3_doc_refuse_element(struct s3_doc *doc, struct s3_str name)
{
        char text[160];
        int n = snprintf(text, sizeof(text), "The element %.*s implies functionality that is not implemented.",
                         name.len < 64 ? (int)name.len : 64, name.data);

        doc->message = docs_keep(doc, text, (size_t)n);
        return S3_ERR_NOT_IMPLEMENTED;
}

enum s3_error s3_doc_refuse(struct s3_doc *doc, enum s3_error error, const char *message)
{
        doc->message = message;
        return error;
}

/* Marks a field of the present item as seen; a second one of the same is no valid document. */
static bool docs_first_of(struct s3_doc *doc, enum field field)
{
        if (doc->priv->item_fields & field)
                return false;
        doc->priv->item_fields |= field;
        return true;
}

/* ---- CompleteMultipartUpload ----------------------------------------------------------------- */

static enum s3_error part_number(struct s3_doc *doc, struct s3_str text)
{
        uint64_t number;

        text = s3_xml_trim(text);
        if (text.len > 1 && text.data[0] == '-' &&
            s3_parse_uint((struct s3_str){text.data + 1, text.len - 1}, UINT64_MAX, &number) != -EINVAL)
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, "PartNumber must be >= 1");
        switch (s3_parse_uint(text, S3_PARTS_MAX, &number)) {
        case 0:
                break;
        case -ERANGE:
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT,
                                     "Part number must be an integer between 1 and 10000, inclusive");
        default:
                return S3_ERR_MALFORMED_XML;
        }
        if (number == 0)
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT, "PartNumber must be >= 1");
        doc->priv->part.number = (uint16_t)number;
        return S3_OK;
}

static enum s3_error part_checksum(struct s3_doc *doc, enum s3_checksum kind, struct s3_str text)
{
        struct s3_complete_part *part = &doc->priv->part;
        uint8_t value[S3_CHECKSUM_MAX];

        if (!docs_first_of(doc, FIELD_CHECKSUM) || s3_checksum_parse(kind, s3_xml_trim(text), value) != 0)
                return s3_doc_refuse(doc, S3_ERR_INVALID_ARGUMENT,
                                     "Invalid Base64 or multiple checksums present in request");
        part->checksum[kind] = docs_keep(doc, value, s3_checksum_info(kind)->len);
        part->checksum_mask |= (uint16_t)S3_CHECKSUM_BIT(kind);
        return part->checksum[kind] != NULL ? S3_OK : S3_ERR_INTERNAL_ERROR;
}

/* A part is never multipart itself, so "md5-n" names none. */
static enum s3_error part_etag(struct s3_doc *doc, struct s3_str text)
{
        struct s3_complete_part *part = &doc->priv->part;
        unsigned parts;

        part->etag_known = s3_etag_parse(text, part->md5, &parts) == 0 && parts == 0;
        return part->etag_known ? S3_OK : keep_str(doc, text, &part->etag);
}

static enum s3_error part_field(struct s3_doc *doc, struct s3_str name, struct s3_str text)
{
        enum s3_checksum kind;

        if (s3_str_eq(name, S3_STR("PartNumber")))
                return docs_first_of(doc, FIELD_NUMBER) ? part_number(doc, text) : S3_ERR_MALFORMED_XML;
        if (s3_str_eq(name, S3_STR("ETag")))
                return docs_first_of(doc, FIELD_ETAG) ? part_etag(doc, s3_xml_trim(text)) : S3_ERR_MALFORMED_XML;
        if (s3_checksum_by_element(name, &kind) == 0)
                return part_checksum(doc, kind, text);
        if (s3_str_starts(name, S3_STR("Checksum")))
                return s3_doc_refuse_element(doc, name);
        return S3_ERR_MALFORMED_XML;
}

static enum s3_error part_end(struct s3_doc *doc)
{
        const unsigned needed = FIELD_NUMBER | FIELD_ETAG;
        enum s3_error error;

        if ((doc->priv->item_fields & needed) != needed)
                return S3_ERR_MALFORMED_XML;
        if (doc->part_count > 0 && doc->parts[doc->part_count - 1].number >= doc->priv->part.number)
                return S3_ERR_INVALID_PART_ORDER;
        error = docs_grow(doc, (void **)&doc->parts, doc->part_count, sizeof(doc->parts[0]), S3_PARTS_MAX);
        if (error == S3_OK)
                doc->parts[doc->part_count++] = doc->priv->part;
        return error;
}

/* ---- Delete ---------------------------------------------------------------------------------- */

static enum s3_error object_key(struct s3_doc *doc, struct s3_str text)
{
        if (text.len == 0)
                return S3_ERR_MALFORMED_XML;
        if (text.len > S3_KEY_MAX)
                return S3_ERR_KEY_TOO_LONG;
        return keep_str(doc, text, &doc->priv->object.key);
}

static enum s3_error object_time(struct s3_doc *doc, struct s3_str text)
{
        struct s3_delete_object *object = &doc->priv->object;

        text = s3_xml_trim(text);
        object->has_time = true;
        if (s3_date_parse_http(text, &object->time_ms) != 0 && s3_date_parse_iso(text, &object->time_ms) != 0)
                return S3_ERR_MALFORMED_XML;
        return S3_OK;
}

static enum s3_error object_size(struct s3_doc *doc, struct s3_str text)
{
        doc->priv->object.has_size = true;
        return s3_parse_uint(s3_xml_trim(text), INT64_MAX, &doc->priv->object.size) == 0 ? S3_OK : S3_ERR_MALFORMED_XML;
}

static enum s3_error object_field(struct s3_doc *doc, struct s3_str name, struct s3_str text)
{
        struct s3_delete_object *object = &doc->priv->object;

        if (s3_str_eq(name, S3_STR("Key")))
                return docs_first_of(doc, FIELD_KEY) ? object_key(doc, text) : S3_ERR_MALFORMED_XML;
        if (s3_str_eq(name, S3_STR("VersionId")))
                return docs_first_of(doc, FIELD_VERSION) ? keep_str(doc, s3_xml_trim(text), &object->version_id)
                                                         : S3_ERR_MALFORMED_XML;
        if (s3_str_eq(name, S3_STR("ETag")))
                return docs_first_of(doc, FIELD_ETAG) ? keep_str(doc, s3_xml_trim(text), &object->etag)
                                                      : S3_ERR_MALFORMED_XML;
        if (s3_str_eq(name, S3_STR("LastModifiedTime")))
                return docs_first_of(doc, FIELD_TIME) ? object_time(doc, text) : S3_ERR_MALFORMED_XML;
        if (s3_str_eq(name, S3_STR("Size")))
                return docs_first_of(doc, FIELD_SIZE) ? object_size(doc, text) : S3_ERR_MALFORMED_XML;
        return S3_ERR_MALFORMED_XML;
}

static enum s3_error object_end(struct s3_doc *doc)
{
        enum s3_error error;

        if ((doc->priv->item_fields & FIELD_KEY) == 0)
                return S3_ERR_MALFORMED_XML;
        error = docs_grow(doc, (void **)&doc->objects, doc->object_count, sizeof(doc->objects[0]), S3_DELETE_MAX);
        if (error == S3_OK)
                doc->objects[doc->object_count++] = doc->priv->object;
        return error;
}

static enum s3_error delete_quiet(struct s3_doc *doc, struct s3_str text)
{
        text = s3_xml_trim(text);
        doc->quiet = s3_str_eq_nocase(text, S3_STR("true"));
        return doc->quiet || s3_str_eq_nocase(text, S3_STR("false")) ? S3_OK : S3_ERR_MALFORMED_XML;
}

/* ---- configurations -------------------------------------------------------------------------- */

static enum s3_error config_element(struct s3_doc *doc, struct s3_str name, struct s3_str text)
{
        struct s3_header *leaf = &doc->leaf[doc->leaf_count];
        enum s3_error error;

        doc->elements++;
        text = s3_xml_trim(text);
        if (text.len == 0 || doc->leaf_count == S3_DOC_LEAVES_MAX)
                return S3_OK;
        error = keep_str(doc, name, &leaf->name);
        if (error == S3_OK)
                error = keep_str(doc, text, &leaf->value);
        doc->leaf_count += error == S3_OK;
        return error;
}

/* ---- configurations with a schema ------------------------------------------------------------ */

/* clang-format off */
static const struct s3_schema *const schemas[S3_DOC_KINDS] = {
        [S3_DOC_CREATE_BUCKET] = &s3_create_bucket_schema,
        [S3_DOC_VERSIONING] = &s3_versioning_schema,
        [S3_DOC_OBJECT_TAGGING] = &s3_object_tagging_schema,
        [S3_DOC_BUCKET_TAGGING] = &s3_bucket_tagging_schema,
        [S3_DOC_LOCK_CONFIG] = &s3_lock_config_schema,
        [S3_DOC_RETENTION] = &s3_retention_schema,
        [S3_DOC_LEGAL_HOLD] = &s3_legal_hold_schema,
        [S3_DOC_LIFECYCLE] = &s3_lifecycle_schema,
        [S3_DOC_CORS] = &s3_cors_schema,
        [S3_DOC_WEBSITE] = &s3_website_schema,
        [S3_DOC_LOGGING] = &s3_logging_schema,
        [S3_DOC_OWNERSHIP] = &s3_ownership_schema,
        [S3_DOC_ACL] = &s3_acl_schema,
        [S3_DOC_PUBLIC_ACCESS] = &s3_public_access_schema,
        [S3_DOC_REQUEST_PAYMENT] = &s3_request_payment_schema,
        [S3_DOC_ACCELERATE] = &s3_accelerate_schema,
        [S3_DOC_INVENTORY] = &s3_inventory_schema,
        [S3_DOC_METRICS] = &s3_metrics_schema,
        [S3_DOC_ANALYTICS] = &s3_analytics_schema,
        [S3_DOC_TIERING] = &s3_tiering_schema,
        [S3_DOC_NOTIFICATION] = &s3_notification_schema,
};
/* clang-format on */

/* The element of that name at that depth, below those that are open; the schema's count: none. */
static unsigned schema_find(const struct s3_doc_private *priv, unsigned depth, struct s3_str name)
{
        const struct s3_element *elements = priv->schema->elements;

        if (depth == 0)
                return s3_str_eq(name, s3_str_of(elements[0].name)) ? 0 : priv->schema->count;
        for (unsigned i = 1; i < priv->schema->count; i++)
                if (elements[i].parent == priv->path[depth - 1] && s3_str_eq(name, s3_str_of(elements[i].name)))
                        return i;
        return priv->schema->count;
}

static enum s3_error schema_open(struct s3_doc *doc, unsigned depth, struct s3_str name)
{
        struct s3_doc_private *priv = doc->priv;
        const struct s3_schema *schema = priv->schema;
        unsigned number = schema_find(priv, depth, name);
        uint64_t below;

        if (number == schema->count || (s3_doc_saw(doc, number) && !schema->elements[number].many))
                return S3_ERR_MALFORMED_XML;
        below = S3_SEEN(number);
        for (unsigned i = number + 1; i < schema->count; i++)
                if (below & S3_SEEN(schema->elements[i].parent))
                        below |= S3_SEEN(i);
        priv->seen = (priv->seen & ~below) | S3_SEEN(number);
        priv->path[depth] = (uint8_t)number;
        return schema->open != NULL ? schema->open(doc, number) : S3_OK;
}

static enum s3_error schema_close(struct s3_doc *doc, unsigned depth, struct s3_str text)
{
        const struct s3_schema *schema = doc->priv->schema;
        unsigned number = doc->priv->path[depth];

        if (!schema->elements[number].text && s3_xml_trim(text).len > 0)
                return S3_ERR_MALFORMED_XML;
        return schema->close(doc, number, text);
}

/* ---- events ---------------------------------------------------------------------------------- */

static const struct {
        const char *root, *item; /* item: the element at depth 1 that has fields; NULL: none */
} shapes[] = {
        [S3_DOC_COMPLETE_UPLOAD] = {"CompleteMultipartUpload", "Part"},
        [S3_DOC_DELETE] = {"Delete", "Object"},
};

static bool is_item(const struct s3_doc *doc, struct s3_str name)
{
        const char *item = shapes[doc->kind].item;

        return item != NULL && s3_str_eq(name, s3_str_of(item));
}

static enum s3_error docs_on_open(void *arg, unsigned depth, struct s3_str name)
{
        struct s3_doc *doc = arg;
        struct s3_doc_private *priv = doc->priv;

        if (doc->kind == S3_DOC_CONFIG)
                return S3_OK;
        if (priv->schema != NULL)
                return schema_open(doc, depth, name);
        if (depth == 0)
                return s3_str_eq(name, s3_str_of(shapes[doc->kind].root)) ? S3_OK : S3_ERR_MALFORMED_XML;
        if (depth == 1 && is_item(doc, name)) {
                priv->item_fields &= FIELD_QUIET;
                priv->part = (struct s3_complete_part){0};
                priv->object = (struct s3_delete_object){0};
                return S3_OK;
        }
        if (depth == 1 && doc->kind == S3_DOC_DELETE && s3_str_eq(name, S3_STR("Quiet")))
                return docs_first_of(doc, FIELD_QUIET) ? S3_OK : S3_ERR_MALFORMED_XML;
        /* Fields of items are checked when they end; nothing goes deeper. */
        return depth == 2 ? S3_OK : S3_ERR_MALFORMED_XML;
}

static enum s3_error docs_on_close(void *arg, unsigned depth, struct s3_str name, struct s3_str text)
{
        struct s3_doc *doc = arg;

        if (doc->priv->schema != NULL)
                return schema_close(doc, depth, text);
        switch (doc->kind) {
        case S3_DOC_COMPLETE_UPLOAD:
                return depth == 2 ? part_field(doc, name, text) : depth == 1 ? part_end(doc) : S3_OK;
        case S3_DOC_DELETE:
                if (depth == 2)
                        return object_field(doc, name, text);
                if (depth == 1)
                        return is_item(doc, name) ? object_end(doc) : delete_quiet(doc, text);
                return S3_OK;
        case S3_DOC_CONFIG:
                return depth > 0 ? config_element(doc, name, text) : S3_OK;
        default: /* it has a schema */
                return S3_ERR_INTERNAL_ERROR;
        }
}

static const struct s3_xml_events doc_events = {.open = docs_on_open, .close = docs_on_close};

/* ---- outside --------------------------------------------------------------------------------- */

int s3_doc_new(enum s3_doc_kind kind, struct s3_doc **out)
{
        struct s3_doc *doc = calloc(1, sizeof(*doc));

        if (doc == NULL)
                return -ENOMEM;
        doc->kind = kind;
        doc->priv = calloc(1, sizeof(*doc->priv));
        if (doc->priv == NULL) {
                s3_doc_free(doc);
                return -ENOMEM;
        }
        doc->priv->schema = schemas[kind];
        if (s3_xml_reader_new(&doc_events, doc, s3_doc_bytes_max(doc), &doc->priv->reader) != 0) {
                s3_doc_free(doc);
                return -ENOMEM;
        }
        *out = doc;
        return 0;
}

void s3_doc_free(struct s3_doc *doc)
{
        if (doc == NULL)
                return;
        if (doc->priv != NULL) {
                s3_xml_reader_free(doc->priv->reader);
                s3_arena_free(&doc->priv->arena);
        }
        free(doc->priv);
        s3_lifecycle_free(doc->lifecycle);
        s3_config_free(doc->config);
        free(doc->parts);
        free(doc->objects);
        free(doc);
}

/* An ACL that is no document of its form has a code of its own. */
static enum s3_error doc_error(const struct s3_doc *doc, enum s3_error error)
{
        return doc->kind == S3_DOC_ACL && error == S3_ERR_MALFORMED_XML ? S3_ERR_MALFORMED_ACL : error;
}

size_t s3_doc_bytes_max(const struct s3_doc *doc)
{
        return doc->priv->schema != NULL ? doc->priv->schema->body_max : S3_XML_BODY_MAX;
}

enum s3_error s3_doc_feed(struct s3_doc *doc, const void *data, size_t len)
{
        doc->priv->any_input = doc->priv->any_input || len > 0;
        return doc_error(doc, s3_xml_reader_feed(doc->priv->reader, data, len));
}

enum s3_error s3_doc_finish(struct s3_doc *doc)
{
        enum s3_error error;

        doc->empty = !doc->priv->any_input;
        if (doc->empty && (doc->kind == S3_DOC_CREATE_BUCKET || doc->kind == S3_DOC_CONFIG || doc->kind == S3_DOC_ACL))
                return S3_OK;
        if (doc->empty && doc->priv->schema != NULL)
                return S3_ERR_MISSING_REQUEST_BODY;
        error = doc_error(doc, s3_xml_reader_finish(doc->priv->reader));
        if (error != S3_OK)
                return error;
        if ((doc->kind == S3_DOC_COMPLETE_UPLOAD && doc->part_count == 0) ||
            (doc->kind == S3_DOC_DELETE && doc->object_count == 0))
                return S3_ERR_MALFORMED_XML;
        return S3_OK;
}

enum s3_error s3_doc_read(enum s3_doc_kind kind, struct s3_str text, struct s3_doc **out)
{
        enum s3_error error;

        *out = NULL;
        if (s3_doc_new(kind, out) != 0)
                return S3_ERR_INTERNAL_ERROR;
        (*out)->priv->kept = true;
        error = s3_doc_feed(*out, text.data, text.len);
        return error == S3_OK ? s3_doc_finish(*out) : error;
}

struct s3_lifecycle *s3_doc_take_lifecycle(struct s3_doc *doc)
{
        struct s3_lifecycle *lifecycle = doc->lifecycle;

        doc->lifecycle = NULL;
        return lifecycle;
}

struct s3_config *s3_doc_take_config(struct s3_doc *doc)
{
        struct s3_config *config = doc->config;

        doc->config = NULL;
        return config;
}
