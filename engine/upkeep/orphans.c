/*
 * orphans.c - finds shards that no record names, and gives their space back: of uploads that a
 * crash cut off, of discards it lost, of objects that were deleted while their drive was out.
 * Coordinator.
 *
 * The proof (I6) is an order of events; docs/format.md has the argument, and what was tried against
 * it.
 *
 *   BOUNDS    each loop says from which object id on its uploads may still come to be named (the oldest upload under way; ids are given in
 *             order). Older ids are past: the record that names one is committed, or there will be none
 *   MARKS     each drive says which batch of its index will hold all that is visible now. From there on a past id that is named is owned, at each
 *             moment, on each current member of its group
 *   IDS       a page of ids of which a drive has shards. For the past ones among them:
 *   ASK       which of them do the members of their groups own (all drives, where a shard does not say its key)? Those left: does any drive?
 *   READERS   whoever reads an object goes on reading it when it is deleted: each loop says which of those left are being read
 *   DISCARD   the rest; then the next page, the next drive
 *
 * No drive may be out, and none come or go meanwhile; and no change may have been given up in this
 * run with its record on its way (it counts after the next start). An orphan collection follows
 * each heal that leaves nothing to be done; one that could not be done to its end for want of
 * memory, or since a drive turned something away, is done again. A leader that has just begun does not
 * know who reads by the word of the one before, and collects nothing for a while.
 */
#include "engine/base/pacer.h"
#include "engine/object/object.h"
#include "engine/upkeep/rebuild.h"
#include "engine/upkeep/upkeep.h"
#include "engine_home.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 256u                       /* ids read at a time */
#define DISCARDS 16u                    /* at the same time */
#define AGAIN_NS (50ull * 1000 * 1000)  /* between looks whether lookups have ended, or an index has come so far ... */
#define LOOKUP_TRIES 200u               /* ... so many times */
#define HOME_TRIES 400u                 /* until each home has told its bounds: one that is silent has no session by then */
#define INDEX_TRIES 12000u              /* a batch of a large index takes minutes */
#define RETRY_NS (60ull * 1000 * 1000 * 1000) /* after an orphan collection that something was refused to, and twice as long after each further one ... */
#define RETRIES 10u                     /* ... so often */

struct discard {
        struct eng_op op;               /* first */
        struct eng_orphans *orphans;
        bool out;
};

/* A past id of the page. */
struct candidate {
        uint8_t id[FMT_ID];
        eng_mask ask;                   /* drives that have not been asked */
        bool owned;
        atomic_bool is_read;            /* set by loops during a broadcast */
};

/*
 * owner: coordinator; bounds[i], begun[i], candidates[].is_read, unknown: loops during a broadcast;
 * ops: the drives while out
 */
struct eng_orphans {
        struct eng_store *store;
        uint64_t epoch;                 /* in which it began */
        struct eng_made *bounds;        /* of each loop: what it made before this is of uploads that have ended */
        uint64_t *begun;                /* objects that each loop had opened when no name of the candidates was left, ... */
        uint64_t *looked;               /* ... and lookups that it had begun for homes and others */
        uint64_t began;                 /* lp_now(): homes tell their bounds after it */
        atomic_bool unknown;            /* one of them is still being looked up */
        unsigned tries;
        uint64_t marks[ENG_DRIVES_MAX];
        unsigned drive;                 /* whose ids are read */
        uint8_t after[FMT_ID];
        bool last;                      /* page of that drive */
        struct candidate *candidates;   /* PAGE, by id */
        unsigned count, next;
        unsigned asked;                 /* drive; of all of them for the second time: everywhere */
        bool everywhere;
        uint8_t (*ids)[FMT_ID];         /* PAGE: what that drive is asked */
        uint16_t *of;                   /* PAGE: whose they are */
        struct eng_op op;               /* IDS, OWNED */
        struct discard discards[DISCARDS];
        unsigned out;
        uint64_t swept;
        bool refused;                   /* something was, that goes on without it */
        bool asked_again;               /* an orphan collection was due while this one was under way */
        struct lp_timer timer;
        void (*then)(struct eng_orphans *orphans); /* when it expires */
};

static void next_drive(struct eng_orphans *orphans);
static void orphans_ask_next(struct eng_orphans *orphans);
static void discard_some(struct eng_orphans *orphans);

void eng_orphans_free(struct eng_store *store)
{
        struct eng_orphans *orphans = store->coord->orphans;

        store->coord->orphans = NULL;
        lp_timer_stop(store->coord_loop->loop, &store->coord->orphans_timer);
        if (orphans == NULL)
                return;
        lp_timer_stop(store->coord_loop->loop, &orphans->timer);
        free(orphans->bounds);
        free(orphans->begun);
        free(orphans->looked);
        free(orphans->candidates);
        free(orphans->ids);
        free(orphans->of);
        free(orphans);
}

/*
 * Something came or went: what was read proves nothing. Nor does it where a store only reads: names
 * may be lost of which the shards are all that is left.
 */
static bool void_now(const struct eng_orphans *orphans)
{
        const struct eng_store *store = orphans->store;
        const struct eng_coord *c = store->coord;

        return c->store->stopping || c->changing || !c->view.writable || c->view.epoch != orphans->epoch || (c->view.in & c->view.up) != c->view.map->all ||
               atomic_load(&store->unsettled) || atomic_load(&store->unsettled_lost);
}

static void orphans_retry(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, orphans_timer);

        eng_orphans_consider(c->store);
}

/* The next one would follow the next heal, a day from now. */
static void orphans_later(struct eng_coord *c)
{
        c->orphans_timer.expired = orphans_retry;
        lp_timer_start(c->store->coord_loop->loop, &c->orphans_timer, RETRY_NS << c->orphans_tries);
        if (c->orphans_tries < RETRIES)
                c->orphans_tries++;
}

/*
 * Over. All of it is done again if something came or went and a heal has ended since (which asked
 * for an orphan collection while this one was under way), or if nothing did, and yet a drive or the
 * machine refused something.
 */
static void orphans_end(struct eng_orphans *orphans, bool whole)
{
        struct eng_store *store = orphans->store;
        bool asked = !whole && orphans->asked_again;
        bool again = !whole && !void_now(orphans);

        assert(store->coord->orphans == orphans && orphans->out == 0);
        pthread_mutex_lock(&store->health_lock);
        store->health.collecting_orphans = false;
        store->health.orphan_ids += orphans->swept;
        pthread_mutex_unlock(&store->health_lock);
        eng_orphans_free(store);
        if (asked)
                eng_orphans_consider(store);
        else if (again)
                orphans_later(store->coord);
        else if (whole)
                store->coord->orphans_tries = 0;
}

static void orphans_rested(struct lp_timer *timer)
{
        struct eng_orphans *orphans = container_of(timer, struct eng_orphans, timer);

        if (void_now(orphans))
                orphans_end(orphans, false);
        else
                orphans->then(orphans);
}

static void rest(struct eng_orphans *orphans, uint64_t ns, void (*then)(struct eng_orphans *orphans))
{
        assert(orphans->out == 0);
        orphans->then = then;
        orphans->timer.expired = orphans_rested;
        lp_timer_start(orphans->store->coord_loop->loop, &orphans->timer, ns);
}

/* A drive could not answer yet: `then` asks it again, a little later. */
static bool is_turned_away(struct eng_orphans *orphans, const struct eng_op *op, void (*then)(struct eng_orphans *orphans))
{
        if (op->result != -EAGAIN || void_now(orphans) || ++orphans->tries >= INDEX_TRIES)
                return false;
        rest(orphans, AGAIN_NS, then);
        return true;
}

/* When the store's upkeep may go on. */
static void rest_for_pace(struct eng_orphans *orphans, void (*then)(struct eng_orphans *orphans))
{
        struct lp_loop *loop = orphans->store->coord_loop->loop;

        eng_pacer_look(&orphans->store->pacer, orphans->store->coord_loop);
        rest(orphans, eng_pacer_wait(&orphans->store->pacer, lp_now(loop)), then);
}

/* The first drive of the store at this slot or behind it; ENG_DRIVES_MAX: none. */
static unsigned drive_from(const struct eng_orphans *orphans, unsigned slot)
{
        while (slot < ENG_DRIVES_MAX && !(orphans->store->coord->view.map->all & eng_bit(slot)))
                slot++;
        return slot;
}

static struct eng_op *new_op(struct eng_orphans *orphans, enum eng_op_kind kind, void (*done)(struct eng_op *op))
{
        struct eng_op *op = &orphans->op;

        memset(op, 0, sizeof(*op));
        op->kind = kind;
        op->epoch = orphans->epoch;
        op->done = done;
        return op;
}

static struct eng_orphans *of_op(struct eng_op *op)
{
        return container_of(op, struct eng_orphans, op);
}

/* No upload that is under way, or begins later, can come to name it. */
static bool is_past(const struct eng_orphans *orphans, const uint8_t id[FMT_ID])
{
        const struct eng_store *store = orphans->store;
        struct eng_made made;

        eng_id_made(id, &made);
        if (store->coord->homes != NULL && made.node >= ENG_MAKER_HOMES)
                return store->coord->homes->is_past(store->coord->homes->arg, made.node, (uint32_t)made.run, made.loop, made.count);
        if (made.node != eng_maker(store) || made.loop >= store->loop_count)
                return eng_made_before_run(store, &made);
        return eng_made_before(&made, &orphans->bounds[made.loop]);
}

/* ---- DISCARD --------------------------------------------------------------------------------- */

static void orphans_read_ids(struct eng_orphans *orphans);

static void page_ends(struct eng_orphans *orphans)
{
        if (orphans->last)
                next_drive(orphans);
        else
                rest_for_pace(orphans, orphans_read_ids);
}

static void orphans_discarded(struct eng_op *op)
{
        struct discard *d = (struct discard *)op;
        struct eng_orphans *orphans = d->orphans;

        assert(d->out && orphans->out > 0);
        d->out = false;
        orphans->out--;
        orphans->swept += op->result == 0;
        orphans->refused |= op->result != 0;
        discard_some(orphans);
}

static void discard_one(struct eng_orphans *orphans, const struct candidate *c)
{
        struct discard *d = orphans->discards;

        assert(orphans->everywhere && c->ask == 0 && !c->owned); /* I6: all drives were asked */
        assert(orphans->out < DISCARDS);
        while (d->out)
                d++;
        memset(d, 0, sizeof(*d));
        d->orphans = orphans;
        d->out = true;
        d->op.kind = ENG_OP_DISCARD;
        d->op.flags = ENG_OP_RESERVE;
        d->op.epoch = orphans->epoch;
        d->op.done = orphans_discarded;
        memcpy(d->op.discard.object_id, c->id, FMT_ID);
        orphans->out++;
        eng_drive_submit(orphans->store->members[orphans->drive].drive, &d->op);
}

/* Goes through what is left of the page. */
static void discard_some(struct eng_orphans *orphans)
{
        bool give_up = void_now(orphans);

        assert(orphans->next <= orphans->count);
        for (; !give_up && orphans->next < orphans->count && orphans->out < DISCARDS; orphans->next++) {
                const struct candidate *c = &orphans->candidates[orphans->next];

                if (!c->owned && !atomic_load(&c->is_read))
                        discard_one(orphans, c);
        }
        if (orphans->out > 0)
                return;
        if (give_up)
                orphans_end(orphans, false);
        else
                page_ends(orphans);
}

/* ---- READERS --------------------------------------------------------------------------------- */

static bool count_readers(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        ((struct eng_orphans *)arg)->begun[el->index] = el->home.get_count;
        ((struct eng_orphans *)arg)->looked[el->index] = el->leader.lookup_count;
        return true;
}

static int orphans_by_id(const void *a, const void *b)
{
        return memcmp(a, b, FMT_ID);
}

static void orphans_keep(void *arg, const struct eng_part *part)
{
        struct eng_orphans *orphans = arg;
        struct candidate *c = bsearch(part->head.id, orphans->candidates, orphans->count, sizeof(*c), orphans_by_id);

        if (c != NULL)
                atomic_store(&c->is_read, true);
}

static bool keep_read(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct eng_orphans *orphans = arg;

        if (!eng_get_each_part(el, orphans->begun[el->index], orphans_keep, orphans))
                atomic_store(&orphans->unknown, true);
        if (eng_lookups_since(el) <= orphans->looked[el->index]) /* what a home's will find is not pinned yet */
                atomic_store(&orphans->unknown, true);
        return true;
}

static void orphans_keep_pinned(void *arg, const void *value, size_t len)
{
        struct eng_part part;
        size_t pos = 0;

        while (eng_value_next_part(value, len, &pos, &part) == 1)
                orphans_keep(arg, &part);
}

static void readers_kept(struct eng_store *store, void *arg);

static void ask_readers(struct eng_orphans *orphans)
{
        atomic_store(&orphans->unknown, false);
        if (eng_broadcast(orphans->store, keep_read, readers_kept, orphans) != 0)
                orphans_end(orphans, false);
}

static void readers_kept(struct eng_store *store, void *arg)
{
        struct eng_orphans *orphans = arg;

        if (store->stopping)
                return;
        if (!atomic_load(&orphans->unknown)) {
                if (store->coord->homes != NULL)
                        store->coord->homes->each_pinned(store->coord->homes->arg, orphans_keep_pinned, orphans);
                orphans->next = 0;
                discard_some(orphans);
        } else if (++orphans->tries > LOOKUP_TRIES) {
                orphans_end(orphans, false);
        } else {
                rest(orphans, AGAIN_NS, ask_readers);
        }
}

static void readers_counted(struct eng_store *store, void *arg)
{
        if (!store->stopping)
                ask_readers(arg);
}

/*
 * Nothing names those that are left, so nobody can begin to read them; who began before is among
 * those counted now.
 */
static void count_all_readers(struct eng_orphans *orphans)
{
        orphans->tries = 0;
        if (eng_broadcast(orphans->store, count_readers, readers_counted, orphans) != 0)
                orphans_end(orphans, false);
}

/* ---- ASK ------------------------------------------------------------------------------------- */

/* Gathers what the drive is to be asked. */
static uint32_t orphans_gather(struct eng_orphans *orphans)
{
        uint32_t n = 0;
        unsigned i;

        for (i = 0; i < orphans->count; i++) {
                if (orphans->candidates[i].owned || !(orphans->candidates[i].ask & eng_bit(orphans->asked)))
                        continue;
                memcpy(orphans->ids[n], orphans->candidates[i].id, FMT_ID);
                orphans->of[n++] = (uint16_t)i;
        }
        return n;
}

static void orphans_owned(struct eng_op *op)
{
        struct eng_orphans *orphans = of_op(op);
        uint32_t i;

        if (is_turned_away(orphans, op, orphans_ask_next))
                return;
        if (op->result != 0 || void_now(orphans)) {
                if (op->result == 0)
                        eng_buf_unref(op->owned.bits);
                orphans_end(orphans, false);
                return;
        }
        for (i = 0; i < op->owned.count; i++) {
                struct candidate *c = &orphans->candidates[orphans->of[i]];

                c->owned |= (op->owned.bits->data[i / 8] >> i % 8 & 1) != 0;
                c->ask &= ~eng_bit(orphans->asked);
        }
        eng_buf_unref(op->owned.bits);
        orphans->asked++;
        orphans_ask_next(orphans);
}

/*
 * After the members of their groups all other drives: a key's hash that is wrong on a drive must
 * not cost an object. 0: all are owned.
 */
static unsigned ask_everywhere(struct eng_orphans *orphans, eng_mask asked)
{
        unsigned i, left = 0;

        for (i = 0; i < orphans->count; i++) {
                struct candidate *c = &orphans->candidates[i];

                left += !c->owned;
                c->ask |= asked;
        }
        orphans->everywhere = true;
        orphans->asked = drive_from(orphans, 0);
        return left;
}

static void orphans_ask_next(struct eng_orphans *orphans)
{
        struct eng_op *op;
        uint32_t n;

        for (;;) {
                orphans->asked = drive_from(orphans, orphans->asked);
                if (orphans->asked == ENG_DRIVES_MAX) {
                        if (orphans->everywhere) {
                                count_all_readers(orphans);
                                return;
                        }
                        if (ask_everywhere(orphans, orphans->store->coord->view.map->all) == 0) {
                                page_ends(orphans);
                                return;
                        }
                }
                n = orphans_gather(orphans);
                if (n > 0)
                        break;
                orphans->asked++;
        }
        op = new_op(orphans, ENG_OP_OWNED, orphans_owned);
        op->owned.ids = (const uint8_t(*)[FMT_ID])orphans->ids;
        op->owned.count = n;
        op->owned.mark = orphans->marks[orphans->asked];
        eng_drive_submit(orphans->store->members[orphans->asked].drive, op);
}

/* ---- IDS ------------------------------------------------------------------------------------- */

/* Who must know of its name: the members of its key's group, or every drive. */
static eng_mask askable(const struct eng_orphans *orphans, uint64_t key_hash)
{
        const struct eng_placement *map = orphans->store->coord->view.map;
        const struct eng_group *group = &map->groups[eng_pg_of_hash(orphans->store->pg_count, key_hash)];

        return key_hash == 0 ? map->all : (group->before | group->after) & map->all;
}

static void take_id(struct eng_orphans *orphans, const struct eng_held_id *held)
{
        struct candidate *c = &orphans->candidates[orphans->count];

        memcpy(orphans->after, held->id, FMT_ID);
        if (!is_past(orphans, held->id))
                return;
        memset(c, 0, sizeof(*c));
        memcpy(c->id, held->id, FMT_ID);
        c->ask = askable(orphans, held->key_hash);
        orphans->count++;
}

static void ids_read(struct eng_op *op)
{
        struct eng_orphans *orphans = of_op(op);
        const struct eng_held_id *held = op->result != 0 || op->ids.ids == NULL ? NULL : (const void *)op->ids.ids->data;
        uint32_t i;

        assert(orphans->drive < ENG_DRIVES_MAX);
        if (is_turned_away(orphans, op, orphans_read_ids))
                return;
        if (op->result != 0 || void_now(orphans)) {
                if (op->result == 0)
                        eng_buf_unref(op->ids.ids);
                orphans_end(orphans, false);
                return;
        }
        orphans->count = 0;
        for (i = 0; held != NULL && i < op->ids.count; i++)
                take_id(orphans, &held[i]);
        orphans->last = op->ids.count < op->ids.max;
        eng_pacer_spend(&orphans->store->pacer, lp_now(orphans->store->coord_loop->loop), (uint64_t)op->ids.count * ENG_PACER_ID);
        eng_buf_unref(op->ids.ids);
        orphans->tries = 0;
        orphans->asked = 0;
        orphans->everywhere = false;
        if (orphans->count == 0)
                page_ends(orphans);
        else
                orphans_ask_next(orphans);
}

static void orphans_read_ids(struct eng_orphans *orphans)
{
        struct eng_op *op = new_op(orphans, ENG_OP_IDS, ids_read);

        memcpy(op->ids.after, orphans->after, FMT_ID);
        op->ids.max = PAGE;
        eng_drive_submit(orphans->store->members[orphans->drive].drive, op);
}

static void next_drive(struct eng_orphans *orphans)
{
        orphans->drive = drive_from(orphans, orphans->drive + 1);
        memset(orphans->after, 0, FMT_ID);
        if (orphans->drive == ENG_DRIVES_MAX)
                orphans_end(orphans, !orphans->refused);
        else
                rest_for_pace(orphans, orphans_read_ids);
}

/* ---- MARKS ----------------------------------------------------------------------------------- */

static void ask_mark(struct eng_orphans *orphans);

static void marked(struct eng_op *op)
{
        struct eng_orphans *orphans = of_op(op);

        assert(orphans->drive < ENG_DRIVES_MAX);
        if (is_turned_away(orphans, op, ask_mark))
                return;
        if (op->result != 0 || void_now(orphans)) {
                orphans_end(orphans, false);
                return;
        }
        orphans->marks[orphans->drive] = op->owned.mark;
        orphans->drive++;
        ask_mark(orphans);
}

static void ask_mark(struct eng_orphans *orphans)
{
        orphans->drive = drive_from(orphans, orphans->drive);
        if (orphans->drive < ENG_DRIVES_MAX) {
                eng_drive_submit(orphans->store->members[orphans->drive].drive, new_op(orphans, ENG_OP_OWNED, marked));
                return;
        }
        orphans->drive = drive_from(orphans, 0);
        orphans_read_ids(orphans);
}

/* ---- BOUNDS ---------------------------------------------------------------------------------- */

static bool take_bound(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct eng_made *bound = &((struct eng_orphans *)arg)->bounds[el->index], rebuild;
        uint8_t oldest[FMT_ID];
        uint64_t epoch;

        if (eng_put_oldest(el, oldest, &epoch))
                eng_id_made(oldest, bound);
        else
                eng_id_next(el, bound);
        if (eng_rebuild_oldest(el, oldest, &epoch)) {
                eng_id_made(oldest, &rebuild);
                if (eng_made_before(&rebuild, bound))
                        *bound = rebuild;
        }
        return true;
}

static void wait_for_homes(struct eng_orphans *orphans)
{
        const struct eng_homes *homes = orphans->store->coord->homes;

        if (homes == NULL || homes->have_told(homes->arg, orphans->began)) {
                orphans->tries = 0;
                ask_mark(orphans);
        } else if (++orphans->tries > HOME_TRIES) {
                orphans_end(orphans, false);
        } else {
                rest(orphans, AGAIN_NS, wait_for_homes);
        }
}

static void bounds_taken(struct eng_store *store, void *arg)
{
        struct eng_orphans *orphans = arg;

        if (store->stopping)
                return; /* eng_orphans_free() frees it */
        if (void_now(orphans))
                orphans_end(orphans, false);
        else
                wait_for_homes(orphans);
}

void eng_orphans_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_orphans *orphans;

        assert(eng_on_coordinator(store));
        if (c->orphans != NULL)
                c->orphans->asked_again = true;
        if (c->store->stopping || c->phase != ENG_PHASE_OPEN || c->orphans != NULL || c->catch_up != NULL)
                return;
        lp_timer_stop(store->coord_loop->loop, &c->orphans_timer);
        if (eng_discards_held(store) > 0) { /* G7 */
                c->orphans_timer.expired = orphans_retry;
                lp_timer_start(store->coord_loop->loop, &c->orphans_timer, eng_discards_held(store));
                return;
        }
        orphans = calloc(1, sizeof(*orphans));
        if (orphans == NULL) {
                orphans_later(c);
                return;
        }
        c->orphans = orphans;
        orphans->store = store;
        orphans->epoch = c->view.epoch;
        if (void_now(orphans)) {
                eng_orphans_free(store);
                return;
        }
        orphans->bounds = calloc(store->loop_count, sizeof(*orphans->bounds));
        orphans->begun = calloc(store->loop_count, sizeof(*orphans->begun));
        orphans->looked = calloc(store->loop_count, sizeof(*orphans->looked));
        orphans->began = lp_now(store->coord_loop->loop);
        orphans->candidates = calloc(PAGE, sizeof(*orphans->candidates));
        orphans->ids = calloc(PAGE, FMT_ID);
        orphans->of = calloc(PAGE, sizeof(*orphans->of));
        if (orphans->bounds == NULL || orphans->begun == NULL || orphans->looked == NULL || orphans->candidates == NULL || orphans->ids == NULL || orphans->of == NULL ||
            eng_broadcast(store, take_bound, bounds_taken, orphans) != 0) {
                eng_orphans_free(store);
                orphans_later(c);
                return;
        }
        pthread_mutex_lock(&store->health_lock);
        store->health.collecting_orphans = true;
        pthread_mutex_unlock(&store->health_lock);
}
