/*
 * join.c - brings a drive back that the store went on without (or a new one in): one at a time, while the store
 * serves. Coordinator.
 *
 *   VOID      what the drive holds and never counted is void from now on
 *   ENTER     an epoch makes it joining: from then on every change is written to it too, and waited for
 *   COMPARE   all names it should hold are walked beside those of all current members of their groups (walk.c), whatever it missed and for
 *             however long, under the store's one pacer; each that differs is made equal with its key locked (fix.c). A change
 *             that comes meanwhile reaches all, so one pass is enough. One member alone may have lost a name without knowing: two that lack it,
 *             that member and this drive, would outvote the one that has it
 *   LEAVE     an epoch makes it a member
 *
 * If the drive fails on the way it leaves by an epoch, like any other. A restart begins anew; what fails in one run is tried again where it failed.
 *
 * A member to which groups come because another leaves (reshape.c) is written to already: it gains them by the COMPARE step alone.
 */
#include "engine/resync/resync.h"
#include "engine/epoch/epoch.h"
#include "engine/base/pacer.h"
#include "engine/walk/walk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 512u                      /* names that a drive is asked for at a time */
#define ROWS 256u                      /* compared before others of the loop get their turn */
#define FIXES 16u                      /* names being copied at the same time */
#define ATTEMPTS 100u                  /* without any progress; then the drive is left as it is until the store opens again */
#define RETRY_NS (100ull * 1000 * 1000)

enum join_step { STEP_VOID, STEP_ENTER, STEP_COMPARE, STEP_LEAVE };
enum fix_state { FIX_FREE, FIX_OUT, FIX_AGAIN };

/* A name that differs. AGAIN: it could not be copied, and waits for the retry timer. */
struct join_fix {
        struct eng_fix fix;            /* first */
        struct eng_join *join;
        enum fix_state state;
};

/* owner: coordinator */
struct eng_join {
        struct eng_store *store;
        unsigned slot;
        bool gains;                    /* a member that gets groups of a drive that leaves */
        enum join_step step;
        unsigned attempts;
        unsigned out;                  /* VOID and fixes under way */
        bool cancelled;                /* it ends when nothing is under way any more */
        struct eng_op op;              /* VOID */
        /* COMPARE */
        struct eng_walk *walk;
        struct eng_walk_row row;
        bool walking;                  /* drives are asked; else the walk goes on from its place when the retry timer expires */
        bool has_row;                  /* row differs, and no fix was free for it yet */
        bool stepping, paced, retrying; /* in compare_step(); timers run */
        eng_mask avoid;                /* members whose names could not be read: others are asked where there are */
        struct join_fix *fixes;        /* FIXES */
        struct eng_pacer_share share;  /* however much there is to be repaired meanwhile */
        struct lp_timer pace, retry;
        uint64_t compared, copied;
};

static void begin_compare(struct eng_join *join);
static void compare_step(struct eng_join *join);
static void compare_paced(struct lp_timer *timer);
static void compare_again(struct lp_timer *timer);

/* ---- beginning and ending ------------------------------------------------------------------------------- */

static void tell(struct eng_join *join)
{
        char text[160];

        if (join->gains)
                return;
        snprintf(text, sizeof(text), "catching up: %llu names compared, %llu copied",
                 (unsigned long long)join->compared, (unsigned long long)join->copied);
        eng_member_state(join->store, join->slot, ENG_DRIVE_JOINING, text);
}

static void free_join(struct eng_join *join)
{
        lp_timer_stop(join->store->loops[0].loop, &join->pace);
        lp_timer_stop(join->store->loops[0].loop, &join->retry);
        eng_walk_free(join->walk);
        free(join->fixes);
        free(join);
}

void eng_join_free(struct eng_store *store)
{
        if (store->coord->join != NULL)
                free_join(store->coord->join);
        store->coord->join = NULL;
}

/* The drive is a member, or has failed, or is left alone: the next one may come. */
static void join_end(struct eng_join *join)
{
        struct eng_store *store = join->store;

        lp_trace(LP_TRACE_CATCH_UP, STEP_VOID, join->slot);
        if (store->members[join->slot].state == ENG_DRIVE_JOINING)
                eng_member_state(store, join->slot, ENG_DRIVE_STALE, "was out while the store went on without it");
        eng_join_free(store);
        eng_health_refresh(store);
        eng_join_consider(store);
        eng_reshape_consider(store);
        store->events->work_changed(store);
}

static void leave_alone(struct eng_join *join, const char *why)
{
        struct eng_coord *c = join->store->coord;
        unsigned slot = join->slot;

        eng_member_state(join->store, slot, ENG_DRIVE_FAILED, why);
        c->present &= ~eng_bit(slot);
        c->view.up &= ~eng_bit(slot);
        if (c->view.joining & eng_bit(slot))
                eng_epoch_change(join->store);
        join_end(join);
}

static int join_candidate(const struct eng_store *store)
{
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (store->members[i].state == ENG_DRIVE_STALE && store->members[i].drive != NULL &&
                    !atomic_load(&store->members[i].failed))
                        return (int)i;
        return -1;
}

static void void_again(struct lp_timer *timer);

/* The drive lacks something for the moment, which is no failure. False: for too long. */
static bool void_later(struct eng_join *join)
{
        struct eng_coord *c = join->store->coord;

        if (++join->attempts > ATTEMPTS)
                return false;
        c->join_timer.expired = void_again;
        lp_timer_start(join->store->loops[0].loop, &c->join_timer, RETRY_NS);
        return true;
}

static void voided(struct eng_op *op)
{
        struct eng_join *join = container_of(op, struct eng_join, op);

        join->out--;
        if (op->result == -EAGAIN && !join->cancelled && void_later(join))
                return;
        if (op->result != 0) {
                eng_drive_failed(join->store, join->slot, join->store->members[join->slot].drive, "it could not be told that it is stale");
                leave_alone(join, "it could not be told that it is stale");
                return;
        }
        if (join->cancelled) { /* the store can't be written to any more */
                join_end(join);
                return;
        }
        join->step = STEP_ENTER;
        lp_trace(LP_TRACE_CATCH_UP, join->step, join->slot);
        join->attempts = 0;
        eng_epoch_change(join->store);
}

static void send_void(struct eng_join *join)
{
        struct eng_store *store = join->store;

        join->op = (struct eng_op){.kind = ENG_OP_APPEND, .flags = ENG_OP_RESERVE, .epoch = store->coord->view.epoch, .done = voided};
        join->op.append.type = FMT_RECORD_VOID;
        join->op.append.time_ms = (uint64_t)lp_wall_ms();
        join->op.append.record_epoch = store->coord->view.epoch;
        join->out++;
        eng_drive_submit(store->members[join->slot].drive, &join->op);
}

static void void_again(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, join_timer);

        if (c->join == NULL || c->join->step != STEP_VOID)
                return;
        if (c->join->cancelled)
                join_end(c->join);
        else
                send_void(c->join);
}

static void compare_ready(void *arg)
{
        compare_step(arg);
}

static struct eng_join *new_join(struct eng_store *store, unsigned slot, bool gains)
{
        struct eng_join *join = calloc(1, sizeof(*join));

        if (join == NULL)
                return NULL;
        join->store = store;
        join->slot = slot;
        join->gains = gains;
        join->pace.expired = compare_paced;
        join->retry.expired = compare_again;
        join->walk = eng_walk_new(&store->loops[0], PAGE, compare_ready, join);
        join->fixes = calloc(FIXES, sizeof(*join->fixes));
        if (join->walk != NULL && join->fixes != NULL)
                return join;
        free_join(join);
        return NULL;
}

static void join_consider_again(struct lp_timer *timer)
{
        eng_join_consider(container_of(timer, struct eng_coord, join_timer)->store);
}

/* There was no memory to begin. */
static void consider_later(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        c->join_timer.expired = join_consider_again;
        lp_timer_start(store->loops[0].loop, &c->join_timer, RETRY_NS);
}

void eng_join_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_join *join;
        bool gains;
        int slot;

        if (c->store->stopping || c->phase != ENG_PHASE_OPEN || !c->view.writable || c->changing || c->join != NULL)
                return;
        slot = join_candidate(store);
        gains = slot < 0;
        if (gains)
                slot = eng_reshape_gainer(store);
        if (slot < 0)
                return;
        join = new_join(store, (unsigned)slot, gains);
        if (join == NULL) {
                consider_later(store);
                return;
        }
        c->join = join;
        if (gains) {
                join->step = STEP_COMPARE;
                begin_compare(join);
                return;
        }
        c->present |= eng_bit(join->slot);
        tell(join);
        send_void(join);
}

/* ---- epochs --------------------------------------------------------------------------------------------------- */

void eng_join_wants(const struct eng_store *store, eng_mask *joining, eng_mask *promoted)
{
        const struct eng_join *join = store->coord->join;

        *joining = join != NULL && !join->gains && join->step != STEP_VOID ? eng_bit(join->slot) : 0;
        *promoted = join != NULL && join->step == STEP_LEAVE ? eng_bit(join->slot) : 0;
}

/* Nothing of it is under way. */
static bool is_idle(const struct eng_join *join)
{
        return join->out == 0 && join->walk->out == 0;
}

void eng_join_epoch(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_join *join = c->join;

        if (join == NULL) {
                eng_join_consider(store);
                return;
        }
        if (join->step == STEP_LEAVE && (c->view.in & eng_bit(join->slot))) {
                eng_member_state(store, join->slot, ENG_DRIVE_IN, "");
                join_end(join);
        } else if (join->step == STEP_ENTER && (c->view.joining & eng_bit(join->slot))) {
                join->step = STEP_COMPARE;
                begin_compare(join);
        } else if (!(c->present & eng_bit(join->slot)) || !c->view.writable) {
                join->cancelled = true;
                if (is_idle(join))
                        join_end(join);
        } else if (join->step == STEP_ENTER || join->step == STEP_LEAVE) {
                eng_epoch_change(store); /* that one was about another drive */
        }
}

/* ---- what differs --------------------------------------------------------------------------------------------- */

static void retry_later(struct eng_join *join)
{
        if (!join->retrying)
                lp_timer_start(join->store->loops[0].loop, &join->retry, RETRY_NS);
        join->retrying = true;
}

static void join_fixed(struct eng_fix *fix)
{
        struct join_fix *f = (struct join_fix *)fix;
        struct eng_join *join = f->join;

        join->out--;
        if (fix->txn.result == 0) {
                f->state = FIX_FREE;
                join->attempts = 0;
                join->copied += fix->copied;
        } else {
                f->state = FIX_AGAIN;
                retry_later(join);
        }
        compare_step(join);
}

static void start_fix(struct eng_join *join, struct join_fix *f)
{
        f->join = join;
        f->fix.slot = join->slot;
        f->fix.done = join_fixed;
        f->state = FIX_OUT;
        join->out++;
        if (eng_fix_start(join->store, &f->fix) != 0) { /* a name nobody could have written: it stays where it is */
                f->state = FIX_FREE;
                join->out--;
        }
}

static struct join_fix *fix_in(const struct eng_join *join, enum fix_state state)
{
        unsigned i;

        for (i = 0; i < FIXES; i++)
                if (join->fixes[i].state == state)
                        return &join->fixes[i];
        return NULL;
}

/* Bytes that the walk's last name takes to copy. */
static uint64_t cost_of(const struct eng_walk_row *row)
{
        const struct eng_scan_entry *e = row->of[__builtin_ctzll(row->have)];
        struct fmt_value head;

        memcpy(&head, eng_walk_value(e), sizeof(head));
        return e->value_len + (head.parts == 0 ? head.size : 0);
}

/* False: as many are under way, or wait, as may be. */
static bool copy_row(struct eng_join *join)
{
        struct join_fix *f = fix_in(join, FIX_FREE);

        if (f == NULL)
                return false;
        eng_pacer_share_spend(&join->store->pacer, &join->share, lp_now(join->store->loops[0].loop), cost_of(&join->row));
        f->fix.name = join->walk->at;
        start_fix(join, f);
        return true;
}

/* ---- the comparison ------------------------------------------------------------------------------------------- */

/* That the drive is to have, and may not have yet. */
static bool join_is_wanted(const struct eng_join *join, unsigned pg)
{
        const struct eng_view *view = &join->store->coord->view;

        return (eng_writers(view, pg) & eng_bit(join->slot)) && !(join->gains && (eng_speakers(view, pg) & eng_bit(join->slot)));
}

/* The members that are asked for a group: all whose names could be read, else all but those that failed last, else all that answer. */
static eng_mask sources_of(const struct eng_join *join, unsigned pg)
{
        const struct eng_view *view = &join->store->coord->view;
        eng_mask fit = eng_speakers(view, pg) & view->up & ~eng_bit(join->slot);
        eng_mask good = fit & ~join->avoid, read = fit & ~join->walk->failed;

        if (good != 0)
                return good;
        return read != 0 ? read : fit;
}

/* It was lost with drives that were given up, and begins again, empty, on a drive that was put in their place. */
static bool begins_empty(const struct eng_join *join, unsigned pg)
{
        const struct eng_coord *c = join->store->coord;

        return eng_speakers(&c->view, pg) == 0 && (c->filling & ~c->lost_writes & eng_bit(join->slot)) != 0;
}

static bool ask_for(struct eng_join *join, eng_mask drives, unsigned pg)
{
        struct eng_walk *walk = join->walk;
        unsigned slot;

        for (slot = 0; slot < join->store->drive_count; slot++) {
                uint64_t *pgs;

                if (!(drives & eng_bit(slot)))
                        continue;
                pgs = walk->drives & eng_bit(slot) ? walk->source[slot]->pgs : eng_walk_groups(walk, slot);
                if (pgs == NULL)
                        return false;
                pgs[pg / 64] |= 1ull << pg % 64;
        }
        return true;
}

/* Each group, CONFIG included, is read from the drive and from current members. False: of some none answers, or there is no memory. */
static bool join_take_drives(struct eng_join *join)
{
        unsigned pg;

        eng_walk_forget(join->walk);
        for (pg = 0; pg <= join->store->pg_count; pg++) {
                eng_mask sources;

                if (!join_is_wanted(join, pg) || begins_empty(join, pg))
                        continue;
                sources = sources_of(join, pg);
                if (sources == 0 || !ask_for(join, sources | eng_bit(join->slot), pg))
                        return false;
        }
        return true;
}

/*
 * From the first name on, or behind the last that was compared: a change of any before that has reached the drive by itself since, whichever member is asked for
 * the rest.
 */
static void begin_compare(struct eng_join *join)
{
        static const struct eng_name behind_all = {.len = 1, .data = {FMT_SPACE_PART + 1}};
        struct eng_walk *walk = join->walk;
        const struct eng_name from = walk->at;

        lp_trace(LP_TRACE_CATCH_UP, STEP_COMPARE, join->slot);
        tell(join);
        join->walking = join_take_drives(join);
        if (!join->walking) {
                retry_later(join);
                return;
        }
        eng_heal_choose_rate(join->store);
        eng_walk_begin(walk, &from, walk->after, &behind_all);
        compare_step(join);
}

/* Everything is on the drive. */
static void compared_all(struct eng_join *join)
{
        if (join->gains) {
                eng_reshape_gained(join->store, join->slot);
                join_end(join);
                return;
        }
        join->step = STEP_LEAVE;
        lp_trace(LP_TRACE_CATCH_UP, join->step, join->slot);
        eng_epoch_change(join->store);
}

/* True: not now; compare_paced() comes. */
static bool join_must_wait(struct eng_join *join, unsigned *rows)
{
        struct eng_loop *el = &join->store->loops[0];
        uint64_t wait;

        eng_pacer_look(&join->store->pacer, el);
        wait = eng_pacer_share_wait(&join->share, lp_now(el->loop));
        if (wait == 0 && ++*rows < ROWS)
                return false;
        tell(join);
        eng_pacer_look_everywhere(join->store);
        lp_timer_start(el->loop, &join->pace, wait);
        join->paced = true;
        return true;
}

/* Names of some drive could not be read: what was begun goes on, and the walk a little later. */
static void join_names_unread(struct eng_join *join)
{
        join->avoid |= join->walk->failed & ~eng_bit(join->slot);
        join->walking = false;
        retry_later(join);
}

/* All that were asked for the names of its group have it, and the same. */
static bool is_equal(const struct eng_walk *walk, const struct eng_walk_row *row)
{
        struct fmt_value head;
        eng_mask asked = 0;
        unsigned slot;

        memcpy(&head, eng_walk_value(row->of[__builtin_ctzll(row->have)]), sizeof(head));
        if (head.pg > walk->store->pg_count)
                return false;
        for (slot = 0; slot < ENG_DRIVES_MAX; slot++)
                if ((walk->drives & eng_bit(slot)) && walk->source[slot]->pgs[head.pg / 64] >> head.pg % 64 & 1)
                        asked |= eng_bit(slot);
        return !eng_walk_differs(row, asked);
}

/* 1: the next name that differs; 0: there is none left; -EAGAIN: it comes again. */
static int next_row(struct eng_join *join, unsigned *rows)
{
        struct eng_walk_row *row = &join->row;
        int rv;

        while (!join_must_wait(join, rows)) {
                rv = eng_walk_next(join->walk, row);
                if (rv != 1)
                        return rv;
                eng_pacer_share_spend(&join->store->pacer, &join->share, lp_now(join->store->loops[0].loop), ENG_PACER_NAME);
                join->compared++;
                join->attempts = 0;
                if (!is_equal(join->walk, row))
                        return 1;
        }
        return -EAGAIN;
}

/* True: all names have been compared, and what differed was copied. */
static bool compare_rows(struct eng_join *join)
{
        unsigned rows = 0;

        while (!join->cancelled && join->walking && !join->paced && join->walk->out == 0) {
                int rv;

                if (join->walk->failed != 0) {
                        join_names_unread(join);
                        return false;
                }
                rv = join->has_row ? 1 : next_row(join, &rows);
                if (rv == 0)
                        return join->out == 0 && fix_in(join, FIX_AGAIN) == NULL;
                join->has_row = rv == 1;
                if (rv != 1 || !copy_row(join))
                        return false;
                join->has_row = false;
        }
        return false;
}

/* Goes on, if something can be done. Harmless at any time; join may be gone afterwards. */
static void compare_step(struct eng_join *join)
{
        bool over;

        if (join->store->stopping || join->stepping || join->step != STEP_COMPARE)
                return;
        join->stepping = true;
        over = compare_rows(join);
        join->stepping = false;
        if (over)
                compared_all(join);
        else if (join->cancelled && is_idle(join))
                join_end(join);
}

static void compare_paced(struct lp_timer *timer)
{
        struct eng_join *join = container_of(timer, struct eng_join, pace);

        join->paced = false;
        compare_step(join);
}

/* What could not be read or copied is tried again. A member that gains groups is never left alone for want of progress: it serves what it has. */
static void compare_again(struct lp_timer *timer)
{
        struct eng_join *join = container_of(timer, struct eng_join, retry);
        const struct eng_coord *c = join->store->coord;
        unsigned i;

        join->retrying = false;
        if (!(c->present & eng_bit(join->slot)) || !c->view.writable)
                join->cancelled = true;
        if (!join->cancelled && is_idle(join) && !join->paced && ++join->attempts > ATTEMPTS && !join->gains) {
                leave_alone(join, "it could not be brought up to date: what others hold could not be read or copied");
                return;
        }
        join->stepping = true;
        for (i = 0; i < FIXES && !join->cancelled; i++)
                if (join->fixes[i].state == FIX_AGAIN)
                        start_fix(join, &join->fixes[i]);
        join->stepping = false;
        if (!join->cancelled && !join->walking)
                begin_compare(join);
        else
                compare_step(join);
}
