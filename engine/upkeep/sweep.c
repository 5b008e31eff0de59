/*
 * sweep.c - finds shards that no record names, and gives their space back: of uploads that a crash cut off, of discards it lost, of
 * objects that were deleted while their drive was out. Coordinator.
 *
 * The proof (I6) is an order of events; docs/format.md has the argument, and what was tried against it.
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
 * No drive may be out, and none come or go meanwhile; and no change may have been given up in this run with its record on its way (it counts after
 * the next start). A sweep follows each heal that leaves nothing to be done; one that could not be done to its
 * end for want of memory, or since a drive turned something away, is done again.
 */
#include "engine/base/pacer.h"
#include "engine/object/object.h"
#include "engine/upkeep/upkeep.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 256u                       /* ids read at a time */
#define DISCARDS 16u                    /* at the same time */
#define AGAIN_NS (50ull * 1000 * 1000)  /* between looks whether lookups have ended, or an index has come so far ... */
#define LOOKUP_TRIES 200u               /* ... so many times */
#define INDEX_TRIES 12000u              /* a batch of a large index takes minutes */
#define RETRY_NS (60ull * 1000 * 1000 * 1000) /* after a sweep that something was refused to, and twice as long after each further one ... */
#define RETRIES 10u                     /* ... so often */

/* Ids that a loop made before this one are of uploads that have ended. */
struct bound {
        uint32_t epoch;
        uint64_t counter;
};

struct discard {
        struct eng_op op;               /* first */
        struct eng_sweep *sweep;
        bool out;
};

/* A past id of the page. */
struct candidate {
        uint8_t id[FMT_ID];
        eng_mask ask;                   /* drives that have not been asked */
        bool owned;
        atomic_bool is_read;            /* set by loops during a cast */
};

/* owner: coordinator; bounds[i], begun[i], candidates[].is_read, unknown: loops during a cast; ops: the drives while out */
struct eng_sweep {
        struct eng_store *store;
        uint64_t epoch;                 /* in which it began */
        struct bound *bounds;
        uint64_t *begun;                /* objects that each loop had opened when no name of the candidates was left */
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
        bool asked_again;               /* a sweep was due while this one was under way */
        struct lp_timer timer;
        void (*then)(struct eng_sweep *sweep); /* when it expires */
};

static void next_drive(struct eng_sweep *sweep);
static void sweep_ask_next(struct eng_sweep *sweep);
static void discard_some(struct eng_sweep *sweep);

void eng_sweep_free(struct eng_store *store)
{
        struct eng_sweep *sweep = store->coord->sweep;

        store->coord->sweep = NULL;
        lp_timer_stop(store->loops[0].loop, &store->coord->sweep_timer);
        if (sweep == NULL)
                return;
        lp_timer_stop(store->loops[0].loop, &sweep->timer);
        free(sweep->bounds);
        free(sweep->begun);
        free(sweep->candidates);
        free(sweep->ids);
        free(sweep->of);
        free(sweep);
}

/* Something came or went: what was read proves nothing. Nor does it where a store only reads: names may be lost of which the shards are all that is left. */
static bool void_now(const struct eng_sweep *sweep)
{
        const struct eng_store *store = sweep->store;
        const struct eng_coord *c = store->coord;

        return c->store->stopping || c->changing || !c->view.writable || c->view.epoch != sweep->epoch || (c->view.in & c->view.up) != c->view.map->all ||
               atomic_load(&store->unsettled);
}

static void sweep_retry(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, sweep_timer);

        eng_sweep_consider(c->store);
}

/* The next one would follow the next heal, a day from now. */
static void sweep_later(struct eng_coord *c)
{
        c->sweep_timer.expired = sweep_retry;
        lp_timer_start(c->store->loops[0].loop, &c->sweep_timer, RETRY_NS << c->sweep_tries);
        if (c->sweep_tries < RETRIES)
                c->sweep_tries++;
}

/*
 * Over. All of it is done again if something came or went and a heal has ended since (which asked for a sweep while this one was under way), or if nothing
 * did, and yet a drive or the machine refused something.
 */
static void sweep_end(struct eng_sweep *sweep, bool whole)
{
        struct eng_store *store = sweep->store;
        bool asked = !whole && sweep->asked_again;
        bool again = !whole && !void_now(sweep);

        pthread_mutex_lock(&store->health_lock);
        store->health.sweeping = false;
        store->health.swept_ids += sweep->swept;
        pthread_mutex_unlock(&store->health_lock);
        eng_sweep_free(store);
        if (asked)
                eng_sweep_consider(store);
        else if (again)
                sweep_later(store->coord);
        else if (whole)
                store->coord->sweep_tries = 0;
}

static void sweep_rested(struct lp_timer *timer)
{
        struct eng_sweep *sweep = container_of(timer, struct eng_sweep, timer);

        if (void_now(sweep))
                sweep_end(sweep, false);
        else
                sweep->then(sweep);
}

static void rest(struct eng_sweep *sweep, uint64_t ns, void (*then)(struct eng_sweep *sweep))
{
        sweep->then = then;
        sweep->timer.expired = sweep_rested;
        lp_timer_start(sweep->store->loops[0].loop, &sweep->timer, ns);
}

/* A drive could not answer yet: `then` asks it again, a little later. */
static bool is_turned_away(struct eng_sweep *sweep, const struct eng_op *op, void (*then)(struct eng_sweep *sweep))
{
        if (op->result != -EAGAIN || void_now(sweep) || ++sweep->tries >= INDEX_TRIES)
                return false;
        rest(sweep, AGAIN_NS, then);
        return true;
}

/* When the store's upkeep may go on. */
static void rest_for_pace(struct eng_sweep *sweep, void (*then)(struct eng_sweep *sweep))
{
        struct lp_loop *loop = sweep->store->loops[0].loop;

        eng_pacer_look(&sweep->store->pacer, &sweep->store->loops[0]);
        rest(sweep, eng_pacer_wait(&sweep->store->pacer, lp_now(loop)), then);
}

/* The first drive of the store at this slot or behind it; ENG_DRIVES_MAX: none. */
static unsigned drive_from(const struct eng_sweep *sweep, unsigned slot)
{
        while (slot < ENG_DRIVES_MAX && !(sweep->store->coord->view.map->all & eng_bit(slot)))
                slot++;
        return slot;
}

static struct eng_op *new_op(struct eng_sweep *sweep, enum eng_op_kind kind, void (*done)(struct eng_op *op))
{
        struct eng_op *op = &sweep->op;

        memset(op, 0, sizeof(*op));
        op->kind = kind;
        op->epoch = sweep->epoch;
        op->done = done;
        return op;
}

static struct eng_sweep *of_op(struct eng_op *op)
{
        return container_of(op, struct eng_sweep, op);
}

/* No upload that is under way, or begins later, can come to name it. */
static bool is_past(const struct eng_sweep *sweep, const uint8_t id[FMT_ID])
{
        uint32_t epoch;
        uint16_t loop;
        uint64_t counter;

        memcpy(&epoch, id, 4);
        memcpy(&loop, id + 4, 2);
        memcpy(&counter, id + 8, 8);
        epoch = be32toh(epoch);
        loop = be16toh(loop);
        if (loop >= sweep->store->loop_count)
                return epoch < sweep->store->first_epoch; /* of an earlier run, with more loops */
        if (epoch != sweep->bounds[loop].epoch)
                return epoch < sweep->bounds[loop].epoch;
        return be64toh(counter) < sweep->bounds[loop].counter;
}

/* ---- DISCARD ------------------------------------------------------------------------------------------------- */

static void sweep_read_ids(struct eng_sweep *sweep);

static void page_ends(struct eng_sweep *sweep)
{
        if (sweep->last)
                next_drive(sweep);
        else
                rest_for_pace(sweep, sweep_read_ids);
}

static void sweep_discarded(struct eng_op *op)
{
        struct discard *d = (struct discard *)op;
        struct eng_sweep *sweep = d->sweep;

        d->out = false;
        sweep->out--;
        sweep->swept += op->result == 0;
        sweep->refused |= op->result != 0;
        discard_some(sweep);
}

static void discard_one(struct eng_sweep *sweep, const uint8_t id[FMT_ID])
{
        struct discard *d = sweep->discards;

        while (d->out)
                d++;
        memset(d, 0, sizeof(*d));
        d->sweep = sweep;
        d->out = true;
        d->op.kind = ENG_OP_DISCARD;
        d->op.flags = ENG_OP_RESERVE;
        d->op.epoch = sweep->epoch;
        d->op.done = sweep_discarded;
        memcpy(d->op.discard.object_id, id, FMT_ID);
        sweep->out++;
        eng_drive_submit(sweep->store->members[sweep->drive].drive, &d->op);
}

/* Goes through what is left of the page. */
static void discard_some(struct eng_sweep *sweep)
{
        bool give_up = void_now(sweep);

        for (; !give_up && sweep->next < sweep->count && sweep->out < DISCARDS; sweep->next++) {
                const struct candidate *c = &sweep->candidates[sweep->next];

                if (!c->owned && !atomic_load(&c->is_read))
                        discard_one(sweep, c->id);
        }
        if (sweep->out > 0)
                return;
        if (give_up)
                sweep_end(sweep, false);
        else
                page_ends(sweep);
}

/* ---- READERS ------------------------------------------------------------------------------------------------- */

static bool count_readers(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        ((struct eng_sweep *)arg)->begun[el->index] = el->get_count;
        return true;
}

static int sweep_by_id(const void *a, const void *b)
{
        return memcmp(a, b, FMT_ID);
}

static void sweep_keep(void *arg, const struct eng_part *part)
{
        struct eng_sweep *sweep = arg;
        struct candidate *c = bsearch(part->head.id, sweep->candidates, sweep->count, sizeof(*c), sweep_by_id);

        if (c != NULL)
                atomic_store(&c->is_read, true);
}

static bool keep_read(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct eng_sweep *sweep = arg;

        if (!eng_get_each_part(el, sweep->begun[el->index], sweep_keep, sweep))
                atomic_store(&sweep->unknown, true);
        return true;
}

static void readers_kept(struct eng_store *store, void *arg);

static void ask_readers(struct eng_sweep *sweep)
{
        atomic_store(&sweep->unknown, false);
        if (eng_cast(sweep->store, keep_read, readers_kept, sweep) != 0)
                sweep_end(sweep, false);
}

static void readers_kept(struct eng_store *store, void *arg)
{
        struct eng_sweep *sweep = arg;

        if (store->stopping)
                return;
        if (!atomic_load(&sweep->unknown)) {
                sweep->next = 0;
                discard_some(sweep);
        } else if (++sweep->tries > LOOKUP_TRIES) {
                sweep_end(sweep, false);
        } else {
                rest(sweep, AGAIN_NS, ask_readers);
        }
}

static void readers_counted(struct eng_store *store, void *arg)
{
        if (!store->stopping)
                ask_readers(arg);
}

/* Nothing names those that are left, so nobody can begin to read them; who began before is among those counted now. */
static void count_all_readers(struct eng_sweep *sweep)
{
        sweep->tries = 0;
        if (eng_cast(sweep->store, count_readers, readers_counted, sweep) != 0)
                sweep_end(sweep, false);
}

/* ---- ASK ----------------------------------------------------------------------------------------------------- */

/* Gathers what the drive is to be asked. */
static uint32_t sweep_gather(struct eng_sweep *sweep)
{
        uint32_t n = 0;
        unsigned i;

        for (i = 0; i < sweep->count; i++) {
                if (sweep->candidates[i].owned || !(sweep->candidates[i].ask & eng_bit(sweep->asked)))
                        continue;
                memcpy(sweep->ids[n], sweep->candidates[i].id, FMT_ID);
                sweep->of[n++] = (uint16_t)i;
        }
        return n;
}

static void sweep_owned(struct eng_op *op)
{
        struct eng_sweep *sweep = of_op(op);
        uint32_t i;

        if (is_turned_away(sweep, op, sweep_ask_next))
                return;
        if (op->result != 0 || void_now(sweep)) {
                if (op->result == 0)
                        eng_buf_unref(op->owned.bits);
                sweep_end(sweep, false);
                return;
        }
        for (i = 0; i < op->owned.count; i++) {
                struct candidate *c = &sweep->candidates[sweep->of[i]];

                c->owned |= (op->owned.bits->data[i / 8] >> i % 8 & 1) != 0;
                c->ask &= ~eng_bit(sweep->asked);
        }
        eng_buf_unref(op->owned.bits);
        sweep->asked++;
        sweep_ask_next(sweep);
}

/* After the members of their groups all other drives: a key's hash that is wrong on a drive must not cost an object. 0: all are owned. */
static unsigned ask_everywhere(struct eng_sweep *sweep, eng_mask asked)
{
        unsigned i, left = 0;

        for (i = 0; i < sweep->count; i++) {
                struct candidate *c = &sweep->candidates[i];

                left += !c->owned;
                c->ask |= asked;
        }
        sweep->everywhere = true;
        sweep->asked = drive_from(sweep, 0);
        return left;
}

static void sweep_ask_next(struct eng_sweep *sweep)
{
        struct eng_op *op;
        uint32_t n;

        for (;;) {
                sweep->asked = drive_from(sweep, sweep->asked);
                if (sweep->asked == ENG_DRIVES_MAX) {
                        if (sweep->everywhere) {
                                count_all_readers(sweep);
                                return;
                        }
                        if (ask_everywhere(sweep, sweep->store->coord->view.map->all) == 0) {
                                page_ends(sweep);
                                return;
                        }
                }
                n = sweep_gather(sweep);
                if (n > 0)
                        break;
                sweep->asked++;
        }
        op = new_op(sweep, ENG_OP_OWNED, sweep_owned);
        op->owned.ids = (const uint8_t(*)[FMT_ID])sweep->ids;
        op->owned.count = n;
        op->owned.mark = sweep->marks[sweep->asked];
        eng_drive_submit(sweep->store->members[sweep->asked].drive, op);
}

/* ---- IDS ----------------------------------------------------------------------------------------------------- */

/* Who must know of its name: the members of its key's group, or every drive. */
static eng_mask askable(const struct eng_sweep *sweep, uint64_t key_hash)
{
        const struct eng_placement *map = sweep->store->coord->view.map;
        const struct eng_group *group = &map->groups[eng_pg_of_hash(sweep->store->pg_count, key_hash)];

        return key_hash == 0 ? map->all : (group->before | group->after) & map->all;
}

static void take_id(struct eng_sweep *sweep, const struct eng_held_id *held)
{
        struct candidate *c = &sweep->candidates[sweep->count];

        memcpy(sweep->after, held->id, FMT_ID);
        if (!is_past(sweep, held->id))
                return;
        memset(c, 0, sizeof(*c));
        memcpy(c->id, held->id, FMT_ID);
        c->ask = askable(sweep, held->key_hash);
        sweep->count++;
}

static void ids_read(struct eng_op *op)
{
        struct eng_sweep *sweep = of_op(op);
        const struct eng_held_id *held = op->result != 0 || op->ids.ids == NULL ? NULL : (const void *)op->ids.ids->data;
        uint32_t i;

        if (is_turned_away(sweep, op, sweep_read_ids))
                return;
        if (op->result != 0 || void_now(sweep)) {
                if (op->result == 0)
                        eng_buf_unref(op->ids.ids);
                sweep_end(sweep, false);
                return;
        }
        sweep->count = 0;
        for (i = 0; held != NULL && i < op->ids.count; i++)
                take_id(sweep, &held[i]);
        sweep->last = op->ids.count < op->ids.max;
        eng_pacer_spend(&sweep->store->pacer, lp_now(sweep->store->loops[0].loop), (uint64_t)op->ids.count * ENG_PACER_ID);
        eng_buf_unref(op->ids.ids);
        sweep->tries = 0;
        sweep->asked = 0;
        sweep->everywhere = false;
        if (sweep->count == 0)
                page_ends(sweep);
        else
                sweep_ask_next(sweep);
}

static void sweep_read_ids(struct eng_sweep *sweep)
{
        struct eng_op *op = new_op(sweep, ENG_OP_IDS, ids_read);

        memcpy(op->ids.after, sweep->after, FMT_ID);
        op->ids.max = PAGE;
        eng_drive_submit(sweep->store->members[sweep->drive].drive, op);
}

static void next_drive(struct eng_sweep *sweep)
{
        sweep->drive = drive_from(sweep, sweep->drive + 1);
        memset(sweep->after, 0, FMT_ID);
        if (sweep->drive == ENG_DRIVES_MAX)
                sweep_end(sweep, !sweep->refused);
        else
                rest_for_pace(sweep, sweep_read_ids);
}

/* ---- MARKS --------------------------------------------------------------------------------------------------- */

static void ask_mark(struct eng_sweep *sweep);

static void marked(struct eng_op *op)
{
        struct eng_sweep *sweep = of_op(op);

        if (is_turned_away(sweep, op, ask_mark))
                return;
        if (op->result != 0 || void_now(sweep)) {
                sweep_end(sweep, false);
                return;
        }
        sweep->marks[sweep->drive] = op->owned.mark;
        sweep->drive++;
        ask_mark(sweep);
}

static void ask_mark(struct eng_sweep *sweep)
{
        sweep->drive = drive_from(sweep, sweep->drive);
        if (sweep->drive < ENG_DRIVES_MAX) {
                eng_drive_submit(sweep->store->members[sweep->drive].drive, new_op(sweep, ENG_OP_OWNED, marked));
                return;
        }
        sweep->drive = drive_from(sweep, 0);
        sweep_read_ids(sweep);
}

/* ---- BOUNDS -------------------------------------------------------------------------------------------------- */

static bool take_bound(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct eng_sweep *sweep = arg;
        struct bound *b = &sweep->bounds[el->index];

        b->epoch = (uint32_t)el->view.epoch;
        b->counter = el->id_counter + 1;
        eng_put_oldest(el, &b->epoch, &b->counter);
        return true;
}

static void bounds_taken(struct eng_store *store, void *arg)
{
        struct eng_sweep *sweep = arg;

        if (store->stopping)
                return; /* eng_sweep_free() frees it */
        if (void_now(sweep))
                sweep_end(sweep, false);
        else
                ask_mark(sweep);
}

void eng_sweep_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_sweep *sweep;

        if (c->sweep != NULL)
                c->sweep->asked_again = true;
        if (c->store->stopping || c->phase != ENG_PHASE_OPEN || c->sweep != NULL || c->join != NULL)
                return;
        lp_timer_stop(store->loops[0].loop, &c->sweep_timer);
        sweep = calloc(1, sizeof(*sweep));
        if (sweep == NULL) {
                sweep_later(c);
                return;
        }
        c->sweep = sweep;
        sweep->store = store;
        sweep->epoch = c->view.epoch;
        if (void_now(sweep)) {
                eng_sweep_free(store);
                return;
        }
        sweep->bounds = calloc(store->loop_count, sizeof(*sweep->bounds));
        sweep->begun = calloc(store->loop_count, sizeof(*sweep->begun));
        sweep->candidates = calloc(PAGE, sizeof(*sweep->candidates));
        sweep->ids = calloc(PAGE, FMT_ID);
        sweep->of = calloc(PAGE, sizeof(*sweep->of));
        if (sweep->bounds == NULL || sweep->begun == NULL || sweep->candidates == NULL || sweep->ids == NULL || sweep->of == NULL ||
            eng_cast(store, take_bound, bounds_taken, sweep) != 0) {
                eng_sweep_free(store);
                sweep_later(c);
                return;
        }
        pthread_mutex_lock(&store->health_lock);
        store->health.sweeping = true;
        pthread_mutex_unlock(&store->health_lock);
}
