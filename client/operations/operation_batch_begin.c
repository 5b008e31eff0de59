/*
 * operation_batch_begin.c - mr_get_batch() from its call to the first requests; and what the
 * program takes of an entry. On the program's thread.
 */
#include "client/operations/operation_batch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"

static void batch_begin_free(struct mr_op *op)
{
        struct mr_batch_op *batch = (struct mr_batch_op *)op;

        free(batch->entry);
        free(batch->slot);
        free(batch->todo);
        free(batch->order);
        pthread_mutex_destroy(&batch->lock);
}

static void batch_begin_entry(struct mr_node *node, struct mr_result *out)
{
        struct mr_batch_item *entry = container_of(node, struct mr_batch_item, node);
        struct mr_batch_op *batch = entry->batch;
        size_t index = (size_t)(entry - batch->entry);
        const struct mr_got *got = &batch->got[index];

        MR_CHECK(mr_batch_item, entry);
        MR_CHECK(mr_batch_op, batch);
        assert(batch->each && index < batch->count);
        memset(out, 0, sizeof(*out));
        out->op = batch->op.result.op;
        out->tag = batch->op.result.tag;
        out->entry = index;
        out->code = got->code;
        out->transport = got->transport;
        out->bytes = got->bytes;
        out->wire_verified = got->wire_verified;
        out->object_verified = got->object_verified;
        out->object.size = got->size;
        memcpy(out->object.etag, got->etag, sizeof(out->object.etag));
        out->error = got->error;
}

static int batch_copy(struct mr_batch_op *batch, const struct mr_batch *from)
{
        batch->entry = calloc(from->count, sizeof(*batch->entry));
        batch->slots = batch->op.client->settings.parallel * 2;
        if (batch->slots > from->count)
                batch->slots = (unsigned)from->count;
        batch->slot = calloc(batch->slots, sizeof(*batch->slot));
        batch->todo = calloc(from->count, sizeof(*batch->todo));
        batch->order = calloc(from->count, sizeof(struct mr_batch_item *));
        if (batch->entry == NULL || batch->slot == NULL || batch->todo == NULL || batch->order == NULL)
                return -ENOMEM;
        for (size_t i = 0; i < from->count; i++) {
                struct mr_get *get = &batch->entry[i].get;
                const char *bucket = from->gets[i].bucket;

                *get = from->gets[i];
                batch->entry[i].magic = mr_batch_item_magic;
                batch->entry[i].batch = batch;
                batch->entry[i].node.take = batch_begin_entry;
                get->bucket = i > 0 && bucket == from->gets[i - 1].bucket ? batch->entry[i - 1].get.bucket
                                                                          : mr_op_text(&batch->op, bucket);
                get->key = mr_op_text(&batch->op, get->key);
                get->version_id = mr_op_text(&batch->op, get->version_id);
                get->if_match = mr_op_text(&batch->op, get->if_match);
                from->got[i].code = 1;
        }
        return batch->op.no_memory ? -ENOMEM : 0;
}

static int batch_begin(struct mr_client *client, const void *what, const struct mr_target *target)
{
        const struct mr_batch *from = what;
        struct mr_batch_op *batch;
        struct mr_op *op;
        unsigned results;
        bool none;
        int rv;

        if (from->count == 0 || from->count > MR_BATCH_MAX || from->gets == NULL || from->got == NULL)
                return -EINVAL;
        results = 1 + (from->each && target->queue != NULL ? (unsigned)from->count : 0);
        rv = mr_op_new(client, sizeof(*batch), results, target, &op);
        if (rv != 0)
                return rv;
        batch = (struct mr_batch_op *)op;
        batch->magic = mr_batch_op_magic;
        pthread_mutex_init(&batch->lock, NULL);
        op->free = batch_begin_free;
        batch->got = from->got;
        batch->count = from->count;
        batch->each = results > 1;
        batch->wire_verified = true;
        batch->object_verified = true;
        rv = batch_copy(batch, from);
        if (rv != 0) {
                mr_op_abandon(op, results);
                return rv;
        }
        pthread_mutex_lock(&batch->lock);
        batch->flying = 1; /* this function, so that none is the last before all are begun */
        mr_batch_plan(batch);
        mr_batch_fill(batch);
        batch->flying--;
        none = batch->flying == 0;
        pthread_mutex_unlock(&batch->lock);
        if (none)
                mr_batch_over(batch);
        return 0;
}

int mr_get_batch_start(struct mr_client *client, const struct mr_batch *batch, struct mr_queue *queue, void *tag,
                       uint64_t *op)
{
        return batch_begin(client, batch, &(struct mr_target){.queue = queue, .tag = tag, .op = op});
}

int mr_get_batch(struct mr_client *client, const struct mr_batch *batch, struct mr_result *out)
{
        return mr_op_await(client, batch_begin, batch, out);
}
