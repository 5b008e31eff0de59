/*
 * new_pool.c - the first epoch of a new store or pool: its code, and the body of its EPOCH record. Functions over
 * values; any thread.
 */
#include "engine_folder.h"

#include "ec.h"
#include "engine/base/store.h"
#include "engine/drive/identity.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- the code -------------------------------------------------------------------------------- */

/* Defaults by number of drives. */
static void default_code(unsigned drives, unsigned *k, unsigned *m)
{
        static const struct {
                unsigned drives, k, m;
        } table[] = {{1, 1, 0}, {2, 1, 1}, {3, 2, 1}, {4, 2, 2}, {6, 4, 2}, {8, 6, 2}, {12, 8, 3}};
        unsigned i;

        for (i = 0; i < sizeof(table) / sizeof(table[0]) && table[i].drives <= drives; i++) {
                *k = table[i].k;
                *m = table[i].m;
        }
}

/* Of a pool over nodes. 0 where the drives are all of one node. */
static unsigned count_nodes(const struct eng_new_pool *pool)
{
        struct eng_domains domains;

        if (pool->sites == NULL || !eng_domains_make(&domains, pool->sites, pool->count))
                return 0;
        return eng_domains_count(domains.node, eng_all_slots(pool->count));
}

static int choose_code(const struct eng_new_pool *pool, unsigned *k, unsigned *m, struct eng_error *error)
{
        unsigned nodes = count_nodes(pool);

        if (nodes == 0)
                default_code(pool->count, k, m);
        else if (!eng_code_for_nodes(nodes, pool->count, k, m))
                return eng_error_set(error, -EINVAL, "no erasure code survives the loss of %u of %u nodes with %u drives: ec must be given",
                                     eng_nodes_may_fail(nodes), nodes, pool->count);
        return 0;
}

static int check_code(const struct eng_new_pool *pool, unsigned k, unsigned m, struct eng_error *error)
{
        if (k < 1 || k > ERA_MAX_K || m > ERA_MAX_M)
                return eng_error_set(error, -EINVAL, "ec %u+%u: between 1+0 and %u+%u is possible", k, m, ERA_MAX_K,
                                     ERA_MAX_M);
        if (k + m > pool->count)
                return eng_error_set(error, -EINVAL, "ec %u+%u needs %u drives, %u are given", k, m, k + m,
                                     pool->count);
        return 0;
}

/* ---- the body -------------------------------------------------------------------------------- */

_Static_assert(FMT_EPOCH_MAX(ENG_DRIVES_MAX) <= ENG_EPOCH_BODY_MAX, "any epoch has room");

int eng_pool_make(const struct eng_new_pool *pool, uint8_t body[ENG_EPOCH_BODY_MAX], size_t *len, struct eng_error *error)
{
        struct fmt_epoch epoch = {.number = 1, .pg_count = ENG_PG_COUNT, .drives = (uint16_t)pool->count};
        struct fmt_epoch_tail tail = {.size = sizeof(tail)};
        uint8_t *places = body + sizeof(epoch) + pool->count * sizeof(struct fmt_epoch_drive);
        unsigned k = pool->k, m = pool->m, i;
        int rv;

        if (pool->count == 0 || pool->count > ENG_DRIVES_MAX)
                return eng_error_set(error, -EINVAL, "%u drives: between 1 and %u are possible", pool->count, ENG_DRIVES_MAX);
        rv = k + m == 0 ? choose_code(pool, &k, &m, error) : 0;
        if (rv == 0)
                rv = check_code(pool, k, m, error);
        if (rv != 0)
                return rv;
        epoch.k = (uint8_t)k;
        epoch.m = (uint8_t)m;
        lp_random(epoch.id, FMT_ID);
        memcpy(body, &epoch, sizeof(epoch));
        for (i = 0; i < pool->count; i++) {
                struct fmt_epoch_drive d = {.in = FMT_EPOCH_IN};

                memcpy(d.drive_id, pool->drive_ids[i], FMT_ID);
                if (pool->sites != NULL && eng_site_given(&pool->sites[i])) {
                        d.node = pool->sites[i].node;
                        d.rack = pool->sites[i].rack;
                        tail.must = FMT_EPOCH_MUST_SITES;
                }
                memcpy(body + sizeof(epoch) + i * sizeof(d), &d, sizeof(d));
                memcpy(places + (size_t)i * FMT_ID, d.drive_id, FMT_ID);
        }
        memcpy(body + FMT_EPOCH_PLACED(pool->count), &tail, sizeof(tail));
        *len = FMT_EPOCH_PLACED(pool->count) + sizeof(tail);
        return 0;
}
