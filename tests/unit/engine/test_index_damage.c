/*
 * test_index_damage.c - bytes that changed on the drive, files cut short while they are mapped: an
 * error for what is concerned, never a wrong answer, never the end of the process.
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "test_index_fixture.h"

#define NAMES     400u
#define LONG_TAIL 600u

/* Name number i: every fourth is long. The value carries a text that is found in the file. */
static size_t make_name(unsigned i, uint8_t name[FMT_NAME_MAX])
{
        size_t len = (size_t)sprintf((char *)name, "name%05u", i);

        if (i % 4 != 0)
                return len;
        memset(name + len, 'L', LONG_TAIL);
        return len + LONG_TAIL;
}

static size_t make_value(unsigned i, uint8_t *value)
{
        char text[32];
        size_t len = fixture_value(value, 1, 0, i, 32);

        memset(text, 0, sizeof(text));
        snprintf(text, sizeof(text), "<value %05u>", i);
        memcpy(value + sizeof(struct fmt_value), text, sizeof(text));
        return len;
}

static void object_id(unsigned i, uint8_t id[FMT_ID])
{
        memset(id, 0, FMT_ID);
        snprintf((char *)id, FMT_ID, "<obj %05u>", i);
}

static void fill(struct fixture *f)
{
        struct eng_index_txn *txn = fixture_write(f);
        uint8_t name[FMT_NAME_MAX], value[sizeof(struct fmt_value) + 32], id[FMT_ID];
        struct fmt_index_segment row = {.segment = 0x7365676d656e7421ull, .generation = 0x21212167656e2121ull};
        struct eng_location location = {.segment = 1, .payload_len = 4096};

        for (unsigned i = 0; i < NAMES; i++) {
                location.offset = 4096 * (uint64_t)i;
                object_id(i, id);
                assert_int_equal(eng_index_put(txn, name, make_name(i, name), value, make_value(i, value)), 0);
                assert_int_equal(eng_index_location_put(txn, id, &location, NULL), 0);
        }
        assert_int_equal(eng_index_segment_put(txn, &row), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
}

/*
 * As an older build wrote it: pages without sums, so that damage to a row is met as that
 * (test_index_rot.c has the pages).
 */
static void strip_sums(uint8_t *map, size_t size)
{
        uint16_t flags;

        for (size_t at = 2 * 4096; at + 4096 <= size; at += 4096) {
                memset(map + at + 8, 0, 2);
                memcpy(&flags, map + at + 10, 2);
                flags &= (uint16_t)~0x3f80u;
                memcpy(map + at + 10, &flags, 2);
        }
}

/* Changes one byte, skip bytes behind the last place where text stands in the file. */
static void flip_after(struct fixture *f, const void *text, size_t len, size_t skip)
{
        char path[160];
        uint8_t *map, *at, *last = NULL;
        struct stat st;
        int fd;

        eng_index_close(f->index);
        snprintf(path, sizeof(path), "%s/data.mdb", f->path);
        fd = open(path, O_RDWR);
        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        assert_true(map != MAP_FAILED);
        for (at = map; (at = memmem(at, (size_t)(map + st.st_size - at), text, len)) != NULL; at++)
                last = at;
        assert_non_null(last);
        last[skip] ^= 0x10;
        strip_sums(map, (size_t)st.st_size);
        munmap(map, (size_t)st.st_size);
        close(fd);
        assert_int_equal(eng_index_open(&f->options, &f->index), 0);
}

static void flip_value(struct fixture *f, unsigned i)
{
        char text[32];

        snprintf(text, sizeof(text), "<value %05u>", i);
        flip_after(f, text, strlen(text), 3);
}

struct gone {
        unsigned names, damaged;
};

static void on_gone(void *arg, const struct eng_index_entry *entry)
{
        struct gone *gone = arg;

        gone->names++;
        gone->damaged += entry->value == NULL;
}

static void test_value(void **state)
{
        struct fixture *f = *state;
        static const unsigned damaged[] = {100, 101, 399}; /* a long name, a short one, the last */
        uint8_t name[FMT_NAME_MAX], value[sizeof(struct fmt_value) + 32];
        struct eng_index_entry entry;
        struct eng_index_txn *txn;
        struct gone gone = {0};
        unsigned bad = 0;
        int rv;

        fill(f);
        for (unsigned i = 0; i < 3; i++)
                flip_value(f, damaged[i]);
        txn = fixture_read(f);
        for (unsigned i = 0; i < 3; i++)
                assert_int_equal(eng_index_get(txn, name, make_name(damaged[i], name), &entry), -EBADMSG);
        assert_int_equal(eng_index_get(txn, name, make_name(102, name), &entry), 0);

        /* A listing meets each, knows its name, and goes on. */
        rv = eng_index_seek(txn, NULL, 0, false, &entry);
        for (unsigned i = 0; i < NAMES; i++) {
                assert_int_equal(entry.name_len, make_name(i, name));
                assert_memory_equal(entry.name, name, entry.name_len);
                assert_true(rv == 0 || (rv == -EBADMSG && entry.value == NULL));
                bad += rv == -EBADMSG;
                rv = eng_index_next(txn, &entry);
        }
        assert_int_equal(rv, -ENOENT);
        assert_int_equal(bad, 3);
        eng_index_reader_free(txn);

        /* Writing over it heals; deleting it is possible; so is deleting around it. */
        txn = fixture_write(f);
        assert_int_equal(eng_index_put(txn, name, make_name(100, name), value, make_value(100, value)), 0);
        assert_int_equal(eng_index_get(txn, name, make_name(100, name), &entry), 0);
        assert_int_equal(eng_index_delete(txn, name, make_name(101, name)), 0);
        assert_int_equal(eng_index_delete_prefix(txn, "name", 4, on_gone, &gone), 0);
        assert_int_equal(gone.names, NAMES - 1);
        assert_int_equal(gone.damaged, 1);
        assert_int_equal(eng_index_write_commit(txn), 0);
}

static void test_location(void **state)
{
        struct fixture *f = *state;
        struct eng_location location = {.segment = 2, .offset = 4096, .payload_len = 4096}, got;
        struct eng_index_txn *txn;
        uint8_t id[FMT_ID];

        fill(f);
        for (unsigned i = 7; i < 9; i++) {
                object_id(i, id);
                flip_after(f, id, FMT_ID, FMT_ID + 5 + 8 + (i == 7)); /* behind the key: crc, length, segment */
        }
        txn = fixture_write(f);
        for (unsigned i = 7; i < 9; i++) {
                object_id(i, id);
                assert_int_equal(eng_index_location_get(txn, id, 0, 0, &got), -EBADMSG);
        }
        assert_int_equal(eng_index_location_put(txn, id, &location, &got), 0); /* as new: what it was is not known */
        assert_int_equal(eng_index_location_get(txn, id, 0, 0, &got), 0);
        object_id(7, id);
        assert_int_equal(eng_index_location_discard(txn, id, NULL, NULL), 0);
        assert_int_equal(eng_index_location_get(txn, id, 0, 0, &got), -ENOENT);
        assert_int_equal(eng_index_write_commit(txn), 0);
}

static int stop_at(void *arg, const struct fmt_index_segment *row)
{
        *(struct fmt_index_segment *)arg = *row;
        return 0;
}

/*
 * Files are unlinked by these rows: damage must not be taken for a count, and nothing is added to
 * it.
 */
static void test_row(void **state)
{
        struct fixture *f = *state;
        const uint64_t generation = 0x21212167656e2121ull;
        struct fmt_index_segment row = {.segment = 0x7365676d656e7421ull};
        struct eng_location location = {.segment = row.segment, .offset = 4096, .payload_len = 4096};
        struct eng_index_txn *txn;
        uint8_t id[FMT_ID] = {9};

        fill(f);
        flip_after(f, &generation, sizeof(generation), 24);
        txn = fixture_read(f);
        assert_int_equal(eng_index_each_segment(txn, stop_at, &row), -EBADMSG);
        eng_index_reader_free(txn);
        txn = fixture_write(f);
        assert_int_equal(eng_index_location_put(txn, id, &location, NULL), 0);
        assert_int_equal(eng_index_write_commit(txn), -EBADMSG);
        txn = fixture_write(f);
        row.segment = location.segment;
        assert_int_equal(eng_index_segment_put(txn, &row), -EBADMSG);
        assert_int_equal(eng_index_write_commit(txn), -EBADMSG);
}

static void test_identity(void **state)
{
        struct fixture *f = *state;
        struct eng_index *other;
        char path[160];

        snprintf(path, sizeof(path), "%s/data.mdb", f->path);
        /* Flipped in the file the drive id fails its checksum: damage, not another drive's. */
        eng_index_close(f->index);
        {
                uint8_t *map, *at;
                struct stat st;
                int fd = open(path, O_RDWR);

                assert_true(fd >= 0 && fstat(fd, &st) == 0);
                map = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
                assert_true(map != MAP_FAILED);
                at = memmem(map, (size_t)st.st_size, f->options.drive_id, FMT_ID);
                assert_non_null(at);
                at[0] ^= 1;
                munmap(map, (size_t)st.st_size);
                close(fd);
        }
        f->index = NULL;
        assert_int_equal(eng_index_open(&f->options, &other), -EBADMSG);
}

/*
 * Whatever byte changes, what is answered is right: names ascend, values are those that were put.
 */
static void look_at_all(struct fixture *f)
{
        uint8_t name[FMT_NAME_MAX], value[sizeof(struct fmt_value) + 32];
        struct eng_index_entry entry;
        struct eng_index_txn *txn;
        unsigned number, steps = 0;
        int rv;

        assert_int_equal(eng_index_reader_new(f->index, &txn), 0);
        rv = eng_index_read_begin(txn);
        for (unsigned i = 0; rv == 0 && i < NAMES; i += 7) {
                size_t len = make_name(i, name);

                if (eng_index_get(txn, name, len, &entry) == 0) {
                        assert_int_equal(entry.value_len, make_value(i, value));
                        assert_memory_equal(entry.value + 4, value + 4, entry.value_len - 4);
                }
        }
        if (rv == 0)
                rv = eng_index_seek(txn, NULL, 0, false, &entry);
        while (rv == 0 || (rv == -EBADMSG && entry.name_len > 0)) {
                assert_true(steps++ < 2 * NAMES);
                if (rv == 0) {
                        assert_true(entry.name_len >= 9);
                        memcpy(name, entry.name, 9);
                        name[9] = '\0';
                        number = (unsigned)atoi((char *)name + 4);
                        assert_int_equal(entry.name_len, make_name(number, name));
                        assert_memory_equal(entry.name, name, entry.name_len);
                        assert_int_equal(entry.value_len, make_value(number, value));
                        assert_memory_equal(entry.value + 4, value + 4, entry.value_len - 4);
                }
                rv = eng_index_next(txn, &entry);
        }
        eng_index_reader_free(txn);
}

static void test_any_byte(void **state)
{
        struct fixture *f = *state;
        char path[160];
        struct stat st;
        uint8_t byte, other;
        unsigned refused = 0;
        int fd, rv;

        fill(f);
        flip_value(f, 3); /* and thereby: no sums */
        eng_index_close(f->index);
        f->index = NULL;
        snprintf(path, sizeof(path), "%s/data.mdb", f->path);
        assert_int_equal(stat(path, &st), 0);
        for (unsigned i = 0; i < 600; i++) {
                off_t at = (off_t)(fixture_random(f, (uint64_t)st.st_size - 8192) + 8192);

                if (i % 3 == 0) /* the heads of pages, where LMDB's own structure is */
                        at = at / 4096 * 4096 + (off_t)fixture_random(f, 64);
                fd = open(path, O_RDWR);
                assert_true(fd >= 0);
                assert_int_equal(pread(fd, &byte, 1, at), 1);
                other = byte ^ (uint8_t)(1 + fixture_random(f, 255));
                assert_int_equal(pwrite(fd, &other, 1, at), 1);
                rv = eng_index_open(&f->options, &f->index);
                assert_true(rv == 0 || rv == -EBADMSG || rv == -ESTALE || rv == -EIO);
                refused += rv != 0;
                if (rv == 0)
                        look_at_all(f);
                eng_index_close(f->index);
                f->index = NULL;
                assert_int_equal(pwrite(fd, &byte, 1, at), 1);
                close(fd);
        }
        printf("%u of 600 refused at opening\n", refused);
        assert_int_equal(eng_index_open(&f->options, &f->index), 0);
        look_at_all(f);
}

/* The drive stops giving pages: SIGBUS in the map. */
static void test_pages_gone(void **state)
{
        struct fixture *f = *state;
        uint8_t name[FMT_NAME_MAX], value[sizeof(struct fmt_value) + 32], id[FMT_ID];
        struct fmt_index_segment row;
        struct eng_index_entry entry;
        struct eng_index_txn *reader, *late, *write;
        struct eng_location location;
        char path[160];

        fill(f);
        fixture_reopen(f); /* the test runner puts its own handlers in place before each test */
        reader = fixture_read(f);
        late = fixture_read(f);
        eng_index_read_end(late);
        write = fixture_write(f);
        snprintf(path, sizeof(path), "%s/data.mdb", f->path);
        assert_int_equal(truncate(path, 8192), 0);

        assert_int_equal(eng_index_get(reader, name, make_name(50, name), &entry), -EIO);
        /* From here on LMDB is not asked any more. */
        assert_int_equal(eng_index_get(reader, name, make_name(51, name), &entry), -EIO);
        assert_int_equal(eng_index_seek(reader, NULL, 0, false, &entry), -EIO);
        assert_int_equal(eng_index_next(reader, &entry), -EIO);
        object_id(1, id);
        assert_int_equal(eng_index_location_get(reader, id, 0, 0, &location), -EIO);
        assert_int_equal(eng_index_each_segment(reader, stop_at, &row), -EIO);
        assert_int_equal(eng_index_put(write, "x", 1, value, make_value(1, value)), -EIO);
        assert_int_equal(eng_index_write_commit(write), -EIO);
        assert_int_equal(eng_index_write_begin(f->index, &write), -EIO);
        assert_int_equal(eng_index_read_begin(late), -EIO);
        assert_int_equal(eng_index_grow(f->index), -EIO);
        eng_index_reader_free(reader);
        eng_index_reader_free(late);
}

/* The same met first by a write in its middle, and by a commit. */
static void test_pages_gone_under_write(void **state)
{
        struct fixture *f = *state;
        uint8_t value[sizeof(struct fmt_value) + 32];
        struct eng_index_txn *write;
        char path[160];

        fill(f);
        fixture_reopen(f);
        write = fixture_write(f);
        snprintf(path, sizeof(path), "%s/data.mdb", f->path);
        assert_int_equal(truncate(path, 8192), 0);
        assert_int_equal(eng_index_put(write, "x", 1, value, make_value(1, value)), -EIO);
        eng_index_write_abort(write);
        assert_int_equal(eng_index_write_begin(f->index, &write), -EIO);
}

/*
 * A fault that has nothing to do with an index, and a signal that was sent, still end the process.
 */
static void test_other_faults(void **state)
{
        struct fixture *f = *state;
        char path[160];
        int status, fd;
        pid_t pid;

        snprintf(path, sizeof(path), "%s/empty", f->path);
        fd = open(path, O_RDWR | O_CREAT, 0600);
        assert_true(fd >= 0);
        fixture_reopen(f);
        fflush(stdout);
        for (unsigned i = 0; i < 3; i++) {
                pid = fork();
                assert_true(pid >= 0);
                if (pid == 0) {
                        volatile uint8_t *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);

                        close(STDOUT_FILENO); /* what is said of its end is not the test's */
                        close(STDERR_FILENO);
                        if (i == 0)
                                _exit(map[0] == 0 ? 0 : 0);
                        raise(i == 1 ? SIGSEGV : SIGBUS);
                        _exit(0);
                }
                assert_int_equal(waitpid(pid, &status, 0), pid);
                assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        close(fd);
        unlink(path);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
        const struct CMUnitTest tests[] = {
                TEST(test_value),
                TEST(test_location),
                TEST(test_row),
                TEST(test_identity),
                TEST(test_any_byte),
                TEST(test_pages_gone),
                TEST(test_pages_gone_under_write),
                TEST(test_other_faults),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
