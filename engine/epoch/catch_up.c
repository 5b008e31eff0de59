/*
 * catch_up.c - brings a drive back that the store went on without (or a new one in): one at a time,
 * while the store serves. Coordinator.
 *
 *   SETTLE    what is pending in lost groups whose truth the drive is counts (lost_groups.c)
 *   VOID      what the drive holds and never counted is void from now on
 *   ENTER     an epoch makes it joining: from then on every change is written to it too, and waited for
 *   COMPARE   all names it should hold are walked beside those of all current members of their groups (walk.c), whatever it missed and for
 *             however long, under the store's one pacer; each that differs is made equal with its key locked (resync.c). A change
 *             that comes meanwhile reaches all, so one pass is enough. One member alone may have lost a name without knowing: two that lack it,
 *             that member and this drive, would outvote the one that has it
 *   LEAVE     an epoch makes it a member
 *
 * If the drive fails on the way it leaves by an epoch, like any other. A restart begins anew; what
 * fails in one run is tried again where it failed. A drive with which nothing goes on is left alone: on
 * one machine until the store opens again, in a cluster for a while (down.c).
 *
 * A member to which groups come because another leaves (rebalance.c) is written to already: it
 * gains them by the COMPARE step alone. So does a drive that comes back, once it is a member: it catches up with
 * the groups that it speaks for, and waits for no lost one that it is yet to have.
 */
#include "engine/resync/resync.h"
#include "engine/epoch/epoch.h"
#include "engine/base/pacer.h"
#include "engine/walk/walk.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 512u                      /* names that a drive is asked for at a time */
#define ROWS 256u                      /* compared before others of the loop get their turn */
#define RESYNCS 16u                      /* names being copied at the same time */
#define ATTEMPTS 100u                  /* without any progress; then the drive is left alone */
#define RETRY_NS (100ull * 1000 * 1000)

enum catch_up_step { STEP_SETTLE, STEP_VOID, STEP_ENTER, STEP_COMPARE, STEP_LEAVE };
enum resync_state { RESYNC_FREE, RESYNC_OUT, RESYNC_AGAIN };

/* A name that differs. AGAIN: it could not be copied, and waits for the retry timer. */
struct catch_up_resync {
        struct eng_resync resync;            /* first */
        struct eng_catch_up *catch_up;
        enum resync_state state;
};

/* owner: coordinator */
struct eng_catch_up {
        struct eng_store *store;
        unsigned slot;
        bool gains;                    /* a member that gets groups of a drive that leaves */
        enum catch_up_step step;
        unsigned attempts;
        unsigned out;                  /* SETTLE, VOID and fixes under way */
        bool cancelled;                /* it ends when nothing is under way any more */
        struct eng_op op;              /* SETTLE, VOID */
        struct eng_buf *tail;          /* SETTLE: of the drive; and which of its entries is next */
        uint32_t tail_count, tail_at;
        /* COMPARE */
        struct eng_walk *walk;
        struct eng_walk_row row;
        bool walking;                  /* drives are asked; else the walk goes on from its place when the retry timer expires */
        bool has_row;                  /* row differs, and no fix was free for it yet */
        bool stepping, paced, retrying; /* in compare_step(); timers run */
        eng_mask avoid;                /* members whose names could not be read: others are asked where there are */
        struct catch_up_resync *resyncs;        /* FIXES */
        struct eng_pacer_share share;  /* however much there is to be repaired meanwhile */
        struct lp_timer pace, retry;
        uint64_t compared, copied;
        uint64_t began;                /* lp_now() when the comparison did; 0: not yet */
        uint64_t total;                /* names that are to be compared; 0: not known */
};

static void begin_compare(struct eng_catch_up *catch_up);
static void compare_step(struct eng_catch_up *catch_up);
static void compare_paced(struct lp_timer *timer);
static void compare_again(struct lp_timer *timer);

/* ---- beginning and ending -------------------------------------------------------------------- */

/* Nothing of it is under way. */
static bool is_idle(const struct eng_catch_up *catch_up)
{
        return catch_up->out == 0 && catch_up->walk->out == 0;
}

static void tell(struct eng_catch_up *catch_up)
{
        char text[160];

        if (catch_up->gains)
                return;
        snprintf(text, sizeof(text), "catching up: %llu names compared, %llu copied",
                 (unsigned long long)catch_up->compared, (unsigned long long)catch_up->copied);
        eng_member_state(catch_up->store, catch_up->slot, ENG_DRIVE_JOINING, text);
}

static void free_catch_up(struct eng_catch_up *catch_up)
{
        lp_timer_stop(catch_up->store->coord_loop->loop, &catch_up->pace);
        lp_timer_stop(catch_up->store->coord_loop->loop, &catch_up->retry);
        eng_walk_free(catch_up->walk);
        eng_buf_unref(catch_up->tail);
        free(catch_up->resyncs);
        free(catch_up);
}

void eng_catch_up_free(struct eng_store *store)
{
        if (store->coord->catch_up != NULL) {
                lp_timer_stop(store->coord_loop->loop, &store->coord->catch_up_timer); /* it may be this one's */
                free_catch_up(store->coord->catch_up);
        }
        store->coord->catch_up = NULL;
}

/* The drive is a member, or has failed, or is left alone: the next one may come. */
static void catch_up_end(struct eng_catch_up *catch_up)
{
        struct eng_store *store = catch_up->store;

        assert(store->coord->catch_up == catch_up);
        assert(catch_up->out == 0 && catch_up->walk->out == 0);
        lp_trace(LP_TRACE_CATCH_UP, STEP_VOID, catch_up->slot);
        if (store->coord->caught_up & eng_bit(catch_up->slot))
                eng_member_state(store, catch_up->slot, ENG_DRIVE_JOINING, "has caught up, and waits for the others that are being added");
        else if (store->members[catch_up->slot].state == ENG_DRIVE_JOINING)
                eng_member_state(store, catch_up->slot, ENG_DRIVE_STALE, "was out while the store went on without it");
        eng_catch_up_free(store);
        eng_health_refresh(store);
        eng_catch_up_consider(store);
        eng_rebalance_consider(store);
        eng_migrated_drop_consider(store); /* it waits while a slot catches up, which may have come to nothing: no epoch follows */
        store->events->work_changed(store);
}

static void leave_alone(struct eng_catch_up *catch_up, const char *why)
{
        struct eng_coord *c = catch_up->store->coord;
        unsigned slot = catch_up->slot;

        eng_member_state(catch_up->store, slot, ENG_DRIVE_FAILED, why);
        eng_down_fell_out(catch_up->store, slot);
        c->present &= ~eng_bit(slot);
        c->view.up &= ~eng_bit(slot);
        if (c->view.joining & eng_bit(slot))
                eng_epoch_change(catch_up->store);
        catch_up_end(catch_up);
}

static int catch_up_candidate(struct eng_store *store)
{
        const eng_mask gone = store->coord->shape.gone; /* by the epoch that has just come, too: rebalance.c parts with them behind this */
        int first = -1;
        unsigned i;

        for (i = 0; i < store->drive_count; i++) {
                if ((gone & eng_bit(i)) || store->members[i].state != ENG_DRIVE_STALE || store->members[i].drive == NULL || eng_member_failed(&store->members[i]) ||
                    !eng_lost_may_join(store, i))
                        continue;
                if (eng_lost_is_truth(store, i))
                        return (int)i; /* it goes before those that only catch up */
                first = first < 0 ? (int)i : first;
        }
        return first;
}

static void void_again(struct lp_timer *timer);
static void settle_next(struct eng_catch_up *catch_up);

/* The drive lacks something for the moment, which is no failure. False: for too long. */
static bool void_later(struct eng_catch_up *catch_up)
{
        struct eng_coord *c = catch_up->store->coord;

        if (++catch_up->attempts > ATTEMPTS)
                return false;
        c->catch_up_timer.expired = void_again;
        lp_timer_start(catch_up->store->coord_loop->loop, &c->catch_up_timer, RETRY_NS);
        return true;
}

static void voided(struct eng_op *op)
{
        struct eng_catch_up *catch_up = container_of(op, struct eng_catch_up, op);

        assert(catch_up->step == STEP_VOID && catch_up->out > 0);
        catch_up->out--;
        if (op->result == -EAGAIN && !catch_up->cancelled && void_later(catch_up))
                return;
        if (op->result != 0) {
                eng_drive_erred(catch_up->store, catch_up->slot, catch_up->store->members[catch_up->slot].drive, op->result,
                                "it could not be told that it is stale");
                leave_alone(catch_up, "it could not be told that it is stale");
                return;
        }
        if (catch_up->cancelled) { /* the store can't be written to any more */
                catch_up_end(catch_up);
                return;
        }
        catch_up->step = STEP_ENTER;
        lp_trace(LP_TRACE_CATCH_UP, catch_up->step, catch_up->slot);
        catch_up->attempts = 0;
        eng_epoch_change(catch_up->store);
}

static void send_void(struct eng_catch_up *catch_up)
{
        struct eng_store *store = catch_up->store;

        assert(catch_up->step == STEP_VOID && catch_up->out == 0);
        catch_up->op = (struct eng_op){.kind = ENG_OP_APPEND, .flags = ENG_OP_RESERVE, .epoch = store->coord->view.epoch, .done = voided};
        catch_up->op.append.type = FMT_RECORD_VOID;
        catch_up->op.append.time_ms = (uint64_t)lp_wall_ms();
        catch_up->op.append.record_epoch = store->coord->view.epoch;
        catch_up->out++;
        eng_drive_submit(store->members[catch_up->slot].drive, &catch_up->op);
}

static void void_again(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, catch_up_timer);

        if (c->catch_up == NULL || c->catch_up->step > STEP_VOID)
                return;
        if (c->catch_up->cancelled)
                catch_up_end(c->catch_up);
        else if (c->catch_up->step == STEP_SETTLE)
                settle_next(c->catch_up);
        else
                send_void(c->catch_up);
}

/* ---- settling a truth ------------------------------------------------------------------------ */

static void catch_up_settled(struct eng_op *op)
{
        struct eng_catch_up *catch_up = container_of(op, struct eng_catch_up, op);
        struct eng_store *store = catch_up->store;

        assert(catch_up->step == STEP_SETTLE && catch_up->out > 0);
        catch_up->out--;
        if (op->result == -EAGAIN && !catch_up->cancelled && void_later(catch_up))
                return;
        if (op->result != 0) {
                eng_drive_erred(store, catch_up->slot, store->members[catch_up->slot].drive, op->result, "what is pending on it could not be settled");
                leave_alone(catch_up, "what is pending on it could not be settled");
                return;
        }
        catch_up->attempts = 0;
        if (op->kind == ENG_OP_TAIL) {
                catch_up->tail = op->tail.entries != NULL ? op->tail.entries : eng_buf_new(0);
                catch_up->tail_count = op->tail.count;
        } else {
                catch_up->tail_at++;
        }
        if (catch_up->cancelled)
                catch_up_end(catch_up);
        else
                settle_next(catch_up);
}

/* The last of the pending records of a group that counts. */
static bool settles(const struct eng_catch_up *catch_up)
{
        const struct eng_memtable_entry *e = (const struct eng_memtable_entry *)catch_up->tail->data + catch_up->tail_at;

        return e->pending && eng_lost_counts(catch_up->store, catch_up->slot, e->pg) &&
               (catch_up->tail_at + 1 == catch_up->tail_count || e[1].pg != e->pg || !e[1].pending);
}

/* The tail; then, one after the other, the groups that have something pending. A COMMIT makes all up to its number count. */
static void settle_next(struct eng_catch_up *catch_up)
{
        struct eng_store *store = catch_up->store;
        const struct eng_memtable_entry *e;

        assert(catch_up->step == STEP_SETTLE && catch_up->out == 0);
        catch_up->op = (struct eng_op){.kind = ENG_OP_TAIL, .flags = ENG_OP_RESERVE, .epoch = store->coord->view.epoch, .done = catch_up_settled};
        if (catch_up->tail != NULL) {
                while (catch_up->tail_at < catch_up->tail_count && !settles(catch_up))
                        catch_up->tail_at++;
                if (catch_up->tail_at == catch_up->tail_count) {
                        catch_up->step = STEP_VOID;
                        send_void(catch_up);
                        return;
                }
                e = (const struct eng_memtable_entry *)catch_up->tail->data + catch_up->tail_at;
                catch_up->op.kind = ENG_OP_COMMIT;
                catch_up->op.commit.pg = e->pg;
                catch_up->op.commit.seq = e->seq;
        }
        catch_up->out++;
        eng_drive_submit(store->members[catch_up->slot].drive, &catch_up->op);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void compare_ready(void *arg)
{
        compare_step(arg);
}

static struct eng_catch_up *new_catch_up(struct eng_store *store, unsigned slot, bool gains)
{
        struct eng_catch_up *catch_up = calloc(1, sizeof(*catch_up));

        if (catch_up == NULL)
                return NULL;
        catch_up->store = store;
        catch_up->slot = slot;
        catch_up->gains = gains;
        catch_up->pace.expired = compare_paced;
        catch_up->retry.expired = compare_again;
        catch_up->walk = eng_walk_new(store->coord_loop, PAGE, compare_ready, catch_up);
        catch_up->resyncs = calloc(RESYNCS, sizeof(*catch_up->resyncs));
        if (catch_up->walk != NULL && catch_up->resyncs != NULL)
                return catch_up;
        free_catch_up(catch_up);
        return NULL;
}

static void catch_up_consider_again(struct lp_timer *timer)
{
        eng_catch_up_consider(container_of(timer, struct eng_coord, catch_up_timer)->store);
}

/* There was no memory to begin. */
static void consider_later(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        c->catch_up_timer.expired = catch_up_consider_again;
        lp_timer_start(store->coord_loop->loop, &c->catch_up_timer, RETRY_NS);
}

void eng_catch_up_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_catch_up *catch_up;
        bool gains;
        int slot;

        assert(eng_on_coordinator(store));
        if (c->store->stopping || c->phase != ENG_PHASE_OPEN || !c->view.writable || c->changing || c->catch_up != NULL)
                return;
        slot = catch_up_candidate(store);
        gains = slot < 0 && c->view.lost == 0; /* of a lost group it could gain nothing */
        if (gains)
                slot = eng_rebalance_gainer(store);
        if (slot < 0)
                return;
        catch_up = new_catch_up(store, (unsigned)slot, gains);
        if (catch_up == NULL) {
                consider_later(store);
                return;
        }
        c->catch_up = catch_up;
        if (gains) {
                catch_up->step = STEP_COMPARE;
                begin_compare(catch_up);
                return;
        }
        c->present |= eng_bit(catch_up->slot);
        c->caught_up &= ~eng_bit(catch_up->slot);
        c->gained &= ~eng_bit(catch_up->slot); /* what it had gained has gone on without it */
        tell(catch_up);
        if (eng_lost_is_truth(store, catch_up->slot)) {
                settle_next(catch_up);
                return;
        }
        catch_up->step = STEP_VOID;
        send_void(catch_up);
}

/* ---- epochs ---------------------------------------------------------------------------------- */

void eng_catch_up_wants(const struct eng_store *store, eng_mask *joining, eng_mask *promoted)
{
        const struct eng_catch_up *catch_up = store->coord->catch_up;
        const eng_mask waiting = store->coord->caught_up & store->coord->present;

        *joining = catch_up != NULL && !catch_up->gains && catch_up->step > STEP_VOID ? eng_bit(catch_up->slot) : 0;
        *promoted = catch_up != NULL && catch_up->step == STEP_LEAVE ? eng_bit(catch_up->slot) : 0;
        *joining |= waiting;
        *promoted |= waiting;
}

/* Those that were added together are members now. One that fell out begins again; one that answers, and left since a group is lost, is stale. */
static void waiting_epoch(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        const eng_mask wait = c->caught_up & c->view.joining & c->present;
        unsigned slot;

        for (slot = 0; slot < store->drive_count; slot++) {
                if (!(c->caught_up & ~wait & eng_bit(slot)))
                        continue;
                if (c->view.in & eng_bit(slot)) {
                        eng_member_state(store, slot, ENG_DRIVE_IN, "");
                        eng_down_is_in(store, slot);
                } else if (store->members[slot].state == ENG_DRIVE_JOINING) {
                        eng_member_state(store, slot, ENG_DRIVE_STALE, "was out while the store went on without it");
                }
        }
        c->caught_up = wait;
}

void eng_catch_up_epoch(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_catch_up *catch_up = c->catch_up;

        assert(eng_on_coordinator(store));
        waiting_epoch(store);
        if (catch_up == NULL) {
                eng_catch_up_consider(store);
                return;
        }
        if (catch_up->step == STEP_LEAVE && (c->view.in & eng_bit(catch_up->slot))) {
                eng_member_state(store, catch_up->slot, ENG_DRIVE_IN, "");
                eng_down_is_in(store, catch_up->slot);
                catch_up_end(catch_up);
        } else if (catch_up->step == STEP_ENTER && (c->view.joining & eng_bit(catch_up->slot))) {
                catch_up->step = STEP_COMPARE;
                begin_compare(catch_up);
        } else if (!(c->present & eng_bit(catch_up->slot)) || !c->view.writable || (catch_up->gains && c->view.lost != 0)) {
                catch_up->cancelled = true;
                if (is_idle(catch_up))
                        catch_up_end(catch_up);
        } else if (catch_up->step == STEP_ENTER || catch_up->step == STEP_LEAVE) {
                eng_epoch_change(store); /* that one was about another drive */
        }
}

/* ---- what differs ---------------------------------------------------------------------------- */

static void retry_later(struct eng_catch_up *catch_up)
{
        if (!catch_up->retrying)
                lp_timer_start(catch_up->store->coord_loop->loop, &catch_up->retry, RETRY_NS);
        catch_up->retrying = true;
}

static void catch_up_resynced(struct eng_resync *resync)
{
        struct catch_up_resync *f = (struct catch_up_resync *)resync;
        struct eng_catch_up *catch_up = f->catch_up;

        assert(f->state == RESYNC_OUT && catch_up->out > 0);
        catch_up->out--;
        if (resync->txn.result == 0) {
                f->state = RESYNC_FREE;
                catch_up->attempts = 0;
                catch_up->copied += resync->copied;
        } else {
                f->state = RESYNC_AGAIN;
                retry_later(catch_up);
        }
        compare_step(catch_up);
}

static void start_resync(struct eng_catch_up *catch_up, struct catch_up_resync *f)
{
        assert(f->state != RESYNC_OUT);
        f->catch_up = catch_up;
        f->resync.slot = catch_up->slot;
        f->resync.done = catch_up_resynced;
        f->state = RESYNC_OUT;
        catch_up->out++;
        if (eng_resync_start(catch_up->store, &f->resync) != 0) { /* a name nobody could have written: it stays where it is */
                f->state = RESYNC_FREE;
                catch_up->out--;
        }
}

static struct catch_up_resync *resync_in(const struct eng_catch_up *catch_up, enum resync_state state)
{
        unsigned i;

        for (i = 0; i < RESYNCS; i++)
                if (catch_up->resyncs[i].state == state)
                        return &catch_up->resyncs[i];
        return NULL;
}

/* Bytes that the walk's last name takes to copy. */
static uint64_t cost_of(const struct eng_walk_row *row)
{
        const struct eng_scan_entry *e = row->of[__builtin_ctzll(row->have)];
        struct fmt_value head;

        memcpy(&head, eng_entry_value(e), sizeof(head));
        return e->value_len + (head.parts == 0 ? head.size : 0);
}

/* False: as many are under way, or wait, as may be. */
static bool copy_row(struct eng_catch_up *catch_up)
{
        struct catch_up_resync *f = resync_in(catch_up, RESYNC_FREE);

        if (f == NULL)
                return false;
        eng_pacer_share_spend(&catch_up->store->pacer, &catch_up->share, lp_now(catch_up->store->coord_loop->loop), cost_of(&catch_up->row));
        f->resync.name = catch_up->walk->at;
        start_resync(catch_up, f);
        return true;
}

/* ---- the comparison -------------------------------------------------------------------------- */

/* That the drive is to have, and may not have yet. What comes to one that is back, and is not being added, it gains as a member. */
static bool catch_up_is_wanted(const struct eng_catch_up *catch_up, unsigned pg)
{
        const struct eng_view *view = &catch_up->store->coord->view;
        eng_mask wanted = eng_writers(view, pg) & ~eng_speakers(view, pg);

        if (!catch_up->gains)
                wanted &= view->map->groups[pg].before | view->map->adding;
        return (wanted & eng_bit(catch_up->slot)) != 0;
}

/*
 * The members that are asked for a group: all whose names could be read, else all but those that
 * failed last, else all that answer.
 */
static eng_mask sources_of(const struct eng_catch_up *catch_up, unsigned pg)
{
        const struct eng_view *view = &catch_up->store->coord->view;
        eng_mask fit = eng_speakers(view, pg) & view->up & ~eng_bit(catch_up->slot);
        eng_mask good = fit & ~catch_up->avoid, read = fit & ~catch_up->walk->failed;

        if (good != 0)
                return good;
        return read != 0 ? read : fit;
}

/*
 * It was lost with drives that were given up, and begins again, empty, on a drive that was put in
 * their place.
 */
static bool begins_empty(const struct eng_catch_up *catch_up, unsigned pg)
{
        const struct eng_coord *c = catch_up->store->coord;

        return eng_speakers(&c->view, pg) == 0 && (c->filling & ~c->lost_writes & eng_bit(catch_up->slot)) != 0;
}

static bool ask_for(struct eng_catch_up *catch_up, eng_mask drives, unsigned pg)
{
        struct eng_walk *walk = catch_up->walk;
        unsigned slot;

        for (slot = 0; slot < catch_up->store->drive_count; slot++) {
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

/*
 * Each group, CONFIG included, is read from the drive and from current members. False: of some none
 * answers, or there is no memory.
 */
static bool catch_up_take_drives(struct eng_catch_up *catch_up)
{
        unsigned pg;

        eng_walk_forget(catch_up->walk);
        for (pg = 0; pg <= catch_up->store->pg_count; pg++) {
                eng_mask sources;

                if (!catch_up_is_wanted(catch_up, pg) || begins_empty(catch_up, pg))
                        continue;
                sources = sources_of(catch_up, pg);
                if (sources == 0 || !ask_for(catch_up, sources | eng_bit(catch_up->slot), pg))
                        return false;
        }
        return true;
}

/*
 * From the first name on, or behind the last that was compared: a change of any before that has
 * reached the drive by itself since, whichever member is asked for the rest.
 */
static void begin_compare(struct eng_catch_up *catch_up)
{
        static const struct eng_name behind_all = {.len = 1, .data = {FMT_SPACE_LAST + 1}};
        struct eng_walk *walk = catch_up->walk;
        const struct eng_name from = walk->at;

        assert(catch_up->step == STEP_COMPARE && walk->out == 0);
        lp_trace(LP_TRACE_CATCH_UP, STEP_COMPARE, catch_up->slot);
        tell(catch_up);
        if (catch_up->began == 0)
                catch_up->began = lp_now(catch_up->store->coord_loop->loop);
        catch_up->walking = catch_up_take_drives(catch_up);
        if (!catch_up->walking) {
                retry_later(catch_up);
                return;
        }
        eng_heal_choose_rate(catch_up->store);
        eng_walk_begin(walk, &from, walk->after, &behind_all);
        compare_step(catch_up);
}

static uint64_t count_wanted(const struct eng_catch_up *catch_up)
{
        const struct eng_store *store = catch_up->store;
        uint64_t names = 0;
        unsigned pg;

        for (pg = 0; store->pg_names != NULL && pg <= store->pg_count; pg++)
                if (catch_up_is_wanted(catch_up, pg) && !begins_empty(catch_up, pg))
                        names += store->pg_names[pg];
        return names;
}

void eng_catch_up_read(struct eng_store *store, unsigned slot, struct eng_catch_up_progress *out)
{
        struct eng_catch_up *catch_up = store->coord->catch_up;
        uint64_t ms, left;

        memset(out, 0, sizeof(*out));
        if (catch_up == NULL || catch_up->slot != slot || catch_up->step != STEP_COMPARE || catch_up->began == 0)
                return;
        if (catch_up->total == 0)
                catch_up->total = count_wanted(catch_up); /* a walk may have ended meanwhile */
        out->running = true;
        out->compared = catch_up->compared;
        out->copied = catch_up->copied;
        if (catch_up->total > 0) /* names have come since */
                out->total = catch_up->total > out->compared ? catch_up->total : out->compared;
        ms = (lp_now(store->coord_loop->loop) - catch_up->began) / 1000000 + 1;
        out->rate = out->compared * 1000 / ms;
        left = out->total > out->compared ? out->total - out->compared : 0;
        if (out->compared > 0 && left > 0)
                out->seconds_left = left * ms / out->compared / 1000 + 1;
}

/* It becomes a member together with others. */
static bool is_one_of_several(const struct eng_catch_up *catch_up)
{
        const eng_mask adding = catch_up->store->coord->shape.adding;

        return (adding & eng_bit(catch_up->slot)) != 0 && adding != eng_bit(catch_up->slot);
}

/* Everything is on the drive. */
static void compared_all(struct eng_catch_up *catch_up)
{
        assert(catch_up->step == STEP_COMPARE && catch_up->out == 0 && !catch_up->cancelled);
        if (catch_up->gains) {
                eng_rebalance_gained(catch_up->store, catch_up->slot);
                catch_up_end(catch_up);
                return;
        }
        if (is_one_of_several(catch_up)) {
                catch_up->store->coord->caught_up |= eng_bit(catch_up->slot);
                catch_up_end(catch_up);
                return;
        }
        catch_up->step = STEP_LEAVE;
        lp_trace(LP_TRACE_CATCH_UP, catch_up->step, catch_up->slot);
        eng_epoch_change(catch_up->store);
}

/* True: not now; compare_paced() comes. */
static bool catch_up_must_wait(struct eng_catch_up *catch_up, unsigned *rows)
{
        struct eng_loop *el = catch_up->store->coord_loop;
        uint64_t wait;

        eng_pacer_look(&catch_up->store->pacer, el);
        wait = eng_pacer_share_wait(&catch_up->share, lp_now(el->loop));
        if (wait == 0 && ++*rows < ROWS)
                return false;
        tell(catch_up);
        eng_pacer_look_everywhere(catch_up->store);
        lp_timer_start(el->loop, &catch_up->pace, wait);
        catch_up->paced = true;
        return true;
}

/*
 * Names of some drive could not be read: what was begun goes on, and the walk a little later. If it
 * was the drive that catches up, and it cannot be reached, it is down.
 */
static void catch_up_names_unread(struct eng_catch_up *catch_up)
{
        unsigned slot = catch_up->slot;
        int rv = catch_up->walk->failed & eng_bit(slot) ? catch_up->walk->source[slot]->op.result : 0;

        if (rv == -EHOSTUNREACH)
                eng_drive_erred(catch_up->store, slot, catch_up->store->members[slot].drive, rv, "its names could not be read");
        catch_up->avoid |= catch_up->walk->failed & ~eng_bit(catch_up->slot);
        catch_up->walking = false;
        retry_later(catch_up);
}

/* All that were asked for the names of its group have it, and the same. */
static bool is_equal(const struct eng_walk *walk, const struct eng_walk_row *row)
{
        struct fmt_value head;
        eng_mask asked = 0;
        unsigned slot;

        memcpy(&head, eng_entry_value(row->of[__builtin_ctzll(row->have)]), sizeof(head));
        if (head.pg > walk->store->pg_count)
                return false;
        for (slot = 0; slot < ENG_DRIVES_MAX; slot++)
                if ((walk->drives & eng_bit(slot)) && walk->source[slot]->pgs[head.pg / 64] >> head.pg % 64 & 1)
                        asked |= eng_bit(slot);
        return !eng_walk_differs(row, asked);
}

/* 1: the next name that differs; 0: there is none left; -EAGAIN: it comes again. */
static int next_row(struct eng_catch_up *catch_up, unsigned *rows)
{
        struct eng_walk_row *row = &catch_up->row;
        int rv;

        while (!catch_up_must_wait(catch_up, rows)) {
                rv = eng_walk_next(catch_up->walk, row);
                if (rv != 1)
                        return rv;
                eng_pacer_share_spend(&catch_up->store->pacer, &catch_up->share, lp_now(catch_up->store->coord_loop->loop), ENG_PACER_NAME);
                catch_up->compared++;
                catch_up->attempts = 0;
                if (!is_equal(catch_up->walk, row))
                        return 1;
        }
        return -EAGAIN;
}

/* True: all names have been compared, and what differed was copied. */
static bool compare_rows(struct eng_catch_up *catch_up)
{
        unsigned rows = 0;

        while (!catch_up->cancelled && catch_up->walking && !catch_up->paced && catch_up->walk->out == 0) {
                int rv;

                if (catch_up->walk->failed != 0) {
                        catch_up_names_unread(catch_up);
                        return false;
                }
                rv = catch_up->has_row ? 1 : next_row(catch_up, &rows);
                if (rv == 0)
                        return catch_up->out == 0 && resync_in(catch_up, RESYNC_AGAIN) == NULL;
                catch_up->has_row = rv == 1;
                if (rv != 1 || !copy_row(catch_up))
                        return false;
                catch_up->has_row = false;
        }
        return false;
}

/* Goes on, if something can be done. Harmless at any time; the catch-up may be over afterwards. */
static void compare_step(struct eng_catch_up *catch_up)
{
        bool over;

        if (catch_up->store->stopping || catch_up->stepping || catch_up->step != STEP_COMPARE)
                return;
        catch_up->stepping = true;
        over = compare_rows(catch_up);
        catch_up->stepping = false;
        if (over)
                compared_all(catch_up);
        else if (catch_up->cancelled && is_idle(catch_up))
                catch_up_end(catch_up);
}

static void compare_paced(struct lp_timer *timer)
{
        struct eng_catch_up *catch_up = container_of(timer, struct eng_catch_up, pace);

        assert(catch_up->paced);
        catch_up->paced = false;
        compare_step(catch_up);
}

/*
 * What could not be read or copied is tried again. A member that gains groups is never left alone
 * for want of progress: it serves what it has.
 */
static void compare_again(struct lp_timer *timer)
{
        struct eng_catch_up *catch_up = container_of(timer, struct eng_catch_up, retry);
        const struct eng_coord *c = catch_up->store->coord;
        unsigned i;

        assert(catch_up->retrying);
        catch_up->retrying = false;
        if (!(c->present & eng_bit(catch_up->slot)) || !c->view.writable)
                catch_up->cancelled = true;
        if (!catch_up->cancelled && is_idle(catch_up) && !catch_up->paced && ++catch_up->attempts > ATTEMPTS && !catch_up->gains) {
                leave_alone(catch_up, "it could not be brought up to date: what others hold could not be read or copied");
                return;
        }
        catch_up->stepping = true;
        for (i = 0; i < RESYNCS && !catch_up->cancelled; i++)
                if (catch_up->resyncs[i].state == RESYNC_AGAIN)
                        start_resync(catch_up, &catch_up->resyncs[i]);
        catch_up->stepping = false;
        if (!catch_up->cancelled && !catch_up->walking)
                begin_compare(catch_up);
        else
                compare_step(catch_up);
}
