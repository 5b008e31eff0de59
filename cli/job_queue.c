/*
 * job_queue.c - a bounded queue of jobs and the threads that do them: what makes recursive commands
 * parallel. The main thread adds, from a walk of a folder or a listing; jobs must not add jobs, or
 * a full queue would wait for itself.
 */
#include "job_queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define QUEUE   1024u
#define THREADS 64u

struct cli_work {
        void (*run)(void *arg, void *job);
        void *arg;
        pthread_t thread[THREADS];
        unsigned threads;
        /* guarded by lock */
        pthread_mutex_t lock;
        pthread_cond_t more, room;
        void *queue[QUEUE];
        unsigned head, count;
        bool ending;
};

static void *work_main(void *arg)
{
        struct cli_work *work = arg;

        pthread_mutex_lock(&work->lock);
        for (;;) {
                void *job;

                while (work->count == 0 && !work->ending)
                        pthread_cond_wait(&work->more, &work->lock);
                if (work->count == 0)
                        break;
                job = work->queue[work->head];
                work->head = (work->head + 1) % QUEUE;
                work->count--;
                pthread_cond_signal(&work->room);
                pthread_mutex_unlock(&work->lock);
                work->run(work->arg, job);
                pthread_mutex_lock(&work->lock);
        }
        pthread_mutex_unlock(&work->lock);
        return NULL;
}

int cli_work_new(unsigned threads, void (*run)(void *arg, void *job), void *arg, struct cli_work **out)
{
        struct cli_work *work = calloc(1, sizeof(*work));
        int rv = 0;

        if (work == NULL)
                return -ENOMEM;
        work->run = run;
        work->arg = arg;
        pthread_mutex_init(&work->lock, NULL);
        pthread_cond_init(&work->more, NULL);
        pthread_cond_init(&work->room, NULL);
        while (work->threads < threads && work->threads < THREADS && rv == 0) {
                rv = pthread_create(&work->thread[work->threads], NULL, work_main, work);
                work->threads += rv == 0;
        }
        if (work->threads == 0) {
                cli_work_finish(work);
                return -rv;
        }
        *out = work; /* with fewer threads than wished for it is only slower */
        return 0;
}

void cli_work_add(struct cli_work *work, void *job)
{
        pthread_mutex_lock(&work->lock);
        while (work->count == QUEUE)
                pthread_cond_wait(&work->room, &work->lock);
        work->queue[(work->head + work->count) % QUEUE] = job;
        work->count++;
        pthread_cond_signal(&work->more);
        pthread_mutex_unlock(&work->lock);
}

void cli_work_finish(struct cli_work *work)
{
        if (work == NULL)
                return;
        pthread_mutex_lock(&work->lock);
        work->ending = true;
        pthread_cond_broadcast(&work->more);
        pthread_mutex_unlock(&work->lock);
        for (unsigned i = 0; i < work->threads; i++)
                pthread_join(work->thread[i], NULL);
        pthread_cond_destroy(&work->room);
        pthread_cond_destroy(&work->more);
        pthread_mutex_destroy(&work->lock);
        free(work);
}
