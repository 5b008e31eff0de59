/*
 * bucket_look.c - looks whether anything is in a bucket, before it is deleted. Coordinator.
 *
 * Each drive is asked for one name of an object and one of a version, of the groups that it speaks
 * for. A name that any of them has counts: it may be what the others have lost. That there is none
 * counts only if of each group more members say so than have something, or could not answer. It is
 * asked anew for a while where members could not answer, as they cannot while an epoch changes.
 */
#include "engine/bucket/bucket_look.h"
#include "engine/bucket/bucket_queue.h"
#include "engine/txn/txn.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_ROUNDS 40u
#define LOOK_NS     (50ull * 1000 * 1000)

static void look_round(struct eng_bucket_look *look);

static const struct eng_view *look_view(const struct eng_bucket_look *look)
{
        return &look->store->coord_loop->view;
}

static bool spoke_for(const struct eng_bucket_look *look, unsigned slot, uint32_t group)
{
        return (look->spoken[(size_t)slot * look->store->pg_words + group / 64] >> group % 64 & 1) != 0;
}

/* Of the members that were asked, those that have nothing outvote the others. */
static bool is_heard(const struct eng_bucket_look *look, uint32_t group)
{
        eng_mask have = 0, absent = 0;
        unsigned slot;

        for (slot = 0; slot < ENG_DRIVES_MAX; slot++) {
                if (!spoke_for(look, slot, group))
                        continue;
                if ((look->empty & eng_bit(slot)) && eng_may_say_absent(look_view(look), group, slot))
                        absent |= eng_bit(slot);
                else
                        have |= eng_bit(slot);
        }
        return eng_outvoted(have, absent);
}

static void look_rested(struct lp_timer *timer)
{
        struct eng_bucket_look *look = container_of(timer, struct eng_bucket_look, timer);

        LIST_REMOVE(look, link);
        look_round(look);
}

/* Another member of that group says that there is nothing. */
static bool is_denied(const struct eng_bucket_look *look)
{
        eng_mask left = look->empty;

        for (; left != 0; left &= left - 1)
                if (spoke_for(look, (unsigned)__builtin_ctzll(left), look->group))
                        return true;
        return false;
}

static void look_over(struct eng_bucket_look *look)
{
        uint32_t group;

        if (look->found) {
                if (is_denied(look))
                        eng_upkeep_group(look->store, look->group);
                look->done(look, -EBUSY);
                return;
        }
        for (group = 0; group < look->store->pg_count; group++)
                if (!is_heard(look, group))
                        break;
        if (group == look->store->pg_count) {
                look->done(look, 0);
        } else if (++look->rounds >= LOOK_ROUNDS) {
                look->done(look, -EAGAIN);
        } else {
                look->timer.expired = look_rested;
                LIST_INSERT_HEAD(&eng_config_of(look->store)->resting, look, link);
                lp_timer_start(look->store->coord_loop->loop, &look->timer, LOOK_NS);
        }
}

static void look_answered(struct eng_op *op);

static void look_ask(struct eng_bucket_look *look, struct eng_look_op *lo)
{
        struct eng_op *op = &lo->op;

        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->epoch = look_view(look)->epoch;
        op->done = look_answered;
        op->scan.from = look->from[lo->space].data;
        op->scan.from_len = look->from[lo->space].len;
        op->scan.to = look->to[lo->space].data;
        op->scan.to_len = look->to[lo->space].len;
        op->scan.max = 1;
        op->scan.pgs = look->spoken + (size_t)lo->slot * look->store->pg_words;
        op->scan.pg_words = look->store->pg_words;
        look->out++;
        eng_drive_submit(look->store->members[lo->slot].drive, op);
}

static void look_take(struct eng_bucket_look *look, const struct eng_scan_entry *e)
{
        struct fmt_value v;

        assert(e->value_len >= sizeof(v));
        memcpy(&v, eng_entry_value(e), sizeof(v));
        look->found = true;
        look->group = v.pg;
}

static void look_answered(struct eng_op *op)
{
        struct eng_look_op *lo = container_of(op, struct eng_look_op, op);
        struct eng_bucket_look *look = lo->look;

        assert(eng_on_coordinator(look->store) && look->out > 0);
        if (op->result == 0 && op->scan.count > 0)
                look_take(look, (const struct eng_scan_entry *)op->scan.entries->data);
        lo->other |= op->result != 0 || op->scan.count > 0;
        if (op->result == 0)
                eng_buf_unref(op->scan.entries);
        if (lo->space++ == 0 && !look->store->stopping)
                look_ask(look, lo);
        else if (!lo->other)
                look->empty |= eng_bit(lo->slot);
        if (--look->out > 0)
                return;
        if (look->store->stopping)
                look->done(look, -EHOSTDOWN);
        else
                look_over(look);
}

static void look_round(struct eng_bucket_look *look)
{
        const struct eng_view *view = look_view(look);
        struct eng_store *store = look->store;
        unsigned i;

        if (view->lost != 0) { /* nobody knows whether it has objects there */
                look->done(look, -EHOSTDOWN);
                return;
        }
        memset(look->spoken, 0, (size_t)ENG_DRIVES_MAX * store->pg_words * sizeof(*look->spoken));
        look->empty = 0;
        look->out = 1; /* this loop's own */
        for (i = 0; i < store->drive_count; i++) {
                struct eng_look_op *lo = &look->ops[i];

                if ((view->in & view->up & eng_bit(i)) == 0)
                        continue;
                eng_groups_spoken_for(view, store->pg_count, i, look->spoken + (size_t)i * store->pg_words);
                lo->look = look;
                lo->slot = i;
                lo->space = 0;
                lo->other = false;
                look_ask(look, lo);
        }
        if (--look->out == 0)
                look_over(look);
}

void eng_bucket_look(struct eng_bucket_look *look)
{
        static const enum fmt_space spaces[2] = {FMT_SPACE_OBJECT, FMT_SPACE_VERSION};
        unsigned i;

        assert(eng_on_coordinator(look->store) && look->out == 0);
        for (i = 0; i < 2; i++) {
                eng_name_space(&look->from[i], spaces[i], look->bucket);
                look->to[i] = look->from[i];
                eng_name_successor(&look->to[i]);
        }
        look->found = false;
        look->rounds = 0;
        eng_bucket_look_free(look);
        look->spoken = calloc((size_t)ENG_DRIVES_MAX * look->store->pg_words, sizeof(*look->spoken));
        if (look->spoken == NULL)
                look->done(look, -ENOMEM);
        else
                look_round(look);
}

void eng_bucket_looks_stop(struct eng_store *store)
{
        struct eng_bucket_look *look;

        while ((look = LIST_FIRST(&eng_config_of(store)->resting)) != NULL) {
                LIST_REMOVE(look, link);
                lp_timer_stop(store->coord_loop->loop, &look->timer);
                look->done(look, -EHOSTDOWN);
        }
}

void eng_bucket_look_free(struct eng_bucket_look *look)
{
        free(look->spoken);
        look->spoken = NULL;
}
