/*
 * test_unreliable.c - what the drive cannot read is damage of that shard or record, never the end
 * of the drive; how many such places make it unreliable.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/fd_faults.h"
#include "tests/lib/shard_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

#define LEN 65536u

static struct eng_drive_info info_of(struct fx *fx)
{
        struct eng_drive_info info;

        eng_drive_info(fx->local, &info);
        return info;
}

static int read_one(struct fx *fx, uint64_t id)
{
        return sh_read(fx, id, 0, LEN);
}

static void write_one(struct fx *fx, uint64_t id)
{
        assert_int_equal(sh_write(fx, id, 0, LEN), 0);
        assert_int_equal(sh_sync(fx), 0);
}

static void test_frames(void **state)
{
        struct fd_faults faults;
        struct fx fx;

        fx_make(&fx, 2);
        assert_int_equal(fx_open(&fx), 0);
        write_one(&fx, 1);
        write_one(&fx, 2);
        assert_int_equal(read_one(&fx, 2), 0); /* opens the file for reading */
        fd_faults_unreadable(&faults, ".seg");
        assert_int_equal(read_one(&fx, 1), -EBADMSG);
        assert_int_equal(read_one(&fx, 1), -EBADMSG); /* by way of the page cache */
        write_one(&fx, 1); /* the repair: a new place */
        assert_int_equal(info_of(&fx).read_errors, 2);
        fd_faults_end(&faults);
        assert_int_equal(read_one(&fx, 1), 0);
        assert_int_equal(read_one(&fx, 2), 0);
        assert_int_equal(info_of(&fx).state, ENG_DRIVE_IN);
        assert_false(info_of(&fx).unreliable);
        fx_destroy(&fx);
}

static void test_records(void **state)
{
        struct eng_buf *value = NULL, *bytes = NULL;
        uint8_t name[FMT_NAME_MAX];
        struct fd_faults faults;
        struct fx fx;
        size_t len;

        fx_make(&fx, 1);
        fx.options.cache_bytes = 1; /* each lookup reads the log */
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "a", "first", 5), 0);
        assert_true(fx_has(&fx, "a", "first", 5)); /* opens the file for reading */
        fd_faults_unreadable(&faults, ".log");
        len = fx_name(name, "a");
        assert_int_equal(fx_lookup(&fx, name, len, &value, &bytes), -EBADMSG);
        eng_buf_unref(value);
        eng_buf_unref(bytes);
        assert_int_equal(fx_lookup_rv(&fx, "b"), -ENOENT); /* an answer comes before it is counted */
        assert_int_equal(info_of(&fx).read_errors, 1);
        fd_faults_end(&faults);
        assert_true(fx_has(&fx, "a", "first", 5));
        assert_int_equal(fx_put(&fx, "b", "second", 6), 0);
        assert_int_equal(info_of(&fx).state, ENG_DRIVE_IN);
        fx_destroy(&fx);
}

/*
 * One place counts once, however often it is asked for; the mark stays until the drive is opened
 * again.
 */
static void test_budget(void **state)
{
        struct fd_faults faults;
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < ENG_READ_ERROR_BUDGET; i++)
                write_one(&fx, 100 + i);
        assert_int_equal(read_one(&fx, 100), 0);
        fd_faults_unreadable(&faults, ".seg");
        for (i = 0; i < 3 * ENG_READ_ERROR_BUDGET; i++)
                assert_int_equal(read_one(&fx, 100), -EBADMSG);
        for (i = 1; i < ENG_READ_ERROR_BUDGET; i++) {
                assert_false(info_of(&fx).unreliable);
                assert_int_equal(read_one(&fx, 100 + i), -EBADMSG);
        }
        assert_int_equal(read_one(&fx, 100), -EBADMSG);
        assert_true(info_of(&fx).unreliable);
        assert_true(eng_drive_unreliable(fx.drive));
        assert_int_equal(info_of(&fx).state, ENG_DRIVE_IN);
        fd_faults_end(&faults);
        assert_int_equal(read_one(&fx, 101), 0);
        assert_true(info_of(&fx).unreliable);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_false(info_of(&fx).unreliable);
        fx_destroy(&fx);
}

/*
 * What the drive was never asked for, since there were no descriptors or the loop had ended, says
 * nothing of it.
 */
static void test_not_asked(void **state)
{
        assert_false(eng_io_unreadable(-EMFILE));
        assert_false(eng_io_unreadable(-ECANCELED));
        assert_true(eng_io_unreadable(-EIO));
        assert_false(eng_io_unreadable(0));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_frames),
                cmocka_unit_test(test_records),
                cmocka_unit_test(test_budget),
                cmocka_unit_test(test_not_asked),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
