/*
 * core.h - what a client is made of: settings, credentials, turns, loops, workers, operations under
 * way. Private to client/.
 */
#ifndef CLIENT_CORE_H
#define CLIENT_CORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "client.h"
#include "client/base/endpoints.h"

#define MR_PARALLEL_MAX 256u
#define MR_THREADS_MAX  16u
#define MR_OP_SLOTS     1024u

struct mr_creds;
struct mr_rdma_context;
struct mr_job;
struct mr_loop;
struct mr_op;
struct mr_request;

/* A queue of requests, linked by their `next`. Guarded by whoever has it. */
struct mr_request_list {
        struct mr_request *first, *last;
};

#define MR_ADMIN_START_MAX 129u

struct mr_client {
        /* constant after mr_core_new() */
        struct mr_settings settings; /* its credentials are empty: creds has them */
        unsigned threads;
        bool admin_tls;
        char admin_host[512];     /* value of the Host header: without a default port */
        struct mr_creds *creds;                   /* has a lock of its own */
        struct mr_rdma_context *rdma;             /* RDMA */
        pid_t pid;
        void (*wake)(struct mr_client *client); /* of those that send: see mr_core_wake() */

        atomic_bool canceled; /* any thread, signal handlers */
        atomic_uint no_batch; /* any thread: a mask of the endpoints that have refused GetBatch */
        _Atomic(struct mr_loop *)
                loop[MR_THREADS_MAX]; /* written under lock, read by signal handlers; never taken away before the end */

        /* guarded by lock */
        pthread_mutex_t lock;
        pthread_cond_t quiet; /* busy became 0 */
        pthread_cond_t work;  /* a worker has something to do, or is to end */
        struct mr_endpoints endpoints; /* their number, URLs and hosts are constant */
        unsigned loops;
        unsigned busy;                  /* requests, operations and jobs that have not ended */
        unsigned active;                /* requests that have a turn: at most settings.parallel */
        struct mr_request_list waiting; /* for a turn */
        struct mr_job *job_first, *job_last;
        pthread_t worker[MR_THREADS_MAX];
        unsigned workers, workers_idle;
        bool ending;
        uint64_t next_op;
        char admin_start[MR_ADMIN_START_MAX]; /* what the admin listener called its start last; "": not known */
        struct mr_op *op[MR_OP_SLOTS];        /* by id, linked */
};

/* Of something that must end before the client may go. enter: -ECHILD after a fork. */
int mr_core_enter(struct mr_client *client);
void mr_core_leave(struct mr_client *client);

/* Makes the loops look at what has been stopped. Also in signal handlers. */
void mr_core_wake(struct mr_client *client);

uint32_t mr_core_random(void);
int64_t mr_core_now_ms(void);   /* wall clock */
int64_t mr_core_clock_ms(void); /* monotonic */

/* Starts a thread that no signal interrupts: those are the program's. */
int mr_core_thread(pthread_t *thread, void *(*run)(void *arg), void *arg);

#endif
