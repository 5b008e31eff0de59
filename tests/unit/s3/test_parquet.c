/*
 * test_parquet.c - s3/parquet.c: the bytes of a file, random tables read back, bounds.
 */
#include "tests/unit/s3/s3_fixture.h"

#include <errno.h>

#include "s3_parquet.h"

static struct s3_parquet *parquet;
static uint8_t out[24 << 20];

static int parquet_setup(void **state)
{
        parquet = s3_parquet_new();
        return parquet == NULL;
}

static int parquet_teardown(void **state)
{
        s3_parquet_free(parquet);
        s3_parquet_free(NULL);
        return 0;
}

static struct s3_parquet_value text_of(const char *text)
{
        return (struct s3_parquet_value){.present = true, .text = s3_str_of(text)};
}

static struct s3_parquet_value number_of(int64_t number)
{
        return (struct s3_parquet_value){.present = true, .number = number};
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static const struct s3_parquet_column each_type[] = {
        {"b", S3_PARQUET_TEXT, true}, {"n", S3_PARQUET_INT64, false}, {"t", S3_PARQUET_TIME, true}, {"f", S3_PARQUET_FLAG, false}};

/* Fields of Thrift: (number - number before) << 4 | type; 5: i32, 6: i64, 8: text, 9: list, 12: struct; numbers doubled. */
static const uint8_t each_type_file[] = {
        'P', 'A', 'R', '1',
        /* page header: DATA_PAGE, 14 bytes, 14 bytes, {3 values, PLAIN, RLE, RLE} */
        0x15, 0, 0x15, 28, 0x15, 28, 0x2c, 0x15, 6, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0,
        2, 0, 0, 0, 'a', 'b', 0, 0, 0, 0, 0, 0, 0, 0,
        /* levels: 2 bytes: one run of one group of 8, bits 0 and 2; values 1 and -2 */
        0x15, 0, 0x15, 44, 0x15, 44, 0x2c, 0x15, 6, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0,
        2, 0, 0, 0, 3, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        /* 1,000, -1, -1 */
        0x15, 0, 0x15, 48, 0x15, 48, 0x2c, 0x15, 6, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0,
        0xe8, 3, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        /* levels as above; true, false */
        0x15, 0, 0x15, 14, 0x15, 14, 0x2c, 0x15, 6, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0,
        2, 0, 0, 0, 3, 5, 1,
        /* footer: version 1; five elements of the schema: the root with four children, */
        0x15, 2, 0x19, 0x5c, 0x48, 6, 's', 'c', 'h', 'e', 'm', 'a', 0x15, 8, 0,
        0x15, 12, 0x25, 0, 0x18, 1, 'b', 0x25, 0, 0,  /* BYTE_ARRAY, required, UTF8 */
        0x15, 4, 0x25, 2, 0x18, 1, 'n', 0,            /* INT64, optional */
        0x15, 4, 0x25, 0, 0x18, 1, 't', 0x25, 18, 0,  /* INT64, required, TIMESTAMP_MILLIS */
        0x15, 0, 0x25, 2, 0x18, 1, 'f', 0,            /* BOOLEAN, optional */
        /* 3 rows; one group of four columns: file offset, {type, [PLAIN, RLE], [name], UNCOMPRESSED, 3, size, size, offset} */
        0x16, 6, 0x19, 0x1c, 0x19, 0x4c,
        0x26, 8, 0x1c, 0x15, 12, 0x19, 0x25, 0, 6, 0x19, 0x18, 1, 'b', 0x15, 0, 0x16, 6, 0x16, 62, 0x16, 62, 0x26, 8, 0, 0,
        0x26, 70, 0x1c, 0x15, 4, 0x19, 0x25, 0, 6, 0x19, 0x18, 1, 'n', 0x15, 0, 0x16, 6, 0x16, 78, 0x16, 78, 0x26, 70, 0, 0,
        0x26, 0x94, 1, 0x1c, 0x15, 4, 0x19, 0x25, 0, 6, 0x19, 0x18, 1, 't', 0x15, 0, 0x16, 6, 0x16, 82, 0x16, 82, 0x26, 0x94, 1, 0, 0,
        0x26, 0xe6, 1, 0x1c, 0x15, 0, 0x19, 0x25, 0, 6, 0x19, 0x18, 1, 'f', 0x15, 0, 0x16, 6, 0x16, 48, 0x16, 48, 0x26, 0xe6, 1, 0, 0,
        /* of the group: 135 bytes, 3 rows; the writer's name; 178 bytes of footer */
        0x16, 0x8e, 2, 0x16, 6, 0, 0x28, 8, 'm', 'i', 'l', 'l', 'r', 'a', 'c', 'e', 0, 178, 0, 0, 0, 'P', 'A', 'R', '1'};

static int write_each_type(size_t cap)
{
        struct s3_parquet_value row[] = {text_of("ab"), number_of(1), number_of(1000), number_of(1)};
        int rv;

        s3_parquet_begin(parquet, each_type, COUNT(each_type), out, cap);
        rv = s3_parquet_row(parquet, row);
        row[0] = text_of("");
        row[1].present = row[3].present = false;
        row[2] = number_of(-1);
        rv = rv != 0 ? rv : s3_parquet_row(parquet, row);
        row[1] = number_of(-2);
        row[3] = number_of(0);
        rv = rv != 0 ? rv : s3_parquet_row(parquet, row);
        return rv != 0 ? rv : s3_parquet_end(parquet);
}

static void test_each_byte(void **state)
{
        assert_int_equal(write_each_type(sizeof(out)), 0);
        assert_int_equal(s3_parquet_len(parquet), sizeof(each_type_file));
        assert_memory_equal(out, each_type_file, sizeof(each_type_file));
}

static void test_a_file_without_rows(void **state)
{
        static const uint8_t file[] = {'P', 'A', 'R', '1', 0x15, 2, 0x19, 0x2c, 0x48, 6, 's', 'c', 'h', 'e', 'm', 'a', 0x15, 2, 0,
                                       0x15, 12, 0x25, 0, 0x18, 1, 'b', 0x25, 0, 0, 0x16, 0, 0x19, 0x0c,
                                       0x28, 8, 'm', 'i', 'l', 'l', 'r', 'a', 'c', 'e', 0, 40, 0, 0, 0, 'P', 'A', 'R', '1'};

        s3_parquet_begin(parquet, each_type, 1, out, sizeof(out));
        assert_int_equal(s3_parquet_end(parquet), 0);
        assert_int_equal(s3_parquet_len(parquet), sizeof(file));
        assert_memory_equal(out, file, sizeof(file));
}

/* ---- random tables, read back ---------------------------------------------------------------- */

static const uint8_t *at;

static uint64_t take_varint(void)
{
        uint64_t number = 0;

        for (unsigned shift = 0;; shift += 7) {
                number |= (uint64_t)(*at & 0x7f) << shift;
                if ((*at++ & 0x80) == 0)
                        return number;
        }
}

static uint64_t take_field(uint8_t head)
{
        assert_int_equal(*at++, head);
        return take_varint() >> 1;
}

/* The next page's header. Values in it; the bytes of the page are behind it. */
static uint64_t take_page(uint64_t *bytes)
{
        uint64_t count;

        assert_int_equal(take_field(0x15), 0);
        *bytes = take_field(0x15);
        assert_int_equal(take_field(0x15), *bytes);
        assert_int_equal(*at++, 0x2c);
        count = take_field(0x15);
        assert_int_equal(take_field(0x15), 0);
        assert_int_equal(take_field(0x15), 3);
        assert_int_equal(take_field(0x15), 3);
        assert_int_equal(*at++, 0);
        assert_int_equal(*at++, 0);
        return count;
}

struct cell {
        bool present;
        uint64_t number;
        char text[24];
};

static struct cell table[3000][8];
static struct s3_parquet_column random_columns[8];

static void fill_cell(const struct s3_parquet_column *column, struct cell *cell, struct s3_parquet_value *value)
{
        cell->present = column->required || random_next() % 3 != 0;
        cell->number = column->type == S3_PARQUET_FLAG ? random_next() % 2 : random_next();
        snprintf(cell->text, 1 + random_next() % sizeof(cell->text), "%llu", (unsigned long long)random_next());
        *value = (struct s3_parquet_value){cell->present, s3_str_of(cell->text), (int64_t)cell->number};
}

static void check_value(enum s3_parquet_type type, const struct cell *cell, const uint8_t *flags, unsigned number)
{
        uint64_t value = 0;

        if (type == S3_PARQUET_FLAG) {
                assert_int_equal(flags[number / 8] >> (number % 8) & 1, cell->number);
                return;
        }
        for (unsigned i = 0; i < (type == S3_PARQUET_TEXT ? 4 : 8); i++)
                value |= (uint64_t)*at++ << (8 * i);
        if (type != S3_PARQUET_TEXT) {
                assert_true(value == cell->number);
                return;
        }
        assert_int_equal(value, strlen(cell->text));
        assert_memory_equal(at, cell->text, value);
        at += value;
}

static void check_column(unsigned column, unsigned rows)
{
        const uint8_t *levels = NULL, *page;
        unsigned present = 0;
        uint64_t bytes;

        assert_int_equal(take_page(&bytes), rows);
        page = at;
        if (!random_columns[column].required) {
                uint32_t len = at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;

                at += 4;
                levels = at;
                assert_int_equal(take_varint(), ((rows + 7) / 8) << 1 | 1);
                at = levels + len;
                assert_int_equal(rows % 8 == 0 ? 0 : at[-1] >> (rows % 8), 0);
                levels = at - (rows + 7) / 8;
        }
        for (unsigned row = 0, number = 0; row < rows; row++) {
                const struct cell *cell = &table[row][column];

                if (levels != NULL)
                        assert_int_equal(levels[row / 8] >> (row % 8) & 1, cell->present);
                if (cell->present)
                        check_value(random_columns[column].type, cell, at, number++);
                present += cell->present;
        }
        if (random_columns[column].type == S3_PARQUET_FLAG)
                at += (present + 7) / 8;
        assert_int_equal(at - page, bytes);
}

static void test_random_tables(void **state)
{
        static const char *const names[8] = {"a", "b", "c", "d", "e", "f", "g", "h"};

        random_seed();
        for (unsigned round = 0; round < 100; round++) {
                unsigned columns = 1 + (unsigned)(random_next() % 8), rows = 1 + (unsigned)(random_next() % COUNT(table));
                struct s3_parquet_value values[8];

                for (unsigned i = 0; i < columns; i++)
                        random_columns[i] = (struct s3_parquet_column){names[i], (enum s3_parquet_type)(random_next() % 4),
                                                                       random_next() % 2};
                s3_parquet_begin(parquet, random_columns, columns, out, sizeof(out));
                for (unsigned row = 0; row < rows; row++) {
                        for (unsigned i = 0; i < columns; i++)
                                fill_cell(&random_columns[i], &table[row][i], &values[i]);
                        assert_int_equal(s3_parquet_row(parquet, values), 0);
                }
                assert_int_equal(s3_parquet_end(parquet), 0);
                at = out + 4;
                for (unsigned i = 0; i < columns; i++)
                        check_column(i, rows);
                assert_int_equal(take_field(0x15), 1); /* and then the footer */
        }
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* Of a file of one column, which so has a page for each group. */
static unsigned count_groups(uint64_t *first_rows)
{
        unsigned groups = 0;
        uint64_t bytes, rows;

        for (at = out + 4; at[0] == 0x15 && at[1] == 0; at += bytes) { /* a page; the footer begins with version 1 */
                rows = take_page(&bytes);
                if (groups++ == 0)
                        *first_rows = rows;
        }
        return groups;
}

static void test_groups_end(void **state)
{
        const struct s3_parquet_column text = {"t", S3_PARQUET_TEXT, true}, flag = {"f", S3_PARQUET_FLAG, false};
        struct s3_parquet_value value = number_of(1), absent = {.present = false};
        static char bytes[1000];
        uint64_t first;

        s3_parquet_begin(parquet, &flag, 1, out, sizeof(out)); /* by rows */
        for (unsigned i = 0; i < S3_PARQUET_GROUP_ROWS + 1; i++)
                assert_int_equal(s3_parquet_row(parquet, i % 2 != 0 ? &value : &absent), 0);
        assert_int_equal(s3_parquet_end(parquet), 0);
        assert_int_equal(count_groups(&first), 2);
        assert_int_equal(first, S3_PARQUET_GROUP_ROWS);
        value = (struct s3_parquet_value){.present = true, .text = {bytes, sizeof(bytes)}};
        s3_parquet_begin(parquet, &text, 1, out, sizeof(out)); /* by bytes */
        for (unsigned i = 0; i < 2100; i++) {
                size_t before = s3_parquet_len(parquet);

                assert_int_equal(s3_parquet_row(parquet, &value), 0);
                assert_in_range(s3_parquet_len(parquet) + 2000, before, before + 3100); /* what is gathered counts */
        }
        assert_int_equal(s3_parquet_end(parquet), 0);
        assert_int_equal(count_groups(&first), 3);
        assert_int_equal(first, (S3_PARQUET_GROUP_BYTES + 1004) / 1005);
}

/* Any less room is told, and a writer that was full writes the next file. */
static void test_parquet_room(void **state)
{
        for (size_t cap = 0; cap < sizeof(each_type_file); cap++) {
                assert_int_equal(write_each_type(cap), -ENOBUFS);
                assert_int_equal(s3_parquet_end(parquet), -ENOBUFS);
        }
        assert_int_equal(write_each_type(sizeof(each_type_file)), 0);
        assert_memory_equal(out, each_type_file, sizeof(each_type_file));
}

static void test_long_rows_and_many_groups(void **state)
{
        const struct s3_parquet_column text = {"t", S3_PARQUET_TEXT, true};
        static char bytes[S3_PARQUET_ROW_MAX + 5 * S3_PARQUET_COLUMNS_MAX];
        struct s3_parquet_value value = {.present = true, .text = {bytes, S3_PARQUET_ROW_MAX}};
        unsigned rows = 0;

        s3_parquet_begin(parquet, &text, 1, out, sizeof(out));
        assert_int_equal(s3_parquet_row(parquet, &value), 0);
        value.text.len = sizeof(bytes);
        assert_int_equal(s3_parquet_row(parquet, &value), -ENOBUFS);
        value.text.len = 1;
        assert_int_equal(s3_parquet_row(parquet, &value), -ENOBUFS); /* and so it stays */
        assert_int_equal(s3_parquet_end(parquet), -ENOBUFS);
        s3_parquet_begin(parquet, &text, 1, out, sizeof(out));
        value.text.len = 0;
        while (s3_parquet_row(parquet, &value) == 0)
                rows++;
        assert_int_equal(rows, (S3_PARQUET_GROUPS_MAX + 1) * S3_PARQUET_GROUP_ROWS - 1);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_byte),          cmocka_unit_test(test_a_file_without_rows),
                cmocka_unit_test(test_random_tables),      cmocka_unit_test(test_groups_end),
                cmocka_unit_test(test_parquet_room),       cmocka_unit_test(test_long_rows_and_many_groups),
        };

        return cmocka_run_group_tests(tests, parquet_setup, parquet_teardown);
}
