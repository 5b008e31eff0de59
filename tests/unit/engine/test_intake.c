/*
 * test_intake.c - frames that the index does not know are taken in at a start, and a page of the
 * index that is needed for it is bad: the index is built anew, and the drive opens.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/shard_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

#define SHARDS 400u /* their places fill several pages */
#define KNOWN  200u /* by the index */
#define BYTES  4096u
#define PAGE   4096u

/* The folder to is what from is. */
static void put_copy(const char *from, const char *to)
{
        char command[900];

        snprintf(command, sizeof(command), "rm -rf '%s' && cp -r '%s' '%s'", to, from, to);
        assert_int_equal(system(command), 0);
}

/* Ids in no order, so that what is taken in goes to all pages. */
static uint64_t id_of(unsigned i)
{
        return 1 + i * 7919ull % 100000;
}

static void write_some(struct fx *fx, unsigned from, unsigned to)
{
        unsigned i;

        assert_int_equal(fx_open(fx), 0);
        for (i = from; i < to; i++)
                assert_int_equal(sh_write(fx, id_of(i), 0, BYTES), 0);
        assert_int_equal(sh_sync(fx), 0);
        fx_close(fx);
}

static void expect_all(struct fx *fx, size_t page)
{
        unsigned i;

        if (fx_open(fx) != 0)
                fail_msg("page %zu: %s", page, fx->error.text);
        for (i = 0; i < SHARDS; i++)
                assert_int_equal(sh_read(fx, id_of(i), 0, BYTES), 0);
        fx_close(fx);
}

/* The file that this is open of was unlinked. Closes it. */
static bool has_gone(int fd)
{
        struct stat st;

        assert_int_equal(fstat(fd, &st), 0);
        close(fd);
        return st.st_nlink == 0;
}

static void test_every_page(void **state)
{
        char index[256], older[256], data[300];
        unsigned rebuilt = 0;
        size_t page, pages;
        struct fx fx;
        int fd;

        fx_make(&fx, 1);
        fx.options.segment_bytes = ENG_SEGMENT_BYTES_MIN;
        snprintf(index, sizeof(index), "%s/index", fx.path);
        snprintf(older, sizeof(older), "%s/older", fx.root);
        snprintf(data, sizeof(data), "%s/data.mdb", index);
        write_some(&fx, 0, KNOWN);
        put_copy(index, older);
        write_some(&fx, KNOWN, SHARDS);
        put_copy(older, index);
        fx_snapshot(&fx, "whole");
        pages = fx_file_size(data) / PAGE;
        for (page = 2; page < pages; page++) {
                fx_restore(&fx, "whole");
                fd = open(data, O_RDONLY);
                assert_true(fd >= 0);
                fx_flip(data, page * PAGE + 20);
                expect_all(&fx, page);
                rebuilt += has_gone(fd);
                expect_all(&fx, page);
        }
        print_message("%zu pages, built anew for %u of them\n", pages, rebuilt);
        assert_true(rebuilt >= 4);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_page)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
