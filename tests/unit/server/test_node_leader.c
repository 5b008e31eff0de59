/*
 * test_node_leader.c - a leader process that is told to end before it has begun: it takes the signal when it can, and ends
 * as it wants to; and one that does not end when it is told to, or killed. This program is its own leader process.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "loop.h"
#include "server/daemon.h"
#include "server/node_leader.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#define WAIT_S 30
#define DEAF   9u /* as the pool of one that is deaf to signals */

/* What srv_lead_open() and srv_serve() come to, much later than a signal may come. */
static int leader_process(const char *text)
{
        const struct timespec most = {.tv_sec = WAIT_S};
        struct srv_lead_spec spec;
        sigset_t stop;
        char said = SRV_LEADER_SERVES;

        if (srv_lead_parse(text, &spec) != 0)
                return 2;
        if (spec.pool == DEAF)
                sleep(4 * WAIT_S); /* signals are blocked */
        usleep(100000);
        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        if (sigtimedwait(&stop, NULL, &most) != SIGTERM)
                return 3;
        return send(spec.pair, &said, 1, MSG_NOSIGNAL) == 1 ? 0 : 4;
}

static void start(struct srv_node_leader *leader, unsigned pool)
{
        const struct srv_lead_spec spec = {.node = 1, .pool = pool, .pools = 1, .leads = 1, .leader_revision = 7};
        struct srv_settings settings;

        assert_int_equal(srv_settings_init(&settings), 0);
        assert_int_equal(srv_node_leader_start(leader, "millraced", &settings, &spec), 0);
        srv_settings_free(&settings);
}

static void look_until_it_ends(struct srv_node_leader *leader)
{
        const struct timespec look = {.tv_nsec = 1000000};
        unsigned i;

        for (i = 0; i < WAIT_S * 1000 && leader->pid != 0; i++) {
                nanosleep(&look, NULL);
                srv_node_leader_look(leader);
        }
        assert_int_equal(leader->pid, 0);
}

static void test_a_stop_before_it_begins(void **state)
{
        struct srv_node_leader leader;
        unsigned round;

        srv_node_leader_init(&leader, 1);
        for (round = 0; round < 5; round++) {
                start(&leader, 1);
                srv_node_leader_signal(&leader, SIGTERM);
                look_until_it_ends(&leader);
                assert_int_equal(leader.failures, 0); /* it has said its word: no signal has ended it */
        }
}

/* It is killed when its time is over, which is not made longer by another request. The next one has its own. */
static void test_a_leader_that_does_not_end(void **state)
{
        struct srv_node_leader leader;
        uint64_t by;

        srv_node_leader_init(&leader, DEAF);
        srv_node_leader_end(&leader, 1); /* none runs */
        start(&leader, DEAF);
        assert_int_equal(leader.ends_by, 0);
        srv_node_leader_look(&leader);
        assert_int_not_equal(leader.pid, 0);
        srv_node_leader_end(&leader, 200);
        by = leader.ends_by;
        srv_node_leader_end(&leader, 1000000);
        assert_true(by != 0 && leader.ends_by == by);
        look_until_it_ends(&leader);
        assert_true(lp_clock() >= by);
        assert_int_equal(leader.failures, 1);
        start(&leader, DEAF);
        assert_int_equal(leader.ends_by, 0);
        srv_node_leader_look(&leader);
        assert_int_not_equal(leader.pid, 0);
        srv_node_leader_kill(&leader, "the test is over");
        assert_int_equal(leader.pid, 0);
}

/* A process that the kernel holds up: to waitpid() it is there, so many times. */
static unsigned held_up;
pid_t __real_waitpid(pid_t pid, int *status, int options);
pid_t __wrap_waitpid(pid_t pid, int *status, int options);

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
        if (held_up == 0)
                return __real_waitpid(pid, status, options);
        held_up--;
        return 0;
}

/* Its node goes on. It counts as one that leads no more, and stays in the way of the next until it is reaped. */
static void test_a_leader_that_the_kernel_holds_up(void **state)
{
        struct srv_node_leader leader;
        unsigned left;

        srv_node_leader_init(&leader, DEAF);
        start(&leader, DEAF);
        leader.serves = leader.listens = leader.whole = true; /* as if it had said so */
        srv_node_leader_end(&leader, 1000000);
        held_up = UINT32_MAX;
        srv_node_leader_kill(&leader, "the test wants it");
        assert_true(leader.pid != 0 && leader.killed);
        assert_false(leader.serves || leader.listens || leader.whole || leader.idle || leader.waits);
        assert_true(leader.ends_by == 0 && leader.failures == 0 && leader.rest_until != 0);
        left = held_up;
        srv_node_leader_kill(&leader, "once more"); /* which waits no more */
        srv_node_leader_end(&leader, 1);
        assert_true(held_up == left && leader.ends_by == 0);
        srv_node_leader_look(&leader);
        assert_true(leader.pid != 0 && held_up == left - 1);
        held_up = 2;
        look_until_it_ends(&leader);
        assert_true(!leader.killed && leader.pair < 0 && leader.failures == 0);
        start(&leader, 1);
        srv_node_leader_signal(&leader, SIGTERM);
        look_until_it_ends(&leader);
        assert_int_equal(leader.failures, 0);
}

/* Signals as main() has them. */
static int block_signals(void **state)
{
        sigset_t signals;

        srv_signals(&signals);
        return pthread_sigmask(SIG_BLOCK, &signals, NULL);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_stop_before_it_begins),
                cmocka_unit_test(test_a_leader_that_does_not_end),
                cmocka_unit_test(test_a_leader_that_the_kernel_holds_up),
        };

        if (argc > 2 && strncmp(argv[2], "--lead=", 7) == 0)
                return leader_process(argv[2] + 7);
        return cmocka_run_group_tests(tests, block_signals, NULL);
}
