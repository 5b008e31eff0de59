/*
 * The lock clock: whatever is done to the wall clock, it never ends a lock early (L1 to L7 of
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

static atomic_int_fast64_t ahead;  /* of the wall clock */
static atomic_int_fast64_t passed; /* ms that both clocks have advanced beside the real time */

static int64_t wall(void)
{
        return lp_wall_ms() + atomic_load(&passed) + atomic_load(&ahead);
}

static uint64_t monotonic(void)
{
        return lp_clock() + (uint64_t)atomic_load(&passed) * 1000000;
}

static const struct eng_bucket_rules locked = {.versioning = ENG_VERSIONING_ENABLED, .lock = true};

static void open_at(struct sf *sf, bool format, int64_t how_far)
{
        atomic_store(&ahead, how_far);
        sf->options.wall_ms = wall;
        sf->options.clock_ns = monotonic;
        assert_int_equal(sf_open(sf, format), 0);
        assert_true(sf_wait_health(sf, so_whole, NULL, 60));
}

static void make(struct sf *sf)
{
        sf_make(sf, 4, 2);
        atomic_store(&passed, 0);
        open_at(sf, true, 0);
}

static void make_locked(struct sf *sf)
{
        uint64_t id;

        make(sf);
        assert_int_equal(sf_bucket_with(sf, "bucket", &locked, &id), 0);
}

/* Give or take what a test takes. */
static bool about(int64_t a, int64_t b)
{
        return llabs(a - b) < SOON;
}

/* It shows the real time and this. */
static bool shows(struct sf *sf, int64_t how_far)
{
        return about(eng_lock_now(sf->store), lp_wall_ms() + atomic_load(&passed) + how_far);
}

/* The same, once the drives have taken what the start gains from the budget. */
static bool comes_to(struct sf *sf, int64_t how_far)
{
        WAIT_UNTIL(shows(sf, how_far));
        return shows(sf, how_far);
}

static int64_t budget(struct sf *sf)
{
        struct eng_lock_state state;

        eng_lock_read(sf->store, &state);
        return state.budget_ms;
}

static bool frozen(struct sf *sf)
{
        struct eng_lock_state state;

        eng_lock_read(sf->store, &state);
        assert_true(state.begun && about(state.wall_ms, wall()));
        assert_true(state.frozen == (state.frozen_ms != 0));
        return state.frozen;
}

/* ---- rows of drives -------------------------------------------------------------------------- */

static struct sf_row *row_new(void)
{
        struct sf_row *row = calloc(1, sizeof(*row));

        assert_non_null(row);
        eng_name_space(&row->name, FMT_SPACE_CONFIG, 0);
        row->name.data[row->name.len++] = 't';
        return row;
}

/* The row of a drive; NULL: it has none. The caller frees it. */
static struct sf_row *row_of(const struct sf *sf, unsigned drive)
{
        struct sf_row *row = row_new();

        if (sf_get_row(sf, drive, row))
                return row;
        free(row);
        return NULL;
}

static bool has_row(const struct sf *sf, unsigned drive)
{
        struct sf_row *row = row_of(sf, drive);
        bool has = row != NULL;

        free(row);
        return has;
}

static void forget_row(const struct sf *sf, unsigned drive)
{
        struct sf_row *row = row_new();

        sf_put_row(sf, drive, row);
        free(row);
}

/* What the row keeps ends it. */
static struct fmt_lock_clock kept_of(const struct sf *sf, unsigned drive)
{
        struct sf_row *row = row_of(sf, drive);
        struct fmt_lock_clock kept;

        assert_non_null(row);
        assert_true(row->len >= sizeof(struct fmt_value) + sizeof(kept));
        memcpy(&kept, row->value + row->len - sizeof(kept), sizeof(kept));
        free(row);
        return kept;
}

/* The row of a drive keeps the first `len` bytes of this. */
static void keep_on(const struct sf *sf, unsigned drive, const struct fmt_lock_clock *kept, uint16_t len)
{
        struct sf_row *row = row_of(sf, drive);

        assert_non_null(row);
        row->len -= sizeof(*kept);
        memcpy(row->value + row->len, kept, len);
        row->len += len;
        memcpy(row->value + offsetof(struct fmt_value, attrs_len), &len, sizeof(len));
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
        assert_true(comes_to(&sf, 23 * HOUR) && !frozen(&sf));
        assert_int_equal(lock_call(&sf, 0), 0);
        sf_close(&sf);
        open_at(&sf, false, 0); /* set back while it was off */
        assert_true(shows(&sf, 23 * HOUR) && !frozen(&sf));
        assert_true(about(budget(&sf), HOUR)); /* nothing comes back for it */
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
        assert_true(sf_stays_otherwise(&sf, says_frozen, NULL, 1));
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
        unsigned i, j;

        make(&sf);
        assert_int_equal(sf_bucket(&sf, "bucket", &id), 0);
        assert_int_equal(lock_call(&sf, 0), 0);
        assert_int_equal(lock_call(&sf, wall()), -ENODATA);
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
                for (j = 0; j <= i; j++) /* the start before wrote it anew */
                        forget_row(&sf, j);
                open_at(&sf, false, 60 * DAY);
                assert_true(frozen(&sf) && shows(&sf, 30 * DAY));
                sf_close(&sf);
        }
        sf_remove(&sf);
}

/* Damage of what is kept never ends a lock: it freezes. */
static void test_unread(void **state)
{
        const struct {
                struct fmt_lock_clock kept;
                uint16_t len;
        } cases[] = {
                {{lp_wall_ms(), DAY}, 4},
                {{lp_wall_ms(), DAY}, 12},
                {{lp_wall_ms(), -1}, 16},
                {{lp_wall_ms(), DAY + 1}, 16},
                {{-1, DAY}, 16},
        };
        struct sf sf;
        unsigned i, c;

        make_locked(&sf);
        sf_close(&sf);
        for (c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
                for (i = 0; i < 4; i++)
                        keep_on(&sf, i, &cases[c].kept, cases[c].len);
                open_at(&sf, false, 0);
                WAIT_UNTIL(frozen(&sf) && budget(&sf) < HOUR); /* once it has been read */
                assert_true(frozen(&sf) && budget(&sf) < HOUR);
                assert_true(eng_lock_now(sf.store) < DAY);
                assert_int_equal(lock_call(&sf, wall()), 0);
                assert_true(!frozen(&sf) && shows(&sf, 0));
                sf_close(&sf);
                open_at(&sf, false, 0);
                assert_true(!frozen(&sf) && shows(&sf, 0));
                sf_close(&sf);
        }
        sf_remove(&sf);
}

/* The row of one drive makes no sense: the others' counts. */
static void test_unread_on_one(void **state)
{
        const struct fmt_lock_clock spoilt = {lp_wall_ms(), -1};
        struct sf sf;
        unsigned i;

        make_locked(&sf);
        for (i = 0; i < 4; i++) {
                sf_close(&sf);
                keep_on(&sf, i, &spoilt, sizeof(spoilt));
                open_at(&sf, false, 0);
                assert_true(!frozen(&sf) && shows(&sf, 0));
                assert_int_equal(lock_call(&sf, 0), 0); /* and is written to it */
        }
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- the budget ------------------------------------------------------------------------------ */

/* A day is gained once, however it is spread over starts; a confirmation gives it anew. */
static void test_budget_is_spent(void **state)
{
        struct sf sf;

        make_locked(&sf);
        assert_int_equal(budget(&sf), DAY);
        sf_close(&sf);
        open_at(&sf, false, 10 * HOUR);
        assert_true(comes_to(&sf, 10 * HOUR) && about(budget(&sf), 14 * HOUR));
        sf_close(&sf);
        open_at(&sf, false, 20 * HOUR);
        assert_true(comes_to(&sf, 20 * HOUR) && about(budget(&sf), 4 * HOUR));
        sf_close(&sf);
        open_at(&sf, false, 25 * HOUR); /* five hours more than it has: not even those that it has */
        assert_true(frozen(&sf) && shows(&sf, 20 * HOUR) && about(budget(&sf), 4 * HOUR));
        sf_close(&sf);
        open_at(&sf, false, 23 * HOUR);
        assert_true(comes_to(&sf, 23 * HOUR) && !frozen(&sf) && about(budget(&sf), HOUR));
        assert_int_equal(lock_call(&sf, wall()), 0);
        assert_int_equal(budget(&sf), DAY);
        sf_close(&sf);
        open_at(&sf, false, 46 * HOUR);
        assert_true(comes_to(&sf, 46 * HOUR) && about(budget(&sf), HOUR));
        sf_close(&sf);
        sf_remove(&sf);
}

/* A tenth of the time that it runs comes back, frozen or not, and is kept. */
static void test_budget_grows(void **state)
{
        struct sf sf;

        make_locked(&sf);
        sf_close(&sf);
        open_at(&sf, false, 22 * HOUR);
        assert_true(comes_to(&sf, 22 * HOUR) && about(budget(&sf), 2 * HOUR));
        atomic_fetch_add(&passed, 20 * HOUR);
        assert_true(shows(&sf, 22 * HOUR) && about(budget(&sf), 4 * HOUR));
        assert_int_equal(lock_call(&sf, 0), 0);
        sf_close(&sf);
        assert_true(about(kept_of(&sf, 0).budget_ms, 4 * HOUR));
        open_at(&sf, false, 27 * HOUR);
        assert_true(frozen(&sf) && shows(&sf, 22 * HOUR));
        atomic_fetch_add(&passed, 20 * HOUR);
        assert_int_equal(lock_call(&sf, 0), 0);
        sf_close(&sf);
        open_at(&sf, false, 27 * HOUR);
        assert_true(comes_to(&sf, 27 * HOUR) && !frozen(&sf) && about(budget(&sf), HOUR));
        atomic_fetch_add(&passed, 1000 * HOUR);
        assert_int_equal(budget(&sf), DAY); /* and no more */
        sf_close(&sf);
        sf_remove(&sf);
}

/* What is shown has been taken from the budget on the drives: a start that cannot write gains nothing. */
static void test_gain_is_taken_first(void **state)
{
        struct sf sf;
        unsigned i;

        make_locked(&sf);
        assert_int_equal(lock_call(&sf, 0), 0);
        sf_close(&sf);
        sf_give(&sf, 3);
        sf.options.drive_wait_ms = 1;
        atomic_store(&ahead, 10 * HOUR);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, so_can_read, NULL, 60));
        assert_int_equal(lock_call(&sf, wall()), -EROFS);
        assert_true(!frozen(&sf) && shows(&sf, 0) && about(budget(&sf), DAY));
        sf_close(&sf);
        assert_true(about(kept_of(&sf, 0).mark_ms, lp_wall_ms()) && about(kept_of(&sf, 0).budget_ms, DAY));
        sf_give(&sf, 15);
        open_at(&sf, false, 10 * HOUR);
        assert_true(comes_to(&sf, 10 * HOUR));
        sf_close(&sf);
        for (i = 0; i < 4; i++)
                assert_true(about(kept_of(&sf, i).mark_ms, lp_wall_ms() + 10 * HOUR) && about(kept_of(&sf, i).budget_ms, 14 * HOUR));
        sf_remove(&sf);
}

/* The row of a build that knew no budget stands for all of it. */
static void test_row_without_budget(void **state)
{
        struct sf sf;
        unsigned i;

        make_locked(&sf);
        sf_close(&sf);
        for (i = 0; i < 4; i++) {
                struct fmt_lock_clock kept = {.mark_ms = lp_wall_ms()};

                keep_on(&sf, i, &kept, offsetof(struct fmt_lock_clock, budget_ms));
        }
        open_at(&sf, false, 23 * HOUR);
        assert_true(comes_to(&sf, 23 * HOUR) && !frozen(&sf) && about(budget(&sf), HOUR));
        sf_close(&sf);
        sf_remove(&sf);
}

/* Rows from before a gain, on all drives but one: the one speaks. */
static void test_rows_that_differ(void **state)
{
        struct sf_row *old[3];
        struct sf sf;
        unsigned i;

        make_locked(&sf);
        assert_int_equal(lock_call(&sf, 0), 0);
        sf_close(&sf);
        for (i = 0; i < 3; i++)
                old[i] = row_of(&sf, i);
        open_at(&sf, false, 20 * HOUR);
        assert_true(comes_to(&sf, 20 * HOUR));
        sf_close(&sf);
        for (i = 0; i < 3; i++) {
                sf_put_row(&sf, i, old[i]);
                free(old[i]);
        }
        open_at(&sf, false, 25 * HOUR);
        assert_true(frozen(&sf) && shows(&sf, 20 * HOUR) && about(budget(&sf), 4 * HOUR));
        sf_close(&sf);
        sf_remove(&sf);
}

/* ---- the clock alone, killed at any moment --------------------------------------------------- */

struct world {
        struct eng_store *store;
        struct fmt_lock_clock durable;
        uint64_t random;
        int64_t most;                  /* it may show so much, and never more */
        int64_t tenths;                /* of ms of growth that `most` has not got yet */
        int64_t shown;                 /* in this run */
        unsigned gains, freezes;
};

static uint64_t chance(struct world *w, uint64_t below)
{
        w->random = w->random * 6364136223846793005u + 1442695040888963407u;
        return (w->random >> 33) % below;
}

static void world_looks(struct world *w)
{
        int64_t now = eng_lock_now(w->store);
        struct eng_lock_state state;

        eng_lock_read(w->store, &state);
        assert_true(now >= w->shown && now <= w->most);
        assert_true(state.now_ms + state.budget_ms <= w->most);
        assert_true(w->durable.mark_ms + w->durable.budget_ms <= w->most);
        w->shown = now;
}

/* It was killed; what is durable begins it. */
static void world_restarts(struct world *w)
{
        bool was = w->store->lock_clock.begun;

        memset(&w->store->lock_clock, 0, sizeof(w->store->lock_clock));
        pthread_mutex_init(&w->store->lock_clock.lock, NULL);
        eng_lock_begin(w->store, was ? &w->durable : NULL);
        w->freezes += w->store->lock_clock.frozen;
        w->shown = 0;
}

static void world_passes(struct world *w, int64_t ms)
{
        atomic_fetch_add(&passed, ms);
        w->tenths += ms;
        w->most += ms + w->tenths / 10;
        w->tenths %= 10;
}

/* The write counts, or not, and its answer comes, or not. */
static void world_keeps(struct world *w)
{
        bool confirms = chance(w, 20) == 0, counts = confirms || chance(w, 4) != 0;
        struct eng_lock_point point;

        eng_lock_point(w->store, confirms ? wall() : 0, &point);
        world_passes(w, (int64_t)chance(w, 1000));
        world_looks(w);
        if (!counts)
                return;
        w->durable = point.kept;
        if (confirms) {
                w->most = point.kept.mark_ms + DAY;
                world_passes(w, SOON); /* give or take */
                w->shown = 0;
        }
        if (!confirms && chance(w, 4) == 0)
                return;
        w->gains += !confirms && w->store->lock_clock.gain_ms > HOUR;
        eng_lock_reach(w->store, &point);
}

static void test_any_history(void **state)
{
        const char *seed = getenv("MILLRACE_SEED");
        struct world w = {.store = calloc(1, sizeof(*w.store)), .random = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)lp_wall_ms() | 1};
        unsigned i;

        print_message("MILLRACE_SEED=%llu\n", (unsigned long long)w.random);
        w.store->options.wall_ms = wall;
        w.store->options.clock_ns = monotonic;
        atomic_store(&ahead, 0);
        world_restarts(&w);
        w.durable = (struct fmt_lock_clock){.mark_ms = eng_lock_now(w.store), .budget_ms = DAY};
        w.most = w.durable.mark_ms + DAY + SOON; /* the real clocks run meanwhile */
        for (i = 0; i < 200000; i++) {
                switch (chance(&w, 8)) {
                case 0:
                        atomic_fetch_add(&ahead, (int64_t)chance(&w, 12 * HOUR) - 5 * HOUR);
                        break;
                case 1:
                        atomic_store(&ahead, chance(&w, 8) == 0 ? 400 * DAY : 0);
                        break;
                case 2:
                        world_restarts(&w);
                        break;
                case 3:
                case 4:
                        world_passes(&w, (int64_t)chance(&w, 10 * HOUR));
                        break;
                default:
                        world_keeps(&w);
                }
                world_looks(&w);
        }
        print_message("gains %u, frozen starts %u\n", w.gains, w.freezes);
        assert_true(w.gains > 100 && w.freezes > 100);
        free(w.store);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_wall_clock_jumps),    cmocka_unit_test(test_restarts),           cmocka_unit_test(test_confirmed),
                cmocka_unit_test(test_kept),                cmocka_unit_test(test_unread),             cmocka_unit_test(test_unread_on_one),
                cmocka_unit_test(test_budget_is_spent),
                cmocka_unit_test(test_budget_grows),        cmocka_unit_test(test_gain_is_taken_first), cmocka_unit_test(test_row_without_budget),
                cmocka_unit_test(test_rows_that_differ),    cmocka_unit_test(test_any_history),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
