/*
 * heal.c - walks all objects and has those mended that lack shards: written while a drive was out, they were recorded
 * without it. Coordinator.
 *
 * A walk begins when the store opens and when a drive has become a member again; it waits while a drive catches up. It
 * takes pages of a listing at leisure, one object at a time, at a bounded rate. What could not be mended (too few
 * drives, a client was faster, no buffers) is counted, and tried again by the next walk: after a while if it may go
 * better then.
 */
#include "engine/mend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 128u                      /* names looked at at a time */
#define REST_NS (10ull * 1000 * 1000)  /* after each page */
#define AGAIN_NS (30ull * 1000 * 1000 * 1000)
#define RATE_DEFAULT (64ull << 20)

/* owner: coordinator */
struct eng_heal {
        struct eng_store *store;
        bool walking, again;           /* a walk is under way; another one is wanted */
        bool failed;                   /* something of this walk may go better later */
        struct eng_mend *mend;         /* under way */
        struct eng_name from, to;
        bool more;
        uint64_t below;                /* found by this walk and not mended */
        struct eng_name *lacking;      /* of this page; PAGE */
        unsigned count, next;
        struct lp_timer timer;
};

static void walk(struct eng_heal *heal);
static void mend_next(struct eng_heal *heal);

static void publish(struct eng_heal *heal, uint64_t mended, uint64_t bytes)
{
        struct eng_store *store = heal->store;

        pthread_mutex_lock(&store->health_lock);
        store->health.healing = heal->walking;
        store->health.mended_objects += mended;
        store->health.mended_bytes += bytes;
        if (!heal->walking || heal->below > store->health.objects_below)
                store->health.objects_below = heal->below;
        pthread_mutex_unlock(&store->health_lock);
}

static void again(struct lp_timer *timer)
{
        struct eng_heal *heal = (struct eng_heal *)((char *)timer - offsetof(struct eng_heal, timer));

        if (heal->walking)
                walk(heal);
        else
                eng_heal_consider(heal->store);
}

static void later(struct eng_heal *heal, uint64_t ns)
{
        heal->timer.expired = again;
        lp_timer_start(heal->store->loops[0].loop, &heal->timer, ns);
}

static void end(struct eng_heal *heal)
{
        heal->walking = false;
        publish(heal, 0, 0);
        if (heal->again)
                eng_heal_consider(heal->store);
        else if (heal->failed)
                later(heal, AGAIN_NS);
}

/* ---- one page ------------------------------------------------------------------------------------------------- */

static void mended(void *arg, int rv, uint64_t bytes)
{
        struct eng_heal *heal = arg;

        heal->mend = NULL;
        if (rv != 0) {
                heal->failed = true;
                heal->below++;
        }
        publish(heal, rv == 0 && bytes > 0, bytes);
        mend_next(heal);
}

static void mend_next(struct eng_heal *heal)
{
        uint64_t rate = heal->store->options.heal_rate;

        if (heal->store->coord->stopping)
                return;
        while (heal->next < heal->count) {
                struct eng_name *name = &heal->lacking[heal->next++];

                heal->mend = eng_mend_start(heal->store, name, rate == 0 ? RATE_DEFAULT : rate, mended, heal);
                if (heal->mend != NULL)
                        return;
                heal->failed = true;
                heal->below++;
        }
        if (heal->more)
                later(heal, REST_NS);
        else
                end(heal);
}

enum redundancy { WHOLE, LACKS, RELIES_ON_LOST };

static enum redundancy redundancy_of(const struct eng_merge_entry *e, eng_mask lost)
{
        enum redundancy found = WHOLE;
        struct eng_part part;
        size_t pos = 0;

        while (eng_value_next_part(e->value, e->value_len, &pos, &part) == 1) {
                if (eng_mend_lacks(&part))
                        return LACKS;
                if (eng_mend_relies_on(&part, lost))
                        found = RELIES_ON_LOST;
        }
        return found;
}

/* Drives enough that every run could have all its shards: else mending would only move the lack around. */
static bool enough_drives(const struct eng_store *store)
{
        const struct eng_view *view = &store->coord->view;

        return (unsigned)__builtin_popcountll(view->in & view->up) >= store->k + store->m;
}

static void listed(void *arg, int rv, const struct eng_merge_entry *entries, unsigned count, bool more)
{
        struct eng_heal *heal = arg;
        const struct eng_view *view = &heal->store->coord->view;
        bool can = enough_drives(heal->store) && view->writable;
        unsigned i;

        heal->count = heal->next = 0;
        heal->more = rv == 0 && more && count > 0;
        for (i = 0; rv == 0 && i < count; i++) {
                heal->from.len = entries[i].name_len;
                memcpy(heal->from.data, entries[i].name, entries[i].name_len);
                switch (redundancy_of(&entries[i], ~(view->in & view->up))) {
                case WHOLE:
                        break;
                case LACKS:
                        if (can)
                                heal->lacking[heal->count++] = heal->from;
                        heal->below += !can;
                        break;
                case RELIES_ON_LOST:
                        heal->below++;
                        break;
                }
        }
        if (rv != 0)
                heal->failed = true;
        mend_next(heal);
}

static void walk(struct eng_heal *heal)
{
        struct eng_merge_params m = {
                .from = &heal->from,
                .to = &heal->to,
                .after = true,
                .delimiter = "",
                .flags = ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS,
                .max = PAGE,
        };

        eng_merge_start(&heal->store->loops[0], &m, listed, heal);
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

static struct eng_heal *make(struct eng_store *store)
{
        struct eng_heal *heal = calloc(1, sizeof(*heal));

        if (heal == NULL)
                return NULL;
        heal->store = store;
        heal->lacking = calloc(PAGE, sizeof(*heal->lacking));
        if (heal->lacking == NULL) {
                free(heal);
                return NULL;
        }
        return heal;
}

void eng_heal_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        if (c->stopping)
                return;
        if (c->heal == NULL)
                c->heal = make(store);
        if (c->heal == NULL || c->phase != ENG_PHASE_OPEN || store->m == 0)
                return; /* without parity nothing is ever missing and readable */
        c->heal->again = c->heal->walking || c->join != NULL;
        if (c->heal->again)
                return; /* asked again when that is over */
        lp_timer_stop(store->loops[0].loop, &c->heal->timer);
        c->heal->walking = true;
        c->heal->failed = false;
        c->heal->below = 0;
        c->heal->from.len = c->heal->to.len = 1;
        c->heal->from.data[0] = FMT_SPACE_OBJECT;
        c->heal->to.data[0] = FMT_SPACE_OBJECT + 1;
        publish(c->heal, 0, 0);
        walk(c->heal);
}

void eng_heal_free(struct eng_store *store)
{
        if (store->coord->heal == NULL)
                return;
        if (store->coord->heal->mend != NULL)
                eng_mend_drop(store->coord->heal->mend);
        free(store->coord->heal->lacking);
        free(store->coord->heal);
        store->coord->heal = NULL;
}
