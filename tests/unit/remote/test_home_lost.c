/*
 * test_home_lost.c - a connection that ends while no WATCH is under way, and with it what the leader had to say of calls:
 * the session ends, too, though the next connection is there before WATCH is asked again. Loops run on threads.
 */
#include <netinet/in.h>
#include <semaphore.h>

#include "tests/unit/remote/session_fixture.h"

#define SOON_NS (5ull * 1000 * 1000 * 1000) /* what waits for a session that lasts waits for ten seconds, or thirty */
/* A change waits for ten seconds; a session of which nothing is heard ends after as long. */
#define WAITS_US (6u * 1000 * 1000)
#define STANDS_US (6u * 1000 * 1000)

static sem_t loop_is_held, loop_goes_on;

static void hold_loop(struct lp_msg *msg)
{
        sem_post(&loop_is_held);
        while (sem_wait(&loop_goes_on) != 0)
                ;
}

/* The home's bounds are not told until the loop goes on, so that it asks no WATCH. */
static void hold_watch(struct lp_msg *holding)
{
        unsigned before;

        sem_init(&loop_is_held, 0, 0);
        sem_init(&loop_goes_on, 0, 0);
        *holding = (struct lp_msg){.run = hold_loop};
        lp_post(hf.home.loops[1], holding);
        while (sem_wait(&loop_is_held) != 0)
                ;
        do {
                before = atomic_load(&watches);
                usleep(1000000); /* the last one is answered */
        } while (atomic_load(&watches) != before);
}

/* Each connection between the two nodes ends; there are others soon. */
static void break_connections(void)
{
        const unsigned port = (unsigned)atoi(strrchr(b.address, ':') + 1);
        unsigned broken = 0;
        int fd;

        for (fd = 0; fd < 1024; fd++) {
                struct sockaddr_in to;
                socklen_t len = sizeof(to);

                if (getpeername(fd, (struct sockaddr *)&to, &len) == 0 && to.sin_family == AF_INET && ntohs(to.sin_port) == port)
                        broken += shutdown(fd, SHUT_RDWR) == 0;
        }
        assert_true(broken > 0);
        usleep(1000000);
}

/* ---- a client -------------------------------------------------------------------------------- */

struct client {
        pthread_t thread;
        bool puts;
        unsigned loop;
        _Atomic uint64_t ended; /* lp_clock() */
        int rv;
};

static void *client_runs(void *arg)
{
        struct client *c = arg;

        c->rv = c->puts ? sf_put(&hf.home, c->loop, bucket, "put", 2, SMALL, true, NULL) : sf_get(&hf.home, 0, bucket, "get", 1, LARGE);
        atomic_store(&c->ended, lp_clock());
        return NULL;
}

static void client_begins(struct client *c, bool puts, unsigned loop)
{
        *c = (struct client){.puts = puts, .loop = loop};
        MUST(pthread_create(&c->thread, NULL, client_runs, c) == 0);
}

/* How long it has been since then. */
static uint64_t client_ends(struct client *c, uint64_t since)
{
        pthread_join(c->thread, NULL);
        return atomic_load(&c->ended) - since;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* The leader has done both, and pinned what it was asked to; its answers are lost. */
static void test_answers_are_lost(void **state)
{
        struct client get, put;
        struct lp_msg holding;
        uint64_t since, got, said;

        assert_int_equal(sf_put(&hf.home, 0, bucket, "get", 1, LARGE, true, NULL), 0);
        hold_watch(&holding);
        atomic_store(&unseen.operation, HOME_CALL);
        client_begins(&get, false, 0);
        client_begins(&put, true, 0);
        WAIT_UNTIL(atomic_load(&unseen.count) == 2);
        MUST(atomic_load(&unseen.count) == 2);
        break_connections();
        let_unseen_go();
        WAIT_UNTIL(sf_get(&leader, 0, bucket, "put", 2, SMALL) == 0);
        atomic_store(&joins, 0);
        since = lp_clock();
        sem_post(&loop_goes_on);
        got = client_ends(&get, since);
        said = client_ends(&put, since);
        assert_int_equal(get.rv, 0);
        assert_true(got < SOON_NS);
        assert_int_equal(put.rv, -EHOSTDOWN); /* nobody knows */
        assert_true(said < SOON_NS);
        assert_true(atomic_load(&joins) > 0);
        WAIT_UNTIL(follows());
        assert_int_equal(sf_get(&hf.home, 1, bucket, "put", 2, SMALL), 0);
}

/* The end of a pin that is lost is asked once: the pin ends with its session. */
static void test_ends_of_pins_are_lost(void **state)
{
        struct lp_msg holding;

        assert_int_equal(sf_put(&hf.home, 0, bucket, "get", 1, LARGE, true, NULL), 0);
        hold_watch(&holding);
        atomic_store(&unseen.operation, HOME_UNPIN);
        assert_int_equal(sf_get(&hf.home, 0, bucket, "get", 1, LARGE), 0);
        WAIT_UNTIL(atomic_load(&unseen.count) == 1);
        MUST(atomic_load(&unseen.count) == 1);
        atomic_store(&joins, 0);
        break_connections();
        let_unseen_go();
        sem_post(&loop_goes_on);
        WAIT_UNTIL(atomic_load(&joins) > 0);
        assert_true(atomic_load(&joins) > 0);
        WAIT_UNTIL(follows());
        assert_int_equal(sf_get(&hf.home, 1, bucket, "get", 1, LARGE), 0);
}

/* A node that stood still while a change of it waited for a session: the change is not sent when there is one at last. */
static void test_an_old_change_is_not_sent(void **state)
{
        struct client put;
        struct lp_msg holding = {.run = hold_loop};

        sem_init(&loop_is_held, 0, 0);
        sem_init(&loop_goes_on, 0, 0);
        stop_leader_node();
        rem_home_server_free(server);
        client_begins(&put, true, 1);
        usleep(WAITS_US);
        lp_post(hf.home.loops[1], &holding);
        while (sem_wait(&loop_is_held) != 0)
                ;
        start_leader_node(11);
        to_b = node_meets(&a, &b);
        node_meets(&b, &a);
        WAIT_UNTIL(rem_home_server_sessions(server) == 1);
        MUST(rem_home_server_sessions(server) == 1);
        usleep(STANDS_US);
        sem_post(&loop_goes_on);
        pthread_join(put.thread, NULL);
        assert_int_equal(put.rv, -EHOSTDOWN);
        WAIT_UNTIL(follows());
        assert_int_equal(sf_get(&leader, 0, bucket, "put", 2, SMALL), -ENOENT);
        assert_int_equal(sf_put(&hf.home, 0, bucket, "put", 2, SMALL, true, NULL), 0);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_answers_are_lost, begin, end),
                cmocka_unit_test_setup_teardown(test_ends_of_pins_are_lost, begin, end),
                cmocka_unit_test_setup_teardown(test_an_old_change_is_not_sent, begin, end),
        };

        return cmocka_run_group_tests(tests, fixture_certificates, fixture_no_certificates);
}
