/*
 * rdma_statistics.c - what the RDMA module has done, for metrics: counters of the loops, summed by
 * any thread; and the names of what is counted.
 */
#include "rdma/rdma_internal.h"

#include <string.h>

#define NAME(name, text) text,

const char *rdx_end_name(enum rdx_end end)
{
        static const char *const names[] = {RDX_ENDS(NAME)};

        return (unsigned)end < RDX_END_KINDS ? names[end] : "unknown";
}

const char *rdx_decline_name(enum rdx_decline decline)
{
        static const char *const names[] = {RDX_DECLINES(NAME)};

        return (unsigned)decline < RDX_DECLINE_KINDS ? names[decline] : "unknown";
}

const char *rdx_stage_name(enum rdx_stage stage)
{
        static const char *const names[] = {RDX_STAGES(NAME)};

        return (unsigned)stage < RDX_STAGE_KINDS ? names[stage] : "unknown";
}

void rdx_count_decline(struct rdx_server *server, enum rdx_decline decline)
{
        unsigned index = lp_self() != NULL ? lp_index(lp_self()) : 0;

        rdx_count(&server->home[index % server->home_count].counters.declined[decline], 1);
}

static void rdma_statistics_add(uint64_t *sum, const _Atomic uint64_t *counter)
{
        *sum += atomic_load_explicit(counter, memory_order_relaxed);
}

static void add_home(const struct rdx_counters *from, struct rdx_stats *out)
{
        unsigned i, j;

        rdma_statistics_add(&out->connected, &from->connected);
        rdma_statistics_add(&out->requests, &from->requests);
        rdma_statistics_add(&out->batches, &from->batches);
        rdma_statistics_add(&out->entries, &from->entries);
        rdma_statistics_add(&out->writes, &from->writes);
        rdma_statistics_add(&out->reads, &from->reads);
        rdma_statistics_add(&out->bytes_written, &from->bytes_written);
        rdma_statistics_add(&out->bytes_read, &from->bytes_read);
        rdma_statistics_add(&out->bytes_copied, &from->bytes_copied);
        rdma_statistics_add(&out->busy_ns, &from->busy_ns);
        rdma_statistics_add(&out->gap_ns, &from->gap_ns);
        rdma_statistics_add(&out->notices, &from->notices);
        rdma_statistics_add(&out->results, &from->results);
        rdma_statistics_add(&out->in_flight, &from->in_flight);
        rdma_statistics_add(&out->starved, &from->starved);
        rdma_statistics_add(&out->tokens, &from->tokens);
        rdma_statistics_add(&out->token_resets, &from->token_resets);
        for (i = 0; i < RDX_DECLINE_KINDS; i++)
                rdma_statistics_add(&out->declined[i], &from->declined[i]);
        for (i = 0; i < RDX_STAGE_KINDS; i++) {
                rdma_statistics_add(&out->latency_ns[i], &from->latency_ns[i]);
                for (j = 0; j < RDX_LATENCY_BUCKETS; j++)
                        rdma_statistics_add(&out->latency[i][j], &from->latency[i][j]);
        }
}

void rdx_stats_read(const struct rdx_server *server, struct rdx_stats *out)
{
        pthread_mutex_t *lock = (pthread_mutex_t *)(uintptr_t)&server->lock;
        unsigned i;

        memset(out, 0, sizeof(*out));
        for (i = 0; i < server->home_count; i++)
                add_home(&server->home[i].counters, out);
        pthread_mutex_lock(lock);
        out->sessions = server->sessions;
        out->opened = server->opened;
        out->rejected = server->rejected;
        memcpy(out->ended, server->ended, sizeof(out->ended));
        pthread_mutex_unlock(lock);
}
