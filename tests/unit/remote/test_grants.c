/*
 * test_grants.c - grants of drive servers and leases of leaders, in virtual time: each transition,
 * then leaders and nodes whose clocks run up to 5 % too fast or too slow, in random order.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "remote/grant.h"

#define MS    (1000ull * 1000)
#define TERM  (3000 * MS)
#define GRANT (TERM + TERM / 4)

static uint64_t seed;

static uint64_t draw(void)
{
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        return seed;
}

static struct eng_term term_of(uint64_t revision)
{
        return (struct eng_term){
                .generation = 1, .revision = revision, .node = (uint16_t)(revision % 7 + 1), .boot = 9};
}

static enum rem_grant_says open_at(struct rem_grant *g, unsigned slot, uint64_t revision, uint64_t now, uint64_t *left)
{
        struct eng_term term = term_of(revision), by;

        return rem_grant_open(g, slot, &term, now, left, &by);
}

/* OPEN that is taken, and done by the drive. */
static void must_open(struct rem_grant *g, unsigned slot, uint64_t revision, uint64_t now)
{
        struct eng_term term = term_of(revision);
        uint64_t left;

        assert_int_equal(open_at(g, slot, revision, now, &left), REM_GRANT_YES);
        rem_grant_opened(g, slot, &term);
}

static enum rem_grant_says ping(struct rem_grant *g, uint64_t revision, uint64_t now)
{
        struct eng_term term = term_of(revision);

        return rem_grant_ping(g, &term, now);
}

static void make(struct rem_grant *g, unsigned slots, uint64_t durable, uint64_t now)
{
        struct eng_term term = durable == 0 ? (struct eng_term){0} : term_of(durable);
        unsigned i;

        rem_grant_init(g, 0, now);
        for (i = 0; i < slots; i++)
                rem_grant_serve(g, i, &term, now);
}

/* ---- transitions ----------------------------------------------------------------------------- */

static void test_ping(void **state)
{
        struct rem_grant g;
        struct eng_term to;

        make(&g, 2, 0, 100);
        assert_int_equal(ping(&g, 5, 100), REM_GRANT_NOT_OPEN);
        assert_int_equal(rem_grant_left(&g, 100, &to), 0);
        must_open(&g, 0, 5, 100);
        assert_int_equal(ping(&g, 4, 101), REM_GRANT_DEPOSED);
        assert_int_equal(ping(&g, 6, 101), REM_GRANT_NOT_OPEN);
        assert_int_equal(rem_grant_left(&g, 101, &to), 0);
        assert_int_equal(ping(&g, 5, 102), REM_GRANT_YES);
        assert_int_equal(rem_grant_left(&g, 102, &to), GRANT);
        assert_int_equal(to.revision, 5);
        assert_int_equal(rem_grant_left(&g, 102 + GRANT - 1, &to), 1);
        assert_int_equal(rem_grant_left(&g, 102 + GRANT, &to), 0);
        assert_true(eng_term_is_none(&to));
}

static void test_one_grant_at_most(void **state)
{
        struct rem_grant g;
        uint64_t left;

        make(&g, 2, 0, 0);
        must_open(&g, 0, 5, 0);
        must_open(&g, 1, 5, 0);
        assert_int_equal(ping(&g, 5, 1000), REM_GRANT_YES);
        assert_int_equal(open_at(&g, 1, 6, 1500, &left), REM_GRANT_WAIT);
        assert_int_equal(left, 1000 + GRANT - 1500);
        assert_int_equal(ping(&g, 5, 1600), REM_GRANT_DEPOSED); /* nobody renews it */
        assert_int_equal(ping(&g, 6, 1600), REM_GRANT_NOT_OPEN);
        assert_int_equal(open_at(&g, 0, 6, 999 + GRANT, &left), REM_GRANT_WAIT);
        assert_int_equal(left, 1);
        assert_int_equal(open_at(&g, 0, 5, 2000, &left),
                         REM_GRANT_DEPOSED); /* not even of the one that has the grant */
        must_open(&g, 0, 6, 1000 + GRANT);
        must_open(&g, 1, 6, 1000 + GRANT);
        assert_int_equal(ping(&g, 6, 1000 + GRANT), REM_GRANT_YES);
}

/* Two candidates; the later term wins, whatever comes first. */
static void test_candidates(void **state)
{
        struct rem_grant g;
        struct eng_term term = term_of(6);
        uint64_t left;

        make(&g, 1, 0, 0);
        assert_int_equal(open_at(&g, 0, 6, 10, &left), REM_GRANT_YES); /* the drive has not answered yet */
        assert_int_equal(ping(&g, 6, 11), REM_GRANT_NOT_OPEN);
        assert_int_equal(open_at(&g, 0, 7, 12, &left), REM_GRANT_YES);
        rem_grant_opened(&g, 0, &term);
        assert_int_equal(ping(&g, 6, 13), REM_GRANT_DEPOSED);
        must_open(&g, 0, 7, 14);
        assert_int_equal(ping(&g, 7, 15), REM_GRANT_YES);
        assert_int_equal(open_at(&g, 0, 6, 16, &left), REM_GRANT_DEPOSED);
}

static void test_twin(void **state)
{
        struct eng_term twin = term_of(5), by;
        struct rem_grant g;
        uint64_t left;

        make(&g, 1, 0, 0);
        must_open(&g, 0, 5, 0);
        twin.boot++;
        assert_int_equal(rem_grant_open(&g, 0, &twin, 1, &left, &by), REM_GRANT_DEPOSED);
        assert_int_equal(by.boot, 9);
        assert_int_equal(rem_grant_ping(&g, &twin, 1), REM_GRANT_DEPOSED);
}

static void test_release(void **state)
{
        struct eng_term mine = term_of(5), other = term_of(4), to;
        struct rem_grant g;
        uint64_t left;

        make(&g, 1, 0, 0);
        must_open(&g, 0, 5, 0);
        assert_int_equal(ping(&g, 5, 10), REM_GRANT_YES);
        assert_int_equal(rem_grant_release(&g, &other, 11), REM_GRANT_DEPOSED);
        assert_int_equal(rem_grant_left(&g, 11, &to), GRANT - 1);
        assert_int_equal(rem_grant_release(&g, &mine, 12), REM_GRANT_YES);
        assert_int_equal(rem_grant_left(&g, 12, &to), 0);
        assert_int_equal(ping(&g, 5, 13), REM_GRANT_NOT_OPEN); /* a late one renews nothing */
        assert_true(g.released && g.heard == 10);
        must_open(&g, 0, 6, 14);
        assert_false(g.released);
        assert_int_equal(ping(&g, 6, 15), REM_GRANT_YES);
        assert_int_equal(open_at(&g, 0, 7, 16, &left), REM_GRANT_WAIT);
        assert_int_equal(rem_grant_release(&g, &to, 17), REM_GRANT_DEPOSED); /* no term */
        to = term_of(6);
        assert_int_equal(rem_grant_release(&g, &to, 17), REM_GRANT_DEPOSED); /* and yet it is over */
        must_open(&g, 0, 7, 18);
}

/* What was granted before the process began is not known. */
static void test_restart(void **state)
{
        struct eng_term mine = term_of(5), to;
        struct rem_grant g;
        uint64_t left;

        make(&g, 2, 5, 1000);
        assert_int_equal(rem_grant_left(&g, 1000, &to), GRANT);
        assert_int_equal(to.revision, 5);
        assert_int_equal(ping(&g, 5, 1001), REM_GRANT_NOT_OPEN); /* before OPEN (R7) */
        assert_int_equal(ping(&g, 4, 1001), REM_GRANT_DEPOSED);
        must_open(&g, 0, 5, 1002);                                        /* at once */
        assert_int_equal(open_at(&g, 0, 6, 1003, &left), REM_GRANT_WAIT); /* what that one had before still runs */
        assert_int_equal(left, GRANT - 3);
        assert_int_equal(open_at(&g, 1, 6, 1004, &left), REM_GRANT_WAIT);
        must_open(&g, 0, 6, 1000 + GRANT);
        must_open(&g, 1, 6, 1000 + GRANT);
        must_open(&g, 0, 7, 1001 + GRANT); /* once after each start */
        make(&g, 2, 5, 1000);
        assert_int_equal(rem_grant_release(&g, &mine, 1001), REM_GRANT_YES); /* its leader says that it is over */
        must_open(&g, 1, 6, 1002);
}

/* Folders of one pool that have seen other terms; one that comes later. */
static void test_folders(void **state)
{
        struct eng_term third = term_of(3), fifth = term_of(5);
        struct rem_grant g;
        uint64_t left;

        rem_grant_init(&g, 0, 0);
        rem_grant_serve(&g, 0, &third, 0);
        rem_grant_serve(&g, 1, &fifth, 0);
        assert_int_equal(open_at(&g, 0, 4, 1, &left), REM_GRANT_DEPOSED); /* by the other folder */
        assert_int_equal(open_at(&g, 0, 5, 1, &left), REM_GRANT_WAIT);
        must_open(&g, 1, 5, 1);
        must_open(&g, 0, 5, GRANT);
        assert_int_equal(ping(&g, 5, GRANT), REM_GRANT_YES);
        rem_grant_serve(&g, 2, &third, GRANT + 5); /* it may be bound where it comes from */
        assert_int_equal(open_at(&g, 2, 5, GRANT + 6, &left), REM_GRANT_WAIT);
        assert_int_equal(left, GRANT - 1);
        must_open(&g, 2, 5, 2 * GRANT + 5);
        rem_grant_withdraw(&g, 2);
        rem_grant_serve(&g, 3, &(struct eng_term){0}, 2 * GRANT + 5);
        must_open(&g, 3, 5, 2 * GRANT + 6); /* one that was never OPENed is bound to nobody */
}

static void test_terms(void **state)
{
        struct eng_term a = {.generation = 1, .revision = 9}, b = {.generation = 2, .revision = 1}, c = a;

        assert_true(eng_term_compare(&a, &b) < 0 && eng_term_compare(&b, &a) > 0 && eng_term_compare(&a, &c) == 0);
        assert_true(eng_term_same(&a, &c));
        c.node = 1;
        assert_false(eng_term_same(&a, &c));
        assert_true(eng_term_is_sound(&c) && eng_term_is_sound(&(struct eng_term){0}));
        assert_false(eng_term_is_sound(&(struct eng_term){.node = 1}));
        c.zero[3] = 1;
        assert_false(eng_term_is_sound(&c));
}

/* ---- the lease ------------------------------------------------------------------------------- */

static void test_lease(void **state)
{
        const struct rem_lease_member two[] = {{.node = 1, .slot = 0, .incarnation = 10},
                                               {.node = 2, .slot = 1, .incarnation = 11}},
                                      more[] = {{.node = 1, .slot = 0, .incarnation = 10},
                                                {.node = 2, .slot = 1, .incarnation = 11},
                                                {.node = 1, .slot = 2, .incarnation = 12}};
        struct rem_slot first[] = {{.slot = 0, .incarnation = 10, .flags = REM_SLOT_OPENED},
                                   {.slot = 2, .incarnation = 12, .flags = REM_SLOT_OPENED}},
                        second[] = {{.slot = 1, .incarnation = 11, .flags = REM_SLOT_OPENED}};
        struct rem_lease lease;

        rem_lease_init(&lease, 0);
        assert_int_equal(rem_lease_end(&lease), 0);
        rem_lease_need(&lease, two, 2);
        rem_lease_renew(&lease, 1, 100, first, 2);
        assert_int_equal(rem_lease_end(&lease), 0); /* of all nodes */
        second[0].flags = 0; /* it serves this incarnation, and not the term */
        rem_lease_renew(&lease, 2, 150, second, 1);
        assert_int_equal(rem_lease_end(&lease), 0);
        second[0].flags = REM_SLOT_OPENED;
        rem_lease_renew(&lease, 2, 200, second, 1);
        assert_int_equal(rem_lease_end(&lease), 100 + TERM);
        rem_lease_renew(&lease, 1, 300, first, 1);
        assert_int_equal(rem_lease_end(&lease), 200 + TERM);
        rem_lease_renew(&lease, 1, 250, first, 1);  /* a late answer */
        rem_lease_renew(&lease, 2, 400, second, 0); /* which lacks a member */
        second[0].incarnation++;
        rem_lease_renew(&lease, 2, 400, second, 1); /* which shows another run of it */
        rem_lease_renew(&lease, 3, 400, second, 1); /* of a node that is not asked */
        assert_int_equal(rem_lease_end(&lease), 200 + TERM);
        rem_lease_need(&lease, more, 3); /* node 1 was not asked for its new member */
        assert_int_equal(rem_lease_end(&lease), 0);
        rem_lease_renew(&lease, 1, 500, first, 2);
        assert_int_equal(rem_lease_end(&lease), 200 + TERM);
        rem_lease_need(&lease, more, 1);
        assert_int_equal(rem_lease_end(&lease), 500 + TERM);
        rem_lease_need(&lease, more, 0);
        assert_int_equal(rem_lease_end(&lease), 0);
}

/* ---- random interleavings -------------------------------------------------------------------- */

#define NODES    3u
#define SLOTS    2u /* of each */
#define LEADERS  8u
#define MESSAGES 64u

/* A clock that is off by up to 5 %, and begins anywhere. */
struct clock {
        uint64_t begin, permille;
};

static struct clock clock_make(void)
{
        static const uint64_t rates[] = {950, 1050, 1000};
        uint64_t pick = draw() % 4;

        return (struct clock){.begin = draw() % (1ull << 40), .permille = pick < 3 ? rates[pick] : 950 + draw() % 101};
}

static uint64_t clock_read(const struct clock *c, uint64_t now)
{
        return c->begin + now / 1000 * c->permille;
}

struct a_node {
        struct clock clock;
        struct rem_grant grant;
        uint64_t incarnation[SLOTS], durable[SLOTS];
        uint64_t taken[SLOTS]; /* the term that it serves: others are refused */
};

struct a_leader {
        uint64_t revision; /* 0: not yet */
        struct clock clock;
        struct rem_lease lease;
        bool need[NODES], opened[NODES][SLOTS], over;
        uint64_t incarnation[NODES][SLOTS];
};

/* On its way, either way. */
struct a_message {
        enum { NOTHING, OPEN, OPENED, PING, PINGED, RELEASE } what;
        unsigned leader, node, slot;
        uint64_t at, sent, incarnation;
        struct rem_slot slots[SLOTS];
};

static struct a_world {
        uint64_t now, next_incarnation;
        struct a_node nodes[NODES];
        struct a_leader leaders[LEADERS];
        struct a_message messages[MESSAGES];
        unsigned leader_count, leases, takeovers;
} w;

static void w_send(struct a_message m)
{
        unsigned i;

        if (draw() % 8 == 0)
                return; /* it is lost */
        m.at = w.now + (draw() % 4 == 0 ? draw() % (4000 * MS) : draw() % (20 * MS));
        for (i = 0; i < MESSAGES; i++)
                if (w.messages[i].what == NOTHING) {
                        w.messages[i] = m;
                        return;
                }
}

static bool w_has_lease(const struct a_leader *l)
{
        return l->revision != 0 && !l->over && clock_read(&l->clock, w.now) < rem_lease_end(&l->lease);
}

/* Never may one answer reads while a slot that it needs serves another. */
static void w_check(void)
{
        unsigned i, n, s, holders = 0;

        for (i = 0; i < w.leader_count; i++) {
                const struct a_leader *l = &w.leaders[i];

                if (!w_has_lease(l))
                        continue;
                holders++;
                for (n = 0; n < NODES; n++)
                        for (s = 0; s < SLOTS && l->need[n]; s++)
                                if (w.nodes[n].taken[s] != l->revision)
                                        fail_msg("slot %u of node %u serves %llu, and %llu has a lease", s, n,
                                                 (unsigned long long)w.nodes[n].taken[s],
                                                 (unsigned long long)l->revision);
        }
        w.leases += holders > 0;
}

static void w_boot(unsigned n)
{
        struct a_node *node = &w.nodes[n];
        uint64_t now = clock_read(&node->clock, w.now);
        unsigned s;

        rem_grant_init(&node->grant, 0, now);
        for (s = 0; s < SLOTS; s++) {
                struct eng_term durable = node->durable[s] == 0 ? (struct eng_term){0} : term_of(node->durable[s]);

                node->incarnation[s] = ++w.next_incarnation;
                rem_grant_serve(&node->grant, s, &durable, now);
        }
}

static void w_need(struct a_leader *l)
{
        struct rem_lease_member members[NODES * SLOTS];
        unsigned n, s, count = 0;

        for (n = 0; n < NODES; n++)
                for (s = 0; s < SLOTS && l->need[n]; s++)
                        members[count++] = (struct rem_lease_member){
                                .node = (uint16_t)n, .slot = (uint16_t)s, .incarnation = l->incarnation[n][s]};
        rem_lease_need(&l->lease, members, count);
}

static void w_at_node(const struct a_message *m)
{
        struct a_leader *l = &w.leaders[m->leader];
        struct a_node *node = &w.nodes[m->node];
        struct eng_term term = term_of(l->revision);
        uint64_t now = clock_read(&node->clock, w.now), left;
        struct a_message answer = *m;
        unsigned s;

        if (m->what == RELEASE) {
                rem_grant_release(&node->grant, &term, now);
                return;
        }
        if (m->what == PING) {
                if (rem_grant_ping(&node->grant, &term, now) != REM_GRANT_YES)
                        return;
                answer.what = PINGED;
                for (s = 0; s < SLOTS; s++)
                        answer.slots[s] = (struct rem_slot){.slot = s, .incarnation = node->incarnation[s], .flags = REM_SLOT_OPENED};
                w_send(answer);
                return;
        }
        if (open_at(&node->grant, m->slot, l->revision, now, &left) != REM_GRANT_YES)
                return;
        w.takeovers += node->taken[m->slot] != 0 && node->taken[m->slot] != l->revision;
        node->taken[m->slot] = l->revision;
        if (draw() % 16 == 0)
                return; /* the process ends here, without a record */
        node->durable[m->slot] = l->revision;
        rem_grant_opened(&node->grant, m->slot, &term);
        answer.what = OPENED;
        answer.incarnation = node->incarnation[m->slot];
        w_send(answer);
}

static void w_at_leader(const struct a_message *m)
{
        struct a_leader *l = &w.leaders[m->leader];

        if (m->what == PINGED) {
                rem_lease_renew(&l->lease, (uint16_t)m->node, m->sent, m->slots, SLOTS);
                return;
        }
        l->opened[m->node][m->slot] = true;
        l->incarnation[m->node][m->slot] = m->incarnation;
        w_need(l);
}

static void w_deliver(void)
{
        unsigned i;

        for (i = 0; i < MESSAGES; i++) {
                struct a_message m = w.messages[i];

                if (m.what == NOTHING || m.at > w.now)
                        continue;
                w.messages[i].what = NOTHING;
                if (m.what == OPENED || m.what == PINGED)
                        w_at_leader(&m);
                else
                        w_at_node(&m);
                w_check();
        }
}

static void w_new_leader(void)
{
        struct a_leader *l = &w.leaders[w.leader_count];
        unsigned n, needs = 0;

        if (w.leader_count == LEADERS)
                return;
        *l = (struct a_leader){.revision = 10 + w.leader_count, .clock = clock_make()};
        rem_lease_init(&l->lease, 0);
        for (n = 0; n < NODES; n++)
                needs += l->need[n] = draw() % 3 != 0;
        l->need[0] |= needs == 0;
        w_need(l);
        w.leader_count++;
}

static void w_step(void)
{
        unsigned i = (unsigned)(draw() % (w.leader_count + 1)), n = (unsigned)(draw() % NODES),
                 s = (unsigned)(draw() % SLOTS);
        struct a_leader *l = &w.leaders[i];
        struct a_message m = {.leader = i, .node = n, .slot = s};

        if (draw() % 200 == 0)
                w_new_leader();
        if (draw() % 400 == 0)
                w_boot(n);
        if (i == w.leader_count || l->over)
                return;
        if (draw() % 300 == 0 && i + 1 < w.leader_count) { /* it hands over: nothing more comes of it */
                l->over = true;
                m.what = RELEASE;
                for (m.node = 0; m.node < NODES; m.node++)
                        w_send(m);
                return;
        }
        m.what = draw() % 2 == 0 ? OPEN : PING;
        m.sent = clock_read(&l->clock, w.now);
        w_send(m);
}

static void test_random(void **state)
{
        const char *given = getenv("SEED");
        unsigned round, step, n, leases = 0, takeovers = 0;

        seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) | 1;
        print_message("SEED=%llu\n", (unsigned long long)seed);
        for (round = 0; round < 400; round++) {
                memset(&w, 0, sizeof(w));
                for (n = 0; n < NODES; n++) {
                        w.nodes[n].clock = clock_make();
                        w_boot(n);
                }
                w_new_leader();
                for (step = 0; step < 4000; step++) {
                        w.now += draw() % (20 * MS);
                        w_step();
                        w_deliver();
                        w_check();
                }
                leases += w.leases;
                takeovers += w.takeovers;
        }
        print_message("%u moments with a lease, %u slots taken over\n", leases, takeovers);
        assert_true(leases > 10000 && takeovers > 500);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_ping),       cmocka_unit_test(test_one_grant_at_most),
                cmocka_unit_test(test_candidates), cmocka_unit_test(test_twin),
                cmocka_unit_test(test_release),    cmocka_unit_test(test_restart),
                cmocka_unit_test(test_folders),    cmocka_unit_test(test_terms),
                cmocka_unit_test(test_lease),      cmocka_unit_test(test_random),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
