/*
 * test_feed_strangers.c - how long a change of the configuration waits for copies that a leader before has told: from when
 * the store is open, not from when it was asked to wait.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/bucket/config_feed.h"
#include "tests/lib/store_fixture.h"

#define STRANGERS_NS (1000ull * 1000 * 1000)
#define SOON_NS      (STRANGERS_NS * 9 / 10) /* the coordinator's time is of the beginning of its turn */

static struct sf sf;

/* As at a start: the store is not open yet. */
static uint64_t ask_early(struct eng_store *store, uint64_t arg)
{
        enum eng_phase phase = store->coord->phase;

        store->coord->phase = ENG_PHASE_CONFIG;
        eng_feed_strangers(store, STRANGERS_NS);
        store->coord->phase = phase;
        return 0;
}

static uint64_t open_now(struct eng_store *store, uint64_t arg)
{
        eng_feed_open(store);
        return 0;
}

static uint64_t ask_late(struct eng_store *store, uint64_t arg)
{
        eng_feed_strangers(store, STRANGERS_NS);
        return 0;
}

/* Until a bucket of this name was made. */
static uint64_t bucket_takes(const char *name)
{
        uint64_t id, began = lp_clock();

        assert_int_equal(sf_bucket(&sf, name, &id), 0);
        return lp_clock() - began;
}

static int begin(void **state)
{
        sf_make(&sf, 3, 1);
        return sf_open(&sf, true) == 0 && sf_wait_ready(&sf, 20) ? 0 : -1;
}

static int end(void **state)
{
        sf_close(&sf);
        sf_remove(&sf);
        return 0;
}

static void test_from_when_it_is_open(void **state)
{
        sf_ask(&sf, ask_early, 0);
        usleep(STRANGERS_NS / 1000 * 3 / 2);
        sf_ask(&sf, open_now, 0);
        assert_true(bucket_takes("first") >= SOON_NS);
}

static void test_from_now_on(void **state)
{
        sf_ask(&sf, ask_late, 0);
        assert_true(bucket_takes("bucket") >= SOON_NS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_from_when_it_is_open, begin, end),
                cmocka_unit_test_setup_teardown(test_from_now_on, begin, end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
