/*
 * sim_locks.c - see sim_locks.h.
 *
 * The judge keeps no clock of its own. It knows what the lock clock may show at most: what it showed
 * when there was a bucket with lock for certain, or what the operator has confirmed since, and 24 hours,
 * and 1.1 times what has passed since then (L7). And it never goes back but by a confirmation, or a
 * new process, which begins at what the drives have (L1, L2).
 */
#include "tests/sim/sim_locks.h"

#include <string.h>

#include "tests/sim/history.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_clients.h"

#define MINUTE_MS 60000ll
#define HOUR_MS   (60 * MINUTE_MS)
#define DAY_MS    (24 * HOUR_MS)
#define YEAR_MS   (365 * DAY_MS)
#define SLACK_MS  1000

struct lock_figures lock_figures;

static struct {
        bool planned, judged;
        int64_t wrong_ms;                /* the wall clock is ahead by so much */
        uint64_t boot_ns;
        int64_t shown_ms;                /* in this process */
        int64_t most_ms;                 /* at most_at_ns it may have shown so much */
        uint64_t most_at_ns;
        bool confirming, last, right;    /* right: confirmed in the last life */
        bool frozen;                     /* said in this process */
        int64_t confirmed_from_ms;       /* of the confirmation under way: the time that was meant */
} locks;

static uint64_t below(uint64_t n)
{
        return sim_below(SIM_LOCKS, n);
}

static bool chance(unsigned of)
{
        return sim_chance(SIM_LOCKS, of);
}

void locks_plan(bool planned)
{
        memset(&locks, 0, sizeof(locks));
        locks.planned = planned;
        lock_figures.buckets += planned;
}

/* ---- the wall clock -------------------------------------------------------------------------- */

int64_t locks_wall_ms(void)
{
        return lp_wall_ms() + locks.wrong_ms;
}

uint64_t locks_clock_ns(void)
{
        return sim.now - locks.boot_ns;
}

static void set_wall(void)
{
        static const int64_t steps[] = {0, 0, MINUTE_MS, 11 * HOUR_MS, 23 * HOUR_MS, 2 * DAY_MS, 10 * YEAR_MS,
                                        -MINUTE_MS, -DAY_MS, -10 * YEAR_MS};

        if (locks.confirming || locks.last)
                return;
        locks.wrong_ms = steps[below(sizeof(steps) / sizeof(steps[0]))];
        lock_figures.set_wrong += locks.wrong_ms != 0;
        sim_trace("the wall clock is ahead by %lld ms", (long long)locks.wrong_ms);
}

void locks_between(bool power_cut)
{
        locks.confirming = locks.right = locks.frozen = false;
        locks.shown_ms = 0;
        if (!locks.planned)
                return;
        if (chance(4)) {
                sim.now += (1 + below(40)) * 3600 * SIM_S;
                lock_figures.days_off++;
        }
        if (power_cut)
                locks.boot_ns = sim.now;
        if (chance(3))
                set_wall();
}

static void set_wall_later(void *arg)
{
        set_wall();
}

void locks_life(void)
{
        if (locks.planned && chance(3))
                sim_at(sim_skewed(SIM_LOCKS, 1, 10 * SIM_S), NULL, set_wall_later, NULL);
}

/* ---- the judge ------------------------------------------------------------------------------- */

int64_t locks_now(void)
{
        if (world.store == NULL || world.stopping || !locks.planned)
                return locks.shown_ms; /* the store may be closed */
        return eng_lock_now(world.store);
}

static int64_t most_now(void)
{
        return locks.most_ms + (int64_t)((sim.now - locks.most_at_ns) / SIM_MS * 11 / 10);
}

/* It may show this now, and not more. */
static void bound_from(int64_t shown_ms)
{
        locks.most_ms = shown_ms + DAY_MS + SLACK_MS;
        locks.most_at_ns = sim.now;
}

void locks_in_use(void)
{
        if (locks.judged)
                return;
        locks.judged = true;
        bound_from(locks_now());
}

/* Operations under way may have been decided by what it showed before. */
static void widen(int64_t before_ms)
{
        unsigned i;

        for (i = 0; i < history_count(); i++) {
                struct history_op *op = history_at(i);

                if (op->answered == 0 && op->lock_hi < before_ms)
                        op->lock_hi = before_ms;
        }
}

static void look_whether_frozen(void)
{
        struct eng_lock_state state;

        eng_lock_read(world.store, &state);
        if (state.frozen && !locks.frozen)
                lock_figures.frozen++;
        locks.frozen = state.frozen;
}

void locks_watch(void)
{
        int64_t now;

        if (!locks.planned || world.store == NULL)
                return;
        now = locks_now();
        if (now < locks.shown_ms) {
                if (!locks.confirming)
                        sim_fail("the lock clock goes back from %lld to %lld", (long long)locks.shown_ms, (long long)now);
                widen(locks.shown_ms);
        }
        locks.shown_ms = now;
        if (locks.judged && now > most_now())
                sim_fail("the lock clock shows %lld, and may show %lld at most", (long long)now, (long long)most_now());
        if (locks.right && (now > locks_wall_ms() + MINUTE_MS || now < locks_wall_ms() - MINUTE_MS))
                sim_fail("the lock clock shows %lld, and %lld was confirmed to be right", (long long)now, (long long)locks_wall_ms());
}

/* ---- the operator ---------------------------------------------------------------------------- */

bool locks_confirm(eng_done done, void *arg)
{
        int64_t most;

        if (!locks.judged || locks.confirming)
                return false;
        look_whether_frozen();
        if (!locks.last && !chance(locks.frozen ? 2 : 8))
                return false;
        if (locks.last || !chance(8))
                locks.wrong_ms = 0;
        locks.confirming = true;
        most = most_now();
        locks.confirmed_from_ms = locks_wall_ms();
        bound_from(locks.confirmed_from_ms + MINUTE_MS);
        if (locks.most_ms < most)
                locks.most_ms = most; /* nobody knows yet whether it takes effect */
        eng_lock_confirm(world.store, locks.confirmed_from_ms, done, arg);
        return true;
}

void locks_confirmed(int rv)
{
        locks.confirming = false;
        if (rv != 0)
                return;
        lock_figures.confirmed++;
        locks.frozen = false;
        bound_from(locks_wall_ms());
        locks.right = locks.last;
}

void locks_last(void)
{
        locks.last = true;
        locks.wrong_ms = 0;
}
