/*
 * meta.h - what the gateway keeps beside an object's bytes: its headers, user metadata and
 * checksum, as the engine's "attrs" and the small "tag" that listings give back.
 */
#ifndef GATEWAY_S3_META_H
#define GATEWAY_S3_META_H

#include <sys/types.h>

#include "engine.h"
#include "s3.h"

#define GW_META_USER_MAX   100u  /* user metadata entries of one request */
#define GW_META_USER_BYTES 2048u /* names and values together, as AWS counts them */

/*
 * Fields kept as headers give them. What is stored of each is GW_FMT_ and its name
 * (attrs_format.h).
 */
#define GW_META_FIELDS(X)                                                                                              \
        X(CONTENT_TYPE, "Content-Type")                                                                                \
        X(CONTENT_ENCODING, "Content-Encoding")                                                                        \
        X(CONTENT_DISPOSITION, "Content-Disposition")                                                                  \
        X(CONTENT_LANGUAGE, "Content-Language")                                                                        \
        X(CACHE_CONTROL, "Cache-Control")                                                                              \
        X(EXPIRES, "Expires")                                                                                          \
        X(REDIRECT, "x-amz-website-redirect-location")

enum gw_meta_field {
#define GW_META_ENUM(name, header) GW_META_##name,
        GW_META_FIELDS(GW_META_ENUM)
#undef GW_META_ENUM
                GW_META_FIELD_COUNT
};

/* Names of one way of storing: what a class asks for is kept and given back, and changes nothing else. */
enum gw_storage_class {
        GW_STANDARD,
        GW_REDUCED_REDUNDANCY,
        GW_STANDARD_IA,
        GW_ONEZONE_IA,
        GW_INTELLIGENT_TIERING,
        GW_GLACIER_IR,
        GW_STORAGE_CLASSES
};

/* A checksum as stored. */
struct gw_checksum {
        bool has;      /* there is a value */
        bool has_kind; /* kind and type are known (an upload not complete has no value) */
        enum s3_checksum kind;
        enum s3_checksum_type type;
        unsigned parts; /* composite: of how many */
        uint8_t value[S3_CHECKSUM_MAX];
};

/* Slices of headers or of stored attrs; owned by whoever owns those. */
struct gw_meta {
        struct s3_str field[GW_META_FIELD_COUNT];
        struct gw_checksum sum;
        enum gw_storage_class storage;
        unsigned user_count;
        struct s3_header user[GW_META_USER_MAX]; /* names without x-amz-meta- */
};

/* Header name of a field. */
const char *gw_meta_header(enum gw_meta_field field);
const char *gw_storage_name(enum gw_storage_class storage);
int gw_storage_parse(struct s3_str name, enum gw_storage_class *out);

/*
 * From request headers. METADATA_TOO_LARGE, INVALID_STORAGE_CLASS, INVALID_REDIRECT.
 * Content-Encoding still holds aws-chunked: gw_meta_encode() leaves it out.
 */
enum s3_error gw_meta_of_headers(const struct s3_header *headers, unsigned count, struct gw_meta *out);
/* Length, or -ENOBUFS. */
ssize_t gw_meta_encode(const struct gw_meta *meta, uint8_t *out, size_t cap);
/* Slices of attrs. -EINVAL: not what gw_meta_encode() writes. */
int gw_meta_decode(struct eng_str attrs, struct gw_meta *out);
/* Only the checksum; cheaper. */
int gw_meta_decode_checksum(struct eng_str attrs, struct gw_checksum *out);

/* What listings need. */
struct gw_tag {
        bool has_checksum;
        enum s3_checksum kind;
        enum s3_checksum_type type;
        enum gw_storage_class storage;
};
void gw_tag_make(const struct gw_meta *meta, uint8_t tag[8]);
void gw_tag_read(const uint8_t tag[8], struct gw_tag *out);

#endif
