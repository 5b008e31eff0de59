/*
 * recover.c - from closed folders to a store that serves.
 *
 * Drives are opened by threads in parallel (replay); then, on the coordinator: choose the newest
 * epoch that no present drive contradicts, see whether enough of its members are here, put a new
 * epoch of those that are here in force, compare the members' tails and make every record that any
 * of them holds stable on all (reconcile), make all of it visible, read the buckets, and give the
 * loops their view. Nothing is answered before (a PG that cannot know whether it is current answers
 * 503). A drive that fails on the way makes it begin again without it.
 *
 * Drives are awaited for a bounded time. Then those that are here go on alone as soon as they could
 * put the next epoch in force, by the same rules as if the others were missing. One that is opened
 * later is handed over as one that comes while the store serves (hot_add.c); while recovery cannot
 * go on without it, it makes recovery choose again. One whose opening never returns is left behind,
 * also when the store is closed.
 */
#include "engine/bucket/bucket.h"
#include "engine/epoch/epoch.h"
#include "engine/drive/identity.h"
#include "engine/epoch/recover.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CLOSE_WAIT_S 5                 /* for threads that open drives, or work for one that failed, when the store is closed; then they are left behind */

#define AGAIN_NS    (1000ull * 1000 * 1000)
#define NODE_AGAIN_NS (100ull * 1000 * 1000) /* of a drive that another node serves: it may be granted to another leader yet */
#define NODE_FIRST_NS (5ull * 1000 * 1000)   /* the first time: this leader's OPEN is on its way. Doubled each time, up to that */
#define NODE_DOUBLED  5u
#define LOSE_NS     (10 * AGAIN_NS)    /* until a cluster's start goes on without groups: before its leader gives up */

static void choose(struct eng_store *store);
static bool has_quorum(struct eng_store *store);
static void recover_take_slot(struct eng_store *store, const struct eng_member *m);

static uint64_t wait_ns(const struct eng_store *store)
{
        uint64_t ms = store->options.drive_wait_ms;

        return (ms == 0 ? ENG_DRIVE_WAIT_MS : ms) * 1000 * 1000;
}

/* It is the drive that the map has in the slot it was formatted for. */
static bool is_own_slot(const struct eng_store *store, const struct eng_member *m)
{
        unsigned slot = m->identity.slot;

        return slot < store->drive_count && memcmp(store->members[slot].id, m->identity.drive_id, FMT_ID) == 0;
}

/* ---- opening the drives ---------------------------------------------------------------------- */

static void drive_failed(void *arg, struct eng_drive *drive, const char *text)
{
        eng_drive_failed(arg, drive->slot, drive, text);
}

static void drive_unreachable(void *arg, struct eng_drive *drive, const char *text)
{
        eng_drive_erred(arg, drive->slot, drive, -EHOSTUNREACH, text);
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
                .open_files = opt->open_files,
                .memtable_bytes = opt->memtable_bytes,
                .cache_bytes = opt->cache_bytes / opt->drive_count,
                .full_reserve_bytes = opt->full_reserve_bytes,
                .reclaim_rate = opt->reclaim_rate,
                .times = eng_drive_times_of(store, m->identity.slot),
                .failed = drive_failed,
                .full = drive_full,
                .unreachable = drive_unreachable,
                .superseded = eng_deferred_superseded,
                .arg = store,
        };
        struct eng_drive *drive = NULL;
        size_t cap = FMT_EPOCH_MAX(ENG_DRIVES_MAX);
        int rv;

        m->local = NULL;
        m->epoch = malloc(cap); /* first: what is not open yet is tried again, what is open would be of no use until the store closes */
        if (m->epoch == NULL)
                return eng_error_set(error, -ENOMEM, "%s: no memory to open it", m->path);
        rv = eng_drive_open(opt->opener, &local, &drive, error);
        m->local = drive;
        if (rv != 0) {
                free(m->epoch);
                m->epoch = NULL;
        }
        if (rv == 0) {
                m->log_lost = eng_drive_log_lost(drive);
                rv = eng_drive_epoch(drive, m->epoch, cap, &m->epoch_len, &m->history);
                if (rv != 0)
                        snprintf(error->text, sizeof(error->text), "%s: no epoch could be read", m->path);
        }
        if (rv == 0) {
                rv = eng_filter_stack(m->local, opt->faults, &drive, error);
                m->drive = rv == 0 ? drive : NULL;
        }
        return rv;
}

static void *recover_open_thread(void *arg)
{
        struct opening *o = arg;

        o->result = eng_member_open(o->store, &o->own, &o->error);
        lp_post(o->store->coord_loop->loop, &o->msg);
        return NULL;
}

/* What the thread has opened is the coordinator's now. */
static void adopt(struct opening *o)
{
        assert(o->joined);
        memcpy(o->member, &o->own, sizeof(o->own));
        if (o->result != 0)
                snprintf(o->member->reason, sizeof(o->member->reason), "%.150s", o->error.text);
        if (o->store->pgs != NULL)
                recover_take_slot(o->store, o->member);
}

/* Drives are being opened that may be members: all others, where etcd says which are. but: not counting these slots. */
static bool opens_members(const struct eng_store *store, eng_mask but)
{
        const struct eng_coord *c = store->coord;
        const struct recovery *r = c->recovery;
        unsigned i;

        if (c->decided == NULL)
                return r->opening_left > 0;
        for (i = 0; i < store->unplaced_count; i++)
                if (!r->opening[i].joined && (but & eng_bit(store->unplaced[i].identity.slot)) == 0 &&
                    eng_epoch_drives(c->decided)[store->unplaced[i].identity.slot].in == FMT_EPOCH_IN)
                        return true;
        return false;
}

/* Chooses when all are here, or have been awaited long enough by enough of them. */
static void consider(struct eng_store *store)
{
        struct recovery *r = store->coord->recovery;
        bool enough = r->waited || !opens_members(store, atomic_load(&store->silent));

        if (r->chosen || (opens_members(store, 0) && !(enough && has_quorum(store))))
                return;
        r->chosen = true;
        lp_timer_stop(store->coord_loop->loop, &r->wait_timer);
        choose(store);
}

void eng_recover_slot_silent(struct eng_store *store)
{
        if (store->coord->phase == ENG_PHASE_OPENING)
                consider(store);
}

/* Groups that are not lost yet have been waited for: more than half of the slots are enough from now on. */
static void lose_groups(struct lp_timer *timer)
{
        struct recovery *r = container_of(timer, struct recovery, lose_timer);
        struct eng_store *store = r->opening[0].store;

        r->may_lose = r->waited = true;
        if (!r->chosen)
                consider(store);
        else if (store->coord->phase == ENG_PHASE_WAITING)
                eng_recover_again(store);
}

static void waited(struct lp_timer *timer)
{
        struct recovery *r = container_of(timer, struct recovery, wait_timer);
        struct eng_store *store = r->opening[0].store;
        struct eng_coord *c = store->coord;
        unsigned i;
        int n;

        n = snprintf(c->waits_for, sizeof(c->waits_for), "waits for drives that are still being opened:");
        for (i = 0; i < store->unplaced_count && n > 0 && (size_t)n < sizeof(c->waits_for); i++)
                if (!r->opening[i].joined)
                        n += snprintf(c->waits_for + n, sizeof(c->waits_for) - (size_t)n, " %s", r->opening[i].own.path);
        r->waited = true;
        consider(store);
        eng_health_refresh(store);
}

static void begin_opening(struct opening *o)
{
        assert(!o->running && !o->joined);
        o->result = -EAGAIN;
        o->running = pthread_create(&o->thread, NULL, recover_open_thread, o) == 0;
        if (o->running)
                return;
        snprintf(o->error.text, sizeof(o->error.text), "%s: no thread to open it", o->own.path);
        lp_post(o->store->coord_loop->loop, &o->msg);
}

static void open_again(struct lp_timer *timer)
{
        begin_opening(container_of(timer, struct opening, again));
}

static uint64_t open_again_ns(struct opening *o)
{
        const unsigned times = o->times < NODE_DOUBLED ? o->times++ : NODE_DOUBLED;

        if (o->store->options.cluster == NULL)
                return AGAIN_NS;
        return times == NODE_DOUBLED ? NODE_AGAIN_NS : NODE_FIRST_NS << times;
}

/*
 * Descriptors, memory, threads or room on the file system were lacking: nothing is wrong with the
 * drive (I8). Tried until there are; the start goes on without it as without one that is slow to
 * open. False: that is no reason, or it was opened.
 */
static bool recover_try_again(struct opening *o)
{
        const struct eng_member *m = o->member;
        struct eng_store *store = o->store;

        if (o->own.local != NULL || !(eng_io_again(o->result) || eng_io_full(o->result)))
                return false;
        o->again.expired = open_again;
        lp_timer_start(store->coord_loop->loop, &o->again, open_again_ns(o));
        snprintf(o->member->reason, sizeof(o->member->reason), "%.150s", o->error.text);
        if (store->pgs != NULL && is_own_slot(store, m) && store->members[m->identity.slot].state == ENG_DRIVE_FAILED)
                eng_member_state(store, m->identity.slot, ENG_DRIVE_FAILED, m->reason);
        return true;
}

static void recover_opened(struct lp_msg *msg)
{
        struct opening *o = (struct opening *)msg;
        struct eng_store *store = o->store;
        struct eng_coord *c = store->coord;
        struct recovery *r = c->recovery;

        if (o->joined)
                return; /* the store is being closed */
        if (o->running)
                pthread_join(o->thread, NULL);
        o->running = false;
        if (recover_try_again(o)) {
                consider(store); /* its node may be known to be silent by now */
                return;
        }
        assert(r->opening_left > 0);
        o->joined = true;
        r->opening_left--;
        if (!r->chosen) {
                adopt(o);
                consider(store);
        } else if (c->phase == ENG_PHASE_WAITING) {
                adopt(o);
                eng_recover_answers(store);
        } else {
                o->late = true;
                eng_hot_add_late(store);
        }
}

eng_mask eng_recover_opening(const struct eng_store *store)
{
        const struct recovery *r = store->coord->recovery;
        eng_mask mask = 0;
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                const struct opening *o = &r->opening[i];

                if (o->member != NULL && (!o->joined || o->late) && is_own_slot(store, o->member))
                        mask |= eng_bit(o->member->identity.slot);
        }
        return mask;
}

struct eng_member *eng_recover_take_late(struct eng_store *store)
{
        struct recovery *r = store->coord->recovery;
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                struct opening *o = &r->opening[i];

                if (!o->late)
                        continue;
                o->late = false;
                memcpy(o->member, &o->own, sizeof(o->own));
                if (o->result == 0)
                        return o->member;
                snprintf(o->member->reason, sizeof(o->member->reason), "%.150s", o->error.text);
                if (is_own_slot(store, o->member) && store->members[o->member->identity.slot].state == ENG_DRIVE_FAILED)
                        eng_member_state(store, o->member->identity.slot, ENG_DRIVE_FAILED, o->member->reason);
        }
        return NULL;
}

void eng_recover(struct eng_store *store)
{
        struct recovery *r = calloc(1, sizeof(*r));
        unsigned i;

        assert(store->coord->recovery == NULL);
        if (r == NULL)
                abort(); /* no memory before anything was begun */
        store->coord->recovery = r;
        eng_phase_set(store->coord, ENG_PHASE_OPENING);
        r->opening_left = store->unplaced_count;
        r->wait_timer.expired = waited;
        lp_timer_start(store->coord_loop->loop, &r->wait_timer, wait_ns(store));
        r->lose_timer.expired = lose_groups;
        if (eng_may_lose(store))
                lp_timer_start(store->coord_loop->loop, &r->lose_timer, LOSE_NS);
        for (i = 0; i < store->unplaced_count; i++) {
                struct opening *o = &r->opening[i];

                o->store = store;
                o->member = &store->unplaced[i];
                memcpy(&o->own, o->member, sizeof(o->own));
                snprintf(o->member->reason, sizeof(o->member->reason), "is still being opened");
                o->msg.run = recover_opened;
                begin_opening(o);
        }
}

/* ---- which epoch ----------------------------------------------------------------------------- */

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

static bool recover_is_member(const struct eng_member *of, const uint8_t drive_id[FMT_ID], unsigned *slot)
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

/*
 * Whether an epoch is one of those that led to the newest of `of`. The drive itself need not have
 * seen it: one that was begun and did not reach all its members is known to the others alone.
 */
static bool recover_is_before(const struct eng_store *store, const struct eng_member *of, const uint8_t id[FMT_ID])
{
        uint8_t at[FMT_ID];
        unsigned i;

        memcpy(at, eng_epoch_of(of)->id, FMT_ID);
        for (i = 0; i < ENG_EPOCH_HISTORY && parent_of(store, at, at); i++)
                if (memcmp(at, id, FMT_ID) == 0)
                        return true;
        return in_history(of, id);
}

/*
 * Whether a present drive contradicts the newest epoch of `of`: it is a member there and holds one
 * that is neither it nor before it. One that holds an epoch older than the last that was surely in
 * force then has lost that (lost.c): what it holds proves nothing.
 */
static bool contradicted(const struct eng_store *store, const struct eng_member *of)
{
        struct fmt_epoch_tail tail;
        unsigned i, slot;

        eng_epoch_tail(of, &tail);
        for (i = 0; i < store->unplaced_count; i++) {
                const struct eng_member *m = &store->unplaced[i];

                if (m->drive == NULL || !recover_is_member(of, m->identity.drive_id, &slot) || eng_epoch_of(m)->number < tail.in_force)
                        continue;
                if (memcmp(eng_epoch_of(m)->id, eng_epoch_of(of)->id, FMT_ID) != 0 && !recover_is_before(store, of, eng_epoch_of(m)->id))
                        return true;
        }
        return false;
}

/*
 * Whether an epoch that no present drive contradicts was forced without this drive: then what it
 * holds is another history.
 */
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

static const struct eng_member *recover_newest(struct eng_store *store)
{
        const struct eng_member *best = NULL;
        unsigned i;

        if (store->coord->decided != NULL)
                return store->coord->decided;
        for (i = 0; i < store->unplaced_count; i++) {
                const struct eng_member *m = &store->unplaced[i];

                if (m->drive == NULL || eng_epoch_of(m)->number == 0) /* formatted to be taken in, which did not come to pass */
                        continue;
                if (eng_epoch_of(m)->drives == 0 || eng_epoch_of(m)->k == 0 || eng_epoch_of(m)->pg_count == 0) /* the head of one whose record is lost */
                        continue;
                if (contradicted(store, m) || was_given_up(store, m))
                        continue;
                if (best == NULL || eng_epoch_of(m)->number > eng_epoch_of(best)->number)
                        best = m;
        }
        return best;
}

/* ---- the drive map and the PGs --------------------------------------------------------------- */

static int place_pgs(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        const struct eng_placement *map;
        struct eng_pg *pgs;
        uint16_t *pg_loop, preferred[ENG_DRIVES_MAX];
        unsigned pg, first;

        c->next_shape = c->shape;
        store->meta_replicas = store->m + 1;
        if (eng_shape_map(store) != 0)
                return -ENOMEM;
        eng_shape_map_taken(c);
        map = c->view.map;
        if (store->pgs != NULL)
                return 0; /* another epoch was chosen before: loops keep their groups */
        store->pg_words = store->pg_count / 64 + 1;
        pg_loop = calloc(store->pg_count + 1, sizeof(*pg_loop));
        pgs = calloc(store->pg_count + 1, sizeof(*pgs));
        if (pg_loop == NULL || pgs == NULL) {
                free(pg_loop);
                free(pgs);
                return -ENOMEM;
        }
        store->pg_loop = pg_loop;
        store->pgs = pgs;
        first = store->meta_replicas < map->drives ? store->meta_replicas : map->drives;
        for (pg = 0; pg <= store->pg_count; pg++) {
                store->pgs[pg].number = pg;
                TAILQ_INIT(&store->pgs[pg].inflight);
                if (pg == store->pg_count) { /* CONFIG */
                        store->pg_loop[pg] = (uint16_t)store->coord_loop->index;
                        continue;
                }
                eng_place_shards(eng_placement_order(map, pg), map->drives, eng_all_slots(map->drives), map->domains, first, preferred);
                store->pg_loop[pg] = (uint16_t)(preferred[pg % first] % store->loop_count);
        }
        return 0;
}

static void take_flags(struct eng_coord *c, eng_mask drive, uint8_t flags)
{
        c->filling |= flags & FMT_EPOCH_FILLING ? drive : 0;
        c->given_up |= flags & FMT_EPOCH_GIVEN_UP ? drive : 0;
        c->lost_writes |= flags & FMT_EPOCH_LOST_WRITES ? drive : 0;
        c->shape.adding |= flags & FMT_EPOCH_ADDING ? drive : 0;
        c->shape.leaving |= flags & FMT_EPOCH_LEAVING ? drive : 0;
        c->shape.gone |= flags & FMT_EPOCH_GONE ? drive : 0;
        c->shape.dropping_migrated |= flags & FMT_EPOCH_DROPPING_MIGRATED ? drive : 0;
        c->added |= flags & FMT_EPOCH_ADDED ? drive : 0;
}

/* Puts a drive in its slot of the map. */
static void recover_take_slot(struct eng_store *store, const struct eng_member *m)
{
        struct eng_member *to = &store->members[m->identity.slot];

        if (!is_own_slot(store, m))
                return;
        pthread_mutex_lock(&store->health_lock);
        memcpy(to->path, m->path, sizeof(m->path));
        memcpy(to->reason, m->reason, sizeof(m->reason));
        to->local = atomic_load(&m->local);
        to->drive = atomic_load(&m->drive);
        to->identity = m->identity;
        pthread_mutex_unlock(&store->health_lock);
}

/*
 * Takes the drive map from an epoch and puts the opened drives in their slots. Another may have
 * been taken before: the drive that held it has failed since, or one that was opened later holds a
 * newer one.
 */
static int take_map(struct eng_store *store, const struct eng_member *from)
{
        struct eng_coord *c = store->coord;
        const struct fmt_epoch *epoch = eng_epoch_of(from);
        const struct fmt_epoch_drive *d = eng_epoch_drives(from);
        unsigned i;

        store->k = epoch->k;
        store->m = epoch->m;
        store->pg_count = epoch->pg_count;
        eng_lost_load(c, from);
        if (store->code == NULL && era_code_new(store->k, store->m, &store->code) != 0)
                return -ENOMEM;
        c->filling = c->lost_writes = c->added = 0;
        c->given_up = c->forcing ? c->given_up : 0;
        memset(&c->shape, 0, sizeof(c->shape));
        for (i = 0; i < epoch->drives; i++) {
                memcpy(store->members[i].id, d[i].drive_id, FMT_ID);
                memcpy(store->members[i].place_id, eng_epoch_place_id(from, i), FMT_ID);
                store->members[i].site = (struct eng_site){.node = d[i].node, .rack = d[i].rack};
                take_flags(store->coord, eng_bit(i), d[i].flags);
        }
        pthread_mutex_lock(&store->health_lock);
        store->drive_count = epoch->drives;
        pthread_mutex_unlock(&store->health_lock);
        for (i = 0; i < store->unplaced_count; i++)
                recover_take_slot(store, &store->unplaced[i]);
        if (place_pgs(store) != 0)
                return -ENOMEM;
        memcpy(((struct recovery *)c->recovery)->mapped, epoch->id, FMT_ID);
        return 0;
}

static bool known_path(const struct eng_store *store, unsigned slot)
{
        return store->members[slot].path[0] != 0;
}

/*
 * States of all drives under the chosen epoch. Returns its members; sets *present to those of them
 * that are here.
 */
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
                } else if (m->drive != NULL && (store->coord->down & eng_bit(i))) {
                        eng_member_state(store, i, ENG_DRIVE_MISSING, "does not answer");
                } else if (m->drive == NULL || eng_member_failed(m)) {
                        snprintf(text, sizeof(text), "%s", m->reason);
                        eng_member_state(store, i, ENG_DRIVE_FAILED, text);
                } else if (store->coord->lost & eng_bit(i)) {
                        eng_member_state(store, i, ENG_DRIVE_STALE, eng_lost_text(store, i));
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

        eng_phase_set(c, ENG_PHASE_WAITING);
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

        assert(c->phase == ENG_PHASE_EPOCH && (failed & ~c->view.in) == 0);
        for (i = 0; i < store->drive_count; i++)
                if (failed & eng_bit(i))
                        eng_drive_failed(store, i, store->members[i].drive, "the epoch record could not be appended");
        if (failed != 0) {
                choose(store);
                return;
        }
        c->view.epoch = c->next_number;
        eng_epoch_body_taken(c);
        eng_lost_taken(c);
        memcpy(c->epoch_id, ((struct recovery *)c->recovery)->begun, FMT_ID);
        c->in_force = c->view.epoch;
        memcpy(c->in_force_id, c->epoch_id, FMT_ID);
        eng_reconcile(store, choose);
}

/* A new epoch of those present, so that what this run writes can be told from all before it. */
static void begin_epoch(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        uint8_t *id = ((struct recovery *)c->recovery)->begun;
        struct eng_buf *body;
        int rv = -ENOMEM;

        assert(c->view.writable);
        eng_phase_set(c, ENG_PHASE_EPOCH);
        lp_random(id, FMT_ID);
        c->next_number = eng_epoch_next_number(store);
        c->next_in = c->view.in;
        c->next_joining = 0;
        eng_lost_next(store, ((struct recovery *)c->recovery)->members);
        body = eng_epoch_body(store, c->next_number, id, c->epoch_id, c->view.in, 0, c->base);
        if (body != NULL)
                rv = eng_epoch_append(store, c->next_number, body, c->view.in, first_epoch_durable);
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

/*
 * Of all epochs that any drive here has seen, those of stale ones included: numbers and the ids
 * made of them are never used twice.
 */
static uint64_t highest_number(const struct eng_store *store, uint64_t number)
{
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++)
                if (store->unplaced[i].drive != NULL && eng_epoch_of(&store->unplaced[i])->number > number)
                        number = eng_epoch_of(&store->unplaced[i])->number;
        return number;
}

/*
 * Members of the last epoch that was surely in force: the chosen one, or else the one it was based
 * on.
 */
static eng_mask base_of(const struct eng_store *store, const struct eng_member *chosen, eng_mask in)
{
        const struct recovery *r = store->coord->recovery;
        const struct fmt_epoch_drive *d = eng_epoch_drives(chosen);
        eng_mask base = 0;
        unsigned i;

        if (store->coord->decided != NULL)
                return in; /* it counts, whether it was in force or not */
        for (i = 0; i < eng_epoch_of(chosen)->drives; i++)
                if (d[i].base != 0)
                        base |= eng_bit(i);
        return base == 0 || r->chosen_in_force ? in : base;
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

/* Also where a drive that leaves is gone by that epoch: it counts one drive less then. */
static bool could_have_formed(const struct eng_store *store, eng_mask next, eng_mask prev)
{
        const struct eng_view *view = &store->coord->view;
        eng_mask leaving = view->map->leaving & view->map->all & ~view->map->adding;

        return eng_could_form(store, next, prev) ||
               (leaving != 0 && eng_placement_can_form(view->map, next & ~leaving, prev, leaving, store->k, store->m));
}

/*
 * Whether these drives may have made, or may make, an epoch behind the chosen one, or behind the
 * one it was based on if it was never in force.
 */
static bool could_go_on(const struct eng_store *store, eng_mask drives, eng_mask in, eng_mask base)
{
        return could_have_formed(store, drives & in, in) || could_have_formed(store, drives & base, base);
}

/*
 * Members of the chosen epoch, and of the one it was based on, of which it is not known what they
 * hold or that cannot be used.
 */
static eng_mask recover_missed(const struct eng_store *store, eng_mask present, eng_mask in)
{
        eng_mask mask = in & ~present;
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if ((store->coord->base & eng_bit(i)) && (store->members[i].drive == NULL || eng_member_failed(&store->members[i])))
                        mask |= eng_bit(i);
        return mask;
}

/* By the operator's word (force.c): all that are missed, and no others, are given up. */
static bool may_force(const struct eng_store *store, eng_mask present)
{
        const struct eng_coord *c = store->coord;

        return c->forcing && (c->awaited & ~c->given_up) == 0 && (unsigned)__builtin_popcountll(present) >= store->k;
}

/* Members here that may lack what damaged places of their logs held (drive/damage.c). */
static eng_mask damaged_logs(struct eng_store *store, eng_mask present)
{
        eng_mask mask = 0;
        unsigned i;

        for (i = 0; i < store->drive_count; i++) {
                const struct eng_member *m = &store->members[i];
                const char *text = (present & eng_bit(i)) && m->local != NULL ? eng_drive_damage(m->local) : NULL;

                if (text == NULL)
                        continue;
                mask |= eng_bit(i);
                eng_member_state(store, i, ENG_DRIVE_IN, text);
        }
        return mask;
}

/*
 * The others can go on without: as if they had been away, all their names are compared before they
 * count again.
 */
static void recover_set_aside(struct eng_store *store, eng_mask damaged)
{
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (damaged & eng_bit(i))
                        eng_member_state(store, i, ENG_DRIVE_STALE, eng_drive_damage(store->members[i].local));
}

/* Of those present, the ones that lack the chosen epoch. */
static eng_mask behind(const struct eng_store *store, const struct eng_member *chosen, eng_mask present)
{
        const struct fmt_epoch *epoch = eng_epoch_of(chosen);
        eng_mask mask = 0;
        unsigned i;

        for (i = 0; i < store->unplaced_count; i++) {
                const struct eng_member *m = &store->unplaced[i];

                if (m->drive != NULL && is_own_slot(store, m) && !eng_member_has_epoch(m, epoch->number, epoch->id))
                        mask |= eng_bit(m->identity.slot);
        }
        return mask & present;
}

/* The next epoch, behind one of `in` that may never have been in force: then it is behind one of `base`. */
static bool enough_to_begin(const struct eng_store *store, eng_mask present, eng_mask in, eng_mask base)
{
        const struct recovery *r = store->coord->recovery;

        if (store->coord->decided != NULL)
                return eng_could_form(store, present, in) || (r->may_lose && eng_groups_may_lose(present, eng_lost_counted(store)));
        return eng_could_form(store, present, in) && eng_is_majority(present, base);
}

/*
 * Members of etcd's epoch have all that was acknowledged, so that some seem to lack it is a reason not to
 * use them, and none to believe the others: fewer than those, or too few to be sure.
 */
static bool may_set_aside(const struct eng_store *store, eng_mask present, eng_mask in)
{
        const struct eng_placement *map = store->coord->view.map;
        eng_mask aside = in & opened_slots(store) & ~present, failed = 0;
        unsigned i;

        for (i = 0; i < store->drive_count; i++)
                if (eng_member_failed(&store->members[i]))
                        failed |= eng_bit(i);
        aside &= ~(failed | store->coord->down);
        return aside == 0 || store->coord->forcing ||
               (__builtin_popcountll(aside) < __builtin_popcountll(present) && eng_groups_witnessed(map->groups, map->group_count, aside, present));
}

static void choose(struct eng_store *store)
{
        struct eng_coord *c = store->coord;
        const struct eng_member *chosen = recover_newest(store);
        eng_mask in, present, damaged;
        char denied[sizeof(c->waits_for)];

        assert(eng_on_coordinator(store));
        assert(!c->view.ready && !c->view.paused);
        c->awaited = 0;
        if (c->decided != NULL && eng_decided_denied(store, denied, sizeof(denied))) {
                eng_recover_wait(store, denied);
                return;
        }
        if (chosen == NULL) {
                eng_recover_wait(store, "no drive could be opened, or the drives' epochs contradict each other");
                return;
        }
        if (++c->attempts > 2 * ENG_DRIVES_MAX + 2) { /* each drive may fail, and each time it is looked anew who lost writes */
                eng_recover_wait(store, "recovery did not come to an end");
                return;
        }
        if (c->view.map != NULL && eng_epoch_of(chosen)->drives < store->drive_count) {
                eng_recover_wait(store, "the drives that know of the last drive added have failed: start again");
                return;
        }
        if (c->view.map != NULL && (eng_epoch_of(chosen)->pg_count != store->pg_count || eng_epoch_of(chosen)->k != store->k ||
                                    eng_epoch_of(chosen)->m != store->m)) {
                eng_recover_wait(store, "the drives' epochs contradict each other: they are of stores of another shape");
                return;
        }
        if (memcmp(((struct recovery *)c->recovery)->mapped, eng_epoch_of(chosen)->id, FMT_ID) != 0 && take_map(store, chosen) != 0) {
                eng_recover_wait(store, "no memory for the placement groups");
                return;
        }
        if (!arena_fits(store)) {
                eng_recover_wait(store, "memory is too small for this erasure code: raise it");
                return;
        }
        in = sort_drives(store, chosen, &present);
        if (memcmp(((struct recovery *)c->recovery)->judged, eng_epoch_of(chosen)->id, FMT_ID) != 0) {
                eng_lost_find(store, chosen, present, choose);
                return;
        }
        in &= ~eng_lost_catching_up(store);
        assert((present & ~in) == 0);
        if (c->view.epoch < eng_epoch_of(chosen)->number) {
                c->view.epoch = eng_epoch_of(chosen)->number;
                memcpy(c->epoch_id, eng_epoch_of(chosen)->id, FMT_ID);
        }
        c->view.epoch = highest_number(store, c->view.epoch);
        eng_rebalance_behind(store, behind(store, chosen, present));
        c->base = base_of(store, chosen, in);
        damaged = damaged_logs(store, present);
        if (damaged != 0 && enough_to_begin(store, present & ~damaged, in, c->base)) {
                recover_set_aside(store, damaged);
                present &= ~damaged;
                damaged = 0;
        }
        c->present = present;
        c->view.up = present;
        c->view.writable = damaged == 0 && enough_to_begin(store, present, in, c->base);
        c->view.in = in;
        ((struct recovery *)c->recovery)->members = in;
        if (c->decided != NULL && !may_set_aside(store, present, in)) {
                c->view.writable = false;
                c->awaited = in & opened_slots(store) & ~present; /* the operator may give them up (force.c) */
                eng_recover_wait_for(store, c->awaited,
                                     "they seem to have lost writes, and too few others would be left to say so");
                return;
        }
        c->awaited = c->view.writable ? 0 : recover_missed(store, present, in);
        if (!c->view.writable && may_force(store, present)) {
                c->view.writable = true;
                c->view.epoch += FMT_EPOCH_FORCED_STEP;
                c->base = present;
        }
        if (!c->view.writable && c->decided != NULL) {
                eng_recover_wait_for(store, c->awaited, "some placement group has no current copy without them");
                return;
        }
        if (!c->view.writable && (present == 0 || could_go_on(store, ~opened_slots(store), in, c->base))) {
                may_have_gone_on(store, c->awaited);
                return;
        }
        if (!c->view.writable && ((struct recovery *)c->recovery)->opening_left > 0) { /* those may make more than reading possible */
                eng_recover_wait_for(store, c->awaited, "they are still being opened");
                return;
        }
        c->read_only = !c->view.writable;
        if (c->read_only) {
                eng_reconcile(store, choose);
        } else {
                c->view.in = present;
                begin_epoch(store);
        }
}

/* Whether the drives opened so far could put the next epoch in force, as choose() will see it. */
static bool has_quorum(struct eng_store *store)
{
        const struct eng_member *chosen = recover_newest(store);
        struct eng_placement *map;
        const struct fmt_epoch_drive *d;
        eng_mask in = 0, present = 0, all = 0;
        unsigned i, slot;
        bool can;

        if (chosen == NULL)
                return false;
        map = eng_epoch_placement(chosen, store->options.cluster != NULL);
        if (map == NULL)
                return false;
        d = eng_epoch_drives(chosen);
        for (i = 0; i < eng_epoch_of(chosen)->drives; i++) {
                in |= d[i].in == FMT_EPOCH_IN ? eng_bit(i) : 0;
                all |= d[i].flags & (FMT_EPOCH_GONE | FMT_EPOCH_GIVEN_UP | FMT_EPOCH_ADDING) ? 0 : eng_bit(i);
        }
        for (i = 0; i < store->unplaced_count; i++)
                if (store->unplaced[i].drive != NULL && recover_is_member(chosen, store->unplaced[i].identity.drive_id, &slot))
                        present |= eng_bit(slot);
        can = eng_placement_can_form(map, present, in, 0, eng_epoch_of(chosen)->k, eng_epoch_of(chosen)->m);
        if (map->decided)
                can |= ((const struct recovery *)store->coord->recovery)->may_lose && eng_groups_may_lose(present, all);
        else
                can &= eng_is_majority(present, base_of(store, chosen, in));
        eng_placement_free(map);
        return can;
}

void eng_recover_again(struct eng_store *store)
{
        store->coord->attempts = 0;
        choose(store);
}

void eng_recover_answers(struct eng_store *store)
{
        struct recovery *r = store->coord->recovery;

        assert(store->coord->phase == ENG_PHASE_WAITING);
        memset(r->judged, 0, sizeof(r->judged)); /* nor is it known whether this one lost writes */
        eng_recover_again(store);
}

/* Opened, and never handed over. */
static void take_rest(struct eng_store *store)
{
        struct recovery *r = store->coord->recovery;
        unsigned i;

        for (i = 0; r != NULL && i < ENG_DRIVES_MAX; i++)
                if (r->opening[i].late) {
                        r->opening[i].late = false;
                        memcpy(r->opening[i].member, &r->opening[i].own, sizeof(r->opening[i].own));
                }
}

void eng_recover_stop(struct eng_store *store)
{
        struct recovery *r = store->coord->recovery;
        unsigned i;

        for (i = 0; r != NULL && i < store->unplaced_count; i++) {
                struct opening *o = &r->opening[i];

                if (o->store == NULL || o->joined)
                        continue;
                lp_timer_stop(store->coord_loop->loop, &o->again);
                if (o->running && !eng_thread_ends(o->thread, store->left_behind ? 0 : CLOSE_WAIT_S)) {
                        store->left_behind = true;
                        continue;
                }
                o->joined = true;
                memcpy(o->member, &o->own, sizeof(o->own)); /* to be closed */
        }
        if (r != NULL) {
                lp_timer_stop(store->coord_loop->loop, &r->wait_timer);
                lp_timer_stop(store->coord_loop->loop, &r->lose_timer);
        }
        take_rest(store);
}

void eng_recover_free(struct eng_store *store)
{
        unsigned i;

        eng_reconcile_free(store);
        eng_lost_free(store);
        eng_config_load_free(store);
        for (i = 0; i < store->unplaced_count; i++) {
                struct eng_member *m = &store->unplaced[i];

                if (m->local != NULL && !eng_drive_ends(m->local, store->left_behind ? 1 : CLOSE_WAIT_S)) {
                        store->left_behind = true;
                        continue; /* its threads may use all that is its own */
                }
                if (m->drive != NULL)
                        m->drive->ops->close(m->drive);
                else if (m->local != NULL)
                        m->local->ops->close(m->local);
                free(m->epoch);
        }
        if (!store->left_behind)
                free(store->coord->recovery);
}
