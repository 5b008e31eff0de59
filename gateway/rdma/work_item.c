/*
 * work_item.c - one entry of a BATCH message, from its lookup to its result (work_item.h).
 *
 * A result is given as soon as the last of its WRITEs was handed over: the RDMA module sends it
 * behind them. What is handed over without a copy is held until its completion (I7); what was
 * copied needs its work item no more.
 */
#include "gateway/rdma/work_item.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- results --------------------------------------------------------------------------------- */

void gw_message_tell(struct gw_queue *queue, struct gw_batch_message *run, unsigned index, const struct gw_entry *entry)
{
        bool last = ++run->told == run->count;

        GW_CHECK(gw_queue, queue);
        assert(run->told <= run->begun && queue->left > 0);
        gw_entry_count(entry, GW_ENTRY_RDMA);
        rdx_batch_result(run->batch, index, &entry->result);
        if (!last)
                return;
        assert(run->begun == run->count);
        queue->left--;
        free(run);
}

static void item_tell(struct gw_work_item *item)
{
        struct gw_batch_message *run = item->run;

        GW_CHECK(gw_work_item, item);
        assert(run != NULL);
        item->run = NULL;
        gw_message_tell(item->queue, run, item->index, &item->entry);
}

static void item_close_get(struct gw_work_item *item)
{
        if (item->span != NULL)
                eng_get_let_go(item->entry.get, item->span);
        item->span = NULL;
        gw_entry_close(&item->entry);
}

/* If nothing of it is needed any more: it is idle. */
static void check_item(struct gw_work_item *item)
{
        struct gw_queue *queue = item->queue;

        if (item->run != NULL || item->out > 0)
                return;
        GW_CHECK(gw_queue, queue);
        assert(item->state != GW_TASK_IDLE && item->state != GW_TASK_LOOKING);
        assert(queue->items > 0 && queue->reads >= item->reads);
        item_close_get(item);
        if (item->state == GW_TASK_LATER)
                TAILQ_REMOVE(&queue->later, item, link);
        else if (item->state == GW_TASK_PACKING)
                TAILQ_REMOVE(&queue->packing, item, link);
        queue->reads -= item->reads;
        queue->items--;
        item->state = GW_TASK_IDLE;
        TAILQ_INSERT_HEAD(&item->ex->idle, item, link);
}

void gw_work_item_fail(struct gw_work_item *item, int rv)
{
        if (item->run != NULL) {
                gw_entry_fail(&item->entry, rv);
                item_tell(item);
        }
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void item_piece_done(struct rdx_write *write, int result)
{
        struct gw_work_item_piece *piece = container_of(write, struct gw_work_item_piece, write);
        struct gw_work_item *item = piece->item;
        struct gw_queue *queue = item->queue;

        GW_CHECK(gw_work_item, item);
        GW_CHECK(gw_queue, queue);
        assert(piece->busy && item->out > 0);
        piece->busy = false;
        item->out--;
        eng_get_let_go(item->entry.get, write->buf);
        if (result != 0)
                gw_work_item_fail(item, -EHOSTDOWN); /* the session is over: it goes nowhere */
        gw_work_item_pump(item);
        gw_queue_proceed(queue);
}

static struct gw_work_item_piece *idle_piece(struct gw_work_item *item)
{
        unsigned i;

        for (i = 0; i < GW_TASK_PIECES; i++)
                if (!item->piece[i].busy)
                        return &item->piece[i];
        return NULL;
}

/* The span as it lies. -EAGAIN: gw_work_item_pump() is called when there is a piece. */
static int give_span(struct gw_work_item *item)
{
        struct gw_work_item_piece *piece = idle_piece(item);

        if (piece == NULL)
                return -EAGAIN;
        assert(item->out < GW_TASK_PIECES && item->state != GW_TASK_IDLE);
        piece->busy = true;
        piece->item = item;
        piece->write = (struct rdx_write){.buf = (void *)item->span,
                                          .len = (uint32_t)item->span_len,
                                          .offset = item->given,
                                          .done = item_piece_done};
        item->out++;
        item->given += item->span_len;
        item->span = NULL;
        rdx_batch_write(item->run->batch, item->index, &piece->write);
        return 0;
}

static void set_packing(struct gw_work_item *item, bool packing)
{
        if (packing == (item->state == GW_TASK_PACKING))
                return;
        if (packing)
                TAILQ_INSERT_TAIL(&item->queue->packing, item, link);
        else
                TAILQ_REMOVE(&item->queue->packing, item, link);
        item->state = packing ? GW_TASK_PACKING : GW_TASK_READING;
}

/* A copy of it, or of some. -EAGAIN: its queue comes back to it. */
static int give_copy(struct gw_work_item *item)
{
        size_t left = item->span_len - item->span_at, n = left < RDX_WRITE_MAX ? left : RDX_WRITE_MAX;
        struct rdx_write *write;
        int rv = gw_bounce_take(&item->queue->bounce, n, &write);

        set_packing(item, rv == -EAGAIN);
        if (rv != 0)
                return rv;
        memcpy(write->buf, item->span + item->span_at, n);
        write->copied = true;
        write->offset = item->given;
        item->given += n;
        item->span_at += n;
        if (item->span_at == item->span_len) {
                eng_get_let_go(item->entry.get, item->span);
                item->span = NULL;
        }
        rdx_batch_write(item->run->batch, item->index, write);
        return 0;
}

static int item_next_span(struct gw_work_item *item)
{
        int rv;

        if (item->span != NULL)
                return 0;
        item->span_at = 0;
        rv = eng_get_next(item->entry.get, &item->span, &item->span_len);
        if (rv != 0)
                item->span = NULL;
        else if (item->span_len > item->entry.result.bytes - item->given)
                rv = -EPROTO; /* more than was asked for */
        return rv;
}

void gw_work_item_pump(struct gw_work_item *item)
{
        struct rdx_server *rdma = item->ex->loop->gw->rdma;
        int rv = 0;

        while (item->run != NULL && rv == 0 && item->given < item->entry.result.bytes) {
                rv = item_next_span(item);
                if (rv != 0)
                        break;
                if (item->span_len <= RDX_WRITE_MAX && rdx_server_registered(rdma, item->span, item->span_len))
                        rv = give_span(item);
                else
                        rv = give_copy(item);
        }
        if (rv != 0 && rv != -EAGAIN) {
                gw_work_item_fail(item, rv);
        } else if (item->run != NULL && rv == 0) {
                item->entry.result.crc32c = eng_get_crc32c(item->entry.get);
                item_tell(item);
        }
        check_item(item);
}

static void item_woken(void *arg)
{
        struct gw_work_item *item = GW_CAST(gw_work_item, arg);
        struct gw_queue *queue = item->queue;

        GW_CHECK(gw_queue, queue);
        if (item->state == GW_TASK_READING)
                gw_work_item_pump(item);
        gw_queue_proceed(queue);
}

void gw_work_item_read(struct gw_work_item *item)
{
        int rv;

        assert(item->run != NULL && !item->reads);
        item->state = GW_TASK_READING;
        item->reads = item->entry.large;
        item->queue->reads += item->reads;
        rv = gw_entry_start(&item->entry, true, item_woken, item);
        if (rv != 0)
                gw_work_item_fail(item, rv);
        gw_work_item_pump(item);
}

/* ---- entries --------------------------------------------------------------------------------- */

/* The result is known, or there are bytes to be read. */
static void item_found(struct gw_work_item *item)
{
        struct gw_queue *queue = item->queue;

        if (item->entry.get == NULL) {
                item->state = GW_TASK_READING;
                item_tell(item);
                check_item(item);
        } else if (item->entry.large && (queue->reads == GW_EXECUTOR_READS || !TAILQ_EMPTY(&queue->later))) {
                item->state = GW_TASK_LATER;
                TAILQ_INSERT_TAIL(&queue->later, item, link);
        } else {
                gw_work_item_read(item);
        }
}

static void item_known(struct gw_entry *entry)
{
        struct gw_work_item *item = container_of(entry, struct gw_work_item, entry);
        struct gw_executor *ex = item->ex;
        struct gw_queue *queue = item->queue;

        GW_CHECK(gw_work_item, item);
        GW_CHECK(gw_executor, ex);
        assert(item->state == GW_TASK_LOOKING);
        assert(ex->looking > 0);
        ex->looking--;
        if (ex->ended) {
                if (ex->looking == 0)
                        free(ex);
                return;
        }
        item_found(item);
        gw_queue_proceed(queue);
}

void gw_work_item_begin(struct gw_queue *queue, struct gw_batch_message *run)
{
        struct gw_executor *ex = queue->ex;
        struct gw_work_item *item = TAILQ_FIRST(&ex->idle);
        struct rdx_batch *batch = run->batch;
        unsigned index = gw_message_take(queue, run);
        bool looking = false;

        assert(item != NULL && item->state == GW_TASK_IDLE && item->run == NULL && item->out == 0);
        TAILQ_REMOVE(&ex->idle, item, link);
        memset(item, 0, offsetof(struct gw_work_item, piece));
        item->magic = gw_work_item_magic;
        item->ex = ex;
        item->entry.loop = ex->loop;
        item->entry.known = item_known;
        item->queue = queue;
        item->run = run;
        item->index = index;
        item->state = GW_TASK_LOOKING;
        queue->items++;
        if (lp_now(ex->loop->lp) >= run->deadline)
                gw_entry_refuse(&item->entry, RDX_CODE_REQUEST_TIMEOUT);
        else
                looking = gw_entry_begin(&item->entry, rdx_batch_owner(batch), rdx_batch_entry(batch, index));
        ex->looking += looking;
        if (!looking)
                item_found(item);
}

void gw_work_item_end(struct gw_work_item *item)
{
        GW_CHECK(gw_work_item, item);
        assert(item->out == 0);
        if (item->state == GW_TASK_LOOKING)
                gw_entry_give_up(&item->entry);
        gw_work_item_fail(item, -EHOSTDOWN);
        item_close_get(item);
}
