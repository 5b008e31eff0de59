/*
 * workers.h - threads for what takes time: reading and hashing bodies, credentials, long answers.
 * Private to client/.
 */
#ifndef CLIENT_WORKERS_H
#define CLIENT_WORKERS_H

#include "client/base/core.h"

/* Work for a worker. owner: the caller until it is run */
struct mr_job {
        void (*run)(void *arg);
        void *arg;
        struct mr_job *next;
};

/* Runs the job on a worker or, where none can be started, at once. */
void mr_work(struct mr_client *client, struct mr_job *job);
/* Waits for the threads. Nothing is queued any more. */
void mr_work_end(struct mr_client *client);

#endif
