/*
 * test_server_batch.c - batched GETs on the control queue pair, client and server together on the
 * fake transport: results of each entry, their order, bounds, credits, and what a client that
 * breaks the rules gets.
 */
#include "tests/unit/rdma/rdma_world.h"

#define SAMPLE 48u /* bytes of most objects here */

static struct client one;
static char keys[RDX_BATCH_ENTRIES][16];
static struct rdx_entry entries[RDX_BATCH_ENTRIES];
static struct rdx_window_binding bindings[8];

static unsigned rights_of(void **state)
{
        return *state != NULL ? *(unsigned *)*state : RDX_RIGHTS_WINDOW2;
}

static int setup(void **state)
{
        struct fake_options options = {.seed = test_seed()};
        unsigned i;

        if (world_open(options.seed, &options, NULL) != 0)
                return -1;
        for (i = 0; i < RDX_BATCH_ENTRIES; i++) {
                snprintf(keys[i], sizeof(keys[i]), "%u:%u", i, SAMPLE);
                entries[i] = (struct rdx_entry){.bucket = BYTES("dataset"),
                                                .key = {keys[i], strlen(keys[i])},
                                                .offset = (uint64_t)i * SAMPLE,
                                                .length = SAMPLE};
        }
        return client_begin(&one, rights_of(state));
}

static int teardown(void **state)
{
        client_end(&one);
        step_all();
        world_close();
        return 0;
}

static struct rdx_stats stats(void)
{
        struct rdx_stats s;

        rdx_stats_read(server, &s);
        return s;
}

/* Entries from first on, as many as fit into one message, into the memory's beginning; how many. */
static unsigned send(struct rdx_window_binding *binding, unsigned first, unsigned count, unsigned replies, bool ordered)
{
        struct rdx_client_batch batch = {
                .batch = 5, .first = (uint16_t)first, .replies = (uint16_t)replies, .ordered = ordered};
        unsigned sent = 0;

        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, MEMORY_SIZE, false, replies, binding), 0);
        assert_int_equal(rdx_client_batch(one.client, binding, &batch, entries + first, count, &sent), 0);
        return sent;
}

static void settle(void)
{
        step_all();
        rdx_client_poll(one.client);
        step_all();
}

static void check_samples(unsigned first, unsigned count)
{
        unsigned i;

        for (i = first; i < first + count; i++) {
                assert_int_equal(one.result[i].status, 200);
                assert_true(one.result[i].bytes == SAMPLE && one.result[i].size == SAMPLE);
                assert_object(one.bytes + i * SAMPLE, i, SAMPLE);
        }
        client_check_outside(&one, first * SAMPLE, count * SAMPLE);
        client_keep(&one, first * SAMPLE, count * SAMPLE);
}

static void test_one_message(void **state)
{
        unsigned sent = send(&bindings[0], 0, 200, 4, false);

        assert_int_equal(sent, 200);
        settle();
        assert_int_equal(one.results, 4);
        assert_int_equal(one.last, 1);
        assert_int_equal(one.entries, 200);
        assert_true(rdx_window_binding_noticed(&bindings[0]));
        assert_int_equal(rdx_window_binding_close(&bindings[0], false), 0);
        check_samples(0, 200);
        assert_int_equal(stats().entries, 200);
        assert_int_equal(stats().results, 4);
}

static void test_one_entry_one_reply(void **state)
{
        assert_int_equal(send(&bindings[0], 1023, 1, 1, true), 1);
        settle();
        assert_int_equal(one.results, 1);
        assert_int_equal(one.order[0], 1023);
        assert_int_equal(one.result[1023].status, 200);
        assert_int_equal(rdx_window_binding_close(&bindings[0], false), 0);
        client_keep(&one, 1023 * SAMPLE, SAMPLE);
}

/*
 * 1,024 entries in several messages that are outstanding together; with ordered, results come in
 * order over all of them.
 */
static void whole_batch(bool ordered)
{
        unsigned first = 0, messages = 0, i;

        while (first < RDX_BATCH_ENTRIES)
                first += send(&bindings[messages++], first, RDX_BATCH_ENTRIES - first, 4, ordered);
        settle();
        assert_int_equal(one.last, messages);
        assert_int_equal(one.entries, RDX_BATCH_ENTRIES);
        for (i = 0; ordered && i < RDX_BATCH_ENTRIES; i++)
                assert_int_equal(one.order[i], i);
        for (i = 0; i < messages; i++)
                assert_int_equal(rdx_window_binding_close(&bindings[i], false), 0);
        check_samples(0, RDX_BATCH_ENTRIES);
}

static void test_a_whole_batch(void **state)
{
        whole_batch(false);
}

static void test_a_whole_batch_in_order(void **state)
{
        batches_backwards = true; /* done in the other order */
        whole_batch(true);
}

static void test_each_entry_has_its_own_result(void **state)
{
        entries[1].key = BYTES("none");
        entries[2].length = SAMPLE - 1;
        entries[4].key = BYTES("4:0"); /* no bytes */
        assert_int_equal(send(&bindings[0], 0, 6, 6, true), 6);
        settle();
        assert_int_equal(one.results, 6);
        assert_int_equal(one.result[0].status, 200);
        assert_int_equal(one.result[1].code, RDX_CODE_NO_SUCH_KEY);
        assert_int_equal(one.result[1].status, 404);
        assert_int_equal(one.result[2].code, RDX_CODE_PLACE_TOO_SMALL);
        assert_true(one.result[2].size == SAMPLE && one.result[2].bytes == 0);
        assert_true(one.result[4].status == 200 && one.result[4].bytes == 0);
        assert_object(one.bytes, 0, SAMPLE);
        assert_object(one.bytes + 3 * SAMPLE, 3, SAMPLE);
        client_keep(&one, 0, SAMPLE);
        client_keep(&one, 3 * SAMPLE, SAMPLE);
        client_keep(&one, 5 * SAMPLE, SAMPLE);
        client_check_outside(&one, 0, 0); /* nothing at the places of the others */
        assert_int_equal(rdx_window_binding_close(&bindings[0], false), 0);
}

/* Many more messages than there are receives, one after the other: each is posted again. */
static void test_credits_come_back(void **state)
{
        unsigned i;

        for (i = 0; i < 50; i++) {
                assert_int_equal(send(&bindings[0], i, 1 + i, 1, false), 1 + i);
                settle();
                assert_int_equal(one.last, i + 1);
                assert_int_equal(rdx_window_binding_close(&bindings[0], false), 0);
        }
        client_keep(&one, 0, MEMORY_SIZE);
}

static void test_no_more_than_the_server_has_receives_for(void **state)
{
        struct rdx_window_binding more;
        unsigned i;

        for (i = 0; i < 8; i++)
                send(&bindings[i], i, 1, 1, false);
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 100, false, 1, &more), -EAGAIN);
        settle();
        for (i = 0; i < 8; i++)
                assert_int_equal(rdx_window_binding_close(&bindings[i], false), 0);
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 100, false, 1, &more), 0);
        assert_int_equal(rdx_window_binding_close(&more, false), -EPROTO); /* never sent; whoever gives up on it fences */
        client_keep(&one, 0, 8 * SAMPLE);
}

/* A GET by HTTP and a batch on the same session at the same time. */
static void test_beside_a_get(void **state)
{
        static struct get get;
        unsigned from = 60000;

        send(&bindings[0], 0, 256, 4, false);
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, from, 5000, false, 0, &bindings[1]), 0);
        get_start(&get, one.opened.session, bindings[1].number, &bindings[1].place, 9, 5000, GET_WHOLE);
        settle();
        assert_int_equal(get.result, 0);
        assert_object(one.bytes + from, 9, 5000);
        assert_int_equal(rdx_window_binding_close(&bindings[1], false), 0);
        client_keep(&one, from, 5000);
        assert_int_equal(rdx_window_binding_close(&bindings[0], false), 0);
        check_samples(0, 256);
}

/* ---- clients that break the rules ------------------------------------------------------------ */

static void check_thrown_out(void)
{
        settle();
        assert_int_equal(rdx_client_poll(one.client), -ENOTCONN);
        assert_int_equal(stats().ended[RDX_END_BROKE_RULE], 1);
        rdx_client_fence(one.client);
        rdx_window_binding_close(&bindings[0], false);
        client_keep(&one, 0, MEMORY_SIZE);
}

static void test_a_number_twice(void **state)
{
        struct rdx_client_batch batch = {.replies = 1};
        unsigned sent;

        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, MEMORY_SIZE, false, 4, &bindings[0]), 0);
        assert_int_equal(rdx_client_batch(one.client, &bindings[0], &batch, entries, 1, &sent), 0);
        assert_int_equal(rdx_client_batch(one.client, &bindings[0], &batch, entries, 1, &sent), 0);
        check_thrown_out();
}

static void test_a_place_outside_the_window(void **state)
{
        struct rdx_client_batch batch = {.replies = 1};
        unsigned sent;

        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 4096, false, 1, &bindings[0]), 0);
        entries[0].offset = 4096;
        assert_int_equal(rdx_client_batch(one.client, &bindings[0], &batch, entries, 1, &sent), -EINVAL);
        bindings[0].place.length = 8192; /* a lie: the window is smaller; the client's device finds out */
        assert_int_equal(rdx_client_batch(one.client, &bindings[0], &batch, entries, 1, &sent), 0);
        settle();
        assert_int_equal(rdx_client_poll(one.client), -ENOTCONN);
        client_check_outside(&one, 0, 0);
        rdx_window_binding_close(&bindings[0], false);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void test_the_session_ends_in_the_midst(void **state)
{
        unsigned steps = (unsigned)step_random(400);

        send(&bindings[0], 0, 200, 4, false);
        send(&bindings[1], 200, 200, 4, false);
        while (steps-- > 0)
                step();
        if (step_random(2) == 0)
                fake_cut(false);
        else
                rdx_session_end(server, one.opened.session);
        settle();
        rdx_client_fence(one.client);
        rdx_window_binding_close(&bindings[0], false);
        rdx_window_binding_close(&bindings[1], false);
        client_check_outside(&one, 0, 400 * SAMPLE);
        client_keep(&one, 0, 400 * SAMPLE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_WITH(name, what)                                                                                          \
        {                                                                                                              \
#name " (" #what ")", name, setup, teardown, &what                                                     \
        }

int main(void)
{
        static unsigned window1 = RDX_RIGHTS_WINDOW1, region = RDX_RIGHTS_REGION;
        const struct CMUnitTest tests[] = {
                TEST(test_one_message),
                TEST_WITH(test_one_message, window1),
                TEST_WITH(test_one_message, region),
                TEST(test_one_entry_one_reply),
                TEST(test_a_whole_batch),
                TEST_WITH(test_a_whole_batch, region),
                TEST(test_a_whole_batch_in_order),
                TEST(test_each_entry_has_its_own_result),
                TEST(test_credits_come_back),
                TEST_WITH(test_credits_come_back, window1),
                TEST(test_no_more_than_the_server_has_receives_for),
                TEST(test_beside_a_get),
                TEST(test_a_number_twice),
                TEST(test_a_place_outside_the_window),
                TEST(test_the_session_ends_in_the_midst),
                TEST_WITH(test_the_session_ends_in_the_midst, region),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
