/*
 * shed.c - drives forget the names of groups that went from them when a drive was added (reshape.c). Coordinator; one drive at a time, at leisure.
 *
 * Nobody asks the drive for those names any more, and no change of them reaches it; they only take space: in its index, and their inline
 * bytes in its log. Each is deleted by a COPY record of the drive's own, with the number it had. The records carry the epoch in which the
 * name was found, so none of them arrives after one that has given the group back.
 */
#include "engine/base/pacer.h"
#include "engine/epoch/epoch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE 256u
#define STALE_NS (5ull * 1000 * 1000)            /* until the loops have the epoch of which the drive knows */
#define AGAIN_NS (30ull * 1000 * 1000 * 1000)    /* after an error */

struct shed_op {
        struct eng_op op;              /* first */
        struct eng_shed *shed;
};

/* owner: coordinator; ops: the drive while out */
struct eng_shed {
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
        struct shed_op ops[PAGE];
};

static void next_page(struct eng_shed *shed);

void eng_shed_free(struct eng_store *store)
{
        struct eng_shed *shed = store->coord->shed;

        store->coord->shed = NULL;
        if (shed == NULL)
                return;
        lp_timer_stop(store->loops[0].loop, &store->coord->shed_timer);
        eng_buf_unref(shed->page);
        free(shed->pgs);
        free(shed);
}

/* All groups have all their copies where they belong: others are of no use, whatever happened when the groups moved. */
static bool all_in(const struct eng_view *view, unsigned pg_count)
{
        unsigned pg;

        for (pg = 0; pg <= pg_count; pg++)
                if ((view->map->groups[pg].after & ~(view->in & view->up)) != 0)
                        return false;
        return true;
}

/* A drive that has something to forget, when no other change is under way and no loop asks by a map of before; or -1. */
static int shed_candidate(const struct eng_store *store)
{
        const struct eng_coord *c = store->coord;
        eng_mask mask = c->shape.shedding & ~c->wish.shed & c->view.in & c->view.up;

        if (c->store->stopping || c->phase != ENG_PHASE_OPEN || !c->view.writable || c->join != NULL || c->changing ||
            c->shape.adding != 0 || mask == 0 || !all_in(&c->view, store->pg_count))
                return -1;
        return __builtin_ctzll(mask);
}

static void shed_again(struct lp_timer *timer)
{
        struct eng_coord *c = container_of(timer, struct eng_coord, shed_timer);

        if (c->shed != NULL)
                next_page(c->shed);
        else
                eng_shed_consider(c->store);
}

static void shed_later(struct eng_store *store, uint64_t ns)
{
        store->coord->shed_timer.expired = shed_again;
        lp_timer_start(store->loops[0].loop, &store->coord->shed_timer, ns);
}

/* Nothing is left on this drive. */
static void shed_end(struct eng_shed *shed)
{
        struct eng_store *store = shed->store;
        struct eng_coord *c = store->coord;

        c->wish.shed |= eng_bit(shed->slot);
        eng_shed_free(store);
        if (shed_candidate(store) >= 0)
                eng_shed_consider(store);
        else
                eng_epoch_change(store); /* so that the next start knows */
}

static void shed_page_done(struct eng_shed *shed)
{
        eng_buf_unref(shed->page);
        shed->page = NULL;
        if (shed->error != 0) {
                shed->from.len = 0;
                shed_later(shed->store, shed->error == -ESTALE ? STALE_NS : AGAIN_NS);
        } else if (shed->more) {
                eng_pacer_look(&shed->store->pacer, &shed->store->loops[0]);
                shed_later(shed->store, eng_pacer_wait(&shed->store->pacer, lp_now(shed->store->loops[0].loop)));
        } else {
                shed_end(shed);
        }
}

static void forgotten(struct eng_op *op)
{
        struct eng_shed *shed = ((struct shed_op *)op)->shed;

        eng_buf_unref(op->append.body);
        if (op->result != 0)
                shed->error = op->result;
        if (--shed->out == 0 && !shed->store->stopping)
                shed_page_done(shed);
}

static int forget(struct eng_shed *shed, struct shed_op *so, const struct eng_scan_entry *e)
{
        struct eng_op *op = &so->op;
        struct fmt_value head;
        struct eng_body body;
        int rv = eng_body_begin(&body, eng_body_need(e->name_len, 0, 0));

        if (rv != 0)
                return rv;
        memcpy(&head, (const uint8_t *)(e + 1) + e->name_len, sizeof(head));
        shed->from.len = e->name_len;
        memcpy(shed->from.data, e + 1, e->name_len);
        eng_body_delete(&body, &shed->from);
        body.buf->len = (uint32_t)body.len;
        memset(so, 0, sizeof(*so));
        so->shed = shed;
        op->kind = ENG_OP_APPEND;
        op->flags = ENG_OP_RESERVE;
        op->epoch = shed->epoch;
        op->done = forgotten;
        op->append.body = body.buf;
        op->append.body_crc = era_crc32c(0, body.buf->data, body.len);
        op->append.pg = head.pg;
        op->append.type = FMT_RECORD_COPY;
        op->append.seq = head.seq;
        op->append.committed = head.seq; /* else a start that finds that record pending would bring the name back */
        op->append.time_ms = (uint64_t)lp_wall_ms();
        op->append.record_epoch = shed->epoch;
        shed->out++;
        eng_pacer_spend(&shed->store->pacer, lp_now(shed->store->loops[0].loop), ENG_PACER_NAME);
        eng_drive_submit(shed->store->members[shed->slot].drive, op);
        return 0;
}

static void shed_scanned(struct eng_op *op)
{
        struct eng_shed *shed = container_of(op, struct eng_shed, scan);
        const uint8_t *at;
        unsigned i;

        shed->error = op->result;
        shed->page = op->scan.entries;
        shed->more = op->result == 0 && op->scan.count > 0 && op->scan.more;
        at = shed->page == NULL ? NULL : shed->page->data;
        shed->out = 1;
        for (i = 0; at != NULL && shed->error == 0 && i < op->scan.count; i++) {
                const struct eng_scan_entry *e = (const struct eng_scan_entry *)at;

                shed->error = forget(shed, &shed->ops[i], e);
                at += e->size;
        }
        if (--shed->out == 0)
                shed_page_done(shed);
}

/* The groups that the drive has no part in. */
static void others(const struct eng_shed *shed)
{
        const struct eng_placement *map = shed->store->coord->view.map;
        unsigned pg;

        memset(shed->pgs, 0, shed->store->pg_words * sizeof(uint64_t));
        for (pg = 0; pg < shed->store->pg_count; pg++)
                if (!((map->groups[pg].before | map->groups[pg].after) & eng_bit(shed->slot)))
                        shed->pgs[pg / 64] |= 1ull << (pg % 64);
}

static void next_page(struct eng_shed *shed)
{
        static const uint8_t behind_all[1] = {FMT_SPACE_PART + 1};
        struct eng_store *store = shed->store;
        struct eng_op *op = &shed->scan;

        if (shed_candidate(store) < 0 || !(store->coord->view.in & store->coord->view.up & eng_bit(shed->slot))) {
                eng_shed_free(store); /* begins anew when what is under way is over */
                return;
        }
        others(shed);
        shed->epoch = store->coord->view.epoch;
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->epoch = shed->epoch;
        op->done = shed_scanned;
        op->scan.from = shed->from.data;
        op->scan.from_len = shed->from.len;
        op->scan.after = shed->from.len != 0;
        op->scan.to = behind_all;
        op->scan.to_len = 1;
        op->scan.max = PAGE;
        op->scan.pgs = shed->pgs;
        op->scan.pg_words = store->pg_words;
        eng_drive_submit(store->members[shed->slot].drive, op);
}

void eng_shed_consider(struct eng_store *store)
{
        struct eng_shed *shed;
        int slot = shed_candidate(store);

        if (slot < 0 || store->coord->shed != NULL)
                return;
        shed = calloc(1, sizeof(*shed));
        if (shed == NULL) {
                shed_later(store, AGAIN_NS);
                return;
        }
        shed->store = store;
        shed->slot = (unsigned)slot;
        shed->pgs = calloc(store->pg_words, sizeof(uint64_t));
        store->coord->shed = shed;
        if (shed->pgs != NULL) {
                next_page(shed);
                return;
        }
        eng_shed_free(store);
        shed_later(store, AGAIN_NS);
}
