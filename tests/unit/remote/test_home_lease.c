/*
 * test_home_lease.c - a home that missed changes believes its copies again when it has all of them, and not before:
 * whatever its leader gives in pages, and while its leader is not open. Loops run on threads.
 */
#include "engine/bucket/config_feed.h"
#include "tests/unit/remote/session_fixture.h"

#define TEXTS 16u           /* more than one page of rows */
#define TEXT  (64u << 10)
#define KIND  200u          /* of the entry that is the last row of all */

static uint8_t bytes[TEXT];
static atomic_size_t newest; /* length of the entry, as the last change made it, which was answered */
static atomic_uint looks, wrong;

/* The home asks WATCH when it has taken what the one before brought. */
static void look_what_it_believes(void)
{
        bool believes = eng_is_current(hf.home.store);
        struct eng_text *text;
        bool has = sf_text(&hf.home, 0, 1, KIND, &text) == 0;

        atomic_fetch_add(&looks, 1);
        atomic_fetch_add(&wrong, believes && (!has || eng_text_bytes(text).len != atomic_load(&newest)));
        if (has)
                eng_text_unref(text);
}

/* Each text, and behind them the last row. It returns when the change is answered. */
static void change_all(void)
{
        static unsigned changes;
        unsigned i;

        changes++;
        memset(bytes, (int)changes, sizeof(bytes));
        for (i = 0; i < TEXTS; i++)
                MUST(sf_text_set(&leader, 0, bucket, 10 + i, ENG_TEXT_ANY, bytes, sizeof(bytes)) == 0);
        MUST(sf_text_set(&leader, 0, 1, KIND, ENG_TEXT_ANY, bytes, changes) == 0);
        atomic_store(&newest, changes);
}

static void changes_are_missed(void)
{
        change_all();
        lose_it();
        WAIT_UNTIL(!eng_is_current(hf.home.store));
        change_all();
        assert_false(eng_is_current(hf.home.store));
        atomic_store(&looks, 0);
        atomic_store(&wrong, 0);
        atomic_store(&at_each_watch, look_what_it_believes);
}

/* A change that has to be answered by now. */
static void change_is_answered(struct eng_feed_wait *wait)
{
        atomic_fetch_add(&wrong, (unsigned)-1);
}

static void change_waits(void *arg)
{
        static struct eng_feed_wait waits[256];
        unsigned n = atomic_fetch_add(&looks, 1);

        assert_true(n < sizeof(waits) / sizeof(waits[0]));
        atomic_fetch_add(&wrong, 1);
        waits[n].version = eng_feed_version(leader.store);
        waits[n].done = change_is_answered;
        eng_feed_wait(leader.store, &waits[n]);
}

/* Nobody waits for a home that does not believe its copies, however many pages it still reads. */
static void look_who_is_waited_for(void)
{
        if (atomic_load(&wrong) == 0 && !eng_is_current(hf.home.store))
                hf_run(server_options.coordinator, change_waits, NULL);
}

static void home_follows(unsigned looks_least)
{
        unsigned i;

        WAIT_UNTIL(follows());
        assert_true(follows());
        look_what_it_believes();
        atomic_store(&at_each_watch, NULL);
        for (i = 0; i < NODE_LOOPS; i++)
                hf_run(b.lp[i], nothing, NULL); /* one that looks has ended */
        assert_true(atomic_load(&looks) > looks_least);
        assert_int_equal(atomic_load(&wrong), 0);
}

/* The leader remembers what it has not told. */
static void test_changes_in_pages(void **state)
{
        changes_are_missed();
        to_b = node_meets(&a, &b);
        home_follows(3);
}

static void next_leader(uint64_t revision)
{
        start_leader_node(revision);
        to_b = node_meets(&a, &b);
        node_meets(&b, &a);
}

static void test_changes_do_not_wait_for_pages(void **state)
{
        changes_are_missed();
        atomic_store(&at_each_watch, look_who_is_waited_for);
        to_b = node_meets(&a, &b);
        home_follows(3);
}

/* The next leader does not, and all rows are read. */
static void test_all_rows_in_pages(void **state)
{
        changes_are_missed();
        stop_leader_node();
        rem_home_server_free(server);
        next_leader(11);
        home_follows(3);
}

static void phase_is(void *arg)
{
        leader.store->coord->phase = *(const enum eng_phase *)arg;
        eng_feed_tell(leader.store);
}

/* The next leader has a lease, and is not open: JOIN is answered after a while, and WATCH has nothing to say. */
static void test_not_open(void **state)
{
        const enum eng_phase early = ENG_PHASE_EPOCH, open = ENG_PHASE_OPEN;

        changes_are_missed();
        stop_leader_node();
        rem_home_server_free(server);
        hf_run(server_options.coordinator, phase_is, (void *)&early);
        next_leader(11);
        WAIT_UNTIL(atomic_load(&looks) > 2);
        assert_false(eng_is_current(hf.home.store));
        hf_run(server_options.coordinator, phase_is, (void *)&open);
        home_follows(3);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_changes_in_pages, begin, end),
                cmocka_unit_test_setup_teardown(test_changes_do_not_wait_for_pages, begin, end),
                cmocka_unit_test_setup_teardown(test_all_rows_in_pages, begin, end),
                cmocka_unit_test_setup_teardown(test_not_open, begin, end),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
