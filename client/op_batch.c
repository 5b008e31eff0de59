/*
 * op_batch.c - mr_get_batch(): a batch gets what is small by GetBatch requests (batch.c), and what is not, or did not come so, by a window of downloads
 * (I9); each entry has its own result. The program's thread begins, the client's threads end.
 */
#include "batch.h"
#include "op_get.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_LEAST 32u /* entries of one request, where there are so many */

struct batch_op;

/* owner: the batch */
struct entry {
        struct mr_node node;
        struct batch_op *batch;
        struct mr_get get; /* its strings are the operation's */
};

/* Entries that are one request. owner: itself, from its beginning until it has ended */
struct group {
        struct batch_op *batch;
        struct mr_batch_fetch fetch;
        struct mr_buffer *buffer[RDX_MESSAGE_ENTRIES]; /* of its entries */
};

/* A download of an entry. owner: the batch */
struct slot {
        struct batch_op *batch;
        bool busy;
        struct mr_download download;
        struct mr_buffer *buffer;
        size_t index;
};

struct batch_op {
        struct mr_op op;
        struct mr_got *got; /* the program's */
        struct entry *entry;
        size_t count;
        bool each;

        /* guarded by lock */
        pthread_mutex_t lock;
        struct slot *slot;
        unsigned slots, flying; /* flying: slots and groups */
        size_t *todo;           /* entries to be got each by itself */
        size_t todo_count, next;
        uint64_t bytes, failed;
        size_t first_failed;
        enum mr_transport carried;
        bool wire_verified, object_verified;
};

static void batch_free(struct mr_op *op)
{
        struct batch_op *batch = (struct batch_op *)op;

        free(batch->entry);
        free(batch->slot);
        free(batch->todo);
        pthread_mutex_destroy(&batch->lock);
}

static void take_entry(struct mr_node *node, struct mr_result *out)
{
        struct entry *entry = (struct entry *)((char *)node - offsetof(struct entry, node));
        struct batch_op *batch = entry->batch;
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
static void tell(struct batch_op *batch, size_t index)
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
static void note(struct batch_op *batch, size_t index, int rv, const struct mr_download *download)
{
        struct mr_got *got = &batch->got[index];

        memset(got, 0, sizeof(*got));
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
        tell(batch, index);
}

static void entry_ended(void *arg, struct mr_download *download, int rv);

/* With lock: begins the next entry in slot, or notes why it cannot be, and goes on to the one after it. */
static void fill(struct batch_op *batch, struct slot *slot)
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

static void batch_end(struct batch_op *batch)
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
        struct slot *slot = arg;
        struct batch_op *batch = slot->batch;
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
                batch_end(batch);
}

/* With lock. */
static void fill_all(struct batch_op *batch)
{
        for (unsigned i = 0; i < batch->slots; i++)
                if (!batch->slot[i].busy)
                        fill(batch, &batch->slot[i]);
}

/* ---- many by one request ------------------------------------------------------------------------- */

static void group_got(void *arg, const struct mr_batch_entry *entry, const struct rdx_result *result)
{
        struct group *group = arg;
        struct batch_op *batch = group->batch;
        struct mr_got *got = &batch->got[entry->index];

        pthread_mutex_lock(&batch->lock);
        memset(got, 0, sizeof(*got));
        got->size = result->size;
        snprintf(got->etag, sizeof(got->etag), "%.*s", (int)result->etag.len, result->etag.data);
        got->transport = MR_TRANSPORT_TCP;
        got->bytes = result->bytes;
        got->wire_verified = true;
        tell(batch, entry->index);
        pthread_mutex_unlock(&batch->lock);
}

/* With lock: what it has not brought is got by itself. */
static void group_end(struct group *group)
{
        struct batch_op *batch = group->batch;

        for (unsigned i = 0; i < group->fetch.count; i++) {
                mr_buffer_put(group->buffer[i]);
                if (!group->fetch.entry[i].got)
                        batch->todo[batch->todo_count++] = group->fetch.entry[i].index;
        }
        free(group);
}

static void group_done(void *arg)
{
        struct group *group = arg;
        struct batch_op *batch = group->batch;
        bool last;

        pthread_mutex_lock(&batch->lock);
        group_end(group);
        batch->flying--;
        fill_all(batch);
        last = batch->flying == 0;
        pthread_mutex_unlock(&batch->lock);
        if (last)
                batch_end(batch);
}

/* With lock. */
static void group_start(struct group *group)
{
        group->batch->flying++;
        if (mr_batch_start(&group->fetch) == 0)
                return;
        group->batch->flying--;
        group_end(group);
}

/* With lock: into the group, or it is to be got by itself. False: the group is full. */
static bool group_add(struct group *group, size_t index)
{
        struct batch_op *batch = group->batch;
        const struct mr_get *get = &batch->entry[index].get;
        unsigned at = group->fetch.count;
        char *memory;
        int rv = mr_get_check(get);

        if (rv == 0 && get->transport == MR_TRANSPORT_RDMA)
                rv = -EOPNOTSUPP;
        if (rv == 0)
                rv = mr_place_take(batch->op.client, &get->place, &group->buffer[at], &memory);
        if (rv == 0) {
                rv = memory != NULL ? mr_batch_add(&group->fetch, get, memory, index) : -EOPNOTSUPP;
                if (rv != 0)
                        mr_buffer_put(group->buffer[at]);
        }
        if (rv != 0 && rv != -ENOSPC)
                batch->todo[batch->todo_count++] = index;
        return rv != -ENOSPC;
}

/* With lock: a group of the next entries, from *index on. NULL: there are none, or no memory. */
static struct group *group_new(struct batch_op *batch, size_t *index, unsigned most)
{
        struct group *group = *index < batch->count ? calloc(1, sizeof(*group)) : NULL;

        if (group == NULL)
                return NULL;
        group->batch = batch;
        group->fetch.client = batch->op.client;
        group->fetch.canceled = &batch->op.canceled;
        group->fetch.got = group_got;
        group->fetch.done = group_done;
        group->fetch.arg = group;
        while (*index < batch->count && group->fetch.count < most && group_add(group, *index))
                ++*index;
        return group;
}

/* With lock: sorts the entries into groups, and those to be got by themselves. As many groups as have turns, unless they were too small to be worth it. */
static void divide(struct batch_op *batch)
{
        const struct mr_settings *settings = &batch->op.client->settings;
        size_t share = (batch->count + settings->parallel - 1) / settings->parallel, index = 0;
        unsigned most = share < GROUP_LEAST           ? GROUP_LEAST
                        : share > RDX_MESSAGE_ENTRIES ? RDX_MESSAGE_ENTRIES
                                                      : (unsigned)share;
        struct group *group;

        if (batch->count > 1 && settings->transport != MR_TRANSPORT_RDMA && mr_batch_offered(batch->op.client))
                while ((group = group_new(batch, &index, most)) != NULL) {
                        if (group->fetch.count > 1)
                                group_start(group);
                        else
                                group_end(group);
                }
        while (index < batch->count)
                batch->todo[batch->todo_count++] = index++;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

static int batch_copy(struct batch_op *batch, const struct mr_batch *from)
{
        batch->entry = calloc(from->count, sizeof(*batch->entry));
        batch->slots = batch->op.client->settings.parallel * 2;
        if (batch->slots > from->count)
                batch->slots = (unsigned)from->count;
        batch->slot = calloc(batch->slots, sizeof(*batch->slot));
        batch->todo = calloc(from->count, sizeof(*batch->todo));
        if (batch->entry == NULL || batch->slot == NULL || batch->todo == NULL)
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
        struct batch_op *batch;
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
        batch = (struct batch_op *)op;
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
        divide(batch);
        fill_all(batch);
        batch->flying--;
        none = batch->flying == 0;
        pthread_mutex_unlock(&batch->lock);
        if (none)
                batch_end(batch);
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
