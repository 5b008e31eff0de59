/*
 * rebalance.c - drives that are added to the store for good, or removed from it. Coordinator; one
 * at a time, or several at once in a cluster (grow.c).
 *
 *   add      hot_add.c formats the folder for a slot of its own and hands it over; catch_up.c brings it up to date with the groups that
 *            come to it, and the epoch that makes it a member ends the change. Shards of old objects stay where they are
 *   remove   an epoch says that it is leaving: no shard is placed on it any more, and records of its groups go to those drives too that are to
 *            have them. Each of these copies what the groups hold (catch_up.c), heal.c gives objects with shards on it others instead, and when no
 *            record names it any more an epoch goes on without it. A drive that is lost is removed in the same way: what it held is
 *            rebuilt. One that is still being added goes at once
 *
 * The drives that groups went from forget what they held of them (migrated_drop.c). Epochs carry
 * all of this, so a restart goes on with it.
 */
#include "engine/object/object.h"
#include "engine/epoch/epoch.h"
#include "engine_home.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of these drives, those that have no part in some group. */
static eng_mask partial(const struct eng_store *store, eng_mask drives)
{
        const struct eng_placement *map = store->coord->view.map;
        eng_mask in_all = drives;
        unsigned pg;

        for (pg = 0; pg < store->pg_count; pg++)
                in_all &= map->groups[pg].before | map->groups[pg].after;
        return drives & ~in_all;
}

/* Slots that are being added, as the next epoch has them. */
static eng_mask next_adding(const struct eng_coord *c)
{
        return (c->shape.adding | c->wish.adding) & ~(c->shape.gone | c->wish.gone);
}

eng_mask eng_rebalance_promotes(const struct eng_store *store, eng_mask promoted)
{
        const struct eng_coord *c = store->coord;
        const eng_mask adding = next_adding(c);

        promoted &= ~c->wish.gone; /* caught up, and taken back: it says nothing about the others that are being added */
        return (promoted & adding) == adding ? promoted : promoted & ~adding;
}

/* Of the members of an epoch, those to which groups come because others leave, and that do not have them yet. */
static eng_mask gaining(const struct eng_coord *c, eng_mask in)
{
        return c->shape.leaving == 0 ? 0 : c->view.map->gaining & in & ~c->gained;
}

/*
 * What is leaving may go, and these go on. Not while a group is lost: who left last is looked for among its members,
 * and by the next map these would be others, which need not have its names.
 */
static bool lets_go(const struct eng_store *store, eng_mask left)
{
        const struct eng_coord *c = store->coord;

        return c->view.lost == 0 && gaining(c, left) == 0 &&
               eng_placement_can_form(c->view.map, left, c->view.in, c->shape.leaving, store->k, store->m);
}

/* Another drive may have failed since it was asked for: then what leaves may be the last that has something. */
static bool can_go(const struct eng_store *store, eng_mask slots, eng_mask promoted)
{
        const struct eng_coord *c = store->coord;

        return (slots & c->shape.leaving) == 0 || lets_go(store, ((c->view.in & c->view.up) | promoted) & ~slots);
}

/* A slot that is out, and to which groups have come that it never had, is not the truth of these, however late it left. */
static void doubt_what_never_gained(struct eng_coord *c)
{
        eng_mask rest;

        for (rest = gaining(c, ~c->next_in); rest != 0; rest &= rest - 1)
                eng_lost_no_truth(c, (unsigned)__builtin_ctzll(rest));
}

void eng_rebalance_next(struct eng_store *store, eng_mask promoted)
{
        struct eng_coord *c = store->coord;
        struct eng_shape *next = &c->next_shape;

        assert(eng_on_coordinator(store));
        if (!can_go(store, c->wish.gone & ~c->said_gone, promoted))
                c->wish.gone &= ~c->shape.leaving | c->said_gone; /* eng_rebalance_consider() asks for it again */
        *next = c->shape;
        next->dropping_migrated |= partial(store, promoted & ~next->adding); /* names that it had forgotten may be back: their ends were void */
        next->adding |= c->wish.adding;
        next->leaving |= c->wish.leaving;
        assert((promoted & c->wish.gone) == 0 && (c->wish.gone & c->view.in & ~c->shape.leaving) == 0);
        if (promoted & next->adding) {
                next->dropping_migrated |= c->view.map->losing;
                next->adding = 0;
        }
        if (c->wish.gone & c->shape.leaving)
                doubt_what_never_gained(c);
        next->gone |= c->wish.gone;
        next->adding &= ~next->gone;
        next->leaving &= ~next->gone;
        next->dropping_migrated &= ~(next->gone | c->wish.migrated_drop);
        c->filling &= ~next->gone;
        c->given_up &= ~next->gone;
}

/*
 * Members that are here and lack the newest epoch. If that was the one that said that they had
 * forgotten their names, they may have lost its record with those before it, and have the names
 * again: it is cheap to look.
 */
void eng_rebalance_behind(struct eng_store *store, eng_mask behind)
{
        struct eng_shape *shape = &store->coord->shape;

        shape->dropping_migrated |= partial(store, behind & ~shape->adding);
        store->coord->next_shape.dropping_migrated = shape->dropping_migrated;
}

/* ---- what an epoch brought ------------------------------------------------------------------- */

static bool rebalance_let_go(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct eng_drive *local = arg;

        if (local->owner == el->loop)
                eng_drive_let_go(local); /* what has not come back yet keeps it until the store closes */
        return true;
}

/* Its folder can be taken away. */
static void part_with(struct eng_store *store, unsigned slot)
{
        struct eng_drive *local = store->members[slot].local;

        assert((store->coord->shape.gone & eng_bit(slot)) != 0);
        eng_member_state(store, slot, ENG_DRIVE_REMOVED, "was removed from the store");
        if (local != NULL)
                eng_broadcast(store, rebalance_let_go, NULL, local);
}

void eng_rebalance_epoch(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        unsigned i;

        c->wish.adding &= ~(c->shape.adding | c->shape.gone | c->view.in);
        if (c->wish.leaving & c->shape.leaving) {
                c->leaving_since = c->view.epoch;
                c->gained = 0;
                c->drained = c->readers_counted = false;
                eng_catch_up_consider(store); /* those that gained groups from the drive that left last have to begin anew */
        }
        c->wish.leaving &= ~(c->shape.leaving | c->shape.gone);
        c->wish.migrated_drop &= c->shape.dropping_migrated;
        for (i = 0; i < store->drive_count; i++)
                if ((c->wish.gone & c->shape.gone & eng_bit(i)) != 0)
                        part_with(store, i);
        c->wish.gone &= ~c->shape.gone;
        eng_grow_epoch(store);
        eng_rebalance_consider(store);
}

/* ---- a drive that leaves --------------------------------------------------------------------- */

int eng_rebalance_gainer(const struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        eng_mask mask = gaining(c, c->view.in & c->view.up);

        return mask == 0 ? -1 : __builtin_ctzll(mask);
}

void eng_rebalance_gained(struct eng_store *store, unsigned slot)
{
        assert(store->coord->shape.leaving != 0);
        store->coord->gained |= eng_bit(slot);
}

struct look {
        eng_mask leaving;
        bool found;
};

static void rebalance_look_at(void *arg, const struct eng_part *part)
{
        struct look *look = arg;

        look->found |= (eng_part_drives(part) & look->leaving) != 0;
}

/*
 * Those that were being looked up when no record named the drive any more may have found one of
 * before; later ones do not.
 */
static bool see_readers(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct look look = {.leaving = el->view.map->leaving & el->view.up};
        struct eng_coord *c = arg;

        if (!c->readers_counted)
                el->home.readers_upto = el->home.get_count;
        if (!c->readers_counted)
                el->leader.lookups_upto = el->leader.lookup_count;
        if (!eng_get_each_part(el, el->home.readers_upto, rebalance_look_at, &look) || look.found || eng_lookups_since(el) <= el->leader.lookups_upto)
                atomic_store(&c->read_from, true);
        return true;
}

static void look_at_pinned(void *arg, const void *value, size_t len)
{
        struct eng_part part;
        size_t pos = 0;

        while (eng_value_next_part(value, len, &pos, &part) == 1)
                rebalance_look_at(arg, &part);
}

static void readers_seen(struct eng_store *store, void *arg)
{
        struct eng_coord *c = store->coord;
        struct look look = {.leaving = c->view.map->leaving & c->view.up};

        if (c->homes != NULL)
                c->homes->each_pinned(c->homes->arg, look_at_pinned, &look);
        if (look.found)
                atomic_store(&c->read_from, true);

        assert(c->asking_readers);
        c->asking_readers = false;
        c->readers_counted = true;
        if (c->store->stopping || atomic_load(&c->read_from))
                return; /* the next walk asks again */
        c->drained = true;
        eng_rebalance_consider(store);
}

/*
 * Who opened an object before its shards went to other drives reads it where they were: with as
 * many drives gone meanwhile as the code has parity, the next one would end that. So the drive
 * stays until nobody does; who does not read on is cut off by the gateway.
 */
void eng_rebalance_drained(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        if (c->asking_readers)
                return;
        atomic_store(&c->read_from, false);
        c->asking_readers = eng_broadcast(store, see_readers, readers_seen, c) == 0;
}

void eng_rebalance_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        const eng_mask adding = next_adding(c);

        if (adding != 0 && (adding & ~(c->caught_up & c->present)) == 0 && !c->store->stopping && !c->changing && c->catch_up == NULL && c->view.writable &&
            (c->view.in & ~c->view.up) == 0)
                eng_epoch_change(store); /* all of them become members */
        if (c->shape.leaving == 0 || !c->drained || c->store->stopping || c->changing || c->catch_up != NULL)
                return;
        if (!c->view.writable || c->wish.gone != 0 || !lets_go(store, c->view.in & c->view.up & ~c->shape.leaving))
                return; /* another drive is out: when it is back */
        c->wish.gone = c->shape.leaving;
        eng_epoch_change(store);
}

/* ---- asked for ------------------------------------------------------------------------------- */

static const char *too_few_left(const struct eng_store *store, eng_mask slots)
{
        const struct eng_placement *map = store->coord->view.map;
        const eng_mask before = map->all & ~map->adding, after = before & ~slots;
        const unsigned left = (unsigned)__builtin_popcountll(after);
        unsigned nodes, fail;

        if (left < store->k + store->m)
                return "so few drives would be left that an object's shards could not all be on different ones: add one first, or replace it";
        if (map->domains == NULL)
                return NULL;
        nodes = eng_domains_count(map->domains->node, after);
        fail = eng_nodes_may_fail(nodes);
        if (!eng_code_keeps(store->k, store->m, nodes, left, fail) &&
            eng_code_keeps(store->k, store->m, eng_domains_count(map->domains->node, before), (unsigned)__builtin_popcountll(before), 1))
                return "so few nodes would be left that the loss of one could cost objects: add a node first";
        return NULL;
}

const char *eng_rebalance_refuses(const struct eng_store *store, eng_mask slots, int *rv)
{
        const struct eng_coord *c = store->coord;
        const eng_mask adding = c->shape.adding | c->wish.adding, leaving = c->shape.leaving | c->wish.leaving;
        const char *few;

        *rv = -EHOSTDOWN;
        if (c->store->stopping || c->phase != ENG_PHASE_OPEN)
                return "the store is not open";
        *rv = -EINVAL;
        if (slots == 0 || (slots & ~eng_all_slots(store->drive_count)) != 0)
                return "there is no such slot";
        *rv = -EALREADY;
        if (c->shape.gone & slots)
                return "that drive was removed before";
        if (leaving != 0 && (slots & ~leaving) == 0)
                return "that drive is being removed already";
        *rv = -EBUSY;
        if (leaving != 0)
                return "another drive is being removed";
        if (adding != 0 && (slots & ~adding) != 0)
                return "another drive is being added";
        if (c->hot_add != NULL || c->catch_up != NULL || (c->changing && adding != 0)) /* by that epoch it may be a member */
                return "a drive is on its way in";
        if (c->view.lost != 0)
                return "some placement groups are lost: a drive that was the last to have them must be back first";
        *rv = -EROFS;
        if (!c->view.writable)
                return "too few drives are in for a new epoch";
        *rv = -EINVAL;
        if (store->m == 0)
                return "a store without parity has nothing to give its objects other shards from";
        few = adding != 0 ? NULL : too_few_left(store, slots);
        if (few != NULL)
                return few;
        *rv = 0;
        return NULL;
}

/* Groups that were to come to the slots that go come to these: they have not been compared. */
static void caught_up_anew(struct eng_store *store, eng_mask slots)
{
        unsigned slot;

        store->coord->caught_up &= ~slots;
        for (slot = 0; slot < store->drive_count; slot++)
                if (slots & eng_bit(slot))
                        eng_coord_drive_unreachable(store, slot, store->members[slot].drive, "others that were added with it go, so it begins anew");
}

void eng_rebalance_wish(struct eng_store *store, eng_mask slots)
{
        struct eng_coord *c = store->coord;
        const eng_mask adding = c->shape.adding | c->wish.adding;

        if (adding != 0) {
                assert((slots & ~adding) == 0);
                c->wish.gone = slots; /* nothing is on it that others lack */
                c->wish.adding &= ~slots;
                caught_up_anew(store, c->caught_up & ~slots);
        } else {
                c->wish.leaving = slots;
        }
}

struct request {
        struct lp_msg msg;
        struct eng_store *store;
        unsigned slot;
        uint64_t number;
};

static void rebalance_requested(struct lp_msg *msg)
{
        struct request *q = (struct request *)msg;
        struct eng_store *store = q->store;
        int rv;
        const char *why = eng_rebalance_refuses(store, q->slot < ENG_DRIVES_MAX ? eng_bit(q->slot) : 0, &rv);

        assert(eng_on_coordinator(store));
        eng_hot_add_report(store, q->number, rv, why == NULL ? "" : why);
        if (why == NULL) {
                eng_rebalance_wish(store, eng_bit(q->slot));
                eng_epoch_change(store);
        }
        free(q);
}

int eng_drive_remove(struct eng_store *store, unsigned slot, uint64_t *number)
{
        struct request *q;

        if (store->options.cluster != NULL && slot < ENG_DRIVES_MAX)
                return eng_drives_remove(store, eng_bit(slot), number);
        q = calloc(1, sizeof(*q));
        if (q == NULL)
                return -ENOMEM;
        q->store = store;
        q->slot = slot;
        q->number = *number = eng_hot_add_new_report(store, slot, false);
        q->msg.run = rebalance_requested;
        lp_post(store->coord_loop->loop, &q->msg);
        return 0;
}
