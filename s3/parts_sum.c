/*
 * The checksum of a multipart object from those of its parts: CRCs are combined by length
 * (FULL_OBJECT), or the values are hashed in order (COMPOSITE). The gateway calls it at
 * CompleteMultipartUpload, clients to check what they got.
 */
#include <errno.h>
#include <stdlib.h>

#include "ec.h"
#include "s3_internal.h"

/* owner: whoever made it; one thread at a time. */
struct s3_parts_sum {
        enum s3_checksum kind;
        uint64_t crc;         /* FULL_OBJECT: of all parts so far */
        struct s3_sums *sums; /* COMPOSITE: over the values so far; else NULL */
};

int s3_parts_sum_new(enum s3_checksum kind, enum s3_checksum_type type, struct s3_parts_sum **out)
{
        struct s3_parts_sum *sum;

        if ((unsigned)kind >= S3_CHECKSUM_KINDS || !s3_checksum_type_allowed(kind, type))
                return -EINVAL;
        sum = calloc(1, sizeof(*sum));
        if (sum == NULL)
                return -ENOMEM;
        sum->kind = kind;
        if (type == S3_COMPOSITE && s3_sums_new(S3_CHECKSUM_BIT(kind), &sum->sums) != 0) {
                free(sum);
                return -ENOMEM;
        }
        *out = sum;
        return 0;
}

static uint64_t combine(enum s3_checksum kind, uint64_t a, uint64_t b, uint64_t len_b)
{
        if (kind == S3_CRC32)
                return era_crc32_combine((uint32_t)a, (uint32_t)b, len_b);
        if (kind == S3_CRC32C)
                return era_crc32c_combine((uint32_t)a, (uint32_t)b, len_b);
        return era_crc64nvme_combine(a, b, len_b);
}

void s3_parts_sum_add(struct s3_parts_sum *sum, const uint8_t *value, uint64_t part_len)
{
        if (sum->sums != NULL)
                s3_sums_update(sum->sums, value, s3_checksum_info(sum->kind)->len);
        else
                sum->crc = combine(sum->kind, sum->crc, s3_checksum_to_crc(sum->kind, value), part_len);
}

void s3_parts_sum_final(struct s3_parts_sum *sum, uint8_t out[S3_CHECKSUM_MAX])
{
        if (sum->sums == NULL) {
                s3_checksum_from_crc(sum->kind, sum->crc, out);
                return;
        }
        s3_sums_final(sum->sums);
        memcpy(out, s3_sums_value(sum->sums, sum->kind), s3_checksum_info(sum->kind)->len);
}

void s3_parts_sum_free(struct s3_parts_sum *sum)
{
        if (sum == NULL)
                return;
        s3_sums_free(sum->sums);
        free(sum);
}
