/*
 * inventory.c - inventory reports: configurations, periods, rows. Called by whoever writes reports; pure.
 */
#include "s3_inventory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "s3_date.h"

static const char *const field_names[S3_INVENTORY_FIELD_COUNT] = {
#define FIELD_NAME(name, text, parquet, type) text,
        S3_INVENTORY_FIELDS(FIELD_NAME)
#undef FIELD_NAME
};

static const struct s3_parquet_column field_columns[S3_INVENTORY_FIELD_COUNT] = {
#define FIELD_COLUMN(name, text, parquet, type) {parquet, S3_PARQUET_##type, false},
        S3_INVENTORY_FIELDS(FIELD_COLUMN)
#undef FIELD_COLUMN
};

#define COLUMNS_ALWAYS 2u /* bucket and key; the others only where a report has all versions */
static const struct s3_parquet_column first_columns[] = {
        {"bucket", S3_PARQUET_TEXT, true},
        {"key", S3_PARQUET_TEXT, true},
        {"version_id", S3_PARQUET_TEXT, false},
        {"is_latest", S3_PARQUET_FLAG, false},
        {"is_delete_marker", S3_PARQUET_FLAG, false},
};

/* ---- configurations -------------------------------------------------------------------------- */

static int inventory_take_field(struct s3_inventory *out, struct s3_str name)
{
        for (unsigned i = 0; i < S3_INVENTORY_FIELD_COUNT; i++) {
                if (!s3_str_eq(name, s3_str_of(field_names[i])))
                        continue;
                out->fields |= 1u << i;
                return 0;
        }
        return -ENOTSUP;
}

static int inventory_take_fields(const struct s3_config *config, struct s3_inventory *out)
{
        uint32_t fields = s3_config_first(config, 0, "OptionalFields"), at;
        int rv = 0;

        if (fields == S3_CONFIG_NONE)
                return 0;
        at = s3_config_first(config, fields, "Field");
        for (; rv == 0 && at != S3_CONFIG_NONE; at = s3_config_next(config, fields, at, "Field"))
                rv = inventory_take_field(out, s3_config_text(config, at));
        return rv;
}

int s3_inventory_read(const struct s3_config *config, struct s3_inventory *out)
{
        const struct s3_str arn = S3_STR("arn:aws:s3:::");
        uint32_t filter = s3_config_first(config, 0, "Filter"),
                 to = s3_config_first(config, s3_config_first(config, 0, "Destination"), "S3BucketDestination");

        *out = (struct s3_inventory){
                .id = s3_config_text_of(config, 0, "Id"),
                .bucket = s3_config_text_of(config, to, "Bucket"),
                .to_prefix = s3_config_text_of(config, to, "Prefix"),
                .account = s3_config_text_of(config, to, "AccountId"),
                .enabled = s3_str_eq_nocase(s3_config_text_of(config, 0, "IsEnabled"), S3_STR("true")),
                .all_versions = s3_str_eq(s3_config_text_of(config, 0, "IncludedObjectVersions"), S3_STR("All")),
                .weekly = s3_str_eq(s3_config_text_of(config, s3_config_first(config, 0, "Schedule"), "Frequency"),
                                    S3_STR("Weekly")),
        };
        if (filter != S3_CONFIG_NONE)
                out->prefix = s3_config_text_of(config, filter, "Prefix");
        out->bucket.data += arn.len; /* the reader has refused any other */
        out->bucket.len -= arn.len;
        out->parquet = s3_str_eq(s3_config_text_of(config, to, "Format"), S3_STR("Parquet"));
        if (!out->parquet && !s3_str_eq(s3_config_text_of(config, to, "Format"), S3_STR("CSV")))
                return -ENOTSUP;
        return inventory_take_fields(config, out);
}

/* 1970 began on a Thursday: four days behind a Sunday. */
int64_t s3_inventory_period(const struct s3_inventory *inventory, int64_t now_ms, unsigned day_seconds)
{
        int64_t day_ms = (int64_t)day_seconds * 1000, day = now_ms / day_ms;

        if (inventory->weekly)
                day -= (day + 4) % 7;
        return day * day_ms;
}

/* ---- columns --------------------------------------------------------------------------------- */

unsigned s3_inventory_columns(const struct s3_inventory *inventory, struct s3_parquet_column out[S3_INVENTORY_CELLS])
{
        unsigned count = inventory->all_versions ? sizeof(first_columns) / sizeof(first_columns[0]) : COLUMNS_ALWAYS;

        memcpy(out, first_columns, count * sizeof(out[0]));
        for (unsigned i = 0; i < S3_INVENTORY_FIELD_COUNT; i++)
                if ((inventory->fields & (1u << i)) != 0)
                        out[count++] = field_columns[i];
        return count;
}

static size_t parquet_schema_text(const struct s3_inventory *inventory, char *out)
{
        static const struct {
                const char *name, *annotation;
        } types[] = {
                [S3_PARQUET_TEXT] = {"binary ", " (UTF8)"},
                [S3_PARQUET_INT64] = {"int64 ", ""},
                [S3_PARQUET_TIME] = {"int64 ", " (TIMESTAMP_MILLIS)"},
                [S3_PARQUET_FLAG] = {"boolean ", ""},
        };
        struct s3_parquet_column columns[S3_INVENTORY_CELLS];
        unsigned count = s3_inventory_columns(inventory, columns);
        char *p = stpcpy(out, "message s3.inventory {");

        for (unsigned i = 0; i < count; i++) {
                p = stpcpy(p, columns[i].required ? " required " : " optional ");
                p = stpcpy(stpcpy(p, types[columns[i].type].name), columns[i].name);
                p = stpcpy(stpcpy(p, types[columns[i].type].annotation), ";");
        }
        return (size_t)(stpcpy(p, " }") - out);
}

size_t s3_inventory_file_schema(const struct s3_inventory *inventory, char out[S3_INVENTORY_SCHEMA_SIZE])
{
        char *p = out;

        if (inventory->parquet)
                return parquet_schema_text(inventory, out);
        p = stpcpy(p, inventory->all_versions ? "Bucket, Key, VersionId, IsLatest, IsDeleteMarker" : "Bucket, Key");
        for (unsigned i = 0; i < S3_INVENTORY_FIELD_COUNT; i++)
                if ((inventory->fields & (1u << i)) != 0)
                        p = stpcpy(stpcpy(p, ", "), field_names[i]);
        return (size_t)(p - out);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct s3_parquet_value cell_text(struct s3_str text)
{
        return (struct s3_parquet_value){.present = text.len > 0, .text = text};
}

static struct s3_parquet_value cell_number(int64_t number)
{
        return (struct s3_parquet_value){.present = true, .number = number};
}

/* Of a delete marker only the date and the owner are known. */
static struct s3_parquet_value cell_of_field(const struct s3_inventory_row *row, enum s3_inventory_field field)
{
        const struct s3_parquet_value none = {.present = false};

        if (field == S3_INVENTORY_MODIFIED)
                return cell_number(row->mtime_ms);
        if (field == S3_INVENTORY_OWNER)
                return cell_text(row->owner);
        if (row->marker)
                return none;
        switch (field) {
        case S3_INVENTORY_SIZE:
                return cell_number((int64_t)row->size);
        case S3_INVENTORY_ETAG:
                return cell_text(row->etag);
        case S3_INVENTORY_STORAGE:
                return cell_text(row->storage);
        case S3_INVENTORY_MULTIPART:
                return cell_number(row->multipart);
        case S3_INVENTORY_ENCRYPTION:
                return cell_text(S3_STR("NOT-SSE"));
        case S3_INVENTORY_RETAIN_UNTIL:
                return row->lock_mode.len > 0 ? cell_number(row->retain_until_ms) : none;
        case S3_INVENTORY_LOCK_MODE:
                return cell_text(row->lock_mode);
        case S3_INVENTORY_HOLD:
                return cell_text(row->hold ? S3_STR("On") : S3_STR("Off"));
        case S3_INVENTORY_CHECKSUM:
                return cell_text(row->checksum);
        default: /* no replication, no tiers, no bucket keys: there is no value */
                return none;
        }
}

void s3_inventory_cells(const struct s3_inventory *inventory, const struct s3_inventory_row *row,
                        struct s3_parquet_value out[S3_INVENTORY_CELLS])
{
        unsigned count = 0;

        out[count++] = (struct s3_parquet_value){.present = true, .text = row->bucket};
        out[count++] = (struct s3_parquet_value){.present = true, .text = row->key};
        if (inventory->all_versions) {
                out[count++] = cell_text(row->version_id);
                out[count++] = cell_number(row->latest);
                out[count++] = cell_number(row->marker);
        }
        for (unsigned i = 0; i < S3_INVENTORY_FIELD_COUNT; i++)
                if ((inventory->fields & (1u << i)) != 0)
                        out[count++] = cell_of_field(row, (enum s3_inventory_field)i);
}

/* ---- CSV ------------------------------------------------------------------------------------- */

struct csv {
        char *out;
        size_t at, cap;
        bool full;
};

static void csv_put(struct csv *csv, const char *bytes, size_t len)
{
        if (len > csv->cap - csv->at) {
                csv->full = true;
                return;
        }
        memcpy(csv->out + csv->at, bytes, len);
        csv->at += len;
}

/* Texts that are ours have no quotes; those of clients are percent-encoded: so nothing is ever escaped. */
static void csv_text(struct csv *csv, struct s3_str text)
{
        csv_put(csv, csv->at > 0 ? ",\"" : "\"", csv->at > 0 ? 2 : 1);
        if (text.len > 0)
                csv_put(csv, text.data, text.len);
        csv_put(csv, "\"", 1);
}

static void csv_key(struct csv *csv, struct s3_str key)
{
        static const char digits[] = "0123456789ABCDEF";

        csv_put(csv, ",\"", 2);
        for (size_t i = 0; i < key.len; i++) {
                unsigned char c = (unsigned char)key.data[i];
                char code[3] = {'%', digits[c >> 4], digits[c & 15]};
                bool kept = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                            (c != '\0' && strchr("-_.~/", c) != NULL);

                csv_put(csv, kept ? key.data + i : code, kept ? 1 : 3);
        }
        csv_put(csv, "\"", 1);
}

static void csv_date(struct csv *csv, int64_t ms)
{
        char text[S3_DATE_ISO_SIZE];

        csv_text(csv, (struct s3_str){text, s3_date_format_iso(ms, text)});
}

static void csv_number(struct csv *csv, uint64_t number)
{
        char text[24];
        int len = snprintf(text, sizeof(text), "%" PRIu64, number);

        csv_text(csv, (struct s3_str){text, len > 0 ? (size_t)len : 0});
}

static void csv_cell(struct csv *csv, enum s3_parquet_type type, const struct s3_parquet_value *cell)
{
        if (!cell->present)
                csv_text(csv, (struct s3_str){NULL, 0});
        else if (type == S3_PARQUET_TEXT)
                csv_text(csv, cell->text);
        else if (type == S3_PARQUET_TIME)
                csv_date(csv, cell->number);
        else if (type == S3_PARQUET_FLAG)
                csv_text(csv, cell->number != 0 ? S3_STR("true") : S3_STR("false"));
        else
                csv_number(csv, (uint64_t)cell->number);
}

ssize_t s3_inventory_csv(const struct s3_inventory *inventory, const struct s3_inventory_row *row, char *out,
                         size_t cap)
{
        struct s3_parquet_column columns[S3_INVENTORY_CELLS];
        struct s3_parquet_value cells[S3_INVENTORY_CELLS];
        unsigned count = s3_inventory_columns(inventory, columns);
        struct csv csv = {.out = out, .cap = cap};

        s3_inventory_cells(inventory, row, cells);
        csv_text(&csv, row->bucket);
        csv_key(&csv, row->key);
        for (unsigned i = COLUMNS_ALWAYS; i < count; i++)
                csv_cell(&csv, columns[i].type, &cells[i]);
        csv_put(&csv, "\n", 1);
        return csv.full ? -ENOBUFS : (ssize_t)csv.at;
}
