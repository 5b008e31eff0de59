/*
 * s3_checksum.h - the checksums of S3, ETags, base64, hex. See s3.h for the rules of this
 * module.
 */
#ifndef MILLRACE_S3_CHECKSUM_H
#define MILLRACE_S3_CHECKSUM_H

#include "s3_base.h"

/* ---- text codecs ----------------------------------------------------------------------------- */

#define S3_BASE64_SIZE(n) (((n) + 2) / 3 * 4 + 1) /* encoded n bytes and NUL */

size_t s3_base64_encode(const void *in, size_t len, char *out); /* writes NUL; returns the length without it */
size_t s3_base64url_encode(const void *in, size_t len, char *out); /* the same of RFC 7515: - and _, no padding */
/*
 * Strict RFC 4648: padding required, no spaces, spare bits zero, exactly len bytes. 0 or -EINVAL.
 */
int s3_base64_decode(struct s3_str in, void *out, size_t len);
void s3_hex_encode(const void *in, size_t len, char *out); /* lower case, 2 * len digits and NUL */
/* Exactly len bytes, both cases. 0 or -EINVAL. */
int s3_hex_decode(struct s3_str in, void *out, size_t len);

/* Value of Content-MD5. 0 or -EINVAL (answer: INVALID_DIGEST). */
int s3_content_md5_parse(struct s3_str value, uint8_t md5[16]);

/* ---- kinds ----------------------------------------------------------------------------------- */

enum s3_checksum {
        S3_CRC32,
        S3_CRC32C,
        S3_CRC64NVME,
        S3_SHA1,
        S3_SHA256,
        S3_SHA512,
        S3_MD5,
        S3_XXHASH64,
        S3_XXHASH3,
        S3_XXHASH128,
        S3_CHECKSUM_KINDS
};
enum s3_checksum_type { S3_FULL_OBJECT, S3_COMPOSITE };

#define S3_CHECKSUM_MAX       64u                                   /* bytes of the longest value */
#define S3_CHECKSUM_TEXT      (S3_BASE64_SIZE(S3_CHECKSUM_MAX) + 6) /* base64, "-10000", NUL */
#define S3_CHECKSUM_BIT(kind) (1u << (kind))                        /* for masks of kinds */

struct s3_checksum_info {
        const char *algorithm; /* "CRC32": x-amz-checksum-algorithm, x-amz-sdk-checksum-algorithm */
        const char *header;    /* "x-amz-checksum-crc32" */
        const char *element;   /* "ChecksumCRC32" */
        size_t len;            /* bytes of a value */
};
const struct s3_checksum_info *s3_checksum_info(enum s3_checksum kind);
/* Any case. 0 or -ENOENT. */
int s3_checksum_by_algorithm(struct s3_str name, enum s3_checksum *out);
int s3_checksum_by_header(struct s3_str name, enum s3_checksum *out);
int s3_checksum_by_element(struct s3_str name, enum s3_checksum *out); /* case-sensitive: XML */
const char *s3_checksum_type_name(enum s3_checksum_type type); /* "FULL_OBJECT", "COMPOSITE" */
int s3_checksum_type_parse(struct s3_str name, enum s3_checksum_type *out);
/*
 * What AWS allows for multipart: CRC64NVME only FULL_OBJECT, CRC32 and CRC32C both, the others,
 * whose values cannot be combined, only COMPOSITE.
 */
bool s3_checksum_type_allowed(enum s3_checksum kind, enum s3_checksum_type type);
/* The type used where the client names none: COMPOSITE, but for CRC64NVME. */
enum s3_checksum_type s3_checksum_type_default(enum s3_checksum kind);

/* Base64 text to a value and back. parts > 0 appends "-parts" (composite). */
int s3_checksum_parse(enum s3_checksum kind, struct s3_str text, uint8_t out[S3_CHECKSUM_MAX]); /* 0 or -EINVAL */
/* As before, but takes "base64-parts" too; *parts is 0 if it was not there. */
int s3_checksum_parse_composite(enum s3_checksum kind, struct s3_str text, uint8_t out[S3_CHECKSUM_MAX],
                                unsigned *parts);
size_t s3_checksum_format(enum s3_checksum kind, const uint8_t *value, unsigned parts, char out[S3_CHECKSUM_TEXT]);

/* ---- computing ------------------------------------------------------------------------------- */

struct s3_sums; /* any number of kinds running over one stream */

int s3_sums_new(unsigned mask, struct s3_sums **out); /* mask of S3_CHECKSUM_BIT; -ENOMEM, -EINVAL */
void s3_sums_free(struct s3_sums *sums);              /* NULL is allowed */
void s3_sums_reset(struct s3_sums *sums);
void s3_sums_update(struct s3_sums *sums, const void *buf, size_t len);
/* Values of all kinds are fixed; then s3_sums_value() of each kind in the mask. */
void s3_sums_final(struct s3_sums *sums);
const uint8_t *s3_sums_value(const struct s3_sums *sums, enum s3_checksum kind);
unsigned s3_sums_mask(const struct s3_sums *sums);
/* One CRC kind in host integers, as a value (big-endian bytes), and back. */
void s3_checksum_from_crc(enum s3_checksum kind, uint64_t crc, uint8_t out[S3_CHECKSUM_MAX]);
uint64_t s3_checksum_to_crc(enum s3_checksum kind, const uint8_t *value);

/* The checksum of a multipart object from those of its parts, in order. */
struct s3_parts_sum;

/* -EINVAL: not an allowed pair; -ENOMEM. */
int s3_parts_sum_new(enum s3_checksum kind, enum s3_checksum_type type, struct s3_parts_sum **out);
void s3_parts_sum_add(struct s3_parts_sum *sum, const uint8_t *value, uint64_t part_len);
void s3_parts_sum_final(struct s3_parts_sum *sum, uint8_t out[S3_CHECKSUM_MAX]);
void s3_parts_sum_free(struct s3_parts_sum *sum); /* NULL is allowed */

/* ---- ETags ----------------------------------------------------------------------------------- */

#define S3_ETAG_SIZE 41 /* "32 hex-10000" in quotes, NUL */

/* With quotes; parts 0: not multipart. Returns the length. */
size_t s3_etag_format(const uint8_t md5[16], unsigned parts, char out[S3_ETAG_SIZE]);
/*
 * Quoted or not, W/ refused. *parts is 0 without "-n". 0 or -EINVAL (then it is no ETag of ours and
 * matches nothing).
 */
int s3_etag_parse(struct s3_str text, uint8_t md5[16], unsigned *parts);

#endif
