/*
 * test_home_drive.c - drives of another node as a home store asks them, beside the leader whose session
 * they serve: docs/design/any-gateway.md.
 */
#include "tests/unit/remote/remote_fixture.h"

#include <endian.h>

#include "engine_home.h"

struct home {
        struct rem_client *client;
        struct eng_drive *drive;
};

static void home_open(struct rf *rf, struct home *home, unsigned i)
{
        struct eng_local_options options = {.path = "remote:2/3/x", .owner = rf->a.loops[1], .failed = rf_failed, .unreachable = rf_unreachable, .arg = rf};
        struct rem_opening opening;

        MUST(rem_client_new(&(struct rem_client_options){.net = rf->a.node.net, .loop = rf->a.loops[0], .home = true}, &home->client) == 0);
        MUST(rf_ask_by(rf, home->client, i, false, &opening) == 0);
        MUST(remote_drive_new(&opening, &options, &home->drive) == 0);
        mem_settle();
}

static void home_close(struct home *home)
{
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

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_beside_a_leader),
                cmocka_unit_test(test_what_it_may_not),
                cmocka_unit_test(test_another_incarnation),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
