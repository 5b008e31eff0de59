/*
 * poll.c - the epoll set of a loop: where it sleeps, and who is called for a descriptor that is
 * ready.
 *
 * Called on the loop's thread. In the set are the eventfd of mailbox and io_uring (edge-triggered:
 * each write ends one sleep, and nobody has to read it) and the watches (level-triggered). The work
 * of a round is bounded by LP_EVENTS; epoll hands out the others first the next time.
 */
#include "loop/loop_internal.h"

#include "loop_trace.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000ull

/* What the eventfd, which is no watch, carries in epoll_event.data. */
static char wake_mark;

/* And what the epoll set of a guest carries. */
static char guest_mark;

static int poll_add(struct lp_poll *poll, int fd, uint32_t events, void *mark)
{
        struct epoll_event event = {.events = events, .data.ptr = mark};

        return epoll_ctl(poll->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int lp_poll_open(struct lp_poll *poll, int wake_fd)
{
        int rv;

        poll->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (poll->epoll_fd < 0)
                return -errno;
        rv = poll_add(poll, wake_fd, EPOLLIN | EPOLLET, &wake_mark);
        if (rv != 0)
                close(poll->epoll_fd);
        return rv;
}

void lp_poll_close(struct lp_poll *poll)
{
        close(poll->epoll_fd);
}

int lp_poll_wait(struct lp_poll *poll, uint64_t timeout_ns)
{
        struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / NS_PER_S), .tv_nsec = (long)(timeout_ns % NS_PER_S)};

        poll->next = 0;
        poll->count =
                epoll_pwait2(poll->epoll_fd, poll->events, LP_EVENTS, timeout_ns == UINT64_MAX ? NULL : &timeout, NULL);
        if (poll->count >= 0)
                return 0;
        poll->count = 0;
        return errno == EINTR ? 0 : -errno;
}

void lp_poll_dispatch(struct lp_poll *poll, uint64_t until)
{
        const struct epoll_event *event;
        struct lp_watch *watch;

        while (poll->next < poll->count && (until == UINT64_MAX || lp_clock() < until)) {
                event = &poll->events[poll->next++];
                watch = event->data.ptr;
                if (event->data.ptr == &guest_mark) {
                        poll->guest_due = true;
                } else if (event->data.ptr != &wake_mark && watch != NULL) {
                        lp_trace_set_request(0);
                        watch->ready(watch, event->events);
                }
        }
}

int lp_poll_join(struct lp_poll *poll, const struct lp_poll *guest)
{
        return poll_add(poll, guest->epoll_fd, EPOLLIN, &guest_mark);
}

void lp_poll_part(struct lp_poll *poll, const struct lp_poll *guest)
{
        epoll_ctl(poll->epoll_fd, EPOLL_CTL_DEL, guest->epoll_fd, NULL);
        poll->guest_due = false;
}

int lp_watch_add(struct lp_loop *loop, struct lp_watch *watch, uint32_t epoll_events)
{
        return poll_add(&loop->poll, watch->fd, epoll_events, watch);
}

/*
 * The events of this round may name the watch still: they are made void, so that its memory may go
 * at once.
 */
void lp_watch_remove(struct lp_loop *loop, struct lp_watch *watch)
{
        struct lp_poll *poll = &loop->poll;
        int i;

        epoll_ctl(poll->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
        for (i = poll->next; i < poll->count; i++)
                if (poll->events[i].data.ptr == watch)
                        poll->events[i].data.ptr = NULL;
}
