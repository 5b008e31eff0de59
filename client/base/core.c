/*
 * core.c - what every part of a client asks of it: whether it was canceled, what is under way, time
 * and chance.
 */
#include "client/base/core.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

void mr_client_cancel(struct mr_client *client)
{
        atomic_store(&client->canceled, true);
        mr_core_wake(client);
}

bool mr_client_canceled(const struct mr_client *client)
{
        return atomic_load(&client->canceled);
}

int mr_core_enter(struct mr_client *client)
{
        if (client->pid != getpid())
                return -ECHILD;
        pthread_mutex_lock(&client->lock);
        client->busy++;
        pthread_mutex_unlock(&client->lock);
        return 0;
}

void mr_core_leave(struct mr_client *client)
{
        pthread_mutex_lock(&client->lock);
        assert(client->busy > 0);
        client->busy--;
        if (client->busy == 0)
                pthread_cond_broadcast(&client->quiet);
        pthread_mutex_unlock(&client->lock);
}

void mr_core_wake(struct mr_client *client)
{
        client->wake(client);
}

uint32_t mr_core_random(void)
{
        uint32_t value = 0;

        /* only spreads retries; without randomness they would still be bounded */
        if (getrandom(&value, sizeof(value), 0) != (ssize_t)sizeof(value))
                value = (uint32_t)mr_core_now_ms() * 2654435761u;
        return value;
}

static int64_t ms_of(clockid_t clock)
{
        struct timespec now;

        clock_gettime(clock, &now);
        return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t mr_core_now_ms(void)
{
        return ms_of(CLOCK_REALTIME);
}

int64_t mr_core_clock_ms(void)
{
        return ms_of(CLOCK_MONOTONIC);
}

int mr_core_thread(pthread_t *thread, void *(*run)(void *arg), void *arg)
{
        sigset_t all, before;
        int rv;

        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, &before);
        rv = -pthread_create(thread, NULL, run, arg);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return rv;
}
