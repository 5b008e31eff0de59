/*
 * test_recover.c - which drives may go on at a start: never two sides of one store, each without
 * the other.
 *
 * Seven drives, two data shards and four of parity: three of them are enough to write, if nobody
 * else can be.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/base/store.h"
#include "tests/lib/store_fixture.h"

#define DRIVES 7u
#define OLD    1u
#define NEW    2u
#define SIZE   200000u
#define KEYS   3u
#define ROUNDS 100u
#define ONES   0x07u /* slots 0, 1, 2 */
#define FOURTH 0x08u
#define OTHERS 0x70u

static void shell(const char *what, const char *from, const char *to)
{
        char command[640];

        snprintf(command, sizeof(command), "%s '%s' '%s'", what, from, to);
        assert_int_equal(system(command), 0);
}

static void each(const struct sf *sf, eng_mask slots, const char *what, const char *from, const char *to)
{
        char source[256], target[256];
        unsigned i;

        for (i = 0; i < DRIVES; i++) {
                if (!(slots & eng_bit(i)))
                        continue;
                snprintf(source, sizeof(source), "%s%s", sf->path[i], from);
                snprintf(target, sizeof(target), "%s%s", sf->path[i], to);
                shell(what, source, target);
        }
}

static bool has_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == *(unsigned *)arg;
}

static bool has_failed(const struct eng_health *h, void *arg)
{
        return h->drives[*(unsigned *)arg].state == ENG_DRIVE_FAILED;
}

static atomic_bool lacking; /* memory for what is read of a drive's newest epoch, once */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

void *__wrap_malloc(size_t size)
{
        return size == FMT_EPOCH_MAX(ENG_DRIVES_MAX) && atomic_exchange(&lacking, false) ? NULL : __real_malloc(size);
}

static bool may_have_gone_on(const struct eng_health *h, void *arg)
{
        return !h->ready && strstr(h->reason, "may have gone on without the others") != NULL;
}

static void start(struct sf *sf, unsigned drives_in)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, has_in, &drives_in, 60));
}

/* Until this drive has failed, as sf->options.faults has it. */
static void fail_one(struct sf *sf, unsigned slot)
{
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, has_failed, &slot, 60));
        sf_close(sf);
        sf->options.faults = NULL;
}

/*
 * Four of the seven begin an epoch without the rest, but it reaches one of them alone: it was never
 * in force. The fourth and the rest go on, as they may. The three others are most of those that the
 * one drive's epoch names, and enough for the code. But they are not most of the seven, of which
 * the epoch says that they were the last that surely counted: they wait, and neither write nor
 * answer with what they have.
 */
static void test_most_of_an_epoch_that_was_not_in_force(void **state)
{
        uint64_t bucket;
        struct sf sf;

        sf_make(&sf, DRIVES, 2);
        sf.options.ec_k = 2;
        sf.options.ec_m = 4;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        assert_int_equal(sf_put(&sf, 0, bucket, "k", OLD, SIZE, true, NULL), 0);
        sf_close(&sf);

        each(&sf, 0x0e, "cp -a", "", ".image");
        each(&sf, OTHERS, "mv", "", ".away");
        sf.options.faults = "fail:op=append,after=1,slot=0"; /* of this epoch's record, and no more */
        start(&sf, 3);
        sf_close(&sf);
        sf.options.faults = NULL;
        each(&sf, 0x0e, "rm -rf", "", "");
        each(&sf, 0x0e, "mv", ".image", "");
        each(&sf, OTHERS, "mv", ".away", "");

        each(&sf, ONES, "mv", "", ".away");
        start(&sf, 4);
        assert_int_equal(sf_put(&sf, 0, bucket, "k", NEW, SIZE, true, NULL), 0);
        sf_close(&sf);
        each(&sf, ONES, "mv", ".away", "");

        each(&sf, FOURTH | OTHERS, "mv", "", ".away");
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, may_have_gone_on, NULL, 60));
        assert_int_equal(sf_get(&sf, 0, bucket, "k", OLD, SIZE), -EHOSTDOWN);
        assert_int_equal(sf_put(&sf, 0, bucket, "k", OLD, SIZE, true, NULL), -EHOSTDOWN);
        sf_close(&sf);
        each(&sf, FOURTH | OTHERS, "mv", ".away", "");

        start(&sf, DRIVES);
        assert_int_equal(sf_get(&sf, 1, bucket, "k", NEW, SIZE), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * A drive that was brought up to date is a member by an epoch that all have. The next start misses
 * another, and its epoch reaches one drive alone. All are here again: the one that was brought up
 * to date is a member still, though it was none in the last epoch that surely counted, and the
 * groups that only it and the one that was missed hold have a drive that speaks for them.
 */
static void test_a_member_taken_in_before_an_epoch_that_was_not_in_force(void **state)
{
        unsigned i;
        uint64_t bucket;
        char key[16];
        struct sf sf;

        sf_make(&sf, 4, 2);
        sf.options.ec_k = 1;
        sf.options.ec_m = 1;
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        for (i = 0; i < ROUNDS; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                assert_int_equal(sf_put(&sf, 0, bucket, key, i, 2000, true, NULL), 0);
        }
        sf_close(&sf);
        each(&sf, 0x02, "mv", "", ".away");
        start(&sf, 3);
        sf_close(&sf);
        each(&sf, 0x02, "mv", ".away", "");
        /*
         * Of the members before: the epochs of the start, with a drive that catches up, and that
         * takes it in. It has the last two, and what says that it begins.
         */
        sf.options.faults = "fail:op=append,after=3";
        fail_one(&sf, 0);

        each(&sf, 0x0a, "cp -a", "", ".image");
        each(&sf, 0x01, "mv", "", ".away");
        sf.options.faults = "fail:op=append,after=1,slot=2"; /* of this epoch's record, and no more */
        fail_one(&sf, 2);
        each(&sf, 0x0a, "rm -rf", "", "");
        each(&sf, 0x0a, "mv", ".image", "");
        each(&sf, 0x01, "mv", ".away", "");

        start(&sf, 4);
        for (i = 0; i < ROUNDS; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                assert_int_equal(sf_get(&sf, 0, bucket, key, i, 2000), 0);
        }
        sf_close(&sf);
        sf_remove(&sf);
}

/*
 * A drive for which memory was lacking while it was opened is opened again, and awaited: nothing is
 * wrong with it, and it may be the one that knows what another has lost.
 */
static void test_memory_is_lacking_for_an_epoch(void **state)
{
        struct sf sf;

        sf_make(&sf, 4, 1);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        sf_close(&sf);
        atomic_store(&lacking, true);
        start(&sf, 4);
        assert_false(atomic_load(&lacking));
        sf_close(&sf);
        sf_remove(&sf);
}

static bool verified(const struct eng_health *h, void *arg)
{
        struct sf *sf = arg;
        struct eng_verify_report report;

        eng_verify_read(sf->store, &report);
        return !report.running;
}

/*
 * A member whose log cannot be read whole, and whose index is gone, lacks what nobody can name:
 * while the others can go on without it, it does not count until all its names were compared with
 * theirs.
 */
static void test_a_member_with_a_damaged_log(void **state)
{
        struct eng_verify_report report;
        char command[640], key[16];
        unsigned i;
        uint64_t bucket;
        struct sf sf;

        sf_make(&sf, 4, 2);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_bucket(&sf, "bucket", &bucket), 0);
        for (i = 0; i < ROUNDS * KEYS; i++) { /* each group has records behind the damage: its numbers tell nothing */
                snprintf(key, sizeof(key), "k%u", i % KEYS);
                assert_int_equal(sf_put(&sf, 0, bucket, key, i, 2000, true, NULL), 0);
        }
        sf_close(&sf);
        snprintf(command, sizeof(command), "dd if=/dev/zero of=%s/log/0000000000000001.log bs=4096 seek=5 count=3 conv=notrunc status=none && rm %s/index/*",
                 sf.path[0], sf.path[0]);
        assert_int_equal(system(command), 0);
        sf.options.faults = "delay:op=scan,ms=1500,every=3"; /* what it lacks is not compared before anybody looks */
        start(&sf, 4);
        assert_int_equal(eng_verify_start(sf.store), 0);
        assert_true(sf_wait_health(&sf, verified, &sf, 60));
        eng_verify_read(sf.store, &report);
        assert_int_equal(report.objects, KEYS);
        assert_int_equal(report.differing_names, 0);
        for (i = 0; i < KEYS; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                assert_int_equal(sf_get(&sf, 0, bucket, key, (ROUNDS - 1) * KEYS + i, 2000), 0);
        }
        sf_close(&sf);
        sf_remove(&sf);
}

static atomic_uint looking, looks;

static bool slow_is_remote(const char *path)
{
        return strncmp(path, "remote:", 7) == 0;
}

static int slow_probe(const struct eng_drive_opener *opener, const char *path, enum eng_folder_state *state,
                      struct eng_identity *identity, struct eng_error *error)
{
        atomic_fetch_add(&looking, 1);
        atomic_fetch_add(&looks, 1);
        usleep(400000);
        atomic_fetch_sub(&looking, 1);
        return -EAGAIN;
}

/*
 * A node does not answer while the store is opened: nobody looks any more when that has ended, since what the look
 * needs (the opener, its loop) may go with the store.
 */
static void test_a_look_at_a_node_that_does_not_answer(void **state)
{
        static const struct eng_drive_opener slow = {.is_remote = slow_is_remote, .probe = slow_probe};
        struct sf sf;

        sf_make(&sf, 4, 1);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        sf_close(&sf);
        sf.paths[2] = "remote:2/1/2";
        sf.paths[3] = "remote:2/1/3";
        sf.options.opener = &slow;
        sf.options.drive_wait_ms = 1000;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(atomic_load(&looks) >= 4);
        assert_int_equal(atomic_load(&looking), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* A drive of another node for which something is under way yet when the store is closed: a folder's, looked at. */
static const struct eng_drive_ops *_Atomic real_ops;
static char awaited_folder[192], away_folder[192];
static unsigned awaited; /* the closing thread */
static bool awaited_closed;

static bool awaits_a_call(struct eng_drive *drive)
{
        return ++awaited < 5;
}

static void close_awaited(struct eng_drive *drive)
{
        awaited_closed = true;
        assert_true(awaited >= 5);
        atomic_load(&real_ops)->close(drive);
}

static int awaited_probe(const struct eng_drive_opener *opener, const char *path, enum eng_folder_state *state,
                         struct eng_identity *identity, struct eng_error *error)
{
        return eng_folder_probe(strcmp(path, "remote:2/1/1") == 0 ? awaited_folder : away_folder, state, identity, error);
}

static int awaited_open(const struct eng_drive_opener *opener, const struct eng_local_options *options,
                        struct eng_drive **out, struct eng_error *error)
{
        static struct eng_drive_ops ops;
        struct eng_local_options local = *options;
        int rv;

        if (strcmp(options->path, "remote:2/1/1") != 0)
                return -EAGAIN;
        local.path = awaited_folder;
        rv = eng_local_open(&local, out, error);
        if (rv != 0)
                return rv;
        ops = *(*out)->ops;
        ops.awaits_file = awaits_a_call;
        ops.close = close_awaited;
        atomic_store(&real_ops, (*out)->ops);
        (*out)->ops = &ops;
        return 0;
}

static bool has_opened(const struct eng_health *h, void *arg)
{
        return atomic_load(&real_ops) != NULL;
}

/* A store is closed while a drive is being opened: those that are open have no slot yet, and are waited for all the same. */
static void test_closed_before_the_drives_are_chosen(void **state)
{
        static const struct eng_drive_opener opener = {
                .is_remote = slow_is_remote, .probe = awaited_probe, .open = awaited_open};
        struct sf sf;

        sf_make(&sf, 4, 1);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        sf_close(&sf);
        strcpy(awaited_folder, sf.path[1]);
        strcpy(away_folder, sf.path[2]);
        sf.paths[1] = "remote:2/1/1";
        sf.paths[2] = "remote:2/1/2";
        sf.options.drive_wait_ms = 1000 * 1000;
        sf.options.opener = &opener;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, has_opened, NULL, 60));
        sf_close(&sf);
        assert_true(awaited_closed);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_most_of_an_epoch_that_was_not_in_force),
                cmocka_unit_test(test_a_member_taken_in_before_an_epoch_that_was_not_in_force),
                cmocka_unit_test(test_memory_is_lacking_for_an_epoch),
                cmocka_unit_test(test_a_member_with_a_damaged_log),
                cmocka_unit_test(test_a_look_at_a_node_that_does_not_answer),
                cmocka_unit_test(test_closed_before_the_drives_are_chosen),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
