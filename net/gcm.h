/*
 * gcm.h - AES-128-GCM by a library that uses all that the processor has. Private to this folder.
 */
#ifndef MILLRACE_NET_GCM_H
#define MILLRACE_NET_GCM_H

#include <openssl/provider.h>

/* What ciphers are fetched by from the context below: ours first. */
#define NET_GCM_PROPERTIES "?provider=millrace"

/*
 * A library context of OpenSSL's that has its default algorithms and, where the processor has AVX2,
 * AES-128-GCM by intel-ipsec-mb. It reads no openssl.cnf. Its objects may be used by any thread.
 */
struct net_gcm {
        OSSL_LIB_CTX *context;
        OSSL_PROVIDER *theirs, *ours; /* ours NULL: there is OpenSSL's own cipher alone */
};

/* Zeroed. -ENOMEM: no memory, or OpenSSL cannot be used; net_gcm_end() is called in any case. */
int net_gcm_begin(struct net_gcm *gcm);
/* After all that was made with it, and when all threads that used it have ended or go on using OpenSSL with nothing of it. */
void net_gcm_end(struct net_gcm *gcm);

#endif
