/*
 * work_item.h - the executor's parts: messages, sessions, and the entries that are under way. For
 * executor.c, which says whose turn it is, and work_item.c, which brings one entry to its result.
 * On one loop.
 */
#ifndef GATEWAY_RDMA_TASK_H
#define GATEWAY_RDMA_TASK_H

#include <bsd/sys/queue.h>

#include "gateway/rdma/entry.h"
#include "gateway/rdma/executor.h"
#include "gateway/rdma/bounce.h"

#define GW_TASK_PIECES 4u /* spans of one entry that are handed over and not through */

enum gw_work_item_state {
        GW_TASK_IDLE,
        GW_TASK_LOOKING, /* the engine looks it up */
        GW_TASK_LATER,   /* found; its turn to be read comes */
        GW_TASK_READING,
        GW_TASK_PACKING /* has bytes, waits for room to copy them to */
};

struct gw_work_item;

/* A WRITE of a span that lies in the arena. */
struct gw_work_item_piece {
        struct rdx_write write;
        struct gw_work_item *item;
        bool busy;
};

/* One BATCH message, until all its entries have their results. */
struct gw_batch_message {
        struct rdx_batch *batch;
        unsigned begun, told, count;
        uint64_t deadline;
        STAILQ_ENTRY(gw_batch_message) link; /* of the queue's, while entries are not begun */
};

/* One entry under way. */
struct gw_work_item {
        unsigned magic; /* gw_check.h */
        struct gw_entry entry;
        struct gw_executor *ex;
        struct gw_queue *queue;
        struct gw_batch_message *run; /* NULL: its result is given */
        unsigned index;     /* in its message */
        enum gw_work_item_state state;
        bool reads;          /* counted in queue->reads */
        uint64_t given;      /* handed over */
        const uint8_t *span; /* of the engine's: its first byte, while not all of it was handed over */
        size_t span_len, span_at;
        unsigned out; /* pieces that are busy */
        struct gw_work_item_piece piece[GW_TASK_PIECES];
        TAILQ_ENTRY(gw_work_item) link; /* of the idle ones, or by state */
};

TAILQ_HEAD(gw_work_item_list, gw_work_item);

/* A session that has entries here. */
struct gw_queue {
        unsigned magic; /* gw_check.h */
        struct gw_executor *ex;
        const void *session;
        STAILQ_HEAD(, gw_batch_message) runs;
        unsigned left;  /* runs whose results are not all given */
        unsigned items; /* under way */
        unsigned reads; /* of these, of objects that are not in a record */
        bool full; /* nothing is begun before few of the work items are left: those that wake other loops go there together */
        bool in_turn;
        struct gw_work_item_list later, packing;
        struct gw_bounce bounce;
        TAILQ_ENTRY(gw_queue) turn;
        LIST_ENTRY(gw_queue) link;
};

/* owner: its loop */
struct gw_executor {
        unsigned magic; /* gw_check.h */
        struct gw_loop *loop;
        bool ended;
        unsigned looking; /* work items whose lookups are to come back */
        struct gw_work_item_list idle;
        TAILQ_HEAD(, gw_queue) turns; /* lines that may begin entries */
        LIST_HEAD(, gw_queue) lines;
        struct gw_work_item item[GW_EXECUTOR_TASKS];
};

/* ---- executor.c ---- */

/*
 * After whatever happened to a queue: those of its entries that may go on do, then lines in turn.
 * The queue may be gone then.
 */
void gw_queue_proceed(struct gw_queue *queue);
/* The next entry of a message is somebody's now: its index. */
unsigned gw_message_take(struct gw_queue *queue, struct gw_batch_message *run);

/* ---- work_item.c ---- */

/* Gives an entry its result. With the last one message and run are gone. */
void gw_message_tell(struct gw_queue *queue, struct gw_batch_message *run, unsigned index, const struct gw_entry *entry);
/* Begins the next entry of the message. There is an idle work item. */
void gw_work_item_begin(struct gw_queue *queue, struct gw_batch_message *run);
/* Its turn to be read has come. */
void gw_work_item_read(struct gw_work_item *item);
/*
 * Hands over what there is. Then it waits, or its result is given; without anything of it left it
 * is idle.
 */
void gw_work_item_pump(struct gw_work_item *item);
/* Its result is this failure, unless it has one. */
void gw_work_item_fail(struct gw_work_item *item, int rv);
/* The loops have stopped. */
void gw_work_item_end(struct gw_work_item *item);

#endif
