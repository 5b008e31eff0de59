/*
 * operation_batch.c - entries of a batch and their results. operation_batch_send.c has small ones
 * brought together; the rest, and what is left of those, is got here by a window of downloads (I9).
 * The program's thread begins, the client's threads end.
 */
#include "client/operations/operation_batch.h"

#include "client/rdma/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

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

/*
 * With lock: begins the next entry in slot, or notes why it cannot be, and goes on to the one after
 * it.
 */
static void batch_fill(struct mr_batch_op *batch, struct mr_batch_slot *slot)
{
        while (batch->next < batch->todo_count) {
                size_t index = batch->todo[batch->next++];
                const struct mr_get *get = &batch->entry[index].get;
                char *memory = NULL;
                int rv = atomic_load(&batch->op.canceled) ? -ECANCELED : mr_get_check(get);

                assert(!slot->busy && index < batch->count);
                slot->magic = mr_batch_slot_magic;
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

        MR_CHECK(mr_batch_op, batch);
        assert(batch->flying == 0 && batch->messages == 0 && batch->next == batch->todo_count);
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
        struct mr_batch_slot *slot = MR_CAST(mr_batch_slot, arg);
        struct mr_batch_op *batch = slot->batch;
        bool last;

        MR_CHECK(mr_batch_op, batch);
        pthread_mutex_lock(&batch->lock);
        assert(slot->busy && batch->flying > 0 && slot->index < batch->count);
        mr_buffer_put(slot->buffer);
        note(batch, slot->index, rv, download);
        batch->flying--;
        slot->busy = false;
        batch_fill(batch, slot);
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
                        batch_fill(batch, &batch->slot[i]);
}
