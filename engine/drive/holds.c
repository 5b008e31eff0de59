/*
 * holds.c - what shards a drive holds, without reading them: HELD for those of one object id, IDS
 * for all ids there are; and OWNED: which ids its names have parts of.
 *
 * For whoever fills a drive that took another's place, and for whoever looks for shards that no
 * record names. Each asks the index for many things, whose pages may not be in memory: it goes on
 * from where it was when one has been read. Owner loop.
 */
#include "engine/drive/local.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- HELD ------------------------------------------------------------------------------------ */

/* As far as can be told without reading: the file may be lost, which no scrub comes to. */
static bool location_leads_there(struct eng_local *l, const uint8_t object_id[FMT_ID], const struct eng_location *location)
{
        return eng_segment_find(l->segments, location->segment) != NULL && !eng_rot_at(l, object_id, location);
}

static void held_again(struct eng_local *l, struct eng_page_wait *wait, int rv);

static void held_now(struct eng_local *l, struct eng_op *op)
{
        struct eng_page_wait *wait = eng_pages_of_op(op);
        struct eng_location location;
        uint32_t i;
        int rv = 0;

        assert(op->held.count <= ENG_HELD_MAX && wait->done <= op->held.count);
        for (; rv == 0 && wait->done < op->held.count; wait->done += rv == 0) {
                i = wait->done;
                rv = eng_location_find(l, op->held.object_id, op->held.stripe + i, op->held.shard, &location);
                if (rv == 0 && location_leads_there(l, op->held.object_id, &location))
                        op->held.bits[i / 64] |= 1ull << (i % 64);
                else if (rv == -ENOENT || rv == -EBADMSG) /* a place that is damaged leads nowhere */
                        rv = 0;
                if (rv == 0)
                        wait->tries = 0;
        }
        if (rv == ENG_INDEX_ABSENT)
                eng_pages_wait_op(l, op, held_again);
        else
                eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
}

static void held_again(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        if (rv == 0)
                held_now(l, eng_pages_op(wait));
        else if (rv != -ECANCELED)
                eng_local_answer(eng_pages_op(wait), rv);
}

void eng_held_op(struct eng_local *l, struct eng_op *op)
{
        struct eng_page_wait *wait = eng_pages_of_op(op);

        memset(op->held.bits, 0, sizeof(op->held.bits));
        wait->tries = wait->done = 0;
        if (op->held.count > ENG_HELD_MAX)
                eng_local_answer(op, -EINVAL);
        else
                held_now(l, op);
}

/* ---- IDS ------------------------------------------------------------------------------------- */

static void ids_again(struct eng_local *l, struct eng_page_wait *wait, int rv);

static int holds_read_ids(struct eng_local *l, struct eng_op *op)
{
        struct eng_held_id *held = (struct eng_held_id *)op->ids.ids->data;
        const uint8_t *after = op->ids.count > 0 ? held[op->ids.count - 1].id : op->ids.after;
        int rv = eng_index_read_begin(l->reader);

        while (rv == 0 && op->ids.count < op->ids.max) {
                rv = eng_index_location_next(l->reader, after, held[op->ids.count].id, &held[op->ids.count].key_hash);
                if (rv != 0)
                        break;
                assert(memcmp(held[op->ids.count].id, after, FMT_ID) > 0);
                after = held[op->ids.count].id;
                op->ids.count++;
                eng_pages_of_op(op)->tries = 0;
        }
        eng_index_read_end(l->reader);
        return rv == -ENOENT ? 0 : rv;
}

static void ids_end(struct eng_op *op, int rv)
{
        if (op->ids.ids != NULL && (rv != 0 || op->ids.count == 0)) {
                eng_buf_unref(op->ids.ids);
                op->ids.ids = NULL;
        }
        if (rv != -ECANCELED)
                eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
}

static void ids_now(struct eng_local *l, struct eng_op *op)
{
        int rv = holds_read_ids(l, op);

        if (rv == ENG_INDEX_ABSENT) {
                eng_pages_wait_op(l, op, ids_again);
                return;
        }
        eng_local_index_error(l, rv);
        ids_end(op, rv);
}

static void ids_again(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        if (rv == 0)
                ids_now(l, eng_pages_op(wait));
        else
                ids_end(eng_pages_op(wait), rv);
}

void eng_ids_op(struct eng_local *l, struct eng_op *op)
{
        int rv = op->ids.max == 0 || op->ids.max > ENG_IDS_MAX ? -EINVAL : 0;

        op->ids.count = 0;
        op->ids.ids = rv == 0 ? eng_buf_new((size_t)op->ids.max * sizeof(struct eng_held_id)) : NULL;
        eng_pages_of_op(op)->tries = 0;
        if (op->ids.ids != NULL)
                ids_now(l, op);
        else
                ids_end(op, rv == 0 ? -EAGAIN : rv);
}

/* ---- OWNED ----------------------------------------------------------------------------------- */

static void owned_again(struct eng_local *l, struct eng_page_wait *wait, int rv);

/* The batch that will hold all that is visible now. */
static uint64_t mark_of(const struct eng_local *l)
{
        return l->batches_begun + (eng_memtable_empty(l->active) ? 0 : 1);
}

static int read_owned(struct eng_local *l, struct eng_op *op)
{
        struct eng_page_wait *wait = eng_pages_of_op(op);
        int rv = eng_index_read_begin(l->reader);

        assert(op->owned.count <= ENG_OWNED_MAX && wait->done <= op->owned.count);
        while (rv >= 0 && wait->done < op->owned.count) {
                rv = eng_index_owned(l->reader, op->owned.ids[wait->done]);
                if (rv < 0)
                        break;
                if (rv == 1)
                        op->owned.bits->data[wait->done / 8] |= (uint8_t)(1u << wait->done % 8);
                wait->done++;
                wait->tries = 0;
        }
        eng_index_read_end(l->reader);
        return rv < 0 ? rv : 0;
}

static void owned_end(struct eng_op *op, int rv)
{
        if (rv != 0) {
                eng_buf_unref(op->owned.bits);
                op->owned.bits = NULL;
        }
        if (rv != -ECANCELED)
                eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
}

static void owned_now(struct eng_local *l, struct eng_op *op)
{
        int rv = read_owned(l, op);

        if (rv == ENG_INDEX_ABSENT) {
                eng_pages_wait_op(l, op, owned_again);
                return;
        }
        eng_local_index_error(l, rv);
        owned_end(op, rv);
}

static void owned_again(struct eng_local *l, struct eng_page_wait *wait, int rv)
{
        if (rv == 0)
                owned_now(l, eng_pages_op(wait));
        else
                owned_end(eng_pages_op(wait), rv);
}

/*
 * The index that has what the mark speaks of has it for good, so nothing is asked of it again in
 * the middle.
 */
void eng_owned_op(struct eng_local *l, struct eng_op *op)
{
        struct eng_page_wait *wait = eng_pages_of_op(op);
        int rv = 0;

        assert(l->batches_ended <= l->batches_begun && l->batches_begun - l->batches_ended == (l->frozen != NULL));
        op->owned.bits = NULL;
        wait->tries = wait->done = 0;
        if (op->owned.count == 0) {
                op->owned.mark = mark_of(l);
        } else if (op->owned.count > ENG_OWNED_MAX) {
                rv = -EINVAL;
        } else if (l->batches_ended < op->owned.mark || !l->owners_complete) {
                eng_batch_start(l);
                rv = -EAGAIN;
        } else {
                op->owned.bits = eng_buf_new(ENG_OWNED_MAX / 8);
                rv = op->owned.bits == NULL ? -EAGAIN : 0;
        }
        if (op->owned.bits == NULL) {
                owned_end(op, rv);
                return;
        }
        memset(op->owned.bits->data, 0, ENG_OWNED_MAX / 8);
        owned_now(l, op);
}
