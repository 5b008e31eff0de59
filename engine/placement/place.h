/*
 * place.h - where names and shards belong: functions over values. Any thread.
 */
#ifndef MILLRACE_ENGINE_PLACE_H
#define MILLRACE_ENGINE_PLACE_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "engine/record/value.h"

typedef uint64_t eng_mask;             /* a set of drive slots */

static inline eng_mask eng_bit(unsigned slot)
{
        return (eng_mask)1 << slot;
}
static inline eng_mask eng_all_slots(unsigned count)
{
        assert(count <= ENG_DRIVES_MAX);
        return count == 64 ? ~(eng_mask)0 : eng_bit(count) - 1;
}

/* Of bytes; the same for ever. */
uint64_t eng_hash(const void *data, size_t len, uint64_t seed);

/*
 * Of a bucket's id and a key: what frames carry, and what the key's PG follows from. One key in
 * 2^64 has 0, which a frame takes for 'not known'.
 */
uint64_t eng_hash_of_key(uint64_t bucket, const void *key, size_t len);
uint32_t eng_pg_of_hash(uint32_t pg_count, uint64_t key_hash);
/* PG of everything that belongs to one key of one bucket. */
uint32_t eng_pg_of_key(uint32_t pg_count, uint64_t bucket, const void *key, size_t len);
/* PG that places one run of an object id's stripes. */
uint32_t eng_pg_of_run(uint32_t pg_count, const uint8_t id[FMT_ID], uint32_t run);
/*
 * All drives in the order in which they are preferred for a PG (rendezvous hashing). order has
 * count entries.
 */
void eng_place_order(uint32_t pg, const uint8_t (*drive_ids)[FMT_ID], unsigned count, uint16_t *order);
/*
 * Drives for the shards of a run: the first k+m of order that are in the mask; where there are
 * fewer, the last shards are ENG_NO_DRIVE. Returns how many shards have a drive.
 */
unsigned eng_place_shards(const uint16_t *order, unsigned count, eng_mask in, unsigned shards, uint16_t *out);
bool eng_is_majority(eng_mask part, eng_mask all);
/*
 * Whether an epoch of these members takes clients' changes. At most m of all drives are left out:
 * were it more, some group could be left without a current replica, and nobody could bring those
 * that left up to date again. Only a forced epoch (force.c) may be of fewer.
 */
bool eng_epoch_can_write(eng_mask in, unsigned drives, unsigned k, unsigned m);
/*
 * Whether the drives of `next` may go on alone as successors of epoch members `prev` (see
 * docs/design/membership.md): always where nobody leaves.
 */
bool eng_epoch_can_form(eng_mask next, eng_mask prev, unsigned drives, unsigned k, unsigned m);

#endif
