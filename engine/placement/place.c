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

/* ---- failure domains ------------------------------------------------------------------------- */

bool eng_domains_make(struct eng_domains *out, const struct eng_site *sites, unsigned count)
{
        uint16_t rack[ENG_DRIVES_MAX]; /* of the slot's node */
        unsigned i, j;

        assert(count <= ENG_DRIVES_MAX);
        memset(out, 0, sizeof(*out));
        for (i = 0; i < count; i++) {
                for (j = 0; sites[j].node != sites[i].node; j++)
                        ;
                rack[i] = sites[j].rack;
        }
        for (i = 0; i < count; i++) {
                for (j = 0; j < count; j++) {
                        out->node[i] |= sites[i].node == sites[j].node ? eng_bit(j) : 0;
                        out->rack[i] |= rack[i] == rack[j] ? eng_bit(j) : 0;
                }
        }
        return count > 0 && out->node[0] != eng_all_slots(count);
}

unsigned eng_domains_count(const eng_mask domain[ENG_DRIVES_MAX], eng_mask slots)
{
        unsigned n = 0;

        for (; slots != 0; n++)
                slots &= ~domain[__builtin_ctzll(slots)];
        return n;
}

/*
 * Why the first n change by one slot alone: they are those of the highest score, where each further
 * slot of a node, and then of a rack, costs more than all scores. Such costs, convex in the number
 * of slots taken from each of nested sets, make the choice a valuated matroid: taking the best slot
 * each time finds the best n for each n, and of two sets of slots that differ by one the best n
 * differ by one at most.
 */
uint16_t eng_place_next(const uint16_t *order, unsigned count, eng_mask fit, const struct eng_domains *domains, eng_mask have)
{
        unsigned i, cost, least = UINT32_MAX;
        uint16_t best = ENG_NO_DRIVE;

        for (i = 0; i < count && least > 0; i++) {
                const uint16_t slot = order[i];

                if (!(fit & ~have & eng_bit(slot)))
                        continue;
                cost = domains == NULL ? 0
                                       : (unsigned)__builtin_popcountll(have & domains->node[slot]) * (ENG_DRIVES_MAX + 1) +
                                                 (unsigned)__builtin_popcountll(have & domains->rack[slot]);
                if (cost < least) {
                        least = cost;
                        best = slot;
                }
        }
        return best;
}

/* Without domains it is a walk along the order, which each run of each upload takes. */
unsigned eng_place_shards(const uint16_t *order, unsigned count, eng_mask in, const struct eng_domains *domains, unsigned shards,
                          uint16_t *out)
{
        unsigned i, n = 0, placed;
        eng_mask have = 0;

        for (i = 0; domains == NULL && i < count && n < shards; i++)
                if (in & eng_bit(order[i]))
                        out[n++] = order[i];
        for (; domains != NULL && n < shards; n++) {
                out[n] = eng_place_next(order, count, in, domains, have);
                if (out[n] == ENG_NO_DRIVE)
                        break;
                have |= eng_bit(out[n]);
        }
        placed = n;
        while (n < shards)
                out[n++] = ENG_NO_DRIVE;
        return placed;
}

eng_mask eng_place_set(const uint16_t *order, unsigned count, eng_mask in, const struct eng_domains *domains, unsigned n)
{
        uint16_t slots[ENG_DRIVES_MAX];
        eng_mask mask = 0;
        unsigned i;

        n = eng_place_shards(order, count, in, domains, n < ENG_DRIVES_MAX ? n : ENG_DRIVES_MAX, slots);
        for (i = 0; i < n; i++)
                mask |= eng_bit(slots[i]);
        return mask;
}

/* None where it is not known which node a drive belongs to. */
static eng_mask drives_with_shards(const struct eng_domains *domains, const uint16_t *drives, unsigned shards)
{
        eng_mask have = 0;
        unsigned i;

        for (i = 0; domains != NULL && i < shards; i++)
                if (drives[i] < ENG_DRIVES_MAX)
                        have |= eng_bit(drives[i]);
        return have;
}

unsigned eng_place_violations(const struct eng_domains *domains, const uint16_t *drives, unsigned shards, unsigned m, unsigned nodes)
{
        eng_mask have = drives_with_shards(domains, drives, shards), left;
        unsigned i, n, allowed = m / nodes, sum = 0;

        for (left = have; left != 0; left &= ~domains->node[i]) {
                i = (unsigned)__builtin_ctzll(left);
                n = (unsigned)__builtin_popcountll(have & domains->node[i]);
                sum += n > allowed ? n - allowed : 0;
        }
        return sum;
}

unsigned eng_place_worst(const struct eng_domains *domains, const uint16_t *drives, unsigned shards, unsigned nodes)
{
        eng_mask have = drives_with_shards(domains, drives, shards), left;
        unsigned i, n, most, fullest, sum = 0;

        for (; nodes > 0 && have != 0; nodes--, sum += most, have &= ~domains->node[fullest]) {
                most = fullest = 0;
                for (left = have; left != 0; left &= ~domains->node[i]) {
                        i = (unsigned)__builtin_ctzll(left);
                        n = (unsigned)__builtin_popcountll(have & domains->node[i]);
                        fullest = n > most ? i : fullest;
                        most = n > most ? n : most;
                }
        }
        return sum;
}

/* ---- codes over nodes ------------------------------------------------------------------------ */

static unsigned share_of_node(unsigned n, unsigned nodes)
{
        return (n + nodes - 1) / nodes;
}

bool eng_code_keeps(unsigned k, unsigned m, unsigned nodes, unsigned slots, unsigned fail)
{
        unsigned lost = nodes == 0 ? 0 : fail * share_of_node(slots, nodes); /* slots, at most */

        return nodes > fail && slots >= k + m && fail * share_of_node(k + m, nodes) <= m && lost < slots && slots - lost >= k + 1 &&
               m + 1 >= 2 + fail * share_of_node(m + 1, nodes);
}

unsigned eng_nodes_may_fail(unsigned nodes)
{
        return nodes < 9 ? 1 : 2;
}

bool eng_code_for_nodes(unsigned nodes, unsigned slots, unsigned *k, unsigned *m)
{
        static const struct {
                unsigned k, m;
        } codes[] = {{8, 3}, {6, 3}, {4, 2}, {3, 2}, {2, 2}, {1, 2}};
        unsigned i;

        for (i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
                if (!eng_code_keeps(codes[i].k, codes[i].m, nodes, slots, eng_nodes_may_fail(nodes)))
                        continue;
                *k = codes[i].k;
                *m = codes[i].m;
                return true;
        }
        return false;
}

/* ---- who may go on --------------------------------------------------------------------------- */

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

bool eng_groups_current(const struct eng_group *groups, unsigned count, bool after, eng_mask in)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if (((after ? groups[i].after : groups[i].before) & in) == 0)
                        return false;
        return true;
}

unsigned eng_groups_alone(const struct eng_group *groups, unsigned count, eng_mask in)
{
        unsigned i, n = 0;

        for (i = 0; i < count; i++)
                n += __builtin_popcountll(groups[i].before & in) < 2;
        return n;
}

bool eng_groups_can_form(const struct eng_group *groups, unsigned count, bool after, eng_mask next, eng_mask prev)
{
        if ((prev & ~next) == 0 && prev != 0)
                return true;
        return eng_is_majority(next, prev) && eng_groups_current(groups, count, after, next);
}
