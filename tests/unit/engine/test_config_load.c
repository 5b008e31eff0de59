/*
 * The buckets at a start, where an index has lost or spoilt rows: no bucket is forgotten, the store
 * starts, and what a member lacked is there again.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/drive/index.h"
#include "engine/record/value.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

#define BUCKETS 5u
#define FIRST_PAGE 1000u /* names that a member is asked for at once */

/*
 * A walk that is cut off by the end of the store leaves its page behind, which LeakSanitizer would
 * tell.
 */
static bool is_idle(const struct eng_health *h, void *arg)
{
        return !h->healing && !h->collecting_orphans;
}

static void close_idle(struct sf *sf)
{
        assert_true(sf_wait_health(sf, is_idle, NULL, 60));
        sf_close(sf);
}

static bool is_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == h->drive_count;
}

static void begin(struct sf *sf, unsigned drives, uint64_t *ids)
{
        char name[32];
        unsigned i;

        sf_make(sf, drives, 2);
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 20));
        for (i = 0; i < BUCKETS; i++) {
                snprintf(name, sizeof(name), "bucket-%u", i);
                assert_int_equal(sf_bucket(sf, name, &ids[i]), 0);
                assert_int_equal(sf_put(sf, 0, ids[i], "key", i + 1, 1000, true, NULL), 0);
        }
        close_idle(sf);
}

static void forget(const struct sf *sf, unsigned slot, const char *bucket)
{
        struct eng_index *index = sf_index(sf, slot);
        struct eng_index_txn *txn;
        struct eng_name name;

        eng_name_bucket(&name, bucket);
        assert_int_equal(eng_index_write_begin(index, &txn), 0);
        assert_int_equal(eng_index_delete(txn, name.data, name.len), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        eng_index_close(index);
}

static bool knows(const struct sf *sf, unsigned slot, const char *bucket)
{
        struct eng_index *index = sf_index(sf, slot);
        struct eng_index_entry entry;
        struct eng_index_txn *txn;
        struct eng_name name;
        int rv;

        eng_name_bucket(&name, bucket);
        assert_int_equal(eng_index_reader_new(index, &txn), 0);
        assert_int_equal(eng_index_read_begin(txn), 0);
        rv = eng_index_get(txn, name.data, name.len, &entry);
        eng_index_read_end(txn);
        eng_index_reader_free(txn);
        eng_index_close(index);
        return rv == 0;
}

static void check(struct sf *sf, const uint64_t *ids)
{
        char name[32];
        uint64_t other;
        unsigned i;

        for (i = 0; i < BUCKETS; i++) {
                snprintf(name, sizeof(name), "bucket-%u", i);
                assert_int_equal(sf_bucket(sf, name, &other), -EEXIST);
                assert_int_equal(sf_get(sf, i % 2, ids[i], "key", i + 1, 1000), 0);
        }
}

static void test_a_row_is_missing(void **state)
{
        uint64_t ids[BUCKETS];
        struct sf sf;
        unsigned slot, drives;

        for (drives = 2; drives <= 4; drives += 2) {
                begin(&sf, drives, ids);
                for (slot = 0; slot < drives; slot++) {
                        forget(&sf, slot, "bucket-0");
                        forget(&sf, slot, "bucket-3");
                        assert_false(knows(&sf, slot, "bucket-3"));
                        assert_int_equal(sf_open(&sf, false), 0);
                        assert_true(sf_wait_health(&sf, is_in, NULL, 30));
                        check(&sf, ids);
                        WAIT_UNTIL(sf_config_repaired(&sf));
                        close_idle(&sf);
                        if (slot < 2) { /* others are not asked as long as these two agree */
                                assert_true(knows(&sf, slot, "bucket-0"));
                                assert_true(knows(&sf, slot, "bucket-3"));
                        }
                }
                sf_remove(&sf);
        }
}

/* It used to make 65 epochs, and give up. */
static void test_a_row_cannot_be_read(void **state)
{
        static const char *const faults[] = {"corrupt:op=scan,slot=0,every=1", "corrupt:op=scan,slot=1,every=1"};
        uint64_t ids[BUCKETS];
        struct sf sf;
        unsigned i;

        begin(&sf, 4, ids);
        for (i = 0; i < 2; i++) {
                sf.options.faults = faults[i];
                assert_int_equal(sf_open(&sf, false), 0);
                assert_true(sf_wait_health(&sf, is_in, NULL, 30));
                assert_true(sf_view(&sf).epoch < 20);
                check(&sf, ids);
                close_idle(&sf);
        }
        sf.options.faults = NULL;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, is_in, NULL, 30));
        check(&sf, ids);
        close_idle(&sf);
        sf_remove(&sf);
}

/*
 * One of three members breaks off behind its first page. What it alone has is not there: both others
 * say so.
 */
static void test_a_member_breaks_off(void **state)
{
        uint64_t ids[BUCKETS], id;
        char name[32];
        struct sf sf;
        unsigned i;

        begin(&sf, 3, ids);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        for (i = 0; i < FIRST_PAGE; i++) {
                snprintf(name, sizeof(name), "later-%u", i);
                assert_int_equal(sf_bucket(&sf, name, &id), 0);
        }
        close_idle(&sf);
        forget(&sf, 1, "bucket-2");
        forget(&sf, 2, "bucket-2");
        sf.options.faults = "corrupt:op=scan,slot=0,after=1";
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, is_in, NULL, 30));
        assert_int_equal(sf_bucket(&sf, "bucket-1", &id), -EEXIST);
        assert_int_equal(sf_bucket(&sf, "later-7", &id), -EEXIST);
        assert_int_equal(sf_bucket(&sf, "bucket-2", &id), 0);
        assert_int_not_equal(id, ids[2]);
        WAIT_UNTIL(sf_config_repaired(&sf));
        close_idle(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_row_is_missing),
                cmocka_unit_test(test_a_row_cannot_be_read),
                cmocka_unit_test(test_a_member_breaks_off),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
