/*
 * test_open_flush.c - what a process that was killed has left is flushed when its drive is opened,
 * before anything relies on it: a power cut may still come. And what an index names was flushed
 * before. The flushes are seen by a fdatasync() and a fsync() of the test's own.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

static atomic_uint flushed_logs, flushed_segments, flushed_marks;
static char last_log[256];

static bool ends_in(const char *path, const char *suffix)
{
        size_t n = strlen(path), m = strlen(suffix);

        return n >= m && strcmp(path + n - m, suffix) == 0;
}

static void path_of(int fd, char path[256])
{
        char link[64];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, 255);
        path[n > 0 ? n : 0] = '\0';
}

int fdatasync(int fd)
{
        char path[256];

        path_of(fd, path);
        if (ends_in(path, ".log")) {
                memcpy(last_log, path, sizeof(path));
                flushed_logs++;
        }
        flushed_segments += ends_in(path, ".seg");
        return (int)syscall(SYS_fdatasync, fd);
}

/*
 * A folder of logs with the mark that says that the log lost its end, while its index still counts.
 */
int fsync(int fd)
{
        char path[256], lost[300], condemned[300];

        path_of(fd, path);
        if (ends_in(path, "/log")) {
                snprintf(lost, sizeof(lost), "%s/LOST", path);
                snprintf(condemned, sizeof(condemned), "%s/../index/CONDEMNED", path);
                flushed_marks += access(lost, F_OK) == 0 && access(condemned, F_OK) != 0;
        }
        return (int)syscall(SYS_fsync, fd);
}

static void test_log(void **state)
{
        char path[256];
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "key", "x", 1), 0);
        fx_snapshot(&fx, "killed");
        fx_close(&fx);
        fx_restore(&fx, "killed");
        flushed_logs = 0;
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(flushed_logs, 1);
        fx_first(&fx, "log", path, sizeof(path));
        assert_string_equal(last_log, path);
        fx_destroy(&fx);
}

/*
 * A segment with frames that the index does not know; later the index knows them all, until it is
 * lost.
 */
static void test_segments(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(sh_write(&fx, 1, 0, 8192), 0);
        fx_snapshot(&fx, "killed");
        fx_close(&fx);
        fx_restore(&fx, "killed");
        flushed_segments = 0;
        assert_int_equal(fx_open(&fx), 0);
        assert_true(flushed_segments >= 1);
        assert_int_equal(sh_read(&fx, 1, 0, 8192), 0);
        fx_close(&fx);
        flushed_segments = 0;
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(flushed_segments, 0);
        fx_close(&fx);
        sh_remove_index(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_true(flushed_segments >= 1);
        assert_int_equal(sh_read(&fx, 1, 0, 8192), 0);
        fx_destroy(&fx);
}

static uint64_t syncs(struct fx *fx)
{
        struct eng_drive_info info;

        eng_drive_info(fx->local, &info);
        return info.syncs;
}

/* Nobody asks for a flush of the frame. */
static void test_index(void **state)
{
        uint64_t before;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(sh_write(&fx, 1, 0, 8192), 0);
        WAIT_UNTIL(syncs(&fx) > 0); /* a batch comes each second */
        assert_true(syncs(&fx) > 0);
        assert_int_equal(sh_write(&fx, 2, 0, 8192), 0);
        before = syncs(&fx);
        flushed_segments = 0;
        fx_close(&fx); /* without a loop that could */
        assert_true(flushed_segments > 0 || before > 1);
        fx_destroy(&fx);
}

/*
 * The index alone knows that the log lost its end: a mark beside the log says so before the index
 * is given up.
 */
static void test_mark_of_a_lost_end(void **state)
{
        const off_t end = 3 * FMT_BLOCK; /* header, EPOCH record, the first put */
        char path[256];
        uint64_t size;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "key", "x", 1), 0);
        assert_int_equal(fx_put(&fx, "lost", "x", 1), 0);
        fx_close(&fx);
        fx_first(&fx, "log", path, sizeof(path));
        size = fx_file_size(path);
        assert_int_equal(truncate(path, end), 0);
        assert_int_equal(truncate(path, (off_t)size), 0);
        flushed_marks = 0;
        assert_int_equal(fx_open(&fx), 0);
        assert_true(eng_drive_log_lost(fx.local));
        assert_int_equal(flushed_marks, 1);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_log),
                cmocka_unit_test(test_segments),
                cmocka_unit_test(test_index),
                cmocka_unit_test(test_mark_of_a_lost_end),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
