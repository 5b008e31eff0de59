/*
 * transfer_engine.c - the transfer engine: jobs of sessions, posted in turn, and their completions.
 * Each loop drives its own sessions; it has a fixed share of what may be in flight on a device, so
 * that loops need not ask each other.
 *
 * Fair: a session with jobs has one turn of at most RDX_TURN_JOBS work requests or RDX_TURN_BYTES,
 * then goes behind the others. The last of a turn is signalled, and with it all before it complete.
 * The initiator of requests by a token (initiator.c) has its turns between those of sessions. Keeps
 * I7 (a job is over when the device is through with its memory) and I9 (the ring, the share).
 */
#include "rdma/initiator.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define POLL_MOST   64u
#define TAG_RECEIVE (1ull << 24)

/* ---- figures --------------------------------------------------------------------------------- */

void rdx_latency(struct rdx_home *home, enum rdx_stage stage, uint64_t since)
{
        uint64_t ns = lp_now(home->loop) - since, us = ns / 1000;
        unsigned bucket = 0;

        while (bucket < RDX_LATENCY_BUCKETS - 1 && us >= 1ull << bucket)
                bucket++;
        rdx_count(&home->counters.latency[stage][bucket], 1);
        rdx_count(&home->counters.latency_ns[stage], ns);
}

void rdx_in_flight(struct rdx_connection *connection, int by)
{
        assert(by >= 0 || connection->in_flight >= (unsigned)-by);
        connection->in_flight += (unsigned)by;
        rdx_count(&connection->home->counters.in_flight, (uint64_t)(int64_t)by);
}

/* ---- arenas ---------------------------------------------------------------------------------- */

int rdx_arena_of(const struct rdx_server *server, const void *buf, size_t len)
{
        unsigned i;

        for (i = 0; i < server->arena_count; i++) {
                uintptr_t offset = (uintptr_t)buf - (uintptr_t)server->arena[i].base;

                if (offset < server->arena[i].len && len <= server->arena[i].len - offset)
                        return (int)i;
        }
        return -1;
}

bool rdx_server_registered(const struct rdx_server *server, const void *buf, size_t len)
{
        return rdx_arena_of(server, buf, len) >= 0;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct rdx_write *rdx_write_of(struct rdx_job *job)
{
        return container_of(job, struct rdx_write, job);
}

static struct rdx_request *transfer_request_of(struct rdx_job *job)
{
        return container_of(job, struct rdx_request, job);
}

static struct rdx_send_buffer *buffer_of(struct rdx_job *job)
{
        return container_of(job, struct rdx_send_buffer, job);
}

void rdx_job_over(struct rdx_job *job, int result)
{
        switch (job->kind) {
        case RDX_JOB_WRITE:
                rdx_write_over(rdx_write_of(job), result);
                break;
        case RDX_JOB_NOTICE:
                rdx_request_job_over(transfer_request_of(job), result);
                break;
        default:
                rdx_result_over(buffer_of(job), result);
                break;
        }
}

static void transfer_take_turn(struct rdx_session *session)
{
        struct rdx_connection *connection = &session->home->connection[session->endpoint];

        assert(rdx_on_loop(session->home));
        if (session->in_turn || session->first == NULL || session->state != RDX_LIVE ||
            session->posted - session->over >= RDX_RING_MOST)
                return;
        session->in_turn = true;
        session->next_turn = NULL;
        *connection->last = session;
        connection->last = &session->next_turn;
}

void rdx_job_give(struct rdx_session *session, struct rdx_job *job)
{
        assert(rdx_on_loop(session->home));
        job->next = NULL;
        job->taken = false;
        *session->last = job;
        session->last = &job->next;
        transfer_take_turn(session);
}

void rdx_line_drop(struct rdx_job **first, struct rdx_job ***last, const struct rdx_flow *flow, int result)
{
        struct rdx_job *job, *rest = *first, *dropped = NULL, **dropped_last = &dropped, ***end;

        *first = NULL;
        *last = first;
        while ((job = rest) != NULL) {
                rest = job->next;
                job->next = NULL;
                end = flow == NULL || job->flow == flow ? &dropped_last : last;
                **end = job;
                *end = &job->next;
        }
        while ((job = dropped) != NULL) {
                dropped = job->next;
                rdx_job_over(job, result);
        }
}

void rdx_jobs_drop(struct rdx_session *session, const struct rdx_flow *flow, int result)
{
        assert(rdx_on_loop(session->home));
        rdx_line_drop(&session->first, &session->last, flow, result);
}

/* ---- posting --------------------------------------------------------------------------------- */

static uint64_t send_tag(const struct rdx_session *session, uint32_t seq)
{
        return (uint64_t)session->index << 48 | (uint64_t)session->generation << 32 | (seq & 0xffff);
}

void rdx_make_write(struct rdx_home *home, unsigned endpoint, struct rdx_job *job, struct rdx_work *work)
{
        struct rdx_server *server = home->server;
        struct rdx_write *write = rdx_write_of(job);
        struct rdx_flow *flow = job->flow;
        int arena = rdx_arena_of(server, write->buf, write->len);

        work->op = flow->read ? RDX_OP_READ : RDX_OP_WRITE;
        work->address = write->buf;
        work->len = write->len;
        work->lkey = server->transport->region_lkey(server->endpoint[endpoint].region[arena]);
        work->remote = flow->window.address + write->offset;
        work->rkey = flow->window.rkey;
        flow->posted = true;
        rdx_latency(home, RDX_STAGE_QUEUED, write->asked);
}

/* Scheme (a): a message that takes the window back. Else: nothing but the number. */
static void make_notice(struct rdx_session *session, struct rdx_job *job, struct rdx_work *work, uint32_t seq)
{
        const struct rdx_transport *transport = session->home->server->transport;
        struct rdx_message head = {.type = RDX_NOTICE, .number = job->flow->number};
        uint8_t *data = rdx_session_notice_buffer(session, seq);
        struct rdx_writer writer;

        if (session->rights == RDX_RIGHTS_WINDOW2) {
                rdx_writer_open(&writer, data, &head);
                work->op = RDX_OP_SEND_INVALIDATE;
                work->address = data;
                work->len = (uint32_t)rdx_writer_finish(&writer);
                work->lkey = transport->region_lkey(session->region[session->endpoint]);
        } else {
                work->op = RDX_OP_WRITE_NOTICE;
                work->remote = job->flow->window.address;
                work->imm = (uint32_t)job->flow->number;
        }
        work->rkey = job->flow->window.rkey;
}

static void make_result(struct rdx_session *session, struct rdx_job *job, struct rdx_work *work)
{
        const struct rdx_send_buffer *buffer = buffer_of(job);

        work->op = buffer->last && session->rights == RDX_RIGHTS_WINDOW2 ? RDX_OP_SEND_INVALIDATE : RDX_OP_SEND;
        work->address = buffer->data;
        work->len = buffer->len;
        work->lkey = session->home->server->transport->region_lkey(session->region[session->endpoint]);
        work->rkey = job->flow->window.rkey;
}

static void transfer_make_work(struct rdx_session *session, struct rdx_job *job, uint32_t seq, struct rdx_work *work)
{
        memset(work, 0, sizeof(*work));
        if (job->kind == RDX_JOB_WRITE)
                rdx_make_write(session->home, session->endpoint, job, work);
        else if (job->kind == RDX_JOB_NOTICE)
                make_notice(session, job, work, seq);
        else
                make_result(session, job, work);
        work->tag = send_tag(session, seq);
}

/*
 * The ring was empty until now: was it so in the middle of a request? Asked once for a ring that
 * ran empty, of no more flows than a session may have.
 */
static void note_filled(struct rdx_session *session)
{
        const struct rdx_flow *flow = session->flows;
        uint64_t now = lp_clock();

        while (flow != NULL && !(flow->posted && flow->more))
                flow = flow->next;
        if (flow != NULL)
                rdx_count(&session->home->counters.gap_ns, now - session->turned);
        session->turned = now;
}

static void note_emptied(struct rdx_session *session)
{
        uint64_t now = lp_clock();

        rdx_count(&session->home->counters.busy_ns, now - session->turned);
        session->turned = now;
}

/* Moves the first job of the line into the ring. */
static void transfer_into_ring(struct rdx_session *session, struct rdx_work *work)
{
        struct rdx_job *job = session->first;
        uint64_t now = lp_now(session->home->loop);

        assert(job != NULL && session->posted - session->over < RDX_PAIR_SENDS);
        if (session->posted == session->over)
                note_filled(session);
        transfer_make_work(session, job, session->posted, work);
        session->first = job->next;
        if (session->first == NULL)
                session->last = &session->first;
        job->next = NULL;
        job->taken = true;
        if (session->posted == session->over)
                session->progress = now;
        session->ring[session->posted % RDX_PAIR_SENDS] = (struct rdx_posted){.job = job, .at = now};
        session->posted++;
}

/*
 * What the device did not take was not posted, but it stands in the ring behind what was: the
 * session's end gives it back with the rest.
 */
static void post_turn(struct rdx_connection *connection, struct rdx_session *session)
{
        struct rdx_home *home = connection->home;
        struct rdx_work work[RDX_TURN_JOBS];
        unsigned count = 0, taken = 0;
        uint64_t bytes = 0;
        int rv;

        assert(session->state == RDX_LIVE || session->state == RDX_FAILING);
        while (count < RDX_TURN_JOBS && bytes < RDX_TURN_BYTES && session->first != NULL &&
               connection->in_flight + count < home->share && session->posted - session->over < RDX_RING_MOST) {
                transfer_into_ring(session, &work[count]);
                bytes += work[count++].len;
        }
        assert(count > 0);
        work[count - 1].signalled = true;
        rdx_in_flight(connection, (int)count);
        rv = home->server->transport->post(session->pair, work, count, &taken);
        if (rv == 0)
                return;
        rdx_in_flight(connection, -(int)(count - taken));
        while (count-- > taken) {
                struct rdx_job *job = session->ring[--session->posted % RDX_PAIR_SENDS].job;

                rdx_job_over(job, -ECONNRESET);
        }
        rdx_session_fail(session, RDX_END_DEVICE);
}

/*
 * The pair is in the error state: what is posted now is flushed behind all that was before,
 * signalled or not.
 */
void rdx_post_marker(struct rdx_session *session)
{
        struct rdx_work work = {.op = RDX_OP_SEND, .signalled = true, .tag = send_tag(session, session->posted)};
        unsigned taken;

        if (session->posted == session->over ||
            session->home->server->transport->post(session->pair, &work, 1, &taken) != 0)
                return;
        session->ring[session->posted++ % RDX_PAIR_SENDS] = (struct rdx_posted){.job = NULL};
        rdx_in_flight(&session->home->connection[session->endpoint], 1);
}

void rdx_pump(struct rdx_connection *connection)
{
        struct rdx_session *session;
        bool wants;

        assert(rdx_on_loop(connection->home));
        for (;;) {
                wants = rdx_dialer_wants(connection->dialer);
                session = connection->first;
                if (session == NULL && !wants)
                        return;
                if (connection->in_flight >= connection->home->share) {
                        rdx_count(&connection->home->counters.starved, 1);
                        return;
                }
                connection->dialer_next = !connection->dialer_next;
                if (session == NULL || (wants && connection->dialer_next)) {
                        rdx_dialer_turn(connection->dialer);
                        continue;
                }
                connection->first = session->next_turn;
                if (connection->first == NULL)
                        connection->last = &connection->first;
                session->in_turn = false;
                if (session->state == RDX_LIVE && session->first != NULL)
                        post_turn(connection, session);
                transfer_take_turn(session);
        }
}

/* ---- completions ----------------------------------------------------------------------------- */

/* The oldest of the ring. */
static void transfer_pop_ring(struct rdx_session *session, int result)
{
        struct rdx_posted *posted = &session->ring[session->over++ % RDX_PAIR_SENDS];

        assert(session->over - 1 != session->posted);
        rdx_in_flight(&session->home->connection[session->endpoint], -1);
        if (session->over == session->posted)
                note_emptied(session);
        if (posted->job == NULL)
                return;
        if (result == 0)
                rdx_latency(session->home, RDX_STAGE_WIRE, posted->at);
        rdx_job_over(posted->job, result);
}

void rdx_ring_drop(struct rdx_session *session, int result)
{
        while (session->over != session->posted)
                transfer_pop_ring(session, result);
}

static enum rdx_end end_of(int result)
{
        if (result == -EACCES)
                return RDX_END_RIGHTS;
        return result == -ETIMEDOUT ? RDX_END_TIMEOUT : RDX_END_DEVICE;
}

/* Those before it are good, signalled or not. */
static void sent(struct rdx_session *session, const struct rdx_done *done)
{
        uint32_t seq = session->over + (uint16_t)((uint16_t)done->tag - (uint16_t)session->over);

        if (seq - session->over >= session->posted - session->over)
                return; /* not in the ring: what the device had not taken, after all */
        if (done->result != 0)
                rdx_session_fail(session, end_of(done->result));
        while (session->over != seq)
                transfer_pop_ring(session, 0);
        transfer_pop_ring(session, done->result == 0 ? 0 : -ECONNRESET);
        session->progress = lp_now(session->home->loop);
        transfer_take_turn(session);
}

static void received(struct rdx_session *session, const struct rdx_done *done)
{
        if (session->state != RDX_LIVE)
                return;
        if (done->result != 0)
                rdx_session_fail(session, done->result == -ECANCELED ? RDX_END_DISCONNECT : end_of(done->result));
        else
                rdx_batch_arrived(session, done->tag & 0xffff, done->has_imm ? 0 : done->len);
}

/* Completions of a pair that was closed meanwhile carry another generation. */
static void transfer_take_done(struct rdx_connection *connection, const struct rdx_done *done)
{
        struct rdx_home *home = connection->home;
        uint64_t index = done->tag >> 48;
        struct rdx_session *session = index < home->slot_count ? &home->slot[index] : NULL;

        if (index == RDX_DIALER_INDEX)
                rdx_dialer_sent(connection->dialer, done);
        if (session == NULL || session->generation != (uint16_t)(done->tag >> 32) || session->state == RDX_SLOT_FREE ||
            session->state == RDX_CLOSED)
                return;
        if ((done->tag & TAG_RECEIVE) != 0)
                received(session, done);
        else
                sent(session, done);
        if (session->state == RDX_DRAINING)
                rdx_session_check(session, false);
}

/*
 * Until there is none, with the announcement of the next one asked for in between, so that none is
 * missed.
 */
void rdx_connection_poll(struct rdx_connection *connection)
{
        const struct rdx_transport *transport = connection->home->server->transport;
        struct rdx_done done[POLL_MOST];
        bool armed = false;
        int i, n;

        assert(rdx_on_loop(connection->home));
        for (;;) {
                n = transport->queue_poll(connection->queue, done, POLL_MOST);
                for (i = 0; i < n; i++)
                        transfer_take_done(connection, &done[i]);
                if (n <= 0 && armed)
                        break;
                if (n <= 0) {
                        transport->queue_arm(connection->queue);
                        armed = true;
                }
        }
}
