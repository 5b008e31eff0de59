/*
 * conn_sweep.c - what time does to connections: heads that do not end, bodies that trickle, peers
 * that went away, sockets read dry.
 *
 * A timer of each loop looks at all its connections twice a second. The library's own idle timeout
 * ends connections on which nothing moves; here is what it can't see: suspended connections, total
 * times, and rates while others wait for buffers (I9).
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/http/budget.h"
#include "gateway/http/http_request.h"

#define MS 1000000ull
#define SLOW_SWEEPS 10u                 /* in a row below the minimum rate, while others wait for what it holds */
#define SLOW_SWEEPS_STANDING 5u         /* or have waited for long, and it has not moved even so much: */
#define SOME_SENT (512u << 10)
#define SOME_READ (6u << 20)            /* more than the kernel takes from us for a client that reads nothing */
#define POLL_BATCH 256u
#define LINGER_NS (GW_DRAIN_MS * MS)     /* without a byte; */
#define LINGER_WHOLE_NS (GW_LINGER_MS * MS) /* with some */

/* ---- cutting and lingering ------------------------------------------------------------------- */

/*
 * A suspended request may be woken from outside only where no call of the engine is under way: the
 * library closes a resumed connection whose socket is at its end, and that frees the request. The
 * others end when the engine comes back.
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
        assert(linger->loop->linger_count > 0);
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
                if (n > 0) {
                        linger->left -= (size_t)n < linger->left ? (size_t)n : linger->left;
                        linger->deadline_ns = gw_clock_ns() + LINGER_NS;
                }
        } while (n > 0 && linger->left > 0);
        if (n == 0 || linger->left == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                linger_end(linger);
}

/* The one that has had the most time. */
static struct gw_linger *oldest_linger(const struct gw_loop *loop)
{
        struct gw_linger *linger = LIST_FIRST(&loop->lingers);

        assert(linger != NULL);
        while (LIST_NEXT(linger, entry) != NULL)
                linger = LIST_NEXT(linger, entry);
        return linger;
}

void gw_conn_linger(struct gw_conn *conn)
{
        struct gw_loop *loop = conn->listener->loop;
        struct gw_linger *linger;

        if (loop->linger_count >= GW_LINGERS_MAX)
                linger_end(oldest_linger(loop));
        linger = calloc(1, sizeof(*linger));
        if (linger == NULL)
                return;
        linger->watch.fd = fcntl(conn->fd, F_DUPFD_CLOEXEC, 0);
        linger->watch.ready = linger_ready;
        linger->loop = loop;
        linger->left = GW_DRAIN_BYTES;
        linger->deadline_ns = gw_clock_ns() + LINGER_NS;
        linger->end_ns = gw_clock_ns() + LINGER_WHOLE_NS;
        if (linger->watch.fd < 0 || lp_watch_add(loop->lp, &linger->watch, EPOLLIN | EPOLLRDHUP) != 0) {
                if (linger->watch.fd >= 0)
                        close(linger->watch.fd);
                free(linger);
                return;
        }
        LIST_INSERT_HEAD(&loop->lingers, linger, entry);
        loop->linger_count++;
}

bool gw_conn_answer(struct gw_request *req)
{
        if (!gw_reply_raw(req))
                return false;
        gw_conn_linger(req->conn);
        return true;
}

void gw_conn_closing(struct gw_conn *conn)
{
        int unread = 0;

        if (conn->cut)
                return;
        if (conn->broken || (ioctl(conn->fd, FIONREAD, &unread) == 0 && unread > 0))
                gw_conn_linger(conn);
}

void gw_linger_free_all(struct gw_loop *loop)
{
        while (!LIST_EMPTY(&loop->lingers))
                linger_end(LIST_FIRST(&loop->lingers));
}

/* ---- one connection -------------------------------------------------------------------------- */

/* Asks for all of a batch at once whether their peers have closed. */
static void poll_batch(struct pollfd *fds, struct gw_conn **conns, unsigned count)
{
        if (poll(fds, count, 0) < 0)
                return;
        for (unsigned i = 0; i < count; i++) {
                conns[i]->ended = (fds[i].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0 ? conns[i]->ended + 1 : 0;
                conns[i]->broken_off = (fds[i].revents & (POLLHUP | POLLERR)) != 0 ? conns[i]->broken_off + 1 : 0;
        }
}

static void poll_peers(struct gw_loop *loop)
{
        struct gw_conn *conns[POLL_BATCH], *conn;
        struct pollfd fds[POLL_BATCH];
        unsigned count = 0;

        LIST_FOREACH(conn, &loop->conns, entry) {
                conns[count] = conn;
                fds[count++] = (struct pollfd){.fd = conn->fd, .events = POLLRDHUP};
                if (count == POLL_BATCH) {
                        poll_batch(fds, conns, count);
                        count = 0;
                }
        }
        poll_batch(fds, conns, count);
}

bool gw_conn_gave_up(const struct gw_conn *conn)
{
        struct pollfd fd = {.fd = conn->fd, .events = POLLRDHUP};

        return poll(&fd, 1, 0) == 1;
}

/*
 * The peer has closed, all it sent was read, and yet the library waits for more: it misses an end
 * that comes together with the last bytes (edge-triggered events, and a short read counts as all
 * there is).
 */
static bool end_was_missed(const struct gw_conn *conn)
{
        int unread = 0;

        return conn->ended >= 2 && ioctl(conn->fd, FIONREAD, &unread) == 0 && unread == 0;
}

/*
 * It is us who are behind: what the client has sent is not read yet, or all that it was sent has
 * reached it. Or nothing is asked of its device.
 */
static bool waits_for_us(const struct gw_request *req, enum lp_share share)
{
        int bytes = 0;

        if (gw_carried_upload(req))
                return !req->carrier->waits(req);
        if (ioctl(req->conn->fd, share == LP_SHARE_PUT ? FIONREAD : SIOCOUTQ, &bytes) != 0)
                return false;
        return share == LP_SHARE_PUT ? bytes > 0 : bytes == 0;
}

/* Below the minimum rate since several sweeps. */
static bool too_slow(struct gw_request *req, enum lp_share share, uint64_t moved)
{
        const struct gw_loop *loop = req->loop;
        uint64_t least = loop->gw->limits.min_rate * GW_SWEEP_MS / 1000;
        bool wanted = lp_reserve_contended(loop->lp, share) ||
                      (share == LP_SHARE_PUT && req->body->booked > 0 && gw_uploads_wanted(loop->gw, gw_clock_ns()));
        bool slow = moved - req->rate_bytes < least && wanted && !waits_for_us(req, share);
        uint64_t some = share == LP_SHARE_PUT ? SOME_SENT : SOME_READ;
        bool suspect = moved < some && lp_reserve_standing(loop->lp, share);

        req->rate_bytes = moved;
        req->rate_slow = slow ? req->rate_slow + 1 : 0;
        return req->rate_slow >= (suspect ? SLOW_SWEEPS_STANDING : SLOW_SWEEPS);
}

/*
 * The client has acknowledged too little of an answer whose memory others could use. What the
 * library has sent says nothing: the kernel takes much.
 */
static bool answer_too_slow(struct gw_request *req, uint64_t now)
{
        struct gw_loop *loop = req->loop;
        struct tcp_info info = {.tcpi_bytes_acked = 0};
        socklen_t len = sizeof(info);
        uint64_t least = loop->gw->limits.min_rate * GW_SWEEP_MS / 1000;
        bool wanted = gw_answers_wanted(loop->gw, now) || (req->get != NULL && lp_reserve_contended(loop->lp, LP_SHARE_GET));
        bool slow;

        if (getsockopt(req->conn->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
                return false;
        slow = info.tcpi_bytes_acked - req->rate_bytes < least && wanted && !waits_for_us(req, LP_SHARE_GET);
        req->rate_bytes = info.tcpi_bytes_acked;
        req->rate_slow = slow ? req->rate_slow + 1 : 0;
        return req->rate_slow >= SLOW_SWEEPS;
}

/*
 * The answer goes out while the client still sends. Nothing is shut down for reading: the kernel
 * would reset the connection at the client's next bytes, and the answer might be lost. The library
 * closes its socket at these, or after a second; a copy of it is read dry.
 */
static void answer_early(struct gw_request *req)
{
        if (!gw_conn_answer(req)) {
                gw_request_move(req, GW_GONE);
                gw_conn_cut(req->conn);
                return;
        }
        gw_request_move(req, GW_GONE);
        shutdown(req->conn->fd, SHUT_WR);
        MHD_set_connection_option(req->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1u);
        req->conn->listener->due = true;
}

static void time_out_body(struct gw_request *req)
{
        gw_reply_error(req, S3_ERR_REQUEST_TIMEOUT, NULL);
        answer_early(req);
}

static bool sends_too_slowly(struct gw_request *req, uint64_t now)
{
        if (req->answer.booked != 0)
                return answer_too_slow(req, now);
        return (req->get != NULL || req->buffers) && too_slow(req, LP_SHARE_GET, req->bytes_out);
}

/* It holds buffers until its READs are over: only the carrier can end them. */
static bool reads_too_slowly(struct gw_request *req)
{
        return req->state == GW_BODY && gw_carried_upload(req) && req->carrier->under_way(req) &&
               too_slow(req, LP_SHARE_PUT, req->body->received);
}

static void sweep_request(struct gw_conn *conn, struct gw_request *req, uint64_t now)
{
        const struct gw_limits *limits = &req->loop->gw->limits;
        uint64_t age = now - req->state_ns;

        if (req->suspended) {
                if (age > GW_GONE_MS * MS && conn->ended > 0)
                        gw_conn_cut(conn); /* also where bytes it sent before wait unread */
                else if (reads_too_slowly(req))
                        req->carrier->cut(req);
                return;
        }
        switch (req->state) {
        case GW_LINE:
                if (age > limits->request_ms * MS || end_was_missed(conn) || req->loop->draining)
                        gw_conn_cut(conn);
                break;
        case GW_BODY:
                if (end_was_missed(conn))
                        gw_conn_cut(conn);
                else if ((req->put != NULL || req->body->booked > 0) && too_slow(req, LP_SHARE_PUT, req->bytes_in))
                        time_out_body(req);
                break;
        case GW_DRAIN:
                if (end_was_missed(conn))
                        gw_conn_cut(conn);
                else if (age > GW_DRAIN_MS * MS)
                        answer_early(req);
                break;
        case GW_GONE:
                conn->listener->due = true; /* the library's own timeout ends it */
                break;
        case GW_SENDING:
                if (conn->broken_off >= 2 || sends_too_slowly(req, now))
                        gw_conn_cut(conn);
                break;
        case GW_BEGIN:
        case GW_CHECKED:
        case GW_RUN:
        case GW_ANSWER:
                break;
        }
}

static void sweep(struct lp_timer *timer)
{
        struct gw_loop *loop = container_of(timer, struct gw_loop, sweep);
        const struct gw_limits *limits = &loop->gw->limits;
        uint64_t now = gw_clock_ns(), quiet = (limits->idle_ms + limits->request_ms) * MS;
        bool shedding = atomic_load_explicit(&loop->gw->shedding, memory_order_relaxed);
        struct gw_linger *linger, *next_linger;
        struct gw_conn *conn, *next;
        struct gw_listener *listener;

        poll_peers(loop);
        if (loop->index == 0)
                gw_guests_trim(loop->gw, now);
        SLIST_FOREACH(listener, &loop->listeners, next)
                gw_accept_resume(listener);
        for (conn = LIST_FIRST(&loop->conns); conn != NULL; conn = next) {
                next = LIST_NEXT(conn, entry);
                if (conn->request != NULL)
                        sweep_request(conn, conn->request, now);
                else if (now - conn->since_ns > (shedding ? GW_SHED_IDLE_MS * MS : quiet) || end_was_missed(conn))
                        gw_conn_cut(conn); /* idle, or a request line that trickles in */
        }
        for (linger = LIST_FIRST(&loop->lingers); linger != NULL; linger = next_linger) {
                next_linger = LIST_NEXT(linger, entry);
                if (now > linger->deadline_ns || now > linger->end_ns)
                        linger_end(linger);
        }
        lp_timer_start(loop->lp, &loop->sweep, GW_SWEEP_MS * MS);
}

void gw_sweep_start(struct gw_loop *loop)
{
        loop->sweep.expired = sweep;
        loop->sweep_armed = true;
        lp_timer_start(loop->lp, &loop->sweep, GW_SWEEP_MS * MS);
}
