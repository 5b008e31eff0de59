/*
 * test_freed.c - log files freed from the middle of the log: gaps that do not fit in one FREED
 * record are told in several, and a log without its index is read back over all of them.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/shard_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

#define VALUES 640u
#define GROUP  80u /* two log files full: one at least holds nothing else */
#define BYTES  100000u

static uint8_t bytes[BYTES];

static void one_gap_each(void *arg)
{
        eng_local_of(((struct fx *)arg)->local)->file.freed_most = 1;
}

static void put(struct fx *fx, unsigned i, size_t len)
{
        char name[32];

        memset(bytes, (int)(i + len), len);
        snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(fx_put(fx, name, bytes, len), 0);
}

static void check(struct fx *fx)
{
        char name[32];
        size_t len;
        unsigned i;

        for (i = 0; i < VALUES; i++) {
                len = i / GROUP % 2 == 1 ? 1 : BYTES;
                memset(bytes, (int)(i + len), len);
                snprintf(name, sizeof(name), "%u", i);
                assert_true(fx_has(fx, name, bytes, len));
        }
        assert_int_equal(eng_local_of(fx->local)->damage.locations, 0);
}

static void test_many_records(void **state)
{
        unsigned i, before;
        struct fx fx;

        fx_make(&fx, 1);
        fx.options.reclaim_rate = ENG_RECLAIM_OFF;
        assert_int_equal(fx_open(&fx), 0);
        fx_call(&fx, 0, one_gap_each, &fx);
        for (i = 0; i < VALUES; i++)
                put(&fx, i, BYTES);
        before = fx_count_files(&fx, "log", ".log");
        for (i = 0; i < VALUES; i++)
                if (i / GROUP % 2 == 1)
                        put(&fx, i, 1);
        assert_int_equal(fx_put(&fx, "last", "x", 1), 0); /* says that those before it count */
        assert_true(fx_wait_indexed(&fx));
        assert_true(sh_wait_files(&fx, "log", ".log", before - VALUES / GROUP / 2));
        check(&fx);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        check(&fx);
        fx_close(&fx);
        sh_remove_index(&fx);
        assert_int_equal(fx_open(&fx), 0);
        check(&fx);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_many_records)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
