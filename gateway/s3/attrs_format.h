/*
 * attrs_format.h - what the gateway stores beside an object's bytes. Nothing else in the gateway
 * defines a byte on disk; meta.c writes and reads it. The engine keeps both without looking inside
 * (fmt_value, fmt_part in engine/format.h).
 *
 *   attrs, of an object, an upload or a part, at most ENG_ATTRS_MAX bytes. Integers are little-endian:
 *
 *     0         1     2         4              4 + length
 *     +---------+-----+---------+--------------+-----+---------+--------------+----
 *     | version | tag | length  | bytes        | tag | length  | bytes        | ...
 *     +---------+-----+---------+--------------+-----+---------+--------------+----
 *       u8        u8    u16       of the record  the next record: nothing aligns it
 *
 *     tag 0x01..0x07   the value of one header, as the client sent it
 *     tag 0x10         | gw_fmt_checksum 5 B | value, of its kind's length; absent if `has` is 0 |
 *     tag 0x11         | enum gw_fmt_storage u8 |; absent: STANDARD
 *     tag 0x20         | gw_fmt_user 2 B | name, in lower case, without x-amz-meta- | value |; once for each name
 *
 *     Records come in the order of gw_meta_encode(); a reader takes them in any. A tag that a reader does not know is
 *     an error, as a later version is: both need a new layout or a bit of FORMAT's line 'features' (docs/format.md).
 *
 *   tag, 8 bytes, which listings give back without attrs:
 *
 *     0           1        2         3            8
 *     +-----------+--------+---------+------------+
 *     | 1 + kind, | type   | storage | zeroes     |
 *     | or 0      |        |         |            |
 *     +-----------+--------+---------+------------+
 *
 * Numbers of every enumeration here are stored: append only. They are the format's own, so that the
 * enumerations of s3.h and meta.h may be ordered as suits the program; meta.c has the tables
 * between them.
 */
#ifndef GATEWAY_S3_ATTRS_FORMAT_H
#define GATEWAY_S3_ATTRS_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define GW_FMT_VERSION 1u

enum gw_fmt_tag { /* append only */
                  GW_FMT_CONTENT_TYPE = 0x01,
                  GW_FMT_CONTENT_ENCODING = 0x02,
                  GW_FMT_CONTENT_DISPOSITION = 0x03,
                  GW_FMT_CONTENT_LANGUAGE = 0x04,
                  GW_FMT_CACHE_CONTROL = 0x05,
                  GW_FMT_EXPIRES = 0x06,
                  GW_FMT_REDIRECT = 0x07,
                  GW_FMT_CHECKSUM = 0x10,
                  GW_FMT_STORAGE = 0x11,
                  GW_FMT_USER = 0x20
};

enum gw_fmt_kind { /* of a checksum; append only */
                   GW_FMT_CRC32 = 0,
                   GW_FMT_CRC32C = 1,
                   GW_FMT_CRC64NVME = 2,
                   GW_FMT_SHA1 = 3,
                   GW_FMT_SHA256 = 4,
                   GW_FMT_SHA512 = 5,
                   GW_FMT_MD5 = 6,
                   GW_FMT_XXHASH64 = 7,
                   GW_FMT_XXHASH3 = 8,
                   GW_FMT_XXHASH128 = 9
};

enum gw_fmt_type { /* of a checksum; append only */
                   GW_FMT_FULL_OBJECT = 0,
                   GW_FMT_COMPOSITE = 1
};

enum gw_fmt_storage { /* append only */
                      GW_FMT_STANDARD = 0,
                      GW_FMT_REDUCED_REDUNDANCY = 1,
                      GW_FMT_STANDARD_IA = 2,
                      GW_FMT_ONEZONE_IA = 3,
                      GW_FMT_INTELLIGENT_TIERING = 4,
                      GW_FMT_GLACIER_IR = 5
};

struct gw_fmt_record {
        uint8_t tag;       /* enum gw_fmt_tag */
        uint8_t length[2]; /* of the bytes behind this */
};

struct gw_fmt_checksum {
        uint8_t kind;     /* enum gw_fmt_kind */
        uint8_t type;     /* enum gw_fmt_type */
        uint8_t has;      /* 1: a value follows; 0: of an upload, whose value is not known yet */
        uint8_t parts[2]; /* composite: of how many parts */
};

struct gw_fmt_user {
        uint8_t name_len[2];
};

struct gw_fmt_list_tag {
        uint8_t kind;    /* 1 + enum gw_fmt_kind; 0: no checksum */
        uint8_t type;    /* enum gw_fmt_type */
        uint8_t storage; /* enum gw_fmt_storage */
        uint8_t zero[5];
};

static_assert(sizeof(struct gw_fmt_record) == 3 && offsetof(struct gw_fmt_record, length) == 1, "record");
static_assert(sizeof(struct gw_fmt_checksum) == 5 && offsetof(struct gw_fmt_checksum, type) == 1 &&
                      offsetof(struct gw_fmt_checksum, has) == 2 && offsetof(struct gw_fmt_checksum, parts) == 3,
              "checksum");
static_assert(sizeof(struct gw_fmt_user) == 2, "user metadata");
static_assert(sizeof(struct gw_fmt_list_tag) == 8 && offsetof(struct gw_fmt_list_tag, type) == 1 &&
                      offsetof(struct gw_fmt_list_tag, storage) == 2 && offsetof(struct gw_fmt_list_tag, zero) == 3,
              "tag of listings");
static_assert(GW_FMT_CONTENT_TYPE == 1, "stored");
static_assert(GW_FMT_CONTENT_ENCODING == 2, "stored");
static_assert(GW_FMT_CONTENT_DISPOSITION == 3, "stored");
static_assert(GW_FMT_CONTENT_LANGUAGE == 4, "stored");
static_assert(GW_FMT_CACHE_CONTROL == 5, "stored");
static_assert(GW_FMT_EXPIRES == 6, "stored");
static_assert(GW_FMT_REDIRECT == 7, "stored");
static_assert(GW_FMT_CHECKSUM == 16, "stored");
static_assert(GW_FMT_STORAGE == 17, "stored");
static_assert(GW_FMT_USER == 32, "stored");
static_assert(GW_FMT_CRC32 == 0, "stored");
static_assert(GW_FMT_CRC32C == 1, "stored");
static_assert(GW_FMT_CRC64NVME == 2, "stored");
static_assert(GW_FMT_SHA1 == 3, "stored");
static_assert(GW_FMT_SHA256 == 4, "stored");
static_assert(GW_FMT_SHA512 == 5, "stored");
static_assert(GW_FMT_MD5 == 6, "stored");
static_assert(GW_FMT_XXHASH64 == 7, "stored");
static_assert(GW_FMT_XXHASH3 == 8, "stored");
static_assert(GW_FMT_XXHASH128 == 9, "stored");
static_assert(GW_FMT_FULL_OBJECT == 0, "stored");
static_assert(GW_FMT_COMPOSITE == 1, "stored");
static_assert(GW_FMT_STANDARD == 0, "stored");
static_assert(GW_FMT_REDUCED_REDUNDANCY == 1, "stored");
static_assert(GW_FMT_STANDARD_IA == 2, "stored");
static_assert(GW_FMT_ONEZONE_IA == 3, "stored");
static_assert(GW_FMT_INTELLIGENT_TIERING == 4, "stored");
static_assert(GW_FMT_GLACIER_IR == 5, "stored");

#endif
