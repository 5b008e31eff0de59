/*
 * The order in which a group takes slots that lie on nodes and in racks: what it promises, tried on
 * random sites; codes over nodes, tried by losing every set of nodes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "engine/placement/place.h"

static uint64_t seed;

static unsigned below(unsigned n)
{
        seed = eng_hash(&seed, sizeof(seed), 1);
        return (unsigned)(seed % n);
}

/* Slots, where they lie, and the order of one group. */
struct pool {
        unsigned count;
        struct eng_site sites[ENG_DRIVES_MAX];
        struct eng_domains domains;
        const struct eng_domains *told; /* what the placement is given */
        uint16_t order[ENG_DRIVES_MAX];
};

static void order_of(struct pool *pool, uint32_t group)
{
        uint8_t ids[ENG_DRIVES_MAX][FMT_ID] = {{0}};
        unsigned i;

        for (i = 0; i < pool->count; i++)
                memcpy(ids[i], &i, sizeof(i));
        eng_place_order(group, (const uint8_t(*)[FMT_ID])ids, pool->count, pool->order);
}

static void tell(struct pool *pool)
{
        pool->told = eng_domains_make(&pool->domains, pool->sites, pool->count) ? &pool->domains : NULL;
}

/* Nodes of any size, some of one slot, in racks of any size. */
static void make_pool(struct pool *pool, unsigned count, unsigned nodes, unsigned racks)
{
        unsigned i;

        memset(pool, 0, sizeof(*pool));
        pool->count = count;
        for (i = 0; i < count; i++) {
                pool->sites[i].node = (uint16_t)(1 + below(nodes));
                pool->sites[i].rack = (uint16_t)(pool->sites[i].node % racks);
        }
        tell(pool);
        order_of(pool, below(1u << 30));
}

static eng_mask some_of(unsigned count)
{
        eng_mask mask = 0;
        unsigned i;

        for (i = 0; i < count; i++)
                mask |= below(4) != 0 ? eng_bit(i) : 0;
        return mask;
}

/* As it was before there were nodes. */
static void filter(const struct pool *pool, eng_mask in, unsigned shards, uint16_t *out)
{
        unsigned i, n = 0;

        for (i = 0; i < pool->count && n < shards; i++)
                if (in & eng_bit(pool->order[i]))
                        out[n++] = pool->order[i];
        while (n < shards)
                out[n++] = ENG_NO_DRIVE;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_without_domains_nothing_changes(void **state)
{
        uint16_t is[ENG_DRIVES_MAX], was[ENG_DRIVES_MAX];
        struct eng_domains all;
        struct pool pool;
        unsigned i, j, shape, n;
        eng_mask in;

        for (i = 0; i < 4000; i++) {
                make_pool(&pool, 1 + below(ENG_DRIVES_MAX), 1, 1);
                shape = i % 4;
                for (j = 0; j < pool.count; j++) {
                        pool.sites[j].node = (uint16_t)(shape == 0 ? 7 : j + 1);
                        pool.sites[j].rack = (uint16_t)(shape == 2 ? 3 : j);
                }
                pool.told = eng_domains_make(&all, pool.sites, pool.count) ? &all : NULL;
                assert_int_equal(pool.told == NULL, shape == 0 || pool.count == 1);
                if (shape == 0)
                        pool.told = &all; /* told all the same, it makes no difference */
                if (shape == 3)
                        pool.told = NULL;
                in = some_of(pool.count);
                n = 1 + below(ENG_DRIVES_MAX);
                filter(&pool, in, n, was);
                eng_place_shards(pool.order, pool.count, in, pool.told, n, is);
                assert_memory_equal(is, was, n * sizeof(is[0]));
        }
}

/* The least that the fullest domain can have where n slots are taken of domains of these sizes. */
static unsigned least_most(const eng_mask *domain, eng_mask in, unsigned n)
{
        unsigned most, sum;
        eng_mask left;

        for (most = 1; most <= n; most++) {
                for (sum = 0, left = in; left != 0; left &= ~domain[__builtin_ctzll(left)]) {
                        unsigned size = (unsigned)__builtin_popcountll(in & domain[__builtin_ctzll(left)]);

                        sum += size < most ? size : most;
                }
                if (sum >= n)
                        break;
        }
        return most;
}

static unsigned most_in(const eng_mask *domain, eng_mask taken)
{
        unsigned most = 0;
        eng_mask left;

        for (left = taken; left != 0; left &= left - 1) {
                unsigned n = (unsigned)__builtin_popcountll(taken & domain[__builtin_ctzll(left)]);

                most = n > most ? n : most;
        }
        return most;
}

static void test_spread(void **state)
{
        struct pool pool;
        eng_mask in, taken;
        unsigned i, n, racks;

        for (i = 0; i < 20000; i++) {
                make_pool(&pool, 2 + below(40), 1 + below(16), 1 + below(6));
                in = some_of(pool.count);
                n = 1 + below(12);
                if (pool.told == NULL || (unsigned)__builtin_popcountll(in) < n)
                        continue;
                taken = eng_place_set(pool.order, pool.count, in, pool.told, n);
                assert_int_equal(__builtin_popcountll(taken), n);
                assert_int_equal(taken & ~in, 0);
                assert_true(most_in(pool.domains.node, taken) <= least_most(pool.domains.node, in, n));
                for (racks = 0; in != 0; racks++)
                        in &= ~pool.domains.rack[__builtin_ctzll(in)];
                if (n <= racks)
                        assert_int_equal(most_in(pool.domains.rack, taken), 1);
        }
}

/* What is taken of slots with one more comes from that one and those taken before. */
static void test_one_more_slot_moves_nothing_else(void **state)
{
        struct pool pool;
        eng_mask in, with, without;
        unsigned i, x, n, changed = 0;

        for (i = 0; i < 200000; i++) {
                make_pool(&pool, 2 + below(24), 1 + below(8), 1 + below(4));
                x = below(pool.count);
                in = some_of(pool.count) & ~eng_bit(x);
                n = 1 + below(11);
                without = eng_place_set(pool.order, pool.count, in, pool.told, n);
                with = eng_place_set(pool.order, pool.count, in | eng_bit(x), pool.told, n);
                assert_int_equal(with & ~without & ~eng_bit(x), 0);
                assert_true(__builtin_popcountll(without & ~with) <= 1);
                changed += with != without;
        }
        assert_in_range(changed, 1000, 199000);
}

/* Slots of racks and nodes of the same size are taken alike often. */
static void test_even(void **state)
{
        unsigned took[ENG_DRIVES_MAX] = {0}, i, n;
        struct pool pool = {.count = 24};
        eng_mask set;

        for (i = 0; i < pool.count; i++) {
                pool.sites[i].node = (uint16_t)(1 + i / 3);
                pool.sites[i].rack = (uint16_t)(i / 6);
        }
        tell(&pool);
        for (i = 0; i < 8000; i++) {
                order_of(&pool, i);
                set = eng_place_set(pool.order, pool.count, eng_all_slots(pool.count), pool.told, 6);
                for (n = 0; n < pool.count; n++)
                        took[n] += (set & eng_bit(n)) != 0;
        }
        for (i = 0; i < pool.count; i++)
                assert_in_range(took[i], 1800, 2200); /* of 2,000: four standard deviations and more */
}

static void test_domains(void **state)
{
        struct eng_site sites[6] = {{1, 5}, {2, 5}, {1, 6}, {3, 6}, {0, 0}, {0, 6}};
        struct eng_domains d;

        assert_true(eng_domains_make(&d, sites, 6));
        assert_int_equal(d.node[0], 0x05);
        assert_int_equal(d.node[2], 0x05);
        assert_int_equal(d.rack[2], 0x07); /* where its node's first slot says */
        assert_int_equal(d.rack[1], 0x07);
        assert_int_equal(d.rack[3], 0x08);
        assert_int_equal(d.node[4], 0x30);
        assert_int_equal(d.rack[5], 0x30);
        assert_false(eng_domains_make(&d, sites, 1));
        assert_false(eng_domains_make(&d, sites, 0));
        assert_false(eng_domains_make(&d, sites + 4, 2));
}

static void test_next(void **state)
{
        struct pool pool;
        uint16_t slot;
        unsigned i;

        for (i = 0; i < 2000; i++) {
                eng_mask fit, have;

                make_pool(&pool, 1 + below(20), 1 + below(8), 1 + below(3));
                fit = some_of(pool.count);
                have = some_of(pool.count);
                slot = eng_place_next(pool.order, pool.count, fit, pool.told, have);
                if ((fit & ~have) == 0)
                        assert_int_equal(slot, ENG_NO_DRIVE);
                else
                        assert_true((fit & ~have & eng_bit(slot)) != 0);
        }
}

static void test_violations(void **state)
{
        struct eng_site sites[8] = {{1, 1}, {1, 1}, {1, 1}, {2, 1}, {2, 1}, {3, 2}, {4, 2}, {5, 2}};
        static const struct {
                uint16_t drives[6];
                unsigned m, fail, is;
        } cases[] = {
                {{0, 1, 3, 4, 5, 6}, 2, 1, 0}, {{0, 1, 2, 4, 5, 6}, 2, 1, 1},
                {{0, 1, 3, 4, 5, 6}, 2, 2, 2}, {{0, 1, 2, ENG_NO_DRIVE, 3, 4}, 1, 1, 3},
                {{0, 3, 5, 6, 7, ENG_NO_DRIVE}, 1, 1, 0}, {{0, 3, 5, 6, 7, ENG_NO_DRIVE}, 1, 2, 5},
        };
        struct eng_domains d;
        size_t i;

        assert_true(eng_domains_make(&d, sites, 8));
        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_int_equal(eng_place_violations(&d, cases[i].drives, 6, cases[i].m, cases[i].fail), cases[i].is);
                assert_int_equal(eng_place_violations(NULL, cases[i].drives, 6, cases[i].m, cases[i].fail), 0);
        }
}

/* What is lost with the fullest nodes: an eleven of 8+3 is no safer on nine nodes than on eight, and is on eleven. */
static void test_worst(void **state)
{
        struct eng_site sites[22];
        struct eng_domains d;
        uint16_t order[22], drives[11];
        unsigned i, nodes;

        for (i = 0; i < 22; i++) {
                sites[i] = (struct eng_site){.node = (uint16_t)(i % 11 + 1), .rack = 1};
                order[i] = (uint16_t)i;
        }
        assert_true(eng_domains_make(&d, sites, 22));
        for (nodes = 8; nodes <= 11; nodes++) {
                eng_mask fit = 0;

                for (i = 0; i < 22; i++)
                        fit |= i % 11 < nodes ? eng_bit(i) : 0;
                assert_int_equal(eng_place_shards(order, 22, fit, &d, 11, drives), 11);
                assert_int_equal(eng_place_worst(&d, drives, 11, 1), nodes == 11 ? 1 : 2);
                assert_int_equal(eng_place_worst(&d, drives, 11, 2), nodes == 11 ? 2 : nodes == 10 ? 3 : 4);
                assert_int_equal(eng_place_worst(&d, drives, 11, 30), 11);
        }
        drives[0] = ENG_NO_DRIVE;
        assert_int_equal(eng_place_worst(&d, drives, 11, 30), 10);
        assert_int_equal(eng_place_worst(NULL, drives, 11, 2), 0);
}

/* Every set of `fail` nodes is lost, in turn: what the rules for codes say is left, is. */
static void lose_nodes(struct pool *pool, unsigned k, unsigned m, unsigned fail)
{
        unsigned a, b;

        for (a = 0; a < pool->count; a++) {
                for (b = 0; b < pool->count; b++) {
                        eng_mask lost = pool->domains.node[a] | (fail == 2 ? pool->domains.node[b] : 0), all = eng_all_slots(pool->count);
                        eng_mask shards = eng_place_set(pool->order, pool->count, all, pool->told, k + m);
                        eng_mask copies = eng_place_set(pool->order, pool->count, all, pool->told, m + 1);

                        assert_true(__builtin_popcountll(shards & lost) <= (int)m);
                        assert_true(__builtin_popcountll(copies & ~lost) >= 2);
                        assert_true(__builtin_popcountll(all & ~lost) >= (int)k + 1);
                }
        }
}

static void test_codes_survive_nodes(void **state)
{
        struct pool pool;
        unsigned nodes, each, i, k, m, found = 0;

        for (nodes = 1; nodes <= 16; nodes++) {
                for (each = 1; each <= 4; each++) {
                        if (!eng_code_for_nodes(nodes, nodes * each, &k, &m)) {
                                assert_true(nodes < 3);
                                continue;
                        }
                        found++;
                        make_pool(&pool, nodes * each, 1, 1);
                        for (i = 0; i < pool.count; i++)
                                pool.sites[i] = (struct eng_site){.node = (uint16_t)(1 + i % nodes), .rack = (uint16_t)(i % nodes % 3)};
                        tell(&pool);
                        for (i = 0; i < 20; i++) {
                                order_of(&pool, below(1u << 30));
                                lose_nodes(&pool, k, m, eng_nodes_may_fail(nodes));
                        }
                }
        }
        assert_true(found > 50);
}

static void test_default_codes(void **state)
{
        static const struct {
                unsigned nodes, slots, k, m;
        } cases[] = {{3, 6, 3, 2},  {3, 8, 4, 2},   {3, 12, 6, 3}, {4, 12, 8, 3}, {4, 4, 2, 2},
                     {5, 5, 3, 2},  {6, 12, 8, 3},  {8, 32, 8, 3}, {9, 18, 6, 3}, {11, 22, 8, 3},
                     {12, 12, 8, 3}, {16, 32, 8, 3}};
        unsigned k, m;
        size_t i;

        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                assert_true(eng_code_for_nodes(cases[i].nodes, cases[i].slots, &k, &m));
                if (k != cases[i].k || m != cases[i].m)
                        print_message("%u nodes, %u slots: %u+%u\n", cases[i].nodes, cases[i].slots, k, m);
                assert_int_equal(k, cases[i].k);
                assert_int_equal(m, cases[i].m);
        }
        assert_false(eng_code_for_nodes(0, 0, &k, &m));
        assert_false(eng_code_for_nodes(2, 20, &k, &m));
        assert_false(eng_code_keeps(4, 2, 3, 5, 1)); /* fewer slots than shards */
        assert_false(eng_code_keeps(4, 2, 3, 6, 1)); /* four slots left, five wanted */
        assert_false(eng_code_keeps(4, 1, 6, 12, 1)); /* one copy left of two */
        assert_true(eng_code_keeps(4, 2, 6, 12, 1));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_domains_nothing_changes),
                cmocka_unit_test(test_spread),
                cmocka_unit_test(test_one_more_slot_moves_nothing_else),
                cmocka_unit_test(test_even),
                cmocka_unit_test(test_domains),
                cmocka_unit_test(test_next),
                cmocka_unit_test(test_violations),
                cmocka_unit_test(test_worst),
                cmocka_unit_test(test_codes_survive_nodes),
                cmocka_unit_test(test_default_codes),
        };
        const char *given = getenv("SEED");

        seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
        print_message("SEED=%llu\n", (unsigned long long)seed);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
