/*
 * docs_internal.h - what docs.c shares with the files that read one kind of configuration each.
 *
 * A configuration is described by a table of the elements that its schema has. docs.c walks the
 * document along the table and refuses whatever is not in it; the file of the kind is asked about
 * elements by number.
 */
#ifndef S3_DOCS_INTERNAL_H
#define S3_DOCS_INTERNAL_H

#include "arena.h"

struct s3_element {
        const char *name;
        uint8_t parent; /* a number before its own; the root is 0 and its own parent */
        bool text;      /* has text, and no children; else the other way round */
        bool many;      /* may be there more than once in its parent */
        /* Of a document that is kept as it was read (config.h): */
        uint8_t type;        /* enum s3_element_type */
        uint16_t min, max;   /* times in its parent */
        int32_t least, most; /* bytes of a text, or the range of a number */
        const char *words;   /* of a word: those that are allowed, '|' between them */
};

enum s3_element_type { S3_TYPE_TEXT, S3_TYPE_WORD, S3_TYPE_FLAG, S3_TYPE_INT };

#define S3_ELEMENTS_MAX 64u
#define S3_SEEN(number) (1ull << (number))

struct s3_schema {
        const struct s3_element *elements; /* parents before their children; [0]: the root */
        unsigned count;
        size_t body_max;
        /* An element begins; NULL: nobody asks. */
        enum s3_error (*open)(struct s3_doc *doc, unsigned number);
        /* It ends. text is not trimmed; empty for elements with children. */
        enum s3_error (*close)(struct s3_doc *doc, unsigned number, struct s3_str text);
        enum s3_error (*end)(struct s3_doc *doc); /* config.h: all is read; NULL: nobody asks */
};

/* Defines the schema of a table of elements. */
#define S3_SCHEMA(schema_name, table, max, on_open, on_close)                                                          \
        const struct s3_schema schema_name = {.elements = (table),                                                     \
                                              .count = sizeof(table) / sizeof((table)[0]),                             \
                                              .body_max = (max),                                                       \
                                              .open = (on_open),                                                       \
                                              .close = (on_close)}

/* owner: the document. */
struct s3_doc_private {
        struct s3_xml_reader *reader;
        struct s3_arena arena; /* text and checksums the tables point to; bounded by the body's size */
        bool any_input;
        bool kept; /* in a store, perhaps from before rules that only new documents have to keep */
        const struct s3_schema *schema; /* of a configuration; NULL: another kind */
        uint64_t seen;                  /* S3_SEEN of elements met; those below an element begin anew with it */
        uint8_t path[S3_XML_DEPTH_MAX]; /* numbers of the open elements */
        unsigned capacity;              /* of the table in use */
        unsigned item_fields;           /* bits of enum field seen in the present Part or Object */
        struct s3_complete_part part;
        struct s3_delete_object object;
};

extern const struct s3_schema s3_versioning_schema, s3_object_tagging_schema, s3_bucket_tagging_schema,
        s3_lock_config_schema, s3_retention_schema, s3_legal_hold_schema, s3_lifecycle_schema, s3_cors_schema,
        s3_website_schema, s3_logging_schema, s3_ownership_schema, s3_public_access_schema, s3_request_payment_schema,
        s3_accelerate_schema, s3_inventory_schema, s3_metrics_schema, s3_analytics_schema, s3_tiering_schema,
        s3_notification_schema, s3_acl_schema, s3_create_bucket_schema;

/* Was the element met, in the present one of the elements around it? */
static inline bool s3_doc_saw(const struct s3_doc *doc, unsigned number)
{
        return (doc->priv->seen & S3_SEEN(number)) != 0;
}

/* How many of a set of elements were met. */
static inline unsigned s3_doc_saw_of(const struct s3_doc *doc, uint64_t numbers)
{
        return (unsigned)__builtin_popcountll(doc->priv->seen & numbers);
}

/* Sets the message that fits better than the default one, and returns error. */
enum s3_error s3_doc_refuse(struct s3_doc *doc, enum s3_error error, const char *message);
/* XML white space around a number or word taken off. Never used on keys. */
struct s3_str s3_xml_trim(struct s3_str text);
/*
 * A number as XML Schema's int has it: 32 bits, with a sign or not, white space around it.
 * MALFORMED_XML: something else.
 */
enum s3_error s3_doc_int(struct s3_str text, int64_t *out);
/* Is the text, white space around it taken off, that word? */
bool s3_doc_word(struct s3_str text, const char *word);
/* NotImplemented, and which element. */
enum s3_error s3_doc_refuse_element(struct s3_doc *doc, struct s3_str name);
/* A Tag of a document begins; its Key or Value ends; it ends. */
enum s3_error s3_doc_tag_begin(struct s3_doc *doc, unsigned max);
enum s3_error s3_doc_tag_part(struct s3_doc *doc, struct s3_str text, bool value);
enum s3_error s3_doc_tag_end(struct s3_doc *doc, bool whole);
/* An element Tag for each. */
void s3_tag_list_write(struct s3_xml *xml, const struct s3_tag *tags, unsigned count);

#endif
