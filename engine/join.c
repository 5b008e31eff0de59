/*
 * join.c - brings a drive back that the store went on without (or a new one in): one at a time, while the store
 * serves. Coordinator.
 *
 *   VOID      what the drive holds and never counted is void from now on
 *   ENTER     an epoch makes it joining: from then on every change is written to it too, and waited for
 *   COMPARE   all names it should hold are compared with those of a current member, whatever it missed and for
 *             however long; each that differs is made equal with its key locked (fix.c). A change that comes
 *             meanwhile reaches both, so one pass is enough
 *   LEAVE     an epoch makes it a member
 *
 * If the drive fails on the way it leaves by an epoch, like any other. A restart begins anew.
 *
 * A member to which groups come because another leaves (reshape.c) is written to already: it gains them by the COMPARE step alone.
 */
#include "engine/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 512u                      /* names compared at a time */
#define FIXES 16u                      /* names being copied at the same time */
#define ATTEMPTS 100u                  /* without any progress; then the drive is left as it is until the store opens again */
#define RETRY_NS (100ull * 1000 * 1000)

enum join_step { STEP_VOID, STEP_ENTER, STEP_COMPARE, STEP_LEAVE };

/* One of the two scans that are compared. owner: coordinator; op: the drive while out */
struct side {
        struct eng_join *join;
        struct eng_op op;
        struct eng_buf *entries;
        const uint8_t *next;           /* entry to be looked at, or NULL */
        unsigned left;
        bool more;
        const struct eng_scan_entry *last;
};

/* owner: coordinator */
struct eng_join {
        struct eng_store *store;
        unsigned slot;
        bool gains;                    /* a member that gets groups of a drive that leaves */
        enum join_step step;
        unsigned attempts;
        struct eng_op op;              /* VOID */
        /* COMPARE */
        unsigned source;               /* a member that speaks for the groups of pgs */
        eng_mask damaged;              /* members whose names could not be read: others are asked first */
        bool last_resort;              /* none of the others speaks for the groups that are left */
        uint64_t *todo, *pgs;          /* groups not begun; those of the source */
        struct eng_name from;
        bool after;
        unsigned out;                  /* VOID, scans and fixes under way */
        int error;
        bool page_read;                /* both scans are back and were not compared yet */
        bool pausing;                  /* a fix met a queue that is full: the others are awaited, then it goes on a little later */
        struct side source_side, own_side;
        struct eng_fix *fixes;         /* FIXES */
        struct eng_name *differ;       /* names of this page that differ */
        unsigned differ_count, differ_next;
        uint64_t compared, copied;
};

static void compare_on(struct eng_join *join);
static void restart_compare(struct eng_join *join);
static void fix_some(struct eng_join *join);

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
        eng_buf_unref(join->source_side.entries);
        eng_buf_unref(join->own_side.entries);
        free(join->todo);
        free(join->pgs);
        free(join->fixes);
        free(join->differ);
        free(join);
}

void eng_join_free(struct eng_store *store)
{
        if (store->coord->join != NULL)
                free_join(store->coord->join);
        store->coord->join = NULL;
}

/* The drive is a member, or has failed, or is left alone: the next one may come. */
static void end(struct eng_join *join)
{
        struct eng_store *store = join->store;

        lp_timer_stop(store->loops[0].loop, &store->coord->join_timer);
        if (store->members[join->slot].state == ENG_DRIVE_JOINING)
                eng_member_state(store, join->slot, ENG_DRIVE_STALE, "was out while the store went on without it");
        eng_join_free(store);
        eng_health_refresh(store);
        eng_join_consider(store);
        eng_reshape_consider(store);
        eng_heal_consider(store);
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
        end(join);
}

static int candidate(const struct eng_store *store)
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
        struct eng_join *join = (struct eng_join *)((char *)op - offsetof(struct eng_join, op));

        join->out--;
        if (op->result == -EAGAIN && join->error == 0 && void_later(join))
                return;
        if (op->result != 0) {
                eng_drive_failed(join->store, join->slot, join->store->members[join->slot].drive, "it could not be told that it is stale");
                leave_alone(join, "it could not be told that it is stale");
                return;
        }
        if (join->error != 0) { /* the store can't be written to any more */
                end(join);
                return;
        }
        join->step = STEP_ENTER;
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
        struct eng_coord *c = (struct eng_coord *)((char *)timer - offsetof(struct eng_coord, join_timer));

        if (c->join == NULL || c->join->step != STEP_VOID)
                return;
        if (c->join->error != 0)
                end(c->join);
        else
                send_void(c->join);
}

static int make_room(struct eng_join *join)
{
        join->todo = calloc(join->store->pg_words, sizeof(uint64_t));
        join->pgs = calloc(join->store->pg_words, sizeof(uint64_t));
        join->fixes = calloc(FIXES, sizeof(*join->fixes));
        join->differ = calloc(2 * PAGE, sizeof(*join->differ));
        return join->todo == NULL || join->pgs == NULL || join->fixes == NULL || join->differ == NULL ? -ENOMEM : 0;
}

static void consider_again(struct lp_timer *timer)
{
        eng_join_consider(((struct eng_coord *)((char *)timer - offsetof(struct eng_coord, join_timer)))->store);
}

/* There was no memory to begin. */
static void consider_later(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        c->join_timer.expired = consider_again;
        lp_timer_start(store->loops[0].loop, &c->join_timer, RETRY_NS);
}

void eng_join_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_join *join;
        bool gains;
        int slot;

        if (c->stopping || c->phase != ENG_PHASE_OPEN || !c->view.writable || c->changing || c->join != NULL)
                return;
        slot = candidate(store);
        gains = slot < 0;
        if (gains)
                slot = eng_reshape_gainer(store);
        if (slot < 0)
                return;
        join = calloc(1, sizeof(*join));
        if (join == NULL) {
                consider_later(store);
                return;
        }
        join->store = store;
        join->slot = (unsigned)slot;
        join->gains = gains;
        if (make_room(join) != 0) {
                free_join(join);
                consider_later(store);
                return;
        }
        c->join = join;
        if (gains) {
                join->step = STEP_COMPARE;
                restart_compare(join);
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

/* Sets bits of the groups, CONFIG included, that the drive is to have and may not have yet. */
static void groups_wanted(const struct eng_join *join, uint64_t *bits)
{
        const struct eng_view *view = &join->store->coord->view;
        unsigned pg;

        for (pg = 0; pg <= join->store->pg_count; pg++)
                if ((eng_writers(view, pg) & eng_bit(join->slot)) && !(join->gains && (eng_speakers(view, pg) & eng_bit(join->slot))))
                        bits[pg / 64] |= 1ull << (pg % 64);
}

static void restart_compare(struct eng_join *join)
{
        memset(join->todo, 0, join->store->pg_words * sizeof(uint64_t));
        memset(join->pgs, 0, join->store->pg_words * sizeof(uint64_t));
        groups_wanted(join, join->todo);
        join->source = 0;
        join->last_resort = false;
        join->from.len = 0;
        join->error = 0;
        join->page_read = join->pausing = false;
        join->differ_count = join->differ_next = 0;
        compare_on(join);
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
                end(join);
        } else if (join->step == STEP_ENTER && (c->view.joining & eng_bit(join->slot))) {
                join->step = STEP_COMPARE;
                restart_compare(join);
        } else if (!(c->present & eng_bit(join->slot)) || !c->view.writable) {
                if (join->out == 0)
                        end(join);
                else
                        join->error = -ECANCELED; /* when the last of them is back */
        } else if (join->step == STEP_ENTER || join->step == STEP_LEAVE) {
                eng_epoch_change(store); /* that one was about another drive */
        }
}

/* ---- the comparison ------------------------------------------------------------------------------------------- */

static void retry(struct lp_timer *timer)
{
        struct eng_coord *c = (struct eng_coord *)((char *)timer - offsetof(struct eng_coord, join_timer));

        if (c->join != NULL && c->join->step == STEP_COMPARE)
                restart_compare(c->join);
}

/* Counts an attempt. A member that gains groups is never left alone for want of progress: it serves what it has. */
static bool may_try_again(struct eng_join *join)
{
        return ++join->attempts <= ATTEMPTS || join->gains;
}

/* Something could not be read or copied and nothing is under way any more. */
static void stumble(struct eng_join *join)
{
        struct eng_coord *c = join->store->coord;

        if (!(c->present & eng_bit(join->slot)) || !c->view.writable) {
                end(join);
                return;
        }
        c->join_timer.expired = retry;
        if (may_try_again(join))
                lp_timer_start(join->store->loops[0].loop, &c->join_timer, RETRY_NS);
        else
                leave_alone(join, "it could not be brought up to date: what others hold could not be read or copied");
}

static void arrived(struct eng_op *op)
{
        struct side *side = (struct side *)((char *)op - offsetof(struct side, op));
        struct eng_join *join = side->join;

        side->entries = op->scan.entries;
        if (op->result != 0)
                join->error = op->result;
        if (op->result == -EBADMSG && side == &join->source_side)
                join->damaged |= eng_bit(join->source);
        side->left = op->result != 0 ? 0 : op->scan.count;
        side->next = side->left == 0 ? NULL : side->entries->data;
        side->more = side->left != 0 && op->scan.more;
        if (--join->out > 0)
                return;
        join->page_read = true;
        if (join->error != 0)
                stumble(join);
        else
                fix_some(join);
}

static void scan(struct eng_join *join, struct side *side, unsigned slot)
{
        static const uint8_t behind_all[1] = {FMT_SPACE_PART + 1};
        struct eng_op *op = &side->op;

        eng_buf_unref(side->entries);
        side->entries = NULL;
        side->join = join;
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->flags = ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS;
        op->epoch = join->store->coord->view.epoch;
        op->done = arrived;
        op->scan.from = join->from.data;
        op->scan.from_len = join->from.len;
        op->scan.after = join->after;
        op->scan.to = behind_all;
        op->scan.to_len = 1;
        op->scan.max = PAGE;
        op->scan.pgs = join->pgs;
        op->scan.pg_words = join->store->pg_words;
        join->out++;
        eng_drive_submit(join->store->members[slot].drive, op);
}

static const struct eng_scan_entry *entry_of(const struct side *side)
{
        return (const struct eng_scan_entry *)side->next;
}

static void step(struct side *side)
{
        side->last = entry_of(side);
        side->next += side->last->size;
        if (--side->left == 0)
                side->next = NULL;
}

static bool same_value(const struct eng_scan_entry *a, const struct eng_scan_entry *b)
{
        const uint8_t *x = (const uint8_t *)(a + 1) + a->name_len, *y = (const uint8_t *)(b + 1) + b->name_len;

        return eng_fix_same(x, a->value_len, y, b->value_len);
}

static void set_name(struct eng_name *name, const struct eng_scan_entry *e)
{
        name->len = e->name_len;
        memcpy(name->data, e + 1, e->name_len);
}

/* Lists the names that differ, as far as both sides have been read; from is left behind the last one looked at. False: nothing is left behind it. */
static bool compare_page(struct eng_join *join)
{
        struct side *a = &join->source_side, *b = &join->own_side;

        join->differ_count = join->differ_next = 0;
        for (;;) {
                const struct eng_scan_entry *e;
                int c;

                if ((a->next == NULL && a->more) || (b->next == NULL && b->more))
                        return true;
                if (a->next == NULL && b->next == NULL)
                        return false;
                if (a->next == NULL || b->next == NULL)
                        c = a->next == NULL ? 1 : -1;
                else
                        c = eng_scan_compare(entry_of(a), entry_of(b));
                e = c <= 0 ? entry_of(a) : entry_of(b);
                if (c != 0 || !same_value(entry_of(a), entry_of(b)))
                        set_name(&join->differ[join->differ_count++], e);
                set_name(&join->from, e);
                join->after = true;
                join->compared++;
                if (c <= 0)
                        step(a);
                if (c >= 0)
                        step(b);
        }
}

/* The next member from `source` on that speaks for groups not compared yet, of those whose names could be read or, as a last resort, not. */
static bool take_source(struct eng_join *join)
{
        struct eng_store *store = join->store;
        eng_mask fit = store->coord->view.in & store->coord->view.up & ~eng_bit(join->slot);
        uint64_t any;
        unsigned w;

        fit &= join->last_resort ? join->damaged : ~join->damaged;
        for (; join->source < store->drive_count; join->source++) {
                if (!(fit & eng_bit(join->source)))
                        continue;
                memset(join->pgs, 0, store->pg_words * sizeof(uint64_t));
                eng_groups_spoken_for(&store->coord->view, store->pg_count, join->source, join->pgs);
                for (w = 0, any = 0; w < store->pg_words; w++) {
                        join->pgs[w] &= join->todo[w];
                        join->todo[w] &= ~join->pgs[w];
                        any |= join->pgs[w];
                }
                if (any != 0)
                        return true;
        }
        return false;
}

/* False: there is none. */
static bool next_source(struct eng_join *join)
{
        bool found = take_source(join);

        if (!found && !join->last_resort && join->damaged != 0) {
                join->last_resort = true;
                join->source = 0;
                found = take_source(join);
        }
        join->from.len = 0;
        join->after = false;
        return found;
}

/*
 * Groups of which no other current member answers cannot be compared. One that has no current member at all was lost with drives that were given up: it
 * begins again, empty, on a drive that was put in their place.
 */
static bool all_compared(const struct eng_join *join)
{
        const struct eng_store *store = join->store;
        const struct eng_coord *c = store->coord;
        unsigned pg;

        for (pg = 0; pg <= store->pg_count; pg++)
                if ((join->todo[pg / 64] & 1ull << (pg % 64)) &&
                    (eng_speakers(&c->view, pg) != 0 || !(c->filling & ~c->lost_writes & eng_bit(join->slot))))
                        return false;
        return true;
}

static void finish(struct eng_join *join)
{
        if (!all_compared(join)) {
                stumble(join);
                return;
        }
        if (join->gains) {
                eng_reshape_gained(join->store, join->slot);
                end(join);
                return;
        }
        join->step = STEP_LEAVE;
        eng_epoch_change(join->store);
}

/* A page has been dealt with, or a source: on with the next. */
static void compare_on(struct eng_join *join)
{
        if (join->from.len == 0 && !next_source(join)) {
                finish(join);
                return;
        }
        tell(join);
        scan(join, &join->source_side, join->source);
        scan(join, &join->own_side, join->slot);
}

/* ---- what differs --------------------------------------------------------------------------------------------------- */

static void resume(struct lp_timer *timer)
{
        struct eng_coord *c = (struct eng_coord *)((char *)timer - offsetof(struct eng_coord, join_timer));

        if (c->join == NULL || c->join->step != STEP_COMPARE)
                return;
        c->join->pausing = false;
        fix_some(c->join);
}

static void pause_a_little(struct eng_join *join)
{
        struct eng_coord *c = join->store->coord;

        c->join_timer.expired = resume;
        lp_timer_start(join->store->loops[0].loop, &c->join_timer, RETRY_NS);
}

static bool passing(int rv)
{
        return rv == -EAGAIN || rv == -ENOMEM || rv == -ESTALE;
}

static void fixed(struct eng_fix *fix)
{
        struct eng_join *join = fix->arg;

        join->out--;
        fix->arg = NULL;
        if (passing(fix->txn.result) && may_try_again(join)) {
                join->differ[--join->differ_next] = fix->name;
                join->pausing = true;
        } else if (fix->txn.result != 0) {
                join->error = fix->txn.result;
        } else {
                join->attempts = 0;
        }
        join->copied += fix->copied;
        if (join->error == 0)
                fix_some(join);
        else if (join->out == 0)
                stumble(join);
}

static bool fix_next(struct eng_join *join)
{
        unsigned i;

        for (i = 0; i < FIXES && join->fixes[i].arg != NULL; i++)
                ;
        if (i == FIXES)
                return false;
        join->fixes[i].slot = join->slot;
        join->fixes[i].name = join->differ[join->differ_next++];
        join->fixes[i].done = fixed;
        join->fixes[i].arg = join;
        join->out++;
        if (eng_fix_start(join->store, &join->fixes[i]) != 0) { /* a name nobody could have written: it stays where it is */
                join->fixes[i].arg = NULL;
                join->out--;
        }
        return true;
}

/* Copies what the page found to differ; looks at the next page when that is done. */
static void fix_some(struct eng_join *join)
{
        for (;;) {
                if (join->pausing) {
                        if (join->out == 0)
                                pause_a_little(join);
                        return;
                }
                while (join->differ_next < join->differ_count)
                        if (!fix_next(join))
                                return;
                if (join->out > 0)
                        return;
                if (!join->page_read) {
                        compare_on(join);
                        return;
                }
                join->page_read = false;
                if (!compare_page(join)) {
                        join->from.len = 0; /* the source has no more */
                        join->source++;
                }
                eng_buf_unref(join->source_side.entries);
                eng_buf_unref(join->own_side.entries);
                join->source_side.entries = join->own_side.entries = NULL;
        }
}
