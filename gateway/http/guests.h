/*
 * guests.h - connections on which no valid signature has come yet, and who goes when there are too
 * many.
 */
#ifndef GATEWAY_HTTP_GUESTS_H
#define GATEWAY_HTTP_GUESTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <bsd/sys/queue.h>

#define GW_GUEST_BUCKETS 1024u

struct gw_conn;
struct gw_gateway;
struct gw_loop;
struct sockaddr;

struct gw_guest_address;

enum gw_guest_state {
        GW_GUEST_NONE,  /* it has carried a valid signature, or is not counted yet */
        GW_GUEST_IN,    /* in the table */
        GW_GUEST_GOING  /* in its loop's list of those to be cut */
};

/* A connection's part. owner: the table's lock */
struct gw_guest {
        enum gw_guest_state state;
        uint64_t since_ns;
        struct gw_loop *loop;
        struct gw_guest_address *address; /* NULL: a proxy's, which is not counted by address */
        TAILQ_ENTRY(gw_guest) by_age;     /* in the table, or in the loop's list */
        TAILQ_ENTRY(gw_guest) by_address;
};

TAILQ_HEAD(gw_guest_list, gw_guest);
LIST_HEAD(gw_guest_bucket, gw_guest_address);

/* All guests of a gateway. Any loop, under the lock. I9: bounded by connections. */
struct gw_guests {
        pthread_mutex_t lock;
        uint64_t seed;
        struct gw_guest_list all; /* the oldest first */
        struct gw_guest_bucket buckets[GW_GUEST_BUCKETS];
};

void gw_guests_init(struct gw_guests *guests);
void gw_guests_free(struct gw_guests *guests);

/* A connection was opened: it is a guest. owner: loop */
void gw_guest_enter(struct gw_conn *conn, const struct sockaddr *from);
/* It has carried a valid signature, or is closed. Harmless when it is no guest. owner: loop */
void gw_guest_leave(struct gw_conn *conn);
/*
 * Cuts the oldest guests of addresses that have too many, but for those that came just now. Called
 * by the sweep of one loop.
 */
void gw_guests_trim(struct gw_gateway *gw, uint64_t now);
/*
 * All connections are taken and one more waits: cuts the oldest guest, or the connection that has
 * been idle for longest. Those that came just now are spared. Called again twice a second as long
 * as one waits. owner: loop
 */
void gw_make_room(struct gw_loop *loop);
/* A connection was closed: loops that have stopped accepting may accept again. owner: loop */
void gw_room_made(struct gw_loop *loop);
void gw_guests_start(struct gw_loop *loop);

#endif
