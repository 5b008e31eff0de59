/*
 * test_coord.c - a drive comes in while a change still waits for one that fails: the drive that
 * comes is compared when the change counts, so that it finds it. An epoch's record is on its way
 * to a drive that fails: nobody waits for its answer, and a drive that was to go with that epoch may
 * have to stay.
 *
 * Drives of the test's own stand before two of the store's, and keep back what one group asks of
 * them.
 */
#include <errno.h>
#include <pthread.h>
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

#include "engine/epoch/epoch.h"
#include "engine/placement/place.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define DRIVES 5u
#define COMES  4u /* slots: the drive that comes, and the one that fails */
#define FAILS  1u
#define SIZE   500u
#define TRIES  200u /* of a record that is turned away (epoch_append.c) */

/* ---- a drive that keeps an operation back ---------------------------------------------------- */

/* owner: the group's primary loop */
struct keeper {
        struct eng_drive drive; /* first */
        struct eng_drive *inner;
        enum eng_op_kind kind;
        uint32_t pg;
        bool epochs, refuses; /* the record of an epoch instead; it is turned away again and again (-EAGAIN) */
        unsigned goes;        /* of the first epoch that this slot has gone from; ENG_DRIVES_MAX: of any */
        struct eng_op *op;
        struct lp_msg msg;
        atomic_bool kept;
        atomic_uint turned_away;
};

static bool is_epoch_for(const struct keeper *keeper, const struct eng_op *op)
{
        const struct fmt_epoch *epoch = (const struct fmt_epoch *)op->append.body->data;

        if (op->append.type != FMT_RECORD_EPOCH)
                return false;
        return keeper->goes == ENG_DRIVES_MAX || (((const struct fmt_epoch_drive *)(epoch + 1))[keeper->goes].flags & FMT_EPOCH_GONE) != 0;
}

static bool is_for(const struct keeper *keeper, const struct eng_op *op)
{
        if (op->kind != keeper->kind)
                return false;
        if (keeper->epochs)
                return is_epoch_for(keeper, op);
        return op->kind == ENG_OP_COMMIT ? op->commit.pg == keeper->pg : op->append.type == FMT_RECORD_PG && op->append.pg == keeper->pg;
}

static void turned_away(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->result = -EAGAIN;
        op->done(op);
}

static void keeper_submit(struct eng_drive *drive, struct eng_op *op)
{
        struct keeper *keeper = (struct keeper *)drive;

        if (keeper->refuses && is_for(keeper, op)) {
                atomic_fetch_add(&keeper->turned_away, 1);
                atomic_store(&keeper->kept, true);
                op->msg.run = turned_away;
                lp_post(lp_self(), &op->msg);
                return;
        }
        if (!is_for(keeper, op) || atomic_load(&keeper->kept)) {
                eng_drive_submit(keeper->inner, op);
                return;
        }
        keeper->op = op;
        atomic_store(&keeper->kept, true);
}

static const struct eng_drive_ops keeper_ops = {.submit = keeper_submit};

static void keeper_begin(struct keeper *keeper, struct sf *sf, unsigned slot, enum eng_op_kind kind, uint32_t pg)
{
        keeper->inner = sf->store->members[slot].drive;
        keeper->drive = *keeper->inner;
        keeper->drive.ops = &keeper_ops;
        keeper->kind = kind;
        keeper->pg = pg;
        keeper->epochs = keeper->refuses = false;
        keeper->goes = ENG_DRIVES_MAX;
        keeper->op = NULL;
        atomic_store(&keeper->kept, false);
        atomic_store(&keeper->turned_away, 0);
        atomic_store(&sf->store->members[slot].drive, &keeper->drive);
}

static void pass_on(struct lp_msg *msg)
{
        struct keeper *keeper = container_of(msg, struct keeper, msg);

        eng_drive_submit(keeper->inner, keeper->op);
}

static void keeper_let_go(struct keeper *keeper, struct sf *sf)
{
        keeper->msg.run = pass_on;
        lp_post(keeper->epochs ? sf->loops[0] : eng_primary(sf->store, keeper->pg)->loop, &keeper->msg);
}

/* ---- the coordinator ------------------------------------------------------------------------- */

struct look {
        struct lp_msg msg;
        struct eng_store *store;
        bool fail, entering;
        uint64_t epoch;
        sem_t looked;
};

static void look_now(struct lp_msg *msg)
{
        struct look *look = (struct look *)msg;
        eng_mask joining, promoted;

        if (look->fail)
                eng_drive_failed(look->store, FAILS, look->store->members[FAILS].drive, "for a test");
        eng_catch_up_wants(look->store, &joining, &promoted);
        look->entering = look->store->coord->view.paused && joining == eng_bit(COMES);
        look->epoch = look->store->coord->view.epoch;
        sem_post(&look->looked);
}

/*
 * Changes wait for an epoch that a drive wants to be in; *epoch: the one before. fail: the other
 * drive fails at this moment.
 */
static bool is_entering(struct sf *sf, bool fail, uint64_t *epoch)
{
        struct look look = {.msg.run = look_now, .store = sf->store, .fail = fail};

        sem_init(&look.looked, 0, 0);
        lp_post(sf->loops[0], &look.msg);
        while (sem_wait(&look.looked) != 0)
                ;
        sem_destroy(&look.looked);
        *epoch = look.epoch;
        return look.entering;
}

/* ---- the store ------------------------------------------------------------------------------- */

static bool all_but_one(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == DRIVES - 1;
}

static bool walked(const struct eng_health *h, void *arg)
{
        return all_but_one(h, arg) && h->drives[COMES].state == ENG_DRIVE_IN && !h->healing;
}

struct writer {
        struct sf *sf;
        uint64_t bucket;
        char key[32];
        uint32_t pg;
        unsigned other; /* the third of its group */
        int rv;
};

/* A key whose group of three is of the drive that comes, the one that fails, and another; or of one of the two, and two others. */
static void choose_key(struct writer *writer, bool of_both)
{
        const struct eng_store *store = writer->sf->store;
        const struct eng_placement *map = sf_view(writer->sf).map;
        const eng_mask both = eng_bit(COMES) | eng_bit(FAILS);
        eng_mask group;
        unsigned i = 0;

        do {
                assert_true(i < 10000);
                snprintf(writer->key, sizeof(writer->key), "key-%u", i++);
                writer->pg = eng_pg_of_key(store->pg_count, writer->bucket, writer->key, strlen(writer->key));
                group = map->groups[writer->pg].before;
        } while ((group & both) == 0 || ((group & both) == both) != of_both);
        assert_int_equal(__builtin_popcountll(group), 3);
        writer->other = (unsigned)__builtin_ctzll(group & ~both);
}

static void *writer_run(void *arg)
{
        struct writer *writer = arg;

        writer->rv = sf_put(writer->sf, 0, writer->bucket, writer->key, 1, SIZE, true, NULL);
        return NULL;
}

static void begin(struct sf *sf, uint64_t *bucket)
{
        sf_make(sf, DRIVES, 2);
        sf->options.ec_k = sf->options.ec_m = 2;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
        sf_close(sf);
        so_move(sf, COMES, true);
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, all_but_one, NULL, 60));
}

/* Names that differed, to the walks since the store was opened or to a verification. */
static uint64_t differing(struct sf *sf)
{
        struct eng_heal_report *heal = malloc(2 * sizeof(*heal)); /* now, last */
        struct eng_verify_report r;
        uint64_t n;

        assert_non_null(heal);
        eng_heal_read(sf->store, &heal[0], &heal[1]);
        n = heal[0].differing_names + heal[1].differing_names;
        free(heal);
        assert_int_equal(eng_verify_start(sf->store), 0);
        WAIT_UNTIL((eng_verify_read(sf->store, &r), !r.running));
        assert_int_equal(r.objects, 1);
        return n + r.differing_names;
}

/*
 * A PUT waits for a drive when another one is to come in; then the first fails. What says that the
 * PUT counts takes its time: the drive that comes waits for it, too, and so has the object.
 */
static void test_one_comes_while_another_fails(void **state)
{
        static struct keeper record, commit;
        uint64_t number, before, after = 0;
        struct writer writer;
        pthread_t thread;
        struct sf sf;

        writer.sf = &sf;
        begin(&sf, &writer.bucket);
        choose_key(&writer, true);
        keeper_begin(&record, &sf, FAILS, ENG_OP_APPEND, writer.pg);
        keeper_begin(&commit, &sf, writer.other, ENG_OP_COMMIT, writer.pg);
        assert_int_equal(pthread_create(&thread, NULL, writer_run, &writer), 0);
        WAIT_UNTIL(atomic_load(&record.kept));
        assert_true(atomic_load(&record.kept));

        so_move(&sf, COMES, false);
        assert_int_equal(eng_drive_hot_add(sf.store, COMES, sf.path[COMES], false, &number), 0);
        WAIT_UNTIL(is_entering(&sf, false, &before));
        assert_true(is_entering(&sf, true, &before));
        WAIT_UNTIL(is_entering(&sf, false, &after) && after > before && atomic_load(&commit.kept));
        assert_true(after > before);
        assert_true(atomic_load(&commit.kept));

        keeper_let_go(&commit, &sf);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(writer.rv, 0);
        assert_true(sf_wait_health(&sf, walked, NULL, 60));
        keeper_let_go(&record, &sf);
        assert_int_equal(differing(&sf), 0);
        assert_int_equal(sf_get(&sf, 0, writer.bucket, writer.key, 1, SIZE), 0);
        atomic_store(&sf.store->members[writer.other].drive, commit.inner);
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- the record of an epoch ------------------------------------------------------------------ */

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives_in == DRIVES;
}

static bool two_gone(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == DRIVES - 2;
}

static uint64_t fails(struct eng_store *store, uint64_t slot)
{
        eng_drive_failed(store, (unsigned)slot, store->members[slot].drive, "for a test");
        return 0;
}

/*
 * The epoch without one drive waits for another, which then fails, too. It is given up at once: the next one is in
 * force, and changes go on, before its operation ends.
 */
static void record_waits(bool refuses)
{
        static struct keeper record;
        struct writer writer;
        uint64_t before;
        struct sf sf;

        writer.sf = &sf;
        sf_make(&sf, DRIVES, 2);
        sf.options.ec_k = sf.options.ec_m = 2;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 60));
        assert_int_equal(sf_bucket(&sf, "bucket", &writer.bucket), 0);
        choose_key(&writer, false);
        keeper_begin(&record, &sf, FAILS, ENG_OP_APPEND, 0);
        record.epochs = true;
        record.refuses = refuses;
        before = sf_view(&sf).epoch;
        sf_ask(&sf, fails, COMES);
        WAIT_UNTIL(atomic_load(&record.kept));
        assert_true(sf_view(&sf).paused);
        sf_ask(&sf, fails, FAILS);
        WAIT_UNTIL(sf_view(&sf).epoch > before);
        assert_true(sf_view(&sf).epoch > before);
        assert_true(atomic_load(&record.turned_away) < TRIES / 2);
        assert_true(sf_wait_health(&sf, two_gone, NULL, 60));
        assert_int_equal(sf_view(&sf).in & (eng_bit(COMES) | eng_bit(FAILS)), 0);
        assert_int_equal(sf_put(&sf, 0, writer.bucket, writer.key, 1, SIZE, true, NULL), 0);
        if (!refuses)
                keeper_let_go(&record, &sf); /* the record comes late: it says nothing to anybody */
        assert_int_equal(sf_put(&sf, 0, writer.bucket, writer.key, 2, SIZE, true, NULL), 0);
        assert_int_equal(sf_get(&sf, 0, writer.bucket, writer.key, 2, SIZE), 0);
        assert_int_equal(sf_view(&sf).in & (eng_bit(COMES) | eng_bit(FAILS)), 0);
        atomic_store(&sf.store->members[FAILS].drive, record.inner);
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_record_without_answer(void **state)
{
        record_waits(false);
}

static void test_record_turned_away(void **state)
{
        record_waits(true);
}

/* ---- a drive that leaves --------------------------------------------------------------------- */

#define LEAVES 3u /* slot, of a store of four with two copies of each name */

static bool is_removed(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives[LEAVES].state == ENG_DRIVE_REMOVED && !h->healing;
}

static void four_begin(struct sf *sf, uint64_t *bucket)
{
        sf_make(sf, LEAVES + 1, 2);
        sf->options.ec_k = 2;
        sf->options.ec_m = 1;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 60));
        assert_int_equal(sf_bucket(sf, "bucket", bucket), 0);
}

/*
 * The epoch without the drive that leaves waits for another, which fails. Without both, half of the members would go
 * on: so the one that leaves stays, and goes when the other is back.
 */
static void test_one_leaves_while_another_fails(void **state)
{
        static struct keeper record;
        uint64_t bucket, number, before;
        struct eng_view view;
        struct sf sf;

        four_begin(&sf, &bucket);
        assert_int_equal(sf_put(&sf, 0, bucket, "key", 1, SIZE, true, NULL), 0);
        keeper_begin(&record, &sf, FAILS, ENG_OP_APPEND, 0);
        record.epochs = true;
        record.goes = LEAVES;
        assert_int_equal(eng_drive_remove(sf.store, LEAVES, &number), 0);
        WAIT_UNTIL(atomic_load(&record.kept));
        assert_true(atomic_load(&record.kept));
        view = sf_view(&sf);
        before = view.epoch;
        sf_ask(&sf, fails, FAILS);
        WAIT_UNTIL((view = sf_view(&sf)).epoch > before);
        assert_true(view.epoch > before);
        assert_true(view.in & eng_bit(LEAVES));
        assert_false(view.in & eng_bit(FAILS));
        assert_int_equal(sf_get(&sf, 0, bucket, "key", 1, SIZE), 0);
        keeper_let_go(&record, &sf);
        atomic_store(&sf.store->members[FAILS].drive, record.inner);
        sf_close(&sf);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, is_removed, NULL, 60));
        assert_int_equal(sf_get(&sf, 0, bucket, "key", 1, SIZE), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_comes_while_another_fails), cmocka_unit_test(test_record_without_answer),
                                           cmocka_unit_test(test_record_turned_away), cmocka_unit_test(test_one_leaves_while_another_fails)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
