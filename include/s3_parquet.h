/*
 * s3_parquet.h - writing Apache Parquet into a buffer, as much of it as flat tables need.
 * See s3.h for the rules of this module.
 *
 *   "PAR1"
 *   row group: for each column one data page:   page header, definition levels, values
 *   row group: ...
 *   footer (FileMetaData), its length (4 bytes, little-endian), "PAR1"
 *
 * Values are PLAIN, levels are one bit-packed run, nothing is compressed, and there are no statistics. Headers
 * and the footer are in Thrift's compact protocol. The rows of a group are gathered, then written column by column.
 */
#ifndef MILLRACE_S3_PARQUET_H
#define MILLRACE_S3_PARQUET_H

#include "s3_base.h"

#define S3_PARQUET_COLUMNS_MAX 24u
#define S3_PARQUET_GROUP_BYTES (1u << 20) /* a row group ends with the row that reaches this, */
#define S3_PARQUET_GROUP_ROWS  65536u     /* or with this many rows */
#define S3_PARQUET_GROUPS_MAX  64u        /* of a file */
#define S3_PARQUET_ROW_MAX     8192u      /* bytes of a row, and 5 for each column */

enum s3_parquet_type {
        S3_PARQUET_TEXT,  /* binary (UTF8) */
        S3_PARQUET_INT64, /* int64 */
        S3_PARQUET_TIME,  /* int64 (TIMESTAMP_MILLIS): of UTC */
        S3_PARQUET_FLAG   /* boolean */
};

/* The name is constant, and outlives the writer. */
struct s3_parquet_column {
        const char *name;
        enum s3_parquet_type type;
        bool required;
};

struct s3_parquet_value {
        bool present;
        struct s3_str text; /* of TEXT */
        int64_t number;     /* of the others; of FLAG 0 or 1 */
};

struct s3_parquet;

/* NULL: no memory. */
struct s3_parquet *s3_parquet_new(void);
void s3_parquet_free(struct s3_parquet *parquet); /* NULL is allowed */
/* Begins a file in `out`, which stays the caller's. 1 to S3_PARQUET_COLUMNS_MAX columns, which are copied. */
void s3_parquet_begin(struct s3_parquet *parquet, const struct s3_parquet_column *columns, unsigned count, void *out,
                      size_t cap);
/*
 * Adds a row: a value for each column; one that is required must be present. -ENOBUFS: the row is longer than
 * S3_PARQUET_ROW_MAX, there is no room for its group, or the file has too many groups; it is of no use then, and
 * every later call says the same.
 */
int s3_parquet_row(struct s3_parquet *parquet, const struct s3_parquet_value *values);
/* Ends the file: 0 or -ENOBUFS. A file may have no rows. */
int s3_parquet_end(struct s3_parquet *parquet);
/* Bytes of the file so far; rows that are gathered count about as they will be written. */
size_t s3_parquet_len(const struct s3_parquet *parquet);

#endif
