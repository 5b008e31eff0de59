/* curl_loop.h - a thread that drives requests by a curl multi handle. Private to client/. */
#ifndef CLIENT_CURL_LOOP_H
#define CLIENT_CURL_LOOP_H

#include "client/base/core.h"

/* What a loop tells the client's queue, on its thread. */
struct mr_loop_events {
        void (*next)(struct mr_client *client); /* an attempt is over */
        void (*sweep)(struct mr_client *client,
                      struct mr_request_list *stopped); /* fills the list with those that wait in vain */
};

int mr_loop_new(struct mr_client *client, const struct mr_loop_events *events, struct mr_loop **out);
/* Waits for the thread; nothing may be left in it. */
void mr_loop_free(struct mr_loop *loop);
void mr_loop_wake(struct mr_loop *loop); /* also in signal handlers */
/* Requests that it has, roughly. Any thread. */
unsigned mr_loop_load(const struct mr_loop *loop);

/* Sends the request, whose turn it is. Any thread. */
void mr_loop_send(struct mr_loop *loop, struct mr_request *request);
/* On the loop: gets it ready again after ms. */
void mr_loop_pause(struct mr_loop *loop, struct mr_request *request, uint32_t ms);

#endif
