/*
 * tls.c - TLS 1.3 on a TCP stream: both ends show certificates that one CA signed. Called by tcp.c,
 * on the stream's loop.
 *
 * OpenSSL reads from the socket and writes into a buffer of the stream, which leaves with one call
 * for many records. So what the caller's bytes were encrypted into is out of the caller's memory at
 * once, and a socket that takes nothing never leaves OpenSSL in the middle of a record.
 */
#include "net/tcp.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define RECORD_MOST  16384u
#define RECORD_ROOM  (RECORD_MOST + 256u) /* with its head and tag */
#define OUT_MOST     (128u << 10)         /* not added to beyond that */
#define OUT_ROOM     (OUT_MOST + RECORD_ROOM)
#define READ_AHEAD   (64u << 10)
#define RECEIVE_MOST (256u << 10) /* of one call */
#define EXPORT_LABEL "EXPORTER-millrace-bulk-1"

/* ---- between OpenSSL and the socket ---------------------------------------------------------- */

static int socket_bio_write(BIO *bio, const char *data, int len)
{
        struct tcp_stream *stream = BIO_get_data(bio);

        if (stream->out_at > 0 && (size_t)len > OUT_ROOM - stream->out_at - stream->out_len) {
                memmove(stream->out, stream->out + stream->out_at, stream->out_len);
                stream->out_at = 0;
        }
        if (len < 0 || (size_t)len > OUT_ROOM - stream->out_at - stream->out_len)
                return -1; /* a handshake that does not end, or a peer that makes us answer without reading: it fails */
        memcpy(stream->out + stream->out_at + stream->out_len, data, (size_t)len);
        stream->out_len += (size_t)len;
        return len;
}

static int socket_bio_read(BIO *bio, char *data, int len)
{
        struct tcp_stream *stream = BIO_get_data(bio);
        ssize_t got = net_tcp_recv(stream, &(struct iovec){data, (size_t)len}, 1);

        BIO_clear_retry_flags(bio);
        if (got == -EAGAIN)
                BIO_set_retry_read(bio);
        errno = got < 0 ? (int)-got : 0;
        return got < 0 ? -1 : (int)got;
}

static long socket_bio_ctrl(BIO *bio, int what, long number, void *pointer)
{
        return what == BIO_CTRL_FLUSH; /* the rest is not asked for, or "no" is right */
}

int net_tls_flush(struct tcp_stream *stream)
{
        ssize_t sent;

        if (stream->out_failed != 0)
                return stream->out_failed;
        while (stream->out_len > 0) {
                sent = send(stream->watch.fd, stream->out + stream->out_at, stream->out_len, MSG_NOSIGNAL);
                if (sent < 0 && errno == EINTR)
                        continue;
                if (sent < 0 && errno == EAGAIN)
                        return 0;
                if (sent < 0)
                        return stream->out_failed = -errno;
                stream->out_at += (size_t)sent;
                stream->out_len -= (size_t)sent;
        }
        stream->out_at = 0;
        return 0;
}

/* ---- context --------------------------------------------------------------------------------- */

static int context_failed(char *why, size_t why_size, const char *what, const char *file)
{
        unsigned long code = ERR_peek_last_error();

        snprintf(why, why_size, "%s %s: %s", what, file, code != 0 ? ERR_reason_error_string(code) : "cannot be used");
        ERR_clear_error();
        return -EINVAL;
}

static int context_files(SSL_CTX *context, const struct net_tcp_options *options, char *why, size_t why_size)
{
        if (SSL_CTX_load_verify_file(context, options->ca_file) != 1)
                return context_failed(why, why_size, "the cluster's CA", options->ca_file);
        if (SSL_CTX_use_certificate_chain_file(context, options->cert_file) != 1)
                return context_failed(why, why_size, "this node's certificate", options->cert_file);
        if (SSL_CTX_use_PrivateKey_file(context, options->key_file, SSL_FILETYPE_PEM) != 1 ||
            SSL_CTX_check_private_key(context) != 1)
                return context_failed(why, why_size, "this node's key", options->key_file);
        return 0;
}

/* NULL: *rv is -ENOMEM, or -EINVAL for a file, and why has a line. */
static SSL_CTX *context_make(struct tcp_transport *transport, const struct net_tcp_options *options, int *rv, char *why, size_t why_size)
{
        SSL_CTX *context = SSL_CTX_new_ex(transport->library.context, NET_GCM_PROPERTIES, TLS_method());

        *rv = -ENOMEM;
        snprintf(why, why_size, "no memory");
        if (context == NULL)
                return NULL;
        SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION);
        SSL_CTX_set_ciphersuites(context, "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256");
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_num_tickets(context, 0); /* every connection shows its certificates */
        SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE);
        SSL_CTX_set_read_ahead(context, 1);
        SSL_CTX_set_default_read_buffer_len(context, READ_AHEAD);
        *rv = context_files(context, options, why, why_size);
        if (*rv == 0)
                return context;
        SSL_CTX_free(context);
        return NULL;
}

int net_tls_context(struct tcp_transport *transport, const struct net_tcp_options *options, char *why, size_t why_size)
{
        int rv = -ENOMEM;

        snprintf(why, why_size, "no memory");
        if (net_gcm_begin(&transport->library) != 0)
                return -ENOMEM;
        transport->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "millrace socket");
        if (transport->method == NULL)
                return -ENOMEM;
        BIO_meth_set_write(transport->method, socket_bio_write);
        BIO_meth_set_read(transport->method, socket_bio_read);
        BIO_meth_set_ctrl(transport->method, socket_bio_ctrl);
        transport->context = context_make(transport, options, &rv, why, why_size);
        return transport->context != NULL ? 0 : rv;
}

int net_tls_renew(struct tcp_transport *transport, const struct net_tcp_options *options, const char *name, char *why, size_t why_size)
{
        int rv;
        SSL_CTX *context = context_make(transport, options, &rv, why, why_size), *before;

        if (context == NULL)
                return rv;
        rv = net_tls_check(context, name, why, why_size);
        if (rv != 0) {
                SSL_CTX_free(context);
                return rv;
        }
        pthread_mutex_lock(&transport->lock);
        before = transport->context;
        transport->context = context;
        pthread_mutex_unlock(&transport->lock);
        SSL_CTX_free(before); /* sessions that were made of it have it still */
        return 0;
}

void net_tls_context_free(struct tcp_transport *transport)
{
        SSL_CTX_free(transport->context);
        BIO_meth_free(transport->method);
        net_gcm_end(&transport->library);
        pthread_mutex_destroy(&transport->lock);
}

/* ---- sessions -------------------------------------------------------------------------------- */

int net_tls_begin(struct tcp_stream *stream, bool accepts)
{
        BIO *bio;

        stream->out = malloc(OUT_ROOM);
        pthread_mutex_lock(&stream->transport->lock);
        stream->ssl = SSL_new(stream->transport->context);
        pthread_mutex_unlock(&stream->transport->lock);
        bio = BIO_new(stream->transport->method);
        if (stream->out == NULL || stream->ssl == NULL || bio == NULL) {
                BIO_free(bio);
                return -ENOMEM; /* the rest goes with the stream */
        }
        BIO_set_data(bio, stream);
        BIO_set_init(bio, 1);
        SSL_set_bio(stream->ssl, bio, bio);
        if (accepts)
                SSL_set_accept_state(stream->ssl);
        else
                SSL_set_connect_state(stream->ssl);
        return 0;
}

/* The other end is told that it is the end, or why, if the socket takes that now. */
void net_tls_end(struct tcp_stream *stream)
{
        if (stream->ssl != NULL && stream->state == TCP_READY && stream->out_len == 0) {
                ERR_clear_error();
                SSL_shutdown(stream->ssl);
        }
        if (stream->ssl != NULL)
                net_tls_flush(stream);
        SSL_free(stream->ssl);
        free(stream->out);
        ERR_clear_error();
}

/* Before a call whose failure is to be told by what it leaves there. Clearing costs as much as a small record. */
static void tls_no_errors(void)
{
        if (ERR_peek_error() != 0)
                ERR_clear_error();
        errno = 0;
}

/* What a call that did not move bytes says, as the socket would. */
static int tls_failed(struct tcp_stream *stream, int rv)
{
        int code = SSL_get_error(stream->ssl, rv), error = errno;
        unsigned long queued = ERR_peek_error();
        long verified = SSL_get_verify_result(stream->ssl);

        tls_no_errors();
        if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
                return -EAGAIN;
        if (code == SSL_ERROR_ZERO_RETURN)
                return net_stream_failed(&stream->base, -ECONNRESET, "the other end closed it");
        if (verified != X509_V_OK)
                return net_stream_failed(&stream->base, -EPROTO, "its certificate: %s",
                                         X509_verify_cert_error_string(verified));
        if (code == SSL_ERROR_SYSCALL && queued == 0)
                return error != 0 && error != EAGAIN ? -error : -ECONNRESET;
        return net_stream_failed(&stream->base, -EPROTO, "TLS: %s",
                                 queued != 0 ? ERR_reason_error_string(queued) : "failed");
}

int net_tls_shake(struct tcp_stream *stream)
{
        int rv, flushed;

        tls_no_errors();
        rv = SSL_do_handshake(stream->ssl);
        if (rv != 1)
                rv = tls_failed(stream, rv);
        flushed = net_tls_flush(stream); /* an alert, too */
        if (rv == 1)
                return flushed != 0 ? flushed : 1;
        return rv != -EAGAIN ? rv : flushed;
}

ssize_t net_tls_receive(struct tcp_stream *stream, const struct iovec *pieces, unsigned count)
{
        size_t sum = 0, at, got;
        unsigned i;
        int rv;

        for (i = 0; i < count; i++)
                for (at = 0; at < pieces[i].iov_len; at += got, sum += got) {
                        if (sum >= RECEIVE_MOST)
                                return (ssize_t)sum;
                        tls_no_errors();
                        rv = SSL_read_ex(stream->ssl, (char *)pieces[i].iov_base + at, pieces[i].iov_len - at, &got);
                        if (rv != 1)
                                return sum > 0 ? (ssize_t)sum : tls_failed(stream, rv);
                }
        return (ssize_t)sum;
}

/* Small pieces go into one record. Returns what of them is in *record, or points to the one that fills it. */
static size_t tls_record(const struct iovec *pieces, unsigned count, size_t skip, char *copy, const char **record)
{
        size_t len = 0;
        unsigned i;

        for (i = 0; i < count && len < RECORD_MOST; i++) {
                const char *from = pieces[i].iov_base;
                size_t n = pieces[i].iov_len;

                if (skip >= n) {
                        skip -= n;
                        continue;
                }
                from += skip;
                n -= skip;
                skip = 0;
                n = n < RECORD_MOST - len ? n : RECORD_MOST - len;
                if (len == 0 && n == RECORD_MOST) {
                        *record = from;
                        return n;
                }
                memcpy(copy + len, from, n);
                len += n;
        }
        *record = copy;
        return len;
}

ssize_t net_tls_send(struct tcp_stream *stream, const struct iovec *pieces, unsigned count)
{
        char copy[RECORD_MOST];
        const char *record;
        size_t sum = 0, len, written;
        int rv = net_tls_flush(stream);

        if (rv != 0)
                return rv;
        while (stream->out_len < OUT_MOST && (len = tls_record(pieces, count, sum, copy, &record)) > 0) {
                tls_no_errors();
                rv = SSL_write_ex(stream->ssl, record, len, &written);
                if (rv != 1)
                        return sum > 0 ? (ssize_t)sum : tls_failed(stream, rv);
                sum += written;
        }
        rv = net_tls_flush(stream);
        if (sum > 0)
                return (ssize_t)sum; /* if that failed, some of them may have left: the next call tells */
        return rv != 0 ? rv : -EAGAIN;
}

/* ---- who it is ------------------------------------------------------------------------------- */

static bool cert_is_named(X509 *cert, const char *name)
{
        uint8_t address[16];

        if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
                return X509_check_ip_asc(cert, name, 0) == 1;
        return X509_check_host(cert, name, 0, X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT,
                               NULL) == 1;
}

bool net_tls_is_same_cert(struct tcp_stream *stream)
{
        X509 *theirs = SSL_get0_peer_certificate(stream->ssl), *ours = SSL_get_certificate(stream->ssl);

        return theirs != NULL && ours != NULL && X509_cmp(theirs, ours) == 0;
}

bool net_tls_is_named(struct tcp_stream *stream, const char *name)
{
        X509 *cert = SSL_get0_peer_certificate(stream->ssl);

        return cert != NULL && cert_is_named(cert, name);
}

int net_tls_export(struct tcp_stream *stream, uint8_t out[NET_EXPORT_LEN])
{
        int rv = SSL_export_keying_material(stream->ssl, out, NET_EXPORT_LEN, EXPORT_LABEL, sizeof(EXPORT_LABEL) - 1,
                                            NULL, 0, 0);

        ERR_clear_error();
        return rv == 1 ? 0 : -EPROTO;
}

/* As a peer does that sees it as a server's, or as a client's. An error of X509_V_*; -1: no memory. */
static int cert_verify(SSL_CTX *context, X509 *cert, int purpose)
{
        X509_STORE_CTX *verify = X509_STORE_CTX_new();
        STACK_OF(X509) *chain = NULL;
        int error = -1;

        SSL_CTX_get0_chain_certs(context, &chain);
        if (verify != NULL && X509_STORE_CTX_init(verify, SSL_CTX_get_cert_store(context), cert, chain) == 1 &&
            X509_STORE_CTX_set_purpose(verify, purpose) == 1) {
                X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(verify), SSL_CTX_get_security_level(context));
                error = X509_verify_cert(verify) == 1 ? X509_V_OK : X509_STORE_CTX_get_error(verify);
        }
        X509_STORE_CTX_free(verify);
        ERR_clear_error();
        return error;
}

int net_tls_check(SSL_CTX *context, const char *name, char *why, size_t why_size)
{
        X509 *cert = SSL_CTX_get0_certificate(context);
        int error = cert_verify(context, cert, X509_PURPOSE_SSL_SERVER);

        if (error == X509_V_OK)
                error = cert_verify(context, cert, X509_PURPOSE_SSL_CLIENT);
        if (error != X509_V_OK) {
                snprintf(why, why_size, "other nodes would refuse it: %s", error > 0 ? X509_verify_cert_error_string(error) : "it cannot be verified");
                return -EACCES;
        }
        if (cert_is_named(cert, name))
                return 0;
        snprintf(why, why_size, "it is not for %s, this node's name", name);
        return -EACCES;
}
