/*
 * test_hand_over.c - a node that is about to hand over finds another one that is ready to lead, over a network in memory: in
 * virtual time. docs/design/hand-over.md has the reasons.
 */
#include "cluster/election.h"
#include "cluster_node.h"
#include "tests/unit/remote/remote_fixture.h"

#define US     1u
#define THEM   2u
#define NOBODY 9u /* is not known to net/ */

static enum rem_prepared says;
static unsigned asked, answers_soon; /* so many times `soon` before what it says */
static unsigned ends, stops;
static struct rf rf;
static struct cl_hand_over hand_over;

static enum rem_prepared they_say(void *arg, uint32_t pool)
{
        assert_int_equal(pool, RF_POOL);
        asked++;
        if (answers_soon == 0)
                return says;
        answers_soon--;
        return REM_PREPARED_SOON;
}

static void is_said(struct cl_hand_over *h)
{
        assert_ptr_equal(h, &hand_over);
        ends++;
}

static void has_stopped(void *arg)
{
        stops++;
}

static int begin(void **state)
{
        rf_server_options = (struct rem_server_options){.prepare = they_say};
        rf_start_with(&rf, NULL, 0);
        says = REM_PREPARED_YES;
        asked = answers_soon = ends = stops = 0;
        return 0;
}

static int end(void **state)
{
        rf_stop(&rf);
        rf_server_options = (struct rem_server_options){0};
        return 0;
}

static void on_its_loop(void (*func)(void))
{
        struct lp_loop *outer = lp_become(rf.a.loops[0]);

        func();
        lp_become(outer);
        mem_settle();
}

static void start_now(void)
{
        cl_hand_over_start(&hand_over);
}

static void stop_now(void)
{
        cl_hand_over_stop(&hand_over, has_stopped, NULL);
}

static void hand_over_to(const uint16_t *nodes, unsigned count)
{
        hand_over = (struct cl_hand_over){.client = rf.client, .pool = RF_POOL, .count = count, .done = is_said};
        memcpy(hand_over.nodes, nodes, count * sizeof(nodes[0]));
        on_its_loop(start_now);
}

/* It is asked until it is ready, and from then on now and then. */
static void test_ready(void **state)
{
        const uint16_t nodes[] = {THEM};
        unsigned before;

        answers_soon = 3;
        hand_over_to(nodes, 1);
        mem_pass(10);
        assert_true(asked == 1 && ends == 0);
        mem_pass(100);
        assert_true(asked == 4 && ends == 1);
        assert_int_equal(hand_over.ready, THEM);
        before = asked;
        mem_pass(CL_KEEP_MS - 10);
        assert_in_range(asked, before + 3, before + 7);
        says = REM_PREPARED_NO; /* its process has ended: nobody else is asked */
        mem_pass(2 * CL_KEEP_MS);
        assert_true(ends == 1 && hand_over.ready == THEM);
        on_its_loop(stop_now);
        assert_int_equal(stops, 1);
        before = asked;
        mem_pass(2 * CL_KEEP_MS);
        assert_int_equal(asked, before);
}

/* The next one is asked when one says no, or is not known, or does not know the question. */
static void test_others(void **state)
{
        const uint16_t nodes[] = {NOBODY, THEM}, none[] = {THEM, NOBODY};

        hand_over_to(nodes, 2);
        mem_pass(100);
        assert_true(ends == 1 && hand_over.ready == THEM);
        on_its_loop(stop_now);
        says = REM_PREPARED_NO;
        hand_over_to(none, 2);
        mem_pass(100);
        assert_true(ends == 2 && hand_over.ready == 0 && asked == 2);
        mem_pass(2 * CL_PREPARE_MS);
        assert_true(ends == 2 && asked == 2); /* and nobody any more */
        on_its_loop(stop_now);
        hand_over_to(none, 0);
        assert_true(ends == 3 && hand_over.ready == 0);
        on_its_loop(stop_now);
        assert_int_equal(stops, 3);
        rf.server->options.prepare = NULL; /* it is never ready */
        hand_over_to(nodes, 2);
        mem_pass(100);
        assert_true(ends == 4 && hand_over.ready == 0);
        on_its_loop(stop_now);
}

/* One that is not ready for too long is not waited for, nor is anybody behind it. */
static void test_in_time(void **state)
{
        const uint16_t nodes[] = {THEM, THEM};

        answers_soon = UINT32_MAX;
        hand_over_to(nodes, 2);
        mem_pass(CL_PREPARE_MS - 100);
        assert_int_equal(ends, 0);
        mem_pass(200);
        assert_true(ends == 1 && hand_over.ready == 0);
        asked = 0;
        mem_pass(CL_PREPARE_MS);
        assert_int_equal(asked, 0);
        on_its_loop(stop_now);
        assert_int_equal(stops, 1);
}

/* It is stopped with a question under way: it has stopped when that has ended. */
static void test_stop(void **state)
{
        const uint16_t nodes[] = {THEM};
        struct lp_loop *outer;

        answers_soon = UINT32_MAX;
        hand_over = (struct cl_hand_over){.client = rf.client, .pool = RF_POOL, .nodes = {nodes[0]}, .count = 1, .done = is_said};
        outer = lp_become(rf.a.loops[0]);
        cl_hand_over_start(&hand_over);
        cl_hand_over_stop(&hand_over, has_stopped, NULL);
        lp_become(outer);
        assert_int_equal(stops, 0);
        mem_pass(1000);
        assert_true(stops == 1 && ends == 0 && asked <= 1);
}

/* Who may lead next: in the pool's order, without the node itself. */
static void test_nodes(void **state)
{
        static const uint16_t order[3][3] = {{1, 2, 3}, {2, 3, 1}, {3, 1, 2}};
        _Alignas(8) static uint8_t body[FMT_EPOCH_MAX(3)];
        struct fmt_epoch epoch = {.number = 7, .pg_count = 64, .drives = 3, .k = 1, .m = 2};
        struct cl_pool pool = {.has_config = true};
        uint16_t nodes[ENG_DRIVES_MAX];
        unsigned i, own;

        memcpy(body, &epoch, sizeof(epoch));
        for (i = 0; i < 3; i++) {
                struct fmt_epoch_drive d = {.in = FMT_EPOCH_IN, .node = (uint16_t)(i + 1), .drive_id = {(uint8_t)(i + 1)}};

                memcpy(body + sizeof(epoch) + i * sizeof(d), &d, sizeof(d));
                body[sizeof(epoch) + 3 * sizeof(d) + i * FMT_ID] = (uint8_t)(i + 1);
        }
        pool.config.epoch_len = FMT_EPOCH_PLACED(3);
        memcpy(pool.config.epoch, body, pool.config.epoch_len);
        for (pool.number = 1; pool.number <= 3; pool.number++) {
                assert_int_equal(cl_hand_over_nodes(&pool, 77, false, nodes), 3);
                assert_memory_equal(nodes, order[pool.number - 1], sizeof(order[0]));
                for (own = 0; own < 3; own++) {
                        assert_int_equal(cl_hand_over_nodes(&pool, order[pool.number - 1][own], true, nodes), own);
                        assert_memory_equal(nodes, order[pool.number - 1], own * sizeof(nodes[0]));
                        assert_int_equal(cl_hand_over_nodes(&pool, order[pool.number - 1][own], false, nodes), 2);
                        for (i = 0; i < 2; i++)
                                assert_int_equal(nodes[i], order[pool.number - 1][i < own ? i : i + 1]);
                }
        }
        pool.config.epoch_len--;
        assert_int_equal(cl_hand_over_nodes(&pool, 1, false, nodes), 0);
        pool.has_config = false;
        assert_int_equal(cl_hand_over_nodes(&pool, 1, false, nodes), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_ready, begin, end),
                cmocka_unit_test_setup_teardown(test_others, begin, end),
                cmocka_unit_test_setup_teardown(test_in_time, begin, end),
                cmocka_unit_test_setup_teardown(test_stop, begin, end),
                cmocka_unit_test(test_nodes),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
