/*
 * heal.c - the store's upkeep: when the names of all groups are walked, and what follows when they
 * have been. Coordinator.
 *
 * A walk begins when the store opens and when its drives have changed, also while a drive catches
 * up. Each loop walks the groups whose primary it is (walk_worker.c), and repairs what it meets. If
 * the drives change meanwhile, what has been begun ends, and a new walk begins. One that has come
 * to its end and left nothing makes the drives that were being filled like any other, and is
 * followed by a search for shards that nobody names (orphans.c).
 *
 * A walk that a change of drives or a restart cuts off is followed by one that begins where it was,
 * and goes round: a place that is old or wrong changes the order in which names are looked at,
 * never which. It is a record of the configuration (kept.c), written once a minute while a walk is
 * under way.
 *
 * What could not be repaired (too few drives, a client was faster, no buffers) is counted, and
 * tried again by the next walk, which begins at the first such object: those before it lack
 * nothing. A name that members have differently, and of which nobody can tell yet whether it is
 * there, is counted too: the next walk comes as soon, and begins at the first name.
 */
#include "engine/object/object.h"
#include "engine/epoch/epoch.h"
#include "engine/upkeep/rebuild.h"
#include "engine/upkeep/upkeep.h"
#include "engine/walk/kept.h"
#include "engine/upkeep/walk_worker.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS (1000ull * 1000 * 1000)
#define AGAIN_NS (30 * SECOND_NS)
#define AGAIN_SOON_NS (3 * SECOND_NS)      /* an operator waits to take the drive out; or parts of uploads wait, and the walk was short */
#define AGAIN_LONG_NS (600 * SECOND_NS)    /* it was long */
#define AGAIN_DAILY_NS (24 * 3600 * SECOND_NS)
#define STOP_NS (SECOND_NS / 10)           /* no memory to stop: again after that */
#define KEEP_NS (60 * SECOND_NS)           /* between records of how far a walk has come */
#define KEY 'w'

_Static_assert(ENG_LACKS == ERA_MAX_M + 1, "engine.h");

/* What a walk depends on. */
struct drives {
        eng_mask in, filling, homeless;
        const struct eng_placement *map;
        uint64_t leaving_since;        /* epoch */
        bool writable;
};

/* owner: coordinator; workers: their loops, where walk_worker.h does not say otherwise */
struct eng_heal {
        struct eng_store *store;
        bool running, stopping, again; /* a walk is under way; it is to end before its end; another one is wanted */
        atomic_bool old_puts;          /* when it began, an object was on its way that may have shards on the drive that leaves */
        struct drives drives;          /* when it began */
        uint64_t epoch;                /* the last of the same drives */
        struct eng_walk_worker_order order;
        uint64_t began;                /* lp_now() */
        uint64_t written;              /* as reported when it began */
        struct eng_name place;         /* objects before it lacked nothing when the last walk ended, which failed at some behind it; len 0: none */
        struct eng_name cut;           /* where a walk was cut off that is to be gone on with, by a change of drives or a restart; len 0: nowhere */
        struct eng_kept kept;          /* the record of that */
        struct lp_timer keep_timer;
        bool loaded, is_kept;          /* the record has been read; it names a place */
        unsigned left;                 /* workers that have not ended */
        struct eng_op sync;            /* of the drives in to_flush, one after the other */
        eng_mask to_flush;             /* of those that a walk has filled, not flushed yet; 0: another walk has begun since */
        eng_mask filled;               /* all of those */
        bool flushing, flush_anew;     /* sync is on its way; another walk has ended meanwhile */
        struct lp_timer timer;
        struct eng_walk_worker *workers;        /* one for each loop */
        uint32_t *names;               /* by group: that the walk under way has met; the workers write those of their groups */
};

static uint64_t seconds_left(const struct eng_heal_report *r)
{
        uint64_t left = r->todo_bytes > r->done_bytes ? r->todo_bytes - r->done_bytes : 0;
        int64_t spent = lp_wall_ms() - r->started_ms;

        if (!r->running || !r->surveyed || r->done_bytes == 0 || spent <= 0)
                return 0;
        return left / (r->done_bytes * 1000 / (uint64_t)spent + 1) + 1;
}

/* Bytes/s that have been given back so far. */
static uint64_t pace_so_far(const struct eng_heal_report *r)
{
        int64_t spent = lp_wall_ms() - r->started_ms;

        return r->running && spent > 0 ? r->done_bytes * 1000 / (uint64_t)spent : 0;
}

static bool all_surveyed(const struct eng_heal *heal)
{
        unsigned i;

        for (i = 0; i < heal->store->loop_count; i++)
                if (!heal->workers[i].surveyed)
                        return false;
        return true;
}

/* Repairs that somebody asked for, of which no walk of all groups knows, have failed and are to be tried again. */
static bool any_asked(const struct eng_heal *heal)
{
        unsigned i;

        for (i = 0; i < heal->store->loop_count; i++)
                if (heal->workers[i].asked)
                        return true;
        return false;
}

/*
 * A look that has not seen all objects yet raises what is known, never lowers it: of each number of
 * missing shards, how many objects lack so many or more.
 */
static void publish_lacking(struct eng_health *health, const struct eng_heal_report *r)
{
        uint64_t was = 0, now = 0, worse = 0;
        unsigned n;

        for (n = ENG_LACKS; n-- > 0;) {
                uint64_t known;

                was += health->objects_lacking[n];
                now += r->lacking[n];
                known = r->surveyed || now > was ? now : was;
                health->objects_lacking[n] = known - worse;
                worse = known;
        }
        health->objects_below = worse;
}

void eng_heal_publish(struct eng_store *store)
{
        struct eng_heal_report *r = &store->heal;

        r->surveyed = all_surveyed(store->coord->heal);
        store->health.healing = r->running || any_asked(store->coord->heal);
        store->health.heal_bytes_left = r->running && r->todo_bytes > r->done_bytes ? r->todo_bytes - r->done_bytes : 0;
        store->health.heal_seconds_left = seconds_left(r);
        store->health.heal_pace = pace_so_far(r);
        publish_lacking(&store->health, r);
        if (r->surveyed || r->undecided_names > store->health.undecided_names)
                store->health.undecided_names = r->undecided_names;
        if (!r->running && (r->written > 0 || r->failed_objects > 0 || r->undecided_names > 0))
                store->last_heal = *r;
}

static void heal_again(struct lp_timer *timer)
{
        struct eng_heal *heal = container_of(timer, struct eng_heal, timer);

        eng_heal_consider(heal->store);
}

static void heal_later(struct eng_heal *heal, uint64_t ns)
{
        heal->timer.expired = heal_again;
        lp_timer_start(heal->store->coord_loop->loop, &heal->timer, ns);
}

static struct drives drives_now(const struct eng_store *store)
{
        const struct eng_coord *c = store->coord;

        return (struct drives){
                .in = c->view.in & c->view.up,
                .filling = c->filling & c->view.in & c->view.up,
                .homeless = eng_placement_homeless(c->view.map),
                .map = c->view.map,
                .leaving_since = c->shape.leaving == 0 ? 0 : c->leaving_since,
                .writable = c->view.writable,
        };
}

/*
 * As when the walk began. What it has seen of one epoch holds in the next one, if that has the same
 * drives: for one to have left and come back there must be more.
 */
static bool same_drives(struct eng_heal *heal)
{
        const struct drives now = drives_now(heal->store), *then = &heal->drives;
        uint64_t epoch = heal->store->coord->view.epoch;

        if (epoch > heal->epoch + 1 || now.in != then->in || now.filling != then->filling || now.homeless != then->homeless ||
            now.map != then->map || now.leaving_since != then->leaving_since || now.writable != then->writable)
                return false;
        heal->epoch = epoch;
        return true;
}

/* ---- where a walk is ------------------------------------------------------------------------- */

/*
 * What it has come to on the loop that is the least far; afterwards nothing is left to go on with.
 */
static void find_cut(struct eng_heal *heal)
{
        const struct eng_name *start = &heal->order.start;
        unsigned i;

        heal->cut.len = 0;
        pthread_mutex_lock(&heal->store->health_lock);
        for (i = 0; i < heal->store->loop_count; i++) {
                const struct eng_name *place = &heal->workers[i].place;

                if (place->len != 0 && place->data[0] == FMT_SPACE_OBJECT &&
                    (heal->cut.len == 0 || eng_walk_worker_compare_from(start, place, &heal->cut) < 0))
                        heal->cut = *place;
        }
        pthread_mutex_unlock(&heal->store->health_lock);
}

static void keep_cut(struct eng_heal *heal)
{
        if (heal->cut.len == 0 && !heal->is_kept)
                return; /* short walks, of which there are many, write nothing */
        heal->is_kept = heal->cut.len != 0;
        eng_kept_write(&heal->kept, heal->cut.data, heal->cut.len);
}

static void keep_later(struct eng_heal *heal)
{
        uint64_t ms = heal->store->options.heal_keep_ms;

        lp_timer_start(heal->store->coord_loop->loop, &heal->keep_timer, ms == 0 ? KEEP_NS : ms * 1000 * 1000);
}

static void keep_tick(struct lp_timer *timer)
{
        struct eng_heal *heal = container_of(timer, struct eng_heal, keep_timer);

        find_cut(heal);
        keep_cut(heal);
        keep_later(heal);
}

/* What makes no sense is as none. */
static void cut_loaded(struct eng_kept *kept, const void *data, size_t len)
{
        struct eng_heal *heal = container_of(kept, struct eng_heal, kept);
        const uint8_t *name = data;

        assert(!heal->loaded);
        heal->loaded = true;
        heal->is_kept = len != 0;
        if (len > 0 && len <= FMT_NAME_MAX && name[0] == FMT_SPACE_OBJECT) {
                heal->cut.len = (uint16_t)len;
                memcpy(heal->cut.data, name, len);
        }
        eng_heal_consider(heal->store);
}

/* ---- the end of a walk ----------------------------------------------------------------------- */

static void flush_next(struct eng_heal *heal);

static void flushed(struct eng_op *op)
{
        struct eng_heal *heal = container_of(op, struct eng_heal, sync);
        struct eng_coord *c = heal->store->coord;

        assert(heal->flushing);
        if (c->store->stopping)
                return;
        heal->flushing = false;
        if (heal->running || heal->to_flush == 0 || !same_drives(heal))
                return; /* the walk that is under way, has been, or comes, says itself what it has filled */
        if (heal->flush_anew) {
                heal->flush_anew = false;
                flush_next(heal);
                return;
        }
        if (op->result != 0) {
                heal_later(heal, AGAIN_NS);
                return;
        }
        heal->to_flush &= heal->to_flush - 1;
        if (heal->to_flush != 0) {
                flush_next(heal);
                return;
        }
        c->filling &= ~heal->filled;
        eng_epoch_change(heal->store); /* so that the next start knows */
}

static void flush_next(struct eng_heal *heal)
{
        unsigned slot = (unsigned)__builtin_ctzll(heal->to_flush);

        assert(heal->to_flush != 0 && !heal->flushing);
        heal->flushing = true;
        memset(&heal->sync, 0, sizeof(heal->sync));
        heal->sync.kind = ENG_OP_SYNC;
        heal->sync.epoch = heal->store->coord->view.epoch;
        heal->sync.done = flushed;
        eng_drive_submit(heal->store->members[slot].drive, &heal->sync);
}

/*
 * All that was to be given back is there, and no drive came or went meanwhile: those drives are
 * like any other now. Some of what they say that they hold may have been written by a repair that
 * was cut off before its flush.
 */
static void filled(struct eng_heal *heal)
{
        struct eng_coord *c = heal->store->coord;

        assert((heal->drives.filling & ~heal->drives.in) == 0);
        if (!atomic_load(&heal->old_puts) && (heal->drives.homeless & c->shape.leaving) != 0)
                eng_rebalance_drained(heal->store);
        heal->to_flush = heal->filled = heal->drives.filling;
        heal->flush_anew = heal->flushing;
        if (heal->to_flush != 0 && !heal->flushing)
                flush_next(heal);
}

/* The first object that is not known to lack nothing. */
static void find_place(struct eng_heal *heal)
{
        unsigned i;

        heal->place = heal->workers[0].place;
        for (i = 1; i < heal->store->loop_count; i++)
                if (eng_walk_worker_compare(&heal->workers[i].place, &heal->place) < 0)
                        heal->place = heal->workers[i].place;
}

/*
 * What the last walk could not help, the next one may not help either: it comes as soon as half of
 * the time is not spent on walks.
 */
static uint64_t half_time(const struct eng_heal *heal, uint64_t least, uint64_t most)
{
        uint64_t took = lp_now(heal->store->coord_loop->loop) - heal->began;

        if (took < least)
                return least;
        return took < most ? took : most;
}

/*
 * Until the next walk. helped: the last one has written something. An upload that lacks shards ends
 * at its client's leisure.
 */
static uint64_t rest_for(const struct eng_heal *heal, bool failed, bool parts, bool helped)
{
        const struct eng_coord *c = heal->store->coord;
        uint64_t ms = heal->store->options.heal_again_ms, again = ms == 0 ? AGAIN_NS : ms * 1000 * 1000;

        if ((heal->drives.homeless & c->shape.leaving) != 0 && !c->drained)
                return helped ? AGAIN_SOON_NS : half_time(heal, AGAIN_SOON_NS, AGAIN_LONG_NS);
        if (failed)
                return helped ? again : half_time(heal, again, AGAIN_LONG_NS);
        if (!parts)
                return AGAIN_DAILY_NS;
        return half_time(heal, AGAIN_SOON_NS, heal->drives.filling != 0 ? AGAIN_LONG_NS : AGAIN_DAILY_NS);
}

/* Of a walk that went through all groups from end to end: what it has counted is what there is. */
static void keep_names(struct eng_heal *heal)
{
        struct eng_store *store = heal->store;
        size_t size = (store->pg_count + 1) * sizeof(*heal->names);

        if (store->pg_names == NULL)
                store->pg_names = malloc(size);
        if (store->pg_names != NULL)
                memcpy(store->pg_names, heal->names, size);
}

static void walk_over(struct eng_heal *heal)
{
        struct eng_store *store = heal->store;
        struct eng_heal_report *r = &store->heal;
        bool whole, failed, undecided, parts, helped, all_seen, skipped = false;
        unsigned i;

        assert(heal->running && heal->left == 0);
        pthread_mutex_lock(&store->health_lock);
        r->running = false;
        r->level = 0;
        r->ended_ms = lp_wall_ms();
        lp_trace(LP_TRACE_REPAIR, false, r->done_objects);
        eng_heal_publish(store);
        for (i = 0; i < store->loop_count; i++)
                skipped |= heal->workers[i].skipped;
        failed = r->failed_objects != 0;
        undecided = r->undecided_names != 0;
        parts = r->waiting_parts != 0;
        helped = r->written != heal->written;
        all_seen = r->surveyed;
        whole = r->surveyed && !failed && !parts && !skipped && store->coord->view.lost == 0;
        find_place(heal);
        pthread_mutex_unlock(&store->health_lock);
        heal->running = false;
        if (all_seen && !heal->stopping && heal->order.from.len == 0)
                keep_names(heal);
        lp_timer_stop(store->coord_loop->loop, &heal->keep_timer);
        if (heal->stopping)
                find_cut(heal);
        else
                heal->cut.len = 0;
        keep_cut(heal);
        if (!failed || undecided || heal->stopping || parts || heal->drives.homeless != 0 || heal->order.start.len != 0)
                heal->place.len = 0; /* there is nothing to be tried again, or objects that come to lack something, or to be named, may stand before it */
        if (whole && !heal->stopping && !heal->again && same_drives(heal))
                filled(heal);
        if (heal->again || heal->stopping) {
                eng_heal_consider(store);
                return;
        }
        heal_later(heal, rest_for(heal, failed || undecided, parts, helped));
        if (!failed)
                eng_orphans_consider(store);
}

static void walk_worker_ended(struct eng_walk_worker *worker)
{
        struct eng_heal *heal = worker->store->coord->heal;

        assert(eng_on_coordinator(worker->store) && heal->left > 0);
        if (--heal->left == 0 && !worker->store->stopping)
                walk_over(heal);
}

/* ---- a walk ---------------------------------------------------------------------------------- */

static bool stop_walk_worker(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        eng_walk_worker_stop(&((struct eng_heal *)arg)->workers[el->index]);
        return true;
}

static void stop_walk(struct eng_heal *heal)
{
        assert(heal->running && !heal->stopping);
        heal->stopping = eng_broadcast(heal->store, stop_walk_worker, NULL, heal) == 0;
        if (!heal->stopping)
                heal_later(heal, STOP_NS);
}

static bool begin_walk_worker(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        eng_walk_worker_begin(&((struct eng_heal *)arg)->workers[el->index]);
        return true;
}

static void not_begun(struct eng_heal *heal)
{
        assert(heal->running);
        pthread_mutex_lock(&heal->store->health_lock);
        heal->store->heal.running = false;
        eng_heal_publish(heal->store);
        pthread_mutex_unlock(&heal->store->health_lock);
        heal->running = false;
}

static void heal_begin_walk(struct eng_heal *heal)
{
        struct eng_store *store = heal->store;
        unsigned i;

        assert(heal->running && !heal->again);
        pthread_mutex_lock(&store->health_lock);
        for (i = 0; i < store->loop_count; i++) {
                struct eng_walk_worker *worker = &heal->workers[i];

                worker->place = heal->order.from.len != 0 ? heal->order.from : heal->order.start;
                worker->surveyed = worker->skipped = false;
        }
        pthread_mutex_unlock(&store->health_lock);
        memset(heal->names, 0, (store->pg_count + 1) * sizeof(*heal->names));
        heal->left = store->loop_count;
        if (eng_broadcast(store, begin_walk_worker, NULL, heal) == 0) {
                keep_later(heal);
                return;
        }
        not_begun(heal);
        heal_later(heal, AGAIN_NS);
}

/* What an object that was begun before holds on the drive that leaves, no record names yet. */
static bool see_puts(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct eng_heal *heal = arg;
        uint8_t id[FMT_ID];
        uint64_t epoch;

        if ((eng_put_oldest(el, id, &epoch) && epoch < heal->drives.leaving_since) ||
            (eng_rebuild_oldest(el, id, &epoch) && epoch < heal->drives.leaving_since))
                atomic_store(&heal->old_puts, true);
        return true;
}

static void puts_seen(struct eng_store *store, void *arg)
{
        struct eng_heal *heal = arg;

        assert(heal->running);
        if (store->stopping)
                return;
        if (!heal->again) {
                heal_begin_walk(heal);
                return;
        }
        not_begun(heal); /* the drives have changed, and no worker knew of a walk to be stopped */
        eng_heal_consider(store);
}

/*
 * A walk that goes on filling the drives that the last one could not fill to the end adds to what
 * that has written.
 */
static void new_report(struct eng_heal *heal, bool goes_on)
{
        struct eng_store *store = heal->store;
        struct eng_heal_report *r = &store->heal;
        struct eng_heal_report before;
        unsigned i;

        pthread_mutex_lock(&store->health_lock);
        before = *r;
        lp_trace(LP_TRACE_REPAIR, true, before.below);
        for (i = 0; i < store->loop_count; i++)
                heal->workers[i].surveyed = false;
        memset(r, 0, sizeof(*r));
        r->differing_names = before.differing_names;
        r->repaired_names = before.repaired_names;
        if (goes_on) {
                memcpy(r->digest, before.digest, sizeof(r->digest));
                r->written = before.written;
        }
        heal->written = r->written;
        r->running = true;
        r->started_ms = lp_wall_ms();
        eng_heal_publish(store);
        pthread_mutex_unlock(&store->health_lock);
}

bool eng_heal_make(struct eng_store *store)
{
        struct eng_heal *heal = calloc(1, sizeof(*heal));
        unsigned i;
        int rv = 0;

        if (heal == NULL)
                return false;
        heal->store = store;
        heal->workers = calloc(store->loop_count, sizeof(*heal->workers));
        heal->names = calloc(store->pg_count + 1, sizeof(*heal->names));
        if (heal->workers == NULL || heal->names == NULL) {
                free(heal->workers);
                free(heal->names);
                free(heal);
                return false;
        }
        store->coord->heal = heal; /* eng_heal_free_late() frees what there is of it */
        heal->keep_timer.expired = keep_tick;
        eng_kept_init(&heal->kept, store, KEY, cut_loaded);
        for (i = 0; i < store->loop_count; i++) {
                heal->workers[i].order = &heal->order;
                heal->workers[i].names = heal->names;
                heal->workers[i].ended = walk_worker_ended;
                rv |= eng_walk_worker_make(&heal->workers[i], &store->loops[i]);
        }
        return rv == 0;
}

static void heal_begin(struct eng_heal *heal)
{
        struct eng_store *store = heal->store;
        struct eng_coord *c = store->coord;
        eng_mask filling = heal->drives.filling;
        bool known = heal->place.len != 0 && same_drives(heal);

        assert(!heal->running && heal->loaded);
        lp_timer_stop(store->coord_loop->loop, &heal->timer);
        heal->running = true;
        heal->stopping = heal->again = heal->flush_anew = false;
        heal->to_flush = 0;
        heal->drives = drives_now(store);
        heal->epoch = c->view.epoch;
        heal->began = lp_now(store->coord_loop->loop);
        eng_heal_choose_rate(store);
        heal->order.filling = heal->drives.filling;
        heal->order.homeless = heal->drives.homeless;
        if (!known)
                heal->place.len = 0; /* nor if this walk cannot begin */
        heal->order.from = heal->place;
        heal->order.start = heal->cut;
        if (known)
                heal->order.start.len = 0;
        atomic_store(&heal->old_puts, false);
        new_report(heal, heal->drives.filling != 0 && heal->drives.filling == filling);
        if (c->shape.leaving == 0 || eng_broadcast(store, see_puts, puts_seen, heal) != 0) {
                atomic_store(&heal->old_puts, c->shape.leaving != 0);
                heal_begin_walk(heal);
        }
}

void eng_heal_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_heal *heal = c->heal;

        assert(eng_on_coordinator(store));
        if (c->store->stopping || c->phase != ENG_PHASE_OPEN)
                return;
        if (store->m == 0) { /* without parity nothing is ever missing and readable */
                eng_orphans_consider(store);
                heal_later(heal, AGAIN_DAILY_NS);
        } else if (!heal->running) {
                if (heal->loaded)
                        heal_begin(heal);
                else if (!heal->kept.busy)
                        eng_kept_load(&heal->kept);
        } else if (heal->running && !heal->stopping && !same_drives(heal)) {
                heal->again = true;
                stop_walk(heal);
        }
}

/* ---- asked for ------------------------------------------------------------------------------- */

struct look {
        struct lp_msg msg;
        struct eng_store *store;
        uint32_t group;
};

static void look_there(struct lp_msg *msg)
{
        struct look *look = (struct look *)msg;

        eng_walk_worker_look(&look->store->coord->heal->workers[look->store->pg_loop[look->group]], look->group);
        free(look);
}

static void look_asked(struct lp_msg *msg)
{
        struct look *look = (struct look *)msg;

        if (look->store->m == 0) {
                free(look);
                return;
        }
        msg->run = look_there;
        lp_post(eng_primary(look->store, look->group)->loop, msg);
}

void eng_heal_look_at_group(struct eng_store *store, uint32_t group)
{
        struct look *look;

        if (group >= store->pg_count)
                return;
        look = calloc(1, sizeof(*look));
        if (look == NULL)
                return;
        look->store = store;
        look->group = group;
        look->msg.run = look_asked;
        lp_post(store->coord_loop->loop, &look->msg);
}

/* ---- life ------------------------------------------------------------------------------------ */

void eng_heal_read(struct eng_store *store, struct eng_heal_report *now, struct eng_heal_report *last)
{
        pthread_mutex_lock(&store->health_lock);
        *now = store->heal;
        *last = store->last_heal;
        pthread_mutex_unlock(&store->health_lock);
}

void eng_heal_free(struct eng_store *store)
{
        struct eng_heal *heal = store->coord->heal;
        unsigned i;

        lp_timer_stop(store->coord_loop->loop, &heal->timer);
        lp_timer_stop(store->coord_loop->loop, &heal->keep_timer);
        eng_kept_stop(&heal->kept);
        for (i = 0; i < store->loop_count; i++)
                eng_walk_worker_drop(&heal->workers[i]);
}

void eng_heal_free_late(struct eng_store *store)
{
        struct eng_heal *heal = store->coord->heal;
        unsigned i;

        if (heal == NULL)
                return;
        for (i = 0; i < store->loop_count; i++)
                eng_walk_worker_free(&heal->workers[i]);
        free(heal->workers);
        free(heal->names);
        free(heal);
        store->coord->heal = NULL;
}
