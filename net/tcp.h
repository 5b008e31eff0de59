/*
 * tcp.h - a TCP stream and the TLS on it, between tcp.c and tls.c. Private to this folder.
 */
#ifndef MILLRACE_NET_TCP_H
#define MILLRACE_NET_TCP_H

#include <openssl/ssl.h>
#include <pthread.h>

#include "net/gcm.h"
#include "net_transport.h"

enum tcp_state {
        TCP_CONNECTING,
        TCP_SNIFFING, /* accepted: the first byte tells whether it is TLS */
        TCP_SHAKING,  /* TLS */
        TCP_READY
};

struct tcp_transport {
        struct net_transport base;
        struct net_gcm library;
        pthread_mutex_t lock; /* over `context`, which sessions keep: held for a few instructions */
        SSL_CTX *context;     /* one for both sides; never changed, but another takes its place */
        BIO_METHOD *method;
};

/* owner: its loop */
struct tcp_stream {
        struct net_stream base;
        struct tcp_transport *transport;
        struct lp_watch watch;
        uint32_t events; /* watched for; 0: not watched */
        enum tcp_state state;
        bool wants_tls, receives, sends;
        bool drained; /* the socket gave less than there was room for: it has no more until its next event */
        SSL *ssl;
        /* Encrypted bytes that the socket has not taken: at out + out_at, out_len of them. */
        char *out;
        size_t out_at, out_len;
        int out_failed; /* they do not leave any more, for this reason */
};

/*
 * Bytes of the socket, 0 at its end; -EAGAIN: there are none, or those that there were are read. What comes later is an
 * event (epoll is level-triggered), so the socket is not asked once more only to hear that.
 */
ssize_t net_tcp_recv(struct tcp_stream *stream, const struct iovec *pieces, unsigned count);
/* A line for people about the last failure, in stream->why. Returns rv. */
int net_stream_failed(struct net_stream *stream, int rv, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Files that cannot be used: -EINVAL. */
int net_tls_context(struct tcp_transport *transport, const struct net_tcp_options *options, char *why, size_t why_size);
/* As net_tcp_renew(). */
int net_tls_renew(struct tcp_transport *transport, const struct net_tcp_options *options, const char *name, char *why, size_t why_size);
/* As net_tcp_check(). */
int net_tls_check(SSL_CTX *context, const char *name, char *why, size_t why_size);
void net_tls_context_free(struct tcp_transport *transport);
int net_tls_begin(struct tcp_stream *stream, bool accepts);
void net_tls_end(struct tcp_stream *stream);
/* 1: done, 0: goes on later; or a negative errno. */
int net_tls_shake(struct tcp_stream *stream);
ssize_t net_tls_receive(struct tcp_stream *stream, const struct iovec *pieces, unsigned count);
ssize_t net_tls_send(struct tcp_stream *stream, const struct iovec *pieces, unsigned count);
/* What is encrypted goes to the socket as far as that takes it. 0 or a negative errno. */
int net_tls_flush(struct tcp_stream *stream);
/* Both ends have shown the same certificate. */
bool net_tls_is_same_cert(struct tcp_stream *stream);
bool net_tls_is_named(struct tcp_stream *stream, const char *name);
int net_tls_export(struct tcp_stream *stream, uint8_t out[NET_EXPORT_LEN]);

#endif
