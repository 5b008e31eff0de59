/*
 * test_server_request.c - GETs and PUTs over sessions, server and client together on the fake
 * transport: what is written, what a body may still answer, who is refused, and how sessions end.
 */
#include "tests/unit/rdma/rdma_world.h"

static struct client one, two;
static struct get get;
static struct rdx_window_binding binding;

static unsigned rights_of(void **state)
{
        return *state != NULL ? *(unsigned *)*state : RDX_RIGHTS_WINDOW2;
}

static int setup(void **state)
{
        struct fake_options options = {.seed = test_seed()};

        if (world_open(options.seed, &options, NULL) != 0)
                return -1;
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

/* A GET into [from, from + len) of the client's memory; until everything has settled. */
static void run_get(unsigned from, unsigned len, enum get_plan plan)
{
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, from, len, false, 0, &binding), 0);
        get_start(&get, one.opened.session, binding.number, &binding.place, 7, len, plan);
        step_all();
        rdx_client_poll(one.client);
        assert_true(get_over(&get));
        client_check_outside(&one, from, len);
}

static void check_written(unsigned from, unsigned len)
{
        assert_int_equal(get.result, 0);
        assert_true(get.request.posted && get.request.notice);
        assert_true(get.request.bytes == len);
        assert_true(rdx_window_binding_noticed(&binding));
        assert_object(one.bytes + from, 7, len);
        assert_int_equal(rdx_window_binding_close(&binding, false), 0);
        client_keep(&one, from, len);
}

static void test_a_get_is_written_where_it_belongs(void **state)
{
        run_get(1000, 20000, GET_WHOLE);
        check_written(1000, 20000);
        run_get(0, 1, GET_WHOLE);
        check_written(0, 1);
        run_get(MEMORY_SIZE - UNIT, UNIT, GET_WHOLE);
        check_written(MEMORY_SIZE - UNIT, UNIT);
        assert_int_equal(stats().requests, 3);
        assert_int_equal(stats().bytes_written, 20000 + 1 + UNIT);
        assert_int_equal(stats().in_flight, 0);
}

static void test_no_bytes_no_notice(void **state)
{
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 100, false, 0, &binding), 0);
        get_start(&get, one.opened.session, binding.number, &binding.place, 7, 0, GET_WHOLE);
        step_all();
        assert_true(get_over(&get));
        assert_int_equal(get.result, 0);
        assert_false(get.request.posted || get.request.notice);
        assert_int_equal(rdx_window_binding_close(&binding, true), 0);
}

static void test_a_body_may_answer_what_was_never_posted(void **state)
{
        run_get(0, 5000, GET_BODY);
        assert_int_equal(get.result, -ECANCELED);
        assert_false(get.request.posted);
        client_check_outside(&one, 0, 0);
        assert_int_equal(rdx_window_binding_close(&binding, true), 0);
        run_get(0, 5000, GET_WHOLE); /* the session goes on */
        check_written(0, 5000);
}

static void test_given_up_after_some_writes(void **state)
{
        run_get(4096, 50000, GET_ABANDON);
        assert_int_equal(get.result, -ECANCELED);
        if (!get.request.posted)
                client_check_outside(&one, 4096, 0);
        rdx_client_fence(one.client);
        assert_int_equal(rdx_window_binding_close(&binding, false), -ENOTCONN);
        client_keep(&one, 4096, 50000);
}

static void test_a_write_outside_the_window_is_never_posted(void **state)
{
        run_get(0, 3 * UNIT, GET_OUTSIDE);
        assert_int_equal(get.result, -EINVAL);
        assert_int_equal(stats().ended[RDX_END_RIGHTS], 0); /* the server knew by itself */
        rdx_client_fence(one.client);
        rdx_window_binding_close(&binding, false);
        client_keep(&one, 0, 3 * UNIT);
}

/* ---- figures --------------------------------------------------------------------------------- */

/* A GET that gives its units when it is told to. */
static struct {
        struct rdx_request request;
        struct rdx_write write[2];
        unsigned done, ended;
} slow;

static void slow_begun(struct rdx_request *request, int result)
{
        assert_int_equal(result, 0);
}

static void slow_ended(struct rdx_request *request, int result)
{
        assert_int_equal(result, 0);
        slow.ended++;
}

static void slow_done(struct rdx_write *write, int result)
{
        assert_int_equal(result, 0);
        slow.done++;
}

static void slow_begin(void)
{
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 2 * UNIT, false, 0, &binding), 0);
        memset(&slow, 0, sizeof(slow));
        memcpy(slow.request.session, one.opened.session, RDX_ID_LEN);
        slow.request.number = binding.number;
        slow.request.window = binding.place;
        slow.request.begun = slow_begun;
        slow.request.ended = slow_ended;
        rdx_request_begin(server, &slow.request);
        step_all();
}

static void slow_give(unsigned unit, bool copied)
{
        slow.write[unit] = (struct rdx_write){
                .buf = slot_get(), .len = UNIT, .offset = unit * UNIT, .done = slow_done, .copied = copied};
        memset(slow.write[unit].buf, 0, UNIT);
        rdx_request_write(&slow.request, &slow.write[unit]);
        step_all();
        assert_int_equal(slow.done, unit + 1);
}

static void test_time_without_anything_posted_counts_within_a_request(void **state)
{
        unsigned i;

        for (i = 0; i < 2; i++) {
                slow_begin();
                step_time(700); /* nothing was written yet */
                slow_give(0, true);
                step_time(1000);
                slow_give(1, false);
                rdx_request_finish(&slow.request);
                step_all();
                step_time(5000);
                rdx_client_poll(one.client);
                assert_int_equal(slow.ended, 1);
                assert_int_equal(rdx_window_binding_close(&binding, false), 0);
        }
        assert_int_equal(stats().gap_ns, 2000);
        assert_int_equal(stats().bytes_written, 4 * UNIT);
        assert_int_equal(stats().bytes_copied, 2 * UNIT);
        client_keep(&one, 0, 2 * UNIT);
}

static void test_memory_that_is_not_registered(void **state)
{
        static char elsewhere[UNIT];

        assert_true(rdx_server_registered(server, arena, ARENA_SIZE));
        assert_false(rdx_server_registered(server, arena, ARENA_SIZE + 1));
        assert_false(rdx_server_registered(server, arena - 1, 1));
        assert_false(rdx_server_registered(server, elsewhere, sizeof(elsewhere)));
}

/* ---- PUT ------------------------------------------------------------------------------------- */

static void test_a_put_reads_each_byte(void **state)
{
        unsigned i, len = 3 * UNIT + 77;

        for (i = 0; i < len; i++)
                one.bytes[500 + i] = one.shadow[500 + i] = object_byte(9, i);
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 500, len, true, 0, &binding), 0);
        get_start(&get, one.opened.session, binding.number, &binding.place, 9, len, GET_WHOLE);
        get.request.read = true;
        step_all();
        assert_true(get_over(&get));
        assert_int_equal(get.result, 0);
        assert_false(get.request.notice);
        for (i = 0; i < get.units; i++)
                assert_memory_equal(get.slot[i], one.shadow + 500 + i * UNIT, get.write[i].len);
        assert_true(stats().bytes_read == len);
        assert_int_equal(rdx_window_binding_close(&binding, true), 0);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void test_a_number_counts_once(void **state)
{
        struct get again;

        run_get(0, 5000, GET_WHOLE);
        get_start(&again, one.opened.session, binding.number, &binding.place, 8, 5000, GET_WHOLE);
        step_all();
        assert_int_equal(again.begin_result, -EEXIST);
        check_written(0, 5000); /* of the first */
        get_start(&again, one.opened.session, 0, &binding.place, 8, 5000, GET_WHOLE);
        step_all();
        assert_int_equal(again.begin_result, -ERANGE);
}

static void test_a_session_that_is_not(void **state)
{
        uint8_t other[RDX_ID_LEN];
        struct rdx_session_info info;

        memcpy(other, one.opened.session, RDX_ID_LEN);
        other[3] ^= 1;
        assert_int_equal(rdx_session_find(server, other, &info), -ENOENT);
        assert_int_equal(rdx_session_find(server, one.opened.session, &info), 0);
        assert_string_equal(info.owner, OWNER);
        assert_true(info.connected);
        assert_string_equal(info.secret, rdx_client_secret(one.client));
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 100, false, 0, &binding), 0);
        get_start(&get, other, binding.number, &binding.place, 8, 100, GET_WHOLE);
        step_all();
        assert_int_equal(get.begin_result, -ENOENT);
        assert_int_equal(rdx_window_binding_close(&binding, true), 0);
}

/*
 * Another session's queue pair has no right to this one's window: the fake would refuse, and the
 * client's memory is as it was.
 */
static void test_a_window_is_good_for_its_session_only(void **state)
{
        assert_int_equal(client_begin(&two, rights_of(state)), 0);
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 5000, false, 0, &binding), 0);
        get_start(&get, two.opened.session, 1, &binding.place, 7, 5000, GET_WHOLE);
        step_all();
        assert_true(get_over(&get));
        assert_int_not_equal(get.result, 0);
        /* that of two, by its WRITE's completion or by the word of the client's device */
        assert_int_equal(stats().ended[RDX_END_RIGHTS] + stats().ended[RDX_END_DISCONNECT], 1);
        client_check_outside(&one, 0, 0);
        assert_int_equal(rdx_window_binding_close(&binding, true), 0);
        client_end(&two);
}

static void test_too_many_requests(void **state)
{
        static struct get many[65];
        static struct rdx_window_binding bindings[65];
        unsigned i, refused = 0;

        for (i = 0; i < 64; i++)
                assert_int_equal(rdx_window_binding_open(one.client, one.memory, i * 64, 64, false, 0, &bindings[i]), 0);
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 64, false, 0, &bindings[64]), -EAGAIN);
        for (i = 0; i < 64; i++)
                get_start(&many[i], one.opened.session, bindings[i].number, &bindings[i].place, i, 64, GET_WHOLE);
        get_start(&many[64], one.opened.session, 1000, &bindings[0].place, 0, 0,
                  GET_WHOLE); /* one more than a right client has */
        step_all();
        rdx_client_poll(one.client);
        for (i = 0; i < 64; i++)
                refused += many[i].begin_result == -EAGAIN;
        refused += many[64].begin_result == -EAGAIN;
        assert_true(refused <= 1);
        for (i = 0; i < 64; i++) {
                if (many[i].begin_result == 0)
                        assert_object(one.bytes + i * 64, i, 64);
                assert_int_equal(rdx_window_binding_close(&bindings[i], many[i].begin_result != 0), 0);
        }
        client_keep(&one, 0, 64 * 64);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void test_wrong_keys_are_refused(void **state)
{
        char why[100];

        memset(&two, 0, sizeof(two));
        assert_int_equal(client_open(&two, rights_of(state)), 0);
        assert_int_equal(rdx_client_domain_open(fake_transport(), "10.0.0.1", 0, rights_of(state), 10, &two.link, why, 100), 0);
        two.grant.signing_key[0] ^= 1;
        assert_int_equal(client_connect(&two), -EACCES);
        two.grant.signing_key[0] ^= 1;
        two.grant.boot[0] ^= 1; /* the server's life before this one */
        assert_int_equal(client_connect(&two), -EACCES);
        two.grant.boot[0] ^= 1;
        two.grant.session[15] ^= 1;
        assert_int_equal(client_connect(&two), -EACCES);
        two.grant.session[15] ^= 1;
        assert_int_equal(client_connect(&two), 0); /* nothing of that was the session's fault */
        rdx_client_close(two.client);
        assert_int_equal(client_connect(&two), -EACCES); /* it ended with its queue pair, or */
        step_all();
        assert_int_equal(client_connect(&two), -EACCES);
        assert_int_equal(stats().rejected, 5);
        rdx_client_domain_close(two.link);
}

static void test_it_connects_once(void **state)
{
        struct rdx_client *first;
        char why[100];

        memset(&two, 0, sizeof(two));
        assert_int_equal(client_open(&two, rights_of(state)), 0);
        assert_int_equal(rdx_client_domain_open(fake_transport(), "10.0.0.1", 0, rights_of(state), 10, &two.link, why, 100), 0);
        assert_int_equal(client_connect(&two), 0);
        first = two.client;
        rdx_client_domain_close(NULL);
        struct rdx_client_domain *link = two.link;

        assert_int_equal(rdx_client_domain_open(fake_transport(), "10.0.0.1", 0, rights_of(state), 10, &two.link, why, 100), 0);
        assert_int_equal(client_connect(&two), -EEXIST);
        rdx_client_domain_close(two.link);
        rdx_client_close(first);
        rdx_client_domain_close(link);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void check_over(enum rdx_end end)
{
        struct rdx_session_info info;

        step_all();
        assert_int_equal(rdx_client_poll(one.client), -ENOTCONN);
        assert_int_equal(rdx_session_find(server, one.opened.session, &info), -ENOENT);
        assert_int_equal(stats().ended[end], 1);
        assert_int_equal(stats().sessions, 0);
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 1, false, 0, &binding), -ENOTCONN);
}

static void test_ended_by_request(void **state)
{
        assert_int_equal(rdx_session_end(server, one.opened.session), 0);
        assert_int_equal(rdx_session_end(server, one.opened.session), -ENOENT);
        check_over(RDX_END_REQUEST);
}

static void count_owner(void *arg, const char *owner)
{
        *(unsigned *)arg += strcmp(owner, OWNER) == 0;
}

static void test_ended_by_revoked_credentials(void **state)
{
        unsigned before = 0, after = 0;

        rdx_sessions_each(server, count_owner, &before);
        assert_int_equal(rdx_sessions_revoke(server, "somebody"), 0);
        assert_int_equal(rdx_sessions_revoke(server, OWNER), 1);
        rdx_sessions_each(server, count_owner, &after);
        assert_true(before == 1 && after == 0);
        check_over(RDX_END_REVOKED);
}

static void test_ended_by_time(void **state)
{
        step_all();
        step_time(3599ull * 1000 * 1000 * 1000);
        step_all();
        assert_int_equal(rdx_client_poll(one.client), 0);
        step_time(2ull * 1000 * 1000 * 1000);
        check_over(RDX_END_EXPIRED);
}

static void test_ended_in_the_midst_of_a_get(void **state)
{
        unsigned steps = (unsigned)step_random(60);

        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 60000, false, 0, &binding), 0);
        get_start(&get, one.opened.session, binding.number, &binding.place, 7, 60000, GET_WHOLE);
        while (steps-- > 0)
                step();
        rdx_session_end(server, one.opened.session);
        step_all();
        assert_true(get_over(&get));
        rdx_client_poll(one.client);
        if (get.begin_result == 0 && get.result == 0)
                assert_object(one.bytes, 7, 60000);
        rdx_client_fence(one.client);
        rdx_window_binding_close(&binding, false);
        client_keep(&one, 0, 60000);
}

static void test_nobody_connects(void **state)
{
        step_all();
        assert_int_equal(client_open(&two, rights_of(state)), 0);
        assert_int_equal(stats().sessions, 2);
        step_time(11ull * 1000 * 1000 * 1000);
        assert_int_equal(stats().sessions, 1);
        assert_int_equal(stats().ended[RDX_END_UNCONNECTED], 1);
}

static void test_the_client_leaves(void **state)
{
        rdx_client_fence(one.client);
        check_over(RDX_END_DISCONNECT);
}

static void test_the_client_dies_without_a_word(void **state)
{
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 60000, false, 0, &binding), 0);
        get_start(&get, one.opened.session, binding.number, &binding.place, 7, 60000, GET_WHOLE);
        step();
        fake_cut(false);
        step_all();
        assert_true(get_over(&get));
        assert_int_not_equal(get.result, 0);
        assert_int_equal(stats().ended[RDX_END_TIMEOUT], 1);
        rdx_client_fence(one.client);
        rdx_window_binding_close(&binding, false);
        client_keep(&one, 0, 60000);
}

static void test_the_device_goes_away(void **state)
{
        struct rdx_open open = {.owner = OWNER, .queue_pairs = 1, .receives = 16, .rights = RDX_RIGHTS_WINDOW2};

        fake_cut(true);
        step_all();
        assert_int_equal(stats().ended[RDX_END_DEVICE], 1);
        assert_int_equal(rdx_session_open(server, &open, &two.opened), -ENODEV);
}

/* ---- clients that have not connected, and that are not read from ----------------------------- */

static int setup_how(void **state, const struct fake_options *how)
{
        if (world_open(how->seed, how, NULL) != 0)
                return -1;
        return client_begin(&one, RDX_RIGHTS_WINDOW2);
}

static int setup_mute(void **state)
{
        struct fake_options options = {.seed = test_seed(), .mute = true};

        return setup_how(state, &options);
}

static int setup_no_reads(void **state)
{
        struct fake_options options = {.seed = test_seed(), .no_reads = true};

        return setup_how(state, &options);
}

/*
 * Nothing is posted on a queue pair of which the client has not said that it is connected: the
 * request waits a moment, and then the body may answer.
 */
static void test_not_established(void **state)
{
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 1000, false, 0, &binding), 0);
        get_start(&get, one.opened.session, binding.number, &binding.place, 7, 1000, GET_WHOLE);
        step_all();
        assert_int_equal(get.begun, 0);
        step_time(2ull * 1000 * 1000 * 1000);
        step_all();
        assert_int_equal(get.begun, 1);
        assert_int_equal(get.begin_result, -ENOTCONN);
        assert_int_equal(stats().writes, 0);
        get_start(&get, one.opened.session, binding.number, &binding.place, 7, 1000, GET_WHOLE);
        step_all();
        assert_int_equal(get.begin_result, -EEXIST); /* the number is used up */
        step_time(9ull * 1000 * 1000 * 1000);
        step_all();
        assert_int_equal(stats().ended[RDX_END_UNCONNECTED], 1);
        assert_int_equal(stats().sessions, 0);
        rdx_client_fence(one.client);
        rdx_window_binding_close(&binding, true);
}

/* What waits when the session ends is told. */
static void test_ended_before_it_is_established(void **state)
{
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 1000, false, 0, &binding), 0);
        get_start(&get, one.opened.session, binding.number, &binding.place, 7, 1000, GET_WHOLE);
        step_all();
        assert_int_equal(get.begun, 0);
        assert_int_equal(rdx_session_end(server, one.opened.session), 0);
        step_all();
        assert_int_equal(get.begin_result, -ENOENT);
        rdx_client_fence(one.client);
        rdx_window_binding_close(&binding, true);
}

static void test_who_takes_no_reads_is_not_read(void **state)
{
        assert_int_equal(rdx_window_binding_open(one.client, one.memory, 0, 1000, true, 0, &binding), 0);
        get_start(&get, one.opened.session, binding.number, &binding.place, 7, 1000, GET_WHOLE);
        get.request.read = true;
        step_all();
        assert_int_equal(get.begin_result, -EOPNOTSUPP);
        assert_int_equal(stats().reads, 0);
        rdx_window_binding_close(&binding, true);
        run_get(1000, 20000, GET_WHOLE);
        check_written(1000, 20000);
}

/* ---- bounds of sessions ---------------------------------------------------------------------- */

static void test_bounds_of_sessions(void **state)
{
        struct rdx_open open = {.owner = OWNER, .queue_pairs = 1, .receives = 16, .rights = RDX_RIGHTS_WINDOW2};
        struct rdx_opened opened;
        char owner[RDX_OWNER_MAX + 2];
        unsigned i, taken = 1;

        step_all();
        for (i = 1; i < 64; i++)
                assert_int_equal(rdx_session_open(server, &open, &opened), 0);
        assert_int_equal(rdx_session_open(server, &open, &opened), -EDQUOT);
        open.owner = owner;
        for (taken = 64; taken < 256; taken++) {
                snprintf(owner, sizeof(owner), "OWNER%u", taken % 5);
                assert_int_equal(rdx_session_open(server, &open, &opened), 0);
        }
        snprintf(owner, sizeof(owner), "LAST");
        assert_int_equal(rdx_session_open(server, &open, &opened), -EBUSY);
        open.rights = 0;
        assert_int_equal(rdx_session_open(server, &open, &opened), -ENOTSUP);
        open.rights = RDX_RIGHTS_REGION;
        open.receives = 15;
        assert_int_equal(rdx_session_open(server, &open, &opened), -EINVAL);
        memset(owner, 'x', sizeof(owner) - 1);
        owner[sizeof(owner) - 1] = '\0';
        open.receives = 16;
        assert_int_equal(rdx_session_open(server, &open, &opened), -EINVAL);
        step_time(11ull * 1000 * 1000 * 1000);
        assert_int_equal(stats().sessions, 1);
        assert_int_equal(rdx_client_poll(one.client), 0);
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
                TEST(test_a_get_is_written_where_it_belongs),
                TEST_WITH(test_a_get_is_written_where_it_belongs, window1),
                TEST_WITH(test_a_get_is_written_where_it_belongs, region),
                TEST(test_no_bytes_no_notice),
                TEST_WITH(test_no_bytes_no_notice, window1),
                TEST(test_a_body_may_answer_what_was_never_posted),
                TEST_WITH(test_a_body_may_answer_what_was_never_posted, window1),
                TEST_WITH(test_a_body_may_answer_what_was_never_posted, region),
                TEST(test_given_up_after_some_writes),
                TEST_WITH(test_given_up_after_some_writes, window1),
                TEST_WITH(test_given_up_after_some_writes, region),
                TEST(test_a_write_outside_the_window_is_never_posted),
                TEST(test_time_without_anything_posted_counts_within_a_request),
                TEST(test_memory_that_is_not_registered),
                TEST(test_a_put_reads_each_byte),
                TEST_WITH(test_a_put_reads_each_byte, window1),
                TEST_WITH(test_a_put_reads_each_byte, region),
                TEST(test_a_number_counts_once),
                TEST(test_a_session_that_is_not),
                TEST(test_a_window_is_good_for_its_session_only),
                TEST_WITH(test_a_window_is_good_for_its_session_only, window1),
                TEST_WITH(test_a_window_is_good_for_its_session_only, region),
                TEST(test_too_many_requests),
                TEST(test_wrong_keys_are_refused),
                TEST(test_it_connects_once),
                TEST(test_ended_by_request),
                TEST(test_ended_by_revoked_credentials),
                TEST(test_ended_by_time),
                TEST(test_ended_in_the_midst_of_a_get),
                TEST_WITH(test_ended_in_the_midst_of_a_get, region),
                TEST(test_nobody_connects),
                TEST(test_the_client_leaves),
                TEST(test_the_client_dies_without_a_word),
                TEST(test_the_device_goes_away),
                cmocka_unit_test_setup_teardown(test_not_established, setup_mute, teardown),
                cmocka_unit_test_setup_teardown(test_ended_before_it_is_established, setup_mute, teardown),
                cmocka_unit_test_setup_teardown(test_who_takes_no_reads_is_not_read, setup_no_reads, teardown),
                TEST(test_bounds_of_sessions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
