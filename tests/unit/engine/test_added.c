/*
 * test_added.c - the end of the addition of a drive: an epoch that makes it a member, and may never
 * have been in force; and when the drives that its groups came from may forget them.
 *
 * Two data shards and one of parity: a group has two copies, so that either of the new drive's
 * groups has one other member.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/lib/epoch_gate.h"
#include "tests/lib/store_objects.h"
#include "tests/lib/wait.h"

#define BEFORE 4u /* drives; the new one's slot */
#define AWAY   1u
#define ALL    0x1fu

static void start(struct sf *sf, bool (*fine)(const struct eng_health *h, void *arg))
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, fine, NULL, 60));
}

static bool goes_on(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable;
}

static bool drops(const struct eng_health *h)
{
        unsigned i;

        for (i = 0; i < h->drive_count; i++)
                if (h->drives[i].dropping_migrated)
                        return true;
        return false;
}

static bool is_adding(const struct eng_health *h, void *arg)
{
        return h->drive_count > BEFORE && h->drives[BEFORE].adding;
}

static bool at_rest(const struct eng_health *h, void *arg)
{
        return so_whole(h, NULL) && !is_adding(h, NULL) && !drops(h);
}

static bool forgotten(const struct eng_health *h, void *arg)
{
        return h->ready && !drops(h);
}

static bool writes_no_more(const struct eng_health *h, void *arg)
{
        return h->ready && !h->writable;
}

/*
 * An empty folder is one more drive, and is added up to the epoch that makes it a member, which
 * these drives get. Nothing comes after that one.
 */
static void add_up_to_the_end(struct sf *sf, uint64_t reaches)
{
        struct epoch_gate gate = {.sf = sf, .takes = BEFORE, .reaches = reaches};
        struct eng_hot_add_report report;
        char root[128];
        uint64_t number;

        sf->options.faults = "delay:op=scan,ms=1000"; /* the gate stands before the new drive when that is compared */
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, so_whole, NULL, 60));
        epoch_gate_put(&gate);
        memcpy(root, sf->root, sizeof(root));
        snprintf(sf->path[BEFORE], sizeof(sf->path[BEFORE]), "%s/d%u", root, BEFORE);
        sf->paths[BEFORE] = sf->path[BEFORE];
        assert_int_equal(mkdir(sf->path[BEFORE], 0700), 0);
        assert_int_equal(eng_drive_add(sf->store, sf->path[BEFORE], &number), 0);
        WAIT_UNTIL(eng_hot_add_read(sf->store, number, &report) == 0 && !report.running);
        assert_int_equal(report.rv, 0);
        sf->drives++;
        epoch_gate_put(&gate);
        assert_true(sf_wait_health(sf, writes_no_more, NULL, 60));
        sf_close(sf);
        assert_true(gate.came);
        epoch_gate_free(&gate);
        sf->options.faults = NULL;
}

/*
 * The epoch that was to end the addition is on one drive of four, and not on the new one. That is
 * still being added: with one of the others away, the drives that its groups were to come from
 * answer for them, and the store goes on.
 */
static void test_end_that_reached_one_drive(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin_coded(&sf, BEFORE, 2, 1, &bucket, &e);
        sf_close(&sf);
        add_up_to_the_end(&sf, 0x01);
        so_move(&sf, AWAY, true);
        sf.options.faults = "delay:op=scan,ms=1000"; /* the drive is not in before it was looked at */
        start(&sf, goes_on);
        assert_true(sf_wait_health(&sf, is_adding, NULL, 1));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf.options.faults = NULL;
        so_move(&sf, AWAY, false);
        start(&sf, at_rest);
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * The new drive became a member and is away: those that its groups came from keep what they hold of
 * them until it is back. (Were it to be found that it had never become one, they would have to
 * answer.)
 */
static void test_forgotten_when_all_are_in(void **state)
{
        struct so_expected e;
        uint64_t bucket;
        struct sf sf;

        so_begin_coded(&sf, BEFORE, 2, 1, &bucket, &e);
        sf_close(&sf);
        add_up_to_the_end(&sf, ALL);
        so_move(&sf, BEFORE, true);
        start(&sf, goes_on);
        assert_true(sf_stays_otherwise(&sf, forgotten, NULL, 5));
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        so_move(&sf, BEFORE, false);
        start(&sf, at_rest);
        so_check(&sf, bucket, &e);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_end_that_reached_one_drive),
                cmocka_unit_test(test_forgotten_when_all_are_in),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
