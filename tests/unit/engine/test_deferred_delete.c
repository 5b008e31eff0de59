/*
 * test_deferred_delete.c - whom the shards of a deleted object wait for: lookups that may have
 * found it before.
 *
 * A drive of the test's own stands before the store's only one, and keeps the answer of a lookup
 * back.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/placement/place.h"
#include "tests/lib/store_fixture.h"
#include "tests/lib/wait.h"

#define SIZE (1u << 20)

/* Keeps the answer of the first lookup that comes while `keeps`. owner: loop 0 */
struct late_drive {
        struct eng_drive drive; /* first */
        struct eng_drive *inner;
        struct lp_msg msg;
        struct eng_op *op; /* NULL: none was kept yet */
        void (*done)(struct eng_op *op);
        atomic_bool keeps, kept; /* set by the test; by the loop */
};
static struct late_drive late;

static void late_answered(struct eng_op *op)
{
        assert_ptr_equal(op, late.op);
        atomic_store(&late.kept, true);
}

static void late_submit(struct eng_drive *drive, struct eng_op *op)
{
        if (op->kind == ENG_OP_LOOKUP && atomic_exchange(&late.keeps, false)) {
                late.op = op;
                late.done = op->done;
                op->done = late_answered;
        }
        eng_drive_submit(late.inner, op);
}

static const struct eng_drive_ops late_ops = {.submit = late_submit};

static void late_let_go(struct lp_msg *msg)
{
        late.op->done = late.done;
        late.done(late.op);
}

struct reader {
        struct sf *sf;
        uint64_t bucket;
        int rv;
};

static void *reader_run(void *arg)
{
        struct reader *reader = arg;

        reader->rv = sf_get(reader->sf, 0, reader->bucket, "read", 1, SIZE);
        return NULL;
}

/*
 * A GET's lookup has found the object, and the answer is still on its way when the object is
 * deleted. The GET gets all its bytes. Another object that was deleted after it, and that nobody
 * looked for, is gone by then; so it is not that nothing was given back yet.
 */
static void test_lookup_of_before(void **state)
{
        struct reader reader;
        struct sf sf = {.drives = 0};
        pthread_t thread;
        bool existed;

        sf_make(&sf, 1, 1);
        assert_int_equal(sf_open(&sf, true), 0);
        assert_true(sf_wait_ready(&sf, 60));
        assert_int_equal(sf_bucket(&sf, "bucket", &reader.bucket), 0);
        assert_int_not_equal(eng_pg_of_key(sf.store->pg_count, reader.bucket, "read", 4),
                             eng_pg_of_key(sf.store->pg_count, reader.bucket, "other", 5));
        assert_int_equal(sf_put(&sf, 0, reader.bucket, "read", 1, SIZE, true, NULL), 0);
        assert_int_equal(sf_put(&sf, 0, reader.bucket, "other", 2, SIZE, true, NULL), 0);
        WAIT_UNTIL(sf_live_bytes(&sf) >= 2 * SIZE);

        late.inner = sf.store->members[0].drive;
        late.drive = *late.inner;
        late.drive.ops = &late_ops;
        late.msg.run = late_let_go;
        atomic_store(&sf.store->members[0].drive, &late.drive);
        atomic_store(&late.keeps, true);
        reader.sf = &sf;
        assert_int_equal(pthread_create(&thread, NULL, reader_run, &reader), 0);
        WAIT_UNTIL(atomic_load(&late.kept));
        assert_true(atomic_load(&late.kept));

        assert_int_equal(sf_delete(&sf, 0, reader.bucket, "read", &existed), 0);
        assert_int_equal(sf_delete(&sf, 0, reader.bucket, "other", &existed), 0);
        WAIT_UNTIL(sf_live_bytes(&sf) < 2 * SIZE);
        assert_in_range(sf_live_bytes(&sf), SIZE, 2 * SIZE - 1);
        lp_post(sf.loops[0], &late.msg);
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(reader.rv, 0);
        WAIT_UNTIL(sf_live_bytes(&sf) < SIZE);
        assert_in_range(sf_live_bytes(&sf), 0, SIZE - 1);
        atomic_store(&sf.store->members[0].drive, late.inner);
        sf_close(&sf);
        sf_remove(&sf);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_lookup_of_before)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
