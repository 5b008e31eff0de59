/*
 * client_wait.h - waiting for something that ends on a thread of the client's. Private to client/.
 */
#ifndef CLIENT_WAIT_H
#define CLIENT_WAIT_H

#include <pthread.h>
#include <stdbool.h>

/* owner: the caller that waits; told once by another thread */
struct mr_wait {
        pthread_mutex_t lock;
        pthread_cond_t told;
        bool over;
        int rv;
};

#define MR_WAIT_INIT                                                                                                   \
        {                                                                                                              \
                .lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER                                    \
        }

static inline void mr_wait_tell(struct mr_wait *wait, int rv)
{
        pthread_mutex_lock(&wait->lock);
        wait->rv = rv;
        wait->over = true;
        pthread_cond_signal(&wait->told);
        pthread_mutex_unlock(&wait->lock);
}

/* Until told; returns what. */
static inline int mr_wait_for(struct mr_wait *wait)
{
        int rv;

        pthread_mutex_lock(&wait->lock);
        while (!wait->over)
                pthread_cond_wait(&wait->told, &wait->lock);
        rv = wait->rv;
        wait->over = false;
        pthread_mutex_unlock(&wait->lock);
        return rv;
}

#endif
