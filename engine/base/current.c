/*
 * current.c - whether what was read here is current: in a cluster, while this process leads the pool for
 * certain.
 */
#include "engine/base/store.h"

#include <stdatomic.h>

bool eng_is_current(const struct eng_store *store)
{
        const struct eng_cluster *cluster = store->options.cluster;
        const struct eng_leader_link *leader = store->options.leader;

        if (leader != NULL) {
                atomic_thread_fence(memory_order_seq_cst);
                return (leader->clock_ns != NULL ? leader->clock_ns() : lp_boot_clock()) < atomic_load(leader->lease_end);
        }
        if (cluster == NULL)
                return true;
        atomic_thread_fence(memory_order_seq_cst); /* the clock is read after what is judged by it */
        return (cluster->clock_ns != NULL ? cluster->clock_ns() : lp_boot_clock()) < atomic_load(cluster->lease_end);
}
