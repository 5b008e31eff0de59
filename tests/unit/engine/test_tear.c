/*
 * test_tear.c - the last write to the log torn in every way: any of its sectors may be missing
 * after a crash, in the middle of a file or at the beginning of a new one. What was acknowledged
 * before it is there, of the torn batch a beginning at most, and nothing comes back later.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/drive_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

#define SECTOR 512u
#define GROUP  24u
#define TEARS  60u

static unsigned seed;

static void log_path(const struct fx *fx, unsigned number, char *out, size_t cap)
{
        snprintf(out, cap, "%s/log/%016x.log", fx->path, number);
}

static void drop_index(const struct fx *fx)
{
        char command[256];

        snprintf(command, sizeof(command), "rm -rf '%s/index'", fx->path);
        assert_int_equal(system(command), 0);
}

/*
 * Zeroes some of the sectors of [from, to). Returns the lowest one that is gone, UINT64_MAX: none.
 */
static uint64_t tear(const char *path, uint64_t from, uint64_t to)
{
        static const uint8_t zeroes[SECTOR];
        unsigned share = 1 + (unsigned)rand_r(&seed) % 8;
        int fd = open(path, O_RDWR);
        uint64_t at, first = UINT64_MAX;

        assert_true(fd >= 0);
        for (at = from; at < to; at += SECTOR) {
                if ((unsigned)rand_r(&seed) % 8 >= share)
                        continue;
                assert_int_equal(pwrite(fd, zeroes, SECTOR, (off_t)at), SECTOR);
                if (first == UINT64_MAX)
                        first = at;
        }
        close(fd);
        return first;
}

struct found {
        uint64_t position, end, batch;
};

/* All records of a log file. */
static unsigned list_records(const char *path, struct found *out, unsigned max)
{
        int fd = open(path, O_RDONLY);
        uint64_t at, size = fx_file_size(path);
        struct fmt_record rec;
        unsigned n = 0;

        assert_true(fd >= 0);
        for (at = 4096; at + sizeof(rec) <= size && n < max; at += FMT_RECORD_ALIGN) {
                assert_int_equal(pread(fd, &rec, sizeof(rec), (off_t)at), sizeof(rec));
                if (rec.magic != FMT_RECORD_MAGIC)
                        continue;
                out[n].position = rec.position;
                out[n].end = rec.position + sizeof(rec) + rec.body_len;
                out[n++].batch = rec.batch;
        }
        close(fd);
        return n;
}

static void key_of(unsigned i, char *out, size_t cap)
{
        snprintf(out, cap, "k%u", i);
}

/* Appends puts k1 .. of some length each, all at once. */
static void append_group(struct fx *fx, uint64_t first_seq, unsigned n, size_t len)
{
        static struct fx_op ops[GROUP];
        static struct fx_body body;
        static uint8_t bytes[ENG_INLINE_MAX];
        uint8_t name[64];
        char key[32];
        unsigned i;
        size_t name_len;

        memset(bytes, 'x', len);
        for (i = 0; i < n; i++) {
                key_of((unsigned)first_seq + i, key, sizeof(key));
                name_len = fx_name(name, key);
                body.len = body.inline_len = 0;
                fx_body_put(&body, name, name_len, first_seq + i, 1, bytes, len);
                fx_fill_append(&ops[i], &body, 1, first_seq + i, 0);
        }
        fx_start_group(fx, ops, n);
        for (i = 0; i < n; i++) {
                assert_int_equal(fx_wait(&ops[i]), 0);
                eng_buf_unref(ops[i].op.append.body);
        }
}

static uint64_t newest_seq(struct fx *fx)
{
        struct fx_op op = {.op = {.kind = ENG_OP_TAIL}};
        const struct eng_memtable_entry *entry;
        uint64_t seq = 0;
        uint32_t i;

        assert_int_equal(fx_run(fx, &op), 0);
        for (i = 0; i < op.op.tail.count; i++) {
                entry = (const struct eng_memtable_entry *)op.op.tail.entries->data + i;
                if (entry->seq > seq)
                        seq = entry->seq;
        }
        eng_buf_unref(op.op.tail.entries);
        return seq;
}

/* Exactly the puts 1..n are there, and those from other on. */
static void expect_puts(struct fx *fx, unsigned n, unsigned all)
{
        char key[32];
        unsigned i;

        for (i = 1; i <= all; i++) {
                key_of(i, key, sizeof(key));
                assert_int_equal(fx_lookup_rv(fx, key), i <= n ? 0 : -ENOENT);
        }
}

/*
 * Opens after a tear: n puts survived. Appends another group in place of the lost ones and sees it
 * again after one more start.
 */
static void live_on(struct fx *fx, unsigned n, unsigned all)
{
        if (fx_open(fx) != 0)
                fail_msg("%s", fx->error.text);
        assert_int_equal(newest_seq(fx), n);
        if (n > 0)
                assert_int_equal(fx_commit(fx, 1, n), 0);
        expect_puts(fx, n, all);
        append_group(fx, n + 1, 3, 100);
        fx_close(fx);
        if ((unsigned)rand_r(&seed) % 2)
                drop_index(fx);
        if (fx_open(fx) != 0)
                fail_msg("%s", fx->error.text);
        assert_int_equal(newest_seq(fx), n + 3);
        assert_int_equal(fx_commit(fx, 1, n + 3), 0);
        expect_puts(fx, n + 3, all > n + 3 ? all : n + 3);
        fx_close(fx);
}

static void test_tears_in_a_file(void **state)
{
        struct found found[GROUP + 8];
        unsigned n, i, first, round, survivors;
        uint64_t end, gone;
        char path[256];
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        append_group(&fx, 1, GROUP, 700);
        fx_close(&fx);
        drop_index(&fx);
        fx_snapshot(&fx, "whole");
        log_path(&fx, 1, path, sizeof(path));
        n = list_records(path, found, GROUP + 8);
        assert_int_equal(n, GROUP + 1); /* and the EPOCH record */
        for (first = n - 1; found[first - 1].batch == found[n - 1].batch; first--)
                ;
        assert_int_equal(first, 2); /* all but the EPOCH record and the first of the group */
        end = (found[n - 1].end + 4095) / 4096 * 4096;
        for (round = 0; round < TEARS; round++) {
                fx_restore(&fx, "whole");
                gone = tear(path, found[first].batch, end);
                for (i = first, survivors = first - 1; i < n && found[i].end <= gone; i++)
                        survivors++;
                if (gone >= found[n - 1].end)
                        survivors = n - 1;
                live_on(&fx, survivors, GROUP);
        }
        fx_destroy(&fx);
}

static void test_tears_of_a_new_file(void **state)
{
        struct found found[4];
        unsigned round, puts = 0;
        uint64_t end, gone;
        char path[256];
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        log_path(&fx, 2, path, sizeof(path));
        do
                append_group(&fx, ++puts, 1, 50000);
        while (access(path, F_OK) != 0 || list_records(path, found, 4) == 0);
        fx_close(&fx);
        drop_index(&fx);
        fx_snapshot(&fx, "whole");
        assert_int_equal(list_records(path, found, 4), 1);
        end = (found[0].end + 4095) / 4096 * 4096;
        for (round = 0; round < TEARS; round++) {
                fx_restore(&fx, "whole");
                gone = tear(path, 0, round % 2 == 0 ? end : 8192);
                /*
                 * bytes of the header block behind its checksum do not matter, nor do those behind
                 * the record
                 */
                if (gone >= SECTOR && gone < 4096)
                        gone = tear(path, 4096, end);
                live_on(&fx, gone >= found[0].end ? puts : puts - 1, puts);
        }
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tears_in_a_file),
                cmocka_unit_test(test_tears_of_a_new_file),
        };
        const char *text = getenv("SEED");

        seed = text != NULL ? (unsigned)atoi(text) : (unsigned)time(NULL);
        print_message("SEED=%u\n", seed);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
