/*
 * request_queue.c - who may send, and on which loop. At most `parallel` requests of a client have a
 * turn at once (I9), the others wait in order, the urgent before the rest. Any thread calls; the
 * lock is held for no longer than a list takes.
 */
#include <assert.h>

#include "client/http/request_queue.h"

#include "client/http/curl_loop.h"
#include "client/http/client_request.h"
#include "client/http/request_list.h"

#define LOOP_FULL 8u /* requests that a loop should have before another one is started */

static const struct mr_loop_events loop_events;

/* With lock. There is one: mr_request_queue_prepare() was asked. */
static struct mr_loop *queue_choose(struct mr_client *client)
{
        struct mr_loop *best = NULL, *loop;

        for (unsigned i = 0; i < client->loops; i++) {
                loop = atomic_load(&client->loop[i]);
                if (i == 0 || mr_loop_load(loop) < mr_loop_load(best))
                        best = loop;
        }
        if (mr_loop_load(best) >= LOOP_FULL && client->loops < client->threads &&
            mr_loop_new(client, &loop_events, &loop) == 0) {
                atomic_store(&client->loop[client->loops++], loop);
                best = loop;
        }
        return best;
}

int mr_request_queue_prepare(struct mr_client *client)
{
        struct mr_loop *loop;
        int rv = 0;

        pthread_mutex_lock(&client->lock);
        if (client->loops == 0) {
                rv = mr_loop_new(client, &loop_events, &loop);
                if (rv == 0)
                        atomic_store(&client->loop[client->loops++], loop);
        }
        pthread_mutex_unlock(&client->lock);
        return rv;
}

static void wait_first(struct mr_request_list *list, struct mr_request *request)
{
        request->next = list->first;
        list->first = request;
        if (list->last == NULL)
                list->last = request;
}

void mr_request_queue_add(struct mr_client *client, struct mr_request *request)
{
        struct mr_loop *loop = NULL;

        pthread_mutex_lock(&client->lock);
        if (client->active < client->settings.parallel) {
                loop = queue_choose(client);
                client->active++;
        } else if (request->urgent) {
                wait_first(&client->waiting, request);
        } else {
                mr_list_push(&client->waiting, request);
        }
        pthread_mutex_unlock(&client->lock);
        if (loop != NULL)
                mr_loop_send(loop, request);
}

/* An attempt is over: the turn is another's. */
static void queue_next(struct mr_client *client)
{
        struct mr_request *next;
        struct mr_loop *loop = NULL;

        pthread_mutex_lock(&client->lock);
        next = mr_list_pop(&client->waiting);
        if (next != NULL) {
                loop = queue_choose(client);
        } else {
                assert(client->active > 0);
                client->active--;
        }
        pthread_mutex_unlock(&client->lock);
        if (next != NULL)
                mr_loop_send(loop, next);
}

/* Takes those that were stopped out of the queue. */
static void queue_sweep(struct mr_client *client, struct mr_request_list *stopped)
{
        struct mr_request_list kept = {0};
        struct mr_request *request;

        pthread_mutex_lock(&client->lock);
        while ((request = mr_list_pop(&client->waiting)) != NULL)
                mr_list_push(mr_request_stopped(request) ? stopped : &kept, request);
        client->waiting = kept;
        pthread_mutex_unlock(&client->lock);
}

static const struct mr_loop_events loop_events = {.next = queue_next, .sweep = queue_sweep};
