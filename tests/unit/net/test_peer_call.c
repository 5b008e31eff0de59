/*
 * test_peer_call.c - what one slow thing at a peer costs its neighbours on the same link, over a
 * transport in memory with a clock that is set.
 */
#include "tests/unit/net/memory_net.h"

static struct mem_node one, two;
static struct net_peer *to_two, *to_one;

/* Many calls of one kind on one lane; none of them is waited for. */
struct lane_calls {
        struct mem_call calls[100];
        unsigned count;
};

static void lane_calls_begin(struct lane_calls *of, unsigned count, uint16_t lane, uint32_t operation)
{
        struct mem_call call = {.call = {.peer = to_two, .link = NET_LOG, .operation = operation, .lane = lane}};

        for (of->count = 0; of->count < count; of->count++) {
                of->calls[of->count] = call;
                mem_call(&one, &of->calls[of->count]);
        }
}

static unsigned lane_calls_ended(const struct lane_calls *of, enum net_outcome outcome)
{
        unsigned i, n = 0;

        for (i = 0; i < of->count; i++)
                n += of->calls[i].done && of->calls[i].call.outcome == outcome;
        return n;
}

static void pair_start_with(void (*change)(struct net_options *))
{
        struct net_options options = node_options(1, 5);

        change(&options);
        mem_node_start(&one, &options);
        options = node_options(2, 6);
        change(&options);
        mem_node_start(&two, &options);
        to_two = mem_knows(&one, 2);
        to_one = mem_knows(&two, 1);
}

static void few_calls(struct net_options *options)
{
        options->limits.requests = 20;
        options->limits.calls = 40;
}

static int pair_start_few(void **state)
{
        pair_start_with(few_calls);
        return 0;
}

static void more_calls(struct net_options *options)
{
        options->limits.requests = 512;
        options->limits.calls = 4096;
}

static int pair_start_more(void **state)
{
        pair_start_with(more_calls);
        return 0;
}

static void as_ever(struct net_options *options)
{
}

static int pair_start(void **state)
{
        pair_start_with(as_ever);
        return 0;
}

static int pair_stop(void **state)
{
        mem_node_stop(&one);
        mem_node_stop(&two);
        return 0;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* A drive hangs, and its calls are small: bytes do not bound them, but the others go on. */
static void test_small_calls_of_a_lane_that_hangs(void **state)
{
        struct lane_calls hang, also;
        unsigned i;

        lane_calls_begin(&hang, 30, 5, OP_HOLD);
        assert_int_equal(two.node.held_count, 10); /* half of the connection's 20 */
        for (i = 0; i < 50; i++)
                assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        lane_calls_begin(&also, 10, 6, OP_HOLD);
        assert_int_equal(two.node.held_count, 15); /* half of the rest */
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        for (i = 0; i < 20; i++)
                mem_release(&two);
        assert_int_equal(lane_calls_ended(&hang, NET_ANSWERED), 30);
        assert_int_equal(lane_calls_ended(&also, NET_ANSWERED), 10);
}

/* A lane that has its share goes on when others give up theirs. */
static void test_a_share_grows_with_what_is_free(void **state)
{
        struct lane_calls lanes[3];
        unsigned i;

        for (i = 0; i < 3; i++)
                lane_calls_begin(&lanes[i], 12, (uint16_t)i, OP_HOLD);
        assert_int_equal(two.node.held_count, 10 + 5 + 3); /* of 20 */
        mem_release(&two);
        assert_int_equal(lane_calls_ended(&lanes[2], NET_ANSWERED), 3);
        assert_true(two.node.held_count >= 2 + 3 + 5); /* the last one's share has grown */
        mem_release(&two);
        mem_release(&two);
        for (i = 0; i < 3; i++)
                assert_int_equal(lane_calls_ended(&lanes[i], NET_ANSWERED), 12);
}

/* Those that wait for a drive that hangs leave room for others to wait, too. */
static void test_calls_that_wait_for_a_lane_that_hangs(void **state)
{
        struct lane_calls hang;
        unsigned i;

        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        lane_calls_begin(&hang, 100, 5, OP_HOLD);
        assert_int_equal(lane_calls_ended(&hang, NET_UNREACHABLE), 70); /* 10 are out, and 20 of 40 wait */
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        for (i = 0; i < 10; i++)
                mem_release(&two);
        assert_int_equal(lane_calls_ended(&hang, NET_ANSWERED), 30);
}

/* However many hang, one after the other: those that are left are answered. */
static void test_many_lanes_that_hang(void **state)
{
        static struct lane_calls lanes[14];
        unsigned i, held, turns;

        for (i = 0; i < 14; i++)
                lane_calls_begin(&lanes[i], 100, (uint16_t)(i + 1), OP_HOLD);
        held = two.node.held_count;
        assert_in_range(held, 256, 511);
        for (i = 0; i < 14; i++) {
                struct lane_calls next;

                lane_calls_begin(&next, 1, (uint16_t)(NET_LANES - 1 - i), OP_ECHO);
                assert_int_equal(lane_calls_ended(&next, NET_ANSWERED), 1);
        }
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        assert_int_equal(two.node.held_count, held);
        for (turns = 0; turns < 50 && two.node.held_count > 0; turns++)
                mem_release(&two);
        for (i = 0; i < 14; i++)
                assert_int_equal(lane_calls_ended(&lanes[i], NET_ANSWERED), 100);
        assert_int_equal(to_two->links[NET_LOG].calls_shared, 0);
        assert_int_equal(to_two->links[NET_LOG].waiting_shared, 0);
}

/* The first of a lane does not fit, and its deadline comes: the next one, which does, goes. */
static void test_the_next_of_a_lane_when_the_first_times_out(void **state)
{
        static char room[NET_BULK_MAX];
        struct lane_calls small;
        struct mem_call large = {.call = {.peer = to_two,
                                          .link = NET_LOG,
                                          .operation = OP_HOLD,
                                          .lane = 5,
                                          .room = {{room, sizeof(room)}},
                                          .room_count = 1}};
        struct mem_call more[4];
        unsigned i;

        for (i = 0; i < 4; i++) { /* three fill 6 MiB of the lane's 8 */
                more[i] = large;
                more[i].call.deadline = i == 3 ? mem_now + 2000 * NET_MS : 0;
                mem_call(&one, &more[i]);
        }
        assert_int_equal(two.node.held_count, 3);
        lane_calls_begin(&small, 1, 5, OP_ECHO);
        assert_int_equal(lane_calls_ended(&small, NET_ANSWERED), 0); /* behind the fourth */
        mem_pass(2100);
        assert_int_equal(more[3].call.outcome, NET_TIMED_OUT);
        assert_int_equal(lane_calls_ended(&small, NET_ANSWERED), 1);
        mem_release(&two);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

/* The peer has no memory for a request, whose deadline comes in the middle of it: it has 10 s from there, and the link's others live. */
static void deadline_behind_a_wait(bool released)
{
        uint8_t *bulk = calloc(1, NET_BULK_MAX);
        struct lane_calls others;
        struct mem_call mem = {.call = {.peer = to_two,
                                        .link = NET_LOG,
                                        .operation = OP_WAIT,
                                        .lane = 1,
                                        .deadline = mem_now + 15000 * NET_MS,
                                        .bulk = {{bulk, NET_BULK_MAX}},
                                        .bulk_count = 1}};

        lane_calls_begin(&others, 3, 0, OP_HOLD);
        mem_call(&one, &mem);
        assert_true(mem.call.out.begun && !mem.done);
        mem_pass(24500);
        assert_int_equal(mem_stats(&one).lost, 0);
        assert_false(mem.done);
        if (released)
                mem_release(&two);
        else
                mem_pass(800);
        assert_true(mem.done);
        assert_int_equal(mem.call.outcome, NET_TIMED_OUT);
        assert_int_equal(mem_stats(&one).lost, released ? 0 : 1);
        assert_int_equal(lane_calls_ended(&others, released ? NET_ANSWERED : NET_UNKNOWN), 3);
        free(bulk);
}

static void test_deadline_of_a_request_that_waits_for_memory(void **state)
{
        deadline_behind_a_wait(true);
        mem_pass(1000);
        deadline_behind_a_wait(false);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void four_bodies(struct net_options *options)
{
        options->limits.body_bytes = (sizeof(struct net_request) + NET_BODY_MAX) * 4;
}

static int pair_start_four_bodies(void **state)
{
        pair_start_with(four_bodies);
        return 0;
}

/* One connection does not take all memory for bodies: the control connection's requests find some. */
static void test_bodies_of_one_connection_leave_memory_to_others(void **state)
{
        static uint8_t body[NET_BODY_MAX];
        struct mem_call calls[6], large;
        unsigned i, turns;

        for (i = 0; i < 6; i++) {
                calls[i] = (struct mem_call){.call = {.peer = to_two,
                                                      .link = NET_LOG,
                                                      .operation = OP_HOLD,
                                                      .lane = (uint16_t)i,
                                                      .body = body,
                                                      .body_len = sizeof(body)}};
                mem_call(&one, &calls[i]);
        }
        assert_int_equal(two.node.held_count, 2); /* of four: as much as is free */
        large = calls[0];
        large.call.link = NET_CONTROL;
        large.call.operation = OP_ECHO;
        mem_call(&one, &large);
        assert_true(large.done);
        assert_int_equal(large.call.outcome, NET_ANSWERED);
        for (turns = 0; turns < 10; turns++) {
                mem_release(&two);
                mem_pass(200);
        }
        for (i = 0; i < 6; i++)
                assert_true(calls[i].done && calls[i].call.outcome == NET_ANSWERED);
        assert_int_equal(mem_stats(&two).body_memory, 0);
}

static void one_body(struct net_options *options)
{
        options->limits.body_bytes = sizeof(struct net_request) + NET_BODY_MAX;
}

static int pair_start_one_body(void **state)
{
        pair_start_with(one_body);
        return 0;
}

/* All memory is held by a request that is not answered: each other connection may have one all the same. */
static void test_each_connection_may_have_a_request(void **state)
{
        static uint8_t body[NET_BODY_MAX];
        struct mem_call holds = {.call = {.peer = to_two,
                                          .link = NET_LOG,
                                          .operation = OP_HOLD,
                                          .body = body,
                                          .body_len = sizeof(body)}},
                        other = holds;

        mem_call(&one, &holds);
        assert_int_equal(two.node.held_count, 1);
        other.call.operation = OP_ECHO;
        for (other.call.link = NET_CONTROL; other.call.link < NET_LINKS; other.call.link++)
                if (other.call.link != NET_LOG) {
                        mem_call(&one, &other);
                        assert_true(other.done && other.call.outcome == NET_ANSWERED);
                }
        other.call.link = NET_LOG;
        mem_call(&one, &other);
        assert_false(other.done);
        mem_release(&two);
        mem_pass(200);
        assert_true(holds.done && other.done && other.call.outcome == NET_ANSWERED);
}

#define CASE(test, start) cmocka_unit_test_setup_teardown(test, start, pair_stop)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(test_small_calls_of_a_lane_that_hangs, pair_start_few),
                CASE(test_a_share_grows_with_what_is_free, pair_start_few),
                CASE(test_calls_that_wait_for_a_lane_that_hangs, pair_start_few),
                CASE(test_many_lanes_that_hang, pair_start_more),
                CASE(test_the_next_of_a_lane_when_the_first_times_out, pair_start),
                CASE(test_deadline_of_a_request_that_waits_for_memory, pair_start),
                CASE(test_bodies_of_one_connection_leave_memory_to_others, pair_start_four_bodies),
                CASE(test_each_connection_may_have_a_request, pair_start_one_body),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
