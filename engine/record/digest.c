/*
 * digest.c - what a set of shards comes to, whatever the order they are met in: the sum, modulo
 * 2^256, of a SHA-256 of each.
 *
 * So what a heal says it wrote can be compared with what a later reading of the drive finds. Any
 * thread.
 */
#include "ec.h"
#include "engine/record/value.h"

#include <string.h>

static void sum(uint8_t to[32], const uint8_t more[32])
{
        unsigned i, carry = 0;

        for (i = 0; i < 32; i++) {
                carry += to[i] + (unsigned)more[i];
                to[i] = (uint8_t)carry;
                carry >>= 8;
        }
}

void eng_digest_merge(struct eng_digest *digest, const struct eng_digest *more)
{
        sum(digest->bytes, more->bytes);
        digest->shards += more->shards;
        digest->payload += more->payload;
}

void eng_digest_add(struct eng_digest *digest, const uint8_t object_id[FMT_ID], uint32_t stripe, unsigned shard,
                    const void *payload, size_t len)
{
        struct {
                uint8_t object_id[FMT_ID];
                uint32_t stripe, shard, len, crc;
        } one = {.stripe = stripe, .shard = shard, .len = (uint32_t)len, .crc = era_crc32c(0, payload, len)};
        uint8_t hash[ERA_DIGEST_MAX];

        memcpy(one.object_id, object_id, FMT_ID);
        era_digest_of(ERA_SHA256, &one, sizeof(one), hash);
        sum(digest->bytes, hash);
        digest->shards++;
        digest->payload += len;
}
