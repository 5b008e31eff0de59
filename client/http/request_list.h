/*
 * request_list.h - lists of requests, linked by their `next`. Guarded by whoever has one. Private
 * to client/http/.
 */
#ifndef CLIENT_REQUEST_LIST_H
#define CLIENT_REQUEST_LIST_H

#include "client/base/core.h"

void mr_list_push(struct mr_request_list *list, struct mr_request *request);
struct mr_request *mr_list_pop(struct mr_request_list *list);

#endif
