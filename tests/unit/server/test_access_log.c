/*
 * test_access_log.c - the access log: lines of several loops, files that move away or refuse, and a
 * writer that is behind.
 */
#include "server/access_log.h"
#include "tests/lib/wait.h"

#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/millrace-access-XXXXXX";
static char path[128], moved[128];

static int make_folder(void **state)
{
        if (mkdtemp(folder) == NULL)
                return -1;
        snprintf(path, sizeof(path), "%s/access.log", folder);
        snprintf(moved, sizeof(moved), "%s/moved.log", folder);
        return 0;
}

static int remove_folder(void **state)
{
        unlink(path);
        unlink(moved);
        return rmdir(folder);
}

static struct gw_access example(void)
{
        return (struct gw_access){.time_ms = 1700000000123,
                                  .request_id = "R1",
                                  .remote = "127.0.0.1:1234",
                                  .method = "GET",
                                  .target = "/b/k?x=1",
                                  .operation = "GetObject",
                                  .bucket = "b",
                                  .key = "k",
                                  .trace_id = "4bf92f3577b34da6a3ce929d0e0e4736",
                                  .parent_id = "00f067aa0ba902b7",
                                  .status = 200,
                                  .bytes_out = 4096,
                                  .total_us = 77};
}

static struct srv_access_log *open_log(const char *where, unsigned rings)
{
        struct srv_access_log *log;
        struct srv_error error;

        assert_int_equal(srv_access_log_open(where, rings, &log, &error), 0);
        return log;
}

/* Calls check on every line of a file; returns their number. */
static unsigned each_line(const char *where, void (*check)(json_t *line, void *arg), void *arg)
{
        FILE *file = fopen(where, "r");
        char *line = NULL;
        size_t size = 0;
        unsigned count = 0;
        json_t *json;

        assert_non_null(file);
        while (getline(&line, &size, file) > 0) {
                json = json_loads(line, 0, NULL);
                if (json == NULL)
                        fail_msg("not JSON: %s", line);
                check(json, arg);
                json_decref(json);
                count++;
        }
        free(line);
        fclose(file);
        return count;
}

static const char *member(json_t *line, const char *name)
{
        return json_string_value(json_object_get(line, name));
}

static void check_example(json_t *line, void *arg)
{
        assert_string_equal(member(line, "time"), "2023-11-14T22:13:20.123Z");
        assert_string_equal(member(line, "operation"), "GetObject");
        assert_string_equal(member(line, "target"), "/b/k?x=1");
        assert_int_equal(json_integer_value(json_object_get(line, "status")), 200);
        assert_int_equal(json_integer_value(json_object_get(line, "bytes_out")), 4096);
        assert_string_equal(member(line, "trace_id"), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_string_equal(member(line, "parent_id"), "00f067aa0ba902b7");
        assert_null(json_object_get(line, "error"));
}

static void test_lines_and_reopen(void **state)
{
        struct srv_access_log *log;
        struct gw_access line = example();
        struct stat st;

        unlink(path);
        log = open_log(path, 1);
        srv_access_log_add(log, 0, &line);
        WAIT_UNTIL(stat(path, &st) == 0 && st.st_size > 0);
        assert_int_equal(st.st_mode & 0777 & ~0640, 0);
        assert_int_equal(rename(path, moved), 0);
        srv_access_log_reopen(log);
        WAIT_UNTIL(access(path, F_OK) == 0);
        srv_access_log_add(log, 0, &line);
        srv_access_log_add(log, 0, &line);
        srv_access_log_close(log);
        assert_int_equal(each_line(moved, check_example, NULL), 1);
        assert_int_equal(each_line(path, check_example, NULL), 2);
}

static void check_secrets(json_t *line, void *arg)
{
        assert_string_equal(member(line, "target"), "/X-Amz-Date=1?x-amz-signature=*&a=b&X-Amz-Security-Token=*");
        assert_string_equal(member(line, "key"), "k?Signature=*&Expires=2");
        assert_string_equal(member(line, "bucket"), "b?Expires=2&Signature=*"); /* a URL of a bucket, encoded twice */
        assert_string_equal(member(line, "user_agent"), "agent (Authorization:*");
}

static void test_signatures_are_not_written(void **state)
{
        struct srv_access_log *log;
        struct gw_access line = example();

        unlink(path);
        line.target = "/X-Amz-Date=1?x-amz-signature=0123abc&a=b&X-Amz-Security-Token=secret/thing";
        line.key = "k?Signature=ab+/c=&Expires=2";
        line.bucket = "b?Expires=2&Signature=ab+/c=";
        line.user_agent = "agent (Authorization: AWS4-HMAC-SHA256 Signature=0123abc)";
        log = open_log(path, 1);
        srv_access_log_add(log, 0, &line);
        srv_access_log_close(log);
        assert_int_equal(each_line(path, check_secrets, NULL), 1);
}

/* ---- many loops ------------------------------------------------------------------------------ */

#define THREADS    3u
#define PER_THREAD 4000u

struct producer {
        struct srv_access_log *log;
        unsigned ring;
};

static void *produce(void *arg)
{
        struct producer *p = arg;
        struct gw_access line = example();
        char id[32];
        unsigned i;

        line.request_id = id;
        for (i = 0; i < PER_THREAD; i++) {
                snprintf(id, sizeof(id), "%u %u", p->ring, i);
                srv_access_log_add(p->log, p->ring, &line);
                if (i % 500 == 0)
                        usleep(2000);
        }
        return NULL;
}

struct seen {
        unsigned next[THREADS];
        unsigned dropped;
};

/* Each loop's lines are whole and in their order; what is missing was said to be. */
static void check_order(json_t *line, void *arg)
{
        struct seen *seen = arg;
        unsigned ring, number;

        if (member(line, "request_id") == NULL) {
                seen->dropped += (unsigned)json_integer_value(json_object_get(line, "dropped_lines"));
                return;
        }
        assert_int_equal(sscanf(member(line, "request_id"), "%u %u", &ring, &number), 2);
        assert_true(ring < THREADS && number >= seen->next[ring]);
        seen->next[ring] = number + 1;
}

static void test_many_loops(void **state)
{
        struct producer producers[THREADS];
        pthread_t threads[THREADS];
        struct srv_access_log *log;
        struct srv_access_stats stats;
        struct seen seen = {{0}, 0};
        unsigned i, lines;

        unlink(path);
        log = open_log(path, THREADS);
        for (i = 0; i < THREADS; i++) {
                producers[i] = (struct producer){log, i};
                assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
        }
        for (i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        srv_access_log_stats(log, &stats);
        srv_access_log_close(log);
        lines = each_line(path, check_order, &seen);
        assert_int_equal(stats.lines + stats.dropped, THREADS * PER_THREAD);
        assert_int_equal(seen.dropped, stats.dropped);
        assert_true(lines >= stats.lines);
}

/* ---- a writer that is behind ----------------------------------------------------------------- */

/* What can be read now is written to another file: how many lines that was. */
static uint64_t pass_lines(int from, int to)
{
        static char buf[65536];
        uint64_t lines = 0;
        ssize_t n, i;

        while ((n = read(from, buf, sizeof(buf))) > 0) {
                assert_int_equal(write(to, buf, (size_t)n), n);
                for (i = 0; i < n; i++)
                        lines += buf[i] == '\n';
        }
        return lines;
}

/*
 * The log is a pipe that nobody reads: adding never waits, what has no room is counted, and the log
 * says so later.
 */
static void test_overflow(void **state)
{
        struct srv_access_log *log;
        struct srv_access_stats stats;
        struct gw_access line = example();
        struct seen seen = {{0}, 0};
        char long_key[1024];
        uint64_t lines = 0;
        int reader, out;
        unsigned i;

        unlink(path);
        assert_int_equal(mkfifo(path, 0600), 0);
        reader = open(path, O_RDONLY | O_NONBLOCK);
        log = open_log(path, 1);
        memset(long_key, 'k', sizeof(long_key) - 1);
        long_key[sizeof(long_key) - 1] = '\0';
        line.key = long_key;
        line.request_id = NULL;
        for (i = 0; i < 5000; i++)
                srv_access_log_add(log, 0, &line);
        srv_access_log_stats(log, &stats);
        assert_true(stats.dropped > 0 && stats.lines > 0);
        assert_int_equal(stats.lines + stats.dropped, 5000);
        assert_true(stats.lines * 1000 < 2 * SRV_ACCESS_RING + (1u << 17));

        /* Now somebody reads: all lines that were taken come out, whole. */
        out = open(moved, O_WRONLY | O_CREAT | O_TRUNC, 0600);
        WAIT_UNTIL((lines += pass_lines(reader, out)) >= stats.lines);
        srv_access_log_close(log);
        pass_lines(reader, out);
        close(out);
        close(reader);
        assert_true(each_line(moved, check_order, &seen) > stats.lines);
        assert_int_equal(seen.dropped, stats.dropped);
        unlink(path);
}

static void test_refusing_file(void **state)
{
        struct srv_access_log *log = open_log("/dev/full", 1);
        struct srv_access_stats stats;
        struct gw_access line = example();

        srv_access_log_add(log, 0, &line);
        srv_access_log_add(log, 0, &line);
        WAIT_UNTIL((srv_access_log_stats(log, &stats), stats.failed == 2));
        assert_int_equal(stats.failed, 2);
        srv_access_log_close(log);
}

static void test_cannot_be_opened(void **state)
{
        struct srv_access_log *log;
        struct srv_error error;

        assert_true(srv_access_log_open("/nowhere/at/all", 1, &log, &error) < 0);
        assert_non_null(strstr(error.text, "/nowhere/at/all"));
        unlink(path);
        assert_int_equal(mkfifo(path, 0600), 0);
        assert_true(srv_access_log_open(path, 1, &log, &error) < 0); /* nobody reads it: would block for ever */
        unlink(path);
        srv_access_log_close(NULL);
}

/* A path that can no longer be opened: the file that is open goes on. */
static void test_reopen_fails(void **state)
{
        char inner[160], file[192];
        struct srv_access_log *log;
        struct gw_access line = example();
        int fd;

        snprintf(inner, sizeof(inner), "%s/inner", folder);
        snprintf(file, sizeof(file), "%s/log", inner);
        assert_int_equal(mkdir(inner, 0700), 0);
        log = open_log(file, 1);
        fd = open(file, O_RDONLY);
        unlink(file);
        rmdir(inner);
        srv_access_log_reopen(log);
        srv_access_log_add(log, 0, &line);
        srv_access_log_close(log);
        assert_true(lseek(fd, 0, SEEK_END) > 0);
        close(fd);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_lines_and_reopen), cmocka_unit_test(test_signatures_are_not_written),
                cmocka_unit_test(test_many_loops),       cmocka_unit_test(test_overflow),
                cmocka_unit_test(test_refusing_file),    cmocka_unit_test(test_cannot_be_opened),
                cmocka_unit_test(test_reopen_fails),
        };

        return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
