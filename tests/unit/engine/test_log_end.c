/*
 * test_log_end.c - the last batch of a log file goes bad, the file behind it was freed, and the
 * index is lost: the drive says that its log is damaged. It says no such thing of a file that ends
 * with a tear, and takes nothing that stands behind one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define BYTES  100000u
#define GROUP  80u /* two log files full: one at least holds nothing else */
#define GROUPS 6u
#define SMALL  24u
#define SECTOR 512u

static uint8_t bytes[BYTES];

struct store {
        struct fx fx;
        size_t len[GROUPS * GROUP]; /* of each value as it is now; 0: none */
};
static struct store st;

/* ---- values ---------------------------------------------------------------------------------- */

static void put(unsigned i, size_t len)
{
        char name[32];

        memset(bytes, (int)(i + len), len);
        snprintf(name, sizeof(name), "%u", i);
        assert_int_equal(fx_put(&st.fx, name, bytes, len), 0);
        st.len[i] = len;
}

static void put_group(unsigned group, size_t len)
{
        unsigned i;

        for (i = group * GROUP; i < (group + 1) * GROUP; i++)
                put(i, len);
}

/* How many are not what they were. One that is there has its own bytes. */
static unsigned missing(void)
{
        unsigned i, n = 0;
        char name[32];

        for (i = 0; i < GROUPS * GROUP; i++) {
                if (st.len[i] == 0)
                        continue;
                memset(bytes, (int)(i + st.len[i]), st.len[i]);
                snprintf(name, sizeof(name), "%u", i);
                n += !fx_has(&st.fx, name, bytes, st.len[i]);
        }
        return n;
}

/* ---- log files ------------------------------------------------------------------------------- */

static void log_path(uint64_t number, char *out, size_t cap)
{
        snprintf(out, cap, "%s/log/%016llx.log", st.fx.path, (unsigned long long)number);
}

static bool there(uint64_t number)
{
        char path[256];

        log_path(number, path, sizeof(path));
        return access(path, F_OK) == 0;
}

static bool gone(uint64_t number)
{
        WAIT_UNTIL(!there(number));
        return !there(number);
}

struct batch {
        uint64_t at, end; /* of its last record */
        unsigned records;
};

/* The last batch of a log file that has a record of this file. */
static struct batch last_batch(uint64_t number)
{
        struct batch last = {.at = 0};
        struct fmt_record rec;
        char path[256];
        uint64_t at;
        int fd;

        log_path(number, path, sizeof(path));
        fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        for (at = FMT_BLOCK; pread(fd, &rec, sizeof(rec), (off_t)at) == sizeof(rec); at += FMT_RECORD_ALIGN) {
                if (rec.magic != FMT_RECORD_MAGIC || rec.file != number || rec.position != at)
                        continue;
                if (rec.batch != last.at)
                        last.records = 0;
                last.at = rec.batch;
                last.end = at + eng_rec_size(rec.body_len);
                last.records++;
        }
        close(fd);
        assert_int_not_equal(last.at, 0);
        return last;
}

/* Bytes from..to of a file become zeroes, or others. */
static void overwrite(uint64_t number, uint64_t from, uint64_t to, int with)
{
        uint8_t sector[SECTOR];
        char path[256];
        int fd;

        memset(sector, with, sizeof(sector));
        log_path(number, path, sizeof(path));
        fd = open(path, O_WRONLY);
        assert_true(fd >= 0);
        for (; from < to; from += SECTOR)
                assert_int_equal(pwrite(fd, sector, SECTOR, (off_t)from), SECTOR);
        close(fd);
}

static void rot_last(uint64_t number, int with)
{
        struct batch last = last_batch(number);

        overwrite(number, last.at, eng_round_up(last.end, FMT_BLOCK), with);
}

/* ---- the store ------------------------------------------------------------------------------- */

static void make(void)
{
        memset(&st, 0, sizeof(st));
        fx_make(&st.fx, 1);
        st.fx.options.reclaim_rate = ENG_RECLAIM_OFF;
        st.fx.options.cache_bytes = 1; /* everything is read from the log */
        assert_int_equal(fx_open(&st.fx), 0);
}

static void open_again(bool with_index)
{
        fx_close(&st.fx);
        if (!with_index)
                sh_remove_index(&st.fx);
        assert_int_equal(fx_open(&st.fx), 0);
        assert_int_equal(fx_commit(&st.fx, 1, st.fx.seq), 0);
}

/* A file that lives, with one behind it that was freed. */
static uint64_t before_gap(void)
{
        uint64_t number = 1;

        while (there(number + 1))
                number++;
        assert_true(there(number));
        assert_true(number < eng_local_of(st.fx.local)->log.current->number);
        return number;
}

static void let_go(void)
{
        const unsigned before = fx_count_files(&st.fx, "log", ".log");

        assert_int_equal(fx_put(&st.fx, "last", "x", 1), 0); /* says that those before it count */
        assert_true(fx_wait_indexed(&st.fx));
        assert_true(sh_wait_files(&st.fx, "log", ".log", before - 1));
}

/*
 * Values in all files; then those of one group are put again, small, so that a file in the middle
 * goes.
 */
static uint64_t make_gap(void)
{
        unsigned group;

        make();
        for (group = 0; group < 3; group++)
                put_group(group, BYTES);
        put_group(1, 1);
        let_go();
        assert_int_equal(missing(), 0);
        return before_gap();
}

static void expect_damage(uint64_t number)
{
        char name[32];

        snprintf(name, sizeof(name), "%016llx.log", (unsigned long long)number);
        assert_non_null(eng_drive_damage(st.fx.drive));
        assert_non_null(strstr(eng_drive_damage(st.fx.drive), name));
        assert_int_equal(eng_local_of(st.fx.local)->damage.locations, 1);
        assert_in_range(missing(), 1, GROUP);
}

static void expect_none(void)
{
        assert_null(eng_drive_damage(st.fx.drive));
        assert_int_equal(missing(), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_rot_before_a_gap(void **state)
{
        uint64_t number = make_gap();

        open_again(false);
        expect_none();
        fx_close(&st.fx);
        fx_snapshot(&st.fx, "whole");
        rot_last(number, 0xa5);
        assert_int_equal(fx_open(&st.fx), 0); /* the index has all that stood there, but for the bytes */
        assert_null(eng_drive_damage(st.fx.drive));
        open_again(false);
        expect_damage(number);
        open_again(true); /* and the index remembers it */
        assert_non_null(eng_drive_damage(st.fx.drive));
        fx_close(&st.fx);
        fx_restore(&st.fx, "whole"); /* a drive that gives zeroes for what it has lost */
        assert_int_equal(fx_open(&st.fx), 0);
        expect_none();
        fx_close(&st.fx);
        rot_last(number, 0);
        sh_remove_index(&st.fx);
        assert_int_equal(fx_open(&st.fx), 0);
        assert_int_equal(fx_commit(&st.fx, 1, st.fx.seq), 0);
        expect_damage(number);
        fx_destroy(&st.fx);
}

/*
 * The record that told the end goes with the file it stands in: the row of the index has it, over a
 * restart, and it is told again.
 */
static void test_end_is_told_again(void **state)
{
        uint64_t number = make_gap(), newest;
        unsigned round;

        for (round = 0; round < 4; round++) {
                newest = eng_local_of(st.fx.local)->log.current->number;
                open_again(true);
                put_group(4, BYTES);
                put_group(5, BYTES);
                put_group(3, BYTES); /* lives */
                put_group(4, BYTES);
                put_group(1, 1);
                let_go();
                put_group(5, BYTES);
                let_go();
        }
        assert_true(gone(newest));
        assert_true(there(number));
        assert_false(there(number + 1));
        open_again(false);
        expect_none();
        open_again(true); /* what replay knows, a batch has written down */
        open_again(true);
        assert_int_not_equal(eng_log_files_find(&eng_local_of(st.fx.local)->files, number)->end_crc, 0);
        fx_close(&st.fx);
        rot_last(number, 0xa5);
        sh_remove_index(&st.fx);
        assert_int_equal(fx_open(&st.fx), 0);
        assert_int_equal(fx_commit(&st.fx, 1, st.fx.seq), 0);
        expect_damage(number);
        fx_destroy(&st.fx);
}

/* Small values, all at once: several records in a batch. */
static void put_together(unsigned first)
{
        static struct fx_op ops[SMALL];
        static struct fx_body body;
        uint8_t name[64];
        char text[32];
        unsigned i;

        for (i = 0; i < SMALL; i++) {
                snprintf(text, sizeof(text), "s%u", first + i);
                body.len = body.inline_len = 0;
                fx_body_put(&body, name, fx_name(name, text), 50000 + first + i, 1, "small", 5);
                fx_fill_append(&ops[i], &body, 1, ++st.fx.seq, 0);
        }
        fx_start_group(&st.fx, ops, SMALL);
        for (i = 0; i < SMALL; i++) {
                assert_int_equal(fx_wait(&ops[i]), 0);
                eng_buf_unref(ops[i].op.append.body);
        }
}

/* A crash tore the last batch of a file, so the log went on in the next one, which is freed. */
static void test_tear_before_a_gap(void **state)
{
        struct batch last;
        uint64_t number;

        make();
        put_group(0, 1000);
        put_together(0);
        number = eng_local_of(st.fx.local)->log.current->number;
        fx_close(&st.fx);
        last = last_batch(number);
        assert_true(last.records > 5);
        overwrite(number, last.at, last.at + FMT_BLOCK, 0);
        sh_remove_index(&st.fx);
        assert_int_equal(fx_open(&st.fx), 0);
        assert_null(eng_drive_damage(st.fx.drive));
        st.fx.seq -= last.records;
        assert_int_equal(fx_commit(&st.fx, 1, st.fx.seq), 0);
        assert_int_equal(missing(), 0);
        put_group(1, BYTES);
        put_group(2, BYTES);
        put_group(1, 1);
        let_go();
        assert_true(gone(number + 1));
        open_again(false);
        expect_none();
        open_again(true);
        expect_none();
        fx_close(&st.fx);
        overwrite(number, last.at - FMT_BLOCK, last.at, 0xa5); /* the last whole record */
        sh_remove_index(&st.fx);
        assert_int_equal(fx_open(&st.fx), 0);
        assert_non_null(eng_drive_damage(st.fx.drive));
        fx_destroy(&st.fx);
}

/*
 * Nobody knows where a file ended if the header of the next one is damaged: that one stays, and the
 * damage is found by its records.
 */
static void test_header_of_the_next(void **state)
{
        uint64_t number = make_gap();
        char path[256];
        unsigned round;

        fx_destroy(&st.fx);
        make();
        for (round = 0; round < 3; round++)
                put_group(round, BYTES);
        fx_close(&st.fx);
        log_path(number + 1, path, sizeof(path));
        fx_flip(path, 16);
        assert_int_equal(fx_open(&st.fx), 0);
        assert_int_equal(fx_commit(&st.fx, 1, st.fx.seq), 0);
        put_group(1, 1);
        assert_int_equal(fx_put(&st.fx, "last", "x", 1), 0);
        assert_true(fx_wait_indexed(&st.fx));
        put_group(2, 1); /* files behind it go */
        let_go();
        assert_true(there(number + 1));
        open_again(false);
        expect_none();
        fx_close(&st.fx);
        rot_last(number, 0xa5);
        sh_remove_index(&st.fx);
        assert_int_equal(fx_open(&st.fx), 0);
        assert_int_equal(fx_commit(&st.fx, 1, st.fx.seq), 0);
        assert_non_null(eng_drive_damage(st.fx.drive));
        assert_in_range(missing(), 1, GROUP);
        fx_destroy(&st.fx);
}

/* ---- headers of others ----------------------------------------------------------------------- */

static void read_head(uint64_t number, struct fmt_log_header *out)
{
        char path[256];
        int fd;

        log_path(number, path, sizeof(path));
        fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, out, sizeof(*out), 0), sizeof(*out));
        close(fd);
}

static void write_head(uint64_t number, const struct fmt_log_header *head)
{
        char path[256];
        int fd;

        log_path(number, path, sizeof(path));
        fd = open(path, O_WRONLY);
        assert_true(fd >= 0);
        assert_int_equal(pwrite(fd, head, sizeof(*head), 0), sizeof(*head));
        close(fd);
}

/*
 * Its checksums are right, and it is not the one that this file began with: one of another file,
 * one that names another file before it, an old one.
 */
static struct fmt_log_header another_head(uint64_t number, unsigned way)
{
        struct fmt_log_header head, other;

        read_head(number, &head);
        read_head(number + 1, &other);
        switch (way) {
        case 0:
                return other;
        case 1:
                other.file = head.file;
                other.generation = head.generation;
                break;
        default:
                other.file = head.file;
                other.prev_file = head.prev_file;
        }
        eng_log_header_seal(&other);
        return other;
}

/*
 * What such a header says of the end of the file before is not believed: that one would pass for
 * damaged later, or its damage for its end.
 */
static void test_header_of_another_file(void **state)
{
        uint64_t number = make_gap();
        struct fmt_log_header head, other;
        unsigned way, round;

        fx_destroy(&st.fx);
        for (way = 0; way < 3; way++) {
                make();
                for (round = 0; round < 3; round++)
                        put_group(round, BYTES);
                read_head(number + 1, &head);
                other = another_head(number + 1, way);
                assert_int_not_equal(other.prev_crc, head.prev_crc);
                write_head(number + 1, &other);
                put_group(1, 1);
                assert_int_equal(fx_put(&st.fx, "last", "x", 1), 0);
                assert_true(fx_wait_indexed(&st.fx));
                put_group(2, 1); /* files behind it go */
                let_go();
                assert_true(there(number + 1));
                write_head(number + 1, &head);
                open_again(false);
                expect_none();
                fx_destroy(&st.fx);
        }
}

/* Appends of names "0", "1", ...: the first in a batch of its own, the others together. */
static void append_group(struct fx_op *ops, unsigned n)
{
        static struct fx_body body;
        uint8_t full[FMT_NAME_MAX];
        char name[16];
        unsigned i;

        for (i = 0; i < n; i++) {
                snprintf(name, sizeof(name), "torn%u", i);
                body.len = body.inline_len = 0;
                memset(bytes, (int)i, SECTOR);
                fx_body_put(&body, full, fx_name(full, name), 1000 + i, 1, bytes, SECTOR);
                fx_fill_append(&ops[i], &body, 1, st.fx.seq + 1 + i, 0);
        }
        fx_start_group(&st.fx, ops, n);
        for (i = 0; i < n; i++) {
                assert_int_equal(fx_wait(&ops[i]), 0);
                eng_buf_unref(ops[i].op.append.body);
        }
}

/*
 * A batch was torn so that its last record is whole. Nobody was told of it, and its number is given
 * again. When later damage hides where the file ended, that record is still none of the log.
 */
static void test_rot_before_a_tear(void **state)
{
        enum { TORN = 4 };
        struct fx_op ops[TORN];
        struct batch last;
        char name[16];
        unsigned i;

        make();
        append_group(ops, TORN);
        last = last_batch(1);
        assert_int_equal(last.records, TORN - 1);
        fx_snapshot(&st.fx, "crash");
        fx_close(&st.fx);
        fx_restore(&st.fx, "crash");
        overwrite(1, last.at, last.at + SECTOR, 0);
        assert_int_equal(fx_open(&st.fx), 0);
        assert_null(eng_drive_damage(st.fx.drive));
        st.fx.seq++; /* the first of them is there */
        for (i = 0; i < TORN; i++)
                put(i, 1);
        assert_true(there(2));

        fx_close(&st.fx);
        overwrite(1, last.at - FMT_BLOCK, last.at, 0xff);
        sh_remove_index(&st.fx);
        assert_int_equal(fx_open(&st.fx), 0);
        assert_int_equal(fx_commit(&st.fx, 1, st.fx.seq), 0);
        assert_int_equal(eng_local_of(st.fx.local)->damage.locations, 1);
        assert_int_equal(missing(), 0);
        for (i = 0; i < TORN; i++) {
                snprintf(name, sizeof(name), "torn%u", i);
                assert_int_equal(fx_lookup_rv(&st.fx, name), -ENOENT);
        }
        fx_destroy(&st.fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rot_before_a_gap),
                cmocka_unit_test(test_end_is_told_again),
                cmocka_unit_test(test_tear_before_a_gap),
                cmocka_unit_test(test_header_of_the_next),
                cmocka_unit_test(test_header_of_another_file),
                cmocka_unit_test(test_rot_before_a_tear),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
