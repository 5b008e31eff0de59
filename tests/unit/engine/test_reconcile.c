/*
 * test_reconcile.c - a start where some members lack records that others have: what cannot be read
 * at once, or never, ends no drive, and all members tell the same afterwards.
 */
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ec.h"
#include "engine/epoch/recover.h"
#include "engine/base/store.h"
#include "tests/lib/body_fixture.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

#define EARLY 20u
#define LATE 24u

static void shell(const char *format, ...)
{
        char command[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(command, sizeof(command), format, args);
        va_end(args);
        assert_int_equal(system(command), 0);
}

static const char *key_of(const char *kind, unsigned i)
{
        static char key[64];

        snprintf(key, sizeof(key), "%s/%u", kind, i);
        return key;
}

static bool all_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == 4;
}

static uint32_t group_of(const struct sf *sf, uint64_t bucket, const char *kind, unsigned i)
{
        const char *key = key_of(kind, i);

        return eng_pg_of_key(sf->store->pg_count, bucket, key, strlen(key));
}

/*
 * The first number from `at` on that makes a key whose group has none of the early keys, and no
 * other of those chosen so far.
 */
static unsigned next_late(const struct sf *sf, uint64_t bucket, const unsigned *chosen, unsigned count, unsigned at)
{
        uint32_t pg;
        unsigned i, others;

        for (;; at++) {
                pg = group_of(sf, bucket, "late", at);
                for (i = others = 0; i < count; i++)
                        others += group_of(sf, bucket, "late", chosen[i]) == pg;
                for (i = 0; i < EARLY; i++)
                        others += group_of(sf, bucket, "early", i) == pg;
                if (others == 0)
                        return at;
        }
}

static unsigned late[LATE];

/*
 * A store of 2+2 as a crash leaves it: of the keys "late" the drives of `without` have no record,
 * the others have one that waits, each in a group of its own. Indexes are as the run before left
 * them, so nothing says that those records counted.
 */
static void make(struct sf *sf, uint64_t *bucket, unsigned without)
{
        unsigned i;

        sf_make(sf, 4, 2);
        sf->options.ec_k = sf->options.ec_m = 2;
        assert_int_equal(sf_open(sf, true), 0);
        assert_true(sf_wait_ready(sf, 60));
        assert_int_equal(sf_bucket(sf, "settles", bucket), 0);
        for (i = 0; i < EARLY; i++)
                assert_int_equal(sf_put(sf, 0, *bucket, key_of("early", i), i, 1000, true, NULL), 0);
        sf_close(sf);
        for (i = 0; i < 4; i++)
                shell("cp -r '%s' '%s.image' && rm -r '%s.image/log'", sf->path[i], sf->path[i], sf->path[i]);
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, all_in, NULL, 60));
        for (i = 0; i < 4; i++)
                if (without >> i & 1)
                        shell("cp -r '%s/log' '%s.image/log'", sf->path[i], sf->path[i]);
        for (i = 0; i < LATE; i++) {
                late[i] = next_late(sf, *bucket, late, i, i == 0 ? 0 : late[i - 1] + 1);
                assert_int_equal(sf_put(sf, 0, *bucket, key_of("late", late[i]), i, 1000, true, NULL), 0);
        }
        for (i = 0; i < 4; i++)
                if (!(without >> i & 1))
                        shell("cp -r '%s/log' '%s.image/log'", sf->path[i], sf->path[i]);
        sf_close(sf);
        for (i = 0; i < 4; i++)
                shell("rm -rf '%s' && mv '%s.image' '%s'", sf->path[i], sf->path[i], sf->path[i]);
}

/*
 * All drives come in, none of them by an operator's word. The late keys are whole or not there,
 * whoever is asked; may_go false: all are there.
 */
static void expect_reconciled(struct sf *sf, uint64_t bucket, const char *faults, bool may_go)
{
        struct eng_health *h = calloc(1, sizeof(*h));
        unsigned i, there = 0;
        int rv;

        assert_non_null(h);
        sf->options.faults = faults;
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, all_in, NULL, 120));
        eng_health_read(sf->store, h);
        assert_true(h->reconciled_records > 0);
        for (i = 0; i < EARLY; i++)
                assert_int_equal(sf_get(sf, 0, bucket, key_of("early", i), i, 1000), 0);
        for (i = 0; i < LATE; i++) {
                rv = sf_get(sf, 0, bucket, key_of("late", late[i]), i, 1000);
                assert_int_equal(sf_get(sf, 1, bucket, key_of("late", late[i]), i, 1000), rv);
                assert_true(rv == 0 || (may_go && rv == -ENOENT));
                there += rv == 0;
        }
        assert_true(there > 0);
        assert_int_equal(sf_put(sf, 0, bucket, "after", 1, 3 << 20, true, NULL), 0);
        assert_int_equal(sf_get(sf, 1, bucket, "after", 1, 3 << 20), 0);
        sf_close(sf);
        sf_remove(sf);
        free(h);
}

static void test_all_is_copied(void **state)
{
        uint64_t bucket;
        struct sf sf;

        make(&sf, &bucket, 1u << 3);
        expect_reconciled(&sf, bucket, NULL, false);
}

/* As without descriptors or memory. */
static void test_try_again(void **state)
{
        uint64_t bucket;
        struct sf sf;

        make(&sf, &bucket, 1u << 3);
        expect_reconciled(&sf, bucket, "again:op=record,every=2", false);
}

/*
 * A drive that lacks memory, or room in its queue, has not failed: the tails that recovery reads,
 * the records of epochs, and that of a drive that joins.
 */
static void test_refused_for_the_moment(void **state)
{
        static const char *const faults[] = {"again:op=tail,slot=1,every=2", "again:op=append,slot=0,every=2", "again:op=append,slot=3,every=2",
                                             "again:op=append,every=3;again:op=tail,every=3"};
        uint64_t bucket;
        unsigned i;
        struct sf sf;

        for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
                make(&sf, &bucket, 1u << 3);
                expect_reconciled(&sf, bucket, faults[i], false);
        }
}

static void test_another_member_gives_it(void **state)
{
        uint64_t bucket;
        struct sf sf;

        make(&sf, &bucket, 1u << 3);
        expect_reconciled(&sf, bucket, "corrupt:op=record,slot=0", false);
}

/* Two members lack them: of some, one drive alone has a record, and cannot give it. */
static void test_nobody_gives_it(void **state)
{
        uint64_t bucket;
        struct sf sf;

        make(&sf, &bucket, 1u << 3 | 1u << 2);
        expect_reconciled(&sf, bucket, "corrupt:op=record,slot=0", true);
}

/* owner: test until posted, then loop 0 until ended */
struct planted {
        struct lp_msg msg;
        struct eng_op op;
        struct sf *sf;
        sem_t ended;
};

static void is_planted(struct eng_op *op)
{
        sem_post(&container_of(op, struct planted, op)->ended);
}

static void plant(struct lp_msg *msg)
{
        struct planted *p = (struct planted *)msg;

        eng_drive_submit(p->sf->store->members[0].drive, &p->op);
}

/*
 * A record of a number that nobody can have given, behind which they would begin anew: the drive
 * counts as one that cannot be read, and the others go on.
 */
static void test_number_behind_all(void **state)
{
        struct fx_body *body = calloc(1, sizeof(*body));
        struct planted *p = calloc(1, sizeof(*p));
        struct eng_health *h = malloc(sizeof(*h));
        uint8_t name[64];
        uint64_t bucket;
        struct sf sf;

        assert_true(body != NULL && p != NULL && h != NULL);
        make(&sf, &bucket, 0);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        fx_body_put(body, name, fx_name(name, "key"), 1, 5, "bytes", 5);
        p->sf = &sf;
        p->op.kind = ENG_OP_APPEND;
        p->op.epoch = sf.store->loops[0].view.epoch;
        p->op.done = is_planted;
        p->op.append.body = fx_body_buf(body);
        p->op.append.body_crc = era_crc32c(0, body->bytes, body->len);
        p->op.append.inline_len = (uint32_t)body->inline_len;
        p->op.append.pg = 5;
        p->op.append.type = FMT_RECORD_PG;
        p->op.append.seq = UINT64_MAX;
        sem_init(&p->ended, 0, 0);
        p->msg.run = plant;
        lp_post(sf.loops[0], &p->msg);
        while (sem_wait(&p->ended) != 0)
                ;
        assert_int_equal(p->op.result, 0);
        eng_buf_unref(p->op.append.body);
        sf_close(&sf);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_ready(&sf, 20));
        eng_health_read(sf.store, h);
        assert_int_equal(h->drives[0].state, ENG_DRIVE_FAILED);
        assert_true(h->writable);
        assert_int_equal(sf_put(&sf, 0, bucket, "after", 1, 3 << 20, true, NULL), 0);
        assert_int_equal(sf_get(&sf, 1, bucket, "after", 1, 3 << 20), 0);
        sf_close(&sf);
        sf_remove(&sf);
        sem_destroy(&p->ended);
        free(h);
        free(p);
        free(body);
}

static bool reads_only(const struct eng_health *h, void *arg)
{
        return h->ready && !h->writable;
}

/*
 * Two members lack them, and are away: whether the records count cannot be told, so their groups
 * are not answered for, and the records stay as they are (I2). Were they made visible, the two
 * would be taken for drives that lost them when they are back.
 */
static void test_reading_leaves_it_open(void **state)
{
        uint64_t bucket;
        struct sf sf;
        unsigned i;

        make(&sf, &bucket, 1u << 3 | 1u << 2);
        sf.drives = 2;
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, reads_only, NULL, 60));
        for (i = 0; i < LATE; i++)
                assert_int_equal(sf_get(&sf, i % 2, bucket, key_of("late", late[i]), i, 1000), -EHOSTDOWN);
        sf_close(&sf);
        sf.drives = 4;
        expect_reconciled(&sf, bucket, NULL, false);
}

/* The start has come to what it can do without an epoch. */
static bool has_no_epoch(const struct eng_health *h, void *arg)
{
        return !h->writable && (h->ready || strstr(h->reason, "may have gone on without the others") != NULL);
}

/* What the late keys' answers are, with these drives alone. */
static void read_late(struct sf *sf, uint64_t bucket, uint64_t slots, int *answers)
{
        unsigned i;

        sf_give(sf, slots);
        assert_int_equal(sf_open(sf, false), 0);
        assert_true(sf_wait_health(sf, reads_only, NULL, 60));
        for (i = 0; i < EARLY; i++)
                assert_int_equal(sf_get(sf, 0, bucket, key_of("early", i), i, 1000), 0);
        for (i = 0; i < LATE; i++)
                answers[i] = sf_get(sf, 0, bucket, key_of("late", late[i]), i, 1000);
        sf_close(sf);
}

/*
 * The epoch that leaves drive 1 out reaches drives 0 and 2, and not its third member: it was never
 * in force. Started for reading, drives 0 and 2 know of that epoch, and have what drive 1 lacks;
 * then drives 1 and 3 are started, which do not know of it. What the first have given, the others
 * do not deny.
 */
static void test_reading_by_an_epoch_that_was_not_in_force(void **state)
{
        int first[LATE], then[LATE];
        unsigned i, denied = 0;
        uint64_t bucket;
        struct sf sf;

        make(&sf, &bucket, 1u << 1);
        sf.options.faults = "fail:op=append,slot=3";
        sf_give(&sf, 0xd);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, has_no_epoch, NULL, 60));
        sf_close(&sf);
        sf.options.faults = NULL;
        read_late(&sf, bucket, 0x5, first);
        read_late(&sf, bucket, 0xa, then);
        for (i = 0; i < LATE; i++) {
                assert_true(first[i] == 0 || first[i] == -EHOSTDOWN);
                assert_true(then[i] == -ENOENT || then[i] == -EHOSTDOWN);
                assert_false(first[i] == 0 && then[i] == -ENOENT);
                denied += then[i] == -ENOENT;
        }
        assert_true(denied > 0);
        sf_give(&sf, 0xf);
        assert_int_equal(sf_open(&sf, false), 0);
        assert_true(sf_wait_health(&sf, all_in, NULL, 120));
        for (i = 0; i < LATE; i++)
                assert_int_equal(sf_get(&sf, i % 2, bucket, key_of("late", late[i]), i, 1000), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

/* Fails a drive while tails are compared. owner: loop 0 while it is under way */
struct failing {
        struct lp_msg msg; /* first */
        struct eng_store *store;
        unsigned slot;
        uint64_t epoch; /* that was in force; 0: nothing is compared yet, or any more */
        atomic_bool over;
};

static void fail_while_it_reconciles(struct lp_msg *msg)
{
        struct failing *f = (struct failing *)msg;
        const struct eng_coord *c = f->store->coord;
        const struct recovery *r = c->recovery;

        if (r != NULL && r->reconcile != NULL) {
                f->epoch = c->view.epoch;
                eng_drive_failed(f->store, f->slot, f->store->members[f->slot].drive, "as a test says");
        }
        atomic_store(&f->over, true);
}

static bool three_in(const struct eng_health *h, void *arg)
{
        return h->ready && h->writable && h->drives_in == 3;
}

/*
 * A drive fails after its tail was read. What is made visible then is so under an epoch that was
 * begun without it: a crash before the next epoch would leave it a member that lacks what others
 * show, with nothing to tell (I2).
 */
static void test_one_fails_meanwhile(void **state)
{
        static struct failing f;
        uint64_t bucket;
        unsigned i, turns;
        struct sf sf;

        make(&sf, &bucket, 1u << 3);
        sf.options.faults = "delay:op=tail,ms=1000,slot=0";
        assert_int_equal(sf_open(&sf, false), 0);
        memset(&f, 0, sizeof(f));
        f.store = sf.store;
        f.slot = 2;
        for (turns = 0; turns < WAIT_TURNS && f.epoch == 0; turns++) {
                f.msg.run = fail_while_it_reconciles;
                atomic_store(&f.over, false);
                lp_post(sf.loops[0], &f.msg);
                WAIT_UNTIL(atomic_load(&f.over));
                usleep(WAIT_STEP_US);
        }
        assert_true(f.epoch > 0);
        assert_true(sf_wait_health(&sf, three_in, NULL, 60));
        assert_true(sf.store->first_epoch > f.epoch);
        for (i = 0; i < LATE; i++)
                assert_int_equal(sf_get(&sf, i % 2, bucket, key_of("late", late[i]), i, 1000), 0);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_is_copied),           cmocka_unit_test(test_try_again),
                cmocka_unit_test(test_another_member_gives_it), cmocka_unit_test(test_nobody_gives_it),
                cmocka_unit_test(test_reading_leaves_it_open),
                cmocka_unit_test(test_reading_by_an_epoch_that_was_not_in_force),
                cmocka_unit_test(test_refused_for_the_moment),
                cmocka_unit_test(test_one_fails_meanwhile),
                cmocka_unit_test(test_number_behind_all),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
