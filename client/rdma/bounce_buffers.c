/*
 * bounce_buffers.c - slots of one registered buffer, given out in the order of asking. The buffer
 * is made when the first is asked for. Bounded (I9): 32 MiB a client.
 */
#include "client/rdma/bounce_buffers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

struct mr_bounce {
        struct mr_client *client; /* constant */
        atomic_ullong asked;

        /* guarded by lock */
        pthread_mutex_t lock;
        struct mr_buffer *buffer; /* set once */
        bool taken[MR_BOUNCE_SLOTS];
        struct mr_bounce_wait *first, *last;
};

int mr_bounce_new(struct mr_client *client, struct mr_bounce **out)
{
        *out = calloc(1, sizeof(**out));
        if (*out == NULL)
                return -ENOMEM;
        (*out)->client = client;
        pthread_mutex_init(&(*out)->lock, NULL);
        return 0;
}

void mr_bounce_free(struct mr_bounce *bounce)
{
        if (bounce == NULL)
                return;
        mr_buffer_free(bounce->buffer);
        pthread_mutex_destroy(&bounce->lock);
        free(bounce);
}

int mr_bounce_take(struct mr_bounce *bounce, struct mr_bounce_wait *wait)
{
        int rv = 0;

        wait->slot = -1;
        wait->next = NULL;
        atomic_fetch_add(&bounce->asked, 1);
        pthread_mutex_lock(&bounce->lock);
        if (bounce->buffer == NULL) /* maps, and no more: registered it is by its first grant */
                rv = mr_buffer_new(bounce->client, (size_t)MR_BOUNCE_SLOT * MR_BOUNCE_SLOTS, 0, &bounce->buffer);
        for (unsigned i = 0; rv == 0 && i < MR_BOUNCE_SLOTS && wait->slot < 0; i++)
                if (!bounce->taken[i]) {
                        bounce->taken[i] = true;
                        wait->slot = (int)i;
                }
        if (rv == 0 && wait->slot < 0) {
                if (bounce->last != NULL)
                        bounce->last->next = wait;
                else
                        bounce->first = wait;
                bounce->last = wait;
                rv = 1;
        }
        pthread_mutex_unlock(&bounce->lock);
        return rv;
}

void mr_bounce_put(struct mr_bounce *bounce, struct mr_bounce_wait *wait)
{
        struct mr_bounce_wait *next;

        if (wait->slot < 0)
                return;
        pthread_mutex_lock(&bounce->lock);
        next = bounce->first;
        if (next != NULL) {
                bounce->first = next->next;
                if (bounce->first == NULL)
                        bounce->last = NULL;
                next->slot = wait->slot;
        } else {
                bounce->taken[wait->slot] = false;
        }
        pthread_mutex_unlock(&bounce->lock);
        wait->slot = -1;
        if (next != NULL)
                next->ready(next->arg);
}

struct mr_buffer *mr_bounce_buffer(struct mr_bounce *bounce)
{
        return bounce->buffer; /* the caller has a slot of it */
}

uint64_t mr_bounce_offset(const struct mr_bounce_wait *wait)
{
        assert(wait->slot >= 0);
        return (uint64_t)wait->slot * MR_BOUNCE_SLOT;
}

uint64_t mr_bounce_asked(const struct mr_bounce *bounce)
{
        return atomic_load(&bounce->asked);
}
