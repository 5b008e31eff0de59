/*
 * bounce_buffers.h - a bounded pool of registered memory, for bytes whose own place is not
 * registered: they come there first and are copied. Private to client/. Any thread.
 */
#ifndef CLIENT_BOUNCE_BUFFERS_H
#define CLIENT_BOUNCE_BUFFERS_H

#include "client/base/core.h"

#define MR_BOUNCE_SLOT  (8u << 20) /* as long as one ranged GET of a download */
#define MR_BOUNCE_SLOTS 4u

struct mr_bounce;
struct mr_buffer;

/* Who wants a slot. owner: the caller, but while it is queued */
struct mr_bounce_wait {
        void (*ready)(void *arg); /* on the thread of whoever gave a slot back; must not wait */
        void *arg;
        int slot; /* -1: none */
        struct mr_bounce_wait *next;
};

int mr_bounce_new(struct mr_client *client, struct mr_bounce **out);
/* Nothing is taken. */
void mr_bounce_free(struct mr_bounce *bounce); /* NULL is allowed */
/* 0: wait->slot is set. 1: it will be, and then ready() is called. -ENOMEM. */
int mr_bounce_take(struct mr_bounce *bounce, struct mr_bounce_wait *wait);
void mr_bounce_put(struct mr_bounce *bounce, struct mr_bounce_wait *wait);
/* Where a slot lies. */
struct mr_buffer *mr_bounce_buffer(struct mr_bounce *bounce);
uint64_t mr_bounce_offset(const struct mr_bounce_wait *wait);
/* How often one was asked for, ever. */
uint64_t mr_bounce_asked(const struct mr_bounce *bounce);

#endif
