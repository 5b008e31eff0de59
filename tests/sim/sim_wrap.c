/*
 * sim_wrap.c - what the engine asks of the operating system directly, answered by the simulator
 * (linked with --wrap).
 *
 * Drives are looked at and opened by threads: here each is an event of its own; now and then one
 * takes longer than a start waits. store.c opens a folder to try its lock.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#include "tests/sim/sim.h"
#include "tests/sim/sim_clients.h"
#include "tests/sim/sim_disk.h"

#define FOLDER_FD 1000000
#define SLOW_IN 25
#define STUCK_IN 150

struct thread {
        void *(*run)(void *arg);
        void *arg;
        bool ran, stuck; /* stuck: it never comes back */
};

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **value);
int __wrap_pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock, const struct timespec *until);
int __wrap_pthread_detach(pthread_t thread);
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

/*
 * Longer than a start waits, now and then: but not while a drive is there that lost writes, as a
 * late one would be a second fault.
 */
static bool is_slow(void)
{
        bool slow = !world.last && sim_chance(SIM_DRIVES, SLOW_IN);
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                slow &= !sim_disks[i].rolled_back;
        return slow;
}

static bool is_stuck(void)
{
        bool stuck = !world.last && world.bucket_count > 0 && sim_chance(SIM_TROUBLE, STUCK_IN);
        unsigned i;

        for (i = 0; i < sim_disk_count; i++)
                stuck &= !sim_disks[i].rolled_back;
        if (stuck) {
                sim_trace("a thread that opens a drive never comes back");
                sim_figures.stuck++;
                world.calm = false;
                world.stuck = true;
        }
        return stuck;
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
        struct thread *t = calloc(1, sizeof(*t));

        if (t == NULL)
                return 1;
        t->run = run;
        t->arg = arg;
        *thread = (pthread_t)t;
        t->stuck = is_stuck();
        if (t->stuck)
                return 0;
        sim_at(is_slow() ? sim_below(SIM_DRIVES, 60000 * SIM_MS) : sim_skewed(SIM_DRIVES, 10 * SIM_US, 100 * SIM_MS), NULL,
               run_thread, t);
        return 0;
}

int __wrap_pthread_join(pthread_t thread, void **value)
{
        if (((struct thread *)thread)->stuck)
                sim_fail("a thread that never comes back is waited for");
        run_thread((struct thread *)thread); /* its event finds that it ran; what it holds goes with the process */
        return 0;
}

int __wrap_pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock, const struct timespec *until)
{
        return ((struct thread *)thread)->stuck ? ETIMEDOUT : __wrap_pthread_join(thread, value);
}

int __wrap_pthread_detach(pthread_t thread)
{
        return 0; /* what it has goes with the process */
}

int __wrap_open(const char *path, int flags, ...)
{
        return FOLDER_FD;
}

int __wrap_close(int fd)
{
        return 0;
}
