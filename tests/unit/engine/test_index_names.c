/*
 * test_index_names.c - names against a sorted model in memory: order at every depth, lookups,
 * changes, prefixes, and the counts of log files that follow them. Random by a seed that is
 * printed.
 */
#include <bsd/sys/tree.h>

#include "test_index_fixture.h"

#define LOGS      5u
#define PREFIXES  12u
#define EXTRA_MAX 3000u

struct known {
        uint8_t name[FMT_NAME_MAX];
        size_t len, extra;
        uint64_t log_file, seq;
        uint32_t inline_len;
        RB_ENTRY(known) by_name;
};

static int compare(const uint8_t *a, size_t a_len, const uint8_t *b, size_t b_len)
{
        int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

        return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static int known_order(const struct known *a, const struct known *b)
{
        return compare(a->name, a->len, b->name, b->len);
}

RB_HEAD(model, known);
RB_PROTOTYPE(model, known, by_name, known_order)
RB_GENERATE(model, known, by_name, known_order)

struct world {
        struct fixture *f;
        struct model model;
        size_t count;
        uint64_t seq;
        uint8_t prefix[PREFIXES][FMT_NAME_MAX];
        size_t prefix_len[PREFIXES];
};

static void random_bytes(struct fixture *f, uint8_t *out, size_t len)
{
        static const uint8_t alphabet[] = {0x00, 0x01, 'a', 'b', 0x7f, 0xff};

        for (size_t i = 0; i < len; i++)
                out[i] = alphabet[fixture_random(f, sizeof(alphabet))];
}

/* Lengths near every border between levels, where S3 keys end, and the longest. */
static size_t border_length(struct fixture *f)
{
        static const size_t borders[] = {511, 511 + 503, 511 + 2 * 503, 511 + 3 * 503, 520, 1024, FMT_NAME_MAX - 3};
        size_t len = borders[fixture_random(f, sizeof(borders) / sizeof(borders[0]))] - 3 + fixture_random(f, 7);

        return len < FMT_NAME_MAX ? len : FMT_NAME_MAX;
}

static size_t random_name(struct world *w, uint8_t name[FMT_NAME_MAX])
{
        struct fixture *f = w->f;
        size_t len = 0, more;
        unsigned p;

        if (fixture_random(f, 4) == 0) {
                len = 1 + fixture_random(f, 6);
                random_bytes(f, name, len);
                return len;
        }
        p = (unsigned)fixture_random(f, PREFIXES);
        len = w->prefix_len[p];
        memcpy(name, w->prefix[p], len);
        more = fixture_random(f, 3) == 0 ? 0 : fixture_random(f, 4);
        if (fixture_random(f, 8) == 0)
                more = border_length(f);
        if (more > FMT_NAME_MAX - len)
                more = FMT_NAME_MAX - len;
        random_bytes(f, name + len, more);
        return len + more;
}

static void world_make(struct world *w, struct fixture *f)
{
        memset(w, 0, sizeof(*w));
        w->f = f;
        RB_INIT(&w->model);
        for (unsigned i = 0; i < PREFIXES; i++) {
                w->prefix_len[i] = border_length(f);
                random_bytes(f, w->prefix[i], w->prefix_len[i]);
                if (i % 2 == 1) /* shares all it can with the one before */
                        memcpy(w->prefix[i], w->prefix[i - 1],
                               w->prefix_len[i - 1] < w->prefix_len[i] ? w->prefix_len[i - 1] : w->prefix_len[i]);
        }
}

static void model_remove(struct world *w, struct known *known)
{
        RB_REMOVE(model, &w->model, known);
        free(known);
        w->count--;
}

static struct known *model_find(struct world *w, const uint8_t *name, size_t len)
{
        struct known *key = calloc(1, sizeof(*key)), *found;

        assert_non_null(key);
        memcpy(key->name, name, len);
        key->len = len;
        found = RB_FIND(model, &w->model, key);
        free(key);
        return found;
}

/* The first of the model >= (or >) name. */
static struct known *model_seek(struct world *w, const uint8_t *name, size_t len, bool after)
{
        struct known *key = calloc(1, sizeof(*key)), *found;

        assert_non_null(key);
        if (len > 0)
                memcpy(key->name, name, len);
        key->len = len;
        found = RB_NFIND(model, &w->model, key);
        free(key);
        if (after && found != NULL && compare(found->name, found->len, name, len) == 0)
                found = RB_NEXT(model, &w->model, found);
        return found;
}

static void check_entry(const struct known *known, const struct eng_index_entry *entry)
{
        uint8_t value[sizeof(struct fmt_value) + EXTRA_MAX];
        size_t len = fixture_value(value, known->log_file, known->inline_len, known->seq, known->extra);

        assert_int_equal(entry->name_len, known->len);
        assert_memory_equal(entry->name, known->name, known->len);
        assert_int_equal(entry->value_len, len);
        assert_memory_equal(entry->value + 4, value + 4, len - 4); /* all but the checksum */
}

static void world_put(struct world *w, struct eng_index_txn *txn)
{
        uint8_t value[sizeof(struct fmt_value) + EXTRA_MAX], name[FMT_NAME_MAX];
        struct known *known;
        size_t len = random_name(w, name);

        known = model_find(w, name, len);
        if (known == NULL) {
                known = calloc(1, sizeof(*known));
                assert_non_null(known);
                memcpy(known->name, name, len);
                known->len = len;
                RB_INSERT(model, &w->model, known);
                w->count++;
        }
        known->seq = ++w->seq;
        known->log_file = 1 + fixture_random(w->f, LOGS);
        known->inline_len = (uint32_t)fixture_random(w->f, 1000);
        known->extra = fixture_random(w->f, 50) == 0 ? fixture_random(w->f, EXTRA_MAX) : fixture_random(w->f, 40);
        len = fixture_value(value, known->log_file, known->inline_len, known->seq, known->extra);
        assert_int_equal(eng_index_put(txn, name, known->len, value, len), 0);
}

static void world_delete(struct world *w, struct eng_index_txn *txn)
{
        uint8_t name[FMT_NAME_MAX];
        size_t len = random_name(w, name);
        struct known *known = model_seek(w, name, len, false);

        if (known != NULL && fixture_random(w->f, 4) != 0) {
                memcpy(name, known->name, known->len);
                len = known->len;
        }
        known = model_find(w, name, len);
        assert_int_equal(eng_index_delete(txn, name, len), known != NULL ? 0 : -ENOENT);
        if (known != NULL)
                model_remove(w, known);
}

static void on_gone(void *arg, const struct eng_index_entry *entry)
{
        struct world *w = arg;
        struct known *known = model_find(w, entry->name, entry->name_len);

        assert_non_null(known);
        check_entry(known, entry);
        model_remove(w, known);
}

static void world_delete_prefix(struct world *w, struct eng_index_txn *txn)
{
        uint8_t name[FMT_NAME_MAX];
        size_t len = random_name(w, name);
        struct known *known = model_seek(w, name, len, false);

        if (known != NULL) {
                len = known->len - fixture_random(w->f, known->len < 4 ? known->len : 4);
                memcpy(name, known->name, len);
        }
        assert_int_equal(eng_index_delete_prefix(txn, name, len, on_gone, w), 0);
        known = model_seek(w, name, len, false);
        assert_false(known != NULL && known->len >= len && memcmp(known->name, name, len) == 0);
}

static void check_seek(struct world *w, struct eng_index_txn *txn)
{
        uint8_t name[FMT_NAME_MAX];
        size_t len = random_name(w, name);
        struct eng_index_entry entry;
        struct known *known;
        bool after;
        int rv;

        known = model_seek(w, name, len, false);
        if (known != NULL && fixture_random(w->f, 2) == 0) {
                memcpy(name, known->name, known->len);
                len = known->len;
        }
        rv = eng_index_get(txn, name, len, &entry);
        known = model_find(w, name, len);
        assert_int_equal(rv, known != NULL ? 0 : -ENOENT);
        if (known != NULL)
                check_entry(known, &entry);

        after = fixture_random(w->f, 2) == 0;
        rv = eng_index_seek(txn, name, len, after, &entry);
        known = model_seek(w, name, len, after);
        for (unsigned i = 0; i < 5 && known != NULL; i++) {
                assert_int_equal(rv, 0);
                check_entry(known, &entry);
                rv = eng_index_next(txn, &entry);
                known = RB_NEXT(model, &w->model, known);
        }
        assert_int_equal(rv, known != NULL ? 0 : -ENOENT);
}

static int count_log(void *arg, const struct fmt_index_log *row)
{
        struct fmt_index_log *sum = arg;

        assert_in_range(row->file, 1, LOGS);
        sum[row->file].live_names += row->live_names;
        sum[row->file].live_bytes += row->live_bytes;
        return 0;
}

static void check_all(struct world *w, struct eng_index_txn *txn)
{
        struct fmt_index_log have[LOGS + 1] = {0}, want[LOGS + 1] = {0};
        struct eng_index_entry entry;
        struct known *known;
        int rv;

        rv = eng_index_seek(txn, NULL, 0, fixture_random(w->f, 2) == 0, &entry);
        RB_FOREACH (known, model, &w->model) {
                assert_int_equal(rv, 0);
                check_entry(known, &entry);
                rv = eng_index_next(txn, &entry);
                want[known->log_file].live_names++;
                want[known->log_file].live_bytes +=
                        known->len + sizeof(struct fmt_value) + known->extra + known->inline_len;
        }
        assert_int_equal(rv, -ENOENT);
        assert_int_equal(eng_index_next(txn, &entry), -ENOENT);
        assert_int_equal(eng_index_each_log(txn, count_log, have), 0);
        assert_memory_equal(have, want, sizeof(have));
        for (unsigned i = 0; i < 200; i++)
                check_seek(w, txn);
}

static void world_batch(struct world *w)
{
        struct eng_index_txn *txn = fixture_write(w->f);
        unsigned deletes = w->count > 3000 ? 8 : 3;

        for (unsigned i = 0; i < 200; i++) {
                if (fixture_random(w->f, 10) >= deletes)
                        world_put(w, txn);
                else
                        world_delete(w, txn);
                if (fixture_random(w->f, 150) == 0)
                        world_delete_prefix(w, txn);
                if (fixture_random(w->f, 20) == 0)
                        check_seek(w, txn); /* a write transaction sees its own changes */
        }
        if (fixture_random(w->f, 10) == 0)
                check_all(w, txn);
        assert_int_equal(eng_index_write_commit(txn), 0);
}

/* Changes that are given up leave nothing. */
static void world_abort(struct world *w)
{
        struct eng_index_txn *txn = fixture_write(w->f);
        uint8_t value[sizeof(struct fmt_value)], name[FMT_NAME_MAX];
        struct eng_index_entry entry;

        fixture_value(value, 3, 1, 1, 0);
        for (unsigned i = 0; i < 20; i++)
                assert_int_equal(eng_index_put(txn, name, random_name(w, name), value, sizeof(value)), 0);
        if (eng_index_seek(txn, NULL, 0, false, &entry) == 0) {
                name[0] = entry.name[0];
                assert_int_equal(eng_index_delete_prefix(txn, name, 1, NULL, NULL), 0);
        }
        eng_index_write_abort(txn);
}

static void test_model(void **state)
{
        struct fixture *f = *state;
        struct world *w = calloc(1, sizeof(*w));
        struct eng_index_txn *reader = NULL;
        struct eng_index_info info;
        struct known *known;

        assert_non_null(w);
        world_make(w, f);
        for (unsigned round = 0; round < 120; round++) {
                world_batch(w);
                if (fixture_random(f, 5) == 0)
                        world_abort(w);
                if (fixture_random(f, 10) == 0) {
                        eng_index_reader_free(reader);
                        reader = NULL;
                        fixture_reopen(f);
                }
                if (reader == NULL)
                        assert_int_equal(eng_index_reader_new(f->index, &reader), 0);
                assert_int_equal(eng_index_read_begin(reader), 0);
                check_all(w, reader);
                eng_index_read_end(reader);
        }
        printf("%zu names, %llu puts\n", w->count, (unsigned long long)w->seq);

        /* One by one or by prefix: with the last name the last piece is gone. */
        while ((known = RB_ROOT(&w->model)) != NULL) {
                struct eng_index_txn *txn = fixture_write(f);
                uint8_t first = known->name[0];

                for (unsigned i = 0; i < 300 && (known = RB_ROOT(&w->model)) != NULL; i++) {
                        assert_int_equal(eng_index_delete(txn, known->name, known->len), 0);
                        model_remove(w, known);
                }
                assert_int_equal(eng_index_delete_prefix(txn, &first, 1, on_gone, w), 0);
                assert_int_equal(eng_index_write_commit(txn), 0);
        }
        assert_int_equal(eng_index_read_begin(reader), 0);
        assert_int_equal(eng_index_info(reader, &info), 0);
        assert_int_equal(info.keys, 0);
        check_all(w, reader);
        eng_index_reader_free(reader);
        free(w);
}

/* An END_UPLOAD of many parts under a long key, with neighbours that stay. */
static void test_prefix_of_upload(void **state)
{
        struct fixture *f = *state;
        struct eng_index_txn *txn = fixture_write(f);
        uint8_t value[sizeof(struct fmt_value)], name[2100];
        struct eng_index_entry entry;
        unsigned left = 0;

        memset(name, 'k', sizeof(name));
        fixture_value(value, 1, 0, 1, 0);
        for (unsigned upload = 1; upload <= 3; upload++) {
                for (unsigned part = 1; part <= 1000; part++) {
                        name[2050] = (uint8_t)upload;
                        name[2051] = (uint8_t)(part >> 8);
                        name[2052] = (uint8_t)part;
                        assert_int_equal(eng_index_put(txn, name, 2053, value, sizeof(value)), 0);
                }
        }
        name[2050] = 2;
        assert_int_equal(eng_index_delete_prefix(txn, name, 2051, NULL, NULL), 0);
        assert_int_equal(eng_index_delete_prefix(txn, name, 2051, NULL, NULL), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        txn = fixture_read(f);
        for (int rv = eng_index_seek(txn, NULL, 0, false, &entry); rv == 0; rv = eng_index_next(txn, &entry)) {
                assert_int_equal(entry.name_len, 2053);
                assert_int_not_equal(entry.name[2050], 2);
                left++;
        }
        assert_int_equal(left, 2000);
        eng_index_reader_free(txn);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {TEST(test_model), TEST(test_prefix_of_upload)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
