/*
 * s3_inventory.h - inventory reports: what a configuration asks for, when a report is due, and its rows.
 * See s3.h for the rules of this module; docs/design/inventory.md for the rules of reports.
 */
#ifndef MILLRACE_S3_INVENTORY_H
#define MILLRACE_S3_INVENTORY_H

#include <sys/types.h>

#include "s3_config.h"

/* Optional fields in the order of columns: enumerator, name. */
#define S3_INVENTORY_FIELDS(X)                                                                                         \
        X(SIZE, "Size")                                                                                                \
        X(MODIFIED, "LastModifiedDate")                                                                                \
        X(ETAG, "ETag")                                                                                                \
        X(STORAGE, "StorageClass")                                                                                     \
        X(MULTIPART, "IsMultipartUploaded")                                                                            \
        X(REPLICATION, "ReplicationStatus")                                                                            \
        X(ENCRYPTION, "EncryptionStatus")                                                                              \
        X(RETAIN_UNTIL, "ObjectLockRetainUntilDate")                                                                   \
        X(LOCK_MODE, "ObjectLockMode")                                                                                 \
        X(HOLD, "ObjectLockLegalHoldStatus")                                                                           \
        X(TIER, "IntelligentTieringAccessTier")                                                                        \
        X(BUCKET_KEY, "BucketKeyStatus")                                                                               \
        X(CHECKSUM, "ChecksumAlgorithm")                                                                               \
        X(OWNER, "ObjectOwner")

enum s3_inventory_field {
#define S3_INVENTORY_ENUM(name, text) S3_INVENTORY_##name,
        S3_INVENTORY_FIELDS(S3_INVENTORY_ENUM)
#undef S3_INVENTORY_ENUM
                S3_INVENTORY_FIELD_COUNT
};

/* Slices of the configuration. */
struct s3_inventory {
        struct s3_str id, prefix, bucket, to_prefix; /* bucket: the name of the destination */
        bool enabled, all_versions, weekly;
        uint32_t fields; /* a bit for each */
};

/* -ENOTSUP: a format or field that is not written. */
int s3_inventory_read(const struct s3_config *config, struct s3_inventory *out);
/* When the period began that a moment is in. day_seconds: 86,400; less in tests. */
int64_t s3_inventory_period(const struct s3_inventory *inventory, int64_t now_ms, unsigned day_seconds);
#define S3_INVENTORY_COLUMNS_SIZE 512u
/* "Bucket, Key, ..." with a NUL; its length. */
size_t s3_inventory_columns(const struct s3_inventory *inventory, char out[S3_INVENTORY_COLUMNS_SIZE]);

struct s3_inventory_row {
        struct s3_str bucket, key, version_id, etag, storage, checksum, owner;
        bool latest, marker, multipart, hold;
        uint64_t size;
        int64_t mtime_ms;
        int64_t retain_until_ms;        /* with lock_mode */
        struct s3_str lock_mode;        /* absent: none */
};
#define S3_INVENTORY_ROW_MAX 8192u
/* One line. -ENOBUFS. */
ssize_t s3_inventory_csv(const struct s3_inventory *inventory, const struct s3_inventory_row *row, char *out, size_t cap);

#endif
