/*
 * config.c - configurations that are kept as they were read: the walk along their tables, and
 * writing them. Called by docs.c for the request that owns the document, and by the gateway for
 * configurations in force; those never change.
 */
#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "s3_config.h"

struct node {
        struct s3_str text;
        uint32_t parent, end; /* end: behind its last descendant */
        uint8_t row;
};

struct s3_config {
        const struct s3_schema *schema;
        struct s3_arena arena; /* of the texts */
        struct node *nodes;    /* in document order; bounded by the size of the body */
        uint32_t count, capacity;
        uint32_t open;                   /* the element that is open now */
        uint16_t times[S3_ELEMENTS_MAX]; /* of each row, in the present parent */
};

/* ---- reading --------------------------------------------------------------------------------- */

static enum s3_error config_new(struct s3_doc *doc)
{
        doc->config = calloc(1, sizeof(*doc->config));
        if (doc->config == NULL)
                return S3_ERR_INTERNAL_ERROR;
        doc->config->schema = doc->priv->schema;
        return S3_OK;
}

void s3_config_free(struct s3_config *config)
{
        if (config == NULL)
                return;
        s3_arena_free(&config->arena);
        free(config->nodes);
        free(config);
}

static enum s3_error config_append(struct s3_config *config, unsigned row)
{
        uint32_t parent = config->open;

        if (config->count == config->capacity) {
                uint32_t capacity = config->capacity == 0 ? 16 : config->capacity * 2;
                struct node *grown = realloc(config->nodes, capacity * sizeof(*grown));

                if (grown == NULL)
                        return S3_ERR_INTERNAL_ERROR;
                config->nodes = grown;
                config->capacity = capacity;
        }
        config->open = config->count++;
        config->nodes[config->open] = (struct node){.parent = parent, .row = (uint8_t)row};
        return S3_OK;
}

enum s3_error s3_config_open(struct s3_doc *doc, unsigned number)
{
        const struct s3_schema *schema = doc->priv->schema;
        struct s3_config *config;

        if (number == 0 && config_new(doc) != S3_OK)
                return S3_ERR_INTERNAL_ERROR;
        config = doc->config;
        if (number >= sizeof(config->times) / sizeof(config->times[0]))
                return S3_ERR_INTERNAL_ERROR; /* there is no such row: the analyser is told */
        if (number > 0 && config->times[number] == schema->elements[number].max)
                return S3_ERR_MALFORMED_XML;
        config->times[number] = (uint16_t)(config->times[number] + 1);
        for (unsigned i = number + 1; i < schema->count; i++)
                if (schema->elements[i].parent == number)
                        config->times[i] = 0;
        return config_append(config, number);
}

static bool word_is_one_of(struct s3_str word, const char *words)
{
        struct s3_str rest = s3_str_of(words);

        while (rest.len > 0)
                if (s3_str_eq(s3_str_cut(rest, '|', &rest), word))
                        return true;
        return false;
}

static enum s3_error config_value(const struct s3_element *element, struct s3_str *text)
{
        int64_t number;

        if (element->type == S3_TYPE_TEXT)
                return text->len >= (size_t)element->least && text->len <= (size_t)element->most ? S3_OK
                                                                                                 : S3_ERR_MALFORMED_XML;
        *text = s3_xml_trim(*text);
        if (element->type == S3_TYPE_WORD)
                return word_is_one_of(*text, element->words) ? S3_OK : S3_ERR_MALFORMED_XML;
        if (element->type == S3_TYPE_INT) {
                if (s3_doc_int(*text, &number) != S3_OK)
                        return S3_ERR_MALFORMED_XML;
                return number >= element->least && number <= element->most ? S3_OK : S3_ERR_MALFORMED_XML;
        }
        /* A flag, in any case of letters, as AWS takes it. */
        if (s3_str_eq_nocase(*text, S3_STR("true")))
                *text = S3_STR("true");
        else if (s3_str_eq_nocase(*text, S3_STR("false")))
                *text = S3_STR("false");
        else
                return S3_ERR_MALFORMED_XML;
        return S3_OK;
}

enum s3_error s3_config_close(struct s3_doc *doc, unsigned number, struct s3_str text)
{
        const struct s3_schema *schema = doc->priv->schema;
        struct s3_config *config = doc->config;
        struct node *node = &config->nodes[config->open];
        enum s3_error error = S3_OK;

        if (schema->elements[number].text) {
                error = config_value(&schema->elements[number], &text);
                if (error == S3_OK)
                        error = s3_arena_keep_str(&config->arena, text, &node->text);
        }
        for (unsigned i = number + 1; i < schema->count; i++)
                if (schema->elements[i].parent == number && config->times[i] < schema->elements[i].min)
                        error = S3_ERR_MALFORMED_XML;
        node->end = config->count;
        config->open = node->parent;
        if (error == S3_OK && number == 0 && schema->end != NULL)
                error = schema->end(doc);
        return error;
}

/* ---- asking ---------------------------------------------------------------------------------- */

unsigned s3_config_row(const struct s3_config *config, uint32_t element)
{
        return config->nodes[element].row;
}

uint32_t s3_config_count(const struct s3_config *config)
{
        return config->count;
}

uint32_t s3_config_parent(const struct s3_config *config, uint32_t element)
{
        return config->nodes[element].parent;
}

uint32_t s3_config_next(const struct s3_config *config, uint32_t parent, uint32_t after, const char *name)
{
        uint32_t at = after == parent ? parent + 1 : config->nodes[after].end;

        for (; at < config->nodes[parent].end; at = config->nodes[at].end)
                if (strcmp(config->schema->elements[config->nodes[at].row].name, name) == 0)
                        return at;
        return S3_CONFIG_NONE;
}

struct s3_str s3_config_text(const struct s3_config *config, uint32_t element)
{
        return element != S3_CONFIG_NONE ? config->nodes[element].text : (struct s3_str){NULL, 0};
}

struct s3_str s3_config_text_of(const struct s3_config *config, uint32_t parent, const char *name)
{
        return s3_config_text(config, s3_config_first(config, parent, name));
}

unsigned s3_config_count_of(const struct s3_config *config, uint32_t parent, uint64_t rows)
{
        unsigned n = 0;

        for (uint32_t at = parent + 1; at < config->nodes[parent].end; at = config->nodes[at].end)
                n += (rows & S3_SEEN(config->nodes[at].row)) != 0;
        return n;
}

enum s3_error s3_config_refuse(struct s3_doc *doc, enum s3_error error, const char *format, struct s3_str text)
{
        char message[400];
        int n = snprintf(message, sizeof(message), format, text.len < 200 ? (int)text.len : 200, text.data);
        size_t len = n < 0 ? 0 : (size_t)n < sizeof(message) ? (size_t)n : sizeof(message) - 1;

        return s3_doc_refuse(doc, error, s3_arena_keep(&doc->priv->arena, message, len));
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A grantee's type is an attribute, which the reader does not keep: it follows from what names him. */
static void grantee_open(struct s3_xml *xml, const struct s3_config *config, uint32_t at)
{
        const char *type = "CanonicalUser";

        if (s3_config_first(config, at, "URI") != S3_CONFIG_NONE)
                type = "Group";
        else if (s3_config_first(config, at, "EmailAddress") != S3_CONFIG_NONE)
                type = "AmazonCustomerByEmail";
        s3_xml_raw(xml, S3_STR("<Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\""));
        s3_xml_raw(xml, s3_str_of(type));
        s3_xml_raw(xml, S3_STR("\">"));
}

static void config_open_written(struct s3_xml *xml, const struct s3_config *config, uint32_t at, bool plain)
{
        const struct s3_element *element = &config->schema->elements[config->nodes[at].row];

        if (at == 0 && !plain)
                s3_xml_root(xml, element->name);
        else if (strcmp(element->name, "Grantee") == 0)
                grantee_open(xml, config, at);
        else
                s3_xml_open(xml, element->name);
}

/* plain: in one line, whatever the text has. */
static void config_text_written(struct s3_xml *xml, const char *name, struct s3_str text, bool plain)
{
        const char *end = plain && text.len > 0 ? memchr(text.data, '\n', text.len) : NULL;

        if (end == NULL) {
                s3_xml_text(xml, name, text);
                return;
        }
        s3_xml_open(xml, name);
        for (; end != NULL; end = text.len > 0 ? memchr(text.data, '\n', text.len) : NULL) {
                s3_xml_escaped(xml, (struct s3_str){text.data, (size_t)(end - text.data)});
                s3_xml_raw(xml, S3_STR("&#10;"));
                text.len -= (size_t)(end + 1 - text.data);
                text.data = end + 1;
        }
        s3_xml_escaped(xml, text);
        s3_xml_close(xml, name);
}

void s3_config_write(struct s3_xml *xml, const struct s3_config *config, bool plain)
{
        uint32_t open[S3_XML_DEPTH_MAX] = {0};
        unsigned depth = 0;

        for (uint32_t at = 0; at <= config->count; at++) {
                while (depth > 0 && at >= config->nodes[open[depth - 1]].end)
                        s3_xml_close(xml, config->schema->elements[config->nodes[open[--depth]].row].name);
                if (at == config->count)
                        break;
                if (config->schema->elements[config->nodes[at].row].text) {
                        config_text_written(xml, config->schema->elements[config->nodes[at].row].name, config->nodes[at].text, plain);
                } else {
                        config_open_written(xml, config, at, plain);
                        open[depth++] = at;
                }
        }
}
