/*
 * initiator.c - requests by a token (the header protocol): one initiator per device and loop, which
 * WRITEs into and READs from the targets that tokens name.
 *
 * On the request's own loop; rdma/transfer_engine.c gives it its turns and its completions, and the
 * loop's share of what may be in flight on a device holds for it and for sessions together. An
 * error ends the request it came for and no other: what was posted behind it comes back flushed,
 * goes before the line, and is posted again once the initiator is reset. The same bytes go to the
 * same place then, in memory that is still the server's to write, since the request was not
 * answered. Each error ends a request, so no work is posted for ever. Keeps I7 (a job is over at
 * its completion, or when the initiator is destroyed) and I9 (requests, ring, ways).
 */
#include "rdma/initiator.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct rdx_home *home_of(const struct rdx_dialer *dialer)
{
        return dialer->connection->home;
}

static struct rdx_endpoint *endpoint_of(const struct rdx_dialer *dialer)
{
        return &home_of(dialer)->server->endpoint[dialer->connection->endpoint];
}

bool rdx_dialer_serves(const struct rdx_dialer *dialer)
{
        return dialer->state != RDX_DIALER_OFF && dialer->initiator != NULL;
}

/* ---- the line -------------------------------------------------------------------------------- */

bool rdx_dialer_wants(const struct rdx_dialer *dialer)
{
        return dialer != NULL && dialer->state == RDX_DIALER_READY && dialer->first != NULL &&
               dialer->posted - dialer->over < RDX_DIALER_SENDS;
}

void rdx_dialer_give(struct rdx_dialer *dialer, struct rdx_job *job)
{
        assert(rdx_on_loop(dialer->connection->home));
        job->next = NULL;
        job->taken = false;
        *dialer->last = job;
        dialer->last = &job->next;
}

static void put_before(struct rdx_dialer *dialer, struct rdx_job *job)
{
        job->taken = false;
        job->next = dialer->first;
        if (dialer->first == NULL)
                dialer->last = &job->next;
        dialer->first = job;
}

void rdx_dialer_drop(struct rdx_dialer *dialer, const struct rdx_flow *flow, int result)
{
        rdx_line_drop(&dialer->first, &dialer->last, flow, result);
}

/*
 * What was flushed goes before the line, but for what belongs to requests that failed or were given
 * up.
 */
static void line_up_again(struct rdx_dialer *dialer)
{
        struct rdx_job *job = dialer->again, *next, *keep = NULL, **last = &keep;

        dialer->again = NULL;
        dialer->again_last = &dialer->again;
        for (; job != NULL; job = next) {
                next = job->next;
                job->next = NULL;
                if (job->flow->result != 0) {
                        rdx_job_over(job, -ECANCELED);
                        continue;
                }
                *last = job;
                last = &job->next;
        }
        if (keep == NULL)
                return;
        *last = dialer->first;
        if (dialer->first == NULL)
                dialer->last = last;
        dialer->first = keep;
}

/* ---- the ring -------------------------------------------------------------------------------- */

/* Its oldest, which is no more the device's. */
static struct rdx_posted initiator_pop_ring(struct rdx_dialer *dialer)
{
        assert(dialer->over != dialer->posted);
        rdx_in_flight(dialer->connection, -1);
        return dialer->ring[dialer->over++ % RDX_DIALER_SENDS];
}

static void pop_done(struct rdx_dialer *dialer)
{
        struct rdx_posted posted = initiator_pop_ring(dialer);

        rdx_latency(home_of(dialer), RDX_STAGE_WIRE, posted.at);
        rdx_job_over(posted.job, 0);
}

static void pop_again(struct rdx_dialer *dialer)
{
        struct rdx_job *job = initiator_pop_ring(dialer).job;

        job->next = NULL;
        *dialer->again_last = job;
        dialer->again_last = &job->next;
}

/*
 * One of a request's failed: so has the request. What the device still has of it comes back like
 * the others'.
 */
static void fail_request(struct rdx_dialer *dialer, struct rdx_job *job, int result)
{
        struct rdx_flow *flow = job->flow;

        if (flow->result == 0)
                flow->result = result;
        if (result == -ETIMEDOUT)
                flow->way->stale = true;
        rdx_dialer_drop(dialer, flow, result);
        rdx_job_over(job, result);
}

/* ---- posting --------------------------------------------------------------------------------- */

static void initiator_make_work(struct rdx_dialer *dialer, struct rdx_job *job, struct rdx_work *work)
{
        const struct rdx_request *request = rdx_write_of(job)->request;

        memset(work, 0, sizeof(*work));
        rdx_make_write(home_of(dialer), dialer->connection->endpoint, job, work);
        work->route = job->flow->way->route;
        work->target = request->target;
        work->key = home_of(dialer)->server->token_key;
        work->tag = (uint64_t)RDX_DIALER_INDEX << 48 | (uint64_t)dialer->generation << 32 | (dialer->posted & 0xffff);
}

static void initiator_into_ring(struct rdx_dialer *dialer, struct rdx_work *work)
{
        struct rdx_job *job = dialer->first;
        uint64_t now = lp_now(home_of(dialer)->loop);

        assert(job != NULL && dialer->posted - dialer->over < RDX_DIALER_SENDS);
        initiator_make_work(dialer, job, work);
        dialer->first = job->next;
        if (dialer->first == NULL)
                dialer->last = &dialer->first;
        job->next = NULL;
        job->taken = true;
        if (dialer->posted == dialer->over)
                dialer->progress = now;
        dialer->ring[dialer->posted++ % RDX_DIALER_SENDS] = (struct rdx_posted){.job = job, .at = now};
}

/*
 * The device refused a work request: its request ends, those behind it wait. What was taken before
 * it may never complete by itself (only the last is signalled), so the initiator is made anew.
 */
static void initiator_refused(struct rdx_dialer *dialer, unsigned count)
{
        struct rdx_job *job;

        assert(count <= dialer->posted);
        rdx_in_flight(dialer->connection, -(int)count);
        while (count-- > 0) {
                job = dialer->ring[--dialer->posted % RDX_DIALER_SENDS].job;
                put_before(dialer, job);
        }
        dialer->state = RDX_DIALER_BROKEN;
        job = dialer->first;
        dialer->first = job->next;
        if (dialer->first == NULL)
                dialer->last = &dialer->first;
        fail_request(dialer, job, -EIO);
}

void rdx_dialer_turn(struct rdx_dialer *dialer)
{
        struct rdx_home *home = home_of(dialer);
        struct rdx_work work[RDX_TURN_JOBS];
        unsigned count = 0, taken = 0;
        uint64_t bytes = 0;
        int rv;

        assert(rdx_on_loop(dialer->connection->home));
        while (count < RDX_TURN_JOBS && bytes < RDX_TURN_BYTES && rdx_dialer_wants(dialer) &&
               dialer->connection->in_flight + count < home->share) {
                initiator_into_ring(dialer, &work[count]);
                bytes += work[count++].len;
        }
        if (count == 0)
                return;
        work[count - 1].signalled = true;
        rdx_in_flight(dialer->connection, (int)count);
        rv = home->server->transport->initiator_post(dialer->initiator, work, count, &taken);
        if (rv != 0)
                initiator_refused(dialer, count - taken);
}

/* ---- completions ----------------------------------------------------------------------------- */

/* All that was posted is back. */
static void reset(struct rdx_dialer *dialer)
{
        struct rdx_home *home = home_of(dialer);

        rdx_count(&home->counters.token_resets, 1);
        dialer->state =
                home->server->transport->initiator_reset(dialer->initiator) == 0 ? RDX_DIALER_READY : RDX_DIALER_BROKEN;
        line_up_again(dialer);
}

/*
 * The first error of an initiator's life tells whose it is; behind it all is flushed, signalled or
 * not.
 */
void rdx_dialer_sent(struct rdx_dialer *dialer, const struct rdx_done *done)
{
        uint32_t seq;

        assert(dialer == NULL || rdx_on_loop(dialer->connection->home));
        if (dialer == NULL || dialer->state == RDX_DIALER_OFF || dialer->generation != (uint16_t)(done->tag >> 32))
                return;
        seq = dialer->over + (uint16_t)((uint16_t)done->tag - (uint16_t)dialer->over);
        if (seq - dialer->over >= dialer->posted - dialer->over)
                return;
        while (dialer->over != seq)
                pop_done(dialer);
        if (done->result == 0) {
                pop_done(dialer);
        } else if (dialer->state == RDX_DIALER_READY) {
                dialer->state = RDX_DIALER_FAILED;
                fail_request(dialer, initiator_pop_ring(dialer).job, done->result);
        } else {
                pop_again(dialer);
        }
        dialer->progress = lp_now(home_of(dialer)->loop);
        if (dialer->state == RDX_DIALER_FAILED && dialer->over == dialer->posted)
                reset(dialer);
}

/* ---- time, and the end ----------------------------------------------------------------------- */

static void close_initiator(struct rdx_dialer *dialer)
{
        if (dialer->initiator != NULL)
                home_of(dialer)->server->transport->initiator_close(dialer->initiator);
        dialer->initiator = NULL;
        dialer->generation++;
        while (dialer->over != dialer->posted)
                pop_again(dialer);
}

static void open_initiator(struct rdx_dialer *dialer)
{
        int rv = home_of(dialer)->server->transport->initiator_open(endpoint_of(dialer)->domain, dialer->connection->queue,
                                                                    RDX_DIALER_SENDS, &dialer->initiator);

        dialer->state = rv == 0 ? RDX_DIALER_READY : RDX_DIALER_BROKEN;
}

/* All that waits ends with this. */
static void end_all(struct rdx_dialer *dialer, int result)
{
        struct rdx_job *job;

        for (job = dialer->again; job != NULL; job = job->next)
                if (job->flow->result == 0)
                        job->flow->result = result;
        line_up_again(dialer);
        rdx_dialer_drop(dialer, NULL, result);
}

void rdx_dialer_stop(struct rdx_dialer *dialer, int result)
{
        if (dialer == NULL || dialer->state == RDX_DIALER_OFF)
                return;
        dialer->state = RDX_DIALER_OFF;
        close_initiator(dialer);
        end_all(dialer, result);
}

static void make_anew(struct rdx_dialer *dialer)
{
        rdx_count(&home_of(dialer)->counters.token_resets, 1);
        close_initiator(dialer);
        open_initiator(dialer);
        if (dialer->initiator != NULL)
                line_up_again(dialer);
        else
                end_all(dialer, -ECONNRESET);
}

/*
 * Nothing comes back: whose fault it is nobody can tell, so those whose work the device has all
 * end.
 */
static void stalled(struct rdx_dialer *dialer)
{
        uint32_t seq;

        for (seq = dialer->over; seq != dialer->posted && dialer->state == RDX_DIALER_READY; seq++) {
                struct rdx_flow *flow = dialer->ring[seq % RDX_DIALER_SENDS].job->flow;

                if (flow->result == 0)
                        flow->result = -ETIMEDOUT;
                flow->way->stale = true;
        }
        dialer->state = RDX_DIALER_BROKEN;
}

void rdx_dialer_tick(struct rdx_dialer *dialer, uint64_t now)
{
        uint64_t patience;

        if (dialer == NULL || dialer->state == RDX_DIALER_OFF)
                return;
        if (atomic_load(&endpoint_of(dialer)->gone)) {
                rdx_dialer_stop(dialer, -ENODEV);
                return;
        }
        patience = dialer->state == RDX_DIALER_READY ? home_of(dialer)->server->limits.stall_ms * RDX_NS_PER_MS
                                                     : RDX_DRAIN_NS;
        if (dialer->posted != dialer->over && now - dialer->progress >= patience)
                stalled(dialer);
        if (dialer->state == RDX_DIALER_BROKEN)
                make_anew(dialer);
}

/* ---- making ---------------------------------------------------------------------------------- */

static bool device_can(const struct rdx_connection *connection)
{
        const struct rdx_server *server = connection->home->server;

        return server->tokens && server->transport->initiator_open != NULL && server->endpoint[connection->endpoint].info.dc;
}

/* Of the initiator and of one before it, whose completions may still lie there. */
unsigned rdx_dialer_entries(const struct rdx_connection *connection)
{
        return device_can(connection) ? 2 * RDX_DIALER_SENDS : 0;
}

int rdx_dialer_open(struct rdx_connection *connection)
{
        struct rdx_dialer *dialer;

        if (!device_can(connection))
                return 0;
        dialer = calloc(1, sizeof(*dialer));
        if (dialer == NULL)
                return -ENOMEM;
        dialer->connection = connection;
        dialer->last = &dialer->first;
        dialer->again_last = &dialer->again;
        connection->dialer = dialer;
        open_initiator(dialer); /* where that fails it is tried again; until then requests are declined */
        return 0;
}

void rdx_dialer_free(struct rdx_dialer *dialer)
{
        if (dialer == NULL)
                return;
        rdx_dialer_stop(dialer, -ESHUTDOWN);
        rdx_ways_close(dialer);
        free(dialer);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Bits that two GIDs begin with alike. */
static unsigned alike(const uint8_t *a, const uint8_t *b)
{
        unsigned i, bits = 0;

        for (i = 0; i < RDX_GID_LEN && a[i] == b[i]; i++)
                bits += 8;
        if (i < RDX_GID_LEN)
                bits += (unsigned)__builtin_clz((unsigned)(a[i] ^ b[i])) - 24;
        return bits;
}

/*
 * The device whose address is most like the target's: that of its network, where there are several.
 */
static struct rdx_dialer *initiator_choose(struct rdx_home *home, const struct rdx_port *port)
{
        struct rdx_dialer *chosen = NULL;
        unsigned i, most = 0;

        for (i = 0; i < home->server->endpoint_count; i++) {
                struct rdx_dialer *dialer = home->connection[i].dialer;
                unsigned bits = alike(home->server->endpoint[i].info.gid, port->gid);

                if (dialer == NULL || !rdx_dialer_serves(dialer) || (chosen != NULL && bits <= most))
                        continue;
                chosen = dialer;
                most = bits;
        }
        return chosen;
}

void rdx_dial_way(struct rdx_request *request, int result)
{
        struct rdx_flow *flow = &request->flow;

        if (result == 0 && !rdx_dialer_serves(flow->dialer))
                result = -ENODEV;
        if (result != 0) {
                rdx_dialer_leave(flow);
                flow->dialer = NULL;
        } else {
                rdx_count(&home_of(flow->dialer)->counters.tokens, 1);
        }
        rdx_request_begun(request, result);
}

static void dial(struct lp_msg *msg)
{
        struct rdx_request *request = container_of(msg, struct rdx_request, msg);
        struct rdx_flow *flow = &request->flow;
        struct rdx_dialer *dialer = initiator_choose(&request->server->home[request->owner], &request->port);
        int rv = dialer != NULL ? 0 : -ENODEV;

        if (rv == 0 && dialer->requests == RDX_DIALER_REQUESTS)
                rv = -EAGAIN;
        if (rv != 0) {
                rdx_request_begun(request, rv);
                return;
        }
        flow->window = request->window;
        flow->read = request->read;
        flow->dialer = dialer;
        dialer->requests++;
        request->endpoint = dialer->connection->endpoint;
        rv = rdx_way_take(dialer, request);
        if (rv != -EINPROGRESS)
                rdx_dial_way(request, rv);
}

void rdx_dialer_leave(struct rdx_flow *flow)
{
        assert(flow->dialer != NULL && flow->jobs == 0);
        if (flow->way != NULL)
                rdx_way_give(flow->way);
        flow->way = NULL;
        assert(flow->dialer->requests > 0);
        flow->dialer->requests--;
}

void rdx_dial(struct rdx_request *request)
{
        const struct rdx_token *token = request->token;
        struct rdx_server *server = request->server;

        for (request->owner = 0; request->owner + 1 < server->home_count; request->owner++)
                if (server->home[request->owner].loop == request->home)
                        break;
        request->window = (struct rdx_window_span){.address = token->address, .rkey = token->rkey, .length = token->size};
        memcpy(request->port.gid, token->gid, RDX_GID_LEN);
        request->port.lid = token->lid;
        request->target = token->dct;
        request->msg.run = dial;
        lp_post(server->home[request->owner].loop, &request->msg);
}
