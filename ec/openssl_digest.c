/*
 * openssl_digest.c - MD5, SHA-1, SHA-256 and SHA-512 by OpenSSL.
 *
 * Called on any thread; one digest by one thread at a time. The algorithms are fetched once:
 * looking them up by name for each digest costs more than hashing a small object does.
 */
#include "ec/ec_internal.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>

struct era_digest {
        EVP_MD_CTX *ctx;
        const EVP_MD *md;
};

static const char *const names[] = {
        [ERA_MD5] = "MD5", [ERA_SHA1] = "SHA1", [ERA_SHA256] = "SHA256", [ERA_SHA512] = "SHA512"};

/*
 * Constant after digest_fetch(). NULL: this OpenSSL does not give it (a FIPS provider has no MD5).
 */
static EVP_MD *fetched[sizeof(names) / sizeof(names[0])];
static pthread_once_t fetch_once = PTHREAD_ONCE_INIT;

static void digest_fetch(void)
{
        size_t i;

        for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                fetched[i] = EVP_MD_fetch(NULL, names[i], NULL);
}

static const EVP_MD *algorithm(enum era_digest_kind kind)
{
        pthread_once(&fetch_once, digest_fetch);
        return fetched[kind];
}

int era_digest_new(enum era_digest_kind kind, struct era_digest **out)
{
        struct era_digest *digest;
        int rv = -ENOMEM;

        digest = malloc(sizeof(*digest));
        if (digest == NULL)
                return -ENOMEM;
        digest->md = algorithm(kind);
        if (digest->md == NULL) {
                rv = -ENOTSUP;
                goto err_free;
        }
        digest->ctx = EVP_MD_CTX_new();
        if (digest->ctx == NULL)
                goto err_free;
        if (EVP_DigestInit_ex(digest->ctx, digest->md, NULL) != 1)
                goto err_ctx;
        *out = digest;
        return 0;

err_ctx:
        EVP_MD_CTX_free(digest->ctx);
err_free:
        free(digest);
        return rv;
}

void era_digest_free(struct era_digest *digest)
{
        if (digest == NULL)
                return;
        EVP_MD_CTX_free(digest->ctx);
        free(digest);
}

/* The asserts below: on a context that was set up once these cannot fail, whatever the data. */

void era_digest_reset(struct era_digest *digest)
{
        int ok = EVP_DigestInit_ex(digest->ctx, digest->md, NULL);

        assert(ok == 1);
}

void era_digest_update(struct era_digest *digest, const void *buf, size_t len)
{
        int ok = EVP_DigestUpdate(digest->ctx, buf, len);

        assert(ok == 1);
}

size_t era_digest_final(struct era_digest *digest, uint8_t out[ERA_DIGEST_MAX])
{
        unsigned size = 0;
        int ok = EVP_DigestFinal_ex(digest->ctx, out, &size);

        assert(ok == 1);
        return size;
}

size_t era_digest_of(enum era_digest_kind kind, const void *buf, size_t len, uint8_t out[ERA_DIGEST_MAX])
{
        unsigned size = 0;
        int ok = EVP_Digest(buf, len, out, &size, algorithm(kind), NULL);

        assert(ok == 1);
        return size;
}
