/*
 * grow.c - what an operator asks of a cluster's pool: drives that become slots of it, a drive that takes the place of a
 * lost one, slots that leave together (docs/design/growing.md). Coordinator; one request at a time.
 *
 *   WAIT     until no drive is being opened and no epoch is made, for some seconds
 *   EPOCH    slots are as they were asked for, and the epoch that says so is on its way
 *
 * The epoch comes before the drive: the new slot is out in it, with the id that its node gave to the folder. The node
 * formats what the epoch names, hot_add.c finds it as it finds any drive that is missing, and catch_up.c brings it up to
 * date. So whoever leads next goes on, whatever this process has come to.
 */
#include "engine/epoch/epoch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GROW_AGAIN_NS (50ull * 1000 * 1000)
#define GROW_TRIES 200u

enum grow_kind { GROW_ADD, GROW_EXCHANGE, GROW_REMOVE };

/* owner: coordinator */
struct eng_grow {
        struct lp_msg msg; /* first */
        struct eng_store *store;
        enum grow_kind kind;
        eng_mask slots;      /* EXCHANGE, REMOVE; ADD: those that it got */
        unsigned count, tries;
        bool applied;
        uint64_t number;
        struct eng_new_drive drives[];
};

void eng_grow_free(struct eng_store *store)
{
        free(store->coord->grow);
        store->coord->grow = NULL;
}

static void grow_end(struct eng_grow *g, int rv, const char *why)
{
        struct eng_store *store = g->store;

        assert(store->coord->grow == g);
        eng_hot_add_report(store, g->number, rv, why);
        eng_grow_free(store);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static bool is_slots_drive(const struct eng_store *store, const struct eng_new_drive *drive)
{
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (memcmp(store->members[i].id, drive->id, FMT_ID) == 0 || memcmp(store->members[i].place_id, drive->id, FMT_ID) == 0)
                        return true;
        return false;
}

/* Some of these is a slot already, lies nowhere, or is named twice. */
static const char *bad_drives(const struct eng_grow *g)
{
        unsigned i, j;

        for (i = 0; i < g->count; i++) {
                if (is_slots_drive(g->store, &g->drives[i]))
                        return "that folder is a drive of the pool already";
                if (g->drives[i].site.node == 0)
                        return "a drive of a cluster lies on a node";
                for (j = 0; j < i; j++)
                        if (memcmp(g->drives[i].id, g->drives[j].id, FMT_ID) == 0)
                                return "a folder is named twice";
        }
        return NULL;
}

static const char *add_refusal(const struct eng_grow *g, int *rv)
{
        const struct eng_coord *c = g->store->coord;

        *rv = -EMFILE;
        if (g->store->drive_count + g->count > ENG_DRIVES_MAX)
                return "a pool has 64 slots in its life, those of removed drives included: so many are not left";
        *rv = -EBUSY;
        if ((c->shape.adding | c->wish.adding) != 0)
                return "other drives are being added";
        if ((c->shape.leaving | c->wish.leaving) != 0)
                return "a drive is being removed";
        return NULL;
}

static const char *exchange_refusal(const struct eng_grow *g, int *rv)
{
        const struct eng_coord *c = g->store->coord;
        const unsigned slot = (unsigned)__builtin_ctzll(g->slots);

        *rv = -EINVAL;
        if (slot >= g->store->drive_count)
                return "there is no such slot";
        if (c->shape.gone & g->slots)
                return "that drive was removed from the pool: add one";
        if ((c->shape.adding | c->wish.adding) & g->slots)
                return "that drive is being added: remove it";
        if (g->store->members[slot].site.node != g->drives[0].site.node)
                return "a drive is replaced by a folder of the same node: add one elsewhere, and remove this one";
        *rv = -EEXIST;
        if ((c->view.in | c->view.joining) & g->slots)
                return "the drive in that slot is in use";
        if (g->store->members[slot].state == ENG_DRIVE_STALE)
                return "the drive in that slot is about to be brought up to date";
        return NULL;
}

static const char *grow_refusal(const struct eng_grow *g, int *rv)
{
        const struct eng_store *store = g->store;
        const struct eng_coord *c = store->coord;
        const char *why;

        *rv = -EHOSTDOWN;
        if (store->stopping || c->phase != ENG_PHASE_OPEN)
                return "the store is not open";
        *rv = -ENOTSUP;
        if (c->decided == NULL || (g->kind != GROW_REMOVE && store->options.cluster->path == NULL))
                return "the store is no cluster's";
        if (g->kind == GROW_REMOVE)
                return eng_rebalance_refuses(store, g->slots, rv);
        *rv = -EROFS;
        if (!c->view.writable || c->view.lost != 0)
                return "too few drives are in";
        *rv = -EBUSY;
        if (c->catch_up != NULL)
                return "a drive is being brought up to date: try again when it is in";
        *rv = -EEXIST;
        why = bad_drives(g);
        if (why == NULL)
                why = g->kind == GROW_ADD ? add_refusal(g, rv) : exchange_refusal(g, rv);
        if (why == NULL)
                *rv = 0;
        return why;
}

/* ---- what is done ---------------------------------------------------------------------------- */

/* The slot has this drive, which nobody has seen yet. */
static void grow_name_drive(struct eng_store *store, unsigned slot, const struct eng_new_drive *drive)
{
        const struct eng_cluster *cluster = store->options.cluster;
        struct eng_member *m = &store->members[slot];
        char path[ENG_PATH_MAX] = "";

        cluster->path(cluster->arg, slot, drive->site.node, path);
        pthread_mutex_lock(&store->health_lock);
        memcpy(m->id, drive->id, FMT_ID);
        memcpy(m->path, path, sizeof(m->path));
        atomic_store(&m->local, NULL); /* what was there is closed with the store; what it answers counts no more */
        atomic_store(&m->drive, NULL);
        pthread_mutex_unlock(&store->health_lock);
        eng_member_state(store, slot, ENG_DRIVE_MISSING, "is new: its node is about to format it");
}

static void grow_add(struct eng_grow *g)
{
        struct eng_store *store = g->store;
        unsigned i;

        for (i = 0; i < g->count; i++) {
                const unsigned slot = store->drive_count;
                struct eng_member *m = &store->members[slot];

                memset(m, 0, sizeof(*m));
                memcpy(m->place_id, g->drives[i].id, FMT_ID);
                m->site = g->drives[i].site;
                grow_name_drive(store, slot, &g->drives[i]);
                g->slots |= eng_bit(slot);
                store->coord->wish.adding |= eng_bit(slot);
                pthread_mutex_lock(&store->health_lock);
                if (i == 0)
                        store->attached[g->number % ENG_HOT_ADD_REPORTS].slot = slot;
                atomic_store(&store->drive_count, slot + 1);
                pthread_mutex_unlock(&store->health_lock);
        }
}

static void grow_exchange(struct eng_grow *g)
{
        struct eng_coord *c = g->store->coord;
        const unsigned slot = (unsigned)__builtin_ctzll(g->slots);

        c->filling |= g->slots;
        c->lost_writes &= ~g->slots;
        c->given_up &= ~g->slots;
        c->believed &= ~g->slots;
        c->down &= ~g->slots;
        c->view.up &= ~g->slots;
        c->present &= ~g->slots;
        eng_lost_no_truth(c, slot);
        eng_down_is_back(g->store, slot);
        grow_name_drive(g->store, slot, &g->drives[0]);
}

static void grow_try(struct eng_grow *g);

static void grow_again(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, grow_timer);

        if (c->grow != NULL && !c->store->stopping)
                grow_try(c->grow);
}

/* A thread reads the slots while it opens a drive, and an epoch that is made has them. */
static bool grow_must_wait(const struct eng_coord *c)
{
        return c->phase == ENG_PHASE_OPEN && (c->hot_add != NULL || c->changing || c->asking_readers);
}

static void grow_try(struct eng_grow *g)
{
        struct eng_store *store = g->store;
        struct eng_coord *c = store->coord;
        const char *why;
        int rv;

        if (grow_must_wait(c) && ++g->tries < GROW_TRIES) {
                c->grow_timer.expired = grow_again;
                lp_timer_start(store->coord_loop->loop, &c->grow_timer, GROW_AGAIN_NS);
                return;
        }
        if (grow_must_wait(c)) {
                grow_end(g, -EBUSY, "another drive is on its way in");
                return;
        }
        why = grow_refusal(g, &rv);
        if (why != NULL) {
                grow_end(g, rv, why);
                return;
        }
        g->applied = true;
        if (g->kind == GROW_ADD)
                grow_add(g);
        else if (g->kind == GROW_EXCHANGE)
                grow_exchange(g);
        else
                eng_rebalance_wish(store, g->slots);
        eng_epoch_change(store);
        eng_health_refresh(store);
}

void eng_grow_epoch(struct eng_store *store)
{
        struct eng_grow *g = store->coord->grow;

        if (g == NULL || !g->applied)
                return;
        grow_end(g, 0, "");
        eng_hot_add_start(store);
}

/* ---- asked for ------------------------------------------------------------------------------- */

static void grow_requested(struct lp_msg *msg)
{
        struct eng_grow *g = (struct eng_grow *)msg;
        struct eng_coord *c = g->store->coord;

        assert(eng_on_coordinator(g->store));
        if (c->grow != NULL) {
                eng_hot_add_report(g->store, g->number, -EBUSY, "somebody has asked for another change of drives just now");
                free(g);
                return;
        }
        c->grow = g;
        grow_try(g);
}

static int grow_ask(struct eng_store *store, enum grow_kind kind, eng_mask slots, const struct eng_new_drive *drives, unsigned count, uint64_t *number)
{
        struct eng_grow *g = calloc(1, sizeof(*g) + count * sizeof(g->drives[0]));

        if (g == NULL)
                return -ENOMEM;
        g->store = store;
        g->kind = kind;
        g->slots = slots;
        g->count = count;
        if (count != 0)
                memcpy(g->drives, drives, count * sizeof(g->drives[0]));
        g->number = *number = eng_hot_add_new_report(store, slots == 0 ? ENG_DRIVES_MAX : (unsigned)__builtin_ctzll(slots), kind == GROW_EXCHANGE);
        g->msg.run = grow_requested;
        lp_post(store->coord_loop->loop, &g->msg);
        return 0;
}

int eng_drives_add(struct eng_store *store, const struct eng_new_drive *drives, unsigned count, uint64_t *number)
{
        return count == 0 || count > ENG_DRIVES_MAX ? -EINVAL : grow_ask(store, GROW_ADD, 0, drives, count, number);
}

int eng_drive_exchange(struct eng_store *store, unsigned slot, const struct eng_new_drive *drive, uint64_t *number)
{
        return slot >= ENG_DRIVES_MAX ? -EINVAL : grow_ask(store, GROW_EXCHANGE, eng_bit(slot), drive, 1, number);
}

int eng_drives_remove(struct eng_store *store, uint64_t slots, uint64_t *number)
{
        return slots == 0 ? -EINVAL : grow_ask(store, GROW_REMOVE, slots, NULL, 0, number);
}
