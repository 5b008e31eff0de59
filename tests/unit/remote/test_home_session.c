/*
 * test_home_session.c - a home store and its leader over TCP and TLS: objects, configuration, connections
 * that end, a leader that is another, a home that is silent. Loops run on threads.
 */
#include "engine/object/object.h"
#include "engine_home.h"
#include "tests/unit/remote/session_fixture.h"

static void test_objects(void **state)
{
        static const size_t sizes[] = {0, SMALL, 16u << 10, 100000, LARGE};
        char key[32];
        unsigned i;
        bool more;
        char *list;
        int rv;

        for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                snprintf(key, sizeof(key), "o/%u", i);
                assert_int_equal(sf_put(&hf.home, i % 2, bucket, key, 7 + i, sizes[i], i % 2 == 0, NULL), 0);
                assert_int_equal(sf_get(&hf.home, 1 - i % 2, bucket, key, 7 + i, sizes[i]), 0);
                assert_int_equal(sf_get(&leader, 0, bucket, key, 7 + i, sizes[i]), 0);
        }
        list = sf_list(&hf.home, 0, bucket, "o/", "", "", 100, &rv, &more);
        assert_int_equal(rv, 0);
        assert_string_equal(list, "o/0\no/1\no/2\no/3\no/4\n");
        free(list);
        assert_int_equal(rem_home_server_sessions(server), 1);
}

/* A change is answered when homes have it. */
static void test_configuration(void **state)
{
        struct eng_text *text;
        uint64_t id, there;
        char name[16];
        unsigned i;

        for (i = 0; i < 20; i++) {
                struct sf *one = i % 2 == 0 ? &leader : &hf.home, *other = i % 2 == 0 ? &hf.home : &leader;

                snprintf(name, sizeof(name), "b-%u", i);
                assert_int_equal(sf_bucket(one, name, &id), 0);
                assert_int_equal(sf_text_set(one, 0, id, 5, 0, name, strlen(name)), 0);
                assert_int_equal(sf_text(other, 1, id, 5, &text), 0);
                eng_text_unref(text);
                assert_int_equal(sf_text_set(other, 0, i, 200, 0, "entry", 5), 0);
                assert_int_equal(sf_text(one, 0, i, 200, &text), 0);
                eng_text_unref(text);
                assert_int_equal(sf_bucket_delete(one, name), 0);
                assert_int_equal(sf_text(other, 1, id, 5, &text), -EIDRM);
        }
        assert_int_equal(sf_bucket(&hf.home, "bucket", &there), -EEXIST);
}

/* What is asked meanwhile waits; what was under way is of unknown outcome, or was never sent. */
static void test_cut(void **state)
{
        unsigned i, done = 0, refused = 0;
        int rv;

        for (i = 0; i < 6; i++) {
                lose_it();
                to_b = node_meets(&a, &b);
                rv = sf_put(&hf.home, i % 2, bucket, "cut", i, SMALL, true, NULL);
                assert_true(rv == 0 || rv == -EHOSTDOWN);
                done += rv == 0;
                refused += rv != 0;
                if (rv == 0)
                        assert_int_equal(sf_get(&hf.home, 0, bucket, "cut", i, SMALL), 0);
        }
        assert_int_equal(done + refused, 6);
        WAIT_UNTIL(follows());
        assert_int_equal(sf_put(&hf.home, 0, bucket, "cut", 99, LARGE, true, NULL), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "cut", 99, LARGE), 0);
        assert_int_equal(rem_home_server_sessions(server), 1);
}

static ssize_t ask_for(size_t size, uint8_t *room)
{
        uint8_t question[1 + sizeof(size)] = "+";

        memcpy(question + 1, &size, sizeof(size));
        return rem_home_link_ask(link_, question, sizeof(question), room);
}

/* What an operator asks of the leader: any bytes, there and back; too many; nobody there; an answer that does not come. */
static void test_questions(void **state)
{
        static uint8_t question[REM_ASK_MAX + 1], room[REM_ASK_ROOM];
        size_t i, len;

        for (i = 0; i < sizeof(question); i++)
                question[i] = (uint8_t)(i * 7 % 41);
        for (len = 1; len <= REM_ASK_MAX; len = len * 8 < REM_ASK_MAX || len == REM_ASK_MAX ? len * 8 : REM_ASK_MAX) {
                assert_int_equal(rem_home_link_ask(link_, question, len, room), (ssize_t)len);
                for (i = 0; i < len; i++)
                        assert_int_equal(room[i], question[len - 1 - i]);
        }
        assert_int_equal(rem_home_link_ask(link_, question, 0, room), -EMSGSIZE);
        assert_int_equal(rem_home_link_ask(link_, question, REM_ASK_MAX + 1, room), -EMSGSIZE);
        assert_int_equal(ask_for(0, room), -EHOSTDOWN);
        assert_int_equal(ask_for(REM_ASK_ROOM, room), REM_ASK_ROOM);
        assert_int_equal(ask_for(REM_ASK_ROOM + 1, room), -EMSGSIZE);
        atomic_store(&hold, true);
        assert_int_equal(rem_home_link_ask(link_, question, 10, room), -ETIMEDOUT);
        atomic_store(&hold, false);
        rem_home_asked_answer(atomic_exchange(&held, NULL)); /* late: nobody takes it */
        assert_int_equal(rem_home_link_ask(link_, question, 10, room), 10);
        rem_home_link_leader(link_, 0);
        assert_int_equal(rem_home_link_ask(link_, question, 10, room), -EHOSTDOWN);
        rem_home_link_leader(link_, 3);
        assert_int_equal(rem_home_link_ask(link_, question, 10, room), -EHOSTDOWN);
        rem_home_link_leader(link_, 2);
        assert_int_equal(rem_home_link_ask(link_, question, 10, room), 10);
}

static struct {
        struct lp_msg msg;
        struct eng_leader_call call;
        atomic_bool over;
} nonsense;

static void nonsense_answered(struct eng_leader_call *call)
{
        atomic_store(&nonsense.over, true);
}

static void ask_nonsense(struct lp_msg *msg)
{
        const struct eng_leader_link *engine = rem_home_link_engine(link_);

        nonsense.call.body = "nonsense";
        nonsense.call.body_len = 8;
        nonsense.call.done = nonsense_answered;
        engine->call(engine->arg, &nonsense.call);
}

/* What the leader does not understand it would not understand if it was asked again: the call ends, also one that only reads. */
static void test_nonsense(void **state)
{
        unsigned reads;

        for (reads = 0; reads < 2; reads++) {
                memset(&nonsense.call, 0, sizeof(nonsense.call));
                nonsense.call.reads = reads == 1;
                atomic_store(&nonsense.over, false);
                nonsense.msg.run = ask_nonsense;
                lp_post(hf.home.loops[0], &nonsense.msg);
                WAIT_UNTIL(atomic_load(&nonsense.over));
                assert_true(atomic_load(&nonsense.over));
                assert_int_equal(nonsense.call.outcome, reads == 1 ? ENG_LEADER_NOT_SENT : ENG_LEADER_UNKNOWN);
        }
        assert_int_equal(sf_put(&hf.home, 0, bucket, "k", 1, SMALL, true, NULL), 0);
}

/* Another process leads, with a newer term: rows are read anew, and an older leader's word is nothing any more. */
static void test_another_leader(void **state)
{
        struct eng_text *text, *kept;
        uint64_t id;

        assert_int_equal(sf_text_set(&leader, 0, bucket, 9, 0, "before", 6), 0);
        assert_int_equal(sf_text(&hf.home, 0, bucket, 9, &kept), 0);
        stop_leader_node();
        rem_home_server_free(server);
        start_leader_node(11);
        to_b = node_meets(&a, &b);
        node_meets(&b, &a);
        WAIT_UNTIL(rem_home_server_sessions(server) == 1 && follows());
        assert_int_equal(sf_put(&hf.home, 0, bucket, "again", 4, LARGE, true, NULL), 0);
        assert_int_equal(sf_text(&hf.home, 0, bucket, 9, &text), 0);
        assert_ptr_equal(text, kept); /* it has all rows, and none was read again */
        eng_text_unref(text);
        assert_int_equal(sf_bucket(&leader, "later", &id), 0);
        stop_leader_node();
        rem_home_server_free(server);
        start_leader_node(10);
        to_b = node_meets(&a, &b);
        node_meets(&b, &a);
        WAIT_UNTIL(!follows());
        assert_false(eng_is_current(hf.home.store)); /* its lease is over, and it has no other */
        stop_leader_node();
        rem_home_server_free(server);
        assert_int_equal(sf_text_set(&leader, 0, bucket, 9, ENG_TEXT_ANY, "between", 7), 0);
        start_leader_node(12);
        to_b = node_meets(&a, &b);
        node_meets(&b, &a);
        WAIT_UNTIL(follows());
        assert_int_equal(sf_get(&hf.home, 0, bucket, "again", 4, LARGE), 0);
        assert_int_equal(sf_text(&hf.home, 0, bucket, 9, &text), 0);
        assert_int_equal(eng_text_bytes(text).len, 7);
        eng_text_unref(text);
        eng_text_unref(kept);
}

/* A home that cannot be reached is waited for, and then no more. */
static void test_silent_home(void **state)
{
        uint64_t id;

        lose_it();
        assert_int_equal(sf_bucket(&leader, "without", &id), 0);
        assert_false(eng_is_current(hf.home.store));
        to_b = node_meets(&a, &b);
        WAIT_UNTIL(follows());
        assert_int_equal(sf_text_set(&hf.home, 0, id, 1, 0, "x", 1), 0);
}

/* All homes have told which uploads are under way, behind `since`. */
static uint64_t have_told(struct eng_store *store, uint64_t since)
{
        return store->coord->homes->have_told(store->coord->homes->arg, since);
}

static sem_t loop_is_held, loop_goes_on;

static void hold_loop(struct lp_msg *msg)
{
        sem_post(&loop_is_held);
        while (sem_wait(&loop_goes_on) != 0)
                ;
}

/* A home whose next session has told nothing yet believes what it was told in the one before: it is waited for. */
static void test_joins_again(void **state)
{
        struct lp_msg holding = {.run = hold_loop};
        uint64_t id;
        bool believes;
        int rv;

        sem_init(&loop_is_held, 0, 0);
        sem_init(&loop_goes_on, 0, 0);
        assert_int_equal(sf_bucket(&leader, "before", &id), 0); /* homes of a leader before are waited for no more */
        WAIT_UNTIL(sf_ask(&leader, have_told, 0) == 1);
        lp_post(hf.home.loops[1], &holding); /* it joins, and does not come to ask WATCH */
        while (sem_wait(&loop_is_held) != 0)
                ;
        lose_it();
        node_all_know(&a);
        to_b = node_meets(&a, &b);
        WAIT_UNTIL(sf_ask(&leader, have_told, 0) == 0);
        rv = sf_bucket(&leader, "between", &id);
        believes = eng_is_current(hf.home.store);
        sem_post(&loop_goes_on);
        assert_int_equal(rv, 0);
        assert_false(believes);
        WAIT_UNTIL(follows());
        assert_int_equal(sf_text_set(&hf.home, 0, id, 1, 0, "x", 1), 0);
}

/* An orphan collection takes nothing that a home has under way; what an upload left that nobody discards, it does. */
static void test_orphans(void **state)
{
        struct hf_upload open = {.size = 4 * LARGE}, left = {.size = 4 * LARGE};
        struct eng_verify_report report;
        struct eng_health *h = malloc(sizeof(*h));

        assert_int_equal(hf_upload_go(&hf, bucket, &open, 3 * LARGE), 0);
        WAIT_UNTIL(ids_of_homes() >= 4 || (collect_all(), false)); /* which makes drives write their indexes */
        assert_true(ids_of_homes() >= 4);
        collect_all();
        open.commits = true;
        assert_int_equal(hf_upload_go(&hf, bucket, &open, 4 * LARGE), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "open", 4, 4 * LARGE), 0);
        so_verify(&leader, &report);
        assert_int_equal(report.missing_shards, 0);
        assert_int_equal(hf_upload_go(&hf, bucket, &left, 3 * LARGE), 0);
        lose_it();
        left.aborts = true;
        assert_int_equal(hf_upload_go(&hf, bucket, &left, left.at), 0);
        WAIT_UNTIL(rem_home_server_sessions(server) == 0);
        usleep(2000000); /* DISCARD is given up: it waits for ten seconds */
        meet_again();
        WAIT_UNTIL((eng_health_read(leader.store, h), h->orphan_ids > 0) || (sf_ask(&leader, collect, 0), false));
        eng_health_read(leader.store, h);
        assert_true(h->orphan_ids > 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "open", 4, 4 * LARGE), 0);
        free(h);
}

static struct eng_made open_made;

static void read_open(void *arg)
{
        uint8_t id[FMT_ID];
        uint64_t epoch;

        MUST(eng_put_oldest(&hf.home.store->loops[0], id, &epoch));
        eng_id_made(id, &open_made);
}

static uint64_t open_is_past(struct eng_store *store, uint64_t arg)
{
        return store->coord->homes->is_past(store->coord->homes->arg, open_made.node, (uint32_t)open_made.run, open_made.loop, open_made.count);
}

static uint64_t leader_time(struct eng_store *store, uint64_t arg)
{
        return lp_now(store->coord_loop->loop);
}

/* What was under way when a collection began is not past for it, whatever its home tells later: its record came later, too. */
static void test_past(void **state)
{
        struct hf_upload open = {.size = LARGE};
        uint64_t since, id;

        assert_int_equal(hf_upload_go(&hf, bucket, &open, LARGE / 2), 0);
        hf_run(hf.home.loops[0], read_open, NULL);
        assert_int_equal(sf_ask(&leader, open_is_past, 0), 0); /* no collection has asked */
        since = sf_ask(&leader, leader_time, 0);
        WAIT_UNTIL(sf_ask(&leader, have_told, since) == 1);
        assert_int_equal(sf_ask(&leader, have_told, since), 1);
        assert_int_equal(sf_ask(&leader, open_is_past, 0), 0);
        open.commits = true;
        assert_int_equal(hf_upload_go(&hf, bucket, &open, LARGE), 0);
        assert_int_equal(sf_bucket(&leader, "told", &id), 0); /* it has asked WATCH since, with its bounds of then */
        assert_int_equal(sf_ask(&leader, open_is_past, 0), 0);
        since = sf_ask(&leader, leader_time, 0);
        WAIT_UNTIL(sf_ask(&leader, have_told, since) == 1);
        assert_int_equal(sf_ask(&leader, open_is_past, 0), 1);
        lose_it(); /* its next session has not told when this collection began */
        node_all_know(&a);
        WAIT_UNTIL(!eng_is_current(hf.home.store));
        to_b = node_meets(&a, &b);
        WAIT_UNTIL(follows());
        assert_int_equal(sf_ask(&leader, open_is_past, 0), 0);
}

/* The next leader: with its own term. */
static void leader_follows(uint64_t revision)
{
        stop_leader_node();
        rem_home_server_free(server);
        start_leader_node(revision);
        to_b = node_meets(&a, &b);
        node_meets(&b, &a);
}

/* A home that comes before the leader serves does not ask again and again: it is told when it does. */
static void test_held_join(void **state)
{
        static _Atomic uint64_t lease;
        uint64_t began;

        atomic_store(&lease, 0);
        leader_lease = &lease;
        atomic_store(&joins, 0);
        leader_follows(11);
        WAIT_UNTIL(atomic_load(&joins) > 0);
        began = lp_clock();
        usleep(400000);
        assert_true(atomic_load(&joins) <= 2 + (lp_clock() - began) / 1000000000ull);
        assert_int_equal(rem_home_server_sessions(server), 0);
        atomic_store(&lease, UINT64_MAX);
        WAIT_UNTIL(rem_home_server_sessions(server) == 1 && follows());
        assert_int_equal(sf_put(&hf.home, 0, bucket, "behind", 4, LARGE, true, NULL), 0);
        atomic_store(&lease, 0);
        atomic_store(&joins, 0);
        lose_it();
        to_b = node_meets(&a, &b);
        WAIT_UNTIL(atomic_load(&joins) > 1); /* one that is held for too long is answered, and comes again */
        leader_lease = NULL;
        leader_follows(12); /* with one that is held */
        WAIT_UNTIL(rem_home_server_sessions(server) == 1 && follows());
        assert_int_equal(sf_get(&hf.home, 0, bucket, "behind", 4, LARGE), 0);
}

static void told(uint16_t party)
{
        rem_home_link_leader(link_, party);
        hf_run(hf.home.store->coord_loop->loop, nothing, NULL); /* it has heard of it */
}

/*
 * A home that is told of another leader lets go of a JOIN that is held, which is for 1.5 s. When the first one leads
 * again it joins there once more: the older JOIN does not end the newer one's session. On a busy machine a JOIN may be
 * held for too long: then another round tells.
 */
static void test_a_join_that_is_let_go(void **state)
{
        bool at_once = false, kept = false;
        static _Atomic uint64_t lease;
        unsigned round, before, i;
        uint64_t began;

        leader_lease = &lease;
        atomic_store(&lease, UINT64_MAX);
        leader_follows(11);
        WAIT_UNTIL(rem_home_server_sessions(server) == 1 && follows());
        assert_int_equal(sf_put(&hf.home, 0, bucket, "first", 4, SMALL, true, NULL), 0); /* no JOIN is on its way */
        for (round = 0; round < 20 && !(at_once && kept); round++) {
                atomic_store(&lease, 0);
                atomic_store(&joins, 0);
                lose_it();
                began = lp_clock();
                to_b = node_meets(&a, &b);
                WAIT_UNTIL(atomic_load(&joins) == 1);
                told(9); /* whom it does not know */
                told(2);
                WAIT_UNTIL(atomic_load(&joins) > 1);
                at_once |= lp_clock() - began < 1500000000ull;
                for (i = 0; i < NODE_LOOPS; i++)
                        hf_run(b.lp[i], nothing, NULL);
                hf_run(server_options.coordinator, nothing, NULL); /* both have come to be held */
                before = atomic_load(&joins);
                atomic_store(&lease, UINT64_MAX);
                assert_int_equal(sf_put(&hf.home, 0, bucket, "joined", 4, SMALL, true, NULL), 0); /* in a session */
                kept |= atomic_load(&joins) == before;
        }
        assert_true(at_once);
        assert_true(kept);
        leader_lease = NULL;
}

static void *put_late(void *arg)
{
        *(int *)arg = sf_put(&hf.home, 0, bucket, "late", 5, SMALL, true, NULL);
        return NULL;
}

/* A leader that is about to hand over lets in no more: what homes ask is done by the next one, and nobody is told that it failed. */
static void test_closed(void **state)
{
        pthread_t thread;
        int rv = 1;

        assert_int_equal(sf_put(&hf.home, 0, bucket, "early", 4, SMALL, true, NULL), 0);
        WAIT_UNTIL(rem_home_server_calls(server) == 0); /* the answer has left */
        assert_int_equal(rem_home_server_calls(server), 0);
        atomic_store(&joins, 0);
        rem_home_server_close(server);
        assert_int_equal(pthread_create(&thread, NULL, put_late, &rv), 0);
        WAIT_UNTIL(rem_home_server_sessions(server) == 0 && atomic_load(&joins) > 3); /* its home asks for another one, in vain */
        MUST(rem_home_server_sessions(server) == 0 && rem_home_server_calls(server) == 0); /* it was not let in */
        MUST(sf_get(&leader, 0, bucket, "late", 5, SMALL) == -ENOENT && rv == 1);
        leader_follows(11);
        pthread_join(thread, NULL);
        assert_int_equal(rv, 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "late", 5, SMALL), 0);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "early", 4, SMALL), 0);
}

static void *set_late(void *arg)
{
        *(_Atomic int *)arg = sf_text_set(&leader, 0, bucket, 7, 0, "late", 4);
        return NULL;
}

/* A change waits for a home that may go by what it had for some seconds more: nobody is told that it is done because its session ends. */
static void test_closed_with_a_change(void **state)
{
        struct lp_msg holding = {.run = hold_loop};
        static _Atomic int rv;
        struct eng_text *text;
        pthread_t thread;
        uint64_t id;

        atomic_store(&rv, 1);
        sem_init(&loop_is_held, 0, 0);
        sem_init(&loop_goes_on, 0, 0);
        assert_int_equal(sf_bucket(&leader, "before", &id), 0); /* homes of a leader before are waited for no more */
        WAIT_UNTIL(sf_ask(&leader, have_told, 0) == 1);
        lp_post(hf.home.loops[1], &holding);
        while (sem_wait(&loop_is_held) != 0)
                ;
        assert_int_equal(pthread_create(&thread, NULL, set_late, (void *)&rv), 0);
        WAIT_UNTIL(sf_text(&leader, 0, bucket, 7, &text) == 0);
        eng_text_unref(text);
        rem_home_server_close(server);
        WAIT_UNTIL(rem_home_server_sessions(server) == 0);
        usleep(100000);
        MUST(atomic_load(&rv) == 1);
        sem_post(&loop_goes_on);
        leader_follows(11);
        pthread_join(thread, NULL);
        assert_int_equal(atomic_load(&rv), 0); /* behind the time in which homes of the leader before may believe it */
        WAIT_UNTIL(follows());
        assert_int_equal(sf_text(&hf.home, 0, bucket, 7, &text), 0);
        eng_text_unref(text);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_objects, begin, end),
                cmocka_unit_test_setup_teardown(test_configuration, begin, end),
                cmocka_unit_test_setup_teardown(test_cut, begin, end),
                cmocka_unit_test_setup_teardown(test_questions, begin, end),
                cmocka_unit_test_setup_teardown(test_nonsense, begin, end),
                cmocka_unit_test_setup_teardown(test_another_leader, begin, end),
                cmocka_unit_test_setup_teardown(test_silent_home, begin, end),
                cmocka_unit_test_setup_teardown(test_joins_again, begin, end),
                cmocka_unit_test_setup_teardown(test_orphans, begin, end),
                cmocka_unit_test_setup_teardown(test_past, begin, end),
                cmocka_unit_test_setup_teardown(test_held_join, begin, end),
                cmocka_unit_test_setup_teardown(test_a_join_that_is_let_go, begin, end),
                cmocka_unit_test_setup_teardown(test_closed, begin, end),
                cmocka_unit_test_setup_teardown(test_closed_with_a_change, begin, end),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
