/*
 * step_loop.h - loop.h without threads or time of its own: the loops of a test, of which one does
 * one thing at a step, chosen by the seed. Included by one file of a program, which then does not
 * take the real ones.
 */
#ifndef RDMA_TESTS_STEP_LOOP_H
#define RDMA_TESTS_STEP_LOOP_H

#include <assert.h>
#include <poll.h>

#include "loop.h"
#include "tests/fakerdma/fake.h"

#define STEP_WATCHES 32u
#define STEP_TIMERS  16u

struct lp_loop {
        unsigned index;
        struct lp_msg *first, **last;
        struct lp_watch *watch[STEP_WATCHES];
        unsigned watches;
        struct lp_timer *timer[STEP_TIMERS];
        unsigned timers;
        struct lp_hook *hooks;
};

#define STEP_LOOPS 2u
static struct lp_loop step_loop[STEP_LOOPS];
static struct lp_loop *step_self;
static uint64_t step_now = 1000000000;
static uint64_t step_state;

/* splitmix64 */
static inline uint64_t step_random(uint64_t below)
{
        uint64_t z = (step_state += 0x9e3779b97f4a7c15u);

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return (z ^ (z >> 31)) % below;
}

static inline void step_start(uint64_t seed)
{
        unsigned i;

        step_state = seed;
        step_now = 1000000000;
        for (i = 0; i < STEP_LOOPS; i++) {
                step_loop[i] = (struct lp_loop){.index = i};
                step_loop[i].last = &step_loop[i].first;
        }
}

/* ---- loop.h ---------------------------------------------------------------------------------- */

struct lp_loop *lp_self(void)
{
        return step_self != NULL ? step_self : &step_loop[0];
}

unsigned lp_index(const struct lp_loop *loop)
{
        return loop->index;
}

uint64_t lp_now(const struct lp_loop *loop)
{
        return step_now;
}

uint64_t lp_clock(void)
{
        return step_now;
}

void lp_random(void *buf, size_t len)
{
        uint8_t *at = buf;

        while (len-- > 0)
                *at++ = (uint8_t)step_random(256);
}

void lp_post(struct lp_loop *to, struct lp_msg *msg)
{
        msg->next = NULL;
        *to->last = msg;
        to->last = &msg->next;
}

void lp_timer_start(struct lp_loop *loop, struct lp_timer *timer, uint64_t delay_ns)
{
        unsigned i;

        timer->deadline = step_now + delay_ns;
        for (i = 0; i < loop->timers; i++)
                if (loop->timer[i] == timer)
                        return;
        assert(loop->timers < STEP_TIMERS);
        loop->timer[loop->timers++] = timer;
}

int lp_watch_add(struct lp_loop *loop, struct lp_watch *watch, uint32_t epoll_events)
{
        assert(loop->watches < STEP_WATCHES);
        loop->watch[loop->watches++] = watch;
        return 0;
}

void lp_hook_add(struct lp_loop *loop, struct lp_hook *hook)
{
        hook->next = loop->hooks;
        loop->hooks = hook;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static inline void run_hooks(struct lp_loop *loop)
{
        struct lp_hook *hook;

        for (hook = loop->hooks; hook != NULL; hook = hook->next)
                hook->before_sleep(hook);
}

static inline bool run_message(struct lp_loop *loop)
{
        struct lp_msg *msg = loop->first;

        if (msg == NULL)
                return false;
        loop->first = msg->next;
        if (loop->first == NULL)
                loop->last = &loop->first;
        msg->run(msg);
        return true;
}

static inline bool run_watch(struct lp_loop *loop)
{
        unsigned i, at = loop->watches > 0 ? (unsigned)step_random(loop->watches) : 0;

        for (i = 0; i < loop->watches; i++) {
                struct lp_watch *watch = loop->watch[(at + i) % loop->watches];
                struct pollfd item = {.fd = watch->fd, .events = POLLIN};

                if (poll(&item, 1, 0) == 1) {
                        watch->ready(watch, POLLIN);
                        return true;
                }
        }
        return false;
}

/* A round of one loop, or part of one. */
static inline bool loop_step(struct lp_loop *loop)
{
        struct lp_loop *outer = step_self;
        bool any;

        step_self = loop;
        any = step_random(2) == 0 ? run_message(loop) || run_watch(loop) : run_watch(loop) || run_message(loop);
        if (any && step_random(3) > 0)
                run_hooks(loop);
        step_self = outer;
        return any;
}

/* One thing happens somewhere; false: nothing can, at this time. */
static inline bool step(void)
{
        unsigned first = (unsigned)step_random(STEP_LOOPS + 2), i;

        for (i = 0; i < STEP_LOOPS + 2; i++) {
                unsigned what = (first + i) % (STEP_LOOPS + 2);

                if (what < STEP_LOOPS ? loop_step(&step_loop[what]) : fake_step())
                        return true;
        }
        /* Hooks that were left out above. */
        for (i = 0; i < STEP_LOOPS; i++) {
                step_self = &step_loop[i];
                run_hooks(&step_loop[i]);
                step_self = NULL;
        }
        return fake_step();
}

static inline void step_all(void)
{
        unsigned bound = 1000000;

        while (step())
                assert(bound-- > 0);
}

/* Time passes; timers run. */
static inline void step_time(uint64_t ns)
{
        unsigned i, t;

        step_now += ns;
        for (i = 0; i < STEP_LOOPS; i++) {
                struct lp_loop *loop = &step_loop[i];

                for (t = 0; t < loop->timers; t++) {
                        struct lp_timer *timer = loop->timer[t];

                        if (timer->deadline > step_now)
                                continue;
                        loop->timer[t--] = loop->timer[--loop->timers];
                        step_self = loop;
                        timer->expired(timer);
                        step_self = NULL;
                }
        }
}

#endif
