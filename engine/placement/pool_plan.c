/*
 * pool_plan.c - see pool_plan.h. Greedy: each slot goes to the rack, in it to the node, and in that
 * to the drive that is the least full for its weight, of those that have less than their share of
 * the pool. So drives are within one slot of each other where weights are alike, and a cluster that
 * grows moves what the new drives are to hold, and nothing else.
 */
#include "engine/placement/pool_plan.h"

#include "engine/placement/place.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A rack, a node or a drive: how full it is. */
struct plan_load {
        uint64_t weight;               /* of what takes slots */
        uint32_t slots;                /* of all pools */
        uint32_t mine;                 /* of the pool that is looked at */
        uint32_t free;                 /* drives of it that take slots and have none of that pool */
};

struct plan_work {
        struct eng_plan *plan;
        struct plan_load *racks, *nodes, *drives;
        uint32_t *by_node, *first;     /* drives of node n: by_node[first[n]] .. by_node[first[n + 1] - 1] */
        uint32_t *by_rack, *first_node; /* nodes of a rack, likewise */
        uint32_t *led;                 /* pools that each node leads */
        bool *seen;                    /* nodes, while a leader is looked for */
        uint64_t weight;
        uint32_t most_led;
};

static bool plan_takes(const struct eng_plan *plan, uint32_t drive)
{
        return plan->drives[drive].weight > 0 && plan->nodes[plan->drives[drive].node].takes;
}

static uint32_t plan_rack(const struct eng_plan *plan, uint32_t drive)
{
        return plan->nodes[plan->drives[drive].node].rack;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void plan_work_free(struct plan_work *w)
{
        free(w->racks);
        free(w->nodes);
        free(w->drives);
        free(w->by_node);
        free(w->first);
        free(w->by_rack);
        free(w->first_node);
        free(w->led);
        free(w->seen);
}

static int plan_check(const struct eng_plan *plan)
{
        uint32_t i;

        if ((uint64_t)plan->pool_count * plan->width >= UINT32_MAX)
                return -EINVAL;
        for (i = 0; i < plan->node_count; i++)
                if (plan->nodes[i].rack >= plan->rack_count)
                        return -EINVAL;
        for (i = 0; i < plan->drive_count; i++)
                if (plan->drives[i].node >= plan->node_count)
                        return -EINVAL;
        for (i = 0; i < plan->pool_count * plan->width; i++)
                if (plan->slots[i] != ENG_PLAN_NONE && plan->slots[i] >= plan->drive_count)
                        return -EINVAL;
        for (i = 0; i < plan->pool_count; i++)
                if (plan->leaders[i] != ENG_PLAN_NONE && plan->leaders[i] >= plan->node_count)
                        return -EINVAL;
        return 0;
}

/* Members by the container they lie in: first[] is of containers and one more. */
static void plan_sort(uint32_t count, const uint32_t *in, uint32_t containers, uint32_t *first, uint32_t *members)
{
        uint32_t i;

        for (i = 0; i < count; i++)
                first[in[i] + 1]++;
        for (i = 0; i < containers; i++)
                first[i + 1] += first[i];
        for (i = 0; i < count; i++)
                members[first[in[i]]++] = i;
        for (i = containers; i > 0; i--)
                first[i] = first[i - 1];
        first[0] = 0;
}

static int plan_index(struct plan_work *w)
{
        const struct eng_plan *plan = w->plan;
        uint32_t most = plan->drive_count > plan->node_count ? plan->drive_count : plan->node_count, i;
        uint32_t *in = calloc(most + 1, sizeof(*in));

        if (in == NULL)
                return -ENOMEM;
        for (i = 0; i < plan->drive_count; i++)
                in[i] = plan->drives[i].node;
        plan_sort(plan->drive_count, in, plan->node_count, w->first, w->by_node);
        for (i = 0; i < plan->node_count; i++)
                in[i] = plan->nodes[i].rack;
        plan_sort(plan->node_count, in, plan->rack_count, w->first_node, w->by_rack);
        free(in);
        return 0;
}

static int plan_work_make(struct plan_work *w, struct eng_plan *plan)
{
        uint32_t i;

        memset(w, 0, sizeof(*w));
        w->plan = plan;
        w->racks = calloc(plan->rack_count + 1, sizeof(*w->racks));
        w->nodes = calloc(plan->node_count + 1, sizeof(*w->nodes));
        w->drives = calloc(plan->drive_count + 1, sizeof(*w->drives));
        w->by_node = calloc(plan->drive_count + 1, sizeof(*w->by_node));
        w->first = calloc(plan->node_count + 2, sizeof(*w->first));
        w->by_rack = calloc(plan->node_count + 1, sizeof(*w->by_rack));
        w->first_node = calloc(plan->rack_count + 2, sizeof(*w->first_node));
        w->led = calloc(plan->node_count + 1, sizeof(*w->led));
        w->seen = calloc(plan->node_count + 1, sizeof(*w->seen));
        if (w->racks == NULL || w->nodes == NULL || w->drives == NULL || w->by_node == NULL || w->first == NULL ||
            w->by_rack == NULL || w->first_node == NULL || w->led == NULL || w->seen == NULL || plan_index(w) != 0)
                return -ENOMEM;
        for (i = 0; i < plan->drive_count; i++) {
                if (!plan_takes(plan, i))
                        continue;
                w->drives[i].weight = plan->drives[i].weight;
                w->nodes[plan->drives[i].node].weight += plan->drives[i].weight;
                w->racks[plan_rack(plan, i)].weight += plan->drives[i].weight;
                w->weight += plan->drives[i].weight;
        }
        return 0;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* A drive gets a slot of the pool, or loses one: as > 0 or not. in_slots: of all pools, too. */
static void plan_count(struct plan_work *w, uint32_t drive, int as, bool in_slots)
{
        struct plan_load *of[] = {&w->drives[drive], &w->nodes[w->plan->drives[drive].node], &w->racks[plan_rack(w->plan, drive)]};
        unsigned i;

        for (i = 0; i < 3; i++) {
                of[i]->slots += in_slots ? (uint32_t)as : 0;
                of[i]->mine += (uint32_t)as;
                of[i]->free -= plan_takes(w->plan, drive) ? (uint32_t)as : 0;
        }
}

/* From here on `mine` and `free` are this pool's. */
static void plan_look_at(struct plan_work *w, uint32_t pool)
{
        const struct eng_plan *plan = w->plan;
        uint32_t i;

        for (i = 0; i < plan->rack_count; i++)
                w->racks[i].mine = w->racks[i].free = 0;
        for (i = 0; i < plan->node_count; i++)
                w->nodes[i].mine = w->nodes[i].free = 0;
        for (i = 0; i < plan->drive_count; i++) {
                bool takes = plan_takes(plan, i);

                w->drives[i].mine = 0;
                w->drives[i].free = takes;
                w->nodes[plan->drives[i].node].free += takes;
                w->racks[plan_rack(plan, i)].free += takes;
        }
        for (i = 0; i < plan->width; i++) {
                uint32_t drive = plan->slots[pool * plan->width + i];

                if (drive != ENG_PLAN_NONE)
                        plan_count(w, drive, 1, false); /* among all slots it is counted already */
        }
}

/* Of the pool's slots it has less than its share, rounded up. */
static bool plan_under_share(const struct plan_work *w, const struct plan_load *load)
{
        return (uint64_t)load->mine * w->weight < (uint64_t)w->plan->width * load->weight;
}

/* With one slot more a is less full than b would be. */
static bool plan_emptier(const struct plan_load *a, const struct plan_load *b)
{
        return (uint64_t)(a->slots + 1) * b->weight < (uint64_t)(b->slots + 1) * a->weight;
}

static uint64_t plan_hash(uint32_t pool, uint64_t id)
{
        return eng_hash(&id, sizeof(id), pool);
}

struct plan_best {
        uint32_t at;
        const struct plan_load *load;
        uint64_t hash;
        bool under;
};

/* Those that have less than their share first, of these the least full ones. */
static void plan_better(const struct plan_work *w, struct plan_best *best, uint32_t at, const struct plan_load *load, uint64_t hash)
{
        bool under = plan_under_share(w, load), better;

        if (load->free == 0 || load->weight == 0)
                return;
        if (best->load == NULL || under != best->under)
                better = best->load == NULL || under;
        else if (plan_emptier(load, best->load) || plan_emptier(best->load, load))
                better = plan_emptier(load, best->load);
        else
                better = hash > best->hash;
        if (better)
                *best = (struct plan_best){.at = at, .load = load, .hash = hash, .under = under};
}

/* A drive for one more slot of the pool that is looked at; ENG_PLAN_NONE: each has one. */
static uint32_t plan_choose(const struct plan_work *w, uint32_t pool)
{
        const struct eng_plan *plan = w->plan;
        struct plan_best rack = {0}, node = {0}, drive = {0};
        uint32_t i;

        for (i = 0; i < plan->rack_count; i++)
                plan_better(w, &rack, i, &w->racks[i], plan_hash(pool, i));
        if (rack.load == NULL)
                return ENG_PLAN_NONE;
        for (i = w->first_node[rack.at]; i < w->first_node[rack.at + 1]; i++)
                plan_better(w, &node, w->by_rack[i], &w->nodes[w->by_rack[i]], plan_hash(pool, plan->nodes[w->by_rack[i]].id));
        for (i = w->first[node.at]; i < w->first[node.at + 1]; i++)
                plan_better(w, &drive, w->by_node[i], &w->drives[w->by_node[i]], plan_hash(pool, plan->drives[w->by_node[i]].id));
        assert(node.load != NULL && drive.load != NULL); /* a rack with a free drive has it on a node */
        return drive.at;
}

static void plan_fill(struct plan_work *w)
{
        struct eng_plan *plan = w->plan;
        uint32_t pool, i;

        for (pool = 0; pool < plan->pool_count; pool++) {
                uint32_t *slots = plan->slots + (size_t)pool * plan->width;

                plan_look_at(w, pool);
                for (i = 0; i < plan->width; i++) {
                        uint32_t old = slots[i];

                        if (old != ENG_PLAN_NONE && plan_takes(plan, old))
                                continue;
                        slots[i] = plan_choose(w, pool);
                        if (slots[i] == ENG_PLAN_NONE) {
                                slots[i] = old; /* better there than nowhere: it is still being drained */
                                plan->unfilled += old == ENG_PLAN_NONE;
                                continue;
                        }
                        if (old != ENG_PLAN_NONE)
                                plan_count(w, old, -1, true);
                        plan_count(w, slots[i], 1, true);
                        plan->moved += old != ENG_PLAN_NONE;
                }
        }
}

/* ---- from fuller drives to emptier ones ------------------------------------------------------ */

/* A slot of the pool may go from one drive to another: no node or rack gets more than its share that has it now. */
static bool plan_may_move(struct plan_work *w, uint32_t pool, uint32_t from, uint32_t to)
{
        const struct eng_plan *plan = w->plan;
        uint32_t i, on_node = 0, in_rack = 0, drive;
        struct plan_load node = w->nodes[plan->drives[to].node], rack = w->racks[plan_rack(plan, to)];

        for (i = 0; i < plan->width; i++) {
                drive = plan->slots[(size_t)pool * plan->width + i];
                if (drive == to)
                        return false;
                if (drive == ENG_PLAN_NONE || drive == from)
                        continue;
                on_node += plan->drives[drive].node == plan->drives[to].node;
                in_rack += plan_rack(plan, drive) == plan_rack(plan, to);
        }
        node.mine = on_node;
        rack.mine = in_rack;
        return (plan->drives[from].node == plan->drives[to].node || plan_under_share(w, &node)) &&
               (plan_rack(plan, from) == plan_rack(plan, to) || plan_under_share(w, &rack));
}

static bool plan_move_one(struct plan_work *w, uint32_t from, uint32_t to)
{
        struct eng_plan *plan = w->plan;
        uint32_t i, best = ENG_PLAN_NONE;
        uint64_t hash, highest = 0;

        for (i = 0; i < plan->pool_count * plan->width; i++) {
                if (plan->slots[i] != from || !plan_may_move(w, i / plan->width, from, to))
                        continue;
                hash = plan_hash(i / plan->width, plan->drives[to].id);
                if (best == ENG_PLAN_NONE || hash > highest) {
                        best = i;
                        highest = hash;
                }
        }
        if (best == ENG_PLAN_NONE)
                return false;
        plan->slots[best] = to;
        plan->moved++;
        plan_count(w, from, -1, true);
        plan_count(w, to, 1, true);
        return true;
}

/* The fullest drive that would still be fuller than `to` with a slot more; tried[] are left out. */
static uint32_t plan_fullest(const struct plan_work *w, uint32_t to, const bool *tried)
{
        const struct plan_load *d = w->drives;
        uint32_t i, best = ENG_PLAN_NONE;

        for (i = 0; i < w->plan->drive_count; i++) {
                if (tried[i] || d[i].weight == 0 || (uint64_t)d[i].slots * d[to].weight <= (uint64_t)(d[to].slots + 1) * d[i].weight)
                        continue;
                if (best == ENG_PLAN_NONE || (uint64_t)d[i].slots * d[best].weight > (uint64_t)d[best].slots * d[i].weight)
                        best = i;
        }
        return best;
}

/*
 * Until nothing can be bettered. Each move takes a slot from a drive that is fuller than any of the
 * two is afterwards, so no state comes twice.
 */
static int plan_even_out(struct plan_work *w)
{
        const struct eng_plan *plan = w->plan;
        bool *tried = malloc(plan->drive_count + 1);
        uint32_t to, from, moved;

        if (tried == NULL)
                return -ENOMEM;
        do {
                moved = plan->moved;
                for (to = 0; to < plan->drive_count; to++) {
                        if (!plan_takes(plan, to))
                                continue;
                        memset(tried, 0, plan->drive_count + 1);
                        while ((from = plan_fullest(w, to, tried)) != ENG_PLAN_NONE)
                                if (!plan_move_one(w, from, to))
                                        tried[from] = true;
                }
        } while (moved != plan->moved);
        free(tried);
        return 0;
}

/* ---- leaders --------------------------------------------------------------------------------- */

static bool plan_may_lead(const struct eng_plan *plan, uint32_t pool, uint32_t node)
{
        uint32_t i;

        for (i = 0; i < plan->width; i++) {
                uint32_t drive = plan->slots[(size_t)pool * plan->width + i];

                if (drive != ENG_PLAN_NONE && plan->drives[drive].node == node)
                        return plan->nodes[node].takes;
        }
        return false;
}

/* Of the nodes that may lead it, the one that leads the fewest; ENG_PLAN_NONE: none may. */
static uint32_t plan_least_led(const struct plan_work *w, uint32_t pool)
{
        const struct eng_plan *plan = w->plan;
        uint32_t i, best = ENG_PLAN_NONE;

        for (i = 0; i < plan->width; i++) {
                uint32_t drive = plan->slots[(size_t)pool * plan->width + i], node;

                if (drive == ENG_PLAN_NONE || !plan->nodes[plan->drives[drive].node].takes)
                        continue;
                node = plan->drives[drive].node;
                if (best == ENG_PLAN_NONE || w->led[node] < w->led[best] ||
                    (w->led[node] == w->led[best] && plan_hash(pool, plan->nodes[node].id) > plan_hash(pool, plan->nodes[best].id)))
                        best = node;
        }
        return best;
}

static void plan_lead(struct plan_work *w, uint32_t pool, uint32_t node)
{
        struct eng_plan *plan = w->plan;

        if (plan->leaders[pool] != ENG_PLAN_NONE)
                w->led[plan->leaders[pool]]--;
        plan->leaders[pool] = node;
        w->led[node]++;
}

/*
 * A node for the pool that leads less than the bound, by other pools' leaders going elsewhere: a
 * matching. Each node is entered once, so it ends.
 */
static bool plan_find_leader(struct plan_work *w, uint32_t pool)
{
        const struct eng_plan *plan = w->plan;
        uint32_t node = plan_least_led(w, pool), i, other;

        if (node == ENG_PLAN_NONE)
                return false;
        if (w->led[node] < w->most_led) {
                plan_lead(w, pool, node);
                return true;
        }
        for (i = 0; i < plan->width; i++) {
                uint32_t drive = plan->slots[(size_t)pool * plan->width + i];

                node = drive == ENG_PLAN_NONE ? ENG_PLAN_NONE : plan->drives[drive].node;
                if (node == ENG_PLAN_NONE || w->seen[node] || !plan->nodes[node].takes)
                        continue;
                w->seen[node] = true;
                for (other = 0; other < plan->pool_count; other++) {
                        if (other == pool || plan->leaders[other] != node || !plan_find_leader(w, other))
                                continue;
                        plan_lead(w, pool, node);
                        return true;
                }
        }
        return false;
}

static void plan_choose_leaders(struct plan_work *w, const uint32_t *before)
{
        struct eng_plan *plan = w->plan;
        uint32_t i, node, takers = 0;

        for (i = 0; i < plan->node_count; i++)
                takers += plan->nodes[i].takes && w->nodes[i].weight > 0;
        w->most_led = takers == 0 ? 1 : (2 * plan->pool_count + takers - 1) / takers;
        for (i = 0; i < plan->pool_count; i++) { /* those that are well where they are stay */
                node = plan->leaders[i];
                plan->leaders[i] = ENG_PLAN_NONE;
                if (node != ENG_PLAN_NONE && plan_may_lead(plan, i, node) && w->led[node] < w->most_led)
                        plan_lead(w, i, node);
        }
        for (i = 0; i < plan->pool_count; i++) {
                if (plan->leaders[i] != ENG_PLAN_NONE)
                        continue;
                memset(w->seen, 0, plan->node_count * sizeof(w->seen[0]));
                if (plan_find_leader(w, i))
                        continue;
                node = plan_least_led(w, i);
                if (node != ENG_PLAN_NONE)
                        plan_lead(w, i, node);
        }
        for (i = 0; i < plan->pool_count; i++)
                plan->led_elsewhere += before[i] != ENG_PLAN_NONE && before[i] != plan->leaders[i];
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void plan_count_all(struct plan_work *w)
{
        uint32_t i;

        for (i = 0; i < w->plan->pool_count * w->plan->width; i++)
                if (w->plan->slots[i] != ENG_PLAN_NONE)
                        plan_count(w, w->plan->slots[i], 1, true);
}

int eng_plan_pools(struct eng_plan *plan)
{
        const size_t size = (size_t)plan->pool_count * plan->width * sizeof(plan->slots[0]);
        uint32_t *slots = malloc(size + 1), *leaders = malloc(plan->pool_count * sizeof(*leaders) + 1);
        struct plan_work w = {0};
        int rv = plan_check(plan);

        if (rv == 0)
                rv = slots == NULL || leaders == NULL ? -ENOMEM : plan_work_make(&w, plan);
        if (rv == 0) {
                memcpy(slots, plan->slots, size);
                memcpy(leaders, plan->leaders, plan->pool_count * sizeof(*leaders));
                plan->moved = plan->led_elsewhere = plan->unfilled = 0;
                plan_count_all(&w);
                plan_fill(&w);
                rv = plan_even_out(&w);
                if (rv == 0)
                        plan_choose_leaders(&w, leaders);
                else
                        memcpy(plan->slots, slots, size);
        }
        plan_work_free(&w);
        free(slots);
        free(leaders);
        return rv;
}
