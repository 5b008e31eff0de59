/*
 * mailbox.c - messages between threads.
 *
 * Any thread posts; the loop's thread takes. The mailbox is a stack of messages behind one atomic
 * pointer: a post swaps itself in as the new head, the loop takes the whole stack at once and turns
 * it round. Whoever posts later, in any causal order, lies higher in the same stack or in a later
 * one, which is the order lp_post() promises. What is taken at once is what was there at that
 * moment, so messages that post messages never starve timers and I/O (I9).
 *
 * The same pointer tells that the loop sleeps: it then points at `asleep`, which only happens while
 * the mailbox is empty. The one post that replaces that mark writes the eventfd. As there is only
 * one atomic variable there is no moment in which a message is in the mailbox and the loop asleep
 * without a wake-up under way.
 */
#include "loop/loop_internal.h"

#include "loop_trace.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct lp_msg asleep;

int lp_mailbox_open(struct lp_mailbox *mailbox)
{
        atomic_init(&mailbox->head, NULL);
        mailbox->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        return mailbox->wake_fd < 0 ? -errno : 0;
}

void lp_mailbox_close(struct lp_mailbox *mailbox)
{
        close(mailbox->wake_fd);
}

void lp_mailbox_wake(struct lp_mailbox *mailbox)
{
        const uint64_t one = 1;
        ssize_t n;

        /* The counter is never read (see poll.c); it would take 2^64 - 1 wake-ups to fill it. */
        do
                n = write(mailbox->wake_fd, &one, sizeof(one));
        while (n < 0 && errno == EINTR);
        assert(n == (ssize_t)sizeof(one));
}

void lp_post(struct lp_loop *to, struct lp_msg *msg)
{
        struct lp_mailbox *mailbox = &to->mailbox;
        struct lp_msg *head = atomic_load_explicit(&mailbox->head, memory_order_relaxed);

        msg->request = lp_trace_request();
        do
                msg->next = head == &asleep ? NULL : head;
        while (!atomic_compare_exchange_weak_explicit(&mailbox->head, &head, msg, memory_order_release,
                                                      memory_order_relaxed));
        if (head == &asleep)
                lp_mailbox_wake(mailbox);
}

bool lp_mailbox_sleep(struct lp_mailbox *mailbox)
{
        struct lp_msg *empty = NULL;

        return atomic_compare_exchange_strong_explicit(&mailbox->head, &empty, &asleep, memory_order_relaxed,
                                                       memory_order_relaxed);
}

void lp_mailbox_awake(struct lp_mailbox *mailbox)
{
        struct lp_msg *mark = &asleep;

        atomic_compare_exchange_strong_explicit(&mailbox->head, &mark, NULL, memory_order_relaxed,
                                                memory_order_relaxed);
}

uint64_t lp_mailbox_run(struct lp_mailbox *mailbox)
{
        struct lp_msg *newest, *oldest = NULL, *next;
        uint64_t count = 0;

        if (atomic_load_explicit(&mailbox->head, memory_order_relaxed) == NULL)
                return 0;
        newest = atomic_exchange_explicit(&mailbox->head, NULL, memory_order_acquire);
        assert(newest != &asleep);
        for (; newest != NULL; newest = next) {
                next = newest->next;
                newest->next = oldest;
                oldest = newest;
        }
        for (; oldest != NULL; oldest = next) {
                next = oldest->next; /* run() may free or post the message again */
                lp_trace_set_request(oldest->request);
                oldest->run(oldest);
                count++;
        }
        lp_trace_set_request(0);
        return count;
}
