/*
 * Several stores on the same loops, as a node of a cluster of several pools has them: two plain ones, and two homes of two leaders. The
 * same names and keys in each; work in all at once; one whose drives fail, or whose lease is over; the end of all at once.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/home_fixture.h"
#include "tests/lib/store_objects.h"

#define LARGE (3u << 20)

/* One client of one store. Each store has other bytes under the same keys. */
struct client {
        struct sf *sf;
        uint64_t bucket, seed;
        unsigned loop, turns;
        pthread_t thread;
        int rv;
};

static int client_turn(struct client *c, unsigned turn)
{
        static const size_t sizes[] = {0, 100, 70000, 300000, LARGE};
        size_t size = sizes[turn % (sizeof(sizes) / sizeof(sizes[0]))];
        uint8_t upload[ENG_ID_LEN];
        struct eng_complete_part part = {.number = 1};
        char key[32];
        bool existed;
        int rv;

        snprintf(key, sizeof(key), "k/%u-%u", c->loop, turn);
        rv = sf_put(c->sf, c->loop, c->bucket, key, c->seed + turn, size, turn % 2 == 0, NULL);
        if (rv == 0)
                rv = sf_get(c->sf, 1 - c->loop, c->bucket, key, c->seed + turn, size);
        if (rv == 0 && turn % 3 == 0) {
                rv = sf_delete(c->sf, c->loop, c->bucket, key, &existed);
                if (rv == 0 && (!existed || sf_get(c->sf, c->loop, c->bucket, key, c->seed + turn, size) != -ENOENT))
                        rv = -EILSEQ;
        }
        if (rv == 0 && turn % 5 == 4)
                rv = sf_upload(c->sf, c->bucket, key, upload);
        else
                return rv;
        if (rv == 0)
                rv = sf_part(c->sf, c->loop, c->bucket, key, upload, 1, c->seed, 0, size, part.id);
        if (rv == 0)
                rv = sf_complete(c->sf, c->bucket, key, upload, &part, 1);
        return rv == 0 ? sf_get(c->sf, c->loop, c->bucket, key, c->seed, size) : rv;
}

static void *client_run(void *arg)
{
        struct client *c = arg;
        unsigned turn;

        for (turn = 0; turn < c->turns && c->rv == 0; turn++)
                c->rv = client_turn(c, turn);
        return NULL;
}

/* Two clients of each store at once. */
static void work(struct sf *const *stores, const uint64_t *buckets, unsigned count, unsigned turns)
{
        struct client clients[8] = {0};
        unsigned i;

        assert_true(2 * count <= 8);
        for (i = 0; i < 2 * count; i++) {
                clients[i] = (struct client){.sf = stores[i / 2], .bucket = buckets[i / 2], .seed = 1000 * (i / 2), .loop = i % 2, .turns = turns};
                assert_int_equal(pthread_create(&clients[i].thread, NULL, client_run, &clients[i]), 0);
        }
        for (i = 0; i < 2 * count; i++)
                pthread_join(clients[i].thread, NULL);
        for (i = 0; i < 2 * count; i++)
                assert_int_equal(clients[i].rv, 0);
}

static void same_there(struct sf *sf, uint64_t bucket, uint64_t seed)
{
        assert_int_equal(sf_get(sf, 0, bucket, "k/1-4", seed, LARGE), 0); /* of the upload in parts */
        assert_int_equal(sf_get(sf, 1, bucket, "k/0-2", seed + 2, 70000), 0);
        assert_int_equal(sf_get(sf, 1, bucket, "k/0-3", seed + 3, 300000), -ENOENT);
}

static void test_plain(void **state)
{
        struct sf one, other, *stores[] = {&one, &other};
        uint64_t buckets[2], id;
        unsigned i, round;

        for (i = 0; i < 2; i++) {
                sf_make(stores[i], 4, 2);
                stores[i]->options.coord_loop = i;
                stores[i]->options.ec_k = 2;
                stores[i]->options.ec_m = 1 + i;
        }
        for (round = 0; round < 2; round++) {
                assert_int_equal(sf_open(&one, round == 0), 0);
                assert_int_equal(sf_open_beside(&other, &one, round == 0), 0);
                for (i = 0; i < 2; i++) {
                        assert_true(sf_wait_health(stores[i], so_whole, NULL, 30));
                        if (round == 0)
                                assert_int_equal(sf_bucket(stores[i], "bucket", &buckets[i]), 0);
                        else
                                same_there(stores[i], buckets[i], 1000 * i);
                }
                assert_int_equal(sf_put(&other, 0, buckets[0], "k", 1, 10, true, NULL), -EIDRM); /* it is the other's */
                assert_int_equal(sf_bucket(&one, "only", &id), round == 0 ? 0 : -EEXIST);
                assert_int_equal(sf_bucket_delete(&other, "only"), -ENOENT);
                work(stores, buckets, 2, 10);
                sf_close(&one); /* both, in the middle of upkeep and of what deletions left */
        }
        sf_remove(&one);
        sf_remove(&other);
}

/* The drives of one fail: the other goes on, and the end waits for neither. */
static void test_one_fails(void **state)
{
        struct sf one, other, *stores[] = {&other};
        uint64_t bad, good;

        sf_make(&one, 4, 2);
        sf_make(&other, 4, 2);
        one.options.faults = "fail:op=append,slot=0,after=20;fail:op=append,slot=1,after=20;fail:op=append,slot=2,after=20";
        one.options.ec_k = other.options.ec_k = 2;
        one.options.ec_m = other.options.ec_m = 1;
        assert_int_equal(sf_open(&one, true), 0);
        assert_int_equal(sf_open_beside(&other, &one, true), 0);
        assert_true(sf_wait_ready(&one, 30));
        assert_true(sf_wait_ready(&other, 30));
        assert_int_equal(sf_bucket(&other, "bucket", &good), 0);
        if (sf_bucket(&one, "bucket", &bad) == 0)
                for (unsigned i = 0; i < 30; i++)
                        (void)sf_put(&one, i % 2, bad, "k", i, 5000, true, NULL);
        work(stores, &good, 1, 6);
        sf_close(&one);
        sf_remove(&one);
        sf_remove(&other);
}

/* As the daemon has it: homes of two leaders, each in a process of its own. */
static void test_homes(void **state)
{
        struct sf leaders[2], *homes[2];
        struct hf hfs[2];
        uint64_t buckets[2];
        unsigned i, pool;

        for (i = 0; i < 2; i++) {
                sf_make(&leaders[i], 4, 2);
                leaders[i].options.ec_k = leaders[i].options.ec_m = 2;
                assert_int_equal(sf_open(&leaders[i], true), 0);
                assert_true(sf_wait_health(&leaders[i], so_whole, NULL, 30));
                assert_int_equal(sf_bucket(&leaders[i], "bucket", &buckets[i]), 0);
                homes[i] = &hfs[i].home;
        }
        hf_open(&hfs[0], &leaders[0], 2);
        hf_open_beside(&hfs[1], &leaders[1], homes[0]);
        work(homes, buckets, 2, 10);
        for (i = 0; i < 2; i++)
                same_there(homes[i], buckets[i], 1000 * i);
        assert_int_equal(sf_bucket_pool_set(homes[0], 1, "away", 5), 0);
        hf_follow(&hfs[0]);
        hf_follow(&hfs[1]);
        assert_int_equal(sf_bucket_pool(homes[0], 0, "away", &pool), 0);
        assert_int_equal(sf_bucket_pool(homes[1], 0, "away", &pool), -ENOENT);

        hf_lease(&hfs[0], false); /* of one: the other serves */
        assert_false(eng_is_current(homes[0]->store));
        work(homes + 1, buckets + 1, 1, 5);
        hf_lease(&hfs[0], true);
        same_there(homes[0], buckets[0], 0);
        atomic_store(&hfs[1].cut, true); /* and its calls do not arrive */
        assert_int_not_equal(sf_put(homes[1], 0, buckets[1], "k", 1, 10, true, NULL), 0);
        work(homes, buckets, 1, 5);
        sf_close(homes[0]);
        hf_free(&hfs[0]);
        hf_free(&hfs[1]);
        for (i = 0; i < 2; i++) {
                sf_close(&leaders[i]);
                sf_remove(&leaders[i]);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_plain), cmocka_unit_test(test_one_fails), cmocka_unit_test(test_homes)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
