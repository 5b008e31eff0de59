/*
 * fiber.h - threads of simulated processes that block: each has a stack of its own, and runs until it
 * waits for something, inside one event.
 *
 * The engine looks at drives and opens them on threads, and a remote drive's opening waits there for
 * an answer. pthread_create(), pthread_join(), sem_wait(), usleep() and their like come here (linked
 * with --wrap).
 */
#ifndef MILLRACE_TESTS_SIM_NODES_FIBER_H
#define MILLRACE_TESTS_SIM_NODES_FIBER_H

#include <stdint.h>

/* A thread of the running process, which begins soon and ends by itself. */
void fiber_start(void *(*run)(void *arg), void *arg);
/*
 * The running thread, if one runs, never goes on, and what it does in this event is over. Returns where none runs. Its
 * process is about to be killed.
 */
void fiber_leave(void);
/* The threads of a process that is dead. */
void fibers_clear(unsigned process);

#endif
