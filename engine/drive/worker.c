/*
 * worker.c - the thread behind worker.h.
 *
 * A loop never blocks, so a drive hands its blocking work over here, one job after the other. The
 * queue is bounded by the jobs a drive has as members (I9). The lock guards the queue's pointers
 * only and is held for a few instructions, so the loop that takes it does not wait.
 */
#include "engine/drive/worker.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/drive/drive.h"

static void job_message(struct lp_msg *msg)
{
        struct eng_job *job = container_of(msg, struct eng_job, msg);

        assert(job->state == ENG_JOB_RAN);
        job->state = ENG_JOB_IDLE;
        job->done(job);
}

/* The next job, or NULL when there is none and the worker is stopping. */
static struct eng_job *worker_take(struct eng_worker *worker)
{
        struct eng_job *job;

        pthread_mutex_lock(&worker->lock);
        while (worker->first == NULL && !worker->stopping)
                pthread_cond_wait(&worker->wake, &worker->lock);
        job = worker->first;
        if (job != NULL) {
                worker->first = job->next;
                if (worker->first == NULL)
                        worker->last = NULL;
        }
        pthread_mutex_unlock(&worker->lock);
        return job;
}

static void *worker_main(void *arg)
{
        struct eng_worker *worker = arg;
        struct eng_job *job;

        while ((job = worker_take(worker)) != NULL) {
                assert(job->state == ENG_JOB_QUEUED);
                job->run(job);
                job->state = ENG_JOB_RAN;
                job->msg.run = job_message;
                lp_post(worker->loop, &job->msg);
        }
        return NULL;
}

int eng_worker_start(struct eng_worker *worker, struct lp_loop *loop, const char *name)
{
        int rv;

        assert(!worker->started);
        memset(worker, 0, sizeof(*worker));
        worker->loop = loop;
        pthread_mutex_init(&worker->lock, NULL);
        pthread_cond_init(&worker->wake, NULL);
        rv = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (rv != 0)
                return -rv;
        pthread_setname_np(worker->thread, name);
        worker->started = true;
        return 0;
}

void eng_worker_give(struct eng_worker *worker, struct eng_job *job)
{
        assert(worker->started && lp_self() == worker->loop);
        assert(job->state == ENG_JOB_IDLE);
        job->state = ENG_JOB_QUEUED;
        job->next = NULL;
        pthread_mutex_lock(&worker->lock);
        assert(!worker->stopping);
        if (worker->last != NULL)
                worker->last->next = job;
        else
                worker->first = job;
        worker->last = job;
        pthread_cond_signal(&worker->wake);
        pthread_mutex_unlock(&worker->lock);
}

static void tell_to_stop(struct eng_worker *worker)
{
        pthread_mutex_lock(&worker->lock);
        worker->stopping = true;
        pthread_cond_signal(&worker->wake);
        pthread_mutex_unlock(&worker->lock);
}

static void worker_ended(struct eng_worker *worker)
{
        assert(worker->stopping && worker->first == NULL); /* what was queued has run */
        pthread_cond_destroy(&worker->wake);
        pthread_mutex_destroy(&worker->lock);
        worker->started = false;
}

void eng_worker_stop(struct eng_worker *worker)
{
        if (!worker->started)
                return;
        tell_to_stop(worker);
        pthread_join(worker->thread, NULL);
        worker_ended(worker);
}

bool eng_worker_ends(struct eng_worker *worker, unsigned seconds)
{
        if (!worker->started)
                return true;
        tell_to_stop(worker);
        if (!eng_thread_ends(worker->thread, seconds))
                return false;
        worker_ended(worker);
        return true;
}
