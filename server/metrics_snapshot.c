/*
 * metrics_snapshot.c - reads the figures of every module, and of the process, into one snapshot.
 *
 * Called by the admin listener's thread. Nothing here takes a lock that a loop could wait for.
 */
#include "server/metrics.h"

#include "server/health_log.h"
#include "server/switches.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static uint64_t count_open_fds(void)
{
        DIR *dir = opendir("/proc/self/fd");
        const struct dirent *entry;
        uint64_t count = 0;

        if (dir == NULL)
                return 0;
        while ((entry = readdir(dir)) != NULL)
                count += entry->d_name[0] != '.';
        closedir(dir);
        return count > 0 ? count - 1 : 0; /* not the one that looks */
}

static uint64_t count_threads(void)
{
        FILE *file = fopen("/proc/self/status", "re");
        unsigned long threads = 0;
        char line[256];

        if (file == NULL)
                return 0;
        while (fgets(line, sizeof(line), file) != NULL)
                if (sscanf(line, "Threads: %lu", &threads) == 1)
                        break;
        fclose(file);
        return threads;
}

static void read_memory(struct srv_process_statistics *out)
{
        FILE *file = fopen("/proc/self/statm", "re");
        unsigned long virtual_pages, resident_pages;

        if (file == NULL)
                return;
        if (fscanf(file, "%lu %lu", &virtual_pages, &resident_pages) == 2) {
                out->virtual_bytes = (uint64_t)virtual_pages * (uint64_t)sysconf(_SC_PAGESIZE);
                out->resident_bytes = (uint64_t)resident_pages * (uint64_t)sysconf(_SC_PAGESIZE);
        }
        fclose(file);
}

static void read_process(struct srv_process_statistics *out)
{
        struct rusage usage;
        struct rlimit limit;

        memset(out, 0, sizeof(*out));
        read_memory(out);
        out->open_fds = count_open_fds();
        out->threads = count_threads();
        if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
                out->max_fds = limit.rlim_cur;
        if (getrusage(RUSAGE_SELF, &usage) == 0)
                out->cpu_seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                                   (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

unsigned srv_pools_read(const struct srv_statistics_source *source, struct srv_pool_statistics out[CL_POOLS_MAX])
{
        const struct srv_pool_source *pools = source->pools->list;
        unsigned i, count = atomic_load_explicit(&source->pools->count, memory_order_acquire);
        struct eng_health *health = count > 1 ? malloc(sizeof(*health)) : NULL;

        for (i = 0; health != NULL && i < count; i++) {
                eng_health_read(pools[i].store, health);
                out[i] = (struct srv_pool_statistics){.number = pools[i].number, .ready = health->ready, .writable = health->writable, .epoch = health->epoch,
                                                      .drives_in = health->drives_in, .objects_below = health->objects_below};
                snprintf(out[i].reason, sizeof(out[i].reason), "%s", health->reason);
        }
        free(health);
        return i;
}

void srv_statistics_read(const struct srv_statistics_source *source, struct srv_statistics *out)
{
        unsigned i;

        memset(out, 0, sizeof(*out));
        srv_health_read(source->store, source->gateway, &out->health);
        eng_verify_read(source->store, &out->verify);
        eng_scrub_read(source->store, &out->scrub, &out->last_scrub);
        gw_stats_read(source->gateway, &out->gateway);
        gw_lifecycle_read(source->gateway, &out->lifecycle);
        gw_logs_read(source->gateway, &out->logs);
        gw_inventory_read(source->gateway, &out->inventory);
        eng_steps_read(source->store, out->steps);
        for (i = 0; i < out->health.drive_count; i++)
                eng_drive_steps_read(source->store, i, out->drive_steps[i]);
        out->loop_count = source->loop_count < SRV_LOOPS_MAX ? source->loop_count : SRV_LOOPS_MAX;
        for (i = 0; i < out->loop_count; i++)
                lp_stats_read(source->loops[i], &out->loops[i]);
        if (source->access_log != NULL)
                srv_access_log_stats(source->access_log, &out->access);
        if (source->rdma != NULL)
                rdx_stats_read(source->rdma, &out->rdma);
        read_process(&out->process);
        srv_forecast_read(source->forecast, &out->forecast);
        out->read_only = srv_switch_read(source->switches, SRV_READ_ONLY).on;
        out->maintenance = srv_switch_read(source->switches, SRV_MAINTENANCE).on;
        out->pool_count = srv_pools_read(source, out->pools);
        srv_cluster_statistics_read(source->link, &out->cluster);
        out->started_ms = source->started_ms;
        out->now_ms = lp_wall_ms();
}
