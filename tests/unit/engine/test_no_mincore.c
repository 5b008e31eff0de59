/*
 * test_no_mincore.c - what the kernel says of pages in memory is of no use: it is not allowed to be
 * asked (a filter of system calls), or says no until a page is touched. Lookups go on all the same,
 * also while the drive may be about to hang. mincore() is the test's own.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/drive_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

#define NAMES 500u

static atomic_bool refused;
static struct eng_watch old;

int mincore(void *at, size_t len, unsigned char *each)
{
        (void)at;
        if (atomic_load(&refused)) {
                errno = EPERM;
                return -1;
        }
        memset(each, 0, (len + ENG_PAGE_BYTES - 1) / ENG_PAGE_BYTES);
        return 0;
}

static void begin_old(void *arg)
{
        struct eng_local *l = eng_local_of(((struct fx *)arg)->local);

        l->io_limit_ns = UINT64_MAX;
        eng_watch_begin(l, &old);
}

static void end_old(void *arg)
{
        eng_watch_end(eng_local_of(((struct fx *)arg)->local), &old);
}

static void check(struct fx *fx)
{
        char name[32];
        unsigned i;

        for (i = 0; i < NAMES; i++) {
                snprintf(name, sizeof(name), "name-%u", i);
                assert_true(fx_has(fx, name, name, strlen(name)));
        }
        assert_int_equal(fx_lookup_rv(fx, "no such name"), -ENOENT);
}

static void answers(bool refuse)
{
        char name[32];
        struct fx fx;
        unsigned i;

        atomic_store(&refused, refuse);
        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < NAMES; i++) {
                snprintf(name, sizeof(name), "name-%u", i);
                assert_int_equal(fx_put(&fx, name, name, strlen(name)), 0);
        }
        assert_true(fx_wait_indexed(&fx));
        check(&fx);
        fx_call(&fx, 0, begin_old, &fx);
        usleep(2 * ENG_PAGES_SUSPECT_NS / 1000);
        check(&fx);
        fx_call(&fx, 0, end_old, &fx);
        fx_destroy(&fx);
}

static void test_not_allowed(void **state)
{
        answers(true);
}

static void test_always_no(void **state)
{
        answers(false);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_not_allowed), cmocka_unit_test(test_always_no)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
