/*
 * Drives that are added to a store or removed from it while it serves and is written to: everything
 * stays readable, the redundancy is what it was, and a restart on the way changes nothing.
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
#include <unistd.h>

#include <cmocka.h>

#include "engine/object/get.h"
#include "tests/lib/store_objects.h"

static int wait_for(struct sf *sf, uint64_t number, unsigned *slot)
{
        struct eng_hot_add_report report;

        do {
                usleep(1000);
                assert_int_equal(eng_hot_add_read(sf->store, number, &report), 0);
        } while (report.running);
        assert_true((report.rv == 0) == (report.text[0] == 0));
        *slot = report.slot;
        return report.rv;
}

/* An empty folder becomes one more drive of the fixture. */
static void add(struct sf *sf)
{
        unsigned slot, n = sf->drives;
        uint64_t number;
        char root[128];

        memcpy(root, sf->root, sizeof(root));
        snprintf(sf->path[n], sizeof(sf->path[n]), "%s/d%u", root, n);
        sf->paths[n] = sf->path[n];
        assert_int_equal(mkdir(sf->path[n], 0700), 0);
        assert_int_equal(eng_drive_add(sf->store, sf->path[n], &number), 0);
        assert_int_equal(wait_for(sf, number, &slot), 0);
        assert_int_equal(slot, n);
        sf->drives++;
}

static int remove_drive(struct sf *sf, unsigned slot)
{
        uint64_t number;
        unsigned of;

        assert_int_equal(eng_drive_remove(sf->store, slot, &number), 0);
        return wait_for(sf, number, &of);
}

/* Whole, and nothing of a change is left to be done. */
static bool at_rest(const struct eng_health *h, void *arg)
{
        unsigned i;

        for (i = 0; i < h->drive_count; i++)
                if (h->drives[i].adding || h->drives[i].leaving || h->drives[i].filling || h->drives[i].dropping_migrated)
                        return false;
        return so_whole(h, NULL) && !h->collecting_orphans;
}

static void rest(struct sf *sf)
{
        assert_true(sf_wait_health(sf, at_rest, NULL, 120));
}

static void start(struct sf *sf)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_ready(sf, 60));
}

static void restart(struct sf *sf)
{
        sf_close(sf);
        start(sf);
}

#if defined(__SANITIZE_THREAD__)
#define PAIRS 1u /* ten times slower, and looks for races alone */
#else
#define PAIRS ENG_DRIVES_MAX
#endif

/*
 * Everything is there with two drives gone, any one of them once or twice; removed: none of these.
 * The store is closed.
 */
static void check_without_two(struct sf *sf, uint64_t bucket, const struct so_expected *e, unsigned removed)
{
        unsigned a, b;

        for (a = 0; a < sf->drives && a < PAIRS; a++) {
                b = (a + 1) % sf->drives == removed ? (a + 2) % sf->drives : (a + 1) % sf->drives;
                if (a == removed)
                        continue;
                so_move(sf, a, true);
                so_move(sf, b, true);
                assert_int_equal(sf_open(sf, false), 0);
                assert_true(sf_wait_health(sf, so_can_read, NULL, 60));
                so_check(sf, bucket, e);
                sf_close(sf);
                so_move(sf, a, false);
                so_move(sf, b, false);
                assert_int_equal(sf_open(sf, false), 0); /* it may have gone on without them */
                rest(sf);
                sf_close(sf);
        }
}

/*
 * A test's last look, and its end. The folder of the drive that was removed, if one was
 * (ENG_DRIVES_MAX: none), is away meanwhile.
 */
static void end(struct sf *sf, uint64_t bucket, const struct so_expected *e, unsigned removed)
{
        sf_close(sf);
        if (removed < sf->drives)
                so_move(sf, removed, true);
        check_without_two(sf, bucket, e, removed);
        if (removed < sf->drives)
                so_move(sf, removed, false);
        sf_remove(sf);
}

/* Names that drives hold of groups they have no part in. */
static bool holds_no_other(struct sf *sf, unsigned slot);

/* ---- adding ---------------------------------------------------------------------------------- */

static void test_add(void **state)
{
        struct eng_verify_report *report = malloc(sizeof(*report));
        struct so_expected e;
        uint64_t bucket;
        unsigned i;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        add(&sf);
        so_change(&sf, bucket, &e, 1, 5); /* while it is brought up to date */
        so_check(&sf, bucket, &e);
        rest(&sf);
        so_change(&sf, bucket, &e, 2, 7);
        so_check(&sf, bucket, &e);
        so_verify(&sf, report);
        assert_true(report->digest[4].shards > 0); /* of what was put since */
        for (i = 0; i < sf.drives; i++)
                assert_true(holds_no_other(&sf, i));
        restart(&sf);
        rest(&sf);
        so_check(&sf, bucket, &e);
        add(&sf); /* and another one */
        so_change(&sf, bucket, &e, 3, 4);
        rest(&sf);
        so_check(&sf, bucket, &e);
        end(&sf, bucket, &e, ENG_DRIVES_MAX);
        free(report);
}

/* It stops as soon as the drive is handed over, at every start anew. */
static void test_add_interrupted(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        unsigned round;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        add(&sf);
        for (round = 1; round < 4; round++) {
                usleep(round * 10000);
                restart(&sf);
                so_change(&sf, bucket, &e, round, 11);
        }
        rest(&sf);
        so_check(&sf, bucket, &e);
        end(&sf, bucket, &e, ENG_DRIVES_MAX);
}

/* The new drive is lost while it is added: the store is as it was, and the slot can be given up. */
static void test_add_fails(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        add(&sf);
        so_move(&sf, 4, true);
        so_change(&sf, bucket, &e, 1, 3);
        sf_close(&sf);
        start(&sf);
        so_change(&sf, bucket, &e, 2, 5);
        if (sf.store->drive_count > 4) { /* an epoch with it had come into force */
                assert_int_equal(remove_drive(&sf, 4), 0);
                rest(&sf);
        }
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf.drives = 4;
        check_without_two(&sf, bucket, &e, ENG_DRIVES_MAX);
        so_move(&sf, 4, false);
        sf_remove(&sf);
}

/* ---- removing -------------------------------------------------------------------------------- */

static void test_remove(void **state)
{
        struct eng_verify_report *report = malloc(sizeof(*report));
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 5, &bucket, &e);
        assert_int_equal(remove_drive(&sf, 1), 0);
        assert_int_equal(remove_drive(&sf, 1), -EALREADY);
        assert_int_equal(remove_drive(&sf, 2), -EBUSY);
        so_change(&sf, bucket, &e, 1, 5);
        so_check(&sf, bucket, &e);
        rest(&sf);
        assert_int_equal(remove_drive(&sf, 1), -EALREADY);
        assert_int_equal(remove_drive(&sf, 2), -EINVAL); /* four are needed */
        so_change(&sf, bucket, &e, 2, 7);
        so_check(&sf, bucket, &e);
        so_verify(&sf, report);
        assert_int_equal(report->digest[1].shards, 0);
        restart(&sf); /* with its folder, which is not used any more */
        rest(&sf);
        so_check(&sf, bucket, &e);
        end(&sf, bucket, &e, 1);
        free(report);
}

/* A drive that is lost is removed: what it held is rebuilt on the others. */
static void test_remove_lost(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 6, &bucket, &e);
        sf_close(&sf);
        so_move(&sf, 0, true);
        start(&sf);
        so_change(&sf, bucket, &e, 1, 5);
        assert_int_equal(remove_drive(&sf, 0), 0);
        so_change(&sf, bucket, &e, 2, 7);
        rest(&sf);
        so_check(&sf, bucket, &e);
        so_move(&sf, 0, false);
        end(&sf, bucket, &e, 0);
}

/*
 * With one parity shard, a group of the lost drive has one member left while what it held goes
 * elsewhere.
 */
static void test_remove_lost_with_one_parity(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin_coded(&sf, 4, 2, 1, &bucket, &e);
        so_change(&sf, bucket, &e, 1, 5);
        sf_close(&sf);
        so_move(&sf, 0, true);
        start(&sf);
        assert_int_equal(remove_drive(&sf, 0), 0);
        rest(&sf);
        so_change(&sf, bucket, &e, 2, 7);
        so_check(&sf, bucket, &e);
        restart(&sf);
        rest(&sf);
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        so_move(&sf, 0, false);
        sf_remove(&sf);
}

static bool is_removed(const struct eng_health *h, void *arg)
{
        return h->drives[4].state == ENG_DRIVE_REMOVED;
}

/*
 * Two drives are out, a third is removed, and then it alone is there: it knows of no epoch without
 * it, but the others could have made one, since it need not count any more. So it answers nothing,
 * not even for reading.
 */
static void test_removed_drive_alone(void **state)
{
        struct eng_health h;
        uint64_t later;
        unsigned i;
        struct sf sf;

        sf_make(&sf, 5, 1);
        sf.options.ec_k = 1;
        sf.options.ec_m = 2;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        sf_close(&sf);
        so_move(&sf, 1, true);
        so_move(&sf, 2, true);
        start(&sf);
        assert_int_equal(remove_drive(&sf, 4), 0);
        assert_true(sf_wait_health(&sf, is_removed, NULL, 60));
        assert_int_equal(sf_bucket(&sf, "later", &later), 0);
        sf_close(&sf);
        so_move(&sf, 0, true);
        so_move(&sf, 3, true);
        sf.options.drive_wait_ms = 100;
        assert_int_equal(sf_open(&sf, false), 0);
        for (i = 0; i < 20; i++) {
                usleep(100000);
                eng_health_read(sf.store, &h);
                assert_false(h.ready);
        }
        sf_close(&sf);
        for (i = 0; i < 4; i++)
                so_move(&sf, i, false);
        sf_remove(&sf);
}

static void test_remove_interrupted(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        unsigned round;
        struct sf sf;

        so_begin(&sf, 6, &bucket, &e);
        assert_int_equal(remove_drive(&sf, 0), 0);
        for (round = 1; round < 5; round++) {
                usleep(round * 20000);
                so_change(&sf, bucket, &e, round, 13);
                restart(&sf);
        }
        rest(&sf);
        so_check(&sf, bucket, &e);
        end(&sf, bucket, &e, 0);
}

/* An upload's parts are on the drive when its removal begins. */
static void test_remove_under_an_upload(void **state)
{
        struct eng_complete_part part = {.number = 1};
        uint8_t id[ENG_ID_LEN];
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;
        int rv;

        so_begin(&sf, 5, &bucket, &e);
        assert_int_equal(sf_upload(&sf, bucket, "parts", id), 0);
        assert_int_equal(sf_part(&sf, 0, bucket, "parts", id, 1, 5, 0, 30 << 20, part.id), 0);
        assert_int_equal(remove_drive(&sf, 0), 0);
        so_change(&sf, bucket, &e, 1, 5);
        rv = remove_drive(&sf, 1);
        assert_true(rv == -EBUSY || (rv == -EINVAL && sf_wait_health(&sf, is_removed, NULL, 0))); /* or it is gone already, and too few are left */
        so_change(&sf, bucket, &e, 2, 5);
        assert_int_equal(sf_complete(&sf, bucket, "parts", id, &part, 1), 0);
        restart(&sf); /* it would look again in some minutes */
        rest(&sf);
        assert_int_equal(sf_get(&sf, 0, bucket, "parts", 5, 30 << 20), 0);
        so_check(&sf, bucket, &e);
        end(&sf, bucket, &e, 0);
}

struct reader {
        struct lp_msg msg;
        struct sf *sf;
        uint64_t bucket;
        struct eng_get *get;
        _Atomic bool over;
};

static void opened(void *arg, int rv, struct eng_get *get)
{
        struct reader *reader = arg;

        assert_int_equal(rv, 0);
        reader->get = get;
        reader->over = true;
}

static void open_object(struct lp_msg *msg)
{
        struct reader *reader = (struct reader *)msg;
        struct eng_str key = {"read", 4};

        eng_get_open(reader->sf->store, reader->bucket, key, NULL, opened, reader);
}

static void close_object(struct lp_msg *msg)
{
        struct reader *reader = (struct reader *)msg;

        eng_get_close(reader->get);
        reader->over = true;
}

static void on_loop(struct reader *reader, void (*run)(struct lp_msg *msg))
{
        reader->over = false;
        reader->msg.run = run;
        lp_post(reader->sf->loops[1], &reader->msg);
        while (!reader->over)
                usleep(1000);
}

static bool leaves_no_more(const struct eng_health *h, void *arg)
{
        return h->drives[*(unsigned *)arg].state == ENG_DRIVE_REMOVED;
}

/* A drive that the object being read has a shard on: not all have one. */
static unsigned read_from(const struct reader *reader)
{
        const struct eng_buf *value = reader->get->lookup.value;
        struct eng_part part;
        size_t pos = 0;

        assert_int_equal(eng_value_next_part(value->data, value->len, &pos, &part), 1);
        return eng_part_drive(&part, 0, 0);
}

/* It stays while somebody reads an object by the record of before, and goes when he does not. */
static void test_remove_under_a_reader(void **state)
{
        struct reader *reader = calloc(1, sizeof(*reader));
        struct so_expected e;
        unsigned slot;
        struct sf sf;

        so_begin(&sf, 5, &reader->bucket, &e);
        reader->sf = &sf;
        assert_int_equal(sf_put(&sf, 0, reader->bucket, "read", 5, 30 << 20, true, NULL), 0);
        on_loop(reader, open_object);
        slot = read_from(reader);
        assert_int_equal(remove_drive(&sf, slot), 0);
        assert_true(sf_stays_otherwise(&sf, leaves_no_more, &slot, 8)); /* walks take place every 3 s */
        on_loop(reader, close_object);
        assert_true(sf_wait_health(&sf, leaves_no_more, &slot, 60));
        rest(&sf);
        assert_int_equal(sf_get(&sf, 0, reader->bucket, "read", 5, 30 << 20), 0);
        sf_close(&sf);
        sf_remove(&sf);
        free(reader);
}

/* All drives are new in the end, and every one that was there at first is gone. */
static void test_moved_to_other_drives(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        unsigned i;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        for (i = 0; i < (PAIRS < 4 ? 1 : 4); i++) {
                add(&sf);
                so_change(&sf, bucket, &e, i, 9);
                rest(&sf);
                assert_int_equal(remove_drive(&sf, i), 0);
                so_change(&sf, bucket, &e, i + 1, 9);
                rest(&sf);
        }
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        for (i = 0; i < (PAIRS < 4 ? 1 : 4); i++)
                so_move(&sf, i, true);
        start(&sf);
        rest(&sf);
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- what drives hold ------------------------------------------------------------------------ */

struct look {
        struct lp_msg msg;
        struct eng_op op;
        struct sf *sf;
        unsigned slot, names;
        uint64_t pgs[ENG_PG_COUNT / 64 + 1];
        _Atomic bool over;
};

static void looked(struct eng_op *op)
{
        struct look *look = container_of(op, struct look, op);

        assert_int_equal(op->result, 0);
        look->names = op->scan.count;
        eng_buf_unref(op->scan.entries);
        look->over = true;
}

static void look(struct lp_msg *msg)
{
        static const uint8_t behind_all[1] = {FMT_SPACE_LAST + 1};
        struct look *look = (struct look *)msg;
        struct eng_store *store = look->sf->store;
        const struct eng_placement *map = store->coord->view.map;
        unsigned pg;

        for (pg = 0; pg < store->pg_count; pg++)
                if (!(map->groups[pg].before & eng_bit(look->slot)))
                        look->pgs[pg / 64] |= 1ull << (pg % 64);
        look->op.kind = ENG_OP_SCAN;
        look->op.epoch = store->coord->view.epoch;
        look->op.done = looked;
        look->op.scan.to = behind_all;
        look->op.scan.to_len = 1;
        look->op.scan.max = 10;
        look->op.scan.pgs = look->pgs;
        look->op.scan.pg_words = store->pg_words;
        eng_drive_submit(store->members[look->slot].drive, &look->op);
}

static bool holds_no_other(struct sf *sf, unsigned slot)
{
        struct look *l = calloc(1, sizeof(*l));
        unsigned names;

        l->sf = sf;
        l->slot = slot;
        l->msg.run = look;
        lp_post(sf->loops[0], &l->msg);
        while (!l->over)
                usleep(1000);
        names = l->names;
        free(l);
        return names == 0;
}

static bool forgets(const struct eng_health *h, void *arg)
{
        return h->drives[3].dropping_migrated;
}

/*
 * What a drive had forgotten is back with an earlier image of it, of after the epoch that had it
 * forget: it lacks no change, and forgets once more.
 */
static void test_forgotten_and_back(void **state)
{
        struct so_expected e;
        char command[1024];
        uint64_t bucket;
        struct sf sf;

        so_begin(&sf, 4, &bucket, &e);
        sf_close(&sf);
        sf.options.faults = "delay:op=scan,slot=3,ms=300"; /* the image is made before its names are found */
        start(&sf);
        add(&sf);
        assert_true(sf_wait_health(&sf, forgets, NULL, 60));
        snprintf(command, sizeof(command), "for i in 1 2 3; do rm -rf %s.image; cp -a %s %s.image 2>&- && exit 0; done; exit 1", sf.path[3],
                 sf.path[3], sf.path[3]); /* files come and go meanwhile */
        assert_int_equal(system(command), 0);
        rest(&sf);
        assert_true(holds_no_other(&sf, 3));
        sf_close(&sf);
        sf.options.faults = NULL;
        snprintf(command, sizeof(command), "rm -rf %s && mv %s.image %s", sf.path[3], sf.path[3], sf.path[3]);
        assert_int_equal(system(command), 0);
        start(&sf);
        rest(&sf);
        assert_true(holds_no_other(&sf, 3));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_add),
                cmocka_unit_test(test_add_interrupted),
                cmocka_unit_test(test_add_fails),
                cmocka_unit_test(test_remove),
                cmocka_unit_test(test_removed_drive_alone),
                cmocka_unit_test(test_remove_lost),
                cmocka_unit_test(test_remove_lost_with_one_parity),
                cmocka_unit_test(test_remove_interrupted),
                cmocka_unit_test(test_remove_under_an_upload),
                cmocka_unit_test(test_remove_under_a_reader),
                cmocka_unit_test(test_moved_to_other_drives),
                cmocka_unit_test(test_forgotten_and_back),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
