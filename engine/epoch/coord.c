/*
 * coord.c - the coordinator (one of the loops) while the store serves: drives that fail, the epochs
 * that go on without them, and health.
 *
 * An epoch change: all loops pause appends and wait until those in flight on living members are
 * answered; the record of the new epoch is made durable on each of its members; only then do the
 * loops take it, and what waited for the dead drive is settled without it (DESIGN: an epoch is in
 * force only once it is durable on every member).
 */
#include "engine/bucket/bucket.h"
#include "engine/bucket/config_feed.h"
#include "engine/epoch/epoch.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEALTH_NS (250ull * 1000 * 1000)
#define AGAIN_NS (50ull * 1000 * 1000)

/* ---- going on without a drive ---------------------------------------------------------------- */

/*
 * A start that finds this epoch cannot tell whether all its members have it, so it must have a
 * majority of the one before too. Another epoch of the same members says that this one was in
 * force, and is enough by itself.
 */
static bool unconfirmed(const struct eng_coord *c)
{
        return c->view.writable && c->base != c->view.in;
}

static void change_over(struct eng_store *store, void *arg)
{
        struct eng_coord *c = store->coord;

        assert(c->changing && !c->view.paused);
        c->changing = false;
        eng_lost_settle(store);
        eng_health_refresh(store);
        eng_feed_tell(store);
        /*
         * A change that waited for a drive which is gone counts without a drive that joins by this
         * epoch. The next epoch waits until all members have committed it, so the comparison, which
         * is to find it, begins behind that one.
         */
        if (c->again || unconfirmed(c))
                eng_epoch_change(store);
        else
                eng_catch_up_epoch(store);
        eng_rebalance_epoch(store);
        eng_migrated_drop_consider(store);
        store->events->work_changed(store); /* more objects may lack shards now, or fewer */
}

/* The placement of an epoch that was not made is of no use. */
static void drop_next_map(struct eng_coord *c)
{
        eng_placement_free(c->next_map);
        c->next_map = NULL;
}

static void give_up_writing(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        assert(c->changing);
        drop_next_map(c);
        if (store->options.cluster != NULL) { /* the next start waits for the drives */
                eng_cluster_ended(store, "half of the drives do not answer, and some placement group has no current copy without them");
                return;
        }
        c->view.writable = false;
        c->view.paused = false;
        c->view.joining = 0;
        eng_view_spread(store, &store->coord->view, change_over);
}

static void take_shape(struct eng_coord *c)
{
        eng_mask gone = c->next_shape.gone & ~c->shape.gone;

        c->shape = c->next_shape;
        c->added = 0;
        c->present &= ~gone;
        c->view.up &= ~gone;
        eng_shape_map_taken(c);
}

void eng_shape_map_taken(struct eng_coord *c)
{
        if (c->next_map == NULL)
                return;
        c->next_map->next = c->maps;
        c->maps = c->next_map;
        c->next_map = NULL;
        c->view.map = c->maps;
}

int eng_shape_map(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        const struct eng_shape *next = &c->next_shape;
        const struct eng_placement *map = c->view.map;

        drop_next_map(c);
        if (map != NULL && map->drives == store->drive_count && map->adding == next->adding &&
            map->leaving == next->leaving && map->gone == next->gone)
                return 0;
        c->next_map = eng_placement_new(store, next->adding, next->leaving, next->gone);
        return c->next_map != NULL ? 0 : -ENOMEM;
}

static void epoch_durable(struct eng_store *store, eng_mask failed)
{
        struct eng_coord *c = store->coord;
        unsigned i;

        assert(c->changing && c->view.paused);
        assert((failed & ~(c->next_in | c->next_joining)) == 0);
        if (failed != 0) { /* it was not in force: begin again with what is left */
                if (c->decided != NULL)
                        c->said_gone |= c->next_shape.gone;
                for (i = 0; i < store->drive_count; i++)
                        if (failed & eng_bit(i))
                                eng_drive_failed(store, i, store->members[i].drive, "the record of an epoch could not be appended");
                c->view.up &= ~failed;
                c->changing = false;
                eng_epoch_change(store);
                return;
        }
        c->view.epoch = c->next_number;
        eng_epoch_body_taken(c);
        eng_down_write_off(c);
        c->in_force = c->view.epoch;
        memcpy(c->in_force_id, c->epoch_id, FMT_ID);
        lp_trace(LP_TRACE_EPOCH, c->view.epoch, c->next_in);
        c->base = c->view.in;
        c->view.in = c->next_in;
        c->lost &= ~c->next_in;
        take_shape(c);
        eng_lost_taken(c);
        c->view.joining = c->next_joining;
        c->view.up |= c->next_joining & c->present;
        c->view.paused = false;
        eng_view_spread(store, &store->coord->view, change_over);
}

/* Whoever joins or leaves by the next epoch: a group that has a current member keeps one; in a cluster, one that was lost keeps its members. */
static bool keeps_groups(const struct eng_coord *c)
{
        const struct eng_group *from = c->view.map->groups;
        const unsigned count = c->view.map->group_count;

        return c->next_map == NULL || (eng_groups_handed_over(from, c->next_map->groups, count, c->next_in) &&
                                       (!c->view.map->decided || eng_groups_lost_stay(from, c->next_map->groups, count, c->view.in)));
}

/* Those that are left may make an epoch; what one that was decided has removed is none of them. */
static bool rest_may_form(const struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        const eng_mask in = c->view.in & ~c->said_gone;

        return eng_lost_could_form(store, in & c->view.up, in);
}

static void loops_quiet(struct eng_store *store, void *arg);

static void begin_again(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, epoch_timer);

        if (!c->store->stopping)
                loops_quiet(c->store, NULL);
}

/* There was no memory for the epoch: the loops stay paused for a while. */
static void begin_later(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        drop_next_map(c);
        c->epoch_timer.expired = begin_again;
        lp_timer_start(store->coord_loop->loop, &c->epoch_timer, AGAIN_NS);
}

static void loops_quiet(struct eng_store *store, void *arg)
{
        struct eng_coord *c = store->coord;
        eng_mask promoted = 0;
        uint8_t id[FMT_ID];
        struct eng_buf *body = NULL;
        int rv = -ENOMEM;

        assert(c->changing && c->view.paused && c->append == NULL);
        if (!rest_may_form(store)) {
                give_up_writing(store); /* another drive failed while the loops paused */
                return;
        }
        eng_catch_up_wants(store, &c->next_joining, &promoted);
        c->next_joining &= c->present & ~c->view.in; /* it may have become a member, and catch_up.c not know yet */
        promoted &= c->next_joining;
        if ((c->view.in & ~c->view.up) != 0) /* those that leave first: if this one is never in force, the members before it are all members still */
                promoted = 0;
        promoted = eng_rebalance_promotes(store, promoted);
        c->next_in = (c->view.in & c->view.up) | promoted;
        c->next_joining &= ~promoted;
        eng_rebalance_next(store, promoted);
        c->next_in &= ~c->next_shape.gone;
        assert(c->next_in != 0);
        c->next_joining &= ~c->next_shape.gone;
        lp_random(id, sizeof(id));
        c->next_number = eng_epoch_next_number(store);
        eng_lost_next(store, c->view.in);
        if (eng_shape_map(store) == 0) {
                assert(keeps_groups(c));
                body = eng_epoch_body(store, c->next_number, id, c->epoch_id, c->next_in, c->next_joining, c->view.in);
        }
        if (body != NULL)
                rv = eng_epoch_append(store, c->next_number, body, c->next_in | c->next_joining, epoch_durable);
        eng_buf_unref(body);
        if (rv != 0)
                begin_later(store);
        else if (store->options.cluster == NULL) /* else when it is decided */
                memcpy(c->epoch_id, id, FMT_ID);
}

void eng_epoch_change(struct eng_store *store)
{
        struct eng_coord *c = store->coord;

        assert(eng_on_coordinator(store));
        if (c->store->stopping)
                return;
        if (c->changing || c->phase != ENG_PHASE_OPEN) { /* recovery makes its own, and what was asked for while it runs comes after it (force.c) */
                c->again = true;
                return;
        }
        c->again = false;
        c->postponed = eng_decided_may_wait(store);
        if (c->postponed)
                return;
        c->changing = true;
        if (!c->view.writable || !rest_may_form(store)) {
                give_up_writing(store);
                return;
        }
        c->view.paused = true;
        eng_view_spread(store, &store->coord->view, loops_quiet);
}

static bool look_again(struct eng_loop *el, void *arg, struct lp_msg *ack)
{
        eng_txn_view_changed(el);
        return true;
}

static void coord_go_on_without(struct eng_store *store, unsigned slot, const struct eng_drive *drive, enum eng_drive_state state, const char *text)
{
        struct eng_coord *c = store->coord;
        eng_mask counted = c->view.in | c->view.joining;
        const struct eng_member *m = &store->members[slot];

        assert(eng_on_coordinator(store));
        if ((drive != m->drive && drive != m->local) || (c->shape.gone & eng_bit(slot))) /* another has taken its place, or none is to */
                return;
        if (c->changing) /* by the epoch that is being made, too */
                counted |= c->next_in | c->next_joining;
        if (state == ENG_DRIVE_MISSING)
                c->down |= eng_bit(slot);
        eng_down_fell_out(store, slot);
        eng_member_state(store, slot, state, text);
        c->present &= ~eng_bit(slot);
        c->view.up &= ~eng_bit(slot);
        if (c->phase == ENG_PHASE_OPEN && (counted & eng_bit(slot)))
                eng_epoch_change(store);
        if (c->changing && eng_broadcast(store, look_again, NULL, NULL) != 0)
                abort(); /* a loop that waits for this drive would wait for ever */
        eng_health_refresh(store);
        eng_epoch_append_without(store, slot);
}

void eng_coord_drive_failed(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text)
{
        coord_go_on_without(store, slot, drive, ENG_DRIVE_FAILED, text);
}

void eng_coord_drive_unreachable(struct eng_store *store, unsigned slot, const struct eng_drive *drive, const char *text)
{
        char reason[160];

        snprintf(reason, sizeof(reason), "does not answer: %.140s", text);
        coord_go_on_without(store, slot, drive, ENG_DRIVE_MISSING, reason);
}

void eng_coord_open(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        eng_mask lost = c->view.in & ~c->view.up;

        assert(c->view.ready);
        eng_phase_set(c, ENG_PHASE_OPEN);
        eng_feed_open(store);
        eng_discards_open(store);
        if (eng_bucket_pools(store) != 0) /* a drive that was out when the first of them was made gets it by its return */
                c->features |= FMT_FEATURE_POOLS;
        store->first_epoch = c->view.epoch;
        if (((lost != 0 || c->again) && c->view.writable) || unconfirmed(c))
                eng_epoch_change(store); /* lost: failed while recovery ran its last steps */
        eng_health_refresh(store);
        eng_force_ended(store, c->read_only ? -EHOSTDOWN : 0, c->read_only ? "another drive has failed meanwhile: it is missed, too" : "");
        eng_catch_up_consider(store);
        eng_migrated_drop_consider(store);
        store->events->work_changed(store);
        eng_hot_add_start(store);
        store->events->serving(store); /* at once: who asks for a scrub of a store that is ready is heard */
        eng_drop_consider(store);
        eng_config_repair(store);
        eng_lock_start(store);
}

/* ---- health ---------------------------------------------------------------------------------- */

void eng_member_state(struct eng_store *store, unsigned slot, enum eng_drive_state state, const char *reason)
{
        struct eng_member *m = &store->members[slot];

        assert(eng_on_coordinator(store) && slot < ENG_DRIVES_MAX);
        pthread_mutex_lock(&store->health_lock);
        m->state = state;
        snprintf(m->reason, sizeof(m->reason), "%s", reason);
        lp_trace(LP_TRACE_DRIVE_STATE, slot, state);
        pthread_mutex_unlock(&store->health_lock);
}

static void hex(char *out, const uint8_t id[FMT_ID])
{
        unsigned i;

        for (i = 0; i < FMT_ID; i++)
                snprintf(out + 2 * i, 3, "%02x", id[i]);
}

static bool coord_is_full(const struct eng_drive_info *info)
{
        return info->starved || (info->total_bytes != 0 && info->free_bytes < info->reserve_bytes);
}

static void drive_health(struct eng_store *store, unsigned slot, struct eng_drive_info *out)
{
        const struct eng_member *m = &store->members[slot];

        memset(out, 0, sizeof(*out));
        if (m->local != NULL)
                eng_drive_info(m->local, out);
        out->reserve_bytes = eng_reserve_size(store->options.full_reserve_bytes, out->total_bytes);
        out->scrub = store->scrub_progress[slot];
        out->state = m->state;
        eng_catch_up_read(store, slot, &out->catch_up);
        out->adding = ((store->coord->shape.adding | store->coord->wish.adding) & eng_bit(slot)) != 0;
        out->dropping_migrated = (store->coord->shape.dropping_migrated & eng_bit(slot)) != 0;
        out->leaving = (store->coord->shape.leaving & eng_bit(slot)) != 0;
        out->filling = (store->coord->filling & eng_bit(slot)) != 0;
        snprintf(out->path, sizeof(out->path), "%s", m->path);
        hex(out->id, m->id);
        snprintf(out->reason, sizeof(out->reason), "%s", m->reason);
}

/* Of a drive in use: changes of its groups wait for another that is out. */
static bool stalls(const struct eng_store *store)
{
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (store->members[i].state == ENG_DRIVE_IN && store->members[i].drive != NULL && eng_drive_stalled(store->members[i].drive))
                        return true;
        return false;
}

static void explain(const struct eng_store *store, struct eng_health *h)
{
        const struct eng_coord *c = store->coord;

        if (c->phase == ENG_PHASE_WAITING || (c->phase == ENG_PHASE_OPENING && c->waits_for[0] != 0))
                snprintf(h->reason, sizeof(h->reason), "%s", c->waits_for);
        else if (c->phase != ENG_PHASE_OPEN)
                snprintf(h->reason, sizeof(h->reason), "recovery is under way");
        else if (!eng_takes_changes(store, &c->view))
                snprintf(h->reason, sizeof(h->reason), "%u of %u drives are in: too few to write%s", h->drives_in,
                         h->drive_count - h->drives_removed, c->lost != 0 ? "; some lost writes that they had acknowledged" : "");
        else if (c->view.lost != 0)
                snprintf(h->reason, sizeof(h->reason), "%u of %u placement groups are lost until a drive is back that was the last to have them",
                         c->view.lost, c->view.map->group_count);
        else if (c->view.map->by_groups && store->m > 0 && !eng_placement_can_write(c->view.map, c->view.in, store->k, store->m))
                snprintf(h->reason, sizeof(h->reason), "%u of %u placement groups have fewer than two current members, and take no changes",
                         eng_groups_alone(c->view.map->groups, c->view.map->group_count, c->view.in), c->view.map->group_count);
        else if (!eng_takes_shards(store, &c->view))
                snprintf(h->reason, sizeof(h->reason), "%u of %u drives are in: too few for the shards of new objects", h->drives_in,
                         h->drive_count - h->drives_removed);
        else if (atomic_load(&store->stalled))
                snprintf(h->reason, sizeof(h->reason), "the damaged index of a drive fills its memory while another drive is out");
        else if (h->full)
                snprintf(h->reason, sizeof(h->reason), "a drive has less free space than its reserve");
}

void eng_health_refresh(struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        struct eng_health *h = calloc(1, sizeof(*h));
        bool full = false, stalled = stalls(store);
        unsigned i;

        assert(eng_on_coordinator(store));
        if (h == NULL)
                return;
        hex(h->store_id, store->store_id);
        h->ec_k = store->k;
        h->ec_m = store->m;
        h->drive_count = store->drive_count;
        h->epoch = c->view.epoch;
        h->buckets = store->coord_loop->bucket_count;
        h->degraded_reads = atomic_load(&store->degraded_reads);
        h->repaired_reads = atomic_load(&store->repaired_reads);
        h->reconciled_records = atomic_load(&store->reconciled_records);
        pthread_mutex_lock(&store->health_lock);
        for (i = 0; i < store->drive_count; i++) {
                drive_health(store, i, &h->drives[i]);
                h->drives_in += h->drives[i].state == ENG_DRIVE_IN;
                h->drives_removed += h->drives[i].state == ENG_DRIVE_REMOVED;
                h->cache_bytes += h->drives[i].cache_bytes;
                h->cache_hits += h->drives[i].cache_hits;
                h->cache_misses += h->drives[i].cache_misses;
                full |= h->drives[i].state == ENG_DRIVE_IN && coord_is_full(&h->drives[i]);
        }
        h->full = full;
        h->healing = store->health.healing;
        h->objects_below = store->health.objects_below;
        memcpy(h->objects_lacking, store->health.objects_lacking, sizeof(h->objects_lacking));
        h->undecided_names = store->health.undecided_names;
        h->lost_objects = store->health.lost_objects;
        h->collecting_orphans = store->health.collecting_orphans;
        h->dropping = eng_drop_running(store);
        h->orphan_ids = store->health.orphan_ids;
        h->heal_bytes_left = store->health.heal_bytes_left;
        h->heal_seconds_left = store->health.heal_seconds_left;
        h->heal_pace = store->health.heal_pace;
        h->heal_rate = eng_pacer_rate_now(&store->pacer, lp_clock());
        h->rebuilt_objects = store->health.rebuilt_objects;
        h->rebuilt_bytes = store->health.rebuilt_bytes;
        atomic_store(&store->full, full);
        atomic_store(&store->stalled, stalled);
        h->ready = c->phase == ENG_PHASE_OPEN;
        h->waits = c->phase == ENG_PHASE_WAITING;
        h->writable = h->ready && eng_takes_changes(store, &c->view) && !full && !stalled;
        explain(store, h);
        store->health = *h;
        eng_outlook_take(store, &store->outlook);
        pthread_mutex_unlock(&store->health_lock);
        free(h);
}

static void health_tick(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, health_timer);

        eng_health_refresh(c->store);
        if (c->postponed && !c->changing)
                eng_epoch_change(c->store);
        eng_down_look(c->store);
        eng_feed_tell(c->store);
        if (c->phase == ENG_PHASE_OPEN) /* what has begun does nothing; one that had no memory for it begins later */
                c->store->events->serving(c->store);
        lp_timer_start(c->store->coord_loop->loop, timer, HEALTH_NS);
}

void eng_health_start(struct eng_store *store)
{
        store->coord->health_timer.expired = health_tick;
        lp_timer_start(store->coord_loop->loop, &store->coord->health_timer, HEALTH_NS);
}

void eng_health_read(struct eng_store *store, struct eng_health *out)
{
        pthread_mutex_lock(&store->health_lock);
        *out = store->health;
        pthread_mutex_unlock(&store->health_lock);
        eng_lock_read(store, &out->lock);
        out->hedged_reads = atomic_load(&store->hedged_reads);
        out->hedges_won = atomic_load(&store->hedges_won);
}
