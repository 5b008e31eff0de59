/*
 * pack.h - registered memory for small objects on their way to a client: many share a slot of the loop's arena, which comes when it is needed and goes back
 * when the last of their WRITEs has completed.
 *
 * Who waits here holds nothing that others wait for, and what is taken is handed over at once, so that it comes back whatever else waits. On one loop.
 */
#ifndef GATEWAY_RDMA_PACK_H
#define GATEWAY_RDMA_PACK_H

#include "loop.h"
#include "rdma.h"

#include "gateway/http/gw_check.h"

#define GW_PACK_SLOTS  2u  /* of one pack */
#define GW_PACK_PIECES 64u /* of one slot */

struct gw_pack_slot;

struct gw_pack_piece {
        struct rdx_write write;
        struct gw_pack_slot *slot;
};

struct gw_pack_slot {
        unsigned magic; /* gw_check.h */
        struct gw_pack *pack;
        struct lp_reserve reserve;
        uint8_t *base; /* NULL: it is not held */
        bool waiting;  /* for its reservation */
        size_t used;
        unsigned pieces, out; /* taken; of them not completed */
        struct gw_pack_piece piece[GW_PACK_PIECES];
};

/* owner: whoever embeds it. Zero it, and call gw_pack_init() */
struct gw_pack {
        unsigned magic; /* gw_check.h */
        struct lp_loop *loop;
        /*
         * There is room again (0), or for who waited there is none (ENG_GET_BUSY). Who is called asks again for whom it let wait, and then gw_pack_trim(); it may free
         * the pack. Never inside a call.
         */
        void (*changed)(struct gw_pack *pack, int rv);
        bool wanted; /* somebody was told to wait */
        struct gw_pack_slot slot[GW_PACK_SLOTS];
};

void gw_pack_init(struct gw_pack *pack, struct lp_loop *loop, void (*changed)(struct gw_pack *pack, int rv));
/*
 * A write with len bytes (1 .. RDX_WRITE_MAX) of memory, to be filled and given to rdx_batch_write() before the loop does anything else; its done() is the pack's.
 * -EAGAIN: changed() will be called; else the error.
 */
int gw_pack_take(struct gw_pack *pack, size_t len, struct rdx_write **out);
/* Gives back what nobody uses. waited: somebody waits for room. */
void gw_pack_trim(struct gw_pack *pack, bool waited);
/* Nothing of it is out, nothing waits: it may be freed. */
bool gw_pack_idle(const struct gw_pack *pack);
/* The loop runs no more: gives up waiting. Nothing may be out. */
void gw_pack_end(struct gw_pack *pack);

#endif
