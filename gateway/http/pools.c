/*
 * pools.c - see pools.h.
 *
 * An entry of the first pool says which other pool has a bucket. It is never changed, so it is looked for first, and what it
 * says is right also where the copy of the first pool is old: then only the pool that it names has to be current. Where no
 * entry is known, the first pool has the bucket, or must be current to say that there is none.
 */
#include "gateway/http/pools.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "gateway/http/http_request.h"
#include "gateway/http/users.h"

#define LIST_MOST 256u /* buckets that gw_bucket_list() gives at a time */

_Static_assert(GW_POOLS_MAX == ENG_POOLS_MAX, "engine.h");

/* ---- which there are ------------------------------------------------------------------------- */

void gw_pools_init(struct gw_gateway *gw, unsigned number, struct eng_store *first)
{
        gw->store = first;
        gw->pools.list[0] = (struct gw_pool){.number = number, .store = first};
        atomic_store(&gw->pools.count, 1);
}

int gw_pool_add(struct gw_gateway *gw, unsigned number, struct eng_store *store)
{
        struct gw_pools *pools = &gw->pools;
        unsigned count;
        int rv = 0;

        if (pools->list[0].number == 0 || number == 0 || number >= GW_POOLS_MAX)
                return -EINVAL;
        pthread_mutex_lock(&gw->lock);
        count = atomic_load(&pools->count);
        for (unsigned i = 0; i < count; i++)
                if (pools->list[i].number == number)
                        rv = -EEXIST;
        if (rv == 0) { /* there is room: numbers are fewer than places */
                pools->list[count] = (struct gw_pool){.number = number, .store = store};
                atomic_store(&pools->count, count + 1);
        }
        pthread_mutex_unlock(&gw->lock);
        return rv;
}

struct eng_store *gw_pool_store(const struct gw_gateway *gw, unsigned number)
{
        const struct gw_pools *pools = &gw->pools;
        unsigned count = atomic_load_explicit(&pools->count, memory_order_acquire);

        for (unsigned i = 0; i < count; i++)
                if (pools->list[i].number == number)
                        return pools->list[i].store;
        return NULL;
}

bool gw_pool_alone(const struct gw_gateway *gw)
{
        return atomic_load_explicit(&gw->pools.count, memory_order_acquire) == 1 && eng_bucket_pools(gw->store) == 0;
}

/* Pools that entries name and that were not added: their buckets are not known here. */
static bool pools_are_missing(const struct gw_gateway *gw)
{
        uint64_t named = eng_bucket_pools(gw->store);
        unsigned count = atomic_load_explicit(&gw->pools.count, memory_order_acquire);

        for (unsigned i = 0; i < count; i++)
                named &= ~(1ull << gw->pools.list[i].number);
        return named != 0;
}

/* ---- buckets --------------------------------------------------------------------------------- */

/* The bucket in this pool, which no other has. */
static int pool_has_bucket(struct eng_store *store, struct s3_str name, const struct eng_bucket **out,
                           struct eng_store **decides)
{
        int rv = eng_bucket_get(store, gw_eng_str(name), out);

        if (!eng_is_current(store))
                return -EHOSTDOWN;
        if (rv != -EHOSTDOWN && decides != NULL)
                *decides = store;
        return rv;
}

/*
 * A bucket that another pool has is that pool's whatever the first one says, or would say: it may be unable to, and who has lost
 * all its drives has lost its entries. NULL: none has it.
 */
static const struct gw_pool *bucket_sought(struct gw_gateway *gw, struct s3_str name, const struct eng_bucket **out)
{
        unsigned count = atomic_load_explicit(&gw->pools.count, memory_order_acquire);

        for (unsigned i = 1; i < count; i++)
                if (pool_has_bucket(gw->pools.list[i].store, name, out, NULL) == 0)
                        return &gw->pools.list[i];
        return NULL;
}

int gw_bucket_get(struct gw_gateway *gw, struct s3_str name, const struct eng_bucket **out, struct eng_store **decides)
{
        const struct gw_pool *pool;
        struct eng_store *store;
        unsigned number;
        int rv;

        if (gw_pool_alone(gw)) {
                if (decides != NULL)
                        *decides = gw->store;
                return eng_bucket_get(gw->store, gw_eng_str(name), out);
        }
        rv = eng_bucket_pool_get(gw->store, gw_eng_str(name), &number);
        if (rv == 0) {
                store = gw_pool_store(gw, number);
                return store == NULL ? -EHOSTDOWN : pool_has_bucket(store, name, out, decides);
        }
        if (rv == -ENOENT)
                rv = pool_has_bucket(gw->store, name, out, decides);
        if (rv == 0)
                return 0;
        pool = bucket_sought(gw, name, out);
        if (pool != NULL && decides != NULL)
                *decides = pool->store;
        return pool != NULL ? 0 : rv;
}

/* Those of one pool among those of others: both in order, the first `max` of all are kept. */
static unsigned buckets_merge(const struct eng_bucket **list, unsigned count, const struct eng_bucket *const *more,
                              unsigned more_count, unsigned max)
{
        const struct eng_bucket *before[LIST_MOST];
        unsigned n = 0, i = 0, k = 0;

        if (more_count == 0)
                return count;
        memcpy(before, list, count * sizeof(before[0]));
        while (n < max && (i < count || k < more_count)) {
                bool old = k == more_count || (i < count && strcmp(before[i]->name, more[k]->name) <= 0);

                list[n++] = old ? before[i++] : more[k++];
        }
        return n;
}

unsigned gw_bucket_list(struct gw_gateway *gw, struct eng_str from, unsigned max, const struct eng_bucket **out)
{
        const struct eng_bucket *more[LIST_MOST];
        unsigned pools = atomic_load_explicit(&gw->pools.count, memory_order_acquire);
        unsigned count = eng_bucket_list(gw->store, from, max, out);

        assert(max <= LIST_MOST);
        for (unsigned i = 1; i < pools; i++)
                count = buckets_merge(out, count, more, eng_bucket_list(gw->pools.list[i].store, from, max, more), max);
        return count;
}

/* A store that is not ready gives no buckets, which is no answer. */
static bool pool_answers(struct eng_store *store)
{
        const struct eng_bucket *any;

        return eng_bucket_get(store, (struct eng_str){"-", 1}, &any) != -EHOSTDOWN && eng_is_current(store);
}

bool gw_pool_answers(const struct gw_gateway *gw)
{
        unsigned count = atomic_load_explicit(&gw->pools.count, memory_order_acquire), i;

        for (i = 0; i < count && !pool_answers(gw->pools.list[i].store); i++)
                ;
        return i < count;
}

/* Whatever entries say: they may be lost. */
static bool had_buckets(struct eng_store *store)
{
        const struct eng_bucket *any;

        return eng_bucket_list(store, (struct eng_str){"", 0}, 1, &any) != 0;
}

int gw_buckets_known(struct gw_gateway *gw)
{
        unsigned count = atomic_load_explicit(&gw->pools.count, memory_order_acquire);
        uint64_t named;

        if (!pool_answers(gw->store))
                return -EHOSTDOWN;
        named = eng_bucket_pools(gw->store); /* as the first pool has it now */
        for (unsigned i = 1; i < count; i++)
                if (((named >> gw->pools.list[i].number & 1) != 0 || had_buckets(gw->pools.list[i].store)) && !pool_answers(gw->pools.list[i].store))
                        return -EHOSTDOWN;
        return pools_are_missing(gw) ? -EHOSTDOWN : 0;
}

/* ---- new buckets ----------------------------------------------------------------------------- */

static uint64_t pool_mix(uint64_t h)
{
        h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
        h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
        return h ^ h >> 32;
}

static uint64_t pool_name_hash(struct s3_str name)
{
        uint8_t digest[ERA_DIGEST_MAX];
        uint64_t hash;

        era_digest_of(ERA_SHA256, name.data, name.len, digest);
        memcpy(&hash, digest, sizeof(hash));
        return hash;
}

/* How many of the name's draws are the pool's: slots that it uses now. 0: it takes no buckets. */
static unsigned pool_weight(struct eng_store *store, struct eng_health *health)
{
        eng_health_read(store, health);
        return health->ready && health->writable && eng_is_current(store) ? health->drives_in : 0;
}

/* Rendezvous: each slot of each pool draws a number, and the pool with the highest has the bucket. */
static unsigned pool_choose(struct gw_gateway *gw, struct s3_str name, struct eng_health *health)
{
        unsigned count = atomic_load_explicit(&gw->pools.count, memory_order_acquire), best = 0;
        uint64_t hash = pool_name_hash(name), highest = 0;

        for (unsigned i = 0; i < count; i++) {
                const struct gw_pool *pool = &gw->pools.list[i];

                for (unsigned weight = pool_weight(pool->store, health); weight > 0; weight--) {
                        uint64_t draw = pool_mix(hash + pool_mix((uint64_t)pool->number << 32 | weight));

                        if (draw > highest) {
                                highest = draw;
                                best = i;
                        }
                }
        }
        return gw->pools.list[best].number;
}

int gw_pool_of_new(struct gw_gateway *gw, struct s3_str name, unsigned *number, bool *said)
{
        const struct eng_bucket *there;
        const struct gw_pool *pool;
        struct eng_health *health;
        int rv = gw_pool_alone(gw) ? -ENOENT : eng_bucket_pool_get(gw->store, gw_eng_str(name), number);

        if (rv != 0) {
                pool = bucket_sought(gw, name, &there);
                if (pool != NULL)
                        *number = pool->number;
                rv = pool != NULL ? 0 : rv;
        }
        *said = rv == 0;
        if (rv != -ENOENT)
                return rv;
        *number = gw->pools.list[0].number;
        if (atomic_load_explicit(&gw->pools.count, memory_order_acquire) == 1)
                return 0;
        health = malloc(sizeof(*health));
        if (health == NULL)
                return -ENOMEM;
        *number = pool_choose(gw, name, health);
        free(health);
        return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

/*
 * Root of the settings and those who do not sign are nobody of the directory. The bucket that was found in another pool is what
 * it is without the directory, so they are served while the first pool has no leader.
 */
static bool is_of_directory(const struct gw_request *req, const char *access_key)
{
        if (access_key != NULL)
                return req->temporary != NULL || gw_credentials_find(req->loop, access_key) == NULL;
        return !req->anonymous;
}

bool gw_decision_is_current(const struct gw_request *req, const char *access_key, const struct eng_store *of)
{
        const struct eng_store *directory = req->loop->gw->store;

        return eng_is_current(of) && (of == directory || !is_of_directory(req, access_key) || eng_is_current(directory));
}

bool gw_answer_is_current(const struct gw_request *req)
{
        if (req->undecided || (req->lists_all && gw_buckets_known(req->loop->gw) != 0))
                return false;
        return (req->also == NULL || eng_is_current(req->also)) && eng_is_current(req->store) &&
               gw_decision_is_current(req, req->access_key, req->bucket_id != 0 ? req->store : req->loop->gw->store);
}
