/*
 * executor.c - entries of BATCH messages, from their lookup to their result (executor.h).
 *
 *   message ─> run ─┐   its session's turn       looked up (entry.c)        bytes                            result
 *   message ─> run ─┴─> queue ──────────────────> work item ──────────────> spans in the arena: WRITTEN as they lie ──> behind their WRITEs
 *                                                  │                  others: copied into a slot that many share (bounce.c)
 *                                                  └─ large, too many being read: waits in queue->later
 *
 * I9: GW_EXECUTOR_TASKS entries on a loop, and of a session GW_EXECUTOR_EACH, with the bytes of
 * their records; no more are begun while some of them wait for room to be copied to. Nobody waits
 * for buffers while he holds some: a large object's reader has reserved what it needs before it
 * reads, bounce buffers are emptied by completions alone.
 */
#include "gateway/rdma/work_item.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static struct gw_batch_message *first_run(const struct gw_queue *queue)
{
        return STAILQ_FIRST(&queue->runs);
}

unsigned gw_message_take(struct gw_queue *queue, struct gw_batch_message *run)
{
        assert(run == first_run(queue) && run->begun < run->count);
        if (run->begun + 1 == run->count)
                STAILQ_REMOVE_HEAD(&queue->runs, link);
        return run->begun++;
}

/* The session is over: nothing more of the message is looked at. */
static void skip(struct gw_queue *queue, struct gw_batch_message *run)
{
        struct gw_entry entry = {.loop = queue->ex->loop};
        unsigned more = run->count - run->begun;

        gw_entry_refuse(&entry, RDX_CODE_SERVICE_UNAVAILABLE);
        while (more-- > 0) /* with the last one it may be gone */
                gw_message_tell(queue, run, gw_message_take(queue, run), &entry);
}

/* ---- whose turn it is ------------------------------------------------------------------------ */

static bool may_begin(const struct gw_queue *queue)
{
        return first_run(queue) != NULL && !queue->full && TAILQ_EMPTY(&queue->packing);
}

static void check_turn(struct gw_queue *queue)
{
        if (queue->items >= GW_EXECUTOR_EACH)
                queue->full = true;
        else if (queue->items <= GW_EXECUTOR_FEW)
                queue->full = false;
        if (queue->in_turn || !may_begin(queue))
                return;
        queue->in_turn = true;
        TAILQ_INSERT_TAIL(&queue->ex->turns, queue, turn);
}

static void line_take_turn(struct gw_queue *queue)
{
        struct gw_executor *ex = queue->ex;
        unsigned n;

        GW_CHECK(gw_queue, queue);
        assert(queue->in_turn);
        TAILQ_REMOVE(&ex->turns, queue, turn);
        queue->in_turn = false;
        for (n = 0;
             n < GW_EXECUTOR_TURN && may_begin(queue) && queue->items < GW_EXECUTOR_EACH && !TAILQ_EMPTY(&ex->idle);
             n++) {
                struct gw_batch_message *run = first_run(queue);

                if (rdx_batch_dead(run->batch))
                        skip(queue, run);
                else
                        gw_work_item_begin(queue, run);
        }
        check_turn(queue);
}

static void check_line(struct gw_queue *queue)
{
        if (queue->left > 0 || queue->items > 0 || !gw_bounce_idle(&queue->bounce))
                return;
        assert(!queue->in_turn);
        assert(queue->reads == 0 && TAILQ_EMPTY(&queue->later) && TAILQ_EMPTY(&queue->packing));
        LIST_REMOVE(queue, link);
        free(queue);
}

static void take_turns(struct gw_executor *ex)
{
        struct gw_queue *queue;

        while (!TAILQ_EMPTY(&ex->idle) && (queue = TAILQ_FIRST(&ex->turns)) != NULL) {
                line_take_turn(queue);
                gw_bounce_trim(&queue->bounce, !TAILQ_EMPTY(&queue->packing));
                check_line(queue);
        }
}

void gw_queue_proceed(struct gw_queue *queue)
{
        struct gw_executor *ex = queue->ex;
        struct gw_work_item *item;

        GW_CHECK(gw_queue, queue);
        GW_CHECK(gw_executor, ex);
        while (queue->reads < GW_EXECUTOR_READS && (item = TAILQ_FIRST(&queue->later)) != NULL) {
                TAILQ_REMOVE(&queue->later, item, link);
                gw_work_item_read(item);
        }
        check_turn(queue);
        gw_bounce_trim(&queue->bounce, !TAILQ_EMPTY(&queue->packing));
        check_line(queue);
        take_turns(ex);
}

/* There is room for who waits to be copied, or there will be none. */
static void bounce_changed(struct gw_bounce *bounce, int rv)
{
        struct gw_queue *queue = container_of(bounce, struct gw_queue, bounce);
        struct gw_work_item *item, *next;

        GW_CHECK(gw_queue, queue);
        for (item = TAILQ_FIRST(&queue->packing); item != NULL && !bounce->wanted; item = next) {
                next = TAILQ_NEXT(item, link);
                if (rv != 0)
                        gw_work_item_fail(item, rv);
                gw_work_item_pump(item);
        }
        gw_queue_proceed(queue);
}

/* ---- messages -------------------------------------------------------------------------------- */

static struct gw_queue *session_line(struct gw_executor *ex, const void *session)
{
        struct gw_queue *queue;

        LIST_FOREACH (queue, &ex->lines, link)
                if (queue->session == session)
                        return queue;
        queue = calloc(1, sizeof(*queue));
        if (queue == NULL)
                return NULL;
        queue->magic = gw_queue_magic;
        queue->ex = ex;
        queue->session = session;
        STAILQ_INIT(&queue->runs);
        TAILQ_INIT(&queue->later);
        TAILQ_INIT(&queue->packing);
        gw_bounce_init(&queue->bounce, ex->loop->lp, bounce_changed);
        LIST_INSERT_HEAD(&ex->lines, queue, link);
        return queue;
}

static struct gw_executor *executor_of(struct gw_loop *loop)
{
        struct gw_executor *ex = loop->executor;
        unsigned i;

        if (ex != NULL)
                return ex;
        ex = calloc(1, sizeof(*ex));
        if (ex == NULL)
                return NULL;
        ex->magic = gw_executor_magic;
        ex->loop = loop;
        TAILQ_INIT(&ex->idle);
        TAILQ_INIT(&ex->turns);
        LIST_INIT(&ex->lines);
        for (i = 0; i < GW_EXECUTOR_TASKS; i++)
                TAILQ_INSERT_TAIL(&ex->idle, &ex->item[i], link);
        loop->executor = ex;
        return ex;
}

int gw_executor_run(struct gw_loop *loop, struct rdx_batch *batch)
{
        struct gw_executor *ex = executor_of(loop);
        struct gw_batch_message *run = calloc(1, sizeof(*run));
        uint64_t deadline = rdx_batch_deadline(batch), limit = lp_now(loop->lp) + GW_EXECUTOR_LIMIT_NS;
        struct gw_queue *queue = ex != NULL && run != NULL ? session_line(ex, rdx_batch_session(batch)) : NULL;

        if (queue == NULL) {
                free(run);
                return -ENOMEM;
        }
        run->batch = batch;
        run->count = rdx_batch_message(batch)->count;
        run->deadline = deadline < limit ? deadline : limit;
        STAILQ_INSERT_TAIL(&queue->runs, run, link);
        queue->left++;
        gw_queue_proceed(queue);
        return 0;
}

/* ---- the end --------------------------------------------------------------------------------- */

void gw_executor_end(struct gw_executor *ex)
{
        struct gw_queue *queue;
        struct gw_batch_message *run;
        unsigned i;

        if (ex == NULL)
                return;
        GW_CHECK(gw_executor, ex);
        assert(!ex->ended);
        ex->ended = true;
        for (i = 0; i < GW_EXECUTOR_TASKS; i++)
                if (ex->item[i].state != GW_TASK_IDLE)
                        gw_work_item_end(&ex->item[i]);
        while ((queue = LIST_FIRST(&ex->lines)) != NULL) {
                while ((run = first_run(queue)) != NULL)
                        skip(queue, run);
                gw_bounce_end(&queue->bounce);
                LIST_REMOVE(queue, link);
                free(queue);
        }
        if (ex->looking == 0)
                free(ex);
}
