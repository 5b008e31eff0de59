/*
 * test_stop_watch.c - closing that does not end ends the process, with its status and a line in the
 * log; closing that ends is left alone.
 */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/stop_watch.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

static void test_stuck(void **state)
{
        char text[512];
        ssize_t n, len = 0;
        int out[2], status;
        pid_t child;

        assert_int_equal(pipe(out), 0);
        child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                dup2(out[1], STDERR_FILENO);
                close(out[1]);
                srv_stop_watch_begin(1, 7);
                for (;;)
                        pause();
        }
        close(out[1]);
        while ((n = read(out[0], text + len, sizeof(text) - 1 - (size_t)len)) > 0)
                len += n;
        text[len] = '\0';
        close(out[0]);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 7);
        assert_non_null(strstr(text, "closing has not ended"));
}

static void test_in_time(void **state)
{
        unsigned round;

        for (round = 0; round < 3; round++) {
                srv_stop_watch_begin(3600, 7);
                srv_stop_watch_end();
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stuck),
                cmocka_unit_test(test_in_time),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
