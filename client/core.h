/* core.h - what a client is made of: its settings, its turn-taking, its curl handles. Private to this folder. */
#ifndef CLIENT_CORE_H
#define CLIENT_CORE_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "client.h"

struct mr_client {
        /* constant after mr_client_new() */
        struct mr_settings settings;
        bool endpoint_tls, admin_tls;
        char endpoint_host[512], admin_host[512]; /* value of the Host header: without a default port */

        atomic_bool canceled; /* any thread, signal handlers */

        /* guarded by lock */
        pthread_mutex_t lock;
        pthread_cond_t idle_more; /* a handle was put back */
        CURL *idle[64];           /* handles with their kept connections, most recently used last */
        unsigned idle_count, in_use;
};

/*
 * A handle of its own for the calling thread; waits while `parallel` are in use. The wait ends because whoever holds
 * one holds it for one attempt of one request, which its timeouts bound. -ECANCELED (not with urgent), -ENOMEM.
 */
int mr_core_take(struct mr_client *client, bool urgent, CURL **out);
void mr_core_give(struct mr_client *client, CURL *handle);

/* Sleeps; -ECANCELED as soon as the client is canceled, unless urgent. */
int mr_core_sleep(struct mr_client *client, uint32_t ms, bool urgent);

uint32_t mr_core_random(void);
int64_t mr_core_now_ms(void);

/*
 * Runs job(arg) on up to `threads` threads at once, the caller's among them, and returns when all have. Threads that
 * cannot be started are done without.
 */
void mr_core_together(unsigned threads, void (*job)(void *arg), void *arg);

#endif
