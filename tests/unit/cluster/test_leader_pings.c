/*
 * test_leader_pings.c - what pings and questions give: a lease counts from when its ping was sent, who begins to lead does
 * not wait for silent nodes, and nodes that may have to lead look often enough and wait for nobody twice.
 */
#include "tests/unit/cluster/leader_fixture.h"

/* A node that was silent before is waited for as long as a ping takes. */
static void test_silent_before(void **state)
{
        static struct leading a;
        uint64_t began;

        stop_server(2);
        usleep(TERM_MS * 5 / 4 * 1000); /* nobody has a grant any more */
        assert_int_equal(claim(&a, 1, leader_key()), 0);
        a.silent = 1ull << 4 | 1ull << 5;
        lead(&a);
        began = lp_clock();
        assert_true(sf_wait_health(&a.sf, four_in, NULL, 60));
        assert_true(lp_clock() - began < (TERM_MS / CL_PINGS * 2 - 100) * 1000000ull);
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        start_server(2);
        node_knows(&servers[2].node, a.claim.term.node, "node-4", a.node.address);
        node_meets(&a.node, &servers[2].node);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 120));
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/* One that takes connections and answers nothing keeps a start waiting for no longer: the drives that are being opened there, neither. */
static void test_mute_before(void **state)
{
        static struct leading a;
        uint64_t began;

        usleep(TERM_MS * 5 / 4 * 1000);
        atomic_store(&slow_node_ms, 5000);
        assert_int_equal(claim(&a, 1, leader_key()), 0);
        a.silent = 1ull << 4 | 1ull << 5;
        lead(&a);
        began = lp_clock();
        assert_true(sf_wait_health(&a.sf, four_in, NULL, 60));
        assert_true(lp_clock() - began < 1700ull * 1000000); /* the attempts to open them have 2 s */
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        atomic_store(&slow_node_ms, 0);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 120));
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/*
 * A lease counts from when a ping was sent. Pings that are on their way for long leave so much less of it at any time; by
 * when they were answered it would be longer than what the drive servers have granted.
 */
static void test_a_lease_counts_from_the_ping(void **state)
{
        enum { SLOW_MS = 300, TIMES = 2000 };
        static struct leading a;
        const struct eng_cluster *cluster;
        uint64_t end, now, longest = 0;
        unsigned i, ends = 0;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        cluster = cl_leader_cluster(a.leader);
        atomic_store(&slow_pings_ms, SLOW_MS);
        usleep(TERM_MS / CL_PINGS * 2 * 1000); /* those that were not slow have been answered */
        for (i = 0; i < TIMES; i++) {
                uint64_t before = end = atomic_load(cluster->lease_end);

                now = lp_boot_clock();
                if (end > now && end - now > longest)
                        longest = end - now;
                usleep(2000);
                ends += atomic_load(cluster->lease_end) != before;
        }
        atomic_store(&slow_pings_ms, 0);
        assert_in_range(ends, 1, TIMES); /* it was renewed by slow pings */
        assert_in_range(longest, 1, (TERM_MS - SLOW_MS + 20) * 1000000ull);
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/* ---- who tries ------------------------------------------------------------------------------- */

static struct {
        struct cl_elector *elector;
        struct cl_view view;
        struct cl_pool pool;
        sem_t judged, stopped;
        uint64_t silent;
        atomic_uint tries;
} elected;

#define HURRIES_AFTER_NS (CL_SILENCE_NS / 2)

static void on_lead(void *arg, int64_t leader_revision, bool whole_stop, uint64_t silent)
{
        elected.silent = silent;
        atomic_fetch_add(&elected.tries, 1);
        sem_post(&elected.judged);
}

static void on_waits(void *arg, const char *why)
{
        sem_post(&elected.judged);
}

static atomic_uint hurries;

static void on_hurry(void *arg)
{
        atomic_fetch_add(&hurries, 1);
}

static void look(void *arg)
{
        cl_elector_look(elected.elector, &elected.view);
}

static void has_no_questions(void *arg)
{
        sem_post(&elected.stopped);
}

static void stop_elector(void *arg)
{
        cl_elector_stop(elected.elector, has_no_questions, NULL);
}

/* A round of questions; ms that it took. */
static uint64_t ask_round(void)
{
        uint64_t began = lp_clock();

        on_loop(servers[0].node.lp[0], look, NULL);
        sem_wait_or_fail(&elected.judged);
        return (lp_clock() - began) / 1000000;
}

static void begin_electing(struct rem_client **client)
{
        struct rem_client_options of = {.net = servers[0].node.net, .loop = servers[0].node.lp[0], .wait_ms = 2000};
        struct cl_elector_options options = {.node = 1, .pool = POOL, .server = servers[0].server, .lead = on_lead, .waits = on_waits, .hurry = on_hurry};

        memset(&elected, 0, sizeof(elected));
        sem_init(&elected.judged, 0, 0);
        sem_init(&elected.stopped, 0, 0);
        MUST(rem_client_new(&of, client) == 0);
        options.client = *client;
        MUST(cl_elector_new(&options, &elected.elector) == 0);
        elected.pool = (struct cl_pool){.number = POOL, .has_config = true, .config = first_config}; /* nobody leads: each round ends with a word */
        elected.view = (struct cl_view){.pool_count = 1, .pools = &elected.pool};
        MUST(eng_epoch_read(first_config.epoch, first_config.epoch_len, &elected.pool.epoch) == 0);
}

static void end_electing(struct rem_client *client)
{
        on_loop(servers[0].node.lp[0], stop_elector, NULL);
        sem_wait_or_fail(&elected.stopped);
        cl_elector_free(elected.elector);
        rem_client_free(client);
        sem_destroy(&elected.judged);
        sem_destroy(&elected.stopped);
}

static void they_meet(unsigned other)
{
        node_meets(&servers[0].node, &servers[other].node);
        node_meets(&servers[other].node, &servers[0].node);
}

/* Rounds wait for a node that does not answer once, and a second later its slots are said to be silent; until it answers again. */
static void test_rounds(void **state)
{
        struct rem_client *client;
        uint64_t until;
        unsigned i;

        they_meet(1);
        they_meet(2);
        begin_electing(&client);
        ask_round();
        assert_int_equal(elected.silent, 0);
        stop_server(2);
        usleep(300000);
        ask_round();
        assert_int_equal(elected.silent, 0); /* for a moment only, yet */
        until = lp_clock() + 20000000000ull;
        while (elected.silent == 0 && lp_clock() < until) {
                uint64_t least = 1000;

                for (i = 0; i < 5; i++) {
                        uint64_t took = ask_round();

                        least = took < least ? took : least;
                }
                assert_true(least < 250); /* a question has 500 ms */
                usleep(100000);
        }
        assert_int_equal(elected.silent, 1u << 4 | 1u << 5);
        start_server(2);
        they_meet(2);
        for (until = lp_clock() + 20000000000ull; elected.silent != 0 && lp_clock() < until; usleep(50000))
                ask_round();
        assert_int_equal(elected.silent, 0);
        end_electing(client);
}

/* A node that is there, and answers too late, is waited for once: connections to it stay open, so nothing fails at once. */
static void test_a_slow_node_is_waited_for_once(void **state)
{
        struct rem_client *client;
        uint64_t took, least = 10000;
        unsigned i;

        they_meet(1);
        they_meet(2);
        begin_electing(&client);
        ask_round(); /* connections are open */
        atomic_store(&slow_states_ms, 900);
        took = ask_round();
        assert_in_range(took, 450, 60000); /* a question has 500 ms */
        for (i = 0; i < 5; i++) {
                usleep(600000); /* that question has ended */
                took = ask_round();
                least = took < least ? took : least;
        }
        assert_in_range(least, 0, 250);
        atomic_store(&slow_states_ms, 0);
        end_electing(client);
}

static uint64_t heard_ns(void)
{
        struct rem_pool_state state = {0};

        rem_server_pool_state(servers[0].server, POOL, &state);
        return state.heard_ns;
}

/*
 * A leader that is heard of is left alone. One that falls silent is looked at more often before its time is over, and then
 * there is somebody who tries.
 */
static void test_hurry(void **state)
{
        static struct leading a;
        struct rem_client *client;
        uint64_t until;

        they_meet(1);
        they_meet(2);
        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        begin_electing(&client);
        elected.pool.is_led = true;
        atomic_store(&hurries, 0);
        elected.tries = 0;
        on_loop(servers[0].node.lp[0], look, NULL);
        usleep(600000);
        if (heard_ns() < CL_SILENCE_NS / 4) { /* the machine was not away */
                assert_int_equal(atomic_load(&hurries), 0);
                assert_int_equal(elected.tries, 0);
        }
        end_leading(&a); /* without handing over */
        for (until = lp_clock() + 20000000000ull; elected.tries == 0 && lp_clock() < until; usleep(50000)) {
                unsigned before = atomic_load(&hurries);

                on_loop(servers[0].node.lp[0], look, NULL);
                if (atomic_load(&hurries) > before)
                        assert_true(heard_ns() >= HURRIES_AFTER_NS);
        }
        assert_int_equal(elected.tries, 1);
        assert_true(heard_ns() >= CL_SILENCE_NS);
        assert_true(atomic_load(&hurries) > 0);
        end_electing(client);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_silent_before), cmocka_unit_test(test_mute_before), cmocka_unit_test(test_a_lease_counts_from_the_ping),
                cmocka_unit_test(test_rounds), cmocka_unit_test(test_a_slow_node_is_waited_for_once), cmocka_unit_test(test_hurry),
        };

        return cmocka_run_group_tests(tests, start, stop);
}
