/*
 * Slots of a cluster that failed, or could not be brought up to date: what is tried again, when, and
 * what is not.
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
#include "tests/lib/decided_fixture.h"

#define OUT 5u

/* Stands before the drive that goes out, and answers for it. owner: the loops, but for what is atomic */
static struct stand_in {
        struct eng_drive_ops ops;
        const struct eng_drive_ops *real;
        atomic_int says;               /* to all operations; 0: the drive answers */
        atomic_int says_appends;       /* to those; 0: the drive answers */
        atomic_int says_begun;         /* to a HELD that begins no session */
} stand_in;

static void stand_in_answered(struct lp_msg *msg)
{
        struct eng_op *op = container_of(msg, struct eng_op, msg);

        op->done(op);
}

static void stand_in_submit(struct eng_drive *drive, struct eng_op *op)
{
        int rv = atomic_load(&stand_in.says);

        if (rv == 0 && op->kind == ENG_OP_APPEND)
                rv = atomic_load(&stand_in.says_appends);
        if (rv == 0 && op->kind == ENG_OP_HELD && (op->flags & ENG_OP_ANEW) == 0)
                rv = atomic_load(&stand_in.says_begun);
        if (rv == 0) {
                stand_in.real->submit(drive, op);
                return;
        }
        op->result = rv;
        op->msg.run = stand_in_answered;
        lp_post(lp_self(), &op->msg);
}

/* Its folder, whose drive is opened with the stand-in before it. */
static char out_folder[256];

static bool is_out_folder(const char *path)
{
        return strcmp(path, out_folder) == 0;
}

static int probe_out(const struct eng_drive_opener *opener, const char *path, enum eng_folder_state *state, struct eng_identity *identity,
                     struct eng_error *error)
{
        return eng_folder_probe(path, state, identity, error);
}

static int open_out(const struct eng_drive_opener *opener, const struct eng_local_options *options, struct eng_drive **out, struct eng_error *error)
{
        int rv = eng_local_open(options, out, error);

        if (rv != 0)
                return rv;
        stand_in.real = (*out)->ops;
        stand_in.ops = *(*out)->ops;
        stand_in.ops.submit = stand_in_submit;
        (*out)->ops = &stand_in.ops;
        return 0;
}

static uint64_t pause_of(struct eng_store *store, uint64_t slot)
{
        return store->coord->returns[slot].pause / (1000 * 1000 * 1000);
}

static bool has_failed(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives[OUT].state == ENG_DRIVE_FAILED;
}

static bool is_out(const struct eng_health *h, void *arg)
{
        return h->ready && h->drives[OUT].state != ENG_DRIVE_IN;
}

static bool is_left_alone(const struct eng_health *h, void *arg)
{
        return has_failed(h, arg) && strstr(h->drives[OUT].reason, "stale") != NULL;
}

static void begin(struct sf *sf, uint64_t *bucket)
{
        static const struct eng_drive_opener opener = {.is_remote = is_out_folder, .probe = probe_out, .open = open_out};

        df_make(sf, bucket);
        memset(&stand_in, 0, sizeof(stand_in));
        snprintf(out_folder, sizeof(out_folder), "%s", sf->path[OUT]);
        sf->options.opener = &opener;
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, df_all_in, NULL, 60));
}

static void end(struct sf *sf, uint64_t bucket)
{
        df_check_objects(sf, bucket);
        sf_close(sf);
        sf_remove(sf);
}

/* -EIO stays; another incarnation, which shows by answering again, is taken in at once. */
static void test_failed(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        atomic_store(&stand_in.says, -EIO);
        assert_int_equal(sf_put(&sf, 0, bucket, df_key(0), 0, df_size(0), true, NULL), 0);
        sf_ask(&sf, df_fail_drive, OUT);
        assert_true(sf_wait_health(&sf, has_failed, NULL, 30));
        assert_true(sf_stays_otherwise(&sf, df_all_in, NULL, 4));
        assert_int_equal(sf_put(&sf, 0, bucket, df_key(0), 0, df_size(0), true, NULL), 0);
        atomic_store(&stand_in.says, 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 30));
        end(&sf, bucket);
}

/* Its node's process began anew: it knows nothing of the session, and the pause of the failure before counts no more. */
static void test_incarnation(void **state)
{
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket);
        for (i = 0; i < 5; i++) { /* pauses of 0, 1, 2, 4 and 8 s */
                atomic_store(&stand_in.says_begun, -EIO);
                sf_ask(&sf, df_fail_drive, OUT);
                assert_true(sf_wait_health(&sf, has_failed, NULL, 30));
                assert_int_equal(sf_ask(&sf, pause_of, OUT), i == 0 ? 0 : 1u << (i - 1));
                if (i == 4)
                        assert_true(sf_stays_otherwise(&sf, df_all_in, NULL, 2));
                atomic_store(&stand_in.says_begun, -EHOSTUNREACH);
                usleep(1500 * 1000); /* it was asked, as one that failed */
                atomic_store(&stand_in.says_begun, 0);
                assert_true(sf_wait_health(&sf, df_all_in, NULL, 5));
        }
        end(&sf, bucket);
}

/* A drive that answers, and with which nothing went on for a while: after a pause it is tried again. */
static void test_left_alone(void **state)
{
        uint64_t bucket;
        struct sf sf;

        begin(&sf, &bucket);
        atomic_store(&stand_in.says_appends, -EAGAIN); /* VOID, too: it cannot begin to catch up */
        sf_ask(&sf, df_say_silent, OUT);
        assert_true(sf_wait_health(&sf, is_left_alone, NULL, 60));
        assert_int_equal(sf_put(&sf, 0, bucket, df_key(0), 0, df_size(0), true, NULL), 0);
        atomic_store(&stand_in.says_appends, 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 30));
        end(&sf, bucket);
}

/* A slot that falls silent as soon as it is back waits longer each time; one that was in for long does not. */
static void test_flaps(void **state)
{
        uint64_t bucket, silent;
        struct sf sf;
        unsigned i;

        begin(&sf, &bucket);
        for (i = 0; i < 4; i++) {
                silent = lp_clock();
                sf_ask(&sf, df_say_silent, OUT);
                assert_true(sf_wait_health(&sf, is_out, NULL, 30));
                assert_int_equal(sf_ask(&sf, pause_of, OUT), i == 0 ? 0 : 1u << (i - 1));
                assert_true(sf_wait_health(&sf, df_all_in, NULL, 30));
                if (i == 3)
                        assert_true(lp_clock() - silent >= 4ull * 1000 * 1000 * 1000);
        }
        end(&sf, bucket);
}

/* On one machine what failed waits for the operator (I8), though it answers. */
static void test_one_machine(void **state)
{
        uint64_t bucket;
        struct sf sf;

        df_make(&sf, &bucket);
        sf.options.cluster = NULL;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, df_all_in, NULL, 60));
        sf_ask(&sf, df_fail_drive, OUT);
        assert_true(sf_wait_health(&sf, has_failed, NULL, 30));
        assert_true(sf_stays_otherwise(&sf, df_all_in, NULL, 4));
        end(&sf, bucket);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_failed), cmocka_unit_test(test_incarnation), cmocka_unit_test(test_left_alone),
                cmocka_unit_test(test_flaps),  cmocka_unit_test(test_one_machine),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
