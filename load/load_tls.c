/*
 * load_tls.c - TLS for the load generator: a client's side of OpenSSL on sockets that do not block.
 * Called by run.c alone, on the running thread.
 */
#include "load/load_tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD 16384u /* bytes of a TLS record */

/* Owner: the run. */
struct load_tls {
        SSL_CTX *context;
        char record[RECORD]; /* small pieces go out as one record */
};

static void last_error(char *why, size_t why_size)
{
        unsigned long code = ERR_peek_error();

        snprintf(why, why_size, "%s", code != 0 ? ERR_reason_error_string(code) : "the connection was closed");
        ERR_clear_error();
}

int load_tls_new(const struct load_settings *settings, struct load_tls **out, char *why, size_t why_size)
{
        bool own = settings->ca_file != NULL && settings->ca_file[0] != '\0';
        struct load_tls *tls = calloc(1, sizeof(*tls));
        int rv = -ENOMEM;

        snprintf(why, why_size, "no memory");
        if (tls == NULL)
                return rv;
        tls->context = SSL_CTX_new(TLS_client_method());
        if (tls->context == NULL)
                goto err_free;
        SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                               SSL_MODE_RELEASE_BUFFERS);
        SSL_CTX_set_verify(tls->context, SSL_VERIFY_PEER, NULL);
        if (own ? SSL_CTX_load_verify_file(tls->context, settings->ca_file) != 1
                : SSL_CTX_set_default_verify_paths(tls->context) != 1) {
                ERR_clear_error();
                snprintf(why, why_size, "%s holds no certificate that can be read",
                         own ? settings->ca_file : "the system's store");
                rv = -EINVAL;
                goto err_context;
        }
        *out = tls;
        return 0;

err_context:
        SSL_CTX_free(tls->context);
err_free:
        free(tls);
        return rv;
}

void load_tls_free(struct load_tls *tls)
{
        if (tls == NULL)
                return;
        SSL_CTX_free(tls->context);
        free(tls);
}

struct ssl_st *load_tls_open(struct load_tls *tls, int fd, const char *host)
{
        SSL *ssl = SSL_new(tls->context);
        uint8_t address[16];
        int named;

        if (ssl == NULL)
                return NULL;
        if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1)
                named = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host);
        else
                named = SSL_set_tlsext_host_name(ssl, host) == 1 && SSL_set1_host(ssl, host) == 1;
        if (named != 1 || SSL_set_fd(ssl, fd) != 1) {
                SSL_free(ssl);
                ERR_clear_error();
                return NULL;
        }
        SSL_set_connect_state(ssl);
        return ssl;
}

void load_tls_close(struct ssl_st *ssl)
{
        SSL_free(ssl);
}

int load_tls_shake_hands(struct ssl_st *ssl, char *why, size_t why_size)
{
        int rv = SSL_do_handshake(ssl), code;
        long verified;

        if (rv == 1)
                return 1;
        code = SSL_get_error(ssl, rv);
        if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
                return 0;
        verified = SSL_get_verify_result(ssl);
        last_error(why, why_size);
        if (verified != X509_V_OK)
                snprintf(why, why_size, "certificate: %s", X509_verify_cert_error_string(verified));
        return -EPROTO;
}

/* What a call that did not move bytes says, as the socket would. */
static ssize_t load_tls_failed(SSL *ssl, int rv)
{
        int code = SSL_get_error(ssl, rv), error = errno;

        ERR_clear_error();
        if (code == SSL_ERROR_ZERO_RETURN)
                return 0;
        if (code == SSL_ERROR_WANT_READ || code == SSL_ERROR_WANT_WRITE)
                errno = EAGAIN;
        else
                errno = code == SSL_ERROR_SYSCALL && error != 0 && error != EAGAIN ? error : ECONNRESET;
        return -1;
}

ssize_t load_tls_send(struct load_tls *tls, struct ssl_st *ssl, const struct iovec *piece, int count)
{
        const void *data = piece[0].iov_base;
        size_t len = piece[0].iov_len, written;
        int rv;

        if (len < RECORD &&
            count > 1) { /* a head and the first bytes of a body: the same again when it has to be repeated */
                len = 0;
                for (int i = 0; i < count && len < RECORD; i++) {
                        size_t n = piece[i].iov_len < RECORD - len ? piece[i].iov_len : RECORD - len;

                        memcpy(tls->record + len, piece[i].iov_base, n);
                        len += n;
                }
                data = tls->record;
        }
        errno = 0;
        rv = SSL_write_ex(ssl, data, len, &written);
        return rv == 1 ? (ssize_t)written : load_tls_failed(ssl, rv);
}

ssize_t load_tls_receive(struct ssl_st *ssl, void *out, size_t size)
{
        size_t got;
        int rv;

        errno = 0;
        rv = SSL_read_ex(ssl, out, size, &got);
        return rv == 1 ? (ssize_t)got : load_tls_failed(ssl, rv);
}
