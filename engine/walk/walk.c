/*
 * walk.c - the names of some placement groups as several drives have them, side by side and in
 * order. Any loop: the walk's own.
 *
 * Each drive is asked for a page of the groups it has a part in; what all have read is merged, and
 * a drive whose page is used up is asked for the next one, from the last name that was given on.
 * Drives are read at different moments: that two differ, or that one lacks a name, is a reason to
 * look again with the key locked, and never more than that.
 */
#include "engine/object/object.h"
#include "engine/walk/walk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE_BYTES (256u << 10)        /* of each drive, for each loop: values of large objects are long */
#define TRIES 16u                      /* of a page, one after the other: a long walk must not be in vain for one moment without memory */

static void walk_scan(struct eng_walk *walk, unsigned slot);

static void drop_page(struct eng_walk_source *src)
{
        eng_buf_unref(src->page);
        src->page = NULL;
        src->next = NULL;
        src->left = 0;
}

static void walk_scanned(struct eng_op *op)
{
        struct eng_walk_source *src = container_of(op, struct eng_walk_source, op);
        struct eng_walk *walk = src->walk;

        assert(eng_on_loop(walk->el) && walk->out > 0);
        walk->out--;
        if (op->result == -EAGAIN && !walk->store->stopping && ++src->tries < TRIES) {
                walk_scan(walk, src->slot);
                return;
        }
        src->tries = 0;
        src->more = false;
        if (op->result != 0) {
                walk->failed |= eng_bit(src->slot);
                walk->error = op->result;
        } else {
                src->page = op->scan.entries;
                src->left = src->page == NULL ? 0 : op->scan.count;
                src->next = src->left == 0 ? NULL : src->page->data;
                src->more = src->left != 0 && op->scan.more;
        }
        if (walk->out == 0)
                walk->ready(walk->arg);
}

static void walk_scan(struct eng_walk *walk, unsigned slot)
{
        struct eng_walk_source *src = walk->source[slot];
        struct eng_op *op = &src->op;

        assert((walk->drives & eng_bit(slot)) != 0);
        drop_page(src);
        memset(op, 0, sizeof(*op));
        op->kind = ENG_OP_SCAN;
        op->flags = ENG_OP_WANT_ATTRS | ENG_OP_WANT_PARTS;
        op->epoch = walk->el->view.epoch;
        op->done = walk_scanned;
        op->scan.from = walk->at.data;
        op->scan.from_len = walk->at.len;
        op->scan.after = walk->after;
        op->scan.to = walk->to.data;
        op->scan.to_len = walk->to.len;
        op->scan.max = walk->page;
        op->scan.most = PAGE_BYTES;
        op->scan.pgs = src->pgs;
        op->scan.pg_words = walk->store->pg_words;
        walk->out++;
        eng_drive_submit(walk->store->members[slot].drive, op);
}

struct eng_walk *eng_walk_new(struct eng_loop *el, unsigned page, void (*ready)(void *arg), void *arg)
{
        struct eng_walk *walk = calloc(1, sizeof(*walk));

        if (walk == NULL)
                return NULL;
        walk->store = el->store;
        walk->el = el;
        walk->page = page;
        walk->ready = ready;
        walk->arg = arg;
        return walk;
}

uint64_t *eng_walk_groups(struct eng_walk *walk, unsigned slot)
{
        struct eng_walk_source *src = walk->source[slot];

        assert(walk->out == 0);
        if (src == NULL)
                walk->source[slot] = src = calloc(1, sizeof(*src));
        if (src == NULL)
                return NULL;
        src->walk = walk;
        src->slot = slot;
        if (src->pgs == NULL)
                src->pgs = malloc(walk->store->pg_words * sizeof(uint64_t));
        if (src->pgs == NULL)
                return NULL;
        memset(src->pgs, 0, walk->store->pg_words * sizeof(uint64_t));
        walk->drives |= eng_bit(slot);
        return src->pgs;
}

void eng_walk_forget(struct eng_walk *walk)
{
        assert(walk->out == 0);
        walk->drives = 0;
}

void eng_walk_begin(struct eng_walk *walk, const struct eng_name *from, bool after, const struct eng_name *to)
{
        unsigned slot;

        assert(walk->out == 0);
        walk->at = *from;
        walk->after = after;
        walk->to = *to;
        walk->failed = 0;
        walk->error = 0;
        for (slot = 0; slot < ENG_DRIVES_MAX; slot++)
                if (walk->source[slot] != NULL) {
                        drop_page(walk->source[slot]);
                        walk->source[slot]->more = true; /* nothing of it has been read */
                }
}

/* Drives whose page is used up and who have more. True: they are being asked. */
static bool walk_refill(struct eng_walk *walk)
{
        unsigned slot;

        for (slot = 0; slot < ENG_DRIVES_MAX; slot++)
                if ((walk->drives & ~walk->failed & eng_bit(slot)) && walk->source[slot]->left == 0 && walk->source[slot]->more) {
                        walk->source[slot]->more = false;
                        walk_scan(walk, slot);
                }
        return walk->out > 0;
}

int eng_walk_next(struct eng_walk *walk, struct eng_walk_row *row)
{
        const struct eng_scan_entry *least = NULL;
        unsigned slot;
        int c;

        assert(eng_on_loop(walk->el));
        if (walk->out > 0 || walk_refill(walk))
                return -EAGAIN;
        row->have = 0;
        for (slot = 0; slot < ENG_DRIVES_MAX; slot++) {
                const struct eng_scan_entry *e;

                if (!(walk->drives & eng_bit(slot)) || walk->source[slot]->left == 0)
                        continue;
                e = (const struct eng_scan_entry *)walk->source[slot]->next;
                c = least == NULL ? -1 : eng_scan_compare(e, least);
                if (c < 0) {
                        least = e;
                        row->have = 0;
                }
                if (c <= 0) {
                        row->have |= eng_bit(slot);
                        row->of[slot] = e;
                }
        }
        if (least == NULL)
                return 0;
        for (slot = 0; slot < ENG_DRIVES_MAX; slot++)
                if (row->have & eng_bit(slot)) {
                        walk->source[slot]->next += row->of[slot]->size;
                        walk->source[slot]->left--;
                }
        walk->after = true;
        walk->at.len = least->name_len;
        memcpy(walk->at.data, least + 1, least->name_len);
        row->name = walk->at.data;
        row->name_len = walk->at.len;
        return 1;
}

bool eng_walk_differs(const struct eng_walk_row *row, eng_mask asked)
{
        const struct eng_scan_entry *first = NULL;
        unsigned slot;

        if ((asked & ~row->have) != 0)
                return true;
        for (slot = 0; slot < ENG_DRIVES_MAX; slot++) {
                const struct eng_scan_entry *e = row->of[slot];

                if (!(asked & eng_bit(slot)))
                        continue;
                if (first == NULL)
                        first = e;
                else if (!eng_value_alike(eng_entry_value(first), first->value_len, eng_entry_value(e), e->value_len))
                        return true;
        }
        return false;
}

void eng_walk_free(struct eng_walk *walk)
{
        unsigned slot;

        if (walk == NULL)
                return;
        for (slot = 0; slot < ENG_DRIVES_MAX; slot++)
                if (walk->source[slot] != NULL) {
                        drop_page(walk->source[slot]);
                        free(walk->source[slot]->pgs);
                        free(walk->source[slot]);
                }
        free(walk);
}
