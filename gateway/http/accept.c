/*
 * accept.c - takes connections and gives each to the loop that has the fewest.
 *
 * Every loop listens on a socket of its own, so taking them is shared work. But the kernel chooses
 * the socket by a hash of addresses, and of four bulk readers three or all four may well land on
 * one of two loops; so a connection moves to another loop before its first byte is read. Where all
 * have as many as they may, one is closed for the next (guests.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/http/http_request.h"

#define BATCH 64u /* connections taken at a time: then the loop's other work has its turn */

/* A connection on its way to another loop. */
struct handover {
        struct lp_msg msg;
        struct gw_listener *to;
        int fd;
        socklen_t len;
        struct sockaddr_storage from;
};

/*
 * The connection gets the place in loop->taken that the caller holds, and gives it back when it
 * closes.
 */
static void accept_add(struct gw_listener *to, int fd, const struct sockaddr_storage *from, socklen_t len)
{
        bool open = false;

        to->due = true;
        if (to->loop->draining)
                close(fd);
        else /* closes what it can't serve */
                open = MHD_add_connection(to->daemon, fd, (const struct sockaddr *)from, len) == MHD_YES;
        if (!open)
                atomic_fetch_sub(&to->loop->taken, 1);
}

static void accept_arrived(struct lp_msg *msg)
{
        struct handover *h = (struct handover *)msg;

        accept_add(h->to, h->fd, &h->from, h->len);
        free(h);
}

/*
 * The listener of that loop for the same kind of connection, with the same rights. The lists do not
 * change while the loops run.
 */
static struct gw_listener *twin(struct gw_loop *loop, const struct gw_listener *of)
{
        struct gw_listener *l;

        SLIST_FOREACH(l, &loop->listeners, next)
                if (l->tls == of->tls && l->targets == of->targets)
                        return l;
        return NULL;
}

/* Another loop may have taken the last place meanwhile. */
static bool take_connection_place(struct gw_loop *loop)
{
        unsigned count = atomic_load(&loop->taken);

        while (count < loop->gw->limits.connections)
                if (atomic_compare_exchange_weak(&loop->taken, &count, count + 1))
                        return true;
        return false;
}

/*
 * The loop with the fewest connections; this one if it has no more than the others. NULL: it has as
 * many as it may.
 */
static struct gw_listener *fewest(struct gw_listener *here)
{
        struct gw_gateway *gw = here->loop->gw;
        unsigned least = atomic_load(&here->loop->taken), count, i;
        struct gw_listener *best = here, *other;

        for (i = 0; i < gw->loop_count; i++) {
                count = atomic_load(&gw->loops[i].taken);
                other = count < least ? twin(&gw->loops[i], here) : NULL;
                if (other != NULL) {
                        best = other;
                        least = count;
                }
        }
        return least < gw->limits.connections ? best : NULL;
}

/* A place on the loop with the fewest connections. NULL: all have as many as they may. */
static struct gw_listener *choose_listener(struct gw_listener *here)
{
        struct gw_listener *to;

        do
                to = fewest(here);
        while (to != NULL && !take_connection_place(to->loop));
        return to;
}

static void accept_give(struct gw_listener *here, struct gw_listener *to, int fd, const struct sockaddr_storage *from,
                        socklen_t len)
{
        struct handover *h;

        if (to == here) {
                accept_add(here, fd, from, len);
                return;
        }
        h = malloc(sizeof(*h));
        if (h == NULL) {
                close(fd);
                atomic_fetch_sub(&to->loop->taken, 1);
                return;
        }
        *h = (struct handover){.msg.run = accept_arrived, .to = to, .fd = fd, .len = len, .from = *from};
        lp_post(to->loop->lp, &h->msg);
}

/* Nothing is taken until gw_accept_resume(): the backlog holds what comes meanwhile. */
static void pause_accepting(struct gw_listener *listener)
{
        lp_watch_remove(listener->loop->lp, &listener->accept);
        listener->accepting = false;
}

static void accept_ready(struct lp_watch *watch, uint32_t events)
{
        struct gw_listener *here = container_of(watch, struct gw_listener, accept), *to;
        struct sockaddr_storage from;
        socklen_t len;
        unsigned i;
        int fd;

        for (i = 0; i < BATCH; i++) {
                to = choose_listener(here);
                if (to == NULL) {
                        pause_accepting(here);
                        atomic_store(&here->loop->starved, true);
                        gw_make_room(here->loop);
                        return;
                }
                len = sizeof(from);
                fd = accept4(watch->fd, (struct sockaddr *)&from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
                if (fd >= 0) {
                        accept_give(here, to, fd, &from, len);
                        continue;
                }
                atomic_fetch_sub(&to->loop->taken, 1);
                if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
                        pause_accepting(here);
                        return;
                } else if (errno == EAGAIN) {
                        return;
                } /* else that one was gone before it was taken */
        }
}

int gw_accept_resume(struct gw_listener *listener)
{
        int rv;

        if (listener->accepting || listener->accept.fd < 0)
                return 0;
        atomic_store(&listener->loop->starved, false);
        listener->accept.ready = accept_ready;
        rv = lp_watch_add(listener->loop->lp, &listener->accept, EPOLLIN);
        listener->accepting = rv == 0;
        return rv;
}

void gw_accept_end(struct gw_listener *listener)
{
        if (listener->accepting)
                pause_accepting(listener);
        if (listener->accept.fd >= 0)
                close(listener->accept.fd);
        listener->accept.fd = -1;
        atomic_store(&listener->loop->starved, false);
}
