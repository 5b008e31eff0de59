/*
 * operation_get.c - mr_get(): a download into the program's memory. The program's thread begins,
 * the client's threads end.
 */
#include "client/operations/operation_get.h"

#include "client/rdma/memory.h"

#include <errno.h>
#include <string.h>

#define RESTARTS 3u

int mr_get_check(const struct mr_get *get)
{
        if (get->bucket == NULL || get->bucket[0] == '\0' || get->key == NULL || get->key[0] == '\0')
                return -EINVAL;
        if (get->last != 0 && (get->offset != 0 || get->len != 0))
                return -EINVAL;
        if (get->len > get->place.len || get->last > get->place.len ||
            get->len > INT64_MAX - (get->offset & INT64_MAX) || get->offset > INT64_MAX)
                return -EINVAL;
        if (get->transport > MR_TRANSPORT_RDMA || (get->flags & ~MR_GET_UNVERIFIED) != 0)
                return -EINVAL;
        for (size_t i = 0; i < sizeof(get->reserved) / sizeof(get->reserved[0]); i++)
                if (get->reserved[i] != 0)
                        return -EINVAL;
        return 0;
}

void mr_get_download(struct mr_op *op, const struct mr_get *get, char *memory, struct mr_buffer *buffer,
                     struct mr_download *out)
{
        memset(out, 0, sizeof(*out));
        out->client = op->client;
        out->canceled = &op->canceled;
        out->bucket = get->bucket;
        out->key = get->key;
        out->version_id = get->version_id;
        out->etag = get->if_match;
        out->offset = get->offset;
        out->len = get->len;
        out->last = get->last;
        out->size = -1;
        out->restarts_max = RESTARTS;
        out->transport = get->transport != MR_TRANSPORT_AUTO ? get->transport : op->client->settings.transport;
        out->memory = memory;
        out->buffer = mr_buffer_of(op->client, buffer);
        out->buffer_at = get->place.offset;
        out->unseen = (get->flags & MR_GET_UNVERIFIED) != 0 && mr_buffer_unseen(buffer);
        out->room = get->place.len;
}

/* ---- one ------------------------------------------------------------------------------------- */

struct get_op {
        struct mr_op op;
        unsigned magic; /* object_check.h */
        struct mr_download download;
};

static void get_ended(void *arg, struct mr_download *download, int rv)
{
        struct get_op *get = MR_CAST(get_op, arg);
        struct mr_result *result = &get->op.result;

        result->transport = rv == 0 ? download->carried : MR_TRANSPORT_AUTO;
        result->bytes = rv == 0 ? download->got : 0;
        result->wire_verified = rv == 0 && download->wire_verified;
        result->object_verified = rv == 0 && download->object_verified;
        result->restarts = download->restarts;
        result->object = download->info;
        result->error = download->error;
        mr_op_end(&get->op, rv);
}

static int get_begin(struct mr_client *client, const void *what, const struct mr_target *target)
{
        struct mr_get copy = *(const struct mr_get *)what;
        struct get_op *get;
        struct mr_op *op;
        char *memory;
        int rv = mr_get_check(&copy);

        if (rv != 0)
                return rv;
        rv = mr_op_new(client, sizeof(*get), 1, target, &op);
        if (rv != 0)
                return rv;
        get = (struct get_op *)op;
        get->magic = get_op_magic;
        copy.bucket = mr_op_text(op, copy.bucket);
        copy.key = mr_op_text(op, copy.key);
        copy.version_id = mr_op_text(op, copy.version_id);
        copy.if_match = mr_op_text(op, copy.if_match);
        rv = op->no_memory ? -ENOMEM : mr_place_take(client, &copy.place, &op->buffer, &memory);
        if (rv == -ENOMEM || rv == -EINVAL) {
                mr_op_abandon(op, 1);
                return rv;
        }
        if (rv == 0) {
                mr_get_download(op, &copy, memory, op->buffer, &get->download);
                get->download.done = get_ended;
                get->download.done_arg = get;
                rv = mr_download_start(&get->download);
                if (rv != 0)
                        op->result.error = get->download.error;
        }
        if (rv != 0)
                mr_op_end(op, rv);
        return 0;
}

int mr_get_start(struct mr_client *client, const struct mr_get *get, struct mr_queue *queue, void *tag, uint64_t *op)
{
        return get_begin(client, get, &(struct mr_target){.queue = queue, .tag = tag, .op = op});
}

int mr_get(struct mr_client *client, const struct mr_get *get, struct mr_result *out)
{
        return mr_op_await(client, get_begin, get, out);
}
