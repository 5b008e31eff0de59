/*
 * SHA-256 and HMAC on values of the caller's. OpenSSL's low-level functions are deprecated but need
 * neither an allocation nor a look-up under a lock: measured per 200 bytes, 0.15 us against 0.36 us
 * (EVP) for the hash, 0.3 against 1.1 for HMAC(). Every request passes here several times. This is
 * the only place that uses them.
 */
#ifndef S3_SHA256_H
#define S3_SHA256_H

#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "s3_internal.h"

void s3_hmac_sha256(const uint8_t *key, size_t key_len, const void *data, size_t len, uint8_t out[S3_SHA256_LEN]);

#endif
