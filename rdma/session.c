/*
 * session.c - a session from the arrival of its queue pair to the moment its slot is free, on its
 * loop.
 *
 * Keeps I7: a pair that is done with goes to the error state, what was posted on it comes back, and
 * only when nothing is posted, or the pair is destroyed, are the buffers given back to their
 * owners. A device that does not answer at all costs RDX_DRAIN_NS, and no buffer.
 */
#include "rdma/initiator.h"

#include "loop_trace.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NOTICE_LEN RDX_HEADER_LEN

static void session_state(struct rdx_session *session, enum rdx_session_state state)
{
        session->state = state;
        lp_trace(LP_TRACE_SESSION, state, session->record->generation);
}

/* ---- a slot's memory: receives, RESULT messages, notices ------------------------------------- */

static size_t memory_size(const struct rdx_server *server)
{
        return (size_t)server->limits.messages * 2 * RDX_MESSAGE_MAX + (size_t)RDX_PAIR_SENDS * NOTICE_LEN;
}

uint8_t *rdx_session_receive_buffer(const struct rdx_session *session, unsigned i)
{
        return session->memory + (size_t)i * RDX_MESSAGE_MAX;
}

uint8_t *rdx_session_notice_buffer(const struct rdx_session *session, uint32_t seq)
{
        const struct rdx_server *server = session->home->server;

        return session->memory + (size_t)server->limits.messages * 2 * RDX_MESSAGE_MAX +
               (size_t)(seq % RDX_PAIR_SENDS) * NOTICE_LEN;
}

/* Made at a slot's first use on a device, and kept: pinning is slow. */
static int slot_memory(struct rdx_session *session)
{
        struct rdx_server *server = session->home->server;
        unsigned i, messages = server->limits.messages;

        if (session->memory == NULL) {
                session->memory = aligned_alloc(4096, (memory_size(server) + 4095) / 4096 * 4096);
                if (session->memory == NULL)
                        return -ENOMEM;
                memset(session->memory, 0, memory_size(server));
        }
        session->idle = NULL;
        for (i = 0; i < messages; i++) {
                struct rdx_send_buffer *buffer = &session->buffer[i];

                buffer->data = session->memory + (size_t)(messages + i) * RDX_MESSAGE_MAX;
                buffer->next = session->idle;
                session->idle = buffer;
        }
        if (session->region[session->endpoint] != NULL)
                return 0;
        return server->transport->region_open(server->endpoint[session->endpoint].domain, session->memory,
                                              memory_size(server), RDX_LOCAL_WRITE,
                                              &session->region[session->endpoint]);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static uint64_t receive_tag(const struct rdx_session *session, unsigned i)
{
        return (uint64_t)session->index << 48 | (uint64_t)session->generation << 32 | 1u << 24 | i;
}

int rdx_session_post_receive(struct rdx_session *session, unsigned i)
{
        const struct rdx_transport *transport = session->home->server->transport;

        return transport->post_receive(session->pair, receive_tag(session, i), rdx_session_receive_buffer(session, i),
                                       RDX_MESSAGE_MAX, transport->region_lkey(session->region[session->endpoint]));
}

static struct rdx_session *rdma_session_free_slot(struct rdx_home *home)
{
        unsigned i;

        for (i = 0; i < home->slot_count; i++)
                if (home->slot[i].state == RDX_SLOT_FREE)
                        return &home->slot[i];
        return NULL;
}

static void init_session(struct rdx_session *session, struct rdx_record *record)
{
        assert(session->state == RDX_SLOT_FREE && session->batches == NULL);
        session->record = record;
        session->generation++;
        session->endpoint = record->endpoint;
        session->rights = record->rights;
        session->pair = NULL;
        memset(&session->numbers, 0, sizeof(session->numbers));
        session->first = NULL;
        session->last = &session->first;
        session->in_turn = false;
        session->posted = session->over = 0;
        session->flows = NULL;
        session->established = false;
        session->waiting = NULL;
        session->requests = 0;
        session->batches = NULL;
}

static int open_pair(struct rdx_session *session, struct rdx_record *record)
{
        struct rdx_home *home = session->home;
        struct rdx_server *server = home->server;
        struct rdx_pair_options options = {
                .channel = server->endpoint[session->endpoint].channel,
                .domain = server->endpoint[session->endpoint].domain,
                .queue = home->connection[session->endpoint].queue,
                .sends = RDX_PAIR_SENDS,
                .receives = server->limits.messages,
                .owner = (void *)rdx_registry_handle(record),
                .arrival = record->arrival,
        };
        unsigned i;
        int rv;

        record->arrival = NULL;
        rv = server->transport->pair_open(&options, &session->pair);
        for (i = 0; rv == 0 && i < server->limits.messages; i++)
                rv = rdx_session_post_receive(session, i);
        return rv;
}

static int accept_pair(struct rdx_session *session, const struct rdx_record *record)
{
        struct rdx_server *server = session->home->server;
        struct rdx_private private = {.kind = RDX_PRIVATE_ACCEPTED,
                                      .endpoint = (uint16_t)session->endpoint,
                                      .messages = (uint16_t)server->limits.messages};
        struct rdx_binding binding = {.client = record->peer};
        struct rdx_party peer;
        uint8_t data[RDX_PRIVATE_LEN];

        memcpy(private.session, record->id, RDX_ID_LEN);
        memcpy(binding.boot, server->boot, RDX_BOOT_LEN);
        server->transport->pair_parties(session->pair, &binding.server, &peer);
        rdx_private_build(&private, record->keys.connect, &binding, data);
        return server->transport->pair_accept(session->pair, data, sizeof(data));
}

static void reject(struct rdx_server *server, struct rdx_record *record)
{
        uint8_t data[RDX_REJECT_LEN];

        if (record->arrival == NULL)
                return;
        rdx_reject_build(RDX_REJECT_NO_ROOM, data);
        server->transport->reject(record->arrival, data, sizeof(data));
        record->arrival = NULL;
}

/*
 * The record's connect message. What fails here ends the session, and its end finds a session or
 * none.
 */
void rdx_session_connect(struct lp_msg *msg)
{
        struct rdx_record *record = container_of(msg, struct rdx_record, connect_msg);
        struct rdx_server *server = record->server;
        struct rdx_home *home = &server->home[record->home];
        struct rdx_session *session;
        int rv = -ENOSPC;

        assert(record->state == RDX_RECORD_TAKEN && record->session == NULL);
        rdx_connection_poll(
                &home->connection
                         [record->endpoint]); /* completions of the slot's last pair make room for those of this one */
        session = atomic_load(&server->stopped) ? NULL : rdma_session_free_slot(home);
        if (session != NULL) {
                init_session(session, record);
                rv = slot_memory(session);
                if (rv == 0)
                        rv = open_pair(session, record);
                if (rv ==
                    0) { /* before the client can know: its first request may be here before this returns, and waits behind it */
                        rdx_registry_connected(record);
                        rv = accept_pair(session, record);
                }
        }
        if (session != NULL && (rv == 0 || session->pair != NULL)) {
                record->session = session;
                session_state(session, RDX_LIVE);
                session->progress = lp_now(home->loop);
        }
        if (rv == 0) {
                rdx_count(&home->counters.connected, 1);
                return;
        }
        reject(server, record);
        if (record->session != NULL)
                rdx_session_fail(session, RDX_END_FAILED);
        else
                rdx_registry_end(record, RDX_END_FAILED);
}

/* ---- ending ---------------------------------------------------------------------------------- */

void rdx_session_fail(struct rdx_session *session, enum rdx_end end)
{
        assert(rdx_on_loop(session->home));
        if (session->state != RDX_LIVE)
                return;
        session_state(session, RDX_FAILING);
        rdx_registry_end(session->record, end);
}

static void leave_turn(struct rdx_session *session)
{
        struct rdx_connection *connection = &session->home->connection[session->endpoint];
        struct rdx_session **link = &connection->first;

        if (!session->in_turn)
                return;
        while (*link != session)
                link = &(*link)->next_turn;
        *link = session->next_turn;
        if (connection->last == &session->next_turn)
                connection->last = link;
        session->in_turn = false;
}

/* The pair goes to the error state; what is not posted never will be. */
static void rdma_session_drain(struct rdx_session *session)
{
        struct rdx_home *home = session->home;

        assert(rdx_on_loop(home));
        assert(session->state == RDX_LIVE || session->state == RDX_FAILING);
        session_state(session, RDX_DRAINING);
        session->drain_by = lp_now(home->loop) + RDX_DRAIN_NS;
        home->server->transport->pair_fail(session->pair);
        rdx_post_marker(session);
        leave_turn(session);
        rdx_jobs_drop(session, NULL, -ECONNRESET);
        rdx_session_check(session, atomic_load(&home->server->stopped));
}

/* No memory of ours is the device's any more. */
static void close_pair(struct rdx_session *session)
{
        struct rdx_flow *flow;

        assert(rdx_on_loop(session->home));
        assert(session->state == RDX_DRAINING && session->pair != NULL);
        session->home->server->transport->pair_close(session->pair);
        session->pair = NULL;
        session_state(session, RDX_CLOSED);
        rdx_ring_drop(session, -ECONNRESET);
        rdx_requests_go(session, -ENOENT);
        while ((flow = session->flows) != NULL)
                rdx_flow_lost(flow);
        rdx_batches_lost(session);
}

void rdx_session_check(struct rdx_session *session, bool now)
{
        assert(rdx_on_loop(session->home));
        if (session->state == RDX_DRAINING && (session->posted == session->over || now))
                close_pair(session);
        if (session->state == RDX_CLOSED && session->batches == NULL) {
                assert(session->flows == NULL && session->posted == session->over);
                session_state(session, RDX_SLOT_FREE);
                rdx_registry_release(session->record);
                session->record = NULL;
        }
}

/* The record's end message: once for each that was taken. */
void rdx_session_over(struct lp_msg *msg)
{
        struct rdx_record *record = container_of(msg, struct rdx_record, end_msg);
        struct rdx_session *session = record->session;

        assert(record->state == RDX_RECORD_TAKEN && record->ended);
        if (session == NULL)
                rdx_registry_release(record); /* it never came to be */
        else if (session->state == RDX_LIVE || session->state == RDX_FAILING)
                rdma_session_drain(session);
}

/* ---- established ----------------------------------------------------------------------------- */

void rdx_session_established(struct rdx_session *session)
{
        assert(rdx_on_loop(session->home));
        if (session->established)
                return;
        session->established = true;
        rdx_requests_go(session, 0);
}

void rdx_home_established(struct lp_msg *msg)
{
        struct rdx_home *home = container_of(msg, struct rdx_home, established_msg);
        unsigned i;

        assert(rdx_on_loop(home));
        atomic_store(&home->established_sent, false); /* first: what comes meanwhile is told anew */
        for (i = 0; i < home->slot_count; i++) {
                struct rdx_session *session = &home->slot[i];

                if (session->state == RDX_LIVE && atomic_load(&session->record->established))
                        rdx_session_established(session);
        }
}

/* ---- time ------------------------------------------------------------------------------------ */

static void rdma_session_check_time(struct rdx_session *session, uint64_t now)
{
        uint64_t stall = session->home->server->limits.stall_ms * RDX_NS_PER_MS;

        assert(session->state == RDX_SLOT_FREE || session->record != NULL);
        rdx_requests_give_up(session, now);
        if (session->state == RDX_LIVE && session->posted != session->over && now - session->progress >= stall)
                rdx_session_fail(session, RDX_END_STALLED);
        else if (session->state == RDX_LIVE && !session->established && now >= session->record->connect_by)
                rdx_session_fail(session, RDX_END_UNCONNECTED);
        else if (session->state == RDX_DRAINING && now >= session->drain_by)
                rdx_session_check(session, true);
}

void rdx_home_tick(struct lp_timer *timer)
{
        struct rdx_home *home = container_of(timer, struct rdx_home, timer);
        uint64_t now = lp_now(home->loop);
        unsigned i;

        rdx_registry_expire(home, now);
        for (i = 0; i < home->slot_count; i++)
                rdma_session_check_time(&home->slot[i], now);
        for (i = 0; i < home->server->endpoint_count; i++)
                rdx_dialer_tick(home->connection[i].dialer, now);
        /* It is in the heap's memory already, so it cannot be refused. */
        if (!atomic_load(&home->server->stopped))
                lp_timer_start(home->loop, &home->timer, RDX_TICK_NS);
}

/*
 * After the loops have stopped: what is draining need not wait; what lives is ended by message, in
 * the drain of the loops.
 */
void rdx_home_stop(struct rdx_home *home)
{
        unsigned i;

        for (i = 0; i < home->slot_count; i++)
                if (home->slot[i].state == RDX_DRAINING)
                        rdx_session_check(&home->slot[i], true);
        for (i = 0; i < home->server->endpoint_count; i++)
                rdx_dialer_stop(home->connection[i].dialer, -ESHUTDOWN);
}
