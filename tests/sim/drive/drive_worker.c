/*
 * drive_worker.c - engine/drive/worker.h without threads: each job is one event, some time after it
 * was given.
 */
#include "engine/drive/worker.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "engine/drive/local.h"
#include "tests/sim/drive/disk.h"
#include "tests/sim/drive/world.h"

static void job_message(struct lp_msg *msg)
{
        struct eng_job *job = container_of(msg, struct eng_job, msg);

        job->state = ENG_JOB_IDLE;
        job->done(job);
}

static void run_first(void *arg)
{
        struct eng_worker *worker = arg;
        struct eng_job *job = worker->first;

        if (job == NULL)
                return; /* the worker was stopped meanwhile */
        worker->first = job->next;
        job->run(job);
        disk_figures.jobs++;
        world_moment(worker == &eng_local_of(world.drive)->index_worker ? MOMENT_INDEX : MOMENT_JOB);
        job->state = ENG_JOB_RAN;
        job->msg.run = job_message;
        if (!disk_dead())
                lp_post(worker->loop, &job->msg);
}

int eng_worker_start(struct eng_worker *worker, struct lp_loop *loop, const char *name)
{
        memset(worker, 0, sizeof(*worker));
        worker->loop = loop;
        worker->started = true;
        return 0;
}

void eng_worker_give(struct eng_worker *worker, struct eng_job *job)
{
        struct eng_job **end = &worker->first;

        assert(job->state == ENG_JOB_IDLE && worker->started);
        while (*end != NULL)
                end = &(*end)->next;
        job->state = ENG_JOB_QUEUED;
        job->next = NULL;
        *end = job;
        sim_at(sim_skewed(SIM_DRIVES, 10 * SIM_US, world.tempo.job_ns), NULL, run_first, worker);
}

void eng_worker_stop(struct eng_worker *worker)
{
        while (worker->started && worker->first != NULL)
                run_first(worker);
        worker->started = false;
}

bool eng_worker_ends(struct eng_worker *worker, unsigned seconds)
{
        eng_worker_stop(worker);
        return true;
}
