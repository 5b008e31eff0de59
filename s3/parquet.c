/*
 * parquet.c - writes Apache Parquet into a caller's buffer (s3_parquet.h). Called by whoever writes inventory
 * reports; pure. Numbers of fields and enumerators are those of parquet.thrift of Apache's parquet-format.
 */
#include "s3_parquet.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PARQUET_MAGIC "PAR1"
#define MAGIC_LEN     4u
#define CREATED_BY    "millrace"
#define ROW_ROOM      (S3_PARQUET_ROW_MAX + 5 * S3_PARQUET_COLUMNS_MAX)

/* A column of a row group, as the footer tells of it. */
struct parquet_chunk {
        uint64_t at, len;
};

struct parquet_group {
        uint32_t rows;
        struct parquet_chunk chunk[S3_PARQUET_COLUMNS_MAX];
};

struct s3_parquet {
        struct s3_parquet_column column[S3_PARQUET_COLUMNS_MAX];
        unsigned columns, groups;
        uint8_t *out;
        size_t at, cap;
        bool full;
        int64_t rows; /* of the whole file */
        struct parquet_group group[S3_PARQUET_GROUPS_MAX];
        /* Rows of the group: for each value whether it is present, and if so 8 bytes, or a length of 4 and a text. */
        size_t gathered;
        uint32_t count;
        uint32_t cursor[S3_PARQUET_GROUP_ROWS]; /* of each row: its value of the column that is written next */
        uint8_t cells[S3_PARQUET_GROUP_BYTES + ROW_ROOM];
};

static const struct {
        uint8_t physical, converted; /* Type, ConvertedType */
        bool is_converted;
} parquet_types[] = {
        [S3_PARQUET_TEXT] = {6, 0, true},
        [S3_PARQUET_INT64] = {2, 0, false},
        [S3_PARQUET_TIME] = {2, 9, true},
        [S3_PARQUET_FLAG] = {0, 0, false},
};

/* ---- bytes ----------------------------------------------------------------------------------- */

static void parquet_put(struct s3_parquet *parquet, const void *bytes, size_t len)
{
        if (parquet->full || len > parquet->cap - parquet->at) {
                parquet->full = true;
                return;
        }
        memcpy(parquet->out + parquet->at, bytes, len);
        parquet->at += len;
}

static void parquet_byte(struct s3_parquet *parquet, uint8_t byte)
{
        parquet_put(parquet, &byte, 1);
}

static void little_endian(uint8_t *out, uint64_t number, unsigned bytes)
{
        for (unsigned i = 0; i < bytes; i++)
                out[i] = (uint8_t)(number >> (8 * i));
}

static void parquet_fixed(struct s3_parquet *parquet, uint64_t number, unsigned bytes)
{
        uint8_t text[8];

        little_endian(text, number, bytes);
        parquet_put(parquet, text, bytes);
}

static unsigned varint_write(uint64_t number, uint8_t out[10])
{
        unsigned len = 0;

        for (; number > 0x7f; number >>= 7)
                out[len++] = (uint8_t)(number | 0x80);
        out[len++] = (uint8_t)number;
        return len;
}

static void parquet_varint(struct s3_parquet *parquet, uint64_t number)
{
        uint8_t text[10];
        unsigned len = varint_write(number, text);

        parquet_put(parquet, text, len);
}

/* ---- Thrift's compact protocol --------------------------------------------------------------- */

enum thrift_type { THRIFT_I32 = 5, THRIFT_I64 = 6, THRIFT_BINARY = 8, THRIFT_LIST = 9, THRIFT_STRUCT = 12 };

/* A field begins; `last` is the number of the field before it, of the same struct. */
static void thrift_field(struct s3_parquet *parquet, unsigned *last, unsigned number, enum thrift_type type)
{
        assert(number > *last && number - *last < 16);
        parquet_byte(parquet, (uint8_t)((number - *last) << 4 | type));
        *last = number;
}

static void thrift_stop(struct s3_parquet *parquet)
{
        parquet_byte(parquet, 0);
}

/* Zigzag; no number here is negative. */
static void thrift_number(struct s3_parquet *parquet, unsigned *last, unsigned field, enum thrift_type type,
                          uint64_t number)
{
        thrift_field(parquet, last, field, type);
        parquet_varint(parquet, number << 1);
}

static void thrift_text(struct s3_parquet *parquet, const char *text)
{
        parquet_varint(parquet, strlen(text));
        parquet_put(parquet, text, strlen(text));
}

static void thrift_list(struct s3_parquet *parquet, unsigned *last, unsigned field, enum thrift_type type,
                        unsigned count)
{
        thrift_field(parquet, last, field, THRIFT_LIST);
        parquet_byte(parquet, (uint8_t)((count < 15 ? count : 15) << 4 | type));
        if (count >= 15)
                parquet_varint(parquet, count);
}

/* ---- row groups ------------------------------------------------------------------------------ */

/* PageHeader of a data page: one page is the whole of a column in its group. */
static void parquet_page_header(struct s3_parquet *parquet, size_t bytes)
{
        unsigned last = 0, inner = 0;

        thrift_number(parquet, &last, 1, THRIFT_I32, 0); /* DATA_PAGE */
        thrift_number(parquet, &last, 2, THRIFT_I32, bytes);
        thrift_number(parquet, &last, 3, THRIFT_I32, bytes);
        thrift_field(parquet, &last, 5, THRIFT_STRUCT);
        thrift_number(parquet, &inner, 1, THRIFT_I32, parquet->count);
        thrift_number(parquet, &inner, 2, THRIFT_I32, 0); /* PLAIN */
        thrift_number(parquet, &inner, 3, THRIFT_I32, 3); /* RLE: that with bit-packed runs */
        thrift_number(parquet, &inner, 4, THRIFT_I32, 3);
        thrift_stop(parquet);
        thrift_stop(parquet);
}

static size_t cell_len(const struct s3_parquet *parquet, unsigned column, const uint8_t *cell)
{
        uint32_t len;

        if (cell[0] == 0)
                return 1;
        if (parquet->column[column].type != S3_PARQUET_TEXT)
                return 9;
        memcpy(&len, cell + 1, sizeof(len));
        return 5 + (size_t)len;
}

static const uint8_t *parquet_cell(const struct s3_parquet *parquet, uint32_t row)
{
        return parquet->cells + parquet->cursor[row];
}

/* Bits, the first in the lowest: of levels if `value` is false, else of the flags that are present. */
static void parquet_bits(struct s3_parquet *parquet, bool value)
{
        unsigned used = 0;
        uint8_t bits = 0;

        for (uint32_t row = 0; row < parquet->count; row++) {
                const uint8_t *cell = parquet_cell(parquet, row);

                if (value && cell[0] == 0)
                        continue;
                bits |= (uint8_t)((value ? cell[1] : cell[0]) << used);
                if (++used < 8)
                        continue;
                parquet_byte(parquet, bits);
                used = bits = 0;
        }
        if (used > 0)
                parquet_byte(parquet, bits);
}

static void parquet_values(struct s3_parquet *parquet, unsigned column)
{
        if (parquet->column[column].type == S3_PARQUET_FLAG) {
                parquet_bits(parquet, true);
                return;
        }
        for (uint32_t row = 0; row < parquet->count; row++) {
                const uint8_t *cell = parquet_cell(parquet, row);
                uint32_t len;

                if (cell[0] == 0)
                        continue;
                if (parquet->column[column].type == S3_PARQUET_TEXT) {
                        memcpy(&len, cell + 1, sizeof(len));
                        parquet_fixed(parquet, len, 4);
                        parquet_put(parquet, cell + 5, len);
                } else {
                        parquet_put(parquet, cell + 1, 8);
                }
        }
}

/* Levels of a column that may lack values: their length, one bit-packed run of whole bytes. */
static size_t parquet_levels(const struct s3_parquet *parquet, unsigned column, uint8_t head[10], unsigned *head_len)
{
        size_t bytes = (parquet->count + 7) / 8;

        if (parquet->column[column].required)
                return 0;
        *head_len = varint_write(bytes << 1 | 1, head);
        return 4 + *head_len + bytes;
}

static size_t parquet_values_len(const struct s3_parquet *parquet, unsigned column)
{
        size_t len = 0;

        for (uint32_t row = 0; row < parquet->count; row++)
                len += cell_len(parquet, column, parquet_cell(parquet, row)) - 1;
        return parquet->column[column].type == S3_PARQUET_FLAG ? (len / 8 + 7) / 8 : len;
}

static void parquet_column_write(struct s3_parquet *parquet, unsigned column)
{
        struct parquet_chunk *chunk = &parquet->group[parquet->groups].chunk[column];
        unsigned head_len = 0;
        uint8_t head[10];
        size_t levels = parquet_levels(parquet, column, head, &head_len);

        chunk->at = parquet->at;
        parquet_page_header(parquet, levels + parquet_values_len(parquet, column));
        if (levels > 0) {
                parquet_fixed(parquet, levels - 4, 4);
                parquet_put(parquet, head, head_len);
                parquet_bits(parquet, false);
        }
        parquet_values(parquet, column);
        chunk->len = parquet->at - chunk->at;
        for (uint32_t row = 0; row < parquet->count; row++)
                parquet->cursor[row] += (uint32_t)cell_len(parquet, column, parquet_cell(parquet, row));
}

static void parquet_group_write(struct s3_parquet *parquet)
{
        if (parquet->count == 0)
                return;
        if (parquet->groups == S3_PARQUET_GROUPS_MAX) {
                parquet->full = true;
                return;
        }
        parquet->group[parquet->groups].rows = parquet->count;
        for (unsigned column = 0; column < parquet->columns; column++)
                parquet_column_write(parquet, column);
        parquet->groups++;
        parquet->count = 0;
        parquet->gathered = 0;
}

/* ---- the footer ------------------------------------------------------------------------------ */

static void parquet_schema(struct s3_parquet *parquet, unsigned *last)
{
        unsigned root = 0;

        thrift_list(parquet, last, 2, THRIFT_STRUCT, parquet->columns + 1);
        thrift_field(parquet, &root, 4, THRIFT_BINARY);
        thrift_text(parquet, "schema");
        thrift_number(parquet, &root, 5, THRIFT_I32, parquet->columns);
        thrift_stop(parquet);
        for (unsigned i = 0; i < parquet->columns; i++) {
                const struct s3_parquet_column *column = &parquet->column[i];
                unsigned inner = 0;

                thrift_number(parquet, &inner, 1, THRIFT_I32, parquet_types[column->type].physical);
                thrift_number(parquet, &inner, 3, THRIFT_I32, column->required ? 0 : 1);
                thrift_field(parquet, &inner, 4, THRIFT_BINARY);
                thrift_text(parquet, column->name);
                if (parquet_types[column->type].is_converted)
                        thrift_number(parquet, &inner, 6, THRIFT_I32, parquet_types[column->type].converted);
                thrift_stop(parquet);
        }
}

/* ColumnChunk with its ColumnMetaData. */
static void parquet_chunk_write(struct s3_parquet *parquet, const struct parquet_group *group, unsigned i)
{
        const struct parquet_chunk *chunk = &group->chunk[i];
        unsigned last = 0, inner = 0;

        thrift_number(parquet, &last, 2, THRIFT_I64, chunk->at);
        thrift_field(parquet, &last, 3, THRIFT_STRUCT);
        thrift_number(parquet, &inner, 1, THRIFT_I32, parquet_types[parquet->column[i].type].physical);
        thrift_list(parquet, &inner, 2, THRIFT_I32, 2);
        parquet_varint(parquet, 0 << 1); /* PLAIN */
        parquet_varint(parquet, 3 << 1); /* RLE */
        thrift_list(parquet, &inner, 3, THRIFT_BINARY, 1);
        thrift_text(parquet, parquet->column[i].name);
        thrift_number(parquet, &inner, 4, THRIFT_I32, 0); /* UNCOMPRESSED */
        thrift_number(parquet, &inner, 5, THRIFT_I64, group->rows);
        thrift_number(parquet, &inner, 6, THRIFT_I64, chunk->len);
        thrift_number(parquet, &inner, 7, THRIFT_I64, chunk->len);
        thrift_number(parquet, &inner, 9, THRIFT_I64, chunk->at);
        thrift_stop(parquet);
        thrift_stop(parquet);
}

static void parquet_groups(struct s3_parquet *parquet, unsigned *last)
{
        thrift_list(parquet, last, 4, THRIFT_STRUCT, parquet->groups);
        for (unsigned i = 0; i < parquet->groups; i++) {
                const struct parquet_group *group = &parquet->group[i];
                unsigned inner = 0;
                uint64_t bytes = 0;

                thrift_list(parquet, &inner, 1, THRIFT_STRUCT, parquet->columns);
                for (unsigned column = 0; column < parquet->columns; column++) {
                        parquet_chunk_write(parquet, group, column);
                        bytes += group->chunk[column].len;
                }
                thrift_number(parquet, &inner, 2, THRIFT_I64, bytes);
                thrift_number(parquet, &inner, 3, THRIFT_I64, group->rows);
                thrift_stop(parquet);
        }
}

int s3_parquet_end(struct s3_parquet *parquet)
{
        unsigned last = 0;
        size_t began;

        parquet_group_write(parquet);
        began = parquet->at;
        thrift_number(parquet, &last, 1, THRIFT_I32, 1); /* version */
        parquet_schema(parquet, &last);
        thrift_number(parquet, &last, 3, THRIFT_I64, (uint64_t)parquet->rows);
        parquet_groups(parquet, &last);
        thrift_field(parquet, &last, 6, THRIFT_BINARY);
        thrift_text(parquet, CREATED_BY);
        thrift_stop(parquet);
        parquet_fixed(parquet, parquet->at - began, 4);
        parquet_put(parquet, PARQUET_MAGIC, MAGIC_LEN);
        return parquet->full ? -ENOBUFS : 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Bytes of the row as it is gathered. */
static size_t row_len(const struct s3_parquet *parquet, const struct s3_parquet_value *values)
{
        size_t len = 0;

        for (unsigned i = 0; i < parquet->columns; i++) {
                assert(values[i].present || !parquet->column[i].required);
                len += !values[i].present ? 1 : parquet->column[i].type == S3_PARQUET_TEXT ? 5 + values[i].text.len : 9;
        }
        return len;
}

int s3_parquet_row(struct s3_parquet *parquet, const struct s3_parquet_value *values)
{
        uint8_t *at = parquet->cells + parquet->gathered;

        parquet->full |= row_len(parquet, values) > ROW_ROOM;
        if (parquet->full)
                return -ENOBUFS;
        for (unsigned i = 0; i < parquet->columns; i++) {
                uint32_t len = (uint32_t)values[i].text.len;

                *at++ = values[i].present;
                if (!values[i].present)
                        continue;
                if (parquet->column[i].type == S3_PARQUET_TEXT) {
                        memcpy(at, &len, sizeof(len));
                        if (len > 0)
                                memcpy(at + sizeof(len), values[i].text.data, len);
                        at += sizeof(len) + len;
                } else {
                        little_endian(at, (uint64_t)values[i].number, 8);
                        at += 8;
                }
        }
        parquet->cursor[parquet->count++] = (uint32_t)parquet->gathered;
        parquet->gathered = (size_t)(at - parquet->cells);
        parquet->rows++;
        if (parquet->gathered >= S3_PARQUET_GROUP_BYTES || parquet->count == S3_PARQUET_GROUP_ROWS)
                parquet_group_write(parquet);
        return parquet->full ? -ENOBUFS : 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

struct s3_parquet *s3_parquet_new(void)
{
        return calloc(1, sizeof(struct s3_parquet));
}

void s3_parquet_free(struct s3_parquet *parquet)
{
        free(parquet);
}

void s3_parquet_begin(struct s3_parquet *parquet, const struct s3_parquet_column *columns, unsigned count, void *out,
                      size_t cap)
{
        assert(count > 0 && count <= S3_PARQUET_COLUMNS_MAX);
        memcpy(parquet->column, columns, count * sizeof(*columns));
        parquet->columns = count;
        parquet->groups = parquet->count = 0;
        parquet->gathered = parquet->at = 0;
        parquet->rows = 0;
        parquet->full = false;
        parquet->out = out;
        parquet->cap = cap;
        parquet_put(parquet, PARQUET_MAGIC, MAGIC_LEN);
}

size_t s3_parquet_len(const struct s3_parquet *parquet)
{
        return parquet->at + parquet->gathered;
}
