/*
 * test_index.c - life of the index: making, recognising, refusing what is not this drive's whole
 * index, growing, snapshots, meta.
 */
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mount.h>

#include "test_index_fixture.h"

static void data_file(const struct fixture *f, char *out, size_t cap)
{
        snprintf(out, cap, "%s/data.mdb", f->path);
}

static void put_simple(struct fixture *f, const char *name, uint64_t seq)
{
        struct eng_index_txn *txn = fixture_write(f);
        uint8_t value[sizeof(struct fmt_value) + 8];
        size_t len = fixture_value(value, 1, 0, seq, 8);

        assert_int_equal(eng_index_put(txn, name, strlen(name), value, len), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
}

static int get_simple(struct fixture *f, const char *name)
{
        struct eng_index_txn *txn = fixture_read(f);
        struct eng_index_entry entry;
        int rv = eng_index_get(txn, name, strlen(name), &entry);

        eng_index_reader_free(txn);
        return rv;
}

static void test_made_once(void **state)
{
        struct fixture *f = *state;
        struct eng_index *other;

        eng_index_close(f->index);
        f->index = NULL;
        assert_int_equal(eng_index_create(&f->options, &other), -EEXIST);
        fixture_reopen(f);
        put_simple(f, "name", 1);
        fixture_reopen(f);
        assert_int_equal(get_simple(f, "name"), 0);
        assert_int_equal(get_simple(f, "nam"), -ENOENT);
        assert_int_equal(get_simple(f, "names"), -ENOENT);
}

static void test_none(void **state)
{
        struct fixture *f = *state;
        struct eng_index_options options = f->options;
        struct eng_index *other;

        eng_index_close(f->index);
        assert_int_equal(eng_index_remove(f->path), 0);
        assert_int_equal(eng_index_remove(f->path), 0);
        assert_int_equal(eng_index_open(&f->options, &f->index), -ENOENT);
        options.path = "/nonexistent/index";
        assert_int_equal(eng_index_open(&options, &other), -ENOENT);
        assert_int_equal(eng_index_remove(options.path), 0);
        assert_int_equal(eng_index_create(&f->options, &f->index), 0);
}

static void test_foreign(void **state)
{
        struct fixture *f = *state;
        struct eng_index *other;

        eng_index_close(f->index);
        f->options.drive_id[3] ^= 1;
        assert_int_equal(eng_index_open(&f->options, &other), -ESTALE);
        f->options.drive_id[3] ^= 1;
        assert_int_equal(eng_index_open(&f->options, &f->index), 0);
}

static void test_condemned(void **state)
{
        struct fixture *f = *state;
        struct eng_index *other;

        put_simple(f, "name", 1);
        assert_int_equal(eng_index_condemn(f->index), 0);
        assert_int_equal(eng_index_condemn(f->index), 0);
        assert_int_equal(get_simple(f, "name"), 0);
        eng_index_close(f->index);
        assert_int_equal(eng_index_open(&f->options, &other), -EBADMSG);
        assert_int_equal(eng_index_create(&f->options, &other), -EEXIST);
        assert_int_equal(eng_index_remove(f->path), 0);
        assert_int_equal(eng_index_create(&f->options, &f->index), 0);
        assert_int_equal(get_simple(f, "name"), -ENOENT);
}

/* Every length a crash or a bad copy may leave, the empty file included. */
static void test_cut_short(void **state)
{
        struct fixture *f = *state;
        struct eng_index *other;
        char path[160], name[16];
        struct stat st;

        for (unsigned i = 0; i < 500; i++) {
                snprintf(name, sizeof(name), "name%u", i);
                put_simple(f, name, i);
        }
        eng_index_close(f->index);
        f->index = NULL;
        data_file(f, path, sizeof(path));
        assert_int_equal(stat(path, &st), 0);
        for (off_t len = st.st_size - 4096; len >= 0; len -= 4096) {
                assert_int_equal(truncate(path, len), 0);
                assert_int_equal(eng_index_open(&f->options, &other), -EBADMSG);
        }
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_size, 0); /* looking changes nothing */
}

static void test_not_an_index(void **state)
{
        struct fixture *f = *state;
        struct eng_index *other;
        char path[160];
        int fd;

        eng_index_close(f->index);
        f->index = NULL;
        data_file(f, path, sizeof(path));
        fd = open(path, O_WRONLY | O_TRUNC);
        assert_true(fd >= 0);
        for (int i = 0; i < 4096; i++)
                assert_int_equal(write(fd, "garbage!", 8), 8);
        close(fd);
        assert_int_equal(eng_index_open(&f->options, &other), -EBADMSG);
}

/* LMDB's, but made by something else or not finished. */
static void test_no_identity(void **state)
{
        struct fixture *f = *state;
        struct eng_index *other;
        MDB_env *env;
        MDB_txn *txn;
        MDB_dbi dbi;

        eng_index_close(f->index);
        f->index = NULL;
        assert_int_equal(eng_index_remove(f->path), 0);
        assert_int_equal(mdb_env_create(&env), 0);
        assert_int_equal(mdb_env_set_maxdbs(env, 4), 0);
        assert_int_equal(mdb_env_open(env, f->path, 0, 0600), 0);
        assert_int_equal(mdb_txn_begin(env, NULL, 0, &txn), 0);
        assert_int_equal(mdb_dbi_open(txn, "names", MDB_CREATE, &dbi), 0);
        assert_int_equal(mdb_txn_commit(txn), 0);
        mdb_env_close(env);
        assert_int_equal(eng_index_open(&f->options, &other), -EBADMSG);
}

static void test_snapshots(void **state)
{
        struct fixture *f = *state;
        struct eng_index_txn *before = fixture_read(f), *write;
        uint8_t value[sizeof(struct fmt_value)];
        struct eng_index_entry entry;

        write = fixture_write(f);
        fixture_value(value, 1, 0, 1, 0);
        assert_int_equal(eng_index_put(write, "a", 1, value, sizeof(value)), 0);
        assert_int_equal(eng_index_get(write, "a", 1, &entry), 0);
        assert_int_equal(eng_index_get(before, "a", 1, &entry), -ENOENT);
        assert_int_equal(eng_index_write_commit(write), 0);
        assert_int_equal(eng_index_get(before, "a", 1, &entry), -ENOENT);
        assert_int_equal(eng_index_seek(before, NULL, 0, false, &entry), -ENOENT);
        eng_index_read_end(before);
        eng_index_read_end(before);
        assert_int_equal(eng_index_read_begin(before), 0);
        assert_int_equal(eng_index_get(before, "a", 1, &entry), 0);
        assert_int_equal(eng_index_seek(before, NULL, 0, false, &entry), 0);
        eng_index_reader_free(before);

        write = fixture_write(f);
        assert_int_equal(eng_index_delete(write, "a", 1), 0);
        eng_index_write_abort(write);
        assert_int_equal(get_simple(f, "a"), 0);
        eng_index_write_abort(NULL);
        eng_index_reader_free(NULL);
        eng_index_close(NULL);
}

struct watcher {
        struct fixture *f;
        atomic_bool stop;
        unsigned torn;
        atomic_uint looks;
};

/* Two names are always changed together: a snapshot has both or neither. */
static void *watch(void *arg)
{
        struct watcher *watcher = arg;
        struct eng_index_entry entry;
        struct eng_index_txn *txn;
        uint8_t first[FMT_ID];
        int a, b;

        if (eng_index_reader_new(watcher->f->index, &txn) != 0)
                return NULL;
        while (!atomic_load(&watcher->stop)) {
                if (eng_index_read_begin(txn) != 0)
                        break;
                a = eng_index_get(txn, "a", 1, &entry);
                if (a == 0)
                        memcpy(first, entry.value + offsetof(struct fmt_value, id), FMT_ID);
                b = eng_index_seek(txn, "b", 1, false, &entry);
                if (a != b || (a == 0 && memcmp(first, entry.value + offsetof(struct fmt_value, id), FMT_ID) != 0))
                        watcher->torn++;
                watcher->looks += a == 0;
                eng_index_read_end(txn);
        }
        eng_index_reader_free(txn);
        return NULL;
}

static void test_reader_beside_writer(void **state)
{
        struct watcher watcher = {.f = *state};
        struct fmt_value value = {.log_file = 1};
        struct eng_index_txn *txn;
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, watch, &watcher), 0);
        for (unsigned i = 0; i < 300 || (i < 100000 && atomic_load(&watcher.looks) == 0); i++) {
                txn = fixture_write(*state);
                memcpy(value.id, &i, sizeof(i));
                assert_int_equal(eng_index_put(txn, "a", 1, &value, sizeof(value)), 0);
                assert_int_equal(eng_index_put(txn, "b", 1, &value, sizeof(value)), 0);
                assert_int_equal(eng_index_write_commit(txn), 0);
        }
        atomic_store(&watcher.stop, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(watcher.torn, 0);
        assert_true(watcher.looks > 0);
}

static void test_meta(void **state)
{
        struct fixture *f = *state;
        struct fmt_index_covered covered = {.file = 7, .position = 4096, .prev_crc = 99}, got;
        struct eng_index_txn *txn;
        static uint8_t big[ENG_INDEX_META_MAX + 1];
        size_t len;

        txn = fixture_read(f);
        assert_int_equal(eng_index_meta_get(txn, ENG_INDEX_COVERED, &got, sizeof(got), &len), -ENOENT);
        eng_index_reader_free(txn);

        txn = fixture_write(f);
        assert_int_equal(eng_index_meta_put(txn, ENG_INDEX_COVERED, &covered, sizeof(covered)), 0);
        memset(big, 5, sizeof(big));
        assert_int_equal(eng_index_meta_put(txn, ENG_INDEX_EPOCH, big, sizeof(big)), -EINVAL);
        assert_int_equal(eng_index_meta_put(txn, ENG_INDEX_EPOCH, big, sizeof(big) - 1), 0);
        assert_int_equal(eng_index_meta_put(txn, ENG_INDEX_HISTORY, NULL, 0), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        fixture_reopen(f);

        txn = fixture_read(f);
        assert_int_equal(eng_index_meta_get(txn, ENG_INDEX_COVERED, &got, sizeof(got), &len), 0);
        assert_int_equal(len, sizeof(got));
        assert_memory_equal(&got, &covered, sizeof(got));
        assert_int_equal(eng_index_meta_get(txn, ENG_INDEX_EPOCH, &got, sizeof(got), &len), -ENOBUFS);
        assert_int_equal(len, ENG_INDEX_META_MAX);
        memset(big, 0, sizeof(big));
        assert_int_equal(eng_index_meta_get(txn, ENG_INDEX_EPOCH, big, sizeof(big), &len), 0);
        assert_int_equal(big[ENG_INDEX_META_MAX - 1], 5);
        assert_int_equal(eng_index_meta_get(txn, ENG_INDEX_HISTORY, big, sizeof(big), &len), 0);
        assert_int_equal(len, 0);
        eng_index_reader_free(txn);
}

/* The map fills up: the batch is lost, nothing else; after growing the same batch goes in. */
static void test_growth(void **state)
{
        struct fixture *f = *state;
        struct eng_index_txn *reader;
        uint8_t value[sizeof(struct fmt_value) + 1000];
        struct eng_index_entry entry;
        struct eng_index_info info;
        unsigned done = 0, grown = 0;
        char name[16];

        eng_index_close(f->index);
        f->options.map_bytes = 256 << 10;
        assert_int_equal(eng_index_open(&f->options, &f->index), 0);
        reader = fixture_read(f);
        eng_index_read_end(reader);
        while (done < 2000) {
                struct eng_index_txn *txn = fixture_write(f);
                int rv = 0;

                for (unsigned i = done; i < done + 100 && rv == 0; i++) {
                        snprintf(name, sizeof(name), "name%06u", i);
                        rv = eng_index_put(txn, name, strlen(name), value, fixture_value(value, 1, 0, i, 1000));
                }
                if (rv == 0) {
                        rv = eng_index_write_commit(txn);
                } else {
                        assert_int_equal(rv, -EFBIG);
                        assert_int_equal(eng_index_write_commit(txn), -EFBIG); /* a batch with a hole is refused */
                }
                if (rv == 0) {
                        done += 100;
                        continue;
                }
                assert_int_equal(rv, -EFBIG);
                assert_int_equal(eng_index_read_begin(reader), 0);
                snprintf(name, sizeof(name), "name%06u", done);
                assert_int_equal(eng_index_get(reader, name, strlen(name), &entry), -ENOENT);
                eng_index_read_end(reader);
                assert_int_equal(eng_index_grow(f->index), 0);
                grown++;
        }
        assert_true(grown >= 3);
        assert_int_equal(eng_index_read_begin(reader), 0);
        assert_int_equal(eng_index_info(reader, &info), 0);
        assert_int_equal(info.keys, 2000);
        assert_true(info.used_bytes <= info.map_bytes && info.map_bytes == (256ull << 10) << grown);
        eng_index_reader_free(reader);
        /* A map asked for smaller than the file is made large enough. */
        fixture_reopen(f);
        assert_int_equal(get_simple(f, "name001999"), 0);
}

/*
 * The file system fills up under the index, not the map: the batch is lost, what was there stays,
 * and room helps.
 */
static void test_file_system_full(void **state)
{
        struct fixture *f = *state;
        struct eng_index_txn *txn;
        uint8_t value[sizeof(struct fmt_value) + 2000];
        char name[16];
        unsigned done = 0;
        int rv = 0;

        eng_index_close(f->index);
        f->index = NULL;
        assert_int_equal(eng_index_remove(f->path), 0);
        if (mount("tmpfs", f->path, "tmpfs", 0, "size=1m") != 0) {
                assert_int_equal(eng_index_create(&f->options, &f->index), 0);
                skip();
        }
        assert_int_equal(eng_index_create(&f->options, &f->index), 0);
        while (rv == 0) {
                txn = fixture_write(f);
                for (unsigned i = 0; i < 50 && rv == 0; i++) {
                        snprintf(name, sizeof(name), "name%06u", done + i);
                        rv = eng_index_put(txn, name, strlen(name), value, fixture_value(value, 1, 0, i, 2000));
                }
                assert_int_equal(rv, 0);
                rv = eng_index_write_commit(txn);
                done += rv == 0 ? 50 : 0;
                assert_true(done < 1000);
        }
        assert_int_equal(rv, -ENOSPC);
        assert_int_equal(get_simple(f, "name000000"), 0);
        snprintf(name, sizeof(name), "name%06u", done);
        assert_int_equal(get_simple(f, name), -ENOENT);
        assert_int_equal(mount(NULL, f->path, NULL, MS_REMOUNT, "size=4m"), 0);
        put_simple(f, "room", 1);
        assert_int_equal(get_simple(f, "room"), 0);
        assert_int_equal(get_simple(f, "name000000"), 0);
        eng_index_close(f->index);
        f->index = NULL;
        assert_int_equal(umount(f->path), 0);
}

static void test_bad_arguments(void **state)
{
        struct fixture *f = *state;
        struct eng_index_txn *txn = fixture_write(f);
        uint8_t *value = calloc(1, ENG_INDEX_VALUE_MAX + 1), name[FMT_NAME_MAX + 1] = {1};
        struct eng_index_entry entry;

        assert_non_null(value);
        assert_int_equal(eng_index_put(txn, name, 0, value, sizeof(struct fmt_value)), -EINVAL);
        assert_int_equal(eng_index_put(txn, name, sizeof(name), value, sizeof(struct fmt_value)), -EINVAL);
        assert_int_equal(eng_index_put(txn, name, 1, value, sizeof(struct fmt_value) - 1), -EINVAL);
        assert_int_equal(eng_index_put(txn, name, 1, value, ENG_INDEX_VALUE_MAX + 1), -EINVAL);
        assert_int_equal(eng_index_put(txn, name, 1, value, ENG_INDEX_VALUE_MAX), 0);
        assert_int_equal(eng_index_get(txn, name, sizeof(name), &entry), -EINVAL);
        assert_int_equal(eng_index_get(txn, name, 0, &entry), -EINVAL);
        assert_int_equal(eng_index_seek(txn, name, sizeof(name), false, &entry), -EINVAL);
        assert_int_equal(eng_index_delete(txn, name, 0), -EINVAL);
        assert_int_equal(eng_index_delete(txn, "x", 1), -ENOENT);
        assert_int_equal(eng_index_delete_prefix(txn, name, 0, NULL, NULL), -EINVAL);
        assert_int_equal(eng_index_write_commit(txn), 0); /* none of these spoils the transaction */
        txn = fixture_read(f);
        assert_int_equal(eng_index_get(txn, name, 1, &entry), 0);
        assert_int_equal(entry.value_len, ENG_INDEX_VALUE_MAX);
        eng_index_reader_free(txn);
        free(value);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_made_once),     TEST(test_none),      TEST(test_foreign),
                TEST(test_condemned),     TEST(test_cut_short), TEST(test_not_an_index),
                TEST(test_no_identity),   TEST(test_snapshots), TEST(test_reader_beside_writer),
                TEST(test_meta),          TEST(test_growth),    TEST(test_file_system_full),
                TEST(test_bad_arguments),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
