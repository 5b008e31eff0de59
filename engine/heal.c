/*
 * heal.c - walks all objects and has those mended that lack shards: written while a drive was out, they were recorded
 * without it; or the drive that their record names is new, and does not hold what the lost one held. Coordinator.
 *
 * A walk begins when the store opens and when a drive has become a member again; it waits while a drive catches up. It
 * takes pages of a listing at leisure. The first time round it counts what lacks shards, and how many (a survey); then
 * it goes round once for each number of missing shards, the most endangered first, and has one object after the other
 * mended at a bounded rate. What could not be mended (too few drives, a client was faster, no buffers) is counted, and
 * tried again by the next walk: after a while if it may go better then.
 *
 * Names of parts are surveyed before those of objects: a part can become an object's meanwhile, never the other way
 * round. Parts are not mended; what an upload lacks is given to the object it becomes.
 */
#include "engine/mend.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 128u                      /* names looked at at a time */
#define REST_NS (10ull * 1000 * 1000)  /* after each page */
#define AGAIN_NS (30ull * 1000 * 1000 * 1000)
#define AGAIN_PARTS_NS (600ull * 1000 * 1000 * 1000)
#define AGAIN_LEAVING_NS (3ull * 1000 * 1000 * 1000)  /* an operator waits to take the drive out */
#define AGAIN_DAILY_NS (24 * 3600ull * 1000 * 1000 * 1000)
#define RATE_DEFAULT (64ull << 20)

struct lacking {
        struct eng_name name;
        uint64_t bytes;                /* of the shards it lacks */
        bool below;
};

/* owner: coordinator */
struct eng_heal {
        struct eng_store *store;
        bool walking, again;           /* a walk is under way; another one is wanted */
        unsigned level;                /* 0: survey; else objects that lack so many shards are mended */
        unsigned worst;                /* the most that an object that can be mended lacks */
        eng_mask filling;              /* drives that were being filled when it began */
        eng_mask homeless;             /* and those that were leaving, or are gone: what records name on them goes to others */
        atomic_bool old_puts;          /* when it began, an object was on its way that may have shards on the one that leaves */
        uint64_t epoch;                /* in which it began */
        uint64_t written;              /* bytes */
        uint64_t leaving_since;        /* epoch */
        struct eng_mend *mend;         /* under way */
        struct eng_name from, to;
        bool more;
        struct lacking *lacking;       /* of this page; PAGE */
        unsigned count, next;
        struct eng_heal_report report;
        struct lp_timer timer;
};

static void walk(struct eng_heal *heal);
static void mend_next(struct eng_heal *heal);
static void next_round(struct eng_heal *heal);

static uint64_t seconds_left(const struct eng_heal_report *r)
{
        uint64_t left = r->todo_bytes > r->done_bytes ? r->todo_bytes - r->done_bytes : 0;
        int64_t spent = lp_wall_ms() - r->started_ms;

        if (!r->running || r->done_bytes == 0 || spent <= 0)
                return 0;
        return left / (r->done_bytes * 1000 / (uint64_t)spent + 1) + 1;
}

static void publish(struct eng_heal *heal)
{
        struct eng_store *store = heal->store;
        struct eng_heal_report *r = &heal->report;

        pthread_mutex_lock(&store->health_lock);
        store->health.healing = r->running;
        store->health.heal_bytes_left = r->running && r->todo_bytes > r->done_bytes ? r->todo_bytes - r->done_bytes : 0;
        store->health.heal_seconds_left = seconds_left(r);
        if (r->surveyed || r->below > store->health.objects_below)
                store->health.objects_below = r->below;
        store->heal = *r;
        if (!r->running && (heal->written > 0 || r->failed_objects > 0))
                store->last_heal = *r;
        pthread_mutex_unlock(&store->health_lock);
}

static void count_mended(struct eng_heal *heal, uint64_t bytes)
{
        struct eng_store *store = heal->store;

        pthread_mutex_lock(&store->health_lock);
        store->health.mended_objects++;
        store->health.mended_bytes += bytes;
        pthread_mutex_unlock(&store->health_lock);
}

static void again(struct lp_timer *timer)
{
        struct eng_heal *heal = (struct eng_heal *)((char *)timer - offsetof(struct eng_heal, timer));

        if (heal->walking)
                walk(heal);
        else
                eng_heal_consider(heal->store);
}

static void later(struct eng_heal *heal, uint64_t ns)
{
        heal->timer.expired = again;
        lp_timer_start(heal->store->loops[0].loop, &heal->timer, ns);
}

/* ---- what is missing ------------------------------------------------------------------------------------------- */

/* Drives that do not answer for what records name on them. */
static eng_mask lost_drives(const struct eng_heal *heal)
{
        const struct eng_view *view = &heal->store->coord->view;

        return ~(view->in & view->up) | heal->filling;
}

/* Of what records name there, shards can be given to drives anew. */
static eng_mask mendable_drives(const struct eng_heal *heal)
{
        return heal->filling | heal->homeless;
}

/* Drives enough that every run could have all its shards: else mending would only move the lack around. */
static bool enough_drives(const struct eng_store *store)
{
        const struct eng_view *view = &store->coord->view;

        return view->writable &&
               (unsigned)__builtin_popcountll(view->in & view->up & ~view->map->leaving) >= store->k + store->m;
}

/*
 * How many shards a value lacks at the worst place, or has on a drive that leaves; *mendable: of those that can be given back, *bytes. *below: it
 * lacks some now.
 */
static unsigned lack_of(const struct eng_heal *heal, const struct eng_merge_entry *e, bool *mendable, bool *below, uint64_t *bytes)
{
        eng_mask lost = lost_drives(heal);
        unsigned most = 0, n;
        struct eng_part part;
        size_t pos = 0;

        *bytes = 0;
        *mendable = *below = false;
        while (eng_value_next_part(e->value, e->value_len, &pos, &part) == 1) {
                n = eng_mend_lack(&part, lost | heal->homeless);
                most = n > most ? n : most;
                *below |= eng_mend_lack(&part, lost) > 0;
                *mendable |= n != 0 && eng_mend_lack(&part, mendable_drives(heal)) > 0;
                *bytes += n == 0 ? 0 : eng_mend_lack_bytes(&part, mendable_drives(heal));
        }
        return most;
}

static void survey(struct eng_heal *heal, const struct eng_merge_entry *e)
{
        struct eng_heal_report *r = &heal->report;
        uint64_t bytes;
        bool mendable, below;
        unsigned n = lack_of(heal, e, &mendable, &below, &bytes);

        if (heal->from.data[0] == FMT_SPACE_PART) {
                r->waiting_parts += mendable;
                return;
        }
        r->looked_at++;
        r->below += below;
        if (!mendable || !enough_drives(heal->store))
                return;
        r->todo_objects++;
        r->todo_bytes += bytes;
        heal->worst = n > heal->worst ? n : heal->worst;
}

static void pick(struct eng_heal *heal, const struct eng_merge_entry *e)
{
        struct lacking *l = &heal->lacking[heal->count];
        bool mendable;

        if (lack_of(heal, e, &mendable, &l->below, &l->bytes) != heal->level || !mendable)
                return;
        l->name = heal->from;
        heal->count++;
}

/* ---- one page ------------------------------------------------------------------------------------------------- */

static void failed(struct eng_heal *heal)
{
        heal->report.failed_objects++;
}

static void mended(void *arg, int rv, uint64_t bytes)
{
        struct eng_heal *heal = arg;

        heal->mend = NULL;
        heal->written += bytes;
        if (rv != 0) {
                failed(heal);
        } else {
                heal->report.done_objects++;
                heal->report.done_bytes += heal->lacking[heal->next - 1].bytes;
                heal->report.below -= heal->report.below > 0 && heal->lacking[heal->next - 1].below;
                if (bytes > 0)
                        count_mended(heal, bytes);
        }
        publish(heal);
        mend_next(heal);
}

static void mend_next(struct eng_heal *heal)
{
        uint64_t rate = heal->store->options.heal_rate;

        if (heal->store->coord->stopping)
                return;
        while (heal->next < heal->count) {
                struct eng_mend_order order = {
                        .name = &heal->lacking[heal->next++].name,
                        .rate = rate == 0 ? RATE_DEFAULT : rate,
                        .digests = heal->report.digest,
                };

                heal->mend = eng_mend_start(heal->store, &order, mended, heal);
                if (heal->mend != NULL)
                        return;
                failed(heal);
        }
        publish(heal);
        if (heal->more)
                later(heal, REST_NS);
        else
                next_round(heal);
}

static void listed(void *arg, int rv, const struct eng_merge_entry *entries, unsigned count, bool more)
{
        struct eng_heal *heal = arg;
        unsigned i;

        heal->count = heal->next = 0;
        heal->more = rv == 0 && more && count > 0;
        for (i = 0; rv == 0 && i < count; i++) {
                heal->from.len = entries[i].name_len;
                memcpy(heal->from.data, entries[i].name, entries[i].name_len);
                if (heal->level == 0)
                        survey(heal, &entries[i]);
                else if (enough_drives(heal->store))
                        pick(heal, &entries[i]);
        }
        if (rv != 0)
                failed(heal);
        mend_next(heal);
}

static void walk(struct eng_heal *heal)
{
        struct eng_merge_params m = {
                .from = &heal->from,
                .to = &heal->to,
                .after = true,
                .delimiter = "",
                .flags = ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS,
                .max = PAGE,
        };

        eng_merge_start(&heal->store->loops[0], &m, listed, heal);
}

/* ---- rounds ---------------------------------------------------------------------------------------------------- */

static void begin_round(struct eng_heal *heal, enum fmt_space space)
{
        heal->from.len = heal->to.len = 1;
        heal->from.data[0] = (uint8_t)space;
        heal->to.data[0] = (uint8_t)space + 1;
        walk(heal);
}

/* All that was to be given back is there, and no drive came or went meanwhile: those drives are like any other now. */
static void filled(struct eng_heal *heal)
{
        struct eng_coord *c = heal->store->coord;
        const struct eng_heal_report *r = &heal->report;

        if (mendable_drives(heal) == 0 || r->failed_objects != 0 || r->waiting_parts != 0 || r->done_objects < r->todo_objects)
                return;
        if (heal->epoch != c->view.epoch || (heal->filling & ~(c->view.in & c->view.up)) != 0 || !enough_drives(heal->store))
                return;
        if (!atomic_load(&heal->old_puts) && (heal->homeless & c->shape.leaving) != 0)
                eng_reshape_drained(heal->store);
        if (heal->filling == 0)
                return;
        c->filling &= ~heal->filling;
        eng_epoch_change(heal->store); /* so that the next start knows */
}

static void end(struct eng_heal *heal)
{
        heal->walking = false;
        heal->report.running = false;
        heal->report.level = 0;
        heal->report.ended_ms = lp_wall_ms();
        publish(heal);
        filled(heal);
        if (heal->again) {
                eng_heal_consider(heal->store);
                return;
        }
        if ((heal->homeless & heal->store->coord->shape.leaving) != 0 && !heal->store->coord->drained)
                later(heal, AGAIN_LEAVING_NS);
        else if (heal->report.failed_objects != 0)
                later(heal, AGAIN_NS);
        else if (heal->report.waiting_parts != 0)
                later(heal, AGAIN_PARTS_NS);
        else
                later(heal, AGAIN_DAILY_NS);
        if (heal->report.failed_objects == 0)
                eng_sweep_consider(heal->store);
}

static void next_round(struct eng_heal *heal)
{
        if (heal->level == 0 && heal->to.data[0] == FMT_SPACE_PART + 1) {
                begin_round(heal, FMT_SPACE_OBJECT);
                return;
        }
        heal->report.surveyed = true;
        heal->level = heal->level == 0 ? heal->worst : heal->level - 1;
        heal->report.level = heal->level;
        publish(heal);
        if (heal->level == 0)
                end(heal);
        else
                begin_round(heal, FMT_SPACE_OBJECT);
}

/* ---- life ---------------------------------------------------------------------------------------------------------- */

static struct eng_heal *make(struct eng_store *store)
{
        struct eng_heal *heal = calloc(1, sizeof(*heal));

        if (heal == NULL)
                return NULL;
        heal->store = store;
        heal->lacking = calloc(PAGE, sizeof(*heal->lacking));
        if (heal->lacking == NULL) {
                free(heal);
                return NULL;
        }
        return heal;
}

/* What an object that was begun before holds on the drive that leaves, no record names yet. */
static bool see_puts(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        struct eng_heal *heal = arg;
        uint32_t epoch = UINT32_MAX;
        uint64_t counter;

        eng_put_oldest(el, &epoch, &counter);
        if (epoch < heal->leaving_since)
                atomic_store(&heal->old_puts, true);
        return true;
}

static void puts_seen(struct eng_store *store, void *arg)
{
        struct eng_heal *heal = arg;

        if (store->coord->stopping)
                return;
        begin_round(heal, FMT_SPACE_PART);
}

/* A walk that goes on filling the drives that the last one could not fill to the end adds to what that has written. */
static void new_report(struct eng_heal *heal, bool goes_on)
{
        struct eng_heal_report *r = &heal->report;
        struct eng_digest digest[ENG_DRIVES_MAX];

        memcpy(digest, r->digest, sizeof(digest));
        memset(r, 0, sizeof(*r));
        if (goes_on)
                memcpy(r->digest, digest, sizeof(digest));
        else
                heal->written = 0;
        r->running = true;
        r->started_ms = lp_wall_ms();
}

void eng_heal_consider(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        struct eng_heal *heal;
        eng_mask filling;

        if (c->stopping)
                return;
        if (c->heal == NULL)
                c->heal = make(store);
        heal = c->heal;
        if (heal == NULL || c->phase != ENG_PHASE_OPEN)
                return;
        if (store->m == 0) { /* without parity nothing is ever missing and readable */
                eng_sweep_consider(store);
                return;
        }
        heal->again = heal->walking || c->join != NULL;
        if (heal->again)
                return; /* asked again when that is over */
        lp_timer_stop(store->loops[0].loop, &heal->timer);
        heal->walking = true;
        heal->level = heal->worst = 0;
        filling = c->filling & c->view.in & c->view.up;
        new_report(heal, filling != 0 && filling == heal->filling);
        heal->filling = filling;
        heal->homeless = eng_placement_homeless(c->view.map);
        atomic_store(&heal->old_puts, false);
        heal->epoch = c->view.epoch;
        publish(heal);
        heal->leaving_since = c->leaving_since;
        if (c->shape.leaving == 0 || eng_cast(store, see_puts, puts_seen, heal) != 0) {
                atomic_store(&heal->old_puts, c->shape.leaving != 0);
                begin_round(heal, FMT_SPACE_PART);
        }
}

void eng_heal_read(struct eng_store *store, struct eng_heal_report *now, struct eng_heal_report *last)
{
        pthread_mutex_lock(&store->health_lock);
        *now = store->heal;
        *last = store->last_heal;
        pthread_mutex_unlock(&store->health_lock);
}

void eng_heal_free(struct eng_store *store)
{
        if (store->coord->heal == NULL)
                return;
        if (store->coord->heal->mend != NULL)
                eng_mend_drop(store->coord->heal->mend);
        lp_timer_stop(store->loops[0].loop, &store->coord->heal->timer);
        free(store->coord->heal->lacking);
        free(store->coord->heal);
        store->coord->heal = NULL;
}
