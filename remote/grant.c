/*
 * grant.c - see grant.h: OPEN, PING and RELEASE, as they bind a node's drives of one pool.
 *
 * A newer OPEN ends all renewals before anything else is decided of it, so whoever is refused for a
 * grant waits for that one at most, and whoever is not can't be overtaken by a ping of an older term.
 */
#include "remote/grant.h"

#include <assert.h>
#include <string.h>

/* 1.25 T: longer than the lease that it gives, even if one clock is 5 % too fast and the other 5 % too slow. */
#define GRANT_NUMERATOR   5u
#define GRANT_DENOMINATOR 4u
#define MS_NS             (1000ull * 1000)

void rem_grant_init(struct rem_grant *g, unsigned term_ms, uint64_t now)
{
        memset(g, 0, sizeof(*g));
        g->grant_ns = (term_ms != 0 ? term_ms : REM_TERM_MS) * MS_NS / GRANT_DENOMINATOR * GRANT_NUMERATOR;
        g->heard = now;
}

/* Older than what is known, or as old as that and another's. */
static bool grant_deposes(const struct eng_term *known, const struct eng_term *term)
{
        int order = eng_term_compare(term, known);

        return order < 0 || (order == 0 && !eng_term_same(term, known));
}

static void grant_see(struct rem_grant *g, const struct eng_term *term)
{
        if (eng_term_compare(term, &g->seen) <= 0)
                return;
        g->seen = *term;
        g->released = false;
}

void rem_grant_serve(struct rem_grant *g, unsigned slot, const struct eng_term *durable, uint64_t now)
{
        struct rem_grant_slot *s = &g->slots[slot];

        assert(slot < REM_SLOTS_MAX);
        /* A folder that was never OPENed has granted nothing. */
        *s = (struct rem_grant_slot){
                .served = true, .durable = *durable, .bound = eng_term_is_none(durable) ? 0 : now + g->grant_ns};
        grant_see(g, durable);
}

void rem_grant_withdraw(struct rem_grant *g, unsigned slot)
{
        g->slots[slot].served = false;
}

/* What binds a slot to another term than this one, and until when. */
static uint64_t bound_until(const struct rem_grant *g, const struct rem_grant_slot *s, const struct eng_term *term,
                            struct eng_term *to)
{
        uint64_t until = 0;

        if (!eng_term_same(&g->granted, term)) {
                until = g->until;
                *to = g->granted;
        }
        if (!eng_term_same(&s->durable, term) && s->bound > until) {
                until = s->bound;
                *to = s->durable;
        }
        return until;
}

enum rem_grant_says rem_grant_open(struct rem_grant *g, unsigned slot, const struct eng_term *term, uint64_t now,
                                   uint64_t *left, struct eng_term *by)
{
        uint64_t until;

        assert(slot < REM_SLOTS_MAX && !eng_term_is_none(term));
        *left = 0;
        *by = g->seen;
        if (grant_deposes(&g->seen, term))
                return REM_GRANT_DEPOSED;
        grant_see(g, term);
        g->any = true;
        g->heard = now;
        until = bound_until(g, &g->slots[slot], term, by);
        if (until <= now)
                return REM_GRANT_YES;
        *left = until - now;
        return REM_GRANT_WAIT;
}

void rem_grant_opened(struct rem_grant *g, unsigned slot, const struct eng_term *term)
{
        struct rem_grant_slot *s = &g->slots[slot];

        if (eng_term_compare(term, &s->durable) > 0) {
                s->durable = *term;
                s->bound = 0; /* that has run out; of the same term it may run yet, and another one waits for it */
        }
        if (eng_term_compare(term, &g->opened) > 0)
                g->opened = *term;
}

enum rem_grant_says rem_grant_ping(struct rem_grant *g, const struct eng_term *term, uint64_t now)
{
        if (grant_deposes(&g->seen, term))
                return REM_GRANT_DEPOSED;
        if (g->released && eng_term_same(&g->seen, term))
                return REM_GRANT_NOT_OPEN; /* it was under way when its leader gave up */
        g->any = true;
        g->heard = now;
        if (!eng_term_same(&g->opened, term))
                return REM_GRANT_NOT_OPEN;
        g->granted = *term;
        if (now + g->grant_ns > g->until)
                g->until = now + g->grant_ns;
        return REM_GRANT_YES;
}

enum rem_grant_says rem_grant_release(struct rem_grant *g, const struct eng_term *term, uint64_t now)
{
        unsigned i;

        if (eng_term_same(&g->granted, term))
                g->until = now;
        for (i = 0; i < REM_SLOTS_MAX; i++)
                if (eng_term_same(&g->slots[i].durable, term))
                        g->slots[i].bound = 0;
        if (grant_deposes(&g->seen, term))
                return REM_GRANT_DEPOSED;
        if (eng_term_same(&g->seen, term))
                g->released = true;
        return REM_GRANT_YES;
}

uint64_t rem_grant_left(const struct rem_grant *g, uint64_t now, struct eng_term *to)
{
        uint64_t until = g->until;
        unsigned i;

        *to = g->granted;
        for (i = 0; i < REM_SLOTS_MAX; i++) {
                const struct rem_grant_slot *s = &g->slots[i];

                if (!s->served || s->bound <= until)
                        continue;
                until = s->bound;
                *to = s->durable;
        }
        if (until > now)
                return until - now;
        *to = (struct eng_term){0};
        return 0;
}
