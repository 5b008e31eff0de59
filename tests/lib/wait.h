/*
 * wait.h - waiting for what other threads, or other processes, bring about.
 */
#ifndef MILLRACE_TESTS_WAIT_H
#define MILLRACE_TESTS_WAIT_H

#include <unistd.h>

/*
 * Seconds; only a test that fails waits so long, and the slowest machine, with a sanitizer and
 * other tests beside it, has to do with it.
 */
#define WAIT_MOST    120u
#define WAIT_STEP_US 10000u
#define WAIT_TURNS   (WAIT_MOST * (1000000 / WAIT_STEP_US))

/* Until the condition holds; whether it did is for the caller to look at. */
#define WAIT_UNTIL(condition)                                                                                          \
        do {                                                                                                           \
                for (unsigned turns_ = 0; turns_ < WAIT_TURNS && !(condition); turns_++)                               \
                        usleep(WAIT_STEP_US);                                                                          \
        } while (0)

#endif
