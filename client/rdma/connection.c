/*
 * connection.c - a lane: its thread, how that waits, and the thread's beginning and end. What it does with leases is in leases.c, with sessions in connection_session.c.
 */
#include "client/rdma/leases.h"

#include "client/rdma/memory.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- any thread ---------------------------------------------------------------------------------- */

void mr_lane_wake(struct mr_lane *lane)
{
        uint64_t one = 1;
        ssize_t n = write(lane->wake_fd, &one, sizeof(one));

        (void)n; /* full means that it wakes anyway */
}

int mr_lane_refused(struct mr_lane *lane, struct mr_error *err)
{
        return mr_lane_session_refused(&lane->session, err);
}

struct mr_registration **mr_lane_registrations(struct mr_lane *lane)
{
        return &lane->registrations;
}

struct mr_client *mr_lane_client(const struct mr_lane *lane)
{
        return lane->client;
}

enum mr_lane_kind mr_lane_kind(const struct mr_lane *lane)
{
        return lane->kind;
}

/* ---- the thread ---------------------------------------------------------------------------------- */

static int pause_ms(const struct mr_lane *lane)
{
        int64_t now = mr_core_clock_ms(), next = mr_leases_due(lane, now),
                renewal = mr_lane_session_due(&lane->session);

        if (renewal < next)
                next = renewal;
        if (next == INT64_MAX)
                return -1;
        return next <= now ? 0 : next - now > 60000 ? 60000 : (int)(next - now);
}

/* Until it is woken, one of fd is readable, or the time is over. True: one of them is. */
static bool pause_for(struct mr_lane *lane, const int *fd, unsigned fds, int timeout_ms)
{
        struct pollfd item[3] = {{.fd = lane->wake_fd, .events = POLLIN}};
        uint64_t count;

        for (unsigned i = 0; i < fds; i++)
                item[i + 1] = (struct pollfd){.fd = fd[i], .events = POLLIN};
        (void)poll(item, fds + 1, timeout_ms);
        if ((item[0].revents & POLLIN) != 0 && read(lane->wake_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
                lane->woken = true;
        return fds > 0 && (item[1].revents != 0 || (fds > 1 && item[2].revents != 0));
}

/* While a session is opened: those that were stopped go, the rest waits. */
static void pause_opening(void *arg)
{
        struct mr_lane *lane = arg;

        pause_for(lane, NULL, 0, 1000);
        mr_leases_take(lane);
        mr_leases_sweep(lane);
}

static int wait_opening(void *arg, int fd, unsigned timeout_ms)
{
        struct mr_lane *lane = arg;
        int64_t until = mr_core_clock_ms() + timeout_ms;

        for (;;) {
                int64_t left = until - mr_core_clock_ms();

                if (pause_for(lane, &fd, 1, left > 0 ? (int)left : 0))
                        return 1;
                if (left <= 0 || mr_client_canceled(lane->client))
                        return 0;
                /* callbacks are not called from here: a right may be in the midst of its end */
        }
}

static void noticed(void *arg, uint64_t number)
{
        struct mr_lane *lane = arg;

        lane->woken = true; /* also in the midst of another right's beginning or end */
}

static void result(void *arg, const struct rdx_client_result *came)
{
        mr_leases_result(arg, came);
}

static void wake_opening(void *arg)
{
        mr_lane_wake(arg);
}

static void step(struct mr_lane *lane)
{
        struct mr_lane_session *session = &lane->session;

        lane->woken = false;
        mr_leases_take(lane);
        if (session->rdx != NULL && rdx_client_poll(session->rdx) != 0)
                mr_leases_lose(lane, false);
        mr_leases_look(lane);
        if (session->rdx != NULL && lane->granted_count == 0 && mr_lane_session_old(session))
                mr_lane_session_renew(session);
        mr_leases_grant(lane);
}

static bool ending(struct mr_lane *lane)
{
        bool over;

        pthread_mutex_lock(&lane->lock);
        over = lane->ending;
        pthread_mutex_unlock(&lane->lock);
        return over;
}

static void *lane_main(void *arg)
{
        struct mr_lane *lane = arg;

        while (!ending(lane)) {
                struct mr_lane_session *session = &lane->session;
                int fd[2];

                step(lane);
                if (session->rdx != NULL) {
                        fd[0] = rdx_client_fd(session->rdx);
                        fd[1] = rdx_client_event_fd(session->rdx);
                }
                pause_for(lane, fd, session->rdx != NULL ? 2 : 0, lane->woken ? 0 : pause_ms(lane));
        }
        assert(lane->granted.first == NULL && lane->waiting.first == NULL && lane->asked.first == NULL);
        mr_lane_session_close(&lane->session);
        return NULL;
}

int mr_lane_new(struct mr_client *client, enum mr_lane_kind kind, struct mr_lane **out)
{
        struct mr_lane *lane = calloc(1, sizeof(*lane));
        int rv;

        if (lane == NULL)
                return -ENOMEM;
        lane->client = client;
        lane->kind = kind;
        pthread_mutex_init(&lane->lock, NULL);
        mr_lane_session_init(&lane->session, client, lane,
                             &(struct mr_lane_hooks){.pause = pause_opening,
                                                     .wake = wake_opening,
                                                     .wait = wait_opening,
                                                     .noticed = noticed,
                                                     .result = result,
                                                     .arg = lane});
        lane->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (lane->wake_fd < 0) {
                rv = -errno;
                goto err_free;
        }
        rv = mr_core_thread(&lane->thread, lane_main, lane);
        if (rv != 0)
                goto err_close;
        *out = lane;
        return 0;

err_close:
        close(lane->wake_fd);
err_free:
        pthread_mutex_destroy(&lane->lock);
        free(lane);
        return rv;
}

void mr_lane_free(struct mr_lane *lane)
{
        pthread_mutex_lock(&lane->lock);
        lane->ending = true;
        pthread_mutex_unlock(&lane->lock);
        mr_lane_wake(lane);
        pthread_join(lane->thread, NULL);
        close(lane->wake_fd);
        pthread_mutex_destroy(&lane->lock);
        explicit_bzero(lane, sizeof(*lane));
        free(lane);
}
