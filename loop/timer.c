/*
 * timer.c - timers in a pairing heap, by deadline and then by the order of their starts.
 *
 * Called on the loop's thread. The links are members of the timers, so starting one takes no memory
 * and cannot fail. A start costs O(1), a stop or an expiry O(log n) on average over many. The heap
 * is bounded by the timers that exist: a timer is a member of what it is about (I9).
 *
 * A node's children are a list by `next`; `prev` of the first is the parent, of the others the
 * sibling before it.
 */
#include "loop/loop_internal.h"

#include "loop_trace.h"

#include <stddef.h>

static bool sooner(const struct lp_timer *a, const struct lp_timer *b)
{
        return a->deadline != b->deadline ? a->deadline < b->deadline : a->number < b->number;
}

/* Two roots become one; either may be NULL. */
static struct lp_timer *meld(struct lp_timer *a, struct lp_timer *b)
{
        struct lp_timer *root, *below;

        if (a == NULL || b == NULL)
                return a == NULL ? b : a;
        root = sooner(a, b) ? a : b;
        below = root == a ? b : a;
        below->prev = root;
        below->next = root->child;
        if (below->next != NULL)
                below->next->prev = below;
        root->child = below;
        root->next = root->prev = NULL;
        return root;
}

/*
 * What children become without their parent: melded in pairs, and the pairs from the last to the
 * first.
 */
static struct lp_timer *meld_all(struct lp_timer *first)
{
        struct lp_timer *pairs = NULL, *root = NULL, *a, *b;

        while ((a = first) != NULL) {
                b = a->next;
                first = b == NULL ? NULL : b->next;
                a = meld(a, b);
                a->next = pairs;
                pairs = a;
        }
        while ((a = pairs) != NULL) {
                pairs = a->next;
                a->next = a->prev = NULL;
                root = meld(root, a);
        }
        return root;
}

static void timer_take_out(struct lp_timers *timers, struct lp_timer *timer)
{
        struct lp_timer *below = meld_all(timer->child);

        if (timer == timers->first) {
                timers->first = below;
        } else {
                if (timer->prev->child == timer)
                        timer->prev->child = timer->next;
                else
                        timer->prev->next = timer->next;
                if (timer->next != NULL)
                        timer->next->prev = timer->prev;
                timers->first = meld(timers->first, below);
        }
        timer->child = timer->next = timer->prev = NULL;
        timer->armed = 0;
}

void lp_timer_start(struct lp_loop *loop, struct lp_timer *timer, uint64_t delay_ns)
{
        struct lp_timers *timers = &loop->timers;
        uint64_t now = lp_now(loop);

        if (timers->ended)
                return;
        if (timer->armed != 0)
                timer_take_out(timers, timer);
        timer->armed = 1;
        timer->deadline = delay_ns > UINT64_MAX - now ? UINT64_MAX : now + delay_ns;
        timer->number = timers->started++;
        timers->first = meld(timers->first, timer);
}

void lp_timer_stop(struct lp_loop *loop, struct lp_timer *timer)
{
        if (timer->armed == 0)
                return;
        if (!loop->timers.ended)
                timer_take_out(&loop->timers, timer);
        timer->armed = 0;
}

void lp_timers_end(struct lp_timers *timers)
{
        timers->ended = true;
        timers->first = NULL;
}

/*
 * A timer started here has a deadline of at least now, and a number of at least `before`, so every
 * older one that is due stands before it in the heap: the first new one ends the work of this
 * round.
 */
void lp_timers_expire(struct lp_timers *timers, uint64_t now)
{
        uint64_t before = timers->started;
        struct lp_timer *timer;

        while ((timer = timers->first) != NULL && timer->deadline <= now && timer->number < before) {
                timer_take_out(timers, timer);
                lp_trace_set_request(0);
                timer->expired(timer);
        }
}

uint64_t lp_timers_next(const struct lp_timers *timers)
{
        return timers->first != NULL ? timers->first->deadline : UINT64_MAX;
}
