/*
 * test_arena.c - slots and reservations: shares, first come first served, cancelling, bounds.
 *
 * Most tests use a loop that does not run yet, on the thread that made it, and call the round's
 * part by hand.
 */
#include "tests/unit/loop/loop_fixture.h"

#define SLOTS 20u /* 9 for GET, 9 for PUT, 2 for INTERNAL */

static struct lp_loop *loop;
static struct lp_reserve *granted[4096];
static unsigned grants, expirations;

static void note(struct lp_reserve *r)
{
        assert_false(r->waiting);
        granted[grants++] = r;
}

static struct lp_reserve wish(enum lp_share share, unsigned count)
{
        return (struct lp_reserve){.count = count, .share = share, .granted = note};
}

static struct lp_stats stats(void)
{
        struct lp_stats s;

        lp_stats_read(loop, &s);
        return s;
}

static int make_loop(void **state)
{
        struct lp_config config = {.slots = SLOTS};

        grants = 0;
        return lp_loop_new(&config, &loop);
}

static int free_loop(void **state)
{
        lp_loop_free(loop);
        return 0;
}

/* ---- shares ---------------------------------------------------------------------------------- */

static void check_shares(unsigned slots, unsigned get, unsigned put, unsigned internal)
{
        struct lp_config config = {.slots = slots};
        struct lp_loop *other;

        assert_int_equal(lp_loop_new(&config, &other), 0);
        assert_int_equal(lp_share_slots(other, LP_SHARE_GET), get);
        assert_int_equal(lp_share_slots(other, LP_SHARE_PUT), put);
        assert_int_equal(lp_share_slots(other, LP_SHARE_INTERNAL), internal);
        lp_loop_free(other);
}

static void test_shares(void **state)
{
        struct lp_config config = {.slots = 2};
        struct lp_loop *other;

        check_shares(0, 0, 0, 0);
        check_shares(3, 1, 1, 1);
        check_shares(4, 1, 1, 2);
        check_shares(20, 9, 9, 2);
        check_shares(64, 28, 28, 8);
        assert_int_equal(lp_loop_new(&config, &other), -EINVAL); /* not one for each */
        config.slots = UINT32_MAX;
        assert_int_equal(lp_loop_new(&config, &other), -EINVAL);
}

/* Beside the others, which stay as they are; the oldest is served first, however long it has waited. */
static void test_peer_share(void **state)
{
        struct lp_config config = {.slots = 20, .peer_slots = 6};
        struct lp_loop *other;
        struct lp_reserve all = {.count = 6, .share = LP_SHARE_PEER}, get = {.count = 9, .share = LP_SHARE_GET};
        struct lp_reserve more = {.count = 7, .share = LP_SHARE_PEER};
        void *slots[15];
        unsigned i;

        assert_int_equal(lp_share_slots(loop, LP_SHARE_PEER), 0);
        assert_int_equal(lp_reserve(loop, &all), -EINVAL); /* not in a cluster */
        assert_int_equal(lp_loop_new(&config, &other), 0);
        assert_int_equal(lp_share_slots(other, LP_SHARE_GET), 9);
        assert_int_equal(lp_share_slots(other, LP_SHARE_INTERNAL), 2);
        assert_int_equal(lp_share_slots(other, LP_SHARE_PEER), 6);
        assert_int_equal(lp_reserve(other, &more), -EINVAL);
        assert_int_equal(lp_reserve(other, &get), 0);
        assert_int_equal(lp_reserve(other, &all), 0);
        for (i = 0; i < 15; i++)
                assert_non_null(slots[i] = lp_slot_get(other));
        assert_null(lp_slot_get(other));
        for (i = 0; i < 15; i++)
                lp_slot_put(other, slots[i]);
        lp_unreserve(other, LP_SHARE_PEER, 6);
        lp_unreserve(other, LP_SHARE_GET, 9);
        lp_loop_free(other);
        config.peer_slots = UINT32_MAX;
        assert_int_equal(lp_loop_new(&config, &other), -EINVAL);
        config = (struct lp_config){.peer_slots = 3};
        assert_int_equal(lp_loop_new(&config, &other), 0);
        assert_int_equal(lp_share_slots(other, LP_SHARE_PEER), 3);
        lp_loop_free(other);
}

static void test_arena_too_large_for_memory(void **state)
{
        struct lp_config config = {.slots = 40 * 1000 * 1000};
        FILE *file = fopen("/proc/sys/vm/overcommit_memory", "r");
        struct lp_loop *other;
        int overcommit = 1;

        if (file != NULL) {
                assert_int_equal(fscanf(file, "%d", &overcommit), 1);
                fclose(file);
        }
        if (overcommit == 1)
                skip();
        assert_int_equal(lp_loop_new(&config, &other), -ENOMEM);
}

static void test_one_share_does_not_take_from_another(void **state)
{
        struct lp_reserve get = wish(LP_SHARE_GET, 9), more = wish(LP_SHARE_GET, 1), put = wish(LP_SHARE_PUT, 9);
        struct lp_reserve internal = wish(LP_SHARE_INTERNAL, 2);

        assert_int_equal(lp_reserve(loop, &get), 0);
        assert_int_equal(lp_reserve(loop, &more), -EAGAIN);
        assert_int_equal(lp_reserve(loop, &put), 0);
        assert_int_equal(lp_reserve(loop, &internal), 0);
        assert_true(lp_reserve_contended(loop, LP_SHARE_GET));
        assert_false(lp_reserve_contended(loop, LP_SHARE_PUT));
        lp_unreserve(loop, LP_SHARE_PUT, 9);
        lp_arena_grant(loop);
        assert_int_equal(grants, 0);
        assert_int_equal(stats().reserved[LP_SHARE_GET], 9);
        assert_int_equal(stats().reserve_waiting[LP_SHARE_GET], 1);
        assert_int_equal(stats().reserved[LP_SHARE_PUT], 0);
        lp_reserve_cancel(loop, &more);
        assert_false(lp_reserve_contended(loop, LP_SHARE_GET));
}

/* ---- the line -------------------------------------------------------------------------------- */

static void test_first_come_first_served(void **state)
{
        struct lp_reserve all = wish(LP_SHARE_GET, 9), wide = wish(LP_SHARE_GET, 5);
        struct lp_reserve one = wish(LP_SHARE_GET, 1), two = wish(LP_SHARE_GET, 2), late = wish(LP_SHARE_GET, 1);

        assert_int_equal(lp_reserve(loop, &all), 0);
        assert_int_equal(lp_reserve(loop, &wide), -EAGAIN);
        assert_int_equal(lp_reserve(loop, &one), -EAGAIN);
        assert_int_equal(lp_reserve(loop, &two), -EAGAIN);
        lp_unreserve(loop, LP_SHARE_GET, 3);
        assert_int_equal(grants, 0); /* never inside lp_unreserve() */
        lp_arena_grant(loop);
        assert_int_equal(grants, 0); /* the small ones do not overtake the wide one */
        assert_int_equal(lp_reserve(loop, &late), -EAGAIN);
        lp_unreserve(loop, LP_SHARE_GET, 3);
        assert_true(lp_arena_grant_due(loop));
        lp_arena_grant(loop);
        assert_false(lp_arena_grant_due(loop));
        assert_int_equal(grants, 2);
        assert_ptr_equal(granted[0], &wide);
        assert_ptr_equal(granted[1], &one);
        lp_unreserve(loop, LP_SHARE_GET, 8);
        lp_arena_grant(loop);
        assert_int_equal(grants, 4);
        assert_ptr_equal(granted[2], &two);
        assert_ptr_equal(granted[3], &late);
        assert_int_equal(stats().reserved[LP_SHARE_GET], 4);
}

/*
 * Once the first has waited for a while, the last to come is served first; who does not fit is not
 * overtaken even then.
 */
static void test_a_standing_line_is_served_from_its_end(void **state)
{
        struct lp_reserve all = wish(LP_SHARE_GET, 9), r[5];
        unsigned i;

        assert_int_equal(lp_reserve(loop, &all), 0);
        for (i = 0; i < 4; i++) {
                r[i] = wish(LP_SHARE_GET, 3);
                assert_int_equal(lp_reserve(loop, &r[i]), -EAGAIN);
        }
        assert_false(lp_reserve_standing(loop, LP_SHARE_GET));
        r[0].since -= LP_LINE_STANDING_NS;
        assert_true(lp_reserve_standing(loop, LP_SHARE_GET));
        assert_false(lp_reserve_standing(loop, LP_SHARE_PUT));
        lp_unreserve(loop, LP_SHARE_GET, 6);
        assert_true(lp_arena_grant_due(loop));
        lp_arena_grant(loop);
        assert_int_equal(grants, 2);
        assert_ptr_equal(granted[0], &r[3]);
        assert_ptr_equal(granted[1], &r[2]);
        lp_unreserve(loop, LP_SHARE_GET, 3);
        r[4] = wish(LP_SHARE_GET, 4);
        assert_int_equal(lp_reserve(loop, &r[4]), -EAGAIN);
        assert_false(lp_arena_grant_due(loop));
        lp_reserve_cancel(loop, &r[0]);
        lp_arena_grant(loop);
        assert_int_equal(grants, 3);
        assert_ptr_equal(granted[2], &r[1]); /* the one that had waited is gone: first come first served again */
}

/* Repairs wait for as long as they must, and the oldest is never passed. */
static void test_the_stores_own_work_keeps_its_order(void **state)
{
        struct lp_reserve all = wish(LP_SHARE_INTERNAL, 2), r[3];
        unsigned i;

        assert_int_equal(lp_reserve(loop, &all), 0);
        for (i = 0; i < 3; i++) {
                r[i] = wish(LP_SHARE_INTERNAL, 2);
                assert_int_equal(lp_reserve(loop, &r[i]), -EAGAIN);
                r[i].since -= 2 * LP_LINE_STANDING_NS;
        }
        for (i = 0; i < 3; i++) {
                lp_unreserve(loop, LP_SHARE_INTERNAL, 2);
                lp_arena_grant(loop);
                assert_int_equal(grants, i + 1);
                assert_ptr_equal(granted[i], &r[i]);
        }
}

static void note_expired(struct lp_reserve *r)
{
        assert_false(r->waiting);
        expirations++;
}

static void test_nobody_waits_for_ever(void **state)
{
        struct lp_reserve all = wish(LP_SHARE_PUT, 9), r[3], patient = wish(LP_SHARE_INTERNAL, 2), more = wish(LP_SHARE_INTERNAL, 1);
        unsigned i;

        expirations = 0;
        assert_int_equal(lp_reserve(loop, &all), 0);
        assert_int_equal(lp_reserve(loop, &patient), 0);
        assert_int_equal(lp_reserve(loop, &more), -EAGAIN);
        more.since -= 2 * LP_LINE_LONGEST_NS;
        for (i = 0; i < 3; i++) {
                r[i] = wish(LP_SHARE_PUT, 3);
                r[i].expired = note_expired;
                assert_int_equal(lp_reserve(loop, &r[i]), -EAGAIN);
                r[i].since -= i < 2 ? LP_LINE_LONGEST_NS : LP_LINE_LONGEST_NS / 2;
        }
        lp_arena_grant(loop);
        assert_int_equal(expirations, 2);
        assert_int_equal(grants, 0);
        assert_true(r[2].waiting && more.waiting);
        lp_unreserve(loop, LP_SHARE_PUT, 9);
        lp_arena_grant(loop);
        assert_int_equal(grants, 1);
        assert_ptr_equal(granted[0], &r[2]);
}

static void test_cancel(void **state)
{
        struct lp_reserve all = wish(LP_SHARE_PUT, 9), r[4];
        unsigned i;

        lp_reserve_cancel(loop, &all); /* not waiting */
        assert_int_equal(lp_reserve(loop, &all), 0);
        for (i = 0; i < 4; i++) {
                r[i] = wish(LP_SHARE_PUT, 3);
                assert_int_equal(lp_reserve(loop, &r[i]), -EAGAIN);
        }
        lp_reserve_cancel(loop, &r[1]); /* in the middle, the first, the last */
        lp_reserve_cancel(loop, &r[1]);
        lp_reserve_cancel(loop, &r[0]);
        lp_reserve_cancel(loop, &r[3]);
        assert_int_equal(stats().reserve_waiting[LP_SHARE_PUT], 1);
        lp_unreserve(loop, LP_SHARE_PUT, 9);
        lp_arena_grant(loop);
        assert_int_equal(grants, 1);
        assert_ptr_equal(granted[0], &r[2]);
        assert_int_equal(lp_reserve(loop, &r[0]), 0); /* usable again */
}

/* When the wide one in front leaves, those behind it fit. */
static void test_cancel_lets_others_pass(void **state)
{
        struct lp_reserve most = wish(LP_SHARE_PUT, 7), wide = wish(LP_SHARE_PUT, 4), small = wish(LP_SHARE_PUT, 2);

        assert_int_equal(lp_reserve(loop, &most), 0);
        assert_int_equal(lp_reserve(loop, &wide), -EAGAIN);
        assert_int_equal(lp_reserve(loop, &small), -EAGAIN);
        assert_false(lp_arena_grant_due(loop));
        lp_reserve_cancel(loop, &wide);
        assert_int_equal(grants, 0);
        assert_true(lp_arena_grant_due(loop));
        lp_arena_grant(loop);
        assert_int_equal(grants, 1);
}

static void test_bounds(void **state)
{
        static struct lp_reserve line[LP_LINE_MAX];
        struct lp_reserve all = wish(LP_SHARE_INTERNAL, 2), r = wish(LP_SHARE_INTERNAL, 3);
        unsigned i;

        assert_int_equal(lp_reserve(loop, &r), -EINVAL); /* wider than the share */
        r.count = 1;
        r.share = LP_SHARES;
        assert_int_equal(lp_reserve(loop, &r), -EINVAL);
        r.share = LP_SHARE_INTERNAL;
        assert_int_equal(lp_reserve(loop, &all), 0);
        for (i = 0; i < LP_LINE_MAX; i++) {
                line[i] = wish(LP_SHARE_INTERNAL, 1);
                assert_int_equal(lp_reserve(loop, &line[i]), -EAGAIN);
        }
        assert_int_equal(lp_reserve(loop, &r), -EBUSY);
        assert_false(r.waiting);
        lp_unreserve(loop, LP_SHARE_INTERNAL, 2);
        for (i = 0; i < LP_LINE_MAX; i++) {
                lp_arena_grant(loop);
                lp_unreserve(loop, LP_SHARE_INTERNAL, 1);
        }
        lp_arena_grant(loop);
        assert_int_equal(grants, LP_LINE_MAX);
        for (i = 0; i < LP_LINE_MAX; i++)
                assert_ptr_equal(granted[i], &line[i]);
}

static void test_nothing_is_always_granted(void **state)
{
        struct lp_reserve none = wish(LP_SHARE_GET, 0);

        assert_int_equal(lp_reserve(loop, &none), 0);
        assert_int_equal(stats().reserved[LP_SHARE_GET], 0);
}

/* ---- what granted() may do ------------------------------------------------------------------- */

static void give_back_and_rejoin(struct lp_reserve *r)
{
        struct lp_reserve *other = r + 1;

        note(r);
        lp_reserve_cancel(loop, other);
        lp_unreserve(loop, r->share, r->count);
        assert_int_equal(lp_reserve(loop, r), -EAGAIN); /* others wait: to the end of the line */
}

static void test_granted_may_cancel_and_rejoin(void **state)
{
        struct lp_reserve all = wish(LP_SHARE_GET, 9), r[3];
        unsigned i;

        assert_int_equal(lp_reserve(loop, &all), 0);
        for (i = 0; i < 3; i++) {
                r[i] = wish(LP_SHARE_GET, 9);
                assert_int_equal(lp_reserve(loop, &r[i]), -EAGAIN);
        }
        r[0].granted = give_back_and_rejoin;
        lp_unreserve(loop, LP_SHARE_GET, 9);
        lp_arena_grant(loop);
        assert_int_equal(grants, 2);
        assert_ptr_equal(granted[0], &r[0]);
        assert_ptr_equal(granted[1], &r[2]);
        assert_true(r[0].waiting);
        assert_false(r[1].waiting);
}

static void rejoin(struct lp_reserve *r)
{
        note(r);
        lp_unreserve(loop, r->share, r->count);
        assert_int_equal(lp_reserve(loop, r), -EAGAIN);
}

/* Two that rejoin for ever do not hold up the round. */
static void test_rejoining_is_bounded(void **state)
{
        struct lp_reserve all = wish(LP_SHARE_GET, 9), a = wish(LP_SHARE_GET, 9), b = wish(LP_SHARE_GET, 9);

        a.granted = b.granted = rejoin;
        assert_int_equal(lp_reserve(loop, &all), 0);
        assert_int_equal(lp_reserve(loop, &a), -EAGAIN);
        assert_int_equal(lp_reserve(loop, &b), -EAGAIN);
        lp_unreserve(loop, LP_SHARE_GET, 9);
        lp_arena_grant(loop);
        assert_int_equal(grants, 2);
}

/* ---- slots ----------------------------------------------------------------------------------- */

static void test_draw_what_was_reserved(void **state)
{
        struct lp_reserve get = wish(LP_SHARE_GET, 9), put = wish(LP_SHARE_PUT, 9), in = wish(LP_SHARE_INTERNAL, 2);
        char *slots[SLOTS];
        unsigned i, j;

        assert_null(lp_slot_get(loop)); /* nothing reserved */
        assert_int_equal(lp_reserve(loop, &get), 0);
        assert_int_equal(lp_reserve(loop, &put), 0);
        assert_int_equal(lp_reserve(loop, &in), 0);
        for (i = 0; i < SLOTS; i++) {
                slots[i] = lp_slot_get(loop);
                assert_non_null(slots[i]);
                assert_int_equal((uintptr_t)slots[i] % 4096, 0);
                memset(slots[i], (int)i + 1, LP_SLOT_SIZE);
                for (j = 0; j < i; j++)
                        assert_true(slots[i] != slots[j]);
        }
        assert_null(lp_slot_get(loop));
        assert_int_equal(stats().slots_used, SLOTS);
        assert_int_equal(stats().slots, SLOTS);
        for (i = 0; i < SLOTS; i++)
                assert_int_equal(slots[i][0] + slots[i][LP_SLOT_SIZE - 1], 2 * (int)(i + 1));
        lp_slot_put(loop, slots[3]);
        assert_ptr_equal(lp_slot_get(loop), slots[3]);
        for (i = 0; i < SLOTS; i++)
                lp_slot_put(loop, slots[i]);
        assert_int_equal(stats().slots_used, 0);
        lp_unreserve(loop, LP_SHARE_GET, 9);
        lp_unreserve(loop, LP_SHARE_PUT, 9);
        lp_unreserve(loop, LP_SHARE_INTERNAL, 2);
}

static void test_group_of_memory(void **state)
{
        const struct lp_arena arena = {.base = (char *)(1ull << 40), .size = 3 * LP_GROUP_SIZE / 2};
        char elsewhere[16];

        assert_int_equal(lp_arena_group(&arena, arena.base, LP_SLOT_SIZE), 0);
        assert_int_equal(lp_arena_group(&arena, arena.base + LP_GROUP_SIZE - 1, 1), 0);
        assert_int_equal(lp_arena_group(&arena, arena.base + LP_GROUP_SIZE - 1, 2), -1);
        assert_int_equal(lp_arena_group(&arena, arena.base + LP_GROUP_SIZE, 4096), 1);
        assert_int_equal(lp_arena_group(&arena, arena.base + arena.size - 1, 1), 1);
        assert_int_equal(lp_arena_group(&arena, arena.base + arena.size - 1, 2), -1);
        assert_int_equal(lp_arena_group(&arena, arena.base + arena.size, 1), -1);
        assert_int_equal(lp_arena_group(&arena, arena.base - 1, 1), -1);
        assert_int_equal(lp_arena_group(&arena, arena.base, 0), -1);
        assert_int_equal(lp_arena_group(&arena, elsewhere, sizeof(elsewhere)), -1);
}

/* ---- on a running loop ----------------------------------------------------------------------- */

static struct {
        struct lp_reserve all, wait;
        struct lp_timer timer;
        bool inside;
        sem_t done;
} real;

static void real_granted(struct lp_reserve *r)
{
        assert_false(real.inside);
        lp_unreserve(lp_self(), r->share, r->count);
        sem_post(&real.done);
}

static void real_give_back(struct lp_timer *timer)
{
        real.inside = true;
        lp_unreserve(lp_self(), LP_SHARE_PUT, 9);
        real.inside = false;
}

static void real_start(struct lp_loop *on, void *arg)
{
        real.all = wish(LP_SHARE_PUT, 9);
        real.wait = wish(LP_SHARE_PUT, 9);
        real.wait.granted = real_granted;
        real.timer.expired = real_give_back;
        assert_int_equal(lp_reserve(on, &real.all), 0);
        assert_int_equal(lp_reserve(on, &real.wait), -EAGAIN);
        lp_timer_start(on, &real.timer, 2 * MS);
}

static uint64_t cancel_hook(struct lp_hook *hook)
{
        lp_reserve_cancel(lp_self(), &real.all); /* it waits in front of real.wait */
        return UINT64_MAX;
}

static void cancel_start(struct lp_loop *on, void *arg)
{
        static struct lp_reserve most;

        most = wish(LP_SHARE_PUT, 5);
        real.all = wish(LP_SHARE_PUT, 9);
        real.wait = wish(LP_SHARE_PUT, 1);
        real.wait.granted = real_granted;
        assert_int_equal(lp_reserve(on, &most), 0);
        assert_int_equal(lp_reserve(on, &real.all), -EAGAIN);
        assert_int_equal(lp_reserve(on, &real.wait), -EAGAIN);
}

static void test_running(void **state)
{
        struct lp_hook hook = {.before_sleep = cancel_hook};
        struct fixture f;

        sem_init(&real.done, 0, 0);
        fixture_start(&f, 0, SLOTS);
        fixture_call(&f, real_start, NULL);
        fixture_wait(&real.done, 30);
        fixture_stop(&f);
        /* What a hook frees, last in a round, keeps the loop from sleeping. */
        fixture_make(&f, 0, SLOTS, LP_RING_DEFERRED);
        lp_hook_add(f.loop, &hook);
        fixture_run(&f);
        fixture_call(&f, cancel_start, NULL);
        fixture_wait(&real.done, 30);
        fixture_stop(&f);
}

#define on_a_loop(test) cmocka_unit_test_setup_teardown(test, make_loop, free_loop)

static void test_all_slots_lie_in_the_arenas_memory(void **state)
{
        struct lp_config config = {.slots = 10};
        struct lp_reserve reserve = {.count = 2, .share = LP_SHARE_GET};
        struct lp_loop *own;
        void *base, *slot[2];
        size_t len;
        int i;

        assert_int_equal(lp_loop_new(&config, &own), 0);
        lp_arena_memory(own, &base, &len);
        assert_non_null(base);
        assert_int_equal(len, 10 * (size_t)LP_SLOT_SIZE);
        assert_int_equal(lp_reserve(own, &reserve), 0);
        for (i = 0; i < 2; i++) {
                slot[i] = lp_slot_get(own);
                assert_true((uint8_t *)slot[i] >= (uint8_t *)base);
                assert_true((uint8_t *)slot[i] + LP_SLOT_SIZE <= (uint8_t *)base + len);
        }
        for (i = 0; i < 2; i++)
                lp_slot_put(own, slot[i]);
        lp_unreserve(own, LP_SHARE_GET, 2);
        lp_loop_free(own);
        config.slots = 0;
        assert_int_equal(lp_loop_new(&config, &own), 0);
        lp_arena_memory(own, &base, &len);
        assert_null(base);
        assert_int_equal(len, 0);
        lp_loop_free(own);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_slots_lie_in_the_arenas_memory),
                cmocka_unit_test(test_shares),
                cmocka_unit_test_setup_teardown(test_peer_share, make_loop, free_loop),
                cmocka_unit_test(test_arena_too_large_for_memory),
                on_a_loop(test_one_share_does_not_take_from_another),
                on_a_loop(test_first_come_first_served),
                on_a_loop(test_a_standing_line_is_served_from_its_end),
                on_a_loop(test_nobody_waits_for_ever),  on_a_loop(test_the_stores_own_work_keeps_its_order),
                on_a_loop(test_cancel),
                on_a_loop(test_cancel_lets_others_pass),
                on_a_loop(test_bounds),
                on_a_loop(test_nothing_is_always_granted),
                on_a_loop(test_granted_may_cancel_and_rejoin),
                on_a_loop(test_rejoining_is_bounded),
                on_a_loop(test_draw_what_was_reserved),
                cmocka_unit_test(test_group_of_memory),
                cmocka_unit_test(test_running),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
