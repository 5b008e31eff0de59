/*
 * test_initiator.c - requests by a token on the fake transport: what is written and read, whose an
 * error is, and what becomes of the others; bounds; ends.
 */
#include "tests/unit/rdma/token_client.h"

static struct far far;
static struct get get, other;
static const struct rdx_limits *limits;

static int open_world(bool tokens, bool no_dc)
{
        struct fake_options options = {.seed = test_seed(), .no_dc = no_dc};

        world_tokens = tokens;
        return world_open(options.seed, &options, limits) == 0 ? far_open(&far) : -1;
}

static int setup(void **state)
{
        limits = NULL;
        return open_world(true, false);
}

static int setup_tight(void **state)
{
        static const struct rdx_limits four = {.writes = 8}; /* 4 a loop */

        limits = &four;
        return open_world(true, false);
}

static int setup_off(void **state)
{
        limits = NULL;
        return open_world(false, false);
}

static int setup_no_dc(void **state)
{
        limits = NULL;
        return open_world(true, true);
}

static int teardown(void **state)
{
        step_all();
        far_close(&far);
        world_close();
        return 0;
}

static struct rdx_stats stats(void)
{
        struct rdx_stats s;

        rdx_stats_read(server, &s);
        return s;
}

static void start(struct get *one, unsigned loop, const struct rdx_token *token, unsigned object, unsigned len)
{
        get_start_token(one, loop, token, object, len, GET_WHOLE);
}

static void run(struct get *one, const struct rdx_token *token, unsigned len, enum get_plan plan)
{
        get_start_token(one, (unsigned)step_random(STEP_LOOPS), token, 7, len, plan);
        step_all();
        assert_true(get_over(one));
}

static void check_written(const struct get *one, unsigned from, unsigned len)
{
        assert_int_equal(one->result, 0);
        assert_true(one->request.posted && one->request.bytes == len && !one->request.notice);
        assert_object(far.bytes + from, one->object, len);
        far_keep(&far, from, len);
}

/* Loops go on and the device does not. */
static void steps_without_device(void)
{
        unsigned bound = 100000;

        while (loop_step(&step_loop[0]) || loop_step(&step_loop[1]))
                assert(bound-- > 0);
        for (unsigned i = 0; i < STEP_LOOPS; i++) {
                step_self = &step_loop[i];
                run_hooks(&step_loop[i]);
                step_self = NULL;
        }
}

/* ---- what is served -------------------------------------------------------------------------- */

static void test_a_get_is_written_where_the_token_says(void **state)
{
        static const struct {
                unsigned from, len;
        } cases[] = {{1000, 20000}, {0, 1}, {MEMORY_SIZE - UNIT, UNIT}, {5, 60000}};

        for (unsigned i = 0; i < 4; i++) {
                struct rdx_token token = far_token(&far, cases[i].from, cases[i].len, false);

                run(&get, &token, cases[i].len, GET_WHOLE);
                check_written(&get, cases[i].from, cases[i].len);
                assert_memory_equal(far.bytes, far.shadow, MEMORY_SIZE);
        }
        assert_true(rdx_server_tokens(server, 0));
        assert_int_equal(stats().tokens, 4);
        assert_int_equal(stats().bytes_written, 20000 + 1 + UNIT + 60000);
        assert_int_equal(stats().in_flight, 0);
        assert_int_equal(stats().token_resets, 0);
}

static void test_no_bytes(void **state)
{
        struct rdx_token token = far_token(&far, 0, 100, false);

        run(&get, &token, 0, GET_WHOLE);
        assert_int_equal(get.result, 0);
        assert_false(get.request.posted);
}

static void test_a_put_reads_each_byte(void **state)
{
        unsigned i, len = 3 * UNIT + 77;
        struct rdx_token token = far_token(&far, 500, len, true);

        far_fill(&far, 500, len, 9);
        get_start_token(&get, 0, &token, 9, len, GET_WHOLE);
        get.request.read = true;
        step_all();
        assert_true(get_over(&get));
        assert_int_equal(get.result, 0);
        for (i = 0; i < get.units; i++)
                assert_memory_equal(get.slot[i], far.shadow + 500 + i * UNIT, get.write[i].len);
        assert_true(stats().bytes_read == len);
}

static void test_a_body_may_answer_what_was_never_posted(void **state)
{
        struct rdx_token token = far_token(&far, 0, 5000, false);

        run(&get, &token, 5000, GET_BODY);
        assert_int_equal(get.result, -ECANCELED);
        assert_false(get.request.posted);
}

static void test_given_up_after_some_writes(void **state)
{
        struct rdx_token token = far_token(&far, 4096, 50000, false);

        run(&get, &token, 50000, GET_ABANDON);
        assert_int_equal(get.result, -ECANCELED);
        far_keep(&far, 4096, 50000);
}

static void test_beside_a_session(void **state)
{
        static struct client client;
        struct rdx_token token = far_token(&far, 0, 60000, false);
        struct rdx_window_binding binding;

        assert_int_equal(client_begin(&client, RDX_RIGHTS_WINDOW2), 0);
        for (unsigned i = 0; i < 20; i++) {
                assert_int_equal(rdx_window_binding_open(client.client, client.memory, 0, 60000, false, 0, &binding), 0);
                get_start(&other, client.opened.session, binding.number, &binding.place, 3, 60000, GET_WHOLE);
                start(&get, i % 2, &token, 7, 60000);
                step_all();
                assert_true(get_over(&get) && get_over(&other));
                check_written(&get, 0, 60000);
                assert_int_equal(other.result, 0);
                rdx_client_poll(client.client);
                assert_object(client.bytes, 3, 60000);
                assert_int_equal(rdx_window_binding_close(&binding, false), 0);
                client_keep(&client, 0, 60000);
        }
        client_end(&client);
}

/* Initiator and session have the loop's share of the device together. */
static void test_the_share_of_the_device(void **state)
{
        struct fake_counts counts;

        test_beside_a_session(state);
        fake_counts_read(&counts);
        assert_true(counts.most_writes <= 8);
        assert_true(stats().starved > 0);
}

/* ---- whose an error is ----------------------------------------------------------------------- */

enum wrong { WRONG_RKEY, READ_ONLY, BEYOND, NO_TARGET, NO_PORT, WRONG_KINDS };

static struct rdx_token wrong_token(enum wrong wrong, unsigned from, unsigned len)
{
        struct rdx_token token = far_token(&far, from, len, wrong == READ_ONLY);

        if (wrong == WRONG_RKEY)
                token.rkey ^= 0x5a5a00;
        if (wrong == BEYOND)
                token.address = (uintptr_t)far.bytes + MEMORY_SIZE - len + 1;
        if (wrong == NO_TARGET)
                token.dct ^= 0x123;
        if (wrong == NO_PORT)
                token.gid[15] ^= 0x77;
        return token;
}

static void test_an_error_ends_its_request_and_no_other(void **state)
{
        static struct get more[4];

        for (unsigned round = 0; round < 40; round++) {
                enum wrong wrong = round % WRONG_KINDS;
                struct rdx_token bad = wrong_token(wrong, 40000, 9 * UNIT / 2);
                uint64_t resets = stats().token_resets;
                unsigned i;

                for (i = 0; i < 2; i++) {
                        struct rdx_token good = far_token(&far, i * 16384, 16384, false);

                        start(&more[i], 0, &good, 10 + i, 16384);
                }
                start(&get, 0, &bad, 7, 9 * UNIT / 2);
                step_all();
                assert_true(get_over(&get));
                assert_int_equal(get.result, wrong == NO_TARGET || wrong == NO_PORT ? -ETIMEDOUT : -EACCES);
                assert_true(get.request.posted);
                far_keep(&far, wrong == BEYOND ? MEMORY_SIZE - 9 * UNIT / 2 + 1 : 40000,
                         wrong == BEYOND ? 9 * UNIT / 2 - 1
                                         : 0); /* its last byte is outside; those before it are allowed */
                for (i = 0; i < 2; i++) {
                        assert_true(get_over(&more[i]));
                        check_written(&more[i], i * 16384, 16384);
                }
                assert_int_equal(stats().token_resets, resets + 1);
                assert_memory_equal(far.bytes, far.shadow, MEMORY_SIZE);
        }
}

static void test_the_key_is_needed(void **state)
{
        struct fake_target *stranger;
        struct rdx_token token = far_token(&far, 0, 100, false);

        assert_int_equal(fake_target_open(far.domain, TOKEN_KEY + 1, &stranger), 0);
        token.dct = fake_target_number(stranger);
        run(&get, &token, 100, GET_WHOLE);
        assert_int_equal(get.result, -EACCES);
        fake_target_close(stranger);
}

static void test_a_write_outside_the_token_is_never_posted(void **state)
{
        struct rdx_token token = far_token(&far, 0, 3 * UNIT, false);

        run(&get, &token, 3 * UNIT, GET_OUTSIDE);
        assert_int_equal(get.result, -EINVAL);
        assert_int_equal(stats().token_resets, 0);
        far_keep(&far, 0, 3 * UNIT);
}

/* ---- what is not there ----------------------------------------------------------------------- */

static void test_not_served(void **state)
{
        struct rdx_token token = far_token(&far, 0, 100, false);

        assert_false(rdx_server_tokens(server, 0));
        run(&get, &token, 100, GET_WHOLE);
        assert_int_equal(get.begin_result, -ENODEV);
}

static void test_the_device_goes_away(void **state)
{
        struct rdx_token token = far_token(&far, 0, 60000, false);

        start(&get, 0, &token, 7, 60000);
        steps_without_device();
        assert_int_equal(get.begun, 1);
        fake_cut(true);
        steps_without_device();
        step_time(1000 * 1000 * 1000);
        step_all();
        assert_true(get_over(&get));
        assert_int_not_equal(get.result, 0);
        assert_int_equal(stats().in_flight, 0);
        run(&get, &token, 100, GET_WHOLE);
        assert_int_equal(get.begin_result, -ENODEV);
}

static void test_nothing_comes_back(void **state)
{
        struct rdx_token token = far_token(&far, 0, 60000, false);

        start(&get, 0, &token, 7, 60000);
        steps_without_device();
        step_time(9ull * 1000 * 1000 * 1000);
        steps_without_device();
        assert_int_equal(get.ended, 0);
        step_time(2ull * 1000 * 1000 * 1000);
        steps_without_device();
        assert_true(get_over(&get));
        assert_int_equal(get.result, -ETIMEDOUT);
        assert_int_equal(stats().in_flight, 0);
        run(&get, &token, 60000, GET_WHOLE); /* it was made anew */
        check_written(&get, 0, 60000);
}

static void test_the_server_stops_in_the_midst(void **state)
{
        struct rdx_token token = far_token(&far, 0, 60000, false);
        unsigned steps = (unsigned)step_random(80);

        start(&get, 0, &token, 7, 60000);
        start(&other, 1, &token, 7, 60000);
        while (steps-- > 0)
                step();
        rdx_server_stop(server);
        steps_without_device();
        rdx_server_free(server);
        server = NULL;
        step_start(1);
        assert_true(get_over(&get) && get_over(&other));
        far_keep(&far, 0, 60000);
}

/* ---- bounds ---------------------------------------------------------------------------------- */

static void test_too_many_requests(void **state)
{
        static struct get many[300];
        struct rdx_token token = far_token(&far, 0, 100, false);
        unsigned i, refused = 0;

        for (i = 0; i < 300; i++)
                start(&many[i], 0, &token, 7, 100);
        steps_without_device();
        for (i = 0; i < 300; i++) {
                assert_int_equal(many[i].begun, 1);
                refused += many[i].begin_result == -EAGAIN;
        }
        assert_int_equal(refused, 300 - 256);
        step_all();
        for (i = 0; i < 300; i++) {
                assert_true(get_over(&many[i]));
                assert_true(many[i].begin_result != 0 || many[i].result == 0);
        }
        check_written(&many[0], 0, 100);
}

/* Ports at which nobody is: their ways take the place of those that nobody uses any more. */
static void test_many_ports(void **state)
{
        static struct get many[70];
        struct rdx_token token = far_token(&far, 0, 100, false), strange = token;
        struct fake_counts before, after;
        unsigned i, refused = 0;

        run(&get, &token, 100, GET_WHOLE);
        check_written(&get, 0, 100);
        fake_counts_read(&before);
        for (i = 0; i < 70; i++) {
                strange.gid[0] = (uint8_t)(i + 1);
                start(&many[i], 0, &strange, 7, 100);
        }
        steps_without_device();
        for (i = 0; i < 70; i++)
                refused += many[i].begin_result == -EAGAIN;
        assert_int_equal(refused, 70 - 64);
        fake_counts_read(&after);
        assert_true(after.objects <= before.objects + 64);
        step_all();
        for (i = 0; i < 70; i++) {
                assert_true(get_over(&many[i]));
                assert_int_equal(many[i].begin_result == 0 ? many[i].result : -ETIMEDOUT, -ETIMEDOUT);
        }
        run(&get, &token, 100, GET_WHOLE);
        check_written(&get, 0, 100);
        for (i = 0; i < 200; i++) { /* in good order: kept ways give way to others */
                token.lid = (uint16_t)i;
                run(&get, &token, 100, GET_WHOLE);
                check_written(&get, 0, 100);
        }
        fake_counts_read(&after);
        assert_true(after.objects <= before.objects + 2 * 64);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_a_get_is_written_where_the_token_says),
                TEST(test_no_bytes),
                TEST(test_a_put_reads_each_byte),
                TEST(test_a_body_may_answer_what_was_never_posted),
                TEST(test_given_up_after_some_writes),
                TEST(test_beside_a_session),
                cmocka_unit_test_setup_teardown(test_the_share_of_the_device, setup_tight, teardown),
                TEST(test_an_error_ends_its_request_and_no_other),
                TEST(test_the_key_is_needed),
                TEST(test_a_write_outside_the_token_is_never_posted),
                {"test_not_served (off)", test_not_served, setup_off, teardown, NULL},
                {"test_not_served (no DC)", test_not_served, setup_no_dc, teardown, NULL},
                TEST(test_the_device_goes_away),
                TEST(test_nothing_comes_back),
                TEST(test_the_server_stops_in_the_midst),
                TEST(test_too_many_requests),
                TEST(test_many_ports),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
