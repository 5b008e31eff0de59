/*
 * The lock clock: whatever is done to the wall clock, it never ends a lock early (L1 to L6 of
 * docs/design/bucket-rules.md).
 */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_queue.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define HOUR (3600ll * 1000)
#define DAY  (24 * HOUR)
#define SOON 600000ll /* ms: more than a test takes */

static atomic_int_fast64_t ahead; /* of the wall clock */

static int64_t wall(void)
{
        return lp_wall_ms() + atomic_load(&ahead);
}

static const struct eng_bucket_rules locked = {.versioning = ENG_VERSIONING_ENABLED, .lock = true};

static void open_at(struct sf *sf, bool format, int64_t how_far)
{
        atomic_store(&ahead, how_far);
        sf->options.wall_ms = wall;
        assert_int_equal(sf_open(sf, format), 0);
        assert_true(sf_wait_health(sf, so_whole, NULL, 60));
}

static void make(struct sf *sf)
{
        sf_make(sf, 4, 2);
        open_at(sf, true, 0);
}

static void make_locked(struct sf *sf)
{
        uint64_t id;

        make(sf);
        assert_int_equal(sf_bucket_with(sf, "bucket", &locked, &id), 0);
}

/* It shows the real time and this, give or take what a test takes. */
static bool shows(struct sf *sf, int64_t how_far)
{
        int64_t off = eng_lock_now(sf->store) - lp_wall_ms() - how_far;

        return off > -SOON && off < SOON;
}

static bool frozen(struct sf *sf)
{
        struct eng_lock_state state;

        eng_lock_read(sf->store, &state);
        assert_true(llabs(state.wall_ms - wall()) < SOON);
        return state.frozen;
}

static bool has_row(const struct sf *sf, unsigned drive)
{
        struct sf_row *row = calloc(1, sizeof(*row));
        bool has;

        eng_name_space(&row->name, FMT_SPACE_CONFIG, 0);
        row->name.data[row->name.len++] = 't';
        has = sf_get_row(sf, drive, row);
        free(row);
        return has;
}

static void forget_row(const struct sf *sf, unsigned drive)
{
        struct sf_row *row = calloc(1, sizeof(*row));

        eng_name_space(&row->name, FMT_SPACE_CONFIG, 0);
        row->name.data[row->name.len++] = 't';
        sf_put_row(sf, drive, row);
        free(row);
}

/* ---- calls that are made on a loop ----------------------------------------------------------- */

struct lock_call {
        struct lp_msg msg;
        struct sf *sf;
        int64_t wall_ms; /* 0: keep */
        sem_t done;
        int rv;
};

static void call_done(void *arg, int rv)
{
        struct lock_call *call = arg;

        call->rv = rv;
        sem_post(&call->done);
}

static void call_start(struct lp_msg *msg)
{
        struct lock_call *call = (struct lock_call *)msg;

        if (call->wall_ms != 0)
                eng_lock_confirm(call->sf->store, call->wall_ms, call_done, call);
        else
                eng_lock_keep(call->sf->store, call_done, call);
}

static int lock_call(struct sf *sf, int64_t wall_ms)
{
        struct lock_call call = {.msg = {.run = call_start}, .sf = sf, .wall_ms = wall_ms};

        sem_init(&call.done, 0, 0);
        lp_post(sf->loops[1], &call.msg);
        while (sem_wait(&call.done) != 0)
                ;
        sem_destroy(&call.done);
        return call.rv;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_wall_clock_jumps(void **state)
{
        int64_t before;
        struct sf sf;

        make_locked(&sf);
        assert_true(shows(&sf, 0) && !frozen(&sf));
        atomic_store(&ahead, 3650 * DAY);
        assert_true(shows(&sf, 0));
        before = eng_lock_now(sf.store);
        atomic_store(&ahead, -3650 * DAY); /* back: it stands */
        assert_int_equal(eng_lock_now(sf.store), before);
        usleep(20000);
        assert_int_equal(eng_lock_now(sf.store), before);
        atomic_store(&ahead, 0);
        assert_true(eng_lock_now(sf.store) > before && shows(&sf, 0));
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_restarts(void **state)
{
        struct sf sf;

        make_locked(&sf);
        sf_close(&sf);
        open_at(&sf, false, 23 * HOUR); /* it was off for so long */
        assert_true(shows(&sf, 23 * HOUR) && !frozen(&sf));
        assert_int_equal(lock_call(&sf, 0), 0);
        sf_close(&sf);
        open_at(&sf, false, 0); /* set back while it was off */
        assert_true(shows(&sf, 23 * HOUR) && !frozen(&sf));
        sf_close(&sf);
        open_at(&sf, false, 23 * HOUR + 25 * HOUR);
        assert_true(frozen(&sf));
        assert_true(shows(&sf, 23 * HOUR));
        sf_close(&sf);
        open_at(&sf, false, 23 * HOUR + 25 * HOUR); /* again: it stays so */
        assert_true(frozen(&sf) && shows(&sf, 23 * HOUR));
        sf_close(&sf);
        sf_remove(&sf);
}

static bool says_frozen(const struct eng_health *h, void *arg)
{
        return h->ready && h->lock.frozen;
}

static void test_confirmed(void **state)
{
        struct sf sf;

        make_locked(&sf);
        sf_close(&sf);
        open_at(&sf, false, 7 * DAY);
        assert_true(sf_wait_health(&sf, says_frozen, NULL, 10));
        assert_int_equal(lock_call(&sf, lp_wall_ms()), -ESTALE); /* another time than the wall clock's */
        assert_int_equal(lock_call(&sf, -1), -EINVAL);
        assert_true(frozen(&sf));
        assert_int_equal(lock_call(&sf, wall()), 0);
        assert_true(!frozen(&sf) && shows(&sf, 7 * DAY));
        sf_close(&sf);
        open_at(&sf, false, 7 * DAY);
        assert_true(!frozen(&sf) && shows(&sf, 7 * DAY));
        atomic_store(&ahead, 0); /* that was wrong: it is set right, and the lock clock goes back by his word alone */
        assert_true(shows(&sf, 7 * DAY));
        assert_int_equal(lock_call(&sf, wall()), 0);
        assert_true(shows(&sf, 0));
        sf_close(&sf);
        open_at(&sf, false, 0);
        assert_true(shows(&sf, 0) && !frozen(&sf));
        sf_close(&sf);
        sf_remove(&sf);
}

/* The mark is on every drive before the first lock is, and on none of a store without versions. */
static void test_kept(void **state)
{
        uint64_t id;
        struct sf sf;
        unsigned i;

        make(&sf);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        assert_int_equal(lock_call(&sf, 0), 0);
        sf_close(&sf);
        for (i = 0; i < 4; i++)
                assert_false(has_row(&sf, i));
        open_at(&sf, false, 30 * DAY); /* nothing to be frozen for */
        assert_true(!frozen(&sf) && shows(&sf, 30 * DAY));
        assert_int_equal(sf_rules_set(&sf, 0, id, &locked), 0);
        sf_close(&sf);
        for (i = 0; i < 4; i++)
                assert_true(has_row(&sf, i));
        for (i = 0; i < 3; i++) {
                forget_row(&sf, i);
                open_at(&sf, false, 60 * DAY);
                assert_true(frozen(&sf) && shows(&sf, 30 * DAY));
                sf_close(&sf);
        }
        sf_remove(&sf);
}

/* Damage of what is kept never ends a lock: it freezes. */
static void test_unread(void **state)
{
        struct sf sf;
        unsigned i;

        make_locked(&sf);
        sf_close(&sf);
        for (i = 0; i < 4; i++) {
                struct sf_row *row = calloc(1, sizeof(*row));
                const uint16_t attrs_len = 4;

                eng_name_space(&row->name, FMT_SPACE_CONFIG, 0);
                row->name.data[row->name.len++] = 't';
                assert_true(sf_get_row(&sf, i, row));
                memcpy(row->value + offsetof(struct fmt_value, attrs_len), &attrs_len, sizeof(attrs_len));
                row->len -= 4;
                sf_put_row(&sf, i, row);
                free(row);
        }
        open_at(&sf, false, 0);
        assert_true(frozen(&sf));
        assert_true(eng_lock_now(sf.store) < DAY);
        assert_int_equal(lock_call(&sf, wall()), 0);
        assert_true(!frozen(&sf) && shows(&sf, 0));
        sf_close(&sf);
        open_at(&sf, false, 0);
        assert_true(!frozen(&sf) && shows(&sf, 0));
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_wall_clock_jumps), cmocka_unit_test(test_restarts), cmocka_unit_test(test_confirmed),
                cmocka_unit_test(test_kept),             cmocka_unit_test(test_unread),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
