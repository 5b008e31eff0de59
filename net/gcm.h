/*
 * gcm.h - AES-128-GCM by a library that uses all that the processor has. Private to this folder.
 */
#ifndef MILLRACE_NET_GCM_H
#define MILLRACE_NET_GCM_H

#include <openssl/types.h>

/* What ciphers are fetched by from the context below: ours first. */
#define NET_GCM_PROPERTIES "?provider=millrace"

/*
 * A library context of OpenSSL's that has its default algorithms, and AES-128-GCM by
 * intel-ipsec-mb. Its objects may be used by any thread, as OpenSSL says. NULL: no memory, or OpenSSL
 * cannot be used. OSSL_LIB_CTX_free() frees it after all that was made with it.
 */
OSSL_LIB_CTX *net_gcm_context(void);

#endif
