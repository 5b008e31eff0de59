/*
 * How fast the upkeep goes (pacer.c): at its rate while clients are at work, slower while they
 * wait, faster without them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "engine/base/pacer.h"
#include "engine/base/store.h"

#define SECOND 1000000000ull
#define NOW (100 * SECOND)
#define RATE (1ull << 20)

static void test_without_clients(void **state)
{
        struct eng_pacer pacer = {.rate = RATE};

        assert_int_equal(eng_pacer_wait(&pacer, NOW), 0);
        eng_pacer_spend(&pacer, NOW, RATE * ENG_PACER_IDLE);
        assert_int_equal(eng_pacer_wait(&pacer, NOW), SECOND);
        assert_int_equal(eng_pacer_wait(&pacer, NOW + SECOND / 2), SECOND / 2);
        assert_int_equal(eng_pacer_wait(&pacer, NOW + SECOND), 0);
}

static void test_beside_clients(void **state)
{
        struct eng_pacer pacer = {.rate = RATE, .busy = NOW};

        eng_pacer_spend(&pacer, NOW, RATE);
        assert_int_equal(eng_pacer_wait(&pacer, NOW), SECOND);
        pacer = (struct eng_pacer){.rate = RATE, .busy = NOW, .pressed = NOW};
        eng_pacer_spend(&pacer, NOW, RATE / 4 + 1);
        assert_int_equal(eng_pacer_wait(&pacer, NOW), SECOND);
}

/*
 * A share goes at the rate of the rest, slower for clients as they do, and no faster than it may;
 * neither of the two waits for the other.
 */
static void test_shares(void **state)
{
        struct eng_pacer pacer = {.rate = RATE};
        struct eng_pacer_share own = {.most = 0}, bounded = {.most = RATE};

        eng_pacer_spend(&pacer, NOW, 100 * RATE);
        assert_int_equal(eng_pacer_share_wait(&own, NOW), 0);
        eng_pacer_share_spend(&pacer, &own, NOW, RATE * ENG_PACER_IDLE);
        assert_int_equal(eng_pacer_share_wait(&own, NOW), SECOND);
        assert_int_equal(eng_pacer_wait(&pacer, NOW), 100 * SECOND / ENG_PACER_IDLE);
        eng_pacer_share_spend(&pacer, &bounded, NOW, RATE * ENG_PACER_IDLE);
        assert_int_equal(eng_pacer_share_wait(&bounded, NOW), SECOND * ENG_PACER_IDLE);
        pacer.busy = pacer.pressed = NOW + 2 * SECOND;
        eng_pacer_share_spend(&pacer, &own, NOW + 2 * SECOND, RATE / 4 + 1);
        assert_int_equal(eng_pacer_share_wait(&own, NOW + 2 * SECOND), SECOND);
}

/* All who spend count, and the time in which nobody did is not made up for. */
static void test_is_one_for_all(void **state)
{
        struct eng_pacer pacer = {.rate = RATE, .busy = NOW};

        eng_pacer_spend(&pacer, NOW, RATE);
        eng_pacer_spend(&pacer, NOW - 1, RATE); /* a loop whose clock was read before */
        assert_int_equal(eng_pacer_wait(&pacer, NOW), 2 * SECOND);
        atomic_store(&pacer.busy, NOW + 1000 * SECOND);
        eng_pacer_spend(&pacer, NOW + 1000 * SECOND, RATE);
        assert_int_equal(eng_pacer_wait(&pacer, NOW + 1000 * SECOND), SECOND);
}

/* The least rate there is stops nothing for ever, and the largest does not overflow. */
static void test_ends(void **state)
{
        struct eng_pacer pacer = {.rate = 1, .busy = NOW, .pressed = NOW};

        eng_pacer_spend(&pacer, NOW, 1 << 20);
        assert_int_equal(eng_pacer_wait(&pacer, NOW), (1 << 20) * SECOND);
        pacer = (struct eng_pacer){.rate = 1ull << 40};
        eng_pacer_spend(&pacer, NOW, 8ull << 30);
        assert_in_range(eng_pacer_wait(&pacer, NOW), 0, SECOND / 100);
}

/*
 * Where no rate is set, a drive of 20 TB is full again within a day, though clients are at work all
 * the time and wait for buffers in a seventh of it.
 */
static void test_a_large_drive_in_a_day(void **state)
{
        const uint64_t bytes = 20ull * 1000 * 1000 * 1000 * 1000, portion = 64ull << 20, day = 24 * 3600 * SECOND;
        struct eng_pacer pacer = {.rate = eng_pacer_rate(bytes, 1)};
        uint64_t now = NOW, done = 0, portions = 0;

        while (done < bytes) {
                atomic_store(&pacer.busy, now);
                if (portions++ % 26 == 0) /* it takes four times as long */
                        atomic_store(&pacer.pressed, now);
                else
                        atomic_store(&pacer.pressed, 0);
                eng_pacer_spend(&pacer, now, portion);
                done += portion;
                now += eng_pacer_wait(&pacer, now);
        }
        assert_in_range(now - NOW, day / 2, day);
        assert_int_equal(eng_pacer_rate(1 << 30, 1), ENG_HEAL_RATE);
        assert_int_equal(eng_pacer_rate(0, 0), ENG_HEAL_RATE);
        assert_int_equal(eng_pacer_rate(bytes, 2), 2 * eng_pacer_rate(bytes, 1));
}

/* ---- turns ----------------------------------------------------------------------------------- */

#define WAITERS 24u

struct waiter {
        struct eng_pacer_turn turn;
        uint64_t begins;              
        unsigned overtaken;            /* by those who came after it and begin before */
};

static void come(struct eng_pacer *pacer, struct waiter *w, uint64_t now, uint64_t bytes)
{
        w->begins = now + eng_pacer_take(pacer, &w->turn, now, bytes);
        w->overtaken = 0;
}

static unsigned first_of(const struct waiter *w)
{
        unsigned i, first = 0;

        for (i = 1; i < WAITERS; i++)
                if (w[i].begins < w[first].begins)
                        first = i;
        return first;
}

/*
 * Many repairs, of which each comes back for its next stripe at once: nobody who waits is passed by
 * more of those who came later than begin in the time by which work may be ahead of its rate.
 */
static void test_first_come_first_served(void **state)
{
        struct eng_pacer pacer = {.rate = RATE, .busy = 1000000 * SECOND};
        struct waiter w[WAITERS] = {{.begins = 0}};
        uint64_t now = NOW, came[WAITERS], bytes = 0;
        unsigned i, step, at;

        for (i = 0; i < WAITERS; i++) {
                came[i] = i;
                come(&pacer, &w[i], now, RATE / 100); /* 10 ms */
        }
        for (step = WAITERS; step < 5000; step++) {
                at = first_of(w);
                now = w[at].begins > now ? w[at].begins : now;
                for (i = 0; i < WAITERS; i++) {
                        w[i].overtaken += came[i] < came[at];
                        assert_true(w[i].overtaken <= 1);
                }
                bytes += RATE / 100;
                came[at] = step;
                come(&pacer, &w[at], now, RATE / 100 * (1 + at % 3));
                bytes += RATE / 100 * (at % 3);
        }
        assert_in_range(bytes, (now - NOW) / SECOND * RATE, ((now - NOW) / SECOND + 1 + WAITERS * 3 / 100) * RATE);
}

/*
 * What a repair that is cut off had paid for is there for the next one, and no one waits longer for
 * it.
 */
static void test_a_turn_given_back(void **state)
{
        struct eng_pacer pacer = {.rate = RATE, .busy = 1000000 * SECOND};
        struct eng_pacer_turn turn[3] = {{.cost = 0}};

        assert_int_equal(eng_pacer_take(&pacer, &turn[0], NOW, RATE), 0);
        assert_int_equal(eng_pacer_take(&pacer, &turn[1], NOW, 5 * RATE), SECOND);
        assert_int_equal(eng_pacer_take(&pacer, &turn[2], NOW, RATE), 6 * SECOND);
        eng_pacer_give_back(&pacer, &turn[1]);
        assert_int_equal(eng_pacer_wait(&pacer, NOW), 2 * SECOND);
        eng_pacer_give_back(&pacer, &turn[1]); /* once is enough */
        assert_int_equal(eng_pacer_wait(&pacer, NOW), 2 * SECOND);
        eng_pacer_give_back(&pacer, &turn[2]);
        eng_pacer_give_back(&pacer, &turn[0]);
        assert_int_equal(eng_pacer_wait(&pacer, NOW), 0);
        turn[0].cost = UINT64_MAX; /* more than is owed */
        eng_pacer_give_back(&pacer, &turn[0]);
        assert_int_equal(pacer.due, 0);
}

/* Small things are paid for many at a time, as far as the rate allows that many in a moment. */
static void test_batches(void **state)
{
        struct eng_pacer pacer = {.rate = RATE, .busy = NOW};

        assert_int_equal(eng_pacer_batch(&pacer, NOW, 512, 256), RATE / 200 / 512);
        assert_int_equal(eng_pacer_batch(&pacer, NOW, 512, 4), 4);
        assert_int_equal(eng_pacer_batch(&pacer, NOW, RATE, 256), 1);
}

/* Who is a client: who reads or uploads, and not the store itself. */
static void test_who_is_seen(void **state)
{
        struct lp_config config = {.slots = 48};
        struct eng_pacer pacer = {.rate = RATE};
        struct eng_loop el = {.home.id_counter = 0};

        TAILQ_INIT(&el.home.puts);
        assert_int_equal(lp_loop_new(&config, &el.loop), 0);
        eng_pacer_look(&pacer, &el);
        assert_int_equal(pacer.busy, 0);
        el.home.get_count = el.home.own_gets = 7;
        eng_pacer_look(&pacer, &el);
        assert_int_equal(pacer.busy, 0);
        el.home.get_count++;
        eng_pacer_look(&pacer, &el);
        assert_true(pacer.busy > 0);
        pacer.busy = 0;
        eng_pacer_look(&pacer, &el); /* nobody has come since */
        assert_int_equal(pacer.busy, 0);
        el.home.id_counter++;
        eng_pacer_look(&pacer, &el);
        assert_true(pacer.busy > 0);
        assert_int_equal(pacer.pressed, 0);
        lp_loop_free(el.loop);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_clients), cmocka_unit_test(test_beside_clients),
                cmocka_unit_test(test_shares), cmocka_unit_test(test_is_one_for_all),
                cmocka_unit_test(test_ends),            cmocka_unit_test(test_a_large_drive_in_a_day), cmocka_unit_test(test_who_is_seen),
                cmocka_unit_test(test_first_come_first_served), cmocka_unit_test(test_a_turn_given_back), cmocka_unit_test(test_batches),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
