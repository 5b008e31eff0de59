/*
 * server_batch.c - BATCH messages of the control queue pair, from their arrival to their last
 * RESULT, on the session's loop.
 *
 * A message is looked through as a whole before anything of it is executed. Its receive buffer, in
 * which its strings lie, is posted again just before the LAST result: so many messages as there are
 * receives can be outstanding, and the client knows. Results wait in the batch until it is their
 * turn and a send buffer is idle; they are posted behind the writes of their entries in the
 * session's line, which is what makes them those entries' notice.
 */
#include "rdma/rdma_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NONE UINT16_MAX

/* What is kept of an entry's result until it is sent. */
struct stored {
        struct rdx_result result;
        char etag[RDX_ETAG_MOST], version_id[RDX_VERSION_ID_MOST];
        uint16_t next; /* in the line of those to be sent; ORDERED: not used */
        bool given;
};

/* owner: the session's loop */
struct rdx_batch {
        struct rdx_session *session;
        struct rdx_message message;
        struct rdx_flow flow;
        struct rdx_batch *next; /* of the session's, by arrival */
        unsigned buffer;        /* receive buffer */
        uint64_t deadline;
        bool dead;                     /* the session is over */
        bool last_given, last_over;    /* the LAST result: to the line, and out */
        unsigned given, sent, replies; /* entries with a result; of them in a RESULT; RESULTs that may still be sent */
        unsigned sending;              /* RESULTs in the line or posted */
        uint16_t first, last;          /* given and not sent, in the order of giving */
        struct rdx_entry *entry;
        struct stored *stored;
};

/* ---- what the caller sees -------------------------------------------------------------------- */

const struct rdx_message *rdx_batch_message(const struct rdx_batch *batch)
{
        return &batch->message;
}

const struct rdx_entry *rdx_batch_entry(const struct rdx_batch *batch, unsigned i)
{
        assert(i < batch->message.count);
        return &batch->entry[i];
}

const char *rdx_batch_owner(const struct rdx_batch *batch)
{
        return batch->session->record->owner;
}

uint64_t rdx_batch_deadline(const struct rdx_batch *batch)
{
        return batch->deadline;
}

const void *rdx_batch_session(const struct rdx_batch *batch)
{
        return batch->session;
}

bool rdx_batch_dead(const struct rdx_batch *batch)
{
        return batch->dead || batch->session->state != RDX_LIVE;
}

/* ---- life ------------------------------------------------------------------------------------ */

static struct rdx_batch *new_batch(struct rdx_session *session, unsigned buffer, const struct rdx_reader *from)
{
        struct rdx_reader reader = *from;
        unsigned i, count = from->message.count;
        struct rdx_batch *batch = calloc(1, sizeof(*batch) + count * (sizeof(*batch->entry) + sizeof(*batch->stored)));

        if (batch == NULL)
                return NULL;
        batch->session = session;
        batch->message = from->message;
        batch->buffer = buffer;
        batch->replies = from->message.replies;
        batch->first = batch->last = NONE;
        batch->stored = (struct stored *)(batch + 1);
        batch->entry = (struct rdx_entry *)(batch->stored + count);
        batch->deadline = from->message.deadline_ms == 0
                                  ? UINT64_MAX
                                  : lp_now(session->home->loop) + from->message.deadline_ms * RDX_NS_PER_MS;
        batch->flow.window = from->message.window;
        batch->flow.number = from->message.number;
        for (i = 0; i < count; i++) {
                int rv = rdx_reader_entry(&reader, &batch->entry[i]);

                assert(rv == 1); /* all of it was checked */
        }
        return batch;
}

/* All results are given, no write is under way, and the last message is out or never will be. */
static void server_batch_check_free(struct rdx_batch *batch)
{
        struct rdx_session *session = batch->session;
        struct rdx_batch **link = &session->batches;

        if (batch->given < batch->message.count || batch->flow.jobs > 0 || batch->sending > 0 ||
            !(batch->last_over || batch->dead))
                return;
        while (*link != batch)
                link = &(*link)->next;
        *link = batch->next;
        rdx_flow_leave(&batch->flow);
        free(batch);
        rdx_session_check(session, false);
}

/* A right client sends nothing that is refused here. */
static int server_batch_admit(struct rdx_session *session, unsigned buffer, uint32_t len, struct rdx_batch **out)
{
        struct rdx_server *server = session->home->server;
        struct rdx_reader reader;
        int rv = rdx_reader_open(&reader, rdx_session_receive_buffer(session, buffer), len);

        if (rv == 0 && (reader.message.type != RDX_BATCH || reader.message.window.length > server->limits.window_bytes))
                rv = -EBADMSG;
        if (rv == 0)
                rv = rdx_reader_check(&reader);
        if (rv == 0)
                rv = rdx_number_accept(&session->numbers, reader.message.number);
        if (rv != 0)
                return rv;
        *out = new_batch(session, buffer, &reader);
        return *out != NULL ? 0 : -ENOMEM;
}

void rdx_batch_arrived(struct rdx_session *session, unsigned buffer, uint32_t len)
{
        struct rdx_server *server = session->home->server;
        struct rdx_batch *batch, **link = &session->batches;
        int rv = server_batch_admit(session, buffer, len, &batch);

        assert(rdx_on_loop(session->home));
        rdx_session_established(session); /* who sends is connected, whatever became of his word for it */
        if (rv != 0) {
                rdx_session_fail(session, rv == -ENOMEM ? RDX_END_FAILED : RDX_END_BROKE_RULE);
                return;
        }
        rdx_count(&session->home->counters.batches, 1);
        rdx_count(&session->home->counters.entries, batch->message.count);
        rdx_flow_join(session, &batch->flow);
        while (*link != NULL)
                link = &(*link)->next;
        *link = batch;
        server->batch(server->arg, batch);
}

/*
 * The pair is gone: nothing is sent any more. Who executes entries is told by rdx_batch_dead(), and
 * brings them to their end.
 */
void rdx_batches_lost(struct rdx_session *session)
{
        struct rdx_batch *batch, *next;

        assert(rdx_on_loop(session->home));
        assert(session->state == RDX_CLOSED);
        for (batch = session->batches; batch != NULL; batch = batch->next)
                batch->dead = true;
        for (batch = session->batches; batch != NULL; batch = next) {
                next = batch->next;
                server_batch_check_free(batch);
        }
}

/* ---- results --------------------------------------------------------------------------------- */

static bool is_ordered(const struct rdx_batch *batch)
{
        return (batch->message.flags & RDX_ORDERED) != 0;
}

/* An earlier ORDERED message of the same batch has results to send yet. */
static bool server_batch_must_wait(const struct rdx_batch *batch)
{
        const struct rdx_batch *other;

        for (other = batch->session->batches; is_ordered(batch) && other != batch; other = other->next)
                if (is_ordered(other) && other->message.batch == batch->message.batch && !other->last_given)
                        return true;
        return false;
}

/* How many could go now. */
static unsigned server_batch_ready(const struct rdx_batch *batch)
{
        unsigned n = 0;

        if (!is_ordered(batch))
                return batch->given - batch->sent;
        while (batch->sent + n < batch->message.count && batch->stored[batch->sent + n].given)
                n++;
        return n;
}

static struct stored *take_next(struct rdx_batch *batch)
{
        struct stored *stored;

        if (is_ordered(batch)) {
                stored = &batch->stored[batch->sent];
        } else {
                stored = &batch->stored[batch->first];
                batch->first = stored->next;
                if (batch->first == NONE)
                        batch->last = NONE;
        }
        batch->sent++;
        return stored;
}

/* One RESULT of n entries into the session's line. */
static void send_result(struct rdx_batch *batch, unsigned n)
{
        struct rdx_session *session = batch->session;
        struct rdx_send_buffer *buffer = session->idle;
        struct rdx_message head = {.type = RDX_RESULT, .number = batch->message.number, .batch = batch->message.batch};
        struct rdx_writer writer;

        session->idle = buffer->next;
        buffer->batch = batch;
        buffer->last = batch->sent + n == batch->message.count;
        head.flags = buffer->last ? RDX_LAST : 0;
        rdx_writer_open(&writer, buffer->data, &head);
        while (n-- > 0) {
                int rv = rdx_writer_result(&writer, &take_next(batch)->result);

                assert(rv == 0); /* a reply has room for its share */
        }
        buffer->len = (uint32_t)rdx_writer_finish(&writer);
        buffer->job.kind = RDX_JOB_RESULT;
        buffer->job.flow = &batch->flow;
        batch->sending++;
        assert(batch->replies > 0);
        batch->replies--;
        batch->last_given = buffer->last;
        rdx_count(&session->home->counters.results, 1);
        rdx_job_give(session, &buffer->job);
}

/* Sends what may be sent; true if that was the last. */
static bool server_batch_emit(struct rdx_batch *batch)
{
        struct rdx_session *session = batch->session;
        unsigned replies = batch->message.replies, share = (batch->message.count + replies - 1) / replies, n;

        while (session->state == RDX_LIVE && !batch->last_given && session->idle != NULL &&
               !server_batch_must_wait(batch)) {
                n = server_batch_ready(batch);
                if (n < share && (n == 0 || batch->sent + n < batch->message.count))
                        break;
                if (n > share)
                        n = share;
                if (batch->sent + n == batch->message.count && rdx_session_post_receive(session, batch->buffer) != 0) {
                        rdx_session_fail(session, RDX_END_DEVICE);
                        break;
                }
                send_result(batch, n);
        }
        return batch->last_given;
}

/* A send buffer is idle again, or an ordered message is through: those that waited for it. */
void rdx_batches_emit(struct rdx_session *session)
{
        struct rdx_batch *batch;

        assert(rdx_on_loop(session->home));
        for (batch = session->batches; batch != NULL; batch = batch->next)
                server_batch_emit(batch);
}

void rdx_batch_result(struct rdx_batch *batch, unsigned i, const struct rdx_result *result)
{
        struct stored *stored = &batch->stored[i];

        assert(i < batch->message.count && !stored->given);
        assert(result->etag.len <= RDX_ETAG_MOST && result->version_id.len <= RDX_VERSION_ID_MOST);
        stored->given = true;
        stored->next = NONE;
        stored->result = *result;
        stored->result.index = (uint16_t)(batch->message.first + i);
        stored->result.etag.data =
                memcpy(stored->etag, result->etag.len > 0 ? result->etag.data : "", result->etag.len);
        stored->result.version_id.data = memcpy(
                stored->version_id, result->version_id.len > 0 ? result->version_id.data : "", result->version_id.len);
        if (batch->last != NONE)
                batch->stored[batch->last].next = (uint16_t)i;
        else
                batch->first = (uint16_t)i;
        batch->last = (uint16_t)i;
        batch->given++;
        if (server_batch_emit(batch) && is_ordered(batch))
                rdx_batches_emit(batch->session);
        server_batch_check_free(batch);
}

/* Its message is out, or the session is over. */
void rdx_result_over(struct rdx_send_buffer *buffer, int result)
{
        struct rdx_batch *batch = buffer->batch;
        struct rdx_session *session = batch->session;

        assert(rdx_on_loop(session->home));
        assert(batch->sending > 0);
        batch->sending--;
        batch->last_over = batch->last_over || buffer->last;
        buffer->next = session->idle;
        session->idle = buffer;
        if (result == 0)
                rdx_batches_emit(session);
        server_batch_check_free(batch);
}

/* ---- writes ---------------------------------------------------------------------------------- */

static void server_batch_run_done(struct lp_msg *msg)
{
        struct rdx_write *write = container_of(msg, struct rdx_write, msg);
        struct rdx_batch *batch = write->batch;

        write->done(write, write->result);
        assert(batch->flow.jobs > 0);
        batch->flow.jobs--;
        server_batch_check_free(batch);
}

/*
 * Told by message, so that no caller is called from inside its own call; the batch stays until
 * then.
 */
void rdx_batch_write_over(struct rdx_write *write)
{
        struct rdx_batch *batch = write->batch;

        batch->flow.jobs++;
        write->msg.run = server_batch_run_done;
        lp_post(batch->session->home->loop, &write->msg);
}

void rdx_batch_write(struct rdx_batch *batch, unsigned i, struct rdx_write *write)
{
        const struct rdx_entry *entry = rdx_batch_entry(batch, i);
        struct rdx_session *session = batch->session;
        int rv = 0;

        write->request = NULL;
        write->batch = batch;
        write->asked = lp_now(session->home->loop);
        write->job.flow = &batch->flow;
        write->job.kind = RDX_JOB_WRITE;
        batch->flow.jobs++;
        if (write->len == 0 || write->len > RDX_WRITE_MAX || write->offset > entry->length ||
            write->len > entry->length - write->offset)
                rv = -EINVAL;
        else if (rdx_batch_dead(batch))
                rv = -ECONNRESET;
        else if (rdx_arena_of(session->home->server, write->buf, write->len) < 0)
                rv = -EFAULT;
        write->offset += entry->offset;
        if (rv == 0)
                rdx_job_give(session, &write->job);
        else
                rdx_write_over(write, rv);
}
