/*
 * A cluster's pool that gets drives, loses some for good and gives others up (grow.c): the test is the configuration
 * service, and the nodes that format what an epoch names.
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

#include "engine_folder.h"
#include "tests/lib/decided_fixture.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define NEW   DF_DRIVES /* the first new slot */
#define COUNT 3u
#define NODE  4u

static struct sf *the_sf;

static void path_of(void *arg, unsigned slot, uint16_t node, char out[ENG_PATH_MAX])
{
        assert_true(slot < SF_DRIVES_MAX && node != 0);
        snprintf(out, ENG_PATH_MAX, "%s", the_sf->path[slot]);
}

/* A pool of three nodes that serves, and three empty folders of a fourth one. */
static void begin(struct sf *sf, uint64_t *bucket, struct eng_new_drive drives[COUNT])
{
        char root[sizeof(sf->root)];
        unsigned i;

        df_make(sf, bucket);
        the_sf = sf;
        df_service.cluster.path = path_of;
        df_service.cluster.may_lose = false;
        sf->options.heal_again_ms = 100;
        memcpy(root, sf->root, sizeof(root));
        for (i = 0; i < COUNT; i++) {
                snprintf(sf->path[NEW + i], sizeof(sf->path[0]), "%s/d%u", root, NEW + i);
                assert_int_equal(mkdir(sf->path[NEW + i], 0700), 0);
                memset(&drives[i], 0, sizeof(drives[i]));
                memset(drives[i].id, 0xa0 + (int)i, sizeof(drives[i].id));
                drives[i].site = (struct eng_site){.node = NODE, .rack = NODE};
        }
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, df_all_in, NULL, 60));
}

static void reopen(struct sf *sf)
{
        struct eng_epoch_info info;
        unsigned i;

        sf_close(sf);
        assert_int_equal(eng_epoch_read(df_service.epoch, df_service.cluster.epoch_len, &info), 0);
        for (i = 0; i < info.slots; i++)
                df_service.paths[i] = sf->path[i];
        for (i = 0; i < info.slots; i++)
                rmdir(sf->path[i]); /* a node serves no folder that is not formatted */
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_ready(sf, 60));
}

static int report_of(struct sf *sf, uint64_t number, struct eng_hot_add_report *report)
{
        do {
                usleep(1000);
                assert_int_equal(eng_hot_add_read(sf->store, number, report), 0);
        } while (report->running);
        return report->rv;
}

/* As the node of that slot does: the folder, with the identity that the epoch gives it. */
static void format_slot(struct sf *sf, unsigned slot)
{
        struct eng_identity identity = {.slot = slot, .layout = FMT_LAYOUT_VERSION, .created_ms = 1};
        struct eng_epoch_info info;
        struct eng_error error;

        assert_int_equal(eng_epoch_read(df_service.epoch, df_service.cluster.epoch_len, &info), 0);
        assert_true(slot < info.slots && ((info.in | info.joining | info.gone) >> slot & 1) == 0);
        identity.features = info.features;
        memcpy(identity.store_id, df_service.cluster.store_id, ENG_ID_LEN);
        memcpy(identity.drive_id, info.slot[slot].drive_id, ENG_ID_LEN);
        assert_true(mkdir(sf->path[slot], 0700) == 0 || errno == EEXIST);
        if (eng_folder_format(sf->path[slot], &identity, df_service.epoch, df_service.cluster.epoch_len, &error) != 0)
                fail_msg("%s", error.text);
}

static bool all_rest(const struct eng_health *h, void *arg)
{
        const unsigned *in = arg;
        unsigned i;

        for (i = 0; i < h->drive_count; i++)
                if (h->drives[i].adding || h->drives[i].leaving || h->drives[i].filling || h->drives[i].dropping_migrated)
                        return false;
        return h->ready && h->writable && h->drives_in == *in && !h->healing && h->objects_below == 0;
}

static void rest(struct sf *sf, unsigned in)
{
        assert_true(sf_wait_health(sf, all_rest, &in, 180));
}

static void put_some(struct sf *sf, uint64_t bucket, unsigned from, unsigned step)
{
        unsigned i;

        for (i = from; i < DF_KEYS; i += step)
                assert_int_equal(sf_put(sf, i % 2, bucket, df_key(i), i, df_size(i), true, NULL), 0);
}

static void add_all(struct sf *sf, const struct eng_new_drive *drives)
{
        struct eng_hot_add_report report;
        uint64_t number;

        assert_int_equal(eng_drives_add(sf->store, drives, COUNT, &number), 0);
        assert_int_equal(report_of(sf, number, &report), 0);
        assert_int_equal(report.slot, NEW);
}

static void verify(struct sf *sf, uint64_t bucket, uint64_t shards_not_on)
{
        struct eng_verify_report *report = malloc(sizeof(*report));
        struct eng_heal_report *heal = malloc(2 * sizeof(*heal));
        unsigned i;

        eng_heal_read(sf->store, &heal[0], &heal[1]);
        assert_int_equal(heal[0].differing_names, 0); /* no member counted before it had all names */
        free(heal);
        so_verify(sf, report);
        for (i = 0; i < ENG_DRIVES_MAX; i++)
                if (shards_not_on >> i & 1)
                        assert_int_equal(report->digest[i].shards, 0);
        free(report);
        df_check_objects(sf, bucket);
}

/* The epoch names the slots while they are out; all become members by one epoch. */
static void test_add(void **state)
{
        struct eng_new_drive drives[COUNT];
        struct eng_epoch_info info;
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket, drives);
        add_all(&sf, drives);
        assert_int_equal(eng_epoch_read(df_service.epoch, df_service.cluster.epoch_len, &info), 0);
        assert_int_equal(info.slots, NEW + COUNT);
        assert_int_equal(info.adding, 7u << NEW);
        assert_int_equal((info.in | info.joining) >> NEW, 0);
        put_some(&sf, bucket, 0, 3);
        for (i = 0; i < COUNT; i++) {
                assert_int_equal(sf_view(&sf).map->adding, 7u << NEW);
                assert_int_equal(sf_view(&sf).in >> NEW, 0);
                format_slot(&sf, NEW + i);
                put_some(&sf, bucket, i, 5);
                if (i + 1 < COUNT)
                        usleep(300000);
        }
        rest(&sf, NEW + COUNT);
        assert_int_equal(sf_view(&sf).map->adding, 0);
        put_some(&sf, bucket, 1, 2);
        verify(&sf, bucket, 0);
        reopen(&sf);
        rest(&sf, NEW + COUNT);
        verify(&sf, bucket, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool joining_two(const struct eng_health *h, void *arg)
{
        return h->ready && h->drive_count == NEW + COUNT && h->drives[NEW].state == ENG_DRIVE_JOINING && strstr(h->drives[NEW].reason, "waits for the others") != NULL &&
               h->drives[NEW + 1].state == ENG_DRIVE_JOINING && strstr(h->drives[NEW + 1].reason, "waits for the others") != NULL;
}

/* The leader ends after the epoch, before the folders; again when two of three have caught up; and two of these fall out meanwhile. */
static void test_add_interrupted(void **state)
{
        struct eng_new_drive drives[COUNT];
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket, drives);
        add_all(&sf, drives);
        reopen(&sf);
        assert_int_equal(sf_view(&sf).map->adding, 7u << NEW);
        put_some(&sf, bucket, 0, 4);
        format_slot(&sf, NEW);
        format_slot(&sf, NEW + 1);
        assert_true(sf_wait_health(&sf, joining_two, NULL, 60));
        put_some(&sf, bucket, 1, 3);
        sf_ask(&sf, df_say_silent, NEW + 1);
        put_some(&sf, bucket, 2, 3);
        reopen(&sf);
        assert_true(sf_wait_health(&sf, joining_two, NULL, 60));
        assert_int_equal(sf_view(&sf).in >> NEW, 0);
        put_some(&sf, bucket, 3, 3);
        format_slot(&sf, NEW + 2);
        rest(&sf, NEW + COUNT);
        verify(&sf, bucket, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A folder that never comes: its slot is removed, and the others become members. */
static void test_add_without_one(void **state)
{
        struct eng_new_drive drives[COUNT];
        struct eng_hot_add_report report;
        uint64_t bucket, number;
        struct sf sf;

        begin(&sf, &bucket, drives);
        add_all(&sf, drives);
        format_slot(&sf, NEW);
        format_slot(&sf, NEW + 1);
        assert_true(sf_wait_health(&sf, joining_two, NULL, 60));
        assert_int_equal(eng_drives_remove(sf.store, 1u | 1u << (NEW + 2), &number), 0);
        assert_int_equal(report_of(&sf, number, &report), -EBUSY);
        assert_int_equal(eng_drives_remove(sf.store, 1u << (NEW + 2), &number), 0);
        assert_int_equal(report_of(&sf, number, &report), 0);
        rest(&sf, NEW + 2);
        put_some(&sf, bucket, 0, 2);
        verify(&sf, bucket, 1u << (NEW + 2));
        reopen(&sf);
        rest(&sf, NEW + 2);
        verify(&sf, bucket, 1u << (NEW + 2));
        sf_close(&sf);
        sf_remove(&sf);
}

/* One that has caught up is taken back while another has no folder yet: that one is no member before it has caught up, too. */
static void test_caught_up_and_taken_back(void **state)
{
        struct eng_new_drive drives[COUNT];
        struct eng_hot_add_report report;
        uint64_t bucket, number;
        struct sf sf;

        begin(&sf, &bucket, drives);
        put_some(&sf, bucket, 0, 1);
        add_all(&sf, drives);
        format_slot(&sf, NEW);
        format_slot(&sf, NEW + 1);
        assert_true(sf_wait_health(&sf, joining_two, NULL, 60));
        assert_int_equal(eng_drives_remove(sf.store, 1u << NEW, &number), 0);
        assert_int_equal(report_of(&sf, number, &report), 0);
        assert_int_equal(sf_view(&sf).map->adding, 6u << NEW);
        assert_int_equal(sf_view(&sf).in >> NEW, 0);
        df_check_objects(&sf, bucket);
        put_some(&sf, bucket, 1, 3);
        format_slot(&sf, NEW + 2);
        rest(&sf, NEW + 2);
        verify(&sf, bucket, 1u << NEW);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool first_waits(const struct eng_health *h, void *arg)
{
        return h->drive_count == NEW + COUNT && h->drives[NEW].state == ENG_DRIVE_JOINING && strstr(h->drives[NEW].reason, "waits for the others") != NULL;
}

/* The only one that has caught up is taken back: nobody brings up to date what has gone. */
static void test_first_is_taken_back(void **state)
{
        struct eng_new_drive drives[COUNT];
        struct eng_hot_add_report report;
        uint64_t bucket, number, epoch;
        struct sf sf;

        begin(&sf, &bucket, drives);
        add_all(&sf, drives);
        format_slot(&sf, NEW);
        assert_true(sf_wait_health(&sf, first_waits, NULL, 60));
        assert_int_equal(eng_drives_remove(sf.store, 1u << NEW, &number), 0);
        assert_int_equal(report_of(&sf, number, &report), 0);
        usleep(100000);
        epoch = sf_view(&sf).epoch;
        usleep(200000);
        assert_int_equal(sf_view(&sf).epoch, epoch);
        format_slot(&sf, NEW + 1);
        format_slot(&sf, NEW + 2);
        rest(&sf, NEW + 2);
        verify(&sf, bucket, 1u << NEW);
        sf_close(&sf);
        sf_remove(&sf);
}

static uint64_t say_silent(struct eng_store *store, uint64_t slots)
{
        for (; slots != 0; slots &= slots - 1)
                eng_slot_silent(store, (unsigned)__builtin_ctzll(slots), "the test says so");
        return 0;
}

/* 1: groups are lost, and no slot that is being added joins. */
static uint64_t lost_groups(struct eng_store *store, uint64_t arg)
{
        const struct eng_view *view = &store->coord->view;

        return view->lost == 0 ? 0 : (view->joining & view->map->adding) == 0 ? 1 : 2;
}

static void lose_groups(struct sf *sf)
{
        uint64_t lost = 0;

        sf_ask(sf, say_silent, 1u | 1u << 3 | 1u << 6);
        WAIT_UNTIL((lost = sf_ask(sf, lost_groups, 0)) != 0);
        assert_int_equal(lost, 1);
}

static bool groups_lost(const struct eng_health *h, void *arg)
{
        return h->ready && strstr(h->reason, "are lost") != NULL;
}

static bool nine_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DF_DRIVES;
}

/* Slots that are being added are no part of a pool of which more than half must go on: of nine there are six. */
static void test_groups_lost_meanwhile(void **state)
{
        struct eng_new_drive drives[COUNT];
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket, drives);
        df_service.cluster.may_lose = true;
        add_all(&sf, drives);
        sf_close(&sf);
        for (i = 0; i < 9; i += 3)
                df_service.paths[i] = "";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 60)); /* a leader that is new */
        reopen(&sf);
        assert_true(sf_wait_health(&sf, nine_in, NULL, 60));
        lose_groups(&sf);
        assert_int_equal(df_service.ended, 0);
        for (i = 0; i < COUNT; i++)
                format_slot(&sf, NEW + i);
        rest(&sf, NEW + COUNT);
        verify(&sf, bucket, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* Two that have caught up wait for a third when groups are lost: they begin anew when these are back. */
static void test_caught_up_and_groups_lost(void **state)
{
        struct eng_new_drive drives[COUNT];
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket, drives);
        df_service.cluster.may_lose = true;
        put_some(&sf, bucket, 0, 1);
        add_all(&sf, drives);
        format_slot(&sf, NEW);
        format_slot(&sf, NEW + 1);
        assert_true(sf_wait_health(&sf, joining_two, NULL, 60));
        lose_groups(&sf);
        assert_true(sf_wait_health(&sf, joining_two, NULL, 60));
        format_slot(&sf, NEW + 2);
        rest(&sf, NEW + COUNT);
        verify(&sf, bucket, 0);
        assert_int_equal(df_service.ended, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool one_out(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DF_DRIVES - 1;
}

/* A drive is lost, and another folder of its node takes the slot; the leader ends before it is formatted. */
static void test_exchange(void **state)
{
        struct eng_new_drive drives[COUNT];
        struct eng_hot_add_report report;
        uint64_t bucket, number;
        unsigned round;
        struct sf sf;

        begin(&sf, &bucket, drives);
        sf_ask(&sf, df_fail_drive, 4);
        so_move(&sf, 4, true);
        assert_int_equal(mkdir(sf.path[4], 0700), 0);
        assert_true(sf_wait_health(&sf, one_out, NULL, 60));
        assert_int_equal(eng_drive_exchange(sf.store, 4, &drives[0], &number), 0);
        assert_int_equal(report_of(&sf, number, &report), -EINVAL); /* another node's */
        drives[0].site = (struct eng_site){.node = 2, .rack = 2};
        assert_int_equal(eng_drive_exchange(sf.store, 3, &drives[0], &number), 0);
        assert_int_equal(report_of(&sf, number, &report), -EEXIST); /* in use */
        assert_int_equal(eng_drive_exchange(sf.store, 4, &drives[0], &number), 0);
        assert_int_equal(report_of(&sf, number, &report), 0);
        assert_true(report.replace);
        put_some(&sf, bucket, 0, 3);
        for (round = 0; round < 2; round++) {
                reopen(&sf);
                put_some(&sf, bucket, round, 3);
                if (round == 0)
                        format_slot(&sf, 4);
        }
        rest(&sf, DF_DRIVES);
        verify(&sf, bucket, 0);
        assert_int_equal(eng_drives_add(sf.store, drives, 1, &number), 0);
        assert_int_equal(report_of(&sf, number, &report), -EEXIST); /* a drive of the pool by now */
        sf_close(&sf);
        so_move(&sf, 0, true); /* what it was filled with is right, too */
        df_service.paths[0] = "";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 60));
        df_check_objects(&sf, bucket);
        sf_close(&sf);
        so_move(&sf, 0, false);
        sf_remove(&sf);
}

/* A node leaves with all its drives at once, whether they are there or not; the leader ends meanwhile. */
static void remove_node(bool dead)
{
        struct eng_new_drive drives[COUNT];
        struct eng_hot_add_report report;
        uint64_t bucket, number;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket, drives);
        assert_int_equal(eng_drives_remove(sf.store, 7, &number), 0);
        assert_int_equal(report_of(&sf, number, &report), -EINVAL); /* 4+2 on two nodes would not outlive one */
        add_all(&sf, drives);
        assert_int_equal(eng_drives_remove(sf.store, 7, &number), 0);
        assert_int_equal(report_of(&sf, number, &report), -EBUSY);
        for (i = 0; i < COUNT; i++)
                format_slot(&sf, NEW + i);
        rest(&sf, NEW + COUNT);
        for (i = 0; i < 3 && dead; i++) {
                sf_ask(&sf, df_fail_drive, i);
                so_move(&sf, i, true);
        }
        do {
                usleep(10000);
                assert_int_equal(eng_drives_remove(sf.store, 7, &number), 0);
        } while (report_of(&sf, number, &report) == -EBUSY);
        assert_int_equal(report.rv, 0);
        put_some(&sf, bucket, 0, 3);
        assert_int_equal(eng_drives_add(sf.store, drives, 1, &number), 0);
        assert_int_not_equal(report_of(&sf, number, &report), 0);
        reopen(&sf);
        put_some(&sf, bucket, 1, 3);
        rest(&sf, DF_DRIVES);
        assert_int_equal(sf_view(&sf).map->gone, 7);
        verify(&sf, bucket, 7);
        reopen(&sf);
        rest(&sf, DF_DRIVES);
        verify(&sf, bucket, 7);
        sf_close(&sf);
        for (i = 0; i < 3 && dead; i++)
                so_move(&sf, i, false);
        sf_remove(&sf);
}

static void test_remove_node(void **state)
{
        remove_node(false);
}

static void test_remove_dead_node(void **state)
{
        remove_node(true);
}

/* Two operators, a folder twice, more than there are slots, and a store that is no cluster's. */
static void test_refusals(void **state)
{
        struct eng_new_drive many[ENG_DRIVES_MAX], drives[COUNT];
        struct eng_hot_add_report report;
        uint64_t bucket, numbers[2];
        struct so_expected e;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket, drives);
        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                memset(&many[i], 0, sizeof(many[i]));
                many[i].id[0] = (uint8_t)(i + 1);
                many[i].site.node = NODE;
        }
        assert_int_equal(eng_drives_add(sf.store, many, 0, &numbers[0]), -EINVAL);
        assert_int_equal(eng_drives_add(sf.store, many, ENG_DRIVES_MAX, &numbers[0]), 0);
        assert_int_equal(report_of(&sf, numbers[0], &report), -EMFILE);
        many[1] = many[0];
        assert_int_equal(eng_drives_add(sf.store, many, 2, &numbers[0]), 0);
        assert_int_equal(report_of(&sf, numbers[0], &report), -EEXIST);
        assert_int_equal(eng_drives_remove(sf.store, 0, &numbers[0]), -EINVAL);
        assert_int_equal(eng_drives_remove(sf.store, 1ull << 40, &numbers[0]), 0);
        assert_int_equal(report_of(&sf, numbers[0], &report), -EINVAL);
        assert_int_equal(eng_drives_add(sf.store, drives, COUNT, &numbers[0]), 0);
        assert_int_equal(eng_drives_add(sf.store, drives, COUNT, &numbers[1]), 0);
        assert_int_equal(report_of(&sf, numbers[0], &report), 0);
        assert_int_not_equal(report_of(&sf, numbers[1], &report), 0);
        assert_int_equal(sf_view(&sf).map->drives, NEW + COUNT);
        sf_close(&sf);
        sf_remove(&sf);
        so_begin(&sf, 4, &bucket, &e);
        assert_int_equal(eng_drives_add(sf.store, drives, COUNT, &numbers[0]), 0);
        assert_int_equal(report_of(&sf, numbers[0], &report), -ENOTSUP);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_add),
                cmocka_unit_test(test_add_interrupted),
                cmocka_unit_test(test_add_without_one),
                cmocka_unit_test(test_caught_up_and_taken_back),
                cmocka_unit_test(test_first_is_taken_back),
                cmocka_unit_test(test_groups_lost_meanwhile),
                cmocka_unit_test(test_caught_up_and_groups_lost),
                cmocka_unit_test(test_exchange),
                cmocka_unit_test(test_remove_node),
                cmocka_unit_test(test_remove_dead_node),
                cmocka_unit_test(test_refusals),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
