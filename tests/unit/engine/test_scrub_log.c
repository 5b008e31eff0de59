/*
 * test_scrub_log.c - SCRUB of a real drive's closed log files: damage of every kind is found, its
 * name is told where that can be done, and nothing that is well, dead or torn is taken for it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/fd_faults.h"
#include "tests/lib/shard_fixture.h"

#include <setjmp.h>
#include <cmocka.h>

#define NAMES 200u
#define BYTES 50000u /* of a value: some files' worth together */

struct round {
        struct fmt_drive_scrub state;
        unsigned count, gaps;
        char names[NAMES][16];
};

static void log_name(char out[16], unsigned i)
{
        snprintf(out, 16, "name-%03u", i);
}

static void stretch(struct fx *fx, struct round *r, uint32_t most, bool *ended)
{
        struct fx_op op = {.op = {.kind = ENG_OP_SCRUB}};
        uint8_t *slot = sh_new_slot(), name[FMT_NAME_MAX];
        uint16_t len;
        size_t at;
        unsigned i;

        op.op.scrub.what = ENG_SCRUB_READ;
        op.op.scrub.state = r->state;
        op.op.scrub.most = most;
        op.op.scrub.slot = slot;
        assert_int_equal(fx_run(fx, &op), 0);
        free(slot);
        r->state = op.op.scrub.state;
        r->gaps += op.op.scrub.gap;
        *ended = op.op.scrub.ended;
        if (!op.op.scrub.damaged) {
                assert_null(op.op.scrub.names);
                return;
        }
        assert_non_null(op.op.scrub.names);
        for (at = 0; at < op.op.scrub.names->len; at += sizeof(len) + len) {
                memcpy(&len, op.op.scrub.names->data + at, sizeof(len));
                assert_true(at + sizeof(len) + len <= op.op.scrub.names->len);
                for (i = 0; i < NAMES; i++) {
                        log_name(r->names[r->count], i);
                        if (len == fx_name(name, r->names[r->count]) && memcmp(op.op.scrub.names->data + at + sizeof(len), name, len) == 0)
                                break;
                }
                assert_true(i < NAMES);
                r->count++;
        }
        eng_buf_unref(op.op.scrub.names);
}

static struct round whole_round(struct fx *fx, uint32_t most)
{
        struct round r = {.count = 0};
        bool ended = false;

        while (!ended)
                stretch(fx, &r, most, &ended);
        return r;
}

static void put_one(struct fx *fx, unsigned i, uint8_t with)
{
        static uint8_t bytes[BYTES];
        char name[16];

        memset(bytes, with, sizeof(bytes));
        log_name(name, i);
        assert_int_equal(fx_put(fx, name, bytes, sizeof(bytes) - i), 0);
}

static void make(struct fx *fx)
{
        unsigned i;

        fx_make(fx, 1);
        fx->options.reclaim_rate = ENG_RECLAIM_OFF;
        fx->options.cache_bytes = 1;
        assert_int_equal(fx_open(fx), 0);
        for (i = 0; i < NAMES; i++)
                put_one(fx, i, (uint8_t)i);
        assert_true(fx_wait_indexed(fx));
}

/* Where the record of the name is. */
static void where(struct fx *fx, unsigned i, uint64_t *file, uint64_t *position)
{
        uint8_t name[FMT_NAME_MAX];
        struct eng_buf *value;
        char text[16];

        log_name(text, i);
        assert_int_equal(fx_lookup(fx, name, fx_name(name, text), &value, NULL), 0);
        *file = ((struct fmt_value *)value->data)->log_file;
        *position = ((struct fmt_value *)value->data)->log_position;
        eng_buf_unref(value);
}

static void path_of(struct fx *fx, uint64_t file, char path[512])
{
        char name[ENG_LOGFILE_NAME_MAX];

        eng_logfile_name(name, file);
        snprintf(path, 512, "%s/log/%s", fx->path, name);
}

/* Of bytes of the record, from `from` on. NULL: zeroes. */
static void spoil(struct fx *fx, uint64_t file, uint64_t position, const void *with, size_t len)
{
        void *zeroes = calloc(1, len);
        char path[512];
        int fd;

        path_of(fx, file, path);
        fd = open(path, O_WRONLY);
        assert_true(fd >= 0 && zeroes != NULL);
        assert_int_equal(pwrite(fd, with != NULL ? with : zeroes, len, (off_t)position), len);
        assert_int_equal(fsync(fd), 0);
        close(fd);
        free(zeroes);
}

/* LOOKUP without bytes: what a verification asks for, and what a client does. */
static int lookup(struct fx *fx, unsigned i, unsigned flags)
{
        struct fx_op op = {.op = {.kind = ENG_OP_LOOKUP, .flags = flags}};
        uint8_t name[FMT_NAME_MAX];
        char text[16];
        int rv;

        log_name(text, i);
        op.op.lookup.name = name;
        op.op.lookup.name_len = fx_name(name, text);
        rv = fx_run(fx, &op);
        eng_buf_unref(op.op.lookup.value);
        eng_buf_unref(op.op.lookup.bytes);
        return rv;
}

/* How many names have a record that is known to be damaged; a client may have the values of all. */
static unsigned known(struct fx *fx)
{
        unsigned i, n = 0;

        for (i = 0; i < NAMES; i++) {
                assert_int_equal(lookup(fx, i, 0), 0);
                n += lookup(fx, i, ENG_OP_WANT_RECORD) == -EBADMSG;
        }
        return n;
}

static void test_all_is_well(void **state)
{
        static const uint32_t most[] = {1, 4096, 65536, 1 << 20, 4 << 20};
        struct round r, first;
        struct fx fx;
        unsigned i;

        make(&fx);
        first = whole_round(&fx, 1 << 20);
        assert_true(first.state.frames > 50); /* of the files that are closed */
        for (i = 0; i < sizeof(most) / sizeof(most[0]); i++) {
                r = whole_round(&fx, most[i]);
                assert_int_equal(r.count + r.gaps + r.state.damaged, 0);
                assert_int_equal(r.state.frames, first.state.frames);
                assert_int_equal(r.state.bytes, first.state.bytes);
        }
        assert_int_equal(known(&fx), 0);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0); /* files that nobody has opened yet, of which the length is all that is known */
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count + r.gaps + r.state.damaged, 0);
        assert_true(r.state.frames >= first.state.frames);
        fx_destroy(&fx);
}

/*
 * Wherever in the record: bytes of the object, its value, its name, the header. Repaired by a new
 * value.
 */
static void test_every_location(void **state)
{
        static const struct {
                unsigned offset;
                bool named; /* it can still be told whose it is */
        } locations[] = {{40000, true},
                      {sizeof(struct fmt_record) + sizeof(struct fmt_mutation) + 40, true},
                      {sizeof(struct fmt_record) + sizeof(struct fmt_mutation) + 12, false},
                      {sizeof(struct fmt_record), false},
                      {sizeof(struct fmt_record) - 40, false},
                      {0, false}};
        uint64_t file, position;
        struct round r;
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 0; i < sizeof(locations) / sizeof(locations[0]); i++) {
                char name[16];

                log_name(name, 10 + i);
                where(&fx, 10 + i, &file, &position);
                spoil(&fx, file, position + locations[i].offset, "\xa5\x5a\xa5", 3);
                r = whole_round(&fx, 1 << 20);
                assert_int_equal(r.count, locations[i].named);
                if (locations[i].named)
                        assert_string_equal(r.names[0], name);
                assert_int_equal(r.gaps, !locations[i].named); /* all names of the record are told: none need be looked for */
                assert_int_equal(known(&fx), 1);
                assert_int_equal(lookup(&fx, 10 + i, ENG_OP_WANT_RECORD), -EBADMSG);
                put_one(&fx, 10 + i, 1);
                assert_int_equal(known(&fx), 0);
                r = whole_round(&fx, 4096);
                assert_int_equal(r.count + r.gaps, 0);
        }
        fx_destroy(&fx);
}

/*
 * The record of a key's head and of its version: both names are told, and both are repaired by new
 * values.
 */
static void test_two_names(void **state)
{
        static uint8_t bytes[BYTES];
        static struct fx_body body;
        uint64_t file, position;
        struct round r;
        struct fx fx;
        unsigned i;

        make(&fx);
        for (i = 10; i <= 11; i++) {
                uint8_t name[FMT_NAME_MAX];
                char text[16];

                log_name(text, i);
                fx_body_put(&body, name, fx_name(name, text), fx.seq + 1, 1, bytes, i == 10 ? 0 : sizeof(bytes));
        }
        fx.seq++;
        assert_int_equal(fx_append(&fx, &body, 1, fx.seq, fx.seq - 1), 0);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        for (i = 0; i < NAMES; i++) /* so that the file is closed */
                if (i != 10 && i != 11)
                        put_one(&fx, i, 3);
        where(&fx, 11, &file, &position);
        spoil(&fx, file, position + 40000, "x", 1);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count, 2);
        assert_string_equal(r.names[0], "name-010");
        assert_string_equal(r.names[1], "name-011");
        assert_int_equal(r.gaps, 0);
        assert_int_equal(known(&fx), 2);
        put_one(&fx, 11, 1);
        assert_int_equal(lookup(&fx, 10, ENG_OP_WANT_RECORD), -EBADMSG);
        put_one(&fx, 10, 1);
        assert_int_equal(known(&fx), 0);
        fx_destroy(&fx);
}

/* What LOAD or COMPARED says: gap, more, gaps. */
static struct eng_op said(struct fx *fx, enum eng_scrub_what what)
{
        struct fx_op op = {.op = {.kind = ENG_OP_SCRUB}};

        op.op.scrub.what = what;
        assert_int_equal(fx_run(fx, &op), 0);
        return op.op;
}

/* A name that is told hides no gap beside it. */
static void test_both_in_a_stretch(void **state)
{
        uint64_t file, position;
        struct round r = {.count = 0};
        bool ended = false;
        struct fx fx;

        make(&fx);
        where(&fx, 10, &file, &position);
        spoil(&fx, file, position, NULL, 64);
        where(&fx, 11, &file, &position);
        spoil(&fx, file, position + 40000, "x", 1);
        while (r.count == 0) {
                assert_false(ended);
                stretch(&fx, &r, 4 << 20, &ended);
        }
        assert_int_equal(r.gaps, 1);
        assert_int_equal(known(&fx), 2);
        fx_destroy(&fx);
}

/* That names are to be compared is known until they were, over restarts and crashes. */
static void test_owed(void **state)
{
        uint64_t file, position;
        struct round r;
        struct fx fx;

        make(&fx);
        assert_false(said(&fx, ENG_SCRUB_LOAD).scrub.gap);
        where(&fx, 10, &file, &position);
        spoil(&fx, file, position, NULL, 64);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.gaps, 1);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_true(said(&fx, ENG_SCRUB_LOAD).scrub.gap);
        assert_int_equal(whole_round(&fx, 1 << 20).gaps, 0); /* known already */
        assert_true(said(&fx, ENG_SCRUB_LOAD).scrub.gap);
        assert_int_equal(said(&fx, ENG_SCRUB_COMPARED).scrub.gaps, 1);
        assert_false(said(&fx, ENG_SCRUB_LOAD).scrub.gap);
        assert_int_equal(known(&fx), 1); /* the place itself is known for as long as its file is there */
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        assert_false(said(&fx, ENG_SCRUB_LOAD).scrub.gap);
        where(&fx, 20, &file, &position);
        spoil(&fx, file, position + 40000, "x", 1);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count, 1);
        assert_int_equal(r.gaps, 0);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0); /* it may not have been written anew yet */
        assert_true(said(&fx, ENG_SCRUB_LOAD).scrub.gap);
        fx_destroy(&fx);
}

#define MANY 700u

static void many_name(char out[16], unsigned i)
{
        snprintf(out, 16, "many-%04u", i);
}

static void spoil_many(struct fx *fx, uint64_t *files, uint64_t *positions)
{
        static const uint8_t zeroes[64];
        uint8_t name[FMT_NAME_MAX];
        struct eng_buf *value;
        char text[16];
        unsigned i;

        for (i = 0; i < 2 * MANY; i++) {
                many_name(text, i);
                assert_int_equal(fx_lookup(fx, name, fx_name(name, text), &value, NULL), 0);
                files[i] = ((struct fmt_value *)value->data)->log_file;
                positions[i] = ((struct fmt_value *)value->data)->log_position;
                eng_buf_unref(value);
        }
        for (i = 0; i < 2 * MANY; i += 2)
                spoil(fx, files[i], positions[i], zeroes, sizeof(zeroes));
}

static unsigned many_known(struct fx *fx)
{
        struct fx_op op;
        uint8_t name[FMT_NAME_MAX];
        char text[16];
        unsigned i, n = 0;

        for (i = 0; i < 2 * MANY; i++) {
                op = (struct fx_op){.op = {.kind = ENG_OP_LOOKUP, .flags = ENG_OP_WANT_RECORD}};
                many_name(text, i);
                op.op.lookup.name = name;
                op.op.lookup.name_len = fx_name(name, text);
                if (fx_run(fx, &op) == -EBADMSG) {
                        assert_int_equal(i % 2, 0); /* no false alarm */
                        n++;
                }
                eng_buf_unref(op.op.lookup.value);
        }
        return n;
}

/*
 * More places than can be remembered: that is said, over a restart, and the next round, behind a
 * walk of names, finds the others.
 */
static void test_many_gaps(void **state)
{
        static uint64_t files[2 * MANY], positions[2 * MANY];
        static uint8_t bytes[64];
        struct eng_op op;
        char name[16];
        struct fx fx;
        unsigned i, first, both;

        fx_make(&fx, 1);
        fx.options.reclaim_rate = ENG_RECLAIM_OFF;
        fx.options.cache_bytes = 1;
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < 2 * MANY; i++) {
                many_name(name, i);
                assert_int_equal(fx_put(&fx, name, bytes, sizeof(bytes)), 0);
        }
        for (i = 0; i < NAMES; i++)
                put_one(&fx, i, 1); /* so that their file is closed */
        assert_true(fx_wait_indexed(&fx));
        spoil_many(&fx, files, positions);
        assert_true(whole_round(&fx, 1 << 20).gaps > 0);
        op = said(&fx, ENG_SCRUB_LOAD);
        assert_true(op.scrub.gap && op.scrub.more);
        assert_int_equal(op.scrub.gaps, ENG_ROT_GAPS);
        assert_int_equal(op.scrub.gaps_dropped, MANY - ENG_ROT_GAPS);
        first = many_known(&fx);
        assert_int_equal(first, ENG_ROT_GAPS);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        op = said(&fx, ENG_SCRUB_LOAD);
        assert_true(op.scrub.gap && op.scrub.more);
        op = said(&fx, ENG_SCRUB_COMPARED);
        assert_true(op.scrub.more);
        for (i = 0; i < 2 * MANY; i += 2) { /* as the walk has done */
                many_name(name, i);
                if (eng_rot_in_log((struct eng_local *)fx.local, files[i], positions[i]))
                        assert_int_equal(fx_put(&fx, name, bytes, sizeof(bytes)), 0);
        }
        assert_int_equal(many_known(&fx), 0);
        assert_true(whole_round(&fx, 1 << 20).gaps > 0);
        both = first + many_known(&fx);
        assert_int_equal(both, MANY);
        op = said(&fx, ENG_SCRUB_LOAD);
        assert_true(op.scrub.gap && !op.scrub.more);
        fx_destroy(&fx);
}

/* Records that are lost side by side, and a whole stretch of zeroes: a write that was lost. */
static void test_stretch_is_lost(void **state)
{
        uint64_t file, position, last_file, last;
        struct round r;
        struct fx fx;
        unsigned i, lost = 0;

        make(&fx);
        where(&fx, 5, &file, &position);
        where(&fx, 15, &last_file, &last);
        assert_int_equal(file, last_file);
        spoil(&fx, file, position, NULL, last - position);
        r = whole_round(&fx, 65536);
        assert_int_equal(r.count, 0);
        assert_int_equal(r.gaps, 1);
        for (i = 0; i < NAMES; i++)
                lost += lookup(&fx, i, ENG_OP_WANT_RECORD) == -EBADMSG;
        assert_int_equal(lost, 10);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0); /* and is remembered */
        assert_int_equal(known(&fx), 10);
        fx_destroy(&fx);
}

/* What nobody needs is no damage of a name. */
static void test_dead_rot(void **state)
{
        uint64_t file, position;
        struct round r;
        struct fx fx;

        make(&fx);
        where(&fx, 3, &file, &position);
        put_one(&fx, 3, 9);
        spoil(&fx, file, position + 30000, "x", 1);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count + r.state.damaged, 0);
        assert_int_equal(known(&fx), 0);
        fx_destroy(&fx);
}

/* A read that went wrong, and does not any more. */
static void test_was_nothing(void **state)
{
        uint64_t file, position;
        struct round r;
        uint8_t before;
        struct fx fx;
        char path[512];
        int fd;

        make(&fx);
        where(&fx, 7, &file, &position);
        path_of(&fx, file, path);
        fd = open(path, O_RDONLY);
        assert_true(fd >= 0);
        assert_int_equal(pread(fd, &before, 1, (off_t)position + 30000), 1);
        close(fd);
        spoil(&fx, file, position + 30000, "\xff", 1);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count, 1);
        assert_int_equal(known(&fx), 1);
        spoil(&fx, file, position + 30000, &before, 1);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count, 0);
        assert_int_equal(known(&fx), 0);
        fx_destroy(&fx);
}

/* EIO: damage of what is there, and the drive goes on. */
static void test_unreadable(void **state)
{
        struct eng_drive_info info;
        struct fd_faults faults;
        uint64_t file, newest, position;
        unsigned i, closed = 0;
        struct round r;
        struct fx fx;

        make(&fx);
        whole_round(&fx, 1 << 20); /* opens the files */
        where(&fx, NAMES - 1, &newest, &position);
        for (i = 0; i < NAMES; i++) {
                where(&fx, i, &file, &position);
                closed += file != newest;
        }
        fd_faults_unreadable(&faults, ".log");
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count, 0);
        assert_true(r.gaps > 0);
        fd_faults_end(&faults);
        assert_int_equal(known(&fx), closed);
        put_one(&fx, 0, 1);
        eng_drive_info(fx.local, &info);
        assert_string_equal(info.reason, "");
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count, 0);
        assert_int_equal(known(&fx), 0);
        fx_destroy(&fx);
}

/* A log file that has vanished, and one whose header is gone. */
static void test_lost_file(void **state)
{
        uint64_t file, position, other;
        unsigned i, there = 0;
        struct round r;
        char path[512];
        struct fx fx;

        make(&fx);
        fx_close(&fx);
        assert_int_equal(fx_open(&fx), 0);
        where(&fx, 20, &file, &position);
        for (i = 0; i < NAMES; i++) {
                where(&fx, i, &other, &position);
                there += other == file;
        }
        path_of(&fx, file, path);
        assert_int_equal(unlink(path), 0);
        r = whole_round(&fx, 1 << 20);
        assert_int_equal(r.count, 0);
        assert_int_equal(known(&fx), there);
        fx_destroy(&fx);
}

/* Nothing that stands in the state brings it out of step. */
static void test_odd_states(void **state)
{
        static const uint64_t segments[] = {ENG_UNREADABLE_LOG, ENG_UNREADABLE_LOG | 1, ENG_UNREADABLE_LOG | 77, UINT64_MAX};
        static const uint64_t positions[] = {0, 1, 4096, 4160, 1 << 20, UINT64_MAX - 63, UINT64_MAX};
        unsigned i, j;
        struct fx fx;

        make(&fx);
        for (i = 0; i < sizeof(segments) / sizeof(segments[0]); i++)
                for (j = 0; j < sizeof(positions) / sizeof(positions[0]); j++) {
                        struct round r = {.count = 0};
                        bool ended = false;

                        r.state.segment = segments[i];
                        r.state.last = ENG_UNREADABLE_LOG | 2;
                        r.state.position = positions[j];
                        while (!ended)
                                stretch(&fx, &r, 1 << 20, &ended);
                        assert_int_equal(r.count, 0);
                }
        assert_int_equal(known(&fx), 0);
        fx_destroy(&fx);
}

/*
 * Blocks here and there, as they come: each name is either whole, or known to be damaged behind a
 * round.
 */
static void test_random(void **state)
{
        static uint8_t bytes[BYTES];
        uint64_t file, position, newest;
        unsigned seed = 12345, round, i;
        struct fx fx;

        for (round = 0; round < 6; round++) {
                make(&fx);
                where(&fx, NAMES - 1, &newest, &position);
                for (i = 0; i < 12; i++) {
                        uint8_t byte = (uint8_t)rand_r(&seed);

                        where(&fx, (unsigned)rand_r(&seed) % 120, &file, &position);
                        if (file != newest)
                                spoil(&fx, file, position + (unsigned)rand_r(&seed) % (BYTES - 200), &byte, 1);
                }
                whole_round(&fx, 1u << (12 + round * 2));
                for (i = 0; i < NAMES; i++) {
                        char name[16];
                        bool whole;

                        where(&fx, i, &file, &position);
                        if (file == newest)
                                continue;
                        log_name(name, i);
                        memset(bytes, (uint8_t)i, sizeof(bytes));
                        whole = lookup(&fx, i, ENG_OP_WANT_INLINE) == 0;
                        if (whole)
                                assert_true(fx_has(&fx, name, bytes, sizeof(bytes) - i));
                        assert_int_equal(lookup(&fx, i, ENG_OP_WANT_RECORD), whole ? 0 : -EBADMSG);
                }
                fx_destroy(&fx);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_two_names),
                cmocka_unit_test(test_all_is_well), cmocka_unit_test(test_every_location), cmocka_unit_test(test_stretch_is_lost),
                cmocka_unit_test(test_dead_rot),    cmocka_unit_test(test_was_nothing), cmocka_unit_test(test_unreadable),
                cmocka_unit_test(test_both_in_a_stretch), cmocka_unit_test(test_owed), cmocka_unit_test(test_many_gaps),
                cmocka_unit_test(test_lost_file),   cmocka_unit_test(test_odd_states),  cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
