/*
 * current.c - whether what was read here is current: in a cluster, while this process leads the pool for
 * certain.
 */
#include "engine/base/store.h"

#include <stdatomic.h>
#include <time.h>

static uint64_t boottime_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_BOOTTIME, &t);
        return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

bool eng_is_current(const struct eng_store *store)
{
        const struct eng_cluster *cluster = store->options.cluster;

        if (cluster == NULL)
                return true;
        atomic_thread_fence(memory_order_seq_cst); /* the clock is read after what is judged by it */
        return (cluster->clock_ns != NULL ? cluster->clock_ns() : boottime_ns()) < atomic_load(cluster->lease_end);
}
