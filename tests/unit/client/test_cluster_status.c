/*
 * `millrace admin cluster status`: what an operator reads of an answer, and whether the exit status says that something is
 * amiss.
 */
#include "cli/command_admin.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* An answer of node a, of a cluster of a and b, whose one pool is whole. */
static json_t *answer_new(void)
{
        json_t *nodes = json_pack("[{s:s, s:i, s:i, s:s, s:s, s:s, s:b, s:{}}, {s:s, s:i, s:i, s:s, s:s, s:s, s:b, s:{s:b, s:s, s:i}}]", "name", "a", "number", 1, "rack", 0, "state",
                                  "in", "address", "10.0.0.1:9100", "version", "1", "asked", 1, "reached", "name", "b", "number", 2, "rack", 0, "state", "in", "address",
                                  "10.0.0.2:9100", "version", "1", "asked", 0, "reached", "up", 1, "refused", "", "heard_ms_ago", 10);
        json_t *pool = json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:i, s:b, s:b, s:s, s:i, s:i, s:{s:b, s:b, s:b}, s:[{s:i, s:i, s:s}, {s:i, s:i, s:s}]}", "leader", 2, "name", "b",
                                 "uptime_s", 90, "epoch", 7, "k", 2, "m", 2, "sessions", 2, "ready", 1, "writable", 1, "reason", "", "objects_below", 0, "lost_objects", 0, "heal",
                                 "running", 0, "surveyed", 1, "healing", 0, "drives", "slot", 0, "node", 1, "state", "in", "slot", 1, "node", 2, "state", "in");

        assert_non_null(nodes);
        assert_non_null(pool);
        return json_pack("{s:s, s:s, s:s, s:{s:b, s:s, s:i}, s:o, s:[{s:i, s:i, s:s, s:i, s:o, s:s}]}", "cluster", "c", "node", "a", "version", "1", "etcd", "answers", 1, "reason", "",
                         "generation", 1, "nodes", nodes, "pools", "number", 1, "leader", 2, "leader_name", "b", "epoch", 7, "pool", pool, "pool_reason", "");
}

static json_t *pool_of(const json_t *answer)
{
        return json_object_get(json_array_get(json_object_get(answer, "pools"), 0), "pool");
}

static void set(json_t *object, const char *name, json_t *value)
{
        assert_non_null(object);
        assert_int_equal(json_object_set_new(object, name, value), 0);
}

/* The answer is given up. */
static char *shown(json_t *answer, int status)
{
        char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);

        assert_non_null(answer);
        assert_int_equal(cli_admin_show_cluster(answer, out), status);
        fclose(out);
        json_decref(answer);
        return text;
}

static void says(const char *text, const char *what)
{
        if (strstr(text, what) == NULL)
                fail_msg("%s is not in:\n%s", what, text);
}

static void test_whole(void **state)
{
        char *text = shown(answer_new(), CLI_OK);

        says(text, "led by b for");
        says(text, "redundancy no object is known to lack a shard\n");
        says(text, "All is whole.\n");
        assert_null(strstr(text, "! "));
        free(text);
}

/* Those that lack two are closer to their loss than those that lack one. */
static void test_missing_shards(void **state)
{
        json_t *answer = answer_new();
        char *text;

        set(pool_of(answer), "objects_below", json_integer(16));
        set(pool_of(answer), "objects_lacking", json_pack("{s:i, s:i, s:i}", "1", 12, "2", 3, "more", 1));
        text = shown(answer, CLI_FAILED);
        says(text, "redundancy 16 objects lack shards: 12 lack 1, 3 lack 2, 1 lack more than 2, and cannot be read\n");
        says(text, "\n! 16 objects lack shards: 12 lack 1, 3 lack 2, 1 lack more than 2, and cannot be read\n");
        free(text);

        answer = answer_new();
        set(pool_of(answer), "objects_below", json_integer(4));
        set(pool_of(answer), "objects_lacking", json_pack("{s:i, s:i, s:i}", "1", 0, "2", 4, "more", 0));
        text = shown(answer, CLI_FAILED);
        says(text, "redundancy 4 objects lack shards: 4 lack 2\n");
        free(text);

        answer = answer_new(); /* of a leader that does not count them so */
        set(pool_of(answer), "objects_below", json_integer(1));
        text = shown(answer, CLI_FAILED);
        says(text, "redundancy 1 object lacks shards\n");
        free(text);
}

static json_t *drive_of(const json_t *answer, size_t index)
{
        return json_array_get(json_object_get(pool_of(answer), "drives"), index);
}

/* How far a drive is that catches up, at what rate, and how long it will take. */
static void test_catching_up(void **state)
{
        json_t *answer = answer_new();
        char *text;

        set(drive_of(answer, 1), "state", json_string("joining"));
        set(drive_of(answer, 1), "reason", json_string("catching up: 120 names compared, 30 copied"));
        set(drive_of(answer, 1), "catch_up", json_pack("{s:i, s:i, s:i, s:i, s:i}", "compared", 120, "copied", 30, "total", 600, "rate", 40, "seconds_left", 12));
        text = shown(answer, CLI_FAILED);
        says(text, "! slot 1, of node b, is joining: 120 of about 600 names compared, 30 copied, 40 names/s, done in 0:12\n");
        free(text);

        answer = answer_new(); /* nobody has counted names yet */
        set(drive_of(answer, 1), "state", json_string("joining"));
        set(drive_of(answer, 1), "catch_up", json_pack("{s:i, s:i, s:i, s:i, s:i}", "compared", 120, "copied", 30, "total", 0, "rate", 40, "seconds_left", 0));
        text = shown(answer, CLI_FAILED);
        says(text, "is joining: 120 names compared, 30 copied, 40 names/s\n");
        free(text);

        answer = answer_new(); /* a member to which groups come: nothing is amiss with it */
        set(drive_of(answer, 1), "catch_up", json_pack("{s:i, s:i, s:i, s:i, s:i}", "compared", 5, "copied", 5, "total", 9, "rate", 1, "seconds_left", 4));
        text = shown(answer, CLI_OK);
        says(text, "moving     groups to slot 1, of node b: 5 of about 9 names compared, 5 copied, 1 names/s, done in 0:04\n");
        free(text);
}

/* The rate that is achieved is another one than what the pacer allows. */
static void test_healing(void **state)
{
        json_t *answer = answer_new();
        char *text;

        set(pool_of(answer), "heal", json_pack("{s:b, s:b, s:b, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "healing", 1, "running", 1, "surveyed", 1, "level", 2, "done_objects", 3,
                                               "todo_objects", 10, "bytes_left", 3 << 20, "rate", 8 << 20, "pace", 1 << 20, "seconds_left", 4));
        text = shown(answer, CLI_OK);
        says(text, "; those that lack 2 are being rebuilt\n");
        says(text, "healing    3 of 10 objects done, 3.0 MiB left, 1.0 MiB/s so far, 8.0 MiB/s allowed, whole in 0:04\n");
        free(text);
}

static json_t *node_of(const json_t *answer, size_t index)
{
        return json_array_get(json_object_get(answer, "nodes"), index);
}

/* What there is no room for is counted. */
static void test_many_lines(void **state)
{
        json_t *answer = answer_new(), *drives = json_object_get(pool_of(answer), "drives");
        unsigned i, lines = 0;
        char *text, *at;

        for (i = 2; i < 42; i++)
                assert_int_equal(json_array_append_new(drives, json_pack("{s:i, s:i, s:s}", "slot", i, "node", 2, "state", "missing")), 0);
        text = shown(answer, CLI_FAILED);
        for (at = text; (at = strstr(at, "\n! ")) != NULL; at++)
                lines++;
        assert_int_equal(lines, 33);
        says(text, "\n! and 8 more\n");
        free(text);
}

/* A skew is told of the clock that it was measured by: the asked node's, or else the leader's. */
static void test_whose_clock(void **state)
{
        json_t *answer = answer_new();
        char *text;

        set(json_object_get(node_of(answer, 1), "reached"), "clock_ahead_ms", json_integer(2500));
        text = shown(answer, CLI_FAILED);
        says(text, "! the clock of node b is +2.5 s from that of a:");
        free(text);

        answer = answer_new(); /* c is not reached by a, and by the leader, b */
        assert_int_equal(json_array_append_new(json_object_get(answer, "nodes"), json_pack("{s:s, s:i, s:s, s:{}}", "name", "c", "number", 3, "state", "in", "reached")), 0);
        set(pool_of(answer), "nodes", json_pack("[{s:i, s:{s:b, s:s, s:i}}]", "number", 3, "reached", "up", 1, "refused", "", "clock_ahead_ms", -4000));
        text = shown(answer, CLI_FAILED);
        says(text, "! the clock of node c is -4.0 s from that of b:");
        free(text);
}

/* What etcd has of a pool is shown when its leader says nothing. */
static void test_silent_leader(void **state)
{
        json_t *answer = answer_new(), *one = json_array_get(json_object_get(answer, "pools"), 0);
        char *text;

        set(one, "pool", json_null());
        set(one, "pool_reason", json_string("no answer in time"));
        text = shown(answer, CLI_FAILED);
        says(text, "pool       led by b, which does not answer: no answer in time; epoch 7\n");
        says(text, "! the pool has no leader that answers: no answer in time\n");
        free(text);
}

static void test_secrets(void **state)
{
        static const struct {
                const char *differ, *says;
        } cases[] = {{"first-key", "! node b: it seals with another key of key_file than a:"},
                     {"root-credentials", "! node b: its root credentials are not those of a:"},
                     {"keys", "! node b: its secrets are not those of a:"}};
        json_t *answer;
        char *text;
        unsigned i;

        for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
                answer = answer_new();
                set(json_object_get(node_of(answer, 1), "reached"), "secrets_differ", json_string(cases[i].differ));
                text = shown(answer, CLI_FAILED);
                says(text, cases[i].says);
                free(text);
        }
        answer = answer_new();
        set(json_object_get(node_of(answer, 1), "reached"), "secrets_differ", json_string(""));
        free(shown(answer, CLI_OK));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_whole),
                cmocka_unit_test(test_missing_shards),
                cmocka_unit_test(test_catching_up),
                cmocka_unit_test(test_healing),
                cmocka_unit_test(test_many_lines),
                cmocka_unit_test(test_whose_clock),
                cmocka_unit_test(test_silent_leader),
                cmocka_unit_test(test_secrets),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
