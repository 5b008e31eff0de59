/*
 * pacer.c - how fast the store's upkeep goes. Any loop; nothing is locked: two loops that spend at
 * the same time both count.
 */
#include "engine/base/pacer.h"
#include "engine/base/store.h"

#include <assert.h>

#define SECOND_NS (1000ull * 1000 * 1000)
#define SLACK_NS (5ull * 1000 * 1000)   /* it may be this far ahead */
#define IDLE_NS  (500ull * 1000 * 1000) /* without a client */
#define PRESSED_NS (100ull * 1000 * 1000)

uint64_t eng_pacer_rate_now(const struct eng_pacer *pacer, uint64_t now)
{
        uint64_t rate = atomic_load(&pacer->rate);

        assert(rate > 0);
        if (now < atomic_load(&pacer->pressed) + PRESSED_NS)
                return rate / 4 + 1;
        return now < atomic_load(&pacer->busy) + IDLE_NS ? rate : rate * ENG_PACER_IDLE;
}

uint64_t eng_pacer_rate(uint64_t held, unsigned drives)
{
        uint64_t rate = held / ENG_PACER_FULL_S * drives;

        return rate < ENG_HEAL_RATE ? ENG_HEAL_RATE : rate;
}

static uint64_t wait_until(uint64_t due, uint64_t now)
{
        return due > now + SLACK_NS ? due - now : 0;
}

uint64_t eng_pacer_take(struct eng_pacer *pacer, struct eng_pacer_turn *turn, uint64_t now, uint64_t bytes)
{
        uint64_t cost = bytes * SECOND_NS / eng_pacer_rate_now(pacer, now);
        uint64_t due = atomic_load(&pacer->due), next;

        do
                next = (due < now ? now : due) + cost;
        while (!atomic_compare_exchange_weak(&pacer->due, &due, next));
        turn->cost = cost;
        return wait_until(due, now);
}

void eng_pacer_give_back(struct eng_pacer *pacer, struct eng_pacer_turn *turn)
{
        uint64_t due = atomic_load(&pacer->due), next;

        do
                next = due > turn->cost ? due - turn->cost : 0;
        while (!atomic_compare_exchange_weak(&pacer->due, &due, next));
        turn->cost = 0;
}

unsigned eng_pacer_batch(const struct eng_pacer *pacer, uint64_t now, uint64_t bytes, unsigned most)
{
        uint64_t n;

        assert(bytes > 0 && most > 0);
        n = eng_pacer_rate_now(pacer, now) / (SECOND_NS / SLACK_NS) / bytes;
        return n == 0 ? 1 : n < most ? (unsigned)n : most;
}

void eng_pacer_spend(struct eng_pacer *pacer, uint64_t now, uint64_t bytes)
{
        struct eng_pacer_turn turn;

        (void)eng_pacer_take(pacer, &turn, now, bytes);
}

uint64_t eng_pacer_wait(const struct eng_pacer *pacer, uint64_t now)
{
        return wait_until(atomic_load(&pacer->due), now);
}

void eng_pacer_share_spend(const struct eng_pacer *pacer, struct eng_pacer_share *share, uint64_t now, uint64_t bytes)
{
        uint64_t rate = eng_pacer_rate_now(pacer, now);

        if (share->most != 0 && rate > share->most)
                rate = share->most;
        share->due = (share->due < now ? now : share->due) + bytes * SECOND_NS / rate;
}

uint64_t eng_pacer_share_wait(const struct eng_pacer_share *share, uint64_t now)
{
        return wait_until(share->due, now);
}

void eng_pacer_look(struct eng_pacer *pacer, struct eng_loop *el)
{
        uint64_t now = lp_now(el->loop), seen = el->home.get_count - el->home.own_gets + el->home.id_counter - el->home.own_ids /* each upload takes an id */ +
                                                  el->leader.homes_calls;

        if (seen != el->home.clients_seen || !TAILQ_EMPTY(&el->home.puts))
                atomic_store(&pacer->busy, now);
        if (lp_reserve_contended(el->loop, LP_SHARE_PUT)) /* repairs read by the share of GETs, and wait there themselves */
                atomic_store(&pacer->pressed, now);
        el->home.clients_seen = seen;
}

static bool look_here(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        eng_pacer_look(&el->store->pacer, el);
        return true;
}

void eng_pacer_look_everywhere(struct eng_store *store)
{
        (void)eng_broadcast(store, look_here, NULL, NULL); /* without memory: next time */
}
