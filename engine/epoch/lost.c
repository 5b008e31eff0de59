/*
 * lost.c - members that lost writes which they had acknowledged: a disk restored from an image, a
 * cache that lied. Part of recovery; coordinator.
 *
 * A log loses its end and nothing else, so a member that has some record has all before it. Three
 * rules say who lost something; the other members' word is proof, and no majority is asked:
 *
 * - A member of the last epoch that was surely in force, and that does not have it, lost it. That
 *   epoch is the chosen one if a record was written in it or all its members have it; else the one
 *   that the chosen one names (fmt_epoch_tail).
 * - A member of the chosen epoch that was not yet one in the epoch that this one names, and that
 *   does not have the epoch that took it in, lost it, or that epoch was never in force: it catches
 *   up anew, and is not counted as a member. (Were it in force after all, then no majority of its
 *   members could go on beside a majority of the others.) No epoch takes in a drive and leaves out
 *   another, so without the one taken in all are still there that were members before.
 * - A record of that epoch or later that any member has applied was stable on all writers of its
 *   group. One that has not come so far lost it. Numbers of earlier epochs say nothing: a member
 *   that was brought up to date by copies never had them.
 *
 * A drive whose log ends before what its index covers says so itself when it is opened.
 */
#include "engine/base/store.h"
#include "engine/epoch/epoch.h"
#include "engine/epoch/recover.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* owner: coordinator; ops: the drives while out */
#define AGAIN_NS (100ull * 1000 * 1000)

struct lost_find {
        struct eng_store *store;
        const struct eng_member *chosen;
        void (*done)(struct eng_store *store);
        eng_mask present, failed, refused; /* refused: -EAGAIN */
        unsigned out;
        struct lp_timer timer; /* until all are asked again */
        struct lost_tail {
                struct eng_op op;
                struct lost_find *find;
                unsigned slot;
                struct eng_buf *entries;
                uint32_t count;
        } tails[ENG_DRIVES_MAX];
};

/* ---- epochs ---------------------------------------------------------------------------------- */

bool eng_epoch_tail(const struct eng_member *m, struct fmt_epoch_tail *out)
{
        size_t placed = FMT_EPOCH_PLACED(eng_epoch_of(m)->drives);

        memset(out, 0, sizeof(*out));
        if (m->epoch_len < placed + sizeof(*out))
                return false;
        memcpy(out, m->epoch + placed, sizeof(*out));
        return true;
}

/* What the drive in this slot held when it was opened. */
static const struct eng_member *opened_as(const struct eng_store *store, unsigned slot)
{
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++)
                if (store->unplaced[i].drive != NULL && store->unplaced[i].drive == store->members[slot].drive)
                        return &store->unplaced[i];
        return NULL;
}

bool eng_member_has_epoch(const struct eng_member *m, uint64_t number, const uint8_t id[FMT_ID])
{
        unsigned i;

        if (eng_epoch_of(m)->number != number)
                return eng_epoch_of(m)->number > number;
        if (memcmp(eng_epoch_of(m)->id, id, FMT_ID) == 0)
                return true;
        for (i = 0; i < m->history.count; i++)
                if (memcmp(m->history.past[i].id, id, FMT_ID) == 0)
                        return true;
        return false;
}

static bool has(const struct eng_store *store, unsigned slot, uint64_t number, const uint8_t id[FMT_ID])
{
        const struct eng_member *m = opened_as(store, slot);

        return m != NULL && eng_member_has_epoch(m, number, id);
}

/* Members of the epoch that the chosen one names as the last that was surely in force. */
static eng_mask base_of_chosen(const struct lost_find *find)
{
        const struct fmt_epoch_drive *d = eng_epoch_drives(find->chosen);
        eng_mask base = 0, in = 0;
        unsigned i;

        for (i = 0; i < find->store->drive_count; i++) {
                base |= d[i].base != 0 ? eng_bit(i) : 0;
                in |= d[i].in == FMT_EPOCH_IN ? eng_bit(i) : 0;
        }
        return base == 0 ? in : base;
}

/*
 * It has been a member since an epoch behind the last that was surely in force, as its own newest
 * one says: so it was brought up to date then. That is not the chosen epoch, which a start made
 * without some drive; both led to each other, or recover.c would not have chosen it. Where no epoch
 * is known to have been in force (builds of layout 1 named none), its own may be of a time before
 * it was out.
 */
static bool was_taken_in(const struct eng_member *m, unsigned slot, uint64_t in_force)
{
        const struct fmt_epoch *own = eng_epoch_of(m);

        return in_force != 0 && own->number > in_force && slot < own->drives && eng_epoch_drives(m)[slot].in == FMT_EPOCH_IN;
}

/* ---- what the logs say ----------------------------------------------------------------------- */

static const struct eng_memtable_entry *entries_of(const struct lost_tail *t)
{
        return t->entries == NULL ? NULL : (const struct eng_memtable_entry *)t->entries->data;
}

/* A record of the chosen epoch was written: so it was in force. */
static bool was_written_in(const struct lost_find *find)
{
        uint64_t number = eng_epoch_of(find->chosen)->number;
        unsigned i;
        uint32_t j;

        for (i = 0; i < find->store->drive_count; i++)
                for (j = 0; j < find->tails[i].count; j++)
                        if (entries_of(&find->tails[i])[j].epoch >= number)
                                return true;
        return false;
}

static bool all_have_chosen(const struct lost_find *find)
{
        const struct fmt_epoch *epoch = eng_epoch_of(find->chosen);
        const struct fmt_epoch_drive *d = eng_epoch_drives(find->chosen);
        unsigned i;

        for (i = 0; i < find->store->drive_count; i++)
                if (d[i].in == FMT_EPOCH_IN && !has(find->store, i, epoch->number, epoch->id))
                        return false;
        return true;
}

/* Without parity there is no other copy that would be better. */
static void lose(struct lost_find *find, unsigned slot, enum eng_lost why)
{
        struct eng_coord *c = find->store->coord;

        if ((c->lost & eng_bit(slot)) || find->store->m == 0)
                return;
        c->lost |= eng_bit(slot);
        c->lost_why[slot] = (uint8_t)why;
}

static void lost_epochs(struct lost_find *find)
{
        const struct fmt_epoch *epoch = eng_epoch_of(find->chosen);
        struct eng_store *store = find->store;
        struct eng_coord *c = store->coord;
        eng_mask base = base_of_chosen(find);
        struct fmt_epoch_tail tail;
        unsigned i;

        eng_epoch_tail(find->chosen, &tail);
        for (i = 0; i < store->drive_count; i++) {
                const struct eng_member *m = opened_as(store, i);

                if (!(find->present & eng_bit(i)) || m == NULL)
                        continue;
                if (m->log_lost)
                        lose(find, i, ENG_LOST_LOG);
                else if (c->decided == NULL && !(base & eng_bit(i)) && !eng_member_has_epoch(m, epoch->number, epoch->id) && !was_taken_in(m, i, tail.in_force))
                        lose(find, i, ENG_LOST_CATCH_UP);
                else if (c->in_force != 0 && !eng_member_has_epoch(m, c->in_force, c->in_force_id))
                        lose(find, i, ENG_LOST_EPOCH);
        }
}

/*
 * For each group, the highest number that a member has applied, and that its writers in the epoch
 * in force must have.
 */
static void applied_numbers(const struct lost_find *find, uint64_t *need)
{
        const struct eng_coord *c = find->store->coord;
        unsigned i;
        uint32_t j;

        for (i = 0; i < find->store->drive_count; i++) {
                const struct eng_memtable_entry *e = entries_of(&find->tails[i]);

                if (c->lost & eng_bit(i))
                        continue;
                for (j = 0; j < find->tails[i].count; j++)
                        if (e[j].pg <= find->store->pg_count && !e[j].pending && e[j].applied_epoch >= c->in_force &&
                            e[j].applied > need[e[j].pg])
                                need[e[j].pg] = e[j].applied;
        }
}

/*
 * Whether a member speaks for a group of which it lacks a number. have: room for a number of each
 * group.
 */
static bool lacks_one(const struct lost_find *find, unsigned slot, const uint64_t *need, uint64_t *have)
{
        const struct eng_store *store = find->store;
        const struct eng_placement *map = store->coord->view.map;
        const struct eng_memtable_entry *e = entries_of(&find->tails[slot]);
        unsigned pg;
        uint32_t j;

        memset(have, 0, (store->pg_count + 1) * sizeof(*have));
        for (j = 0; j < find->tails[slot].count; j++)
                if (e[j].pg <= store->pg_count && e[j].seq > have[e[j].pg])
                        have[e[j].pg] = e[j].seq;
        for (pg = 0; pg <= store->pg_count; pg++)
                if ((map->groups[pg].before & eng_bit(slot)) && have[pg] < need[pg])
                        return true;
        return false;
}

static int lost_records(struct lost_find *find)
{
        const struct eng_store *store = find->store;
        uint64_t *need = calloc(2 * (store->pg_count + 1), sizeof(*need));
        unsigned i;

        if (need == NULL)
                return -ENOMEM;
        applied_numbers(find, need);
        for (i = 0; i < store->drive_count; i++)
                if ((find->present & ~store->coord->lost & eng_bit(i)) && lacks_one(find, i, need, need + store->pg_count + 1))
                        lose(find, i, ENG_LOST_RECORDS);
        free(need);
        return 0;
}

eng_mask eng_lost_catching_up(const struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        eng_mask mask = 0;
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if ((c->lost & eng_bit(i)) && c->lost_why[i] == ENG_LOST_CATCH_UP)
                        mask |= eng_bit(i);
        return mask;
}

/*
 * Drives that were being added in the last epoch that was surely in force, and that lack the chosen
 * one, which was to make them members and gave them their groups: it was never in force, so the
 * drives that groups went from speak for them as before.
 */
static eng_mask still_adding(const struct lost_find *find)
{
        struct eng_coord *c = find->store->coord;
        eng_mask mask = c->added & eng_lost_catching_up(find->store);

        c->added &= ~mask;
        c->shape.adding |= mask;
        c->next_shape = c->shape;
        return mask;
}

/* ---- the run of it --------------------------------------------------------------------------- */

static void find_end(struct lost_find *find)
{
        struct eng_store *store = find->store;
        void (*done)(struct eng_store *) = find->done;

        eng_lost_free(store);
        done(store);
}

static void lost_judge(struct lost_find *find)
{
        const struct fmt_epoch *epoch = eng_epoch_of(find->chosen);
        struct eng_store *store = find->store;
        struct recovery *r = store->coord->recovery;
        struct eng_coord *c = store->coord;
        struct fmt_epoch_tail tail;
        int rv = 0;

        assert(r->lost == find && find->out == 0 && (find->failed | find->refused) == 0);
        eng_epoch_tail(find->chosen, &tail);
        r->chosen_in_force = was_written_in(find) || all_have_chosen(find);
        c->in_force = r->chosen_in_force ? epoch->number : tail.in_force;
        memcpy(c->in_force_id, r->chosen_in_force ? epoch->id : tail.in_force_id, FMT_ID);
        lost_epochs(find);
        if (r->chosen_in_force)
                c->added = 0;
        else if (still_adding(find) != 0)
                rv = eng_shape_map(store);
        eng_shape_map_taken(c);
        if (rv == 0 && c->in_force != 0 && tail.size != 0)
                rv = lost_records(find);
        if (rv != 0)
                abort(); /* nothing is served yet; a restart tries again */
        c->filling |= c->lost & ~eng_lost_catching_up(store);
        c->lost_writes |= c->lost & ~eng_lost_catching_up(store);
        memcpy(r->judged, epoch->id, FMT_ID);
        find_end(find);
}

static void find_again(struct lp_timer *timer)
{
        find_end(container_of(timer, struct lost_find, timer));
}

static void tail_came(struct eng_op *op)
{
        struct lost_tail *t = container_of(op, struct lost_tail, op);
        struct lost_find *find = t->find;
        struct eng_store *store = find->store;
        struct recovery *r = store->coord->recovery;

        assert(r->lost == find && find->out > 0);
        if (op->result == 0) {
                t->entries = op->tail.entries;
                t->count = op->tail.count;
        } else if (op->result == -EAGAIN && r->refusals < ENG_REFUSALS_MOST) {
                find->refused |= eng_bit(t->slot);
        } else {
                find->failed |= eng_bit(t->slot);
                eng_drive_erred(store, t->slot, store->members[t->slot].drive, op->result, "recovery could not read its log");
        }
        if (--find->out > 0)
                return;
        if (find->failed != 0) {
                find_end(find); /* once more, without them */
        } else if (find->refused == 0) {
                lost_judge(find);
        } else { /* they lack something for the moment, which is no failure */
                r->refusals++;
                find->timer.expired = find_again;
                lp_timer_start(store->coord_loop->loop, &find->timer, AGAIN_NS);
        }
}

void eng_lost_find(struct eng_store *store, const struct eng_member *chosen, eng_mask present,
                   void (*done)(struct eng_store *store))
{
        struct recovery *r = store->coord->recovery;
        struct lost_find *find = calloc(1, sizeof(*find));
        unsigned i;

        assert(r->lost == NULL && (present & ~eng_all_slots(store->drive_count)) == 0);
        if (find == NULL)
                abort(); /* nothing is served yet; a restart tries again */
        eng_phase_set(store->coord, ENG_PHASE_RECONCILE);
        r->lost = find;
        find->store = store;
        find->chosen = chosen;
        find->done = done;
        find->present = present;
        find->out = 1 + (unsigned)__builtin_popcountll(present);
        for (i = 0; i < store->drive_count; i++) {
                struct lost_tail *t = &find->tails[i];

                if (!(present & eng_bit(i)))
                        continue;
                t->find = find;
                t->slot = i;
                t->op.kind = ENG_OP_TAIL;
                t->op.epoch = store->coord->view.epoch;
                t->op.done = tail_came;
                eng_drive_submit(store->members[i].drive, &t->op);
        }
        if (--find->out == 0)
                lost_judge(find);
}

void eng_lost_free(struct eng_store *store)
{
        struct recovery *r = store->coord->recovery;
        unsigned i;

        if (r == NULL || r->lost == NULL)
                return;
        lp_timer_stop(store->coord_loop->loop, &r->lost->timer);
        for (i = 0; i < ENG_DRIVES_MAX; i++)
                eng_buf_unref(r->lost->tails[i].entries);
        free(r->lost);
        r->lost = NULL;
}

const char *eng_lost_text(const struct eng_store *store, unsigned slot)
{
        switch ((enum eng_lost)store->coord->lost_why[slot]) {
        case ENG_LOST_LOG:
                return "lost writes that it had acknowledged (its log ends before what its index covers): is to catch up";
        case ENG_LOST_EPOCH:
                return "lost writes that it had acknowledged (an epoch that it was in): is to catch up";
        case ENG_LOST_CATCH_UP:
                return "had not caught up when the store ended";
        case ENG_LOST_PENDING:
                return "a record that others lack cannot be read from it: is to catch up";
        case ENG_LOST_RECORDS:
                break;
        }
        return "lost writes that it had acknowledged (records that others have applied): is to catch up";
}
