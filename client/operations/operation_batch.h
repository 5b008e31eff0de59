/*
 * operation_batch.h - a batch of reads under way: its entries, what is known of them, and who gets
 * the next. Private to client/operations/.
 */
#ifndef CLIENT_OPERATION_BATCH_H
#define CLIENT_OPERATION_BATCH_H

#include "client/operations/operation_get.h"

struct mr_batch_op;

/* owner: the batch */
struct mr_batch_item {
        struct mr_node node;
        unsigned magic; /* object_check.h */
        struct mr_batch_op *batch;
        struct mr_get get; /* its strings are the operation's */
};

/* A download of an entry. owner: the batch */
struct mr_batch_slot {
        unsigned magic; /* object_check.h */
        struct mr_batch_op *batch;
        bool busy;
        struct mr_download download;
        struct mr_buffer *buffer;
        size_t index;
};

struct mr_batch_op {
        struct mr_op op;
        unsigned magic; /* object_check.h */
        struct mr_got *got; /* the program's */
        struct mr_batch_item *entry;
        size_t count;
        bool each;

        /* guarded by lock */
        pthread_mutex_t lock;
        struct mr_batch_slot *slot;
        unsigned slots, flying; /* flying: slots, groups and messages */
        unsigned messages;
        struct mr_batch_item **order; /* all of them: those for messages, by place, then the others */
        size_t planned, begun;        /* for messages; of them, those that went into one */
        size_t *todo;                 /* entries to be got each by itself */
        size_t todo_count, next;
        uint64_t bytes, failed;
        size_t first_failed;
        enum mr_transport carried;
        bool wire_verified, object_verified;
};

/* As if it were zeroed: most of it is the room of texts, which is not touched. */
static inline void mr_got_clear(struct mr_got *got)
{
        got->code = 0;
        got->transport = MR_TRANSPORT_AUTO;
        got->wire_verified = got->object_verified = false;
        got->bytes = got->size = 0;
        got->etag[0] = '\0';
        got->error.code = got->error.http_status = 0;
        got->error.s3_code[0] = got->error.request_id[0] = got->error.message[0] = '\0';
}

/* ---- operation_batch.c; with lock, but for the last ------------------------------------------ */

/* What is known of an entry stands in got. */
void mr_batch_tell(struct mr_batch_op *batch, size_t index);
/* Begins downloads of what is to do, as many as there are slots. */
void mr_batch_fill(struct mr_batch_op *batch);
/* Nothing is under way any more. */
void mr_batch_over(struct mr_batch_op *batch);

/* ---- operation_batch_send.c ------------------------------------------------------------------ */

/* With lock: fills order, and begins what goes by messages and groups; the rest is to do. */
void mr_batch_plan(struct mr_batch_op *batch);

#endif
