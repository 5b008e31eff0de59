/*
 * A cluster on paper: 50 racks, 1,000 nodes, 10,000 drives, 1,000 pools. How evenly pools lie, what
 * moves when it grows or shrinks, what is lost when drives, nodes and racks fail.
 */
#include <errno.h>
#include <math.h>
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
#include "engine/placement/pool_plan.h"

#define RACKS 50u
#define NODES 1001u /* the last is new */
#define EACH  10u   /* drives of a node */
#define POOLS 1000u
#define WIDTH 32u

static uint64_t seed;

static unsigned below(unsigned n)
{
        seed = eng_hash(&seed, sizeof(seed), 1);
        return (unsigned)((seed >> 16) % n);
}

static struct cluster {
        struct eng_plan_node nodes[NODES];
        struct eng_plan_drive drives[NODES * EACH];
        uint32_t slots[POOLS * WIDTH], leaders[POOLS];
        struct eng_plan plan;
} large;

static void make_cluster(struct cluster *c, unsigned nodes, unsigned racks, unsigned each, unsigned pools, unsigned width)
{
        unsigned i;

        memset(c, 0, sizeof(*c));
        for (i = 0; i < nodes; i++)
                c->nodes[i] = (struct eng_plan_node){.id = 1 + i, .rack = i % racks, .takes = true};
        for (i = 0; i < nodes * each; i++)
                c->drives[i] = (struct eng_plan_drive){.id = 1 + i, .node = i / each, .weight = 1};
        memset(c->slots, 0xff, sizeof(c->slots));
        memset(c->leaders, 0xff, sizeof(c->leaders));
        c->plan = (struct eng_plan){.nodes = c->nodes,
                                    .drives = c->drives,
                                    .node_count = nodes,
                                    .rack_count = racks,
                                    .drive_count = nodes * each,
                                    .pool_count = pools,
                                    .width = width,
                                    .slots = c->slots,
                                    .leaders = c->leaders};
}

static void make_large(unsigned nodes)
{
        make_cluster(&large, nodes, RACKS, EACH, POOLS, WIDTH);
        assert_int_equal(eng_plan_pools(&large.plan), 0);
        assert_int_equal(large.plan.unfilled, 0);
        assert_int_equal(large.plan.moved, 0);
        assert_int_equal(large.plan.led_elsewhere, 0);
}

/* Slots by drive, at most `most` and at least `least` on each that takes some; each pool's on drives of their own. */
static void check_spread(const struct eng_plan *plan, unsigned least, unsigned most)
{
        unsigned *load = calloc(plan->drive_count, sizeof(*load)), *last = calloc(plan->drive_count, sizeof(*last)), i;

        for (i = 0; i < plan->pool_count * plan->width; i++) {
                assert_true(plan->slots[i] < plan->drive_count);
                assert_int_not_equal(last[plan->slots[i]], i / plan->width + 1);
                last[plan->slots[i]] = i / plan->width + 1;
                load[plan->slots[i]]++;
        }
        for (i = 0; i < plan->drive_count; i++) {
                if (plan->drives[i].weight > 0 && plan->nodes[plan->drives[i].node].takes)
                        assert_in_range(load[i], least, most);
                else
                        assert_int_equal(load[i], 0);
        }
        free(load);
        free(last);
}

static void check_leaders(const struct eng_plan *plan, unsigned most)
{
        unsigned *led = calloc(plan->node_count, sizeof(*led)), i, j;

        for (i = 0; i < plan->pool_count; i++) {
                assert_true(plan->leaders[i] < plan->node_count);
                assert_true(plan->nodes[plan->leaders[i]].takes);
                for (j = 0; plan->drives[plan->slots[i * plan->width + j]].node != plan->leaders[i]; j++)
                        assert_true(j + 1 < plan->width);
                led[plan->leaders[i]]++;
        }
        for (i = 0; i < plan->node_count; i++)
                assert_in_range(led[i], 0, most);
        free(led);
}

/* The most slots of one pool on one node, or in one rack. */
static unsigned most_of_a_pool(const struct eng_plan *plan, bool rack)
{
        unsigned count[NODES], pool, i, at, most = 0;

        for (pool = 0; pool < plan->pool_count; pool++) {
                memset(count, 0, sizeof(count));
                for (i = 0; i < plan->width; i++) {
                        at = plan->drives[plan->slots[pool * plan->width + i]].node;
                        at = rack ? plan->nodes[at].rack : at;
                        most = ++count[at] > most ? count[at] : most;
                }
        }
        return most;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_even_and_apart(void **state)
{
        clock_t began = clock();

        make_large(NODES - 1);
        check_spread(&large.plan, 3, 4); /* 3.2 on average */
        check_leaders(&large.plan, 2);
        assert_int_equal(most_of_a_pool(&large.plan, false), 1);
        assert_int_equal(most_of_a_pool(&large.plan, true), 1);
        assert_int_equal(eng_plan_pools(&large.plan), 0); /* what is well stays */
        assert_int_equal(large.plan.moved + large.plan.led_elsewhere + large.plan.unfilled, 0);
        print_message("planned twice in %.2f s of processor time\n", (double)(clock() - began) / CLOCKS_PER_SEC);
}

static void test_a_node_comes(void **state)
{
        unsigned least = POOLS * WIDTH / NODES; /* its share */

        make_large(NODES - 1);
        large.plan.node_count = NODES;
        large.plan.drive_count = NODES * EACH;
        large.nodes[NODES - 1] = (struct eng_plan_node){.id = NODES, .rack = 7, .takes = true};
        for (unsigned i = (NODES - 1) * EACH; i < NODES * EACH; i++)
                large.drives[i] = (struct eng_plan_drive){.id = 1 + i, .node = NODES - 1, .weight = 1};
        assert_int_equal(eng_plan_pools(&large.plan), 0);
        print_message("%u slots moved, its share is %u; %u leaders\n", large.plan.moved, least, large.plan.led_elsewhere);
        assert_in_range(large.plan.moved, 1, least * 11 / 10);
        assert_true(large.plan.led_elsewhere <= 3); /* whose slot on the leader moved */
        check_spread(&large.plan, 3, 4);
        check_leaders(&large.plan, 2);
}

static void test_a_node_goes(void **state)
{
        unsigned i, had = 0;

        make_large(NODES - 1);
        for (i = 0; i < POOLS * WIDTH; i++)
                had += large.drives[large.slots[i]].node == 123;
        large.nodes[123].takes = false;
        assert_int_equal(eng_plan_pools(&large.plan), 0);
        assert_in_range(large.plan.moved, had, had * 11 / 10);
        check_spread(&large.plan, 3, 4);
        check_leaders(&large.plan, 2);
        assert_true(large.plan.led_elsewhere <= 4); /* what it led, and who makes room for that */
}

static void test_drives_of_any_size(void **state)
{
        static struct cluster c;
        unsigned i, load[60] = {0};

        make_cluster(&c, 12, 4, 5, 40, 18);
        for (i = 0; i < 60; i++)
                c.drives[i].weight = 1 + i % 5 % 3; /* of each node 1, 2, 3, 1, 2 */
        c.drives[7].weight = 0;
        assert_int_equal(eng_plan_pools(&c.plan), 0);
        assert_int_equal(c.plan.unfilled, 0);
        for (i = 0; i < 40 * 18; i++)
                load[c.slots[i]]++;
        assert_int_equal(load[7], 0);
        for (i = 0; i < 60; i++) /* 720 slots over a weight of 106: 6.8 each */
                assert_in_range(load[i], c.drives[i].weight * 5, c.drives[i].weight * 8 + 1);
        assert_true(most_of_a_pool(&c.plan, false) <= 2);
        assert_true(most_of_a_pool(&c.plan, true) <= 5);
}

/* Any small cluster: nothing is out of place, and nothing moves the second time. */
static void test_any(void **state)
{
        static struct cluster c;
        unsigned i, n, nodes, each, width;

        for (n = 0; n < 400; n++) {
                nodes = 1 + below(12);
                each = 1 + below(6);
                width = 1 + below(nodes * each < 20 ? nodes * each : 20);
                make_cluster(&c, nodes, 1 + below(4), each, 1 + below(20), width);
                for (i = 0; i < nodes * each; i++)
                        c.drives[i].weight = 1 + below(3) * below(2);
                assert_int_equal(eng_plan_pools(&c.plan), 0);
                check_spread(&c.plan, 0, c.plan.pool_count);
                assert_int_equal(eng_plan_pools(&c.plan), 0);
                assert_int_equal(c.plan.moved, 0);
                assert_int_equal(c.plan.led_elsewhere, 0);
                c.nodes[below(nodes)].takes = false; /* what it has goes elsewhere, as far as there is room */
                assert_int_equal(eng_plan_pools(&c.plan), 0);
                assert_int_equal(c.plan.unfilled, 0);
                for (i = 0; nodes > 1 && width <= (nodes - 1) * each && i < c.plan.pool_count * width; i++)
                        assert_true(c.nodes[c.drives[c.slots[i]].node].takes);
        }
}

/* Three nodes, two of which have slots of every pool: leaders that only a matching finds. */
static void test_leaders_make_room(void **state)
{
        static struct cluster c;
        static const uint32_t slots[] = {0, 1, 0, 1, 1, 2, 0, 2, 0, 2, 0, 2};

        make_cluster(&c, 3, 1, 1, 6, 2);
        memcpy(c.slots, slots, sizeof(slots));
        c.nodes[2].takes = true;
        c.leaders[0] = c.leaders[1] = 1;
        c.leaders[3] = c.leaders[4] = c.leaders[5] = 0;
        assert_int_equal(eng_plan_pools(&c.plan), 0);
        check_leaders(&c.plan, 4);
}

static void test_nonsense(void **state)
{
        static struct cluster c;

        make_cluster(&c, 3, 2, 2, 2, 4);
        c.nodes[1].rack = 2;
        assert_int_equal(eng_plan_pools(&c.plan), -EINVAL);
        make_cluster(&c, 3, 2, 2, 2, 4);
        c.drives[1].node = 3;
        assert_int_equal(eng_plan_pools(&c.plan), -EINVAL);
        make_cluster(&c, 3, 2, 2, 2, 4);
        c.slots[7] = 6;
        assert_int_equal(eng_plan_pools(&c.plan), -EINVAL);
        make_cluster(&c, 3, 2, 2, 2, 4);
        c.leaders[1] = 3;
        assert_int_equal(eng_plan_pools(&c.plan), -EINVAL);
        make_cluster(&c, 2, 1, 1, 1, 4); /* more slots than drives */
        assert_int_equal(eng_plan_pools(&c.plan), 0);
        assert_int_equal(c.plan.unfilled, 2);
        make_cluster(&c, 0, 0, 0, 3, 2);
        assert_int_equal(eng_plan_pools(&c.plan), 0);
        assert_int_equal(c.plan.unfilled, 6);
        assert_int_equal(c.leaders[0], ENG_PLAN_NONE);
}

/* ---- what is lost ---------------------------------------------------------------------------- */

/* Some pool has more than m slots on these drives. */
static bool loses(const struct eng_plan *plan, const bool *failed, unsigned m)
{
        unsigned pool, i, n;

        for (pool = 0; pool < plan->pool_count; pool++) {
                for (i = n = 0; i < plan->width; i++)
                        n += failed[plan->slots[pool * plan->width + i]];
                if (n > m)
                        return true;
        }
        return false;
}

/* How likely one pool of `width` among `drives` has more than m of the `failed`. */
static double chance_of_one(unsigned drives, unsigned width, unsigned failed, unsigned m)
{
        double p = 0, term;
        unsigned n;

        for (n = m + 1; n <= width && n <= failed; n++) {
                term = lgamma(width + 1) - lgamma(n + 1) - lgamma(width - n + 1) + lgamma(drives - width + 1) - lgamma(failed - n + 1) -
                       lgamma(drives - width - failed + n + 1) - lgamma(drives + 1) + lgamma(failed + 1) + lgamma(drives - failed + 1);
                p += exp(term);
        }
        return p;
}

/*
 * Drives fail at random while others are rebuilt: with 8+3 the pools lose about as often as if each
 * had its drives at random. So a plan that spreads loads does not make losses likelier.
 */
static void test_loss_by_drives(void **state)
{
        static bool failed[NODES * EACH];
        unsigned trial, i, lost = 0, drives = (NODES - 1) * EACH, trials = 400, most = 60;
        double expected = 1 - pow(1 - chance_of_one(drives, WIDTH, most, 3), POOLS);

        make_large(NODES - 1);
        for (trial = 0; trial < trials; trial++) {
                memset(failed, 0, sizeof(failed));
                for (i = 0; i < most;) {
                        unsigned at = below(drives);

                        i += !failed[at];
                        failed[at] = true;
                }
                lost += loses(&large.plan, failed, 3);
        }
        print_message("%u of 10,000 drives at once: a pool loses data in %.3f of cases; at random %.3f\n", most, (double)lost / trials, expected);
        assert_true(fabs((double)lost / trials - expected) < 5 * sqrt(expected * (1 - expected) / trials) + 0.01);
}

/* Any three racks at once lose nothing: a pool has one slot in each. */
static void test_loss_by_racks(void **state)
{
        static bool failed[NODES * EACH];
        unsigned trial, i, racks[3];

        make_large(NODES - 1);
        for (trial = 0; trial < 200; trial++) {
                for (i = 0; i < 3; i++)
                        racks[i] = below(RACKS);
                for (i = 0; i < large.plan.drive_count; i++) {
                        unsigned rack = large.nodes[large.drives[i].node].rack;

                        failed[i] = rack == racks[0] || rack == racks[1] || rack == racks[2];
                }
                assert_false(loses(&large.plan, failed, 3));
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_even_and_apart),   cmocka_unit_test(test_a_node_comes),      cmocka_unit_test(test_a_node_goes),
                cmocka_unit_test(test_drives_of_any_size), cmocka_unit_test(test_any),             cmocka_unit_test(test_leaders_make_room),
                cmocka_unit_test(test_nonsense),         cmocka_unit_test(test_loss_by_drives),    cmocka_unit_test(test_loss_by_racks),
        };
        const char *given = getenv("SEED");

        seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
        print_message("SEED=%llu\n", (unsigned long long)seed);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
