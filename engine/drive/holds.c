/*
 * holds.c - what shards a drive holds, without reading them: HELD for those of one object id, IDS for all ids there are.
 *
 * For whoever fills a drive that took another's place, and for whoever looks for shards that no record names. Owner loop.
 */
#include "engine/drive/local.h"

#include <errno.h>
#include <string.h>

void eng_held_op(struct eng_local *l, struct eng_op *op)
{
        struct eng_place place;
        uint32_t i;
        int rv = op->held.count > ENG_HELD_MAX ? -EINVAL : 0;

        memset(op->held.bits, 0, sizeof(op->held.bits));
        for (i = 0; rv == 0 && i < op->held.count; i++) {
                rv = eng_place_find(l, op->held.object_id, op->held.stripe + i, op->held.shard, &place);
                if (rv == 0)
                        op->held.bits[i / 64] |= 1ull << (i % 64);
                else if (rv == -ENOENT || rv == -EBADMSG) /* a place that is damaged leads nowhere */
                        rv = 0;
        }
        eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
}

static int read_ids(struct eng_local *l, struct eng_op *op)
{
        const uint8_t *after = op->ids.after;
        int rv = eng_index_read_begin(l->reader);

        if (rv != 0)
                return rv;
        while (rv == 0 && op->ids.count < op->ids.max) {
                uint8_t *id = op->ids.ids->data + (size_t)op->ids.count * FMT_ID;

                rv = eng_index_place_next(l->reader, after, id);
                if (rv != 0)
                        break;
                after = id;
                op->ids.count++;
        }
        eng_index_read_end(l->reader);
        return rv == -ENOENT ? 0 : rv;
}

void eng_ids_op(struct eng_local *l, struct eng_op *op)
{
        int rv = op->ids.max == 0 || op->ids.max > ENG_IDS_MAX ? -EINVAL : 0;

        op->ids.count = 0;
        op->ids.ids = rv == 0 ? eng_buf_new((size_t)op->ids.max * FMT_ID) : NULL;
        if (rv == 0)
                rv = op->ids.ids == NULL ? -EAGAIN : read_ids(l, op);
        eng_local_index_error(l, rv);
        if (op->ids.ids != NULL && (rv != 0 || op->ids.count == 0)) {
                eng_buf_unref(op->ids.ids);
                op->ids.ids = NULL;
        }
        eng_local_answer(op, rv == -ENOMEM ? -EAGAIN : rv);
}
