/*
 * test_resident.c - which pages of a map are taken to be in memory: what the kernel said, for as
 * long as that is believed; what was read; and where the kernel tells nothing. mincore() is the
 * test's own, over a map that nobody touches.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "engine/drive/resident.h"

#define PAGES (3 * ENG_WINDOW_PAGES + 7) /* the last window is not whole */

static uint8_t map[PAGES * ENG_PAGE_BYTES] __attribute__((aligned(ENG_PAGE_BYTES)));
static bool there[PAGES], refused;
static unsigned asked;

int mincore(void *at, size_t len, unsigned char *each)
{
        size_t first = (size_t)((uint8_t *)at - map) / ENG_PAGE_BYTES,
               count = (len + ENG_PAGE_BYTES - 1) / ENG_PAGE_BYTES, i;

        if (refused) {
                errno = EPERM;
                return -1;
        }
        if ((uint8_t *)at < map ||
            (uint8_t *)at >= map + sizeof(map)) { /* the one of its own that is asked for at the opening */
                memset(each, 1, count);
                return 0;
        }
        asked++;
        if (first + count > PAGES) {
                errno = ENOMEM;
                return -1;
        }
        for (i = 0; i < count; i++)
                each[i] = there[first + i];
        return 0;
}

static int make(void **state)
{
        static struct eng_resident resident;

        memset(&resident, 0, sizeof(resident));
        memset(there, 0, sizeof(there));
        refused = false;
        asked = 0;
        *state = &resident;
        return 0;
}

static int drop(void **state)
{
        eng_resident_close(*state);
        return 0;
}

static uint64_t ask(struct eng_resident *resident, uint64_t page, uint64_t count, bool strict)
{
        return eng_resident_ask(resident, map + page * ENG_PAGE_BYTES, page, count, strict);
}

/*
 * One question for a window; its answer is believed until it is forgotten. 'Missing' is never
 * believed without asking.
 */
static void test_believed_for_a_while(void **state)
{
        struct eng_resident *resident = *state;
        unsigned i;

        assert_int_equal(eng_resident_open(resident), 0);
        for (i = 0; i < ENG_WINDOW_PAGES; i++)
                there[i] = i != 9;
        assert_int_equal(ask(resident, 0, 9, false), 9);
        assert_int_equal(asked, 1);
        memset(there, 0, sizeof(there));
        assert_int_equal(ask(resident, 3, 40, false), 6); /* up to the one that was missing */
        asked = 0;
        assert_int_equal(ask(resident, 3, 1, false), 0); /* and now none is there */
        assert_int_equal(asked, 2);                      /* the window, and as it has nothing, the page itself */
        there[9] = true;
        assert_int_equal(ask(resident, 9, 1, false), 1);
        there[9] = false;
        assert_int_equal(ask(resident, 9, 1, false), 1);
        eng_resident_forget(resident);
        assert_int_equal(ask(resident, 9, 1, false), 0);
}

/*
 * While an I/O hangs what the kernel said before does not count: a page may have gone, and touching
 * it would stop the loop.
 */
static void test_strict(void **state)
{
        struct eng_resident *resident = *state;

        assert_int_equal(eng_resident_open(resident), 0);
        memset(there, 1, sizeof(there));
        assert_int_equal(ask(resident, 0, 5, false), 5);
        there[2] = false;
        assert_int_equal(ask(resident, 0, 5, false), 5);
        assert_int_equal(ask(resident, 0, 5, true), 2);
        eng_resident_mark(resident, 2, 1); /* it was read: that counts, whatever the kernel says of it */
        assert_int_equal(ask(resident, 0, 5, true), 5);
        assert_int_equal(ask(resident, 0, 5, false), 5);
        eng_resident_forget(resident);
        assert_int_equal(ask(resident, 0, 5, true), 2);
        assert_int_equal(ask(resident, 0, 5, false), 2);
}

/*
 * Over windows, and in the last one, of which the kernel tells nothing as a whole. Windows that
 * share a place in the table are told apart.
 */
static void test_windows(void **state)
{
        struct eng_resident *resident = *state;
        const uint64_t far = (uint64_t)ENG_WINDOWS * ENG_WINDOW_PAGES;

        assert_int_equal(eng_resident_open(resident), 0);
        memset(there, 1, sizeof(there));
        assert_int_equal(ask(resident, 1, PAGES - 1, false), PAGES - 1);
        there[PAGES - 2] = false;
        eng_resident_forget(resident);
        assert_int_equal(ask(resident, 1, PAGES - 1, false), PAGES - 3);
        assert_int_equal(ask(resident, PAGES - 1, 1, false), 1);
        assert_int_equal(ask(resident, 0, 1, false), 1);
        memset(there, 0, sizeof(there));
        assert_int_equal(eng_resident_ask(resident, map, far, 1, false), 0);
        assert_int_equal(ask(resident, 0, 1, false), 0);
}

/* Where the kernel may not be asked every page counts as being there, except for tests. */
static void test_not_allowed(void **state)
{
        struct eng_resident *resident = *state;

        refused = true;
        assert_int_equal(eng_resident_open(resident), 0);
        assert_int_equal(ask(resident, 0, PAGES, false), PAGES);
        assert_int_equal(ask(resident, 0, PAGES, true), PAGES);
        resident->deaf = true;
        assert_int_equal(ask(resident, 0, PAGES, false), 0);
        eng_resident_mark(resident, 0, 70);
        assert_int_equal(ask(resident, 0, PAGES, true), 70);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_believed_for_a_while, make, drop),
                cmocka_unit_test_setup_teardown(test_strict, make, drop),
                cmocka_unit_test_setup_teardown(test_windows, make, drop),
                cmocka_unit_test_setup_teardown(test_not_allowed, make, drop),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
