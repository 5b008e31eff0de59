/*
 * client_operation.h - an operation of millrace.h under way, and where its result goes. Private to
 * client/operations/.
 */
#ifndef CLIENT_OPERATION_H
#define CLIENT_OPERATION_H

#include "client/base/core.h"
#include "client/base/client_wait.h"
#include "client/base/object_check.h"

/* One result on its way to the program. owner: its operation, then the queue */
struct mr_node {
        struct mr_node *next;
        /* With the queue's lock: fills out, frees what is not needed any more. */
        void (*take)(struct mr_node *node, struct mr_result *out);
};

/* Copies of texts, one behind the other. */
struct mr_text {
        struct mr_text *next;
        size_t size, used;
        char data[];
};

/*
 * owner: whoever began it until it is begun; then the threads of the client; the table of the
 * client, under its lock, for who cancels
 */
struct mr_op {
        unsigned magic; /* object_check.h */
        struct mr_client *client;
        struct mr_queue *queue;  /* NULL: wait */
        struct mr_wait *wait;    /* told when it has ended */
        struct mr_result *out;   /* with wait */
        struct mr_result result; /* op, tag, entry are set; the rest by the operation before mr_op_end() */
        struct mr_node node;
        struct mr_op *id_next; /* guarded by the client's lock */
        struct mr_buffer *buffer;
        struct mr_text *texts;
        bool no_memory;
        atomic_bool canceled;           /* any thread */
        void (*free)(struct mr_op *op); /* what it has beside this; may be NULL */
};

/* Where a result is to go: a queue and a tag, or a waiting thread. */
struct mr_target {
        struct mr_queue *queue;
        void *tag;
        uint64_t *op;
        struct mr_wait *wait;
        struct mr_result *out;
};

/*
 * An operation in an allocation of size bytes, zeroed, that begins with it; results: how many it
 * will give. -ENOMEM, -ECHILD, -EAGAIN.
 */
int mr_op_new(struct mr_client *client, size_t size, unsigned results, const struct mr_target *target,
              struct mr_op **out);
/* Nothing was begun. */
void mr_op_abandon(struct mr_op *op, unsigned results);
/*
 * The result is whole, and its code tells: the last that the operation does. Frees it, or leaves
 * that to the queue.
 */
void mr_op_end(struct mr_op *op, int code);
/* A copy that lives as long as the operation. NULL gives NULL; no memory sets op->no_memory. */
const char *mr_op_text(struct mr_op *op, const char *text);

/* Runs start with a target of this thread's, and waits. out may be NULL. */
int mr_op_await(struct mr_client *client,
                int (*start)(struct mr_client *client, const void *what, const struct mr_target *target),
                const void *what, struct mr_result *out);

/* ---- result_queue.c -------------------------------------------------------------------------- */

int mr_queue_reserve(struct mr_queue *queue, unsigned results); /* -EAGAIN */
void mr_queue_release(struct mr_queue *queue, unsigned results);
void mr_queue_push(struct mr_queue *queue, struct mr_node *node);

#endif
