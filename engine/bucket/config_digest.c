/*
 * config_digest.c - the digest of all rows of the configuration: two stores that have the same rows have
 * the same digest, in whatever order they got them (docs/design/any-gateway.md). Coordinator.
 *
 * It is a sum over rows, so that a row that changes is taken out and put in again. Entries, of which there
 * may be a million, are summed as they change. Buckets and their texts are gone through when somebody asks,
 * once for each change of them.
 */
#include "engine/bucket/config_digest.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "ec.h"
#include "engine/bucket/config_feed.h"
#include "engine/record/value.h"

/* owner: coordinator */
struct eng_digests {
        struct eng_rows_digest entries, told; /* told: as this loop was last told of them */
        struct eng_rows_digest bucket_pools;  /* entries of that kind, which are not among those */
        struct eng_rows_digest buckets; /* and their texts */
        bool current;                   /* buckets is of what there is */
};

/* What a row is, but for its key. */
struct row_facts {
        uint64_t generation;
        uint32_t len, crc;
        bool damaged;
};

static uint64_t digest_mix(uint64_t h, uint64_t n)
{
        h = (h ^ n) * 0x9e3779b97f4a7c15u;
        h = (h ^ h >> 32) * 0xd6e8feb86659fd93u;
        return h ^ h >> 29;
}

static uint64_t row_number(uint64_t seed, const struct eng_row_key *key, const struct row_facts *facts)
{
        uint64_t h = digest_mix(seed, (uint64_t)key->what << 32 | (uint64_t)facts->damaged << 16 | key->kind);

        h = digest_mix(h, key->id);
        h = digest_mix(h, facts->generation);
        return digest_mix(h, (uint64_t)facts->len << 32 | facts->crc);
}

static void digest_add(struct eng_rows_digest *digest, const struct eng_row_key *key, const struct row_facts *facts)
{
        digest->rows++;
        digest->sum[0] += row_number(1, key, facts);
        digest->sum[1] += row_number(2, key, facts);
}

static void digest_take(struct eng_rows_digest *digest, const struct eng_row_key *key, const struct row_facts *facts)
{
        assert(digest->rows > 0);
        digest->rows--;
        digest->sum[0] -= row_number(1, key, facts);
        digest->sum[1] -= row_number(2, key, facts);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct row_facts text_facts(const struct eng_text *text)
{
        return (struct row_facts){.generation = text->generation, .len = text->len, .crc = text->crc, .damaged = text->damaged};
}

static struct row_facts bucket_facts(const struct eng_bucket *bucket)
{
        struct fmt_bucket_rules rules = eng_rules_encode(&bucket->rules);
        uint32_t crc = era_crc32c(0, bucket->name, strlen(bucket->name));

        crc = era_crc32c(crc, &bucket->created_ms, sizeof(bucket->created_ms));
        crc = era_crc32c(crc, &rules, sizeof(rules));
        crc = era_crc32c(crc, bucket->attrs, bucket->attrs_len);
        return (struct row_facts){.generation = bucket->rules.generation, .len = bucket->attrs_len, .crc = crc};
}

static void sum_bucket(struct eng_rows_digest *digest, const struct eng_config_bucket *b)
{
        struct eng_row_key key = {.what = ENG_ROW_BUCKET, .id = b->bucket.id};
        struct row_facts facts = bucket_facts(&b->bucket);
        const struct eng_bucket_text *t;

        digest_add(digest, &key, &facts);
        for (t = b->texts; t != NULL; t = t->next) {
                key = (struct eng_row_key){.what = ENG_ROW_TEXT, .kind = t->text->kind, .id = b->bucket.id};
                facts = text_facts(t->text);
                digest_add(digest, &key, &facts);
        }
}

void eng_digest_entry(struct eng_store *store, const struct eng_text *text, bool there)
{
        struct eng_digests *digests = store->coord->digests;
        struct eng_row_key key = {.what = ENG_ROW_TEXT, .kind = text->kind, .id = text->id};
        struct row_facts facts = text_facts(text);

        assert(eng_on_coordinator(store));
        (there ? digest_add : digest_take)(text->kind == ENG_ENTRY_BUCKET_POOL ? &digests->bucket_pools : &digests->entries, &key, &facts);
}

void eng_digest_changed(struct eng_store *store)
{
        assert(eng_on_coordinator(store));
        store->coord->digests->current = false;
}

void eng_home_digest(struct eng_store *store, struct eng_rows_digest *out)
{
        struct eng_digests *digests = store->coord->digests;
        const struct eng_loop *el = store->coord_loop;
        unsigned i;

        assert(eng_on_coordinator(store));
        if (!digests->current) {
                digests->buckets = (struct eng_rows_digest){0};
                for (i = 0; i < el->bucket_count; i++)
                        sum_bucket(&digests->buckets, el->buckets[i]);
                digests->current = true;
        }
        out->rows = digests->entries.rows + digests->bucket_pools.rows + digests->buckets.rows;
        for (i = 0; i < 2; i++)
                out->sum[i] = digests->entries.sum[i] + digests->bucket_pools.sum[i] + digests->buckets.sum[i];
}

void eng_digest_told(struct eng_store *store)
{
        assert(eng_on_coordinator(store));
        store->coord->digests->told = store->coord->digests->entries;
}

void eng_entries_seen(struct eng_store *store, struct eng_rows_digest *out)
{
        assert(eng_on_coordinator(store));
        *out = store->coord->digests->told;
}

bool eng_digest_is_seen(const struct eng_store *store, const struct eng_rows_digest *seen)
{
        return eng_digest_same(&store->coord->digests->entries, seen);
}

bool eng_digest_same(const struct eng_rows_digest *a, const struct eng_rows_digest *b)
{
        return a->rows == b->rows && a->sum[0] == b->sum[0] && a->sum[1] == b->sum[1];
}

/* ---- life ------------------------------------------------------------------------------------ */

bool eng_digests_make(struct eng_store *store)
{
        store->coord->digests = calloc(1, sizeof(*store->coord->digests));
        return store->coord->digests != NULL;
}

void eng_digests_free(struct eng_store *store)
{
        free(store->coord->digests);
        store->coord->digests = NULL;
}
