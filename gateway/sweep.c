/*
 * sweep.c - what time does to connections: heads that do not end, bodies that trickle, peers that went away, sockets read dry.
 *
 * A timer of each loop looks at all its connections twice a second. The library's own idle timeout ends connections on which nothing moves; here is what
 * it can't see: suspended connections, total times, and rates while others wait for buffers (I9).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ops.h"

#define MS 1000000ull
#define SLOW_SWEEPS 10u                 /* in a row below the minimum rate */
#define LINGER_NS (GW_DRAIN_MS * MS)

/* ---- cutting and lingering --------------------------------------------------------------------------- */

/*
 * A suspended request may be woken from outside only where no call of the engine is under way: the library closes a resumed connection
 * whose socket is at its end, and that frees the request. The others end when the engine comes back.
 */
static void wake_cut(struct gw_request *req)
{
        req->peer_gone = true;
        if (req->state == GW_BODY && req->suspended)
                gw_request_move(req, GW_GONE);
        if (req->state == GW_GONE || req->state == GW_SENDING)
                gw_request_wake(req);
}

void gw_conn_cut(struct gw_conn *conn)
{
        if (conn->cut)
                return;
        conn->cut = true;
        shutdown(conn->fd, SHUT_RDWR);
        if (conn->request != NULL)
                wake_cut(conn->request);
}

static void linger_end(struct gw_linger *linger)
{
        lp_watch_remove(linger->loop->lp, &linger->watch);
        close(linger->watch.fd);
        LIST_REMOVE(linger, entry);
        linger->loop->linger_count--;
        free(linger);
}

static void linger_ready(struct lp_watch *watch, uint32_t events)
{
        struct gw_linger *linger = (struct gw_linger *)watch;
        char scratch[16384];
        ssize_t n;

        do {
                n = recv(watch->fd, scratch, sizeof(scratch), MSG_DONTWAIT);
                if (n > 0)
                        linger->left -= (size_t)n < linger->left ? (size_t)n : linger->left;
        } while (n > 0 && linger->left > 0);
        if (n == 0 || linger->left == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                linger_end(linger);
}

void gw_conn_linger(struct gw_conn *conn)
{
        struct gw_loop *loop = conn->listener->loop;
        struct gw_linger *linger;

        if (loop->linger_count >= GW_LINGERS_MAX)
                return;
        linger = calloc(1, sizeof(*linger));
        if (linger == NULL)
                return;
        linger->watch.fd = fcntl(conn->fd, F_DUPFD_CLOEXEC, 0);
        linger->watch.ready = linger_ready;
        linger->loop = loop;
        linger->left = GW_DRAIN_BYTES;
        linger->deadline_ns = gw_clock_ns() + LINGER_NS;
        if (linger->watch.fd < 0 || lp_watch_add(loop->lp, &linger->watch, EPOLLIN | EPOLLRDHUP) != 0) {
                if (linger->watch.fd >= 0)
                        close(linger->watch.fd);
                free(linger);
                return;
        }
        LIST_INSERT_HEAD(&loop->lingers, linger, entry);
        loop->linger_count++;
}

void gw_linger_free_all(struct gw_loop *loop)
{
        while (!LIST_EMPTY(&loop->lingers))
                linger_end(LIST_FIRST(&loop->lingers));
}

/* ---- one connection -------------------------------------------------------------------------------------- */

/* A suspended connection is watched by nobody else. Also where bytes it sent before wait unread. */
static bool peer_went(const struct gw_conn *conn)
{
        struct pollfd p = {.fd = conn->fd, .events = POLLRDHUP};

        return poll(&p, 1, 0) == 1 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* Below the minimum rate since several sweeps, while others wait for what this one holds. */
static bool too_slow(struct gw_request *req, enum lp_share share, uint64_t moved)
{
        const struct gw_loop *loop = req->loop;
        uint64_t least = loop->gw->limits.min_rate * GW_SWEEP_MS / 1000;
        bool slow = moved - req->rate_bytes < least && lp_reserve_contended(loop->lp, share);

        req->rate_bytes = moved;
        req->rate_slow = slow ? req->rate_slow + 1 : 0;
        return req->rate_slow >= SLOW_SWEEPS;
}

static void time_out_body(struct gw_request *req)
{
        gw_reply_error(req, S3_ERR_REQUEST_TIMEOUT, NULL);
        gw_reply_raw(req);
        gw_request_move(req, GW_GONE);
        gw_conn_cut(req->conn);
}

static void sweep_request(struct gw_conn *conn, struct gw_request *req, uint64_t now)
{
        const struct gw_limits *limits = &req->loop->gw->limits;
        uint64_t age = now - req->state_ns;

        if (req->suspended) {
                if (age > GW_GONE_MS * MS && !req->peer_gone && peer_went(conn))
                        gw_conn_cut(conn);
                return;
        }
        switch (req->state) {
        case GW_LINE:
                if (age > limits->request_ms * MS)
                        gw_conn_cut(conn);
                break;
        case GW_BODY:
                if (req->put != NULL && too_slow(req, LP_SHARE_PUT, req->bytes_in))
                        time_out_body(req);
                break;
        case GW_DRAIN:
                if (age > GW_DRAIN_MS * MS)
                        gw_conn_cut(conn);
                break;
        case GW_SENDING:
                if (req->get != NULL && too_slow(req, LP_SHARE_GET, req->bytes_out))
                        gw_conn_cut(conn);
                break;
        case GW_BEGIN:
        case GW_CHECKED:
        case GW_RUN:
        case GW_ANSWER:
        case GW_GONE:
                break;
        }
}

static void sweep(struct lp_timer *timer)
{
        struct gw_loop *loop = (struct gw_loop *)((char *)timer - offsetof(struct gw_loop, sweep));
        const struct gw_limits *limits = &loop->gw->limits;
        uint64_t now = gw_clock_ns(), quiet = (limits->idle_ms + limits->request_ms) * MS;
        struct gw_linger *linger, *next_linger;
        struct gw_conn *conn, *next;

        for (conn = LIST_FIRST(&loop->conns); conn != NULL; conn = next) {
                next = LIST_NEXT(conn, entry);
                if (conn->request != NULL)
                        sweep_request(conn, conn->request, now);
                else if (now - conn->since_ns > quiet)
                        gw_conn_cut(conn); /* idle, or a request line that trickles in */
        }
        for (linger = LIST_FIRST(&loop->lingers); linger != NULL; linger = next_linger) {
                next_linger = LIST_NEXT(linger, entry);
                if (now > linger->deadline_ns)
                        linger_end(linger);
        }
        lp_timer_start(loop->lp, &loop->sweep, GW_SWEEP_MS * MS);
}

int gw_sweep_start(struct gw_loop *loop)
{
        loop->sweep.expired = sweep;
        loop->sweep_armed = true;
        return lp_timer_start(loop->lp, &loop->sweep, GW_SWEEP_MS * MS);
}
