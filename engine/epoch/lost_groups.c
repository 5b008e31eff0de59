/*
 * lost_groups.c - a cluster's pool goes on without groups of which no member is current, and takes in again
 * who knows what they hold (docs/design/lost-groups.md). Coordinator.
 *
 * A group is lost exactly as long as none of its members is in: who is a member of a lost group, and not its
 * truth, does not join.
 */
#include "engine/epoch/epoch.h"

#include <assert.h>
#include <string.h>

bool eng_may_lose(const struct eng_store *store)
{
        return store->options.cluster != NULL && store->options.cluster->may_lose;
}

eng_mask eng_lost_counted(const struct eng_store *store)
{
        const struct eng_coord *c = store->coord;

        return eng_all_slots(store->drive_count) & ~(c->shape.gone | c->said_gone | c->given_up | c->shape.adding | c->wish.adding);
}

bool eng_lost_could_form(const struct eng_store *store, eng_mask next, eng_mask prev)
{
        return eng_could_form(store, next, prev) || (eng_may_lose(store) && eng_groups_may_lose(next, eng_lost_counted(store)));
}

/* Of a slot that is not in the next epoch. */
static uint64_t left_of(const struct eng_coord *c, eng_mask prev, unsigned slot)
{
        const uint64_t verdict = c->lost & eng_bit(slot) ? FMT_EPOCH_NO_TRUTH : c->view.left[slot] & FMT_EPOCH_NO_TRUTH;

        if (prev & eng_bit(slot))
                return c->next_number | verdict;
        /* Later than the other truths of its groups, and earlier than the last members of groups that it was joining. */
        if (c->view.back & eng_bit(slot))
                return c->view.epoch | verdict;
        return c->view.left[slot] | verdict;
}

/*
 * A stale slot's drive says itself that it lacks what it acknowledged. It is asked whenever it might join, however it came
 * back. Of a log that lost its end frames may be gone, too: as lost.c has it at a start.
 */
static void take_verdict(struct eng_store *store, unsigned slot)
{
        struct eng_drive *drive = store->members[slot].drive;
        struct eng_coord *c = store->coord;
        bool log_lost;

        if (drive == NULL)
                return;
        log_lost = eng_drive_log_lost(drive);
        if (log_lost && store->m > 0) {
                c->filling |= eng_bit(slot);
                c->lost_writes |= eng_bit(slot);
        }
        if ((log_lost || eng_drive_damage(drive) != NULL) && (c->believed & eng_bit(slot)) == 0)
                eng_lost_no_truth(c, slot);
}

void eng_lost_no_truth(struct eng_coord *c, unsigned slot)
{
        if (c->store->options.cluster != NULL)
                c->view.left[slot] |= FMT_EPOCH_NO_TRUTH;
}

/*
 * A slot that is not in: of each lost group that it is a member of it is a truth. What is being added becomes a member of
 * all of its groups at once, so it waits until none is lost.
 */
static bool lost_lets_join(const struct eng_placement *map, eng_mask adding, eng_mask in, const uint64_t left[ENG_DRIVES_MAX], unsigned slot)
{
        if (adding & eng_bit(slot))
                return eng_groups_lost(map->groups, map->group_count, in) == 0;
        return eng_may_join(map->groups, map->group_count, in, left, slot);
}

void eng_lost_next(struct eng_store *store, eng_mask prev)
{
        struct eng_coord *c = store->coord;
        const struct eng_placement *map = c->view.map;
        unsigned slot;

        c->next_back = 0;
        if (store->options.cluster == NULL)
                return;
        for (slot = 0; slot < ENG_DRIVES_MAX; slot++) {
                if ((c->next_in | c->given_up) & eng_bit(slot))
                        c->next_left[slot] = 0; /* what is given up is no truth, and keeps no other from being one */
                else if (!(c->next_joining & c->view.back & eng_bit(slot)))
                        c->next_left[slot] = left_of(c, prev, slot);
                else
                        c->next_left[slot] = c->view.left[slot];
        }
        for (slot = 0; slot < store->drive_count; slot++) {
                if (!(c->next_joining & eng_bit(slot)))
                        continue;
                if (!lost_lets_join(map, c->next_shape.adding, c->next_in, c->next_left, slot)) {
                        c->next_joining &= ~eng_bit(slot); /* it is stale again, and waits */
                        c->present &= ~eng_bit(slot);
                        c->view.up &= ~eng_bit(slot);
                        c->next_left[slot] = left_of(c, prev, slot);
                } else if (eng_is_truth(map->groups, map->group_count, c->next_in, c->next_left, slot)) {
                        c->next_back |= eng_bit(slot);
                }
        }
}

void eng_lost_taken(struct eng_coord *c)
{
        if (c->store->options.cluster == NULL)
                return;
        c->believed &= ~c->next_in; /* what it loses from here on is another matter */
        c->view.back = c->next_back;
        memcpy(c->view.left, c->next_left, sizeof(c->view.left));
        c->view.lost = eng_groups_lost(c->view.map->groups, c->view.map->group_count, c->next_in);
}

/*
 * Each drive has been told since what of its pending records is void, or has had them settled, so the changes that
 * were under way when their groups were lost have come to their end.
 */
void eng_lost_settle(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        if (c->lost_forced)
                eng_force_report_end(store, 0, "");
        c->lost_forced = false;
        if (c->view.lost == 0 && (c->view.in & c->view.up) == c->view.map->all)
                atomic_store(&store->unsettled_lost, false);
}

void eng_lost_load(struct eng_coord *c, const struct eng_member *chosen)
{
        const struct fmt_epoch *epoch = eng_epoch_of(chosen);
        const struct fmt_epoch_drive *d = eng_epoch_drives(chosen);
        const size_t at = FMT_EPOCH_PLACED(epoch->drives) + sizeof(struct fmt_epoch_tail);
        unsigned slot;

        memset(c->view.left, 0, sizeof(c->view.left));
        c->view.back = 0;
        c->believed = 0;
        if (c->store->options.cluster == NULL || chosen->epoch_len < at + FMT_EPOCH_LEFT(epoch->drives))
                return;
        memcpy(c->view.left, chosen->epoch + at, FMT_EPOCH_LEFT(epoch->drives));
        for (slot = 0; slot < epoch->drives; slot++) {
                if (c->view.left[slot] & FMT_EPOCH_BELIEVED)
                        c->believed |= eng_bit(slot);
                c->view.left[slot] &= ~FMT_EPOCH_BELIEVED;
                if (d[slot].in == FMT_EPOCH_BACK) /* it may have answered in that epoch; it is not back in this run */
                        c->view.left[slot] = epoch->number | (c->view.left[slot] & FMT_EPOCH_NO_TRUTH);
        }
}

bool eng_lost_may_join(struct eng_store *store, unsigned slot)
{
        const struct eng_view *view = &store->coord->view;

        take_verdict(store, slot);
        return view->lost == 0 || lost_lets_join(view->map, store->coord->shape.adding, view->in, view->left, slot);
}

bool eng_lost_is_truth(const struct eng_store *store, unsigned slot)
{
        const struct eng_view *view = &store->coord->view;

        return view->lost != 0 && eng_is_truth(view->map->groups, view->map->group_count, view->in, view->left, slot);
}

bool eng_lost_counts(const struct eng_store *store, unsigned slot, uint32_t pg)
{
        const struct eng_view *view = &store->coord->view;
        const eng_mask members = pg < view->map->group_count ? view->map->groups[pg].before : view->in;

        return (members & view->in) == 0 && (eng_truth_of(members, view->left) & eng_bit(slot)) != 0;
}
