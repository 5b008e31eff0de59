/*
 * current.c - whether what was read here is current: in a cluster, while this process leads the pool for
 * certain.
 */
#include "engine/base/store.h"

#include <stdatomic.h>

bool eng_is_current(const struct eng_store *store)
{
        const struct eng_cluster *cluster = store->options.cluster;

        if (cluster == NULL)
                return true;
        atomic_thread_fence(memory_order_seq_cst); /* the clock is read after what is judged by it */
        return (cluster->clock_ns != NULL ? cluster->clock_ns() : lp_boot_clock()) < atomic_load(cluster->lease_end);
}
