/*
 * reap.c - gives back the space of shards that are dead by proof (I6).
 *
 * A member drive reports values that a committed record superseded, once its index holds that record durably. The report goes to
 * the PG's primary, which waits for the same report of all members that speak for the group: one whose names differ from the others' must not be able to
 * destroy what these still name. And it knows who may still come to read such a value, because all changes and all lookups of the group pass through it:
 *
 *   MEMBERS   those that have not reported it. A batch of a large index takes minutes, and members' batches do not begin together. One that never had the
 *             value, or whose report a crash lost, never will: after a while, or sooner where others need the room, it is left to the sweep
 *   COMMITS   changes of the group that are being made visible when the report comes: one of them may be what superseded the value, and another
 *             member may not show it yet. When they have ended every member that is asked does
 *   LOOKUPS   lookups of the group that are under way then: they may have been answered before. Later ones cannot find the value
 *   PINS      readers that did find it
 *
 * Then every drive that holds a shard is told to discard it. Each wait ends with operations of drives, which a drive answers or fails over; what
 * waits is bounded in number. What a crash, or that bound, loses of this is space, never data: the sweep finds it.
 */
#include "engine/txn/txn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define AGREE_NS (1200ull * 1000 * 1000 * 1000)
#define AGREE_LEAST_NS (120ull * 1000 * 1000 * 1000) /* the same for the oldest, when there is no room for another */
#define TICK_NS (500ull * 1000 * 1000)
#define REAPS_MAX 65536u         /* waiting per loop, ... */
#define REAPS_BYTES (64u << 20)  /* ... and the bytes of their values; beyond: space is left to be found by the sweep */

enum reap_wait { WAIT_COMMITS, WAIT_LOOKUPS, WAIT_PINS };

/* A dead value on its way. owner: drive's loop, then the primary loop */
struct eng_reap {
        struct lp_msg msg;
        STAILQ_ENTRY(eng_reap) link;
        struct eng_store *store;
        struct eng_loop *at;
        enum reap_wait waits_for;
        uint64_t upto;                 /* number of the last change, or lookup, that is waited for */
        unsigned slot;                 /* drive that reports it */
        eng_mask reported;             /* those that have */
        uint64_t since;                /* lp_now() when the first did */
        UT_hash_handle hh;             /* el->reaps_by_id */
        uint8_t id[FMT_ID];            /* of the value */
        struct eng_buf *value;
};

static void reap_discarded(struct eng_op *op)
{
        free(op); /* a failure leaves dead bytes behind, nothing worse */
}

void eng_discard(struct eng_store *store, const uint8_t id[FMT_ID], eng_mask drives)
{
        struct eng_loop *el = eng_here(store);
        unsigned i;

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
                op->done = reap_discarded;
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

static void reap_now(struct eng_reap *reap)
{
        struct eng_part part;
        size_t pos = 0;

        while (eng_value_next_part(reap->value->data, reap->value->len, &pos, &part) == 1)
                eng_discard(reap->store, part.head.id, eng_part_drives(&part));
}

static void reap_free(struct eng_reap *reap)
{
        eng_buf_unref(reap->value);
        free(reap);
}

static bool pinned(const struct eng_loop *el, const struct eng_reap *reap)
{
        struct eng_pin *p;

        HASH_FIND(hh, el->pins, eng_value_head(reap->value->data)->id, FMT_ID, p);
        return p != NULL;
}

static bool changes_under_way(const struct eng_loop *el, uint32_t pg, uint64_t upto)
{
        const struct eng_txn *txn;

        TAILQ_FOREACH(txn, &el->appended, loop_link) {
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

        TAILQ_FOREACH(lookup, &el->lookups, link) {
                if (lookup->number > upto)
                        return false;
                if (lookup->pg == pg)
                        return true;
        }
        return false;
}

/* Nobody reads it, nor can anybody begin to. */
static bool is_unread(const struct eng_loop *el, struct eng_reap *reap)
{
        uint32_t pg = eng_value_head(reap->value->data)->pg;

        if (reap->waits_for == WAIT_COMMITS && !changes_under_way(el, pg, reap->upto)) {
                reap->waits_for = WAIT_LOOKUPS;
                reap->upto = el->lookup_count;
        }
        if (reap->waits_for == WAIT_LOOKUPS && !lookups_under_way(el, pg, reap->upto))
                reap->waits_for = WAIT_PINS;
        return reap->waits_for == WAIT_PINS && !pinned(el, reap);
}

/* All current members of its group have said that nothing names it. */
static bool agreed(const struct eng_loop *el, const struct eng_reap *reap)
{
        eng_mask speakers = eng_speakers(&el->view, eng_value_head(reap->value->data)->pg);

        return speakers != 0 && (speakers & ~reap->reported) == 0;
}

static void reap_forget(struct eng_loop *el, struct eng_reap *reap)
{
        HASH_DEL(el->reaps_by_id, reap);
        el->reap_count--;
        el->reap_bytes -= reap->value->len;
        reap_free(reap);
}

/* Its space is found by the sweep. A member reported it: what is said of the value is not said of the name's any more. */
static void leave_to_sweep(struct eng_loop *el, struct eng_reap *reap)
{
        el->store->events->value_gone(el, reap->id);
        reap_forget(el, reap);
}

void eng_reap_tick(struct lp_timer *timer)
{
        struct eng_loop *el = container_of(timer, struct eng_loop, reap_timer);
        struct eng_reap_list all = STAILQ_HEAD_INITIALIZER(all);
        struct eng_reap *reap;

        STAILQ_CONCAT(&all, &el->reaps);
        while ((reap = STAILQ_FIRST(&all)) != NULL) {
                STAILQ_REMOVE_HEAD(&all, link);
                if (!agreed(el, reap) && lp_now(el->loop) - reap->since >= AGREE_NS) {
                        leave_to_sweep(el, reap);
                        continue;
                }
                if (!is_unread(el, reap) || !agreed(el, reap)) {
                        STAILQ_INSERT_TAIL(&el->reaps, reap, link);
                        continue;
                }
                reap_now(reap);
                el->store->events->value_gone(el, reap->id);
                reap_forget(el, reap);
        }
        if (!STAILQ_EMPTY(&el->reaps))
                lp_timer_start(el->loop, &el->reap_timer, TICK_NS);
}

void eng_reap_keep(struct eng_loop *el, const uint8_t id[FMT_ID])
{
        struct eng_reap *reap;

        HASH_FIND(hh, el->reaps_by_id, id, FMT_ID, reap);
        if (reap == NULL)
                return;
        STAILQ_REMOVE(&el->reaps, reap, eng_reap, link);
        reap_forget(el, reap);
}

/* Those that have waited long do not keep younger ones out: some of them wait for a report that never comes. */
static bool reap_make_room(struct eng_loop *el, size_t bytes)
{
        struct eng_reap *oldest;

        while (el->reap_count > 0 && (el->reap_count >= REAPS_MAX || el->reap_bytes + bytes > REAPS_BYTES)) {
                oldest = STAILQ_FIRST(&el->reaps);
                if (lp_now(el->loop) - oldest->since < AGREE_LEAST_NS)
                        return false;
                STAILQ_REMOVE_HEAD(&el->reaps, link);
                leave_to_sweep(el, oldest);
        }
        return true;
}

static void reap_arrive(struct lp_msg *msg)
{
        struct eng_reap *reap = (struct eng_reap *)msg;
        struct eng_loop *el = reap->at;
        bool first = STAILQ_EMPTY(&el->reaps);
        struct eng_reap *known;

        HASH_FIND(hh, el->reaps_by_id, reap->id, FMT_ID, known);
        if (known != NULL) {
                known->reported |= eng_bit(reap->slot);
                reap_free(reap);
                return;
        }
        if (!reap_make_room(el, reap->value->len)) {
                el->store->events->value_gone(el, reap->id);
                reap_free(reap);
                return;
        }
        reap->reported = eng_bit(reap->slot);
        reap->since = lp_now(el->loop);
        HASH_ADD(hh, el->reaps_by_id, id, FMT_ID, reap);
        reap->waits_for = WAIT_COMMITS;
        reap->upto = el->append_count;
        if (first)
                lp_timer_start(el->loop, &el->reap_timer, TICK_NS);
        el->reap_count++;
        el->reap_bytes += reap->value->len;
        STAILQ_INSERT_TAIL(&el->reaps, reap, link);
}

static bool reports(const struct eng_loop *el, uint32_t pg, unsigned slot)
{
        return (eng_speakers(&el->view, pg) & el->view.up & eng_bit(slot)) != 0;
}

static void take_report(struct eng_loop *el, struct eng_reap *reap)
{
        uint32_t pg = eng_value_head(reap->value->data)->pg;

        if (pg >= el->store->pg_count || !reports(el, pg, reap->slot)) {
                reap_free(reap);
                return;
        }
        reap->at = eng_primary(el->store, pg);
        reap->msg.run = reap_arrive;
        lp_post(reap->at->loop, &reap->msg);
}

void eng_reap_superseded(void *arg, struct eng_drive *drive, struct eng_buf *const values[], unsigned n)
{
        struct eng_store *store = arg;
        struct eng_loop *el = eng_here(store);
        unsigned i;

        for (i = 0; i < n; i++) {
                struct eng_reap *reap = calloc(1, sizeof(*reap));

                if (reap == NULL)
                        return;
                reap->store = store;
                reap->slot = drive->slot;
                reap->value = eng_buf_ref(values[i]);
                memcpy(reap->id, eng_value_head(values[i]->data)->id, FMT_ID);
                if (el->view.ready)
                        take_report(el, reap);
                else /* a drive replays while others are being opened: there are no groups and no primaries yet */
                        STAILQ_INSERT_TAIL(&el->early_reaps, reap, link);
        }
}

void eng_reap_ready(struct eng_loop *el)
{
        struct eng_reap *reap;

        while ((reap = STAILQ_FIRST(&el->early_reaps)) != NULL) {
                STAILQ_REMOVE_HEAD(&el->early_reaps, link);
                take_report(el, reap);
        }
}

void eng_reap_free(struct eng_loop *el)
{
        struct eng_reap *reap;

        HASH_CLEAR(hh, el->reaps_by_id);
        STAILQ_CONCAT(&el->reaps, &el->early_reaps);
        while ((reap = STAILQ_FIRST(&el->reaps)) != NULL) {
                STAILQ_REMOVE_HEAD(&el->reaps, link);
                reap_free(reap);
        }
}
