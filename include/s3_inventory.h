/*
 * s3_inventory.h - inventory reports: what a configuration asks for, when a report is due, and its rows.
 * See s3.h for the rules of this module; docs/design/inventory.md for the rules of reports.
 */
#ifndef MILLRACE_S3_INVENTORY_H
#define MILLRACE_S3_INVENTORY_H

#include <sys/types.h>

#include "s3_config.h"
#include "s3_parquet.h"

/* Optional fields in the order of columns: enumerator, name, name in Parquet, type in Parquet. */
#define S3_INVENTORY_FIELDS(X)                                                                                         \
        X(SIZE, "Size", "size", INT64)                                                                                 \
        X(MODIFIED, "LastModifiedDate", "last_modified_date", TIME)                                                    \
        X(ETAG, "ETag", "e_tag", TEXT)                                                                                 \
        X(STORAGE, "StorageClass", "storage_class", TEXT)                                                              \
        X(MULTIPART, "IsMultipartUploaded", "is_multipart_uploaded", FLAG)                                             \
        X(REPLICATION, "ReplicationStatus", "replication_status", TEXT)                                                \
        X(ENCRYPTION, "EncryptionStatus", "encryption_status", TEXT)                                                   \
        X(RETAIN_UNTIL, "ObjectLockRetainUntilDate", "object_lock_retain_until_date", TIME)                            \
        X(LOCK_MODE, "ObjectLockMode", "object_lock_mode", TEXT)                                                       \
        X(HOLD, "ObjectLockLegalHoldStatus", "object_lock_legal_hold_status", TEXT)                                    \
        X(TIER, "IntelligentTieringAccessTier", "intelligent_tiering_access_tier", TEXT)                               \
        X(BUCKET_KEY, "BucketKeyStatus", "bucket_key_status", TEXT)                                                    \
        X(CHECKSUM, "ChecksumAlgorithm", "checksum_algorithm", TEXT)                                                   \
        X(OWNER, "ObjectOwner", "object_owner", TEXT)

enum s3_inventory_field {
#define S3_INVENTORY_ENUM(name, text, parquet, type) S3_INVENTORY_##name,
        S3_INVENTORY_FIELDS(S3_INVENTORY_ENUM)
#undef S3_INVENTORY_ENUM
                S3_INVENTORY_FIELD_COUNT
};

/* Slices of the configuration. */
struct s3_inventory {
        struct s3_str id, prefix, bucket, to_prefix; /* bucket: the name of the destination */
        struct s3_str account; /* that must own the destination; absent: any may */
        bool enabled, all_versions, weekly, parquet; /* parquet: and not CSV */
        uint32_t fields; /* a bit for each */
};

/* -ENOTSUP: a format or field that is not written. */
int s3_inventory_read(const struct s3_config *config, struct s3_inventory *out);
/* When the period began that a moment is in. day_seconds: 86,400; less in tests. */
int64_t s3_inventory_period(const struct s3_inventory *inventory, int64_t now_ms, unsigned day_seconds);
#define S3_INVENTORY_SCHEMA_SIZE 1536u
/* What a manifest says of the columns, with a NUL: "Bucket, Key, ...", or the message of Parquet. Its length. */
size_t s3_inventory_file_schema(const struct s3_inventory *inventory, char out[S3_INVENTORY_SCHEMA_SIZE]);

struct s3_inventory_row {
        struct s3_str bucket, key, version_id, etag, storage, checksum, owner;
        bool latest, marker, multipart, hold;
        uint64_t size;
        int64_t mtime_ms;
        int64_t retain_until_ms;        /* with lock_mode */
        struct s3_str lock_mode;        /* absent: none */
};
#define S3_INVENTORY_CELLS (5 + S3_INVENTORY_FIELD_COUNT)
/* Fills in the columns of the report, in order. Their number. */
unsigned s3_inventory_columns(const struct s3_inventory *inventory, struct s3_parquet_column out[S3_INVENTORY_CELLS]);
/* Fills in a row's values, one for each column; slices of the row. */
void s3_inventory_cells(const struct s3_inventory *inventory, const struct s3_inventory_row *row,
                        struct s3_parquet_value out[S3_INVENTORY_CELLS]);
#define S3_INVENTORY_ROW_MAX 8192u
/* One line of CSV. -ENOBUFS. */
ssize_t s3_inventory_csv(const struct s3_inventory *inventory, const struct s3_inventory_row *row, char *out, size_t cap);

#endif
