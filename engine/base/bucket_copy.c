/*
 * bucket_copy.c - looking buckets up in the copy of the configuration that every loop has. bucket.c
 * changes it.
 */
#include "engine/base/store.h"

#include <errno.h>
#include <string.h>

static int compare_name(const char *name, struct eng_str s)
{
        size_t n = strlen(name);
        int c = s.len == 0 ? 0 : memcmp(name, s.data, n < s.len ? n : s.len);

        return c != 0 ? c : (n > s.len) - (n < s.len);
}

unsigned eng_bucket_position(const struct eng_loop *el, struct eng_str s)
{
        unsigned lo = 0, hi = el->bucket_count;

        while (lo < hi) {
                unsigned mid = (lo + hi) / 2;

                if (compare_name(el->buckets[mid]->bucket.name, s) < 0)
                        lo = mid + 1;
                else
                        hi = mid;
        }
        return lo;
}

struct eng_config_bucket *eng_bucket_find(const struct eng_loop *el, struct eng_str name)
{
        unsigned i = eng_bucket_position(el, name);

        if (i == el->bucket_count || compare_name(el->buckets[i]->bucket.name, name) != 0)
                return NULL;
        return el->buckets[i];
}

struct eng_config_bucket *eng_bucket_by_id(const struct eng_loop *el, uint64_t id)
{
        struct eng_config_bucket *b;

        HASH_FIND(hh, el->buckets_by_id, &id, sizeof(id), b);
        return b;
}

int eng_bucket_get(struct eng_store *store, struct eng_str name, const struct eng_bucket **out)
{
        const struct eng_loop *el = eng_here(store);
        struct eng_config_bucket *b;

        if (!el->view.ready)
                return -EHOSTDOWN;
        b = eng_bucket_find(el, name);
        if (b == NULL)
                return -ENOENT;
        b->bucket.store = store;
        *out = &b->bucket;
        return 0;
}

unsigned eng_bucket_list(struct eng_store *store, struct eng_str from, unsigned max, const struct eng_bucket **out)
{
        const struct eng_loop *el = eng_here(store);
        unsigned i = eng_bucket_position(el, from), n = 0;

        while (i < el->bucket_count && n < max) {
                el->buckets[i]->bucket.store = store;
                out[n++] = &el->buckets[i++]->bucket;
        }
        return n;
}
