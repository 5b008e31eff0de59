/*
 * walk_worker.c - one loop's share of the upkeep: walks the names of the groups whose primary it
 * is, on all their members side by side, and repairs what it meets at once (walk_worker_look.c):
 * names that members have differently (agree.c), shards that are missing (rebuild.c). Runs on that
 * loop, under the store's one pacer.
 *
 * Names of parts come before those of objects: a part can become an object's meanwhile, never the
 * other way round. Parts are not rebuilt; what an upload lacks is given to the object it becomes.
 */
#include "engine/resync/resync.h"
#include "engine/upkeep/upkeep.h"
#include "engine/upkeep/walk_worker.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 256u                      /* names that a drive is asked for at a time */
#define ROWS 256u                      /* looked at before others of the loop get their turn */
#define MISSED_NS (30ull * 1000 * 1000 * 1000)
#define MISSED_MOST_NS (20 * MISSED_NS)

/* ---- tours ----------------------------------------------------------------------------------- */

/* The configuration's group is this loop's; its names are compared by tours of all groups. */
static bool tours_config(const struct eng_walk_worker *worker, const struct eng_walk_worker_tour *tour)
{
        return tour == &worker->all && worker->store->pg_loop[worker->store->pg_count] == worker->el->index;
}

/* Groups of this loop's that a tour is about: bits. */
static void groups_of(const struct eng_walk_worker *worker, const struct eng_walk_worker_tour *tour, uint64_t *bits)
{
        const struct eng_store *store = worker->store;
        unsigned pg;

        for (pg = 0; pg <= store->pg_count; pg++)
                if (store->pg_loop[pg] != worker->el->index || (pg == store->pg_count && !tours_config(worker, tour)) ||
                    (tour == &worker->some && !(worker->wanted[pg / 64] >> pg % 64 & 1)))
                        bits[pg / 64] &= ~(1ull << pg % 64);
}

/* Each drive that is in is asked for the groups that it speaks for. */
static int walk_worker_take_drives(struct eng_walk_worker *worker, const struct eng_walk_worker_tour *tour)
{
        const struct eng_view *view = &worker->el->view;
        unsigned slot;

        eng_walk_forget(worker->walk);
        for (slot = 0; slot < worker->store->drive_count; slot++) {
                uint64_t *bits;

                if (!(view->in & view->up & eng_bit(slot)))
                        continue;
                bits = eng_walk_groups(worker->walk, slot);
                if (bits == NULL)
                        return -ENOMEM;
                eng_groups_spoken_for(view, worker->store->pg_count, slot, bits);
                groups_of(worker, tour, bits);
        }
        return 0;
}

static void begin_versions(struct eng_walk_worker *worker, struct eng_walk_worker_tour *tour, const struct eng_name *from)
{
        static const struct eng_name first = {.len = 1, .data = {FMT_SPACE_VERSION}};

        assert(tour->space == FMT_SPACE_OBJECT);
        tour->versions = true;
        tour->round = false;
        tour->to = (struct eng_name){.len = 1, .data = {FMT_SPACE_VERSION + 1}};
        eng_walk_begin(worker->walk, from != NULL ? from : &first, false, &tour->to);
}

static void begin_space(struct eng_walk_worker *worker, struct eng_walk_worker_tour *tour, enum fmt_space space)
{
        struct eng_name from = {.len = 1, .data = {(uint8_t)space}};

        tour->space = space;
        tour->round = tour->versions = false;
        tour->to.len = 1;
        tour->to.data[0] = (uint8_t)space + 1;
        if (space == FMT_SPACE_OBJECT && tour == &worker->all && worker->order->from.len != 0 && worker->order->from.data[0] == FMT_SPACE_VERSION) {
                begin_versions(worker, tour, &worker->order->from);
                return;
        }
        if (space == FMT_SPACE_OBJECT && tour == &worker->all) {
                if (worker->order->from.len != 0)
                        from = worker->order->from;
                else if (worker->order->start.len != 0)
                        from = worker->order->start;
        }
        eng_walk_begin(worker->walk, &from, false, &tour->to);
}

/* Some group's names could not be read on any member. */
static bool is_uncovered(const struct eng_walk_worker *worker)
{
        const struct eng_store *store = worker->store;
        eng_mask read = worker->walk->drives & ~worker->walk->failed;
        unsigned pg;

        for (pg = 0; pg < store->pg_count; pg++)
                if (store->pg_loop[pg] == worker->el->index && (eng_speakers(&worker->el->view, pg) & read) == 0)
                        return true;
        return false;
}

static void tour_over(struct eng_walk_worker *worker)
{
        uint64_t now = lp_now(worker->el->loop);

        assert(worker->now != NULL && worker->now->under_way);
        if (worker->now == &worker->some) {
                worker->all_until = now + (now - worker->some_began);
                worker->all_rows = ROWS;
        }
        worker->now->under_way = false;
        worker->now = NULL;
}

static void tell_surveyed(struct eng_walk_worker *worker)
{
        eng_walk_worker_tell(worker);
        pthread_mutex_lock(&worker->store->health_lock);
        worker->surveyed = true;
        eng_heal_publish(worker->store);
        pthread_mutex_unlock(&worker->store->health_lock);
}

/*
 * Behind the last object come those before the one that the walk began at. False: there are none,
 * or they were those.
 */
static bool go_round(struct eng_walk_worker *worker)
{
        static const struct eng_name first = {.len = 1, .data = {FMT_SPACE_OBJECT}};
        struct eng_walk_worker_tour *tour = worker->now;

        if (tour != &worker->all || tour->round || worker->order->start.len == 0)
                return false;
        tour->round = true;
        tour->to = worker->order->start;
        eng_walk_begin(worker->walk, &first, false, &tour->to);
        return true;
}

/* Objects that were left for later, those that lack the most first. False: there are none. */
static bool next_level(struct eng_walk_worker *worker)
{
        struct eng_walk_worker_tour *tour = worker->now;
        struct eng_name from;
        unsigned level = ERA_MAX_M;

        while (level > 0 && tour->left[level].len == 0)
                level--;
        if (tour->left[level].len == 0 || (level == 0 && (tour->failed || worker->blind))) /* what failed is tried again before moves */
                return false;
        tour->level = level;
        from = tour->left[level];
        tour->left[level].len = 0;
        if (from.data[0] == FMT_SPACE_VERSION) {
                begin_versions(worker, tour, &from);
                return true;
        }
        tour->versions = false;
        tour->round = tour == &worker->all && worker->order->start.len != 0 && eng_walk_worker_compare(&from, &worker->order->start) < 0;
        tour->to = tour->round ? worker->order->start : (struct eng_name){.len = 1, .data = {FMT_SPACE_OBJECT + 1}};
        eng_walk_begin(worker->walk, &from, false, &tour->to);
        return true;
}

/* The names of a range are through. */
static void range_over(struct eng_walk_worker *worker)
{
        struct eng_walk_worker_tour *tour = worker->now;
        bool all = tour == &worker->all;

        assert(worker->walk->out == 0);
        if (all && (worker->walk->failed != 0 || worker->el->view.lost != 0) && is_uncovered(worker)) {
                worker->counts.failed_objects++;
                worker->blind = true;
                eng_walk_worker_earlier(&tour->lacking, &(struct eng_name){.len = 1, .data = {FMT_SPACE_OBJECT}});
        }
        switch (tour->space) {
        case FMT_SPACE_CONFIG:
                begin_space(worker, tour, FMT_SPACE_PART);
                break;
        case FMT_SPACE_PART:
                begin_space(worker, tour, FMT_SPACE_OBJECT);
                break;
        case FMT_SPACE_OBJECT:
                if (!tour->versions) {
                        if (!go_round(worker))
                                begin_versions(worker, tour, NULL);
                        break;
                }
                if (all && tour->first && !worker->blind)
                        tell_surveyed(worker);
                tour->first = false;
                if (!next_level(worker))
                        begin_space(worker, tour, FMT_SPACE_UPLOAD);
                break;
        default:
                tour_over(worker);
        }
        eng_walk_worker_tell(worker);
}

/*
 * However often groups are asked for: behind each walk of such groups all groups are walked for as
 * long as that took.
 */
static bool is_turn_of_all(const struct eng_walk_worker *worker)
{
        return worker->all.under_way && (worker->all_rows > 0 || lp_now(worker->el->loop) < worker->all_until);
}

/* The tour that goes first, if its walk has to be begun; what another had come to is kept. */
static void choose_tour(struct eng_walk_worker *worker)
{
        struct eng_walk_worker_tour *tour = NULL;
        int rv;

        if (worker->is_wanted && worker->now != &worker->some && !is_turn_of_all(worker)) {
                if (worker->now == &worker->all) {
                        worker->all.at = worker->walk->at;
                        worker->all.after = worker->walk->after;
                }
                memset(&worker->some, 0, sizeof(worker->some));
                tour = &worker->some;
        } else if (worker->now == NULL && worker->all.under_way) {
                tour = &worker->all;
        }
        if (tour == NULL)
                return;
        rv = walk_worker_take_drives(worker, tour);
        worker->now = tour;
        if (tour == &worker->some) {
                memset(worker->wanted, 0, worker->store->pg_words * sizeof(uint64_t));
                worker->is_wanted = false;
                tour->under_way = true;
                worker->some_began = lp_now(worker->el->loop);
                begin_space(worker, tour, FMT_SPACE_PART);
        } else if (tour->at.len != 0) {
                eng_walk_begin(worker->walk, &tour->at, tour->after, &tour->to);
        } else {
                begin_space(worker, tour, tours_config(worker, tour) ? FMT_SPACE_CONFIG : FMT_SPACE_PART);
        }
        if (rv == 0)
                return;
        worker->counts.failed_objects += tour == &worker->all;
        worker->blind |= tour == &worker->all;
        tour_over(worker);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void walk_worker_turn(struct lp_msg *msg)
{
        struct eng_walk_worker *worker = container_of(msg, struct eng_walk_worker, turn);

        assert(worker->posted);
        worker->posted = false;
        eng_walk_worker_step(worker);
}

static void walk_worker_paced(struct lp_timer *timer)
{
        struct eng_walk_worker *worker = container_of(timer, struct eng_walk_worker, timer);

        assert(worker->waiting);
        worker->waiting = false;
        eng_walk_worker_step(worker);
}

static void pay_for_rows(struct eng_walk_worker *worker)
{
        struct eng_pacer *pacer = &worker->store->pacer;
        struct lp_loop *loop = worker->el->loop;
        uint64_t wait;

        eng_pacer_look(pacer, worker->el);
        worker->paid_rows = eng_pacer_batch(pacer, lp_now(loop), ENG_PACER_NAME, ROWS);
        wait = eng_pacer_take(pacer, &worker->paid, lp_now(loop), (uint64_t)worker->paid_rows * ENG_PACER_NAME);
        worker->waiting = wait > 0;
        if (worker->waiting)
                lp_timer_start(loop, &worker->timer, wait);
}

/* The repairs that it waits behind are cut off: the next walk takes a turn of its own. */
static void leave_pacer(struct eng_walk_worker *worker)
{
        if (!worker->waiting)
                return;
        lp_timer_stop(worker->el->loop, &worker->timer);
        eng_pacer_give_back(&worker->store->pacer, &worker->paid);
        worker->paid_rows = 0;
        worker->waiting = false;
}

/* True: not now; eng_walk_worker_step() comes again. */
static bool walk_worker_must_wait(struct eng_walk_worker *worker, unsigned *rows)
{
        struct lp_loop *loop = worker->el->loop;

        if (worker->paid_rows == 0)
                pay_for_rows(worker);
        if (worker->waiting || ++*rows < ROWS)
                return worker->waiting;
        worker->posted = true;
        worker->turn.run = walk_worker_turn;
        lp_post(loop, &worker->turn);
        return true;
}

/* Nothing that the walk over all groups has begun is out. */
static bool is_quiet(const struct eng_walk_worker *worker)
{
        return worker->out == 0 && !(worker->now == &worker->all && worker->walk->out > 0);
}

static void over_comes(struct lp_msg *msg)
{
        struct eng_walk_worker *worker = container_of(msg, struct eng_walk_worker, over);

        assert(eng_on_coordinator(worker->store));
        worker->ended(worker);
}

/* The walk over all groups has ended, and all that it began. */
static void tell_over(struct eng_walk_worker *worker)
{
        unsigned n;

        assert(worker->begun && worker->out == 0);
        if (worker->now == &worker->all) {
                worker->all.at = worker->walk->at; /* its last place */
                worker->now = NULL;
                worker->has_row = false;
        }
        for (n = 0; n < ENG_LACKS && !worker->stop && !worker->blind; n++) /* some were met in vain, or changed by clients: what it has left is known */
                worker->counts.lacking[n] += worker->stays[n] - worker->lacking[n];
        if (!worker->stop)
                worker->took = lp_now(worker->el->loop) - worker->began;
        eng_walk_worker_tell(worker);
        worker->begun = worker->all.under_way = worker->stop = false;
        worker->over.run = over_comes;
        lp_post(worker->store->coord_loop->loop, &worker->over);
}

/* Each name once: later rounds of a walk come to objects again. */
static void count_walked_name(struct eng_walk_worker *worker)
{
        const struct eng_walk_row *row = &worker->row;
        struct fmt_value head;

        if (worker->now != &worker->all || (worker->now->space == FMT_SPACE_OBJECT && !worker->now->first))
                return;
        memcpy(&head, eng_entry_value(row->of[__builtin_ctzll(row->have)]), sizeof(head));
        if (head.pg <= worker->store->pg_count && worker->store->pg_loop[head.pg] == worker->el->index)
                worker->names[head.pg]++;
}

/* One name. False: nothing can be done now. */
static bool take_row(struct eng_walk_worker *worker, unsigned *rows)
{
        if (!worker->has_row) {
                int rv;

                if (walk_worker_must_wait(worker, rows))
                        return false;
                rv = eng_walk_next(worker->walk, &worker->row);
                if (rv == -EAGAIN)
                        return false;
                if (rv == 0) {
                        range_over(worker);
                        return true;
                }
                assert(worker->paid_rows > 0);
                worker->paid_rows--;
                worker->all_rows -= worker->now == &worker->all && worker->all_rows > 0;
                worker->has_row = true;
                worker->compared = false;
                count_walked_name(worker);
        }
        if (!eng_walk_worker_look_at_row(worker))
                return false;
        worker->has_row = false;
        return true;
}

static void walk_worker_steps(struct eng_walk_worker *worker)
{
        unsigned rows = 0;

        while (!worker->posted && !worker->waiting && !worker->stop && worker->walk->out == 0) {
                if (!worker->has_row)
                        choose_tour(worker);
                if (worker->now == NULL || !take_row(worker, &rows))
                        return;
        }
}

void eng_walk_worker_step(struct eng_walk_worker *worker)
{
        if (worker->store->stopping || worker->stepping || !worker->may) /* a group may be asked for before the first walk */
                return;
        worker->stepping = true;
        walk_worker_steps(worker);
        if (worker->begun && is_quiet(worker) && (worker->stop || !worker->all.under_way)) {
                tell_over(worker);
                walk_worker_steps(worker);
        }
        worker->stepping = false;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void walk_ready(void *arg)
{
        eng_walk_worker_step(arg);
}

int eng_walk_worker_make(struct eng_walk_worker *worker, struct eng_loop *el)
{
        worker->store = el->store;
        worker->el = el;
        worker->timer.expired = walk_worker_paced;
        worker->walk = eng_walk_new(el, PAGE, walk_ready, worker);
        return worker->walk == NULL ? -ENOMEM : 0;
}

void eng_walk_worker_begin(struct eng_walk_worker *worker)
{
        assert(eng_on_loop(worker->el) && !worker->begun);
        memset(&worker->all, 0, sizeof(worker->all));
        worker->skips = worker->blind = false;
        memset(worker->lacking, 0, sizeof(worker->lacking));
        memset(worker->stays, 0, sizeof(worker->stays));
        worker->may = true;
        worker->began = lp_now(worker->el->loop);
        worker->all.under_way = worker->all.first = worker->begun = true;
        eng_walk_worker_step(worker);
}

void eng_walk_worker_stop(struct eng_walk_worker *worker)
{
        unsigned i;

        assert(eng_on_loop(worker->el));
        if (!worker->begun)
                return;
        worker->stop = worker->stepping = true;
        for (i = 0; i < ENG_WALK_WORKER_REBUILDS; i++)
                if (worker->rebuilds[i].rebuild != NULL && worker->rebuilds[i].all)
                        eng_rebuild_cancel(worker->rebuilds[i].rebuild);
        leave_pacer(worker);
        worker->stepping = false;
        eng_walk_worker_step(worker);
}

static uint64_t missed_least(const struct eng_walk_worker *worker)
{
        uint64_t ms = worker->store->options.heal_again_ms;

        return ms == 0 ? MISSED_NS : ms * 1000 * 1000;
}

void eng_walk_worker_look(struct eng_walk_worker *worker, uint32_t group)
{
        assert(eng_on_loop(worker->el) && group < worker->store->pg_count);
        if (worker->wanted == NULL)
                worker->wanted = calloc(2ull * worker->store->pg_words, sizeof(uint64_t));
        if (worker->wanted == NULL)
                return;
        worker->missed = worker->wanted + worker->store->pg_words;
        worker->missed_pause = missed_least(worker);
        worker->wanted[group / 64] |= 1ull << group % 64;
        worker->is_wanted = true;
        eng_walk_worker_step(worker);
}

static void look_at_missed(struct lp_timer *timer)
{
        struct eng_walk_worker *worker = container_of(timer, struct eng_walk_worker, missed_timer);
        unsigned i;

        for (i = 0; i < worker->store->pg_words; i++) {
                worker->wanted[i] |= worker->missed[i];
                worker->missed[i] = 0;
        }
        worker->missed_waits = false;
        worker->is_wanted = true;
        worker->missed_pause = worker->missed_pause < MISSED_MOST_NS / 2 ? 2 * worker->missed_pause : MISSED_MOST_NS;
        eng_walk_worker_step(worker);
}

void eng_walk_worker_missed(struct eng_walk_worker *worker, uint32_t group)
{
        assert(eng_on_loop(worker->el) && worker->missed != NULL && group < worker->store->pg_count);
        worker->missed[group / 64] |= 1ull << group % 64;
        if (worker->missed_waits || worker->store->stopping)
                return;
        worker->missed_waits = worker->owes = true;
        worker->missed_timer.expired = look_at_missed;
        lp_timer_start(worker->el->loop, &worker->missed_timer, worker->missed_pause);
}

void eng_walk_worker_drop(struct eng_walk_worker *worker)
{
        unsigned i;

        if (worker->el == NULL)
                return;
        lp_timer_stop(worker->el->loop, &worker->timer);
        lp_timer_stop(worker->el->loop, &worker->missed_timer);
        for (i = 0; i < ENG_WALK_WORKER_REBUILDS; i++)
                if (worker->rebuilds[i].rebuild != NULL)
                        eng_rebuild_drop(worker->rebuilds[i].rebuild);
        for (i = 0; i < ENG_WALK_WORKER_AGREES; i++)
                if (worker->agrees[i].out)
                        eng_agree_drop(&worker->agrees[i].agree);
}

void eng_walk_worker_free(struct eng_walk_worker *worker)
{
        eng_walk_free(worker->walk);
        free(worker->wanted);
}
