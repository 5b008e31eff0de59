/*
 * sim_alloc.h - memory of the engine that is not to be had. The engine's library is linked with its
 * calls of malloc(), calloc(), realloc(), abort() and exit() renamed to the ones here.
 */
#ifndef MILLRACE_TESTS_SIM_ALLOC_H
#define MILLRACE_TESTS_SIM_ALLOC_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A history begins: seed says whether allocations fail in it, and how often. */
void sim_alloc_begin(uint64_t seed);
/* Whether they do. */
bool sim_alloc_fails(void);
/* From now on they may, or not. */
void sim_alloc_arm(bool armed);
/* Where the engine's abort() and exit() go while armed: the process is gone. */
extern jmp_buf sim_alloc_gone;

struct eng_buf;
/* eng_buf_new() for the simulator itself: never fails. */
struct eng_buf *sim_buf_new(size_t len);

struct sim_alloc_figures {
        uint64_t failed, ends; /* allocations; processes that ended themselves for that */
};
extern struct sim_alloc_figures sim_alloc_figures;

#endif
