/*
 * Reading XML within bounds, on libxml2's push parser: fragments go in as they arrive, events come
 * out. The gateway reads request bodies with it, clients the answers. Document types are refused as
 * soon as one begins, so there are no entities beyond the five and nothing to expand or fetch;
 * depth, text and size are bounded (I9).
 */
#include <errno.h>
#include <stdlib.h>

#include <libxml/parser.h>
#include <libxml/xmlerror.h>

#include "s3_internal.h"

/*
 * The parser looks again at all of an unfinished token whenever more of it comes. So that a client
 * who sends one in drops cannot make that cost a square, input is gathered to pieces of this size
 * and a token is bounded. A start tag with its attributes is one token; their number is bounded as
 * well, since each is compared with the others.
 */
#define GATHER    4096u
#define TOKEN_MAX (16u << 10)

/* owner: the request; one thread at a time. */
struct s3_xml_reader {
        const struct s3_xml_events *events;
        void *arg;
        xmlParserCtxtPtr parser;
        size_t body_max, body_len;
        enum s3_error error; /* the first one; sticks */
        unsigned depth;      /* open elements */
        bool leaf;           /* the innermost open element has had no children */
        bool whole;          /* the root element has ended */
        size_t text_len;
        char text[S3_XML_TEXT_MAX];
        size_t gathered_len;
        char gathered[GATHER]; /* input not yet given to the parser */
};

static void xml_read_stop(struct s3_xml_reader *reader, enum s3_error error)
{
        if (reader->error == S3_OK)
                reader->error = error;
        xmlStopParser(reader->parser);
}

/* ---- events of libxml2 ----------------------------------------------------------------------- */

static void xml_read_on_open(void *ctx, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri, int namespaces,
                             const xmlChar **namespace_list, int attributes, int defaulted,
                             const xmlChar **attribute_list)
{
        struct s3_xml_reader *reader = ctx;
        enum s3_error error;

        if (reader->error != S3_OK)
                return;
        if (reader->depth == S3_XML_DEPTH_MAX || attributes > (int)S3_XML_ATTRIBUTES_MAX - namespaces) {
                xml_read_stop(reader, S3_ERR_MALFORMED_XML);
                return;
        }
        error = reader->events->open(reader->arg, reader->depth++, s3_str_of((const char *)name));
        reader->leaf = true;
        reader->text_len = 0;
        if (error != S3_OK)
                xml_read_stop(reader, error);
}

static void xml_read_on_close(void *ctx, const xmlChar *name, const xmlChar *prefix, const xmlChar *uri)
{
        struct s3_xml_reader *reader = ctx;
        struct s3_str text = {reader->text, reader->leaf ? reader->text_len : 0};
        enum s3_error error;

        if (reader->error != S3_OK)
                return;
        error = reader->events->close(reader->arg, --reader->depth, s3_str_of((const char *)name), text);
        reader->leaf = false;
        reader->whole = reader->depth == 0;
        reader->text_len = 0;
        if (error != S3_OK)
                xml_read_stop(reader, error);
}

/*
 * Text between the children of an element is not kept, so white space there costs nothing against
 * the bound.
 */
static void on_text(void *ctx, const xmlChar *text, int len)
{
        struct s3_xml_reader *reader = ctx;

        if (reader->error != S3_OK || !reader->leaf)
                return;
        if ((size_t)len > sizeof(reader->text) - reader->text_len) {
                xml_read_stop(reader, S3_ERR_MALFORMED_XML);
                return;
        }
        memcpy(reader->text + reader->text_len, text, (size_t)len);
        reader->text_len += (size_t)len;
}

static void on_document_type(void *ctx, const xmlChar *name, const xmlChar *external_id, const xmlChar *system_id)
{
        xml_read_stop(ctx, S3_ERR_MALFORMED_XML);
}

/* Without a document type, a reference to anything else is an error to libxml2 as well. */
static xmlEntityPtr on_entity(void *ctx, const xmlChar *name)
{
        return xmlGetPredefinedEntity(name);
}

/* libxml2 would print errors; the parser's result says all we answer. */
static void on_error(void *ctx, xmlErrorPtr error)
{
}

static xmlSAXHandler handlers = {
        .initialized = XML_SAX2_MAGIC,
        .startElementNs = xml_read_on_open,
        .endElementNs = xml_read_on_close,
        .characters = on_text,
        .ignorableWhitespace = on_text,
        .cdataBlock = on_text,
        .internalSubset = on_document_type,
        .getEntity = on_entity,
        .serror = on_error,
};

/* ---- reading --------------------------------------------------------------------------------- */

int s3_xml_reader_new(const struct s3_xml_events *events, void *arg, size_t body_max, struct s3_xml_reader **out)
{
        struct s3_xml_reader *reader = calloc(1, sizeof(*reader));

        if (reader == NULL)
                return -ENOMEM;
        xmlInitParser(); /* does its work once, whichever thread comes first */
        reader->events = events;
        reader->arg = arg;
        reader->body_max = body_max != 0 ? body_max : S3_XML_BODY_MAX;
        reader->parser = xmlCreatePushParserCtxt(&handlers, reader, NULL, 0, NULL);
        if (reader->parser == NULL) {
                free(reader);
                return -ENOMEM;
        }
        /*
         * Bodies are UTF-8, whatever they declare: no conversion tables are loaded on a client's
         * word.
         */
        xmlCtxtUseOptions(reader->parser, XML_PARSE_NONET | XML_PARSE_IGNORE_ENC);
        *out = reader;
        return 0;
}

void s3_xml_reader_free(struct s3_xml_reader *reader)
{
        if (reader == NULL)
                return;
        xmlFreeParserCtxt(reader->parser);
        free(reader);
}

static enum s3_error xml_read_parse(struct s3_xml_reader *reader, bool last)
{
        int rv = xmlParseChunk(reader->parser, reader->gathered, (int)reader->gathered_len, last);
        const xmlParserInput *input = reader->parser->input;

        reader->gathered_len = 0;
        if (reader->error != S3_OK)
                return reader->error;
        if (rv == XML_ERR_NO_MEMORY) /* the parser stops, but does not call the document malformed */
                reader->error = S3_ERR_INTERNAL_ERROR;
        else if (!reader->parser->wellFormed || (last && !reader->whole))
                reader->error = S3_ERR_MALFORMED_XML;
        else if (!last && input != NULL && input->end - input->cur > (ptrdiff_t)TOKEN_MAX)
                xml_read_stop(reader, S3_ERR_MALFORMED_XML);
        return reader->error;
}

enum s3_error s3_xml_reader_feed(struct s3_xml_reader *reader, const void *data, size_t len)
{
        const char *p = data;

        if (reader->error != S3_OK)
                return reader->error;
        if (len > reader->body_max - reader->body_len) {
                reader->error = S3_ERR_MAX_MESSAGE_LENGTH;
                return reader->error;
        }
        reader->body_len += len;
        while (len > 0 && reader->error == S3_OK) {
                size_t n = GATHER - reader->gathered_len < len ? GATHER - reader->gathered_len : len;

                memcpy(reader->gathered + reader->gathered_len, p, n);
                reader->gathered_len += n;
                p += n;
                len -= n;
                if (reader->gathered_len == GATHER)
                        xml_read_parse(reader, false);
        }
        return reader->error;
}

enum s3_error s3_xml_reader_finish(struct s3_xml_reader *reader)
{
        if (reader->error == S3_OK)
                xml_read_parse(reader, true);
        return reader->error;
}
