/*
 * test_replay.c - what a drive finds after a crash, a tear, damage, or the loss of its index.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ec.h"
#include "engine/drive/identity.h"
#include "engine/drive/index.h"
#include "engine/drive/rec.h"
#include "tests/lib/drive_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define PUTS      12u
#define FIRST_PUT 8192u /* header block, EPOCH record's block, then one block per put */
#define BATCH     4096u

static void drop_index(const struct fx *fx)
{
        char command[256];

        snprintf(command, sizeof(command), "rm -rf '%s/index'", fx->path);
        assert_int_equal(system(command), 0);
}

static void log_path(const struct fx *fx, unsigned number, char *out, size_t cap)
{
        snprintf(out, cap, "%s/log/%016x.log", fx->path, number);
}

static void put_n(struct fx *fx, unsigned i)
{
        char name[32], bytes[64];

        snprintf(name, sizeof(name), "key-%03u", i);
        snprintf(bytes, sizeof(bytes), "value of %u", i);
        assert_int_equal(fx_put(fx, name, bytes, strlen(bytes)), 0);
}

static bool has_n(struct fx *fx, unsigned i)
{
        char name[32], bytes[64];

        snprintf(name, sizeof(name), "key-%03u", i);
        snprintf(bytes, sizeof(bytes), "value of %u", i);
        return fx_has(fx, name, bytes, strlen(bytes));
}

static int lookup_n(struct fx *fx, unsigned i)
{
        char name[32];

        snprintf(name, sizeof(name), "key-%03u", i);
        return fx_lookup_rv(fx, name);
}

/* Highest seq and pending records of pg 1, as TAIL tells. */
static uint64_t tail_seq(struct fx *fx, unsigned *pending)
{
        struct fx_op op = {.op = {.kind = ENG_OP_TAIL}};
        const struct eng_memtable_entry *entry;
        uint64_t seq = 0;
        uint32_t i;

        *pending = 0;
        assert_int_equal(fx_run(fx, &op), 0);
        for (i = 0; i < op.op.tail.count; i++) {
                entry = (const struct eng_memtable_entry *)op.op.tail.entries->data + i;
                if (entry->pg != 1)
                        continue;
                *pending += entry->pending;
                if (!entry->pending)
                        seq = entry->seq;
        }
        eng_buf_unref(op.op.tail.entries);
        return seq;
}

/* A drive with PUTS puts in its log and no index; closed. */
static void make_puts(struct fx *fx)
{
        unsigned i;

        fx_make(fx, 1);
        assert_int_equal(fx_open(fx), 0);
        for (i = 0; i < PUTS; i++)
                put_n(fx, i);
        fx_close(fx);
        drop_index(fx);
        fx_snapshot(fx, "whole");
}

/* Opens and expects the first n puts to have survived, the last of them pending. */
static void expect_survivors(struct fx *fx, unsigned n)
{
        unsigned i, pending;

        assert_int_equal(fx_open(fx), 0);
        assert_int_equal(tail_seq(fx, &pending), n);
        assert_int_equal(pending, n > 0 ? 1 : 0);
        assert_int_equal(fx_commit(fx, 1, n), 0);
        for (i = 0; i < n; i++)
                assert_true(has_n(fx, i));
        for (; i < PUTS; i++)
                assert_int_equal(lookup_n(fx, i), -ENOENT);
}

static void test_index_deleted(void **state)
{
        struct fx fx;

        make_puts(&fx);
        expect_survivors(&fx, PUTS);
        fx_destroy(&fx);
}

static void test_cut_anywhere(void **state)
{
        static const unsigned within[] = {0, 1, 60, 127, 128, 200, 300, 4000, 4095};
        char path[256];
        struct fx fx;
        unsigned i, j;

        make_puts(&fx);
        log_path(&fx, 1, path, sizeof(path));
        for (i = 0; i < PUTS; i += 3) {
                for (j = 0; j < sizeof(within) / sizeof(within[0]); j++) {
                        uint64_t cut = FIRST_PUT + i * BATCH + within[j];

                        fx_restore(&fx, "whole");
                        assert_int_equal(truncate(path, (off_t)cut), 0);
                        /* a record is 128 + 8 + 16 + 128 + 10 or 11 bytes: whole from 300 on */
                        expect_survivors(&fx, i + (within[j] >= 300));
                        fx_close(&fx);
                }
        }
        fx_destroy(&fx);
}

/* Opens and expects all puts but one, and that the drive says so. */
static void expect_all_but(struct fx *fx, unsigned lost, const char *where)
{
        unsigned i, pending;

        assert_int_equal(fx_open(fx), 0);
        assert_non_null(eng_drive_damage(fx->drive));
        assert_non_null(strstr(eng_drive_damage(fx->drive), where));
        tail_seq(fx, &pending);
        if (pending > 0)
                assert_int_equal(fx_commit(fx, 1, PUTS), 0);
        for (i = 0; i < PUTS; i++)
                if (i != lost)
                        assert_true(has_n(fx, i));
        if (lost < PUTS)
                assert_int_equal(lookup_n(fx, lost), -ENOENT);
}

static void test_flip_tells_damage_from_tear(void **state)
{
        static const unsigned within[] = {0, 5, 40, 64, 127, 130, 280};
        char path[256], where[80];
        struct fx fx;
        unsigned i, j;

        make_puts(&fx);
        log_path(&fx, 1, path, sizeof(path));
        for (i = 0; i < PUTS; i += i + 4 < PUTS ? 4 : 1) {
                for (j = 0; j < sizeof(within) / sizeof(within[0]); j++) {
                        fx_restore(&fx, "whole");
                        fx_flip(path, FIRST_PUT + i * BATCH + within[j]);
                        if (i == PUTS - 1) {
                                expect_survivors(&fx, PUTS - 1);
                                fx_close(&fx);
                                continue;
                        }
                        /* The chain ends behind the record before, which is 320 bytes long. */
                        snprintf(where, sizeof(where), "in 1 place, first in 0000000000000001.log at %u;",
                                 i == 0 ? BATCH + 192 : FIRST_PUT + (i - 1) * BATCH + 320);
                        expect_all_but(&fx, i, where);
                        /* A record whose header can be read says whose it was. */
                        assert_true((strstr(eng_drive_damage(fx.drive), "groups 1 held") != NULL) == (within[j] >= 128));
                        fx_close(&fx);
                        /* The index holds what comes behind by now, and remembers. */
                        expect_all_but(&fx, i, where);
                        fx_close(&fx);
                }
        }
        fx_destroy(&fx);
}

static void test_flip_in_padding_is_harmless(void **state)
{
        char path[256];
        struct fx fx;

        make_puts(&fx);
        log_path(&fx, 1, path, sizeof(path));
        fx_flip(path, FIRST_PUT + 2 * BATCH + 2000);
        expect_survivors(&fx, PUTS);
        fx_destroy(&fx);
}

/* Each damage to the header of the only file, and of the drive's id in it. */
static void test_first_header_damaged(void **state)
{
        static const unsigned offsets[] = {0, 4, 16, 32, 48, 56};
        char path[256];
        struct fx fx;
        unsigned i;

        make_puts(&fx);
        log_path(&fx, 1, path, sizeof(path));
        for (i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
                fx_restore(&fx, "whole");
                fx_flip(path, offsets[i]);
                expect_survivors(&fx, PUTS); /* the records chain on: nothing is lost */
                assert_null(eng_drive_damage(fx.drive));
                put_n(&fx, PUTS); /* and so does what comes behind */
                fx_close(&fx);
                drop_index(&fx);
                assert_int_equal(fx_open(&fx), 0);
                assert_null(eng_drive_damage(fx.drive));
                assert_true(has_n(&fx, 0) && has_n(&fx, PUTS - 1));
                fx_close(&fx);
                /* With the first record, too, nobody knows what was there. */
                drop_index(&fx);
                fx_flip(path, BATCH + 40);
                assert_int_equal(fx_open(&fx), 0);
                assert_non_null(eng_drive_damage(fx.drive));
                fx_close(&fx);
        }
        fx_destroy(&fx);
}

/* A later epoch has it as a member: it has been compared. */
static void drive_joins(struct fx *fx)
{
        struct fmt_epoch epoch = {.number = FX_EPOCH + 1, .id = {2}, .parent = {1}, .pg_count = 16, .k = 1, .drives = 1};
        struct fmt_epoch_drive drive = {.in = FMT_EPOCH_IN};
        struct fx_body body = {.len = sizeof(epoch) + sizeof(drive)};
        struct fx_op op;

        memcpy(drive.drive_id, fx->options.identity.drive_id, FMT_ID);
        memcpy(body.bytes, &epoch, sizeof(epoch));
        memcpy(body.bytes + sizeof(epoch), &drive, sizeof(drive));
        fx_fill_append(&op, &body, 0, 0, 0);
        op.op.append.type = FMT_RECORD_EPOCH;
        op.op.epoch = epoch.number;
        assert_int_equal(fx_run(fx, &op), 0);
        eng_buf_unref(op.op.append.body);
}

/* Zeroes a file from an offset on, as a cache does that lost what it had acknowledged. */
static void lose_from(const char *path, uint64_t offset)
{
        uint64_t size = fx_file_size(path);

        assert_int_equal(truncate(path, (off_t)offset), 0);
        assert_int_equal(truncate(path, (off_t)size), 0);
}

/*
 * The index covers more than the log has: the drive says that it lost writes, and opens with what
 * the log still has. A log that reaches as far as the index covers is as good as ever, whether or
 * not records wait for COMMIT at its end.
 */
static void test_log_ends_before_the_index(void **state)
{
        char path[256];
        unsigned i, left, pending;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < PUTS; i++)
                put_n(&fx, i);
        fx_close(&fx);
        fx_snapshot(&fx, "whole");
        log_path(&fx, 1, path, sizeof(path));
        for (left = 0; left < PUTS; left++) {
                fx_restore(&fx, "whole");
                lose_from(path, FIRST_PUT + left * BATCH + (left % 2 == 0 ? 0 : 64));
                assert_int_equal(fx_open(&fx), 0);
                assert_true(eng_drive_log_lost(fx.local));
                assert_int_equal(tail_seq(&fx, &pending), left);
                assert_int_equal(fx_commit(&fx, 1, left), 0);
                for (i = 0; i < PUTS; i++)
                        assert_int_equal(lookup_n(&fx, i), i < left ? 0 : -ENOENT);
                fx_close(&fx);
                assert_int_equal(fx_open(&fx), 0);
                assert_true(eng_drive_log_lost(fx.local)); /* till it has been compared */
                drive_joins(&fx);
                fx_close(&fx);
                assert_int_equal(fx_open(&fx), 0);
                assert_false(eng_drive_log_lost(fx.local));
                assert_null(eng_drive_damage(fx.local));
                fx_close(&fx);
        }
        fx_restore(&fx, "whole");
        assert_int_equal(fx_open(&fx), 0);
        assert_false(eng_drive_log_lost(fx.local));
        for (i = 0; i < PUTS; i++)
                assert_true(has_n(&fx, i));
        fx_destroy(&fx);
}

/*
 * A record that waits for COMMIT keeps what the index covers in front of it, while names behind it
 * get there. Lost of the log is what it had behind that record: the index alone knew it, and must
 * not be relied on, or whoever loses that index later misses names without a word.
 */
static void test_log_ends_before_the_index_behind_what_waits(void **state)
{
        static const char *const key = "waits";
        struct fx_body body = {.len = 0};
        uint8_t name[64];
        char path[256];
        struct fx fx;
        unsigned left, i, open;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fx_body_put(&body, name, fx_name(name, key), 1000, 1, key, strlen(key));
        assert_int_equal(fx_append(&fx, &body, 2, 1, 0), 0);
        for (i = 0; i < PUTS; i++)
                put_n(&fx, i);
        fx_close(&fx);
        fx_snapshot(&fx, "whole");
        log_path(&fx, 1, path, sizeof(path));
        for (left = 0; left <= PUTS; left++) {
                fx_restore(&fx, "whole");
                lose_from(path, FIRST_PUT + BATCH + left * BATCH);
                for (open = 0; open < 3; open++) { /* nor is it forgotten by a restart, or when the new index goes */
                        assert_int_equal(fx_open(&fx), 0);
                        assert_int_equal(eng_drive_log_lost(fx.local), left < PUTS);
                        assert_int_equal(eng_drive_damage(fx.local) != NULL, left < PUTS);
                        assert_int_equal(fx_commit(&fx, 1, left), 0);
                        for (i = 0; i < PUTS; i++)
                                assert_int_equal(lookup_n(&fx, i), i < left ? 0 : -ENOENT);
                        fx_close(&fx);
                        if (open == 1)
                                drop_index(&fx);
                }
        }
        fx_destroy(&fx);
}

/* The record that begins here is of a type that only a newer version knows. */
static void make_unknown(const char *path, uint64_t offset)
{
        struct fmt_record rec;
        int fd = open(path, O_RDWR);

        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &rec, sizeof(rec), (off_t)offset), sizeof(rec));
        assert_int_equal(rec.magic, FMT_RECORD_MAGIC);
        rec.type = 99;
        eng_rec_seal(&rec);
        assert_int_equal(pwrite(fd, &rec, sizeof(rec), (off_t)offset), sizeof(rec));
        close(fd);
}

/*
 * An opening that fails had written to the index before: the index goes on knowing how far the log
 * reached when it was closed. So the next opening still finds that the log has lost its end.
 */
static void test_log_ends_before_the_index_of_an_opening_that_failed(void **state)
{
        static const char *const key = "waits";
        const uint64_t last = FIRST_PUT + PUTS * BATCH; /* the first put stands behind the record that waits */
        struct fx_body body = {.len = 0};
        char path[256], command[512];
        uint8_t name[64];
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fx_body_put(&body, name, fx_name(name, key), 1000, 1, key, strlen(key));
        assert_int_equal(fx_append(&fx, &body, 2, 1, 0), 0);
        for (i = 0; i < PUTS; i++)
                put_n(&fx, i);
        fx_close(&fx);
        snprintf(command, sizeof(command), "cp '%s/index/data.mdb' '%s/before'", fx.path, fx.root);
        assert_int_equal(system(command), 0);
        log_path(&fx, 1, path, sizeof(path));
        make_unknown(path, last);
        fx.options.memtable_bytes = 1; /* each record that counts goes into the index before the next is read */
        assert_int_equal(fx_open(&fx), -EPROTONOSUPPORT);
        snprintf(command, sizeof(command), "cmp -s '%s/index/data.mdb' '%s/before'", fx.path, fx.root);
        assert_int_not_equal(system(command), 0);
        fx.options.memtable_bytes = 0;
        lose_from(path, last);
        assert_int_equal(fx_open(&fx), 0);
        assert_true(eng_drive_log_lost(fx.local));
        assert_int_equal(fx_commit(&fx, 1, PUTS - 1), 0);
        for (i = 0; i < PUTS; i++)
                assert_int_equal(lookup_n(&fx, i), i < PUTS - 1 ? 0 : -ENOENT);
        fx_destroy(&fx);
}

/* The file itself is gone, and it was the last. */
static void test_last_file_lost(void **state)
{
        char path[256];
        struct fx fx;
        unsigned i;

        fx_make(&fx, 1);
        fx.options.log_file_bytes = 64 << 10;
        fx.options.short_logs = true;
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 3 * PUTS; i++)
                put_n(&fx, i);
        fx_close(&fx);
        for (i = 1; log_path(&fx, i + 1, path, sizeof(path)), access(path, F_OK) == 0; i++)
                ;
        for (; log_path(&fx, i, path, sizeof(path)), i > 1; i--)
                assert_int_equal(unlink(path), 0);
        assert_int_equal(fx_open(&fx), 0);
        assert_true(eng_drive_log_lost(fx.local));
        assert_true(has_n(&fx, 0));
        assert_int_equal(lookup_n(&fx, 3 * PUTS - 1), -ENOENT);
        fx_destroy(&fx);
}

static void start_many(struct fx *fx, struct fx_op *ops, unsigned n, uint64_t first_seq)
{
        static struct fx_body body;
        uint8_t name[64];
        char key[32], bytes[32];
        unsigned i;
        size_t len;

        for (i = 0; i < n; i++) {
                snprintf(key, sizeof(key), "group-%02u", i);
                snprintf(bytes, sizeof(bytes), "bytes-%02u", i);
                len = fx_name(name, key);
                body.len = body.inline_len = 0;
                fx_body_put(&body, name, len, first_seq + i, 1, bytes, strlen(bytes));
                fx_fill_append(&ops[i], &body, 1, first_seq + i, first_seq - 1);
        }
        fx_start_group(fx, ops, n);
        for (i = 0; i < n; i++) {
                assert_int_equal(fx_wait(&ops[i]), 0);
                eng_buf_unref(ops[i].op.append.body);
        }
}

struct found {
        uint64_t position, batch;
};

/* Positions of all records in a log file. */
static unsigned list_records(const char *path, struct found *out, unsigned max)
{
        int fd = open(path, O_RDONLY);
        uint64_t at, size = fx_file_size(path);
        struct fmt_record rec;
        unsigned n = 0;

        assert_true(fd >= 0);
        for (at = BATCH; at + sizeof(rec) <= size && n < max; at += FMT_RECORD_ALIGN) {
                assert_int_equal(pread(fd, &rec, sizeof(rec), (off_t)at), sizeof(rec));
                if (rec.magic != FMT_RECORD_MAGIC)
                        continue;
                out[n].position = rec.position;
                out[n++].batch = rec.batch;
        }
        close(fd);
        return n;
}

/*
 * A torn batch leaves whole records behind the torn one. They were never acknowledged as part of
 * the chain, and must not come back after new records were appended, nor be taken for damage.
 */
static void test_torn_batch_never_comes_back(void **state)
{
        struct fx_op ops[24];
        struct found found[64];
        char path[256];
        unsigned n, i, last, pending, round;
        struct fx fx;
        uint64_t kept;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        put_n(&fx, 0);
        start_many(&fx, ops, 24, 2);
        fx_close(&fx);
        drop_index(&fx);
        log_path(&fx, 1, path, sizeof(path));
        n = list_records(path, found, 64);
        assert_int_equal(n, 26);
        last = n - 1;
        while (last > 0 && found[last - 1].batch == found[n - 1].batch)
                last--;
        assert_int_equal(last, 3); /* all but the EPOCH record, the put, and the first of the group */
        fx_flip(path, found[last + 1].position + 20);
        kept = last; /* seq of found[i] is i: found[0] is the EPOCH record */
        for (round = 0; round < 3; round++) {
                assert_int_equal(fx_open(&fx), 0);
                assert_int_equal(tail_seq(&fx, &pending), kept + round);
                fx.seq = kept + round;
                put_n(&fx, 100 + round);
                for (i = 0; i <= round; i++)
                        assert_true(has_n(&fx, 100 + i));
                for (i = 0; i < 24; i++) {
                        char key[32];

                        snprintf(key, sizeof(key), "group-%02u", i);
                        assert_int_equal(fx_lookup_rv(&fx, key), i + 2 <= kept ? 0 : -ENOENT);
                }
                fx_close(&fx);
                drop_index(&fx);
        }
        fx_destroy(&fx);
}

/*
 * A crash with the loops running: the folder as it is at some moment, reopened with whatever index
 * there was.
 */
static void test_crash_keeps_what_was_acknowledged(void **state)
{
        unsigned i, moment, pending;
        char name[16];
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        for (moment = 0; moment < 4; moment++) {
                for (i = 0; i < 50; i++)
                        put_n(&fx, moment * 50 + i);
                if (moment == 1)
                        assert_true(fx_wait_indexed(&fx));
                snprintf(name, sizeof(name), "crash-%u", moment);
                fx_snapshot(&fx, name);
        }
        fx_close(&fx);
        for (moment = 0; moment < 4; moment++) {
                snprintf(name, sizeof(name), "crash-%u", moment);
                fx_restore(&fx, name);
                assert_int_equal(fx_open(&fx), 0);
                assert_int_equal(tail_seq(&fx, &pending), (moment + 1) * 50);
                assert_int_equal(fx_commit(&fx, 1, (moment + 1) * 50), 0);
                for (i = 0; i < (moment + 1) * 50; i++)
                        assert_true(has_n(&fx, i));
                fx_close(&fx);
        }
        fx_destroy(&fx);
}

static void test_pending_and_record(void **state)
{
        static struct fx_body body;
        struct fx_op op;
        unsigned pending;
        uint8_t name[64];
        struct fx fx;
        size_t len;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        len = fx_name(name, "waits");
        body.len = body.inline_len = 0;
        fx_body_put(&body, name, len, 77, 1, "not yet", 7);
        assert_int_equal(fx_append(&fx, &body, 1, 1, 0), 0);
        assert_int_equal(fx_lookup_rv(&fx, "waits"), -ENOENT);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(tail_seq(&fx, &pending), 1);
        assert_int_equal(pending, 1);
        assert_int_equal(fx_lookup_rv(&fx, "waits"), -ENOENT);

        op = (struct fx_op){.op = {.kind = ENG_OP_RECORD, .append = {.pg = 1, .seq = 1}}};
        assert_int_equal(fx_run(&fx, &op), 0);
        assert_int_equal(op.op.append.body->len, body.len);
        assert_memory_equal(op.op.append.body->data, body.bytes, body.len);
        assert_int_equal(op.op.append.inline_len, 7);
        assert_int_equal(op.op.append.record_epoch, FX_EPOCH);
        eng_buf_unref(op.op.append.body);
        op = (struct fx_op){.op = {.kind = ENG_OP_RECORD, .append = {.pg = 1, .seq = 2}}};
        assert_int_equal(fx_run(&fx, &op), -ENOENT);

        assert_int_equal(fx_commit(&fx, 1, 1), 0);
        assert_true(fx_has(&fx, "waits", "not yet", 7));
        op = (struct fx_op){.op = {.kind = ENG_OP_RECORD, .append = {.pg = 1, .seq = 1}}};
        assert_int_equal(fx_run(&fx, &op), -ENOENT);
        fx_destroy(&fx);
}

/* Records count by seq, wherever they stand in the log; a repeated one counts once. */
static void test_order_is_by_seq(void **state)
{
        static const uint64_t seqs[] = {3, 1, 2, 2, 5, 4, 4};
        static struct fx_body body;
        char bytes[16];
        uint8_t name[64];
        unsigned i, round;
        struct fx fx;
        size_t len;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        len = fx_name(name, "one");
        for (i = 0; i < 7; i++) {
                snprintf(bytes, sizeof(bytes), "seq %llu", (unsigned long long)seqs[i]);
                body.len = body.inline_len = 0;
                fx_body_put(&body, name, len, seqs[i], 1, bytes, 5);
                assert_int_equal(fx_append(&fx, &body, 1, seqs[i], 0), 0);
        }
        assert_int_equal(fx_commit(&fx, 1, 2), 0);
        assert_true(fx_has(&fx, "one", "seq 2", 5));
        assert_int_equal(fx_commit(&fx, 1, 5), 0);
        assert_true(fx_has(&fx, "one", "seq 5", 5));
        for (round = 0; round < 2; round++) {
                fx_close(&fx);
                if (round == 1)
                        drop_index(&fx);
                assert_int_equal(fx_open(&fx), 0);
                assert_int_equal(fx_commit(&fx, 1, 5), 0);
                assert_true(fx_has(&fx, "one", "seq 5", 5));
        }
        /* a late copy of an old record hides nothing */
        body.len = body.inline_len = 0;
        fx_body_put(&body, name, len, 3, 1, "seq 3", 5);
        assert_int_equal(fx_append(&fx, &body, 1, 3, 0), 0);
        assert_int_equal(fx_commit(&fx, 1, 5), 0);
        assert_true(fx_has(&fx, "one", "seq 5", 5));
        fx_destroy(&fx);
}

static void fill_files(struct fx *fx, unsigned n)
{
        static uint8_t big[100 << 10];
        char name[32];
        unsigned i;

        for (i = 0; i < n; i++) {
                memset(big, (int)('a' + i % 26), sizeof(big));
                snprintf(name, sizeof(name), "big-%03u", i);
                assert_int_equal(fx_put(fx, name, big, sizeof(big)), 0);
        }
}

static bool has_big(struct fx *fx, unsigned i)
{
        static uint8_t big[100 << 10];
        char name[32];

        memset(big, (int)('a' + i % 26), sizeof(big));
        snprintf(name, sizeof(name), "big-%03u", i);
        return fx_has(fx, name, big, sizeof(big));
}

/*
 * Opens without an index: that many are there, within bounds, and the drive says what is damaged.
 */
static void expect_bigs(struct fx *fx, const char *where, unsigned least, unsigned most)
{
        unsigned i, found = 0;

        drop_index(fx);
        assert_int_equal(fx_open(fx), 0);
        assert_int_equal(eng_drive_damage(fx->drive) == NULL, where == NULL);
        if (where != NULL)
                assert_non_null(strstr(eng_drive_damage(fx->drive), where));
        fx_commit(fx, 1, 150);
        for (i = 0; i < 150; i++)
                found += has_big(fx, i);
        assert_in_range(found, least, most);
        fx_close(fx);
}

static void test_rollover_and_missing_file(void **state)
{
        char path[256], away[256];
        unsigned i, files;
        struct fx fx;

        fx_make(&fx, 1);
        fx.options.cache_bytes = 1; /* everything is read from the log */
        assert_int_equal(fx_open(&fx), 0);
        fill_files(&fx, 150);
        for (i = 0; i < 150; i++)
                assert_true(has_big(&fx, i));
        fx_close(&fx);
        files = fx_count_files(&fx, "log", ".log");
        assert_true(files >= 4);
        drop_index(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_commit(&fx, 1, 150), 0);
        for (i = 0; i < 150; i++)
                assert_true(has_big(&fx, i));
        fx_close(&fx);
        drop_index(&fx);
        log_path(&fx, 2, path, sizeof(path));
        snprintf(away, sizeof(away), "%s/away", fx.root);
        assert_int_equal(rename(path, away), 0);
        expect_bigs(&fx, "0000000000000002.log", 90, 149);
        assert_int_equal(rename(away, path), 0);
        /* the header of a file in the middle */
        fx_flip(path, 16);
        expect_bigs(&fx, NULL, 150, 150);
        fx_flip(path, 16);
        /* the end of a file that another one follows */
        log_path(&fx, 1, path, sizeof(path));
        assert_int_equal(truncate(path, (off_t)fx_file_size(path) / 2), 0);
        expect_bigs(&fx, "0000000000000001.log", 90, 149);
        fx_destroy(&fx);
}

static bool wait_gone(const char *path)
{
        WAIT_UNTIL(access(path, F_OK) != 0);
        return access(path, F_OK) != 0;
}

/*
 * Files in which nothing lives are freed, also in the middle; what is left can be read back from
 * the log alone.
 */
static void test_freeing(void **state)
{
        char name[32], path[256];
        struct fmt_epoch epoch;
        unsigned i;
        struct fx fx;
        size_t len;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        put_n(&fx, 0); /* keeps the first file */
        fill_files(&fx, 200);
        fill_files(&fx, 80); /* supersedes the first 80 */
        assert_true(fx_wait_indexed(&fx));
        log_path(&fx, 2, path, sizeof(path));
        assert_true(wait_gone(path)); /* in the middle */
        fx_close(&fx);
        drop_index(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        assert_true(has_n(&fx, 0));
        for (i = 0; i < 200; i++)
                assert_true(has_big(&fx, i));
        for (i = 0; i < 200; i++) {
                snprintf(name, sizeof(name), "big-%03u", i);
                assert_int_equal(fx_delete(&fx, name), 0);
        }
        assert_int_equal(fx_delete(&fx, "key-000"), 0);
        put_n(&fx, 1);
        assert_true(fx_wait_indexed(&fx));
        log_path(&fx, 1, path, sizeof(path));
        assert_true(wait_gone(path)); /* its EPOCH record was copied */
        log_path(&fx, 7, path, sizeof(path));
        assert_true(wait_gone(path));
        fx_close(&fx);
        drop_index(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        assert_int_equal(eng_drive_epoch(fx.local, &epoch, sizeof(epoch), &len, NULL), 0);
        assert_int_equal(epoch.number, FX_EPOCH);
        assert_true(has_n(&fx, 1));
        assert_int_equal(lookup_n(&fx, 0), -ENOENT);
        for (i = 0; i < 200; i++) {
                snprintf(name, sizeof(name), "big-%03u", i);
                assert_int_equal(fx_lookup_rv(&fx, name), -ENOENT);
        }
        fx_destroy(&fx);
}

/*
 * Files were freed behind a record that waits again, since the index was built anew: that index
 * covers the log up to there, and the gap is still no damage.
 */
static void test_gap_behind_what_waits(void **state)
{
        static struct fx_body body;
        uint8_t early[64];
        size_t len = fx_name(early, "early");
        char path[256];
        unsigned i;
        struct fx fx;

        fx_make(&fx, 1);
        fx.options.reclaim_rate = ENG_RECLAIM_OFF;
        assert_int_equal(fx_open(&fx), 0);
        fx_body_put(&body, early, len, 9000, 2, "x", 1);
        assert_int_equal(fx_append(&fx, &body, 2, 1, 0), 0);
        assert_int_equal(fx_commit(&fx, 2, 1), 0);
        fill_files(&fx, 200);
        fill_files(&fx, 80); /* supersedes the first 80 */
        assert_true(fx_wait_indexed(&fx));
        log_path(&fx, 2, path, sizeof(path));
        assert_true(wait_gone(path));
        fx_close(&fx);
        drop_index(&fx);
        for (i = 0; i < 2; i++) {
                assert_int_equal(fx_open(&fx), 0);
                assert_int_equal(fx_lookup_rv(&fx, "early"), -ENOENT);
                fx_close(&fx);
        }
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        assert_int_equal(fx_commit(&fx, 2, 1), 0);
        assert_true(fx_has(&fx, "early", "x", 1));
        for (i = 0; i < 200; i++)
                assert_true(has_big(&fx, i));
        fx_destroy(&fx);
}

static void test_epochs(void **state)
{
        struct fmt_epoch epoch = {.number = FX_EPOCH + 1, .id = {2}, .parent = {1}, .pg_count = 16, .k = 1};
        struct eng_epoch_history history;
        struct fmt_epoch found;
        struct fx_body body = {0};
        uint8_t name[FMT_NAME_MAX];
        struct fx_op op;
        unsigned round;
        struct fx fx;
        size_t len;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(eng_drive_epoch(fx.local, &found, sizeof(found), &len, &history), 0);
        assert_int_equal(found.number, FX_EPOCH);
        assert_int_equal(history.count, 0);
        memcpy(body.bytes, &epoch, sizeof(epoch));
        body.len = sizeof(epoch);
        for (round = 0; round < 2; round++) { /* a repeat changes nothing */
                fx_fill_append(&op, &body, 0, 0, 0);
                op.op.append.type = FMT_RECORD_EPOCH;
                op.op.epoch = epoch.number;
                assert_int_equal(fx_run(&fx, &op), 0);
                eng_buf_unref(op.op.append.body);
        }
        body.len = 0;
        fx_body_delete(&body, name, fx_name(name, "old"));
        assert_int_equal(fx_append(&fx, &body, 1, 1, 0), -ESTALE); /* the fixture's epoch */
        assert_int_equal(fx_commit(&fx, 1, 1), -ESTALE);
        for (round = 0; round < 3; round++) {
                fx_close(&fx);
                if (round == 2)
                        drop_index(&fx);
                assert_int_equal(fx_open(&fx), 0);
                assert_int_equal(eng_drive_epoch(fx.local, &found, sizeof(found), &len, &history), 0);
                assert_int_equal(found.number, FX_EPOCH + 1);
                assert_int_equal(history.count, 1);
                assert_int_equal(history.past[0].number, FX_EPOCH);
                assert_int_equal(history.past[0].id[0], 1);
        }
        assert_int_equal(eng_drive_epoch(fx.local, &found, 4, &len, NULL), -ENOBUFS);
        assert_int_equal(len, sizeof(epoch));
        fx_destroy(&fx);
}

/*
 * From the moment that a record is taken on which voids what waits, what senders of older epochs have
 * sent is refused: the drive holds nothing of theirs that the comparison, which comes then, could miss.
 */
static void test_fence(void **state)
{
        static struct fx_body put;
        uint8_t name[FMT_NAME_MAX];
        struct fx_op ops[5], late;
        unsigned i;
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        fx_body_put(&put, name, fx_name(name, "late"), 1, 1, "x", 1);
        fx_fill_append(&ops[0], &put, 1, 1, 0); /* before it */
        ops[1] = (struct fx_op){.op = {.kind = ENG_OP_APPEND, .flags = ENG_OP_RESERVE, .append = {.type = FMT_RECORD_VOID}}};
        fx_fill_append(&ops[2], &put, 1, 2, 0);
        ops[3] = (struct fx_op){.op = {.kind = ENG_OP_COMMIT, .commit = {.pg = 1, .seq = 1}}};
        fx_fill_append(&ops[4], &put, 1, 3, 0);
        for (i = 0; i < 5; i++)
                ops[i].op.epoch = i == 1 || i == 4 ? FX_EPOCH + 1 : FX_EPOCH;
        fx_start_group(&fx, ops, 5);
        for (i = 0; i < 5; i++)
                assert_int_equal(fx_wait(&ops[i]), i == 2 || i == 3 ? -ESTALE : 0);
        for (i = 0; i < 5; i++)
                if (i != 1 && i != 3)
                        eng_buf_unref(ops[i].op.append.body);
        fx_fill_append(&late, &put, 1, 9, 0); /* and when it is durable */
        late.op.epoch = FX_EPOCH;
        assert_int_equal(fx_run(&fx, &late), -ESTALE);
        eng_buf_unref(late.op.append.body);
        fx_destroy(&fx);
}

#define UNKNOWN (1u << 31) /* a bit of an epoch's tail that no build knows yet */

static void append_epoch(struct fx *fx, uint32_t must)
{
        struct fmt_epoch epoch = {.number = FX_EPOCH + 1, .id = {2}, .parent = {1}, .pg_count = 16, .k = 1};
        struct fmt_epoch_tail tail = {.size = sizeof(tail), .must = must};
        struct fx_body body = {.len = FMT_EPOCH_PLACED(0) + sizeof(tail)};
        struct fx_op op;

        memcpy(body.bytes, &epoch, sizeof(epoch));
        memcpy(body.bytes + FMT_EPOCH_PLACED(0), &tail, sizeof(tail));
        fx_fill_append(&op, &body, 0, 0, 0);
        op.op.append.type = FMT_RECORD_EPOCH;
        op.op.epoch = epoch.number;
        assert_int_equal(fx_run(fx, &op), 0);
        eng_buf_unref(op.op.append.body);
}

/* The record of the epoch, which is the last of the log, as a newer build would have written it. */
static void patch_log(const struct fx *fx)
{
        struct fmt_record rec = {0}, found;
        uint64_t at, last = 0;
        uint8_t body[512];
        uint32_t must = UNKNOWN;
        char path[256];
        FILE *file;

        log_path(fx, 1, path, sizeof(path));
        file = fopen(path, "r+");
        assert_non_null(file);
        for (at = FMT_BLOCK; fseek(file, (long)at, SEEK_SET) == 0 && fread(&found, sizeof(found), 1, file) == 1; at += FMT_RECORD_ALIGN)
                if (found.magic == FMT_RECORD_MAGIC && found.position == at && found.type == FMT_RECORD_EPOCH) {
                        rec = found;
                        last = at;
                }
        assert_true(last != 0 && rec.body_len == FMT_EPOCH_PLACED(0) + sizeof(struct fmt_epoch_tail) && rec.body_len <= sizeof(body));
        assert_int_equal(fseek(file, (long)(last + sizeof(rec)), SEEK_SET), 0);
        assert_int_equal(fread(body, rec.body_len, 1, file), 1);
        memcpy(body + FMT_EPOCH_PLACED(0) + offsetof(struct fmt_epoch_tail, must), &must, sizeof(must));
        rec.body_crc = era_crc32c(0, body, rec.body_len);
        eng_rec_seal(&rec);
        assert_int_equal(fseek(file, (long)last, SEEK_SET), 0);
        assert_int_equal(fwrite(&rec, sizeof(rec), 1, file), 1);
        assert_int_equal(fwrite(body, rec.body_len, 1, file), 1);
        fclose(file);
}

/* The same of the index's row. */
static void patch_index(const struct fx *fx, uint32_t must)
{
        struct eng_index_options options = {.path = NULL};
        uint8_t body[FMT_EPOCH_MAX(ENG_DRIVES_MAX)];
        enum eng_folder_state state;
        struct eng_identity identity;
        struct eng_index_txn *txn;
        struct eng_index *index;
        struct eng_error error;
        char path[256];
        size_t len;

        snprintf(path, sizeof(path), "%s/index", fx->path);
        options.path = path;
        assert_int_equal(eng_folder_probe(fx->path, &state, &identity, &error), 0);
        memcpy(options.drive_id, identity.drive_id, FMT_ID);
        assert_int_equal(eng_index_open(&options, &index), 0);
        assert_int_equal(eng_index_write_begin(index, &txn), 0);
        assert_int_equal(eng_index_meta_get(txn, ENG_INDEX_EPOCH, body, sizeof(body), &len), 0);
        memcpy(body + FMT_EPOCH_PLACED(0) + offsetof(struct fmt_epoch_tail, must), &must, sizeof(must));
        assert_int_equal(eng_index_meta_put(txn, ENG_INDEX_EPOCH, body, len), 0);
        assert_int_equal(eng_index_write_commit(txn), 0);
        eng_index_close(index);
}

/*
 * An epoch that says that it must be understood, by a bit that this build does not know: the drive is
 * refused, and stays as it is. Were it taken for damage, the drive would go on with the epoch before it.
 */
static void test_newer_epoch(void **state)
{
        struct fx fx;

        fx_make(&fx, 1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_put(&fx, "key", "x", 1), 0);
        append_epoch(&fx, FMT_EPOCH_MUST_SITES);
        fx_snapshot(&fx, "appended");
        fx_close(&fx);
        patch_index(&fx, UNKNOWN);
        assert_int_equal(fx_open(&fx), -EPROTONOSUPPORT);
        assert_non_null(strstr(fx.error.text, "newer"));
        fx_close(&fx);
        patch_index(&fx, FMT_EPOCH_MUST_SITES);
        assert_int_equal(fx_open(&fx), 0);
        assert_true(fx_has(&fx, "key", "x", 1));
        fx_close(&fx);

        fx_restore(&fx, "appended");
        patch_log(&fx);
        drop_index(&fx);
        assert_int_equal(fx_open(&fx), -EPROTONOSUPPORT);
        assert_non_null(strstr(fx.error.text, "newer"));
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_index_deleted),
                cmocka_unit_test(test_cut_anywhere),
                cmocka_unit_test(test_flip_tells_damage_from_tear),
                cmocka_unit_test(test_flip_in_padding_is_harmless),
                cmocka_unit_test(test_first_header_damaged),
                cmocka_unit_test(test_torn_batch_never_comes_back),
                cmocka_unit_test(test_crash_keeps_what_was_acknowledged),
                cmocka_unit_test(test_pending_and_record),
                cmocka_unit_test(test_order_is_by_seq),
                cmocka_unit_test(test_log_ends_before_the_index),
                cmocka_unit_test(test_log_ends_before_the_index_behind_what_waits),
                cmocka_unit_test(test_log_ends_before_the_index_of_an_opening_that_failed),
                cmocka_unit_test(test_last_file_lost),
                cmocka_unit_test(test_rollover_and_missing_file),
                cmocka_unit_test(test_freeing),
                cmocka_unit_test(test_gap_behind_what_waits),
                cmocka_unit_test(test_epochs),
                cmocka_unit_test(test_fence),
                cmocka_unit_test(test_newer_epoch),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
