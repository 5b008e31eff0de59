/*
 * run.c - one phase against an endpoint: connections, and the bytes that go through them. Called by whoever wants a load, on the thread that is the
 * run's. Answers are read by answer.c and parser.c, requests made by request.c.
 */
#include "load/run.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "load/content.h"
#include "load/tls.h"

#define RECEIVE       (256u << 10)
#define ANSWER_S      60     /* a request has failed whose bytes nobody takes, or that nobody answers, for so long */
#define FAILURES_MAX  10000u /* then the run ends: something is broken */
#define FAILURES_TOLD 5u

static double own_cpu(void)
{
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

__attribute__((format(printf, 2, 3))) static void tell(const struct load_run *run, const char *format, ...)
{
        char line[600];
        va_list args;

        if (run->watch->line == NULL)
                return;
        va_start(args, format);
        vsnprintf(line, sizeof(line), format, args);
        va_end(args);
        for (char *c = line; *c != '\0'; c++)
                *c = (unsigned char)*c < ' ' ? ' ' : *c;
        run->watch->line(run->watch->arg, line);
}

static uint64_t now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void next_operation(struct load_run *run, struct load_conn *conn);

/* ---- the end of an operation --------------------------------------------------------------------- */

static void conn_close(struct load_conn *conn)
{
        load_tls_close(conn->ssl);
        conn->ssl = NULL;
        if (conn->fd >= 0)
                close(conn->fd);
        conn->fd = -1;
        conn->state = LOAD_CLOSED;
        conn->reused = false;
}

__attribute__((format(printf, 4, 5))) static void fail(struct load_run *run, struct load_conn *conn,
                                                       enum load_failure kind, const char *format, ...)
{
        char why[400];
        va_list args;

        if (run->told < FAILURES_TOLD) {
                run->told++;
                va_start(args, format);
                vsnprintf(why, sizeof(why), format, args);
                va_end(args);
                tell(run, "%s of key %llu: %s: %s", load_phase_name(run->settings->phase),
                     (unsigned long long)conn->key, load_failure_name(kind), why);
        }
        run->result->failures[kind]++;
        run->result->failed++;
        if (run->result->failed >= FAILURES_MAX)
                run->over = true;
        conn_close(conn);
        conn->busy = false;
        run->busy_count--;
        run->last_ns = now_ns();
        next_operation(run, conn);
}

static void succeed(struct load_run *run, struct load_conn *conn)
{
        const struct load_settings *o = run->settings;

        run->last_ns = now_ns();
        load_stats_add(&run->result->stats, run->last_ns - conn->since_ns);
        if (o->phase == LOAD_MIXED)
                load_stats_add(&run->result->mixed[conn->op == LOAD_PUT], run->last_ns - conn->since_ns);
        if (conn->op == LOAD_PUT || conn->op == LOAD_GET || conn->op == LOAD_MULTIPART)
                run->result->bytes += o->size;
        else if (conn->op == LOAD_RANGE)
                run->result->bytes += o->range_size;
        run->result->entries += conn->entries;
        if (!conn->parser.keep)
                conn_close(conn);
        conn->reused = true;
        conn->busy = false;
        run->busy_count--;
        next_operation(run, conn);
}

/* ---- sending and receiving ----------------------------------------------------------------------- */

static int pieces_to_send(const struct load_run *run, const struct load_conn *conn, struct iovec piece[3])
{
        uint64_t body_sent = conn->sent > conn->head_len ? conn->sent - conn->head_len : 0;
        uint64_t left = conn->body_len - body_sent;
        int count = 0;

        if (conn->sent < conn->head_len)
                piece[count++] = (struct iovec){(char *)conn->head + conn->sent, conn->head_len - conn->sent};
        if (conn->body != NULL && left > 0) {
                piece[count++] = (struct iovec){(char *)conn->body + body_sent, left};
                return count;
        }
        for (uint64_t offset = conn->from + body_sent; left > 0 && count < 3;) {
                uint32_t at = load_content_at(conn->key, offset);
                size_t len = load_content_run(at, left);

                piece[count++] = (struct iovec){run->pattern + at, len};
                offset += len;
                left -= len;
        }
        return count;
}

static void send_more(struct load_run *run, struct load_conn *conn)
{
        while (conn->sent < conn->head_len + conn->body_len) {
                struct iovec piece[3];
                struct msghdr message = {.msg_iov = piece};
                ssize_t n;

                message.msg_iovlen = (size_t)pieces_to_send(run, conn, piece);
                n = conn->ssl != NULL ? load_tls_send(run->tls, conn->ssl, piece, (int)message.msg_iovlen)
                                      : sendmsg(conn->fd, &message, MSG_NOSIGNAL);
                if (n > 0) {
                        conn->sent += (uint64_t)n;
                        conn->alive_ns = now_ns();
                        continue;
                }
                if (errno == EAGAIN)
                        return;
                if (errno != EINTR)
                        break; /* what the server had to say before it hung up may still be read */
        }
        conn->state = LOAD_RECEIVING;
}

static void send_request(struct load_run *run, struct load_conn *conn, bool first);

/* The next request of an upload: now, or behind the others that wait for the pace. */
static void go_on(struct load_run *run, struct load_conn *conn)
{
        if (!conn->parser.keep)
                conn_close(conn);
        if (run->settings->pace > 0) {
                conn->paused = true;
                run->paused[(run->paused_first + run->paused_count++) % run->settings->connections] = conn;
        } else {
                send_request(run, conn, false);
        }
}

/* A whole answer. */
static void take_answer(struct load_run *run, struct load_conn *conn)
{
        const struct load_parser *p = &conn->parser;
        int wanted = conn->op == LOAD_DELETE ? 204 : conn->op == LOAD_RANGE ? 206 : 200;
        const char *wrong = load_wrong_length(run->settings, conn);
        int rv;

        if (p->status != wanted && !(conn->op == LOAD_BUCKET && p->status == 409)) {
                conn->head[conn->text_len] = '\0';
                fail(run, conn, p->status == 503 ? LOAD_FAIL_REFUSED : LOAD_FAIL_STATUS, "%d %.300s", p->status,
                     conn->text_len > 0 ? conn->head : "");
                return;
        }
        if (wrong != NULL) {
                fail(run, conn, LOAD_FAIL_LENGTH, "%llu %s",
                     (unsigned long long)(conn->op == LOAD_LIST ? conn->entries
                                          : p->no_body          ? p->length
                                                                : p->body),
                     wrong);
                return;
        }
        rv = conn->op == LOAD_MULTIPART ? load_multipart_advance(conn) : 1;
        if (rv == 1)
                succeed(run, conn);
        else if (rv == 0)
                go_on(run, conn);
        else
                fail(run, conn, LOAD_FAIL_PROTOCOL, "multipart upload, step %llu", (unsigned long long)conn->step);
}

static void conn_open(struct load_run *run, struct load_conn *conn);

static void hung_up(struct load_run *run, struct load_conn *conn)
{
        bool kept_too_long = conn->reused && conn->parser.state == LOAD_HEAD && conn->parser.head_len == 0 &&
                             conn->op != LOAD_MULTIPART;

        if (!kept_too_long) {
                fail(run, conn, LOAD_FAIL_CLOSED, "after %llu bytes sent", (unsigned long long)conn->sent);
                return;
        }
        run->result->reconnects++; /* servers may close a kept connection at any time: not a failure */
        conn_close(conn);
        conn->sent = 0;
        conn_open(run, conn);
}

static ssize_t receive_some(struct load_run *run, struct load_conn *conn)
{
        const struct load_settings *o = run->settings;
        struct load_parser *p = &conn->parser;

        if (p->state == LOAD_BODY && p->status < 300 && !o->verify &&
            (conn->op == LOAD_GET || conn->op == LOAD_RANGE) && conn->ssl == NULL) {
                ssize_t n = recv(conn->fd, NULL, p->left < 1u << 30 ? p->left : 1u << 30, MSG_TRUNC);

                if (n > 0)
                        load_parser_skip(p, (uint64_t)n);
                return n;
        }
        return conn->ssl != NULL ? load_tls_receive(conn->ssl, run->receive, RECEIVE)
                                 : recv(conn->fd, run->receive, RECEIVE, 0);
}

static void receive_more(struct load_run *run, struct load_conn *conn)
{
        struct load_receiving receiving = {run, conn};
        struct load_parser *p = &conn->parser;

        for (;;) {
                bool skipping = p->state == LOAD_BODY;
                uint64_t left = p->left;
                ssize_t n = receive_some(run, conn);
                size_t used = 0;
                int rv = 0;

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno == EAGAIN)
                        return;
                if (n <= 0) {
                        hung_up(run, conn);
                        return;
                }
                if (!skipping || left == p->left) /* else thrown away in the kernel */
                        rv = load_parser_feed(p, run->receive, (size_t)n, load_take_body, &receiving, &used);
                else
                        used = (size_t)n;
                if (rv != 0 || (p->state == LOAD_DONE && used != (size_t)n)) {
                        fail(run, conn, rv == -EBADMSG ? LOAD_FAIL_CONTENT : LOAD_FAIL_PROTOCOL, "%s", strerror(-rv));
                        return;
                }
                if (p->state == LOAD_DONE)
                        break;
        }
        if (conn->sent < conn->head_len + conn->body_len)
                p->keep = false; /* answered before it had all: the rest is never sent */
        take_answer(run, conn);
}

/* ---- connections --------------------------------------------------------------------------------- */

static void conn_open(struct load_run *run, struct load_conn *conn)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = conn};
        int one = 1;

        conn->fd = socket(run->address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (conn->fd < 0) {
                fail(run, conn, LOAD_FAIL_CONNECT, "%s", strerror(errno));
                return;
        }
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (run->tls != NULL) {
                conn->ssl = load_tls_open(run->tls, conn->fd);
                if (conn->ssl == NULL) {
                        fail(run, conn, LOAD_FAIL_CONNECT, "no memory");
                        return;
                }
        }
        if ((connect(conn->fd, run->address->ai_addr, run->address->ai_addrlen) != 0 && errno != EINPROGRESS) ||
            epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
                fail(run, conn, LOAD_FAIL_CONNECT, "%s", strerror(errno));
                return;
        }
        conn->state = LOAD_CONNECTING;
}

/* The socket is connected, TLS is not yet spoken. False: the operation has failed, or waits. */
static bool shake_hands(struct load_run *run, struct load_conn *conn)
{
        char why[300];
        int rv = conn->ssl != NULL ? load_tls_shake_hands(conn->ssl, why, sizeof(why)) : 1;

        if (rv < 0)
                fail(run, conn, LOAD_FAIL_CONNECT, "TLS: %s", why);
        else if (rv == 1)
                conn->state = LOAD_SENDING;
        return rv == 1;
}

static void on_event(struct load_run *run, struct load_conn *conn, uint32_t events)
{
        int error = 0;
        socklen_t len = sizeof(error);

        if (conn->fd < 0 || !conn->busy || conn->paused) {
                if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0)
                        conn_close(conn);
                return;
        }
        if (conn->state == LOAD_CONNECTING) {
                getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len);
                if (error != 0) {
                        fail(run, conn, LOAD_FAIL_CONNECT, "%s", strerror(error));
                        return;
                }
                conn->state = LOAD_SHAKING_HANDS;
        }
        if (conn->state == LOAD_SHAKING_HANDS && !shake_hands(run, conn))
                return;
        if (conn->state == LOAD_SENDING)
                send_more(run, conn);
        if (conn->state == LOAD_RECEIVING || (events & EPOLLIN) != 0)
                receive_more(run, conn);
}

/* ---- when operations begin ----------------------------------------------------------------------- */

/* Makes and sends the operation's next request; an upload's steps behind the first have a number. */
static void send_request(struct load_run *run, struct load_conn *conn, bool first)
{
        int rv = first ? load_first_request(run, conn, run->issued++) : load_multipart_request(run, conn);

        conn->alive_ns = now_ns();
        if (rv != 0) {
                fail(run, conn, LOAD_FAIL_PROTOCOL, "cannot make the request");
                return;
        }
        if (conn->state == LOAD_CLOSED) {
                conn_open(run, conn);
        } else {
                conn->state = LOAD_SENDING;
                send_more(run, conn);
        }
}

static void begin(struct load_run *run, struct load_conn *conn, uint64_t since_ns)
{
        conn->busy = true;
        run->busy_count++;
        conn->since_ns = since_ns;
        send_request(run, conn, true);
}

static bool more_to_do(struct load_run *run, uint64_t now)
{
        if (run->settings->count > 0 && run->issued >= run->settings->count)
                run->over = true;
        if (run->end_ns != 0 && now >= run->end_ns)
                run->over = true;
        return !run->over;
}

/* When the next request may begin; 0: at once. */
static uint64_t due_ns(const struct load_run *run)
{
        double rate_s = run->settings->rate > 0 ? (double)run->issued / run->settings->rate : 0;
        double pace_s = run->settings->pace > 0 ? (double)run->paced / (double)run->settings->pace : 0;
        double seconds = rate_s > pace_s ? rate_s : pace_s;

        return seconds > 0 ? run->start_ns + (uint64_t)(seconds * 1e9) : 0;
}

/* Uploads that wait for the pace go on before new ones begin, and to their end when the time is over. */
static void go_on_with_what_is_due(struct load_run *run)
{
        while (run->paused_count > 0 && due_ns(run) <= now_ns()) {
                struct load_conn *conn = run->paused[run->paused_first];

                run->paused_first = (run->paused_first + 1) % run->settings->connections;
                run->paused_count--;
                conn->paused = false;
                send_request(run, conn, false);
        }
}

/* A connection is free: closed loop, it begins again in the main loop's next round; open loop, when an operation is
 * due. */
static void next_operation(struct load_run *run, struct load_conn *conn)
{
        run->idle[run->idle_count++] = conn;
}

static void begin_what_is_due(struct load_run *run)
{
        unsigned budget = run->idle_count; /* those that fail at once come back: not in this round */

        while (budget > 0 && run->idle_count > 0) {
                uint64_t now = now_ns();
                uint64_t since = now;

                if (!more_to_do(run, now))
                        return;
                if (due_ns(run) > now)
                        return;
                if (run->settings->rate > 0)
                        since = due_ns(run);
                budget--;
                begin(run, run->idle[--run->idle_count], since);
        }
}

static void fail_the_overdue(struct load_run *run)
{
        uint64_t now = now_ns();

        for (unsigned i = 0; i < run->settings->connections; i++)
                if (run->conns[i].busy && !run->conns[i].paused &&
                    now - run->conns[i].alive_ns > ANSWER_S * 1000000000ull)
                        fail(run, &run->conns[i], LOAD_FAIL_TIMEOUT, "no answer in %d s", ANSWER_S);
}

/* How long nothing may happen: until an operation is due, or somebody wants to look. */
static struct timespec longest_wait(const struct load_run *run)
{
        uint64_t now = now_ns(), until = now + 1000000000u;

        if (run->moment_ns < until)
                until = run->moment_ns;
        if ((run->paused_count > 0 || (run->idle_count > 0 && !run->over)) && due_ns(run) < until)
                until = due_ns(run);
        return (struct timespec){.tv_nsec =
                                         until > now ? (long)(until - now < 999999999u ? until - now : 999999999u) : 0};
}

/* What is done now and then. */
static void look_after(struct load_run *run, bool interrupted)
{
        const struct load_watch *watch = run->watch;
        uint64_t now = now_ns();

        if (now >= run->second_ns) {
                run->second_ns = now + 1000000000u;
                fail_the_overdue(run);
        }
        if (now < run->moment_ns && !interrupted)
                return;
        run->moment_ns = now + (watch->every_ms > 0 ? watch->every_ms : 1000) * 1000000ull;
        run->result->seconds = (double)(now - run->start_ns) / 1e9;
        if (watch->moment != NULL)
                watch->moment(watch->arg, run->result);
        run->result->stopped = watch->stop != NULL && watch->stop(watch->arg);
}

static void wait_for_events(struct load_run *run)
{
        struct epoll_event events[256];
        struct timespec wait = longest_wait(run);
        int n = epoll_pwait2(run->epoll_fd, events, 256, &wait, NULL);
        bool interrupted = n < 0 && errno == EINTR;

        for (int i = 0; i < n; i++)
                on_event(run, events[i].data.ptr, events[i].events);
        look_after(run, interrupted);
}

static void run_phase(struct load_run *run)
{
        double cpu = own_cpu();

        run->start_ns = now_ns();
        run->last_ns = run->start_ns;
        if (run->settings->duration_s > 0)
                run->end_ns = run->start_ns + (uint64_t)(run->settings->duration_s * 1e9);
        while (!run->result->stopped) {
                go_on_with_what_is_due(run);
                begin_what_is_due(run);
                if (!more_to_do(run, now_ns()) && run->busy_count == 0)
                        break;
                wait_for_events(run);
        }
        run->result->seconds = (double)(run->last_ns - run->start_ns) / 1e9;
        run->result->cpu_s = own_cpu() - cpu;
}

/* ---- a run ----------------------------------------------------------------------------------------- */

static int find_server(struct load_run *run)
{
        const struct load_settings *o = run->settings;
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        char why[300];
        int rv = getaddrinfo(o->host, o->port, &hints, &run->address);

        if (rv != 0) {
                tell(run, "%s: %s", o->endpoint, gai_strerror(rv));
                return -EINVAL;
        }
        if (!o->tls)
                return 0;
        rv = load_tls_new(o, &run->tls, why, sizeof(why));
        if (rv != 0)
                tell(run, "TLS: %s", why);
        return rv;
}

static int set_up_connections(struct load_run *run)
{
        const struct load_settings *o = run->settings;

        run->conns = calloc(o->connections, sizeof(*run->conns));
        run->idle = calloc(o->connections, sizeof(struct load_conn *));
        run->paused = calloc(o->connections, sizeof(struct load_conn *));
        if (run->conns == NULL || run->idle == NULL || run->paused == NULL)
                return -ENOMEM;
        for (unsigned i = 0; i < o->connections; i++)
                run->conns[i].fd = -1;
        for (unsigned i = o->connections; i-- > 0;) {
                struct load_conn *conn = &run->conns[i];

                run->idle[run->idle_count++] = conn;
                if (o->phase != LOAD_MULTIPART)
                        continue;
                conn->parts = (o->size + o->part_size - 1) / o->part_size;
                conn->etags = calloc(conn->parts, sizeof(*conn->etags));
                conn->document = malloc(conn->parts * (LOAD_ETAG_SIZE + 64) + 64);
                if (conn->etags == NULL || conn->document == NULL)
                        return -ENOMEM;
        }
        return 0;
}

static int set_up(struct load_run *run)
{
        struct timespec now;
        int rv = find_server(run);

        if (rv != 0)
                return rv;
        clock_gettime(CLOCK_REALTIME, &now);
        load_signer_init(&run->signer, run->settings, (int64_t)now.tv_sec * 1000);
        run->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        run->pattern = load_pattern_new();
        run->receive = malloc(RECEIVE);
        rv = set_up_connections(run);
        if (run->epoll_fd < 0 || run->pattern == NULL || run->receive == NULL)
                rv = -ENOMEM;
        if (rv == 0)
                rv = load_make_ready(run);
        if (rv != 0)
                tell(run, "cannot start: %s", strerror(-rv));
        return rv;
}

static void tear_down(struct load_run *run)
{
        for (unsigned i = 0; run->conns != NULL && i < run->settings->connections; i++) {
                conn_close(&run->conns[i]);
                free(run->conns[i].etags);
                free(run->conns[i].document);
        }
        for (uint64_t i = 0; i < run->ready_count; i++)
                free(run->ready[i]);
        free(run->ready);
        free(run->conns);
        free(run->idle);
        free(run->paused);
        free(run->pattern);
        free(run->receive);
        if (run->epoll_fd >= 0)
                close(run->epoll_fd);
        if (run->address != NULL)
                freeaddrinfo(run->address);
        load_tls_free(run->tls);
}

int load_run(const struct load_settings *settings, const struct load_watch *watch, struct load_result *out)
{
        struct load_run *run = calloc(1, sizeof(*run));
        int rv;

        if (run == NULL)
                return -ENOMEM;
        memset(out, 0, sizeof(*out));
        run->settings = settings;
        run->watch = watch;
        run->result = out;
        run->epoll_fd = -1;
        rv = set_up(run);
        if (rv == 0)
                run_phase(run);
        tear_down(run);
        explicit_bzero(&run->signer, sizeof(run->signer));
        free(run);
        return rv;
}
