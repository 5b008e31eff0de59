/*
 * client_fixture.h - a client of raw sockets that can sign, and waiting for conditions.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "loop.h"
#include "s3.h"
#include "tests/lib/wait.h"

/* Not every program uses every piece. */
#pragma GCC diagnostic ignored "-Wunused-function"

#define ACCESS_KEY "AKIDEXAMPLE"
#define SECRET_KEY "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define ANSWER_MAX (8u << 20)

static int site_port; /* that requests go to */
static const char *site_access = ACCESS_KEY, *site_secret = SECRET_KEY; /* of what is signed */
static const char *site_region = "us-east-1"; /* of the next site_open(), and of what is signed */
static const char *site_service = "s3"; /* of what is signed */

static int listen_any(int *port)
{
        struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(addr);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        assert_true(fd >= 0);
        assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        assert_int_equal(listen(fd, 1024), 0);
        assert_int_equal(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
        *port = ntohs(addr.sin_port);
        return fd;
}

/* ---- waiting ---- */

static void sleep_ms(unsigned ms)
{
        nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * 1000000}, NULL);
}

/* Waits for a condition, which is looked at until it is true once. */
#define EVENTUALLY(condition)                                                                                          \
        do {                                                                                                           \
                bool came_ = (condition);                                                                              \
                for (unsigned turns_ = 0; !came_ && turns_ < WAIT_TURNS; turns_++) {                                   \
                        usleep(WAIT_STEP_US);                                                                          \
                        came_ = (condition);                                                                           \
                }                                                                                                      \
                assert_true(came_);                                                                                    \
        } while (0)

/* ---- client ---- */

static int dial(void)
{
        struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons((uint16_t)site_port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        struct timeval limit = {WAIT_MOST, 0};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        return fd;
}

/*
 * Sockets with a time limit are not taken up again after an interruption, and io_uring interrupts.
 */
static ssize_t recv_some(int fd, void *buf, size_t len)
{
        ssize_t n;

        do
                n = recv(fd, buf, len, 0);
        while (n < 0 && errno == EINTR);
        return n;
}

static void send_all(int fd, const void *data, size_t len)
{
        const char *p = data;

        while (len > 0) {
                ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return; /* the answer, or its lack, will tell */
                p += n;
                len -= (size_t)n;
        }
}

static void send_text(int fd, const char *text)
{
        send_all(fd, text, strlen(text));
}

#define AMZ_MAX 6

/*
 * Head of a signed request with UNSIGNED-PAYLOAD. amz: up to AMZ_MAX headers that are signed too
 * (x-amz-content-sha256 replaces the usual one); more: header lines that are not, so no x-amz-*.
 */
static size_t signed_head(char *out, size_t cap, const char *method, const char *target, const struct s3_header *amz,
                          unsigned amz_count, const char *more)
{
        char date[S3_DATE_AMZ_SIZE], day[9], authorization[1024];
        const char *question = strchr(target, '?');
        int64_t now = lp_wall_ms();
        struct s3_signer signer;
        struct s3_header headers[3 + AMZ_MAX] = {
                {S3_STR("Host"), S3_STR("localhost")},
                {S3_STR("x-amz-date"), {date, 16}},
                {S3_STR("x-amz-content-sha256"), S3_STR(S3_UNSIGNED_PAYLOAD)},
        };
        struct s3_request request = {
                .method = s3_str_of(method),
                .path = {target, question != NULL ? (size_t)(question - target) : strlen(target)},
                .query = s3_str_of(question != NULL ? question + 1 : NULL),
                .headers = headers,
                .header_count = 3,
        };
        size_t len;

        assert_true(amz_count <= AMZ_MAX);
        s3_date_format_amz(now, date);
        for (unsigned i = 0; i < amz_count; i++) {
                if (s3_str_eq(amz[i].name, headers[2].name))
                        headers[2].value = amz[i].value;
                else
                        headers[request.header_count++] = amz[i];
        }
        s3_signer_init(&signer, s3_str_of(site_access), s3_str_of(site_secret), site_region, now);
        signer.service = site_service;
        snprintf(day, sizeof(day), "%.8s", date);
        s3_signing_key_derive(s3_str_of(site_secret), day, site_region, site_service, &signer.key);
        assert_true(s3_sign_headers(&request, &signer, authorization, sizeof(authorization), NULL) > 0);
        len = (size_t)snprintf(out, cap, "%s %s HTTP/1.1\r\n", method, target);
        for (size_t i = 0; i < request.header_count; i++)
                len += (size_t)snprintf(out + len, cap - len, "%.*s: %.*s\r\n", (int)headers[i].name.len,
                                        headers[i].name.data, (int)headers[i].value.len, headers[i].value.data);
        len += (size_t)snprintf(out + len, cap - len, "Authorization: %s\r\n%s\r\n", authorization,
                                more != NULL ? more : "");
        assert_true(len < cap);
        return len;
}

static void send_signed(int fd, const char *method, const char *target, const char *more)
{
        char head[8192];

        send_all(fd, head, signed_head(head, sizeof(head), method, target, NULL, 0, more));
}

static void send_put(int fd, const char *target, const void *data, size_t len)
{
        char more[64];

        snprintf(more, sizeof(more), "Content-Length: %zu\r\n", len);
        send_signed(fd, "PUT", target, more);
        send_all(fd, data, len);
}

struct answer {
        unsigned status;                /* 0: the connection ended before one */
        char head[8192];
        char *body;
        size_t body_len;
        bool whole;                     /* as many bytes as Content-Length said */
};

static const char *answer_header(const struct answer *a, const char *name, char value[512])
{
        char wanted[128];
        const char *at, *end;

        snprintf(wanted, sizeof(wanted), "\r\n%s: ", name);
        at = strcasestr(a->head, wanted);
        if (at == NULL)
                return NULL;
        at += strlen(wanted);
        end = strstr(at, "\r\n");
        snprintf(value, 512, "%.*s", (int)(end - at), at);
        return value;
}

static bool read_head(int fd, struct answer *a)
{
        size_t len = 0;

        while (len < sizeof(a->head) - 1) {
                if (recv_some(fd, a->head + len, 1) != 1)
                        return false;
                a->head[++len] = '\0';
                if (len >= 4 && memcmp(a->head + len - 4, "\r\n\r\n", 4) == 0)
                        return sscanf(a->head, "HTTP/1.1 %u", &a->status) == 1;
        }
        return false;
}

/* Reads one answer (without_body: of a HEAD). Free with answer_free(). */
static void read_answer(int fd, struct answer *a, bool without_body)
{
        char value[512];
        size_t expected;

        memset(a, 0, sizeof(*a));
        if (!read_head(fd, a)) {
                a->status = 0;
                return;
        }
        a->whole = true;
        if (without_body || a->status == 204 || a->status == 304 || a->status == 100)
                return;
        assert_non_null(answer_header(a, "Content-Length", value));
        expected = strtoull(value, NULL, 10);
        assert_true(expected <= ANSWER_MAX);
        a->body = malloc(expected + 1);
        while (a->body_len < expected) {
                ssize_t n = recv_some(fd, a->body + a->body_len, expected - a->body_len);

                if (n <= 0) {
                        a->whole = false;
                        break;
                }
                a->body_len += (size_t)n;
        }
        a->body[a->body_len] = '\0';
}

static void answer_free(struct answer *a)
{
        free(a->body);
        a->body = NULL;
}

/* Reads an answer and checks status and, where given, the S3 code in it. */
static void expect(int fd, unsigned status, const char *code)
{
        struct answer a;
        char wanted[128];

        read_answer(fd, &a, false);
        assert_int_equal(a.status, status);
        if (code != NULL) {
                snprintf(wanted, sizeof(wanted), "<Code>%s</Code>", code);
                assert_non_null(a.body);
                if (strstr(a.body, wanted) == NULL)
                        fail_msg("expected %s in %s", code, a.body);
        }
        answer_free(&a);
}

/* Reads and drops until the peer has closed; false if it does not within ms. */
static bool closed_within(int fd, int ms)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        char scratch[4096];

        while (poll(&p, 1, ms) > 0) {
                ssize_t n = recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT);

                if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                        return true;
        }
        return false;
}
