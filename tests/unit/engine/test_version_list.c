/*
 * Listings of versions against a sorted model in memory: keys of awkward bytes, prefixes, delimiters,
 * pages that begin inside a key, at its end, and under a common prefix; changes between the pages.
 * MILLRACE_SEED repeats a run.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/store_versions.h"

#define KEY_MOST   4u
#define MODEL_MOST 4000u
#define ROUNDS     1500u

/* One version: those that are gone stay, as places where a page may begin. */
struct model_version {
        uint8_t key[KEY_MOST];
        size_t key_len;
        struct eng_version version;
        uint64_t time, seed;
        bool marker, gone;
        bool plain; /* it has no number yet, and is listed behind any */
};

struct model {
        struct sf sf;
        uint64_t bucket, random, time;
        enum eng_versioning state;
        struct model_version items[MODEL_MOST];
        unsigned count;
};

static uint64_t below(struct model *m, uint64_t n)
{
        m->random ^= m->random << 13;
        m->random ^= m->random >> 7;
        m->random ^= m->random << 17;
        return (m->random >> 20) % n;
}

static size_t random_bytes(struct model *m, uint8_t *out, size_t least, size_t most)
{
        static const uint8_t bytes[] = {0, 1, 2, 0xff, '/', 'a'};
        size_t len = least + below(m, most - least + 1), i;

        for (i = 0; i < len; i++)
                out[i] = bytes[below(m, sizeof(bytes))];
        return len;
}

static int compare_keys(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
        int c = memcmp(a, b, a_len < b_len ? a_len : b_len);

        return c != 0 ? c : (a_len > b_len) - (a_len < b_len);
}

/* ---- changes --------------------------------------------------------------------------------- */

static bool is_null(const struct model_version *v)
{
        return v->version.number == 0;
}

static void model_add(struct model *m, const uint8_t *key, size_t len, const struct eng_version *version, uint64_t seed,
                      bool marker)
{
        struct model_version *v = &m->items[m->count++];
        unsigned i;

        assert_true(m->count <= MODEL_MOST);
        *v = (struct model_version){
                .key_len = len, .version = *version, .time = ++m->time, .seed = seed, .marker = marker};
        memcpy(v->key, key, len);
        v->plain = version->number == 0 && !marker;
        for (i = 0; i + 1 < m->count; i++) {
                struct model_version *other = &m->items[i];

                if (other->gone || compare_keys(other->key, other->key_len, key, len) != 0)
                        continue;
                if (is_null(v) && is_null(other))
                        other->gone = true;
                v->plain = v->plain && is_null(other) && other->plain;
                other->plain = false;
        }
}

static void change_put(struct model *m)
{
        uint8_t key[KEY_MOST];
        size_t len = random_bytes(m, key, 1, KEY_MOST);
        uint64_t seed = m->time + 1;
        struct eng_version version;

        if (m->count > 0 && below(m, 2) == 0) { /* of a key that is there, or was */
                const struct model_version *v = &m->items[below(m, m->count)];

                len = v->key_len;
                memcpy(key, v->key, len);
        }
        assert_int_equal(sv_put(&m->sf, m->bucket, (struct eng_str){(char *)key, len}, seed, &version), 0);
        model_add(m, key, len, &version, seed, false);
}

static void change_delete(struct model *m)
{
        struct model_version *v;
        struct eng_deleted deleted;
        struct eng_str key;

        if (m->count == 0)
                return;
        v = &m->items[below(m, m->count)];
        key = (struct eng_str){(char *)v->key, v->key_len};
        if (below(m, 3) != 0) {
                assert_int_equal(sv_delete_key(&m->sf, m->bucket, key, &v->version, &deleted), 0);
                if (!is_null(v) || !v->gone)
                        assert_true(deleted.existed == !v->gone);
                if (!v->gone)
                        v->gone = true;
                else if (is_null(v)) { /* a later one of that id */
                        unsigned i;

                        for (i = 0; i < m->count; i++)
                                if (is_null(&m->items[i]) &&
                                    compare_keys(m->items[i].key, m->items[i].key_len, v->key, v->key_len) == 0)
                                        m->items[i].gone = true;
                }
        } else if (m->state != ENG_VERSIONING_NEVER) {
                uint8_t copy[KEY_MOST];

                memcpy(copy, v->key, key.len);
                assert_int_equal(sv_delete_key(&m->sf, m->bucket, key, NULL, &deleted), 0);
                assert_true(deleted.marker);
                model_add(m, copy, key.len, &deleted.version, 0, true);
        }
}

static void change(struct model *m)
{
        switch (below(m, 12)) {
        case 0:
                if (m->count > 60) { /* plain objects first */
                        m->state = below(m, 2) == 0 ? ENG_VERSIONING_ENABLED : ENG_VERSIONING_SUSPENDED;
                        sv_versioning(&m->sf, m->bucket, m->state);
                }
                break;
        case 1:
        case 2:
        case 3:
        case 4:
                change_delete(m);
                break;
        default:
                change_put(m);
                break;
        }
}

/* ---- the model's listing --------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
        const struct model_version *x = a, *y = b;
        int c = compare_keys(x->key, x->key_len, y->key, y->key_len);

        return c != 0 ? c : (x->time < y->time) - (x->time > y->time);
}

/* Bytes of the common prefix of a key; 0: none. */
static size_t prefix_of(const struct eng_list_params *p, const uint8_t *key, size_t len)
{
        const uint8_t *found;

        if (p->delimiter.len == 0 || len < p->prefix.len || memcmp(key, p->prefix.data, p->prefix.len) != 0)
                return 0;
        found = memmem(key + p->prefix.len, len - p->prefix.len, p->delimiter.data, p->delimiter.len);
        return found == NULL ? 0 : (size_t)(found - key) + p->delimiter.len;
}

/* Where a page begins. */
struct start {
        struct eng_version version;
        uint64_t time; /* of it; 0: behind the whole key */
        bool inside;
};

static bool is_behind(const struct model *m, const struct eng_list_params *p, const struct start *start,
                      const struct model_version *v)
{
        const uint8_t *after = (const uint8_t *)p->after.data;
        size_t common = prefix_of(p, after, p->after.len);
        int c = compare_keys(v->key, v->key_len, after, p->after.len);
        unsigned i;

        if (p->after.len == 0)
                return true;
        if (common != 0 && v->key_len >= common && memcmp(v->key, after, common) == 0)
                return false; /* was given, as a prefix */
        if (c != 0 || !start->inside)
                return c > 0;
        if (start->version.number != 0)
                return v->plain || v->time < start->time;
        for (i = 0; i < m->count; i++)
                if (!m->items[i].gone && is_null(&m->items[i]) &&
                    compare_keys(m->items[i].key, m->items[i].key_len, after, p->after.len) == 0)
                        return v->time < m->items[i].time;
        return true; /* the null version is gone: all are given anew */
}

static bool null_is_gone(const struct model *m, const struct eng_list_params *p, const struct start *start)
{
        unsigned i;

        for (i = 0; i < m->count; i++)
                if (!m->items[i].gone && is_null(&m->items[i]) &&
                    compare_keys(m->items[i].key, m->items[i].key_len, (const uint8_t *)p->after.data, p->after.len) ==
                            0)
                        return false;
        return start->version.number == 0;
}

static bool same_key_before(const struct sv_entry *out, unsigned count, const struct model_version *v)
{
        return count > 0 && !out[count - 1].is_prefix &&
               compare_keys((const uint8_t *)out[count - 1].key, out[count - 1].key_len, v->key, v->key_len) == 0;
}

static unsigned model_list(struct model *m, const struct eng_list_params *p, const struct start *start,
                           struct sv_entry *out, bool *more)
{
        struct model_version *sorted = malloc(sizeof(m->items));
        size_t given_len = 0;
        uint8_t given[KEY_MOST];
        unsigned i, count = 0;

        assert_non_null(sorted);
        memcpy(sorted, m->items, sizeof(m->items));
        qsort(sorted, m->count, sizeof(*sorted), by_place);
        *more = false;
        for (i = 0; i < m->count; i++) {
                const struct model_version *v = &sorted[i];
                size_t common = prefix_of(p, v->key, v->key_len);
                struct sv_entry *e = &out[count];

                if (v->gone || v->key_len < p->prefix.len || memcmp(v->key, p->prefix.data, p->prefix.len) != 0 ||
                    !is_behind(m, p, start, v))
                        continue;
                if (common != 0 && common == given_len && memcmp(given, v->key, common) == 0)
                        continue;
                if (count == p->max) {
                        *more = true;
                        break;
                }
                memset(e, 0, sizeof(*e));
                e->is_prefix = common != 0;
                e->key_len = common != 0 ? common : v->key_len;
                memcpy(e->key, v->key, e->key_len);
                given_len = common;
                memcpy(given, v->key, common);
                if (!e->is_prefix) {
                        bool inside =
                                start->inside && !null_is_gone(m, p, start) &&
                                compare_keys(v->key, v->key_len, (const uint8_t *)p->after.data, p->after.len) == 0;

                        e->latest = v->plain || (!same_key_before(out, count, v) && !inside);
                        e->marker = v->marker;
                        e->version = v->version;
                        e->seed = v->seed;
                }
                count++;
        }
        free(sorted);
        return count;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static void show_bytes(const char *what, struct eng_str s)
{
        size_t i;

        print_message(" %s=", what);
        for (i = 0; i < s.len; i++)
                print_message("%02x", (uint8_t)s.data[i]);
}

static void show_page(const struct eng_list_params *p, const struct start *start, const struct sv_entry *page,
                      unsigned count)
{
        unsigned i;

        show_bytes("prefix", p->prefix);
        show_bytes("delimiter", p->delimiter);
        show_bytes("after", p->after);
        print_message(" max=%u inside=%d number=%llu\n", p->max, start->inside,
                      (unsigned long long)start->version.number);
        for (i = 0; i < count; i++) {
                show_bytes(page[i].is_prefix ? "common" : "key", (struct eng_str){page[i].key, page[i].key_len});
                print_message(" seed=%llu number=%llu\n", (unsigned long long)page[i].seed,
                              (unsigned long long)page[i].version.number);
        }
}

static void compare_page(struct model *m, const struct eng_list_params *p, const struct start *start,
                         struct sv_entry *out, unsigned *count, bool *more)
{
        struct sv_entry *expected = calloc(p->max + 1, sizeof(*expected));
        unsigned expected_count, i;
        bool expected_more;

        assert_non_null(expected);
        expected_count = model_list(m, p, start, expected, &expected_more);
        assert_int_equal(sv_list(&m->sf, p, start->inside ? &start->version : NULL, out, count, more), 0);
        if (*count != expected_count || memcmp(out, expected, expected_count * sizeof(*out)) != 0) {
                show_page(p, start, expected, expected_count);
                show_page(p, start, out, *count);
        }
        assert_int_equal(*count, expected_count);
        for (i = 0; i < expected_count; i++)
                assert_memory_equal(&out[i], &expected[i], sizeof(out[i]));
        assert_true(*more == expected_more);
        free(expected);
}

/* The next page begins behind the last entry of this one. */
static void go_behind(const struct model *m, const struct sv_entry *last, struct start *start)
{
        unsigned i;

        *start = (struct start){.inside = !last->is_prefix, .version = last->version};
        for (i = 0; i < m->count; i++)
                if (!last->is_prefix && memcmp(&m->items[i].version, &last->version, sizeof(last->version)) == 0 &&
                    compare_keys(m->items[i].key, m->items[i].key_len, (const uint8_t *)last->key, last->key_len) == 0)
                        start->time = m->items[i].time; /* of several null versions the last */
}

/* All pages of a listing, with changes between them. */
static void list_pages(struct model *m, struct eng_list_params *p, struct start start)
{
        struct sv_entry *page = calloc(p->max, sizeof(*page));
        uint8_t after[ENG_KEY_MAX];
        unsigned count, pages;
        bool more = true;

        assert_non_null(page);
        for (pages = 0; more && pages < 50; pages++) {
                compare_page(m, p, &start, page, &count, &more);
                if (count == 0)
                        break;
                go_behind(m, &page[count - 1], &start);
                memcpy(after, page[count - 1].key, page[count - 1].key_len);
                p->after = (struct eng_str){(char *)after, page[count - 1].key_len};
                if (below(m, 3) == 0)
                        change(m);
        }
        free(page);
}

static void random_listing(struct model *m)
{
        uint8_t prefix[KEY_MOST], delimiter[KEY_MOST], after[KEY_MOST];
        struct eng_list_params p = {.bucket = m->bucket,
                                    .prefix = {(char *)prefix, 0},
                                    .delimiter = {(char *)delimiter, 0},
                                    .after = {(char *)after, 0}};
        struct start start = {.inside = false};

        if (below(m, 2) == 0)
                p.prefix.len = random_bytes(m, prefix, 1, 2);
        if (below(m, 2) == 0)
                p.delimiter.len = random_bytes(m, delimiter, 1, 2);
        p.max = 1 + (unsigned)below(m, below(m, 2) == 0 ? 4 : 200);
        if (below(m, 4) == 0) {
                p.after.len = random_bytes(m, after, 1, KEY_MOST);
        } else if (m->count > 0 && below(m, 3) != 0) { /* a version that is there, or was */
                const struct model_version *v = &m->items[below(m, m->count)];

                memcpy(after, v->key, v->key_len);
                p.after.len = v->key_len;
                start = (struct start){.inside = compare_keys(after, p.after.len, prefix, p.prefix.len) >= 0,
                                       .version = v->version,
                                       .time = v->time};
        }
        list_pages(m, &p, start);
}

static struct model *model_new(void)
{
        const char *seed = getenv("MILLRACE_SEED");
        struct model *m = calloc(1, sizeof(*m));

        assert_non_null(m);
        m->random = seed != NULL ? strtoull(seed, NULL, 0) : (uint64_t)lp_wall_ms() | 1;
        print_message("MILLRACE_SEED=%llu\n", (unsigned long long)m->random);
        sf_make(&m->sf, 4, 2);
        m->sf.options.memtable_bytes = 256 << 10; /* rows are in the index, too */
        assert_int_equal(sf_open(&m->sf, true), 0);
        assert_true(sf_wait_ready(&m->sf, 20));
        return m;
}

static void model_free(struct model *m)
{
        sf_close(&m->sf);
        sf_remove(&m->sf);
        free(m);
}

/*
 * A page goes on behind a null version that is gone, under a common prefix that was given. The bucket's
 * number ends with a byte 0, so that the name behind that prefix looks as one behind all versions of a key.
 */
static void test_behind_a_prefix_in_a_bucket_of_a_round_number(void **state)
{
        struct model *m = model_new();
        struct eng_list_params p = {.prefix = {"", 0}, .delimiter = {"\1", 1}, .after = {"\1a", 2}, .max = 10};
        struct start start = {.inside = true};
        struct eng_version version;
        char name[32];
        unsigned i;

        m->bucket = 1;
        for (i = 0; i < 5000 && (m->bucket & 0xff) != 0; i++) {
                snprintf(name, sizeof(name), "bucket-%u", i);
                assert_int_equal(sf_bucket(&m->sf, name, &m->bucket), 0);
        }
        assert_int_equal(m->bucket & 0xff, 0);
        p.bucket = m->bucket;
        assert_int_equal(sv_put(&m->sf, m->bucket, (struct eng_str){"\1b", 2}, 1, &version), 0);
        m->items[m->count++] = (struct model_version){.key = "\1b", .key_len = 2, .seed = 1, .time = 1, .version = version, .plain = true};
        list_pages(m, &p, start);
        model_free(m);
}

static void test_listings_are_as_the_model(void **state)
{
        struct model *m = model_new();
        unsigned i;

        assert_int_equal(sf_bucket(&m->sf, "bucket", &m->bucket), 0);
        for (i = 0; i < ROUNDS && m->count + 60 < MODEL_MOST; i++) {
                change(m);
                if (i == ROUNDS / 2) {
                        sf_close(&m->sf);
                        assert_int_equal(sf_open(&m->sf, false), 0);
                        assert_true(sf_wait_ready(&m->sf, 20));
                        sv_versioning(&m->sf, m->bucket, m->state);
                }
                random_listing(m);
        }
        model_free(m);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_behind_a_prefix_in_a_bucket_of_a_round_number),
                cmocka_unit_test(test_listings_are_as_the_model),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
