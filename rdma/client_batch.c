/*
 * client_batch.c - BATCH messages that a client sends. A message's buffer is the device's until it
 * was sent, and the message counts until its LAST result.
 */
#include "rdma/client_internal.h"

#include <errno.h>

static int free_message(const struct rdx_client *client)
{
        unsigned i;

        for (i = 0; i < client->messages_most; i++)
                if (!client->message_used[i] && (int32_t)(client->completed - client->message_seq[i]) >= 0)
                        return (int)i;
        return -1;
}

static uint8_t *message_buffer(const struct rdx_client *client, unsigned i)
{
        return client->memory + (size_t)(client->receives + i) * RDX_MESSAGE_MAX;
}

/* Which of these results fit into the replies that the binding has receives for. */
static unsigned most_entries(const struct rdx_client_batch *batch, unsigned count)
{
        unsigned most = batch->replies * RDX_RESULT_SHARE;

        if (most > RDX_MESSAGE_ENTRIES)
                most = RDX_MESSAGE_ENTRIES;
        return count < most ? count : most;
}

int rdx_client_batch(struct rdx_client *client, const struct rdx_window_binding *binding, const struct rdx_client_batch *batch,
                     const struct rdx_entry *entries, unsigned count, unsigned *sent)
{
        struct rdx_message head = {.type = RDX_BATCH,
                                   .flags = batch->ordered ? RDX_ORDERED : 0,
                                   .number = binding->number,
                                   .batch = batch->batch,
                                   .first = batch->first,
                                   .replies = batch->replies,
                                   .deadline_ms = batch->deadline_ms,
                                   .window = binding->place};
        struct rdx_work work = {.op = RDX_OP_SEND};
        unsigned n = 0, most = most_entries(batch, count);
        struct rdx_writer writer;
        int i = free_message(client), rv = 0;

        *sent = 0;
        if (binding->replies == 0 || batch->replies > binding->replies || batch->first + count > RDX_BATCH_ENTRIES ||
            count == 0)
                return -EINVAL;
        if (i < 0)
                return -EAGAIN;
        rdx_writer_open(&writer, message_buffer(client, (unsigned)i), &head);
        while (n < most && rv == 0) {
                if (!rdx_window_span_holds(&binding->place, entries[n].offset, entries[n].length))
                        return -EINVAL;
                rv = rdx_writer_entry(&writer, &entries[n]);
                n += rv == 0;
        }
        if (rv == -EINVAL || n == 0)
                return -EINVAL;
        work.address = message_buffer(client, (unsigned)i);
        work.len = (uint32_t)rdx_writer_finish(&writer);
        work.lkey = client->transport->region_lkey(client->region);
        rv = rdx_client_post(client, &work);
        if (rv != 0)
                return rv;
        client->message_used[i] = true;
        client->message_number[i] = binding->number;
        client->message_seq[i] = client->posted;
        *sent = n;
        return 0;
}

void rdx_message_last(struct rdx_client *client, uint64_t number)
{
        unsigned i;

        for (i = 0; i < client->messages_most; i++)
                if (client->message_used[i] && client->message_number[i] == number)
                        client->message_used[i] = false;
}
