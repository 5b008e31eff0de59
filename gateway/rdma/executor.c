/*
 * executor.c - entries of BATCH messages, from their lookup to their result (executor.h).
 *
 *   message ─> run ─┐   its session's turn       looked up (entry.c)        bytes                            result
 *   message ─> run ─┴─> line ──────────────────> task ──────────────> spans in the arena: WRITTEN as they lie ──> behind their WRITEs
 *                                                  │                  others: copied into a slot that many share (pack.c)
 *                                                  └─ large, too many being read: waits in line->later
 *
 * I9: GW_EXECUTOR_TASKS entries on a loop, and of a session GW_EXECUTOR_EACH, with the bytes of their records; no more are begun while some of them wait
 * for room to be copied to. Nobody waits for buffers while he holds some: a large object's reader has reserved what it needs before it reads, packs are emptied by
 * completions alone.
 */
#include "gateway/rdma/task.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

static struct gw_run *first_run(const struct gw_line *line)
{
        return STAILQ_FIRST(&line->runs);
}

unsigned gw_run_take(struct gw_line *line, struct gw_run *run)
{
        assert(run == first_run(line) && run->begun < run->count);
        if (run->begun + 1 == run->count)
                STAILQ_REMOVE_HEAD(&line->runs, link);
        return run->begun++;
}

/* The session is over: nothing more of the message is looked at. */
static void skip(struct gw_line *line, struct gw_run *run)
{
        struct gw_entry entry = {.loop = line->ex->loop};
        unsigned more = run->count - run->begun;

        gw_entry_refuse(&entry, RDX_CODE_SERVICE_UNAVAILABLE);
        while (more-- > 0) /* with the last one it may be gone */
                gw_run_tell(line, run, gw_run_take(line, run), &entry);
}

/* ---- whose turn it is ----------------------------------------------------------------------------- */

static bool may_begin(const struct gw_line *line)
{
        return first_run(line) != NULL && !line->full && TAILQ_EMPTY(&line->packing);
}

static void check_turn(struct gw_line *line)
{
        if (line->tasks >= GW_EXECUTOR_EACH)
                line->full = true;
        else if (line->tasks <= GW_EXECUTOR_FEW)
                line->full = false;
        if (line->in_turn || !may_begin(line))
                return;
        line->in_turn = true;
        TAILQ_INSERT_TAIL(&line->ex->turns, line, turn);
}

static void line_take_turn(struct gw_line *line)
{
        struct gw_executor *ex = line->ex;
        unsigned n;

        GW_CHECK(gw_line, line);
        assert(line->in_turn);
        TAILQ_REMOVE(&ex->turns, line, turn);
        line->in_turn = false;
        for (n = 0;
             n < GW_EXECUTOR_TURN && may_begin(line) && line->tasks < GW_EXECUTOR_EACH && !TAILQ_EMPTY(&ex->idle);
             n++) {
                struct gw_run *run = first_run(line);

                if (rdx_batch_dead(run->batch))
                        skip(line, run);
                else
                        gw_task_begin(line, run);
        }
        check_turn(line);
}

static void check_line(struct gw_line *line)
{
        if (line->left > 0 || line->tasks > 0 || !gw_pack_idle(&line->pack))
                return;
        assert(!line->in_turn);
        assert(line->reads == 0 && TAILQ_EMPTY(&line->later) && TAILQ_EMPTY(&line->packing));
        LIST_REMOVE(line, link);
        free(line);
}

static void take_turns(struct gw_executor *ex)
{
        struct gw_line *line;

        while (!TAILQ_EMPTY(&ex->idle) && (line = TAILQ_FIRST(&ex->turns)) != NULL) {
                line_take_turn(line);
                gw_pack_trim(&line->pack, !TAILQ_EMPTY(&line->packing));
                check_line(line);
        }
}

void gw_line_settle(struct gw_line *line)
{
        struct gw_executor *ex = line->ex;
        struct gw_task *task;

        GW_CHECK(gw_line, line);
        GW_CHECK(gw_executor, ex);
        while (line->reads < GW_EXECUTOR_READS && (task = TAILQ_FIRST(&line->later)) != NULL) {
                TAILQ_REMOVE(&line->later, task, link);
                gw_task_read(task);
        }
        check_turn(line);
        gw_pack_trim(&line->pack, !TAILQ_EMPTY(&line->packing));
        check_line(line);
        take_turns(ex);
}

/* There is room for who waits to be copied, or there will be none. */
static void pack_changed(struct gw_pack *pack, int rv)
{
        struct gw_line *line = container_of(pack, struct gw_line, pack);
        struct gw_task *task, *next;

        GW_CHECK(gw_line, line);
        for (task = TAILQ_FIRST(&line->packing); task != NULL && !pack->wanted; task = next) {
                next = TAILQ_NEXT(task, link);
                if (rv != 0)
                        gw_task_fail(task, rv);
                gw_task_pump(task);
        }
        gw_line_settle(line);
}

/* ---- messages ------------------------------------------------------------------------------------- */

static struct gw_line *session_line(struct gw_executor *ex, const void *session)
{
        struct gw_line *line;

        LIST_FOREACH (line, &ex->lines, link)
                if (line->session == session)
                        return line;
        line = calloc(1, sizeof(*line));
        if (line == NULL)
                return NULL;
        line->magic = gw_line_magic;
        line->ex = ex;
        line->session = session;
        STAILQ_INIT(&line->runs);
        TAILQ_INIT(&line->later);
        TAILQ_INIT(&line->packing);
        gw_pack_init(&line->pack, ex->loop->lp, pack_changed);
        LIST_INSERT_HEAD(&ex->lines, line, link);
        return line;
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
                TAILQ_INSERT_TAIL(&ex->idle, &ex->task[i], link);
        loop->executor = ex;
        return ex;
}

int gw_executor_run(struct gw_loop *loop, struct rdx_batch *batch)
{
        struct gw_executor *ex = executor_of(loop);
        struct gw_run *run = calloc(1, sizeof(*run));
        uint64_t deadline = rdx_batch_deadline(batch), limit = lp_now(loop->lp) + GW_EXECUTOR_LIMIT_NS;
        struct gw_line *line = ex != NULL && run != NULL ? session_line(ex, rdx_batch_session(batch)) : NULL;

        if (line == NULL) {
                free(run);
                return -ENOMEM;
        }
        run->batch = batch;
        run->count = rdx_batch_message(batch)->count;
        run->deadline = deadline < limit ? deadline : limit;
        STAILQ_INSERT_TAIL(&line->runs, run, link);
        line->left++;
        gw_line_settle(line);
        return 0;
}

/* ---- the end -------------------------------------------------------------------------------------- */

void gw_executor_end(struct gw_executor *ex)
{
        struct gw_line *line;
        struct gw_run *run;
        unsigned i;

        if (ex == NULL)
                return;
        GW_CHECK(gw_executor, ex);
        assert(!ex->ended);
        ex->ended = true;
        for (i = 0; i < GW_EXECUTOR_TASKS; i++)
                if (ex->task[i].state != GW_TASK_IDLE)
                        gw_task_end(&ex->task[i]);
        while ((line = LIST_FIRST(&ex->lines)) != NULL) {
                while ((run = first_run(line)) != NULL)
                        skip(line, run);
                gw_pack_end(&line->pack);
                LIST_REMOVE(line, link);
                free(line);
        }
        if (ex->looking == 0)
                free(ex);
}
