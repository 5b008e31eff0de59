/*
 * place.c - where things go: hashing of keys to placement groups (PG) and of PGs to drives.
 *
 * Functions over values, called on any thread. Results stand in records and in the layout of
 * stores, so they must never change for a layout version: PG numbers are stored, and metadata
 * members of a PG are computed from these functions.
 */
#include "engine/placement/place.h"

#include <assert.h>
#include <string.h>

/* The finaliser of SplitMix64: each input bit reaches every output bit. */
static uint64_t mix(uint64_t x)
{
        x ^= x >> 30;
        x *= 0xbf58476d1ce4e5b9ull;
        x ^= x >> 27;
        x *= 0x94d049bb133111ebull;
        return x ^ (x >> 31);
}

uint64_t eng_hash(const void *data, size_t len, uint64_t seed)
{
        const uint8_t *p = data;
        uint64_t h = mix(seed ^ 0x9e3779b97f4a7c15ull) ^ mix(len);
        uint64_t word;

        for (; len >= 8; p += 8, len -= 8) {
                memcpy(&word, p, 8);
                h = mix(h ^ word) + 0x9e3779b97f4a7c15ull;
        }
        word = 0;
        memcpy(&word, p, len);
        return mix(h ^ word);
}

uint64_t eng_hash_of_key(uint64_t bucket, const void *key, size_t len)
{
        return eng_hash(key, len, bucket);
}

uint32_t eng_pg_of_hash(uint32_t pg_count, uint64_t key_hash)
{
        return (uint32_t)(key_hash % pg_count);
}

uint32_t eng_pg_of_key(uint32_t pg_count, uint64_t bucket, const void *key, size_t len)
{
        return eng_pg_of_hash(pg_count, eng_hash_of_key(bucket, key, len));
}

uint32_t eng_pg_of_run(uint32_t pg_count, const uint8_t id[FMT_ID], uint32_t run)
{
        return (uint32_t)(eng_hash(id, FMT_ID, run) % pg_count);
}

void eng_place_order(uint32_t pg, const uint8_t (*drive_ids)[FMT_ID], unsigned count, uint16_t *order)
{
        uint64_t score[ENG_DRIVES_MAX];
        unsigned i, j;

        assert(count <= ENG_DRIVES_MAX);
        for (i = 0; i < count; i++) {
                uint64_t s = eng_hash(drive_ids[i], FMT_ID, pg);

                for (j = i; j > 0 && score[j - 1] < s; j--) {
                        score[j] = score[j - 1];
                        order[j] = order[j - 1];
                }
                score[j] = s;
                order[j] = (uint16_t)i;
        }
}

unsigned eng_place_shards(const uint16_t *order, unsigned count, eng_mask in, unsigned shards, uint16_t *out)
{
        unsigned i, n = 0, placed;

        for (i = 0; i < count && n < shards; i++)
                if (in & eng_bit(order[i]))
                        out[n++] = order[i];
        placed = n;
        while (n < shards)
                out[n++] = ENG_NO_DRIVE;
        return placed;
}

bool eng_is_majority(eng_mask part, eng_mask all)
{
        return 2 * __builtin_popcountll(part & all) > __builtin_popcountll(all);
}

bool eng_epoch_can_write(eng_mask in, unsigned drives, unsigned k, unsigned m)
{
        unsigned n = (unsigned)__builtin_popcountll(in), least = m == 0 ? k : k + 1;

        return n >= least && n + m >= drives;
}

bool eng_epoch_can_form(eng_mask next, eng_mask prev, unsigned drives, unsigned k, unsigned m)
{
        if ((prev & ~next) == 0 && prev != 0)
                return true;
        return eng_epoch_can_write(next, drives, k, m) && 2 * __builtin_popcountll(next) > __builtin_popcountll(prev);
}
