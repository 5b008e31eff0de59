/*
 * A cluster's pool goes on without groups whose last current members are silent, and takes these in again
 * (docs/design/lost-groups.md). Slots 0, 3 and 6 lie on three nodes: some groups have a copy on each of
 * them, and nowhere else.
 */
#include <errno.h>
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

#include "engine/epoch/epoch.h"
#include "tests/lib/decided_fixture.h"

#define THREE ((eng_mask)(1u | 1u << 3 | 1u << 6))
#define NAMES 4u
#define SIZE  100u

/* Stands before all drives. owner: the loops, but for what is atomic */
static struct nodes {
        struct eng_drive_ops ops;
        const struct eng_drive_ops *real;
        _Atomic uint64_t silent;       /* slots that are not reached */
        _Atomic uint64_t no_commits;   /* slots that fall silent when they are sent a COMMIT */
        _Atomic uint64_t no_names;     /* slots that do not give their names now */
        _Atomic uint64_t lost_writes;  /* slots whose drives say that their logs lost their ends */
        _Atomic uint64_t damaged;      /* ... that their logs are damaged in the middle */
} nodes;

static char lost_keys[NAMES][24], other_keys[NAMES][24]; /* their groups lie on THREE, on none of them */

static void nodes_answered(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->done(op);
}

static void nodes_submit(struct eng_drive *drive, struct eng_op *op)
{
        const uint64_t bit = eng_bit(drive->slot);

        op->result = 0;
        if (op->kind == ENG_OP_COMMIT && (atomic_load(&nodes.no_commits) & bit) != 0)
                atomic_fetch_or(&nodes.silent, bit);
        if ((atomic_load(&nodes.silent) & bit) != 0)
                op->result = -EHOSTUNREACH;
        else if (op->kind == ENG_OP_SCAN && (atomic_load(&nodes.no_names) & bit) != 0)
                op->result = -EAGAIN;
        if (op->result == 0) {
                nodes.real->submit(drive, op);
                return;
        }
        op->msg.run = nodes_answered;
        lp_post(lp_self(), &op->msg);
}

static bool nodes_log_lost(struct eng_drive *drive)
{
        return (atomic_load(&nodes.lost_writes) & eng_bit(drive->slot)) != 0 || nodes.real->log_lost(drive);
}

static const char *nodes_damage(struct eng_drive *drive)
{
        return (atomic_load(&nodes.damaged) & eng_bit(drive->slot)) != 0 ? "the test says so" : nodes.real->damage(drive);
}

static uint64_t put_nodes(struct eng_store *store, uint64_t arg)
{
        unsigned i;

        for (i = 0; i < DF_DRIVES; i++) {
                struct eng_drive *drive = store->members[i].drive;

                if (drive == NULL)
                        continue;
                nodes.real = drive->ops;
                nodes.ops = *drive->ops;
                nodes.ops.submit = nodes_submit;
                nodes.ops.log_lost = nodes_log_lost;
                nodes.ops.damage = nodes_damage;
        }
        for (i = 0; i < DF_DRIVES; i++)
                if (store->members[i].drive != NULL)
                        store->members[i].drive->ops = &nodes.ops;
        return 0;
}

/* As the coordinator sees it: all at once. */
static uint64_t fall_silent(struct eng_store *store, uint64_t slots)
{
        unsigned i;

        atomic_fetch_or(&nodes.silent, slots);
        for (i = 0; i < DF_DRIVES; i++)
                if (slots & eng_bit(i))
                        eng_slot_silent(store, i, "the test says so");
        return 0;
}

static uint64_t lost_now(struct eng_store *store, uint64_t arg)
{
        return store->coord->view.lost;
}

static uint64_t in_now(struct eng_store *store, uint64_t arg)
{
        return store->coord->view.in;
}

static void find_keys(struct sf *sf, uint64_t bucket)
{
        const struct eng_view view = sf_view(sf);
        unsigned i, lost = 0, other = 0;

        for (i = 0; (lost < NAMES || other < NAMES) && i < 100000; i++) {
                char key[24];
                eng_mask members;

                snprintf(key, sizeof(key), "name%u", i);
                members = view.map->groups[eng_pg_of_key(sf->store->pg_count, bucket, key, strlen(key))].before;
                if (members == THREE && lost < NAMES)
                        memcpy(lost_keys[lost++], key, sizeof(key));
                else if ((members & THREE) == 0 && other < NAMES)
                        memcpy(other_keys[other++], key, sizeof(key));
        }
        assert_true(lost == NAMES && other == NAMES);
}

static void put_all(struct sf *sf, uint64_t bucket, char keys[NAMES][24], uint64_t seed, int rv)
{
        unsigned i;

        for (i = 0; i < NAMES; i++)
                assert_int_equal(sf_put(sf, i % 2, bucket, keys[i], seed + i, SIZE, true, NULL), rv);
}

static void get_all(struct sf *sf, uint64_t bucket, char keys[NAMES][24], uint64_t seed, int rv)
{
        unsigned i;

        for (i = 0; i < NAMES; i++)
                assert_int_equal(sf_get(sf, i % 2, bucket, keys[i], seed + i, SIZE), rv);
}

static int list_all(struct sf *sf, uint64_t bucket)
{
        bool more;
        int rv;

        free(sf_list(sf, 0, bucket, "", "", "", 100, &rv, &more));
        return rv;
}

static bool groups_lost(const struct eng_health *h, void *arg)
{
        return h->ready && strstr(h->reason, "are lost") != NULL;
}

static bool none_lost(const struct eng_health *h, void *arg)
{
        return h->ready && strstr(h->reason, "are lost") == NULL;
}

static bool is_ready(const struct eng_health *h, void *arg)
{
        return h->ready;
}

static bool whole(const struct eng_health *h, void *arg)
{
        return df_all_in(h, arg) && h->objects_below == 0;
}

static void begin(struct sf *sf, uint64_t *bucket)
{
        df_make(sf, bucket);
        memset(&nodes, 0, sizeof(nodes));
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, df_all_in, NULL, 60));
        find_keys(sf, *bucket);
        put_all(sf, *bucket, lost_keys, 100, 0);
        put_all(sf, *bucket, other_keys, 200, 0);
        sf_ask(sf, put_nodes, 0);
}

static void end(struct sf *sf, uint64_t bucket, uint64_t seed)
{
        atomic_store(&nodes.silent, 0);
        assert_true(sf_wait_health(sf, whole, NULL, 120));
        assert_int_equal(sf_ask(sf, lost_now, 0), 0);
        assert_false(atomic_load(&sf->store->unsettled_lost)); /* orphans may be collected again */
        get_all(sf, bucket, lost_keys, seed, 0);
        put_all(sf, bucket, lost_keys, 900, 0);
        get_all(sf, bucket, lost_keys, 900, 0);
        assert_int_equal(list_all(sf, bucket), 0);
        df_check_objects(sf, bucket);
        assert_int_equal(df_service.ended, 0);
        sf_close(sf);
        sf_remove(sf);
}

/* What the service says of the epoch: these are in, and enough to serve; the three are not. On the loop that proposes. */
static uint64_t is_epoch_of(struct eng_store *store, uint64_t in)
{
        const uint8_t *epoch = df_service.epoch;
        const size_t len = df_service.cluster.epoch_len;
        struct eng_epoch_info info;

        return eng_epoch_read(epoch, len, &info) == 0 && info.in == in && (info.joining | info.back) == 0 && eng_epoch_serves(epoch, len, in) == 1 &&
               eng_epoch_serves(epoch, len, THREE) == 0;
}

/* Three fall silent together. All else goes on; one of them is enough for reads, two for changes. */
static void test_lost_and_back(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        sf_ask(&sf, fall_silent, THREE);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        assert_true(sf_ask(&sf, is_epoch_of, eng_all_slots(DF_DRIVES) & ~THREE));
        get_all(&sf, bucket, lost_keys, 100, -EHOSTDOWN);
        put_all(&sf, bucket, lost_keys, 300, -EHOSTDOWN);
        get_all(&sf, bucket, other_keys, 200, 0);
        put_all(&sf, bucket, other_keys, 400, 0);
        assert_int_equal(list_all(&sf, bucket), -EHOSTDOWN);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EHOSTDOWN);
        atomic_store(&nodes.silent, THREE & ~1ull);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        get_all(&sf, bucket, lost_keys, 100, 0);
        put_all(&sf, bucket, lost_keys, 300, -EROFS); /* R5 */
        assert_int_equal(list_all(&sf, bucket), 0);
        get_all(&sf, bucket, other_keys, 400, 0);
        end(&sf, bucket, 100);
}

/* One that left earlier lacks what came since: it waits for one of those that left last. */
static void test_who_left_last(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        sf_ask(&sf, fall_silent, 1);
        put_all(&sf, bucket, lost_keys, 300, 0);
        assert_int_equal(sf_ask(&sf, in_now, 0) & 1, 0);
        sf_ask(&sf, fall_silent, THREE);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        atomic_store(&nodes.silent, THREE & ~1ull);
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 4));
        get_all(&sf, bucket, lost_keys, 300, -EHOSTDOWN);
        get_all(&sf, bucket, other_keys, 200, 0);
        atomic_store(&nodes.silent, 1u << 3);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        get_all(&sf, bucket, lost_keys, 300, 0);
        end(&sf, bucket, 300);
}

/* What is pending on the truth counts: it was acknowledged, and no COMMIT has come. */
static void test_pending(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        atomic_store(&nodes.no_commits, THREE);
        assert_int_equal(sf_put(&sf, 0, bucket, lost_keys[0], 300, SIZE, true, NULL), 0);
        atomic_store(&nodes.no_commits, 0);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        atomic_store(&sf.store->unsettled_lost, true); /* as of one whose members were all gone before it counted */
        atomic_store(&nodes.silent, THREE & ~(1ull << 6));
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        assert_true(atomic_load(&sf.store->unsettled_lost)); /* two others may have it, too */
        assert_int_equal(sf_get(&sf, 0, bucket, lost_keys[0], 300, SIZE), 0);
        atomic_store(&nodes.silent, 0);
        assert_true(sf_wait_health(&sf, whole, NULL, 120));
        assert_int_equal(sf_get(&sf, 0, bucket, lost_keys[0], 300, SIZE), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, lost_keys[0], 100, SIZE, true, NULL), 0);
        end(&sf, bucket, 100);
}

static bool third_joins(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives[0].state == ENG_DRIVE_JOINING;
}

/* A slot that catches up when its group is lost leaves with those that are silent, and is not promoted. */
static void test_joining(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        atomic_store(&nodes.no_names, 1);
        sf_ask(&sf, fall_silent, 1);
        put_all(&sf, bucket, lost_keys, 300, 0);
        atomic_store(&nodes.silent, 0);
        assert_true(sf_wait_health(&sf, third_joins, NULL, 30));
        sf_ask(&sf, fall_silent, THREE & ~1ull);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        assert_true(sf_ask(&sf, is_epoch_of, eng_all_slots(DF_DRIVES) & ~THREE));
        atomic_store(&nodes.no_names, 0);
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 3));
        get_all(&sf, bucket, lost_keys, 300, -EHOSTDOWN);
        atomic_store(&nodes.silent, 1u << 3);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        end(&sf, bucket, 300);
}

static bool is_back(const struct eng_health *h, void *sf)
{
        return third_joins(h, NULL) && sf_view(sf).back == 1;
}

/* One that is back answers before it is promoted; if it falls silent then, it alone knows what was read. */
static void test_back_and_gone(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        sf_ask(&sf, fall_silent, THREE);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        atomic_store(&nodes.no_names, 1);
        atomic_store(&nodes.silent, THREE & ~1ull);
        assert_true(sf_wait_health(&sf, is_back, &sf, 30));
        get_all(&sf, bucket, lost_keys, 100, 0);
        put_all(&sf, bucket, lost_keys, 300, -EROFS);
        assert_int_equal(sf_bucket_delete(&sf, "bucket"), -EHOSTDOWN);
        sf_ask(&sf, fall_silent, 1);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        atomic_store(&nodes.no_names, 0);
        atomic_store(&nodes.silent, 1);
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 4)); /* 3 and 6 left earlier now */
        get_all(&sf, bucket, lost_keys, 100, -EHOSTDOWN);
        end(&sf, bucket, 100);
}

static void wait_ended(struct sf *sf, uint64_t in)
{
        unsigned i;

        for (i = 0; i < 3000 && atomic_load(&df_service.ended) == 0; i++)
                usleep(10000);
        assert_true(atomic_load(&df_service.ended) > 0);
        assert_true(sf_ask(sf, is_epoch_of, in));
        sf_close(sf);
        sf_remove(sf);
}

/* Of nine, six go on, and two more are then too many: five have to remain. */
static void test_half_in_two_steps(void **state)
{
        const eng_mask six = eng_all_slots(DF_DRIVES) & ~THREE;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        sf_ask(&sf, fall_silent, THREE);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        assert_true(sf_ask(&sf, is_epoch_of, six));
        sf_ask(&sf, fall_silent, THREE | 1u << 1 | 1u << 4);
        wait_ended(&sf, six);
}

static bool eight_is_out(const struct eng_health *h, void *arg)
{
        return h->drives[8].state == ENG_DRIVE_MISSING;
}

static bool eight_is_in(const struct eng_health *h, void *arg)
{
        return h->drives[8].state == ENG_DRIVE_IN;
}

/* One of three truths lost writes, and another what was in the middle of its log: they wait for the third. */
static void test_truth_that_lost_writes(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        sf_ask(&sf, fall_silent, THREE);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        atomic_store(&nodes.lost_writes, 1);
        atomic_store(&nodes.damaged, 1u << 3);
        atomic_store(&nodes.silent, THREE & ~(1ull | 1u << 3));
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 4));
        get_all(&sf, bucket, lost_keys, 100, -EHOSTDOWN);
        atomic_store(&nodes.silent, 0);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        get_all(&sf, bucket, lost_keys, 100, 0);
        end(&sf, bucket, 100);
}

/*
 * Those that left last lost writes: one that left before them is no truth for that. A leader that is new, and to
 * which they say nothing of it, has it from the epoch.
 */
static void test_verdict(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        sf_ask(&sf, fall_silent, 1);
        put_all(&sf, bucket, lost_keys, 300, 0);
        sf_ask(&sf, fall_silent, THREE);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        atomic_store(&nodes.lost_writes, 1u << 3 | 1u << 6);
        atomic_store(&nodes.silent, 0);
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 4));
        get_all(&sf, bucket, lost_keys, 300, -EHOSTDOWN);
        sf_ask(&sf, fall_silent, 1u << 8); /* an epoch, which has the verdict */
        assert_true(sf_wait_health(&sf, eight_is_out, NULL, 30));
        atomic_store(&nodes.silent, 0);
        assert_true(sf_wait_health(&sf, eight_is_in, NULL, 60));
        sf_close(&sf);
        atomic_store(&nodes.lost_writes, 0);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 60));
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 4));
        get_all(&sf, bucket, lost_keys, 300, -EHOSTDOWN);
        get_all(&sf, bucket, other_keys, 200, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A leader that is new: at first it waits for what is missing; then groups are lost; the next one knows the truth. */
static void test_starts(void **state)
{
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket);
        sf_close(&sf);
        for (i = 0; i < DF_DRIVES; i++)
                df_service.paths[i] = THREE & eng_bit(i) ? "" : sf.path[i];
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_stays_otherwise(&sf, is_ready, NULL, 3));
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 60));
        get_all(&sf, bucket, lost_keys, 100, -EHOSTDOWN);
        put_all(&sf, bucket, other_keys, 400, 0);
        sf_close(&sf);
        df_service.paths[6] = sf.path[6];
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 8)); /* nothing is waited for: what is lost was lost before */
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        get_all(&sf, bucket, lost_keys, 100, 0);
        get_all(&sf, bucket, other_keys, 400, 0);
        sf_close(&sf);
        for (i = 0; i < DF_DRIVES; i++)
                df_service.paths[i] = sf.path[i];
        assert_int_equal(sf_open(&sf, false), 0);
        end(&sf, bucket, 100);
}

/* Half of the slots are too few: another process may reach the others. */
static void test_half(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        sf_ask(&sf, fall_silent, THREE | 1u << 1 | 1u << 4);
        wait_ended(&sf, eng_all_slots(DF_DRIVES));
}

static uint64_t say_gone(struct eng_store *store, uint64_t slots)
{
        store->coord->said_gone = slots;
        return 0;
}

/* What a decided epoch has removed that did not come into force makes no majority with who is left. */
static void test_half_of_what_is_not_removed(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        sf_ask(&sf, say_gone, 7u << 6);
        sf_ask(&sf, fall_silent, 1u | 1u << 1 | 1u << 3);
        wait_ended(&sf, eng_all_slots(DF_DRIVES));
}

static uint64_t catches_up(struct eng_store *store, uint64_t arg)
{
        return store->coord->catch_up != NULL;
}

static bool six_is_removed(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives[6].state == ENG_DRIVE_REMOVED && strstr(h->reason, "are lost") == NULL;
}

static void wait_catch_up(struct sf *sf, uint64_t wanted)
{
        unsigned i;

        for (i = 0; i < 3000 && sf_ask(sf, catches_up, 0) != wanted; i++)
                usleep(10000);
        assert_int_equal(sf_ask(sf, catches_up, 0), wanted);
}

/* What gains groups of a slot that is removed has no source for those that are lost: it stops, and a truth is taken in. */
static void test_removal(void **state)
{
        uint64_t bucket, number;
        struct sf sf;

        begin(&sf, &bucket);
        atomic_store(&nodes.no_names, eng_all_slots(DF_DRIVES));
        assert_int_equal(eng_drive_remove(sf.store, 6, &number), 0);
        wait_catch_up(&sf, 1);
        sf_ask(&sf, fall_silent, THREE);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        wait_catch_up(&sf, 0);
        atomic_store(&nodes.silent, THREE & ~1ull);
        wait_catch_up(&sf, 1);
        atomic_store(&nodes.no_names, 0);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        get_all(&sf, bucket, lost_keys, 100, 0);
        atomic_store(&nodes.silent, 0);
        assert_true(sf_wait_health(&sf, six_is_removed, NULL, 120));
        get_all(&sf, bucket, lost_keys, 100, 0);
        df_check_objects(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
}

static bool seven_is_out(const struct eng_health *h, void *arg)
{
        return h->drives[7].state == ENG_DRIVE_MISSING;
}

static void force(struct sf *sf, uint64_t slots)
{
        struct eng_force_report report = {.running = true};
        uint64_t number;
        unsigned i;

        assert_int_equal(eng_force(sf->store, slots, &number), 0);
        for (i = 0; i < 3000 && report.running; i++) {
                assert_int_equal(eng_force_read(sf->store, number, &report), 0);
                usleep(10000);
        }
        assert_false(report.running);
        assert_string_equal(report.text, "");
        assert_int_equal(report.rv, 0);
}

/* Each may be given up; what else is named is not. */
static void check_outlook(struct sf *sf, uint64_t missed, uint64_t doubted)
{
        struct eng_outlook outlook;
        char why[200];
        unsigned i;

        for (i = 0; i < 500; i++) { /* health is looked at from time to time */
                eng_outlook_read(sf->store, &outlook);
                if (outlook.losing && outlook.missed == missed && outlook.doubted == doubted)
                        break;
                usleep(10000);
        }
        assert_int_equal(outlook.missed, missed);
        assert_int_equal(outlook.doubted, doubted);
        assert_true(outlook.losing && outlook.lost > 0 && outlook.lost <= outlook.groups);
        for (i = 0; i < DF_DRIVES; i++) {
                eng_outlook_refuse(&outlook, eng_bit(i), why);
                assert_int_equal(why[0] == '\0', (missed >> i & 1) != 0);
                assert_int_equal(outlook.waits[i] > 0, (missed >> i & 1) != 0);
        }
        eng_outlook_refuse(&outlook, missed, why);
        assert_string_equal(why, "");
        eng_outlook_refuse(&outlook, 0, why);
        assert_string_not_equal(why, "");
}

static bool all_but_one_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DF_DRIVES - 1;
}

static bool at_rest(const struct eng_health *h, void *arg)
{
        return all_but_one_in(h, arg) && !h->healing && h->objects_below == 0;
}

static bool six_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == 6;
}

static bool six_is_out(const struct eng_health *h, void *arg)
{
        return h->drives[6].state == ENG_DRIVE_MISSING;
}

static uint64_t gained_now(struct eng_store *store, uint64_t arg)
{
        return store->coord->gained;
}

static uint64_t gone_now(struct eng_store *store, uint64_t arg)
{
        return store->coord->shape.gone;
}

/* As behind a walk that found no shard on the slot that leaves; or no walk says so for now. */
static uint64_t set_drained(struct eng_store *store, uint64_t drained)
{
        store->coord->drained = drained != 0;
        store->coord->asking_readers = drained == 0;
        return 0;
}

static struct eng_group group_of(struct sf *sf, uint64_t bucket, const char *key)
{
        return sf_view(sf).map->groups[eng_pg_of_key(sf->store->pg_count, bucket, key, strlen(key))];
}

/* A name that comes to this slot of 7 and 8 when 6 is removed. */
static void put_for(struct sf *sf, uint64_t bucket, char key[24], unsigned slot, uint64_t seed)
{
        unsigned i, at;

        for (i = 0; i < 100000; i++) {
                const uint16_t *order;

                snprintf(key, 24, "slot%u.%u", slot, i);
                order = eng_placement_order(sf_view(sf).map, eng_pg_of_key(sf->store->pg_count, bucket, key, strlen(key)));
                for (at = 0; order[at] != 7 && order[at] != 8; at++)
                        ;
                if (group_of(sf, bucket, key).before == THREE && order[at] == slot)
                        break;
        }
        assert_int_equal(sf_put(sf, 0, bucket, key, seed, SIZE, true, NULL), 0);
}

/* Slot 6 is dead, and is removed: 7 has what comes to it, 8 does not give its names, and lacks one of the lost keys. */
static void begin_removal(struct sf *sf, uint64_t *bucket)
{
        uint64_t number;
        unsigned i;

        begin(sf, bucket);
        put_for(sf, *bucket, lost_keys[0], 8, 100);
        put_for(sf, *bucket, lost_keys[1], 7, 101);
        atomic_store(&nodes.no_names, 1u << 8);
        sf_ask(sf, fall_silent, 1u << 6);
        assert_true(sf_wait_health(sf, six_is_out, NULL, 30));
        assert_int_equal(eng_drive_remove(sf->store, 6, &number), 0);
        for (i = 0; i < 3000 && sf_ask(sf, gained_now, 0) != 1u << 7; i++)
                usleep(10000);
        assert_int_equal(sf_ask(sf, gained_now, 0), 1u << 7);
        wait_catch_up(sf, 1);
        sf_ask(sf, set_drained, 1);
        assert_true(group_of(sf, *bucket, lost_keys[0]).after == (1u | 1u << 3 | 1u << 8));
        assert_true(group_of(sf, *bucket, lost_keys[1]).after == (1u | 1u << 3 | 1u << 7));
}

static void end_removal(struct sf *sf, uint64_t bucket)
{
        get_all(sf, bucket, lost_keys, 100, 0);
        assert_true(sf_wait_health(sf, six_is_removed, NULL, 120));
        get_all(sf, bucket, lost_keys, 100, 0);
        df_check_objects(sf, bucket);
        assert_int_equal(df_service.ended, 0);
        sf_close(sf);
        sf_remove(sf);
}

/* The last that is yet to gain groups falls silent while these are lost: the removal does not end with it, and makes it no truth. */
static void test_removal_waits(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin_removal(&sf, &bucket);
        sf_ask(&sf, fall_silent, 1u | 1u << 3);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        wait_catch_up(&sf, 0);
        sf_ask(&sf, fall_silent, 1u << 8);
        assert_true(sf_wait_health(&sf, eight_is_out, NULL, 30));
        usleep(300000);
        assert_int_equal(sf_ask(&sf, gone_now, 0), 0);
        atomic_store(&nodes.no_names, 0);
        atomic_store(&nodes.silent, 1u << 6);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        end_removal(&sf, bucket);
}

/* Members of one lost group that another is yet to come to, and the other way round: neither waits for the other. */
static void test_no_circle_in_a_removal(void **state)
{
        uint64_t bucket, number;
        struct sf sf;

        begin(&sf, &bucket);
        atomic_store(&nodes.no_names, eng_all_slots(DF_DRIVES));
        sf_ask(&sf, fall_silent, 1u << 6);
        assert_true(sf_wait_health(&sf, six_is_out, NULL, 30));
        assert_int_equal(eng_drive_remove(sf.store, 6, &number), 0);
        wait_catch_up(&sf, 1);
        sf_ask(&sf, fall_silent, 1u | 1u << 3);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        sf_ask(&sf, fall_silent, 1u << 7);
        usleep(300000);
        atomic_store(&nodes.no_names, 0);
        atomic_store(&nodes.silent, 1u << 6);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        end_removal(&sf, bucket);
}

/* What fell silent before it had gained its groups, together with one that has them, is no truth of these when the other is given up. */
static void test_never_gained(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin_removal(&sf, &bucket);
        sf_ask(&sf, fall_silent, 1u << 3 | 1u << 8);
        assert_true(sf_wait_health(&sf, six_is_removed, NULL, 60));
        sf_ask(&sf, fall_silent, 1);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        check_outlook(&sf, 1, 0);
        force(&sf, 1);
        atomic_store(&nodes.no_names, 0);
        atomic_store(&nodes.silent, 1u << 3 | 1u << 6);
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 4));
        atomic_store(&nodes.silent, 1u << 6);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        end_removal(&sf, bucket);
}

/* Those that left last are gone for good: by the operator's word, who left before them is the truth. They stay out. */
static void test_given_up(void **state)
{
        uint64_t bucket, number;
        struct sf sf;

        begin(&sf, &bucket);
        sf_ask(&sf, fall_silent, 1);
        put_all(&sf, bucket, lost_keys, 300, 0);
        sf_ask(&sf, fall_silent, THREE);
        assert_true(sf_wait_health(&sf, groups_lost, NULL, 30));
        atomic_store(&nodes.silent, THREE & ~1ull);
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 3));
        check_outlook(&sf, THREE & ~1ull, 0);
        assert_int_equal(eng_force(sf.store, 1u << 4, &number), 0); /* one that is in */
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 1));
        force(&sf, 1u << 3);
        assert_true(sf_stays_otherwise(&sf, none_lost, NULL, 2));
        check_outlook(&sf, 1u << 6, 0);
        force(&sf, 1u << 6);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        get_all(&sf, bucket, lost_keys, 100, 0);
        atomic_store(&nodes.silent, 0);
        assert_true(sf_stays_otherwise(&sf, whole, NULL, 4));
        get_all(&sf, bucket, lost_keys, 100, 0);
        assert_int_equal(list_all(&sf, bucket), 0);
        sf_close(&sf);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        assert_int_equal(sf_ask(&sf, in_now, 0) & (1u << 3 | 1u << 6), 0);
        get_all(&sf, bucket, lost_keys, 100, 0);
        df_check_objects(&sf, bucket);
        assert_int_equal(df_service.ended, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* THREE fall silent, and are back; their drives say that their logs lost their ends. */
static void all_come_back_doubted(struct sf *sf)
{
        sf_ask(sf, fall_silent, THREE);
        assert_true(sf_wait_health(sf, groups_lost, NULL, 30));
        atomic_store(&nodes.lost_writes, THREE);
        atomic_store(&nodes.silent, 0);
        assert_true(sf_stays_otherwise(sf, none_lost, NULL, 3));
}

/* All truths lost writes: by the operator's word, one of them is believed as it is. */
static void test_believed(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        all_come_back_doubted(&sf);
        check_outlook(&sf, THREE, THREE);
        force(&sf, 1u << 3);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        get_all(&sf, bucket, lost_keys, 100, 0);
        assert_true(sf_wait_health(&sf, whole, NULL, 120));
        atomic_store(&nodes.lost_writes, 0);
        all_come_back_doubted(&sf); /* the operator has said nothing of this */
        check_outlook(&sf, THREE, THREE);
        force(&sf, 1u << 3);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        end(&sf, bucket, 100);
}

/* Whom a leader believes that begins with what etcd has. */
static uint64_t next_believes(struct eng_store *store, uint64_t arg)
{
        struct eng_coord *next = calloc(1, sizeof(*next));
        const struct eng_member etcd = {.epoch = df_service.epoch, .epoch_len = df_service.cluster.epoch_len};
        eng_mask believed;

        assert(next != NULL);
        next->store = store;
        eng_lost_load(next, &etcd);
        believed = next->believed;
        assert(next->view.left[0] < 1u << 20); /* a number, and nothing above it */
        free(next);
        return believed;
}

/* The word is kept for whoever leads next, until the slot is in. */
static void test_believed_by_the_next(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        atomic_store(&nodes.no_names, 1);
        all_come_back_doubted(&sf);
        assert_int_equal(sf_ask(&sf, next_believes, 0), 0);
        force(&sf, 1);
        assert_int_equal(sf_ask(&sf, next_believes, 0), 1);
        assert_true(sf_wait_health(&sf, is_back, &sf, 30));
        assert_int_equal(sf_ask(&sf, next_believes, 0), 1);
        atomic_store(&nodes.no_names, 0);
        assert_true(sf_wait_health(&sf, none_lost, NULL, 60));
        assert_int_equal(sf_ask(&sf, next_believes, 0), 0);
        end(&sf, bucket, 100);
}

static void check_no_differing(struct sf *sf)
{
        struct eng_heal_report *heal = malloc(2 * sizeof(*heal));

        eng_heal_read(sf->store, &heal[0], &heal[1]);
        assert_int_equal(heal[0].differing_names, 0);
        free(heal);
}

/* What had gained its groups, and was out since, gains them anew: changes have come meanwhile. */
static void test_gained_and_gone(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin_removal(&sf, &bucket);
        sf_ask(&sf, fall_silent, 1u << 7);
        assert_true(sf_wait_health(&sf, seven_is_out, NULL, 30));
        sf_ask(&sf, set_drained, 0);
        put_all(&sf, bucket, lost_keys, 300, 0);
        atomic_store(&nodes.no_names, 0);
        atomic_store(&nodes.silent, 1u << 6);
        assert_true(sf_wait_health(&sf, all_but_one_in, NULL, 60));
        sf_ask(&sf, set_drained, 1);
        assert_true(sf_wait_health(&sf, six_is_removed, NULL, 120));
        assert_true(sf_wait_health(&sf, at_rest, NULL, 120));
        check_no_differing(&sf); /* no member counted before it had all names */
        sf_ask(&sf, fall_silent, 1u | 1u << 3);
        assert_true(sf_wait_health(&sf, six_in, NULL, 30));
        get_all(&sf, bucket, lost_keys, 300, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* What the service says of slot 8. 0: it does not join; 1: it does; 2: and is filling. On the loop that proposes. */
static uint64_t eight_joins(struct eng_store *store, uint64_t arg)
{
        struct eng_epoch_info info;

        if (eng_epoch_read(df_service.epoch, df_service.cluster.epoch_len, &info) != 0 || info.joining != 1u << 8)
                return 0;
        return info.filling == 1u << 8 ? 2 : 1;
}

/* Of a log that lost its end shards may be gone, too, though its drive only did not answer: its slot is filling when it joins. */
static void test_filling(void **state)
{
        uint64_t bucket, joins = 0;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket);
        sf_ask(&sf, fall_silent, 1u << 8);
        assert_true(sf_wait_health(&sf, eight_is_out, NULL, 30));
        atomic_store(&nodes.no_names, 1u << 8);
        atomic_store(&nodes.lost_writes, 1u << 8);
        atomic_store(&nodes.silent, 0);
        for (i = 0; i < 3000 && joins == 0; i++) {
                usleep(10000);
                joins = sf_ask(&sf, eight_joins, 0);
        }
        assert_int_equal(joins, 2);
        atomic_store(&nodes.no_names, 0);
        end(&sf, bucket, 100);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lost_and_back), cmocka_unit_test(test_who_left_last), cmocka_unit_test(test_pending),
                cmocka_unit_test(test_joining),       cmocka_unit_test(test_back_and_gone), cmocka_unit_test(test_truth_that_lost_writes),
                cmocka_unit_test(test_verdict),       cmocka_unit_test(test_starts),
                cmocka_unit_test(test_half),          cmocka_unit_test(test_half_in_two_steps), cmocka_unit_test(test_half_of_what_is_not_removed),
                cmocka_unit_test(test_given_up),      cmocka_unit_test(test_believed),     cmocka_unit_test(test_believed_by_the_next),
                cmocka_unit_test(test_removal),
                cmocka_unit_test(test_removal_waits), cmocka_unit_test(test_no_circle_in_a_removal), cmocka_unit_test(test_never_gained), cmocka_unit_test(test_gained_and_gone),
                cmocka_unit_test(test_filling),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
