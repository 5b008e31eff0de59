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
 * ---- failure domains
 *
 * Which slots fail together: by slot, those on the same node and those in the same rack, itself
 * included. Nodes lie within racks. NULL wherever a `const struct eng_domains *` is wanted: all
 * slots are alike, as on the drives of one machine.
 */
struct eng_domains {
        eng_mask node[ENG_DRIVES_MAX], rack[ENG_DRIVES_MAX];
};

/*
 * From the sites of `count` slots. A node whose slots name several racks lies in the rack that its
 * first slot names. False: all slots are on one node, so that there is nothing to tell apart.
 */
bool eng_domains_make(struct eng_domains *out, const struct eng_site *sites, unsigned count);
/* Nodes, or racks, that these slots lie on: of domains->node or ->rack. */
unsigned eng_domains_count(const eng_mask domain[ENG_DRIVES_MAX], eng_mask slots);
/*
 * The slot of `fit` to take next beside those in `have`: on the node that has the fewest of them,
 * of these in the rack that has the fewest, of these the first of order. `order` is that of
 * eng_place_order(). ENG_NO_DRIVE: fit is empty, or all of it is in `have`.
 *
 * Taken one after the other from none on, these are the slots of a group in order of preference.
 * What the order promises (test_place has the proofs by trial):
 * - where each slot is a domain of its own, or all are one, it is eng_place_order()'s;
 * - of the first n slots a node has at most ceil(n / nodes), as far as nodes have so many slots;
 * - one slot more, or one less, changes the first n by that slot and one other: nothing moves
 *   between slots that are there before and after.
 */
uint16_t eng_place_next(const uint16_t *order, unsigned count, eng_mask fit, const struct eng_domains *domains, eng_mask have);
/*
 * Drives for the shards of a run: the first k+m slots in the mask, in order of preference; where
 * there are fewer, the last shards are ENG_NO_DRIVE. Returns how many shards have a drive.
 */
unsigned eng_place_shards(const uint16_t *order, unsigned count, eng_mask in, const struct eng_domains *domains, unsigned shards,
                          uint16_t *out);
/* The first n of these in order of preference, as a set; all of them where there are fewer. */
eng_mask eng_place_set(const uint16_t *order, unsigned count, eng_mask in, const struct eng_domains *domains, unsigned n);
/*
 * Shards of one run that lie where more than m would be lost with any `nodes` nodes: what each node
 * holds beyond m / nodes. drives: of the k+m shards; ENG_NO_DRIVE counts for no node. 0 without
 * domains.
 */
unsigned eng_place_violations(const struct eng_domains *domains, const uint16_t *drives, unsigned shards, unsigned m, unsigned nodes);
/* Shards of the run that are lost with the `nodes` nodes that hold the most of them. 0 without domains. */
unsigned eng_place_worst(const struct eng_domains *domains, const uint16_t *drives, unsigned shards, unsigned nodes);

/*
 * ---- codes over nodes
 *
 * Whether k+m over so many nodes, of `slots` slots in all, survives that any `fail` nodes are lost:
 * no object loses more than m shards, at least k+1 slots are left for new ones, and two copies of
 * each name's metadata (m+1 are made). Slots are spread evenly over nodes.
 */
bool eng_code_keeps(unsigned k, unsigned m, unsigned nodes, unsigned slots, unsigned fail);
/* Nodes that may be lost at the same time: 1, from 9 nodes on 2. */
unsigned eng_nodes_may_fail(unsigned nodes);
/*
 * The code of a new pool: the first of 8+3, 6+3, 4+2, 3+2, 2+2, 1+2 that keeps these rules for
 * eng_nodes_may_fail(). False: none does (fewer than three nodes, or too few slots).
 */
bool eng_code_for_nodes(unsigned nodes, unsigned slots, unsigned *k, unsigned *m);

/* ---- who may go on ---- */

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

/* Slots of a group's metadata: before and after the change under way; the same if there is none. */
struct eng_group {
        eng_mask before, after;
};

/*
 * The same by groups, for a pool whose slots lie on nodes (docs/design/cluster-engine.md): how many
 * slots are out does not matter, if each group keeps a current member. Of the slots that speak for a
 * group now, or (after) when the change under way has ended.
 */
/* Each group has one of these. */
bool eng_groups_current(const struct eng_group *groups, unsigned count, bool after, eng_mask in);
/* Groups that have fewer than two of these: they take no changes. */
unsigned eng_groups_alone(const struct eng_group *groups, unsigned count, eng_mask in);
/*
 * Always where nobody leaves. Else a majority of `prev` is needed, too: nothing but the drives says
 * which of two epochs counts.
 */
bool eng_groups_can_form(const struct eng_group *groups, unsigned count, bool after, eng_mask next, eng_mask prev);

/*
 * ---- lost groups (truth.c; docs/design/lost-groups.md)
 *
 * A group is lost when none of its members is in. Its truth: those that left last, together, but for those
 * with FMT_EPOCH_NO_TRUTH. left: of each slot, as an EPOCH record has it.
 */
/* Of these members, those that left last; none where `left` of all is 0. */
eng_mask eng_left_last(eng_mask members, const uint64_t left[ENG_DRIVES_MAX]);
/* Of these members; none where `left` of all is 0, or where all that left last are no truths. */
eng_mask eng_truth_of(eng_mask members, const uint64_t left[ENG_DRIVES_MAX]);
/* Groups that are lost. */
unsigned eng_groups_lost(const struct eng_group *groups, unsigned count, eng_mask in);
/* Each group that has a member in `prev` has one in `next`: no further one is lost. */
bool eng_groups_kept(const struct eng_group *groups, unsigned count, bool after, eng_mask next, eng_mask prev);
/* Of two maps, one after the other: each group that has a member in `in` by the first has one by the second. */
bool eng_groups_handed_over(const struct eng_group *from, const struct eng_group *to, unsigned count, eng_mask in);
/* And each that has none keeps its members: among them it is looked for who left last. */
bool eng_groups_lost_stay(const struct eng_group *from, const struct eng_group *to, unsigned count, eng_mask in);
/* Each group of those that are set aside has two members among those present. */
bool eng_groups_witnessed(const struct eng_group *groups, unsigned count, eng_mask aside, eng_mask present);
/* `next` may go on without the groups that it has no member of. all: the slots that are not gone. */
bool eng_groups_may_lose(eng_mask next, eng_mask all);
/*
 * A slot that is not in may join: of each lost group that it is a member of it is a truth. A group that is yet to come
 * to it does not matter. Not for a slot that is being added, which is to have all of its groups first.
 */
bool eng_may_join(const struct eng_group *groups, unsigned count, eng_mask in, const uint64_t left[ENG_DRIVES_MAX], unsigned slot);
/* And of some it is: it is back then. */
bool eng_is_truth(const struct eng_group *groups, unsigned count, eng_mask in, const uint64_t left[ENG_DRIVES_MAX], unsigned slot);

#endif
