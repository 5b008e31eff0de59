/*
 * request_list.c - lists of requests, and which of them are to end.
 */
#include "client/http/request_list.h"

#include "client/http/client_request.h"

void mr_list_push(struct mr_request_list *list, struct mr_request *request)
{
        request->next = NULL;
        if (list->last != NULL)
                list->last->next = request;
        else
                list->first = request;
        list->last = request;
}

struct mr_request *mr_list_pop(struct mr_request_list *list)
{
        struct mr_request *request = list->first;

        if (request == NULL)
                return NULL;
        list->first = request->next;
        if (list->first == NULL)
                list->last = NULL;
        request->next = NULL;
        return request;
}

bool mr_request_stopped(const struct mr_request *request)
{
        if (request->stop != NULL && atomic_load(request->stop))
                return true;
        if (request->canceled != NULL && atomic_load(request->canceled))
                return true;
        return !request->urgent && mr_client_canceled(request->client);
}
