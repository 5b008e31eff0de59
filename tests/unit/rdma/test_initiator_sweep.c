/*
 * test_initiator_sweep.c - histories of requests by tokens in which calls of the transport fail:
 * one point after the other, and at random. Whatever fails, each request ends once, in right bytes
 * or an error, no memory but what tokens name is touched, and nothing is left.
 */
#include "tests/unit/rdma/token_client.h"

static struct far far;
static bool right; /* everything went well */

static bool all_over(const struct get *gets, unsigned count)
{
        unsigned i;

        for (i = 0; i < count; i++)
                if (!get_over(&gets[i]))
                        return false;
        return true;
}

/* Until all are over; where nothing happens any more, time passes: the server's patience ends. */
static void finish(const struct get *gets, unsigned count)
{
        unsigned bound = 200;

        step_all();
        while (!all_over(gets, count)) {
                assert(bound-- > 0);
                step_time(3ull * 1000 * 1000 * 1000);
                step_all();
        }
}

static void close_world(uint64_t *points, uint64_t *failed)
{
        struct fake_counts counts;
        struct rdx_stats stats;

        if (server != NULL) {
                step_all();
                rdx_stats_read(server, &stats);
                assert_int_equal(stats.in_flight, 0);
        }
        fake_counts_read(&counts);
        *points = counts.points;
        *failed = counts.failed;
        far_close(&far);
        world_close();
}

/* ---- one point after the other --------------------------------------------------------------- */

static uint64_t history(uint64_t seed, uint64_t fail_at, uint64_t *failed)
{
        struct fake_options options = {.seed = seed, .fail_at = fail_at};
        static struct get gets[4];
        uint64_t points;
        unsigned i;

        right = true;
        server = NULL;
        world_tokens = true;
        memset(&far, 0, sizeof(far));
        if (world_open(seed, &options, NULL) != 0 || far_open(&far) != 0) {
                if (far.bytes == NULL) {
                        far.bytes = calloc(1, MEMORY_SIZE);
                        far.shadow = calloc(1, MEMORY_SIZE);
                }
                close_world(&points, failed);
                return points;
        }
        far_fill(&far, 30000, 2 * UNIT, 9);
        for (i = 0; i < 4; i++) {
                struct rdx_token token = far_token(&far, i * 10000, 2 * UNIT, i == 3);

                if (i == 1)
                        token.rkey ^= 0x5a5a00;
                get_start_token(&gets[i], i % 2, &token, 6 + i, 2 * UNIT, GET_WHOLE);
                gets[i].request.read = i == 3;
        }
        finish(gets, 4);
        for (i = 0; i < 4; i++) {
                if (i == 1) {
                        assert_true(gets[i].begin_result != 0 || gets[i].result != 0);
                        continue;
                }
                if (gets[i].begin_result != 0 || gets[i].result != 0)
                        right = false;
                else if (i != 3)
                        assert_object(far.bytes + i * 10000, 6 + i, 2 * UNIT);
                else
                        assert_memory_equal(gets[i].slot[1], far.shadow + 30000 + UNIT, UNIT);
                far_keep(&far, i * 10000, 2 * UNIT);
        }
        close_world(&points, failed);
        return points;
}

static void test_sweep(void **state)
{
        uint64_t seed = test_seed(), failed, points = history(seed, 0, &failed), at;

        assert_true(right);
        assert_int_equal(failed, 0);
        printf("%llu points\n", (unsigned long long)points);
        for (at = 1; at <= points; at++) {
                history(seed, at, &failed);
                if (failed != 1)
                        fail_msg("point %llu was not reached", (unsigned long long)at);
        }
}

/* ---- at random ------------------------------------------------------------------------------- */

#define GETS  24u
#define PLACE (MEMORY_SIZE / GETS)

/* Each has a place of its own; some are wrong, some are given up, some are PUTs. */
static void start_one(struct get *get, unsigned i)
{
        static const enum get_plan plans[] = {GET_WHOLE, GET_WHOLE, GET_WHOLE, GET_WHOLE, GET_ABANDON, GET_BODY};
        unsigned len = 1 + (unsigned)step_random(PLACE), kind = (unsigned)step_random(8);
        struct rdx_token token = far_token(&far, i * PLACE, len, kind == 0);

        if (kind == 1)
                token.rkey ^= 0x5a5a00;
        if (kind == 2)
                token.dct ^= 0x10101;
        if (kind == 3)
                token.gid[15] ^= (uint8_t)step_random(4);
        get_start_token(get, (unsigned)step_random(STEP_LOOPS), &token, i, len, plans[step_random(6)]);
        get->request.read = kind == 0;
}

static void check_one(const struct get *get, unsigned i)
{
        unsigned unit;

        if (get->request.read) {
                for (unit = 0; get->begin_result == 0 && get->result == 0 && unit < get->units; unit++)
                        assert_memory_equal(get->slot[unit], far.shadow + i * PLACE + unit * UNIT,
                                            get->write[unit].len);
                return;
        }
        if (get->begin_result == 0 && get->result == 0)
                assert_object(far.bytes + i * PLACE, i, get->len);
        if (get->begin_result == 0 && get->request.posted)
                far_keep(&far, i * PLACE, get->len);
}

static void random_history(uint64_t seed)
{
        struct fake_options options = {.seed = seed, .fail_from = 60, .fail_one_in = 20 + (unsigned)(seed % 5) * 100};
        static struct get gets[GETS];
        uint64_t points, failed;
        unsigned round, i, good = 0;

        server = NULL;
        world_tokens = true;
        assert_int_equal(world_open(seed, &options, NULL), 0);
        assert_int_equal(far_open(&far), 0);
        for (round = 0; round < 6; round++) {
                for (i = 0; i < GETS; i++) {
                        start_one(&gets[i], i);
                        if (step_random(3) == 0)
                                step();
                }
                finish(gets, GETS);
                for (i = 0; i < GETS; i++) {
                        check_one(&gets[i], i);
                        good += gets[i].begin_result == 0 && gets[i].result == 0;
                }
                assert_memory_equal(far.bytes, far.shadow, MEMORY_SIZE);
        }
        close_world(&points, &failed);
        if (failed == 0)
                assert_true(good > 0);
}

static void test_random_failures(void **state)
{
        uint64_t seed = test_seed(), i;

        for (i = 0; i < 150; i++)
                random_history(seed + i);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sweep),
                cmocka_unit_test(test_random_failures),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
