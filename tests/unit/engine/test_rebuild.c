/*
 * Repairs of one object side by side: shards that its record names stay where they are, whoever
 * writes them.
 */
#include <endian.h>
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/upkeep/rebuild.h"
#include "engine/record/value.h"
#include "tests/lib/store_versions.h"

#define OBJECTS 12u
#define REPAIRS 3u /* of each object, at the same time */
#define SIZE ((3u << 20) + 77)

static const char *key_of(unsigned i)
{
        static char key[16];

        snprintf(key, sizeof(key), "k%u", i);
        return key;
}

struct repairs;

struct repair {
        struct repairs *all;
        const struct eng_name *name;
};

/* owner: test until posted, then loop 0 until ended */
struct repairs {
        struct lp_msg msg;
        sem_t ended;
        struct sf *sf;
        struct eng_name names[OBJECTS];
        struct repair each[OBJECTS * REPAIRS];
        uint64_t bucket;
        unsigned left, failed;
};

static void begin_repair(struct repair *repair);

/*
 * One that meets the end of an epoch has written for nothing, and is begun anew, as the store's own
 * are.
 */
static void repaired(void *arg, int rv, struct eng_rebuild_written written)
{
        struct repair *repair = arg;
        struct repairs *r = repair->all;

        if (rv == -ESTALE) {
                begin_repair(repair);
                return;
        }
        r->failed += rv != 0;
        if (--r->left == 0)
                sem_post(&r->ended);
}

static void begin_repair(struct repair *repair)
{
        struct eng_rebuild_order order = {.name = repair->name};

        assert_non_null(eng_rebuild_start(repair->all->sf->store, &order, repaired, repair));
}

static void begin_repairs(struct lp_msg *msg)
{
        struct repairs *r = (struct repairs *)msg;
        unsigned i;

        r->left = OBJECTS * REPAIRS;
        for (i = 0; i < OBJECTS * REPAIRS; i++) {
                r->each[i] = (struct repair){.all = r, .name = &r->names[i / REPAIRS]};
                begin_repair(&r->each[i]);
        }
}

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == 4;
}

static bool verified(const struct eng_health *h, void *arg)
{
        struct sf *sf = arg;
        struct eng_verify_report report;

        eng_verify_read(sf->store, &report);
        return !report.running;
}

static void verify(struct sf *sf, struct eng_verify_report *report)
{
        assert_int_equal(eng_verify_start(sf->store), 0);
        assert_true(sf_wait_health(sf, verified, sf, 60));
        eng_verify_read(sf->store, report);
}

static void nothing_is_missing(struct sf *sf, unsigned objects)
{
        struct eng_verify_report report;

        verify(sf, &report);
        assert_int_equal(report.objects, objects);
        assert_int_equal(report.missing_shards, 0);
        assert_int_equal(report.damaged_shards, 0);
        assert_int_equal(report.unreadable_objects, 0);
}

/* What nobody but the store itself repairs is repaired, too. */
static void wait_for_upkeep(struct sf *sf)
{
        struct eng_verify_report report;
        unsigned tries = 0;

        do {
                usleep(tries == 0 ? 0 : 200000);
                verify(sf, &report);
        } while (report.missing_shards != 0 && ++tries < 100);
}

/*
 * Objects that were written while a drive was out lack its shards; more than one repair gives them
 * back at the same time.
 */
static void lacking(struct sf *sf, uint64_t *bucket)
{
        unsigned i;

        sf_make(sf, 4, 2);
        sf->options.heal_rate = 1 << 20; /* repairs take their time */
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        sf_close(sf);
        sf_give(sf, 0xe); /* the first is out */
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_ready(sf, 20));
        for (i = 0; i < OBJECTS; i++)
                assert_int_equal(sf_put(sf, i % 2, *bucket, key_of(i), i, SIZE, true, NULL), 0);
        sf_close(sf);
        sf_give(sf, 0xf);
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, all_in, NULL, 60));
}

static void repairs_start(struct repairs *r, struct sf *sf, uint64_t bucket)
{
        unsigned i;

        memset(r, 0, sizeof(*r));
        r->msg.run = begin_repairs;
        r->sf = sf;
        r->bucket = bucket;
        sem_init(&r->ended, 0, 0);
        for (i = 0; i < OBJECTS; i++)
                eng_name_object(&r->names[i], bucket, key_of(i), strlen(key_of(i)));
        lp_post(sf->loops[0], &r->msg);
}

static void repairs_wait(struct repairs *r)
{
        while (sem_wait(&r->ended) != 0)
                ;
        sem_destroy(&r->ended);
}

static void repair_all(struct sf *sf, uint64_t bucket, unsigned *failed)
{
        struct repairs r;

        repairs_start(&r, sf, bucket);
        repairs_wait(&r);
        *failed = r.failed;
}

static void test_side_by_side(void **state)
{
        unsigned i, failed;
        uint64_t bucket;
        struct sf sf;

        lacking(&sf, &bucket);
        repair_all(&sf, bucket, &failed);
        assert_int_equal(failed, 0);
        nothing_is_missing(&sf, OBJECTS);
        sf_close(&sf);
        sf_give(&sf, 3); /* what the repairs wrote is needed */
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        for (i = 0; i < OBJECTS; i++)
                assert_int_equal(sf_get(&sf, 0, bucket, key_of(i), i, SIZE), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * Objects become the null versions of their keys while they are repaired, or before: repairs that
 * were begun for their OBJECT rows, and the store's own for VERSION rows, repair the same shards.
 */
static void test_of_what_becomes_a_version(void **state)
{
        static const struct eng_version null_version;
        struct repairs r;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        lacking(&sf, &bucket);
        sv_versioning(&sf, bucket, ENG_VERSIONING_ENABLED);
        for (i = 0; i < OBJECTS; i += 2)
                assert_int_equal(sf_put(&sf, 0, bucket, key_of(i), 100 + i, 500, true, NULL), 0);
        repairs_start(&r, &sf, bucket);
        for (i = 1; i < OBJECTS; i += 2)
                assert_int_equal(sf_put(&sf, 0, bucket, key_of(i), 100 + i, 500, true, NULL), 0);
        repairs_wait(&r);
        assert_int_equal(r.failed, 0);
        wait_for_upkeep(&sf);
        nothing_is_missing(&sf, 2 * OBJECTS);
        sf_close(&sf);
        sf_give(&sf, 3); /* what the repairs wrote is needed */
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        for (i = 0; i < OBJECTS; i++) {
                assert_int_equal(sf_get_version(&sf, bucket, key_of(i), &null_version, i, SIZE), 0);
                assert_int_equal(sf_get(&sf, 0, bucket, key_of(i), 100 + i, 500), 0);
        }
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * What the object was overwritten by meanwhile lacks nothing either, and deleted ones leave nothing
 * that anybody names.
 */
static void test_of_what_is_gone(void **state)
{
        unsigned i, failed;
        uint64_t bucket;
        struct sf sf;
        bool existed;

        lacking(&sf, &bucket);
        for (i = 0; i < OBJECTS; i++)
                if (i % 2 == 0)
                        assert_int_equal(sf_put(&sf, 0, bucket, key_of(i), i, SIZE, true, NULL), 0);
                else
                        assert_int_equal(sf_delete(&sf, 0, bucket, key_of(i), &existed), 0);
        repair_all(&sf, bucket, &failed);
        assert_int_equal(failed, 0);
        for (i = 0; i < OBJECTS; i++)
                assert_int_equal(sf_get(&sf, 0, bucket, key_of(i), i, SIZE), i % 2 == 0 ? 0 : -ENOENT);
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- one that fails -------------------------------------------------------------------------- */

/* Stands before all drives of a store with one loop. owner: that loop, but for what is atomic */
static struct watched {
        struct eng_drive_ops ops;
        const struct eng_drive_ops *real;
        struct eng_rebuild_bad bad[2];
        unsigned at[2];                /* drives on which the shards are that the repair is to write anew */
        bool found[2];
        int refuse;                    /* a WRITE on this drive; -1: none */
        bool unflushed[2];
        atomic_bool written;
        struct eng_rebuild *rebuild;
        struct eng_name name;
        int result;
        sem_t ended;
} watched;

static void refused(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->done(op);
}

static void see_write(const struct eng_drive *drive, const struct eng_op *op)
{
        unsigned i;

        for (i = 0; i < 2; i++) {
                if (!watched.found[i] && op->write.stripe == 0 && op->write.shard == i) { /* of the PUT */
                        memcpy(watched.bad[i].id, op->write.object_id, FMT_ID);
                        watched.bad[i].shard = (uint8_t)i;
                        watched.at[i] = drive->slot;
                        watched.found[i] = true;
                }
                if (drive->slot == watched.at[i]) {
                        watched.unflushed[i] = true;
                        atomic_store(&watched.written, true);
                }
        }
}

static void watch(struct eng_drive *drive, struct eng_op *op)
{
        unsigned i;

        if (op->kind == ENG_OP_WRITE && (int)drive->slot == watched.refuse) {
                op->result = -ESTALE;
                op->msg.run = refused;
                lp_post(drive->owner, &op->msg);
                return;
        }
        if (op->kind == ENG_OP_WRITE)
                see_write(drive, op);
        for (i = 0; i < 2 && op->kind == ENG_OP_SYNC; i++)
                if (drive->slot == watched.at[i])
                        watched.unflushed[i] = false;
        watched.real->submit(drive, op);
}

static void watch_drives(struct lp_msg *msg)
{
        struct repairs *r = (struct repairs *)msg;
        unsigned i;

        watched.real = r->sf->store->members[0].drive->ops;
        watched.ops = *watched.real;
        watched.ops.submit = watch;
        for (i = 0; i < r->sf->drives; i++)
                r->sf->store->members[i].drive->ops = &watched.ops;
        sem_post(&r->ended);
}

static void watched_ended(void *arg, int rv, struct eng_rebuild_written written)
{
        watched.result = rv;
        watched.rebuild = NULL;
        sem_post(&watched.ended);
}

static void begin_watched(struct lp_msg *msg)
{
        struct repairs *r = (struct repairs *)msg;
        struct eng_rebuild_order order = {.name = &watched.name, .bad = watched.bad, .bad_count = 2};

        watched.unflushed[0] = watched.unflushed[1] = false;
        atomic_store(&watched.written, false);
        watched.rebuild = eng_rebuild_start(r->sf->store, &order, watched_ended, NULL);
        assert_non_null(watched.rebuild);
        sem_post(&r->ended);
}

static void cancel_watched(struct lp_msg *msg)
{
        struct repairs *r = (struct repairs *)msg;

        if (watched.rebuild != NULL)
                eng_rebuild_cancel(watched.rebuild);
        sem_post(&r->ended);
}

static void on_loop(struct repairs *r, void (*run)(struct lp_msg *msg))
{
        r->msg.run = run;
        lp_post(r->sf->loops[0], &r->msg);
        while (sem_wait(&r->ended) != 0)
                ;
}

/* An object of some stripes, and the places of two shards of its first. */
static void watched_object(struct sf *sf, struct repairs *r)
{
        uint64_t bucket;

        memset(&watched, 0, sizeof(watched));
        watched.refuse = -1;
        sem_init(&watched.ended, 0, 0);
        sem_init(&r->ended, 0, 0);
        r->sf = sf;
        sf_make(sf, 4, 1);
        sf->options.heal_rate = 1 << 20; /* a repair waits between two stripes */
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", &bucket), 0);
        on_loop(r, watch_drives);
        assert_int_equal(sf_put(sf, 0, bucket, "key", 1, 8 << 20, true, NULL), 0);
        assert_true(watched.found[0] && watched.found[1]);
        eng_name_object(&watched.name, bucket, "key", 3);
}

static void ended(struct sf *sf, int result)
{
        while (sem_wait(&watched.ended) != 0)
                ;
        assert_int_equal(watched.result, result);
        assert_true(atomic_load(&watched.written));
        assert_false(watched.unflushed[0]);
        assert_false(watched.unflushed[1]);
        sf_close(sf);
        sf_remove(sf);
}

/*
 * What it has written anew stands before a copy that may have been durable: it is flushed although
 * another drive refuses what is its own.
 */
static void test_flushed_if_it_fails(void **state)
{
        struct repairs r = {.left = 0};
        struct sf sf;

        watched_object(&sf, &r);
        watched.refuse = (int)watched.at[1];
        on_loop(&r, begin_watched);
        ended(&sf, -ESTALE);
}

static void test_flushed_if_it_is_cut_off(void **state)
{
        struct repairs r = {.left = 0};
        struct sf sf;

        watched_object(&sf, &r);
        on_loop(&r, begin_watched);
        while (!atomic_load(&watched.written))
                usleep(1000);
        usleep(100000); /* most often it waits for its rate then */
        on_loop(&r, cancel_watched);
        ended(&sf, -ECANCELED);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_side_by_side),
                cmocka_unit_test(test_of_what_becomes_a_version),
                cmocka_unit_test(test_of_what_is_gone),
                cmocka_unit_test(test_flushed_if_it_fails),
                cmocka_unit_test(test_flushed_if_it_is_cut_off),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
