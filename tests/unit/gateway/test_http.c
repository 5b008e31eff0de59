/*
 * gateway/http/http.c and head.c over real sockets: connections that are kept, requests in a row,
 * "100 Continue", refusals before and behind a body, and everything that could make two parties see
 * different requests in the same bytes.
 */
#include "tests/unit/gateway/gateway_fixture.h"

static unsigned lines_logged(void)
{
        unsigned n;

        pthread_mutex_lock(&site.lock);
        n = site.lines;
        pthread_mutex_unlock(&site.lock);
        return n;
}

/* ---- the plain way --------------------------------------------------------------------------- */

static void objects_come_and_go(void **state)
{
        struct answer a;
        char value[512];
        int fd = dial();

        send_put(fd, "/bucket/key", "hello", 5);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        assert_string_equal(answer_header(&a, "ETag", value), "\"5d41402abc4b2a76b9719d911017c592\"");
        assert_non_null(answer_header(&a, "x-amz-request-id", value));
        assert_non_null(answer_header(&a, "x-amz-id-2", value));
        assert_non_null(answer_header(&a, "Date", value));
        assert_string_equal(answer_header(&a, "x-amz-checksum-crc64nvme", value), "M3eFcAZSQlc=");
        answer_free(&a);

        send_signed(fd, "GET", "/bucket/key", NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 200);
        assert_int_equal(a.body_len, 5);
        assert_memory_equal(a.body, "hello", 5);
        assert_string_equal(answer_header(&a, "Content-Type", value), "binary/octet-stream");
        assert_string_equal(answer_header(&a, "x-millrace-crc32c", value), "mnG7TA==");
        answer_free(&a);

        send_signed(fd, "HEAD", "/bucket/key", NULL);
        read_answer(fd, &a, true);
        assert_int_equal(a.status, 200);
        assert_string_equal(answer_header(&a, "Content-Length", value), "5");
        send_signed(fd, "DELETE", "/bucket/key", NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 204);
        send_signed(fd, "GET", "/bucket/key", NULL);
        expect(fd, 404, "NoSuchKey");
        send_signed(fd, "HEAD", "/bucket/key", NULL);
        read_answer(fd, &a, true);
        assert_int_equal(a.status, 404);
        close(fd);
}

static void metadata_comes_back_also_when_empty(void **state)
{
        const struct s3_header amz[] = {
                {S3_STR("x-amz-meta-empty"), S3_STR("")},
                {S3_STR("x-amz-meta-Full"), S3_STR("a  b")},
        };
        char head[8192], value[512];
        struct answer a;
        int fd = dial();

        send_all(fd, head, signed_head(head, sizeof(head), "PUT", "/bucket/meta", amz, 2, "Content-Length: 0\r\n"));
        expect(fd, 200, NULL);
        send_signed(fd, "HEAD", "/bucket/meta", NULL);
        read_answer(fd, &a, true);
        assert_non_null(answer_header(&a, "x-amz-meta-empty", value));
        assert_int_equal(strspn(value, " "), strlen(value));
        assert_string_equal(answer_header(&a, "x-amz-meta-full", value), "a  b");
        close(fd);
}

static void requests_in_a_row_are_answered_in_order(void **state)
{
        char text[3 * 2048];
        size_t len = 0;
        int fd = dial();
        struct answer a;

        send_put(fd, "/bucket/one", "1", 1);
        expect(fd, 200, NULL);
        send_put(fd, "/bucket/two", "22", 2);
        expect(fd, 200, NULL);
        len += signed_head(text + len, sizeof(text) - len, "GET", "/bucket/two", NULL, 0, NULL);
        len += signed_head(text + len, sizeof(text) - len, "GET", "/bucket/none", NULL, 0, NULL);
        len += signed_head(text + len, sizeof(text) - len, "GET", "/bucket/one", NULL, 0, NULL);
        send_all(fd, text, len);
        read_answer(fd, &a, false);
        assert_int_equal(a.body_len, 2);
        answer_free(&a);
        expect(fd, 404, "NoSuchKey");
        read_answer(fd, &a, false);
        assert_int_equal(a.body_len, 1);
        answer_free(&a);
        close(fd);
}

/* What is known here of buckets may be old: it is not said. */
static void without_a_lease_nothing_is_said(void **state)
{
        struct answer a;
        int fd = dial();

        fake.old = true;
        send_signed(fd, "HEAD", "/no-such-bucket", NULL);
        read_answer(fd, &a, true);
        assert_int_equal(a.status, 503);
        answer_free(&a);
        send_signed(fd, "GET", "/no-such-bucket/key", NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.status, 503);
        assert_non_null(strstr(a.body, "<Code>ServiceUnavailable</Code>"));
        assert_null(strstr(a.body, "NoSuchBucket"));
        answer_free(&a);
        fake.old = false;
        send_signed(fd, "HEAD", "/no-such-bucket", NULL);
        read_answer(fd, &a, true);
        assert_int_equal(a.status, 404);
        answer_free(&a);
        close(fd);
}

static void every_answer_is_accounted_for(void **state)
{
        struct gw_stats stats;
        unsigned puts = 0;
        int fd = dial();

        send_put(fd, "/bucket/logged", "12345", 5);
        expect(fd, 200, NULL);
        send_signed(fd, "GET", "/bucket/none", NULL);
        expect(fd, 404, "NoSuchKey");
        EVENTUALLY(lines_logged() == 2);
        pthread_mutex_lock(&site.lock);
        assert_string_equal(site.last_operation, "GetObject");
        assert_string_equal(site.last_error, "NoSuchKey");
        assert_int_equal(site.last.status, 404);
        pthread_mutex_unlock(&site.lock);
        gw_stats_read(site.gw, &stats);
        for (unsigned i = 0; i < stats.operations; i++) {
                if (strcmp(stats.op[i].operation, "PutObject") == 0) {
                        puts = (unsigned)stats.op[i].by_status[2];
                        assert_int_equal(stats.op[i].bytes_in, 5);
                }
        }
        assert_int_equal(puts, 1);
        assert_int_equal(stats.requests_total, 2);
        assert_int_equal(lp_histogram_count(&stats.stage[GW_STAGE_HEAD]), 2);
        assert_int_equal(lp_histogram_count(&stats.stage[GW_STAGE_PARSE]), 2);
        assert_int_equal(lp_histogram_count(&stats.stage[GW_STAGE_AUTHENTICATE]), 2);
        assert_int_equal(lp_histogram_count(&stats.stage[GW_STAGE_LOOK]), 2);
        assert_int_equal(lp_histogram_count(&stats.stage[GW_STAGE_BODY]), 1);
        assert_int_equal(lp_histogram_count(&stats.stage[GW_STAGE_WORK]), 2);
        assert_int_equal(lp_histogram_count(&stats.stage[GW_STAGE_SEND]), 2);
        assert_int_equal(lp_histogram_count(&stats.step[GW_STEP_CHECKSUMS]), 1);
        assert_int_equal(lp_histogram_count(&stats.step[GW_STEP_CHUNKS]), 0);
        assert_int_equal(stats.connections_open, 1);
        close(fd);
        EVENTUALLY(connections_open() == 0);
}

/* ---- 100 Continue and refusals --------------------------------------------------------------- */

static void continue_is_sent_when_the_body_is_wanted(void **state)
{
        int fd = dial();

        send_signed(fd, "PUT", "/bucket/key", "Content-Length: 4\r\nExpect: 100-continue\r\n");
        expect(fd, 100, NULL);
        send_text(fd, "body");
        expect(fd, 200, NULL);
        send_signed(fd, "GET", "/bucket/key", NULL);
        expect(fd, 200, NULL);
        close(fd);
}

static void continue_is_not_sent_when_refused(void **state)
{
        static const struct {
                const char *target;
                unsigned status;
                const char *code;
        } cases[] = {{"/none/key", 404, "NoSuchBucket"}, {"/BAD_NAME/key", 400, "InvalidBucketName"}};

        for (unsigned i = 0; i < 2; i++) {
                int fd = dial();

                send_signed(fd, "PUT", cases[i].target, "Content-Length: 1000000\r\nExpect: 100-continue\r\n");
                expect(fd, cases[i].status, cases[i].code);
                assert_true(closed_within(fd, 5000));
                close(fd);
        }
        assert_int_equal(fake.puts_open, 0);
}

static void small_refused_bodies_are_dropped_and_the_connection_kept(void **state)
{
        char *body = calloc(1, 1 << 20);
        int fd = dial();

        send_put(fd, "/none/key", body, 1 << 20);
        expect(fd, 404, "NoSuchBucket");
        send_put(fd, "/bucket/key", "x", 1);
        expect(fd, 200, NULL);
        free(body);
        close(fd);
}

/* The client goes on sending while it should read: the answer must arrive all the same. */
static void large_refused_bodies_get_their_answer_and_the_connection_ends(void **state)
{
        char *body = calloc(1, 4 << 20);
        int fd = dial();

        send_signed(fd, "PUT", "/none/key", "Content-Length: 100000000\r\n");
        send_all(fd, body, 4 << 20);
        expect(fd, 404, "NoSuchBucket");
        free(body);
        close(fd);
}

static void nothing_is_stored_on_a_bad_digest(void **state)
{
        int fd = dial();

        send_signed(fd, "PUT", "/bucket/bad", "Content-Length: 5\r\nContent-MD5: 1B2M2Y8AsgTpgAmY7PhCfg==\r\n");
        send_text(fd, "hello");
        expect(fd, 400, "BadDigest");
        send_signed(fd, "PUT", "/bucket/bad", "Content-Length: 5\r\nContent-MD5: nonsense\r\n");
        send_text(fd, "hello");
        expect(fd, 400, "InvalidDigest");
        send_signed(fd, "GET", "/bucket/bad", NULL);
        expect(fd, 404, "NoSuchKey");
        EVENTUALLY(fake_figure(&fake.puts_open) == 0);
        assert_int_equal(fake.commits, 0);
        close(fd);
}

static void lengths_of_bodies_are_checked(void **state)
{
        int fd = dial();

        send_signed(fd, "PUT", "/bucket/key", NULL);
        expect(fd, 411, "MissingContentLength");
        send_signed(fd, "PUT", "/bucket/key", "Content-Length: 5368709121\r\nExpect: 100-continue\r\n");
        expect(fd, 400, "EntityTooLarge");
        close(fd);
        fd = dial();
        send_signed(fd, "GET", "/bucket/key", "Content-Length: 1000000000\r\n"); /* a body nobody asked for */
        expect(fd, 400, NULL);
        close(fd);
}

#define AWS_CHUNKS "Transfer-Encoding: chunked\r\nContent-Encoding: aws-chunked\r\n"

static void aws_chunks_need_no_length(void **state)
{
        struct answer a;
        int fd = dial();

        send_signed(fd, "PUT", "/bucket/chunked", AWS_CHUNKS);
        send_text(fd, "6\r\n5\r\nabc\r\n");
        sleep_ms(20);
        send_text(fd, "9;ext=1\r\nde\r\n0\r\n\r\n\r\n0\r\n\r\n");
        expect(fd, 200, NULL);
        assert_true(closed_within(fd, 3000)); /* what follows a chunked body may be another's idea of its middle */
        close(fd);
        fd = dial();
        send_signed(fd, "GET", "/bucket/chunked", NULL);
        read_answer(fd, &a, false);
        assert_int_equal(a.body_len, 5);
        assert_memory_equal(a.body, "abcde", 5);
        answer_free(&a);
        close(fd);
}

/* As AWS: HTTP's chunks carry aws-chunked, and never an object's bytes as they are. */
static void plain_chunks_are_not_implemented(void **state)
{
        static const char *const targets[] = {"/bucket/plain", "/bucket/plain?partNumber=1&uploadId=000102030405060708090a0b0c0d0e0f"};
        int fd;

        fake.upload_rv = 0;
        fd = dial();
        send_signed(fd, "POST", "/bucket/plain?uploads", NULL);
        expect(fd, 200, NULL);
        close(fd);
        for (size_t i = 0; i < sizeof(targets) / sizeof(targets[0]); i++) {
                struct answer a;

                fd = dial();
                send_signed(fd, "PUT", targets[i], "Transfer-Encoding: chunked\r\n");
                send_text(fd, "5\r\nhello\r\n0\r\n\r\n");
                read_answer(fd, &a, false);
                assert_int_equal(a.status, 501);
                assert_non_null(strstr(a.body, "<Code>NotImplemented</Code>"));
                assert_non_null(strstr(a.body, "<Header>Transfer-Encoding</Header>"));
                answer_free(&a);
                assert_true(closed_within(fd, 3000));
                close(fd);
        }
        assert_int_equal(fake_figure(&fake.puts_open), 0);
        assert_int_equal(fake.commits, 0);
}

/* aws-chunked within chunked, the border of HTTP's chunks at every place. */
static void framings_are_told_apart_wherever_they_are_cut(void **state)
{
        static const char body[] = "5\r\nhello\r\n0\r\nx-amz-checksum-crc32:NhCmhg==\r\n\r\n";
        const struct s3_header amz[] = {
                {S3_STR("x-amz-content-sha256"), S3_STR(S3_STREAMING_UNSIGNED_TRAILER)},
                {S3_STR("x-amz-trailer"), S3_STR("x-amz-checksum-crc32")},
        };
        size_t len = sizeof(body) - 1;
        char value[512];

        for (size_t cut = 1; cut < len; cut++) {
                char head[8192], piece[256];
                struct answer a;
                int fd = dial();

                send_all(fd, head, signed_head(head, sizeof(head), "PUT", "/bucket/cut", amz, 2,
                                               "Transfer-Encoding: chunked\r\nContent-Encoding: aws-chunked\r\n"));
                send_all(fd, piece, (size_t)snprintf(piece, sizeof(piece), "%zx\r\n%.*s\r\n%zx\r\n%s\r\n0\r\n\r\n", cut,
                                                     (int)cut, body, len - cut, body + cut));
                read_answer(fd, &a, false);
                if (a.status != 200)
                        fail_msg("cut at %zu: %s", cut, a.body);
                assert_string_equal(answer_header(&a, "x-amz-checksum-crc32", value), "NhCmhg==");
                assert_string_equal(answer_header(&a, "ETag", value), "\"5d41402abc4b2a76b9719d911017c592\"");
                answer_free(&a);
                close(fd);
        }
}

/* Lines of chunks end in CR LF. One that does not is refused, and nothing is stored. */
static void chunks_with_a_lone_lf(void **state)
{
        static const char *const bodies[] = {
                "f\n5\r\nhello\r\n0\r\n\r\n\r\n0\r\n\r\n",
                "f;x=y\n5\r\nhello\r\n0\r\n\r\n\r\n0\r\n\r\n",
                "5\r\n5\r\nhe\na\r\nllo\r\n0\r\n\r\n\r\n0\r\n\r\n",
                "5\r\n5\r\nhe\r\na\nllo\r\n0\r\n\r\n\r\n0\r\n\r\n",
        };

        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
                int fd = dial();

                send_signed(fd, "PUT", "/bucket/lf", AWS_CHUNKS);
                send_text(fd, bodies[i]);
                expect(fd, 400, "BadRequest");
                assert_true(closed_within(fd, 3000));
                close(fd);
        }
        assert_int_equal(fake.commits, 0);
}

/*
 * However the pieces of a right body come, none of its lines is taken for a wrong one; nor are line
 * ends within the data.
 */
static void chunks_that_come_in_pieces(void **state)
{
        static const char body[] = "6\r\n9\r\na\nb\r\n1;x\r\n\n\r\n1\r\n\r\r\n4\r\n\r\n\n\n\r\n7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n";

        for (size_t step = 1; step < sizeof(body); step++) {
                int fd = dial();

                send_signed(fd, "PUT", "/bucket/pieces", AWS_CHUNKS);
                for (size_t at = 0; at < sizeof(body) - 1; at += step) {
                        size_t left = sizeof(body) - 1 - at;

                        send_all(fd, body + at, step < left ? step : left);
                        if (at % 3 == 0)
                                sleep_ms(2);
                }
                expect(fd, 200, NULL);
                close(fd);
        }
}

/* ---- one request and no other ---------------------------------------------------------------- */

#define TAIL "Authorization: none\r\n\r\n"

static void doubtful_requests_end_the_connection(void **state)
{
        static const char *const heads[] = {
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 4\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length: 4, 4\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length: +4\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length: -4\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length: 0x4\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n",
                "PUT /bucket/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
                "PUT /bucket/k HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\n" TAIL,
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nHost: i\r\n" TAIL,
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nHost: h\r\n" TAIL,
                "GET /bucket/k HTTP/1.1\r\nHost:\r\n" TAIL,
                "GET /bucket/k HTTP/1.1\r\nHost: user@h\r\n" TAIL,
                "GET /bucket/k HTTP/1.1\r\nHost: h/b\r\n" TAIL,
                "GET http://i/bucket/k HTTP/1.1\r\nHost: h\r\n" TAIL,
                "GET http://h:80/bucket/k HTTP/1.1\r\nHost: h\r\n" TAIL,
                "GET http://h/bucket/k HTTP/1.0\r\n" TAIL,
                "OPTIONS http://i/bucket/k HTTP/1.1\r\nHost: h\r\nOrigin: o\r\nAccess-Control-Request-Method: GET\r\n" TAIL,
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length : 4\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length\t: 4\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nX-(: 4\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\n: empty name\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nX-A: one\r\n two\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nX-A: one\rtwo\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\nHost: h\r\nX-A: one\x01two\r\n\r\n",
                "GET /bucket/k HTTP/1.1\r\nHost: h\nContent-Length: 4\r\n\r\n",
                "GET /bucket/k HTTP/1.1\nHost: h\n\n",
                "GET /bucket/k HTTP/2.0\r\nHost: h\r\n\r\n",
                "GET /bucket/k HTTP/1.2x\r\nHost: h\r\n\r\n",
        };

        for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
                static const char second[] = "GET /second HTTP/1.1\r\nHost: second\r\n\r\n";
                uint64_t before = figures().requests_total;
                struct answer a;
                int fd = dial();

                send_text(fd, heads[i]);
                send_text(fd, second);
                read_answer(fd, &a, false);
                answer_free(&a);
                if (a.status != 0 && a.status < 400)
                        fail_msg("accepted: %s", heads[i]);
                /*
                 * Where the library answers by itself it may write its head twice (Content-Length:
                 * 4, 4); still one request.
                 */
                if (!closed_within(fd, 3000) || figures().requests_total > before + 1)
                        fail_msg("a second request was seen behind: %s", heads[i]);
                close(fd);
        }
}

static void zero_bytes_are_refused(void **state)
{
        static const struct {
                const char *text;
                size_t len;
        } heads[] = {
#define HEAD(text) {text, sizeof(text) - 1}
                HEAD("GET /bucket/k\0x HTTP/1.1\r\nHost: h\r\n\r\n"),
                HEAD("GET /bucket/k HTTP/1.1\r\nHost: h\0i\r\n\r\n"),
                HEAD("GET /bucket/k HTTP/1.1\r\nHost: h\r\nX-A: 1\0\r\n\r\n"),
                HEAD("GET /bucket/k HTTP/1.1\r\nHost: h\r\nX\0A: 1\r\n\r\n"),
                HEAD("PUT /bucket/k HTTP/1.1\r\nHost: h\r\nContent-Length: 4\0000\r\n\r\n"),
#undef HEAD
        };

        for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
                struct answer a;
                int fd = dial();

                send_all(fd, heads[i].text, heads[i].len);
                read_answer(fd, &a, false);
                answer_free(&a);
                if (a.status != 0 && a.status != 400)
                        fail_msg("head %u: %u", i, a.status);
                assert_true(closed_within(fd, 3000));
                close(fd);
        }
}

static void heads_too_large_are_refused(void **state)
{
        char *text = malloc(200000);
        struct answer a;
        size_t len;
        int fd = dial();

        len = (size_t)sprintf(text, "GET /bucket/");
        memset(text + len, 'k', 100000);
        len += 100000;
        len += (size_t)sprintf(text + len, " HTTP/1.1\r\nHost: h\r\n\r\n");
        send_all(fd, text, len);
        read_answer(fd, &a, false);
        assert_true(a.status == 0 || (a.status >= 400 && a.status < 500));
        answer_free(&a);
        assert_true(closed_within(fd, 3000));
        close(fd);

        fd = dial();
        len = (size_t)sprintf(text, "GET /bucket/k HTTP/1.1\r\nHost: h\r\n");
        for (unsigned i = 0; i < 150; i++)
                len += (size_t)sprintf(text + len, "X-%u: 1\r\n", i);
        len += (size_t)sprintf(text + len, "\r\n");
        send_all(fd, text, len);
        expect(fd, 400, "RequestHeaderSectionTooLarge");
        close(fd);
        free(text);
}

static void unknown_methods_and_strangers_are_refused(void **state)
{
        int fd = dial();

        send_signed(fd, "PATCH", "/bucket/key", NULL);
        expect(fd, 405, "MethodNotAllowed");
        send_text(fd, "OPTIONS /bucket/key HTTP/1.1\r\nHost: h\r\nOrigin: http://x\r\nAccess-Control-Request-Method: GET\r\n\r\n");
        expect(fd, 403, "AccessForbidden");
        send_text(fd, "GET /bucket/key HTTP/1.1\r\nHost: h\r\n\r\n");
        expect(fd, 403, "AccessDenied");
        send_text(fd, "GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        expect(fd, 403, "AccessDenied");
        send_text(fd, "GET /%zz HTTP/1.1\r\nHost: h\r\n\r\n");
        expect(fd, 400, "InvalidURI");
        send_signed(fd, "PUT", "/bucket/key?encryption", "Content-Length: 0\r\n");
        expect(fd, 501, "NotImplemented");
        close(fd);
}

/* The library's own loop once stood still when exactly this many were ready at a time. */
static void many_connections_at_once(void **state)
{
        static const unsigned counts[] = {128, 256, 384};
        int fds[384];

        for (unsigned c = 0; c < 3; c++) {
                char head[2048];
                size_t len = signed_head(head, sizeof(head), "GET", "/bucket/none", NULL, 0, NULL);

                for (unsigned i = 0; i < counts[c]; i++)
                        fds[i] = dial();
                EVENTUALLY(connections_open() == counts[c]);
                for (unsigned round = 0; round < 5; round++) {
                        for (unsigned i = 0; i < counts[c]; i++)
                                send_all(fds[i], head, len);
                        for (unsigned i = 0; i < counts[c]; i++)
                                expect(fds[i], 404, "NoSuchKey");
                }
                for (unsigned i = 0; i < counts[c]; i++)
                        close(fds[i]);
                EVENTUALLY(connections_open() == 0);
        }
}

int main(void)
{
#define ONE(name) cmocka_unit_test_setup_teardown(name, site_setup, site_teardown)
        const struct CMUnitTest tests[] = {
                ONE(objects_come_and_go),
                ONE(metadata_comes_back_also_when_empty),
                ONE(requests_in_a_row_are_answered_in_order),
                ONE(without_a_lease_nothing_is_said),
                ONE(every_answer_is_accounted_for),
                ONE(continue_is_sent_when_the_body_is_wanted),
                ONE(continue_is_not_sent_when_refused),
                ONE(small_refused_bodies_are_dropped_and_the_connection_kept),
                ONE(large_refused_bodies_get_their_answer_and_the_connection_ends),
                ONE(nothing_is_stored_on_a_bad_digest),
                ONE(lengths_of_bodies_are_checked),
                ONE(aws_chunks_need_no_length),
                ONE(plain_chunks_are_not_implemented),
                ONE(framings_are_told_apart_wherever_they_are_cut),
                ONE(chunks_with_a_lone_lf),
                ONE(chunks_that_come_in_pieces),
                ONE(doubtful_requests_end_the_connection),
                ONE(zero_bytes_are_refused),
                ONE(heads_too_large_are_refused),
                ONE(unknown_methods_and_strangers_are_refused),
                ONE(many_connections_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
