/*
 * net_transport.h - what net/ needs of a network: streams of bytes between two nodes, and who the
 * other end is.
 *
 * net_tcp_new() makes the real one: TCP, and TLS 1.3 by OpenSSL. A simulator gives another, with
 * latency, cuts, resets that deliver old bytes late, and bits that flip; everything above (frames,
 * greetings, calls, back-off) is the same code then, and takes time and chance from loop.h alone.
 *
 * A stream belongs to one loop, on whose thread all its functions are called. Errors are negative
 * errno values; a function that fails may leave a line for people in stream->why.
 */
#ifndef MILLRACE_NET_TRANSPORT_H
#define MILLRACE_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "loop.h"

#define NET_REMOTE_MAX 64u /* with the final 0 */
#define NET_WHY_MAX    128u
#define NET_EXPORT_LEN 32u

struct net_transport_ops;

/* What every transport has; its own fields follow. */
struct net_transport {
        const struct net_transport_ops *ops;
};

/* The first member of a transport's own stream. owner: the stream's loop. */
struct net_stream {
        const struct net_transport_ops *ops;
        struct lp_loop *loop; /* NULL between leave() and join() */
        /* Set by net/, before the first event: something may go on, of what want() asked for. Never inside another function. */
        void (*ready)(struct net_stream *stream);
        void *user;                  /* of net/ */
        bool tls;                    /* known when handshake() has returned 1 */
        /*
         * Known then, too: both ends have one address, so that its bytes do not leave the machine, and, with
         * TLS, have shown one certificate: they are processes of one node.
         */
        bool same_node;
        char remote[NET_REMOTE_MAX]; /* "192.0.2.7:7000" */
        char why[NET_WHY_MAX];
};

struct net_listener {
        /* On its loop; the stream is the callee's to close. */
        void (*accepted)(struct net_listener *listener, struct net_stream *stream);
        void *transport_data;
};

struct net_transport_ops {
        /*
         * From here on accepted() is called, on this loop's thread, where both are called. address:
         * "HOST:PORT"; port 0: any, and the one that was taken is written there (size bytes).
         */
        int (*listen)(struct net_transport *transport, struct lp_loop *loop, struct net_listener *listener,
                      char *address, size_t size);
        void (*unlisten)(struct net_transport *transport, struct net_listener *listener);
        /* Begins to connect on the calling loop; handshake() tells when it is. tls: false for a plain one. */
        int (*connect)(struct net_transport *transport, struct lp_loop *loop, const char *address, bool tls,
                       struct net_stream **out);
        /*
         * 1: connected, and with TLS the other end has shown a certificate that our CA signed. 0:
         * goes on when ready() is called. An accepted stream finds out here whether it is TLS.
         */
        int (*handshake)(struct net_stream *stream);
        /* Its certificate is for this name. False without TLS. */
        bool (*is_named)(struct net_stream *stream, const char *name);
        /* A secret that only the two ends of this TLS session know: the same at both. */
        int (*export_secret)(struct net_stream *stream, uint8_t out[NET_EXPORT_LEN]);
        /* Bytes moved; -EAGAIN: none now. receive() 0: the other end has closed. At most 64 pieces. */
        ssize_t (*receive)(struct net_stream *stream, const struct iovec *pieces, unsigned count);
        /* Bytes that were not taken come first the next time, at the same place. */
        ssize_t (*send)(struct net_stream *stream, const struct iovec *pieces, unsigned count);
        /* What ready() is wanted for. During the handshake: for whatever that needs. */
        void (*want)(struct net_stream *stream, bool receive, bool send);
        /* Takes it off its loop; then, on the other's thread, onto that. No bytes are read in between. */
        void (*leave)(struct net_stream *stream);
        int (*join)(struct net_stream *stream, struct lp_loop *loop);
        /* Ends and frees it, at any time; ready() is not called any more. */
        void (*close)(struct net_stream *stream);
};

/* ---- the real one ---------------------------------------------------------------------------- */

/* Files in PEM form. The process must ignore SIGPIPE. */
struct net_tcp_options {
        const char *ca_file, *cert_file, *key_file;
};

/* Any thread. -EINVAL: a file cannot be used, why has a line; -ENOMEM. */
int net_tcp_new(const struct net_tcp_options *options, struct net_transport **out, char *why, size_t why_size);
/*
 * Whether other nodes would take this certificate: it is for `name` as they look at it (no wildcard, no common
 * name), its CA has signed it for both ends of a connection, and it is valid now. Any thread. -EACCES: why has a line.
 */
int net_tcp_check(struct net_transport *transport, const char *name, char *why, size_t why_size);
/*
 * Reads the files again: connections that are made from now on show and trust what they have; those that are open stay. Nothing
 * is changed where they cannot be used (as net_tcp_new()), or other nodes would not take them (as net_tcp_check()). One thread.
 */
int net_tcp_renew(struct net_transport *transport, const struct net_tcp_options *options, const char *name, char *why, size_t why_size);
/* After all its streams and listeners were closed, and the threads of their loops have ended. NULL is allowed. */
void net_tcp_free(struct net_transport *transport);

#endif
