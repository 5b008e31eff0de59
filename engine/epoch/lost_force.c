/*
 * lost_force.c - the operator's word for lost groups whose truth does not come back (docs/design/lost-groups.md):
 * which slots these groups wait for, what is lost without them, and giving them up. Coordinator.
 *
 * A slot that is not here is given up, as force.c has it: who left before it is the truth then. One that is here, and
 * lost writes, is believed as it is.
 */
#include "engine/epoch/epoch.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* Its drive can be read, so it may join as soon as it is no member of a lost group that waits for another slot. */
static bool lost_is_here(const struct eng_store *store, unsigned slot)
{
        const struct eng_member *m = &store->members[slot];

        return m->state == ENG_DRIVE_STALE && m->drive != NULL && !eng_member_failed(m);
}

static bool lost_is_doubted(const struct eng_store *store, unsigned slot)
{
        return (store->coord->view.left[slot] & FMT_EPOCH_NO_TRUTH) != 0;
}

/* Members of one lost group that left last, whether they are truths or not, and the others that know something of it. */
static void look_at_group(const struct eng_store *store, eng_mask members, struct eng_outlook *out)
{
        const struct eng_view *view = &store->coord->view;
        const eng_mask last = eng_left_last(members, view->left), others = members & ~last;
        eng_mask rest;

        out->nobody += last == 0;
        for (rest = last; rest != 0; rest &= rest - 1) {
                const unsigned slot = (unsigned)__builtin_ctzll(rest);

                if (lost_is_here(store, slot) && !lost_is_doubted(store, slot))
                        continue; /* it comes by itself */
                out->missed |= eng_bit(slot);
                out->waits[slot]++;
                out->last[slot] += (last & ~eng_bit(slot)) == 0 && eng_left_last(others, view->left) == 0;
                if (lost_is_here(store, slot))
                        out->doubted |= eng_bit(slot);
        }
}

void eng_lost_outlook(const struct eng_store *store, struct eng_outlook *out)
{
        const struct eng_view *view = &store->coord->view;
        unsigned i;

        out->losing = true;
        out->lost = view->lost;
        for (i = 0; i < view->map->group_count; i++)
                if ((view->map->groups[i].before & view->in) == 0)
                        look_at_group(store, view->map->groups[i].before, out);
        if (store->coord->changing)
                snprintf(out->refusal, sizeof(out->refusal), "the members change just now: try again");
        else if (out->missed == 0)
                snprintf(out->refusal, sizeof(out->refusal), "no lost group waits for a drive that is not here");
}

void eng_lost_force(struct eng_store *store, eng_mask slots)
{
        struct eng_coord *c = store->coord;
        unsigned i;

        assert(eng_on_coordinator(store) && !c->changing && c->view.lost != 0);
        for (i = 0; i < store->drive_count; i++) {
                if (!(slots & eng_bit(i)))
                        continue;
                assert(((c->view.in | c->view.joining) & eng_bit(i)) == 0);
                if (lost_is_here(store, i)) {
                        c->believed |= eng_bit(i);
                        c->lost &= ~eng_bit(i);
                        c->view.left[i] &= ~FMT_EPOCH_NO_TRUTH;
                } else {
                        c->given_up |= eng_bit(i);
                        c->down &= ~eng_bit(i);
                        eng_member_state(store, i, store->members[i].path[0] != 0 ? ENG_DRIVE_FAILED : ENG_DRIVE_MISSING, "was given up");
                }
        }
        c->lost_forced = true;
        eng_epoch_change(store); /* it says so, and that they left never; eng_lost_settle() */
}
