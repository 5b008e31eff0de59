/*
 * sim_wrap.c - what the engine asks of the operating system directly, answered by the simulator (linked with --wrap).
 *
 * Drives are opened by threads: here each is an event of its own. store.c opens a folder to try its lock.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/sim/sim.h"

#define FOLDER_FD 1000000

struct thread {
        void *(*run)(void *arg);
        void *arg;
        bool ran;
};

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **value);
int __wrap_open(const char *path, int flags, ...);
int __wrap_close(int fd);

static void run_thread(void *arg)
{
        struct thread *thread = arg;
        struct lp_loop *self = sim.self;

        if (thread->ran)
                return;
        thread->ran = true;
        sim.self = NULL;
        thread->run(thread->arg);
        sim.self = self;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
        struct thread *t = calloc(1, sizeof(*t));

        if (t == NULL)
                return 1;
        t->run = run;
        t->arg = arg;
        *thread = (pthread_t)t;
        sim_at(sim_skewed(SIM_DRIVES, 10 * SIM_US, 100 * SIM_MS), NULL, run_thread, t);
        return 0;
}

int __wrap_pthread_join(pthread_t thread, void **value)
{
        run_thread((struct thread *)thread); /* its event finds that it ran; what it holds goes with the process */
        return 0;
}

int __wrap_open(const char *path, int flags, ...)
{
        return FOLDER_FD;
}

int __wrap_close(int fd)
{
        return 0;
}
