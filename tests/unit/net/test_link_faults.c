/*
 * test_link_faults.c - links over a transport in memory, byte by byte and with a clock that is set:
 * frames that are wrong, cut or changed anywhere; who is refused and why; newer connections, old
 * bytes that come late; peers that write slowly, read slowly, or fall silent.
 */
#include "tests/unit/net/memory_net.h"

#include <malloc.h>

static struct mem_node one, two;
static struct net_peer *to_two, *to_one;

static void nodes_start_two(bool plain)
{
        struct net_options options = node_options(2, 6);

        options.plain_bulk = plain;
        mem_node_start(&two, &options);
        to_one = mem_knows(&two, 1);
}

static int nodes_start_with(bool plain)
{
        struct net_options options;

        options = node_options(1, 5);
        options.plain_bulk = plain;
        mem_node_start(&one, &options);
        nodes_start_two(plain);
        to_two = mem_knows(&one, 2);
        return 0;
}

static int nodes_start(void **state)
{
        return nodes_start_with(false);
}

static int nodes_start_plain(void **state)
{
        return nodes_start_with(true);
}

static int nodes_stop(void **state)
{
        mem_node_stop(&one);
        mem_node_stop(&two);
        return 0;
}

static struct net_wire_head request_head(uint64_t id)
{
        return (struct net_wire_head){.version = 1, .kind = NET_FRAME_REQUEST, .id = id, .code = OP_ECHO};
}

/* An open connection of node 1's, whose end is the test's. */
static struct mem_end *raw_open(enum net_link_number link, uint64_t boot, uint64_t sequence)
{
        struct net_wire_hello hello = raw_hello(link, boot, sequence);
        struct mem_end *end = raw_greet(&two, &hello, NULL);

        assert_int_equal(raw_heard(end, NULL), NET_FRAME_WELCOME);
        return end;
}

static void raw_close(struct mem_end *end)
{
        mem_close(&end->base);
        mem_settle();
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void test_calls_over_memory(void **state)
{
        unsigned link;

        for (link = 0; link < NET_LINKS; link++) {
                assert_int_equal(mem_echo(&one, to_two, link), NET_ANSWERED);
                assert_int_equal(mem_echo(&two, to_one, link), NET_ANSWERED);
        }
        mem_pass(10000);
        assert_int_equal(mem_stats(&one).lost + mem_stats(&two).lost, 0); /* beats keep them */
}

/* ---- frames that are wrong ------------------------------------------------------------------- */

static struct raw_frame *some_request(void)
{
        uint8_t body[100], bulk[333];
        struct net_wire_head head = request_head(77);

        memset(body, 3, sizeof(body));
        memset(bulk, 4, sizeof(bulk));
        head.body_len = sizeof(body);
        head.bulk_len = sizeof(bulk);
        head.lane = 7;
        head.deadline_ms = 1000;
        head.room = 50;
        return raw_frame(&head, body, bulk);
}

/* The connection ends in the middle of a frame: nothing of it reaches the handler but that it was lost. */
static void test_a_frame_cut_at_each_byte(void **state)
{
        struct raw_frame *frame = some_request();
        size_t at;

        for (at = 0; at < frame->len; at++) {
                struct mem_end *end = raw_open(NET_LOG, 5, at + 1);

                raw_send(end, frame->bytes, at);
                mem_settle();
                raw_close(end);
                assert_int_equal(two.node.requests, 0);
                assert_int_equal(mem_stats(&two).body_memory, 0);
        }
        assert_int_equal(two.node.lost, 333); /* those whose bulk had a place: from the body's end on */
        free(frame);
}

/* The same bytes, in as many pieces as there are bytes. */
static void test_a_frame_in_single_bytes(void **state)
{
        struct raw_frame *frame = some_request();
        struct mem_end *end = raw_open(NET_BULK_1, 5, 1);
        size_t at;

        for (at = 0; at < frame->len; at++) {
                assert_int_equal(two.node.requests, 0);
                raw_send(end, frame->bytes + at, 1);
                mem_settle();
        }
        assert_int_equal(two.node.requests, 1);
        assert_int_equal(raw_heard(end, NULL), NET_FRAME_REPLY);
        raw_close(end);
        free(frame);
}

static void test_each_bit_flipped(void **state)
{
        struct raw_frame *frame = some_request();
        size_t bit;

        for (bit = 0; bit < frame->len * 8; bit++) {
                struct mem_end *end = raw_open(NET_LOG, 5, bit + 1);

                frame->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                raw_send(end, frame->bytes, frame->len);
                mem_settle();
                frame->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                assert_null(end->other);
                raw_close(end);
        }
        assert_int_equal(two.node.requests, 0);
        assert_int_equal(mem_stats(&two).bad_frames, frame->len * 8);
        assert_int_equal(mem_stats(&two).body_memory, 0);
        free(frame);
}

/* Right checksums, wrong contents. */
static void check_bad(struct net_wire_head head, const void *body, const char *what)
{
        static uint64_t sequence = 1000000;
        struct mem_end *end = raw_open(NET_LOG, 5, ++sequence);
        uint64_t before = mem_stats(&two).bad_frames;
        struct raw_frame *frame = raw_frame(&head, body, "bulk");

        raw_send(end, frame->bytes, frame->len);
        mem_settle();
        if (end->other != NULL || mem_stats(&two).bad_frames != before + 1)
                fail_msg("%s was taken", what);
        raw_close(end);
        free(frame);
}

static void test_frames_nobody_may_send(void **state)
{
        static uint8_t body[1024];
        struct net_wire_head head = request_head(1);
        unsigned kind;

        check_bad(request_head(0), NULL, "request 0");
        head.version = 2;
        check_bad(head, NULL, "another version");
        head = request_head(1);
        head.lane = NET_LANES;
        check_bad(head, NULL, "a lane that there is not");
        head = request_head(1);
        head.room = NET_BULK_MAX + 1;
        check_bad(head, NULL, "too much room");
        for (kind = 0; kind < 16; kind++)
                if (kind != NET_FRAME_REQUEST && kind != NET_FRAME_PING) {
                        head = (struct net_wire_head){.version = kind <= NET_FRAME_REFUSED ? 0 : 1,
                                                      .kind = (uint8_t)kind};
                        check_bad(head, NULL, "a kind that is not an opener's");
                }
        check_bad((struct net_wire_head){.version = 1, .kind = NET_FRAME_PING, .id = 0}, NULL, "ping 0");
        check_bad((struct net_wire_head){.version = 1, .kind = NET_FRAME_PING, .id = 1, .body_len = 3}, body,
                  "a ping with a body");
        assert_int_equal(two.node.requests, 0);
}

static void test_more_than_was_granted(void **state)
{
        struct mem_end *end = raw_open(NET_BULK_0, 5, 1);
        struct net_wire_head head = request_head(1);
        struct raw_frame *frame;
        unsigned i;

        head.code = OP_HOLD;
        head.room = NET_BULK_MAX;
        for (i = 0; i < 3; i++) { /* 8 MiB of a lane: a fourth does not fit with heads */
                head.id = i + 1;
                frame = raw_frame(&head, NULL, NULL);
                raw_send(end, frame->bytes, frame->len);
                free(frame);
        }
        mem_settle();
        assert_non_null(end->other);
        head.id = 4;
        head.lane = 1; /* another lane */
        frame = raw_frame(&head, NULL, NULL);
        raw_send(end, frame->bytes, frame->len);
        mem_settle();
        assert_non_null(end->other);
        free(frame);
        head.id = 5;
        head.lane = 0;
        frame = raw_frame(&head, NULL, NULL);
        raw_send(end, frame->bytes, frame->len);
        mem_settle();
        assert_null(end->other);
        free(frame);
        raw_close(end);
        assert_int_equal(two.node.requests, 4);
}

/* What an answer must not be: without a call, twice, longer than the room. */
static void wrong_answer(bool twice, uint32_t bulk_len, uint64_t id_plus)
{
        char room[16];
        struct mem_call mem = {.call = {.peer = to_one,
                                        .link = NET_LOG,
                                        .operation = OP_ECHO,
                                        .room = {{room, sizeof(room)}},
                                        .room_count = 1}};
        struct net_wire_head head;
        struct mem_end *near = NULL;
        struct raw_frame *frame;
        unsigned i;

        /* node 1's end of node 2's connection is the test's: it is taken from node 1 */
        mem_call(&two, &mem);
        assert_true(mem.done && mem.call.outcome == NET_ANSWERED);
        for (i = 0; i < MEM_ENDS; i++)
                if (mem_ends[i] != NULL && mem_ends[i]->base.user == to_one->links[NET_LOG].conn)
                        near = mem_ends[i];
        assert_non_null(near);
        near->other->raw = true; /* node 1 hears nothing any more */
        mem_call(&two, &mem);
        assert_false(mem.done);
        assert_int_equal(net_head_read(near->other->bytes, &head), 0);
        assert_int_equal(head.kind, NET_FRAME_REQUEST);
        head = (struct net_wire_head){
                .version = 1, .kind = NET_FRAME_REPLY, .id = head.id + id_plus, .bulk_len = bulk_len};
        frame = raw_frame(&head, NULL, "12345678901234567890");
        mem_arrive(near, frame->bytes, frame->len);
        if (twice)
                mem_arrive(near, frame->bytes, frame->len);
        mem_settle();
        assert_true(mem.done);
        assert_int_equal(mem.call.outcome, twice ? NET_ANSWERED : NET_UNKNOWN);
        assert_int_equal(mem_stats(&two).bad_frames, 1);
        free(frame);
}

static void test_an_answer_without_a_call(void **state)
{
        wrong_answer(false, 0, 1);
}

static void test_an_answer_of_another_connection(void **state)
{
        wrong_answer(false, 0, 1u << 16);
}

/* An answer to a request that is half sent. */
static void test_an_answer_too_early(void **state)
{
        uint8_t *bulk = calloc(1, NET_BULK_MAX);
        struct mem_call mem = {.call = {.peer = to_two,
                                        .link = NET_BULK_0,
                                        .operation = OP_DISCARD,
                                        .bulk = {{bulk, NET_BULK_MAX}},
                                        .bulk_count = 1}};
        struct net_wire_head head = {.version = 1, .kind = NET_FRAME_REPLY};
        struct raw_frame *frame;
        struct mem_end *near;

        assert_int_equal(mem_echo(&one, to_two, NET_BULK_0), NET_ANSWERED);
        near = mem_of(to_two->links[NET_BULK_0].conn->stream);
        near->other->held = true;
        mem_call(&one, &mem);
        assert_false(mem.done);
        head.id = to_two->links[NET_BULK_0].conn->to.entries[mem.call.entry].id;
        frame = raw_frame(&head, NULL, NULL);
        mem_arrive(near, frame->bytes, frame->len);
        mem_settle();
        assert_true(mem.done);
        assert_int_equal(mem.call.outcome, NET_UNKNOWN);
        assert_int_equal(mem_stats(&one).bad_frames, 1);
        free(frame);
        free(bulk);
}

static void test_an_answer_twice(void **state)
{
        wrong_answer(true, 16, 0);
}

static void test_an_answer_longer_than_its_room(void **state)
{
        wrong_answer(false, 17, 0);
}

/* Those who send nothing but rubbish, one connection after the other, and many frames on each: nothing grows. */
static void test_a_million_broken_frames(void **state)
{
        struct net_wire_head head = request_head(1);
        struct raw_frame *frame = raw_frame(&head, NULL, NULL);
        unsigned i, descriptors = open_descriptors();
        size_t before = 0;

        for (i = 0; i < 1000000; i++) {
                struct mem_end *end = mem_dial_raw(&two, "node-1", true);

                frame->bytes[i % NET_HEAD_SIZE] ^= 0x55;
                raw_send(end, frame->bytes, frame->len);
                frame->bytes[i % NET_HEAD_SIZE] ^= 0x55;
                mem_event(end->other);
                mem_close(&end->base);
                if (i == 1000)
                        before = mallinfo2().uordblks;
        }
        mem_settle();
        assert_true(mallinfo2().uordblks <= before + (1 << 20));
        assert_int_equal(mem_stats(&two).bad_frames, 1000000);
        assert_int_equal(mem_stats(&two).guests, 0);
        assert_int_equal(open_descriptors(), descriptors);
        assert_true(strlen(two.node.lines) < 2000); /* one line a second, and the clock stands */
        free(frame);
}

/* ---- who is refused -------------------------------------------------------------------------- */

/* What becomes of node 1's HELLO on its way to node 2, and what is said of it. */
struct refusal {
        void (*change)(struct net_wire_hello *hello);
        const char *shown; /* the name in the certificate; NULL: its own */
        unsigned says;     /* it says it is that node */
        enum net_reason reason;
        const char *text;
};

/* The fields of a greeting are changed where it lies; its checksums are right again. */
static void hello_change(struct mem_end *end, void (*change)(struct net_wire_hello *hello))
{
        uint8_t *body = end->bytes + NET_HEAD_SIZE;
        struct net_wire_hello hello;
        struct net_wire_head head;

        assert_true(end->len > NET_HEAD_SIZE && net_head_read(end->bytes, &head) == 0);
        assert_int_equal(head.kind, NET_FRAME_HELLO);
        assert_int_equal(end->len, NET_HEAD_SIZE + head.body_len);
        memcpy(&hello, body, sizeof(hello));
        if (change != NULL)
                change(&hello);
        memcpy(body, &hello, sizeof(hello));
        net_head_write(&head, body, end->bytes);
}

/* Both ends say why, and the call says that nothing was done. Nothing is left of the connection. */
static void check_refused(const struct refusal *r, enum net_link_number link)
{
        struct mem_call mem = {.call = {.peer = to_two, .link = link, .operation = OP_ECHO}};
        struct net_stats opener = mem_stats(&one), acceptor = mem_stats(&two);
        char at_one[300], at_two[300];

        mem_catches = true;
        mem_call(&one, &mem);
        mem_catches = false;
        assert_non_null(mem_caught);
        hello_change(mem_caught, r->change);
        if (r->shown != NULL)
                snprintf(mem_caught->shown, sizeof(mem_caught->shown), "%s", r->shown);
        mem_caught->held = false;
        mem_settle();
        assert_true(mem.done);
        assert_int_equal(mem.call.outcome, NET_UNREACHABLE);
        assert_int_equal(atomic_load(&to_two->refused), r->reason);
        snprintf(at_one, sizeof(at_one), "node 2 (node-2) at 10.0.0.1:1 refuses this node: %s\n", r->text);
        snprintf(at_two, sizeof(at_two), "10.0.0.1:1, which says it is node %u: refused: %s\n", r->says, r->text);
        if (!node_said(&one.node, at_one) || !node_said(&two.node, at_two))
                fail_msg("%s\nopener: %s\nacceptor: %s", r->text, one.node.lines, two.node.lines);
        assert_int_equal(mem_stats(&one).opened, opener.opened);
        assert_int_equal(mem_stats(&two).accepted, acceptor.accepted);
        assert_int_equal(mem_stats(&two).refused, acceptor.refused + 1);
        assert_int_equal(mem_stats(&two).guests, 0);
}

static void of_another_cluster(struct net_wire_hello *hello)
{
        hello->cluster[3] ^= 1;
}

static void of_another_generation(struct net_wire_hello *hello)
{
        hello->generation = 8;
}

static void of_its_twin(struct net_wire_hello *hello)
{
        hello->generation_random = 98;
}

static void to_node_3(struct net_wire_hello *hello)
{
        hello->to = 3;
}

static void of_node_2(struct net_wire_hello *hello)
{
        hello->node = 2;
}

static void of_node_3(struct net_wire_hello *hello)
{
        hello->node = 3;
}

static void of_node_3_and_wrong(struct net_wire_hello *hello)
{
        of_node_3(hello);
        of_another_cluster(hello);
        of_another_generation(hello);
        to_node_3(hello);
}

static void of_later_versions(struct net_wire_hello *hello)
{
        hello->version_min = NET_VERSION_NEWEST + 1;
        hello->version_max = NET_VERSION_NEWEST + 2;
}

static void of_an_early_clock(struct net_wire_hello *hello)
{
        hello->wall_ms += 301 * 1000 + 500;
}

static void of_a_late_clock(struct net_wire_hello *hello)
{
        hello->wall_ms -= 301 * 1000 + 500;
}

static void of_no_clock(struct net_wire_hello *hello)
{
        hello->wall_ms = INT64_MIN + lp_wall_ms();
}

static const struct refusal refusals[] = {
        {of_another_cluster, NULL, 1, NET_REASON_CLUSTER, "it belongs to another cluster"},
        {of_another_generation, NULL, 1, NET_REASON_GENERATION,
         "it has generation 8 of the cluster's state, and the other end 7"},
        {of_its_twin, NULL, 1, NET_REASON_GENERATION, "it has generation 7 of the cluster's state, and the other end 7"},
        {to_node_3, NULL, 1, NET_REASON_WRONG_NODE, "node 3 was asked for, and this is node 2"},
        {of_node_2, "node-2", 2, NET_REASON_DUPLICATE,
         "the node runs twice, or an old process of it still runs: its boot 5 is older than boot 6"},
        {of_later_versions, NULL, 1, NET_REASON_VERSION,
         "its oldest version of the protocol is 2; the newest that the other end speaks is 1"},
        {of_an_early_clock, NULL, 1, NET_REASON_CLOCK, "the clocks differ by 301 s; 300 s are allowed"},
        {of_a_late_clock, NULL, 1, NET_REASON_CLOCK, "the clocks differ by 301 s; 300 s are allowed"},
        {of_no_clock, NULL, 1, NET_REASON_CLOCK, "the clocks differ by 9223372036854775 s; 300 s are allowed"},
        {of_node_3, "node-3", 3, NET_REASON_UNKNOWN_NODE, "node 3 is not known"},
        {NULL, "node-3", 1, NET_REASON_CERTIFICATE, "the certificate is not for the name of node 1"},
        /* who is no node learns nothing else */
        {of_node_3_and_wrong, "node-3", 3, NET_REASON_UNKNOWN_NODE, "node 3 is not known"},
        {of_another_generation, "node-3", 1, NET_REASON_CERTIFICATE, "the certificate is not for the name of node 1"},
        {of_another_cluster, "node-3", 1, NET_REASON_CERTIFICATE, "the certificate is not for the name of node 1"},
        {of_node_2, "node-3", 2, NET_REASON_CERTIFICATE, "the certificate is not for the name of node 2"},
};

static void test_refusals(void **state)
{
        unsigned i;

        for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
                check_refused(&refusals[i], NET_CONTROL);
                nodes_stop(state); /* the next one has rested, and says its line at once */
                nodes_start(state);
        }
}

/* Keys that neither end has of the other's. */
static void test_refused_for_its_keys(void **state)
{
        const struct refusal refusal = {NULL, NULL, 1, NET_REASON_KEYS,
                                        "one end's key_file lacks the key that the other end seals with"};
        struct net_secrets secrets = {.count = 1, .key = {{1}}};

        net_secrets_set(one.node.net, &secrets);
        secrets.key[0][0] = 2;
        net_secrets_set(two.node.net, &secrets);
        check_refused(&refusal, NET_CONTROL);
}

static void of_an_older_connection(struct net_wire_hello *hello)
{
        hello->sequence = 700;
}

/* A process of the same node is there already: a newer one, or this one with a newer connection. */
static void test_refused_for_a_newer_one(void **state)
{
        static const struct refusal older_boot = {
                NULL, NULL, 1, NET_REASON_DUPLICATE,
                "the node runs twice, or an old process of it still runs: its boot 5 is older than boot 9"},
                                    older = {of_an_older_connection, NULL, 1, NET_REASON_OLDER,
                                             "connection 700 is older than connection 701"};
        struct mem_end *end = raw_open(NET_CONTROL, 5, 701);

        check_refused(&older, NET_CONTROL);
        raw_close(end);
        nodes_stop(state);
        nodes_start(state);
        end = raw_open(NET_CONTROL, 9, 1);
        check_refused(&older_boot, NET_CONTROL);
        raw_close(end);
}

static void of_another_control_connection(struct net_wire_hello *hello)
{
        hello->control_sequence++;
}

/* A plain connection, at one that proves nothing, and where all is TLS. */
static void test_refused_for_being_plain(void **state)
{
        static const struct refusal proves_nothing = {
                of_another_control_connection, NULL, 1, NET_REASON_SECRET,
                "a plain connection has no proof of an authenticated control connection"},
                                    plain = {NULL, NULL, 1, NET_REASON_PLAIN, "only TLS is allowed here"};

        assert_int_equal(mem_echo(&one, to_two, NET_CONTROL), NET_ANSWERED);
        check_refused(&proves_nothing, NET_BULK_0);
        mem_node_stop(&two);
        nodes_start_two(false);
        mem_pass(2000);
        assert_int_equal(mem_echo(&one, to_two, NET_CONTROL), NET_ANSWERED);
        check_refused(&plain, NET_BULK_1);
}

/* Of versions that never were: it is no greeting, and nothing is said to whoever sent it. */
static void test_a_version_of_none(void **state)
{
        struct net_wire_hello hello = raw_hello(NET_CONTROL, 5, 1);
        struct mem_end *end;

        hello.version_min = hello.version_max = NET_VERSION_LEAST - 1;
        end = raw_greet(&two, &hello, NULL);
        assert_int_equal(raw_heard(end, NULL), 0);
        assert_null(end->other);
        assert_true(node_said(&two.node, "10.0.0.1:1: turned away: "));
        raw_close(end);
}

/* A later version may add to a greeting, and to what it says it speaks. */
static void test_a_newer_version_is_spoken_with(void **state)
{
        struct net_wire_hello hello = raw_hello(NET_CONTROL, 5, 1);
        uint8_t body[sizeof(hello) + 60 + NET_MAC_LEN] = {0};
        struct mem_end *end = mem_dial_raw(&two, "node-1", true);
        struct net_wire_head head = {.kind = NET_FRAME_HELLO, .body_len = sizeof(body)};
        struct raw_frame *frame;

        hello.version_max = 9;
        memcpy(body, &hello, sizeof(hello));
        memset(body + sizeof(hello), 0xee, 60);
        frame = raw_frame(&head, body, NULL);
        raw_send(end, frame->bytes, frame->len);
        mem_settle();
        assert_int_equal(raw_heard(end, NULL), NET_FRAME_WELCOME);
        raw_close(end);
        free(frame);
}

static void test_strangers_are_bounded(void **state)
{
        struct mem_end *ends[100];
        unsigned i, open = 0;

        for (i = 0; i < 100; i++) {
                ends[i] = mem_dial_raw(&two, "node-1", true);
                mem_settle();
        }
        assert_int_equal(mem_stats(&two).guests, 16); /* they have one address */
        for (i = 0; i < 100; i++)
                open += ends[i]->other != NULL;
        assert_int_equal(open, 16);
        assert_non_null(ends[99]->other);                                /* the oldest went */
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED); /* a node has that address, too */
        mem_pass(5200);
        assert_int_equal(mem_stats(&two).guests, 0); /* they had their time */
        for (i = 0; i < 100; i++)
                raw_close(ends[i]);
}

static void test_the_oldest_stranger_goes(void **state)
{
        struct mem_end *ends[70];
        unsigned i;

        for (i = 0; i < 70; i++) {
                ends[i] = mem_dial_raw(&two, "node-1", true);
                snprintf(ends[i]->other->base.remote, sizeof(ends[i]->other->base.remote), "10.0.%u.1:7", i);
                mem_pass(10);
        }
        assert_int_equal(mem_stats(&two).guests, 64);
        for (i = 0; i < 70; i++) {
                assert_int_equal(ends[i]->other != NULL, i >= 6);
                raw_close(ends[i]);
        }
}

/* ---- plain connections ----------------------------------------------------------------------- */

static void test_plain_without_a_secret(void **state)
{
        struct net_wire_hello hello = raw_hello(NET_BULK_0, 5, 1);
        uint8_t guess[NET_SECRET_LEN] = {1};
        enum net_reason reason = NET_REASON_NONE;
        struct mem_end *end, *control;

        hello.flags = NET_HELLO_PLAIN;
        end = raw_greet(&two, &hello, guess); /* no control connection */
        assert_int_equal(raw_heard(end, &reason), NET_FRAME_REFUSED);
        assert_int_equal(reason, NET_REASON_SECRET);
        raw_close(end);
        control = raw_open(NET_CONTROL, 5, 3);
        hello.control_sequence = 3;
        end = raw_greet(&two, &hello, guess);
        assert_int_equal(raw_heard(end, &reason), NET_FRAME_REFUSED);
        assert_int_equal(reason, NET_REASON_SECRET);
        raw_close(end);
        hello.boot = 4000; /* an unproved boot must not end the true one's connections */
        end = raw_greet(&two, &hello, control->secret);
        assert_int_equal(raw_heard(end, &reason), NET_FRAME_REFUSED);
        raw_close(end);
        assert_non_null(control->other);
        hello.boot = 5;
        hello.link = NET_LOG; /* control and log are never plain */
        end = raw_greet(&two, &hello, control->secret);
        assert_int_equal(raw_heard(end, &reason), NET_FRAME_REFUSED);
        assert_int_equal(reason, NET_REASON_PLAIN);
        raw_close(end);
        raw_close(control);
}

static void check_plain_is_refused(const struct net_wire_hello *hello, const uint8_t *secret, enum net_reason wanted)
{
        enum net_reason reason = NET_REASON_NONE;
        struct mem_end *end = raw_greet(&two, hello, secret);

        assert_int_equal(raw_heard(end, &reason), NET_FRAME_REFUSED);
        assert_int_equal(reason, wanted);
        raw_close(end);
}

/* Both the control connection and the plain one have to be within the node, and the secret has to be right. */
static void test_plain_within_a_node(void **state)
{
        struct net_wire_hello hello = raw_hello(NET_LOG, 5, 1);
        uint8_t guess[NET_SECRET_LEN] = {1};
        struct mem_end *control, *end;

        hello.flags = NET_HELLO_PLAIN;
        hello.control_sequence = 3;
        control = raw_open(NET_CONTROL, 5, 3);
        check_plain_is_refused(&hello, control->secret, NET_REASON_PLAIN);
        mem_same_node = true;
        check_plain_is_refused(&hello, control->secret, NET_REASON_PLAIN);
        check_plain_is_refused(&hello, guess, NET_REASON_SECRET);
        raw_close(control);
        hello.control_sequence = 4;
        control = raw_open(NET_CONTROL, 5, 4);
        mem_same_node = false;
        check_plain_is_refused(&hello, control->secret, NET_REASON_PLAIN);
        mem_same_node = true;
        check_plain_is_refused(&hello, guess, NET_REASON_SECRET);
        hello.link = NET_CONTROL;
        check_plain_is_refused(&hello, control->secret, NET_REASON_PLAIN);
        hello.link = NET_LOG;
        end = raw_greet(&two, &hello, control->secret);
        assert_int_equal(raw_heard(end, NULL), NET_FRAME_WELCOME);
        raw_close(end);
        raw_close(control);
        mem_same_node = false;
}

/* Its own calls: whatever is not control is plain; where that is refused, it is TLS from then on. */
static void test_calls_within_a_node(void **state)
{
        unsigned link;

        mem_same_node = true;
        for (link = 0; link < NET_LINKS; link++) {
                assert_int_equal(mem_echo(&one, to_two, link), NET_ANSWERED);
                assert_int_equal(to_two->links[link].conn->stream->tls, link == NET_CONTROL);
        }
        net_link_newer_boot(&to_two->links[NET_LOG], UINT64_MAX); /* ends it */
        to_two->links[NET_LOG].needs_tls = true;                  /* as when it was refused */
        mem_pass(1000);
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        assert_true(to_two->links[NET_LOG].conn->stream->tls);
        for (link = 0; link < 2; link++) /* a new session: it may be plain again, though control rests when the log asks */
                net_link_newer_boot(&to_two->links[link], UINT64_MAX);
        assert_int_equal(to_two->links[NET_CONTROL].state, NET_LINK_RESTING);
        lp_timer_stop(net_owner(to_two, NET_LOG)->lp, &to_two->links[NET_LOG].rest);
        to_two->links[NET_LOG].state = NET_LINK_IDLE;
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        assert_false(to_two->links[NET_LOG].conn->stream->tls);
        mem_same_node = false;
}

/* What was sent once does not serve again, not even while its control connection lives. */
static void test_plain_replayed(void **state)
{
        struct mem_end *control = raw_open(NET_CONTROL, 5, 3), *first, *second;
        struct net_wire_hello hello = raw_hello(NET_BULK_0, 5, 1);
        enum net_reason reason = NET_REASON_NONE;

        hello.flags = NET_HELLO_PLAIN;
        hello.control_sequence = 3;
        first = raw_greet(&two, &hello, control->secret);
        assert_int_equal(raw_heard(first, NULL), NET_FRAME_WELCOME);
        second = raw_greet(&two, &hello, control->secret);
        assert_int_equal(raw_heard(second, &reason), NET_FRAME_REFUSED);
        assert_int_equal(reason, NET_REASON_OLDER);
        assert_non_null(first->other); /* the true one lives on */
        raw_close(second);
        raw_close(control);
        control = raw_open(NET_CONTROL, 5, 4); /* another session, another secret */
        hello.sequence = 9;
        second = raw_greet(&two, &hello, control->secret);
        assert_int_equal(raw_heard(second, &reason), NET_FRAME_REFUSED);
        assert_int_equal(reason, NET_REASON_SECRET);
        raw_close(second);
        raw_close(first);
        raw_close(control);
}

static void test_plain_bulk_comes_back_with_a_new_session(void **state)
{
        struct net_conn *conn;

        assert_int_equal(mem_echo(&one, to_two, NET_BULK_0), NET_ANSWERED);
        conn = to_two->links[NET_CONTROL].conn;
        mem_reset(mem_of(conn->stream));
        mem_settle();
        conn = to_two->links[NET_BULK_0].conn;
        assert_non_null(conn); /* it does not end with its control connection */
        assert_int_equal(mem_echo(&one, to_two, NET_BULK_0), NET_ANSWERED);
        mem_reset(mem_of(conn->stream));
        mem_pass(2000);
        assert_int_equal(mem_echo(&one, to_two, NET_BULK_0), NET_ANSWERED);
}

static struct mem_end *impostor_end;

/* What an impostor says. */
struct impostor {
        const uint8_t *secret;
        uint16_t node;
        uint8_t nonce_flip;
        bool reflects; /* HELLO is sent back instead */
};

static void impostor_accepted(struct net_listener *listener, struct net_stream *stream)
{
        impostor_end = mem_of(stream);
        impostor_end->raw = true;
}

/* Somebody answers at node 2's address for its bulk link: what becomes of a call. */
static enum net_outcome call_to_impostor(struct impostor says)
{
        struct mem_call mem = {.call = {.peer = to_two, .link = NET_BULK_0, .operation = OP_ECHO}};
        struct net_listener impostor = {.accepted = impostor_accepted}, *true_one = two.listener;
        struct net_wire_welcome welcome = {.node = says.node,
                                           .to = 1,
                                           .version = 1,
                                           .boot = 6,
                                           .lane_bytes = 1 << 20,
                                           .body_max = 100,
                                           .requests = 3};
        uint8_t bytes[NET_WELCOME_SIZE];
        struct net_wire_hello hello;
        const uint8_t *body;

        impostor_end = NULL;
        two.listener = &impostor;
        mem_call(&one, &mem);
        two.listener = true_one;
        assert_non_null(impostor_end);
        assert_int_equal(impostor_end->len, NET_HELLO_SIZE);
        body = impostor_end->bytes + NET_HEAD_SIZE;
        assert_int_equal(net_hello_read(body, NET_HELLO_SIZE - NET_HEAD_SIZE, &hello), 0);
        memcpy(welcome.nonce, hello.nonce, sizeof(welcome.nonce));
        welcome.nonce[15] ^= says.nonce_flip;
        net_welcome_write(&welcome, says.secret, net_greeting_mac(body, NET_HELLO_SIZE - NET_HEAD_SIZE), bytes);
        if (says.reflects)
                raw_send(impostor_end, impostor_end->bytes, impostor_end->len);
        else
                raw_send(impostor_end, bytes, sizeof(bytes));
        mem_settle();
        if (!mem.done) {
                raw_close(impostor_end); /* it has the call */
                assert_true(mem.done);
        } else {
                raw_close(impostor_end);
        }
        mem_pass(1000);
        return mem.call.outcome;
}

static void test_plain_welcome_must_prove_itself(void **state)
{
        static const uint8_t guess[NET_SECRET_LEN];
        uint8_t secret[NET_SECRET_LEN];

        assert_int_equal(mem_echo(&one, to_two, NET_CONTROL), NET_ANSWERED);
        memcpy(secret, to_two->links[NET_CONTROL].conn->secret, sizeof(secret));
        assert_int_equal(call_to_impostor((struct impostor){.secret = guess, .node = 2}), NET_UNREACHABLE);
        assert_true(node_said(&one.node, "it does not know the secret of the control connection"));
        assert_int_equal(mem_echo(&one, to_two, NET_BULK_0), NET_ANSWERED); /* the true one, again */
}

/* Its own HELLO sent back is no WELCOME. */
static void test_plain_hello_reflected(void **state)
{
        static const uint8_t guess[NET_SECRET_LEN];

        assert_int_equal(mem_echo(&one, to_two, NET_CONTROL), NET_ANSWERED);
        assert_int_equal(call_to_impostor((struct impostor){.secret = guess, .node = 2, .reflects = true}),
                         NET_UNREACHABLE);
        assert_int_equal(mem_stats(&one).bad_frames, 1);
}

/* It came back by itself, to the true one: it ends, and rests before the next call. */
static void end_first_bulk(void)
{
        struct net_link *link = &to_two->links[NET_BULK_0];

        mem_reset(mem_of(link->conn->stream));
        mem_settle();
        lp_timer_stop(net_owner(to_two, NET_BULK_0)->lp, &link->rest);
        link->state = NET_LINK_IDLE; /* now */
}

/* The two tests before say something: with the secret the same WELCOME is taken, if it is of the right node. */
static void test_plain_welcome_with_the_secret(void **state)
{
        uint8_t secret[NET_SECRET_LEN];

        assert_int_equal(mem_echo(&one, to_two, NET_CONTROL), NET_ANSWERED);
        memcpy(secret, to_two->links[NET_CONTROL].conn->secret, sizeof(secret));
        assert_int_equal(call_to_impostor((struct impostor){.secret = secret, .node = 2}), NET_UNKNOWN);
        end_first_bulk();
        assert_int_equal(call_to_impostor((struct impostor){.secret = secret, .node = 3}), NET_UNREACHABLE);
        assert_true(node_said(&one.node, "another node answers there"));
        end_first_bulk();
        assert_int_equal(call_to_impostor((struct impostor){.secret = secret, .node = 2, .nonce_flip = 1}),
                         NET_UNREACHABLE);
}

/* ---- newer connections, older bytes ---------------------------------------------------------- */

/* R11: bytes of the older connection that come after HELLO of the newer are not read. */
static void late_bytes(enum net_link_number link, uint64_t newer_boot, enum net_link_number newer_link)
{
        struct mem_end *older = raw_open(link, 5, 1), *newer;
        struct net_wire_hello hello = raw_hello(newer_link, newer_boot, 2);
        struct net_wire_head head = request_head(1);
        struct raw_frame *frame = raw_frame(&head, NULL, NULL);
        uint8_t bytes[NET_HELLO_SIZE];

        older->other->held = true;
        raw_send(older, frame->bytes, frame->len);
        newer = mem_dial_raw(&two, "node-1", true);
        net_hello_write(&hello, NULL, bytes);
        raw_send(newer, bytes, sizeof(bytes));
        mem_settle();
        assert_null(older->other); /* closed before WELCOME: whatever comes late comes to nobody */
        assert_int_equal(raw_heard(newer, NULL), NET_FRAME_WELCOME);
        raw_send(newer, frame->bytes, frame->len);
        mem_settle();
        assert_int_equal(two.node.requests, 1);
        raw_close(older);
        raw_close(newer);
        free(frame);
}

static void test_late_bytes_of_the_same_link(void **state)
{
        late_bytes(NET_LOG, 5, NET_LOG);
}

static void test_late_bytes_of_an_older_boot(void **state)
{
        late_bytes(NET_LOG, 6, NET_CONTROL); /* on another loop */
}

/* The older bytes are readable in the very round in which the newer HELLO arrives, on another loop: they lose. */
static void test_older_bytes_race_with_a_newer_hello(void **state)
{
        struct mem_end *older = raw_open(NET_LOG, 5, 1), *newer = mem_dial_raw(&two, "node-1", true);
        struct net_wire_hello hello = raw_hello(NET_LOG, 5, 2);
        struct net_wire_head head = request_head(1);
        struct raw_frame *frame = raw_frame(&head, NULL, NULL);
        uint8_t bytes[NET_HELLO_SIZE];

        net_hello_write(&hello, NULL, bytes);
        raw_send(newer, bytes, sizeof(bytes));
        while (newer->len < NET_WELCOME_SIZE) { /* one message at a time */
                unsigned j;

                mem_event(newer->other);
                for (j = 0; j < MEM_LOOPS; j++)
                        lp_loop_drain(two.loops[j]);
        }
        raw_send(older, frame->bytes, frame->len);
        assert_null(older->other);
        mem_settle();
        assert_int_equal(two.node.requests, 0);
        raw_close(older);
        raw_close(newer);
        free(frame);
}

/* HELLO of an older connection that comes late does not close the newer one. */
static void test_a_late_hello_is_refused(void **state)
{
        struct mem_end *newer = raw_open(NET_LOG, 5, 7), *late;
        struct net_wire_hello hello = raw_hello(NET_LOG, 5, 6);
        enum net_reason reason = NET_REASON_NONE;

        late = raw_greet(&two, &hello, NULL);
        assert_int_equal(raw_heard(late, &reason), NET_FRAME_REFUSED);
        assert_int_equal(reason, NET_REASON_OLDER);
        assert_non_null(newer->other);
        raw_close(late);
        hello = raw_hello(NET_BULK_0, 4, 1);
        late = raw_greet(&two, &hello, NULL);
        assert_int_equal(raw_heard(late, &reason), NET_FRAME_REFUSED);
        assert_int_equal(reason, NET_REASON_DUPLICATE);
        raw_close(late);
        raw_close(newer);
}

/* Two HELLOs of one link are under way at once: the newer one is left, in whatever order they are looked at. */
static void test_two_hellos_at_once(void **state)
{
        unsigned first;

        for (first = 0; first < 2; first++) {
                struct mem_end *ends[2];
                struct net_wire_hello hello;
                uint8_t bytes[NET_HELLO_SIZE];
                unsigned i, which;

                for (i = 0; i < 2; i++) {
                        which = i ^ first;
                        hello = raw_hello(NET_BULK_1, 5, 10 * (first + 1) + which);
                        ends[which] = mem_dial_raw(&two, "node-1", true);
                        net_hello_write(&hello, NULL, bytes);
                        raw_send(ends[which], bytes, sizeof(bytes));
                }
                mem_settle();
                assert_null(ends[0]->other);
                assert_non_null(ends[1]->other);
                assert_int_equal(raw_heard(ends[1], NULL), NET_FRAME_WELCOME);
                raw_close(ends[0]);
                raw_close(ends[1]);
        }
}

static void test_answers_to_an_older_connection_are_dropped(void **state)
{
        struct mem_end *older = raw_open(NET_LOG, 5, 1), *newer;
        struct net_wire_head head = request_head(1);
        struct raw_frame *frame;

        head.code = OP_HOLD;
        frame = raw_frame(&head, NULL, NULL);
        raw_send(older, frame->bytes, frame->len);
        mem_settle();
        assert_int_equal(two.node.held_count, 1);
        newer = raw_open(NET_LOG, 5, 2);
        mem_release(&two);
        assert_int_equal(raw_heard(newer, NULL), 0);
        assert_int_equal(mem_stats(&two).requests_in, 0);
        assert_int_equal(mem_stats(&two).body_memory, 0);
        raw_close(older);
        raw_close(newer);
        free(frame);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void test_a_slow_writer(void **state)
{
        struct mem_end *end = raw_open(NET_BULK_0, 5, 1);
        struct raw_frame *frame = some_request();
        unsigned at;

        for (at = 0; end->other != NULL && at < frame->len; at++) {
                raw_send(end, frame->bytes + at, 1); /* never silent, never done */
                mem_pass(500);
        }
        assert_in_range(at, 20, 22); /* 10 s */
        assert_int_equal(mem_stats(&two).body_memory, 0);
        raw_close(end);
        free(frame);
}

static void test_a_slow_reader(void **state)
{
        struct mem_end *end = raw_open(NET_BULK_0, 5, 1);
        struct net_wire_head head = request_head(1);
        struct raw_frame *frame;
        unsigned ms;

        head.code = OP_READ;
        head.room = 1 << 20;
        frame = raw_frame(&head, NULL, NULL);
        raw_send(end, frame->bytes, frame->len);
        mem_settle();
        free(frame);
        head = (struct net_wire_head){.version = 1, .kind = NET_FRAME_PING, .id = 1};
        frame = raw_frame(&head, NULL, NULL);
        for (ms = 0; end->other != NULL && ms < 20000; ms += 500) {
                raw_send(end, frame->bytes, frame->len); /* it is heard of */
                mem_pass(500);
        }
        assert_in_range(ms, 10000, 10500);
        assert_int_equal(mem_stats(&two).body_memory, 0);
        raw_close(end);
        free(frame);
}

static struct mem_end *outbound_end(struct net_peer *peer, enum net_link_number link)
{
        return mem_of(peer->links[link].conn->stream);
}

/* A peer that is there no more, without a reset: the opener gives up after 5 s, the other end after 15 s; then it comes back. */
static void test_half_open(void **state)
{
        struct mem_call mem = {.call = {.peer = to_two, .link = NET_LOG, .operation = OP_ECHO}};
        struct mem_end *end;

        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        mem_pass(3000);
        assert_int_equal(mem_stats(&one).lost, 0);
        end = outbound_end(to_two, NET_LOG);
        end->held = end->other->held = true;
        mem_call(&one, &mem);
        mem_pass(4500);
        assert_false(mem.done);
        mem_pass(1500);
        assert_true(mem.done);
        assert_int_equal(mem.call.outcome, NET_UNKNOWN);
        mem_pass(2000);
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        assert_int_equal(mem_stats(&one).opened, 3); /* control, log, log */
}

static void test_silence_at_the_acceptor(void **state)
{
        struct mem_end *end = raw_open(NET_LOG, 5, 1);

        mem_pass(14500);
        assert_non_null(end->other);
        assert_int_equal(raw_heard(end, NULL), NET_FRAME_PONG); /* it says that it is there */
        mem_pass(1000);
        assert_null(end->other);
        raw_close(end);
}

/* Backpressure is no silence, however long it takes. */
static void test_waiting_for_memory_is_not_silence(void **state)
{
        static char bulk[1000];
        struct mem_call mem = {.call = {.peer = to_two,
                                        .link = NET_BULK_0,
                                        .operation = OP_WAIT,
                                        .bulk = {{bulk, sizeof(bulk)}},
                                        .bulk_count = 1}};

        mem_call(&one, &mem);
        assert_int_equal(two.node.waiting, 1);
        mem_pass(60000);
        assert_false(mem.done);
        mem_release(&two);
        assert_true(mem.done);
        assert_int_equal(mem.call.outcome, NET_ANSWERED);
        assert_int_equal(mem_stats(&one).lost + mem_stats(&two).lost, 0);
}

/* The deadline of a call that is half sent: it ends when the frame has left, or with the connection 10 s later. */
static void test_deadline_in_the_middle_of_a_frame(void **state)
{
        uint8_t *bulk = calloc(1, NET_BULK_MAX);
        struct mem_call mem = {.call = {.peer = to_two,
                                        .link = NET_BULK_0,
                                        .operation = OP_DISCARD,
                                        .bulk = {{bulk, NET_BULK_MAX}},
                                        .bulk_count = 1}};
        struct mem_end *end;
        unsigned turn;

        for (turn = 0; turn < 2; turn++) {
                assert_int_equal(mem_echo(&one, to_two, NET_BULK_0), NET_ANSWERED);
                end = outbound_end(to_two, NET_BULK_0);
                end->other->held = true;
                mem.call.deadline = mem_now + 2000 * NET_MS;
                mem_call(&one, &mem);
                mem_pass(3000);
                assert_false(mem.done);
                if (turn == 0) {
                        end->other->held = false;
                        mem_settle();
                } else {
                        mem_pass(9300);
                }
                assert_true(mem.done);
                assert_int_equal(mem.call.outcome, NET_TIMED_OUT);
                assert_true(mem.call.sent);
        }
        assert_int_equal(mem_stats(&one).lost, 1);
        mem_pass(1000);
        free(bulk);
}

/* The deadline comes while the answer does: it is an answer. */
static void test_deadline_in_the_middle_of_an_answer(void **state)
{
        uint8_t *room = calloc(1, NET_BULK_MAX);
        struct mem_call mem = {.call = {.peer = to_two,
                                        .link = NET_BULK_0,
                                        .operation = OP_READ,
                                        .room = {{room, NET_BULK_MAX}},
                                        .room_count = 1}};
        struct mem_end *end;
        uint32_t i;

        assert_int_equal(mem_echo(&one, to_two, NET_BULK_0), NET_ANSWERED);
        end = outbound_end(to_two, NET_BULK_0);
        mem.call.deadline = mem_now + 2000 * NET_MS;
        end->held = true;
        mem_call(&one, &mem);
        end->held = false;
        mem_event(end); /* a part of it */
        end->held = true;
        mem_pass(2500);
        assert_false(mem.done);
        end->held = false;
        mem_settle();
        assert_true(mem.done);
        assert_int_equal(mem.call.outcome, NET_ANSWERED);
        for (i = 0; i < NET_BULK_MAX; i++)
                if (room[i] != pattern_byte(i))
                        fail_msg("byte %u", i);
        free(room);
}

static void test_rests_grow_and_end(void **state)
{
        struct net_options options = node_options(2, 7);

        mem_node_stop(&two);
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_UNREACHABLE);
        mem_pass(10000);
        assert_in_range(mem_stats(&one).failed, 28, 80); /* control and log, each 320 to 640 ms in the end */
        mem_node_start(&two, &options);
        mem_knows(&two, 1);
        mem_pass(1000); /* by itself */
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
}

/* Whoever knows that a peer is there again need not wait for the end of a rest. */
static void test_a_rest_is_cut_short(void **state)
{
        struct net_options options = node_options(2, 7);
        unsigned i;

        mem_node_stop(&two);
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_UNREACHABLE);
        mem_pass(10000); /* rests are long by now */
        mem_node_start(&two, &options);
        mem_knows(&two, 1);
        for (i = 0; i < 3; i++)
                net_peer_connect(to_two);
        mem_settle(); /* without time */
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        assert_true(to_two->links[NET_CONTROL].state == NET_LINK_OPEN && to_two->links[NET_BULK_0].state == NET_LINK_IDLE);
        net_peer_connect(to_two); /* they are open */
        mem_settle();
        assert_int_equal(mem_echo(&one, to_two, NET_LOG), NET_ANSWERED);
        MUST(net_peer_remove(to_two) == 0);
        mem_settle();
        net_peer_connect(to_two); /* it is known no more */
        mem_pass(1000);
        for (i = 0; i < NET_LINKS; i++)
                assert_int_equal(to_two->links[i].state, NET_LINK_IDLE);
}

/* ---- greetings ------------------------------------------------------------------------------- */

static void test_greetings_truncated(void **state)
{
        struct net_wire_hello hello = raw_hello(NET_LOG, 5, 1);
        uint8_t bytes[NET_HELLO_SIZE];
        size_t len;

        net_hello_write(&hello, NULL, bytes);
        for (len = 0; len < sizeof(bytes); len++) {
                struct mem_end *end = mem_dial_raw(&two, "node-1", true);

                raw_send(end, bytes, len);
                mem_settle();
                assert_int_equal(raw_heard(end, NULL), 0);
                raw_close(end);
        }
        assert_int_equal(mem_stats(&two).accepted, 0);
        assert_int_equal(mem_stats(&two).guests, 0);
}

static void test_bytes_behind_hello(void **state)
{
        struct net_wire_hello hello = raw_hello(NET_LOG, 5, 1);
        uint8_t bytes[NET_HELLO_SIZE + 1] = {0};
        struct mem_end *end = mem_dial_raw(&two, "node-1", true);

        net_hello_write(&hello, NULL, bytes);
        raw_send(end, bytes, sizeof(bytes)); /* nothing is sent before WELCOME */
        mem_settle();
        assert_null(end->other);
        raw_close(end);
}

#define CASE(test)       cmocka_unit_test_setup_teardown(test, nodes_start, nodes_stop)
#define CASE_PLAIN(test) cmocka_unit_test_setup_teardown(test, nodes_start_plain, nodes_stop)

int main(void)
{
        const struct CMUnitTest tests[] = {
                CASE(test_calls_over_memory),
                CASE_PLAIN(test_calls_over_memory),
                CASE(test_a_frame_cut_at_each_byte),
                CASE(test_a_frame_in_single_bytes),
                CASE(test_each_bit_flipped),
                CASE(test_frames_nobody_may_send),
                CASE(test_more_than_was_granted),
                CASE(test_an_answer_without_a_call),
                CASE(test_an_answer_of_another_connection),
                CASE(test_an_answer_too_early),
                CASE(test_an_answer_twice),
                CASE(test_an_answer_longer_than_its_room),
                CASE(test_a_million_broken_frames),
                CASE(test_refusals),
                CASE(test_refused_for_its_keys),
                CASE(test_refused_for_a_newer_one),
                CASE_PLAIN(test_refused_for_being_plain),
                CASE(test_a_version_of_none),
                CASE(test_a_newer_version_is_spoken_with),
                CASE(test_strangers_are_bounded),
                CASE(test_the_oldest_stranger_goes),
                CASE(test_plain_within_a_node),
                CASE(test_calls_within_a_node),
                CASE_PLAIN(test_plain_without_a_secret),
                CASE_PLAIN(test_plain_replayed),
                CASE_PLAIN(test_plain_bulk_comes_back_with_a_new_session),
                CASE_PLAIN(test_plain_welcome_must_prove_itself),
                CASE_PLAIN(test_plain_hello_reflected),
                CASE_PLAIN(test_plain_welcome_with_the_secret),
                CASE(test_late_bytes_of_the_same_link),
                CASE(test_late_bytes_of_an_older_boot),
                CASE(test_older_bytes_race_with_a_newer_hello),
                CASE(test_a_late_hello_is_refused),
                CASE(test_two_hellos_at_once),
                CASE(test_answers_to_an_older_connection_are_dropped),
                CASE(test_a_slow_writer),
                CASE(test_a_slow_reader),
                CASE(test_half_open),
                CASE(test_silence_at_the_acceptor),
                CASE(test_waiting_for_memory_is_not_silence),
                CASE(test_deadline_in_the_middle_of_a_frame),
                CASE(test_deadline_in_the_middle_of_an_answer),
                CASE(test_rests_grow_and_end),
                CASE(test_a_rest_is_cut_short),
                CASE_PLAIN(test_a_rest_is_cut_short),
                CASE(test_greetings_truncated),
                CASE(test_bytes_behind_hello),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
