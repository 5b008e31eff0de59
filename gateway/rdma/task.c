/*
 * task.c - one entry of a BATCH message, from its lookup to its result (task.h).
 *
 * A result is given as soon as the last of its WRITEs was handed over: the RDMA house sends it behind them. What is handed over without a copy is held until its
 * completion (I7); what was copied needs its task no more.
 */
#include "gateway/rdma/task.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- results -------------------------------------------------------------------------------------- */

void gw_run_tell(struct gw_line *line, struct gw_run *run, unsigned index, const struct gw_entry *entry)
{
        bool last = ++run->told == run->count;

        GW_CHECK(gw_line, line);
        assert(run->told <= run->begun && line->left > 0);
        gw_entry_count(entry, GW_ENTRY_RDMA);
        rdx_batch_result(run->batch, index, &entry->result);
        if (!last)
                return;
        assert(run->begun == run->count);
        line->left--;
        free(run);
}

static void task_tell(struct gw_task *task)
{
        struct gw_run *run = task->run;

        GW_CHECK(gw_task, task);
        assert(run != NULL);
        task->run = NULL;
        gw_run_tell(task->line, run, task->index, &task->entry);
}

static void task_close_get(struct gw_task *task)
{
        if (task->span != NULL)
                eng_get_let_go(task->entry.get, task->span);
        task->span = NULL;
        gw_entry_close(&task->entry);
}

/* If nothing of it is needed any more: it is idle. */
static void check_task(struct gw_task *task)
{
        struct gw_line *line = task->line;

        if (task->run != NULL || task->out > 0)
                return;
        GW_CHECK(gw_line, line);
        assert(task->state != GW_TASK_IDLE && task->state != GW_TASK_LOOKING);
        assert(line->tasks > 0 && line->reads >= task->reads);
        task_close_get(task);
        if (task->state == GW_TASK_LATER)
                TAILQ_REMOVE(&line->later, task, link);
        else if (task->state == GW_TASK_PACKING)
                TAILQ_REMOVE(&line->packing, task, link);
        line->reads -= task->reads;
        line->tasks--;
        task->state = GW_TASK_IDLE;
        TAILQ_INSERT_HEAD(&task->ex->idle, task, link);
}

void gw_task_fail(struct gw_task *task, int rv)
{
        if (task->run != NULL) {
                gw_entry_fail(&task->entry, rv);
                task_tell(task);
        }
}

/* ---- bytes ---------------------------------------------------------------------------------------- */

static void task_piece_done(struct rdx_write *write, int result)
{
        struct gw_task_piece *piece = container_of(write, struct gw_task_piece, write);
        struct gw_task *task = piece->task;
        struct gw_line *line = task->line;

        GW_CHECK(gw_task, task);
        GW_CHECK(gw_line, line);
        assert(piece->busy && task->out > 0);
        piece->busy = false;
        task->out--;
        eng_get_let_go(task->entry.get, write->buf);
        if (result != 0)
                gw_task_fail(task, -EHOSTDOWN); /* the session is over: it goes nowhere */
        gw_task_pump(task);
        gw_line_settle(line);
}

static struct gw_task_piece *idle_piece(struct gw_task *task)
{
        unsigned i;

        for (i = 0; i < GW_TASK_PIECES; i++)
                if (!task->piece[i].busy)
                        return &task->piece[i];
        return NULL;
}

/* The span as it lies. -EAGAIN: gw_task_pump() is called when there is a piece. */
static int give_span(struct gw_task *task)
{
        struct gw_task_piece *piece = idle_piece(task);

        if (piece == NULL)
                return -EAGAIN;
        assert(task->out < GW_TASK_PIECES && task->state != GW_TASK_IDLE);
        piece->busy = true;
        piece->task = task;
        piece->write = (struct rdx_write){.buf = (void *)task->span,
                                          .len = (uint32_t)task->span_len,
                                          .offset = task->given,
                                          .done = task_piece_done};
        task->out++;
        task->given += task->span_len;
        task->span = NULL;
        rdx_batch_write(task->run->batch, task->index, &piece->write);
        return 0;
}

static void set_packing(struct gw_task *task, bool packing)
{
        if (packing == (task->state == GW_TASK_PACKING))
                return;
        if (packing)
                TAILQ_INSERT_TAIL(&task->line->packing, task, link);
        else
                TAILQ_REMOVE(&task->line->packing, task, link);
        task->state = packing ? GW_TASK_PACKING : GW_TASK_READING;
}

/* A copy of it, or of some. -EAGAIN: its line comes back to it. */
static int give_copy(struct gw_task *task)
{
        size_t left = task->span_len - task->span_at, n = left < RDX_WRITE_MAX ? left : RDX_WRITE_MAX;
        struct rdx_write *write;
        int rv = gw_pack_take(&task->line->pack, n, &write);

        set_packing(task, rv == -EAGAIN);
        if (rv != 0)
                return rv;
        memcpy(write->buf, task->span + task->span_at, n);
        write->copied = true;
        write->offset = task->given;
        task->given += n;
        task->span_at += n;
        if (task->span_at == task->span_len) {
                eng_get_let_go(task->entry.get, task->span);
                task->span = NULL;
        }
        rdx_batch_write(task->run->batch, task->index, write);
        return 0;
}

static int task_next_span(struct gw_task *task)
{
        int rv;

        if (task->span != NULL)
                return 0;
        task->span_at = 0;
        rv = eng_get_next(task->entry.get, &task->span, &task->span_len);
        if (rv != 0)
                task->span = NULL;
        else if (task->span_len > task->entry.result.bytes - task->given)
                rv = -EPROTO; /* more than was asked for */
        return rv;
}

void gw_task_pump(struct gw_task *task)
{
        struct rdx_server *rdma = task->ex->loop->gw->rdma;
        int rv = 0;

        while (task->run != NULL && rv == 0 && task->given < task->entry.result.bytes) {
                rv = task_next_span(task);
                if (rv != 0)
                        break;
                if (task->span_len <= RDX_WRITE_MAX && rdx_server_registered(rdma, task->span, task->span_len))
                        rv = give_span(task);
                else
                        rv = give_copy(task);
        }
        if (rv != 0 && rv != -EAGAIN) {
                gw_task_fail(task, rv);
        } else if (task->run != NULL && rv == 0) {
                task->entry.result.crc32c = eng_get_crc32c(task->entry.get);
                task_tell(task);
        }
        check_task(task);
}

static void task_woken(void *arg)
{
        struct gw_task *task = GW_CAST(gw_task, arg);
        struct gw_line *line = task->line;

        GW_CHECK(gw_line, line);
        if (task->state == GW_TASK_READING)
                gw_task_pump(task);
        gw_line_settle(line);
}

void gw_task_read(struct gw_task *task)
{
        int rv;

        assert(task->run != NULL && !task->reads);
        task->state = GW_TASK_READING;
        task->reads = task->entry.large;
        task->line->reads += task->reads;
        rv = gw_entry_start(&task->entry, true, task_woken, task);
        if (rv != 0)
                gw_task_fail(task, rv);
        gw_task_pump(task);
}

/* ---- entries -------------------------------------------------------------------------------------- */

/* The result is known, or there are bytes to be read. */
static void task_found(struct gw_task *task)
{
        struct gw_line *line = task->line;

        if (task->entry.get == NULL) {
                task->state = GW_TASK_READING;
                task_tell(task);
                check_task(task);
        } else if (task->entry.large && (line->reads == GW_EXECUTOR_READS || !TAILQ_EMPTY(&line->later))) {
                task->state = GW_TASK_LATER;
                TAILQ_INSERT_TAIL(&line->later, task, link);
        } else {
                gw_task_read(task);
        }
}

static void task_known(struct gw_entry *entry)
{
        struct gw_task *task = container_of(entry, struct gw_task, entry);
        struct gw_executor *ex = task->ex;
        struct gw_line *line = task->line;

        GW_CHECK(gw_task, task);
        GW_CHECK(gw_executor, ex);
        assert(task->state == GW_TASK_LOOKING);
        assert(ex->looking > 0);
        ex->looking--;
        if (ex->ended) {
                if (ex->looking == 0)
                        free(ex);
                return;
        }
        task_found(task);
        gw_line_settle(line);
}

void gw_task_begin(struct gw_line *line, struct gw_run *run)
{
        struct gw_executor *ex = line->ex;
        struct gw_task *task = TAILQ_FIRST(&ex->idle);
        struct rdx_batch *batch = run->batch;
        unsigned index = gw_run_take(line, run);
        bool looking = false;

        assert(task != NULL && task->state == GW_TASK_IDLE && task->run == NULL && task->out == 0);
        TAILQ_REMOVE(&ex->idle, task, link);
        memset(task, 0, offsetof(struct gw_task, piece));
        task->magic = gw_task_magic;
        task->ex = ex;
        task->entry.loop = ex->loop;
        task->entry.known = task_known;
        task->line = line;
        task->run = run;
        task->index = index;
        task->state = GW_TASK_LOOKING;
        line->tasks++;
        if (lp_now(ex->loop->lp) >= run->deadline)
                gw_entry_refuse(&task->entry, RDX_CODE_REQUEST_TIMEOUT);
        else
                looking = gw_entry_begin(&task->entry, rdx_batch_owner(batch), rdx_batch_entry(batch, index));
        ex->looking += looking;
        if (!looking)
                task_found(task);
}

void gw_task_end(struct gw_task *task)
{
        GW_CHECK(gw_task, task);
        assert(task->out == 0);
        if (task->state == GW_TASK_LOOKING)
                gw_entry_give_up(&task->entry);
        gw_task_fail(task, -EHOSTDOWN);
        task_close_get(task);
}
