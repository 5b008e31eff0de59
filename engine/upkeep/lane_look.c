/*
 * lane_look.c - what a lane does with one name: compares it on its members, looks for shards that it lacks, begins the repairs, and tells what has come
 * of them. The lane's loop.
 *
 * The first object that lacks shards is repaired when it is met. From the first one on that lacks more, those that lack fewer are left for later, and the
 * lane remembers where it began to; it comes back to them level by level. So the most endangered objects known go first, and nothing has to be
 * looked at before the first repair.
 *
 * The walk only finds: whatever is written is decided by what is read with the key locked.
 */
#include "engine/resync/resync.h"
#include "engine/upkeep/upkeep.h"
#include "engine/upkeep/lane.h"
#include "engine/upkeep/lost_objects.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define STALE_TRIES 3u
#define LOST_RESTS 20u                 /* walks' time in which an object with stripes beyond repair is left alone, once all else of it was repaired */

int eng_lane_compare(const struct eng_name *a, const struct eng_name *b)
{
        int c = memcmp(a->data, b->data, a->len < b->len ? a->len : b->len);

        return c != 0 ? c : (int)a->len - (int)b->len;
}

int eng_lane_compare_from(const struct eng_name *start, const struct eng_name *a, const struct eng_name *b)
{
        int round = (eng_lane_compare(a, start) < 0) - (eng_lane_compare(b, start) < 0);

        return round != 0 ? round : eng_lane_compare(a, b);
}

void eng_lane_earlier(struct eng_name *of, const struct eng_name *name)
{
        if (of->len == 0 || eng_lane_compare(name, of) < 0)
                *of = *name;
}

/* ---- telling ---------------------------------------------------------------------------------------------------- */

static void earlier_from(const struct eng_name *start, struct eng_name *of, const struct eng_name *name)
{
        if (name->len != 0 && eng_lane_compare_from(start, name, of) < 0)
                *of = *name;
}

/* Objects that come before it lack nothing, as far as this tour knows. */
static void lane_look_take_place(struct eng_lane *lane)
{
        static const struct eng_name none = {.len = 0};
        const struct eng_lane_tour *all = &lane->all;
        const struct eng_name *start = all->space == FMT_SPACE_OBJECT ? &lane->order->start : &none; /* afterwards it has come to all */
        struct eng_name place = {.len = 1, .data = {FMT_SPACE_OBJECT + 1}};
        unsigned i;

        if (all->space == FMT_SPACE_CONFIG || all->space == FMT_SPACE_PART)
                return;
        if (all->space == FMT_SPACE_OBJECT)
                place = lane->now == all ? lane->walk->at : all->at;
        for (i = 0; i <= ERA_MAX_M; i++)
                earlier_from(start, &place, &all->left[i]);
        earlier_from(start, &place, &all->lacking);
        for (i = 0; i < ENG_LANE_MENDS; i++)
                if (lane->mends[i].mend != NULL && lane->mends[i].all)
                        earlier_from(start, &place, &lane->mends[i].name);
        lane->place = place;
}

static void add_digests(struct eng_lane *lane, struct eng_heal_report *r)
{
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++)
                if (lane->digest[i].shards > 0)
                        eng_digest_merge(&r->digest[i], &lane->digest[i]);
        memset(lane->digest, 0, sizeof(lane->digest));
}

void eng_lane_tell(struct eng_lane *lane)
{
        struct eng_store *store = lane->store;
        const struct eng_lane_counts *n = &lane->counts;
        struct eng_heal_report *r = &store->heal;

        pthread_mutex_lock(&store->health_lock);
        r->looked_at += n->looked_at;
        r->todo_objects += n->todo_objects;
        r->todo_bytes += n->todo_bytes;
        r->done_objects += n->done_objects;
        r->done_bytes += n->done_bytes;
        r->failed_objects += n->failed_objects;
        r->waiting_parts += n->waiting_parts;
        r->differing_names += n->differing_names;
        r->repaired_names += n->repaired_names;
        r->undecided_names += n->undecided_names;
        r->written += n->written;
        r->below += (uint64_t)n->below;
        if (lane->all.under_way && lane->all.level != 0)
                r->level = lane->all.level;
        store->health.mended_objects += n->mended_objects;
        store->health.mended_bytes += n->mended_bytes;
        add_digests(lane, r);
        if (lane->begun)
                lane_look_take_place(lane);
        lane->skipped |= lane->skips;
        eng_heal_publish(store);
        pthread_mutex_unlock(&store->health_lock);
        memset(&lane->counts, 0, sizeof(lane->counts));
}

/* ---- shards that are missing ---------------------------------------------------------------------------------------- */

/* What there is of it: of several values the one of the highest number, as an agreement would decide. */
static const struct eng_scan_entry *lane_look_newest(const struct eng_walk_row *row, struct fmt_value *head)
{
        const struct eng_scan_entry *best = NULL;
        struct fmt_value one;
        unsigned slot;

        for (slot = 0; slot < ENG_DRIVES_MAX; slot++) {
                if (!(row->have & eng_bit(slot)))
                        continue;
                memcpy(&one, eng_walk_value(row->of[slot]), sizeof(one));
                if (best != NULL && one.seq <= head->seq)
                        continue;
                best = row->of[slot];
                *head = one;
        }
        return best;
}

/* Where a drive can take little more until another is back, records of repairs would be what fills it. */
static bool may_mend(const struct eng_lane *lane)
{
        return lane->el->view.writable && !atomic_load(&lane->store->stalled);
}

/* Drives enough that every run could have all its shards: else mending would only move the lack around. */
static bool enough_drives(const struct eng_lane *lane)
{
        const struct eng_view *view = &lane->el->view;

        return may_mend(lane) &&
               (unsigned)__builtin_popcountll(view->in & view->up & ~view->map->leaving) >= lane->store->k + lane->store->m;
}

/* What an object or part lacks. */
struct lack {
        unsigned most;                 /* shards at the worst place, those on a drive that leaves included */
        bool mendable;                 /* some can be given back */
        bool below;                    /* it lacks some now */
        bool stays;                    /* and will, since they are on a drive that is out and may come back */
        uint64_t bytes;                /* of those that can be given back */
};

static struct lack lack_of(const struct eng_lane *lane, const struct eng_scan_entry *e)
{
        const struct eng_view *view = &lane->el->view;
        eng_mask homeless = lane->order->homeless, lost = ~(view->in & view->up) | lane->order->filling;
        eng_mask mendable = lane->order->filling | homeless;
        struct lack lack = {.most = 0};
        struct eng_part part;
        size_t pos = 0;
        unsigned n;

        while (eng_value_next_part(eng_walk_value(e), e->value_len, &pos, &part) == 1) {
                n = eng_mend_lack(&part, lost | homeless);
                lack.most = n > lack.most ? n : lack.most;
                lack.below |= eng_mend_lack(&part, lost) > 0;
                lack.stays |= (eng_part_drives(&part) & lost & ~mendable) != 0;
                lack.mendable |= n != 0 && eng_mend_lack(&part, mendable) > 0;
                lack.bytes += n == 0 ? 0 : eng_mend_lack_bytes(&part, mendable);
        }
        return lack;
}

static void lane_mended(void *arg, int rv, struct eng_mend_written written);

/* -ENOMEM: it could not be begun. */
static int start_mend(struct eng_lane_mend *m)
{
        struct eng_lane *lane = m->lane;
        const struct eng_view *view = &lane->el->view;
        struct eng_mend_order order = {.name = &m->name,
                                       .filling = m->all ? lane->order->filling : view->in & view->up, /* any of them may have lost what is asked for */
                                       .digests = m->all ? lane->digest : NULL};

        m->mend = eng_mend_start(lane->store, &order, lane_mended, m);
        return m->mend == NULL ? -ENOMEM : 0;
}

/* Nothing is left that could be done; of what is lost nothing could. */
static bool is_done(int rv)
{
        return rv == 0 || rv == -ENODATA;
}

/* An object on a drive that is being filled is met again, and found to hold all, when others that lack fewer shards are repaired. */
static void count_mended(struct eng_lane *lane, const struct eng_lane_mend *m, int rv, uint64_t bytes)
{
        bool healed = is_done(rv) && m->heals && (m->first || bytes > 0);

        lane->counts.below -= healed;
        lane->below -= healed;
        lane->stays += !is_done(rv) && m->heals;
}

static void mend_ended(struct eng_lane_mend *m, int rv, uint64_t bytes)
{
        struct eng_lane *lane = m->lane;
        struct eng_lane_counts *n = &lane->counts;

        m->mend = NULL;
        lane->out -= m->all;
        n->mended_objects += is_done(rv) && bytes > 0;
        n->mended_bytes += is_done(rv) ? bytes : 0;
        if (m->all) {
                n->written += bytes;
                n->failed_objects += !is_done(rv) && rv != -ECANCELED;
                n->done_objects += is_done(rv);
                n->done_bytes += is_done(rv) ? m->bytes : 0;
                count_mended(lane, m, rv, bytes);
                if (!is_done(rv))
                        eng_lane_earlier(&lane->all.lacking, &m->name);
        }
        eng_lane_tell(lane);
        eng_lane_step(lane);
}

static void lane_mended(void *arg, int rv, struct eng_mend_written written)
{
        struct eng_lane_mend *m = arg;
        uint64_t bytes = written.bytes;

        if (rv == -ESTALE && m->tries > 0 && !m->lane->stop) { /* an epoch ended meanwhile, or a client was faster: it is read anew */
                m->lane->counts.written += m->all ? bytes : 0;
                m->tries--;
                rv = start_mend(m);
                if (rv == 0)
                        return;
                bytes = 0;
        }
        mend_ended(m, rv, bytes);
}

/* False: as many are under way as may be. */
static bool begin_mend(struct eng_lane *lane, const struct lack *lack)
{
        bool all = lane->now == &lane->all;
        struct eng_lane_mend *m = lane->mends;
        int rv;

        while (m < lane->mends + ENG_LANE_MENDS && m->mend != NULL)
                m++;
        if (m == lane->mends + ENG_LANE_MENDS)
                return false;
        m->lane = lane;
        m->name = lane->walk->at;
        m->bytes = lack->bytes;
        m->heals = lack->below && !lack->stays;
        m->first = lane->all.first;
        m->all = all;
        m->tries = STALE_TRIES;
        lane->out += all;
        rv = start_mend(m);
        if (rv != 0)
                mend_ended(m, rv, 0);
        return true;
}

/* Counts an object that is met for the first time. */
static void count_lack(struct eng_lane *lane, const struct lack *lack, bool can, bool rests)
{
        struct eng_lane_counts *n = &lane->counts;

        n->looked_at++;
        if (rests)
                return;
        n->below += lack->below;
        lane->below += lack->below;
        lane->stays += lack->below && (!can || lack->stays);
        if (lack->most != 0 && !can)
                eng_lane_earlier(&lane->all.lacking, &lane->walk->at);
        lane->skips |= lack->mendable && !can;
        if (!can)
                return;
        n->todo_objects++;
        n->todo_bytes += lack->bytes;
}

/* False: it has to wait. */
static bool look_at_object(struct eng_lane *lane, const struct lack *lack, const uint8_t id[FMT_ID])
{
        struct eng_lane_tour *tour = &lane->all;
        bool rests = lack->most != 0 && eng_lost_object_rests(lane->el, id, LOST_RESTS * lane->took);
        bool can = !rests && lack->most != 0 && lack->mendable && enough_drives(lane);
        unsigned level = lack->most < ERA_MAX_M ? lack->most : ERA_MAX_M;

        if (can && tour->first && level > tour->level)
                tour->level = level;
        if (can && level == tour->level && !begin_mend(lane, lack))
                return false;
        if (tour->first)
                count_lack(lane, lack, can, rests);
        if (can && level < tour->level && tour->left[level].len == 0)
                tour->left[level] = lane->walk->at;
        return true;
}

static bool look_at_shards(struct eng_lane *lane)
{
        struct fmt_value head;
        const struct eng_scan_entry *e = lane_look_newest(&lane->row, &head);
        struct lack lack;

        if (head.parts == 0 && lane->now->space == FMT_SPACE_OBJECT && lane->now == &lane->all && lane->all.first)
                lane->counts.looked_at++;
        if (head.parts == 0 || lane->now->space == FMT_SPACE_UPLOAD)
                return true;
        if (lane->now == &lane->some) /* what they lack is asked of the drives */
                return lane->now->space != FMT_SPACE_OBJECT || !may_mend(lane) || begin_mend(lane, &(struct lack){.most = 0});
        lack = lack_of(lane, e);
        if (lane->now->space == FMT_SPACE_OBJECT)
                return look_at_object(lane, &lack, head.id);
        lane->counts.waiting_parts += lack.most != 0 && lack.mendable;
        return true;
}

/* ---- names that differ ------------------------------------------------------------------------------------------- */

static void lane_agreed(struct eng_agree *agree)
{
        struct eng_lane_agree *a = (struct eng_lane_agree *)agree;
        struct eng_lane *lane = a->lane;

        a->out = false;
        lane->out--;
        lane->counts.differing_names += agree->differed;
        lane->counts.repaired_names += agree->differed && agree->txn.result == 0 && agree->repaired > 0;
        lane->counts.undecided_names += eng_agree_left(agree);
        eng_lane_tell(lane);
        eng_lane_step(lane);
}

/* Members that should have it say otherwise, or not the same. */
static bool row_differs(const struct eng_lane *lane)
{
        struct fmt_value head;

        lane_look_newest(&lane->row, &head);
        if (head.pg > lane->store->pg_count || lane->store->pgs[head.pg].in_doubt || !lane->el->view.writable)
                return false;
        return eng_walk_differs(&lane->row, eng_speakers(&lane->el->view, head.pg) & lane->walk->drives & ~lane->walk->failed);
}

/* False: as many are under way as may be. */
static bool begin_agree(struct eng_lane *lane)
{
        struct eng_lane_agree *a = lane->agrees;

        while (a < lane->agrees + ENG_LANE_AGREES && a->out)
                a++;
        if (a == lane->agrees + ENG_LANE_AGREES)
                return false;
        a->lane = lane;
        a->agree.name = lane->walk->at;
        a->agree.done = lane_agreed;
        a->out = eng_agree_start(lane->store, &a->agree) == 0; /* else no name of ours */
        lane->out += a->out;
        return true;
}

/* False: it has to wait. */
bool eng_lane_look_at_row(struct eng_lane *lane)
{
        bool is_new = lane->now == &lane->some || lane->now->space != FMT_SPACE_OBJECT || lane->all.first;

        if (!lane->compared && is_new && row_differs(lane) && !begin_agree(lane))
                return false;
        lane->compared = true;
        return look_at_shards(lane);
}
