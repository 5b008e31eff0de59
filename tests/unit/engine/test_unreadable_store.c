/*
 * test_unreadable_store.c - a store whose drive in slot 0 cannot read: every object is served, what
 * was lost is written anew, and the drive stays.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fd_faults.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

static struct so_expected expected;

static bool victim_is_in(struct sf *sf, struct eng_health *h)
{
        eng_health_read(sf->store, h);
        return h->drives[0].state == ENG_DRIVE_IN;
}

static void begin(struct sf *sf, uint64_t *bucket)
{
        so_begin(sf, 4, bucket, &expected);
        sf_close(sf);
        sf->options.cache_bytes = 1; /* small objects come from the log */
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_ready(sf, 20));
}

static void unreadable_or_hanging(struct sf *sf, struct fd_faults *faults, const char *folder,
                                  void (*make)(struct fd_faults *faults, const char *part))
{
        char part[256];

        snprintf(part, sizeof(part), "%s/%s/", sf->path[0], folder);
        make(faults, part);
}

static void unreadable(struct sf *sf, struct fd_faults *faults, const char *folder)
{
        unreadable_or_hanging(sf, faults, folder, fd_faults_unreadable);
}

static void test_shards(void **state)
{
        struct eng_verify_report report;
        struct fd_faults faults;
        struct eng_health h;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        so_check(&sf, bucket, &expected); /* opens the segments for reading */
        unreadable(&sf, &faults, "data");
        so_check(&sf, bucket, &expected);
        WAIT_UNTIL((eng_health_read(sf.store, &h), h.drives[0].read_errors > 0 && h.repaired_reads > 0));
        assert_true(victim_is_in(&sf, &h));
        assert_true(h.drives[0].read_errors > 0);
        assert_true(h.repaired_reads > 0);
        assert_int_equal(eng_verify_start(sf.store), 0);
        do {
                usleep(10000);
                eng_verify_read(sf.store, &report);
        } while (report.running);
        assert_true(victim_is_in(&sf, &h));
        assert_int_equal(report.unreadable_objects, 0);
        fd_faults_end(&faults);
        so_check(&sf, bucket, &expected);
        so_verify(&sf, &report);
        so_verify(&sf, &report);
        assert_true(victim_is_in(&sf, &h));
        sf_close(&sf);
        sf_remove(&sf);
}

static void test_records(void **state)
{
        struct eng_verify_report report;
        struct fd_faults faults;
        struct eng_health h;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        so_check(&sf, bucket, &expected); /* opens the log for reading */
        unreadable(&sf, &faults, "log");
        so_check(&sf, bucket, &expected);
        assert_true(victim_is_in(&sf, &h));
        fd_faults_end(&faults);
        so_verify(&sf, &report);
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * Reads of slot 0 hang for as long as the test likes: after a few that were waited for it is read
 * last, and the kernel has given nothing back yet.
 */
static void test_hang(void **state)
{
        struct eng_verify_report report;
        struct fd_faults faults;
        struct eng_health h;
        uint64_t bucket;
        unsigned round;
        struct sf sf;

        begin(&sf, &bucket);
        so_check(&sf, bucket, &expected); /* opens the segments for reading */
        unreadable_or_hanging(&sf, &faults, "data", fd_faults_hang);
        for (round = 0; round < 3; round++)
                so_check(&sf, bucket, &expected);
        WAIT_UNTIL((eng_health_read(sf.store, &h), h.drives[0].unreliable)); /* none of these reads had to wait for that */
        assert_true(h.drives[0].unreliable);
        assert_int_equal(h.drives[0].state, ENG_DRIVE_IN); /* it answers what else it is asked */
        fd_faults_end(&faults);
        so_check(&sf, bucket, &expected);
        assert_int_equal(eng_verify_start(sf.store), 0);
        do {
                usleep(10000);
                eng_verify_read(sf.store, &report);
        } while (report.running);
        assert_int_equal(report.damaged_shards + report.unreadable_objects, 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * A drive that lacks memory or buffers says nothing of its shards: they are asked for again, and
 * those it never looked at are not said to be missing.
 */
static void turned_away(const char *faults, bool ends)
{
        struct eng_verify_report report;
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        sf_close(&sf);
        sf.options.faults = faults;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        assert_int_equal(eng_verify_start(sf.store), 0);
        WAIT_UNTIL((eng_verify_read(sf.store, &report), !report.running));
        assert_int_equal(report.damaged_shards + report.missing_shards + report.unreadable_objects, 0);
        assert_int_equal(report.unread_shards > 0, !ends);
        sf_close(&sf);
        sf.options.faults = NULL;
        sf_remove(&sf);
}

static void test_turned_away(void **state)
{
        turned_away("again:op=read,slot=0,every=3", true);
        turned_away("again:op=read", false);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_shards),
                cmocka_unit_test(test_records),
                cmocka_unit_test(test_hang),
                cmocka_unit_test(test_turned_away),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
