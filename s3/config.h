/*
 * config.h - what the tables of configurations share: their types of elements, and the functions
 * that a schema (docs_internal.h) names for a document that is kept as it was read.
 */
#ifndef S3_CONFIG_INTERNAL_H
#define S3_CONFIG_INTERNAL_H

#include "docs_internal.h"

#define S3_MANY UINT16_MAX /* the size of the document is the only bound */

/* Rows of a table. how often: at least `low`, at most `high` in each parent. */
#define S3_GROUP(of_name, of_parent, low, high)                                                                        \
        {                                                                                                              \
                .name = (of_name), .parent = (of_parent), .many = (high) > 1, .min = (low), .max = (high)              \
        }
#define S3_LEAF(of_name, of_parent, low, high, of_type, ...)                                                           \
        {                                                                                                              \
                .name = (of_name), .parent = (of_parent), .text = true, .many = (high) > 1, .min = (low),              \
                .max = (high), .type = (of_type), __VA_ARGS__                                                          \
        }
/* Text of so many bytes; one of the words; a number in that range. */
#define S3_TEXT(name, parent, low, high, shortest, longest)                                                            \
        S3_LEAF(name, parent, low, high, S3_TYPE_TEXT, .least = (shortest), .most = (longest))
#define S3_WORDS(name, parent, low, high, of_words) S3_LEAF(name, parent, low, high, S3_TYPE_WORD, .words = (of_words))
#define S3_FLAG(name, parent, low, high)            S3_LEAF(name, parent, low, high, S3_TYPE_FLAG, .words = NULL)
#define S3_INT(name, parent, low, high, smallest, largest)                                                             \
        S3_LEAF(name, parent, low, high, S3_TYPE_INT, .least = (smallest), .most = (largest))

/* open and close of a schema whose document is kept. */
enum s3_error s3_config_open(struct s3_doc *doc, unsigned number);
enum s3_error s3_config_close(struct s3_doc *doc, unsigned number, struct s3_str text);

/* A schema of a table made of the rows above; on_end looks at the whole document, or is NULL. */
#define S3_CONFIG_SCHEMA(schema_name, table, longest, on_end)                                                          \
        const struct s3_schema schema_name = {.elements = (table),                                                     \
                                              .count = sizeof(table) / sizeof((table)[0]),                             \
                                              .body_max = (longest),                                                   \
                                              .open = s3_config_open,                                                  \
                                              .close = s3_config_close,                                                \
                                              .end = (on_end)};                                                        \
        _Static_assert(sizeof(table) / sizeof((table)[0]) <= S3_ELEMENTS_MAX, "an element has a bit in `seen`")

/* For on_end: number of the element's row in the table; how many elements there are. */
unsigned s3_config_row(const struct s3_config *config, uint32_t element);
uint32_t s3_config_count(const struct s3_config *config);
uint32_t s3_config_parent(const struct s3_config *config, uint32_t element);
/* How many elements within the parent have a row in that set. */
unsigned s3_config_count_of(const struct s3_config *config, uint32_t parent, uint64_t rows);
/* Refuses with a message in which %.*s stands for the text. */
enum s3_error s3_config_refuse(struct s3_doc *doc, enum s3_error error, const char *format, struct s3_str text)
        __attribute__((format(printf, 3, 0)));

#endif
