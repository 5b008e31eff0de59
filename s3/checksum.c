/*
 * The checksums of S3: their names, their text, and running any set of them over a stream. The
 * gateway feeds s3_sums on the loop that owns the upload, while the bytes are in cache; clients use
 * the same. A value is bytes in the order they are encoded (big-endian for CRCs and XXHash).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "ec.h"
#include "s3_internal.h"

/* ---- names ----------------------------------------------------------------------------------- */

static const struct s3_checksum_info info_table[S3_CHECKSUM_KINDS] = {
        [S3_CRC32] = {"CRC32", "x-amz-checksum-crc32", "ChecksumCRC32", 4},
        [S3_CRC32C] = {"CRC32C", "x-amz-checksum-crc32c", "ChecksumCRC32C", 4},
        [S3_CRC64NVME] = {"CRC64NVME", "x-amz-checksum-crc64nvme", "ChecksumCRC64NVME", 8},
        [S3_SHA1] = {"SHA1", "x-amz-checksum-sha1", "ChecksumSHA1", 20},
        [S3_SHA256] = {"SHA256", "x-amz-checksum-sha256", "ChecksumSHA256", 32},
        [S3_SHA512] = {"SHA512", "x-amz-checksum-sha512", "ChecksumSHA512", 64},
        [S3_MD5] = {"MD5", "x-amz-checksum-md5", "ChecksumMD5", 16},
        [S3_XXHASH64] = {"XXHASH64", "x-amz-checksum-xxhash64", "ChecksumXXHASH64", 8},
        [S3_XXHASH3] = {"XXHASH3", "x-amz-checksum-xxhash3", "ChecksumXXHASH3", 8},
        [S3_XXHASH128] = {"XXHASH128", "x-amz-checksum-xxhash128", "ChecksumXXHASH128", 16},
};

const struct s3_checksum_info *s3_checksum_info(enum s3_checksum kind)
{
        return &info_table[kind];
}

int s3_checksum_by_algorithm(struct s3_str name, enum s3_checksum *out)
{
        for (unsigned i = 0; i < S3_CHECKSUM_KINDS; i++) {
                if (s3_str_eq_nocase(name, s3_str_of(info_table[i].algorithm))) {
                        *out = (enum s3_checksum)i;
                        return 0;
                }
        }
        return -ENOENT;
}

int s3_checksum_by_header(struct s3_str name, enum s3_checksum *out)
{
        for (unsigned i = 0; i < S3_CHECKSUM_KINDS; i++) {
                if (s3_str_eq_nocase(name, s3_str_of(info_table[i].header))) {
                        *out = (enum s3_checksum)i;
                        return 0;
                }
        }
        return -ENOENT;
}

int s3_checksum_by_element(struct s3_str name, enum s3_checksum *out)
{
        for (unsigned i = 0; i < S3_CHECKSUM_KINDS; i++) {
                if (s3_str_eq(name, s3_str_of(info_table[i].element))) {
                        *out = (enum s3_checksum)i;
                        return 0;
                }
        }
        return -ENOENT;
}

const char *s3_checksum_type_name(enum s3_checksum_type type)
{
        return type == S3_COMPOSITE ? "COMPOSITE" : "FULL_OBJECT";
}

int s3_checksum_type_parse(struct s3_str name, enum s3_checksum_type *out)
{
        if (s3_str_eq_nocase(name, S3_STR("COMPOSITE")))
                *out = S3_COMPOSITE;
        else if (s3_str_eq_nocase(name, S3_STR("FULL_OBJECT")))
                *out = S3_FULL_OBJECT;
        else
                return -ENOENT;
        return 0;
}

bool s3_checksum_type_allowed(enum s3_checksum kind, enum s3_checksum_type type)
{
        if (type == S3_FULL_OBJECT)
                return kind == S3_CRC32 || kind == S3_CRC32C || kind == S3_CRC64NVME;
        return kind != S3_CRC64NVME;
}

enum s3_checksum_type s3_checksum_type_default(enum s3_checksum kind)
{
        return kind == S3_CRC64NVME ? S3_FULL_OBJECT : S3_COMPOSITE;
}

/* ---- text ------------------------------------------------------------------------------------ */

int s3_checksum_parse(enum s3_checksum kind, struct s3_str text, uint8_t out[S3_CHECKSUM_MAX])
{
        return s3_base64_decode(s3_str_trim(text), out, info_table[kind].len);
}

int s3_checksum_parse_composite(enum s3_checksum kind, struct s3_str text, uint8_t out[S3_CHECKSUM_MAX],
                                unsigned *parts)
{
        struct s3_str count, value = s3_str_cut(s3_str_trim(text), '-', &count);
        uint64_t number = 0;

        if (count.data != NULL && (s3_parse_uint(count, S3_PARTS_MAX, &number) != 0 || number == 0))
                return -EINVAL;
        *parts = (unsigned)number;
        return s3_base64_decode(value, out, info_table[kind].len);
}

size_t s3_checksum_format(enum s3_checksum kind, const uint8_t *value, unsigned parts, char out[S3_CHECKSUM_TEXT])
{
        size_t len = s3_base64_encode(value, info_table[kind].len, out);

        if (parts > 0)
                len += (size_t)snprintf(out + len, S3_CHECKSUM_TEXT - len, "-%u", parts);
        return len;
}

void s3_checksum_from_crc(enum s3_checksum kind, uint64_t crc, uint8_t out[S3_CHECKSUM_MAX])
{
        for (size_t i = info_table[kind].len; i > 0; i--) {
                out[i - 1] = (uint8_t)crc;
                crc >>= 8;
        }
}

uint64_t s3_checksum_to_crc(enum s3_checksum kind, const uint8_t *value)
{
        uint64_t crc = 0;

        for (size_t i = 0; i < info_table[kind].len; i++)
                crc = crc << 8 | value[i];
        return crc;
}

/* ---- running --------------------------------------------------------------------------------- */

/* owner: whoever made it; one thread at a time. */
struct s3_sums {
        unsigned mask;
        uint32_t crc32, crc32c;
        uint64_t crc64nvme;
        struct era_digest *digest[S3_CHECKSUM_KINDS]; /* NULL where not in the mask, or by other means */
        struct era_xxhash *xxhash[S3_CHECKSUM_KINDS];
        uint8_t value[S3_CHECKSUM_KINDS][S3_CHECKSUM_MAX];
};

/* What computes a kind that is no CRC. */
static const struct {
        enum s3_checksum kind;
        enum era_digest_kind digest;
} by_digest[] = {{S3_SHA1, ERA_SHA1}, {S3_SHA256, ERA_SHA256}, {S3_SHA512, ERA_SHA512}, {S3_MD5, ERA_MD5}};
static const struct {
        enum s3_checksum kind;
        enum era_xxhash_kind xxhash;
} by_xxhash[] = {{S3_XXHASH64, ERA_XXH64}, {S3_XXHASH3, ERA_XXH3}, {S3_XXHASH128, ERA_XXH128}};
#define BY_DIGEST (sizeof(by_digest) / sizeof(by_digest[0]))
#define BY_XXHASH (sizeof(by_xxhash) / sizeof(by_xxhash[0]))

static bool wants(const struct s3_sums *sums, enum s3_checksum kind)
{
        return (sums->mask & S3_CHECKSUM_BIT(kind)) != 0;
}

int s3_sums_new(unsigned mask, struct s3_sums **out)
{
        struct s3_sums *sums;
        int rv = 0;

        if (mask >= S3_CHECKSUM_BIT(S3_CHECKSUM_KINDS))
                return -EINVAL;
        sums = calloc(1, sizeof(*sums));
        if (sums == NULL)
                return -ENOMEM;
        sums->mask = mask;
        for (size_t i = 0; rv == 0 && i < BY_DIGEST; i++)
                if (wants(sums, by_digest[i].kind))
                        rv = era_digest_new(by_digest[i].digest, &sums->digest[by_digest[i].kind]);
        for (size_t i = 0; rv == 0 && i < BY_XXHASH; i++)
                if (wants(sums, by_xxhash[i].kind))
                        rv = era_xxhash_new(by_xxhash[i].xxhash, &sums->xxhash[by_xxhash[i].kind]);
        if (rv != 0) {
                s3_sums_free(sums);
                return rv;
        }
        *out = sums;
        return 0;
}

void s3_sums_free(struct s3_sums *sums)
{
        if (sums == NULL)
                return;
        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++) {
                era_digest_free(sums->digest[kind]);
                era_xxhash_free(sums->xxhash[kind]);
        }
        free(sums);
}

void s3_sums_reset(struct s3_sums *sums)
{
        sums->crc32 = sums->crc32c = 0;
        sums->crc64nvme = 0;
        for (unsigned kind = 0; kind < S3_CHECKSUM_KINDS; kind++) {
                if (sums->digest[kind] != NULL)
                        era_digest_reset(sums->digest[kind]);
                if (sums->xxhash[kind] != NULL)
                        era_xxhash_reset(sums->xxhash[kind]);
        }
}

void s3_sums_update(struct s3_sums *sums, const void *buf, size_t len)
{
        if (wants(sums, S3_CRC32))
                sums->crc32 = era_crc32(sums->crc32, buf, len);
        if (wants(sums, S3_CRC32C))
                sums->crc32c = era_crc32c(sums->crc32c, buf, len);
        if (wants(sums, S3_CRC64NVME))
                sums->crc64nvme = era_crc64nvme(sums->crc64nvme, buf, len);
        for (unsigned kind = S3_CRC64NVME + 1; kind < S3_CHECKSUM_KINDS; kind++) {
                if (sums->digest[kind] != NULL)
                        era_digest_update(sums->digest[kind], buf, len);
                if (sums->xxhash[kind] != NULL)
                        era_xxhash_update(sums->xxhash[kind], buf, len);
        }
}

void s3_sums_final(struct s3_sums *sums)
{
        s3_checksum_from_crc(S3_CRC32, sums->crc32, sums->value[S3_CRC32]);
        s3_checksum_from_crc(S3_CRC32C, sums->crc32c, sums->value[S3_CRC32C]);
        s3_checksum_from_crc(S3_CRC64NVME, sums->crc64nvme, sums->value[S3_CRC64NVME]);
        for (unsigned kind = S3_CRC64NVME + 1; kind < S3_CHECKSUM_KINDS; kind++) {
                if (sums->digest[kind] != NULL)
                        era_digest_final(sums->digest[kind], sums->value[kind]);
                if (sums->xxhash[kind] != NULL)
                        era_xxhash_final(sums->xxhash[kind], sums->value[kind]);
        }
}

const uint8_t *s3_sums_value(const struct s3_sums *sums, enum s3_checksum kind)
{
        return sums->value[kind];
}

unsigned s3_sums_mask(const struct s3_sums *sums)
{
        return sums->mask;
}
