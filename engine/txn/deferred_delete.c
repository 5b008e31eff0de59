/*
 * deferred_delete.c - gives back the space of shards that are dead by proof (I6).
 *
 * A member drive reports values that a committed record superseded, once its index holds that
 * record durably. The report goes to the PG's primary, which waits for the same report of all
 * members that speak for the group: one whose names differ from the others' must not be able to
 * destroy what these still name. And it knows who may still come to read such a value, because all
 * changes and all lookups of the group pass through it:
 *
 *   MEMBERS   those that have not reported it. A batch of a large index takes minutes, and members' batches do not begin together. One that never had the
 *             value, or whose report a crash lost, never will: after a while, or sooner where others need the room, it is left to the orphan collection
 *   COMMITS   changes of the group that are being made visible when the report comes: one of them may be what superseded the value, and another
 *             member may not show it yet. When they have ended every member that is asked does
 *   LOOKUPS   lookups of the group that are under way then: they may have been answered before. Later ones cannot find the value
 *   PINS      readers that did find it
 *   STRANGERS readers for whom a leader before this one has pinned it: for a while from when this one is open (G7)
 *
 * Then every drive that holds a shard is told to discard it. Each wait ends with operations of
 * drives, which a drive answers or fails over; what waits is bounded in number. What a crash, or
 * that bound, loses of this is space, never data: the orphan collection finds it.
 */
#include "engine/call/call_send.h"
#include "engine/txn/txn.h"
#include "engine_home.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AGREE_NS (1200ull * 1000 * 1000 * 1000)
#define AGREE_LEAST_NS (120ull * 1000 * 1000 * 1000) /* the same for the oldest, when there is no room for another */
#define TICK_NS (500ull * 1000 * 1000)
#define DEFERRED_MAX 65536u         /* waiting per loop, ... */
#define DEFERRED_BYTES (64u << 20)  /* ... and the bytes of their values; beyond: space is left to be found by the orphan collection */

enum deferred_wait { WAIT_COMMITS, WAIT_LOOKUPS, WAIT_PINS };

/* A dead value on its way. owner: drive's loop, then the primary loop */
struct eng_deferred {
        struct lp_msg msg;
        STAILQ_ENTRY(eng_deferred) link;
        struct eng_store *store;
        struct eng_loop *at;
        enum deferred_wait waits_for;
        uint64_t upto;                 /* number of the last change, or lookup, that is waited for */
        unsigned slot;                 /* drive that reports it */
        eng_mask reported;             /* those that have */
        uint64_t since;                /* lp_now() when the first did */
        UT_hash_handle hh;             /* el->leader.deferred_by_id */
        uint8_t id[FMT_ID];            /* of the value */
        struct eng_buf *value;
};

static void deferred_discarded(struct eng_op *op)
{
        free(op); /* a failure leaves dead bytes behind, nothing worse: what an epoch change refuses, its walk of upkeep is followed by orphan collection for */
}

static void discard_sent(void *arg, const struct eng_call_answer *answer)
{
}

/* Of a home store, whose word no drive takes. One that is lost is found by the orphan collection. */
static void discard_by_leader(struct eng_store *store, const uint8_t id[FMT_ID], eng_mask drives)
{
        struct eng_call call = {.kind = ENG_CALL_DISCARD, .discard.drives = drives};

        memcpy(call.discard.id, id, FMT_ID);
        (void)eng_call_send(store, &call, 0, discard_sent, NULL);
}

void eng_discard(struct eng_store *store, const uint8_t id[FMT_ID], eng_mask drives)
{
        struct eng_loop *el = eng_here(store);
        unsigned i;

        if (eng_is_home(store)) {
                discard_by_leader(store, id, drives);
                return;
        }
        for (i = 0; i < store->drive_count; i++) {
                struct eng_op *op;

                if (!(drives & el->view.up & eng_bit(i)) || store->members[i].drive == NULL)
                        continue;
                op = calloc(1, sizeof(*op));
                if (op == NULL)
                        return;
                op->kind = ENG_OP_DISCARD;
                op->flags = ENG_OP_RESERVE;
                op->epoch = el->view.epoch;
                op->done = deferred_discarded;
                memcpy(op->discard.object_id, id, FMT_ID);
                eng_drive_submit(store->members[i].drive, op);
        }
}

eng_mask eng_part_drives(const struct eng_part *part)
{
        unsigned n = part->head.runs * (part->head.k + part->head.m), i;
        eng_mask mask = 0;

        for (i = 0; i < n; i++)
                if (eng_part_slot(part, i) < ENG_DRIVES_MAX)
                        mask |= eng_bit(eng_part_slot(part, i));
        return mask;
}

void eng_pins_strangers(struct eng_store *store, uint64_t ns)
{
        assert(eng_on_coordinator(store));
        store->coord->strangers_pins_ns = ns;
}

void eng_discards_open(struct eng_store *store)
{
        const uint64_t ns = store->coord->strangers_pins_ns;

        assert(eng_on_coordinator(store));
        if (atomic_load(&store->discards_from) == 0)
                atomic_store(&store->discards_from, lp_now(store->coord_loop->loop) + ns);
}

uint64_t eng_discards_held(const struct eng_store *store)
{
        const uint64_t from = atomic_load(&store->discards_from), now = lp_now(lp_self());

        if (from == 0)
                return UINT64_MAX; /* it is not open yet */
        return now < from ? from - now : 0;
}

static void deferred_now(struct eng_deferred *deferred)
{
        struct eng_part part;
        size_t pos = 0;

        assert(deferred->waits_for == WAIT_PINS);
        while (eng_value_next_part(deferred->value->data, deferred->value->len, &pos, &part) == 1)
                eng_discard(deferred->store, part.head.id, eng_part_drives(&part));
}

static void deferred_free(struct eng_deferred *deferred)
{
        eng_buf_unref(deferred->value);
        free(deferred);
}

static bool pinned(const struct eng_loop *el, const struct eng_deferred *deferred)
{
        struct eng_pin *p;

        HASH_FIND(hh, el->leader.pins, eng_value_head(deferred->value->data)->id, FMT_ID, p);
        return p != NULL;
}

static bool changes_under_way(const struct eng_loop *el, uint32_t pg, uint64_t upto)
{
        const struct eng_txn *txn;

        TAILQ_FOREACH(txn, &el->leader.appended, loop_link) {
                if (txn->append_number > upto)
                        return false;
                if (txn->pg == pg)
                        return true;
        }
        return false;
}

static bool lookups_under_way(const struct eng_loop *el, uint32_t pg, uint64_t upto)
{
        const struct eng_lookup *lookup;

        TAILQ_FOREACH(lookup, &el->leader.lookups, link) {
                if (lookup->number > upto)
                        return false;
                if (lookup->pg == pg)
                        return true;
        }
        return false;
}

/* Nobody reads it, nor can anybody begin to. */
static bool is_unread(const struct eng_loop *el, struct eng_deferred *deferred)
{
        uint32_t pg = eng_value_head(deferred->value->data)->pg;

        assert(deferred->upto <= (deferred->waits_for == WAIT_COMMITS ? el->leader.append_count : el->leader.lookup_count));
        if (deferred->waits_for == WAIT_COMMITS && !changes_under_way(el, pg, deferred->upto)) {
                deferred->waits_for = WAIT_LOOKUPS;
                deferred->upto = el->leader.lookup_count;
        }
        if (deferred->waits_for == WAIT_LOOKUPS && !lookups_under_way(el, pg, deferred->upto))
                deferred->waits_for = WAIT_PINS;
        return deferred->waits_for == WAIT_PINS && !pinned(el, deferred);
}

/* All current members of its group have said that nothing names it. */
static bool agreed(const struct eng_loop *el, const struct eng_deferred *deferred)
{
        eng_mask speakers = eng_speakers(&el->view, eng_value_head(deferred->value->data)->pg);

        return speakers != 0 && (speakers & ~deferred->reported) == 0;
}

static void deferred_forget(struct eng_loop *el, struct eng_deferred *deferred)
{
        assert(el->leader.deferred_count > 0 && el->leader.deferred_bytes >= deferred->value->len);
        HASH_DEL(el->leader.deferred_by_id, deferred);
        el->leader.deferred_count--;
        el->leader.deferred_bytes -= deferred->value->len;
        deferred_free(deferred);
}

/*
 * Its space is found by the orphan collection. A member reported it: what is said of the value is
 * not said of the name's any more.
 */
static void leave_to_orphans(struct eng_loop *el, struct eng_deferred *deferred)
{
        el->store->events->value_gone(el, deferred->id);
        deferred_forget(el, deferred);
}

void eng_deferred_tick(struct lp_timer *timer)
{
        struct eng_loop *el = container_of(timer, struct eng_loop, leader.deferred_timer);
        struct eng_deferred_list all = STAILQ_HEAD_INITIALIZER(all);
        const bool held = eng_discards_held(el->store) > 0;
        struct eng_deferred *deferred;

        assert(eng_on_loop(el));
        STAILQ_CONCAT(&all, &el->leader.deferred);
        while ((deferred = STAILQ_FIRST(&all)) != NULL) {
                STAILQ_REMOVE_HEAD(&all, link);
                if (!agreed(el, deferred) && lp_now(el->loop) - deferred->since >= AGREE_NS) {
                        leave_to_orphans(el, deferred);
                        continue;
                }
                if (!is_unread(el, deferred) || !agreed(el, deferred) || held) {
                        STAILQ_INSERT_TAIL(&el->leader.deferred, deferred, link);
                        continue;
                }
                deferred_now(deferred);
                el->store->events->value_gone(el, deferred->id);
                deferred_forget(el, deferred);
        }
        if (!STAILQ_EMPTY(&el->leader.deferred))
                lp_timer_start(el->loop, &el->leader.deferred_timer, TICK_NS);
}

void eng_deferred_keep(struct eng_loop *el, const uint8_t id[FMT_ID])
{
        struct eng_deferred *deferred;

        assert(eng_on_loop(el));
        HASH_FIND(hh, el->leader.deferred_by_id, id, FMT_ID, deferred);
        if (deferred == NULL)
                return;
        STAILQ_REMOVE(&el->leader.deferred, deferred, eng_deferred, link);
        deferred_forget(el, deferred);
}

/*
 * Those that have waited long do not keep younger ones out: some of them wait for a report that
 * never comes.
 */
static bool deferred_make_room(struct eng_loop *el, size_t bytes)
{
        struct eng_deferred *oldest;

        while (el->leader.deferred_count > 0 && (el->leader.deferred_count >= DEFERRED_MAX || el->leader.deferred_bytes + bytes > DEFERRED_BYTES)) {
                oldest = STAILQ_FIRST(&el->leader.deferred);
                assert(oldest != NULL);
                if (lp_now(el->loop) - oldest->since < AGREE_LEAST_NS)
                        return false;
                STAILQ_REMOVE_HEAD(&el->leader.deferred, link);
                leave_to_orphans(el, oldest);
        }
        return true;
}

static void deferred_arrive(struct lp_msg *msg)
{
        struct eng_deferred *deferred = (struct eng_deferred *)msg;
        struct eng_loop *el = deferred->at;
        bool first = STAILQ_EMPTY(&el->leader.deferred);
        struct eng_deferred *known;

        assert(eng_on_loop(el));
        HASH_FIND(hh, el->leader.deferred_by_id, deferred->id, FMT_ID, known);
        if (known != NULL) {
                known->reported |= eng_bit(deferred->slot);
                deferred_free(deferred);
                return;
        }
        if (!deferred_make_room(el, deferred->value->len)) {
                el->store->events->value_gone(el, deferred->id);
                deferred_free(deferred);
                return;
        }
        deferred->reported = eng_bit(deferred->slot);
        deferred->since = lp_now(el->loop);
        HASH_ADD(hh, el->leader.deferred_by_id, id, FMT_ID, deferred);
        deferred->waits_for = WAIT_COMMITS;
        deferred->upto = el->leader.append_count;
        if (first)
                lp_timer_start(el->loop, &el->leader.deferred_timer, TICK_NS);
        el->leader.deferred_count++;
        el->leader.deferred_bytes += deferred->value->len;
        STAILQ_INSERT_TAIL(&el->leader.deferred, deferred, link);
}

static bool reports(const struct eng_loop *el, uint32_t pg, unsigned slot)
{
        return (eng_speakers(&el->view, pg) & el->view.up & eng_bit(slot)) != 0;
}

static void take_report(struct eng_loop *el, struct eng_deferred *deferred)
{
        uint32_t pg = eng_value_head(deferred->value->data)->pg;

        assert(el->view.ready);
        if (pg >= el->store->pg_count || !reports(el, pg, deferred->slot)) {
                deferred_free(deferred);
                return;
        }
        deferred->at = eng_primary(el->store, pg);
        deferred->msg.run = deferred_arrive;
        lp_post(deferred->at->loop, &deferred->msg);
}

void eng_deferred_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n)
{
        struct eng_store *store = arg;
        struct eng_loop *el = eng_here(store);
        unsigned i;

        assert(drive->owner == el->loop);
        for (i = 0; i < n; i++) {
                struct eng_deferred *deferred = calloc(1, sizeof(*deferred));

                if (deferred == NULL)
                        return;
                deferred->store = store;
                deferred->slot = drive->slot;
                deferred->value = eng_buf_ref(values[i]);
                memcpy(deferred->id, eng_value_head(values[i]->data)->id, FMT_ID);
                if (el->view.ready)
                        take_report(el, deferred);
                else /* a drive replays while others are being opened: there are no groups and no primaries yet */
                        STAILQ_INSERT_TAIL(&el->leader.early_deferred, deferred, link);
        }
}

void eng_deferred_ready(struct eng_loop *el)
{
        struct eng_deferred *deferred;

        assert(eng_on_loop(el) && el->view.ready);
        while ((deferred = STAILQ_FIRST(&el->leader.early_deferred)) != NULL) {
                STAILQ_REMOVE_HEAD(&el->leader.early_deferred, link);
                take_report(el, deferred);
        }
}

void eng_deferred_free(struct eng_loop *el)
{
        struct eng_deferred *deferred;

        HASH_CLEAR(hh, el->leader.deferred_by_id);
        STAILQ_CONCAT(&el->leader.deferred, &el->leader.early_deferred);
        while ((deferred = STAILQ_FIRST(&el->leader.deferred)) != NULL) {
                STAILQ_REMOVE_HEAD(&el->leader.deferred, link);
                deferred_free(deferred);
        }
}
