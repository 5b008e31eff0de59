/*
 * initiator.h - requests by a token: what posts them (initiator.c), and the ways to their targets
 * (routes.c).
 *
 *   begin ─> way to the target's port: known, or asked for ─> begun
 *   write ─> line ─> turn ─> ring of what is posted ─> completion ──> done
 *                 <── again, after an error of another request's
 */
#ifndef RDX_INITIATOR_H
#define RDX_INITIATOR_H

#include "rdma/rdma_internal.h"

#define RDX_DIALER_SENDS    64u     /* posted at a time; a power of two */
#define RDX_DIALER_REQUESTS 256u    /* of a loop and device, begun or waiting for a way */
#define RDX_DIALER_INDEX    0xffffu /* in tags, where sessions have the index of their slot */
#define RDX_WAYS            64u

enum rdx_way_state { RDX_WAY_FREE, RDX_WAY_ASKED, RDX_WAY_FOUND };

/*
 * One port of the fabric, as one loop and device reach it. owner: the loop; while ASKED route and
 * result are the asker's
 */
struct rdx_way {
        enum rdx_way_state state;
        bool stale; /* a request failed on it: found anew when nobody uses it */
        struct rdx_dialer *dialer;
        struct rdx_port port;
        unsigned users;
        uint64_t used;
        struct rdx_request *waiting;
        struct rdx_route *route;
        int result;
        struct lp_msg msg;
        struct rdx_way *next; /* in the asker's line */
};

/*
 *   READY ─(a completion failed)─> FAILED: what is behind it comes back flushed ─(reset)─> READY
 *   READY, FAILED ─(post or reset refused, nothing comes back)─> BROKEN ─(made anew at a tick)─> READY
 *   any ─(the server stops, the device is gone)─> OFF
 */
enum rdx_dialer_state { RDX_DIALER_READY, RDX_DIALER_FAILED, RDX_DIALER_BROKEN, RDX_DIALER_OFF };

/* A device's initiator as one loop uses it. owner: that loop */
struct rdx_dialer {
        struct rdx_connection *connection;
        enum rdx_dialer_state state;
        struct rdx_initiator *initiator;     /* NULL: it could not be made (again) yet */
        uint16_t generation;                 /* of it; in every tag */
        struct rdx_job *first, **last;       /* the line */
        struct rdx_job *again, **again_last; /* flushed; they go before the line */
        struct rdx_posted ring[RDX_DIALER_SENDS];
        uint32_t posted, over; /* counts; their difference is in the ring */
        uint64_t progress;     /* when something last completed, or the ring began to fill */
        unsigned requests;
        struct rdx_way way[RDX_WAYS];
};

/* initiator.c. NULL for a dialer is allowed but where it says otherwise */
/* More entries that the connection's queue needs. */
unsigned rdx_dialer_entries(const struct rdx_connection *connection);
/* The connection has one from here on, if tokens are on and the device can. 0 or -ENOMEM. */
int rdx_dialer_open(struct rdx_connection *connection);
/*
 * Nothing of our memory is the device's any more; what was asked for ends with this result, and
 * nothing more is taken.
 */
void rdx_dialer_stop(struct rdx_dialer *dialer, int result);
void rdx_dialer_free(struct rdx_dialer *dialer);
bool rdx_dialer_wants(const struct rdx_dialer *dialer);
bool rdx_dialer_serves(const struct rdx_dialer *dialer); /* not NULL, as below */
void rdx_dialer_turn(struct rdx_dialer *dialer);
void rdx_dialer_sent(struct rdx_dialer *dialer, const struct rdx_done *done);
void rdx_dialer_give(struct rdx_dialer *dialer, struct rdx_job *job);
/* What of the flow is not posted leaves the line. */
void rdx_dialer_drop(struct rdx_dialer *dialer, const struct rdx_flow *flow, int result);
void rdx_dialer_leave(struct rdx_flow *flow);
void rdx_dialer_tick(struct rdx_dialer *dialer, uint64_t now);
/* The beginning of a request by a token, on its loop. */
void rdx_dial(struct rdx_request *request);
/* Its way was found, or was not. */
void rdx_dial_way(struct rdx_request *request, int result);

/* routes.c */
/* 0: it is known; -EINPROGRESS: rdx_dial_way() comes; else there is none (now). */
int rdx_way_take(struct rdx_dialer *dialer, struct rdx_request *request);
void rdx_way_give(struct rdx_way *way);
void rdx_ways_close(struct rdx_dialer *dialer);
/* Starts the thread where one is needed. */
int rdx_asker_open(struct rdx_server *server);
/*
 * Blocking, as long as one question to the network takes. What was asked is answered with
 * -ESHUTDOWN.
 */
void rdx_asker_stop(struct rdx_asker *asker);
void rdx_asker_free(struct rdx_asker *asker);

#endif
