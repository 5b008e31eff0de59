/*
 * timer.c - timers in a binary heap, by deadline and then by the order of their starts.
 *
 * Called on the loop's thread. Each timer knows its place in the heap, so stopping one costs O(log n) too. The heap is
 * bounded by the timers that exist: a timer is a member of what it is about (I9).
 */
#include "loop/internal.h"

#include <errno.h>
#include <stdlib.h>

#define HEAP_FIRST_SIZE 64u

void lp_timers_free(struct lp_timers *timers)
{
        free(timers->heap);
}

static bool sooner(const struct lp_timer_entry *a, const struct lp_timer_entry *b)
{
        return a->deadline != b->deadline ? a->deadline < b->deadline : a->number < b->number;
}

static void place(struct lp_timers *timers, uint32_t at, struct lp_timer_entry entry)
{
        timers->heap[at] = entry;
        entry.timer->place = at + 1;
}

/* Puts entry where it belongs, starting from the hole at `at`. */
static void sift(struct lp_timers *timers, uint32_t at, struct lp_timer_entry entry)
{
        struct lp_timer_entry *heap = timers->heap;
        uint32_t child;

        while (at > 0 && sooner(&entry, &heap[(at - 1) / 2])) {
                place(timers, at, heap[(at - 1) / 2]);
                at = (at - 1) / 2;
        }
        while ((child = 2 * at + 1) < timers->count) {
                if (child + 1 < timers->count && sooner(&heap[child + 1], &heap[child]))
                        child++;
                if (!sooner(&heap[child], &entry))
                        break;
                place(timers, at, heap[child]);
                at = child;
        }
        place(timers, at, entry);
}

static int grow(struct lp_timers *timers)
{
        uint32_t size = timers->size == 0 ? HEAP_FIRST_SIZE : timers->size * 2;
        struct lp_timer_entry *heap;

        if (timers->count < timers->size)
                return 0;
        heap = reallocarray(timers->heap, size, sizeof(*heap));
        if (heap == NULL)
                return -ENOMEM;
        timers->heap = heap;
        timers->size = size;
        return 0;
}

int lp_timer_start(struct lp_loop *loop, struct lp_timer *timer, uint64_t delay_ns)
{
        struct lp_timers *timers = &loop->timers;
        struct lp_timer_entry entry = {.timer = timer};
        uint64_t now = lp_now(loop);
        int rv;

        if (timer->place == 0) {
                rv = grow(timers);
                if (rv != 0)
                        return rv;
                timer->place = ++timers->count;
        }
        timer->deadline = delay_ns > UINT64_MAX - now ? UINT64_MAX : now + delay_ns;
        entry.deadline = timer->deadline;
        entry.number = timers->started++;
        sift(timers, timer->place - 1, entry);
        return 0;
}

static void take_out(struct lp_timers *timers, struct lp_timer *timer)
{
        uint32_t at = timer->place - 1;
        struct lp_timer_entry last = timers->heap[--timers->count];

        timer->place = 0;
        if (at < timers->count)
                sift(timers, at, last);
}

void lp_timer_stop(struct lp_loop *loop, struct lp_timer *timer)
{
        if (timer->place != 0)
                take_out(&loop->timers, timer);
}

/*
 * A timer started here has a deadline of at least now, and a number of at least `before`, so every older one that is due
 * stands before it in the heap: the first new one ends the work of this round.
 */
void lp_timers_expire(struct lp_timers *timers, uint64_t now)
{
        uint64_t before = timers->started;
        struct lp_timer *timer;

        while (timers->count > 0 && timers->heap[0].deadline <= now && timers->heap[0].number < before) {
                timer = timers->heap[0].timer;
                take_out(timers, timer);
                timer->expired(timer);
        }
}

uint64_t lp_timers_next(const struct lp_timers *timers)
{
        return timers->count > 0 ? timers->heap[0].deadline : UINT64_MAX;
}
