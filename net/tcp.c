/*
 * tcp.c - the real transport: TCP sockets on epoll, with or without TLS (tls.c). Everything about a
 * stream happens on its loop.
 *
 * An accepted connection says by its first byte whether it is TLS: a TLS record of a handshake
 * begins with 22, a frame with 'M'. Whether a plain one is allowed is for admission.c to say.
 */
#include "net/tcp.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define TLS_FIRST_BYTE    22
#define BACKLOG           128
#define ACCEPTS           16u                    /* of one event */
#define NO_DESCRIPTORS_NS (100ull * 1000 * 1000) /* then it is tried again */

static struct tcp_stream *tcp_of(struct net_stream *stream)
{
        return container_of(stream, struct tcp_stream, base);
}

int net_stream_failed(struct net_stream *stream, int rv, const char *format, ...)
{
        va_list list;

        va_start(list, format);
        vsnprintf(stream->why, sizeof(stream->why), format, list);
        va_end(list);
        return rv;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int address_read(const char *text, int flags, struct addrinfo **out)
{
        struct addrinfo wish = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | flags};
        const char *colon = strrchr(text, ':');
        char host[NI_MAXHOST];
        size_t len;

        if (colon == NULL)
                return -EINVAL;
        len = (size_t)(colon - text);
        if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
                text++;
                len -= 2;
        }
        if (len == 0 || len >= sizeof(host))
                return -EINVAL;
        memcpy(host, text, len);
        host[len] = '\0';
        return getaddrinfo(host, colon + 1, &wish, out) == 0 ? 0 : -EINVAL;
}

static void address_write(const struct sockaddr *address, socklen_t len, char *text, size_t size)
{
        char host[NET_REMOTE_MAX - 10], port[8];

        if (getnameinfo(address, len, host, sizeof(host), port, sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
                snprintf(text, size, "?");
        else if (address->sa_family == AF_INET6)
                snprintf(text, size, "[%s]:%s", host, port);
        else
                snprintf(text, size, "%s:%s", host, port);
}

/* ---- streams --------------------------------------------------------------------------------- */

static int tcp_watch(struct tcp_stream *stream, uint32_t events)
{
        int rv = 0;

        if (stream->events == events)
                return 0;
        if (stream->events != 0)
                lp_watch_remove(stream->base.loop, &stream->watch);
        stream->events = events;
        if (events != 0)
                rv = lp_watch_add(stream->base.loop, &stream->watch, events);
        if (rv != 0)
                stream->events = 0;
        return rv;
}

/* As wanted; what is encrypted and unsent wants to leave in any case. */
static int tcp_watch_wanted(struct tcp_stream *stream)
{
        return tcp_watch(stream,
                         (stream->receives ? EPOLLIN : 0) | (stream->sends || stream->out_len > 0 ? EPOLLOUT : 0));
}

static void tcp_ready(struct lp_watch *watch, uint32_t events)
{
        struct tcp_stream *stream = container_of(watch, struct tcp_stream, watch);

        stream->drained = false;
        if (stream->state == TCP_READY) {
                if (stream->out_len > 0 && net_tls_flush(stream) != 0)
                        stream->out_len = 0;   /* never to be sent; who reads or sends next finds out */
                tcp_watch_wanted(stream); /* they may have left with what was sent since: else the loop would spin */
        }
        stream->base.ready(&stream->base); /* which may close it */
}

static struct tcp_stream *tcp_stream_new(struct tcp_transport *transport, struct lp_loop *loop, int fd)
{
        struct tcp_stream *stream = calloc(1, sizeof(*stream));
        int on = 1;

        if (stream == NULL)
                return NULL;
        stream->base.ops = transport->base.ops;
        stream->base.loop = loop;
        stream->transport = transport;
        stream->watch.fd = fd;
        stream->watch.ready = tcp_ready;
        stream->receives = true;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return stream;
}

static void tcp_close(struct net_stream *base)
{
        struct tcp_stream *stream = tcp_of(base);

        if (stream->events != 0)
                lp_watch_remove(base->loop, &stream->watch);
        net_tls_end(stream);
        close(stream->watch.fd);
        free(stream);
}

static int tcp_connect(struct net_transport *base, struct lp_loop *loop, const char *address, bool tls,
                       struct net_stream **out)
{
        struct tcp_transport *transport = container_of(base, struct tcp_transport, base);
        struct tcp_stream *stream = NULL;
        struct addrinfo *to;
        int rv = address_read(address, 0, &to), fd;

        if (rv != 0)
                return rv;
        fd = socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        rv = fd < 0 ? -errno : 0;
        if (rv == 0 && connect(fd, to->ai_addr, to->ai_addrlen) < 0 && errno != EINPROGRESS)
                rv = -errno;
        if (rv == 0) {
                stream = tcp_stream_new(transport, loop, fd);
                rv = stream == NULL ? -ENOMEM : 0;
        }
        freeaddrinfo(to);
        if (rv == 0) {
                stream->wants_tls = tls;
                snprintf(stream->base.remote, sizeof(stream->base.remote), "%s", address);
                rv = tcp_watch(stream, EPOLLOUT);
        }
        if (rv != 0) {
                if (fd >= 0)
                        close(fd);
                free(stream);
                return rv;
        }
        *out = &stream->base;
        return 0;
}

/* ---- handshake ------------------------------------------------------------------------------- */

static int tcp_connected(struct tcp_stream *stream)
{
        int error = 0;
        socklen_t len = sizeof(error);

        if (getsockopt(stream->watch.fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
                return -errno;
        return -error;
}

/* 1: TLS, 2: not; 0: no byte yet. */
static int tcp_sniff(struct tcp_stream *stream)
{
        uint8_t byte;
        ssize_t got = recv(stream->watch.fd, &byte, 1, MSG_PEEK);

        if (got < 0)
                return errno == EAGAIN || errno == EINTR ? 0 : -errno;
        if (got == 0)
                return -ECONNRESET;
        return byte == TLS_FIRST_BYTE ? 1 : 2;
}

/* What the kernel sends from an address to that address does not leave the machine. */
static bool tcp_has_one_address(int fd)
{
        struct sockaddr_storage here = {0}, there = {0};
        socklen_t here_len = sizeof(here), there_len = sizeof(there);

        if (getsockname(fd, (struct sockaddr *)&here, &here_len) != 0 ||
            getpeername(fd, (struct sockaddr *)&there, &there_len) != 0 || here.ss_family != there.ss_family)
                return false;
        if (here.ss_family == AF_INET)
                return ((struct sockaddr_in *)&here)->sin_addr.s_addr == ((struct sockaddr_in *)&there)->sin_addr.s_addr;
        return here.ss_family == AF_INET6 && memcmp(&((struct sockaddr_in6 *)&here)->sin6_addr,
                                                    &((struct sockaddr_in6 *)&there)->sin6_addr, sizeof(struct in6_addr)) == 0;
}

static int tcp_open(struct tcp_stream *stream)
{
        stream->state = TCP_READY;
        stream->base.tls = stream->ssl != NULL;
        stream->base.same_node = tcp_has_one_address(stream->watch.fd) &&
                                 (stream->ssl == NULL || net_tls_is_same_cert(stream));
        return 1;
}

static int tcp_begin_tls(struct tcp_stream *stream, bool accepts)
{
        stream->state = TCP_SHAKING;
        return net_tls_begin(stream, accepts);
}

static int tcp_handshake(struct net_stream *base)
{
        struct tcp_stream *stream = tcp_of(base);
        int rv = 0;

        if (stream->state == TCP_CONNECTING) {
                rv = tcp_connected(stream);
                if (rv == 0 && !stream->wants_tls)
                        return tcp_open(stream);
                if (rv == 0)
                        rv = tcp_begin_tls(stream, false);
        } else if (stream->state == TCP_SNIFFING) {
                rv = tcp_sniff(stream);
                if (rv == 2)
                        return tcp_open(stream);
                if (rv == 1)
                        rv = tcp_begin_tls(stream, true);
        }
        if (rv < 0 || stream->state != TCP_SHAKING)
                return rv;
        rv = net_tls_shake(stream);
        if (rv == 1)
                return tcp_open(stream);
        return rv == 0 ? tcp_watch(stream, stream->out_len > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN) : rv;
}

/* ---- bytes ----------------------------------------------------------------------------------- */

ssize_t net_tcp_recv(struct tcp_stream *stream, const struct iovec *pieces, unsigned count)
{
        struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = count};
        size_t room = 0;
        ssize_t got;
        unsigned i;

        if (stream->drained)
                return -EAGAIN;
        for (i = 0; i < count; i++)
                room += pieces[i].iov_len;
        got = recvmsg(stream->watch.fd, &message, 0);
        if (got < 0)
                return errno == EINTR ? -EAGAIN : -errno;
        stream->drained = got > 0 && (size_t)got < room;
        return got;
}

static ssize_t tcp_receive(struct net_stream *base, const struct iovec *pieces, unsigned count)
{
        struct tcp_stream *stream = tcp_of(base);

        return stream->ssl != NULL ? net_tls_receive(stream, pieces, count) : net_tcp_recv(stream, pieces, count);
}

static ssize_t tcp_send(struct net_stream *base, const struct iovec *pieces, unsigned count)
{
        struct tcp_stream *stream = tcp_of(base);
        struct msghdr message = {.msg_iov = (struct iovec *)pieces, .msg_iovlen = count};
        ssize_t sent;

        if (stream->ssl != NULL) {
                sent = net_tls_send(stream, pieces, count);
                if (stream->out_len > 0 && tcp_watch_wanted(stream) != 0)
                        stream->out_failed = -ENOMEM; /* the next call tells, where this one has sent something */
                return sent == -EAGAIN && stream->out_failed != 0 ? stream->out_failed : sent;
        }
        sent = sendmsg(stream->watch.fd, &message, MSG_NOSIGNAL);
        return sent >= 0 ? sent : errno == EINTR ? -EAGAIN : -errno;
}

static void tcp_want(struct net_stream *base, bool receive, bool send)
{
        struct tcp_stream *stream = tcp_of(base);

        stream->receives = receive;
        stream->sends = send;
        if (stream->state == TCP_READY)
                tcp_watch_wanted(
                        stream); /* without memory for the watch the connection falls silent, and ends for that */
}

static void tcp_leave(struct net_stream *base)
{
        tcp_watch(tcp_of(base), 0);
        base->loop = NULL;
}

static int tcp_join(struct net_stream *base, struct lp_loop *loop)
{
        base->loop = loop;
        return tcp_watch_wanted(tcp_of(base));
}

static bool tcp_is_named(struct net_stream *base, const char *name)
{
        return base->tls && net_tls_is_named(tcp_of(base), name);
}

static int tcp_export(struct net_stream *base, uint8_t out[NET_EXPORT_LEN])
{
        return base->tls ? net_tls_export(tcp_of(base), out) : -EPROTO;
}

/* ---- listening ------------------------------------------------------------------------------- */

/* owner: its loop */
struct tcp_listener {
        struct net_listener *listener;
        struct tcp_transport *transport;
        struct lp_loop *loop;
        struct lp_watch watch;
        struct lp_timer again; /* armed: there were no descriptors, and it is not watched */
        bool watched;
};

static void listener_again(struct lp_timer *timer)
{
        struct tcp_listener *l = container_of(timer, struct tcp_listener, again);

        l->watched = lp_watch_add(l->loop, &l->watch, EPOLLIN) == 0;
        if (!l->watched)
                lp_timer_start(l->loop, &l->again, NO_DESCRIPTORS_NS);
}

/* No descriptors, or no memory: those who wait to be accepted wait on, and the loop does not spin. */
static void listener_rest(struct tcp_listener *l)
{
        lp_watch_remove(l->loop, &l->watch);
        l->watched = false;
        lp_timer_start(l->loop, &l->again, NO_DESCRIPTORS_NS);
}

static bool tcp_accept_one(struct tcp_listener *l)
{
        struct sockaddr_storage from;
        socklen_t len = sizeof(from);
        struct tcp_stream *stream;
        int fd = accept4(l->watch.fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
                if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                        listener_rest(l);
                return errno == ECONNABORTED || errno == EINTR;
        }
        stream = tcp_stream_new(l->transport, l->loop, fd);
        if (stream == NULL) {
                close(fd);
                return true;
        }
        stream->state = TCP_SNIFFING;
        address_write((struct sockaddr *)&from, len, stream->base.remote, sizeof(stream->base.remote));
        if (tcp_watch(stream, EPOLLIN) != 0)
                tcp_close(&stream->base);
        else
                l->listener->accepted(l->listener, &stream->base);
        return true;
}

static void tcp_accept(struct lp_watch *watch, uint32_t events)
{
        struct tcp_listener *l = container_of(watch, struct tcp_listener, watch);
        unsigned i;

        for (i = 0; i < ACCEPTS && tcp_accept_one(l); i++)
                ;
}

static int socket_listen(char *address, size_t size)
{
        struct sockaddr_storage taken;
        socklen_t len = sizeof(taken);
        struct addrinfo *at;
        int rv = address_read(address, AI_PASSIVE, &at), fd, on = 1;

        if (rv != 0)
                return rv;
        fd = socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        rv = fd < 0 ? -errno : 0;
        if (rv == 0 && (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
                        bind(fd, at->ai_addr, at->ai_addrlen) < 0 || listen(fd, BACKLOG) < 0 ||
                        getsockname(fd, (struct sockaddr *)&taken, &len) < 0))
                rv = -errno;
        freeaddrinfo(at);
        if (rv != 0) {
                if (fd >= 0)
                        close(fd);
                return rv;
        }
        address_write((struct sockaddr *)&taken, len, address, size);
        return fd;
}

static int tcp_listen(struct net_transport *base, struct lp_loop *loop, struct net_listener *listener, char *address,
                      size_t size)
{
        struct tcp_listener *l = calloc(1, sizeof(*l));
        int rv;

        if (l == NULL)
                return -ENOMEM;
        rv = socket_listen(address, size);
        if (rv < 0) {
                free(l);
                return rv;
        }
        l->listener = listener;
        l->transport = container_of(base, struct tcp_transport, base);
        l->loop = loop;
        l->watch = (struct lp_watch){.fd = rv, .ready = tcp_accept};
        l->again.expired = listener_again;
        listener->transport_data = l;
        listener_again(&l->again);
        return 0;
}

static void tcp_unlisten(struct net_transport *base, struct net_listener *listener)
{
        struct tcp_listener *l = listener->transport_data;

        lp_timer_stop(l->loop, &l->again);
        if (l->watched)
                lp_watch_remove(l->loop, &l->watch);
        close(l->watch.fd);
        free(l);
}

/* ---- life ------------------------------------------------------------------------------------ */

static const struct net_transport_ops tcp_ops = {
        .listen = tcp_listen,
        .unlisten = tcp_unlisten,
        .connect = tcp_connect,
        .handshake = tcp_handshake,
        .is_named = tcp_is_named,
        .export_secret = tcp_export,
        .receive = tcp_receive,
        .send = tcp_send,
        .want = tcp_want,
        .leave = tcp_leave,
        .join = tcp_join,
        .close = tcp_close,
};

int net_tcp_new(const struct net_tcp_options *options, struct net_transport **out, char *why, size_t why_size)
{
        struct tcp_transport *transport = calloc(1, sizeof(*transport));
        int rv;

        snprintf(why, why_size, "no memory");
        if (transport == NULL)
                return -ENOMEM;
        transport->base.ops = &tcp_ops;
        pthread_mutex_init(&transport->lock, NULL);
        rv = net_tls_context(transport, options, why, why_size);
        if (rv != 0)
                net_tcp_free(&transport->base);
        else
                *out = &transport->base;
        return rv;
}

int net_tcp_check(struct net_transport *base, const char *name, char *why, size_t why_size)
{
        return net_tls_check(container_of(base, struct tcp_transport, base)->context, name, why, why_size);
}

int net_tcp_renew(struct net_transport *base, const struct net_tcp_options *options, const char *name, char *why, size_t why_size)
{
        return net_tls_renew(container_of(base, struct tcp_transport, base), options, name, why, why_size);
}

void net_tcp_free(struct net_transport *base)
{
        struct tcp_transport *transport;

        if (base == NULL)
                return;
        transport = container_of(base, struct tcp_transport, base);
        net_tls_context_free(transport);
        free(transport);
}
