/*
 * scrub_drive.c - reads each drive's segments in physical order, so that every byte is read once in
 * a period that is set.
 *
 * One scrubber for each drive, on the drive's own loop, so that all drives are read beside each
 * other. The drive does the reading (SCRUB, engine/drive/scrub_segment.c), remembers how far it is,
 * and remembers what is damaged. Here is when, and how fast:
 *
 *   LOOK       once a second: the drive is a member and answers (else: nothing is read, nothing is asked)
 *   LOAD       where it was before a restart
 *   WAIT       until the next stretch is due, or the next round
 *   READ       one stretch, into a slot of the loop's. While others read from the drive it waits, a second at most
 *   KEEP       a round is over
 *
 * The rate is what the drive held when the round began, over nine tenths of the period; what was
 * missed by load or a restart is caught up with at four times that. Neither is above
 * options.scrub_rate. A round that takes longer than the period is late, which health and the log
 * say.
 *
 * What is damaged is repaired by others: they are told of the group (eng_upkeep_group()). Where it
 * is not known (frames of layout 1), or damage is left at a start or at the end of a round, all
 * names are walked soon (scrub.c).
 */
#include "engine/resync/resync.h"
#include "engine/upkeep/upkeep.h"
#include "engine/txn/txn_util.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SETTLE_NS  (60 * 1000000000ull) /* after the store has opened */
#define LOOK_NS    1000000000ull
#define YIELD_NS   (20ull * 1000 * 1000)
#define YIELDS_MAX 50u                  /* one after the other: a second */
#define CHECK_NS   (5 * 1000000000ull) /* between two looks whether what is damaged was repaired */
#define CROWD      (ENG_SCRUB_REMEMBERED / 4) /* so much is damaged that repairs are waited for ... */
#define CROWD_NS   (600 * 1000000000ull)      /* ... so long after each shard found */
#define REMIND_NS  (24 * 3600 * 1000000000ull)
#define PERIOD_LEAST_MS 1000u
#define REST_MAX_NS (3600 * 1000000000ull)
#define STRETCH    (1u << 20)
#define RATE_LEAST (1ull << 20)         /* bytes/s: a round of a small drive need not take the whole period */
#define CATCH_UP   4u                   /* times the rate */

enum scrubber_step { SCRUBBER_IDLE, SCRUBBER_LOAD, SCRUBBER_WAIT, SCRUBBER_RESERVE, SCRUBBER_READ, SCRUBBER_RESYNC, SCRUBBER_KEEP };

/* One drive's. owner: the drive's loop; op: the drive while step is LOAD, READ or KEEP */
struct scrubber {
        struct eng_op op;              /* first */
        struct eng_loop *el;
        unsigned slot;
        struct eng_drive *drive;       /* that state is of */
        enum scrubber_step step;
        struct fmt_drive_scrub state;
        struct lp_reserve reserve;
        struct lp_timer timer;
        void *buffer;                  /* a slot; NULL: none */
        bool asked;                    /* by an operator: a round now, as fast as may be */
        unsigned yields;               /* one after the other */
        uint64_t read_at, read_bytes;  /* the last stretch: lp_now() */
        uint64_t found_at;             /* the last damage, when lp_now() */
        uint64_t damaged, unrepaired;
        bool gap;                      /* places were found of which nobody can tell what stands there: a walk of all names is to be asked for */
        bool awaited;                  /* one is, or was asked for, that has not ended yet */
        bool owed;                     /* the drive remembers that one is owed ... */
        uint64_t owed_since;           /* ... by any that began behind this one: store->walks_begun */
        bool more;                     /* it could not remember all such places: a round is due behind that walk */
        unsigned gaps;
        uint64_t gaps_dropped;
        struct eng_resync resync;            /* of a name whose record is damaged; under way while FIX */
        struct eng_buf *names;         /* that are to be written anew; names_at: the next one */
        size_t names_at;
};

/* owner: the loop */
struct scrub_loop {
        struct eng_loop *el;
        struct lp_timer timer;
        struct lp_msg msg;             /* to begin, or to start rounds */
        atomic_bool on_its_way;        /* msg is; any thread, as the next */
        atomic_bool wanted;            /* rounds are to start */
        bool asked;                    /* they were, in this run */
        uint64_t reminded_at;          /* lp_now() when all names were to be walked since damage stays; 0: none does */
        struct scrubber *scrubbers[ENG_DRIVES_MAX]; /* of drives that the loop owns; NULL: none yet */
};

struct eng_scrub_drives {
        unsigned count;
        struct scrub_loop loops[];
};

static void scrubber_go(struct scrubber *s);
static uint64_t scrubber_rate(const struct scrubber *s);

/* ---- what is seen ---------------------------------------------------------------------------- */

static uint64_t period_ms(const struct scrubber *s)
{
        uint64_t ms = s->el->store->options.scrub_period_ms;

        return ms < PERIOD_LEAST_MS ? PERIOD_LEAST_MS : ms;
}

static void scrubber_publish(struct scrubber *s)
{
        struct eng_store *store = s->el->store;
        bool running = s->state.started_ms != 0;
        struct eng_scrub_progress p = {
                .running = running,
                .late = running && lp_wall_ms() - s->state.started_ms > (int64_t)period_ms(s),
                .bytes = s->state.bytes,
                .total = s->state.total,
                .started_ms = s->state.started_ms,
                .last_ended_ms = s->state.last_ended_ms,
                .last_bytes = s->state.last_bytes,
                .last_damaged = s->state.last_damaged,
                .damaged = s->damaged,
                .unrepaired = s->unrepaired,
                .gaps = s->gaps,
                .owed = s->awaited,
                .gaps_dropped = s->gaps_dropped,
                .rate = running ? scrubber_rate(s) : 0,
        };

        pthread_mutex_lock(&store->health_lock);
        store->scrub_progress[s->slot] = p;
        pthread_mutex_unlock(&store->health_lock);
}

/* ---- pace ------------------------------------------------------------------------------------ */

/* Bytes a second with which the round would be over in time. */
static uint64_t scrubber_rate(const struct scrubber *s)
{
        const uint64_t most = s->el->store->options.scrub_rate;
        uint64_t rate = s->state.total / (period_ms(s) * 9 / 10000 + 1);

        if (s->asked || rate > most)
                return most;
        return rate > RATE_LEAST ? rate : RATE_LEAST < most ? RATE_LEAST : most;
}

/* What should have been read by now and was not. */
static double scrubber_behind(const struct scrubber *s)
{
        int64_t spent = lp_wall_ms() - s->state.started_ms;

        return (double)scrubber_rate(s) * (double)spent / 1000 - (double)s->state.bytes;
}

/*
 * A round does not begin in the future: the clock was wrong then, or is now. It goes on as one that
 * has kept to its rate so far.
 */
static void scrubber_mind_clock(struct scrubber *s)
{
        const double spent = (double)s->state.bytes / (double)scrubber_rate(s) * 1000;
        int64_t now = lp_wall_ms();

        if (s->state.started_ms > now)
                s->state.started_ms = spent < (double)now ? now - (int64_t)spent : 1;
}

static uint64_t scrubber_ns_until_read(const struct scrubber *s)
{
        const uint64_t most = s->el->store->options.scrub_rate, rate = scrubber_rate(s);
        const uint64_t fast = rate > most / CATCH_UP ? most : rate * CATCH_UP;
        const uint64_t now = lp_now(s->el->loop);
        double behind = scrubber_behind(s), ns;

        ns = (double)s->read_bytes / (double)fast * 1e9 - (double)(now - s->read_at);
        if (behind < 0 && !s->asked && ns < -behind / (double)rate * 1e9)
                ns = -behind / (double)rate * 1e9;
        if (s->unrepaired >= CROWD && now - s->found_at < CROWD_NS && ns < 2.0 * CHECK_NS)
                ns = 2.0 * CHECK_NS; /* and is looked at again before */
        return ns <= 0 ? 0 : ns < (double)REST_MAX_NS ? (uint64_t)ns : REST_MAX_NS;
}

/* A last round that lies in the future is none. */
static uint64_t scrubber_ns_until_round(const struct scrubber *s)
{
        int64_t left = s->state.last_started_ms + (int64_t)period_ms(s) - lp_wall_ms();

        if (s->asked || (s->more && !s->awaited) || s->state.last_ended_ms == 0 || left <= 0 || left > (int64_t)period_ms(s))
                return 0;
        return (uint64_t)left < REST_MAX_NS / 1000000 ? (uint64_t)left * 1000000 : REST_MAX_NS;
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* The drive is in use, and is the one that state is of. */
static bool scrubber_may_go_on(const struct scrubber *s)
{
        const struct eng_view *view = &s->el->view;

        return view->ready && (view->in & view->up & eng_bit(s->slot)) != 0 &&
               s->el->store->members[s->slot].drive == s->drive;
}

static void scrubber_expired(struct lp_timer *timer)
{
        scrubber_go(container_of(timer, struct scrubber, timer));
}

static void scrubber_wait(struct scrubber *s, uint64_t ns)
{
        s->step = SCRUBBER_WAIT;
        s->timer.expired = scrubber_expired;
        lp_timer_start(s->el->loop, &s->timer, ns + 1);
}

static void scrubber_prepare(struct scrubber *s, enum scrubber_step step, enum eng_scrub_what what, void (*done)(struct eng_op *op))
{
        assert(s->step == SCRUBBER_IDLE || s->step == SCRUBBER_WAIT || s->step == SCRUBBER_RESERVE); /* op is not out */
        s->step = step;
        memset(&s->op, 0, sizeof(s->op));
        s->op.kind = ENG_OP_SCRUB;
        s->op.epoch = s->el->view.epoch;
        s->op.done = done;
        s->op.scrub.what = what;
        s->op.scrub.state = s->state;
}

static void scrubber_submit(struct scrubber *s, enum scrubber_step step, enum eng_scrub_what what, void (*done)(struct eng_op *op))
{
        scrubber_prepare(s, step, what, done);
        eng_drive_submit(s->drive, &s->op);
}

static void scrubber_drop_buffer(struct scrubber *s)
{
        if (s->buffer != NULL)
                lp_slot_put(s->el->loop, s->buffer);
        s->buffer = NULL;
        lp_unreserve(s->el->loop, LP_SHARE_INTERNAL, 1);
}

static void scrubber_left(struct lp_loop *home, void *slot)
{
        lp_slot_put(home, slot);
        lp_unreserve(home, LP_SHARE_INTERNAL, 1);
}

static void scrubber_kept(struct eng_op *op)
{
        struct scrubber *s = (struct scrubber *)op;

        assert(s->step == SCRUBBER_KEEP);
        if (s->el->store->stopping)
                return;
        s->step = SCRUBBER_IDLE;
        scrubber_go(s);
}

static void scrubber_round_ended(struct scrubber *s)
{
        s->state.last_started_ms = s->state.started_ms;
        s->state.last_ended_ms = lp_wall_ms();
        s->state.last_bytes = s->state.bytes;
        s->state.last_damaged = s->state.damaged;
        s->state.segment = 0;
        s->state.started_ms = 0;
        lp_trace(LP_TRACE_SCRUB, false, s->slot);
        s->asked = false;
        scrubber_publish(s);
        if (s->unrepaired > 0)
                eng_scrub_names_soon(s->el->store);
        scrubber_submit(s, SCRUBBER_KEEP, ENG_SCRUB_KEEP, scrubber_kept);
}

static void scrubber_heard(struct scrubber *s)
{
        s->unrepaired = s->op.scrub.remembered;
        s->gaps = s->op.scrub.gaps;
        s->gaps_dropped = s->op.scrub.gaps_dropped;
        s->more = s->op.scrub.more;
}

/* What was found is compared by a walk that begins behind now. */
static void scrubber_owes(struct scrubber *s)
{
        s->owed = true;
        s->owed_since = atomic_load(&s->el->store->walks_begun);
}

static void scrubber_asks(struct scrubber *s)
{
        s->gap = s->awaited = true;
        scrubber_owes(s);
}

static bool scrubber_resync(struct scrubber *s);

static void scrubber_resynced(struct eng_resync *resync)
{
        struct scrubber *s = container_of(resync, struct scrubber, resync);

        assert(s->step == SCRUBBER_RESYNC);
        if (s->el->store->stopping)
                return;
        s->step = SCRUBBER_IDLE;
        if (resync->txn.result != 0)
                scrubber_asks(s); /* the walk tries again */
        if (!scrubber_resync(s))
                scrubber_go(s);
}

/*
 * The record of some names is damaged: the value of the next of them is written anew, as current
 * members have it. False: none is left, or can be begun.
 */
static bool scrubber_resync(struct scrubber *s)
{
        uint16_t len;

        if (s->names != NULL && s->names_at + sizeof(len) <= s->names->len) {
                memcpy(&len, s->names->data + s->names_at, sizeof(len));
                assert(len <= FMT_NAME_MAX && s->names_at + sizeof(len) + len <= s->names->len);
                s->resync.slot = s->slot;
                s->resync.repair = true;
                s->resync.done = scrubber_resynced;
                s->resync.name.len = len;
                memcpy(s->resync.name.data, s->names->data + s->names_at + sizeof(len), len);
                s->names_at += sizeof(len) + len;
                s->step = SCRUBBER_RESYNC;
                if (eng_resync_start(s->el->store, &s->resync) == 0)
                        return true;
                s->step = SCRUBBER_IDLE;
                scrubber_asks(s);
        }
        eng_buf_unref(s->names);
        s->names = NULL;
        return false;
}

static void scrubber_tell(struct scrubber *s)
{
        struct eng_store *store = s->el->store;

        s->damaged++;
        if (s->op.scrub.names != NULL)
                return;
        s->found_at = lp_now(s->el->loop);
        if (s->op.scrub.key_hash != 0)
                eng_upkeep_group(store, eng_pg_of_hash(store->pg_count, s->op.scrub.key_hash));
        else
                eng_scrub_names_soon(store);
}

static void scrubber_has_read(struct eng_op *op)
{
        struct scrubber *s = (struct scrubber *)op;
        uint64_t before = s->state.segment == 0 ? 0 : s->state.bytes, frames = s->state.segment == 0 ? 0 : s->state.frames;
        struct eng_buf *names = op->result == 0 ? op->scrub.names : NULL; /* op is another in scrubber_go() */

        assert(s->step == SCRUBBER_READ);
        if (op->scrub.slot != NULL)
                scrubber_drop_buffer(s);
        s->buffer = NULL; /* a drive that failed gives it back when its I/O has ended */
        if (s->el->store->stopping) {
                eng_buf_unref(names);
                return;
        }
        assert(s->names == NULL);
        s->names = names;
        s->names_at = 0;
        s->step = SCRUBBER_IDLE;
        if (op->result != 0) {
                s->yields += op->result == -EAGAIN;
                scrubber_wait(s, op->result == -EAGAIN && s->yields <= YIELDS_MAX ? YIELD_NS : LOOK_NS);
                return;
        }
        s->yields = 0;
        s->state = op->scrub.state;
        s->read_at = lp_now(s->el->loop);
        s->read_bytes = s->state.bytes - before;
        if (s->read_bytes < STRETCH && s->state.frames == frames)
                s->read_bytes = STRETCH; /* what was read in vain counts as well */
        scrubber_heard(s);
        if (op->scrub.damaged)
                scrubber_tell(s);
        if (op->scrub.gap)
                scrubber_asks(s);
        else if (names != NULL && !s->awaited)
                scrubber_owes(s); /* by nobody, once it is written anew: any walk will do */
        scrubber_publish(s);
        if (op->scrub.ended) {
                eng_buf_unref(s->names);
                s->names = NULL;
                scrubber_round_ended(s);
        } else if (!scrubber_resync(s)) {
                scrubber_go(s);
        }
}

static void scrubber_granted(struct lp_reserve *reserve)
{
        struct scrubber *s = container_of(reserve, struct scrubber, reserve);

        assert(s->step == SCRUBBER_RESERVE && s->buffer == NULL);
        if (s->el->store->stopping || !scrubber_may_go_on(s)) {
                s->step = SCRUBBER_IDLE;
                scrubber_drop_buffer(s);
                return;
        }
        if (s->state.started_ms == 0) {
                s->state.segment = s->state.bytes = 0;
                s->state.started_ms = lp_wall_ms();
                lp_trace(LP_TRACE_SCRUB, true, s->slot);
                scrubber_publish(s); /* a slot is out from here on: who asks sees a round */
        }
        s->buffer = lp_slot_get(s->el->loop);
        scrubber_prepare(s, SCRUBBER_READ, ENG_SCRUB_READ, scrubber_has_read);
        s->op.scrub.most = STRETCH;
        s->op.scrub.yield = s->yields < YIELDS_MAX && scrubber_behind(s) < (double)s->state.total / 8;
        s->op.scrub.slot = s->buffer;
        s->op.scrub.left = scrubber_left;
        eng_drive_submit(s->drive, &s->op);
}

static void scrubber_read(struct scrubber *s)
{
        int rv;

        s->step = SCRUBBER_RESERVE;
        s->reserve.count = 1;
        s->reserve.share = LP_SHARE_INTERNAL;
        s->reserve.granted = scrubber_granted;
        rv = lp_reserve(s->el->loop, &s->reserve);
        if (rv == 0)
                scrubber_granted(&s->reserve);
        else if (rv != -EAGAIN)
                scrubber_wait(s, LOOK_NS);
}

/* How much of what is damaged has not been written anew yet. */
static void scrubber_checked(struct eng_op *op)
{
        struct scrubber *s = (struct scrubber *)op;

        assert(s->step == SCRUBBER_LOAD);
        if (s->el->store->stopping)
                return;
        s->step = SCRUBBER_IDLE;
        if (op->result == 0)
                scrubber_heard(s);
        scrubber_go(s);
}

/* A walk has been through all names since the drive told the last of its gaps. */
static bool scrubber_was_compared(const struct scrubber *s)
{
        return s->owed && !s->gap && atomic_load(&s->el->store->walks_ended) > s->owed_since;
}

/* Whatever is next; nothing is under way. */
static void scrubber_go(struct scrubber *s)
{
        uint64_t ns;

        assert(eng_on_loop(s->el) && (s->step == SCRUBBER_IDLE || s->step == SCRUBBER_WAIT) && s->buffer == NULL);
        if (!scrubber_may_go_on(s)) {
                s->step = SCRUBBER_IDLE;
                return;
        }
        if (scrubber_was_compared(s)) {
                s->owed = s->awaited = false;
                scrubber_submit(s, SCRUBBER_LOAD, ENG_SCRUB_COMPARED, scrubber_checked);
                return;
        }
        if (s->state.started_ms != 0) {
                scrubber_mind_clock(s);
                ns = s->yields > 0 ? 0 : scrubber_ns_until_read(s);
        } else {
                ns = scrubber_ns_until_round(s);
        }
        scrubber_publish(s);
        if (ns == 0)
                scrubber_read(s);
        else if (ns > CHECK_NS && s->unrepaired > 0 && s->step == SCRUBBER_WAIT)
                scrubber_submit(s, SCRUBBER_LOAD, ENG_SCRUB_LOAD, scrubber_checked);
        else
                scrubber_wait(s, s->unrepaired > 0 && ns > CHECK_NS ? CHECK_NS : ns);
}

static void scrubber_loaded(struct eng_op *op)
{
        struct scrubber *s = (struct scrubber *)op;

        assert(s->step == SCRUBBER_LOAD);
        if (s->el->store->stopping)
                return;
        s->step = SCRUBBER_IDLE;
        if (op->result != 0) {
                s->drive = NULL; /* again, at the next look */
                return;
        }
        s->state = op->scrub.state;
        scrubber_heard(s);
        if (op->scrub.gap)
                scrubber_asks(s); /* it may have been before, and forgotten with the process */
        if (s->unrepaired > 0)
                eng_scrub_names_soon(s->el->store);
        scrubber_go(s);
}

/* ---- drives come and go ---------------------------------------------------------------------- */

/* Another drive is in the slot, or it was opened anew. */
static void scrubber_take(struct scrubber *s, struct eng_drive *drive)
{
        assert(s->step == SCRUBBER_IDLE || s->step == SCRUBBER_WAIT);
        s->drive = drive;
        memset(&s->state, 0, sizeof(s->state));
        s->damaged = s->unrepaired = s->read_bytes = s->gaps_dropped = 0;
        s->yields = s->gaps = 0;
        s->gap = s->awaited = s->owed = s->more = false;
        scrubber_submit(s, SCRUBBER_LOAD, ENG_SCRUB_LOAD, scrubber_loaded);
}

static void scrub_look_at(struct scrub_loop *sl, unsigned slot)
{
        struct eng_drive *drive = sl->el->store->members[slot].drive;
        struct scrubber *s = sl->scrubbers[slot];

        if (drive == NULL || drive->owner != sl->el->loop)
                return;
        if (s == NULL) {
                s = calloc(1, sizeof(*s));
                if (s == NULL)
                        return;
                s->el = sl->el;
                s->slot = slot;
                s->asked = sl->asked;
                sl->scrubbers[slot] = s;
        }
        if (s->step != SCRUBBER_IDLE && s->step != SCRUBBER_WAIT)
                return;
        if (s->drive != drive) {
                lp_timer_stop(sl->el->loop, &s->timer);
                scrubber_take(s, drive);
        } else if (s->step == SCRUBBER_IDLE || scrubber_was_compared(s)) {
                lp_timer_stop(sl->el->loop, &s->timer);
                s->step = SCRUBBER_IDLE;
                scrubber_go(s);
        }
}

/* It is in use no more. */
static void scrub_look_away(struct scrub_loop *sl, unsigned slot)
{
        struct scrubber *s = sl->scrubbers[slot];

        if (s == NULL || s->drive == NULL || (s->step != SCRUBBER_IDLE && s->step != SCRUBBER_WAIT))
                return;
        lp_timer_stop(sl->el->loop, &s->timer);
        s->step = SCRUBBER_IDLE;
        s->drive = NULL;
        memset(&s->state, 0, sizeof(s->state));
        s->damaged = s->unrepaired = 0;
        scrubber_publish(s);
}

/*
 * Whoever was told of damage may not have been able to repair it then: a drive was away, or full,
 * or a part no object's yet.
 */
static void scrub_remind(struct scrub_loop *sl)
{
        uint64_t now = lp_now(sl->el->loop);
        bool stays = false;
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX && !stays; i++)
                stays = sl->scrubbers[i] != NULL && sl->scrubbers[i]->unrepaired > 0;
        if (!stays || sl->reminded_at == 0) {
                sl->reminded_at = stays ? now : 0;
        } else if (now - sl->reminded_at >= REMIND_NS) {
                sl->reminded_at = now;
                eng_scrub_names_owed(sl->el->store);
        }
}

/*
 * Only the index can tell what stood in a gap: a walk is asked for at once. How often one may
 * begin, the coordinator decides.
 */
static void scrub_mind_gaps(struct scrub_loop *sl)
{
        bool any = false;
        unsigned i;

        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                if (sl->scrubbers[i] == NULL)
                        continue;
                any |= sl->scrubbers[i]->gap;
                sl->scrubbers[i]->gap = false;
        }
        if (any)
                eng_scrub_names_owed(sl->el->store);
}

static void scrub_look_around(struct scrub_loop *sl)
{
        const struct eng_view *view = &sl->el->view;
        unsigned i, count = sl->el->store->drive_count;

        for (i = 0; i < count && view->ready; i++)
                if ((view->in & view->up & eng_bit(i)) != 0)
                        scrub_look_at(sl, i);
                else
                        scrub_look_away(sl, i);
}

static void scrub_look(struct lp_timer *timer)
{
        struct scrub_loop *sl = container_of(timer, struct scrub_loop, timer);

        if (sl->el->store->stopping)
                return;
        scrub_look_around(sl);
        scrub_remind(sl);
        scrub_mind_gaps(sl);
        timer->expired = scrub_look;
        lp_timer_start(sl->el->loop, timer, LOOK_NS);
}

static void scrub_loop_starts(struct scrub_loop *sl)
{
        unsigned i;

        sl->asked = true; /* also of drives that come a little later */
        for (i = 0; i < ENG_DRIVES_MAX; i++) {
                struct scrubber *s = sl->scrubbers[i];

                if (s == NULL)
                        continue;
                s->asked = true;
                if (s->step != SCRUBBER_WAIT)
                        continue;
                lp_timer_stop(sl->el->loop, &s->timer);
                s->step = SCRUBBER_IDLE;
        }
        lp_timer_stop(sl->el->loop, &sl->timer);
        scrub_look(&sl->timer);
}

static void scrub_loop_told(struct lp_msg *msg)
{
        struct scrub_loop *sl = container_of(msg, struct scrub_loop, msg);

        assert(eng_on_loop(sl->el));
        atomic_store(&sl->on_its_way, false);
        if (sl->el->store->stopping)
                return;
        if (atomic_exchange(&sl->wanted, false)) {
                scrub_loop_starts(sl);
                return;
        }
        sl->timer.expired = scrub_look;
        lp_timer_start(sl->el->loop, &sl->timer, SETTLE_NS);
}

static void scrub_post(struct eng_scrub_drives *all, bool wanted)
{
        struct scrub_loop *sl;
        unsigned i;

        for (i = 0; i < all->count; i++) {
                sl = &all->loops[i];
                if (wanted)
                        atomic_store(&sl->wanted, true);
                if (atomic_exchange(&sl->on_its_way, true))
                        continue;
                sl->msg.run = scrub_loop_told;
                lp_post(sl->el->loop, &sl->msg);
        }
}

void eng_scrub_drives_begin(struct eng_store *store)
{
        struct eng_scrub_drives *all;
        unsigned i;

        if (store->options.scrub_rate == 0 || store->options.scrub_period_ms == 0 || store->coord->scrub_drives != NULL)
                return;
        all = calloc(1, sizeof(*all) + store->loop_count * sizeof(all->loops[0]));
        if (all == NULL)
                return;
        all->count = store->loop_count;
        for (i = 0; i < all->count; i++)
                all->loops[i].el = &store->loops[i];
        store->coord->scrub_drives = all;
        scrub_post(all, false);
}

void eng_scrub_drives_start(struct eng_store *store)
{
        if (store->coord->scrub_drives != NULL)
                scrub_post(store->coord->scrub_drives, true);
}

void eng_scrub_drives_stop(struct eng_store *store)
{
        struct eng_scrub_drives *all = store->coord->scrub_drives;
        unsigned i, j;

        for (i = 0; all != NULL && i < all->count; i++) {
                lp_timer_stop(store->loops[i].loop, &all->loops[i].timer);
                for (j = 0; j < ENG_DRIVES_MAX; j++) {
                        if (all->loops[i].scrubbers[j] == NULL)
                                continue;
                        lp_timer_stop(store->loops[i].loop, &all->loops[i].scrubbers[j]->timer);
                        lp_reserve_cancel(store->loops[i].loop, &all->loops[i].scrubbers[j]->reserve);
                }
        }
}

static void scrubber_free(struct scrubber *s)
{
        if (s == NULL)
                return;
        eng_txn_abandon(&s->resync.txn);
        eng_txn_drop(&s->resync.txn);
        eng_buf_unref(s->names);
        free(s);
}

void eng_scrub_drives_free(struct eng_store *store)
{
        struct eng_scrub_drives *all = store->coord->scrub_drives;
        unsigned i, j;

        for (i = 0; all != NULL && i < all->count; i++)
                for (j = 0; j < ENG_DRIVES_MAX; j++)
                        scrubber_free(all->loops[i].scrubbers[j]);
        free(all);
        store->coord->scrub_drives = NULL;
}
