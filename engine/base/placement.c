/*
 * placement.c - the map of a store's drives: which drives a group's records go to, which of them
 * speak for it, and where shards go.
 *
 * Made by the coordinator for an epoch, given to the loops with its view and never changed: a loop
 * that still has the last view has the last map. While a drive is added or removed there are two
 * placements, that of before and that of after: records go to the members of both, and those of
 * before speak until those of after have caught up (catch_up.c).
 */
#include "engine/base/store.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void place_group(struct eng_placement *map, uint32_t pg, unsigned replicas)
{
        struct eng_group *group = &map->groups[pg];
        const uint16_t *order = eng_placement_order(map, pg);

        group->before = eng_place_set(order, map->drives, map->all & ~map->adding, map->domains, replicas);
        group->after = eng_place_set(order, map->drives, map->all & ~map->leaving, map->domains, replicas);
        assert((unsigned)__builtin_popcountll(group->before) <= replicas && (unsigned)__builtin_popcountll(group->after) <= replicas);
}

/* Some slot lies on a node: the pool is a cluster's. */
static bool on_nodes(const struct eng_placement_slots *slots)
{
        unsigned i;

        for (i = 0; i < slots->count; i++)
                if (slots->sites[i].node != 0)
                        return true;
        return false;
}

struct eng_placement *eng_placement_make(const struct eng_placement_slots *slots)
{
        struct eng_placement *map = calloc(1, sizeof(*map));
        unsigned pg;

        if (map == NULL)
                return NULL;
        map->drives = slots->count;
        assert(map->drives <= ENG_DRIVES_MAX);
        map->all = eng_all_slots(map->drives) & ~slots->gone;
        map->adding = slots->adding;
        map->leaving = slots->leaving;
        map->gone = slots->gone;
        map->group_count = slots->pg_count + 1;
        map->by_groups = on_nodes(slots);
        map->decided = slots->decided;
        assert(map->by_groups || !map->decided);
        map->orders = calloc((size_t)slots->pg_count * map->drives, sizeof(map->orders[0]));
        map->groups = calloc(map->group_count, sizeof(map->groups[0]));
        if (map->orders == NULL || map->groups == NULL) {
                eng_placement_free(map);
                return NULL;
        }
        if (eng_domains_make(&map->domains_made, slots->sites, map->drives)) {
                map->domains = &map->domains_made;
                map->may_fail = eng_nodes_may_fail(eng_domains_count(map->domains->node, map->all));
        }
        for (pg = 0; pg < slots->pg_count; pg++) {
                eng_place_order(pg, slots->ids, map->drives, map->orders + (size_t)pg * map->drives);
                place_group(map, pg, slots->replicas);
        }
        map->groups[pg].before = map->all & ~map->adding; /* CONFIG: every drive */
        map->groups[pg].after = map->all & ~map->leaving;
        for (pg = 0; pg < map->group_count; pg++) {
                map->gaining |= map->groups[pg].after & ~map->groups[pg].before;
                map->losing |= map->groups[pg].before & ~map->groups[pg].after;
        }
        return map;
}

struct eng_placement *eng_placement_new(const struct eng_store *store, eng_mask adding, eng_mask leaving, eng_mask gone)
{
        struct eng_placement_slots slots = {
                .count = store->drive_count,
                .pg_count = store->pg_count,
                .replicas = store->meta_replicas,
                .decided = store->options.cluster != NULL,
                .adding = adding,
                .leaving = leaving,
                .gone = gone,
        };
        unsigned i;

        for (i = 0; i < slots.count; i++) {
                memcpy(slots.ids[i], store->members[i].place_id, FMT_ID);
                slots.sites[i] = store->members[i].site;
        }
        return eng_placement_make(&slots);
}

bool eng_placement_can_form(const struct eng_placement *map, eng_mask next, eng_mask prev, eng_mask gone, unsigned k, unsigned m)
{
        eng_mask counted = map->all & ~map->adding & ~gone;

        if (map->decided)
                return prev != 0 && ((prev & ~next) == 0 || eng_groups_kept(map->groups, map->group_count, gone != 0, next, prev));
        if (map->by_groups)
                return eng_groups_can_form(map->groups, map->group_count, gone != 0, next, prev);
        return eng_epoch_can_form(next, prev, (unsigned)__builtin_popcountll(counted), k, m);
}

bool eng_placement_can_write(const struct eng_placement *map, eng_mask in, unsigned k, unsigned m)
{
        if (map->by_groups && m == 0)
                return eng_groups_current(map->groups, map->group_count, false, in);
        if (map->by_groups)
                return eng_groups_alone(map->groups, map->group_count, in) == 0;
        return eng_epoch_can_write(in, (unsigned)__builtin_popcountll(map->all & ~map->adding), k, m);
}

void eng_placement_free(struct eng_placement *map)
{
        if (map == NULL)
                return;
        free(map->orders);
        free(map->groups);
        free(map);
}

void eng_groups_spoken_for(const struct eng_view *view, unsigned pg_count, unsigned slot, uint64_t *bits)
{
        unsigned pg;

        for (pg = 0; pg <= pg_count; pg++)
                if (eng_speakers(view, pg) & eng_bit(slot))
                        bits[pg / 64] |= 1ull << (pg % 64);
}
