/*
 * test_index_places.c - places of shards and the rows beside them: the counts of segments must
 * follow the places in every history, because files are unlinked by them.
 */
#include <endian.h>
#include <lmdb.h>

#include "ec.h"
#include "test_index_fixture.h"

#define OBJECTS  40u
#define STRIPES  12u
#define SHARDS   3u
#define SEGMENTS 6u

struct model {
        struct eng_location location[OBJECTS][STRIPES][SHARDS];
        bool there[OBJECTS][STRIPES][SHARDS];
};

static void object_id(unsigned number, uint8_t id[FMT_ID])
{
        memset(id, 0xee, FMT_ID);
        id[FMT_ID - 1] = (uint8_t)number;
}

struct counts {
        uint64_t frames[SEGMENTS + 1], bytes[SEGMENTS + 1], last;
};

static int count_segment(void *arg, const struct fmt_index_segment *row)
{
        struct counts *counts = arg;

        assert_in_range(row->segment, 1, SEGMENTS);
        assert_true(row->segment > counts->last);
        counts->last = row->segment;
        counts->frames[row->segment] = row->live_frames;
        counts->bytes[row->segment] = row->live_bytes;
        return 0;
}

static void check(struct model *model, struct eng_index_txn *txn)
{
        struct counts have = {0}, want = {0};
        struct eng_location got;
        uint8_t id[FMT_ID];
        int rv;

        for (unsigned o = 0; o < OBJECTS; o++)
                for (unsigned s = 0; s < STRIPES; s++)
                        for (unsigned h = 0; h < SHARDS; h++) {
                                object_id(o, id);
                                rv = eng_index_location_get(txn, id, s, (uint8_t)h, &got);
                                assert_int_equal(rv, model->there[o][s][h] ? 0 : -ENOENT);
                                if (rv != 0)
                                        continue;
                                assert_int_equal(got.segment, model->location[o][s][h].segment);
                                assert_int_equal(got.offset, model->location[o][s][h].offset);
                                assert_int_equal(got.payload_len, model->location[o][s][h].payload_len);
                                assert_int_equal(got.stripe, s);
                                assert_int_equal(got.shard, h);
                                want.frames[got.segment]++;
                                want.bytes[got.segment] += eng_location_bytes(&got);
                        }
        assert_int_equal(eng_index_each_segment(txn, count_segment, &have), 0);
        assert_memory_equal(have.frames, want.frames, sizeof(have.frames));
        assert_memory_equal(have.bytes, want.bytes, sizeof(have.bytes));
}

static void random_put(struct fixture *f, struct model *model, struct eng_index_txn *txn)
{
        unsigned o = (unsigned)fixture_random(f, OBJECTS), s = (unsigned)fixture_random(f, STRIPES);
        unsigned h = (unsigned)fixture_random(f, SHARDS);
        struct eng_location *known = &model->location[o][s][h], old = {0};
        struct eng_location location = {.segment = 1 + fixture_random(f, SEGMENTS),
                                  .offset = 4096 * (1 + fixture_random(f, 1000)),
                                  .payload_len = 4096 * (1 + (uint32_t)fixture_random(f, 256)),
                                  .stripe = s,
                                  .shard = (uint8_t)h};
        uint8_t id[FMT_ID];

        if (model->there[o][s][h] && fixture_random(f, 2) == 0)
                location = *known; /* the same again, as a scan gives it */
        object_id(o, id);
        assert_int_equal(eng_index_location_put(txn, id, &location, fixture_random(f, 2) != 0 ? &old : NULL),
                         model->there[o][s][h]);
        if (old.segment != 0) {
                assert_int_equal(old.segment, known->segment);
                assert_int_equal(old.offset, known->offset);
        }
        *known = location;
        model->there[o][s][h] = true;
}

struct discard {
        struct model *model;
        unsigned object, last, count;
};

static void on_location_gone(void *arg, const struct eng_location *location)
{
        struct discard *discard = arg;
        unsigned order = 1 + location->stripe * 256 + location->shard;

        assert_true(order > discard->last);
        discard->last = order;
        discard->count++;
        assert_true(discard->model->there[discard->object][location->stripe][location->shard]);
        assert_int_equal(location->offset, discard->model->location[discard->object][location->stripe][location->shard].offset);
        discard->model->there[discard->object][location->stripe][location->shard] = false;
}

static void random_discard(struct fixture *f, struct model *model, struct eng_index_txn *txn)
{
        struct discard discard = {.model = model, .object = (unsigned)fixture_random(f, OBJECTS)};
        uint8_t id[FMT_ID];

        object_id(discard.object, id);
        assert_int_equal(eng_index_location_discard(txn, id, on_location_gone, &discard), 0);
        for (unsigned i = 0; i < STRIPES * SHARDS; i++)
                assert_false(model->there[discard.object][i / SHARDS][i % SHARDS]);
        assert_int_equal(eng_index_location_discard(txn, id, NULL, NULL), 0);
}

static void test_model(void **state)
{
        struct fixture *f = *state;
        struct model *model = calloc(1, sizeof(*model)), *before = calloc(1, sizeof(*before));
        struct eng_index_txn *txn;

        assert_non_null(model);
        assert_non_null(before);
        for (unsigned round = 0; round < 60; round++) {
                bool give_up = fixture_random(f, 6) == 0;

                *before = *model;
                txn = fixture_write(f);
                for (unsigned i = 0; i < 60; i++) {
                        if (fixture_random(f, 20) != 0)
                                random_put(f, model, txn);
                        else
                                random_discard(f, model, txn);
                        if (fixture_random(f, 40) == 0)
                                check(model, txn);
                }
                if (give_up) {
                        eng_index_write_abort(txn);
                        *model = *before;
                } else {
                        assert_int_equal(eng_index_write_commit(txn), 0);
                }
                if (fixture_random(f, 8) == 0)
                        fixture_reopen(f);
                txn = fixture_read(f);
                check(model, txn);
                eng_index_reader_free(txn);
        }
        free(model);
        free(before);
}

static int copy_segment(void *arg, const struct fmt_index_segment *row)
{
        *(struct fmt_index_segment *)arg = *row;
        return row->segment == UINT64_MAX ? 77 : 0;
}

static int never(void *arg, const struct fmt_index_segment *row)
{
        fail();
        return 0;
}

static void test_segment_rows(void **state)
{
        struct fixture *f = *state;
        struct fmt_index_segment row = {.segment = 5,
                                        .generation = 9,
                                        .end = 100,
                                        .indexed_to = 50,
                                        .live_frames = 1234},
                                 got = {0};
        struct eng_location location = {.segment = 5, .offset = 4096, .payload_len = 8192};
        uint8_t id[FMT_ID] = {1};
        struct eng_index_txn *txn;

        txn = fixture_read(f);
        assert_int_equal(eng_index_each_segment(txn, never, NULL), 0);
        eng_index_reader_free(txn);

        /* The row's own figures and the counts do not disturb each other, in either order. */
        txn = fixture_write(f);
        assert_int_equal(eng_index_location_put(txn, id, &location, NULL), 0);
        assert_int_equal(eng_index_segment_put(txn, &row), 0);
        location.stripe = 1;
        assert_int_equal(eng_index_location_put(txn, id, &location, NULL), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        txn = fixture_write(f);
        row.sealed = 1;
        assert_int_equal(eng_index_segment_put(txn, &row), 0);
        assert_int_equal(eng_index_each_segment(txn, copy_segment, &got), 0);
        assert_int_equal(got.generation, 9);
        assert_int_equal(got.sealed, 1);
        assert_int_equal(got.live_frames, 2);
        assert_int_equal(got.live_bytes, 2 * (4096 + 8192));

        /* A segment that is lost: its places go without a row coming back. */
        assert_int_equal(eng_index_segment_delete(txn, 5), 0);
        assert_int_equal(eng_index_segment_delete(txn, 5), 0);
        assert_int_equal(eng_index_location_discard(txn, id, NULL, NULL), 0);
        assert_int_equal(eng_index_each_segment(txn, never, NULL), 0);

        /* The walk ends at the largest number and passes a stop on. */
        row.segment = UINT64_MAX;
        assert_int_equal(eng_index_segment_put(txn, &row), 0);
        assert_int_equal(eng_index_each_segment(txn, copy_segment, &got), 77);
        assert_int_equal(eng_index_write_commit(txn), 0);
}

/*
 * A place made and discarded in one transaction, and a row deleted with counts still to be added.
 */
static void test_counts_in_one_transaction(void **state)
{
        struct fixture *f = *state;
        struct eng_location location = {.segment = 3, .offset = 4096, .payload_len = 4096};
        uint8_t id[FMT_ID] = {2};
        struct eng_index_txn *txn = fixture_write(f);

        assert_int_equal(eng_index_location_put(txn, id, &location, NULL), 0);
        assert_int_equal(eng_index_location_discard(txn, id, NULL, NULL), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        txn = fixture_write(f);
        assert_int_equal(eng_index_location_put(txn, id, &location, NULL), 0);
        assert_int_equal(eng_index_segment_delete(txn, 3), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        txn = fixture_read(f);
        assert_int_equal(eng_index_each_segment(txn, never, NULL), 0);
        eng_index_reader_free(txn);
}

struct seen {
        uint64_t number[8], a[8], b[8];
        unsigned count;
};

static int see_log(void *arg, const struct fmt_index_log *row)
{
        struct seen *seen = arg;

        seen->number[seen->count] = row->file;
        seen->a[seen->count] = row->live_names;
        seen->b[seen->count++] = row->tombstones;
        return 0;
}

static int see_pg(void *arg, const struct fmt_index_pg *row)
{
        struct seen *seen = arg;

        seen->number[seen->count] = row->pg;
        seen->a[seen->count] = row->seq;
        seen->b[seen->count++] = row->committed;
        return 0;
}

static void test_log_and_pg_rows(void **state)
{
        struct fixture *f = *state;
        struct fmt_index_log log = {.file = 300, .tombstones = 4};
        struct fmt_index_pg pg = {.seq = 10, .committed = 8};
        uint8_t value[sizeof(struct fmt_value)];
        struct seen logs = {0}, pgs = {0};
        struct eng_index_txn *txn = fixture_write(f);

        fixture_value(value, 300, 0, 1, 0);
        assert_int_equal(eng_index_put(txn, "x", 1, value, sizeof(value)), 0);
        assert_int_equal(eng_index_log_put(txn, &log), 0);
        log.file = 2;
        assert_int_equal(eng_index_log_put(txn, &log), 0);
        log.file = 1;
        assert_int_equal(eng_index_log_put(txn, &log), 0);
        assert_int_equal(eng_index_log_delete(txn, 1), 0);
        for (unsigned i = 0; i < 3; i++) {
                pg.pg = (const uint32_t[]){UINT32_MAX, 0, 300}[i];
                assert_int_equal(eng_index_pg_put(txn, &pg), 0);
        }
        pg.seq = 11;
        assert_int_equal(eng_index_pg_put(txn, &pg), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);

        txn = fixture_read(f);
        assert_int_equal(eng_index_each_log(txn, see_log, &logs), 0);
        assert_int_equal(logs.count, 2);
        assert_true(logs.number[0] == 2 && logs.a[0] == 0 && logs.b[0] == 4);
        assert_true(logs.number[1] == 300 && logs.a[1] == 1 && logs.b[1] == 4);
        assert_int_equal(eng_index_each_pg(txn, see_pg, &pgs), 0);
        assert_int_equal(pgs.count, 3);
        assert_true(pgs.number[0] == 0 && pgs.number[1] == 300 && pgs.number[2] == UINT32_MAX);
        assert_true(pgs.a[1] == 11 && pgs.b[1] == 8);
        eng_index_reader_free(txn);
}

/* A row of this database for one number that speaks of another, with a checksum that is right. */
static void cross_rows(struct fixture *f, const char *name, const void *key, size_t key_len, void *row, size_t len)
{
        MDB_val mkey = {.mv_size = key_len, .mv_data = (void *)key}, data = {.mv_size = len, .mv_data = row};
        uint32_t crc = era_crc32c(era_crc32c(0, key, key_len), (uint8_t *)row + sizeof(crc), len - sizeof(crc));
        MDB_env *env;
        MDB_txn *txn;
        MDB_dbi dbi;

        memcpy(row, &crc, sizeof(crc));
        eng_index_close(f->index);
        f->index = NULL;
        assert_int_equal(mdb_env_create(&env), 0);
        assert_int_equal(mdb_env_set_maxdbs(env, 16), 0);
        assert_int_equal(mdb_env_set_mapsize(env, FIXTURE_MAP), 0);
        assert_int_equal(mdb_env_open(env, f->path, MDB_NOTLS, 0600), 0);
        assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
        assert_int_equal(mdb_dbi_open(txn, name, 0, &dbi), 0);
        assert_int_equal(mdb_put(txn, dbi, &mkey, &data, 0), 0);
        assert_int_equal(mdb_txn_commit(txn), 0);
        mdb_env_close(env);
        assert_int_equal(eng_index_open(&f->options, &f->index), 0);
}

static int any_segment(void *arg, const struct fmt_index_segment *row)
{
        return 0;
}

static int any_log(void *arg, const struct fmt_index_log *row)
{
        return 0;
}

static int any_pg(void *arg, const struct fmt_index_pg *row)
{
        return 0;
}

/* Whoever reads rows takes them to ascend by the numbers in them: that is damage. */
static void test_rows_of_others(void **state)
{
        struct fixture *f = *state;
        uint64_t be = htobe64(7);
        uint32_t be32 = htobe32(7);
        struct fmt_index_segment segment = {.segment = 3};
        struct fmt_index_log log = {.file = 3};
        struct fmt_index_pg pg = {.pg = 3};
        struct eng_index_txn *txn;

        cross_rows(f, "segments", &be, sizeof(be), &segment, sizeof(segment));
        cross_rows(f, "logs", &be, sizeof(be), &log, sizeof(log));
        cross_rows(f, "pgs", &be32, sizeof(be32), &pg, sizeof(pg));
        txn = fixture_read(f);
        assert_int_equal(eng_index_each_segment(txn, any_segment, NULL), -EBADMSG);
        assert_int_equal(eng_index_each_log(txn, any_log, NULL), -EBADMSG);
        assert_int_equal(eng_index_each_pg(txn, any_pg, NULL), -EBADMSG);
        eng_index_reader_free(txn);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {TEST(test_model), TEST(test_segment_rows),
                                           TEST(test_counts_in_one_transaction), TEST(test_log_and_pg_rows),
                                           TEST(test_rows_of_others)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
