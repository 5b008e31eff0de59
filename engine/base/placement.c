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

struct eng_placement *eng_placement_new(const struct eng_store *store, eng_mask adding, eng_mask leaving, eng_mask gone)
{
        struct eng_placement *map = calloc(1, sizeof(*map));
        uint8_t ids[ENG_DRIVES_MAX][FMT_ID];
        struct eng_site sites[ENG_DRIVES_MAX];
        unsigned pg, i;

        if (map == NULL)
                return NULL;
        map->drives = store->drive_count;
        assert(map->drives <= ENG_DRIVES_MAX);
        map->all = eng_all_slots(map->drives) & ~gone;
        map->adding = adding;
        map->leaving = leaving;
        map->gone = gone;
        map->orders = calloc((size_t)store->pg_count * map->drives, sizeof(map->orders[0]));
        map->groups = calloc(store->pg_count + 1, sizeof(map->groups[0]));
        if (map->orders == NULL || map->groups == NULL) {
                eng_placement_free(map);
                return NULL;
        }
        for (i = 0; i < map->drives; i++) {
                memcpy(ids[i], store->members[i].place_id, FMT_ID);
                sites[i] = store->members[i].site;
        }
        if (eng_domains_make(&map->domains_made, sites, map->drives))
                map->domains = &map->domains_made;
        for (pg = 0; pg < store->pg_count; pg++) {
                eng_place_order(pg, (const uint8_t(*)[FMT_ID])ids, map->drives, map->orders + (size_t)pg * map->drives);
                place_group(map, pg, store->meta_replicas);
        }
        map->groups[pg].before = map->all & ~adding; /* CONFIG: every drive */
        map->groups[pg].after = map->all & ~leaving;
        for (pg = 0; pg <= store->pg_count; pg++) {
                map->gaining |= map->groups[pg].after & ~map->groups[pg].before;
                map->losing |= map->groups[pg].before & ~map->groups[pg].after;
        }
        return map;
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
