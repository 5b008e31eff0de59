/*
 * load_tls.h - a connection's bytes through OpenSSL, without blocking. Private to this folder;
 * everything is the running thread's.
 */
#ifndef LOAD_TLS_H
#define LOAD_TLS_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "load.h"

struct load_tls;
struct ssl_st;

/* why: a line for people. -EINVAL: the CA file; -ENOMEM. */
int load_tls_new(const struct load_settings *settings, struct load_tls **out, char *why, size_t why_size);
void load_tls_free(struct load_tls *tls); /* NULL is allowed */

/* Puts TLS onto a socket that connects; the certificate has to be the host's. NULL: no memory. */
struct ssl_st *load_tls_open(struct load_tls *tls, int fd, const char *host);
void load_tls_close(struct ssl_st *ssl); /* NULL is allowed; the socket stays open */

/* 1: done; 0: goes on at the socket's next event; -EPROTO, why being a line for people. */
int load_tls_shake_hands(struct ssl_st *ssl, char *why, size_t why_size);
/*
 * As sendmsg() and recv() on the socket, errno included. What was not sent must come first the next
 * time.
 */
ssize_t load_tls_send(struct load_tls *tls, struct ssl_st *ssl, const struct iovec *piece, int count);
ssize_t load_tls_receive(struct ssl_st *ssl, void *out, size_t size);

#endif
