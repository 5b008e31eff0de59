/*
 * HMAC-SHA256 (RFC 2104) for SigV4: derives keys and signs. Pure; any thread.
 */
#include "sha256.h"

#include <openssl/crypto.h>

#define BLOCK 64u

void s3_hmac_sha256(const uint8_t *key, size_t key_len, const void *data, size_t len, uint8_t out[S3_SHA256_LEN])
{
        uint8_t block[BLOCK] = {0}, pad[BLOCK];
        SHA256_CTX hash;

        if (key_len > BLOCK) {
                SHA256_Init(&hash);
                SHA256_Update(&hash, key, key_len);
                SHA256_Final(block, &hash);
        } else if (key_len > 0) {
                memcpy(block, key, key_len);
        }
        for (unsigned i = 0; i < BLOCK; i++)
                pad[i] = block[i] ^ 0x36;
        SHA256_Init(&hash);
        SHA256_Update(&hash, pad, BLOCK);
        if (len > 0)
                SHA256_Update(&hash, data, len);
        SHA256_Final(out, &hash);
        for (unsigned i = 0; i < BLOCK; i++)
                pad[i] = block[i] ^ 0x5c;
        SHA256_Init(&hash);
        SHA256_Update(&hash, pad, BLOCK);
        SHA256_Update(&hash, out, S3_SHA256_LEN);
        SHA256_Final(out, &hash);
        OPENSSL_cleanse(block, sizeof(block));
        OPENSSL_cleanse(pad, sizeof(pad));
        OPENSSL_cleanse(&hash, sizeof(hash));
}

bool s3_equal_secret(const void *a, const void *b, size_t len)
{
        return CRYPTO_memcmp(a, b, len) == 0;
}
