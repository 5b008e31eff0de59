/*
 * loop_fixture.h - a loop on a thread of its own, and a way to run a function on it and wait for
 * the end.
 */
#ifndef MILLRACE_TEST_LOOP_FIXTURE_H
#define MILLRACE_TEST_LOOP_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "include/loop.h"
#include "loop/loop_internal.h"

#define MS 1000000ull

struct fixture {
        struct lp_loop *loop;
        pthread_t thread;
        int result; /* of lp_loop_run() */
};

static inline void *fixture_thread(void *arg)
{
        struct fixture *f = arg;

        f->result = lp_loop_run(f->loop);
        return NULL;
}

static inline void fixture_make(struct fixture *f, unsigned entries, unsigned slots, enum lp_ring_mode mode)
{
        struct lp_config config = {.index = 7, .ring_entries = entries, .slots = slots};

        memset(f, 0, sizeof(*f));
        assert_int_equal(lp_loop_new_mode(&config, mode, &f->loop), 0);
}

static inline void fixture_run(struct fixture *f)
{
        assert_int_equal(pthread_create(&f->thread, NULL, fixture_thread, f), 0);
}

static inline void fixture_start(struct fixture *f, unsigned entries, unsigned slots)
{
        fixture_make(f, entries, slots, LP_RING_DEFERRED);
        fixture_run(f);
}

static inline void fixture_join(struct fixture *f)
{
        assert_int_equal(pthread_join(f->thread, NULL), 0);
        assert_int_equal(f->result, 0);
}

static inline void fixture_stop(struct fixture *f)
{
        lp_loop_stop(f->loop);
        fixture_join(f);
        lp_loop_free(f->loop);
}

struct fixture_call {
        struct lp_msg msg;
        void (*func)(struct lp_loop *loop, void *arg);
        void *arg;
        sem_t done;
};

static inline void fixture_run_call(struct lp_msg *msg)
{
        struct fixture_call *call = (struct fixture_call *)msg;

        call->func(lp_self(), call->arg);
        sem_post(&call->done);
}

/* Runs func(loop, arg) on the loop; returns after it did. */
static inline void fixture_call(struct fixture *f, void (*func)(struct lp_loop *loop, void *arg), void *arg)
{
        struct fixture_call call = {.msg.run = fixture_run_call, .func = func, .arg = arg};

        sem_init(&call.done, 0, 0);
        lp_post(f->loop, &call.msg);
        while (sem_wait(&call.done) != 0)
                ;
        sem_destroy(&call.done);
}

/* Waits for a post, at most seconds; a test that hangs says so instead. */
static inline void fixture_wait(sem_t *sem, unsigned seconds)
{
        struct timespec until;
        int rv;

        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += seconds;
        do
                rv = sem_timedwait(sem, &until);
        while (rv != 0 && errno == EINTR);
        assert_int_equal(rv, 0);
}

#endif
