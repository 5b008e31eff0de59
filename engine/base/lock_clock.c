/*
 * lock_clock.c - the clock by which retention ends: it never goes back, and not ahead faster than the
 * monotonic clock, whatever the wall clock does (docs/design/bucket-rules.md, L1 and L2). Any thread.
 * bucket/lock_mark.c keeps its mark on the drives.
 */
#include "engine/base/store.h"

#include <assert.h>

#define LOCK_AHEAD_MS (24ll * 3600 * 1000) /* the wall clock may be so far ahead of the mark at a start */
#define NS_PER_MS     1000000u

int64_t eng_lock_wall(const struct eng_store *store)
{
        return store->options.wall_ms != NULL ? store->options.wall_ms() : lp_wall_ms();
}

static void lock_anchor(struct eng_lock_clock *clock, int64_t at_ms)
{
        clock->anchor_ms = at_ms;
        clock->anchor_ns = lp_clock();
}

static int64_t lock_now(struct eng_lock_clock *clock, int64_t wall_ms)
{
        int64_t bound = clock->anchor_ms + (int64_t)((lp_clock() - clock->anchor_ns) / NS_PER_MS);
        int64_t now = wall_ms < bound ? wall_ms : bound;

        if (now > clock->mark_ms)
                clock->mark_ms = now;
        return clock->mark_ms;
}

int64_t eng_lock_now(struct eng_store *store)
{
        struct eng_lock_clock *clock = &store->lock_clock;
        int64_t wall = eng_lock_wall(store), now;

        pthread_mutex_lock(&clock->lock);
        now = lock_now(clock, wall);
        pthread_mutex_unlock(&clock->lock);
        return now;
}

void eng_lock_read(struct eng_store *store, struct eng_lock_state *out)
{
        struct eng_lock_clock *clock = &store->lock_clock;

        out->wall_ms = eng_lock_wall(store);
        pthread_mutex_lock(&clock->lock);
        out->now_ms = lock_now(clock, out->wall_ms);
        out->frozen = clock->frozen;
        pthread_mutex_unlock(&clock->lock);
}

void eng_lock_begin(struct eng_store *store, bool kept, int64_t mark_ms)
{
        struct eng_lock_clock *clock = &store->lock_clock;
        int64_t wall = eng_lock_wall(store);

        pthread_mutex_lock(&clock->lock);
        if (!clock->begun) {
                clock->begun = true;
                clock->mark_ms = kept ? mark_ms : wall;
                clock->frozen = kept && wall - mark_ms > LOCK_AHEAD_MS;
                lock_anchor(clock, clock->frozen || wall < clock->mark_ms ? clock->mark_ms : wall);
        }
        pthread_mutex_unlock(&clock->lock);
}

void eng_lock_set(struct eng_store *store, int64_t now_ms)
{
        struct eng_lock_clock *clock = &store->lock_clock;

        pthread_mutex_lock(&clock->lock);
        assert(clock->begun);
        clock->mark_ms = now_ms;
        clock->frozen = false;
        lock_anchor(clock, now_ms);
        pthread_mutex_unlock(&clock->lock);
}
