/*
 * verify.c - reads everything there is and reports: every member's copy of every name, every shard
 * of every object and part. What it finds damaged or missing on a drive that is in is written anew
 * from the others. Coordinator.
 *
 * A scrub (scrub.c) reads names and small objects, and asks drives for the shards that they hold:
 * bytes of shards are read drive by drive (scrub_drive.c).
 *
 * It is one walk (walk.c) over the names of all members, in order, one name at a time, so that it
 * takes little from clients: first the copies (verify_copies.c), all members at once, then the
 * shards of the value (verify_value.c). Names are paid for as other upkeep is, in a share of their
 * own.
 *
 * When the drives change, the walk asks those that are there then, and goes on behind the last name
 * that is through: who comes to speak for a group has caught up with all its names.
 */
#include "engine/resync/resync.h"
#include "engine/upkeep/upkeep.h"
#include "engine/txn/txn_util.h"
#include "engine/upkeep/verify.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 64u                       /* names that a drive is asked for at a time */
#define AGAIN_MAX 50u                  /* times that a drive is asked again, one after the other, which cannot look now */

static void next_name(struct eng_verify *v);

static void verify_publish(struct eng_verify *v)
{
        pthread_mutex_lock(&v->store->health_lock);
        *v->out = v->report;
        pthread_mutex_unlock(&v->store->health_lock);
}

static const struct eng_view *verify_view(const struct eng_verify *v)
{
        return &v->store->coord_loop->view;
}

bool eng_verify_usable(const struct eng_verify *v, unsigned drive)
{
        return drive < v->store->drive_count && (verify_view(v)->in & verify_view(v)->up & eng_bit(drive)) != 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void free_verify(struct eng_verify *v)
{
        eng_walk_free(v->walk);
        free(v->bad);
        free(v);
}

void eng_verify_drop(struct eng_verify *v)
{
        if (v->store->coord->verify == v)
                v->store->coord->verify = NULL;
        lp_timer_stop(v->store->coord_loop->loop, &v->timer);
        if (v->rebuild != NULL)
                eng_rebuild_drop(v->rebuild);
        eng_txn_abandon(&v->resync.txn);
        eng_txn_drop(&v->resync.txn);
        eng_agree_drop(&v->agree);
        eng_verify_drop_copies(v);
        eng_verify_drop_value(v);
        free_verify(v);
}

static void verify_finish(struct eng_verify *v)
{
        void (*ended)(void *arg) = v->ended;
        void *arg = v->arg;

        assert(v->walk->out == 0 && v->out_copies == 0 && v->rebuild == NULL && v->slot == NULL);
        v->report.running = false;
        v->report.ended_ms = lp_wall_ms();
        verify_publish(v);
        eng_verify_drop(v);
        if (ended != NULL)
                ended(arg);
}

/* ---- pace ------------------------------------------------------------------------------------ */

static void verify_later(struct lp_timer *timer)
{
        struct eng_verify *v = container_of(timer, struct eng_verify, timer);

        if (!v->store->stopping)
                v->then(v);
}

void eng_verify_later(struct eng_verify *v, uint64_t ns, void (*then)(struct eng_verify *v))
{
        v->then = then;
        v->timer.expired = verify_later;
        lp_timer_start(v->store->coord_loop->loop, &v->timer, ns);
}

bool eng_verify_waits(struct eng_verify *v, void (*then)(struct eng_verify *v))
{
        struct eng_loop *el = v->store->coord_loop;
        uint64_t wait;

        eng_pacer_look(&v->store->pacer, el);
        wait = eng_pacer_share_wait(&v->share, lp_now(el->loop));
        if (wait == 0)
                return false;
        eng_pacer_look_everywhere(v->store);
        eng_verify_later(v, wait, then);
        return true;
}

void eng_verify_spend(struct eng_verify *v, uint64_t bytes)
{
        eng_pacer_share_spend(&v->store->pacer, &v->share, lp_now(v->store->coord_loop->loop), bytes);
}

bool eng_verify_asks_again(struct eng_verify *v, unsigned drive)
{
        assert(v->turned_away[drive] <= AGAIN_MAX);
        if (v->turned_away[drive] == AGAIN_MAX)
                return false;
        v->turned_away[drive]++;
        return true;
}

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * The names of these drives cannot be read now. True: they are asked for again later; else the walk
 * goes on without those drives.
 */
static bool verify_names_unread(struct eng_verify *v, eng_mask drives, int error)
{
        bool again = false;
        unsigned slot;

        for (slot = 0; slot < v->store->drive_count; slot++) {
                if (!(drives & eng_bit(slot)))
                        continue;
                if (error != -EBADMSG && eng_verify_asks_again(v, slot)) {
                        again = true;
                        continue;
                }
                v->unscanned |= eng_bit(slot);
                v->report.damaged_shards += error == -EBADMSG;
                v->report.unread_shards += error != -EBADMSG;
        }
        v->drives = 0; /* they are asked anew in any case */
        if (again)
                eng_verify_later(v, ENG_VERIFY_AGAIN_NS, next_name);
        return again;
}

/*
 * Each drive that is in is asked for the groups that it speaks for, from behind the place on.
 * Drives that could not be asked, for want of memory.
 */
static eng_mask verify_take_drives(struct eng_verify *v)
{
        static const struct eng_name first = {.len = 1, .data = {FMT_SPACE_OBJECT}}, behind_all = {.len = 1, .data = {FMT_SPACE_LAST + 1}};
        const eng_mask drives = verify_view(v)->in & verify_view(v)->up;
        eng_mask unasked = 0;
        unsigned slot;

        if (v->epoch != verify_view(v)->epoch)
                v->unscanned = 0;
        v->epoch = verify_view(v)->epoch;
        v->drives = drives;
        eng_walk_forget(v->walk);
        for (slot = 0; slot < v->store->drive_count; slot++) {
                uint64_t *groups;

                if (!(drives & ~v->unscanned & eng_bit(slot)))
                        continue;
                groups = eng_walk_groups(v->walk, slot);
                if (groups != NULL)
                        eng_groups_spoken_for(verify_view(v), v->store->pg_count, slot, groups);
                else
                        unasked |= eng_bit(slot);
        }
        eng_walk_begin(v->walk, v->place.len == 0 ? &first : &v->place, v->place.len != 0, &behind_all);
        return unasked;
}

/* True: it goes on later. */
static bool verify_must_wait(struct eng_verify *v)
{
        eng_mask unasked = 0;

        if (eng_verify_waits(v, next_name))
                return true;
        if (v->walk->failed != 0 && verify_names_unread(v, v->walk->failed & verify_view(v)->in & verify_view(v)->up, v->walk->error))
                return true;
        if (v->epoch != verify_view(v)->epoch || v->drives != (verify_view(v)->in & verify_view(v)->up))
                unasked = verify_take_drives(v);
        return unasked != 0 && verify_names_unread(v, unasked, -ENOMEM);
}

static void next_name(struct eng_verify *v)
{
        struct eng_walk_row row;
        int rv;

        assert(v->out_copies == 0 && v->rebuild == NULL && v->slot == NULL);
        while (!v->store->stopping && !verify_must_wait(v)) {
                rv = eng_walk_next(v->walk, &row);
                if (rv == 0)
                        verify_finish(v);
                if (rv != 1)
                        return;
                v->name = v->walk->at;
                v->taking = true;
                v->through = false;
                eng_verify_copies(v);
                v->taking = false;
                if (!v->through)
                        return; /* eng_verify_next() comes */
        }
}

void eng_verify_next(struct eng_verify *v)
{
        assert(!v->through);
        v->place = v->name;
        v->through = true;
        verify_publish(v);
        if (!v->taking)
                next_name(v);
}

static void names_came(void *arg)
{
        next_name(arg);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void verify_begin(struct lp_msg *msg)
{
        struct eng_verify *v = container_of(msg, struct eng_verify, msg);

        assert(eng_on_coordinator(v->store));
        if (!v->held_only)
                v->store->coord->verify = v;
        next_name(v);
}

void eng_verify_free(struct eng_store *store)
{
        if (store->coord->verify != NULL)
                eng_verify_drop(store->coord->verify);
}

static struct eng_verify *new_verify(struct eng_store *store, struct eng_verify_report *out)
{
        struct eng_verify *v = calloc(1, sizeof(*v));

        if (v == NULL)
                return NULL;
        v->store = store;
        v->out = out;
        v->bad = calloc(ENG_VERIFY_BAD_MAX, sizeof(*v->bad));
        v->walk = eng_walk_new(store->coord_loop, PAGE, names_came, v);
        v->report.running = true;
        v->report.started_ms = lp_wall_ms();
        v->msg.run = verify_begin;
        if (v->bad == NULL || v->walk == NULL) {
                free_verify(v);
                return NULL;
        }
        return v;
}

struct eng_verify *eng_verify_scrub(struct eng_store *store, const struct eng_name *place, const struct eng_verify_report *so_far, uint64_t rate,
                                    void (*ended)(void *arg), void *arg)
{
        struct eng_verify *v = new_verify(store, &store->scrub);

        if (v == NULL)
                return NULL;
        v->report = *so_far;
        v->report.running = true;
        v->share.most = rate;
        v->held_only = true;
        v->ended = ended;
        v->arg = arg;
        v->place = *place;
        verify_publish(v);
        lp_post(store->coord_loop->loop, &v->msg); /* it may end at once, and the caller has not got it yet */
        return v;
}

void eng_verify_where(const struct eng_verify *v, struct eng_name *place, struct eng_verify_report *so_far)
{
        *place = v->place;
        *so_far = v->report;
}

int eng_verify_start(struct eng_store *store)
{
        struct eng_verify *v = new_verify(store, &store->verify);
        bool running, ready;

        if (v == NULL)
                return -ENOMEM;
        pthread_mutex_lock(&store->health_lock);
        running = store->verify.running;
        ready = store->health.ready;
        if (!running && ready)
                store->verify = v->report;
        pthread_mutex_unlock(&store->health_lock);
        if (running || !ready) {
                free_verify(v);
                return running ? -EALREADY : -EHOSTDOWN;
        }
        lp_post(store->coord_loop->loop, &v->msg);
        return 0;
}

void eng_verify_read(struct eng_store *store, struct eng_verify_report *out)
{
        pthread_mutex_lock(&store->health_lock);
        *out = store->verify;
        pthread_mutex_unlock(&store->health_lock);
}
