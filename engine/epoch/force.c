/*
 * force.c - going on, by the operator's word, without drives that are gone for good: what that
 * would mean, and doing it. Coordinator, but for what says any thread.
 *
 *   a store that WAITS, or was opened for reading only
 *     -> every loop stops answering -> choose() (recover.c) does not count those given up -> an epoch of those that are here, durable on all of them
 *     -> settling, with what they hold as the truth -> buckets -> open
 *
 * The epoch, and all that follow it, mark the slots of those given up until these have other
 * drives. By the mark one that comes back is known: its history is set aside, not merged, whatever
 * the number of its epoch (was_given_up() in recover.c). Nothing of this ever happens by itself.
 */
#include "engine/epoch/epoch.h"
#include "engine/epoch/recover.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct request {
        struct lp_msg msg;
        struct eng_store *store;
        eng_mask slots;
        uint64_t number;
};

/* ---- what it would mean ---------------------------------------------------------------------- */

static eng_mask force_missed(const struct eng_coord *c)
{
        bool waits = c->phase == ENG_PHASE_WAITING || (c->phase == ENG_PHASE_OPEN && c->read_only);

        if (c->decided != NULL) /* of the others, what is not here is out for a while */
                return waits ? c->awaited : 0;
        return waits && c->awaited != 0 ? c->awaited | (c->view.in & ~c->view.up) : 0;
}

static void count_groups(const struct eng_store *store, eng_mask left, struct eng_outlook *out)
{
        const struct eng_placement *map = store->coord->view.map;
        unsigned pg, i, shards, copies;

        for (pg = 0; pg < store->pg_count; pg++) {
                uint16_t placed[ERA_MAX_SHARDS];

                eng_place_shards(eng_placement_order(map, pg), map->drives, map->all, map->domains, store->k + store->m, placed);
                copies = (unsigned)__builtin_popcountll(map->groups[pg].before & left);
                for (i = shards = 0; i < store->k + store->m; i++)
                        shards += placed[i] != ENG_NO_DRIVE && (left & eng_bit(placed[i])) != 0;
                out->unreadable += shards < store->k;
                out->lost += copies == 0;
                out->alone += copies == 1 && store->m > 0;
                out->doubtful += store->pgs[pg].in_doubt;
        }
        out->buckets_doubtful = store->pgs[pg].in_doubt;
}

static void force_refuse(const struct eng_store *store, struct eng_outlook *out)
{
        const struct eng_coord *c = store->coord;

        if (c->phase == ENG_PHASE_OPEN && c->view.writable)
                snprintf(out->refusal, sizeof(out->refusal), "the store is open and waits for no drive");
        else if (c->phase == ENG_PHASE_OPEN && !c->read_only)
                snprintf(out->refusal, sizeof(out->refusal), "a drive failed while the store served: restart the daemon first");
        else if (c->phase == ENG_PHASE_WAITING && out->missed == 0)
                snprintf(out->refusal, sizeof(out->refusal), "it is not drives that it waits for: %.140s", c->waits_for);
        else if (c->phase != ENG_PHASE_OPEN && c->phase != ENG_PHASE_WAITING)
                snprintf(out->refusal, sizeof(out->refusal), "recovery is under way");
        else if (out->left < out->least)
                snprintf(out->refusal, sizeof(out->refusal),
                         "%u current drive%s would be left, and an object is read from %u: one of those missed must be brought back",
                         out->left, out->left == 1 ? "" : "s", out->least);
}

void eng_outlook_take(const struct eng_store *store, struct eng_outlook *out)
{
        const struct eng_coord *c = store->coord;
        eng_mask left = c->view.up & c->present;
        unsigned i;

        memset(out, 0, sizeof(*out));
        out->missed = force_missed(c);
        out->epoch = c->view.epoch;
        out->least = store->k;
        out->groups = store->pg_count;
        if (c->phase == ENG_PHASE_OPEN && c->view.writable && c->view.lost != 0) {
                eng_lost_outlook(store, out);
                return;
        }
        if (out->missed != 0) {
                out->left = (unsigned)__builtin_popcountll(left);
                out->writable = eng_placement_can_write(c->view.map, left, store->k, store->m);
                count_groups(store, left, out);
        }
        for (i = 0; i < store->drive_count; i++)
                if (store->members[i].drive != NULL && !eng_member_failed(&store->members[i]) && !(c->lost & eng_bit(i)))
                        out->open |= eng_bit(i);
        force_refuse(store, out);
}

void eng_outlook_read(struct eng_store *store, struct eng_outlook *out)
{
        pthread_mutex_lock(&store->health_lock);
        *out = store->outlook;
        pthread_mutex_unlock(&store->health_lock);
}

/* " 1 3 4" */
static void list_slots(eng_mask slots, char text[96])
{
        size_t n = 0;
        unsigned i;

        text[0] = 0;
        for (i = 0; i < ENG_DRIVES_MAX && n < 90; i++)
                if (slots & eng_bit(i))
                        n += (size_t)snprintf(text + n, 96 - n, " %u", i);
}

void eng_outlook_refuse(const struct eng_outlook *outlook, uint64_t slots, char text[200])
{
        char list[96];

        if (outlook->missed == 0 || (outlook->losing && outlook->refusal[0] != 0)) {
                snprintf(text, 200, "%s", outlook->refusal);
        } else if (outlook->losing && (slots == 0 || (slots & ~outlook->missed) != 0)) {
                list_slots(outlook->missed, list);
                snprintf(text, 200, "the lost groups do not wait for all of those named, but for slot%s", list);
        } else if ((slots & outlook->open) != 0) {
                list_slots(slots & outlook->open, list);
                snprintf(text, 200, "it is here, and the store does not go on without it: slot%s", list);
        } else if (slots != outlook->missed && !outlook->losing) {
                list_slots(outlook->missed, list);
                snprintf(text, 200, "the store waits for other drives than those named: slot%s, all of them", list);
        } else {
                snprintf(text, 200, "%s", outlook->refusal);
        }
}

/* ---- doing it -------------------------------------------------------------------------------- */

static void force_report(struct eng_store *store, uint64_t number, int rv, const char *text)
{
        struct eng_force_report *r = &store->forced;

        pthread_mutex_lock(&store->health_lock);
        if (r->number == number && r->running) {
                r->running = false;
                r->rv = rv;
                snprintf(r->text, sizeof(r->text), "%s", text);
        }
        pthread_mutex_unlock(&store->health_lock);
}

void eng_force_report_end(struct eng_store *store, int rv, const char *text)
{
        force_report(store, store->forced.number, rv, text);
}

void eng_force_ended(struct eng_store *store, int rv, const char *text)
{
        if (!store->coord->forcing)
                return;
        store->coord->forcing = false;
        force_report(store, store->forced.number, rv, text);
}

static void force_quiet(struct eng_store *store, void *arg)
{
        assert(store->coord->forcing && !store->coord->view.ready);
        eng_recover_again(store);
}

static void force_requested(struct lp_msg *msg)
{
        struct request *q = (struct request *)msg;
        struct eng_store *store = q->store;
        struct eng_coord *c = store->coord;
        struct eng_outlook outlook;
        char why[200];

        eng_outlook_take(store, &outlook);
        eng_outlook_refuse(&outlook, q->slots, why);
        if (why[0] != 0 || c->store->stopping) {
                force_report(store, q->number, -EINVAL, c->store->stopping ? "the daemon is stopping" : why);
                free(q);
                return;
        }
        assert(!c->forcing && !c->lost_forced);
        if (outlook.losing) {
                eng_lost_force(store, q->slots);
                free(q);
                return;
        }
        c->given_up |= q->slots;
        c->forcing = true;
        free(q);
        eng_phase_set(c, ENG_PHASE_EPOCH);
        c->view.ready = false;
        eng_health_refresh(store);
        eng_view_spread(store, &store->coord->view, force_quiet); /* one that reads answers 503 from here on, until the groups' state is settled anew */
}

int eng_force(struct eng_store *store, uint64_t slots, uint64_t *number)
{
        struct request *q = calloc(1, sizeof(*q));
        bool busy;

        if (q == NULL)
                return -ENOMEM;
        pthread_mutex_lock(&store->health_lock);
        busy = store->forced.running;
        if (!busy) {
                q->number = *number = store->forced.number + 1;
                store->forced = (struct eng_force_report){.number = q->number, .running = true};
        }
        pthread_mutex_unlock(&store->health_lock);
        if (busy) {
                free(q);
                return -EALREADY;
        }
        q->store = store;
        q->slots = slots;
        q->msg.run = force_requested;
        lp_post(store->coord_loop->loop, &q->msg);
        return 0;
}

int eng_force_read(struct eng_store *store, uint64_t number, struct eng_force_report *out)
{
        int rv = -ENOENT;

        pthread_mutex_lock(&store->health_lock);
        if (number != 0 && store->forced.number == number) {
                *out = store->forced;
                rv = 0;
        }
        pthread_mutex_unlock(&store->health_lock);
        return rv;
}
