/*
 * digest.c - what a set of shards comes to, whatever the order they are met in: the sum, modulo 2^256, of a SHA-256 of each.
 *
 * So what a heal says it wrote can be compared with what a later reading of the drive finds. Any thread.
 */
#include "engine/store.h"

#include <string.h>

void eng_digest_add(struct eng_digest *digest, const uint8_t object_id[FMT_ID], uint32_t stripe, unsigned shard,
                    const void *payload, size_t len)
{
        struct {
                uint8_t object_id[FMT_ID];
                uint32_t stripe, shard, len, crc;
        } one = {.stripe = stripe, .shard = shard, .len = (uint32_t)len, .crc = era_crc32c(0, payload, len)};
        uint8_t sum[ERA_DIGEST_MAX];
        unsigned i, carry = 0;

        memcpy(one.object_id, object_id, FMT_ID);
        era_digest_of(ERA_SHA256, &one, sizeof(one), sum);
        for (i = 0; i < sizeof(digest->bytes); i++) {
                carry += digest->bytes[i] + (unsigned)sum[i];
                digest->bytes[i] = (uint8_t)carry;
                carry >>= 8;
        }
        digest->shards++;
        digest->payload += len;
}
