/*
 * operation_batch_send.c - a batch gets what is small and has registered memory by BATCH messages
 * over RDMA (batch_message.c), what else is small, or was not to be had so, by GetBatch requests
 * (batch_request.c); the rest is to do, by downloads (operation_batch.c). On the thread that begins
 * it, then on the client's.
 *
 *   order: by place ─> messages ─┬─> got, or failed for good
 *          the others ───┐       └─ left ─┐
 *                        └─> groups <─────┘ (not where RDMA was insisted on)
 *                               └─ left ─> todo <─ what is no thing for a message or a group
 */
#include "client/operations/operation_batch.h"
#include "client/rdma/memory.h"
#include "client/rdma/rdma_context.h"
#include "client/transfer/batch_message.h"
#include "client/transfer/batch_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_LEAST   32u  /* entries of one request, where there are so many */
#define MESSAGE_LEAST 128u /* the same of a message */
#define MESSAGES      16u  /* of a batch at once: as many as a session takes, and as many that wait their turn */

_Static_assert(RDX_ETAG_MOST < sizeof(((struct mr_got *)0)->etag), "an ETag of the wire has room");

/* Entries that are one request. owner: itself, from its beginning until it has ended */
struct group {
        unsigned magic; /* object_check.h */
        struct mr_batch_op *batch;
        struct mr_batch_fetch fetch;
        struct mr_buffer *buffer[RDX_MESSAGE_ENTRIES]; /* of its entries */
        bool some; /* it has brought some, where they are not told one by one, of so many bytes */
        uint64_t bytes;
};

/* Entries that are one message. owner: as a group */
struct message {
        unsigned magic; /* object_check.h */
        struct mr_batch_op *batch;
        struct mr_message rdma;
};

/* ---- many by one request --------------------------------------------------------------------- */

static void group_got(void *arg, const struct mr_batch_entry *entry, const struct rdx_result *result)
{
        struct group *group = MR_CAST(group, arg);
        struct mr_batch_op *batch = group->batch;
        struct mr_got *got = &batch->got[entry->index];

        mr_got_clear(got); /* nobody else's before it is told */
        got->size = result->size;
        memcpy(got->etag, result->etag.data, result->etag.len);
        got->etag[result->etag.len] = '\0';
        got->transport = MR_TRANSPORT_TCP;
        got->bytes = result->bytes;
        got->wire_verified = true;
        if (!batch->each) {
                group->bytes += got->bytes;
                group->some = true;
                return;
        }
        pthread_mutex_lock(&batch->lock);
        mr_batch_tell(batch, entry->index);
        pthread_mutex_unlock(&batch->lock);
}

/* With lock: what it has not brought is got by itself. */
static void group_end(struct group *group)
{
        struct mr_batch_op *batch = group->batch;

        MR_CHECK(group, group);
        assert(group->fetch.count <= RDX_MESSAGE_ENTRIES);
        if (group->some) {
                batch->bytes += group->bytes;
                batch->carried = MR_TRANSPORT_TCP;
                batch->object_verified = false; /* what came with them was compared, not the objects' own checksums */
        }
        for (unsigned i = 0; i < group->fetch.count; i++) {
                mr_buffer_put(group->buffer[i]);
                if (!group->fetch.entry[i].got)
                        batch->todo[batch->todo_count++] = group->fetch.entry[i].index;
        }
        assert(batch->todo_count <= batch->count);
        group->magic = 0;
        free(group);
}

static void group_done(void *arg)
{
        struct group *group = MR_CAST(group, arg);
        struct mr_batch_op *batch = group->batch;
        bool last;

        pthread_mutex_lock(&batch->lock);
        group_end(group);
        assert(batch->flying > 0);
        batch->flying--;
        mr_batch_fill(batch);
        last = batch->flying == 0;
        pthread_mutex_unlock(&batch->lock);
        if (last)
                mr_batch_over(batch);
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

static enum mr_transport transport_of(const struct mr_batch_op *batch, const struct mr_get *get)
{
        return get->transport != MR_TRANSPORT_AUTO ? get->transport : batch->op.client->settings.transport;
}

/* With lock: into the group, or it is to be got by itself. False: the group is full. */
static bool group_add(struct group *group, size_t index)
{
        struct mr_batch_op *batch = group->batch;
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

/*
 * With lock: a group of the next entries of the list, from *at on. NULL: there are none, or no
 * memory.
 */
static struct group *group_new(struct mr_batch_op *batch, struct mr_batch_item *const *list, size_t count, size_t *at,
                               unsigned most)
{
        struct group *group = *at < count ? calloc(1, sizeof(*group)) : NULL;

        if (group == NULL)
                return NULL;
        group->magic = group_magic;
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
 * With lock: sorts entries into groups, and those to be got by themselves. As many groups as have
 * turns, unless they were too small to be worth it.
 */
static void batch_send_divide(struct mr_batch_op *batch, struct mr_batch_item *const *list, size_t count)
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

/* ---- many by one message --------------------------------------------------------------------- */

/* With lock: what is known of an entry. */
static void message_tell(struct message *message, struct mr_message_entry *entry)
{
        struct mr_batch_op *batch = message->batch;
        struct mr_got *got = &batch->got[entry->index];

        mr_got_clear(got);
        got->size = entry->size;
        memcpy(got->etag, entry->etag, sizeof(entry->etag));
        if (entry->state == MR_MESSAGE_GOT) {
                got->transport = MR_TRANSPORT_RDMA;
                got->bytes = entry->bytes;
                got->wire_verified = true;
        } else {
                got->code = mr_message_error(&message->rdma, entry, &got->error);
        }
        mr_batch_tell(batch, entry->index);
}

/*
 * With lock: the entries that the message did not settle are got in another way, all of them if it
 * was never sent.
 */
static void message_leave(struct message *message, bool last)
{
        struct mr_batch_op *batch = message->batch;
        struct mr_batch_item *left[RDX_MESSAGE_ENTRIES];
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
                batch_send_divide(batch, left, count);
}

static void message_free(struct message *message)
{
        MR_CHECK(message, message);
        message->magic = 0;
        mr_buffer_put(message->rdma.buffer);
        free(message);
}

static void begin_messages(struct mr_batch_op *batch);

static void message_settled(void *arg, struct mr_message *rdma, bool last)
{
        struct message *message = MR_CAST(message, arg);
        struct mr_batch_op *batch = message->batch;
        bool all = false;

        pthread_mutex_lock(&batch->lock);
        for (unsigned i = 0; i < rdma->count; i++)
                if (rdma->entry[i].state == MR_MESSAGE_GOT || rdma->entry[i].state == MR_MESSAGE_FAILED)
                        message_tell(message, &rdma->entry[i]);
        message_leave(message, last);
        if (last) {
                message_free(message);
                assert(batch->messages > 0 && batch->flying >= batch->messages);
                batch->messages--;
                batch->flying--;
                begin_messages(batch);
        }
        mr_batch_fill(batch);
        all = batch->flying == 0;
        pthread_mutex_unlock(&batch->lock);
        if (all)
                mr_batch_over(batch);
}

/*
 * With lock: a message of the next entries by place, which may turn out to be none. NULL: no
 * memory.
 */
static struct message *message_new(struct mr_batch_op *batch, unsigned most)
{
        const struct mr_get *get = &batch->order[batch->begun]->get;
        struct message *message = calloc(1, sizeof(*message));
        char *memory;

        if (message == NULL)
                return NULL;
        message->magic = message_magic;
        message->batch = batch;
        message->rdma.client = batch->op.client;
        message->rdma.canceled = &batch->op.canceled;
        message->rdma.insist = transport_of(batch, get) == MR_TRANSPORT_RDMA;
        message->rdma.settled = message_settled;
        message->rdma.arg = message;
        (void)mr_place_take(batch->op.client, &get->place, &message->rdma.buffer,
                            &memory); /* batch_send_suits_rdma() has looked */
        for (; batch->begun < batch->planned && message->rdma.count < most; batch->begun++) {
                struct mr_batch_item *entry = batch->order[batch->begun];
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

/*
 * With lock: as many as may be under way. Several even of a batch that one could hold: while one is
 * verified the next is written.
 */
static void begin_messages(struct mr_batch_op *batch)
{
        size_t share = batch->planned / 4;
        unsigned most = share < MESSAGE_LEAST         ? MESSAGE_LEAST
                        : share > RDX_MESSAGE_ENTRIES ? RDX_MESSAGE_ENTRIES
                                                      : (unsigned)share;

        while (batch->begun < batch->planned && batch->messages < MESSAGES) {
                struct message *message = message_new(batch, most);
                bool refused;

                if (message == NULL) {
                        batch_send_divide(batch, batch->order + batch->begun, batch->planned - batch->begun);
                        batch->begun = batch->planned;
                        return;
                }
                refused = !message->rdma.insist &&
                          mr_rdma_context_refused(batch->op.client, MR_CONNECTION_HOST, NULL) != 0;
                if (message->rdma.count > 0 && !refused && mr_message_start(&message->rdma) == 0) {
                        batch->messages++;
                        batch->flying++;
                        continue;
                }
                message_leave(message, true);
                message_free(message);
        }
}

/*
 * Whether its memory is such that a message may bring it, and RDMA is wanted; refused: the
 * connection gave up for a time.
 */
static bool batch_send_suits_rdma(const struct mr_batch_op *batch, const struct mr_get *get, bool refused)
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
        const struct mr_place *a = &(*(struct mr_batch_item *const *)left)->get.place;
        const struct mr_place *b = &(*(struct mr_batch_item *const *)right)->get.place;

        if (a->buffer != b->buffer)
                return (uintptr_t)a->buffer < (uintptr_t)b->buffer ? -1 : 1;
        return a->offset < b->offset ? -1 : a->offset > b->offset;
}

/*
 * With lock: fills order, and begins. Neighbours share messages, whose windows then hold little
 * else.
 */
void mr_batch_plan(struct mr_batch_op *batch)
{
        bool refused = mr_rdma_context_refused(batch->op.client, MR_CONNECTION_HOST, NULL) != 0, sorted = true;
        size_t rest = batch->count;

        for (size_t i = batch->count; i-- > 0;)
                if (!batch_send_suits_rdma(batch, &batch->entry[i].get, refused))
                        batch->order[--rest] = &batch->entry[i];
        for (size_t i = 0; i < batch->count && batch->planned < rest; i++) {
                struct mr_batch_item **next = &batch->order[batch->planned];

                if (!batch_send_suits_rdma(batch, &batch->entry[i].get, refused))
                        continue;
                *next = &batch->entry[i];
                sorted = sorted && (batch->planned == 0 || by_place(next - 1, next) <= 0);
                batch->planned++;
        }
        if (!sorted)
                qsort(batch->order, batch->planned, sizeof(*batch->order), by_place);
        begin_messages(batch);
        batch_send_divide(batch, batch->order + batch->planned, batch->count - batch->planned);
}
