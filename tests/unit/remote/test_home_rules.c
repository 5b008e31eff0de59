/*
 * test_home_rules.c - what a session promises, over TCP and TLS: a lock clock that is confirmed, clients that
 * change nothing any more, how often a home that is idle asks, and how much one may send.
 */
#include "engine/call/leader_call.h"
#include "tests/unit/remote/session_fixture.h"

#define SECOND_MS 1000

/* The clock of both processes: the machine's, and so much. */
static _Atomic int64_t ahead;

static int64_t wall(void)
{
        return lp_wall_ms() + atomic_load(&ahead);
}

/* Nothing happens: a WATCH is asked twice a second, and whenever the leader looks at its drives. */
static void test_idle(void **state)
{
        unsigned before = atomic_load(&watches);

        usleep(2000000);
        assert_in_range(atomic_load(&watches) - before, 1, 12);
}

/* ---- the lock clock -------------------------------------------------------------------------- */

struct confirming {
        struct lp_msg msg;
        struct sf *sf;
        int64_t wall_ms;
        sem_t done;
        int rv;
};

static void confirm_done(void *arg, int rv)
{
        struct confirming *c = arg;

        c->rv = rv;
        sem_post(&c->done);
}

static void confirm_begin(struct lp_msg *msg)
{
        struct confirming *c = container_of(msg, struct confirming, msg);

        eng_lock_confirm(c->sf->store, c->wall_ms, confirm_done, c);
}

static int confirm(struct sf *sf, int64_t wall_ms)
{
        struct confirming c = {.msg = {.run = confirm_begin}, .sf = sf, .wall_ms = wall_ms};

        sem_init(&c.done, 0, 0);
        lp_post(sf->loops[0], &c.msg);
        while (sem_wait(&c.done) != 0)
                ;
        sem_destroy(&c.done);
        return c.rv;
}

static bool about(int64_t one_ms, int64_t other_ms)
{
        return llabs(one_ms - other_ms) < 60ll * SECOND_MS;
}

static int begin_with_clocks(void **state)
{
        atomic_store(&ahead, 0);
        leader_wall = wall;
        return begin(state);
}

static int end_with_clocks(void **state)
{
        leader_wall = NULL;
        return end(state);
}

/* The home shows what the leader's lock clock does, and when a confirmation is answered nobody shows another. */
static void test_lock_clock(void **state)
{
        int64_t day = 24ll * 3600 * SECOND_MS;

        assert_int_equal(sf_text_set(&leader, 0, bucket, 9, 0, "x", 1), 0); /* a store whose lock clock counts */
        atomic_store(&ahead, 100 * day);
        assert_true(about(eng_lock_now(leader.store), lp_wall_ms()));
        assert_int_equal(confirm(&hf.home, wall()), 0);
        assert_true(about(eng_lock_now(hf.home.store), wall()));
        atomic_store(&ahead, 200 * day);
        assert_int_equal(confirm(&leader, wall()), 0);
        assert_true(about(eng_lock_now(hf.home.store), wall()));
        lose_it();
        atomic_store(&ahead, 300 * day);
        assert_int_equal(confirm(&leader, wall()), 0);
        assert_false(eng_is_current(hf.home.store)); /* it does not know, and nobody goes by what it has */
        meet_again();
        assert_true(about(eng_lock_now(hf.home.store), wall()));
        assert_int_equal(confirm(&leader, lp_wall_ms()), -ESTALE);
}

/* ---- clients that change nothing ------------------------------------------------------------- */

static bool changes_end(void)
{
        WAIT_UNTIL(rem_home_server_changing(server) == 0);
        return rem_home_server_changing(server) == 0;
}

static void refuses_changes(void)
{
        struct eng_text *text;
        bool existed;
        uint64_t id;

        assert_int_equal(sf_put(&hf.home, 0, bucket, "small", 2, SMALL, true, NULL), -EHOSTDOWN);
        assert_int_equal(sf_put(&hf.home, 1, bucket, "large", 2, LARGE, true, NULL), -EHOSTDOWN);
        assert_int_equal(sf_delete(&hf.home, 0, bucket, "small", &existed), -EHOSTDOWN);
        assert_int_equal(sf_bucket(&hf.home, "another", &id), -EHOSTDOWN);
        assert_int_equal(sf_bucket_delete(&hf.home, "bucket"), -EHOSTDOWN);
        assert_int_equal(sf_text_set(&hf.home, 0, bucket, 9, ENG_TEXT_ANY, "x", 1), -EHOSTDOWN);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "small", 1, SMALL), 0);
        assert_int_equal(sf_get(&leader, 0, bucket, "small", 1, SMALL), 0);
        assert_int_equal(sf_text(&hf.home, 0, bucket, 9, &text), -ENOENT);
        assert_int_equal(rem_home_server_changing(server), 0);
}

static void test_read_only(void **state)
{
        atomic_store(&told_switches, 0);
        atomic_store(&told_changing, 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "small", 1, SMALL, true, NULL), 0);
        assert_true(changes_end());
        rem_home_server_read_only(server, 7);
        usleep(1500000);
        assert_int_equal(rem_home_server_changing(server), 1); /* the home has not heard of it */
        assert_int_equal(sf_put(&hf.home, 0, bucket, "late", 1, SMALL, true, NULL), 0);
        atomic_store(&told_changing, 1);
        atomic_store(&told_switches, 7);
        usleep(1500000);
        assert_true(rem_home_server_changing(server) > 0);
        assert_int_equal(sf_put(&hf.home, 1, bucket, "later", 1, LARGE, true, NULL), 0); /* what was let in ends */
        atomic_store(&told_changing, 0);
        assert_true(changes_end());
        refuses_changes();
        atomic_store(&told_switches, 6);
        lose_it();
        meet_again(); /* a home that has forgotten is not believed */
        refuses_changes();
        rem_home_server_read_only(server, 0);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "small", 3, SMALL, true, NULL), 0);
        rem_home_server_read_only(server, 9);
        assert_true(rem_home_server_changing(server) > 0); /* nothing of before counts */
        lose_it();
        assert_int_equal(sf_put(&leader, 0, bucket, "own", 3, SMALL, true, NULL), 0); /* the leader's own are not its matter */
        WAIT_UNTIL(rem_home_server_sessions(server) == 0);
        assert_true(changes_end()); /* a home that is gone changes nothing */
        meet_again();
        assert_int_equal(rem_home_server_changing(server), 0);
        atomic_store(&told_switches, 0);
}

/* ---- what a home may send -------------------------------------------------------------------- */

#define MEMORY (8u << 20)
#define CALLS  (MEMORY / 4 * 3) /* of that, for what is no lookup */
#define TEXT   (200u << 10)
#define FLOOD  400u

static int begin_small(void **state)
{
        leader_memory = MEMORY;
        return begin(state);
}

static int end_small(void **state)
{
        leader_memory = 0;
        return end(state);
}

static struct node liar; /* the process of another home, which keeps to nothing */
static uint64_t liar_session;
static const char text_bytes[TEXT] = {1};
static atomic_uint ended, turned_away;

struct raw {
        struct net_call call; /* first */
        struct home_call head;
        uint8_t body[256];
};
static struct raw raws[FLOOD];
static struct net_call joining;
static struct home_join join = {.pool = POOL, .loops = 1};

static void raw_done(struct net_call *call)
{
        atomic_fetch_add(&turned_away, call->outcome == NET_ANSWERED && call->status == HOME_NOT_NOW);
        atomic_fetch_add(&ended, 1);
}

static void raw_joined(struct net_call *call)
{
        struct home_joined joined;

        MUST(call->outcome == NET_ANSWERED && call->status == HOME_DONE && call->answer_len == sizeof(joined));
        memcpy(&joined, call->answer, sizeof(joined));
        MUST(joined.credit.bytes[HOME_CALLS] == CALLS / 2); /* there are two */
        liar_session = joined.session;
        atomic_fetch_add(&ended, 1);
}

static void raw_join(void *arg)
{
        joining = (struct net_call){.peer = arg, .link = NET_CONTROL, .operation = HOME_JOIN, .body = &join, .body_len = sizeof(join), .done = raw_joined};
        net_call(&joining);
}

static void raw_flood(void *arg)
{
        unsigned i;

        for (i = 0; i < FLOOD; i++) {
                struct eng_call call = {.kind = ENG_CALL_TEXT_SET, .bucket = 1000 + i, .text = {.kind = 200, .bytes = {text_bytes, TEXT}}};
                struct eng_call_bulk bulk;
                struct raw *raw = &raws[i];
                int len;
                uint8_t body[ENG_CALL_BODY_MAX];

                len = eng_call_put(&call, body, &bulk);
                MUST(len > 0 && (size_t)len <= sizeof(raw->body));
                memcpy(raw->body, body, (size_t)len);
                raw->head.session = liar_session;
                raw->call = (struct net_call){.peer = arg, .link = NET_LOG, .lane = (uint16_t)(i % NET_LANES), .operation = HOME_CALL, .body = &raw->head,
                                              .body_len = (uint32_t)(sizeof(raw->head) + (size_t)len), .bulk = {{(void *)(uintptr_t)text_bytes, TEXT}},
                                              .bulk_count = 1, .done = raw_done};
                net_call(&raw->call);
        }
}
_Static_assert(offsetof(struct raw, body) == offsetof(struct raw, head) + sizeof(struct home_call), "body of a request");

static sem_t blocked, unblock;

static void block_loop(struct lp_msg *msg)
{
        sem_post(&blocked);
        sem_wait_or_fail(&unblock);
}

/* A key that is looked up on a loop that goes on. */
static void key_elsewhere(char key[32])
{
        unsigned i;

        for (i = 0; i < 1000; i++) {
                snprintf(key, 32, "elsewhere-%u", i);
                if (eng_primary(leader.store, eng_pg_of_key(leader.store->pg_count, bucket, key, strlen(key))) != leader.store->coord_loop)
                        return;
        }
        fail();
}

/* A home sends without end, and the leader does nothing of it: its memory is bounded, and others go on. */
static void test_flood(void **state)
{
        struct net_options options = node_options(REM_HOME_FIRST + 3, 5);
        struct lp_msg blocking = {.run = block_loop};
        struct net_peer *peer;
        uint64_t most = 0, bytes;
        unsigned i;
        char key[32];

        key_elsewhere(key);
        assert_int_equal(sf_put(&hf.home, 0, bucket, key, 5, SMALL, true, NULL), 0);
        sem_init(&blocked, 0, 0);
        sem_init(&unblock, 0, 0);
        atomic_store(&ended, 0);
        atomic_store(&turned_away, 0);
        node_start(&liar, &options);
        peer = node_meets(&liar, &b);
        node_meets(&b, &liar);
        on_loop(liar.lp[0], raw_join, peer);
        WAIT_UNTIL(atomic_load(&ended) == 1);
        assert_int_equal(atomic_exchange(&ended, 0), 1);
        assert_int_equal(rem_home_server_sessions(server), 2);
        lp_post(leader.store->coord_loop->loop, &blocking);
        sem_wait_or_fail(&blocked);
        on_loop(liar.lp[0], raw_flood, peer);
        for (i = 0; i < WAIT_MOST * 1000 && atomic_load(&turned_away) < FLOOD / 2; i++) {
                bytes = rem_home_server_bytes(server);
                most = bytes > most ? bytes : most;
                usleep(1000);
        }
        assert_in_range(most, CALLS / 2 - 2 * TEXT, CALLS / 2);
        assert_true(atomic_load(&turned_away) >= FLOOD / 2);
        assert_int_equal(sf_get(&hf.home, 0, bucket, key, 5, SMALL), 0); /* another's lookups are another matter */
        sem_post(&unblock);
        WAIT_UNTIL(atomic_load(&ended) == FLOOD);
        assert_int_equal(atomic_load(&ended), FLOOD);
        WAIT_UNTIL(rem_home_server_bytes(server) == 0);
        assert_int_equal(rem_home_server_bytes(server), 0);
        WAIT_UNTIL(follows());
        assert_int_equal(sf_put(&hf.home, 0, bucket, key, 6, SMALL, true, NULL), 0);
        node_stop(&liar);
        sem_destroy(&blocked);
        sem_destroy(&unblock);
}

struct on_link {
        struct net_call call; /* first */
        const void *body;
        uint32_t len;
        enum home_operation operation;
        enum net_link_number link;
        struct net_peer *peer;
};

static void asked_done(struct net_call *call)
{
        atomic_fetch_add(&ended, 1);
}

static void on_link_go(void *arg)
{
        struct on_link *o = arg;
        static uint8_t room[REM_ASK_ROOM];

        o->call = (struct net_call){.peer = o->peer, .link = o->link, .operation = o->operation, .body = o->body, .body_len = o->len,
                                    .room = {{room, sizeof(room)}}, .room_count = 1, .done = asked_done};
        if (o->operation == HOME_ASK) {
                o->call.bulk[0] = (struct iovec){(void *)(uintptr_t)text_bytes, 4};
                o->call.bulk_count = 1;
        }
        net_call(&o->call);
}

/* Bulk links can be plain TCP: what joins, and what operators ask, is taken on the links that are encrypted. */
static void test_links(void **state)
{
        static const struct home_watch watch;
        static const uint8_t bytes[sizeof(struct home_call) + 1];
        struct on_link o[] = {{.operation = HOME_JOIN, .link = NET_CONTROL, .body = &join, .len = sizeof(join)},
                              {.operation = HOME_WATCH, .link = NET_LOG, .body = &watch, .len = sizeof(watch)},
                              {.operation = HOME_CALL, .link = NET_LOG, .body = bytes, .len = sizeof(bytes)},
                              {.operation = HOME_UNPIN, .link = NET_LOG, .body = bytes, .len = sizeof(struct home_call)},
                              {.operation = HOME_ASK, .link = NET_LOG}};
        struct net_options options = node_options(REM_HOME_FIRST + 3, 5);
        struct net_peer *peer;
        unsigned i, link;

        node_start(&liar, &options);
        peer = node_meets(&liar, &b);
        node_meets(&b, &liar);
        for (i = 0; i < sizeof(o) / sizeof(o[0]); i++) {
                const enum net_link_number right = o[i].link;

                for (link = 0; link <= NET_LINKS; link++) { /* the right one last: it joins */
                        if (link == right)
                                continue;
                        o[i].link = link == NET_LINKS ? right : (enum net_link_number)link;
                        o[i].peer = peer;
                        atomic_store(&ended, 0);
                        on_loop(liar.lp[0], on_link_go, &o[i]);
                        WAIT_UNTIL(atomic_load(&ended) == 1);
                        assert_int_equal(o[i].call.outcome, NET_ANSWERED);
                        assert_int_equal(o[i].call.status == HOME_BAD, o[i].link != right);
                        assert_int_equal(rem_home_server_sessions(server), i > 0 || o[i].link == right ? 2 : 1);
                }
        }
        node_stop(&liar);
}

static struct {
        struct home_watch watch;
        uint64_t bound;
} small_watch;
static struct net_call wrong;
static uint8_t wrong_room[64];

/* Rows would not fit into what it has room for. */
static void watch_wrong(void *arg)
{
        small_watch.watch = (struct home_watch){.session = liar_session, .version = UINT64_MAX, .state_sum = UINT64_MAX};
        wrong = (struct net_call){.peer = arg, .link = NET_LOG, .operation = HOME_WATCH, .body = &small_watch, .body_len = sizeof(small_watch),
                                  .room = {{wrong_room, sizeof(wrong_room)}}, .room_count = 1, .done = asked_done};
        net_call(&wrong);
}

static void ask_wrong(void *arg)
{
        wrong = (struct net_call){.peer = arg, .link = NET_LOG, .operation = HOME_ASK, .bulk = {{wrong_room, sizeof(wrong_room)}}, .bulk_count = 1,
                                  .room = {{wrong_room, sizeof(wrong_room)}}, .room_count = 1, .done = asked_done};
        net_call(&wrong);
}

static int32_t wrong_status(struct node *node, void (*ask)(void *arg), struct net_peer *peer)
{
        atomic_store(&ended, 0);
        on_loop(node->lp[0], ask, peer);
        WAIT_UNTIL(atomic_load(&ended) == 1);
        assert_int_equal(atomic_load(&ended), 1);
        assert_int_equal(wrong.outcome, NET_ANSWERED);
        return wrong.status;
}

/* A home whose WATCH has no room for rows, and a node that is no home and asks the leader something: both are refused. */
static void test_requests_that_make_no_sense(void **state)
{
        struct net_options options = node_options(REM_HOME_FIRST + 3, 5);
        static struct node stranger;
        struct net_peer *peer;

        atomic_store(&ended, 0);
        node_start(&liar, &options);
        peer = node_meets(&liar, &b);
        node_meets(&b, &liar);
        on_loop(liar.lp[0], raw_join, peer);
        WAIT_UNTIL(atomic_load(&ended) == 1);
        assert_int_equal(atomic_load(&ended), 1);
        assert_int_equal(wrong_status(&liar, watch_wrong, peer), HOME_BAD);
        assert_int_equal(wrong_status(&liar, ask_wrong, peer), HOME_DONE);
        node_stop(&liar);
        options = node_options(4, 5);
        node_start(&stranger, &options);
        peer = node_meets(&stranger, &b);
        node_meets(&b, &stranger);
        assert_int_equal(wrong_status(&stranger, ask_wrong, peer), HOME_NOT_NOW);
        node_stop(&stranger);
        WAIT_UNTIL(follows());
        assert_true(follows());
}

struct setting {
        struct lp_msg msg;
        uint64_t id;
        int rv;
};

static void setting_done(void *arg, int rv)
{
        ((struct setting *)arg)->rv = rv;
        atomic_fetch_add(&ended, 1);
}

static void setting_begin(struct lp_msg *msg)
{
        struct setting *s = container_of(msg, struct setting, msg);

        eng_text_set(hf.home.store, s->id, 200, 0, (struct eng_str){text_bytes, TEXT}, setting_done, s);
}

/* Twice the memory at a time: what there is no room for waits at the home, and is done in its turn. */
static void test_more_than_fits(void **state)
{
        struct setting settings[2 * MEMORY / TEXT];
        const unsigned n = sizeof(settings) / sizeof(settings[0]);
        uint64_t most = 0, bytes;
        unsigned i;

        atomic_store(&ended, 0);
        for (i = 0; i < n; i++) {
                settings[i] = (struct setting){.msg.run = setting_begin, .id = i, .rv = 1};
                lp_post(hf.home.loops[i % 2], &settings[i].msg);
        }
        for (i = 0; i < 60000 && atomic_load(&ended) < n; i++) {
                bytes = rem_home_server_bytes(server);
                most = bytes > most ? bytes : most;
                usleep(1000);
        }
        for (i = 0; i < n; i++)
                assert_int_equal(settings[i].rv, 0);
        assert_in_range(most, TEXT, CALLS);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_idle, begin, end),
                cmocka_unit_test_setup_teardown(test_lock_clock, begin_with_clocks, end_with_clocks),
                cmocka_unit_test_setup_teardown(test_read_only, begin, end),
                cmocka_unit_test_setup_teardown(test_links, begin, end),
                cmocka_unit_test_setup_teardown(test_flood, begin_small, end_small),
                cmocka_unit_test_setup_teardown(test_requests_that_make_no_sense, begin_small, end_small),
                cmocka_unit_test_setup_teardown(test_more_than_fits, begin_small, end_small),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
