/*
 * test_session_sweep.c - one history of a session again and again, each time with another point
 * that fails: every call of the transport that can, every post, every work request's way there and
 * back. Whatever fails, each request ends once, in right bytes or an error; memory outside windows
 * is untouched, and nothing is left.
 */
#include "tests/unit/rdma/rdma_world.h"

static struct client one;
static struct get gets[2];
static struct rdx_window_binding binding[3];
static bool right; /* everything went well */

static void end_with_fence(struct rdx_window_binding *of, unsigned from, unsigned len)
{
        right = false;
        rdx_client_fence(one.client);
        rdx_window_binding_close(of, false);
        client_keep(&one, from, len);
}

/* As a client library would: reply and notice, or the fence. */
static void take_reply(const struct get *get, struct rdx_window_binding *of, unsigned from)
{
        bool settled;

        rdx_client_poll(one.client);
        if (!get_over(get)) { /* the device does not tell: the server's patience ends */
                step_time(3ull * 1000 * 1000 * 1000);
                step_all();
                right = false;
        }
        assert_true(get_over(get));
        settled = get->begin_result != 0 || !get->request.posted;
        if (get->begin_result == 0 && get->result == 0 && (get->request.read || rdx_window_binding_noticed(of))) {
                if (!get->request.read)
                        assert_object(one.bytes + from, get->object, get->len);
                right = rdx_window_binding_close(of, get->request.read) == 0 && right;
                client_keep(&one, from, get->len);
        } else if (settled && rdx_client_poll(one.client) == 0) {
                client_check_outside(&one, 0, 0);
                right = false;
                rdx_window_binding_close(of, true);
        } else {
                end_with_fence(of, from, get->len);
        }
}

static void one_request(unsigned i, unsigned from, unsigned len, bool read)
{
        if (rdx_window_binding_open(one.client, one.memory, from, len, read, 0, &binding[i]) != 0) {
                right = false;
                return;
        }
        get_start(&gets[i], one.opened.session, binding[i].number, &binding[i].place, 3 + i, len, GET_WHOLE);
        gets[i].request.read = read;
        step_all();
        take_reply(&gets[i], &binding[i], from);
}

static void one_batch(unsigned from, unsigned count)
{
        struct rdx_client_batch batch = {.batch = 1, .replies = 2};
        struct rdx_entry entry[8];
        unsigned i, sent;

        for (i = 0; i < count; i++)
                entry[i] = (struct rdx_entry){
                        .bucket = BYTES("b"), .key = BYTES("5:100"), .offset = i * 100, .length = 100};
        if (rdx_window_binding_open(one.client, one.memory, from, 800, false, 2, &binding[2]) != 0) {
                right = false;
                return;
        }
        memset(one.result, 0, sizeof(one.result));
        one.entries = 0;
        if (rdx_client_batch(one.client, &binding[2], &batch, entry, count, &sent) != 0) {
                end_with_fence(&binding[2], from, 800);
                return;
        }
        step_all();
        rdx_client_poll(one.client);
        step_all();
        for (i = 0; i < count; i++)
                if (one.result[i].status == 200)
                        assert_object(one.bytes + from + i * 100, 5, 100);
        if (rdx_window_binding_noticed(&binding[2]) && one.entries == count) {
                right = rdx_window_binding_close(&binding[2], false) == 0 && right;
                client_keep(&one, from, 800);
        } else {
                end_with_fence(&binding[2], from, 800);
        }
}

/* How many points it had. */
static uint64_t history(unsigned rights, uint64_t seed, uint64_t fail_at, uint64_t *failed)
{
        struct fake_options options = {.seed = seed, .fail_at = fail_at};
        struct fake_counts counts;
        struct rdx_stats stats;

        right = true;
        server = NULL;
        memset(&one, 0, sizeof(one));
        if (world_open(seed, &options, NULL) == 0) {
                int rv = client_begin(&one, rights);

                right = rv == 0;
                if (rv == 0)
                        one_request(0, 100, 3 * UNIT, false);
                if (rv == 0)
                        one_batch(30000, 8);
                if (rv == 0)
                        one_request(1, 40000, UNIT + 10, true);
                client_end(&one);
                step_all();
                step_time(3ull * 1000 * 1000 * 1000);
                step_all();
                rdx_stats_read(server, &stats);
                assert_int_equal(stats.in_flight, 0);
        } else {
                right = false;
        }
        fake_counts_read(&counts);
        world_close();
        *failed = counts.failed;
        return counts.points;
}

static void sweep(unsigned rights)
{
        uint64_t seed = test_seed(), failed, points = history(rights, seed, 0, &failed), at;

        assert_true(right); /* without a failure all of it works */
        assert_int_equal(failed, 0);
        printf("%llu points\n", (unsigned long long)points);
        for (at = 1; at <= points; at++) {
                history(rights, seed, at, &failed);
                if (failed != 1)
                        fail_msg("point %llu was not reached", (unsigned long long)at);
        }
}

static void test_sweep_window2(void **state)
{
        sweep(RDX_RIGHTS_WINDOW2);
}

static void test_sweep_window1(void **state)
{
        sweep(RDX_RIGHTS_WINDOW1);
}

static void test_sweep_region(void **state)
{
        sweep(RDX_RIGHTS_REGION);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sweep_window2),
                cmocka_unit_test(test_sweep_window1),
                cmocka_unit_test(test_sweep_region),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
