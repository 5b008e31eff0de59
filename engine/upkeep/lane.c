/*
 * lane.c - one loop's share of the upkeep: walks the names of the groups whose primary it is, on all their members side by side, and repairs what it
 * meets at once (lane_look.c): names that members have differently (agree.c), shards that are missing (mend.c). Runs on that loop, under the store's one pacer.
 *
 * Names of parts come before those of objects: a part can become an object's meanwhile, never the other way round. Parts are not mended; what an upload lacks
 * is given to the object it becomes.
 */
#include "engine/resync/resync.h"
#include "engine/upkeep/upkeep.h"
#include "engine/upkeep/lane.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 256u                      /* names that a drive is asked for at a time */
#define ROWS 256u                      /* looked at before others of the loop get their turn */

/* ---- tours ----------------------------------------------------------------------------------------------------------- */

/* The configuration's group is this loop's; its names are compared by tours of all groups. */
static bool tours_config(const struct eng_lane *lane, const struct eng_lane_tour *tour)
{
        return tour == &lane->all && lane->store->pg_loop[lane->store->pg_count] == lane->el->index;
}

/* Groups of this loop's that a tour is about: bits. */
static void groups_of(const struct eng_lane *lane, const struct eng_lane_tour *tour, uint64_t *bits)
{
        const struct eng_store *store = lane->store;
        unsigned pg;

        for (pg = 0; pg <= store->pg_count; pg++)
                if (store->pg_loop[pg] != lane->el->index || (pg == store->pg_count && !tours_config(lane, tour)) ||
                    (tour == &lane->some && !(lane->wanted[pg / 64] >> pg % 64 & 1)))
                        bits[pg / 64] &= ~(1ull << pg % 64);
}

/* Each drive that is in is asked for the groups that it speaks for. */
static int lane_take_drives(struct eng_lane *lane, const struct eng_lane_tour *tour)
{
        const struct eng_view *view = &lane->el->view;
        unsigned slot;

        eng_walk_forget(lane->walk);
        for (slot = 0; slot < lane->store->drive_count; slot++) {
                uint64_t *bits;

                if (!(view->in & view->up & eng_bit(slot)))
                        continue;
                bits = eng_walk_groups(lane->walk, slot);
                if (bits == NULL)
                        return -ENOMEM;
                eng_groups_spoken_for(view, lane->store->pg_count, slot, bits);
                groups_of(lane, tour, bits);
        }
        return 0;
}

static void begin_space(struct eng_lane *lane, struct eng_lane_tour *tour, enum fmt_space space)
{
        struct eng_name from = {.len = 1, .data = {(uint8_t)space}};

        tour->space = space;
        tour->round = false;
        tour->to.len = 1;
        tour->to.data[0] = (uint8_t)space + 1;
        if (space == FMT_SPACE_OBJECT && tour == &lane->all) {
                if (lane->order->from.len != 0)
                        from = lane->order->from;
                else if (lane->order->start.len != 0)
                        from = lane->order->start;
        }
        eng_walk_begin(lane->walk, &from, false, &tour->to);
}

/* Some group's names could not be read on any member. */
static bool is_uncovered(const struct eng_lane *lane)
{
        const struct eng_store *store = lane->store;
        eng_mask read = lane->walk->drives & ~lane->walk->failed;
        unsigned pg;

        for (pg = 0; pg < store->pg_count; pg++)
                if (store->pg_loop[pg] == lane->el->index && (eng_speakers(&lane->el->view, pg) & read) == 0)
                        return true;
        return false;
}

static void tour_over(struct eng_lane *lane)
{
        uint64_t now = lp_now(lane->el->loop);

        if (lane->now == &lane->some) {
                lane->all_until = now + (now - lane->some_began);
                lane->all_rows = ROWS;
        }
        lane->now->under_way = false;
        lane->now = NULL;
}

static void tell_surveyed(struct eng_lane *lane)
{
        eng_lane_tell(lane);
        pthread_mutex_lock(&lane->store->health_lock);
        lane->surveyed = true;
        eng_heal_publish(lane->store);
        pthread_mutex_unlock(&lane->store->health_lock);
}

/* Behind the last object come those before the one that the walk began at. False: there are none, or they were those. */
static bool go_round(struct eng_lane *lane)
{
        static const struct eng_name first = {.len = 1, .data = {FMT_SPACE_OBJECT}};
        struct eng_lane_tour *tour = lane->now;

        if (tour != &lane->all || tour->round || lane->order->start.len == 0)
                return false;
        tour->round = true;
        tour->to = lane->order->start;
        eng_walk_begin(lane->walk, &first, false, &tour->to);
        return true;
}

/* Objects that were left for later, those that lack the most first. False: there are none. */
static bool next_level(struct eng_lane *lane)
{
        struct eng_lane_tour *tour = lane->now;
        struct eng_name from;
        unsigned level = ERA_MAX_M;

        while (level > 0 && tour->left[level].len == 0)
                level--;
        if (level == 0)
                return false;
        tour->level = level;
        from = tour->left[level];
        tour->left[level].len = 0;
        tour->round = tour == &lane->all && lane->order->start.len != 0 && eng_lane_compare(&from, &lane->order->start) < 0;
        tour->to = tour->round ? lane->order->start : (struct eng_name){.len = 1, .data = {FMT_SPACE_OBJECT + 1}};
        eng_walk_begin(lane->walk, &from, false, &tour->to);
        return true;
}

/* The names of a range are through. */
static void range_over(struct eng_lane *lane)
{
        struct eng_lane_tour *tour = lane->now;
        bool all = tour == &lane->all;

        if (all && lane->walk->failed != 0 && is_uncovered(lane)) {
                lane->counts.failed_objects++;
                lane->blind = true;
                eng_lane_earlier(&tour->lacking, &(struct eng_name){.len = 1, .data = {FMT_SPACE_OBJECT}});
        }
        switch (tour->space) {
        case FMT_SPACE_CONFIG:
                begin_space(lane, tour, FMT_SPACE_PART);
                break;
        case FMT_SPACE_PART:
                begin_space(lane, tour, FMT_SPACE_OBJECT);
                break;
        case FMT_SPACE_OBJECT:
                if (go_round(lane))
                        break;
                if (all && tour->first && !lane->blind)
                        tell_surveyed(lane);
                tour->first = false;
                if (!next_level(lane))
                        begin_space(lane, tour, FMT_SPACE_UPLOAD);
                break;
        default:
                tour_over(lane);
        }
        eng_lane_tell(lane);
}

/* However often groups are asked for: behind each walk of such groups all groups are walked for as long as that took. */
static bool is_turn_of_all(const struct eng_lane *lane)
{
        return lane->all.under_way && (lane->all_rows > 0 || lp_now(lane->el->loop) < lane->all_until);
}

/* The tour that goes first, if its walk has to be begun; what another had come to is kept. */
static void choose_tour(struct eng_lane *lane)
{
        struct eng_lane_tour *tour = NULL;
        int rv;

        if (lane->is_wanted && lane->now != &lane->some && !is_turn_of_all(lane)) {
                if (lane->now == &lane->all) {
                        lane->all.at = lane->walk->at;
                        lane->all.after = lane->walk->after;
                }
                memset(&lane->some, 0, sizeof(lane->some));
                tour = &lane->some;
        } else if (lane->now == NULL && lane->all.under_way) {
                tour = &lane->all;
        }
        if (tour == NULL)
                return;
        rv = lane_take_drives(lane, tour);
        lane->now = tour;
        if (tour == &lane->some) {
                memset(lane->wanted, 0, lane->store->pg_words * sizeof(uint64_t));
                lane->is_wanted = false;
                tour->under_way = true;
                lane->some_began = lp_now(lane->el->loop);
                begin_space(lane, tour, FMT_SPACE_PART);
        } else if (tour->at.len != 0) {
                eng_walk_begin(lane->walk, &tour->at, tour->after, &tour->to);
        } else {
                begin_space(lane, tour, tours_config(lane, tour) ? FMT_SPACE_CONFIG : FMT_SPACE_PART);
        }
        if (rv == 0)
                return;
        lane->counts.failed_objects += tour == &lane->all;
        lane->blind |= tour == &lane->all;
        tour_over(lane);
}

/* ---- steps ----------------------------------------------------------------------------------------------------------- */

static void lane_turn(struct lp_msg *msg)
{
        struct eng_lane *lane = container_of(msg, struct eng_lane, turn);

        lane->posted = false;
        eng_lane_step(lane);
}

static void lane_paced(struct lp_timer *timer)
{
        struct eng_lane *lane = container_of(timer, struct eng_lane, timer);

        lane->waiting = false;
        eng_lane_step(lane);
}

static void pay_for_rows(struct eng_lane *lane)
{
        struct eng_pacer *pacer = &lane->store->pacer;
        struct lp_loop *loop = lane->el->loop;
        uint64_t wait;

        eng_pacer_look(pacer, lane->el);
        lane->paid_rows = eng_pacer_batch(pacer, lp_now(loop), ENG_PACER_NAME, ROWS);
        wait = eng_pacer_take(pacer, &lane->paid, lp_now(loop), (uint64_t)lane->paid_rows * ENG_PACER_NAME);
        lane->waiting = wait > 0;
        if (lane->waiting)
                lp_timer_start(loop, &lane->timer, wait);
}

/* The repairs that it waits behind are cut off: the next walk takes a turn of its own. */
static void leave_pacer(struct eng_lane *lane)
{
        if (!lane->waiting)
                return;
        lp_timer_stop(lane->el->loop, &lane->timer);
        eng_pacer_give_back(&lane->store->pacer, &lane->paid);
        lane->paid_rows = 0;
        lane->waiting = false;
}

/* True: not now; eng_lane_step() comes again. */
static bool lane_must_wait(struct eng_lane *lane, unsigned *rows)
{
        struct lp_loop *loop = lane->el->loop;

        if (lane->paid_rows == 0)
                pay_for_rows(lane);
        if (lane->waiting || ++*rows < ROWS)
                return lane->waiting;
        lane->posted = true;
        lane->turn.run = lane_turn;
        lp_post(loop, &lane->turn);
        return true;
}

/* Nothing that the walk over all groups has begun is out. */
static bool is_quiet(const struct eng_lane *lane)
{
        return lane->out == 0 && !(lane->now == &lane->all && lane->walk->out > 0);
}

static void over_comes(struct lp_msg *msg)
{
        struct eng_lane *lane = container_of(msg, struct eng_lane, over);

        lane->ended(lane);
}

/* The walk over all groups has ended, and all that it began. */
static void tell_over(struct eng_lane *lane)
{
        if (lane->now == &lane->all) {
                lane->all.at = lane->walk->at; /* its last place */
                lane->now = NULL;
                lane->has_row = false;
        }
        if (!lane->stop && !lane->blind) /* some were met in vain, or changed by clients: what it has left is known */
                lane->counts.below += lane->stays - lane->below;
        if (!lane->stop)
                lane->took = lp_now(lane->el->loop) - lane->began;
        eng_lane_tell(lane);
        lane->begun = lane->all.under_way = lane->stop = false;
        lane->over.run = over_comes;
        lp_post(lane->store->loops[0].loop, &lane->over);
}

/* One name. False: nothing can be done now. */
static bool take_row(struct eng_lane *lane, unsigned *rows)
{
        if (!lane->has_row) {
                int rv;

                if (lane_must_wait(lane, rows))
                        return false;
                rv = eng_walk_next(lane->walk, &lane->row);
                if (rv == -EAGAIN)
                        return false;
                if (rv == 0) {
                        range_over(lane);
                        return true;
                }
                lane->paid_rows--;
                lane->all_rows -= lane->now == &lane->all && lane->all_rows > 0;
                lane->has_row = true;
                lane->compared = false;
        }
        if (!eng_lane_look_at_row(lane))
                return false;
        lane->has_row = false;
        return true;
}

static void lane_steps(struct eng_lane *lane)
{
        unsigned rows = 0;

        while (!lane->posted && !lane->waiting && !lane->stop && lane->walk->out == 0) {
                if (!lane->has_row)
                        choose_tour(lane);
                if (lane->now == NULL || !take_row(lane, &rows))
                        return;
        }
}

void eng_lane_step(struct eng_lane *lane)
{
        if (lane->store->stopping || lane->stepping || !lane->may) /* a group may be asked for before the first walk */
                return;
        lane->stepping = true;
        lane_steps(lane);
        if (lane->begun && is_quiet(lane) && (lane->stop || !lane->all.under_way)) {
                tell_over(lane);
                lane_steps(lane);
        }
        lane->stepping = false;
}

/* ---- life ------------------------------------------------------------------------------------------------------------ */

static void walk_ready(void *arg)
{
        eng_lane_step(arg);
}

int eng_lane_make(struct eng_lane *lane, struct eng_loop *el)
{
        lane->store = el->store;
        lane->el = el;
        lane->timer.expired = lane_paced;
        lane->walk = eng_walk_new(el, PAGE, walk_ready, lane);
        return lane->walk == NULL ? -ENOMEM : 0;
}

void eng_lane_begin(struct eng_lane *lane)
{
        memset(&lane->all, 0, sizeof(lane->all));
        lane->skips = lane->blind = false;
        lane->below = lane->stays = 0;
        lane->may = true;
        lane->began = lp_now(lane->el->loop);
        lane->all.under_way = lane->all.first = lane->begun = true;
        eng_lane_step(lane);
}

void eng_lane_stop(struct eng_lane *lane)
{
        unsigned i;

        if (!lane->begun)
                return;
        lane->stop = lane->stepping = true;
        for (i = 0; i < ENG_LANE_MENDS; i++)
                if (lane->mends[i].mend != NULL && lane->mends[i].all)
                        eng_mend_cancel(lane->mends[i].mend);
        leave_pacer(lane);
        lane->stepping = false;
        eng_lane_step(lane);
}

void eng_lane_look(struct eng_lane *lane, uint32_t group)
{
        if (lane->wanted == NULL)
                lane->wanted = calloc(lane->store->pg_words, sizeof(uint64_t));
        if (lane->wanted == NULL)
                return;
        lane->wanted[group / 64] |= 1ull << group % 64;
        lane->is_wanted = true;
        eng_lane_step(lane);
}

void eng_lane_drop(struct eng_lane *lane)
{
        unsigned i;

        if (lane->el == NULL)
                return;
        lp_timer_stop(lane->el->loop, &lane->timer);
        for (i = 0; i < ENG_LANE_MENDS; i++)
                if (lane->mends[i].mend != NULL)
                        eng_mend_drop(lane->mends[i].mend);
        for (i = 0; i < ENG_LANE_AGREES; i++)
                if (lane->agrees[i].out)
                        eng_agree_drop(&lane->agrees[i].agree);
}

void eng_lane_free(struct eng_lane *lane)
{
        eng_walk_free(lane->walk);
        free(lane->wanted);
}
