/*
 * client_operation.c - operations from their beginning to their result: the table by which they are
 * canceled, and the way back to the program. Any thread.
 */
#include "client/operations/client_operation.h"

#include "client/http/client_request.h"
#include "client/rdma/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loop.h"

#define TEXTS_FIRST 192u /* bytes: a GET's */
#define TEXTS_MOST  (16u << 10)

static void op_free(struct mr_op *op)
{
        if (op->free != NULL)
                op->free(op);
        while (op->texts != NULL) {
                struct mr_text *next = op->texts->next;

                free(op->texts);
                op->texts = next;
        }
        op->magic = 0;
        free(op);
}

static void operation_take_result(struct mr_node *node, struct mr_result *out)
{
        struct mr_op *op = container_of(node, struct mr_op, node);

        MR_CHECK(mr_op, op);
        assert(op->queue != NULL && op->out == NULL);
        *out = op->result;
        op_free(op);
}

static void table_add(struct mr_op *op)
{
        struct mr_client *client = op->client;
        struct mr_op **slot;

        pthread_mutex_lock(&client->lock);
        op->result.op = ++client->next_op;
        slot = &client->op[op->result.op % MR_OP_SLOTS];
        op->id_next = *slot;
        *slot = op;
        pthread_mutex_unlock(&client->lock);
}

static void table_remove(struct mr_op *op)
{
        struct mr_client *client = op->client;
        struct mr_op **at;

        pthread_mutex_lock(&client->lock);
        at = &client->op[op->result.op % MR_OP_SLOTS];
        while (*at != op) {
                assert(*at != NULL); /* it is in the table until its end */
                at = &(*at)->id_next;
        }
        *at = op->id_next;
        pthread_mutex_unlock(&client->lock);
}

int mr_op_new(struct mr_client *client, size_t size, unsigned results, const struct mr_target *target,
              struct mr_op **out)
{
        struct mr_op *op;
        int rv = mr_core_enter(client);

        if (rv != 0)
                return rv;
        op = calloc(1, size);
        rv = op != NULL ? 0 : -ENOMEM;
        if (rv == 0 && target->queue != NULL)
                rv = mr_queue_reserve(target->queue, results);
        if (rv != 0) {
                free(op);
                mr_core_leave(client);
                return rv;
        }
        op->magic = mr_op_magic;
        op->client = client;
        op->queue = target->queue;
        op->wait = target->wait;
        op->out = target->out;
        op->node.take = operation_take_result;
        op->result.tag = target->tag;
        op->result.entry = MR_ENTRY_NONE;
        table_add(op);
        if (target->op != NULL)
                *target->op = op->result.op;
        *out = op;
        return 0;
}

void mr_op_abandon(struct mr_op *op, unsigned results)
{
        struct mr_client *client = op->client;

        MR_CHECK(mr_op, op);
        table_remove(op);
        mr_buffer_put(op->buffer);
        if (op->queue != NULL)
                mr_queue_release(op->queue, results);
        op_free(op);
        mr_core_leave(client);
}

void mr_op_end(struct mr_op *op, int code)
{
        struct mr_client *client = op->client;
        struct mr_wait *wait = op->wait;

        MR_CHECK(mr_op, op);
        assert(op->out != NULL || op->queue != NULL);
        table_remove(op);
        mr_buffer_put(op->buffer);
        op->result.code = code;
        if (code != 0 && op->result.error.code == 0)
                mr_failure_errno(&op->result.error, code);
        else if (code == 0)
                memset(&op->result.error, 0, sizeof(op->result.error));
        if (op->queue != NULL) {
                mr_queue_push(op->queue, &op->node);
        } else {
                *op->out = op->result;
                op_free(op);
                mr_wait_tell(wait, code);
        }
        mr_core_leave(client);
}

/* Room for a text, and for more than there are so far: a batch has many. */
static struct mr_text *more_texts(struct mr_op *op, size_t size)
{
        size_t room = op->texts == NULL ? TEXTS_FIRST : op->texts->size < TEXTS_MOST ? 2 * op->texts->size : TEXTS_MOST;
        struct mr_text *texts;

        if (room < size)
                room = size;
        texts = malloc(sizeof(*texts) + room);
        if (texts == NULL)
                return NULL;
        *texts = (struct mr_text){.next = op->texts, .size = room};
        op->texts = texts;
        return texts;
}

const char *mr_op_text(struct mr_op *op, const char *text)
{
        size_t size = text != NULL ? strlen(text) + 1 : 0;
        struct mr_text *texts = op->texts;

        if (text == NULL)
                return NULL;
        if (texts == NULL || size > texts->size - texts->used)
                texts = more_texts(op, size);
        if (texts == NULL) {
                op->no_memory = true;
                return NULL;
        }
        texts->used += size;
        return memcpy(texts->data + texts->used - size, text, size);
}

int mr_op_await(struct mr_client *client,
                int (*start)(struct mr_client *client, const void *what, const struct mr_target *target),
                const void *what, struct mr_result *out)
{
        struct mr_wait wait = MR_WAIT_INIT;
        struct mr_result ignored;
        struct mr_target target = {.wait = &wait, .out = out != NULL ? out : &ignored};
        int rv;

        memset(target.out, 0, sizeof(*target.out));
        rv = start(client, what, &target);
        if (rv == 0)
                return mr_wait_for(&wait);
        target.out->code = rv;
        target.out->entry = MR_ENTRY_NONE;
        return mr_failure_errno(&target.out->error, rv);
}

void mr_cancel(struct mr_client *client, uint64_t op)
{
        struct mr_op *at;

        pthread_mutex_lock(&client->lock);
        for (at = client->op[op % MR_OP_SLOTS]; at != NULL; at = at->id_next)
                if (at->result.op == op)
                        atomic_store(&at->canceled, true);
        pthread_mutex_unlock(&client->lock);
        mr_core_wake(client);
}
