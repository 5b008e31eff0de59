/*
 * grants.c - leases from their asking to their end, on the thread of their connection, which alone touches the RDMA session.
 *
 *   WAITING ──(session, memory, room)──> GRANTED ──mr_lease_over()──> settled ──> ended()
 *      ^                                    └─ the session is lost: fenced at once; ended() as soon as the request is over
 *      └── asked: any thread, by the inbox
 *
 * The client's half of I7: ended() is called only when nobody can touch the memory any more: the notice is here and the right was ended, or the session was
 * fenced. Bounds (I9): what waits is bounded by what the program has begun, what is granted by the session's limits.
 */
#include "client/rdma/grants.h"

#include "client/http/client_request.h"
#include "client/rdma/memory.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NOTICE_MS 30000 /* docs/rdma-protocol.md, "Errors, timeouts, fencing" */

static void push(struct lease_list *list, struct mr_lease *lease)
{
        lease->next = NULL;
        lease->prev = list->last;
        if (list->last != NULL)
                list->last->next = lease;
        else
                list->first = lease;
        list->last = lease;
}

static void unlink_lease(struct lease_list *list, struct mr_lease *lease)
{
        if (lease->prev != NULL)
                lease->prev->next = lease->next;
        else
                list->first = lease->next;
        if (lease->next != NULL)
                lease->next->prev = lease->prev;
        else
                list->last = lease->prev;
        lease->next = NULL;
        lease->prev = NULL;
}

static bool stopped(const struct mr_connection *connection, const struct mr_lease *lease)
{
        if (lease->stop != NULL && atomic_load(lease->stop))
                return true;
        if (lease->canceled != NULL && atomic_load(lease->canceled))
                return true;
        return mr_client_canceled(connection->client);
}

/* ---- any thread ---------------------------------------------------------------------------------- */

void mr_connection_wake(struct mr_connection *connection)
{
        uint64_t one = 1;
        ssize_t n = write(connection->wake_fd, &one, sizeof(one));

        (void)n; /* full means that it wakes anyway */
}

void mr_leases_add(struct mr_connection *connection, struct mr_lease *lease)
{
        assert(lease->len > 0);
        lease->connection = connection;
        lease->bound = false;
        lease->over = false;
        lease->noticed = false;
        lease->due_ms = mr_core_clock_ms() + lease->delay_ms;
        memset(&lease->error, 0, sizeof(lease->error));
        memset(&lease->binding, 0, sizeof(lease->binding));
        pthread_mutex_lock(&connection->lock);
        push(&connection->asked, lease);
        pthread_mutex_unlock(&connection->lock);
        mr_connection_wake(connection);
}

void mr_lease_over(struct mr_lease *lease, enum mr_lease_end how)
{
        struct mr_connection *connection = lease->connection;

        MR_CHECK(mr_lease, lease);
        MR_CHECK(mr_connection, connection);
        pthread_mutex_lock(&connection->lock);
        lease->how = how;
        lease->over = true;
        pthread_mutex_unlock(&connection->lock);
        mr_connection_wake(connection);
}

/* ---- ends ---------------------------------------------------------------------------------------- */

/* The last that is done with a lease: it may be gone when the callback returns. */
static void grant_refuse(struct mr_connection *connection, struct mr_lease *lease, int rv)
{
        struct mr_client *client = connection->client;

        MR_CHECK(mr_lease, lease);
        assert(!lease->bound);
        unlink_lease(&connection->waiting, lease);
        if (lease->error.code == 0)
                mr_failure_errno(&lease->error, rv);
        lease->granted(lease->arg, lease, rv);
        mr_core_leave(client);
}

static void grant_end(struct mr_connection *connection, struct mr_lease *lease, int rv)
{
        struct mr_client *client = connection->client;

        MR_CHECK(mr_lease, lease);
        assert(!lease->bound && connection->granted_count > 0);
        unlink_lease(&connection->granted, lease);
        connection->granted_count--;
        explicit_bzero(&lease->key, sizeof(lease->key));
        lease->ended(lease->arg, lease, rv);
        mr_core_leave(client);
}

/* Nobody writes to anything any more: every right is over. Leases stay until their requests are. */
void mr_leases_lose(struct mr_connection *connection, bool our_will)
{
        struct mr_lease *lease;

        if (connection->session.rdx == NULL)
                return;
        rdx_client_fence(connection->session.rdx);
        for (lease = connection->granted.first; lease != NULL; lease = lease->next) {
                if (!lease->bound)
                        continue;
                lease->noticed = rdx_grip_noticed(&lease->binding);
                (void)rdx_grip_close(&lease->binding, false);
                lease->bound = false;
        }
        mr_connection_session_lost(&connection->session, our_will);
}

/* ---- granted leases ------------------------------------------------------------------------------ */

static void settle_lost(struct mr_connection *connection, struct mr_lease *lease)
{
        bool good = lease->how == MR_LEASE_QUIET || (lease->how == MR_LEASE_NOTICED && lease->noticed);

        grant_end(connection, lease, good ? 0 : lease->how == MR_LEASE_UNWANTED ? -ECANCELED : -ENOTCONN);
}

/* Closing a right may end the session by itself: then all others end with it. */
static void grant_close_window(struct mr_connection *connection, struct mr_lease *lease, bool no_notice)
{
        int rv = rdx_grip_close(&lease->binding, no_notice);

        lease->bound = false;
        if (rv != 0)
                mr_leases_lose(connection, false);
        grant_end(connection, lease, rv);
}

static void look_over(struct mr_connection *connection, struct mr_lease *lease, int64_t now)
{
        if (lease->bound && lease->how == MR_LEASE_QUIET) {
                grant_close_window(connection, lease, true);
                return;
        }
        if (lease->bound && lease->how == MR_LEASE_NOTICED) {
                if (rdx_grip_noticed(&lease->binding)) {
                        grant_close_window(connection, lease, false);
                        return;
                }
                if (lease->due_ms == INT64_MAX)
                        lease->due_ms = now + NOTICE_MS;
                if (now < lease->due_ms)
                        return;
        }
        if (lease->bound)
                mr_leases_lose(connection, lease->how == MR_LEASE_UNWANTED);
        settle_lost(connection, lease);
}

static void look_batch(struct mr_connection *connection, struct mr_lease *lease, int64_t now)
{
        int rv = -ENOTCONN;

        if (lease->bound && rdx_grip_noticed(&lease->binding)) {
                grant_close_window(connection, lease, false);
                return;
        }
        if (lease->bound) {
                bool unwanted = stopped(connection, lease);

                if (!unwanted && now < lease->due_ms)
                        return;
                rv = unwanted ? -ECANCELED : -ETIMEDOUT;
                mr_leases_lose(connection, unwanted);
        }
        grant_end(connection, lease, lease->noticed ? 0 : rv);
}

static bool grant_is_over(struct mr_connection *connection, const struct mr_lease *lease)
{
        bool over;

        pthread_mutex_lock(&connection->lock);
        over = lease->over;
        pthread_mutex_unlock(&connection->lock);
        return over;
}

void mr_leases_look(struct mr_connection *connection)
{
        int64_t now = mr_core_clock_ms();
        struct mr_lease *lease = connection->granted.first;

        while (lease != NULL) {
                struct mr_lease *next = lease->next;

                /* callbacks add to other lists only, so next stays */
                if (grant_is_over(connection, lease))
                        look_over(connection, lease, now);
                else if (lease->replies > 0)
                        look_batch(connection, lease, now);
                lease = next;
        }
}

void mr_leases_result(struct mr_connection *connection, const struct rdx_client_result *result)
{
        struct mr_lease *lease = connection->granted.first;

        /* one that was lost with another session may have the same number */
        while (lease != NULL && (!lease->bound || lease->replies == 0 || lease->number != result->number))
                lease = lease->next;
        if (lease == NULL)
                return;
        lease->due_ms = mr_core_clock_ms() + NOTICE_MS;
        if (lease->result != NULL)
                lease->result(lease->arg, lease, result);
}

int mr_lease_batch(struct mr_lease *lease, const struct rdx_client_batch *batch, const struct rdx_entry *entries,
                   unsigned count, unsigned *sent)
{
        MR_CHECK(mr_lease, lease);
        *sent = 0;
        if (!lease->bound)
                return -ENOTCONN;
        lease->due_ms = mr_core_clock_ms() + NOTICE_MS;
        return rdx_client_batch(lease->connection->session.rdx, &lease->binding, batch, entries, count, sent);
}

void mr_lease_describe(const struct mr_lease *lease, struct mr_rdma_report *out)
{
        mr_connection_session_describe(&lease->connection->session, out);
}

/* ---- waiting leases ------------------------------------------------------------------------------ */

/* 0: granted; -EAGAIN: no room now; -ENOTCONN: the session is over; else the lease was refused. */
static int grant(struct mr_connection *connection, struct mr_lease *lease)
{
        struct mr_connection_session *session = &connection->session;
        struct rdx_memory *memory;
        int rv;

        if (lease->len > session->opened.window_bytes) {
                grant_refuse(connection, lease,
                             mr_failure(&lease->error, -EOPNOTSUPP, "longer than the endpoint's windows"));
                return 0;
        }
        rv = mr_memory_of(&connection->memory, session->link, lease->buffer, &memory);
        if (rv != 0) {
                mr_failure(&lease->error, rv, "the memory cannot be registered: %s", strerror(-rv));
                grant_refuse(connection, lease, rv);
                return 0;
        }
        rv = rdx_grip_open(session->rdx, memory, lease->offset, lease->len, lease->read, lease->replies,
                           &lease->binding);
        if (rv == -EAGAIN && connection->granted_count > 0)
                return rv;
        if (rv == -EAGAIN) { /* nobody's end would make room */
                grant_refuse(connection, lease,
                             mr_failure(&lease->error, -EOPNOTSUPP, "the session takes no request like this"));
                return 0;
        }
        if (rv != 0) {
                mr_leases_lose(connection, false);
                return -ENOTCONN;
        }
        lease->bound = true;
        lease->place = lease->binding.place;
        lease->number = lease->binding.number;
        lease->key = session->key;
        lease->due_ms = lease->replies > 0 ? mr_core_clock_ms() + NOTICE_MS : INT64_MAX;
        unlink_lease(&connection->waiting, lease);
        push(&connection->granted, lease);
        connection->granted_count++;
        session->used = true;
        lease->granted(lease->arg, lease, 0);
        return 0;
}

/* Those that need not, or may not, wait any longer. */
static void grant_end_waiting(struct mr_connection *connection, struct mr_error *refusal, int rv, bool all)
{
        struct mr_lease *lease = connection->waiting.first;

        while (lease != NULL) {
                struct mr_lease *next = lease->next;

                if (stopped(connection, lease)) {
                        grant_refuse(connection, lease, mr_failure(&lease->error, -ECANCELED, "canceled"));
                } else if (rv != 0 && (all || !lease->insist)) {
                        lease->error = *refusal;
                        grant_refuse(connection, lease, rv);
                }
                lease = next;
        }
}

/* The first lease that may be granted now. */
static struct mr_lease *due(struct mr_connection *connection)
{
        int64_t now = mr_core_clock_ms();
        struct mr_lease *lease = connection->waiting.first;

        while (lease != NULL && lease->due_ms > now)
                lease = lease->next;
        return lease;
}

void mr_leases_sweep(struct mr_connection *connection)
{
        grant_end_waiting(connection, NULL, 0, false);
}

void mr_leases_take(struct mr_connection *connection)
{
        struct mr_lease *lease;

        pthread_mutex_lock(&connection->lock);
        while ((lease = connection->asked.first) != NULL) {
                unlink_lease(&connection->asked, lease);
                push(&connection->waiting, lease);
        }
        pthread_mutex_unlock(&connection->lock);
}

void mr_leases_grant(struct mr_connection *connection)
{
        struct mr_connection_session *session = &connection->session;
        struct mr_lease *lease;
        struct mr_error err;
        int rv;

        mr_leases_sweep(connection);
        while ((lease = due(connection)) != NULL) {
                rv = mr_connection_session_refused(session, &err);
                if (rv != 0 && (!lease->insist || mr_connection_session_lasting(session))) {
                        lease->error = err;
                        grant_refuse(connection, lease, rv);
                        continue;
                }
                if (session->rdx != NULL && mr_connection_session_old(session))
                        return; /* another is opened as soon as nothing is leased of this one */
                if (session->rdx == NULL) {
                        rv = mr_connection_session_open(session, &err);
                        if (rv != 0)
                                grant_end_waiting(connection, &err, rv, true);
                        continue;
                }
                if (grant(connection, lease) == -EAGAIN)
                        return;
        }
}

int64_t mr_leases_due(const struct mr_connection *connection, int64_t now)
{
        int64_t next = INT64_MAX;

        for (struct mr_lease *lease = connection->waiting.first; lease != NULL; lease = lease->next)
                if (lease->due_ms > now && lease->due_ms < next) /* others wait for room, and are told by an end */
                        next = lease->due_ms;
        for (struct mr_lease *lease = connection->granted.first; lease != NULL; lease = lease->next)
                if (lease->due_ms < next)
                        next = lease->due_ms;
        return next;
}
