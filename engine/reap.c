/*
 * reap.c - gives back the space of shards that are dead by proof (I6).
 *
 * A member drive reports values that a committed record superseded, once its index holds that record durably. The report of the PG's first
 * member counts; it goes to the PG's primary, waits a grace time longer than any lookup takes, and while any of its ids is pinned by
 * a reader. Then every drive that holds a shard is told to discard it. What a crash loses of this is space, never data.
 */
#include "engine/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GRACE_NS (2ull * 1000 * 1000 * 1000)
#define TICK_NS (500ull * 1000 * 1000)
#define REAPS_MAX 65536u /* waiting per loop; beyond: space is left to be found by a fence */

/* A dead value on its way. owner: drive's loop, then the primary loop */
struct eng_reap {
        struct lp_msg msg;
        STAILQ_ENTRY(eng_reap) link;
        struct eng_store *store;
        struct eng_loop *at;
        uint64_t since;
        unsigned slot;                 /* drive that reports it */
        struct eng_buf *value;
};

static void discarded(struct eng_op *op)
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
                op->done = discarded;
                memcpy(op->discard.object_id, id, FMT_ID);
                eng_drive_submit(store->members[i].drive, op);
        }
}

eng_mask eng_part_drives(const struct eng_part *part)
{
        unsigned n = part->head.runs * (part->head.k + part->head.m), i;
        eng_mask mask = 0;
        uint16_t slot;

        for (i = 0; i < n; i++) {
                memcpy(&slot, part->drives + 2 * i, 2);
                if (slot < ENG_DRIVES_MAX)
                        mask |= eng_bit(slot);
        }
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

void eng_reap_tick(struct lp_timer *timer)
{
        struct eng_loop *el = (struct eng_loop *)((char *)timer - offsetof(struct eng_loop, reap_timer));
        struct eng_reap_list keep = STAILQ_HEAD_INITIALIZER(keep);
        struct eng_reap *reap;

        while ((reap = STAILQ_FIRST(&el->reaps)) != NULL && lp_now(el->loop) - reap->since >= GRACE_NS) {
                STAILQ_REMOVE_HEAD(&el->reaps, link);
                if (pinned(el, reap)) {
                        STAILQ_INSERT_TAIL(&keep, reap, link);
                        continue;
                }
                el->reap_count--;
                reap_now(reap);
                reap_free(reap);
        }
        STAILQ_CONCAT(&keep, &el->reaps);
        STAILQ_CONCAT(&el->reaps, &keep);
        if (!STAILQ_EMPTY(&el->reaps))
                lp_timer_start(el->loop, &el->reap_timer, TICK_NS);
}

static void arrive(struct lp_msg *msg)
{
        struct eng_reap *reap = (struct eng_reap *)msg;
        struct eng_loop *el = reap->at;

        if (el->reap_count >= REAPS_MAX) {
                reap_free(reap);
                return;
        }
        reap->since = lp_now(el->loop);
        if (STAILQ_EMPTY(&el->reaps))
                lp_timer_start(el->loop, &el->reap_timer, TICK_NS);
        el->reap_count++;
        STAILQ_INSERT_TAIL(&el->reaps, reap, link);
}

/* The member whose reports count: the first of the PG that is in. */
static bool reports(const struct eng_loop *el, uint32_t pg, unsigned slot)
{
        return eng_placement_first(el->view.map, pg, el->view.in & el->view.up) == (int)slot;
}

static void take_report(struct eng_loop *el, struct eng_reap *reap)
{
        uint32_t pg = eng_value_head(reap->value->data)->pg;

        if (pg >= el->store->pg_count || !reports(el, pg, reap->slot)) {
                reap_free(reap);
                return;
        }
        reap->at = eng_primary(el->store, pg);
        reap->msg.run = arrive;
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

        STAILQ_CONCAT(&el->reaps, &el->early_reaps);
        while ((reap = STAILQ_FIRST(&el->reaps)) != NULL) {
                STAILQ_REMOVE_HEAD(&el->reaps, link);
                reap_free(reap);
        }
}
