/*
 * get_hedge.c - hedged reads: what is late of a stripe is computed from other shards, while the late reads go
 * on. Whichever is there first counts.
 *
 *   a stripe is READING for longer than eng_read_late_ns()
 *     └─> a hedge: as many other shards as are missing to k, of the bytes that the late ones should give
 *           ├─ it is back first: the late units are computed; their reads go on for nobody, with their slots
 *           └─ the late ones are: the hedge goes on for nobody
 *
 * A slot belongs to the read that fills it until that is back, whoever waits for it (I7). Each has one of a
 * reservation: a hedge reserves slots of its own, at once or not at all, and what goes on for nobody takes as
 * many of the get's with it. Reads of nobody use the loop alone, so they may outlive the get and the store.
 *
 * Not hedged: degraded stripes, which have k shards to choose from already.
 */
#include "engine/base/store.h"
#include "engine/object/get.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- reads of nobody ------------------------------------------------------------------------- */

void eng_get_left_read(struct get_stripe *s, struct eng_op *op)
{
        assert(s->get == NULL && s->pending > 0);
        if (op->read.slot != NULL) { /* else its drive has it yet, and gives it back */
                lp_slot_put(lp_self(), op->read.slot);
                lp_unreserve(lp_self(), LP_SHARE_GET, 1);
        }
        if (--s->pending > 0)
                return;
        LIST_REMOVE(s, left_link);
        free(s);
}

/* Its reads that are not back, and their slots, are nobody's from here on; it has no others any more. */
static void leave_reads(struct eng_get *get, struct get_stripe *s)
{
        unsigned i;

        assert(s->pending > 0 && get->in_flight >= s->pending);
        for (i = 0; i < eng_get_shards(s); i++)
                assert(s->slot[i] == NULL || s->state_of[i] == SHARD_READING);
        get->in_flight -= s->pending;
        get->used -= s->pending;
        get->reserve.count -= s->pending;
        s->get = NULL;
        LIST_INSERT_HEAD(&get->el->home.left_stripes, s, left_link);
}

/* ---- the end of a hedge ---------------------------------------------------------------------- */

/* Slots that it has, and has no use for; what it reserved but for `kept` of them. */
static void hedge_end(struct eng_get *get, struct get_stripe *s, unsigned kept)
{
        struct get_stripe *hedge = s->hedge;
        unsigned i, left = hedge->pending, spare = hedge->reserved - kept - left;

        assert(hedge->reserved >= kept + left);
        for (i = 0; i < eng_get_shards(hedge); i++)
                if (hedge->state_of[i] != SHARD_READING)
                        eng_get_drop_unit(get, hedge, i);
        s->hedge = NULL;
        if (left > 0)
                leave_reads(get, hedge);
        else
                free(hedge);
        lp_unreserve(get->el->loop, LP_SHARE_GET, spare);
        get->reserve.count -= spare;
}

void eng_get_hedge_lost(struct eng_get *get, struct get_stripe *s)
{
        if (s->hedge != NULL)
                hedge_end(get, s, 0);
}

/* ---- what is missing, from what is there ----------------------------------------------------- */

/* Its bytes of the hedge's range are in its slot; those behind the object's end are zeroes there. */
static bool hedge_covers(const struct get_stripe *s, unsigned shard, uint32_t from, uint32_t to)
{
        const struct eng_op *op = &s->read[shard].op;
        bool ends = shard + 1u == s->part.head.k || eng_get_is_zero_unit(s, shard + 1);
        uint32_t end;

        if (s->state_of[shard] != SHARD_GOOD) /* else the operation is the drive's */
                return false;
        end = op->read.offset + op->read.len;
        if (op->read.offset > from)
                return false;
        if (end >= to)
                return true;
        if (shard >= s->part.head.k || !ends || s->hi != eng_stripe_bytes(&s->part.head, s->stripe))
                return false;
        memset((uint8_t *)s->slot[shard] + LP_SLOT_HEADER + end, 0, s->unit - end);
        return true;
}

struct hedge_work {
        struct get_sources from;
        uint8_t missing[ERA_MAX_SHARDS];
        void **over[ERA_MAX_SHARDS]; /* slots that what is computed may take the place of */
        void *to[ERA_MAX_SHARDS];
        unsigned n, overs;
};

static bool data_is_wanted(const struct get_stripe *s, unsigned shard)
{
        return shard >= s->first && shard <= s->last && s->state_of[shard] != SHARD_GOOD;
}

static void hedge_work(struct get_stripe *s, struct get_stripe *hedge, struct hedge_work *w)
{
        unsigned i;

        *w = (struct hedge_work){.n = 0};
        for (i = 0; i < eng_get_shards(s); i++) {
                bool own = s->state_of[i] == SHARD_GOOD && hedge_covers(s, i, hedge->from, hedge->to);
                bool extra = hedge->state_of[i] == SHARD_GOOD;

                w->from.slot[i] = own ? s->slot[i] : extra ? hedge->slot[i] : NULL;
                w->from.present[i] = own || extra || eng_get_is_zero_unit(s, i);
                if (data_is_wanted(s, i) && !extra)
                        w->missing[w->n++] = (uint8_t)i;
                else if (extra && !data_is_wanted(s, i))
                        w->over[w->overs++] = &hedge->slot[i];
                else if (own && i >= s->part.head.k)
                        w->over[w->overs++] = &s->slot[i];
        }
        assert(w->overs >= w->n);
        for (i = 0; i < w->n; i++)
                w->to[i] = *w->over[i];
}

static int hedge_compute(struct eng_get *get, const struct get_stripe *hedge, struct hedge_work *w)
{
        uint64_t began = lp_clock();
        struct era_code *code;
        bool made;
        int rv;

        if (w->n == 0)
                return 0;
        rv = eng_get_code_for(get, &hedge->part.head, &code, &made);
        if (rv != 0)
                return rv;
        rv = eng_get_compute(code, eng_get_shards(hedge), &w->from, hedge->from, hedge->to, w->missing, w->to, w->n);
        if (made)
                era_code_free(code);
        eng_step_ends(get->el, ENG_STEP_REBUILD, began);
        return rv;
}

/* ---- it is back first ------------------------------------------------------------------------ */

/* All but the reads that are not back, whose ops are their drives'. */
static void move_stripe(struct get_stripe *s, struct get_stripe *fresh)
{
        unsigned i;

        memcpy(fresh, s, offsetof(struct get_stripe, read));
        fresh->pending = 0;
        for (i = 0; i < eng_get_shards(s); i++) {
                if (s->state_of[i] == SHARD_READING) {
                        fresh->state_of[i] = SHARD_NONE;
                        fresh->slot[i] = NULL;
                } else {
                        fresh->read[i] = s->read[i];
                        s->slot[i] = NULL;
                }
        }
}

/* The units lie in the stripe, which is another one from here on if reads of it are late: those stay with the first. */
static struct get_stripe *hedge_take(struct eng_get *get, struct get_stripe *s, struct get_stripe *hedge, struct get_stripe *fresh,
                                     struct hedge_work *w)
{
        struct get_stripe *into = fresh != NULL ? fresh : s;
        unsigned i;

        for (i = 0; i < w->n; i++)
                *w->over[i] = NULL; /* moves to `into`, below */
        if (fresh != NULL)
                move_stripe(s, fresh);
        for (i = s->first; i <= s->last; i++)
                if (into->state_of[i] != SHARD_GOOD && hedge->state_of[i] == SHARD_GOOD) {
                        into->slot[i] = hedge->slot[i];
                        into->state_of[i] = SHARD_GOOD;
                        into->summed &= ~(1u << i);
                        hedge->slot[i] = NULL;
                }
        for (i = 0; i < w->n; i++) {
                into->slot[w->missing[i]] = w->to[i];
                into->state_of[w->missing[i]] = SHARD_GOOD;
                into->summed &= ~(1u << w->missing[i]);
        }
        for (i = into->part.head.k; i < eng_get_shards(into); i++)
                eng_get_drop_unit(get, into, i); /* parity was a source alone */
        into->near = false;
        into->asked = into->good;
        return into;
}

/* It did not help: the stripe goes on as it would have. */
static void hedge_fails(struct eng_get *get, struct get_stripe *s)
{
        hedge_end(get, s, 0);
        if (s->pending == 0)
                eng_get_stripe_done(get, s);
        else
                eng_get_proceed(get);
}

void eng_get_hedge_back(struct eng_get *get, struct get_stripe *hedge)
{
        struct get_stripe *s = hedge->of, *fresh = NULL;
        unsigned late = s->pending;
        struct hedge_work w;

        assert(s->hedge == hedge && hedge->pending == 0 && s->state == STRIPE_READING && !s->degraded);
        if (get->closed || get->error != 0 || get->degrading || hedge->good < hedge->asked || s->lost || s->damaged != 0) {
                hedge_fails(get, s);
                return;
        }
        if (late > 0)
                fresh = calloc(1, sizeof(*fresh));
        hedge_work(s, hedge, &w);
        if ((late > 0 && fresh == NULL) || hedge_compute(get, hedge, &w) != 0) {
                free(fresh);
                hedge_fails(get, s);
                return;
        }
        atomic_fetch_add(&get->store->hedges_won, 1);
        if (fresh != NULL)
                get->stripes[get->stripes[1] == s] = fresh;
        fresh = hedge_take(get, s, hedge, fresh, &w);
        hedge_end(get, fresh, late); /* their slots are in the place of as many of the late ones' */
        if (late > 0)
                leave_reads(get, s);
        eng_get_stripe_done(get, fresh);
}

/* ---- it begins ------------------------------------------------------------------------------- */

/* What is wanted and not there, whether its read is late or came to nothing: bytes of each shard. */
static void hedge_range(const struct get_stripe *s, uint32_t *from, uint32_t *to)
{
        uint32_t offset, len;
        unsigned i;

        *from = s->near ? 0 : UINT32_MAX;
        *to = s->near ? s->unit : 0;
        for (i = s->first; i <= s->last && !s->near; i++) {
                if (s->state_of[i] == SHARD_GOOD)
                        continue;
                eng_get_wanted(s, i, &offset, &len);
                *from = offset < *from ? offset : *from;
                *to = offset + len > *to ? offset + len : *to;
        }
}

/* May be asked for: it is not late, and not there. */
static bool hedge_candidate(const struct eng_get *get, struct get_stripe *s, unsigned shard, uint32_t from, uint32_t to)
{
        int drive = eng_get_drive_of(get, s, shard);

        return drive >= 0 && s->state_of[shard] != SHARD_READING && !eng_get_is_zero_unit(s, shard) &&
               !eng_drive_is_last(get->store->members[drive].drive) && !hedge_covers(s, shard, from, to);
}

/* Of a node that a read is late of: what else it has may be as late. */
static bool is_of_late_node(const struct eng_get *get, const struct get_stripe *s, const struct eng_drive *drive)
{
        unsigned i;

        for (i = 0; i < eng_get_shards(s) && drive->node != 0; i++) {
                int late = s->state_of[i] == SHARD_READING ? eng_get_drive_of(get, s, i) : -1;

                if (late >= 0 && get->store->members[late].drive->node == drive->node)
                        return true;
        }
        return false;
}

/* Those that are near and quick first. Which they are; fewer than `need`: there are no more. */
static unsigned hedge_choose(const struct eng_get *get, struct get_stripe *s, uint32_t from, uint32_t to, unsigned need,
                             uint8_t chosen[ERA_MAX_SHARDS])
{
        unsigned pass, i, n = 0;

        for (pass = 0; pass < 3 && n < need; pass++)
                for (i = 0; i < eng_get_shards(s) && n < need; i++) {
                        const struct eng_drive *drive;
                        unsigned class;
                        int slot;

                        if (!hedge_candidate(get, s, i, from, to))
                                continue;
                        slot = eng_get_drive_of(get, s, i);
                        drive = get->store->members[slot].drive;
                        class = eng_read_is_slow(&get->el->home.read_times, (unsigned)slot) || is_of_late_node(get, s, drive) ? 2 : drive->far;
                        if (class == pass)
                                chosen[n++] = (uint8_t)i;
                }
        return n;
}

/* Shards that are missing to k. */
static unsigned hedge_need(struct get_stripe *s, uint32_t from, uint32_t to)
{
        unsigned i, have = 0;

        for (i = 0; i < eng_get_shards(s); i++)
                have += eng_get_is_zero_unit(s, i) || hedge_covers(s, i, from, to);
        return s->part.head.k - have;
}

/* Slots, and of the extra reads that there may be. */
static bool hedge_reserve(struct eng_get *get, unsigned count)
{
        struct lp_reserve reserve = {.count = count, .share = LP_SHARE_GET};

        if (lp_reserve(get->el->loop, &reserve) != 0) {
                lp_reserve_cancel(get->el->loop, &reserve);
                return false;
        }
        if (!eng_read_times_spend(&get->el->home.read_times, count)) {
                lp_unreserve(get->el->loop, LP_SHARE_GET, count);
                return false;
        }
        get->reserve.count += count;
        return true;
}

static void count_late(struct eng_get *get, const struct get_stripe *s, uint64_t now)
{
        unsigned i;

        for (i = 0; i < eng_get_shards(s); i++)
                if (s->state_of[i] == SHARD_READING)
                        eng_read_times_add(&get->el->home.read_times, eng_part_drive(&s->part, s->stripe, i), now - s->began, now);
}

static void hedge_begin(struct eng_get *get, struct get_stripe *s, uint64_t now)
{
        struct get_stripe *hedge;
        uint8_t chosen[ERA_MAX_SHARDS];
        uint32_t from, to;
        unsigned i, need;

        s->hedged = true;
        count_late(get, s, now);
        hedge_range(s, &from, &to);
        need = hedge_need(s, from, to);
        if (s->lost || need == 0 || hedge_choose(get, s, from, to, need, chosen) < need)
                return;
        hedge = calloc(1, sizeof(*hedge));
        if (hedge == NULL || !hedge_reserve(get, need)) {
                free(hedge);
                return;
        }
        hedge->get = get;
        hedge->of = s;
        hedge->part = s->part;
        hedge->stripe = s->stripe;
        hedge->unit = s->unit;
        hedge->lo = s->lo;
        hedge->hi = s->hi;
        hedge->first = s->first;
        hedge->last = s->last;
        hedge->from = from;
        hedge->to = to;
        hedge->reserved = need;
        s->hedge = hedge;
        atomic_fetch_add(&get->store->hedged_reads, need);
        for (i = 0; i < need; i++)
                eng_get_read_shard(get, hedge, chosen[i], eng_get_drive_of(get, s, chosen[i]), from, to - from);
}

/* ---- looking --------------------------------------------------------------------------------- */

static void late_look(struct lp_timer *timer)
{
        struct eng_get *get = container_of(timer, struct eng_get, late_timer);
        uint64_t now = lp_now(get->el->loop), late = eng_read_late_ns(&get->el->home.read_times), next = UINT64_MAX;
        unsigned i;

        get->late_armed = false;
        if (get->closed || get->error != 0 || get->degrading)
                return;
        lp_trace_set_request(get->request);
        for (i = 0; i < 2; i++) {
                struct get_stripe *s = get->stripes[i];

                if (s->state != STRIPE_READING || s->degraded || s->hedged || s->pending == 0)
                        continue;
                if (now >= s->began + late)
                        hedge_begin(get, s, now);
                else if (s->began + late < next)
                        next = s->began + late;
        }
        if (next != UINT64_MAX) {
                get->late_armed = true;
                lp_timer_start(get->el->loop, timer, next - now);
        }
}

void eng_get_watch_stripe(struct eng_get *get)
{
        if (get->late_armed)
                return;
        get->late_armed = true;
        get->late_timer.expired = late_look;
        lp_timer_start(get->el->loop, &get->late_timer, eng_read_late_ns(&get->el->home.read_times));
}

void eng_get_watch_end(struct eng_get *get)
{
        if (get->late_armed)
                lp_timer_stop(get->el->loop, &get->late_timer);
        get->late_armed = false;
}
