/* job_queue.h - jobs done by several threads, handed out by one. Private to this folder. */
#ifndef CLI_JOB_QUEUE_H
#define CLI_JOB_QUEUE_H

#include <stdbool.h>

struct cli_work;

/*
 * run(arg, job) is called on one of the threads for each job, which it then owns. -ENOMEM, -EAGAIN.
 */
int cli_work_new(unsigned threads, void (*run)(void *arg, void *job), void *arg, struct cli_work **out);
/* Hands a job over; waits while 1,024 are waiting (I9). */
void cli_work_add(struct cli_work *work, void *job);
/* Waits for all jobs, ends the threads, frees work. NULL is allowed. */
void cli_work_finish(struct cli_work *work);

#endif
