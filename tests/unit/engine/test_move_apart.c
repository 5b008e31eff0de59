/*
 * test_move_apart.c - objects that were written while a node was out: of what would not survive the next one each is written once
 * more, apart (docs/design/upkeep.md, M1 to M8).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/store.h"
#include "tests/lib/store_versions.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define DRIVES 9u
#define ALL    0x1ffu
#define LARGE  300000u
#define OBJECTS 12u
#define SHARDS  6u
#define FRAME   81920u /* of a shard of LARGE, with its header */
#define FEW     4u /* moved at once */
#define CLOSE  2u /* shards of one run, of six on two nodes of three drives each: two may be lost with a node */

static const struct eng_site sites[DRIVES] = {{1, 1}, {1, 1}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, {3, 3}, {3, 3}, {3, 3}};
static const struct eng_version null_version;

static bool writable(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable;
}

static bool whole(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DRIVES && !h->healing && h->objects_below == 0;
}

/* Opens the store without the drives of the first node. */
static void begin(struct sf *sf, uint64_t *bucket)
{
        sf_make(sf, DRIVES, 2);
        sf->options.sites = sites;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        sf_close(sf);
        sf->options.sites = NULL; /* the epoch knows */
        sf_give(sf, ALL & ~7u);
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, writable, NULL, 60));
}

static void open_all(struct sf *sf)
{
        sf_give(sf, ALL);
        assert_int_equal(sf_open(sf, false), 0);
}

/* What is left too close when all has been walked. */
static uint64_t walked(struct sf *sf)
{
        static struct eng_heal_report now, last;

        assert_true(sf_wait_health(sf, whole, NULL, 60));
        WAIT_UNTIL((eng_heal_read(sf->store, &now, &last), now.surveyed && !now.running));
        return now.too_close;
}

/* The node is back. */
static uint64_t back(struct sf *sf)
{
        open_all(sf);
        return walked(sf);
}

/* Bytes of so many objects' shards. */
static uint64_t live_of(unsigned objects)
{
        return (uint64_t)objects * SHARDS * FRAME;
}

/* A discard that an epoch has refused waits for the next orphan collection: a few shards more are left for so long. */
static bool is_swept(struct sf *sf)
{
        uint64_t now = sf_live_bytes(sf);

        return now >= live_of(OBJECTS) && now < live_of(OBJECTS) + live_of(OBJECTS) / 10;
}

static struct eng_version put(struct sf *sf, uint64_t bucket, const char *key, uint64_t seed)
{
        static struct sv_entry entries[8];
        struct eng_list_params params = {.bucket = bucket, .prefix = {key, strlen(key)}, .max = 8};
        unsigned count;
        bool more;

        assert_int_equal(sf_put(sf, 0, bucket, key, seed, LARGE, true, NULL), 0);
        assert_int_equal(sv_list(sf, &params, NULL, entries, &count, &more), 0);
        assert_true(count > 0 && entries[0].latest);
        return entries[0].version;
}

/* Parts of different sizes, one of them of several stripes. */
static void put_parts(struct sf *sf, uint64_t bucket, const char *key, uint64_t seed, size_t size)
{
        struct eng_complete_part parts[3] = {{.number = 1}, {.number = 2}, {.number = 7}};
        const size_t from[4] = {0, LARGE, LARGE + 6000000, size};
        uint8_t id[ENG_ID_LEN];
        unsigned i;

        assert_int_equal(sf_upload(sf, bucket, key, id), 0);
        for (i = 0; i < 3; i++)
                assert_int_equal(sf_part(sf, i % 2, bucket, key, id, parts[i].number, seed, from[i], from[i + 1] - from[i], parts[i].id), 0);
        assert_int_equal(sf_complete(sf, bucket, key, id, parts, 3), 0);
}

/* All kinds of objects: what they are is the same behind it. A null version, which the head of its key names by its id, stays. */
static void test_kinds(void **state)
{
        const size_t size = LARGE + 6000000 + 1;
        struct eng_version older, newer, only;
        struct eng_deleted deleted;
        uint64_t bucket, plain;
        unsigned round;
        bool existed;
        struct sf sf;

        begin(&sf, &bucket);
        assert_int_equal(sf_bucket(&sf, "plain", &plain), 0);
        assert_int_equal(sf_put(&sf, 0, plain, "object", 1, LARGE, false, NULL), 0);
        put_parts(&sf, plain, "parts", 2, size);
        assert_int_equal(sf_put(&sf, 0, plain, "small", 3, 10, true, NULL), 0);
        assert_int_equal(sf_put(&sf, 0, plain, "empty", 4, 0, true, NULL), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "key", 5, LARGE, true, NULL), 0);
        sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
        older = put(&sf, bucket, "key", 6);
        newer = put(&sf, bucket, "key", 7);
        only = put(&sf, bucket, "only", 8);
        for (round = 0; round < 2; round++) {
                sf_close(&sf);
                assert_int_equal(back(&sf), CLOSE); /* the null version's */
                sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
                assert_int_equal(sf_get(&sf, 0, plain, "object", 1, LARGE), 0);
                assert_int_equal(sf_get(&sf, 1, plain, "parts", 2, size), 0);
                assert_int_equal(sf_get(&sf, 1, plain, "small", 3, 10), 0);
                assert_int_equal(sf_get(&sf, 1, plain, "empty", 4, 0), 0);
                assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 7, LARGE), 0);
                assert_int_equal(sf_get_version(&sf, bucket, "key", &null_version, 5, LARGE), 0);
                assert_int_equal(sf_get_version(&sf, bucket, "key", &older, 6, LARGE), 0);
                assert_int_equal(sf_get_version(&sf, bucket, "key", &newer, 7, LARGE), 0);
                assert_int_equal(sf_get_version(&sf, bucket, "only", &only, 8, LARGE), 0);
        }
        /* what was moved is deleted as any other */
        assert_int_equal(sv_delete(&sf, bucket, "key", &newer, &deleted), 0);
        assert_int_equal(sv_delete(&sf, bucket, "key", &null_version, &deleted), 0);
        assert_int_equal(sf_get_version(&sf, bucket, "key", NULL, 6, LARGE), 0);
        assert_int_equal(sf_delete(&sf, 0, plain, "parts", &existed), 0);
        assert_int_equal(sf_get(&sf, 0, plain, "parts", 2, size), -ENOENT);
        sf_close(&sf);
        sf_remove(&sf);
}

static void check(struct sf *sf, uint64_t bucket, unsigned count)
{
        char key[24];
        unsigned i;

        for (i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "object%u", i);
                assert_int_equal(sf_get(sf, i % 2, bucket, key, i, LARGE), 0);
        }
}

static void put_all(struct sf *sf, uint64_t bucket, unsigned count)
{
        char key[24];
        unsigned i;

        for (i = 0; i < count; i++) {
                snprintf(key, sizeof(key), "object%u", i);
                assert_int_equal(sf_put(sf, i % 2, bucket, key, i, LARGE, true, NULL), 0);
        }
        WAIT_UNTIL(sf_live_bytes(sf) == live_of(count));
        assert_int_equal(sf_live_bytes(sf), live_of(count));
}

static bool collects_no_more(const struct eng_health *h, void *arg)
{
        return h->ready && !h->collecting_orphans;
}

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DRIVES;
}

/* M3: orphans are collected while what was written is not named yet. All of it is there afterwards: any node may be lost. */
static void test_collected_meanwhile(void **state)
{
        static struct eng_heal_report now, last;
        uint64_t bucket, moving;
        unsigned node;
        struct sf sf;

        begin(&sf, &bucket);
        put_all(&sf, bucket, FEW);
        sf_close(&sf);
        sf.options.faults = "delay:op=sync,slot=8,ms=20000";
        open_all(&sf);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        WAIT_UNTIL(sf_live_bytes(&sf) > live_of(FEW));
        WAIT_UNTIL(sf_ids(&sf) > FEW * SHARDS && (uint64_t)sf_ids(&sf) * FRAME == sf_live_bytes(&sf)); /* indexes have all of it */
        assert_true(sf_wait_health(&sf, collects_no_more, NULL, 60));
        moving = sf_live_bytes(&sf);
        sf_collect_orphans(&sf);
        assert_true(sf_wait_health(&sf, collects_no_more, NULL, 60));
        eng_heal_read(sf.store, &now, &last);
        assert_true(now.running && moving > live_of(FEW)); /* else it was too late */
        assert_int_equal(walked(&sf), 0);
        WAIT_UNTIL(sf_live_bytes(&sf) <= live_of(FEW));
        sleep(5); /* nothing more goes */
        check(&sf, bucket, FEW);
        assert_int_equal(sf_live_bytes(&sf), live_of(FEW));
        sf.options.faults = NULL;
        for (node = 0; node < 3; node++) {
                sf_close(&sf);
                sf_give(&sf, ALL & ~(7u << 3 * node));
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, writable, NULL, 60));
                check(&sf, bucket, FEW);
                sf_close(&sf);
                assert_int_equal(back(&sf), 0);
        }
        sf_close(&sf);
        sf_remove(&sf);
}

/* Of each object, as many as it has shards. No drive is open. */
static unsigned held_ids(const struct sf *sf)
{
        unsigned drive, n = 0;

        for (drive = 0; drive < DRIVES; drive++)
                n += sf_held_ids(sf, drive);
        return n;
}

/*
 * Two of a node's drives take no shards: whatever would be moved needs one of them, and stays as it is. Nothing waits for it, and nothing
 * of the attempts is left, but for a few discards that an epoch has refused.
 */
static void test_in_vain(void **state)
{
        static struct eng_heal_report now, last;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        put_all(&sf, bucket, OBJECTS);
        sf_close(&sf);
        sf.options.faults = "again:op=write,slot=7;again:op=write,slot=8";
        open_all(&sf);
        atomic_store(&sf.store->unsettled, true); /* no orphans are collected in this run */
        assert_true(walked(&sf) > 0);
        eng_heal_read(sf.store, &now, &last);
        assert_int_equal(now.failed_objects, 0);
        assert_int_equal(now.todo_objects, OBJECTS);
        assert_int_equal(now.done_objects, 0);
        assert_int_equal(now.too_close, OBJECTS * CLOSE);
        check(&sf, bucket, OBJECTS);
        sf_close(&sf);
        assert_in_range(held_ids(&sf), OBJECTS * SHARDS, OBJECTS * SHARDS + OBJECTS * SHARDS / 10);
        sf.options.faults = NULL;
        assert_int_equal(back(&sf), 0);
        WAIT_UNTIL(is_swept(&sf));
        assert_true(is_swept(&sf));
        check(&sf, bucket, OBJECTS);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kinds),
                cmocka_unit_test(test_collected_meanwhile),
                cmocka_unit_test(test_in_vain),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
