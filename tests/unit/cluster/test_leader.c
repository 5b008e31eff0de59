/*
 * test_leader.c - leaders of a pool: they read and write, follow one another, and go on while nodes end, etcd is away
 * or has no room.
 */
#include "tests/unit/cluster/leader_fixture.h"

static void test_one(void **state)
{
        static struct leading a;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        change_objects(&a);
        check_objects(&a);
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/* While one leads another takes the key: it waits for the grants, the first one is told, and both never answer at a time. */
static void test_another(void **state)
{
        static struct leading a, b;
        int64_t seen = leader_key();

        assert_int_equal(claim(&a, 1, seen), 0);
        assert_int_equal(claim(&b, 2, seen), -EEXIST); /* it was judged by a key that has changed */
        sem_destroy(&b.done);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        change_objects(&a);
        assert_int_equal(claim(&b, 2, leader_key()), 0);
        lead(&b);
        WAIT_UNTIL(a.ended > 0);
        assert_false(eng_is_current(a.sf.store));
        assert_int_equal(sf_get(&a.sf, 0, bucket, key_of(0), 0, size_of(0)), -EHOSTDOWN);
        assert_true(sf_wait_health(&b.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&b));
        check_objects(&b);
        change_objects(&b);
        assert_false(eng_is_current(a.sf.store));
        end_leading(&a);
        check_objects(&b);
        assert_int_equal(b.ended, 0);
        end_leading(&b);
}

/* An epoch that is proposed before the leader knows that another has taken the key. */
struct late {
        struct leading *l;
        _Alignas(8) uint8_t body[CL_EPOCH_MAX];
        atomic_bool decided;
};

static void late_is_decided(void *arg)
{
        atomic_store(&((struct late *)arg)->decided, true);
}

static void propose_late(void *arg)
{
        struct late *late = arg;
        const struct eng_cluster *cluster = cl_leader_cluster(late->l->leader);
        const struct eng_buf *body = late->l->sf.store->coord->body;
        struct fmt_epoch *epoch = (struct fmt_epoch *)late->body;
        char key[CL_KEY_NAME_MAX];

        assert_true(body->len <= sizeof(late->body));
        memcpy(late->body, body->data, body->len);
        epoch->number++;
        cl_key_name(CLUSTER, CL_KEY_LEADER, POOL, key);
        me_put(&etcd, key, "{}", 2);
        cluster->propose(cluster->arg, late->body, body->len, late_is_decided, late);
}

/* R4: it is not decided, though nobody has made another epoch yet. */
static void test_deposed(void **state)
{
        static struct leading a;
        static struct late late = {.l = &a};
        char key[CL_KEY_NAME_MAX];
        int64_t config;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        cl_key_name(CLUSTER, CL_KEY_CONFIG, POOL, key);
        config = me_revision(&etcd, key);
        on_loop(a.sf.loops[0], propose_late, &late);
        WAIT_UNTIL(a.ended > 0);
        usleep(200000);
        assert_int_equal(me_revision(&etcd, key), config);
        assert_false(late.decided);
        end_leading(&a);
}

/* A node ends: nobody writes or reads, and it is noticed by pings alone. It comes back, and is a member again. */
static void test_a_node_ends(void **state)
{
        static struct leading a;

        assert_int_equal(claim(&a, 3, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        stop_server(1);
        assert_true(sf_wait_health(&a.sf, four_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        change_objects(&a);
        assert_int_equal(a.ended, 0);
        start_server(1);
        node_knows(&servers[1].node, a.claim.term.node, "node-4", a.node.address);
        node_meets(&a.node, &servers[1].node);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 120));
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/* etcd's answer is lost: the epoch is found out to be decided. etcd is silent: nothing ends, and one that is needed waits. */
static void test_etcd(void **state)
{
        static struct leading a;
        unsigned changes;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        etcd.lose_answers = 1;
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        assert_int_equal(etcd.lose_answers, 0);
        WAIT_UNTIL(answers(&a));
        changes = etcd.changes;
        me_set_silent(&etcd, true);
        usleep(TERM_MS * 3 * 1000);
        assert_true(answers(&a));
        change_objects(&a);
        stop_server(2);
        usleep(TERM_MS * 1000);
        assert_int_equal(etcd.changes, changes);
        assert_int_equal(a.ended, 0);
        me_set_silent(&etcd, false);
        assert_true(sf_wait_health(&a.sf, four_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        check_objects(&a);
        start_server(2);
        node_knows(&servers[2].node, a.claim.term.node, "node-4", a.node.address);
        node_meets(&a.node, &servers[2].node);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 120));
        assert_int_equal(a.ended, 0);
        end_leading(&a);
}

/*
 * etcd has no room. Nobody takes the key, and is told why; whoever leads says it once, and goes on where nothing has to change.
 * Where a node has to leave it gives up, and the words are etcd's.
 */
static void test_no_room(void **state)
{
        static struct leading a, b;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        me_set_full(&etcd, true);
        assert_int_equal(claim(&b, 2, leader_key()), -ENOSPC);
        assert_non_null(strstr(b.claim.text, "etcd's database is full"));
        sem_destroy(&b.done);
        change_objects(&a);
        assert_int_equal(a.said, 0);
        stop_server(2);
        WAIT_UNTIL(a.said == 1);
        WAIT_UNTIL(a.ended > 0);
        assert_int_equal(a.said, 1);
        assert_non_null(strstr(a.why, "etcd's database is full"));
        me_set_full(&etcd, false);
        end_leading(&a);
        assert_int_equal(claim(&b, 2, leader_key()), 0);
        lead(&b);
        assert_true(sf_wait_health(&b.sf, four_in, NULL, 60));
        check_objects(&b);
        start_server(2);
        node_knows(&servers[2].node, b.claim.term.node, "node-4", b.node.address);
        node_meets(&b.node, &servers[2].node);
        assert_true(sf_wait_health(&b.sf, all_in, NULL, 120));
        end_leading(&b);
}

static atomic_uint released;

static void on_released(void *arg)
{
        atomic_fetch_add(&released, 1);
}

static void release(void *arg)
{
        cl_leader_release(((struct leading *)arg)->leader, on_released, NULL);
}

/* A planned end: the next leader need not wait for grants. */
static void test_hand_over(void **state)
{
        static struct leading a, b;

        assert_int_equal(claim(&a, 1, leader_key()), 0);
        lead(&a);
        assert_true(sf_wait_health(&a.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&a));
        change_objects(&a);
        on_loop(a.sf.loops[0], release, &a);
        WAIT_UNTIL(released == 1);
        assert_int_equal(sf_get(&a.sf, 0, bucket, key_of(0), 0, size_of(0)), -EHOSTDOWN);
        end_leading(&a);
        assert_int_equal(claim(&b, 2, leader_key()), 0);
        lead(&b);
        assert_true(sf_wait_health(&b.sf, all_in, NULL, 60));
        WAIT_UNTIL(answers(&b));
        check_objects(&b);
        end_leading(&b);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_one),  cmocka_unit_test(test_another),   cmocka_unit_test(test_a_node_ends),
                cmocka_unit_test(test_etcd), cmocka_unit_test(test_no_room),   cmocka_unit_test(test_hand_over),
                cmocka_unit_test(test_deposed),
        };

        return cmocka_run_group_tests(tests, start, stop);
}
