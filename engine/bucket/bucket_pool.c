/*
 * bucket_pool.c - which buckets are in which other pool: entries of the cluster's first pool, one for each name.
 *
 * Buckets and entries of one name exclude each other: both are made by the coordinator, one after the other in the queue of
 * changes, and each looks for the other first. An entry is never changed nor deleted, so what a process has read of one is
 * right for ever, however old it is. docs/design/pools.md says what this is for, and what would break it.
 *
 * The number of an entry is 64 bits of a digest of its name. Of two names with one number the first to come has the entry; a
 * bucket of the other name can only be in the first pool, which is no less right.
 */
#include "engine/bucket/bucket_pool.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "ec.h"

_Static_assert(ENG_ENTRY_BUCKET_POOL == FMT_TEXT_BUCKET_POOL, "format.h");

static uint64_t bucket_pool_number(struct eng_str name)
{
        uint8_t digest[ERA_DIGEST_MAX];
        uint64_t number;

        era_digest_of(ERA_SHA256, name.data, name.len, digest);
        memcpy(&number, digest, sizeof(number));
        return number;
}

static bool same_name(struct eng_str a, struct eng_str b)
{
        return a.len == b.len && memcmp(a.data, b.data, a.len) == 0;
}

bool eng_bucket_pool_read(const struct eng_text *text, struct eng_str *name, unsigned *pool)
{
        struct fmt_bucket_pool head;

        if (text->damaged || text->len <= sizeof(head) || text->len > ENG_BUCKET_POOL_BYTES)
                return false;
        memcpy(&head, text->bytes, sizeof(head));
        if (head.version != FMT_BUCKET_POOL_VERSION || head.pool == 0 || head.pool >= ENG_POOLS_MAX)
                return false;
        *pool = head.pool;
        if (name != NULL)
                *name = (struct eng_str){text->bytes + sizeof(head), text->len - sizeof(head)};
        return true;
}

/* What the entry says of the bucket of this name: 0 and the pool, -ENOENT, -EIO. */
static int bucket_pool_find(const struct eng_store *store, struct eng_str name, unsigned *pool)
{
        const struct eng_text *text = eng_entry_of(store, bucket_pool_number(name), ENG_ENTRY_BUCKET_POOL);
        struct eng_str of;

        if (text == NULL)
                return -ENOENT;
        if (!eng_bucket_pool_read(text, &of, pool))
                return -EIO;
        return same_name(of, name) ? 0 : -ENOENT;
}

int eng_bucket_pool_get(struct eng_store *store, struct eng_str name, unsigned *pool)
{
        return eng_here(store)->view.ready ? bucket_pool_find(store, name, pool) : -EHOSTDOWN;
}

/* ---- what is allowed ------------------------------------------------------------------------- */

int eng_bucket_pool_elsewhere(struct eng_store *store, struct eng_str name)
{
        unsigned pool;
        int rv;

        assert(eng_on_coordinator(store));
        rv = bucket_pool_find(store, name, &pool);
        return rv == 0 ? -EREMOTE : rv == -ENOENT ? 0 : rv;
}

int eng_bucket_pool_refusal(struct eng_store *store, uint64_t id, const struct eng_text *wanted, const struct eng_text *old)
{
        struct eng_str name, old_name;
        unsigned pool, old_pool;

        assert(eng_on_coordinator(store));
        if (wanted == NULL)
                return old == NULL ? -ENOENT : -EPERM;
        if (!eng_bucket_pool_read(wanted, &name, &pool) || bucket_pool_number(name) != id)
                return -EINVAL;
        if (old != NULL && !eng_bucket_pool_read(old, &old_name, &old_pool))
                return -EIO; /* whose it was cannot be known any more */
        if (old != NULL)
                return same_name(name, old_name) ? -ESTALE : -ENOTUNIQ;
        if (eng_bucket_find(store->coord_loop, name) != NULL)
                return -EEXIST;
        return eng_bucket_pools_full(store) ? -ENOSPC : 0;
}

/* ---- asked for ------------------------------------------------------------------------------- */

void eng_bucket_pool_set(struct eng_store *store, struct eng_str name, unsigned pool, eng_done done, void *arg)
{
        struct fmt_bucket_pool head = {.version = FMT_BUCKET_POOL_VERSION, .pool = (uint8_t)pool};
        bool fit = name.len >= 1 && name.len <= ENG_BUCKET_NAME_MAX && pool >= 1 && pool < ENG_POOLS_MAX;
        char bytes[ENG_BUCKET_POOL_BYTES];

        memcpy(bytes, &head, sizeof(head));
        if (fit)
                memcpy(bytes + sizeof(head), name.data, name.len);
        eng_text_set(store, fit ? bucket_pool_number(name) : 0, fit ? ENG_ENTRY_BUCKET_POOL : ENG_TEXTS_KINDS, 0,
                     (struct eng_str){bytes, sizeof(head) + (fit ? name.len : 0)}, done, arg); /* of no such kind: -EINVAL */
}
