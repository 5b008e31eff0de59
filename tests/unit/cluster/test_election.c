/*
 * Who tries to lead a pool: three nodes of two slots each, two copies of each group.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cluster/election.h"
#include "engine/format.h"

#define SLOTS 6u
#define S     1000000000ull

static struct {
        _Alignas(8) uint8_t body[FMT_EPOCH_MAX(SLOTS)];
        struct cl_witness witness[3];
        struct cl_election e;
} pool;

static void make_pool_of(uint8_t m)
{
        struct fmt_epoch epoch = {.number = 7, .pg_count = 64, .drives = SLOTS, .k = 2, .m = m};
        unsigned i;

        memset(&pool, 0, sizeof(pool));
        memcpy(pool.body, &epoch, sizeof(epoch));
        for (i = 0; i < SLOTS; i++) {
                struct fmt_epoch_drive d = {.in = FMT_EPOCH_IN, .node = (uint16_t)(1 + i / 2), .drive_id = {(uint8_t)(i + 1)}};

                memcpy(pool.body + sizeof(epoch) + i * sizeof(d), &d, sizeof(d));
                pool.body[sizeof(epoch) + SLOTS * sizeof(d) + i * FMT_ID] = (uint8_t)(i + 1);
        }
        for (i = 0; i < 3; i++)
                pool.witness[i] = (struct cl_witness){.node = (uint16_t)(i + 1), .answered = true, .slots = 3ull << 2 * i, .heard_ns = 3 * S};
        pool.e = (struct cl_election){.node = 1,
                                      .led = true,
                                      .unchanged = 5 * S,
                                      .epoch = pool.body,
                                      .epoch_len = FMT_EPOCH_PLACED(SLOTS),
                                      .witnesses = pool.witness,
                                      .count = 3};
}

/* Two copies: on two of the nodes. */
static void make_pool(void)
{
        make_pool_of(1);
}

static void set_state(unsigned slot, uint8_t in, uint8_t flags)
{
        struct fmt_epoch_drive *d = (struct fmt_epoch_drive *)(pool.body + sizeof(struct fmt_epoch)) + slot;

        d->in = in;
        d->flags = flags;
}

static void test_silence(void **state)
{
        unsigned i;

        make_pool();
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        for (i = 0; i < 3; i++) {
                make_pool();
                pool.witness[i].heard_ns = CL_SILENCE_NS - 1; /* one has heard of it */
                assert_int_equal(cl_election_judge(&pool.e), CL_HEARD);
                pool.witness[i].heard_ns = CL_SILENCE_NS;
                assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
                pool.witness[i].heard_ns = 0;
                pool.witness[i].released = true; /* it hands over */
                assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
                pool.witness[i].released = false;
                pool.e.led = false; /* what was heard was of one before it */
                assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        }
}

/*
 * A leader gives its grants back, or dies, and another node takes the key: nothing has come of it yet, and what is told is
 * of the one before. It has the same time to be heard.
 */
static void test_new_owner(void **state)
{
        unsigned i;

        make_pool();
        pool.e.owner = 18;
        pool.e.unchanged = CL_SILENCE_NS - 1;
        for (i = 0; i < 3; i++)
                pool.witness[i].newest = 14;
        assert_int_equal(cl_election_judge(&pool.e), CL_HEARD); /* of the one before: nothing for long */
        for (i = 0; i < 3; i++)
                pool.witness[i].released = true;
        assert_int_equal(cl_election_judge(&pool.e), CL_HEARD);
        pool.e.unchanged = CL_SILENCE_NS;
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        pool.witness[1].heard_ns = 0; /* something comes, though no drive there was OPENed by it */
        assert_int_equal(cl_election_judge(&pool.e), CL_HEARD);
        pool.e.unchanged = 0;
        for (i = 0; i < 3; i++)
                pool.witness[i].newest = 18; /* it has given up itself */
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        pool.witness[2].released = false;
        pool.witness[2].heard_ns = CL_SILENCE_NS - 1;
        assert_int_equal(cl_election_judge(&pool.e), CL_HEARD);
        pool.e.led = false;
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
}

/* Of two sides that both reach etcd, the one with more than half deposes the other, and not the other way round. */
static void test_half(void **state)
{
        make_pool();
        pool.witness[2].answered = false;
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        make_pool_of(2); /* a copy on each node */
        pool.witness[1].answered = pool.witness[2].answered = false;
        assert_int_equal(cl_election_judge(&pool.e), CL_TOO_FEW);
        set_state(2, FMT_EPOCH_OUT, 0);
        set_state(3, FMT_EPOCH_JOINING, 0); /* is not counted: two of four */
        assert_int_equal(cl_election_judge(&pool.e), CL_TOO_FEW);
        set_state(4, FMT_EPOCH_OUT, 0); /* two of three */
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        set_state(4, FMT_EPOCH_IN, 0);
        pool.e.unchanged = CL_STANDING_NS;
        pool.e.stagger = 1;
        assert_int_equal(cl_election_judge(&pool.e), CL_TOO_FEW);
        pool.e.unchanged++; /* long enough */
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        set_state(0, FMT_EPOCH_OUT, 0); /* but this is no copy of everything */
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_COPY);
}

/* The key of a leader that has led for an hour: a node that is cut off leaves the others the time to go on without it. */
static void test_old_key(void **state)
{
        unsigned i;

        make_pool_of(2); /* a copy on each node */
        pool.e.unchanged = 3600 * S;
        pool.e.stagger = 1;
        pool.witness[1].answered = pool.witness[2].answered = false;
        for (i = 0; i < 3; i++) {
                pool.witness[i].heard = true;
                pool.witness[i].heard_ns = 2 * S + S / 10;
        }
        assert_int_equal(cl_election_judge(&pool.e), CL_TOO_FEW);
        pool.witness[0].heard_ns = CL_STANDING_NS;
        assert_int_equal(cl_election_judge(&pool.e), CL_TOO_FEW);
        pool.witness[0].heard_ns++;
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY); /* whoever does not answer counts for nothing */
        pool.witness[0].heard_ns = CL_SILENCE_NS;
        pool.witness[0].heard = false; /* it has just begun, and heard of none */
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        pool.witness[0].heard = pool.witness[0].released = true; /* the leader is stopped */
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        pool.e.owner = 18; /* no: that was the one before */
        assert_int_equal(cl_election_judge(&pool.e), CL_TOO_FEW);
        pool.e.led = false;
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        pool.e.led = true;
        pool.witness[1].answered = true; /* more than half do not wait */
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        set_state(0, FMT_EPOCH_OUT, 0);
        set_state(1, FMT_EPOCH_OUT, 0); /* nor does one of two halves, of which neither is the smaller one */
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
}

static void test_copies(void **state)
{
        make_pool();
        pool.e.unchanged = 60 * S;
        pool.witness[1].answered = pool.witness[2].answered = false;
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_COPY);
        pool.witness[0].slots = 0x3f; /* it says that it serves others' slots */
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_COPY);
        make_pool();
        pool.e.led = false;
        pool.witness[0].answered = pool.witness[1].answered = pool.witness[2].answered = false;
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_COPY);
        pool.e.count = 0;
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_COPY);
}

/* After a minute groups may be lost, by more than half of all slots that count at all. */
static void test_lost_groups(void **state)
{
        make_pool();
        pool.witness[1].answered = false;
        set_state(4, FMT_EPOCH_OUT, 0);
        pool.e.stagger = 1;
        pool.e.unchanged = CL_PATIENCE_NS + 1;
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_COPY); /* three of six, however many are in */
        set_state(4, FMT_EPOCH_OUT, FMT_EPOCH_ADDING);
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY); /* nobody else can use it either */
        set_state(4, FMT_EPOCH_OUT, FMT_EPOCH_GIVEN_UP);
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        pool.e.unchanged--;
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_COPY);
        pool.e.unchanged = 3600 * S; /* the leader was heard of until a moment ago */
        pool.witness[2].heard = true;
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_COPY);
        pool.witness[2].heard_ns = CL_PATIENCE_NS + 1;
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
}

static void test_who(void **state)
{
        make_pool();
        pool.e.node = 4;
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_SLOT);
        pool.e.node = 3;
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        set_state(4, FMT_EPOCH_OUT, FMT_EPOCH_GONE);
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY);
        set_state(5, FMT_EPOCH_OUT, FMT_EPOCH_GONE);
        assert_int_equal(cl_election_judge(&pool.e), CL_NO_SLOT);
        pool.e.node = 1;
        pool.e.epoch_len--;
        assert_int_equal(cl_election_judge(&pool.e), CL_BAD_EPOCH);
        pool.e.epoch_len = 0;
        assert_int_equal(cl_election_judge(&pool.e), CL_BAD_EPOCH);
}

/* How many of the nodes go before this one, of a pool. */
static unsigned before(uint16_t node, unsigned number)
{
        pool.e.node = node;
        return cl_election_before(&pool.e, number);
}

/* Each pool begins with another node, and what a node led is spread when it is gone. */
static void test_order(void **state)
{
        unsigned number, i, first[4] = {0}, second[4] = {0};

        make_pool();
        for (i = 0; i < 3; i++)
                pool.witness[i].may_lead = true;
        for (number = 1; number <= 12; number++) {
                unsigned places = 0;

                for (i = 1; i <= 3; i++) {
                        const unsigned place = before((uint16_t)i, number);

                        assert_in_range(place, 0, 2);
                        places |= 1u << place;
                        first[i] += place == 0;
                }
                assert_int_equal(places, 7); /* one after the other */
                assert_int_equal(before((uint16_t)((number - 1) % 3 + 1), number), 0);
        }
        assert_true(first[1] == 4 && first[2] == 4 && first[3] == 4);
        pool.witness[1].may_lead = false; /* node 2 is gone: its four pools go to both others */
        for (number = 1; number <= 12; number++)
                for (i = 1; i <= 3; i += 2)
                        second[i] += before((uint16_t)i, number) == 0;
        assert_true(second[1] == 6 && second[3] == 6);
        for (number = 1; number <= 12; number++) /* nobody waits for it */
                assert_true(before(1, number) + before(3, number) == 1);
        assert_true(cl_election_turn(0, false) == 0 && cl_election_turn(1, true) < cl_election_turn(2, true) && cl_election_turn(2, true) < cl_election_turn(2, false));
        assert_true(cl_election_turn(60, true) <= S && cl_election_turn(60, false) <= 5 * S);
        set_state(0, FMT_EPOCH_OUT, FMT_EPOCH_GONE); /* node 1 has no slot any more */
        set_state(1, FMT_EPOCH_OUT, FMT_EPOCH_GONE);
        for (number = 1; number <= 12; number++)
                assert_true(before(3, number) == 0 && before(1, number) == 1);
        set_state(2, FMT_EPOCH_OUT, FMT_EPOCH_GONE);
        set_state(3, FMT_EPOCH_OUT, FMT_EPOCH_GONE);
        pool.witness[1].may_lead = true;
        assert_int_equal(before(3, 16), 0); /* the only one */
        pool.e.epoch_len--;
        assert_int_equal(before(3, 1), 0);
}

/* A node that is prepared does not wait for its turn; others give it a head start, also where there is one pool. */
static void test_prepared(void **state)
{
        uint16_t order[ENG_DRIVES_MAX];
        unsigned number, i;

        make_pool();
        assert_true(cl_election_wait(&pool.e, 0, true) == 0 && cl_election_wait(&pool.e, 2, true) == cl_election_turn(2, true));
        pool.witness[1].prepared = true;
        assert_true(cl_election_wait(&pool.e, 0, true) == CL_PREPARED_NS);
        assert_true(cl_election_wait(&pool.e, 2, true) == CL_PREPARED_NS + cl_election_turn(2, true));
        pool.e.node = 2;
        assert_true(cl_election_wait(&pool.e, 2, true) == 0);
        pool.witness[2].prepared = true; /* two of them: neither waits */
        assert_true(cl_election_wait(&pool.e, 2, true) == 0);
        pool.e.node = 3;
        assert_true(cl_election_wait(&pool.e, 2, true) == 0);
        assert_int_equal(cl_election_judge(&pool.e), CL_TRY); /* it says nothing of whether somebody is to lead */
        pool.witness[0].heard_ns = 0;
        assert_int_equal(cl_election_judge(&pool.e), CL_HEARD);
        for (i = 0; i < 3; i++)
                pool.witness[i].may_lead = true;
        for (number = 1; number <= 12; number++) {
                assert_int_equal(cl_election_order(pool.e.epoch, pool.e.epoch_len, number, order), 3);
                for (i = 0; i < 3; i++)
                        assert_int_equal(before(order[i], number), i);
        }
        assert_int_equal(cl_election_order(pool.e.epoch, pool.e.epoch_len - 1, 1, order), 0);
}

static void test_rest(void **state)
{
        unsigned verdict;

        assert_true(cl_election_rest(0) == 0);
        assert_true(cl_election_rest(1) == 1 * S);
        assert_true(cl_election_rest(2) == 2 * S);
        assert_true(cl_election_rest(6) == 32 * S);
        assert_true(cl_election_rest(7) == 60 * S);
        assert_true(cl_election_rest(4000000000u) == 60 * S);
        for (verdict = CL_TRY; verdict <= CL_BAD_EPOCH; verdict++)
                assert_true(strlen(cl_election_text((enum cl_election_verdict)verdict)) > 5);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_silence), cmocka_unit_test(test_new_owner), cmocka_unit_test(test_half), cmocka_unit_test(test_old_key), cmocka_unit_test(test_copies), cmocka_unit_test(test_lost_groups),
                cmocka_unit_test(test_who),     cmocka_unit_test(test_order), cmocka_unit_test(test_prepared), cmocka_unit_test(test_rest),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
