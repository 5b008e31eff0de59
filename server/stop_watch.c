/*
 * stop_watch.c - see stop_watch.h.
 *
 * Closing joins threads, and waits for I/O that the kernel has. A drive that hangs gives neither
 * back. Ending the process without them is safe: it is what a crash is, and the next start replays
 * what the index does not hold yet.
 *
 * A thread of its own waits, since the main thread may be the one that is stuck.
 */
#include "server/stop_watch.h"

#include "server/daemon_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

static struct {
        pthread_t thread;
        bool started; /* owner: the main thread */
        pthread_mutex_t lock;
        pthread_cond_t wake;
        bool ended; /* under lock */
        unsigned seconds;
        int status;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *stop_watch_main(void *arg)
{
        struct timespec until;
        int rv = 0;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += watch.seconds;
        pthread_mutex_lock(&watch.lock);
        while (!watch.ended && rv != ETIMEDOUT)
                rv = pthread_cond_timedwait(&watch.wake, &watch.lock, &until);
        if (!watch.ended) {
                srv_log(SRV_LOG_WARNING, "closing has not ended after %u s: a drive may hang. It is not waited for", watch.seconds);
                _exit(watch.status);
        }
        pthread_mutex_unlock(&watch.lock);
        return NULL;
}

void srv_stop_watch_begin(unsigned seconds, int status)
{
        pthread_condattr_t monotonic;

        watch.seconds = seconds;
        watch.status = status;
        watch.ended = false;
        pthread_condattr_init(&monotonic);
        pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
        pthread_cond_init(&watch.wake, &monotonic);
        pthread_condattr_destroy(&monotonic);
        watch.started = pthread_create(&watch.thread, NULL, stop_watch_main, NULL) == 0;
        if (!watch.started)
                srv_log(SRV_LOG_WARNING, "no thread to watch over the closing: it takes as long as it takes");
}

void srv_stop_watch_end(void)
{
        pthread_mutex_lock(&watch.lock);
        watch.ended = true;
        pthread_cond_signal(&watch.wake);
        pthread_mutex_unlock(&watch.lock);
        if (watch.started)
                pthread_join(watch.thread, NULL);
        watch.started = false;
        pthread_cond_destroy(&watch.wake);
}
