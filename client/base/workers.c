/*
 * workers.c - threads that read and hash bodies and fetch credentials: what would hold a loop up.
 * Started as work comes, at most as many as the client has loops (I9). Any thread calls; the lock
 * is held for no longer than a list takes.
 */
#include <assert.h>

#include "client/base/workers.h"

static struct mr_job *job_take(struct mr_client *client)
{
        struct mr_job *job = client->job_first;

        if (job != NULL) {
                client->job_first = job->next;
                if (client->job_first == NULL)
                        client->job_last = NULL;
        }
        return job;
}

static void *client_worker_main(void *arg)
{
        struct mr_client *client = arg;
        struct mr_job *job;

        pthread_mutex_lock(&client->lock);
        for (;;) {
                job = job_take(client);
                if (job != NULL) {
                        pthread_mutex_unlock(&client->lock);
                        job->run(job->arg);
                        pthread_mutex_lock(&client->lock);
                        continue;
                }
                if (client->ending)
                        break;
                client->workers_idle++;
                pthread_cond_wait(&client->work, &client->lock);
                assert(client->workers_idle > 0);
                client->workers_idle--;
        }
        pthread_mutex_unlock(&client->lock);
        return NULL;
}

/* With lock. */
static void worker_start(struct mr_client *client)
{
        if (mr_core_thread(&client->worker[client->workers], client_worker_main, client) == 0)
                client->workers++;
}

void mr_work(struct mr_client *client, struct mr_job *job)
{
        bool here;

        job->next = NULL;
        pthread_mutex_lock(&client->lock);
        if ((client->workers_idle == 0 || client->job_first != NULL) && client->workers < client->threads)
                worker_start(client);
        here = client->workers == 0;
        if (!here) {
                if (client->job_last != NULL)
                        client->job_last->next = job;
                else
                        client->job_first = job;
                client->job_last = job;
                pthread_cond_signal(&client->work);
        }
        pthread_mutex_unlock(&client->lock);
        if (here)
                job->run(job->arg);
}

void mr_work_end(struct mr_client *client)
{
        pthread_mutex_lock(&client->lock);
        client->ending = true;
        pthread_cond_broadcast(&client->work);
        pthread_mutex_unlock(&client->lock);
        for (unsigned i = 0; i < client->workers; i++)
                pthread_join(client->worker[i], NULL);
}
