/* request_queue.h - who may send, and on which loop. Private to client/http/. */
#ifndef CLIENT_REQUEST_QUEUE_H
#define CLIENT_REQUEST_QUEUE_H

#include "client/base/core.h"

/* Before the first: sees to it that there is a loop. */
int mr_request_queue_prepare(struct mr_client *client);
/* A request that is ready to be sent gets a loop as soon as fewer than `parallel` are under way. */
void mr_request_queue_add(struct mr_client *client, struct mr_request *request);

#endif
