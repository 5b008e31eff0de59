/*
 * worker.h - a thread for what blocks: index commits, preparing and unlinking files, statvfs.
 *
 * A drive has two: one for the index, one for files, so that neither waits for the other.
 */
#ifndef MILLRACE_ENGINE_DRIVE_WORKER_H
#define MILLRACE_ENGINE_DRIVE_WORKER_H

#include <pthread.h>
#include <stdbool.h>

#include "loop.h"

enum eng_job_state { ENG_JOB_IDLE, ENG_JOB_QUEUED, ENG_JOB_RAN };

/*
 * A job is a member of what it is about, so handing it over allocates nothing. Owner: the loop
 * while IDLE, the worker while QUEUED, the loop again once RAN (which the worker sets before it
 * posts msg).
 */
struct eng_job {
        void (*run)(struct eng_job *job);  /* on the worker */
        void (*done)(struct eng_job *job); /* on the loop */
        _Atomic enum eng_job_state state;
        struct lp_msg msg;
        struct eng_job *next;
};

/* owner: whoever started it, but for what lies under lock */
struct eng_worker {
        pthread_t thread;
        bool started;
        struct lp_loop *loop;
        pthread_mutex_t lock;
        pthread_cond_t wake;
        bool stopping; /* under lock, like the two below */
        struct eng_job *first, *last;
};

/* name: at most 15 bytes, for ps and gdb. */
int eng_worker_start(struct eng_worker *worker, struct lp_loop *loop, const char *name);
/* Loop: job is IDLE. */
void eng_worker_give(struct eng_worker *worker, struct eng_job *job);
/*
 * Runs what is queued, then ends the thread. Jobs that ran have their message in the loop's mailbox
 * still. Harmless when not started.
 */
void eng_worker_stop(struct eng_worker *worker);
/*
 * The same, if its thread ends within that time. False: a job has not come back; the worker, and
 * what its jobs use, must stay.
 */
bool eng_worker_ends(struct eng_worker *worker, unsigned seconds);

#endif
