/*
 * xxhash.c - XXH64, XXH3 and XXH128 by libxxhash, for the checksums of S3.
 *
 * Called on any thread; one hash by one thread at a time.
 */
#include "ec.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* owner: whoever made it. One of the states is there, as the kind wants. */
struct era_xxhash {
        enum era_xxhash_kind kind;
        XXH64_state_t *state64;
        XXH3_state_t *state3; /* of XXH3 and XXH128 */
};

int era_xxhash_new(enum era_xxhash_kind kind, struct era_xxhash **out)
{
        struct era_xxhash *hash;

        hash = calloc(1, sizeof(*hash));
        if (hash == NULL)
                return -ENOMEM;
        hash->kind = kind;
        if (kind == ERA_XXH64)
                hash->state64 = XXH64_createState();
        else
                hash->state3 = XXH3_createState();
        if (hash->state64 == NULL && hash->state3 == NULL) {
                free(hash);
                return -ENOMEM;
        }
        era_xxhash_reset(hash);
        *out = hash;
        return 0;
}

void era_xxhash_free(struct era_xxhash *hash)
{
        if (hash == NULL)
                return;
        XXH64_freeState(hash->state64);
        XXH3_freeState(hash->state3);
        free(hash);
}

/* The asserts below: the library refuses a state or a buffer that is NULL, and nothing else. */

void era_xxhash_reset(struct era_xxhash *hash)
{
        XXH_errorcode error;

        if (hash->kind == ERA_XXH64)
                error = XXH64_reset(hash->state64, 0);
        else if (hash->kind == ERA_XXH3)
                error = XXH3_64bits_reset(hash->state3);
        else
                error = XXH3_128bits_reset(hash->state3);
        assert(error == XXH_OK);
}

void era_xxhash_update(struct era_xxhash *hash, const void *buf, size_t len)
{
        XXH_errorcode error;

        if (len == 0)
                return;
        if (hash->kind == ERA_XXH64)
                error = XXH64_update(hash->state64, buf, len);
        else if (hash->kind == ERA_XXH3)
                error = XXH3_64bits_update(hash->state3, buf, len);
        else
                error = XXH3_128bits_update(hash->state3, buf, len);
        assert(error == XXH_OK);
}

static size_t xxhash_canonical64(XXH64_hash_t value, uint8_t *out)
{
        XXH64_canonical_t canonical;

        XXH64_canonicalFromHash(&canonical, value);
        memcpy(out, canonical.digest, sizeof(canonical.digest));
        return sizeof(canonical.digest);
}

size_t era_xxhash_final(const struct era_xxhash *hash, uint8_t out[ERA_XXHASH_MAX])
{
        XXH128_canonical_t canonical;

        if (hash->kind == ERA_XXH64)
                return xxhash_canonical64(XXH64_digest(hash->state64), out);
        if (hash->kind == ERA_XXH3)
                return xxhash_canonical64(XXH3_64bits_digest(hash->state3), out);
        XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(hash->state3));
        memcpy(out, canonical.digest, sizeof(canonical.digest));
        return sizeof(canonical.digest);
}
