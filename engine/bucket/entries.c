/*
 * entries.c - texts that belong to no bucket: one hash table for all loops, found by id and kind.
 *
 * The coordinator alone changes it, one entry at a time, in the queue of changes; every loop reads
 * it without a lock. A reader sees the old text or the new one. What was replaced lives until each
 * loop has taken a message after that (the broadcast of the change): a reader looks at it within one
 * turn of its loop, or has a reference. The number of chains is fixed: pages of the table that no entry
 * needs are never touched, and nothing is ever moved.
 *
 * Names of entries are chosen by clients, so the chain depends on a random number that they do not know.
 */
#include "engine/bucket/bucket.h"
#include "engine/bucket/bucket_pool.h"
#include "engine/bucket/bucket_text.h"
#include "engine/bucket/config_digest.h"

#include <assert.h>
#include <stdlib.h>

#define CHAIN_BITS 18u
#define CHAINS     (1u << CHAIN_BITS)

/* owner: coordinator, but for chains, which every loop reads; watch: constant once the store is started */
struct eng_entries {
        uint64_t mask, factor; /* random; odd */
        unsigned count, bucket_pools;  /* bucket_pools: of that kind */
        atomic_uint_least64_t pools;   /* that these have named: any thread reads */
        struct eng_text *retired; /* by next: replaced in recovery */
        void (*changed)(void *arg, unsigned loop, uint64_t id, unsigned kind);
        void *arg;
        struct eng_text *_Atomic chains[CHAINS];
};

static struct eng_text *_Atomic *entry_chain(struct eng_entries *entries, uint64_t id, unsigned kind)
{
        uint64_t h = (id ^ entries->mask) * entries->factor;

        h = (h ^ h >> 32 ^ kind) * entries->factor;
        return &entries->chains[h >> (64 - CHAIN_BITS)];
}

static bool entry_is(const struct eng_text *text, uint64_t id, unsigned kind)
{
        return text->id == id && text->kind == kind;
}

bool eng_entries_make(struct eng_store *store)
{
        struct eng_entries *entries = calloc(1, sizeof(*entries));

        if (entries == NULL)
                return false;
        lp_random(&entries->mask, sizeof(entries->mask));
        lp_random(&entries->factor, sizeof(entries->factor));
        entries->factor |= 1;
        store->entries = entries;
        return true;
}

static void chain_free(struct eng_text *text)
{
        struct eng_text *next;

        for (; text != NULL; text = next) {
                next = atomic_load_explicit(&text->next, memory_order_relaxed);
                eng_text_unref(text);
        }
}

void eng_entries_free(struct eng_store *store)
{
        struct eng_entries *entries = store->entries;
        unsigned i;

        store->entries = NULL;
        for (i = 0; entries != NULL && entries->count > 0 && i < CHAINS; i++)
                chain_free(atomic_load_explicit(&entries->chains[i], memory_order_relaxed));
        if (entries != NULL)
                chain_free(entries->retired);
        free(entries);
}

struct eng_text *eng_entry_of(const struct eng_store *store, uint64_t id, unsigned kind)
{
        struct eng_text *text = atomic_load_explicit(entry_chain(store->entries, id, kind), memory_order_acquire);

        while (text != NULL && !entry_is(text, id, kind))
                text = atomic_load_explicit(&text->next, memory_order_acquire);
        return text;
}

/* Before a loop finds the entry. An entry is never taken away, so neither is a bit. */
static void entry_note_pool(struct eng_entries *entries, const struct eng_text *text)
{
        unsigned pool;

        if (text->kind == ENG_ENTRY_BUCKET_POOL && eng_bucket_pool_read(text, NULL, &pool))
                atomic_fetch_or(&entries->pools, 1ull << pool);
}

struct eng_text *eng_entry_put(struct eng_store *store, uint64_t id, unsigned kind, struct eng_text *text)
{
        struct eng_entries *entries = store->entries;
        struct eng_text *_Atomic *at = entry_chain(entries, id, kind);
        struct eng_text *old, *next;

        assert(eng_on_coordinator(store) && eng_is_entry(kind));
        while ((old = atomic_load_explicit(at, memory_order_relaxed)) != NULL && !entry_is(old, id, kind))
                at = &old->next;
        next = old == NULL ? NULL : atomic_load_explicit(&old->next, memory_order_relaxed);
        entries->count -= old != NULL;
        entries->bucket_pools -= old != NULL && kind == ENG_ENTRY_BUCKET_POOL;
        if (old != NULL)
                eng_digest_entry(store, old, false);
        if (text != NULL) {
                assert(text->kind == kind && entries->count < ENG_ENTRIES_MAX);
                text->id = id;
                atomic_store_explicit(&text->next, next, memory_order_relaxed);
                entries->count++;
                entries->bucket_pools += kind == ENG_ENTRY_BUCKET_POOL;
                entry_note_pool(entries, text);
                eng_digest_entry(store, text, true);
                next = text;
        }
        atomic_store_explicit(at, next, memory_order_release); /* a reader at the old one goes on from there */
        return old;
}

void eng_entry_load(struct eng_store *store, uint64_t id, struct eng_text *text)
{
        struct eng_text *old = eng_entry_of(store, id, text->kind);

        if (old == text || (old == NULL && eng_entries_full(store)))
                return;
        old = eng_entry_put(store, id, text->kind, eng_text_ref(text));
        eng_digest_told(store);
        if (old == NULL)
                return;
        atomic_store_explicit(&old->next, store->entries->retired, memory_order_relaxed);
        store->entries->retired = old;
}

bool eng_entries_full(const struct eng_store *store)
{
        return store->entries->count >= ENG_ENTRIES_MAX;
}

bool eng_bucket_pools_full(const struct eng_store *store)
{
        return store->entries->bucket_pools >= ENG_BUCKET_POOLS_MAX;
}

uint64_t eng_bucket_pools(const struct eng_store *store)
{
        return atomic_load(&store->entries->pools);
}

/* ---- who watches ----------------------------------------------------------------------------- */

void eng_entries_watch(struct eng_store *store, void (*changed)(void *arg, unsigned loop, uint64_t id, unsigned kind),
                       void *arg)
{
        store->entries->changed = changed;
        store->entries->arg = arg;
}

void eng_entry_tell(struct eng_loop *el, uint64_t id, unsigned kind)
{
        const struct eng_entries *entries = el->store->entries;

        assert(eng_on_loop(el));
        if (entries->changed != NULL)
                entries->changed(entries->arg, el->index, id, kind);
}

/* A chain is gone through as a whole, so that a position is a number of chains. */
bool eng_entries_walk(struct eng_store *store, uint32_t *position, unsigned most,
                      void (*each)(void *arg, uint64_t id, unsigned kind, struct eng_text *text), void *arg)
{
        unsigned seen = 0, chains = 0;
        struct eng_text *text;

        for (; *position < CHAINS && seen < most && chains < 64 * most; ++*position, chains++) {
                text = atomic_load_explicit(&store->entries->chains[*position], memory_order_acquire);
                for (; text != NULL; text = atomic_load_explicit(&text->next, memory_order_acquire), seen++)
                        each(arg, text->id, text->kind, text->damaged ? NULL : text);
        }
        return *position < CHAINS;
}
