/*
 * test_walk.c - names of several drives side by side: each in order and once, whatever pages they
 * come in; which drives gave a name; a drive that says 'try again', and one that cannot be read.
 * The drives are the test's own.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/walk/walk.h"

#define DRIVES 3u
#define PAGE   4u
#define TRIES  16u /* of one page: walk.c */

/* One of the test's. names: in order, ended by NULL */
struct drive {
        struct eng_drive drive; /* first */
        const char *const *names;
        struct eng_op *op; /* asked, not answered yet */
        unsigned refusals; /* so many answers are 'try again' ... */
        int error;         /* ... and all later ones this, if it is not 0 */
        unsigned asked;
};

struct bench {
        struct eng_store store;
        struct eng_coord coord;
        struct eng_loop loop;
        struct eng_member members[DRIVES];
        struct drive drives[DRIVES];
        struct eng_walk *walk;
        unsigned ready; /* calls */
};

static void drive_submit(struct eng_drive *drive, struct eng_op *op)
{
        struct drive *d = (struct drive *)drive;

        assert_null(d->op);
        assert_int_equal(op->kind, ENG_OP_SCAN);
        assert_int_equal(op->scan.max, PAGE);
        d->op = op;
        d->asked++;
}

static const struct eng_drive_ops ops = {.submit = drive_submit};

static bool is_asked_for(const struct eng_op *op, const char *name)
{
        int c = strncmp(name, (const char *)op->scan.from, op->scan.from_len);

        if (c == 0)
                c = (int)strlen(name) - (int)op->scan.from_len;
        return (op->scan.after ? c > 0 : c >= 0) && strncmp(name, (const char *)op->scan.to, op->scan.to_len) < 0;
}

static void add_entry(struct eng_buf *page, const char *name)
{
        struct eng_scan_entry e = {.name_len = (uint16_t)strlen(name)};

        e.size = (uint32_t)(sizeof(e) + e.name_len + 7) / 8 * 8;
        memcpy(page->data + page->len, &e, sizeof(e));
        memcpy(page->data + page->len + sizeof(e), name, e.name_len);
        page->len += e.size;
}

static void answer_page(const struct drive *d, struct eng_op *op)
{
        const char *const *name;

        op->scan.entries = eng_buf_new(PAGE * 64);
        assert_non_null(op->scan.entries);
        op->scan.entries->len = 0;
        for (name = d->names; *name != NULL; name++) {
                if (!is_asked_for(op, *name))
                        continue;
                if (op->scan.count == op->scan.max) {
                        op->scan.more = true;
                        break;
                }
                add_entry(op->scan.entries, *name);
                op->scan.count++;
        }
}

static void drive_answer(struct drive *d)
{
        struct eng_op *op = d->op;

        d->op = NULL;
        op->result = d->refusals > 0 ? -EAGAIN : d->error;
        d->refusals -= d->refusals > 0;
        if (op->result == 0)
                answer_page(d, op);
        op->done(op);
}

static void is_ready(void *arg)
{
        ((struct bench *)arg)->ready++;
}

static struct bench *bench_new(const char *const *const names[DRIVES])
{
        struct bench *b = calloc(1, sizeof(*b));
        unsigned i;

        assert_non_null(b);
        b->store.coord = &b->coord;
        b->store.members = b->members;
        b->store.drive_count = DRIVES;
        b->store.pg_words = 1;
        b->loop.store = &b->store;
        b->walk = eng_walk_new(&b->loop, PAGE, is_ready, b);
        assert_non_null(b->walk);
        for (i = 0; i < DRIVES; i++) {
                b->drives[i] = (struct drive){.drive = {.ops = &ops, .slot = i}, .names = names[i]};
                b->members[i].drive = &b->drives[i].drive;
                assert_non_null(eng_walk_groups(b->walk, i));
        }
        return b;
}

static void bench_free(struct bench *b)
{
        eng_walk_free(b->walk);
        free(b);
}

/* All that are asked answer, the one with the highest slot first. */
static void bench_answer(struct bench *b)
{
        unsigned before = b->ready, i;

        for (i = DRIVES; i-- > 0;)
                while (b->drives[i].op != NULL)
                        drive_answer(&b->drives[i]);
        assert_int_equal(b->ready, before + 1);
}

static void bench_begin(struct bench *b, const char *first, const char *end)
{
        struct eng_name from = {.len = (uint16_t)strlen(first)}, to = {.len = (uint16_t)strlen(end)};

        memcpy(from.data, first, from.len);
        memcpy(to.data, end, to.len);
        eng_walk_begin(b->walk, &from, false, &to);
}

/* The next row is this name, of these drives. NULL: there is none. */
static void expect_row(struct bench *b, const char *name, eng_mask have)
{
        struct eng_walk_row row;
        unsigned i;
        int rv;

        while ((rv = eng_walk_next(b->walk, &row)) == -EAGAIN)
                bench_answer(b);
        assert_int_equal(rv, name != NULL);
        if (name == NULL)
                return;
        assert_int_equal(row.name_len, strlen(name));
        assert_memory_equal(row.name, name, row.name_len);
        assert_true(row.have == have);
        for (i = 0; i < DRIVES; i++)
                if (have & eng_bit(i))
                        assert_memory_equal(row.of[i] + 1, name, row.name_len);
}

static const char *const even[] = {"a", "c", "e", "g", "i", "k", NULL}, *const all[] = {"a", "b", "c", "d", "e", "f",
                                                                                        "g", "h", "i", "j", "k", NULL},
                         *const none[] = {NULL};

/* Pages of drives end at different names; each row says just who has it. */
static void test_side_by_side(void **state)
{
        const char *const *const names[DRIVES] = {even, all, none};
        struct bench *b = bench_new(names);
        unsigned i, round;

        for (round = 0; round < 2; round++) {
                bench_begin(b, "a", "k");
                for (i = 0; i < 10; i++)
                        expect_row(b, all[i], i % 2 == 0 ? eng_bit(0) | eng_bit(1) : eng_bit(1));
                expect_row(b, NULL, 0);
                assert_true(b->walk->failed == 0);
        }
        bench_begin(b, "d", "g"); /* a name that only one of them has */
        expect_row(b, "d", eng_bit(1));
        expect_row(b, "e", eng_bit(0) | eng_bit(1));
        expect_row(b, "f", eng_bit(1));
        expect_row(b, NULL, 0);
        bench_free(b);
}

/*
 * A drive of which a page cannot be read has not said that it has no more names (I6): the walk
 * names it, also the next one does if it still is so.
 */
static void test_cannot_be_read(void **state)
{
        const char *const *const names[DRIVES] = {all, all, all};
        struct bench *b = bench_new(names);
        unsigned i;

        bench_begin(b, "a", "z");
        for (i = 0; i < PAGE; i++)
                expect_row(b, all[i], eng_bit(0) | eng_bit(1) | eng_bit(2));
        assert_true(b->walk->failed == 0);
        b->drives[1].error = -EIO;
        for (; i < 11; i++)
                expect_row(b, all[i], eng_bit(0) | eng_bit(2));
        expect_row(b, NULL, 0);
        assert_true(b->walk->failed == eng_bit(1));
        assert_int_equal(b->walk->error, -EIO);
        bench_begin(b, "a", "z");
        assert_true(b->walk->failed == 0);
        expect_row(b, "a", eng_bit(0) | eng_bit(2));
        assert_true(b->walk->failed == eng_bit(1));
        b->drives[1].error = 0;
        bench_begin(b, "a", "z");
        expect_row(b, "a", eng_bit(0) | eng_bit(1) | eng_bit(2));
        bench_free(b);
}

/*
 * 'Try again' is no failure, unless it is all that a drive says; nor is it one that the store is
 * closed meanwhile.
 */
static void test_try_again(void **state)
{
        const char *const *const names[DRIVES] = {all, all, all};
        struct bench *b = bench_new(names);
        unsigned i;

        b->drives[2].refusals = TRIES - 1;
        bench_begin(b, "a", "z");
        for (i = 0; i < 11; i++) {
                expect_row(b, all[i], eng_bit(0) | eng_bit(1) | eng_bit(2));
                if (i == PAGE - 1)
                        b->drives[2].refusals = TRIES - 1; /* it is counted anew for each page */
        }
        expect_row(b, NULL, 0);
        assert_true(b->walk->failed == 0);
        b->drives[2].asked = 0;
        b->drives[2].refusals = UINT32_MAX;
        bench_begin(b, "a", "z");
        expect_row(b, "a", eng_bit(0) | eng_bit(1));
        assert_true(b->walk->failed == eng_bit(2));
        assert_int_equal(b->walk->error, -EAGAIN);
        assert_int_equal(b->drives[2].asked, TRIES);
        b->drives[2].asked = 0;
        b->store.stopping = true;
        bench_begin(b, "a", "z");
        expect_row(b, "a", eng_bit(0) | eng_bit(1));
        assert_int_equal(b->drives[2].asked, 1);
        bench_free(b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_side_by_side),
                cmocka_unit_test(test_cannot_be_read),
                cmocka_unit_test(test_try_again),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
