/*
 * curl_loop.c - sends requests and waits for their pauses, on a thread of its own with a curl multi
 * handle of its own. What a request means is client_request.c's; here is who is running, who
 * sleeps, and what wakes the thread. A client has a few loops, so that bytes are copied and summed
 * on several processors; a request stays on one for an attempt.
 *
 * Bounds (I9): what runs is bounded by the client's turns, what sleeps by what its callers have
 * begun.
 */
#include "client/http/curl_loop.h"

#include "client/http/client_request.h"
#include "client/http/request_list.h"
#include "client/base/object_check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HANDLES_KEPT   64u
#define ENDPOINTS_KEPT 4u
#define LOOK_EVERY_MS  1000

struct mr_loop {
        unsigned magic; /* object_check.h */
        /* constant */
        struct mr_client *client;
        const struct mr_loop_events *events;
        int wake_fd;
        CURLM *multi;
        pthread_t thread;

        atomic_uint load; /* any thread */

        /* guarded by lock */
        pthread_mutex_t lock;
        struct mr_request_list inbox;
        bool ending;

        /* owner: the loop's thread */
        struct mr_request *running; /* linked by next and prev */
        struct mr_request *paused;  /* by time, the next first */
        CURL *idle[HANDLES_KEPT];
        unsigned idle_count;
};

/* ---- those that run -------------------------------------------------------------------------- */

static void run_add(struct mr_loop *loop, struct mr_request *request)
{
        request->prev = NULL;
        request->next = loop->running;
        if (loop->running != NULL)
                loop->running->prev = request;
        loop->running = request;
}

static void run_remove(struct mr_loop *loop, struct mr_request *request)
{
        if (request->prev != NULL)
                request->prev->next = request->next;
        else
                loop->running = request->next;
        if (request->next != NULL)
                request->next->prev = request->prev;
        request->next = NULL;
        request->prev = NULL;
}

static CURL *handle_take(struct mr_loop *loop)
{
        return loop->idle_count > 0 ? loop->idle[--loop->idle_count] : curl_easy_init();
}

static void handle_give(struct mr_loop *loop, CURL *curl)
{
        if (loop->idle_count == HANDLES_KEPT) {
                curl_easy_cleanup(curl);
                return;
        }
        curl_easy_reset(curl); /* connections are the multi handle's */
        loop->idle[loop->idle_count++] = curl;
}

/*
 * An attempt is over: the turn passes on first, so that whoever comes next does not wait for what
 * the caller does now.
 */
static void over(struct mr_loop *loop, struct mr_request *request, CURLcode code)
{
        loop->events->next(loop->client);
        atomic_fetch_sub(&loop->load, 1);
        request->events->over(request, loop, code);
}

static void curl_begin(struct mr_loop *loop, struct mr_request *request)
{
        CURL *curl;

        if (mr_request_stopped(request) || request->events->begin(request) != 0) {
                over(loop, request, CURLE_ABORTED_BY_CALLBACK);
                return;
        }
        curl = handle_take(loop);
        if (curl == NULL) {
                over(loop, request, CURLE_OUT_OF_MEMORY);
                return;
        }
        request->curl = curl;
        mr_request_set(request, curl);
        curl_easy_setopt(curl, CURLOPT_PRIVATE, request);
        run_add(loop, request);
        if (curl_multi_add_handle(loop->multi, curl) != CURLM_OK) {
                run_remove(loop, request);
                request->curl = NULL;
                handle_give(loop, curl);
                over(loop, request, CURLE_OUT_OF_MEMORY);
        }
}

static void curl_finish(struct mr_loop *loop, struct mr_request *request, CURLcode code)
{
        CURL *curl = request->curl;

        run_remove(loop, request);
        curl_multi_remove_handle(loop->multi, curl);
        request->curl = NULL;
        handle_give(loop, curl);
        over(loop, request, code);
}

static void curl_take_results(struct mr_loop *loop)
{
        CURLMsg *message;
        int left;

        while ((message = curl_multi_info_read(loop->multi, &left)) != NULL) {
                struct mr_request *request = NULL;
                CURLcode code = message->data.result;

                if (message->msg != CURLMSG_DONE)
                        continue;
                curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&request);
                curl_finish(loop, request, code);
        }
}

/* ---- those that sleep ------------------------------------------------------------------------ */

void mr_loop_pause(struct mr_loop *loop, struct mr_request *request, uint32_t ms)
{
        struct mr_request **at = &loop->paused;

        request->due_ms = mr_core_clock_ms() + ms;
        while (*at != NULL && (*at)->due_ms <= request->due_ms)
                at = &(*at)->next;
        request->next = *at;
        *at = request;
}

static void wake_due(struct mr_loop *loop)
{
        int64_t now = mr_core_clock_ms();

        while (loop->paused != NULL && loop->paused->due_ms <= now) {
                struct mr_request *request = loop->paused;

                loop->paused = request->next;
                request->next = NULL;
                request->events->ready_again(request);
        }
}

static int wait_ms(const struct mr_loop *loop)
{
        int64_t left;

        if (loop->paused == NULL)
                return LOOK_EVERY_MS;
        left = loop->paused->due_ms - mr_core_clock_ms();
        return left < 0 ? 0 : left > LOOK_EVERY_MS ? LOOK_EVERY_MS : (int)left;
}

/* ---- those that were stopped ----------------------------------------------------------------- */

static void sweep_paused(struct mr_loop *loop)
{
        struct mr_request **at = &loop->paused, *stopped = NULL;

        while (*at != NULL) {
                struct mr_request *request = *at;

                if (!mr_request_stopped(request)) {
                        at = &request->next;
                        continue;
                }
                *at = request->next;
                request->next = stopped;
                stopped = request;
        }
        while (stopped != NULL) {
                struct mr_request *next = stopped->next;

                stopped->next = NULL;
                stopped->events->canceled(stopped);
                stopped = next;
        }
}

static void curl_fail_all(struct mr_loop *loop)
{
        struct mr_request_list waiting = {0};
        struct mr_request *request = loop->running;

        while (request != NULL) {
                struct mr_request *next = request->next;

                /* what curl_finish() calls may begin requests, never end others: next stays */
                if (mr_request_stopped(request))
                        curl_finish(loop, request, CURLE_ABORTED_BY_CALLBACK);
                request = next;
        }
        sweep_paused(loop);
        loop->events->sweep(loop->client, &waiting);
        while ((request = mr_list_pop(&waiting)) != NULL)
                request->events->canceled(request);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool take_inbox(struct mr_loop *loop)
{
        struct mr_request_list list;
        struct mr_request *request;
        bool ending;

        pthread_mutex_lock(&loop->lock);
        list = loop->inbox;
        loop->inbox = (struct mr_request_list){0};
        ending = loop->ending;
        pthread_mutex_unlock(&loop->lock);
        while ((request = mr_list_pop(&list)) != NULL)
                curl_begin(loop, request);
        return !ending;
}

static void *loop_main(void *arg)
{
        struct mr_loop *loop = MR_CAST(mr_loop, arg);
        struct curl_waitfd extra = {.fd = loop->wake_fd, .events = CURL_WAIT_POLLIN};
        int64_t looked_ms = mr_core_clock_ms();
        int running;

        while (take_inbox(loop)) {
                uint64_t count;
                bool woken;

                curl_multi_perform(loop->multi, &running);
                curl_take_results(loop);
                wake_due(loop);
                extra.revents = 0;
                curl_multi_poll(loop->multi, &extra, 1, wait_ms(loop), NULL);
                woken = read(loop->wake_fd, &count, sizeof(count)) == (ssize_t)sizeof(count);
                if (woken || mr_core_clock_ms() - looked_ms >= LOOK_EVERY_MS) {
                        curl_fail_all(loop);
                        looked_ms = mr_core_clock_ms();
                }
        }
        return NULL;
}

/* Idle connections kept: to each of a few endpoints as many as may be under way. */
static long loop_connections(const struct mr_client *client)
{
        unsigned endpoints = client->endpoints.count < ENDPOINTS_KEPT ? client->endpoints.count : ENDPOINTS_KEPT;

        return (long)client->settings.parallel * (long)endpoints;
}

int mr_loop_new(struct mr_client *client, const struct mr_loop_events *events, struct mr_loop **out)
{
        struct mr_loop *loop = calloc(1, sizeof(*loop));
        int rv = -ENOMEM;

        if (loop == NULL)
                return -ENOMEM;
        loop->magic = mr_loop_magic;
        loop->client = client;
        loop->events = events;
        pthread_mutex_init(&loop->lock, NULL);
        loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (loop->wake_fd < 0) {
                rv = -errno;
                goto err_free;
        }
        loop->multi = curl_multi_init();
        if (loop->multi == NULL)
                goto err_close;
        curl_multi_setopt(loop->multi, CURLMOPT_MAXCONNECTS, loop_connections(client));
        rv = mr_core_thread(&loop->thread, loop_main, loop);
        if (rv != 0)
                goto err_multi;
        *out = loop;
        return 0;

err_multi:
        curl_multi_cleanup(loop->multi);
err_close:
        close(loop->wake_fd);
err_free:
        pthread_mutex_destroy(&loop->lock);
        free(loop);
        return rv;
}

void mr_loop_free(struct mr_loop *loop)
{
        pthread_mutex_lock(&loop->lock);
        loop->ending = true;
        pthread_mutex_unlock(&loop->lock);
        mr_loop_wake(loop);
        pthread_join(loop->thread, NULL);
        for (unsigned i = 0; i < loop->idle_count; i++)
                curl_easy_cleanup(loop->idle[i]);
        curl_multi_cleanup(loop->multi);
        close(loop->wake_fd);
        pthread_mutex_destroy(&loop->lock);
        free(loop);
}

void mr_loop_wake(struct mr_loop *loop)
{
        uint64_t one = 1;
        ssize_t n = write(loop->wake_fd, &one, sizeof(one));

        (void)n; /* full means that it wakes anyway */
}

unsigned mr_loop_load(const struct mr_loop *loop)
{
        return atomic_load(&loop->load);
}

void mr_loop_send(struct mr_loop *loop, struct mr_request *request)
{
        bool first;

        atomic_fetch_add(&loop->load, 1);
        pthread_mutex_lock(&loop->lock);
        first = loop->inbox.first == NULL;
        mr_list_push(&loop->inbox, request);
        pthread_mutex_unlock(&loop->lock);
        if (first)
                mr_loop_wake(loop);
}
