/*
 * test_term.c - OPEN: the fence of a leader's term, and its record, which outlives restarts, lost
 * indexes and the log file that it was written to.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/identity.h"
#include "engine/drive/local.h"
#include "engine/drive/logfile.h"
#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define UNIT (64u << 10)

static const uint8_t cluster[FMT_ID] = "cluster", other_cluster[FMT_ID] = "other";

static struct eng_term term_of(uint64_t generation, uint64_t revision)
{
        return (struct eng_term){.generation = generation, .revision = revision, .boot = revision + 100, .node = 3};
}

static void fill_open(struct fx_op *op, struct eng_term term, const uint8_t of[FMT_ID])
{
        memset(op, 0, sizeof(*op));
        op->op.kind = ENG_OP_OPEN;
        op->op.flags = ENG_OP_RESERVE;
        op->op.term = term;
        memcpy(op->op.open.cluster, of, FMT_ID);
}

static int open_as(struct fx *fx, struct eng_term term, const uint8_t of[FMT_ID], struct eng_term *newest)
{
        struct fx_op op;
        int rv;

        fill_open(&op, term, of);
        rv = fx_run(fx, &op);
        assert_int_equal(op.op.deposed, rv == -ESTALE);
        if (newest != NULL)
                *newest = op.op.open.newest;
        return rv;
}

/* From here on fx's operations are this leader's. */
static void lead(struct fx *fx, uint64_t revision)
{
        fx->term = term_of(1, revision);
        assert_int_equal(open_as(fx, fx->term, cluster, NULL), 0);
}

static void must_open(struct fx *fx)
{
        int rv = fx_open(fx);

        if (rv != 0)
                print_message("%s\n", fx->error.text);
        assert_int_equal(rv, 0);
}

static void make(struct fx *fx)
{
        memset(fx, 0, sizeof(*fx));
        fx_make(fx, 2);
        must_open(fx);
}

static void must_know(struct fx *fx, struct eng_term expected, const uint8_t of[FMT_ID])
{
        struct eng_term found;
        uint8_t found_of[FMT_ID];

        eng_drive_term(fx->local, &found, found_of);
        assert_memory_equal(&found, &expected, sizeof(found));
        assert_memory_equal(found_of, of, FMT_ID);
}

static uint64_t features(const struct fx *fx)
{
        struct eng_identity identity;
        enum eng_folder_state state;
        struct eng_error error;

        assert_int_equal(eng_folder_probe(fx->path, &state, &identity, &error), 0);
        return identity.features;
}

static const enum eng_op_kind of_leaders[] = {
        ENG_OP_APPEND, ENG_OP_COMMIT, ENG_OP_LOOKUP, ENG_OP_SCAN,  ENG_OP_DISCARD,  ENG_OP_TAIL,
        ENG_OP_RECORD, ENG_OP_IDS,    ENG_OP_OWNED,  ENG_OP_SCRUB, ENG_OP_FEATURES,
};
static const enum eng_op_kind of_gateways[] = {ENG_OP_READ, ENG_OP_WRITE, ENG_OP_SYNC, ENG_OP_HELD};

/* Nothing that is refused looks at what it is asked for. */
static int ask(struct fx *fx, enum eng_op_kind kind, struct eng_term term, bool of_home)
{
        struct eng_term before = fx->term;
        struct fx_op op = {.op = {.kind = kind, .term = term, .of_home = of_home}};
        int rv;

        fx->term = (struct eng_term){0};
        if (kind == ENG_OP_WRITE) {
                op.op.write.slot = sh_new_slot();
                op.op.write.payload = (uint8_t *)op.op.write.slot + LP_SLOT_HEADER;
                op.op.write.payload_len = FMT_BLOCK;
                op.op.write.k = 1;
        }
        if (kind == ENG_OP_READ) {
                op.op.read.slot = sh_new_slot();
                op.op.read.len = op.op.read.payload_len = FMT_BLOCK;
                op.op.read.stripe = 1;
        }
        rv = fx_run(fx, &op);
        assert_int_equal(op.op.deposed, rv == -ESTALE);
        if (kind == ENG_OP_WRITE)
                free(op.op.write.slot);
        if (kind == ENG_OP_READ)
                free(op.op.read.slot);
        fx->term = before;
        return rv;
}

static void all_are(struct fx *fx, struct eng_term term, int leaders, int gateways)
{
        unsigned i;

        for (i = 0; i < sizeof(of_leaders) / sizeof(of_leaders[0]); i++)
                assert_int_equal(ask(fx, of_leaders[i], term, false), leaders);
        for (i = 0; i < sizeof(of_gateways) / sizeof(of_gateways[0]); i++) {
                if (gateways != 0)
                        assert_int_equal(ask(fx, of_gateways[i], term, true), gateways);
                else
                        assert_true(ask(fx, of_gateways[i], term, true) == (of_gateways[i] == ENG_OP_READ ? -ENOENT : 0));
                if (leaders != 0) /* of a leader they are what its other operations are */
                        assert_int_equal(ask(fx, of_gateways[i], term, false), leaders);
        }
}

static void test_without_terms(void **state)
{
        static struct fx fx;
        const struct eng_term none = {0};

        make(&fx);
        must_know(&fx, none, (const uint8_t[FMT_ID]){0});
        assert_int_equal(fx_put(&fx, "a", "1", 1), 0);
        all_are(&fx, term_of(1, 1), -ENOTCONN, -ENOTCONN);
        assert_int_equal(open_as(&fx, none, cluster, NULL), -EINVAL);
        assert_int_equal(fx_put(&fx, "b", "2", 1), 0);
        fx_close(&fx);
        assert_int_equal(features(&fx) & FMT_FEATURE_TERMS, 0);
        must_open(&fx);
        assert_true(fx_has(&fx, "a", "1", 1));
        fx_destroy(&fx);
}

static void test_fence(void **state)
{
        const struct eng_term none = {0}, mine = term_of(1, 5), older = term_of(1, 4), newer = term_of(1, 6),
                              newest = term_of(2, 1);
        struct eng_term twin = mine, known;
        static struct fx fx;

        make(&fx);
        assert_int_equal(fx_put(&fx, "a", "1", 1), 0);
        lead(&fx, 5);
        must_know(&fx, mine, cluster);
        assert_int_equal(features(&fx) & FMT_FEATURE_TERMS, FMT_FEATURE_TERMS);
        assert_int_equal(fx_put(&fx, "b", "2", 1), 0);
        assert_true(fx_has(&fx, "a", "1", 1));
        all_are(&fx, none, -ESTALE, 0);
        all_are(&fx, older, -ESTALE, -ESTALE);
        all_are(&fx, newer, -ENOTCONN, -ENOTCONN);
        twin.boot++; /* a revision that was given twice */
        all_are(&fx, twin, -ESTALE, -ESTALE);
        assert_int_equal(open_as(&fx, twin, cluster, &known), -ESTALE);
        assert_memory_equal(&known, &mine, sizeof(known));
        assert_int_equal(open_as(&fx, older, cluster, &known), -ESTALE);
        assert_memory_equal(&known, &mine, sizeof(known));
        assert_int_equal(open_as(&fx, newer, other_cluster, &known), -EXDEV);
        assert_memory_equal(&known, &mine, sizeof(known));
        assert_int_equal(open_as(&fx, mine, cluster, NULL), 0);
        assert_int_equal(fx_put(&fx, "c", "3", 1), 0);
        assert_int_equal(open_as(&fx, newest, other_cluster, NULL), 0); /* a reseed */
        must_know(&fx, newest, other_cluster);
        all_are(&fx, mine, -ESTALE, -ESTALE);
        fx.term = newest;
        assert_true(fx_has(&fx, "c", "3", 1));
        fx_destroy(&fx);
}

static void check_after_restart(struct fx *fx)
{
        struct eng_term none = {0}, mine = fx->term;

        must_know(fx, mine, cluster);
        all_are(fx, mine, -ENOTCONN, -ENOTCONN); /* nothing before OPEN (R7) */
        all_are(fx, none, -ESTALE, 0);
        assert_int_equal(open_as(fx, term_of(1, mine.revision - 1), cluster, NULL), -ESTALE);
        assert_int_equal(open_as(fx, mine, cluster, NULL), 0);
        assert_int_equal(fx_commit(fx, 1, fx->seq), 0);
        assert_true(fx_has(fx, "a", "1", 1));
}

static void test_restarts(void **state)
{
        static struct fx fx;

        make(&fx);
        lead(&fx, 5);
        assert_int_equal(fx_put(&fx, "a", "1", 1), 0);
        fx_snapshot(&fx, "crash");
        fx_close(&fx);
        must_open(&fx);
        check_after_restart(&fx);
        fx_close(&fx);
        sh_remove_index(&fx);
        must_open(&fx);
        check_after_restart(&fx);
        lead(&fx, 6);
        fx_close(&fx);
        must_open(&fx);
        check_after_restart(&fx);
        fx_close(&fx);
        fx_restore(&fx, "crash");
        fx.term = term_of(1, 5);
        must_open(&fx);
        check_after_restart(&fx);
        fx_destroy(&fx);
}

/* The log file that has the record goes; a copy of the record stays. */
static void test_moved(void **state)
{
        static uint8_t bytes[UNIT];
        static struct fx fx;
        char path[256], name[ENG_LOGFILE_NAME_MAX], key[16];
        unsigned i;

        memset(&fx, 0, sizeof(fx));
        fx_make(&fx, 1);
        fx.options.reclaim_rate = UINT64_MAX;
        fx.options.log_file_bytes = ENG_LOG_BYTES_MIN;
        must_open(&fx);
        lead(&fx, 5);
        eng_logfile_name(name, 1);
        snprintf(path, sizeof(path), "%s/log/%s", fx.path, name);
        assert_int_equal(fx_put(&fx, "a", "1", 1), 0);
        for (i = 0; i < 4000 && access(path, F_OK) == 0; i++) {
                snprintf(key, sizeof(key), "k%u", i % 8);
                assert_int_equal(fx_put(&fx, key, bytes, sizeof(bytes)), 0);
                if (i > 200)
                        usleep(10000);
        }
        assert_int_not_equal(access(path, F_OK), 0);
        fx_close(&fx);
        must_open(&fx);
        check_after_restart(&fx);
        fx_close(&fx);
        sh_remove_index(&fx);
        must_open(&fx);
        check_after_restart(&fx);
        fx_destroy(&fx);
}

#define GROUP 24u

/*
 * Appends of one leader are under way when another comes: those that are answered 0 are in the tail
 * that the other reads once it was answered, and no others ever are.
 */
static void test_behind_appends(void **state)
{
        static struct fx_op ops[2 * GROUP + 3];
        static struct fx_body body;
        static struct fx fx;
        uint8_t full[FMT_NAME_MAX];
        unsigned i, round, n, answered, in_tail, refused = 0;
        const struct eng_memtable_entry *entries;
        struct fx_op tail;

        make(&fx);
        lead(&fx, 1);
        for (round = 1; round <= 30; round++) {
                struct eng_term old = fx.term;

                for (i = n = 0; i < 2 * GROUP; i++) {
                        if (i == GROUP) { /* two leaders, and the first of them once more */
                                fill_open(&ops[n++], term_of(1, 10 * round), cluster);
                                fill_open(&ops[n++], term_of(1, 10 * round + 1), cluster);
                                fill_open(&ops[n++], term_of(1, 10 * round), cluster);
                        }
                        body.len = body.inline_len = 0;
                        fx_body_put(&body, full, fx_name(full, "k"), fx.seq + 1, 1, "x", 1);
                        fx_fill_append(&ops[n], &body, 2, ++fx.seq, 0);
                        ops[n++].op.term = old;
                }
                fx_start_group(&fx, ops, n);
                for (i = answered = 0; i < n; i++) {
                        int rv = fx_wait(&ops[i]);

                        if (ops[i].op.kind == ENG_OP_OPEN) {
                                assert_int_equal(rv, i == GROUP + 1 ? 0 : -ESTALE);
                                continue;
                        }
                        assert_true(rv == 0 || (rv == -ESTALE && ops[i].op.deposed));
                        answered += rv == 0;
                        refused += i < GROUP && rv != 0;
                        eng_buf_unref(ops[i].op.append.body);
                }
                fx.term = term_of(1, 10 * round + 1);
                tail = (struct fx_op){.op = {.kind = ENG_OP_TAIL}};
                assert_int_equal(fx_run(&fx, &tail), 0);
                entries = (const struct eng_memtable_entry *)(const void *)tail.op.tail.entries->data;
                for (i = in_tail = 0; i < tail.op.tail.count; i++)
                        in_tail += entries[i].pending && entries[i].pg == 2;
                assert_int_equal(in_tail, answered);
                eng_buf_unref(tail.op.tail.entries);
                assert_int_equal(fx_commit(&fx, 2, fx.seq), 0);
        }
        assert_true(refused > 0); /* some waited, and in no write */
        fx_destroy(&fx);
}

#define LONG (120u << 10)

/* Its own appends are under way when a leader OPENs the drive once more: they are in the tail that it then reads. */
static void test_behind_its_own(void **state)
{
        static uint8_t bytes[LONG];
        static struct fx_op ops[2 * GROUP + 1];
        static struct fx_body body;
        static struct fx fx;
        uint8_t full[FMT_NAME_MAX];
        unsigned i;
        int value;

        memset(&fx, 0, sizeof(fx));
        fx_make(&fx, 1);
        must_open(&fx);
        lead(&fx, 1);
        for (i = 0; i < 2 * GROUP; i++) { /* several writes of the log */
                body.len = body.inline_len = 0;
                fx_body_put(&body, full, fx_name(full, "k"), fx.seq + 1, 1, bytes, sizeof(bytes));
                fx_fill_append(&ops[i], &body, 2, ++fx.seq, 0);
        }
        fill_open(&ops[2 * GROUP], fx.term, cluster);
        fx_start_group(&fx, ops, 2 * GROUP + 1);
        assert_int_equal(fx_wait(&ops[2 * GROUP]), 0);
        for (i = 0; i < 2 * GROUP; i++) {
                sem_getvalue(&ops[i].ended, &value);
                assert_int_equal(value, 1);
                assert_int_equal(fx_wait(&ops[i]), 0);
                eng_buf_unref(ops[i].op.append.body);
        }
        fx_destroy(&fx);
}

/* What is answered when OPEN and FEATURES need FORMAT at the same time. */
static void test_with_features(void **state)
{
        static struct fx_op ops[3];
        static struct fx fx;

        make(&fx);
        memset(ops, 0, sizeof(ops));
        ops[0].op = (struct eng_op){.kind = ENG_OP_FEATURES, .flags = ENG_OP_RESERVE};
        ops[0].op.features.bits = FMT_FEATURE_VERSIONS;
        fill_open(&ops[1], term_of(1, 1), cluster);
        fill_open(&ops[2], term_of(1, 2), cluster);
        fx_start_group(&fx, ops, 3);
        assert_int_equal(fx_wait(&ops[0]), 0);
        assert_int_equal(fx_wait(&ops[1]), -ESTALE);
        assert_int_equal(fx_wait(&ops[2]), 0);
        assert_int_equal(features(&fx), FMT_FEATURE_VERSIONS | FMT_FEATURE_TERMS);
        fx_destroy(&fx);
}

/* A folder of another build: the feature's bit is refused where it is not known. */
static void test_guard(void **state)
{
        struct eng_identity identity = {.layout = FMT_LAYOUT_VERSION, .features = FMT_FEATURES + 1}, found;
        char text[1024];

        assert_int_equal(eng_identity_parse(text, eng_identity_print(&identity, text, sizeof(text)), &found),
                         -EPROTONOSUPPORT);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_without_terms),  cmocka_unit_test(test_fence),
                cmocka_unit_test(test_restarts),       cmocka_unit_test(test_moved),
                cmocka_unit_test(test_behind_appends), cmocka_unit_test(test_behind_its_own),
                cmocka_unit_test(test_with_features),  cmocka_unit_test(test_guard),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
