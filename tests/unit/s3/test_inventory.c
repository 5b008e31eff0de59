/*
 * test_inventory.c - s3/inventory.c: configurations, periods, rows.
 */
#include "tests/unit/s3/doc_fixture.h"

#include <errno.h>

#define CONFIG(versions, frequency, format, more)                                                                      \
        "<InventoryConfiguration><Id>i</Id><IsEnabled>true</IsEnabled><IncludedObjectVersions>" versions               \
        "</IncludedObjectVersions><Schedule><Frequency>" frequency                                                     \
        "</Frequency></Schedule><Destination><S3BucketDestination><Bucket>arn:aws:s3:::reports</Bucket><Format>" format     \
        "</Format><AccountId>000000000001</AccountId><Prefix>p</Prefix></S3BucketDestination></Destination>" more "</InventoryConfiguration>"
#define FIELD(name) "<Field>" name "</Field>"
#define DAY         86400000ll

static struct s3_inventory inventory;

static int read_config(const char *text)
{
        assert_int_equal(read_doc(S3_DOC_INVENTORY, text), S3_OK);
        return s3_inventory_read(doc->config, &inventory);
}

static const char *row_of(const struct s3_inventory_row *row)
{
        static char line[S3_INVENTORY_ROW_MAX];
        ssize_t len = s3_inventory_csv(&inventory, row, line, sizeof(line) - 1);

        assert_true(len > 0);
        line[len] = '\0';
        return line;
}

static void test_configurations(void **state)
{
        char columns[S3_INVENTORY_SCHEMA_SIZE];

        assert_int_equal(read_config(CONFIG("All", "Weekly", "CSV",
                                            "<Filter><Prefix>a/</Prefix></Filter><OptionalFields>" FIELD("ETag") FIELD("Size")
                                            "</OptionalFields>")),
                         0);
        assert_true(inventory.enabled && inventory.all_versions && inventory.weekly);
        assert_true(s3_str_eq(inventory.bucket, S3_STR("reports")) && s3_str_eq(inventory.prefix, S3_STR("a/")) &&
                    s3_str_eq(inventory.to_prefix, S3_STR("p")) && s3_str_eq(inventory.account, S3_STR("000000000001")));
        s3_inventory_file_schema(&inventory, columns); /* in AWS's order, not in that of the document */
        assert_string_equal(columns, "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, ETag");
        assert_int_equal(read_config(CONFIG("Current", "Daily", "ORC", "")), -ENOTSUP);
        assert_int_equal(read_config(CONFIG("Current", "Daily", "CSV", "<OptionalFields>" FIELD("LifecycleExpirationDate") "</OptionalFields>")),
                         -ENOTSUP);
        assert_int_equal(read_config(CONFIG("Current", "Daily", "CSV", "")), 0);
        s3_inventory_file_schema(&inventory, columns);
        assert_string_equal(columns, "Bucket, Key");
}

/* The message is AWS's, character for character; each column has a place in the row. */
static void test_parquet_schemas(void **state)
{
        static const enum s3_parquet_type types[] = {
                S3_PARQUET_TEXT, S3_PARQUET_TEXT, S3_PARQUET_TEXT, S3_PARQUET_FLAG, S3_PARQUET_FLAG, S3_PARQUET_INT64,
                S3_PARQUET_TIME, S3_PARQUET_TEXT, S3_PARQUET_TEXT, S3_PARQUET_FLAG, S3_PARQUET_TEXT, S3_PARQUET_TEXT,
                S3_PARQUET_TIME, S3_PARQUET_TEXT, S3_PARQUET_TEXT, S3_PARQUET_TEXT, S3_PARQUET_TEXT, S3_PARQUET_TEXT,
                S3_PARQUET_TEXT};
        struct s3_parquet_column columns[S3_INVENTORY_CELLS];
        char schema[S3_INVENTORY_SCHEMA_SIZE];
        size_t len;

        assert_int_equal(read_config(CONFIG("Current", "Daily", "Parquet", "")), 0);
        assert_true(inventory.parquet);
        len = s3_inventory_file_schema(&inventory, schema);
        assert_int_equal(len, strlen(schema));
        assert_string_equal(schema, "message s3.inventory { required binary bucket (UTF8); required binary key (UTF8); }");
        inventory = (struct s3_inventory){.fields = (1u << S3_INVENTORY_FIELD_COUNT) - 1, .all_versions = true, .parquet = true};
        len = s3_inventory_file_schema(&inventory, schema);
        assert_int_equal(len, strlen(schema));
        assert_string_equal(schema,
                            "message s3.inventory { required binary bucket (UTF8); required binary key (UTF8); optional binary "
                            "version_id (UTF8); optional boolean is_latest; optional boolean is_delete_marker; optional int64 size; "
                            "optional int64 last_modified_date (TIMESTAMP_MILLIS); optional binary e_tag (UTF8); optional binary "
                            "storage_class (UTF8); optional boolean is_multipart_uploaded; optional binary replication_status (UTF8); "
                            "optional binary encryption_status (UTF8); optional int64 object_lock_retain_until_date "
                            "(TIMESTAMP_MILLIS); optional binary object_lock_mode (UTF8); optional binary "
                            "object_lock_legal_hold_status (UTF8); optional binary intelligent_tiering_access_tier (UTF8); optional "
                            "binary bucket_key_status (UTF8); optional binary checksum_algorithm (UTF8); optional binary "
                            "object_owner (UTF8); }");
        assert_int_equal(s3_inventory_columns(&inventory, columns), COUNT(types));
        for (size_t i = 0; i < COUNT(types); i++)
                assert_int_equal(columns[i].type, types[i]);
        assert_true(COUNT(types) <= S3_PARQUET_COLUMNS_MAX);
}

static void test_cells(void **state)
{
        struct s3_inventory_row row = {.bucket = S3_STR("b"), .key = S3_STR("a \"\xc3\xa9"), .latest = true, .size = 7, .mtime_ms = -1,
                                       .lock_mode = S3_STR("COMPLIANCE"), .retain_until_ms = 9};
        struct s3_parquet_value cells[S3_INVENTORY_CELLS];

        inventory = (struct s3_inventory){.all_versions = true, .fields = 1u << S3_INVENTORY_SIZE | 1u << S3_INVENTORY_MODIFIED |
                                                                         1u << S3_INVENTORY_RETAIN_UNTIL | 1u << S3_INVENTORY_ETAG};
        s3_inventory_cells(&inventory, &row, cells);
        expect_str(cells[1].text, "a \"\xc3\xa9"); /* as it is: only CSV encodes it */
        assert_false(cells[2].present);
        assert_true(cells[3].present && cells[3].number == 1 && cells[4].present && cells[4].number == 0);
        assert_true(cells[5].number == 7 && cells[6].number == -1 && !cells[7].present && cells[8].number == 9);
        row.marker = true;
        s3_inventory_cells(&inventory, &row, cells);
        assert_true(cells[4].number == 1 && !cells[5].present && cells[6].present && !cells[8].present);
}

/* 2019-02-06 was a Wednesday. */
static void test_periods(void **state)
{
        int64_t wednesday = 1549411200000, sunday = wednesday - 3 * DAY;

        inventory = (struct s3_inventory){.weekly = false};
        assert_int_equal(s3_inventory_period(&inventory, wednesday + DAY - 1, 86400), wednesday);
        assert_int_equal(s3_inventory_period(&inventory, wednesday + DAY, 86400), wednesday + DAY);
        inventory.weekly = true;
        for (int64_t day = 0; day < 7; day++) {
                assert_int_equal(s3_inventory_period(&inventory, sunday + day * DAY, 86400), sunday);
                assert_int_equal(s3_inventory_period(&inventory, sunday + day * DAY + DAY - 1, 86400), sunday);
        }
        assert_int_equal(s3_inventory_period(&inventory, sunday + 7 * DAY, 86400), sunday + 7 * DAY);
        assert_int_equal(s3_inventory_period(&inventory, 12345678, 5) % 5000, 0);
}

static void test_rows(void **state)
{
        struct s3_inventory_row row = {.bucket = S3_STR("b"), .key = S3_STR("a/\"\n,\xc3\xa9"), .version_id = S3_STR("v"), .latest = true,
                                       .size = UINT64_MAX, .mtime_ms = 1549411238000, .etag = S3_STR("e-2"), .multipart = true,
                                       .storage = S3_STR("STANDARD"), .checksum = S3_STR("CRC32"), .owner = S3_STR("me"), .hold = true,
                                       .lock_mode = S3_STR("GOVERNANCE"), .retain_until_ms = 0};

        inventory = (struct s3_inventory){.fields = (1u << S3_INVENTORY_FIELD_COUNT) - 1};
        assert_string_equal(row_of(&row), "\"b\",\"a/%22%0A%2C%C3%A9\",\"18446744073709551615\",\"2019-02-06T00:00:38.000Z\",\"e-2\","
                                          "\"STANDARD\",\"true\",\"\",\"NOT-SSE\",\"1970-01-01T00:00:00.000Z\",\"GOVERNANCE\",\"On\",\"\","
                                          "\"\",\"CRC32\",\"me\"\n");
        inventory.all_versions = true;
        row.marker = true;
        assert_string_equal(row_of(&row), "\"b\",\"a/%22%0A%2C%C3%A9\",\"v\",\"true\",\"true\",\"\",\"2019-02-06T00:00:38.000Z\",\"\",\"\","
                                          "\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"me\"\n");
}

/* The longest key fits, and less room is told. */
static void test_inventory_bounds(void **state)
{
        char key[1024], line[S3_INVENTORY_ROW_MAX];
        struct s3_inventory_row row = {.bucket = S3_STR("b"), .key = {key, sizeof(key)}};

        memset(key, 0xff, sizeof(key));
        inventory = (struct s3_inventory){.fields = (1u << S3_INVENTORY_FIELD_COUNT) - 1, .all_versions = true};
        assert_true(s3_inventory_csv(&inventory, &row, line, sizeof(line)) > 3072);
        for (size_t cap = 0; cap < 3072; cap += 5)
                assert_int_equal(s3_inventory_csv(&inventory, &row, line, cap), -ENOBUFS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_configurations),
                cmocka_unit_test(test_parquet_schemas),
                cmocka_unit_test(test_cells),
                cmocka_unit_test(test_periods),
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_inventory_bounds),
        };

        return cmocka_run_group_tests(tests, NULL, teardown);
}
