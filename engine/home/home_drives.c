/*
 * home_drives.c - the drives of a pool as a home store reaches them: by sessions of its own, whatever the
 * leader's are. One that is not reached is asked again. What uploads wrote to it before counts if SYNC is
 * answered by the same incarnation.
 * Coordinator, but for the threads that open.
 */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/home/home.h"

#define LOOK_NS  (250ull * 1000 * 1000)
#define AGAIN_NS (250ull * 1000 * 1000)

uint64_t home_drives_up(const struct eng_home *home)
{
        uint64_t up = 0;
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++)
                if (home->slots[i].reached)
                        up |= eng_bit(i);
        return up;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void home_drive_told(void *arg, struct eng_drive *drive, const char *text)
{
        eng_drive_erred(arg, drive->slot, drive, -EHOSTUNREACH, text);
}

static void home_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n)
{
        /* who leads is told, too, and sees to it */
}

static void *open_home_drive(void *arg)
{
        struct home_slot *slot = arg;
        struct eng_store *store = slot->home->store;
        struct eng_local_options options = {
                .path = slot->path,
                .identity = {.slot = slot->slot, .layout = FMT_LAYOUT_VERSION},
                .owner = store->loops[slot->slot % store->loop_count].loop,
                .times = eng_drive_times_of(store, slot->slot),
                .failed = home_drive_told,
                .unreachable = home_drive_told,
                .superseded = home_superseded,
                .arg = store,
        };
        struct eng_error error;

        memcpy(options.identity.store_id, store->store_id, FMT_ID);
        memcpy(options.identity.drive_id, slot->drive_id, FMT_ID);
        slot->rv = eng_drive_open(store->options.opener, &options, &slot->drive, &error);
        lp_post(store->coord_loop->loop, &slot->msg);
        return NULL;
}

static void home_drive_opened(struct lp_msg *msg)
{
        struct home_slot *slot = container_of(msg, struct home_slot, msg);
        struct eng_store *store = slot->home->store;
        struct eng_member *m = &store->members[slot->slot];

        if (slot->opening)
                pthread_join(slot->thread, NULL);
        slot->opening = false;
        slot->again = lp_now(store->coord_loop->loop) + AGAIN_NS;
        if (slot->rv != 0) {
                slot->drive = NULL;
                return;
        }
        store->unplaced[store->unplaced_count].local = slot->drive; /* it is closed with the store */
        store->unplaced[store->unplaced_count++].drive = slot->drive;
        if (memcmp(slot->drive_id, m->id, FMT_ID) != 0) {
                slot->drive = NULL; /* another drive has the slot by now */
                return;
        }
        m->local = slot->drive;
        m->drive = slot->drive;
        eng_member_new_turn(m);
        slot->reached = true;
        home_spread(slot->home);
}

static unsigned opening_now(const struct eng_home *home)
{
        unsigned i, n = 0;

        for (i = 0; i < ENG_DRIVES_MAX; i++)
                n += home->slots[i].opening;
        return n;
}

static void open_home_slot(struct home_slot *slot)
{
        const struct eng_leader_link *link = slot->home->store->options.leader;
        struct eng_member *m = &slot->home->store->members[slot->slot];

        slot->again = lp_now(slot->home->store->coord_loop->loop) + AGAIN_NS;
        if (slot->home->store->unplaced_count + opening_now(slot->home) >= ENG_DRIVES_MAX + ENG_HOT_ADD_MAX)
                return; /* so many drives were replaced in this run */
        if (!link->path(link->arg, slot->slot, m->site.node, slot->path))
                return;
        memcpy(slot->drive_id, m->id, FMT_ID);
        slot->msg.run = home_drive_opened;
        slot->opening = pthread_create(&slot->thread, NULL, open_home_drive, slot) == 0;
}

/* ---- asking again ---------------------------------------------------------------------------- */

static void home_drive_answered(struct eng_op *op)
{
        struct home_slot *slot = container_of(op, struct home_slot, op);
        struct eng_store *store = slot->home->store;

        slot->asking = false;
        if (op->result != 0 || store->stopping || slot->drive != store->members[slot->slot].drive)
                return;
        eng_member_new_turn(&store->members[slot->slot]);
        slot->reached = true;
        home_spread(slot->home);
}

static void ask_again(struct home_slot *slot)
{
        slot->op = (struct eng_op){.kind = ENG_OP_HELD, .flags = ENG_OP_RESERVE | ENG_OP_ANEW, .epoch = home_view(slot->home)->epoch, .done = home_drive_answered};
        slot->op.held.count = 1;
        slot->asking = true;
        eng_drive_submit(slot->drive, &slot->op);
}

static void look_at_slot(struct home_slot *slot)
{
        const struct eng_home *home = slot->home;

        if (slot->reached || slot->opening || slot->asking || lp_now(home->store->coord_loop->loop) < slot->again ||
            ((home_view(home)->in | home_view(home)->joining) & eng_bit(slot->slot)) == 0)
                return;
        if (slot->drive != NULL)
                ask_again(slot);
        else
                open_home_slot(slot);
}

static void look_at_drives(struct lp_timer *timer)
{
        struct eng_home *home = container_of(timer, struct eng_home, timer);
        unsigned i;

        for (i = 0; i < home->store->drive_count && !home->spreading; i++) /* loops have been told of what was lost */
                look_at_slot(&home->slots[i]);
        if (!home->looked)
                home_spread(home);
        lp_timer_start(home->store->coord_loop->loop, timer, LOOK_NS);
}

void home_drive_lost(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text)
{
        struct eng_home *home = store->home;

        assert(eng_on_coordinator(store));
        if (!home->slots[slot].reached || drive != home->slots[slot].drive)
                return;
        home->slots[slot].reached = false;
        home->slots[slot].again = lp_now(store->coord_loop->loop);
        home_spread(home);
}

/* ---- epochs, life ---------------------------------------------------------------------------- */

/* What is being opened is its thread's; home_drive_opened() compares ids, too. */
void home_drives_epoch(struct eng_home *home, const struct eng_epoch_info *info)
{
        unsigned i;

        for (i = 0; i < info->slots; i++) {
                struct home_slot *slot = &home->slots[i];

                if (slot->opening || slot->drive == NULL || memcmp(slot->drive_id, info->slot[i].drive_id, FMT_ID) == 0)
                        continue;
                slot->drive = NULL;
                slot->reached = false;
                slot->again = 0;
        }
}

void home_drives_start(struct eng_home *home)
{
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                home->slots[i].home = home;
                home->slots[i].slot = i;
        }
        home->timer.expired = look_at_drives;
        lp_timer_start(home->store->coord_loop->loop, &home->timer, LOOK_NS / 25);
}

void home_drives_stop(struct eng_home *home)
{
        unsigned i;

        lp_timer_stop(home->store->coord_loop->loop, &home->timer);
        for (i = 0; i < ENG_DRIVES_MAX; i++)
                if (home->slots[i].opening) {
                        pthread_join(home->slots[i].thread, NULL); /* it has seconds at most: struct eng_drive_opener */
                        home->slots[i].opening = false;
                }
}
