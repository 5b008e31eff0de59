/*
 * Bodies that are refused while they come in, slow peers while others wait for buffers, and the
 * bounds of what is held in memory. Over the fake engine, on raw sockets.
 */
#include <stdatomic.h>

#include "tests/unit/gateway/gateway_fixture.h"

/* ---- refused in the middle ------------------------------------------------------------------- */

static const struct s3_header unsigned_trailer[] = {
        {S3_STR("x-amz-content-sha256"), S3_STR(S3_STREAMING_UNSIGNED_TRAILER)},
        {S3_STR("x-amz-decoded-content-length"), S3_STR("50000000")},
};

/*
 * More is to come than is read and dropped: the answer is written past the library, and arrives
 * although the client sends on.
 */
static void a_long_body_refused_midway_gets_its_answer(void **state)
{
        char head[8192], *rest = calloc(1, 3 << 20);
        int fd = dial();

        send_all(fd, head, signed_head(head, sizeof(head), "PUT", "/bucket/key", unsigned_trailer, 2,
                                       "Content-Length: 60000000\r\nContent-Encoding: aws-chunked\r\n"));
        send_text(fd, "5\r\nhello\r\nthis is no chunk\r\n");
        send_all(fd, rest, 3 << 20);
        expect(fd, 400, "IncompleteBody");
        assert_true(closed_within(fd, 5000));
        EVENTUALLY(fake_figure(&fake.puts_open) == 0);
        assert_int_equal(fake.commits, 0);
        free(rest);
        close(fd);
}

/* Little is to come: it is dropped, and the connection stays. */
static void a_short_body_refused_midway_keeps_its_connection(void **state)
{
        char head[8192];
        int fd = dial();

        send_all(fd, head, signed_head(head, sizeof(head), "PUT", "/bucket/key", unsigned_trailer, 2,
                                       "Content-Length: 38\r\nContent-Encoding: aws-chunked\r\n"));
        send_text(fd, "5\r\nhello\r\n");
        sleep_ms(20);
        send_text(fd, "this is no chunk\r\n");
        sleep_ms(20);
        send_text(fd, "0123456789");
        expect(fd, 400, "IncompleteBody");
        send_signed(fd, "GET", "/bucket", NULL);
        expect(fd, 200, NULL);
        close(fd);
}

/* A refused body in HTTP's chunks has no announced end: it is dropped up to a bound. */
static void endless_refused_bodies_are_answered_and_cut(void **state)
{
        char *piece = calloc(1, 1 << 20);
        int fd = dial();

        send_signed(fd, "PUT", "/none/key", "Transfer-Encoding: chunked\r\n");
        for (unsigned i = 0; i < 12; i++) {
                send_text(fd, "100000\r\n");
                send_all(fd, piece, 1 << 20);
                send_text(fd, "\r\n");
        }
        expect(fd, 404, "NoSuchBucket");
        assert_true(closed_within(fd, 5000));
        free(piece);
        close(fd);
}

/* Nobody asked for it, and it has no announced end. */
static void endless_bodies_without_a_use_are_refused(void **state)
{
        char head[8192], *piece = calloc(1, 1 << 20);
        int fd = dial();

        /* Chunks of aws-chunked in those of HTTP, with no length of either. */
        send_all(fd, head, signed_head(head, sizeof(head), "GET", "/bucket", unsigned_trailer, 1,
                                       "Transfer-Encoding: chunked\r\nContent-Encoding: aws-chunked\r\n"));
        for (unsigned i = 0; i < 9; i++) {
                send_text(fd, "10000a\r\n100000\r\n");
                send_all(fd, piece, 1 << 20);
                send_text(fd, "\r\n\r\n");
        }
        send_text(fd, "0\r\n\r\n");
        expect(fd, 400, "EntityTooLarge");
        free(piece);
        close(fd);
}

static void a_write_that_fails_midway_is_answered(void **state)
{
        char *bytes = calloc(1, 100000);
        int fd = dial();

        fake.write_rv = -ENOSPC;
        send_put(fd, "/bucket/key", bytes, 100000);
        expect(fd, 507, NULL);
        fake.write_rv = -EAGAIN;
        send_put(fd, "/bucket/key", bytes, 100000);
        expect(fd, 503, "SlowDown");
        fake.write_rv = 0;
        send_put(fd, "/bucket/key", bytes, 100000);
        expect(fd, 200, NULL);
        EVENTUALLY(fake_figure(&fake.puts_open) == 0);
        assert_int_equal(fake.commits, 1);
        free(bytes);
        close(fd);
}

/* ---- checksums ------------------------------------------------------------------------------- */

static void checksums_are_one_and_where_announced(void **state)
{
        const struct s3_header both[] = {
                unsigned_trailer[0],
                {S3_STR("x-amz-trailer"), S3_STR("x-amz-checksum-crc32")},
                {S3_STR("x-amz-checksum-crc32c"), S3_STR("AAAAAA==")},
        };
        const struct s3_header absent[] = {both[0], both[1], {S3_STR("x-amz-decoded-content-length"), S3_STR("5")}};
        const struct s3_header plain[] = {both[1]};
        const char *more = "Content-Length: 15\r\nContent-Encoding: aws-chunked\r\n";
        char head[8192];
        int fd = dial();

        send_all(fd, head, signed_head(head, sizeof(head), "PUT", "/bucket/key", both, 3, more));
        send_text(fd, "5\r\nhello\r\n0\r\n\r\n");
        expect(fd, 400, "InvalidRequest");
        send_all(fd, head, signed_head(head, sizeof(head), "PUT", "/bucket/key", absent, 3, more));
        send_text(fd, "5\r\nhello\r\n0\r\n\r\n");
        expect(fd, 400, "MalformedTrailerError");
        send_all(fd, head, signed_head(head, sizeof(head), "PUT", "/bucket/key", plain, 1, "Content-Length: 5\r\n"));
        send_text(fd, "hello");
        expect(fd, 400, "MalformedTrailerError");
        assert_int_equal(fake.commits, 0);
        close(fd);
}

/* ---- documents ------------------------------------------------------------------------------- */

static void documents_are_bounded(void **state)
{
        const struct gw_limits small = {.upload_memory = 1000};
        char text[2048];
        int fd = dial();

        send_signed(fd, "POST", "/bucket?delete", "Content-Length: 9000000\r\nExpect: 100-continue\r\n");
        expect(fd, 400, "MaxMessageLengthExceeded");
        close(fd);
        site_close();

        site_open(&small);
        fd = dial();
        memset(text, ' ', sizeof(text));
        memcpy(text, "<Delete>", 8);
        send_signed(fd, "POST", "/bucket?delete", "Content-Length: 2048\r\nContent-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\r\n");
        send_all(fd, text, sizeof(text));
        expect(fd, 503, "SlowDown");
        assert_int_equal(figures().upload_memory_used, 0);
        close(fd);
}

/* ---- slow peers while others wait ------------------------------------------------------------ */

/*
 * Takes all of a share, and stands in line for more, so that others are held up. Used on the loop.
 */
static struct {
        struct lp_msg msg;
        struct lp_reserve all, more;
        enum lp_share share;
        atomic_bool held;
} crowd;

static void crowd_granted(struct lp_reserve *r)
{
}

static void crowd_in(struct lp_msg *msg)
{
        crowd.all = (struct lp_reserve){.count = lp_share_slots(site.loop, crowd.share), .share = crowd.share,
                                        .granted = crowd_granted};
        crowd.more = (struct lp_reserve){.count = 1, .share = crowd.share, .granted = crowd_granted};
        assert_int_equal(lp_reserve(site.loop, &crowd.all), 0);
        assert_int_equal(lp_reserve(site.loop, &crowd.more), -EAGAIN);
        atomic_store(&crowd.held, true);
}

static void crowd_out(struct lp_msg *msg)
{
        lp_reserve_cancel(site.loop, &crowd.more);
        lp_unreserve(site.loop, crowd.share, crowd.all.count);
        atomic_store(&crowd.held, false);
}

static void crowd_set(bool held, enum lp_share share)
{
        crowd.share = share;
        crowd.msg.run = held ? crowd_in : crowd_out;
        lp_post(site.loop, &crowd.msg);
        EVENTUALLY(atomic_load(&crowd.held) == held);
}

/* A client that has not read its answer yet is not reset for what it sends meanwhile. */
static void goes_on_sending(int fd)
{
        for (unsigned i = 0; i < 30; i++) {
                if (send(fd, "x", 1, MSG_NOSIGNAL) != 1)
                        fail_msg("reset after %u bytes: %s", i, strerror(errno));
                sleep_ms(100);
        }
}

/*
 * Refused by its head, and slower than anybody would wait for it: the answer comes all the same,
 * and the rest of the body is taken.
 */
static void a_slow_refused_upload_gets_its_answer(void **state)
{
        struct pollfd p = {.events = POLLIN};
        int fd = dial();

        p.fd = fd;
        send_signed(fd, "PUT", "/none/key", "Content-Length: 100000\r\n");
        for (unsigned i = 0; i < 100 && poll(&p, 1, 100) == 0; i++)
                send_text(fd, "x");
        goes_on_sending(fd);
        expect(fd, 404, "NoSuchBucket");
        assert_true(closed_within(fd, 3000));
        close(fd);
}

static void a_trickling_upload_is_ended_while_others_wait(void **state)
{
        int fast = dial(), slow = dial();
        char *piece = calloc(1, 64 << 10);
        struct pollfd p = {.fd = slow, .events = POLLIN};
        unsigned rounds;

        send_signed(fast, "PUT", "/bucket/fast", "Content-Length: 6553600\r\n");
        send_signed(slow, "PUT", "/bucket/slow", "Content-Length: 6553600\r\n");
        crowd_set(true, LP_SHARE_PUT);
        for (rounds = 0; rounds < 100; rounds++) {
                send_all(fast, piece, 64 << 10);
                if (poll(&p, 1, 100) == 0)
                        send_text(slow, "x");
        }
        expect(slow, 400, "RequestTimeout");
        goes_on_sending(slow);
        expect(fast, 200, NULL);
        crowd_set(false, LP_SHARE_PUT);
        free(piece);
        close(fast);
        close(slow);
}

static void a_trickling_reader_is_ended_while_others_wait(void **state)
{
        size_t size = 30 << 20, got = 0;
        char *bytes = calloc(1, size);
        struct timespec pause = {0, 100000000};
        int fd = dial();

        send_put(fd, "/bucket/large", bytes, size);
        expect(fd, 200, NULL);
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
        crowd_set(true, LP_SHARE_GET);
        send_signed(fd, "GET", "/bucket/large", NULL);
        EVENTUALLY(fake_figure(&fake.gets_open) == 1);
        for (unsigned i = 0; i < 120 && fake_figure(&fake.gets_open) > 0; i++) {
                ssize_t n = recv(fd, bytes, 100, MSG_DONTWAIT);

                got += n > 0 ? (size_t)n : 0;
                nanosleep(&pause, NULL);
        }
        assert_int_equal(fake_figure(&fake.gets_open), 0);
        assert_true(got < size);
        crowd_set(false, LP_SHARE_GET);
        free(bytes);
        close(fd);
}

/* Of small segments, so that the kernel takes little of an answer that is not read. */
static int dial_narrow(void)
{
        struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)site_port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        setsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &(int){88}, sizeof(int));
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &(int){4096}, sizeof(int));
        assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        return fd;
}

#define STRANGERS 40
#define IN_A_ROW  8 /* the first answers fill the buffers of the kernel */

/*
 * What they are told repeats what they sent, and grows as it is quoted: they do not read it. Who
 * signs is answered all the same.
 */
static void strangers_hold_little_of_the_answers_memory(void **state)
{
        const struct gw_limits small = {.answer_memory = 1 << 20};
        int strangers[STRANGERS], fd;
        char path[12401];

        site_close();
        site_open(&small);
        memset(path, '&', sizeof(path) - 1);
        path[sizeof(path) - 1] = '\0';
        for (unsigned i = 0; i < STRANGERS; i++) {
                strangers[i] = dial_narrow();
                for (unsigned r = 0; r < IN_A_ROW; r++) {
                        send_text(strangers[i], "GET /bucket/");
                        send_text(strangers[i], path);
                        send_text(strangers[i], " HTTP/1.1\r\nHost: here\r\n\r\n");
                }
        }
        EVENTUALLY(figures().requests_total > STRANGERS && figures().answer_memory_used > 0);
        sleep_ms(100);
        assert_true(figures().answer_memory_used <= (1 << 20) / 8);
        fd = dial();
        send_signed(fd, "GET", "/bucket?list-type=2&max-keys=600", NULL); /* takes most of the rest */
        expect(fd, 200, NULL);
        close(fd);
        for (unsigned i = 0; i < STRANGERS; i++)
                close(strangers[i]);
        EVENTUALLY(figures().answer_memory_used == 0);
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, site_setup, site_teardown)
        const struct CMUnitTest tests[] = {
                ONE(a_long_body_refused_midway_gets_its_answer),
                ONE(a_short_body_refused_midway_keeps_its_connection),
                ONE(endless_refused_bodies_are_answered_and_cut),
                ONE(endless_bodies_without_a_use_are_refused),
                ONE(a_write_that_fails_midway_is_answered),
                ONE(checksums_are_one_and_where_announced),
                ONE(documents_are_bounded),
                ONE(a_slow_refused_upload_gets_its_answer),
                ONE(a_trickling_upload_is_ended_while_others_wait),
                ONE(a_trickling_reader_is_ended_while_others_wait),
                ONE(strangers_hold_little_of_the_answers_memory),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
