/*
 * test_recread.c - records read back from the log: past the page cache the first time, through it
 * the second, with the same bytes; wherever a record stands, however long it is; damage is told,
 * and a file system that refuses direct reads is read all the same.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/drive_fixture.h"
#include "tests/lib/must.h"

#include <setjmp.h>
#include <cmocka.h>

#define OBJECTS 48u

/*
 * Lengths that make records end anywhere in a block, cross blocks, and outgrow the memory that is
 * kept for reads.
 */
static size_t length_of(unsigned i)
{
        static const size_t lengths[] = {1, 63, 500, 3000, 4096, 5000, 9000, 16 << 10, 40000, 100 << 10};

        return lengths[i % (sizeof(lengths) / sizeof(lengths[0]))] + i / 10 * 64;
}

static const uint8_t *bytes_of(unsigned i, size_t len)
{
        static uint8_t bytes[256 << 10];
        size_t at;

        for (at = 0; at < len; at++)
                bytes[at] = (uint8_t)(i * 37 + at + at / 253);
        return bytes;
}

static void name_of(unsigned i, char name[16])
{
        snprintf(name, 16, "record %u", i);
}

static void put_all(struct fx *fx)
{
        char name[16];
        unsigned i;

        for (i = 0; i < OBJECTS; i++) {
                name_of(i, name);
                assert_int_equal(fx_put(fx, name, bytes_of(i, length_of(i)), length_of(i)), 0);
        }
}

static void check_all(struct fx *fx)
{
        char name[16];
        unsigned i;

        for (i = 0; i < OBJECTS; i++) {
                name_of(i, name);
                assert_true(fx_has(fx, name, bytes_of(i, length_of(i)), length_of(i)));
        }
}

static void make_without_cache(struct fx *fx, unsigned loops)
{
        fx_make(fx, loops);
        fx->options.cache_bytes = 1; /* each lookup reads the log */
        assert_int_equal(fx_open(fx), 0);
}

static void test_anywhere_and_any_length(void **state)
{
        struct fx fx;

        make_without_cache(&fx, 1);
        put_all(&fx);
        check_all(&fx); /* first: direct */
        check_all(&fx); /* again: through the page cache */
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        check_all(&fx);
        check_all(&fx);
        fx_destroy(&fx);
}

/* More reads at the same time than memory is kept for, from a loop that is not the owner. */
static void test_many_at_once(void **state)
{
        enum { AT_ONCE = 200 };
        struct fx_op *ops = calloc(AT_ONCE, sizeof(*ops));
        uint8_t names[AT_ONCE][FMT_NAME_MAX];
        char name[16];
        unsigned i, round;
        struct fx fx;

        assert_non_null(ops);
        make_without_cache(&fx, 2);
        put_all(&fx);
        for (round = 0; round < 2; round++) {
                for (i = 0; i < AT_ONCE; i++) {
                        memset(&ops[i], 0, sizeof(ops[i]));
                        name_of(i % OBJECTS, name);
                        ops[i].op.kind = ENG_OP_LOOKUP;
                        ops[i].op.flags = ENG_OP_WANT_INLINE;
                        ops[i].op.lookup.name = names[i];
                        ops[i].op.lookup.name_len = fx_name(names[i], name);
                        fx_start(&fx, i % 2, &ops[i]);
                }
                for (i = 0; i < AT_ONCE; i++) {
                        size_t len = length_of(i % OBJECTS);

                        assert_int_equal(fx_wait(&ops[i]), 0);
                        assert_non_null(ops[i].op.lookup.bytes);
                        assert_int_equal(ops[i].op.lookup.bytes->len, len);
                        assert_memory_equal(ops[i].op.lookup.bytes->data, bytes_of(i % OBJECTS, len), len);
                        eng_buf_unref(ops[i].op.lookup.value);
                        eng_buf_unref(ops[i].op.lookup.bytes);
                }
        }
        fx_destroy(&fx);
        free(ops);
}

static int read_rv(struct fx *fx, const char *name)
{
        struct eng_buf *value = NULL, *bytes = NULL;
        uint8_t full[FMT_NAME_MAX];
        int rv = fx_lookup(fx, full, fx_name(full, name), &value, &bytes);

        eng_buf_unref(value);
        eng_buf_unref(bytes);
        return rv;
}

/* Where the bytes of an object stand in the first log file. */
static uint64_t find_bytes(const char *path, const uint8_t *bytes, size_t len)
{
        uint64_t size = fx_file_size(path);
        uint8_t *all = malloc(size);
        FILE *file = fopen(path, "r");
        const uint8_t *at;

        MUST(all != NULL && file != NULL && fread(all, 1, size, file) == size);
        at = memmem(all, size, bytes, len);
        MUST(at != NULL);
        size = (uint64_t)(at - all);
        fclose(file);
        free(all);
        return size;
}

static void test_damage_is_told(void **state)
{
        static const unsigned damaged[] = {
                3, 4, 9}; /* of a record in the kept memory, one that crosses blocks, a large one */
        char path[512], name[16];
        uint64_t at;
        unsigned i;
        struct fx fx;

        make_without_cache(&fx, 1);
        put_all(&fx);
        fx_first(&fx, "log", path, sizeof(path));
        for (i = 0; i < 3; i++) {
                size_t len = length_of(damaged[i]);

                at = find_bytes(path, bytes_of(damaged[i], len), len);
                fx_flip(path, at + len - 1);
                name_of(damaged[i], name);
                assert_int_equal(read_rv(&fx, name), -EBADMSG); /* first */
                assert_int_equal(read_rv(&fx, name), -EBADMSG); /* again */
        }
        assert_string_equal(fx.failed, ""); /* that is no failure of the drive */
        name_of(5, name);
        assert_true(fx_has(&fx, name, bytes_of(5, length_of(5)), length_of(5)));
        fx_destroy(&fx);
}

/* A file that ends within a record, in the middle of a block. */
static void test_end_of_file(void **state)
{
        char path[512], name[16];
        size_t len = length_of(OBJECTS - 1);
        uint64_t at;
        struct fx fx;

        make_without_cache(&fx, 1);
        put_all(&fx);
        fx_first(&fx, "log", path, sizeof(path));
        at = find_bytes(path, bytes_of(OBJECTS - 1, len), len);
        MUST(truncate(path, (off_t)(at + len / 2)) == 0);
        name_of(OBJECTS - 1, name);
        assert_int_equal(read_rv(&fx, name), -EBADMSG);
        assert_int_equal(read_rv(&fx, name), -EBADMSG);
        MUST(truncate(path, (off_t)at) == 0); /* of the record's own header nothing is left, or just that */
        assert_int_equal(read_rv(&fx, name), -EBADMSG);
        assert_string_equal(fx.failed, "");
        fx_destroy(&fx);
}

/*
 * Puts something that answers -EINVAL to every read in the place of this process's direct
 * descriptor of a log file. False: there is none.
 */
static bool refuse_direct_reads(const struct fx *fx)
{
        DIR *dir = opendir("/proc/self/fd");
        char link[64], target[512];
        struct dirent *entry;
        bool found = false;
        int refusing = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);

        MUST(dir != NULL && refusing >= 0);
        while ((entry = readdir(dir)) != NULL) {
                int fd = atoi(entry->d_name), flags = fcntl(fd, F_GETFL);
                ssize_t n;

                snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
                n = readlink(link, target, sizeof(target) - 1);
                target[n < 0 ? 0 : n] = 0;
                if (n < 0 || flags < 0 || (flags & O_DIRECT) == 0 || (flags & O_ACCMODE) != O_RDONLY ||
                    strstr(target, fx->path) == NULL || strstr(target, ".log") == NULL)
                        continue;
                MUST(dup2(refusing, fd) == fd);
                found = true;
        }
        closedir(dir);
        close(refusing);
        return found;
}

static void test_direct_reads_refused(void **state)
{
        char name[16];
        struct fx fx;

        make_without_cache(&fx, 1);
        put_all(&fx);
        name_of(0, name);
        assert_true(fx_has(&fx, name, bytes_of(0, length_of(0)), length_of(0))); /* opens the descriptors */
        if (!refuse_direct_reads(&fx)) {
                fx_destroy(&fx);
                skip(); /* the file system has no direct reads at all */
        }
        check_all(&fx);
        check_all(&fx);
        assert_string_equal(fx.failed, "");
        fx_destroy(&fx);
}

static void go(void *arg)
{
        struct eng_log_file *file = TAILQ_FIRST(&eng_local_of(((struct fx *)arg)->local)->files.list);

        file->going = !file->going;
}

/*
 * A file of which a row of the index says that nothing lives in it is being unlinked: the row may
 * be wrong, and then somebody reads what does. Nobody pins it.
 */
static void test_file_that_goes(void **state)
{
        char name[16];
        struct fx fx;

        make_without_cache(&fx, 1);
        put_all(&fx);
        name_of(0, name);
        fx_call(&fx, 0, go, &fx);
        assert_int_equal(read_rv(&fx, name), -EAGAIN);
        assert_int_equal(TAILQ_FIRST(&eng_local_of(fx.local)->files.list)->pins, 0);
        fx_call(&fx, 0, go, &fx);
        check_all(&fx);
        assert_string_equal(fx.failed, "");
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_anywhere_and_any_length), cmocka_unit_test(test_many_at_once),
                cmocka_unit_test(test_damage_is_told),          cmocka_unit_test(test_end_of_file),
                cmocka_unit_test(test_direct_reads_refused),    cmocka_unit_test(test_file_that_goes),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
