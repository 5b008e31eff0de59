/*
 * Requests whose engine is slow, full, short of buffers or failing, and whose clients go away at
 * every stage: nothing is lost, stored by half, answered with wrong bytes, or touched after it was
 * freed (the address sanitiser looks).
 */
#include "tests/unit/gateway/gateway_fixture.h"

#define LARGE (3u << 20)

/* Bytes that differ at every place. */
static uint8_t *pattern(size_t len)
{
        uint8_t *bytes = malloc(len + 1);
        uint32_t x = 12345;

        for (size_t i = 0; i < len; i++) {
                x = x * 1664525 + 1013904223;
                bytes[i] = (uint8_t)(x >> 24);
        }
        return bytes;
}

static void expect_bytes(int fd, const uint8_t *bytes, size_t len)
{
        struct answer a;

        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.body_len, len);
        assert_true(a.whole);
        assert_memory_equal(a.body, bytes, len);
        answer_free(&a);
}

static uint64_t requests_active(void)
{
        return figures().requests_active;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void an_upload_waits_for_room(void **state)
{
        uint8_t *bytes = pattern(LARGE);
        int fd = dial();

        fake.room = 1000;
        send_put(fd, "/bucket/large", bytes, LARGE / 8);
        expect(fd, 200, NULL);
        send_signed(fd, "GET", "/bucket/large", NULL);
        expect_bytes(fd, bytes, LARGE / 8);
        free(bytes);
        close(fd);
}

/* The engine takes less than a chunk of aws-chunked holds, at every place of it. */
static void a_chunked_upload_waits_for_room(void **state)
{
        const struct s3_header amz[] = {
                {S3_STR("x-amz-content-sha256"), S3_STR(S3_STREAMING_UNSIGNED_TRAILER)},
                {S3_STR("x-amz-decoded-content-length"), S3_STR("20000")},
                {S3_STR("x-amz-trailer"), S3_STR("x-amz-checksum-crc32")},
        };
        uint8_t *bytes = pattern(20000);
        char head[8192], line[128], crc[S3_CHECKSUM_TEXT];
        uint8_t value[S3_CHECKSUM_MAX];
        int fd = dial();

        s3_checksum_from_crc(S3_CRC32, era_crc32(0, bytes, 20000), value);
        s3_checksum_format(S3_CRC32, value, 0, crc);
        for (size_t room = 1; room < 9000; room = room * 3 + 1) {
                size_t tail = (size_t)snprintf(line, sizeof(line), "\r\n0\r\nx-amz-checksum-crc32:%s\r\n\r\n", crc);
                char more[128];

                fake.room = room < 100 ? 100 + room : room;
                snprintf(more, sizeof(more), "Content-Length: %zu\r\nContent-Encoding: aws-chunked\r\n",
                         6 + 10000 + 2 + 6 + 10000 + tail);
                send_all(fd, head, signed_head(head, sizeof(head), "PUT", "/bucket/chunked", amz, 3, more));
                send_text(fd, "2710\r\n");
                send_all(fd, bytes, 10000);
                send_text(fd, "\r\n2710\r\n");
                send_all(fd, bytes + 10000, 10000);
                send_all(fd, line, tail);
                expect(fd, 200, NULL);
                send_signed(fd, "GET", "/bucket/chunked", NULL);
                expect_bytes(fd, bytes, 20000);
        }
        free(bytes);
        close(fd);
}

static void large_objects_are_streamed(void **state)
{
        static const size_t spans[] = {0, 1, 1000, 65536, 1 << 20};
        uint8_t *bytes = pattern(LARGE);
        int fd = dial();

        send_put(fd, "/bucket/large", bytes, LARGE);
        expect(fd, 200, NULL);
        for (unsigned i = 0; i < sizeof(spans) / sizeof(spans[0]); i++) {
                fake.span = spans[i] == 1 ? 37 : spans[i];
                fake.slow_reads = spans[i] >= 65536;
                send_signed(fd, "GET", "/bucket/large", NULL);
                expect_bytes(fd, bytes, LARGE);
        }
        free(bytes);
        close(fd);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0);
}

static void small_objects_are_gathered(void **state)
{
        uint8_t *bytes = pattern(100000);
        int fd = dial();

        send_put(fd, "/bucket/small", bytes, 100000);
        expect(fd, 200, NULL);
        fake.span = 777;
        fake.slow_reads = true;
        send_signed(fd, "GET", "/bucket/small", NULL);
        expect_bytes(fd, bytes, 100000);
        free(bytes);
        close(fd);
}

/* Bytes that are in memory leave from where they are, and stay there until they have left. */
static void small_objects_are_sent_as_they_lie(void **state)
{
        uint8_t *bytes = pattern(100000);
        int fd = dial();

        send_put(fd, "/bucket/small", bytes, 100000);
        expect(fd, 200, NULL);
        fake.keeps = true;
        send_signed(fd, "GET", "/bucket/small", NULL);
        expect_bytes(fd, bytes, 100000);
        send_signed(fd, "GET", "/bucket/small", NULL); /* and nobody is there to read it */
        close(fd);
        EVENTUALLY(site.lines == 3); /* it has come, and has been answered */
        EVENTUALLY(requests_active() == 0 && fake_figure(&fake.gets_open) == 0 && fake_figure(&fake.kept) == 0);
        free(bytes);
}

/* The status has left, so the only honest thing is to end short. */
static void a_broken_read_ends_the_connection(void **state)
{
        uint8_t *bytes = pattern(LARGE);
        struct answer a;
        int fd = dial();

        send_put(fd, "/bucket/large", bytes, LARGE);
        expect(fd, 200, NULL);
        fake.span = 65536;
        fake.break_at = LARGE / 2;
        send_signed(fd, "GET", "/bucket/large", NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        assert_false(a.whole);
        assert_true(a.body_len <= LARGE / 2);
        assert_memory_equal(a.body, bytes, a.body_len);
        answer_free(&a);
        close(fd);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0);
        free(bytes);
}

static void a_broken_small_read_is_an_error(void **state)
{
        uint8_t *bytes = pattern(100000);
        struct answer a;
        char value[512];
        int fd = dial();

        send_put(fd, "/bucket/small", bytes, 100000);
        expect(fd, 200, NULL);
        fake.span = 1000;
        fake.break_at = 50000;
        send_signed(fd, "GET", "/bucket/small", NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 500);
        assert_null(answer_header(&a, "ETag", value));
        answer_free(&a);
        send_put(fd, "/bucket/other", "1", 1);
        expect(fd, 200, NULL);
        free(bytes);
        close(fd);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static void what_the_engine_says_becomes_the_answer(void **state)
{
        static const struct {
                int *knob;
                int rv;
                unsigned status;
                const char *code;
        } cases[] = {
                {&fake.open_rv, -EAGAIN, 503, "SlowDown"},          {&fake.open_rv, -ENOSPC, 507, "InsufficientStorage"},
                {&fake.open_rv, -EROFS, 503, "SlowDown"},           {&fake.open_rv, -EHOSTDOWN, 503, "ServiceUnavailable"},
                {&fake.commit_rv, -EROFS, 503, "SlowDown"},         {&fake.commit_rv, -ETIMEDOUT, 503, "SlowDown"},
                {&fake.commit_rv, -EIO, 500, "InternalError"},      {&fake.commit_rv, -EEXIST, 412, "PreconditionFailed"},
        };
        int fd = dial();

        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                *cases[i].knob = cases[i].rv;
                send_put(fd, "/bucket/key", "12345", 5);
                expect(fd, cases[i].status, cases[i].code);
                *cases[i].knob = 0;
        }
        fake.get_rv = -EHOSTDOWN;
        send_signed(fd, "GET", "/bucket/key", NULL);
        expect(fd, 503, "ServiceUnavailable");
        fake.get_rv = -EIO;
        send_signed(fd, "GET", "/bucket/key", NULL);
        expect(fd, 500, "InternalError");
        fake.get_rv = 0;
        send_signed(fd, "GET", "/bucket/key", NULL);
        expect(fd, 404, "NoSuchKey");
        close(fd);
        EVENTUALLY(fake_figure(&fake.puts_open) == 0);
}

/* No byte of a body is asked for where its condition can't hold. */
static void conditions_are_looked_at_before_the_body(void **state)
{
        static const struct {
                const char *target, *condition;
                unsigned status;
                const char *code;
        } cases[] = {
                {"/bucket/there", "If-None-Match: *", 412, "PreconditionFailed"},
                {"/bucket/there", "If-Match: \"5d41402abc4b2a76b9719d911017c593\"", 412, "PreconditionFailed"},
                {"/bucket/none", "If-Match: \"5d41402abc4b2a76b9719d911017c592\"", 404, "NoSuchKey"},
                {"/bucket/none", "If-Match: *", 404, "NoSuchKey"},
        };
        int fd = dial();

        send_put(fd, "/bucket/there", "hello", 5);
        expect(fd, 200, NULL);
        close(fd);
        for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                char more[256];

                fd = dial();
                snprintf(more, sizeof(more), "%s\r\nExpect: 100-continue\r\nContent-Length: 5\r\n", cases[i].condition);
                send_signed(fd, "PUT", cases[i].target, more);
                expect(fd, cases[i].status, cases[i].code);
                close(fd);
        }
        fd = dial();
        send_signed(fd, "PUT", "/bucket/there",
                    "If-Match: \"5d41402abc4b2a76b9719d911017c592\"\r\nExpect: 100-continue\r\nContent-Length: 5\r\n");
        expect(fd, 100, NULL);
        send_text(fd, "other");
        expect(fd, 200, NULL);
        fake.get_rv = -EHOSTDOWN;
        send_signed(fd, "PUT", "/bucket/new", "If-None-Match: *\r\nContent-Length: 5\r\n");
        send_text(fd, "other");
        expect(fd, 503, "ServiceUnavailable");
        close(fd);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0 && fake_figure(&fake.puts_open) == 0);
}

/* ---- clients that go away -------------------------------------------------------------------- */

static void a_client_that_leaves_in_its_body_stores_nothing(void **state)
{
        int fd = dial();

        send_signed(fd, "PUT", "/bucket/half", "Content-Length: 1000\r\n");
        send_text(fd, "only this much");
        EVENTUALLY(fake_figure(&fake.puts_open) == 1);
        close(fd);
        EVENTUALLY(fake_figure(&fake.aborts) == 1 && requests_active() == 0);
        assert_int_equal(fake.puts_open, 0);
        assert_int_equal(fake.commits, 0);
}

static void a_client_that_leaves_while_its_upload_waits_for_room(void **state)
{
        uint8_t *bytes = pattern(20000);
        int fd = dial();

        fake.room = 100;
        fake_set_hold();
        send_put(fd, "/bucket/stuck", bytes, 20000);
        EVENTUALLY(fake_held() == 1);
        close(fd);
        EVENTUALLY(fake_figure(&fake.aborts) == 1 && requests_active() == 0);
        fake_release();
        free(bytes);
}

/* What was handed to the engine is stored; the request lives until the engine has come back. */
static void a_client_that_leaves_while_its_object_is_stored(void **state)
{
        int fd = dial();

        fake_set_hold();
        send_put(fd, "/bucket/orphan", "12345", 5);
        EVENTUALLY(fake_held() == 1);
        close(fd);
        sleep_ms(2500); /* the sweep has found out by now */
        assert_int_equal(requests_active(), 1);
        fake_release();
        EVENTUALLY(requests_active() == 0 && connections_open() == 0);
        fd = dial();
        send_signed(fd, "GET", "/bucket/orphan", NULL);
        expect(fd, 200, NULL);
        close(fd);
}

/*
 * Its connection is reset while it is being looked up, before the library could have suspended it.
 * The engine will come back.
 */
static void be_reset_while_asking(void)
{
        struct linger now = {.l_onoff = 1};
        int older = dial(), fd; /* the library looks at the oldest connection first, before events */
        unsigned held = fake_held();

        EVENTUALLY(connections_open() == 1);
        fd = dial();
        send_put(fd, "/bucket/key", "12345", 5);
        expect(fd, 200, NULL);
        fake_set_hold();
        fake.open_stuck = 1;
        send_signed(fd, "GET", "/bucket/key", NULL);
        EVENTUALLY(fake_figure(&fake.open_stuck) == 2);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(fd);
        fake_count(&fake.open_stuck, -2);
        EVENTUALLY(fake_held() == held + 1 && connections_open() == 1);
        assert_int_equal(requests_active(), 1);
        close(older);
}

static void a_client_that_is_reset_while_its_object_is_looked_up(void **state)
{
        int fd;

        be_reset_while_asking();
        EVENTUALLY(site.lines == 2);
        fake_release();
        EVENTUALLY(requests_active() == 0 && fake_figure(&fake.gets_open) == 0);
        fd = dial();
        send_signed(fd, "GET", "/bucket/key", NULL);
        expect(fd, 200, NULL);
        send_signed(fd, "GET", "/bucket/none", NULL);
        expect(fd, 404, "NoSuchKey");
        close(fd);
}

static void a_client_that_leaves_before_its_object_is_found(void **state)
{
        int fd = dial();

        send_put(fd, "/bucket/key", "12345", 5);
        expect(fd, 200, NULL);
        fake_set_hold();
        send_signed(fd, "GET", "/bucket/key", NULL);
        EVENTUALLY(fake_held() == 1);
        close(fd);
        sleep_ms(2500);
        fake_release();
        EVENTUALLY(requests_active() == 0 && connections_open() == 0);
        EVENTUALLY(fake_figure(&fake.gets_open) == 0);
}

static void a_client_that_leaves_while_its_bytes_are_waited_for(void **state)
{
        uint8_t *bytes = pattern(LARGE);
        static const size_t sizes[] = {1000, LARGE};

        for (unsigned i = 0; i < 2; i++) {
                int fd = dial();

                send_put(fd, "/bucket/key", bytes, sizes[i]);
                expect(fd, 200, NULL);
                fake.slow_reads = fake.stall_reads = true;
                send_signed(fd, "GET", "/bucket/key", NULL);
                EVENTUALLY(fake_held() == 1);
                close(fd);
                sleep_ms(2500);
                fake_release();
                EVENTUALLY(requests_active() == 0 && connections_open() == 0);
                EVENTUALLY(fake_figure(&fake.gets_open) == 0);
                fake.slow_reads = fake.stall_reads = false;
        }
        free(bytes);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void slow_heads_are_ended(void **state)
{
        const struct gw_limits limits = {.request_ms = 700, .idle_ms = 60000};
        int fd;

        site_open(&limits);
        fd = dial();
        send_text(fd, "GET /bucket/key HTTP/1.1\r\nHost: h\r\n");
        for (unsigned i = 0; i < 5; i++) {
                sleep_ms(100);
                send_text(fd, "X: 1\r\n");
        }
        assert_true(closed_within(fd, 3000));
        close(fd);
        site_close();
}

static void idle_connections_are_ended(void **state)
{
        const struct gw_limits limits = {.request_ms = 30000, .idle_ms = 1000};
        int quiet, half;

        site_open(&limits);
        quiet = dial();
        half = dial();
        send_signed(half, "PUT", "/bucket/half", "Content-Length: 1000\r\n");
        send_text(half, "some");
        assert_true(closed_within(quiet, 5000));
        assert_true(closed_within(half, 5000));
        EVENTUALLY(fake_figure(&fake.puts_open) == 0);
        close(quiet);
        close(half);
        site_close();
}

/* A refused body that keeps trickling in is not read for ever. */
static void trickling_refused_bodies_are_ended(void **state)
{
        int fd = dial();

        send_signed(fd, "PUT", "/none/key", "Content-Length: 100000\r\n");
        for (unsigned i = 0; i < 40 && !closed_within(fd, 100); i++)
                send_text(fd, "x");
        assert_true(closed_within(fd, 3000));
        close(fd);
}

static void a_full_gateway_takes_no_more_connections(void **state)
{
        const struct gw_limits limits = {.connections = 4};
        int fds[6];

        site_open(&limits);
        for (unsigned i = 0; i < 6; i++)
                fds[i] = dial();
        EVENTUALLY(connections_open() == 4);
        send_signed(fds[0], "GET", "/bucket/none", NULL);
        expect(fds[0], 404, "NoSuchKey");
        close(fds[0]);
        close(fds[1]);
        EVENTUALLY(figures().connections_total == 6);
        send_signed(fds[5], "GET", "/bucket/none", NULL);
        expect(fds[5], 404, "NoSuchKey");
        for (unsigned i = 2; i < 6; i++)
                close(fds[i]);
        site_close();
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void draining_answers_what_runs_and_ends_the_rest(void **state)
{
        struct answer a;
        char value[512];
        int idle = dial(), busy = dial(), late;

        send_put(idle, "/bucket/key", "1", 1);
        expect(idle, 200, NULL);
        fake_set_hold();
        send_put(busy, "/bucket/busy", "22", 2);
        EVENTUALLY(fake_held() == 1);
        gw_drain(site.gw);
        assert_true(closed_within(idle, 3000));
        assert_int_equal(gw_active(site.gw), 1);
        fake_release();
        read_answer(busy, &a, false);
        assert_int_equal(a.status, 200);
        assert_string_equal(answer_header(&a, "Connection", value), "close");
        answer_free(&a);
        assert_true(closed_within(busy, 3000));
        EVENTUALLY(gw_active(site.gw) == 0);
        late = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_not_equal(connect(late,
                                     (struct sockaddr *)&(struct sockaddr_in){.sin_family = AF_INET,
                                                                              .sin_port = htons((uint16_t)site_port),
                                                                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK)},
                                     sizeof(struct sockaddr_in)),
                             0);
        close(late);
        close(idle);
        close(busy);
}

static void other_credentials_count_from_the_next_request(void **state)
{
        const struct gw_credential other = {"OTHER", "secret"}, both[] = {other, {ACCESS_KEY, SECRET_KEY}},
                                   wrong = {ACCESS_KEY, "another secret"};
        int fd = dial();

        send_signed(fd, "GET", "/bucket/none", NULL);
        expect(fd, 404, "NoSuchKey");
        assert_int_equal(gw_credentials_set(site.gw, &other, 1), 0);
        send_signed(fd, "GET", "/bucket/none", NULL);
        expect(fd, 403, "InvalidAccessKeyId");
        assert_int_equal(gw_credentials_set(site.gw, &wrong, 1), 0);
        send_signed(fd, "GET", "/bucket/none", NULL);
        expect(fd, 403, "SignatureDoesNotMatch");
        assert_int_equal(gw_credentials_set(site.gw, both, 2), 0);
        send_signed(fd, "GET", "/bucket/none", NULL);
        expect(fd, 404, "NoSuchKey");
        close(fd);
}

/*
 * Stopped in the middle of everything: no crash, no use of what is gone. The request whose engine
 * never came back is left in memory on purpose.
 */
static void freed_around_running_requests(void **state)
{
        uint8_t *bytes = pattern(20000);
        int a = dial(), b = dial(), c = dial();

        fake.room = 100;
        send_signed(b, "PUT", "/bucket/half", "Content-Length: 1000\r\n");
        send_text(b, "some");
        send_text(c, "GET /bucket/");
        EVENTUALLY(fake_figure(&fake.puts_open) == 1);
        fake_set_hold();
        send_put(a, "/bucket/stuck", bytes, 20000);
        EVENTUALLY(fake_held() == 1);
        site_close();
        close(a);
        close(b);
        close(c);
        free(bytes);
        site_open(NULL);
}

static void freed_around_a_request_without_a_connection(void **state)
{
        be_reset_while_asking();
        site_close();
        site_open(NULL);
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, site_setup, site_teardown)
        const struct CMUnitTest tests[] = {
                ONE(an_upload_waits_for_room),
                ONE(a_chunked_upload_waits_for_room),
                ONE(large_objects_are_streamed),
                ONE(small_objects_are_gathered),
                ONE(small_objects_are_sent_as_they_lie),
                ONE(a_broken_read_ends_the_connection),
                ONE(a_broken_small_read_is_an_error),
                ONE(what_the_engine_says_becomes_the_answer),
                ONE(conditions_are_looked_at_before_the_body),
                ONE(a_client_that_leaves_in_its_body_stores_nothing),
                ONE(a_client_that_leaves_while_its_upload_waits_for_room),
                ONE(a_client_that_leaves_while_its_object_is_stored),
                ONE(a_client_that_leaves_before_its_object_is_found),
                ONE(a_client_that_is_reset_while_its_object_is_looked_up),
                ONE(a_client_that_leaves_while_its_bytes_are_waited_for),
                cmocka_unit_test(slow_heads_are_ended),
                cmocka_unit_test(idle_connections_are_ended),
                ONE(trickling_refused_bodies_are_ended),
                cmocka_unit_test(a_full_gateway_takes_no_more_connections),
                ONE(draining_answers_what_runs_and_ends_the_rest),
                ONE(other_credentials_count_from_the_next_request),
                ONE(freed_around_running_requests),
                ONE(freed_around_a_request_without_a_connection),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
