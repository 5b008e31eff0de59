/*
 * test_open_flush.c - what a process that was killed has left is flushed when its drive is opened, before anything relies on it: a power cut may still
 * come. And what an index names was flushed before. The flushes are seen by a fdatasync() of the test's own.
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

static atomic_uint flushed_logs, flushed_segments;
static char last_log[256];

static bool ends_in(const char *path, const char *suffix)
{
        size_t n = strlen(path), m = strlen(suffix);

        return n >= m && strcmp(path + n - m, suffix) == 0;
}

int fdatasync(int fd)
{
        char link[64], path[256];
        ssize_t n;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        n = readlink(link, path, sizeof(path) - 1);
        path[n > 0 ? n : 0] = '\0';
        if (ends_in(path, ".log")) {
                memcpy(last_log, path, sizeof(path));
                flushed_logs++;
        }
        flushed_segments += ends_in(path, ".seg");
        return (int)syscall(SYS_fdatasync, fd);
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

/* A segment with frames that the index does not know; later the index knows them all, until it is lost. */
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

        eng_local_info(fx->local, &info);
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_log),
                cmocka_unit_test(test_segments),
                cmocka_unit_test(test_index),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
