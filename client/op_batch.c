/*
 * op_batch.c - mr_get_batch(): a batch gets what is small and has registered memory by BATCH messages over RDMA (batch_rdma.c), what else is small, or was not to
 * be had so, by GetBatch requests (batch.c), and the rest by a window of downloads (I9); each entry has its own result. The program's thread begins, the client's
 * threads end.
 *
 *   order: by place ─> messages ─┬─> got, or failed for good
 *          the rest ─────┐       └─ left ─┐
 *                        └─> groups <─────┘ (not where RDMA was insisted on)
 *                               └─ left ─> todo ─> slots: downloads <─ what is no thing for a message or a group
 */
#include "batch.h"
#include "batch_rdma.h"
#include "fabric.h"
#include "memory.h"
#include "op_get.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_LEAST   32u /* entries of one request, where there are so many */
#define MESSAGE_LEAST 64u /* the same of a message */
#define MESSAGES      16u /* of a batch at once: as many as a session takes, and as many that wait their turn */

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

/* Entries that are one message. owner: as a group */
struct message {
        struct batch_op *batch;
        struct mr_message rdma;
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
        unsigned slots, flying; /* flying: slots, groups and messages */
        unsigned messages;
        struct entry **order;   /* all of them: those for messages, by place, then the others */
        size_t planned, begun;  /* for messages; of them, those that went into one */
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
        free(batch->order);
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

static enum mr_transport transport_of(const struct batch_op *batch, const struct mr_get *get)
{
        return get->transport != MR_TRANSPORT_AUTO ? get->transport : batch->op.client->settings.transport;
}

/* With lock: into the group, or it is to be got by itself. False: the group is full. */
static bool group_add(struct group *group, size_t index)
{
        struct batch_op *batch = group->batch;
        const struct mr_get *get = &batch->entry[index].get;
        unsigned at = group->fetch.count;
        char *memory;
        int rv = mr_get_check(get);

        if (rv == 0 && transport_of(batch, get) == MR_TRANSPORT_RDMA)
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

/* With lock: a group of the next entries of the list, from *at on. NULL: there are none, or no memory. */
static struct group *group_new(struct batch_op *batch, struct entry *const *list, size_t count, size_t *at,
                               unsigned most)
{
        struct group *group = *at < count ? calloc(1, sizeof(*group)) : NULL;

        if (group == NULL)
                return NULL;
        group->batch = batch;
        group->fetch.client = batch->op.client;
        group->fetch.canceled = &batch->op.canceled;
        group->fetch.got = group_got;
        group->fetch.done = group_done;
        group->fetch.arg = group;
        while (*at < count && group->fetch.count < most && group_add(group, (size_t)(list[*at] - batch->entry)))
                ++*at;
        return group;
}

/*
 * With lock: sorts entries into groups, and those to be got by themselves. As many groups as have turns, unless they were too small to be worth it.
 */
static void divide(struct batch_op *batch, struct entry *const *list, size_t count)
{
        const struct mr_settings *settings = &batch->op.client->settings;
        size_t share = (count + settings->parallel - 1) / settings->parallel, at = 0;
        unsigned most = share < GROUP_LEAST           ? GROUP_LEAST
                        : share > RDX_MESSAGE_ENTRIES ? RDX_MESSAGE_ENTRIES
                                                      : (unsigned)share;
        struct group *group;

        if (count > 1 && mr_batch_offered(batch->op.client))
                while ((group = group_new(batch, list, count, &at, most)) != NULL) {
                        if (group->fetch.count > 1)
                                group_start(group);
                        else
                                group_end(group);
                }
        while (at < count)
                batch->todo[batch->todo_count++] = (size_t)(list[at++] - batch->entry);
}

/* ---- many by one message ------------------------------------------------------------------------- */

/* With lock: what is known of an entry. */
static void message_tell(struct message *message, struct mr_message_entry *entry)
{
        struct batch_op *batch = message->batch;
        struct mr_got *got = &batch->got[entry->index];

        memset(got, 0, sizeof(*got));
        got->size = entry->size;
        memcpy(got->etag, entry->etag, sizeof(entry->etag));
        if (entry->state == MR_MESSAGE_GOT) {
                got->transport = MR_TRANSPORT_RDMA;
                got->bytes = entry->bytes;
                got->wire_verified = true;
        } else {
                got->code = mr_message_error(&message->rdma, entry, &got->error);
        }
        tell(batch, entry->index);
}

/* With lock: the entries that the message did not settle are got in another way, all of them if it was never sent. */
static void message_leave(struct message *message, bool last)
{
        struct batch_op *batch = message->batch;
        struct entry *left[RDX_MESSAGE_ENTRIES];
        size_t count = 0;

        for (unsigned i = 0; i < message->rdma.count; i++) {
                struct mr_message_entry *entry = &message->rdma.entry[i];

                if (entry->state == MR_MESSAGE_DECLINED || (last && entry->state == MR_MESSAGE_OPEN))
                        left[count++] = &batch->entry[entry->index];
        }
        if (message->rdma.insist)
                for (size_t i = 0; i < count; i++)
                        batch->todo[batch->todo_count++] = (size_t)(left[i] - batch->entry);
        else
                divide(batch, left, count);
}

static void message_free(struct message *message)
{
        mr_buffer_put(message->rdma.buffer);
        free(message);
}

static void begin_messages(struct batch_op *batch);

static void message_settled(void *arg, struct mr_message *rdma, bool last)
{
        struct message *message = arg;
        struct batch_op *batch = message->batch;
        bool all = false;

        pthread_mutex_lock(&batch->lock);
        for (unsigned i = 0; i < rdma->count; i++)
                if (rdma->entry[i].state == MR_MESSAGE_GOT || rdma->entry[i].state == MR_MESSAGE_FAILED)
                        message_tell(message, &rdma->entry[i]);
        message_leave(message, last);
        if (last) {
                message_free(message);
                batch->messages--;
                batch->flying--;
                begin_messages(batch);
        }
        fill_all(batch);
        all = batch->flying == 0;
        pthread_mutex_unlock(&batch->lock);
        if (all)
                batch_end(batch);
}

/* With lock: a message of the next entries by place, which may turn out to be none. NULL: no memory. */
static struct message *message_new(struct batch_op *batch, unsigned most)
{
        const struct mr_get *get = &batch->order[batch->begun]->get;
        struct message *message = calloc(1, sizeof(*message));
        char *memory;

        if (message == NULL)
                return NULL;
        message->batch = batch;
        message->rdma.client = batch->op.client;
        message->rdma.canceled = &batch->op.canceled;
        message->rdma.insist = transport_of(batch, get) == MR_TRANSPORT_RDMA;
        message->rdma.settled = message_settled;
        message->rdma.arg = message;
        (void)mr_place_take(batch->op.client, &get->place, &message->rdma.buffer, &memory); /* suits() has looked */
        for (; batch->begun < batch->planned && message->rdma.count < most; batch->begun++) {
                struct entry *entry = batch->order[batch->begun];
                size_t index = (size_t)(entry - batch->entry);
                int rv;

                if (entry->get.place.buffer != message->rdma.buffer ||
                    (transport_of(batch, &entry->get) == MR_TRANSPORT_RDMA) != message->rdma.insist)
                        break;
                rv = mr_message_add(&message->rdma, &entry->get, index);
                if (rv == -ENOSPC)
                        break;
                if (rv != 0)
                        batch->todo[batch->todo_count++] = index;
        }
        return message;
}

/* With lock: as many as may be under way. Several even of a batch that one could hold: while one is verified the next is written. */
static void begin_messages(struct batch_op *batch)
{
        size_t share = batch->planned / 4;
        unsigned most = share < MESSAGE_LEAST         ? MESSAGE_LEAST
                        : share > RDX_MESSAGE_ENTRIES ? RDX_MESSAGE_ENTRIES
                                                      : (unsigned)share;

        while (batch->begun < batch->planned && batch->messages < MESSAGES) {
                struct message *message = message_new(batch, most);
                bool refused;

                if (message == NULL) {
                        divide(batch, batch->order + batch->begun, batch->planned - batch->begun);
                        batch->begun = batch->planned;
                        return;
                }
                refused = !message->rdma.insist && mr_fabric_refused(batch->op.client, MR_LANE_HOST, NULL) != 0;
                if (message->rdma.count > 0 && !refused && mr_message_start(&message->rdma) == 0) {
                        batch->messages++;
                        batch->flying++;
                        continue;
                }
                message_leave(message, true);
                message_free(message);
        }
}

/* Whether its memory is such that a message may bring it, and RDMA is wanted; refused: the lane gave up for a time. */
static bool suits(const struct batch_op *batch, const struct mr_get *get, bool refused)
{
        const struct mr_buffer *buffer = get->place.buffer;
        enum mr_transport transport = transport_of(batch, get);

        if (transport == MR_TRANSPORT_TCP || (transport == MR_TRANSPORT_AUTO && (refused || batch->count < 2)))
                return false;
        if (buffer == NULL || buffer->memory == NULL || buffer->client != batch->op.client || mr_get_check(get) != 0)
                return false;
        return get->place.memory == NULL && get->place.offset <= buffer->len &&
               get->place.len <= buffer->len - get->place.offset && mr_batch_most(get) > 0 &&
               mr_batch_most(get) <= MR_MESSAGE_OBJECT;
}

static int by_place(const void *left, const void *right)
{
        const struct mr_place *a = &(*(struct entry *const *)left)->get.place;
        const struct mr_place *b = &(*(struct entry *const *)right)->get.place;

        if (a->buffer != b->buffer)
                return (uintptr_t)a->buffer < (uintptr_t)b->buffer ? -1 : 1;
        return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/* With lock: fills order, and begins. Neighbours share messages, whose windows then hold little else. */
static void plan(struct batch_op *batch)
{
        bool refused = mr_fabric_refused(batch->op.client, MR_LANE_HOST, NULL) != 0, sorted = true;
        size_t rest = batch->count;

        for (size_t i = batch->count; i-- > 0;)
                if (!suits(batch, &batch->entry[i].get, refused))
                        batch->order[--rest] = &batch->entry[i];
        for (size_t i = 0; i < batch->count && batch->planned < rest; i++) {
                struct entry **next = &batch->order[batch->planned];

                if (!suits(batch, &batch->entry[i].get, refused))
                        continue;
                *next = &batch->entry[i];
                sorted = sorted && (batch->planned == 0 || by_place(next - 1, next) <= 0);
                batch->planned++;
        }
        if (!sorted)
                qsort(batch->order, batch->planned, sizeof(*batch->order), by_place);
        begin_messages(batch);
        divide(batch, batch->order + batch->planned, batch->count - batch->planned);
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
        batch->order = calloc(from->count, sizeof(struct entry *));
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
        plan(batch);
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
