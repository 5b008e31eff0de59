/*
 * task.h - the executor's parts: messages, sessions, and the entries that are under way. For executor.c, which says whose turn it is, and task.c, which brings one entry
 * to its result. On one loop.
 */
#ifndef GATEWAY_RDMA_TASK_H
#define GATEWAY_RDMA_TASK_H

#include <bsd/sys/queue.h>

#include "gateway/rdma/entry.h"
#include "gateway/rdma/executor.h"
#include "gateway/rdma/pack.h"

#define GW_TASK_PIECES 4u /* spans of one entry that are handed over and not through */

enum gw_task_state {
        GW_TASK_IDLE,
        GW_TASK_LOOKING, /* the engine looks it up */
        GW_TASK_LATER,   /* found; its turn to be read comes */
        GW_TASK_READING,
        GW_TASK_PACKING /* has bytes, waits for room to copy them to */
};

struct gw_task;

/* A WRITE of a span that lies in the arena. */
struct gw_task_piece {
        struct rdx_write write;
        struct gw_task *task;
        bool busy;
};

/* One BATCH message, until all its entries have their results. */
struct gw_run {
        struct rdx_batch *batch;
        unsigned begun, told, count;
        uint64_t deadline;
        STAILQ_ENTRY(gw_run) link; /* of the line's, while entries are not begun */
};

/* One entry under way. */
struct gw_task {
        unsigned magic; /* gw_check.h */
        struct gw_entry entry;
        struct gw_executor *ex;
        struct gw_line *line;
        struct gw_run *run; /* NULL: its result is given */
        unsigned index;     /* in its message */
        enum gw_task_state state;
        bool reads;          /* counted in line->reads */
        uint64_t given;      /* handed over */
        const uint8_t *span; /* of the engine's: its first byte, while not all of it was handed over */
        size_t span_len, span_at;
        unsigned out; /* pieces that are busy */
        struct gw_task_piece piece[GW_TASK_PIECES];
        TAILQ_ENTRY(gw_task) link; /* of the idle ones, or by state */
};

TAILQ_HEAD(gw_task_list, gw_task);

/* A session that has entries here. */
struct gw_line {
        unsigned magic; /* gw_check.h */
        struct gw_executor *ex;
        const void *session;
        STAILQ_HEAD(, gw_run) runs;
        unsigned left;  /* runs whose results are not all given */
        unsigned tasks; /* under way */
        unsigned reads; /* of these, of objects that are not in a record */
        bool full; /* nothing is begun before few of the tasks are left: those that wake other loops go there together */
        bool in_turn;
        struct gw_task_list later, packing;
        struct gw_pack pack;
        TAILQ_ENTRY(gw_line) turn;
        LIST_ENTRY(gw_line) link;
};

/* owner: its loop */
struct gw_executor {
        unsigned magic; /* gw_check.h */
        struct gw_loop *loop;
        bool ended;
        unsigned looking; /* tasks whose lookups are to come back */
        struct gw_task_list idle;
        TAILQ_HEAD(, gw_line) turns; /* lines that may begin entries */
        LIST_HEAD(, gw_line) lines;
        struct gw_task task[GW_EXECUTOR_TASKS];
};

/* ---- executor.c ---- */

/* After whatever happened to a line: those of its entries that may go on do, then lines in turn. The line may be gone then. */
void gw_line_settle(struct gw_line *line);
/* The next entry of a message is somebody's now: its index. */
unsigned gw_run_take(struct gw_line *line, struct gw_run *run);

/* ---- task.c ---- */

/* Gives an entry its result. With the last one message and run are gone. */
void gw_run_tell(struct gw_line *line, struct gw_run *run, unsigned index, const struct gw_entry *entry);
/* Begins the next entry of the message. There is an idle task. */
void gw_task_begin(struct gw_line *line, struct gw_run *run);
/* Its turn to be read has come. */
void gw_task_read(struct gw_task *task);
/* Hands over what there is. Then it waits, or its result is given; without anything of it left it is idle. */
void gw_task_pump(struct gw_task *task);
/* Its result is this failure, unless it has one. */
void gw_task_fail(struct gw_task *task, int rv);
/* The loops have stopped. */
void gw_task_end(struct gw_task *task);

#endif
