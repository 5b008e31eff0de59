/*
 * bounce.h - registered memory for small objects on their way to a client: many share a slot of the
 * loop's arena, which comes when it is needed and goes back when the last of their WRITEs has
 * completed.
 *
 * Who waits here holds nothing that others wait for, and what is taken is handed over at once, so
 * that it comes back whatever else waits. On one loop.
 */
#ifndef GATEWAY_RDMA_PACK_H
#define GATEWAY_RDMA_PACK_H

#include "loop.h"
#include "rdma.h"

#include "gateway/http/gw_check.h"

#define GW_PACK_SLOTS  2u  /* of one bounce buffer */
#define GW_PACK_PIECES 64u /* of one slot */

struct gw_bounce_slot;

struct gw_bounce_piece {
        struct rdx_write write;
        struct gw_bounce_slot *slot;
};

struct gw_bounce_slot {
        unsigned magic; /* gw_check.h */
        struct gw_bounce *bounce;
        struct lp_reserve reserve;
        uint8_t *base; /* NULL: it is not held */
        bool waiting;  /* for its reservation */
        size_t used;
        unsigned pieces, out; /* taken; of them not completed */
        struct gw_bounce_piece piece[GW_PACK_PIECES];
};

/* owner: whoever embeds it. Zero it, and call gw_bounce_init() */
struct gw_bounce {
        unsigned magic; /* gw_check.h */
        struct lp_loop *loop;
        /*
         * There is room again (0), or for who waited there is none (ENG_GET_BUSY). Who is called
         * asks again for whom it let wait, and then gw_bounce_trim(); it may free the bounce
         * buffer. Never inside a call.
         */
        void (*changed)(struct gw_bounce *bounce, int rv);
        bool wanted; /* somebody was told to wait */
        struct gw_bounce_slot slot[GW_PACK_SLOTS];
};

void gw_bounce_init(struct gw_bounce *bounce, struct lp_loop *loop, void (*changed)(struct gw_bounce *bounce, int rv));
/*
 * A write with len bytes (1 .. RDX_WRITE_MAX) of memory, to be filled and given to
 * rdx_batch_write() before the loop does anything else; its done() is the bounce buffer's. -EAGAIN:
 * changed() will be called; else the error.
 */
int gw_bounce_take(struct gw_bounce *bounce, size_t len, struct rdx_write **out);
/* Gives back what nobody uses. waited: somebody waits for room. */
void gw_bounce_trim(struct gw_bounce *bounce, bool waited);
/* Nothing of it is out, nothing waits: it may be freed. */
bool gw_bounce_idle(const struct gw_bounce *bounce);
/* The loop runs no more: gives up waiting. Nothing may be out. */
void gw_bounce_end(struct gw_bounce *bounce);

#endif
