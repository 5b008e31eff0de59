/*
 * test_transfer_put.c - uploads that are read from a client's window, over the fake engine and a
 * fake device: refusals, and each step on the way held or failing. Nothing is stored then, the
 * answer is one that the client can rely on, and no READ goes to memory that was given back (the
 * address sanitiser looks).
 */
#include "tests/unit/gateway/ops_fixture.h"

#include "tests/unit/gateway/fake_rdx.h"

#define LARGE (5u << 20)

static uint64_t number;

static int transfer_setup(void **state)
{
        site_rdma = &fabric.server;
        site_open(NULL);
        fabric_reset(site.loop);
        site_access = FABRIC_ACCESS;
        site_secret = FABRIC_SECRET;
        number = 0;
        for (size_t i = 0; i < FABRIC_MEMORY; i++)
                fabric.memory[i] = (uint8_t)(i * 2654435761u >> 13);
        return 0;
}

static int transfer_teardown(void **state)
{
        fake_release();
        fabric_go();
        EVENTUALLY(figures().requests_active == 0 && fabric.begun == fabric.ended && fake_figure(&fake.puts_open) == 0);
        site_close();
        site_access = ACCESS_KEY;
        site_secret = SECRET_KEY;
        return 0;
}

/* more: header lines that need no signature. */
static void send_window(int fd, const char *target, uint64_t offset, uint64_t len, const char *more)
{
        char head[8192], lines[512], place[RDX_PLACE_TEXT + 1], text[24];
        struct rdx_window_span window = {.address = FABRIC_BASE + offset, .rkey = 7, .length = len};
        struct s3_header amz[] = {{S3_STR("x-millrace-rdma-request"),
                                   {text, (size_t)snprintf(text, sizeof(text), "%llu", (unsigned long long)++number)}},
                                  {S3_STR("x-millrace-rdma-session"), S3_STR(FABRIC_SESSION)},
                                  {S3_STR("x-millrace-rdma-window"), {place, RDX_PLACE_TEXT}}};

        rdx_window_span_print(&window, place);
        snprintf(lines, sizeof(lines), "%s%s",
                 more != NULL && strstr(more, "Content-Length") != NULL ? "" : "Content-Length: 0\r\n",
                 more != NULL ? more : "");
        send_all(fd, head, signed_head(head, sizeof(head), "PUT", target, amz, 3, lines));
}

static void expect_taken(int fd, uint64_t len)
{
        struct answer a;
        char value[512], wanted[24];

        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        snprintf(wanted, sizeof(wanted), "%llu", (unsigned long long)len);
        assert_string_equal(answer_header(&a, "x-millrace-rdma-bytes", value), wanted);
        assert_string_equal(answer_header(&a, "x-millrace-transport", value), "rdma");
        assert_null(answer_header(&a, "x-millrace-rdma-posted", value));
        assert_non_null(answer_header(&a, "ETag", value));
        answer_free(&a);
}

static void expect_refused(int fd, unsigned status, const char *code, bool posted)
{
        struct answer a;
        char value[512];

        read_answer(fd, &a, false);
        assert_int_equal(a.status, status);
        has(&a, code);
        assert_int_equal(answer_header(&a, "x-millrace-rdma-posted", value) != NULL, !posted);
        answer_free(&a);
}

static void stored(const char *key, uint64_t offset, size_t len)
{
        struct answer a;
        char target[64];
        int fd = dial();

        snprintf(target, sizeof(target), "/bucket/%s", key);
        site_access = ACCESS_KEY;
        site_secret = SECRET_KEY;
        send_signed(fd, "GET", target, NULL);
        site_access = FABRIC_ACCESS;
        site_secret = FABRIC_SECRET;
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.body_len, len);
        assert_memory_equal(a.body, fabric.memory + offset, len);
        answer_free(&a);
        close(fd);
}

static void nothing_stored(void)
{
        EVENTUALLY(fabric.begun == fabric.ended && fake_figure(&fake.puts_open) == 0);
        assert_int_equal(fake_figure(&fake.commits), 0);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void all_sizes(void **state)
{
        static const size_t sizes[] = {0, 1, 4095, 100000, 1 << 20, (1 << 20) + 1, LARGE};
        int fd = dial();

        for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                send_window(fd, "/bucket/key", i, sizes[i], NULL);
                expect_taken(fd, sizes[i]);
                stored("key", i, sizes[i]);
        }
        close(fd);
}

/* A client that cannot sum the memory of its device has no checksum for what the bucket keeps by default. */
static void a_bucket_that_keeps_by_default(void **state)
{
        int fd = dial();

        fake.buckets[0].rules = (struct eng_bucket_rules){
                .versioning = ENG_VERSIONING_ENABLED, .lock = true, .default_mode = ENG_RETENTION_GOVERNANCE, .default_period = 1};
        send_window(fd, "/bucket/key", 0, 5000, NULL);
        expect_taken(fd, 5000);
        stored("key", 0, 5000);
        close(fd);
}

/* Small places, and the engine lets wait for each of them, and for the digest. */
static void the_engine_lets_wait(void **state)
{
        int fd = dial();

        fake.place = 1000;
        fake.room = 1;
        fake.unready = 3;
        send_window(fd, "/bucket/key", 0, 50000, NULL);
        expect_taken(fd, 50000);
        assert_int_equal(fabric.read, 50);
        stored("key", 0, 50000);
        close(fd);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void what_is_refused_before_a_read(void **state)
{
        static const struct {
                int rv;
                unsigned status;
                const char *code;
        } begins[] = {{-ENOENT, 501, "RDMADeclined"},         {-EEXIST, 409, "RDMARequestRepeated"},
                      {-ERANGE, 409, "RDMARequestRepeated"},  {-EAGAIN, 503, "SlowDown"},
                      {-EINVAL, 400, "MalformedRDMARequest"}, {-ESHUTDOWN, 503, "SlowDown"}};
        int fd = dial();
        unsigned i;

        for (i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
                fabric.begin_rv = begins[i].rv;
                send_window(fd, "/bucket/key", 0, 100, NULL);
                expect_refused(fd, begins[i].status, begins[i].code, false);
        }
        fabric.begin_rv = -EINVAL;
        send_window(fd, "/bucket/key", 0, (5ull << 30) + 1, NULL);
        expect_refused(fd, 400, "EntityTooLarge", false);
        fabric.begin_rv = 0;
        for (i = 0; i < FAILURES; i++) {
                fake.open_rv = failures[i].rv;
                send_window(fd, "/bucket/key", 0, 100, NULL);
                expect_refused(fd, failures[i].status, failures[i].code, false);
        }
        fake.open_rv = 0;
        send_window(fd, "/bucket/key", 0, 100, "If-Match: *\r\n");
        expect_refused(fd, 404, "NoSuchKey", false);
        send_window(fd, "/bucket/key", 0, 100, "Content-MD5: AAAA\r\n");
        expect_refused(fd, 400, "InvalidDigest", false);
        fabric.unconnected = true;
        send_window(fd, "/bucket/key", 0, 100, NULL);
        expect_refused(fd, 501, "RDMADeclined", false);
        assert_int_equal(fabric.declined[RDX_DECLINE_QUEUE_PAIRS], 1);
        assert_int_equal(fabric.declined[RDX_DECLINE_DEVICE], 1);
        fabric.absent = true;
        send_window(fd, "/bucket/key", 0, 100, NULL);
        expect_refused(fd, 403, "InvalidAccessKeyId", false);
        assert_int_equal(fabric.read, 0);
        nothing_stored();
        close(fd);
}

static bool nothing_is_permitted(const char *permission, struct s3_str bucket, struct s3_str key)
{
        return false;
}

/* A session's key does what the user may who opened it, and no more. */
static void an_upload_that_is_not_permitted(void **state)
{
        int fd = dial();

        site_may = nothing_is_permitted;
        send_window(fd, "/bucket/key", 0, 100, NULL);
        expect_refused(fd, 403, "AccessDenied", false);
        assert_string_equal(site_asked_for, "s3:PutObject");
        nothing_stored();
        close(fd);
}

static void a_body_beside_the_window(void **state)
{
        int fd = dial();

        send_window(fd, "/bucket/key", 0, 100, "Content-Length: 5\r\n");
        send_text(fd, "12345");
        expect_refused(fd, 400, "MalformedRDMARequest", false);
        nothing_stored();
        close(fd);
}

/* ---- what fails on the way ------------------------------------------------------------------- */

/* The session ends instead of each of the reads. */
static void a_session_that_ends_at_any_read(void **state)
{
        unsigned i, places = 20;
        int fd = dial();

        fake.place = 5000;
        for (i = 1; i <= places; i++) {
                fabric.fail_at = fabric.read + i;
                send_window(fd, "/bucket/key", 0, places * 5000, NULL);
                expect_refused(fd, 503, "ServiceUnavailable", true);
                nothing_stored();
        }
        fabric.fail_at = 0;
        send_window(fd, "/bucket/key", 0, places * 5000, NULL);
        expect_taken(fd, places * 5000);
        close(fd);
}

/*
 * The engine refuses to lend more: what is posted is read for nothing, what is not is taken back.
 */
static void an_engine_that_fails_at_any_place(void **state)
{
        unsigned i, at, before;
        int fd = dial();

        fake.place = 5000;
        for (at = 0; at < 20; at++) {
                i = at % FAILURES;
                fake.place_from = at * 5000;
                fake.place_rv = failures[i].rv;
                before = fabric.read;
                send_window(fd, "/bucket/key", 0, 100000, NULL);
                expect_refused(fd, failures[i].status, failures[i].code, fabric.read != before || at > 0);
                nothing_stored();
        }
        close(fd);
}

static void a_commit_that_fails(void **state)
{
        int fd = dial();

        for (unsigned i = 0; i < FAILURES; i++) {
                fake.commit_rv = failures[i].rv;
                send_window(fd, "/bucket/key", 0, 30000, NULL);
                expect_refused(fd, failures[i].status, failures[i].code, false);
                EVENTUALLY(fake_figure(&fake.puts_open) == 0);
        }
        close(fd);
}

static void a_wrong_digest(void **state)
{
        int fd = dial();

        send_window(fd, "/bucket/key", 0, 30000, "Content-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\r\n");
        expect_refused(fd, 400, "BadDigest", false);
        nothing_stored();
        close(fd);
}

/* ---- clients that go away -------------------------------------------------------------------- */

static bool no_request(void)
{
        return figures().requests_active == 0;
}

/* In the middle of the reads: they end first, then the upload is given up. */
static void the_connection_ends_while_it_is_read(void **state)
{
        int fd = dial();

        fake.place = 5000;
        fabric.hold = true;
        send_window(fd, "/bucket/key", 0, 100000, NULL);
        EVENTUALLY(fabric.posted == 3);
        close(fd);
        EVENTUALLY(no_request());
        assert_int_equal(fake_figure(&fake.puts_open), 1);
        assert_int_equal(fake_figure(&fake.aborts), 0);
        fabric_go();
        nothing_stored();
        assert_int_equal(fake_figure(&fake.aborts), 1);
        assert_true(fabric.dropped > 0);
}

/* While the engine is asked: for a place, for the digest, whether the condition holds. */
static void the_connection_ends_while_the_engine_works(void **state)
{
        static const struct {
                size_t room;
                unsigned unready;
        } waits[] = {{1, 0}, {0, 1}};

        for (unsigned i = 0; i < 2; i++) {
                int fd = dial();

                fake.room = waits[i].room;
                fake.unready = waits[i].unready;
                fake_set_hold();
                send_window(fd, "/bucket/key", 0, 100000, NULL);
                EVENTUALLY(fake_held() == 1);
                close(fd);
                EVENTUALLY(no_request());
                fake_release();
                nothing_stored();
        }
}

/* owner: the loop */
static struct {
        struct lp_msg msg;
        struct lp_reserve all, more;
        bool take;
} others;

static void granted(struct lp_reserve *reserve)
{
}

static void run_others(struct lp_msg *msg)
{
        if (others.take) {
                others.all = others.more = (struct lp_reserve){.share = LP_SHARE_PUT, .granted = granted};
                others.all.count = others.more.count = lp_share_slots(site.loop, LP_SHARE_PUT);
                assert_int_equal(lp_reserve(site.loop, &others.all), 0);
                assert_int_equal(lp_reserve(site.loop, &others.more), -EAGAIN);
        } else {
                lp_reserve_cancel(site.loop, &others.more);
                lp_unreserve(site.loop, LP_SHARE_PUT, others.all.count);
        }
}

static void post_others(bool take)
{
        others.take = take;
        others.msg.run = run_others;
        lp_post(site.loop, &others.msg);
}

/*
 * Others wait for buffers, and a client's device does not move: its session ends. One that waits
 * for us, not for its device, goes on.
 */
static void a_device_that_is_too_slow(void **state)
{
        int fd = dial();

        post_others(true);
        fake.place = 5000;
        fabric.hold = true;
        send_window(fd, "/bucket/key", 0, 100000, NULL);
        expect_refused(fd, 503, "ServiceUnavailable", true);
        assert_int_equal(fabric.session_ends, 1);
        nothing_stored();
        fake.room = 1;
        fake_set_hold();
        send_window(fd, "/bucket/key", 0, 100000, NULL);
        EVENTUALLY(fake_held() == 1);
        sleep_ms(6500);
        assert_int_equal(fabric.session_ends, 1);
        fake_release();
        expect_taken(fd, 100000);
        post_others(false);
        close(fd);
}

/* The gateway is freed around a transfer; the device is through with it first. */
static void the_daemon_ends_while_it_is_read(void **state)
{
        int fd = dial();

        fake.place = 5000;
        fabric.hold = true;
        send_window(fd, "/bucket/key", 0, 100000, NULL);
        EVENTUALLY(fabric.posted == 3);
        lp_loop_stop(site.loop);
        pthread_join(site.thread, NULL);
        gw_free(site.gw);
        assert_int_equal(fake_figure(&fake.aborts), 0);
        fabric.hold = false;
        fabric_kick();
        while (lp_loop_drain(site.loop) > 0)
                ;
        assert_int_equal(fabric.begun, fabric.ended);
        assert_int_equal(fake_figure(&fake.aborts), 1);
        assert_int_equal(fake_figure(&fake.puts_open), 0);
        lp_loop_free(site.loop);
        fake_reset(NULL);
        close(fd);
        assert_int_equal(transfer_setup(NULL), 0); /* for the teardown */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, transfer_setup, transfer_teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(all_sizes),
                TEST(a_bucket_that_keeps_by_default),
                TEST(the_engine_lets_wait),
                TEST(what_is_refused_before_a_read),
                TEST(an_upload_that_is_not_permitted),
                TEST(a_body_beside_the_window),
                TEST(a_session_that_ends_at_any_read),
                TEST(an_engine_that_fails_at_any_place),
                TEST(a_commit_that_fails),
                TEST(a_wrong_digest),
                TEST(the_connection_ends_while_it_is_read),
                TEST(the_connection_ends_while_the_engine_works),
                TEST(a_device_that_is_too_slow),
                TEST(the_daemon_ends_while_it_is_read),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
