/*
 * sweep.c - finds shards that no record names, and gives their space back: of uploads that a crash cut off, of discards it lost, of
 * objects that were deleted while their drive was out. Coordinator.
 *
 * The proof (I6) is an order of events. First each loop says from which object id on its uploads may still come to be named (the
 * oldest upload under way; ids are given in order). Then all names of all drives are read, parts before objects, since a part can become an
 * object's meanwhile but never the other way round; and each loop names what is being read there just then. Then each drive is
 * asked what ids it has shards of: one that is older than what its loop said, and that nobody named, can't be named any
 * more. No drive may be out, and none come or go meanwhile; and no change may have been given up in this run with its record on
 * its way (it counts after the next start).
 *
 * Names are remembered in a Bloom filter of bounded size: what it knows by mistake is found by the next sweep, which hashes
 * differently. A sweep follows each heal that leaves nothing to be done.
 */
#include "engine/store.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 512u                       /* names read at a time */
#define IDS 1024u                       /* ids read at a time */
#define DISCARDS 16u                    /* at the same time */
#define REST_NS (5ull * 1000 * 1000)    /* after each page */
#define LOOKUP_NS (50ull * 1000 * 1000) /* between looks whether lookups have ended ... */
#define LOOKUP_TRIES 200u               /* ... so many times */
#define FILTER_BITS (1u << 25)
#define FILTER_HASHES 4u

enum sweep_step { STEP_PARTS, STEP_OBJECTS, STEP_READERS, STEP_IDS };

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

/* owner: coordinator; bounds[i], begun[i], filter: loops during a cast; ops: the drives while out */
struct eng_sweep {
        struct eng_store *store;
        enum sweep_step step;
        uint64_t epoch;                 /* in which it began */
        uint64_t seed;
        atomic_uint_fast64_t *filter;
        struct bound *bounds;
        uint64_t *begun;                /* objects that each loop had opened when all names were read */
        atomic_bool unknown;            /* one of them is still being looked up */
        unsigned tries;
        unsigned drive;                 /* being read */
        struct eng_name from, to;
        uint8_t after[FMT_ID];
        struct eng_op read;             /* SCAN, IDS */
        unsigned ids_next;              /* of the page */
        struct discard discards[DISCARDS];
        unsigned out;
        uint64_t swept;
        struct lp_timer timer;
};

static void next_page(struct eng_sweep *sweep);
static void discard_some(struct eng_sweep *sweep);

void eng_sweep_free(struct eng_store *store)
{
        struct eng_sweep *sweep = store->coord->sweep;

        store->coord->sweep = NULL;
        if (sweep == NULL)
                return;
        lp_timer_stop(store->loops[0].loop, &sweep->timer);
        if (sweep->step == STEP_IDS)
                eng_buf_unref(sweep->read.ids.ids);
        free((void *)sweep->filter);
        free(sweep->bounds);
        free(sweep->begun);
        free(sweep);
}

static void end(struct eng_sweep *sweep)
{
        struct eng_store *store = sweep->store;

        pthread_mutex_lock(&store->health_lock);
        store->health.sweeping = false;
        store->health.swept_ids += sweep->swept;
        pthread_mutex_unlock(&store->health_lock);
        eng_sweep_free(store);
}

/* Something came or went: what was read proves nothing. */
static bool void_now(const struct eng_sweep *sweep)
{
        const struct eng_store *store = sweep->store;
        const struct eng_coord *c = store->coord;

        return c->stopping || c->changing || c->view.epoch != sweep->epoch || (c->view.in & c->view.up) != c->view.map->all ||
               atomic_load(&store->unsettled);
}

/* ---- which ids are named ------------------------------------------------------------------------------------- */

static void filter_bits(const struct eng_sweep *sweep, const uint8_t id[FMT_ID], uint32_t bits[FILTER_HASHES])
{
        uint64_t a = eng_hash(id, FMT_ID, sweep->seed), b = eng_hash(id, FMT_ID, ~sweep->seed) | 1;
        unsigned i;

        for (i = 0; i < FILTER_HASHES; i++)
                bits[i] = (uint32_t)((a + i * b) % FILTER_BITS);
}

static void remember(struct eng_sweep *sweep, const uint8_t id[FMT_ID])
{
        uint32_t bits[FILTER_HASHES];
        unsigned i;

        filter_bits(sweep, id, bits);
        for (i = 0; i < FILTER_HASHES; i++)
                atomic_fetch_or_explicit(&sweep->filter[bits[i] / 64], 1ull << (bits[i] % 64), memory_order_relaxed);
}

static bool is_named(const struct eng_sweep *sweep, const uint8_t id[FMT_ID])
{
        uint32_t bits[FILTER_HASHES];
        unsigned i;

        filter_bits(sweep, id, bits);
        for (i = 0; i < FILTER_HASHES; i++)
                if (!(sweep->filter[bits[i] / 64] >> (bits[i] % 64) & 1))
                        return false;
        return true;
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

/* ---- names --------------------------------------------------------------------------------------------------- */

static void rested(struct lp_timer *timer)
{
        next_page((struct eng_sweep *)((char *)timer - offsetof(struct eng_sweep, timer)));
}

static void rest(struct eng_sweep *sweep)
{
        sweep->timer.expired = rested;
        if (lp_timer_start(sweep->store->loops[0].loop, &sweep->timer, REST_NS) != 0)
                end(sweep);
}

static void begin_step(struct eng_sweep *sweep, enum sweep_step step)
{
        enum fmt_space space = step == STEP_PARTS ? FMT_SPACE_PART : FMT_SPACE_OBJECT;

        sweep->step = step;
        sweep->from.len = sweep->to.len = 1;
        sweep->from.data[0] = (uint8_t)space;
        sweep->to.data[0] = (uint8_t)space + 1;
        memset(sweep->after, 0, FMT_ID);
        memset(&sweep->read, 0, sizeof(sweep->read));
}

/* ---- objects that are being read ------------------------------------------------------------------------------ */

static bool count_readers(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        ((struct eng_sweep *)arg)->begun[el->index] = el->get_count;
        return true;
}

static void keep(void *arg, const struct eng_part *part)
{
        remember(arg, part->head.id);
}

static bool keep_read(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct eng_sweep *sweep = arg;

        if (!eng_get_each_part(el, sweep->begun[el->index], keep, sweep))
                atomic_store(&sweep->unknown, true);
        return true;
}

static void readers_kept(struct eng_store *store, void *arg);

static void ask_again(struct eng_sweep *sweep)
{
        atomic_store(&sweep->unknown, false);
        if (eng_cast(sweep->store, keep_read, readers_kept, sweep) != 0)
                end(sweep);
}

static void waited(struct lp_timer *timer)
{
        ask_again((struct eng_sweep *)((char *)timer - offsetof(struct eng_sweep, timer)));
}

static void readers_kept(struct eng_store *store, void *arg)
{
        struct eng_sweep *sweep = arg;

        if (store->coord->stopping)
                return;
        if (!atomic_load(&sweep->unknown)) {
                begin_step(sweep, STEP_IDS);
                rest(sweep);
                return;
        }
        sweep->timer.expired = waited;
        if (++sweep->tries > LOOKUP_TRIES || lp_timer_start(store->loops[0].loop, &sweep->timer, LOOKUP_NS) != 0)
                end(sweep);
}

static void readers_counted(struct eng_store *store, void *arg)
{
        if (!store->coord->stopping)
                ask_again(arg);
}

/*
 * Who reads an object goes on reading it when it is deleted. One that was opened after all names were read had its name
 * then, so its parts are remembered; those opened before are asked for.
 */
static void ask_readers(struct eng_sweep *sweep)
{
        if (eng_cast(sweep->store, count_readers, readers_counted, sweep) != 0)
                end(sweep);
}

/* The first drive of the store at this slot or behind it; ENG_DRIVES_MAX: none. */
static unsigned drive_from(const struct eng_sweep *sweep, unsigned slot)
{
        while (slot < ENG_DRIVES_MAX && !(sweep->store->coord->view.map->all & eng_bit(slot)))
                slot++;
        return slot;
}

static void next_drive(struct eng_sweep *sweep)
{
        sweep->drive = drive_from(sweep, sweep->drive + 1);
        if (sweep->drive == ENG_DRIVES_MAX) {
                if (sweep->step == STEP_IDS) {
                        end(sweep);
                        return;
                }
                sweep->drive = drive_from(sweep, 0);
                sweep->step++;
        }
        if (sweep->step == STEP_READERS) {
                ask_readers(sweep);
                return;
        }
        begin_step(sweep, sweep->step);
        rest(sweep);
}

static void take_entry(struct eng_sweep *sweep, const struct eng_scan_entry *e)
{
        const uint8_t *value = (const uint8_t *)(e + 1) + e->name_len;
        struct eng_part part;
        size_t pos = 0;

        sweep->from.len = e->name_len;
        memcpy(sweep->from.data, e + 1, e->name_len);
        while (eng_value_next_part(value, e->value_len, &pos, &part) == 1)
                remember(sweep, part.head.id);
}

static void scanned(struct eng_op *op)
{
        struct eng_sweep *sweep = (struct eng_sweep *)((char *)op - offsetof(struct eng_sweep, read));
        const uint8_t *at = op->scan.entries == NULL ? NULL : op->scan.entries->data;
        uint32_t i;

        if (op->result != 0 || void_now(sweep)) {
                eng_buf_unref(op->scan.entries);
                end(sweep);
                return;
        }
        for (i = 0; at != NULL && i < op->scan.count; i++) {
                take_entry(sweep, (const struct eng_scan_entry *)at);
                at += ((const struct eng_scan_entry *)at)->size;
        }
        eng_buf_unref(op->scan.entries);
        if (op->scan.more)
                rest(sweep);
        else
                next_drive(sweep);
}

static void scan(struct eng_sweep *sweep)
{
        struct eng_op *op = &sweep->read;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->flags = ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS;
        op->epoch = sweep->epoch;
        op->done = scanned;
        op->scan.from = sweep->from.data;
        op->scan.from_len = sweep->from.len;
        op->scan.after = true;
        op->scan.to = sweep->to.data;
        op->scan.to_len = sweep->to.len;
        op->scan.max = PAGE;
        eng_drive_submit(sweep->store->members[sweep->drive].drive, op);
}

/* ---- ids ----------------------------------------------------------------------------------------------------- */

static void discarded(struct eng_op *op)
{
        struct discard *d = (struct discard *)op;
        struct eng_sweep *sweep = d->sweep;

        d->out = false;
        sweep->out--;
        sweep->swept += op->result == 0;
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
        d->op.done = discarded;
        memcpy(d->op.discard.object_id, id, FMT_ID);
        sweep->out++;
        eng_drive_submit(sweep->store->members[sweep->drive].drive, &d->op);
}

/* Goes through the page of ids; reads the next when all of it is dealt with. */
static void discard_some(struct eng_sweep *sweep)
{
        struct eng_op *op = &sweep->read;
        bool last = op->ids.count < op->ids.max, give_up = void_now(sweep);

        while (!give_up && sweep->ids_next < op->ids.count && sweep->out < DISCARDS) {
                const uint8_t *id = op->ids.ids->data + (size_t)sweep->ids_next++ * FMT_ID;

                memcpy(sweep->after, id, FMT_ID);
                if (is_past(sweep, id) && !is_named(sweep, id))
                        discard_one(sweep, id);
        }
        if (sweep->out > 0)
                return;
        if (give_up) {
                end(sweep);
                return;
        }
        eng_buf_unref(op->ids.ids);
        op->ids.ids = NULL;
        if (last)
                next_drive(sweep);
        else
                rest(sweep);
}

static void ids_read(struct eng_op *op)
{
        struct eng_sweep *sweep = (struct eng_sweep *)((char *)op - offsetof(struct eng_sweep, read));

        sweep->ids_next = 0;
        if (op->result != 0)
                end(sweep);
        else
                discard_some(sweep);
}

static void read_ids(struct eng_sweep *sweep)
{
        struct eng_op *op = &sweep->read;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_IDS;
        op->epoch = sweep->epoch;
        op->done = ids_read;
        memcpy(op->ids.after, sweep->after, FMT_ID);
        op->ids.max = IDS;
        eng_drive_submit(sweep->store->members[sweep->drive].drive, op);
}

static void next_page(struct eng_sweep *sweep)
{
        if (void_now(sweep))
                end(sweep);
        else if (sweep->step == STEP_IDS)
                read_ids(sweep);
        else
                scan(sweep);
}

/* ---- the beginning -------------------------------------------------------------------------------------------- */

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

        if (store->coord->stopping)
                return; /* eng_sweep_free() frees it */
        sweep->drive = drive_from(sweep, 0);
        begin_step(sweep, STEP_PARTS);
        next_page(sweep);
}

void eng_sweep_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_sweep *sweep;

        if (c->stopping || c->phase != ENG_PHASE_OPEN || c->sweep != NULL || c->join != NULL)
                return;
        sweep = calloc(1, sizeof(*sweep));
        if (sweep == NULL)
                return;
        c->sweep = sweep;
        sweep->store = store;
        sweep->epoch = c->view.epoch;
        lp_random(&sweep->seed, sizeof(sweep->seed));
        sweep->filter = calloc(FILTER_BITS / 64, sizeof(sweep->filter[0]));
        sweep->bounds = calloc(store->loop_count, sizeof(*sweep->bounds));
        sweep->begun = calloc(store->loop_count, sizeof(*sweep->begun));
        if (sweep->filter == NULL || sweep->bounds == NULL || sweep->begun == NULL || void_now(sweep) ||
            eng_cast(store, take_bound, bounds_taken, sweep) != 0) {
                eng_sweep_free(store);
                return;
        }
        pthread_mutex_lock(&store->health_lock);
        store->health.sweeping = true;
        pthread_mutex_unlock(&store->health_lock);
}
