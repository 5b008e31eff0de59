/*
 * test_node_leader.c - a leader process that is told to end before it has begun: it takes the signal when it can, and ends
 * as it wants to. This program is its own leader process.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "server/daemon.h"
#include "server/node_leader.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#define WAIT_S 30

/* What srv_lead_open() and srv_serve() come to, much later than a signal may come. */
static int leader_process(const char *text)
{
        const struct timespec most = {.tv_sec = WAIT_S};
        struct srv_lead_spec spec;
        sigset_t stop;
        char said = SRV_LEADER_SERVES;

        if (srv_lead_parse(text, &spec) != 0)
                return 2;
        usleep(100000);
        sigemptyset(&stop);
        sigaddset(&stop, SIGTERM);
        if (sigtimedwait(&stop, NULL, &most) != SIGTERM)
                return 3;
        return send(spec.pair, &said, 1, MSG_NOSIGNAL) == 1 ? 0 : 4;
}

static void test_a_stop_before_it_begins(void **state)
{
        const struct srv_lead_spec spec = {.node = 1, .pool = 1, .pools = 1, .leads = 1, .leader_revision = 7};
        const struct timespec look = {.tv_nsec = 1000000};
        struct srv_settings settings;
        struct srv_node_leader leader;
        sigset_t signals;
        unsigned round, i;

        srv_signals(&signals);
        assert_int_equal(pthread_sigmask(SIG_BLOCK, &signals, NULL), 0); /* as main() has them */
        assert_int_equal(srv_settings_init(&settings), 0);
        srv_node_leader_init(&leader, 1);
        for (round = 0; round < 5; round++) {
                assert_int_equal(srv_node_leader_start(&leader, "millraced", &settings, &spec), 0);
                srv_node_leader_signal(&leader, SIGTERM);
                for (i = 0; i < WAIT_S * 1000 && leader.pid != 0; i++) {
                        nanosleep(&look, NULL);
                        srv_node_leader_look(&leader);
                }
                assert_int_equal(leader.pid, 0);
                assert_int_equal(leader.failures, 0); /* it has said its word: no signal has ended it */
        }
        srv_settings_free(&settings);
}

int main(int argc, char *argv[])
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_a_stop_before_it_begins),
        };

        if (argc > 2 && strncmp(argv[2], "--lead=", 7) == 0)
                return leader_process(argv[2] + 7);
        return cmocka_run_group_tests(tests, NULL, NULL);
}
