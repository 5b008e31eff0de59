/*
 * test_terms.c - leaders and candidates over a network in memory: OPEN, pings, grants, sessions of
 * terms, what a leader that is deposed is told. The numbers in comments are those of
 * docs/design/remote-drives.md.
 *
 * Linked with malloc() and calloc() wrapped, so that each allocation can fail.
 */
#include "tests/unit/remote/remote_fixture.h"

#include <time.h>

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

#define SECOND (1000ull * 1000 * 1000)
#define TERM   (3 * SECOND)
#define GRANT  (TERM + TERM / 4)

static uint64_t now_ns, seed;

static uint64_t draw(void)
{
        seed = eng_hash(&seed, sizeof(seed), 1);
        return seed;
}

static uint64_t test_now(void *arg)
{
        return now_ns;
}

static const uint8_t cluster[NET_CLUSTER_LEN] = "this cluster", another[NET_CLUSTER_LEN] = "another one";

/* One who leads: a client, with what it was told. */
struct leader {
        struct rem_client *client;
        struct eng_term term;
        struct eng_drive *drives[RF_DRIVES];
        unsigned deposed;
        struct eng_term by;
};

static void on_deposed(void *arg, const struct eng_term *by)
{
        struct leader *l = arg;

        l->deposed++;
        l->by = *by;
}

static void leader_new(struct rf *rf, uint64_t revision, const uint8_t of[NET_CLUSTER_LEN], struct leader *l)
{
        struct rem_client_options options = {.net = rf->a.node.net,
                                             .loop = rf->a.loops[0],
                                             .deposed = on_deposed,
                                             .deposed_arg = l,
                                             .now = test_now};

        memset(l, 0, sizeof(*l));
        l->term = options.term =
                (struct eng_term){.generation = 1, .revision = revision, .boot = 5, .node = 1}; /* as rf_start_with() */
        memcpy(options.cluster, of, NET_CLUSTER_LEN);
        MUST(rem_client_new(&options, &l->client) == 0);
}

/* The net has been halted. */
static void leader_free(struct leader *l)
{
        unsigned i;

        for (i = 0; i < RF_DRIVES; i++)
                if (l->drives[i] != NULL)
                        l->drives[i]->ops->close(l->drives[i]);
        rem_client_free(l->client);
}

static void begin(struct rf *rf)
{
        now_ns = 1000 * SECOND;
        rf_server_options = (struct rem_server_options){.now = test_now};
        rf_start_with(rf, NULL, 0);
}

static void end(struct rf *rf, struct leader *leaders, unsigned count)
{
        unsigned i;

        for (i = 0; i < RF_DRIVES; i++)
                toy_release(&rf->toys[i]);
        rem_server_stop(rf->server);
        mem_node_halt(&rf->a);
        mem_node_halt(&rf->b);
        MUST(rf_has_no_slots(rf));
        for (i = 0; i < count; i++)
                leader_free(&leaders[i]);
        for (i = 0; i < RF_DRIVES; i++) {
                if (rf->drives[i] != NULL)
                        rf->drives[i]->ops->close(rf->drives[i]);
                rem_served_free(rf->served[i]);
        }
        rem_client_free(rf->client);
        rem_server_free(rf->server);
        mem_node_free(&rf->a);
        mem_node_free(&rf->b);
        rf_server_options = (struct rem_server_options){0};
}

/* ---- questions ------------------------------------------------------------------------------- */

static bool answered;

static void open_answered(struct rem_open *open)
{
        answered = true;
}

static void ping_answered(struct rem_ping *ping)
{
        answered = true;
}

static void state_answered(struct rem_pool_state *pool)
{
        answered = true;
}

static void begin_asking(struct rf *rf, struct lp_loop **outer)
{
        answered = false;
        *outer = lp_become(rf->a.loops[0]);
}

static void wait_answer(struct lp_loop *outer)
{
        MUST(!answered); /* never inside */
        lp_become(outer);
        mem_settle();
        if (!answered)
                mem_pass(20000);
        MUST(answered);
}

static enum rem_said ask_open(struct rf *rf, struct leader *l, unsigned slot, struct rem_open *open)
{
        struct lp_loop *outer;

        *open = (struct rem_open){
                .client = l->client, .pool = RF_POOL, .node = 2, .slot = (uint16_t)slot, .done = open_answered};
        begin_asking(rf, &outer);
        rem_open_ask(open);
        wait_answer(outer);
        return open->said;
}

static enum rem_said ask_ping(struct rf *rf, struct leader *l, bool release, struct rem_ping *ping)
{
        struct lp_loop *outer;

        *ping = (struct rem_ping){.client = l->client, .pool = RF_POOL, .node = 2, .done = ping_answered};
        begin_asking(rf, &outer);
        if (release)
                rem_release_ask(ping);
        else
                rem_ping_ask(ping);
        wait_answer(outer);
        return ping->said;
}

static enum rem_said ask_state(struct rf *rf, uint32_t pool, uint16_t node, struct rem_pool_state *out)
{
        struct lp_loop *outer;

        *out = (struct rem_pool_state){.client = rf->client, .pool = pool, .node = node, .done = state_answered};
        begin_asking(rf, &outer);
        rem_pool_state_ask(out);
        wait_answer(outer);
        return out->said;
}

static void lead(struct rf *rf, struct leader *l)
{
        struct rem_open open;
        unsigned i;

        for (i = 0; i < RF_DRIVES; i++) {
                assert_int_equal(ask_open(rf, l, i, &open), REM_SAID_DONE);
                assert_int_equal(rf_open_by(rf, l->client, i, &l->drives[i]), 0);
        }
}

static int do_by(struct rf *rf, struct leader *l, unsigned i, enum eng_op_kind kind, uint64_t number, unsigned flags)
{
        bool deposed;
        int rv = rf_do_by(rf, l->drives[i], kind, number, flags, &deposed);

        assert_int_equal(deposed, rv == -ESTALE);
        return rv;
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void test_open(void **state)
{
        static const uint8_t none[FMT_ID];
        struct rem_open open;
        struct leader l[1];
        unsigned kind;
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        assert_int_equal(ask_open(&rf, &l[0], 1, &open), REM_SAID_DONE);
        assert_int_equal(open.incarnation, rf.served[1]->incarnation);
        assert_memory_equal(open.found_id, rf.toys[1].identity.drive_id, FMT_ID);
        assert_memory_equal(open.store_id, rf.toys[1].identity.store_id, FMT_ID);
        assert_true(open.epoch == 9 && open.features == (1 | FMT_FEATURE_TERMS) && !open.log_lost);
        assert_true(eng_term_is_none(&open.before) && memcmp(open.before_cluster, none, FMT_ID) == 0);
        assert_memory_equal(rf.toys[1].cluster, cluster, FMT_ID);
        assert_true(eng_term_same(&rf.toys[1].durable, &l[0].term));
        assert_int_equal(ask_open(&rf, &l[0], 1, &open), REM_SAID_DONE); /* once more */
        assert_true(eng_term_same(&open.before, &l[0].term) && memcmp(open.before_cluster, cluster, FMT_ID) == 0);
        lead(&rf, &l[0]);
        for (kind = 0; kind < RF_KINDS; kind++)
                assert_int_equal(do_by(&rf, &l[0], kind % RF_DRIVES, (enum eng_op_kind)kind, 1 + kind, 0), 0);
        assert_int_equal(l[0].deposed, 0);
        end(&rf, l, 1);
}

/* R7, and a leader that has forgotten to OPEN. Gateways may read and write without a term; nobody else may. */
static void test_not_opened(void **state)
{
        struct rem_opening opening;
        struct rem_open open;
        struct leader l[2];
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        leader_new(&rf, 6, cluster, &l[1]);
        rf_open(&rf, 0);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), 0); /* no cluster yet */
        assert_int_equal(rf_open_by(&rf, l[0].client, 0, &l[0].drives[0]), -EAGAIN);
        assert_int_equal(rf_ask_by(&rf, l[0].client, 0, false, &opening), 0); /* who it is may be asked */
        lead(&rf, &l[0]);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_LOOKUP, 0, 0), -EHOSTUNREACH);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_HELD, 0, ENG_OP_ANEW), -EHOSTUNREACH);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_READ, 1, 0), -ESTALE);
        assert_int_equal(rf_do(&rf, 0, ENG_OP_WRITE, 1, 0), -ESTALE);
        assert_int_equal(rf_ask(&rf, 0, true, &opening), -EACCES);
        assert_int_equal(rf_open_by(&rf, l[1].client, 0, &l[1].drives[0]), -EAGAIN); /* newer, and not OPENed */
        assert_int_equal(l[0].deposed + l[1].deposed, 0);
        assert_int_equal(ask_open(&rf, &l[0], RF_DRIVES, &open), REM_SAID_ABSENT);
        end(&rf, l, 2);
}

/* 28: what an old leader sends after the new one's OPEN. 29: what waited in the drive before it. */
static void test_newer_leader(void **state)
{
        static const enum eng_op_kind kinds[] = {ENG_OP_APPEND, ENG_OP_COMMIT, ENG_OP_LOOKUP,
                                                 ENG_OP_SCAN,   ENG_OP_TAIL,   ENG_OP_WRITE,
                                                 ENG_OP_READ,   ENG_OP_SYNC,   ENG_OP_DISCARD};
        struct rem_open open;
        struct leader l[2];
        unsigned i;
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        leader_new(&rf, 6, cluster, &l[1]);
        lead(&rf, &l[0]);
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_APPEND, 1, 0), 0);
        assert_int_equal(ask_open(&rf, &l[1], 0, &open), REM_SAID_DONE);
        assert_true(eng_term_same(&open.before, &l[0].term));
        for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
                assert_int_equal(do_by(&rf, &l[0], 0, kinds[i], 10 + i, 0), -ESTALE);
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_HELD, 0, ENG_OP_ANEW), -ESTALE);
        assert_int_equal(rf.toys[0].seen[10] + rf.toys[0].seen[11] + rf.toys[0].seen[15], 0);
        assert_int_equal(l[0].deposed, 1); /* once */
        assert_true(eng_term_is_none(&l[0].by) || eng_term_same(&l[0].by, &l[1].term));
        assert_int_equal(rf_open_by(&rf, l[0].client, 0, &(struct eng_drive *){NULL}), -ESTALE);
        assert_int_equal(ask_open(&rf, &l[0], 0, &open), REM_SAID_DEPOSED);
        assert_true(eng_term_same(&open.newest, &l[1].term));
        assert_int_equal(ask_open(&rf, &l[0], 1, &open), REM_SAID_DEPOSED); /* the node knows */
        assert_int_equal(rf_open_by(&rf, l[1].client, 0, &l[1].drives[0]), 0);
        assert_int_equal(do_by(&rf, &l[1], 0, ENG_OP_APPEND, 1, 0), 0);
        end(&rf, l, 2);
}

/* By WATCH alone, which is ended by the OPEN. */
static void test_deposed_without_asking(void **state)
{
        struct rem_open open;
        struct leader l[2];
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        leader_new(&rf, 6, cluster, &l[1]);
        lead(&rf, &l[0]);
        assert_int_equal(ask_open(&rf, &l[1], 2, &open), REM_SAID_DONE);
        assert_int_equal(l[0].deposed, 1);
        assert_true(eng_term_same(&l[0].by, &l[1].term));
        end(&rf, l, 2);
}

/* 30: a grant binds, and a refused OPEN ends its renewal. */
static void test_grant(void **state)
{
        struct rem_pool_state pool;
        struct rem_open open;
        struct rem_ping ping;
        struct leader l[3];
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        leader_new(&rf, 6, cluster, &l[1]);
        leader_new(&rf, 7, cluster, &l[2]);
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_NOT_OPEN);
        lead(&rf, &l[0]);
        now_ns += SECOND;
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DONE);
        assert_int_equal(ping.sent, now_ns);
        assert_int_equal(ping.count, RF_DRIVES);
        now_ns += SECOND;
        assert_int_equal(ask_ping(&rf, &l[1], false, &ping), REM_SAID_NOT_OPEN);
        assert_int_equal(ask_open(&rf, &l[1], 1, &open), REM_SAID_GRANTED);
        assert_int_equal(open.left_ns, GRANT - SECOND);
        assert_true(eng_term_same(&open.newest, &l[0].term));
        assert_int_equal(rf.toys[1].done[ENG_OP_OPEN], 1);              /* the drive was not asked again */
        assert_int_equal(do_by(&rf, &l[0], 1, ENG_OP_LOOKUP, 0, 0), 0); /* while it has a lease */
        assert_int_equal(l[0].deposed, 0);
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DEPOSED);
        assert_true(eng_term_same(&ping.newest, &l[1].term));
        assert_int_equal(l[0].deposed, 1);
        now_ns += GRANT - SECOND - 1;
        assert_int_equal(ask_open(&rf, &l[1], 2, &open), REM_SAID_GRANTED);
        assert_int_equal(open.left_ns, 1);
        now_ns += 1;
        assert_int_equal(ask_state(&rf, RF_POOL, 2, &pool), REM_SAID_DONE);
        assert_true(eng_term_same(&pool.newest, &l[1].term) && eng_term_same(&pool.opened, &l[0].term));
        assert_true(eng_term_is_none(&pool.granted) && pool.left_ns == 0 && pool.heard_ns == 1 && !pool.released);
        lead(&rf, &l[1]);
        assert_int_equal(ask_ping(&rf, &l[1], false, &ping), REM_SAID_DONE);
        assert_int_equal(ask_open(&rf, &l[2], 0, &open), REM_SAID_GRANTED);
        assert_int_equal(ask_state(&rf, RF_POOL, 2, &pool), REM_SAID_DONE);
        assert_true(eng_term_same(&pool.granted, &l[1].term) && pool.left_ns == GRANT);
        end(&rf, l, 3);
}

/* 31: a hand-over, and a ping that comes behind it. */
static void test_release(void **state)
{
        struct rem_pool_state pool;
        struct rem_ping ping;
        struct leader l[2];
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        leader_new(&rf, 6, cluster, &l[1]);
        lead(&rf, &l[0]);
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DONE);
        assert_int_equal(ask_ping(&rf, &l[0], true, &ping), REM_SAID_DONE);
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_NOT_OPEN);
        assert_int_equal(ask_state(&rf, RF_POOL, 2, &pool), REM_SAID_DONE);
        assert_true(pool.released && pool.left_ns == 0);
        lead(&rf, &l[1]);
        assert_int_equal(ask_ping(&rf, &l[1], false, &ping), REM_SAID_DONE);
        end(&rf, l, 2);
}

/* 32: a process that begins anew has forgotten what it granted, and to whom it was open. */
static void test_restart(void **state)
{
        struct rem_pool_state pool;
        struct rem_open open;
        struct rem_ping ping;
        struct leader l[2];
        uint64_t before;
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        leader_new(&rf, 6, cluster, &l[1]);
        lead(&rf, &l[0]);
        before = rf.served[0]->incarnation;
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_WRITE, 1, 0), 0);
        rf_restart_drive(&rf, 0);
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_SYNC, 0, 0), -EHOSTUNREACH);
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_HELD, 0, ENG_OP_ANEW), -EHOSTUNREACH);
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_READ, 1, 0), -EHOSTUNREACH);
        assert_int_equal(l[0].deposed, 0);
        assert_int_equal(ask_state(&rf, RF_POOL, 2, &pool), REM_SAID_DONE);
        assert_true(pool.left_ns == GRANT && eng_term_same(&pool.granted, &l[0].term));
        assert_int_equal(pool.slots[0].flags & REM_SLOT_OPENED, 0);
        assert_int_equal(pool.slots[1].flags & REM_SLOT_OPENED, REM_SLOT_OPENED);
        assert_int_equal(ask_open(&rf, &l[0], 0, &open), REM_SAID_DONE); /* at once */
        assert_true(open.incarnation == rf.served[0]->incarnation && open.incarnation != before);
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_HELD, 0, ENG_OP_ANEW), 0);
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_LOOKUP, 0, 0), 0);
        assert_int_equal(ask_open(&rf, &l[1], 0, &open), REM_SAID_GRANTED);
        assert_int_equal(open.left_ns, GRANT);
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DEPOSED);
        now_ns += GRANT;
        lead(&rf, &l[1]);
        end(&rf, l, 2);
}

/* What a lease is made of: incarnations and the state of each slot. */
static void test_slots(void **state)
{
        struct rem_lease_member members[RF_DRIVES];
        struct rem_open open;
        struct rem_ping ping;
        struct rem_lease lease;
        struct leader l[1];
        unsigned i;
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        rem_lease_init(&lease, 0);
        for (i = 0; i < RF_DRIVES; i++) {
                assert_int_equal(ask_open(&rf, &l[0], i, &open), REM_SAID_DONE);
                members[i] = (struct rem_lease_member){.node = 2, .slot = (uint16_t)i, .incarnation = open.incarnation};
        }
        rem_lease_need(&lease, members, RF_DRIVES);
        rf.toys[1].result = -EIO;
        atomic_store(&rf.toys[2].exhausted, true);
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DONE);
        rem_lease_renew(&lease, 2, ping.sent, ping.slots, ping.count);
        assert_int_equal(rem_lease_end(&lease), now_ns + TERM);
        for (i = 0; i < RF_DRIVES; i++) {
                assert_int_equal(ping.slots[i].slot, i);
                assert_int_equal(ping.slots[i].incarnation, rf.served[i]->incarnation);
                assert_memory_equal(ping.slots[i].drive_id, rf.toys[i].identity.drive_id, FMT_ID);
                assert_true(eng_term_same(&ping.slots[i].durable, &l[0].term));
                assert_memory_equal(ping.slots[i].cluster, cluster, FMT_ID);
                assert_int_equal(ping.slots[i].flags,
                                 REM_SLOT_OPENED | (i == 1 ? REM_SLOT_FAILED : 0) | (i == 2 ? REM_SLOT_FULL : 0));
        }
        rf.toys[1].result = 0;
        rf_restart_drive(&rf, 1);
        now_ns += SECOND;
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DONE);
        rem_lease_renew(&lease, 2, ping.sent, ping.slots, ping.count);
        assert_int_equal(rem_lease_end(&lease), now_ns - SECOND + TERM); /* it shows another incarnation */
        end(&rf, l, 1);
}

static void test_refusals(void **state)
{
        struct rem_pool_state pool;
        struct rem_open open;
        struct rem_ping ping;
        struct leader l[3];
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        leader_new(&rf, 6, another, &l[1]);
        leader_new(&rf, 7, cluster, &l[2]);
        assert_int_equal(ask_state(&rf, RF_POOL + 1, 2, &pool), REM_SAID_ABSENT);
        assert_int_equal(ask_state(&rf, RF_POOL, 2, &pool), REM_SAID_DONE);
        assert_true(!pool.heard && pool.note == 0);
        rem_server_note(rf.server, REM_NOTE_ETCD);
        assert_int_equal(ask_state(&rf, RF_POOL, 9, &pool), REM_SAID_UNREACHABLE); /* a node that is not known */
        lead(&rf, &l[0]);
        assert_int_equal(ask_open(&rf, &l[1], 0, &open), REM_SAID_OTHER);
        assert_true(eng_term_same(&open.newest, &l[0].term));
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DONE); /* whose renewals it does not end */
        assert_int_equal(ping.note, REM_NOTE_ETCD);
        assert_int_equal(ask_state(&rf, RF_POOL, 2, &pool), REM_SAID_DONE);
        assert_true(pool.heard && pool.note == REM_NOTE_ETCD);
        assert_int_equal(l[0].deposed, 0);
        now_ns += GRANT;
        rf.toys[0].result = -EIO;
        assert_int_equal(ask_open(&rf, &l[2], 0, &open), REM_SAID_FAILED);
        rf.toys[0].result = -EAGAIN;
        assert_int_equal(ask_open(&rf, &l[2], 0, &open), REM_SAID_AGAIN);
        rf.toys[0].result = 0;
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_LOOKUP, 0, 0), -ESTALE); /* it is fenced all the same */
        assert_int_equal(ask_open(&rf, &l[2], 0, &open), REM_SAID_DONE);
        end(&rf, l, 3);
}

/* 33: OPEN's answer is lost. Whether it was done is not known, and it is asked again. */
static void test_lost_answer(void **state)
{
        struct rem_open open = {0};
        struct leader l[2];
        struct lp_loop *outer;
        unsigned turns;
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        leader_new(&rf, 6, cluster, &l[1]);
        lead(&rf, &l[0]);
        rf.toys[0].holds[ENG_OP_OPEN] = true;
        open = (struct rem_open){.client = l[1].client, .pool = RF_POOL, .node = 2, .done = open_answered};
        begin_asking(&rf, &outer);
        rem_open_ask(&open);
        lp_become(outer);
        mem_settle();
        assert_false(answered);
        assert_int_equal(do_by(&rf, &l[0], 0, ENG_OP_APPEND, 3, 0), -ESTALE); /* from its admission on */
        rf_cut(&rf, NET_LOG);
        assert_true(answered && open.said == REM_SAID_UNREACHABLE);
        toy_release(&rf.toys[0]);
        for (turns = 0; ask_open(&rf, &l[1], 0, &open) != REM_SAID_DONE; turns++) {
                assert_true(turns < 100 && open.said == REM_SAID_UNREACHABLE);
                mem_pass(500);
        }
        assert_true(eng_term_same(&open.before, &l[1].term)); /* it was done */
        end(&rf, l, 2);
}

/* 34: a folder that is served anew while the pool's other drives go on. */
static void test_folder_comes_back(void **state)
{
        struct rem_open open;
        struct rem_ping ping;
        struct leader l[1];
        unsigned gone;
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        lead(&rf, &l[0]);
        gone = rf.gone;
        rem_served_withdraw(rf.served[2], rf_gone, &rf);
        mem_settle();
        assert_int_equal(rf.gone, gone + 1);
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DONE);
        assert_int_equal(ping.count, RF_DRIVES - 1);
        assert_int_equal(ask_open(&rf, &l[0], 2, &open), REM_SAID_ABSENT);
        rem_served_free(rf.served[2]);
        rf.toys[2].durable.revision = 3; /* as it was before: it had been elsewhere */
        rf.toys[2].admitted = rf.toys[2].durable;
        rf_serve(&rf, 2);
        assert_int_equal(ask_open(&rf, &l[0], 2, &open), REM_SAID_GRANTED);
        assert_int_equal(open.left_ns, GRANT);
        assert_int_equal(open.newest.revision, 3);
        now_ns += GRANT;
        assert_int_equal(ask_open(&rf, &l[0], 2, &open), REM_SAID_DONE);
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DONE);
        assert_int_equal(ping.count, RF_DRIVES);
        end(&rf, l, 1);
}

/* Each allocation fails once. What is said to be done was done, and nothing else is. */
static void test_no_memory(void **state)
{
        enum rem_said said[3] = {REM_SAID_UNREACHABLE, REM_SAID_UNREACHABLE, REM_SAID_UNREACHABLE};
        struct rem_pool_state pool;
        struct rem_open open;
        struct rem_ping ping;
        struct leader l[1];
        unsigned long at;
        bool failed = true;
        unsigned i;
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        lead(&rf, &l[0]);
        for (at = 1; failed && at < 200; at++) {
                allocations = 0;
                fail_at = at;
                said[0] = ask_open(&rf, &l[0], 0, &open);
                said[1] = ask_ping(&rf, &l[0], false, &ping);
                said[2] = ask_state(&rf, RF_POOL, 2, &pool);
                failed = allocations >= at;
                fail_at = 0;
                for (i = 0; i < 3; i++)
                        assert_true(said[i] == REM_SAID_DONE || said[i] == REM_SAID_AGAIN ||
                                    said[i] == REM_SAID_UNREACHABLE);
                assert_int_equal(ping.count, said[1] == REM_SAID_DONE ? RF_DRIVES : 0);
                mem_pass(2000); /* connections are there again */
        }
        assert_true(at > 4 && at < 200);
        assert_true(said[0] == REM_SAID_DONE && said[1] == REM_SAID_DONE && said[2] == REM_SAID_DONE);
        assert_int_equal(l[0].deposed, 0);
        end(&rf, l, 1);
}

/* ---- random order ---------------------------------------------------------------------------- */

#define LEADERS 6u

struct reign {
        struct rem_lease lease;
        struct rem_lease_member members[RF_DRIVES];
        unsigned count;
};

/* A slot that was OPENed is needed from then on, as it is now. */
static void reign_needs(struct reign *r, unsigned slot, uint64_t incarnation)
{
        unsigned i = 0;

        while (i < r->count && r->members[i].slot != slot)
                i++;
        r->members[i] = (struct rem_lease_member){.node = 2, .slot = (uint16_t)slot, .incarnation = incarnation};
        r->count += i == r->count;
        rem_lease_need(&r->lease, r->members, r->count);
}

/* Whoever has a lease has the drives that it needs. Returns how many have one. */
static unsigned check_leases(const struct rf *rf, const struct leader *leaders, const struct reign *reigns,
                             unsigned count)
{
        unsigned i, m, holders = 0;

        for (i = 0; i < count; i++) {
                if (now_ns >= rem_lease_end(&reigns[i].lease))
                        continue;
                holders++;
                for (m = 0; m < reigns[i].count; m++)
                        assert_true(eng_term_same(&rf->toys[reigns[i].members[m].slot].admitted, &leaders[i].term));
        }
        return holders;
}

static void random_question(struct rf *rf, struct leader *l, struct reign *r)
{
        unsigned slot = (unsigned)(draw() % RF_DRIVES);
        struct rem_open open;
        struct rem_ping ping;

        if (draw() % 3 == 0) {
                if (ask_open(rf, l, slot, &open) == REM_SAID_DONE)
                        reign_needs(r, slot, open.incarnation);
        } else if (draw() % 40 == 0) {
                rem_lease_need(&r->lease, NULL, r->count = 0); /* its lease is over, first */
                ask_ping(rf, l, true, &ping);
        } else if (ask_ping(rf, l, false, &ping) == REM_SAID_DONE) {
                rem_lease_renew(&r->lease, 2, ping.sent, ping.slots, ping.count);
        }
}

/* Leaders come, go on beside one another, lose connections, and drives that begin anew. */
static void test_random(void **state)
{
        unsigned round, step, holders = 0, changes = 0;

        for (round = 0; round < 25; round++) {
                struct reign reigns[LEADERS];
                struct leader leaders[LEADERS];
                unsigned count = 0;
                struct rf rf;

                begin(&rf);
                for (step = 0; step < 400; step++) {
                        unsigned i = (unsigned)(draw() % LEADERS);

                        now_ns += draw() % (400 * SECOND / 1000);
                        if (count == 0 || (count < LEADERS && draw() % 60 == 0)) {
                                leader_new(&rf, 10 + count, cluster, &leaders[count]);
                                memset(&reigns[count], 0, sizeof(reigns[count]));
                                rem_lease_init(&reigns[count++].lease, 0);
                                changes++;
                        }
                        if (draw() % 50 == 0)
                                rf_restart_drive(&rf, (unsigned)(draw() % RF_DRIVES));
                        if (draw() % 50 == 0)
                                rf_cut(&rf, draw() % 2 == 0 ? NET_LOG : NET_CONTROL);
                        if (i < count)
                                random_question(&rf, &leaders[i], &reigns[i]);
                        holders += check_leases(&rf, leaders, reigns, count);
                }
                for (step = 0; step < count; step++)
                        assert_true(leaders[step].deposed <= 1);
                end(&rf, leaders, count);
        }
        assert_true(holders > 500 && changes > 50);
}

/* ---- being ready to lead --------------------------------------------------------------------- */

static enum rem_prepared node_prepared;
static unsigned prepare_asked, opened_told;

static enum rem_prepared on_prepare(void *arg, uint32_t pool)
{
        assert_int_equal(pool, RF_POOL);
        prepare_asked++;
        return node_prepared;
}

static void on_opened(void *arg)
{
        opened_told++;
}

static void prepare_answered(struct rem_prepare *prepare)
{
        answered = true;
}

static enum rem_said ask_prepare(struct rf *rf, struct rem_client *client, uint32_t pool, uint16_t node)
{
        struct rem_prepare prepare = {.client = client, .pool = pool, .node = node, .done = prepare_answered};
        struct lp_loop *outer;

        begin_asking(rf, &outer);
        rem_prepare_ask(&prepare);
        wait_answer(outer);
        return prepare.said;
}

/* It gives no right, and takes none: whoever is asked only says how far he is. */
static void test_prepare(void **state)
{
        struct rem_pool_state pool;
        struct rem_ping ping;
        struct rem_open open;
        struct leader l[2];
        struct rf rf;

        now_ns = 1000 * SECOND;
        prepare_asked = opened_told = 0;
        rf_server_options = (struct rem_server_options){.now = test_now, .prepare = on_prepare, .opened = on_opened};
        rf_start_with(&rf, NULL, 0);
        leader_new(&rf, 5, cluster, &l[0]);
        leader_new(&rf, 6, cluster, &l[1]);
        assert_int_equal(ask_open(&rf, &l[0], 0, &open), REM_SAID_DONE);
        assert_int_equal(opened_told, 1);
        assert_int_equal(ask_open(&rf, &l[0], 1, &open), REM_SAID_DONE);
        assert_int_equal(opened_told, 1); /* of the same term */
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DONE);
        node_prepared = REM_PREPARED_NO;
        assert_int_equal(ask_prepare(&rf, rf.client, RF_POOL, 2), REM_SAID_FAILED);
        node_prepared = REM_PREPARED_SOON;
        assert_int_equal(ask_prepare(&rf, rf.client, RF_POOL, 2), REM_SAID_AGAIN);
        node_prepared = REM_PREPARED_YES;
        assert_int_equal(ask_prepare(&rf, rf.client, RF_POOL, 2), REM_SAID_DONE);
        assert_int_equal(ask_prepare(&rf, l[0].client, RF_POOL, 2), REM_SAID_DONE); /* without the client's term */
        assert_int_equal(prepare_asked, 4);
        assert_int_equal(ask_prepare(&rf, rf.client, RF_POOL + 1, 2), REM_SAID_ABSENT);
        assert_int_equal(ask_prepare(&rf, rf.client, RF_POOL, 7), REM_SAID_UNREACHABLE);
        assert_int_equal(prepare_asked, 4);
        rem_server_note(rf.server, REM_NOTE_ETCD);
        assert_int_equal(ask_state(&rf, RF_POOL, 2, &pool), REM_SAID_DONE);
        assert_int_equal(pool.note, REM_NOTE_ETCD);
        assert_int_equal(rem_server_prepared(rf.server, RF_POOL, true), 0);
        assert_int_equal(ask_state(&rf, RF_POOL, 2, &pool), REM_SAID_DONE);
        assert_int_equal(pool.note, REM_NOTE_ETCD | REM_NOTE_PREPARED);
        assert_true(eng_term_same(&pool.granted, &l[0].term)); /* as before */
        assert_int_equal(ask_open(&rf, &l[1], 0, &open), REM_SAID_GRANTED);
        assert_int_equal(opened_told, 1);
        assert_int_equal(ask_ping(&rf, &l[0], true, &ping), REM_SAID_DEPOSED); /* it has given up what it had all the same */
        assert_int_equal(ask_open(&rf, &l[1], 0, &open), REM_SAID_DONE);
        assert_int_equal(opened_told, 2);
        assert_int_equal(rem_server_prepared(rf.server, RF_POOL, false), 0);
        rem_server_pool_state(rf.server, RF_POOL, &pool);
        assert_int_equal(pool.note, REM_NOTE_ETCD);
        rem_server_distrust(rf.server);
        assert_int_equal(ask_prepare(&rf, rf.client, RF_POOL, 2), REM_SAID_FAILED);
        assert_int_equal(prepare_asked, 4);
        end(&rf, l, 2);
}

/* ---- what makes no sense --------------------------------------------------------------------- */

struct raw {
        struct net_call call;
        bool done;
};

static void raw_done(struct net_call *call)
{
        container_of(call, struct raw, call)->done = true;
}

static int raw_ask(struct rf *rf, uint32_t operation, enum net_link_number link, const void *body, uint32_t len)
{
        struct lp_loop *outer = lp_become(rf->a.loops[0]);
        struct raw raw = {.call = {.peer = rf->to_b,
                                   .link = link,
                                   .operation = operation,
                                   .body = body,
                                   .body_len = len,
                                   .deadline = lp_now(rf->a.loops[0]) + 5 * SECOND,
                                   .done = raw_done}};

        net_call(&raw.call);
        lp_become(outer);
        mem_settle();
        if (!raw.done)
                mem_pass(20000);
        assert_true(raw.done);
        return raw.call.outcome == NET_ANSWERED ? raw.call.status : -1;
}

static void test_requests_that_make_no_sense(void **state)
{
        struct rem_head good = {.pool = RF_POOL, .term = {.generation = 1, .revision = 5}}, bad;
        uint8_t body[256];
        struct leader l[1];
        unsigned round;
        struct rf rf;

        begin(&rf);
        leader_new(&rf, 5, cluster, &l[0]);
        lead(&rf, &l[0]);
        good.term = l[0].term;
        assert_int_equal(raw_ask(&rf, REM_PING, NET_CONTROL, &good, sizeof(good)), REM_DONE);
        assert_int_equal(raw_ask(&rf, REM_PING, NET_LOG, &good, sizeof(good)), REM_BAD);
        assert_int_equal(raw_ask(&rf, REM_PING, NET_CONTROL, &good, sizeof(good) - 1), REM_BAD);
        assert_int_equal(raw_ask(&rf, REM_STATE, NET_CONTROL, &good, sizeof(good)), REM_BAD); /* it has no term */
        good.term.boot++; /* whose it is: the connection's */
        assert_int_equal(raw_ask(&rf, REM_PING, NET_CONTROL, &good, sizeof(good)), REM_BAD);
        memset(body, 0, sizeof(body));
        memcpy(body, &good, sizeof(good));
        assert_int_equal(raw_ask(&rf, REM_OPEN, NET_LOG, body, sizeof(good) + FMT_ID), REM_BAD);
        good.term.boot--;
        good.term.node++;
        assert_int_equal(raw_ask(&rf, REM_PING, NET_CONTROL, &good, sizeof(good)), REM_BAD);
        memset(&good.term, 0, sizeof(good.term));
        assert_int_equal(raw_ask(&rf, REM_STATE, NET_CONTROL, &good, sizeof(good)), REM_DONE);
        assert_int_equal(raw_ask(&rf, REM_PING, NET_CONTROL, &good, sizeof(good)), REM_BAD);
        memset(body, 0, sizeof(body));
        memcpy(body, &good, sizeof(good));
        assert_int_equal(raw_ask(&rf, REM_OPEN, NET_LOG, body, sizeof(good) + FMT_ID), REM_BAD);
        assert_int_equal(raw_ask(&rf, REM_OPEN, NET_CONTROL, body, sizeof(good) + FMT_ID), REM_BAD);
        for (round = 0; round < 3000; round++) {
                uint32_t operation = REM_OPEN + (uint32_t)(draw() % 5), len = (uint32_t)(draw() % sizeof(body));
                unsigned i;

                for (i = 0; i < sizeof(body); i++)
                        body[i] = (uint8_t)draw();
                bad = good;
                bad.term = l[0].term;
                if (draw() % 4 != 0)
                        memcpy(body, &bad, sizeof(bad));
                for (i = 0; i < draw() % 4; i++)
                        body[draw() % sizeof(bad)] ^= (uint8_t)(1u << draw() % 8);
                if (draw() % 2 == 0)
                        len = sizeof(bad) + (operation == REM_OPEN ? FMT_ID : 0);
                raw_ask(&rf, operation, operation == REM_OPEN ? NET_LOG : NET_CONTROL, body, len);
        }
        end(&rf, l, 1);
}

/* A peer that answers anything. */
static uint8_t lie[4096];
static uint32_t lie_len;
static int32_t lie_status;

static enum net_bulk liar_bulk(void *arg, struct net_request *request)
{
        return NET_BULK_DISCARD;
}

static void liar_lost(void *arg, struct net_request *request)
{
}

static void liar_request(void *arg, struct net_request *request)
{
        struct net_answer answer = {.status = lie_status, .body = lie, .body_len = lie_len};

        net_reply(request, &answer);
}

static void test_liar(void **state)
{
        const struct net_handler handler = {.bulk = liar_bulk, .request = liar_request, .lost = liar_lost};
        struct rem_pool_head head = {.count = 2};
        struct rem_slot slots[2] = {{.slot = 1, .incarnation = 7}, {.slot = 3, .incarnation = 8}};
        struct rem_pool_state pool;
        struct rem_open open;
        struct rem_ping ping;
        struct leader l[1];
        unsigned round, i;
        struct rf rf;

        now_ns = SECOND;
        rf_start_with(&rf, &handler, 0);
        leader_new(&rf, 5, cluster, &l[0]);
        memcpy(lie, &head, sizeof(head));
        memcpy(lie + sizeof(head), slots, sizeof(slots));
        lie_len = sizeof(head) + sizeof(slots);
        lie_status = REM_DONE;
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_DONE);
        assert_int_equal(ping.count, 2);
        lie_len--;
        assert_int_equal(ask_ping(&rf, &l[0], false, &ping), REM_SAID_REFUSED);
        slots[1].slot = 1; /* twice */
        memcpy(lie + sizeof(head), slots, sizeof(slots));
        lie_len++;
        assert_int_equal(ask_state(&rf, RF_POOL, 2, &pool), REM_SAID_REFUSED);
        assert_int_equal(ask_open(&rf, &l[0], 0, &open), REM_SAID_REFUSED);
        for (round = 0; round < 3000; round++) {
                lie_status = (int32_t)(draw() % (REM_STATUSES + 2));
                lie_len = draw() % 2 == 0 ? (uint32_t)(draw() % 300) : sizeof(struct rem_refusal);
                for (i = 0; i < lie_len; i++)
                        lie[i] = draw() % 2 == 0 ? 0 : (uint8_t)draw();
                ask_ping(&rf, &l[0], false, &ping);
                ask_open(&rf, &l[0], 0, &open);
                ask_state(&rf, RF_POOL, 2, &pool);
                assert_true(open.said != REM_SAID_DONE || open.incarnation != 0);
        }
        end(&rf, l, 1);
}

int main(void)
{
        const char *given = getenv("SEED");
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_open),
                cmocka_unit_test(test_not_opened),
                cmocka_unit_test(test_newer_leader),
                cmocka_unit_test(test_deposed_without_asking),
                cmocka_unit_test(test_grant),
                cmocka_unit_test(test_prepare),
                cmocka_unit_test(test_release),
                cmocka_unit_test(test_restart),
                cmocka_unit_test(test_slots),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_lost_answer),
                cmocka_unit_test(test_folder_comes_back),
                cmocka_unit_test(test_no_memory),
                cmocka_unit_test(test_random),
                cmocka_unit_test(test_requests_that_make_no_sense),
                cmocka_unit_test(test_liar),
        };

        seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
        print_message("SEED=%llu\n", (unsigned long long)seed);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
