/*
 * pool_plan.h - which drives the slots of a cluster's pools lie on, and which node leads each pool:
 * a function over values. Any thread. Made for 50 racks, 1,000 nodes, 10,000 drives, 1,000 pools.
 */
#ifndef MILLRACE_ENGINE_POOL_PLAN_H
#define MILLRACE_ENGINE_POOL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define ENG_PLAN_NONE UINT32_MAX

struct eng_plan_node {
        uint64_t id;                   /* the same for ever */
        uint32_t rack;                 /* from 0 on */
        bool takes;                    /* false: it is drained or gone: what it has goes elsewhere */
};

/* A file system: no pool has two slots on one. */
struct eng_plan_drive {
        uint64_t id;                   /* the same for ever */
        uint32_t node;                 /* index of its node */
        uint32_t weight;               /* its share of slots goes by it: bytes, in any unit. 0: as of a node that does not take */
};

struct eng_plan {
        /* in */
        const struct eng_plan_node *nodes;
        const struct eng_plan_drive *drives;
        uint32_t node_count, rack_count, drive_count, pool_count;
        uint32_t width;                /* slots of each pool */
        /* in and out */
        uint32_t *slots;               /* pool_count x width: the index of a drive; ENG_PLAN_NONE: none yet, or none could be found */
        uint32_t *leaders;             /* pool_count: the index of a node, or ENG_PLAN_NONE */
        /* out */
        uint32_t moved, led_elsewhere; /* slots, and leaders, that were elsewhere before */
        uint32_t unfilled;             /* slots without a drive */
};

/*
 * Changes slots and leaders into what should be, and as little as it can:
 * - slots on drives that take none go elsewhere, and slots without a drive get one;
 * - slots move from fuller drives to emptier ones while that makes them more alike;
 * - a rack, or a node, has no more than its share of a pool's slots, rounded up, as long as others
 *   have room;
 * - a pool is led by a node that has slots of it, and no node leads more than twice the mean,
 *   rounded up, unless there is no other choice of leaders.
 * The same input gives the same output. -ENOMEM, -EINVAL (an index is out of range); nothing has
 * changed then.
 */
int eng_plan_pools(struct eng_plan *plan);

#endif
