/*
 * test_remote_faults.c - remote drives over a network in memory, and drives in memory behind the
 * drive server: cut connections, restarts, late and lost operations, slow drives, peers that lie,
 * no memory. The numbers in comments are those of docs/design/remote-drives.md.
 *
 * Linked with malloc() and calloc() wrapped, so that each allocation can fail.
 */
#include "tests/unit/remote/remote_fixture.h"

#include <time.h>

/* ---- memory that fails ----------------------------------------------------------------------- */

static unsigned long fail_at, allocations; /* fail_at 0: none fails */

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);

static bool fails_now(void)
{
        return fail_at != 0 && ++allocations == fail_at;
}

void *__wrap_malloc(size_t size)
{
        return fails_now() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
        return fails_now() ? NULL : __real_calloc(count, size);
}

static enum net_bulk liar_bulk(void *arg, struct net_request *request)
{
        return NET_BULK_DISCARD;
}

static void liar_lost(void *arg, struct net_request *request)
{
}

static uint64_t seed;

static uint64_t draw(void)
{
        seed = eng_hash(&seed, sizeof(seed), 1);
        return seed;
}

/* ---- the ordinary ---------------------------------------------------------------------------- */

static void test_every_kind(void **state)
{
        struct rf rf;
        unsigned kind, i;

        rf_start(&rf);
        for (i = 0; i < RF_DRIVES; i++)
                for (kind = 0; kind < RF_KINDS; kind++) {
                        assert_int_equal(rf_do(&rf, i, (enum eng_op_kind)kind, 1 + kind, 0), 0);
                        assert_int_equal(rf.toys[i].done[kind], 1);
                }
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        rf.toys[0].result = -ENOENT;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), -ENOENT);
        rf.toys[0].result = -ENOSPC;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_WRITE, 1, 0), -ENOSPC);
        rf.toys[0].result = -ESTALE;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 1, 0), -ESTALE);
        assert_int_equal(rf.unreachable + rf.failed, 0);
        rf_stop(&rf);
}

static void test_opening(void **state)
{
        struct rem_opening opening;
        struct eng_epoch_history history;
        uint8_t epoch[REM_EPOCH_MAX];
        struct rem_place place;
        size_t len;
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_ask(&rf, 1, false, &opening), 0);
        assert_memory_equal(opening.facts.identity.drive_id, rf.toys[1].identity.drive_id, FMT_ID);
        assert_int_equal(opening.facts.identity.slot, 1);
        assert_int_equal(rf_ask(&rf, 5, false, &opening), -ENODEV);
        assert_int_equal(eng_drive_epoch(rf.drives[0], epoch, sizeof(epoch), &len, &history), 0);
        assert_int_equal(((struct fmt_epoch *)(void *)epoch)->number, 9);
        assert_int_equal(history.count, 1);
        assert_int_equal(eng_drive_epoch(rf.drives[0], epoch, 10, &len, &history), -ENOBUFS);
        assert_string_equal(eng_drive_damage(rf.drives[0]), "a little");
        assert_false(eng_drive_log_lost(rf.drives[0]));
        assert_true(rem_place_read("remote:7/9/63", &place) && place.node == 7 && place.pool == 9 && place.slot == 63);
        assert_false(rem_place_read("remote:7/9/64", &place) || rem_place_read("remote:7/9/", &place) ||
                     rem_place_read("remote:7/9/1x", &place) || rem_place_read("/srv/1", &place) ||
                     rem_place_read("remote:70000/1/1", &place));
        rf_stop(&rf);
}

/* All that the opening tells of the drive holds from its first moment. */
static void test_opening_of_a_bad_drive(void **state)
{
        struct rf rf;

        rf_start_with(&rf, NULL, 0);
        atomic_store(&rf.toys[0].exhausted, true);
        atomic_store(&rf.toys[0].stalled, true);
        rf_open(&rf, 0);
        rf_open(&rf, 1);
        assert_true(eng_drive_exhausted(rf.drives[0]) && eng_drive_stalled(rf.drives[0]));
        assert_false(eng_drive_exhausted(rf.drives[1]) || eng_drive_stalled(rf.drives[1]));
        rf_stop(&rf);
}

/* 6: the answer is of another drive than was asked for. */
static void test_opening_of_another_drive(void **state)
{
        struct rem_opening opening;
        struct lp_loop *outer;
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_ask(&rf, 0, false, &opening), 0);
        outer = lp_become(rf.a.loops[0]);
        memset(opening.drive_id, 0x60, FMT_ID);
        opening.rv = 1;
        rem_opening_ask(&opening);
        memset(opening.drive_id, 0x61, FMT_ID); /* as if */
        lp_become(outer);
        mem_settle();
        assert_int_equal(opening.rv, -EBADMSG);
        rf_stop(&rf);
}

/* 22: of features that the other end does not know, neither is given any. */
static void test_features(void **state)
{
        const uint64_t unknown = 1ull << 40;
        struct rem_opening opening;
        struct lp_loop *outer;
        struct ask ask;
        struct rf rf;

        rf_start(&rf);
        rf.served[0]->identity.features = 0;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_FEATURES, 0, 0), 0);
        assert_int_equal(rf_ask(&rf, 0, false, &opening), 0);
        assert_int_equal(opening.facts.identity.features, 1); /* whoever gave it */
        ask_make(&ask, ENG_OP_FEATURES, 0);
        ask.op.features.bits = unknown;
        ask_submit(&rf, rf.drives[0], 0, &ask);
        mem_settle();
        assert_int_equal(ask.op.result, -EHOSTUNREACH);
        assert_int_equal(rf.toys[0].done[ENG_OP_FEATURES], 1);
        ask_free(&ask);
        rf_begin_again(&rf, 0);
        outer = lp_become(rf.a.loops[0]);
        opening.features = unknown;
        opening.begin = true;
        opening.rv = 1;
        rem_opening_ask(&opening);
        lp_become(outer);
        mem_settle();
        assert_int_equal(opening.rv, -EACCES);
        assert_int_equal(rf.toys[0].done[ENG_OP_FEATURES], 1);
        rf.served[0]->identity.features |= unknown;
        assert_int_equal(rf_ask(&rf, 0, false, &opening), -EPROTONOSUPPORT);
        rf.served[0]->identity.features = 1;
        rf.served[0]->identity.layout = FMT_LAYOUT_VERSION + 1;
        assert_int_equal(rf_ask(&rf, 0, true, &opening), -EPROTONOSUPPORT);
        rf_stop(&rf);
}

/* What the drive server says by itself. */
static void test_watch(void **state)
{
        struct eng_drive_info info;
        struct rf rf;

        rf_start(&rf);
        mem_pass(1500);
        eng_drive_info(rf.drives[0], &info);
        assert_int_equal(info.free_bytes, 4711);
        assert_int_equal(info.state, ENG_DRIVE_IN);
        assert_false(eng_drive_exhausted(rf.drives[0]));
        atomic_store(&rf.toys[0].exhausted, true);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SYNC, 0, 0), 0); /* any answer says so */
        assert_true(eng_drive_exhausted(rf.drives[0]));
        assert_false(eng_drive_exhausted(rf.drives[1]));
        rf.toys[0].result = -EIO;
        mem_pass(1500);
        assert_int_equal(rf.failed, 1);
        assert_string_equal(rf.text, "it burns");
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SYNC, 0, 0), -EIO);
        mem_pass(3000);
        assert_int_equal(rf.failed, 1); /* it is told once */
        eng_drive_info(rf.drives[0], &info);
        assert_int_equal(info.state, ENG_DRIVE_FAILED);
        rf_stop(&rf);
}

static void say_superseded(struct rf *rf, unsigned from, unsigned n)
{
        struct lp_loop *outer = lp_become(rf->served[0]->owner);
        struct fmt_value value = {.space = FMT_SPACE_OBJECT};
        unsigned i;

        for (i = 0; i < n; i++) {
                struct eng_buf *buf = eng_buf_new(sizeof(value));

                value.seq = from + i;
                memcpy(buf->data, &value, sizeof(value));
                rem_served_superseded(rf->served[0], &rf->toys[0].base, &buf, 1);
                eng_buf_unref(buf);
        }
        lp_become(outer);
}

/* 16 */
static void test_superseded(void **state)
{
        unsigned round;
        struct rf rf;

        rf_start(&rf);
        say_superseded(&rf, 0, 100);
        mem_settle();
        mem_pass(100);
        assert_int_equal(rf.superseded, 100);
        for (round = 1; round <= 20; round++) { /* answers that are lost: all come, each once */
                say_superseded(&rf, 100 * round, 3);
                mem_cut_at = mem_event_count + round;
                mem_pass(3000);
                mem_cut_at = 0;
                mem_pass(5000);
                assert_int_equal(rf.superseded, 100 + 3 * round);
        }
        mem_pass(2000);
        assert_true(STAILQ_EMPTY(&rf.served[0]->reports));
        say_superseded(&rf, 0, 1);
        rf_stop(&rf);
}

/* ---- connections that end -------------------------------------------------------------------- */

/* One op that is cut at an event; whether it was. */
static bool cut_once(struct rf *rf, enum eng_op_kind kind, uint64_t number, unsigned at)
{
        struct toy *toy = &rf->toys[0];
        struct ask ask;
        unsigned before = toy->done[kind];
        bool was;

        ask_make(&ask, kind, number);
        mem_cut_at = mem_event_count + at;
        ask_submit(rf, rf->drives[0], at % MEM_LOOPS, &ask);
        mem_settle();
        was = mem_event_count >= mem_cut_at;
        mem_cut_at = 0;
        if (ask.times == 0)
                mem_pass(12000);
        assert_int_equal(ask.times, 1);
        if (ask.op.result == 0)
                ask_check(rf, toy, &ask);
        else
                assert_true(ask.op.result == -EHOSTUNREACH);
        assert_true(toy->done[kind] - before <= 1);
        assert_true(ask.op.result != 0 || toy->done[kind] - before == 1);
        assert_true(number >= 4096 || toy->seen[number] <= 1);
        ask_free(&ask);
        return was;
}

/* 10, 11: every kind, the connection cut at every event of it, and in the middle of frames. */
static void test_cut_everywhere(void **state)
{
        static const size_t chunks[] = {SIZE_MAX, 3000, 60};
        unsigned kind, at, chunk;
        struct rf rf;

        rf_start(&rf);
        for (chunk = 0; chunk < 3; chunk++)
                for (kind = 0; kind < RF_KINDS; kind++) {
                        uint64_t number = 1;

                        memset(rf.toys[0].seen, 0, sizeof(rf.toys[0].seen));
                        mem_chunk = rem_is_bulk((enum eng_op_kind)kind) && chunk == 2 ? 3001 : chunks[chunk];
                        for (at = 1; cut_once(&rf, (enum eng_op_kind)kind, number++, at) && at < 400;
                             at += chunk == 0 ? 1 : 3)
                                rf_begin_again(&rf, 0);
                        assert_true(at > 1);
                        assert_true(rf_has_no_slots(&rf));
                }
        mem_chunk = SIZE_MAX;
        rf_begin_again(&rf, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        rf_stop(&rf);
}

/* The drive works while the connection ends: its answer is of nobody. */
static void test_cut_while_the_drive_works(void **state)
{
        struct ask asks[RF_KINDS];
        unsigned kind;
        struct rf rf;

        rf_start(&rf);
        for (kind = 0; kind < RF_KINDS; kind++) {
                rf.toys[0].holds[kind] = true;
                ask_make(&asks[kind], (enum eng_op_kind)kind, 1 + kind);
                ask_submit(&rf, rf.drives[0], 0, &asks[kind]);
        }
        mem_settle();
        assert_int_equal(rf.toys[0].held_count, RF_KINDS);
        rf_cut(&rf, NET_LOG);
        rf_cut(&rf, NET_BULK_0);
        rf_cut(&rf, NET_BULK_1);
        for (kind = 0; kind < RF_KINDS; kind++) {
                assert_int_equal(asks[kind].times, 1);
                assert_int_equal(asks[kind].op.result, -EHOSTUNREACH);
                ask_free(&asks[kind]);
        }
        toy_release(&rf.toys[0]);
        for (kind = 0; kind < RF_KINDS; kind++)
                assert_int_equal(rf.toys[0].done[kind], 1);
        assert_true(rf_has_no_slots(&rf));
        rf_begin_again(&rf, 0);
        rf_stop(&rf);
}

/* 1: a COMMIT is lost; a LOOKUP that is asked when there is a connection again does not pass it. */
static void test_lost_commit(void **state)
{
        struct ask commit, before, behind;
        struct mem_end *end;
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_COMMIT, 1, 0), 0);
        end = mem_of(rf.to_b->links[NET_LOG].conn->stream);
        end->other->held = true; /* the node does not read */
        ask_make(&before, ENG_OP_LOOKUP, 0);
        ask_make(&commit, ENG_OP_COMMIT, 2);
        ask_make(&behind, ENG_OP_LOOKUP, 0);
        ask_submit(&rf, rf.drives[0], 0, &commit);
        mem_settle();
        rf_cut(&rf, NET_LOG);
        assert_int_equal(commit.times, 1);
        assert_int_equal(commit.op.result, -EHOSTUNREACH);
        mem_pass(5000);
        ask_submit(&rf, rf.drives[0], 0, &behind); /* the engine does not know of it yet */
        mem_pass(1000);
        assert_int_equal(behind.times, 1);
        assert_int_equal(behind.op.result, -EHOSTUNREACH);
        assert_int_equal(rf.toys[0].committed, 1);
        assert_int_equal(rf.unreachable, 1);
        assert_non_null(strstr(rf.text, "COMMIT"));
        assert_int_equal(rf_do(&rf, 0, ENG_OP_COMMIT, 3, 0), -EHOSTUNREACH); /* nor does a later one count */
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SYNC, 0, 0), -EHOSTUNREACH);
        rf_begin_again(&rf, 0);
        ask_submit(&rf, rf.drives[0], 0, &before);
        mem_settle();
        assert_int_equal(before.op.result, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_COMMIT, 4, 0), 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        ask_free(&before);
        ask_free(&commit);
        ask_free(&behind);
        rf_stop(&rf);
}

/* A lost LOOKUP changes nothing: the next one is answered as soon as the node is reached again. */
static void test_lost_question(void **state)
{
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        rf.toys[0].holds[ENG_OP_LOOKUP] = true;
        mem_cut_at = mem_event_count + 1;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), -EHOSTUNREACH);
        mem_cut_at = 0;
        toy_release(&rf.toys[0]);
        mem_pass(5000);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        assert_int_equal(rf.unreachable, 0);
        rf_stop(&rf);
}

/* ---- nodes that say nothing ------------------------------------------------------------------ */

/* What the node of a drive says, and what it is asked, stays on its way; or comes. */
static void node_is_mute(struct rf *rf, bool mute)
{
        unsigned i;

        for (i = 0; i < NET_LINKS; i++)
                if (rf->to_b->links[i].conn != NULL)
                        mem_of(rf->to_b->links[i].conn->stream)->held = mute;
}

static void ask_others_too(struct rf *rf, struct ask *ask, enum eng_op_kind kind, bool others)
{
        ask_make(ask, kind, 0);
        ask->op.flags |= others ? ENG_OP_OTHERS : 0;
        ask_submit(rf, rf->drives[0], 0, ask);
}

/* What others can be asked for is given up soon; the rest waits, and so does what asks the drive alone. It is asked again first when it has said something. */
static void test_mute_node(void **state)
{
        struct ask lookup, scan, alone;
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        node_is_mute(&rf, true);
        ask_others_too(&rf, &lookup, ENG_OP_LOOKUP, true);
        ask_others_too(&rf, &scan, ENG_OP_SCAN, true);
        ask_others_too(&rf, &alone, ENG_OP_LOOKUP, false);
        mem_pass(REM_MUTE_NS / 1000000 - 60);
        assert_int_equal(lookup.times + scan.times + alone.times, 0);
        assert_false(eng_drive_is_last(rf.drives[0]));
        mem_pass(200);
        assert_int_equal(lookup.op.result, -EAGAIN);
        assert_int_equal(scan.op.result, -EAGAIN);
        assert_int_equal(alone.times, 0);
        assert_true(eng_drive_is_last(rf.drives[0]));
        assert_false(eng_drive_unreliable(rf.drives[0]));
        node_is_mute(&rf, false);
        mem_pass(1000);
        assert_int_equal(alone.times, 1);
        assert_int_equal(alone.op.result, 0);
        assert_int_equal(lookup.times + scan.times, 2); /* once each */
        assert_false(eng_drive_is_last(rf.drives[0]));
        assert_int_equal(rf.unreachable, 0);
        ask_free(&lookup);
        ask_free(&scan);
        ask_free(&alone);
        rf_stop(&rf);
}

static unsigned slots_left;
static void *slot_that_left;

static void slot_left(struct lp_loop *home, void *slot)
{
        MUST(lp_self() == home);
        slots_left++;
        slot_that_left = slot;
}

static void read_here(struct rf *rf, struct ask *ask, bool may_leave)
{
        ask_make(ask, ENG_OP_READ, 0);
        ask->op.flags |= ENG_OP_OTHERS;
        ask->op.read.left = may_leave ? slot_left : NULL;
        ask_submit(rf, rf->drives[0], 0, ask);
}

/* Its connections for shards are open, and it says nothing from now on. */
static void start_and_mute(struct rf *rf)
{
        rf_start(rf);
        slots_left = 0;
        assert_int_equal(rf_do(rf, 0, ENG_OP_READ, 0, 0), 0);
        node_is_mute(rf, true);
}

static bool lets_go(struct rf *rf)
{
        struct lp_loop *outer = lp_become(rf->a.loops[1]);
        bool quiet = eng_drive_let_go(rf->drives[0]);

        lp_become(outer);
        return quiet;
}

/* A shard that others have is given up as soon, and its slot goes back when no bytes can come into it any more. */
static void test_mute_node_and_shards(void **state)
{
        struct ask left, waits;
        struct rf rf;

        start_and_mute(&rf);
        read_here(&rf, &left, true);
        read_here(&rf, &waits, false);
        mem_pass(REM_MUTE_NS / 1000000 - 60);
        assert_int_equal(left.times + waits.times, 0);
        mem_pass(200);
        assert_int_equal(left.op.result, -EAGAIN);
        assert_null(left.op.read.slot);
        assert_int_equal(waits.times + slots_left, 0);
        assert_true(eng_drive_is_last(rf.drives[0]));
        node_is_mute(&rf, false);
        mem_pass(1000);
        assert_int_equal(waits.op.result, 0);
        assert_int_equal(left.times + waits.times, 2);
        assert_int_equal(slots_left, 1);
        assert_ptr_equal(slot_that_left, left.slot);
        ask_free(&left);
        ask_free(&waits);
        rf_stop(&rf);
}

/* A drive is not closed before that, and a connection that ends gives the slot back, too. */
static void test_mute_node_is_let_go(void **state)
{
        struct ask left;
        struct rf rf;

        start_and_mute(&rf);
        read_here(&rf, &left, true);
        mem_pass(400);
        assert_int_equal(left.op.result, -EAGAIN);
        assert_false(lets_go(&rf));
        assert_int_equal(slots_left, 0);
        rf_cut(&rf, NET_BULK_0);
        rf_cut(&rf, NET_BULK_1);
        mem_pass(3000);
        assert_int_equal(slots_left, 1);
        node_is_mute(&rf, false);
        mem_pass(3000);
        assert_true(lets_go(&rf));
        ask_free(&left);
        rf_stop(&rf);
}

/* A drive that is slow by itself is waited for as long as its node says something. */
static void test_slow_is_not_mute(void **state)
{
        struct ask lookup;
        struct rf rf;
        unsigned i;

        rf_start(&rf);
        rf.toys[0].holds[ENG_OP_LOOKUP] = true;
        ask_others_too(&rf, &lookup, ENG_OP_LOOKUP, true);
        for (i = 0; i < 20; i++) {
                mem_pass(50);
                assert_int_equal(rf_do(&rf, 0, ENG_OP_HELD, 0, 0), 0);
        }
        assert_int_equal(lookup.times, 0);
        toy_release(&rf.toys[0]);
        assert_int_equal(lookup.op.result, 0);
        ask_free(&lookup);
        rf_stop(&rf);
}

/* The loop of who asks stood still for seconds, and so has heard nothing. */
static void test_own_loop_stood_still(void **state)
{
        struct ask lookup;
        struct rf rf;

        rf_start(&rf);
        rf.toys[0].holds[ENG_OP_LOOKUP] = true;
        ask_others_too(&rf, &lookup, ENG_OP_LOOKUP, true);
        mem_now += 1000 * NET_MS;
        mem_pass(50);
        assert_int_equal(lookup.times, 0);
        assert_false(eng_drive_is_last(rf.drives[0]));
        toy_release(&rf.toys[0]);
        assert_int_equal(lookup.op.result, 0);
        ask_free(&lookup);
        rf_stop(&rf);
}

/* Given up, and the drive is closed, or its connection ends, before the answer comes. */
static void test_mute_and_gone(void **state)
{
        struct ask lookup;
        struct rf rf;

        rf_start(&rf);
        node_is_mute(&rf, true);
        ask_others_too(&rf, &lookup, ENG_OP_LOOKUP, true);
        mem_pass(400);
        assert_int_equal(lookup.op.result, -EAGAIN);
        ask_free(&lookup);
        rf_cut(&rf, NET_LOG);
        mem_pass(3000);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        node_is_mute(&rf, true);
        ask_others_too(&rf, &lookup, ENG_OP_LOOKUP, true);
        mem_pass(400);
        assert_int_equal(lookup.op.result, -EAGAIN);
        ask_free(&lookup);
        rf_stop(&rf);
}

/* ---- incarnations ---------------------------------------------------------------------------- */

/* 2 */
static void test_restart_between_write_and_sync(void **state)
{
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_WRITE, 1, 0), 0);
        rf_restart_drive(&rf, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SYNC, 0, 0), -EHOSTUNREACH);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_WRITE, 2, 0), -EHOSTUNREACH);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_READ, 1, 0), -EHOSTUNREACH);
        assert_int_equal(rf.toys[0].done[ENG_OP_SYNC], 0);
        assert_int_equal(rf.unreachable, 1);
        rf_begin_again(&rf, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_WRITE, 3, 0), 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SYNC, 0, 0), 0);
        assert_int_equal(rf_do(&rf, 1, ENG_OP_SYNC, 0, 0), 0);
        rf_stop(&rf);
}

/* 3: what reads, or says that it is there, does not make it known again. */
static void test_restart_seen_by_a_read(void **state)
{
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_WRITE, 1, 0), 0);
        rf_restart_drive(&rf, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), -EHOSTUNREACH);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_HELD, 0, 0), -EHOSTUNREACH);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SYNC, 0, 0), -EHOSTUNREACH);
        mem_pass(3000);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SYNC, 0, 0), -EHOSTUNREACH);
        rf_stop(&rf);
}

/* The restart is noticed although nothing is asked. */
static void test_restart_is_told(void **state)
{
        struct rf rf;

        rf_start(&rf);
        mem_pass(1500);
        rf_restart_drive(&rf, 0);
        mem_pass(3000);
        assert_int_equal(rf.unreachable, 1);
        rf_begin_again(&rf, 0);
        mem_pass(3000);
        assert_int_equal(rf.unreachable, 1);
        say_superseded(&rf, 0, 5); /* which the new one counts anew */
        mem_pass(2000);
        assert_int_equal(rf.superseded, 5);
        rf_stop(&rf);
}

/* 19: a WATCH passes a begin that is on its way, and is refused: that says nothing of the session which begins then. */
static void test_refused_before_the_begin(void **state)
{
        struct mem_end *end;
        struct ask ask;
        struct rf rf;

        rf_start(&rf);
        rf_begin_again(&rf, 0);
        end = mem_of(rf.to_b->links[NET_LOG].conn->stream)->other;
        end->held = true;
        ask_make(&ask, ENG_OP_HELD, 0);
        ask.op.flags |= ENG_OP_ANEW;
        ask_submit(&rf, rf.drives[0], 0, &ask);
        mem_pass(2000); /* of the session that has not come */
        assert_int_equal(ask.times, 0);
        end->held = false;
        mem_settle();
        assert_int_equal(ask.times, 1);
        assert_int_equal(ask.op.result, 0);
        ask_free(&ask);
        rf.unreachable = 0;
        mem_pass(3000);
        assert_int_equal(rf.unreachable, 0);
        rf_restart_drive(&rf, 0);
        mem_pass(3000);
        assert_int_equal(rf.unreachable, 1); /* it is told, though nothing is asked */
        rf_stop(&rf);
}

/* 19: what was refused before, and comes late, by slower connections: of another incarnation, and of no such drive. */
static void test_late_refusal(void **state)
{
        struct mem_end *log, *bulk, *control;
        struct ask begin, read;
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_READ, 1, 0), 0);
        log = mem_of(rf.to_b->links[NET_LOG].conn->stream)->other;
        bulk = mem_of(rf.to_b->links[NET_BULK_0].conn->stream);
        control = mem_of(rf.to_b->links[NET_CONTROL].conn->stream);
        log->held = bulk->held = control->held = true;
        rf_restart_drive(&rf, 0);
        ask_make(&begin, ENG_OP_HELD, 0);
        begin.op.flags |= ENG_OP_ANEW;
        ask_submit(&rf, rf.drives[0], 0, &begin);
        mem_settle();
        ask_make(&read, ENG_OP_READ, 1); /* in the new session, of the old incarnation */
        ask_submit(&rf, rf.drives[0], 0, &read);
        mem_settle();
        log->held = false;
        mem_settle();
        assert_int_equal(begin.times, 1);
        assert_int_equal(begin.op.result, 0);
        assert_int_equal(read.times, 0);
        bulk->held = control->held = false;
        mem_settle();
        assert_int_equal(read.times, 1);
        assert_int_equal(read.op.result, -EHOSTUNREACH);
        assert_int_equal(rf.unreachable, 0);
        ask_free(&begin);
        ask_free(&read);
        rf_stop(&rf);
}

/* 19: the drive had failed, and was opened anew; the answer of before comes late. */
static void test_late_failure(void **state)
{
        struct mem_end *end;
        struct ask ask;
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_READ, 1, 0), 0);
        end = mem_of(rf.to_b->links[NET_BULK_0].conn->stream);
        end->held = true;
        rf.toys[0].result = -EIO;
        ask_make(&ask, ENG_OP_READ, 1);
        ask_submit(&rf, rf.drives[0], 0, &ask);
        mem_settle();
        rf.toys[0].result = 0;
        rf_restart_drive(&rf, 0);
        rf_begin_again(&rf, 0);
        end->held = false;
        mem_settle();
        assert_int_equal(ask.times, 1);
        assert_int_equal(ask.op.result, -EIO);
        assert_int_equal(rf.failed, 0);
        ask_free(&ask);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_WRITE, 2, 0), 0);
        rf_stop(&rf);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* Fields of a message that a remote drive would not send. */
struct raw {
        uint64_t session, commits, incarnation;
        unsigned flags; /* of the operation */
        enum net_link_number link;
        uint8_t drive_id, kind;
        uint16_t slot;
        bool wrong_crc; /* of an APPEND */
};

static struct raw raw_of(struct rf *rf, enum eng_op_kind kind)
{
        struct remote_drive *d = remote_of(rf->drives[0]);

        return (struct raw){.session = d->session,
                            .commits = d->commits,
                            .incarnation = d->incarnation,
                            .link = rem_is_bulk(kind) ? NET_BULK_0 : NET_LOG,
                            .drive_id = 0x60,
                            .kind = (uint8_t)kind};
}

/* The status that it is answered with. from NULL: the first node. */
static int raw_ask(struct rf *rf, struct mem_node *from, struct net_peer *peer, const struct raw *raw)
{
        struct rem_head head = {.pool = RF_POOL,
                                .slot = raw->slot,
                                .incarnation = raw->incarnation,
                                .session = raw->session,
                                .commits = raw->commits};
        uint8_t body[sizeof(head) + ENG_WIRE_BODY_MAX];
        struct mem_call mem = {
                .call = {.peer = peer != NULL ? peer : rf->to_b, .link = raw->link, .operation = REM_OP, .body = body}};
        struct eng_wire_parts parts;
        struct ask ask;
        int len;

        memset(head.drive_id, raw->drive_id, FMT_ID);
        memcpy(body, &head, sizeof(head));
        ask_make(&ask, (enum eng_op_kind)raw->kind, 1);
        ask.op.flags |= raw->flags;
        if (raw->wrong_crc)
                ask.op.append.body_crc ^= 4;
        len = eng_wire_put_request(&ask.op, body + sizeof(head), &parts);
        assert_true(len > 0);
        mem.call.body_len = (uint32_t)(sizeof(head) + (size_t)len);
        if (parts.count > 0) {
                mem.call.bulk[0] = (struct iovec){(void *)parts.part[0].bytes, parts.part[0].len};
                mem.call.bulk_count = 1;
        }
        mem_call(from != NULL ? from : &rf->a, &mem);
        if (!mem.done)
                mem_pass(12000);
        assert_true(mem.done);
        assert_int_equal(mem.call.outcome, NET_ANSWERED);
        ask_free(&ask);
        return mem.call.status;
}

/* 4: of what the old session has sent, only that is done which the server had taken before the new one began. */
static void test_late_session(void **state)
{
        struct ask asks[3];
        struct raw late;
        unsigned i;
        struct rf rf;

        rf_start_with(&rf, NULL, 8000); /* credit for one APPEND at a time */
        rf_open(&rf, 0);
        rf.toys[0].holds[ENG_OP_APPEND] = true;
        for (i = 0; i < 3; i++) {
                ask_make(&asks[i], ENG_OP_APPEND, 10 + i);
                ask_submit(&rf, rf.drives[0], 0, &asks[i]);
        }
        mem_settle();
        assert_int_equal(rf.toys[0].held_count, 1);
        late = raw_of(&rf, ENG_OP_APPEND);
        rf_cut(&rf, NET_LOG);
        for (i = 0; i < 3; i++) {
                assert_int_equal(asks[i].times, 1);
                assert_int_equal(asks[i].op.result, -EHOSTUNREACH);
                ask_free(&asks[i]);
        }
        rf_begin_again(&rf, 0);
        assert_int_equal(raw_ask(&rf, NULL, NULL, &late), REM_OLD_SESSION);
        toy_release(&rf.toys[0]);
        assert_int_equal(rf.toys[0].done[ENG_OP_APPEND], 1);
        assert_int_equal(rf.toys[0].seen[10], 1);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 4, 0), 0);
        rf_stop(&rf);
}

/* 5: begins that come late; and everything else of sessions that the server checks. */
static void test_late_begin(void **state)
{
        struct raw raw;
        struct rf rf;

        rf_start(&rf);
        rf_begin_again(&rf, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_COMMIT, 1, 0), 0);
        raw = raw_of(&rf, ENG_OP_HELD);
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_DONE);
        raw.flags = ENG_OP_ANEW; /* the same once more, and an older one */
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_OLD_SESSION);
        raw.session--;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_OLD_SESSION);
        raw.flags = 0;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_OLD_SESSION);
        raw.session += 2; /* one that was not begun */
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_OLD_SESSION);
        raw = raw_of(&rf, ENG_OP_COMMIT);
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_GAP); /* the last one again */
        raw.commits += 2;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_GAP);
        raw = raw_of(&rf, ENG_OP_LOOKUP);
        raw.commits++;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_GAP);
        assert_int_equal(rf.toys[0].done[ENG_OP_COMMIT], 1);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0); /* none of this did any harm */
        rf_stop(&rf);
}

/* 5: a store ends, and another begins in the same process, with a client of its own. */
static void test_another_client(void **state)
{
        struct rem_opening opening;
        struct lp_loop *outer;
        unsigned i;
        struct rf rf;

        rf_start(&rf);
        rf_begin_again(&rf, 0);
        outer = lp_become(rf.a.loops[1]);
        for (i = 0; i < RF_DRIVES; i++)
                eng_drive_let_go(rf.drives[i]);
        lp_become(outer);
        mem_pass(2000); /* their WATCHes are back */
        for (i = 0; i < RF_DRIVES; i++)
                rf.drives[i]->ops->close(rf.drives[i]);
        rem_client_free(rf.client);
        assert_int_equal(
                rem_client_new(&(struct rem_client_options){.net = rf.a.node.net, .loop = rf.a.loops[0]}, &rf.client),
                0);
        assert_int_equal(rf_ask(&rf, 0, true, &opening), 0);
        for (i = 0; i < RF_DRIVES; i++)
                rf_open(&rf, i);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 1, 0), 0);
        rf_stop(&rf);
}

/* 6: the wrong drive, connection or form. */
static void test_another_drive(void **state)
{
        struct raw raw;
        struct rf rf;

        rf_start(&rf);
        raw = raw_of(&rf, ENG_OP_APPEND);
        raw.drive_id++;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_UNKNOWN_DRIVE);
        raw = raw_of(&rf, ENG_OP_WRITE);
        raw.slot = 7;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_UNKNOWN_DRIVE);
        raw.slot = 64;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_BAD);
        raw = raw_of(&rf, ENG_OP_WRITE);
        raw.incarnation++;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_OTHER_INCARNATION);
        raw.flags = ENG_OP_ANEW; /* a WRITE begins nothing */
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_OTHER_INCARNATION);
        raw = raw_of(&rf, ENG_OP_WRITE);
        raw.link = NET_LOG;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_BAD);
        raw = raw_of(&rf, ENG_OP_LOOKUP);
        raw.link = NET_BULK_1;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_BAD);
        assert_int_equal(
                rf.toys[0].done[ENG_OP_WRITE] + rf.toys[0].done[ENG_OP_APPEND] + rf.toys[0].done[ENG_OP_LOOKUP], 0);
        raw = raw_of(&rf, ENG_OP_WRITE);
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_DONE);
        rf_stop(&rf);
}

/* Requests of random bytes, and ones that were changed: refused, or done; nothing is left of them. */
static void test_random_requests(void **state)
{
        struct rf rf;
        unsigned i, j;

        rf_start(&rf);
        for (i = 0; i < 3000; i++) {
                struct rem_head head;
                uint8_t body[sizeof(struct rem_head) + ENG_WIRE_BODY_MAX], bulk[5000];
                struct mem_call mem = {
                        .call = {.peer = rf.to_b, .link = (enum net_link_number)(draw() % NET_LINKS), .body = body}};
                struct eng_wire_parts parts;
                struct ask ask;
                int len;

                ask_make(&ask, (enum eng_op_kind)(draw() % RF_KINDS), 1);
                if (ask.op.kind == ENG_OP_SCAN)
                        ask.op.scan.max = (uint32_t)(draw() % 1000);
                remote_head(remote_of(rf.drives[0]), &head);
                memcpy(body, &head, sizeof(head));
                len = eng_wire_put_request(&ask.op, body + sizeof(head), &parts);
                assert_true(len > 0);
                for (j = 0; j < draw() % 4; j++)
                        body[draw() % (sizeof(head) + (size_t)len)] ^= (uint8_t)(1u << draw() % 8);
                mem.call.operation = REM_OPERATIONS + (uint32_t)(draw() % 4);
                mem.call.body_len = draw() % 4 == 0 ? (uint32_t)(draw() % 400) : (uint32_t)(sizeof(head) + (size_t)len);
                memset(bulk, 1, sizeof(bulk));
                if (draw() % 3 == 0) {
                        mem.call.bulk[0] = (struct iovec){bulk, 1 + draw() % sizeof(bulk)};
                        mem.call.bulk_count = 1;
                }
                if (draw() % 2 == 0) {
                        mem.call.room[0] = (struct iovec){bulk, draw() % sizeof(bulk)};
                        mem.call.room_count = 1;
                }
                mem_call(&rf.a, &mem);
                if (!mem.done)
                        mem_pass(2000);
                assert_true(mem.done);
                ask_free(&ask);
        }
        assert_true(rf_has_no_slots(&rf));
        rf_begin_again(&rf, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_WRITE, 1, 0), 0);
        rf_stop(&rf);
}

/* 15: another node begins; the first one hears of it, and nothing of it is done any more. */
static void test_two_clients(void **state)
{
        struct net_options options = node_options(3, 7);
        struct net_peer *from_c;
        struct mem_node c;
        struct raw raw;
        struct rf rf;

        rf_start(&rf);
        mem_node_start(&c, &options);
        from_c = mem_knows(&c, 2);
        mem_knows(&rf.b, 3);
        raw = raw_of(&rf, ENG_OP_APPEND);
        assert_int_equal(raw_ask(&rf, &c, from_c, &raw), REM_OLD_SESSION);
        raw = raw_of(&rf, ENG_OP_HELD);
        raw.flags = ENG_OP_ANEW;
        raw.session = 1;
        assert_int_equal(raw_ask(&rf, &c, from_c, &raw), REM_DONE);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 1, 0), -EHOSTUNREACH);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_COMMIT, 1, 0), -EHOSTUNREACH);
        assert_int_equal(rf.toys[0].done[ENG_OP_APPEND] + rf.toys[0].done[ENG_OP_COMMIT], 0);
        assert_int_equal(rf.unreachable, 1);
        mem_node_stop(&c);
        rf_stop(&rf);
}

/* ---- buffers and credits --------------------------------------------------------------------- */

/* 7 */
static void test_commit_passes_waiting_appends(void **state)
{
        struct ask asks[6];
        unsigned i;
        struct rf rf;

        rf_start_with(&rf, NULL, 12000);
        rf_open(&rf, 0);
        rf.toys[0].holds[ENG_OP_APPEND] = true;
        for (i = 0; i < 6; i++) {
                ask_make(&asks[i], ENG_OP_APPEND, 10 + i);
                ask_submit(&rf, rf.drives[0], 0, &asks[i]);
        }
        mem_settle();
        assert_int_equal(rf.toys[0].held_count, 2); /* the others have no credit */
        assert_int_equal(rf_do(&rf, 0, ENG_OP_COMMIT, 1, 0), 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_COMMIT, 2, 0), 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        toy_release(&rf.toys[0]);
        for (i = 0; i < 6; i++) {
                assert_int_equal(asks[i].times, 1);
                assert_int_equal(asks[i].op.result, 0);
                assert_int_equal(rf.toys[0].seen[10 + i], 1);
                ask_free(&asks[i]);
        }
        rf_stop(&rf);
}

/* 8: of WRITEs, and of READs. There are four slots on a loop. */
static void slow_drive(enum eng_op_kind kind)
{
        struct ask asks[10];
        struct rem_stats stats;
        unsigned i, answered = 0;
        struct rf rf;

        rf_start(&rf);
        rf.toys[0].holds[kind] = true;
        for (i = 0; i < 10; i++) {
                ask_make(&asks[i], kind, 1 + i);
                ask_submit(&rf, rf.drives[0], i % MEM_LOOPS, &asks[i]);
        }
        mem_pass(300);
        assert_int_equal(rf.toys[0].held_count, 2);
        remote_of(rf.drives[1])->lane = 2; /* on the same connection */
        for (i = 0; i < 5; i++) {
                assert_int_equal(rf_do(&rf, 1, ENG_OP_WRITE, 20 + i, 0), 0);
                assert_int_equal(rf_do(&rf, 1, ENG_OP_READ, 20 + i, 0), 0);
        }
        for (i = 0; i < 10; i++)
                answered += asks[i].times;
        assert_int_equal(answered, 0);
        toy_release(&rf.toys[0]);
        mem_pass(2000);
        for (i = 0; i < 10; i++) { /* what was refused was sent again, and done once */
                ask_check(&rf, &rf.toys[0], &asks[i]);
                ask_free(&asks[i]);
        }
        assert_int_equal(rf.toys[0].done[kind], 10);
        rem_stats_read(rf.client, &stats);
        assert_true(stats.busy >= 8);
        rf_stop(&rf);
}

static void test_slow_drive(void **state)
{
        slow_drive(ENG_OP_WRITE);
        slow_drive(ENG_OP_READ);
}

/* 26: more is asked of a drive that is slow than can wait: a COMMIT has room all the same, and memory an end. */
static void test_commit_among_questions(void **state)
{
        static struct ask asks[3000];
        struct ask commit;
        unsigned i, again = 0;
        struct rf rf;

        rf_start(&rf);
        rf.toys[0].holds[ENG_OP_LOOKUP] = true;
        for (i = 0; i < 3000; i++) {
                ask_make(&asks[i], ENG_OP_LOOKUP, 0);
                ask_submit(&rf, rf.drives[0], i % MEM_LOOPS, &asks[i]);
        }
        mem_settle();
        ask_make(&commit, ENG_OP_COMMIT, 1);
        ask_submit(&rf, rf.drives[0], 0, &commit);
        mem_settle();
        assert_int_equal(commit.times, 0); /* it waits its turn */
        assert_true(remote_of(rf.drives[0])->asked_bytes <= REM_ASKED_BYTES);
        toy_release(&rf.toys[0]);
        assert_int_equal(commit.op.result, 0);
        ask_free(&commit);
        for (i = 0; i < 3000; i++) {
                assert_int_equal(asks[i].times, 1);
                again += asks[i].op.result == -EAGAIN;
                assert_true(asks[i].op.result == 0 || asks[i].op.result == -EAGAIN);
                ask_free(&asks[i]);
        }
        assert_int_equal(again, 3000 - REM_ASKED_MOST);
        assert_int_equal(remote_of(rf.drives[0])->asked_bytes, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        rf_stop(&rf);
}

/* 26: an object of 10,000 parts is deleted: the DISCARDs wait here, and all are done; a COMMIT passes them. */
static void test_commit_among_discards(void **state)
{
        static struct ask asks[10000];
        struct ask commit, lookup;
        unsigned i;
        struct rf rf;

        rf_start(&rf);
        for (i = 0; i < 10000; i++) {
                ask_make(&asks[i], i % 100 == 99 ? ENG_OP_SYNC : ENG_OP_DISCARD, 0);
                ask_submit(&rf, rf.drives[0], i % MEM_LOOPS, &asks[i]);
        }
        ask_make(&commit, ENG_OP_COMMIT, 1);
        ask_submit(&rf, rf.drives[0], 0, &commit);
        ask_make(&lookup, ENG_OP_LOOKUP, 0);
        ask_submit(&rf, rf.drives[0], 0, &lookup);
        mem_settle();
        assert_int_equal(commit.op.result, 0);
        assert_int_equal(lookup.op.result, 0);
        ask_check(&rf, &rf.toys[0], &lookup);
        ask_free(&commit);
        ask_free(&lookup);
        for (i = 0; i < 10000; i++) {
                assert_int_equal(asks[i].times, 1);
                assert_int_equal(asks[i].op.result, 0);
                ask_free(&asks[i]);
        }
        assert_int_equal(rf.toys[0].done[ENG_OP_DISCARD], 9900);
        assert_int_equal(rf.unreachable, 0);
        rf_stop(&rf);
}

/* 26: so do questions for other drives of the node, which share the connection. */
static void test_commit_among_neighbours(void **state)
{
        enum { NEIGHBOURS = 20, EACH = 600 };
        static struct ask asks[NEIGHBOURS + 1][EACH];
        struct eng_local_options options = {.path = "remote:2/3/0"};
        struct eng_drive *drives[NEIGHBOURS + 1];
        struct lp_loop *outer;
        struct ask commit;
        unsigned i, j;
        struct rf rf;

        rf_start(&rf);
        drives[0] = rf.drives[0];
        options.owner = rf.a.loops[0];
        for (i = 1; i <= NEIGHBOURS; i++) { /* of pools that the node does not serve */
                struct rem_opening opening = {
                        .client = rf.client, .prefix.incarnation = 1, .session = 1, .call.peer = rf.to_b};

                opening.place = (struct rem_place){.node = 2, .pool = 100 + i};
                assert_int_equal(remote_drive_new(&opening, &options, &drives[i]), 0);
        }
        for (j = 0; j < EACH; j++)
                for (i = 0; i <= NEIGHBOURS; i++) {
                        ask_make(&asks[i][j], ENG_OP_LOOKUP, 0);
                        ask_submit(&rf, drives[i], 0, &asks[i][j]);
                }
        ask_make(&commit, ENG_OP_COMMIT, 1);
        ask_submit(&rf, rf.drives[0], 0, &commit);
        mem_pass(1000);
        assert_int_equal(commit.op.result, 0);
        ask_free(&commit);
        for (i = 0; i <= NEIGHBOURS; i++)
                for (j = 0; j < EACH; j++) {
                        assert_int_equal(asks[i][j].times, 1);
                        assert_int_equal(asks[i][j].op.result, i == 0 ? 0 : -EHOSTUNREACH);
                        ask_free(&asks[i][j]);
                }
        outer = lp_become(rf.a.loops[0]);
        for (i = 1; i <= NEIGHBOURS; i++)
                eng_drive_let_go(drives[i]);
        lp_become(outer);
        mem_pass(3000);
        for (i = 1; i <= NEIGHBOURS; i++)
                drives[i]->ops->close(drives[i]);
        rf_stop(&rf);
}

/* 26, 2: a SYNC that waits here is not sent in a session that begins meanwhile. */
static void test_wait_over_a_begin(void **state)
{
        static struct ask asks[REM_OTHERS_MOST + 5];
        struct ask begin;
        unsigned i;
        struct rf rf;

        rf_start(&rf);
        mem_of(rf.to_b->links[NET_LOG].conn->stream)->other->held = true;
        for (i = 0; i < REM_OTHERS_MOST + 5; i++) {
                ask_make(&asks[i], i < REM_OTHERS_MOST ? ENG_OP_DISCARD : ENG_OP_SYNC, 0);
                ask_submit(&rf, rf.drives[0], 0, &asks[i]);
        }
        mem_settle();
        ask_make(&begin, ENG_OP_HELD, 0);
        begin.op.flags |= ENG_OP_ANEW;
        ask_submit(&rf, rf.drives[0], 0, &begin);
        mem_settle();
        rf_cut(&rf, NET_LOG);
        assert_int_equal(begin.op.result, -EHOSTUNREACH);
        ask_free(&begin);
        rf_begin_again(&rf, 0);
        for (i = 0; i < REM_OTHERS_MOST + 5; i++) {
                assert_int_equal(asks[i].times, 1);
                assert_int_equal(asks[i].op.result, i < REM_OTHERS_MOST ? -EHOSTUNREACH : -EAGAIN);
                ask_free(&asks[i]);
        }
        assert_int_equal(rf.toys[0].done[ENG_OP_SYNC], 0);
        rf_stop(&rf);
}

/* 8: drives of several pools on one node: as long as there are lanes, no two have the same. */
static void test_lanes(void **state)
{
        struct eng_local_options options = {.path = "remote:2/3/0"};
        struct eng_drive *drives[REM_LANES + 1];
        bool seen[REM_LANES] = {false};
        struct lp_loop *outer;
        unsigned i;
        struct rf rf;

        rf_start(&rf); /* two have theirs */
        for (i = 0; i < RF_DRIVES; i++)
                seen[remote_of(rf.drives[i])->lane] = true;
        options.owner = rf.a.loops[0];
        for (i = 0; i < REM_LANES + 1 - RF_DRIVES; i++) {
                struct rem_opening opening = {
                        .client = rf.client, .prefix.incarnation = 1, .session = 1, .call.peer = rf.to_b};

                opening.place = (struct rem_place){.node = 2, .pool = RF_POOL + 2 * (i + 1), .slot = 0};
                assert_int_equal(remote_drive_new(&opening, &options, &drives[i]), 0);
                assert_true(i == REM_LANES - RF_DRIVES || !seen[remote_of(drives[i])->lane]);
                seen[remote_of(drives[i])->lane] = true;
        }
        outer = lp_become(rf.a.loops[0]);
        for (i = 0; i < REM_LANES + 1 - RF_DRIVES; i++)
                eng_drive_let_go(drives[i]);
        lp_become(outer);
        mem_pass(3000);
        for (i = 0; i < REM_LANES + 1 - RF_DRIVES; i++)
                drives[i]->ops->close(drives[i]);
        rf_stop(&rf);
}

/* 23: a drive that hangs, and connections that come and go: each brings new credit, and what they left is there yet. */
static void test_left_by_connections(void **state)
{
        static struct ask asks[5][7];
        unsigned i, round;
        struct rf rf;

        rf_start(&rf);
        rf.toys[0].holds[ENG_OP_APPEND] = true;
        for (round = 0; round < 5; round++) {
                for (i = 0; i < 7; i++) {
                        struct ask *ask = &asks[round][i];

                        ask_make(ask, ENG_OP_APPEND, 1 + 7 * round + i);
                        eng_buf_unref(ask->body);
                        ask->op.append.body = ask->body = toy_buf(1u << 20, ask->op.append.seq);
                        ask->op.append.body_crc = era_crc32c(0, ask->body->data, ask->body->len);
                        ask_submit(&rf, rf.drives[0], 0, ask);
                }
                mem_settle();
                rf_cut(&rf, NET_LOG);
                for (i = 0; i < 7; i++) {
                        assert_int_equal(asks[round][i].times, 1);
                        assert_int_equal(asks[round][i].op.result, -EHOSTUNREACH);
                }
                rf_begin_again(&rf, 0);
        }
        assert_int_equal(rf.toys[0].held_count, REM_APPEND_BYTES >> 20);
        assert_int_equal(atomic_load(&rf.served[0]->append_bytes), REM_APPEND_BYTES);
        toy_release(&rf.toys[0]);
        assert_int_equal(atomic_load(&rf.served[0]->append_bytes), 0);
        for (round = 0; round < 5; round++)
                for (i = 0; i < 7; i++)
                        ask_free(&asks[round][i]);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 1000, 0), 0);
        atomic_fetch_add(&rf.served[0]->refs, REM_REQUESTS_MAX); /* and of other kinds */
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), -EAGAIN);
        assert_int_equal(rf_do(&rf, 1, ENG_OP_LOOKUP, 0, 0), 0);
        atomic_fetch_sub(&rf.served[0]->refs, REM_REQUESTS_MAX);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        rf_stop(&rf);
}

/* 23: a page has the length of one answer, whatever is asked for. */
static void test_long_page(void **state)
{
        struct raw raw;
        struct rf rf;

        rf_start(&rf);
        raw = raw_of(&rf, ENG_OP_SCAN); /* without a limit */
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_DONE);
        assert_int_equal(rf.toys[0].page, REM_SCAN_MOST);
        rf_stop(&rf);
}

/* 8: two that hang, whatever is asked of them, leave buffers to a third on the same connection. */
static void test_two_slow_drives(void **state)
{
        static struct ask asks[2][10];
        unsigned i, j;
        struct rf rf;

        rf_start(&rf);
        for (i = 0; i < RF_DRIVES; i++)
                remote_of(rf.drives[i])->lane = 2 * i;
        for (i = 0; i < 2; i++)
                for (j = 0; j < 10; j++) {
                        enum eng_op_kind kind = j % 2 == 0 ? ENG_OP_WRITE : ENG_OP_READ;

                        rf.toys[i].holds[kind] = true;
                        ask_make(&asks[i][j], kind, 1 + j);
                        ask_submit(&rf, rf.drives[i], 0, &asks[i][j]);
                }
        mem_pass(300);
        for (i = 0; i < 5; i++) {
                assert_int_equal(rf_do(&rf, 2, ENG_OP_WRITE, 20 + i, 0), 0);
                assert_int_equal(rf_do(&rf, 2, ENG_OP_READ, 20 + i, 0), 0);
        }
        for (i = 0; i < 2; i++) {
                assert_true(rf.toys[i].held_count > 0);
                toy_release(&rf.toys[i]);
        }
        mem_pass(5000);
        for (i = 0; i < 2; i++)
                for (j = 0; j < 10; j++) {
                        ask_check(&rf, &rf.toys[i], &asks[i][j]);
                        ask_free(&asks[i][j]);
                }
        rf_stop(&rf);
}

/* A drive that is slow for ever: the operations that have no buffer are answered in the end. */
static void test_never_a_buffer(void **state)
{
        struct ask asks[3];
        unsigned i;
        struct rf rf;

        rf_start(&rf);
        rf.toys[0].holds[ENG_OP_WRITE] = true;
        for (i = 0; i < 3; i++) {
                ask_make(&asks[i], ENG_OP_WRITE, 1 + i);
                ask_submit(&rf, rf.drives[0], 0, &asks[i]);
        }
        mem_pass(15000);
        for (i = 0; i < 3; i++)
                if (asks[i].times == 1)
                        assert_int_equal(asks[i].op.result, -EAGAIN);
        assert_int_equal(asks[0].times + asks[1].times + asks[2].times, 1);
        toy_release(&rf.toys[0]);
        for (i = 0; i < 3; i++)
                ask_free(&asks[i]);
        rf_stop(&rf);
}

/* 20: it waits for a buffer while the store gives the drive up and begins anew. */
static void test_busy_over_a_begin(void **state)
{
        struct ask asks[3];
        unsigned i;
        struct rf rf;

        rf_start(&rf);
        rf.toys[0].holds[ENG_OP_WRITE] = true;
        for (i = 0; i < 3; i++) {
                ask_make(&asks[i], ENG_OP_WRITE, 1 + i);
                ask_submit(&rf, rf.drives[0], 0, &asks[i]);
        }
        mem_settle();
        assert_int_equal(rf.toys[0].held_count, 2);
        rf_restart_drive(&rf, 0);
        rf_begin_again(&rf, 0);
        mem_pass(2000);
        assert_int_equal(asks[2].times, 1);
        assert_int_equal(asks[2].op.result, -EAGAIN);
        assert_int_equal(rf.toys[0].seen[3], 0);
        for (i = 0; i < 3; i++)
                ask_free(&asks[i]);
        rf_stop(&rf);
}

static unsigned busy_requests;

static void busy_request(void *arg, struct net_request *request)
{
        struct net_answer answer = {.status = REM_BUSY};

        busy_requests += request->operation == REM_OP;
        net_reply(request, &answer);
}

/* Not a handler of a drive server: its opening is made up. */
static void open_made_up(struct rf *rf)
{
        struct rem_opening opening = {
                .client = rf->client, .prefix.incarnation = 1, .session = 1, .call.peer = rf->to_b};
        struct eng_local_options options = {.path = "remote:2/3/0",
                                            .owner = rf->a.loops[1],
                                            .failed = rf_failed,
                                            .superseded = rf_superseded,
                                            .unreachable = rf_unreachable,
                                            .arg = rf};

        assert_int_equal(remote_drive_new(&opening, &options, &rf->drives[0]), 0);
}

/* 20: what waits for no buffer there is not sent twice, whatever the peer says. */
static void test_busy_for_no_reason(void **state)
{
        static const struct net_handler busy = {.bulk = liar_bulk, .request = busy_request, .lost = liar_lost};
        unsigned kind;
        struct rf rf;

        rf_start_with(&rf, &busy, 0);
        open_made_up(&rf);
        for (kind = 0; kind < RF_KINDS; kind++) {
                bool waits = kind == ENG_OP_READ || kind == ENG_OP_WRITE || kind == ENG_OP_SCRUB;

                busy_requests = 0;
                assert_int_equal(rf_do(&rf, 0, (enum eng_op_kind)kind, 1, 0), waits ? -EAGAIN : -EHOSTUNREACH);
                assert_true(waits ? busy_requests > 10 : busy_requests == 1);
        }
        rf_stop(&rf);
}

/* 14: longer than the room that is given, and than any frame. */
static void test_long_answer(void **state)
{
        static const size_t lens[] = {
                300, 4095, 4096, 4097, 300000, (2u << 20) - 64, 2u << 20, (2u << 20) + 56, 5u << 20, (16u << 20) - 64};
        struct rem_stats stats;
        unsigned i;
        struct rf rf;

        rf_start(&rf);
        for (i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
                rf.toys[0].value_len = lens[i] / 8 * 8;
                rf.toys[0].value_len -= rf.toys[0].value_len % sizeof(struct eng_memtable_entry);
                rf.toys[0].salt = i;
                assert_int_equal(rf_do(&rf, 0, ENG_OP_TAIL, 0, 0), 0);
                if (lens[i] <= FMT_BODY_MAX)
                        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        }
        rem_stats_read(rf.client, &stats);
        assert_true(stats.pieces >= 5);
        rf.toys[0].value_len = 17u << 20;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_TAIL, 0, 0), -EAGAIN);
        /* one that changes from piece to piece */
        rf.toys[0].value_len = (3u << 20) / sizeof(struct eng_memtable_entry) * sizeof(struct eng_memtable_entry);
        rf.toys[0].restless = 3;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_TAIL, 0, 0), 0);
        rf.toys[0].restless = 1000;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_TAIL, 0, 0), -EAGAIN);
        rf_stop(&rf);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* 17 */
static void test_withdraw(void **state)
{
        struct ask asks[3];
        unsigned i;
        struct rf rf;

        rf_start(&rf);
        for (i = 0; i < 3; i++) {
                enum eng_op_kind kind = i == 0 ? ENG_OP_APPEND : i == 1 ? ENG_OP_WRITE : ENG_OP_LOOKUP;

                rf.toys[0].holds[kind] = true;
                ask_make(&asks[i], kind, 1 + i);
                ask_submit(&rf, rf.drives[0], 0, &asks[i]);
        }
        mem_settle();
        rem_served_withdraw(rf.served[0], rf_gone, &rf);
        mem_settle();
        assert_int_equal(rf.gone, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SYNC, 0, 0), -EHOSTUNREACH);
        toy_release(&rf.toys[0]);
        for (i = 0; i < 3; i++) {
                assert_int_equal(asks[i].op.result, 0); /* begun before */
                ask_free(&asks[i]);
        }
        mem_settle();
        assert_int_equal(rf.gone, 1);
        rem_served_free(rf.served[0]);
        rf.served[0] = NULL;
        mem_pass(2000);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_HELD, 0, ENG_OP_ANEW), -EHOSTUNREACH);
        rf_serve(&rf, 0);
        rf_begin_again(&rf, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        rf_stop(&rf);
}

/* The store gives it up: -EIO from then on, and it is quiet when what is under way is back. */
static void test_let_go(void **state)
{
        struct ask ask;
        struct rf rf;

        rf_start(&rf);
        rf.toys[0].holds[ENG_OP_APPEND] = true;
        ask_make(&ask, ENG_OP_APPEND, 1);
        ask_submit(&rf, rf.drives[0], 0, &ask);
        mem_settle();
        assert_false(lets_go(&rf));
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SYNC, 0, 0), -EIO);
        toy_release(&rf.toys[0]);
        assert_int_equal(ask.times, 1);
        ask_free(&ask);
        mem_pass(2000);
        assert_true(lets_go(&rf));
        rf.drives[0]->ops->close(rf.drives[0]);
        rf_open(&rf, 0); /* once more, in the same process */
        assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 2, 0), 0);
        rf_stop(&rf);
}

/* Everything of both nodes ends in the middle of operations of all kinds, at every event. */
static void test_stop_under_way(void **state)
{
        struct ask asks[2 * RF_KINDS];
        unsigned i, turns;

        for (turns = 0; turns < 60; turns += 3) {
                struct rf rf;

                rf_start(&rf);
                for (i = 0; i < 2 * RF_KINDS; i++) {
                        rf.toys[0].holds[i % RF_KINDS] = i % 3 == 0;
                        ask_make(&asks[i], (enum eng_op_kind)(i % RF_KINDS), 1 + i);
                        ask_submit(&rf, rf.drives[0], i % MEM_LOOPS, &asks[i]);
                }
                mem_cut_at = mem_event_count + turns;
                if (turns % 2 == 0)
                        mem_settle();
                rf_stop(&rf);
                for (i = 0; i < 2 * RF_KINDS; i++) {
                        assert_int_equal(asks[i].times, 1);
                        ask_free(&asks[i]);
                }
        }
}

/* ---- no memory ------------------------------------------------------------------------------- */

/* 12: each allocation of an operation fails once: it is answered, nothing is left, and the next one goes well. */
static void test_no_memory(void **state)
{
        unsigned kind;
        struct rf rf;

        rf_start(&rf);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_READ, 1, 0), 0); /* its connections are there */
        for (kind = 0; kind < RF_KINDS; kind++) {
                uint64_t number = 1;
                bool failed = true;
                unsigned long at;

                memset(rf.toys[0].seen, 0, sizeof(rf.toys[0].seen));
                for (at = 1; failed && at < 100; at++, number++) {
                        struct ask ask;

                        ask_make(&ask, (enum eng_op_kind)kind, number);
                        ask_submit(&rf, rf.drives[0], 0, &ask);
                        allocations = 0;
                        fail_at = at;
                        mem_settle();
                        failed = allocations >= at;
                        fail_at = 0;
                        if (ask.times == 0)
                                mem_pass(12000);
                        assert_int_equal(ask.times, 1);
                        if (ask.op.result == 0)
                                ask_check(&rf, &rf.toys[0], &ask);
                        else if (kind == ENG_OP_APPEND || kind == ENG_OP_COMMIT)
                                assert_int_equal(ask.op.result, -EHOSTUNREACH);
                        else
                                assert_true(ask.op.result == -EAGAIN || ask.op.result == -EHOSTUNREACH);
                        assert_true(rf.toys[0].seen[number] <= 1);
                        assert_true(failed || ask.op.result == 0);
                        ask_free(&ask);
                        rf_begin_again(&rf, 0);
                        mem_pass(2000); /* the other connections are there again */
                }
                assert_true(at > 2 && at < 100);
        }
        assert_true(rf_has_no_slots(&rf));
        assert_int_equal(rf.failed, 0);
        rf_stop(&rf);
}

/* ---- a peer that lies ------------------------------------------------------------------------ */

static uint8_t lie[sizeof(struct rem_prefix) + REM_INFO_MAX];

/* What an opening, or WATCH, is told, with a few bytes changed; its length. */
static size_t nearly_true(uint32_t operation, uint8_t *out)
{
        static struct rem_facts facts;
        struct fmt_epoch epoch = {.number = 9, .pg_count = 16, .k = 1};
        struct eng_drive_info info = {.free_bytes = draw(), .starved = draw() % 2 == 0};
        size_t len, i;

        if (operation == REM_INFO) {
                facts.epoch_len = sizeof(epoch);
                memcpy(facts.epoch, &epoch, sizeof(epoch));
                facts.history.count = (unsigned)(draw() % 5);
                snprintf(facts.damage, sizeof(facts.damage), "%.*s", (int)(draw() % 20), "something is damaged");
                len = rem_facts_write(&facts, out);
        } else {
                snprintf(info.reason, sizeof(info.reason), "%.*s", (int)(draw() % 20), "something has failed");
                len = rem_state_write(&info, draw() % 3, (uint32_t)(draw() % 5), out);
        }
        for (i = draw() % 3; i > 0; i--)
                out[draw() % len] ^= (uint8_t)(1u << draw() % 8);
        return draw() % 5 == 0 ? draw() % len : len;
}

static void liar_request(void *arg, struct net_request *request)
{
        struct rem_prefix prefix = {.incarnation = 1 + draw() % 2, .flags = (uint32_t)(draw() % 40)};
        struct net_answer answer = {.body = lie, .body_len = (uint32_t)(draw() % 300)};
        uint32_t bulk = draw() % 2 == 0 || request->room == 0
                                ? 0
                                : (uint32_t)(draw() % (request->room < 3000 ? request->room + 1 : 3000));
        uint32_t result = draw() % 3 == 0 ? (uint32_t) - (int)(draw() % 200) : 0;
        unsigned i;

        for (i = 0; i < sizeof(lie); i++)
                lie[i] = draw() % 3 == 0 ? (uint8_t)draw() : draw() % 2 == 0 ? 1 : 0;
        prefix.total = draw() % 2 == 0 ? bulk : (uint32_t)draw() >> draw() % 32;
        prefix.zero = draw() % 20 == 0;
        memcpy(lie, &prefix, sizeof(prefix));
        memcpy(lie + sizeof(prefix), &result, sizeof(result));
        if (request->operation != REM_OP && draw() % 4 != 0)
                answer.body_len = (uint32_t)(sizeof(prefix) + nearly_true(request->operation, lie + sizeof(prefix)));
        answer.status = draw() % 4 != 0 ? 0 : (int32_t)(draw() % 12) - 1;
        answer.bulk[0] = (struct iovec){lie, bulk};
        answer.bulk_count = bulk > 0;
        net_reply(request, &answer);
}

/* 13 */
static void test_liar(void **state)
{
        static const struct net_handler liar = {.bulk = liar_bulk, .request = liar_request, .lost = liar_lost};
        struct rem_opening opening = {.facts.identity.slot = 0, .prefix.incarnation = 1};
        struct eng_local_options options = {.path = "remote:2/3/0",
                                            .failed = rf_failed,
                                            .superseded = rf_superseded,
                                            .unreachable = rf_unreachable};
        struct rem_stats stats;
        unsigned i, lies = 0, opened = 0;
        struct rf rf;

        rf_start_with(&rf, &liar, 0);
        assert_true(rf_ask(&rf, 0, true, &opening) != 0 || opening.facts.epoch_len > 0);
        opening.prefix.incarnation = 1;
        opening.call.peer = rf.to_b;
        opening.facts.identity.slot = 0;
        options.owner = rf.a.loops[1];
        options.arg = &rf;
        assert_int_equal(remote_drive_new(&opening, &options, &rf.drives[0]), 0);
        for (i = 0; i < 6000; i++) {
                struct ask ask;

                ask_make(&ask, (enum eng_op_kind)(i % RF_KINDS), 1);
                if (draw() % 20 == 0)
                        ask.op.flags |= ENG_OP_ANEW;
                ask_submit(&rf, rf.drives[0], 0, &ask);
                mem_settle();
                if (ask.times == 0)
                        mem_pass(20000);
                assert_int_equal(ask.times, 1);
                assert_true(ask.op.result <= 0);
                lies += ask.op.result == -EHOSTUNREACH;
                ask_free(&ask);
                if (i % 8 == 0) { /* WATCH, and an opening */
                        mem_pass(20 + (unsigned)(draw() % 300));
                        opened += rf_ask(&rf, 0, draw() % 2 == 0, &opening) == 0;
                }
        }
        rem_stats_read(rf.client, &stats);
        assert_true(stats.lies > 500 && lies > 1000 && opened > 20 && opened < 700);
        rf_stop(&rf);
}

/* A byte of a long answer, again and again; WATCH is not answered. */
static struct net_request *watches[64];
static unsigned crumbs, watch_count;

static void crumb_request(void *arg, struct net_request *request)
{
        struct rem_prefix prefix = {.incarnation = 1, .total = 2000};
        struct net_answer answer = {.body = lie, .body_len = sizeof(prefix) + 4, .bulk_count = 1};

        if (request->operation == REM_WATCH) {
                assert_true(watch_count < 64);
                watches[watch_count++] = request;
                return;
        }
        crumbs++;
        memset(lie, 0, sizeof(lie));
        memcpy(lie, &prefix, sizeof(prefix));
        answer.bulk[0] = (struct iovec){lie, 1};
        net_reply(request, &answer);
}

static const struct net_handler crumb_handler = {.bulk = liar_bulk, .request = crumb_request, .lost = liar_lost};

static void watch_end(struct rf *rf)
{
        struct net_request *request = watches[--watch_count];
        struct net_answer answer = {.status = REM_NO_MEMORY};
        struct lp_loop *outer = lp_become(request->conn->at->lp);

        net_reply(request, &answer);
        lp_become(outer);
        mem_settle();
}

/* 13: pieces of an answer that fill the room that was given: else it would come byte by byte. */
static void test_crumbs(void **state)
{
        struct rf rf;

        rf_start_with(&rf, &crumb_handler, 0);
        open_made_up(&rf);
        crumbs = watch_count = 0;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_TAIL, 0, 0), -EHOSTUNREACH);
        assert_int_equal(crumbs, 1);
        while (watch_count > 0)
                watch_end(&rf);
        rf_stop(&rf);
}

/* 24: it is asked again, and a drive that is given up becomes quiet. */
static void test_watch_is_not_answered(void **state)
{
        struct rf rf;

        rf_start_with(&rf, &crumb_handler, 0);
        open_made_up(&rf);
        watch_count = 0;
        mem_pass(30000);
        assert_true(watch_count > 2);
        lets_go(&rf);
        mem_pass(12000);
        assert_true(lets_go(&rf));
        while (watch_count > 0)
                watch_end(&rf);
        rf_stop(&rf);
}

/* What checksum_request() answers. */
static struct eng_op summed;
static uint8_t *summed_slot;

static void checksum_request(void *arg, struct net_request *request)
{
        static uint8_t body[sizeof(struct rem_prefix) + ENG_WIRE_BODY_MAX];
        struct rem_prefix prefix = {.incarnation = 1};
        struct net_answer answer = {.body = body};
        struct eng_wire_parts parts;
        unsigned i;

        answer.body_len = sizeof(prefix) + (uint32_t)eng_wire_put_answer(&summed, body + sizeof(prefix), &parts);
        for (i = 0; request->operation == REM_OP && i < parts.count; i++) {
                answer.bulk[answer.bulk_count++] = (struct iovec){(void *)parts.part[i].bytes, parts.part[i].len};
                prefix.total += (uint32_t)parts.part[i].len;
        }
        answer.status = request->operation == REM_OP ? REM_DONE : REM_NO_MEMORY;
        memcpy(body, &prefix, sizeof(prefix));
        net_reply(request, &answer);
}

/* 13: a value that has the length of one, and numbers of its own; and a page of such. */
static void test_wrong_value(void **state)
{
        static const struct net_handler handler = {.bulk = liar_bulk, .request = checksum_request, .lost = liar_lost};
        struct fmt_value *head;
        struct eng_buf *value;
        struct rf rf;

        rf_start_with(&rf, &handler, 0);
        open_made_up(&rf);
        value = toy_value(sizeof(*head), 0);
        head = (struct fmt_value *)(void *)value->data;
        summed = (struct eng_op){.kind = ENG_OP_LOOKUP, .lookup = {.value = value, .bytes = toy_buf(TOY_INLINE, 0)}};
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        head->inline_len = head->size = TOY_INLINE + 1; /* more than came */
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), -EHOSTUNREACH);
        eng_buf_unref(summed.lookup.bytes);
        summed.lookup.bytes = NULL;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), -EHOSTUNREACH);
        head->flags = 0;
        head->inline_len = 0;
        head->parts = UINT32_MAX; /* of which none came */
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), -EHOSTUNREACH);
        eng_buf_unref(value);
        summed = (struct eng_op){.kind = ENG_OP_SCAN, .scan = {.entries = toy_entries(7), .count = 7}};
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SCAN, 0, 0), 0);
        memset(summed.scan.entries->data + sizeof(struct eng_scan_entry) + 5 + offsetof(struct fmt_value, attrs_len),
               0xff, sizeof(head->attrs_len));
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SCAN, 0, 0), 0); /* they were not asked for */
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SCAN, 0, ENG_OP_WANT_ATTRS), -EHOSTUNREACH);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_SCAN, 0, ENG_OP_WANT_PARTS), -EHOSTUNREACH);
        eng_buf_unref(summed.scan.entries);
        rf_stop(&rf);
}

/* 21: a checksum in an answer is that of the bytes beside it. */
static void test_wrong_checksum(void **state)
{
        static const struct net_handler handler = {.bulk = liar_bulk, .request = checksum_request, .lost = liar_lost};
        struct rem_stats stats;
        struct rf rf;

        rf_start_with(&rf, &handler, 0);
        open_made_up(&rf);
        summed_slot = calloc(1, LP_SLOT_SIZE);
        toy_fill(summed_slot + LP_SLOT_HEADER, RF_UNIT, 1);
        summed = (struct eng_op){.kind = ENG_OP_READ, .read = {.slot = summed_slot, .offset = 3, .len = RF_UNIT - 10}};
        summed.read.crc = era_crc32c(0, summed_slot + LP_SLOT_HEADER + 3, RF_UNIT - 10);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_READ, 1, 0), 0);
        summed.read.crc ^= 4;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_READ, 1, 0), -EHOSTUNREACH);
        summed = (struct eng_op){.kind = ENG_OP_RECORD, .append = {.type = FMT_RECORD_PG, .seq = 1, .inline_len = 10}};
        summed.append.body = toy_buf(1000, 1);
        summed.append.body_crc = era_crc32c(0, summed.append.body->data, 1000);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_RECORD, 1, 0), 0);
        summed.append.body_crc ^= 4;
        assert_int_equal(rf_do(&rf, 0, ENG_OP_RECORD, 1, 0), -EHOSTUNREACH);
        rem_stats_read(rf.client, &stats);
        assert_int_equal(stats.lies, 2);
        eng_buf_unref(summed.append.body);
        free(summed_slot);
        rf_stop(&rf);
}

/* 21: a record is not written with a checksum that is not its own: the log would end there when it is read. */
static void test_wrong_record(void **state)
{
        struct raw raw;
        struct ask ask;
        struct rf rf;

        rf_start(&rf);
        ask_make(&ask, ENG_OP_APPEND, 1);
        ask.op.append.body_crc ^= 4;
        ask_submit(&rf, rf.drives[0], 0, &ask); /* the frame's checksum is wrong, too */
        mem_pass(2000);
        assert_int_equal(ask.op.result, -EHOSTUNREACH);
        ask_free(&ask);
        rf_begin_again(&rf, 0);
        raw = raw_of(&rf, ENG_OP_APPEND);
        raw.wrong_crc = true;
        assert_int_equal(raw_ask(&rf, NULL, NULL, &raw), REM_BAD);
        assert_int_equal(rf.toys[0].done[ENG_OP_APPEND], 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 2, 0), 0);
        rf_stop(&rf);
}

/* ---- all at once ----------------------------------------------------------------------------- */

#define MANY 60u

/*
 * Operations in random order, cut, held and released at random, with restarts and new sessions: each
 * is answered once, nothing is done twice, and no LOOKUP misses a COMMIT that was answered before.
 */
static void random_history(unsigned rounds)
{
        static struct ask asks[MANY];
        static uint64_t acknowledged[MANY]; /* the highest COMMIT that was answered when it was submitted */
        unsigned i, round, n;
        uint64_t number = 1, highest = 0;
        struct rf rf;

        rf_start(&rf);
        for (round = 0; round < rounds; round++) {
                struct toy *toy = &rf.toys[0];

                n = 1 + (unsigned)(draw() % MANY);
                for (i = 0; i < RF_KINDS; i++)
                        toy->holds[i] = draw() % 5 == 0;
                mem_chunk = draw() % 3 == 0 ? 100 + draw() % 5000 : SIZE_MAX;
                for (i = 0; i < n; i++) {
                        enum eng_op_kind kind = draw() % 3 == 0   ? (enum eng_op_kind)(draw() % RF_KINDS)
                                                : draw() % 2 == 0 ? ENG_OP_COMMIT
                                                                  : ENG_OP_LOOKUP;

                        ask_make(&asks[i], kind, number++ % 4000);
                        acknowledged[i] = highest;
                        ask_submit(&rf, rf.drives[0], (unsigned)(draw() % MEM_LOOPS), &asks[i]);
                        if (draw() % 4 == 0)
                                mem_settle();
                        if (kind == ENG_OP_COMMIT && asks[i].times == 1 && asks[i].op.result == 0)
                                highest = asks[i].op.commit.seq;
                }
                mem_cut_at = draw() % 2 == 0 ? mem_event_count + 1 + (unsigned)(draw() % 60) : 0;
                mem_settle();
                if (draw() % 4 == 0)
                        mem_pass((unsigned)(draw() % 300));
                toy_release(toy);
                if (draw() % 8 == 0)
                        rf_restart_drive(&rf, 0);
                mem_cut_at = 0;
                mem_pass(15000);
                for (i = 0; i < n; i++) {
                        const struct eng_op *op = &asks[i].op;

                        assert_int_equal(asks[i].times, 1);
                        assert_true(op->result == 0 || op->result == -EHOSTUNREACH ||
                                    (op->result == -EAGAIN && op->kind != ENG_OP_COMMIT && op->kind != ENG_OP_APPEND));
                        if (op->kind == ENG_OP_LOOKUP && op->result == 0)
                                assert_true(toy->committed >= acknowledged[i]);
                        ask_free(&asks[i]);
                }
                for (i = 1; i < 4000; i++)
                        assert_true(toy->seen[i] <= 1);
                if (number > 3900) {
                        memset(toy->seen, 0, sizeof(toy->seen));
                        number = 1;
                        highest = toy->committed = 0;
                }
                assert_true(rf_has_no_slots(&rf));
                rf_begin_again(&rf, 0);
        }
        rf_stop(&rf);
}

static void test_random(void **state)
{
        random_history(150);
}

static int print_seed(void **state)
{
        const char *given = getenv("SEED");

        seed = given != NULL ? strtoull(given, NULL, 10) : (uint64_t)time(NULL);
        printf("SEED=%llu\n", (unsigned long long)seed);
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_every_kind),
                cmocka_unit_test(test_opening),
                cmocka_unit_test(test_opening_of_a_bad_drive),
                cmocka_unit_test(test_opening_of_another_drive),
                cmocka_unit_test(test_features),
                cmocka_unit_test(test_watch),
                cmocka_unit_test(test_superseded),
                cmocka_unit_test(test_cut_everywhere),
                cmocka_unit_test(test_cut_while_the_drive_works),
                cmocka_unit_test(test_lost_commit),
                cmocka_unit_test(test_lost_question),
                cmocka_unit_test(test_mute_node),
                cmocka_unit_test(test_mute_node_and_shards),
                cmocka_unit_test(test_mute_node_is_let_go),
                cmocka_unit_test(test_slow_is_not_mute),
                cmocka_unit_test(test_own_loop_stood_still),
                cmocka_unit_test(test_mute_and_gone),
                cmocka_unit_test(test_restart_between_write_and_sync),
                cmocka_unit_test(test_restart_seen_by_a_read),
                cmocka_unit_test(test_restart_is_told),
                cmocka_unit_test(test_refused_before_the_begin),
                cmocka_unit_test(test_late_refusal),
                cmocka_unit_test(test_late_failure),
                cmocka_unit_test(test_late_session),
                cmocka_unit_test(test_late_begin),
                cmocka_unit_test(test_another_client),
                cmocka_unit_test(test_another_drive),
                cmocka_unit_test(test_random_requests),
                cmocka_unit_test(test_two_clients),
                cmocka_unit_test(test_commit_passes_waiting_appends),
                cmocka_unit_test(test_slow_drive),
                cmocka_unit_test(test_commit_among_discards),
                cmocka_unit_test(test_commit_among_neighbours),
                cmocka_unit_test(test_wait_over_a_begin),
                cmocka_unit_test(test_lanes),
                cmocka_unit_test(test_commit_among_questions),
                cmocka_unit_test(test_left_by_connections),
                cmocka_unit_test(test_long_page),
                cmocka_unit_test(test_two_slow_drives),
                cmocka_unit_test(test_never_a_buffer),
                cmocka_unit_test(test_busy_over_a_begin),
                cmocka_unit_test(test_busy_for_no_reason),
                cmocka_unit_test(test_long_answer),
                cmocka_unit_test(test_withdraw),
                cmocka_unit_test(test_let_go),
                cmocka_unit_test(test_stop_under_way),
                cmocka_unit_test(test_no_memory),
                cmocka_unit_test(test_liar),
                cmocka_unit_test(test_crumbs),
                cmocka_unit_test(test_watch_is_not_answered),
                cmocka_unit_test(test_wrong_value),
                cmocka_unit_test(test_wrong_checksum),
                cmocka_unit_test(test_wrong_record),
                cmocka_unit_test(test_random),
        };

        cmocka_set_test_filter(getenv("ONLY")); /* NULL: all */
        return cmocka_run_group_tests(tests, print_seed, NULL);
}
