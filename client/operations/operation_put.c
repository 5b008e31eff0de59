/*
 * operation_put.c - mr_put(): an object from the program's memory. The program's thread begins, the
 * client's threads end.
 */
#include "client/operations/operation_put.h"

#include "client/rdma/memory.h"
#include "client/transfer/put_object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mr_put_check(const struct mr_put *put)
{
        if (put->bucket == NULL || put->bucket[0] == '\0' || put->key == NULL || put->key[0] == '\0')
                return -EINVAL;
        if (put->metadata_count > MR_HEADERS_MAX / 2 || (put->metadata_count > 0 && put->metadata == NULL))
                return -EINVAL;
        if (put->if_match != NULL && (put->if_none_match || strlen(put->if_match) > 95))
                return -EINVAL;
        if (put->transport > MR_TRANSPORT_RDMA)
                return -EINVAL;
        for (size_t i = 0; i < sizeof(put->reserved) / sizeof(put->reserved[0]); i++)
                if (put->reserved[i] != 0)
                        return -EINVAL;
        return 0;
}

int mr_put_copy_head(struct mr_op *op, const struct mr_put *put, struct mr_put_copy *out)
{
        for (unsigned i = 0; i < put->metadata_count; i++) {
                if (put->metadata[i].name == NULL || put->metadata[i].value == NULL)
                        return -EINVAL;
                out->metadata[i].name = (char *)mr_op_text(op, put->metadata[i].name);
                out->metadata[i].value = (char *)mr_op_text(op, put->metadata[i].value);
        }
        out->head = (struct mr_put_head){
                .bucket = mr_op_text(op, put->bucket),
                .key = mr_op_text(op, put->key),
                .content_type = mr_op_text(op, put->content_type),
                .metadata = out->metadata,
                .metadata_count = put->metadata_count,
                .if_none_match = put->if_none_match,
                .if_match = mr_op_text(op, put->if_match),
        };
        return op->no_memory ? -ENOMEM : 0;
}

void mr_put_result(struct mr_op *op, int rv, const struct mr_put_done *done, const struct mr_error *err)
{
        struct mr_result *result = &op->result;

        if (rv == 0) {
                result->transport = done->carried;
                result->bytes = done->size;
                result->object.size = done->size;
                memcpy(result->object.etag, done->etag, sizeof(result->object.etag));
                memcpy(result->object.version_id, done->version_id, sizeof(result->object.version_id));
        }
        result->error = *err;
        mr_op_end(op, rv);
}

struct put_op {
        struct mr_op op;
        unsigned magic; /* object_check.h */
        struct mr_put_copy copy;
        struct mr_putting putting;
};

static void operation_put_ended(void *arg, struct mr_putting *putting, int rv)
{
        struct put_op *put = MR_CAST(put_op, arg);

        mr_put_result(&put->op, rv, &putting->result, &putting->error);
}

static int put_begin(struct mr_client *client, const void *what, const struct mr_target *target)
{
        const struct mr_put *from = what;
        enum mr_transport transport =
                from->transport != MR_TRANSPORT_AUTO ? from->transport : client->settings.transport;
        struct put_op *put;
        struct mr_op *op;
        char *memory;
        int rv = mr_put_check(from);

        if (rv != 0)
                return rv;
        rv = mr_op_new(client, sizeof(*put), 1, target, &op);
        if (rv != 0)
                return rv;
        put = (struct put_op *)op;
        put->magic = put_op_magic;
        rv = mr_put_copy_head(op, from, &put->copy);
        if (rv == 0)
                rv = mr_place_take(client, &from->place, &op->buffer, &memory);
        if (rv == -ENOMEM || rv == -EINVAL) {
                mr_op_abandon(op, 1);
                return rv;
        }
        if (rv == 0) {
                put->putting.client = client;
                put->putting.head = &put->copy.head;
                put->putting.data = memory;
                put->putting.size = from->place.len;
                put->putting.transport = transport;
                put->putting.buffer = mr_buffer_of(client, op->buffer);
                put->putting.buffer_at = from->place.offset;
                put->putting.canceled = &op->canceled;
                put->putting.done = operation_put_ended;
                put->putting.done_arg = put;
                rv = mr_putting_start(&put->putting);
                if (rv != 0)
                        op->result.error = put->putting.error;
        }
        if (rv != 0)
                mr_op_end(op, rv);
        return 0;
}

int mr_put_start(struct mr_client *client, const struct mr_put *put, struct mr_queue *queue, void *tag, uint64_t *op)
{
        return put_begin(client, put, &(struct mr_target){.queue = queue, .tag = tag, .op = op});
}

int mr_put(struct mr_client *client, const struct mr_put *put, struct mr_result *out)
{
        return mr_op_await(client, put_begin, put, out);
}
