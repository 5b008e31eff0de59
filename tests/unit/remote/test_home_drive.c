/*
 * test_home_drive.c - drives as a home store asks them, beside the leader whose session they serve: those of
 * another node, and near ones, of the own process: docs/design/any-gateway.md.
 */
#include "tests/unit/remote/remote_fixture.h"

#include <endian.h>

#include "engine_home.h"

struct home {
        struct rem_client *client;
        struct eng_drive *drive;
        unsigned unreachable, failed; /* as near drives have told */
        const char *text;
};

static bool near; /* the homes of the test ask drives of their own process */

static void near_unreachable(void *arg, struct eng_drive *drive, const char *text)
{
        struct home *home = arg;

        MUST(lp_self() == drive->owner);
        home->unreachable++;
        home->text = text;
}

static void near_failed(void *arg, struct eng_drive *drive, const char *text)
{
        struct home *home = arg;

        MUST(lp_self() == drive->owner);
        home->failed++;
        home->text = text;
}

/* As a node's gateway: its loops are others than the drives'. The ids of uploads are node 1's here, too. */
static int near_open(struct rf *rf, struct home *home, unsigned i)
{
        struct eng_local_options options = {.owner = rf->a.loops[1], .failed = near_failed, .unreachable = near_unreachable, .arg = home};
        const struct rem_client_options client = {
                .net = rf->a.node.net,
                .loop = rf->a.loops[0],
                .home = true,
                .near = {.server = rf->server, .node = 2, .maker = 1, .boot = 5, .loops = rf->b.loops, .loop_count = MEM_LOOPS}};
        struct eng_error error;
        char path[32];

        home->unreachable = home->failed = 0;
        snprintf(path, sizeof(path), "remote:2/%u/%u", RF_POOL, i);
        options.path = path;
        memcpy(options.identity.drive_id, rf->toys[i].identity.drive_id, FMT_ID);
        MUST(rem_client_new(&client, &home->client) == 0);
        return eng_drive_open(rem_client_opener(home->client), &options, &home->drive, &error);
}

static void home_open(struct rf *rf, struct home *home, unsigned i)
{
        struct eng_local_options options = {.path = "remote:2/3/x", .owner = rf->a.loops[1], .failed = rf_failed, .unreachable = rf_unreachable, .arg = rf};
        struct rem_opening opening;

        if (near) {
                MUST(near_open(rf, home, i) == 0);
                return;
        }
        MUST(rem_client_new(&(struct rem_client_options){.net = rf->a.node.net, .loop = rf->a.loops[0], .home = true}, &home->client) == 0);
        MUST(rf_ask_by(rf, home->client, i, false, &opening) == 0);
        MUST(remote_drive_new(&opening, &options, &home->drive) == 0);
        mem_settle();
}

/* As a store does: its loops are drained until the drive awaits nothing. */
static void home_close(struct home *home)
{
        unsigned turns;

        for (turns = 0; eng_drive_awaits_file(home->drive); turns++) {
                MUST(turns < 10);
                mem_settle();
        }
        home->drive->ops->close(home->drive);
        rem_client_free(home->client);
}

/* The id of an object that this node and boot have made. */
static void id_of(uint8_t id[FMT_ID], uint16_t node, uint32_t boot)
{
        const uint16_t n = htobe16(node);
        const uint64_t counter = htobe64((uint64_t)boot << 40 | 7);

        memset(id, 0, FMT_ID);
        memcpy(id + 6, &n, 2);
        memcpy(id + 8, &counter, 8);
}

static void ask_home(struct rf *rf, const struct home *home, struct ask *ask)
{
        ask_submit(rf, home->drive, 0, ask);
        mem_settle();
        if (ask->times == 0)
                mem_pass(20000);
        MUST(ask->times == 1);
}

static void ask_end(struct ask *ask)
{
        eng_buf_unref(ask->body);
        free(ask->slot);
}

/* What it said, of a kind without much to it. */
static int say(struct rf *rf, const struct home *home, enum eng_op_kind kind, uint16_t node, uint32_t boot, uint64_t *incarnation)
{
        struct ask ask;
        int rv;

        ask_make(&ask, kind, 11);
        if (kind == ENG_OP_WRITE)
                id_of(ask.op.write.object_id, node, boot);
        if (kind == ENG_OP_SYNC)
                ask.op.incarnation = *incarnation;
        ask_home(rf, home, &ask);
        rv = ask.op.result;
        if (rv == 0 && kind == ENG_OP_WRITE)
                *incarnation = ask.op.incarnation;
        ask_end(&ask);
        return rv;
}

/* It does not disturb the leader's session, nor the leader it. */
static void test_beside_a_leader(void **state)
{
        uint64_t incarnation = 0;
        struct home home;
        struct rf rf;
        unsigned i;

        rf_start(&rf);
        home_open(&rf, &home, 0);
        for (i = 0; i < 5; i++) {
                assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 1 + i, 0), 0);
                assert_int_equal(say(&rf, &home, ENG_OP_WRITE, 1, 5, &incarnation), 0);
                assert_int_not_equal(incarnation, 0);
                assert_int_equal(say(&rf, &home, ENG_OP_SYNC, 0, 0, &incarnation), 0);
                assert_int_equal(say(&rf, &home, ENG_OP_READ, 0, 0, NULL), 0);
                assert_int_equal(say(&rf, &home, ENG_OP_HELD, 0, 0, NULL), 0);
                assert_int_equal(rf_do(&rf, 0, ENG_OP_COMMIT, 1 + i, 0), 0);
                assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0);
        }
        assert_int_equal(rf.unreachable + rf.failed, 0);
        assert_int_equal(rf.toys[0].done[ENG_OP_SYNC], 5);
        home_close(&home);
        rf_stop(&rf);
}

/* Nothing but shards, and those of its own uploads. */
static void test_what_it_may_not(void **state)
{
        static const enum eng_op_kind others[] = {ENG_OP_APPEND, ENG_OP_COMMIT, ENG_OP_LOOKUP, ENG_OP_SCAN, ENG_OP_DISCARD,
                                                  ENG_OP_TAIL, ENG_OP_RECORD, ENG_OP_IDS, ENG_OP_OWNED, ENG_OP_SCRUB, ENG_OP_FEATURES};
        uint64_t incarnation = 0;
        struct home home;
        struct rf rf;
        unsigned i;

        rf_start(&rf);
        home_open(&rf, &home, 0);
        for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
                assert_int_not_equal(say(&rf, &home, others[i], 0, 0, NULL), 0);
                assert_int_equal(rf.toys[0].done[others[i]], 0);
        }
        assert_int_equal(say(&rf, &home, ENG_OP_WRITE, 2, 5, &incarnation), -EHOSTUNREACH); /* another node's */
        assert_int_equal(say(&rf, &home, ENG_OP_WRITE, 1, 4, &incarnation), -EHOSTUNREACH); /* another boot's */
        assert_int_equal(rf.toys[0].done[ENG_OP_WRITE], 0);
        assert_int_equal(say(&rf, &home, ENG_OP_WRITE, 1, 5, &incarnation), 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 1, 0), 0); /* the leader goes on */
        home_close(&home);
        rf_stop(&rf);
}

/* WRITE to one incarnation, SYNC to the next: it has lost what it had not flushed. */
static void test_another_incarnation(void **state)
{
        uint64_t first = 0, second = 0;
        struct home home;
        struct rf rf;

        rf_start(&rf);
        home_open(&rf, &home, 0);
        assert_int_equal(say(&rf, &home, ENG_OP_WRITE, 1, 5, &first), 0);
        rf_restart_drive(&rf, 0);
        assert_int_equal(say(&rf, &home, ENG_OP_HELD, 0, 0, NULL), 0); /* it answers */
        assert_int_equal(say(&rf, &home, ENG_OP_SYNC, 0, 0, &first), -EHOSTUNREACH);
        assert_int_equal(rf.toys[0].done[ENG_OP_SYNC], 0);
        assert_int_equal(say(&rf, &home, ENG_OP_WRITE, 1, 5, &second), 0);
        assert_int_not_equal(first, second);
        assert_int_equal(say(&rf, &home, ENG_OP_SYNC, 0, 0, &second), 0);
        home_close(&home);
        rf_stop(&rf);
}

/* ---- near drives alone ----------------------------------------------------------------------- */

static void near_submit_to(struct rf *rf, const struct home *home, struct ask *ask, enum eng_op_kind kind)
{
        ask_make(ask, kind, 11);
        if (kind == ENG_OP_WRITE)
                id_of(ask->op.write.object_id, 1, 5);
        ask_submit(rf, home->drive, 0, ask);
        mem_settle();
}

/* The bytes are the drive's, in the caller's slot, with their checksum; what it was asked with is the caller's again. */
static void test_near_answers(void **state)
{
        struct home home;
        struct rf rf;
        struct ask ask;
        size_t i;

        rf_start(&rf);
        MUST(near_open(&rf, &home, 1) == 0);
        near_submit_to(&rf, &home, &ask, ENG_OP_READ);
        assert_int_equal(ask.op.result, 0);
        assert_ptr_equal(ask.op.read.slot, ask.slot);
        for (i = 3; i < RF_UNIT - 7; i++)
                assert_int_equal(ask.slot[LP_SLOT_HEADER + i], toy_byte(11, i));
        assert_true(ask.op.read.crc == era_crc32c(0, ask.slot + LP_SLOT_HEADER + 3, RF_UNIT - 10));
        assert_ptr_equal(ask.op.drive, home.drive);
        ask_end(&ask);
        near_submit_to(&rf, &home, &ask, ENG_OP_HELD);
        ask_check(&rf, &rf.toys[1], &ask);
        ask_end(&ask);
        atomic_store(&rf.toys[1].exhausted, true);
        assert_false(eng_drive_exhausted(home.drive));
        near_submit_to(&rf, &home, &ask, ENG_OP_HELD);
        assert_true(eng_drive_exhausted(home.drive));
        ask_end(&ask);
        home_close(&home);
        rf_stop(&rf);
}

/* No such slot, another drive in it, not served yet: as its node would say. */
static void test_near_is_not_there(void **state)
{
        struct home home;
        struct rf rf;

        rf_start(&rf);
        rf.toys[2].identity.drive_id[0] ^= 1;
        assert_int_equal(near_open(&rf, &home, 2), -EAGAIN);
        rem_client_free(home.client);
        rf.toys[2].identity.drive_id[0] ^= 1;
        rem_served_withdraw(rf.served[2], rf_gone, &rf);
        mem_settle();
        assert_int_equal(near_open(&rf, &home, 2), -EAGAIN);
        rem_client_free(home.client);
        rf_stop(&rf);
}

/* A drive that is withdrawn has answered first; what comes later is not its any more, and the store is told. */
static void test_near_is_withdrawn(void **state)
{
        struct home home;
        struct rf rf;
        struct ask held, late;
        unsigned gone;

        rf_start(&rf);
        MUST(near_open(&rf, &home, 0) == 0);
        rf.toys[0].holds[ENG_OP_READ] = true;
        near_submit_to(&rf, &home, &held, ENG_OP_READ);
        assert_int_equal(held.times, 0);
        assert_true(eng_drive_awaits_file(home.drive));
        gone = rf.gone;
        rem_served_withdraw(rf.served[0], rf_gone, &rf);
        mem_settle();
        assert_int_equal(rf.gone, gone);
        near_submit_to(&rf, &home, &late, ENG_OP_WRITE);
        assert_int_equal(late.op.result, -EHOSTUNREACH);
        assert_int_equal(home.unreachable, 1);
        assert_string_equal(home.text, "it is not served");
        toy_release(&rf.toys[0]);
        mem_settle();
        assert_int_equal(held.times, 1);
        assert_int_equal(held.op.result, 0);
        assert_int_equal(rf.gone, gone + 1);
        ask_end(&held);
        ask_end(&late);
        home_close(&home);
        rem_served_free(rf.served[0]);
        rf.toys[0].admitted = rf.toys[0].durable;
        rf_serve(&rf, 0);
        rf_stop(&rf);
}

/* Answered later than the drive began anew: it is the first one that has taken it. */
static void test_near_answers_late(void **state)
{
        uint64_t first = 0;
        struct home home;
        struct rf rf;
        struct ask held;

        rf_start(&rf);
        MUST(near_open(&rf, &home, 0) == 0);
        assert_int_equal(say(&rf, &home, ENG_OP_WRITE, 1, 5, &first), 0);
        rf.toys[0].holds[ENG_OP_WRITE] = true;
        near_submit_to(&rf, &home, &held, ENG_OP_WRITE);
        rf.toys[0].holds[ENG_OP_WRITE] = false;
        rf_restart_drive(&rf, 0);
        assert_int_equal(held.times, 1);
        assert_int_equal(held.op.incarnation, first);
        ask_end(&held);
        assert_int_equal(say(&rf, &home, ENG_OP_SYNC, 0, 0, &first), -EHOSTUNREACH);
        assert_string_equal(home.text, "it was opened anew");
        home_close(&home);
        rf_stop(&rf);
}

/* The store is told of each failure, and asks on until the drive answers. */
static void test_near_fails(void **state)
{
        struct eng_drive_info info;
        struct home home;
        struct rf rf;

        rf_start(&rf);
        MUST(near_open(&rf, &home, 0) == 0);
        rf.toys[0].result = -EIO;
        assert_int_equal(say(&rf, &home, ENG_OP_READ, 0, 0, NULL), -EIO);
        assert_int_equal(home.failed, 1);
        eng_drive_info(home.drive, &info);
        assert_int_equal(info.state, ENG_DRIVE_FAILED);
        assert_int_equal(say(&rf, &home, ENG_OP_HELD, 0, 0, NULL), -EIO);
        rf.toys[0].result = 0;
        assert_int_equal(say(&rf, &home, ENG_OP_HELD, 0, 0, NULL), 0);
        eng_drive_info(home.drive, &info);
        assert_int_not_equal(info.state, ENG_DRIVE_FAILED);
        home_close(&home);
        rf_stop(&rf);
}

/* Half of what a drive takes is its leader's, which goes on when homes have the other. */
static void test_near_has_a_bound(void **state)
{
        const unsigned most = REM_REQUESTS_MAX / 2;
        struct home home;
        struct rf rf;
        struct ask one;

        rf_start(&rf);
        MUST(near_open(&rf, &home, 0) == 0);
        atomic_fetch_add(&rf.served[0]->refs, most); /* as many are under way */
        near_submit_to(&rf, &home, &one, ENG_OP_HELD);
        assert_int_equal(one.op.result, -EAGAIN);
        ask_end(&one);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_APPEND, 1, 0), 0);
        atomic_fetch_sub(&rf.served[0]->refs, most);
        near_submit_to(&rf, &home, &one, ENG_OP_HELD);
        assert_int_equal(one.op.result, 0);
        ask_end(&one);
        home_close(&home);
        rf_stop(&rf);
}

/* Closing waits for a message through all loops of drives, anew when something was begun since. */
static void test_near_is_closed(void **state)
{
        struct home home;
        struct rf rf;
        unsigned turns;

        rf_start(&rf);
        MUST(near_open(&rf, &home, 0) == 0);
        assert_false(eng_drive_awaits_file(home.drive)); /* nothing was asked */
        assert_int_equal(say(&rf, &home, ENG_OP_READ, 0, 0, NULL), 0);
        for (turns = 0; eng_drive_awaits_file(home.drive); turns++) {
                assert_true(turns < 10);
                mem_settle();
        }
        assert_int_equal(turns, 2); /* the round, and what it has left to be drained */
        assert_false(eng_drive_awaits_file(home.drive));
        assert_int_equal(say(&rf, &home, ENG_OP_HELD, 0, 0, NULL), 0);
        assert_true(eng_drive_awaits_file(home.drive));
        home_close(&home);
        rf_stop(&rf);
}

static int ask_far(void **state)
{
        near = false;
        return 0;
}

static int ask_near(void **state)
{
        near = true;
        return 0;
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup(test_beside_a_leader, ask_far),
                cmocka_unit_test_setup(test_what_it_may_not, ask_far),
                cmocka_unit_test_setup(test_another_incarnation, ask_far),
                cmocka_unit_test_setup(test_beside_a_leader, ask_near),
                cmocka_unit_test_setup(test_what_it_may_not, ask_near),
                cmocka_unit_test_setup(test_another_incarnation, ask_near),
                cmocka_unit_test_setup(test_near_answers, ask_near),
                cmocka_unit_test_setup(test_near_is_not_there, ask_near),
                cmocka_unit_test_setup(test_near_is_withdrawn, ask_near),
                cmocka_unit_test_setup(test_near_answers_late, ask_near),
                cmocka_unit_test_setup(test_near_fails, ask_near),
                cmocka_unit_test_setup(test_near_has_a_bound, ask_near),
                cmocka_unit_test_setup(test_near_is_closed, ask_near),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
