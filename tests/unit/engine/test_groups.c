/*
 * Who may go on, by groups: the rule over all sets of a few slots, and a store over three nodes that
 * loses one, which by the number of its drives it could not.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/store.h"
#include "tests/lib/store_fixture.h"

static uint64_t seed;

static unsigned below(unsigned n)
{
        seed = eng_hash(&seed, sizeof(seed), 1);
        return (unsigned)((seed >> 16) % n);
}

/* ---- the rule -------------------------------------------------------------------------------- */

#define GROUPS 24u

/* A pool of up to nine slots; m + 1 copies of each group. */
static struct eng_placement *make_map(unsigned slots, unsigned nodes, unsigned m)
{
        struct eng_placement_slots s = {.count = slots, .pg_count = GROUPS, .replicas = m + 1};
        unsigned i;

        for (i = 0; i < slots; i++) {
                s.ids[i][0] = (uint8_t)i;
                s.ids[i][1] = (uint8_t)below(256);
                s.sites[i].node = (uint16_t)(1 + i % nodes);
        }
        return eng_placement_make(&s);
}

/* By its words: a current member of each group is in, and more than half of those before. */
static bool by_the_words(const struct eng_placement *map, eng_mask next, eng_mask prev)
{
        unsigned i, slot, current, of = 0, both = 0;

        for (slot = 0; slot < map->drives; slot++) {
                of += prev >> slot & 1;
                both += prev >> slot & next >> slot & 1;
        }
        if (of == both && of > 0)
                return true;
        for (i = 0; i < map->group_count; i++) {
                for (current = slot = 0; slot < map->drives; slot++)
                        current += map->groups[i].before >> slot & next >> slot & 1;
                if (current == 0)
                        return false;
        }
        return 2 * both > of;
}

static void test_every_set(void **state)
{
        unsigned round, slots, k, m;
        eng_mask next, prev;

        for (round = 0; round < 60; round++) {
                struct eng_placement *map;
                unsigned formed = 0;

                slots = 3 + round % 6;
                m = 1 + below(3);
                map = make_map(slots, 1 + below(slots), m);
                k = slots > m ? 1 + below(slots - m) : 1;
                assert_true(map->by_groups);
                for (prev = 1; prev <= eng_all_slots(slots); prev++) {
                        for (next = 0; next <= eng_all_slots(slots); next++) {
                                bool can = eng_placement_can_form(map, next, prev, 0, k, m);

                                assert_int_equal(can, by_the_words(map, next, prev));
                                formed += can;
                                if ((next & ~prev) != 0 || (prev & ~next) == 0)
                                        continue;
                                if (eng_epoch_can_form(next, prev, slots, k, m)) /* it asks for no more than the rule by number */
                                        assert_true(can);
                                if (can) /* nor can those left out go on by themselves */
                                        assert_false(eng_placement_can_form(map, prev & ~next, prev, 0, k, m));
                        }
                }
                assert_true(formed > 0);
                eng_placement_free(map);
        }
}

/*
 * Epochs one after the other, drives that leave and catch up; what each group's members have. A
 * change goes to all members that are in, and counts if two of them have it: it is never lost.
 */
static void test_nothing_is_lost(void **state)
{
        unsigned round, step, i, slot, m, slots, refused = 0, taken = 0;

        for (round = 0; round < 300; round++) {
                unsigned newest[GROUPS] = {0}, has[ENG_DRIVES_MAX][GROUPS] = {{0}};
                struct eng_placement *map;
                eng_mask in, next;

                slots = 3 + below(7);
                m = 1 + below(3);
                map = make_map(slots, 2 + below(slots - 1), m);
                in = eng_all_slots(slots);
                for (step = 0; step < 200; step++) {
                        slot = below(slots);
                        next = in ^ eng_bit(slot);
                        if (below(4) == 0)
                                next &= ~eng_bit(below(slots));
                        if ((next & ~in) != 0 && (in & ~next) != 0)
                                next |= in; /* no epoch takes one in and leaves out another */
                        if (eng_placement_can_form(map, next, in, 0, 1, m)) {
                                for (i = 0; i < GROUPS && (next & ~in) != 0; i++) { /* caught up with a current member: there is one */
                                        eng_mask from = map->groups[i].before & in;

                                        assert_true(from != 0);
                                        has[slot][i] = has[__builtin_ctzll(from)][i];
                                }
                                in = next;
                        } else {
                                refused++;
                        }
                        i = below(GROUPS);
                        if (__builtin_popcountll(map->groups[i].before & in) >= 2) {
                                taken++;
                                newest[i]++;
                                for (slot = 0; slot < slots; slot++)
                                        if (map->groups[i].before & in & eng_bit(slot))
                                                has[slot][i] = newest[i];
                        }
                        for (i = 0; i < GROUPS; i++)
                                for (slot = 0; slot < slots; slot++)
                                        if (map->groups[i].before & in & eng_bit(slot))
                                                assert_int_equal(has[slot][i], newest[i]);
                        assert_true(eng_groups_current(map->groups, GROUPS, false, in));
                }
                eng_placement_free(map);
        }
        assert_true(refused > 1000 && taken > 1000);
}

/* Without nodes the number of drives decides, as ever. */
static void test_one_machine(void **state)
{
        struct eng_placement_slots s = {.count = 6, .pg_count = GROUPS, .replicas = 2};
        struct eng_placement *map;
        eng_mask next, prev;
        unsigned i;

        for (i = 0; i < 6; i++)
                s.ids[i][0] = (uint8_t)i;
        map = eng_placement_make(&s);
        assert_false(map->by_groups);
        assert_null(map->domains);
        for (prev = 1; prev < 64; prev++)
                for (next = 0; next < 64; next++)
                        assert_int_equal(eng_placement_can_form(map, next, prev, 0, 4, 1), eng_epoch_can_form(next, prev, 6, 4, 1));
        for (next = 0; next < 64; next++)
                assert_int_equal(eng_placement_can_write(map, next, 4, 1), eng_epoch_can_write(next, 6, 4, 1));
        eng_placement_free(map);
        s.sites[2].node = 4;
        s.leaving = eng_bit(1);
        map = eng_placement_make(&s);
        assert_true(map->by_groups);
        assert_true(eng_placement_can_form(map, 0x3d, 0x3f, eng_bit(1), 4, 1)); /* those after it are asked for */
        assert_int_equal(eng_groups_alone(map->groups, map->group_count, 0), map->group_count);
        assert_int_equal(eng_groups_alone(map->groups, map->group_count, 0x3f), 0);
        eng_placement_free(map);
}

/* ---- a store ---------------------------------------------------------------------------------- */

#define KEYS  40u
#define LARGE 300000u

static const char *key_of(unsigned i)
{
        static char key[16];

        snprintf(key, sizeof(key), "key%u", i);
        return key;
}

static size_t size_of(unsigned i)
{
        return i % 2 == 0 ? 100 : LARGE;
}

static void make_store(struct sf *sf, unsigned drives, unsigned k, unsigned m, const struct eng_site *sites, uint64_t *bucket)
{
        unsigned i;

        sf_make(sf, drives, 2);
        sf->options.ec_k = k;
        sf->options.ec_m = m;
        sf->options.sites = sites;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_put(sf, i % 2, *bucket, key_of(i), i, size_of(i), true, NULL), 0);
        sf_close(sf);
        sf->options.sites = NULL; /* the epoch knows */
}

static bool whole(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == 9 && !h->healing && h->objects_below == 0;
}

static bool writable(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable;
}

/* Shards of the object that lie where `nodes` nodes could take more than its m of parity, by all who have its name; slots are there from `from` on. */
static unsigned too_close(const struct sf *sf, const struct eng_domains *domains, uint64_t bucket, unsigned i, unsigned from, unsigned k, unsigned m, unsigned nodes)
{
        static struct sf_row row;
        struct eng_part part;
        uint16_t drives[ERA_MAX_SHARDS];
        size_t pos = 0;
        unsigned slot, s, n = 0, found = 0;

        eng_name_object(&row.name, bucket, key_of(i), strlen(key_of(i)));
        for (slot = from; slot < sf->drives; slot++) {
                if (!sf_get_row(sf, slot, &row))
                        continue;
                found++;
                for (pos = 0; eng_value_next_part(row.value, row.len, &pos, &part) == 1;) {
                        for (s = 0; s < k + m; s++) {
                                drives[s] = (uint16_t)eng_part_slot(&part, s);
                                assert_true(drives[s] >= from && drives[s] < sf->drives);
                        }
                        n += eng_place_violations(domains, drives, k + m, m, nodes);
                }
        }
        assert_true(found >= 3);
        return n;
}

static uint64_t as_many_live;

/* A discard that an epoch has refused waits for the next orphan collection: a few shards more are left for so long. */
static bool whole_and_swept(const struct eng_health *h, void *arg)
{
        return whole(h, NULL) && sf_live_bytes(arg) < as_many_live + as_many_live / 10;
}

/*
 * Three drives a node, and two of parity: a node is more drives than parity. What is written meanwhile has three shards of a run on
 * either node, where two may be lost; it is moved apart when the third node is back, and is nowhere twice.
 */
static void test_a_node_is_lost(void **state)
{
        static const struct eng_site sites[9] = {{1, 1}, {1, 1}, {1, 1}, {2, 1}, {2, 1}, {2, 1}, {3, 2}, {3, 2}, {3, 2}};
        static struct eng_heal_report now, last;
        struct eng_domains domains;
        uint64_t bucket, node;
        struct eng_view view;
        struct sf sf;
        unsigned i;

        assert_true(eng_domains_make(&domains, sites, 9));
        make_store(&sf, 9, 0, 0, sites, &bucket);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, whole, NULL, 60));
        as_many_live = sf_live_bytes(&sf);
        sf_close(&sf);
        for (node = 0; node < 3; node++) {
                sf_give(&sf, 0x1ff & ~(7ull << 3 * node));
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, writable, NULL, 60));
                view = sf_view(&sf);
                assert_true(view.map->by_groups && view.map->domains != NULL);
                assert_int_equal(view.in, 0x1ff & ~(7ull << 3 * node));
                assert_int_equal(sf.store->k, 4);
                assert_int_equal(sf.store->m, 2);
                for (i = 0; i < view.map->group_count - 1; i++) /* a copy on each node */
                        assert_int_equal(__builtin_popcountll(view.map->groups[i].before & 7ull << 3 * node), 1);
                for (i = 0; i < KEYS; i++)
                        assert_int_equal(sf_get(&sf, i % 2, bucket, key_of(i), i, size_of(i)), 0);
                for (i = 0; i < KEYS; i++)
                        assert_int_equal(sf_put(&sf, i % 2, bucket, key_of(i), i, size_of(i), true, NULL), 0);
                sf_close(&sf);
                sf_give(&sf, 0x1ff); /* it catches up */
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, whole_and_swept, &sf, 60));
                eng_heal_read(sf.store, &now, &last);
                assert_int_equal(now.too_close, 0);
                assert_int_equal(now.done_objects, KEYS / 2);
                for (i = 0; i < KEYS; i++)
                        assert_int_equal(sf_get(&sf, i % 2, bucket, key_of(i), i, size_of(i)), 0);
                sf_close(&sf);
                for (i = 1; i < KEYS; i += 2)
                        assert_int_equal(too_close(&sf, &domains, bucket, i, 0, 4, 2, 1), 0);
        }
        sf_remove(&sf);
}

static bool says_alone(const struct eng_health *h, void *arg)
{
        return h->ready && strstr(h->reason, "fewer than two current members") != NULL;
}

/* Two copies on three nodes of two drives each: one node less, and groups with one copy left take no changes; others do. */
static void test_groups_for_themselves(void **state)
{
        static const struct eng_site sites[6] = {{1, 1}, {1, 1}, {2, 2}, {2, 2}, {3, 3}, {3, 3}};
        unsigned i, taken = 0, refused = 0;
        uint64_t bucket;
        struct sf sf;

        make_store(&sf, 6, 2, 1, sites, &bucket);
        sf_give(&sf, 0x3c);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, says_alone, NULL, 60));
        for (i = 0; i < KEYS; i++) {
                uint32_t pg = eng_pg_of_key(sf.store->pg_count, bucket, key_of(i), strlen(key_of(i)));
                bool two = __builtin_popcountll(sf_view(&sf).map->groups[pg].before & 0x3c) >= 2;
                int rv = sf_put(&sf, 0, bucket, key_of(i), i, 100, true, NULL);

                assert_int_equal(rv, two ? 0 : -EROFS);
                taken += two;
                refused += !two;
                assert_int_equal(sf_get(&sf, 0, bucket, key_of(i), i, two ? 100 : size_of(i)), 0);
        }
        assert_true(taken > 0 && refused > 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "large", 1, LARGE, true, NULL) == -EROFS ||
                                 sf_get(&sf, 0, bucket, "large", 1, LARGE) == 0,
                         1); /* three shards are placed, if its group takes it */
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * R5: a drive of the two that have a group is cut off while it is sent a record, and an epoch goes on without it. The record
 * counts, but it lies on one drive: nobody is told that it was done.
 */
static void test_a_record_is_alone(void **state)
{
        static const struct eng_site sites[6] = {{1, 1}, {1, 1}, {2, 2}, {2, 2}, {3, 3}, {3, 3}};
        unsigned i, unknown = 0;
        uint64_t bucket;
        struct sf sf;

        make_store(&sf, 6, 2, 1, sites, &bucket);
        sf.options.faults = "unreach:op=append,after=2,slot=2,ms=60000";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        for (i = 0; i < KEYS && unknown == 0; i++)
                if (sf_put(&sf, 0, bucket, key_of(i), i, 200, true, NULL) == -EROFS && sf_get(&sf, 0, bucket, key_of(i), i, 200) == 0)
                        unknown++;
        assert_int_equal(unknown, 1);
        sf_close(&sf);
        sf_remove(&sf);
}

/* R5: with as many drives as there are data shards no object is taken that has shards; small ones are, where two drives have them. */
static void test_no_shard_to_lose(void **state)
{
        static const struct eng_site sites[3] = {{1, 1}, {2, 2}, {3, 3}};
        unsigned i, small = 0, large = 0;
        uint64_t bucket;
        struct sf sf;

        make_store(&sf, 3, 2, 1, sites, &bucket);
        sf_give(&sf, 0x3);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        for (i = 0; i < KEYS; i++) {
                small += sf_put(&sf, 0, bucket, key_of(i), i, 100, true, NULL) == 0;
                large += sf_put(&sf, 0, bucket, key_of(i), i, LARGE, true, NULL) != -EROFS;
        }
        assert_true(small > 0);
        assert_int_equal(large, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* What the newest epoch of each drive says, as it was when the drive was opened. */
static void check_epochs(struct sf *sf, const struct eng_site *sites)
{
        unsigned i, slot;

        assert_true(sf_wait_ready(sf, 60));
        for (i = 0; i < sf->store->unplaced_count; i++) {
                const struct eng_member *m = &sf->store->unplaced[i];
                struct fmt_epoch_tail tail;

                memcpy(&tail, m->epoch + FMT_EPOCH_PLACED(eng_epoch_of(m)->drives), sizeof(tail));
                assert_int_equal(tail.must, sites == NULL ? 0 : FMT_EPOCH_MUST_SITES);
                assert_int_equal(m->identity.features, sites == NULL ? 0 : FMT_FEATURE_SITES); /* builds that do not know it refuse the drive */
                for (slot = 0; slot < eng_epoch_of(m)->drives; slot++) {
                        assert_int_equal(eng_epoch_drives(m)[slot].node, sites == NULL ? 0 : sites[slot].node);
                        assert_int_equal(eng_epoch_drives(m)[slot].rack, sites == NULL ? 0 : sites[slot].rack);
                }
        }
}

/* Epochs say where slots lie, and that this must be understood; those of one machine are as ever. */
static void test_epochs_say_so(void **state)
{
        static const struct eng_site sites[6] = {{1, 1}, {1, 1}, {2, 2}, {2, 2}, {300, 30}, {300, 30}};
        unsigned with;
        uint64_t bucket;
        struct sf sf;

        for (with = 0; with < 2; with++) {
                make_store(&sf, 6, 2, 1, with ? sites : NULL, &bucket);
                assert_int_equal(sf_open(&sf, false), 0);
                check_epochs(&sf, with ? sites : NULL);
                sf_close(&sf);
                assert_int_equal(sf_open(&sf, false), 0); /* of a run that found it so */
                check_epochs(&sf, with ? sites : NULL);
                sf_close(&sf);
                sf_remove(&sf);
        }
}

/* A store that was formatted for one machine takes no drive on a node: older builds would take its epochs for damage. */
static void test_no_node_beside_one_machine(void **state)
{
        struct eng_hot_add_report report = {.running = true};
        uint64_t bucket, number;
        unsigned i;
        struct sf sf;

        make_store(&sf, 6, 2, 1, NULL, &bucket);
        sf.options.site = (struct eng_site){2, 1};
        sf.options.boot = 1;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, writable, NULL, 60));
        assert_int_equal(eng_drive_add(sf.store, "/not/looked/at", &number), 0);
        for (i = 0; i < 6000 && report.running; i++) {
                usleep(10000);
                assert_int_equal(eng_hot_add_read(sf.store, number, &report), 0);
        }
        assert_int_equal(report.rv, -EINVAL);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool is_removed(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives[0].state == ENG_DRIVE_REMOVED && !h->healing && h->objects_below == 0;
}

/* A drive of a node is removed: what it held goes to the node's other drive, where it was apart from the rest. */
static void test_repairs_keep_apart(void **state)
{
        static const struct eng_site sites[8] = {{1, 1}, {1, 1}, {2, 1}, {2, 1}, {3, 2}, {3, 2}, {4, 2}, {4, 2}};
        struct eng_domains domains;
        uint64_t bucket, number;
        struct sf sf;
        unsigned i;

        make_store(&sf, 8, 2, 2, sites, &bucket);
        assert_true(eng_domains_make(&domains, sites, 8));
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, writable, NULL, 60));
        assert_int_equal(eng_drive_remove(sf.store, 0, &number), 0);
        assert_true(sf_wait_health(&sf, is_removed, NULL, 60));
        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_get(&sf, 0, bucket, key_of(i), i, size_of(i)), 0);
        sf_close(&sf);
        for (i = 1; i < KEYS; i += 2)
                assert_int_equal(too_close(&sf, &domains, bucket, i, 1, 2, 2, 2), 0);
        sf_remove(&sf);
}

/* A pool of nodes whose shards do not survive a node is not made by itself. */
static void test_no_code(void **state)
{
        static const struct eng_site sites[4] = {{1, 1}, {1, 1}, {2, 1}, {2, 1}};
        struct sf sf;

        sf_make(&sf, 4, 1);
        sf.options.sites = sites;
        assert_int_equal(sf_open(&sf, true), -EINVAL);
        assert_non_null(strstr(sf.error.text, "no erasure code"));
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_set),      cmocka_unit_test(test_nothing_is_lost),       cmocka_unit_test(test_one_machine),
                cmocka_unit_test(test_a_node_is_lost), cmocka_unit_test(test_groups_for_themselves), cmocka_unit_test(test_no_code),
                cmocka_unit_test(test_epochs_say_so), cmocka_unit_test(test_repairs_keep_apart), cmocka_unit_test(test_a_record_is_alone), cmocka_unit_test(test_no_shard_to_lose), cmocka_unit_test(test_no_node_beside_one_machine),
        };
        const char *given = getenv("SEED");

        seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
        print_message("SEED=%llu\n", (unsigned long long)seed);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
