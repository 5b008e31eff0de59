/*
 * lock_clock.c - the clock by which retention ends: it never goes back, and not ahead faster than the
 * monotonic clock, whatever the wall clock does, but for what a start gains, which comes out of a budget
 * (docs/design/bucket-rules.md, L1, L2 and L7). Any thread. bucket/lock_mark.c keeps it on the drives.
 */
#include "engine/base/store.h"

#include <assert.h>

#define NS_PER_MS     1000000u
#define BUDGET_GROWTH 10 /* a tenth of the time that the store runs comes back */

int64_t eng_lock_wall(const struct eng_store *store)
{
        return store->options.wall_ms != NULL ? store->options.wall_ms() : lp_wall_ms();
}

static uint64_t lock_ns(const struct eng_store *store)
{
        return store->options.clock_ns != NULL ? store->options.clock_ns() : lp_clock();
}

static int64_t lock_since_anchor(const struct eng_lock_clock *clock, uint64_t ns)
{
        return ns > clock->anchor_ns ? (int64_t)((ns - clock->anchor_ns) / NS_PER_MS) : 0;
}

static void lock_anchor(struct eng_lock_clock *clock, const struct fmt_lock_clock *at, uint64_t ns)
{
        assert(at->budget_ms >= 0 && at->budget_ms <= FMT_LOCK_BUDGET_MS);
        clock->anchor_ms = at->mark_ms;
        clock->budget_ms = at->budget_ms;
        clock->anchor_ns = ns;
}

static int64_t lock_now(struct eng_lock_clock *clock, int64_t wall_ms, uint64_t ns)
{
        int64_t bound = clock->anchor_ms + lock_since_anchor(clock, ns);
        int64_t now = wall_ms < bound ? wall_ms : bound;

        if (now > clock->mark_ms)
                clock->mark_ms = now;
        return clock->mark_ms;
}

static int64_t lock_budget(const struct eng_lock_clock *clock, uint64_t ns)
{
        int64_t budget = clock->budget_ms + lock_since_anchor(clock, ns) / BUDGET_GROWTH;

        return budget < FMT_LOCK_BUDGET_MS ? budget : FMT_LOCK_BUDGET_MS;
}

int64_t eng_lock_now(struct eng_store *store)
{
        struct eng_lock_clock *clock = &store->lock_clock;
        int64_t wall = eng_lock_wall(store), now;

        pthread_mutex_lock(&clock->lock);
        now = clock->begun ? lock_now(clock, wall, lock_ns(store)) : 0;
        pthread_mutex_unlock(&clock->lock);
        return now;
}

void eng_lock_read(struct eng_store *store, struct eng_lock_state *out)
{
        struct eng_lock_clock *clock = &store->lock_clock;
        uint64_t ns;

        *out = (struct eng_lock_state){.wall_ms = eng_lock_wall(store),
                                       .in_use = eng_features_are(store, FMT_FEATURE_VERSIONS)};
        pthread_mutex_lock(&clock->lock);
        ns = lock_ns(store);
        out->begun = clock->begun;
        if (clock->begun) {
                out->now_ms = lock_now(clock, out->wall_ms, ns);
                out->budget_ms = lock_budget(clock, ns);
                out->frozen = clock->frozen;
                out->frozen_ms = clock->frozen_ms;
                out->confirmed_ms = clock->confirmed_ms;
                out->before_ms = clock->before_ms;
        }
        pthread_mutex_unlock(&clock->lock);
}

void eng_lock_begin(struct eng_store *store, const struct fmt_lock_clock *kept)
{
        struct eng_lock_clock *clock = &store->lock_clock;
        int64_t wall = eng_lock_wall(store), ahead;
        struct fmt_lock_clock from = {.mark_ms = wall, .budget_ms = FMT_LOCK_BUDGET_MS};

        if (kept != NULL)
                from = *kept;
        ahead = wall - from.mark_ms;
        pthread_mutex_lock(&clock->lock);
        if (!clock->begun) {
                clock->begun = true;
                clock->mark_ms = from.mark_ms;
                clock->frozen = ahead > from.budget_ms;
                clock->frozen_ms = clock->frozen ? wall : 0;
                clock->gain_ms = clock->frozen || ahead < 0 ? 0 : ahead;
                lock_anchor(clock, &from, lock_ns(store));
        }
        pthread_mutex_unlock(&clock->lock);
}

/* A wall clock that was set back since the start leaves less to be gained. */
static int64_t lock_gain(const struct eng_lock_clock *clock, int64_t now_ms, int64_t wall_ms)
{
        int64_t gain = wall_ms - now_ms < clock->gain_ms ? wall_ms - now_ms : clock->gain_ms;

        return gain > 0 ? gain : 0;
}

void eng_lock_point(struct eng_store *store, int64_t confirmed_ms, struct eng_lock_point *out)
{
        struct eng_lock_clock *clock = &store->lock_clock;
        int64_t wall = eng_lock_wall(store), now, gain;

        *out = (struct eng_lock_point){.confirmed = confirmed_ms != 0};
        pthread_mutex_lock(&clock->lock);
        assert(clock->begun);
        out->at_ns = lock_ns(store);
        if (out->confirmed) {
                out->kept = (struct fmt_lock_clock){.mark_ms = confirmed_ms, .budget_ms = FMT_LOCK_BUDGET_MS};
        } else {
                now = lock_now(clock, wall, out->at_ns);
                gain = lock_gain(clock, now, wall);
                out->kept = (struct fmt_lock_clock){.mark_ms = now + gain,
                                                    .budget_ms = lock_budget(clock, out->at_ns) - gain};
        }
        out->moves = out->confirmed || clock->gain_ms != 0;
        pthread_mutex_unlock(&clock->lock);
}

void eng_lock_reach(struct eng_store *store, const struct eng_lock_point *point)
{
        struct eng_lock_clock *clock = &store->lock_clock;

        pthread_mutex_lock(&clock->lock);
        if (point->confirmed) {
                clock->before_ms = clock->mark_ms;
                clock->confirmed_ms = clock->mark_ms = point->kept.mark_ms;
                clock->frozen = false;
                clock->frozen_ms = 0;
        }
        if (point->moves) {
                clock->gain_ms = 0;
                lock_anchor(clock, &point->kept, point->at_ns);
        }
        pthread_mutex_unlock(&clock->lock);
}
