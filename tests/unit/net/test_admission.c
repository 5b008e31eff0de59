/*
 * test_admission.c - HELLOs that meet a change of what is known of their node: a newer process of
 * it, and its removal; over a transport in memory.
 */
#include "tests/unit/net/memory_net.h"

static struct mem_node one, two;
static struct net_peer *to_one;

static int nodes_start(void **state)
{
        struct net_options options = node_options(1, 5);

        mem_node_start(&one, &options);
        options = node_options(2, 6);
        mem_node_start(&two, &options);
        mem_knows(&one, 2);
        to_one = mem_knows(&two, 1);
        return 0;
}

static int nodes_stop(void **state)
{
        mem_node_stop(&one);
        mem_node_stop(&two);
        return 0;
}

/* ---- a newer process ------------------------------------------------------------------------- */

/* R11: HELLO of a newer process ends the connections to the older one, too, on all loops, before anything more of it is read. */
static void test_connections_to_an_older_process_end(void **state)
{
        struct mem_call mem = {.call = {.peer = to_one, .link = NET_LOG, .operation = OP_HOLD}};
        struct net_wire_hello hello = raw_hello(NET_CONTROL, 9, 1);
        struct mem_end *newer;
        unsigned link;

        for (link = 0; link < NET_LINKS; link++)
                assert_int_equal(mem_echo(&two, to_one, link), NET_ANSWERED);
        mem_call(&two, &mem);
        assert_false(mem.done);
        newer = raw_greet(&two, &hello, NULL);
        assert_int_equal(raw_heard(newer, NULL), NET_FRAME_WELCOME);
        assert_true(mem.done);
        assert_int_equal(mem.call.outcome, NET_UNKNOWN);
        for (link = 0; link < NET_LINKS; link++)
                assert_int_equal(mem_echo(&two, to_one, link), NET_UNREACHABLE);
        mem_pass(2000); /* and it is not believed when it answers again */
        assert_int_equal(mem_echo(&two, to_one, NET_LOG), NET_UNREACHABLE);
        assert_true(node_said(&two.node, "the node runs twice, or an old process of it answers"));
        mem_close(&newer->base);
        mem_settle();
}

/* The newer one was met by calling it: connections of and to the older one end within a tick, and it is not let in again. */
static void test_a_newer_process_answers(void **state)
{
        struct net_wire_hello hello = raw_hello(NET_CONTROL, 5, 1);
        struct mem_end *older = raw_greet(&two, &hello, NULL), *again;
        enum net_reason reason = NET_REASON_NONE;

        assert_int_equal(raw_heard(older, NULL), NET_FRAME_WELCOME);
        assert_int_equal(mem_echo(&two, to_one, NET_LOG), NET_ANSWERED);
        assert_int_equal(mem_echo(&two, to_one, NET_BULK_0), NET_ANSWERED);
        net_peer_raise_boot(to_one, 9); /* as its WELCOME does */
        mem_pass(110);
        assert_null(older->other);
        assert_int_equal(mem_stats(&two).lost, 4); /* its control connection, too, which the log asked first */
        assert_int_equal(mem_echo(&two, to_one, NET_LOG), NET_UNREACHABLE);
        hello = raw_hello(NET_CONTROL, 5, 2);
        again = raw_greet(&two, &hello, NULL);
        assert_int_equal(raw_heard(again, &reason), NET_FRAME_REFUSED);
        assert_int_equal(reason, NET_REASON_DUPLICATE);
        hello = raw_hello(NET_CONTROL, 9, 1);
        mem_close(&again->base);
        again = raw_greet(&two, &hello, NULL);
        assert_int_equal(raw_heard(again, NULL), NET_FRAME_WELCOME);
        mem_close(&again->base);
        mem_close(&older->base);
        mem_settle();
}

/* ---- removal --------------------------------------------------------------------------------- */

/* The node is removed, and another one set under its number, while a HELLO of it is on its way. */
static void removed_while_it_is_admitted(enum net_link_number link, bool set_again)
{
        static uint64_t sequence;
        struct mem_end *end = mem_dial_raw(&two, "node-1", true);
        struct net_wire_hello hello = raw_hello(link, 5, ++sequence);
        struct net_peer_options options = {.node = 1, .name = "node-9", .address = "node-9"};
        uint8_t bytes[NET_HELLO_SIZE];

        net_hello_write(&hello, NULL, bytes);
        raw_send(end, bytes, sizeof(bytes));
        mem_event(end->other); /* judged by what was known */
        assert_int_equal(net_peer_remove(to_one), 0);
        if (set_again)
                assert_int_equal(net_peer_set(two.node.net, &options, NULL), 0);
        mem_settle();
        assert_int_equal(raw_heard(end, NULL), 0);
        assert_null(end->other);
        assert_int_equal(mem_stats(&two).accepted, 0);
        assert_int_equal(mem_stats(&two).guests, 0);
        mem_close(&end->base);
        mem_knows(&two, 1);
}

static void test_removed_while_it_is_admitted(void **state)
{
        unsigned link;

        for (link = 0; link < NET_LINKS; link++) {
                removed_while_it_is_admitted(link, false);
                removed_while_it_is_admitted(link, true);
        }
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, nodes_start, nodes_stop)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(test_connections_to_an_older_process_end),
                CASE(test_a_newer_process_answers),
                CASE(test_removed_while_it_is_admitted),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
