/*
 * test_pages.c - a drive whose index is not in memory: operations wait for its pages beside
 * everything else on the loop, see what was changed meanwhile, and are answered when the drive
 * fails, however long a page takes.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/drive/local.h"
#include "tests/lib/fd_faults.h"
#include "tests/lib/shard_fixture.h"
#include "tests/lib/wait.h"

#include <setjmp.h>
#include <cmocka.h>

#define NAMES   800u
#define SHARDS  40u
#define LEN     8192u
#define LOOKUPS 200u
#define FOREVER 3600000u /* ms */

static struct fx_op many[LOOKUPS];
static uint8_t many_names[LOOKUPS][FMT_NAME_MAX];

/* ---- the drive ------------------------------------------------------------------------------- */

static void name_of(unsigned i, char name[64])
{
        sprintf(name, "%04u-%s", i * 7919 % 10000, i % 8 == 3 ? "a/b" : "c");
}

static void make(struct fx *fx)
{
        char name[64];
        unsigned i;

        fx_make(fx, 2);
        fx->options.reclaim_rate = ENG_RECLAIM_OFF;
        assert_int_equal(fx_open(fx), 0);
        for (i = 0; i < NAMES; i++) {
                name_of(i, name);
                assert_int_equal(fx_put(fx, name, name, strlen(name)), 0);
        }
        for (i = 0; i < SHARDS; i++)
                assert_int_equal(sh_write(fx, 1 + i, 0, LEN), 0);
        assert_int_equal(sh_sync(fx), 0);
        assert_true(fx_wait_indexed(fx));
}

/* The last record is pending then. */
static void open_again(struct fx *fx)
{
        fx_close(fx);
        assert_int_equal(fx_open(fx), 0);
        assert_int_equal(fx_commit(fx, 1, fx->seq), 0);
}

struct comer;
struct pretence {
        struct fx *fx;
        uint64_t after, ms;
        struct comer *comer;
};

static void pretend_now(void *arg)
{
        const struct pretence *p = arg;

        eng_pages_pretend(eng_local_of(p->fx->local), p->after, p->ms);
}

static void pretend(struct fx *fx, uint64_t after, uint64_t ms)
{
        struct pretence p = {.fx = fx, .after = after, .ms = ms};

        fx_call(fx, 0, pretend_now, &p);
}

static void count_reads(void *arg)
{
        struct pretence *p = arg;

        p->after = eng_local_of(p->fx->local)->pages.reading;
}

static unsigned reads(struct fx *fx)
{
        struct pretence p = {.fx = fx};

        fx_call(fx, 0, count_reads, &p);
        return (unsigned)p.after;
}

static void fail_now(void *arg)
{
        struct fx *fx = arg;

        eng_local_fail(eng_local_of(fx->local), -ETIMEDOUT, "a read, write or flush");
}

/* ---- operations ------------------------------------------------------------------------------ */

static void start_lookup(struct fx *fx, unsigned loop, struct fx_op *op, uint8_t *full, const char *name)
{
        memset(op, 0, sizeof(*op));
        op->op.kind = ENG_OP_LOOKUP;
        op->op.flags = ENG_OP_WANT_INLINE;
        op->op.lookup.name = full;
        op->op.lookup.name_len = (uint16_t)fx_name(full, name);
        fx_start(fx, loop, op);
}

static bool lookup_gave(struct fx_op *op, const char *bytes)
{
        bool same = op->op.lookup.bytes != NULL && op->op.lookup.bytes->len == strlen(bytes) &&
                    memcmp(op->op.lookup.bytes->data, bytes, strlen(bytes)) == 0;

        eng_buf_unref(op->op.lookup.value);
        eng_buf_unref(op->op.lookup.bytes);
        return same;
}

static unsigned scan_all(struct fx *fx, const char *delimiter, uint32_t max, unsigned *prefixes)
{
        uint8_t from[FMT_NAME_MAX + 1], to[FMT_NAME_MAX + 1];
        struct fx_op op;
        unsigned names = 0, i;
        const uint8_t *at;
        bool after = false;
        size_t from_len = fx_name(from, ""), to_len = fx_name(to, "\xff"), prefix = from_len;

        *prefixes = 0;
        do {
                memset(&op, 0, sizeof(op));
                op.op.kind = ENG_OP_SCAN;
                op.op.scan.from = from;
                op.op.scan.from_len = (uint16_t)from_len;
                op.op.scan.to = to;
                op.op.scan.to_len = (uint16_t)to_len;
                op.op.scan.after = after;
                op.op.scan.max = max;
                op.op.scan.prefix_len = (uint16_t)prefix;
                op.op.scan.delimiter = (const uint8_t *)delimiter;
                op.op.scan.delimiter_len = delimiter != NULL ? 1 : 0;
                assert_int_equal(fx_run(fx, &op), 0);
                at = op.op.scan.entries->data;
                for (i = 0; i < op.op.scan.count; i++) {
                        const struct eng_scan_entry *entry = (const void *)at;
                        const uint8_t *name = at + sizeof(*entry);

                        assert_true(names + *prefixes == 0 || eng_name_compare(name, entry->name_len, from, from_len) > 0);
                        memcpy(from, name, entry->name_len);
                        from_len = entry->name_len;
                        names += (entry->flags & 1) == 0;
                        *prefixes += (entry->flags & 1) != 0;
                        at += entry->size;
                }
                after = true;
                eng_buf_unref(op.op.scan.entries);
        } while (op.op.scan.more);
        return names;
}

static unsigned ids_all(struct fx *fx)
{
        struct fx_op op = {.op = {.kind = ENG_OP_IDS, .ids = {.max = 7}}};
        unsigned count = 0;

        do {
                assert_int_equal(fx_run(fx, &op), 0);
                count += op.op.ids.count;
                if (op.op.ids.count > 0)
                        memcpy(op.op.ids.after, ((struct eng_held_id *)op.op.ids.ids->data)[op.op.ids.count - 1].id, FMT_ID);
                eng_buf_unref(op.op.ids.ids);
        } while (op.op.ids.count == 7);
        return count;
}

static void check_owned(struct fx *fx)
{
        static uint8_t ids[ENG_OWNED_MAX][FMT_ID];
        struct fx_op op = {.op = {.kind = ENG_OP_OWNED, .owned = {.ids = (const uint8_t(*)[FMT_ID])ids, .count = ENG_OWNED_MAX}}};
        unsigned i;
        int rv;

        for (i = 0; i < ENG_OWNED_MAX; i++)
                fx_id(ids[i], 1 + i);
        while ((rv = fx_run(fx, &op)) == -EAGAIN) /* an index that was built anew answers after its first batch */
                usleep(10000);
        assert_int_equal(rv, 0);
        for (i = 0; i < ENG_OWNED_MAX / 8; i++)
                assert_int_equal(op.op.owned.bits->data[i], 0); /* names without shards own nothing */
        eng_buf_unref(op.op.owned.bits);
}

static void check_held(struct fx *fx)
{
        struct fx_op op = {.op = {.kind = ENG_OP_HELD, .held = {.count = ENG_HELD_MAX, .shard = SH_SHARD}}};

        fx_id(op.op.held.object_id, 3);
        assert_int_equal(fx_run(fx, &op), 0);
        assert_int_equal(op.op.held.bits[0], 1);
}

static void check_all(struct fx *fx)
{
        unsigned i, prefixes;
        char name[64];

        for (i = 0; i < NAMES; i += 17) {
                name_of(i, name);
                assert_true(fx_has(fx, name, name, strlen(name)));
                assert_int_equal(fx_lookup_rv(fx, "no such name"), -ENOENT);
        }
        for (i = 0; i < SHARDS; i++)
                assert_int_equal(sh_read(fx, 1 + i, 0, LEN), 0);
        assert_int_equal(scan_all(fx, NULL, 700, &prefixes), NAMES);
        assert_int_equal(prefixes, 0);
        assert_int_equal(scan_all(fx, NULL, 100000, &prefixes), NAMES);
        assert_int_equal(scan_all(fx, "/", 100, &prefixes), NAMES - NAMES / 8);
        assert_int_equal(prefixes, NAMES / 8);
        assert_int_equal(ids_all(fx), SHARDS);
        check_owned(fx);
        check_held(fx);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* The same answers as from memory, whoever asks, and again after each tick. */
static void test_answers(void **state)
{
        struct fx fx;
        unsigned i;

        make(&fx);
        check_all(&fx);
        for (i = 0; i < 3; i++) {
                pretend(&fx, 0, 0);
                check_all(&fx);
        }
        pretend(&fx, 0, 1); /* each page a little later */
        check_all(&fx);
        fx_destroy(&fx);
}

static void start_all(struct fx *fx, struct fx_op *scan, struct fx_op *read, struct fx_op *held, struct fx_op *ids, struct fx_op *owned,
                      uint8_t *slot)
{
        static uint8_t id[1][FMT_ID], from[FMT_NAME_MAX];
        atomic_uint_fast64_t *ops = &eng_local_of(fx->local)->statistics.ops;
        uint64_t before = atomic_load(ops);
        char name[64];
        unsigned i;

        for (i = 0; i < LOOKUPS; i++) {
                name_of(i, name);
                start_lookup(fx, i % 2, &many[i], many_names[i], name);
        }
        *scan = (struct fx_op){.op = {.kind = ENG_OP_SCAN, .scan = {.from = from, .from_len = (uint16_t)fx_name(from, ""), .max = 10}}};
        *read = (struct fx_op){.op = {.kind = ENG_OP_READ, .read = {.shard = SH_SHARD, .len = LEN, .payload_len = LEN, .slot = slot}}};
        fx_id(read->op.read.object_id, 1);
        *held = (struct fx_op){.op = {.kind = ENG_OP_HELD, .held = {.count = 1, .shard = SH_SHARD}}};
        *ids = (struct fx_op){.op = {.kind = ENG_OP_IDS, .ids = {.max = 10}}};
        *owned = (struct fx_op){.op = {.kind = ENG_OP_OWNED, .owned = {.ids = (const uint8_t(*)[FMT_ID])id, .count = 1}}};
        fx_start(fx, 1, scan);
        fx_start(fx, 1, read);
        fx_start(fx, 0, held);
        fx_start(fx, 1, ids);
        fx_start(fx, 0, owned);
        WAIT_UNTIL(atomic_load(ops) >= before + LOOKUPS + 5); /* all have reached the drive */
        assert_true(reads(fx) >= 1); /* the loop answers, and they are under way */
}

/*
 * The descriptor hangs, as a drive does: the loop goes on, and all that wait are answered when the
 * drive fails, before the page is back.
 */
static void test_hang(void **state)
{
        struct fx_op scan, read, held, ids, owned;
        struct fd_faults faults;
        uint8_t *slot = sh_new_slot();
        struct fx fx;
        unsigned i;

        make(&fx);
        pretend(&fx, 0, 0);
        fd_faults_hang(&faults, "index/data.mdb");
        start_all(&fx, &scan, &read, &held, &ids, &owned, slot);
        for (i = 0; i < 20; i++)
                assert_true(reads(&fx) <= ENG_PAGES_AT_ONCE);
        assert_int_equal(fx_put(&fx, "new", "bytes", 5), 0); /* what the index is not needed for goes on */
        assert_true(fx_has(&fx, "new", "bytes", 5));
        fx_call(&fx, 0, fail_now, &fx);
        for (i = 0; i < LOOKUPS; i++)
                assert_int_equal(fx_wait(&many[i]), -EIO);
        assert_int_equal(fx_wait(&scan), -EIO);
        assert_int_equal(fx_wait(&read), -EIO);
        assert_int_equal(fx_wait(&held), -EIO);
        assert_int_equal(fx_wait(&ids), -EIO);
        assert_int_equal(fx_wait(&owned), -EIO);
        assert_true(reads(&fx) >= 1);
        fd_faults_end(&faults);
        fx_destroy(&fx);
        free(slot);
}

static void short_limit(void *arg)
{
        struct fx *fx = arg;

        eng_local_of(fx->local)->io_limit_ns = 1;
}

static void let_go(void *arg)
{
        struct pretence *p = arg;

        p->after = eng_drive_let_go(p->fx->local);
}

/*
 * A page that takes longer than the limit ends the drive by itself. It is let go of when that page
 * is back, and not before.
 */
static void test_limit(void **state)
{
        struct fd_faults faults;
        struct pretence p;
        struct fx fx;

        make(&fx);
        pretend(&fx, 0, 0);
        fd_faults_hang(&faults, "index/data.mdb");
        start_lookup(&fx, 1, &many[0], many_names[0], "0000-c");
        fx_call(&fx, 0, short_limit, &fx);
        assert_int_equal(fx_wait(&many[0]), -EIO);
        p.fx = &fx;
        fx_call(&fx, 0, let_go, &p);
        assert_false(p.after);
        fd_faults_end(&faults);
        WAIT_UNTIL((fx_call(&fx, 0, let_go, &p), p.after));
        assert_true(p.after);
        fx_destroy(&fx);
}

/* Waits for a page that is gone again each time it was read. owner: loop 0 */
struct comer {
        struct eng_page_wait wait; /* first */
        unsigned reads;
        int rv;
        atomic_bool over;
};

static void ask_for_it(struct eng_local *l, struct comer *comer)
{
        eng_resident_forget(&l->pages.resident);
        l->pages.page = 2;
        l->pages.count = 1;
        eng_pages_wait(l, &comer->wait);
}

static void came(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        struct comer *comer = (struct comer *)wait;

        if (rv == 0 && ++comer->reads <= 2 * ENG_PAGES_TRIES) {
                ask_for_it(l, comer);
                return;
        }
        comer->rv = rv;
        atomic_store(&comer->over, true);
}

static void ask_now(void *arg)
{
        struct pretence *p = arg;
        static struct comer comer;

        memset(&comer, 0, sizeof(comer));
        comer.wait.again = came;
        p->comer = &comer;
        ask_for_it(eng_local_of(p->fx->local), &comer);
}

/*
 * Pages that are taken away as fast as they are read are not read without end (I9): others are
 * asked.
 */
static void test_come_and_go(void **state)
{
        struct pretence p;
        struct fx fx;

        make(&fx);
        p.fx = &fx;
        fx_call(&fx, 0, ask_now, &p);
        WAIT_UNTIL(atomic_load(&p.comer->over));
        assert_true(atomic_load(&p.comer->over));
        assert_int_equal(p.comer->rv, -EAGAIN);
        assert_int_equal(p.comer->reads, ENG_PAGES_TRIES);
        check_all(&fx);
        fx_destroy(&fx);
}

/*
 * What SIGBUS says where a page is touched: the drive fails, and its index is built anew when it is
 * opened again.
 */
static void test_unreadable(void **state)
{
        struct fd_faults faults;
        struct fx fx;
        unsigned i;

        make(&fx);
        pretend(&fx, 0, 0);
        fd_faults_unreadable(&faults, "index/data.mdb");
        for (i = 0; i < 10; i++)
                start_lookup(&fx, i % 2, &many[i], many_names[i], "0000-c");
        for (i = 0; i < 10; i++)
                assert_int_equal(fx_wait(&many[i]), -EIO);
        assert_true(eng_drive_vanished(fx.local));
        fd_faults_end(&faults);
        open_again(&fx);
        check_all(&fx);
        fx_destroy(&fx);
}

/* Whoever waits when the drive is closed is not answered, and nothing of it is left. */
static void test_close(void **state)
{
        struct fx_op scan, read, held, ids, owned;
        uint8_t *slot = sh_new_slot();
        struct fx fx;

        make(&fx);
        pretend(&fx, 0, FOREVER);
        start_all(&fx, &scan, &read, &held, &ids, &owned, slot);
        fx_destroy(&fx);
        free(slot);
}

/*
 * The loop ends while a lookup waits for one page and will need others, which are asked for no
 * more: that is no damage of the index.
 */
static void test_stopped_meanwhile(void **state)
{
        struct fd_faults faults;
        char condemned[256];
        struct fx fx;

        make(&fx);
        pretend(&fx, 0, 0);
        fd_faults_hang(&faults, "index/data.mdb");
        start_lookup(&fx, 0, &many[0], many_names[0], "0000-c");
        assert_int_equal(reads(&fx), 1);
        lp_loop_stop(fx.loops[0]);
        usleep(100000); /* its last round is over as a rule */
        fd_faults_feed(&faults, 15 * ENG_PAGE_BYTES);
        fx_close(&fx);
        fd_faults_end(&faults);
        eng_buf_unref(many[0].op.lookup.value);
        eng_buf_unref(many[0].op.lookup.bytes);
        assert_string_equal(fx.failed, "");
        snprintf(condemned, sizeof(condemned), "%s/index/CONDEMNED", fx.path);
        assert_int_equal(access(condemned, F_OK), -1);
        assert_int_equal(fx_open(&fx), 0);
        assert_int_equal(fx_commit(&fx, 1, fx.seq), 0);
        check_all(&fx);
        fx_destroy(&fx);
}

/*
 * Ops that began before a change see it when they go on: never is an older value given than one
 * that was given before.
 */
static void test_changes_meanwhile(void **state)
{
        uint8_t full[2][FMT_NAME_MAX];
        struct fd_faults faults;
        char name[64], other[64];
        struct fx_op early, gone;
        struct fx fx;

        make(&fx);
        name_of(5, name);
        name_of(6, other);
        pretend(&fx, 0, 0);
        fd_faults_hang(&faults, "index/data.mdb");
        start_lookup(&fx, 1, &early, full[0], name);
        start_lookup(&fx, 0, &gone, full[1], other);
        assert_int_equal(reads(&fx), 1);
        assert_int_equal(fx_put(&fx, name, "newer", 5), 0);
        assert_int_equal(fx_delete(&fx, other), 0);
        assert_true(fx_has(&fx, name, "newer", 5)); /* from the tail: no page is needed */
        assert_int_equal(fx_lookup_rv(&fx, other), -ENOENT);
        fd_faults_feed(&faults, 15 * ENG_PAGE_BYTES);
        assert_int_equal(fx_wait(&early), 0);
        assert_true(lookup_gave(&early, "newer"));
        assert_int_equal(fx_wait(&gone), -ENOENT);
        fd_faults_end(&faults);
        fx_destroy(&fx);
}

/*
 * Batches replace the pages that are waited for, and the map is made anew at another place and
 * larger, while ops wait.
 */
static void test_batches_meanwhile(void **state)
{
        char name[64], bytes[32];
        unsigned round, i;
        struct fx fx;

        fx_make(&fx, 2);
        fx.options.index_map_bytes = 256 << 10;
        fx.options.memtable_bytes = 256 << 10;
        assert_int_equal(fx_open(&fx), 0);
        for (i = 0; i < LOOKUPS; i++) {
                name_of(i, name);
                assert_int_equal(fx_put(&fx, name, "0", 1), 0);
        }
        assert_true(fx_wait_indexed(&fx));
        for (round = 1; round <= 6; round++) {
                pretend(&fx, 0, 10);
                for (i = 0; i < LOOKUPS; i++) {
                        name_of(i, name);
                        start_lookup(&fx, i % 2, &many[i], many_names[i], name);
                }
                for (i = 0; i < 500; i++) {
                        sprintf(name, "other-%u-%u", round, i);
                        assert_int_equal(fx_put(&fx, name, name, strlen(name)), 0);
                }
                for (i = 0; i < LOOKUPS; i++) {
                        assert_int_equal(fx_wait(&many[i]), 0);
                        sprintf(bytes, "%u", round - 1);
                        assert_true(lookup_gave(&many[i], bytes));
                }
                for (i = 0; i < LOOKUPS; i++) {
                        name_of(i, name);
                        sprintf(bytes, "%u", round);
                        assert_int_equal(fx_put(&fx, name, bytes, 1), 0);
                }
        }
        assert_string_equal(fx.failed, "");
        fx_destroy(&fx);
}

static void condemn_now(void *arg)
{
        struct fx *fx = arg;

        eng_local_index_error(eng_local_of(fx->local), -EBADMSG);
}

/* The index is condemned while ops wait for its pages: it serves what it can still read. */
static void test_condemned_meanwhile(void **state)
{
        char name[64];
        struct fx fx;
        unsigned i;

        make(&fx);
        pretend(&fx, 0, 100);
        for (i = 0; i < 20; i++) {
                name_of(i, name);
                start_lookup(&fx, i % 2, &many[i], many_names[i], name);
        }
        fx_call(&fx, 0, condemn_now, &fx);
        for (i = 0; i < 20; i++) {
                name_of(i, name);
                assert_int_equal(fx_wait(&many[i]), 0);
                assert_true(lookup_gave(&many[i], name));
        }
        assert_true(eng_drive_index_damaged(fx.local));
        open_again(&fx);
        check_all(&fx);
        fx_destroy(&fx);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_answers),           cmocka_unit_test(test_hang),
                cmocka_unit_test(test_limit),             cmocka_unit_test(test_unreadable),
                cmocka_unit_test(test_close),             cmocka_unit_test(test_changes_meanwhile),
                cmocka_unit_test(test_batches_meanwhile), cmocka_unit_test(test_condemned_meanwhile),
                cmocka_unit_test(test_stopped_meanwhile),
                cmocka_unit_test(test_come_and_go),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
