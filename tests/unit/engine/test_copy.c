/*
 * Catching up as a drive sees it: records that never counted are void for good, copies count at
 * once and by their seq, and all of it is so again after a crash, and after the index was lost.
 */
#include <setjmp.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/drive/local.h"
#include "tests/lib/drive_fixture.h"
#include "tests/lib/wait.h"

static int append_knowing(struct fx *fx, const struct fx_body *body, enum fmt_record_type type, uint64_t seq,
                          uint64_t committed)
{
        struct fx_op op;
        int rv;

        fx_fill_append(&op, body, 1, seq, committed);
        op.op.append.type = (uint16_t)type;
        rv = fx_run(fx, &op);
        eng_buf_unref(op.op.append.body);
        return rv;
}

static int append(struct fx *fx, const struct fx_body *body, enum fmt_record_type type, uint64_t seq)
{
        return append_knowing(fx, body, type, seq, 0);
}

static int put(struct fx *fx, enum fmt_record_type type, const char *key, const char *bytes, uint64_t seq)
{
        static struct fx_body body;
        uint8_t name[64];

        memset(&body, 0, sizeof(body));
        fx_body_put(&body, name, fx_name(name, key), seq * 100 + (uint64_t)bytes[0], 1, bytes, strlen(bytes));
        return append(fx, &body, type, seq);
}

static int copy_delete(struct fx *fx, const char *key, uint64_t seq)
{
        static struct fx_body body;
        uint8_t name[64];

        memset(&body, 0, sizeof(body));
        fx_body_delete(&body, name, fx_name(name, key));
        return append(fx, &body, FMT_RECORD_COPY, seq);
}

/* As migrated_drop.c does: with the number that the name had. */
static int forget(struct fx *fx, const char *key, uint64_t seq)
{
        static struct fx_body body;
        uint8_t name[64];

        memset(&body, 0, sizeof(body));
        fx_body_delete(&body, name, fx_name(name, key));
        return append_knowing(fx, &body, FMT_RECORD_COPY, seq, seq);
}

static int append_void(struct fx *fx)
{
        struct fx_op op = {.op = {.kind = ENG_OP_APPEND, .append = {.type = FMT_RECORD_VOID}}};

        return fx_run(fx, &op);
}

static unsigned pending(struct fx *fx)
{
        struct fx_op op = {.op = {.kind = ENG_OP_TAIL}};
        const struct eng_memtable_entry *e;
        unsigned i, n = 0;

        assert_int_equal(fx_run(fx, &op), 0);
        e = (const struct eng_memtable_entry *)op.op.tail.entries->data;
        for (i = 0; i < op.op.tail.count; i++)
                n += e[i].pending;
        eng_buf_unref(op.op.tail.entries);
        return n;
}

static bool has(struct fx *fx, const char *key, const char *bytes)
{
        return fx_has(fx, key, bytes, strlen(bytes));
}

/* What the tests below leave behind. */
static void check(struct fx *fx)
{
        assert_int_equal(pending(fx), 0);
        assert_true(has(fx, "kept", "old"));
        assert_true(has(fx, "applied", "applied"));
        assert_true(has(fx, "changed", "new"));
        assert_int_equal(fx_lookup_rv(fx, "deleted"), -ENOENT);
        assert_true(has(fx, "again", "again"));
        assert_int_equal(fx_lookup_rv(fx, "void"), -ENOENT);
        assert_true(has(fx, "later", "later"));
}

static void reopen(struct fx *fx, bool drop_index)
{
        char command[256];

        fx_snapshot(fx, "crash");
        fx_close(fx);
        fx_restore(fx, "crash");
        if (drop_index) {
                snprintf(command, sizeof(command), "rm -rf %s/index", fx->path);
                assert_int_equal(system(command), 0);
        }
        assert_int_equal(fx_open(fx), 0);
}

static void test_catching_up(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "kept", "old", 3), 0);    /* 1 */
        assert_int_equal(fx_put(&fx, "changed", "old", 3), 0); /* 2 */
        assert_int_equal(fx_put(&fx, "deleted", "old", 3), 0); /* 3 */
        assert_int_equal(fx_put(&fx, "again", "old", 3), 0);   /* 4 */
        assert_int_equal(put(&fx, FMT_RECORD_PG, "applied", "applied", 5), 0);
        assert_int_equal(fx_commit(&fx, 1, 5), 0); /* nothing in the log says so */
        assert_int_equal(put(&fx, FMT_RECORD_PG, "void", "never", 7), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "kept", "never", 6), 0);
        assert_int_equal(pending(&fx), 2);
        assert_int_equal(append_void(&fx), 0);
        assert_int_equal(pending(&fx), 0);
        /* others gave the numbers from 5 on to other records; 20 was the last of them */
        assert_int_equal(put(&fx, FMT_RECORD_COPY, "changed", "new", 20), 0);
        assert_true(has(&fx, "changed", "new"));
        assert_int_equal(copy_delete(&fx, "deleted", 20), 0);
        assert_int_equal(copy_delete(&fx, "again", 20), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "later", "later", 21), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "again", "again", 22), 0);
        assert_int_equal(fx_commit(&fx, 1, 22), 0);
        check(&fx);
        assert_true(fx_wait_indexed(&fx));
        check(&fx);
        reopen(&fx, false);
        check(&fx);
        reopen(&fx, true);
        assert_int_equal(fx_commit(&fx, 1, 22), 0); /* the log alone does not say that the last ones were committed */
        check(&fx);
        fx_destroy(&fx);
}

/* A copy never hides what is newer, wherever that stands. */
static void test_older_copies_lose(void **state)
{
        struct fx fx;
        int i;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "k", "newer", 30), 0);
        assert_int_equal(fx_commit(&fx, 1, 30), 0);
        for (i = 0; i < 2; i++) {
                assert_int_equal(put(&fx, FMT_RECORD_COPY, "k", "older", 29), 0);
                assert_true(has(&fx, "k", "newer"));
                assert_int_equal(copy_delete(&fx, "k", 29), 0);
                assert_true(has(&fx, "k", "newer"));
                assert_true(fx_wait_indexed(&fx));
        }
        reopen(&fx, true);
        assert_int_equal(fx_commit(&fx, 1, 30), 0);
        assert_true(has(&fx, "k", "newer"));
        fx_destroy(&fx);
}

struct indexed {
        struct eng_local *l;
        bool all;
};

static void look_at_generations(void *arg)
{
        struct indexed *indexed = arg;

        indexed->all = indexed->l->frozen == NULL && eng_memtable_empty(indexed->l->active);
}

static void wait_indexed(struct fx *fx)
{
        struct indexed indexed = {.l = eng_local_of(fx->local)};

        WAIT_UNTIL((fx_call(fx, 0, look_at_generations, &indexed), indexed.all));
        assert_true(indexed.all);
}

/*
 * A record that waits has an older number than a copy that is in the index already: it changes
 * nothing when it is committed.
 */
static void test_pending_is_older_than_copy(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "key", "older", 40), 0);
        assert_int_equal(put(&fx, FMT_RECORD_COPY, "key", "newer", 45), 0);
        assert_true(has(&fx, "key", "newer"));
        wait_indexed(&fx);
        assert_int_equal(fx_commit(&fx, 1, 40), 0);
        assert_true(has(&fx, "key", "newer"));
        fx_destroy(&fx);
}

/* A name that was forgotten stays so, though the log says nowhere else that its record counted. */
static void test_forgotten(void **state)
{
        unsigned i;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "stays", "stays", 1), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "goes", "goes", 2), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "waits", "waits", 3), 0);
        assert_int_equal(fx_commit(&fx, 1, 2), 0);
        assert_int_equal(forget(&fx, "goes", 2), 0);
        for (i = 0; i < 3; i++) {
                assert_int_equal(pending(&fx), 1);
                assert_true(has(&fx, "stays", "stays"));
                assert_int_equal(fx_lookup_rv(&fx, "goes"), -ENOENT);
                assert_int_equal(fx_lookup_rv(&fx, "waits"), -ENOENT);
                reopen(&fx, i == 1);
        }
        assert_int_equal(fx_commit(&fx, 1, 3), 0);
        assert_int_equal(fx_lookup_rv(&fx, "goes"), -ENOENT);
        assert_true(has(&fx, "waits", "waits"));
        fx_destroy(&fx);
}

static void put_shards(struct fx *fx, uint64_t id, uint64_t seq)
{
        static struct fx_body body;
        uint8_t name[64];

        memset(&body, 0, sizeof(body));
        fx_body_put_part(&body, name, fx_name(name, "shards"), id, id, 1);
        assert_int_equal(append(fx, &body, FMT_RECORD_PG, seq), 0);
}

/*
 * A clean end that leaves the log to be replayed marks the group as committed; what was void before
 * that stays so.
 */
static void test_void_over_close(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "void", "never", 5), 0);
        assert_int_equal(append_void(&fx), 0);
        put_shards(&fx, 1000, 20);
        put_shards(&fx, 1001, 21);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "later", "later", 22), 0);
        assert_int_equal(fx_commit(&fx, 1, 22), 0);
        fx_close(&fx); /* the shards of 1000 are dead and nobody was told */
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(pending(&fx), 0);
        assert_int_equal(fx_lookup_rv(&fx, "void"), -ENOENT);
        assert_true(has(&fx, "later", "later"));
        fx_destroy(&fx);
}

/* Copies end no uploads, a void record has no body. */
static void test_refused(void **state)
{
        static struct fx_body body;
        uint8_t name[64] = {FMT_SPACE_UPLOAD, 0, 0, 0, 0, 0, 0, 0, 1, 'k', 0, 1};
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fx_body_end_upload(&body, name, 12 + FMT_ID, NULL, 0);
        assert_int_equal(append(&fx, &body, FMT_RECORD_COPY, 1), -EINVAL);
        assert_int_equal(append(&fx, &body, FMT_RECORD_VOID, 1), -EINVAL);
        assert_int_equal(append(&fx, &body, FMT_RECORD_PG, 1), 0);
        fx_destroy(&fx);
}

/*
 * A copy that deletes or replaces a value says nothing of its shards: a part deleted by one may
 * live on in an object.
 */
static void test_copies_prove_nothing_dead(void **state)
{
        static struct fx_body body;
        static const char *const keys[] = {"deleted", "replaced", "deleted in memory", "put after"};
        uint8_t name[64];
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 4; i++) {
                if (i == 2)
                        assert_true(fx_wait_indexed(&fx));
                memset(&body, 0, sizeof(body));
                fx_body_put_part(&body, name, fx_name(name, keys[i]), 100 + i, 200 + i, 1);
                assert_int_equal(fx_append(&fx, &body, 1, ++fx.seq, 0), 0);
                assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        }
        assert_int_equal(copy_delete(&fx, "deleted", 20), 0);
        assert_int_equal(put(&fx, FMT_RECORD_COPY, "replaced", "new", 21), 0);
        assert_int_equal(copy_delete(&fx, "deleted in memory", 22), 0);
        assert_int_equal(copy_delete(&fx, "put after", 23), 0);
        assert_int_equal(put(&fx, FMT_RECORD_PG, "put after", "x", 24), 0);
        assert_int_equal(fx_commit(&fx, 1, 24), 0);
        assert_true(fx_wait_indexed(&fx));
        assert_int_equal(fx_dead_count(&fx), 0);
        fx.seq = 30; /* a record of the group does prove it */
        memset(&body, 0, sizeof(body));
        fx_body_put_part(&body, name, fx_name(name, "gone"), 150, 250, 1);
        assert_int_equal(fx_append(&fx, &body, 1, ++fx.seq, 0), 0);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        assert_true(fx_wait_indexed(&fx));
        assert_int_equal(fx_delete(&fx, "gone"), 0);
        assert_true(fx_wait_indexed(&fx));
        assert_int_equal(fx_dead_count(&fx), 1);
        assert_int_equal(fx_lookup_rv(&fx, "deleted"), -ENOENT);
        assert_true(has(&fx, "replaced", "new"));
        assert_true(has(&fx, "put after", "x"));
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_catching_up),
                cmocka_unit_test(test_older_copies_lose),
                cmocka_unit_test(test_pending_is_older_than_copy),
                cmocka_unit_test(test_forgotten),
                cmocka_unit_test(test_void_over_close),
                cmocka_unit_test(test_refused),
                cmocka_unit_test(test_copies_prove_nothing_dead),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
