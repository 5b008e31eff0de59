/*
 * test_log.c - appending: group commit, batches, files, bounds, repeats, and the ways a drive
 * fails.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/drive_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

static size_t make_body(struct fx_body *body, const char *key, uint64_t id, size_t len)
{
        static uint8_t bytes[ENG_INLINE_MAX];
        uint8_t name[64];
        size_t name_len = fx_name(name, key);

        memset(bytes, (int)('a' + id % 26), len);
        body->len = body->inline_len = 0;
        fx_body_put(body, name, name_len, id, (uint32_t)(id % 4), bytes, len);
        return name_len;
}

#define MANY 300u

static void test_group_commit_from_many_loops(void **state)
{
        static struct fx_op ops[MANY], commits[MANY];
        static struct eng_drive_times times[3];
        static struct fx_body body;
        struct lp_histogram spent[ENG_DRIVE_STEPS] = {{.sum_ns = 0}};
        struct eng_drive_info info;
        char key[32], bytes[100];
        unsigned i, step;
        struct fx fx;

        fx_make(&fx, 3);
        fx.options.times = times;
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < MANY; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                make_body(&body, key, i, 100);
                fx_fill_append(&ops[i], &body, i % 3, i / 3 + 1, 0);
        }
        fx_start_group(&fx, ops, MANY);
        for (i = 0; i < MANY; i++) {
                assert_int_equal(fx_wait(&ops[i]), 0);
                eng_buf_unref(ops[i].op.append.body);
        }
        eng_drive_info(fx.local, &info);
        assert_int_equal(info.appends, MANY);
        assert_int_equal(info.batches, 2); /* the first, and all that queued behind it */
        assert_int_equal(info.queue, 0);
        for (i = 0; i < 3; i++)
                for (step = 0; step < ENG_DRIVE_STEPS; step++)
                        lp_times_sum(&times[i].step[step], &spent[step]);
        assert_int_equal(lp_histogram_count(&spent[ENG_OP_APPEND]), MANY);
        assert_int_equal(lp_histogram_count(&spent[ENG_DRIVE_LOG_WAIT]), MANY);
        assert_int_equal(lp_histogram_count(&spent[ENG_DRIVE_LOG_WRITE]), info.batches);
        assert_true(spent[ENG_OP_APPEND].sum_ns > spent[ENG_DRIVE_LOG_WAIT].sum_ns); /* part of it */
        for (i = 0; i < MANY; i++) {
                commits[i] = (struct fx_op){.op = {.kind = ENG_OP_COMMIT, .commit = {.pg = i % 3, .seq = i / 3 + 1}}};
                fx_start(&fx, i % 3, &commits[i]);
        }
        for (i = 0; i < MANY; i++)
                assert_int_equal(fx_wait(&commits[i]), 0);
        for (i = 0; i < MANY; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                memset(bytes, (int)('a' + i % 26), sizeof(bytes));
                assert_true(fx_has(&fx, key, bytes, sizeof(bytes)));
        }
        fx_destroy(&fx);
}

/*
 * Deletions of names that nobody has, so long that they take just these bytes: none, or 16 at
 * least.
 */
static void fill_body(struct fx_body *body, size_t len)
{
        struct fmt_mutation m = {.kind = FMT_MUT_DELETE};
        size_t name_len;

        memset(body, 0, sizeof(*body));
        while (body->len < len) {
                name_len = len - body->len - sizeof(m);
                if (name_len > 2000)
                        name_len = name_len < 2000 + 2 * sizeof(m) ? 1000 : 2000;
                m.name_len = (uint16_t)name_len;
                memcpy(body->bytes + body->len, &m, sizeof(m));
                memset(body->bytes + body->len + sizeof(m), 'j', name_len);
                body->bytes[body->len + sizeof(m)] = FMT_SPACE_OBJECT;
                body->len += sizeof(m) + name_len;
        }
}

/* Records as long as they may be, so that batches and files end at every kind of place. */
static void test_long_records_over_files(void **state)
{
        static struct fx_op ops[40];
        static struct fx_body body;
        static struct fx_body longest;
        uint8_t name[64];
        unsigned i, round;
        struct fx fx;
        size_t len;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fill_body(&longest, FMT_BODY_MAX);
        for (i = 0; i < 40; i++) {
                fill_body(&body, i % 4 == 0 ? FMT_BODY_MAX : i * 1009);
                fx_fill_append(&ops[i], &body, 3, i + 1, 0);
                fx_start(&fx, 0, &ops[i]);
        }
        for (i = 0; i < 40; i++) {
                assert_int_equal(fx_wait(&ops[i]), 0);
                eng_buf_unref(ops[i].op.append.body);
        }
        len = fx_name(name, "after");
        body.len = body.inline_len = 0;
        fx_body_put(&body, name, len, 1, 3, "x", 1);
        assert_int_equal(fx_append(&fx, &body, 3, 41, 40), 0);
        for (round = 0; round < 2; round++) {
                struct fx_op op = {.op = {.kind = ENG_OP_RECORD, .append = {.pg = 3, .seq = 41}}};

                assert_int_equal(fx_run(&fx, &op), 0);
                assert_int_equal(op.op.append.body->len, body.len);
                eng_buf_unref(op.op.append.body);
                if (round == 0) {
                        op = (struct fx_op){.op = {.kind = ENG_OP_RECORD, .append = {.pg = 3, .seq = 37}}};
                        assert_int_equal(fx_run(&fx, &op), 0);
                        assert_int_equal(op.op.append.body->len, FMT_BODY_MAX);
                        assert_memory_equal(op.op.append.body->data, longest.bytes, FMT_BODY_MAX);
                        eng_buf_unref(op.op.append.body);
                        fx_close(&fx);
                        assert_int_equal(fx_open(&fx), 0);
                }
        }
        assert_int_equal(fx_commit(&fx, 3, 41), 0);
        assert_true(fx_has(&fx, "after", "x", 1));
        fx_destroy(&fx);
}

static int append_raw(struct fx *fx, const void *bytes, size_t len, uint16_t type, uint32_t inline_len)
{
        static struct fx_body body;
        struct fx_op op;
        int rv;

        memcpy(body.bytes, bytes, len);
        body.len = len;
        body.inline_len = inline_len;
        fx_fill_append(&op, &body, 1, 1, 0);
        op.op.append.type = type;
        rv = fx_run(fx, &op);
        eng_buf_unref(op.op.append.body);
        return rv;
}

static void test_bodies_that_make_no_sense(void **state)
{
        static struct fx_body body;
        uint8_t name[64], bad[256];
        struct fx fx;
        size_t len, i;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        len = fx_name(name, "k");
        fx_body_put(&body, name, len, 1, 1, "abc", 3);
        assert_int_equal(append_raw(&fx, body.bytes, body.len, 0, 0), -EINVAL);
        assert_int_equal(append_raw(&fx, body.bytes, body.len, FMT_RECORD_FREED, 0), -EINVAL);
        assert_int_equal(append_raw(&fx, body.bytes, body.len, FMT_RECORD_PG, 2), -EINVAL);
        assert_int_equal(append_raw(&fx, body.bytes, body.len, FMT_RECORD_PG, (uint32_t)body.len + 1), -EINVAL);
        assert_int_equal(append_raw(&fx, body.bytes, body.len, FMT_RECORD_EPOCH, 0), -EINVAL);
        assert_int_equal(append_raw(&fx, body.bytes, body.len, 3, 0), -EINVAL); /* a number that is not used any more */
        for (i = 1; i < body.len; i++)
                assert_int_equal(append_raw(&fx, body.bytes, i, FMT_RECORD_PG, i < 3 ? 0 : 3), -EINVAL);
        memcpy(bad, body.bytes, body.len);
        bad[0] = 9; /* kind */
        assert_int_equal(append_raw(&fx, bad, body.len, FMT_RECORD_PG, 3), -EINVAL);
        memcpy(bad, body.bytes, body.len);
        bad[8] = 77; /* space */
        assert_int_equal(append_raw(&fx, bad, body.len, FMT_RECORD_PG, 3), -EINVAL);
        assert_int_equal(append_raw(&fx, body.bytes, body.len, FMT_RECORD_PG, 3), 0);
        fx_destroy(&fx);
}

static void test_repeats_are_harmless(void **state)
{
        static struct fx_body body;
        struct eng_drive_info info;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        make_body(&body, "k", 1, 10);
        assert_int_equal(fx_append(&fx, &body, 1, 1, 0), 0);
        assert_int_equal(fx_append(&fx, &body, 1, 1, 0), 0); /* pending */
        assert_int_equal(fx_commit(&fx, 1, 1), 0);
        assert_int_equal(fx_commit(&fx, 1, 1), 0);
        assert_int_equal(fx_append(&fx, &body, 1, 1, 0), 0); /* applied */
        eng_drive_info(fx.local, &info);
        assert_int_equal(info.appends, 1);
        assert_true(fx_has(&fx, "k", "bbbbbbbbbb", 10));
        fx_destroy(&fx);
}

/* What is queued and pending is bounded; at the bound APPEND is refused, and COMMIT makes room. */
static void test_queue_is_bounded(void **state)
{
        static struct fx_body body;
        unsigned n = 0;
        char key[32];
        struct fx fx;
        int rv;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        do {
                snprintf(key, sizeof(key), "k%u", ++n);
                make_body(&body, key, n, ENG_INLINE_MAX);
                rv = fx_append(&fx, &body, 1, n, 0);
        } while (rv == 0 && n < 2000);
        assert_int_equal(rv, -EAGAIN);
        assert_true(n > 400);
        assert_int_equal(fx_commit(&fx, 1, n - 1), 0);
        assert_int_equal(fx_append(&fx, &body, 1, n, 0), 0);
        fx_destroy(&fx);
}

/* A tail at its bound makes appends wait for the index, no longer than that. */
static void test_tail_is_bounded(void **state)
{
        struct eng_drive_info info;
        char key[32];
        unsigned i;
        struct fx fx;

        fx_make(&fx, 1);
        fx.options.memtable_bytes = 8192;
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 300; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                assert_int_equal(fx_put(&fx, key, "0123456789", 10), 0);
                eng_drive_info(fx.local, &info);
                assert_true(info.memtable_bytes < 8192 + 2048);
        }
        for (i = 0; i < 300; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                assert_true(fx_has(&fx, key, "0123456789", 10));
        }
        fx_destroy(&fx);
}

/* ---- failure --------------------------------------------------------------------------------- */

static bool has_failed(struct fx *fx)
{
        bool failed;

        pthread_mutex_lock(&fx->lock);
        failed = fx->failed[0] != '\0';
        pthread_mutex_unlock(&fx->lock);
        return failed;
}

static void expect_dead(struct fx *fx, const char *text)
{
        struct fx_op op;
        unsigned kind;

        WAIT_UNTIL(has_failed(fx));
        pthread_mutex_lock(&fx->lock);
        assert_non_null(strstr(fx->failed, text));
        pthread_mutex_unlock(&fx->lock);
        for (kind = 0; kind < ENG_OP_KINDS; kind++) {
                op = (struct fx_op){.op = {.kind = (enum eng_op_kind)kind}};
                assert_int_equal(fx_run(fx, &op), -EIO);
        }
}

static void test_folder_moved_away(void **state)
{
        struct eng_drive_info info;
        char away[256];
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "a", "b", 1), 0);
        snprintf(away, sizeof(away), "%s/away", fx.root);
        assert_int_equal(rename(fx.path, away), 0);
        expect_dead(&fx, "moved away");
        eng_drive_info(fx.local, &info);
        assert_int_equal(info.state, ENG_DRIVE_FAILED);
        assert_non_null(strstr(info.reason, "moved away"));
        fx_close(&fx);
        assert_int_equal(rename(away, fx.path), 0);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_commit(&fx, 1, 1), 0);
        assert_true(fx_has(&fx, "a", "b", 1));
        fx_destroy(&fx);
}

static bool wait_exhausted(struct fx *fx)
{
        WAIT_UNTIL(eng_drive_exhausted(fx->drive));
        return eng_drive_exhausted(fx->drive);
}

/*
 * There is no room in the middle of a run, short writes and all: what waits is written when there
 * is, in order and once; a crash meanwhile leaves the log whole.
 */
static void test_full_in_the_middle(void **state)
{
        static struct fx_op ops[40];
        static struct fx_body body;
        struct rlimit limit, old;
        char key[32];
        unsigned i;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "first", "1", 1), 0);
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &old);
        limit = old;
        limit.rlim_cur = 300u << 10;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        for (i = 0; i < 40; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                make_body(&body, key, i, 30000);
                fx_fill_append(&ops[i], &body, 2, i + 1, 0);
                ops[i].op.flags |= ENG_OP_RESERVE;
                fx_start(&fx, 0, &ops[i]);
        }
        assert_true(wait_exhausted(&fx));
        assert_false(has_failed(&fx));
        setrlimit(RLIMIT_FSIZE, &old);
        fx_snapshot(&fx, "crash");
        for (i = 0; i < 40; i++) {
                assert_int_equal(fx_wait(&ops[i]), 0);
                eng_buf_unref(ops[i].op.append.body);
        }
        assert_false(eng_drive_exhausted(fx.drive));
        assert_int_equal(fx_commit(&fx, 2, 40), 0);
        for (i = 0; i < 2; i++) {
                unsigned k;

                for (k = 0; k < 40; k++) {
                        snprintf(key, sizeof(key), "k%u", k);
                        assert_int_equal(fx_lookup_rv(&fx, key), 0);
                }
                fx_close(&fx);
                assert_int_equal(fx_open(&fx), 0);
                assert_int_equal(fx_commit(&fx, 1, 1), 0);
                assert_int_equal(fx_commit(&fx, 2, 40), 0);
        }
        fx_close(&fx);
        fx_restore(&fx, "crash");
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_commit(&fx, 1, 1), 0);
        assert_true(fx_has(&fx, "first", "1", 1));
        fx_destroy(&fx);
}

/*
 * A write that ends short each time, with no word of a full file system, ends the drive's use (I8):
 * none of its records is said to be durable (I1), not even those that the part which was written
 * may hold.
 */
static void test_short_without_end(void **state)
{
        static struct fx_op ops[20];
        static struct fx_body body;
        struct rlimit limit, old;
        char key[32];
        unsigned i;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "first", "1", 1), 0);
        signal(SIGXFSZ, SIG_IGN);
        getrlimit(RLIMIT_FSIZE, &old);
        limit = old;
        limit.rlim_cur = 300u << 10;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        for (i = 0; i < 20; i++) {
                snprintf(key, sizeof(key), "k%u", i);
                make_body(&body, key, i, 30000);
                fx_fill_append(&ops[i], &body, 2, i + 1, 0);
        }
        fx_start_group(&fx, ops, 20); /* the first, then a batch of the others, over the limit */
        assert_int_equal(fx_wait(&ops[0]), 0);
        for (i = 1; i < 20; i++)
                assert_int_equal(fx_wait(&ops[i]), -EIO);
        for (i = 0; i < 20; i++)
                eng_buf_unref(ops[i].op.append.body);
        setrlimit(RLIMIT_FSIZE, &old);
        expect_dead(&fx, "writing log file");
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_commit(&fx, 1, 1), 0);
        assert_true(fx_has(&fx, "first", "1", 1));
        fx_destroy(&fx);
}

static void test_open_errors(void **state)
{
        struct eng_drive *second;
        struct eng_error error;
        char path[256];
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(eng_local_open(&fx.options, &second, &error), -EBUSY);
        assert_non_null(strstr(error.text, fx.path));
        fx_close(&fx);
        fx.options.identity.drive_id[0] ^= 1;
        assert_int_equal(fx_open(&fx), -EBADMSG);
        fx.options.identity.drive_id[0] ^= 1;
        fx.options.identity.slot = 5;
        assert_int_equal(fx_open(&fx), -EBADMSG);
        fx.options.identity.slot = 0;
        snprintf(path, sizeof(path), "%s/FORMAT", fx.path);
        fx_flip(path, 40);
        assert_int_equal(fx_open(&fx), -EBADMSG);
        fx_flip(path, 40);
        assert_int_equal(fx_open(&fx), 0);
        fx_destroy(&fx);
}

static void spoil_page(const char *path, uint64_t page)
{
        static uint8_t garbage[4096];
        int fd = open(path, O_RDWR);

        assert_true(fd >= 0);
        memset(garbage, 0xa5, sizeof(garbage));
        assert_int_equal(pwrite(fd, garbage, sizeof(garbage), (off_t)(page * sizeof(garbage))), sizeof(garbage));
        close(fd);
}

/*
 * A page of the index lost: told as damage, never as absence; the next start makes the index anew
 * from the log.
 */
static void test_damaged_index(void **state)
{
        char path[256], key[32];
        uint64_t page, pages = 1;
        unsigned i, round;
        struct fx fx;
        int rv;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 200; i++) {
                snprintf(key, sizeof(key), "k%03u", i);
                assert_int_equal(fx_put(&fx, key, key, 4), 0);
        }
        fx_close(&fx);
        fx_snapshot(&fx, "whole");
        snprintf(path, sizeof(path), "%s/index/data.mdb", fx.path);
        pages = fx_file_size(path) / 4096;
        assert_true(pages > 6);
        for (page = 0; page < pages; page++) {
                fx_restore(&fx, "whole");
                spoil_page(path, page);
                for (round = 0; round < 2; round++) {
                        if (fx_open(&fx) != 0)
                                fail_msg("page %u: %s", (unsigned)page, fx.error.text);
                        fx_commit(&fx, 1, 200);
                        for (i = 0; i < 200; i++) {
                                snprintf(key, sizeof(key), "k%03u", i);
                                rv = fx_lookup_rv(&fx, key);
                                if (rv != 0 && (round == 1 || (rv != -EBADMSG && rv != -EIO)))
                                        fail_msg("page %u round %u: %d", (unsigned)page, round, rv);
                        }
                        fx_close(&fx);
                }
        }
        fx_destroy(&fx);
}

/*
 * A file with a header that is right, behind whose number there is no other: it is none of the
 * log's.
 */
static void test_file_of_the_last_number(void **state)
{
        struct eng_log_ident ident = {.file = UINT64_MAX, .generation = 77};
        uint8_t *block = calloc(1, FMT_BLOCK);
        char path[256], key[32];
        unsigned i;
        struct fx fx;
        int fd;

        assert_non_null(block);
        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "before", "bytes", 5), 0);
        memcpy(ident.drive_id, eng_local_of(fx.local)->files.drive_id, FMT_ID);
        fx_close(&fx);
        eng_logfile_header((struct fmt_log_header *)block, &ident, 1, 0, 0);
        snprintf(path, sizeof(path), "%s/log/ffffffffffffffff.log", fx.path);
        fd = open(path, O_WRONLY | O_CREAT, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, block, FMT_BLOCK), FMT_BLOCK);
        close(fd);
        free(block);
        for (i = 0; i < 2; i++) {
                assert_int_equal(fx_open(&fx), 0);
                assert_null(eng_drive_damage(fx.local));
                snprintf(key, sizeof(key), "after %u", i);
                assert_int_equal(fx_put(&fx, key, "bytes", 5), 0);
                assert_true(fx_has(&fx, "before", "bytes", 5));
                fx_close(&fx);
        }
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_group_commit_from_many_loops),
                cmocka_unit_test(test_long_records_over_files),
                cmocka_unit_test(test_bodies_that_make_no_sense),
                cmocka_unit_test(test_repeats_are_harmless),
                cmocka_unit_test(test_queue_is_bounded),
                cmocka_unit_test(test_tail_is_bounded),
                cmocka_unit_test(test_folder_moved_away),
                cmocka_unit_test(test_full_in_the_middle),
                cmocka_unit_test(test_short_without_end),
                cmocka_unit_test(test_open_errors),
                cmocka_unit_test(test_damaged_index),
                cmocka_unit_test(test_file_of_the_last_number),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
