/*
 * operation_batch.c - mr_get_batch(): entries with results of their own. Who brings them is operation_batch_send.c's affair; what it leaves, or others leave, is got here by a
 * window of downloads (I9). The program's thread begins, the client's threads end.
 */
#include "client/operations/operation_batch.h"

#include "client/rdma/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void batch_free(struct mr_op *op)
{
        struct mr_batch_op *batch = (struct mr_batch_op *)op;

        free(batch->entry);
        free(batch->slot);
        free(batch->todo);
        free(batch->order);
        pthread_mutex_destroy(&batch->lock);
}

static void take_entry(struct mr_node *node, struct mr_result *out)
{
        struct mr_batch_item *entry = (struct mr_batch_item *)((char *)node - offsetof(struct mr_batch_item, node));
        struct mr_batch_op *batch = entry->batch;
        size_t index = (size_t)(entry - batch->entry);
        const struct mr_got *got = &batch->got[index];

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

/* With lock: this is known of an entry. */
void mr_batch_tell(struct mr_batch_op *batch, size_t index)
{
        const struct mr_got *got = &batch->got[index];

        if (got->code != 0) {
                if (batch->failed++ == 0 || index < batch->first_failed)
                        batch->first_failed = index;
        } else {
                batch->bytes += got->bytes;
                batch->carried = got->transport;
                batch->wire_verified = batch->wire_verified && got->wire_verified;
                batch->object_verified = batch->object_verified && got->object_verified;
        }
        if (batch->each)
                mr_queue_push(batch->op.queue, &batch->entry[index].node);
}

/* With lock: what came of an entry that was got by itself. */
static void note(struct mr_batch_op *batch, size_t index, int rv, const struct mr_download *download)
{
        struct mr_got *got = &batch->got[index];

        mr_got_clear(got);
        got->size = download->info.size;
        memcpy(got->etag, download->info.etag, sizeof(got->etag));
        if (rv != 0) {
                got->error = download->error;
                if (got->error.code == 0)
                        mr_failure_errno(&got->error, rv);
        } else {
                got->transport = download->carried;
                got->bytes = download->got;
                got->wire_verified = download->wire_verified;
                got->object_verified = download->object_verified;
        }
        got->code = rv;
        mr_batch_tell(batch, index);
}

static void entry_ended(void *arg, struct mr_download *download, int rv);

/* With lock: begins the next entry in slot, or notes why it cannot be, and goes on to the one after it. */
static void fill(struct mr_batch_op *batch, struct mr_batch_slot *slot)
{
        while (batch->next < batch->todo_count) {
                size_t index = batch->todo[batch->next++];
                const struct mr_get *get = &batch->entry[index].get;
                char *memory = NULL;
                int rv = atomic_load(&batch->op.canceled) ? -ECANCELED : mr_get_check(get);

                slot->batch = batch;
                slot->index = index;
                slot->buffer = NULL;
                if (rv == 0)
                        rv = mr_place_take(batch->op.client, &get->place, &slot->buffer, &memory);
                mr_get_download(&batch->op, get, memory, slot->buffer, &slot->download);
                slot->download.done = entry_ended;
                slot->download.done_arg = slot;
                if (rv == 0)
                        rv = mr_download_start(&slot->download);
                if (rv == 0) {
                        slot->busy = true;
                        batch->flying++;
                        return;
                }
                mr_buffer_put(slot->buffer);
                note(batch, index, rv, &slot->download);
        }
}

void mr_batch_over(struct mr_batch_op *batch)
{
        struct mr_result *result = &batch->op.result;
        int rv = batch->failed == 0 ? 0 : batch->got[batch->first_failed].code;

        result->bytes = batch->bytes;
        result->failed = batch->failed;
        result->transport = batch->carried;
        result->wire_verified = batch->bytes > 0 && batch->wire_verified;
        result->object_verified = batch->bytes > 0 && batch->object_verified;
        if (rv != 0)
                result->error = batch->got[batch->first_failed].error;
        mr_op_end(&batch->op, rv);
}

static void entry_ended(void *arg, struct mr_download *download, int rv)
{
        struct mr_batch_slot *slot = arg;
        struct mr_batch_op *batch = slot->batch;
        bool last;

        pthread_mutex_lock(&batch->lock);
        mr_buffer_put(slot->buffer);
        note(batch, slot->index, rv, download);
        batch->flying--;
        slot->busy = false;
        fill(batch, slot);
        last = batch->flying == 0;
        pthread_mutex_unlock(&batch->lock);
        if (last)
                mr_batch_over(batch);
}

/* With lock. */
void mr_batch_fill(struct mr_batch_op *batch)
{
        for (unsigned i = 0; i < batch->slots; i++)
                if (!batch->slot[i].busy)
                        fill(batch, &batch->slot[i]);
}

/* ---- all of it ----------------------------------------------------------------------------------- */

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
                batch->entry[i].batch = batch;
                batch->entry[i].node.take = take_entry;
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
        pthread_mutex_init(&batch->lock, NULL);
        op->free = batch_free;
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
