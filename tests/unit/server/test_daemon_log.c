/*
 * test_daemon_log.c - server/daemon_log.c: which messages are kept for support bundles, how many,
 * and which never.
 */
#include "server/daemon_log.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct seen {
        unsigned count;
        char first[64], last[64];
        bool secret;
};

static void look(void *arg, int64_t time_ms, const char *line)
{
        struct seen *seen = arg;

        if (seen->count++ == 0)
                snprintf(seen->first, sizeof(seen->first), "%s", line);
        snprintf(seen->last, sizeof(seen->last), "%s", line);
        seen->secret |= strstr(line, "hunter2") != NULL;
        assert_true(time_ms > 1600000000000);
        assert_null(strchr(line, '\n'));
}

static struct seen kept(void)
{
        struct seen seen = {0};

        srv_log_kept(look, &seen);
        return seen;
}

static void test_kept(void **state)
{
        struct seen seen;

        srv_log_set_level(SRV_LOG_ERROR);
        srv_log(SRV_LOG_INFO, "not shown\nbut kept");
        srv_log_secret("secret key: %s", "hunter2");
        seen = kept();
        assert_int_equal(seen.count, 1);
        assert_string_equal(seen.last, "millraced: not shown?but kept");
        assert_false(seen.secret);
        for (unsigned i = 0; i < SRV_LOG_KEPT + 10; i++)
                srv_log(SRV_LOG_INFO, "message %u", i);
        seen = kept();
        assert_int_equal(seen.count, SRV_LOG_KEPT);
        assert_string_equal(seen.first, "millraced: message 10");
        assert_string_equal(seen.last, "millraced: message 265");
}

static void test_long(void **state)
{
        char text[3000];

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        srv_log(SRV_LOG_INFO, "%s", text);
        srv_log(SRV_LOG_INFO, "%s", "");
        assert_string_equal(kept().last, "millraced: ");
}

static void *talk(void *arg)
{
        for (unsigned i = 0; i < 2000; i++)
                srv_log(SRV_LOG_INFO, "thread");
        return NULL;
}

static void test_threads(void **state)
{
        pthread_t thread[2];

        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(pthread_create(&thread[i], NULL, talk, NULL), 0);
        for (unsigned i = 0; i < 20; i++)
                assert_true(kept().count <= SRV_LOG_KEPT);
        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(pthread_join(thread[i], NULL), 0);
        assert_string_equal(kept().first, "millraced: thread");
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_kept),
                cmocka_unit_test(test_long),
                cmocka_unit_test(test_threads),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
