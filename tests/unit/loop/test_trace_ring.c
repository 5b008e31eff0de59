/*
 * test_trace_ring.c - trace records: order, loss of the oldest, requests carried along, readers
 * beside a writer.
 */
#include "loop_trace.h"
#include "tests/unit/loop/loop_fixture.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lp_trace_record records[LP_TRACE_RECORDS];

/* The ring of this name that was written to last. */
static size_t read_ring(const char *wanted)
{
        char name[24];
        unsigned i;

        for (i = 0; i < lp_trace_rings(); i++) {
                lp_trace_ring_name(i, name);
                if (strcmp(name, wanted) == 0)
                        return lp_trace_read(i, records, LP_TRACE_RECORDS);
        }
        return 0;
}

static void test_keeps_the_newest(void **state)
{
        size_t count, i;

        lp_trace_begin("newest", 7);
        for (i = 0; i < LP_TRACE_RECORDS + 100; i++)
                lp_trace(LP_TRACE_HTTP_BEGIN, i, 2 * i);
        count = read_ring("newest-7");
        assert_int_equal(count, LP_TRACE_RECORDS - 1);
        for (i = 0; i < count; i++) {
                assert_int_equal(records[i].event, LP_TRACE_HTTP_BEGIN);
                assert_int_equal(records[i].a, 101 + i);
                assert_int_equal(records[i].b, 2 * (101 + i));
                assert_true(i == 0 || records[i].time >= records[i - 1].time);
        }
        assert_int_equal(lp_trace_read(0, records, 0), 0);
        lp_trace_end();
}

/* What is no loop writes nothing. */
static void test_other_threads_write_nothing(void **state)
{
        lp_trace_begin("mine", 1);
        lp_trace(LP_TRACE_HTTP_BEGIN, 1, 0);
        lp_trace_end();
        lp_trace(LP_TRACE_HTTP_BEGIN, 2, 0);
        assert_int_equal(records[read_ring("mine-1") - 1].a, 1);
}

static void test_texts(void **state)
{
        unsigned i, j;

        for (i = 1; i < LP_TRACE_COUNT; i++) {
                assert_true(strlen(lp_trace_texts[i].name) > 2);
                for (j = 1; j < i; j++)
                        assert_string_not_equal(lp_trace_texts[i].name, lp_trace_texts[j].name);
        }
}

/* ---- requests -------------------------------------------------------------------------------- */

static struct {
        struct lp_loop *loop;
        struct lp_msg first, second, other;
        struct lp_timer timer;
        struct lp_io io;
        int fd;
        uint64_t in_second, in_other, in_timer, in_io;
        sem_t done;
} carry;

static void io_done(struct lp_io *io, int res)
{
        carry.in_io = lp_trace_request();
        sem_post(&carry.done);
}

static void run_second(struct lp_msg *msg)
{
        static char byte;

        carry.in_second = lp_trace_request();
        lp_read(carry.loop, &carry.io, carry.fd, &byte, 1, 0);
}

static void timer_expired(struct lp_timer *timer)
{
        carry.in_timer = lp_trace_request();
        sem_post(&carry.done);
}

static void run_other(struct lp_msg *msg)
{
        carry.in_other = lp_trace_request();
        sem_post(&carry.done);
}

static void run_first(struct lp_msg *msg)
{
        lp_trace_set_request(77);
        lp_trace(LP_TRACE_GET_OPEN, 5, 6);
        lp_timer_start(carry.loop, &carry.timer, 1000000);
        lp_post(carry.loop, &carry.second);
}

static void test_requests_are_carried(void **state)
{
        struct fixture f;
        size_t count, i;
        bool found = false;

        fixture_start(&f, 0, 0);
        memset(&carry, 0, sizeof(carry));
        carry.loop = f.loop;
        carry.first.run = run_first;
        carry.second.run = run_second;
        carry.other.run = run_other;
        carry.timer.expired = timer_expired;
        carry.io.done = io_done;
        carry.fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        carry.in_timer = carry.in_other = 1;
        sem_init(&carry.done, 0, 0);
        lp_post(f.loop, &carry.first);
        lp_post(f.loop, &carry.other); /* of no request, behind one that is of one */
        for (i = 0; i < 3; i++)
                fixture_wait(&carry.done, 60);
        assert_int_equal(carry.in_second, 77);
        assert_int_equal(carry.in_io, 77);
        assert_int_equal(carry.in_other, 0);
        assert_int_equal(carry.in_timer, 0);
        count = read_ring("loop-7");
        for (i = 0; i < count; i++)
                found = found ||
                        (records[i].event == LP_TRACE_GET_OPEN && records[i].request == 77 && records[i].a == 5);
        assert_true(found);
        fixture_stop(&f);
        close(carry.fd);
}

/* ---- a reader beside the writer -------------------------------------------------------------- */

#define WRITTEN 400000u

static _Atomic bool over;

static void *write_many(void *arg)
{
        uint64_t i;

        lp_trace_begin("many", 3);
        for (i = 0; i < WRITTEN; i++)
                lp_trace_at(i, LP_TRACE_PUT_BEGIN, i, ~i);
        lp_trace_end();
        atomic_store(&over, true);
        return NULL;
}

static void test_reads_beside_a_writer(void **state)
{
        pthread_t thread;
        size_t count = 0, i;

        atomic_store(&over, false);
        assert_int_equal(pthread_create(&thread, NULL, write_many, NULL), 0);
        do {
                bool last = atomic_load(&over);

                count = read_ring("many-3");
                for (i = 0; i < count; i++) {
                        assert_int_equal(records[i].b, ~records[i].a);
                        assert_int_equal(records[i].time, records[i].a);
                        assert_true(i == 0 || records[i].a == records[i - 1].a + 1);
                }
                if (last)
                        break;
        } while (true);
        pthread_join(thread, NULL);
        assert_int_equal(count, LP_TRACE_RECORDS - 1);
        assert_int_equal(records[count - 1].a, WRITTEN - 1);
}

/* ---- an abort -------------------------------------------------------------------------------- */

static void test_an_abort_tells(void **state)
{
        char text[4096];
        ssize_t n, len = 0;
        int out[2], status;
        pid_t pid;

        assert_int_equal(pipe(out), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                signal(SIGABRT, SIG_DFL);
                dup2(out[1], STDERR_FILENO);
                lp_trace_on_abort();
                lp_trace_begin("dying", 2);
                lp_trace_set_request(0xABCDEF);
                lp_trace_at(123, LP_TRACE_PUT_END, (uint64_t)-5, 42);
                abort();
        }
        close(out[1]);
        while (len < (ssize_t)sizeof(text) - 1 && (n = read(out[0], text + len, sizeof(text) - 1 - (size_t)len)) > 0)
                len += n;
        text[len] = '\0';
        close(out[0]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
        assert_non_null(strstr(text, "trace 123 dying-2 ABCDEF put-end result=-5 bytes=42\n"));
}

/* A handler that is set later and hands on what is not its own, as the index's does. */
static void (*handed_on)(int);

static void hand_on(int number)
{
        handed_on(number);
}

static void test_a_fault_behind_another_handler_ends_the_process(void **state)
{
        int out[2], status;
        pid_t pid;

        assert_int_equal(pipe(out), 0);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                struct sigaction action, before;

                alarm(30);
                signal(SIGSEGV, SIG_DFL);
                dup2(out[1], STDERR_FILENO);
                lp_trace_on_abort();
                sigaction(SIGSEGV, NULL, &before);
                handed_on = before.sa_handler;
                memset(&action, 0, sizeof(action));
                action.sa_handler = hand_on;
                sigaction(SIGSEGV, &action, NULL);
                raise(SIGSEGV);
                _exit(0);
        }
        close(out[1]);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        close(out[0]);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_an_abort_tells),
                cmocka_unit_test(test_a_fault_behind_another_handler_ends_the_process),
                cmocka_unit_test(test_keeps_the_newest),
                cmocka_unit_test(test_other_threads_write_nothing),
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_requests_are_carried),
                cmocka_unit_test(test_reads_beside_a_writer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
