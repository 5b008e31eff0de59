/*
 * thread.c - joining a thread that may be stuck in the kernel, with a drive that hangs.
 */
#include <pthread.h>
#include <time.h>

#include "engine/drive/drive.h"

bool eng_thread_ends(pthread_t thread, unsigned seconds)
{
        struct timespec until;

#ifdef __SANITIZE_THREAD__ /* it does not know that pthread_clockjoin_np() waits for a thread */
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += seconds;
        return pthread_timedjoin_np(thread, NULL, &until) == 0;
#else
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += seconds;
        return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &until) == 0;
#endif
}
