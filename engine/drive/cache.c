/*
 * cache.c - S3-FIFO over object ids.
 *
 * LOOKUP asks it for inline bytes before it reads the log, and puts what it read and verified (I5);
 * a committed PUT puts its bytes too. Every entry lies in one of three queues: SMALL (a tenth of
 * the bytes), MAIN, or GHOST (the id only, as many as MAIN could hold entries). owner: the loop.
 */
#include "engine/drive/cache.h"

#include <assert.h>
#include <bsd/sys/queue.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#define SMALL_SHARE 10u /* one in so many bytes */
#define ASKED_MAX   3u
#define GHOSTS_MAX  65536u

enum where { SMALL, MAIN, GHOST, QUEUES };

struct entry {
        uint8_t id[FMT_ID];
        uint8_t where, asked;
        struct eng_buf *bytes; /* NULL in GHOST */
        TAILQ_ENTRY(entry) link;
        UT_hash_handle hh;
};
TAILQ_HEAD(queue, entry);

struct eng_cache {
        uint64_t limit, used[QUEUES];
        unsigned ghosts;
        struct queue queues[QUEUES];
        struct entry *by_id; /* uthash */
};

static uint64_t cost(const struct entry *entry)
{
        return sizeof(*entry) + (entry->bytes != NULL ? sizeof(*entry->bytes) + entry->bytes->len : 0);
}

struct eng_cache *eng_cache_new(uint64_t bytes)
{
        struct eng_cache *cache = calloc(1, sizeof(*cache));
        unsigned i;

        if (cache == NULL)
                return NULL;
        cache->limit = bytes;
        for (i = 0; i < QUEUES; i++)
                TAILQ_INIT(&cache->queues[i]);
        return cache;
}

static void cache_leave(struct eng_cache *cache, struct entry *entry)
{
        assert(cache->used[entry->where] >= cost(entry) && (entry->where != GHOST || cache->ghosts > 0));
        TAILQ_REMOVE(&cache->queues[entry->where], entry, link);
        cache->used[entry->where] -= cost(entry);
        cache->ghosts -= entry->where == GHOST;
}

static void cache_insert(struct eng_cache *cache, struct entry *entry, enum where where)
{
        assert((where == GHOST) == (entry->bytes == NULL));
        entry->where = (uint8_t)where;
        TAILQ_INSERT_TAIL(&cache->queues[where], entry, link);
        cache->used[where] += cost(entry);
        cache->ghosts += where == GHOST;
}

static void cache_destroy(struct eng_cache *cache, struct entry *entry)
{
        cache_leave(cache, entry);
        HASH_DEL(cache->by_id, entry);
        eng_buf_unref(entry->bytes);
        free(entry);
}

void eng_cache_free(struct eng_cache *cache)
{
        struct entry *entry, *next;

        if (cache == NULL)
                return;
        HASH_ITER (hh, cache->by_id, entry, next)
                cache_destroy(cache, entry);
        assert(cache->used[SMALL] == 0 && cache->used[MAIN] == 0 && cache->used[GHOST] == 0 && cache->ghosts == 0);
        free(cache);
}

/* The oldest of SMALL: asked for again, it moves up; else only its id stays. */
static void evict_small(struct eng_cache *cache)
{
        struct entry *entry = TAILQ_FIRST(&cache->queues[SMALL]);

        cache_leave(cache, entry);
        if (entry->asked > 0) {
                entry->asked = 0;
                cache_insert(cache, entry, MAIN);
                return;
        }
        eng_buf_unref(entry->bytes);
        entry->bytes = NULL;
        cache_insert(cache, entry, GHOST);
        if (cache->ghosts > GHOSTS_MAX)
                cache_destroy(cache, TAILQ_FIRST(&cache->queues[GHOST]));
}

/*
 * The oldest of MAIN goes round again as often as it was asked for (at most ASKED_MAX times, so
 * this ends).
 */
static void evict_main(struct eng_cache *cache)
{
        struct entry *entry = TAILQ_FIRST(&cache->queues[MAIN]);

        assert(entry->asked <= ASKED_MAX);
        if (entry->asked == 0) {
                cache_destroy(cache, entry);
                return;
        }
        entry->asked--;
        cache_leave(cache, entry);
        cache_insert(cache, entry, MAIN);
}

static void cache_make_room(struct eng_cache *cache, uint64_t need)
{
        assert(need <= cache->limit); /* else both queues were empty before there is room */
        while (cache->used[SMALL] + cache->used[MAIN] + need > cache->limit) {
                if (TAILQ_EMPTY(&cache->queues[MAIN]) ||
                    (cache->used[SMALL] > cache->limit / SMALL_SHARE && !TAILQ_EMPTY(&cache->queues[SMALL])))
                        evict_small(cache);
                else
                        evict_main(cache);
        }
}

static struct entry *cache_find(struct eng_cache *cache, const uint8_t id[FMT_ID])
{
        struct entry *entry;

        HASH_FIND(hh, cache->by_id, id, FMT_ID, entry);
        return entry;
}

struct eng_buf *eng_cache_get(struct eng_cache *cache, const uint8_t id[FMT_ID])
{
        struct entry *entry = cache_find(cache, id);

        if (entry == NULL || entry->bytes == NULL)
                return NULL;
        if (entry->asked < ASKED_MAX)
                entry->asked++;
        return eng_buf_ref(entry->bytes);
}

void eng_cache_put(struct eng_cache *cache, const uint8_t id[FMT_ID], struct eng_buf *bytes)
{
        struct entry *entry = cache_find(cache, id);
        uint64_t need = sizeof(*entry) + sizeof(*bytes) + bytes->len;
        enum where where = SMALL;

        if (need > cache->limit / SMALL_SHARE || (entry != NULL && entry->bytes != NULL))
                return;
        if (entry != NULL) { /* it was here not long ago and is wanted again */
                cache_destroy(cache, entry);
                where = MAIN;
        }
        cache_make_room(cache, need);
        entry = calloc(1, sizeof(*entry));
        if (entry == NULL)
                return;
        memcpy(entry->id, id, FMT_ID);
        entry->bytes = eng_buf_ref(bytes);
        HASH_ADD(hh, cache->by_id, id, FMT_ID, entry);
        cache_insert(cache, entry, where);
        assert(eng_cache_bytes(cache) <= cache->limit);
}

uint64_t eng_cache_bytes(const struct eng_cache *cache)
{
        return cache->used[SMALL] + cache->used[MAIN];
}
