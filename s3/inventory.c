/*
 * inventory.c - inventory reports: configurations, periods, rows. Called by whoever writes reports; pure.
 */
#include "s3_inventory.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "s3_date.h"

static const char *const field_names[S3_INVENTORY_FIELD_COUNT] = {
#define FIELD_NAME(name, text) text,
        S3_INVENTORY_FIELDS(FIELD_NAME)
#undef FIELD_NAME
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
                .enabled = s3_str_eq_nocase(s3_config_text_of(config, 0, "IsEnabled"), S3_STR("true")),
                .all_versions = s3_str_eq(s3_config_text_of(config, 0, "IncludedObjectVersions"), S3_STR("All")),
                .weekly = s3_str_eq(s3_config_text_of(config, s3_config_first(config, 0, "Schedule"), "Frequency"),
                                    S3_STR("Weekly")),
        };
        if (filter != S3_CONFIG_NONE)
                out->prefix = s3_config_text_of(config, filter, "Prefix");
        out->bucket.data += arn.len; /* the reader has refused any other */
        out->bucket.len -= arn.len;
        if (!s3_str_eq(s3_config_text_of(config, to, "Format"), S3_STR("CSV")))
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

size_t s3_inventory_columns(const struct s3_inventory *inventory, char out[S3_INVENTORY_COLUMNS_SIZE])
{
        char *p = stpcpy(out, inventory->all_versions ? "Bucket, Key, VersionId, IsLatest, IsDeleteMarker" : "Bucket, Key");

        for (unsigned i = 0; i < S3_INVENTORY_FIELD_COUNT; i++)
                if ((inventory->fields & (1u << i)) != 0)
                        p = stpcpy(stpcpy(p, ", "), field_names[i]);
        return (size_t)(p - out);
}

/* ---- rows ------------------------------------------------------------------------------------ */

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

static void csv_flag(struct csv *csv, bool value)
{
        csv_text(csv, value ? S3_STR("true") : S3_STR("false"));
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

/* Of a delete marker only the date is known. */
static void csv_field(struct csv *csv, const struct s3_inventory_row *row, enum s3_inventory_field field)
{
        const struct s3_str none = {NULL, 0};

        if (field == S3_INVENTORY_MODIFIED) {
                csv_date(csv, row->mtime_ms);
                return;
        }
        if (field == S3_INVENTORY_OWNER) {
                csv_text(csv, row->owner);
                return;
        }
        if (row->marker) {
                csv_text(csv, none);
                return;
        }
        switch (field) {
        case S3_INVENTORY_SIZE:
                csv_number(csv, row->size);
                break;
        case S3_INVENTORY_ETAG:
                csv_text(csv, row->etag);
                break;
        case S3_INVENTORY_STORAGE:
                csv_text(csv, row->storage);
                break;
        case S3_INVENTORY_MULTIPART:
                csv_flag(csv, row->multipart);
                break;
        case S3_INVENTORY_ENCRYPTION:
                csv_text(csv, S3_STR("NOT-SSE"));
                break;
        case S3_INVENTORY_RETAIN_UNTIL:
                if (row->lock_mode.len > 0)
                        csv_date(csv, row->retain_until_ms);
                else
                        csv_text(csv, none);
                break;
        case S3_INVENTORY_LOCK_MODE:
                csv_text(csv, row->lock_mode);
                break;
        case S3_INVENTORY_HOLD:
                csv_text(csv, row->hold ? S3_STR("On") : S3_STR("Off"));
                break;
        case S3_INVENTORY_CHECKSUM:
                csv_text(csv, row->checksum);
                break;
        default: /* no replication, no tiers, no bucket keys: there is no value */
                csv_text(csv, none);
                break;
        }
}

ssize_t s3_inventory_csv(const struct s3_inventory *inventory, const struct s3_inventory_row *row, char *out, size_t cap)
{
        struct csv csv = {.out = out, .cap = cap};

        csv_text(&csv, row->bucket);
        csv_key(&csv, row->key);
        if (inventory->all_versions) {
                csv_text(&csv, row->version_id);
                csv_flag(&csv, row->latest);
                csv_flag(&csv, row->marker);
        }
        for (unsigned i = 0; i < S3_INVENTORY_FIELD_COUNT; i++)
                if ((inventory->fields & (1u << i)) != 0)
                        csv_field(&csv, row, (enum s3_inventory_field)i);
        csv_put(&csv, "\n", 1);
        return csv.full ? -ENOBUFS : (ssize_t)csv.at;
}
