/*
 * connection.c - a connection: its thread, how that waits, and the thread's beginning and end. What
 * it does with grants is in grants.c, with sessions in connection_session.c.
 */
#include "client/rdma/grants.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- any thread ------------------------------------------------------------------------------ */

int mr_connection_refused(struct mr_connection *connection, bool insist, struct mr_error *err)
{
        return mr_connection_session_refused(&connection->session, insist, err);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static int pause_ms(const struct mr_connection *connection)
{
        int64_t now = mr_core_clock_ms(), next = mr_grants_due(connection, now),
                renewal = mr_connection_session_due(&connection->session);

        if (renewal < next)
                next = renewal;
        if (next == INT64_MAX)
                return -1;
        return next <= now ? 0 : next - now > 60000 ? 60000 : (int)(next - now);
}

/* Until it is woken, one of fd is readable, or the time is over. True: one of them is. */
static bool pause_for(struct mr_connection *connection, const int *fd, unsigned fds, int timeout_ms)
{
        struct pollfd item[3] = {{.fd = connection->wake_fd, .events = POLLIN}};
        uint64_t count;

        for (unsigned i = 0; i < fds; i++)
                item[i + 1] = (struct pollfd){.fd = fd[i], .events = POLLIN};
        (void)poll(item, fds + 1, timeout_ms);
        if ((item[0].revents & POLLIN) != 0 &&
            read(connection->wake_fd, &count, sizeof(count)) == (ssize_t)sizeof(count))
                connection->woken = true;
        return fds > 0 && (item[1].revents != 0 || (fds > 1 && item[2].revents != 0));
}

/*
 * While a session is opened, or its end is told: those that were stopped go, the rest waits. Grants
 * of a session that was lost end as soon as their requests are over: nothing of them is bound.
 */
static void pause_opening(void *arg)
{
        struct mr_connection *connection = MR_CAST(mr_connection, arg);

        pause_for(connection, NULL, 0, 1000);
        mr_grants_take(connection);
        mr_grants_sweep(connection);
        mr_grants_look(connection);
}

static int wait_opening(void *arg, int fd, unsigned timeout_ms)
{
        struct mr_connection *connection = MR_CAST(mr_connection, arg);
        int64_t until = mr_core_clock_ms() + timeout_ms;

        for (;;) {
                int64_t left = until - mr_core_clock_ms();

                if (pause_for(connection, &fd, 1, left > 0 ? (int)left : 0))
                        return 1;
                if (left <= 0 || mr_client_canceled(connection->client))
                        return 0;
                /* callbacks are not called from here: a right may be in the midst of its end */
        }
}

static void noticed(void *arg, uint64_t number)
{
        struct mr_connection *connection = MR_CAST(mr_connection, arg);

        connection->woken = true; /* also in the midst of another right's beginning or end */
}

static void result(void *arg, const struct rdx_client_result *came)
{
        mr_grants_result(arg, came);
}

static void wake_opening(void *arg)
{
        mr_connection_wake(arg);
}

static void connection_step(struct mr_connection *connection)
{
        struct mr_connection_session *session = &connection->session;

        connection->woken = false;
        mr_grants_take(connection);
        if (session->rdx != NULL && rdx_client_poll(session->rdx) != 0)
                mr_grants_lose(connection, false);
        mr_grants_look(connection);
        if (session->rdx != NULL && connection->granted_count == 0 && mr_connection_session_old(session))
                mr_connection_session_renew(session);
        mr_grants_give(connection);
}

static bool ending(struct mr_connection *connection)
{
        bool over;

        pthread_mutex_lock(&connection->lock);
        over = connection->ending;
        pthread_mutex_unlock(&connection->lock);
        return over;
}

static void *connection_main(void *arg)
{
        struct mr_connection *connection = MR_CAST(mr_connection, arg);

        while (!ending(connection)) {
                struct mr_connection_session *session = &connection->session;
                int fd[2];

                connection_step(connection);
                if (session->rdx != NULL) {
                        fd[0] = rdx_client_fd(session->rdx);
                        fd[1] = rdx_client_event_fd(session->rdx);
                }
                pause_for(connection, fd, session->rdx != NULL ? 2 : 0, connection->woken ? 0 : pause_ms(connection));
        }
        assert(connection->granted.first == NULL && connection->waiting.first == NULL &&
               connection->asked.first == NULL);
        mr_connection_session_close(&connection->session);
        return NULL;
}

int mr_connection_new(struct mr_client *client, enum mr_connection_kind kind, unsigned endpoint,
                      struct mr_connection **out)
{
        struct mr_connection *connection = calloc(1, sizeof(*connection));
        int rv;

        if (connection == NULL)
                return -ENOMEM;
        connection->magic = mr_connection_magic;
        connection->client = client;
        connection->memory = (struct mr_registrations){.client = client, .kind = kind, .endpoint = endpoint};
        pthread_mutex_init(&connection->lock, NULL);
        mr_connection_session_init(&connection->session, client, &connection->memory,
                                   &(struct mr_connection_hooks){.pause = pause_opening,
                                                                 .wake = wake_opening,
                                                                 .wait = wait_opening,
                                                                 .noticed = noticed,
                                                                 .result = result,
                                                                 .arg = connection});
        connection->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (connection->wake_fd < 0) {
                rv = -errno;
                goto err_free;
        }
        rv = mr_core_thread(&connection->thread, connection_main, connection);
        if (rv != 0)
                goto err_close;
        *out = connection;
        return 0;

err_close:
        close(connection->wake_fd);
err_free:
        pthread_mutex_destroy(&connection->lock);
        free(connection);
        return rv;
}

void mr_connection_end(struct mr_connection *connection)
{
        pthread_mutex_lock(&connection->lock);
        connection->ending = true;
        pthread_mutex_unlock(&connection->lock);
        mr_connection_wake(connection);
}

void mr_connection_free(struct mr_connection *connection)
{
        pthread_join(connection->thread, NULL);
        close(connection->wake_fd);
        pthread_mutex_destroy(&connection->lock);
        explicit_bzero(connection, sizeof(*connection));
        free(connection);
}
