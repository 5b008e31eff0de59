/*
 * walk_worker_look.c - what a worker does with one name: compares it on its members, looks for
 * shards that it lacks, begins the repairs, and tells what has come of them. The worker's loop.
 *
 * The first object that lacks shards is repaired when it is met. From the first one on that lacks
 * more, those that lack fewer are left for later, and the worker remembers where it began to; it
 * comes back to them level by level. So the most endangered objects known go first, and nothing has
 * to be looked at before the first repair.
 *
 * The walk only finds: whatever is written is decided by what is read with the key locked.
 */
#include "engine/resync/resync.h"
#include "engine/upkeep/upkeep.h"
#include "engine/upkeep/walk_worker.h"
#include "engine/upkeep/lost_objects.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STALE_TRIES 3u
#define LOST_RESTS 20u                 /* walks' time in which an object with stripes beyond repair is left alone, once all else of it was repaired */

int eng_walk_worker_compare(const struct eng_name *a, const struct eng_name *b)
{
        int c = memcmp(a->data, b->data, a->len < b->len ? a->len : b->len);

        return c != 0 ? c : (int)a->len - (int)b->len;
}

int eng_walk_worker_compare_from(const struct eng_name *start, const struct eng_name *a, const struct eng_name *b)
{
        int space = (int)a->data[0] - (int)b->data[0];
        int round = (eng_walk_worker_compare(a, start) < 0) - (eng_walk_worker_compare(b, start) < 0);

        return space != 0 ? space : round != 0 ? round : eng_walk_worker_compare(a, b);
}

void eng_walk_worker_earlier(struct eng_name *of, const struct eng_name *name)
{
        if (of->len == 0 || eng_walk_worker_compare(name, of) < 0)
                *of = *name;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void earlier_from(const struct eng_name *start, struct eng_name *of, const struct eng_name *name)
{
        if (name->len != 0 && eng_walk_worker_compare_from(start, name, of) < 0)
                *of = *name;
}

/* Objects that come before it lack nothing, as far as this tour knows. */
static void walk_worker_look_take_place(struct eng_walk_worker *worker)
{
        static const struct eng_name none = {.len = 0};
        const struct eng_walk_worker_tour *all = &worker->all;
        const struct eng_name *start = all->space == FMT_SPACE_OBJECT ? &worker->order->start : &none; /* afterwards it has come to all */
        struct eng_name place = {.len = 1, .data = {FMT_SPACE_LAST + 1}};
        unsigned i;

        if (all->space == FMT_SPACE_CONFIG || all->space == FMT_SPACE_PART)
                return;
        if (all->space == FMT_SPACE_OBJECT)
                place = worker->now == all ? worker->walk->at : all->at;
        for (i = 1; i <= ERA_MAX_M; i++) /* what is to be moved lacks nothing */
                earlier_from(start, &place, &all->left[i]);
        earlier_from(start, &place, &all->lacking);
        for (i = 0; i < ENG_WALK_WORKER_REBUILDS; i++)
                if (worker->rebuilds[i].rebuild != NULL && worker->rebuilds[i].all)
                        earlier_from(start, &place, &worker->rebuilds[i].name);
        worker->place = place;
}

static void add_digests(struct eng_walk_worker *worker, struct eng_heal_report *r)
{
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++)
                if (worker->digest[i].shards > 0)
                        eng_digest_merge(&r->digest[i], &worker->digest[i]);
        memset(worker->digest, 0, sizeof(worker->digest));
}

/* Something that somebody asked for is looked at, repaired, or waits for either. */
static bool has_asked(const struct eng_walk_worker *worker)
{
        unsigned i;

        if (worker->is_wanted || worker->some.under_way || worker->missed_waits)
                return true;
        for (i = 0; i < ENG_WALK_WORKER_REBUILDS; i++)
                if (worker->rebuilds[i].rebuild != NULL && !worker->rebuilds[i].all)
                        return true;
        return false;
}

/*
 * An object that was whole when it was counted may lack shards later, and be given them: then it is
 * subtracted alone.
 */
static void add_lacking(struct eng_heal_report *r, const int64_t lacking[ENG_LACKS])
{
        unsigned n;

        r->below = 0;
        for (n = 0; n < ENG_LACKS; n++) {
                r->lacking[n] = lacking[n] < 0 && (uint64_t)-lacking[n] > r->lacking[n] ? 0 : r->lacking[n] + (uint64_t)lacking[n];
                r->below += r->lacking[n];
        }
}

void eng_walk_worker_tell(struct eng_walk_worker *worker)
{
        struct eng_store *store = worker->store;
        const struct eng_walk_worker_counts *n = &worker->counts;
        struct eng_heal_report *r = &store->heal;

        pthread_mutex_lock(&store->health_lock);
        r->looked_at += n->looked_at;
        r->todo_objects += n->todo_objects;
        r->todo_bytes += n->todo_bytes;
        r->done_objects += n->done_objects;
        r->done_bytes += n->done_bytes;
        r->failed_objects += n->failed_objects;
        r->waiting_parts += n->waiting_parts;
        r->too_close += n->too_close;
        r->too_close -= n->moved_apart < r->too_close ? n->moved_apart : r->too_close;
        r->differing_names += n->differing_names;
        r->repaired_names += n->repaired_names;
        r->undecided_names += n->undecided_names;
        r->written += n->written;
        add_lacking(r, n->lacking);
        if (worker->all.under_way && worker->all.level != 0)
                r->level = worker->all.level;
        store->health.rebuilt_objects += n->rebuilt_objects;
        store->health.rebuilt_bytes += n->rebuilt_bytes;
        add_digests(worker, r);
        if (worker->begun)
                walk_worker_look_take_place(worker);
        worker->skipped |= worker->skips;
        worker->owes = worker->owes && has_asked(worker);
        worker->asked = worker->owes;
        eng_heal_publish(store);
        pthread_mutex_unlock(&store->health_lock);
        memset(&worker->counts, 0, sizeof(worker->counts));
}

/* ---- shards that are missing ----------------------------------------------------------------- */

/*
 * What there is of it: of several values the one of the highest number, as an agreement would
 * decide.
 */
static const struct eng_scan_entry *walk_worker_look_newest(const struct eng_walk_row *row, struct fmt_value *head)
{
        const struct eng_scan_entry *best = NULL;
        struct fmt_value one;
        unsigned slot;

        for (slot = 0; slot < ENG_DRIVES_MAX; slot++) {
                if (!(row->have & eng_bit(slot)))
                        continue;
                memcpy(&one, eng_entry_value(row->of[slot]), sizeof(one));
                if (best != NULL && one.seq <= head->seq)
                        continue;
                best = row->of[slot];
                *head = one;
        }
        return best;
}

/*
 * Where a drive can take little more until another is back, records of repairs would be what fills
 * it.
 */
static bool may_rebuild(const struct eng_walk_worker *worker)
{
        return worker->el->view.writable && !atomic_load(&worker->store->stalled);
}

/*
 * Drives enough that every run could have all its shards: else mending would only move the lack
 * around.
 */
static bool enough_drives(const struct eng_walk_worker *worker)
{
        const struct eng_view *view = &worker->el->view;

        return may_rebuild(worker) &&
               (unsigned)__builtin_popcountll(view->in & view->up & ~view->map->leaving) >= worker->store->k + worker->store->m;
}

/* What an object or part lacks. */
struct lack {
        unsigned most;                 /* shards at the worst place, those on a drive that leaves included */
        bool rebuildable;                 /* some can be given back */
        unsigned now;                  /* of those, without any on a drive that leaves */
        unsigned stays;                /* and once it is repaired: they are on a drive that is out and may come back */
        uint64_t bytes;                /* of those that can be given back */
        uint64_t too_close;            /* shards on nodes that hold more of their run than may be lost with them */
        uint64_t apart;                /* of those, if it is written anew: so many fewer. It lacks nothing then */
};

static unsigned more_of(unsigned a, unsigned b)
{
        return a > b ? a : b;
}

static struct lack lack_of(const struct eng_walk_worker *worker, const struct eng_scan_entry *e)
{
        const struct eng_view *view = &worker->el->view;
        eng_mask homeless = worker->order->homeless, lost = ~(view->in & view->up) | worker->order->filling;
        eng_mask rebuildable = worker->order->filling | homeless;
        struct lack lack = {.most = 0};
        struct eng_rebuild_spread spread = {.close = 0};
        struct eng_part part;
        uint64_t all = 0;
        size_t pos = 0;
        unsigned n;

        while (eng_value_next_part(eng_entry_value(e), e->value_len, &pos, &part) == 1) {
                n = eng_rebuild_lack(&part, lost | homeless);
                lack.most = more_of(lack.most, n);
                lack.now = more_of(lack.now, eng_rebuild_lack(&part, lost));
                lack.stays = more_of(lack.stays, eng_rebuild_most_on(&part, lost & ~rebuildable));
                lack.rebuildable |= n != 0 && eng_rebuild_lack(&part, rebuildable) > 0;
                lack.bytes += n == 0 ? 0 : eng_rebuild_lack_bytes(&part, rebuildable);
                eng_rebuild_add_spread(worker->store, view->map, &part, ~(lost | homeless), &spread);
                all += eng_rebuild_lack_bytes(&part, ~(eng_mask)0);
        }
        lack.too_close = spread.close;
        if (lack.most == 0 && lack.now == 0 && worker->order->filling == 0 && view->map->leaving == 0 && spread.unsafe_then < spread.unsafe &&
            eng_rebuild_may_move(&worker->walk->at, eng_entry_value(e), e->value_len)) {
                lack.apart = spread.close > spread.close_then ? spread.close - spread.close_then : 1;
                lack.bytes = all;
        }
        return lack;
}

static void walk_worker_rebuilt(void *arg, int rv, struct eng_rebuild_written written);

/* -ENOMEM: it could not be begun. */
static int start_rebuild(struct eng_walk_worker_rebuild *m)
{
        struct eng_walk_worker *worker = m->worker;
        const struct eng_view *view = &worker->el->view;
        struct eng_rebuild_order order = {.name = &m->name,
                                       .filling = m->all ? worker->order->filling : view->in & view->up, /* any of them may have lost what is asked for */
                                       .digests = m->all ? worker->digest : NULL};

        m->rebuild = eng_rebuild_start(worker->store, &order, walk_worker_rebuilt, m);
        return m->rebuild == NULL ? -ENOMEM : 0;
}

/* Adds to the objects that lack so many shards; those that lack none are not counted. */
static void count_object(const struct eng_walk_worker *worker, int64_t counts[ENG_LACKS], unsigned lacks, int by)
{
        unsigned most = worker->store->m + 1;

        if (lacks > 0)
                counts[(lacks < most ? lacks : most) - 1] += by;
}

/* Nothing is left that could be done; of what is lost nothing could. */
static bool is_done(int rv)
{
        return rv == 0 || rv == -ENODATA;
}

/*
 * An object on a drive that is being filled is met again, and found to hold all, when others that
 * lack fewer shards are repaired.
 */
static void count_rebuilt(struct eng_walk_worker *worker, const struct eng_walk_worker_rebuild *m, int rv, uint64_t bytes)
{
        if (!is_done(rv)) {
                count_object(worker, worker->stays, m->lacks, 1);
                count_object(worker, worker->stays, m->stays, -1);
        } else if (m->first || bytes > 0) {
                count_object(worker, worker->counts.lacking, m->lacks, -1);
                count_object(worker, worker->counts.lacking, m->stays, 1);
                count_object(worker, worker->lacking, m->lacks, -1);
                count_object(worker, worker->lacking, m->stays, 1);
        }
}

static void rebuild_ended(struct eng_walk_worker_rebuild *m, int rv, uint64_t bytes)
{
        struct eng_walk_worker *worker = m->worker;
        struct eng_walk_worker_counts *n = &worker->counts;

        assert(!m->all || worker->out > 0);
        m->rebuild = NULL;
        worker->out -= m->all;
        if (m->apart != 0 && rv != 0) /* what was written of it is given back */
                bytes = 0;
        n->moved_apart += rv == 0 && bytes > 0 ? m->apart : 0;
        n->rebuilt_objects += is_done(rv) && bytes > 0;
        n->rebuilt_bytes += is_done(rv) ? bytes : 0;
        if (m->all && m->apart != 0) { /* it lacks nothing: what comes to nothing is tried by the next day's walk, and holds up nobody */
                n->done_objects += is_done(rv);
                n->done_bytes += is_done(rv) ? m->bytes : 0;
        } else if (m->all) {
                n->written += bytes;
                n->failed_objects += !is_done(rv) && rv != -ECANCELED;
                worker->all.failed |= !is_done(rv) && rv != -ECANCELED;
                n->done_objects += is_done(rv);
                n->done_bytes += is_done(rv) ? m->bytes : 0;
                count_rebuilt(worker, m, rv, bytes);
                if (!is_done(rv))
                        eng_walk_worker_earlier(&worker->all.lacking, &m->name);
        } else if (!is_done(rv) && rv != -ECANCELED) { /* no walk counts it: the next day's would be the first to try again */
                eng_walk_worker_missed(worker, m->pg);
        }
        eng_walk_worker_tell(worker);
        eng_walk_worker_step(worker);
}

static void walk_worker_rebuilt(void *arg, int rv, struct eng_rebuild_written written)
{
        struct eng_walk_worker_rebuild *m = arg;
        uint64_t bytes = written.bytes;

        if (rv == -ESTALE && m->tries > 0 && !m->worker->stop) { /* an epoch ended meanwhile, or a client was faster: it is read anew */
                m->worker->counts.written += m->all && m->apart == 0 ? bytes : 0;
                m->tries--;
                rv = start_rebuild(m);
                if (rv == 0)
                        return;
                bytes = 0;
        }
        rebuild_ended(m, rv, bytes);
}

/* False: as many are under way as may be. */
static bool begin_rebuild(struct eng_walk_worker *worker, uint32_t pg, const struct lack *lack)
{
        bool all = worker->now == &worker->all;
        struct eng_walk_worker_rebuild *m = worker->rebuilds;
        int rv;

        while (m < worker->rebuilds + ENG_WALK_WORKER_REBUILDS && m->rebuild != NULL)
                m++;
        if (m == worker->rebuilds + ENG_WALK_WORKER_REBUILDS)
                return false;
        m->worker = worker;
        m->name = worker->walk->at;
        m->bytes = lack->bytes;
        m->apart = lack->apart;
        m->lacks = lack->now;
        m->stays = lack->stays;
        m->first = worker->all.first;
        m->all = all;
        m->pg = pg;
        m->tries = STALE_TRIES;
        worker->out += all;
        rv = start_rebuild(m);
        if (rv != 0)
                rebuild_ended(m, rv, 0);
        return true;
}

/* Counts an object that is met for the first time. */
static void count_lack(struct eng_walk_worker *worker, const struct lack *lack, bool can, bool rests)
{
        struct eng_walk_worker_counts *n = &worker->counts;

        n->looked_at++;
        n->too_close += lack->too_close;
        if (rests)
                return;
        count_object(worker, n->lacking, lack->now, 1);
        count_object(worker, worker->lacking, lack->now, 1);
        count_object(worker, worker->stays, can ? lack->stays : lack->now, 1);
        if (lack->most != 0 && !can)
                eng_walk_worker_earlier(&worker->all.lacking, &worker->walk->at);
        worker->skips |= lack->rebuildable && !can;
        if (!can)
                return;
        n->todo_objects++;
        n->todo_bytes += lack->bytes;
}

/* False: it has to wait. */
static bool look_at_object(struct eng_walk_worker *worker, const struct lack *lack, const struct fmt_value *head)
{
        struct eng_walk_worker_tour *tour = &worker->all;
        bool rests = (lack->most != 0 || lack->apart != 0) && eng_lost_object_rests(worker->el, head->id, LOST_RESTS * worker->took);
        bool last = lack->apart != 0 && tour->first; /* when nothing is left that lacks something */
        bool can = !rests && ((lack->most != 0 && lack->rebuildable) || lack->apart != 0) && enough_drives(worker);
        unsigned level = lack->most < ERA_MAX_M ? lack->most : ERA_MAX_M;

        if (can && tour->first && level > tour->level)
                tour->level = level;
        if (can && !last && level == tour->level && !begin_rebuild(worker, head->pg, lack))
                return false;
        if (tour->first)
                count_lack(worker, lack, can, rests);
        if (can && (last || level < tour->level) && tour->left[level].len == 0)
                tour->left[level] = worker->walk->at;
        return true;
}

/* What it lacks is asked of the drives. False: it has to wait. */
static bool look_at_asked(struct eng_walk_worker *worker, uint32_t pg)
{
        if (worker->now->space != FMT_SPACE_OBJECT || pg >= worker->store->pg_count)
                return true;
        if (may_rebuild(worker))
                return begin_rebuild(worker, pg, &(struct lack){.most = 0});
        eng_walk_worker_missed(worker, pg);
        return true;
}

static bool look_at_shards(struct eng_walk_worker *worker)
{
        struct fmt_value head;
        const struct eng_scan_entry *e = walk_worker_look_newest(&worker->row, &head);
        struct lack lack;

        if (head.parts == 0 && eng_value_is_object(&head) && worker->now == &worker->all && worker->all.first)
                worker->counts.looked_at++;
        if (head.parts == 0 || worker->now->space == FMT_SPACE_UPLOAD)
                return true;
        if (worker->now == &worker->some)
                return look_at_asked(worker, head.pg);
        lack = lack_of(worker, e);
        if (worker->now->space == FMT_SPACE_OBJECT)
                return look_at_object(worker, &lack, &head);
        worker->counts.waiting_parts += lack.most != 0 && lack.rebuildable;
        return true;
}

/* ---- names that differ ----------------------------------------------------------------------- */

static void walk_worker_agreed(struct eng_agree *agree)
{
        struct eng_walk_worker_agree *a = (struct eng_walk_worker_agree *)agree;
        struct eng_walk_worker *worker = a->worker;

        assert(a->out && worker->out > 0);
        a->out = false;
        worker->out--;
        worker->counts.differing_names += agree->differed;
        worker->counts.repaired_names += agree->differed && agree->txn.result == 0 && agree->repaired > 0;
        worker->counts.undecided_names += eng_agree_left(agree);
        eng_walk_worker_tell(worker);
        eng_walk_worker_step(worker);
}

/* Members that should have it say otherwise, or not the same. */
static bool row_differs(const struct eng_walk_worker *worker)
{
        struct fmt_value head;

        walk_worker_look_newest(&worker->row, &head);
        if (head.pg > worker->store->pg_count || worker->store->pgs[head.pg].in_doubt || !worker->el->view.writable)
                return false;
        return eng_walk_differs(&worker->row, eng_speakers(&worker->el->view, head.pg) & worker->walk->drives & ~worker->walk->failed);
}

/* False: as many are under way as may be. */
static bool begin_agree(struct eng_walk_worker *worker)
{
        struct eng_walk_worker_agree *a = worker->agrees;

        while (a < worker->agrees + ENG_WALK_WORKER_AGREES && a->out)
                a++;
        if (a == worker->agrees + ENG_WALK_WORKER_AGREES)
                return false;
        a->worker = worker;
        a->agree.name = worker->walk->at;
        a->agree.done = walk_worker_agreed;
        a->out = eng_agree_start(worker->store, &a->agree) == 0; /* else no name of ours */
        worker->out += a->out;
        return true;
}

/* False: it has to wait. */
bool eng_walk_worker_look_at_row(struct eng_walk_worker *worker)
{
        bool is_new = worker->now == &worker->some || worker->now->space != FMT_SPACE_OBJECT || worker->all.first;

        assert(eng_on_loop(worker->el) && worker->has_row);
        if (!worker->compared && is_new && row_differs(worker) && !begin_agree(worker))
                return false;
        worker->compared = true;
        return look_at_shards(worker);
}
