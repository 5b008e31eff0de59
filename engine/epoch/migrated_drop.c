/*
 * migrated_drop.c - drives forget the names of groups that went from them when a drive was added
 * (rebalance.c). Coordinator; one drive at a time, at leisure.
 *
 * Nobody asks the drive for those names any more, and no change of them reaches it; they only take
 * space: in its index, and their inline bytes in its log. Each is deleted by a COPY record of the
 * drive's own, with the number it had. The records carry the epoch in which the name was found, so
 * none of them arrives after one that has given the group back.
 */
#include "engine/base/pacer.h"
#include "engine/epoch/epoch.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 256u
#define STALE_NS (5ull * 1000 * 1000)            /* until the loops have the epoch of which the drive knows */
#define AGAIN_NS (30ull * 1000 * 1000 * 1000)    /* after an error */

struct migrated_drop_op {
        struct eng_op op;              /* first */
        struct eng_migrated_drop *drop;
};

/* owner: coordinator; ops: the drive while out */
struct eng_migrated_drop {
        struct eng_store *store;
        unsigned slot;
        struct eng_op scan;
        struct eng_name from;
        struct eng_buf *page;
        uint64_t *pgs;
        uint64_t epoch;
        bool more;
        int error;
        unsigned out;
        struct migrated_drop_op ops[PAGE];
};

static void next_page(struct eng_migrated_drop *drop);

void eng_migrated_drop_free(struct eng_store *store)
{
        struct eng_migrated_drop *drop = store->coord->migrated_drop;

        store->coord->migrated_drop = NULL;
        if (drop == NULL)
                return;
        lp_timer_stop(store->coord_loop->loop, &store->coord->migrated_drop_timer);
        eng_buf_unref(drop->page);
        free(drop->pgs);
        free(drop);
}

/*
 * All groups have all their copies where they belong: others are of no use, whatever happened when
 * the groups moved.
 */
static bool all_in(const struct eng_view *view, unsigned pg_count)
{
        unsigned pg;

        for (pg = 0; pg <= pg_count; pg++)
                if ((view->map->groups[pg].after & ~(view->in & view->up)) != 0)
                        return false;
        return true;
}

/*
 * A drive that has something to forget, when no other change is under way and no loop asks by a map
 * of before; or -1.
 */
static int migrated_drop_candidate(const struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        eng_mask mask = c->shape.dropping_migrated & ~c->wish.migrated_drop & c->view.in & c->view.up;

        if (c->store->stopping || c->phase != ENG_PHASE_OPEN || !c->view.writable || c->catch_up != NULL || c->changing ||
            c->shape.adding != 0 || mask == 0 || !all_in(&c->view, store->pg_count))
                return -1;
        return __builtin_ctzll(mask);
}

static void migrated_drop_again(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, migrated_drop_timer);

        if (c->migrated_drop != NULL)
                next_page(c->migrated_drop);
        else
                eng_migrated_drop_consider(c->store);
}

static void migrated_drop_later(struct eng_store *store, uint64_t ns)
{
        store->coord->migrated_drop_timer.expired = migrated_drop_again;
        lp_timer_start(store->coord_loop->loop, &store->coord->migrated_drop_timer, ns);
}

/* Nothing is left on this drive. */
static void migrated_drop_end(struct eng_migrated_drop *drop)
{
        struct eng_store *store = drop->store;
        struct eng_coord *c = store->coord;

        assert(c->migrated_drop == drop && drop->out == 0);
        c->wish.migrated_drop |= eng_bit(drop->slot);
        eng_migrated_drop_free(store);
        if (migrated_drop_candidate(store) >= 0)
                eng_migrated_drop_consider(store);
        else
                eng_epoch_change(store); /* so that the next start knows */
}

static void migrated_drop_page_done(struct eng_migrated_drop *drop)
{
        assert(drop->out == 0);
        eng_buf_unref(drop->page);
        drop->page = NULL;
        if (drop->error != 0) {
                drop->from.len = 0;
                migrated_drop_later(drop->store, drop->error == -ESTALE ? STALE_NS : AGAIN_NS);
        } else if (drop->more) {
                eng_pacer_look(&drop->store->pacer, drop->store->coord_loop);
                migrated_drop_later(drop->store, eng_pacer_wait(&drop->store->pacer, lp_now(drop->store->coord_loop->loop)));
        } else {
                migrated_drop_end(drop);
        }
}

static void forgotten(struct eng_op *op)
{
        struct eng_migrated_drop *drop = ((struct migrated_drop_op *)op)->drop;

        assert(drop->out > 0);
        eng_buf_unref(op->append.body);
        if (op->result != 0)
                drop->error = op->result;
        if (--drop->out == 0 && !drop->store->stopping)
                migrated_drop_page_done(drop);
}

static int forget(struct eng_migrated_drop *drop, struct migrated_drop_op *so, const struct eng_scan_entry *e)
{
        struct eng_op *op = &so->op;
        struct fmt_value head;
        struct eng_body body;
        int rv = eng_body_begin(&body, eng_body_need(e->name_len, 0, 0));

        if (rv != 0)
                return rv;
        memcpy(&head, eng_entry_value(e), sizeof(head));
        drop->from.len = e->name_len;
        memcpy(drop->from.data, eng_entry_name(e), e->name_len);
        eng_body_delete(&body, &drop->from);
        body.buf->len = (uint32_t)body.len;
        memset(so, 0, sizeof(*so));
        so->drop = drop;
        op->kind = ENG_OP_APPEND;
        op->flags = ENG_OP_RESERVE;
        op->epoch = drop->epoch;
        op->done = forgotten;
        op->append.body = body.buf;
        op->append.body_crc = era_crc32c(0, body.buf->data, body.len);
        op->append.pg = head.pg;
        op->append.type = FMT_RECORD_COPY;
        op->append.seq = head.seq;
        op->append.committed = head.seq; /* else a start that finds that record pending would bring the name back */
        op->append.time_ms = (uint64_t)lp_wall_ms();
        op->append.record_epoch = drop->epoch;
        drop->out++;
        eng_pacer_spend(&drop->store->pacer, lp_now(drop->store->coord_loop->loop), ENG_PACER_NAME);
        eng_drive_submit(drop->store->members[drop->slot].drive, op);
        return 0;
}

static void migrated_drop_scanned(struct eng_op *op)
{
        struct eng_migrated_drop *drop = container_of(op, struct eng_migrated_drop, scan);
        const uint8_t *at;
        unsigned i;

        drop->error = op->result;
        drop->page = op->scan.entries;
        drop->more = op->result == 0 && op->scan.count > 0 && op->scan.more;
        at = drop->page == NULL ? NULL : drop->page->data;
        drop->out = 1;
        for (i = 0; at != NULL && drop->error == 0 && i < op->scan.count; i++) {
                const struct eng_scan_entry *e = (const struct eng_scan_entry *)at;

                drop->error = forget(drop, &drop->ops[i], e);
                at += e->size;
        }
        if (--drop->out == 0)
                migrated_drop_page_done(drop);
}

/* The groups that the drive has no part in. */
static void others(const struct eng_migrated_drop *drop)
{
        const struct eng_placement *map = drop->store->coord->view.map;
        unsigned pg;

        memset(drop->pgs, 0, drop->store->pg_words * sizeof(uint64_t));
        for (pg = 0; pg < drop->store->pg_count; pg++)
                if (!((map->groups[pg].before | map->groups[pg].after) & eng_bit(drop->slot)))
                        drop->pgs[pg / 64] |= 1ull << (pg % 64);
}

static void next_page(struct eng_migrated_drop *drop)
{
        static const uint8_t behind_all[1] = {FMT_SPACE_LAST + 1};
        struct eng_store *store = drop->store;
        struct eng_op *op = &drop->scan;

        assert(drop->out == 0 && drop->page == NULL);
        if (migrated_drop_candidate(store) < 0 || !(store->coord->view.in & store->coord->view.up & eng_bit(drop->slot))) {
                eng_migrated_drop_free(store);
                eng_migrated_drop_consider(store); /* another drive; or none, until what is under way is over */
                return;
        }
        others(drop);
        drop->epoch = store->coord->view.epoch;
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->epoch = drop->epoch;
        op->done = migrated_drop_scanned;
        op->scan.from = drop->from.data;
        op->scan.from_len = drop->from.len;
        op->scan.after = drop->from.len != 0;
        op->scan.to = behind_all;
        op->scan.to_len = 1;
        op->scan.max = PAGE;
        op->scan.pgs = drop->pgs;
        op->scan.pg_words = store->pg_words;
        eng_drive_submit(store->members[drop->slot].drive, op);
}

void eng_migrated_drop_consider(struct eng_store *store)
{
        struct eng_migrated_drop *drop;
        int slot = migrated_drop_candidate(store);

        assert(eng_on_coordinator(store));
        if (slot < 0 || store->coord->migrated_drop != NULL)
                return;
        /* of a time when there was no memory: it would ask for the next page too early */
        lp_timer_stop(store->coord_loop->loop, &store->coord->migrated_drop_timer);
        drop = calloc(1, sizeof(*drop));
        if (drop == NULL) {
                migrated_drop_later(store, AGAIN_NS);
                return;
        }
        drop->store = store;
        drop->slot = (unsigned)slot;
        drop->pgs = calloc(store->pg_words, sizeof(uint64_t));
        store->coord->migrated_drop = drop;
        if (drop->pgs != NULL) {
                next_page(drop);
                return;
        }
        eng_migrated_drop_free(store);
        migrated_drop_later(store, AGAIN_NS);
}
