/*
 * result_queue.c - results on their way to the program, and the descriptor that says so. Threads of
 * the client push, the program's take. Bounded (I9): room for each result is reserved before its
 * operation begins.
 */
#include "client/operations/client_operation.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define CAPACITY_MAX (1u << 20)

struct mr_queue {
        /* constant */
        struct mr_client *client;
        int fd;
        unsigned capacity;

        /* guarded by lock */
        pthread_mutex_t lock;
        pthread_cond_t more; /* a result came, or nothing is under way */
        struct mr_node *first, *last;
        unsigned reserved; /* results that are there or will come */
        unsigned there;
};

int mr_queue_new(struct mr_client *client, unsigned capacity, struct mr_queue **out)
{
        struct mr_queue *queue;
        pthread_condattr_t attr;
        int rv;

        if (capacity < 1 || capacity > CAPACITY_MAX)
                return -EINVAL;
        queue = calloc(1, sizeof(*queue));
        if (queue == NULL)
                return -ENOMEM;
        queue->client = client;
        queue->capacity = capacity;
        queue->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (queue->fd < 0) {
                rv = -errno;
                free(queue);
                return rv;
        }
        pthread_mutex_init(&queue->lock, NULL);
        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&queue->more, &attr);
        pthread_condattr_destroy(&attr);
        *out = queue;
        return 0;
}

int mr_queue_fd(const struct mr_queue *queue)
{
        return queue->fd;
}

int mr_queue_reserve(struct mr_queue *queue, unsigned results)
{
        int rv = 0;

        pthread_mutex_lock(&queue->lock);
        if (results > queue->capacity - queue->reserved)
                rv = -EAGAIN;
        else
                queue->reserved += results;
        pthread_mutex_unlock(&queue->lock);
        return rv;
}

void mr_queue_release(struct mr_queue *queue, unsigned results)
{
        pthread_mutex_lock(&queue->lock);
        assert(queue->reserved >= results);
        queue->reserved -= results;
        if (queue->reserved == 0)
                pthread_cond_broadcast(&queue->more);
        pthread_mutex_unlock(&queue->lock);
}

void mr_queue_push(struct mr_queue *queue, struct mr_node *node)
{
        uint64_t one = 1;
        ssize_t n = sizeof(one);

        assert(node->take != NULL);
        pthread_mutex_lock(&queue->lock);
        assert(queue->there < queue->reserved); /* there is room for each */
        assert((queue->last == NULL) == (queue->there == 0));
        node->next = NULL;
        if (queue->last != NULL)
                queue->last->next = node;
        else
                queue->first = node;
        queue->last = node;
        if (queue->there++ == 0)
                n = write(queue->fd, &one, sizeof(one));
        (void)n; /* it was empty: there is room for one */
        pthread_cond_broadcast(&queue->more);
        pthread_mutex_unlock(&queue->lock);
}

/* With lock. */
static void result_queue_take_one(struct mr_queue *queue, struct mr_result *out)
{
        struct mr_node *node = queue->first;
        uint64_t count;

        assert(node != NULL && queue->there > 0 && queue->reserved >= queue->there);
        queue->first = node->next;
        if (queue->first == NULL)
                queue->last = NULL;
        node->take(node, out);
        queue->reserved--;
        if (--queue->there == 0 && read(queue->fd, &count, sizeof(count)) < 0)
                queue->there = 0; /* nobody else reads it: it had its one */
        if (queue->reserved == 0)
                pthread_cond_broadcast(&queue->more);
}

int mr_queue_take(struct mr_queue *queue, struct mr_result *out, unsigned max, int timeout_ms)
{
        struct timespec until;
        int taken = 0, rv = 0;

        clock_gettime(CLOCK_MONOTONIC, &until);
        if (timeout_ms > 0) {
                until.tv_sec += timeout_ms / 1000;
                until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
                if (until.tv_nsec >= 1000000000) {
                        until.tv_nsec -= 1000000000;
                        until.tv_sec++;
                }
        }
        pthread_mutex_lock(&queue->lock);
        while (queue->there == 0 && queue->reserved > 0 && timeout_ms != 0 && rv == 0)
                rv = timeout_ms < 0 ? pthread_cond_wait(&queue->more, &queue->lock)
                                    : pthread_cond_timedwait(&queue->more, &queue->lock, &until);
        while (queue->there > 0 && (unsigned)taken < max)
                result_queue_take_one(queue, &out[taken++]);
        pthread_mutex_unlock(&queue->lock);
        return taken;
}

static void cancel_all(struct mr_queue *queue)
{
        struct mr_client *client = queue->client;

        pthread_mutex_lock(&client->lock);
        for (unsigned i = 0; i < MR_OP_SLOTS; i++)
                for (struct mr_op *op = client->op[i]; op != NULL; op = op->id_next)
                        if (op->queue == queue)
                                atomic_store(&op->canceled, true);
        pthread_mutex_unlock(&client->lock);
        mr_core_wake(client);
}

void mr_queue_free(struct mr_queue *queue)
{
        struct mr_result result;

        if (queue == NULL || queue->client->pid != getpid())
                return;
        cancel_all(queue);
        while (mr_queue_take(queue, &result, 1, -1) > 0)
                mr_result_free(&result);
        close(queue->fd);
        pthread_cond_destroy(&queue->more);
        pthread_mutex_destroy(&queue->lock);
        free(queue);
}

void mr_result_free(struct mr_result *result)
{
        mr_object_info_free(&result->object);
        mr_page_free(result->page);
        result->page = NULL;
}
