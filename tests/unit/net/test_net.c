/*
 * test_net.c - calls between nodes over TLS and plain TCP: bodies and bulk both ways, outcomes,
 * deadlines, lanes, backpressure, reconnecting, newer connections and newer boots.
 */
#include "tests/unit/net/net_fixture.h"

#define BULK (1u << 20)

static struct node a, b;
static struct net_peer *to_b, *to_a;

static void pair_start_with(bool plain, void (*change)(struct net_options *options))
{
        struct net_options options;

        options = node_options(1, 5);
        options.plain_bulk = plain;
        if (change != NULL)
                change(&options);
        node_start(&a, &options);
        options = node_options(2, 6);
        options.plain_bulk = plain;
        if (change != NULL)
                change(&options);
        node_start(&b, &options);
        to_b = node_meets(&a, &b);
        to_a = node_meets(&b, &a);
}

static int pair_start(void **state)
{
        pair_start_with(false, NULL);
        return 0;
}

static int pair_start_plain(void **state)
{
        pair_start_with(true, NULL);
        return 0;
}

static int pair_stop(void **state)
{
        node_stop(&a);
        node_stop(&b);
        return 0;
}

static uint8_t *pattern(uint32_t len)
{
        uint8_t *bytes = malloc(len + 1);
        uint32_t i;

        for (i = 0; i < len; i++)
                bytes[i] = pattern_byte(i);
        return bytes;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void test_each_link_carries_calls_both_ways(void **state)
{
        struct net_peer_state known;
        unsigned link;

        for (link = 0; link < NET_LINKS; link++) {
                assert_int_equal(call_once(&a, to_b, link), NET_ANSWERED);
                assert_int_equal(call_once(&b, to_a, link), NET_ANSWERED);
        }
        net_peer_state_read(to_b, &known);
        assert_true(known.up);
        assert_int_equal(known.boot, 6);
        assert_int_equal(known.open, NET_LINKS);
        assert_int_equal(known.opened_by_it, NET_LINKS);
        WAIT_UNTIL((net_peer_state_read(to_b, &known), known.round_trip_ns > 0));
        assert_true(known.round_trip_ns > 0);
        assert_int_equal(node_stats(&a).opened, NET_LINKS);
        assert_int_equal(node_stats(&a).calls_out, 0);
        assert_int_equal(node_stats(&b).requests_in, 0);
        assert_int_equal(node_stats(&b).body_memory, 0);
}

static void echo(enum net_link_number link, uint32_t body_len, uint32_t bulk_len)
{
        uint8_t *body = pattern(body_len), *bulk = pattern(bulk_len), *back = calloc(1, bulk_len + 1);
        struct net_call call = {.peer = to_b,
                                .link = link,
                                .operation = OP_ECHO,
                                .lane = (uint16_t)(bulk_len % NET_LANES),
                                .body = body,
                                .body_len = body_len,
                                .bulk = {{bulk, bulk_len / 2}, {bulk + bulk_len / 2, bulk_len - bulk_len / 2}},
                                .bulk_count = 2,
                                .room = {{back, bulk_len / 5}, {back + bulk_len / 5, bulk_len - bulk_len / 5}},
                                .room_count = 2};
        struct waited_call *waited = call_begin(&a, 0, &call, 0);

        assert_int_equal(call_wait(waited), NET_ANSWERED);
        assert_int_equal(waited->call.answer_len, body_len);
        assert_int_equal(waited->call.answer_bulk, bulk_len);
        if (body_len > 0)
                assert_memory_equal(waited->answer, body, body_len);
        assert_memory_equal(back, bulk, bulk_len);
        assert_int_equal(waited->call.answer_crc, era_crc32c(0, bulk, bulk_len));
        call_free(waited);
        free(body);
        free(bulk);
        free(back);
}

static void test_bodies_and_bulk_of_all_sizes(void **state)
{
        static const uint32_t bodies[] = {0, 1, 71, 16384, NET_BODY_MAX - 1, NET_BODY_MAX};
        static const uint32_t bulks[] = {0, 1, 4095, 16384, 65537, BULK, NET_BULK_MAX};
        unsigned i, j;

        for (i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++)
                for (j = 0; j < sizeof(bulks) / sizeof(bulks[0]); j++)
                        echo((enum net_link_number)((i + j) % NET_LINKS), bodies[i], bulks[j]);
}

static void test_bulk_nobody_wants(void **state)
{
        uint8_t *bulk = pattern(BULK);
        struct net_call call = {
                .peer = to_b, .link = NET_BULK_1, .operation = OP_DISCARD, .bulk = {{bulk, BULK}}, .bulk_count = 1};
        struct waited_call *waited = call_begin(&a, 1, &call, 0);

        assert_int_equal(call_wait(waited), NET_ANSWERED);
        assert_int_equal(waited->call.status, OP_DISCARD);
        call_free(waited);
        free(bulk);
}

static void test_many_calls_at_once(void **state)
{
        enum { MANY = 3000 };
        static struct waited_call *waited[MANY];
        static unsigned bodies[MANY];
        uint8_t *bulk = pattern(BULK);
        unsigned i;

        for (i = 0; i < MANY; i++) {
                struct net_call call = {.peer = to_b,
                                        .link = i % NET_LINKS,
                                        .operation = OP_ECHO,
                                        .lane = (uint16_t)(i % 7),
                                        .body = &bodies[i],
                                        .body_len = 4};

                if (i % 40 == 0) {
                        call.bulk[0] = (struct iovec){bulk, BULK};
                        call.bulk_count = 1;
                }
                waited[i] = call_begin(&a, i % NODE_LOOPS, &call, 0);
        }
        for (i = 0; i < MANY; i++) {
                assert_int_equal(call_wait(waited[i]), NET_ANSWERED);
                call_free(waited[i]);
        }
        assert_int_equal(node_stats(&a).answered, MANY);
        free(bulk);
}

/* ---- outcomes -------------------------------------------------------------------------------- */

static void test_nobody_there_is_unreachable(void **state)
{
        struct net_peer *nobody = node_knows(&a, 3, "node-3", "127.0.0.1:1");
        struct net_call call = {.peer = nobody, .link = NET_LOG, .operation = OP_ECHO};
        struct waited_call *waited = call_begin(&a, 0, &call, 0);
        struct net_peer_state known;

        assert_int_equal(call_wait(waited), NET_UNREACHABLE);
        assert_false(waited->call.sent);
        call_free(waited);
        assert_int_equal(call_once(&a, nobody, NET_LOG), NET_UNREACHABLE); /* at once: it rests */
        net_peer_state_read(nobody, &known);
        assert_false(known.up);
}

static void test_deadline_and_late_answer(void **state)
{
        struct net_call call = {.peer = to_b, .link = NET_CONTROL, .operation = OP_HOLD, .body = "x", .body_len = 1};
        struct waited_call *waited;

        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED);
        waited = call_begin(&a, 0, &call, 100);
        assert_int_equal(call_wait(waited), NET_TIMED_OUT);
        assert_true(waited->call.sent);
        call_free(waited);
        WAIT_UNTIL(node_number(&b, &b.held_count) == 1);
        node_release(&b);
        WAIT_UNTIL(node_stats(&a).late == 1);
        assert_int_equal(node_stats(&a).late, 1);
        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED);
        assert_int_equal(node_stats(&a).opened, 1); /* the connection is the same */
}

static void test_past_deadline_is_not_sent(void **state)
{
        struct net_call call = {.peer = to_b, .link = NET_CONTROL, .operation = OP_ECHO};
        struct waited_call *waited = calloc(1, sizeof(*waited));

        waited->call = call;
        waited->call.done = waited_call_done;
        sem_init(&waited->done, 0, 0);
        waited->call.deadline = (uint64_t)-1; /* waited_call_start() adds now: it is before now */
        on_loop(a.lp[0], waited_call_start, waited);
        assert_int_equal(call_wait(waited), NET_TIMED_OUT);
        assert_false(waited->call.sent);
        call_free(waited);
        assert_int_equal(node_number(&b, &b.requests), 0);
}

static void test_connection_lost_with_calls_outstanding(void **state)
{
        struct net_call call = {.peer = to_b, .link = NET_BULK_0, .operation = OP_HOLD, .body = "x", .body_len = 1};
        struct waited_call *waited[10];
        unsigned i;

        for (i = 0; i < 10; i++)
                waited[i] = call_begin(&a, i % NODE_LOOPS, &call, i % 2 == 0 ? 0 : 60000);
        WAIT_UNTIL(node_number(&b, &b.held_count) == 10);
        assert_int_equal(net_peer_remove(to_a), 0);
        for (i = 0; i < 10; i++) {
                assert_int_equal(call_wait(waited[i]), NET_UNKNOWN);
                assert_true(waited[i]->call.sent);
                call_free(waited[i]);
        }
        node_release(&b); /* answers to nobody */
        WAIT_UNTIL(node_stats(&b).requests_in == 0 && node_stats(&b).body_memory == 0);
        assert_int_equal(node_stats(&b).body_memory, 0);
        WAIT_UNTIL(node_said(&a, "refuses this node: node 1 is not known"));
        assert_true(node_said(&a, "refuses this node: node 1 is not known"));
        assert_true(node_said(&b, "which says it is node 1: refused: node 1 is not known"));
        to_a = node_meets(&b, &a);
        assert_true(call_until_answered(&a, to_b, NET_BULK_0)); /* it comes back by itself */
}

/* ---- secrets --------------------------------------------------------------------------------- */

static struct net_secrets secrets_of(char first, char second, char root)
{
        struct net_secrets secrets = {.count = second != 0 ? 2 : 1};

        memset(secrets.key[0], first, NET_DIGEST_LEN);
        memset(secrets.key[1], second, NET_DIGEST_LEN);
        memset(secrets.root[0], first ^ root, NET_DIGEST_LEN);
        memset(secrets.root[1], second ^ root, NET_DIGEST_LEN);
        return secrets;
}

static void change_secrets(struct net_options *options)
{
        options->secrets = secrets_of('a', 0, 1);
}

static int pair_start_secrets(void **state)
{
        pair_start_with(true, change_secrets);
        return 0;
}

/* A connection to b as if a had these. What b makes of it. */
static enum net_secrets_verdict connect_with(const struct net_secrets *secrets, enum net_outcome expected)
{
        struct net_peer_state known;
        struct net_stats stats = node_stats(&b);

        assert_int_equal(net_peer_remove(to_b), 0);
        node_all_know(&a);
        net_secrets_set(a.net, secrets);
        to_b = node_meets(&a, &b);
        if (expected == NET_ANSWERED) {
                assert_true(call_until_answered(&a, to_b, NET_BULK_0)); /* plain: without secrets of its own */
        } else {
                call_once(&a, to_b, NET_CONTROL);
                WAIT_UNTIL(node_stats(&b).refused > stats.refused);
                assert_true(node_stats(&b).refused > stats.refused);
        }
        net_peer_state_read(to_a, &known);
        return known.secrets;
}

static void test_secrets_decide_who_is_refused(void **state)
{
        struct net_secrets same = secrets_of('a', 0, 1), more = secrets_of('a', 'c', 1), root = secrets_of('a', 0, 2), other = secrets_of('c', 'a', 1), both = secrets_of('a', 'c', 1),
                           none = {0};

        assert_int_equal(connect_with(&same, NET_ANSWERED), NET_SECRETS_SAME);
        assert_int_equal(connect_with(&more, NET_ANSWERED), NET_SECRETS_SAME);
        assert_int_equal(connect_with(&root, NET_ANSWERED), NET_SECRETS_ROOT_DIFFERS);
        assert_int_equal(connect_with(&none, NET_ANSWERED), NET_SECRETS_UNKNOWN);
        assert_int_equal(connect_with(&other, NET_UNREACHABLE), NET_SECRETS_APART);
        assert_true(node_said(&b, "which says it is node 1: refused: one end's key_file lacks the key"));
        WAIT_UNTIL(node_said(&a, "refuses this node: one end's key_file lacks the key"));
        assert_true(node_said(&a, "refuses this node: one end's key_file lacks the key"));
        net_secrets_set(b.net, &both); /* the other end gets the new key, too: behind its own */
        assert_int_equal(connect_with(&other, NET_ANSWERED), NET_SECRETS_FIRST_DIFFERS);
}

static void test_too_many_calls_wait(void **state)
{
        enum { MANY = 120 };
        struct waited_call *waited[MANY];
        struct net_call call = {.peer = to_b, .link = NET_LOG, .operation = OP_HOLD};
        unsigned i, busy = 0, out = 0;

        assert_int_equal(call_once(&a, to_b, NET_LOG), NET_ANSWERED);
        for (i = 0; i < MANY; i++)
                waited[i] = call_begin(&a, 0, &call, 60000);
        WAIT_UNTIL(node_stats(&a).unreachable == MANY - 30);
        assert_int_equal(node_stats(&a).unreachable, MANY - 30);
        while (node_stats(&a).answered < 31) /* 10 at a time: half of the connection's; and half of 40 wait */
                node_release(&b);
        for (i = 0; i < MANY; i++) {
                out += call_wait(waited[i]) == NET_ANSWERED;
                busy += waited[i]->call.outcome == NET_UNREACHABLE && waited[i]->call.status == -EBUSY &&
                        !waited[i]->call.sent;
                call_free(waited[i]);
        }
        assert_int_equal(out, 30);
        assert_int_equal(busy, MANY - 30);
}

static void few(struct net_options *options)
{
        options->limits.requests = 20;
        options->limits.calls = 40;
        options->limits.lane_bytes = 3 * BULK;
}

static int pair_start_few(void **state)
{
        pair_start_with(false, few);
        return 0;
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static void test_slow_lane_does_not_stop_its_neighbours(void **state)
{
        enum { SLOW = 8 };
        uint8_t *bulk = pattern(BULK);
        struct waited_call *slow[SLOW];
        struct net_call call = {.peer = to_b,
                                .link = NET_BULK_0,
                                .operation = OP_HOLD,
                                .lane = 3,
                                .bulk = {{bulk, BULK}},
                                .bulk_count = 1};
        unsigned i;

        for (i = 0; i < SLOW; i++)
                slow[i] = call_begin(&a, 0, &call, 0);
        WAIT_UNTIL(node_number(&b, &b.held_count) == 2);
        for (i = 0; i < 50; i++)
                assert_int_equal(call_once(&a, to_b, NET_BULK_0), NET_ANSWERED);
        assert_int_equal(node_number(&b, &b.held_count), 2); /* what the lane's credit is good for */
        for (i = 0; i < SLOW; i++) {
                while (sem_trywait(&slow[i]->done) != 0) {
                        node_release(&b);
                        usleep(1000);
                }
                assert_int_equal(slow[i]->call.outcome, NET_ANSWERED);
                call_free(slow[i]);
        }
        free(bulk);
}

/* The credit of a call that timed out stays out until the peer has answered it. */
static void test_credit_comes_back_with_the_answer(void **state)
{
        uint8_t *bulk = pattern(BULK);
        struct net_call call = {.peer = to_b,
                                .link = NET_BULK_1,
                                .operation = OP_HOLD,
                                .lane = 9,
                                .bulk = {{bulk, BULK}},
                                .bulk_count = 1};
        struct waited_call *timed[2], *next;
        unsigned i;

        assert_int_equal(call_once(&a, to_b, NET_BULK_1), NET_ANSWERED);
        for (i = 0; i < 2; i++)
                timed[i] = call_begin(&a, 0, &call, 1000);
        for (i = 0; i < 2; i++) {
                assert_int_equal(call_wait(timed[i]), NET_TIMED_OUT);
                call_free(timed[i]);
        }
        WAIT_UNTIL(node_number(&b, &b.held_count) == 2);
        call.operation = OP_ECHO;
        next = call_begin(&a, 0, &call, 100);
        assert_int_equal(call_wait(next), NET_TIMED_OUT);
        assert_false(next->call.sent);
        call_free(next);
        node_release(&b);
        next = call_begin(&a, 0, &call, 0);
        assert_int_equal(call_wait(next), NET_ANSWERED);
        call_free(next);
        free(bulk);
}

/* ---- backpressure ---------------------------------------------------------------------------- */

static void test_bulk_waits_for_memory(void **state)
{
        uint8_t *bulk = pattern(BULK), *back = malloc(BULK);
        struct net_call call = {.peer = to_b,
                                .link = NET_BULK_0,
                                .operation = OP_WAIT,
                                .bulk = {{bulk, BULK}},
                                .bulk_count = 1,
                                .room = {{back, BULK}},
                                .room_count = 1};
        struct waited_call *waited = call_begin(&a, 2, &call, 0), *behind;

        WAIT_UNTIL(node_number(&b, &b.waiting) == 1);
        call = (struct net_call){.peer = to_b, .link = NET_BULK_0, .operation = OP_ECHO, .lane = 1};
        behind = call_begin(&a, 2, &call, 200);
        assert_int_equal(call_wait(behind), NET_TIMED_OUT); /* the connection is not read from */
        call_free(behind);
        assert_int_equal(call_once(&a, to_b, NET_BULK_1), NET_ANSWERED); /* others are */
        assert_int_equal(node_stats(&b).waits, 1);
        node_release(&b);
        assert_int_equal(call_wait(waited), NET_ANSWERED);
        assert_memory_equal(back, bulk, BULK);
        call_free(waited);
        free(bulk);
        free(back);
}

/* The connection ends while a request waits: the handler is told, once. */
static void test_lost_while_it_waits(void **state)
{
        uint8_t *bulk = pattern(BULK);
        struct net_call call = {
                .peer = to_b, .link = NET_BULK_0, .operation = OP_WAIT, .bulk = {{bulk, BULK}}, .bulk_count = 1};
        struct waited_call *waited = call_begin(&a, 2, &call, 0);

        WAIT_UNTIL(node_number(&b, &b.waiting) == 1);
        assert_int_equal(net_peer_remove(to_a), 0);
        assert_int_equal(call_wait(waited), NET_UNKNOWN);
        WAIT_UNTIL(node_number(&b, &b.lost) == 1);
        assert_int_equal(node_number(&b, &b.lost), 1);
        call_free(waited);
        free(bulk);
        WAIT_UNTIL(node_stats(&b).body_memory == 0);
        assert_int_equal(node_stats(&b).body_memory, 0);
}

static void little_memory(struct net_options *options)
{
        options->limits.body_bytes = sizeof(struct net_request) * 2 + NET_BODY_MAX + 1000;
}

static int pair_start_little_memory(void **state)
{
        pair_start_with(false, little_memory);
        return 0;
}

static void test_bodies_wait_for_memory(void **state)
{
        uint8_t *body = pattern(NET_BODY_MAX);
        struct net_call call = {
                .peer = to_b, .link = NET_LOG, .operation = OP_HOLD, .body = body, .body_len = NET_BODY_MAX};
        struct waited_call *waited[3];
        unsigned i;

        for (i = 0; i < 3; i++)
                waited[i] = call_begin(&a, 0, &call, 0);
        WAIT_UNTIL(node_stats(&b).waits > 0);
        assert_int_equal(node_number(&b, &b.held_count), 1);
        for (i = 0; i < 3; i++) {
                while (sem_trywait(&waited[i]->done) != 0) {
                        node_release(&b);
                        usleep(1000);
                }
                assert_int_equal(waited[i]->call.outcome, NET_ANSWERED);
                call_free(waited[i]);
        }
        free(body);
}

/* ---- restarts -------------------------------------------------------------------------------- */

/* A newer process of node 1 takes over; what the older one sends does not count any more, and it is told why. */
static void test_two_boots_of_one_node(void **state)
{
        struct net_options options = node_options(1, 50);
        struct node newer;
        struct net_peer *newer_to_b;
        struct net_peer_state known;

        assert_int_equal(call_once(&a, to_b, NET_LOG), NET_ANSWERED);
        assert_int_equal(call_once(&a, to_b, NET_BULK_0), NET_ANSWERED);
        node_start(&newer, &options);
        newer_to_b = node_meets(&newer, &b);
        assert_int_equal(call_once(&newer, newer_to_b, NET_CONTROL), NET_ANSWERED);
        net_peer_state_read(to_a, &known);
        assert_int_equal(known.boot, 50);
        WAIT_UNTIL(node_stats(&a).lost == 3);
        assert_int_equal(node_stats(&a).lost, 3); /* control, log and bulk, on every loop, though another link connected */
        WAIT_UNTIL(node_said(&a, "refuses this node: the node runs twice"));
        assert_true(node_said(&a, "its boot 5 is older than boot 50"));
        assert_true(node_said(&b, "its boot 5 is older than boot 50"));
        assert_int_not_equal(call_once(&a, to_b, NET_LOG), NET_ANSWERED);
        assert_int_equal(call_once(&newer, newer_to_b, NET_LOG), NET_ANSWERED);
        /* and b, which calls the older one's address, does not believe it */
        assert_int_equal(call_once(&b, to_a, NET_LOG), NET_UNREACHABLE);
        assert_true(node_said(&b, "the node runs twice, or an old process of it answers"));
        node_stop(&newer);
}

static void test_peer_that_restarts(void **state)
{
        struct net_options options = node_options(2, 7);
        char address[NET_ADDRESS_MAX];

        assert_int_equal(call_once(&a, to_b, NET_CONTROL), NET_ANSWERED);
        assert_int_equal(call_once(&b, to_a, NET_CONTROL), NET_ANSWERED);
        strcpy(address, b.address);
        node_stop(&b);
        WAIT_UNTIL(node_stats(&a).lost == 2);
        strcpy(options.listen, address);
        node_start(&b, &options);
        to_a = node_meets(&b, &a);
        assert_true(call_until_answered(&a, to_b, NET_CONTROL));
        assert_true(call_until_answered(&b, to_a, NET_CONTROL));
        assert_true(node_said(&a, "node 2: boot 7 follows boot 6"));
}

static void test_address_changes(void **state)
{
        struct net_peer *nobody = node_knows(&a, 2, "node-2", "127.0.0.1:1");

        assert_ptr_equal(nobody, to_b);
        assert_int_equal(call_once(&a, to_b, NET_LOG), NET_UNREACHABLE);
        node_meets(&a, &b);
        assert_true(call_until_answered(&a, to_b, NET_LOG));
}

static void test_calls_to_a_node_that_was_removed(void **state)
{
        assert_int_equal(call_once(&a, to_b, NET_LOG), NET_ANSWERED);
        assert_int_equal(net_peer_remove(to_b), 0);
        WAIT_UNTIL(node_stats(&a).lost == 2); /* control and log */
        assert_int_equal(call_once(&a, to_b, NET_LOG), NET_UNREACHABLE);
        node_meets(&a, &b);
        assert_true(call_until_answered(&a, to_b, NET_LOG));
}

static void test_stop_with_calls_outstanding(void **state)
{
        struct net_call call = {.peer = to_b, .link = NET_CONTROL, .operation = OP_HOLD};
        struct waited_call *waited = call_begin(&a, 0, &call, 0);
        struct net_options options = node_options(1, 6);

        WAIT_UNTIL(node_number(&b, &b.held_count) == 1);
        node_stop(&a);
        assert_int_equal(call_wait(waited), NET_UNKNOWN);
        call_free(waited);
        node_release(&b);
        node_start(&a, &options);
        to_b = node_meets(&a, &b);
        node_meets(&b, &a);
        assert_true(call_until_answered(&a, to_b, NET_CONTROL));
}

static void test_bad_options(void **state)
{
        struct net_peer_options peer = {.node = 1, .name = "node-1", .address = "127.0.0.1:1"};

        assert_int_equal(net_peer_set(a.net, &peer, NULL), -EINVAL); /* itself */
        peer.node = 9;
        peer.name[0] = '\0';
        assert_int_equal(net_peer_set(a.net, &peer, NULL), -EINVAL);
        memset(peer.name, 'x', sizeof(peer.name));
        assert_int_equal(net_peer_set(a.net, &peer, NULL), -EINVAL);
        strcpy(peer.name, ".nodes.example"); /* any certificate below it would do */
        assert_int_equal(net_peer_set(a.net, &peer, NULL), -EINVAL);
        assert_null(net_peer_find(a.net, 9));
        assert_ptr_equal(net_peer_find(a.net, 2), to_b);
        assert_int_equal(net_peer_node(to_b), 2);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_each_link_carries_calls_both_ways, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_each_link_carries_calls_both_ways, pair_start_plain, pair_stop),
                cmocka_unit_test_setup_teardown(test_bodies_and_bulk_of_all_sizes, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_bodies_and_bulk_of_all_sizes, pair_start_plain, pair_stop),
                cmocka_unit_test_setup_teardown(test_bulk_nobody_wants, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_many_calls_at_once, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_many_calls_at_once, pair_start_plain, pair_stop),
                cmocka_unit_test_setup_teardown(test_nobody_there_is_unreachable, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_deadline_and_late_answer, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_past_deadline_is_not_sent, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_connection_lost_with_calls_outstanding, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_too_many_calls_wait, pair_start_few, pair_stop),
                cmocka_unit_test_setup_teardown(test_slow_lane_does_not_stop_its_neighbours, pair_start_few, pair_stop),
                cmocka_unit_test_setup_teardown(test_credit_comes_back_with_the_answer, pair_start_few, pair_stop),
                cmocka_unit_test_setup_teardown(test_bulk_waits_for_memory, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_lost_while_it_waits, pair_start_plain, pair_stop),
                cmocka_unit_test_setup_teardown(test_bodies_wait_for_memory, pair_start_little_memory, pair_stop),
                cmocka_unit_test_setup_teardown(test_two_boots_of_one_node, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_peer_that_restarts, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_address_changes, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_calls_to_a_node_that_was_removed, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_secrets_decide_who_is_refused, pair_start_secrets, pair_stop),
                cmocka_unit_test_setup_teardown(test_stop_with_calls_outstanding, pair_start, pair_stop),
                cmocka_unit_test_setup_teardown(test_bad_options, pair_start, pair_stop),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
