/*
 * test_former_member.c - a start where a drive that a group went from holds a record of it that
 * waits, as its own log knows: other members are not given it.
 *
 * The drive has nothing of what came later, so a name would come back that was deleted since.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "engine/placement/place.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define DRIVES 4u
#define AWAY   0u /* slots: a member that misses the record and its end, and catches up; the drive that the groups go from; the one that they come to */
#define FORMER 3u
#define ADDED  4u
#define KEYS   12u
#define SIZE   500u

struct keys {
        char text[KEYS][32];
        uint32_t pg[KEYS];
        unsigned count;
};

static void shell(const char *format, ...)
{
        char command[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(command, sizeof(command), format, args);
        va_end(args);
        assert_int_equal(system(command), 0);
}

static bool has_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == *(unsigned *)arg;
}

static void wait_in(struct sf *sf, unsigned drives)
{
        assert_true(sf_wait_health(sf, has_in, &drives, 60));
}

static void wait_for(struct sf *sf, uint64_t number)
{
        struct eng_hot_add_report report;

        WAIT_UNTIL(eng_hot_add_read(sf->store, number, &report) == 0 && !report.running);
        assert_int_equal(report.rv, 0);
}

/* In a group of its own, which goes from that drive to the new one. */
static bool is_fit(const struct keys *keys, const struct eng_placement *map, uint32_t pg)
{
        const eng_mask before = eng_bit(AWAY) | eng_bit(FORMER), after = eng_bit(AWAY) | eng_bit(ADDED);
        unsigned i;

        for (i = 0; i < keys->count; i++)
                if (keys->pg[i] == pg)
                        return false;
        return (map->groups[pg].before & before) == before && (map->groups[pg].after & (after | before)) == after;
}

static void choose_keys(struct sf *sf, uint64_t bucket, struct keys *keys)
{
        const struct eng_placement *map = sf_view(sf).map;
        unsigned i;

        for (i = 0; keys->count < KEYS; i++) {
                char *text = keys->text[keys->count];
                uint32_t pg;

                assert_true(i < 100000);
                snprintf(text, sizeof(keys->text[0]), "key/%u", i);
                pg = eng_pg_of_key(sf->store->pg_count, bucket, text, strlen(text));
                if (is_fit(keys, map, pg))
                        keys->pg[keys->count++] = pg;
        }
}

static bool is_adding(struct sf *sf)
{
        const struct eng_view view = sf_view(sf);

        return view.joining == eng_bit(ADDED) && view.map->adding == eng_bit(ADDED);
}

/* The drive is being added, and changes reach it. */
static void begin_adding(struct sf *sf)
{
        char root[128];
        uint64_t number;

        memcpy(root, sf->root, sizeof(root));
        snprintf(sf->path[ADDED], sizeof(sf->path[ADDED]), "%s/d%u", root, ADDED);
        sf->paths[ADDED] = sf->path[ADDED];
        assert_int_equal(mkdir(sf->path[ADDED], 0700), 0);
        assert_int_equal(eng_drive_add(sf->store, sf->path[ADDED], &number), 0);
        wait_for(sf, number);
        sf->drives++;
        WAIT_UNTIL(is_adding(sf));
        assert_true(is_adding(sf));
}

/*
 * Names are put while the drive is added, and deleted when it is in. Then the member that was away
 * catches up.
 */
static void put_and_delete(struct sf *sf, uint64_t bucket, struct keys *keys)
{
        uint64_t number;
        bool existed;
        unsigned i;

        assert_int_equal(sf_open(sf, false), 0);
        wait_in(sf, DRIVES - 1);
        begin_adding(sf);
        choose_keys(sf, bucket, keys);
        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_put(sf, 0, bucket, keys->text[i], i, SIZE, true, NULL), 0);
        wait_in(sf, DRIVES);
        for (i = 0; i < KEYS; i++)
                assert_int_equal(sf_delete(sf, 0, bucket, keys->text[i], &existed), 0);
        so_move(sf, AWAY, false);
        assert_int_equal(eng_drive_hot_add(sf->store, AWAY, sf->path[AWAY], false, &number), 0);
        wait_for(sf, number);
        wait_in(sf, DRIVES + 1);
}

static void test_deleted_since(void **state)
{
        static struct keys keys;
        uint64_t bucket;
        unsigned i, loop;
        struct sf sf;

        sf_make(&sf, DRIVES, 2);
        sf.options.ec_k = sf.options.ec_m = 2;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        sf_close(&sf);
        so_move(&sf, AWAY, true);
        shell("cp -r '%s' '%s.image' && rm -r '%s.image/log'", sf.path[FORMER], sf.path[FORMER], sf.path[FORMER]);
        sf.options.faults = "delay:op=scan,slot=4,ms=1000;delay:op=scan,slot=3,ms=2000"; /* it does not forget what it held, and the new one takes its time */
        put_and_delete(&sf, bucket, &keys);
        /*
         * A crash: its index is as the run before left it, so nothing says that those records
         * counted.
         */
        shell("for i in 1 2 3 4 5 6 7 8 9; do rm -rf '%s.image/log'; cp -r '%s/log' '%s.image/log' 2>&- && exit 0; done; exit 1", sf.path[FORMER],
              sf.path[FORMER], sf.path[FORMER]);
        sf_close(&sf);
        shell("rm -rf '%s' && mv '%s.image' '%s'", sf.path[FORMER], sf.path[FORMER], sf.path[FORMER]);
        sf.options.faults = NULL;
        assert_int_equal(sf_open(&sf, false), 0);
        wait_in(&sf, DRIVES + 1);
        for (i = 0; i < KEYS; i++)
                for (loop = 0; loop < 2; loop++)
                        assert_int_equal(sf_get(&sf, loop, bucket, keys.text[i], i, SIZE), -ENOENT);
        assert_int_equal(atomic_load(&sf.store->reconciled_records), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_deleted_since)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
