/*
 * rdma_transfer.h - what the two directions of transfers share: rdma_transfer.c (begin, gate, end),
 * transfer_get.c, transfer_put.c. Nobody else includes it.
 */
#ifndef GATEWAY_RDMA_RDMA_TRANSFER_H
#define GATEWAY_RDMA_RDMA_TRANSFER_H

#include "gateway/http/gw_check.h"
#include "gateway/rdma/rdma_session.h"

#define GW_PIECES 16u /* handed over and not through, of one request */

/* One WRITE or READ. */
struct gw_piece {
        struct rdx_write write;
        struct gw_transfer *transfer;
        const uint8_t *span; /* of the engine's, to be let go; NULL: it was copied */
        bool busy;
};

/* owner: the request's loop */
struct gw_transfer {
        unsigned magic; /* gw_check.h */
        struct rdx_request rdx;
        struct gw_request *req;               /* NULL: dropped */
        void (*next)(struct gw_request *req); /* the number is accepted: the request goes on */
        struct gw_loop *loop;
        struct lp_loop *lp;
        bool begun, closed; /* the gate: finish or abandon was called */
        int error;
        uint64_t given, len; /* handed over, to be handed over */
        struct gw_piece piece[GW_PIECES];

        /* GET */
        struct eng_get *get; /* from gw_transfer_send() on */
        unsigned status;
        const uint8_t *span; /* the engine's last, and what of it was not handed over */
        size_t span_left;
        struct lp_reserve reserve;
        bool reserving, reserved, bounce_busy;
        uint8_t *bounce; /* a slot for what does not lie in the arena */

        /* PUT */
        struct eng_put *put; /* from gw_transfer_receive() on, until all is read and hashed */
        bool read;           /* all of it is, and nothing is posted any more */
};

/* ---- rdma_transfer.c ---- */

/* Not handed over, or through. NULL: all are under way. */
struct gw_piece *gw_piece_idle(struct gw_transfer *t);
/*
 * No more is handed over: all was, or (unless whole) what is not posted never will be. Then ended()
 * comes.
 */
void gw_transfer_close(struct gw_transfer *t, bool whole);
void gw_transfer_fail(struct gw_transfer *t, int rv);
/* Nothing of it is posted. */
void gw_transfer_free(struct gw_transfer *t);

/* ---- transfer_get.c, transfer_put.c ---- */

/* Nothing is posted any more, all was well, and the request is there. */
void gw_transfer_written(struct gw_transfer *t);
void gw_transfer_read(struct gw_transfer *t);
void gw_transfer_get_free(struct gw_transfer *t);
void gw_transfer_put_free(struct gw_transfer *t);
/* It waits for the client's device. */
bool gw_transfer_waits(const struct gw_request *req);

#endif
