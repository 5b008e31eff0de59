/*
 * fiber.c - see fiber.h.
 *
 * A thread runs inside events of its process. What it waits for begins an event that goes on with it;
 * when the process dies, no such event happens any more, and the stack is used again.
 */
#include "tests/sim/nodes/fiber.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "tests/sim/nodes/sim_net.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_clients.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
#define __sanitizer_start_switch_fiber(save, bottom, size)  ((void)(save), (void)(bottom), (void)(size))
#define __sanitizer_finish_switch_fiber(save, bottom, size) ((void)(save), (void)(bottom), (void)(size))
#define __asan_unpoison_memory_region(at, size)             ((void)(at), (void)(size))
#endif

#define STACK_SIZE (512u << 10)
#define STACKS_MAX 64u
#define SLOW_IN    40 /* threads, of which one takes seconds to begin */
#define FOLDER_FD  1000000

struct fiber {
        ucontext_t context;
        void *(*run)(void *arg);
        void *arg, *stack, *fake;
        unsigned process;
        uint32_t event;     /* that begins it; 0: it was begun */
        uint32_t wait_over; /* it joins another, until then; 0: for as long as that takes */
        bool begun, ended, detached;
        struct fiber *joiner; /* waits for its end */
        struct fiber *next;   /* of all there are */
};

/* What a sem_t is here. */
struct sim_sem {
        unsigned value;
        struct fiber *waiter;
};
_Static_assert(sizeof(struct sim_sem) <= sizeof(sem_t), "it lies in the caller's");

static struct fiber *fibers, *running;
static ucontext_t outside;
static void *outside_fake, *stacks[STACKS_MAX];
static const void *outside_bottom;
static size_t outside_size;
static unsigned stack_count;

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_join(pthread_t thread, void **value);
int __wrap_pthread_detach(pthread_t thread);
bool __wrap_eng_thread_ends(pthread_t thread, unsigned seconds);
int __wrap_sem_init(sem_t *sem, int shared, unsigned value);
int __wrap_sem_destroy(sem_t *sem);
int __wrap_sem_wait(sem_t *sem);
int __wrap_sem_post(sem_t *sem);
int __wrap_usleep(useconds_t us);
int __wrap_nanosleep(const struct timespec *span, struct timespec *left);
int __wrap_open(const char *path, int flags, ...);
int __wrap_close(int fd);

/* ---- stacks ---------------------------------------------------------------------------------- */

static void *stack_get(void)
{
        void *stack;

        if (stack_count > 0)
                return stacks[--stack_count];
        stack = mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        assert(stack != MAP_FAILED);
        return stack;
}

static void stack_put(void *stack)
{
        __asan_unpoison_memory_region(stack, STACK_SIZE);
        if (stack_count < STACKS_MAX)
                stacks[stack_count++] = stack;
        else
                munmap(stack, STACK_SIZE);
}

/* ---- switching ------------------------------------------------------------------------------- */

static void fiber_suspend(bool for_good)
{
        struct fiber *f = running;

        __sanitizer_start_switch_fiber(for_good ? NULL : &f->fake, outside_bottom, outside_size);
        swapcontext(&f->context, &outside);
        __sanitizer_finish_switch_fiber(f->fake, &outside_bottom, &outside_size);
}

static void fiber_resume(void *arg);

static void fiber_main(void)
{
        struct fiber *f = running;

        __sanitizer_finish_switch_fiber(NULL, &outside_bottom, &outside_size);
        f->run(f->arg);
        f->ended = true;
        if (f->joiner != NULL && f->joiner->wait_over != 0)
                sim_cancel(f->joiner->wait_over);
        if (f->joiner != NULL)
                sim_at(200, NULL, fiber_resume, f->joiner);
        fiber_suspend(true);
}

static void fiber_free(struct fiber *f)
{
        struct fiber **at = &fibers;

        while (*at != f)
                at = &(*at)->next;
        *at = f->next;
        if (f->stack != NULL)
                stack_put(f->stack);
        free(f);
}

static void fiber_enter(struct fiber *f)
{
        struct lp_loop *self = sim.self;

        assert(running == NULL);
        running = f;
        sim.self = NULL;
        __sanitizer_start_switch_fiber(&outside_fake, f->stack, STACK_SIZE);
        swapcontext(&outside, &f->context);
        __sanitizer_finish_switch_fiber(outside_fake, NULL, NULL);
        sim.self = self;
        running = NULL;
        if (!f->ended)
                return;
        stack_put(f->stack);
        f->stack = NULL;
        if (f->detached)
                fiber_free(f);
}

static void fiber_resume(void *arg)
{
        ((struct fiber *)arg)->wait_over = 0;
        fiber_enter(arg);
}

/* It has not ended in time. */
static void fiber_wait_over(void *arg)
{
        struct fiber *f = arg, *joiner = f->joiner;

        f->joiner = NULL;
        fiber_resume(joiner);
}

static void fiber_begin(void *arg)
{
        struct fiber *f = arg;

        assert(!f->begun);
        f->begun = true;
        f->event = 0;
        f->stack = stack_get();
        getcontext(&f->context);
        f->context.uc_stack.ss_sp = f->stack;
        f->context.uc_stack.ss_size = STACK_SIZE;
        f->context.uc_link = NULL;
        makecontext(&f->context, fiber_main, 0);
        fiber_enter(f);
}

static void fiber_sleep(uint64_t ns)
{
        if (running == NULL)
                sim_fail("a loop sleeps");
        sim_at(sim_span(sim.process, ns), NULL, fiber_resume, running);
        fiber_suspend(false);
}

static struct fiber *fiber_new(void *(*run)(void *arg), void *arg)
{
        struct fiber *f = calloc(1, sizeof(*f));

        assert(f != NULL);
        f->run = run;
        f->arg = arg;
        f->process = sim.process;
        f->next = fibers;
        fibers = f;
        f->event = sim_at(!world.last && !world.calm && !sim_net_is_prompt() && sim_chance(SIM_NODES, SLOW_IN) ? sim_below(SIM_NODES, 20 * SIM_S) : sim_skewed(SIM_NODES, 10 * SIM_US, 20 * SIM_MS),
                          NULL, fiber_begin, f);
        return f;
}

void fiber_start(void *(*run)(void *arg), void *arg)
{
        fiber_new(run, arg)->detached = true;
}

void fiber_leave(void)
{
        if (running != NULL)
                fiber_suspend(false);
}

void fibers_clear(unsigned process)
{
        struct fiber *f, *next;

        for (f = fibers; f != NULL; f = next) {
                next = f->next;
                if (f->process == process)
                        fiber_free(f);
        }
}

/* ---- what the code asks for ------------------------------------------------------------------ */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
        *thread = (pthread_t)fiber_new(run, arg);
        return 0;
}

/* A loop joins threads that have said that they end. */
int __wrap_pthread_join(pthread_t thread, void **value)
{
        struct fiber *f = (struct fiber *)thread;

        if (!f->ended && running != NULL) {
                f->joiner = running;
                fiber_suspend(false);
        } else if (!f->ended && !f->begun) {
                sim_cancel(f->event);
                fiber_begin(f);
        }
        if (!f->ended)
                sim_fail("a loop waits for a thread that waits for something");
        fiber_free(f);
        return 0;
}

bool __wrap_eng_thread_ends(pthread_t thread, unsigned seconds)
{
        struct fiber *f = (struct fiber *)thread;

        if (!f->ended && running != NULL) {
                f->joiner = running;
                running->wait_over = sim_at(sim_span(sim.process, seconds * SIM_S), NULL, fiber_wait_over, f);
                fiber_suspend(false);
        }
        if (!f->ended && (running != NULL || f->begun))
                return false;
        return __wrap_pthread_join(thread, NULL) == 0;
}

int __wrap_pthread_detach(pthread_t thread)
{
        struct fiber *f = (struct fiber *)thread;

        f->detached = true;
        if (f->ended)
                fiber_free(f);
        return 0;
}

int __wrap_sem_init(sem_t *sem, int shared, unsigned value)
{
        *(struct sim_sem *)sem = (struct sim_sem){.value = value};
        return 0;
}

int __wrap_sem_destroy(sem_t *sem)
{
        return 0;
}

int __wrap_sem_wait(sem_t *sem)
{
        struct sim_sem *s = (struct sim_sem *)sem;

        if (s->value == 0 && running == NULL)
                sim_fail("a loop waits for a semaphore");
        while (s->value == 0) {
                s->waiter = running;
                fiber_suspend(false);
        }
        s->value--;
        return 0;
}

int __wrap_sem_post(sem_t *sem)
{
        struct sim_sem *s = (struct sim_sem *)sem;

        s->value++;
        if (s->waiter != NULL)
                sim_at(sim_skewed(SIM_NODES, 200, SIM_MS), NULL, fiber_resume, s->waiter);
        s->waiter = NULL;
        return 0;
}

int __wrap_usleep(useconds_t us)
{
        fiber_sleep(us * SIM_US);
        return 0;
}

int __wrap_nanosleep(const struct timespec *span, struct timespec *left)
{
        if (running != NULL)
                fiber_sleep((uint64_t)span->tv_sec * SIM_S + (uint64_t)span->tv_nsec);
        return 0;
}

/* store.c opens a folder to try its lock. */
int __wrap_open(const char *path, int flags, ...)
{
        return FOLDER_FD;
}

int __wrap_close(int fd)
{
        return 0;
}
