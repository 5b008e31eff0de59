/*
 * leases.c - leases from their asking to their end, on the thread of their lane, which alone touches the RDMA session.
 *
 *   WAITING ──(session, memory, room)──> GRANTED ──mr_lease_over()──> settled ──> ended()
 *      ^                                    └─ the session is lost: fenced at once; ended() as soon as the request is over
 *      └── asked: any thread, by the inbox
 *
 * The client's half of I7: ended() is called only when nobody can touch the memory any more: the notice is here and the right was ended, or the session was
 * fenced. Bounds (I9): what waits is bounded by what the program has begun, what is granted by the session's limits.
 */
#include "client/rdma/leases.h"

#include "client/http/http_request.h"
#include "client/rdma/memory.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

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

static bool stopped(const struct mr_lane *lane, const struct mr_lease *lease)
{
        if (lease->stop != NULL && atomic_load(lease->stop))
                return true;
        if (lease->canceled != NULL && atomic_load(lease->canceled))
                return true;
        return mr_client_canceled(lane->client);
}

/* ---- any thread ---------------------------------------------------------------------------------- */

int mr_lease_ask(struct mr_client *client, struct mr_lease *lease)
{
        struct mr_lane *lane;
        int rv = mr_core_enter(client);

        if (rv != 0)
                return rv;
        rv = mr_fabric_lane(client, mr_buffer_lane(lease->buffer), &lane);
        if (rv != 0) {
                mr_core_leave(client);
                return rv;
        }
        assert(lease->len > 0);
        lease->lane = lane;
        lease->gripped = false;
        lease->over = false;
        lease->noticed = false;
        lease->due_ms = mr_core_clock_ms() + lease->delay_ms;
        memset(&lease->error, 0, sizeof(lease->error));
        memset(&lease->grip, 0, sizeof(lease->grip));
        pthread_mutex_lock(&lane->lock);
        push(&lane->asked, lease);
        pthread_mutex_unlock(&lane->lock);
        mr_lane_wake(lane);
        return 0;
}

void mr_lease_over(struct mr_lease *lease, enum mr_lease_end how)
{
        struct mr_lane *lane = lease->lane;

        pthread_mutex_lock(&lane->lock);
        lease->how = how;
        lease->over = true;
        pthread_mutex_unlock(&lane->lock);
        mr_lane_wake(lane);
}

/* ---- ends ---------------------------------------------------------------------------------------- */

/* The last that is done with a lease: it may be gone when the callback returns. */
static void refuse(struct mr_lane *lane, struct mr_lease *lease, int rv)
{
        struct mr_client *client = lane->client;

        unlink_lease(&lane->waiting, lease);
        if (lease->error.code == 0)
                mr_failure_errno(&lease->error, rv);
        lease->granted(lease->arg, lease, rv);
        mr_core_leave(client);
}

static void end(struct mr_lane *lane, struct mr_lease *lease, int rv)
{
        struct mr_client *client = lane->client;

        unlink_lease(&lane->granted, lease);
        lane->granted_count--;
        explicit_bzero(&lease->key, sizeof(lease->key));
        lease->ended(lease->arg, lease, rv);
        mr_core_leave(client);
}

/* Nobody writes to anything any more: every right is over. Leases stay until their requests are. */
void mr_leases_lose(struct mr_lane *lane, bool our_will)
{
        struct mr_lease *lease;

        if (lane->session.rdx == NULL)
                return;
        rdx_client_fence(lane->session.rdx);
        for (lease = lane->granted.first; lease != NULL; lease = lease->next) {
                if (!lease->gripped)
                        continue;
                lease->noticed = rdx_grip_noticed(&lease->grip);
                (void)rdx_grip_close(&lease->grip, false);
                lease->gripped = false;
        }
        mr_lane_session_lost(&lane->session, our_will);
}

/* ---- granted leases ------------------------------------------------------------------------------ */

static void settle_lost(struct mr_lane *lane, struct mr_lease *lease)
{
        bool good = lease->how == MR_LEASE_QUIET || (lease->how == MR_LEASE_NOTICED && lease->noticed);

        end(lane, lease, good ? 0 : lease->how == MR_LEASE_UNWANTED ? -ECANCELED : -ENOTCONN);
}

/* Closing a right may end the session by itself: then all others end with it. */
static void settle(struct mr_lane *lane, struct mr_lease *lease, bool no_notice)
{
        int rv = rdx_grip_close(&lease->grip, no_notice);

        lease->gripped = false;
        if (rv != 0)
                mr_leases_lose(lane, false);
        end(lane, lease, rv);
}

static void look_over(struct mr_lane *lane, struct mr_lease *lease, int64_t now)
{
        if (lease->gripped && lease->how == MR_LEASE_QUIET) {
                settle(lane, lease, true);
                return;
        }
        if (lease->gripped && lease->how == MR_LEASE_NOTICED) {
                if (rdx_grip_noticed(&lease->grip)) {
                        settle(lane, lease, false);
                        return;
                }
                if (lease->due_ms == INT64_MAX)
                        lease->due_ms = now + NOTICE_MS;
                if (now < lease->due_ms)
                        return;
        }
        if (lease->gripped)
                mr_leases_lose(lane, lease->how == MR_LEASE_UNWANTED);
        settle_lost(lane, lease);
}

static void look_batch(struct mr_lane *lane, struct mr_lease *lease, int64_t now)
{
        int rv = -ENOTCONN;

        if (lease->gripped && rdx_grip_noticed(&lease->grip)) {
                settle(lane, lease, false);
                return;
        }
        if (lease->gripped) {
                bool unwanted = stopped(lane, lease);

                if (!unwanted && now < lease->due_ms)
                        return;
                rv = unwanted ? -ECANCELED : -ETIMEDOUT;
                mr_leases_lose(lane, unwanted);
        }
        end(lane, lease, lease->noticed ? 0 : rv);
}

static bool is_over(struct mr_lane *lane, const struct mr_lease *lease)
{
        bool over;

        pthread_mutex_lock(&lane->lock);
        over = lease->over;
        pthread_mutex_unlock(&lane->lock);
        return over;
}

void mr_leases_look(struct mr_lane *lane)
{
        int64_t now = mr_core_clock_ms();
        struct mr_lease *lease = lane->granted.first;

        while (lease != NULL) {
                struct mr_lease *next = lease->next;

                /* callbacks add to other lists only, so next stays */
                if (is_over(lane, lease))
                        look_over(lane, lease, now);
                else if (lease->replies > 0)
                        look_batch(lane, lease, now);
                lease = next;
        }
}

void mr_leases_result(struct mr_lane *lane, const struct rdx_client_result *result)
{
        struct mr_lease *lease = lane->granted.first;

        /* one that was lost with another session may have the same number */
        while (lease != NULL && (!lease->gripped || lease->replies == 0 || lease->number != result->number))
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
        *sent = 0;
        if (!lease->gripped)
                return -ENOTCONN;
        lease->due_ms = mr_core_clock_ms() + NOTICE_MS;
        return rdx_client_batch(lease->lane->session.rdx, &lease->grip, batch, entries, count, sent);
}

void mr_lease_describe(const struct mr_lease *lease, struct mr_rdma_report *out)
{
        mr_lane_session_describe(&lease->lane->session, out);
}

/* ---- waiting leases ------------------------------------------------------------------------------ */

/* 0: granted; -EAGAIN: no room now; -ENOTCONN: the session is over; else the lease was refused. */
static int grant(struct mr_lane *lane, struct mr_lease *lease)
{
        struct mr_lane_session *session = &lane->session;
        struct rdx_memory *memory;
        int rv;

        if (lease->len > session->opened.window_bytes) {
                refuse(lane, lease, mr_failure(&lease->error, -EOPNOTSUPP, "longer than the endpoint's windows"));
                return 0;
        }
        rv = mr_memory_of(lane, session->link, lease->buffer, &memory);
        if (rv != 0) {
                mr_failure(&lease->error, rv, "the memory cannot be registered: %s", strerror(-rv));
                refuse(lane, lease, rv);
                return 0;
        }
        rv = rdx_grip_open(session->rdx, memory, lease->offset, lease->len, lease->read, lease->replies, &lease->grip);
        if (rv == -EAGAIN && lane->granted_count > 0)
                return rv;
        if (rv == -EAGAIN) { /* nobody's end would make room */
                refuse(lane, lease, mr_failure(&lease->error, -EOPNOTSUPP, "the session takes no request like this"));
                return 0;
        }
        if (rv != 0) {
                mr_leases_lose(lane, false);
                return -ENOTCONN;
        }
        lease->gripped = true;
        lease->place = lease->grip.place;
        lease->number = lease->grip.number;
        lease->key = session->key;
        lease->due_ms = lease->replies > 0 ? mr_core_clock_ms() + NOTICE_MS : INT64_MAX;
        unlink_lease(&lane->waiting, lease);
        push(&lane->granted, lease);
        lane->granted_count++;
        session->used = true;
        lease->granted(lease->arg, lease, 0);
        return 0;
}

/* Those that need not, or may not, wait any longer. */
static void sweep(struct mr_lane *lane, struct mr_error *refusal, int rv, bool all)
{
        struct mr_lease *lease = lane->waiting.first;

        while (lease != NULL) {
                struct mr_lease *next = lease->next;

                if (stopped(lane, lease)) {
                        refuse(lane, lease, mr_failure(&lease->error, -ECANCELED, "canceled"));
                } else if (rv != 0 && (all || !lease->insist)) {
                        lease->error = *refusal;
                        refuse(lane, lease, rv);
                }
                lease = next;
        }
}

/* The first lease that may be granted now. */
static struct mr_lease *due(struct mr_lane *lane)
{
        int64_t now = mr_core_clock_ms();
        struct mr_lease *lease = lane->waiting.first;

        while (lease != NULL && lease->due_ms > now)
                lease = lease->next;
        return lease;
}

void mr_leases_sweep(struct mr_lane *lane)
{
        sweep(lane, NULL, 0, false);
}

void mr_leases_take(struct mr_lane *lane)
{
        struct mr_lease *lease;

        pthread_mutex_lock(&lane->lock);
        while ((lease = lane->asked.first) != NULL) {
                unlink_lease(&lane->asked, lease);
                push(&lane->waiting, lease);
        }
        pthread_mutex_unlock(&lane->lock);
}

void mr_leases_grant(struct mr_lane *lane)
{
        struct mr_lane_session *session = &lane->session;
        struct mr_lease *lease;
        struct mr_error err;
        int rv;

        mr_leases_sweep(lane);
        while ((lease = due(lane)) != NULL) {
                rv = mr_lane_session_refused(session, &err);
                if (rv != 0 && (!lease->insist || mr_lane_session_lasting(session))) {
                        lease->error = err;
                        refuse(lane, lease, rv);
                        continue;
                }
                if (session->rdx != NULL && mr_lane_session_old(session))
                        return; /* another is opened as soon as nothing is leased of this one */
                if (session->rdx == NULL) {
                        rv = mr_lane_session_open(session, &err);
                        if (rv != 0)
                                sweep(lane, &err, rv, true);
                        continue;
                }
                if (grant(lane, lease) == -EAGAIN)
                        return;
        }
}

int64_t mr_leases_due(const struct mr_lane *lane, int64_t now)
{
        int64_t next = INT64_MAX;

        for (struct mr_lease *lease = lane->waiting.first; lease != NULL; lease = lease->next)
                if (lease->due_ms > now && lease->due_ms < next) /* others wait for room, and are told by an end */
                        next = lease->due_ms;
        for (struct mr_lease *lease = lane->granted.first; lease != NULL; lease = lease->next)
                if (lease->due_ms < next)
                        next = lease->due_ms;
        return next;
}
