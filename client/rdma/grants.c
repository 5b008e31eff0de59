/*
 * grants.c - grants from their asking to their end, on the thread of their connection, which alone
 * touches the RDMA session.
 *
 *   WAITING ──(session, memory, room)──> GRANTED ──mr_grant_over()──> settled ──> ended()
 *      ^                                    └─ the session is lost: fenced at once; ended() as soon as the request is over
 *      └── asked: any thread, by the inbox
 *
 * The client's half of I7: ended() is called only when nobody can touch the memory any more: the
 * notice is here and the right was ended, or the session was fenced. Bounds (I9): what waits is
 * bounded by what the program has begun, what is granted by the session's limits.
 */
#include "client/rdma/grants.h"

#include "client/http/client_request.h"
#include "client/rdma/memory.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#define NOTICE_MS 30000 /* docs/rdma-protocol.md, "Errors, timeouts, fencing" */

static void push(struct grant_list *list, struct mr_grant *grant)
{
        grant->next = NULL;
        grant->prev = list->last;
        if (list->last != NULL)
                list->last->next = grant;
        else
                list->first = grant;
        list->last = grant;
}

static void unlink_grant(struct grant_list *list, struct mr_grant *grant)
{
        if (grant->prev != NULL)
                grant->prev->next = grant->next;
        else
                list->first = grant->next;
        if (grant->next != NULL)
                grant->next->prev = grant->prev;
        else
                list->last = grant->prev;
        grant->next = NULL;
        grant->prev = NULL;
}

static bool stopped(const struct mr_connection *connection, const struct mr_grant *grant)
{
        if (grant->stop != NULL && atomic_load(grant->stop))
                return true;
        if (grant->canceled != NULL && atomic_load(grant->canceled))
                return true;
        return mr_client_canceled(connection->client);
}

/* ---- any thread ------------------------------------------------------------------------------ */

void mr_connection_wake(struct mr_connection *connection)
{
        uint64_t one = 1;
        ssize_t n = write(connection->wake_fd, &one, sizeof(one));

        (void)n; /* full means that it wakes anyway */
}

void mr_grants_add(struct mr_connection *connection, struct mr_grant *grant)
{
        assert(grant->len > 0);
        grant->connection = connection;
        grant->bound = false;
        grant->over = false;
        grant->noticed = false;
        grant->due_ms = mr_core_clock_ms() + grant->delay_ms;
        memset(&grant->error, 0, sizeof(grant->error));
        memset(&grant->binding, 0, sizeof(grant->binding));
        pthread_mutex_lock(&connection->lock);
        push(&connection->asked, grant);
        pthread_mutex_unlock(&connection->lock);
        mr_connection_wake(connection);
}

void mr_grant_over(struct mr_grant *grant, enum mr_grant_end how)
{
        struct mr_connection *connection = grant->connection;

        MR_CHECK(mr_grant, grant);
        MR_CHECK(mr_connection, connection);
        pthread_mutex_lock(&connection->lock);
        grant->how = how;
        grant->over = true;
        pthread_mutex_unlock(&connection->lock);
        mr_connection_wake(connection);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* The last that is done with a grant: it may be gone when the callback returns. */
static void grant_refuse(struct mr_connection *connection, struct mr_grant *grant, int rv)
{
        struct mr_client *client = connection->client;

        MR_CHECK(mr_grant, grant);
        assert(!grant->bound);
        unlink_grant(&connection->waiting, grant);
        mr_rdma_context_give_endpoint(client, grant);
        if (grant->error.code == 0)
                mr_failure_errno(&grant->error, rv);
        grant->granted(grant->arg, grant, rv);
        mr_core_leave(client);
}

static void grant_end(struct mr_connection *connection, struct mr_grant *grant, int rv)
{
        struct mr_client *client = connection->client;

        MR_CHECK(mr_grant, grant);
        assert(!grant->bound && connection->granted_count > 0);
        unlink_grant(&connection->granted, grant);
        connection->granted_count--;
        mr_rdma_context_give_endpoint(client, grant);
        explicit_bzero(&grant->key, sizeof(grant->key));
        grant->ended(grant->arg, grant, rv);
        mr_core_leave(client);
}

/* Nobody writes to anything any more: every right is over. Grants stay until their requests are. */
void mr_grants_lose(struct mr_connection *connection, bool our_will)
{
        struct mr_grant *grant;

        if (connection->session.rdx == NULL)
                return;
        rdx_client_fence(connection->session.rdx);
        for (grant = connection->granted.first; grant != NULL; grant = grant->next) {
                if (!grant->bound)
                        continue;
                grant->noticed = rdx_window_binding_noticed(&grant->binding);
                (void)rdx_window_binding_close(&grant->binding, false);
                grant->bound = false;
        }
        mr_connection_session_lost(&connection->session, our_will);
}

/* ---- granted grants -------------------------------------------------------------------------- */

static void settle_lost(struct mr_connection *connection, struct mr_grant *grant)
{
        bool good = grant->how == MR_LEASE_QUIET || (grant->how == MR_LEASE_NOTICED && grant->noticed);

        grant_end(connection, grant, good ? 0 : grant->how == MR_LEASE_UNWANTED ? -ECANCELED : -ENOTCONN);
}

/* Closing a right may end the session by itself: then all others end with it. */
static void grant_close_window(struct mr_connection *connection, struct mr_grant *grant, bool no_notice)
{
        int rv = rdx_window_binding_close(&grant->binding, no_notice);

        grant->bound = false;
        if (rv != 0)
                mr_grants_lose(connection, false);
        grant_end(connection, grant, rv);
}

static void look_over(struct mr_connection *connection, struct mr_grant *grant, int64_t now)
{
        if (grant->bound && grant->how == MR_LEASE_QUIET) {
                grant_close_window(connection, grant, true);
                return;
        }
        if (grant->bound && grant->how == MR_LEASE_NOTICED) {
                if (rdx_window_binding_noticed(&grant->binding)) {
                        grant_close_window(connection, grant, false);
                        return;
                }
                if (grant->due_ms == INT64_MAX)
                        grant->due_ms = now + NOTICE_MS;
                if (now < grant->due_ms)
                        return;
        }
        if (grant->bound)
                mr_grants_lose(connection, grant->how == MR_LEASE_UNWANTED);
        settle_lost(connection, grant);
}

static void look_batch(struct mr_connection *connection, struct mr_grant *grant, int64_t now)
{
        int rv = -ENOTCONN;

        if (grant->bound && rdx_window_binding_noticed(&grant->binding)) {
                grant_close_window(connection, grant, false);
                return;
        }
        if (grant->bound) {
                bool unwanted = stopped(connection, grant);

                if (!unwanted && now < grant->due_ms)
                        return;
                rv = unwanted ? -ECANCELED : -ETIMEDOUT;
                mr_grants_lose(connection, unwanted);
        }
        grant_end(connection, grant, grant->noticed ? 0 : rv);
}

static bool grant_is_over(struct mr_connection *connection, const struct mr_grant *grant)
{
        bool over;

        pthread_mutex_lock(&connection->lock);
        over = grant->over;
        pthread_mutex_unlock(&connection->lock);
        return over;
}

void mr_grants_look(struct mr_connection *connection)
{
        int64_t now = mr_core_clock_ms();
        struct mr_grant *grant = connection->granted.first;

        while (grant != NULL) {
                struct mr_grant *next = grant->next;

                /* callbacks add to other lists only, so next stays */
                if (grant_is_over(connection, grant))
                        look_over(connection, grant, now);
                else if (grant->replies > 0)
                        look_batch(connection, grant, now);
                grant = next;
        }
}

void mr_grants_result(struct mr_connection *connection, const struct rdx_client_result *result)
{
        struct mr_grant *grant = connection->granted.first;

        /* one that was lost with another session may have the same number */
        while (grant != NULL && (!grant->bound || grant->replies == 0 || grant->number != result->number))
                grant = grant->next;
        if (grant == NULL)
                return;
        grant->due_ms = mr_core_clock_ms() + NOTICE_MS;
        if (grant->result != NULL)
                grant->result(grant->arg, grant, result);
}

int mr_grant_batch(struct mr_grant *grant, const struct rdx_client_batch *batch, const struct rdx_entry *entries,
                   unsigned count, unsigned *sent)
{
        MR_CHECK(mr_grant, grant);
        *sent = 0;
        if (!grant->bound)
                return -ENOTCONN;
        grant->due_ms = mr_core_clock_ms() + NOTICE_MS;
        return rdx_client_batch(grant->connection->session.rdx, &grant->binding, batch, entries, count, sent);
}

void mr_grant_describe(const struct mr_grant *grant, struct mr_rdma_report *out)
{
        mr_connection_session_describe(&grant->connection->session, out);
}

/* ---- waiting grants -------------------------------------------------------------------------- */

/* 0: granted; -EAGAIN: no room now; -ENOTCONN: the session is over; else the grant was refused. */
static int give_grant(struct mr_connection *connection, struct mr_grant *grant)
{
        struct mr_connection_session *session = &connection->session;
        struct rdx_memory *memory;
        int rv;

        if (grant->len > session->opened.window_bytes) {
                grant_refuse(connection, grant,
                             mr_failure(&grant->error, -EOPNOTSUPP, "longer than the endpoint's windows"));
                return 0;
        }
        rv = mr_memory_of(&connection->memory, session->domain, grant->buffer, &memory);
        if (rv != 0) {
                mr_failure(&grant->error, rv, "the memory cannot be registered: %s", strerror(-rv));
                grant_refuse(connection, grant, rv);
                return 0;
        }
        rv = rdx_window_binding_open(session->rdx, memory, grant->offset, grant->len, grant->read, grant->replies,
                           &grant->binding);
        if (rv == -EAGAIN && connection->granted_count > 0)
                return rv;
        if (rv == -EAGAIN) { /* nobody's end would make room */
                grant_refuse(connection, grant,
                             mr_failure(&grant->error, -EOPNOTSUPP, "the session takes no request like this"));
                return 0;
        }
        if (rv != 0) {
                mr_grants_lose(connection, false);
                return -ENOTCONN;
        }
        grant->bound = true;
        grant->place = grant->binding.place;
        grant->number = grant->binding.number;
        grant->key = session->key;
        grant->due_ms = grant->replies > 0 ? mr_core_clock_ms() + NOTICE_MS : INT64_MAX;
        unlink_grant(&connection->waiting, grant);
        push(&connection->granted, grant);
        connection->granted_count++;
        session->used = true;
        grant->granted(grant->arg, grant, 0);
        return 0;
}

/* Those that need not, or may not, wait any longer. */
static void grant_end_waiting(struct mr_connection *connection, struct mr_error *refusal, int rv, bool all)
{
        struct mr_grant *grant = connection->waiting.first;

        while (grant != NULL) {
                struct mr_grant *next = grant->next;

                if (stopped(connection, grant)) {
                        grant_refuse(connection, grant, mr_failure(&grant->error, -ECANCELED, "canceled"));
                } else if (rv != 0 && (all || !grant->insist)) {
                        grant->error = *refusal;
                        grant_refuse(connection, grant, rv);
                }
                grant = next;
        }
}

/* The first grant that may be granted now. */
static struct mr_grant *due(struct mr_connection *connection)
{
        int64_t now = mr_core_clock_ms();
        struct mr_grant *grant = connection->waiting.first;

        while (grant != NULL && grant->due_ms > now)
                grant = grant->next;
        return grant;
}

void mr_grants_sweep(struct mr_connection *connection)
{
        grant_end_waiting(connection, NULL, 0, false);
}

void mr_grants_take(struct mr_connection *connection)
{
        struct mr_grant *grant;

        pthread_mutex_lock(&connection->lock);
        while ((grant = connection->asked.first) != NULL) {
                unlink_grant(&connection->asked, grant);
                push(&connection->waiting, grant);
        }
        pthread_mutex_unlock(&connection->lock);
}

void mr_grants_give(struct mr_connection *connection)
{
        struct mr_connection_session *session = &connection->session;
        struct mr_grant *grant;
        struct mr_error err;
        int rv;

        mr_grants_sweep(connection);
        while ((grant = due(connection)) != NULL) {
                rv = mr_connection_session_refused(session, grant->insist, &err);
                if (rv != 0) {
                        grant->error = err;
                        grant_refuse(connection, grant, rv);
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
                if (give_grant(connection, grant) == -EAGAIN)
                        return;
        }
}

int64_t mr_grants_due(const struct mr_connection *connection, int64_t now)
{
        int64_t next = INT64_MAX;

        for (struct mr_grant *grant = connection->waiting.first; grant != NULL; grant = grant->next)
                if (grant->due_ms > now && grant->due_ms < next) /* others wait for room, and are told by an end */
                        next = grant->due_ms;
        for (struct mr_grant *grant = connection->granted.first; grant != NULL; grant = grant->next)
                if (grant->due_ms < next)
                        next = grant->due_ms;
        return next;
}
