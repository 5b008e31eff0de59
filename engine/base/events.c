/*
 * events.c - what lower modules tell upper ones, by the table of the store (struct eng_events), and
 * the phases of a start.
 */
#include "engine/base/store.h"
#include "loop_trace.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct failure {
        struct lp_msg msg;
        struct eng_store *store;
        unsigned slot;
        const struct eng_drive *drive;
        bool unreachable;
        char text[160];
};

static void failure_told(struct lp_msg *msg)
{
        struct failure *f = (struct failure *)msg;

        assert(eng_on_coordinator(f->store));
        if (f->unreachable)
                f->store->events->drive_unreachable(f->store, f->slot, f->drive, f->text);
        else
                f->store->events->drive_failed(f->store, f->slot, f->drive, f->text);
        free(f);
}

void eng_drive_failed(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text)
{
        eng_drive_erred(store, slot, drive, -EIO, text);
}

void eng_drive_erred(struct eng_store *store, unsigned slot, const struct eng_drive *drive, int rv, const char *text)
{
        struct eng_member *m = &store->members[slot];
        struct failure *f;
        unsigned turn, told;

        assert(slot < ENG_DRIVES_MAX);
        turn = atomic_load(&m->turn); /* first: if another drive takes the slot behind the comparison, this is not its turn */
        if (drive != atomic_load(&m->drive) && drive != atomic_load(&m->local))
                return;
        if (rv == -ESTALE && store->options.cluster != NULL) { /* nobody but another leader can have told it more */
                eng_cluster_ended(store, text);
                return;
        }
        told = atomic_load(&m->failed);
        do {
                if (told > turn)
                        return;
        } while (!atomic_compare_exchange_weak(&m->failed, &told, turn + 1));
        f = calloc(1, sizeof(*f));
        if (f == NULL)
                abort(); /* a dead drive nobody knows of would stop every write */
        f->store = store;
        f->slot = slot;
        f->drive = drive;
        f->unreachable = rv == -EHOSTUNREACH;
        snprintf(f->text, sizeof(f->text), "%s", text);
        f->msg.run = failure_told;
        lp_post(store->coord_loop->loop, &f->msg);
}

void eng_cluster_ended(struct eng_store *store, const char *why)
{
        store->options.cluster->ended(store->options.cluster->arg, why);
}

struct silence {
        struct lp_msg msg; /* first */
        struct eng_store *store;
};

static void silence_comes(struct lp_msg *msg)
{
        struct silence *silence = (struct silence *)msg;

        if (!silence->store->stopping)
                silence->store->events->slot_silent(silence->store);
        free(silence);
}

/* A start that waits for it goes on. Without memory it does when the attempt to open the drive ends. */
static void tell_silence(struct eng_store *store)
{
        struct silence *silence = calloc(1, sizeof(*silence));

        if (silence == NULL)
                return;
        silence->store = store;
        silence->msg.run = silence_comes;
        lp_post(store->coord_loop->loop, &silence->msg);
}

void eng_slot_silent(struct eng_store *store, unsigned slot, const char *why)
{
        const struct eng_drive *drive = slot < ENG_DRIVES_MAX ? atomic_load(&store->members[slot].drive) : NULL;

        if (slot < ENG_DRIVES_MAX && (atomic_fetch_or(&store->silent, eng_bit(slot)) & eng_bit(slot)) == 0)
                tell_silence(store);
        if (drive != NULL)
                eng_drive_erred(store, slot, drive, -EHOSTUNREACH, why);
}

void eng_upkeep_group(struct eng_store *store, uint32_t group)
{
        store->events->look_at_group(store, group);
}

void eng_upkeep_version(struct eng_store *store, const struct eng_name *name)
{
        store->events->look_at_version(store, name);
}

void eng_phase_set(struct eng_coord *c, enum eng_phase phase)
{
        assert(phase > ENG_PHASE_NEW && phase < ENG_PHASES);
        assert(eng_on_coordinator(c->store));
        assert(phase != ENG_PHASE_OPEN || c->phase == ENG_PHASE_CONFIG);
        assert(phase != ENG_PHASE_CONFIG || c->phase == ENG_PHASE_RECONCILE);
        assert(c->phase != ENG_PHASE_OPEN || phase == ENG_PHASE_EPOCH); /* force.c */
        c->phase = phase;
        lp_trace(LP_TRACE_RECOVERY, phase, c->view.epoch);
}
