/*
 * server_request.c - one GET or PUT over a session: messages between the loop that serves the
 * request and the loop that owns the session.
 *
 * The permits of docs/rdma-protocol.md: a write that was handed over and not posted can be taken
 * back (abandon), one that was posted makes the request's answer a success or an error, never a
 * body. finish and abandon close the gate; ended() comes when all that passed it is over. Keeps I7.
 */
#include "rdma/initiator.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static struct rdx_request *server_request_of(struct lp_msg *msg)
{
        return container_of(msg, struct rdx_request, msg);
}

static struct rdx_write *write_of(struct lp_msg *msg)
{
        return container_of(msg, struct rdx_write, msg);
}

static struct rdx_home *owner_of(const struct rdx_request *request)
{
        return &request->server->home[request->owner];
}

/* ---- flows: what a session knows of its requests and batches --------------------------------- */

void rdx_flow_join(struct rdx_session *session, struct rdx_flow *flow)
{
        assert(rdx_on_loop(session->home));
        assert(flow->session == NULL);
        flow->session = session;
        flow->link = &session->flows;
        flow->next = session->flows;
        if (flow->next != NULL)
                flow->next->link = &flow->next;
        session->flows = flow;
}

void rdx_flow_leave(struct rdx_flow *flow)
{
        if (flow->session == NULL)
                return;
        assert(*flow->link == flow);
        *flow->link = flow->next;
        if (flow->next != NULL)
                flow->next->link = flow->link;
        flow->session = NULL;
}

/* The session is over; nothing of it is posted any more. */
void rdx_flow_lost(struct rdx_flow *flow)
{
        assert(flow->session != NULL);
        rdx_flow_leave(flow);
        if (flow->result == 0)
                flow->result = -ECONNRESET;
}

/* ---- back to the caller ---------------------------------------------------------------------- */

static void run_begun(struct lp_msg *msg)
{
        struct rdx_request *request = server_request_of(msg);

        request->begun(request, request->result);
}

static void run_ended(struct lp_msg *msg)
{
        struct rdx_request *request = server_request_of(msg);

        request->ended(request, request->result);
}

static void server_request_run_done(struct lp_msg *msg)
{
        struct rdx_write *write = write_of(msg);

        write->done(write, write->result);
}

static void server_request_post(struct rdx_request *request, void (*run)(struct lp_msg *msg), int result)
{
        request->result = result;
        request->msg.run = run;
        lp_post(request->home, &request->msg);
}

void rdx_request_begun(struct rdx_request *request, int result)
{
        server_request_post(request, run_begun, result);
}

/* ---- at the session's loop ------------------------------------------------------------------- */

static int server_request_admit(struct rdx_request *request, struct rdx_session *session)
{
        const struct rdx_limits *limits = &request->server->limits;
        int rv;

        if (session == NULL || session->state != RDX_LIVE ||
            memcmp(session->record->id, request->session, RDX_ID_LEN) != 0)
                return -ENOENT;
        rv = rdx_number_accept(&session->numbers, request->number);
        if (rv != 0)
                return rv;
        if (request->window.length > limits->window_bytes ||
            request->window.length > UINT64_MAX - request->window.address)
                return -EINVAL;
        if (request->read && request->server->transport->pair_read_depth(session->pair) == 0)
                return -EOPNOTSUPP;
        return session->requests < limits->requests ? 0 : -EAGAIN;
}

/* Which of the loop's sessions, if it is there yet. */
static struct rdx_session *session_of(struct rdx_home *home, const uint8_t id[RDX_ID_LEN])
{
        unsigned i;

        for (i = 0; i < home->slot_count; i++)
                if (home->slot[i].state == RDX_LIVE && memcmp(home->slot[i].record->id, id, RDX_ID_LEN) == 0)
                        return &home->slot[i];
        return NULL;
}

static void server_request_join_session(struct rdx_session *session, struct rdx_request *request)
{
        request->flow.window = request->window;
        request->flow.number = request->number;
        request->flow.read = request->read;
        request->flow.more = true;
        request->endpoint = session->endpoint;
        rdx_flow_join(session, &request->flow);
        rdx_count(&session->home->counters.requests, 1);
        server_request_post(request, run_begun, 0);
}

static void server_request_begin(struct lp_msg *msg)
{
        struct rdx_request *request = server_request_of(msg);
        struct rdx_session *session = session_of(owner_of(request), request->session);
        int rv = server_request_admit(request, session);

        if (rv != 0) {
                server_request_post(request, run_begun, rv);
                return;
        }
        session->requests++;
        if (session->established) {
                server_request_join_session(session, request);
                return;
        }
        request->waits_since = lp_now(session->home->loop);
        request->waits = session->waiting;
        session->waiting = request;
}

static void server_request_give_up(struct rdx_session *session, struct rdx_request *request, int result)
{
        assert(session->requests > 0);
        session->requests--;
        server_request_post(request, run_begun, result);
}

void rdx_requests_go(struct rdx_session *session, int result)
{
        struct rdx_request *request;

        assert(rdx_on_loop(session->home));
        while ((request = session->waiting) != NULL) {
                session->waiting = request->waits;
                if (result == 0)
                        server_request_join_session(session, request);
                else
                        server_request_give_up(session, request, result);
        }
}

void rdx_requests_give_up(struct rdx_session *session, uint64_t now)
{
        struct rdx_request **link = &session->waiting, *request;

        assert(rdx_on_loop(session->home));
        while ((request = *link) != NULL) {
                if (now - request->waits_since < RDX_ESTABLISH_NS) {
                        link = &request->waits;
                        continue;
                }
                *link = request->waits;
                server_request_give_up(session, request, -ENOTCONN);
        }
}

/* Something is there that posts it. */
static bool is_live(const struct rdx_flow *flow)
{
        if (flow->dialer != NULL)
                return rdx_dialer_serves(flow->dialer);
        return flow->session != NULL && flow->session->state == RDX_LIVE;
}

/* Why this write can't be posted at all, or 0. */
static int check_write(const struct rdx_write *write, const struct rdx_server *server)
{
        const struct rdx_flow *flow = write->job.flow;

        if (flow->result != 0)
                return flow->result;
        if (!is_live(flow))
                return -ECONNRESET;
        if (write->len == 0 || write->len > RDX_WRITE_MAX || !rdx_window_span_holds(&flow->window, write->offset, write->len))
                return -EINVAL;
        return rdx_arena_of(server, write->buf, write->len) >= 0 ? 0 : -EFAULT;
}

static void give_write(struct lp_msg *msg)
{
        struct rdx_write *write = write_of(msg);
        struct rdx_request *request = write->request;
        struct rdx_flow *flow = &request->flow;
        int rv;

        write->job.flow = flow;
        write->job.kind = RDX_JOB_WRITE;
        write->job.taken = false;
        flow->jobs++;
        rv = check_write(write, request->server);
        if (rv != 0) {
                if (flow->result == 0)
                        flow->result = rv;
                rdx_write_over(write, rv);
                return;
        }
        if (flow->dialer != NULL)
                rdx_dialer_give(flow->dialer, &write->job);
        else
                rdx_job_give(flow->session, &write->job);
}

/* All that passed the gate is over, and the gate is closed. */
static void server_request_end(struct rdx_request *request, int result)
{
        struct rdx_flow *flow = &request->flow;

        assert(flow->jobs == 0);
        if (flow->session != NULL) {
                assert(flow->session->requests > 0);
                flow->session->requests--;
        }
        rdx_flow_leave(flow);
        if (flow->dialer != NULL)
                rdx_dialer_leave(flow);
        request->posted = flow->posted;
        request->bytes = flow->bytes;
        rdx_latency(owner_of(request), RDX_STAGE_NOTICE, request->asked);
        server_request_post(request, run_ended, result);
}

static void check_end(struct rdx_request *request)
{
        struct rdx_flow *flow = &request->flow;

        if (request->closing && flow->jobs == 0)
                server_request_end(request, flow->result);
}

/* Behind all writes, on the same pair; a request that wrote nothing has none. */
static void give_notice(struct rdx_request *request)
{
        request->job.flow = &request->flow;
        request->job.kind = RDX_JOB_NOTICE;
        request->flow.jobs++;
        rdx_job_give(request->flow.session, &request->job);
}

static void server_request_finish(struct lp_msg *msg)
{
        struct rdx_request *request = server_request_of(msg);
        struct rdx_flow *flow = &request->flow;

        request->closing = true;
        flow->more = false;
        request->asked = lp_now(owner_of(request)->loop);
        if (flow->result == 0 && !flow->read && !request->by_token && (flow->posted || flow->jobs > 0)) {
                if (flow->session->state == RDX_LIVE) {
                        give_notice(request);
                        return;
                }
                flow->result = -ECONNRESET;
        }
        check_end(request);
}

static void abandon(struct lp_msg *msg)
{
        struct rdx_request *request = server_request_of(msg);
        struct rdx_flow *flow = &request->flow;

        request->closing = true;
        flow->more = false;
        request->asked = lp_now(owner_of(request)->loop);
        if (flow->result == 0)
                flow->result = -ECANCELED;
        flow->jobs++; /* so that the last one dropped does not end it here */
        if (flow->session != NULL)
                rdx_jobs_drop(flow->session, flow, -ECANCELED);
        if (flow->dialer != NULL)
                rdx_dialer_drop(flow->dialer, flow, -ECANCELED);
        assert(flow->jobs > 0);
        flow->jobs--;
        check_end(request);
}

/* ---- jobs that are over ---------------------------------------------------------------------- */

static void count_done(struct rdx_home *home, const struct rdx_write *write)
{
        struct rdx_counters *counters = &home->counters;
        bool read = write->job.flow->read;

        write->job.flow->bytes += write->len;
        rdx_count(read ? &counters->reads : &counters->writes, 1);
        rdx_count(read ? &counters->bytes_read : &counters->bytes_written, write->len);
        if (write->copied)
                rdx_count(&counters->bytes_copied, write->len);
}

void rdx_write_over(struct rdx_write *write, int result)
{
        struct rdx_request *request = write->request;
        struct rdx_flow *flow = write->job.flow;

        assert(flow->jobs > 0);
        flow->jobs--;
        if (result != 0 && flow->result == 0)
                flow->result = result;
        write->result = result;
        if (request == NULL) {
                if (result == 0)
                        count_done(flow->session->home, write);
                rdx_batch_write_over(write);
                return;
        }
        if (result == 0)
                count_done(owner_of(request), write);
        write->msg.run = server_request_run_done;
        lp_post(request->home, &write->msg);
        check_end(request);
}

void rdx_request_job_over(struct rdx_request *request, int result)
{
        struct rdx_flow *flow = &request->flow;

        assert(flow->jobs > 0);
        flow->jobs--;
        if (result != 0 && flow->result == 0)
                flow->result = result;
        if (result == 0) {
                request->notice = true;
                rdx_count(&owner_of(request)->counters.notices, 1);
        }
        check_end(request);
}

/* ---- the caller's side ----------------------------------------------------------------------- */

void rdx_request_begin(struct rdx_server *server, struct rdx_request *request)
{
        int rv;

        request->server = server;
        request->home = lp_self();
        memset(&request->flow, 0, sizeof(request->flow));
        request->closing = false;
        request->by_token = request->token != NULL;
        if (request->by_token) {
                rdx_dial(request);
                return;
        }
        rv = rdx_registry_home(server, request->session, &request->owner);
        if (rv != 0) {
                server_request_post(request, run_begun, rv);
                return;
        }
        request->msg.run = server_request_begin;
        lp_post(owner_of(request)->loop, &request->msg);
}

void rdx_request_write(struct rdx_request *request, struct rdx_write *write)
{
        write->request = request;
        write->batch = NULL;
        write->asked = lp_now(request->home);
        write->msg.run = give_write;
        lp_post(owner_of(request)->loop, &write->msg);
}

static void close_gate(struct rdx_request *request, void (*run)(struct lp_msg *msg))
{
        request->msg.run = run;
        lp_post(owner_of(request)->loop, &request->msg);
}

void rdx_request_finish(struct rdx_request *request)
{
        close_gate(request, server_request_finish);
}

void rdx_request_abandon(struct rdx_request *request)
{
        close_gate(request, abandon);
}
