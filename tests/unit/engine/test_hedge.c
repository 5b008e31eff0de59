/*
 * test_hedge.c - reads of objects while a drive is slow: others are asked, what comes late is dropped, and
 * slots are all given back.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/store.h"
#include "tests/lib/must.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

#define DRIVES  6u
#define OBJECTS 12u
#define SIZE    ((4u << 20) + 54321) /* some stripes of two units, and a short one */
#define MS      1000000ull
#define SLOW_MS 2000u

static struct sf sf;
static uint64_t bucket;

/* least_ns: what is late at least, so that a busy machine counts for nothing, or all is late. */
static void open_store(unsigned k, unsigned m, const char *faults, uint64_t least_ns)
{
        char key[32];
        unsigned i;

        sf_make(&sf, DRIVES, 2);
        sf.options.ec_k = k;
        sf.options.ec_m = m;
        sf.options.faults = faults;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        for (i = 0; i < sf.store->loop_count; i++)
                sf.store->loops[i].home.read_times.least_ns = least_ns;
        for (i = 0; i < OBJECTS; i++) {
                snprintf(key, sizeof(key), "%u", i);
                assert_int_equal(sf_put(&sf, 0, bucket, key, i + 1, SIZE, true, NULL), 0);
        }
}

static uint64_t slots_reserved(void)
{
        struct lp_stats stats;
        uint64_t sum = 0;
        unsigned i;

        for (i = 0; i < sf.store->loop_count; i++) {
                lp_stats_read(sf.store->loops[i].loop, &stats);
                sum += stats.slots_used + stats.reserved[LP_SHARE_GET];
        }
        return sum;
}

/* Reads that were left have come back, with their slots. */
static void close_store(void)
{
        WAIT_UNTIL(slots_reserved() == 0);
        assert_int_equal(slots_reserved(), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

static void get_all(uint64_t *longest)
{
        char key[32];
        unsigned i;

        *longest = 0;
        for (i = 0; i < OBJECTS; i++) {
                uint64_t began = lp_clock();

                snprintf(key, sizeof(key), "%u", i);
                assert_int_equal(sf_get(&sf, i % 2, bucket, key, i + 1, SIZE), 0);
                if (lp_clock() - began > *longest)
                        *longest = lp_clock() - began;
        }
}

/*
 * Some object has data on any drive: without hedges one would take SLOW_MS at the least. How many
 * stripes were ready by them: none where the drive is known to be slow at once.
 */
static uint64_t is_quick(unsigned k, unsigned m)
{
        uint64_t longest, won;

        open_store(k, m, "delay:op=read,slot=1,ms=2000", 300 * MS);
        get_all(&longest);
        assert_true(longest < SLOW_MS * MS);
        won = atomic_load(&sf.store->hedges_won);
        assert_true(atomic_load(&sf.store->hedged_reads) >= won);
        assert_int_equal(atomic_load(&sf.store->degraded_reads), 0);
        close_store();
        return won;
}

static void test_one_slow_drive(void **state)
{
        uint64_t won = is_quick(2, 2);

        won += is_quick(4, 2);
        won += is_quick(1, 2);
        assert_true(won > 0);
}

/* Once it is known to be slow, parity of others is read at once, and there are no extra reads but when it is tried again. */
static void test_slow_drive_is_left_out(void **state)
{
        uint64_t longest, hedged, began;

        open_store(2, 2, "delay:op=read,slot=1,ms=2000", 300 * MS);
        get_all(&longest);
        usleep((SLOW_MS + 200) * 1000);
        hedged = atomic_load(&sf.store->hedged_reads);
        began = lp_clock();
        get_all(&longest);
        assert_true(longest < SLOW_MS * MS);
        assert_true(atomic_load(&sf.store->hedged_reads) - hedged <= 4 + 4 * (lp_clock() - began) / (1000 * MS));
        close_store();
}

/* Parts of units: no more is asked for than the late read was to give. */
static void test_ranges(void **state)
{
        static const uint64_t offsets[] = {0, 5000, (1u << 20) - 3, 1u << 20, (2u << 20) + 77, SIZE - 30000};
        struct eng_drive_info info;
        uint64_t bytes = 0;
        unsigned i, j;
        char key[32];

        open_store(2, 2, "delay:op=read,slot=1,ms=2000", 300 * MS);
        for (j = 0; j < OBJECTS; j++)
                for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
                        uint64_t began = lp_clock();

                        snprintf(key, sizeof(key), "%u", j);
                        assert_int_equal(sf_get_range(&sf, i % 2, bucket, key, j + 1, SIZE, offsets[i], 20000), 0);
                        if (atomic_load(&sf.store->hedged_reads) < 2 * (ENG_EXTRA_AT_ONCE - 2)) /* else there are no more */
                                assert_true(lp_clock() - began < SLOW_MS * MS);
                }
        assert_true(atomic_load(&sf.store->hedges_won) > 0);
        for (i = 0; i < DRIVES; i++) {
                eng_drive_info(sf.store->members[i].drive, &info);
                bytes += info.read_bytes;
        }
        assert_true(bytes < (uint64_t)OBJECTS * 6 * 3 * 20000);
        close_store();
}

/*
 * Two are slow, one of them now and then; one answers nothing, or damage; all is late soon, and is hedged as often as
 * may be: what is read is right.
 */
static void test_many_faults(void **state)
{
        static const char *const faults[] = {
                "delay:op=read,slot=1,ms=60;delay:op=read,slot=2,ms=40,every=2;delay:op=read,slot=4,ms=45,every=3",
                "delay:op=read,slot=0,ms=60;again:op=read,slot=3,every=3",
                "delay:op=read,slot=0,ms=60;delay:op=read,slot=3,ms=30;again:op=read,slot=3,every=2",
                "delay:op=read,slot=5,ms=60;corrupt:op=read,slot=2,every=5",
        };
        uint64_t longest, hedged = 0;
        unsigned i, k, round;

        for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
                for (k = 2; k <= 4; k += 2) {
                        open_store(k, 2, faults[i], MS / 10);
                        for (round = 0; round < 3; round++)
                                get_all(&longest);
                        hedged += atomic_load(&sf.store->hedged_reads);
                        close_store();
                }
        assert_true(hedged > 0);
}

/* A read comes to nothing at once, and another is late, which is to give less of its unit: both are computed, whole. */
static void test_short_and_failed(void **state)
{
        static const char *const faults[] = {"again:op=read,slot=0;delay:op=read,slot=1,ms=50", "again:op=read,slot=1;delay:op=read,slot=0,ms=50",
                                             "again:op=read,slot=2;delay:op=read,slot=3,ms=50", "again:op=read,slot=3;delay:op=read,slot=2,ms=50"};
        char key[32];
        unsigned i, j;
        uint64_t won = 0;

        for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
                open_store(2, 2, faults[i], MS / 10);
                for (j = 0; j < OBJECTS; j++) {
                        snprintf(key, sizeof(key), "%u", j);
                        assert_int_equal(sf_get_range(&sf, j % 2, bucket, key, j + 1, SIZE, 4u << 20, 54321), 0); /* the short stripe */
                        assert_int_equal(sf_get_range(&sf, j % 2, bucket, key, j + 1, SIZE, (4u << 20) + 5, 30000), 0);
                        assert_int_equal(sf_get_range(&sf, j % 2, bucket, key, j + 1, SIZE, (2u << 20) + 5, (1u << 20) + 100), 0);
                }
                won += atomic_load(&sf.store->hedges_won);
                close_store();
        }
        assert_true(won > 0);
}

/* Each drive is on a node of its own, which says nothing to a read that others can be asked for instead; its slot comes back later. */
static struct {
        const struct eng_drive_ops *real;
        struct eng_drive_ops ops;
        atomic_uint given_up;
} silent;

struct late_slot {
        struct lp_msg msg;
        struct lp_loop *home;
        void *slot;
        void (*left)(struct lp_loop *home, void *slot);
};

static void slot_comes_back(struct lp_msg *msg)
{
        struct late_slot *late = (struct late_slot *)msg;

        late->left(late->home, late->slot);
        free(late);
}

static void silent_answered(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->done(op);
}

static void silent_submit(struct eng_drive *drive, struct eng_op *op)
{
        struct late_slot *late;

        if (op->kind != ENG_OP_READ || (op->flags & ENG_OP_OTHERS) == 0) {
                silent.real->submit(drive, op);
                return;
        }
        late = malloc(sizeof(*late));
        MUST(late != NULL && op->read.left != NULL);
        *late = (struct late_slot){.msg.run = slot_comes_back, .home = lp_self(), .slot = op->read.slot, .left = op->read.left};
        op->read.slot = NULL;
        op->result = -EAGAIN;
        op->msg.run = silent_answered;
        atomic_fetch_add(&silent.given_up, 1);
        lp_post(lp_self(), &op->msg);
        lp_post(late->home, &late->msg);
}

static uint64_t make_silent(struct eng_store *store, uint64_t arg)
{
        unsigned i;

        silent.real = store->members[0].drive->ops;
        silent.ops = *silent.real;
        silent.ops.submit = silent_submit;
        for (i = 0; i < DRIVES; i++) {
                store->members[i].drive->node = (uint16_t)(i + 1);
                store->members[i].drive->ops = &silent.ops;
        }
        return 0;
}

/* All of them seem to say nothing, which may be the own network: each is given up once at most, and then waited for. */
static void test_all_are_silent(void **state)
{
        uint64_t longest;
        unsigned k;

        for (k = 2; k <= 4; k += 2) {
                open_store(k, 2, NULL, 300 * MS);
                atomic_store(&silent.given_up, 0);
                sf_ask(&sf, make_silent, 0);
                get_all(&longest);
                assert_true(atomic_load(&silent.given_up) > OBJECTS);
                close_store();
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one_slow_drive),
                cmocka_unit_test(test_slow_drive_is_left_out),
                cmocka_unit_test(test_ranges),
                cmocka_unit_test(test_many_faults),
                cmocka_unit_test(test_short_and_failed),
                cmocka_unit_test(test_all_are_silent),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
