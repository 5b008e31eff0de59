/*
 * The walk of all names (heal.c, walk_worker.c): it repairs while it still looks, goes on after a
 * restart, and looks at groups that somebody has found damage in.
 */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/drive/local.h"
#include "engine/walk/kept.h"
#include "engine/upkeep/upkeep.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define OBJECTS 48u
#define SIZE    (3u << 20)
#define LARGE   (64u << 20)
#define VICTIM  0u

static const char *key_of(unsigned i)
{
        static char key[16];

        snprintf(key, sizeof(key), "k%u", i);
        return key;
}

static void put_objects(struct sf *sf, uint64_t bucket)
{
        unsigned i;

        for (i = 0; i < OBJECTS; i++)
                assert_int_equal(sf_put(sf, i % 2, bucket, key_of(i), i + 1, SIZE, true, NULL), 0);
}

static void check_objects(struct sf *sf, uint64_t bucket)
{
        unsigned i;

        for (i = 0; i < OBJECTS; i++)
                assert_int_equal(sf_get(sf, i % 2, bucket, key_of(i), i + 1, SIZE), 0);
}

static void nothing_is_missing(struct sf *sf)
{
        struct eng_verify_report *report = malloc(sizeof(*report));

        assert_non_null(report);
        so_verify(sf, report);
        assert_int_equal(report->objects, OBJECTS);
        free(report);
}

/* Some object was given its shards. */
static bool some_done(const struct eng_health *h, void *arg)
{
        return h->rebuilt_objects > 0;
}

/* What has been given back in the time since the walk began. */
static bool has_pace(const struct eng_health *h, void *arg)
{
        return h->healing && h->heal_pace > 0;
}

static bool at_rest(const struct eng_health *h, void *arg)
{
        return so_whole(h, arg) && !h->collecting_orphans;
}

/* A walk has come to its end in this run, and left nothing. */
static bool is_walked(const struct eng_health *h, void *arg)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report));
        struct sf *sf = arg;
        bool walked;

        assert_non_null(report);
        eng_heal_read(sf->store, &report[0], &report[1]);
        walked = report[0].surveyed && !report[0].running && report[0].looked_at == OBJECTS; /* else it was cut off, and another begins */
        free(report);
        return walked && h->drives_in == 4 && at_rest(h, NULL);
}

/*
 * Objects that lack shards are given them while others have not been looked at. A walk that a
 * restart cuts off is begun anew, and leaves nothing.
 */
static void test_repairs_while_it_looks(void **state)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        uint64_t bucket;
        struct sf sf;

        assert_non_null(report);
        sf_make(&sf, 4, 2);
        sf.options.heal_rate = 1 << 20; /* it takes seconds */
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        sf_close(&sf);
        sf_give(&sf, 0xe);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        put_objects(&sf, bucket);
        sf_close(&sf);

        sf_give(&sf, 0xf);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, some_done, NULL, 60));
        eng_heal_read(sf.store, &report[0], &report[1]);
        assert_true(report[0].running && !report[0].surveyed);
        assert_true(report[0].done_objects > 0 && report[0].looked_at < OBJECTS);
        assert_int_equal(report[0].todo_objects, report[0].looked_at); /* so far */
        assert_int_equal(sf.store->pacer.rate, 1 << 20);               /* what is set holds */
        assert_true(sf_wait_health(&sf, has_pace, NULL, 60));
        sf_close(&sf);

        sf.options.heal_rate = 1 << 30;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        assert_true(sf_wait_health(&sf, is_walked, &sf, 60));
        nothing_is_missing(&sf);
        check_objects(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
        free(report);
}

/*
 * Shards that a drive has lost without a word. owner: test until posted, then loop 0 until left is
 * 0
 */
struct loss {
        struct lp_msg msg;
        struct sf *sf;
        struct eng_op ids;
        struct one {
                struct eng_op op;      /* first */
                struct loss *loss;
        } discards[2 * OBJECTS];
        unsigned lost;
        atomic_uint left;
};

static void discarded(struct eng_op *op)
{
        assert_int_equal(op->result, 0);
        atomic_fetch_sub(&((struct one *)op)->loss->left, 1);
}

static void ids_known(struct eng_op *op)
{
        struct loss *loss = container_of(op, struct loss, ids);
        const struct eng_held_id *held = (const void *)op->ids.ids->data;
        uint32_t i;

        assert_int_equal(op->result, 0);
        assert_true(op->ids.count > 0 && op->ids.count <= 2 * OBJECTS);
        loss->lost = op->ids.count;
        atomic_store(&loss->left, op->ids.count);
        for (i = 0; i < op->ids.count; i++) {
                struct one *one = &loss->discards[i];

                one->loss = loss;
                one->op.kind = ENG_OP_DISCARD;
                one->op.epoch = op->epoch;
                one->op.done = discarded;
                memcpy(one->op.discard.object_id, held[i].id, FMT_ID);
                eng_drive_submit(loss->sf->store->members[VICTIM].drive, &one->op);
        }
        eng_buf_unref(op->ids.ids);
}

static void ask_ids(struct lp_msg *msg)
{
        struct loss *loss = (struct loss *)msg;

        loss->ids.kind = ENG_OP_IDS;
        loss->ids.epoch = loss->sf->store->loops[0].view.epoch;
        loss->ids.done = ids_known;
        loss->ids.ids.max = ENG_IDS_MAX;
        eng_drive_submit(loss->sf->store->members[VICTIM].drive, &loss->ids);
}

static bool is_found(const struct eng_health *h, void *arg)
{
        return h->rebuilt_objects >= ((struct loss *)arg)->lost;
}

static bool nothing_left(const struct eng_health *h, void *arg)
{
        return atomic_load(&((struct loss *)arg)->left) == 0;
}

/* Stands before the drive that has lost shards, and refuses those that are written to it for a while. */
static struct refuser {
        struct eng_drive_ops ops;
        const struct eng_drive_ops *real;
        atomic_bool refuses;
        atomic_uint refused;
} refuser;

static void refuser_answered(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->done(op);
}

static void refuser_submit(struct eng_drive *drive, struct eng_op *op)
{
        if (op->kind != ENG_OP_WRITE || !atomic_load(&refuser.refuses)) {
                refuser.real->submit(drive, op);
                return;
        }
        atomic_fetch_add(&refuser.refused, 1);
        op->result = -EAGAIN;
        op->msg.run = refuser_answered;
        lp_post(lp_self(), &op->msg);
}

static uint64_t put_refuser(struct eng_store *store, uint64_t slot)
{
        struct eng_drive *drive = store->members[slot].drive;

        memset(&refuser, 0, sizeof(refuser));
        refuser.real = drive->ops;
        refuser.ops = *drive->ops;
        refuser.ops.submit = refuser_submit;
        atomic_store(&refuser.refuses, true);
        drive->ops = &refuser.ops;
        return 0;
}

static bool still_heals(const struct eng_health *h, void *arg)
{
        return h->healing;
}

/*
 * A drive does not hold what records name on it, and is not known to lack it: who finds out asks
 * for the groups. fails: at first none of them can be repaired.
 */
static void asked_for(bool fails)
{
        struct loss *loss = calloc(1, sizeof(*loss));
        uint32_t pg, groups;
        uint64_t bucket;
        struct sf sf;

        assert_non_null(loss);
        sf_make(&sf, 4, 2);
        sf.options.heal_again_ms = 500;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        put_objects(&sf, bucket);
        sf_close(&sf);
        assert_int_equal(sf_open(&sf, false), 0); /* all ids are in the index */
        assert_true(sf_wait_health(&sf, at_rest, NULL, 60));
        loss->sf = &sf;
        loss->msg.run = ask_ids;
        atomic_store(&loss->left, 1);
        lp_post(sf.loops[0], &loss->msg);
        assert_true(sf_wait_health(&sf, nothing_left, loss, 30));
        if (fails)
                sf_ask(&sf, put_refuser, VICTIM);
        groups = sf.store->pg_count;
        for (pg = 0; pg <= groups; pg++) /* the last is none of the store's groups */
                eng_upkeep_group(sf.store, pg);
        if (fails) {
                assert_true(sf_stays_otherwise(&sf, is_found, loss, 2));
                assert_true(atomic_load(&refuser.refused) > 0);
                assert_true(sf_wait_health(&sf, still_heals, NULL, 1));
                atomic_store(&refuser.refuses, false);
        }
        assert_true(sf_wait_health(&sf, is_found, loss, 60));
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        nothing_is_missing(&sf);
        check_objects(&sf, bucket);
        sf_close(&sf);
        sf_remove(&sf);
        free(loss);
}

static void test_groups_that_are_asked_for(void **state)
{
        asked_for(false);
}

/* Nobody has to ask again, nor does the next day's walk have to come. */
static void test_asked_for_and_failed(void **state)
{
        asked_for(true);
}

/* owner: test until posted, then loop 0 until begun */
struct again {
        struct lp_msg msg;
        struct eng_store *store;
        sem_t begun;
};

static void walk_again(struct lp_msg *msg)
{
        struct again *again = (struct again *)msg;

        eng_heal_consider(again->store);
        sem_post(&again->begun);
}

/* The walk after one that left nothing begins at the beginning. */
static void test_every_walk_looks_at_all(void **state)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        struct again again = {.msg.run = walk_again};
        unsigned round;
        uint64_t bucket;
        struct sf sf;

        assert_non_null(report);
        sf_make(&sf, 4, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        put_objects(&sf, bucket);
        sem_init(&again.begun, 0, 0);
        again.store = sf.store;
        for (round = 0; round < 3; round++) {
                assert_true(sf_wait_health(&sf, at_rest, NULL, 60));
                lp_post(sf.loops[0], &again.msg);
                while (sem_wait(&again.begun) != 0)
                        ;
                assert_true(sf_wait_health(&sf, at_rest, NULL, 60));
                eng_heal_read(sf.store, &report[0], &report[1]);
                assert_true(report[0].surveyed && !report[0].running);
                assert_int_equal(report[0].looked_at, OBJECTS);
                assert_int_equal(report[0].below + report[0].failed_objects + report[0].differing_names, 0);
        }
        sem_destroy(&again.begun);
        sf_close(&sf);
        sf_remove(&sf);
        free(report);
}

/* A walk begins while drives seem to hold much. owner: loop 0 until chosen, then the test */
struct choice {
        struct lp_msg msg;
        struct eng_store *store;
        eng_mask filling;
        uint64_t rate;
        sem_t chosen;
};

/* The drives of this loop cannot count anew in between. */
static void choose_now(struct lp_msg *msg)
{
        struct choice *choice = (struct choice *)msg;
        struct eng_store *store = choice->store;
        unsigned i;

        for (i = 0; i < store->drive_count; i++) {
                struct eng_drive *drive = store->members[i].local;

                if (drive->owner == store->loops[0].loop)
                        atomic_store(&eng_local_of(drive)->statistics.data_bytes,
                                     20ull * 1000 * 1000 * 1000 * 1000 - atomic_load(&eng_local_of(drive)->statistics.log_bytes));
        }
        store->coord->filling |= choice->filling;
        eng_heal_consider(store);
        choice->rate = atomic_load(&store->pacer.rate);
        sem_post(&choice->chosen);
}

static bool at_least_rate(const struct eng_health *h, void *arg)
{
        struct sf *sf = arg;

        return !h->healing && atomic_load(&sf->store->pacer.rate) == ENG_HEAL_RATE;
}

/*
 * Where no rate is set it follows from what drives hold and how many are being filled, until they
 * are full; one that is set stays.
 */
static void test_the_rate_follows_from_what_drives_hold(void **state)
{
        struct choice choice = {.msg.run = choose_now};
        unsigned tries;
        struct sf sf;

        sem_init(&choice.chosen, 0, 0);
        sf_make(&sf, 4, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_health(&sf, at_rest, NULL, 60));
        assert_int_equal(atomic_load(&sf.store->pacer.rate), ENG_HEAL_RATE);
        choice.store = sf.store;
        choice.filling = eng_bit(1) | eng_bit(2);
        for (tries = 0; tries < 100 && choice.rate != 2 * 277777777; tries++) {
                assert_true(sf_wait_health(&sf, at_rest, NULL, 60)); /* while a walk goes on its rate stays */
                lp_post(sf.loops[0], &choice.msg);
                while (sem_wait(&choice.chosen) != 0)
                        ;
        }
        assert_int_equal(choice.rate, 2 * 277777777);
        assert_true(sf_wait_health(&sf, at_least_rate, &sf, 60));
        sf_close(&sf);

        sf.options.heal_rate = 5 << 20;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, at_rest, NULL, 60));
        choice.store = sf.store;
        lp_post(sf.loops[0], &choice.msg);
        while (sem_wait(&choice.chosen) != 0)
                ;
        assert_int_equal(choice.rate, 5 << 20);
        sf_close(&sf);
        sem_destroy(&choice.chosen);
        sf_remove(&sf);
}

/* Asks for groups without end. owner: loop 0, but stop */
struct stream {
        struct lp_msg msg;
        struct sf *sf;
        uint32_t group;
        atomic_bool stop;
        sem_t ended;
};

static void ask_on(struct lp_msg *msg)
{
        struct stream *stream = (struct stream *)msg;
        unsigned i;

        if (atomic_load(&stream->stop)) {
                sem_post(&stream->ended);
                return;
        }
        for (i = 0; i < 16; i++, stream->group += 257)
                eng_upkeep_group(stream->sf->store, stream->group % stream->sf->store->pg_count);
        lp_post(stream->sf->loops[0], msg);
}

/* All groups are walked, however often some are asked for. */
static void test_groups_without_end(void **state)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        struct stream stream = {.msg.run = ask_on};
        struct again again = {.msg.run = walk_again};
        uint64_t bucket;
        struct sf sf;

        assert_non_null(report);
        sf_make(&sf, 4, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        put_objects(&sf, bucket);
        assert_true(sf_wait_health(&sf, at_rest, NULL, 60));
        stream.sf = &sf;
        sem_init(&stream.ended, 0, 0);
        sem_init(&again.begun, 0, 0);
        again.store = sf.store;
        lp_post(sf.loops[0], &stream.msg);
        lp_post(sf.loops[0], &again.msg);
        while (sem_wait(&again.begun) != 0)
                ;
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        eng_heal_read(sf.store, &report[0], &report[1]);
        assert_true(report[0].surveyed && !report[0].running);
        assert_int_equal(report[0].looked_at, OBJECTS);
        atomic_store(&stream.stop, true);
        while (sem_wait(&stream.ended) != 0)
                ;
        check_objects(&sf, bucket);
        sem_destroy(&stream.ended);
        sem_destroy(&again.begun);
        sf_close(&sf);
        sf_remove(&sf);
        free(report);
}

/*
 * A store of five drives, and objects that were written while only three of them were there: each
 * names these, and none for its last shard. Groups of which these three have but one copy take
 * none. Returns the last one's number.
 */
static unsigned on_three_of_five(struct sf *sf, uint64_t *bucket, unsigned objects, size_t size, uint64_t heal_rate,
                                 uint64_t there)
{
        unsigned i;
        int rv;

        sf_make(sf, 5, 2);
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        sf_close(sf);
        sf_give(sf, there);
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_ready(sf, 20));
        for (i = 0; objects > 0; i++) {
                rv = sf_put(sf, i % 2, *bucket, key_of(i), i + 1, size, true, NULL);
                assert_true(rv == 0 || rv == -EROFS);
                objects -= rv == 0;
        }
        sf_close(sf);
        sf_give(sf, 0x1f);
        sf->options.heal_rate = heal_rate;
        assert_int_equal(sf_open(sf, false), 0);
        return i - 1;
}

/* Objects to be repaired were met. */
static bool is_met(const struct eng_health *h, void *arg)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report));
        struct sf *sf = arg;
        bool met;

        assert_non_null(report);
        eng_heal_read(sf->store, &report[0], &report[1]);
        met = report[0].running && report[0].todo_objects > 0;
        free(report);
        return met && h->drives_in == 5;
}

struct walk_of {
        struct sf *sf;
        int64_t started_ms;
};

/* Another walk than that one is under way. */
static bool is_another(const struct eng_health *h, void *arg)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report));
        const struct walk_of *walk = arg;
        bool another;

        assert_non_null(report);
        eng_heal_read(walk->sf->store, &report[0], &report[1]);
        another = report[0].running && report[0].started_ms != walk->started_ms;
        free(report);
        return another;
}

/*
 * A drive is lost while a large object is being repaired slowly: what must be repaired now is
 * looked for at once.
 */
static void test_repairs_are_cut_off(void **state)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        struct walk_of walk;
        uint64_t bucket;
        unsigned last;
        struct sf sf;

        assert_non_null(report);
        last = on_three_of_five(&sf, &bucket, 1, LARGE, 16 << 10,
                                0x1c); /* minutes, longer than anything is waited for */
        assert_true(sf_wait_health(&sf, is_met, &sf, 60));
        eng_heal_read(sf.store, &report[0], &report[1]);
        walk = (struct walk_of){.sf = &sf, .started_ms = report[0].started_ms};
        eng_drive_failed(sf.store, 0, sf.store->members[0].drive, "the test says so");
        assert_true(sf_wait_health(&sf, is_another, &walk, 60));
        sf_close(&sf);
        sf.options.heal_rate = 1 << 30;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        assert_int_equal(sf_get(&sf, 0, bucket, key_of(last), last + 1, LARGE), 0);
        sf_close(&sf);
        sf_remove(&sf);
        free(report);
}

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->drives_in == 5;
}

static bool all_met_again(const struct eng_health *h, void *arg)
{
        return h->rebuilt_objects == *(const unsigned *)arg && !h->healing;
}

/*
 * Objects are given one shard back, and lack another on a drive that is out and may come back: they
 * still lack shards.
 */
static void test_some_is_not_all(void **state)
{
        struct eng_health *health = malloc(sizeof(*health));
        unsigned objects = 6;
        uint64_t bucket;
        struct sf sf;

        assert_non_null(health);
        on_three_of_five(&sf, &bucket, objects, SIZE, 16 << 10, 7); /* nothing is repaired yet, but drives catch up */
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        sf_close(&sf);
        sf.options.heal_rate = 1 << 30;
        sf_give(&sf, 0x1e);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_met_again, &objects, 60));
        eng_health_read(sf.store, health);
        assert_int_equal(health->objects_below, objects);
        assert_int_equal(health->objects_lacking[0], objects); /* each was given one of two */
        sf_close(&sf);
        sf_remove(&sf);
        free(health);
}

static bool looked_at_all(const struct eng_health *h, void *arg)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        struct sf *sf = arg;
        bool all;

        assert_non_null(report);
        eng_heal_read(sf->store, &report[0], &report[1]);
        all = h->ready && report[0].surveyed && !report[0].running;
        free(report);
        return all;
}

/* Objects are counted by how many shards they lack, and the sum is that of all that lack some. */
static void test_counted_by_missing_shards(void **state)
{
        static const struct {
                uint64_t there;        /* drives */
                uint64_t lacking[2];   /* objects that lack one shard, and two */
        } cases[] = {{0xf, {0, 0}}, {0xe, {6, 0}}, {0xc, {0, 6}}, {0xf, {0, 0}}};
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        struct eng_health *health = malloc(sizeof(*health));
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        assert_non_null(report);
        assert_non_null(health);
        sf_make(&sf, 4, 2); /* 2+2: each drive has a shard of each object */
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        for (i = 0; i < 6; i++)
                assert_int_equal(sf_put(&sf, i % 2, bucket, key_of(i), i + 1, SIZE, true, NULL), 0);
        sf_close(&sf);
        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                sf_give(&sf, cases[i].there);
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, looked_at_all, &sf, 60));
                assert_true(i < 3 || sf_wait_health(&sf, so_whole, NULL, 60));
                eng_health_read(sf.store, health);
                eng_heal_read(sf.store, &report[0], &report[1]);
                assert_int_equal(health->objects_lacking[0], cases[i].lacking[0]);
                assert_int_equal(health->objects_lacking[1], cases[i].lacking[1]);
                assert_int_equal(health->objects_lacking[2], 0);
                assert_int_equal(health->objects_below, cases[i].lacking[0] + cases[i].lacking[1]);
                assert_memory_equal(report[0].lacking, health->objects_lacking, sizeof(report[0].lacking));
                sf_close(&sf);
        }
        sf_remove(&sf);
        free(report);
        free(health);
}

/* A quarter of all objects have been given their shards. */
static bool quarter_done(const struct eng_health *h, void *arg)
{
        return h->rebuilt_objects >= OBJECTS / 4;
}

/*
 * A restart cuts a walk off: the next one begins where it was, and comes to the objects before
 * that, too.
 */
static void test_goes_on_after_a_restart(void **state)
{
        uint64_t bucket;
        struct sf sf;

        sf_make(&sf, 4, 1);
        sf.options.heal_rate = 1 << 19; /* it takes seconds */
        sf.options.heal_keep_ms = 5;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        sf_close(&sf);
        sf_give(&sf, 0xe);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        for (unsigned i = 0; i < OBJECTS; i++)
                assert_int_equal(sf_put(&sf, 0, bucket, key_of(i), i + 1, SIZE, true, NULL), 0);
        sf_close(&sf);

        sf_give(&sf, 0xf);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, quarter_done, NULL, 60));
        sf_close(&sf);
        sf.options.heal_rate = 1 << 18;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, some_done, NULL, 60));
        sf_close(&sf);

        sf.options.heal_rate = 1 << 30;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, is_walked, &sf, 60));
        nothing_is_missing(&sf);
        sf_close(&sf);
        sf_remove(&sf);
}

/* owner: test until posted, then loop 0 until done */
struct scribble {
        struct lp_msg msg;
        struct eng_kept kept;
        const void *data;
        size_t len;
        sem_t done;
};

static void see_scribble(struct lp_msg *msg)
{
        struct scribble *scribble = (struct scribble *)msg;

        if (scribble->kept.busy)
                lp_post(scribble->kept.store->loops[0].loop, msg);
        else
                sem_post(&scribble->done);
}

static void write_scribble(struct lp_msg *msg)
{
        struct scribble *scribble = (struct scribble *)msg;

        eng_kept_write(&scribble->kept, scribble->data, scribble->len);
        assert_true(scribble->kept.busy);
        msg->run = see_scribble;
        lp_post(scribble->kept.store->loops[0].loop, msg);
}

/* Whatever the record says, all objects are looked at, and given what they lack. */
static void test_a_wrong_location_hides_nothing(void **state)
{
        static const uint8_t records[][12] = {
                {FMT_SPACE_OBJECT},                                                                               /* before all */
                {FMT_SPACE_OBJECT, 255, 255, 255, 255, 255, 255, 255, 255, 255},                                  /* behind all */
                {FMT_SPACE_OBJECT, 0, 0, 0, 0, 0, 0, 0, 1, 'k', '3'},                                             /* among them, or not */
                {FMT_SPACE_PART, 1}, {FMT_SPACE_CONFIG}, {255},                                                   /* no objects */
        };
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        struct scribble *scribble = malloc(sizeof(*scribble));
        unsigned i, lacks;
        uint64_t bucket;
        struct sf sf;

        assert_true(report != NULL && scribble != NULL);
        sf_make(&sf, 4, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        put_objects(&sf, bucket);
        sf_close(&sf);
        for (i = 0; i < sizeof(records) / sizeof(records[0]); i++) {
                sf_give(&sf, 0xe);
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_ready(&sf, 20));
                for (lacks = i; lacks < OBJECTS; lacks += 7)
                        assert_int_equal(sf_put(&sf, 0, bucket, key_of(lacks), lacks + 1, SIZE, true, NULL), 0);
                memset(scribble, 0, sizeof(*scribble));
                eng_kept_init(&scribble->kept, sf.store, 'w', NULL);
                scribble->msg.run = write_scribble;
                scribble->data = records[i];
                for (scribble->len = sizeof(records[i]); scribble->len > 1 && records[i][scribble->len - 1] == 0;)
                        scribble->len--;
                sem_init(&scribble->done, 0, 0);
                lp_post(sf.loops[0], &scribble->msg);
                while (sem_wait(&scribble->done) != 0)
                        ;
                sem_destroy(&scribble->done);
                sf_close(&sf);

                sf_give(&sf, 0xf);
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, is_walked, &sf, 60));
                eng_heal_read(sf.store, &report[0], &report[1]);
                assert_int_equal(report[0].looked_at, OBJECTS);
                nothing_is_missing(&sf);
                sf_close(&sf);
        }
        sf_remove(&sf);
        free(scribble);
        free(report);
}

/*
 * A walk in which the names of groups could not be read on any member has not looked at all
 * objects: no drive is full again by it.
 */
static void test_names_cannot_be_read(void **state)
{
        struct eng_heal_report *report = malloc(2 * sizeof(*report)); /* now, last */
        uint64_t bucket;
        struct sf sf;

        assert_non_null(report);
        sf_make(&sf, 4, 2);
        sf.options.heal_rate = 1 << 30;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        put_objects(&sf, bucket);
        sf_close(&sf);
        sf.options.faults = "corrupt:op=scan,after=1"; /* buckets are read at the start */
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        WAIT_UNTIL((eng_heal_read(sf.store, &report[0], &report[1]), report[0].ended_ms != 0));
        assert_true(report[0].ended_ms != 0);
        assert_false(report[0].surveyed);
        assert_true(report[0].failed_objects > 0);
        sf_close(&sf);
        sf.options.faults = NULL;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_whole, NULL, 60));
        nothing_is_missing(&sf);
        sf_close(&sf);
        sf_remove(&sf);
        free(report);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_repairs_while_it_looks),
                cmocka_unit_test(test_groups_that_are_asked_for), cmocka_unit_test(test_asked_for_and_failed),
                cmocka_unit_test(test_every_walk_looks_at_all),
                cmocka_unit_test(test_groups_without_end),
                cmocka_unit_test(test_the_rate_follows_from_what_drives_hold),
                cmocka_unit_test(test_repairs_are_cut_off),
                cmocka_unit_test(test_some_is_not_all),
                cmocka_unit_test(test_counted_by_missing_shards),
                cmocka_unit_test(test_goes_on_after_a_restart),
                cmocka_unit_test(test_a_wrong_location_hides_nothing),
                cmocka_unit_test(test_names_cannot_be_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
