/*
 * get_batch.h - the entries of one GetBatch: looked up and read a few at a time, handed out one by
 * one.
 */
#ifndef GATEWAY_RDMA_GET_BATCH_H
#define GATEWAY_RDMA_GET_BATCH_H

#include <bsd/sys/queue.h>

#include "rdma_wire.h"

#include "gateway/rdma/entry.h"
#include "gateway/http/http_request.h"

#define GW_BATCH_AT_ONCE 64u        /* entries being looked up or waiting to be sent */
#define GW_BATCH_FEW     16u        /* no more are begun before no more than so many are left of them */
#define GW_BATCH_AHEAD   (1u << 20) /* bytes of objects that wait to be sent: no more are looked up beyond */

#define GW_BATCH_READS     8u           /* of those, objects not in a record whose bytes are read before their turn */
#define GW_BATCH_READ_MOST (256u << 10) /* and what of each is wanted at the most */

/*
 *   FREE -> OPENING -> READING -> READY -> (sent) FREE
 *              |____________________^
 */
enum gw_batch_state {
        GW_BATCH_FREE,
        GW_BATCH_OPENING, /* being looked up */
        GW_BATCH_READING, /* the first of its bytes are awaited */
        GW_BATCH_READY    /* result is known; the first bytes are here, unless it is not started */
};

/* One entry under way. owner: its batch */
struct gw_batch_slot {
        unsigned magic; /* gw_check.h */
        struct gw_batch *batch;
        enum gw_batch_state state;
        struct gw_entry entry;
        bool started;        /* its reading: counted in ahead or reads of the batch */
        uint64_t counted;    /* in ahead */
        const uint8_t *span; /* of its get, not sent yet */
        size_t span_left;
        TAILQ_ENTRY(gw_batch_slot) link; /* of free, whole or unread, unless its turn has come, or there is an order */
};

TAILQ_HEAD(gw_batch_slots, gw_batch_slot);

/*
 * owner: its request; what is still being looked up keeps it alive when that is over. On the
 * request's loop
 */
struct gw_batch {
        unsigned magic; /* gw_check.h */
        struct gw_request *req; /* NULL: over */
        char *bytes;            /* of the body */
        struct rdx_body body;
        bool ordered;
        unsigned count, begun, sent; /* entries */
        unsigned opening;
        uint64_t ahead;    /* bytes of those that are started, unless large */
        unsigned reads;    /* of those that are started, large ones */
        uint64_t estimate; /* of those that are OPENING, each */
        struct gw_batch_slot slot[GW_BATCH_AT_ONCE];
        /*
         * Without an order. whole, unread: READY, and need no waiting, or have not been started; as
         * they came
         */
        struct gw_batch_slots free, whole, unread;

        /* being sent (op_get_batch.c) */
        struct gw_batch_slot *current;
        uint64_t left;                      /* bytes of current */
        bool in_frame;                      /* the head of current was written */
        bool tail;                          /* and its tail is still to be */
        bool ended;                         /* the last frame was written */
        uint8_t small[RDX_FRAME_HEAD_MOST]; /* a head or a tail */
        size_t small_len, small_at;
};

/* Takes the body's bytes over. count and ordered are those of rdx_body_check(). NULL: no memory. */
struct gw_batch *gw_batch_new(struct gw_request *req, char *bytes, size_t len, unsigned count, bool ordered);
/* Looks up as many more entries as there is room for. */
void gw_batch_begin(struct gw_batch *batch);
/* The entry whose turn it is, READY; NULL: none is. */
struct gw_batch_slot *gw_batch_pick(struct gw_batch *batch);
/* Its first bytes: 0, or -EAGAIN (the request will be woken). A failure becomes its result. */
int gw_batch_first_bytes(struct gw_batch_slot *slot);
/* It was sent. */
void gw_batch_sent(struct gw_batch_slot *slot);
/* The request is over. */
void gw_batch_end(struct gw_batch *batch);

#endif
