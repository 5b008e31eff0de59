/*
 * recover.c - from closed folders to a store that serves.
 *
 * Drives are opened by threads in parallel (replay); then, on the coordinator: choose the newest epoch that no present drive contradicts, see whether
 * enough of its members are here, put a new epoch of those that are here in force, compare the members' tails and make every record that any of
 * them holds stable on all (settle), make all of it visible, read the buckets, and give the loops their view. Nothing is answered before
 * (a PG that cannot know whether it is current answers 503). A drive that fails on the way makes it begin again without it.
 */
#include "engine/recover.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void choose(struct eng_store *store);

/* ---- opening the drives ----------------------------------------------------------------------------------------- */

static void drive_failed(void *arg, struct eng_drive *drive, const char *text)
{
        eng_drive_failed(arg, drive->slot, drive, text);
}

/* At once: before health is looked at again, more could be put than the log has room for. */
static void drive_full(void *arg, struct eng_drive *drive)
{
        struct eng_store *store = arg;

        atomic_store(&store->full, true);
}

int eng_member_open(struct eng_store *store, struct eng_member *m, struct eng_error *error)
{
        const struct eng_options *opt = &store->options;
        struct eng_local_options local = {
                .path = m->path,
                .identity = m->identity,
                .owner = store->loops[m->identity.slot % store->loop_count].loop,
                .log_file_bytes = opt->log_file_bytes,
                .segment_bytes = opt->segment_bytes,
                .tail_bytes = opt->tail_bytes,
                .cache_bytes = opt->cache_bytes / opt->drive_count,
                .full_reserve_bytes = opt->full_reserve_bytes,
                .reclaim_rate = opt->reclaim_rate,
                .times = eng_drive_times_of(store, m->identity.slot),
                .failed = drive_failed,
                .full = drive_full,
                .superseded = eng_reap_superseded,
                .arg = store,
        };
        struct eng_drive *drive = NULL;
        size_t cap = FMT_EPOCH_MAX(ENG_DRIVES_MAX);
        int rv = eng_local_open(&local, &drive, error);

        m->local = drive;
        if (rv == 0) {
                m->epoch = malloc(cap);
                rv = m->epoch == NULL ? -ENOMEM : eng_local_epoch(drive, m->epoch, cap, &m->epoch_len, &m->history);
                if (rv != 0)
                        snprintf(error->text, sizeof(error->text), "%s: no epoch could be read", m->path);
        }
        if (rv == 0) {
                rv = eng_filter_stack(m->local, opt->faults, &drive, error);
                m->drive = rv == 0 ? drive : NULL;
        }
        return rv;
}

static void *open_thread(void *arg)
{
        struct opening *o = arg;

        o->result = eng_member_open(o->store, o->member, &o->error);
        lp_post(o->store->loops[0].loop, &o->msg);
        return NULL;
}

static void opened(struct lp_msg *msg)
{
        struct opening *o = (struct opening *)msg;
        struct eng_store *store = o->store;
        struct recovery *r = store->coord->recovery;

        if (o->joined)
                return; /* the store is being closed */
        pthread_join(o->thread, NULL);
        o->joined = true;
        if (o->result != 0)
                snprintf(o->member->reason, sizeof(o->member->reason), "%.150s", o->error.text);
        if (--r->opening_left == 0)
                choose(store);
}

void eng_recover(struct eng_store *store)
{
        struct recovery *r = calloc(1, sizeof(*r));
        unsigned i;

        if (r == NULL)
                abort(); /* no memory before anything was begun */
        store->coord->recovery = r;
        store->coord->phase = ENG_PHASE_OPENING;
        r->opening_left = store->unplaced_count;
        for (i = 0; i < store->unplaced_count; i++) {
                struct opening *o = &r->opening[i];

                o->store = store;
                o->member = &store->unplaced[i];
                o->msg.run = opened;
                o->result = -EAGAIN;
                if (pthread_create(&o->thread, NULL, open_thread, o) != 0)
                        abort();
        }
}

/* ---- which epoch -------------------------------------------------------------------------------------------------- */

static bool in_history(const struct eng_member *m, const uint8_t id[FMT_ID])
{
        unsigned i;

        for (i = 0; i < m->history.count; i++)
                if (memcmp(m->history.past[i].id, id, FMT_ID) == 0)
                        return true;
        return false;
}

/* Whether a drive is in the map of an epoch, and in which slot. */
static bool names(const struct eng_member *of, const uint8_t drive_id[FMT_ID], unsigned *slot)
{
        unsigned i;

        for (i = 0; i < eng_epoch_of(of)->drives; i++)
                if (memcmp(eng_epoch_drives(of)[i].drive_id, drive_id, FMT_ID) == 0) {
                        *slot = i;
                        return true;
                }
        *slot = ENG_NO_DRIVE;
        return false;
}

static bool is_member(const struct eng_member *of, const uint8_t drive_id[FMT_ID], unsigned *slot)
{
        return names(of, drive_id, slot) && eng_epoch_drives(of)[*slot].in == FMT_EPOCH_IN;
}

/* The id of the epoch before this one, as far as any drive here has seen it. */
static bool parent_of(const struct eng_store *store, const uint8_t id[FMT_ID], uint8_t parent[FMT_ID])
{
        unsigned i, j;

        for (i = 0; i < store->unplaced_count; i++) {
                const struct eng_member *m = &store->unplaced[i];

                if (m->drive == NULL)
                        continue;
                if (memcmp(eng_epoch_of(m)->id, id, FMT_ID) == 0) {
                        memcpy(parent, eng_epoch_of(m)->parent, FMT_ID);
                        return true;
                }
                for (j = 0; j < m->history.count; j++)
                        if (memcmp(m->history.past[j].id, id, FMT_ID) == 0) {
                                memcpy(parent, m->history.past[j].parent, FMT_ID);
                                return true;
                        }
        }
        return false;
}

/* Whether an epoch is one of those that led to the newest of `of`. The drive itself need not have seen it: one that was begun and did not reach all its
 * members is known to the others alone. */
static bool is_before(const struct eng_store *store, const struct eng_member *of, const uint8_t id[FMT_ID])
{
        uint8_t at[FMT_ID];
        unsigned i;

        memcpy(at, eng_epoch_of(of)->id, FMT_ID);
        for (i = 0; i < ENG_EPOCH_HISTORY && parent_of(store, at, at); i++)
                if (memcmp(at, id, FMT_ID) == 0)
                        return true;
        return in_history(of, id);
}

/* Whether a present drive contradicts the newest epoch of `of`: it is a member there and holds one that is neither it nor before it. */
static bool contradicted(const struct eng_store *store, const struct eng_member *of)
{
        unsigned i, slot;

        for (i = 0; i < store->unplaced_count; i++) {
                const struct eng_member *m = &store->unplaced[i];

                if (m->drive == NULL || !is_member(of, m->identity.drive_id, &slot))
                        continue;
                if (memcmp(eng_epoch_of(m)->id, eng_epoch_of(of)->id, FMT_ID) != 0 && !is_before(store, of, eng_epoch_of(m)->id))
                        return true;
        }
        return false;
}

/* Whether an epoch that no present drive contradicts was forced without this drive: then what it holds is another history. */
static bool was_given_up(const struct eng_store *store, const struct eng_member *drive)
{
        unsigned i, slot;

        for (i = 0; i < store->unplaced_count; i++) {
                const struct eng_member *m = &store->unplaced[i];

                if (m->drive == NULL || !names(m, drive->identity.drive_id, &slot))
                        continue;
                if ((eng_epoch_drives(m)[slot].flags & FMT_EPOCH_GIVEN_UP) && !contradicted(store, m))
                        return true;
        }
        return false;
}

static const struct eng_member *newest(struct eng_store *store)
{
        const struct eng_member *best = NULL;
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++) {
                const struct eng_member *m = &store->unplaced[i];

                if (m->drive == NULL || eng_epoch_of(m)->number == 0) /* formatted to be taken in, which did not come to pass */
                        continue;
                if (contradicted(store, m) || was_given_up(store, m))
                        continue;
                if (best == NULL || eng_epoch_of(m)->number > eng_epoch_of(best)->number)
                        best = m;
        }
        return best;
}

/* ---- the drive map and the PGs --------------------------------------------------------------------------------------- */

static int place_pgs(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        const struct eng_placement *map;
        unsigned pg, first;

        store->meta_replicas = store->m + 1;
        store->pg_words = store->pg_count / 64 + 1;
        store->pg_loop = calloc(store->pg_count + 1, sizeof(uint16_t));
        store->pgs = calloc(store->pg_count + 1, sizeof(struct eng_pg));
        c->next_shape = c->shape;
        if (store->pg_loop == NULL || store->pgs == NULL || eng_shape_map(store) != 0)
                return -ENOMEM;
        map = c->view.map = c->maps = c->next_map;
        c->next_map = NULL;
        first = store->meta_replicas < map->drives ? store->meta_replicas : map->drives;
        for (pg = 0; pg <= store->pg_count; pg++) {
                store->pgs[pg].number = pg;
                TAILQ_INIT(&store->pgs[pg].inflight);
                if (pg < store->pg_count)
                        store->pg_loop[pg] = (uint16_t)(eng_placement_order(map, pg)[pg % first] % store->loop_count);
        }
        return 0;
}

static void take_flags(struct eng_coord *c, eng_mask drive, uint8_t flags)
{
        c->filling |= flags & FMT_EPOCH_FILLING ? drive : 0;
        c->given_up |= flags & FMT_EPOCH_GIVEN_UP ? drive : 0;
        c->shape.adding |= flags & FMT_EPOCH_ADDING ? drive : 0;
        c->shape.leaving |= flags & FMT_EPOCH_LEAVING ? drive : 0;
        c->shape.gone |= flags & FMT_EPOCH_GONE ? drive : 0;
        c->shape.shedding |= flags & FMT_EPOCH_SHEDDING ? drive : 0;
}

/* Takes the drive map from an epoch and puts the opened drives in their slots. */
static int take_map(struct eng_store *store, const struct eng_member *from)
{
        const struct fmt_epoch *epoch = eng_epoch_of(from);
        const struct fmt_epoch_drive *d = eng_epoch_drives(from);
        const uint8_t *places = from->epoch_len == FMT_EPOCH_MAX(epoch->drives) ? (const uint8_t *)(d + epoch->drives) : NULL;
        unsigned i, slot;

        store->k = epoch->k;
        store->m = epoch->m;
        store->pg_count = epoch->pg_count;
        if (era_code_new(store->k, store->m, &store->code) != 0)
                return -ENOMEM;
        for (i = 0; i < epoch->drives; i++) {
                memcpy(store->members[i].id, d[i].drive_id, FMT_ID);
                memcpy(store->members[i].place_id, places != NULL ? places + (size_t)i * FMT_ID : d[i].drive_id, FMT_ID);
                take_flags(store->coord, eng_bit(i), d[i].flags);
        }
        for (i = 0; i < store->unplaced_count; i++) {
                struct eng_member *m = &store->unplaced[i];

                is_member(from, m->identity.drive_id, &slot);
                if (slot >= epoch->drives || slot != m->identity.slot)
                        continue;
                pthread_mutex_lock(&store->health_lock);
                memcpy(store->members[slot].path, m->path, sizeof(m->path));
                memcpy(store->members[slot].reason, m->reason, sizeof(m->reason));
                store->members[slot].local = atomic_load(&m->local);
                store->members[slot].drive = atomic_load(&m->drive);
                store->members[slot].identity = m->identity;
                pthread_mutex_unlock(&store->health_lock);
        }
        pthread_mutex_lock(&store->health_lock);
        store->drive_count = epoch->drives;
        pthread_mutex_unlock(&store->health_lock);
        return place_pgs(store);
}

static bool known_path(const struct eng_store *store, unsigned slot)
{
        return store->members[slot].path[0] != 0;
}

/* States of all drives under the chosen epoch. Returns its members; sets *present to those of them that are here. */
static eng_mask sort_drives(struct eng_store *store, const struct eng_member *chosen, eng_mask *present)
{
        const struct fmt_epoch_drive *d = eng_epoch_drives(chosen);
        eng_mask in = 0;
        char text[160];
        unsigned i;

        *present = 0;
        for (i = 0; i < store->drive_count; i++) {
                struct eng_member *m = &store->members[i];

                if (d[i].in == FMT_EPOCH_IN)
                        in |= eng_bit(i);
                if (store->coord->shape.gone & eng_bit(i)) {
                        eng_member_state(store, i, ENG_DRIVE_REMOVED, "was removed from the store");
                } else if (store->coord->given_up & eng_bit(i)) {
                        eng_member_state(store, i, known_path(store, i) ? ENG_DRIVE_FAILED : ENG_DRIVE_MISSING,
                                         "was given up: only an emptied folder can take its place (millrace admin drive replace)");
                } else if (m->drive == NULL && !known_path(store, i)) {
                        snprintf(text, sizeof(text), "no folder given holds this drive%.100s", store->empty_paths);
                        eng_member_state(store, i, ENG_DRIVE_MISSING, text);
                } else if (m->drive == NULL || atomic_load(&m->failed)) {
                        snprintf(text, sizeof(text), "%s", m->reason);
                        eng_member_state(store, i, ENG_DRIVE_FAILED, text);
                } else if (d[i].in != FMT_EPOCH_IN) {
                        eng_member_state(store, i, ENG_DRIVE_STALE, "was out while the store went on without it");
                } else {
                        eng_member_state(store, i, ENG_DRIVE_IN, "");
                        *present |= eng_bit(i);
                }
        }
        return in;
}

void eng_recover_wait(struct eng_store *store, const char *text)
{
        struct eng_coord *c = store->coord;

        c->phase = ENG_PHASE_WAITING;
        snprintf(c->waits_for, sizeof(c->waits_for), "%s", text);
        eng_health_refresh(store);
        eng_force_ended(store, -EHOSTDOWN, text);
}

void eng_recover_wait_for(struct eng_store *store, eng_mask missing, const char *why)
{
        char text[200];
        int n = snprintf(text, sizeof(text), "waits for %u drive%s of the newest epoch, slot",
                         (unsigned)__builtin_popcountll(missing), __builtin_popcountll(missing) == 1 ? "" : "s");
        unsigned i;

        for (i = 0; i < store->drive_count && n > 0 && n < 150; i++)
                if (missing & eng_bit(i))
                        n += snprintf(text + n, sizeof(text) - (size_t)n, " %u", i);
        if (n > 0 && n < 200)
                snprintf(text + n, sizeof(text) - (size_t)n, ": %s", why);
        eng_recover_wait(store, text);
}

static void may_have_gone_on(struct eng_store *store, eng_mask missing)
{
        const struct eng_placement *map = store->coord->view.map;
        unsigned pg;

        for (pg = 0; pg <= store->pg_count; pg++)
                store->pgs[pg].in_doubt = ((map->groups[pg].before | map->groups[pg].after) & missing) != 0;
        eng_recover_wait_for(store, missing, "they may have gone on without the others");
}

static void first_epoch_durable(struct eng_store *store, eng_mask failed)
{
        struct eng_coord *c = store->coord;
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (failed & eng_bit(i))
                        eng_drive_failed(store, i, store->members[i].drive, "the epoch record could not be appended");
        if (failed != 0) {
                choose(store);
                return;
        }
        c->view.epoch++;
        memcpy(c->epoch_id, ((struct recovery *)c->recovery)->begun, FMT_ID);
        eng_settle(store, choose);
}

/* A new epoch of those present, so that what this run writes can be told from all before it. */
static void begin_epoch(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        uint8_t *id = ((struct recovery *)c->recovery)->begun;
        struct eng_buf *body;
        int rv = -ENOMEM;

        c->phase = ENG_PHASE_EPOCH;
        lp_random(id, FMT_ID);
        body = eng_epoch_body(store, c->view.epoch + 1, id, c->epoch_id, c->view.in, 0, c->base);
        if (body != NULL)
                rv = eng_epoch_append(store, c->view.epoch + 1, body, c->view.in, first_epoch_durable);
        eng_buf_unref(body);
        if (rv != 0)
                eng_recover_wait(store, "no memory to begin an epoch");
}

static bool arena_fits(struct eng_store *store)
{
        unsigned need = store->k + store->m, i;

        for (i = 0; i < store->loop_count; i++) {
                struct lp_loop *loop = store->loops[i].loop;

                if (lp_share_slots(loop, LP_SHARE_GET) < need || lp_share_slots(loop, LP_SHARE_PUT) < 2 + store->m)
                        return false;
        }
        return true;
}

/* Of all epochs that any drive here has seen, those of stale ones included: numbers and the ids made of them are never used twice. */
static uint64_t highest_number(const struct eng_store *store, uint64_t number)
{
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++)
                if (store->unplaced[i].drive != NULL && eng_epoch_of(&store->unplaced[i])->number > number)
                        number = eng_epoch_of(&store->unplaced[i])->number;
        return number;
}

/* Members of the last epoch that was surely in force: the chosen one if all its members are here and have it, else the one it was based on. */
static eng_mask base_of(const struct eng_store *store, const struct eng_member *chosen, eng_mask in)
{
        const struct fmt_epoch_drive *d = eng_epoch_drives(chosen);
        eng_mask base = 0, have = 0;
        unsigned i, slot;

        for (i = 0; i < eng_epoch_of(chosen)->drives; i++)
                if (d[i].base != 0)
                        base |= eng_bit(i);
        for (i = 0; i < store->unplaced_count; i++) {
                const struct eng_member *m = &store->unplaced[i];

                if (m->drive != NULL && is_member(chosen, m->identity.drive_id, &slot) &&
                    memcmp(eng_epoch_of(m)->id, eng_epoch_of(chosen)->id, FMT_ID) == 0)
                        have |= eng_bit(slot);
        }
        return base == 0 || have == in ? in : base;
}

/* Drives that could be read: what they hold is known. */
static eng_mask opened_slots(const struct eng_store *store)
{
        eng_mask opened = 0;
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (store->members[i].drive != NULL)
                        opened |= eng_bit(i);
        return opened;
}

/* Whether these drives may have made, or may make, an epoch behind the chosen one, or behind the one it was based on if it was never in force. */
static bool could_go_on(const struct eng_store *store, eng_mask drives, eng_mask in, eng_mask base)
{
        return eng_could_form(store, drives & in, in) ||
               eng_could_form(store, drives & base, base);
}

/* Members of the chosen epoch, and of the one it was based on, of which it is not known what they hold or that cannot be used. */
static eng_mask missed(const struct eng_store *store, eng_mask present, eng_mask in)
{
        eng_mask mask = in & ~present;
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if ((store->coord->base & eng_bit(i)) && (store->members[i].drive == NULL || atomic_load(&store->members[i].failed)))
                        mask |= eng_bit(i);
        return mask;
}

/* By the operator's word (force.c): all that are missed, and no others, are given up. */
static bool may_force(const struct eng_store *store, eng_mask present)
{
        const struct eng_coord *c = store->coord;

        return c->forcing && (c->awaited & ~c->given_up) == 0 && (unsigned)__builtin_popcountll(present) >= store->k;
}

static void choose(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        const struct eng_member *chosen = newest(store);
        eng_mask in, present;

        c->awaited = 0;
        if (chosen == NULL) {
                eng_recover_wait(store, "no drive could be opened, or the drives' epochs contradict each other");
                return;
        }
        if (++c->attempts > ENG_DRIVES_MAX + 1) {
                eng_recover_wait(store, "recovery did not come to an end");
                return;
        }
        if (store->pgs == NULL && take_map(store, chosen) != 0) {
                eng_recover_wait(store, "no memory for the placement groups");
                return;
        }
        if (!arena_fits(store)) {
                eng_recover_wait(store, "memory is too small for this erasure code: raise it");
                return;
        }
        in = sort_drives(store, chosen, &present);
        c->present = present;
        if (c->view.epoch < eng_epoch_of(chosen)->number) {
                c->view.epoch = eng_epoch_of(chosen)->number;
                memcpy(c->epoch_id, eng_epoch_of(chosen)->id, FMT_ID);
        }
        c->view.epoch = highest_number(store, c->view.epoch);
        c->view.up = present;
        c->base = base_of(store, chosen, in);
        c->view.writable = eng_could_form(store, present, in) &&
                           eng_is_majority(present, c->base);
        c->view.in = in;
        c->awaited = c->view.writable ? 0 : missed(store, present, in);
        if (!c->view.writable && may_force(store, present)) {
                c->view.writable = true;
                c->view.epoch += FMT_EPOCH_FORCED_STEP;
                c->base = present;
        }
        if (!c->view.writable && (present == 0 || could_go_on(store, ~opened_slots(store), in, c->base))) {
                may_have_gone_on(store, c->awaited);
                return;
        }
        c->read_only = !c->view.writable;
        if (c->read_only) {
                eng_settle(store, choose);
        } else {
                c->view.in = present;
                begin_epoch(store);
        }
}

void eng_recover_again(struct eng_store *store)
{
        store->coord->attempts = 0;
        choose(store);
}

void eng_recover_stop(struct eng_store *store)
{
        struct recovery *r = store->coord->recovery;
        unsigned i;

        for (i = 0; r != NULL && i < store->unplaced_count; i++) {
                if (r->opening[i].store == NULL || r->opening[i].joined)
                        continue;
                pthread_join(r->opening[i].thread, NULL);
                r->opening[i].joined = true;
        }
}

void eng_recover_free(struct eng_store *store)
{
        unsigned i;

        eng_settle_free(store);
        for (i = 0; i < store->unplaced_count; i++) {
                struct eng_member *m = &store->unplaced[i];

                if (m->drive != NULL)
                        m->drive->ops->close(m->drive);
                else if (m->local != NULL)
                        m->local->ops->close(m->local);
                free(m->epoch);
        }
        free(store->coord->recovery);
}
