/*
 * test_index_owners.c - which names have parts of an object id: right after every change, and made
 * beside the names of an index that has none (layout 1), however changes, transactions and restarts
 * fall between. What is said to have no owner is deleted (I6).
 */
#include <lmdb.h>

#include "engine/drive/drive.h"
#include "test_index_fixture.h"

#define NAMES 60u
#define IDS 40u
#define PARTS 4u

struct model {
        bool there[NAMES];
        unsigned count[NAMES];              /* parts; 0: inline */
        unsigned id[NAMES][PARTS];
};

static void make_id(unsigned number, uint8_t id[FMT_ID])
{
        memset(id, 0xab, FMT_ID);
        id[3] = (uint8_t)(number / 8);
        id[FMT_ID - 1] = (uint8_t)number;
}

/* Objects, parts of uploads, and long names, so that rows of all levels are met. */
static size_t make_name(unsigned number, uint8_t name[FMT_NAME_MAX])
{
        size_t len = number % 5 == 0 ? 700 + number : 20;

        memset(name, 'n', len);
        name[0] = number % 3 == 0 ? FMT_SPACE_PART : FMT_SPACE_OBJECT;
        name[len - 1] = (uint8_t)number;
        return len;
}

static size_t make_value(const struct model *model, unsigned number, uint8_t *out)
{
        struct fmt_value head = {.space = FMT_SPACE_OBJECT, .pg = number, .parts = model->count[number], .log_file = 1};
        struct fmt_part part = {.number = FMT_PART_NARROW, .k = 2, .m = 1, .runs = 1};
        static const uint8_t drives[3] = {0, 1, 0xff};
        size_t len = sizeof(head);

        memcpy(out, &head, sizeof(head));
        for (unsigned i = 0; i < model->count[number]; i++) {
                make_id(model->id[number][i], part.id);
                memcpy(out + len, &part, sizeof(part));
                memcpy(out + len + sizeof(part), drives, sizeof(drives));
                len += sizeof(part) + sizeof(drives);
        }
        return len;
}

static void change(struct fixture *f, struct model *model, struct eng_index_txn *txn)
{
        unsigned n = (unsigned)fixture_random(f, NAMES);
        uint8_t name[FMT_NAME_MAX], value[1024];
        size_t len = make_name(n, name);

        if (fixture_random(f, 3) == 0) {
                assert_int_equal(eng_index_delete(txn, name, len), model->there[n] ? 0 : -ENOENT);
                model->there[n] = false;
                return;
        }
        if (!model->there[n] || fixture_random(f, 4) != 0) { /* else: the same parts again, as an update of attributes does */
                model->count[n] = (unsigned)fixture_random(f, PARTS + 1);
                for (unsigned i = 0; i < model->count[n]; i++)
                        model->id[n][i] = (unsigned)fixture_random(f, IDS);
        }
        model->there[n] = true;
        assert_int_equal(eng_index_put(txn, name, len, value, make_value(model, n, value)), 0);
}

static void check(const struct model *model, struct eng_index_txn *txn)
{
        bool owned[IDS] = {false};
        uint8_t id[FMT_ID];

        for (unsigned n = 0; n < NAMES; n++)
                for (unsigned i = 0; model->there[n] && i < model->count[n]; i++)
                        owned[model->id[n][i]] = true;
        for (unsigned i = 0; i < IDS; i++) {
                make_id(i, id);
                assert_int_equal(eng_index_owned(txn, id), owned[i]);
        }
}

static void test_follow_names(void **state)
{
        struct fixture *f = *state;
        struct model model = {0};

        for (unsigned round = 0; round < 120; round++) {
                struct eng_index_txn *txn = fixture_write(f);
                struct model before = model;

                for (unsigned i = 0; i < 12; i++)
                        change(f, &model, txn);
                if (round % 7 == 0)
                        check(&model, txn);
                if (round % 5 == 4) {
                        eng_index_write_abort(txn);
                        model = before;
                } else {
                        assert_int_equal(eng_index_write_commit(txn), 0);
                }
                txn = fixture_read(f);
                assert_int_equal(eng_index_owners_complete(txn), 1);
                check(&model, txn);
                eng_index_reader_free(txn);
                if (round % 40 == 39)
                        fixture_reopen(f);
        }
}

/* As layout 1 left it. */
static void drop_owners(struct fixture *f)
{
        uint8_t kind = ENG_INDEX_OWNERS, unknown = ENG_INDEX_UNKNOWN_OWNERS;
        MDB_val key = {.mv_size = 1, .mv_data = &kind}, other = {.mv_size = 1, .mv_data = &unknown};
        int rv;
        MDB_dbi owners, meta;
        MDB_env *env;
        MDB_txn *txn;

        eng_index_close(f->index);
        f->index = NULL;
        assert_int_equal(mdb_env_create(&env), 0);
        assert_int_equal(mdb_env_set_maxdbs(env, 16), 0);
        assert_int_equal(mdb_env_set_mapsize(env, FIXTURE_MAP), 0);
        assert_int_equal(mdb_env_open(env, f->path, MDB_NOTLS, 0600), 0);
        assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
        assert_int_equal(mdb_dbi_open(txn, "owners", 0, &owners), 0);
        assert_int_equal(mdb_dbi_open(txn, "meta", 0, &meta), 0);
        assert_int_equal(mdb_drop(txn, owners, 1), 0);
        assert_int_equal(mdb_del(txn, meta, &key, NULL), 0);
        rv = mdb_del(txn, meta, &other, NULL);
        assert_true(rv == 0 || rv == MDB_NOTFOUND);
        assert_int_equal(mdb_txn_commit(txn), 0);
        mdb_env_close(env);
        assert_int_equal(eng_index_open(&f->options, &f->index), 0);
}

static void test_made_beside_names(void **state)
{
        struct fixture *f = *state;

        for (unsigned round = 0; round < 12; round++) {
                struct model model = {0};
                struct eng_index_txn *txn = fixture_write(f);
                unsigned steps = 0;
                int rv = 0;

                for (unsigned n = 0; n < NAMES; n++) { /* what the round before left */
                        uint8_t name[FMT_NAME_MAX];

                        eng_index_delete(txn, name, make_name(n, name));
                }
                for (unsigned i = 0; i < 200; i++)
                        change(f, &model, txn);
                assert_int_equal(eng_index_write_commit(txn), 0);
                drop_owners(f);
                txn = fixture_read(f);
                assert_int_equal(eng_index_owners_complete(txn), 0);
                eng_index_reader_free(txn);
                while (rv == 0) {
                        assert_true(++steps < 10 * NAMES);
                        txn = fixture_write(f);
                        for (unsigned i = 0; i < fixture_random(f, 5); i++)
                                change(f, &model, txn);
                        rv = eng_index_owners_make(txn, 1 + (unsigned)fixture_random(f, 4));
                        assert_true(rv == 0 || rv == 1);
                        for (unsigned i = 0; i < fixture_random(f, 5); i++)
                                change(f, &model, txn);
                        assert_int_equal(eng_index_write_commit(txn), 0);
                        if (fixture_random(f, 6) == 0)
                                fixture_reopen(f);
                }
                fixture_reopen(f);
                txn = fixture_read(f);
                assert_int_equal(eng_index_owners_complete(txn), 1);
                check(&model, txn);
                eng_index_reader_free(txn);
        }
}

/* ---- values whose parts make no sense -------------------------------------------------------- */

static size_t odd_value(uint8_t *out)
{
        struct fmt_value head = {.space = FMT_SPACE_OBJECT, .parts = 2, .log_file = 1};
        struct fmt_part part = {.number = FMT_PART_NARROW, .k = 2, .m = 1, .runs = 1};

        memcpy(out, &head, sizeof(head));
        make_id(1, part.id);
        memcpy(out + sizeof(head), &part, sizeof(part));
        memset(out + sizeof(head) + sizeof(part), 0, 3);
        part.k = 0;
        memcpy(out + sizeof(head) + sizeof(part) + 3, &part, sizeof(part));
        return sizeof(head) + 2 * sizeof(part) + 3;
}

static void expect_unknown(struct fixture *f, uint64_t want)
{
        struct eng_index_txn *txn = fixture_read(f);
        uint8_t id[FMT_ID];
        uint64_t count;

        assert_int_equal(eng_index_unknown_owners(txn, &count), 0);
        assert_int_equal(count, want);
        make_id(39, id); /* of no name */
        assert_int_equal(eng_index_owned(txn, id), want > 0);
        eng_index_reader_free(txn);
}

/* As long as one is there nothing is said to have no owner, however it came and goes. */
static void test_unknown(void **state)
{
        static const char *const names[] = {"\x02one-name-of-a-bucket", "\x02other-name-of-a-bucket"};
        struct fixture *f = *state;
        uint8_t odd[512], value[1024];
        struct model model = {.count = {1}, .id = {{7}}};
        size_t odd_len = odd_value(odd), len = make_value(&model, 0, value);
        struct eng_index_txn *txn = fixture_write(f);

        for (unsigned i = 0; i < 2; i++)
                for (unsigned twice = 0; twice < 2; twice++)
                        assert_int_equal(eng_index_put(txn, names[i], strlen(names[i]), odd, odd_len), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        expect_unknown(f, 2);
        txn = fixture_write(f);
        assert_int_equal(eng_index_put(txn, names[0], strlen(names[0]), value, len), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        expect_unknown(f, 1);
        fixture_reopen(f);
        txn = fixture_write(f);
        assert_int_equal(eng_index_delete(txn, names[1], strlen(names[1])), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        expect_unknown(f, 0);
}

/*
 * Met by the making, or put and deleted before and behind where that has come to: each counts once.
 */
static void test_unknown_while_made(void **state)
{
        struct fixture *f = *state;
        struct eng_index_txn *txn = fixture_write(f);
        uint8_t odd[512];
        size_t len = odd_value(odd);
        bool there[8] = {false};
        uint64_t want = 0;
        char name[32];
        int rv = 0;

        for (unsigned i = 0; i < 8; i += 2) {
                snprintf(name, sizeof(name), "\x02name-%u", i);
                assert_int_equal(eng_index_put(txn, name, strlen(name), odd, len), 0);
                there[i] = true;
        }
        assert_int_equal(eng_index_write_commit(txn), 0);
        drop_owners(f);
        while (rv == 0) {
                txn = fixture_write(f);
                rv = eng_index_owners_make(txn, 1);
                assert_true(rv == 0 || rv == 1);
                for (unsigned i = 0; i < 3; i++) {
                        unsigned n = (unsigned)fixture_random(f, 8);

                        snprintf(name, sizeof(name), "\x02name-%u", n);
                        if (there[n])
                                assert_int_equal(eng_index_delete(txn, name, strlen(name)), 0);
                        else
                                assert_int_equal(eng_index_put(txn, name, strlen(name), odd, len), 0);
                        there[n] = !there[n];
                }
                assert_int_equal(eng_index_write_commit(txn), 0);
        }
        for (unsigned i = 0; i < 8; i++)
                want += there[i];
        expect_unknown(f, want);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_follow_names, fixture_setup, fixture_teardown),
                cmocka_unit_test_setup_teardown(test_made_beside_names, fixture_setup, fixture_teardown),
                cmocka_unit_test_setup_teardown(test_unknown, fixture_setup, fixture_teardown),
                cmocka_unit_test_setup_teardown(test_unknown_while_made, fixture_setup, fixture_teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
