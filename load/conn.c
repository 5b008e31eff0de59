/*
 * conn.c - connections: an operation's requests go out, its answers come in, and it succeeds or
 * fails. Called by run.c on the running thread.
 */
#include "load/run.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "load_content.h"
#include "load/load_tls.h"

#define SEND_BUFFERS     (256u << 20) /* of all connections, in bytes */
#define SEND_BUFFER_MOST (4u << 20)   /* what the kernel lets one grow to */

static void conn_open(struct load_run *run, struct load_conn *conn);

void load_tell(const struct load_run *run, const char *format, ...)
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

/* ---- the end of an operation ----------------------------------------------------------------- */

void load_conn_close(struct load_conn *conn)
{
        load_tls_close(conn->ssl);
        conn->ssl = NULL;
        if (conn->fd >= 0)
                close(conn->fd);
        conn->fd = -1;
        conn->state = LOAD_CLOSED;
        conn->reused = false;
}

void load_fail(struct load_run *run, struct load_conn *conn, enum load_failure kind, const char *format, ...)
{
        char why[400];
        va_list args;

        if (run->told < LOAD_FAILURES_TOLD) {
                run->told++;
                va_start(args, format);
                vsnprintf(why, sizeof(why), format, args);
                va_end(args);
                load_tell(run, "%s of key %llu: %s: %s", load_phase_name(run->settings->phase),
                          (unsigned long long)conn->key, load_failure_name(kind), why);
        }
        run->result->failures[kind]++;
        run->result->failed++;
        if (run->result->failed >= LOAD_FAILURES_MAX)
                run->over = true;
        load_conn_close(conn);
        conn->busy = false;
        run->busy_count--;
        run->last_ns = load_now_ns();
        run->idle[run->idle_count++] = conn; /* begins again in the main loop's next round */
}

static void conn_succeed(struct load_run *run, struct load_conn *conn)
{
        const struct load_settings *o = run->settings;

        run->last_ns = load_now_ns();
        load_stats_add(&run->result->stats, run->last_ns - conn->since_ns);
        if (o->phase == LOAD_MIXED)
                load_stats_add(&run->result->mixed[conn->op == LOAD_PUT], run->last_ns - conn->since_ns);
        if (conn->op == LOAD_PUT || conn->op == LOAD_GET || conn->op == LOAD_MULTIPART)
                run->result->bytes += o->size;
        else if (conn->op == LOAD_RANGE)
                run->result->bytes += o->range_size;
        run->result->entries += conn->entries;
        if (!conn->parser.keep)
                load_conn_close(conn);
        conn->reused = true;
        conn->busy = false;
        run->busy_count--;
        run->idle[run->idle_count++] = conn; /* begins again in the main loop's next round */
}

/* ---- sending and receiving ------------------------------------------------------------------- */

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
                        conn->alive_ns = load_now_ns();
                        continue;
                }
                if (errno == EAGAIN)
                        return;
                if (errno != EINTR)
                        break; /* what the server had to say before it hung up may still be read */
        }
        conn->state = LOAD_RECEIVING;
}

/* The next request of an upload: now, or behind the others that wait for the pace. */
static void go_on(struct load_run *run, struct load_conn *conn)
{
        if (!conn->parser.keep)
                load_conn_close(conn);
        if (run->settings->pace > 0) {
                conn->paused = true;
                run->paused[(run->paused_first + run->paused_count++) % run->settings->connections] = conn;
        } else {
                load_send_request(run, conn, false);
        }
}

/* A whole answer. */
static void conn_take_answer(struct load_run *run, struct load_conn *conn)
{
        const struct load_parser *p = &conn->parser;
        int wanted = conn->op == LOAD_DELETE ? 204 : conn->op == LOAD_RANGE ? 206 : 200;
        const char *wrong = load_wrong_length(run->settings, conn);
        int rv;

        if (p->status != wanted && !(conn->op == LOAD_BUCKET && p->status == 409)) {
                conn->head[conn->text_len] = '\0';
                load_fail(run, conn, p->status == 503 ? LOAD_FAIL_REFUSED : LOAD_FAIL_STATUS, "%d %.300s", p->status,
                          conn->text_len > 0 ? conn->head : "");
                return;
        }
        if (wrong != NULL) {
                load_fail(run, conn, LOAD_FAIL_LENGTH, "%llu %s",
                          (unsigned long long)(conn->op == LOAD_LIST ? conn->entries
                                               : p->no_body          ? p->length
                                                                     : p->body),
                          wrong);
                return;
        }
        rv = conn->op == LOAD_MULTIPART ? load_multipart_advance(conn) : 1;
        if (rv == 1)
                conn_succeed(run, conn);
        else if (rv == 0)
                go_on(run, conn);
        else
                load_fail(run, conn, LOAD_FAIL_PROTOCOL, "multipart upload, step %llu", (unsigned long long)conn->step);
}

static void hung_up(struct load_run *run, struct load_conn *conn)
{
        bool kept_too_long = conn->reused && conn->parser.state == LOAD_HEAD && conn->parser.head_len == 0 &&
                             conn->op != LOAD_MULTIPART;

        if (!kept_too_long) {
                load_fail(run, conn, LOAD_FAIL_CLOSED, "after %llu bytes sent", (unsigned long long)conn->sent);
                return;
        }
        run->result->reconnects++; /* servers may close a kept connection at any time: not a failure */
        load_conn_close(conn);
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
        return conn->ssl != NULL ? load_tls_receive(conn->ssl, run->receive, LOAD_RECEIVE)
                                 : recv(conn->fd, run->receive, LOAD_RECEIVE, 0);
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
                        load_fail(run, conn, rv == -EBADMSG ? LOAD_FAIL_CONTENT : LOAD_FAIL_PROTOCOL, "%s",
                                  strerror(-rv));
                        return;
                }
                if (p->state == LOAD_DONE)
                        break;
        }
        if (conn->sent < conn->head_len + conn->body_len)
                p->keep = false; /* answered before it had all: the rest is never sent */
        conn_take_answer(run, conn);
}

/* ---- connections ----------------------------------------------------------------------------- */

/*
 * So many connections of one machine would leave the kernel's memory for TCP full of what waits to
 * be sent (4 MiB each), and those that are served would starve for it, on loopback the server's as
 * well.
 */
static void bound_send_buffer(const struct load_run *run, int fd)
{
        int bytes = (int)(SEND_BUFFERS / run->settings->connections);

        if (run->settings->connections > SEND_BUFFERS / SEND_BUFFER_MOST)
                setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
}

static void conn_open(struct load_run *run, struct load_conn *conn)
{
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = conn};
        const struct addrinfo *address = run->address[conn->server];
        int one = 1;

        conn->fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (conn->fd < 0) {
                load_fail(run, conn, LOAD_FAIL_CONNECT, "%s", strerror(errno));
                return;
        }
        setsockopt(conn->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        bound_send_buffer(run, conn->fd);
        if (run->tls != NULL) {
                conn->ssl = load_tls_open(run->tls, conn->fd, run->settings->server[conn->server].host);
                if (conn->ssl == NULL) {
                        load_fail(run, conn, LOAD_FAIL_CONNECT, "no memory");
                        return;
                }
        }
        if ((connect(conn->fd, address->ai_addr, address->ai_addrlen) != 0 && errno != EINPROGRESS) ||
            epoll_ctl(run->epoll_fd, EPOLL_CTL_ADD, conn->fd, &event) != 0) {
                load_fail(run, conn, LOAD_FAIL_CONNECT, "%s", strerror(errno));
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
                load_fail(run, conn, LOAD_FAIL_CONNECT, "TLS: %s", why);
        else if (rv == 1)
                conn->state = LOAD_SENDING;
        return rv == 1;
}

void load_conn_event(struct load_run *run, struct load_conn *conn, uint32_t events)
{
        int error = 0;
        socklen_t len = sizeof(error);

        if (conn->fd < 0 || !conn->busy || conn->paused) {
                if ((events & (EPOLLHUP | EPOLLERR | EPOLLRDHUP)) != 0)
                        load_conn_close(conn);
                return;
        }
        if (conn->state == LOAD_CONNECTING) {
                getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &len);
                if (error != 0) {
                        load_fail(run, conn, LOAD_FAIL_CONNECT, "%s", strerror(error));
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

/*
 * Makes and sends the operation's next request; an upload's steps behind the first have a number.
 */
void load_send_request(struct load_run *run, struct load_conn *conn, bool first)
{
        int rv = first ? load_first_request(run, conn, run->issued++) : load_multipart_request(run, conn);

        conn->alive_ns = load_now_ns();
        if (rv != 0) {
                load_fail(run, conn, LOAD_FAIL_PROTOCOL, "cannot make the request");
                return;
        }
        if (conn->state == LOAD_CLOSED) {
                conn_open(run, conn);
        } else {
                conn->state = LOAD_SENDING;
                send_more(run, conn);
        }
}
